"""Define targets: the decisions that counterfactuals shall get, and when a row has one of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, is_dataclass
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property
from typing import Any, ClassVar, Protocol, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput, check_interval, check_one_label, is_number, shown
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray, Word, WordArray
from counterpoint.rows.table import Table

APART = 2.0 * float(np.finfo(np.float32).eps)
"""The rounding, in place of `EPS`, by which the scores of two programs may differ and count as
equal: twice that of float32, in which many models compute, whatever a form knows of its own."""


class Guarantee(Word):
    """The meaning of an answer's probability, over weights that the search has looked at."""

    NONE = "none"
    """There is no probability over the weights."""
    FIXED = "fixed"
    """The reported probability holds for a point that was fixed before the weights were known."""
    SELECTION = "selection"
    """The required probability holds even though the point was chosen by looking at the weights;
    the reported probability itself does not."""


@final
@dataclass(frozen=True, eq=False)
class Validation:
    """The model's judgement of n points: whether it gives them the target, and how surely."""

    valid: BoolArray  # (n,) whether the model gives them the target
    margin: FloatArray  # (n,) by how much, in score units; NaN without a point
    probability: FloatArray  # (n,) of the target's label; NaN if the target is not about one
    guarantees: WordArray  # (n,) codes of the `Guarantee` of the probability
    rounding: FloatArray  # (n,) bound on the error of the model's scores, in score units

    @property
    def leads(self) -> BoolArray:
        """Whether points have the target by at least the rounding error of their scores, (n,)."""
        return self.valid & (self.margin >= self.rounding)

    @classmethod
    def plain(
        cls, valid: BoolArray, margin: FloatArray, probability: FloatArray, rounding: FloatArray
    ) -> Validation:
        """Return the validation of points without a guarantee."""
        none = np.full(len(valid), Guarantee.NONE.code, np.int8)
        return cls(valid, margin, probability, none, rounding)

    @classmethod
    def none(cls, n: int) -> Validation:
        """Return the validation of n rows that have no point."""
        margin, probability = np.full((2, n), np.nan)
        return cls.plain(np.zeros(n, dtype=bool), margin, probability, np.zeros(n))

    def put(
        self, rows: IntArray, other: Validation, selected: BoolArray | slice = slice(None)
    ) -> None:
        """Overwrite the entries of ``rows`` with those of another, all or the ``selected`` ones."""
        for name, values in vars(other).items():
            getattr(self, name)[rows] = values[selected]


class ModelMargins(Protocol):
    """What targets ask of the form of a model, at (n, d) points."""

    @abstractmethod
    def margin(self, X: FloatArray, target: Target, /) -> FloatArray:
        """Return by how much points meet the target, (n,), in score units; negative if not."""

    @abstractmethod
    def noise(self, X: FloatArray, /) -> FloatArray:
        """Return upper bounds (n,) on twice the rounding error of the form's own scores."""

    @abstractmethod
    def margin_error(self, X: FloatArray, required: Requirement, eps: float, /) -> FloatArray:
        """Return upper bounds (n,) on the error of the margins that the model itself computes.

        ``eps`` is the distance from 1 to the next number in the coarsest precision that the model
        computes in or rows are kept in.
        """


class ModelOutputs(Protocol):
    """What targets ask of the model itself, for the n rows of a table."""

    @abstractmethod
    def predict(self, table: Table, /) -> NDArray[Any]:
        """Return its predictions, (n,)."""

    @abstractmethod
    def probability(self, label: Hashable, table: Table, /) -> FloatArray:
        """Return its probabilities (n,) of a label."""


class VaryingMargin(ABC):
    """A target's demand for a safety margin that depends on the row and the point.

    Noise on the weights needs one. Rows ``x`` are encoded, (n, d); a query is one of
    `counterpoint.search.query`.
    """

    @property
    @abstractmethod
    def promise(self) -> Guarantee:
        """The guarantee that answers shall have."""

    @abstractmethod
    def start_hint(self, query: Any) -> Any:
        """Return where to look for answers; None if it makes no difference."""

    @abstractmethod
    def safety_margins(self, query: Any, x: FloatArray) -> Any:
        """Return the margins that answers need by their distance from rows; None if constant."""

    @abstractmethod
    def unusable(self, x: FloatArray, names: tuple[Hashable, ...]) -> dict[int, str]:
        """Return row → sentence for codes (n, p) that the margin cannot be computed for."""

    @abstractmethod
    def remark(self, query: Any, x: FloatArray, y: FloatArray | None, guarantee: Guarantee) -> str:
        """Return what a message adds about the answer y to a row (1, d), or about having none."""

    @abstractmethod
    def attainable(self, query: Any, x: FloatArray, end: float) -> float | None:
        """Return the highest probability found for a row (1, d) until ``thread_time() >= end``."""


@final
@dataclass(frozen=True)
class Requirement:
    """A target's demands on the model; its regions depend on nothing else, and are cached by it."""

    labels: tuple[Hashable, ...] = ()  # the model shall predict one, or find it probable
    others: bool = False  # whether it shall predict any label but these
    margin: float = 0.0  # by how much their score must exceed the others', in score units
    probable: bool = False  # whether the target is about the probability of the label
    at_least: float | None = None  # the least probability; None for a trade-off with the cost
    limits: tuple[float, float] | None = None  # bounds on the prediction of a regressor
    varying_margin: VaryingMargin | None = (
        None  # the demand under weights that are not known exactly
    )
    # The weight of the cost in a trade-off; the regions do not depend on it.
    weight: float | None = field(default=None, compare=False)

    @property
    def promise(self) -> Guarantee:
        """The guarantee that answers shall have."""
        return Guarantee.NONE if self.varying_margin is None else self.varying_margin.promise


class Target(ABC):
    """A decision, a probability, or a range of predictions that the counterfactual shall get.

    A target itself says which requirement it is for each row, which outputs of the model it needs,
    and which points, encoded as ``x`` (n, d), satisfy it.
    """

    demanding: ClassVar[bool] = True
    """Whether a point may miss the target; false for a trade-off."""
    probability_field: ClassVar[str | None] = None
    """The field with the probability that the target demands, if any: a lower one is easier."""

    @property
    @abstractmethod
    def requirement(self) -> Requirement:
        """The demands on the model."""

    @abstractmethod
    def goals(
        self, predicted: NDArray[Any], answered: BoolArray
    ) -> Iterator[list[tuple[Target, IntArray]]]:
        """Yield the targets of rows with predictions (n,), and the positions of their rows.

        Those of one list share no row. The caller marks rows as ``answered``, (n,), before it takes
        the next list, so that a later target may be for the rows without an answer only.
        """

    @final
    def outputs(self, model: ModelOutputs, table: Table) -> NDArray[Any]:
        """Return the model's predictions for rows, (n,), or its probabilities of the label."""
        required = self.requirement
        if required.probable:
            return model.probability(required.labels[0], table)
        return model.predict(table)

    @abstractmethod
    def satisfied(self, form: ModelMargins, x: FloatArray, outputs: NDArray[Any]) -> BoolArray:
        """Return whether rows with these `outputs` of the model have the target, (n,)."""

    @abstractmethod
    def verdict(
        self, form: ModelMargins, x: FloatArray, outputs: NDArray[Any], eps: float
    ) -> Validation:
        """Return whether answers with these `outputs` have the target, and how surely.

        ``eps`` is as for `ModelMargins.margin_error`.
        """

    @abstractmethod
    def misfit(self, model: str, fitting: str) -> InvalidInput:
        """Return the error for a kind of ``model`` that cannot have this target but ``fitting``."""


class PlainTarget(Target):
    """A target that takes the weights of the model as exact: all but `Robust`."""

    @final
    def goals(
        self, predicted: NDArray[Any], answered: BoolArray
    ) -> Iterator[list[tuple[Target, IntArray]]]:
        if not self.requirement.others or self.requirement.labels:
            yield [(self, np.arange(len(predicted)))]
            return
        # Any label but the predicted one: another target for the rows of each label, in one list.
        targets: list[tuple[Target, IntArray]] = []
        remaining, margin = np.arange(len(predicted)), self.requirement.margin
        while len(remaining):  # for few labels, quicker than sorting or hashing
            label = predicted[remaining[0]]
            same = predicted[remaining] == label
            value = label.item() if isinstance(label, np.generic) else label
            targets.append((OtherLabel(value, margin), remaining[same]))
            remaining = remaining[~same]
        yield targets

    @final
    def misfit(self, model: str, fitting: str) -> InvalidInput:
        return InvalidInput(f"Expected a target for {model} ({fitting}); got {shown(self)}.")

    @final
    def satisfied(self, form: ModelMargins, x: FloatArray, outputs: NDArray[Any]) -> BoolArray:
        required = self.requirement
        if required.limits is not None:
            return np.asarray((outputs >= required.limits[0]) & (outputs <= required.limits[1]))
        if required.at_least is not None:
            return np.asarray(outputs >= required.at_least)
        if required.probable:  # a trade-off: no row has it already
            return np.zeros(len(x), dtype=bool)
        has_label = np.zeros(len(outputs), dtype=bool)
        for label in required.labels:
            has_label |= outputs == label
        satisfied = has_label != required.others
        if required.margin > 0:  # up to the rounding of the form's scores
            satisfied &= form.margin(x, self) >= -form.noise(x)
        return satisfied

    @final
    def verdict(
        self, form: ModelMargins, x: FloatArray, outputs: NDArray[Any], eps: float
    ) -> Validation:
        required = self.requirement
        rounding, margin = form.margin_error(x, required, eps), form.margin(x, self)
        if not required.probable:
            valid = self.satisfied(form, x, outputs)
            return Validation.plain(valid, margin, np.full(len(x), np.nan), rounding)
        if required.at_least is None:
            # A trade-off is valid if the model has the probability that the search has weighed,
            # that of the log-odds ``margin``. They may differ by rounding: the noise of a score,
            # and that of a probability, in units of float32 instead of `EPS`.
            expected = 0.5 * (1.0 + np.tanh(0.5 * margin))  # 1 / (1 + exp(−margin))
            valid = np.abs(outputs - expected) <= APART / EPS * (form.noise(x) + EPS)
        else:
            valid = outputs >= required.at_least
            # The model may deny what the form's margin affirms; its log-odds then say by how much.
            lacking = _log_odds(outputs) - _log_odds(required.at_least)
            margin = np.where(valid, margin, np.minimum(margin, lacking))
        return Validation.plain(valid, margin, outputs, rounding)


@final
@dataclass(frozen=True)
class Label(PlainTarget):
    """The model predicts this label, or one of these.

    Parameters
    ----------
    label
        A class label, or a set, list or tuple of them.
    margin
        By how much its score must exceed the score of every class outside the set, in score units
        (for a binary model, of ``decision_function``).
    """

    label: Hashable | tuple[Hashable, ...] | list[Hashable] | set[Hashable] | frozenset[Hashable]
    margin: float = 0.0

    def __post_init__(self) -> None:
        if not self.labels:
            raise InvalidInput("Expected at least one target label; got none.")
        _check_margin(self.margin)
        for label in self.labels:
            check_one_label(label)

    @cached_property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels of the set."""
        if isinstance(self.label, np.ndarray):
            return tuple(self.label.reshape(-1).tolist())
        if isinstance(self.label, tuple | list | set | frozenset):
            return tuple(self.label)
        return (self.label,)

    @cached_property
    def requirement(self) -> Requirement:
        """The demands on the model."""
        return Requirement(self.labels, margin=self.margin)


@final
@dataclass(frozen=True)
class OtherLabel(PlainTarget):
    """The model predicts anything else.

    Parameters
    ----------
    than
        The labels to get away from: one, several, or None for each row's current prediction.
    margin
        As for `Label`, in score units.
    """

    than: Hashable | tuple[Hashable, ...] | list[Hashable] | set[Hashable] | None = None
    margin: float = 0.0

    def __post_init__(self) -> None:
        _check_margin(self.margin)

    @cached_property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels to get away from; empty if it is each row's current prediction."""
        return () if self.than is None else Label(self.than).labels

    @cached_property
    def requirement(self) -> Requirement:
        """The demands on the model."""
        return Requirement(self.labels, others=True, margin=self.margin)


@final
@dataclass(frozen=True)
class Probability(PlainTarget):
    """The model's probability of a label is at least a number.

    Parameters
    ----------
    label
        A class label.
    at_least
        A probability between 0 and 1, both excluded.
    """

    label: Hashable
    at_least: float
    probability_field: ClassVar[str | None] = "at_least"

    def __post_init__(self) -> None:
        check_one_label(self.label)
        if not (is_number(self.at_least) and 0.0 < self.at_least < 1.0):
            raise InvalidInput(
                "Expected a probability between 0 and 1, both excluded; got "
                f"{shown(self.at_least)}. 90 % is 0.9."
            )

    @cached_property
    def requirement(self) -> Requirement:
        """The demands on the model."""
        return Requirement((self.label,), probable=True, at_least=self.at_least)


@final
@dataclass(frozen=True)
class Tradeoff(PlainTarget):
    """The cost of the change against the model's probability of a label.

    The answer minimises ``weight / 2 · cost(x − x̄) − log p_label(x)``: a small weight buys more
    probability for more change. No point can miss this target, and no row has it already; whether
    the model then predicts the label is up to the weight.

    Parameters
    ----------
    label
        A class label.
    weight
        λ > 0, per cost unit.

    References
    ----------
    Carreira-Perpiñán & Hada, Inverse classification with logistic and softmax classifiers,
    equation 2, which is this with `SquaredEuclidean` cost.
    """

    label: Hashable
    weight: float
    demanding: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_one_label(self.label)
        if not (is_number(self.weight) and 0.0 < self.weight < np.inf):
            raise InvalidInput(f"Expected a finite weight above 0; got {shown(self.weight)}.")
        if not 1e-50 <= self.weight <= 1e50:
            raise InvalidInput(
                f"Expected a weight from 1e-50 to 1e+50; got {self.weight!r}. Beyond, only the "
                "cost counts, or only the probability. Scale the cost."
            )

    @cached_property
    def requirement(self) -> Requirement:
        """The demands on the model."""
        return Requirement((self.label,), probable=True, weight=self.weight)


@final
@dataclass(frozen=True)
class Interval(PlainTarget):
    """A regressor predicts a value between low and high.

    Parameters
    ----------
    low, high
        Bounds in units of the prediction; one of them may be left out.
    """

    low: float = -np.inf
    high: float = np.inf

    def __post_init__(self) -> None:
        check_interval(self.low, self.high)

    @cached_property
    def requirement(self) -> Requirement:
        """The demands on the model."""
        return Requirement(limits=(self.low, self.high))


def as_target(target: Any) -> Target:
    """Return a target as it is, and anything else as the label of a `Label`."""
    if isinstance(target, Target):
        return target
    if len(getattr(target, "shape", ())) == 2:
        raise InvalidInput(
            f"Expected a target such as cp.Label('yes'), or a class label; got rows in a "
            f"{type(target).__name__}. Rows come first, then the target."
        )
    if isinstance(target, type | dict) or is_dataclass(target) or hasattr(target, "predict"):
        raise InvalidInput(
            f"Expected a target such as cp.Label('yes'), or a class label; got {shown(target)}."
        )
    return Label(target)


def rounded_down(probability: float, digits: int = 3) -> str:
    """Return a probability as text, rounded down to so many significant digits.

    They are those of the probability or of what it lacks to 1, whichever is smaller: 0.9999875
    in two digits is "0.999987", and not "0.99".
    """
    exact = Decimal(probability)
    place = Decimal(1).scaleb(min(exact.adjusted(), (1 - exact).adjusted()) + 1 - digits)
    return f"{exact.quantize(place, rounding=ROUND_FLOOR):f}"


def _check_margin(margin: float) -> None:
    if not (is_number(margin) and 0.0 <= margin < np.inf):
        raise InvalidInput(f"Expected a margin of at least 0; got {shown(margin)}.")


def _log_odds(probability: FloatArray | float) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probability) - np.log1p(-np.asarray(probability)))
