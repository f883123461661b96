"""What is asked, and the programs whose union is a target: written down, or made when needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, final, overload

import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import Memo, fields_only
from counterpoint.models.form import Form
from counterpoint.numerics import MISSING, BoolArray, FloatArray
from counterpoint.problem.constraints import Constraint
from counterpoint.problem.costs import Cost, EncodedCost, Manhattan
from counterpoint.problem.targets import Requirement, Target
from counterpoint.programs.conditions import AtMost, HalfSpaces, LinearBounds, OneOf, Whole
from counterpoint.programs.program import Program, kinds_region
from counterpoint.programs.region import Cases, CutOracle, Domain, LazyUnion, Region
from counterpoint.rows import lattice
from counterpoint.rows.encoding import Encoded, encode
from counterpoint.rows.features import Features
from counterpoint.rows.table import Table
from counterpoint.search.search import SafetyMargins, highest_probability
from counterpoint.solvers import Effort, Solver, all_solvers, applicable
from counterpoint.solvers.halfspace import NearestHalfSpace

if TYPE_CHECKING:
    from counterpoint.models.reading import ReadModel
    from counterpoint.search.witnesses import Witnesses

__all__ = ["Question", "StartHint", "Subproblem", "Task", "Union"]


LISTED = 2048
"""A lazy union is listed if all its regions together have at most this many rows."""


@final
@dataclass(frozen=True, eq=False)
class Subproblem:
    """A program with its prepared solvers."""

    program: Program
    narrows: bool = False  # whether the target itself says what features may be, one by one

    @classmethod
    def of(cls, program: Program, region: Region) -> Subproblem:
        """What is possible without the target, within a region of the target."""
        narrows = any(isinstance(condition, Domain) for condition in region)
        return cls(Program(program.encoded_cost, region & program.region), narrows)

    def within(self, region: Region) -> Subproblem:
        """The piece within a region besides."""
        return replace(
            self, program=Program(self.program.encoded_cost, self.program.region & region)
        )

    @cached_property
    def supported(self) -> tuple[CutOracle, ...]:
        """Its conditions that no solver takes, but by half-spaces that hold them."""
        return tuple(c for c in self.program.region if isinstance(c, CutOracle))

    def relaxed(self, cuts: LinearBounds) -> Subproblem:
        """The piece with half-spaces in their place."""
        rest = tuple(c for c in self.program.region if not isinstance(c, CutOracle))
        instead = (cuts,) if cuts.size else ()
        return replace(self, program=Program(self.program.encoded_cost, Region((*rest, *instead))))

    @cached_property
    def free(self) -> Subproblem:
        """The piece without whole steps, and without categories unless only they have a price."""
        dropped = (
            (Whole, AtMost, OneOf)
            if self.program.encoded_cost.kind is Manhattan
            else (Whole, AtMost)
        )
        return Subproblem(self.program.relaxed(*dropped))

    @cached_property
    def is_solved(self) -> bool:
        """Whether some solver takes it."""
        return any(solver.takes(self.program) for solver in all_solvers())

    @cached_property
    def closed_form(self) -> Solver | None:
        """A method for all rows at once, if there is one."""
        if not self.is_solved:
            return None
        first = applicable(self.program)[0]
        return first(self.program) if first.batched else None

    @cached_property
    def _complete(self) -> dict[type[Solver], Solver | None]:
        """The complete solvers that take rows one by one, in the order in which to try them."""
        solvers = applicable(self.program)
        return {s: None for s in solvers if s.complete and not s.batched}

    def complete(self, *, exhaustive: bool) -> Iterator[Solver]:
        """The complete solvers that take rows one by one, each prepared when it is asked for.

        Those that are exhaustive, or the others.
        """
        for solver, prepared in self._complete.items():
            if solver.exhaustive != exhaustive:
                continue
            ready = prepared or solver(self.program)
            self._complete[solver] = ready
            yield ready

    @property
    def is_integral(self) -> bool:
        """Whether the optimum may rest on a branch and bound."""
        return self.rounds or self.program.at_most is not None

    @cached_property
    def rounds(self) -> bool:
        """Whether closed forms may have to round, so that their cost may exceed the bound."""
        return bool(self.program.steps.any() or self.program.groups)

    def ties_resolved(self, units: FloatArray) -> Subproblem:
        """The same points of a lattice of these units, each tie in it decided."""
        conditions = self.program.region
        region = Region(
            tuple(c.ties_resolved(units) if isinstance(c, LinearBounds) else c for c in conditions)
        )
        return replace(self, program=Program(self.program.encoded_cost, region))

    def sees(self, cases: Cases) -> Cases:
        """The cases as this piece sees them."""
        if not self.narrows:
            return cases
        own = self.program.cases(cases.x)
        return cases.within(own.low, own.high)


@final
@dataclass(frozen=True, eq=False)
class StartHint:
    """Where to look for points, if the target is smooth and not convex."""

    # (d,) a point that is known to be of the class that is wanted; None for none
    prototype: FloatArray | None = None
    on_segment: bool = False  # whether to look on the segment that leads there
    anywhere: bool = True  # whether to look everywhere else
    otherwise: bool = False  # whether to do so at least where the segment has no point


@final
class _Pieces(Sequence[Subproblem]):
    """The pieces of some regions, each made when it is asked for."""

    def __init__(self, program: Program, regions: Sequence[Region]) -> None:
        self._program, self._regions = program, regions
        self._held: Memo[int, Subproblem] = Memo(len(regions))

    def __len__(self) -> int:
        return len(self._regions)

    @overload
    def __getitem__(self, s: int) -> Subproblem: ...
    @overload
    def __getitem__(self, s: slice) -> Sequence[Subproblem]: ...
    def __getitem__(self, s: int | slice) -> Subproblem | Sequence[Subproblem]:
        if isinstance(s, slice):
            return tuple(self[k] for k in range(*s.indices(len(self))))
        return self._held.made(s, lambda: Subproblem.of(self._program, self._regions[s]))


@final
@dataclass(frozen=True, eq=False)
class Union(Sequence[Subproblem]):
    """The programs whose union is a target."""

    program: Program  # the cost over what is possible, without the target
    listed: Sequence[Subproblem]  # all of them, unless the union is lazy
    # the union itself, where its regions have too many rows to be listed
    lazy: LazyUnion | None = None
    aim: StartHint = field(default_factory=StartHint)  # where to look
    half_spaces: NearestHalfSpace | None = None  # all pieces at once, if each is a half-space

    @classmethod
    def of(cls, program: Program, regions: Sequence[Region], aim: StartHint | None = None) -> Union:
        """What is possible without the target, within the regions whose union is the target."""
        if isinstance(regions, LazyUnion) and regions.size > LISTED:
            return cls(program, (), regions)
        if isinstance(regions, HalfSpaces) and len(regions) > 1:
            half_spaces = NearestHalfSpace.of(program, regions.rows)
            if half_spaces is not None:
                return cls(program, _Pieces(program, regions), half_spaces=half_spaces)
        listed = tuple(Subproblem.of(program, region) for region in regions)
        return cls(program, listed, aim=aim or StartHint())

    def __len__(self) -> int:
        return len(self.listed if self.lazy is None else self.lazy)

    @overload
    def __getitem__(self, s: int) -> Subproblem: ...
    @overload
    def __getitem__(self, s: slice) -> Union: ...
    def __getitem__(self, s: int | slice) -> Subproblem | Union:
        if isinstance(s, slice):
            lazy = None if self.lazy is None else self.lazy.some(s)
            return replace(self, listed=self.listed[s], lazy=lazy, half_spaces=None)
        return self.listed[s] if self.lazy is None else Subproblem.of(self.program, self.lazy[s])

    def ties_resolved(self, units: FloatArray) -> Union:
        """The same points on a lattice of these units, each tie in it decided."""
        if self.lazy is not None:
            return replace(self, lazy=self.lazy.ties_resolved(units))
        return replace(self, listed=tuple(piece.ties_resolved(units) for piece in self.listed))

    @cached_property
    def _programs(self) -> tuple[Program, ...]:
        """Programs that have all conditions of the pieces, if these are written down."""
        if self.half_spaces is not None:
            return (self.half_spaces.program,)
        return tuple(piece.program for piece in self.listed)

    @cached_property
    def asked(self) -> Program:
        """The cost over what is possible, with what the target charges but not its demands."""
        charged = (program for program in self._programs if program.objective_terms)
        return next(charged, self.program)

    @cached_property
    def proof_programs(self) -> tuple[Program, ...]:
        """The programs that a record holds proofs of: all pieces, or the lazy union as one."""
        if self.lazy is not None:
            return (self.program,)
        return tuple(piece.program for piece in self.listed)

    @cached_property
    def condition_types(self) -> frozenset[type]:
        """The types of all conditions and of their prices, and of the union if it is lazy."""
        return frozenset(
            {type(self.lazy)}.union(*(program.condition_types for program in self._programs))
        )

    @cached_property
    def has_ties(self) -> bool:
        """Whether some linear row of the target may lose a tie."""
        if self.lazy is not None:
            return self.lazy.has_ties
        return any(program.affine.lost.any() for program in self._programs)

    @cached_property
    def is_integral(self) -> bool:
        """Whether the optimum may rest on a branch and bound."""
        return any(Subproblem(p).is_integral for p in self._programs or (self.program,))

    @cached_property
    def is_quick(self) -> bool:
        """Whether there is a closed form to try on all rows at once, in each of them."""
        if self.half_spaces is not None:
            return True
        return self.lazy is None and all(piece.closed_form is not None for piece in self.listed)

    @cached_property
    def size(self) -> int:
        """How many multipliers of what is listed are kept for each row."""
        return sum(program.size for program in self._programs)

    def moves_smoothly(self, cases: Cases) -> BoolArray:
        """(n,): whether some continuous column with an effect is free to move."""
        if self.lazy is None:
            return self._programs[0].moves_smoothly(cases)
        smooth = (self.program.steps == 0) & self.program.numeric & self.lazy.moving
        return np.asarray((cases.low < cases.high)[:, smooth].any(axis=1))


@final
@dataclass(frozen=True, eq=False)
class Question:
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
    ) -> Question:
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
    def _pieces(self) -> Memo[Requirement, Union]:
        return Memo()

    @cached_property
    def _decided(self) -> Memo[Requirement, Union]:
        return Memo()

    def pieces(self, target: Target) -> Union:
        """The programs whose union is the target, kept for each target."""
        held = self._pieces.get(target.requirement)
        if held is not None:
            return held

        def made() -> Union:
            regions, chance = self._regions(target), target.requirement.chance
            hint = None if chance is None else chance.start_hint(self)
            return Union.of(self.actionable, regions, hint)

        return self._pieces.made(target.requirement, made)

    def _regions(self, target: Target) -> Sequence[Region]:
        """The regions of a target in the form that suits cost and constraints, if there are two."""
        asked, other = self.actionable, self.form.otherwise
        smooth = not (self.is_discrete or asked.encoded_cost.absolute[asked.numeric].any())
        if other is not None and smooth:  # a closed form may do
            return other.regions(target)
        regions = self.form.regions(target)
        if other is None or all(Subproblem.of(asked, region).is_solved for region in regions):
            return regions
        return other.regions(target)

    @cached_property
    def is_discrete(self) -> bool:
        """Whether some column is whole or a category."""
        return bool(self.actionable.steps.any() or self.actionable.groups)

    def on_lattice(self, x: FloatArray) -> BoolArray:
        """(n,): whether all whole columns of (n, d) rows hold multiples of their steps."""
        steps = self.actionable.steps
        whole = np.flatnonzero(steps)
        at = x[:, whole]
        return np.asarray((at == lattice.nearest(np.zeros(at.shape), at, steps[whole])).all(axis=1))

    def ties_resolved(self, target: Target, pieces: Union) -> Union:
        """The pieces of a target for rows `on_lattice`, each tie in it decided."""
        if not (pieces.has_ties and self.is_discrete):
            return pieces
        units = np.where(self.actionable.numeric, self.actionable.steps, 1.0)
        return self._decided.made(target.requirement, partial(pieces.ties_resolved, units))

    def safety_margins(self, target: Target, x: FloatArray) -> SafetyMargins | None:
        """How much answers for (n, d) rows have to lead, if that depends on where they are."""
        chance = target.requirement.chance
        return None if chance is None else chance.safety_margins(self, x)

    def highest_probability(self, target: Target, x: FloatArray, end: float) -> float | None:
        """The highest probability of a `Tradeoff`'s label that one row can reach by ``end``."""
        return highest_probability(self.pieces(target), x, end)


@final
@dataclass(frozen=True, eq=False)
class Task:
    """What is asked of all rows of a call."""

    model: ReadModel
    question: Question  # what is asked of each row but the target
    target: Target
    effort: Effort
    eps: float  # from 1 to the next number where the model computes, or rows are kept
    piece: int | None = None  # the one piece of the target in which to search; None for all
    witnesses: Witnesses | None = None  # rows of the data, if there are any

    @cached_property
    def pieces(self) -> Union:
        """The programs whose union is the target."""
        return self.question.pieces(self.target)

    def encoded(self, inputs: Table) -> Encoded:
        """Codes of rows, and why some cannot be used; what does not fit is an error in any case."""
        features, model, required = self.question.features, self.model, self.target.requirement
        encoded = encode(inputs, features, model.fills, model.unfilled)
        problems = self._not_held(inputs, encoded.codes)
        if required.chance is not None:
            problems = required.chance.unusable(encoded.codes, features.names) | problems
        encoded.problems.update(problems | encoded.problems)
        if required.labels or not required.others:
            _ = self.pieces
        if model.fills:
            normals = self.question.actionable.normals
            related = np.array([normals[:, block].any() for block in features.blocks])
            encoded.problems.update(model.not_filled(inputs, encoded, features, related))
        return encoded

    def _not_held(self, inputs: Table, codes: FloatArray) -> dict[int, str]:
        """Say of which rows a column of low precision does not hold the whole steps exactly.

        A number is returned as its column holds it, and what the model says of that may differ.
        """
        features, actionable, problems = self.question.features, self.question.actionable, {}
        for j, eps in inputs.singles.items():
            column = features.blocks[j].start
            step = float(actionable.steps[column])
            if not step:
                continue
            x = codes[:, j]
            low, high = (end[:, column] for end in actionable.box.bounds(features.expand(codes)))
            held = lattice.is_held(x, np.stack([low, high], axis=1), step, eps)
            for i in np.flatnonzero(~held & (x != MISSING) & np.isfinite(x)).tolist():
                problems[i] = (
                    f"column {features.names[j]!r} does not hold {x[i]:g} and whole steps of "
                    f"{step:g} exactly. Convert it with astype('float64')."
                )
        return problems

    def already_satisfied(self, x: FloatArray, said: NDArray[Any]) -> BoolArray:
        """(n,): which rows meet the target as they are, and lead by what is asked of them then."""
        satisfied = self.target.satisfied(self.model.form, x, said)
        if satisfied.any():
            here = x[satisfied]
            safety_margins = self.question.safety_margins(self.target, here)
            if safety_margins is not None:
                required = safety_margins.required(here, np.zeros(len(here)))
                satisfied[satisfied] = self.model.form.margin(here, self.target) >= required
        return satisfied
