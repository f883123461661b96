"""What the model shall decide."""

from __future__ import annotations

from abc import ABC
from collections.abc import Hashable
from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.errors import InvalidInput

__all__ = ["Confidence", "Interval", "Label", "OtherLabel", "Target", "Tradeoff"]


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
        if isinstance(self.label, tuple | list | set | frozenset | np.ndarray):
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
        if not (_is_number(self.at_least) and 0.0 < self.at_least < 1.0):
            raise InvalidInput(
                f"Expected a probability between 0 and 1, both excluded; got {self.at_least!r}. "
                "90 % is 0.9."
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
        if not (_is_number(self.weight) and 0.0 < self.weight < np.inf):
            raise InvalidInput(f"Expected a finite weight above 0; got {self.weight!r}.")
        if not LEAST_WEIGHT <= self.weight <= 1.0 / LEAST_WEIGHT:
            raise InvalidInput(
                f"Expected a weight from {LEAST_WEIGHT:g} to {1.0 / LEAST_WEIGHT:g}; got "
                f"{self.weight!r}. Beyond, only the cost counts, or only the probability. Scale "
                "the cost."
            )


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
        if np.isnan(self.low) or np.isnan(self.high) or self.low > self.high:
            raise InvalidInput(f"Expected low <= high; got low={self.low!r}, high={self.high!r}.")
        if np.isinf(self.low) and np.isinf(self.high):
            raise InvalidInput("Expected low, high or both; got neither.")


def _check_margin(margin: float) -> None:
    if not (_is_number(margin) and 0.0 <= margin < np.inf):
        raise InvalidInput(f"Expected a margin of at least 0; got {margin!r}.")


def _check_one(label: object) -> None:
    """A class label, and not several of them."""
    if isinstance(label, tuple | list | set | frozenset | dict | np.ndarray):
        raise InvalidInput(f"Expected one class label; got {label!r}.")


def _is_number(value: object) -> bool:
    kinds = int | float | np.integer | np.floating
    return isinstance(value, kinds) and not isinstance(value, bool)
