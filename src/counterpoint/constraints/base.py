"""What a constraint is, and the words that constraints share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from counterpoint.engine.region import Region
from counterpoint.errors import InvalidInput, all_of, check_name, is_listed
from counterpoint.numerics import FloatArray
from counterpoint.rows.features import Categorical, Features

__all__ = ["Constraint", "all_constraints", "between", "named", "numbers", "some_names"]


MANY = 20
"""Names in a sentence that a person still reads."""


class Constraint(ABC):
    """A demand on the counterfactual that comes from the person's side, not from the model.

    Its ``str`` says it in words, for people who do not read code.
    """

    @abstractmethod
    def region(self, features: Features) -> Region:
        """The points that meet it, in the encoded space.

        Raises
        ------
        InvalidInput
            If it names an unknown feature or does not fit the feature's kind.
        """


def some_names(what: str, given: tuple[Any, ...]) -> tuple[Hashable, ...]:
    """Names that were passed one by one, or all in one list.

    A tuple may be one name, that of a column below several headings.
    """
    if len(given) == 1 and is_listed(given[0]) and not isinstance(given[0], Hashable):
        given = tuple(given[0])
    for name in given:
        check_name(what, name)
    return given


def named(names: Sequence[Hashable]) -> str:
    """``a, b and c``; of very many, how many more there are."""
    if len(names) > MANY:
        return f"{', '.join(map(str, names[:MANY]))} and {len(names) - MANY} more"
    *most, last = map(str, names)
    return f"{', '.join(most)} and {last}" if most else last


def between(low: float, high: float) -> str:
    """``is at least 3``."""
    if low == high:
        return f"is {low:g}"
    if np.isinf(low):
        return f"is at most {high:g}"
    return f"is at least {low:g}" if np.isinf(high) else f"is between {low:g} and {high:g}"


def numbers(feature: Categorical, what: str) -> FloatArray:
    """The categories as numbers, for a constraint that needs them."""
    values = feature.numbers
    if values is None:
        raise InvalidInput(
            f"{what} needs numbers; the categories of {feature.name!r} are "
            f"{list(feature.categories[:5])!r}. Use Immutable, or Monotone with ordered categories."
        )
    return values


def all_constraints(given: Constraint | Iterable[Constraint]) -> tuple[Constraint, ...]:
    """One constraint or several as a tuple; what is none is an `InvalidInput`."""
    parsed = " A relation is cp.Linear.parse('a <= b')."
    return all_of(Constraint, given, "constraints such as cp.Immutable('age')", parsed)
