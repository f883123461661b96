"""The question that an explainer asks of every row: everything but the target and the rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from time import thread_time
from typing import final

import numpy as np

from counterpoint.caches import Memo, fields_only
from counterpoint.constraints import Constraint
from counterpoint.costs import Cost, Price
from counterpoint.engine.cases import Cases
from counterpoint.engine.pieces import Pieces
from counterpoint.engine.program import Program, kinds_region
from counterpoint.engine.search import search
from counterpoint.models.form import Form
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.rows.encoding import Rows
from counterpoint.rows.features import Features
from counterpoint.solvers import Effort
from counterpoint.targets import Requirement, Target, Tradeoff

__all__ = ["Question"]


TRACE = 1e-7
"""What the price counts beside −log of a probability that is to be as high as can be."""
TIMES = 3
"""How many such prices are tried, each a trace of what the last one left."""
CLOSELY = 1e-6
"""The relative gap of each of these searches."""


@final
@dataclass(frozen=True, eq=False)
class Question:
    """A model, a cost and constraints over features.

    Parameters
    ----------
    form
        What was read of the model.
    features
        The raw columns with their kinds.
    constraints
        What was asked for, and what the data imply.
    price
        The cost over the encoded columns.
    """

    form: Form
    features: Features
    constraints: tuple[Constraint, ...]
    price: Price

    @classmethod
    def ask(
        cls, form: Form, features: Features, constraints: Iterable[Constraint], cost: Cost
    ) -> Question:
        """The question in feature names; names and kinds are checked here."""
        question = cls(form, features, tuple(constraints), cost.price(features))
        _ = question.plain
        return question

    @cached_property
    def plain(self) -> Program:
        """The cost over the actionable region, without a target."""
        region = kinds_region(self.features)
        for constraint in self.constraints:
            region = region & constraint.region(self.features)
        return Program(self.price, region)

    __getstate__ = fields_only

    @cached_property
    def _pieces(self) -> Memo[Requirement, Pieces]:
        return Memo()

    def pieces(self, target: Target) -> Pieces:
        """The programs whose union is the target; cached for each target."""
        make = lambda: Pieces.of(  # noqa: E731
            self.plain, self.form.regions(target), target.aim(self)
        )
        return self._pieces.get(target.requirement, make)

    def on_lattice(self, x: FloatArray) -> BoolArray:
        """(n,): whether all whole columns of (n, d) rows hold multiples of their steps."""
        steps = self.plain.steps
        whole = np.flatnonzero(steps)
        at = x[:, whole]
        return np.asarray((at == np.rint(at / steps[whole]) * steps[whole]).all(axis=1))

    def cases(self, rows: Rows) -> Cases:
        """Rows as programs see them, with what each asks for itself."""
        cases = self.plain.cases(rows.x)
        if rows.weight is not None:
            cases = cases.weighing(0.5 * rows.weight)
        if rows.held is None:
            return cases
        width = [block.stop - block.start for block in self.features.blocks]
        held = np.repeat(rows.held, width, axis=1)
        return cases.within(np.where(held, rows.x, -np.inf), np.where(held, rows.x, np.inf))

    def decided(self, target: Target, pieces: Pieces) -> Pieces:
        """The pieces of a target for rows `on_lattice`, each tie in whole columns decided."""
        if not (self._is_discrete and pieces.has_ties):
            return pieces
        units = np.where(self.plain.numeric, self.plain.steps, 1.0)
        return self._decided.get(target.requirement, partial(pieces.decided, units))

    @cached_property
    def _is_discrete(self) -> bool:
        """Whether some column is whole or a category."""
        return bool(self.plain.steps.any() or self.plain.groups)

    @cached_property
    def _decided(self) -> Memo[Requirement, Pieces]:
        return Memo()

    def highest_probability(self, label: Hashable, x: FloatArray, end: float) -> float | None:
        """The highest probability of a label within the constraints, but for a trace of the cost.

        −log of it is minimised with a price that is next to nothing beside it: without any, the
        highest may be reached at infinity only.

        Parameters
        ----------
        label
            The label.
        x
            (1, d) the encoded row.
        end
            When to stop, in the seconds of ``thread_time``.
        """
        pieces = self.pieces(Tradeoff(label, 1.0))
        program = pieces[0].program
        cases, weight, best = program.cases(x), np.full(1, TRACE), None
        for _ in range(TIMES):
            left = end - thread_time()
            if left <= 0.0:
                break
            findings = search(pieces, cases.weighing(weight), Effort(CLOSELY, left / TIMES))
            if findings.piece[0] < 0:
                break
            y = findings.points
            charged = float(sum(charge.amount(y)[0] for charge in program.charges))
            reached = float(np.exp(-charged))
            if best is not None and reached <= best * (1.0 + CLOSELY):
                break
            best = reached
            weight = TRACE * max(charged, TRACE) / np.maximum(program.cost(y, x), TRACE)
        return best
