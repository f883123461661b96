"""Scores of random Fourier features: points on the segment to a prototype, and by descents.

The condition is smooth and not convex, so that what is found is a local optimum; how far from it
the optimum can be at most is said by `DistanceBounds`.

A step of a descent minimises the price where a parabola that stands in for the condition is not
positive: one with the condition's own value, slope and, as far as that can be, curvature at the
point. Under a quadratic price and without rows that is one root (the S-lemma), and the curvature is
the condition's own, so that it is Newton's method; else it is a convex program, without the
negative part of the curvature. What a step misses the condition by is asked for besides, and it is
never taken for granted: every point is held against the condition itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Bounding
from counterpoint.costs import Manhattan
from counterpoint.engine.cases import Cases
from counterpoint.engine.domains import AtMost, OneOf, Whole
from counterpoint.engine.pieces import Aim, Piece
from counterpoint.engine.program import Program
from counterpoint.engine.region import Region
from counterpoint.engine.search import Found
from counterpoint.errors import InvalidInput
from counterpoint.robust.bounds.distances import DistanceBounds
from counterpoint.robust.bounds.fourier import WaveLeads
from counterpoint.robust.waves import WaveLimit, parabola
from counterpoint.solvers import Effort, Optimality, Outcome

__all__ = ["WaveSearch"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

STARTS = (0.0, 0.7, 0.7, 2.0)
"""How far from the row climbs begin, in units in which the angles of waves change by 1."""
CLIMBS = 60
"""Steps of a climb."""
ENOUGH = 1.05
"""A climb ends where so much of what noise asks for at the row is reached."""
DESCENTS = 3
"""How many of the cheapest starts are followed."""
STEPS, CORRECTIONS, ROOTS = 60, 4, 100
"""Steps of a descent, tries of a step, and halvings of an interval, at most."""
SETTLED, ROUGHLY = 1e-11, 1e-2
"""A step that gains no more than this share of the cost is the last one; of a first descent."""
GRID, CLOSE = 96, 1e-13
"""How many points of a segment are looked at, and how closely the first one within is found."""
MET = 1e-12
"""The largest relative violation of other conditions that counts as rounding."""
TRACE = 1e-4
"""Changes with such a share of the price are traces of a search."""
ROUNDED = 1e-6
"""What a point may cost more without them, and how far it may be moved for rounding: shares."""


@final
class WaveSearch:
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
        self, frontier: Found, pieces: Sequence[Piece], aim: Aim, leads: WaveLeads | None
    ) -> None:
        self.frontier, self.aim, self.leads = frontier, aim, leads
        self.grounds = [Ground(piece) for piece in pieces]
        self.cases = [piece.sees(frontier.cases) for piece in pieces]

    def evidence(self) -> list[Bounding]:
        """What bounds all rows."""
        each = zip(self.grounds, self.cases, strict=True)
        return [DistanceBounds(g.piece.program.price, g.limit, c, self.leads) for g, c in each]

    def run(self) -> None:
        """Search all pieces for all rows."""
        self.frontier.closed[:] = False
        if self.frontier.effort.optimality is Optimality.GLOBAL:
            raise InvalidInput(
                "Expected optimality='local' for a model with random features: nothing here "
                "searches all of its optima. The bound of an answer says how good one could be."
            )
        for s, ground in enumerate(self.grounds):
            if ground.piece.program.at_most is not None:
                raise InvalidInput(
                    "Expected no MaxChanges for a model with random features: its answers move all "
                    "columns a little. Hold columns with Immutable instead."
                )
            held = ground.held(self.cases[s])
            for i in np.flatnonzero(~held.empty).tolist():
                self._look(s, i, held.take(slice(i, i + 1)))

    def _look(self, s: int, i: int, case: Cases) -> None:
        """One row in one piece."""
        frontier, row = self.frontier, np.array([i])
        leads = None if self.leads is None else self.leads.take(row)
        search = RowSearch(self.grounds[s], case, frontier.effort, self.aim, leads)
        point = search.run()
        frontier.limited[i] |= search.limited
        if point is not None:
            frontier.offer(s, row, point[None], np.array([search.walk.price(point)]))


@final
@dataclass(frozen=True, eq=False)
class Ground:
    """A piece with one `WaveLimit`, and what all its rows share."""

    piece: Piece

    @cached_property
    def limit(self) -> WaveLimit:
        """The condition that is not convex."""
        (found,) = (c for c in self.piece.program.region if isinstance(c, WaveLimit))
        return found

    @cached_property
    def rest(self) -> Program:
        """The price over what else is asked; what is integral is held, see `held`."""
        program, dropped = self.piece.program, (WaveLimit, Whole, OneOf, AtMost)
        kept = (c for c in program.region if not isinstance(c, dropped))
        return Program(program.price, Region(tuple(kept)))

    @cached_property
    def is_open(self) -> bool:
        """Whether nothing but bounds of columns is asked."""
        return not self.rest.affine.size and not self.rest.curved

    @cached_property
    def metric(self) -> FloatArray | None:
        """(d, d) the matrix of a price that is quadratic in all columns that are no categories."""
        price, numeric = self.rest.price, self.piece.program.numeric
        full = np.diag(price.quadratic) if price.quadratic.ndim == 1 else price.quadratic
        return full if np.diag(full)[numeric].all() else None

    def held(self, cases: Cases) -> Cases:
        """The rows, whose whole columns and categories stay."""
        program = self.piece.program
        stays = (program.steps > 0.0) | ~program.numeric
        return cases.within(np.where(stays, cases.x, -np.inf), np.where(stays, cases.x, np.inf))


@final
class RowSearch:
    """One row, wherever it is to be looked for an answer.

    Attributes
    ----------
    limited
        Whether time ran out.
    """

    def __init__(
        self, ground: Ground, case: Cases, effort: Effort, aim: Aim, leads: WaveLeads | None
    ) -> None:
        self.walk = Walk(ground, case, effort)
        self.end = np.inf if effort.seconds is None else perf_counter() + effort.seconds
        self.aim, self.leads, self.limited = aim, leads, False
        self.start = self.walk.clipped(self.walk.x)
        self.any_will_do = effort.gap >= 1.0

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
        return self.walk.enter(self.start, self.walk.clipped(self.aim.prototype))

    def _anywhere(self, known: Sequence[FloatArray | None]) -> FloatArray | None:
        """The best of a few descents."""
        self.walk.ask(0.0)
        return self._descended([p for p in known if p is not None] + self._entries())

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
            best = self._descended(self._entries() if best is None else self._beyond(best))
            if best is None:
                return None
            distance = float(leads.distance(np.array([walk.price(best)]))[0])
            if distance <= radii[v]:
                return best
            v = max(v + 1, int((radii < distance).sum()))
        return None

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
        return self.walk.tidied(self.walk.descend(best, SETTLED))

    def _entries(self) -> list[FloatArray]:
        """Where the ways to the ends of climbs enter."""
        return self._entered(self.start, self._around())

    def _beyond(self, y: FloatArray) -> list[FloatArray]:
        """Points within, near one that is no longer within; all starts if there are none."""
        return self._entered(y, y[None]) or self._entries()

    def _entered(self, start: FloatArray, feet: FloatArray) -> list[FloatArray]:
        """Points within that are near the first ones on the way from a start to tops of climbs."""
        found = (self.walk.first_within(start, end) for end in self._climbed(feet))
        return [points[1] for points in found if points is not None]

    def _around(self) -> FloatArray:
        """(S, d) points about the row, the same for every row."""
        walk, waves = self.walk, self.walk.limit.waves
        steep = np.sqrt((waves.frequencies**2).sum(axis=0))
        size = np.where(walk.free & (steep > 0.0), 1.0 / np.where(steep > 0.0, steep, 1.0), 0.0)
        size *= np.sqrt(len(waves.phases) / max(int(walk.free.sum()), 1))
        moves = np.random.default_rng(0).normal(size=(len(STARTS), waves.width)) * size
        return walk.clipped(self.start + np.array(STARTS)[:, None] * moves)

    def _climbed(self, points: FloatArray) -> Iterator[FloatArray]:
        """Uphill from points, each step to the top of a parabola below, until the limit is met."""
        walk, score = self.walk, self.walk.limit.score
        asked = walk.limit.asked + ENOUGH * walk.noise
        for start in points:
            y = start
            for _ in range(CLIMBS):
                if score.value(y[None])[0] >= asked and walk.is_possible(y[None])[0]:
                    break
                higher = walk.higher(y)
                if higher is None or np.abs(higher - y).max() <= 1e-9 * np.abs(higher).max():
                    break
                y = higher
            yield y


@final
class Walk:
    """One row and one `WaveLimit`: where a segment enters it, and a descent from there."""

    def __init__(self, ground: Ground, case: Cases, effort: Effort) -> None:
        self.ground, self.case, self.effort = ground, case, effort
        self.x, self.low, self.high = case.x[0], case.low[0], case.high[0]
        self.free = self.low < self.high
        self.ask(0.0)

    def ask(self, asked: float) -> None:
        """Ask for another lead."""
        limit = self.ground.limit
        self.limit = limit.asking(asked + float(limit.closed_in(self.case.margin)[0]))

    def price(self, y: FloatArray) -> float:
        """What a point (d,) costs."""
        return float(self.ground.rest.price((y - self.x)[None])[0])

    def excess(self, y: FloatArray) -> float:
        """By how much a point (d,) misses the limit."""
        return float(self.limit.excess(y[None])[0])

    def clipped(self, y: FloatArray) -> FloatArray:
        """Points moved between the bounds."""
        return np.minimum(np.maximum(y, self.low), self.high)

    def is_possible(self, y: FloatArray) -> BoolArray:
        """(k,): which points (k, d) meet all but the limit."""
        inside = ((self.low <= y) & (y <= self.high)).all(axis=1)
        if self.ground.is_open:
            return np.asarray(inside)
        missed = self.ground.rest.violation(y, np.broadcast_to(self.x, y.shape))
        return np.asarray(inside & (missed <= MET))

    @cached_property
    def noise(self) -> float:
        """What the noise asks for at the row; elsewhere it is not much less, or more."""
        limit, x = self.ground.limit, self.case.x
        return float(limit.excess(x)[0] + limit.score.value(x)[0] - limit.asked)

    # Ways in

    def first_within(
        self, start: FloatArray, end: FloatArray
    ) -> tuple[FloatArray | None, FloatArray] | None:
        """The first point of a grid that is within, after the one before it if that is possible."""
        points = start + np.linspace(0.0, 1.0, GRID + 1)[:, None] * (end - start)
        points[-1] = end
        possible, score = self.is_possible(points), self.limit.score.value(points)
        # The quantile is not looked at where the score is well below what noise asks for.
        asked = self.limit.asked + 0.9 * self.noise
        for i in np.flatnonzero(possible & (score >= asked)).tolist():
            if self.excess(points[i]) <= 0.0:
                return (points[i - 1] if i and possible[i - 1] else None), points[i]
        return None

    def enter(self, start: FloatArray, end: FloatArray) -> FloatArray | None:
        """(d,) the first point that is found on a segment to meet everything; None if none does."""
        found = self.first_within(start, end)
        if found is None or found[0] is None:
            return None if found is None else found[1]
        outside, inside = found[0], found[1]
        low, high = 0.0, 1.0
        below, above, side = self.excess(outside), self.excess(inside), 0
        if below <= 0.0:
            return outside
        for _ in range(ROOTS):  # the Illinois rule
            share = low + (high - low) * below / (below - above)
            share = min(max(share, low + 0.01 * (high - low)), high - 0.01 * (high - low))
            missed = self.excess(outside + share * (inside - outside))
            if missed <= 0.0:
                high, above = share, missed
                below, side = (0.5 * below if side > 0 else below), 1
            else:
                low, below = share, missed
                above, side = (0.5 * above if side < 0 else above), -1
            if high - low <= CLOSE:
                break
        return np.asarray(outside + high * (inside - outside))

    def higher(self, y: FloatArray) -> FloatArray | None:
        """(d,) the top of the parabola below the score, as far as constraints let one go."""
        score, free = self.limit.score, np.flatnonzero(self.free)
        if not len(free):
            return None
        form = score.below(y)[np.ix_(free, free)]
        ridge = 1e-3 * max(float(np.trace(form)) / len(free), 1e-300)
        top = np.array(y)
        slope = score.slope(y[None])[0][free]
        top[free] += np.linalg.solve(form + ridge * np.eye(len(free)), slope)
        if self.ground.is_open:
            return self.clipped(top)
        return self._optimum(Region(), replace(self.case, x=top[None]))

    # Descents

    def descend(self, start: FloatArray, settled: float) -> FloatArray:
        """(d,) a local optimum, from a point within; the last step gains a share of ``settled``."""
        y, cost = start, self.price(start)
        for _ in range(STEPS):
            found = self._step(y)
            if found is None:
                break
            price = self.price(found)
            gained = cost - price
            if gained > 0.0:
                y, cost = found, price
            if gained <= settled * cost:
                break
        return y

    def _step(self, y: FloatArray) -> FloatArray | None:
        """A cheaper point within, or None."""
        value, slope = (part[0] for part in self.limit.excess_with_slope(y[None]))
        hessian = -self.limit.score.hessian(y)
        cost, more = self.price(y), 0.0
        for _ in range(CORRECTIONS):
            found = self._of_model(y, float(value) + more, slope, hessian)
            if found is None:
                break
            missed = self.excess(found)
            if missed > 0.0:
                found = self._nudged(found, missed, slope, ROUNDED)
                if self.excess(found) > 0.0:
                    more += 1.1 * missed
                    continue
            if self.price(found) < cost:
                return found
            break
        return self._shortened(y, float(value), slope, cost)

    def _shortened(
        self, y: FloatArray, value: float, slope: FloatArray, cost: float
    ) -> FloatArray | None:
        """A step by the parabola that is below the score everywhere, as far as it is within."""
        found = self._optimum(parabola(y, value, slope, self.limit.score.below(y)), self.case)
        if found is None:
            return None
        for share in (1.0, 0.5, 0.1, 0.01):
            point = np.asarray(y + share * (found - y))
            if self.price(point) < cost and self.excess(point) <= 0.0:
                return point
        return None

    def tidied(self, y: FloatArray) -> FloatArray:
        """(d,) a point whose traces of changes are gone, under an absolute price; else the same."""
        price, gone = self.ground.rest.price, np.abs(y - self.x)
        paid = price.absolute * gone
        traces = (paid > 0.0) & (paid <= TRACE * paid.sum())
        if price.kind is not Manhattan or not traces.any():
            return y
        found = np.where(traces, self.x, y)
        missed = self.excess(found)
        if missed > 0.0:
            slope = self.limit.excess_with_slope(found[None])[1][0]
            found = self._nudged(found, missed, slope, TRACE)
        dearer = self.price(found) > self.price(y) * (1.0 + ROUNDED)
        kept = dearer or self.excess(found) > 0.0 or not self.is_possible(found[None])[0]
        return y if kept else found

    def _nudged(self, y: FloatArray, missed: float, slope: FloatArray, most: float) -> FloatArray:
        """A little further in, where hardly anything is missed."""
        moving = self.free & (y != self.x) & (y > self.low) & (y < self.high)
        inwards = np.where(moving, slope, 0.0)
        square = float(inwards @ inwards)
        if not square:
            return y
        step = 1.5 * missed / square * inwards
        room = most * float(np.abs(y - self.x).max())
        if not self.ground.is_open or np.abs(step).max() > room:
            return y
        return self.clipped(y - step)

    def _of_model(
        self, y: FloatArray, value: float, slope: FloatArray, hessian: FloatArray
    ) -> FloatArray | None:
        """(d,) the optimum of a model of the limit; None if there is none, or it is not found."""
        if self.ground.is_open and self.ground.metric is not None:
            found = self._by_root(y, value, slope, hessian, self.ground.metric)
            if found is not None:
                return found
        sizes, towards = np.linalg.eigh(hessian)
        positive = (towards * np.maximum(sizes, 0.0)) @ towards.T
        return self._optimum(parabola(y, value, slope, positive), self.case)

    def _by_root(
        self,
        y: FloatArray,
        value: float,
        slope: FloatArray,
        hessian: FloatArray,
        metric: FloatArray,
    ) -> FloatArray | None:
        """The same over the columns that are free, if no bound is in its way (S-lemma).

        In coordinates in which the price is ‖z‖² and the model c + b · z + ½ Σ h z², the optimum is
        z = −ν b / (2 + ν h) for the ν > 0 at which the model is 0.
        """
        free, held = self.free, self.clipped(self.x)
        if (metric[np.ix_(free, ~free)] @ (held - self.x)[~free]).any():
            return None
        form = hessian[np.ix_(free, free)]
        root = np.linalg.inv(np.linalg.cholesky(metric[np.ix_(free, free)]))
        bends, towards = np.linalg.eigh(root @ form @ root.T)
        gone = (y - self.x)[free]
        here = value - slope[free] @ gone + 0.5 * gone @ form @ gone
        z = _root(here, towards.T @ (root @ (slope[free] - form @ gone)), bends)
        if z is None:
            return None
        found = np.array(held)
        found[free] = self.x[free] + root.T @ (towards @ z)
        return found if (self.clipped(found) == found).all() else None

    def _optimum(self, model: Region, case: Cases) -> FloatArray | None:
        """(d,) the cheapest point of a convex model and all else, by the first solver that can."""
        rest, effort = self.ground.rest, replace(self.effort, gap=min(self.effort.gap, 1e-9))
        program = Program(rest.price, rest.region & model)
        for prepared in Piece(program).complete(exhaustive=False):
            solution = prepared.solve(case.with_margin(np.zeros((1, 2))), effort)
            if solution.outcomes[0] == Outcome.FOUND:
                return self.clipped(solution.points[0])
        return None


def _root(here: float, along: FloatArray, bends: FloatArray) -> FloatArray | None:
    """(k,) the nearest z to 0 with here + along · z + ½ Σ bends z² <= 0; None if there is none."""
    if here <= 0.0:
        return np.zeros_like(along)

    def at(nu: float) -> tuple[FloatArray, float]:
        z = -nu * along / (2.0 + nu * bends)
        return z, here + float(along @ z + 0.5 * (bends * z) @ z)

    end = 2.0 / -float(bends[0]) if bends[0] < 0.0 else np.inf
    low, high = 0.0, 1.0 if np.isinf(end) else 0.5 * end
    for _ in range(ROOTS):
        if at(high)[1] <= 0.0:
            break
        low, high = high, (2.0 * high if np.isinf(end) else 0.5 * (high + end))
    else:
        return None
    for _ in range(ROOTS):
        middle = 0.5 * (low + high)
        if middle in {low, high}:
            break
        low, high = (middle, high) if at(middle)[1] > 0.0 else (low, middle)
    return at(high)[0]
