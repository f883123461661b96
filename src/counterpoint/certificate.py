"""Certificates say what an answer is worth, recomputed from it and from its multipliers alone.

No solver is imported. Validity comes from the model's own ``predict`` on the returned row; cost and
violation from the program's formulas; the bound from weak duality, whatever the multipliers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.numerics import CLOSED, VIOLATION, BoolArray, FloatArray, Word, WordArray
from counterpoint.problem.targets import Guarantee, Validation
from counterpoint.programs.evidence import Bounding, Evidence
from counterpoint.programs.losses import LogLoss

if TYPE_CHECKING:
    from counterpoint.programs.program import Program
    from counterpoint.programs.region import Batch


class Claim(Word):
    """The source of the lower bound that settles a row: closes the gap, or excludes every answer.

    A row that is ``optimal``, ``already`` or ``infeasible`` is ``proved`` or ``reported``; one that
    is ``suboptimal`` is ``local`` or ``none``; all others are ``none``. The bound of a row that is
    not settled, including ``limit`` with an answer, holds as far as the search got; its gap says
    how far.
    """

    PROVED = "proved"
    """Weak duality, recomputed from multipliers."""
    REPORTED = "reported"
    """The bound that a branch and bound reported."""
    LOCAL = "local"
    """Weak duality, but it leaves a gap: the answer is a local optimum of what is not convex."""
    NONE = "none"
    """Nothing: the row is not settled."""


class Status(Word):
    """What became of a row."""

    OPTIMAL = "optimal"
    """A valid answer whose gap is at most the gap that was asked for."""
    ALREADY = "already"
    """The row meets the target as it is: nothing has to change, and the answer is the row.

    Constraints are about changes: the row may break one (its certificate says by how much)."""
    SUBOPTIMAL = "suboptimal"
    """A valid answer whose gap is larger than asked for."""
    LIMIT = "limit"
    """The time limit ran out; the best answer so far, if any, with its gap."""
    INFEASIBLE = "infeasible"
    """No answer exists: proved, or reported by a branch and bound (see the claim)."""
    UNPROVED = "unproved"
    """No answer was found, and no proof that none exists."""
    INVALID = "invalid"
    """The row cannot be used; the message says why."""


@final
class Comparison(Enum):
    """What an optimal answer is the best of: a phrase for it, and one for what would be better."""

    CHEAPEST = "the cheapest possible change", "possible change is more than {} cheaper"
    TRADEOFF = "the best possible trade-off", "possible trade-off is more than {} better"
    ALTERNATIVE = (
        "the cheapest change that differs enough from the answers before it",
        "change that differs enough from the answers before it is more than {} cheaper",
    )
    TRADEOFF_OF_SEVERAL = "the best trade-off of its kind", "such trade-off is more than {} better"

    @classmethod
    def of(cls, *, is_cheapest: bool, is_tradeoff: bool) -> Comparison:
        """Return what an answer is compared with: a row's only answer, or one of several."""
        if is_tradeoff:
            return cls.TRADEOFF if is_cheapest else cls.TRADEOFF_OF_SEVERAL
        return cls.CHEAPEST if is_cheapest else cls.ALTERNATIVE

    def sentence(self, claim: Claim, gap: float) -> str:
        """Say that nothing better exists, up to the relative ``gap`` that was asked for."""
        best, better = self.value
        source = "as a solver reports" if claim is Claim.REPORTED else "proved"
        if gap <= NEGLIGIBLE_GAP:
            return f"This is {best} ({source})."
        return f"No {better.format(f'{100.0 * gap:.6g} %')} ({source})."


NEGLIGIBLE_GAP = 1e-6
"""The largest relative gap that a sentence leaves out: the default of `Explainer.explain`."""
MESSAGES = {
    Status.ALREADY: "The model already gives the target; nothing has to change.",
    Status.SUBOPTIMAL: "This is a valid answer; its gap says how much better one could be.",
    Status.LIMIT: "The time limit ran out; this is the best answer so far.",
    Status.INFEASIBLE: "No change within the constraints gives the target.",
    Status.UNPROVED: "No change was found, but it is not proved that none exists.",
    Status.INVALID: "The row cannot be used.",
}
TIMED_OUT = "The time limit ran out before an answer was found."
"""The message of a row without an answer, in the place of that for `Status.LIMIT`."""
LOCAL_OPTIMUM = "This is a local optimum; a better answer may exist elsewhere."
"""The message of a suboptimal answer whose claim is local."""
ANSWERED = (Status.OPTIMAL, Status.SUBOPTIMAL, Status.LIMIT)
PROMISED = {
    Guarantee.FIXED: "Its probability is that of a point fixed beforehand; this answer was chosen "
    "by looking at the weights, so it may hold less often.",
    Guarantee.SELECTION: "It was chosen by looking at the weights, so the promise is a share of "
    "all questions, and no probability for this answer.",
}
"""Sentences that are added to the message of an answer to a `Robust`."""
NOT_PROMISED = {
    Guarantee.FIXED: "No change within the constraints is as likely to hold as was asked for, with "
    "weights as uncertain as these.",
    Guarantee.SELECTION: "No change within the constraints can be certified, with weights as "
    "uncertain as these, for a point that is chosen by looking at them.",
}
"""The messages of infeasible rows for a `Robust`."""
PROMISE_NOT_FOUND = (
    "No change was found that is as likely to hold as was asked for, with weights as uncertain as "
    "these, but it is not proved that none exists."
)
"""The message of rows without an answer for a `Robust` that are not proved to be infeasible."""
ON_EDGE = (
    "It leads by less than the rounding error of the model's own score, because the constraints "
    "leave no room for more: the model may decide differently in another batch, or on another "
    "machine."
)
"""Added to the message of such an answer, see `Certificate.on_edge`."""


def message_of(  # noqa: PLR0913 (what a row's sentences depend on)
    status: Status,
    claim: Claim,
    guarantee: Guarantee,
    *,
    has_answer: bool,
    on_edge: bool,
    comparison: Comparison = Comparison.CHEAPEST,
    gap: float = NEGLIGIBLE_GAP,
) -> str:
    """Return the sentences for a row, answered up to the relative ``gap`` that was asked for."""
    if status is Status.OPTIMAL:
        text = comparison.sentence(claim, gap)
    elif status is Status.SUBOPTIMAL and claim is Claim.LOCAL:
        text = LOCAL_OPTIMUM
    elif status is Status.LIMIT and not has_answer:
        text = TIMED_OUT
    elif status is Status.INFEASIBLE:
        text = NOT_PROMISED.get(guarantee, MESSAGES[status])
    elif status is Status.UNPROVED and guarantee in NOT_PROMISED:
        text = PROMISE_NOT_FOUND
    else:
        text = MESSAGES[status]
    if has_answer and status in ANSWERED and guarantee in PROMISED:
        text = f"{text} {PROMISED[guarantee]}"
    return f"{text} {ON_EDGE}" if on_edge and status is not Status.ALREADY else text


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate of one answer: whether it is valid, and how much better one could be.

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
        """The probability, as it continues a line of text; empty if there is none."""
        if np.isnan(self.probability):
            return ""
        digits = f"{self.probability:.6g}"
        if digits == "1":
            digits = "above 0.999999"  # for nothing is certain
        condition = "" if self.guarantee is Guarantee.NONE else " if fixed beforehand"
        return f", probability {digits}{condition}"


@final
@dataclass(frozen=True, eq=False)
class Certificates:
    """The certificates of a batch, in columns of shape (n,), see `Certificate`."""

    valid: BoolArray
    margin: FloatArray
    violation: FloatArray
    cost: FloatArray
    bound: FloatArray
    claims: WordArray
    objective: FloatArray
    probability: FloatArray
    guarantees: WordArray
    rounding: FloatArray
    resolution: float = VIOLATION

    @classmethod
    def blank(cls, n: int) -> Certificates:
        """Make the certificates of n rows without an answer."""
        blanks: dict[str, Any] = {name: np.full(n, np.nan) for name in NUMBERS}
        return cls(
            **blanks,
            valid=np.zeros(n, dtype=bool),
            bound=np.zeros(n),
            claims=np.full(n, Claim.NONE.code, np.int8),
            guarantees=np.full(n, Guarantee.NONE.code, np.int8),
        )

    @property
    def claim(self) -> NDArray[np.object_]:
        """(n,) `Claim` of each row."""
        return Claim.of(self.claims)

    @property
    def guarantee(self) -> NDArray[np.object_]:
        """(n,) `Guarantee` of each row."""
        return Guarantee.of(self.guarantees)

    @property
    def gap(self) -> FloatArray:
        """(n,) relative gaps."""
        return relative_gap(self.objective, self.bound)

    @property
    def on_edge(self) -> BoolArray:
        """(n,): whether an answer leads by less than the model's own rounding error."""
        return self.valid & (self.margin < self.rounding)

    @property
    def holds(self) -> BoolArray:
        """(n,): whether the answer is valid and meets its constraints."""
        return self.valid & (self.violation <= self.resolution)

    def withheld(self, rows: BoolArray, promise: Guarantee) -> Certificates:
        """Withhold the answers of some rows: only their bounds stay, and a promise instead."""
        blanks: dict[str, Any] = {
            name: np.where(rows, np.nan, getattr(self, name)) for name in NUMBERS
        }
        guarantees = np.where(rows, np.int8(promise.code), self.guarantees)
        return replace(self, valid=self.valid & ~rows, guarantees=guarantees, **blanks)

    def put(
        self,
        rows: NDArray[np.intp] | slice,
        other: Certificates,
        source: BoolArray | slice = slice(None),
    ) -> None:
        """Write other certificates, or a part of them, into some rows."""
        for name in COLUMNS:
            getattr(self, name)[rows] = getattr(other, name)[source]

    def __repr__(self) -> str:
        return f"<Certificates: {len(self.valid)} rows, {np.count_nonzero(self.valid)} valid>"

    def __getitem__(self, i: int) -> Certificate:
        numbers = {name: float(getattr(self, name)[i]) for name in (*NUMBERS, "bound")}
        return Certificate(
            **numbers,
            valid=bool(self.valid[i]),
            gap=float(relative_gap(numbers["objective"], numbers["bound"])),
            claim=[*Claim][self.claims[i]],
            guarantee=[*Guarantee][self.guarantees[i]],
            resolution=self.resolution,
        )


COLUMNS = tuple(column.name for column in fields(Certificates) if column.name != "resolution")
"""The columns of `Certificates`."""
NUMBERS = ("margin", "violation", "cost", "objective", "probability", "rounding")
"""Columns that are NaN without an answer."""


def relative_gap(objective: FloatArray | float, bound: FloatArray | float) -> FloatArray:
    """(objective − bound) / objective; 0 for an objective of 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.maximum(objective - bound, 0.0) / objective
    return np.where(objective == 0.0, 0.0, gap)


def lower_bounds(
    evidence: Sequence[Bounding],
    incumbent: FloatArray,
    gap: float = CLOSED,
    *,
    exact: bool = True,
) -> tuple[FloatArray, WordArray]:
    """(n,) lower bounds over a union of programs, and the `Claim` of each: what it rests on.

    The bound of a union is the least bound of its pieces. A piece that its multipliers refute has
    an infinite one, and so has a row all of whose pieces are refuted: it is infeasible. Only a
    piece whose bound is below the ``incumbent`` objectives (n,), infinite without an answer, needs
    to be refuted. Up to a relative ``gap`` a bound proves an answer optimal. Where the model's
    arithmetic is not ``exact`` but that of float32, searches ask for a margin that raises the cost
    noticeably: what solvers report of points with this margin is a bound only if it is claimed.
    """
    proved, best = np.full((2, len(incumbent)), np.inf)  # best: with what solvers reported
    has_answer, local = np.isfinite(incumbent), np.zeros(len(incumbent), dtype=bool)
    # nothing refutes the only piece where there is an answer in it
    is_single = len(evidence) == 1 and isinstance(evidence[0], Evidence)
    to_refute = np.where(has_answer, 0.0, incumbent) if is_single else incumbent
    for piece in evidence:
        is_local, (bound, reported_bound) = piece.is_local, piece.bounds(to_refute)
        proved, best = np.minimum(proved, bound), np.minimum(best, reported_bound)
        if is_local:
            leaves_gap = relative_gap(incumbent, bound) > gap
            local |= has_answer & leaves_gap & (reported_bound <= bound)
    settled = np.isposinf(best) | (relative_gap(incumbent, best) <= gap)
    proves = np.isposinf(proved) | (relative_gap(incumbent, proved) <= gap)
    reported = settled & ~proves & (best > proved * (1.0 + 1e-12))  # by more than rounding
    claim = np.full(len(incumbent), Claim.NONE.code, np.int8)
    claim[settled], claim[reported] = Claim.PROVED.code, Claim.REPORTED.code
    claim[local] = Claim.LOCAL.code
    is_proved = settled & ~reported if exact else ~reported
    return np.where(is_proved, proved, best), claim


def certify(  # noqa: PLR0913 (what an answer is judged by)
    program: Program,
    points: FloatArray,
    cases: Batch,
    verdict: Validation,
    evidence: Sequence[Bounding] | Certificates | None,
    *,
    gap: float = CLOSED,
    resolution: float = VIOLATION,
) -> Certificates:
    """Certify (n, d) returned rows; a row whose answer does not hold keeps its bound.

    The program is the cost over the actionable region, with the objective term of the target and
    without its demands; the verdict is the model's on the points. The evidence bounds every piece
    of the target from below. It is None for rows that stay as they are, at no cost; certificates of
    other answers to the same rows, if these answers are made of those. An answer is optimal up to
    the ``gap``; violations up to the ``resolution`` are rounding.
    """
    n = len(points)
    objective = cost = np.zeros(n) if evidence is None else program.encoded_cost(points, cases.x)
    violation = program.violation(points, cases.x)
    if LogLoss in program.condition_types:
        objective = program.objective(points, cases, cost)
    holds = verdict.valid & (violation <= resolution)
    if evidence is None:
        bound, claim = np.zeros(n), np.full(n, Claim.PROVED.code, np.int8)
    elif isinstance(evidence, Certificates):
        bound, claim = _inherited(evidence, objective, gap)
    else:
        incumbent = np.where(holds, objective, np.inf)
        bound, claim = lower_bounds(evidence, incumbent, gap, exact=resolution <= VIOLATION)
    return Certificates(
        verdict.valid,
        verdict.margin,
        violation,
        cost,
        np.where(holds, np.minimum(bound, objective), bound),
        claim,
        objective,
        verdict.probability,
        verdict.guarantees,
        verdict.rounding,
        resolution,
    )


def _inherited(
    certificates: Certificates, objective: FloatArray, gap: float
) -> tuple[FloatArray, WordArray]:
    """(n,) bounds and claims of answers, from the certificates of other answers to the same rows.

    A claim stays where it still settles its row. A row that is settled only now, because this
    answer is the better one, counts as reported: its bound may not be proved.
    """
    claims, bound = certificates.claims, np.minimum(certificates.bound, objective)
    settled = np.where(claims == Claim.PROVED.code, claims, np.int8(Claim.REPORTED.code))
    unsettled = np.where(claims == Claim.LOCAL.code, claims, np.int8(Claim.NONE.code))
    return bound, np.where(relative_gap(objective, bound) <= gap, settled, unsettled)


def judge(certificates: Certificates, gap: float, limited: BoolArray) -> WordArray:
    """(n,) `Status` of rows that were searched; the claims of those that are not settled go.

    An answer that holds is one, whatever else is known of its row; without one, an infinite bound
    refutes the row, also if its time ran out afterwards (``limited``). An answer is optimal if its
    gap is at most the ``gap`` that was asked for.
    """
    answered, infeasible = certificates.holds, np.isposinf(certificates.bound)
    optimal = answered & (certificates.gap <= gap)
    limited = limited & (answered | ~infeasible)
    status = np.full(len(answered), Status.UNPROVED.code, np.int8)
    status[infeasible], status[answered] = Status.INFEASIBLE.code, Status.SUBOPTIMAL.code
    status[limited], status[optimal] = Status.LIMIT.code, Status.OPTIMAL.code
    unsettled = ~optimal & (limited | ~(infeasible | answered))
    certificates.claims[unsettled] = Claim.NONE.code
    return status
