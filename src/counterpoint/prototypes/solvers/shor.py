"""The best bound that curvature gives one row (Shor's relaxation), by semidefinite programming.

Over multipliers λ >= 0 of the quadratic conditions, μ of the linear rows and of bounds, and for an
absolute price ratios |r_ij| <= 1 of pairs of columns (see `counterpoint.prototypes.curvature`),

    maximise γ  subject to  [[P(r) + Σ λ_j Q_j, b/2], [bᵀ/2, c − γ]]  positive semidefinite

where c and b are the value and the slope at x of Σ λ_j e_j and of the rows. Its dual holds a change
δ and a matrix X in the place of δδᵀ: where X is that, δ is the optimum. Only the conditions that
the dual misses are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import clarabel
import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Cone
from counterpoint.engine.program import Program
from counterpoint.prototypes.nearer import curvature_of
from counterpoint.prototypes.solvers.tangents import settings, sparse_columns
from counterpoint.solvers.base import Effort, translated

__all__ = ["Relaxed", "relaxed"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

STATUS = clarabel.SolverStatus
SOLVED = (STATUS.Solved, STATUS.AlmostSolved)
EMPTY = (STATUS.DualInfeasible, STATUS.AlmostDualInfeasible)
FIRST = 4
"""How many conditions are looked at first."""
ROUNDS = 6
MISSED = 1e-7
"""By how much, relative to its terms, a condition is missed that was not looked at."""
BACK = 1e-8
"""By how much, relatively, multipliers keep off the edge of what is convex."""
LONG = 0.05
"""A share of the uncertainty that makes an axis a long one."""


@final
@dataclass(frozen=True, eq=False)
class Relaxed:
    """What the relaxation says of one row.

    ``multipliers`` (size,) of the program bound the price, or refute the program. ``point`` (d,) is
    x and the change δ, NaN if the relaxation has no point. ``moment`` (k + 1, k + 1) holds X, δ and
    1, in units of their own, ``change`` (d + 1, k + 1) is these units.
    """

    multipliers: FloatArray
    point: FloatArray
    moment: FloatArray
    change: FloatArray

    @property
    def is_empty(self) -> bool:
        """Whether the relaxation has no point."""
        return bool(np.isnan(self.point).any())

    @property
    def spread(self) -> FloatArray:
        """(m, d) x + δ and more or less each long axis of X − δδᵀ: how uncertain δ is."""
        mean = self.moment[:-1, -1]
        values, axes = np.linalg.eigh(self.moment[:-1, :-1] - np.outer(mean, mean))
        long = np.flatnonzero(values > LONG * max(float(values.sum()), 0.0))[::-1]
        steps = (axes[:, long] * np.sqrt(values[long])).T
        both = np.stack([steps, -steps], axis=1).reshape(-1, len(mean))
        return np.asarray(self.point + both @ self.change[:-1, :-1].T)


def relaxed(program: Program, case: Cases, size: float, effort: Effort) -> Relaxed | None:
    """The relaxation for one row, without what is integral; None if it is not solved.

    ``size`` is about the root of the answer's price; of its square, if that is absolute.
    """
    order = np.argsort(
        -curvature_of(program).quadrics.missed(case.x, case.margin)[0], kind="stable"
    )
    chosen = order[:FIRST]
    for _ in range(ROUNDS):
        moments = _Moments(program, case, size, np.sort(chosen))
        found = moments.solve(effort)
        if found is None or found.is_empty:
            return found
        missed = np.setdiff1d(moments.missed(order, found.moment), chosen)
        if not len(missed):
            return found
        chosen = np.concatenate([chosen, missed])
    return found


@final
@dataclass(frozen=True, eq=False)
class _Terms:
    """Functions of a change that are not positive where a program's conditions are met.

    Their matrices (m, k + 1, k + 1), whose multipliers in the program their weights are (−1 for
    none), and on which side.
    """

    matrices: FloatArray
    positions: IntArray
    signs: FloatArray

    @classmethod
    def joined(cls, parts: Sequence[_Terms]) -> _Terms:
        """One after the other."""
        return cls(
            np.concatenate([part.matrices for part in parts]),
            np.concatenate([part.positions for part in parts]),
            np.concatenate([part.signs for part in parts]),
        )

    @property
    def sizes(self) -> FloatArray:
        """(m,) the largest entries."""
        return np.maximum(np.abs(self.matrices).max(axis=(1, 2), initial=0.0), 1e-300)


@final
class _Moments:
    """One row's relaxation in the shape that Clarabel takes, over the columns that can move.

    A quadratic function of the change δ is a matrix over (δ, 1); with δ = T (u, 1), one over
    (u, 1), where u are the changes of the free columns in units of their price and the size.
    """

    def __init__(self, program: Program, case: Cases, size: float, chosen: IntArray) -> None:
        self.program, self.case, self.size, self.chosen = program, case, size, chosen
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
        self.price = self._over(full) / size**2
        self.at = np.triu_indices(k + 1)
        # Clarabel's order of an upper triangle is column by column.
        order = np.lexsort((self.at[0], self.at[1]))
        self.at = self.at[0][order], self.at[1][order]
        self.root = np.where(self.at[0] == self.at[1], 1.0, np.sqrt(2.0))
        pairs = np.flatnonzero((self.at[0] != self.at[1]) & (self.at[1] < k))
        self.pairs = pairs if len(self.curvature.pairs[0]) else pairs[:0]

    def _over(self, matrix: FloatArray) -> FloatArray:
        """A matrix over (δ, 1), or several, as one over (u, 1)."""
        return np.asarray(self.change.T @ matrix @ self.change)

    def _quadratic(self, chosen: IntArray) -> FloatArray:
        """(m, k + 1, k + 1) the matrices of quadratic conditions."""
        quadrics, x, d = self.curvature.quadrics, self.case.x, self.program.width
        out = np.zeros((len(chosen), d + 1, d + 1))
        out[:, :d, :d] = quadrics.forms[chosen]
        out[:, :d, d] = out[:, d, :d] = 0.5 * quadrics.slopes(x)[0, chosen]
        out[:, d, d] = quadrics.missed(x, self.case.margin)[0, chosen]
        return self._over(out)

    def _within(self) -> _Terms:
        """(y − low)(y − high) for columns with two bounds; equal to 0 for one-hot blocks."""
        program, x, d = self.program, self.case.x[0], self.program.width
        bounded, numeric = self.curvature.bounded, program.numeric
        which = np.flatnonzero(np.isin(bounded, self.free))
        columns = bounded[which]
        low = np.where(numeric, self.case.low[0], 0.0)[columns]
        high = np.where(numeric, self.case.high[0], 1.0)[columns]
        matrices, m = np.zeros((len(columns), d + 1, d + 1)), np.arange(len(columns))
        matrices[m, columns, columns] = 1.0
        matrices[m, columns, d] = matrices[m, d, columns] = x[columns] - 0.5 * (low + high)
        matrices[:, d, d] = (x[columns] - low) * (x[columns] - high)
        positions = program.convex_size + len(self.curvature.quadrics) + which
        upper = _Terms(self._over(matrices), positions, np.ones(len(columns)))
        equal = ~numeric[columns]
        lower = _Terms(-upper.matrices[equal], positions[equal], -upper.signs[equal])
        return _Terms.joined([upper, lower])

    def _linear(self) -> _Terms:
        """Linear rows; finite bounds and sums of one-hot blocks, which have no multipliers."""
        affine, x, d = self.program.affine, self.case.x[0], self.program.width
        groups = np.zeros((len(self.program.groups), d))
        for row, group in zip(groups, self.program.groups, strict=True):
            row[group] = 1.0
        one = np.ones(len(groups))
        low, high = (limit[0] for limit in affine.limits(self.case.margin))
        matrix = np.vstack([affine.matrix, np.eye(d), groups])
        positions = np.append(np.arange(affine.size), np.full(d + len(groups), -1))
        parts = []
        for limit, sign in (
            (np.concatenate([high, self.case.high[0], one]), 1.0),
            (np.concatenate([low, self.case.low[0], one]), -1.0),
        ):
            used = np.isfinite(limit) & matrix[:, self.free].any(axis=1)
            matrices = self._of_lines(sign * matrix[used], sign * (matrix @ x - limit)[used])
            parts.append(_Terms(matrices, positions[used], np.full(len(matrices), sign)))
        return _Terms.joined(parts)

    def _of_lines(self, slopes: FloatArray, values: FloatArray) -> FloatArray:
        """(m, k + 1, k + 1) values + slopes · δ."""
        d = self.program.width
        out = np.zeros((len(values), d + 1, d + 1))
        out[:, :d, d] = out[:, d, :d] = 0.5 * slopes
        out[:, d, d] = values
        return self._over(out)

    def _cones(self) -> list[_Terms]:
        """For each cone −(slope · y + radius) and the rows M y + c, in one unit."""
        x, at, made = self.case.x[0], self.program.affine.size, []
        for cone in self.program.curved:
            if isinstance(cone, Cone):
                radius = cone.radius - float(cone.closed_in(self.case.margin)[0])
                slopes = np.vstack([-cone.slope, cone.matrix])
                values = np.append(-(cone.slope @ x) - radius, cone.matrix @ x + cone.offset)
                m = len(cone.matrix)
                last = at + m if cone.size > m else -1
                positions = np.append(last, np.arange(at, at + m))
                made.append(_Terms(self._of_lines(slopes, values), positions, np.ones(m + 1)))
            at += cone.size
        return made

    def solve(self, effort: Effort) -> Relaxed | None:
        """The multipliers and the moments, or None."""
        positions = self.program.convex_size + self.chosen
        own = _Terms(self._quadratic(self.chosen), positions, np.ones(len(positions)))
        terms, cones = _Terms.joined([own, self._within(), self._linear()]), self._cones()
        every = _Terms.joined([terms, *cones])
        heights = np.concatenate(
            [terms.sizes, *(np.full(len(c.signs), c.sizes.max()) for c in cones)]
        )
        m, q, p = len(terms.signs), len(every.signs), len(self.pairs)
        matrices = every.matrices / heights[:, None, None]
        columns = np.zeros((len(self.root), q + p + 1))
        columns[:, :q] = (matrices[:, *self.at] * self.root).T
        columns[self.pairs, q + np.arange(p)] = np.sqrt(2.0)
        columns[-1, -1] = -1.0
        eye, ratios = np.eye(q, q + p + 1), np.eye(p, q + p + 1, k=q)
        right = [np.zeros(m), np.ones(2 * p), np.zeros(q - m), self.price[self.at] * self.root]
        with translated("Clarabel"):
            result = clarabel.DefaultSolver(
                sparse_columns(np.zeros((q + p + 1,) * 2)),
                -np.eye(q + p + 1)[-1],
                sparse_columns(np.vstack([-eye[:m], ratios, -ratios, -eye[m:], -columns])),
                np.concatenate(right),
                [
                    clarabel.NonnegativeConeT(m + 2 * p),
                    *(clarabel.SecondOrderConeT(len(c.signs)) for c in cones),
                    clarabel.PSDTriangleConeT(self.k + 1),
                ],
                settings(effort),
            ).solve()
        empty = result.status in EMPTY
        if not empty and result.status not in SOLVED:
            return None
        v = np.asarray(result.x) * (1.0 if empty else 1.0 - BACK)
        v[:m] = np.maximum(v[:m], 0.0)
        multipliers = self._multipliers(every, v[:q] / heights, v[q : q + p])
        moment = np.zeros((self.k + 1, self.k + 1))
        moment[self.at] = np.asarray(result.z)[-len(self.root) :] / self.root
        moment = moment + np.triu(moment, 1).T
        point = self.case.x[0] + (self.change @ moment[:, -1])[:-1]
        return Relaxed(multipliers, point * np.nan if empty else point, moment, self.change)

    def _multipliers(self, terms: _Terms, weights: FloatArray, ratios: FloatArray) -> FloatArray:
        """(size,) the multipliers of the program."""
        program, out = self.program, np.zeros(self.program.size)
        known = terms.positions >= 0
        weights = terms.signs * weights * self.size**2
        np.add.at(out, terms.positions[known], weights[known])
        if len(self.pairs):
            full = np.zeros((program.width, program.width))
            full[tuple(self.free[of[self.pairs]] for of in self.at)] = ratios
            pairs = self.curvature.pairs
            out[program.size - len(pairs[0]) :] = full[pairs]
        return out

    def missed(self, order: IntArray, moment: FloatArray) -> IntArray:
        """The quadratic conditions that the moments miss."""
        matrices = self._quadratic(order)
        value = np.einsum("mij,ij->m", matrices, moment)
        size = np.einsum("mij,ij->m", np.abs(matrices), np.abs(moment))
        return np.asarray(order[value > MISSED * size])
