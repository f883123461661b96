"""Programs: one cost over one region, without the row in it, and their lower bounds.

A program is: minimise cost(y, x) over y in the region. Its region is a *domain* (intervals, whole
steps, categories, the number of changes: one feature at a time) cut by *couplings* (linear rows,
cones). For any multipliers, each coupling gives a linear inequality that its points meet, and their
sum bounds every feasible cost from below, whoever found the multipliers and however wrong they are:
see `counterpoint.programs.duality`. Conditions that are not convex have no such inequality; they
bring a `NonConvexDuality` of their own.
A *term of the objective*, such as −log of a probability, adds to the weighted cost; its multipliers
bound it from below by normal · y − offset, and the same sum bounds the objective.
"""

from __future__ import annotations

from abc import abstractmethod
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
from counterpoint.programs.duality import Duality, LinearRows, LossBound, NonConvexDuality
from counterpoint.programs.losses import LogLoss
from counterpoint.programs.region import Batch, Condition, Coupling, Cut, Region
from counterpoint.programs.separable import SeparableDomain
from counterpoint.rows import lattice
from counterpoint.rows.features import Categorical, Features, Integer


def kinds_region(features: Features) -> Region:
    """Return the region of the features' kinds: whole steps, one-hot groups.

    A category that stands in for others stays, but none becomes one.
    """
    conditions: list[Condition] = []
    whole = [(features.columns(f.name).start, f.step) for f in features if isinstance(f, Integer)]
    if whole:
        columns, steps = zip(*whole, strict=True)
        conditions.append(Whole(np.array(columns, dtype=np.intp), np.array(steps, dtype=float)))
    for feature, block in zip(features, features.blocks, strict=True):
        if isinstance(feature, Categorical):
            conditions.append(OneOf(block))
            if feature.stand_in is not None:
                stays = np.eye(len(feature.categories), dtype=bool)
                conditions.append(Transitions(block, stays | ~feature.is_stand_in))
    return Region(tuple(conditions))


def relaxed(program: Program, *dropped: type) -> Program:
    """Return the program without conditions of some types.

    Without `OneOf` a one-hot group becomes a simplex, whose linear row comes after the program's.
    """
    conditions = [c for c in program.region if type(c) not in dropped]
    added: list[Condition] = []
    for group in program.domain.groups if OneOf in dropped else ():
        row = np.zeros((1, program.width))
        row[0, group] = 1.0
        box = Box.unbounded(program.width)
        box.low[group], box.high[group] = 0.0, 1.0
        added += [LinearBounds(row, np.ones(1), np.ones(1)), box]
    return Program(program.encoded_cost, Region((*conditions, *added)))


def own_multipliers(program: Program, multipliers: FloatArray) -> FloatArray:
    """Return a program's multipliers (n, size) from those of what `relaxed` made of it."""
    rows, added = program.affine.size, multipliers.shape[1] - program.size
    return np.hstack([multipliers[:, :rows], multipliers[:, rows + added :]])


def tightened(program: Program, margin: FloatArray) -> Region:
    """Return the region of the target's demands, closed in by a (1, 2) margin, and linear rows."""
    cones = (
        c
        for c in program.region
        if isinstance(c, Cone) and (c.margin_coefficient or c.tie_coefficient)
    )
    convex = Region((program.affine.tightened(margin), *(c.tightened(margin) for c in cones)))
    nonconvex = program.duality.nonconvex
    return convex if nonconvex is None else convex & nonconvex.tightened(margin)


@final
@dataclass(frozen=True, eq=False)
class Program:
    """Minimise the cost of y − x over y in a region that may depend on x.

    Multipliers (size,) are those of linear rows, then of other couplings, then of what is not
    convex.
    """

    encoded_cost: EncodedCost
    region: Region

    @cached_property
    def width(self) -> int:
        """The number d of encoded columns."""
        return len(self.encoded_cost.absolute)

    @cached_property
    def condition_types(self) -> frozenset[type]:
        """The kinds of its cost and the types of its conditions, which a solver must accept."""
        return self.region.condition_types | self.encoded_cost.condition_types | {Box}

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
    def couplings(self) -> tuple[Coupling, ...]:
        """The couplings beyond linear rows, terms of the objective last."""
        beyond_rows = (
            c
            for c in self.region
            if isinstance(c, Coupling) and not isinstance(c, LinearBounds | LogLoss)
        )
        return (*beyond_rows, *self._objective_terms)

    @cached_property
    def _objective_terms(self) -> tuple[LogLoss, ...]:
        """The terms that are added to the weighted cost."""
        return tuple(c for c in self.region if isinstance(c, LogLoss))

    @cached_property
    def nonconvex(self) -> tuple[NonConvex, ...]:
        """The conditions that are not convex, all of one type."""
        return tuple(c for c in self.region if isinstance(c, NonConvex))

    @cached_property
    def size(self) -> int:
        """The number of multipliers."""
        nonconvex = self.duality.nonconvex
        return len(self._normals) + (0 if nonconvex is None else nonconvex.size)

    @cached_property
    def domain(self) -> SeparableDomain:
        """The conditions on features one by one."""
        groups = tuple(c.columns for c in self.region if isinstance(c, OneOf))
        box, steps = Box.unbounded(self.width), np.zeros(self.width)
        for condition in self.region:
            if isinstance(condition, Box):
                box = box.meet(condition)
            elif isinstance(condition, Whole):
                steps[condition.columns] = condition.steps
        numeric = np.ones(self.width, dtype=bool)
        for group in groups:  # relaxed to [0, 1]; `Transitions` say which categories may be chosen
            numeric[group], box.low[group], box.high[group] = False, 0.0, 1.0
            box.least[group], box.most[group] = -np.inf, np.inf
        limits = [c for c in self.region if isinstance(c, AtMost)]
        at_most = min(limits, key=lambda c: c.count) if limits else None
        return SeparableDomain(box, numeric, steps, groups, at_most)

    @cached_property
    def duality(self) -> Duality:
        """The bounds and refutations by inequalities."""
        nonconvex = self.nonconvex[0].duality(self) if self.nonconvex else None
        return Duality(self.encoded_cost, self.domain, bool(self._objective_terms), nonconvex)

    @cached_property
    def _transitions(self) -> tuple[Transitions, ...]:
        return tuple(c for c in self.region if isinstance(c, Transitions))

    def cases(self, x: FloatArray, margin: FloatArray | None = None) -> Batch:
        """Return rows x (n, d) with their bounds, as a batch; margins (n, 2) are 0 by default."""
        low, high = self.domain.box.bounds(x)
        if self._transitions:
            high = np.array(high)
            for transition in self._transitions:
                block = high[:, transition.columns]
                np.minimum(block, transition.permitted(x), out=block)
        if self._is_whole:
            low, high = self._on_steps(x, low, high)
        return Batch(x, low, high, np.zeros((len(x), 2)) if margin is None else margin)

    @cached_property
    def _is_whole(self) -> bool:
        return bool(self.domain.steps.any())

    def _on_steps(
        self, x: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return bounds, those of whole columns moved inwards to x + a whole number of steps."""
        whole = np.flatnonzero(self.domain.steps)
        whole = whole[(np.isfinite(low[:, whole]) | np.isfinite(high[:, whole])).any(axis=0)]
        if not len(whole):
            return low, high
        low, high = np.array(low), np.array(high)
        low[:, whole], high[:, whole] = lattice.within_bounds(
            x[:, whole], low[:, whole], high[:, whole], self.domain.steps[whole]
        )
        return low, high

    def objective(self, y: FloatArray, cases: Batch, cost: FloatArray | None = None) -> FloatArray:
        """Return the objective (n,): the cost, or the weighted cost and the terms added to it."""
        cost = self.encoded_cost(y, cases.x) if cost is None else cost
        if not self._objective_terms:
            return cost
        return np.asarray(cases.weights * cost + sum(c.amount(y) for c in self._objective_terms))

    @cached_property
    def _merged(self) -> Region:
        """The same region with one box and one stack of linear rows, and without groups."""
        further = [
            c for c in self.region if not isinstance(c, Box | LinearBounds | ChangeBounds | OneOf)
        ]
        first: list[Condition] = [self.domain.box]
        if self.affine.size:
            first.append(self.affine)
        return Region((*first, *further))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        """Return the largest violation of any condition, relative to its terms, (n,)."""
        worst = self._merged.violation(y, x)
        return np.maximum(worst, self.domain.hot.violation(y)) if self.domain.groups else worst

    @cached_property
    def _normals(self) -> FloatArray:
        """(m, d) the normal that each multiplier of what is convex weighs."""
        return np.vstack(
            [
                self.affine.matrix,
                *(coupling.normals for coupling in self.couplings),
            ]
        )

    @cached_property
    def _cut_parts(self) -> tuple[Coupling, ...]:
        """The couplings that `cut` adds up: linear rows, if there are any or nothing else."""
        beyond_rows = self.couplings
        return (self.affine, *beyond_rows) if self.affine.size or not beyond_rows else beyond_rows

    @cached_property
    def _sizes(self) -> FloatArray:
        """The sizes of the entries of `_normals`, (m, d)."""
        return np.abs(self._normals)

    @cached_property
    def _size_factors(self) -> tuple[FloatArray, FloatArray]:
        """Sizes of rows (m,) and columns (d,): no entry of `_normals` exceeds their product.

        A bound of the sizes of n sums in O(n (m + d)) instead of O(n m d).
        """
        sizes = self._sizes
        largest = sizes.max(axis=0, initial=0.0)
        columns = largest > 0.0
        row_size = (sizes[:, columns] / largest[columns]).max(axis=1, initial=0.0)
        rows, column_size = row_size > 0.0, np.zeros(self.width)
        shares = sizes[np.ix_(rows, columns)] / row_size[rows, None]
        column_size[columns] = shares.max(axis=0, initial=0.0)
        return row_size, column_size * (1.0 + 8.0 * UNIT)  # more than rounding took off

    def cut(self, multipliers: FloatArray, x: FloatArray) -> Cut:
        """Return the sum of the couplings' cuts, for rows x (n, d), or one (1, d) for all.

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
        offset_error = gamma(len(cuts)) * np.abs(offsets).sum(axis=0)
        return Cut(
            np.asarray(sum(cut.normal for cut in cuts)),
            offsets.sum(axis=0),
            np.hstack([cut.weights for cut in cuts]),
            self._sizes,
            max(cut.roundings for cut in cuts) + len(cuts) - 1,
            np.asarray(offset_error + sum(cut.offset_error for cut in cuts)),
        )

    @cached_property
    def _shortcut(self) -> LinearRows | LossBound | None:
        """The quicker bound of a single linear row, or of a single log-loss; None for others."""
        if self.condition_types <= {Manhattan, SquaredEuclidean, Box, LinearBounds, LogLoss}:
            if self.size == self.affine.size == 1:
                return LinearRows(self.encoded_cost, self.affine.matrix)
            if len(self._objective_terms) == 1 and self.encoded_cost.quadratic.all():
                (loss,) = self._objective_terms
                return LossBound(self.encoded_cost, loss) if self.size == loss.size else None
        return None

    def bound(
        self,
        cases: Batch,
        multipliers: FloatArray,
        at: FloatArray | None = None,
    ) -> FloatArray:
        """Return lower bounds (n,) on the objective over the whole region, by weak duality.

        Multipliers (n, size) may be any finite numbers. A full quadratic cost is bounded by its
        tangent ``at`` any (n, d) points (x itself by default): the nearer to the optimum, the
        better. The margin of the cases is not used. Infinite where the domain alone is empty.
        """
        # The same bounds in less time, of a log-loss or of one linear row alone.
        shortcut = self._shortcut
        if isinstance(shortcut, LossBound) and cases.unbounded:
            return shortcut.bound(cases, multipliers)
        if isinstance(shortcut, LinearRows):  # one row, so weight and offset are (n, 1)
            weight, offset = self.affine.cut_weights(multipliers)
            if cases.unbounded:
                return shortcut.bound(cases.x, weight, offset)[:, 0]
            if np.isneginf(self.affine.low[0]):  # else a weight may be negative
                bound = shortcut.bound_within(cases, weight[:, 0], offset[:, 0])
                if bound is not None:
                    return bound
        cut = self.cut(multipliers, cases.x)
        # the sizes of the terms of the cut's normal, by which its rounding is bounded
        row_sizes, column_sizes = self._size_factors
        sizes = Sizes((cut.weights @ row_sizes)[:, None], column_sizes[None], cut.roundings)
        bound, nonconvex = self.duality.bound(cases, cut, sizes, at), self.duality.nonconvex
        # conditions that are not convex bound the cost, not the terms added to it
        if nonconvex is None or self._objective_terms:
            return bound
        nonconvex_multipliers = multipliers[:, len(self._normals) :]
        return np.maximum(bound, nonconvex.bound(cases, nonconvex_multipliers, cut, at))

    def refutes(self, cases: Batch, multipliers: FloatArray) -> BoolArray:
        """Return whether the multipliers prove that no point of the region exists (Farkas), (n,).

        On a column without bounds, an entry of the normal that may be the rounding of a sum that
        cancels counts as 0. That is a proof for all points but those some 1e12 times as far away
        as the factual one. All other rounding is allowed for.
        """
        if self._objective_terms:  # they exclude no point, so their multipliers count as 0
            end, count = len(self._normals), sum(term.size for term in self._objective_terms)
            multipliers = np.array(multipliers)
            multipliers[:, end - count : end] = 0.0
        cut, nonconvex = self.cut(multipliers, cases.x), self.duality.nonconvex
        refuted = self.duality.refutes(cases, cut)
        if nonconvex is None:
            return refuted
        return refuted | nonconvex.refutes(cases, multipliers[:, len(self._normals) :], cut)


class NonConvex(Condition):
    """A condition that is not convex."""

    @abstractmethod
    def excess(self, y: FloatArray) -> FloatArray:
        """Return by how much points miss it, in score units, (n,); negative where they do not."""

    @abstractmethod
    def duality(self, program: Program) -> NonConvexDuality | None:
        """Return the duality of all such conditions of a program; None if they prove nothing."""
