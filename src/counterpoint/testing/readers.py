# ruff: noqa: S101 (a check says what differs by an AssertionError)
"""What a reader must pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoint.models.form import Form, Link
from counterpoint.numerics import FloatArray
from counterpoint.problem.targets import Label, Probability
from counterpoint.rows.encoding import encode, match_columns
from counterpoint.rows.features import Features
from counterpoint.rows.table import Table


def check_reader(model: Any, X: Any, *, features: Features | None = None) -> None:
    """Check that a fitted model is read as what it is.

    The form predicts what the model predicts on every row of X (where two classes are not within
    rounding of a tie); where it claims probabilities, they are the model's; and every class of the
    model has a region.

    Parameters
    ----------
    model
        A fitted classifier or regressor, possibly a pipeline.
    X
        Rows as the model takes them.
    features
        What the columns are; None to take it from X and the model.
    """
    from counterpoint.models import see_through

    table = Table.read(X)
    described = Features.from_data(table) if features is None else features
    reading = see_through(model, described, fixed=features is not None)
    matched = match_columns(table, reading.features)
    encoded = encode(matched, reading.features)
    assert not encoded.problems, f"Rows cannot be encoded: {encoded.problems}."
    points = reading.features.expand(encoded.codes)
    rows = matched.to_model_input(named=reading.named)
    answers, form = np.asarray(model.predict(rows)), reading.form
    predicted, noise = form.predict(points), form.noise(points)
    assert predicted.shape == answers.shape, (
        f"The form predicts shape {predicted.shape}; the model, {answers.shape}."
    )
    classes = reading.classes
    if form.has_values:
        wrong = np.abs(predicted - answers) > 1e-9 * np.abs(answers) + 1e3 * noise
        worst = int(wrong.argmax())
        assert not wrong.any(), (
            f"The form predicts {predicted[worst]!r} in row {worst}; the model, {answers[worst]!r}."
        )
        return
    for i in np.flatnonzero(predicted != answers).tolist():
        safety_margin = form.margin(points[[i]], Label(predicted[i]))[0]
        assert safety_margin <= 1e3 * noise[i], (
            f"The form predicts {predicted[i]!r} in row {i}, by {safety_margin:.3g} in score "
            f"units; the model, {answers[i]!r}."
        )
    if form.link is Link.CALIBRATED:
        _check_levels(form, points, classes, model.predict_proba(rows))
    elif form.link is not Link.NONE:
        _check_probabilities(form, points, classes, model.predict_proba(rows))
    for label in classes:
        assert form.regions(Label(label)), f"The class {label!r} has no region."


def _check_probabilities(form: Form, points: FloatArray, classes: Any, shares: FloatArray) -> None:
    from scipy.special import expit

    # By how far the probability one half is exceeded, in log-odds or on a scale of its own.
    margins = np.stack([form.margin(points, Probability(k, 0.5)) for k in classes], axis=1)
    clipped = form.link is Link.CLIPPED
    probable = np.clip((margins + 1.0) / 2.0, 0.0, 1.0) if clipped else expit(margins)
    wrong = np.abs(probable - shares).max(axis=1)
    worst = int(wrong.argmax())
    assert wrong[worst] <= 1e-9 + 1e3 * form.noise(points)[worst], (
        f"The form's probabilities in row {worst} are {probable[worst]}; the model's, "
        f"{shares[worst]}."
    )


def _check_levels(form: Form, points: FloatArray, classes: Any, shares: FloatArray) -> None:
    """Check on which side of three levels probabilities are, by the form and by the model."""
    noise = form.noise(points)
    for k, label in enumerate(classes):
        for level in np.quantile(shares[:, k], (0.1, 0.5, 0.9)):
            if not 0.0 < level < 1.0:
                continue
            safety_margin = form.margin(points, Probability(label, level))
            reached = shares[:, k] >= level
            wrong = np.where(reached, -safety_margin, safety_margin) - 1e3 * noise
            worst = int(wrong.argmax())
            assert wrong[worst] <= 0.0, (
                f"The form leads by {safety_margin[worst]:.3g} for a probability of {level} of "
                f"{label!r} in row {worst}; the model gives it {shares[worst, k]}."
            )
