"""What the model shall decide."""

from __future__ import annotations

from abc import ABC
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, final

import numpy as np

from counterpoint.errors import InvalidInput, check_number, is_comparable, is_number, shown
from counterpoint.rows.table import Table

__all__ = [
    "Confidence",
    "Guarantee",
    "Interval",
    "Label",
    "OtherLabel",
    "Robust",
    "Target",
    "Tradeoff",
]


LEAST_WEIGHT = 1e-50
"""The least weight of a `Tradeoff`, and one over the largest."""


class Target(ABC):  # noqa: B024 (a sum type: forms decide what each member means)
    """A decision, a probability, or a range of values, that the counterfactual shall get."""


@final
@dataclass(frozen=True)
class Label(Target):
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
        _check_margin(self.margin)
        if not self.labels:
            raise InvalidInput("Expected at least one target label; got none.")
        for label in self.labels:
            _check_one(label)

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels of the set."""
        if isinstance(self.label, np.ndarray):
            return tuple(self.label.reshape(-1).tolist())
        if isinstance(self.label, tuple | list | set | frozenset):
            return tuple(self.label)
        return (self.label,)


@final
@dataclass(frozen=True)
class OtherLabel(Target):
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

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels to get away from; empty if it is each row's current prediction."""
        return () if self.than is None else Label(self.than).labels


@final
@dataclass(frozen=True)
class Confidence(Target):
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

    def __post_init__(self) -> None:
        _check_one(self.label)
        if not (is_number(self.at_least) and 0.0 < self.at_least < 1.0):
            raise InvalidInput(
                "Expected a probability between 0 and 1, both excluded; got "
                f"{shown(self.at_least)}. 90 % is 0.9."
            )


@final
@dataclass(frozen=True)
class Tradeoff(Target):
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

    def __post_init__(self) -> None:
        _check_one(self.label)
        if not (is_number(self.weight) and 0.0 < self.weight < np.inf):
            raise InvalidInput(f"Expected a finite weight above 0; got {shown(self.weight)}.")
        if not LEAST_WEIGHT <= self.weight <= 1.0 / LEAST_WEIGHT:
            raise InvalidInput(
                f"Expected a weight from {LEAST_WEIGHT:g} to {1.0 / LEAST_WEIGHT:g}; got "
                f"{self.weight!r}. Beyond, only the cost counts, or only the probability. Scale "
                "the cost."
            )


class Guarantee(StrEnum):
    """What a probability over the weights says of an answer, which was found by looking at them."""

    NONE = "none"
    """Nothing."""
    FIXED = "fixed"
    """What it says of a point that was fixed before the weights were known."""
    SELECTION = "selection"
    """Not itself, but what was asked for, whoever chose the point and whatever they looked at."""


@final
@dataclass(frozen=True)
class Robust(Target):
    """The true weights decide for a label, with at least a probability.

    For a binary model whose weights are known up to the law of their noise: a
    `counterpoint.privacy.PrivateSVC`, or any other linear one as an `UncertainClassifier`. What the
    known weights predict must be the label too.

    A search looks at the known weights, and so it finds points where their noise happens to flatter
    the label. The chance constraint of the literature, ``guarantee="fixed"``, is about a point that
    was fixed beforehand, and an optimal point keeps its promise far less often. A point with
    ``guarantee="selection"`` is as sure as was asked for, however it was chosen: its score leads by
    what noise can do to any point that costs as much.

    That is for a question that does not depend on the known weights: one row, label, probability,
    cost and constraints. Where the label was chosen by looking at them, a wrong answer is given
    with a probability of at most 2 (1 − p). It is still 1 − p if the label is the one that they do
    not give to the row, the model is linear, and what may move are numbers that may rise and fall.

    Parameters
    ----------
    label
        A class label.
    probability
        At least ½ and below 1.
    guarantee
        ``"selection"``; ``"fixed"``; or ``"best"``, the first where it can be had, else the second.
        Each answer's certificate says which it has.
    rule
        Of a point fixed beforehand: ``"exact"``, or ``"paper"`` for equation 17 of the paper, which
        is for Laplace noise, asks for too much or too little, and has no guarantee but where the
        exact probability, which the certificate states, suffices.
    draws
        How many draws of the noise make ``"selection"``, which is then certain to 99.9 %; with
        random features, a tenth of them.
    random_state
        Their seed.
    search
        Where to look, if the model has random features: ``"segment"``, on the way to the prototype;
        ``"optimal"``, everywhere; ``"best"``, both, if each keeps the guarantee. A point of a
        segment that was chosen by looking at the weights is hardly less sure than a fixed one, and
        an optimal one far less: so for ``"fixed"`` the best is the segment, if it has a point that
        will do. Where the prototype is of no use, the best looks elsewhere, and says so.
    prototype
        For such a model a row that is known to be of the class: one row, of values or name → value.
        It must come from what is public; means of the private rows give them away.

    References
    ----------
    Mochaourab, Sinha, Greenstein & Papapetrou, Robust explanations for private support vector
    machines, equations 14–19, which are about a fixed point. Lagoa, Li & Sznaier (2005),
    Probabilistically constrained linear programs and risk-adjusted controller design.
    """

    label: Hashable
    probability: float
    guarantee: Literal["best", "selection", "fixed"] = "best"
    rule: Literal["exact", "paper"] = "exact"
    draws: int = 10_000
    random_state: int = 0
    search: Literal["best", "segment", "optimal"] = "best"
    prototype: Any = None

    def __post_init__(self) -> None:
        _check_one(self.label)
        object.__setattr__(self, "prototype", _row_of(self.prototype))
        if not (is_number(self.probability) and 0.5 <= self.probability < 1.0):
            raise InvalidInput(
                "Expected a probability of at least 0.5, as likely as not, and below 1, which "
                f"nothing is; got {shown(self.probability)}. 90 % is 0.9."
            )
        for name, words in (("guarantee", GUARANTEED), ("rule", RULES), ("search", SEARCHES)):
            word = getattr(self, name)
            if not (isinstance(word, str) and word in words):
                listed = " or ".join(map(repr, words))
                raise InvalidInput(f"Expected {name} {listed}; got {shown(word)}.")
        if self.rule == "paper" and self.guarantee == "selection":
            raise InvalidInput(
                "Expected rule='exact' with guarantee='selection': the paper's rule is for a point "
                "that is fixed beforehand."
            )
        if self.search == "segment" and self.prototype is None:
            raise InvalidInput(
                "Expected a prototype with search='segment'; got none. Pass a row that is known to "
                "be of the class, from public data and not from the rows the model was fitted on."
            )
        for name, least in (("draws", 1), ("random_state", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidInput(
                    f"Expected {name} to be a whole number of at least {least}; got {shown(value)}."
                )

    @property
    def selects(self) -> bool:
        """Whether the answer is to be sure however it was chosen, if that can be had."""
        return self.guarantee != "fixed" and self.rule == "exact"

    @property
    def is_best(self) -> bool:
        """Whether a point that is sure had it been fixed will do where no other can be had."""
        return self.selects and self.guarantee == "best"


GUARANTEED = ("best", "selection", "fixed")
RULES = ("exact", "paper")
SEARCHES = ("best", "segment", "optimal")


@final
@dataclass(frozen=True)
class Interval(Target):
    """A regressor predicts a value between low and high.

    Parameters
    ----------
    low, high
        Bounds in units of the prediction; one of them may be left out.
    """

    low: float = -np.inf
    high: float = np.inf

    def __post_init__(self) -> None:
        check_number("low", self.low)
        check_number("high", self.high)
        if np.isnan(self.low) or np.isnan(self.high) or self.low > self.high:
            raise InvalidInput(f"Expected low <= high; got low={self.low!r}, high={self.high!r}.")
        if np.isinf(self.low) and np.isinf(self.high):
            raise InvalidInput("Expected low, high or both; got neither.")


def _check_margin(margin: float) -> None:
    if not (is_number(margin) and 0.0 <= margin < np.inf):
        raise InvalidInput(f"Expected a margin of at least 0; got {shown(margin)}.")


def _check_one(label: object) -> None:
    """A class label, and not several of them."""
    if isinstance(label, tuple | list | set | frozenset | dict | np.ndarray):
        raise InvalidInput(f"Expected one class label; got {shown(label)}.")
    if not is_comparable(label):
        raise InvalidInput(f"Expected a class label; got {shown(label)} ({type(label).__name__}).")


def _row_of(row: Any) -> tuple[Any, ...] | None:
    """One row as a tuple of values, or of pairs of names and values if it has names."""
    if row is None:
        return None
    if isinstance(row, tuple) and row and all(isinstance(pair, tuple) for pair in row):
        row = dict(row)
    table = Table.read(list(row) if isinstance(row, tuple) else row)
    if len(table) != 1:
        raise InvalidInput(f"Expected one row as a prototype; got {len(table)}.")
    values = tuple(table.column(name)[0] for name in table.names)
    values = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    return values if table.is_array else tuple(zip(table.names, values, strict=True))
