"""What noise on the weights asks of a linear score: convex conditions, known by half-spaces.

*A fixed point.* Its score leads by the p-quantile of the noise there: a `Chance`.

*A point that was chosen by looking at the weights.* At y = x + δ the noise μ moves the score by
φ(x)ᵀμ + (Mμ)ᵀδ, at most by a + ρN: a = φ(x)ᵀμ, ρ the distance (the cost if that is a norm, else its
root), and N the dual norm of Mᵀμ over the moves that are open to the row. Let C be a set of pairs
(a, N), fixed without looking at the weights, that holds the true pair with probability p. Then with
probability p

    what noise takes from the lead of y  <=  T(ρ(y)),  T(ρ) = max over C of a + ρN,  for all y,

so a point whose lead is at least T(ρ) is as sure as p, whoever chose it and whatever they looked
at: a `SafetyMargin`. A quantile for each ρ by itself would be less, but the ρ of an answer looked
at the weights too. C is a polygon whose sides lie in a few directions between those of a and N.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from counterpoint.errors import InvalidInput
from counterpoint.noise import NoiseLaw
from counterpoint.numerics import EPS, FloatArray, relative
from counterpoint.problem.costs import EncodedCost, Manhattan
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases, CutOracle

__all__ = [
    "Chance",
    "Reach",
    "SafetyMargin",
    "corners",
    "half_spaces",
    "joint_quantiles",
    "least_draws",
    "least_lead",
    "lengths",
    "order_statistic",
]

CONFIDENCE = 0.999
"""How sure it is that a share of at least p of the noise is below what was estimated from draws."""
PILOT = 0.2
"""The part of the draws that tells how each number spreads; the others tell how far to reach."""


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
        return np.asarray(quantile - (y @ self.slope + self.constant)), half_spaces(rows, high)

    def first(self) -> LinearBounds:
        return half_spaces(np.zeros((0, len(self.slope))), np.zeros(0))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        reach = np.abs(y) + np.abs(x)
        size = reach @ np.abs(self.slope) + abs(self.constant)
        phi = reach @ np.abs(self.matrix.T) + np.abs(self.offset)
        size = size + self.law.quantile(self.probability, phi)
        return relative(self.excess(y) - 16.0 * EPS * size, size)


@final
@dataclass(frozen=True, eq=False)
class SafetyMargin(CutOracle):
    """start_v + σ_v(y − x) <= slope · y + constant for each v, about one row x.

    σ_v(δ) = rate_v ‖δ‖ is the most that a function g gains, g · δ, if its dual norm is at most
    rate_v. The norm is that of a cost: Σ absolute |δ|, or √(δᵀ quadratic δ). Each g supports the
    condition, so that it is the intersection of half-spaces.
    """

    x: FloatArray  # (d,)
    start: FloatArray  # (V,) at the corners of a polygon, in score units
    rate: FloatArray  # (V,) in score units for a unit of distance, not negative
    slope: FloatArray  # (d,) and a number: the score that is to lead
    constant: float
    least: float  # what it leads by at least where it leads by enough; infinite if it never does
    norm: EncodedCost  # the norm, or its square

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        """(n,) what leads of points (n, d) that cost (n,) have to be."""
        distance = cost if self.norm.kind is Manhattan else np.sqrt(np.maximum(cost, 0.0))
        return np.asarray((self.start + self.rate * distance[:, None]).max(axis=1))

    def excess(self, y: FloatArray) -> FloatArray:
        return self.supports(y)[0]

    def supports(self, y: FloatArray) -> tuple[FloatArray, LinearBounds]:
        delta = y - self.x
        distance, functional = lengths(self.norm, delta)
        if self.norm.kind is Manhattan:  # where nothing moves, along the slope
            along = self.norm.absolute * np.sign(self.slope)
            functional = np.where(delta == 0.0, along, functional)
        needed = self.start + self.rate * distance[:, None]
        at = needed.argmax(axis=1)
        pull = self.rate[at, None] * functional
        high = self.constant + pull @ self.x - self.start[at]
        excess = needed.max(axis=1) - (y @ self.slope + self.constant)
        return np.asarray(excess), half_spaces(pull - self.slope, high)

    def first(self) -> LinearBounds:
        """The lead at the least distance at which it can be enough, or a contradiction."""
        if np.isinf(self.least):
            return half_spaces(np.zeros((1, len(self.slope))), -np.ones(1))
        return half_spaces(-self.slope[None, :], np.array([self.constant - self.least]))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        reach = np.abs(y) + np.abs(self.x)
        size = reach @ np.abs(self.slope) + abs(self.constant)
        size = size + np.abs(self.start).max() + self.rate.max() * lengths(self.norm, reach)[0]
        return relative(self.excess(y) - 16.0 * EPS * size, size)


def lengths(norm: EncodedCost, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n,) norms of (n, d) changes; and functionals of dual norm 1, or 0, that gain as much."""
    if norm.kind is Manhattan:
        return norm(delta, np.zeros_like(delta)), norm.absolute * np.sign(delta)
    full = norm.quadratic.ndim == 2
    weighed = delta @ norm.quadratic if full else delta * norm.quadratic
    length = np.sqrt(np.maximum((delta * weighed).sum(axis=1), 0.0))
    return length, weighed / np.where(length > 0.0, length, 1.0)[:, None]


def half_spaces(rows: FloatArray, high: FloatArray) -> LinearBounds:
    """rows · y <= high, in score units."""
    return LinearBounds(rows, np.full(len(high), -np.inf), high, np.ones(len(high)))


@final
class Reach:
    """How much linear functions gain for a unit of distance from each row: dual norms.

    Only the moves that are open to a row count: whether a column may rise or fall, which categories
    may be chosen, how many features may change. How far a column may go counts in `room` alone.
    """

    def __init__(self, program: Program, cases: Cases) -> None:
        self.program, self.cases = program, cases
        self.rises, self.falls = cases.high > cases.x, cases.low < cases.x
        hot = ~program.numeric
        self.here = (cases.x > 0.5) & hot
        self.rises &= ~(hot & (cases.high < 0.5))

    def of(self, slopes: FloatArray) -> FloatArray:
        """(N, d) functions → (n, N) the most that each gains."""
        keys = np.hstack([self.rises, self.falls, self.here])
        _, first, alike = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        return np.stack([self._gains(i, slopes) for i in first.tolist()])[alike.ravel()]

    def room(self, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, 2) and (n, 2): a function (d,) gains at most each first + each second · distance.

        With all columns by the distance; and with only those that may go on forever by it, the
        others as far as they go.
        """
        cases, numeric = self.cases, self.program.numeric
        ends = np.where(slope > 0.0, cases.high, cases.low)
        goes_on = np.isinf(ends) & numeric & (slope != 0.0)
        far = np.where(goes_on | ~numeric, cases.x, ends) - cases.x
        room = np.zeros((len(far), 2))
        room[:, 1] = np.maximum(np.where(np.isfinite(far), far, 0.0) * slope, 0.0).sum(axis=1)
        most = np.stack([self.of(slope[None, :])[:, 0], np.zeros(len(far))], axis=1)
        for i, on in enumerate(goes_on):
            others = (self._best_other(i, g, slope[None, :])[0] for g in self.program.groups)
            room[i, 1] += sum(others)
            most[i, 1] = self._gains(i, np.where(on, slope, 0.0)[None, :])[0]
        return room, most

    def _gains(self, i: int, slopes: FloatArray) -> FloatArray:
        """(N,) the gains of one row: the largest share, or by Cauchy–Schwarz the root of all."""
        program, encoded_cost = self.program, self.program.encoded_cost
        is_norm = encoded_cost.kind is Manhattan
        shares = []
        for group in program.groups:
            gain = self._best_other(i, group, slopes)
            shares.append(
                (gain if is_norm else gain * gain) / (2.0 * encoded_cost.absolute[group.start])
            )
        if encoded_cost.quadratic.ndim == 1 and program.at_most is None and not is_norm:
            return np.asarray(np.sqrt(self._squares(i, slopes) + sum(shares)))
        moves = np.where(slopes > 0.0, self.rises[i], self.falls[i]) & program.numeric
        gain = np.where(moves, np.abs(slopes), 0.0)
        if is_norm:
            return np.asarray(
                np.stack([*shares, *_divided(gain, encoded_cost.absolute).T]).max(axis=0)
            )
        if encoded_cost.quadratic.ndim == 2:
            free = (self.rises[i] | self.falls[i]) & program.numeric & (encoded_cost.diagonal > 0.0)
            some = slopes[:, free]
            joint = np.linalg.solve(encoded_cost.quadratic[np.ix_(free, free)], some.T).T
            return np.asarray(np.sqrt((some * joint).sum(axis=1) + sum(shares)))
        squares = np.stack([*shares, *_divided(gain * gain, encoded_cost.quadratic).T])
        most = program.at_most
        if most is not None and most.count < len(squares):
            squares = np.partition(squares, len(squares) - most.count, axis=0)[-most.count :]
        return np.asarray(np.sqrt(squares.sum(axis=0)))

    def _squares(self, i: int, slopes: FloatArray) -> FloatArray:
        """(N,) the sums of squared gains over prices; infinite where a gain costs nothing."""
        priced, square = self.program.encoded_cost.quadratic, slopes * slopes
        rises, falls = self.rises[i] & self.program.numeric, self.falls[i] & self.program.numeric
        for j in np.flatnonzero(rises != falls):
            square[:, j] *= (slopes[:, j] > 0.0) == rises[j]
        open_ = rises | falls
        cost_cutoff = np.divide(
            1.0, priced, out=np.zeros_like(priced), where=open_ & (priced > 0.0)
        )
        free = square[:, open_ & (priced == 0.0)].any(axis=1)
        return np.where(free, np.inf, square @ cost_cutoff)

    def _best_other(self, i: int, group: slice, slopes: FloatArray) -> FloatArray:
        """(N,) what the best other category gains."""
        others = self.rises[i, group] & ~self.here[i, group]
        if not others.any():
            return np.zeros(len(slopes))
        block = slopes[:, group]
        gain = block[:, others].max(axis=1) - block[:, self.here[i, group]].sum(axis=1)
        return np.maximum(gain, 0.0)


def _divided(gain: FloatArray, encoded_cost: FloatArray) -> FloatArray:
    """(N, d) gains over prices; 0 where nothing is gained, whatever that costs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gain > 0.0, gain / encoded_cost, 0.0)


def joint_quantiles(draws: FloatArray, probability: float) -> FloatArray:
    """(…, V, N) draws of V numbers → (…, V) T with all at most T at once, with probability p.

    In units of how the first draws of each spread, T is so large that a share of the others is
    below it that is at least p, but with a chance of one in a thousand (an order statistic).

    Raises
    ------
    InvalidInput
        If there are too few draws.
    """
    n = draws.shape[-1]
    pilot = int(np.ceil(PILOT * n))
    rank = order_statistic(n - pilot, probability, CONFIDENCE)
    if rank is None:
        raise InvalidInput(
            f"Expected at least {least_draws(probability) + 3} draws of the noise to tell a "
            f"probability of {probability!r}; got draws={n}. Ask for more, or for "
            "guarantee='fixed'."
        )
    # The spread is that of the quantile asked for, or of one standard deviation.
    levels = [0.5, max(probability, 0.84)]
    middle, upper = np.quantile(draws[..., :pilot], levels, axis=-1)[..., None]
    spread = np.where(upper > middle, upper - middle, 1.0)
    scores = ((draws[..., pilot:] - middle) / spread).max(axis=-2)
    reached = np.partition(scores, rank - 1, axis=-1)[..., rank - 1]
    return np.asarray(middle[..., 0] + reached[..., None] * spread[..., 0])


@lru_cache(maxsize=256)
def order_statistic(draws: int, probability: float, confidence: float) -> int | None:
    """The least rank of draws whose place holds a share of p below it; None if none does."""
    from scipy.special import bdtrc

    ranks = np.arange(1, draws + 1)
    enough = np.flatnonzero(bdtrc(ranks - 1, draws, probability) <= 1.0 - confidence)
    return int(ranks[enough[0]]) if len(enough) else None


def least_draws(probability: float) -> int:
    """So many draws tell a probability, about; never fewer than needed."""
    least = np.log(1.0 - CONFIDENCE) / np.log(probability)
    return int(np.ceil((np.ceil(least) + 1.0) / (1.0 - PILOT))) + 2


def corners(near: FloatArray, far: FloatArray, probability: float) -> tuple[FloatArray, FloatArray]:
    """(n, N) draws of a and N → (n, V) both at the corners of polygons that hold a share of p."""
    pilot = int(np.ceil(PILOT * near.shape[1]))
    sizes = (np.sqrt((v[:, :pilot] ** 2).mean(axis=1, keepdims=True)) for v in (near, far))
    units = [np.where(size > 0.0, size, 1.0) for size in sizes]
    angle = np.linspace(0.0, 0.5 * np.pi, 8)  # each side more asks for more of all others
    sides = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    sides[[0, -1]] = np.eye(2)
    scaled = np.stack([near / units[0], far / units[1]], axis=1)
    first, second = _meetings(sides, joint_quantiles(sides @ scaled, probability))
    return first * units[0], second * units[1]


def _meetings(sides: FloatArray, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n, V) both coordinates of the corners of {z : sides z <= limits, z₂ >= 0}.

    Where two lines meet outside, the first corner stands instead.
    """
    sides = np.vstack([sides, [0.0, -1.0]])
    limits = np.hstack([limits, np.zeros((len(limits), 1))])
    i, j = np.triu_indices(len(sides), 1)
    turn = sides[i, 0] * sides[j, 1] - sides[i, 1] * sides[j, 0]
    i, j, turn = (part[np.abs(turn) > 1e-9] for part in (i, j, turn))  # which are not parallel
    first = (limits[:, i] * sides[j, 1] - limits[:, j] * sides[i, 1]) / turn
    second = (limits[:, j] * sides[i, 0] - limits[:, i] * sides[j, 0]) / turn
    values = first[:, :, None] * sides[:, 0] + second[:, :, None] * sides[:, 1]
    # Rounding must not drop a corner: with one that is a little outside, T is only larger.
    room = 1e-9 * (np.abs(limits).max(axis=1)[:, None, None] + np.abs(values))
    inside = (values <= limits[:, None, :] + room).all(axis=2)
    best = inside.argmax(axis=1)[:, None]
    chosen = np.where(inside, np.arange(inside.shape[1]), best)
    rows = np.arange(len(limits))[:, None]
    return first[rows, chosen], second[rows, chosen]


def least_lead(
    start: FloatArray, rate: FloatArray, level: FloatArray, most: FloatArray
) -> FloatArray:
    """(n,) the least lead that can be enough; infinite if none can.

    A lead is at most each ``level + most · ρ``, (n, 2), at the distance ρ. Where that is above each
    line of T is an interval of ρ; its lower end counts.
    """
    n = len(start)
    behind = (start[:, :, None] - level[:, None, :]).reshape(n, -1)
    gain = (most[:, None, :] - rate[:, :, None]).reshape(n, -1)
    rises = gain > 0.0
    at = np.divide(behind, gain, out=np.zeros_like(gain), where=rises).max(axis=1).clip(0.0)
    never = (~rises & (behind > gain * at[:, None])).any(axis=1) | np.isinf(at)
    at[never] = 0.0
    needed = (start + rate * at[:, None]).max(axis=1)
    # Lowered by what rounding may have lifted it, thousands of roundings.
    return np.where(never, np.inf, needed - 1e-12 * np.abs(needed))
