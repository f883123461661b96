"""Readers of preprocessing steps: scalers, projections, encoders, imputers.

A step that is affine gives its fitted attributes as a matrix and an offset. Any other is run on
every category, so it may take numbers only if it passes them on as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import (
    PCA,
    FactorAnalysis,
    FastICA,
    IncrementalPCA,
    MiniBatchSparsePCA,
    SparsePCA,
    TruncatedSVD,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    Nystroem,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import BaseRandomProjection

from counterpoint.models.attributes import dense
from counterpoint.models.categories import settle_categories
from counterpoint.models.columns import NUMBERS, Columns, Fill
from counterpoint.models.dispatch import on, trace
from counterpoint.models.form import Magnitude
from counterpoint.models.running import by_running, run
from counterpoint.rows.table import is_missing

__all__: list[str] = []

OWN = "the model takes that for a category of its own"
DEPENDS = "the pipeline's fill for it depends on other columns"
INDICATED = "the model also looks at whether it is missing"


# --- affine, column by column ---


@on(trace, StandardScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    scale = 1.0 / dense(scaler.scale_) if scaler.with_std else np.ones(len(columns))
    return columns.scaled(scale, -dense(scaler.mean_) * scale if scaler.with_mean else 0.0)


@on(trace, RobustScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    scale = 1.0 / dense(scaler.scale_) if scaler.with_scaling else np.ones(len(columns))
    return columns.scaled(scale, -dense(scaler.center_) * scale if scaler.with_centering else 0.0)


@on(trace, MaxAbsScaler, MinMaxScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    if getattr(scaler, "clip", False):
        numeric = np.flatnonzero(columns.sources == NUMBERS)
        if len(numeric):
            raise columns.refusal(
                scaler,
                f"clip=True makes it bend {columns.label(int(numeric[0]))}. Fit with clip=False "
                "and keep answers in range with the constraint WithinObserved.",
            )
        return by_running(scaler, columns)
    if isinstance(scaler, MinMaxScaler):
        return columns.scaled(scaler.scale_, scaler.min_)
    return columns.scaled(1.0 / dense(scaler.scale_))


@on(trace, SelectorMixin)
def _(selector: Any, columns: Columns) -> Columns:
    return replace(columns.take(selector.get_support(indices=True)), names=None)


@on(trace, FunctionTransformer)
def _(transformer: Any, columns: Columns) -> Columns:
    if transformer.func is None:
        return replace(columns, names=None)
    func = getattr(transformer.func, "__name__", repr(transformer.func))
    raise columns.refusal(
        transformer,
        f"what the function {func!r} does cannot be known. Apply it to the data before fitting "
        "(then its result is a raw column), or give your own transformer class a reader with "
        "@counterpoint.models.trace.register.",
    )


# --- affine, with outputs of many columns ---


def _centered(columns: Columns, axes: NDArray[np.float64], mean: NDArray[np.float64]) -> Columns:
    """The columns axes · (columns − mean), whose terms are those of the sum or of its parts."""
    return columns.scaled(1.0, -mean).affine(axes)


@on(trace, PCA, IncrementalPCA)
def _(pca: Any, columns: Columns) -> Columns:
    axes = dense(pca.components_)
    if pca.whiten:
        scale = np.sqrt(pca.explained_variance_)
        # as scikit-learn does: directions without variance are not blown up
        scale = dense(np.maximum(scale, np.finfo(scale.dtype).eps))
        axes = axes / scale[:, None]
    return _centered(columns, axes, dense(pca.mean_))


@on(trace, FastICA)
def _(ica: Any, columns: Columns) -> Columns:
    mean = dense(ica.mean_) if ica.whiten else np.zeros(len(columns))
    return _centered(columns, dense(ica.components_), mean)


@on(trace, TruncatedSVD, NeighborhoodComponentsAnalysis, BaseRandomProjection)
def _(projection: Any, columns: Columns) -> Columns:
    return columns.affine(projection.components_)


@on(trace, LinearDiscriminantAnalysis)
def _(lda: Any, columns: Columns) -> Columns:
    count = run(lda, np.zeros((1, len(columns))), columns).shape[1]
    axes = dense(lda.scalings_)[:, :count].T
    center = dense(lda.xbar_) if lda.solver == "svd" else np.zeros(len(columns))
    return _centered(columns, axes, center)


@on(trace, FactorAnalysis)
def _(model: Any, columns: Columns) -> Columns:
    components = dense(model.components_)
    loads = components / model.noise_variance_
    axes = np.linalg.solve(np.eye(len(loads)) + loads @ components.T, loads)
    return _centered(columns, axes, dense(model.mean_))


@on(trace, MiniBatchSparsePCA, SparsePCA)
def _(projection: Any, columns: Columns) -> Columns:
    """Affine, but their attributes do not say how: found from their values at unit vectors."""
    corners = np.vstack([np.zeros(len(columns)), np.eye(len(columns))])
    values = run(projection, corners, columns)
    matrix = (values[1:] - values[0]).T
    rows = np.random.default_rng(0).normal(size=(8, len(columns)))
    found = run(projection, rows, columns)
    size = np.abs(rows) @ np.abs(matrix.T) + np.abs(values[0])
    if (np.abs(rows @ matrix.T + values[0] - found) > 1e-9 * size).any():
        raise columns.refusal(projection, "it is not affine. Use PCA or TruncatedSVD instead.")
    return columns.affine(matrix, values[0])


@on(trace, PolynomialFeatures)
def _(expansion: Any, columns: Columns) -> Columns:
    powers = expansion.powers_
    if powers.sum(axis=1).max(initial=0) > 1:
        return by_running(expansion, columns, mixes=True)
    return columns.affine(sparse.csr_array(powers), (powers.sum(axis=1) == 0).astype(float))


# --- run on every category ---


@on(trace, OneHotEncoder, OrdinalEncoder, TargetEncoder)
def _(encoder: Any, columns: Columns) -> Columns:
    strict = getattr(encoder, "handle_unknown", "") == "error"
    settle_categories(encoder, columns, strict=strict)
    own = [any(map(is_missing, listed.tolist())) for listed in encoder.categories_]
    told = {j: Fill(why_not=OWN if known else "") for j, known in enumerate(own)}
    return by_running(encoder, columns.filled(told))


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


# --- missing cells ---

# The common base of SimpleImputer, KNNImputer and IterativeImputer is private, and importing the
# last needs an experimental switch that is not ours to turn on.
_Imputer: Any = SimpleImputer.__base__


@on(trace, _Imputer)
def _(imputer: Any, columns: Columns) -> Columns:
    fills = dict.fromkeys(range(len(columns)), Fill(why_not=DEPENDS))
    return _passing(imputer, columns, fills)


@on(trace, SimpleImputer)
def _(imputer: Any, columns: Columns) -> Columns:
    return _passing(imputer, columns, dict(_constants(imputer)))


@on(trace, MissingIndicator)
def _(indicator: Any, columns: Columns) -> Columns:
    seen = range(len(columns)) if indicator.error_on_new else indicator.features_.tolist()
    return _passing(indicator, columns, dict.fromkeys(seen, Fill(why_not=INDICATED)))


def _constants(imputer: Any) -> Iterator[tuple[int, Fill]]:
    """What a fitted imputer puts into each column; it drops a column for which it knows nothing."""
    indicated = set() if imputer.indicator_ is None else set(imputer.indicator_.features_.tolist())
    why_not = None if is_missing(imputer.missing_values) else ""
    invented = imputer.strategy == "constant"
    for j, value in enumerate(imputer.statistics_.tolist()):
        if not is_missing(value):
            yield j, Fill(value, INDICATED if j in indicated else why_not, invented)


def _passing(imputer: Any, columns: Columns, fills: Mapping[int, Fill]) -> Columns:
    """The columns after a step that does something about missing cells only."""
    numeric = np.flatnonzero(columns.sources == NUMBERS)
    if len(numeric) and not is_missing(imputer.missing_values):
        raise columns.refusal(
            imputer,
            f"it replaces the number {imputer.missing_values!r}, which is no affine function of "
            f"{columns.label(int(numeric[0]))}. Mark missing cells as NaN instead.",
        )
    rng = np.random.default_rng(0)
    held = np.zeros((3, len(columns)))
    held[1:, numeric] = rng.permutation(2 * len(numeric)).reshape(2, -1) + 0.5
    zero, one, two = (by_running(imputer, columns, held=row) for row in held)
    passed = {}
    for j in np.flatnonzero((one.offset != zero.offset) | (two.offset != zero.offset)).tolist():
        same = (held[1] == one.offset[j]) & (held[2] == two.offset[j])
        if not same.any():
            raise columns.refusal(
                imputer,
                "it changes numbers that are not missing. Impute in the data before fitting.",
            )
        passed[j] = int(same.argmax())
    after = _with_numbers(zero, columns, passed)
    return replace(after, fills=columns.filled(fills).fills)


def _with_numbers(after: Columns, before: Columns, passed: dict[int, int]) -> Columns:
    """The outputs that pass a column of numbers on get its coefficients."""
    if not passed:
        return after
    to, source = np.array(list(passed)), np.array(list(passed.values()))
    place = sparse.csr_array((np.ones(len(to)), (to, source)), (len(after), len(before)))
    offset = after.offset.copy()
    offset[to] = before.offset[source]
    own, held = after.magnitude, before.magnitude
    sizes = Magnitude(
        own.matrix + place @ held.matrix, own.offset + place @ held.offset, held.terms
    )
    matrix = sparse.csr_array(after.matrix + place @ before.matrix)
    return replace(after, matrix=matrix, offset=offset, sizes=sizes)
