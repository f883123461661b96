"""What an answer of a linear score has to lead by, however it was chosen, row by row.

A `SafetyMargin` allows for the noise at every distance at once. Where the score rises fast, less
will do: *leads at the foot.*

w̃ = w + μ are known, w are true; v (d,) is the slope of the true score, and g = Mᵀμ the noise on it.
Lengths of moves are those of a quadratic metric P, on the columns that may move; slopes have the
dual norm. If the true score s of the row x is below 0, the nearest point where it is not is its
*foot* z = x + D v̂ with D = −s/‖v‖, v̂ the move of length 1 along which it rises most. **Where z is
does not depend on the noise**, so that it is a point which is fixed beforehand, whoever looks.

Theorem. Let P(‖g‖ > n) ≤ α₁, and P(φᵀμ > q dev(φ)) ≤ α₂ for every φ. Let r = ‖ṽ‖ > n, sin Θ = n/r.
A point y = x + δ is certified if δ is within 90° − Θ of the direction of ṽ, and if for every
direction e within Θ of it and every k ≥ eᵀPδ the known lead at x + k e, s̃ + k ṽᵀe, is above
q dev(φ(x + k e)). Whatever w is, and whoever chooses: the probability that any certified point is
wrong is at most α₁ + (1 − α₁) α₂.

Proof. Let ‖g‖ ≤ n and φ(z)ᵀμ ≤ q dev(φ(z)). As r > n, v̂ is within Θ of the direction of ṽ, so that
vᵀδ ≥ 0. If y is wrong, s + vᵀδ < 0: then s < 0, and D > v̂ᵀPδ. So e = v̂ and k = D were tested. The
true lead is 0 there, the known one φ(z)ᵀμ: a contradiction. Laplace, gamma and normal noise are
mixtures over scales of normal noise, for which a ball and a half-space on its far side are no less
likely together than independent ones (Šidák 1967, Royen 2014); both are less likely the larger the
scales, and so it holds of the mixture, too (Harris 1960). ∎

The points x + k e of one e with the least k lie on the sphere with diameter δ (Thales), so they are
at most ½‖δ‖ from x + ½δ. With c = √(1 − n²/r²) it suffices, if r c ≥ q L, L what dev(Mδ) gains for
a unit, that with u = ṽᵀδ/r and δ's part t across

    q (dev(φ(x + ½δ)) + ½ L ‖δ‖)  ≤  min(s̃, q dev(φ(x))) + r c² u − n c t,

which is convex in y, and known by half-spaces: a `FootLead`. A `SafetyMargin` takes n from each
unit of distance, this takes n²/r, and so it is nearer where r is large, and worse where it is not.

Which of them is asked for may depend on r. For all w with ‖v‖ < V let the `SafetyMargin` fail with
97 % of
1 − p, and r > r₂ have the rest; for all others let the theorem fail with 90 %, and r < r₁ have the
rest. Then up to r₁ a `SafetyMargin` is asked for, from r₂ on a `FootLead`, and between them both;
no w is failed with more than 1 − p. At r₁ both ask for as much.

References
----------
Šidák (1967), Rectangular confidence regions for the means of multivariate normal distributions.
Royen (2014), A simple proof of the Gaussian correlation conjecture. Harris (1960), A lower bound
for the critical probability in a certain percolation process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from counterpoint.families.uncertain.chance import (
    CONFIDENCE,
    Reach,
    SafetyMargin,
    corners,
    half_spaces,
    least_lead,
    lengths,
    order_statistic,
    split_along,
)
from counterpoint.models.form import AffineMap
from counterpoint.noise import NoiseLaw
from counterpoint.numerics import EPS, TINY, BoolArray, FloatArray, IntArray, relative
from counterpoint.problem.costs import EncodedCost, Manhattan
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases, CutOracle
from counterpoint.search.search import SafetyMargins

__all__ = ["FootLead", "LinearLeads", "linear_leads", "share_answered"]

BAND = 0.98
"""The part of 1 − p that a `SafetyMargin` may fail with, where a `FootLead` may stand in its
place."""


@final
@dataclass(frozen=True, eq=False)
class FootLead(CutOracle):
    """By how much a score has to lead about one row x: the inequality above, in score units."""

    x: FloatArray  # (d,)
    slope: FloatArray  # (d,) ṽ and a number: the score that is to lead
    constant: float
    norm: EncodedCost  # δᵀ P δ
    towards: FloatArray  # (d,) the move of length 1 by which the score rises most: by r, above n
    reach: float  # n
    quantile: float  # q
    moves: FloatArray  # (r, d): ‖moves δ‖ is the deviation of the noise on Mδ
    here: FloatArray  # (r,) the same of φ(x)
    steepest: float  # L

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        """(n,) what leads of points (n, d) have to be."""
        return np.asarray(self.excess(y) + y @ self.slope + self.constant)

    def excess(self, y: FloatArray) -> FloatArray:
        return self._excess_with_slope(y)[0]

    def supports(self, y: FloatArray) -> tuple[FloatArray, LinearBounds]:
        excess, slope = self._excess_with_slope(y)
        return excess, half_spaces(slope, (y * slope).sum(axis=1) - excess)

    def first(self) -> LinearBounds:
        """It leads by what a point that was fixed at x would have to lead by."""
        least = self.quantile * float(np.linalg.norm(self.here)) * (1.0 - 1e-12)
        return half_spaces(-self.slope[None, :], np.array([self.constant - least]))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        reach = np.abs(y) + np.abs(self.x)
        size = reach @ np.abs(self.slope) + abs(self.constant)
        spread = np.linalg.norm(self.here) + reach @ np.abs(self.moves).sum(axis=0)
        size = size + self.quantile * spread
        return relative(self.excess(y) - 64.0 * EPS * size, size)

    def _excess_with_slope(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n,) the left side less the right, and its gradients (n, d)."""
        delta, q, n, r = y - self.x, self.quantile, self.reach, float(self.slope @ self.towards)
        cosine = np.sqrt(1.0 - (n / r) ** 2)
        distance, functional = lengths(self.norm, delta)
        rise, aside, sideways = split_along(self.norm, delta, self.slope, self.towards)
        middle = self.here + 0.5 * delta @ self.moves.T
        spread = np.linalg.norm(middle, axis=1)
        known = float(self.x @ self.slope) + self.constant
        here = q * float(np.linalg.norm(self.here))
        excess = q * (spread + 0.5 * self.steepest * distance) + n * cosine * aside
        excess = excess - r * cosine**2 * rise - min(known, here)
        slope = 0.5 * q * (middle @ self.moves / np.maximum(spread, TINY)[:, None])
        slope += 0.5 * q * self.steepest * functional + n * cosine * sideways
        return excess, slope - cosine**2 * self.slope


def capped(
    band: SafetyMargin, law: NoiseLaw, phi: AffineMap, moving: BoolArray, probability: float
) -> SafetyMargin:
    """A lead that fails with `BAND` of 1 − p, once v̂ᵀg is no larger than what has the rest.

    ``moving`` (d,) are the columns that may move, both ways.
    """
    steepest, towards = _units(band, law.root.T @ phi.matrix, moving)
    r = float(band.slope @ towards)
    if r <= band.rate.min() or steepest == 0.0:
        return band
    high = steepest * law.widest(1.0 - (1.0 - BAND) * (1.0 - probability))
    # ‖ṽ‖² = ‖v‖² + 2 ‖v‖ v̂ᵀg + ‖g‖² bounds ‖v‖ from below, and so ũᵀg = (r² − ‖v‖² + ‖g‖²) / 2r
    room = np.maximum(r * r - band.rate**2, 0.0)
    least = room / (high + np.sqrt(high * high + room))
    ahead = np.where(room > 0.0, (band.rate**2 + high * least) / r, band.rate)
    return replace(band, towards=towards, ahead=np.minimum(ahead * (1.0 + 1e-12), band.rate))


def _units(band: SafetyMargin, moves: FloatArray, moving: BoolArray) -> tuple[float, FloatArray]:
    """The most that noise's deviation gains for a unit; and the move by which the score does."""
    square, towards = band.norm.quadratic, np.zeros(len(moving))
    part = square[np.ix_(moving, moving)] if square.ndim == 2 else np.diag(square[moving])
    whiten = np.linalg.inv(np.linalg.cholesky(part))
    steepest = np.linalg.norm(moves[:, moving] @ whiten.T, 2) if moving.any() else 0.0
    white = whiten @ band.slope[moving]
    towards[moving] = white @ whiten / max(float(np.linalg.norm(white)), TINY)
    return float(steepest), towards


def beside_feet(
    band: SafetyMargin,
    law: NoiseLaw,
    phi: AffineMap,
    away: FloatArray,
    moving: BoolArray,
    probability: float,
) -> tuple[SafetyMargin | FootLead, ...]:
    """What is asked for about one row: a lead that is `capped`, a lead at the foot, or both.

    ``away`` (N,) are draws of ‖g‖; a lead's largest rate is what that does not exceed where the
    lead does not fail.
    """
    if band.towards is None:
        return (band,)
    missed, sure = 1.0 - probability, 0.5 * (1.0 + CONFIDENCE)
    moves = law.root.T @ phi.matrix
    steepest, towards = _units(band, moves, moving)
    r = float(band.slope @ towards)
    out = 0.4 * 0.9 * missed  # of the ball; the rest is the half-space's
    away, rank = np.sort(away), order_statistic(len(away), 1.0 - out, sure)
    if rank is None:
        return (band,)
    n, most = float(away[rank - 1]), float(band.rate.max())
    q = law.widest(1.0 - (0.9 * missed - out) / (1.0 - out))
    if not (n > 0.0 and most > q * steepest):
        return (band,)
    alike = max(n * n / (most - q * steepest), np.hypot(n, q * steepest) * (1.0 + 1e-9))
    if r < alike:
        return (band,)
    rare = order_statistic(len(away), 1.0 - 0.05 * missed, sure)
    shortest = 0.0 if rare is None else float(away[-rare])
    low, high = (steepest * law.widest(1.0 - z * missed) for z in (0.05, 1.0 - BAND))
    between = low + np.sqrt(max(low * low + alike**2 - shortest**2, 0.0))
    surely = np.sqrt(between * (between + 2.0 * high) + most**2)
    here = law.root.T @ phi(band.x[None])[0]
    safety_margin = band.x, band.slope, band.constant, band.norm, towards
    foot = FootLead(*safety_margin, n, q, moves, here, steepest)
    return (foot,) if r > surely else (band, foot)


@final
@dataclass(frozen=True, eq=False)
class LinearLeads(SafetyMargins):
    """What each row has to meet: a `SafetyMargin`, a `FootLead`, or both."""

    safety_margins: tuple[tuple[SafetyMargin | FootLead, ...], ...]

    def take(self, rows: IntArray | BoolArray) -> LinearLeads:
        return LinearLeads(
            tuple(self.safety_margins[i] for i in np.arange(len(self.safety_margins))[rows])
        )

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        rows = zip(self.safety_margins, y[:, None], cost[:, None], strict=True)
        return np.array([max(float(c.required(*at)[0]) for c in some) for some, *at in rows])


def linear_leads(
    moves: tuple[FloatArray, FloatArray],
    probability: float,
    program: Program,
    cases: Cases,
    safety_margin: tuple[FloatArray, float],
    noise: tuple[NoiseLaw, AffineMap],
) -> LinearLeads:
    """The leads for rows of a program, and a lead (slope (d,), constant) that is to be kept.

    Each of N draws of the noise ``moves`` the score at y by slope · y + constant, (N, d) and (N,);
    it has a law, and is on the features that ``noise`` names. A `FootLead` needs a quadratic price,
    and columns that may both rise and fall, or not move at all.

    Raises
    ------
    InvalidInput
        If there are too few draws for the probability.
    """
    slope, constant = moves
    norm = encoded_cost = program.encoded_cost
    if encoded_cost.kind is not Manhattan:  # categories count a half of δ² for |δ|
        full = encoded_cost.quadratic.ndim == 2
        square = encoded_cost.quadratic + (
            np.diag(encoded_cost.absolute) if full else encoded_cost.absolute
        )
        norm = EncodedCost(np.zeros(program.width), square)
    found: list[tuple[SafetyMargin | FootLead, ...]] = []
    size = max(1, (1 << 16) // len(slope))  # a number for each draw in the cache
    for first in range(0, len(cases), size):
        some = cases.take(slice(first, first + size))
        reach = Reach(program, some)
        room, most = reach.room(safety_margin[0])
        level = (some.x @ safety_margin[0] + safety_margin[1])[:, None] + room
        near, far = some.x @ slope.T + constant, reach.of(slope)
        for i in range(len(some)):
            row, moving = slice(i, i + 1), reach.both_ways(i)
            p = probability if moving is None else 1.0 - BAND * (1.0 - probability)
            start, rate = corners(near[row], far[row], p)
            band = SafetyMargin(some.x[i], start[0], rate[0], *safety_margin, 0.0, norm)
            asked: tuple[SafetyMargin | FootLead, ...] = (band,)
            if moving is not None:
                band = capped(band, *noise, moving, probability)
                asked = beside_feet(band, *noise, far[i], moving, probability)
            slowest = band.rate if band.ahead is None else band.ahead
            least = float(least_lead(start, slowest[None], level[row], most[row])[0])
            known = (replace(c, least=least) if isinstance(c, SafetyMargin) else c for c in asked)
            found.append(tuple(known))
    return LinearLeads(tuple(found))


def share_answered(
    moves: tuple[FloatArray, FloatArray],
    probability: float,
    program: Program,
    case: Cases,
    safety_margin: tuple[FloatArray, float],
) -> float:
    """How often a release leaves room for an answer to one row, about: from public numbers alone.

    True weights are not known; those that are known, shrunk by as much as noise is expected to have
    lengthened them, stand for them, and are released with 100 draws of the noise.
    """
    slope, constant = moves
    reach, x = Reach(program, case), case.x
    far = reach.of(slope)
    start, rate = corners(x @ slope.T + constant, far, probability)
    known = float(reach.of(safety_margin[0][None])[0, 0]) ** 2
    size = np.sqrt(max(1.0 - float((far**2).mean()) / known, 0.0)) if known > 0.0 else 0.0
    given = 0
    for g, h in zip(slope[:100], constant[:100], strict=True):
        v, c = size * safety_margin[0] + g, size * safety_margin[1] + h
        room, most = reach.room(v)
        least = least_lead(start, rate, (x @ v + c)[:, None] + room, most)
        given += bool(np.isfinite(least[0]))
    return given / len(slope[:100])
