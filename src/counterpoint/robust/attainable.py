"""What could be had for a row, where what was asked for cannot be: less probability, or less noise.

Both are found by trying: what is told was reached by some point. More may be possible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from time import thread_time
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.pieces import Pieces
from counterpoint.engine.question import Question
from counterpoint.engine.search import search
from counterpoint.robust.form import FourierScores, UncertainForm
from counterpoint.robust.target import Robust
from counterpoint.solvers import Effort
from counterpoint.targets import Label

__all__ = ["Attainable", "attainable_of", "said_of_prototype", "said_of_rule", "surest"]

FloatArray = NDArray[np.float64]

SECONDS, IN_ALL = 0.5, 4.0
"""Time for one try, and for all of them."""
PROBABILITIES, SHARES = 8, 5
"""How often the distance to what can be had is halved: in −log (1 − p), and in −log of a share."""
FEW = 2
"""The same where a try takes long."""
APART = 5e-4
"""Probabilities that differ by less are not told apart."""
LEAST = 1.0 / 256.0
"""The smallest share of the noise that is tried."""
MOST = 0.999
"""The largest: what is told is rounded down."""


NEAR = 1e-7
"""How far off a segment a point may be that is on it, relative to its length."""


@final
@dataclass(frozen=True)
class Attainable:
    """What could be had instead.

    Parameters
    ----------
    asked
        What was asked for.
    probability
        The highest that was reached; None if not even ½ was.
    share
        With so much of the noise there is an answer that is as sure as was asked for; None if none
        was found with any.
    epsilon
        The privacy parameter at which there is so much noise; None if it does not decide about it.
    decided
        Whether there is a change at all that makes the known weights decide so.
    """

    asked: Robust
    probability: float | None
    share: float | None
    epsilon: float | None
    decided: bool

    def __str__(self) -> str:
        if not self.decided:
            return "Even without noise no change was found that gives the label."
        told = []
        if self.probability is None:
            told.append("Not even a probability of 0.5 was reached")
        else:
            told.append(f"A probability of {_told(self.probability)} can be had{self._meaning}")
        if self.share is not None:
            more = "" if self.epsilon is None else f" (epsilon = {self.epsilon:g})"
            wanted = float(self.asked.probability)
            told.append(
                f"{wanted!r} can be had with {self.share:g} times the noise{more}, were "
                "the known weights the same"
            )
        return f"{'; '.join(told)}."

    @property
    def _meaning(self) -> str:
        """What such a probability says of an answer."""
        if self.asked.selects:  # whoever asks for it now has looked at the weights
            return " (a promise only if it was settled on beforehand)"
        return " by the paper's rule" if self.asked.rule == "paper" else " for a fixed point"


def attainable_of(question: Question, target: Robust, x: FloatArray) -> Attainable:
    """What could be had for one row.

    Parameters
    ----------
    question, target
        What was asked for, of a form with noise.
    x
        (1, d) the encoded row.
    """
    form = question.form
    assert isinstance(form, UncertainForm)  # noqa: S101 (no other has regions of a `Robust`)
    slow = isinstance(form, FourierScores) and target.search != "segment"
    finely, roughly = (FEW, FEW) if slow else (PROBABILITIES, SHARES)
    end = thread_time() + IN_ALL
    if _point(question, Label(target.label), x, end) is None:
        return Attainable(target, None, None, None, decided=False)
    probability = surest(question, target, x, finely, end)
    share = _quietest(question, form, target, x, roughly, end)
    epsilon = None
    if share is not None and form.epsilon is not None:
        epsilon = float(_rounded(form.epsilon / share, 3, ROUND_CEILING))
    return Attainable(target, probability, share, epsilon, decided=True)


def said_of_rule(target: Robust, probability: float) -> str:
    """What is to be said of the rule of a target, for an answer with an exact probability."""
    if probability >= target.probability:
        return ""
    return (
        f"A point fixed beforehand would only have a probability of {_told(probability)} here: "
        "the paper's rule asks for too little."
    )


def said_of_prototype(
    question: Question, target: Robust, x: FloatArray, y: FloatArray | None
) -> str:
    """What is to be said of the prototype of a target, for an answer that owes nothing to it.

    Parameters
    ----------
    question, target
        What was asked for.
    x, y
        (1, d) the encoded row and its answer; None for none.
    """
    form, z = question.form, target.prototype_point(question.features)
    if not isinstance(form, FourierScores) or z is None or target.search == "optimal":
        return ""
    if not form.takes(z, target.label):
        return "The prototype was not used: the model takes it for the other class."
    if y is None:
        sure = float(form.certainty(z[None], target.label)[0])
        return f"The prototype itself has a probability of {_told(sure)}, had it been fixed."
    cases = question.plain.cases(x)
    if target.selects or _is_between(y, x, np.clip(z[None], cases.low, cases.high)):
        return ""
    return "On the way to the prototype no point is as likely to hold; this one is elsewhere."


def _is_between(y: FloatArray, x: FloatArray, z: FloatArray) -> bool:
    """Whether a point (1, d) is on a segment, but for rounding."""
    way, gone = (z - x)[0], (y - x)[0]
    share = float(way @ gone) / max(float(way @ way), 1e-300)
    return bool(np.abs(gone - share * way).max() <= NEAR * np.abs(way).max())


def surest(
    question: Question, target: Robust, x: FloatArray, halvings: int, end: float
) -> float | None:
    """The highest probability that was reached within the constraints; None if not even ½ was.

    Parameters
    ----------
    question, target
        What was asked for.
    x
        (1, d) the encoded row.
    halvings
        How often the distance to what cannot be had is halved, in units of −log (1 − p).
    end
        When to stop, in the seconds of ``thread_time``.
    """
    low, high, best = np.log(2.0), -np.log1p(-target.probability), None
    for k in range(halvings + 1):
        middle = 0.5 * (low + high) if k else low
        asked = replace(target, probability=max(float(-np.expm1(-middle)), 0.5))
        point = _point(question, asked, x, end)
        if point is not None:
            best = _reached(question, asked, target, point)
            low = -np.log1p(-best)
        elif k:
            high = middle
        told_apart = np.exp(-low) - np.exp(-high) > APART
        if best is None or not told_apart or thread_time() >= end:
            break
    return best


def _reached(question: Question, asked: Robust, target: Robust, point: FloatArray) -> float:
    """What a point has that was found for some probability, if not as much as the target."""
    form = question.form
    if asked.selects or asked.rule == "paper" or not isinstance(form, UncertainForm):
        return asked.probability
    sure = float(form.certainty(point[None], asked.label)[0])
    return min(max(sure, asked.probability), target.probability)


def _quietest(
    question: Question,
    form: UncertainForm,
    target: Robust,
    x: FloatArray,
    halvings: int,
    end: float,
) -> float | None:
    """The largest share of the noise with which there is a point, in two digits."""

    def is_found(share: float) -> bool:
        quieter = replace(question, form=form.with_noise(share))
        return _point(quieter, target, x, end) is not None

    high, low = MOST, 0.5
    while not is_found(low):
        high, low = low, 0.5 * low
        if low < LEAST or thread_time() >= end:
            return None
    for _ in range(halvings):
        if thread_time() >= end:
            break
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if is_found(middle) else (low, middle)
    return float(_rounded(low, 2, ROUND_FLOOR))


def _point(
    question: Question, target: Label | Robust, x: FloatArray, end: float
) -> FloatArray | None:
    """(d,) any point that meets a target; None if time runs out."""
    left = end - thread_time()
    if left <= 0.0:
        return None
    regions, leads = question.form.regions(target), target.leads(question, x)
    pieces = Pieces.of(question.plain, regions, target.aim(question))
    cases, effort = question.plain.cases(x), Effort(1.0, min(SECONDS, left))
    found = search(pieces, cases, effort, leads)
    return found.points[0] if found.piece[0] >= 0 else None


def _told(value: float) -> str:
    """A probability, rounded down to a hundredth of what it is below 1."""
    places = 2 - Decimal(1.0 - value).adjusted()
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-places), rounding=ROUND_FLOOR):f}"


def _rounded(value: float, digits: int, way: str) -> Decimal:
    place = Decimal(1).scaleb(Decimal(value).adjusted() - digits + 1)
    return Decimal(value).quantize(place, rounding=way)
