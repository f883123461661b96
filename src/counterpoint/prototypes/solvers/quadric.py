"""One quadratic condition at a time, in closed form but for one root, for whole batches.

The nearest point that meets a single condition e(y) = ‖F y + f‖² − ‖H y + h‖² − limit <= 0 is known
exactly, convex or not (the S-lemma): in the metric of the price, and along the axes of the
condition's curvature, e(x + ζ) = Σ q_k ζ_k² + 2 Σ β_k ζ_k + c, and the nearest point has

    ζ_k = −β_k / (μ + q_k)    with    ψ(μ) = c − Σ β_k² (2μ + q_k) / (μ + q_k)² = 0,

where 1/μ is the multiplier and μ > max(−q): ψ rises there. For each row the condition that asks
for most is met. That is a relaxation, so its price bounds all others from below; where the point
happens to meet the other conditions too, it is the optimum. An absolute price is bounded through
its square, Σ w² δ², and its points are no optima.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, NamedTuple, final

import numpy as np

from counterpoint.caches import Memo
from counterpoint.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Cone, LinearBounds
from counterpoint.engine.domains import AtMost, Box, OneOf, Transitions, Whole
from counterpoint.engine.program import Program
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray
from counterpoint.prototypes.nearer import Curvature, Nearer, curvature_of
from counterpoint.solvers.base import Effort, Outcome, Solution, Solver

__all__ = ["Quadric"]

EXACT = 2.0 * EPS
"""A relative change of a logarithm at which its root is found."""
CLOSEST = 1e-14
"""How close to the pole the root is looked for, relative to the curvatures."""
CANCELLED = 64.0 * EPS
"""What is left of a sum that cancels, relative to the size of its terms."""
BACK = 1e-10
"""By how much, relatively, a multiplier keeps off the pole, so that its Lagrangian is convex."""


@final
class Nearest(NamedTuple):
    """What single conditions say of some rows."""

    # (n, d) the nearest points that meet the condition which asks for most; NaN without one
    points: FloatArray
    multipliers: FloatArray  # (n, J) not 0 for that condition alone
    empty: BoolArray  # (n,): whether a condition holds no point at all


@final
@dataclass(frozen=True, eq=False)
class Quadric(Solver):
    """The S-lemma for one condition; complete only where one condition decides."""

    accepts: ClassVar[frozenset[type]] = frozenset(
        {Manhattan, SquaredEuclidean, Mahalanobis, Box, LinearBounds, Cone, Nearer}
        | {Whole, OneOf, Transitions, AtMost}
    )
    accuracy: ClassVar[float] = 1e-9
    complete: ClassVar[bool] = False
    batched: ClassVar[bool] = True

    @classmethod
    def takes(cls, program: Program) -> bool:
        return program.kinds <= cls.accepts and bool(program.nonconvex)

    @cached_property
    def curvature(self) -> Curvature:
        """Its quadratic conditions."""
        return curvature_of(self.program)

    @cached_property
    def _axes(self) -> Memo[bytes, tuple[FloatArray, FloatArray]]:
        return Memo()

    def solve(self, cases: Cases, effort: Effort, cutoff: FloatArray | None = None) -> Solution:
        out, nearest = Solution.blank(len(cases.x), self.program), self.nearest(cases)
        at = self.program.convex_size
        out.multipliers[:, at : at + len(self.curvature.quadrics.limits)] = nearest.multipliers
        met = self.curvature.meets(nearest.points, cases)
        out.points[met] = nearest.points[met]
        out.outcomes[met] = Outcome.FOUND
        out.outcomes[nearest.empty | cases.empty] = Outcome.INFEASIBLE
        return out

    def nearest(self, cases: Cases) -> Nearest:
        """For each row the nearest point that meets the condition which asks for most."""
        points, weights = (
            np.array(cases.x),
            np.zeros((len(cases.x), len(self.curvature.quadrics.limits))),
        )
        out = Nearest(points, weights, np.zeros(len(cases.x), dtype=bool))
        movable = cases.low < cases.high
        movable |= (cases.low != cases.x) & ~cases.empty[:, None]  # a relaxation where it must move
        kinds, which = np.unique(movable, axis=0, return_inverse=True)
        for number, mask in enumerate(kinds):
            if mask.any():
                rows = np.flatnonzero(which.ravel() == number)
                axes = self._axes.get(mask.tobytes(), partial(self._along, mask))
                part = cases.take(rows) if len(kinds) > 1 else cases
                self._solve(axes, part, rows, out)
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
        self, along: tuple[FloatArray, FloatArray], cases: Cases, rows: IntArray, out: Nearest
    ) -> None:
        """Write the nearest points of these rows."""
        quadrics, (q, axes) = self.curvature.quadrics, along
        c = quadrics.missed(cases.x, cases.margin)
        near, far = quadrics.gradients(cases.x)
        beta = 0.5 * np.einsum("njd,jdk->njk", near - far, axes)
        noise = 0.5 * np.einsum("njd,jdk->njk", np.abs(near) + np.abs(far), np.abs(axes))
        beta = np.where(np.abs(beta) <= CANCELLED * noise, 0.0, beta)
        root = Root.find(np.broadcast_to(q, beta.shape), beta, c)
        price = np.where(c > 0.0, root.price, 0.0)
        worst = price.argmax(axis=1)
        worst_of = np.arange(len(cases.x)), worst
        empty, missed = np.isinf(price[worst_of]), price[worst_of] > 0.0
        step = np.einsum("ndk,nk->nd", axes[worst], root.steps[worst_of])
        out.points[rows] += np.where(missed[:, None], step, 0.0)
        out.points[rows[empty]] = np.nan
        out.multipliers[rows, worst] = np.where(missed, root.multipliers[worst_of], 0.0)
        out.empty[rows] = empty


@final
class Root(NamedTuple):
    """The nearest points ζ with Σ q ζ² + 2 Σ β ζ + c <= 0, for c > 0."""

    steps: FloatArray  # (n, J, k) ζ
    multipliers: FloatArray  # (n, J) 1/μ, which bound the price
    price: FloatArray  # (n, J) about ‖ζ‖²; infinite where there is no such ζ

    @classmethod
    def find(cls, q: FloatArray, beta: FloatArray, c: FloatArray) -> Root:
        """Newton's method between logarithms, of μ's distance from the pole and of c − ψ.

        These are nearly proportional, near the pole and far from it. A pair whose root is found
        stays, so that no answer depends on what else is in the batch.

        ``q``, ``beta``: (n, J, k); ``c``: (n, J); where it is not positive, what comes out has no
        meaning.
        """
        size = np.abs(q).max(axis=2)
        size = np.where(size > 0.0, size, 1.0)
        pole = np.maximum(-q.min(axis=2), 0.0)
        squares = beta * beta
        with np.errstate(all="ignore"):
            first = 2.0 * squares.sum(axis=2) / c
            near, far = np.log(CLOSEST * size), np.log(8.0 * (first + size))
            end, at = near, np.log(np.maximum(np.sqrt(0.5 * first * pole), first))
            found = ~(c > 0.0)
            for _ in range(100):
                at = np.where(found, at, np.clip(at, near, far))
                distance = np.exp(at)
                apart = distance[:, :, None] + (q + pole[:, :, None])
                terms = squares / (apart * apart)
                mu = pole + distance
                reach = (terms * (apart + mu[:, :, None])).sum(axis=2)
                near, far = np.where(reach > c, at, near), np.where(reach < c, at, far)
                fall = 2.0 * mu * (terms / apart).sum(axis=2) * distance / reach
                newton = at + np.log(reach / c) / fall
                middle = np.where(newton <= end, end, 0.5 * (near + far))
                following = np.where((newton > near) & (newton < far), newton, middle)
                still = np.abs(following - at) <= EXACT * np.abs(at)
                found |= still | (reach == c) | ((at == end) & (reach < c))
                if found.all():
                    break
                at = np.where(found, at, following)
        return cls._at(q, beta, c, pole, at)

    @classmethod
    def _at(
        cls, q: FloatArray, beta: FloatArray, c: FloatArray, pole: FloatArray, at: FloatArray
    ) -> Root:
        """What follows from the logarithm of μ's distance from the pole."""
        with np.errstate(all="ignore"):
            distance = np.exp(at)
            mu = pole + distance
            steps = -beta / (distance[:, :, None] + (q + pole[:, :, None]))
            left = c + ((q * steps + 2.0 * beta) * steps).sum(axis=2)
            hard = (distance <= 2.0 * CLOSEST * np.abs(q).max(axis=2)) & (left > 0.0)
            # The hard case: any point along the steepest axis that makes up for what is left.
            more = np.where(hard & (pole > 0.0), np.sqrt(left / pole), 0.0)
            lowest = q.argmin(axis=2)[:, :, None]
            steep = np.take_along_axis(steps, lowest, axis=2)
            np.put_along_axis(steps, lowest, steep + more[:, :, None], axis=2)
            # What rounding of μ leaves of the excess, taken away along its slope.
            left = c + ((q * steps + 2.0 * beta) * steps).sum(axis=2)
            slope = q * steps + beta
            steps = steps - slope * (0.5 * left / (slope * slope).sum(axis=2))[:, :, None]
            multipliers = 1.0 / np.maximum(mu, pole * (1.0 + BACK))
            reach = np.where(beta == 0.0, 0.0, np.where(q > 0.0, beta * beta / q, np.inf))
            empty = (pole == 0.0) & (c > reach.sum(axis=2))
            multipliers = np.where(empty, 1.0 / np.maximum(np.abs(q).max(axis=2), 1.0), multipliers)
            price = np.where(empty, np.inf, (steps * steps).sum(axis=2))
        return cls(np.nan_to_num(steps), np.nan_to_num(multipliers), price)
