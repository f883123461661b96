"""Nearest prototypes: learning vector quantisation, and the one nearest neighbour.

Models of packages that need not be installed are known by the names of their classes.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from counterpoint.errors import UnsupportedModel
from counterpoint.models.attributes import classes_of, dense
from counterpoint.models.dispatch import by_name, on, read
from counterpoint.models.form import Form
from counterpoint.prototypes.form import Prototypes
from counterpoint.prototypes.local_form import LocalPrototypes

__all__: list[str] = []

MOST_NEIGHBORS = 100_000
"""The time of an answer grows with the points: some 10 ms at 5000, 100 ms at so many."""
STRAIGHT = ("euclidean", "l2", "sqeuclidean")
"""Metrics of scikit-learn in which the points equally near to two others form a hyperplane."""


# --- counterpoint.lvq ---


@by_name("counterpoint", "GLVQ", "RSLVQ")
def _(model: Any) -> Form:
    classes_of(model)
    return _own(model, None)


@by_name("counterpoint", "GRLVQ")
def _(model: Any) -> Form:
    classes_of(model)
    return _own(model, model.relevances_)


@by_name("counterpoint", "GMLVQ", "MRSLVQ")
def _(model: Any) -> Form:
    classes_of(model)
    return _own(model, model.omega_)


def _own(model: Any, matrix: Any) -> Form:
    return Prototypes.from_arrays(model.prototypes_, model.prototype_labels_, matrix)


# --- sklearn-lvq ---


@by_name("sklearn_lvq", "GlvqModel", "RslvqModel")
def _(model: Any) -> Form:
    return _of_sklearn_lvq(model, None)


@by_name("sklearn_lvq", "GrlvqModel")
def _(model: Any) -> Form:
    return _of_sklearn_lvq(model, model.lambda_)


@by_name("sklearn_lvq", "GmlvqModel", "MrslvqModel")
def _(model: Any) -> Form:
    return _of_sklearn_lvq(model, model.omega_)


@by_name("sklearn_lvq", "GrmlvqModel")
def _(model: Any) -> Form:
    return _of_sklearn_lvq(model, dense(model.omega_) * model.lambda_)


def _of_sklearn_lvq(model: Any, matrix: Any) -> Form:
    classes_of(model)
    return Prototypes.from_arrays(model.w_, model.c_w_, matrix)


# --- sklvq ---


@by_name("sklvq", "GLVQ")
def _(model: Any) -> Form:
    return _of_sklvq(model, None, ("squared-euclidean", "euclidean"))


@by_name("sklvq", "GMLVQ")
def _(model: Any) -> Form:
    return _of_sklvq(model, model.omega_, ("adaptive-squared-euclidean",))


def _of_sklvq(model: Any, matrix: Any, straight: tuple[str, ...]) -> Form:
    labels = _labels_of_sklvq(model, straight)
    return Prototypes.from_arrays(model.prototypes_, labels, matrix)


def _labels_of_sklvq(model: Any, straight: tuple[str, ...]) -> NDArray[Any]:
    """(P,) the prototypes' labels, if the distance is one that is read."""
    if model.distance_type not in straight or model.force_all_finite == "allow-nan":
        raise UnsupportedModel(
            f"{type(model).__name__} with distance_type={model.distance_type!r} and "
            f"force_all_finite={model.force_all_finite!r} cannot be read exactly. "
            f"Use distance_type={straight[0]!r} and force_all_finite=True."
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
    own = len(model.omegas_) == len(model.c_w_)  # as it predicts
    per: Literal["prototype", "class"] = "prototype" if own else "class"
    return LocalPrototypes.from_arrays(model.w_, model.c_w_, model.omegas_, metric_per=per)


@by_name("sklvq", "LGMLVQ")
def _(model: Any) -> Form:
    labels = _labels_of_sklvq(model, ("local-adaptive-squared-euclidean",))
    shared = model.relevance_localization == "class"
    per: Literal["prototype", "class"] = "class" if shared else "prototype"
    return LocalPrototypes.from_arrays(model.prototypes_, labels, model.omega_, metric_per=per)


# --- nearest neighbours ---


@on(read, KNeighborsClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    if model.n_neighbors != 1:
        raise UnsupportedModel(
            f"KNeighborsClassifier cannot be read exactly. With n_neighbors={model.n_neighbors}, "
            "several neighbours vote; use n_neighbors=1."
        )
    if model.effective_metric_ not in STRAIGHT:
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
    in_order = model._fit_method == "brute"  # noqa: SLF001
    if not in_order and _disagrees_with_itself(points, model._y):  # noqa: SLF001
        raise UnsupportedModel(
            "KNeighborsClassifier holds equal training points of different classes, and which of "
            "them it finds first depends on how its search tree is walked. Use "
            "algorithm='brute', or leave out such points."
        )
    return Prototypes.from_arrays(points, labels, first_wins=in_order)


def _disagrees_with_itself(points: NDArray[np.float64], owner: NDArray[np.intp]) -> bool:
    """Whether equal points are of different classes."""
    places = np.unique(points, axis=0)
    both = np.unique(np.column_stack([points, owner]), axis=0)
    return len(both) > len(places)
