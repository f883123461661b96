"""Training: rows, where it starts, what it minimises, and how: L-BFGS on analytic gradients.

It starts at the centres of k-means within each class. Neither rows nor starts depend on the order
of the rows or on how their labels are named. Prototypes and Ω move jointly.

The metric is the array Ω: empty for the Euclidean distance, (d,) if diagonal, (k, d) for one matrix
and (M, k, d) for several. A cost is a function of the distances of rows to prototypes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import OptimizeResult, minimize
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.cluster import kmeans_plusplus

from counterpoint.numerics import BoolArray, FloatArray, IntArray

Pull = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""From ∂loss/∂distances (n, P) to the gradients in the prototypes and in Ω."""
TrainingCost = Callable[[FloatArray, BoolArray, FloatArray], tuple[float, FloatArray]]
"""From distances (n, P), whether a prototype has the row's label (n, P), and weights (n,) of sum 1
to the cost and its slope ∂cost/∂distances."""


@final
@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Distinct weighted rows, class after class, centred and on a common scale."""

    x: FloatArray  # (n, d) (X − centre) / scale
    label: IntArray  # (n,) the class of each row, counted in the order of their first rows
    weight: FloatArray  # (n,) positive, of sum 1
    classes: IntArray  # (C,) the position in the caller's classes of each class
    centre: FloatArray  # (d,) the weighted mean, in feature units
    scale: float  # the root of the mean variance of the columns, in feature units; 1 if that is 0

    @classmethod
    def of(cls, X: FloatArray, label: IntArray, weight: FloatArray) -> TrainingRows:
        """Return rows (n, d) with a class 0 … C − 1 and a positive weight each, equal ones merged.

        They are sorted, and classes by their first rows: so training does not depend on the order
        of the rows or, unless equal rows are of several classes, on what the classes are called.
        """
        order = np.lexsort((weight, label, *X.T[::-1]))
        X, label, weight = X[order], label[order], weight[order]
        _, first, label = np.unique(label, return_index=True, return_inverse=True)
        classes = np.argsort(first)
        label = np.argsort(classes)[label]
        order = np.argsort(label, kind="stable")
        X, label, weight = X[order], label[order], weight[order]
        new = np.ones(len(X), dtype=bool)
        new[1:] = (X[1:] != X[:-1]).any(axis=1) | (label[1:] != label[:-1])
        starts = np.flatnonzero(new)
        X, label, weight = X[starts], label[starts], np.add.reduceat(weight, starts)
        weight = weight / weight.sum()
        centre = weight @ X
        X = X - centre
        scale = float(np.sqrt((weight @ (X * X)).mean())) or 1.0
        return cls(X / scale, label, weight, classes, centre, scale)


def starting_prototypes(
    rows: TrainingRows, counts: IntArray, random: np.random.RandomState
) -> tuple[FloatArray, IntArray]:
    """(P, d) k-means centres in each class, each from the same draws, and (P,) their classes."""
    seed = int(random.randint(np.iinfo(np.int32).max))
    ends = np.searchsorted(rows.label, np.arange(len(counts) + 1))
    starts = [
        centres(rows.x[a:b], rows.weight[a:b], int(count), np.random.RandomState(seed))
        for a, b, count in zip(ends[:-1], ends[1:], counts, strict=True)
    ]
    return np.vstack(starts), np.repeat(np.arange(len(counts)), counts)


def directions(
    rows: TrainingRows, prototypes: FloatArray, same: BoolArray, rank: int
) -> FloatArray:
    """Return the directions (rank, d) that tell prototypes apart best (discriminant analysis).

    ``same`` (n, P) is whether a row and a prototype are of one class.
    """
    width = prototypes.shape[1]
    if rank == width:
        return np.eye(width)
    nearest = np.where(same, cdist(rows.x, prototypes, "sqeuclidean"), np.inf).argmin(axis=1)
    apart = rows.x - prototypes[nearest]
    within = apart.T @ (rows.weight[:, None] * apart)
    shrinkage = 0.1  # of the scatter around prototypes, to the same in all directions
    floor = shrinkage * (within.trace() / width or 1.0)
    within = (1.0 - shrinkage) * within + floor * np.eye(width)
    _, vectors = eigh(prototypes.T @ prototypes / len(prototypes), within)
    return np.asarray(vectors[:, ::-1][:, :rank].T)


def centres(
    x: FloatArray, weight: FloatArray, count: int, random: np.random.RandomState
) -> FloatArray:
    """(count, d) centres of weighted k-means of distinct rows (n, d), n ≥ count."""
    # Not scikit-learn's `KMeans`: its sums depend on the order in which threads end.
    means, _ = kmeans_plusplus(x, count, sample_weight=weight, random_state=random)
    nearest = np.full(len(x), -1)
    for _ in range(20):  # it is a start, not the answer
        previous, nearest = nearest, cdist(x, means, "sqeuclidean").argmin(axis=1)
        if np.array_equal(previous, nearest):
            break
        share = (nearest == np.arange(count)[:, None]) * weight
        mass = share.sum(axis=1, keepdims=True)
        means = np.where(mass > 0.0, share @ x / np.where(mass > 0.0, mass, 1.0), means)
    return means


def squared_distances(
    x: FloatArray, prototypes: FloatArray, omega: FloatArray, which: IntArray
) -> tuple[FloatArray, Pull]:
    """Return squared distances (n, P), (x − p)′ Ω′Ω (x − p), and what gives their gradients.

    Of several matrices Ω, each prototype has the one at its position in ``which`` (P,).
    """
    if omega.ndim < 3:
        z, q = _mapped(x, omega), _mapped(prototypes, omega)
        return cdist(z, q, "sqeuclidean"), lambda slope: _pull(x, prototypes, z, q, omega, slope)
    values = np.empty((len(x), len(prototypes)))
    owned = [np.flatnonzero(which == m) for m in range(len(omega))]
    for p, matrix in zip(owned, omega, strict=True):
        values[:, p] = cdist(_mapped(x, matrix), _mapped(prototypes[p], matrix), "sqeuclidean")

    def pull(slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        places, matrices = np.empty_like(prototypes), np.empty_like(omega)
        for m, (p, matrix) in enumerate(zip(owned, omega, strict=True)):
            rows = np.flatnonzero(slope[:, p].any(axis=1))
            near, points = x[rows], prototypes[p]
            z, q = _mapped(near, matrix), _mapped(points, matrix)
            places[p], matrices[m] = _pull(near, points, z, q, matrix, slope[rows][:, p])
        return places, matrices

    return values, pull


def _mapped(x: FloatArray, omega: FloatArray) -> FloatArray:
    if not omega.size:
        return x
    return x * omega if omega.ndim == 1 else x @ omega.T


def _pull(
    x: FloatArray,
    prototypes: FloatArray,
    z: FloatArray,
    q: FloatArray,
    omega: FloatArray,
    slope: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """The gradients in the prototypes and in one Ω; z = Ω x and q = Ω p."""
    inward = slope.T @ z - slope.sum(axis=0)[:, None] * q
    if not omega.size:
        return -2.0 * inward, omega
    outward = slope.sum(axis=1)[:, None] * z - slope @ q
    if omega.ndim == 1:
        cost_inflation = (outward * x).sum(axis=0) - (inward * prototypes).sum(axis=0)
        return -2.0 * inward * omega, 2.0 * cost_inflation
    return -2.0 * inward @ omega, 2.0 * (outward.T @ x - inward.T @ prototypes)


def unit(omega: FloatArray) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
    """Ω scaled so that trace(Ω′Ω) = 1; and how a gradient in it goes back to the unscaled."""
    if not omega.size:
        return omega, lambda gradient: gradient
    axes = (-1,) if omega.ndim == 1 else (-2, -1)
    length = np.sqrt((omega * omega).sum(axis=axes, keepdims=True))
    scaled = omega / length

    def back(gradient: FloatArray) -> FloatArray:
        along = (scaled * gradient).sum(axis=axes, keepdims=True)
        return (gradient - scaled * along) / length

    return scaled, back


def degeneracy(omega: FloatArray) -> tuple[float, FloatArray]:
    """−log det(k ΩΩ′) / k, from 0 to infinity, and its gradient; the mean of several Ω."""
    if omega.ndim == 1:
        k = len(omega)
        return -float(np.log(k * omega * omega).mean()), -2.0 / (k * omega)
    k, many = omega.shape[-2], int(np.prod(omega.shape[:-2]))
    gram = k * omega @ np.swapaxes(omega, -1, -2)
    value = -np.linalg.slogdet(gram)[1] / k
    return float(np.mean(value)), -2.0 * np.linalg.solve(gram, omega) / many


def relative_distance(steepness: float | None) -> TrainingCost:
    """Return the cost of generalized learning vector quantization (Sato & Yamada, 1996).

    It is the weighted mean of f((d⁺ − d⁻) / (d⁺ + d⁻)), with d⁺ the distance of a row to the
    nearest prototype of its label, and d⁻ that to the nearest of any other. f is the sigmoid of
    this ``steepness``; None makes it the identity.
    """

    def cost(
        distances: FloatArray, same: BoolArray, weight: FloatArray
    ) -> tuple[float, FloatArray]:
        rows = np.arange(len(distances))
        nearest_same = np.where(same, distances, np.inf).argmin(axis=1)
        nearest_other = np.where(same, np.inf, distances).argmin(axis=1)
        plus, minus = distances[rows, nearest_same], distances[rows, nearest_other]
        # Both are 0 for a row at two prototypes. To any other row the constant hardly matters: rows
        # are scaled to a mean variance of 1.
        total = plus + minus + 1e-12
        quotient = (plus - minus) / total
        value, derivative = quotient, np.ones_like(quotient)
        if steepness is not None:
            value = expit(steepness * quotient)
            derivative = steepness * value * (1.0 - value)
        # The quotient changes by (1 − quotient) / total with d⁺, and −(1 + quotient) / total with
        # d⁻; no other distance matters.
        factor = weight * derivative / total
        slope = np.zeros_like(distances)
        slope[rows, nearest_same] = factor * (1.0 - quotient)
        slope[rows, nearest_other] = -factor * (1.0 + quotient)
        return float(weight @ value), slope

    return cost


def likelihood_ratio(spread: float) -> TrainingCost:
    """Mean of −log(p(x, y) / p(x)), p(x) = Σ_j exp(−d_j / (2 spread)) (Seo & Obermayer, 2003)."""

    def cost(
        distances: FloatArray, same: BoolArray, weight: FloatArray
    ) -> tuple[float, FloatArray]:
        exponent = distances / (-2.0 * spread)
        own = np.where(same, exponent, -np.inf)
        every, right = (np.logaddexp.reduce(e, axis=1, keepdims=True) for e in (exponent, own))
        slope = np.exp(own - right) - np.exp(exponent - every)
        return float(weight @ (every - right)[:, 0]), slope * (weight / (2.0 * spread))[:, None]

    return cost


@final
@dataclass(frozen=True, eq=False)
class Training:
    """A function of one vector: the prototypes, and Ω up to a factor, both of order 1."""

    rows: TrainingRows
    prototypes: FloatArray  # (P, d) to start from, class after class
    owner: IntArray  # (P,) the class of each
    same: BoolArray  # (n, P): whether the prototype has the label of the row
    omega: FloatArray  # Ω to start from
    which: IntArray  # (P,) the matrix of each prototype, where there are several
    cost: TrainingCost
    regularization: float = 0.0  # the weight of the degeneracy of Ω
    anchor: float = 0.0  # that of ½ mean (p − start)², in units of the mean variance

    @property
    def first(self) -> FloatArray:
        """(P d + size of Ω,) the vector to start from."""
        return np.concatenate([self.prototypes.ravel(), self.omega.ravel()])

    def split(self, vector: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The prototypes (P, d) and Ω, not yet scaled."""
        prototypes, omega = np.split(vector, [self.prototypes.size])
        return prototypes.reshape(self.prototypes.shape), omega.reshape(self.omega.shape)

    def loss(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """The loss and its gradient."""
        prototypes, raw = self.split(vector)
        omega, scaled_slope = unit(raw)
        distances, pull = squared_distances(self.rows.x, prototypes, omega, self.which)
        value, slope = self.cost(distances, self.same, self.rows.weight)
        places, matrices = pull(slope)
        if self.regularization:
            penalty, away = degeneracy(omega)
            value += self.regularization * penalty
            matrices = matrices + self.regularization * away
        if self.anchor:
            moved = prototypes - self.prototypes
            value += 0.5 * self.anchor * float((moved * moved).mean())
            places = places + self.anchor / moved.size * moved
        return value, np.concatenate([places.ravel(), scaled_slope(matrices).ravel()])

    def minimised(self, max_iter: int, tol: float) -> OptimizeResult:
        """Where an iteration lowers the loss by less than ``tol``, or no slope is larger."""
        limits = {"maxiter": max_iter, "maxfun": np.inf, "ftol": tol, "gtol": tol}
        return minimize(self.loss, self.first, jac=True, method="L-BFGS-B", options=limits)
