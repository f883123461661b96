"""Solve relaxations of quadratic conditions: to one of them (S-lemma), or convex ones (Shor).

The nearest point that meets a single condition e(y) = ‖F y + f‖² − ‖H y + h‖² − limit <= 0 is known
exactly, convex or not: in the metric of the cost, and along the axes of the condition's curvature,
e(x + ζ) = Σ q_k ζ_k² + 2 Σ β_k ζ_k + c, and the nearest point has

    ζ_k = −β_k / (μ + q_k)    with    ψ(μ) = c − Σ β_k² (2μ + q_k) / (μ + q_k)² = 0,

where 1/μ is the multiplier and μ > pole = max(−q): ψ rises there. For each row the condition whose
nearest point costs most is taken. That is a relaxation, so its cost is a lower bound; where the
point happens to meet the other conditions too, it is the optimum. An absolute cost is bounded
through its square, Σ w² δ², and its points are no optima.

Over multipliers λ >= 0 of the quadratic conditions, μ of the linear rows and of bounds, and for an
absolute cost ratios |r_ij| <= 1 of pairs of columns
(see `counterpoint.families.prototypes.quadratic_difference`),
Shor's relaxation is

    maximise γ  subject to  [[P(r) + Σ λ_j Q_j, b/2], [bᵀ/2, c − γ]]  positive semidefinite

where P is the form of the cost, and c and b are the value and the slope at x of Σ λ_j e_j and of
the rows. Its dual holds a change δ and a matrix X in the place of δδᵀ: where X is that, δ is the
optimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, NamedTuple, final

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
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver, translated
from counterpoint.solvers.clarabel import Clarabel

EMPTY = (clarabel.SolverStatus.DualInfeasible, clarabel.SolverStatus.AlmostDualInfeasible)
CLOSEST = 1e-14
"""How close to the pole the root of ψ is looked for, relative to the curvatures."""


@final
@dataclass(frozen=True, eq=False)
class Quadric(Solver):
    """The nearest point that meets the most demanding condition (S-lemma).

    It is the optimum only if it meets all other conditions as well.
    """

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
        """The bound, with the quadratic conditions."""
        return curvature_of(self.program)

    @cached_property
    def _axes(self) -> Memo[bytes, tuple[FloatArray, FloatArray]]:
        return Memo()

    def solve(self, cases: Batch, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        solution = Solution.blank(len(cases.x), self.program)
        points, multipliers, empty = self.nearest(cases)
        position = self.program.size - self.curvature.size
        solution.multipliers[:, position : position + multipliers.shape[1]] = multipliers
        satisfied = self.curvature.meets(points, cases)
        solution.points[satisfied] = points[satisfied]
        solution.outcomes[satisfied] = Outcome.FOUND
        solution.outcomes[empty | cases.empty] = Outcome.INFEASIBLE
        return solution

    def nearest(self, cases: Batch) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return each row's nearest point that meets its most demanding condition.

        The points are (n, d), NaN without one; then come multipliers (n, J), of which only that of
        the condition is not 0, and (n,) whether the condition holds no point at all. Rows with the
        same movable columns are solved together.
        """
        shape = len(cases.x), len(self.curvature.quadrics)
        results = np.array(cases.x), np.zeros(shape), np.zeros(len(cases.x), dtype=bool)
        movable = cases.low < cases.high
        # A column that has to move is let move freely: that is a relaxation.
        movable |= (cases.low != cases.x) & ~cases.empty[:, None]
        masks, mask_of = np.unique(movable, axis=0, return_inverse=True)
        for number, mask in enumerate(masks):
            if mask.any():
                rows = np.flatnonzero(mask_of.ravel() == number)
                axes = self._axes.made(mask.tobytes(), partial(self._principal_axes, mask))
                same_columns = cases.take(rows) if len(masks) > 1 else cases
                for array, values in zip(results, self._nearest(*axes, same_columns), strict=True):
                    array[rows] = values
        return results

    def _principal_axes(self, movable: BoolArray) -> tuple[FloatArray, FloatArray]:
        """(J, k) q of each condition over the k columns that can move, and (J, d, k) its axes."""
        quadrics, form = self.curvature.quadrics, self.curvature.form
        if self.curvature.is_absolute:
            form = np.diag(np.diag(form))
        # (d, k) the changes U ζ that cost ‖ζ‖²
        metric = np.zeros((len(movable), int(movable.sum())))
        root = np.linalg.cholesky(form[np.ix_(movable, movable)])
        metric[movable] = np.linalg.inv(root).T
        q, vectors = np.linalg.eigh(metric.T @ quadrics.forms @ metric)
        size = np.abs(metric).T @ quadrics.sizes @ np.abs(metric)
        return _without_rounding(q, size.max(axis=(1, 2))[:, None]), np.asarray(metric @ vectors)

    def _nearest(
        self, q: FloatArray, axes: FloatArray, cases: Batch
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """`nearest` for rows with the same columns that can move, along their principal axes.

        With changes axes_j ζ of cost ‖ζ‖², the excess of condition j is Σ q ζ² + 2 Σ β ζ + c.
        """
        quadrics = self.curvature.quadrics
        c = quadrics.excess(cases.x, cases.margin)  # (n, J)
        slopes, sizes = quadrics.slopes_with_sizes(cases.x)
        beta = 0.5 * np.einsum("njd,jdk->njk", slopes, axes)
        beta = _without_rounding(beta, 0.5 * np.einsum("njd,jdk->njk", sizes, np.abs(axes)))
        zeta, multipliers, cost = _nearest_on_quadrics(np.broadcast_to(q, beta.shape), beta, c)
        cost = np.where(c > 0.0, cost, 0.0)  # a condition that is met already costs nothing
        dearest = cost.argmax(axis=1)
        chosen = np.arange(len(cases.x)), dearest
        empty, missed = np.isinf(cost[chosen]), cost[chosen] > 0.0
        change = np.einsum("ndk,nk->nd", axes[dearest], zeta[chosen])
        points = cases.x + np.where(missed[:, None], change, 0.0)
        points[empty] = np.nan
        weights = np.zeros(c.shape)
        weights[chosen] = np.where(missed, multipliers[chosen], 0.0)
        return points, weights, empty


def _without_rounding(values: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return sums with 0 for those that may be rounding, given the sizes of their terms."""
    return np.where(np.abs(values) <= 64.0 * EPS * sizes, 0.0, values)


def _nearest_on_quadrics(
    q: FloatArray, beta: FloatArray, c: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the nearest ζ (n, J, k) with Σ q ζ² + 2 Σ β ζ + c <= 0, for c > 0.

    Then come the multipliers 1/μ (n, J), and about ‖ζ‖² (n, J), infinite without such a ζ. ``q``
    and ``beta`` are (n, J, k), ``c`` is (n, J); where it is not positive, results mean nothing.

    This is ζ = −β / (μ + q) at the root μ > pole of ψ(μ), the left side for this ζ, see the top of
    this file. Very near the pole μ + q would round to 0, so it is computed as (μ − pole) +
    (pole + q).
    """
    pole = np.maximum(-q.min(axis=2), 0.0)
    with np.errstate(all="ignore"):
        distance = np.exp(_log_distance(q, beta, c, pole))
        mu = pole + distance
        zeta = -beta / (distance[:, :, None] + (q + pole[:, :, None]))
        excess = c + ((q * zeta + 2.0 * beta) * zeta).sum(axis=2)
        # The hard case: β is 0 along the axis of the pole, so ψ has no root beyond it; μ is the
        # pole then, and ζ may take any value along this axis that makes the excess 0.
        is_hard = (distance <= 2.0 * CLOSEST * np.abs(q).max(axis=2)) & (excess > 0.0)
        shift = np.where(is_hard & (pole > 0.0), np.sqrt(excess / pole), 0.0)
        pole_axis = q.argmin(axis=2)[:, :, None]
        along_pole = np.take_along_axis(zeta, pole_axis, axis=2)
        np.put_along_axis(zeta, pole_axis, along_pole + shift[:, :, None], axis=2)
        # The rounding of μ leaves an excess: a Newton step along its slope takes it away.
        excess = c + ((q * zeta + 2.0 * beta) * zeta).sum(axis=2)
        slope = q * zeta + beta
        zeta = zeta - slope * (0.5 * excess / (slope * slope).sum(axis=2))[:, :, None]
        # A little off the pole the Lagrangian is convex, whatever rounding does.
        multipliers = 1.0 / np.maximum(mu, pole * (1.0 + 1e-10))
        # A convex condition falls to c − Σ β² / q at the least; it is empty if that is positive.
        largest_fall = np.where(beta == 0.0, 0.0, np.where(q > 0.0, beta * beta / q, np.inf))
        empty = (pole == 0.0) & (c > largest_fall.sum(axis=2))
        multipliers = np.where(empty, 1.0 / np.maximum(np.abs(q).max(axis=2), 1.0), multipliers)
        cost = np.where(empty, np.inf, (zeta * zeta).sum(axis=2))
    return np.nan_to_num(zeta), np.nan_to_num(multipliers), cost


def _log_distance(q: FloatArray, beta: FloatArray, c: FloatArray, pole: FloatArray) -> FloatArray:
    """(n, J) the logarithm of μ − pole at the root of ψ.

    The root is where the gain c − ψ is c. By Newton's method between logarithms, of μ's distance
    from the pole and of the gain, which are nearly proportional both near the pole and far from it;
    by bisection where a step leaves the interval that holds the root. A pair whose root is found
    stays, so that no answer depends on what else is in the batch.
    """
    size = np.abs(q).max(axis=2)
    size = np.where(size > 0.0, size, 1.0)
    squares = beta * beta
    far_root = 2.0 * squares.sum(axis=2) / c  # that of ψ where all q are small next to μ
    near_root = np.sqrt(0.5 * far_root * pole)  # where the pole's axis alone counts, with all of β
    # From ``high`` on the gain is less than c.
    low, high = np.log(CLOSEST * size), np.log(8.0 * (far_root + size))
    closest = low
    log_distance = np.log(np.maximum(near_root, far_root))
    converged = ~(c > 0.0)
    for _ in range(100):
        log_distance = np.where(converged, log_distance, np.clip(log_distance, low, high))
        distance = np.exp(log_distance)
        mu, mu_plus_q = pole + distance, distance[:, :, None] + (q + pole[:, :, None])
        terms = squares / (mu_plus_q * mu_plus_q)
        gain = (terms * (mu_plus_q + mu[:, :, None])).sum(axis=2)
        low, high = np.where(gain > c, log_distance, low), np.where(gain < c, log_distance, high)
        # Minus the derivative of log(gain) by the logarithm of the distance.
        log_slope = 2.0 * mu * (terms / mu_plus_q).sum(axis=2) * distance / gain
        newton = log_distance + np.log(gain / c) / log_slope
        fallback = np.where(newton <= closest, closest, 0.5 * (low + high))
        following = np.where((newton > low) & (newton < high), newton, fallback)
        is_still = np.abs(following - log_distance) <= 2.0 * EPS * np.abs(log_distance)
        converged |= is_still | (gain == c) | ((log_distance == closest) & (gain < c))
        if converged.all():
            break
        log_distance = np.where(converged, log_distance, following)
    return np.asarray(log_distance)


@final
class Inequalities(NamedTuple):
    """sign · (δᵀ(form)δ + slope · δ + value) <= 0, for m functions of a change δ = y − x."""

    forms: ArrayLike  # (m, d, d); 0 for linear functions
    slopes: FloatArray  # (m, d)
    values: FloatArray  # (m,)
    positions: IntArray  # (m,) of their multipliers in the program; −1 where its bound needs none
    sign: float


def _inequalities(program: Program, case: Batch) -> Iterator[Inequalities]:
    """Yield what all changes of one row meet, without what is integral, if some column can move."""
    curvature, affine, domain = curvature_of(program), program.affine, program.domain
    quadrics, x, low, high = curvature.quadrics, case.x[0], case.low[0], case.high[0]
    free, eye = low < high, np.eye(program.width)
    excess, slopes = quadrics.excess(case.x, case.margin)[0], quadrics.slopes(case.x)[0]
    first_lambda = program.size - curvature.size  # the order of multipliers: see `Curvature`
    positions = first_lambda + np.arange(len(quadrics))
    yield Inequalities(quadrics.forms, slopes, excess, positions, 1.0)
    # (y − low)(y − high) <= 0; in one-hot columns an equation, which is two inequalities
    first_tau, bounded, numeric = first_lambda + len(quadrics), curvature.bounded, domain.numeric
    for sign, movable in ((1.0, free), (-1.0, free & ~numeric)):
        used = np.flatnonzero(movable[bounded])
        columns = bounded[used]
        above_low = x[columns] - np.where(numeric, low, 0.0)[columns]
        above_high = x[columns] - np.where(numeric, high, 1.0)[columns]
        units = eye[columns]
        forms = units[:, :, None] * units[:, None, :]
        slopes = units * (above_low + above_high)[:, None]
        yield Inequalities(forms, slopes, above_low * above_high, first_tau + used, sign)
    # Linear rows; and bounds and sums of one-hot blocks, for which the domain needs no multipliers.
    sums = np.array([eye[group].sum(axis=0) for group in domain.groups]).reshape(-1, len(x))
    matrix, ones = np.vstack([affine.matrix, eye, sums]), np.ones(len(sums))
    positions = np.append(np.arange(affine.size), np.full(len(matrix) - affine.size, -1))
    row_low, row_high = (limit[0] for limit in affine.limits(case.margin))
    for sign, limits in ((1.0, (row_high, high, ones)), (-1.0, (row_low, low, ones))):
        limit = np.concatenate(limits)
        used = np.isfinite(limit) & matrix[:, free].any(axis=1)
        excess = (matrix @ x - limit)[used]
        yield Inequalities(0.0, matrix[used], excess, positions[used], sign)


def relaxed(
    program: Program, case: Batch, size: float, effort: Effort
) -> tuple[FloatArray, FloatArray] | None:
    """Solve Shor's relaxation for one row, without what is integral; None if that fails.

    Returns multipliers (program.size,), which bound the cost or refute the program, and the point
    x + δ (d,), NaN if the relaxation has none. ``size`` is about the root of the answer's cost; of
    its square, if that is absolute.
    """
    curvature, d = curvature_of(program), program.width
    x, low, high = case.x[0], case.low[0], case.high[0]
    form, free = curvature.form, np.flatnonzero(low < high)
    k, diagonal = len(free), np.diag(form)
    # (δ, 1) = change (u, 1), where u are the changes of free columns, in units that cost size²
    change = np.zeros((d + 1, k + 1))
    change[free, np.arange(k)] = size / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)[free])
    change[:d, k] = np.where(low == high, low - x, 0.0)
    change[d, k] = 1.0
    # Clarabel takes symmetric matrices as upper triangles, column by column, with entries beside
    # the diagonal times √2.
    triangle = np.tril_indices(k + 1)[::-1]
    root = np.where(triangle[0] == triangle[1], 1.0, np.sqrt(2.0))

    def triangles(forms: ArrayLike, slopes: FloatArray, values: FloatArray) -> FloatArray:
        """(m, …) quadratic functions of δ, as the triangles of matrices over (u, 1)."""
        full = np.zeros((len(values), d + 1, d + 1))
        full[:, :d, :d] = forms
        full[:, :d, d] = full[:, d, :d] = 0.5 * slopes
        full[:, d, d] = values
        return np.asarray((change.T @ full @ change)[:, *triangle] * root)

    groups = [*_inequalities(program, case)]
    signs = np.concatenate([np.full(len(group.values), group.sign) for group in groups])
    positions = np.concatenate([group.positions for group in groups])
    functions = np.concatenate([triangles(*group[:3]) for group in groups])
    functions = signs[:, None] * functions
    heights = np.maximum(np.abs(functions).max(axis=1, initial=0.0), TINY)
    without_ratios = np.diag(diagonal) if curvature.is_absolute else form
    (cost,) = triangles(without_ratios, np.zeros((1, d)), np.zeros(1)) / size**2
    pairs = np.flatnonzero((triangle[0] != triangle[1]) & (triangle[1] < k))
    pairs = pairs if len(curvature.pairs[0]) else pairs[:0]
    # Variables: q multipliers, each of a function with a largest entry of 1; p ratios; γ.
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
    is_empty = result.status in EMPTY
    if not is_empty and result.status not in Clarabel.SOLVED:
        return None
    # a little back from the edge of what is convex
    solution = np.asarray(result.x) * (1.0 if is_empty else 1.0 - 1e-8)
    multipliers, placed = np.zeros(program.size), positions >= 0
    scaled = signs * np.maximum(solution[:q], 0.0) / heights * size**2
    np.add.at(multipliers, positions[placed], scaled[placed])
    if p:
        full = np.zeros((d, d))
        full[tuple(free[side[pairs]] for side in triangle)] = solution[q : q + p]
        multipliers[len(multipliers) - len(curvature.pairs[0]) :] = full[curvature.pairs]
    # The dual matrix is (X, δ; δᵀ, 1) over (u, 1): its last column is δ.
    moments = np.asarray(result.z)[-len(root) :] / root
    delta = change @ moments[triangle[1] == k]
    return multipliers, x + (np.nan if is_empty else 1.0) * delta[:-1]
