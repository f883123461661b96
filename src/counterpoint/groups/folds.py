"""Rows dealt into folds, to judge explanations on rows that they were not fitted on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput
from counterpoint.groups.membership import Groups

__all__ = ["dealt"]

IntArray = NDArray[np.intp]


def dealt(
    groups: Groups, folds: int, random: np.random.RandomState
) -> Iterator[tuple[IntArray, IntArray]]:
    """The rows to learn from and those to judge on, fold by fold; each group is dealt by itself.

    Raises
    ------
    InvalidInput
        If a group has too few rows: it needs two in each fold.
    """
    least = int(groups.sizes.min())
    if folds not in range(2, least // 2 + 1):
        small = groups.labels[int(groups.sizes.argmin())]
        raise InvalidInput(
            f"Expected at least 2 folds, with 2 rows of each group in each; got {folds!r}, and "
            f"group {small!r} has {least} rows. Leave it out, or judge on new rows with judge."
        )
    fold = np.full(len(groups.member), -1)
    for i in range(len(groups)):
        rows = random.permutation(groups.rows(i))
        fold[rows] = np.arange(len(rows)) % folds
    for part in range(folds):
        yield np.flatnonzero((fold >= 0) & (fold != part)), np.flatnonzero(fold == part)
