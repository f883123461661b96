"""The convex-concave procedure for one person, from several starts, and what bounds its answer.

From a point that meets the conditions the program's convex part about it is solved, which gives a
cheaper such point, and so on until nothing improves (Artelt & Hammer, equations 38–42). The way
from one point to the next is followed as far as it stays within the conditions and gets cheaper;
Newton's method on the conditions of optimality takes the last steps at once. A start that misses
conditions is led to meet them by a penalty. Where a bound closes the gap, the search ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program
from counterpoint.prototypes.curvature import quadrics_of
from counterpoint.prototypes.solvers.floor import Floor, Relaxations
from counterpoint.prototypes.solvers.held import Stationary
from counterpoint.prototypes.solvers.moments import Relaxed
from counterpoint.prototypes.solvers.path import STALLED, Path
from counterpoint.prototypes.solvers.starts import Starts
from counterpoint.prototypes.solvers.stationary import Equations
from counterpoint.prototypes.solvers.tangents import Tangents
from counterpoint.solvers.base import Effort, Outcome

__all__ = ["Descent", "Methods"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

STEPS = 40
FAMILIAR = 0.02
"""How near to where another descent ended one is given up, relative to the change."""
FAR = 2.0
"""A start that costs so many times as much as the best point is left out."""
HOPE = 1.3
"""No start is tried after one whose answer costs so many times what is already reached."""
ALONE = 3
"""How many starts that change a single column."""


@final
@dataclass(frozen=True, eq=False)
class Methods:
    """What descents of one program use; its integral conditions are not looked at.

    Parameters
    ----------
    program
        The program.
    """

    program: Program

    @cached_property
    def relaxations(self) -> Relaxations:
        """What bounds it."""
        return Relaxations(self.program)

    @cached_property
    def tangents(self) -> Tangents:
        """The convex parts."""
        return Tangents(self.program)

    @cached_property
    def equations(self) -> Equations:
        """The conditions of optimality."""
        return Equations(self.program)

    @cached_property
    def starts(self) -> Starts:
        """Other starts."""
        return Starts(self.program)


@final
class Descent:
    """One person's search.

    Parameters
    ----------
    methods
        Of the program.
    case
        The person.
    effort
        When to stop.
    cutoff
        A cost that is already reached: a point that is not cheaper is of no use.
    """

    def __init__(self, methods: Methods, case: Cases, effort: Effort, cutoff: float) -> None:
        self.methods, self.program, self.case, self.effort = methods, methods.program, case, effort
        self.floor = Floor(methods.relaxations, case, effort, cutoff)
        self.point: FloatArray | None = None
        self.cost = np.inf
        self._optimum: Stationary | None = None
        self._certified: Stationary | None = None
        self._ends: list[tuple[FloatArray, float]] = []
        self._end = perf_counter() + effort.seconds if effort.seconds else np.inf

    @property
    def outcome(self) -> Outcome:
        """What there is to say."""
        if self.case.empty[0] or self.floor.is_empty:
            return Outcome.INFEASIBLE
        if self.is_late:
            return Outcome.LIMIT
        return Outcome.NOTHING if self.point is None else Outcome.FOUND

    @property
    def unit(self) -> FloatArray:
        """(d,) the change of each column that costs about 1."""
        return self.methods.tangents.unit

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return perf_counter() > self._end

    def run(self) -> None:
        """Search from all starts, until the gap is closed, nothing can be gained, or time is up."""
        if self.case.empty[0]:
            return
        for start in self._starts():
            self.descend(start)
            if self._is_over():
                return

    def _is_over(self) -> bool:
        if self._optimum is not self._certified and not self.floor.closes(self.cost):
            self._certified = self._optimum
            if self._optimum is not None:
                self.floor.by_optimum(self._optimum)
        return self.floor.closes(self.cost) or self.is_late

    def _starts(self) -> Iterator[FloatArray]:
        """Points to start from, the most promising first; bounds on the way."""
        nearest = self.floor.nearest()
        if self._is_over():
            return
        relaxed = self.floor.relax(nearest)
        if self._is_over():
            return
        if relaxed is None:
            yield nearest
        else:
            yield from self._relaxed_starts(relaxed)
        if self.cost > HOPE * self.floor.cutoff:
            return
        yield from self.methods.starts.prototypes
        alone = self.methods.starts.alone(self.case)
        cost = self.program.cost(alone, np.repeat(self.case.x, len(alone), axis=0))
        for i in np.argsort(cost, kind="stable")[:ALONE].tolist():
            if cost[i] <= FAR * self.cost:
                yield alone[i]

    def _relaxed_starts(self, relaxed: Relaxed) -> Iterator[FloatArray]:
        """The optimum of the relaxation, and points about as far from it as it is uncertain."""
        at, rows = self.program.convex_size, self.program.affine.size
        weights = relaxed.multipliers[at : at + len(quadrics_of(self.program))]
        self.take(self.stationary(relaxed.point, weights, relaxed.multipliers[:rows]))
        if self._is_over():
            return
        yield relaxed.point
        if self.cost <= HOPE * self.floor.cutoff:
            yield from relaxed.spread

    def take(self, found: Stationary | None) -> None:
        """Keep a stationary point if it is cheaper."""
        if found is not None and found.price < self.cost:
            self.point, self.cost, self._optimum = found.point, found.price, found

    def keep(self, point: FloatArray) -> None:
        """Keep a point if it meets the program and is cheaper."""
        cost = self.price(point)
        if cost < self.cost and self.methods.starts.met(point[None], self.case)[0]:
            self.point, self.cost, self._optimum = point, cost, None

    def price(self, point: FloatArray) -> float:
        """What a point costs."""
        return float(self.program.cost(point[None], self.case.x)[0])

    def missed(self, point: FloatArray) -> FloatArray:
        """(J,) by how much a point misses the quadratic conditions."""
        return np.asarray(quadrics_of(self.program).missed(point[None], self.case.margin)[0])

    def along(
        self, point: FloatArray, step: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(J,) a, b, c with which a + b t + c t² is what point + t · step misses."""
        quadrics = quadrics_of(self.program)
        slope = quadrics.slopes(point[None])[0] @ step
        square = np.einsum("jkl,k,l->j", quadrics.forms, step, step)
        return self.missed(point), slope, square

    def left(self) -> Effort:
        """The effort with the time that is left."""
        if not np.isfinite(self._end):
            return self.effort
        return replace(self.effort, seconds=max(self._end - perf_counter(), 1e-3))

    def stationary(
        self, point: FloatArray, weights: FloatArray, rows: FloatArray
    ) -> Stationary | None:
        """The stationary point near a point with these multipliers."""
        return self.methods.equations.near(self.case, point, weights, rows)

    def descend(self, start: FloatArray) -> None:
        """One descent; what it finds is kept if it is cheaper than what is known."""
        if not np.isfinite(start).all():
            return
        start = np.clip(start, self.case.low[0], self.case.high[0])
        self.keep(start)
        path = Path(self, start)
        for number in range(STEPS):
            if not path.goes_on(number) or self.is_late:
                break
        if path.is_within:
            self._ends.append((path.point, path.price))

    def is_familiar(self, point: FloatArray) -> bool:
        """Whether a descent that ended nearby was there already, at a lower price."""
        price = self.price(point)
        size = (np.abs(point - self.case.x[0]) / self.unit).max()
        return any(
            price >= reached * (1.0 - STALLED)
            and (np.abs(point - end) / self.unit).max() <= FAMILIAR * size
            for end, reached in self._ends
        )
