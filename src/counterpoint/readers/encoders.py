"""Category encoders, and steps that are read by running them on every category."""

from __future__ import annotations

from collections.abc import Hashable
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

from counterpoint.errors import InvalidInput
from counterpoint.features import Categorical, is_missing
from counterpoint.readers.columns import NUMBERS, Columns
from counterpoint.readers.dispatch import on, recategorized, trace
from counterpoint.readers.probe import by_running

__all__: list[str] = []


@on(trace, OneHotEncoder, OrdinalEncoder)
def _(encoder: Any, columns: Columns) -> Columns:
    _settle_categories(encoder, columns, strict=encoder.handle_unknown == "error")
    return by_running(encoder, columns)


@on(trace, TargetEncoder)
def _(encoder: Any, columns: Columns) -> Columns:
    _settle_categories(encoder, columns, strict=False)
    return by_running(encoder, columns)


@on(
    trace,
    Binarizer,
    KBinsDiscretizer,
    Normalizer,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    AdditiveChi2Sampler,
    Nystroem,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
def _(transformer: Any, columns: Columns) -> Columns:
    return by_running(transformer, columns)


def _settle_categories(encoder: Any, columns: Columns, *, strict: bool) -> None:
    """Ask for other categories where the features and a fitted encoder do not agree.

    Parameters
    ----------
    encoder
        A fitted encoder with ``categories_``.
    columns
        Its input.
    strict
        Whether the encoder stops at a category that it does not know.
    """
    wanted: dict[int, tuple[tuple[Hashable, ...], frozenset[Hashable]]] = {}
    for j, listed in enumerate(encoder.categories_):
        known = tuple(value for value in listed.tolist() if not is_missing(value))
        at = columns.raw_feature(j)
        if at is None:
            _refuse_numbers(encoder, columns, j)
            continue
        new = _new_categories(encoder, columns, at, known, strict=strict)
        if new is not None:
            wanted[at] = new
    if wanted:
        raise recategorized(columns, wanted)


def _refuse_numbers(encoder: Any, columns: Columns, j: int) -> None:
    if columns.sources[j] == NUMBERS:
        raise columns.refusal(
            encoder,
            f"it takes categories, but {columns.label(j)} is computed from numbers. "
            "Encode the raw column, or make the categories in the data before fitting.",
        )


def _new_categories(
    encoder: Any, columns: Columns, at: int, known: tuple[Hashable, ...], *, strict: bool
) -> tuple[tuple[Hashable, ...], frozenset[Hashable]] | None:
    """The categories a feature should have instead, and what must not be added; None to keep."""
    feature = columns.features.items[at]
    barred = columns.barred.get(at, frozenset())
    if not isinstance(feature, Categorical):
        if columns.fixed:
            raise InvalidInput(
                f"Expected categories in column {feature.name!r}, which {columns.place(encoder)} "
                f"encodes; the features say {type(feature).__name__}. Describe it as "
                f"Categorical({feature.name!r}, {known!r})."
            )
        return tuple(value for value in known if value not in barred), frozenset()
    unknown = frozenset(feature.categories).difference(known) if strict else frozenset()
    if columns.fixed:
        if unknown:
            raise InvalidInput(
                f"Expected categories of column {feature.name!r} that {columns.place(encoder)} "
                f"knows, {known!r}; got {sorted(map(repr, unknown))}. Leave them out."
            )
        return None
    kept = tuple(value for value in feature.categories if value not in unknown)
    own = set(feature.categories)
    added = tuple(value for value in known if value not in own and value not in barred)
    if not unknown and not added:
        return None
    if not kept and not added:
        raise InvalidInput(
            f"Column {feature.name!r} holds no category that {columns.place(encoder)} knows; "
            f"expected some of {known!r}. Pass the data that the model was fitted on."
        )
    return kept + added, unknown
