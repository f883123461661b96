"""Scores of random Fourier features: on the segment to a prototype, and by descents.

The limit is smooth and not convex, so that what is found is a local optimum; how far from it the
optimum can be at most is said by `Soundings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.domains import AtMost
from counterpoint.engine.evidence import Bounding
from counterpoint.engine.frontier import Frontier, Way
from counterpoint.engine.pieces import Aim, Piece
from counterpoint.errors import InvalidInput
from counterpoint.robust.bounds.distances import Soundings
from counterpoint.robust.bounds.fourier import Sweeps
from counterpoint.robust.search.walks import Walk
from counterpoint.robust.search.wave_models import Ground
from counterpoint.solvers import Optimality

__all__ = ["Smooth"]

FloatArray = NDArray[np.float64]

SEED = 0
STARTS = (0.0, 0.7, 0.7, 2.0)
"""How far from the row climbs begin, in units in which the angles of waves change by 1."""
CLIMBS = 60
"""Steps of a climb."""
RIDGE = 1e-3
ENOUGH = 1.05
"""A climb ends where so much of what noise asks for at the row is reached."""
DESCENTS = 3
"""How many of the cheapest starts are followed."""
ROUGHLY = 1e-2
"""A step of a descent but the last gains more than this share of the cost, or ends it."""


@final
class Smooth(Way):
    """Pieces with a `WaveLimit`, one row after the other.

    Parameters
    ----------
    frontier
        The search.
    pieces
        The union.
    aim
        Where to look.
    leads
        What an answer has to lead by besides; None for nothing.
    """

    def __init__(
        self, frontier: Frontier, pieces: Sequence[Piece], aim: Aim, leads: Sweeps | None
    ) -> None:
        self.frontier, self.pieces, self.aim, self.leads = frontier, pieces, aim, leads
        self.grounds = [Ground(piece) for piece in pieces]
        self.cases = [piece.sees(frontier.cases) for piece in pieces]

    def evidence(self) -> list[Bounding]:
        each = zip(self.grounds, self.cases, strict=True)
        return [Soundings(g.piece.program.price, g.limit, c, self.leads) for g, c in each]

    def run(self) -> None:
        self.frontier.closed[:] = False
        if self.frontier.effort.optimality is Optimality.GLOBAL:
            raise InvalidInput(
                "Expected optimality='local' for a model with random features: nothing here "
                "searches all of its optima. The bound of an answer says how good one could be."
            )
        for s, ground in enumerate(self.grounds):
            if any(isinstance(c, AtMost) for c in ground.piece.program.region):
                raise InvalidInput(
                    "Expected no MaxChanges for a model with random features: its answers move all "
                    "columns a little. Hold columns with Immutable instead."
                )
            held = ground.held(self.cases[s])
            for i in range(len(held)):
                if not held.empty[i]:
                    self._look(s, i, held.take(slice(i, i + 1)))

    def _look(self, s: int, i: int, case: Cases) -> None:
        """One row in one piece."""
        frontier = self.frontier
        seconds = frontier.effort.seconds
        end = np.inf if seconds is None else perf_counter() + seconds
        leads = None if self.leads is None else self.leads.take(np.array([i]))
        search = RowSearch(self.grounds[s], case, frontier, self.aim, leads, end)
        point = search.run()
        frontier.limited[i] |= search.limited
        if point is not None:
            cost = np.array([search.walk.price(point)])
            frontier.offer(s, np.array([i]), point[None], cost)


@final
class RowSearch:
    """One row, wherever it is to be looked.

    Attributes
    ----------
    limited
        Whether time ran out.
    """

    def __init__(
        self,
        ground: Ground,
        case: Cases,
        frontier: Frontier,
        aim: Aim,
        leads: Sweeps | None,
        end: float,
    ) -> None:
        self.walk = Walk(ground, case, frontier.effort)
        self.aim, self.leads, self.end, self.limited = aim, leads, end, False
        self.start = self.walk.models.clipped(self.walk.x)
        self.any_will_do = frontier.effort.gap >= 1.0

    def run(self) -> FloatArray | None:
        """(d,) the cheapest point that was found."""
        found = [self._on_segment()] if self.aim.on_segment else []
        if self.aim.anywhere or (self.aim.otherwise and found[0] is None):
            found.append(self._anywhere(found) if self.leads is None else self._within_balls())
        points = [point for point in found if point is not None]
        return min(points, key=self.walk.price, default=None)

    def _on_segment(self) -> FloatArray | None:
        """On the way to the prototype, as far as constraints let it go there."""
        assert self.aim.prototype is not None  # noqa: S101 (see `Aim`)
        self.walk.ask(0.0 if self.leads is None else float(self.leads.segments[0]))
        return self.walk.enter(self.start, self.walk.models.clipped(self.aim.prototype))

    def _anywhere(self, known: Sequence[FloatArray | None]) -> FloatArray | None:
        """The best of a few descents."""
        self.walk.ask(0.0)
        return self._descended([p for p in known if p is not None] + list(self._entries()))

    def _descended(self, starts: list[FloatArray]) -> FloatArray | None:
        """The best of descents from the cheapest of some points within."""
        best: FloatArray | None = None
        for start in sorted(starts, key=self.walk.price)[:DESCENTS]:
            point = self.walk.descend(start, ROUGHLY)
            if best is None or self.walk.price(point) < self.walk.price(best):
                best = point
            if perf_counter() > self.end:
                self.limited = True
                return best
        if best is None or self.any_will_do:
            return best
        return self.walk.tidied(self.walk.descend(best))

    def _entries(self) -> Iterator[FloatArray]:
        """Where the ways to the ends of climbs enter."""
        for end in self._climbed(self._around()):
            entry = self.walk.enter_roughly(self.start, end)
            if entry is not None:
                yield entry

    def _around(self) -> FloatArray:
        """(S, d) points about the row, the same for everyone."""
        walk, waves = self.walk, self.walk.limit.waves
        steep = np.sqrt((waves.frequencies**2).sum(axis=0))
        size = np.where(walk.free & (steep > 0.0), 1.0 / np.where(steep > 0.0, steep, 1.0), 0.0)
        random = np.random.default_rng(SEED)
        size *= np.sqrt(len(waves.phases) / max(int(walk.free.sum()), 1))
        moves = random.normal(size=(len(STARTS), waves.width)) * size
        return walk.models.clipped(self.start + np.array(STARTS)[:, None] * moves)

    def _climbed(self, points: FloatArray) -> Iterator[FloatArray]:
        """Uphill from points, each step to the top of a parabola below, until the limit is met."""
        walk, score = self.walk, self.walk.limit.score
        asked = walk.limit.asked + ENOUGH * walk.noise
        for start in points:
            y = start
            for _ in range(CLIMBS):
                if score.value(y[None])[0] >= asked and walk.is_possible(y[None])[0]:
                    break
                higher = self._higher(y)
                if higher is None or np.abs(higher - y).max() <= 1e-9 * np.abs(higher).max():
                    break
                y = higher
            yield y

    def _higher(self, y: FloatArray) -> FloatArray | None:
        """The top of the parabola below the score, as far as constraints let one go."""
        walk, score = self.walk, self.walk.limit.score
        free = np.flatnonzero(walk.free)
        if not len(free):
            return None
        form = score.below(y)[np.ix_(free, free)]
        ridge = RIDGE * max(float(np.trace(form)) / len(free), 1e-300)
        step = np.linalg.solve(form + ridge * np.eye(len(free)), score.slope(y[None])[0][free])
        higher = np.array(y)
        higher[free] += step
        return walk.models.nearest(higher)

    def _within_balls(self) -> FloatArray | None:
        """The nearest point that leads by what its own distance asks for: radii from below."""
        leads, walk = self.leads, self.walk
        assert leads is not None  # noqa: S101 (asked by the caller)
        radii, asked = leads.radii[0], leads.balls[0]
        best: FloatArray | None = None
        v = 0
        while v < len(radii):
            walk.ask(float(asked[v]))
            if asked[v] > walk.limit.score.most:
                return None
            starts = list(self._entries()) if best is None else self._beyond(best)
            best = self._descended(starts)
            if best is None:
                return None
            distance = float(leads.distance(np.array([walk.price(best)]))[0])
            if distance <= radii[v]:
                return best
            v = max(v + 1, int((radii < distance).sum()))
        return None

    def _beyond(self, y: FloatArray) -> list[FloatArray]:
        """Points within, near one that is no longer within; all starts if there are none."""
        found = []
        for end in self._climbed(y[None]):
            entry = self.walk.enter_roughly(y, end)
            if entry is not None:
                found.append(entry)
        return found or list(self._entries())
