"""Combinations of values that do not occur: as a person says, or as the data show."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod
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
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.problem.constraints.features import (
    Constraint,
    between,
    named,
    numbers,
    some_names,
)
from counterpoint.programs.combinations import ForbiddenCombinations
from counterpoint.programs.region import Region
from counterpoint.rows.features import Categorical, Continuous, Features, Integer

Values = tuple[Hashable, ...] | dict[str, float]
"""Categories, or the ``low`` and the ``high`` of a number; an end that is not there is none."""
Counted = tuple[tuple[tuple[Hashable, ...], tuple[tuple[Hashable, ...], ...]], ...]
"""Names of features, and the combinations of their categories that occur often enough."""
MOST = 1_000_000
"""Combinations of the categories of some features that are looked at: 1 MB of flags."""


ROUNDED = 1e-6
"""By how much of a step whole numbers may be off: much less than one, much more than rounding."""


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


Literal = BoolArray | tuple[float, float]
"""That a feature is among categories (c,), or strictly between two ends."""
Literals = list[tuple[Hashable, Literal]]
"""What is true of a combination, by names of features; of one feature, more may be said."""


def _region(features: Features, listed: Sequence[Literals]) -> Region:
    """Return the points that are in none of some combinations."""
    shape = len(listed), features.width
    speaks, singles, options = np.zeros(shape, bool), np.zeros(shape, bool), np.ones(shape, bool)
    low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
    possible = np.ones(len(listed), dtype=bool)
    for k, literals in enumerate(listed):
        for name, literal in literals:
            block = features.columns(name)
            speaks[k, block] = True
            if isinstance(literal, np.ndarray):
                options[k, block] &= literal
                possible[k] &= options[k, block].any()
            else:
                singles[k, block] = isinstance(features[name], Continuous)
                low[k, block] = np.maximum(low[k, block], literal[0])
                high[k, block] = np.minimum(high[k, block], literal[1])
    possible &= (low < high).all(axis=1)
    if not possible.any():
        return Region()
    arrays = (array[possible] for array in (speaks, options, low, high, singles))
    return Region((ForbiddenCombinations(*arrays),))


def _around(feature: Continuous | Integer, low: float, high: float) -> tuple[float, float]:
    """Return ends strictly between which a number is from low to high, and no other one.

    Whole steps may be off by rounding. What is not whole must not be rounded into what is forbidden
    where a column holds single precision, as in many models: then another such number is next.
    """
    if isinstance(feature, Integer):
        slack = ROUNDED * feature.step
        outer = float(np.nextafter(low, -np.inf)), float(np.nextafter(high, np.inf))
        return min(outer[0], low - slack), max(outer[1], high + slack)
    with np.errstate(over="ignore"):
        below, above = np.float32(low), np.float32(high)
        return float(np.nextafter(below, -np.float32(np.inf))), float(
            np.nextafter(above, np.float32(np.inf))
        )


def _literals(what: str, features: Features, conditions: Mapping[Hashable, Values]) -> Literals:
    """Return the categories (c,) that are meant, or the ends strictly between which a number is.

    A category that only stands for missing cells is never meant.
    """
    out: Literals = []
    for name, values in conditions.items():
        feature = features[name]
        if isinstance(feature, Categorical):
            out.append((name, _categories(what, feature, values)))
        else:
            out.append((name, _around(feature, *_ends(what, name, values))))
    return out


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
    slack = ROUNDED * feature.step if isinstance(feature, Integer) else 0.0
    if np.isfinite(low):
        yield -np.inf, low - slack
    if np.isfinite(high):
        yield high + slack, np.inf


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
        literals = (_literals("Forbidden", features, c) for c in self.conditions)
        return _region(features, [[*chain.from_iterable(literals)]])


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
        when = _literals("Implies", features, self.when)
        opposites = (
            (name, opposite)
            for name, values in self.then.items()
            for opposite in _opposites(features, name, values)
        )
        return _region(features, [[*when, opposite] for opposite in opposites])


@final
@dataclass(frozen=True, init=False)
class ObservedCombinations(Constraint):
    """Categories occur together only as they do in the data.

    An answer is excluded if its categories of these features are together in less than so many
    rows of ``data=``, unless they are those of the row. A missing cell excludes nothing. For
    linear, additive and tree models.

    Parameters
    ----------
    *features
        Names of categorical features, two or more; none for all pairs of categorical features.
    min_count
        How many rows must have a combination; a whole number of at least 1.
    seen
        The combinations that occur so often: names, and tuples of categories, for each set of
        features; None to count them in the ``data=`` of an `Explainer`.

    Examples
    --------
    >>> import counterpoint as cp
    >>> print(cp.ObservedCombinations("sex", "relationship", min_count=500))
    sex and relationship are together as in at least 500 rows of the data
    """

    features: tuple[Hashable, ...]
    min_count: int
    seen: Counted | None

    def __init__(
        self, *features: Hashable, min_count: int = 1, seen: Sequence[Any] | None = None
    ) -> None:
        names = some_names("ObservedCombinations", features)
        if len(names) == 1 or len({*names}) < len(names):
            raise InvalidInput(
                "Expected the names of two or more different features for ObservedCombinations, or "
                f"none for all pairs; got {shown(list(names))}."
            )
        whole = is_number(min_count) and np.isfinite(min_count) and int(min_count) == min_count
        if not whole or min_count < 1:
            raise InvalidInput(f"Expected a min_count of at least 1; got {shown(min_count)}.")
        counted = None if seen is None else tuple((tuple(n), tuple(map(tuple, v))) for n, v in seen)
        object.__setattr__(self, "features", names)
        object.__setattr__(self, "min_count", int(min_count))
        object.__setattr__(self, "seen", counted)

    def __str__(self) -> str:
        names = named(self.features) if self.features else "any two categories"
        count = "some row" if self.min_count == 1 else f"at least {self.min_count} rows"
        return f"{names} are together as in {count} of the data"

    def counted(self, features: Features, codes: FloatArray) -> ObservedCombinations:
        """Return the same with the combinations that occur in rows (n, p) of codes.

        A code is the place of a category; that of a cell that does not count is −1.
        """
        named_features = self._chosen(features)
        pairs = [named_features] if self.features else combinations(named_features, 2)
        seen = []
        for some_features in pairs:
            names = tuple(feature.name for feature in some_features)
            columns = codes[:, [features.index(name) for name in names]]
            present = columns[(columns >= 0).all(axis=1)].astype(np.intp)
            distinct, count = np.unique(present, axis=0, return_counts=True)
            often = distinct[count >= self.min_count].tolist()
            both = [zip(row, some_features, strict=True) for row in often]
            seen.append((names, [[feature.categories[k] for k, feature in row] for row in both]))
        return ObservedCombinations(*self.features, min_count=self.min_count, seen=seen)

    def each(self) -> Iterator[ObservedCombinations]:
        """Yield the same for each set of features."""
        for names, values in self.seen or ():
            yield ObservedCombinations(*names, min_count=self.min_count, seen=[(names, values)])

    def _chosen(self, features: Features, names: Sequence[Hashable] = ()) -> list[Categorical]:
        """Return the features of some names, or else all that it speaks of."""
        names = names or self.features
        if not names:
            return [feature for feature in features if isinstance(feature, Categorical)]
        out = []
        for feature in map(features.__getitem__, names):
            if not isinstance(feature, Categorical):
                raise InvalidInput(
                    f"ObservedCombinations takes categories; {feature.name!r} is a number. Leave "
                    "it out, or describe the column with Categorical."
                )
            out.append(feature)
        return out

    def region(self, features: Features) -> Region:
        self._chosen(features)
        if self.seen is None:
            raise InvalidInput(
                "ObservedCombinations counts rows of data=; pass data= to the Explainer that it is "
                "passed to."
            )
        return _region(
            features,
            [
                [*zip(names, masks, strict=True)]
                for names, values in self.seen
                for masks in _covering(_never(self._chosen(features, names), values))
            ],
        )


def _never(chosen: Sequence[Categorical], seen: Sequence[Sequence[Hashable]]) -> BoolArray:
    """(c₁, c₂, …): which combinations of categories are not among those that were seen.

    Those with a category that only stands for missing cells are not told.
    """
    shape = [len(feature.categories) for feature in chosen]
    if prod(shape) > MOST:
        names = named([feature.name for feature in chosen])
        raise InvalidInput(
            f"ObservedCombinations of {names} would look at {prod(shape):,} combinations of "
            f"categories, more than {MOST:,}. Name fewer features."
        )
    out, places = np.ones(shape, dtype=bool), []
    for axis, feature in enumerate(chosen):
        places.append({category: k for k, category in enumerate(feature.categories)})
        out[(slice(None),) * axis + (feature.is_stand_in,)] = False
    for row in seen:
        at = [place.get(value) for place, value in zip(places, row, strict=True)]
        if None not in at:  # else the model has no such category
            out[tuple(at)] = False
    return out


def _covering(table: BoolArray) -> Iterator[tuple[BoolArray, ...]]:
    """Yield products of sets, one along each axis, that cover what is true in a table, and no more.

    Entries of the first axis with the same others go together, so that they are few.
    """
    if table.ndim == 1:
        if table.any():
            yield (table,)
        return
    rows = table.reshape(len(table), -1)
    distinct, alike = np.unique(rows, axis=0, return_inverse=True)
    for k, row in enumerate(distinct):
        for masks in _covering(row.reshape(table.shape[1:])):
            yield (alike.ravel() == k, *masks)
