"""One Gaussian a class, each with a covariance of its own: log-densities are quadratic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

from counterpoint.errors import UnsupportedModel
from counterpoint.models.attributes import classes_of, dense, scores_of_rows
from counterpoint.models.dispatch import on, read
from counterpoint.models.form import Form, Link
from counterpoint.prototypes.local_form import LocalPrototypes

__all__ = ["gaussians", "log_priors"]

FloatArray = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)
SAME_VARIANCE = 1e-12  # relative


@on(read, QuadraticDiscriminantAnalysis)
def _(model: Any) -> Form:
    classes, means = classes_of(model), dense(model.means_)
    priors = log_priors(model, classes, dense(model.priors_))
    flattest = (means.shape[1] * EPS) ** 2  # what rounding leaves of a variance of 0
    spreads = [dense(scaling) for scaling in model.scalings_]
    for label, spread in zip(classes.tolist(), spreads, strict=True):
        if not spread.min(initial=np.inf) > flattest * spread.max(initial=0.0):
            raise UnsupportedModel(
                "QuadraticDiscriminantAnalysis found no spread in some direction of the class "
                f"{label!r}, so its covariance has no inverse. Fit it with a larger reg_param, or "
                "leave out columns that the others determine."
            )
    turns = [dense(rotation) for rotation in model.rotations_]
    whitening = [
        turn.T / np.sqrt(spread)[:, None] for turn, spread in zip(turns, spreads, strict=True)
    ]
    volumes = np.array([np.log(spread).sum() for spread in spreads])
    return gaussians(classes, means, whitening, volumes, priors)


@on(read, GaussianNB)
def _(model: Any) -> Form:
    classes = classes_of(model)
    variance, means = dense(model.var_), dense(model.theta_)
    priors = log_priors(model, classes, dense(model.class_prior_))
    for j in np.flatnonzero((variance <= 0.0).any(axis=0)):
        raise UnsupportedModel(
            f"GaussianNB saw one value alone of its input {j} in some class, so its variance there "
            "is 0. Fit it with var_smoothing above 0, or leave the input out."
        )
    if (np.ptp(variance, axis=0) > SAME_VARIANCE * variance.max(axis=0)).any():
        whitening = list(np.eye(len(means[0])) / np.sqrt(variance)[:, None, :])
        return gaussians(classes, means, whitening, np.log(variance).sum(axis=1), priors)
    precision = 1.0 / variance.mean(axis=0)
    offset = priors - 0.5 * (precision * means**2).sum(axis=1)
    return scores_of_rows(precision * means, offset, classes, Link.SOFTMAX)


def gaussians(
    classes: NDArray[Any],
    means: FloatArray,
    whitening: Sequence[FloatArray],
    volumes: FloatArray,
    priors: FloatArray,
) -> LocalPrototypes:
    """The form whose scores are log π + log N(y; mean, Σ), but for what all have in common.

    ``classes``: (C,) labels; ``means``: (C, d); ``whitening``: for each class (k, d) W with WᵀW =
    Σ⁻¹; ``volumes``: (C,) log|Σ|; ``priors``: (C,) log π.
    """
    halves = [matrix * np.sqrt(0.5) for matrix in whitening]
    offsets = 0.5 * volumes - priors
    return LocalPrototypes.from_arrays(means, classes, halves, offsets, link=Link.SOFTMAX)


def log_priors(model: Any, classes: NDArray[Any], priors: FloatArray) -> FloatArray:
    """(C,) logarithms of the classes' probabilities before anything is known.

    Raises
    ------
    UnsupportedModel
        If one of them is not above 0.
    """
    for label, prior in zip(classes.tolist(), priors.tolist(), strict=True):
        if not prior > 0.0:
            raise UnsupportedModel(
                f"{type(model).__name__} has the prior {prior!r} for the class {label!r}, so no "
                "input is predicted as it. Give it a prior above 0, or leave its rows out."
            )
    return np.log(priors)
