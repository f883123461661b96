"""Scores of random Fourier features: sums of cosines, what bounds them, and how answers are found.

A sum of cosines is neither convex nor concave, but each cosine lies between two parabolas that
touch it at a given point, and no narrower ones do (de Leeuw & Lange, 2009):

    cos(ψ + θ)  >=  cos ψ − θ sin ψ − ½ κ(ψ) θ²          κ(ψ) = sin(ψ) / ψ, for ψ in [−π, π]
    cos(ψ + θ)  <=  cos ψ − θ sin ψ + ½ κ(ψ − π) θ²

for **all** θ. Both curvatures are at least 0, so the sum lies above a concave parabola and below a
convex one, everywhere. From those above follows how large a sum is in a ball at most
(`CosineSums.in_balls`): what noise does to a score there, `FourierMargins`, and how near a score
that is large enough can be, `DistanceBounds`. Those below lead uphill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from counterpoint.errors import InvalidInput
from counterpoint.families.uncertain.draws import joint_quantiles, least_draws
from counterpoint.families.uncertain.target import Robust
from counterpoint.numerics import EPS, TINY, BoolArray, FloatArray, IntArray, relative
from counterpoint.privacy.noise import NoiseLaw
from counterpoint.problem.costs import EncodedCost, Manhattan
from counterpoint.programs.evidence import Bounding, BoundProof
from counterpoint.programs.program import NonConvex, Program
from counterpoint.programs.region import Batch
from counterpoint.search.query import Query
from counterpoint.search.search import SafetyMargins

SHARE = 10
"""One draw in so many is used: a ball takes more work than a linear score does."""
ANCHORS = tuple((i, share) for i in (0.0, 1.0, 2.0) for share in (0.0, 0.25, 0.55))
"""How far uphill parabolas touch cosines, in units in which angles change by 1, and which share of
the way from there to their nearest tops. Without any but the first, answers are 35 % dearer."""
MULTIPLIERS = (1.02, 1.1, 1.25, 1.6, 2.2, 3.5, 6.0, 12.0, 30.0, 100.0)
"""ν in units of the largest curvature: small balls need one far above it, large ones just above;
between neighbours bounds differ by little."""


@final
@dataclass(frozen=True, eq=False)
class CosineSums:
    """N sums u(δ) = Σ_j sizes_j cos(angles_j + frequencies_j · δ) + constant about a point, δ = 0.

    The largest value in a ball is hard to find in many dimensions. But below a parabola that
    touches each cosine at some angle, its anchor, the sum is at most c + b · δ + ½ δᵀQ δ, whichever
    anchors there are. In a Euclidean ball that is bounded by weak duality, ½ ν R² + ½ bᵀ(ν − Q)⁻¹ b
    for every ν > Q, and in a ball of ‖·‖₁ it is largest at a corner. Anchored at the centre the
    bound is sharp for small balls, anchored on the way to the nearest tops of the cosines for
    larger ones; at the tops it is the constant Σ sizes.
    """

    sizes: FloatArray  # (N, K) not negative
    angles: FloatArray  # (N, K) at the point
    constants: FloatArray  # (N,)
    frequencies: FloatArray  # (K, f) for a unit of distance along each dimension

    @property
    def most(self) -> FloatArray:
        """(N,) what no sum exceeds anywhere."""
        return np.asarray(self.sizes.sum(axis=1) + self.constants)

    @property
    def slopes(self) -> FloatArray:
        """(N, f) at the point."""
        return np.asarray(-(self.sizes * np.sin(self.angles)) @ self.frequencies)

    @property
    def hessians(self) -> FloatArray:
        """(N, f, f) at the point."""
        return self._forms(-self.sizes * np.cos(self.angles))

    @property
    def below(self) -> FloatArray:
        """(N, f, f) Q >= 0 with u(δ) >= u(0) + ∇u(0) · δ − ½ δᵀQ δ for all δ."""
        return self._forms(self.sizes * sharpest(self.angles))

    def values(self, turns: FloatArray) -> FloatArray:
        """(N, T) where the angles have turned by (T, K)."""
        cosine, sine = self.sizes * np.cos(self.angles), self.sizes * np.sin(self.angles)
        value = cosine @ np.cos(turns).T - sine @ np.sin(turns).T
        return np.asarray(value + self.constants[:, None])

    def on_segment(self, to: FloatArray) -> FloatArray:
        """(N,) bounds on the values between the point and another, (f,) from it."""
        turns, steps = self.frequencies @ to, 256
        value = self.values(np.linspace(0.0, 1.0, steps + 1)[:, None] * turns).max(axis=1)
        return np.asarray(value + self.sizes @ (turns * turns) / (8.0 * steps**2))

    def in_balls(self, radii: FloatArray, *, is_round: bool) -> FloatArray:
        """(N, V) bounds on the values within radii, in ‖·‖₂ if balls are round, else in ‖·‖₁."""
        if not self.frequencies.shape[1]:
            return np.repeat(self.values(np.zeros((1, len(self.frequencies)))), len(radii), axis=1)
        bounds, finite = np.repeat(self.most[:, None], len(radii), axis=1), np.isfinite(radii)
        for anchors in self._anchors(is_round=is_round):
            by_parabola = self._by_parabola(anchors, radii[finite], is_round=is_round)
            bounds[:, finite] = np.minimum(bounds[:, finite], by_parabola)
        return bounds

    def _anchors(self, *, is_round: bool) -> Iterator[FloatArray]:
        """(N, K) turns of the angles: of a step uphill, and some share of the way to their tops."""
        uphill = self.slopes
        if not is_round:
            steepest = np.abs(uphill).max(axis=1, keepdims=True)
            uphill = np.where(np.abs(uphill) == steepest, uphill, 0.0)
        uphill /= np.maximum(np.linalg.norm(uphill, axis=1, keepdims=True), TINY)
        uphill *= _unit_distance(self.frequencies)
        for distance, share in ANCHORS:
            turn = distance * uphill @ self.frequencies.T
            beyond_top = np.remainder(self.angles + turn + np.pi, 2.0 * np.pi) - np.pi
            yield turn - share * beyond_top

    def _by_parabola(self, anchors: FloatArray, radii: FloatArray, *, is_round: bool) -> FloatArray:
        """(N, V) bounds by the parabolas that touch where the angles have turned by anchors."""
        angle = self.angles + anchors
        bend, slope = self.sizes * sharpest(angle - np.pi), -self.sizes * np.sin(angle)
        value = (self.sizes * np.cos(angle) - slope * anchors + 0.5 * bend * anchors**2).sum(axis=1)
        along = (slope - bend * anchors) @ self.frequencies
        if is_round:
            bends, towards = np.linalg.eigh(self._forms(bend))
            squares = np.einsum("nij,ni->nj", towards, along) ** 2
            growth = np.full((len(along), len(radii)), np.inf)
            for times in MULTIPLIERS:
                nu = times * np.maximum(bends[:, -1:], TINY / EPS)
                gain = (squares / (nu - bends)).sum(axis=1)
                growth = np.minimum(growth, 0.5 * (nu * radii**2 + gain[:, None]))
        else:
            growth = np.zeros((len(along), len(radii)))
            steep, square = np.abs(along), 0.5 * bend @ self.frequencies**2
            for columns in zip(steep.T[:, :, None], square.T[:, :, None], strict=True):
                growth = np.maximum(growth, columns[0] * radii + columns[1] * radii**2)
        return np.asarray((value + self.constants)[:, None] + growth)

    def _forms(self, weights: FloatArray) -> FloatArray:
        """(N, f, f) Σ_j weights_j ω_j ω_jᵀ."""
        rows = self.frequencies
        return np.asarray(np.einsum("nk,ki,kj->nij", weights, rows, rows, optimize=True))


def _unit_distance(frequencies: FloatArray) -> float:
    """The distance at which an angle changes by about 1."""
    steep = float(np.sqrt((frequencies**2).sum(axis=1).mean()))
    return 1.0 / steep if steep > 0.0 else 1.0


def sharpest(angle: FloatArray) -> FloatArray:
    """κ: sin(ψ) / ψ of angles wrapped to [−π, π]; what rounds to below 0 is 0."""
    wrapped = np.remainder(angle + np.pi, 2.0 * np.pi) - np.pi
    return np.maximum(np.sinc(wrapped / np.pi), 0.0)


@final
@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """φ(y) = (cos(Ω y + ψ) / √K, sin(Ω y + ψ) / √K, B): F = 2 K features, and a constant one."""

    frequencies: FloatArray  # (K, d) Ω
    phases: FloatArray  # (K,) ψ
    intercept: float = 0.0  # B > 0; 0 if there is no such feature

    @property
    def width(self) -> int:
        """d."""
        return self.frequencies.shape[1]

    def __call__(self, y: FloatArray) -> FloatArray:
        """(n, d) → (n, F)."""
        angle = y @ self.frequencies.T + self.phases
        pairs = np.concatenate([np.cos(angle), np.sin(angle)], axis=1) / np.sqrt(len(self.phases))
        if not self.intercept:
            return pairs
        return np.concatenate([pairs, np.full((len(y), 1), self.intercept)], axis=1)

    def gradients(self, y: FloatArray, directions: FloatArray) -> FloatArray:
        """(n, d) the gradients of φ(y) · direction, for one direction (n, F) each."""
        k = len(self.phases)
        angle = y @ self.frequencies.T + self.phases
        turn = directions[:, k : 2 * k] * np.cos(angle) - directions[:, :k] * np.sin(angle)
        return np.asarray(turn @ self.frequencies / np.sqrt(k))

    def through(self, matrix: FloatArray, offset: FloatArray) -> FourierFeatures:
        """The same features of z = matrix y + offset."""
        phases = self.frequencies @ offset + self.phases
        return replace(self, frequencies=self.frequencies @ matrix, phases=phases)

    def sums(self, weights: FloatArray, y: FloatArray) -> CosineSums:
        """Return weights · φ, for (N, F) weights, as sums of cosines about a point (d,)."""
        k, angle = len(self.phases), self.frequencies @ y + self.phases
        cosine, sine = weights[:, :k], weights[:, k : 2 * k]
        constants = weights[:, 2 * k :].sum(axis=1) * self.intercept
        sizes, angles = np.hypot(cosine, sine) / np.sqrt(k), angle - np.arctan2(sine, cosine)
        return CosineSums(sizes, angles, constants, self.frequencies)

    @property
    def least(self) -> FloatArray:
        """(F,) features of which no norm is less that ignores signs, and which of a pair is which.

        Of a pair with (a, b) the mean with (b, a), signs aside, is (m, m), m = (|a| + |b|) / 2, and
        |a| + |b| >= 1 / √K.
        """
        pairs = np.full(2 * len(self.phases), 0.5 / np.sqrt(len(self.phases)))
        return np.append(pairs, self.intercept) if self.intercept else pairs

    def rounding(self, y: FloatArray, weights: FloatArray) -> FloatArray:
        """(n,) a bound on the rounding error of weights · φ(y)."""
        k, f = len(self.phases), len(weights)
        sizes = np.hypot(weights[:k], weights[k : 2 * k]) / np.sqrt(k)
        constant = abs(float(weights[2 * k :].sum())) * self.intercept
        angle = np.abs(y) @ np.abs(self.frequencies).T + np.abs(self.phases)
        error = (self.width + 6) * EPS * angle + (f + 8) * EPS
        return np.asarray(2.0 * (error @ sizes + f * EPS * constant))


@final
@dataclass(frozen=True, eq=False)
class FourierConstraint(NonConvex):
    """weights · φ(y) >= margin + q_p(φ(y)), with q_p the p-quantile of the noise φᵀμ on a score.

    Smooth and not convex: the score is a sum of cosines. ‖φ(y)‖ is the same everywhere, so the
    quantile of spherical noise is a constant; that of Laplace noise changes a little with y.
    """

    features: FourierFeatures
    weights: FloatArray  # (F,): the score that is to lead
    margin: float = 0.0  # in score units
    law: NoiseLaw | None = None  # that of μ (F,); None for no noise
    probability: float = 0.5
    tie_coefficient: float = 0.0  # 1 if a tie is the other class's, else 0

    def closed_in(self, margin: FloatArray) -> FloatArray:
        """(n,) what (n, 2) margins of rows add to the constraint's own."""
        return np.asarray(margin @ np.array([1.0, self.tie_coefficient]))

    def excess(self, y: FloatArray) -> FloatArray:
        phi = self.features(y)
        missed = self.margin - phi @ self.weights
        if self.law is not None:
            missed = missed + self.law.quantile(self.probability, phi)
        return np.asarray(missed)

    def excess_with_slope(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n,) the excess, and its gradients (n, d)."""
        phi = self.features(y)
        missed, pull = self.margin - phi @ self.weights, np.broadcast_to(-self.weights, phi.shape)
        if self.law is not None:
            quantile, gradient = self.law.quantile_with_gradient(self.probability, phi)
            missed, pull = missed + quantile, pull + gradient
        return np.asarray(missed), self.features.gradients(y, pull)

    def about(self, y: FloatArray) -> CosineSums:
        """Return the score as a sum of cosines about a point (d,)."""
        return self.features.sums(self.weights[None], y)

    @cached_property
    def most(self) -> float:
        """What the score does not exceed anywhere."""
        return float(self.about(np.zeros(self.features.width)).most[0])

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        size = np.full(len(y), self.most + abs(self.margin))
        return relative(self.excess(y) - 64.0 * EPS * size, size)

    def duality(self, program: Program) -> None:
        """Return None: bounds come from parabolas above the score, see `DistanceBounds`."""

    @cached_property
    def least_score(self) -> float:
        """What the score has to be at least, at any point that meets it.

        The quantile of noise is a norm of φ; one that treats features and signs alike, as that of
        every law of a `PrivateSVC`, is at least that of `FourierFeatures.least`.
        """
        if self.law is None:
            return self.margin
        phi = self.features.least
        if self.law.elliptical:  # a multiple of ‖φ(y)‖, which is the same everywhere
            phi = self.features(np.zeros((1, self.features.width)))[0]
        return self.margin + float(self.law.quantile(self.probability, phi)) * (1.0 - 64.0 * EPS)


# What noise does to a score within a distance, and how near a score that is large enough can be


@final
@dataclass(frozen=True, eq=False)
class FourierMargins(SafetyMargins):
    """What answers to each of n rows have to lead by.

    The noise μ moves the score at y by φ(y)ᵀμ. An answer that was chosen by looking at w̃ is as sure
    as p if it leads by T of a set that it was looked for in: with probability p no point of the set
    is pushed by more than T, and T was fixed without a look at w̃. Sets are balls about the row, and
    the segment from the row to a prototype; all T hold at once, see `joint_quantiles`, so that an
    answer may also be the best of several.
    """

    radii: FloatArray  # (V,) in increasing order, the last infinite: costs, or roots of costs
    balls: FloatArray  # (n, V) T of the balls; infinite if answers are not looked for there
    segments: FloatArray  # (n,) T of the segments; infinite if answers are not looked for there
    starts: FloatArray  # (n, d) of the segments
    ends: FloatArray
    is_root: bool  # whether the distance is the root of the cost

    def take(self, rows: IntArray | BoolArray) -> FourierMargins:
        names = ("balls", "segments", "starts", "ends")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def places(self, cost: FloatArray) -> IntArray:
        """(n,) which is the first radius within which points of a cost are; 0 without a point."""
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

    For each draw the largest push over a set is bounded from above, not searched for. Where to look
    must not depend on the known weights: so a segment counts even if they take its end for another
    class, and no answer is looked for on it.

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
    is_root, movable = cost.kind is not Manhattan, _movable(cases)
    unit = np.sqrt(np.diag(_metric_of(cost))) if is_root else cost.absolute
    radii = np.concatenate([[0.0], np.geomspace(0.03, 15.0, 64), [np.inf]])
    radii *= _unit_distance(features.frequencies / unit)
    balls, segments = np.full((len(x), len(radii)), np.inf), np.full(len(x), np.inf)
    for i, row in enumerate(x):
        sums = features.sums(noise, row)
        pushes = [] if ends is None else [sums.on_segment(ends[i] - row)]
        if target.search != "segment":
            pushes += list(_in_distance(sums, cost, movable[i]).in_balls(radii, is_round=is_root).T)
        # A point that counts as on a segment is 1e-9 of its length away: angles that change by less
        # than a thousand along it change by no more than 1e-6. So much covers rounding, too.
        quantiles = joint_quantiles(np.stack(pushes), target.probability) * (1.0 + 1e-6)
        if ends is not None:
            segments[i], quantiles = quantiles[0], quantiles[1:]
        if len(quantiles):
            balls[i] = np.maximum.accumulate(quantiles)
    return FourierMargins(radii, balls, segments, x, x if ends is None else ends, is_root)


def _movable(cases: Batch) -> BoolArray:
    """(n, d) the columns that can move, or have to."""
    x, low, high = cases.x, cases.low, cases.high
    return np.asarray((low < high) | (low > x) | (high < x))


def _in_distance(sums: CosineSums, cost: EncodedCost, free: BoolArray) -> CosineSums:
    """The sums over the free columns (d,), in units in which a cost or its root is a norm."""
    frequencies = sums.frequencies[:, free]
    if cost.kind is Manhattan:
        return replace(sums, frequencies=frequencies / cost.absolute[free])
    root = np.linalg.cholesky(_metric_of(cost)[np.ix_(free, free)])
    return replace(sums, frequencies=frequencies @ np.linalg.inv(root).T)


def _metric_of(cost: EncodedCost) -> FloatArray:
    """(d, d) the square of a distance; categories count as ½ w δ², which is what a change costs."""
    quadratic = cost.quadratic
    full = np.diag(quadratic) if quadratic.ndim == 1 else quadratic
    return np.asarray(full + np.diag(cost.absolute))


@final
@dataclass(frozen=True, eq=False)
class DistanceBounds(Bounding):
    """Lower bounds on what any point of a program with one `FourierConstraint` costs.

    A ball in which the score is nowhere as large as it has to be holds no such point. Bounds and
    whole steps are not looked at. Where the score is too small at the tops of all its cosines,
    there is no point at all.
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

    def bounds(self, reached: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._bounds, self._bounds

    @cached_property
    def _bounds(self) -> FloatArray:
        """(n,); a row with no room at all has no point."""
        rows = enumerate(self.cases.empty.tolist())
        return np.array([np.inf if empty else self._bound(i) for i, empty in rows])

    def _bound(self, i: int) -> float:
        cost, limit, margins, x = self.cost, self.limit, self.safety_margins, self.cases.x[i]
        score, is_root = limit.about(x), cost.kind is not Manhattan
        sums = _in_distance(score, cost, _movable(self.cases)[i])
        radii = np.concatenate([[0.0], np.geomspace(1e-3, 15.0, 1024), [np.inf]])
        radii *= _unit_distance(sums.frequencies)
        size = float(score.sizes.sum()) + abs(float(score.constants[0]))
        rounding = 4096.0 * EPS * size + float(limit.features.rounding(x[None], limit.weights)[0])
        required = limit.least_score - rounding + np.zeros(len(radii))
        if margins is not None:
            radii = np.union1d(radii, margins.radii)
            ball = margins.balls[i, np.searchsorted(margins.radii, radii)]
            required = limit.least_score - rounding + np.minimum(ball, margins.segments[i])
        is_enough = sums.in_balls(radii, is_round=is_root)[0] >= required
        if not is_enough.any():
            return np.inf
        distance = float(np.append(0.0, radii)[is_enough.argmax()])
        # Rounding may have raised the least cost by a share far below 1e-9.
        return (1.0 - 1e-9) * (distance**2 if is_root else distance)
