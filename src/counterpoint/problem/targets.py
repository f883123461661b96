"""Targets: what the model shall decide. Each defines what it requires and when a row meets it."""

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

DISAGREEMENT = 2.0**30
"""How many float64 rounding errors apart two scores may be that count as equal (float32 models)."""
APART = DISAGREEMENT * EPS
"""The distance from 1 to the next number in a precision of twice the rounding of float32: two
scores that may be so far off count as equal, whatever else a form knows of its own rounding."""


class Guarantee(Word):
    """What a probability over the weights says of an answer, which was found by looking at them."""

    NONE = "none"
    """Nothing."""
    FIXED = "fixed"
    """What it says of a point that was fixed before the weights were known."""
    SELECTION = "selection"
    """The probability that was asked for holds even though the point was chosen by looking at the
    weights; the reported probability itself does not."""


@final
@dataclass(frozen=True, eq=False)
class Validation:
    """What the model says of points."""

    valid: BoolArray  # (n,): whether it gives them the target
    margin: FloatArray  # (n,) by how much that is met, in score units; NaN without a point
    probability: FloatArray  # (n,) of the target's label; NaN if it is not about one
    guarantees: WordArray  # (n,) for points that were chosen by looking at the model
    rounding: FloatArray  # (n,) by how much its score may be off, in score units

    @property
    def leads(self) -> BoolArray:
        """(n,): whether it gives them the target, and by more than it may be off."""
        return self.valid & (self.margin >= self.rounding)

    @classmethod
    def plain(
        cls, valid: BoolArray, margin: FloatArray, probability: FloatArray, rounding: FloatArray
    ) -> Validation:
        """Without a guarantee."""
        none = np.full(len(valid), Guarantee.NONE.code, np.int8)
        return cls(valid, margin, probability, none, rounding)

    @classmethod
    def none(cls, n: int) -> Validation:
        """Of n rows without a point."""
        margin, probability = np.full((2, n), np.nan)
        return cls.plain(np.zeros(n, dtype=bool), margin, probability, np.zeros(n))

    def put(
        self, rows: IntArray, other: Validation, selected: BoolArray | slice = slice(None)
    ) -> None:
        """Write what the model says of some rows, or of a part of them."""
        for name, values in vars(other).items():
            getattr(self, name)[rows] = values[selected]


class ModelMargins(Protocol):
    """How well a model meets targets at (n, d) points: what targets ask of a form."""

    @abstractmethod
    def margin(self, X: FloatArray, target: Target, /) -> FloatArray:
        """Return by how much (n,) the target is met, in score units."""

    @abstractmethod
    def noise(self, X: FloatArray, /) -> FloatArray:
        """Bound (n,) twice the rounding error of what decides, in score units."""

    @abstractmethod
    def margin_error(self, X: FloatArray, required: Requirement, eps: float, /) -> FloatArray:
        """Bound (n,) how far off the model's own margins may be."""


class ModelOutputs(Protocol):
    """What a model itself says of the rows of a table."""

    @abstractmethod
    def predict(self, table: Table, /) -> NDArray[Any]:
        """Return its predictions, (n,)."""

    @abstractmethod
    def probability(self, label: Hashable, table: Table, /) -> FloatArray:
        """Return its probabilities (n,) of a label."""


class VaryingMargin(ABC):
    """A safety margin that depends on the row and the point, as noise on the weights asks for.

    Rows are encoded, (n, d) ``x``; a query is one of `counterpoint.search.query`.
    """

    @property
    @abstractmethod
    def promise(self) -> Guarantee:
        """What its probability is to say of an answer."""

    @abstractmethod
    def start_hint(self, query: Any) -> Any:
        """Where to look for answers."""

    @abstractmethod
    def safety_margins(self, query: Any, x: FloatArray) -> Any:
        """The margins that answers need by their distance from rows; None if all need the same."""

    @abstractmethod
    def unusable(self, x: FloatArray, names: tuple[Hashable, ...]) -> dict[int, str]:
        """Row → sentence, for (n, p) codes about which it can say nothing."""

    @abstractmethod
    def remark(self, query: Any, x: FloatArray, y: FloatArray | None, guarantee: Guarantee) -> str:
        """What else is to be said of the answer y to a (1, d) row, or of its absence."""

    @abstractmethod
    def attainable(self, query: Any, x: FloatArray, end: float) -> float | None:
        """The highest probability reached for a (1, d) row, by ``end`` in ``thread_time``."""


@final
@dataclass(frozen=True)
class Requirement:
    """What a target requires of a form; the regions where it holds depend on nothing else."""

    labels: tuple[Hashable, ...] = ()  # one of them is to be predicted, or to be probable
    others: bool = False  # whether any other label is to be predicted instead
    margin: float = 0.0  # by how much their score must exceed the others', in score units
    probable: bool = False  # whether it is about the probability of the label
    at_least: float | None = None  # the least probability; None if it is charged, not demanded
    limits: tuple[float, float] | None = None  # bounds on the prediction of a regressor
    chance: VaryingMargin | None = None  # what it demands of weights that are not known exactly
    # What the price counts beside what is charged; the regions do not depend on it.
    weight: float | None = field(default=None, compare=False)

    @property
    def promise(self) -> Guarantee:
        """What the target's probability is to say of an answer."""
        return Guarantee.NONE if self.chance is None else self.chance.promise


class Target(ABC):
    """A decision, a probability, or a range of values, that the counterfactual shall get.

    It answers for itself what it requires, what it means for each row, what it asks the model, and
    what follows for points, encoded as (n, d) ``x``.
    """

    demanding: ClassVar[bool] = True
    """Whether it demands something, so that a point may miss it."""
    sought: ClassVar[str | None] = None
    """The field with the probability that is demanded, if one is: less of it may do."""

    @property
    @abstractmethod
    def requirement(self) -> Requirement:
        """What it requires of a form."""

    @abstractmethod
    def each(
        self, predicted: NDArray[Any], answered: BoolArray
    ) -> Iterator[list[tuple[Target, IntArray]]]:
        """What it means for rows with (n,) predictions: targets, and the positions of their rows.

        Those of one list share no row. Which rows are ``answered`` is kept up to date between one
        list and the next.
        """

    @final
    def said(self, model: ModelOutputs, table: Table) -> NDArray[Any]:
        """(n,) what it asks the model about rows: its predictions, or its probability."""
        required = self.requirement
        if required.probable:
            return model.probability(required.labels[0], table)
        return model.predict(table)

    @abstractmethod
    def satisfied(self, form: ModelMargins, x: FloatArray, predicted: NDArray[Any]) -> BoolArray:
        """(n,): whether what is `said` of rows gives them the target."""

    @abstractmethod
    def verdict(
        self, form: ModelMargins, x: FloatArray, predicted: NDArray[Any], eps: float
    ) -> Validation:
        """What is `said` of answers, and how sure that is.

        ``eps`` is the distance from 1 to the next number where the model computes, or rows are
        kept.
        """

    @abstractmethod
    def misfit(self, model: str, fitting: str) -> InvalidInput:
        """The error of a form that gives it no meaning: what that is, and the targets that fit."""


class PlainTarget(Target):
    """A target that takes the weights of the model as they are."""

    @final
    def each(
        self, predicted: NDArray[Any], answered: BoolArray
    ) -> Iterator[list[tuple[Target, IntArray]]]:
        if not self.requirement.others or self.requirement.labels:
            yield [(self, np.arange(len(predicted)))]
            return
        targets: list[tuple[Target, IntArray]] = []
        remaining, margin = np.arange(len(predicted)), self.requirement.margin
        while len(remaining):  # of few labels this is quicker than to sort or to hash
            label, same = predicted[remaining[0]], predicted[remaining] == predicted[remaining[0]]
            value = label.item() if isinstance(label, np.generic) else label
            targets.append((OtherLabel(value, margin), remaining[same]))
            remaining = remaining[~same]
        yield targets

    @final
    def misfit(self, model: str, fitting: str) -> InvalidInput:
        return InvalidInput(f"Expected a target for {model} ({fitting}); got {shown(self)}.")

    @final
    def satisfied(self, form: ModelMargins, x: FloatArray, predicted: NDArray[Any]) -> BoolArray:
        required = self.requirement
        if required.limits is not None:
            return np.asarray((predicted >= required.limits[0]) & (predicted <= required.limits[1]))
        if required.at_least is not None:
            return np.asarray(predicted >= required.at_least)
        if required.probable:
            return np.zeros(len(x), dtype=bool)
        named = np.zeros(len(predicted), dtype=bool)
        for label in required.labels:
            named |= predicted == label
        inside = named != required.others
        if required.margin > 0:
            inside &= form.margin(x, self) >= -form.noise(x)
        return inside

    @final
    def verdict(
        self, form: ModelMargins, x: FloatArray, predicted: NDArray[Any], eps: float
    ) -> Validation:
        required = self.requirement
        rounding, margin = form.margin_error(x, required, eps), form.margin(x, self)
        if not required.probable:
            valid = self.satisfied(form, x, predicted)
            return Validation.plain(valid, margin, np.full(len(x), np.nan), rounding)
        if required.at_least is None:  # valid if the model's own probability is what was weighed
            weighed = 0.5 * (1.0 + np.tanh(0.5 * margin))
            valid = np.abs(predicted - weighed) <= DISAGREEMENT * (form.noise(x) + EPS)
        else:
            valid = predicted >= required.at_least
            short = _log_odds(predicted) - _log_odds(required.at_least)
            margin = np.where(valid, margin, np.minimum(margin, short))
        return Validation.plain(valid, margin, predicted, rounding)


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
        """What it requires of a form."""
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
        """What it requires of a form."""
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
    sought: ClassVar[str | None] = "at_least"

    def __post_init__(self) -> None:
        check_one_label(self.label)
        if not (is_number(self.at_least) and 0.0 < self.at_least < 1.0):
            raise InvalidInput(
                "Expected a probability between 0 and 1, both excluded; got "
                f"{shown(self.at_least)}. 90 % is 0.9."
            )

    @cached_property
    def requirement(self) -> Requirement:
        """What it requires of a form."""
        return Requirement((self.label,), probable=True, at_least=self.at_least)


@final
@dataclass(frozen=True)
class Tradeoff(PlainTarget):
    """The cost of the change against the model's probability of a label.

    The answer minimises ``weight / 2 · cost(x − x̄) − log p_label(x)``: a small weight buys more
    probability for more change. Every point has some value of it, so there is nothing to miss and
    nothing that a row has already; whether the model then predicts the label is up to the weight.

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
        """What it requires of a form."""
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
        """What it requires of a form."""
        return Requirement(limits=(self.low, self.high))


def as_target(target: Any) -> Target:
    """A target as it is; anything else is taken as the label of `Label`."""
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
    """A probability in so many digits, and in as many of what it is below 1."""
    exact = Decimal(probability)
    place = Decimal(1).scaleb(min(exact.adjusted(), (1 - exact).adjusted()) + 1 - digits)
    return f"{exact.quantize(place, rounding=ROUND_FLOOR):f}"


def _check_margin(margin: float) -> None:
    if not (is_number(margin) and 0.0 <= margin < np.inf):
        raise InvalidInput(f"Expected a margin of at least 0; got {shown(margin)}.")


def _log_odds(probability: FloatArray | float) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probability) - np.log1p(-np.asarray(probability)))
