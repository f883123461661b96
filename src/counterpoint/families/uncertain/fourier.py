"""Bound scores of random Fourier features, which are sums of cosines.

A sum of cosines is neither convex nor concave, but each cosine lies between two parabolas that
touch it at a given point, and no narrower ones do (de Leeuw & Lange, 2009):

    cos(ψ + θ)  >=  cos ψ − θ sin ψ − ½ κ(ψ) θ²          κ(ψ) = sin(ψ) / ψ, for ψ in [−π, π]
    cos(ψ + θ)  <=  cos ψ − θ sin ψ + ½ κ(ψ − π) θ²

for **all** θ. Both curvatures are at least 0, so the sum lies above a concave parabola and below a
convex one, everywhere. The convex ones bound a sum in a ball (`CosineSums.in_balls`), and so they
bound by how much noise lowers a score there, `FourierMargins`, and how near a score that is large
enough can be, `DistanceBounds`. The concave ones lead uphill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
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

THINNING = 10
"""One draw in so many is used: a ball takes more work than a linear score does."""


@final
@dataclass(frozen=True, eq=False)
class CosineSums:
    """N sums u(δ) = Σ_j sizes_j cos(angles_j + frequencies_j · δ) + constant about a point, δ = 0.

    The largest value in a ball is hard to find in many dimensions. But parabolas above the cosines
    add up to c + b · δ + ½ δᵀQ δ, whatever the angles at which they touch, the *anchors*. In a
    Euclidean ball of radius R the increase b · δ + ½ δᵀQ δ is at most ½ ν R² + ½ bᵀ(ν − Q)⁻¹ b for
    every ν > Q, by weak duality, and in a ball of ‖·‖₁ it is largest at a corner. Anchors at the
    centre make the bound sharp for small balls, anchors on the way to the nearest tops of the
    cosines for larger ones; at the tops it is the constant Σ sizes.
    """

    sizes: FloatArray  # (N, K) not negative
    angles: FloatArray  # (N, K) at the point
    constants: FloatArray  # (N,)
    frequencies: FloatArray  # (K, f) for a unit of distance along each dimension

    @property
    def upper_bounds(self) -> FloatArray:
        """(N,) bounds on the sums everywhere: all cosines are 1."""
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
    def curvatures_below(self) -> FloatArray:
        """(N, f, f) Q >= 0 with u(δ) >= u(0) + ∇u(0) · δ − ½ δᵀQ δ for all δ."""
        return self._forms(self.sizes * _kappa(self.angles))

    def values(self, turns: FloatArray) -> FloatArray:
        """(N, T) the sums where the angles have turned by (T, K)."""
        cosine, sine = self.sizes * np.cos(self.angles), self.sizes * np.sin(self.angles)
        value = cosine @ np.cos(turns).T - sine @ np.sin(turns).T
        return np.asarray(value + self.constants[:, None])

    def on_segment(self, to: FloatArray) -> FloatArray:
        """(N,) bounds on the sums between the point and another, (f,) from it.

        Between neighbours of a grid, a step h apart, a function exceeds the larger of its two
        values by at most h² / 8 times its curvature.
        """
        turns, steps = self.frequencies @ to, 256
        value = self.values(np.linspace(0.0, 1.0, steps + 1)[:, None] * turns).max(axis=1)
        return np.asarray(value + self.sizes @ (turns * turns) / (8.0 * steps**2))

    def in_balls(self, radii: FloatArray, *, is_round: bool) -> FloatArray:
        """(N, V) bounds on the sums within radii (V,), in ‖·‖₂ if balls are round, else in ‖·‖₁."""
        if not self.frequencies.shape[1]:
            return np.repeat(self.values(np.zeros((1, len(self.frequencies)))), len(radii), axis=1)
        finite = np.isfinite(radii)
        bounds = np.repeat(self.upper_bounds[:, None], len(radii), axis=1)
        for anchors in self._anchors(is_round=is_round):
            by_parabola = self._by_parabola(anchors, radii[finite], is_round=is_round)
            bounds[:, finite] = np.minimum(bounds[:, finite], by_parabola)
        return bounds

    def _anchors(self, *, is_round: bool) -> Iterator[FloatArray]:
        """Yield turns of the angles (N, K) at which parabolas touch the cosines.

        Each is the turn by a step uphill, in the direction in which the sum rises most for a unit
        of the ball's norm, and by a share of the way from there to each cosine's nearest top.
        """
        uphill = self.slopes  # the steepest direction in ‖·‖₂
        if not is_round:  # in ‖·‖₁ it is along one column
            steepest = np.abs(uphill).max(axis=1, keepdims=True)
            uphill = np.where(np.abs(uphill) == steepest, uphill, 0.0)
        uphill /= np.maximum(np.linalg.norm(uphill, axis=1, keepdims=True), TINY)
        uphill *= _unit_distance(self.frequencies)
        # With the first pair alone, answers cost 35 % more.
        for distance, share in product((0.0, 1.0, 2.0), (0.0, 0.25, 0.55)):
            turn = distance * uphill @ self.frequencies.T
            # (N, K) the angles there, from the nearest multiples of 2π, where cosines are 1
            beyond_top = np.remainder(self.angles + turn + np.pi, 2.0 * np.pi) - np.pi
            yield turn - share * beyond_top

    def _by_parabola(self, anchors: FloatArray, radii: FloatArray, *, is_round: bool) -> FloatArray:
        """(N, V) bounds in balls by the parabolas that touch where angles turned by ``anchors``.

        Of Σ_j sizes_j cos(angle_j) + slope_j (turn_j − anchor_j) + ½ bend_j (turn_j − anchor_j)²
        with turns frequencies · δ, c is the value at δ = 0, b the slope, and Q the curvature.
        """
        angle = self.angles + anchors
        bend, slope = self.sizes * _kappa(angle - np.pi), -self.sizes * np.sin(angle)
        c = (self.sizes * np.cos(angle) - slope * anchors + 0.5 * bend * anchors**2).sum(axis=1)
        b = (slope - bend * anchors) @ self.frequencies
        if is_round:
            curvatures, axes = np.linalg.eigh(self._forms(bend))
            squares = np.einsum("nij,ni->nj", axes, b) ** 2
            increase = np.full((len(b), len(radii)), np.inf)
            # A bound for each ν > Q, see `CosineSums`; the least counts. Small balls need one far
            # above the largest curvature, large ones one just above; between neighbours bounds
            # differ by little.
            for ratio in (1.02, 1.1, 1.25, 1.6, 2.2, 3.5, 6.0, 12.0, 30.0, 100.0):
                nu = ratio * np.maximum(curvatures[:, -1:], TINY / EPS)
                gain = (squares / (nu - curvatures)).sum(axis=1)
                increase = np.minimum(increase, 0.5 * (nu * radii**2 + gain[:, None]))
        else:
            # The parabola is convex, so it is largest at a corner: δ = ± radius along one column.
            increase = np.zeros((len(b), len(radii)))
            diagonal = 0.5 * bend @ self.frequencies**2
            for linear, square in zip(np.abs(b).T[:, :, None], diagonal.T[:, :, None], strict=True):
                increase = np.maximum(increase, linear * radii + square * radii**2)
        return np.asarray((c + self.constants)[:, None] + increase)

    def _forms(self, weights: FloatArray) -> FloatArray:
        """(N, f, f) Σ_j weights_j ω_j ω_jᵀ with the frequencies ω_j."""
        rows = self.frequencies
        return np.asarray(np.einsum("nk,ki,kj->nij", weights, rows, rows, optimize=True))


def _unit_distance(frequencies: FloatArray) -> float:
    """The distance at which an angle changes by about 1."""
    frequency = float(np.sqrt((frequencies**2).sum(axis=1).mean()))
    return 1.0 / frequency if frequency > 0.0 else 1.0


def _kappa(angle: FloatArray) -> FloatArray:
    """κ(ψ) = sin(ψ) / ψ of angles wrapped to [−π, π], at least 0 whatever rounding does."""
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
    def least_in_norm(self) -> FloatArray:
        """(F,) a vector whose norm is at most that of any φ(y), in norms that are symmetric.

        Symmetric are norms that ignore signs and the order in a pair (a, b) of cosine and sine. So
        the pair (m, m) with m = (|a| + |b|) / 2, the mean of (|a|, |b|) and (|b|, |a|), has no
        larger norm; and |a| + |b| >= 1 / √K.
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

    It is smooth and not convex, for the score is a sum of cosines. ‖φ(y)‖ is the same everywhere,
    so the quantile of spherical noise is a constant; that of Laplace noise varies a little with y.
    """

    features: FourierFeatures
    weights: FloatArray  # (F,): the score that is to lead
    margin: float = 0.0  # in score units
    law: NoiseLaw | None = None  # that of μ (F,); None for no noise
    probability: float = 0.5
    tie_coefficient: float = 0.0  # 1 if a tie is the other class's, else 0

    def closed_in(self, margin: FloatArray) -> FloatArray:
        """(n,) by how much (n, 2) margins of rows raise the constraint's own."""
        return np.asarray(margin @ np.array([1.0, self.tie_coefficient]))

    def excess(self, y: FloatArray) -> FloatArray:
        phi = self.features(y)
        excess = self.margin - phi @ self.weights
        if self.law is not None:
            excess = excess + self.law.quantile(self.probability, phi)
        return np.asarray(excess)

    def excess_with_slope(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the excess (n,) and its gradients (n, d)."""
        phi = self.features(y)
        excess, slope = self.margin - phi @ self.weights, np.broadcast_to(-self.weights, phi.shape)
        if self.law is not None:
            quantile, gradient = self.law.quantile_with_gradient(self.probability, phi)
            excess, slope = excess + quantile, slope + gradient
        return np.asarray(excess), self.features.gradients(y, slope)

    def score_about(self, y: FloatArray) -> CosineSums:
        """Return the score as a sum of cosines about a point (d,)."""
        return self.features.sums(self.weights[None], y)

    @cached_property
    def largest_score(self) -> float:
        """An upper bound on the score everywhere."""
        return float(self.score_about(np.zeros(self.features.width)).upper_bounds[0])

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        size = np.full(len(y), self.largest_score + abs(self.margin))
        return relative(self.excess(y) - 64.0 * EPS * size, size)

    def duality(self, program: Program) -> None:
        """Return None: bounds come from parabolas above the score, see `DistanceBounds`."""

    @cached_property
    def least_score(self) -> float:
        """A lower bound on the score at any point that meets the constraint.

        The quantile of noise is a norm of φ; one that treats features and signs alike, as that of
        every law of a `PrivateSVC`, is at least that of `FourierFeatures.least_in_norm`.
        """
        if self.law is None:
            return self.margin
        phi = self.features.least_in_norm
        if self.law.elliptical:  # a multiple of ‖φ(y)‖, which is the same everywhere
            phi = self.features(np.zeros((1, self.features.width)))[0]
        return self.margin + float(self.law.quantile(self.probability, phi)) * (1.0 - 64.0 * EPS)


@final
@dataclass(frozen=True, eq=False)
class FourierMargins(SafetyMargins):
    """By how much the score of an answer has to lead, for each of n rows, depending on where it is.

    The noise μ moves the score at y by φ(y)ᵀμ. An answer that was chosen by looking at w̃ holds with
    probability p if it leads by T of a set that it was looked for in: with probability p no score
    in the set is moved by more than T, and T was fixed without a look at w̃. Sets are balls about
    the row, and the segment from the row to a prototype; all T hold at once, see `joint_quantiles`,
    so that an answer may also be the best of several.
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

    def smallest_ball(self, cost: FloatArray) -> IntArray:
        """(n,) the position of the first ball that holds points of a cost (n,)."""
        distance = np.sqrt(cost) if self.is_root else cost
        return np.asarray((self.radii < distance[:, None]).sum(axis=1))

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        ball = self.balls[np.arange(len(y)), self.smallest_ball(cost)]
        segment, delta = self.ends - self.starts, y - self.starts
        square = np.maximum((segment * segment).sum(axis=1), TINY)
        share = np.clip((segment * delta).sum(axis=1) / square, 0.0, 1.0)
        offset = delta - share[:, None] * segment  # from the nearest point of the segment
        is_on_segment = (offset * offset).sum(axis=1) <= 1e-18 * square  # 1e-9 of its length
        return np.asarray(np.minimum(ball, np.where(is_on_segment, self.segments, np.inf)))


def fourier_margins(
    features: FourierFeatures, noise: FloatArray, target: Robust, query: Query, x: FloatArray
) -> FourierMargins:
    """Return the margins for rows (n, d), from draws (N, F) of the noise.

    For each draw the largest move of a score in a set is bounded from above, not searched for. The
    sets must not depend on the known weights: so a segment counts even if these take its end for
    another class, and no answer is looked for on it.

    Raises
    ------
    InvalidInput
        If there are too few draws for the probability.
    """
    needed = least_draws(target.probability)
    if len(noise) < needed:
        raise InvalidInput(
            f"Expected at least draws={THINNING * needed} to tell a probability of "
            f"{target.probability!r} with random features, for which one draw in {THINNING} is "
            f"used; got about {THINNING * len(noise)}. Ask for more, or for guarantee='fixed'."
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
        moves = [] if ends is None else [sums.on_segment(ends[i] - row)]  # one for each set, (N,)
        if target.search != "segment":
            sums = _in_distances(sums, cost, movable[i])
            moves += list(sums.in_balls(radii, is_round=is_root).T)
        # A point that counts as on a segment is 1e-9 of its length away: angles that change by less
        # than a thousand along it change by no more than 1e-6. So much covers rounding, too.
        quantiles = joint_quantiles(np.stack(moves), target.probability) * (1.0 + 1e-6)
        if ends is not None:
            segments[i], quantiles = quantiles[0], quantiles[1:]
        if len(quantiles):
            balls[i] = np.maximum.accumulate(quantiles)
    return FourierMargins(radii, balls, segments, x, x if ends is None else ends, is_root)


def _movable(cases: Batch) -> BoolArray:
    """(n, d) the columns that can move, or have to."""
    x, low, high = cases.x, cases.low, cases.high
    return np.asarray((low < high) | (low > x) | (high < x))


def _in_distances(sums: CosineSums, cost: EncodedCost, free: BoolArray) -> CosineSums:
    """Return the sums over the free columns (d,), with changes in units of distance.

    In these ‖·‖₁ is the cost, or ‖·‖₂ the root of the cost.
    """
    frequencies = sums.frequencies[:, free]
    if cost.kind is Manhattan:
        return replace(sums, frequencies=frequencies / cost.absolute[free])
    root = np.linalg.cholesky(_metric_of(cost)[np.ix_(free, free)])
    return replace(sums, frequencies=frequencies @ np.linalg.inv(root).T)


def _metric_of(cost: EncodedCost) -> FloatArray:
    """(d, d) the matrix of the cost as a squared distance.

    Categories count as ½ w δ² in each of two columns, which is what a change of one costs.
    """
    quadratic = cost.quadratic
    full = np.diag(quadratic) if quadratic.ndim == 1 else quadratic
    return np.asarray(full + np.diag(cost.absolute))


@final
@dataclass(frozen=True, eq=False)
class DistanceBounds(Bounding):
    """Lower bounds on the cost of any point of a program with one `FourierConstraint`.

    A ball in which the score is nowhere as large as it has to be holds no such point, whatever
    bounds and whole steps are. If the score is too small even at the tops of all its cosines, there
    is no point at all.
    """

    cost: EncodedCost
    constraint: FourierConstraint
    cases: Batch
    safety_margins: FourierMargins | None = None  # by how much more the score has to lead

    @property
    def is_local(self) -> bool:
        return True

    @property
    def bound_proofs(self) -> Sequence[BoundProof]:
        return []

    def bounds(self, incumbent: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._bounds, self._bounds

    @cached_property
    def _bounds(self) -> FloatArray:
        """(n,); infinite for a row whose bounds leave no point."""
        rows = enumerate(self.cases.empty.tolist())
        return np.array([np.inf if empty else self._bound(i) for i, empty in rows])

    def _bound(self, i: int) -> float:
        """Return the bound of one row: the largest radius of a ball without a point, as a cost."""
        constraint, margins, x = self.constraint, self.safety_margins, self.cases.x[i]
        score, is_root = constraint.score_about(x), self.cost.kind is not Manhattan
        sums = _in_distances(score, self.cost, _movable(self.cases)[i])
        radii = np.concatenate([[0.0], np.geomspace(1e-3, 15.0, 1024), [np.inf]])
        radii *= _unit_distance(sums.frequencies)
        size = float(score.sizes.sum()) + abs(float(score.constants[0]))
        error = float(constraint.features.rounding(x[None], constraint.weights)[0])
        # (V,) the score that points between each ball and the one before need
        required = constraint.least_score - (4096.0 * EPS * size + error) + np.zeros(len(radii))
        if margins is not None:
            radii = np.union1d(radii, margins.radii)
            ball = margins.balls[i, np.searchsorted(margins.radii, radii)]
            required = required[0] + np.minimum(ball, margins.segments[i])
        may_hold_a_point = sums.in_balls(radii, is_round=is_root)[0] >= required
        if not may_hold_a_point.any():
            return np.inf
        # The radius of the last ball before the first one that may hold a point.
        distance = float(np.append(0.0, radii)[may_hold_a_point.argmax()])
        # Rounding may have raised the least cost by a share far below 1e-9.
        return (1.0 - 1e-9) * (distance**2 if is_root else distance)
