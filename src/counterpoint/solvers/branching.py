"""Branch and bound over whole steps, categories and the number of changes, for any price and cone.

Every node is the program within narrower bounds. Its relaxation is solved by whichever solver takes
it; its lower bound is the *program's own*, recomputed from the multipliers with integrality taken
into account, and a node is closed as infeasible only if its multipliers refute it. Nodes are taken
in the order of their bounds, so the least open bound is always a bound on the answer. They are kept
as a tree that proves it, see `counterpoint.programs.proof`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from time import perf_counter
from typing import ClassVar, NamedTuple, final

import numpy as np

from counterpoint.errors import NoSolver
from counterpoint.numerics import LEAST, BoolArray, FloatArray, IntArray
from counterpoint.problem.costs import EncodedCost, Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.programs.conditions import (
    INTEGRAL,
    AtMost,
    Box,
    Cone,
    LinearBounds,
    Transitions,
    Whole,
)
from counterpoint.programs.losses import LogLoss, LogSumExp
from counterpoint.programs.program import Program
from counterpoint.programs.proof import Proof
from counterpoint.programs.region import Cases
from counterpoint.rows import lattice
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver
from counterpoint.solvers.clarabel import Clarabel
from counterpoint.solvers.daqp import Daqp
from counterpoint.solvers.highs import Highs
from counterpoint.solvers.probability import Logistic

__all__ = ["Branching"]


DROPS = ((AtMost,), (Whole,), (AtMost, Whole), INTEGRAL)
"""What to relax, the least first; a solver of its own may take the rest."""
FEASIBLE = 1e-9
"""Relative violation of a point that may be an answer: a tenth of what the certificate lets pass
(`VIOLATION`)."""
LATTICE = 1e-14
"""Relative violation of a target's row that is rounding where every column is a whole step."""
ENOUGH = 50_000
"""Nodes of a row's tree without a limit of time: some .1 ms each, up to 1 ms with cones."""
MOST = 1_000_000
"""Nodes that are kept where there is one: 1 GB, with some ten columns."""
DOUBTED = 200
"""A node left undecided by tolerances counts as this many nodes, since it takes about as long."""
SHY = 1.0 - 1e-10
"""What is reported is a trace less than bounds say: when the tree is checked, they round anew."""
PROVED = 10_000
"""Trees of no more nodes are kept as proofs."""
CLOSE = 1e-7
"""How far from a whole step, a category or no change a point may be and count as on it."""


@final
@dataclass(frozen=True, eq=False)
class Branching(Solver):
    """Best-first branch and bound around a solver for the relaxations."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Mahalanobis, Box, LinearBounds, Transitions, Cone}
        | {LogLoss, LogSumExp, *INTEGRAL}
    )
    accuracy: ClassVar[float] = 1e-7

    @classmethod
    def takes(cls, program: Program) -> bool:
        return program.condition_types <= cls.accepts and bool(
            program.condition_types & set(INTEGRAL)
        )

    @cached_property
    def relaxation(self) -> Solver:
        """The solver of the program without as few of its integral conditions as need be."""
        for dropped in DROPS:
            for solver in _solvers(self.program.relaxed(*dropped)):
                return solver
        raise NoSolver("Branch and bound found no solver for its relaxation.")

    @cached_property
    def convex(self) -> tuple[Solver, ...]:
        """Solvers of the program without any integral condition: their multipliers can refute."""
        return tuple(_solvers(self.program.relaxed(*INTEGRAL)))

    @cached_property
    def linear(self) -> tuple[Solver, ...]:
        """Solvers of the same region at a linear price, which find points where others give up."""
        encoded_cost, d = self.program.encoded_cost, self.program.width
        linear = EncodedCost(encoded_cost.absolute + np.sqrt(encoded_cost.diagonal), np.zeros(d))
        return tuple(_solvers(Program(linear, self.program.region)))

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out, trees = Solution.blank(len(cases), self.program), list[tuple[IntArray, Proof]]()
        for i, case in enumerate(cases):
            ceiling = np.inf if cutoff is None else float(cutoff[i])
            tree = Tree(self, case, effort, ceiling)
            tree.run()
            tree.record(out, i)
            if tree.is_proof:
                trees.append((np.array([i]), tree.proof()))
        return replace(out, proof=Proof.joined(trees, len(cases)) if trees else None)


def _solvers(program: Program) -> Iterator[Solver]:
    """Those that take a relaxation, in the order of preference."""
    return (
        solver(program) for solver in (Logistic, Daqp, Highs, Clarabel) if solver.takes(program)
    )


@final
class Node(NamedTuple):
    """The program within narrower bounds."""

    low: FloatArray  # (d,) bounds on y; beside them, features stay where no more may change
    high: FloatArray
    point: FloatArray  # (d,) the relaxation's answer; of the parent's, before the node is visited
    used: frozenset[int]  # features that count as changed
    bound: float  # a lower bound on the cost within the node
    place: int  # where it is kept; of the parent, before the node is visited


@final
class Tree:
    """One row's search tree; several of the best open nodes are visited at once."""

    def __init__(self, owner: Branching, case: Cases, effort: Effort, cutoff: float) -> None:
        self.owner = owner
        self.program = owner.program
        self.relaxation = owner.relaxation
        self.effort = effort
        self.case = case
        self.x = case.x[0]
        self.best = cutoff
        self.point: FloatArray | None = None
        self.is_full = self.program.encoded_cost.quadratic.ndim == 2
        self.root = np.zeros(self.program.size)
        self.complete, self.cut_short = True, False
        self.visited = 0
        self._kept: list[tuple[Node, FloatArray]] = []  # nodes, and what bounds them, as `Proof`
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
        """Whether every leaf was refuted."""
        exhausted = self.complete and not self._open and np.isinf(self._closed)
        return bool(exhausted and self.point is None)

    def run(self) -> None:
        """Search until nothing open can be cheaper, or time or nodes run out."""
        self._visit([Node(self.case.low[0], self.case.high[0], self.x, frozenset(), 0.0, -1)])
        self.visited += 1
        width = 1
        while self._open and not self._hopeless(self._open[0][0]):
            if self._is_spent:  # the row is given up, with its best answer so far
                self.complete, self.cut_short = False, True
                return
            children = []
            for _ in range(min(width, len(self._open))):
                node = heappop(self._open)[2]
                halves = split(self.program, self.x, node, CLOSE)
                if not halves:  # its point is no answer, or more would have been made of it
                    halves = split(self.program, self.x, node, 0.0)
                    self.visited += DOUBTED
                if not halves:
                    self._closed = min(self._closed, node.bound)
                children += halves
            if children:
                self._visit(children)
            self.visited += len(children)
            width = min(2 * width, 32)  # open nodes that are split at once
        if np.isinf(self.best) and not self.finds_nothing:
            self._find_any()

    @property
    def _is_spent(self) -> bool:
        """Whether the time is over; without a limit of time, whether enough has been tried."""
        if self.effort.seconds is None:
            return self.visited > ENOUGH
        return perf_counter() > self._end or len(self._kept) > MOST

    def _find_any(self) -> None:
        """Some point, where relaxations that failed hid all of them."""
        for solver in self.owner.linear:
            solution = solver.solve(self.case, Effort().until(self._end))
            if solution.found[0] and self._meets(solution.points, FEASIBLE):
                self.point = solution.points[0]
                self.best = float(self.program.objective(solution.points, self.case)[0])
                self._round(solution.points, self.case)
                return

    def _hopeless(self, bound: float) -> bool:
        return np.isfinite(self.best) and bound >= self.best * (1.0 - 0.1 * self.effort.gap)

    def _visit(self, nodes: list[Node]) -> None:
        """Bound nodes; keep them open, close them, or take a point as the best so far."""
        low, high = np.stack([node.low for node in nodes]), np.stack([node.high for node in nodes])
        for i, node in enumerate(nodes):
            self._hold(low[i], high[i], node.used)
        several = self.case.take(np.zeros(len(nodes), dtype=np.intp))
        cases = replace(several, low=low, high=high)
        solution, multipliers, refuted = self._relaxed(cases)
        if not self.root.any():
            self.root = multipliers[0]
        found = solution.found
        at = np.where(found[:, None], solution.points, cases.x)
        own, first = self.program.bound(cases, multipliers, at), len(self._kept)
        bounding = np.hstack([multipliers, at]) if self.is_full else multipliers
        bounds = np.maximum(own, solution.reported)
        bounds = np.maximum(bounds, [node.bound for node in nodes])
        for i, node in enumerate(nodes):
            better = refuted[i] or node.place < 0 or own[i] >= node.bound
            self._kept.append((node, bounding[i] if better else self._kept[node.place][1]))
        hopeful = np.flatnonzero(found & (bounds < self.best))
        if len(hopeful):
            self._round(solution.points[hopeful], cases.take(hopeful))
        for i, node in enumerate(nodes):
            if found[i] and not self._hopeless(float(bounds[i])):
                kept = node._replace(
                    point=solution.points[i], bound=float(bounds[i]), place=first + i
                )
                heappush(self._open, (kept.bound, next(self._order), kept))
            elif not refuted[i]:
                self._closed = min(self._closed, float(bounds[i]))
                self.complete &= bool(found[i])

    def _hold(self, low: FloatArray, high: FloatArray, used: frozenset[int]) -> None:
        """Bounds of features that must stay, since as many as may count as changed."""
        at_most = self.program.at_most
        if at_most is None or len(used) < at_most.count:
            return
        for b in set(range(len(at_most.blocks))) - used:
            block = at_most.blocks[b]
            low[block] = np.maximum(low[block], self.x[block])
            high[block] = np.minimum(high[block], self.x[block])

    @property
    def is_proof(self) -> bool:
        """Whether the tree is complete, no larger than proofs are, and bounded by multipliers."""
        convex = not self.relaxation.program.condition_types & {*INTEGRAL}
        return convex and not self.cut_short and len(self._kept) <= PROVED

    def proof(self) -> Proof:
        """The tree; its leaves are closed by the bounds of their multipliers, or leave a gap."""
        nodes, multipliers = zip(*self._kept, strict=True)
        n, forced = len(nodes), np.zeros((len(nodes), self.program.width), dtype=bool)
        children, at_most = np.full((n, 2), -1), self.program.at_most
        for i, node in enumerate(nodes):
            if node.place >= 0:
                children[node.place, int(children[node.place, 0] >= 0)] = i
            if at_most is not None:
                forced[i, [at_most.blocks[b].start for b in node.used]] = True
        none = np.zeros(n, dtype=np.intp)
        low, high = np.stack([node.low for node in nodes]), np.stack([node.high for node in nodes])
        tree = forced, np.stack(multipliers), children, np.zeros(1, dtype=np.intp)
        return Proof(none, low, high, *tree, np.array([min(self.bound, self.best)]))

    def _relaxed(self, cases: Cases) -> tuple[Solution, FloatArray, BoolArray]:
        """Relaxations, the program's own multipliers, and which cases they refute.

        A relaxation that keeps categories may call a node infeasible that its multipliers cannot
        refute, and a solver may give up; such a node goes to one solver of the convex relaxation
        after another, until one finds a point or a refutation, and may be split further.
        """
        solution = self.relaxation.solve(cases, Effort().until(self._end))
        multipliers = self.program.own_multipliers(solution.multipliers)
        refuted = self._refuted(cases, solution, multipliers)
        doubtful = np.flatnonzero(~solution.found & ~refuted)
        self.visited += DOUBTED * len(doubtful)
        for solver in self.owner.convex:
            if not len(doubtful) or perf_counter() > self._end:
                break
            part = cases.take(doubtful)
            second = solver.solve(part, Effort().until(self._end))
            multipliers[doubtful] = self.program.own_multipliers(second.multipliers)
            solution.points[doubtful] = second.points
            solution.reported[doubtful] = second.reported
            refuted[doubtful] = self._refuted(part, second, multipliers[doubtful])
            doubtful = doubtful[~second.found & ~refuted[doubtful]]
        return solution, multipliers, refuted

    def _refuted(self, cases: Cases, solution: Solution, multipliers: FloatArray) -> BoolArray:
        """Which cases a solver holds to be infeasible, and its multipliers refute."""
        refuted = solution.outcomes == Outcome.INFEASIBLE
        refuted[refuted] = self.program.refutes(cases.take(refuted), multipliers[refuted])
        return np.asarray(refuted)

    def _round(self, points: FloatArray, cases: Cases) -> None:
        """Round to points of the region, let the other columns settle, keep the cheapest."""
        low, high = rounded(self.program, points, cases)
        usable = np.all((low <= high) & (cases.low <= low) & (high <= cases.high), axis=1)
        if not usable.any():
            return
        fixed = replace(cases, low=low, high=high).take(usable)
        candidates = fixed.low
        if (fixed.low < fixed.high).any():
            candidates = self.relaxation.solve(fixed, Effort().until(self._end)).points
            given_up = np.isnan(candidates[:, :1])  # then the point that was rounded, if it was one
            candidates = np.where(given_up, points[usable], candidates)
            candidates = np.minimum(np.maximum(candidates, fixed.low), fixed.high)
        cost = self.program.objective(candidates, fixed)
        for i in np.argsort(cost, kind="stable").tolist():
            if not cost[i] < self.best:
                return
            exact = bool((fixed.low[i] == fixed.high[i]).all())
            if self._meets(candidates[[i]], LATTICE if exact else FEASIBLE):
                self.best, self.point = float(cost[i]), candidates[i]
                return

    def _meets(self, candidate: FloatArray, tolerance: float) -> bool:
        if self.program.violation(candidate, self.case.x)[0] > FEASIBLE:
            return False
        tightened = self.program.tightened(self.case.margin[:1])
        return bool(tightened.violation(candidate, self.case.x)[0] <= tolerance)

    def record(self, out: Solution, i: int) -> None:
        """What the search says of its row."""
        out.multipliers[i] = self.root
        if self.point is not None:
            out.points[i], out.outcomes[i] = self.point, Outcome.FOUND
            out.reported[i] = min(self.bound, self.best) * SHY
        elif self.finds_nothing:
            out.outcomes[i], out.reported[i] = Outcome.INFEASIBLE, np.inf
        elif np.isfinite(self.bound):
            out.reported[i] = self.bound
        if self.cut_short:
            out.outcomes[i] = Outcome.LIMIT


def split(program: Program, x: FloatArray, node: Node, close: float) -> list[Node]:
    """Two halves of a node, or none if its point is integral, but for ``close``."""
    return (
        _split_changes(program, x, node, close)
        or _split_category(program, node, close)
        or _split_whole(program, x, node, close)
    )


def _split_changes(program: Program, x: FloatArray, node: Node, close: float) -> list[Node]:
    """A feature that moves: it stays, or it counts as changed (and then others must stay)."""
    at_most = program.at_most
    if at_most is None:
        return []
    moves = _moves(program, node.point[None, :] - x)[0]
    if (moves > close * close * max(float(moves.sum()), LEAST)).sum() <= at_most.count:
        return []
    gone, starts = (node.low > x) | (node.high < x), [block.start for block in at_most.blocks]
    moves[np.logical_or.reduceat(gone, starts)] = -1.0  # these cannot stay
    moves[list(node.used)] = -1.0
    feature = int(moves.argmax())
    if moves[feature] <= 0:
        return []
    block = at_most.blocks[feature]
    already_satisfied = node._replace(low=node.low.copy(), high=node.high.copy())
    already_satisfied.low[block] = np.maximum(node.low[block], x[block])
    already_satisfied.high[block] = np.minimum(node.high[block], x[block])
    return [already_satisfied, node._replace(used=node.used | {feature})]


def _split_category(program: Program, node: Node, close: float) -> list[Node]:
    """The most undecided group: its likeliest category, or any other."""

    def undecided(group: slice) -> float:
        shares = np.where(node.high[group] > 0.0, node.point[group], 0.0)
        return float(shares.sum() - shares.max())

    group = max(program.groups, key=undecided, default=None)
    if group is None or not undecided(group) > close:
        return []
    column = group.start + int(node.point[group].argmax())
    low, only, without = np.array(node.low), np.array(node.high), np.array(node.high)
    low[column], without[column] = 1.0, 0.0
    only[group] = np.where(np.arange(group.start, group.stop) == column, only[group], 0.0)
    return [node._replace(low=low, high=only), node._replace(high=without)]


def _split_whole(program: Program, x: FloatArray, node: Node, close: float) -> list[Node]:
    """The column furthest from a whole step: below it, or above."""
    whole = program.steps > 0.0
    unit = np.where(whole, program.steps, 1.0)
    counts = (node.point - x) / unit
    off = np.where(whole, np.abs(counts - np.round(counts)), 0.0)
    column = int(off.argmax())
    if off[column] <= close:
        return []
    high, low = np.array(node.high), np.array(node.low)
    high[column] = lattice.number(x[column], np.floor(counts[column]), unit[column])
    low[column] = lattice.number(x[column], np.ceil(counts[column]), unit[column])
    return [node._replace(high=high), node._replace(low=low)]


def rounded(program: Program, points: FloatArray, cases: Cases) -> tuple[FloatArray, FloatArray]:
    """(n, d) bounds that fix whole columns, categories and unchanged features."""
    x, low, high = cases.x, np.array(cases.low), np.array(cases.high)
    whole = np.flatnonzero(program.steps)
    step, at = program.steps[whole], x[:, whole]
    value = lattice.nearest(at, points[:, whole], step)
    low[:, whole] = high[:, whole] = np.minimum(np.maximum(value, low[:, whole]), high[:, whole])
    for group in program.groups:
        likeliest = np.where(high[:, group] > 0.5, points[:, group], -1.0).argmax(axis=1)
        low[:, group] = high[:, group] = np.eye(group.stop - group.start)[likeliest]
    if program.at_most is not None:
        blocks = program.at_most.blocks
        order = np.argsort(-_moves(program, points - x), axis=1, kind="stable")
        for i, still in enumerate(order[:, program.at_most.count :].tolist()):
            for b in still:
                low[i, blocks[b]] = high[i, blocks[b]] = x[i, blocks[b]]
    return low, high


def _moves(program: Program, delta: FloatArray) -> FloatArray:
    """(n, features) how much each feature's change costs, alone."""
    at_most = program.at_most
    paid = program.encoded_cost.each(delta, np.zeros_like(delta))
    starts = [block.start for block in at_most.blocks] if at_most else []
    return np.asarray(np.add.reduceat(paid, starts, axis=1))
