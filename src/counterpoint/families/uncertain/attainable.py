"""What is attainable for a row that has no answer: a lower probability, or one with less noise.

Both are found by trying: what is told was reached by some point. More may be possible.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from time import thread_time

import numpy as np

from counterpoint.families.uncertain.form import FourierScores, UncertainForm
from counterpoint.families.uncertain.target import Robust
from counterpoint.numerics import TINY, FloatArray
from counterpoint.problem.targets import Label, rounded_down
from counterpoint.search.search import search
from counterpoint.search.union import Question, Union
from counterpoint.solvers import Effort

__all__ = [
    "attainable_of",
    "said_of_attainable",
    "said_of_promise",
    "said_of_prototype",
    "surest",
]

SECONDS, IN_ALL = 0.5, 4.0
"""Time for one try, and for all of them."""


def attainable_of(question: Question, target: Robust, x: FloatArray) -> str:
    """What is attainable for one row (1, d), of a form with noise, in a sentence."""
    form = question.form
    assert isinstance(form, UncertainForm)  # noqa: S101 (no other has regions of a `Robust`)
    slow = isinstance(form, FourierScores) and target.search != "segment"
    # As many halvings as `IN_ALL` has time for: a probability to some digits, the noise to two.
    finely, roughly = (2, 2) if slow else (8, 5)
    end = thread_time() + IN_ALL
    if _point(question, Label(target.label), x, end) is None:
        return "Even without noise no change was found that gives the label."
    probability = surest(question, target, x, finely, end)
    share = _quietest(question, target, x, roughly, end)
    epsilon = None
    if share is not None and form.epsilon is not None:
        epsilon = _rounded(form.epsilon / share, 3, ROUND_CEILING)
    return said_of_attainable(target, probability, share, epsilon)


def said_of_attainable(
    target: Robust, probability: float | None, share: float | None, epsilon: float | None
) -> str:
    """The sentence on the highest probability and the largest share of the noise that do."""
    if probability is None:
        told = "Not even a probability of 0.5 was reached"
    else:
        means = " for a fixed point"
        if target.selects:  # whoever asks for it now has looked at the weights
            means = " (a promise only if it was settled on beforehand)"
        told = f"A probability of {rounded_down(probability)} is attainable{means}"
    if share is not None:
        more = "" if epsilon is None else f" (epsilon = {epsilon:g})"
        told += (
            f"; {float(target.probability)!r} is attainable with {share:g} times the noise{more}, "
            "were the known weights the same"
        )
    return f"{told}."


def said_of_promise(target: Robust, share: float | None) -> str:
    """What is promised of an answer, however chosen; and the share of questions that get one."""
    allowed = 1.0 - target.probability
    told = f"Of all questions asked like this, at most {100.0 * allowed:.3g} % get a wrong answer."
    if share is None:
        return told
    told += f" About {100.0 * share:.0f} % get an answer, by simulation from the known weights"
    little = "" if share >= 2.0 * allowed else ": so few that half of these answers may be wrong"
    return f"{told}{little}."


def said_of_prototype(
    question: Question, target: Robust, x: FloatArray, y: FloatArray | None
) -> str:
    """What is to be said of the prototype of a target, for a row (1, d) that owes nothing to it."""
    form, z = question.form, target.prototype_point(question.features)
    if not isinstance(form, FourierScores) or z is None or target.search == "optimal":
        return ""
    if form.predict(z[None])[0] != target.label:
        return "The prototype was not used: the model takes it for the other class."
    if y is None:
        sure = float(form.certainty(z[None], target.label)[0])
        return f"The prototype itself has a probability of {rounded_down(sure)}, had it been fixed."
    cases = question.actionable.cases(x)
    way, gone = (np.clip(z, cases.low, cases.high) - x)[0], (y - x)[0]
    off = gone - float(way @ gone) / max(float(way @ way), TINY) * way
    if target.selects or np.abs(off).max() <= 1e-7 * np.abs(way).max():  # but for rounding
        return ""
    return "On the way to the prototype no point is as likely to hold; this one is elsewhere."


def surest(
    question: Question, target: Robust, x: FloatArray, halvings: int, end: float
) -> float | None:
    """The highest probability that was reached for one row (1, d); None if not even ½ was.

    The distance to what cannot be had is halved so often, in units of −log (1 − p), until ``end``
    in the seconds of ``thread_time``.
    """
    form, best = question.form, None
    assert isinstance(form, UncertainForm)  # noqa: S101 (no other has regions of a `Robust`)
    low, high = np.log(2.0), -np.log1p(-target.probability)
    for k in range(halvings + 1):
        middle = 0.5 * (low + high) if k else low
        asked = replace(target, probability=max(float(-np.expm1(-middle)), 0.5))
        point = _point(question, asked, x, end)
        if point is not None:
            best = asked.probability
            if not asked.selects:  # it may have more, for nothing
                sure = float(form.certainty(point[None], asked.label)[0])
                best = min(max(sure, best), target.probability)
            low = -np.log1p(-best)
        elif k:
            high = middle
        told_apart = np.exp(-low) - np.exp(-high) > 5e-4  # in three digits of a probability
        if best is None or not told_apart or thread_time() >= end:
            break
    return best


def _quietest(
    question: Question, target: Robust, x: FloatArray, halvings: int, end: float
) -> float | None:
    """The largest share of the noise, from 1/256 on, with which there is a point, in two digits."""
    form = question.form
    assert isinstance(form, UncertainForm)  # noqa: S101 (no other has regions of a `Robust`)

    def is_found(share: float) -> bool:
        quieter = replace(question, form=form.with_noise(share))
        return _point(quieter, target, x, end) is not None

    high, low = 0.999, 0.5  # below 1, since what is told is rounded down
    while not is_found(low):
        high, low = low, 0.5 * low
        if low < 1.0 / 256.0 or thread_time() >= end:
            return None
    for _ in range(halvings):
        if thread_time() >= end:
            break
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if is_found(middle) else (low, middle)
    return _rounded(low, 2, ROUND_FLOOR)


def _point(
    question: Question, target: Label | Robust, x: FloatArray, end: float
) -> FloatArray | None:
    """(d,) any point that meets a target; None if time runs out."""
    left = end - thread_time()
    if left <= 0.0:
        return None
    safety_margins, chance = question.safety_margins(target, x), target.requirement.chance
    hint = None if chance is None else chance.start_hint(question)
    pieces = Union.of(question.actionable, question.form.regions(target), hint)
    cases, effort = question.actionable.cases(x), Effort(1.0, min(SECONDS, left))
    found = search(pieces, cases, effort, safety_margins)
    return found.points[0] if found.piece[0] >= 0 else None


def _rounded(value: float, digits: int, way: str) -> float:
    """To so many digits, up or down."""
    return float(Context(prec=digits, rounding=way).create_decimal(value))
