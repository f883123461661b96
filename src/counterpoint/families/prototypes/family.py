"""Add readers of nearest prototypes and Gaussians, their solvers, and the search of their cells.

Nearest prototypes are those of learning vector quantisation, and the one nearest neighbour. Models
of packages that need not be installed are known by the names of their classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from counterpoint.errors import UnsupportedModel
from counterpoint.families.prototypes.cells import VoronoiCells, evidence_of, search_cells
from counterpoint.families.prototypes.form import LocalPrototypes, Prototypes
from counterpoint.families.prototypes.solvers.ccp import Ccp
from counterpoint.families.prototypes.solvers.lower_bound import Quadric
from counterpoint.families.prototypes.solvers.scip import Scip
from counterpoint.models.dispatch import by_name, classes_of, dense, read
from counterpoint.models.form import Form, Link
from counterpoint.models.linear import scores_of_rows
from counterpoint.numerics import EPS, FloatArray
from counterpoint.programs.evidence import Bounding
from counterpoint.solvers.base import Solver

SOLVERS: tuple[type[Solver], ...] = (Quadric, Ccp, Scip)
"""In the order of preference."""
TABLES = False
TARGETS: tuple[type, ...] = ()
SEARCHES: dict[type, Callable[..., Sequence[Bounding]]] = {VoronoiCells: search_cells}

MOST_NEIGHBORS = 100_000
"""The time of an answer grows with the points: some 10 ms at 5000, 100 ms at so many."""
EUCLIDEAN = ("euclidean", "l2", "sqeuclidean")
"""Metrics of scikit-learn in which the points equally near to two others form a hyperplane."""


# --- one metric: counterpoint.lvq, sklearn-lvq, sklvq ---

GLOBAL = (
    ("counterpoint", ("GLVQ", "RSLVQ"), None),
    ("counterpoint", ("GRLVQ",), "relevances_"),
    ("counterpoint", ("GMLVQ", "MRSLVQ"), "omega_"),
    ("sklearn_lvq", ("GlvqModel", "RslvqModel"), None),
    ("sklearn_lvq", ("GrlvqModel",), "lambda_"),
    ("sklearn_lvq", ("GmlvqModel", "MrslvqModel"), "omega_"),
)
"""Packages, names of their classes, and where these keep their matrix, or their relevances."""


def _register(package: str, names: tuple[str, ...], metric: str | None) -> None:
    """Register a reader of classes by name; ``metric`` is the attribute with Ω or relevances."""
    attributes = (
        ("w_", "c_w_") if package == "sklearn_lvq" else ("prototypes_", "prototype_labels_")
    )

    @by_name(package, *names)
    def _(model: Any) -> Form:
        classes_of(model)
        points, labels = (getattr(model, name) for name in attributes)
        matrix = None if metric is None else getattr(model, metric)
        return Prototypes.from_arrays(points, labels, matrix)


for entry in GLOBAL:
    _register(*entry)


@by_name("sklearn_lvq", "GrmlvqModel")
def _(model: Any) -> Form:
    classes_of(model)
    return Prototypes.from_arrays(model.w_, model.c_w_, dense(model.omega_) * model.lambda_)


@by_name("sklvq", "GLVQ")
def _(model: Any) -> Form:
    labels = _labels_of_sklvq(model, ("squared-euclidean", "euclidean"))
    return Prototypes.from_arrays(model.prototypes_, labels)


@by_name("sklvq", "GMLVQ")
def _(model: Any) -> Form:
    labels = _labels_of_sklvq(model, ("adaptive-squared-euclidean",))
    return Prototypes.from_arrays(model.prototypes_, labels, model.omega_)


def _labels_of_sklvq(model: Any, distances: tuple[str, ...]) -> NDArray[Any]:
    """Return the prototypes' labels (P,); raise UnsupportedModel for other than these distances."""
    if model.distance_type not in distances or model.force_all_finite == "allow-nan":
        raise UnsupportedModel(
            f"{type(model).__name__} with distance_type={model.distance_type!r} and "
            f"force_all_finite={model.force_all_finite!r} cannot be read exactly. "
            f"Use distance_type={distances[0]!r} and force_all_finite=True."
        )
    return np.asarray(classes_of(model)[np.asarray(model.prototypes_labels_)])


# --- a metric for each prototype or class ---


@by_name("counterpoint", "LGMLVQ", "LMRSLVQ")
def _(model: Any) -> Form:
    classes_of(model)
    prototypes, labels = model.prototypes_, model.prototype_labels_
    return LocalPrototypes.from_arrays(
        prototypes, labels, model.omegas_, metric_per=model.metric_per
    )


@by_name("sklearn_lvq", "LgmlvqModel", "LmrslvqModel")
def _(model: Any) -> Form:
    classes_of(model)
    is_local = len(model.omegas_) == len(model.c_w_)  # so does the model's predict decide
    per: Literal["prototype", "class"] = "prototype" if is_local else "class"
    return LocalPrototypes.from_arrays(model.w_, model.c_w_, model.omegas_, metric_per=per)


@by_name("sklvq", "LGMLVQ")
def _(model: Any) -> Form:
    labels = _labels_of_sklvq(model, ("local-adaptive-squared-euclidean",))
    shared = model.relevance_localization == "class"
    per: Literal["prototype", "class"] = "class" if shared else "prototype"
    return LocalPrototypes.from_arrays(model.prototypes_, labels, model.omega_, metric_per=per)


# --- nearest neighbours ---


@read.register(KNeighborsClassifier)
def _(model: Any) -> Form:
    """Read the one nearest neighbour: every training point is a prototype."""
    classes = classes_of(model)
    if model.n_neighbors != 1:
        raise UnsupportedModel(
            f"KNeighborsClassifier cannot be read exactly. With n_neighbors={model.n_neighbors}, "
            "several neighbours vote; use n_neighbors=1."
        )
    if model.effective_metric_ not in EUCLIDEAN:
        raise UnsupportedModel(
            f"KNeighborsClassifier with metric={model.metric!r} has decision boundaries that are "
            "not read. Use metric='euclidean'; to weigh columns, scale them."
        )
    points, labels = dense(model._fit_X), classes[model._y]  # noqa: SLF001 (kept nowhere public)
    if len(points) > MOST_NEIGHBORS:
        raise UnsupportedModel(
            f"KNeighborsClassifier keeps {len(points)} training points; up to {MOST_NEIGHBORS} "
            "are read. Fit it on a sample of them, or on a few prototypes of each class: GLVQ, "
            "NearestCentroid."
        )
    first_wins = model._fit_method == "brute"  # noqa: SLF001 (search trees have another order)
    form = Prototypes.from_arrays(points, labels, first_wins=first_wins)
    if not first_wins and form.has_shared_places:
        raise UnsupportedModel(
            "KNeighborsClassifier holds equal training points of different classes, and which of "
            "them it finds first depends on how its search tree is walked. Use "
            "algorithm='brute', or leave out such points."
        )
    return form


# --- one Gaussian a class, each with a covariance of its own: log-densities are quadratic ---


@read.register(QuadraticDiscriminantAnalysis)
def _(model: Any) -> Form:
    """Read Gaussians with a covariance of its own for each class, which has to have an inverse."""
    classes, means = classes_of(model), dense(model.means_)
    priors = _log_priors(model, classes, dense(model.priors_))
    # One class's covariance is R diag(variances) Rᵀ, with a rotation R.
    variances = [dense(scaling) for scaling in model.scalings_]
    rotations = [dense(rotation) for rotation in model.rotations_]
    rounding = (means.shape[1] * EPS) ** 2  # the share of a variance that a 0 may be rounded to
    for label, variance in zip(classes.tolist(), variances, strict=True):
        if not variance.min(initial=np.inf) > rounding * variance.max(initial=0.0):
            raise UnsupportedModel(
                "QuadraticDiscriminantAnalysis found no spread in some direction of the class "
                f"{label!r}, so its covariance has no inverse. Fit it with a larger reg_param, or "
                "leave out columns that the others determine."
            )
    axes = zip(rotations, variances, strict=True)
    whitening = [rotation.T / np.sqrt(variance)[:, None] for rotation, variance in axes]
    log_determinants = np.array([np.log(variance).sum() for variance in variances])
    return _gaussians(classes, means, whitening, log_determinants, priors)


@read.register(GaussianNB)
def _(model: Any) -> Form:
    """Read Gaussians with diagonal covariances; scores are linear if all classes have the same."""
    classes = classes_of(model)
    variance, means = dense(model.var_), dense(model.theta_)
    priors = _log_priors(model, classes, dense(model.class_prior_))
    for j in np.flatnonzero((variance <= 0.0).any(axis=0)):
        raise UnsupportedModel(
            f"GaussianNB saw one value alone of its input {j} in some class, so its variance there "
            "is 0. Fit it with var_smoothing above 0, or leave the input out."
        )
    if (np.ptp(variance, axis=0) > 1e-12 * variance.max(axis=0)).any():
        whitening = list(np.eye(len(means[0])) / np.sqrt(variance)[:, None, :])
        return _gaussians(classes, means, whitening, np.log(variance).sum(axis=1), priors)
    precision = 1.0 / variance.mean(axis=0)
    offset = priors - 0.5 * (precision * means**2).sum(axis=1)
    return scores_of_rows(precision * means, offset, classes, Link.SOFTMAX)


def _gaussians(
    classes: NDArray[Any],
    means: FloatArray,
    whitening: Sequence[FloatArray],
    log_determinants: FloatArray,
    priors: FloatArray,
) -> LocalPrototypes:
    """Return the form whose scores are log π + log N(y; mean, Σ), but for what all have in common.

    ``classes``: (C,) labels; ``means``: (C, d); ``whitening``: for each class (k, d) W with WᵀW =
    Σ⁻¹; ``log_determinants``: (C,) log|Σ|; ``priors``: (C,) log π.
    """
    halves = [matrix * np.sqrt(0.5) for matrix in whitening]
    offsets = 0.5 * log_determinants - priors
    return LocalPrototypes.from_arrays(means, classes, halves, offsets, link=Link.SOFTMAX)


def _log_priors(model: Any, classes: NDArray[Any], priors: FloatArray) -> FloatArray:
    """Return the logarithms (C,) of the classes' prior probabilities.

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


PROOFS: dict[type, Callable[..., Bounding]] = {VoronoiCells: evidence_of}
