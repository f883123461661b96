"""What is proved of one row: the best bound so far, by curvature and semidefinite programming.

Over multipliers λ >= 0 of the quadratic conditions, μ of the linear rows and of bounds, and for an
absolute price ratios |r_ij| <= 1 of pairs of columns (see `counterpoint.prototypes.nearer`), Shor's
relaxation is

    maximise γ  subject to  [[P(r) + Σ λ_j Q_j, b/2], [bᵀ/2, c − γ]]  positive semidefinite

where c and b are the value and the slope at x of Σ λ_j e_j and of the rows. Its dual holds a change
δ and a matrix X in the place of δδᵀ: where X is that, δ is the optimum.
"""

from __future__ import annotations

from typing import NamedTuple, final

import clarabel
import numpy as np
from numpy.typing import ArrayLike

from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Cone
from counterpoint.engine.program import Program
from counterpoint.numerics import TINY, FloatArray, IntArray
from counterpoint.prototypes.nearer import curvature_of
from counterpoint.prototypes.solvers.convex_step import Step, settings, sparse_columns
from counterpoint.prototypes.solvers.quadric import Quadric
from counterpoint.solvers.base import Effort, Optimality, translated

__all__ = ["LowerBound", "Relaxed", "relaxed"]

STATUS = clarabel.SolverStatus
SOLVED = (STATUS.Solved, STATUS.AlmostSolved)
EMPTY = (STATUS.DualInfeasible, STATUS.AlmostDualInfeasible)
FIRST = 4
"""How many conditions are looked at first."""
MISSED = 1e-7
"""By how much, relative to its terms, a condition is missed that was not looked at."""
BACK = 1e-8
"""By how much, relatively, multipliers keep off the edge of what is convex."""
RELAXED = {Optimality.LOCAL: 20, Optimality.GLOBAL: 40}
"""The largest number of columns that can move for which the relaxation is solved."""
OPEN = 1e-4
"""A relative gap of the relaxation that no other multipliers close."""


@final
class LowerBound:
    """The best bound so far, and the multipliers that prove it."""

    def __init__(self, quadric: Quadric, case: Cases, effort: Effort, cutoff: float) -> None:
        self.quadric, self.program, self.case = quadric, quadric.program, case
        self.effort, self.cutoff = effort, cutoff
        self.bound = 0.0
        self.multipliers = np.zeros(self.program.size)
        self.is_empty = False
        self.relaxed: Relaxed | None = None

    def closes(self, cost: float) -> bool:
        """Whether nothing can be gained on a cost, or on what is already reached."""
        close = self.bound >= cost * (1.0 - self.effort.gap) if np.isfinite(cost) else False
        hopeless = self.bound >= self.cutoff * (1.0 - 0.1 * self.effort.gap)
        return bool(close or hopeless or self.is_empty)

    def nearest(self) -> FloatArray:
        """(d,) the nearest point that meets the condition which asks for most, and its bound."""
        nearest = self.quadric.nearest(self.case)
        multipliers = np.zeros(self.program.size)
        weights = nearest.multipliers[0]
        multipliers[self.program.convex_size :][: len(weights)] = weights
        self._by(multipliers)
        if nearest.empty[0]:
            self._refuted_by(multipliers)
        return np.asarray(nearest.points[0])

    def relax(self, nearest: FloatArray) -> Relaxed | None:
        """The semidefinite relaxation and its bound, unless there are too many columns.

        ``nearest`` (d,) is about as far away as the answer; NaN if there is no such point.
        """
        if (self.case.low < self.case.high).sum() > RELAXED[self.effort.optimality]:
            return None
        price = 1.0
        if np.isfinite(nearest).all():
            price = float(self.program.cost(nearest[None], self.case.x)[0]) or 1.0
        size = price if curvature_of(self.program).is_absolute else np.sqrt(price)
        found = relaxed(self.program, self.case, size, self.effort)
        if found is not None and np.isnan(found.point).any():
            self._refuted_by(found.multipliers)
        elif found is not None:
            self.relaxed = found
            self._by(found.multipliers)
        return self.relaxed

    def by_step(self, step: Step) -> None:
        """The bound by the multipliers of a last step, if they may close the gap to its point."""
        program, curvature, y = self.program, curvature_of(self.program), step.point
        cost = float(program.cost(y[None], self.case.x)[0])
        if self.closes(cost) or (self.relaxed is not None and cost - self.bound > OPEN * cost):
            return
        multipliers, at, j = np.zeros(program.size), program.convex_size, len(step.weights)
        multipliers[: len(step.rows)], multipliers[at : at + j] = step.rows, step.weights
        if curvature.is_absolute:  # in units of its square, see `Curvature`
            multipliers[: at + j] *= 2.0 * cost
            slope = curvature.quadrics.slope(y[None], step.weights[None])[0]
            pull = -(slope + step.rows @ program.affine.matrix)
            s = np.clip(pull / program.price.absolute, -1.0, 1.0)
            first, second = curvature.pairs
            multipliers[program.size - len(first) :] = s[first] * s[second]
        if self.relaxed is not None:
            multipliers[at + j :] = self.relaxed.multipliers[at + j :]
        self._by(multipliers, y)

    def _by(self, multipliers: FloatArray, at: FloatArray | None = None) -> None:
        """The bound by some multipliers, if it is better."""
        about = None if at is None else at[None]
        bound = float(self.program.bound(self.case, multipliers[None], about)[0])
        if bound > self.bound:
            self.bound, self.multipliers = bound, multipliers

    def _refuted_by(self, multipliers: FloatArray) -> None:
        """Keep multipliers that prove that there is no point."""
        if self.program.refutes(self.case, multipliers[None])[0]:
            self.multipliers, self.is_empty = multipliers, True


@final
class Relaxed(NamedTuple):
    """What the relaxation says of one row."""

    multipliers: FloatArray  # (program.size,); they bound the price, or refute the program
    point: FloatArray  # (d,) x + δ; NaN if the relaxation has no point


def relaxed(program: Program, case: Cases, size: float, effort: Effort) -> Relaxed | None:
    """The relaxation for one row, without what is integral; None if it is not solved.

    ``size`` is about the root of the answer's price; of its square, if that is absolute. Only the
    quadratic conditions that it misses are looked at.
    """
    order = np.argsort(
        -curvature_of(program).quadrics.missed(case.x, case.margin)[0], kind="stable"
    )
    chosen, found = order[:FIRST], None
    with translated("Clarabel"):
        for _ in range(6):
            moments = _Moments(program, case, size, np.sort(chosen))
            found = moments.solve(effort)
            if found is None or np.isnan(found.point).any():
                break
            missed = np.setdiff1d(moments.missed(order), chosen)
            if not len(missed):
                break
            chosen = np.concatenate([chosen, missed])
    return found


@final
class _Moments:
    """One row's relaxation in the shape that Clarabel takes, over the columns that can move.

    A quadratic function of the change δ is a matrix over (δ, 1); with δ = T (u, 1), one over
    (u, 1), where u are the changes of the free columns in units of their price and the size. Those
    that are not positive where the program's conditions are met have weights, whose multipliers
    are at ``positions`` in the program (−1 for none), with a sign.
    """

    def __init__(self, program: Program, case: Cases, size: float, chosen: IntArray) -> None:
        self.program, self.case, self.size = program, case, size
        self.curvature = curvature_of(program)
        d, low, high = program.width, case.low[0], case.high[0]
        self.free = np.flatnonzero(low < high)
        self.k = k = len(self.free)
        form = self.curvature.form
        diagonal = np.diag(form)[self.free]
        self.change = np.zeros((d + 1, k + 1))
        unit = size / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        self.change[self.free, np.arange(k)] = unit
        self.change[:d, k] = np.where(low == high, low - case.x[0], 0.0)
        self.change[d, k] = 1.0
        full = np.zeros((d + 1, d + 1))
        full[:d, :d] = np.diag(np.diag(form)) if self.curvature.is_absolute else form
        self.price = self.change.T @ full @ self.change / size**2
        # Clarabel's order of an upper triangle is column by column.
        self.at = np.tril_indices(k + 1)[::-1]
        self.root = np.where(self.at[0] == self.at[1], 1.0, np.sqrt(2.0))
        pairs = np.flatnonzero((self.at[0] != self.at[1]) & (self.at[1] < k))
        self.pairs = pairs if len(self.curvature.pairs[0]) else pairs[:0]
        self.matrices, self.heights = np.zeros((0, k + 1, k + 1)), np.zeros(0)
        self.positions, self.signs = np.zeros(0, dtype=np.intp), np.zeros(0)
        self._add(*self._quadratic(chosen), program.convex_size + chosen)
        self._add_within()
        self._add_linear()
        self.plain, self.moment = len(self.signs), np.zeros((k + 1, k + 1))
        self.cones = [self._add_cone(cone, at) for cone, at in self._cones()]

    def _add(
        self, form: ArrayLike, slope: FloatArray, value: FloatArray, positions: ArrayLike,
        sign: float = 1.0, *, together: bool = False,
    ) -> None:  # fmt: skip
        """sign · (δᵀ form δ + slope · δ + value) <= 0, or one cone of such together."""
        m, matrices = len(value), sign * self._lifted(form, slope, value)
        heights = np.maximum(np.abs(matrices).max(axis=(1, 2), initial=0.0), TINY)
        heights = np.full(m, heights.max()) if together else heights
        self.matrices = np.concatenate([self.matrices, matrices / heights[:, None, None]])
        self.heights = np.append(self.heights, heights)
        self.positions = np.append(self.positions, positions)
        self.signs = np.append(self.signs, np.full(m, sign))

    def _lifted(self, form: ArrayLike, slope: FloatArray, value: FloatArray) -> FloatArray:
        """(m, k + 1, k + 1) δᵀ form δ + slope · δ + value."""
        d = self.program.width
        full = np.zeros((len(value), d + 1, d + 1))
        full[:, :d, :d] = form
        full[:, :d, d] = full[:, d, :d] = 0.5 * slope
        full[:, d, d] = value
        return np.asarray(self.change.T @ full @ self.change)

    def _quadratic(self, chosen: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Forms, slopes and values of quadratic conditions."""
        quadrics, x = self.curvature.quadrics, self.case.x
        values = quadrics.missed(x, self.case.margin)[0]
        return quadrics.forms[chosen], quadrics.slopes(x)[0, chosen], values[chosen]

    def missed(self, chosen: IntArray) -> IntArray:
        """The quadratic conditions that the moments miss."""
        matrices = self._lifted(*self._quadratic(chosen))
        value = np.einsum("mij,ij->m", matrices, self.moment)
        size = np.einsum("mij,ij->m", np.abs(matrices), np.abs(self.moment))
        return np.asarray(chosen[value > MISSED * size])

    def _add_within(self) -> None:
        """(y − low)(y − high) for columns with two bounds; equal to 0 for one-hot blocks."""
        program, x, d = self.program, self.case.x[0], self.program.width
        bounded, numeric = self.curvature.bounded, program.numeric
        which = np.flatnonzero(np.isin(bounded, self.free))
        first = program.convex_size + len(self.curvature.quadrics)
        for chosen, sign in ((which, 1.0), (which[~numeric[bounded[which]]], -1.0)):
            columns = bounded[chosen]
            low = np.where(numeric, self.case.low[0], 0.0)[columns]
            high = np.where(numeric, self.case.high[0], 1.0)[columns]
            below, above = x[columns] - low, x[columns] - high
            one = np.eye(d)[columns]
            form = one[:, :, None] * one[:, None, :]
            slope = one * (below + above)[:, None]
            self._add(form, slope, below * above, first + chosen, sign)

    def _add_linear(self) -> None:
        """Linear rows; finite bounds and sums of one-hot blocks, which have no multipliers."""
        affine, x, d = self.program.affine, self.case.x[0], self.program.width
        groups = np.zeros((len(self.program.groups), d))
        for row, group in zip(groups, self.program.groups, strict=True):
            row[group] = 1.0
        one = np.ones(len(groups))
        low, high = (limit[0] for limit in affine.limits(self.case.margin))
        matrix = np.vstack([affine.matrix, np.eye(d), groups])
        positions = np.append(np.arange(affine.size), np.full(d + len(groups), -1))
        for limit, sign in (
            (np.concatenate([high, self.case.high[0], one]), 1.0),
            (np.concatenate([low, self.case.low[0], one]), -1.0),
        ):
            used = np.isfinite(limit) & matrix[:, self.free].any(axis=1)
            values = (matrix @ x - limit)[used]
            self._add(0.0, matrix[used], values, positions[used], sign)

    def _cones(self) -> list[tuple[Cone, int]]:
        """The cones, and where their multipliers begin."""
        sizes = [coupling.size for coupling in self.program.curved]
        starts = self.program.affine.size + np.cumsum([0, *sizes])[:-1]
        pairs = zip(self.program.curved, starts.tolist(), strict=True)
        return [(cone, at) for cone, at in pairs if isinstance(cone, Cone)]

    def _add_cone(self, cone: Cone, at: int) -> int:
        """−(slope · y + radius) and the rows M y + c, in one unit; how many there are."""
        x, m = self.case.x[0], len(cone.matrix)
        radius = cone.radius - float(cone.closed_in(self.case.margin)[0])
        slopes = np.vstack([-cone.slope, cone.matrix])
        values = np.append(-(cone.slope @ x) - radius, cone.matrix @ x + cone.offset)
        last = at + m if cone.size > m else -1
        positions = np.append(last, np.arange(at, at + m))
        self._add(0.0, slopes, values, positions, together=True)
        return m + 1

    def solve(self, effort: Effort) -> Relaxed | None:
        """The multipliers and the point, or None."""
        m, q, p = self.plain, len(self.signs), len(self.pairs)
        columns = np.zeros((len(self.root), q + p + 1))
        columns[:, :q] = (self.matrices[:, *self.at] * self.root).T
        columns[self.pairs, q + np.arange(p)] = np.sqrt(2.0)
        columns[-1, -1] = -1.0
        eye, ratios = np.eye(q, q + p + 1), np.eye(p, q + p + 1, k=q)
        right = [np.zeros(m), np.ones(2 * p), np.zeros(q - m), self.price[self.at] * self.root]
        result = clarabel.DefaultSolver(
            sparse_columns(np.zeros((q + p + 1,) * 2)),
            -np.eye(q + p + 1)[-1],
            sparse_columns(np.vstack([-eye[:m], ratios, -ratios, -eye[m:], -columns])),
            np.concatenate(right),
            [
                clarabel.NonnegativeConeT(m + 2 * p),
                *map(clarabel.SecondOrderConeT, self.cones),
                clarabel.PSDTriangleConeT(self.k + 1),
            ],
            settings(effort),
        ).solve()
        empty = result.status in EMPTY
        if not empty and result.status not in SOLVED:
            return None
        v = np.asarray(result.x) * (1.0 if empty else 1.0 - BACK)
        v[:m] = np.maximum(v[:m], 0.0)
        moments = np.asarray(result.z)[-len(self.root) :] / self.root
        self.moment[self.at] = self.moment[self.at[::-1]] = moments
        delta = self.change @ self.moment[-1]
        point = self.case.x[0] + (np.nan if empty else 1.0) * delta[:-1]
        return Relaxed(self._multipliers(v[:q] / self.heights, v[q : q + p]), point)

    def _multipliers(self, weights: FloatArray, ratios: FloatArray) -> FloatArray:
        """(size,) the multipliers of the program."""
        program, out = self.program, np.zeros(self.program.size)
        known = self.positions >= 0
        weights = self.signs * weights * self.size**2
        np.add.at(out, self.positions[known], weights[known])
        if len(self.pairs):
            full = np.zeros((program.width, program.width))
            full[tuple(self.free[of[self.pairs]] for of in self.at)] = ratios
            pairs = self.curvature.pairs
            out[program.size - len(pairs[0]) :] = full[pairs]
        return out
