"""Steps that are affine: their fitted attributes as a matrix and an offset."""

from __future__ import annotations

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
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import BaseRandomProjection

from counterpoint.models.attributes import dense
from counterpoint.models.columns import NUMBERS, Columns
from counterpoint.models.dispatch import on, trace
from counterpoint.models.probe import by_running, run

__all__: list[str] = []


def _centered(columns: Columns, axes: NDArray[np.float64], mean: NDArray[np.float64]) -> Columns:
    """The columns axes · (columns − mean), whose terms are those of the sum or of its parts."""
    return columns.scaled(1.0, -mean).affine(axes)


@on(trace, StandardScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    scale = 1.0 / dense(scaler.scale_) if scaler.with_std else np.ones(len(columns))
    return columns.scaled(scale, -dense(scaler.mean_) * scale if scaler.with_mean else 0.0)


@on(trace, RobustScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    scale = 1.0 / dense(scaler.scale_) if scaler.with_scaling else np.ones(len(columns))
    return columns.scaled(scale, -dense(scaler.center_) * scale if scaler.with_centering else 0.0)


@on(trace, MinMaxScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    if not scaler.clip:
        return columns.scaled(scaler.scale_, scaler.min_)
    numeric = np.flatnonzero(columns.sources == NUMBERS)
    if len(numeric):
        raise columns.refusal(
            scaler,
            f"clip=True makes it bend {columns.label(int(numeric[0]))}. Fit with clip=False and "
            "keep answers in range with the constraint WithinObserved.",
        )
    return by_running(scaler, columns)


@on(trace, MaxAbsScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    if not getattr(scaler, "clip", False):
        return columns.scaled(1.0 / dense(scaler.scale_))
    if (columns.sources == NUMBERS).any():
        raise columns.refusal(
            scaler, "clip=True makes it bend numbers. Fit with clip=False instead."
        )
    return by_running(scaler, columns)


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


@on(trace, SelectorMixin)
def _(selector: Any, columns: Columns) -> Columns:
    return replace(columns.take(selector.get_support(indices=True)), names=None)


@on(trace, PolynomialFeatures)
def _(expansion: Any, columns: Columns) -> Columns:
    powers = expansion.powers_
    if powers.sum(axis=1).max(initial=0) > 1:
        return by_running(expansion, columns, mixes=True)
    return columns.affine(sparse.csr_array(powers), (powers.sum(axis=1) == 0).astype(float))


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
