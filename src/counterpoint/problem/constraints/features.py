"""Constrain features one by one, or limit how many of them change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from counterpoint.errors import (
    InvalidInput,
    all_of,
    check_count,
    check_flag,
    check_name,
    check_number,
    check_reachable,
    is_listed,
    several,
    shown,
    some,
)
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.programs.conditions import AtMost, Box, MinimumChange, Transitions
from counterpoint.programs.region import Condition, Region
from counterpoint.rows.features import Categorical, Continuous, Features, Integer


class Constraint(ABC):
    """A limit on the counterfactual that the person sets, not the model.

    Its ``str`` says it in words, for people who do not read code.
    """

    @abstractmethod
    def region(self, features: Features) -> Region:
        """Return the points that satisfy it, in the encoded space."""


def all_constraints(constraints: Constraint | Iterable[Constraint]) -> tuple[Constraint, ...]:
    """Return one constraint or several as a tuple; anything else is an `InvalidInput`."""
    parsed = " A relation is cp.Linear.parse('a <= b')."
    return all_of(Constraint, constraints, "constraints such as cp.Immutable('age')", parsed)


def some_names(what: str, names: tuple[Any, ...]) -> tuple[Hashable, ...]:
    """Return checked names, which were passed one by one or all in one list.

    A tuple alone is one name: pandas names a column below several headings so.
    """
    if len(names) == 1 and is_listed(names[0]) and not isinstance(names[0], Hashable):
        names = tuple(names[0])
    for name in names:
        check_name(what, name)
    return names


def named(names: Sequence[Hashable]) -> str:
    """Return ``a, b and c``; of more than twenty names, the first twenty and how many more."""
    if len(names) > 20:
        return some(names, 20, str)
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def between(low: float, high: float) -> str:
    """Return an interval in words: ``is at least 3``."""
    if low == high:
        return f"is {low:g}"
    if np.isinf(low):
        return f"is at most {high:g}"
    return f"is at least {low:g}" if np.isinf(high) else f"is between {low:g} and {high:g}"


def numbers(feature: Categorical, what: str) -> FloatArray:
    """Return the categories as numbers, for a constraint that needs them."""
    values = feature.numbers
    if values is None:
        raise InvalidInput(
            f"{what} needs numbers; the categories of {feature.name!r} are "
            f"{list(feature.categories[:5])!r}. Use Immutable, or Monotone with ordered categories."
        )
    return values


def _one_by_one(
    features: Features,
    names: Iterable[Hashable],
    allowed: Callable[[Categorical], BoolArray],
    ends: Callable[[Continuous | Integer], dict[str, float]],
) -> Region:
    """Return the region in which each of some features is limited by itself.

    ``allowed`` returns (c, c) which category may become which, ``ends`` the limits of a number by
    their names in a `Box`.
    """
    box = Box.unbounded(features.width)
    conditions: list[Condition] = [box]
    for name in names:
        feature, block = features[name], features.columns(name)
        if isinstance(feature, Categorical):
            conditions.append(Transitions(block, allowed(feature)))
        else:
            for end, value in ends(feature).items():
                getattr(box, end)[block] = value
    return Region(tuple(conditions))


def _stays(feature: Categorical) -> BoolArray:
    """Return the mask (c, c) with which every category may only become itself."""
    return np.eye(len(feature.categories), dtype=bool)


@final
@dataclass(frozen=True, init=False)
class Immutable(Constraint):
    """These features keep their values.

    Parameters
    ----------
    *features
        Names.
    protected
        Whether they must not decide either, such as sex: letters and audits then say how much of
        the score they carry, and whether they alone decide (`counterpoint.protected.influence`).

    Examples
    --------
    >>> import counterpoint as cp
    >>> cp.Immutable("age", "gender")
    Immutable(features=('age', 'gender'), protected=False)
    >>> print(cp.Immutable("gender", protected=True))
    gender is immutable (protected)
    """

    features: tuple[Hashable, ...]
    protected: bool = False

    def __init__(self, *features: Hashable, protected: bool = False) -> None:
        names = some_names("Immutable", features)
        if not names:
            raise InvalidInput("Expected the name of at least one feature for Immutable; got none.")
        check_flag("protected", protected)
        object.__setattr__(self, "features", names)
        object.__setattr__(self, "protected", bool(protected))

    def __str__(self) -> str:
        how = " (protected)" if self.protected else ""
        return f"{named(self.features)} {'is' if len(self.features) == 1 else 'are'} immutable{how}"

    def only(self, *features: Hashable) -> Immutable:
        """Return the constraint for some of its features only."""
        return Immutable(*features, protected=self.protected)

    def region(self, features: Features) -> Region:
        fixed = {"least": 0.0, "most": 0.0}
        return _one_by_one(features, self.features, _stays, lambda _: fixed)


@final
@dataclass(frozen=True)
class Bounds(Constraint):
    """A feature stays between two values, and rises or falls by a limited amount only.

    Parameters
    ----------
    feature
        A name; a categorical feature must have numbers for categories.
    low, high
        Smallest and largest value, in feature units.
    fall, rise
        The largest decrease and the largest increase from the factual value, in feature units.
    """

    feature: Hashable
    low: float = -np.inf
    high: float = np.inf
    fall: float = np.inf
    rise: float = np.inf

    def __post_init__(self) -> None:
        check_name("Bounds", self.feature)
        for what in ("low", "high", "fall", "rise"):
            check_number(f"{what} of {self.feature!r}", getattr(self, what))
        if not (self.low <= self.high and self.fall >= 0 and self.rise >= 0):
            raise InvalidInput(
                f"Expected low <= high, fall >= 0 and rise >= 0 for {self.feature!r}; got "
                f"low={self.low!r}, high={self.high!r}, fall={self.fall!r}, rise={self.rise!r}."
            )
        check_reachable(self.low, self.high, f" for {self.feature!r}")

    def __str__(self) -> str:
        clauses = [between(self.low, self.high)] if np.isfinite((self.low, self.high)).any() else []
        clauses += [f"falls by at most {self.fall:g}"] if np.isfinite(self.fall) else []
        clauses += [f"rises by at most {self.rise:g}"] if np.isfinite(self.rise) else []
        return f"{self.feature} {' and '.join(clauses) or 'has no bound'}"

    def region(self, features: Features) -> Region:
        ends = {"low": self.low, "high": self.high, "least": -self.fall, "most": self.rise}
        return _one_by_one(features, [self.feature], self._allowed, lambda _: ends)

    def _allowed(self, feature: Categorical) -> BoolArray:
        values = numbers(feature, "Bounds")
        change = values[None, :] - values[:, None]
        within = (values >= self.low) & (values <= self.high)
        return within[None, :] & (change >= -self.fall) & (change <= self.rise)


@final
@dataclass(frozen=True)
class Clearance(Constraint):
    """A feature ends at least a margin beyond each threshold of the trees that it crosses.

    A person who falls short of the answer by less than the margin, in one feature or in several,
    still reaches the same leaf of every tree, and so the same decision. A feature that crosses no
    threshold is not concerned, however near to one it is; nor are thresholds that lie ahead. No
    answer ends between two thresholds that are nearer to each other than the margin.

    Parameters
    ----------
    feature
        A name; the feature must be a number, and the model one of trees.
    margin
        More than 0, in feature units.

    Examples
    --------
    >>> import counterpoint as cp
    >>> print(cp.Clearance("amount", 50))
    amount ends at least 50 beyond each threshold that it crosses
    """

    feature: Hashable
    margin: float

    def __post_init__(self) -> None:
        check_name("Clearance", self.feature)
        check_number(f"margin of {self.feature!r}", self.margin)
        if not 0.0 < self.margin < np.inf:
            raise InvalidInput(
                f"Expected a finite margin above 0 for {self.feature!r}; got {self.margin!r}."
            )

    def __str__(self) -> str:
        return f"{self.feature} ends at least {self.margin:g} beyond each threshold that it crosses"

    def region(self, features: Features) -> Region:
        if isinstance(features[self.feature], Categorical):
            raise InvalidInput(
                f"Clearance needs a number; {self.feature!r} is a category, which has no "
                "thresholds."
            )
        margins = np.zeros(features.width)
        margins[features.columns(self.feature)] = self.margin
        return Region((MinimumChange(margins),))


@final
@dataclass(frozen=True)
class Monotone(Constraint):
    """A feature only rises, or only falls.

    Parameters
    ----------
    feature
        A name; a categorical feature must be ordered or have numbers for categories.
    direction
        "increasing" or "decreasing".
    """

    feature: Hashable
    direction: str

    def __post_init__(self) -> None:
        check_name("Monotone", self.feature)
        if str(self.direction) not in ("increasing", "decreasing"):
            raise InvalidInput(
                f"Expected the direction 'increasing' or 'decreasing' for {self.feature!r}; "
                f"got {shown(self.direction)}."
            )

    def __str__(self) -> str:
        return f"{self.feature} only {'rises' if self.direction == 'increasing' else 'falls'}"

    def region(self, features: Features) -> Region:
        end = {"least" if self.direction == "increasing" else "most": 0.0}
        return _one_by_one(features, [self.feature], self._allowed, lambda _: end)

    def _allowed(self, feature: Categorical) -> BoolArray:
        rank = feature.numbers
        if rank is None and not feature.ordered:
            raise InvalidInput(
                f"Monotone needs an order; the categories of {feature.name!r} have none. Describe "
                "it with Categorical(…, ordered=True), or give the column an ordered categorical "
                "dtype."
            )
        if rank is None:  # a category for missing cells has no place in the order
            rank = np.where(feature.is_stand_in, np.nan, np.arange(len(feature.categories)))
        step = rank[None, :] - rank[:, None]
        return _stays(feature) | (step >= 0 if self.direction == "increasing" else step <= 0)


@final
@dataclass(frozen=True, init=False)
class WithinObserved(Constraint):
    """Features stay within the values of the data: between the extremes, or among the categories.

    A row that is itself outside may stay where it is or come nearer. An `Explainer` with ``data=``
    adds this constraint by itself; see there.

    Parameters
    ----------
    *features
        Names; none for all features.
    """

    features: tuple[Hashable, ...]
    default: str = field(default="", init=False, compare=False, repr=False)
    """How to lift the constraint, if an `Explainer` added it."""
    stated: tuple[Bounds, ...] = field(default=(), init=False, compare=False, repr=False)
    """Bounds that a person states: their ``low`` and ``high`` replace those ends of the range."""

    def __init__(self, *features: Hashable) -> None:
        object.__setattr__(self, "features", some_names("WithinObserved", features))

    @classmethod
    def by_default(
        cls, features: Iterable[Hashable], default: str, stated: Iterable[Bounds] = ()
    ) -> WithinObserved:
        """Return the constraint that an `Explainer` adds: how to lift it, and the stated bounds."""
        constraint = cls(*features)
        object.__setattr__(constraint, "default", default)
        object.__setattr__(constraint, "stated", tuple(stated))
        return constraint

    def only(self, *features: Hashable) -> WithinObserved:
        """Return the constraint for some of its features only."""
        return self.by_default(features, self.default, self.stated)

    def __str__(self) -> str:
        names = named(self.features) if self.features else "every feature"
        verb = "stays" if len(self.features) < 2 else "stay"
        how = f" ({self.default})" if self.default else ""
        return f"{names} {verb} within what the data showed{how}"

    def region(self, features: Features) -> Region:
        names = self.features or features.names
        for name in names:
            if features[name].observed is None:
                raise InvalidInput(
                    f"WithinObserved needs data for {name!r}; pass data= to the Explainer, or say "
                    "the range with Bounds."
                )
        return _one_by_one(features, names, self._allowed, self._ends)

    @staticmethod
    def _allowed(feature: Categorical) -> BoolArray:
        seen = {*(feature.observed or ())}
        return _stays(feature) | np.array([value in seen for value in feature.categories])

    def _ends(self, feature: Continuous | Integer) -> dict[str, float]:
        stated = [bounds for bounds in self.stated if bounds.feature == feature.name]
        low, high = feature.observed or (-np.inf, np.inf)
        return {
            "soft_low": -np.inf if np.isfinite([b.low for b in stated]).any() else low,
            "soft_high": np.inf if np.isfinite([b.high for b in stated]).any() else high,
        }


@final
@dataclass(frozen=True)
class MaxChanges(Constraint):
    """At most ``count`` features differ from the factual row.

    Parameters
    ----------
    count
        A whole number of at least 1.
    """

    count: int

    def __post_init__(self) -> None:
        check_count("count", self.count)

    def __str__(self) -> str:
        return f"at most {several(self.count, 'feature')} may change"

    def region(self, features: Features) -> Region:
        return Region((AtMost(int(self.count), features.blocks),))
