"""Steps that are not affine, read by running them on every category.

A column of categories takes finitely many values, so a fitted step that works column by column is
known completely once it has been run on each: no option of an encoder needs to be understood, its
own ``transform`` answers. A step that mixes columns is known as well if all of them depend on one
feature, or if its output is a sum of parts of one feature each on every combination.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.errors import UnsupportedModel
from counterpoint.models.columns import NUMBERS, Columns, Lookup
from counterpoint.models.dispatch import quiet

__all__ = ["by_running", "run"]

FloatArray = NDArray[np.float64]
CHUNK = 1024  # rows that a step is run on at once
CHECKS = 64  # random rows that the sum of the parts is checked on, if a step is column by column
MOST_COMBINATIONS = 4096  # rows that it is checked on, if a step mixes columns: all there are


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
    probe = _Probe(step, columns, np.zeros(len(columns)) if held is None else held, method)
    numeric = np.flatnonzero(columns.sources == NUMBERS)
    if held is None and len(numeric):
        j = int(numeric[0])
        raise columns.refusal(
            step,
            f"it is not an affine function of numbers, and {columns.label(j)} holds numbers. "
            "Use an affine step (StandardScaler, MinMaxScaler, RobustScaler) there, or transform "
            "the column in the data before fitting.",
        )
    out = _assemble(probe)
    if len(probe.used) > 1:
        _check_sum(probe, out, _combinations(probe, mixes=mixes))
    return out


@final
@dataclass(frozen=True, eq=False)
class _Probe:
    """A step, and the rows to run it on."""

    step: Any
    columns: Columns
    held: FloatArray
    method: str

    @cached_property
    def used(self) -> list[int]:
        """The categorical features that the step sees."""
        return sorted({int(source) for source in self.columns.sources if source >= 0})

    def size(self, feature: int) -> int:
        """The number of its categories."""
        block = self.columns.features.blocks[feature]
        return block.stop - block.start

    @cached_property
    def _tables(self) -> list[NDArray[Any]]:
        sources = self.columns.sources
        return [
            self.held[[j]] if sources[j] == NUMBERS else self.columns.values(j)
            for j in range(len(self.columns))
        ]

    def run(self, codes: NDArray[np.intp]) -> NDArray[Any]:
        """(n, p) category codes → what the step makes of these rows."""
        sources = self.columns.sources
        cells = [
            table[codes[:, source]] if source >= 0 else np.repeat(table, len(codes))
            for table, source in zip(self._tables, sources.tolist(), strict=True)
        ]
        return run(self.step, _block(self.step, cells), self.columns, self.method)

    @cached_property
    def base(self) -> NDArray[Any]:
        """(m',): the output for the first category of every feature."""
        return np.asarray(self.run(self.codes(1))[0])

    def codes(self, rows: int) -> NDArray[np.intp]:
        return np.zeros((rows, len(self.columns.features)), dtype=np.intp)

    def varied(self, feature: int) -> Iterator[NDArray[Any]]:
        """The outputs for each category of one feature, in chunks of rows."""
        for start in range(0, self.size(feature), CHUNK):
            categories = np.arange(start, min(start + CHUNK, self.size(feature)))
            codes = self.codes(len(categories))
            codes[:, feature] = categories
            yield self.run(codes)


def _block(step: Any, cells: list[NDArray[Any]]) -> Any:
    """The cells as the step got its input when it was fitted: a frame with names, or an array."""
    known = [np.asarray(listed) for listed in getattr(step, "categories_", ())]
    if any(column.dtype == object for column in (*cells, *known)):
        cells = [column.astype(object) for column in cells]
    names = getattr(step, "feature_names_in_", None)
    if names is not None:
        import pandas as pd

        return pd.DataFrame(dict(zip(names, cells, strict=True)))
    return np.column_stack(cells)


def _assemble(probe: _Probe) -> Columns:
    """Each output from the runs: coefficients if all outputs are numbers, else lookups."""
    if not len(probe.columns):
        return replace(probe.columns, names=None)
    taken = probe.columns.seen()
    is_number = probe.base.dtype.kind in "biuf"
    parts = {feature: _Part.of(probe, feature) for feature in probe.used}
    count = sum((part.changed.astype(int) for part in parts.values()), np.zeros(len(probe.base)))
    columns = replace(
        taken,
        matrix=sparse.csr_array((len(probe.base), taken.features.width)),
        sizes=None,
        offset=np.zeros(len(probe.base)),
        gaps=np.full(len(probe.base), -1),
        lookups={},
        names=None,
    )
    if is_number:
        return _coefficients(columns, probe.base.astype(np.float64), parts, count)
    if (count > 1).any():
        raise probe.columns.refusal(probe.step, _NOT_A_SUM)
    lookups = {}
    for j in range(len(probe.base)):
        owner = next((f for f, part in parts.items() if part.changed[j]), None)
        if owner is not None:
            lookups[j] = Lookup(owner, parts[owner].outputs[:, j])
        elif isinstance(probe.base[j], int | float | np.number):
            columns.offset[j] = float(probe.base[j])
        elif probe.used:
            owner = probe.used[0]
            lookups[j] = Lookup(owner, np.full(probe.size(owner), probe.base[j], dtype=object))
    return replace(columns, lookups=lookups)


@final
@dataclass(frozen=True, eq=False)
class _Part:
    """What varying one feature does to the outputs."""

    changed: NDArray[np.bool_]
    outputs: Any  # (c, m'): sparse if numbers, else an object array

    @classmethod
    def of(cls, probe: _Probe, feature: int) -> _Part:
        changed = np.zeros(len(probe.base), dtype=bool)
        chunks: list[Any] = []
        for out in probe.varied(feature):
            if out.dtype.kind == "f" and not np.isfinite(out).all():
                at = int(np.flatnonzero(~np.isfinite(out).all(axis=1))[0]) + CHUNK * len(chunks)
                raise _no_number(probe, feature, at)
            changed |= np.asarray(out != probe.base).any(axis=0)
            is_number = out.dtype.kind in "biuf"
            chunks.append(sparse.csr_array(out.astype(np.float64)) if is_number else out)
        joined = sparse.vstack(chunks) if sparse.issparse(chunks[0]) else np.concatenate(chunks)
        return cls(changed, joined)


def _coefficients(
    columns: Columns, base: FloatArray, parts: dict[int, _Part], count: FloatArray
) -> Columns:
    """Outputs of one feature get their values as coefficients; of several, the differences."""
    offset = np.where(count == 1, 0.0, base)
    rows, cols, data = [], [], []
    for feature, part in parts.items():
        start = columns.features.blocks[feature].start
        outputs = sparse.csc_array(part.outputs)
        alone = np.flatnonzero(part.changed & (count == 1))
        several = np.flatnonzero(part.changed & (count > 1))
        entries = sparse.coo_array(outputs[:, alone])
        rows.append(alone[entries.coords[1]])
        cols.append(start + entries.coords[0])
        data.append(entries.data)
        differences = outputs[:, several].toarray() - base[several]
        at = np.nonzero(differences)
        rows.append(several[at[1]])
        cols.append(start + at[0])
        data.append(differences[at])
    if not rows:
        return replace(columns, offset=offset)
    entries = np.concatenate(data), (np.concatenate(rows), np.concatenate(cols))
    matrix = sparse.csr_array(sparse.coo_array(entries, shape=columns.matrix.shape))
    return replace(columns, matrix=matrix, offset=offset)


_NOT_A_SUM = (
    "its output mixes several features in a way that is no sum of one part for each. "
    "Apply it to the columns of one feature at a time, or leave it out."
)


def _combinations(probe: _Probe, *, mixes: bool) -> NDArray[np.intp]:
    """(n, p) codes to check a sum of parts on: all combinations, or random ones."""
    sizes = [probe.size(feature) for feature in probe.used]
    if not mixes:
        codes = probe.codes(CHECKS)
        rng = np.random.default_rng(0)
        codes[:, probe.used] = rng.integers(sizes, size=(CHECKS, len(sizes)))
        return codes
    if prod(sizes) > MOST_COMBINATIONS:
        raise probe.columns.refusal(probe.step, _NOT_A_SUM)
    codes = probe.codes(prod(sizes))
    codes[:, probe.used] = np.indices(sizes).reshape(len(sizes), -1).T
    return codes


def _check_sum(probe: _Probe, out: Columns, codes: NDArray[np.intp]) -> None:
    """On rows of these codes, the outputs are what the parts add up to."""
    found = probe.run(codes)
    encoded = np.zeros((len(codes), out.features.width))
    for feature in probe.used:
        start = out.features.blocks[feature].start
        encoded[np.arange(len(codes)), start + codes[:, feature]] = 1.0
    numbers = np.asarray(out.matrix @ encoded.T).T + out.offset
    size = np.asarray(abs(out.matrix) @ encoded.T).T + np.abs(out.offset)
    for j in range(len(out)):
        if j in out.lookups:
            lookup = out.lookups[j]
            good = bool(np.all(found[:, j] == lookup.values[codes[:, lookup.feature]]))
        else:
            off = np.abs(found[:, j].astype(np.float64) - numbers[:, j])
            good = bool(np.all(off <= 1e-9 * size[:, j] + 1e-12))
        if not good:
            raise probe.columns.refusal(probe.step, _NOT_A_SUM)


def _no_number(probe: _Probe, feature: int, category: int) -> UnsupportedModel:
    features = probe.columns.features
    name = features.names[feature]
    return probe.columns.refusal(
        probe.step,
        f"it gives no finite number for the category {features.describe(name, category)!r} of "
        f"column {name!r}. Let it encode that category as a number.",
    )
