"""What parameters of an estimator may be, as data, and the sentence that says so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput

__all__ = [
    "LIKELIHOOD",
    "LOCAL",
    "MATRIX",
    "METRIC",
    "RELATIVE",
    "TRAINING",
    "Either",
    "Nothing",
    "Number",
    "OneOf",
    "Rule",
    "Whole",
    "check",
    "check_rank",
    "counts_of",
]


class Rule(ABC):
    """What a parameter may be."""

    @abstractmethod
    def admits(self, value: Any) -> bool:
        """Whether it may be this."""

    @abstractmethod
    def words(self) -> str:
        """The rule in words."""


@final
@dataclass(frozen=True)
class Number(Rule):
    """A finite number of at least, or above, some other.

    Parameters
    ----------
    low
        The other.
    above
        Whether the other itself is excluded.
    """

    low: float
    above: bool = False

    def admits(self, value: Any) -> bool:
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            return False
        number = float(value)
        return bool(np.isfinite(number)) and (
            number > self.low if self.above else number >= self.low
        )

    def words(self) -> str:
        return f"a number {'above' if self.above else 'of at least'} {self.low:g}"


@final
@dataclass(frozen=True)
class Whole(Rule):
    """A whole number of at least some other."""

    low: int

    def admits(self, value: Any) -> bool:
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        return whole and int(value) >= self.low

    def words(self) -> str:
        return f"a whole number of at least {self.low}"


@final
@dataclass(frozen=True)
class OneOf(Rule):
    """One of some words."""

    options: tuple[str, ...]

    def admits(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.options

    def words(self) -> str:
        return " or ".join(map(repr, self.options))


@final
@dataclass(frozen=True)
class Nothing(Rule):
    """None."""

    def admits(self, value: Any) -> bool:
        return value is None

    def words(self) -> str:
        return "None"


@final
@dataclass(frozen=True)
class Either(Rule):
    """What either of two rules admits."""

    one: Rule
    other: Rule

    def admits(self, value: Any) -> bool:
        return self.one.admits(value) or self.other.admits(value)

    def words(self) -> str:
        return f"{self.one.words()} or {self.other.words()}"


TRAINING: Mapping[str, Rule] = {"max_iter": Whole(1), "tol": Number(0.0)}
RELATIVE: Mapping[str, Rule] = {
    "transfer": OneOf(("identity", "sigmoid")),
    "steepness": Number(0.0, above=True),
}
LIKELIHOOD: Mapping[str, Rule] = {
    "spread": Either(Nothing(), Number(0.0, above=True)),
    "anchor": Number(0.0),
}
METRIC: Mapping[str, Rule] = {"regularization": Number(0.0)}
MATRIX: Mapping[str, Rule] = {**METRIC, "rank": Either(Nothing(), Whole(1))}
LOCAL: Mapping[str, Rule] = {**MATRIX, "metric_per": OneOf(("prototype", "class"))}


def check(owner: str, values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Hold the parameters of an estimator against their rules.

    Raises
    ------
    InvalidInput
        If one of them breaks its rule.
    """
    for name, rule in rules.items():
        if not rule.admits(values[name]):
            raise InvalidInput(
                f"{owner} expects {name} to be {rule.words()}, and got {values[name]!r}: "
                "pass another value."
            )


def check_rank(rank: int | None, width: int) -> None:
    """Hold the rank of a matrix against the number of features.

    Raises
    ------
    InvalidInput
        If there are fewer features.
    """
    if rank is not None and rank > width:
        raise InvalidInput(
            f"Expected rank to be at most the number of features, {width}, and got {rank}: lower "
            "it, or pass None for a square matrix."
        )


def counts_of(asked: Any, classes: NDArray[Any]) -> NDArray[np.intp]:
    """(C,) the number of prototypes of each class, in the order of the classes.

    Parameters
    ----------
    asked
        One number for all, or one for each class: a mapping from labels, or a sequence in the order
        of the classes.
    classes
        (C,) the sorted labels.

    Raises
    ------
    InvalidInput
        If it is none of these, or a class has no number.
    """
    rule, wanted = Whole(1), "prototypes_per_class"
    labels = classes.tolist()
    if isinstance(asked, Mapping):
        missing = [label for label in labels if label not in asked]
        if missing:
            raise InvalidInput(
                f"Expected {wanted} to say how many prototypes each class gets, and it says "
                f"nothing of class {missing[0]!r}: add it to the mapping."
            )
        numbers = [asked[label] for label in labels]
    elif np.ndim(asked) == 0:
        numbers = [asked] * len(labels)
    else:
        numbers = list(asked)
        if len(numbers) != len(labels):
            raise InvalidInput(
                f"Expected {wanted} to have one number for each of {len(labels)} classes, and it "
                f"has {len(numbers)}: pass them in the order of the sorted labels, or a mapping."
            )
    for number in numbers:
        if not rule.admits(number):
            raise InvalidInput(
                f"Expected {wanted} to be {rule.words()}, or one for each class, and got "
                f"{number!r}: pass another value."
            )
    return np.array(numbers, dtype=np.intp)
