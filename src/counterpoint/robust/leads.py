"""What an answer of a linear score has to lead by, however it was chosen, row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from counterpoint.costs import Manhattan, Price
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cases
from counterpoint.engine.search import Leads
from counterpoint.models.form import AffineMap
from counterpoint.noise import NoiseLaw
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.robust.chance import Lead, Reach, corners, least_lead
from counterpoint.robust.foot import BAND, FootLead, beside_feet, capped

__all__ = ["LinearLeads", "linear_leads", "share_answered"]


@final
@dataclass(frozen=True, eq=False)
class LinearLeads(Leads):
    """What each row has to meet: a `Lead`, a `FootLead`, or both."""

    leads: tuple[tuple[Lead | FootLead, ...], ...]

    def take(self, rows: IntArray | BoolArray) -> LinearLeads:
        return LinearLeads(tuple(self.leads[i] for i in np.arange(len(self.leads))[rows]))

    def required(self, y: FloatArray, cost: FloatArray) -> FloatArray:
        rows = zip(self.leads, y[:, None], cost[:, None], strict=True)
        return np.array([max(float(c.required(*at)[0]) for c in some) for some, *at in rows])


def linear_leads(
    moves: tuple[FloatArray, FloatArray],
    probability: float,
    program: Program,
    cases: Cases,
    lead: tuple[FloatArray, float],
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
    norm = price = program.price
    if price.kind is not Manhattan:  # categories count a half of δ² for |δ|
        full = price.quadratic.ndim == 2
        square = price.quadratic + (np.diag(price.absolute) if full else price.absolute)
        norm = Price(np.zeros(program.width), square)
    found: list[tuple[Lead | FootLead, ...]] = []
    size = max(1, (1 << 16) // len(slope))  # a number for each draw in the cache
    for first in range(0, len(cases), size):
        some = cases.take(slice(first, first + size))
        reach = Reach(program, some)
        room, most = reach.room(lead[0])
        level = (some.x @ lead[0] + lead[1])[:, None] + room
        near, far = some.x @ slope.T + constant, reach.of(slope)
        for i in range(len(some)):
            row, moving = slice(i, i + 1), reach.both_ways(i)
            p = probability if moving is None else 1.0 - BAND * (1.0 - probability)
            start, rate = corners(near[row], far[row], p)
            band = Lead(some.x[i], start[0], rate[0], *lead, 0.0, norm)
            asked: tuple[Lead | FootLead, ...] = (band,)
            if moving is not None:
                band = capped(band, *noise, moving, probability)
                asked = beside_feet(band, *noise, far[i], moving, probability)
            slowest = band.rate if band.ahead is None else band.ahead
            least = float(least_lead(start, slowest[None], level[row], most[row])[0])
            known = (replace(c, least=least) if isinstance(c, Lead) else c for c in asked)
            found.append(tuple(known))
    return LinearLeads(tuple(found))


def share_answered(
    moves: tuple[FloatArray, FloatArray],
    probability: float,
    program: Program,
    case: Cases,
    lead: tuple[FloatArray, float],
) -> float:
    """How often a release leaves room for an answer to one row, about: from public numbers alone.

    True weights are not known; those that are known, shrunk by as much as noise is expected to have
    lengthened them, stand for them, and are released with 100 draws of the noise.
    """
    slope, constant = moves
    reach, x = Reach(program, case), case.x
    far = reach.of(slope)
    start, rate = corners(x @ slope.T + constant, far, probability)
    known = float(reach.of(lead[0][None])[0, 0]) ** 2
    size = np.sqrt(max(1.0 - float((far**2).mean()) / known, 0.0)) if known > 0.0 else 0.0
    given = 0
    for g, h in zip(slope[:100], constant[:100], strict=True):
        v, c = size * lead[0] + g, size * lead[1] + h
        room, most = reach.room(v)
        least = least_lead(start, rate, (x @ v + c)[:, None] + room, most)
        given += bool(np.isfinite(least[0]))
    return given / len(slope[:100])
