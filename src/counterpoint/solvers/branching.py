"""Branch and bound over whole steps, categories and the number of changes, for any price and cone.

Every node is the program within narrower bounds. Its relaxation is solved by whichever solver takes
it; its lower bound is the *program's own*, recomputed from the multipliers with integrality taken
into account, and a node is closed as infeasible only if its multipliers refute it. Nodes are taken
in the order of their bounds, so the least open bound is always a bound on the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from time import perf_counter
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.cases import Cases
from counterpoint.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.errors import NoSolver
from counterpoint.programs import Program
from counterpoint.regions import (
    Affine,
    AtMost,
    Box,
    Cone,
    LogSumExp,
    OneOf,
    Transitions,
    Whole,
)
from counterpoint.solvers.base import Effort, Outcome, Prepared, Solution, Solver

__all__ = ["Branching"]

FloatArray = NDArray[np.float64]

INTEGRAL = (Whole, OneOf, AtMost)
DROPS = ((AtMost,), (Whole,), (AtMost, Whole), INTEGRAL)
"""What to relax, the least first; a solver of its own may take the rest."""
CLOSE = 1e-7
FEASIBLE = 1e-9
NODES = 20_000


@final
class Branching(Solver):
    """Best-first branch and bound around a solver for the relaxations.

    Parameters
    ----------
    choose
        The solver for a relaxed program, or None if there is none.
    """

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Mahalanobis, Box, Affine, Transitions, Cone, LogSumExp}
        | set(INTEGRAL)
    )
    accuracy: ClassVar[float] = 1e-7

    def __init__(self, choose: Callable[[Program], Solver | None]) -> None:
        self.choose = choose

    def takes(self, program: Program) -> bool:
        return program.kinds <= self.accepts and bool(program.kinds & set(INTEGRAL))

    def prepare(self, program: Program) -> Branchings:
        return Branchings(program, self.choose)


@final
@dataclass(frozen=True, eq=False)
class Branchings(Prepared):
    """A program and the prepared solver of its relaxation."""

    program: Program
    choose: Callable[[Program], Solver | None]

    @cached_property
    def relaxation(self) -> Prepared:
        """The solver of the program without as few of its integral conditions as need be."""
        for dropped in DROPS:
            relaxed = self.program.relaxed(*dropped)
            solver = self.choose(relaxed)
            if solver is not None:
                return solver.prepare(relaxed)
        raise NoSolver("Branch and bound found no solver for its relaxation.")

    @cached_property
    def convex(self) -> Prepared:
        """The solver of the program without any integral condition: its multipliers can refute."""
        relaxed = self.program.relaxed(*INTEGRAL)
        solver = self.choose(relaxed)
        return self.relaxation if solver is None else solver.prepare(relaxed)

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases), self.program)
        for i, case in enumerate(cases):
            ceiling = np.inf if cutoff is None else float(cutoff[i])
            tree = Tree(self.program, self.relaxation, case, effort, ceiling)
            tree.run()
            if tree.finds_nothing and not tree.proved:
                tree = Tree(self.program, self.convex, case, effort, ceiling)
                tree.run()
            tree.record(out, i)
        return out


@final
@dataclass(frozen=True, eq=False)
class Node:
    """The program within narrower bounds.

    Parameters
    ----------
    case
        One person with the node's bounds.
    point
        (d,) the answer of the relaxation.
    used
        Features that count as changed.
    """

    case: Cases
    point: FloatArray
    used: frozenset[int]


@final
class Tree:
    """One person's search tree."""

    def __init__(
        self,
        program: Program,
        relaxation: Prepared,
        case: Cases,
        effort: Effort,
        cutoff: float,
    ) -> None:
        self.program = program
        self.relaxation = relaxation
        self.effort = effort
        self.case = case
        self.best = cutoff
        self.point: FloatArray | None = None
        self.root = np.zeros(self.program.size)
        self.complete = True
        self.proved = True
        self._open: list[tuple[float, int, Node]] = []
        self._order = count()
        self._closed = np.inf
        self._end = perf_counter() + effort.seconds if effort.seconds else np.inf

    @property
    def bound(self) -> float:
        """The least bound of a node that is open, or was closed for not being cheaper."""
        return min([self._closed, *(node[0] for node in self._open[:1])])

    @property
    def finds_nothing(self) -> bool:
        """Whether every leaf was closed as infeasible."""
        exhausted = self.complete and not self._open and np.isinf(self._closed)
        return bool(exhausted and self.point is None)

    def run(self) -> None:
        """Search until nothing open can be cheaper, or time or nodes run out."""
        self._visit(self.case, frozenset(), 0.0)
        for visited in count(1):
            if not self._open or self._hopeless(self._open[0][0]):
                return
            if visited > NODES or perf_counter() > self._end:
                self.complete = False
                return
            bound, _, node = heappop(self._open)
            children = self._children(node)
            if not children:
                self._closed = min(self._closed, bound)
            for case, used in children:
                self._visit(case, used, bound)

    def _share(self) -> Effort:
        """The effort of one node: the time that is left."""
        left = self._end - perf_counter()
        return Effort(seconds=max(left, 1e-3) if np.isfinite(left) else None)

    def _hopeless(self, bound: float) -> bool:
        return bound >= self.best * (1.0 - 0.1 * self.effort.gap)

    def _visit(self, case: Cases, used: frozenset[int], parent: float) -> None:
        """Bound a node; keep it open, close it, or take its point as the best so far."""
        solution = self.relaxation.solve(case, self._share())
        multipliers = self.program.own_multipliers(solution.multipliers)
        if parent == 0.0 and not self._open and not self.root.any():
            self.root = multipliers[0]
        if solution.outcomes[0] == Outcome.INFEASIBLE:
            self.proved &= bool(self.program.refutes(case, multipliers)[0])
            return
        if not solution.found[0]:
            self.complete = False
            self._closed = min(self._closed, parent)
            return
        point = solution.points[0]
        bound = float(self.program.bound(case, multipliers, solution.points)[0])
        bound = max(parent, bound, float(solution.reported[0]))
        self._try(point, case)
        if self._hopeless(bound):
            self._closed = min(self._closed, bound)
            return
        heappush(self._open, (bound, next(self._order), Node(case, point, used)))

    def _try(self, point: FloatArray, case: Cases) -> None:
        """Round to a point of the region, let the other columns settle, keep it if cheaper."""
        low, high = self._rounded(point, case)
        fixed = case.within(low, high)
        if (fixed.low > fixed.high).any():
            return
        free = (fixed.low < fixed.high).any()
        candidate = fixed.low
        if free:
            solution = self.relaxation.solve(fixed, self._share())
            if not solution.found[0]:
                return
            candidate = np.minimum(np.maximum(solution.points, fixed.low), fixed.high)
        cost = float(self.program.cost(candidate, case.x)[0])
        if cost < self.best and self._meets(candidate, case):
            self.best, self.point = cost, candidate[0]

    def _meets(self, candidate: FloatArray, case: Cases) -> bool:
        if self.program.violation(candidate, case.x)[0] > FEASIBLE:
            return False
        low, high = self.program.affine.limits(case.margin)
        tightened = Affine(self.program.affine.matrix, low[0], high[0])
        return bool(tightened.violation(candidate, case.x)[0] <= FEASIBLE)

    def _rounded(self, point: FloatArray, case: Cases) -> tuple[FloatArray, FloatArray]:
        """Bounds that fix whole columns, categories and unchanged features."""
        program, x = self.program, case.x[0]
        low, high = np.full_like(case.x, -np.inf), np.full_like(case.x, np.inf)
        for column in np.flatnonzero(program.steps).tolist():
            step = program.steps[column]
            value = x[column] + np.round((point[column] - x[column]) / step) * step
            value = min(max(value, case.low[0, column]), case.high[0, column])
            low[0, column] = high[0, column] = value
        for group in program.groups:
            chosen = np.zeros(group.stop - group.start)
            permitted = case.high[0, group] > 0.5
            chosen[np.where(permitted, point[group], -1.0).argmax()] = 1.0
            low[0, group] = high[0, group] = chosen
        if program.at_most is not None:
            for block in self._least_moved(program.at_most, point, x):
                low[0, block] = high[0, block] = x[block]
        return low, high

    def _moves(self, at_most: AtMost, point: FloatArray, x: FloatArray) -> FloatArray:
        """(blocks,) how much each feature's change costs, alone."""
        moves = []
        for block in at_most.blocks:
            delta = np.zeros((1, len(x)))
            delta[0, block] = point[block] - x[block]
            moves.append(float(self.program.price(delta)[0]))
        return np.array(moves)

    def _least_moved(self, at_most: AtMost, point: FloatArray, x: FloatArray) -> list[slice]:
        order = np.argsort(-self._moves(at_most, point, x), kind="stable")
        return [at_most.blocks[b] for b in order[at_most.count :].tolist()]

    def _children(self, node: Node) -> list[tuple[Cases, frozenset[int]]]:
        """Two halves of a node, or none if its point is integral and hence its optimum."""
        return self._split_changes(node) or self._split_category(node) or self._split_whole(node)

    def _split_changes(self, node: Node) -> list[tuple[Cases, frozenset[int]]]:
        """A feature that moves: it stays, or it counts as changed (and then others must stay)."""
        at_most, x = self.program.at_most, node.case.x[0]
        if at_most is None:
            return []
        moves = self._moves(at_most, node.point, x)
        moving = moves > CLOSE * CLOSE * max(float(moves.sum()), 1e-300)
        if moving.sum() <= at_most.count:
            return []
        moves[list(node.used)] = -1.0
        feature = int(moves.argmax())
        if moves[feature] <= 0:
            return []
        stays = self._frozen(node.case, [at_most.blocks[feature]])
        used = node.used | {feature}
        changes = node.case
        if len(used) == at_most.count:
            others = [b for i, b in enumerate(at_most.blocks) if i not in used]
            changes = self._frozen(node.case, others)
        return [(stays, node.used), (changes, used)]

    @staticmethod
    def _frozen(case: Cases, blocks: list[slice]) -> Cases:
        low, high = np.array(case.low), np.array(case.high)
        for block in blocks:
            low[:, block] = np.maximum(low[:, block], case.x[:, block])
            high[:, block] = np.minimum(high[:, block], case.x[:, block])
        return Cases(case.x, low, high, case.margin)

    def _split_category(self, node: Node) -> list[tuple[Cases, frozenset[int]]]:
        """The most undecided group: its likeliest category, or any other."""
        split, worst = None, CLOSE
        for group in self.program.groups:
            undecided = 1.0 - float(node.point[group].max())
            if undecided > worst:
                split, worst = group, undecided
        if split is None:
            return []
        column = split.start + int(node.point[split].argmax())
        low, high = np.array(node.case.low), np.array(node.case.high)
        low[0, column] = 1.0
        high[0, split] = np.where(np.arange(split.start, split.stop) == column, high[0, split], 0.0)
        taken = Cases(node.case.x, low, high, node.case.margin)
        high = np.array(node.case.high)
        high[0, column] = 0.0
        other = Cases(node.case.x, node.case.low, high, node.case.margin)
        return [(taken, node.used), (other, node.used)]

    def _split_whole(self, node: Node) -> list[tuple[Cases, frozenset[int]]]:
        """The column furthest from a whole step: below it, or above."""
        steps, x = self.program.steps, node.case.x[0]
        whole = steps > 0
        if not whole.any():
            return []
        unit = np.where(whole, steps, 1.0)
        counts = (node.point - x) / unit
        off = np.where(whole, np.abs(counts - np.round(counts)), 0.0)
        column = int(off.argmax())
        if off[column] <= CLOSE:
            return []
        low, high = np.array(node.case.low), np.array(node.case.high)
        high[0, column] = x[column] + np.floor(counts[column]) * unit[column]
        below = Cases(node.case.x, node.case.low, high, node.case.margin)
        low[0, column] = x[column] + np.ceil(counts[column]) * unit[column]
        above = Cases(node.case.x, low, node.case.high, node.case.margin)
        return [(below, node.used), (above, node.used)]

    def record(self, out: Solution, i: int) -> None:
        """What the search says of its person."""
        out.multipliers[i] = self.root
        if self.point is not None:
            out.points[i] = self.point
            out.reported[i] = min(self.bound, self.best)
            out.outcomes[i] = Outcome.FOUND if self.complete else Outcome.LIMIT
        elif self.finds_nothing and self.proved:
            out.outcomes[i] = Outcome.INFEASIBLE
            out.reported[i] = np.inf
        else:
            out.reported[i] = self.bound if np.isfinite(self.bound) else 0.0
            out.outcomes[i] = Outcome.NOTHING if self.complete else Outcome.LIMIT
