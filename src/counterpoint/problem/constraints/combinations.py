"""Combinations of values that do not occur: as a person says, or as the data show."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from counterpoint.errors import (
    InvalidInput,
    check_name,
    check_number,
    is_comparable,
    is_listed,
    is_number,
    shown,
    some,
)
from counterpoint.numerics import BoolArray
from counterpoint.problem.constraints.features import Constraint, between, numbers
from counterpoint.programs.combinations import ForbiddenCombinations
from counterpoint.programs.region import Region
from counterpoint.rows.features import Categorical, Continuous, Features

__all__ = ["Forbidden", "Implies"]

Values = tuple[Hashable, ...] | dict[str, float]
"""Categories, or the ``low`` and the ``high`` of a number; an end that is not there is none."""


# --- what is said of features, in names and units ---


def _conditions(what: str, conditions: Any) -> dict[Hashable, Values]:
    """Return name → values, as they are kept; refuse what says nothing."""
    if not isinstance(conditions, Mapping) or not conditions:
        raise InvalidInput(
            f"Expected a dict of feature names and values for {what}, such as "
            f"{{'relationship': 'Husband'}} or {{'age': (None, 18)}}; got {shown(conditions)}."
        )
    out: dict[Hashable, Values] = {}
    for name, values in conditions.items():
        check_name(what, name)
        out[name] = _values(f"{name!r} in {what}", values)
    return out


def _values(what: str, values: Any) -> Values:
    """Return categories as a tuple, and the ends of a number as a dict."""
    is_range = isinstance(values, tuple) and len(values) == 2
    if is_range and all(value is None or is_number(value) for value in values):
        values = {end: v for end, v in zip(("low", "high"), values, strict=True) if v is not None}
    if isinstance(values, Mapping):
        if not values or values.keys() - {"low", "high"}:
            raise InvalidInput(
                f"Expected a low or a high end for {what}, as in (None, 18); got {shown(values)}."
            )
        for end, value in values.items():
            check_number(f"{end} of {what}", value)
        ends = {end: float(v) for end, v in values.items() if np.isfinite(v)}
        if not ends or ends.get("low", -np.inf) > ends.get("high", np.inf):
            raise InvalidInput(f"Expected low <= high for {what}; got {shown(values)}.")
        return ends
    listed = (
        tuple(values) if is_listed(values) or isinstance(values, set | frozenset) else (values,)
    )
    if not listed or not all(map(is_comparable, listed)):
        raise InvalidInput(
            f"Expected a category, a list of them, or (low, high) for {what}; got {shown(values)}."
        )
    if isinstance(values, set | frozenset):  # in an order that does not change from run to run
        listed = tuple(sorted(listed, key=lambda value: (type(value).__name__, value)))
    return listed


def _said(conditions: Mapping[Hashable, Values]) -> str:
    """Return ``age is at most 18 and job is a or b``."""
    clauses = []
    for name, values in conditions.items():
        if isinstance(values, dict):
            ends = values.get("low", -np.inf), values.get("high", np.inf)
            clauses.append(f"{name} {between(*ends)}")
        else:
            clauses.append(f"{name} is {' or '.join(map(str, values))}")
    return " and ".join(clauses)


# --- the same in encoded columns ---


@final
class _Combination:
    """One combination, literal by literal, over the encoded columns."""

    def __init__(self, features: Features) -> None:
        self.features, width = features, features.width
        self.speaks, self.options = np.zeros(width, dtype=bool), np.ones(width, dtype=bool)
        self.low, self.high = np.full(width, -np.inf), np.full(width, np.inf)

    def add(self, name: Hashable, literal: Literal) -> None:
        """Add that a feature is among categories (c,), or strictly between two ends."""
        block = self.features.columns(name)
        self.speaks[block] = True
        if isinstance(literal, np.ndarray):
            self.options[block] &= literal
        else:
            self.low[block] = np.maximum(self.low[block], literal[0])
            self.high[block] = np.minimum(self.high[block], literal[1])

    @property
    def is_possible(self) -> bool:
        """Whether some point is in it."""
        blocks = zip(self.features.blocks, self.features.is_numeric, strict=True)
        options = all(numeric or self.options[block].any() for block, numeric in blocks)
        return bool(options and (self.low < self.high).all())


Literal = BoolArray | tuple[float, float]


def _single(value: float, toward: float, *, beyond: bool = False) -> float:
    """Return the next number of single precision from a value on, or beyond it.

    Many models and columns hold numbers in that precision, and no answer must be rounded into what
    is forbidden.
    """
    if np.isinf(value):
        return value
    with np.errstate(over="ignore"):
        single, end = np.float32(value), np.float32(toward)
    if float(single) == value:
        return float(np.nextafter(single, end)) if beyond else value
    reached = float(single) > value if toward > value else float(single) < value
    return float(single if reached else np.nextafter(single, end))


def _literal(what: str, features: Features, name: Hashable, values: Values) -> Literal:
    """Return the categories (c,) that are meant, or the ends strictly between which a number is.

    A category that only stands for missing cells is never meant.
    """
    feature = features[name]
    if not isinstance(feature, Categorical):
        low, high = _ends(what, name, values)
        return _single(low, -np.inf, beyond=True), _single(high, np.inf, beyond=True)
    return _categories(what, feature, values)


def _categories(what: str, feature: Categorical, values: Values) -> BoolArray:
    """Return the categories (c,) that are meant."""
    if isinstance(values, dict):
        value = numbers(feature, what)
        within = (value >= values.get("low", -np.inf)) & (value <= values.get("high", np.inf))
        return np.asarray(within & ~feature.is_stand_in)
    unknown = [value for value in values if value not in feature.categories]
    if unknown:
        raise InvalidInput(
            f"{feature.name!r} has no category {unknown[0]!r}, which {what} names; its categories "
            f"are {some(feature.categories, 6, repr)}."
        )
    return np.array([c in values for c in feature.categories]) & ~feature.is_stand_in


def _ends(what: str, name: Hashable, values: Values) -> tuple[float, float]:
    """Return the least and the largest value of a number that are meant."""
    if isinstance(values, dict):
        return values.get("low", -np.inf), values.get("high", np.inf)
    (value, *further) = values
    if further or not is_number(value):
        raise InvalidInput(
            f"{what} takes the ends of a number, such as (None, 18) for at most 18; {name!r} is a "
            f"number, and got {shown(list(values))}."
        )
    return float(value), float(value)  # type: ignore[arg-type]


def _opposites(features: Features, name: Hashable, values: Values) -> Iterator[Literal]:
    """Yield the literals of which one is true where values are not met; not of missing cells."""
    feature = features[name]
    if isinstance(feature, Categorical):
        yield ~_categories("Implies", feature, values) & ~feature.is_stand_in
        return
    low, high = _ends("Implies", name, values)
    inwards = np.inf if isinstance(feature, Continuous) else -np.inf  # steps round to either side
    if np.isfinite(low):
        yield -np.inf, _single(low, inwards)
    if np.isfinite(high):
        yield _single(high, -inwards), np.inf


def _region(listed: Sequence[_Combination]) -> Region:
    """The points that are in none of some combinations."""
    possible = [c for c in listed if c.is_possible]
    if not possible:
        return Region()
    names = ("speaks", "options", "low", "high")
    arrays: Any = (np.stack([getattr(c, name) for c in possible]) for name in names)
    return Region((ForbiddenCombinations(*arrays),))


# --- constraints ---


@final
@dataclass(frozen=True, init=False)
class Forbidden(Constraint):
    """These conditions are never met together.

    A row that meets them may keep these values: an answer is excluded if it meets all conditions
    and differs from the row in one of their features. For linear, additive and tree models.

    Parameters
    ----------
    *conditions
        Dicts of feature names and what they are: a category, a list of categories, or for a number
        ``(low, high)``, both included, None where there is no end.

    Examples
    --------
    >>> import counterpoint as cp
    >>> print(cp.Forbidden({"age": (None, 17)}, {"licence": ["car", "truck"]}))
    never together: age is at most 17 and licence is car or truck
    """

    conditions: tuple[dict[Hashable, Values], ...]

    def __init__(self, *conditions: Mapping[Hashable, Any]) -> None:
        if not conditions:
            raise InvalidInput("Expected at least one dict of conditions for Forbidden; got none.")
        read = tuple(_conditions("Forbidden", condition) for condition in conditions)
        object.__setattr__(self, "conditions", read)

    def __str__(self) -> str:
        return f"never together: {' and '.join(map(_said, self.conditions))}"

    def region(self, features: Features) -> Region:
        combination = _Combination(features)
        for condition in self.conditions:
            for name, values in condition.items():
                combination.add(name, _literal("Forbidden", features, name, values))
        return _region([combination])


@final
@dataclass(frozen=True, init=False)
class Implies(Constraint):
    """Where all conditions of one kind are met, those of another kind are met too.

    A row that contradicts it may keep these values: an answer is excluded if it contradicts it and
    differs from the row in one of the features that do so. A missing cell contradicts nothing. For
    linear, additive and tree models.

    Parameters
    ----------
    when, then
        Dicts of feature names and what they are, as for `Forbidden`.

    Examples
    --------
    >>> import counterpoint as cp
    >>> print(cp.Implies({"relationship": "Husband"}, {"marital-status": "Married"}))
    if relationship is Husband, then marital-status is Married
    """

    when: Mapping[Hashable, Any]
    then: Mapping[Hashable, Any]

    def __init__(self, when: Mapping[Hashable, Any], then: Mapping[Hashable, Any]) -> None:
        object.__setattr__(self, "when", _conditions("Implies", when))
        object.__setattr__(self, "then", _conditions("Implies", then))

    def __str__(self) -> str:
        return f"if {_said(self.when)}, then {_said(self.then)}"

    def region(self, features: Features) -> Region:
        out = []
        for name, values in self.then.items():
            for opposite in _opposites(features, name, values):
                combination = _Combination(features)
                for other, condition in self.when.items():
                    combination.add(other, _literal("Implies", features, other, condition))
                combination.add(name, opposite)
                out.append(combination)
        return _region(out)
