"""What a constraint is, and constraints on features one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from counterpoint.engine.domains import Box, Transitions
from counterpoint.engine.region import Condition, Region
from counterpoint.errors import InvalidInput, all_of, check_name, check_number, is_listed, shown
from counterpoint.numerics import FloatArray
from counterpoint.rows.features import Categorical, Features

__all__ = [
    "Bounds",
    "Constraint",
    "Immutable",
    "Monotone",
    "WithinObserved",
    "all_constraints",
    "between",
    "named",
    "numbers",
]


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


def all_constraints(given: Constraint | Iterable[Constraint]) -> tuple[Constraint, ...]:
    """One constraint or several as a tuple; what is none is an `InvalidInput`."""
    parsed = " A relation is cp.Linear.parse('a <= b')."
    return all_of(Constraint, given, "constraints such as cp.Immutable('age')", parsed)


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
    most = 20  # in a sentence that a person still reads
    if len(names) > most:
        return f"{', '.join(map(str, names[:most]))} and {len(names) - most} more"
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


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


@final
@dataclass(frozen=True, init=False)
class Immutable(Constraint):
    """These features keep their values.

    Parameters
    ----------
    *features
        Names.

    Examples
    --------
    >>> import counterpoint as cp
    >>> cp.Immutable("age", "gender")
    Immutable(features=('age', 'gender'))
    """

    features: tuple[Hashable, ...]

    def __init__(self, *features: Hashable) -> None:
        names = some_names("Immutable", features)
        if not names:
            raise InvalidInput("Expected the name of at least one feature for Immutable; got none.")
        object.__setattr__(self, "features", names)

    def __str__(self) -> str:
        return f"{named(self.features)} {'is' if len(self.features) == 1 else 'are'} immutable"

    def region(self, features: Features) -> Region:
        box = Box.unbounded(features.width)
        conditions: list[Condition] = [box]
        for name in self.features:
            block = features.columns(name)
            feature = features[name]
            if isinstance(feature, Categorical):
                conditions.append(Transitions(block, np.eye(len(feature.categories), dtype=bool)))
            else:
                box.least[block] = 0.0
                box.most[block] = 0.0
        return Region(tuple(conditions))


@final
@dataclass(frozen=True)
class Bounds(Constraint):
    """A feature stays between two values, and may rise and fall by so much only.

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
        values = (self.low, self.high, self.fall, self.rise)
        for what, value in zip(("low", "high", "fall", "rise"), values, strict=True):
            check_number(f"{what} of {self.feature!r}", value)
        if np.isnan(values).any() or self.low > self.high or min(self.fall, self.rise) < 0:
            raise InvalidInput(
                f"Expected low <= high, fall >= 0 and rise >= 0 for {self.feature!r}; got "
                f"low={self.low!r}, high={self.high!r}, fall={self.fall!r}, rise={self.rise!r}."
            )

    def __str__(self) -> str:
        said = [between(self.low, self.high)] if np.isfinite((self.low, self.high)).any() else []
        said += [f"falls by at most {self.fall:g}"] if np.isfinite(self.fall) else []
        said += [f"rises by at most {self.rise:g}"] if np.isfinite(self.rise) else []
        return f"{self.feature} {' and '.join(said) or 'has no bound'}"

    def region(self, features: Features) -> Region:
        feature = features[self.feature]
        if isinstance(feature, Categorical):
            values = numbers(feature, "Bounds")
            change = values[None, :] - values[:, None]
            allowed = (values >= self.low) & (values <= self.high)
            allowed = allowed[None, :] & (change >= -self.fall) & (change <= self.rise)
            return Region((Transitions(features.columns(self.feature), allowed),))
        box = Box.unbounded(features.width)
        at = features.columns(self.feature).start
        box.low[at], box.high[at] = self.low, self.high
        box.least[at], box.most[at] = -self.fall, self.rise
        return Region((box,))


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
        rising = self.direction == "increasing"
        feature = features[self.feature]
        block = features.columns(self.feature)
        if isinstance(feature, Categorical):
            rank = _ranks(feature)
            step = rank[None, :] - rank[:, None]
            stays = np.eye(len(rank), dtype=bool)
            return Region((Transitions(block, stays | (step >= 0 if rising else step <= 0)),))
        box = Box.unbounded(features.width)
        (box.least if rising else box.most)[block] = 0.0
        return Region((box,))


@final
@dataclass(frozen=True, init=False)
class WithinObserved(Constraint):
    """Features stay within what the data showed: between its extremes, or among its categories.

    A row that is itself outside may stay where it is or come nearer. An `Explainer` with ``data=``
    adds this by itself; see there.

    Parameters
    ----------
    *features
        Names; none for all features.
    """

    features: tuple[Hashable, ...]
    default: str = field(default="", init=False, compare=False, repr=False)
    """How to lift it, if nobody asked for it."""
    stated: tuple[Bounds, ...] = field(default=(), init=False, compare=False, repr=False)
    """Bounds that a person states: the ``low`` or ``high`` of one holds instead of that end of the
    range."""

    def __init__(self, *features: Hashable) -> None:
        object.__setattr__(self, "features", some_names("WithinObserved", features))

    @classmethod
    def by_default(
        cls, features: Iterable[Hashable], default: str, stated: Iterable[Bounds] = ()
    ) -> WithinObserved:
        """One that nobody asked for.

        Parameters
        ----------
        features
            Names, at least one.
        default
            How to lift it, as the end of a sentence.
        stated
            Bounds on some of the features, which hold instead.
        """
        made = cls(*features)
        object.__setattr__(made, "default", default)
        object.__setattr__(made, "stated", tuple(stated))
        return made

    def only(self, *features: Hashable) -> WithinObserved:
        """The same of some of its features."""
        return self.by_default(features, self.default, self.stated)

    def __str__(self) -> str:
        names = named(self.features) if self.features else "every feature"
        verb = "stays" if len(self.features) < 2 else "stay"
        how = f" ({self.default})" if self.default else ""
        return f"{names} {verb} within what the data showed{how}"

    def region(self, features: Features) -> Region:
        box = Box.unbounded(features.width)
        conditions: list[Condition] = [box]
        for name in self.features or features.names:
            feature = features[name]
            if feature.observed is None:
                raise InvalidInput(
                    f"WithinObserved needs data for {name!r}; pass data= to the Explainer, or say "
                    "the range with Bounds."
                )
            block = features.columns(name)
            if isinstance(feature, Categorical):
                seen = np.isin(np.arange(len(feature.categories)), _positions(feature))
                stays = np.eye(len(seen), dtype=bool)
                conditions.append(Transitions(block, stays | seen))
            else:
                box.soft_low[block], box.soft_high[block] = feature.observed
        for bounds in self.stated:
            at = features.columns(bounds.feature)
            if np.isfinite(bounds.low):
                box.soft_low[at] = -np.inf
            if np.isfinite(bounds.high):
                box.soft_high[at] = np.inf
        return Region(tuple(conditions))


def _positions(feature: Categorical) -> list[int]:
    return [feature.categories.index(category) for category in feature.observed or ()]


def _ranks(feature: Categorical) -> FloatArray:
    if feature.numbers is not None:
        return feature.numbers
    if feature.ordered:
        rank = np.arange(len(feature.categories), dtype=np.float64)
        return np.where(feature.is_stand_in, np.nan, rank)  # what is missing has no place in it
    raise InvalidInput(
        f"Monotone needs an order; the categories of {feature.name!r} have none. Describe it with "
        "Categorical(…, ordered=True), or give the column an ordered categorical dtype."
    )
