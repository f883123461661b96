"""Search programs with quadratic conditions for local optima, of which many are proved optimal.

Points are found by descents from several starts. With whole steps, categories or few changes a
*dive* follows each descent, which ignores all of these: the columns that are nearly integral are
held at integral values, the others descend again, and so on, until all are held. The cheapest point
is improved by moving one or two integral columns. Bounds come from relaxations, and the search
ends where they close the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import ClassVar, final

import numpy as np

from counterpoint.families.prototypes.quadratic_difference import curvature_of
from counterpoint.families.prototypes.solvers.descent import ACCURACY, Descents
from counterpoint.families.prototypes.solvers.lower_bound import Quadric, relaxed
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.programs.conditions import INTEGRAL
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.rows import lattice
from counterpoint.solvers.base import Effort, Optimality, Outcome, Solution, Solver

INTEGRALITY = 1e-6
"""How far from a whole step, in steps, a column counts as being there."""


@final
@dataclass(frozen=True, eq=False)
class Ccp(Solver):
    """The convex-concave procedure from several starts, see `Descents` and `LocalSearch`."""

    accepts: ClassVar[frozenset[type]] = Quadric.accepts
    accuracy: ClassVar[float] = 1e-7

    @classmethod
    def takes(cls, program: Program) -> bool:
        return Quadric.takes(program)

    @cached_property
    def descents(self) -> Descents:
        """The descents, which prepare what all rows share."""
        return Descents(self.program)

    @cached_property
    def quadric(self) -> Quadric:
        """The solver for the nearest points that meet single conditions."""
        return Quadric(self.program)

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        solution = Solution.blank(len(cases), self.program)
        for i, case in enumerate(cases):
            search = LocalSearch(self, case, effort, np.inf if cutoff is None else float(cutoff[i]))
            if not case.empty[0]:
                search.run()
            solution.multipliers[i], solution.outcomes[i] = search.multipliers, search.outcome
            if search.point is not None:
                solution.points[i] = search.point
        return solution


@final
class LocalSearch:
    """The search of one row.

    Attributes
    ----------
    point, cost
        The cheapest point (d,) so far that meets the program, None without one, and its cost.
    bound, multipliers
        The best lower bound on the cost, and the multipliers (program.size,) that prove it.
    is_empty
        Whether the multipliers prove that no point meets the program.
    cutoff
        A cost that was reached elsewhere; points that cost more are of no use.
    """

    def __init__(self, solver: Ccp, case: Batch, effort: Effort, cutoff: float) -> None:
        self.solver, self.descents, self.program = solver, solver.descents, solver.program
        self.case, self.effort, self.cutoff = case, effort, cutoff
        self.cost, self.bound, self.is_empty = np.inf, 0.0, False
        self.point: FloatArray | None = None
        self.multipliers = np.zeros(self.program.size)
        self._end = perf_counter() + effort.seconds if effort.seconds else np.inf

    def run(self) -> None:
        """Search until the gap is closed, nothing can be gained, or time is up."""
        start, low, high = self._relax(), self.case.low[0], self.case.high[0]
        if self._is_over():
            return
        self.dive(start, low, high)
        # Other starts hardly ever make up for a point that costs 30 % too much.
        if self._is_over() or self.cost > 1.3 * self.cutoff:
            return
        for start in self.descents.free.prototypes:
            self.dive(start, low, high)
            if self._is_over():
                return
        self.offer(self.descents.single_changes(self.case))
        if self.program.condition_types & set(INTEGRAL):
            self._improve()

    @property
    def outcome(self) -> Outcome:
        """The outcome of the search so far."""
        if self.case.empty[0] or self.is_empty:
            return Outcome.INFEASIBLE
        if self.is_late:
            return Outcome.LIMIT
        return Outcome.NOTHING if self.point is None else Outcome.FOUND

    @property
    def is_late(self) -> bool:
        """Whether time is up."""
        return perf_counter() > self._end

    @property
    def seconds(self) -> float | None:
        """The time that remains; None without a limit."""
        return None if np.isinf(self._end) else max(self._end - perf_counter(), 0.0)

    def holding(self, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds (d,) and (d,) that hold the integral columns of a point, made integral.

        Where more features move than may, those that move least are held at x as well.
        """
        x, (low,), (high,) = self.case.x[0], self.case.low, self.case.high
        point = self._made_integral(np.where(self._surplus(point), x, point))
        held = self.program.domain.held(point[None], self.case.x)[0]
        return np.where(held, point, low), np.where(held, point, high)

    def _is_over(self) -> bool:
        """Whether the gap is closed, no point can cost less than the cutoff, or time is up."""
        gap = self.effort.gap
        closed = self.cost < np.inf and self.bound >= self.cost * (1.0 - gap)
        useless = self.bound >= self.cutoff * (1.0 - 0.1 * gap)
        return bool(closed or useless or self.is_empty or self.is_late)

    def offer(self, points: FloatArray) -> None:
        """Take the cheapest of points (k, d) that meets the program, if it beats the best."""
        cost = self.program.encoded_cost(points, np.repeat(self.case.x, len(points), axis=0))
        cheaper = np.flatnonzero(cost < self.cost)
        cheaper = cheaper[self.descents.satisfied(points[cheaper], self.case)]
        if len(cheaper):
            best = cheaper[cost[cheaper].argmin()]
            self.point, self.cost = points[best], float(cost[best])

    def _relax(self) -> FloatArray:
        """Bound the cost by relaxations, and return the start (d,) of the first descent.

        The first relaxation is the nearest point that meets the most demanding condition; the
        second, for few columns, is semidefinite, and its point is the better start. NaN if neither
        has a point.
        """
        (nearest,), (weights,), (is_empty,) = self.solver.quadric.nearest(self.case)
        if is_empty:  # by one condition alone
            multipliers = np.zeros(self.program.size)
            # those of the quadratic conditions come first of the curvature's, which are the last
            position = self.program.size - self.solver.quadric.curvature.size
            multipliers[position : position + len(weights)] = weights
            self._learn(multipliers, refutes=True)
        movable = (self.case.low < self.case.high).sum()
        is_global = self.effort.optimality is Optimality.GLOBAL
        if self.is_empty or movable > (40 if is_global else 20):  # k columns are k² / 2 unknowns
            return np.asarray(nearest)
        has_nearest = np.isfinite(nearest).all()
        # the nearest point is about as far away as the answer, and gives the relaxation its units
        cost = (self.descents.encoded_cost(nearest, self.case) if has_nearest else 0.0) or 1.0
        size = cost if curvature_of(self.program).is_absolute else np.sqrt(cost)
        relaxation = relaxed(self.program, self.case, size, self.effort)
        if relaxation is None:
            return np.asarray(nearest)
        multipliers, point = relaxation
        has_point = bool(np.isfinite(point).all())
        self._learn(multipliers, refutes=not has_point)
        return point if has_point else np.asarray(nearest)

    def _learn(self, multipliers: FloatArray, *, refutes: bool) -> None:
        """Keep multipliers that bound the cost better, or if they may, that refute the program."""
        bound = float(self.program.bound(self.case, multipliers[None])[0])
        if bound > self.bound:
            self.bound, self.multipliers = bound, multipliers
        if refutes and self.program.refutes(self.case, multipliers[None])[0]:
            self.multipliers, self.is_empty = multipliers, True

    # Points

    def dive(self, start: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """Descend from a start within bounds, hold some integral columns, descend again, and so on.

        The point at the end, all of whose integral columns are held, is offered.
        """
        descended = self.descents.free.descended
        point = descended(start, replace(self.case, low=low[None], high=high[None]), self._end)
        for _ in range(2 * self.program.width):
            if point is None or self.is_late:
                break
            next_columns = self._next_to_hold(point, low, high)
            if next_columns is None:
                break
            held, candidates = next_columns
            for values in candidates:
                lower, upper = np.array(low), np.array(high)
                lower[held] = upper[held] = values
                within = replace(self.case, low=lower[None], high=upper[None])
                descent = descended(point, within, self._end)
                if descent is not None:
                    break
            point, low, high = descent, lower, upper
        if point is not None:
            self.offer(self._made_integral(point)[None])

    def _next_to_hold(
        self, point: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[BoolArray, list[FloatArray]] | None:
        """Return the columns (d,) to hold next, and values to try for them, the likeliest first.

        If too many features move, those that move least are held at x; then one category, and then
        whole steps. None if all integral columns are integral or held.
        """
        program, x, free = self.program, self.case.x[0], low < high
        held = self._surplus(point) & free
        if held.any():
            return held, [x[held]]
        for group in program.domain.groups:
            if 1.0 - point[group].max() > INTEGRALITY and free[group].any():
                held[group] = True
                is_allowed = self.case.high[0, group] > 0.5
                shares = np.where(is_allowed, point[group], -1.0)
                likeliest = np.argsort(-shares, kind="stable")[:2]
                return held, list(np.eye(len(shares))[likeliest])
        counts = self._step_counts(point)
        nearest = np.round(counts)
        distance = np.where((program.domain.steps > 0.0) & free, np.abs(counts - nearest), 0.0)
        fractional = distance > INTEGRALITY
        if not fractional.any():
            return None
        # Columns nearly at a whole step are held together, since each round takes a descent.
        held = fractional & (distance <= max(0.15, distance[fractional].min()))
        other_side = np.where(counts > nearest, np.ceil(counts), np.floor(counts))
        points = (lattice.number(x, side, program.domain.steps) for side in (nearest, other_side))
        return held, [np.clip(y, self.case.low[0], self.case.high[0])[held] for y in points]

    def _surplus(self, point: FloatArray) -> BoolArray:
        """(d,) the columns of the features beyond the allowed number, if more than that move.

        Those that cost most are allowed.
        """
        at_most, surplus = self.program.domain.at_most, np.zeros(self.program.width, dtype=bool)
        if at_most is None:
            return surplus
        (column_costs,) = self.program.encoded_cost.each(point[None], self.case.x)
        costs = np.array([column_costs[block].sum() for block in at_most.blocks])
        others = np.argsort(-costs, kind="stable")[at_most.count :]
        if costs[others].any():
            for feature in others.tolist():
                surplus[at_most.blocks[feature]] = True
        return surplus

    def _step_counts(self, point: FloatArray) -> FloatArray:
        """(d,) how many steps each column has moved; columns without steps have steps of 1."""
        steps = self.program.domain.steps
        return np.asarray((point - self.case.x[0]) / np.where(steps > 0.0, steps, 1.0))

    def _made_integral(self, point: FloatArray) -> FloatArray:
        """(d,) the point with whole steps and categories exactly integral.

        If only so many features may move, traces of changes are removed as well.
        """
        x, steps, at_most = self.case.x[0], self.program.domain.steps, self.program.domain.at_most
        counts = np.round(self._step_counts(point))
        point = np.where(steps > 0.0, lattice.number(x, counts, steps), point)
        for group in self.program.domain.groups:
            point[group] = np.eye(group.stop - group.start)[int(point[group].argmax())]
        change = np.abs(point - x)
        traces = change <= INTEGRALITY**2 * change.max(initial=0.0)
        return np.where(traces & (at_most is not None), x, point)

    def _improve(self) -> None:
        """Improve the best point by moving one or two integral columns, as long as that gains."""
        for _ in range(20):
            if self.point is None or self._is_over():
                return
            target_cost, point = self.cost * (1.0 - ACCURACY), self.point
            moves = self._moves(point)
            self.offer(point + moves)
            if self.cost >= target_cost and len(moves) <= 80:  # the pairs of more are too many
                changed = (moves != 0.0).astype(np.float64)
                first, second = np.nonzero(np.triu(changed @ changed.T == 0.0))
                self.offer(point + moves[first] + moves[second])
            if self.cost >= target_cost:
                return

    def _moves(self, point: FloatArray) -> FloatArray:
        """(m, d) moves of one category or column, within the bounds.

        A category becomes another, a whole column takes some steps, and a number goes back to x, or
        as far beyond it.
        """
        program, returns = self.program, np.diag(self.case.x[0] - point)
        moves = list[FloatArray]()
        for group in program.domain.groups:
            move = np.zeros((group.stop - group.start, program.width))
            move[:, group] = np.eye(len(move)) - point[group]
            moves.append(move)
        for count in (1.0, -1.0, 2.0, -2.0, 5.0, -5.0):
            moves.append(count * np.diag(program.domain.steps))
        moves += [share * returns[program.domain.numeric] for share in (1.0, 2.0)]
        every = np.vstack(moves)
        inside = ((self.case.low <= point + every) & (point + every <= self.case.high)).all(axis=1)
        return np.asarray(every[inside & every.any(axis=1)])
