"""Models made of models: pipelines, column transformers, unions, searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline

from counterpoint.errors import InvalidInput, ModelNotFitted, UnsupportedModel
from counterpoint.models.columns import Columns, join
from counterpoint.models.dispatch import (
    Inputs,
    finish,
    inputs_of,
    on,
    quiet,
    read,
    require_fitted,
    trace,
    trace_step,
)
from counterpoint.models.form import Form

__all__ = ["read_whole"]

# The common base of all searches, the experimental halving ones included, is private.
_Search: Any = GridSearchCV.__base__


def read_whole(model: Any) -> Form:
    """`read` for a model that holds other models: over its own inputs, taken as numbers."""
    require_fitted(model, Columns.inputs(1))
    inputs = inputs_of(model)
    if inputs is None:
        raise UnsupportedModel(
            f"{type(model).__name__} kept no note of the columns that it was fitted on. "
            "Pass the data or the features; inside another model it cannot be read."
        )
    return finish(model, Columns.inputs(inputs.count))[0]


# --- pipelines ---


def _through_steps(steps: Sequence[tuple[str, Any]], columns: Columns) -> Columns:
    for name, step in steps:
        columns = trace_step(name, step, columns)
    return columns


@on(trace, Pipeline)
def _(pipeline: Any, columns: Columns) -> Columns:
    return _through_steps(pipeline.steps, columns)


@on(finish, Pipeline)
def _(pipeline: Any, columns: Columns) -> tuple[Form, Columns]:
    before = _through_steps(pipeline.steps[:-1], columns)
    name, last = pipeline.steps[-1]
    if last is None or isinstance(last, str):
        raise UnsupportedModel(
            f"Expected a pipeline that ends in a model; its last step {name!r} is {last!r}. "
            "Put a classifier or regressor there."
        )
    form, after = finish(last, before.at(name))
    return form, replace(after, where=columns.where)


@on(inputs_of, Pipeline)
def _(pipeline: Any) -> Inputs | None:
    for name, step in pipeline.steps:
        if step is not None and not isinstance(step, str):
            require_fitted(step, Columns.inputs(1).at(name))
            return inputs_of(step)
    return None


read.register(Pipeline, read_whole)


# --- searches and wrappers that only pass on ---


def _best(search: Any, columns: Columns) -> Any:
    best = getattr(search, "best_estimator_", None)
    if best is None:
        raise ModelNotFitted(
            f"Expected a search that was fitted with refit=True; {columns.place(search)} keeps no "
            "best_estimator_. Fit it with refit=True, or pass the estimator itself."
        )
    return best


@on(finish, _Search)
def _(search: Any, columns: Columns) -> tuple[Form, Columns]:
    return finish(_best(search, columns), columns)


@on(trace, _Search)
def _(search: Any, columns: Columns) -> Columns:
    return trace(_best(search, columns), columns)


@on(inputs_of, _Search)
def _(search: Any) -> Inputs | None:
    return inputs_of(_best(search, Columns.inputs(1)))


read.register(_Search, read_whole)

try:
    from sklearn.frozen import FrozenEstimator
except ImportError:  # scikit-learn before 1.6
    pass
else:

    @on(finish, FrozenEstimator)
    def _(frozen: Any, columns: Columns) -> tuple[Form, Columns]:
        return finish(frozen.estimator, columns)

    @on(trace, FrozenEstimator)
    def _(frozen: Any, columns: Columns) -> Columns:
        require_fitted(frozen.estimator, columns)
        return trace(frozen.estimator, columns)

    @on(inputs_of, FrozenEstimator)
    def _(frozen: Any) -> Inputs | None:
        return inputs_of(frozen.estimator)

    read.register(FrozenEstimator, read_whole)


# --- side by side ---


def _weighted(after: Columns, weight: float | None) -> Columns:
    return after if weight is None else after.scaled(weight)


@on(trace, FeatureUnion)
def _(union: Any, columns: Columns) -> Columns:
    weights = union.transformer_weights or {}
    parts = [
        _weighted(trace_step(name, step, columns), weights.get(name))
        for name, step in union.transformer_list
        if step != "drop"
    ]
    return join(columns, parts)


@on(inputs_of, FeatureUnion)
def _(union: Any) -> Inputs | None:
    found = [inputs_of(step) for _, step in union.transformer_list if not isinstance(step, str)]
    known = [inputs for inputs in found if inputs is not None]
    if not known:
        return None
    if len(known) < len(union.transformer_list) or any(part.needed is None for part in known):
        return replace(known[0], needed=None)
    needed = sorted({j for part in known for j in part.needed or ()})
    return replace(known[0], needed=tuple(needed))


def _used(transformer: Any) -> list[tuple[str, Any, list[int]]]:
    """The (name, step, input positions) of a fitted column transformer, in output order."""
    names = getattr(transformer, "feature_names_in_", None)
    with quiet():  # some versions warn when the remainder's columns are read
        located = [
            (name, step, locate(spec, names, transformer.n_features_in_))
            for name, step, spec in transformer.transformers_
            if not (isinstance(step, str) and step == "drop")
        ]
    return [(name, step, at) for name, step, at in located if at]


@on(trace, ColumnTransformer)
def _(transformer: Any, columns: Columns) -> Columns:
    weights = transformer.transformer_weights or {}
    names = getattr(transformer, "feature_names_in_", None)
    parts = []
    for name, step, at in _used(transformer):
        chosen = (
            columns.take(at) if names is None else _by_name(columns, [names[j] for j in at], at)
        )
        parts.append(_weighted(trace_step(name, step, chosen), weights.get(name)))
    return join(columns, parts)


def _by_name(columns: Columns, wanted: list[Any], positions: list[int]) -> Columns:
    """Raw columns by name; later ones, whose order is that at fit, by position."""
    if columns.names is None:
        return columns.take(positions)
    place = {name: j for j, name in enumerate(columns.names)}
    missing = [name for name in wanted if name not in place]
    if missing:
        raise InvalidInput(
            f"Expected the column {missing[0]!r}, which the model uses; got {columns.names!r}."
        )
    return columns.take([place[name] for name in wanted])


@on(inputs_of, ColumnTransformer)
def _(transformer: Any) -> Inputs | None:
    require_fitted(transformer, Columns.inputs(1))
    names = getattr(transformer, "feature_names_in_", None)
    needed = sorted({j for _, _, at in _used(transformer) for j in at})
    known = None if names is None else tuple(names)
    return Inputs(int(transformer.n_features_in_), known, tuple(needed))


def locate(spec: Any, names: Any, count: int) -> list[int]:
    """The positions that a column transformer's column specification stands for.

    Parameters
    ----------
    spec
        A name, position, slice (of names: both ends included), mask, or list of these.
    names
        The names at fit; None if there were none.
    count
        The number of columns at fit.
    """
    known = {} if names is None else {name: j for j, name in enumerate(names)}
    if isinstance(spec, str):
        return [known[spec]]
    if isinstance(spec, slice):
        if isinstance(spec.start, str) or isinstance(spec.stop, str):
            start = 0 if spec.start is None else known[spec.start]
            stop = count if spec.stop is None else known[spec.stop] + 1
            return list(range(count))[start : stop : spec.step]
        return list(range(count))[spec]
    listed = np.atleast_1d(np.asarray(spec, dtype=object)).tolist()
    if listed and all(isinstance(value, bool | np.bool_) for value in listed):
        return np.flatnonzero(np.array(listed, dtype=bool)).tolist()
    return [
        known[value] if isinstance(value, str) else range(count)[int(value)] for value in listed
    ]
