"""How far noise on the weights can push the score of any point that costs as much, at once.

At y = x + δ the noise μ moves the score by φ(x)ᵀμ + (Mμ)ᵀδ, at most by a + ρN: a = φ(x)ᵀμ, ρ the
distance (the cost if that is a norm, else its root), and N the dual norm of Mᵀμ over the moves that
are open to the row. Let C be a set of pairs (a, N), fixed without looking at the weights, that
holds the true pair with probability p. Then with probability p

    what noise takes from the lead of y  <=  T(ρ(y)),  T(ρ) = max over C of a + ρN,  for all y,

so a point whose lead is at least T(ρ) is as sure as p, whoever chose it and whatever they looked
at. A quantile for each ρ by itself would be less, but the ρ of an answer looked at the weights too.

C is a polygon. Its sides lie in a few directions between those of a and N, all in proportion to
how far a first part of the draws spreads, and far enough out to hold a share of the other part that
is at least p, but with a chance of one in a thousand (an order statistic).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Manhattan
from counterpoint.engine.cases import Cases
from counterpoint.engine.evidence import Leads
from counterpoint.engine.program import Program
from counterpoint.engine.region import Region
from counterpoint.errors import InvalidInput
from counterpoint.noise import NoiseLaw
from counterpoint.robust.bounds.dual_norms import Reach
from counterpoint.robust.lead import Lead

__all__ = ["CONFIDENCE", "PILOT", "Band", "Leads", "Pulls", "rank_of"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

CONFIDENCE = 0.999
"""How sure it is that the polygon holds a share of at least p."""
SIDES = 8
PILOT = 0.2
"""The part of the draws that gives the polygon its shape."""
LEAST_SPREAD = 0.84
"""The spread in a direction is that of the quantile asked for, or of this one."""
ROUNDED = 1e-12
"""What the least lead gives away, so that rounding does not lift it over the truth."""
NUMBERS = 1 << 19
"""Numbers that are worked on at a time."""


@final
@dataclass(frozen=True, eq=False)
class Band(Leads):
    """T(ρ) = max_v start_v + rate_v ρ, for each of n rows, and the lead that is to be as large.

    Parameters
    ----------
    x
        (n, d) the rows.
    start, rate
        (n, V) corners of the polygon, in score units, and in score units for a unit of distance.
    least
        (n,) what an answer leads by at least, in score units; infinite where there is none.
    slope, constant
        (d,) and a number: the lead.
    absolute, quadratic
        The norm, see `Lead`.
    """

    x: FloatArray
    start: FloatArray
    rate: FloatArray
    least: FloatArray
    slope: FloatArray
    constant: float
    absolute: FloatArray
    quadratic: FloatArray

    def take(self, rows: NDArray[np.intp] | BoolArray) -> Band:
        return replace(
            self,
            x=self.x[rows],
            start=self.start[rows],
            rate=self.rate[rows],
            least=self.least[rows],
        )

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        distance = cost if self.absolute.any() else np.sqrt(cost)
        return np.asarray((self.start + self.rate * distance[:, None]).max(axis=1))

    @property
    def regions(self) -> list[Region]:
        """For each row where its lead is large enough."""
        norm = self.absolute, self.quadratic
        ahead = self.slope, self.constant
        rows = zip(self.x, self.start, self.rate, self.least.tolist(), strict=True)
        return [Region((Lead(x, a, b, *ahead, least, *norm),)) for x, a, b, least in rows]


@final
@dataclass(frozen=True, eq=False)
class Pulls:
    """Draws of the noise, as what they do to a linear score.

    Parameters
    ----------
    slope, constant
        (N, d) Mᵀμ and (N,) cᵀμ: a draw moves the score at y by slope · y + constant.
    """

    slope: FloatArray
    constant: FloatArray

    @classmethod
    def drawn(
        cls, law: NoiseLaw, matrix: FloatArray, offset: FloatArray, draws: int, random_state: int
    ) -> Pulls:
        """Draws of a law that acts on features M y + c."""
        noise = law.draw(draws, random_state)
        return cls(noise @ matrix, noise @ offset)

    def band(
        self,
        probability: float,
        program: Program,
        cases: Cases,
        lead: tuple[FloatArray, float],
    ) -> Band:
        """T for rows of a program, and a lead (slope (d,), constant) that is to be kept.

        Raises
        ------
        InvalidInput
            If there are too few draws for the probability.
        """
        pilot = int(np.ceil(PILOT * len(self.slope)))
        polygon = Polygon(probability, pilot, rank_of(len(self.slope) - pilot, probability))
        parts = []
        for block in _blocks(len(cases), len(self.slope)):
            some = cases.take(block)
            reach = Reach(program, some)
            near = some.x @ self.slope.T + self.constant
            start, rate = polygon.corners(near, reach.of(self.slope))
            room, most = reach.room(lead[0])
            level = (some.x @ lead[0] + lead[1])[:, None] + room
            parts.append((start, rate, _least(start, rate, level, most)))
        start, rate, least = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Band(cases.x, start, rate, least, *lead, *_norm(program))


def _norm(program: Program) -> tuple[FloatArray, FloatArray]:
    """The cost as a norm, or as the square of one: categories count a half of δ² for |δ|."""
    price, zero = program.price, np.zeros(program.width)
    if price.kind is Manhattan:
        return price.absolute, zero
    if price.quadratic.ndim == 1:
        return zero, price.quadratic + price.absolute
    return zero, price.quadratic + np.diag(price.absolute)


def _least(start: FloatArray, rate: FloatArray, level: FloatArray, most: FloatArray) -> FloatArray:
    """(n,) the least lead that can be enough; infinite if none can.

    A lead is at most each ``level + most · ρ``, (n, 2), at the distance ρ. So going out from the
    row, where that is below some line it stays so up to where they meet, or forever.
    """
    n = len(start)
    behind = (start[:, :, None] - level[:, None, :]).reshape(n, -1)
    gain = (most[:, None, :] - rate[:, :, None]).reshape(n, -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        meets = np.where(gain > 0.0, behind / gain, np.inf)
    at = np.zeros(n)
    for _ in range(behind.shape[1]):
        finite = np.where(np.isfinite(at), at, 0.0)
        below = (behind > gain * finite[:, None]) & np.isfinite(at)[:, None]
        at = np.maximum(at, np.where(below, meets, -np.inf).max(axis=1))
    needed = (start + rate * np.where(np.isfinite(at), at, 0.0)[:, None]).max(axis=1)
    return np.where(np.isfinite(at), needed - ROUNDED * np.abs(needed), np.inf)


@final
@dataclass(frozen=True)
class Polygon:
    """A set of pairs (a, N), N >= 0, that holds a share of at least p.

    Parameters
    ----------
    probability
        p.
    pilot
        How many draws, the first, give it its shape.
    rank
        That of the draw, among the others, that it reaches out to.
    """

    probability: float
    pilot: int
    rank: int

    def corners(self, near: FloatArray, far: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, N) draws of both numbers → (n, V) both numbers of the corners."""
        units = [_unit(values[:, : self.pilot]) for values in (near, far)]
        angle = np.linspace(0.0, 0.5 * np.pi, SIDES)
        sides = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        sides[[0, -1]] = np.eye(2)
        middle, spread = np.empty((2, len(near), SIDES))
        scores = np.full((len(near), near.shape[1] - self.pilot), -np.inf)
        for k, (a, b) in enumerate(sides):
            seen = a * near / units[0] + b * far / units[1]
            level = [0.5, max(self.probability, LEAST_SPREAD)]
            middle[:, k], upper = np.quantile(seen[:, : self.pilot], level, axis=1)
            spread[:, k] = np.where(upper > middle[:, k], upper - middle[:, k], 1.0)
            score = (seen[:, self.pilot :] - middle[:, [k]]) / spread[:, [k]]
            np.maximum(scores, score, out=scores)
        out = np.partition(scores, self.rank - 1, axis=1)[:, [self.rank - 1]]
        first, second = _meetings(sides, middle + out * spread)
        return first * units[0], second * units[1]


def _unit(values: FloatArray) -> FloatArray:
    """(n, 1) about how large some values are."""
    size = np.sqrt((values * values).mean(axis=1, keepdims=True))
    return np.where(size > 0.0, size, 1.0)


def _meetings(sides: FloatArray, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n, V) both coordinates of the corners of {z : sides z <= limits, z₂ >= 0}.

    Where two lines meet outside, the first corner stands instead.
    """
    sides = np.vstack([sides, [0.0, -1.0]])
    limits = np.hstack([limits, np.zeros((len(limits), 1))])
    i, j = np.triu_indices(len(sides), 1)
    turn = sides[i, 0] * sides[j, 1] - sides[i, 1] * sides[j, 0]
    i, j, turn = (part[np.abs(turn) > 1e-9] for part in (i, j, turn))
    first = (limits[:, i] * sides[j, 1] - limits[:, j] * sides[i, 1]) / turn
    second = (limits[:, j] * sides[i, 0] - limits[:, i] * sides[j, 0]) / turn
    values = first[:, :, None] * sides[:, 0] + second[:, :, None] * sides[:, 1]
    room = 1e-9 * (np.abs(limits).max(axis=1)[:, None, None] + np.abs(values))
    inside = (values <= limits[:, None, :] + room).all(axis=2)
    best = inside.argmax(axis=1)[:, None]
    chosen = np.where(inside, np.arange(inside.shape[1]), best)
    rows = np.arange(len(limits))[:, None]
    return first[rows, chosen], second[rows, chosen]


def rank_of(draws: int, probability: float) -> int:
    """The least rank of draws whose place holds a share of p below it, with `CONFIDENCE`."""
    from scipy.special import bdtrc

    ranks = np.arange(1, draws + 1)
    enough = np.flatnonzero(bdtrc(ranks - 1, draws, probability) <= 1.0 - CONFIDENCE)
    if not len(enough):
        least = int(np.ceil(np.log(1.0 - CONFIDENCE) / np.log(probability) / (1.0 - PILOT))) + 5
        raise InvalidInput(
            f"Expected at least {least} draws of the noise to tell a probability of "
            f"{probability!r}; got draws={round(draws / (1.0 - PILOT))}. Ask for more, or for "
            "guarantee='fixed'."
        )
    return int(ranks[enough[0]])


def _blocks(n: int, draws: int) -> list[slice]:
    """So many rows that a number for each draw and row fits into the cache, about."""
    size = max(1, NUMBERS // draws)
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]
