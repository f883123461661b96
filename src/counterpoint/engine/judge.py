"""The model's own word: what it predicts, and whether a target is met."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Verdict
from counterpoint.errors import ReaderMismatch
from counterpoint.models import Reading
from counterpoint.models.form import Form
from counterpoint.models.linear import LinearRegressor
from counterpoint.robust.form import UncertainForm
from counterpoint.rows.enum_column import EnumColumn
from counterpoint.rows.table import Table
from counterpoint.targets import (
    Confidence,
    Guarantee,
    Interval,
    Label,
    OtherLabel,
    Robust,
    Target,
    Tradeoff,
)

__all__ = ["Judge", "Surprise", "rounding_of"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

EPS = float(np.finfo(np.float64).eps)
DISAGREEMENT = 2.0**30
"""How many float64 rounding errors apart two scores may be that count as equal (float32 models)."""


ROUNDED = 0.5
"""The rounding error of a score in units of `Form.noise`, which is twice a bound on it."""
PROBABLE = 16.0
"""How many rounding errors a probability of a model is off by at most, beside that of its scores.
It is the quotient of an exponential, off by up to two, and of a sum of them."""

RESPONSES = ("decision_function", "predict_proba", "predict")
"""A classifier has one of the first two, or else its labels are all there is to compare."""


@final
class Surprise(Exception):
    """The model gives a row the target that what was read of it does not, or the reverse: a tie."""


@final
@dataclass(frozen=True, eq=False)
class Judge:
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

    @property
    def named(self) -> bool:
        """Whether the model takes frames."""
        return self.reading.named

    def eps(self, table: Table) -> float:
        """The distance from 1 to the next number where the model computes, or rows are kept.

        Which steps of a pipeline compute in which precision depends on the dtypes of the rows and
        on those of what was fitted: the coarsest of them counts.
        """
        return max(self.reading.eps, table.eps)

    def rounding(self, target: Target, x: FloatArray, eps: float) -> FloatArray:
        """(n,) how far off the model's own margins may be at (n, d) points, in score units."""
        return rounding_of(self.form, target, x, eps)

    def overflows(self, x: FloatArray, eps: float) -> BoolArray:
        """(n,): whether terms of the scores are too large for the model, so that it may refuse.

        Those of float64 are not looked at: margins do not lead there.
        """
        if eps <= EPS:
            return np.zeros(len(x), dtype=bool)
        return ~(self.form.noise(x, eps) <= eps * np.finfo(np.float32).max)

    def predict(self, table: Table) -> NDArray[Any]:
        """(n,) the model's own predictions."""
        return np.asarray(self.model.predict(table.to_model_input(named=self.named))).reshape(-1)

    def predict_both(self, first: Table, second: Table) -> tuple[NDArray[Any], NDArray[Any]]:
        """Predictions for two tables, in one call of the model if one frame can hold both."""
        both = first.followed_by(second)
        if both is None:
            return self.predict(first), self.predict(second)
        predicted = self.predict(both)
        return predicted[: len(first)], predicted[len(first) :]

    def meets(
        self, target: Target, table: Table, x: FloatArray, predicted: NDArray[Any]
    ) -> BoolArray:
        """(n,): whether the model's own methods give the target; nothing gives a `Tradeoff`.

        Parameters
        ----------
        target
            What is wanted; an `OtherLabel` must name its labels.
        table, x
            The rows, raw and encoded.
        predicted
            The model's predictions for them.
        """
        match target:
            case Interval():
                return np.asarray((predicted >= target.low) & (predicted <= target.high))
            case Confidence():
                return self._probability(target, table) >= target.at_least
            case Tradeoff():
                return np.zeros(len(x), dtype=bool)
            case Robust():
                return self._is_sure(target, x, predicted, self._certainty(target, x))
            case Label() | OtherLabel():
                inside = _is_among(predicted, target.labels)
                inside = ~inside if isinstance(target, OtherLabel) else inside
                if target.margin > 0:
                    inside &= self.form.margin(x, target) >= -self.form.noise(x)
                return inside
            case _:
                raise TypeError(f"Expected a target of counterpoint; got {target!r}.")

    def verdict(
        self, target: Target, table: Table, x: FloatArray, predicted: NDArray[Any]
    ) -> Verdict:
        """What the model's own methods say of answers; the parameters are those of `meets`.

        An answer to a `Tradeoff` is valid if the model's probability is the one that was weighed.
        """
        said = self._verdict(target, table, x, predicted)
        return replace(said, rounding=self.rounding(target, x, self.eps(table)))

    def _verdict(
        self, target: Target, table: Table, x: FloatArray, predicted: NDArray[Any]
    ) -> Verdict:
        margin, unasked = self.form.margin(x, target), np.full(len(x), np.nan)
        match target:
            case Confidence():
                probability = self._probability(target, table)
                valid = probability >= target.at_least
                short = np.minimum(margin, _log_odds(probability) - _log_odds(target.at_least))
                return Verdict.plain(valid, np.where(valid, margin, short), probability)
            case Tradeoff():
                probability = self._probability(target, table)
                weighed = 0.5 * (1.0 + np.tanh(0.5 * margin))
                allowed = DISAGREEMENT * (self.form.noise(x) + EPS)
                return Verdict.plain(np.abs(probability - weighed) <= allowed, margin, probability)
            case Robust():
                probability = self._certainty(target, x)
                valid = self._is_sure(target, x, predicted, probability)
                guarantee = _guaranteed(target, probability)
                return Verdict(valid, margin, probability, guarantee, np.zeros(len(x)))
            case _:
                return Verdict.plain(self.meets(target, table, x, predicted), margin, unasked)

    def _certainty(self, target: Robust, x: FloatArray) -> FloatArray:
        """(n,) the probability that the true weights give the label, at points fixed beforehand."""
        form = self.form
        assert isinstance(form, UncertainForm)  # noqa: S101 (no other has regions of a `Robust`)
        return form.certainty(x, target.label)

    def _is_sure(
        self, target: Robust, x: FloatArray, predicted: NDArray[Any], probability: FloatArray
    ) -> BoolArray:
        """(n,): whether points have the label, and the probability or what the paper asks for."""
        met = probability >= target.probability
        if target.rule == "paper":
            met = self.form.margin(x, target) >= 0.0
        return np.asarray(met & (predicted == target.label))

    def _probability(self, target: Confidence | Tradeoff, table: Table) -> FloatArray:
        """(n,) the model's own probability of the target's label."""
        shares = self.model.predict_proba(table.to_model_input(named=self.named))
        column = np.asarray(self.model.classes_).tolist().index(target.label)
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
        values = np.asarray(method(table.to_model_input(named=self.named)))
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


def rounding_of(form: Form, target: Target, x: FloatArray, eps: float) -> FloatArray:
    """(n,) how far off a model's own margins may be at (n, d) points, in score units.

    Parameters
    ----------
    form
        What was read of the model.
    target
        What is wanted.
    x
        The points.
    eps
        The distance from 1 to the next number where the model computes, or rows are kept.
    """
    if isinstance(target, Tradeoff):  # demands nothing
        return np.zeros(len(x))
    off = ROUNDED * form.noise(x, eps)
    if isinstance(target, Confidence):  # log-odds grow by 1 / (p (1 - p)) with a probability
        off = off + PROBABLE * eps / (1.0 - target.at_least)
    return off


def _guaranteed(target: Robust, probability: FloatArray) -> EnumColumn[Guarantee]:
    """(n,) what the probability says: nothing of a point where the paper's rule allows for less."""
    said = EnumColumn.full(len(probability), Guarantee.NONE)
    wanted = Guarantee.SELECTION if target.selects else Guarantee.FIXED
    said[probability >= target.probability] = wanted
    return said


def _log_odds(probability: FloatArray | float) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probability) - np.log1p(-np.asarray(probability)))


def _is_among(values: NDArray[Any], labels: tuple[Any, ...]) -> BoolArray:
    found = np.zeros(len(values), dtype=bool)
    for label in labels:
        found |= values == label
    return found
