"""Optima of models of a `WaveLimit` about a point: in closed form, or by a convex program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.domains import AtMost, OneOf, Whole
from counterpoint.engine.pieces import Piece
from counterpoint.engine.program import Program
from counterpoint.engine.region import Region
from counterpoint.robust.waves import WaveLimit, parabola
from counterpoint.solvers import Effort, Outcome

__all__ = ["Ground", "Models"]

FloatArray = NDArray[np.float64]

ROOTS = 100
INTEGRAL = (Whole, OneOf, AtMost)


@final
@dataclass(frozen=True, eq=False)
class Ground:
    """A piece with one `WaveLimit`, and what its walks share.

    Parameters
    ----------
    piece
        The piece.
    """

    piece: Piece

    @cached_property
    def limit(self) -> WaveLimit:
        """The condition that is not convex."""
        (found,) = (c for c in self.piece.program.region if isinstance(c, WaveLimit))
        return found

    @cached_property
    def rest(self) -> Program:
        """The price over what else is asked; what is integral is held, see `held`."""
        program = self.piece.program
        kept = (c for c in program.region if not isinstance(c, (WaveLimit, *INTEGRAL)))
        return Program(program.price, Region(tuple(kept)))

    @cached_property
    def is_open(self) -> bool:
        """Whether nothing but bounds of columns is asked."""
        return not self.rest.affine.size and not self.rest.curved

    @cached_property
    def metric(self) -> FloatArray | None:
        """(d, d) the matrix of a price that is quadratic in all columns that are no categories."""
        price, numeric = self.rest.price, self.piece.program.numeric
        full = np.diag(price.quadratic) if price.quadratic.ndim == 1 else price.quadratic
        return full if np.diag(full)[numeric].all() else None

    def held(self, cases: Cases) -> Cases:
        """The people, whose whole columns and categories stay."""
        program = self.piece.program
        stays = (program.steps > 0.0) | ~program.numeric
        low, high = np.where(stays, cases.x, -np.inf), np.where(stays, cases.x, np.inf)
        return cases.within(low, high)


@final
@dataclass(frozen=True, eq=False)
class Models:
    """The optima for one row.

    Parameters
    ----------
    ground, case, effort
        What is asked, and of whom.
    """

    ground: Ground
    case: Cases
    effort: Effort

    def clipped(self, y: FloatArray) -> FloatArray:
        """Points moved between the bounds."""
        return np.minimum(np.maximum(y, self.case.low[0]), self.case.high[0])

    def solved(
        self, y: FloatArray, value: float, slope: FloatArray, hessian: FloatArray
    ) -> FloatArray | None:
        """(d,) the optimum of a model of the limit; None if there is none, or it is not found."""
        if self.ground.is_open and self.ground.metric is not None:
            found = self._by_root(y, value, slope, hessian)
            if found is not None:
                return found
        sizes, towards = np.linalg.eigh(hessian)
        positive = (towards * np.maximum(sizes, 0.0)) @ towards.T
        return self.convex(y, value, slope, positive)

    def _by_root(
        self, y: FloatArray, value: float, slope: FloatArray, hessian: FloatArray
    ) -> FloatArray | None:
        """The same over the columns that are free, if no bound is in its way (S-lemma).

        In coordinates in which the price is ‖z‖² and the model c + b · z + ½ Σ h z², the optimum is
        z = −ν b / (2 + ν h) for the ν > 0 at which the model is 0.
        """
        free, metric = self.case.low[0] < self.case.high[0], self.ground.metric
        assert metric is not None  # noqa: S101 (asked by the caller)
        x = self.case.x[0]
        held = self.clipped(x)
        if (metric[np.ix_(free, ~free)] @ (held - x)[~free]).any():
            return None
        root = np.linalg.inv(np.linalg.cholesky(metric[np.ix_(free, free)]))
        bends, towards = np.linalg.eigh(root @ hessian[np.ix_(free, free)] @ root.T)
        gone = (y - x)[free]
        here = value - slope[free] @ gone + 0.5 * gone @ hessian[np.ix_(free, free)] @ gone
        along = towards.T @ (root @ (slope[free] - hessian[np.ix_(free, free)] @ gone))
        z = _root(here, along, bends)
        if z is None:
            return None
        found = np.array(held)
        found[free] = x[free] + root.T @ (towards @ z)
        return found if (self.clipped(found) == found).all() else None

    def convex(
        self, y: FloatArray, value: float, slope: FloatArray, form: FloatArray
    ) -> FloatArray | None:
        """The optimum of the price where a convex parabola is not positive, within all else."""
        model = parabola(y, float(value), slope, form)
        rest = self.ground.rest
        return self._optimum(Program(rest.price, rest.region & model), self.case)

    def _optimum(self, program: Program, case: Cases) -> FloatArray | None:
        """(d,) by the first solver that finds one."""
        effort = replace(self.effort, gap=min(self.effort.gap, 1e-9))
        for prepared in Piece(program).complete(exhaustive=False):
            solution = prepared.solve(case.with_margin(np.zeros((1, 2))), effort)
            if solution.outcomes[0] == Outcome.FOUND:
                return self.clipped(solution.points[0])
        return None

    def nearest(self, y: FloatArray) -> FloatArray | None:
        """(d,) the point that meets all but the limit next to a point, in units of the price."""
        if self.ground.is_open:
            return self.clipped(y)
        rest = self.ground.rest
        case = replace(self.case, x=y[None])
        return self._optimum(Program(rest.price, rest.region), case)


def _root(here: float, along: FloatArray, bends: FloatArray) -> FloatArray | None:
    """(k,) the nearest z to 0 with here + along · z + ½ Σ bends z² <= 0; None if there is none."""
    if here <= 0.0:
        return np.zeros_like(along)

    def at(nu: float) -> tuple[FloatArray, float]:
        z = -nu * along / (2.0 + nu * bends)
        return z, here + float(along @ z + 0.5 * (bends * z) @ z)

    end = 2.0 / -float(bends[0]) if bends[0] < 0.0 else np.inf
    low, high = 0.0, 1.0 if np.isinf(end) else 0.5 * end
    for _ in range(ROOTS):
        if at(high)[1] <= 0.0:
            break
        low, high = high, (2.0 * high if np.isinf(end) else 0.5 * (high + end))
    else:
        return None
    for _ in range(ROOTS):
        middle = 0.5 * (low + high)
        if middle in {low, high}:
            break
        low, high = (middle, high) if at(middle)[1] > 0.0 else (low, middle)
    return at(high)[0]
