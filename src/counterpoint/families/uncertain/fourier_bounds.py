"""What random Fourier features prove: how far noise can push a score, and how near answers can be.

The noise μ moves the score at y by φ(y)ᵀμ, a sum of cosines. An answer that was chosen by looking
at w̃ is as sure as p if it leads by T of a set that it was looked for in: with probability p no
point of the set is pushed by more than T, and T was fixed without a look at w̃. Sets are balls
about the row, for many radii at once, and the segment from the row to a prototype; the radius is a
cost if that is a norm, else its root.

For each draw of μ the largest push over a set is **bounded from above** (`CosineSumBounds`), not
searched for: for balls in which angles change by 2 T is too large by some hundredths, in large ones
by up to a half. All T hold at once, see `joint_quantiles`, so that an answer may also be the best
of several.

How much an answer costs at least follows from a parabola above the score, see `DistanceBounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from counterpoint.errors import InvalidInput
from counterpoint.families.uncertain.draws import joint_quantiles, least_draws
from counterpoint.families.uncertain.fourier import FourierConstraint, FourierFeatures, sharpest
from counterpoint.families.uncertain.target import Robust
from counterpoint.numerics import EPS, TINY, BoolArray, FloatArray, IntArray
from counterpoint.problem.costs import EncodedCost, Manhattan
from counterpoint.programs.evidence import Bounding, BoundProof
from counterpoint.programs.region import Batch
from counterpoint.search.query import Query
from counterpoint.search.search import SafetyMargins

__all__ = [
    "SHARE",
    "CosineSumBounds",
    "DistanceBounds",
    "FourierMargins",
    "fourier_margins",
]

SHARE = 10
"""One draw in so many is used: a ball takes more work than a linear score does."""


@final
@dataclass(frozen=True, eq=False)
class FourierMargins(SafetyMargins):
    """T for each of n rows."""

    radii: FloatArray  # (n, V) in increasing order, the last infinite
    balls: FloatArray  # (n, V) T of the balls; infinite if answers are not looked for there
    segments: FloatArray  # (n,) T of the segments; infinite if answers are not looked for there
    starts: FloatArray  # (n, d) of the segments
    ends: FloatArray
    is_root: bool  # whether the distance is the root of the cost

    def take(self, rows: IntArray | BoolArray) -> FourierMargins:
        names = ("radii", "balls", "segments", "starts", "ends")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def places(self, cost: FloatArray) -> IntArray:
        """(n,) which is the first radius within which points of a cost are."""
        distance = np.sqrt(cost) if self.is_root else cost
        return np.asarray((self.radii < distance[:, None]).sum(axis=1))

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        ball = self.balls[np.arange(len(y)), self.places(cost)]
        segment, delta = self.ends - self.starts, y - self.starts
        square = np.maximum((segment * segment).sum(axis=1), TINY)
        share = np.clip((segment * delta).sum(axis=1) / square, 0.0, 1.0)
        apart = delta - share[:, None] * segment
        is_on = (apart * apart).sum(axis=1) <= 1e-18 * square  # 1e-9 of its length away
        return np.asarray(np.minimum(ball, np.where(is_on, self.segments, np.inf)))


def fourier_margins(
    features: FourierFeatures, noise: FloatArray, target: Robust, query: Query, x: FloatArray
) -> FourierMargins:
    """T for rows (n, d), from draws (N, F) of the noise, where a target says to look for answers.

    Where that is must not depend on the known weights: so a segment counts even if they take its
    end for another class, and no answer is looked for on it.

    Raises
    ------
    InvalidInput
        If there are too few draws for the probability.
    """
    needed = least_draws(target.probability)
    if len(noise) < needed:
        raise InvalidInput(
            f"Expected at least draws={SHARE * needed} to tell a probability of "
            f"{target.probability!r} with random features, for which one draw in {SHARE} is used; "
            f"got about {SHARE * len(noise)}. Ask for more, or for guarantee='fixed'."
        )
    cost, cases = query.actionable.encoded_cost, query.actionable.cases(x)
    ends = None if target.search == "optimal" else target.prototype_point(query.features)
    if ends is not None:
        ends = np.clip(ends, cases.low, cases.high)
    is_norm, metric, movable = cost.kind is Manhattan, _metric_of(cost), _movable(cases)
    unit = cost.absolute if is_norm else np.sqrt(np.diag(metric))
    # in units in which angles change by 1, see `CosineSumBounds`
    radii = np.concatenate([[0.0], np.geomspace(0.03, 15.0, 64), [np.inf]])
    radii = radii * _unit_distance(features.frequencies / unit)
    balls, segments = np.full((len(x), len(radii)), np.inf), np.full(len(x), np.inf)
    sizes, shifts, constants = features.polar(noise)
    for i, row in enumerate(x):
        angles = features.frequencies @ row + features.phases + shifts
        sums = CosineSumBounds(sizes, angles, constants, features.frequencies, is_round=not is_norm)
        pushes = [] if ends is None else [sums.on_segment(ends[i] - row)]
        if target.search != "segment":
            free = movable[i]
            scaled = features.frequencies[:, free]
            if is_norm:
                scaled = scaled / unit[free]
            else:
                scaled = scaled @ np.linalg.inv(np.linalg.cholesky(metric[np.ix_(free, free)])).T
            pushes += list(replace(sums, frequencies=scaled).in_balls(radii).T)
        # A point that counts as on a segment is 1e-9 of its length away: angles that change by less
        # than a thousand along it change by no more than 1e-6. So much covers rounding, too.
        quantiles = joint_quantiles(np.stack(pushes), target.probability) * (1.0 + 1e-6)
        if ends is not None:
            segments[i], quantiles = quantiles[0], quantiles[1:]
        if len(quantiles):
            balls[i] = np.maximum.accumulate(quantiles)
    table = np.broadcast_to(radii, balls.shape)
    return FourierMargins(table, balls, segments, x, x if ends is None else ends, not is_norm)


def _movable(cases: Batch) -> BoolArray:
    """(n, d) the columns that can move, or have to."""
    x, low, high = cases.x, cases.low, cases.high
    return np.asarray((low < high) | (low > x) | (high < x))


def _metric_of(cost: EncodedCost) -> FloatArray:
    """(d, d) the square of a distance; categories count as ½ w δ², which is what a change costs."""
    quadratic = cost.quadratic
    full = np.diag(quadratic) if quadratic.ndim == 1 else quadratic
    return np.asarray(full + np.diag(cost.absolute))


def _unit_distance(frequencies: FloatArray) -> float:
    """The distance at which an angle changes by about 1."""
    steep = float(np.sqrt((frequencies**2).sum(axis=1).mean()))
    return 1.0 / steep if steep > 0.0 else 1.0


@final
@dataclass(frozen=True, eq=False)
class CosineSumBounds:
    """Upper bounds on N sums of cosines over balls and segments about one point.

    The largest value of u(δ) = Σ_j r_j cos(ψ_j + ω_j · δ) over a ball is hard to find in many
    dimensions. But each cosine lies below the parabola that touches it at some angle a_j, the
    anchor, so the sum lies below a convex parabola c + b · δ + ½ δᵀQ δ, whichever anchors there
    are. Its largest value over a Euclidean ball is bounded by weak duality,
    ½ ν R² + ½ bᵀ(ν − Q)⁻¹ b for every ν > Q, and over a ball of ‖·‖₁ it is at a corner. Anchored at
    the centre it is sharp for small balls; anchored near a point at which u is large, for larger
    ones; and at the nearest tops of cosines it is the constant Σ r_j. Several are made for each u
    and the least counts.
    """

    sizes: FloatArray  # (N, K) r
    angles: FloatArray  # (N, K) ψ at the point
    constants: FloatArray  # (N,) what is added
    frequencies: FloatArray  # (K, f) ω for a unit of distance along each dimension
    is_round: bool  # whether balls are those of ‖·‖₂; else of ‖·‖₁

    def on_segment(self, to: FloatArray) -> FloatArray:
        """(N,) bounds on the values between the point and another, (f,) from it."""
        turns, steps = self.frequencies @ to, 256
        value = self._values(np.linspace(0.0, 1.0, steps + 1)[:, None] * turns).max(axis=1)
        return np.asarray(value + self.sizes @ (turns * turns) / (8.0 * steps**2))

    def in_balls(self, radii: FloatArray) -> FloatArray:
        """(N, V) bounds on the values at the radii or nearer; they may be infinite."""
        if not self.frequencies.shape[1]:
            return np.repeat(self._values(np.zeros((1, len(self.frequencies)))), len(radii), axis=1)
        by_anchor = np.min([self._by_parabola(a, radii) for a in self._anchors()], axis=0)
        anywhere = self.sizes.sum(axis=1) + self.constants
        return np.minimum(by_anchor, anywhere[:, None])

    def _values(self, turns: FloatArray) -> FloatArray:
        """(N, T) at points where the angles have turned by (T, K)."""
        features = np.concatenate([np.cos(turns), np.sin(turns)], axis=1)
        cosine, sine = self.sizes * np.cos(self.angles), -self.sizes * np.sin(self.angles)
        value = np.concatenate([cosine, sine], axis=1) @ features.T
        return np.asarray(value + self.constants[:, None])

    def _forms(self, weights: FloatArray) -> FloatArray:
        rows = self.frequencies
        return np.asarray(np.einsum("nk,ki,kj->nij", weights, rows, rows, optimize=True))

    @cached_property
    def _steepest(self) -> FloatArray:
        """(N,) the largest curvature anywhere, in any direction."""
        return np.asarray(np.linalg.eigvalsh(self._forms(self.sizes))[:, -1])

    def _anchors(self) -> list[FloatArray]:
        """(N, K) changes of the angles where parabolas touch.

        Some share of those at a point where the sum is large, in balls in which angles change by
        2 and by 4, and from there some share of the way to the tops of the cosines.
        """
        anchors, unit = [], _unit_distance(self.frequencies)
        for radius, shares in (
            (2.0, ((0.0, 0.0), (0.5, 0.0), (0.75, 0.0), (0.75, 0.3))),
            (4.0, ((0.75, 0.0), (0.75, 0.3), (0.75, 0.5), (0.75, 0.7))),
        ):
            high = self._high(radius * unit)
            for share, top in shares:
                turn = share * high
                angle = np.remainder(self.angles + turn + np.pi, 2.0 * np.pi) - np.pi
                anchors.append(turn - top * angle)
        return anchors

    def _high(self, radius: float) -> FloatArray:
        """(N, K) changes of the angles at points of a ball at which sums are large."""
        rows = self.frequencies
        if not self.is_round:
            turns = np.concatenate([radius * rows.T, -radius * rows.T])
            return np.asarray(turns[self._values(turns).argmax(axis=1)])
        y = np.zeros((len(self.sizes), rows.shape[1]))
        step = 2.5 / np.maximum(self._steepest, TINY)[:, None]
        for _ in range(40):  # steps uphill
            y = y - step * ((self.sizes * np.sin(self.angles + y @ rows.T)) @ rows)
            length = np.linalg.norm(y, axis=1, keepdims=True)
            y *= radius / np.maximum(length, radius)
        return np.asarray(y @ rows.T)

    def _by_parabola(self, anchors: FloatArray, radii: FloatArray) -> FloatArray:
        """(N, V) bounds by the parabolas that touch at anchors."""
        angle = self.angles + anchors
        bend, slope = self.sizes * sharpest(angle - np.pi), -self.sizes * np.sin(angle)
        value = (self.sizes * np.cos(angle) - slope * anchors + 0.5 * bend * anchors**2).sum(axis=1)
        along = (slope - bend * anchors) @ self.frequencies
        finite = np.isfinite(radii)
        if self.is_round:
            growth = self._growth(along, bend, radii[finite])
        else:
            steep, square = np.abs(along), bend @ self.frequencies**2
            corners = [(steep * r + 0.5 * square * r * r).max(axis=1) for r in radii[finite]]
            growth = np.stack(corners, axis=1)
        bounds = np.full((len(angle), len(radii)), np.inf)
        bounds[:, finite] = (value + self.constants)[:, None] + growth
        return bounds

    def _growth(self, along: FloatArray, bend: FloatArray, radii: FloatArray) -> FloatArray:
        """(N, V) bounds on along · δ + ½ δᵀQ δ within radii, by the best of several multipliers ν.

        Small balls need a ν far above the largest curvature, large ones one just above it; between
        neighbours of the list bounds differ by little.
        """
        bends, towards = np.linalg.eigh(self._forms(bend))
        squares = np.einsum("nij,ni->nj", towards, along) ** 2
        best = np.full((len(bends), len(radii)), np.inf)
        for times in (1.02, 1.1, 1.25, 1.6, 2.2, 3.5, 6.0, 12.0, 30.0, 100.0):
            nu = times * np.maximum(bends[:, -1:], TINY / EPS)
            gain = (squares / (nu - bends)).sum(axis=1)
            best = np.minimum(best, 0.5 * (nu * radii**2 + gain[:, None]))
        return best


@final
@dataclass(frozen=True, eq=False)
class DistanceBounds(Bounding):
    """Lower bounds on what any point of a program with one `FourierConstraint` costs.

    Where the parabola above a sum of cosines u that touches it at x, u(x) + ∇u(x) · δ + ½ δᵀQ δ, is
    below the score s that is required, so is u. Under a quadratic cost δᵀP δ, for any ν >= 0 with
    2 P − ν Q positive definite, weak duality gives

        cost  >=  ν (s − u(x)) − ½ ν² ∇u(x)ᵀ (2 P − ν Q)⁻¹ ∇u(x).

    Under Σ w_j |δ_j| the parabola is largest over a ball at one of its corners, so the nearest
    point moves one column alone. Bounds and whole steps are not looked at. Where u is below s at
    the tops of all its cosines, there is no point at all.
    """

    cost: EncodedCost
    limit: FourierConstraint
    cases: Batch
    safety_margins: FourierMargins | None = None  # by how much more the score has to lead

    @property
    def is_local(self) -> bool:
        return True

    @property
    def bound_proofs(self) -> Sequence[BoundProof]:
        return []

    def bounds(
        self, reached: FloatArray, margin: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        return self._bounds, self._bounds

    @cached_property
    def _bounds(self) -> FloatArray:
        """(n,); a row with no room at all has no point."""
        rows = enumerate(self.cases.empty.tolist())
        return np.array([np.inf if empty else self._bound(i) for i, empty in rows])

    def _bound(self, i: int) -> float:
        if self.safety_margins is None:
            return float(self._least_cost(i, np.zeros(1))[0])
        radii, margins = self.safety_margins.radii[i], self.safety_margins.balls[i]
        margins = np.append(margins, self.safety_margins.segments[i])
        *in_balls, on_segment = self._least_cost(i, margins)
        # Between two radii points need the margin of the outer one.
        outer = radii**2 if self.safety_margins.is_root else radii
        inner = np.append(0.0, outer[:-1])
        shells = np.where(in_balls <= outer, np.maximum(in_balls, inner), np.inf)
        return float(min(shells.min(), on_segment))

    def _least_cost(self, i: int, safety_margins: FloatArray) -> FloatArray:
        """Bound the cost of every point that keeps each of V safety margins from below, (V,).

        The bound minimises the cost where a quadratic function above the score reaches the required
        score. It is infinite where no score is so large.
        """
        cost, limit, x = self.cost, self.limit, self.cases.x[i]
        score, free = limit.score, _movable(self.cases)[i]
        size = float(score.sizes.sum()) + abs(score.constant)
        rounding = 4096.0 * EPS * size + float(limit.features.rounding(x[None], limit.weights)[0])
        required = limit.least_score - rounding + safety_margins
        # Only an attainable score has a least cost; the others are infinite below.
        missing = np.minimum(required, score.most) - float(score.value(x[None])[0])
        slope, form = score.slope(x[None])[0][free], score.above(x)[np.ix_(free, free)]
        if not free.any():
            least = np.full(len(safety_margins), np.inf)
        elif cost.kind is Manhattan:
            least = _at_corner(missing, np.abs(slope), np.diag(form), cost.absolute[free])
        else:
            # δ = T z with δᵀ metric δ = ‖z‖² and δᵀ form δ = Σ bends z²
            root = np.linalg.inv(np.linalg.cholesky(_metric_of(cost)[np.ix_(free, free)]))
            bends, towards = np.linalg.eigh(root @ form @ root.T)
            least = _by_duality(missing, (towards.T @ (root @ slope)) ** 2, bends)
        # Rounding may have raised the least cost by a share far below 1e-9.
        least = np.where(missing > 0.0, (1.0 - 1e-9) * least, 0.0)
        return np.where(required > score.most, np.inf, least)


def _at_corner(
    missing: FloatArray, steep: FloatArray, bends: FloatArray, cost: FloatArray
) -> FloatArray:
    """(V,) the least of costs t · cost_j with steep_j t + ½ bends_j t² >= missing."""
    missing = np.maximum(missing, 0.0)[:, None]
    root = np.sqrt(steep**2 + 2.0 * np.maximum(bends, 0.0) * missing)
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = cost * 2.0 * missing / (steep + root)
    return np.asarray(np.where(cost > 0.0, cost, 0.0).min(axis=1))


def _by_duality(missing: FloatArray, squares: FloatArray, bends: FloatArray) -> FloatArray:
    """(V,) the best of the bounds by weak duality, which are concave in ν: 60 halvings."""
    low, missing = np.zeros((len(missing), 1)), missing[:, None]
    high = np.full_like(low, 2.0 / max(float(bends[-1]), TINY / EPS))
    for _ in range(60):
        nu = 0.5 * (low + high)
        taken = squares * nu * (4.0 - nu * bends) / (2.0 - nu * bends) ** 2
        is_low = 0.5 * taken.sum(axis=1, keepdims=True) < missing
        low, high = np.where(is_low, nu, low), np.where(is_low, high, nu)
    value = low * missing - 0.5 * low**2 * (squares / (2.0 - low * bends)).sum(axis=1)[:, None]
    return np.maximum(value[:, 0], 0.0)
