"""Check the indices in a model from a file, before compiled code follows them unchecked.

skops vouches for types and not for contents. By itself it takes no compiled tree of scikit-learn,
for these are followed to wherever their nodes point, outside of memory too. `check_indices` makes
sure that nodes point to nodes, columns and categories that are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.interpolate import BSpline
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder, SplineTransformer
from sklearn.tree import BaseDecisionTree
from sklearn.utils import check_array


def check_indices(model: Any) -> None:
    """Check all trees and sparse matrices of a model; make searches over its own rows anew.

    Raises
    ------
    ValueError
        If an index points to where there is no node, no column or no category.
    """
    for obj in _objects(model):
        _check(obj)


def _objects(model: Any) -> Iterator[Any]:
    """Yield every object that a loaded model holds, once."""
    stack, visited = [model], set()
    while stack:
        obj = stack.pop()
        if id(obj) in visited or isinstance(obj, str | bytes | type):
            continue
        visited.add(id(obj))
        yield obj
        if isinstance(obj, np.ndarray):
            stack += obj.ravel().tolist() if obj.dtype == object else ()
        elif isinstance(obj, dict | list | tuple | set):
            stack += obj.values() if isinstance(obj, dict) else obj
        stack += getattr(obj, "__dict__", {}).values()


@singledispatch
def _check(obj: Any) -> None:
    """Check the indices of a fitted object that are followed unchecked; most have none."""


def _require(condition: object) -> None:
    if not condition:
        raise ValueError("an index in it points to what is not there")


def _check_nodes(inner: NDArray[np.bool_], left: Any, right: Any, columns: Any, width: int) -> None:
    """Require that inner nodes point to later nodes, so that no walk is endless, and to columns."""
    node, count = np.arange(len(inner)), len(inner)
    are_later = (left > node) & (right > node) & (left < count) & (right < count)
    _require(count and np.all(are_later[inner]) and not inner[-1])
    _require(np.all((columns[inner] >= 0) & (columns[inner] < width)))


@_check.register(BaseDecisionTree)
def _(model: Any) -> None:
    tree = getattr(model, "tree_", None)
    if tree is not None:
        _require(tree.n_features == model.n_features_in_)
        inner = tree.children_left != -1
        _check_nodes(inner, tree.children_left, tree.children_right, tree.feature, tree.n_features)


@_check.register(BaseForest)
def _(model: Any) -> None:
    widths = {member.n_features_in_ for member in getattr(model, "estimators_", ())}
    _require(widths <= {getattr(model, "n_features_in_", None)})


@_check.register(BaseGradientBoosting)
def _(model: Any) -> None:
    """Require that all trees take the model's columns, and that there is a start for each stage."""
    stages = getattr(model, "estimators_", None)
    if stages is None:
        return
    members = stages.ravel().tolist()
    _require({member.n_features_in_ for member in members} == {model.n_features_in_})
    is_constant = isinstance(model.init_, DummyClassifier | DummyRegressor) or model.init_ == "zero"
    _require(is_constant or model.init is not None)
    if is_constant:  # no reader takes another start
        starts = model._raw_predict_init(np.zeros((1, model.n_features_in_)))  # noqa: SLF001
        _require(starts.shape[1] == stages.shape[1])


@_check.register(BaseHistGradientBoosting)
def _(model: Any) -> None:
    """Check the nodes of all trees, the sets of categories that they test, and the step before."""
    stages = getattr(model, "_predictors", ())
    if not stages:
        return
    if model._preprocessor is not None:  # noqa: SLF001
        _check_preprocessor(model._preprocessor, model.n_features_in_)  # noqa: SLF001
    # the known categories, one set for each categorical column, and the position of its set
    known, position = model._bin_mapper.make_known_categories_bitsets()  # noqa: SLF001
    _require(len(position) == model.n_features_in_)
    for tree in (member for stage in stages for member in stage):
        nodes, left_sets = tree.nodes, tree.raw_left_cat_bitsets
        inner = ~nodes["is_leaf"].astype(bool)
        columns = nodes["feature_idx"]
        _check_nodes(inner, nodes["left"], nodes["right"], columns, model.n_features_in_)
        by_category = inner & nodes["is_categorical"].astype(bool)
        _require(np.all(position[columns[by_category]] < len(known)))
        _require(np.all(nodes["bitset_idx"][by_category] < len(left_sets)))
        # a set of at most 256 categories is eight words of 32 bits
        _require(not by_category.any() or left_sets.shape[1] == 8)


def _check_preprocessor(step: Any, width: int) -> None:
    """Require that what comes before histogram boosting makes as many columns as it takes."""
    _require(isinstance(step, ColumnTransformer) and step.n_features_in_ == width)
    (_, encoder, categorical), (_, numbers, numeric), *_ = step.transformers_
    _require(isinstance(encoder, OrdinalEncoder) and isinstance(numbers, FunctionTransformer))
    _require(getattr(numbers.func, "func", None) is check_array)
    masks = np.array([categorical, numeric], dtype=bool)
    _require(masks.shape == (2, width) and np.all(masks[0] != masks[1]))


@_check.register(KNeighborsClassifier)
def _(model: Any) -> None:
    """Make the search tree anew, for the one of the file may point anywhere."""
    tree = getattr(model, "_tree", None)
    if tree is not None:
        model._tree = type(tree)(  # noqa: SLF001 (as fit makes it)
            model._fit_X,  # noqa: SLF001
            model.leaf_size,
            metric=model.effective_metric_,
            **model.effective_metric_params_,
        )


@_check.register(SplineTransformer)
def _(model: Any) -> None:
    """Make the splines anew, which checks their knots and coefficients."""
    splines = getattr(model, "bsplines_", ())
    if splines:
        model.bsplines_ = [BSpline(s.t, s.c, s.k, s.extrapolate, s.axis) for s in splines]


@_check.register(sparse.csr_array | sparse.csr_matrix | sparse.csc_array | sparse.csc_matrix)
def _(matrix: Any) -> None:
    matrix.check_format(full_check=True)
