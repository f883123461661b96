"""Upper bounds on sums of waves over balls and segments, for many sums at once.

The largest value of u(δ) = Σ_j r_j cos(ψ_j + ω_j · δ) over a ball is hard to find in many
dimensions. What is needed is a number that it does not exceed.

*Parabolas.* Each wave lies below the parabola that touches it at some angle a_j, the anchor (see
`counterpoint.robust.waves`):

    cos(ψ + θ)  <=  cos(ψ + a) − sin(ψ + a) (θ − a) + ½ κ(ψ + a − π) (θ − a)²        for all θ.

The sum is a convex parabola c + b · δ + ½ δᵀQ δ, whichever anchors there are. Its largest value
over a Euclidean ball is bounded by weak duality, ½ ν R² + ½ bᵀ(ν − Q)⁻¹ b for every ν > Q, and over
a ball of ‖·‖₁ it is at a corner. Anchored at the centre it is sharp for small balls; anchored near
a point at which u is large, for larger ones; and at the nearest crests it is the constant Σ r_j.
Several are made for each u and the least counts.

*Covering.* In one or two dimensions a grid covers the ball. Within a cell u exceeds the largest of
its corners by at most ⅛ h² f times the largest curvature (f dimensions, cells of size h).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.robust.waves import sharpest

__all__ = ["Crests"]

FloatArray = NDArray[np.float64]

ANCHORS = (
    *((2.0, 0.0, 0.0), (2.0, 0.5, 0.0), (2.0, 0.75, 0.0), (2.0, 0.75, 0.3)),
    *((4.0, 0.75, 0.0), (4.0, 0.75, 0.3), (4.0, 0.75, 0.5), (4.0, 0.75, 0.7)),
)
"""A radius in units in which angles change by 1; how much of the way to the best point found there;
and how much of the way from that to the crests."""
STEEPER = np.array([1.02, 1.1, 1.25, 1.6, 2.2, 3.5, 6.0, 12.0, 30.0, 100.0])
"""How much larger than the largest curvature multipliers are."""
UPHILL = 40
"""Steps to a point at which a sum is large."""
COVERED = 2
"""Up to how many dimensions grids are used."""
CELLS = 48
"""Cells of a grid from one end of its largest ball to the other."""
POINTS = 257
"""Of a segment."""
TINY = 1e-300


@final
@dataclass(frozen=True, eq=False)
class Crests:
    """N sums of waves about one point.

    Parameters
    ----------
    sizes, angles
        (N, K) r, and ψ at the point.
    constants
        (N,) what is added.
    frequencies
        (K, f) ω for a unit of distance along each dimension.
    is_round
        Whether balls are those of ‖·‖₂; else of ‖·‖₁.
    """

    sizes: FloatArray
    angles: FloatArray
    constants: FloatArray
    frequencies: FloatArray
    is_round: bool

    @cached_property
    def highest(self) -> FloatArray:
        """(N,) what is not exceeded anywhere."""
        return np.asarray(self.sizes.sum(axis=1) + self.constants)

    @cached_property
    def unit(self) -> float:
        """The distance at which an angle changes by about 1."""
        steep = float(np.sqrt((self.frequencies**2).sum(axis=1).mean()))
        return 1.0 / steep if steep > 0.0 else 1.0

    def on_segment(self, to: FloatArray) -> FloatArray:
        """(N,) bounds on the values between the point and another, (f,) from it."""
        there = self.frequencies @ to
        angle = np.linspace(0.0, 1.0, POINTS)[:, None] * there
        value = self._values(angle).max(axis=1)
        return np.asarray(value + self.sizes @ (there * there) / (8.0 * (POINTS - 1) ** 2))

    def in_balls(self, radii: FloatArray) -> FloatArray:
        """(N, V) bounds on the values at the radii or nearer; they may be infinite."""
        f = self.frequencies.shape[1]
        if not f:
            return np.repeat(self._values(np.zeros((1, len(self.frequencies)))), len(radii), axis=1)
        if f <= COVERED:
            found = self._by_covering(radii)
        else:
            found = np.full((len(self.sizes), len(radii)), np.inf)
            for anchors in self._anchors():
                found = np.minimum(found, self._by_parabola(anchors, radii))
        return np.minimum(found, self.highest[:, None])

    def _values(self, turns: FloatArray) -> FloatArray:
        """(N, T) at points where the angles have turned by (T, K)."""
        features = np.concatenate([np.cos(turns), np.sin(turns)], axis=1)
        cosine, sine = self.sizes * np.cos(self.angles), -self.sizes * np.sin(self.angles)
        return (
            np.asarray(np.concatenate([cosine, sine], axis=1) @ features.T)
            + self.constants[:, None]
        )

    def _by_covering(self, radii: FloatArray) -> FloatArray:
        """One grid for all radii between one and its half."""
        out, f = np.full((len(self.sizes), len(radii)), np.inf), self.frequencies.shape[1]
        left = radii[np.isfinite(radii)]
        while len(left):
            largest = float(left.max())
            h = max(2.0 * largest / CELLS, 1e-3 * self.unit)
            some = np.flatnonzero((radii >= 0.5 * largest) & (radii <= largest))
            left = left[left < 0.5 * largest]
            if h <= self.unit:
                room = 0.125 * f * h * h * self._steepest
                out[:, some] = self._covered(radii[some], h) + room[:, None]
        return out

    def _covered(self, radii: FloatArray, h: float) -> FloatArray:
        """(N, V) the largest values at the corners of all cells that balls reach."""
        f = self.frequencies.shape[1]
        cell = h * (np.sqrt(f) if self.is_round else f)
        axis = h * np.arange(-np.ceil(radii.max() / h) - 1, np.ceil(radii.max() / h) + 2)
        grid = np.stack(np.meshgrid(*[axis] * f, indexing="ij"), axis=-1).reshape(-1, f)
        length = np.linalg.norm(grid, axis=1) if self.is_round else np.abs(grid).sum(axis=1)
        near = length <= radii.max() + cell
        values = self._values(grid[near] @ self.frequencies.T)
        reached = [
            values[:, length[near] <= radius + cell].max(axis=1) for radius in radii.tolist()
        ]
        return np.stack(reached, axis=1)

    @cached_property
    def _steepest(self) -> FloatArray:
        """(N,) the largest curvature anywhere, in any direction."""
        rows = self.frequencies
        if not rows.shape[1]:
            return np.zeros(len(self.sizes))
        forms = np.einsum("nk,ki,kj->nij", self.sizes, rows, rows, optimize=True)
        return np.asarray(np.linalg.eigvalsh(forms)[:, -1])

    def _anchors(self) -> list[FloatArray]:
        """(N, K) angles by which waves have turned where parabolas touch them."""
        found = {r: self._high(r * self.unit) for r in sorted({r for r, _, _ in ANCHORS})}
        out = []
        for radius, share, crest in ANCHORS:
            turn = share * found[radius]
            there = np.remainder(self.angles + turn + np.pi, 2.0 * np.pi) - np.pi
            out.append(turn - crest * there)
        return out

    def _high(self, radius: float) -> FloatArray:
        """(N, K) turns at points of a ball at which sums are large."""
        rows = self.frequencies
        if not self.is_round:
            turns = np.concatenate([radius * rows.T, -radius * rows.T])
            return np.asarray(turns[self._values(turns).argmax(axis=1)])
        y = np.zeros((len(self.sizes), rows.shape[1]))
        step = 2.5 / np.maximum(self._steepest, TINY)[:, None]
        for _ in range(UPHILL):
            y = y - step * ((self.sizes * np.sin(self.angles + y @ rows.T)) @ rows)
            length = np.linalg.norm(y, axis=1, keepdims=True)
            y *= np.minimum(1.0, radius / np.maximum(length, TINY))
        return np.asarray(y @ rows.T)

    def _by_parabola(self, anchors: FloatArray, radii: FloatArray) -> FloatArray:
        there, rows = self.angles + anchors, self.frequencies
        bend, slope = self.sizes * sharpest(there - np.pi), -self.sizes * np.sin(there)
        at = (self.sizes * np.cos(there) - slope * anchors + 0.5 * bend * anchors**2).sum(axis=1)
        along = (slope - bend * anchors) @ rows
        finite = np.isfinite(radii)
        far = np.full((len(there), len(radii)), np.inf)
        grown = self._in_round if self.is_round else self._at_corners
        far[:, finite] = grown(along, bend, radii[finite])
        return np.asarray((at + self.constants)[:, None] + far)

    def _at_corners(self, along: FloatArray, bend: FloatArray, radii: FloatArray) -> FloatArray:
        steep, square = np.abs(along), bend @ self.frequencies**2
        parts = [(steep * r + 0.5 * square * r * r).max(axis=1) for r in radii.tolist()]
        return np.stack(parts, axis=1)

    def _in_round(self, along: FloatArray, bend: FloatArray, radii: FloatArray) -> FloatArray:
        rows = self.frequencies
        forms = np.einsum("nk,ki,kj->nij", bend, rows, rows, optimize=True)
        bends, towards = np.linalg.eigh(forms)
        squares = np.einsum("nij,ni->nj", towards, along) ** 2
        best = np.full((len(bends), len(radii)), np.inf)
        for times in STEEPER.tolist():
            nu = times * np.maximum(bends[:, -1:], TINY)
            rest = (squares / (nu - bends)).sum(axis=1)
            best = np.minimum(best, 0.5 * (nu * radii**2 + rest[:, None]))
        return best
