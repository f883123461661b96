"""Find by how much a linear score has to lead: at a fixed point, and at one however it was chosen.

At a point that was fixed beforehand a quantile of the noise is enough, see `Chance`. At a chosen
y = x + δ the noise μ moves the score by φ(x)ᵀμ + (Mᵀμ)ᵀδ, at most by a + ρN: a = φ(x)ᵀμ, ρ the
distance (the cost if that is a norm, else its root), and N the dual norm of Mᵀμ over the moves that
are open to the row. The margin at the distance ρ is T(ρ), the largest a + ρN in a polygon that
holds the pair (a, N) with probability p. It is the largest of the lines start + rate · ρ, one for
each corner (start, rate). That it suffices at all points at once is proved on the page *When the
weights are uncertain*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.families.uncertain.draws import polygon_corners
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray, relative
from counterpoint.privacy.noise import NoiseLaw
from counterpoint.problem.costs import EncodedCost, Manhattan
from counterpoint.programs.conditions import CutOracle, LinearBounds
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.search.search import SafetyMargins


@final
@dataclass(frozen=True, eq=False)
class Chance(CutOracle):
    """q(M y + c) <= slope · y + constant, with q(φ) the p-quantile of the noise φᵀμ on a score.

    For p >= ½ and noise whose projections are log-concave and symmetric, q is a norm (Lagoa, Li &
    Sznaier 2005), so each of its gradients supports it: ∇q(v) · φ <= q(φ) for all v and φ. So the
    condition is the intersection of half-spaces, one for each v.
    """

    law: NoiseLaw  # that of μ (F,)
    probability: float  # above ½ and below 1
    matrix: FloatArray  # (F, d) M
    offset: FloatArray  # (F,) c
    slope: FloatArray  # (d,)
    constant: float  # in score units

    def excess(self, y: FloatArray) -> FloatArray:
        quantile = self.law.quantile(self.probability, y @ self.matrix.T + self.offset)
        return np.asarray(quantile - (y @ self.slope + self.constant))

    def supports(self, y: FloatArray) -> tuple[FloatArray, LinearBounds]:
        phi = y @ self.matrix.T + self.offset
        quantile, gradient = self.law.quantile_with_gradient(self.probability, phi)
        rows, high = gradient @ self.matrix - self.slope, self.constant - gradient @ self.offset
        return np.asarray(quantile - (y @ self.slope + self.constant)), _half_spaces(rows, high)

    def first(self) -> LinearBounds:
        return _half_spaces(np.zeros((0, len(self.slope))), np.zeros(0))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        reach = np.abs(y) + np.abs(x)
        size = reach @ np.abs(self.slope) + abs(self.constant)
        phi = reach @ np.abs(self.matrix.T) + np.abs(self.offset)
        size = size + self.law.quantile(self.probability, phi)
        return relative(self.excess(y) - 16.0 * EPS * size, size)


def _half_spaces(rows: FloatArray, high: FloatArray) -> LinearBounds:
    """rows · y <= high, in score units."""
    return LinearBounds(rows, np.full(len(high), -np.inf), high, np.ones(len(high)))


@final
@dataclass(frozen=True, eq=False)
class DistanceMargin(CutOracle):
    """start_v + rate_v ‖y − x‖ <= slope · y + constant for each v, about one row x.

    The norm is that of a cost: Σ absolute |δ|, or √(δᵀ quadratic δ). Each linear function whose
    dual norm is at most rate_v supports the condition, which is the intersection of half-spaces.
    """

    x: FloatArray  # (d,)
    start: FloatArray  # (V,) in score units
    rate: FloatArray  # (V,) in score units for a unit of distance, not negative
    slope: FloatArray  # (d,) and a number: those of the score that is to lead
    constant: float
    least: float  # the least margin that any point may suffice with; infinite if none can
    norm: EncodedCost  # the norm, or its square

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        """(n,) the margins that points (n, d) which cost (n,) need."""
        distance = cost if self.norm.kind is Manhattan else np.sqrt(np.maximum(cost, 0.0))
        return np.asarray((self.start + self.rate * distance[:, None]).max(axis=1))

    def excess(self, y: FloatArray) -> FloatArray:
        return self.supports(y)[0]

    def supports(self, y: FloatArray) -> tuple[FloatArray, LinearBounds]:
        # The subgradient at δ = y − x gives a linear function that is at most the norm everywhere,
        # and equal to it at δ. With that in place of the norm, the condition of the corner that
        # counts at y is a half-space that contains all points of the condition.
        delta = y - self.x
        distance, subgradient = _norm(self.norm, delta)
        if self.norm.kind is Manhattan:
            # Columns that do not move may have any sign; that of the score's slope cuts most.
            along_slope = self.norm.absolute * np.sign(self.slope)
            subgradient = np.where(delta == 0.0, along_slope, subgradient)
        margins = self.start + self.rate * distance[:, None]
        corner = margins.argmax(axis=1)
        gradient = self.rate[corner, None] * subgradient
        high = self.constant + gradient @ self.x - self.start[corner]
        excess = margins.max(axis=1) - (y @ self.slope + self.constant)
        return np.asarray(excess), _half_spaces(gradient - self.slope, high)

    def first(self) -> LinearBounds:
        """Return the half-space in which the score leads by the least margin; none if it is ∞."""
        if np.isinf(self.least):
            return _half_spaces(np.zeros((1, len(self.slope))), -np.ones(1))
        return _half_spaces(-self.slope[None, :], np.array([self.constant - self.least]))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        reach = np.abs(y) + np.abs(self.x)
        size = reach @ np.abs(self.slope) + abs(self.constant)
        size = size + np.abs(self.start).max() + self.rate.max() * _norm(self.norm, reach)[0]
        return relative(self.excess(y) - 16.0 * EPS * size, size)


def _norm(norm: EncodedCost, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the norms (n,) of changes (n, d), and subgradients (n, d) of the norm there."""
    if norm.kind is Manhattan:
        return norm(delta, np.zeros_like(delta)), norm.absolute * np.sign(delta)
    is_full = norm.quadratic.ndim == 2
    product = delta @ norm.quadratic if is_full else delta * norm.quadratic
    length = np.sqrt(np.maximum((delta * product).sum(axis=1), 0.0))
    return length, product / np.where(length > 0.0, length, 1.0)[:, None]


@final
@dataclass(frozen=True, eq=False)
class LinearMargins(SafetyMargins):
    """The `DistanceMargin` of each row."""

    rows: tuple[DistanceMargin, ...]

    def take(self, rows: IntArray | BoolArray) -> LinearMargins:
        return LinearMargins(tuple(self.rows[i] for i in np.arange(len(self.rows))[rows]))

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        points = zip(self.rows, y[:, None], cost[:, None], strict=True)
        return np.array([float(row.required(*point)[0]) for row, *point in points])


@final
class DualNorms:
    """Dual norms of linear functions: the most that they gain for a unit of distance from a row.

    The distance is the cost if that is a norm, else its root. Only the moves that are open to a row
    count: whether a column may rise or fall, which categories may be chosen, how many features may
    change. How far a column may go counts in `gain_bounds` alone.
    """

    def __init__(self, program: Program, cases: Batch) -> None:
        self.program, self.cases = program, cases
        self.is_norm = program.encoded_cost.kind is Manhattan
        one_hot = ~program.domain.numeric
        self.chosen = (cases.x > 0.5) & one_hot  # the categories of the rows
        self.rises = (cases.high > cases.x) & ~(one_hot & (cases.high < 0.5))
        self.falls = cases.low < cases.x

    def of(self, slopes: FloatArray) -> FloatArray:
        """Return the norms (n, N) of functions with slopes (N, d) about each row.

        They are computed once for all rows with the same moves.
        """
        moves = np.hstack([self.rises, self.falls, self.chosen])
        _, firsts, kind = np.unique(moves, axis=0, return_index=True, return_inverse=True)
        return np.stack([self._norms(i, slopes) for i in firsts.tolist()])[kind.ravel()]

    def gain_bounds(self, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound the gain of a function (d,) at a distance by two lines, constant + rate · distance.

        Constants and rates are (n, 2). The first line bounds all columns by the distance. The
        second lets columns with bounds, and categories, gain as much as they ever can, and bounds
        only columns without a bound by the distance.
        """
        cases, domain = self.cases, self.program.domain
        ends = np.where(slope > 0.0, cases.high, cases.low)
        unbounded = np.isinf(ends) & domain.numeric & (slope != 0.0)
        changes = np.where(unbounded | ~domain.numeric, cases.x, ends) - cases.x
        changes = np.where(np.isfinite(changes), changes, 0.0)
        constants = np.zeros((len(changes), 2))
        constants[:, 1] = np.maximum(changes * slope, 0.0).sum(axis=1)
        rates = np.stack([self.of(slope[None, :])[:, 0], np.zeros(len(changes))], axis=1)
        for i, columns in enumerate(unbounded):
            groups = (self._best_category(i, group, slope[None, :])[0] for group in domain.groups)
            constants[i, 1] += sum(groups)
            rates[i, 1] = self._norms(i, np.where(columns, slope, 0.0)[None, :])[0]
        return constants, rates

    def _norms(self, i: int, slopes: FloatArray) -> FloatArray:
        """Return the norms (N,) of functions with slopes (N, d) about one row.

        Where the cost is a norm, the whole distance goes to the feature that gains most for a unit
        of cost. Where its root is, a gain is at most √(Σ gain² / cost) by Cauchy–Schwarz, summed
        over the features that may change; numbers attain it. A full cost matrix Q makes √(gᵀQ⁻¹g)
        of the slopes g of the numbers that may move: a bound, since some may move one way only.
        """
        program, cost, power = self.program, self.program.encoded_cost, 1 if self.is_norm else 2
        of_categories = []  # a change of category costs twice the cost of one column
        for group in program.domain.groups:
            gain = self._best_category(i, group, slopes)
            of_categories.append(gain**power / (2.0 * cost.absolute[group.start]))
        if not self.is_norm and cost.quadratic.ndim == 2:
            free = (self.rises[i] | self.falls[i]) & program.domain.numeric & (cost.diagonal > 0.0)
            block = slopes[:, free]
            joint = np.linalg.solve(cost.quadratic[np.ix_(free, free)], block.T).T
            return np.asarray(np.sqrt((block * joint).sum(axis=1) + sum(of_categories)))
        moves = np.where(slopes > 0.0, self.rises[i], self.falls[i]) & program.domain.numeric
        gain = np.where(moves, np.abs(slopes), 0.0) ** power
        with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 where neither gains nor costs
            per_cost = gain / (cost.absolute if self.is_norm else cost.quadratic)
        of_features = np.stack([*of_categories, *np.where(gain > 0.0, per_cost, 0.0).T])
        if self.is_norm:
            return np.asarray(of_features.max(axis=0))
        at_most = program.domain.at_most
        if at_most is not None and at_most.count < len(of_features):
            left_out = len(of_features) - at_most.count
            of_features = np.partition(of_features, left_out, axis=0)[left_out:]
        return np.asarray(np.sqrt(of_features.sum(axis=0)))

    def _best_category(self, i: int, group: slice, slopes: FloatArray) -> FloatArray:
        """(N,) the gains of the best other category of one row; 0 if none gains."""
        is_open = self.rises[i, group] & ~self.chosen[i, group]
        if not is_open.any():
            return np.zeros(len(slopes))
        block = slopes[:, group]
        gain = block[:, is_open].max(axis=1) - block[:, self.chosen[i, group]].sum(axis=1)
        return np.maximum(gain, 0.0)


def linear_margins(
    noise: tuple[FloatArray, FloatArray],
    probability: float,
    program: Program,
    cases: Batch,
    score: tuple[FloatArray, float],
) -> LinearMargins:
    """Return the safety margin of each row for a score, given by its slope (d,) and constant.

    Each of N draws of the ``noise`` adds slope · y + constant, (N, d) and (N,), to the score at y.
    From a row x to a point at the distance ρ, a draw changes by at most ρ times the dual norm of
    its slope. So the pairs (draw at x, dual norm) of a polygon that holds them with the
    probability need a margin of max_v (start_v + rate_v · ρ), with a line for each corner.

    Raises
    ------
    InvalidInput
        If there are too few draws for the probability.
    """
    noise_slopes, noise_constants = noise
    cost = norm = program.encoded_cost
    if cost.kind is not Manhattan:  # the square of a norm: in one-hot columns |δ| is δ²
        is_full = cost.quadratic.ndim == 2
        square = cost.quadratic + (np.diag(cost.absolute) if is_full else cost.absolute)
        norm = EncodedCost(np.zeros(program.width), square)
    margins: list[DistanceMargin] = []
    size = max(1, (1 << 16) // len(noise_slopes))  # rows × draws that fit the cache
    for first in range(0, len(cases), size):
        block = cases.take(slice(first, first + size))
        norms = DualNorms(program, block)
        noise_at_rows = block.x @ noise_slopes.T + noise_constants  # (rows, N)
        starts, rates = polygon_corners(noise_at_rows, norms.of(noise_slopes), probability)
        # at the nearest distance at which the score can have the margin at all
        least = _least_margin(starts, rates, *_highest_scores(norms, *score)).tolist()
        margins += [
            DistanceMargin(x, start, rate, *score, least_margin, norm)
            for x, start, rate, least_margin in zip(block.x, starts, rates, least, strict=True)
        ]
    return LinearMargins(tuple(margins))


def _highest_scores(
    norms: DualNorms, slope: FloatArray, constant: float
) -> tuple[FloatArray, FloatArray]:
    """Return ``level`` and ``gain`` (n, 2): scores are at most each level + gain · distance."""
    gain_constant, gain = norms.gain_bounds(slope)
    return (norms.cases.x @ slope + constant)[:, None] + gain_constant, gain


def _least_margin(
    start: FloatArray, rate: FloatArray, level: FloatArray, gain: FloatArray
) -> FloatArray:
    """Return the least margin (n,) that any point of a row may suffice with; infinite for none.

    A point at the distance ρ needs a margin of max_v (start_v + rate_v · ρ), with V lines (n, V),
    and its score is at most min_k (level_k + gain_k · ρ), with two lines (n, 2). The score can
    reach the margin in an interval of ρ. No rate is negative, so that the least margin is the one
    at the interval's lower end.
    """
    n = len(start)
    # A score reaches a margin if deficit <= closing · ρ for each pair of lines, (n, 2 V).
    deficit = (start[:, :, None] - level[:, None, :]).reshape(n, -1)
    closing = (gain[:, None, :] - rate[:, :, None]).reshape(n, -1)
    closes = closing > 0.0
    crossings = np.divide(deficit, closing, out=np.zeros_like(closing), where=closes)
    nearest = crossings.max(axis=1).clip(0.0)
    # The other pairs only grow apart, so one that misses at the lower end misses everywhere.
    never = (~closes & (deficit > closing * nearest[:, None])).any(axis=1) | np.isinf(nearest)
    nearest[never] = 0.0
    margin = (start + rate * nearest[:, None]).max(axis=1)
    # Thousands of roundings may have raised the margin; a smaller one stays a lower bound.
    return np.where(never, np.inf, margin - 1e-12 * np.abs(margin))


def share_answered(
    noise: tuple[FloatArray, FloatArray],
    probability: float,
    program: Program,
    case: Batch,
    score: tuple[FloatArray, float],
) -> float:
    """Estimate how often a release leaves room for an answer to one row, from public numbers alone.

    The true weights are not known. Those that are known stand for them, shrunk by as much as noise
    is expected to have lengthened them, and 100 draws of the noise are added to these. The
    parameters are those of `linear_margins`.
    """
    slopes, constants = noise
    norms = DualNorms(program, case)
    noise_norms = norms.of(slopes)
    start, rate = polygon_corners(case.x @ slopes.T + constants, noise_norms, probability)
    square = float(norms.of(score[0][None])[0, 0]) ** 2
    noise_share = float((noise_norms**2).mean()) / square if square > 0.0 else 1.0
    shrinkage = np.sqrt(max(1.0 - noise_share, 0.0))
    answered = [
        np.isfinite(_least_margin(start, rate, *_highest_scores(norms, slope, constant))[0])
        for slope, constant in zip(
            shrinkage * score[0] + slopes[:100], shrinkage * score[1] + constants[:100], strict=True
        )
    ]
    return float(np.mean(answered))
