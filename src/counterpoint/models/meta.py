"""Models that decide by another model: thresholds, one-vs-rest, transformed targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.feature_selection import RFE
from sklearn.linear_model import RANSACRegressor
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.preprocessing import FunctionTransformer

from counterpoint.errors import InvalidInput, UnsupportedModel
from counterpoint.models.attributes import OTHER_SCORES, fitted
from counterpoint.models.classifiers import ONE_VS_REST
from counterpoint.models.columns import Columns
from counterpoint.models.compose import read_whole
from counterpoint.models.dispatch import (
    Inputs,
    finish,
    inputs_of,
    on,
    read,
    require_fitted,
    trace,
    trace_step,
)
from counterpoint.models.form import AffineMap, Form, Magnitude
from counterpoint.models.linear import LinearRegressor, LinearScores, Link, LogLink, Ties

__all__: list[str] = []

SHARE = 2.0
"""How many roundings of a probability count as one of the score's own, at least six of which are
allowed for: an exponential, a sum and a quotient are off by fewer than twelve."""


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
    if by_probability:  # of which a rounding error is 1 / (p (1 − p)) of them in log-odds
        sizes = replace(sizes, offset=sizes.offset + SHARE * (2.0 + np.exp(abs(score))))
    first = positive is not None and positive == form.classes[0]
    ties = Ties.FIRST if first else Ties.LAST  # the limit itself is enough
    return replace(form, threshold=-score if first else score, ties=ties, magnitude=sizes)


def _told(model: Any, form: LinearScores, columns: Columns) -> Columns:
    label = form.classes.tolist()[-1]
    return columns.noted(f"{type(model).__name__}, {label!r} from score {form.threshold:.6g} on")


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


@on(finish, FixedThresholdClassifier)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    inner = _decider(model)
    form, after = finish(inner, columns)
    limit = model.threshold
    if limit == "auto":
        limit = 0.5 if _response(model, inner) == "predict_proba" else 0.0
    moved = _with_threshold(model, inner, form, float(limit), model.pos_label)
    return moved, _told(model, moved, after)


@on(finish, TunedThresholdClassifierCV)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    require_fitted(model, columns)
    inner = _decider(model)
    form, after = finish(inner, columns)
    positive = model._curve_scorer._get_pos_label()  # noqa: SLF001 (kept nowhere public)
    moved = _with_threshold(model, inner, form, float(model.best_threshold_), positive)
    return moved, _told(model, moved, after)


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


# --- one against the rest, and one against one ---


@on(read, OneVsRestClassifier)
def _(model: Any) -> Form:
    if fitted(model).multilabel_:
        raise UnsupportedModel(
            "OneVsRestClassifier was fitted on several labels for each row; expected one class. "
            "Explain its estimators_ one by one."
        )
    classes: NDArray[Any] = np.asarray(model.classes_)
    parts = [_one_vs_rest_part(estimator) for estimator in model.estimators_]
    matrix = np.stack([part.matrix[1] - part.matrix[0] for part in parts])
    offset = np.array([part.offset[1] - part.offset[0] for part in parts])
    if len(parts) == 1:
        why: Any = {"no_probabilities": parts[0].no_probabilities, "magnitude": parts[0].sizes}
        return LinearScores.binary(matrix[0], offset[0], classes, link=parts[0].link, **why)
    sizes = Magnitude.joined([part.sizes for part in parts])
    options: Any = {"ties": Ties.LAST, "magnitude": sizes}
    return LinearScores(matrix, offset, classes, Link.NONE, ONE_VS_REST, **options)


def _one_vs_rest_part(estimator: Any) -> LinearScores:
    refusal = UnsupportedModel(
        f"OneVsRestClassifier is read over linear binary classifiers with a decision_function; "
        f"got {type(estimator).__name__}. Use LogisticRegression, LinearSVC or their like in it, "
        "and put steps that encode categories before it."
    )
    if not hasattr(estimator, "decision_function"):  # it would compare probabilities or values
        raise refusal
    try:
        form = read(estimator)
    except (InvalidInput, UnsupportedModel) as error:
        raise refusal from error
    if not isinstance(form, LinearScores) or not form.is_binary:
        raise refusal
    if form.threshold != 0.0 or form.no_probabilities == OTHER_SCORES:
        raise refusal
    return form


@on(read, OneVsOneClassifier)
def _(_model: Any) -> Form:
    raise UnsupportedModel(
        "OneVsOneClassifier breaks ties between votes by a score that is not linear. "
        "Use OneVsRestClassifier, or SVC(kernel='linear')."
    )


# --- selection and a model in one ---


@on(finish, RFE)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    require_fitted(model, columns)
    return finish(model.estimator_, trace(model, columns))


# --- regressors around regressors ---


@on(finish, RANSACRegressor)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    require_fitted(model, columns)
    return finish(model.estimator_, columns)


@on(finish, TransformedTargetRegressor)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    require_fitted(model, columns)
    form, after = finish(model.regressor_, columns)
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
        if transformer.inverse_func is np.exp and form.link is LogLink.IDENTITY:
            return replace(form, link=LogLink.EXP)
        func = getattr(transformer.inverse_func, "__name__", repr(transformer.inverse_func))
        raise UnsupportedModel(
            f"TransformedTargetRegressor turns predictions back with {func!r}, which cannot be "
            "known to be affine. Use no function, np.log with np.exp, or an affine scaler."
        )
    column = replace(Columns.inputs(1), where=columns.where)
    forth = trace_step("transformer", transformer, column).map()
    scale, shift = float(forth.matrix[0, 0]), float(forth.offset[0])
    if form.link is LogLink.IDENTITY:
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


for _kind in (
    FixedThresholdClassifier,
    RANSACRegressor,
    RFE,
    TransformedTargetRegressor,
    TunedThresholdClassifierCV,
):
    read.register(_kind, read_whole)
