"""What a target asks of prototypes: which may win, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput
from counterpoint.models.linear import Link
from counterpoint.models.scores import mask, split
from counterpoint.targets import Target

__all__ = ["Demand", "demand_of"]

IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Demand:
    """What a target asks of prototypes.

    Parameters
    ----------
    wanted
        (P,) which of them may win.
    margin
        By how much, in score units.
    by_order
        Whether the first of equal scores wins; if not, being equal is enough.
    """

    wanted: NDArray[np.bool_]
    margin: float
    by_order: bool


def demand_of(target: Target, classes: NDArray[Any], owner: IntArray, link: Link) -> Demand:
    """What a target asks of prototypes whose classes are at ``owner`` (P,) in ``classes``.

    Raises
    ------
    InvalidInput
        If the target has no meaning for them, or asks for a probability that has no region.
    """
    if target.requirement.probable:
        return _probable(target, classes, owner, link)
    known = "the classes that have prototypes"
    wanted, asked = split(target, classes, "Label, OtherLabel or Confidence", known)
    return Demand(wanted[owner], asked, asked == 0.0)


def _probable(target: Target, classes: NDArray[Any], owner: IntArray, link: Link) -> Demand:
    """The log-odds of one of two classes are the difference of their scores."""
    kind = type(target).__name__
    if link is Link.NONE:
        raise InvalidInput(
            f"{kind} needs class probabilities: the nearest prototype decides, and distances are "
            "no probabilities. Use Label with a margin in units of the squared distance."
        )
    asked = target.requirement
    wanted = mask(asked.labels, classes)[owner]
    if asked.at_least is None:
        raise InvalidInput(
            "Tradeoff needs probabilities whose −log is convex; those of classes that each have a "
            "covariance of their own are not. Use Confidence, or Label with a margin in log-odds."
        )
    needed = float(np.log(asked.at_least) - np.log1p(-asked.at_least))
    if len(classes) > 2:
        enough = np.ceil(1e4 * max(needed + np.log(len(classes) - 1), 0.0)) / 1e4
        raise InvalidInput(
            "Confidence is read for two classes if each has a covariance of its own; got "
            f"{len(classes)}. Label({asked.labels[0]!r}, margin={enough:.6g}), a margin in "
            "log-odds against each other class, gives at least that probability."
        )
    return Demand(wanted, needed, by_order=False)
