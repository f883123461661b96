"""Fitted models as representations."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA, FactorAnalysis, FastICA, IncrementalPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from counterpoint.errors import ModelNotFitted, ReaderMismatch, UnsupportedModel
from counterpoint.groups.networks import Network
from counterpoint.groups.representations import Affine, Composed, Representation

__all__ = ["represent"]

FloatArray = NDArray[np.float64]

INSTEAD = (
    "Pass linear maps of scikit-learn (scalers, PCA, TruncatedSVD, FastICA, FactorAnalysis, linear "
    "discriminants, NCA, pipelines of these), a Network, a torch module, your own subclass of "
    "Representation, or FiniteDifferences(function, features) for few features."
)


@singledispatch
def represent(model: Any) -> Representation:
    """Read a fitted model as a representation.

    Linear maps of scikit-learn become one affine map, with all pipeline steps folded in. Add yours
    with ``@represent.register(MyModel)``.

    Parameters
    ----------
    model
        A fitted transformer of scikit-learn or a pipeline of these, an ``MLPRegressor`` whose
        outputs are the space, a torch module, or a `Representation`.

    Returns
    -------
    Representation

    Raises
    ------
    UnsupportedModel
        If it has no derivatives that are known.
    ModelNotFitted
        If it, or a step of it, has not been fitted.
    ReaderMismatch
        If what was read is not what the model does.
    """
    bases = type(model).__mro__
    if any(b.__name__ == "Module" and b.__module__.startswith("torch.nn.") for b in bases):
        from counterpoint.groups.modules import of_module

        return of_module(model, None)
    what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    raise UnsupportedModel(f"{what} has no derivatives that are known. {INSTEAD}")


@represent.register
def _(model: Representation) -> Representation:
    return model


@represent.register
def _(model: Pipeline) -> Representation:
    found: Representation | None = None
    for name, step in reversed(model.steps):
        if step is None or step == "passthrough":
            continue
        try:
            read = represent(step)
        except UnsupportedModel as error:
            raise UnsupportedModel(f"Step {name!r}: {error}") from error
        found = read if found is None else _follow(name, read, found)
    if found is None:
        raise UnsupportedModel(f"The pipeline has no step that does anything. {INSTEAD}")
    return found


@represent.register
def _(model: MLPRegressor) -> Representation:
    _require_fitted(model)
    return Network(model.coefs_, model.intercepts_, model.activation, model.out_activation_)


def _follow(name: str, step: Representation, rest: Representation) -> Representation:
    """A step of a pipeline, and what comes after it."""
    if not isinstance(step, Affine):
        raise UnsupportedModel(f"Step {name!r} is not linear, and only the last step may be so.")
    return step.then(rest) if isinstance(rest, Affine) else Composed(step, rest)


def _linear(*kinds: type) -> Callable[[Callable[[Any], Affine]], Callable[[Any], Affine]]:
    """Register what reads the affine map of some transformers; it is held against them."""

    def register(read: Callable[[Any], Affine]) -> Callable[[Any], Affine]:
        def checked(model: Any) -> Affine:
            _require_fitted(model)
            found = read(model)
            _check(model, found)
            return found

        for kind in kinds:
            represent.register(kind, checked)
        return read

    return register


@_linear(StandardScaler)
def _standard(model: StandardScaler) -> Affine:
    scale = np.ones(model.n_features_in_) if model.scale_ is None else 1.0 / model.scale_
    return Affine.scaling(scale, -scale * model.mean_ if model.with_mean else 0.0 * scale)


@_linear(RobustScaler)
def _robust(model: RobustScaler) -> Affine:
    scale = np.ones(model.n_features_in_) if model.scale_ is None else 1.0 / model.scale_
    return Affine.scaling(scale, 0.0 * scale if model.center_ is None else -scale * model.center_)


@_linear(MinMaxScaler)
def _min_max(model: MinMaxScaler) -> Affine:
    if model.clip:
        raise UnsupportedModel("MinMaxScaler(clip=True) is not linear. Fit it with clip=False.")
    return Affine.scaling(model.scale_, model.min_)


@_linear(MaxAbsScaler)
def _max_abs(model: MaxAbsScaler) -> Affine:
    return Affine.scaling(1.0 / model.scale_, np.zeros(model.n_features_in_))


@_linear(PCA, IncrementalPCA)
def _pca(model: Any) -> Affine:
    matrix = model.components_.T
    if model.whiten:
        scale = np.sqrt(model.explained_variance_)
        matrix = matrix / np.maximum(scale, np.finfo(scale.dtype).eps)
    return Affine(matrix, -model.mean_ @ matrix)


@_linear(FastICA)
def _ica(model: FastICA) -> Affine:
    matrix = model.components_.T
    mean = model.mean_ if model.whiten else np.zeros(len(matrix))
    return Affine(matrix, -mean @ matrix)


@_linear(FactorAnalysis)
def _factors(model: FactorAnalysis) -> Affine:
    loads = model.components_ / model.noise_variance_
    inner = np.eye(len(loads)) + loads @ model.components_.T
    matrix = np.linalg.solve(inner, loads).T
    return Affine(matrix, -model.mean_ @ matrix)


@_linear(TruncatedSVD, NeighborhoodComponentsAnalysis)
def _components(model: Any) -> Affine:
    return Affine(model.components_.T, np.zeros(len(model.components_)))


@_linear(LinearDiscriminantAnalysis)
def _discriminants(model: LinearDiscriminantAnalysis) -> Affine:
    if model.solver == "lsqr":
        raise UnsupportedModel(
            "LinearDiscriminantAnalysis(solver='lsqr') has no transform. Fit it with 'svd'."
        )
    matrix = model.scalings_[:, : model._max_components]  # noqa: SLF001 (no public name; checked)
    centre = model.xbar_ if model.solver == "svd" else np.zeros(len(matrix))
    return Affine(matrix, -centre @ matrix)


def _require_fitted(model: BaseEstimator) -> None:
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise ModelNotFitted(
            f"Expected a fitted representation; {type(model).__name__} has not been fitted. "
            "Call its fit first."
        ) from None


def _check(model: Any, found: Affine) -> None:
    """Hold an affine map against the transformer it was read from, on a few rows."""
    rows: Any = np.random.default_rng(0).normal(size=(4, found.n_features))
    names = getattr(model, "feature_names_in_", None)
    given = rows
    if names is not None:
        import pandas as pd

        given = pd.DataFrame(rows, columns=names)
    told, read = np.asarray(model.transform(given)), found.vjp(rows)[0]
    if told.shape != read.shape or not np.allclose(told, read, rtol=1e-6, atol=1e-8):
        raise ReaderMismatch(
            f"What was read of {type(model).__name__} is not what its transform does. "
            f"Please report it; until then: {INSTEAD}"
        )
