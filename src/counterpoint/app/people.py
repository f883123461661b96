"""The people that the page offers: found by words, told by a summary, named by their position."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import counterpoint as cp
from counterpoint.app.words import plain

__all__ = ["People"]

SHOWN = 8
"""Matches of a search that are listed: as many as fit a phone."""
CELLS = 6
"""Cells in a line about a row: more are not read."""
SEARCHED = 100_000
"""Rows that are searched by words within a moment; any row is found by its number."""


@final
class SearchedColumn:
    """A column as a search reads it.

    Parameters
    ----------
    name
        The column's name.
    values
        (n,) its cells.
    """

    def __init__(self, name: Any, values: Any) -> None:
        cells = pd.Series(values)
        codes, different = pd.factorize(cells, use_na_sentinel=False)
        self.name, self.codes = str(name).lower(), codes
        self.texts = [plain(value).lower() for value in different]
        self.is_number = pd.api.types.is_numeric_dtype(cells.dtype)

    def meets(self, term: str) -> NDArray[np.bool_]:
        """(n,) whether a term is part of a text, or all of a number; ``name=text`` is exact."""
        name, equals, value = term.partition("=")
        if equals and name != self.name:
            return np.zeros(len(self.codes), dtype=bool)
        exact = bool(equals) or self.is_number
        text = value if equals else term
        return np.array([t == text if exact else text in t for t in self.texts])[self.codes]


@final
class People:
    """Rows to choose from.

    Parameters
    ----------
    frame
        The rows, with the model's columns, and perhaps others by which people are recognised.
    names
        The model's columns.
    model
        Its decisions are searched, too.
    """

    def __init__(self, frame: pd.DataFrame, names: list[str], model: Any) -> None:
        self.frame, self.names, self.model = frame, names, model
        self.columns = [*(name for name in frame.columns if name not in names), *names]
        self.first_rows = frame.head(SEARCHED)

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def version(self) -> str:
        """Eight digits by which a bookmark knows the table; they tell nothing about one row."""
        codes = pd.util.hash_pandas_object(self.frame[self.names].astype(str), index=False)
        return sha256(codes.to_numpy().tobytes()).hexdigest()[:8]

    @cached_property
    def _searched(self) -> dict[Any, SearchedColumn]:
        return {name: SearchedColumn(name, self.first_rows[name]) for name in self.columns}

    @cached_property
    def _decisions(self) -> SearchedColumn:
        return SearchedColumn("decision", self.model.predict(self.first_rows[self.names]))

    def first(self, is_wanted: Callable[[Any], bool]) -> int:
        """Return the first of 1 000 rows with such a prediction; 0 if there is none."""
        predictions = self.model.predict(self.frame[self.names].head(1000)).tolist()
        return next((i for i, value in enumerate(predictions) if is_wanted(value)), 0)

    def check(self, i: int) -> None:
        """Raise `InvalidInput` unless there is such a row."""
        if not 0 <= i < len(self):
            raise cp.InvalidInput(f"Expected a row from 0 to {len(self) - 1}; got {i}.")

    def row(self, i: int) -> dict[str, Any]:
        """Return the cells of the model's columns as JSON has them."""
        self.check(i)
        cells = self.frame[self.names].iloc[i].astype(object)
        values = cells.where(cells.notna(), None).to_dict()  # as Python's own numbers
        return {str(name): value for name, value in values.items()}

    def title(self, i: int) -> str:
        """Return what a row is called: by its label where the table has labels, else its number."""
        index = self.frame.index
        label = i if isinstance(index, pd.RangeIndex) else index[i]
        return f"{self._kind} {plain(label)}"

    @property
    def _kind(self) -> str:
        name = self.frame.index.name
        return "Row" if name is None else str(name)

    def decisions(self, rows: list[int]) -> list[str]:
        """Return the model's decision for each of some rows."""
        labels = self.model.predict(self.frame[self.names].iloc[rows]).tolist() if rows else []
        return [plain(label) for label in labels]

    def summary(self, i: int, query: str = "") -> str:
        """Return some cells of a row in words; first those that a search met."""
        terms, cells = query.lower().split(), self.frame.iloc[i]
        met = {
            name
            for name in self.columns
            if i < SEARCHED and any(self._searched[name].meets(term)[i] for term in terms)
        }
        names = sorted(self.columns, key=lambda name: name not in met)[:CELLS]
        return ", ".join(f"{name} {plain(cells[name])}" for name in names)

    def search(self, query: str) -> tuple[list[int], int]:
        """Return the first rows that every word of a query is about, and how many there are.

        A word is about a row if `SearchedColumn.meets` says so of a cell or of the decision; a
        number or a label alone is that of a row.
        """
        is_match = np.ones(len(self.first_rows), dtype=bool)
        for term in query.lower().split():
            columns = [self._decisions, *self._searched.values()]
            is_match &= np.logical_or.reduce([column.meets(term) for column in columns])
        rows = np.flatnonzero(is_match).tolist()
        named = self._named(query.strip().lower())
        rows = [*named, *(i for i in rows if i not in named)]
        return rows[:SHOWN], len(rows)

    def _named(self, text: str) -> list[int]:
        """Return the rows that are called so, with or without what their label is."""
        index = self.frame.index
        label = text.removeprefix(f"{self._kind} ".lower())
        if isinstance(index, pd.RangeIndex):
            is_row = label.isdecimal() and len(label) < 16 and int(label) < len(self)
            return [int(label)] if is_row else []
        labels = index.astype(str).str.lower()
        return np.flatnonzero(labels == label)[:SHOWN].tolist()
