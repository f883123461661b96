"""Why a row has no answer: a minimal set of conflicting constraints; how far a bound must give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.cases import Cases
from counterpoint.constraints import Bounds, Constraint, Immutable, Monotone, WithinObserved
from counterpoint.costs import Price
from counterpoint.features import Categorical, Features
from counterpoint.programs import Program, kinds_region
from counterpoint.question import Question
from counterpoint.regions import Region
from counterpoint.results import Conflict
from counterpoint.search import Piece, search
from counterpoint.solvers import Effort, HalfSpace, Outcome, applicable
from counterpoint.targets import Target

__all__ = ["conflict_of"]

FloatArray = NDArray[np.float64]

LOOSE = 1e-3
"""The gap at which a search may stop that only asks whether there is any answer."""


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
    features = question.features
    needed = [atom for constraint in question.constraints for atom in _atoms(constraint, features)]
    regions = question.form.regions(target)
    feasibility = _Feasibility(regions, question.price, features, x)
    for atom in tuple(needed):
        fewer = [other for other in needed if other is not atom]
        if not feasibility.feasible(fewer):
            needed = fewer
    relaxations = [feasibility.relaxation(atom, needed) for atom in needed]
    return Conflict(
        tuple(str(atom) for atom in needed), tuple(text for text in relaxations if text)
    )


def _atoms(constraint: Constraint, features: Features) -> Iterator[Constraint]:
    """A constraint on several features as one constraint on each."""
    if isinstance(constraint, Immutable):
        yield from (Immutable(name) for name in constraint.features)
    elif isinstance(constraint, WithinObserved):
        yield from (WithinObserved(name) for name in constraint.features or features.names)
    else:
        yield constraint


@final
class _Feasibility:
    """One row under sets of constraints."""

    def __init__(
        self, regions: Sequence[Region], price: Price, features: Features, x: FloatArray
    ) -> None:
        self.regions, self.price, self.features, self.x = regions, price, features, x

    def _region(self, constraints: Sequence[Constraint]) -> Region:
        region = kinds_region(self.features)
        for constraint in constraints:
            region = region & constraint.region(self.features)
        return region

    def feasible(self, constraints: Sequence[Constraint]) -> bool:
        """Whether the search finds any answer."""
        actionable = self._region(constraints)
        pieces = [Piece(Program(self.price, region & actionable)) for region in self.regions]
        cases = [piece.program.cases(self.x) for piece in pieces]
        return bool(search(pieces, cases, Effort(LOOSE)).piece[0] >= 0)

    def relaxation(self, atom: Constraint, needed: Sequence[Constraint]) -> str | None:
        """What a bound alone would have to become, given the other constraints."""
        interval = self._interval(atom)
        if interval is None:
            return None
        name, low, high = interval
        column = self.features.columns(name).start
        anchor = float(np.clip(self.x[0, column], low, high))
        others = [other for other in needed if other is not atom]
        value = self._nearest(column, anchor, others)
        if value is None:
            return None
        side = "at least" if value > anchor else "at most"
        limit = high if value > anchor else low
        return f"with {name} {side} {value:.6g} instead of {limit:.6g} there is an answer"

    def _interval(self, atom: Constraint) -> tuple[object, float, float] | None:
        """The feature and the interval that a bound-like constraint leaves to a number."""
        if isinstance(atom, Bounds | Monotone):
            name = atom.feature
        elif isinstance(atom, Immutable | WithinObserved):
            name = atom.features[0]
        else:
            return None
        if isinstance(self.features[name], Categorical):
            return None
        cases = Program(self.price, self._region([atom])).cases(self.x)
        column = self.features.columns(name).start
        return name, float(cases.low[0, column]), float(cases.high[0, column])

    def _nearest(
        self, column: int, anchor: float, constraints: Sequence[Constraint]
    ) -> float | None:
        """The value of a column nearest to the anchor at which some piece has a point."""
        weights = np.zeros(self.features.width)
        weights[column] = 1.0
        only = Price(weights, np.zeros(self.features.width))
        actionable = self._region(constraints)
        best: float | None = None
        for region in self.regions:
            program = Program(only, region & actionable)
            cases = program.cases(self.x)
            shifted = np.array(self.x)
            shifted[0, column] = anchor
            found = self._solve(program, Cases(shifted, cases.low, cases.high, cases.margin))
            if found is not None and (
                best is None or abs(found[column] - anchor) < abs(best - anchor)
            ):
                best = float(found[column])
        return best

    @staticmethod
    def _solve(program: Program, cases: Cases) -> FloatArray | None:
        for solver in applicable(program):
            if isinstance(solver, HalfSpace):
                continue
            solution = solver.prepare(program).solve(cases, Effort(1e-9))
            if solution.outcomes[0] == Outcome.FOUND:
                return solution.points[0]
        return None
