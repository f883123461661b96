"""Imputers: rows to explain have no missing cells, so an imputer passes values on as they are."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.impute import MissingIndicator, SimpleImputer

from counterpoint.features import is_missing
from counterpoint.readers.columns import NUMBERS, Columns
from counterpoint.readers.dispatch import on, trace
from counterpoint.readers.probe import by_running

__all__: list[str] = []

# The common base of SimpleImputer, KNNImputer and IterativeImputer is private, and importing the
# last needs an experimental switch that is not ours to turn on.
_Imputer: Any = SimpleImputer.__base__


@on(trace, _Imputer, MissingIndicator)
def _(imputer: Any, columns: Columns) -> Columns:
    numeric = np.flatnonzero(columns.sources == NUMBERS)
    if len(numeric) and not is_missing(imputer.missing_values):
        raise columns.refusal(
            imputer,
            f"it replaces the number {imputer.missing_values!r}, which is no affine function of "
            f"{columns.label(int(numeric[0]))}. Mark missing cells as NaN instead.",
        )
    rng = np.random.default_rng(0)
    held = np.zeros((3, len(columns)))
    held[1:, numeric] = rng.permutation(2 * len(numeric)).reshape(2, -1) + 0.5
    zero, one, two = (by_running(imputer, columns, held=row) for row in held)
    passed = {}
    for j in np.flatnonzero((one.offset != zero.offset) | (two.offset != zero.offset)).tolist():
        same = (held[1] == one.offset[j]) & (held[2] == two.offset[j])
        if not same.any():
            raise columns.refusal(
                imputer,
                "it changes numbers that are not missing. Impute in the data before fitting.",
            )
        passed[j] = int(same.argmax())
    return replace(_with_numbers(zero, columns, passed), barred=_fills(imputer, columns))


def _with_numbers(after: Columns, before: Columns, passed: dict[int, int]) -> Columns:
    """The outputs that pass a column of numbers on get its coefficients."""
    if not passed:
        return after
    to, source = np.array(list(passed)), np.array(list(passed.values()))
    place = sparse.csr_array((np.ones(len(to)), (to, source)), (len(after), len(before)))
    offset = after.offset.copy()
    offset[to] = before.offset[source]
    return replace(
        after, matrix=sparse.csr_array(after.matrix + place @ before.matrix), offset=offset
    )


def _fills(imputer: Any, columns: Columns) -> dict[int, frozenset[Hashable]]:
    """What a constant imputer puts for missing cells is no category that an answer may choose."""
    barred = dict(columns.barred)
    if getattr(imputer, "strategy", None) != "constant":
        return barred
    for j, fill in enumerate(imputer.statistics_.tolist()):
        at = columns.raw_feature(j)
        if at is not None and not is_missing(fill):
            barred[at] = barred.get(at, frozenset()) | {fill}
    return barred
