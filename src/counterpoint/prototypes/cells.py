"""Unions in which one of many linear scores leads its rivals, written down only where needed.

And a glance at all of them: for each the one rival that bounds best what it costs from below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final, overload

import numpy as np

from counterpoint.certificate import CLOSED
from counterpoint.costs import Price
from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import LinearBounds
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cut, LazyUnion, Region
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray, Sizes, gamma

__all__ = ["Cells", "Glance", "Spread", "blocks"]

NUMBERS = 1 << 17
"""How many numbers to work on at a time, so that they stay in the cache."""


@final
@dataclass(frozen=True, eq=False)
class Spread:
    """A quadratic price over the (d,) columns that can move: how far a unit of its root reaches."""

    price: Price
    free: BoolArray

    @cached_property
    def columns(self) -> IntArray:
        """The columns that can move and whose price is quadratic."""
        return np.flatnonzero(self.free & (np.diag(self.price.quadratic) > 0.0))

    @cached_property
    def root(self) -> FloatArray:
        """(f, f) R with R Rᵀ the inverse of the price's matrix over these columns."""
        matrix = self.price.quadratic[np.ix_(self.columns, self.columns)]
        return np.asarray(np.linalg.inv(np.linalg.cholesky(matrix)).T)

    def furthest(self, normal: FloatArray) -> FloatArray:
        """(m, d) the changes δ with the least price + normal · δ, were there no bounds."""
        change = np.zeros(normal.shape)
        change[:, self.columns] = -0.5 * (normal[:, self.columns] @ self.root) @ self.root.T
        return change


@final
@dataclass(frozen=True, eq=False)
class Cells(LazyUnion):
    """Regions in which a score leads: A_i y + b_i >= A_j y + b_j + lead for each rival j.

    There is one for each owner i, made when it is asked for: all of them together have as many rows
    as there are owners times rivals. Owners and rivals are told by their positions in ``own`` and
    ``rivals``.

    ``matrix``, ``offset``: (P, d) the rows A and (P,) b; ``own``: (S,) the scores i that may lead;
    ``rivals``: (R,) the scores j that none of them may let lead; ``lead``: by how much, in score
    units; ``order``: (P,) of two equal scores the one of the lower order wins; None if it is not
    known which, or if a lead is asked for; ``place``: (P,) equal for scores that are the same
    everywhere, of which the owner's counts; ``units``: (d,) what each column is a multiple of, if
    ties are to be decided, see `LinearBounds.decided`.
    """

    matrix: FloatArray
    offset: FloatArray
    own: IntArray
    rivals: IntArray
    lead: float
    order: IntArray | None
    place: IntArray
    units: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.own)

    @overload
    def __getitem__(self, s: int) -> Region: ...
    @overload
    def __getitem__(self, s: slice) -> tuple[Region, ...]: ...
    def __getitem__(self, s: int | slice) -> Region | tuple[Region, ...]:
        if isinstance(s, slice):
            return tuple(self[k] for k in range(len(self))[s])
        s = range(len(self))[s]
        apart = self.place[self.rivals] != self.place[self.own[s]]
        return Region((self.rows(s, np.flatnonzero(apart)),))

    @property
    def size(self) -> int:
        """How many rows all regions have."""
        return len(self.own) * len(self.rivals)

    def some(self, owners: slice) -> Cells:
        """Some of the regions, still not written down."""
        return replace(self, own=self.own[owners])

    def decided(self, units: FloatArray) -> Cells:
        """The same regions with each tie decided, for points that are multiples of these units."""
        return replace(self, units=units)

    @property
    def has_ties(self) -> bool:
        """Whether some tie may be lost."""
        if self.order is None or not self.size:
            return False
        return bool(self.order[self.rivals].min() < self.order[self.own].max())

    @cached_property
    def moving(self) -> BoolArray:
        """(d,) which columns have an effect on who leads."""
        return np.asarray((self.matrix != self.matrix[0]).any(axis=0))

    def rows(self, s: int, rivals: IntArray) -> LinearBounds:
        """The rows of one region against some rivals."""
        i, j = self.own[s], self.rivals[rivals]
        high = self.offset[i] - self.offset[j] - self.lead
        low, tight, lost = np.full(len(j), -np.inf), np.ones(len(j)), np.zeros(len(j))
        if self.order is not None:
            lost = (self.order[j] < self.order[i]).astype(np.float64)
        rows = LinearBounds(self.matrix[j] - self.matrix[i], low, high, tight, lost)
        return rows if self.units is None else rows.decided(self.units)

    def cuts(self, owners: slice | IntArray, rivals: IntArray, weights: FloatArray) -> Cut:
        """Normals (m, d) and offsets (m,): for each of m owners the weighed row against one rival.

        Every point y of an owner's region meets ``normal · y <= offset``, whatever rival and weight
        are: a weight that is negative, and a rival that is the same score, count as 0.
        """
        i, j = self.own[owners], self.rivals[rivals]
        weights = np.where(self.place[i] == self.place[j], 0.0, np.maximum(weights, 0.0))
        normal = self.matrix[j]
        normal -= self.matrix[i]
        normal *= weights[:, None]
        limit = self.offset[i] - self.offset[j] - self.lead
        size = weights * (np.abs(self.offset[i]) + np.abs(self.offset[j]) + abs(self.lead))
        return Cut(normal, weights * limit, weights[:, None], self._reach, 2, gamma(4) * size)

    def scores(self, y: FloatArray) -> FloatArray:
        """(P,) the scores of one point."""
        return np.asarray(self.matrix @ y + self.offset)

    @cached_property
    def _reach(self) -> FloatArray:
        """(1, d) how far apart two scores are at most in each column."""
        reach = self.matrix.max(axis=0) - self.matrix.min(axis=0)
        return np.asarray(reach * (1.0 + gamma(1)))[None]

    @cached_property
    def _lengths(self) -> FloatArray:
        return np.sqrt(np.einsum("ij,ij->i", self.matrix, self.matrix))

    def missed(self, s: int, y: FloatArray, margin: FloatArray) -> IntArray:
        """The rivals whose rows a point misses, by more than rounding; the farthest ahead first.

        ``s``: the region; ``y``, ``margin``: (d,) the point; (2,) by how much rows are closed in,
        see `Cases`.
        """
        scores, i = self.scores(y), self.own[s]
        size = np.linalg.norm(y) * self._lengths + np.abs(self.offset)
        rounding = 2.0 * (len(y) + 4) * EPS * (size + size[i])
        ahead = (scores - scores[i] + self.lead + margin.sum() + rounding)[self.rivals]
        ahead[self.place[self.rivals] == self.place[i]] = -np.inf
        close = np.flatnonzero(ahead >= 0.0)
        rows = self.rows(s, close)
        terms = np.abs(rows.matrix) @ np.abs(y) + np.abs(rows.high)
        excess = rows.matrix @ y - rows.limits(margin[None, :])[1][0]
        missed = close[excess > 8.0 * EPS * terms]
        return np.asarray(missed[np.argsort(-ahead[missed], kind="stable")])


@final
@dataclass(frozen=True, eq=False)
class Glance:
    """One rival for each cell, and how much its row weighs: a bound without a search.

    ``program``: the cost over what is possible, without the target; ``cells``: the target;
    ``rivals``: (S,) positions among the rivals, any; ``weights``: (S,), any; negative ones count as
    0; ``spread``: what a full quadratic price means to the columns that the row can move; None
    for others.
    """

    program: Program
    cells: Cells
    case: Cases
    rivals: IntArray
    weights: FloatArray
    spread: Spread | None

    def closed_in(self, margin: FloatArray | None) -> Glance:
        """The same at points that lead by (1, 2) margins more."""
        if margin is None:
            return self
        lead = self.cells.lead + float(margin[0, 0])
        return replace(self, cells=replace(self.cells, lead=lead))

    def bounds(self, reached: float = np.inf) -> FloatArray:
        """(S,) lower bounds on the cost in each cell; infinite where there is no point of it.

        Only a cell whose bound is below what was ``reached`` needs to be refuted.
        """
        out = np.empty(len(self.cells))
        for part in blocks(len(self.cells), self.program.width):
            out[part] = self.weighed(part, self.rivals[part], self.weights[part], reached)
        return out

    def weighed(
        self, part: slice | IntArray, rivals: IntArray, weights: FloatArray, reached: float = np.inf
    ) -> FloatArray:
        """`bounds` of some cells by other rivals and weights."""
        rivals = np.clip(rivals, 0, len(self.cells.rivals) - 1)
        cut = self.cells.cuts(part, rivals, np.nan_to_num(weights, posinf=0.0))
        sizes = Sizes(cut.weights, cut.normals, cut.roundings)
        cases = self._repeated(len(rivals))
        at = None if self.spread is None else cases.x + self.spread.furthest(cut.normal)
        bound = self.program.duality.bound(cases, cut, sizes, at)
        doubtful = np.flatnonzero(bound < reached * (1.0 - CLOSED))
        if len(doubtful) and not cases.unbounded:
            some = cut.take(doubtful)
            refuted = self.program.duality.refutes(self._repeated(len(doubtful)), some)
            bound[doubtful[refuted]] = np.inf
        return bound

    def _repeated(self, count: int) -> Cases:
        """The row as often as that, without repeating anything in memory."""
        case = self.case
        parts = (case.x, case.low, case.high, case.margin)
        return Cases(*(np.broadcast_to(part[0], (count, part.shape[1])) for part in parts))


def blocks(count: int, width: int) -> Iterator[slice]:
    """Slices of rows of so many numbers that fit into the cache."""
    size = max(16, NUMBERS // max(width, 1))
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
