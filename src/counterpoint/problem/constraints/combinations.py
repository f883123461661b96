"""Forbid combinations of values: those that a person names, or that the data never show.

Constraints say them in names and units of features. `_forbid` turns them into a condition on
encoded rows, a list of *literals* for each combination: a feature is among some categories, or
strictly between two ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod
from typing import Any, final

import numpy as np

from counterpoint.errors import (
    InvalidInput,
    check_count,
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
"""Categories; or the ends of a number under "low" and "high", of which one may be left out."""
SeenCombinations = tuple[tuple[tuple[Hashable, ...], tuple[tuple[Hashable, ...], ...]], ...]
"""For each set of features their names, and the combinations of their categories that occur."""
STEP_ERROR = 1e-6
"""The share of a step that whole numbers may be off by: much less than one, and much more than
rounding."""


# --- conditions on features, in names and units ---


def _conditions(what: str, conditions: Any) -> dict[Hashable, Values]:
    """Return checked conditions of a constraint, as name → values; refuse an empty mapping."""
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
    """Return one category or several as a tuple, and the ends of a number as a dict.

    A tuple of two numbers, or None, is a pair of ends; so two numeric categories come as a list.
    """
    is_pair = isinstance(values, tuple) and len(values) == 2
    if is_pair and all(value is None or is_number(value) for value in values):
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
    categories = tuple(values) if is_listed(values) else (values,)
    if not categories or not all(map(is_comparable, categories)):
        raise InvalidInput(
            f"Expected a category, a list of them, or (low, high) for {what}; got {shown(values)}."
        )
    if isinstance(values, set | frozenset):  # the order of a set changes from run to run
        categories = tuple(sorted(categories, key=lambda value: (type(value).__name__, value)))
    return categories


def _in_words(conditions: Mapping[Hashable, Values]) -> str:
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
"""A mask of the categories (c,) that a feature is among, or ends that it is strictly between."""
Literals = list[tuple[Hashable, Literal]]
"""Names of features, each with a literal; a feature may have several, which then all hold."""


def _forbid(features: Features, combinations: Sequence[Literals]) -> Region:
    """Return the region of points that are in none of the combinations.

    A combination that no point is in is left out.
    """
    shape = len(combinations), features.width
    # (combinations, columns): see `ForbiddenCombinations`
    (has_literal, singles), options = np.zeros((2, *shape), bool), np.ones(shape, bool)
    low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
    possible = np.ones(len(combinations), dtype=bool)
    for k, literals in enumerate(combinations):
        for name, literal in literals:
            block = features.columns(name)
            has_literal[k, block] = True
            if isinstance(literal, np.ndarray):
                options[k, block] &= literal
                possible[k] &= options[k, block].any()
            else:
                singles[k, block] = isinstance(features[name], Continuous)
                low[k, block] = np.maximum(low[k, block], literal[0])
                high[k, block] = np.minimum(high[k, block], literal[1])
    possible &= (low < high).all(axis=1)  # numbers are strictly between the ends
    if not possible.any():
        return Region()
    arrays = (array[possible] for array in (has_literal, options, low, high, singles))
    return Region((ForbiddenCombinations(*arrays),))


def _around(feature: Continuous | Integer, low: float, high: float) -> tuple[float, float]:
    """Return ends just outside of an interval: its numbers lie strictly between them.

    Whole steps may be off by rounding. The ends of a continuous number are the next ones of single
    precision: else an answer just beyond ``low`` or ``high`` would be rounded back into the
    forbidden interval where a column or model holds float32, as many do.
    """
    if isinstance(feature, Integer):
        slack = STEP_ERROR * feature.step
        below, above = float(np.nextafter(low, -np.inf)), float(np.nextafter(high, np.inf))
        return min(below, low - slack), max(above, high + slack)
    infinity = np.float32(np.inf)
    with np.errstate(over="ignore"):
        below = float(np.nextafter(np.float32(low), -infinity))
        return below, float(np.nextafter(np.float32(high), infinity))


def _literals(what: str, features: Features, conditions: Mapping[Hashable, Values]) -> Literals:
    """Return the literals of conditions: a feature has one of the values."""
    out: Literals = []
    for name, values in conditions.items():
        feature = features[name]
        if isinstance(feature, Categorical):
            out.append((name, _categories(what, feature, values)))
        else:
            out.append((name, _around(feature, *_ends(what, name, values))))
    return out


def _categories(what: str, feature: Categorical, values: Values) -> BoolArray:
    """Return a mask of the categories (c,) that are among the values, or between them.

    A category that only stands for missing cells never is.
    """
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
    """Return the least and the largest of the values of a number."""
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
    """Yield literals, one of which holds where a feature has none of the values.

    None of them holds of a missing cell.
    """
    feature = features[name]
    if isinstance(feature, Categorical):
        yield ~_categories("Implies", feature, values) & ~feature.is_stand_in
        return
    # A whole number that is off a step by rounding is still one of the values, as in `_around`.
    low, high = _ends("Implies", name, values)
    slack = STEP_ERROR * feature.step if isinstance(feature, Integer) else 0.0
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
        return f"never together: {' and '.join(map(_in_words, self.conditions))}"

    def region(self, features: Features) -> Region:
        literals = (_literals("Forbidden", features, c) for c in self.conditions)
        return _forbid(features, [[*chain.from_iterable(literals)]])


@final
@dataclass(frozen=True, init=False)
class Implies(Constraint):
    """Where all conditions of ``when`` are met, those of ``then`` are met too.

    A row that contradicts this may keep its values: an answer is excluded if it contradicts it and
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
        return f"if {_in_words(self.when)}, then {_in_words(self.then)}"

    def region(self, features: Features) -> Region:
        when = _literals("Implies", features, self.when)
        opposites = (
            (name, opposite)
            for name, values in self.then.items()
            for opposite in _opposites(features, name, values)
        )
        return _forbid(features, [[*when, opposite] for opposite in opposites])


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
    seen: SeenCombinations | None

    def __init__(
        self, *features: Hashable, min_count: int = 1, seen: Sequence[Any] | None = None
    ) -> None:
        names = some_names("ObservedCombinations", features)
        if len(names) == 1 or len({*names}) < len(names):
            raise InvalidInput(
                "Expected the names of two or more different features for ObservedCombinations, or "
                f"none for all pairs; got {shown(list(names))}."
            )
        check_count("min_count", min_count)
        if seen is not None:
            seen = tuple((tuple(group), tuple(map(tuple, values))) for group, values in seen)
        object.__setattr__(self, "features", names)
        object.__setattr__(self, "min_count", int(min_count))
        object.__setattr__(self, "seen", seen)

    def __str__(self) -> str:
        names = named(self.features) if self.features else "any two categories"
        count = "some row" if self.min_count == 1 else f"at least {self.min_count} rows"
        return f"{names} are together as in {count} of the data"

    def counted(self, features: Features, codes: FloatArray) -> ObservedCombinations:
        """Return the constraint with the combinations that occur in rows of codes, (n, p).

        A code is the position of a category, or −1 for a cell that does not count.
        """
        categorical = self._categorical(features)
        groups = [categorical] if self.features else combinations(categorical, 2)
        seen = []
        for group in groups:
            names = tuple(feature.name for feature in group)
            columns = codes[:, [features.index(name) for name in names]]
            present = columns[(columns >= 0).all(axis=1)].astype(np.intp)
            distinct, count = np.unique(present, axis=0, return_counts=True)
            combinations_of_group = [
                [feature.categories[code] for code, feature in zip(row, group, strict=True)]
                for row in distinct[count >= self.min_count].tolist()
            ]
            seen.append((names, combinations_of_group))
        return ObservedCombinations(*self.features, min_count=self.min_count, seen=seen)

    def each(self) -> Iterator[ObservedCombinations]:
        """Yield a constraint for each set of features; this one holds where all of them do."""
        for names, values in self.seen or ():
            yield ObservedCombinations(*names, min_count=self.min_count, seen=[(names, values)])

    def _categorical(self, features: Features, names: Sequence[Hashable] = ()) -> list[Categorical]:
        """Return the features of these names, or of its own, or else all categorical features."""
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
        self._categorical(features)  # refuses numbers, before it misses data
        if self.seen is None:
            raise InvalidInput(
                "ObservedCombinations counts rows of data=; pass data= to the Explainer that it is "
                "passed to."
            )
        # The combinations that were not seen, as few products of sets: a literal for each feature.
        forbidden: list[Literals] = [
            [*zip(names, masks, strict=True)]
            for names, values in self.seen
            for masks in _products(_unseen(self._categorical(features, names), values))
        ]
        return _forbid(features, forbidden)


def _unseen(group: Sequence[Categorical], seen: Sequence[Sequence[Hashable]]) -> BoolArray:
    """Return a table (c₁, c₂, …) that is true at the combinations of categories that do not occur.

    It is false where a category only stands for missing cells.
    """
    shape = [len(feature.categories) for feature in group]
    most = 1_000_000  # entries of the table, a byte each
    if prod(shape) > most:
        names = named([feature.name for feature in group])
        raise InvalidInput(
            f"ObservedCombinations of {names} would look at {prod(shape):,} combinations of "
            f"categories, more than {most:,}. Name fewer features."
        )
    table, positions = np.ones(shape, dtype=bool), []
    for axis, feature in enumerate(group):
        positions.append({category: k for k, category in enumerate(feature.categories)})
        table[(slice(None),) * axis + (feature.is_stand_in,)] = False
    for row in seen:
        at = [position.get(value) for position, value in zip(positions, row, strict=True)]
        if None not in at:  # the data may hold categories that the model does not know
            table[tuple(at)] = False
    return table


def _products(table: BoolArray) -> Iterator[tuple[BoolArray, ...]]:
    """Yield products of sets, a mask along each axis, that together cover the true entries exactly.

    Equal slices along the first axis share their products, so that there are few.
    """
    if table.ndim == 1:
        if table.any():
            yield (table,)
        return
    slices = table.reshape(len(table), -1)
    distinct, which = np.unique(slices, axis=0, return_inverse=True)
    for k, entries in enumerate(distinct):
        for masks in _products(entries.reshape(table.shape[1:])):
            yield (which.ravel() == k, *masks)
