"""Train prototypes and their metric jointly, by L-BFGS on analytic gradients.

Training starts at the centres of k-means within each class. Neither rows nor starts depend on the
order of the rows or on how their labels are named.

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

ChainRule = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""From ∂loss/∂distances (n, P) to the gradients of the loss in the prototypes and in Ω."""
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
        # Count the classes anew, in the order of their first rows.
        _, first_rows, label = np.unique(label, return_index=True, return_inverse=True)
        classes = np.argsort(first_rows)
        label = np.argsort(classes)[label]
        order = np.argsort(label, kind="stable")
        X, label, weight = X[order], label[order], weight[order]
        # Equal rows of a class are neighbours now.
        differs = np.ones(len(X), dtype=bool)
        differs[1:] = (X[1:] != X[:-1]).any(axis=1) | (label[1:] != label[:-1])
        starts = np.flatnonzero(differs)
        X, label, weight = X[starts], label[starts], np.add.reduceat(weight, starts)
        weight = weight / weight.sum()
        centre = weight @ X
        X = X - centre
        scale = float(np.sqrt((weight @ (X * X)).mean())) or 1.0
        return cls(X / scale, label, weight, classes, centre, scale)


def starting_prototypes(
    rows: TrainingRows, counts: IntArray, random: np.random.RandomState
) -> tuple[FloatArray, IntArray]:
    """Return the centres (P, d) of k-means in each class, and their classes (P,).

    Each class gets the same random numbers, so that its start does not depend on other classes.
    """
    seed = int(random.randint(np.iinfo(np.int32).max))
    ends = np.searchsorted(rows.label, np.arange(len(counts) + 1))
    starts = [
        centres(rows.x[a:b], rows.weight[a:b], int(count), np.random.RandomState(seed))
        for a, b, count in zip(ends[:-1], ends[1:], counts, strict=True)
    ]
    return np.vstack(starts), np.repeat(np.arange(len(counts)), counts)


def discriminant_directions(
    rows: TrainingRows, prototypes: FloatArray, same: BoolArray, rank: int
) -> FloatArray:
    """Return the directions (rank, d) that tell prototypes apart best (discriminant analysis).

    Along them prototypes scatter most, relative to how rows scatter about their own prototype.
    ``same`` (n, P) is whether a row and a prototype are of one class.
    """
    width = prototypes.shape[1]
    if rank == width:
        return np.eye(width)
    nearest = np.where(same, cdist(rows.x, prototypes, "sqeuclidean"), np.inf).argmin(axis=1)
    differences = rows.x - prototypes[nearest]
    scatter = differences.T @ (rows.weight[:, None] * differences)
    # Shrunk towards the same scatter in all directions, so that it has an inverse.
    shrinkage = 0.1
    floor = shrinkage * (scatter.trace() / width or 1.0)
    scatter = (1.0 - shrinkage) * scatter + floor * np.eye(width)
    _, vectors = eigh(prototypes.T @ prototypes / len(prototypes), scatter)
    return np.asarray(vectors[:, ::-1][:, :rank].T)


def centres(
    x: FloatArray, weight: FloatArray, count: int, random: np.random.RandomState
) -> FloatArray:
    """Return the centres (count, d) of weighted k-means of distinct rows (n, d), n >= count."""
    # Not scikit-learn's `KMeans`: its sums depend on the order in which threads end.
    means, _ = kmeans_plusplus(x, count, sample_weight=weight, random_state=random)
    nearest = np.full(len(x), -1)
    for _ in range(20):  # it is a start, not the answer
        previous, nearest = nearest, cdist(x, means, "sqeuclidean").argmin(axis=1)
        if np.array_equal(previous, nearest):
            break
        member_weight = (nearest == np.arange(count)[:, None]) * weight  # (count, n)
        mass = member_weight.sum(axis=1, keepdims=True)
        new_means = member_weight @ x / np.where(mass > 0.0, mass, 1.0)
        means = np.where(mass > 0.0, new_means, means)  # a mean without rows stays
    return means


def squared_distances(
    x: FloatArray, prototypes: FloatArray, omega: FloatArray, matrix_of: IntArray
) -> tuple[FloatArray, ChainRule]:
    """Return squared distances (n, P), (x − p)′ Ω′Ω (x − p), and their chain rule.

    Of several matrices Ω, each prototype has the one at its position in ``matrix_of`` (P,).
    """
    if omega.ndim < 3:
        z, q = _mapped(x, omega), _mapped(prototypes, omega)
        distances = cdist(z, q, "sqeuclidean")
        return distances, lambda slope: _gradients(x, prototypes, z, q, omega, slope)
    distances = np.empty((len(x), len(prototypes)))
    members = [np.flatnonzero(matrix_of == m) for m in range(len(omega))]
    for p, matrix in zip(members, omega, strict=True):
        distances[:, p] = cdist(_mapped(x, matrix), _mapped(prototypes[p], matrix), "sqeuclidean")

    def chain_rule(slope: FloatArray) -> tuple[FloatArray, FloatArray]:
        in_prototypes, in_omega = np.empty_like(prototypes), np.empty_like(omega)
        for m, (p, matrix) in enumerate(zip(members, omega, strict=True)):
            # With relative distances only rows to which one of these is nearest have a slope.
            rows = np.flatnonzero(slope[:, p].any(axis=1))
            z, q = _mapped(x[rows], matrix), _mapped(prototypes[p], matrix)
            arrays = x[rows], prototypes[p], z, q, matrix, slope[rows][:, p]
            in_prototypes[p], in_omega[m] = _gradients(*arrays)
        return in_prototypes, in_omega

    return distances, chain_rule


def _mapped(x: FloatArray, omega: FloatArray) -> FloatArray:
    """(n, k) Ω x for each row."""
    if not omega.size:
        return x
    return x * omega if omega.ndim == 1 else x @ omega.T


def _gradients(
    x: FloatArray,
    prototypes: FloatArray,
    z: FloatArray,
    q: FloatArray,
    omega: FloatArray,
    slope: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the gradients in the prototypes p and in one Ω of Σ_ij slope_ij ‖z_i − q_j‖².

    z = Ω x and q = Ω p. In units of 2, the gradient in z_i is Σ_j slope_ij (z_i − q_j), and that in
    −q_j is Σ_i slope_ij (z_i − q_j).
    """
    minus_in_q = slope.T @ z - slope.sum(axis=0)[:, None] * q
    if not omega.size:
        return -2.0 * minus_in_q, omega
    in_z = slope.sum(axis=1)[:, None] * z - slope @ q
    if omega.ndim == 1:
        in_omega = (in_z * x).sum(axis=0) - (minus_in_q * prototypes).sum(axis=0)
        return -2.0 * minus_in_q * omega, 2.0 * in_omega
    return -2.0 * minus_in_q @ omega, 2.0 * (in_z.T @ x - minus_in_q.T @ prototypes)


def unit_trace(omega: FloatArray) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
    """Return Ω scaled so that trace(Ω′Ω) = 1, and its chain rule for gradients.

    That turns a gradient in the scaled Ω into one in Ω: without its part along Ω, which changes
    nothing.
    """
    if not omega.size:
        return omega, lambda gradient: gradient
    axes = (-1,) if omega.ndim == 1 else (-2, -1)
    length = np.sqrt((omega * omega).sum(axis=axes, keepdims=True))
    scaled = omega / length

    def chain_rule(gradient: FloatArray) -> FloatArray:
        along = (scaled * gradient).sum(axis=axes, keepdims=True)
        return (gradient - scaled * along) / length

    return scaled, chain_rule


def degeneracy(omega: FloatArray) -> tuple[float, FloatArray]:
    """Return −log det(k ΩΩ′) / k, from 0 to infinity, and its gradient; the mean of several Ω."""
    if omega.ndim == 1:
        k = len(omega)
        return -float(np.log(k * omega * omega).mean()), -2.0 / (k * omega)
    k, matrices = omega.shape[-2], int(np.prod(omega.shape[:-2]))
    gram = k * omega @ np.swapaxes(omega, -1, -2)
    value = -np.linalg.slogdet(gram)[1] / k
    return float(np.mean(value)), -2.0 * np.linalg.solve(gram, omega) / matrices


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
    """Return the cost of robust soft learning vector quantization (Seo & Obermayer, 2003).

    It is the weighted mean of −log(p(x, y) / p(x)), with p(x) the sum of exp(−d_j / (2 spread))
    over all prototypes j, and p(x, y) that over the prototypes with the row's label.
    """

    def cost(
        distances: FloatArray, same: BoolArray, weight: FloatArray
    ) -> tuple[float, FloatArray]:
        exponents = distances / (-2.0 * spread)
        exponents_same = np.where(same, exponents, -np.inf)
        log_all = np.logaddexp.reduce(exponents, axis=1, keepdims=True)
        log_same = np.logaddexp.reduce(exponents_same, axis=1, keepdims=True)
        slope = np.exp(exponents_same - log_same) - np.exp(exponents - log_all)
        value = float(weight @ (log_all - log_same)[:, 0])
        return value, slope * (weight / (2.0 * spread))[:, None]

    return cost


@final
@dataclass(frozen=True, eq=False)
class Training:
    """The loss as a function of one vector, and its minimisation.

    The vector holds the prototypes, and Ω up to a factor; numbers of both are of order 1.
    """

    rows: TrainingRows
    prototypes: FloatArray  # (P, d) to start from, class after class
    owner: IntArray  # (P,) the class of each
    same: BoolArray  # (n, P): whether the prototype has the label of the row
    omega: FloatArray  # Ω to start from
    matrix_of: IntArray  # (P,) the matrix of each prototype, where there are several
    cost: TrainingCost
    regularization: float = 0.0  # the weight of the degeneracy of Ω
    anchor: float = 0.0  # the weight of ½ mean (p − start)², in units of the mean variance

    @property
    def start(self) -> FloatArray:
        """(P d + size of Ω,) the vector to start from."""
        return np.concatenate([self.prototypes.ravel(), self.omega.ravel()])

    def split(self, vector: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the prototypes (P, d) and Ω, not yet scaled, of a vector."""
        prototypes, omega = np.split(vector, [self.prototypes.size])
        return prototypes.reshape(self.prototypes.shape), omega.reshape(self.omega.shape)

    def loss(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its gradient at a vector."""
        prototypes, unscaled = self.split(vector)
        omega, unscaled_gradient = unit_trace(unscaled)
        distances, chain_rule = squared_distances(self.rows.x, prototypes, omega, self.matrix_of)
        value, slope = self.cost(distances, self.same, self.rows.weight)
        in_prototypes, in_omega = chain_rule(slope)
        if self.regularization:
            penalty, penalty_slope = degeneracy(omega)
            value += self.regularization * penalty
            in_omega = in_omega + self.regularization * penalty_slope
        if self.anchor:
            moves = prototypes - self.prototypes
            value += 0.5 * self.anchor * float((moves * moves).mean())
            in_prototypes = in_prototypes + self.anchor / moves.size * moves
        gradient = in_prototypes.ravel(), unscaled_gradient(in_omega).ravel()
        return value, np.concatenate(gradient)

    def minimised(self, max_iter: int, tol: float) -> OptimizeResult:
        """Minimise the loss until an iteration gains less than ``tol``, or no slope is larger."""
        limits = {"maxiter": max_iter, "maxfun": np.inf, "ftol": tol, "gtol": tol}
        return minimize(self.loss, self.start, jac=True, method="L-BFGS-B", options=limits)
