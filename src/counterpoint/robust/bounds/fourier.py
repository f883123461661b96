"""How far noise on the weights of random Fourier features can push a score, wherever it may go.

The noise μ moves the score at y by φ(y)ᵀμ, a sum of waves. An answer that was chosen by looking at
w̃ is as sure as p if it leads by T of a set that it was looked for in: with probability p no point
of the set is pushed by more than T, and T was fixed without a look at w̃. Sets are here

- the points at the distance ρ or nearer to the row (the distance is the cost if that is a norm,
  else its root), for many ρ at once: T grows with ρ;
- the segment from the row to a prototype.

For each draw of μ the largest push over a set is **bounded from above** (`SumsOfWaves`), not
searched for, so that the probability is kept, and T is larger than it would have to be: for balls
in which angles change by 2 by some hundredths, and in large ones by up to a half. All T hold at
once, see `joint_quantiles`, so that an answer may also be the best of several.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Manhattan, Price
from counterpoint.engine.cases import Cases
from counterpoint.engine.search import Leads
from counterpoint.errors import InvalidInput
from counterpoint.noise import NoiseLaw
from counterpoint.robust.bounds.linear import joint_quantiles, least_draws
from counterpoint.robust.waves import Waves, sharpest

__all__ = ["SumsOfWaves", "WaveDraws", "WaveLeads"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

SHARE = 10
"""Of so many draws one is used: a ball takes more work than a linear score does."""
RADII = np.concatenate([[0.0], np.geomspace(0.03, 15.0, 64), [np.inf]])
"""In units in which the angles of waves change by 1."""
ON = 1e-9
"""How far from a segment a point still is on it, relative to its length."""
ROOM = 1.0 + 1e-6
"""What that, and rounding, may add to T."""
ANCHORS = (
    *((2.0, 0.0, 0.0), (2.0, 0.5, 0.0), (2.0, 0.75, 0.0), (2.0, 0.75, 0.3)),
    *((4.0, 0.75, 0.0), (4.0, 0.75, 0.3), (4.0, 0.75, 0.5), (4.0, 0.75, 0.7)),
)
"""A radius in units in which angles change by 1; how much of the way to the best point found there;
and how much of the way from that to the crests."""
STEEPER = (1.02, 1.1, 1.25, 1.6, 2.2, 3.5, 6.0, 12.0, 30.0, 100.0)
"""How much larger than the largest curvature multipliers are."""
CELLS = 48
"""Cells of a grid from one end of its largest ball to the other."""
POINTS = 257
"""Of a segment."""
TINY = 1e-300


@final
@dataclass(frozen=True, eq=False)
class WaveLeads(Leads):
    """T for each of n rows.

    Parameters
    ----------
    radii
        (n, V) distances ρ in increasing order, the last infinite.
    balls
        (n, V) T of the balls; infinite if answers are not looked for there.
    segments
        (n,) T of the segments; infinite if answers are not looked for there.
    starts, ends
        (n, d) of the segments.
    is_root
        Whether the distance is the root of the cost.
    """

    radii: FloatArray
    balls: FloatArray
    segments: FloatArray
    starts: FloatArray
    ends: FloatArray
    is_root: bool

    def take(self, rows: NDArray[np.intp] | BoolArray) -> WaveLeads:
        names = ("radii", "balls", "segments", "starts", "ends")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def distance(self, cost: FloatArray) -> FloatArray:
        """(n,) ρ."""
        return np.sqrt(cost) if self.is_root else cost

    def cost(self, distance: float) -> float:
        """The cost at a distance."""
        return distance * distance if self.is_root else distance

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        place = (self.radii < self.distance(cost)[:, None]).sum(axis=1)
        ball = self.balls[np.arange(len(y)), place]
        way, gone = self.ends - self.starts, y - self.starts
        square = np.maximum((way * way).sum(axis=1), TINY)
        share = np.clip((way * gone).sum(axis=1) / square, 0.0, 1.0)
        off = gone - share[:, None] * way
        is_on = (off * off).sum(axis=1) <= ON * ON * square
        return np.asarray(np.minimum(ball, np.where(is_on, self.segments, np.inf)))


@final
@dataclass(frozen=True, eq=False)
class WaveDraws:
    """Draws of the noise as sums of waves.

    Parameters
    ----------
    waves
        φ.
    sizes, shifts
        (N, K) of each draw's waves.
    constants
        (N,).
    """

    waves: Waves
    sizes: FloatArray
    shifts: FloatArray
    constants: FloatArray

    @classmethod
    def drawn(cls, waves: Waves, law: NoiseLaw, draws: int, random_state: int) -> WaveDraws:
        """A tenth as many draws of a law that acts on φ."""
        noise = law.draw(max(draws // SHARE, 1), random_state)
        return cls(waves, *waves.polar(noise))

    def leads(
        self,
        probability: float,
        price: Price,
        cases: Cases,
        ends: FloatArray | None,
        *,
        in_balls: bool,
    ) -> WaveLeads:
        """T for rows.

        Parameters
        ----------
        probability
            p.
        price
            The cost.
        cases
            The rows, with their bounds.
        ends
            (n, d) the ends of segments, or None.
        in_balls
            Whether answers are looked for in balls as well.

        Raises
        ------
        InvalidInput
            If there are too few draws for the probability.
        """
        draws, needed = len(self.sizes), least_draws(probability)
        if draws < needed:
            raise InvalidInput(
                f"Expected at least draws={SHARE * needed} to tell a probability of "
                f"{probability!r} with random features, for which one draw in {SHARE} is used; got "
                f"about {SHARE * draws}. Ask for more, or for guarantee='fixed'."
            )
        is_norm = price.kind is Manhattan
        size = price.absolute if is_norm else np.sqrt(np.diag(_form(price)))
        radii = RADII * _unit(self.waves.frequencies / size)
        balls = np.full((len(cases), len(radii)), np.inf)
        segments = np.full(len(cases), np.inf)
        for i, x in enumerate(cases.x):
            pushes = [] if ends is None else [self._about(x).on_segment(ends[i] - x)]
            if in_balls:
                pushes += list(self._in_metric(price, cases, i).in_balls(radii).T)
            found = joint_quantiles(np.stack(pushes), probability) * ROOM
            if ends is not None:
                segments[i], found = found[0], found[1:]
            if in_balls:
                balls[i] = np.maximum.accumulate(found)
        table = np.broadcast_to(radii, balls.shape)
        return WaveLeads(
            table, balls, segments, cases.x, cases.x if ends is None else ends, not is_norm
        )

    def _about(self, x: FloatArray) -> SumsOfWaves:
        """The sums about a point, in the units of the columns."""
        angles = self.waves.frequencies @ x + self.waves.phases + self.shifts
        rows = self.waves.frequencies
        return SumsOfWaves(self.sizes, angles, self.constants, rows, is_round=True)

    def _in_metric(self, price: Price, cases: Cases, i: int) -> SumsOfWaves:
        """The sums about a row, in units of distance along the columns that can move."""
        x, low, high = cases.x[i], cases.low[i], cases.high[i]
        free = (low < high) | (low > x) | (high < x)
        about = self._about(x)
        own = about.frequencies[:, free]
        if price.kind is Manhattan:
            return replace(about, frequencies=own / price.absolute[free], is_round=False)
        root = np.linalg.cholesky(_form(price)[np.ix_(free, free)])
        return replace(about, frequencies=own @ np.linalg.inv(root).T)


def _form(price: Price) -> FloatArray:
    """(d, d) the square of a distance; categories count as ½ w δ², which is what a change costs."""
    full = np.diag(price.quadratic) if price.quadratic.ndim == 1 else price.quadratic
    return np.asarray(full + np.diag(price.absolute))


def _unit(frequencies: FloatArray) -> float:
    """The distance at which an angle changes by about 1."""
    steep = float(np.sqrt((frequencies**2).sum(axis=1).mean()))
    return 1.0 / steep if steep > 0.0 else 1.0


@final
@dataclass(frozen=True, eq=False)
class SumsOfWaves:
    """Upper bounds on N sums of waves over balls and segments about one point.

    The largest value of u(δ) = Σ_j r_j cos(ψ_j + ω_j · δ) over a ball is hard to find in many
    dimensions. What is needed is a number that it does not exceed.

    *Parabolas.* Each wave lies below the parabola that touches it at some angle a_j, the anchor:

        cos(ψ + θ)  <=  cos(ψ + a) − sin(ψ + a) (θ − a) + ½ κ(ψ + a − π) (θ − a)²      for all θ.

    So the sum lies below a convex parabola c + b · δ + ½ δᵀQ δ, whichever anchors there are. Its
    largest value over a Euclidean ball is bounded by weak duality, ½ ν R² + ½ bᵀ(ν − Q)⁻¹ b for
    every ν > Q, and over a ball of ‖·‖₁ it is at a corner. Anchored at the centre it is sharp for
    small balls; anchored near a point at which u is large, for larger ones; and at the nearest
    crests it is the constant Σ r_j. Several are made for each u and the least counts.

    *Covering.* In one or two dimensions a grid covers the ball. Within a cell u exceeds the largest
    of its corners by at most ⅛ h² f times the largest curvature (f dimensions, cells of size h).

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
    def unit(self) -> float:
        """The distance at which an angle changes by about 1."""
        return _unit(self.frequencies)

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
        if f <= 2:
            found = self._by_covering(radii)
        else:
            found = np.full((len(self.sizes), len(radii)), np.inf)
            for anchors in self._anchors():
                found = np.minimum(found, self._by_parabola(anchors, radii))
        anywhere = self.sizes.sum(axis=1) + self.constants
        return np.minimum(found, anywhere[:, None])

    def _values(self, turns: FloatArray) -> FloatArray:
        """(N, T) at points where the angles have turned by (T, K)."""
        features = np.concatenate([np.cos(turns), np.sin(turns)], axis=1)
        cosine, sine = self.sizes * np.cos(self.angles), -self.sizes * np.sin(self.angles)
        value = np.concatenate([cosine, sine], axis=1) @ features.T
        return np.asarray(value + self.constants[:, None])

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
        reached = [values[:, length[near] <= radius + cell].max(axis=1) for radius in radii]
        return np.stack(reached, axis=1)

    def _forms(self, weights: FloatArray) -> FloatArray:
        """(N, f, f) Σ_j weights_j ω_j ω_jᵀ."""
        rows = self.frequencies
        return np.asarray(np.einsum("nk,ki,kj->nij", weights, rows, rows, optimize=True))

    @cached_property
    def _steepest(self) -> FloatArray:
        """(N,) the largest curvature anywhere, in any direction."""
        return np.asarray(np.linalg.eigvalsh(self._forms(self.sizes))[:, -1])

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
        """(N, K) turns at points of a ball at which sums are large: 40 steps uphill."""
        rows = self.frequencies
        if not self.is_round:
            turns = np.concatenate([radius * rows.T, -radius * rows.T])
            return np.asarray(turns[self._values(turns).argmax(axis=1)])
        y = np.zeros((len(self.sizes), rows.shape[1]))
        step = 2.5 / np.maximum(self._steepest, TINY)[:, None]
        for _ in range(40):
            y = y - step * ((self.sizes * np.sin(self.angles + y @ rows.T)) @ rows)
            length = np.linalg.norm(y, axis=1, keepdims=True)
            y *= np.minimum(1.0, radius / np.maximum(length, TINY))
        return np.asarray(y @ rows.T)

    def _by_parabola(self, anchors: FloatArray, radii: FloatArray) -> FloatArray:
        """(N, V) bounds by the parabolas that touch at anchors."""
        there = self.angles + anchors
        bend, slope = self.sizes * sharpest(there - np.pi), -self.sizes * np.sin(there)
        at = (self.sizes * np.cos(there) - slope * anchors + 0.5 * bend * anchors**2).sum(axis=1)
        along = (slope - bend * anchors) @ self.frequencies
        finite = np.isfinite(radii)
        far = np.full((len(there), len(radii)), np.inf)
        grown = self._grown_round if self.is_round else self._grown_to_corners
        far[:, finite] = grown(along, bend, radii[finite])
        return np.asarray((at + self.constants)[:, None] + far)

    def _grown_to_corners(
        self, along: FloatArray, bend: FloatArray, radii: FloatArray
    ) -> FloatArray:
        steep, square = np.abs(along), bend @ self.frequencies**2
        return np.stack([(steep * r + 0.5 * square * r * r).max(axis=1) for r in radii], axis=1)

    def _grown_round(self, along: FloatArray, bend: FloatArray, radii: FloatArray) -> FloatArray:
        bends, towards = np.linalg.eigh(self._forms(bend))
        squares = np.einsum("nij,ni->nj", towards, along) ** 2
        best = np.full((len(bends), len(radii)), np.inf)
        for times in STEEPER:
            nu = times * np.maximum(bends[:, -1:], TINY)
            rest = (squares / (nu - bends)).sum(axis=1)
            best = np.minimum(best, 0.5 * (nu * radii**2 + rest[:, None]))
        return best
