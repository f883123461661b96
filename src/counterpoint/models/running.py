"""Steps that are not affine, read by running them on every category.

A column of categories takes finitely many values, so a fitted step that works column by column is
known completely once it has been run on each: no option of an encoder needs to be understood, its
own ``transform`` answers. A step that mixes columns is known as well if all of them depend on one
feature, or if its output is a sum of parts of one feature each on every combination.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.models.columns import NUMBERS, Columns, Lookup
from counterpoint.models.dispatch import quiet
from counterpoint.numerics import FloatArray, IntArray

__all__ = ["by_running", "run"]

Run = Callable[[IntArray], NDArray[Any]]
"""(n, p) category codes → (n, m') what a step makes of these rows."""
Parts = dict[int, tuple[NDArray[np.bool_], Any]]
"""Feature → the outputs that vary with it, and all outputs for each of its categories."""

CHUNK = 1024  # rows that a step is run on at once
CHECKS = 64  # random rows that the sum of the parts is checked on, if a step is column by column
MOST_COMBINATIONS = 4096  # rows that it is checked on, if a step mixes columns: all there are
NOT_A_SUM = (
    "its output mixes several features in a way that is no sum of one part for each. "
    "Apply it to the columns of one feature at a time, or leave it out."
)


def run(step: Any, rows: Any, columns: Columns, method: str = "transform") -> NDArray[Any]:
    """What a fitted step makes of rows, as a dense array, whatever container it returns.

    Raises
    ------
    UnsupportedModel
        If the step does not take the rows; its own error is the cause.
    """
    try:
        with quiet():
            out = getattr(step, method)(rows)
    except (ValueError, TypeError, KeyError, IndexError, NotImplementedError) as error:
        raise columns.refusal(
            step, f"it does not take the values that reach it ({error}). Check its input."
        ) from error
    out = out.toarray() if sparse.issparse(out) else np.asarray(out)
    return out[:, None] if out.ndim == 1 else out


def by_running(
    step: Any,
    columns: Columns,
    *,
    held: FloatArray | None = None,
    method: str = "transform",
    mixes: bool = False,
) -> Columns:
    """The columns after a step, by running it on every category of the features before it.

    Parameters
    ----------
    step
        A fitted transformer (or any object with ``method``).
    columns
        Its input; each must be constant or depend on one categorical feature.
    held
        (m,) values for columns that hold numbers, if the caller accounts for them.
    method
        Which method to run.
    mixes
        Whether an output may depend on several columns, so that a sum of parts must be seen on
        every combination of categories.

    Raises
    ------
    UnsupportedModel
        If a column holds numbers and ``held`` is None, or the output is no sum of parts.
    """
    if not len(columns):
        return replace(columns, names=None)
    sources = columns.sources
    numeric = np.flatnonzero(sources == NUMBERS)
    if held is None and len(numeric):
        raise columns.refusal(
            step,
            f"it is not an affine function of numbers, and {columns.label(int(numeric[0]))} holds "
            "numbers. Use an affine step (StandardScaler, MinMaxScaler, RobustScaler) there, or "
            "transform the column in the data before fitting.",
        )
    tables = [
        columns.values(j) if held is None or source != NUMBERS else held[[j]]
        for j, source in enumerate(sources.tolist())
    ]

    def ask(codes: IntArray) -> NDArray[Any]:
        cells = [
            table[codes[:, source]] if source >= 0 else np.repeat(table, len(codes))
            for table, source in zip(tables, sources.tolist(), strict=True)
        ]
        return run(step, _block(step, cells), columns, method)

    sizes = {f: _size(columns, f) for f in sorted(set(sources[sources >= 0].tolist()))}
    base = np.asarray(ask(np.zeros((1, len(columns.features)), dtype=np.intp))[0])
    parts = {feature: _varied(step, columns, ask, base, feature) for feature in sizes}
    out = _assembled(step, columns, base, parts)
    if len(sizes) > 1:
        codes = _combinations(sizes, len(columns.features), mixes=mixes)
        if codes is None or not _is_sum(out, codes, ask(codes), list(sizes)):
            raise columns.refusal(step, NOT_A_SUM)
    return out


def _size(columns: Columns, feature: int) -> int:
    """The number of a feature's categories."""
    block = columns.features.blocks[feature]
    return block.stop - block.start


def _block(step: Any, cells: list[NDArray[Any]]) -> Any:
    """The cells as the step got its input when it was fitted: a frame with names, or an array."""
    known = [np.asarray(listed) for listed in getattr(step, "categories_", ())]
    if any(column.dtype == object for column in (*cells, *known)):
        cells = [column.astype(object) for column in cells]
    names = getattr(step, "feature_names_in_", None)
    if names is None:
        return np.column_stack(cells)
    import pandas as pd

    return pd.DataFrame(dict(zip(names, cells, strict=True)))


def _varied(
    step: Any, columns: Columns, ask: Run, base: NDArray[Any], feature: int
) -> tuple[NDArray[np.bool_], Any]:
    """(m',) which outputs vary with a feature, and (c, m') all of them: sparse if numbers."""
    changed = np.zeros(len(base), dtype=bool)
    chunks: list[Any] = []
    count = _size(columns, feature)
    for start in range(0, count, CHUNK):
        categories = np.arange(start, min(start + CHUNK, count))
        codes = np.zeros((len(categories), len(columns.features)), dtype=np.intp)
        codes[:, feature] = categories
        out = ask(codes)
        if out.dtype.kind == "f" and not np.isfinite(out).all():
            category = start + int(np.flatnonzero(~np.isfinite(out).all(axis=1))[0])
            name = columns.features.names[feature]
            raise columns.refusal(
                step,
                "it gives no finite number for the category "
                f"{columns.features.describe(name, category)!r} of column {name!r}. "
                "Let it encode that category as a number.",
            )
        changed |= np.asarray(out != base).any(axis=0)
        is_number = out.dtype.kind in "biuf"
        chunks.append(sparse.csr_array(out.astype(np.float64)) if is_number else out)
    return changed, sparse.vstack(chunks) if sparse.issparse(chunks[0]) else np.concatenate(chunks)


def _assembled(step: Any, columns: Columns, base: NDArray[Any], parts: Parts) -> Columns:
    """Each output from the runs: coefficients if all outputs are numbers, else lookups."""
    m, taken = len(base), columns.seen()
    count = sum((changed.astype(int) for changed, _ in parts.values()), np.zeros(m))
    after = replace(
        taken,
        matrix=sparse.csr_array((m, taken.features.width)),
        sizes=None,
        offset=np.zeros(m),
        gaps=np.full(m, -1),
        lookups={},
        names=None,
    )
    if base.dtype.kind in "biuf":
        return _coefficients(after, base.astype(np.float64), parts, count)
    if (count > 1).any():
        raise columns.refusal(step, NOT_A_SUM)
    lookups = {}
    for j, value in enumerate(base):
        owner = next((f for f, (changed, _) in parts.items() if changed[j]), None)
        if owner is not None:
            lookups[j] = Lookup(owner, parts[owner][1][:, j])
        elif isinstance(value, int | float | np.number):
            after.offset[j] = float(value)
        elif parts:
            owner = next(iter(parts))
            lookups[j] = Lookup(owner, np.full(_size(columns, owner), value, dtype=object))
    return replace(after, lookups=lookups)


def _coefficients(
    after: Columns, base: FloatArray, parts: Parts, count: NDArray[np.float64]
) -> Columns:
    """Outputs of one feature get their values as coefficients; of several, the differences."""
    offset = np.where(count == 1, 0.0, base)
    rows, cols, data = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)], [np.zeros(0)]
    for feature, (changed, values) in parts.items():
        start = after.features.blocks[feature].start
        outputs = sparse.csc_array(values)
        alone, several = (
            np.flatnonzero(changed & (count == 1)),
            np.flatnonzero(changed & (count > 1)),
        )
        differences = sparse.coo_array(outputs[:, several].toarray() - base[several])
        for at, entries in ((alone, sparse.coo_array(outputs[:, alone])), (several, differences)):
            rows.append(at[entries.coords[1]])
            cols.append(start + entries.coords[0])
            data.append(entries.data)
    entries = np.concatenate(data), (np.concatenate(rows), np.concatenate(cols))
    matrix = sparse.csr_array(sparse.coo_array(entries, shape=after.matrix.shape))
    return replace(after, matrix=matrix, offset=offset)


def _combinations(sizes: dict[int, int], count: int, *, mixes: bool) -> IntArray | None:
    """(n, p) codes to check a sum of parts on: all combinations, or random ones; None: too many."""
    used, each = list(sizes), list(sizes.values())
    if mixes and prod(each) > MOST_COMBINATIONS:
        return None
    if mixes:
        some = np.indices(each).reshape(len(each), -1).T
    else:
        some = np.random.default_rng(0).integers(each, size=(CHECKS, len(each)))
    codes = np.zeros((len(some), count), dtype=np.intp)
    codes[:, used] = some
    return codes


def _is_sum(out: Columns, codes: IntArray, found: NDArray[Any], used: list[int]) -> bool:
    """Whether on rows of these codes, the outputs are what the parts add up to."""
    encoded = np.zeros((len(codes), out.features.width))
    for feature in used:
        encoded[np.arange(len(codes)), out.features.blocks[feature].start + codes[:, feature]] = 1.0
    told = [j for j in range(len(out)) if j not in out.lookups]
    looked = out.lookups.items()
    if any((found[:, j] != one.values[codes[:, one.feature]]).any() for j, one in looked):
        return False
    numbers = np.asarray(out.matrix @ encoded.T).T + out.offset
    size = np.asarray(abs(out.matrix) @ encoded.T).T + np.abs(out.offset)
    off = np.abs(found[:, told].astype(np.float64) - numbers[:, told])
    return bool((off <= 1e-9 * size[:, told] + 1e-12).all())
