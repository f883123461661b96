"""Compare a form with the model that it was read of, on rows of data.

A reader that misses an option of its library gives a form that is wrong and consistent: its bounds
are proofs about another model. The model's own predictions tell the two apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput, ReaderMismatch
from counterpoint.models.form import Form
from counterpoint.models.reading import ReadModel, see_through
from counterpoint.numerics import MISSING, FloatArray, IntArray
from counterpoint.problem.targets import APART, Probability
from counterpoint.rows.encoding import PRESENT, RowBatch, as_returned, encode, match_columns
from counterpoint.rows.features import Continuous, Feature, Features, Integer, with_observed
from counterpoint.rows.table import Table

ROWS = 1000
"""The number of rows of data that are compared."""
BREAKPOINTS = 64
"""The number of places where scores jump or bend at which, and beside which, points are compared.
"""


def read_over(model: Any, table: Table | None, items: Sequence[Feature] | None) -> ReadModel:
    """Read a model over the features that data, user and model describe, and compare it on data.

    ``items`` are the features that the user described; they hold instead of those of the data.
    """
    if table is None:
        listed = None if items is None else Features(items)
        return see_through(model, listed, fixed=items is not None)
    features = Features.from_data(table)
    described = {item.name: with_observed(item, features[item.name]) for item in items or ()}
    features = Features(described.get(feature.name, feature) for feature in features)
    reading = see_through(model, features, fixed=False)
    # Whole numbers in float32 with a mean that is filled in become continuous: answers in whole
    # steps from the mean would be rounded to other numbers.
    narrow = {table.names[j] for j in table.singles} - {*described}
    has_fraction = {n for n, fill in reading.fills.items() if n in narrow and float(fill) % 1.0}
    if has_fraction:
        for feature in features:
            if feature.name in has_fraction and isinstance(feature, Integer):
                features = features.replaced(Continuous(feature.name, observed=feature.observed))
        reading = see_through(model, features, fixed=False)
    compare(reading, table)
    return reading


def compare(reading: ReadModel, table: Table) -> None:
    """Compare the model's own predictions and probabilities with those of what was read of it.

    It is asked about rows of the table, spread over the classes that are predicted there, and
    points at and beside some of the form's breakpoints. Rows that cannot be used are left out; a
    difference where two classes are tied up to rounding is none.
    """
    inputs = match_columns(table, reading.features, named=reading.named)
    most = max(1, min(ROWS, (1 << 22) // reading.features.width))  # 32 MiB of cells at most
    rows, encoded = _usable(reading, inputs, most)
    if not len(rows):
        return
    predicted = set(_compare_rows(reading, inputs, rows, encoded).tolist())
    all_seen = reading.form.has_values or predicted.issuperset(reading.classes.tolist())
    if all_seen or len(inputs) <= most:
        return
    # Look for classes that are not predicted for these rows among four times as many.
    rows, encoded = _usable(reading, inputs, 4 * most)
    labels = reading.form.predict(reading.features.expand(encoded.codes)).tolist()
    rare = np.array([i for i, label in enumerate(labels) if label not in predicted][:most], np.intp)
    if len(rare):
        _compare_rows(reading, inputs, rows[rare], encoded.take(rare))


def _usable(reading: ReadModel, inputs: Table, most: int) -> tuple[IntArray, RowBatch]:
    """Encode up to ``most`` rows, evenly spread, and return those that can be used."""
    rows = _evenly_spread(len(inputs), most)
    encoded = encode(inputs.take(rows), reading.features, reading.fills, reading.unfilled)
    usable = np.delete(np.arange(len(rows)), list(encoded.problems))
    return rows[usable], encoded.take(usable)


def _evenly_spread(count: int, most: int) -> IntArray:
    """Return up to ``most`` positions of a list, from its first to its last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.intp))


def _compare_rows(
    reading: ReadModel, inputs: Table, rows: IntArray, encoded: RowBatch
) -> NDArray[Any]:
    """Compare predictions for rows and beside breakpoints; return the model's for the rows (n,).

    Beside a breakpoint is a copy of a row with one feature moved. Missing cells are compared as
    the values that they count as.
    """
    features, codes = reading.features, encoded.codes
    filled = encoded.missing != PRESENT
    filled &= [reading.fills.get(name) != MISSING for name in features.names]
    copied, columns, values = _beside_breakpoints(reading, codes)
    source = np.concatenate([np.arange(len(rows)), copied])  # the rows, then their moved copies
    after = codes[source]
    after[np.arange(len(rows), len(source)), columns] = values
    before = np.where(filled, np.nan, codes)[source]  # so that filled cells are written, too
    (returned,), _, x = as_returned(inputs, features, rows[source], before, after)
    predicted = reading.predict(returned)
    eps = max(APART, 2.0 * inputs.eps)  # where a pipeline computes in the dtype of the rows

    def place(i: int) -> str:
        column = columns[i - len(rows)] if i >= len(rows) else None
        moved = "" if column is None else f", with {features.names[column]!r} = {after[i, column]}"
        return f"row {rows[source[i]]} of data={moved}"

    reading.check(x, predicted, eps=eps, place=place)
    _compare_probabilities(reading, returned, rows, x, eps)
    return predicted[: len(rows)]


def _beside_breakpoints(
    reading: ReadModel, codes: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return which rows (m,) are moved in which feature (m,), to which numbers (m,).

    Each breakpoint takes three rows: one below it, one at it, one above it. Whole numbers move to
    the next ones, at a breakpoint between two of them to the lower.
    """
    features = reading.features
    feature_of = np.full(features.width, -1)  # of encoded columns; -1 for those of categories
    feature_of[features.numeric_columns] = np.flatnonzero(features.is_numeric)
    columns, breakpoints = reading.form.breakpoints or (np.zeros(0, np.intp), np.zeros(0))
    # 1e30 is far from the largest number in float32, in which the model may compare
    usable = np.flatnonzero((feature_of[columns] >= 0) & (np.abs(breakpoints) < 1e30))
    chosen = usable[_evenly_spread(len(usable), BREAKPOINTS)]
    moved, cut = feature_of[columns[chosen]], breakpoints[chosen]
    whole = np.array([isinstance(feature, Integer) for feature in features])[moved]
    below = np.where(whole, np.ceil(cut) - 1.0, np.nextafter(cut, -np.inf))
    above = np.where(whole, np.floor(cut) + 1.0, np.nextafter(cut, np.inf))
    values = np.concatenate([below, np.where(whole, np.floor(cut), cut), above])
    return np.arange(len(values)) % len(codes), np.tile(moved, 3), values


def _compare_probabilities(
    reading: ReadModel, returned: Table, rows: IntArray, x: FloatArray, eps: float
) -> None:
    """Compare the model's own probabilities of a few rows, if both it and the form have any."""
    form, classes = reading.form, reading.classes.tolist()
    if form.has_values or not hasattr(reading.model, "predict_proba"):
        return
    try:
        form.margin(x[:1], Probability(classes[0], 0.5))
    except InvalidInput:  # the form has none
        return
    # Four rows suffice: a probability that is read wrongly is wrong nearly everywhere, and each
    # takes two margins of the form.
    sample = _evenly_spread(len(rows), 4)
    inputs = returned.take(sample).to_model_input(named=reading.named)
    probabilities = np.asarray(reading.model.predict_proba(inputs), dtype=np.float64)
    for i, probability in zip(sample.tolist(), probabilities, strict=True):
        k = i % len(classes)
        p = probability[k]
        slack = 1e-6 * min(p, 1.0 - p) + eps  # 1 − p may be computed in float32
        if not _lies_between(form, x[[i]], classes[k], (p - slack, p + slack), eps):
            raise ReaderMismatch(
                f"{type(reading.model).__name__} gives {classes[k]!r} the probability "
                f"{float(p)} for row {rows[i]} of data=, and what was read of it gives "
                "another. The model cannot be explained exactly; please report it."
            )


def _lies_between(
    form: Form, x: FloatArray, label: Hashable, ends: tuple[float, float], eps: float
) -> bool:
    """Return whether the form's probability at a (1, d) point lies between two ends.

    Forms give margins and no probabilities. That of "at least the lower end" must be positive, and
    that of "at least the upper end" negative, up to its rounding error.
    """
    for end, sign in zip(ends, (1.0, -1.0), strict=True):
        if not 0.0 < end < 1.0:
            continue
        target = Probability(label, float(end))
        try:
            inside = sign * form.margin(x, target)[0]
        except InvalidInput:  # by a calibration all probabilities lie below this end
            return sign < 0.0
        if not inside >= -form.margin_error(x, target.requirement, eps)[0]:
            return False
    return True
