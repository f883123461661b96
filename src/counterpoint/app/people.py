"""Find the people that the page offers by words, and describe each by a summary."""

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

LISTED = 8
"""Matches of a search that are listed: as many as fit a phone."""
SEARCHED = 100_000
"""Rows that are searched by words within a moment; any row is found by its number."""


def _matcher(column: Any, values: Any) -> Callable[[str], NDArray[np.bool_]]:
    """Return a function from a word to a mask (n,) of the cells of a column that it matches.

    A word matches a text that holds it, or the number that it is; ``name=text`` matches the cells
    of the column of that name which are that text.
    """
    cells = pd.Series(values)
    codes, different = pd.factorize(cells, use_na_sentinel=False)  # each value is compared once
    texts = [plain(value).lower() for value in different]
    is_number = pd.api.types.is_numeric_dtype(cells.dtype)

    def matches(word: str) -> NDArray[np.bool_]:
        name, equals, whole = word.partition("=")
        if not equals:
            are_met = [word == text if is_number else word in text for text in texts]
        else:
            are_met = [name == str(column).lower() and whole == text for text in texts]
        return np.array(are_met, dtype=bool)[codes]

    return matches


@final
class People:
    """The rows of people that the page offers to choose from.

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
        missing = [name for name in names if name not in frame.columns]
        if missing:
            raise cp.InvalidInput(
                f"The people to choose from have no column {missing[0]!r}; the model needs it."
            )
        if frame.empty:
            raise cp.InvalidInput("Expected at least one row of people to choose from; got none.")
        self.frame, self.names, self.model = frame, names, model
        self.columns = [*(name for name in frame.columns if name not in names), *names]
        self.kind = "Row" if frame.index.name is None else str(frame.index.name)
        self.is_numbered = isinstance(frame.index, pd.RangeIndex)

    @cached_property
    def version(self) -> str:
        """Eight digits that identify the table in bookmarks; they reveal nothing about one row."""
        codes = pd.util.hash_pandas_object(self.frame[self.names].astype(str), index=False)
        return sha256(codes.to_numpy().tobytes()).hexdigest()[:8]

    @cached_property
    def _matchers(self) -> dict[Any, Callable[[str], NDArray[np.bool_]]]:
        """The functions that match words in a column, by column; under None, in the decisions."""
        rows = self.frame.head(SEARCHED)
        decisions = _matcher("decision", self.model.predict(rows[self.names]))
        return {None: decisions, **{name: _matcher(name, rows[name]) for name in self.columns}}

    def first(self, is_wanted: Callable[[Any], bool]) -> int:
        """Return the first of 1 000 rows with such a prediction; 0 if there is none."""
        predictions = self.model.predict(self.frame[self.names].head(1000)).tolist()
        return next((i for i, value in enumerate(predictions) if is_wanted(value)), 0)

    def row(self, i: int) -> dict[str, Any]:
        """Return the cells of the model's columns as JSON has them."""
        if not 0 <= i < len(self.frame):
            raise cp.InvalidInput(f"Expected a row from 0 to {len(self.frame) - 1}; got {i}.")
        cells = self.frame[self.names].iloc[i].astype(object)
        values = cells.where(cells.notna(), None).to_dict()  # as Python's own numbers
        return {str(name): value for name, value in values.items()}

    def title(self, i: int) -> str:
        """Return what a row is called: by its label where the table has labels, else its number."""
        return f"{self.kind} {plain(i if self.is_numbered else self.frame.index[i])}"

    def summary(self, i: int, query: str = "") -> str:
        """Return six cells of a row in words, first those that match a query: more are not read."""
        words, cells = query.lower().split() if i < SEARCHED else [], self.frame.iloc[i]
        matched = {
            name for name in self.columns if any(self._matchers[name](word)[i] for word in words)
        }
        names = sorted(self.columns, key=lambda name: name not in matched)[:6]
        return ", ".join(f"{name} {plain(cells[name])}" for name in names)

    def search(self, query: str) -> tuple[list[int], int]:
        """Return the first rows that match every word of a query, and how many there are.

        A word matches a row if it matches a cell or the decision. A query that is the number or the
        label of a row finds that row first.
        """
        is_match = np.ones(min(len(self.frame), SEARCHED), dtype=bool)
        for word in query.lower().split():
            is_match &= np.logical_or.reduce([matches(word) for matches in self._matchers.values()])
        named = self._named(query.strip().lower())
        rows = dict.fromkeys([*named, *np.flatnonzero(is_match).tolist()])
        return [*rows][:LISTED], len(rows)

    def matches(self, query: str) -> dict[str, Any]:
        """Return the rows of a search for the page: title, decision and summary of each."""
        rows, count = self.search(query)
        labels = self.model.predict(self.frame[self.names].iloc[rows]).tolist() if rows else []
        matches = [
            {"row": i, "title": self.title(i), "decision": plain(label)}
            | {"summary": self.summary(i, query)}
            for i, label in zip(rows, labels, strict=True)
        ]
        return {"matches": matches, "count": count}

    def _named(self, text: str) -> list[int]:
        """Return the rows whose number or label a text is, with or without the word before it."""
        label = text.removeprefix(f"{self.kind} ".lower())
        if self.is_numbered:
            is_row = label.isdecimal() and len(label) < 16 and int(label) < len(self.frame)
            return [int(label)] if is_row else []
        labels = self.frame.index.astype(str).str.lower()
        return np.flatnonzero(labels == label)[:LISTED].tolist()
