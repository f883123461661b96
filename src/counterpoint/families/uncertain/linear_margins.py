"""What an answer of a linear score has to lead by: at a fixed point, and however it was chosen.

At a point that was fixed beforehand a quantile of the noise is enough, see `Chance`. At a chosen
y = x + δ the noise μ moves the score by φ(x)ᵀμ + (Mμ)ᵀδ, at most by a + ρN: a = φ(x)ᵀμ, ρ the
distance (the cost if that is a norm, else its root), and N the dual norm of Mᵀμ over the moves that
are open to the row. The margin at the distance ρ is T(ρ), the largest a + ρN in a polygon that
holds the pair (a, N) with probability p. That it suffices at all points at once is proved on the
page *When the weights are uncertain*.
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
    start: FloatArray  # (V,) at the corners of a polygon, in score units
    rate: FloatArray  # (V,) in score units for a unit of distance, not negative
    slope: FloatArray  # (d,) and a number: the score that is to lead
    constant: float
    least: float  # what it leads by at least where it leads by enough; infinite if it never does
    norm: EncodedCost  # the norm, or its square

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        """(n,) the margins that points (n, d) which cost (n,) need."""
        distance = cost if self.norm.kind is Manhattan else np.sqrt(np.maximum(cost, 0.0))
        return np.asarray((self.start + self.rate * distance[:, None]).max(axis=1))

    def excess(self, y: FloatArray) -> FloatArray:
        return self.supports(y)[0]

    def supports(self, y: FloatArray) -> tuple[FloatArray, LinearBounds]:
        delta = y - self.x
        distance, functional = _length(self.norm, delta)
        if self.norm.kind is Manhattan:  # where nothing moves, along the slope
            along = self.norm.absolute * np.sign(self.slope)
            functional = np.where(delta == 0.0, along, functional)
        needed = self.start + self.rate * distance[:, None]
        corner = needed.argmax(axis=1)
        pull = self.rate[corner, None] * functional
        high = self.constant + pull @ self.x - self.start[corner]
        excess = needed.max(axis=1) - (y @ self.slope + self.constant)
        return np.asarray(excess), _half_spaces(pull - self.slope, high)

    def first(self) -> LinearBounds:
        """Return the least margin that can be enough; or a contradiction, if none can."""
        if np.isinf(self.least):
            return _half_spaces(np.zeros((1, len(self.slope))), -np.ones(1))
        return _half_spaces(-self.slope[None, :], np.array([self.constant - self.least]))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        reach = np.abs(y) + np.abs(self.x)
        size = reach @ np.abs(self.slope) + abs(self.constant)
        size = size + np.abs(self.start).max() + self.rate.max() * _length(self.norm, reach)[0]
        return relative(self.excess(y) - 16.0 * EPS * size, size)


def _length(norm: EncodedCost, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n,) norms of (n, d) changes; and functionals of dual norm 1, or 0, that gain as much."""
    if norm.kind is Manhattan:
        return norm(delta, np.zeros_like(delta)), norm.absolute * np.sign(delta)
    full = norm.quadratic.ndim == 2
    weighed = delta @ norm.quadratic if full else delta * norm.quadratic
    length = np.sqrt(np.maximum((delta * weighed).sum(axis=1), 0.0))
    return length, weighed / np.where(length > 0.0, length, 1.0)[:, None]


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
    """The most that linear functions gain for a unit of distance from each row.

    The distance is the cost if that is a norm, else its root. Only the moves that are open to a row
    count: whether a column may rise or fall, which categories may be chosen, how many features may
    change. How far a column may go counts in `room` alone.
    """

    def __init__(self, program: Program, cases: Batch) -> None:
        self.program, self.cases = program, cases
        self.is_norm = program.encoded_cost.kind is Manhattan
        hot = ~program.domain.numeric
        self.chosen = (cases.x > 0.5) & hot  # the categories of the rows
        self.rises = (cases.high > cases.x) & ~(hot & (cases.high < 0.5))
        self.falls = cases.low < cases.x

    def of(self, slopes: FloatArray) -> FloatArray:
        """(N, d) functions → (n, N) the most that each gains."""
        keys = np.hstack([self.rises, self.falls, self.chosen])
        _, first, alike = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        return np.stack([self._gains(i, slopes) for i in first.tolist()])[alike.ravel()]

    def room(self, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, 2) and (n, 2): a function (d,) gains at most each first + each second · distance.

        With all columns by the distance; and with only those that may go on forever by it, the
        others as far as they go.
        """
        cases, numeric = self.cases, self.program.domain.numeric
        ends = np.where(slope > 0.0, cases.high, cases.low)
        unbounded = np.isinf(ends) & numeric & (slope != 0.0)
        longest = np.where(unbounded | ~numeric, cases.x, ends) - cases.x
        room = np.zeros((len(longest), 2))
        bounded = np.where(np.isfinite(longest), longest, 0.0)
        room[:, 1] = np.maximum(bounded * slope, 0.0).sum(axis=1)
        most = np.stack([self.of(slope[None, :])[:, 0], np.zeros(len(longest))], axis=1)
        for i, columns in enumerate(unbounded):
            groups = (
                self._best_category(i, g, slope[None, :])[0] for g in self.program.domain.groups
            )
            room[i, 1] += sum(groups)
            most[i, 1] = self._gains(i, np.where(columns, slope, 0.0)[None, :])[0]
        return room, most

    def _gains(self, i: int, slopes: FloatArray) -> FloatArray:
        """(N,) the gains of one row: the largest share, or by Cauchy–Schwarz the root of all."""
        program, cost, power = self.program, self.program.encoded_cost, 1 if self.is_norm else 2
        shares = []
        for group in program.domain.groups:
            gain = self._best_category(i, group, slopes)
            shares.append(gain**power / (2.0 * cost.absolute[group.start]))
        if not self.is_norm and cost.quadratic.ndim == 2:
            free = (self.rises[i] | self.falls[i]) & program.domain.numeric & (cost.diagonal > 0.0)
            block = slopes[:, free]
            joint = np.linalg.solve(cost.quadratic[np.ix_(free, free)], block.T).T
            return np.asarray(np.sqrt((block * joint).sum(axis=1) + sum(shares)))
        moves = np.where(slopes > 0.0, self.rises[i], self.falls[i]) & program.domain.numeric
        gain = np.where(moves, np.abs(slopes), 0.0) ** power
        with np.errstate(divide="ignore", invalid="ignore"):  # what gains nothing costs nothing
            per_cost = gain / (cost.absolute if self.is_norm else cost.quadratic)
        features = np.stack([*shares, *np.where(gain > 0.0, per_cost, 0.0).T])
        if self.is_norm:
            return np.asarray(features.max(axis=0))
        if program.domain.at_most is not None and program.domain.at_most.count < len(features):
            least = len(features) - program.domain.at_most.count
            features = np.partition(features, least, axis=0)[least:]
        return np.asarray(np.sqrt(features.sum(axis=0)))

    def _best_category(self, i: int, group: slice, slopes: FloatArray) -> FloatArray:
        """(N,) what the best other category gains."""
        open_ = self.rises[i, group] & ~self.chosen[i, group]
        if not open_.any():
            return np.zeros(len(slopes))
        block = slopes[:, group]
        gain = block[:, open_].max(axis=1) - block[:, self.chosen[i, group]].sum(axis=1)
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

    Raises
    ------
    InvalidInput
        If there are too few draws for the probability.
    """
    slope, constant = noise
    cost = norm = program.encoded_cost
    if cost.kind is not Manhattan:  # categories count a half of δ² for |δ|
        full = cost.quadratic.ndim == 2
        square = cost.quadratic + (np.diag(cost.absolute) if full else cost.absolute)
        norm = EncodedCost(np.zeros(program.width), square)
    margins: list[DistanceMargin] = []
    size = max(1, (1 << 16) // len(slope))  # rows × draws that fit the cache
    for first in range(0, len(cases), size):
        block = cases.take(slice(first, first + size))
        norms = DualNorms(program, block)
        # At a distance t the score is at most level + most · t; it needs start + rate · t.
        room, most = norms.room(score[0])
        level = (block.x @ score[0] + score[1])[:, None] + room
        start, rate = polygon_corners(block.x @ slope.T + constant, norms.of(slope), probability)
        least = _least_margin(start, rate, level, most)
        rows = zip(block.x, start, rate, least.tolist(), strict=True)
        margins += [DistanceMargin(x, a, n, *score, c, norm) for x, a, n, c in rows]
    return LinearMargins(tuple(margins))


def _least_margin(
    start: FloatArray, rate: FloatArray, level: FloatArray, most: FloatArray
) -> FloatArray:
    """Return the least margin (n,) that any point of a row may suffice with; infinite for none.

    At the distance ρ the required margin is the largest of the lines ``start + rate · ρ``, (n, V),
    and the score is at most each of ``level + most · ρ``, (n, 2). The score reaches the margin in
    an interval of ρ, and the margin at the interval's lower end is the least.
    """
    n = len(start)
    behind = (start[:, :, None] - level[:, None, :]).reshape(n, -1)
    gain = (most[:, None, :] - rate[:, :, None]).reshape(n, -1)
    rises = gain > 0.0
    nearest = np.divide(behind, gain, out=np.zeros_like(gain), where=rises).max(axis=1).clip(0.0)
    never = (~rises & (behind > gain * nearest[:, None])).any(axis=1) | np.isinf(nearest)
    nearest[never] = 0.0
    needed = (start + rate * nearest[:, None]).max(axis=1)
    # Thousands of roundings may have raised the margin; a smaller one stays a lower bound.
    return np.where(never, np.inf, needed - 1e-12 * np.abs(needed))


def share_answered(
    moves: tuple[FloatArray, FloatArray],
    probability: float,
    program: Program,
    case: Batch,
    score: tuple[FloatArray, float],
) -> float:
    """About how often a release leaves room for an answer to one row, from public numbers alone.

    True weights are not known; those that are known, shrunk by as much as noise is expected to have
    lengthened them, stand for them, and are released with 100 draws of the noise.
    """
    slope, constant = moves
    norms, x = DualNorms(program, case), case.x
    pulls = norms.of(slope)
    start, rate = polygon_corners(x @ slope.T + constant, pulls, probability)
    square = float(norms.of(score[0][None])[0, 0]) ** 2
    size = np.sqrt(max(1.0 - float((pulls**2).mean()) / square, 0.0)) if square > 0.0 else 0.0
    answered = 0
    for g, h in zip(slope[:100], constant[:100], strict=True):
        v, c = size * score[0] + g, size * score[1] + h
        room, most = norms.room(v)
        least = _least_margin(start, rate, (x @ v + c)[:, None] + room, most)
        answered += bool(np.isfinite(least[0]))
    return answered / len(slope[:100])
