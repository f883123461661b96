"""Reader of calibrated classifiers: one calibration over one classifier is a map of its scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV

from counterpoint.errors import UnsupportedModel
from counterpoint.models.columns import Columns, place
from counterpoint.models.dispatch import classes_of, finish, fitted, inputs_of
from counterpoint.models.estimators import ONE_VS_REST, OTHER_SCORES
from counterpoint.models.form import AffineMap, Form, Magnitude
from counterpoint.models.linear import Calibration, LinearScores, Link
from counterpoint.numerics import LARGEST, FloatArray, first_float

__all__: list[str] = []


@finish.register(CalibratedClassifierCV)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    """Sigmoids and temperatures are affine in the scores; an isotonic one moves the threshold."""
    inner, calibrators = _only(model, columns.where)
    form, after = finish(inner, columns)
    classes = classes_of(model)  # the classifier may have been fitted on their positions
    by_score = hasattr(inner, "decision_function")
    if (
        not isinstance(form, LinearScores)
        or len(form.classes) != len(classes)
        or form.threshold != 0.0
        or form.no_probabilities == OTHER_SCORES
        or (form.is_binary and form.matrix[0].any())
        or (not by_score and not (form.is_binary and form.link is Link.SOFTMAX))
    ):
        raise UnsupportedModel(
            "CalibratedClassifierCV is read over linear classifiers with a decision_function, and "
            "over linear ones of two classes whose probabilities are a logistic function; got "
            f"{type(inner).__name__}. Use LogisticRegression, LinearSVC or their like in it."
        )
    if by_score and model.method != "isotonic":
        read = _rescaled(form, model.method, calibrators)
    elif form.is_binary and model.method != "temperature":
        read = _moved(form, Calibration(calibrators[0].predict, of_probability=not by_score))
    else:
        raise UnsupportedModel(
            f"CalibratedClassifierCV with method={model.method!r} over {type(inner).__name__} of "
            f"{len(form.classes)} classes has decision boundaries that are not linear. "
            "Use method='sigmoid' over a classifier with a decision_function."
        )
    return replace(read, classes=classes), after.noted(f"CalibratedClassifierCV, {model.method}")


def _only(model: Any, where: str) -> tuple[Any, list[Any]]:
    """Return the classifier under a calibration and its calibrators, if there is one fold alone."""
    held = fitted(model, where).calibrated_classifiers_
    if len(held) > 1:
        step = place(model, where)
        raise UnsupportedModel(
            f"{step[0].upper()}{step[1:]} cannot be read exactly: its probabilities are an average "
            f"over {len(held)} folds of calibrations, which is not linear. Fit it with "
            "ensemble=False, or explain the classifier that was calibrated."
        )
    return held[0].estimator, held[0].calibrators


def _rescaled(form: LinearScores, method: str, calibrators: list[Any]) -> LinearScores:
    """Return the form whose scores are the log-odds of the calibrated probabilities."""
    if method == "temperature":
        slope = np.full(len(form.offset), calibrators[0].beta_ * (2.0 if form.is_binary else 1.0))
        shift, link = np.zeros(len(form.offset)), Link.SOFTMAX
    else:  # the probability is 1 / (1 + exp(a · score + b)), for each class
        slope, shift = (-np.array([getattr(c, name) for c in calibrators]) for name in ("a_", "b_"))
        link = Link.SOFTMAX if form.is_binary else Link.NONE
    if form.is_binary:
        slope, shift = np.append(0.0, slope[-1:]), np.append(0.0, shift[-1:])
    scale = np.diag(slope)
    seen = AffineMap(scale, shift, magnitude=Magnitude(np.abs(scale), np.abs(shift), 2))
    whole = seen.through(form.map)
    # Where two classes are equally probable, a rounding error of a probability is some of log-odds.
    sizes = replace(whole.sizes, offset=whole.sizes.offset + 6.0)
    options: Any = {"link": link, "no_probabilities": ONE_VS_REST, "last_of_ties": False}
    return replace(
        form, matrix=whole.matrix, offset=whole.offset, magnitude=sizes, calibration=None, **options
    )


def _moved(form: LinearScores, calibration: Calibration) -> LinearScores:
    """Return the form that decides where the calibrated probability exceeds one half."""

    def decides(score: FloatArray) -> Any:
        probability = calibration(score)
        return probability > 1.0 - probability

    ends = calibration(np.array([-LARGEST, LARGEST]))
    limit = float(first_float(decides, -LARGEST, LARGEST)[0])
    if not ends[0] <= ends[1] or not abs(limit) < LARGEST:
        raise UnsupportedModel(
            "CalibratedClassifierCV gives the class "
            f"{form.classes.tolist()[int(ends[1] > 0.5)]!r} to every input, or less to those that "
            "score higher. Calibrate on more data, or explain the classifier that was calibrated."
        )
    errors = 6.0 if not calibration.of_probability else 2.0 * (2.0 + np.exp(min(abs(limit), 700.0)))
    sizes = replace(form.sizes, offset=form.sizes.offset + errors)
    options: Any = {"link": Link.CALIBRATED, "calibration": calibration, "last_of_ties": True}
    return replace(form, threshold=limit, magnitude=sizes, **options)


inputs_of.register(CalibratedClassifierCV, lambda model: inputs_of(_only(model, "")[0]))
