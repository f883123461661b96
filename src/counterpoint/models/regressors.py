"""Linear regressors."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.cross_decomposition import PLSRegression
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    HuberRegressor,
    Lars,
    LassoCV,
    LinearRegression,
    OrthogonalMatchingPursuit,
    OrthogonalMatchingPursuitCV,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    RidgeCV,
    SGDRegressor,
    TheilSenRegressor,
    TweedieRegressor,
)
from sklearn.svm import SVR, LinearSVR, NuSVR

from counterpoint.errors import UnsupportedModel
from counterpoint.models.attributes import dense, fitted
from counterpoint.models.dispatch import on, quiet, read
from counterpoint.models.form import Form
from counterpoint.models.linear import LinearRegressor, LogLink

__all__: list[str] = []


def _linear(model: Any, link: LogLink = LogLink.IDENTITY) -> LinearRegressor:
    """The form of ``coef_`` and ``intercept_``; one output, in one dimension."""
    coef = dense(fitted(model).coef_)
    _refuse_outputs(model, coef.shape[-1])
    return LinearRegressor(coef.ravel(), float(dense(model.intercept_).ravel()[0]), link)


def _refuse_outputs(model: Any, width: int) -> None:
    with quiet():  # fitted on names, asked with an array
        shape = np.shape(model.predict(np.zeros((1, width))))
    if shape != (1,):
        raise UnsupportedModel(
            f"{type(model).__name__} was fitted on a target with {len(shape)} dimensions; "
            "expected one value for each row. Fit on a 1-D y, one model for each output."
        )


@on(
    read,
    ARDRegression,
    BayesianRidge,
    ElasticNet,  # and Lasso
    ElasticNetCV,
    HuberRegressor,
    Lars,  # and LassoLars, LarsCV, LassoLarsCV, LassoLarsIC
    LassoCV,
    LinearRegression,
    LinearSVR,
    OrthogonalMatchingPursuit,
    OrthogonalMatchingPursuitCV,
    QuantileRegressor,
    Ridge,
    RidgeCV,
    SGDRegressor,
    TheilSenRegressor,
)
def _identity(model: Any) -> Form:
    return _linear(model)


with suppress(ImportError):  # leaves scikit-learn with version 1.10
    from sklearn.linear_model import PassiveAggressiveRegressor

    read.register(PassiveAggressiveRegressor, _identity)


@on(read, SVR, NuSVR)
def _(model: Any) -> Form:
    if fitted(model).kernel != "linear":
        raise UnsupportedModel(
            f"{type(model).__name__} with kernel={model.kernel!r} is not linear. "
            "Use kernel='linear' or LinearSVR."
        )
    return _linear(model)


@on(read, GammaRegressor, PoissonRegressor)
def _(model: Any) -> Form:
    return _linear(model, LogLink.EXP)


@on(read, TweedieRegressor)
def _(model: Any) -> Form:
    is_log = model.link == "log" or (model.link == "auto" and model.power > 0)
    return _linear(model, LogLink.EXP if is_log else LogLink.IDENTITY)


@on(read, PLSRegression)
def _(model: Any) -> Form:
    coef = dense(fitted(model).coef_)  # (outputs, inputs), of centred inputs
    _refuse_outputs(model, coef.shape[-1])
    with quiet():
        intercept = model.predict(np.zeros((1, coef.shape[-1])))
    return LinearRegressor(coef.ravel(), float(intercept[0]))


@on(read, DummyRegressor)
def _(_model: Any) -> Form:
    raise UnsupportedModel(
        "DummyRegressor does not look at its inputs, so no change of them changes its value. "
        "Fit a model that does."
    )
