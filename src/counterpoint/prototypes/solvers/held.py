"""What is held while Newton's method looks for a stationary point, and what is found so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.prototypes.curvature import curvature_of
from counterpoint.prototypes.solvers.kkt import Local

if TYPE_CHECKING:
    from counterpoint.prototypes.solvers.stationary import Equations

__all__ = ["Held", "Stationary"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

STEPS = 12
FAIR = 4
"""After so many steps they must at least halve each time."""
SETTLED = 1e-14
"""A step so short, relative to the change, that it is the last one."""
NEARLY = 1e-9
"""A step so short that what follows is rounding, once steps no longer shrink."""
ACTIVE = 1e-5
"""A condition that pushes this little, beside what the price pulls, is not held."""
STILL = 1e-6
"""A column that moves by less than this share of the largest move stays; and is held at a bound."""
SLACK = 1e-7
"""By how much, relatively, the conditions of optimality may be missed."""
ROUNDING = 1e-13
"""Largest relative violation of a point that meets the program."""


@final
@dataclass(frozen=True, eq=False)
class Stationary:
    """A point and its multipliers.

    Parameters
    ----------
    point
        (d,), which meets the program but for its integral conditions.
    multipliers
        (size,) of the program.
    settled
        Whether the conditions of optimality hold, so that no convex step improves on it.
    price
        What the point costs.
    """

    point: FloatArray
    multipliers: FloatArray
    settled: bool
    price: float


@final
@dataclass(frozen=True, eq=False)
class Held:
    """What is held, and where Newton's method begins.

    Parameters
    ----------
    equations, case
        The conditions of optimality, and the person.
    start
        (d,) with the columns that are held where they are held.
    moves
        (d,) the other columns.
    signs
        (d,) the directions in which the columns move.
    quadratic
        (J + balls,) the quadratic conditions that hold with equality.
    sides
        (rows,) 1 for a linear row at its upper limit, −1 at its lower one, 0 for others.
    """

    equations: Equations
    case: Cases
    start: FloatArray
    moves: BoolArray
    signs: FloatArray
    quadratic: BoolArray
    sides: FloatArray

    @classmethod
    def about(
        cls,
        equations: Equations,
        case: Cases,
        point: FloatArray,
        weights: FloatArray,
        rows: FloatArray,
    ) -> Held:
        """What seems to be held at a point."""
        program, quadrics = equations.program, equations.quadrics
        x, low, high = case.x[0], case.low[0], case.high[0]
        change = np.abs(point - x)
        reach = STILL * equations.unit * (change / equations.unit).max(initial=0.0)
        at_low, at_high = point - low <= reach, high - point <= reach
        still = (program.price.absolute > 0.0) & (change <= reach) & (low <= x) & (x <= high)
        start = np.where(still, x, np.where(at_low, low, np.where(at_high, high, point)))
        paid = ACTIVE * equations.steepness(point - x)
        steep = np.abs(quadrics.slopes(point[None])[0] * equations.unit).max(axis=1, initial=0.0)
        quadratic = np.append(weights, np.zeros(len(equations.balls))) * steep > paid
        touched = quadrics.excess(point[None])[0] >= -STILL * quadrics.limits
        quadratic[len(weights) :] = touched[len(weights) :]
        steep = np.abs(program.affine.matrix * equations.unit).max(axis=1, initial=0.0)
        strong = np.abs(rows) * steep > paid
        sides = np.where(program.affine.low == program.affine.high, 1.0, np.sign(rows) * strong)
        moves = ~(still | at_low | at_high)
        return cls(equations, case, start, moves, np.sign(point - x), quadratic, sides)

    def price_slope(self, y: FloatArray) -> FloatArray:
        """(d,) the slope of the price at a point."""
        price, delta = self.equations.program.price, y - self.case.x[0]
        full = price.quadratic @ delta if price.quadratic.ndim == 2 else price.quadratic * delta
        return np.asarray(price.absolute * self.signs + 2.0 * full)

    def weights(self, multipliers: FloatArray) -> FloatArray:
        """(1, J + balls) those of the quadratic conditions."""
        out = np.zeros((1, len(self.quadratic)))
        out[0, self.quadratic] = multipliers[: int(self.quadratic.sum())]
        return out

    def newton(self) -> tuple[FloatArray, FloatArray] | None:
        """A point and (m,) multipliers with which the conditions of optimality hold."""
        local = Local.about(self)
        step = np.zeros(local.columns)
        multipliers = local.first()
        before = np.inf
        for number in range(STEPS):
            change, multipliers = local.newton(step, multipliers)
            step = step + change
            length, size = local.length(change), local.size(step)
            if not np.isfinite(size) or (number >= FAIR and length > 0.5 * before > NEARLY * size):
                return None
            if length <= SETTLED * size or (before <= NEARLY * size and length > 0.5 * before):
                return local.point(step), multipliers
            before = length
        return None

    def repaired(self, y: FloatArray, multipliers: FloatArray) -> Held | None:
        """What else to hold or to let go; None if nothing is wrong."""
        program, x = self.equations.program, self.case.x[0]
        inside = np.minimum(np.maximum(y, self.case.low[0]), self.case.high[0])
        turned = self.moves & (program.price.absolute > 0.0) & ((y - x) * self.signs < 0.0)
        outside = self.moves & (inside != y)
        missed = self.equations.quadrics.misses(y[None], self.case.margin)[0] > ROUNDING
        pulls = self._pulls(multipliers)
        quadratic, sides = self.quadratic | missed, np.array(self.sides)
        chosen, active = np.flatnonzero(self.quadratic), np.flatnonzero(sides)
        quadratic[chosen[pulls[: len(chosen)]]] = False
        loose = active[pulls[len(chosen) :]]
        sides[loose] = 0.0
        same = (quadratic == self.quadratic).all() and (sides == self.sides).all()
        if same and not (turned | outside).any():
            return None
        moves = self.moves & ~turned & ~outside
        start = np.where(turned, x, np.where(outside, inside, y))
        return replace(self, start=start, moves=moves, quadratic=quadratic, sides=sides)

    def _pulls(self, multipliers: FloatArray) -> BoolArray:
        """(m,): whether a condition holds a point back that it should push."""
        small = -SLACK * np.abs(multipliers).max(initial=0.0)
        active = np.flatnonzero(self.sides)
        affine = self.equations.program.affine
        equal = np.zeros(len(multipliers), dtype=bool)
        equal[len(equal) - len(active) :] = affine.low[active] == affine.high[active]
        return np.asarray((multipliers < small) & ~equal)

    def judged(self, y: FloatArray, multipliers: FloatArray) -> Stationary | None:
        """What was found, if it meets the program."""
        program, margin = self.equations.program, self.case.margin
        inside = ((self.case.low[0] <= y) & (y <= self.case.high[0])).all()
        met = (self.equations.quadrics.misses(y[None], margin) <= ROUNDING).all()
        if not (inside and met):
            return None
        convex = [program.affine.tightened(margin), *program.curved]
        if max(part.violation(y[None], self.case.x)[0] for part in convex) > ROUNDING:
            return None
        weights, sides = self.weights(multipliers), np.zeros((1, program.affine.size))
        sides[0, self.sides != 0.0] = multipliers[int(self.quadratic.sum()) :]
        sides[0] *= self.sides
        pull = -(self.equations.quadrics.slope(y[None], weights) + sides @ program.affine.matrix)[0]
        settled = self._settles(y, pull) and not self._pulls(multipliers).any()
        price = float(program.cost(y[None], self.case.x)[0])
        return Stationary(y, self._spread(y, weights[0], sides[0], pull), settled, price)

    def _settles(self, y: FloatArray, pull: FloatArray) -> bool:
        """Whether nothing that is held wants to move."""
        price, x, unit = self.equations.program.price, self.case.x[0], self.equations.unit
        slope = self.price_slope(y)
        still = (y == x) & (price.absolute > 0.0)
        idle = np.sign(pull) * np.maximum(np.abs(pull) - price.absolute, 0.0)
        rest = np.where(still, idle, pull - slope)
        blocked = ((y >= self.case.high[0]) & (rest > 0.0)) | (
            (y <= self.case.low[0]) & (rest < 0.0)
        )
        room = SLACK * (np.maximum(np.abs(pull), np.abs(slope)) * unit).max(initial=0.0)
        return bool((np.where(blocked, 0.0, np.abs(rest) * unit) <= room).all())

    def _spread(
        self, y: FloatArray, weights: FloatArray, sides: FloatArray, pull: FloatArray
    ) -> FloatArray:
        """(size,) the multipliers of the program."""
        program, equations = self.equations.program, self.equations
        out = np.zeros(program.size)
        at, j = program.affine.size, len(program.nonconvex)
        out[:at] = sides
        for part in program.curved:
            if part in equations.balls:
                ball = equations.balls.index(part)
                out[at : at + part.size] = 2.0 * weights[j + ball] * (part.matrix @ y + part.offset)
            at += part.size
        out[at : at + j] = weights[:j]
        if curvature_of(program).is_absolute:  # in units of its square, see `Curvature`
            out[: at + j] *= 2.0 * float(program.cost(y[None], self.case.x)[0])
            s = np.clip(pull / program.price.absolute, -1.0, 1.0)
            first, second = curvature_of(program).pairs
            out[program.size - len(first) :] = s[first] * s[second]
        return out
