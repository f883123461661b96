"""Describe columns as continuous, integer or categorical, and encode them for programs.

*Codes* are an (n, p) float64 array with one entry for each raw column: the number itself, or the
position of the category. *Encoded* points are (n, d): numbers stay, a category becomes a one-hot
block. Answers store codes, which are compact; programs take encoded points.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import (
    InvalidInput,
    all_of,
    check_flag,
    check_name,
    check_number,
    is_comparable,
    is_number,
    listed,
    shown,
    some,
)
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray
from counterpoint.rows.cells import is_missing
from counterpoint.rows.table import Table


@final
@dataclass(frozen=True, slots=True)
class Continuous:
    """A column of real numbers.

    Parameters
    ----------
    name
        The column's name.
    observed
        Smallest and largest value in the data, in feature units; None if there was no data.
    """

    name: Hashable
    observed: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_name("Continuous", self.name)
        object.__setattr__(self, "observed", _range(self.name, self.observed))

    def __str__(self) -> str:
        return f"{self.name}: continuous{_seen(self.observed)}"


@final
@dataclass(frozen=True, slots=True)
class Integer:
    """A column that changes in whole steps: y = x + k · step with a whole number k.

    Parameters
    ----------
    name
        The column's name.
    step
        The size of one step, in feature units.
    observed
        Smallest and largest value in the data, in feature units; None if there was no data.
    """

    name: Hashable
    step: float = 1.0
    observed: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_name("Integer", self.name)
        object.__setattr__(self, "observed", _range(self.name, self.observed))
        check_number(f"the step of column {self.name!r}", self.step)
        if not (np.isfinite(self.step) and self.step > 0):
            raise InvalidInput(
                f"Expected a positive step for column {self.name!r}; got {shown(self.step)}."
            )

    def __str__(self) -> str:
        return f"{self.name}: integer, steps of {self.step:g}{_seen(self.observed)}"


@final
@dataclass(frozen=True, slots=True)
class Categorical:
    """A column that holds one of finitely many values.

    Parameters
    ----------
    name
        The column's name.
    categories
        The possible values, of which an answer may choose any.
    ordered
        Whether the order of ``categories`` has a meaning (for `Monotone`).
    observed
        The categories that occur in the data; None if there was no data.
    stand_in
        The one of ``categories``, if any, that stands for missing cells and nothing else, as a
        pipeline fills it in: a row may have it and keep it, but no answer chooses it.
    """

    name: Hashable
    categories: tuple[Hashable, ...]
    ordered: bool = False
    observed: tuple[Hashable, ...] | None = None
    stand_in: Hashable | None = None

    def __post_init__(self) -> None:
        check_name("Categorical", self.name)
        categories = listed(f"the categories of column {self.name!r}", self.categories)
        object.__setattr__(self, "categories", categories)
        if self.observed is not None:
            observed = listed(f"the observed categories of column {self.name!r}", self.observed)
            object.__setattr__(self, "observed", observed)
        check_flag(f"ordered of column {self.name!r}", self.ordered)
        for value in (*self.categories, *(self.observed or ()), self.stand_in):
            if not is_comparable(value):
                raise InvalidInput(
                    f"Expected categories of column {self.name!r} that are numbers, text or the "
                    f"like; got {shown(value)} ({type(value).__name__})."
                )
        if not self.categories or len(set(self.categories)) < len(self.categories):
            raise InvalidInput(
                f"Expected distinct categories for column {self.name!r}; got "
                f"{shown(self.categories)}."
            )
        unknown = [value for value in self.observed or () if value not in self.categories]
        if unknown:
            raise InvalidInput(
                f"Expected observed categories of column {self.name!r} that are among its "
                f"categories; got {unknown[0]!r}."
            )
        if self.stand_in is not None and self.stand_in not in self.categories:
            raise InvalidInput(
                f"Expected one of the categories of column {self.name!r} to stand for missing "
                f"cells; got {shown(self.stand_in)}."
            )

    def __str__(self) -> str:
        kind = "categorical, ordered" if self.ordered else "categorical"
        return f"{self.name}: {kind}, {some(self.categories, 6, str)}"

    @property
    def is_stand_in(self) -> BoolArray:
        """The mask (c,) of the category that only stands for missing cells, if there is one."""
        has_stand_in = self.stand_in is not None
        return np.array([has_stand_in and value == self.stand_in for value in self.categories])

    @property
    def numbers(self) -> FloatArray | None:
        """The categories as float64, if all are numbers; else None."""
        if all(is_number(value) or isinstance(value, bool | np.bool_) for value in self.categories):
            return np.array(self.categories, dtype=np.float64)
        return None


Feature = Continuous | Integer | Categorical


def _seen(observed: tuple[float, float] | None) -> str:
    return "" if observed is None else f", {observed[0]:g} to {observed[1]:g}"


def _range(name: Hashable, observed: Any) -> tuple[float, float] | None:
    if observed is None:
        return None
    ends = listed(f"the observed range of column {name!r}", observed)
    if len(ends) != 2 or not all(map(is_number, ends)) or not ends[0] <= ends[1]:
        raise InvalidInput(
            f"Expected a smallest and a largest value as the observed range of column {name!r}; "
            f"got {shown(observed)}."
        )
    return ends[0], ends[1]


@final
@dataclass(frozen=True)
class Features:
    """The raw columns of a model, in order.

    Parameters
    ----------
    items
        One `Continuous`, `Integer` or `Categorical` for each column.

    Examples
    --------
    >>> import counterpoint as cp
    >>> features = cp.Features([cp.Continuous("income"), cp.Categorical("home", ("own", "rent"))])
    >>> features.names
    ('income', 'home')
    >>> features.width
    3
    """

    items: tuple[Feature, ...]

    def __init__(self, items: Iterable[Feature]) -> None:
        object.__setattr__(self, "items", all_features(listed("features", items)))
        if len(set(self.names)) < len(self.items):
            raise InvalidInput(f"Expected distinct feature names; got {list(self.names)!r}.")
        if not self.items:
            raise InvalidInput("Expected at least one feature; got none.")

    @classmethod
    def from_data(cls, data: object) -> Features:
        """Return the kinds and observed values of the columns of a data frame or array.

        Whole-number dtypes are `Integer`, and in a data frame floats that are all whole, three
        different ones or more; booleans, text, categorical dtypes, and columns that hold only 0
        and 1 are `Categorical`; other numbers are `Continuous`. Missing values are passed over.

        Raises
        ------
        InvalidInput
            If a dtype is neither numeric nor categorical (dates), or a column has no value.
        """
        table = Table.read(data)
        return cls(_infer(table, name) for name in table.names)

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, name: Hashable) -> Feature:
        return self.items[self.index(name)]

    def replaced(self, feature: Feature) -> Features:
        """Return the same columns with one of them described anew."""
        at = self.index(feature.name)
        return Features((*self.items[:at], feature, *self.items[at + 1 :]))

    @cached_property
    def names(self) -> tuple[Hashable, ...]:
        """The column names, in order."""
        return tuple(feature.name for feature in self.items)

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        return {name: j for j, name in enumerate(self.names)}

    def index(self, name: Hashable) -> int:
        """Return the position of a column; an unknown name is an `InvalidInput` with near ones."""
        try:
            return self._positions[name]
        except (KeyError, TypeError):
            raise InvalidInput(unknown_name(name, self.names)) from None

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """The encoded columns of each feature, in order."""
        sizes = [len(f.categories) if isinstance(f, Categorical) else 1 for f in self.items]
        return tuple(slice(end - k, end) for k, end in zip(sizes, accumulate(sizes), strict=True))

    @cached_property
    def width(self) -> int:
        """The number d of encoded columns."""
        return self.blocks[-1].stop

    def columns(self, name: Hashable) -> slice:
        """Return the encoded columns of one feature."""
        return self.blocks[self.index(name)]

    @cached_property
    def is_numeric(self) -> BoolArray:
        """The mask (p,) of the features that are numbers."""
        return np.array([not isinstance(f, Categorical) for f in self.items])

    @cached_property
    def all_numeric(self) -> bool:
        """Whether no feature is categorical, so that codes and encoded points are the same."""
        return bool(self.is_numeric.all())

    @cached_property
    def numeric_columns(self) -> IntArray:
        """The encoded columns that hold numbers, in order."""
        return self._starts[self.is_numeric]

    @cached_property
    def _starts(self) -> IntArray:
        """The first encoded column of each feature, (p,)."""
        return np.array([block.start for block in self.blocks], dtype=np.intp)

    def expand(self, codes: FloatArray) -> FloatArray:
        """Return the encoded points (n, d) of codes (n, p)."""
        if self.all_numeric:
            return codes
        out = np.zeros((len(codes), self.width))
        out[:, self.numeric_columns] = codes[:, self.is_numeric]
        categorical = ~self.is_numeric
        ones = self._starts[categorical] + codes[:, categorical].astype(np.intp)
        out[np.arange(len(codes))[:, None], ones] = 1.0
        return out

    def compress(self, encoded: FloatArray) -> FloatArray:
        """Return the codes (n, p) of encoded points (n, d).

        A category is the largest entry of its block: solvers return ones up to rounding.
        """
        if self.all_numeric:
            return encoded
        out = encoded[:, self._starts]
        for j in np.flatnonzero(~self.is_numeric).tolist():
            out[:, j] = encoded[:, self.blocks[j]].argmax(axis=1)
        return out

    def describe(self, name: Hashable, code: float) -> Any:
        """Return the raw value that a code stands for."""
        feature = self[name]
        if isinstance(feature, Categorical):
            return feature.categories[int(code)]
        return float(code)


def all_features(features: Feature | Iterable[Feature]) -> tuple[Feature, ...]:
    """Return one feature or several as a tuple; anything else is an `InvalidInput`."""
    return all_of(Feature, features, "features such as cp.Continuous('age')")


def with_observed(item: Feature, seen: Feature) -> Feature:
    """Return the user's description ``item`` of a feature, with the observed values of the data.

    ``seen`` describes the same column by the data. A user who says what was observed is believed,
    and so is one who describes a column of other values than the data have.
    """
    if item.observed is not None or seen.observed is None:
        return item
    if isinstance(item, Categorical):
        if not isinstance(seen, Categorical):
            return item
        occurring = tuple(value for value in seen.observed if value in item.categories)
        return replace(item, observed=occurring)
    if isinstance(seen, Categorical) and seen.numbers is None:
        return item
    values: tuple[Any, ...] = seen.observed
    return replace(item, observed=(float(min(values)), float(max(values))))


def near_names(name: Hashable, names: Sequence[Hashable]) -> str:
    """Return up to three known names that look most like another, ``'a' or 'b'``; or no text."""
    from difflib import get_close_matches

    return " or ".join(map(repr, get_close_matches(str(name), [str(k) for k in names], n=3)))


def unknown_name(name: Hashable, names: Sequence[Hashable]) -> str:
    """Return the sentence on a name that is not among the known ones, with the nearest of these."""
    near = near_names(name, names)
    hint = f"did you mean {near}?" if near else f"known: {some(names, 12)}."
    return f"There is no feature {shown(name)}; {hint}"


def _infer(table: Table, name: Hashable) -> Feature:
    """Return the feature that describes a column: its kind and the values that occur."""
    levels, values = table.levels(name), table.column(name)
    if values.dtype.kind == "O" and levels is None:
        values = _numbers_if_possible(values)
    if values.dtype.kind in "biuf":
        return _infer_numbers(table, name, values)
    if values.dtype.kind not in "OUS":
        raise InvalidInput(
            f"Column {name!r} has dtype {values.dtype}; expected numbers, booleans, text or "
            "categories. Turn dates into a number first, such as days since a fixed day."
        )
    try:
        seen = {value for value in values.tolist() if not is_missing(value)}
        categories = levels or tuple(sorted(seen, key=lambda value: (type(value).__name__, value)))
    except TypeError:
        raise InvalidInput(
            f"Column {name!r} holds values that are neither numbers nor text; "
            "turn them into text or categories first."
        ) from None
    if not categories:
        raise InvalidInput(f"Column {name!r} has no value; drop it or fill it in.")
    if any(hasattr(value, "isoformat") for value in categories):
        raise InvalidInput(
            f"Column {name!r} holds dates; turn them into a number first, such as days since a "
            "fixed day."
        )
    observed = tuple(value for value in categories if value in seen)
    return Categorical(name, categories, levels is not None and table.is_ordered(name), observed)


def _numbers_if_possible(values: NDArray[Any]) -> NDArray[Any]:
    """Return the present cells of an object column as an array of numbers, if all are numbers.

    Else return the column as it came.
    """
    present = [value for value in values.tolist() if not is_missing(value)]
    if present and all(isinstance(value, bool | np.bool_) for value in present):
        return np.array(present, dtype=bool)
    if present and all(isinstance(value, int | np.integer) for value in present):
        with suppress(OverflowError):  # larger ones become floats below
            return np.array(present, dtype=np.int64)
    if present and all(is_number(value) or isinstance(value, bool) for value in present):
        return np.array(present, dtype=np.float64)
    return values


def _infer_numbers(table: Table, name: Hashable, values: NDArray[Any]) -> Feature:
    """Return the feature that describes a column of numbers or booleans.

    A column of floats in a frame is one of whole numbers if all of them are whole: a missing value
    makes pandas store integers as floats.
    """
    if values.dtype.kind == "b":
        return Categorical(name, (False, True), observed=tuple(np.unique(values).tolist()))
    finite = values[np.isfinite(values)]
    if not len(finite):
        raise InvalidInput(f"Column {name!r} has no finite value; drop it or fill it in.")
    observed = (float(finite.min()), float(finite.max()))
    whole = name in table.whole or values.dtype.kind in "iu"
    if observed == (0.0, 1.0) and bool(np.isin(finite, (0, 1)).all()):
        pair = (0, 1) if whole else (0.0, 1.0)
        return Categorical(name, pair, ordered=True, observed=pair)
    if not whole and not table.is_array:
        # Beyond 1 / eps all floats are whole; one or two different ones may be so by accident.
        eps = table.singles.get(table.names.index(name), EPS)
        exact = np.abs(observed).max() <= 1.0 / eps and (finite == np.rint(finite)).all()
        whole = bool(exact) and len(np.unique(finite)) >= 3
    return Integer(name, observed=observed) if whole else Continuous(name, observed=observed)
