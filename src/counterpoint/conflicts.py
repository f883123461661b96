"""Why a row has no answer: a minimal set of conflicting constraints; how far a bound must give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.cases import Cases
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
from counterpoint.programs import Program, kinds_region
from counterpoint.question import Question
from counterpoint.regions import Region
from counterpoint.results import Conflict
from counterpoint.solvers import Effort, Outcome, applicable
from counterpoint.targets import Confidence, Target, Tradeoff

__all__ = ["conflict_of"]

FloatArray = NDArray[np.float64]

TRACE = 1e-7
"""What the price counts beside −log of a probability that is to be as high as can be."""
TIMES = 3
SECONDS = 1.0
"""Time for one set of constraints; a set that takes longer counts as one with an answer."""
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
    regions = question.form.regions(target)
    if question.on_lattice(x).all():
        regions = tuple(question.deciding(region) for region in regions)
    possible = _Possible(regions, question.features, x)
    for atom in tuple(needed):
        fewer = [other for other in needed if other is not atom]
        if not possible.answer(fewer):
            needed = fewer
    relaxations = [possible.relaxation(atom, needed) for atom in needed]
    attainable = None
    if isinstance(target, Confidence):
        attainable = _highest_probability(question, target, x)
        if attainable is not None:
            relaxations.append(
                f"with at_least = {_rounded_down(attainable)} instead of {target.at_least:.6g} "
                "there is an answer"
            )
    told = tuple(text for text in relaxations if text)
    return Conflict(_joined(needed), told, possible.sure, attainable)


def _highest_probability(question: Question, target: Confidence, x: FloatArray) -> float | None:
    """The highest probability of the label within the constraints, but for a trace of the cost.

    −log of it is minimised with a price that is next to nothing beside it: without any, the highest
    may be reached at infinity only.
    """
    program = question.pieces(Tradeoff(target.label, 1.0))[0].program
    cases, weight, best = program.cases(x), np.full(1, TRACE), None
    for _ in range(TIMES):
        point, _ = _any_point(program, cases.weighing(weight), gap=1e-9)
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

    def __init__(self, regions: Sequence[Region], features: Features, x: FloatArray) -> None:
        self.regions, self.features, self.x = regions, features, x
        self.sure = True
        """Whether every set was decided in time."""

    def answer(self, constraints: Sequence[Constraint]) -> bool:
        """Whether there is any answer; if time runs out, as if there were."""
        price = Price(np.ones(self.features.width), np.zeros(self.features.width))
        actionable = self._region(constraints)
        for region in self.regions:
            program = Program(price, region & actionable)
            point, decided = _any_point(program, program.cases(self.x), gap=1.0)
            self.sure &= decided
            if point is not None or not decided:
                return True
        return False

    def _region(self, constraints: Sequence[Constraint]) -> Region:
        region = kinds_region(self.features)
        for constraint in constraints:
            region = region & constraint.region(self.features)
        return region

    def relaxation(self, atom: Constraint, needed: Sequence[Constraint]) -> str | None:
        """What a bound alone would have to become, given the other constraints."""
        if not isinstance(atom, Bounds) or isinstance(self.features[atom.feature], Categorical):
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

    def _price_of(self, column: int) -> Price:
        weights = np.zeros(self.features.width)
        weights[column] = 1.0
        return Price(weights, np.zeros(self.features.width))

    def _nearest(
        self, column: int, anchor: float, constraints: Sequence[Constraint]
    ) -> float | None:
        """The value of a column nearest to the anchor at which some piece has a point."""
        actionable = self._region(constraints)
        values = []
        for region in self.regions:
            program = Program(self._price_of(column), region & actionable)
            cases = program.cases(self.x)
            shifted = np.array(self.x)
            shifted[0, column] = anchor
            moved = replace(cases, x=shifted)
            point, _ = _any_point(program, moved, gap=1e-9)
            values += [] if point is None else [float(point[column])]
        return min(values, key=lambda value: abs(value - anchor), default=None)


def _any_point(program: Program, cases: Cases, *, gap: float) -> tuple[FloatArray | None, bool]:
    """A point of the program within a gap of its optimum, if any; whether that was decided."""
    for solver in applicable(program):
        if not solver.complete:
            continue
        solution = solver.prepare(program).solve(cases, Effort(gap, SECONDS))
        if solution.found[0]:
            return solution.points[0], True
        if solution.outcomes[0] == Outcome.INFEASIBLE:
            return None, True
    return None, False
