"""Imputers: values pass as they are, and `Columns.fills` notes what a missing cell counts as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.impute import MissingIndicator, SimpleImputer

from counterpoint.models.columns import NUMBERS, Columns, Fill
from counterpoint.models.dispatch import on, trace
from counterpoint.models.form import Magnitude
from counterpoint.models.probe import by_running
from counterpoint.rows.features import is_missing

__all__: list[str] = []

DEPENDS = "the pipeline's fill for it depends on other columns"
INDICATED = "the model also looks at whether it is missing"

# The common base of SimpleImputer, KNNImputer and IterativeImputer is private, and importing the
# last needs an experimental switch that is not ours to turn on.
_Imputer: Any = SimpleImputer.__base__


@on(trace, _Imputer)
def _(imputer: Any, columns: Columns) -> Columns:
    fills = dict.fromkeys(range(len(columns)), Fill(why_not=DEPENDS))
    return _passing(imputer, columns, fills)


@on(trace, SimpleImputer)
def _(imputer: Any, columns: Columns) -> Columns:
    return _passing(imputer, columns, dict(_constants(imputer)))


@on(trace, MissingIndicator)
def _(indicator: Any, columns: Columns) -> Columns:
    seen = range(len(columns)) if indicator.error_on_new else indicator.features_.tolist()
    return _passing(indicator, columns, dict.fromkeys(seen, Fill(why_not=INDICATED)))


def _constants(imputer: Any) -> Iterator[tuple[int, Fill]]:
    """What a fitted imputer puts into each column; it drops a column for which it knows nothing."""
    indicated = set() if imputer.indicator_ is None else set(imputer.indicator_.features_.tolist())
    why_not = None if is_missing(imputer.missing_values) else ""
    invented = imputer.strategy == "constant"
    for j, value in enumerate(imputer.statistics_.tolist()):
        if not is_missing(value):
            yield j, Fill(value, INDICATED if j in indicated else why_not, invented)


def _passing(imputer: Any, columns: Columns, fills: Mapping[int, Fill]) -> Columns:
    """The columns after a step that does something about missing cells only."""
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
    after = _with_numbers(zero, columns, passed)
    return replace(after, fills=columns.filled(fills).fills)


def _with_numbers(after: Columns, before: Columns, passed: dict[int, int]) -> Columns:
    """The outputs that pass a column of numbers on get its coefficients."""
    if not passed:
        return after
    to, source = np.array(list(passed)), np.array(list(passed.values()))
    place = sparse.csr_array((np.ones(len(to)), (to, source)), (len(after), len(before)))
    offset = after.offset.copy()
    offset[to] = before.offset[source]
    own, held = after.magnitude, before.magnitude
    sizes = Magnitude(
        own.matrix + place @ held.matrix, own.offset + place @ held.offset, held.terms
    )
    matrix = sparse.csr_array(after.matrix + place @ before.matrix)
    return replace(after, matrix=matrix, offset=offset, sizes=sizes)
