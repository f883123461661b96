"""The form of tree ensembles: scores are sums of the values of leaves, one leaf of each tree."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import Memo
from counterpoint.errors import InvalidInput
from counterpoint.families.trees.ensemble import Trees
from counterpoint.families.trees.grid import Grid, divided
from counterpoint.models.form import AffineMap, Form, mask, require_finite, wanted_classes
from counterpoint.numerics import (
    AFTER,
    EPS,
    MISSING,
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    relative,
)
from counterpoint.problem.targets import Requirement, Target
from counterpoint.programs.conditions import BINARY_PLACES
from counterpoint.programs.program import NonConvex
from counterpoint.programs.region import Region

FLOAT32 = float(np.finfo(np.float32).eps)
"""The distance from 1 to the next number in float32."""


class Odds(Enum):
    """Ways in which sums over leaves become probabilities."""

    SHARES = "they are the probabilities"
    LOGISTIC = "softmax of the sums (for two classes, the logistic function)"
    NONE = "no probabilities"


class Order(Enum):
    """Orders in which models add leaves to a start, before they divide the sum."""

    LISTED = "tree by tree"
    ALONE = "tree by tree, on one thread"
    ANY = "in any order, as threads finish"
    OWN = "unknown, or the sum is not only divided"


@final
@dataclass(frozen=True, eq=False)
class TreeScores(Form):
    """k sums over trees: the class of the largest is predicted; by a regressor, the only sum is."""

    trees: Trees
    base: FloatArray  # (k,) what is added to the sums
    classes: NDArray[Any] | None  # (k,) labels; None for a regressor, which has one sum
    inputs: int  # the number of inputs of the trees
    odds: Odds = Odds.NONE
    before: AffineMap | None = None  # from encoded rows to the inputs; None if they are the same
    eps: float = EPS  # the distance from 1 to the next number where the model adds up
    divisor: int = 1  # what sums are divided by
    # It depends on the model's ``n_jobs``, and is no part of what it decides, which records name by
    # a fingerprint.
    order: Order = field(default=Order.OWN, compare=False)
    # sums of two classes that differ by less may have the same probability, by which it decides
    link_error: float = 0.0

    def __post_init__(self) -> None:
        require_finite(self.trees.values, self.base)

    @cached_property
    def _grids(self) -> Memo[Any, Grid]:
        return Memo()

    @property
    def has_values(self) -> bool:  # type: ignore[override]
        """Whether it predicts numbers."""
        return self.classes is None

    @property
    def takes_missing(self) -> bool:  # type: ignore[override]
        """Whether it takes missing numbers as they are."""
        return self.trees.missing is not None

    @property
    def width(self) -> int:
        return self.inputs if self.before is None else int(self.before.matrix.shape[1])

    @property
    def sizes(self) -> FloatArray:
        """(k,) the largest sizes of the sums."""
        return self.trees.sizes / self.divisor

    def sees(self, X: FloatArray) -> FloatArray:
        """Return the inputs of the trees, (n, inputs), at encoded rows."""
        return X if self.before is None else self.before(X)

    def scores(self, X: FloatArray) -> FloatArray:
        """Return the sums (n, k)."""
        sums = self.trees.summed(self.sees(X), self.base.astype(self.precision))
        return np.asarray(sums / self.divisor, dtype=np.float64)

    @property
    def precision(self) -> type:
        """The type of the numbers that the model adds up."""
        return np.float64 if self.eps <= EPS else np.float32

    def added(self, values: FloatArray) -> FloatArray:
        """Return the scores (…, k) of values of leaves (…, T, k), added up as `scores` does."""
        start = np.broadcast_to(self.base, (*values.shape[:-2], 1, values.shape[-1]))
        terms: Any = np.concatenate([start, values], axis=-2).astype(self.precision)
        sums = np.add.accumulate(terms, axis=-2)[..., -1, :]
        return np.asarray(sums / self.divisor, dtype=np.float64)

    def sums_exactly(self, values: FloatArray) -> bool:
        """Return whether no sum over trees with leaves of these (m, k) values is rounded.

        They are binary fractions then, and few enough; so the order does not matter.
        """
        fine = np.ldexp(np.vstack([values, self.base]), BINARY_PLACES)
        largest = np.abs(fine).max() * (len(self.trees.roots) + 1)
        return bool((fine == np.rint(fine)).all() and largest <= 2.0 / max(self.eps, EPS))

    @cached_property
    def is_exact(self) -> bool:
        """Whether its scores are bit by bit those of the model."""
        leaves = self.trees.values[self.trees.inputs < 0]
        any_order = self.order is Order.ANY and self.sums_exactly(leaves)
        return any_order or self.order in (Order.LISTED, Order.ALONE)

    @property
    def reordered(self) -> TreeScores | None:  # type: ignore[override]
        """The same forest on several threads instead of one, or on one; None for other models."""
        if self.order not in (Order.ALONE, Order.ANY):
            return None
        return replace(self, order=Order.ANY if self.order is Order.ALONE else Order.ALONE)

    @property
    def breakpoints(self) -> tuple[IntArray, FloatArray]:  # type: ignore[override]
        """Columns and thresholds, in column units, of inputs that depend on one column alone."""
        tests = (self.trees.inputs >= 0) & (self.trees.subset < 0)
        inputs, cuts = self.trees.inputs[tests], self.trees.thresholds[tests]
        if self.before is None:
            return inputs, cuts
        matrix, _ = divided(self.before, self.inputs)
        single = np.flatnonzero(np.diff(matrix.indptr)[inputs] == 1)
        inputs, entry = inputs[single], matrix.indptr[inputs[single]]
        with np.errstate(over="ignore"):
            values = (cuts[single] - self.before.offset[inputs]) / matrix.data[entry]
        return matrix.indices[entry].astype(np.intp), values

    def predict(self, X: FloatArray) -> NDArray[Any]:
        scores = self.scores(X)
        if self.classes is None:
            return scores[:, 0]
        return np.asarray(self.classes[scores.argmax(axis=1)])

    @cached_property
    def rounding(self) -> FloatArray:
        """(k,) the rounding errors of sums, in units of one rounding of the precision."""
        return (len(self.trees.roots) + AFTER) * (self.sizes + np.abs(self.base))

    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        """Return twice a bound on the scores' error (n,).

        Where rounding may decide a test, any other leaf may be the model's, and the error as large
        as the scores.
        """
        error = np.full(len(X), 2.0 * max(eps, self.eps) * self.rounding.max(initial=0.0))
        if self.before is not None:
            error[self._is_doubtful(X, max(eps, EPS))] = 2.0 * self.sizes.max(initial=0.0)
        return error

    def decision_error(self, X: FloatArray, required: Requirement, eps: float) -> FloatArray:
        """Return the error (n,) of margins at a precision ``eps`` in which rows are kept.

        It is 0 where the model adds up as this form does, and no test is decided by rounding;
        infinite, for unknown, elsewhere. Rows that are kept in less than float32 may end in other
        cells, which a margin may prevent. Scores that nearly tie may be ties by probability.
        """
        error = np.full(len(X), np.inf)
        # the model decides by these very sums, or the margin is beyond the error of other ones
        exact = self.decides(required) and (self.is_exact or required.margin > 0.0)
        if not exact or eps > FLOAT32:
            return error
        certain = np.ones(len(X), dtype=bool)
        if self.before is not None:
            certain = ~self._is_doubtful(X, max(eps, EPS))
        error[certain] = 0.0
        if self.link_error and not required.margin:
            gaps = np.diff(np.sort(self.scores(X), axis=1), axis=1)
            nearly_tied = ((gaps > 0.0) & (gaps < self.link_error)).any(axis=1)
            error[nearly_tied & certain] = self.link_error
        return error

    def decides(self, required: Requirement) -> bool:
        """Return whether exact scores say whether a requirement is met.

        A probability that follows from scores by a function is rounded itself. A margin in score
        units is decided here and not by the model, unless it is as small as a rounding error.
        """
        linked = required.probable and self.odds is not Odds.SHARES
        return not linked and not 0.0 < required.margin <= 2.0 * self.lead_error

    @property
    def lead_error(self) -> float:
        """The rounding error of scores, by which a margin may be missed and still count as met."""
        return 2.0 * max(EPS, self.eps) * float(self.rounding.max(initial=0.0))

    def _is_doubtful(self, X: FloatArray, eps: float) -> BoolArray:
        """Return the rows (n,) with an input as near to a threshold as its rounding error."""
        assert self.before is not None  # noqa: S101 (asked by the caller)
        Z, sizes = self.sees(X), self.before.sizes
        error = (sizes.terms + AFTER) * eps * sizes(X)
        # Inputs that are columns as they are do not round; others that the model computes in
        # float64 from one column are computed likewise here.
        exact = self.before_exact
        computed = self.before.computed if eps <= EPS else {}
        doubtful = np.zeros(len(X), dtype=bool)
        for i in self.trees.tested.tolist():
            if exact[i] or i in computed:
                continue
            cuts = np.unique(self.trees.thresholds[self.trees.inputs == i])
            above = np.searchsorted(cuts, Z[:, i])
            # (2, n) the nearest thresholds on both sides
            places = np.stack([np.maximum(above - 1, 0), np.minimum(above, len(cuts) - 1)])
            neighbours = cuts[places]
            doubtful |= (np.abs(neighbours - Z[:, i]) <= error[:, i]).any(axis=0)
        return doubtful

    @cached_property
    def before_exact(self) -> BoolArray:
        """(inputs,) which inputs are encoded columns as they are."""
        return divided(self.before, self.inputs)[1]

    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        scores = self.scores(X)
        margins = [(scores @ c.weights.T + c.offset).min(axis=1) for c in self._conditions(target)]
        margin = np.max(margins, axis=0)
        if target.requirement.margin:  # what rounding misses of it counts as met
            margin[np.abs(margin) <= self.lead_error] = 0.0
        return np.asarray(margin)

    def regions(self, target: Target) -> tuple[Region, ...]:
        return tuple(Region((condition,)) for condition in self._conditions(target))

    def through(self, before: AffineMap) -> TreeScores:
        seen = before if self.before is None else self.before.through(before)
        return replace(self, before=seen)

    def narrow(self) -> TreeScores:
        """Return the same trees, of which nobody says how the steps before them round."""
        if self.before is None or not self.before.computed:
            return self
        return replace(self, before=replace(self.before, computed={}))

    def grid(self, groups: tuple[slice, ...], x: FloatArray) -> Grid:
        """Return the grid of the trees for a row x (d,), where ``groups`` are categories; kept.

        Columns that are missing in the row stay so, and are not cut into cells.
        """
        gone = np.flatnonzero(x == MISSING)

        def made() -> Grid:
            return Grid.of(self.trees, self.before, groups, self.width, gone, self.divisor)

        key = tuple((group.start, group.stop) for group in groups), tuple(gone.tolist())
        return self._grids.made(key, made)

    def thresholds(self, groups: tuple[slice, ...]) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the columns, thresholds and doubts, see `Grid`, of all tests of numbers."""
        grid = self.grid(groups, np.zeros(self.width))
        column, finite = np.repeat(grid.columns, np.diff(grid.starts)), np.isfinite(grid.cuts)
        return column[finite], grid.cuts[finite], grid.doubts[finite]

    def _conditions(self, target: Target) -> tuple[LeafSums, ...]:
        """Return conditions of which one has to be met: for labels, one for each wanted class."""
        required = target.requirement
        if self.classes is None:
            if required.limits is None:
                raise target.misfit("a regressor", "Interval")
            # score − low >= 0 and high − score >= 0
            weights, offsets = np.array([[1.0], [-1.0]]), np.array(required.limits) * [-1.0, 1.0]
            finite = np.isfinite(offsets)
            return (self._demands(required, weights[finite], offsets[finite]),)
        if required.probable:
            return (self._probable(target),)
        wanted, margin = wanted_classes(target, self.classes, "Label, OtherLabel or Probability")
        rivals = np.flatnonzero(~wanted)
        unit = np.eye(len(self.classes))
        return tuple(
            self._demands(
                required,
                unit[k] - unit[rivals],
                np.full(len(rivals), -margin),
                (rivals < k) & (margin == 0.0),  # of equal scores, the first class is predicted
            )
            for k in np.flatnonzero(wanted).tolist()
        )

    def _probable(self, target: Target) -> LeafSums:
        """Return the condition of a `Probability`, or refuse the target in a sentence."""
        assert self.classes is not None  # noqa: S101 (asked by the caller)
        required, kind = target.requirement, type(target).__name__
        label = int(np.flatnonzero(mask(required.labels, self.classes))[0])
        if required.at_least is None:
            raise InvalidInput(
                f"{kind} weighs a probability that changes smoothly; that of trees has steps. "
                "Use Probability, or Label with a margin."
            )
        if self.odds is Odds.NONE:
            raise InvalidInput(
                f"{kind} needs class probabilities that follow from sums over leaves; this model "
                "has none. Use Label with a margin in score units."
            )
        unit = np.eye(len(self.classes))
        if self.odds is Odds.SHARES:
            return self._demands(required, unit[[label]], [-required.at_least])
        if len(self.classes) > 2:
            raise InvalidInput(
                f"{kind} of one of several classes is not a bound on sums over leaves. "
                "Use Label with a margin in score units."
            )
        odds = float(np.log(required.at_least) - np.log1p(-required.at_least))
        return self._demands(required, unit[[label]] - unit[[1 - label]], [-odds])

    def _demands(
        self, required: Requirement, weights: Any, offset: Any, strict: BoolArray | None = None
    ) -> LeafSums:
        """Return the condition weights · scores + offset >= 0; > 0 for ``strict`` demands (r,)."""
        weights = np.asarray(weights, dtype=np.float64)
        shift = np.asarray(offset, dtype=np.float64) + weights @ self.base
        strict = np.zeros(len(shift), dtype=bool) if strict is None else strict
        slack = self.lead_error if required.margin else 0.0
        ties_resolved = self.decides(required)
        return LeafSums(
            self, weights, np.asarray(offset, np.float64), shift, strict, ties_resolved, slack
        )


@final
@dataclass(frozen=True, eq=False)
class LeafSums(NonConvex):
    """r demands weights · scores + offset >= 0, where scores are sums over the leaves of trees."""

    form: TreeScores
    weights: FloatArray  # (r, k)
    offset: FloatArray  # (r,)
    shift: FloatArray  # (r,) the same with the form's base, to be added to sums over leaves alone
    strict: BoolArray  # (r,) which demands a tie does not meet
    ties_resolved: bool  # whether exact scores say whether they are met, see `TreeScores.decides`
    slack: float  # by how much they may be missed and still count as met

    @cached_property
    def noise(self) -> FloatArray:
        """(r,) the rounding error of a sum that is added up in float64 in any order."""
        size = np.abs(self.weights) @ self.form.rounding + AFTER * np.abs(self.shift)
        return np.asarray(UNIT * size)

    @cached_property
    def tolerance(self) -> FloatArray:
        """(r,) by how much such a sum may miss a demand where the model meets it, at most."""
        return np.asarray(max(self.form.eps / EPS, 1.0) * self.noise + self.slack)

    def meets(self, values: FloatArray) -> bool | None:
        """Return whether the model meets the demands where its leaves have values (T, k).

        None if that depends on how it rounds.
        """
        form = self.form
        sums = self.weights @ form.added(values) + self.offset
        satisfied = np.where(self.strict, sums > 0.0, sums >= -self.slack)
        if self.ties_resolved and (form.is_exact or self.slack > 0.0):
            # These are the model's own sums, but a link may make a tie of what is nearly tied.
            nearly_tied = (sums != 0.0) & (np.abs(sums) < form.link_error) & (self.slack == 0.0)
            unsure = nearly_tied & (satisfied == self.strict)
        else:
            unsure = np.abs(sums) <= self.tolerance
        if (~satisfied & ~unsure).any():
            return False
        return None if unsure.any() else True

    def sums(self, y: FloatArray) -> FloatArray:
        """Return by how much points meet each demand, (n, r)."""
        return np.asarray(self.form.scores(y) @ self.weights.T + self.offset)

    def excess(self, y: FloatArray) -> FloatArray:
        return np.asarray(-self.sums(y).min(axis=1))

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        size = np.abs(self.weights) @ self.form.sizes
        over = -self.sums(y) - self.tolerance
        return np.asarray(relative(over, np.broadcast_to(size, over.shape)).max(axis=1))

    def duality(self, program: Any) -> None:
        return None
