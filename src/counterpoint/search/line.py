"""Two classes, asked in coordinates of their span: one number a row, and one proof in closed form.

Between two classes answers move in one direction. How far, what that costs, and what bounds all
other costs are a few operations on columns of n numbers: the same as those of the general way,
without what it needs for more classes and other conditions. A row that they do not settle goes the
general way: one at a tie, one that the model does not confirm, one with too large a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Claim, Status
from counterpoint.numerics import CLOSED, EPS, BoolArray, FloatArray, IntArray
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.duality import OneRow
from counterpoint.programs.evidence import Kept
from counterpoint.results import Counterfactuals
from counterpoint.rows.table import Table
from counterpoint.search.span import ProjectedRows, blocks_of
from counterpoint.search.union import Task
from counterpoint.search.validation import SPARE

__all__ = ["Line"]

COLUMN = 1 << 16
"""How many rows at a time: few enough for the cache, so many that Python takes next to nothing."""


@final
@dataclass(frozen=True, eq=False)
class Line:
    """What a target asks of rows of either class, each in one coordinate t.

    Of rows of class k it is met where ``signs[k] · slope · t <= high[k]``.
    """

    task: Task  # what is asked of full rows
    rows: ProjectedRows
    labels: NDArray[Any]  # (2,) the classes
    targets: NDArray[np.object_]  # (2,) what the target means for rows of each
    satisfied: BoolArray  # (2,) whether they meet it as they are
    signs: FloatArray  # (2,)
    slope: float  # in score units for one of the coordinate
    high: FloatArray  # (2,) in score units

    @classmethod
    def of(cls, task: Task, rows: ProjectedRows) -> Line | None:
        """None if more is asked than which of two classes is predicted."""
        asked, required = rows.span.question, task.target.requirement
        more = required.probable or required.limits is not None or required.chance is not None
        labels = rows.classes_
        if more or required.margin or task.eps > EPS or len(labels) != 2:
            return None
        (parts,) = task.target.each(labels, np.zeros(2, dtype=bool))
        targets, satisfied = np.empty(2, dtype=object), np.zeros(2, dtype=bool)
        slopes, high = np.empty((2, 2))
        for target, part in parts:
            affine = asked.pieces(target).listed[0].program.affine
            targets[part], slopes[part], high[part] = target, affine.matrix[0, 0], affine.high[0]
            satisfied[part] = target.satisfied(asked.form, rows.start[:0], labels[part])
        if abs(slopes[0]) != abs(slopes[1]) or slopes[0] == 0.0:
            return None
        return cls(
            task, rows, labels, targets, satisfied, np.sign(slopes), float(abs(slopes[0])), high
        )

    def settle(
        self,
        inputs: Table,
        out: Counterfactuals,
        usable: BoolArray,
        advance: Callable[[int], None] | None,
    ) -> BoolArray:
        """(n,): which of the usable rows are settled; others are left as they came.

        The model is asked about the rows, and about the answers, in its own columns.
        """
        rows, n = self.rows, len(usable)
        change, multiplier, done = np.empty((n, 1)), np.empty((n, 1)), np.zeros(n, dtype=bool)
        parts = [slice(i, min(i + COLUMN, n)) for i in range(0, n, COLUMN)]
        before = self._said(inputs, None)
        for here in parts:
            self._move(before[here], here, change[here, 0], multiplier[here, 0])
        after = self._said(inputs, change)
        for here in parts:
            found = change[here, 0], multiplier[here, 0]
            done[here] = self._judge(before[here], after[here], here, found, out, usable[here])
            if advance is not None:
                advance(int(np.count_nonzero(done[here])))
        proved = np.flatnonzero(done & (out.statuses == Status.OPTIMAL.code))
        if out.effort is not None and len(proved):
            out.kept.append((proved, [Kept(multiplier[proved])]))
        left = np.flatnonzero(~done)
        rows.answers[left] = rows.X[left]
        return done

    def _said(self, inputs: Table, change: FloatArray | None) -> NDArray[Any]:
        """(n,) what the model says of the rows, or of them with changes, which become answers."""
        rows, said = self.rows, []
        for here in blocks_of(len(rows.X), rows.X.shape[1], rows.cells):
            if change is not None:
                rows.move(here, change[here], rows.answers[here])
            full = rows.X if change is None else rows.answers
            said.append(self.task.model.predict(inputs.with_matrix(here, full[here])))
        return np.concatenate(said)

    def _which(self, said: NDArray[Any]) -> IntArray:
        """(n,) the positions of predicted classes."""
        return (said == self.labels[1]).astype(np.intp)

    def _move(
        self, said: NDArray[Any], here: slice, change: FloatArray, multiplier: FloatArray
    ) -> None:
        """Write how far rows move to meet the target by the lead that is asked for, and a proof."""
        task, span, x, which = self.task, self.rows.span, self.rows.start[here], self._which(said)
        form, t, sign = span.question.form, x[:, 0].copy(), self.signs[which]
        short, already_satisfied = sign * (self.slope * t) - self.high[which], self.satisfied[which]
        unlike = np.flatnonzero((short > 0.0) == already_satisfied)
        if len(unlike):  # the model says otherwise than what was read of it, or there is a tie
            self.rows.reading(task.model).check(x[unlike], said[unlike])
        short += SPARE * task.target.requirement.rounding(form, x, task.eps)
        short[already_satisfied] = 0.0
        np.maximum(short, 0.0, out=short)  # a tie, which is left
        change[:] = (t - sign * (short / self.slope)) - t
        multiplier[:] = 1.0 if span.absolute else 2.0 * (short / self.slope)
        multiplier /= self.slope

    def _judge(
        self,
        said: NDArray[Any],
        after: NDArray[Any],
        here: slice,
        found: tuple[FloatArray, FloatArray],
        out: Counterfactuals,
        usable: BoolArray,
    ) -> BoolArray:
        """(m,): which rows are settled; what they are worth is written, as `certify` would."""
        (change, multiplier), task, span = found, self.task, self.rows.span
        form, gap, which = span.question.form, task.effort.gap, self._which(said)
        sign, high, already_satisfied = self.signs[which], self.high[which], self.satisfied[which]
        y = np.array(self.rows.start[here])
        t = y[:, :1].copy()
        y[:, 0] += change
        first, second = self.targets
        valid = first.satisfied(form, y, after)
        if second is not first:
            valid = np.where(which, second.satisfied(form, y, after), valid)
        far = np.abs(change)
        cost = far if span.absolute else change * change
        margin = high - sign * (self.slope * y[:, 0])
        rounding = task.target.requirement.rounding(form, y, task.eps)
        # the margins allow for points that cost no more than the answer
        offset = multiplier * high + multiplier * self.rows.slack(here, far)
        one = OneRow(self._price, np.array([self.slope]))
        bound = np.minimum(
            one.bound(t, sign * multiplier, offset) / (1.0 + span.cost_inflation), cost
        )
        # so that the gap is no larger, whatever rounds
        moves = valid & (margin >= rounding) & (cost - bound <= (gap - 4.0 * EPS) * cost)
        moves &= self.rows.keeps(far, CLOSED, here) & (far > 0.0) & (cost > 0.0)
        done = usable & (moves | already_satisfied)
        bound[already_satisfied] = 0.0
        c = out.certificates
        numbers: dict[str, Any] = {"margin": margin, "rounding": rounding, "bound": bound}
        numbers |= {"cost": cost, "objective": cost, "violation": 0.0}
        numbers |= {"valid": True, "claims": Claim.PROVED.code}
        where: Any = done if not done.all() else True  # which is quicker
        for name, values in numbers.items():
            np.copyto(getattr(c, name)[here], values, where=where)
        code = np.where(
            already_satisfied, np.int8(Status.ALREADY.code), np.int8(Status.OPTIMAL.code)
        )
        np.copyto(out.statuses[here], code, where=where)
        out.closed_form[here] |= done
        if second is not first:
            np.take(self.targets, which, out=out.targets[here], mode="clip")
        return done

    @cached_property
    def _price(self) -> EncodedCost:
        """Of the coordinate."""
        encoded_cost = self.rows.span.question.encoded_cost
        return replace(
            encoded_cost, absolute=encoded_cost.absolute[:1], quadratic=encoded_cost.quadratic[:1]
        )
