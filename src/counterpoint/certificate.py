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

from counterpoint.cases import Cases
from counterpoint.programs import Program

__all__ = ["Certificate", "Certificates", "Claim", "certify", "lower_bounds"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

VIOLATION = 1e-8
"""Largest relative violation of a constraint that counts as rounding."""
CLOSED = 1e-9
"""A relative gap below which nothing is left to prove."""


class Claim(StrEnum):
    """What the bound rests on."""

    PROVED = "proved"
    """Weak duality, recomputed from multipliers."""
    REPORTED = "reported"
    """The bound that a branch and bound reported."""
    NONE = "none"
    """Nothing but that a cost is not negative."""


CLAIMS = (Claim.NONE, Claim.REPORTED, Claim.PROVED)


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
        No point that meets target and constraints costs less.
    gap
        (cost − bound) / cost; 0 for a cost of 0.
    claim
        What the bound rests on.
    """

    valid: bool
    margin: float
    violation: float
    cost: float
    bound: float
    gap: float
    claim: Claim

    @property
    def holds(self) -> bool:
        """Whether the answer is valid and meets its constraints."""
        return self.valid and self.violation <= VIOLATION


@final
@dataclass(frozen=True, eq=False)
class Certificates:
    """The certificates of a batch, in columns of shape (n,); claims are positions in ``CLAIMS``."""

    valid: BoolArray
    margin: FloatArray
    violation: FloatArray
    cost: FloatArray
    bound: FloatArray
    claim: NDArray[np.int8]

    @classmethod
    def blank(cls, n: int) -> Certificates:
        """For n rows without an answer."""
        nothing = [np.full(n, np.nan) for _ in range(3)]
        return cls(np.zeros(n, bool), *nothing, np.zeros(n), np.zeros(n, dtype=np.int8))

    @property
    def gap(self) -> FloatArray:
        """(n,) relative gaps."""
        with np.errstate(invalid="ignore", divide="ignore"):
            gap = np.maximum(self.cost - self.bound, 0.0) / self.cost
        return np.where(self.cost == 0.0, 0.0, gap)

    @property
    def holds(self) -> BoolArray:
        """(n,): whether the answer is valid and meets its constraints."""
        return self.valid & (self.violation <= VIOLATION)

    def put(self, rows: NDArray[np.intp] | slice, other: Certificates) -> None:
        """Write the certificates of some rows."""
        for name in ("valid", "margin", "violation", "cost", "bound", "claim"):
            getattr(self, name)[rows] = getattr(other, name)

    def __getitem__(self, i: int) -> Certificate:
        return Certificate(
            bool(self.valid[i]),
            float(self.margin[i]),
            float(self.violation[i]),
            float(self.cost[i]),
            float(self.bound[i]),
            float(self.gap[i]),
            CLAIMS[self.claim[i]],
        )


def lower_bounds(
    programs: Sequence[Program],
    cases: Sequence[Cases],
    multipliers: Sequence[FloatArray],
    at: Sequence[FloatArray | None],
    reported: Sequence[FloatArray],
    cost: FloatArray,
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Lower bounds over a union of programs, and the claim that each rests on.

    The bound of a union is the least bound of its programs; a program that its multipliers refute
    is out. An infinite bound means that every program is refuted: the row is infeasible.

    Parameters
    ----------
    programs
        The pieces.
    cases, multipliers, at, reported
        For each piece: the people, (n, size) multipliers, (n, d) tangent points or None, and (n,)
        bounds reported by a branch and bound.
    cost
        (n,) costs that were reached, infinite where there is no answer: only a piece whose bound
        is below needs to be refuted.

    Returns
    -------
    tuple of ndarray
        (n,) bounds in cost units, (n,) claims as positions in ``CLAIMS``.
    """
    n = len(cases[0])
    proved, best = np.full(n, np.inf), np.full(n, np.inf)
    for program, case, given, point, told in zip(
        programs, cases, multipliers, at, reported, strict=True
    ):
        bound = program.bound(case, given, point)
        doubtful = np.flatnonzero(bound < cost * (1.0 - CLOSED))
        if len(doubtful):
            refuted = program.refutes(case.take(doubtful), given[doubtful])
            bound[doubtful[refuted]] = np.inf
        proved = np.minimum(proved, bound)
        best = np.minimum(best, np.maximum(bound, told))
    rests = np.where(best > proved * (1.0 + 1e-12), 1, np.where(proved > 0, 2, 0))
    return best, rests.astype(np.int8)


def certify(
    program: Program,
    points: FloatArray,
    cases: Cases,
    bound: FloatArray,
    claim: NDArray[np.int8],
    valid: BoolArray,
    margin: FloatArray,
) -> Certificates:
    """Certificates of points.

    Parameters
    ----------
    program
        What the person asked: the cost over the actionable region, without the target.
    points
        (n, d) the returned rows, encoded.
    cases
        The people.
    bound, claim
        From `lower_bounds`.
    valid
        (n,) from the model's own ``predict``.
    margin
        (n,) in score units.
    """
    cost = program.cost(points, cases.x)
    violation = program.violation(points, cases.x)
    proved_zero = (cost == 0.0) & (claim == 0)
    claim = np.where(proved_zero, np.int8(2), claim)
    return Certificates(valid, margin, violation, cost, np.minimum(bound, cost), claim)
