"""Programs: one cost over one region, without the row in it, and what bounds them.

A program is minimise price(y, x) over y in the region. Its region is a *domain* D (intervals,
whole steps, categories, the number of changes: one feature at a time) cut by *couplings* (linear
rows, cones). For any multipliers, each coupling gives a linear inequality that its points meet, and
their sum bounds every feasible cost from below, whoever found the multipliers and however wrong
they are: see `counterpoint.programs.duality`. A condition that is not convex has no such
inequality; what its multipliers prove it says itself, see `NonConvexDuality`.
A *charge*, such as −log of a probability, adds to the weighed price; its multipliers bound it from
below by normal · y − offset, and the same sum bounds the objective.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import final

import numpy as np

from counterpoint.numerics import UNIT, BoolArray, FloatArray, Sizes, gamma
from counterpoint.problem.costs import EncodedCost, Manhattan, SquaredEuclidean
from counterpoint.programs.conditions import (
    AtMost,
    Box,
    ChangeBounds,
    Cone,
    LinearBounds,
    OneOf,
    Transitions,
    Whole,
)
from counterpoint.programs.duality import Duality, LinearRows, LossBound
from counterpoint.programs.losses import LogLoss
from counterpoint.programs.region import Cases, Condition, Coupling, Cut, Region
from counterpoint.programs.separable import SeparableDomain
from counterpoint.rows import lattice
from counterpoint.rows.features import Categorical, Features, Integer

__all__ = ["NonConvex", "NonConvexDuality", "Program", "kinds_region"]


def kinds_region(features: Features) -> Region:
    """Whole steps for integers; one-hot groups for categories, none of them a stand-in anew."""
    conditions: list[Condition] = []
    whole = [(features.columns(f.name).start, f.step) for f in features if isinstance(f, Integer)]
    if whole:
        columns, steps = zip(*whole, strict=True)
        conditions.append(Whole(np.array(columns, dtype=np.intp), np.array(steps, dtype=float)))
    for feature, block in zip(features, features.blocks, strict=True):
        if isinstance(feature, Categorical):
            conditions.append(OneOf(block))
            if feature.stand_in is not None:
                already_satisfied = np.eye(len(feature.categories), dtype=bool)
                conditions.append(Transitions(block, already_satisfied | ~feature.is_stand_in))
    return Region(tuple(conditions))


@final
@dataclass(frozen=True, eq=False)
class Program:
    """Minimise price(y − x) over y in a region."""

    encoded_cost: EncodedCost  # what a change costs
    region: Region  # where y may be, relative to x

    @cached_property
    def width(self) -> int:
        """The number d of encoded columns."""
        return len(self.encoded_cost.absolute)

    @cached_property
    def condition_types(self) -> frozenset[type]:
        """The kinds of its price and the types of its conditions: what a solver must take."""
        return self.region.condition_types | self.encoded_cost.condition_types | {Box}

    def relaxed(self, *dropped: type) -> Program:
        """The program with conditions of some types dropped; a one-hot group becomes a simplex.

        The rows of the simplices come after the program's own, see `Program.own_multipliers`.
        """
        conditions = [c for c in self.region if type(c) not in dropped]
        added: list[Condition] = []
        for group in self.groups if OneOf in dropped else ():
            row = np.zeros((1, self.width))
            row[0, group] = 1.0
            box = Box.unbounded(self.width)
            box.low[group], box.high[group] = 0.0, 1.0
            added += [LinearBounds(row, np.ones(1), np.ones(1)), box]
        return Program(self.encoded_cost, Region((*conditions, *added)))

    def own_multipliers(self, relaxed: FloatArray) -> FloatArray:
        """(n, size) this program's multipliers among those of a program that `relaxed` made."""
        rows = self.affine.size
        added = relaxed.shape[1] - self.size
        return np.hstack([relaxed[:, :rows], relaxed[:, rows + added :]])

    @cached_property
    def box(self) -> Box:
        """All boxes met, with [0, 1] for one-hot columns."""
        box = Box.unbounded(self.width)
        for condition in self.region:
            if isinstance(condition, Box):
                box = box.meet(condition)
        for group in self.groups:
            box.low[group], box.high[group] = 0.0, 1.0
            box.least[group], box.most[group] = -np.inf, np.inf
        return box

    @cached_property
    def affine(self) -> LinearBounds:
        """All linear rows stacked, those about the change too; there may be none."""
        rows = [
            c.rows if isinstance(c, ChangeBounds) else c
            for c in self.region
            if isinstance(c, LinearBounds | ChangeBounds)
        ]
        none = LinearBounds(np.zeros((0, self.width)), np.zeros(0), np.zeros(0))
        return reduce(LinearBounds.stacked, rows) if rows else none

    @cached_property
    def nonlinear(self) -> tuple[Coupling, ...]:
        """The couplings that are not linear rows and exclude something."""
        return tuple(
            c
            for c in self.region
            if isinstance(c, Coupling) and not isinstance(c, LinearBounds | LogLoss)
        )

    @cached_property
    def objective_terms(self) -> tuple[LogLoss, ...]:
        """What is added to the price."""
        return tuple(c for c in self.region if isinstance(c, LogLoss))

    @cached_property
    def nonlinear_and_objective_terms(self) -> tuple[Coupling, ...]:
        """The curved couplings and the charges, in the order of their multipliers."""
        return (*self.nonlinear, *self.objective_terms)

    @cached_property
    def nonconvex(self) -> tuple[NonConvex, ...]:
        """The conditions that are not convex, all of one type."""
        return tuple(c for c in self.region if isinstance(c, NonConvex))

    @cached_property
    def nonconvex_duality(self) -> NonConvexDuality | None:
        """What their multipliers prove; None if they have none."""
        return self.nonconvex[0].duality(self) if self.nonconvex else None

    @cached_property
    def convex_size(self) -> int:
        """The number of multipliers of what is convex: linear rows first, then what is beyond."""
        return self.affine.size + sum(
            coupling.size for coupling in self.nonlinear_and_objective_terms
        )

    @cached_property
    def size(self) -> int:
        """The number of multipliers; those of conditions that are not convex come last."""
        beyond = self.nonconvex_duality
        return self.convex_size + (0 if beyond is None else beyond.size)

    @cached_property
    def has_tangents(self) -> bool:
        """Whether a point sharpens the bound: a full quadratic price, or what is not convex."""
        return self.encoded_cost.quadratic.ndim == 2 or self.nonconvex_duality is not None

    @property
    def kept_size(self) -> int:
        """How many numbers prove a bound: the multipliers and, if any, how far the point is."""
        return self.size + self.has_tangents * self.width

    @property
    def node_size(self) -> int:
        """How many numbers bound a node of a `Proof`: it has a point for a full price alone."""
        return self.size + (self.encoded_cost.quadratic.ndim == 2) * self.width

    @cached_property
    def groups(self) -> tuple[slice, ...]:
        """The one-hot groups."""
        return tuple(c.columns for c in self.region if isinstance(c, OneOf))

    @cached_property
    def _transitions(self) -> tuple[Transitions, ...]:
        return tuple(c for c in self.region if isinstance(c, Transitions))

    @cached_property
    def steps(self) -> FloatArray:
        """(d,) the step of whole columns, 0 for the others."""
        steps = np.zeros(self.width)
        for condition in self.region:
            if isinstance(condition, Whole):
                steps[condition.columns] = condition.steps
        return steps

    @cached_property
    def at_most(self) -> AtMost | None:
        """The tightest bound on the number of changed features."""
        limits = [c for c in self.region if isinstance(c, AtMost)]
        return min(limits, key=lambda c: c.count) if limits else None

    @cached_property
    def numeric(self) -> BoolArray:
        """(d,) which columns belong to no one-hot group."""
        mask = np.ones(self.width, dtype=bool)
        for group in self.groups:
            mask[group] = False
        return mask

    @cached_property
    def domain(self) -> SeparableDomain:
        """The conditions on features one by one."""
        return SeparableDomain(self.numeric, self.steps, self.groups, self.at_most)

    @cached_property
    def duality(self) -> Duality:
        """What linear inequalities prove."""
        return Duality(self.encoded_cost, self.domain, bool(self.objective_terms))

    def cases(self, x: FloatArray, margin: FloatArray | None = None) -> Cases:
        """What the program knows of these rows: their points and bounds; margins, if given."""
        low, high = self.box.bounds(x)
        if self._transitions:
            high = np.array(high)
            for transition in self._transitions:
                block = high[:, transition.columns]
                np.minimum(block, transition.permitted(x), out=block)
        if self._is_whole:
            low, high = self._on_steps(x, low, high)
        return Cases(x, low, high, np.zeros((len(x), 2)) if margin is None else margin)

    @cached_property
    def _is_whole(self) -> bool:
        return bool(self.steps.any())

    def _on_steps(
        self, x: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Bounds of whole columns moved inwards to x + a whole number of steps."""
        whole = np.flatnonzero(self.steps)
        whole = whole[(np.isfinite(low[:, whole]) | np.isfinite(high[:, whole])).any(axis=0)]
        if not len(whole):
            return low, high
        low, high = np.array(low), np.array(high)
        at, step = x[:, whole], self.steps[whole]
        low[:, whole], high[:, whole] = lattice.within_bounds(
            at, low[:, whole], high[:, whole], step
        )
        return low, high

    def cost(self, y: FloatArray, x: FloatArray) -> FloatArray:
        """(n,) in cost units."""
        return self.encoded_cost(y, x)

    def objective(self, y: FloatArray, cases: Cases) -> FloatArray:
        """(n,) what is minimised: the cost; with charges, the weighed cost and what they take."""
        cost = self.encoded_cost(y, cases.x)
        if not self.objective_terms:
            return cost
        return np.asarray(cases.weights * cost + sum(c.amount(y) for c in self.objective_terms))

    @cached_property
    def _merged(self) -> Region:
        """The same region with one box, and one stack of rows; without groups."""
        further = [
            c for c in self.region if not isinstance(c, Box | LinearBounds | ChangeBounds | OneOf)
        ]
        first: list[Condition] = [self.box]
        if self.affine.size:
            first.append(self.affine)
        return Region((*first, *further))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        """(n,) the largest violation of any condition, relative to the size of its terms."""
        worst = self._merged.violation(y, x)
        return np.maximum(worst, self.domain.hot.violation(y)) if self.groups else worst

    def tightened(self, margin: FloatArray) -> Region:
        """The demands of the target closed in by a (1, 2) margin, and all linear rows."""
        cones = (c for c in self.region if isinstance(c, Cone) and (c.tight or c.lost))
        convex = Region((self.affine.tightened(margin), *(c.tightened(margin) for c in cones)))
        beyond = self.nonconvex_duality
        return convex if beyond is None else convex & beyond.tightened(margin)

    @cached_property
    def normals(self) -> FloatArray:
        """(convex_size, d) the normal that each multiplier of what is convex weighs."""
        return np.vstack(
            [
                self.affine.matrix,
                *(coupling.normals for coupling in self.nonlinear_and_objective_terms),
            ]
        )

    @cached_property
    def _cut_parts(self) -> tuple[Coupling, ...]:
        """What `cut` adds up: linear rows, if there are any or nothing else, and all beyond."""
        beyond = self.nonlinear_and_objective_terms
        return (self.affine, *beyond) if self.affine.size or not beyond else beyond

    @cached_property
    def _sizes(self) -> FloatArray:
        """(convex_size, d) the sizes of the numbers in `normals`."""
        return np.abs(self.normals)

    @cached_property
    def _units(self) -> tuple[FloatArray, FloatArray]:
        """(convex_size,) r and (d,) c, with no number of `normals` larger than r_i c_j."""
        sizes = self._sizes
        column = sizes.max(axis=0, initial=0.0)
        used = column > 0.0
        height = (sizes[:, used] / column[used]).max(axis=1, initial=0.0)
        unit = np.zeros(self.width)
        rows = height > 0.0
        unit[used] = (sizes[np.ix_(rows, used)] / height[rows, None]).max(axis=0, initial=0.0)
        return height, unit * (1.0 + 8.0 * UNIT)

    def cut(self, multipliers: FloatArray, x: FloatArray) -> Cut:
        """What the couplings and charges add up to, for rows x (n, d), or (1, d) for all.

        The multipliers of conditions that are not convex have no part in it.
        """
        cuts, start = [], 0
        for coupling in self._cut_parts:
            cuts.append(coupling.cut(multipliers[:, start : start + coupling.size]))
            start += coupling.size
        if self.affine.of_change.any():
            cuts[0] = self.affine.moved(cuts[0], multipliers[:, : self.affine.size], x)
        if len(cuts) == 1:
            return cuts[0]
        offsets = np.stack([cut.offset for cut in cuts])
        doubt = gamma(len(cuts)) * np.abs(offsets).sum(axis=0)
        return Cut(
            np.asarray(sum(cut.normal for cut in cuts)),
            offsets.sum(axis=0),
            np.hstack([cut.weights for cut in cuts]),
            self._sizes,
            max(cut.roundings for cut in cuts) + len(cuts) - 1,
            np.asarray(doubt + sum(cut.doubt for cut in cuts)),
        )

    @cached_property
    def _one_row(self) -> LinearRows:
        """What its only row proves."""
        return LinearRows(self.encoded_cost, self.affine.matrix)

    def bound(
        self,
        cases: Cases,
        multipliers: FloatArray,
        at: FloatArray | None = None,
    ) -> FloatArray:
        """(n,) lower bounds on the objective at every point of the region: weak duality.

        Multipliers (n, size) may be any finite numbers. A full quadratic price is bounded by its
        tangent ``at`` any (n, d) points (x itself by default): the nearer to the optimum, the
        better. The margin of the cases is not used. Infinite where the domain alone is empty.
        """
        if self._is_one_row and cases.unbounded:
            weighed = self.affine.cut_weights(multipliers)
            return self._one_row.bound(cases.x, *weighed)[:, 0]
        if self._is_plain_loss and cases.unbounded:
            return self._loss_bound.bound(cases, multipliers)
        cut = self.cut(multipliers, cases.x)
        height, unit = self._units
        sizes = Sizes((cut.weights @ height)[:, None], unit[None], cut.roundings)
        bound = self.duality.bound(cases, cut, sizes, at)
        beyond = self.nonconvex_duality
        if beyond is None or self.objective_terms:
            return bound
        further = multipliers[:, self.convex_size :]
        return np.maximum(bound, beyond.bound(cases, further, cut, at, None))

    def moves_smoothly(self, cases: Cases) -> BoolArray:
        """(n,): whether some continuous column with an effect is free to move."""
        effect, beyond = self.normals.any(axis=0), self.nonconvex_duality
        if self.nonconvex:
            effect = effect | (True if beyond is None else beyond.columns)
        smooth = (self.steps == 0) & self.numeric & effect
        return np.asarray((cases.low < cases.high)[:, smooth].any(axis=1))

    def held(self, y: FloatArray, x: FloatArray) -> BoolArray:
        """(n, d): what is integral about y: whole columns, categories, features that stay."""
        integral = (self.steps > 0) | ~self.numeric
        held = np.repeat(integral[None, :], len(y), axis=0)
        return held if self.at_most is None else held | (y == x)

    @cached_property
    def _loss_bound(self) -> LossBound:
        """What its loss proves, without a look at each column."""
        return LossBound(self.encoded_cost, self.objective_terms[0])

    @cached_property
    def _is_plain(self) -> bool:
        """Whether there are only linear rows, losses, a box, and a price for each column."""
        plain = {Manhattan, SquaredEuclidean, Box, LinearBounds, LogLoss}
        return self.condition_types <= plain

    @cached_property
    def _is_plain_loss(self) -> bool:
        """Whether a loss alone is traded off against a separable quadratic price."""
        loss = len(self.objective_terms) == 1 and self.size == self.objective_terms[0].size
        return loss and self._is_plain and bool(self.encoded_cost.quadratic.all())

    @cached_property
    def _is_one_row(self) -> bool:
        """Whether there is one linear row, a separable price, and nothing integral."""
        return self._is_plain and self.size == self.affine.size == 1

    def refutes(self, cases: Cases, multipliers: FloatArray) -> BoolArray:
        """(n,): whether the multipliers prove that no point of the region exists (Farkas).

        On a column without bounds, an entry of the normal that is no more than what rounding leaves
        of a sum that cancels counts as 0. That is a proof for all points but those some 1e12 times
        as far away as the factual one. All other rounding is allowed for.
        """
        if self.objective_terms:  # no charge excludes anything
            charged = sum(objective_term.size for objective_term in self.objective_terms)
            multipliers = np.array(multipliers)
            multipliers[:, self.convex_size - charged : self.convex_size] = 0.0
        cut, further = self.cut(multipliers, cases.x), multipliers[:, self.convex_size :]
        refuted, beyond = self.duality.refutes(cases, cut), self.nonconvex_duality
        return refuted if beyond is None else refuted | beyond.refutes(cases, further, cut)


class NonConvex(Condition):
    """A condition that is not convex."""

    @abstractmethod
    def excess(self, y: FloatArray) -> FloatArray:
        """(n,) by how much points miss it, in score units; negative where they do not."""

    @abstractmethod
    def duality(self, program: Program) -> NonConvexDuality | None:
        """What multipliers of such conditions prove of a program; None if there are none."""


class NonConvexDuality(ABC):
    """What multipliers of all conditions of a program that are not convex prove."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of multipliers."""

    @property
    @abstractmethod
    def columns(self) -> BoolArray:
        """(d,) the columns that have an effect on the conditions."""

    @abstractmethod
    def tightened(self, margin: FloatArray) -> Region:
        """The conditions that are demands of the target, closed in by a (1, 2) margin."""

    @abstractmethod
    def bound(
        self,
        cases: Cases,
        multipliers: FloatArray,
        cut: Cut,
        at: FloatArray | None,
        margin: FloatArray | None,
    ) -> FloatArray:
        """(n,) lower bounds on the price, with what everything convex adds up to.

        The parameters are those of `Program.bound`, and ``cut`` what all points of the region meet.
        """

    @abstractmethod
    def refutes(self, cases: Cases, multipliers: FloatArray, cut: Cut) -> BoolArray:
        """(n,): whether the multipliers prove that no point of the region exists."""
