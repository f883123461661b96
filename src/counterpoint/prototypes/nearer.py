"""Nearer to one prototype than to another, each with a metric of its own: quadratic, not convex."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.couplings import Cone
from counterpoint.engine.region import EPS, TINY, NonConvex, Region

if TYPE_CHECKING:
    from counterpoint.engine.program import Program
    from counterpoint.prototypes.curvature import Curvature

__all__ = ["Nearer"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Nearer(NonConvex):
    """‖F y + f‖² <= ‖H y + h‖² + limit.

    Parameters
    ----------
    matrix, offset
        (k, d) F and (k,) f: what y is near to.
    rival, rival_offset
        (l, d) H and (l,) h: what it is farther from.
    limit
        A number.
    tight
        By how many score units a unit of margin lowers the limit; 0 for what is a constraint and no
        part of a target.
    lost
        The same for the margin that only ties need: 1 where a tie is lost.
    """

    matrix: FloatArray
    offset: FloatArray
    rival: FloatArray
    rival_offset: FloatArray
    limit: float
    tight: float = 0.0
    lost: float = 0.0

    def closed_in(self, margin: FloatArray) -> FloatArray:
        """(n,) by how much (n, 2) margins, see `Cases`, lower the limit."""
        return np.asarray(margin @ np.array([self.tight, self.lost]))

    def tightened(self, margin: FloatArray) -> Nearer:
        """The same with its limit lowered by a (1, 2) margin."""
        return replace(self, limit=self.limit - float(self.closed_in(margin)[0]))

    def excess(self, y: FloatArray) -> FloatArray:
        """(n,) by how much points miss it, as squared distances; negative where they do not."""
        near = ((y @ self.matrix.T + self.offset) ** 2).sum(axis=1)
        far = ((y @ self.rival.T + self.rival_offset) ** 2).sum(axis=1)
        return np.asarray(near - far - self.limit)

    def along(self, y: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(n,) a, b, c with excess(y + t · step) = a t² + b t + c."""
        near, moved = y @ self.matrix.T + self.offset, step @ self.matrix.T
        far, gone = y @ self.rival.T + self.rival_offset, step @ self.rival.T
        square = (moved * moved).sum(axis=1) - (gone * gone).sum(axis=1)
        slope = 2.0 * ((near * moved).sum(axis=1) - (far * gone).sum(axis=1))
        return square, slope, self.excess(y)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        near = ((y @ self.matrix.T + self.offset) ** 2).sum(axis=1)
        far = ((y @ self.rival.T + self.rival_offset) ** 2).sum(axis=1)
        size = near + far + abs(self.limit)
        over = np.maximum(near - far - self.limit - 16.0 * EPS * size, 0.0)
        return np.where(over > 0.0, over / np.maximum(size, TINY), 0.0)

    def convexified(self, at: FloatArray, margin: float) -> Region:
        """The part of it that one tangent of the rival's distance leaves; it holds ``at``.

        ‖H y + h‖² lies above its tangents, so ‖F y + f‖² <= tangent + limit − margin =: s is convex
        and within (Artelt & Hammer, equations 38–42); it is the cone
        ‖(2 (F y + f), s/σ − σ)‖ <= s/σ + σ, for any σ > 0.
        """
        far = self.rival @ at + self.rival_offset
        slope = 2.0 * far @ self.rival
        square = float(far @ far)
        here = square + self.limit - margin
        sigma = np.sqrt(here if here > 0.0 else max(square + abs(self.limit) + margin, TINY))
        along, constant = slope / sigma, (here - float(slope @ at)) / sigma
        matrix = np.vstack([2.0 * self.matrix, along])
        offset = np.append(2.0 * self.offset, constant - sigma)
        return Region((Cone(matrix, offset, constant + sigma, along),))

    def duality(self, program: Program) -> Curvature:
        from counterpoint.prototypes.curvature import Curvature
        from counterpoint.prototypes.quadrics import Quadrics

        all_of_them = [c for c in program.nonconvex if isinstance(c, Nearer)]
        return Curvature.of(program, Quadrics(all_of_them, program.width))

    @cached_property
    def nearest(self) -> FloatArray:
        """(d, k) moves by which F y + f becomes 0, the shortest ones: y − nearest (F y + f)."""
        return np.asarray(np.linalg.pinv(self.matrix))
