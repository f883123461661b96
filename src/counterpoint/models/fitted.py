"""A fitted model with what was read of it: its own word on rows, and whether the two agree."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import ReaderMismatch
from counterpoint.models.form import EPS, Form
from counterpoint.models.linear import LinearRegressor
from counterpoint.models.seeing import Reading
from counterpoint.rows.table import Table
from counterpoint.targets import DISAGREEMENT, Label

__all__ = ["FittedModel"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

RESPONSES = ("decision_function", "predict_proba", "predict")
"""A classifier has one of the first two, or else its labels are all there is to compare."""


@final
@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fitted model and what was read of it.

    Parameters
    ----------
    model
        The model; its ``predict`` decides what is valid.
    reading
        What was read of it.
    """

    model: Any
    reading: Reading

    @property
    def form(self) -> Form:
        """The model over the encoded features."""
        return self.reading.form

    def eps(self, table: Table) -> float:
        """The distance from 1 to the next number where the model computes, or rows are kept.

        Which steps of a pipeline compute in which precision depends on the dtypes of the rows and
        on those of what was fitted: the coarsest of them counts.
        """
        return max(self.reading.eps, table.eps)

    def overflows(self, x: FloatArray, eps: float) -> BoolArray:
        """(n,): whether terms of the scores are too large for the model, so that it may refuse.

        Those of float64 are not looked at: margins do not lead there.
        """
        if eps <= EPS:
            return np.zeros(len(x), dtype=bool)
        return ~(self.form.noise(x, eps) <= eps * np.finfo(np.float32).max)

    def predict(self, table: Table) -> NDArray[Any]:
        """(n,) the model's own predictions."""
        rows = table.to_model_input(named=self.reading.named)
        return np.asarray(self.model.predict(rows)).reshape(-1)

    def predict_both(self, first: Table, second: Table) -> tuple[NDArray[Any], NDArray[Any]]:
        """Predictions for two tables, in one call of the model if one frame can hold both."""
        both = first.followed_by(second)
        if both is None:
            return self.predict(first), self.predict(second)
        predicted = self.predict(both)
        return predicted[: len(first)], predicted[len(first) :]

    def probability(self, label: Hashable, table: Table) -> FloatArray:
        """(n,) the model's own probability of a label."""
        shares = self.model.predict_proba(table.to_model_input(named=self.reading.named))
        column = np.asarray(self.model.classes_).tolist().index(label)
        return np.asarray(shares[:, column], dtype=np.float64)

    def is_indifferent(self, rows: Table, others: Table, x: FloatArray) -> BoolArray:
        """(n,): whether the model takes rows as it takes the others; not if it stops at them.

        Parameters
        ----------
        rows, others
            As many rows.
        x
            (n, d) the others, encoded.
        """
        try:
            here, there = self._responses(rows), self._responses(others)
        except (TypeError, ValueError):  # what the model says to a cell that it does not take
            if len(rows) == 1:
                return np.zeros(1, dtype=bool)
            halves = np.array_split(np.arange(len(rows)), 2)
            parts = [self.is_indifferent(rows.take(h), others.take(h), x[h]) for h in halves]
            return np.concatenate(parts)
        allowed = DISAGREEMENT * self.form.noise(x)[:, None] * (1.0 + np.abs(there))
        return np.asarray((np.abs(here - there) <= allowed).all(axis=1))

    def _responses(self, table: Table) -> FloatArray:
        """(n, k) the most telling numbers that the model gives."""
        methods = (getattr(self.model, name, None) for name in RESPONSES)
        method = next(method for method in methods if method is not None)
        values = np.asarray(method(table.to_model_input(named=self.reading.named)))
        if values.dtype.kind not in "biuf":  # labels in words, as their positions
            values = (values[:, None] == np.asarray(self.model.classes_)).argmax(axis=1)
        return values.astype(np.float64).reshape(len(table), -1)

    def check(self, x: FloatArray, predicted: NDArray[Any]) -> None:
        """What was read must predict what the model predicts, up to rounding at a tie.

        Raises
        ------
        ReaderMismatch
            If it does not.
        """
        read = self.form.predict(x)
        differs = np.flatnonzero(read != predicted)
        if not len(differs):
            return
        noise = DISAGREEMENT * self.form.noise(x[differs])
        if isinstance(self.form, LinearRegressor):
            distance = np.abs(read[differs] - predicted[differs])
            off = distance > noise * (1.0 + np.abs(read[differs]))
        else:
            labels = predicted[differs].tolist()
            rows = zip(differs.tolist(), labels, strict=True)
            off = np.array([self.form.margin(x[[i]], Label(label))[0] for i, label in rows])
            off = off < -noise
        if off.any():
            at = int(differs[off][0])
            raise ReaderMismatch(
                f"{type(self.model).__name__} predicts {predicted[at]!r} for a row for which what "
                f"was read of it predicts {read[at]!r} ({int(off.sum())} of {len(x)} rows). The "
                "model cannot be explained exactly; please report it."
            )
