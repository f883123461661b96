"""Newton's method on the loss of a label: one row alone, or many at once.

Minimised is E(u) = λ/2 uᵀGu + loss(z̄ − Gu). Arrays of K classes and n rows are (K, n); of one row
alone they are (K,), and what is (n,) of many is a number, so that the same lines cost little.

With p the shares, W = diag(p) − ppᵀ and d = √p, the Newton step solves (λI + WG) Δu = −r. It is
Δu = −(r + D h)/λ with

    (λI + D C D) h = −D (I − 1pᵀ) G r,

where C is the Gram matrix of the rows of A centred at their p-weighted mean. The matrix is
symmetric and positive definite whatever p and G are, duplicate rows and vanishing shares included,
and its diagonal holds most of it: conjugate gradients need a few products with G, which a batch
shares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dposv

from counterpoint.models.softmax.logistic import logistic_root
from counterpoint.numerics import EPS, TINY, BoolArray, FloatArray, IntArray

Loss = Callable[[FloatArray, Any], tuple[FloatArray, FloatArray, FloatArray]]
"""(K, n) scores and where the labels' own are → (n,) a convex loss; (K, n) shares of 1, its
gradient in the rivals' scores; and (n,) that in the label's score, with the other sign."""
System = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""(K, n) D and G p, (n,) pᵀGp and λ: what makes the matrices λI + D C D."""

DECREASE = 1e-4
"""The share of the predicted decrease that a step must bring (Armijo)."""
HALVINGS = 40
"""How often a step is halved at most, to 1e-12 of it; a row that no such step helps is stuck."""
FINE = 6
"""How often a step is halved where only the gradient can tell whether it helps."""
ACCURACY = 1e-4
"""The relative residual at which conjugate gradients end: four digits a step, while Newton's method
itself doubles their number at best."""
STEPS = 200
"""Newton steps at most: what is not settled then is returned as it is, and says so."""


def label_entries(label: Any) -> Any:
    """Where in (K, n) or (K,) the entries of the labels are."""
    return (label,) if label.ndim == 0 else (label, np.arange(len(label)))


def log_loss(scores: FloatArray, at: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """−log p, with p the label's probability: log Σ exp(z) − z_label; see `Loss`."""
    top = np.maximum.reduce(scores)
    shares = np.exp(scores - top)
    mine = shares[at]
    shares[at] = 0.0
    rivals = np.add.reduce(shares)
    shares[at] = mine
    value = top - scores[at] + np.log1p(rivals + (mine - 1.0))
    total = mine + rivals
    shares /= total
    return value, shares, rivals / total


def dots(a: FloatArray, b: FloatArray) -> Any:
    """(K, n), (K, n) → (n,): the products column by column, summed."""
    return a @ b if a.ndim == 1 else np.einsum("ij,ij->j", a, b)


def blocks(n: int, classes: int) -> list[slice]:
    """Rows in blocks of one size, which fit the cache and are worth the overhead of Python."""
    most = max(64, (3 << 14) // classes)
    return [slice(*ends) for ends in pairwise(np.linspace(0, n, -(-n // most) + 1, dtype=int))]


@final
@dataclass(frozen=True, eq=False)
class Reduced:
    """Solutions in K dimensions: the answer of a row is x̄ − P⁻¹Aᵀu."""

    # (n, K) u; each row sums to 0
    coefficients: FloatArray
    # (n,) λ
    weight: FloatArray
    # (n, K) the weights with which the scores pull, for a trade-off probabilities; they sum to 1
    shares: FloatArray
    # (n,) the length of the gradient of λ/2 δᵀPδ + loss, in the metric P⁻¹
    gradient: FloatArray
    # (n,) Newton steps
    iterations: IntArray
    # (n,): whether the gradient, and the distance from a goal, are as small as was asked for
    settled: BoolArray

    @classmethod
    def blank(cls, n: int, classes: int) -> Reduced:
        """For n rows, to be filled in."""
        u, shares = np.zeros((2, n, classes))
        none = np.zeros(n, dtype=bool)
        return cls(u, np.full(n, np.inf), shares, np.zeros(n), np.zeros(n, dtype=np.intp), none)

    def put(self, at: Any, state: Descent, steps: int, settled: Any) -> None:
        """Where rows stand in the end."""
        self.coefficients[at], self.weight[at] = state.u.T, state.weight
        self.shares[at], self.gradient[at] = state.shares.T, np.sqrt(state.gradient)
        self.iterations[at], self.settled[at] = steps, settled


@final
@dataclass(eq=False, slots=True)
class Descent:
    """Where each row is on its way down: u, and what follows from it."""

    # of all rows
    gram: FloatArray
    loss: Loss
    # (K, n) z̄ at the factual points, (n,) k, and how large the numbers are whose differences count
    scores: FloatArray
    label: IntArray
    size: FloatArray
    # (K, n) and (n,) λ
    u: FloatArray
    weight: FloatArray
    # (n,) the loss of the scores z̄ − Gu, and (K, n) its shares
    loss_value: FloatArray
    shares: FloatArray
    # (n,) E
    value: FloatArray
    # (K, n) r = λu − (gradient of the loss in the scores), G r, and (n,) rᵀGr = ‖∇E‖² in P⁻¹
    residual: FloatArray
    weighed: FloatArray
    gradient: FloatArray

    @classmethod
    def at(
        cls,
        u: FloatArray,
        weight: FloatArray,
        inputs: tuple[FloatArray, IntArray, FloatArray],
        gram: FloatArray,
        loss: Loss,
    ) -> Descent:
        """Where u is, for scores, labels and sizes."""
        scores, label, _ = inputs
        at, moved = label_entries(label), gram @ u
        loss_value, shares, away = loss(scores - moved, at)
        residual = weight * u
        residual -= shares
        residual[at] = weight * u[at] + away
        weighed = gram @ residual
        value = 0.5 * weight * dots(u, moved) + loss_value
        gradient = np.maximum(dots(residual, weighed), 0.0)
        rows = (u, weight, loss_value, shares, value, residual, weighed, gradient)
        return cls(gram, loss, *inputs, *rows)

    def each(self, change: Callable[[Any], Any]) -> Descent:
        """Change what is known of rows in the same way."""
        return Descent(self.gram, self.loss, *(change(getattr(self, name)) for name in OF_ROWS))

    def take(self, rows: Any) -> Descent:
        """Some of the rows; `numpy.take` keeps the order in memory, an index does not."""
        at = np.flatnonzero(rows) if rows.dtype == bool else rows
        return self.each(lambda array: array.take(at, axis=-1))

    def put(self, rows: Any, other: Descent) -> None:
        """Write where some rows are."""
        for name in OF_ROWS:
            getattr(self, name)[..., rows] = getattr(other, name)

    def moved(self, u: FloatArray, weight: FloatArray) -> Descent:
        """The same rows elsewhere."""
        return Descent.at(u, weight, (self.scores, self.label, self.size), self.gram, self.loss)

    def newton(self) -> FloatArray:
        """(K, n) the Newton direction at fixed λ; see `direction`."""
        return direction(self.gram, self.shares, self.weight, self.residual, self.weighed)

    def descended(self, step: FloatArray) -> tuple[Descent, BoolArray]:
        """After a step that is halved until E falls; and which rows (n,) no such step helps.

        Where the decrease that remains is below the rounding of E, the gradient must fall instead.
        """
        slope, reached = dots(self.weighed, step), self.moved(self.u + step, self.weight)
        shorter = reached.gradient < self.gradient
        good = shorter & (reached.value <= self.value + DECREASE * slope)
        if good.all():  # which is the rule: what follows costs as much again
            return reached, ~good
        if good.ndim == 0:
            batch, failed = self.each(lambda a: a[..., None]).descended(step[:, None])
            return batch.each(lambda a: a[..., 0]), failed[0]
        cancelled = self.gram.diagonal().max() * np.abs(self.u).sum(axis=0)
        slack = 4.0 * EPS * (np.abs(self.value) + self.size + cancelled)
        fine, length = -slope <= slack, 1.0
        good = np.where(fine, shorter, reached.value <= self.value + DECREASE * slope + slack)
        for halving in range(HALVINGS):
            bad = np.flatnonzero(~good & (~fine | (halving < FINE)))
            if not len(bad):
                break
            length *= 0.5
            before = self.take(bad)
            tried = before.moved(before.u + length * step[:, bad], before.weight)
            lower = before.value + DECREASE * length * slope[bad] + slack[bad]
            ok = np.where(fine[bad], tried.gradient < before.gradient, tried.value <= lower)
            reached.put(bad[ok], tried.take(ok))
            good[bad[ok]] = True
        unimproved = np.flatnonzero(~good)
        reached.put(unimproved, self.take(unimproved))
        return reached, ~good


OF_ROWS = tuple(field.name for field in fields(Descent))[2:]


def direction(
    gram: FloatArray,
    shares: FloatArray,
    weight: FloatArray,
    residual: FloatArray,
    gram_residual: FloatArray,
) -> FloatArray:
    """Return Newton's direction, (K, n) Δu with (λI + WG) Δu = −r and W = diag(p) − p pᵀ.

    ``gram``: (K, K) G; ``shares``: (K, n) p; ``weight``: (n,) λ; ``residual``: (K, n) r;
    ``gram_residual``: (K, n) G r.
    """
    root, mean = np.sqrt(shares), gram @ shares
    spread = dots(shares, mean)
    right = root * (dots(shares, gram_residual) - gram_residual)
    # matrices of 128 KiB in all: one call of LAPACK is the quickest
    small = right.ndim == 1 or shares.size * len(shares) <= 1 << 14
    h = (_solved if small else _iterated)(gram, (root, mean, spread, weight), right)
    h -= root * dots(root, h)
    return np.asarray(-(residual + root * h) / weight)


def _solved(gram: FloatArray, systems: System, right: FloatArray) -> FloatArray:
    """Solve (λI + D C D) h = right by LAPACK, or by its diagonal where rounding spoilt a system.

    D = diag(√p), and C is the Gram matrix centred by the shares p; ``systems`` holds √p, G p, pᵀG p
    and λ.
    """
    root, mean, spread, weight = systems[0].T, systems[1].T, *systems[2:]
    matrices = gram - mean[..., None]
    matrices -= mean[..., None, :]
    matrices += spread[..., None, None]
    matrices *= root[..., None]
    matrices *= root[..., None, :]
    diagonal = np.einsum("...ii->...i", matrices)  # a view, whatever their order in memory
    diagonal += np.maximum(weight, 16.0 * EPS * diagonal.max(axis=-1))[..., None]
    if right.ndim == 1:
        h, failed = dposv(matrices, right, lower=1)[1:]
        return np.asarray(right / diagonal if failed else h)
    try:
        return np.asarray(np.linalg.solve(matrices, right.T[..., None])[..., 0].T)
    except np.linalg.LinAlgError:
        singles = zip(*(of.T for of in (*systems, right)), strict=True)
        return np.stack([_solved(gram, (d, m, s, w), b) for d, m, s, w, b in singles], axis=1)


def _iterated(gram: FloatArray, systems: System, right: FloatArray) -> FloatArray:
    """Those of many rows by conjugate gradients; by LAPACK where these fail.

    They are scaled to a diagonal of 1. Where rounding leaves no positive curvature, steps overflow.
    """
    root, mean, spread, weight = systems
    variance = gram.diagonal()[:, None] - 2.0 * mean + spread
    scale = 1.0 / np.sqrt(weight + root * root * np.maximum(variance, 0.0))
    edge, ridge, residual = root * scale, weight * scale * scale, scale * right
    norm = np.maximum(np.sqrt(dots(residual, residual)), TINY)
    residual /= norm
    h, step, size = np.zeros_like(residual), residual.copy(), dots(residual, residual)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for _ in range(2 * min(len(right), 20) + 4):
            active = size > ACCURACY * ACCURACY
            if not active.any():
                break
            moved = edge * step
            total = moved.sum(axis=0)
            image = gram @ moved
            image -= mean * total
            image += spread * total - dots(mean, moved)
            image *= edge
            image += ridge * step
            length = np.where(active, size / np.maximum(dots(step, image), TINY), 0.0)
            h += length * step
            image *= length
            residual -= image
            following = dots(residual, residual)
            step *= following / np.maximum(size, TINY)
            step += residual
            size = following
        h *= norm * scale
    failed = ~(size <= ACCURACY * ACCURACY)
    if failed.any():
        resisting = root[:, failed], mean[:, failed], spread[failed], weight[failed]
        h[:, failed] = _solved(gram, resisting, right[:, failed])
    return h


def minimise(
    scores: FloatArray,
    gram: FloatArray,
    label: ArrayLike,
    weight: ArrayLike,
    *,
    shares: FloatArray | None = None,
    accuracy: tuple[float, float] = (1e-8, 1e-12),
) -> Reduced:
    """Minimise λ/2 δᵀPδ − log p for each row, with p the probability of its label.

    Newton's method works on the K coefficients u of δ = −P⁻¹Aᵀu, from a start that is u at the
    optimum of a simpler problem, or for given probabilities.

    ``scores``: (n, K) z̄ at the factual points; ``gram``: (K, K) G = A P⁻¹ Aᵀ, which may be
    singular; ``label``: the position k of the class, and ``weight``: λ > 0, one or (n,);
    ``shares``: (n, K) about the probabilities at the optimum, to start from, None where nothing is
    known; ``accuracy``: the length of the gradient, and the relative gap of the objective, at which
    to stop; both must be met. Where scores are so large that rounding keeps the gradient above, a
    row stops where it does not fall any more, and is not settled.
    """
    n, classes = scores.shape
    weights, labels = np.empty(n), np.empty(n, dtype=np.intp)
    weights[:], labels[:] = weight, label
    out = Reduced.blank(n, classes)
    # The block of a row alone is its index, so that arrays are (K,) and not (K, 1): this takes a
    # third of the time of a batch of one row.
    for block in range(n) if n <= 4 else blocks(n, classes):
        columns = np.ascontiguousarray(scores[block].T, dtype=np.float64)
        inputs = columns, labels[block], np.abs(columns).max(axis=0)
        if shares is None:
            u = _against_largest_rival(columns, gram, labels[block], weights[block])
        else:
            # Where the gradient vanishes, λu = p − e with e = 1 at the label and 0 at its rivals.
            # The label's entry is minus the sum of the others, so that columns of u sum to 0.
            entries = label_entries(labels[block])
            u = shares[block].T / weights[block]
            u[entries] = 0.0
            u[entries] = -u.sum(axis=0)
        state = Descent.at(u, weights[block], inputs, gram, log_loss)
        _descend(state, accuracy, out, np.arange(n)[block])
    return out


def _against_largest_rival(
    scores: FloatArray, gram: FloatArray, label: IntArray, weight: FloatArray
) -> FloatArray:
    """(K, n) u at the optimum of each row if its largest rival were the only one: theorem 4.2."""
    mine, rivals, u = label_entries(label), scores.copy(), np.zeros_like(scores)
    rivals[mine] = -np.inf
    rival = rivals.argmax(axis=0)
    at = (rival, *mine[1:])
    lengths = np.maximum(gram[rival, rival] - 2.0 * gram[rival, label] + gram[label, label], 0.0)
    ahead = np.atleast_1d(scores[at] - scores[mine])
    share = logistic_root(np.atleast_1d(lengths / weight), -ahead)[0].reshape(label.shape)
    u[at], u[mine] = share / weight, -share / weight
    return u


def _descend(state: Descent, accuracy: tuple[float, float], out: Reduced, rows: Any) -> None:
    """The rows of a block, or one row alone, from a start; finished rows leave."""
    tolerance, gap = accuracy
    stuck: Any = np.zeros(state.label.shape, dtype=bool)
    for step in range(STEPS + 1):
        # strong convexity bounds E − E* by ‖∇E‖² / 2λ
        goal = np.minimum(2.0 * state.weight * gap * state.value, tolerance * tolerance)
        settled = state.gradient <= goal
        gone = settled | stuck | (step == STEPS)
        if gone.all():
            out.put(rows, state, step, settled)
            return
        if gone.any():
            out.put(rows[gone], state.take(gone), step, settled[gone])
            rows, state = rows[~gone], state.take(~gone)
        state, stuck = state.descended(state.newton())
