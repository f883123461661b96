"""Why a row has no answer: a minimal set of conflicting constraints; how far a bound must give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.answer import Conflict
from counterpoint.cases import Cases
from counterpoint.certificate import lower_bounds
from counterpoint.constraints import (
    Bounds,
    Constraint,
    Ellipsoid,
    Immutable,
    Linear,
    MaxChanges,
    Monotone,
    WithinObserved,
)
from counterpoint.costs import Price
from counterpoint.features import Categorical, Features
from counterpoint.outlook import surest
from counterpoint.question import Question
from counterpoint.search import Pieces, rise, search
from counterpoint.solvers import Effort
from counterpoint.suprema import Leads
from counterpoint.targets import Confidence, Robust, Target, Tradeoff

__all__ = ["conflict_of"]

FloatArray = NDArray[np.float64]

SMALL = 1e-4
"""The price of other columns beside the one whose bound is asked about, where boundaries bend."""
TRACE = 1e-7
"""What the price counts beside −log of a probability that is to be as high as can be."""
TIMES = 3
HALVINGS = 12
"""How often the distance to a probability that can be had is halved."""
SECONDS = 1.0
"""Time for one set of constraints in a piece; a set that takes longer counts as one with an
answer."""
CELLS = 5
"""Thousands of cells count as so many pieces."""
FIRST_TO_GO: tuple[type[Constraint], ...] = (
    WithinObserved,
    Ellipsoid,
    Linear,
    Monotone,
    MaxChanges,
    Immutable,
    Bounds,
)
"""Which constraints to try to do without first: the ones that say least about the person."""


def conflict_of(question: Question, target: Target, x: FloatArray) -> Conflict:
    """A minimal conflict by deletion: constraints without which the row stays infeasible go.

    Parameters
    ----------
    question
        What was asked; its constraints are what may conflict.
    target
        What was wanted; an `OtherLabel` must name its labels.
    x
        (1, d) the encoded row.
    """
    needed = [a for c in question.constraints for a in _atoms(c, question.features)]
    needed.sort(key=_rank)
    possible = _Possible(question, target, x)
    needed = _without(needed, needed, possible)
    relaxations = [possible.relaxation(atom, needed) for atom in needed]
    attainable = None
    if isinstance(target, Confidence):
        attainable = _highest_probability(question, target, x)
        if attainable is not None:
            relaxations.append(
                f"with at_least = {_rounded_down(attainable)} instead of {target.at_least:.6g} "
                "there is an answer"
            )
    if isinstance(target, Robust):
        attainable = surest(question, target, x, HALVINGS)
        if attainable is not None:
            relaxations.append(
                f"with probability = {_rounded_down(attainable)} instead of "
                f"{target.probability:.6g} there is an answer"
            )
    told = tuple(text for text in relaxations if text)
    return Conflict(_joined(needed), told, possible.sure, attainable)


def _without(
    superfluous: Sequence[Constraint], needed: list[Constraint], possible: _Possible
) -> list[Constraint]:
    """What is left of constraints that exclude every answer if some go that need not stay.

    The same as if they went one after the other; but many that can go, go at once.
    """
    gone = set(map(id, superfluous))
    fewer = [atom for atom in needed if id(atom) not in gone]
    if not superfluous or not possible.answer(fewer):
        return fewer
    if len(superfluous) == 1:
        return needed
    half = len(superfluous) // 2
    for part in (superfluous[:half], superfluous[half:]):
        needed = _without(part, needed, possible)
    return needed


def _highest_probability(question: Question, target: Confidence, x: FloatArray) -> float | None:
    """The highest probability of the label within the constraints, but for a trace of the cost.

    −log of it is minimised with a price that is next to nothing beside it: without any, the highest
    may be reached at infinity only.
    """
    pieces = question.pieces(Tradeoff(target.label, 1.0))
    program = pieces[0].program
    cases, weight, best = program.cases(x), np.full(1, TRACE), None
    for _ in range(TIMES):
        point, _ = _any_point(pieces, cases.weighing(weight), gap=1e-9)
        if point is None:
            break
        y = point[None, :]
        charged = float(sum(charge.amount(y)[0] for charge in program.charges))
        best = max(best or 0.0, float(np.exp(-charged)))
        weight = TRACE * max(charged, TRACE) / np.maximum(program.cost(y, x), TRACE)
    return best


def _rounded_down(value: float) -> str:
    """Six digits, none of them too high."""
    digits = Decimal(value)
    place = Decimal(1).scaleb(digits.adjusted() - 5)
    return f"{digits.quantize(place, rounding=ROUND_FLOOR):g}"


def _rank(atom: Constraint) -> int:
    kind = type(atom)
    return FIRST_TO_GO.index(kind) if kind in FIRST_TO_GO else len(FIRST_TO_GO)


def _atoms(constraint: Constraint, features: Features) -> Iterator[Constraint]:
    """A constraint on several features as one constraint on each."""
    if isinstance(constraint, Immutable):
        yield from (Immutable(name) for name in constraint.features)
    elif isinstance(constraint, WithinObserved):
        yield from (WithinObserved(name) for name in constraint.features or features.names)
    else:
        yield constraint


def _joined(atoms: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The atoms again as constraints on several features, the telling ones first."""
    frozen = [a.features[0] for a in atoms if isinstance(a, Immutable)]
    observed = [a.features[0] for a in atoms if isinstance(a, WithinObserved)]
    rest = [a for a in atoms if not isinstance(a, Immutable | WithinObserved)]
    joined: list[Constraint] = list(reversed(rest))
    joined += [Immutable(*frozen)] if frozen else []
    joined += [WithinObserved(*observed)] if observed else []
    return tuple(joined)


@final
class _Possible:
    """What is possible for one row under sets of constraints."""

    def __init__(self, question: Question, target: Target, x: FloatArray) -> None:
        self.question, self.target, self.x = question, target, x
        self.features = question.features
        self.sure = True
        """Whether every set was decided in time."""

    def answer(self, constraints: Sequence[Constraint]) -> bool:
        """Whether there is any answer; if time runs out, as if there were."""
        pieces, cases, band = self._asked(constraints, np.ones(self.features.width))
        point, decided = _any_point(pieces, cases, gap=1.0, band=band)
        self.sure &= decided
        return point is not None or not decided

    def _asked(
        self, constraints: Sequence[Constraint], weights: FloatArray
    ) -> tuple[Pieces, Cases, Leads | None]:
        """The target under other constraints and another price, unless that decides who is sure."""
        question = replace(self.question, constraints=tuple(constraints))
        if not self._is_by_price:
            question = replace(question, price=Price(weights, np.zeros(self.features.width)))
        decides = question.on_lattice(self.x).all()
        pieces = (question.decided if decides else question.pieces)(self.target)
        return pieces, question.plain.cases(self.x), question.band(self.target, self.x)

    @property
    def _bends(self) -> bool:
        """Whether some piece of the target is not convex."""
        return any(piece.program.nonconvex for piece in self.question.pieces(self.target).listed)

    @property
    def _is_by_price(self) -> bool:
        """Whether the target depends on what points cost."""
        return isinstance(self.target, Robust) and self.target.selects

    def relaxation(self, atom: Constraint, needed: Sequence[Constraint]) -> str | None:
        """What a bound alone would have to become, given the other constraints."""
        if not isinstance(atom, Bounds) or isinstance(self.features[atom.feature], Categorical):
            return None
        if self._is_by_price:
            return None
        name = atom.feature
        column = self.features.columns(name).start
        here = float(self.x[0, column])
        low, high = max(atom.low, here - atom.fall), min(atom.high, here + atom.rise)
        anchor = here if low > high else min(max(here, low), high)
        value = self._nearest(column, anchor, [other for other in needed if other is not atom])
        if value is None:
            return None
        side, limit = ("at least", high) if value > anchor else ("at most", low)
        return f"with {name} {side} {value:.6g} instead of {limit:.6g} there is an answer"

    def _nearest(
        self, column: int, anchor: float, constraints: Sequence[Constraint]
    ) -> float | None:
        """The value of a column nearest to the anchor at which some piece has a point.

        Where boundaries bend, every change needs a price: the other columns have a small one, and
        the value is one at which there is a point, near to the nearest.
        """
        weights = np.full(self.features.width, SMALL if self._bends else 0.0)
        weights[column] = 1.0
        pieces, cases, _ = self._asked(constraints, weights)
        shifted = np.array(self.x)
        shifted[0, column] = anchor
        point, _ = _any_point(pieces, replace(cases, x=shifted), gap=1e-9)
        return None if point is None else float(point[column])


def _any_point(
    pieces: Pieces, cases: Cases, *, gap: float, band: Leads | None = None
) -> tuple[FloatArray | None, bool]:
    """A point of some piece within a gap of the optimum, if any; whether that was decided."""
    effort = Effort(gap, SECONDS * (len(pieces.listed) or CELLS))
    findings = search(pieces, cases, effort) if band is None else rise(pieces, cases, effort, band)
    if findings.piece[0] >= 0:
        return findings.points[0], True
    bound, _ = lower_bounds(findings.evidence, np.full(1, np.inf))
    return None, bool(np.isposinf(bound[0]))
