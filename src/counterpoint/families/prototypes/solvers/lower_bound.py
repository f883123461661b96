"""Bounds of quadratic conditions: one at a time in closed form (S-lemma), or all together (Shor).

The nearest point that meets a single condition e(y) = ‖F y + f‖² − ‖H y + h‖² − limit <= 0 is known
exactly, convex or not: in the metric of the price, and along the axes of the condition's curvature,
e(x + ζ) = Σ q_k ζ_k² + 2 Σ β_k ζ_k + c, and the nearest point has

    ζ_k = −β_k / (μ + q_k)    with    ψ(μ) = c − Σ β_k² (2μ + q_k) / (μ + q_k)² = 0,

where 1/μ is the multiplier and μ > max(−q): ψ rises there. For each row the condition that asks
for most is met. That is a relaxation, so its price bounds all others from below; where the point
happens to meet the other conditions too, it is the optimum. An absolute price is bounded through
its square, Σ w² δ², and its points are no optima.

Over multipliers λ >= 0 of the quadratic conditions, μ of the linear rows and of bounds, and for an
absolute price ratios |r_ij| <= 1 of pairs of columns
(see `counterpoint.families.prototypes.quadratic_difference`),
Shor's relaxation is

    maximise γ  subject to  [[P(r) + Σ λ_j Q_j, b/2], [bᵀ/2, c − γ]]  positive semidefinite

where c and b are the value and the slope at x of Σ λ_j e_j and of the rows. Its dual holds a change
δ and a matrix X in the place of δδᵀ: where X is that, δ is the optimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, final

import clarabel
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from counterpoint.caches import Memo
from counterpoint.families.prototypes.quadratic_difference import (
    Curvature,
    QuadraticDifference,
    curvature_of,
    is_quadratic,
)
from counterpoint.numerics import EPS, TINY, BoolArray, FloatArray, IntArray
from counterpoint.problem.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.programs.conditions import (
    AtMost,
    Box,
    Cone,
    LinearBounds,
    OneOf,
    Transitions,
    Whole,
)
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.solvers.base import Effort, Optimality, Outcome, Solution, Solver, translated
from counterpoint.solvers.clarabel import Clarabel

EMPTY = (clarabel.SolverStatus.DualInfeasible, clarabel.SolverStatus.AlmostDualInfeasible)
CLOSEST = 1e-14
"""How close to the pole the root is looked for, relative to the curvatures."""
CANCELLED = 64.0 * EPS
"""What is left of a sum that cancels, relative to the size of its terms."""
RELAXED = {Optimality.LOCAL: 20, Optimality.GLOBAL: 40}
"""The largest number of columns that can move for which the relaxation is solved."""


@final
@dataclass(frozen=True, eq=False)
class Quadric(Solver):
    """The S-lemma for one condition; complete only where one condition decides."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Mahalanobis, Box, LinearBounds, Cone, QuadraticDifference}
        | {Whole, OneOf, Transitions, AtMost}
    )
    accuracy: ClassVar[float] = 1e-9
    complete: ClassVar[bool] = False
    batched: ClassVar[bool] = True

    @classmethod
    def takes(cls, program: Program) -> bool:
        return is_quadratic(program, cls.accepts)

    @cached_property
    def curvature(self) -> Curvature:
        """Its quadratic conditions."""
        return curvature_of(self.program)

    @cached_property
    def _axes(self) -> Memo[bytes, tuple[FloatArray, FloatArray]]:
        return Memo()

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out = Solution.blank(len(cases.x), self.program)
        points, weights, empty = self.nearest(cases)
        out.multipliers[:, self.program.size - self.curvature.size :][:, : weights.shape[1]] = (
            weights
        )
        satisfied = self.curvature.meets(points, cases)
        out.points[satisfied] = points[satisfied]
        out.outcomes[satisfied] = Outcome.FOUND
        out.outcomes[empty | cases.empty] = Outcome.INFEASIBLE
        return out

    def nearest(self, cases: Batch) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return each row's nearest point that meets the condition which asks for most.

        These (n, d) points, NaN without one; (n, J) multipliers, not 0 for that condition alone;
        (n,) whether a condition holds no point at all. Rows with the same movable columns are
        solved together.
        """
        shape = len(cases.x), len(self.curvature.quadrics)
        out = np.array(cases.x), np.zeros(shape), np.zeros(len(cases.x), dtype=bool)
        movable = cases.low < cases.high
        movable |= (cases.low != cases.x) & ~cases.empty[:, None]  # a relaxation where it must move
        masks, mask_of = np.unique(movable, axis=0, return_inverse=True)
        for number, mask in enumerate(masks):
            if mask.any():
                rows = np.flatnonzero(mask_of.ravel() == number)
                axes = self._axes.made(mask.tobytes(), partial(self._along, mask))
                same_columns = cases.take(rows) if len(masks) > 1 else cases
                for array, values in zip(out, self._solve(*axes, same_columns), strict=True):
                    array[rows] = values
        return out

    def _along(self, movable: BoolArray) -> tuple[FloatArray, FloatArray]:
        """(J, k) the q of each condition over the columns that can move, and (J, d, k) its axes."""
        quadrics, form = self.curvature.quadrics, self.curvature.form
        if self.curvature.is_absolute:
            form = np.diag(np.diag(form))
        # (d, k) U with (U ζ)ᵀ(price)(U ζ) = ‖ζ‖²
        metric = np.zeros((len(movable), int(movable.sum())))
        root = np.linalg.cholesky(form[np.ix_(movable, movable)])
        metric[movable] = np.linalg.inv(root).T
        values, vectors = np.linalg.eigh(metric.T @ quadrics.forms @ metric)
        size = np.abs(metric).T @ quadrics.sizes @ np.abs(metric)
        noise = CANCELLED * size.max(axis=(1, 2))[:, None]
        return np.where(np.abs(values) <= noise, 0.0, values), np.asarray(metric @ vectors)

    def _solve(
        self, q: FloatArray, axes: FloatArray, cases: Batch
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """`nearest` for rows with the same columns that can move."""
        quadrics = self.curvature.quadrics
        c = quadrics.excess(cases.x, cases.margin)
        slopes, sizes = quadrics.slopes_with_sizes(cases.x)
        beta = 0.5 * np.einsum("njd,jdk->njk", slopes, axes)
        noise = 0.5 * np.einsum("njd,jdk->njk", sizes, np.abs(axes))
        beta = np.where(np.abs(beta) <= CANCELLED * noise, 0.0, beta)
        steps, multipliers, encoded_cost = _on_the_surface(np.broadcast_to(q, beta.shape), beta, c)
        encoded_cost = np.where(c > 0.0, encoded_cost, 0.0)
        worst = encoded_cost.argmax(axis=1)
        chosen = np.arange(len(cases.x)), worst
        empty, missed = np.isinf(encoded_cost[chosen]), encoded_cost[chosen] > 0.0
        step = np.einsum("ndk,nk->nd", axes[worst], steps[chosen])
        points = cases.x + np.where(missed[:, None], step, 0.0)
        points[empty] = np.nan
        weights = np.zeros(c.shape)
        weights[chosen] = np.where(missed, multipliers[chosen], 0.0)
        return points, weights, empty


def _on_the_surface(
    q: FloatArray, beta: FloatArray, c: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The nearest ζ with Σ q ζ² + 2 Σ β ζ + c <= 0, for c > 0.

    These (n, J, k) ζ; (n, J) the multipliers 1/μ; (n, J) about ‖ζ‖², infinite without such a ζ.
    ``q``, ``beta``: (n, J, k); ``c``: (n, J); where it is not positive, what comes out has no
    meaning.
    """
    pole = np.maximum(-q.min(axis=2), 0.0)
    with np.errstate(all="ignore"):
        distance = np.exp(_log_distance(q, beta, c, pole))
        mu = pole + distance
        steps = -beta / (distance[:, :, None] + (q + pole[:, :, None]))
        excess = c + ((q * steps + 2.0 * beta) * steps).sum(axis=2)
        hard = (distance <= 2.0 * CLOSEST * np.abs(q).max(axis=2)) & (excess > 0.0)
        # The hard case: any point along the steepest axis that makes up for what is left.
        shift = np.where(hard & (pole > 0.0), np.sqrt(excess / pole), 0.0)
        lowest = q.argmin(axis=2)[:, :, None]
        steep = np.take_along_axis(steps, lowest, axis=2)
        np.put_along_axis(steps, lowest, steep + shift[:, :, None], axis=2)
        # What rounding of μ leaves of the excess, taken away along its slope.
        excess = c + ((q * steps + 2.0 * beta) * steps).sum(axis=2)
        slope = q * steps + beta
        steps = steps - slope * (0.5 * excess / (slope * slope).sum(axis=2))[:, :, None]
        # A little off the pole its Lagrangian is convex, whatever rounding does.
        multipliers = 1.0 / np.maximum(mu, pole * (1.0 + 1e-10))
        reach = np.where(beta == 0.0, 0.0, np.where(q > 0.0, beta * beta / q, np.inf))
        empty = (pole == 0.0) & (c > reach.sum(axis=2))
        multipliers = np.where(empty, 1.0 / np.maximum(np.abs(q).max(axis=2), 1.0), multipliers)
        encoded_cost = np.where(empty, np.inf, (steps * steps).sum(axis=2))
    return np.nan_to_num(steps), np.nan_to_num(multipliers), encoded_cost


def _log_distance(q: FloatArray, beta: FloatArray, c: FloatArray, pole: FloatArray) -> FloatArray:
    """(n, J) the logarithm of μ − pole at the root of ψ.

    Newton's method between logarithms, of μ's distance from the pole and of c − ψ: these are nearly
    proportional, near the pole and far from it. A pair whose root is found stays, so that no answer
    depends on what else is in the batch.
    """
    size = np.abs(q).max(axis=2)
    size = np.where(size > 0.0, size, 1.0)
    squares = beta * beta
    first = 2.0 * squares.sum(axis=2) / c
    low, high = np.log(CLOSEST * size), np.log(8.0 * (first + size))
    end, at = low, np.log(np.maximum(np.sqrt(0.5 * first * pole), first))
    converged = ~(c > 0.0)
    for _ in range(100):
        at = np.where(converged, at, np.clip(at, low, high))
        distance = np.exp(at)
        apart = distance[:, :, None] + (q + pole[:, :, None])
        terms = squares / (apart * apart)
        mu = pole + distance
        reach = (terms * (apart + mu[:, :, None])).sum(axis=2)
        low, high = np.where(reach > c, at, low), np.where(reach < c, at, high)
        fall = 2.0 * mu * (terms / apart).sum(axis=2) * distance / reach
        newton = at + np.log(reach / c) / fall
        middle = np.where(newton <= end, end, 0.5 * (low + high))
        following = np.where((newton > low) & (newton < high), newton, middle)
        still = np.abs(following - at) <= 2.0 * EPS * np.abs(at)
        converged |= still | (reach == c) | ((at == end) & (reach < c))
        if converged.all():
            break
        at = np.where(converged, at, following)
    return np.asarray(at)


Rows = tuple[ArrayLike, FloatArray, FloatArray, IntArray, float]
"""sign · (δᵀ(form)δ + slope · δ + value) <= 0: (m, d, d) forms, (m, d) slopes, (m,) values, the
positions of their multipliers in the program (−1 where its bound needs none), and the sign."""


def _rows(program: Program, case: Batch) -> Iterator[Rows]:
    """What all changes of one row meet, without what is integral; columns that can move alone."""
    curvature, affine, domain = curvature_of(program), program.affine, program.domain
    quadrics, x, low, high = curvature.quadrics, case.x[0], case.low[0], case.high[0]
    free, first, units = low < high, program.size - curvature.size, np.eye(program.width)
    excess, slopes = quadrics.excess(case.x, case.margin)[0], quadrics.slopes(case.x)[0]
    yield quadrics.forms, slopes, excess, first + np.arange(len(quadrics)), 1.0
    # (y − low)(y − high) <= 0; in one-hot columns an equation, which is two inequalities
    first, bounded, numeric = first + len(quadrics), curvature.bounded, domain.numeric
    for sign, movable in ((1.0, free), (-1.0, free & ~numeric)):
        positions = np.flatnonzero(movable[bounded])
        columns = bounded[positions]
        below = x[columns] - np.where(numeric, low, 0.0)[columns]
        above = x[columns] - np.where(numeric, high, 1.0)[columns]
        along = units[columns]
        forms, slopes = along[:, :, None] * along[:, None, :], along * (below + above)[:, None]
        yield forms, slopes, below * above, first + positions, sign
    # linear rows; and bounds and sums of one-hot blocks, which the domain knows
    sums = np.array([units[group].sum(axis=0) for group in domain.groups]).reshape(-1, len(x))
    matrix, ones = np.vstack([affine.matrix, units, sums]), np.ones(len(sums))
    positions = np.append(np.arange(affine.size), np.full(len(matrix) - affine.size, -1))
    least, most = (limit[0] for limit in affine.limits(case.margin))
    for sign, limits in ((1.0, (most, high, ones)), (-1.0, (least, low, ones))):
        limit = np.concatenate(limits)
        used = np.isfinite(limit) & matrix[:, free].any(axis=1)
        yield 0.0, matrix[used], (matrix @ x - limit)[used], positions[used], sign


def relaxed(
    program: Program, case: Batch, size: float, effort: Effort
) -> tuple[FloatArray, FloatArray] | None:
    """The relaxation for one row, without what is integral; None if it is not solved.

    (program.size,) multipliers, which bound the price or refute the program; (d,) x + δ, NaN if the
    relaxation has no point. ``size`` is about the root of the answer's price; of its square, if
    that is absolute.
    """
    curvature, d = curvature_of(program), program.width
    x, low, high = case.x[0], case.low[0], case.high[0]
    form, free = curvature.form, np.flatnonzero(low < high)
    k, diagonal = len(free), np.diag(form)
    # δ = T (u, 1), where u are the changes of free columns in units of their price and the size
    change = np.zeros((d + 1, k + 1))
    change[free, np.arange(k)] = size / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)[free])
    change[:d, k] = np.where(low == high, low - x, 0.0)
    change[d, k] = 1.0
    # Clarabel's order of an upper triangle is column by column; products count twice in it.
    at = np.tril_indices(k + 1)[::-1]
    root = np.where(at[0] == at[1], 1.0, np.sqrt(2.0))

    def triangles(form: ArrayLike, slope: FloatArray, value: FloatArray) -> FloatArray:
        """(m, …) quadratic functions of δ as matrices over (u, 1)."""
        full = np.zeros((len(value), d + 1, d + 1))
        full[:, :d, :d] = form
        full[:, :d, d] = full[:, d, :d] = 0.5 * slope
        full[:, d, d] = value
        return np.asarray((change.T @ full @ change)[:, *at] * root)

    rows = [*_rows(program, case)]
    signs = np.concatenate([np.full(len(row[3]), row[4]) for row in rows])
    functions = signs[:, None] * np.concatenate([triangles(*row[:3]) for row in rows])
    # each with a largest entry of about 1
    heights = np.maximum(np.abs(functions).max(axis=1, initial=0.0), TINY)
    price = np.diag(diagonal) if curvature.is_absolute else form
    (cost,) = triangles(price, np.zeros((1, d)), np.zeros(1)) / size**2
    pairs = np.flatnonzero((at[0] != at[1]) & (at[1] < k))
    pairs = pairs if len(curvature.pairs[0]) else pairs[:0]
    q, p = len(heights), len(pairs)
    columns = np.zeros((len(root), q + p + 1))
    columns[:, :q] = (functions / heights[:, None]).T
    columns[pairs, q + np.arange(p)] = np.sqrt(2.0)
    columns[-1, -1] = -1.0
    weights, ratios = np.eye(q, q + p + 1), np.eye(p, q + p + 1, k=q)
    options = Clarabel.settings(effort, 1e-9)  # finer ones are reached by luck
    options.presolve_enable = options.chordal_decomposition_enable = False
    with translated("Clarabel"):
        result = clarabel.DefaultSolver(
            sparse.csc_matrix((q + p + 1,) * 2),
            -np.eye(q + p + 1)[-1],
            sparse.csc_matrix(np.vstack([-weights, ratios, -ratios, -columns])),
            np.concatenate([np.zeros(q), np.ones(2 * p), cost]),
            [clarabel.NonnegativeConeT(q + 2 * p), clarabel.PSDTriangleConeT(k + 1)],
            options,
        ).solve()
    empty = result.status in EMPTY
    if not empty and result.status not in Clarabel.SOLVED:
        return None
    # a little back from the edge of what is convex
    v = np.asarray(result.x) * (1.0 if empty else 1.0 - 1e-8)
    multipliers, positions = np.zeros(program.size), np.concatenate([row[3] for row in rows])
    placed = positions >= 0
    scaled = signs * np.maximum(v[:q], 0.0) / heights * size**2
    np.add.at(multipliers, positions[placed], scaled[placed])
    if p:
        full = np.zeros((d, d))
        full[tuple(free[side[pairs]] for side in at)] = v[q : q + p]
        multipliers[len(multipliers) - len(curvature.pairs[0]) :] = full[curvature.pairs]
    moments = np.asarray(result.z)[-len(root) :] / root
    delta = change @ moments[at[1] == k]  # X's border: the last column of an upper triangle
    return multipliers, x + (np.nan if empty else 1.0) * delta[:-1]
