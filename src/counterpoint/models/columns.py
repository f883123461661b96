"""Follow columns through a pipeline: each as a function of the raw features.

At every stage a column is either an affine function of the encoded features, or a `Lookup`: any
value, text included, for each category of one feature. Both are exact. A step that is affine
multiplies; any other step may be run on columns of categories (see
`counterpoint.models.transformers`). Of a step that bends numbers one by one, a family's reader
knows the curves: their outputs count as encoded columns that follow the features' own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from counterpoint.errors import InvalidInput, UnsupportedModel, is_number, shown
from counterpoint.models.form import AffineMap, Form, Magnitude, Operations
from counterpoint.numerics import MISSING, FloatArray
from counterpoint.rows.features import Categorical, Continuous, Features

NUMBERS = -2
"""The source of a column that depends on a number, or on several features."""

Curves = tuple[tuple[int, Any], ...]
"""(encoded column, curve) pairs; a curve is a number of ``outputs``, functions of the column."""

Lookup = tuple[int, NDArray[Any]]
"""A categorical feature's position, and (c,) a value of any type for each of its categories."""


@final
@dataclass(frozen=True)
class Fill:
    """The value that a step puts into the missing cells of a raw column, or why there is none."""

    # None if the step does not put one and the same value into all of them
    value: Hashable = None
    # None if a missing cell counts as ``value`` there; else why not, as the end of a sentence on
    # the column, and empty if the step puts nothing there at all
    why_not: str | None = None
    # whether the value is the step's own word and not one that the column held
    invented: bool = False


@final
@dataclass(frozen=True, eq=False)
class Columns:
    """The columns at one stage of a pipeline, as functions of the encoded features.

    Column j is ``matrix[j] · encoded + offset[j]``, unless it is in ``lookups``. The outputs of
    ``curves`` follow the encoded columns, d in all.
    """

    features: Features
    # (m, d) sparse, (m,), and the sizes of their terms, step by step
    matrix: Any
    offset: FloatArray
    sizes: Magnitude
    lookups: Mapping[int, Lookup]
    names: tuple[Hashable, ...] | None = None  # where they are still the raw ones
    where: str = ""  # the path of the step that is being read, as preprocess__num__scale
    steps: tuple[str, ...] = ()  # a line for each step that was read
    fixed: bool = True  # whether the user described the features, which readers must not change
    # feature → values that must not join its categories: an encoder would stop at them
    barred: Mapping[int, frozenset[Hashable]] = field(default_factory=dict)
    # (m,) the feature whose missing cells the column still has, -1 for none; only a column that is
    # passed on untouched has any: each other step notes in ``fills`` what becomes of them
    gaps: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    fills: Mapping[int, frozenset[Fill]] = field(default_factory=dict)  # by feature
    # one for each step that bends a number, of a family's own kind; and a function (form, curves)
    # that makes a form over the encoded columns of one over these and the outputs of the curves
    curves: Curves = ()
    lift: Callable[..., Form] | None = None
    straight: bool = False  # whether steps that bend a number are refused
    computed: Mapping[int, Operations] = field(default_factory=dict)  # see `AffineMap.computed`

    @classmethod
    def raw(cls, features: Features, **options: Any) -> Columns:
        """Return the raw columns: a number is an encoded column, a category is looked up."""
        m, numbers = len(features), np.flatnonzero(features.is_numeric)
        entries = np.ones(len(numbers)), (numbers, features.numeric_columns)
        matrix, offset = sparse.csr_array(entries, shape=(m, features.width)), np.zeros(m)
        lookups = {
            j: (j, column_of(feature.categories))
            for j, feature in enumerate(features)
            if isinstance(feature, Categorical)
        }
        options |= {"names": features.names, "gaps": np.arange(m)}
        return cls(features, matrix, offset, Magnitude(matrix, offset, 0), lookups, **options)

    @classmethod
    def inputs(cls, count: int) -> Columns:
        """Return the numeric inputs of a model that goes by position."""
        columns = cls.raw(Features(Continuous(f"x{j}") for j in range(count)))
        return replace(columns, names=None)

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def width(self) -> int:
        """The number d of encoded columns with the outputs of all curves."""
        return self.features.width + sum(curve.outputs for _, curve in self.curves)

    def lifted(self, form: Form) -> Form:
        """Rewrite a form over encoded columns and curves as one over the encoded columns."""
        return form if self.lift is None else self.lift(form, self.curves)

    # --- for the readers of steps, to build their results from ---

    def affine(self, matrix: Any, offset: ArrayLike = 0.0) -> Columns:
        """Return the columns ``matrix @ columns + offset``; (m', m) dense or sparse, and (m',)."""
        columns, matrix = self.seen().numbers(), sparse.csr_array(matrix)
        offset = np.broadcast_to(np.asarray(offset, dtype=np.float64), matrix.shape[:1])
        terms = int(np.diff(matrix.indptr).max(initial=0)) + 1  # the longest row, and the offset
        step = AffineMap(matrix, offset, magnitude=Magnitude(abs(matrix), np.abs(offset), terms))
        whole = step.through(AffineMap(columns.matrix, columns.offset, magnitude=columns.sizes))
        return replace(
            columns,
            matrix=whole.matrix,
            offset=whole.offset,
            sizes=whole.sizes,
            names=None,
            gaps=np.full(len(offset), -1),
            computed={},
        )

    def scaled(self, scale: ArrayLike, offset: ArrayLike = 0.0) -> Columns:
        """Return the columns ``scale * columns + offset``."""
        scale = np.broadcast_to(np.asarray(scale, dtype=np.float64), self.offset.shape)
        return self.affine(sparse.diags_array(scale), offset)

    def operated(self, *operations: tuple[str, FloatArray]) -> Columns:
        """Apply operations, such as ("subtract", means), with a number (m,) for each column.

        Outputs that increase with a raw number, and that only such operations lie between, have
        these in ``computed``. A step computes in float64 what came in float64, if all columns are
        numbers: an encoder may make its neighbours sparse or narrow, and the step then computes
        otherwise.
        """
        scale, offset = np.ones(len(self)), np.zeros(len(self))
        for name, operands in operations:
            if name in ("multiply", "divide"):
                factor = operands if name == "multiply" else 1.0 / operands
                scale, offset = scale * factor, offset * factor
            else:
                offset = offset + (operands if name == "add" else -operands)
        is_raw = self.names is not None
        in_float64 = is_raw or not (self.curves or (self.sources != NUMBERS).any())
        increasing = np.isfinite(scale) & (scale > 0.0) & np.isfinite(offset)
        computed = {}
        for j in np.flatnonzero(increasing & in_float64).tolist():
            before = self.computed.get(j, () if self._is_raw_number(j) else None)
            if before is not None:
                following = ((name, float(operands[j])) for name, operands in operations)
                computed[j] = (*before, *following)
        return replace(self.scaled(scale, offset), computed=computed)

    def _is_raw_number(self, j: int) -> bool:
        """Return whether column j holds a number as it came, never changed.

        The map alone does not tell: x · 2 / 2 is x. The sizes of its terms do.
        """
        feature, sizes = self.raw_feature(j), self.sizes
        unchanged = sizes.offset[j] == 0.0 and sparse.csr_array(sizes.matrix)[[j]].sum() == 1.0
        return feature is not None and bool(self.features.is_numeric[feature]) and bool(unchanged)

    def take(self, positions: Sequence[int] | NDArray[np.intp]) -> Columns:
        """Return the columns at these positions, in this order."""
        index = np.asarray(positions, dtype=np.intp)
        pairs = list(enumerate(index.tolist()))
        return replace(
            self,
            matrix=self.matrix[index],
            offset=self.offset[index],
            lookups={i: self.lookups[j] for i, j in pairs if j in self.lookups},
            names=None if self.names is None else tuple(self.names[j] for j in index),
            gaps=self.gaps[index],
            sizes=self.sizes.take(index),
            computed={i: self.computed[j] for i, j in pairs if j in self.computed},
        )

    def bent(self, curves: Curves, lift: Callable[..., Form] | None) -> Columns:
        """Return the same columns as functions of more curves, on which none depends yet."""
        blank = sparse.csr_array((len(self), sum(curve.outputs for _, curve in curves)))
        matrix, size = (sparse.hstack([m, blank]).tocsr() for m in (self.matrix, self.sizes.matrix))
        wider = replace(self, curves=self.curves + curves, lift=self.lift or lift, matrix=matrix)
        return replace(wider, sizes=replace(self.sizes, matrix=size))

    def numbers(self) -> Columns:
        """Turn every lookup, which must hold numbers, into coefficients of its block.

        A category is a block of columns of which one is 1, so a lookup of numbers is one row of the
        matrix, with its values at the columns of the block.
        """
        if not self.lookups:
            return self
        values = [self._floats(*lookup) for lookup in self.lookups.values()]
        blocks = [self.features.blocks[feature] for feature, _ in self.lookups.values()]
        rows = np.repeat(list(self.lookups), [len(numbers) for numbers in values])
        columns = np.concatenate([np.arange(block.start, block.stop) for block in blocks])
        entries = np.concatenate(values), (rows, columns)
        coefficients = sparse.csr_array(sparse.coo_array(entries, shape=self.matrix.shape))
        sizes = replace(self.sizes, matrix=self.sizes.matrix + abs(coefficients))
        matrix = sparse.csr_array(self.matrix + coefficients)
        return replace(self, matrix=matrix, lookups={}, sizes=sizes)

    def map(self) -> AffineMap:
        """Return the map from encoded points to these columns; dense up to 128 MiB."""
        columns = self.numbers()
        matrix, (rows, width) = columns.matrix, columns.matrix.shape
        computed = {  # such an output has one coefficient: that of its input
            j: (int(matrix[[j]].indices[0]), steps) for j, steps in columns.computed.items()
        }
        matrix = matrix.toarray() if rows * width <= 1 << 24 else matrix
        return AffineMap(matrix, columns.offset, magnitude=columns.sizes, computed=computed)

    @property
    def is_identity(self) -> bool:
        """Whether the columns are the encoded features themselves, in order."""
        rows, width = self.matrix.shape
        if self.lookups or rows != width or self.offset.any():
            return False
        return bool((self.matrix != sparse.eye_array(rows, format="csr")).nnz == 0)

    # --- dependence on features ---

    @cached_property
    def _owner(self) -> NDArray[np.intp]:
        """(d,) the feature of each encoded column, and of each output of a curve."""
        widths = [block.stop - block.start for block in self.features.blocks]
        owner = np.repeat(np.arange(len(widths)), widths)
        return np.concatenate([owner, *(np.repeat(owner[j], c.outputs) for j, c in self.curves)])

    @cached_property
    def sources(self) -> NDArray[np.intp]:
        """(m,): the one categorical feature a column depends on, or -1 if on none, or NUMBERS."""
        entries = self.matrix.tocoo()
        nonzero = entries.data != 0
        rows, owner = entries.coords[0][nonzero], self._owner[entries.coords[1][nonzero]]
        # the first and the last feature that each column depends on
        first, last = np.full(len(self), len(self.features)), np.full(len(self), -1)
        np.minimum.at(first, rows, owner)
        np.maximum.at(last, rows, owner)
        of_one_category = (first == last) & ~self.features.is_numeric[last]
        sources = np.where(of_one_category | (last == -1), last, NUMBERS)
        for j, (feature, _) in self.lookups.items():
            sources[j] = feature
        return sources

    def values(self, j: int) -> NDArray[Any]:
        """Return column j for each category of its source; (1,) if it is constant."""
        if j in self.lookups:
            return self.lookups[j][1]
        source = int(self.sources[j])
        if source == -1:
            return self.offset[[j]]
        row = self.matrix[[j]].toarray()[0]
        return np.asarray(row[self.features.blocks[source]] + self.offset[j])

    def raw_feature(self, j: int) -> int | None:
        """Return the position of the feature that column j holds unchanged, or None."""
        if j in self.lookups:
            position, values = self.lookups[j]
            feature = self.features.items[position]
            categories = feature.categories if isinstance(feature, Categorical) else ()
            return position if values.tolist() == list(categories) else None
        row = self.matrix[[j]]
        if row.nnz != 1 or row.data[0] != 1.0 or self.offset[j] != 0.0:
            return None
        if row.indices[0] >= self.features.width:  # the output of a curve
            return None
        position = int(self._owner[row.indices[0]])
        return position if self.features.is_numeric[position] else None

    # --- missing cells ---

    def filled(self, fills: Mapping[int, Fill]) -> Columns:
        """Note the fills of a step for missing cells (position → fill), so that none remain.

        A column that is not mentioned does not come out of the step at all.
        """
        merged = dict(self.fills)
        for j, fill in fills.items():
            feature = int(self.gaps[j])
            if feature >= 0:
                merged[feature] = merged.get(feature, frozenset()) | {fill}
        return replace(self, fills=merged, gaps=np.full(len(self), -1))

    def seen(self, *, missing: bool = False) -> Columns:
        """Note that a step took the columns as they are, missing cells included.

        ``missing`` says that the step is a model which takes missing numbers as missing.
        """
        gaps = np.flatnonzero(self.gaps >= 0).tolist()
        native = self.features.is_numeric[self.gaps] & missing
        fills = {j: Fill(value=MISSING) if native[j] else Fill(why_not="") for j in gaps}
        return self.filled(fills) if gaps else self

    def invented(self, feature: int) -> frozenset[Hashable]:
        """Return values that steps put where a feature is missing and that it may lack itself."""
        fills = self.fills.get(feature, frozenset())
        return frozenset(fill.value for fill in fills if fill.invented)

    # --- paths and messages ---

    def at(self, name: str) -> Columns:
        """Return the same columns inside a step."""
        return replace(self, where=f"{self.where}__{name}" if self.where else name)

    def noted(self, line: str) -> Columns:
        """Add a line to what was read."""
        return replace(self, steps=(*self.steps, f"{self.where}: {line}" if self.where else line))

    def refusal(self, step: object, reason: str) -> UnsupportedModel:
        """Make the error of a step that cannot be read; the reason says what to do."""
        name = place(step, self.where)
        return UnsupportedModel(f"{name[0].upper()}{name[1:]} cannot be read exactly: {reason}")

    def require_straight(self, step: object, after: Columns) -> None:
        """Refuse a step that made curves where none are taken."""
        if self.straight and len(after.curves) > len(self.curves):
            raise self.refusal(
                step,
                "it bins, clips (clip=True) or bends numbers. Apply it to the data before fitting, "
                "or use steps that are affine there.",
            )

    def label(self, j: int) -> str:
        """Name column j in a message."""
        source = self.raw_feature(j)
        if source is None:
            source = max(int(self.sources[j]), -1)
        return f"column {self.features.names[source]!r}" if source >= 0 else f"its input {j}"

    def _floats(self, feature: int, values: NDArray[Any]) -> FloatArray:
        """Convert the values of a lookup to numbers; an error names the first that is none."""
        listed, booleans = values.tolist(), bool | np.bool_
        bad = next((v for v in listed if not (is_number(v) or isinstance(v, booleans))), None)
        if bad is None:
            return np.array(listed, dtype=np.float64)
        name = self.features.names[feature]
        where = f"step {self.where!r}" if self.where else "the model"
        raise InvalidInput(
            f"Expected numbers where {where} takes column {name!r}; got the category {shown(bad)}. "
            "Give the column as the model got it when it was fitted, or put an encoder before it."
        )


def place(step: object, where: str) -> str:
    """Return a step's path and class, for a message."""
    kind = type(step).__name__
    return f"step {where!r} ({kind})" if where else kind


def column_of(values: Iterable[Any]) -> NDArray[Any]:
    """Make an array (c,) in the dtype of the values: booleans, numbers, or objects."""
    listed = list(values)
    are_bool = [isinstance(value, bool | np.bool_) for value in listed]
    if all(are_bool):
        return np.array(listed, dtype=bool)
    if not any(are_bool) and all(isinstance(value, int | float | np.number) for value in listed):
        return np.array(listed)
    out = np.empty(len(listed), dtype=object)
    out[:] = listed
    return out


def join(before: Columns, blocks: Sequence[Columns]) -> Columns:
    """Put blocks of columns side by side, as an output of a step that got ``before``."""
    blocks = _with_same_curves(before, list(blocks) or [before.take([])])
    lookups, computed, start = {}, {}, 0
    fills, steps = dict(before.fills), before.steps
    for block in blocks:
        lookups.update({start + j: lookup for j, lookup in block.lookups.items()})
        computed.update({start + j: operations for j, operations in block.computed.items()})
        start += len(block)
        steps += block.steps[len(before.steps) :]
        for feature, more_fills in block.fills.items():
            fills[feature] = fills.get(feature, frozenset()) | more_fills
    return replace(
        before,
        matrix=sparse.csr_array(sparse.vstack([block.matrix for block in blocks])),
        offset=np.concatenate([block.offset for block in blocks]),
        lookups=lookups,
        names=None,
        steps=steps,
        gaps=np.concatenate([block.gaps for block in blocks]),
        fills=fills,
        sizes=Magnitude.joined([block.sizes for block in blocks]),
        curves=blocks[0].curves,
        # Curves are of one family, whose ``lift`` works on all of them.
        lift=next((block.lift for block in blocks if block.lift is not None), None),
        computed=computed,
    )


def _with_same_curves(before: Columns, blocks: list[Columns]) -> list[Columns]:
    """Give all blocks the same curves: those of ``before``, then the new ones of each block.

    The coefficients of a block's own outputs move to where these are among all outputs.
    """
    new_curves = [block.curves[len(before.curves) :] for block in blocks]
    if not any(new_curves):
        return blocks
    curves = before.curves + tuple(chain(*new_curves))
    width = replace(before, curves=curves).width
    widened, start = [], before.width  # where the outputs of the next block begin
    for block in blocks:
        target = np.arange(block.width)
        target[before.width :] += start - before.width
        start += block.width - before.width
        entries = np.ones(block.width), (np.arange(block.width), target)
        move = sparse.csr_array(entries, shape=(block.width, width))
        sizes = replace(block.sizes, matrix=block.sizes.matrix @ move)
        widened.append(replace(block, matrix=block.matrix @ move, sizes=sizes, curves=curves))
    return widened
