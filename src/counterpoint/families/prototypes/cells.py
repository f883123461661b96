"""Unions in which one of many linear scores leads its rivals, and their search.

To lead a single rival j, the score i of a cell must gain its deficit at x. At an absolute cost that
takes at least ``deficit / rate``, where the rate is the most that a unit of cost gains, a dual
norm; under a quadratic one, the square of that. All cells are bounded by the rival that leads
at x. Only how much its row weighs is chosen by the search; what that proves is computed by
`CellRelaxation`, with bounds and whole steps.

The most promising cell is then solved with the rows of a few rivals, near x or in the way of cells
that were searched before; whatever rival its point does not lead is added, and so on. A relaxation
whose optimum leads all rivals is the cell; one that already costs more than what was reached says
enough. Regions are written down only where needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from types import SimpleNamespace
from typing import Any, NamedTuple, final, overload

import numpy as np

from counterpoint.families.prototypes.solvers.nearest import is_plain, nearest_point
from counterpoint.numerics import CLOSED, EPS, BoolArray, FloatArray, IntArray, Sizes, gamma
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

    There is one for each leader i, made when it is asked for: all of them together have as many
    rows as there are leaders times rivals. Both are named by their positions in the fields below.

    ``matrix``, ``offset``: (P, d) the rows A and (P,) b; ``leaders``: (S,) the scores i that may
    lead; ``rivals``: (R,) the scores j that none of them may let lead; ``safety_margin``: by how
    much, in score units; ``order``: (P,) of two equal scores the one of the lower order wins; None
    if it is not known which, or if a margin is asked for; ``place``: (P,) equal for scores that are
    the same everywhere, of which the leader's counts; ``units``: (d,) what each column is a
    multiple of, if ties are to be decided, see `LinearBounds.ties_resolved`.
    """

    matrix: FloatArray
    offset: FloatArray
    leaders: IntArray
    rivals: IntArray
    safety_margin: float
    order: IntArray | None
    place: IntArray
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

    def some(self, owners: slice) -> VoronoiCells:
        """Some of the regions, still not written down."""
        return replace(self, leaders=self.leaders[owners])

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

    def rows(self, s: int, rivals: IntArray) -> LinearBounds:
        """The rows of one region against some rivals, but those that are the same score."""
        i, j = self.leaders[s], self.rivals[rivals]
        j = j[self.place[j] != self.place[i]]
        high = self.offset[i] - self.offset[j] - self.safety_margin
        low, margin_coefficient, loses = np.full(len(j), -np.inf), np.ones(len(j)), np.zeros(len(j))
        if self.order is not None:
            loses = (self.order[j] < self.order[i]).astype(np.float64)
        rows = LinearBounds(self.matrix[j] - self.matrix[i], low, high, margin_coefficient, loses)
        return rows if self.units is None else rows.ties_resolved(self.units)

    def cuts(self, owners: slice | IntArray, rivals: IntArray, weights: FloatArray) -> Cut:
        """Normals (m, d) and offsets (m,): for each of m owners the weighed row against one rival.

        Every point y of an owner's region meets ``normal · y <= offset``, whatever rival and weight
        are: a weight that is negative, and a rival that is the same score, count as 0.
        """
        i, j = self.leaders[owners], self.rivals[rivals]
        weights = np.where(self.place[i] == self.place[j], 0.0, np.maximum(weights, 0.0))
        normal = self.matrix[j]
        normal -= self.matrix[i]
        normal *= weights[:, None]
        limit = self.offset[i] - self.offset[j] - self.safety_margin
        size = weights * (np.abs(self.offset[i]) + np.abs(self.offset[j]) + abs(self.safety_margin))
        return Cut(normal, weights * limit, weights[:, None], self._reach, 2, gamma(4) * size)

    @cached_property
    def _reach(self) -> FloatArray:
        """(1, d) how far apart two scores are at most in each column."""
        reach = self.matrix.max(axis=0) - self.matrix.min(axis=0)
        return np.asarray(reach * (1.0 + gamma(1)))[None]

    def missed(self, s: int, y: FloatArray, margin: FloatArray) -> IntArray:
        """Return the rivals whose rows a point misses, beyond rounding; the farthest ahead first.

        ``s``: the region; ``y``, ``margin``: (d,) the point; (2,) by how much rows are closed in,
        see `Batch`.
        """
        others = np.flatnonzero(self.place[self.rivals] != self.place[self.leaders[s]])
        rows = self.rows(s, others)
        excess = rows.matrix @ y - rows.limits(margin[None, :])[1][0]
        terms = np.abs(rows.matrix) @ np.abs(y) + np.abs(rows.high)
        missed = np.flatnonzero(excess > 8.0 * EPS * terms)
        return np.asarray(others[missed[np.argsort(-excess[missed], kind="stable")]])


@final
class OpenedCell(NamedTuple):
    """A cell that was searched with some of its rows."""

    cell: int
    rivals: IntArray  # positions of the rivals whose rows it was searched with
    evidence: Bounding

    def recorded(self) -> dict[str, Any]:
        """Return the entry of a record, with the proof in the form of any piece of a target."""
        (bound_proof,) = self.evidence.bound_proofs  # what is listed keeps its multipliers
        proof = proof_text.written(bound_proof)
        return {"cell": self.cell, "rivals": self.rivals.tolist(), "proof": proof}


@final
@dataclass(frozen=True, eq=False)
class CellRelaxation(Bounding):
    """Bounds for one row by one rival of each cell, and by what was learnt of opened cells.

    ``program``: the cost over what is possible, without the target; ``cells``: the target;
    ``rivals``, ``weights``: (S,) for each cell the position of any rival, and any weight of its
    row. A record holds the rivals alone: weights follow from them.
    """

    program: Program
    cells: VoronoiCells
    case: Batch
    rivals: IntArray
    weights: FloatArray
    opened: list[OpenedCell] = field(default_factory=list)

    @cached_property
    def spread(self) -> FloatArray | None:
        """(d, f) R with R Rᵀ the inverse of a full price's matrix over the columns that can move.

        None for other prices.
        """
        matrix, case = self.program.encoded_cost.quadratic, self.case
        if matrix.ndim == 1:
            return None
        columns = np.flatnonzero((case.low[0] < case.high[0]) & (np.diag(matrix) > 0.0))
        spread = np.zeros((len(matrix), len(columns)))
        spread[columns] = np.linalg.inv(np.linalg.cholesky(matrix[np.ix_(columns, columns)])).T
        return spread

    def weigh(self) -> None:
        """Set the weights to those that show how much it costs each cell to lead its rival."""
        for block in blocks(len(self.cells), self.program.width):
            positions = np.arange(block.start, block.stop)
            _, weights = self.least_costs(positions, self.rivals[block][:, None])
            self.weights[block] = weights[:, 0]

    @property
    def is_local(self) -> bool:
        return False

    @property
    def bound_proofs(self) -> Sequence[BoundProof]:
        """The rival of all cells but those in pairs of a cell and its rival; and opened cells."""
        (common,) = Counter(self.rivals.tolist()).most_common(1)
        exceptions = np.flatnonzero(self.rivals != common[0])
        pairs = np.column_stack([exceptions, self.rivals[exceptions]]).tolist()
        opened = [cell.recorded() for cell in self.opened]
        proof = SimpleNamespace(rival=common[0], rivals=pairs, cells=opened)
        return [BoundProof.without_multipliers(self.program, 1, family_proofs=[proof])]

    def bounds(self, reached: FloatArray) -> tuple[FloatArray, FloatArray]:
        proved = np.array(self.unrefuted)
        best = np.array(proved)
        for cell, _, evidence in self.opened:
            (bound,), (reported,) = evidence.bounds(reached)
            proved[cell], best[cell] = max(proved[cell], bound), max(best[cell], reported)
        if proved.min() < reached[0] * (1.0 - CLOSED):
            refuted = np.isposinf(self.each(float(reached[0])))
            proved[refuted] = best[refuted] = np.inf
        return proved.min(keepdims=True), best.min(keepdims=True)

    @cached_property
    def unrefuted(self) -> FloatArray:
        """(S,) lower bounds of each cell, of which none is refuted."""
        return self.each(0.0)

    def each(self, reached: float = np.inf) -> FloatArray:
        """(S,) lower bounds on the cost in each cell; infinite where there is no point of it.

        Only a cell whose bound is below what was ``reached`` needs to be refuted.
        """
        out = np.empty(len(self.cells))
        for block in blocks(len(out), self.program.width):
            out[block] = self._bounds_of(block, reached)
        return out

    def sharpen(self, positions: IntArray, rivals: IntArray) -> None:
        """Bound some cells by those of a few rivals that they cannot lead for less."""
        costs, weights = self.least_costs(positions, rivals)
        best = np.arange(len(costs)), costs.argmax(axis=1)
        better = costs[best] > self.unrefuted[positions]
        positions = positions[better]
        self.rivals[positions] = rivals[best[1]][better]
        self.weights[positions] = weights[best][better]
        self.unrefuted[positions] = self._bounds_of(positions, 0.0)

    def _bounds_of(self, positions: slice | IntArray, reached: float) -> FloatArray:
        """Lower bounds on the cost in some cells, see `each`."""
        cut = self.cells.cuts(positions, self.rivals[positions], self.weights[positions])
        at, duality = None, self.program.duality
        cases = self._repeated(len(cut.offset))
        if self.spread is not None:  # the least of the price, were there no bounds
            at = cases.x - 0.5 * (cut.normal @ self.spread) @ self.spread.T
        bound = duality.bound(cases, cut, Sizes(cut.weights, cut.normals, cut.roundings), at)
        doubtful = np.flatnonzero(bound < reached * (1.0 - CLOSED))
        if len(doubtful) and not cases.unbounded:
            refuted = duality.refutes(self._repeated(len(doubtful)), cut.take(doubtful))
            bound[doubtful[refuted]] = np.inf
        return bound

    def _repeated(self, count: int) -> Batch:
        """The row as often as that, without repeating anything in memory."""
        case = self.case
        arrays = (case.x, case.low, case.high, case.margin)
        return Batch(*(np.broadcast_to(row[0], (count, row.shape[1])) for row in arrays))

    @cached_property
    def start(self) -> FloatArray:
        """(d,) the row, moved between its bounds."""
        x, low, high = self.case.x[0], self.case.low[0], self.case.high[0]
        return np.where(self.program.domain.numeric, np.minimum(np.maximum(x, low), high), x)

    @cached_property
    def scores(self) -> FloatArray:
        """(P,) the scores there."""
        return np.asarray(self.cells.matrix @ self.start + self.cells.offset)

    def least_costs(self, cells: IntArray, rivals: IntArray) -> tuple[FloatArray, FloatArray]:
        """Bound the cost at which each of m cells leads each of k rivals, and give the multipliers.

        Both are of shape (m, k); the rivals are (k,), or (m, k) if they differ from cell to cell. A
        column that can move in a direction at all moves there without end.
        Where no change lets the cell lead, the cost is infinite and the multiplier 1.
        """
        low, high, encoded_cost = self.case.low[0], self.case.high[0], self.program.encoded_cost
        leaders, opponents = self.cells.leaders[cells][:, None], self.cells.rivals[rivals]
        deficit = self.scores[opponents] - self.scores[leaders] + self.cells.safety_margin
        deficit[self.cells.place[opponents] == self.cells.place[leaders]] = 0.0
        slope = self.cells.matrix[opponents] - self.cells.matrix[leaders]
        absolute, diagonal = encoded_cost.absolute, encoded_cost.diagonal
        effect, falls, rises = np.abs(slope), low < self.start, high > self.start
        if not (falls.all() and rises.all()):
            effect *= np.where(slope > 0.0, falls, rises)
        # Maximise the dual, weight · deficit − ¼ weight² · squares. Up to a weight of 1 / rate no
        # slope exceeds an absolute cost.
        squares, curved = np.zeros(deficit.shape), np.flatnonzero(diagonal)
        if self.spread is not None:
            squares = ((slope @ self.spread) ** 2).sum(axis=2)
        elif len(curved):
            squares = effect[:, :, curved] ** 2 @ (1.0 / diagonal[curved])
        linear = np.flatnonzero(absolute)
        rate = (effect[:, :, linear] / absolute[linear]).max(axis=2, initial=0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.minimum(2.0 * deficit / squares, 1.0 / rate)
            cost = weight * deficit - 0.25 * weight * weight * squares
        impossible = np.isinf(weight) & (deficit > 0.0)
        cost = np.where(impossible, np.inf, np.where(deficit > 0.0, cost, 0.0))
        return cost, np.where(impossible, 1.0, np.where(deficit > 0.0, weight, 0.0))


def blocks(count: int, width: int, numbers: int = 1 << 17) -> Iterator[slice]:
    """Slices of rows of so many numbers that stay in the cache."""
    size = max(16, numbers // max(width, 1))
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def search_cells(state: Incumbents, pieces: Union, _margins: object) -> list[RowEvidence]:
    """Search cells that are never all written down, row by row; return what bounds them."""
    program, cells = pieces.program, pieces.lazy
    assert isinstance(cells, VoronoiCells)  # noqa: S101 (the family's `SEARCHES` are asked by type)
    searches = [CellSearch(state, i, program, cells, case) for i, case in enumerate(state.cases)]
    return [RowEvidence([[search.run()] for search in searches])]


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
            (s,) = _positions([entry["cell"]], len(cells)).tolist()
            rivals = _positions(entry["rivals"], len(cells.rivals))
            piece = Subproblem.of(program, Region((cells.rows(s, rivals),)))
            (cell_proof,) = proof_text.read_proofs([entry["proof"]], [piece.program])
            evidence = Evidence.of_proof(piece.program, case, cell_proof)
            relaxation.opened.append(OpenedCell(s, rivals, evidence))
        relaxations.append([relaxation])
    return RowEvidence(relaxations)


def _positions(numbers: Sequence[Any], count: int) -> IntArray:
    """Positions among so many, as a record holds them; a ValueError if one is none."""
    if not all(type(number) is int and 0 <= number < count for number in numbers):
        raise ValueError("expected positions of cells and of their rivals")
    return np.array(numbers, dtype=np.intp)


@final
class CellSearch:
    """The search of one row: the most promising cell first, until no other can be cheaper.

    Before a cell is opened, it is bounded by the rivals that were in the way of others, with the
    next ones. Each cell may take half of the time that is left. What is learnt of cells is written
    into the relaxation.
    """

    def __init__(
        self, state: Incumbents, i: int, program: Program, cells: VoronoiCells, case: Batch
    ) -> None:
        self.state, self.row, self.program, self.cells = state, np.array([i]), program, cells
        self.case, self.end = case, perf_counter() + (state.effort.seconds or np.inf)
        rivals, weights = np.zeros(len(cells), dtype=np.intp), np.zeros(len(cells))
        self.relaxation = CellRelaxation(program, cells, case, rivals, weights)
        scores = self.relaxation.scores[cells.rivals]
        near = np.argpartition(-scores, min(16, len(scores)) - 1)[:16]
        # The rivals that cells are bounded and opened with: those that lead most, the first first.
        self.pool: list[int] = near[np.argsort(-scores[near], kind="stable")].tolist()
        rivals[:] = self.pool[0]
        self.relaxation.weigh()
        # (S,) lower bounds; infinite for a cell that is out of reach, or was searched
        self.bounds = np.array(self.relaxation.unrefuted)
        self.is_plain = is_plain(program)

    def _cutoff(self) -> float:
        """A cell with a bound from here on is not opened."""
        return float(self.state.cutoff()[self.row][0])

    def run(self) -> CellRelaxation:
        """Open cells until none can hold a cheaper point, or time is up."""
        compared = np.ones(len(self.cells), dtype=np.intp)  # with how many rivals of the pool
        while self.bounds[s := int(self.bounds.argmin())] < (cutoff := self._cutoff()):
            if perf_counter() > self.end:
                self.state.limited[self.row] = True
                break
            if compared[s] == len(self.pool) or np.isinf(cutoff):  # no bound excludes it yet
                self._open(s)
                self.bounds[s] = np.inf
                continue
            # A bound by the rivals that are new in the pool may exclude the cell for less; the
            # next cells that lack the same rivals are bounded with it, as many as a block holds.
            rivals = np.array(self.pool[compared[s] :])
            batch = np.flatnonzero((self.bounds < cutoff) & (compared == compared[s]))
            batch = batch[np.argsort(self.bounds[batch], kind="stable")]
            batch = batch[next(blocks(len(batch), len(rivals) * self.program.width))]
            self.relaxation.sharpen(batch, rivals)
            self.bounds[batch] = self.relaxation.unrefuted[batch]
            compared[batch] = len(self.pool)
        return self.relaxation

    def _open(self, s: int) -> None:
        """Search one cell with a few rivals of the pool, then with those that its point misses."""
        state, row, pool, relaxation = self.state, self.row, np.array(self.pool), self.relaxation
        (costs,), _ = relaxation.least_costs(np.array([s]), pool)
        dearest = pool[np.argsort(-costs, kind="stable")[:4]]
        rivals = sorted({*dearest.tolist(), int(relaxation.rivals[s])})
        bound, opened, before = -np.inf, relaxation.opened, len(relaxation.opened)
        while True:
            evidence, point = self._relaxed(s, np.array(rivals))
            if point is None and np.isinf(self._cutoff()):  # other cells may be empty as well
                self.bounds = np.maximum(self.bounds, relaxation.each())
            reached = state.objective[row] if point is None else np.zeros(1)
            best = float(evidence.bounds(reached)[1][0])
            if best > bound:
                bound, opened[before:] = best, [OpenedCell(s, np.array(rivals), evidence)]
            if point is None:
                return
            missed = self.cells.missed(s, point[0], self.case.margin[0]).tolist()
            missed = [rival for rival in missed if rival not in rivals][:8]
            if not missed:
                state.offer(s, row, point, self.program.objective(point, self.case))
            if not missed or state.limited[row[0]] or bound >= self._cutoff():
                return
            rivals += missed
            self.pool += [rival for rival in missed if rival not in self.pool]

    def _relaxed(self, s: int, rivals: IntArray) -> tuple[Bounding, FloatArray | None]:
        """Search a cell with some of its rows; return what bounds it, and its point (1, d), if any.

        Under a squared cost within bounds a small quadratic program settles it.
        """
        state, row, rows = self.state, self.row, self.cells.rows(s, rivals)
        piece = Subproblem.of(self.program, Region((rows,)))
        nearest = nearest_point(self.program, rows, self.case) if self.is_plain else None
        if nearest is not None:
            state.closed[row] = False
            (point, multipliers), none = nearest, np.zeros(1)
            cut = rows.cut(multipliers)
            sizes = Sizes(cut.weights, cut.normals, cut.roundings)
            proved = self.program.duality.bound(self.case, cut, sizes)
            return Evidence(piece.program, self.case, multipliers, None, none, proved=proved), point
        effort = state.effort
        if np.isfinite(self.end):
            effort = replace(effort, seconds=max(0.5 * (self.end - perf_counter()), 1e-6))
        solution = search_listed(Incumbents(self.case, effort, state.objective[row]), (piece,))
        state.limited[row] |= solution.limited
        state.closed[row] &= solution.closed
        (evidence,) = solution.evidence
        return evidence, solution.points if solution.piece[0] >= 0 else None
