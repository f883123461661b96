"""What became of a row, and the sentence that says so."""

from __future__ import annotations

from enum import StrEnum

from counterpoint.certificate import Claim
from counterpoint.targets import Guarantee

__all__ = ["ON_EDGE", "SURE", "Status", "said_of"]


class Status(StrEnum):
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


MESSAGES = {
    Status.OPTIMAL: "No better answer exists, to within the gap asked for.",
    Status.ALREADY: "The model already gives the target; nothing has to change.",
    Status.SUBOPTIMAL: "An answer; a better one is not excluded.",
    Status.LIMIT: "The time limit ran out; an answer, if there is one, is the best so far.",
    Status.INFEASIBLE: "No change within the constraints gives the target.",
    Status.UNPROVED: "No change was found, but none is excluded either.",
    Status.INVALID: "The row cannot be used.",
}
LOCALLY = "A local optimum; a better answer elsewhere is not excluded."
"""The message of a suboptimal answer whose claim is local."""
ANSWERED = (Status.OPTIMAL, Status.SUBOPTIMAL, Status.LIMIT)
SURE = {
    Guarantee.FIXED: "Its probability is that of a point fixed beforehand; this one was chosen by "
    "looking at the weights.",
    Guarantee.SELECTION: "It is as sure as was asked for, although it was chosen by looking at the "
    "weights.",
}
"""What is said besides of an answer to a `Robust`."""
UNSURE = {
    Guarantee.FIXED: "No change within the constraints is as likely to hold as was asked for, with "
    "weights as uncertain as these.",
    Guarantee.SELECTION: "No change within the constraints can be certified, with weights as "
    "uncertain as these, for a point that is chosen by looking at them.",
}
"""What is said where there is none."""
UNFOUND = (
    "No change was found that is as likely to hold as was asked for, with weights as uncertain as "
    "these, but none is excluded either."
)
"""What is said where none was found."""


ON_EDGE = (
    "It leads by less than the rounding error of the model's own score, for the constraints leave "
    "no room for more: the model may decide otherwise in another batch or on another machine."
)
"""What is said besides of such an answer, see `Certificate.on_edge`."""


def said_of(status: Status, claim: Claim, guarantee: Guarantee, *, found: bool) -> str:
    """The sentence for a row, or two."""
    if status is Status.SUBOPTIMAL and claim is Claim.LOCAL:
        text = LOCALLY
    elif status is Status.INFEASIBLE:
        text = UNSURE.get(guarantee, MESSAGES[status])
    elif status is Status.UNPROVED and guarantee in UNSURE:
        text = UNFOUND
    else:
        text = MESSAGES[status]
    sure = found and status in ANSWERED and guarantee in SURE
    return f"{text} {SURE[guarantee]}" if sure else text
