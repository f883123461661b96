"""Branch and bound over whole steps, categories and the number of changes, for any cost and cone.

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
from time import perf_counter
from typing import ClassVar, NamedTuple, final

import numpy as np

from counterpoint.errors import NoSolver
from counterpoint.numerics import LEAST, BoolArray, FloatArray, IntArray
from counterpoint.problem.costs import EncodedCost, Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.programs import arrays
from counterpoint.programs.conditions import INTEGRAL, AtMost, Cone, Whole
from counterpoint.programs.losses import LogLoss, LogSumExp
from counterpoint.programs.program import Program, own_multipliers, relaxed, tightened
from counterpoint.programs.proof import ProofTrees, node_size
from counterpoint.programs.region import Batch
from counterpoint.rows import lattice
from counterpoint.solvers.base import FEASIBILITY, LINEAR, Effort, Outcome, Solution, Solver
from counterpoint.solvers.branch_and_bound import (
    BranchingProblem,
    SearchTree,
    branch_and_bound,
)
from counterpoint.solvers.clarabel import Clarabel
from counterpoint.solvers.daqp import Daqp
from counterpoint.solvers.highs import Highs
from counterpoint.solvers.probability import Logistic
from counterpoint.solvers.proof_trees import SearchedBoxes

DROPS = ((AtMost,), (Whole,), (AtMost, Whole), INTEGRAL)
"""What to relax, the least first; a solver of its own may take the rest."""
MOST_WORK = 50_000
"""Nodes of a row's tree without a limit of time: some .1 ms each, up to 1 ms with cones."""
MOST_NODES = 1_000_000
"""Nodes that are kept where there is a limit of time: 1 GB, with some ten columns."""
UNDECIDED = 200
"""A node left undecided by tolerances counts as this many nodes, since it takes about as long."""


@final
@dataclass(frozen=True, eq=False)
class Branching(Solver):
    """Best-first branch and bound around a solver for the relaxations."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        LINEAR | {Manhattan, SquaredEuclidean, Mahalanobis, Cone, LogLoss, LogSumExp, *INTEGRAL}
    )
    accuracy: ClassVar[float] = 1e-7

    @classmethod
    def takes(cls, program: Program) -> bool:
        types = program.condition_types
        return types <= cls.accepts and bool(types & {*INTEGRAL})

    @cached_property
    def relaxation(self) -> Solver:
        """The solver of the program without as few of its integral conditions as need be."""
        for dropped in DROPS:
            for solver in _solvers(relaxed(self.program, *dropped)):
                return solver
        raise NoSolver("Branch and bound found no solver for its relaxation.")

    @cached_property
    def convex(self) -> tuple[Solver, ...]:
        """Solvers of the program without any integral condition: their multipliers can refute."""
        return tuple(_solvers(relaxed(self.program, *INTEGRAL)))

    @cached_property
    def linear(self) -> tuple[Solver, ...]:
        """Solvers of the same region at a linear cost, which find points where others give up."""
        encoded_cost, d = self.program.encoded_cost, self.program.width
        linear = EncodedCost(encoded_cost.absolute + np.sqrt(encoded_cost.diagonal), np.zeros(d))
        return tuple(_solvers(Program(linear, self.program.region)))

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out, proofs = Solution.blank(len(cases), self.program), list[ProofTrees]()
        for i, case in enumerate(cases):
            problem = ConeProblem(self, case, effort, np.inf if cutoff is None else cutoff[i])
            tree = branch_and_bound(problem, width=32)
            problem.report(tree, out, i)
            if problem.is_proof(tree):
                proofs.append(problem.proof(tree)._replace(row=np.array([i])))
        return replace(out, proof=ProofTrees.joined(proofs) if proofs else None)


def _solvers(program: Program) -> Iterator[Solver]:
    """Yield solvers that take a relaxation, in the order of preference."""
    return (
        solver(program) for solver in (Logistic, Daqp, Highs, Clarabel) if solver.takes(program)
    )


@final
class ConeNodes(NamedTuple):
    """The program within narrower bounds, m times."""

    low: FloatArray  # (m, d) bounds on y
    high: FloatArray
    changed: BoolArray  # (m, d) features that count as changed, by their first columns
    # (m, size), or with a full quadratic cost (m, size + d): multipliers, and points of tangents
    multipliers: FloatArray
    bound: FloatArray  # (m,) of the parents, before nodes are bounded
    point: FloatArray  # (m, d) the relaxations' answers; NaN where there is none


@final
class ConeProblem(BranchingProblem[ConeNodes]):
    """The tree of one row, for `branch_and_bound`."""

    def __init__(self, owner: Branching, case: Batch, effort: Effort, cutoff: float) -> None:
        self.owner, self.program, self.relaxation = owner, owner.program, owner.relaxation
        self.effort, self.case, self.x = effort, case, case.x[0]
        self.incumbent_cost, self.point = cutoff, np.full_like(case.x[0], np.nan)
        self.bounded = 0  # the number of bounded nodes
        self.work = 0  # the same, but `UNDECIDED` for each that took as long
        self.end = perf_counter() + effort.seconds if effort.seconds else np.inf

    @property
    def cutoff(self) -> FloatArray:
        return np.array([self.incumbent_cost * (1.0 - 0.1 * self.effort.gap)])

    @property
    def exhausted(self) -> BoolArray:
        if self.effort.seconds is None:
            return np.array([self.work > MOST_WORK])
        return np.array([perf_counter() > self.end or self.bounded > MOST_NODES])

    def roots(self) -> ConeNodes:
        none, zeros = np.zeros((1, len(self.x)), dtype=bool), np.zeros((1, node_size(self.program)))
        return ConeNodes(self.case.low, self.case.high, none, zeros, np.zeros(1), self.case.x)

    def bound(self, nodes: ConeNodes, row: IntArray) -> tuple[ConeNodes, FloatArray]:
        """Solve the nodes' relaxations; return the nodes with their bounds, and the bounds (m,).

        Where a relaxation may be better than the incumbent, its point is rounded to a new one.
        """
        self.bounded += len(row)
        self.work += len(row)
        cases = replace(self.case.take(row), low=np.array(nodes.low), high=np.array(nodes.high))
        self._hold(cases, nodes.changed)
        solution, multipliers, refuted = self._relaxed(cases)
        point = np.where(solution.found[:, None], solution.points, cases.x)
        proved = self.program.bound(cases, multipliers, point)
        if self.program.encoded_cost.quadratic.ndim == 2:
            multipliers = np.hstack([multipliers, point])  # the bound rests on a tangent there
        # The multipliers of a parent hold in its children; they stay where the new ones prove less.
        better = refuted | (proved >= nodes.bound)
        multipliers = np.where(better[:, None], multipliers, nodes.multipliers)
        bound = np.maximum(np.maximum(proved, solution.reported), nodes.bound)
        promising = solution.found & (bound < self.incumbent_cost)
        if promising.any():
            self._round(solution.points[promising], cases.take(promising))
        bound = np.where(refuted, np.inf, bound)
        return nodes._replace(multipliers=multipliers, bound=bound, point=solution.points), bound

    def record(self, nodes: ConeNodes) -> ConeNodes:
        return nodes._replace(point=nodes.point[:, :0])

    def split(self, nodes: ConeNodes, row: IntArray) -> tuple[ConeNodes, ConeNodes, BoolArray]:
        """Split nodes at what is not integral about their points; see `BranchingProblem.split`.

        A node without a point, or whose point is integral, has no children.
        """
        every = np.arange(len(row))
        first, second = arrays.pick(nodes, every), arrays.pick(nodes, every)  # copies
        is_split = np.asarray(np.isfinite(nodes.point).all(axis=1))
        for i in np.flatnonzero(is_split).tolist():
            # what lies within 1e-7 of a step, a category or no change is on it up to tolerances
            is_split[i] = self._split(first, second, i, 1e-7)
            if not is_split[i]:
                # The rounded point was no answer, or the node would be closed: it is split where
                # the point is farthest from integral, however near that is.
                self.work += UNDECIDED
                is_split[i] = self._split(first, second, i, 0.0)
        return first, second, is_split

    def _split(self, first: ConeNodes, second: ConeNodes, i: int, tolerance: float) -> bool:
        """Narrow two copies of node i where its point is farther than ``tolerance`` from integral.

        Return whether there is such a place. The number of changes comes first, then categories,
        then whole steps.
        """
        return (
            self._split_changes(first, second, i, tolerance)
            or self._split_category(first, second, i, tolerance)
            or self._split_whole(first, second, i, tolerance)
        )

    def _split_changes(self, first: ConeNodes, second: ConeNodes, i: int, tolerance: float) -> bool:
        """Split at the feature whose change costs most: it stays, or it counts as changed."""
        at_most, x = self.program.domain.at_most, self.x
        if at_most is None:
            return False
        costs = _feature_costs(self.program, first.point[[i]] - x)[0]
        # What costs next to nothing is no change. The tolerance is squared, for near 0 a quadratic
        # cost falls with the square of the change.
        least_cost = tolerance * tolerance * max(float(costs.sum()), LEAST)
        if (costs > least_cost).sum() <= at_most.count:
            return False
        starts = [block.start for block in at_most.blocks]
        cannot_stay = (first.low[i] > x) | (first.high[i] < x)
        costs[np.logical_or.reduceat(cannot_stay, starts) | first.changed[i, starts]] = -1.0
        feature = int(costs.argmax())
        if costs[feature] <= 0:
            return False
        block = at_most.blocks[feature]
        first.low[i, block] = np.maximum(first.low[i, block], x[block])
        first.high[i, block] = np.minimum(first.high[i, block], x[block])
        second.changed[i, block.start] = True
        return True

    def _split_category(
        self, first: ConeNodes, second: ConeNodes, i: int, tolerance: float
    ) -> bool:
        """Split at the most undecided group: its likeliest category, or any other."""
        point = first.point[i]

        def undecided(group: slice) -> float:
            shares = np.where(first.high[i, group] > 0.0, point[group], 0.0)
            return float(shares.sum() - shares.max())

        group = max(self.program.domain.groups, key=undecided, default=None)
        if group is None or not undecided(group) > tolerance:
            return False
        column = group.start + int(point[group].argmax())
        likeliest = np.arange(group.start, group.stop) == column
        first.low[i, column] = 1.0
        first.high[i, group] = np.where(likeliest, first.high[i, group], 0.0)
        second.high[i, column] = 0.0
        return True

    def _split_whole(self, first: ConeNodes, second: ConeNodes, i: int, tolerance: float) -> bool:
        """Split at the column farthest from a whole step: the steps below it, or those above."""
        steps, x = self.program.domain.steps, self.x
        whole, unit = steps > 0.0, np.where(steps > 0.0, steps, 1.0)
        counts = (first.point[i] - x) / unit
        fraction = np.where(whole, np.abs(counts - np.round(counts)), 0.0)
        j = int(fraction.argmax())
        if fraction[j] <= tolerance:
            return False
        first.high[i, j] = lattice.number(x[j], np.floor(counts[j]), unit[j])
        second.low[i, j] = lattice.number(x[j], np.ceil(counts[j]), unit[j])
        return True

    def _hold(self, cases: Batch, changed: BoolArray) -> None:
        """Hold the other features at x, in place, where as many count as changed as may change."""
        at_most = self.program.domain.at_most
        if at_most is None:
            return
        full = changed.sum(axis=1) >= at_most.count
        for block in at_most.blocks:
            rows, x = full & ~changed[:, block.start], self.x[block]
            cases.low[rows, block] = np.maximum(cases.low[rows, block], x)
            cases.high[rows, block] = np.minimum(cases.high[rows, block], x)

    def _relaxed(self, cases: Batch) -> tuple[Solution, FloatArray, BoolArray]:
        """Return relaxations' solutions, the program's own multipliers, and what these refute.

        A relaxation that keeps categories may call a node infeasible that its multipliers cannot
        refute, and a solver may give up; such a node goes to one solver of the convex relaxation
        after another, until one finds a point or a refutation, and may be split further.
        """
        solution = self.relaxation.solve(cases, Effort().until(self.end))
        multipliers = own_multipliers(self.program, solution.multipliers)
        refuted = self._refuted(cases, solution, multipliers)
        undecided = np.flatnonzero(~solution.found & ~refuted)
        self.work += UNDECIDED * len(undecided)
        for solver in self.owner.convex:
            if not len(undecided) or perf_counter() > self.end:
                break
            remaining = cases.take(undecided)
            second = solver.solve(remaining, Effort().until(self.end))
            multipliers[undecided] = own_multipliers(self.program, second.multipliers)
            solution.points[undecided] = second.points
            solution.reported[undecided] = second.reported
            refuted[undecided] = self._refuted(remaining, second, multipliers[undecided])
            undecided = undecided[~second.found & ~refuted[undecided]]
        return solution, multipliers, refuted

    def _refuted(self, cases: Batch, solution: Solution, multipliers: FloatArray) -> BoolArray:
        """Return which cases a solver holds to be infeasible and its multipliers refute."""
        refuted = solution.outcomes == Outcome.INFEASIBLE
        refuted[refuted] = self.program.refutes(cases.take(refuted), multipliers[refuted])
        return np.asarray(refuted)

    def _round(self, points: FloatArray, cases: Batch) -> None:
        """Round points to the region, solve for the columns that are left free, keep the cheapest.

        Rounding fixes whole columns, categories and features that stay.
        """
        low, high = rounded(self.program, points, cases)
        usable = np.all((low <= high) & (cases.low <= low) & (high <= cases.high), axis=1)
        if not usable.any():
            return
        fixed = replace(cases, low=low, high=high).take(usable)
        candidates = fixed.low
        if (fixed.low < fixed.high).any():
            candidates = self.relaxation.solve(fixed, Effort().until(self.end)).points
            has_none = np.isnan(candidates[:, :1])  # there the point itself may do, once clipped
            candidates = np.where(has_none, points[usable], candidates)
            candidates = np.minimum(np.maximum(candidates, fixed.low), fixed.high)
        cost = self.program.objective(candidates, fixed)
        for i in np.argsort(cost, kind="stable").tolist():
            if not cost[i] < self.incumbent_cost:
                return
            # Points of the lattice miss a demand by rounding alone, or not at all; points with free
            # columns also by the tolerance of a solver.
            is_fixed = bool((fixed.low[i] == fixed.high[i]).all())
            if self._meets(candidates[[i]], 1e-14 if is_fixed else FEASIBILITY):
                self.incumbent_cost, self.point = float(cost[i]), candidates[i]
                return

    def _meets(self, candidate: FloatArray, tolerance: float) -> bool:
        """Return whether a point (1, d) may be an answer: in the region, and with its margin.

        The tolerance is that of the target's demands, relative to the size of their terms.
        """
        if self.program.violation(candidate, self.case.x)[0] > FEASIBILITY:
            return False
        demands = tightened(self.program, self.case.margin[:1])
        return bool(demands.violation(candidate, self.case.x)[0] <= tolerance)

    def _find_any(self) -> None:
        """Look for some point, where relaxations that failed hid all of them."""
        for solver in self.owner.linear:
            solution = solver.solve(self.case, Effort().until(self.end))
            if solution.found[0] and self._meets(solution.points, FEASIBILITY):
                self.point = solution.points[0]
                self.incumbent_cost = float(self.program.objective(solution.points, self.case)[0])
                self._round(solution.points, self.case)
                return

    def report(self, tree: SearchTree, out: Solution, i: int) -> None:
        """Write the point, bound and outcome of a search into row i of the solution."""
        least, unfinished = float(tree.least[0]), bool(tree.unfinished[0])
        if np.isinf(self.incumbent_cost) and not unfinished and np.isfinite(least):
            self._find_any()  # a complete search neither found a point nor refuted its leaves
        out.multipliers[i] = tree.record.multipliers[0, : self.program.size]
        if not np.isnan(self.point).any():
            out.points[i], out.outcomes[i] = self.point, Outcome.FOUND
            # a trace less than the bounds say: when the tree is checked, they are rounded anew
            out.reported[i] = min(least, self.incumbent_cost) * (1.0 - 1e-10)
        elif np.isfinite(least):
            out.reported[i] = least
        else:
            out.outcomes[i], out.reported[i] = Outcome.INFEASIBLE, np.inf
        if unfinished:
            out.outcomes[i] = Outcome.LIMIT

    def is_proof(self, tree: SearchTree) -> bool:
        """Return whether a tree is complete, bounded by multipliers, and of a size to be kept."""
        convex = not self.relaxation.program.condition_types & {*INTEGRAL}
        return convex and not tree.unfinished[0] and len(tree.row) <= 10_000

    def proof(self, tree: SearchTree) -> ProofTrees:
        """Return the tree as a proof; multipliers close its leaves, or leave a gap."""
        nodes, ceiling = tree.record, np.minimum(tree.least, self.incumbent_cost)
        boxes = nodes.low, nodes.high, nodes.changed, nodes.multipliers
        searched = SearchedBoxes(tree.row, *boxes, tree.children, np.isinf(tree.bound))
        root = np.zeros(1, dtype=np.intp)
        return searched.proof_trees(self.program, self.case, root, ceiling)


def rounded(program: Program, points: FloatArray, cases: Batch) -> tuple[FloatArray, FloatArray]:
    """Return bounds (n, d) that fix whole columns, categories and the features that stay.

    They are fixed at what is nearest to the points. Where the number of changes is limited, the
    features whose changes cost most may change, and all others stay.
    """
    x, low, high = cases.x, np.array(cases.low), np.array(cases.high)
    whole = np.flatnonzero(program.domain.steps)
    value = lattice.nearest(x[:, whole], points[:, whole], program.domain.steps[whole])
    low[:, whole] = high[:, whole] = np.minimum(np.maximum(value, low[:, whole]), high[:, whole])
    for group in program.domain.groups:
        likeliest = np.where(high[:, group] > 0.5, points[:, group], -1.0).argmax(axis=1)
        low[:, group] = high[:, group] = np.eye(group.stop - group.start)[likeliest]
    if program.domain.at_most is not None:
        blocks = program.domain.at_most.blocks
        dearest_first = np.argsort(-_feature_costs(program, points - x), axis=1, kind="stable")
        for i, staying in enumerate(dearest_first[:, program.domain.at_most.count :].tolist()):
            for feature in staying:
                low[i, blocks[feature]] = high[i, blocks[feature]] = x[i, blocks[feature]]
    return low, high


def _feature_costs(program: Program, change: FloatArray) -> FloatArray:
    """Return the cost of each feature's change by itself, (n, features); changes are (n, d)."""
    at_most = program.domain.at_most
    costs = program.encoded_cost.each(change, np.zeros_like(change))
    starts = [block.start for block in at_most.blocks] if at_most else []
    return np.asarray(np.add.reduceat(costs, starts, axis=1))
