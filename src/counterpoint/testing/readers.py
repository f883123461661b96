# ruff: noqa: S101 (a check says what differs by an AssertionError)
"""What a reader must pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.models.form import Form, Link
from counterpoint.rows.encoding import encode, match_columns
from counterpoint.rows.features import Features
from counterpoint.rows.table import Table
from counterpoint.targets import Label, Probability

__all__ = ["check_reader"]

FloatArray = NDArray[np.float64]


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

    Raises
    ------
    AssertionError
        With a sentence on what differs.
    """
    from counterpoint.models import see_through

    table = Table.read(X)
    given = Features.from_data(table) if features is None else features
    reading = see_through(model, given, fixed=features is not None)
    matched = match_columns(table, reading.features)
    encoded = encode(matched, reading.features)
    assert not encoded.problems, f"Rows cannot be encoded: {encoded.problems}."
    points = reading.features.expand(encoded.codes)
    rows = matched.to_model_input(named=reading.named)
    classes = getattr(model, "classes_", None)
    if classes is None:
        _check_values(reading.form, points, model.predict(rows))
        return
    _check_labels(reading.form, points, np.asarray(model.predict(rows)))
    form = reading.form
    if form.link is not Link.NONE:
        _check_probabilities(form, points, classes, model.predict_proba(rows))
    for label in classes:
        assert reading.form.regions(Label(label)), f"The class {label!r} has no region."


def _check_values(form: Form, points: FloatArray, expected: NDArray[Any]) -> None:
    found = form.predict(points)
    assert found.shape == expected.shape, (
        f"The form predicts shape {found.shape}; the model, {expected.shape}."
    )
    off = np.abs(found - expected) > 1e-9 * np.abs(expected) + 1e3 * form.noise(points)
    worst = int(off.argmax())
    assert not off.any(), (
        f"The form predicts {found[worst]!r} in row {worst}; the model, {expected[worst]!r}."
    )


def _check_labels(form: Form, points: FloatArray, expected: NDArray[Any]) -> None:
    found = form.predict(points)
    for i in np.flatnonzero(found != expected).tolist():
        row = points[[i]]
        lead = form.margin(row, Label(found[i]))[0]
        assert lead <= 1e3 * form.noise(row)[0], (
            f"The form predicts {found[i]!r} in row {i}, by {lead:.3g} in score units; "
            f"the model, {expected[i]!r}."
        )


def _check_probabilities(
    form: Form, points: FloatArray, classes: NDArray[Any], expected: FloatArray
) -> None:
    from scipy.special import expit

    # By how far the probability one half is exceeded, in log-odds or on a scale of its own.
    lead = np.stack([form.margin(points, Probability(label, 0.5)) for label in classes], axis=1)
    clipped = form.link is Link.CLIPPED
    found = np.clip((lead + 1.0) / 2.0, 0.0, 1.0) if clipped else expit(lead)
    off = np.abs(found - expected).max(axis=1)
    worst = int(off.argmax())
    assert off[worst] <= 1e-9 + 1e3 * form.noise(points[[worst]])[0], (
        f"The form's probabilities in row {worst} are {found[worst]}; the model's, "
        f"{expected[worst]}."
    )
