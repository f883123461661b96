"""What is attainable for a row that has no answer: a lower probability, or one with less noise.

Both are searched for: some point reaches what is said, and more may be possible.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from time import thread_time

import numpy as np

from counterpoint.families.uncertain.target import Robust, UncertainForm
from counterpoint.numerics import TINY, FloatArray
from counterpoint.problem.targets import Label, rounded_down
from counterpoint.search.query import Query
from counterpoint.search.search import Union, search
from counterpoint.solvers import Effort

__all__ = [
    "attainable_sentence",
    "promise_sentence",
    "prototype_sentence",
    "remark_without_answer",
    "surest",
]

SECONDS, IN_ALL = 0.5, 4.0
"""Time for one search, and for all of them."""


def remark_without_answer(
    question: Query, target: Robust, x: FloatArray, halvings: tuple[int, int]
) -> str:
    """Say what is attainable for one row (1, d), of a form with noise.

    As many halvings as `IN_ALL` has time for bring it a probability, and the share of the noise.
    """
    form = question.form
    assert isinstance(form, UncertainForm)  # noqa: S101 (no other has regions of a `Robust`)
    end = thread_time() + IN_ALL
    if _point(question, Label(target.label), x, end) is None:
        return "Even without noise no change was found that gives the label."
    probability = surest(question, target, x, halvings[0], end)
    share = _largest_share(question, form, target, x, halvings[1], end)
    epsilon = None
    if share is not None and form.epsilon is not None:
        epsilon = _rounded(form.epsilon / share, 3, ROUND_CEILING)
    return attainable_sentence(target, probability, share, epsilon)


def attainable_sentence(
    target: Robust, probability: float | None, share: float | None, epsilon: float | None
) -> str:
    """Say which probability is attainable, and with how much noise the target's own would be.

    ``share`` is the factor on the noise, and ``epsilon`` the privacy parameter of so much noise;
    each is None if no such value was reached.
    """
    sentence = "Not even a probability of 0.5 was reached"
    if probability is not None:
        # This probability was computed from the weights. A target whose promise covers the choice
        # of the point allows no look at the weights before the probability is fixed.
        beforehand = "(a promise only if it was settled on beforehand)"
        meaning = beforehand if target.selects else "for a fixed point"
        sentence = f"A probability of {rounded_down(probability)} is attainable {meaning}"
    if share is not None:
        noise = f"{share:g} times the noise"
        noise += "" if epsilon is None else f" (epsilon = {epsilon:g})"
        required = f"{float(target.probability)!r} is attainable with {noise}"
        sentence += f"; {required}, were the known weights the same"
    return f"{sentence}."


def promise_sentence(target: Robust, share: float | None) -> str:
    """Say what is promised of an answer, however chosen; and the share of questions with one."""
    allowed = 1.0 - target.probability
    promise = (
        f"Of all questions asked like this, at most {100.0 * allowed:.3g} % get a wrong answer."
    )
    if share is None:
        return promise
    answered = f"About {100.0 * share:.0f} % get an answer, by simulation from the known weights"
    few = "" if share >= 2.0 * allowed else ": so few that half of these answers may be wrong"
    return f"{promise} {answered}{few}."


def prototype_sentence(question: Query, target: Robust, x: FloatArray, y: FloatArray | None) -> str:
    """Say that an answer y to a row (1, d), or its absence, owes nothing to the prototype."""
    form, z = question.form, target.prototype_point(question.features)
    assert isinstance(form, UncertainForm)  # noqa: S101 (no other has regions of a `Robust`)
    if z is None or target.search == "optimal":
        return ""
    if form.predict(z[None])[0] != target.label:
        return "The prototype was not used: the model takes it for the other class."
    if y is None:
        sure = float(form.certainty(z[None], target.label)[0])
        return f"The prototype itself has a probability of {rounded_down(sure)}, had it been fixed."
    cases = question.actionable.cases(x)
    segment, delta = (np.clip(z, cases.low, cases.high) - x)[0], (y - x)[0]
    apart = delta - float(segment @ delta) / max(float(segment @ segment), TINY) * segment
    is_on = np.abs(apart).max() <= 1e-7 * np.abs(segment).max()  # but for rounding
    if target.selects or is_on:
        return ""
    return "On the way to the prototype no point is as likely to hold; this one is elsewhere."


def surest(
    question: Query, target: Robust, x: FloatArray, halvings: int, end: float
) -> float | None:
    """Return the highest probability reached for one row (1, d); None if not even ½ was.

    The interval of −log (1 − p) that it may lie in is halved so often, until ``end`` in the seconds
    of ``thread_time``.
    """
    form, best = question.form, None
    assert isinstance(form, UncertainForm)  # noqa: S101 (no other has regions of a `Robust`)
    low, high = np.log(2.0), -np.log1p(-target.probability)
    for k in range(halvings + 1):
        middle = 0.5 * (low + high) if k else low
        goal = replace(target, probability=max(float(-np.expm1(-middle)), 0.5))
        point = _point(question, goal, x, end)
        if point is not None:
            best = goal.probability
            if not goal.selects:  # the point may have more, for nothing
                sure = float(form.certainty(point[None], goal.label)[0])
                best = min(max(sure, best), target.probability)
            low = -np.log1p(-best)
        elif k:
            high = middle
        differ = np.exp(-low) - np.exp(-high) > 5e-4  # in three digits of a probability
        if best is None or not differ or thread_time() >= end:
            break
    return best


def _largest_share(
    question: Query,
    form: UncertainForm,
    target: Robust,
    x: FloatArray,
    halvings: int,
    end: float,
) -> float | None:
    """Return the largest share of the noise, from 1/256 on, with which there is a point."""

    def is_enough(share: float) -> bool:
        quieter = replace(question, form=form.with_noise(share))
        return _point(quieter, target, x, end) is not None

    high, low = 0.999, 0.5  # below 1, since the result is rounded down
    while not is_enough(low):
        high, low = low, 0.5 * low
        if low < 1.0 / 256.0 or thread_time() >= end:
            return None
    for _ in range(halvings):
        if thread_time() >= end:
            break
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if is_enough(middle) else (low, middle)
    return _rounded(low, 2, ROUND_FLOOR)


def _point(question: Query, target: Label | Robust, x: FloatArray, end: float) -> FloatArray | None:
    """(d,) any point that meets a target; None if time runs out."""
    seconds = end - thread_time()
    if seconds <= 0.0:
        return None
    safety_margins, chance = question.safety_margins(target, x), target.requirement.chance
    hint = None if chance is None else chance.start_hint(question)
    pieces = Union.of(question.actionable, question.form.regions(target), hint)
    effort = Effort(1.0, min(SECONDS, seconds))
    result = search(pieces, question.actionable.cases(x), effort, safety_margins)
    return result.points[0] if result.piece[0] >= 0 else None


def _rounded(value: float, digits: int, rounding: str) -> float:
    return float(Context(prec=digits, rounding=rounding).create_decimal(value))
