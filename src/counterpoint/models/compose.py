"""Models made of models: pipelines, unions, searches, thresholds, transformed targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.feature_selection import RFE
from sklearn.linear_model import RANSACRegressor
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from counterpoint.errors import InvalidInput, ModelNotFitted, UnsupportedModel
from counterpoint.models.attributes import OTHER_SCORES
from counterpoint.models.columns import Columns, join, place
from counterpoint.models.dispatch import (
    Inputs,
    finish,
    fitted,
    inputs_of,
    on,
    quiet,
    trace,
    trace_step,
)
from counterpoint.models.form import AffineMap, Form, Magnitude, require_finite
from counterpoint.models.linear import LinearRegressor, LinearScores, Link

__all__: list[str] = []

# The common base of all searches, the experimental halving ones included, is private.
_Search: Any = GridSearchCV.__base__


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
            return inputs_of(fitted(step, name))
    return None


# --- what only passes on to the one model that it holds ---


def _passes_on(kind: Any, held: Callable[[Any, str], Any]) -> None:
    """Whatever is asked of a model of this kind is asked of the one that it holds."""
    on(finish, kind)(lambda model, columns: finish(held(model, columns.where), columns))
    on(trace, kind)(lambda model, columns: trace(held(model, columns.where), columns))
    on(inputs_of, kind)(lambda model: inputs_of(held(model, "")))


def _best(search: Any, where: str) -> Any:
    best = getattr(search, "best_estimator_", None)
    if best is None:
        raise ModelNotFitted(
            f"Expected a search that was fitted with refit=True; {place(search, where)} keeps no "
            "best_estimator_. Fit it with refit=True, or pass the estimator itself."
        )
    return best


_passes_on(_Search, _best)
with suppress(ImportError):  # scikit-learn before 1.6
    from sklearn.frozen import FrozenEstimator

    _passes_on(FrozenEstimator, lambda frozen, where: fitted(frozen.estimator, where))


@on(finish, RANSACRegressor, RFE)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    inner = fitted(model, columns.where).estimator_
    return finish(inner, trace(model, columns) if isinstance(model, RFE) else columns)


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
    names = getattr(fitted(transformer), "feature_names_in_", None)
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


# --- thresholds ---


def _with_threshold(
    model: Any, inner: Any, form: Form, limit: float, positive: Any
) -> LinearScores:
    """A binary form that decides for ``positive`` where its response is at least ``limit``."""
    name = type(model).__name__
    if not isinstance(form, LinearScores) or not form.is_binary or form.matrix[0].any():
        raise UnsupportedModel(
            f"{name} is read over binary linear classifiers; got {type(inner).__name__}. "
            "Use one of these, or explain it without a threshold."
        )
    if form.no_probabilities == OTHER_SCORES:
        raise UnsupportedModel(
            f"{name} sets a threshold on scores, but {OTHER_SCORES}. "
            "Use LinearDiscriminantAnalysis."
        )
    by_probability = _response(model, inner) == "predict_proba"
    score = _score_limit(form, limit, name) if by_probability else limit
    sizes = form.sizes
    require_finite(score)
    if by_probability:
        # A rounding error of it is 1 / (p (1 − p)) of them in log-odds. It has fewer than twelve
        # (an exponential, a sum, a quotient), and at least six of a score's are allowed for.
        sizes = replace(sizes, offset=sizes.offset + 2.0 * (2.0 + np.exp(abs(score))))
    first = positive is not None and positive == form.classes[0]
    shift = -score if first else score
    return replace(form, threshold=shift, last_of_ties=not first, magnitude=sizes)


def _score_limit(form: LinearScores, limit: float, name: str) -> float:
    """The score of a class from which on its probability is at least a limit."""
    if form.link is Link.NONE:
        raise UnsupportedModel(
            f"{name} sets a threshold on probabilities, but {form.no_probabilities}. "
            "Fit it with response_method='decision_function'."
        )
    if not 0.0 < limit < 1.0:
        raise UnsupportedModel(
            f"{name} has the threshold {limit!r} on a probability, which hardly any input or "
            "every input meets. Use a threshold between 0 and 1, both excluded."
        )
    if form.link is Link.CLIPPED:
        return 2.0 * limit - 1.0
    return float(np.log(limit) - np.log1p(-limit))


@on(finish, FixedThresholdClassifier, TunedThresholdClassifierCV)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    inner = _decider(model)
    if isinstance(model, TunedThresholdClassifierCV):
        limit = fitted(model, columns.where).best_threshold_
        positive = model._curve_scorer._get_pos_label()  # noqa: SLF001 (kept nowhere public)
    else:
        by_probability = _response(model, inner) == "predict_proba"
        limit, positive = model.threshold, model.pos_label
        limit = (0.5 if by_probability else 0.0) if limit == "auto" else limit
    form, after = finish(inner, columns)
    moved = _with_threshold(model, inner, form, float(limit), positive)
    label = moved.classes.tolist()[-1]
    said = f"{type(model).__name__}, {label!r} from score {moved.threshold:.6g} on"
    return moved, after.noted(said)


@on(inputs_of, FixedThresholdClassifier, TunedThresholdClassifierCV)
def _(model: Any) -> Inputs | None:
    return inputs_of(_decider(model))


def _decider(model: Any) -> Any:
    """The fitted classifier under a threshold; one that was fitted before is left in place."""
    return getattr(model, "estimator_", model.estimator)


def _response(model: Any, inner: Any) -> str:
    """The method whose values the threshold is compared with."""
    if model.response_method != "auto":
        return str(model.response_method)
    return "predict_proba" if hasattr(inner, "predict_proba") else "decision_function"


# --- regressors of transformed targets ---


@on(finish, TransformedTargetRegressor)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    form, after = finish(fitted(model, columns.where).regressor_, columns)
    if not isinstance(form, LinearRegressor):
        raise UnsupportedModel(
            f"TransformedTargetRegressor is read over linear regressors; "
            f"got {type(model.regressor_).__name__}."
        )
    return _untransformed(form, model.transformer_, columns), after


def _untransformed(form: LinearRegressor, transformer: Any, columns: Columns) -> LinearRegressor:
    """The form whose prediction the transformer would turn into this form's."""
    if isinstance(transformer, FunctionTransformer):
        if transformer.inverse_func is None:
            return form
        if transformer.inverse_func is np.exp and not form.exponential:
            return replace(form, exponential=True)
        func = getattr(transformer.inverse_func, "__name__", repr(transformer.inverse_func))
        raise UnsupportedModel(
            f"TransformedTargetRegressor turns predictions back with {func!r}, which cannot be "
            "known to be affine. Use no function, np.log with np.exp, or an affine scaler."
        )
    column = replace(Columns.inputs(1), where=columns.where)
    forth = trace_step("transformer", transformer, column).map()
    scale, shift = float(forth.matrix[0, 0]), float(forth.offset[0])
    if not form.exponential:
        inner = AffineMap(form.coef[None, :], np.array([form.intercept]), form.sizes)
        back = Magnitude(np.array([[abs(1.0 / scale)]]), np.array([abs(shift / scale)]), 2)
        return replace(
            form,
            coef=form.coef / scale,
            intercept=(form.intercept - shift) / scale,
            magnitude=back.through(inner),
        )
    raise UnsupportedModel(
        "TransformedTargetRegressor with a scaler over a regressor with a log link is not read. "
        "Leave the scaler out: the regressor takes care of the scale itself."
    )


@on(inputs_of, TransformedTargetRegressor)
def _(model: Any) -> Inputs | None:
    return inputs_of(fitted(model).regressor_)
