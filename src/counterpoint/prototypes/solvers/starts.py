"""Points from which the convex-concave procedure may start; they use nothing but the program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Affine
from counterpoint.engine.domains import Box
from counterpoint.engine.program import Program
from counterpoint.engine.region import Region
from counterpoint.prototypes.curvature import quadrics_of
from counterpoint.prototypes.nearer import Nearer

__all__ = ["Starts", "entry"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

MET = 1e-12
"""The largest relative violation that is rounding."""
ROUNDING = 1e-13
"""The same for quadratic conditions."""
PAST = 1e-9
"""How far beyond a root of an excess its other side is looked at, relative to the root."""


@final
@dataclass(frozen=True, eq=False)
class Starts:
    """Points for one program.

    Parameters
    ----------
    program
        The program.
    """

    program: Program

    @cached_property
    def prototypes(self) -> FloatArray:
        """(G, d) the points to which the conditions ask to be near, one for each metric."""
        first = np.unique(quadrics_of(self.program).near_of, return_index=True)[1]
        near = [quadrics_of(self.program).conditions[j] for j in first.tolist()]
        return np.stack([-condition.nearest @ condition.offset for condition in near])

    def alone(self, case: Cases) -> FloatArray:
        """(k, d) for each column the least change of it alone that meets every condition.

        Along a line an excess is a quadratic, so its roots are the only candidates; whole columns
        take the next whole step, and of a category every other one is tried.
        """
        program, x = self.program, case.x[0]
        quadrics = quadrics_of(program)
        value = quadrics.missed(case.x, case.margin)[0]
        slopes = quadrics.slopes(case.x)[0]
        bends = np.diagonal(quadrics.forms, axis1=1, axis2=2)
        moves = _roots(bends, slopes, value[:, None])
        columns = np.broadcast_to(np.arange(program.width), moves.shape)
        numeric = np.isfinite(moves) & (moves != 0.0) & program.numeric[columns]
        tried = [np.repeat(x[None], int(numeric.sum()), axis=0)]
        which, change = columns[numeric], moves[numeric]
        steps = program.steps[which]
        whole = steps > 0.0
        unit = np.where(whole, steps, 1.0)
        outward = np.sign(change) * np.ceil(np.abs(change) / unit - PAST) * unit
        tried[0][np.arange(len(which)), which] += np.where(whole, outward, change * (1.0 + PAST))
        for group in program.groups:
            other = np.repeat(x[None], group.stop - group.start, axis=0)
            other[:, group] = np.eye(group.stop - group.start)
            tried.append(other)
        points = np.vstack(tried)
        return points[self.met(points, case)]

    def met(self, points: FloatArray, case: Cases) -> BoolArray:
        """(k,): which points meet the program, but for rounding."""
        cases = case.take(np.zeros(len(points), dtype=np.intp))
        missed = quadrics_of(self.program).misses(points, cases.margin)
        chosen = np.flatnonzero((missed <= ROUNDING).all(axis=1))
        part, x = points[chosen], cases.x[chosen]
        rest = self._rest.violation(part, x)
        if self.program.affine.size:
            rest = np.maximum(rest, self.program.affine.tightened(case.margin).violation(part, x))
        inside = ((case.low <= part) & (part <= case.high)).all(axis=1)
        out = np.zeros(len(points), dtype=bool)
        out[chosen[inside & (rest <= MET)]] = True
        return out

    @cached_property
    def _rest(self) -> Region:
        """What the program asks beside quadratic conditions, rows and bounds."""
        known = (Nearer, Affine, Box)
        return Region(tuple(c for c in self.program.region if not isinstance(c, known)))


def _roots(bends: FloatArray, slopes: FloatArray, value: FloatArray) -> FloatArray:
    """(2 J, d) the roots of bends t² + slopes t + value; NaN where there is none."""
    with np.errstate(all="ignore"):
        root = np.sqrt(slopes * slopes - 4.0 * bends * value)
        larger = -0.5 * (slopes + np.where(slopes >= 0.0, root, -root))
        return np.vstack([larger / bends, value / larger])


def entry(square: FloatArray, slope: FloatArray, value: FloatArray) -> float:
    """The largest t in [0, 1] from which on to 1 no square t² + slope t + value is positive.

    NaN if one of them is positive at 1.
    """
    if (square + slope + value > 0.0).any():
        return float("nan")
    with np.errstate(all="ignore"):
        root = np.sqrt(slope * slope - 4.0 * square * value)
        larger = -0.5 * (slope + np.where(slope >= 0.0, root, -root))
        roots = np.concatenate([larger / square, value / larger])
    inside = roots[(roots > 0.0) & (roots < 1.0)]
    return float(inside.max(initial=0.0))
