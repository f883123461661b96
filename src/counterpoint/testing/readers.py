# ruff: noqa: S101 (a check says what differs by an AssertionError)
"""Checks readers: a form must predict as the model that it was read from."""

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
    """Check that the form that a fitted model is read into is the model.

    It predicts what the model predicts on every row of X (where two classes are not within rounding
    of a tie); where it claims probabilities, they are the model's; and every class of the model has
    a region.

    Parameters
    ----------
    model
        A fitted classifier or regressor, possibly a pipeline.
    X
        Rows as the model takes them.
    features
        The columns; None to take them from X and the model.
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
    expected, form = np.asarray(model.predict(rows)), reading.form
    predicted, tolerance = form.predict(points), 1e3 * form.noise(points)
    assert predicted.shape == expected.shape, (
        f"The form predicts shape {predicted.shape}; the model, {expected.shape}."
    )
    if form.has_values:
        wrong = np.abs(predicted - expected) > 1e-9 * np.abs(expected) + tolerance
        first = int(wrong.argmax())
        assert not wrong.any(), (
            f"The form predicts {predicted[first]!r} in row {first}; the model, "
            f"{expected[first]!r}."
        )
        return
    for i in np.flatnonzero(predicted != expected).tolist():
        margin = form.margin(points[[i]], Label(predicted[i]))[0]
        assert margin <= tolerance[i], (
            f"The form predicts {predicted[i]!r} in row {i}, by {margin:.3g} in score "
            f"units; the model, {expected[i]!r}."
        )
    if form.link is Link.CALIBRATED:
        _check_levels(form, points, reading.classes, model.predict_proba(rows))
    elif form.link is not Link.NONE:
        _check_probabilities(form, points, reading.classes, model.predict_proba(rows))
    for label in reading.classes:
        assert form.regions(Label(label)), f"The class {label!r} has no region."


def _check_probabilities(
    form: Form, points: FloatArray, classes: Any, probabilities: FloatArray
) -> None:
    """Check the form's probabilities against those of the model, (n, K)."""
    from scipy.special import expit

    # Margins over one half are log-odds; of a clipped probability p, they are 2 p − 1.
    margins = np.stack([form.margin(points, Probability(label, 0.5)) for label in classes], axis=1)
    clipped = form.link is Link.CLIPPED
    of_form = np.clip((margins + 1.0) / 2.0, 0.0, 1.0) if clipped else expit(margins)
    error = np.abs(of_form - probabilities).max(axis=1)
    worst = int(error.argmax())
    assert error[worst] <= 1e-9 + 1e3 * form.noise(points)[worst], (
        f"The form's probabilities in row {worst} are {of_form[worst]}; the model's, "
        f"{probabilities[worst]}."
    )


def _check_levels(form: Form, points: FloatArray, classes: Any, probabilities: FloatArray) -> None:
    """Check on which side of three levels probabilities are, by the form and by the model."""
    tolerance = 1e3 * form.noise(points)
    for k, label in enumerate(classes):
        for level in np.quantile(probabilities[:, k], (0.1, 0.5, 0.9)):
            if not 0.0 < level < 1.0:
                continue
            margin = form.margin(points, Probability(label, level))
            reached = probabilities[:, k] >= level
            error = np.where(reached, -margin, margin) - tolerance
            worst = int(error.argmax())
            assert error[worst] <= 0.0, (
                f"The form leads by {margin[worst]:.3g} for a probability of {level} of "
                f"{label!r} in row {worst}; the model gives it {probabilities[worst, k]}."
            )
