"""Search unions of cells, in each of which one of many linear scores leads its rivals.

To lead a single rival j, the score i of a cell must gain its deficit at x. At an absolute cost that
takes at least ``deficit / rate``, where the rate is the most that a unit of cost gains, a dual
norm; under a quadratic one, the square of that. All cells are first bounded by the rival that leads
at x: one row each, of which the search chooses the multiplier. What the multiplier proves is
computed by `CellRelaxation`, with bounds and whole steps.

The most promising cell is then solved with the rows of a few rivals: those that lead at x, or that
points of other cells did not lead. Rivals that its own point does not lead are added, and so on.
The cell is settled when its point leads all rivals, for then the point is its optimum; or when the
relaxation costs as much as the best point so far. So of a cell with thousands of rows only a few
are ever written down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from types import SimpleNamespace
from typing import Any, NamedTuple, final, overload

import numpy as np

from counterpoint.families.prototypes.solvers.nearest import is_plain, nearest_point
from counterpoint.numerics import (
    CLOSED,
    EPS,
    BoolArray,
    FloatArray,
    IntArray,
    Sizes,
    gamma,
    row_blocks,
)
from counterpoint.programs import proof_text
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.evidence import Bounding, BoundProof, Evidence, RowEvidence
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch, Cut, LazyUnion, Region
from counterpoint.search.search import Incumbents, Subproblem, Union, search_listed


@final
@dataclass(frozen=True, eq=False)
class VoronoiCells(LazyUnion):
    """Regions in which a score leads: A_i y + b_i >= A_j y + b_j + margin for each rival j.

    There is one region, a cell, for each leader i, made when it is asked for: all of them together
    have as many rows as there are leaders times rivals. Methods name cells and rivals by their
    positions in ``leaders`` and in ``rivals``.
    """

    matrix: FloatArray  # (P, d) A
    offset: FloatArray  # (P,) b
    leaders: IntArray  # (S,) the scores i that may lead
    rivals: IntArray  # (R,) the scores j that none of them may let lead
    safety_margin: float  # in score units
    # (P,) of two equal scores the one of the lower order wins; None if it is not known which, or if
    # there is a margin, so that equal scores are not enough
    order: IntArray | None
    place: IntArray  # (P,) equal for scores that are the same everywhere; these are no rivals
    # (d,) what each column is a multiple of, if ties are resolved, see `LinearBounds`
    units: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.leaders)

    @overload
    def __getitem__(self, s: int) -> Region: ...
    @overload
    def __getitem__(self, s: slice) -> tuple[Region, ...]: ...
    def __getitem__(self, s: int | slice) -> Region | tuple[Region, ...]:
        if isinstance(s, slice):
            return tuple(self[k] for k in range(len(self))[s])
        return Region((self.rows(range(len(self))[s], np.arange(len(self.rivals))),))

    @property
    def size(self) -> int:
        """How many rows all regions have."""
        return len(self.leaders) * len(self.rivals)

    def some(self, which: slice) -> VoronoiCells:
        """Some of the regions, still not written down."""
        return replace(self, leaders=self.leaders[which])

    def ties_resolved(self, units: FloatArray) -> VoronoiCells:
        """The same regions with each tie decided, for points that are multiples of these units."""
        return replace(self, units=units)

    @property
    def has_ties(self) -> bool:
        """Whether some tie may be lost."""
        if self.order is None or not self.size:
            return False
        return bool(self.order[self.rivals].min() < self.order[self.leaders].max())

    @cached_property
    def moving(self) -> BoolArray:
        """(d,) which columns have an effect on who leads."""
        return np.asarray((self.matrix != self.matrix[0]).any(axis=0))

    def rows(self, cell: int, rivals: IntArray) -> LinearBounds:
        """Return the rows (A_j − A_i) y <= b_i − b_j − margin of a cell i against some rivals j.

        A rival that is the same score as i has none.
        """
        i, j = self.leaders[cell], self.rivals[rivals]
        j = j[self.place[j] != self.place[i]]
        high = self.offset[i] - self.offset[j] - self.safety_margin
        low, margin_coefficient = np.full(len(j), -np.inf), np.ones(len(j))
        tie_coefficient = np.zeros(len(j))
        if self.order is not None:
            tie_coefficient = (self.order[j] < self.order[i]).astype(np.float64)
        matrix = self.matrix[j] - self.matrix[i]
        rows = LinearBounds(matrix, low, high, margin_coefficient, tie_coefficient)
        return rows if self.units is None else rows.ties_resolved(self.units)

    def cuts(self, cells: slice | IntArray, rivals: IntArray, weights: FloatArray) -> Cut:
        """Return for each of m cells its row against one rival, times a weight, see `rows`.

        Every point y of a cell meets ``normal · y <= offset`` whatever its rival and its weight
        are: a weight that is negative, or of a rival that is the same score, counts as 0.
        """
        i, j = self.leaders[cells], self.rivals[rivals]
        weights = np.where(self.place[i] == self.place[j], 0.0, np.maximum(weights, 0.0))
        normal = self.matrix[j]  # a copy, which is changed in place: there may be thousands of rows
        normal -= self.matrix[i]
        normal *= weights[:, None]
        offset = weights * (self.offset[i] - self.offset[j] - self.safety_margin)
        size = weights * (np.abs(self.offset[i]) + np.abs(self.offset[j]) + abs(self.safety_margin))
        return Cut(normal, offset, weights[:, None], self._widest_row, 2, gamma(4) * size)

    @cached_property
    def _widest_row(self) -> FloatArray:
        """(1, d) at least |A_j − A_i| in each column, for all i and j."""
        difference = self.matrix.max(axis=0) - self.matrix.min(axis=0)
        return np.asarray(difference * (1.0 + gamma(1)))[None]

    def missed(self, cell: int, y: FloatArray, margin: FloatArray) -> IntArray:
        """Return the rivals that a point (d,) does not lead, beyond rounding; the worst ones first.

        Rows are tightened by the ``margin`` (2,), see `Batch`.
        """
        others = np.flatnonzero(self.place[self.rivals] != self.place[self.leaders[cell]])
        rows = self.rows(cell, others)
        excess = rows.matrix @ y - rows.limits(margin[None, :])[1][0]
        terms = np.abs(rows.matrix) @ np.abs(y) + np.abs(rows.high)
        missed = np.flatnonzero(excess > 8.0 * EPS * terms)
        return np.asarray(others[missed[np.argsort(-excess[missed], kind="stable")]])


@final
class OpenedCell(NamedTuple):
    """A cell that was searched with the rows of some rivals."""

    cell: int
    rivals: IntArray
    evidence: Bounding

    def recorded(self) -> dict[str, Any]:
        """Return the entry of a record, with the proof in the form of any piece of a target."""
        (bound_proof,) = self.evidence.bound_proofs  # what is listed keeps its multipliers
        proof = proof_text.written(bound_proof)
        return {"cell": self.cell, "rivals": self.rivals.tolist(), "proof": proof}


@final
@dataclass(frozen=True, eq=False)
class CellRelaxation(Bounding):
    """Lower bounds for one row: from one rival of each cell, and from the cells that were opened.

    Each cell is relaxed to its row against one rival, times a weight; the bounds hold whatever
    rivals and weights are. A record holds the rivals alone, since `weigh` finds the weights.
    """

    program: Program  # the cost over what is possible, without the target
    cells: VoronoiCells  # the target
    case: Batch  # the row
    rivals: IntArray  # (S,) a rival for each cell
    weights: FloatArray  # (S,) the weight of the cell's row against it
    opened: list[OpenedCell] = field(default_factory=list)

    @cached_property
    def inverse_root(self) -> FloatArray | None:
        """(d, f) R with R Rᵀ the inverse of a cost's full matrix over the f columns that can move.

        None if the cost has no full matrix.
        """
        matrix, case = self.program.encoded_cost.quadratic, self.case
        if matrix.ndim == 1:
            return None
        columns = np.flatnonzero((case.low[0] < case.high[0]) & (np.diag(matrix) > 0.0))
        root = np.zeros((len(matrix), len(columns)))
        root[columns] = np.linalg.inv(np.linalg.cholesky(matrix[np.ix_(columns, columns)])).T
        return root

    def weigh(self) -> None:
        """Set the weights to those that bound best what it costs each cell to lead its rival."""
        for block in row_blocks(len(self.cells), self.program.width):
            positions = np.arange(block.start, block.stop)
            _, weights = self.least_costs(positions, self.rivals[block][:, None])
            self.weights[block] = weights[:, 0]

    @property
    def is_local(self) -> bool:
        return False

    @property
    def bound_proofs(self) -> Sequence[BoundProof]:
        """Return one proof: the rival of most cells, the other cells' rivals, and opened cells."""
        (common,) = Counter(self.rivals.tolist()).most_common(1)
        exceptions = np.flatnonzero(self.rivals != common[0])
        pairs = np.column_stack([exceptions, self.rivals[exceptions]]).tolist()
        opened = [cell.recorded() for cell in self.opened]
        proof = SimpleNamespace(rival=common[0], rivals=pairs, cells=opened)
        return [BoundProof.without_multipliers(self.program, 1, family_proofs=[proof])]

    def bounds(self, incumbent: FloatArray) -> tuple[FloatArray, FloatArray]:
        proved, reported = np.array(self.unrefuted), np.array(self.unrefuted)
        for cell, _, evidence in self.opened:
            (cell_proved,), (cell_reported,) = evidence.bounds(incumbent)
            proved[cell] = max(proved[cell], cell_proved)
            reported[cell] = max(reported[cell], cell_reported)
        if proved.min() < incumbent[0] * (1.0 - CLOSED):
            is_empty = np.isposinf(self.cell_bounds(float(incumbent[0])))
            proved[is_empty] = reported[is_empty] = np.inf
        return proved.min(keepdims=True), reported.min(keepdims=True)

    @cached_property
    def unrefuted(self) -> FloatArray:
        """(S,) finite lower bounds on the cost in each cell; `sharpen` raises them."""
        return self.cell_bounds(0.0)

    def cell_bounds(self, incumbent: float = np.inf) -> FloatArray:
        """(S,) lower bounds on the cost in each cell; infinite where the cell is proved empty.

        To prove that takes longer, so it is tried only where the bound is below the
        ``incumbent``.
        """
        bounds = np.empty(len(self.cells))
        for block in row_blocks(len(bounds), self.program.width):
            bounds[block] = self._bounds_of(block, incumbent)
        return bounds

    def sharpen(self, positions: IntArray, rivals: IntArray) -> None:
        """Bound some cells anew, each by that of k rivals (k,) which costs it most to lead.

        A cell keeps its rival if none of these costs more.
        """
        costs, weights = self.least_costs(positions, rivals)
        dearest = np.arange(len(costs)), costs.argmax(axis=1)
        better = costs[dearest] > self.unrefuted[positions]
        positions = positions[better]
        self.rivals[positions] = rivals[dearest[1]][better]
        self.weights[positions] = weights[dearest][better]
        self.unrefuted[positions] = self._bounds_of(positions, 0.0)

    def _bounds_of(self, positions: slice | IntArray, incumbent: float) -> FloatArray:
        """Lower bounds on the cost in some cells, see `cell_bounds`."""
        cut = self.cells.cuts(positions, self.rivals[positions], self.weights[positions])
        tangent, duality = None, self.program.duality
        cases = self._repeated(len(cut.offset))
        if self.inverse_root is not None:  # bounds are sharp at the optimum; this is it if no
            # column meets its bound
            tangent = cases.x - 0.5 * (cut.normal @ self.inverse_root) @ self.inverse_root.T
        bound = duality.bound(cases, cut, Sizes(cut.weights, cut.normals, cut.roundings), tangent)
        undecided = np.flatnonzero(bound < incumbent * (1.0 - CLOSED))
        if len(undecided) and not cases.unbounded:
            refuted = duality.refutes(self._repeated(len(undecided)), cut.take(undecided))
            bound[undecided[refuted]] = np.inf
        return bound

    def _repeated(self, count: int) -> Batch:
        """The row ``count`` times, without repeating anything in memory."""
        case = self.case
        arrays = (case.x, case.low, case.high, case.margin)
        return Batch(*(np.broadcast_to(row[0], (count, row.shape[1])) for row in arrays))

    @cached_property
    def start(self) -> FloatArray:
        """(d,) the row, its numbers moved between their bounds."""
        x, low, high = self.case.x[0], self.case.low[0], self.case.high[0]
        return np.where(self.program.domain.numeric, np.minimum(np.maximum(x, low), high), x)

    @cached_property
    def scores(self) -> FloatArray:
        """(P,) the scores at the start."""
        return np.asarray(self.cells.matrix @ self.start + self.cells.offset)

    def least_costs(self, cells: IntArray, rivals: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return about the least cost at which m cells lead each of k rivals, and the weights.

        Both are of shape (m, k); the rivals are (k,), or (m, k) if they differ from cell to cell.
        The search goes by these costs, and proves nothing by them: a column that may rise or fall
        counts as free to do so without end, and steps do not count. Where no change lets the cell
        lead, the cost is infinite and the weight 1.
        """
        low, high, encoded_cost = self.case.low[0], self.case.high[0], self.program.encoded_cost
        leaders, opponents = self.cells.leaders[cells][:, None], self.cells.rivals[rivals]
        deficit = self.scores[opponents] - self.scores[leaders] + self.cells.safety_margin
        # A rival at the same place ties everywhere, and loses: other cells were left out.
        deficit[self.cells.place[opponents] == self.cells.place[leaders]] = 0.0
        slope = self.cells.matrix[opponents] - self.cells.matrix[leaders]
        absolute, diagonal = encoded_cost.absolute, encoded_cost.diagonal
        gain, may_fall, may_rise = np.abs(slope), low < self.start, high > self.start
        if not (may_fall.all() and may_rise.all()):
            gain *= np.where(slope > 0.0, may_fall, may_rise)
        # Lagrangian of cost(δ) subject to slope · δ <= −deficit: its least over δ, for a weight of
        # the row, is weight · deficit − ¼ weight² · squared_norm as long as weight · rate <= 1,
        # where rate and the root of squared_norm are dual norms of the slope. The best weight:
        squared_norm, squared = np.zeros(deficit.shape), np.flatnonzero(diagonal)
        if self.inverse_root is not None:
            squared_norm = ((slope @ self.inverse_root) ** 2).sum(axis=2)
        elif len(squared):
            squared_norm = gain[:, :, squared] ** 2 @ (1.0 / diagonal[squared])
        linear = np.flatnonzero(absolute)
        rate = (gain[:, :, linear] / absolute[linear]).max(axis=2, initial=0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.minimum(2.0 * deficit / squared_norm, 1.0 / rate)
            cost = weight * deficit - 0.25 * weight * weight * squared_norm
        impossible = np.isinf(weight) & (deficit > 0.0)
        cost = np.where(impossible, np.inf, np.where(deficit > 0.0, cost, 0.0))
        return cost, np.where(impossible, 1.0, np.where(deficit > 0.0, weight, 0.0))


def search_cells(incumbents: Incumbents, union: Union, _margins: object) -> list[RowEvidence]:
    """Search cells that are never all written down, row by row; return what bounds them."""
    program, cells = union.program, union.lazy
    assert isinstance(cells, VoronoiCells)  # noqa: S101 (the family's `SEARCHES` are asked by type)
    # one after the other: the time of a row begins with its own search
    rows = range(len(incumbents.cases))
    return [RowEvidence([[CellSearch(incumbents, i, program, cells).run()] for i in rows])]


def evidence_of(
    cells: VoronoiCells, program: Program, cases: Batch, bound_proof: BoundProof
) -> RowEvidence:
    """Read what `CellRelaxation.bound_proofs` wrote; raise a ValueError if it is no such proof."""
    relaxations, proofs = [], bound_proof.family_proofs or ()
    for case, proof in zip(cases, proofs, strict=True):
        if proof.keys() != {"rival", "rivals", "cells"}:
            raise ValueError("a proof of cells has one rival, other rivals, and cells")
        rivals = np.repeat(_positions([proof["rival"]], len(cells.rivals)), len(cells))
        for cell, rival in proof["rivals"]:
            rivals[_positions([cell], len(cells))] = _positions([rival], len(cells.rivals))
        relaxation = CellRelaxation(program, cells, case, rivals, np.zeros(len(cells)))
        relaxation.weigh()
        for entry in proof["cells"]:
            if entry.keys() != {"cell", "rivals", "proof"}:
                raise ValueError("a cell of a proof has rivals, and a proof")
            (cell,) = _positions([entry["cell"]], len(cells)).tolist()
            cell_rivals = _positions(entry["rivals"], len(cells.rivals))
            subproblem = Subproblem.of(program, Region((cells.rows(cell, cell_rivals),)))
            (cell_proof,) = proof_text.read_proofs([entry["proof"]], [subproblem.program])
            evidence = Evidence.of_proof(subproblem.program, case, cell_proof)
            relaxation.opened.append(OpenedCell(cell, cell_rivals, evidence))
        relaxations.append([relaxation])
    return RowEvidence(relaxations)


def _positions(numbers: Sequence[Any], count: int) -> IntArray:
    """Return positions below ``count`` as a record holds them; raise a ValueError for others."""
    if not all(type(number) is int and 0 <= number < count for number in numbers):
        raise ValueError("expected positions of cells and of their rivals")
    return np.array(numbers, dtype=np.intp)


@final
class CellSearch:
    """The search of one row: the most promising cell first, until no other can be cheaper.

    It keeps a pool of rivals: those that lead at the row, and those that points of opened cells did
    not lead. A cell is bounded by all rivals of the pool before it is opened, for that takes less
    time. What is learnt of cells is written into the relaxation.
    """

    def __init__(
        self, incumbents: Incumbents, i: int, program: Program, cells: VoronoiCells
    ) -> None:
        self.incumbents, self.row = incumbents, np.array([i])
        self.case = incumbents.cases.take(slice(i, i + 1))
        self.program, self.cells = program, cells
        self.end = perf_counter() + (incumbents.effort.seconds or np.inf)
        rivals, weights = np.zeros(len(cells), dtype=np.intp), np.zeros(len(cells))
        self.relaxation = CellRelaxation(program, cells, self.case, rivals, weights)
        # The pool begins with the 16 rivals of the largest scores, in their order. At first every
        # cell is bounded by the largest.
        scores = self.relaxation.scores[cells.rivals]
        leading = np.argpartition(-scores, min(16, len(scores)) - 1)[:16]
        self.pool: list[int] = leading[np.argsort(-scores[leading], kind="stable")].tolist()
        self.relaxation.rivals[:] = self.pool[0]
        self.relaxation.weigh()  # with the multipliers that bound best
        # (S,) lower bounds; infinite for a cell that is proved empty, or was opened
        self.bounds = np.array(self.relaxation.unrefuted)
        self.is_plain = is_plain(program)

    def _cutoff(self) -> float:
        """A cell with a bound from here on is not opened."""
        return float(self.incumbents.cutoff()[self.row][0])

    def run(self) -> CellRelaxation:
        """Open cells until none can hold a cheaper point, or time is up."""
        compared = np.ones(len(self.cells), dtype=np.intp)  # with the first so many of the pool
        while self.bounds[cell := int(self.bounds.argmin())] < (cutoff := self._cutoff()):
            if perf_counter() > self.end:
                self.incumbents.limited[self.row] = True
                break
            # No bound excluded the cell, or none can, for there is no point yet.
            if compared[cell] == len(self.pool) or np.isinf(cutoff):
                self._open(cell)
                self.bounds[cell] = np.inf
                continue
            # The rivals that are new in the pool may exclude the cell. The next cells that lack the
            # same rivals are bounded with it, as many as a block holds.
            rivals = np.array(self.pool[compared[cell] :])
            batch = np.flatnonzero((self.bounds < cutoff) & (compared == compared[cell]))
            batch = batch[np.argsort(self.bounds[batch], kind="stable")]
            batch = batch[next(row_blocks(len(batch), len(rivals) * self.program.width))]
            self.relaxation.sharpen(batch, rivals)
            self.bounds[batch] = self.relaxation.unrefuted[batch]
            compared[batch] = len(self.pool)
        return self.relaxation

    def _open(self, cell: int) -> None:
        """Search a cell with the rows of a few rivals, then of those that its point does not lead.

        It begins with those of the pool that cost most to lead. The evidence with the best bound is
        kept.
        """
        incumbents, row, relaxation = self.incumbents, self.row, self.relaxation
        pool, best_bound = np.array(self.pool), -np.inf
        (costs,), _ = relaxation.least_costs(np.array([cell]), pool)
        dearest = pool[np.argsort(-costs, kind="stable")[:4]]
        rivals = sorted({*dearest.tolist(), int(relaxation.rivals[cell])})
        entry = len(relaxation.opened)
        while True:
            evidence, point = self._relaxed(cell, np.array(rivals))
            if point is None and np.isinf(self._cutoff()):
                # As this cell is empty, others may be; those proved empty are not opened.
                self.bounds = np.maximum(self.bounds, relaxation.cell_bounds())
            # With a point the cell is not empty, so nothing has to be refuted.
            incumbent = incumbents.objective[row] if point is None else np.zeros(1)
            bound = float(evidence.bounds(incumbent)[1][0])
            if bound > best_bound:
                best_bound = bound
                relaxation.opened[entry:] = [OpenedCell(cell, np.array(rivals), evidence)]
            if point is None:
                return
            missed = self.cells.missed(cell, point[0], self.case.margin[0]).tolist()
            missed = [rival for rival in missed if rival not in rivals][:8]
            if not missed:
                incumbents.offer(cell, row, point, self.program.objective(point, self.case))
            if not missed or incumbents.limited[row[0]] or best_bound >= self._cutoff():
                return
            rivals += missed
            self.pool += [rival for rival in missed if rival not in self.pool]

    def _relaxed(self, cell: int, rivals: IntArray) -> tuple[Bounding, FloatArray | None]:
        """Search a cell with the rows of some rivals alone; return its evidence and point (1, d).

        The point is None if the cell is empty, or holds none that is cheaper than the incumbent. If
        the program is plain, the search is one small quadratic program; `search_listed` does the
        others, and those that are not solved.
        """
        incumbents, row, rows = self.incumbents, self.row, self.cells.rows(cell, rivals)
        subproblem = Subproblem.of(self.program, Region((rows,)))
        nearest = nearest_point(self.program, rows, self.case) if self.is_plain else None
        if nearest is not None:
            point, multipliers = nearest
            incumbents.closed[row] = False  # a solver has settled the row, not a closed form
            cut = rows.cut(multipliers)  # of all conditions: a plain program has no others
            sizes = Sizes(cut.weights, cut.normals, cut.roundings)
            proof = Evidence(
                subproblem.program,
                self.case,
                multipliers,
                at=None,
                reported=np.zeros(1),
                proved=self.program.duality.bound(self.case, cut, sizes),
            )
            return proof, point
        effort = incumbents.effort
        if np.isfinite(self.end):  # half of the time that is left
            effort = replace(effort, seconds=max(0.5 * (self.end - perf_counter()), 1e-6))
        cell_incumbents = Incumbents(self.case, effort, incumbents.objective[row])
        solution = search_listed(cell_incumbents, (subproblem,))
        incumbents.limited[row] |= solution.limited
        incumbents.closed[row] &= solution.closed
        (evidence,) = solution.evidence
        return evidence, solution.points if solution.piece[0] >= 0 else None
