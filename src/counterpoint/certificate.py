"""The certificate: what an answer is worth, recomputed from the answer and its multipliers alone.

It imports no solver. Validity comes from the model's own ``predict`` on the returned row; cost and
violation from the program's formulas; the bound from weak duality, whatever the multipliers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.evidence import CLOSED, Bounding, Evidence
from counterpoint.engine.program import Program
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.targets import Guarantee, Verdict, members

__all__ = [
    "VIOLATION",
    "Certificate",
    "Certificates",
    "Claim",
    "Evidence",
    "Verdict",
    "certify",
    "lower_bounds",
]


VIOLATION = 1e-8
"""Largest relative violation of a constraint that counts as rounding."""


class Claim(StrEnum):
    """The source of the lower bound that settles a row: closes the gap, or excludes every answer.

    A row that is ``optimal``, ``already`` or ``infeasible`` is ``proved`` or ``reported``; one that
    is ``suboptimal`` is ``local`` or ``none``; all others are ``none``. The bound of a row that is
    not settled, be it ``limit`` with an answer, holds as far as the search got; its gap says how
    far.
    """

    PROVED = "proved"
    """Weak duality, recomputed from multipliers."""
    REPORTED = "reported"
    """The bound that a branch and bound reported."""
    LOCAL = "local"
    """Weak duality, but it leaves a gap: the answer is a local optimum of what is not convex."""
    NONE = "none"
    """Nothing: the row is not settled."""


COLUMNS = (
    *("valid", "margin", "violation", "cost", "bound", "claim"),
    *("objective", "probability", "guarantee", "rounding"),
)
"""The columns of `Certificates`."""


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """What one answer is worth.

    Parameters
    ----------
    valid
        Whether the model's own ``predict`` gives the target on the returned row.
    margin
        By how much the target is met, in score units.
    violation
        The largest violation of a constraint, relative to the size of its terms; 0 if all are met.
    cost
        Of the returned row, in cost units.
    bound
        No point that meets target and constraints has a lower objective.
    gap
        (objective − bound) / objective; 0 for an objective of 0.
    claim
        The source of the lower bound that settles the row.
    objective
        What was minimised: the cost; for a `Tradeoff`, weight / 2 · cost − log p.
    probability
        The model's own probability of the label at the returned row, for a target that is about
        one; for a `Robust`, the exact probability that the true weights give the label at this
        point, had it been fixed beforehand. Else NaN.
    resolution
        The largest violation that counts as rounding: 1e-8, in float32 columns more.
    guarantee
        What the probability of a `Robust` says of this answer; without an answer, what it was to
        say. ``none`` for other targets.
    rounding
        By how much the model's own score may be off at the returned row, in score units: a bound on
        the rounding errors of all its steps, in the precision in which it computes.
    """

    valid: bool
    margin: float
    violation: float
    cost: float
    bound: float
    gap: float
    claim: Claim
    objective: float
    probability: float = float("nan")
    resolution: float = VIOLATION
    guarantee: Guarantee = Guarantee.NONE
    rounding: float = 0.0

    @property
    def on_edge(self) -> bool:
        """Whether the answer is valid, but leads by less than the model's own rounding error.

        Then its constraints leave no room for more, as at a tie of whole numbers or categories. On
        another machine, in a batch of another size or after a round trip through text the model may
        decide otherwise.
        """
        return self.valid and self.margin < self.rounding

    @property
    def holds(self) -> bool:
        """Whether the answer is valid and meets its constraints."""
        return self.valid and self.violation <= self.resolution

    @property
    def likely(self) -> str:
        """The probability, as it goes on in a line of text; empty if there is none."""
        if np.isnan(self.probability):
            return ""
        text = f"{self.probability:.6g}"
        shown = "above 0.999999" if text == "1" else text  # for nothing is certain
        fixed = "" if self.guarantee is Guarantee.NONE else " if fixed beforehand"
        return f", probability {shown}{fixed}"


@final
@dataclass(frozen=True, eq=False)
class Certificates:
    """The certificates of a batch, in columns of shape (n,)."""

    valid: BoolArray
    margin: FloatArray
    violation: FloatArray
    cost: FloatArray
    bound: FloatArray
    claim: NDArray[np.object_]
    objective: FloatArray
    probability: FloatArray
    guarantee: NDArray[np.object_]
    rounding: FloatArray
    resolution: float = VIOLATION

    @classmethod
    def blank(cls, n: int) -> Certificates:
        """For n rows without an answer."""
        margin, violation, cost, objective, probability = np.full((5, n), np.nan)
        claim, guarantee = (members(n, none) for none in (Claim.NONE, Guarantee.NONE))
        valid, bound = np.zeros(n, dtype=bool), np.zeros(n)
        first = valid, margin, violation, cost, bound, claim, objective, probability
        return cls(*first, guarantee, np.full(n, np.nan))

    @property
    def gap(self) -> FloatArray:
        """(n,) relative gaps."""
        return _gap(self.objective, self.bound)

    @property
    def on_edge(self) -> BoolArray:
        """(n,): whether an answer leads by less than the model's own rounding error."""
        return self.valid & (self.margin < self.rounding)

    @property
    def holds(self) -> BoolArray:
        """(n,): whether the answer is valid and meets its constraints."""
        return self.valid & (self.violation <= self.resolution)

    def withheld(self, rows: BoolArray, bound: FloatArray) -> Certificates:
        """The same, with nothing but the bound for rows whose answer is withheld."""
        return Certificates(
            self.valid & ~rows,
            np.where(rows, np.nan, self.margin),
            np.where(rows, np.nan, self.violation),
            np.where(rows, np.nan, self.cost),
            np.where(rows, bound, self.bound),
            self.claim,
            np.where(rows, np.nan, self.objective),
            np.where(rows, np.nan, self.probability),
            self.guarantee,
            np.where(rows, np.nan, self.rounding),
            self.resolution,
        )

    def put(self, rows: NDArray[np.intp] | slice, other: Certificates) -> None:
        """Write the certificates of some rows."""
        for name in COLUMNS:
            getattr(self, name)[rows] = getattr(other, name)

    def __getitem__(self, i: int) -> Certificate:
        return Certificate(
            bool(self.valid[i]),
            float(self.margin[i]),
            float(self.violation[i]),
            float(self.cost[i]),
            float(self.bound[i]),
            float(_gap(self.objective[i], self.bound[i])),
            self.claim[i],
            float(self.objective[i]),
            float(self.probability[i]),
            self.resolution,
            self.guarantee[i],
            float(self.rounding[i]),
        )


def _gap(objective: FloatArray | float, bound: FloatArray | float) -> FloatArray:
    """(objective − bound) / objective; 0 for an objective of 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.maximum(objective - bound, 0.0) / objective
    return np.where(objective == 0.0, 0.0, gap)


def lower_bounds(
    pieces: Sequence[Bounding],
    reached: FloatArray,
    gap: float = CLOSED,
    margin: FloatArray | None = None,
) -> tuple[FloatArray, NDArray[np.object_]]:
    """Lower bounds over a union of programs, and what each that settles its row rests on.

    The bound of a union is the least bound of its pieces; a piece that its multipliers refute is
    out. An infinite bound means that every piece is refuted: the row is infeasible.

    Parameters
    ----------
    pieces
        What is known of each, or of many at once.
    reached
        (n,) objectives that were reached, infinite where there is no answer: only a piece whose
        bound is below needs to be refuted.
    gap
        A relative gap up to which a bound proves an answer optimal.
    margin
        (n, 2) for bounds on what meets the target by so much, see `Cases`.

    Returns
    -------
    tuple of ndarray
        (n,) bounds in units of the objective, (n,) claims.
    """
    proved, best = np.full((2, len(reached)), np.inf)
    local = np.zeros(len(reached), dtype=bool)
    for piece in pieces:
        bound, told = piece.bounds(reached, margin)
        proved, best = np.minimum(proved, bound), np.minimum(best, told)
        if piece.is_local:
            local |= (_gap(reached, bound) > gap) & (told <= bound) & np.isfinite(reached)
    settled = np.isposinf(best) | (_gap(reached, best) <= gap)
    reported = settled & (best > proved * (1.0 + 1e-12))
    rests = (settled, Claim.PROVED), (reported, Claim.REPORTED), (local, Claim.LOCAL)
    claim = members(len(reached), Claim.NONE, *rests)
    return np.where(settled & ~reported, proved, best), claim


def certify(
    program: Program,
    points: FloatArray,
    cases: Cases,
    known: tuple[FloatArray, NDArray[np.object_]],
    verdict: Verdict,
) -> Certificates:
    """Certificates of points.

    Parameters
    ----------
    program
        What is asked: the cost over the actionable region, with what is charged, without
        what the target demands.
    points
        (n, d) the returned rows, encoded.
    cases
        The rows.
    known
        (n,) bounds and (n,) claims, from `lower_bounds`.
    verdict
        What the model says of the points.
    """
    bound, claim = known
    cost = program.cost(points, cases.x)
    objective = program.objective(points, cases) if program.charges else cost
    return Certificates(
        verdict.valid,
        verdict.margin,
        program.violation(points, cases.x),
        cost,
        np.minimum(bound, objective),
        claim,
        objective,
        verdict.probability,
        verdict.guarantee,
        verdict.rounding,
    )
