"""`Query` describes all that a call asks of its rows, and keeps the programs made for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import Memo, fields_only
from counterpoint.numerics import EPS, MISSING, BoolArray, FloatArray
from counterpoint.problem.constraints import Constraint
from counterpoint.problem.costs import Cost, EncodedCost
from counterpoint.problem.targets import OtherLabel, Requirement, Target
from counterpoint.programs.combinations import ForbiddenCombinations
from counterpoint.programs.program import Program, kinds_region, relaxed
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


@final
@dataclass(frozen=True, eq=False)
class Query:
    """All that is asked of rows: a model, what may change at what cost, the target, the effort.

    Queries that `asking` derives from one another share their programs.
    """

    model: ReadModel
    features: Features  # the raw columns with their kinds
    constraints: tuple[Constraint, ...]  # what was asked for, and what the data imply
    encoded_cost: EncodedCost  # the cost over the encoded columns
    cost: Cost  # the same in feature names
    target: Target = field(default_factory=OtherLabel)
    effort: Effort = field(default_factory=Effort)
    eps: float = EPS  # from 1 to the next number where the model computes, or rows are kept
    piece: int | None = None  # the one piece of the target in which to search; None for all
    witnesses: Witnesses | None = None  # rows of the data, if there are any

    def __getstate__(self) -> dict[str, Any]:
        # pickled answers hold what was read of the model, and neither it nor rows of the data
        model = replace(self.model, model=None, steps=(), unfilled={})
        state = {**fields_only(self), "model": model, "witnesses": None}
        return {name: value for name, value in state.items() if value is not None}

    @classmethod
    def ask(
        cls, model: ReadModel, features: Features, constraints: Iterable[Constraint], cost: Cost
    ) -> Query:
        """Make a query in feature names; names and kinds are checked here."""
        query = cls(model, features, tuple(constraints), cost.encoded_cost(features), cost)
        _ = query.actionable  # raises where a constraint does not fit the features
        return query

    def asking(self, **changes: Any) -> Query:
        """Return the query with another target, effort, precision or piece, and the same programs.

        Where form, features, constraints or cost differ, `replace` makes programs anew.
        """
        query = replace(self, **changes)
        shared = ("actionable", "is_discrete", "_unions")
        vars(query).update({name: getattr(self, name) for name in shared})
        return query

    @cached_property
    def actionable(self) -> Program:
        """The cost over the actionable region, without a target."""
        region = kinds_region(self.features)
        for constraint in self.constraints:
            region = region & constraint.region(self.features)
        return Program(self.encoded_cost, self.model.form.placed(region))

    @cached_property
    def _unions(self) -> Memo[tuple[Requirement, bool], Union]:
        return Memo()

    @cached_property
    def union(self) -> Union:
        """The programs whose union is the target; a target that does not fit raises."""
        return self._unions.made((self.target.requirement, False), self._make_union)

    @cached_property
    def lattice_union(self) -> Union:
        """The same for rows `on_lattice`, with each tie decided."""
        return self._unions.made((self.target.requirement, True), self._make_lattice_union)

    def _make_union(self) -> Union:
        # First of all the regions: a form that has none refuses the target in a sentence.
        regions, margin = self._regions(), self.target.requirement.varying_margin
        hint = None if margin is None else margin.start_hint(self)
        return Union.of(self.actionable, regions, hint)

    def _make_lattice_union(self) -> Union:
        union, domain = self.union, self.actionable.domain
        if not (union.has_ties and self.is_discrete):
            return union
        return union.ties_resolved(np.where(domain.numeric, domain.steps, 1.0))

    def _regions(self) -> Sequence[Region]:
        """The regions of the target, in the one of the model's two forms that suits the cost.

        Most models have one form. The second one is taken where it may have a closed form: if all
        columns and the cost are smooth; and where no solver takes some region of the first.
        """
        form, target, domain = self.model.form, self.target, self.actionable.domain
        second_form = form.otherwise
        if second_form is None:
            return form.regions(target)
        has_kinks = self.encoded_cost.absolute[domain.numeric].any()
        if not (self.is_discrete or has_kinks):
            return second_form.regions(target)
        regions, program = form.regions(target), relaxed(self.actionable, ForbiddenCombinations)
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

    def safety_margins(self, x: FloatArray) -> SafetyMargins | None:
        """The margins that answers for (n, d) rows need, if these depend on where answers are."""
        margin = self.target.requirement.varying_margin
        return None if margin is None else margin.safety_margins(self, x)

    def read(self, inputs: Table) -> RowBatch:
        """Return the encoded rows, with the problems of those that cannot be used.

        A target that does not fit the model is an `InvalidInput`, before any search.
        """
        features, model, requirement = self.features, self.model, self.target.requirement
        rows = encode(inputs, features, model.fills, model.unfilled)
        problems = self._inexact_steps(inputs, rows.codes)
        if requirement.varying_margin is not None:
            problems = requirement.varying_margin.unusable(rows.codes, features.names) | problems
        rows.problems.update(problems | rows.problems)  # what encoding says comes first
        if requirement.labels or not requirement.others:  # else the target depends on each row
            _ = self.union  # raises if the target does not fit
        if model.fills:
            actionable = self.actionable
            normals = np.vstack([c.normals for c in (actionable.affine, *actionable.couplings)])
            # (p,) features that a constraint relates to others: there no cell may stay missing
            related = np.array([normals[:, block].any() for block in features.blocks])
            rows.problems.update(model.not_filled(inputs, rows, features, related))
        return rows

    def _inexact_steps(self, inputs: Table, codes: FloatArray) -> dict[int, str]:
        """Row → sentence, where a column of low precision cannot hold the number and its steps.

        A number is returned as its column holds it, and the model may decide otherwise about that.
        """
        features, domain, problems = self.features, self.actionable.domain, dict[int, str]()
        for j, eps in inputs.singles.items():
            column = features.blocks[j].start
            step = float(domain.steps[column])
            if not step:
                continue
            x, bounds = codes[:, j], domain.box.bounds(features.expand(codes))
            ends = np.stack([bound[:, column] for bound in bounds], axis=1)
            inexact = ~lattice.is_held(x, ends, step, eps) & (x != MISSING) & np.isfinite(x)
            for i in np.flatnonzero(inexact).tolist():
                problems[i] = (
                    f"column {features.names[j]!r} does not hold {x[i]:g} and whole steps of "
                    f"{step:g} exactly. Convert it with astype('float64')."
                )
        return problems

    def already_satisfied(self, x: FloatArray, outputs: NDArray[Any]) -> BoolArray:
        """(n,): which rows satisfy the target as they are, by the margin that no change needs.

        ``outputs`` (n,) are what the target asks the model about the rows.
        """
        satisfied = self.target.satisfied(self.model.form, x, outputs)
        points = x[satisfied]
        margins = self.safety_margins(points) if len(points) else None
        if margins is not None:
            required = margins.required(points, np.zeros(len(points)))
            satisfied[satisfied] = self.model.form.margin(points, self.target) >= required
        return satisfied
