"""Category encoders, and steps that are read by running them on every category."""

from __future__ import annotations

from typing import Any

from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    Nystroem,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    TargetEncoder,
)

from counterpoint.models.categories import settle_categories
from counterpoint.models.columns import Columns, Fill
from counterpoint.models.dispatch import on, trace
from counterpoint.models.probe import by_running
from counterpoint.rows.features import is_missing

__all__: list[str] = []

OWN = "the model takes that for a category of its own"


@on(trace, OneHotEncoder, OrdinalEncoder)
def _(encoder: Any, columns: Columns) -> Columns:
    settle_categories(encoder, columns, strict=encoder.handle_unknown == "error")
    return by_running(encoder, _told_of_missing(encoder, columns))


@on(trace, TargetEncoder)
def _(encoder: Any, columns: Columns) -> Columns:
    settle_categories(encoder, columns, strict=False)
    return by_running(encoder, _told_of_missing(encoder, columns))


def _told_of_missing(encoder: Any, columns: Columns) -> Columns:
    """The columns, with a note where the encoder was fitted on missing cells and knows them."""
    known = [any(map(is_missing, listed.tolist())) for listed in encoder.categories_]
    return columns.filled({j: Fill(why_not=OWN if own else "") for j, own in enumerate(known)})


@on(
    trace,
    AdditiveChi2Sampler,
    Binarizer,
    KBinsDiscretizer,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
)
def _(transformer: Any, columns: Columns) -> Columns:
    """Bent, but column by column."""
    return by_running(transformer, columns)


@on(trace, Normalizer, Nystroem, PolynomialCountSketch, RBFSampler, SkewedChi2Sampler)
def _(transformer: Any, columns: Columns) -> Columns:
    """Bent, with outputs that depend on many columns."""
    return by_running(transformer, columns, mixes=True)
