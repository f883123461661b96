"""Boxes of cells as a problem of branch and bound, one row and one set of demands at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.families.trees.boxes import RowCosts
from counterpoint.families.trees.form import LeafSums
from counterpoint.families.trees.leaf_bound import Exchange, LeafBound, OpenBox, State
from counterpoint.families.trees.proofs import (
    BoxProofs,
    Relations,
    needed,
    refuted,
    require_rows,
    without_trees,
)
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray, clock
from counterpoint.problem.costs import Manhattan, PercentileCost, SquaredEuclidean, TransitionCost
from counterpoint.programs import arrays
from counterpoint.programs.conditions import (
    INTEGRAL,
    Box,
    ChangeBounds,
    LinearBounds,
    MinimumChange,
    Transitions,
)
from counterpoint.programs.evidence import Bounding
from counterpoint.programs.proof import ProofTrees, SplitKind
from counterpoint.search.search import Incumbents, SafetyMargins, Union
from counterpoint.solvers import require_known
from counterpoint.solvers.branch_and_bound import (
    BranchingProblem,
    SearchTree,
    branch_and_bound,
)

ACCEPTS: frozenset[type] = frozenset(
    {Manhattan, SquaredEuclidean, TransitionCost, PercentileCost, Box, Transitions, LinearBounds}
).union({ChangeBounds, MinimumChange, LeafSums}, INTEGRAL)
"""The types of costs and conditions that boxes of cells know."""
NODES = 100_000
"""Boxes that are bounded for a row without a time limit; then its bound is the least open one."""
WITNESSES_AFTER = 1 << 24
"""Leaves of bounded boxes before witnesses are asked for: up to a second's work, and most rows need
no more. To look for witnesses takes half a second, for the model is asked."""
MOST_LEAVES = 1 << 25
"""Leaves of open boxes that are remembered: 256 MiB."""
WIDTH = 32
"""Boxes that are split together: NumPy's overhead is shared by twice as many parts."""


@final
class OpenBoxes(NamedTuple):
    """Boxes in an array, as `branch_and_bound` takes its nodes."""

    box: NDArray[np.object_]  # (m,) of `OpenBox`

    @classmethod
    def of(cls, boxes: Sequence[OpenBox]) -> OpenBoxes:
        """Return some boxes as an array."""
        out = np.empty(len(boxes), dtype=object)
        out[:] = boxes
        return cls(out)


@final
class BoxRecord(NamedTuple):
    """The parts of m boxes that their proof needs, see `OpenBox`."""

    split: IntArray  # (m, 3)
    multipliers: FloatArray  # (m, size)
    reported: FloatArray  # (m,)


@final
class BoxProblem(BranchingProblem[OpenBoxes]):
    """Boxes of cells of one row as a problem of branch and bound, with the best point so far.

    An answer meets each of r demands by at least what it ``needs`` (r,). It costs less than the
    ``cutoff``, and rows are written in a precision in which 1 + ``eps`` follows 1.
    """

    def __init__(
        self,
        row: RowCosts,
        condition: LeafSums,
        needs: FloatArray,
        cutoff: float,
        eps: float,
        relations: Relations | None,
    ) -> None:
        self.row, self.grid, self.condition, self.needs = row, row.grid, condition, needs
        self.relations, self.size, self.eps = relations, row.program.size, eps
        # (r, L) what leaves add to each demand
        self.values = np.ascontiguousarray(condition.weights @ row.grid.values.T)
        # Sums as they are added up here may be below the model's by their rounding error, so that
        # bounds ask for less by it; with a safety margin no sum is so near to 0. Sums of at least
        # ``goal`` meet the demands, unless by a tie that rounding hides: strict ones ask for more.
        tolerance = condition.tolerance * (not needs.any())
        least_needed = needs - tolerance
        goal = needs + condition.strict * (needs - least_needed)
        self.leaf_bound = LeafBound(row, condition, least_needed, self.values)
        self.exchange = Exchange(self.leaf_bound, goal, self.offer)
        self.gap, self.end = 0.0, np.inf  # set by `run`
        self.bounded_boxes, self.stored_leaves = 0, 0  # so far, and by open boxes
        self.all_leaves = np.arange(len(row.grid.tests))
        self.witnesses_after: float = WITNESSES_AFTER // len(self.all_leaves)  # bounded boxes
        # Witnesses (k, d) of the target by a point in time, for a long search; see `Incumbents`.
        self.incumbents: Callable[[float], FloatArray] = lambda _: np.empty((0, row.program.width))
        # The best point (d,) so far, its cost, and the same point where numbers have fewer digits.
        self.cost = cutoff
        self.point: FloatArray | None = None
        self.rounded_point: FloatArray | None = None
        self.reported = 0.0  # the bound as reported by solvers, with relations
        self._solved = set[bytes]()  # boxes around offered cells in which a solver has looked

    @property
    def cost_cutoff(self) -> float:
        """The cost from which on a box is of no use."""
        return self.cost * (1.0 - 0.5 * self.gap)

    @property
    def cutoff(self) -> FloatArray:
        return np.array([self.cost_cutoff])

    @property
    def exhausted(self) -> BoolArray:
        return np.array([self.is_over])

    @property
    def is_over(self) -> bool:
        """Whether the time is over, or without a limit the number of boxes to be bounded."""
        return clock() > self.end if self.end < np.inf else self.bounded_boxes > NODES

    def meets(self, leaves: IntArray) -> bool | None:
        """Return whether leaves, one of each tree, meet the demands; None if rounding decides."""
        if self.needs.any():  # a safety margin leaves no tie to rounding
            sums = self.values[:, leaves].sum(axis=1) + self.condition.shift
            return bool((sums >= self.needs).all())
        return self.condition.meets(self.grid.undivided[leaves])

    def offer(
        self,
        cells: IntArray,
        categories: IntArray,
        leaves: IntArray | None = None,
        *,
        doubtful: bool = False,
    ) -> None:
        """Make the cheapest point in cells the best one if it meets the demands and costs less.

        If rounding decides, a point is accepted only where ``doubtful``, for the model to confirm.
        """
        cost = self.row.cost_of(cells, categories)
        if not cost < self.cost:
            return
        satisfied = self.meets(self.row.leaves(cells, categories) if leaves is None else leaves)
        if not (doubtful if satisfied is None else satisfied):
            return
        if self.relations is None:
            point = self.row.point(cells, categories)
            if self.eps > EPS:  # rows are written in single precision
                self.rounded_point = self.row.point_in(cells, categories, self.eps)
        else:  # the cells' cheapest point may violate a relation, so a solver looks around it
            box = self.row.around(cells, categories)
            key = b"".join(ends.tobytes() for ends in box)
            if key in self._solved:
                return
            self._solved.add(key)
            point, _, _ = self.relations.cheapest(box, self.gap, self.eps)
            cost = self.relations.cost(point)
            if not cost < self.cost:
                return
        self.cost, self.point = cost, point

    def ask_for_witnesses(self) -> None:
        """Take witnesses as answers, and go on to better ones, for half of the remaining time."""
        now = clock()
        self.exchange.end = now + 0.5 * (self.end - now)
        for witness in self.incumbents(self.exchange.end):
            cells, categories = self.row.cells(witness)
            if self.meets(self.row.leaves(cells, categories)) is False:
                continue  # it meets another piece of the target
            if self.relations is None:  # the model gives it the target
                self.offer(cells, categories, doubtful=True)
            else:
                cost = self.relations.cost(witness)
                if cost < self.cost:
                    self.cost, self.point = cost, np.array(witness)
            self.exchange.greedy(cells, categories)
        self.exchange.end = np.inf

    # --- branch and bound ---

    def run(self, gap: float, end: float) -> tuple[ProofTrees, bool]:
        """Search until a time ``end`` by `clock`; return the proof, and whether the search was cut.

        If memory runs out, the best point so far stays, and nothing is proved.
        """
        self.gap, self.end = gap, end
        if self.row.root is None:
            return self.claim(np.inf), False
        nearest = self.row.costs(self.row.root)
        # An array of tests times boxes has 8 MiB at most. With relations, boxes go one by one: an
        # answer of the solver for one may close the next.
        width = 1 if self.relations else max(1, min(WIDTH, (1 << 20) // max(self.grid.pad, 1)))
        try:
            self.exchange.greedy(nearest.cells[0], nearest.categories[0])
            tree = branch_and_bound(self, width)
        except MemoryError:
            return self.claim(0.0), True
        proof, leaf = self.proof(tree), tree.children[:, 0] < 0
        if self.relations is not None:
            reported = np.maximum(tree.bound, tree.record.reported)[leaf]
            self.reported = min(self.cost_cutoff, float(reported.min()))
        return proof, self.end < np.inf and self.is_over

    def proof(self, tree: SearchTree) -> ProofTrees:
        """Return the proof of a search tree: its splits, and the multipliers of its leaves."""
        nodes = tree.by_level(np.zeros(1, dtype=np.intp))
        leaf = (tree.children[:, 0] < 0)[:, None]
        kind, feature, cell = np.where(leaf, SplitKind.LEAF, tree.record.split)[nodes].T
        multipliers = np.where(leaf, tree.record.multipliers, 0.0)[nodes]
        bound = min(self.cost_cutoff, float(tree.least[0]))
        return self.claim(bound)._replace(
            kind=kind,
            column=feature,
            value=cell.astype(np.float64),
            options=np.zeros((len(nodes), len(self.grid.category_group)), dtype=bool),
            multipliers=multipliers,
        )

    def claim(self, bound: float) -> ProofTrees:
        """Return the proof that is one leaf without multipliers, and claims a bound."""
        zero, vector = np.zeros(1, dtype=np.intp), np.zeros((1, self.size))
        options = np.zeros((1, len(self.grid.category_group)), dtype=bool)
        return ProofTrees(zero, np.array([bound]), zero, zero, np.zeros(1), options, vector)

    def roots(self) -> OpenBoxes:
        root = self.row.root
        assert root is not None  # noqa: S101 (asked before the search)
        return OpenBoxes.of([OpenBox(root, self.all_leaves, np.zeros(self.size))])

    def bound(self, nodes: OpenBoxes, row: IntArray) -> tuple[OpenBoxes, FloatArray]:
        if self.bounded_boxes >= self.witnesses_after:
            self.witnesses_after = np.inf  # once is enough
            self.ask_for_witnesses()
        self.bounded_boxes += len(row)
        boxes = self.leaf_bound.look(nodes.box.tolist(), self.cost_cutoff)
        for box in boxes:
            if box.meets and box.nearest is not None:
                self.offer(*box.nearest, box.path)
        count = sum(len(box.leaves) for box in boxes)
        if self.stored_leaves + count > MOST_LEAVES:  # they are found again when a box is split
            boxes, count = [replace(box, leaves=self.all_leaves) for box in boxes], 0
        self.stored_leaves += count
        boxes = [self._with_split(self._related(box)) for box in boxes]
        return OpenBoxes.of(boxes), np.array([box.bound for box in boxes])

    def record(self, nodes: OpenBoxes) -> BoxRecord:
        boxes = nodes.box.tolist()
        return BoxRecord(
            np.array([box.split for box in boxes], dtype=np.intp).reshape(len(boxes), 3),
            np.array([box.multipliers for box in boxes]).reshape(len(boxes), self.size),
            np.array([box.reported for box in boxes]),
        )

    def split(self, nodes: OpenBoxes, row: IntArray) -> tuple[OpenBoxes, OpenBoxes, BoolArray]:
        boxes: list[OpenBox] = nodes.box.tolist()
        splits = np.array([box.split for box in boxes], dtype=np.intp).reshape(len(boxes), 3)
        self.stored_leaves -= sum(len(b.leaves) for b in boxes if b.leaves is not self.all_leaves)
        sides = []
        for halves in arrays.stacked([box.box for box in boxes]).halves(self.grid, splits):
            children = []
            for k, box in enumerate(boxes):
                half = arrays.pick(halves, slice(k, k + 1))
                child = OpenBox(half, box.leaves, box.multipliers, box.bound)
                if box.cheapest is not None and half.hold(*box.cheapest):
                    child = replace(child, cheapest=box.cheapest, reported=box.reported)
                children.append(child)
            sides.append(OpenBoxes.of(children))
        return sides[0], sides[1], splits[:, 0] > 0

    def _related(self, box: OpenBox) -> OpenBox:
        """Return a box with the cells of its cheapest point that keeps the relations, and a bound.

        The multipliers of that point bound the box by themselves. Boxes that are closed, or have
        the cheapest point of their parent, stay as they are.
        """
        relations = self.relations
        if relations is None or box.cheapest is not None or box.bound >= self.cost_cutoff:
            return box
        point, multipliers, reported = relations.cheapest(box.box, self.gap)
        self.bounded_boxes += WIDTH  # the solver's work counts as that of so many boxes
        cheapest = box.nearest
        if not np.isnan(point).any():
            cheapest = relations.cells(point, box.box)
            self.offer(*cheapest)
        bound = relations.bound(box.box, multipliers)
        if bound > box.bound:
            box = replace(box, multipliers=multipliers, bound=bound)
        return replace(box, cheapest=cheapest, reported=reported)

    def _with_split(self, box: OpenBox) -> OpenBox:
        """Return an open box with its split.

        `LeafBound` splits for demands that the nearest point misses. Where it does not miss any,
        but the box is still open, that point violates a relation or ties with another class. If
        there is no split for that either, the box is refuted, or its nearest point is an answer if
        the model says so.
        """
        if box.bound >= self.cost_cutoff or box.path is None or box.nearest is None:
            return box  # closed
        split, is_closed_by_solver = box.split, box.reported >= self.cost_cutoff
        if box.cheapest is not None and self.meets(box.path) is not False:
            split = self._toward(box, box.nearest, box.cheapest)
        elif not split[0] and not is_closed_by_solver:
            split = self._from_tie(box, box.path)
        if not split[0] and not is_closed_by_solver:
            if refuted(self.condition, self.grid, box.leaves):
                return replace(box, split=(0, 0, 0), bound=np.inf)
            sums = self.values[:, box.path].sum(axis=1) + self.condition.shift
            if (sums >= -self.condition.tolerance).all() and not self.needs.any():
                self.offer(*(box.cheapest or box.nearest), doubtful=True)
        return replace(box, split=split)

    def _toward(self, box: OpenBox, nearest: State, cheapest: State) -> tuple[int, int, int]:
        """Return a split that separates the nearest cells from those of the cheapest point.

        The nearest cells meet the demands, but no point of theirs keeps the relations so cheaply.
        If all numbers are in the same cells, a set is split, one that separates the categories if
        there is any; and if no set is left, the number with the most cells.
        """
        (cells, categories), grid = cheapest, self.grid
        distance = np.abs(cells - nearest[0])
        if distance.any():
            f = int(distance.argmax())
            return SplitKind.NUMBER, f, int(cells[f] + nearest[0][f] + 1) // 2
        among, all_sets = box.box.among[0], np.arange(len(grid.sets))
        in_set = grid.sets[all_sets, categories[grid.set_group]]
        separates = in_set != grid.sets[all_sets, nearest[1][grid.set_group]]
        has_parts = (grid.sets & among).any(axis=1) & (grid.failing(all_sets) & among).any(axis=1)
        sets = np.flatnonzero(has_parts)
        if len(sets):
            return SplitKind.SET, int(sets[np.argsort(~separates[sets], kind="stable")[0]]), 0
        width = box.box.high[0] - box.box.low[0]
        if not width.any():
            return 0, 0, 0
        f = int(width.argmax())
        return SplitKind.NUMBER, f, int(box.box.low[0, f] + box.box.high[0, f] + 1) // 2

    def _from_tie(self, box: OpenBox, path: IntArray) -> tuple[int, int, int]:
        """Return a split that separates the nearest point, which ties with another class.

        It takes the first test of the point's leaves (``path``) that the whole box does not pass.
        There is none if the point is no such tie, or if all of the box is refuted.
        """
        grid, row, cells = self.grid, self.row, box.box
        if not refuted(self.condition, grid, path) or refuted(self.condition, grid, box.leaves):
            return 0, 0, 0
        number_tests, set_tests = grid.by_kind(np.unique(grid.tests[path]))
        f, first, last = (
            of_tests[number_tests] for of_tests in (grid.test_number, row.test_low, row.test_high)
        )
        for k in np.flatnonzero(first > cells.low[0, f]).tolist():  # cells below the test's first
            return SplitKind.NUMBER, int(f[k]), int(first[k])
        for k in np.flatnonzero(last < cells.high[0, f]).tolist():  # cells above its last
            return SplitKind.NUMBER, int(f[k]), int(row.next_cell[grid.starts[f[k]] + last[k] + 1])
        fails = (cells.among[0] & grid.failing(set_tests)).any(axis=1)  # some category of the box
        for k in np.flatnonzero(fails).tolist():
            return SplitKind.SET, int(set_tests[k]), 0
        return 0, 0, 0


def search_trees(result: Incumbents, pieces: Union, _: SafetyMargins | None) -> Sequence[Bounding]:
    """Search a union whose pieces are demands on sums over leaves, row by row."""
    evidence = []
    for s, piece in enumerate(pieces.listed):
        program, cases = piece.program, piece.narrowed(result.cases)
        condition = next(c for c in program.region if isinstance(c, LeafSums))
        require_rows(program)
        require_known(program, ACCEPTS)
        seconds = result.effort.shared(len(pieces.listed)).seconds
        proofs, reported = list[ProofTrees](), np.zeros(len(cases))
        subproblem = without_trees(program) if program.size else None
        for i, case in enumerate(cases):
            # the proof takes the remaining fifth of the time
            end = np.inf if seconds is None else clock() + 0.8 * seconds
            row = RowCosts(condition.form.grid(program.domain.groups, case.x[0]), program, case)
            problem = BoxProblem(
                row,
                condition,
                needed(condition, case.margin[0]),
                cutoff=float(result.objective[i]),
                eps=result.effort.eps,
                relations=None if subproblem is None else Relations(row, subproblem),
            )
            problem.incumbents = partial(result.starting_points, i)
            proof, limited = problem.run(result.effort.gap, end)
            result.limited[i] |= limited
            proofs.append(proof._replace(row=np.array([i])))
            reported[i] = problem.reported
            if problem.point is not None:
                y = problem.point[None, :]
                result.offer(s, np.array([i]), y, program.objective(y, case))
                if problem.rounded_point is not None and result.piece[i] == s:
                    result.rounded_points[i] = problem.rounded_point
        evidence.append(BoxProofs(program, condition, cases, proofs, reported))
    return evidence
