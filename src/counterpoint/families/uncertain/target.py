"""`Robust`: the true weights decide for a label, with at least a probability."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import cached_property
from time import thread_time
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import Memo
from counterpoint.errors import InvalidInput, check_one_label, is_number, shown
from counterpoint.models.form import Form, mask
from counterpoint.numerics import EPS, TINY, BoolArray, FloatArray, IntArray
from counterpoint.privacy.noise import NoiseLaw
from counterpoint.problem.targets import (
    Guarantee,
    Label,
    ModelMargins,
    Requirement,
    Target,
    Validation,
    VaryingMargin,
    rounded_down,
)
from counterpoint.rows.encoding import encode, match_columns
from counterpoint.rows.features import Features
from counterpoint.rows.table import Table
from counterpoint.search.query import Query
from counterpoint.search.search import SafetyMargins, search
from counterpoint.solvers.base import Effort

SECONDS, IN_ALL = 0.5, 4.0
"""Processor time for one search for what is attainable, and for all searches of a row."""


@final
@dataclass(frozen=True)
class Robust(Target, VaryingMargin):
    """The true weights decide for a label, with at least a probability.

    For a binary model whose weights are known up to the law of their noise: a
    `counterpoint.privacy.PrivateSVC`, or any other linear one as an `UncertainClassifier`. What the
    known weights predict must be the label too.

    A search looks at the known weights, and so it finds points where their noise happens to flatter
    the label. The chance constraint of the literature, ``guarantee="fixed"``, is about a point that
    was fixed beforehand, and an optimal point keeps its promise far less often. With
    ``guarantee="selection"`` at most 1 − p of all questions get a wrong answer, however it was
    chosen: its score leads by what noise can do to any such point. Of the *answers*, more may be
    wrong where few questions are answered; the message of an answer tells how many are.

    That is for a question that does not depend on the known weights: one row, label, probability,
    cost and constraints. Where the label was chosen by looking at them, a wrong answer is given
    with a probability of at most 2 (1 − p). It is still 1 − p if the label is the one that they do
    not give to the row, the model is linear, and what may move are numbers that may rise and fall.

    Parameters
    ----------
    label
        A class label.
    probability
        At least ½ and below 1.
    guarantee
        ``"selection"``; ``"fixed"``; or ``"best"``, the first where attainable, else the second.
        Each answer's certificate says which it has.
    draws
        How many draws of the noise make ``"selection"``, which is then certain to 99.9 %; with
        random features, a tenth of them.
    random_state
        Their seed.
    search
        Where to look, if the model has random features: ``"segment"``, on the way to the prototype;
        ``"optimal"``, everywhere; ``"best"``, both, if each keeps the guarantee. A point of a
        segment that was chosen by looking at the weights is hardly less sure than a fixed one, and
        an optimal one far less: so for ``"fixed"`` the best is the segment, if it has a point that
        will do. Where the prototype is of no use, the best looks elsewhere, and says so.
    prototype
        For such a model a row that is known to be of the class: one row, of values or name → value.
        It must come from what is public; means of the private rows give them away.

    References
    ----------
    Mochaourab, Sinha, Greenstein & Papapetrou, Robust explanations for private support vector
    machines, equations 14–19, which are about a fixed point. Lagoa, Li & Sznaier (2005),
    Probabilistically constrained linear programs and risk-adjusted controller design.
    """

    label: Hashable
    probability: float
    guarantee: Literal["best", "selection", "fixed"] = "best"
    draws: int = 10_000
    random_state: int = 0
    search: Literal["best", "segment", "optimal"] = "best"
    prototype: Any = None
    probability_field: ClassVar[str | None] = "probability"

    def __post_init__(self) -> None:
        check_one_label(self.label)
        object.__setattr__(self, "prototype", _row_of(self.prototype))
        if not (is_number(self.probability) and 0.5 <= self.probability < 1.0):
            raise InvalidInput(
                "Expected a probability of at least 0.5, as likely as not, and below 1, which "
                f"nothing is; got {shown(self.probability)}. 90 % is 0.9."
            )
        for name, words in (
            ("guarantee", ("best", "selection", "fixed")),
            ("search", ("best", "segment", "optimal")),
        ):
            word = getattr(self, name)
            if not (isinstance(word, str) and word in words):
                listed = " or ".join(map(repr, words))
                raise InvalidInput(f"Expected {name} {listed}; got {shown(word)}.")
        if self.search == "segment" and self.prototype is None:
            raise InvalidInput(
                "Expected a prototype with search='segment'; got none. Pass a row that is known to "
                "be of the class, from public data and not from the rows the model was fitted on."
            )
        for name, least in (("draws", 1), ("random_state", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidInput(
                    f"Expected {name} to be a whole number of at least {least}; got {shown(value)}."
                )

    @property
    def selects(self) -> bool:
        """Whether the answer is to be sure however it was chosen, if that is attainable."""
        return self.guarantee != "fixed"

    @property
    def promise(self) -> Guarantee:
        return Guarantee.SELECTION if self.selects else Guarantee.FIXED

    @property
    def requirement(self) -> Requirement:
        return Requirement((self.label,), varying_margin=self)

    def goals(
        self, predicted: NDArray[Any], answered: BoolArray
    ) -> Iterator[list[tuple[Target, IntArray]]]:
        """The best is the first guarantee, and then the second where no answer has the first."""
        if self.guarantee != "best":
            yield [(self, np.arange(len(predicted)))]
            return
        yield [(replace(self, guarantee="selection"), np.arange(len(predicted)))]
        unanswered = np.flatnonzero(~answered)
        if len(unanswered):
            yield [(replace(self, guarantee="fixed"), unanswered)]

    def satisfied(self, form: ModelMargins, x: FloatArray, predicted: NDArray[Any]) -> BoolArray:
        return self._is_sure(predicted, _uncertain(form).certainty(x, self.label))

    def verdict(
        self, form: ModelMargins, x: FloatArray, predicted: NDArray[Any], eps: float
    ) -> Validation:
        probability = _uncertain(form).certainty(x, self.label)
        is_sure = self._is_sure(predicted, probability)
        return Validation(
            is_sure,
            form.margin(x, self),
            probability,
            np.where(is_sure, self.promise.code, Guarantee.NONE.code).astype(np.int8),
            form.margin_error(x, self.requirement, eps),
        )

    def misfit(self, model: str, fitting: str) -> InvalidInput:
        if "classes" in model:
            return InvalidInput(
                f"Robust needs a binary linear model; got {model}. Fit one class against the "
                "others, and say how uncertain its weights are."
            )
        return InvalidInput(
            "Robust needs a binary linear model, and the law of the noise on its weights: that of "
            "a PrivateSVC is known, and any other is said by "
            f"cp.UncertainClassifier(model, covariance=...). Got {model} without one."
        )

    def unusable(self, x: FloatArray, names: tuple[Hashable, ...]) -> dict[int, str]:
        rows, columns = np.nonzero(np.abs(x) > 1e100)  # whose squares and their sums may overflow
        return {
            i: f"column {names[j]!r} holds {x[i, j]:g}, which is too large to say what noise on "
            "the weights does there. Check its unit."
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
        }

    def start_hint(self, query: Query) -> StartHint | None:
        return _uncertain(query.model.form).start_hint(self, query.features)

    def safety_margins(self, query: Query, x: FloatArray) -> SafetyMargins | None:
        if not self.selects:
            return None
        return _uncertain(query.model.form).safety_margins(self, query, x)

    def remark(
        self, query: Query, x: FloatArray, y: FloatArray | None, guarantee: Guarantee
    ) -> str:
        sentence = ""
        if y is None:
            sentence = remark_without_answer(query, self, x)
        elif guarantee is Guarantee.SELECTION:
            share = _uncertain(query.model.form).share_answered(self, query, x)
            sentence = promise_sentence(self, share)
        about = prototype_sentence(query, self, x, y)
        return " ".join(filter(None, (sentence, about)))

    def attainable(self, query: Query, x: FloatArray, end: float) -> float | None:
        return surest(query, self, x, 12, end)

    def prototype_point(self, features: Features) -> FloatArray | None:
        """(d,) the encoded prototype; None if there is none."""
        if self.prototype is None:
            return None
        encoded = encode(match_columns(_table_of(self.prototype), features), features)
        if encoded.problems:
            raise InvalidInput(f"In prototype=: {encoded.problems[0]}")
        return np.asarray(features.expand(encoded.codes)[0])

    def _is_sure(self, predicted: NDArray[Any], probability: FloatArray) -> BoolArray:
        """(n,): whether points have the label and the probability."""
        return np.asarray((probability >= self.probability) & (predicted == self.label))


@final
@dataclass(frozen=True, eq=False)
class StartHint:
    """Where to look for points, if the target is smooth and not convex."""

    prototype: FloatArray | None = None  # (d,) the end of a segment on which to look, if any
    anywhere: bool = True  # whether to look everywhere else as well
    otherwise: bool = False  # whether to look everywhere else if the segment has no point


class UncertainForm(Form):
    """A binary model whose weights are known up to the law of their noise."""

    takes_prototypes: ClassVar[bool]
    """Whether answers may be looked for on the way to a prototype; searches are slow then."""
    law: NoiseLaw
    """The law of the noise of the weights (F,)."""
    epsilon: float | None
    """The ε of a release whose noise is in proportion to 1/ε; None for other noise."""
    classes: Any
    """(2,) labels."""
    phi: Any
    """The map from rows (n, d) to the features (n, F) that the weights multiply."""

    @abstractmethod
    def score_for(self, X: FloatArray, label: Hashable) -> FloatArray:
        """(n,) the score of a label by the known weights, positive where they predict it."""

    def certainty(self, X: FloatArray, label: Hashable) -> FloatArray:
        """(n,) the probability of a label by the true weights, at points fixed beforehand."""
        return 1.0 - self.law.tail(self.score_for(X, label), self.phi(X))

    def demanded(self, target: Robust) -> NoiseLaw | None:
        """Return the law whose quantile a score is to exceed; None if no quantile is demanded.

        The margins of answers to a `Robust` that ``selects`` are those of `safety_margins`.
        """
        return None if target.selects or target.probability == 0.5 else self.law

    @final
    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        """(n,) by how much scores of the label exceed what is demanded."""
        if not isinstance(target, Robust):
            return self.known_margin(X, target)
        score, law = self.score_for(X, target.label), self.demanded(target)
        if law is None:
            return score
        return np.asarray(score - law.quantile(target.probability, self.phi(X)))

    @abstractmethod
    def known_margin(self, X: FloatArray, target: Target) -> FloatArray:
        """(n,) by how much a target without noise is met, by the known weights."""

    def quantile_error(self, X: FloatArray) -> FloatArray:
        """(n,) a bound on the rounding error of a quantile, relative to the deviation."""
        return np.asarray(16 * EPS * self.law.deviation(self.phi(X)))

    def sign(self, label: Hashable) -> float:
        """1 for the second class, −1 for the first."""
        return 1.0 if bool(mask((label,), self.classes)[1]) else -1.0

    @cached_property
    def draws(self) -> Memo[tuple[int, int], Any]:
        """Draws of the noise, by their number and seed."""
        return Memo()

    @abstractmethod
    def start_hint(self, target: Robust, features: Features) -> StartHint | None:
        """Return where a target says to look; None if answers are optimal.

        Raises
        ------
        InvalidInput
            If it says so of a model without random features, or only of the way to a prototype
            that the model takes for another class.
        """

    @abstractmethod
    def safety_margins(self, target: Robust, query: Query, x: FloatArray) -> SafetyMargins:
        """Return how much answers to (n, d) rows have to lead by their distance."""

    @abstractmethod
    def share_answered(self, target: Robust, query: Query, x: FloatArray) -> float | None:
        """Estimate the share of releases with an answer to a row (1, d); None if it is slow."""


def _uncertain(form: ModelMargins) -> UncertainForm:
    """Return the form; it has noise, since no other form has regions for this target."""
    assert isinstance(form, UncertainForm)  # noqa: S101
    return form


def _table_of(row: Any) -> Table:
    """Return a table of one row, which is as the user passed it, or as `_row_of` returns it."""
    if not isinstance(row, tuple):
        return Table.read(row)
    named = bool(row) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in row)
    return Table.read(dict(row) if named else list(row))


def _row_of(row: Any) -> tuple[Any, ...] | None:
    """Return one row as a tuple of values, or of pairs of names and values if it has names."""
    if row is None:
        return None
    table = _table_of(row)
    if len(table) != 1:
        raise InvalidInput(f"Expected one row as a prototype; got {len(table)}.")
    values = tuple(table.column(name)[0] for name in table.names)
    values = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    return values if table.is_array else tuple(zip(table.names, values, strict=True))


# Sentences on answers, and on rows without one. A probability or an amount of noise that is called
# attainable was reached by some point; more may be possible.


def remark_without_answer(query: Query, target: Robust, x: FloatArray) -> str:
    """Say what is attainable for one row (1, d) without an answer; it takes at most `IN_ALL`.

    That is a probability with the noise as it is, and the noise with the probability as it is.
    """
    form, end = _uncertain(query.model.form), thread_time() + IN_ALL
    if _point(query, Label(target.label), x, end) is None:
        return "Even without noise no change was found that gives the label."
    # 2, 5 and 8 are numbers of halvings, each of which is a search.
    is_slow = form.takes_prototypes and target.search != "segment"
    probability = surest(query, target, x, 2 if is_slow else 8, end)
    share = _largest_share(query, target, x, 5 if is_slow else 8, end)
    epsilon = None
    if share is not None and form.epsilon is not None:
        epsilon = _rounded(form.epsilon / share, 3, ROUND_CEILING)
    return attainable_sentence(target, probability, share, epsilon)


def attainable_sentence(
    target: Robust, probability: float | None, share: float | None, epsilon: float | None
) -> str:
    """Say which probability is attainable, and with how much noise the target's own would be.

    ``share`` is the factor on the noise, and ``epsilon`` the privacy parameter of so much noise;
    what is None was not reached.
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
        sentence += f"; {required}, if the known weights stayed the same"
    return f"{sentence}."


def promise_sentence(target: Robust, share: float | None) -> str:
    """Say what an answer promises, however it was chosen, and which share of questions gets one."""
    allowed = 1.0 - target.probability
    promise = (
        f"Of all questions asked like this, at most {100.0 * allowed:.3g} % get a wrong answer."
    )
    if share is None:
        return promise
    answered = f"About {100.0 * share:.0f} % get an answer, by simulation from the known weights"
    warning = "" if share >= 2.0 * allowed else ": so few that half of these answers may be wrong"
    return f"{promise} {answered}{warning}."


def prototype_sentence(query: Query, target: Robust, x: FloatArray, y: FloatArray | None) -> str:
    """Return a sentence on the prototype, if it is not where the answer to a row comes from.

    ``x`` and ``y`` are a row and its answer, (1, d); y is None without one. The sentence is empty
    if no prototype was to be used, or if there is nothing to say of it.
    """
    form, prototype = _uncertain(query.model.form), target.prototype_point(query.features)
    if prototype is None or target.search == "optimal":
        return ""
    if form.predict(prototype[None])[0] != target.label:
        return "The prototype was not used: the model takes it for the other class."
    if y is None:
        p = float(form.certainty(prototype[None], target.label)[0])
        return f"The prototype itself has a probability of {rounded_down(p)}, had it been fixed."
    # The answer is on the segment from the row to the nearest point to the prototype that the
    # bounds allow, if its distance from the line through both is rounding.
    cases = query.actionable.cases(x)
    segment, change = (np.clip(prototype, cases.low, cases.high) - x)[0], (y - x)[0]
    along = float(segment @ change) / max(float(segment @ segment), TINY) * segment
    is_on_segment = np.abs(change - along).max() <= 1e-7 * np.abs(segment).max()
    # A target that ``selects`` promises the same of any point, wherever it was searched for.
    if target.selects or is_on_segment:
        return ""
    return "On the way to the prototype no point is as likely to hold; this one is elsewhere."


def surest(query: Query, target: Robust, x: FloatArray, halvings: int, end: float) -> float | None:
    """Return about the highest probability that is attainable for one row (1, d).

    It is below the target's own; None if not even ½ is attainable.
    """
    form = _uncertain(query.model.form)

    def attained(risk: float) -> float | None:
        """Return the risk, at most this one, of a point that is found; None without one."""
        goal = replace(target, probability=1.0 - risk)
        point = _point(query, goal, x, end)
        if point is None or goal.selects:
            return None if point is None else risk
        certainty = float(form.certainty(point[None], goal.label)[0])  # it may exceed the goal's
        return 1.0 - min(max(certainty, goal.probability), target.probability)

    risk = _least_attained(attained, 0.5, 1.0 - target.probability, halvings, end)
    return None if risk is None else 1.0 - risk


def _largest_share(
    query: Query, target: Robust, x: FloatArray, halvings: int, end: float
) -> float | None:
    """Return about the largest share of the noise with which one row (1, d) has an answer.

    None if 1/256 of the noise is too much.
    """
    form: Any = _uncertain(query.model.form)

    def attained(divisor: float) -> float | None:
        reading = replace(query.model, form=replace(form, law=form.law.scaled(1.0 / divisor)))
        point = _point(replace(query, model=reading), target, x, end)
        return None if point is None else divisor

    divisor = _least_attained(attained, 256.0, 1.0, halvings, end)
    return None if divisor is None else _rounded(1.0 / divisor, 2, ROUND_FLOOR)


def _least_attained(
    attained: Callable[[float], float | None], high: float, low: float, halvings: int, end: float
) -> float | None:
    """Return about the least number above ``low`` that is attained; None if ``high`` is not.

    ``attained`` returns the number, or a smaller one that was attained with it; None if it is not
    attained. The interval is halved in logarithms, until ``end`` in the seconds of ``thread_time``.
    """
    best = attained(high)
    for _ in range(halvings):
        if best is None or thread_time() >= end:
            break
        middle = float(np.sqrt(low * best))
        number = attained(middle)
        low, best = (middle, best) if number is None else (low, number)
    return best


def _point(query: Query, target: Label | Robust, x: FloatArray, end: float) -> FloatArray | None:
    """Return any point (d,) that meets a target; None if none is found in time."""
    seconds = end - thread_time()
    if seconds <= 0.0:
        return None
    query = query.asking(target=target)
    cases, margins = query.actionable.cases(x), query.safety_margins(x)
    incumbents = search(query.union, cases, Effort(1.0, min(SECONDS, seconds)), margins)
    return incumbents.points[0] if incumbents.piece[0] >= 0 else None


def _rounded(value: float, digits: int, rounding: str) -> float:
    return float(Context(prec=digits, rounding=rounding).create_decimal(value))
