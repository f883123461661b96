"""Read models made of models: pipelines, unions, searches, thresholds, calibrations, targets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
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
from counterpoint.models.columns import Columns, join, place
from counterpoint.models.dispatch import (
    Inputs,
    classes_of,
    finish,
    fitted,
    inputs_of,
    quiet,
    read_step,
    through_step,
)
from counterpoint.models.estimators import ONE_VS_REST, OTHER_SCORES
from counterpoint.models.form import AffineMap, Form, Link, Magnitude, require_finite
from counterpoint.models.linear import Calibration, LinearRegressor, LinearScores
from counterpoint.numerics import LARGEST, FloatArray, first_float

# The common base of all searches, the experimental halving ones included, is private.
_Search: Any = GridSearchCV.__base__


# --- pipelines ---


@read_step.register(Pipeline)
def _(pipeline: Any, columns: Columns) -> Columns:
    for name, step in pipeline.steps:
        columns = through_step(name, step, columns)
    return columns


@finish.register(Pipeline)
def _(pipeline: Any, columns: Columns) -> tuple[Form, Columns]:
    for name, step in pipeline.steps[:-1]:
        columns = through_step(name, step, columns)
    if not pipeline.steps:
        raise UnsupportedModel("Expected a pipeline that ends in a model; it has no steps.")
    name, last = pipeline.steps[-1]
    if last is None or isinstance(last, str):
        raise UnsupportedModel(
            f"Expected a pipeline that ends in a model; its last step {name!r} is {last!r}. "
            "Put a classifier or regressor there."
        )
    form, after = finish(last, columns.at(name))
    return form, replace(after, where=columns.where)


@inputs_of.register(Pipeline)
def _(pipeline: Any) -> Inputs | None:
    for name, step in pipeline.steps:
        if step is not None and not isinstance(step, str):
            return inputs_of(fitted(step, name))
    return None


# --- wrappers of one model ---


def _register_wrapper(kind: Any, inner: Callable[[Any, str], Any]) -> None:
    """Read a wrapper as the model ``inner(wrapper, where)`` in it, whatever the question is."""
    finish.register(kind, lambda model, columns: finish(inner(model, columns.where), columns))
    read_step.register(kind, lambda model, columns: read_step(inner(model, columns.where), columns))
    inputs_of.register(kind, lambda model: inputs_of(inner(model, "")))


def _best_estimator(search: Any, where: str) -> Any:
    best = getattr(search, "best_estimator_", None)
    if best is None:
        raise ModelNotFitted(
            f"Expected a search that was fitted with refit=True; {place(search, where)} keeps no "
            "best_estimator_. Fit it with refit=True, or pass the estimator itself."
        )
    return best


_register_wrapper(_Search, _best_estimator)
with suppress(ImportError):  # scikit-learn before 1.6
    from sklearn.frozen import FrozenEstimator

    _register_wrapper(FrozenEstimator, lambda frozen, where: fitted(frozen.estimator, where))


@finish.register(RANSACRegressor | RFE)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    inner = fitted(model, columns.where).estimator_
    return finish(inner, read_step(model, columns) if isinstance(model, RFE) else columns)


# --- side by side ---


def _side_by_side(model: Any, columns: Columns, steps: list[tuple[str, Any, Columns]]) -> Columns:
    """Join the outputs of steps (name, step, its input columns), each times its weight."""
    weights, outputs = model.transformer_weights or {}, []
    for name, step, inputs in steps:
        after = through_step(name, step, inputs)
        outputs.append(after.scaled(weights[name]) if weights.get(name) is not None else after)
    return join(columns, outputs)


@read_step.register(FeatureUnion)
def _(union: Any, columns: Columns) -> Columns:
    steps = [(name, step, columns) for name, step in union.transformer_list if step != "drop"]
    return _side_by_side(union, columns, steps)


@inputs_of.register(FeatureUnion)
def _(union: Any) -> Inputs | None:
    """All steps take the same columns; those are needed that any of them needs, if all tell."""
    steps = [inputs_of(step) for _, step in union.transformer_list if not isinstance(step, str)]
    inputs = [step for step in steps if step is not None]
    if not inputs:
        return None
    needed = [step.needed for step in inputs if step.needed is not None]
    if len(needed) < len(union.transformer_list):
        return replace(inputs[0], needed=None)
    return replace(inputs[0], needed=tuple(sorted({j for positions in needed for j in positions})))


def _steps_of(transformer: Any) -> list[tuple[str, Any, list[int]]]:
    """Return (name, step, input positions) of a fitted column transformer, in output order."""
    positions = transformer._transformer_to_input_indices  # noqa: SLF001 (kept nowhere public)
    with quiet():  # some versions warn when the remainder's columns are read
        steps = [(name, step) for name, step, _ in transformer.transformers_]
    return [
        (name, step, [int(j) for j in positions[name]])
        for name, step in steps
        if len(positions[name]) and not (isinstance(step, str) and step == "drop")
    ]


@read_step.register(ColumnTransformer)
def _(transformer: Any, columns: Columns) -> Columns:
    names = getattr(transformer, "feature_names_in_", None)
    steps = []
    for name, step, positions in _steps_of(transformer):
        wanted = None if names is None else [names[j] for j in positions]
        steps.append((name, step, _take_columns(columns, positions, wanted)))
    return _side_by_side(transformer, columns, steps)


def _take_columns(columns: Columns, positions: list[int], names: list[Any] | None) -> Columns:
    """Take raw columns by name; later ones, whose order is that at fit, by position."""
    if names is None or columns.names is None:
        return columns.take(positions)
    position_of = {name: j for j, name in enumerate(columns.names)}
    for name in names:
        if name not in position_of:
            raise InvalidInput(
                f"Expected the column {name!r}, which the model uses; got {columns.names!r}."
            )
    return columns.take([position_of[name] for name in names])


@inputs_of.register(ColumnTransformer)
def _(transformer: Any) -> Inputs | None:
    names = getattr(fitted(transformer), "feature_names_in_", None)
    needed = sorted({j for _, _, positions in _steps_of(transformer) for j in positions})
    names = None if names is None else tuple(names)
    return Inputs(int(transformer.n_features_in_), names, tuple(needed))


# --- thresholds ---


@finish.register(FixedThresholdClassifier | TunedThresholdClassifierCV)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    """Read a binary model that decides for a class where its response reaches a threshold.

    The response is a score of the positive class or its probability, which is turned into a score:
    so the form is that of the classifier under it, with the decision shifted.
    """
    name, inner = type(model).__name__, _thresholded(model)
    method = model.response_method
    if method == "auto":
        method = "predict_proba" if hasattr(inner, "predict_proba") else "decision_function"
    by_probability = method == "predict_proba"
    if isinstance(model, TunedThresholdClassifierCV):
        threshold = fitted(model, columns.where).best_threshold_
        positive = model._curve_scorer._get_pos_label()  # noqa: SLF001 (kept nowhere public)
    else:
        threshold, positive = model.threshold, model.pos_label
        threshold = (0.5 if by_probability else 0.0) if threshold == "auto" else threshold
    form, after = finish(inner, columns)
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
    score, sizes = float(threshold), form.sizes
    if by_probability:
        score = _score_limit(form, score, name)
        sizes = replace(sizes, offset=sizes.offset + _probability_error(score))
    require_finite(score)
    # The form's threshold is one on the score of the second class, minus that of the first.
    is_first = positive is not None and positive == form.classes[0]
    shift = -score if is_first else score
    moved = replace(form, threshold=shift, last_of_ties=not is_first, magnitude=sizes)
    line = f"{name}, {form.classes.tolist()[-1]!r} from score {shift:.6g} on"
    return moved, after.noted(line)


def _score_limit(form: LinearScores, limit: float, name: str) -> float:
    """Return the score of a class from which on its probability is at least a limit."""
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
    return form.score_at(limit)


def _probability_error(score: float) -> float:
    """Return the size of one more term of a score that covers rounding of its probability p.

    In log-odds, an error of p is 1 / (p (1 − p)) = 2 + 2 cosh(score) times as large. p has fewer
    than twelve roundings (an exponential, a sum, a quotient), and at least six of a score's are
    allowed for, so that the size is about twice that.
    """
    return 2.0 * (2.0 + float(np.exp(min(abs(score), 700.0))))  # exp(710) overflows


def _thresholded(model: Any) -> Any:
    """Return the fitted classifier under a threshold, fitted with it or before it."""
    return getattr(model, "estimator_", model.estimator)


for kind in (FixedThresholdClassifier, TunedThresholdClassifierCV):
    inputs_of.register(kind, lambda model: inputs_of(_thresholded(model)))


# --- calibrations ---


@finish.register(CalibratedClassifierCV)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    """Read one calibration over one classifier, a function of its scores.

    Sigmoids and temperatures are affine before the link, so they give other scores. An isotonic
    calibration is a step function; it moves the threshold of the score.
    """
    inner, calibrators = _only_fold(model, columns.where)
    form, after = finish(inner, columns)
    classes = classes_of(model)  # the classifier may have been fitted on their positions
    by_score = hasattr(inner, "decision_function")
    if (
        not isinstance(form, LinearScores)
        or len(form.classes) != len(classes)
        or form.threshold != 0.0  # its decision is not that of its score
        or form.no_probabilities == OTHER_SCORES  # which were calibrated
        or (form.is_binary and form.matrix[0].any())  # two scores, and not one
        or (not by_score and not (form.is_binary and form.link is Link.SOFTMAX))
    ):
        raise UnsupportedModel(
            "CalibratedClassifierCV is read over linear classifiers with a decision_function, and "
            "over linear ones of two classes whose probabilities are a logistic function; got "
            f"{type(inner).__name__}. Use LogisticRegression, LinearSVC or their like in it."
        )
    if by_score and model.method != "isotonic":
        read = _with_new_scores(form, model.method, calibrators)
    elif form.is_binary and model.method != "temperature":
        calibration = Calibration(calibrators[0].predict, of_probability=not by_score)
        read = _with_new_threshold(form, calibration)
    else:
        raise UnsupportedModel(
            f"CalibratedClassifierCV with method={model.method!r} over {type(inner).__name__} of "
            f"{len(form.classes)} classes has decision boundaries that are not linear. "
            "Use method='sigmoid' over a classifier with a decision_function."
        )
    return replace(read, classes=classes), after.noted(f"CalibratedClassifierCV, {model.method}")


def _only_fold(model: Any, where: str) -> tuple[Any, list[Any]]:
    """Return the classifier under a calibration and its calibrators, if there is one fold alone."""
    folds = fitted(model, where).calibrated_classifiers_
    if len(folds) > 1:
        step = place(model, where)
        raise UnsupportedModel(
            f"{step[0].upper()}{step[1:]} cannot be read exactly: its probabilities are an average "
            f"over {len(folds)} folds of calibrations, which is not linear. Fit it with "
            "ensemble=False, or explain the classifier that was calibrated."
        )
    return folds[0].estimator, folds[0].calibrators


def _with_new_scores(form: LinearScores, method: str, calibrators: list[Any]) -> LinearScores:
    """Return the form whose scores are the log-odds of the calibrated probabilities.

    They are slope · score + shift, class by class; of two classes only the second has a score.
    """
    if method == "temperature":  # of two classes, scikit-learn takes the softmax of (−z, z)
        slope = np.full(len(form.offset), calibrators[0].beta_ * (2.0 if form.is_binary else 1.0))
        shift, link = np.zeros(len(form.offset)), Link.SOFTMAX
    else:  # the probability is 1 / (1 + exp(a · score + b)), for each class
        slope, shift = (-np.array([getattr(c, name) for c in calibrators]) for name in ("a_", "b_"))
        link = Link.SOFTMAX if form.is_binary else Link.NONE
    if form.is_binary:
        slope, shift = np.append(0.0, slope[-1:]), np.append(0.0, shift[-1:])
    scale = np.diag(slope)
    calibration = AffineMap(scale, shift, magnitude=Magnitude(np.abs(scale), np.abs(shift), 2))
    whole = calibration.through(form.map)
    # Decisions fall where two classes are equally probable.
    sizes = replace(whole.sizes, offset=whole.sizes.offset + _probability_error(0.0))
    options: Any = {"link": link, "no_probabilities": ONE_VS_REST, "last_of_ties": False}
    return replace(
        form, matrix=whole.matrix, offset=whole.offset, magnitude=sizes, calibration=None, **options
    )


def _with_new_threshold(form: LinearScores, calibration: Calibration) -> LinearScores:
    """Return the form that decides for its second class where its probability exceeds one half."""

    def is_second(score: FloatArray) -> Any:
        probability = calibration(score)
        return probability > 1.0 - probability

    ends = calibration(np.array([-LARGEST, LARGEST]))  # the least and the largest probability
    threshold = float(first_float(is_second, -LARGEST, LARGEST)[0])
    # It falls, or it is constant: then the threshold is the least float, or infinite.
    if not ends[0] <= ends[1] or not abs(threshold) < LARGEST:
        raise UnsupportedModel(
            "CalibratedClassifierCV gives the class "
            f"{form.classes.tolist()[int(ends[1] > 0.5)]!r} to every input, or less to those that "
            "score higher. Calibrate on more data, or explain the classifier that was calibrated."
        )
    # What is calibrated, a probability or a score, is computed by the model with rounding.
    error = _probability_error(threshold if calibration.of_probability else 0.0)
    sizes = replace(form.sizes, offset=form.sizes.offset + error)
    # At the threshold itself the decision is for the second class already.
    options: Any = {"link": Link.CALIBRATED, "calibration": calibration, "last_of_ties": True}
    return replace(form, threshold=threshold, magnitude=sizes, **options)


inputs_of.register(CalibratedClassifierCV, lambda model: inputs_of(_only_fold(model, "")[0]))


# --- regressors of transformed targets ---


@finish.register(TransformedTargetRegressor)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    form, after = finish(fitted(model, columns.where).regressor_, columns)
    if not isinstance(form, LinearRegressor):
        raise UnsupportedModel(
            f"TransformedTargetRegressor is read over linear regressors; "
            f"got {type(model.regressor_).__name__}."
        )
    return _untransformed(form, model.transformer_, columns), after


def _untransformed(form: LinearRegressor, transformer: Any, columns: Columns) -> LinearRegressor:
    """Return the form of the target itself, whose transform the given form predicts.

    An affine transform, scale · y + shift, is undone by (z − shift) / scale; a logarithm makes the
    form exponential.
    """
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
    if form.exponential:
        raise UnsupportedModel(
            "TransformedTargetRegressor with a scaler over a regressor with a log link is not "
            "read. Leave the scaler out: the regressor takes care of the scale itself."
        )
    y = replace(Columns.inputs(1), where=columns.where, straight=True)
    try:
        transform = through_step("transformer", transformer, y).map()
    except UnsupportedModel as error:
        raise UnsupportedModel(
            f"TransformedTargetRegressor turns predictions back by {type(transformer).__name__}, "
            "which is not affine. Use np.log with np.exp, or an affine scaler."
        ) from error
    scale, shift = np.asarray(transform.matrix), transform.offset  # (1, 1) and (1,)
    sizes = Magnitude(np.abs(1.0 / scale), np.abs(shift / scale[0]), 2)
    matrix, offset = form.matrix / scale, (form.offset - shift) / scale[0]
    return replace(form, matrix=matrix, offset=offset, magnitude=sizes.through(form.map))


inputs_of.register(TransformedTargetRegressor, lambda model: inputs_of(fitted(model).regressor_))
