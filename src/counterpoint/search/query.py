"""What is asked: a model, a cost and constraints, and for a call the target and the effort."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import Memo, fields_only
from counterpoint.models.form import Form
from counterpoint.numerics import MISSING, BoolArray, FloatArray
from counterpoint.problem.constraints import Constraint
from counterpoint.problem.costs import Cost, EncodedCost
from counterpoint.problem.targets import Requirement, Target
from counterpoint.programs.program import Program, kinds_region
from counterpoint.programs.region import Region
from counterpoint.rows import lattice
from counterpoint.rows.encoding import RowBatch, encode
from counterpoint.rows.features import Features
from counterpoint.rows.table import Table
from counterpoint.search.search import SafetyMargins, Subproblem, Union
from counterpoint.solvers import Effort

if TYPE_CHECKING:
    from counterpoint.models.reading import ReadModel
    from counterpoint.search.witnesses import Witnesses

__all__ = ["Query", "Task"]


@final
@dataclass(frozen=True, eq=False)
class Query:
    """A model, a cost and constraints over features: all but the target and the rows."""

    form: Form  # what was read of the model
    features: Features  # the raw columns with their kinds
    constraints: tuple[Constraint, ...]  # what was asked for, and what the data imply
    encoded_cost: EncodedCost  # the cost over the encoded columns
    cost: Cost  # the same in feature names

    __getstate__ = fields_only

    @classmethod
    def ask(
        cls, form: Form, features: Features, constraints: Iterable[Constraint], cost: Cost
    ) -> Query:
        """The question in feature names; names and kinds are checked here."""
        question = cls(form, features, tuple(constraints), cost.encoded_cost(features), cost)
        _ = question.actionable
        return question

    @cached_property
    def actionable(self) -> Program:
        """The cost over the actionable region, without a target."""
        region = kinds_region(self.features)
        for constraint in self.constraints:
            region = region & constraint.region(self.features)
        return Program(self.encoded_cost, self.form.placed(region))

    @cached_property
    def _unions(self) -> Memo[Requirement, Union]:
        return Memo()

    @cached_property
    def _resolved(self) -> Memo[Requirement, Union]:
        return Memo()

    def union(self, target: Target) -> Union:
        """The programs whose union is the target, kept for each target."""
        union = self._unions.get(target.requirement)
        if union is not None:
            return union

        def make() -> Union:
            # First of all the regions: a form that has none refuses the target in a sentence.
            regions, chance = self._regions(target), target.requirement.chance
            hint = None if chance is None else chance.start_hint(self)
            return Union.of(self.actionable, regions, hint)

        return self._unions.made(target.requirement, make)

    def _regions(self, target: Target) -> Sequence[Region]:
        """The regions of a target in the form that suits cost and constraints, if there are two."""
        program, second_form = self.actionable, self.form.otherwise
        smooth = not (
            self.is_discrete or program.encoded_cost.absolute[program.domain.numeric].any()
        )
        if second_form is not None and smooth:  # a closed form may do
            return second_form.regions(target)
        regions = self.form.regions(target)
        if second_form is None:
            return regions
        if all(Subproblem.of(program, region).is_solved for region in regions):
            return regions
        return second_form.regions(target)

    @cached_property
    def is_discrete(self) -> bool:
        """Whether some column is whole or a category."""
        return bool(self.actionable.domain.steps.any() or self.actionable.domain.groups)

    def on_lattice(self, x: FloatArray) -> BoolArray:
        """(n,): whether all whole columns of (n, d) rows hold multiples of their steps."""
        steps = self.actionable.domain.steps
        whole = np.flatnonzero(steps)
        values = x[:, whole]
        nearest = lattice.nearest(np.zeros(values.shape), values, steps[whole])
        return np.asarray((values == nearest).all(axis=1))

    def ties_resolved(self, target: Target, union: Union) -> Union:
        """The union of a target for rows `on_lattice`, each tie in it decided."""
        if not (union.has_ties and self.is_discrete):
            return union
        units = np.where(self.actionable.domain.numeric, self.actionable.domain.steps, 1.0)
        return self._resolved.made(target.requirement, partial(union.ties_resolved, units))

    def safety_margins(self, target: Target, x: FloatArray) -> SafetyMargins | None:
        """How much answers for (n, d) rows have to lead, if that depends on where they are."""
        chance = target.requirement.chance
        return None if chance is None else chance.safety_margins(self, x)


@final
@dataclass(frozen=True, eq=False)
class Task:
    """What is asked of all rows of a call."""

    model: ReadModel
    question: Query  # what is asked of each row but the target
    target: Target
    effort: Effort
    eps: float  # from 1 to the next number where the model computes, or rows are kept
    piece: int | None = None  # the one piece of the target in which to search; None for all
    witnesses: Witnesses | None = None  # rows of the data, if there are any

    @cached_property
    def union(self) -> Union:
        """The programs whose union is the target."""
        return self.question.union(self.target)

    def read(self, inputs: Table) -> RowBatch:
        """Return the encoded rows, with the problems of those that cannot be used.

        A target that does not fit the model is an `InvalidInput`, before any search.
        """
        features, model, required = self.question.features, self.model, self.target.requirement
        rows = encode(inputs, features, model.fills, model.unfilled)
        problems = self._not_held(inputs, rows.codes)
        if required.chance is not None:
            problems = required.chance.unusable(rows.codes, features.names) | problems
        rows.problems.update(problems | rows.problems)
        if required.labels or not required.others:  # else the target depends on each row
            _ = self.union  # raises if it does not fit
        if model.fills:
            actionable = self.question.actionable
            normals = np.vstack([c.normals for c in (actionable.affine, *actionable.couplings)])
            related = np.array([normals[:, block].any() for block in features.blocks])
            rows.problems.update(model.not_filled(inputs, rows, features, related))
        return rows

    def _not_held(self, inputs: Table, codes: FloatArray) -> dict[int, str]:
        """Say of which rows a column of low precision does not hold the whole steps exactly.

        A number is returned as its column holds it, and what the model says of that may differ.
        """
        features, actionable, problems = self.question.features, self.question.actionable, {}
        for j, eps in inputs.singles.items():
            column = features.blocks[j].start
            step = float(actionable.domain.steps[column])
            if not step:
                continue
            x = codes[:, j]
            low, high = (
                end[:, column] for end in actionable.domain.box.bounds(features.expand(codes))
            )
            held = lattice.is_held(x, np.stack([low, high], axis=1), step, eps)
            for i in np.flatnonzero(~held & (x != MISSING) & np.isfinite(x)).tolist():
                problems[i] = (
                    f"column {features.names[j]!r} does not hold {x[i]:g} and whole steps of "
                    f"{step:g} exactly. Convert it with astype('float64')."
                )
        return problems

    def already_satisfied(self, x: FloatArray, outputs: NDArray[Any]) -> BoolArray:
        """(n,): which rows meet the target as they are, and lead by what is asked of them then."""
        satisfied = self.target.satisfied(self.model.form, x, outputs)
        points = x[satisfied]
        margins = self.question.safety_margins(self.target, points) if len(points) else None
        if margins is not None:
            required = margins.required(points, np.zeros(len(points)))
            satisfied[satisfied] = self.model.form.margin(points, self.target) >= required
        return satisfied
