"""How far noise on the weights of random Fourier features can push a score, wherever it may go.

The noise μ moves the score at y by φ(y)ᵀμ, a sum of waves. An answer that was chosen by looking at
w̃ is as sure as p if it leads by T of a set that it was looked for in: with probability p no point
of the set is pushed by more than T, and T was fixed without a look at w̃. Sets are here

- the points at the distance ρ or nearer to the row (the distance is the cost if that is a norm,
  else its root), for many ρ at once: T grows with ρ;
- the segment from the row to a prototype.

For each draw of μ the largest push over a set is **bounded from above** (see
`counterpoint.robust.bounds.wave_sums`), not searched for, so that the probability is kept, and T is
larger than it would have to be: for balls in which angles change by 2 by some hundredths, and in
large ones by up to a half.

All T are made of one number: in units of how a first part of the draws spreads, it is so large that
a share of the other part is below every T at once that is at least p, but with a chance of one in a
thousand (an order statistic). So an answer may also be the best of several.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Manhattan, Price
from counterpoint.engine.cases import Cases
from counterpoint.errors import InvalidInput
from counterpoint.noise import NoiseLaw
from counterpoint.robust.bounds.linear import CONFIDENCE, PILOT, Leads, rank_of
from counterpoint.robust.bounds.wave_sums import Crests
from counterpoint.robust.waves import Waves

__all__ = ["Heights", "Sweeps"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

SHARE = 10
"""Of so many draws one is used: a ball takes more work than a linear score does."""
RADII = np.concatenate([[0.0], np.geomspace(0.03, 15.0, 64), [np.inf]])
"""In units in which the angles of waves change by 1."""
LEAST_SPREAD = 0.84
"""The spread of a set is that of the quantile asked for, or of this one."""
ON = 1e-9
"""How far from a segment a point still is on it, relative to its length."""
ROOM = 1.0 + 1e-6
"""What that, and rounding, may add to T."""


@final
@dataclass(frozen=True, eq=False)
class Sweeps(Leads):
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

    def take(self, rows: NDArray[np.intp] | BoolArray) -> Sweeps:
        return replace(
            self,
            radii=self.radii[rows],
            balls=self.balls[rows],
            segments=self.segments[rows],
            starts=self.starts[rows],
            ends=self.ends[rows],
        )

    def distance(self, cost: FloatArray) -> FloatArray:
        """(n,) ρ."""
        return np.sqrt(cost) if self.is_root else cost

    def cost(self, distance: float) -> float:
        """The cost at a distance."""
        return distance * distance if self.is_root else distance

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        place = (self.radii < self.distance(cost)[:, None]).sum(axis=1)
        ball = self.balls[np.arange(len(y)), place]
        return np.asarray(np.minimum(ball, np.where(self._on(y), self.segments, np.inf)))

    def _on(self, y: FloatArray) -> BoolArray:
        """(n,): whether points are on the segments."""
        way, gone = self.ends - self.starts, y - self.starts
        square = np.maximum((way * way).sum(axis=1), 1e-300)
        share = np.clip((way * gone).sum(axis=1) / square, 0.0, 1.0)
        off = gone - share[:, None] * way
        return np.asarray((off * off).sum(axis=1) <= ON * ON * square)


@final
@dataclass(frozen=True, eq=False)
class Heights:
    """Draws of the noise as waves.

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
    def drawn(cls, waves: Waves, law: NoiseLaw, draws: int, random_state: int) -> Heights:
        """A tenth as many draws of a law that acts on φ."""
        noise = law.draw(max(draws // SHARE, 1), random_state)
        return cls(waves, *waves.polar(noise))

    def sweeps(
        self,
        probability: float,
        price: Price,
        cases: Cases,
        ends: FloatArray | None,
        *,
        in_balls: bool,
    ) -> Sweeps:
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
        level = self._level(probability)
        radii = RADII * self._unit(price)
        balls = np.full((len(cases), len(radii)), np.inf)
        segments = np.full(len(cases), np.inf)
        for i in range(len(cases)):
            sets = (
                [] if ends is None else [self._about(cases.x[i]).on_segment(ends[i] - cases.x[i])]
            )
            if in_balls:
                sets += list(self._in_metric(price, cases, i).in_balls(radii).T)
            found = level.of(np.stack(sets, axis=1)) * ROOM
            if ends is not None:
                segments[i], found = found[0], found[1:]
            if in_balls:
                balls[i] = np.maximum.accumulate(found)
        table = np.broadcast_to(radii, balls.shape)
        to = cases.x if ends is None else ends
        return Sweeps(table, balls, segments, cases.x, to, price.kind is not Manhattan)

    def _about(self, x: FloatArray) -> Crests:
        """The sums about a point, in the units of the columns."""
        angles = self.waves.frequencies @ x + self.waves.phases + self.shifts
        return Crests(self.sizes, angles, self.constants, self.waves.frequencies, is_round=True)

    def _in_metric(self, price: Price, cases: Cases, i: int) -> Crests:
        """The sums about a row, in units of distance along the columns that can move."""
        about, x = self._about(cases.x[i]), cases.x[i]
        low, high = cases.low[i], cases.high[i]
        free = (low < high) | (low > x) | (high < x)
        own = about.frequencies[:, free]
        if price.kind is Manhattan:
            rows = own / price.absolute[free]
            return Crests(about.sizes, about.angles, about.constants, rows, is_round=False)
        full = _form(price)[np.ix_(free, free)]
        rows = own @ np.linalg.inv(np.linalg.cholesky(full)).T
        return Crests(about.sizes, about.angles, about.constants, rows, is_round=True)

    def _unit(self, price: Price) -> float:
        """About the distance at which the angles of waves change by 1."""
        size = price.absolute if price.kind is Manhattan else np.sqrt(np.diag(_form(price)))
        rows = self.waves.frequencies / size
        steep = float(np.sqrt((rows * rows).sum(axis=1).mean()))
        return 1.0 / steep if steep > 0.0 else 1.0

    def _level(self, probability: float) -> Level:
        draws = len(self.sizes)
        pilot = int(np.ceil(PILOT * draws))
        least = int(np.ceil(np.log(1.0 - CONFIDENCE) / np.log(probability))) + 1
        if draws - pilot < least:
            needed = SHARE * (int(np.ceil(least / (1.0 - PILOT))) + 2)
            raise InvalidInput(
                f"Expected at least draws={needed} to tell a probability of {probability!r} with "
                f"random features, for which one draw in {SHARE} is used; got about "
                f"{SHARE * draws}. Ask for more, or for guarantee='fixed'."
            )
        return Level(probability, pilot, rank_of(draws - pilot, probability))


@final
@dataclass(frozen=True)
class Level:
    """One number for several sets at once.

    Parameters
    ----------
    probability
        p.
    pilot
        How many draws, the first, tell how each set spreads.
    rank
        Of the draw, among the others, that is reached out to.
    """

    probability: float
    pilot: int
    rank: int

    def of(self, pushes: FloatArray) -> FloatArray:
        """(N, V) pushes → (V,) T."""
        first, others = pushes[: self.pilot], pushes[self.pilot :]
        share = [0.5, max(self.probability, LEAST_SPREAD)]
        middle, upper = np.quantile(first, share, axis=0)
        spread = np.where(upper > middle, upper - middle, 1.0)
        scores = ((others - middle) / spread).max(axis=1)
        return np.asarray(middle + np.partition(scores, self.rank - 1)[self.rank - 1] * spread)


def _form(price: Price) -> FloatArray:
    """(d, d) the square of a distance; categories count as ½ w δ², which is what a change costs."""
    full = np.diag(price.quadratic) if price.quadratic.ndim == 1 else price.quadratic
    return np.asarray(full + np.diag(price.absolute))
