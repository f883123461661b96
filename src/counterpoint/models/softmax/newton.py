"""Minimise the loss of a label by Newton's method, for many rows at once.

Minimised is E(u) = λ/2 uᵀGu + loss(z̄ − Gu). Arrays of K classes and n rows are (K, n).

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
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.models.softmax.logistic import logistic_root
from counterpoint.numerics import EPS, TINY, BoolArray, FloatArray, IntArray

Entries = tuple[IntArray, IntArray]
"""The labels and the rows: the index of one entry in each column of an array (K, n)."""
Loss = Callable[[FloatArray, Entries], tuple[FloatArray, FloatArray, FloatArray]]
"""(K, n) scores and the `label_entries` among them → (n,) convex losses; (K, n) their gradients in
the scores of the rivals, which are shares of 1; and (n,) minus those in the label's own score."""
System = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""(K, n) D and G p, (n,) pᵀGp and λ: the parts of the matrices λI + D C D."""

ACCURACY = 1e-4
"""The relative residual at which conjugate gradients end: four digits a step, while Newton's method
itself doubles their number at best."""
STEPS = 200
"""Newton steps at most: a row that is not settled then is returned as it is, and marked so."""


def label_entries(label: IntArray) -> Entries:
    """Return the index of one entry in each column (K, n): that of the row's label, or a rival."""
    return label, np.arange(len(label))


def log_loss(scores: FloatArray, labels: Entries) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return −log p (n,), the probabilities (K, n) of all classes, and 1 − p (n,); see `Loss`.

    p is the label's probability, so that −log p = log Σ exp(z) − z_label. The rivals are summed up
    without the label, or 1 − p would be lost to rounding where p is nearly 1, and −log p with it.
    """
    top = np.maximum.reduce(scores)
    shares = np.exp(scores - top)
    label_share = shares[labels]
    shares[labels] = 0.0
    rivals = np.add.reduce(shares)
    shares[labels] = label_share
    # The label's share is 1 where it is the top: then this is log1p(rivals), with all digits.
    loss = top - scores[labels] + np.log1p(rivals + (label_share - 1.0))
    total = label_share + rivals
    shares /= total
    return loss, shares, rivals / total


def dots(a: FloatArray, b: FloatArray) -> FloatArray:
    """(K, n), (K, n) → (n,): the products column by column, summed."""
    return np.einsum("ij,ij->j", a, b)


def blocks(n: int, classes: int) -> list[slice]:
    """Cut n rows into blocks of one size that fit the cache and are worth Python's overhead."""
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
        """Make room for the solutions of n rows."""
        u, shares = np.zeros((2, n, classes))
        none = np.zeros(n, dtype=bool)
        return cls(u, np.full(n, np.inf), shares, np.zeros(n), np.zeros(n, dtype=np.intp), none)

    def put(self, rows: IntArray, state: Descent, steps: int, settled: BoolArray) -> None:
        """Record the last states of some rows."""
        self.coefficients[rows], self.weight[rows] = state.u.T, state.weight
        self.shares[rows], self.gradient[rows] = state.shares.T, np.sqrt(state.squared_gradient)
        self.iterations[rows], self.settled[rows] = steps, settled


@final
@dataclass(eq=False, slots=True)
class Descent:
    """The state of each row on its way down: u, and the numbers that follow from it."""

    # of all rows
    gram: FloatArray
    loss: Loss
    # (K, n) z̄ at the factual points, (n,) k, and the size of the largest number among the scores:
    # E is rounded in proportion to it
    scores: FloatArray
    label: IntArray
    score_size: FloatArray
    # (K, n) and (n,) λ
    u: FloatArray
    weight: FloatArray
    # (n,) the loss of the scores z̄ − Gu, and (K, n) its shares
    loss_value: FloatArray
    shares: FloatArray
    # (n,) E
    objective: FloatArray
    # (K, n) r = λu − (gradient of the loss in the scores), G r, and (n,) rᵀGr = ‖∇E‖² in P⁻¹
    residual: FloatArray
    gram_residual: FloatArray
    squared_gradient: FloatArray

    @classmethod
    def at(
        cls,
        u: FloatArray,
        weight: FloatArray,
        inputs: tuple[FloatArray, IntArray, FloatArray],
        gram: FloatArray,
        loss: Loss,
    ) -> Descent:
        """Evaluate the objective at u; ``inputs`` are scores, labels and score sizes."""
        scores, label, _ = inputs
        labels, gram_u = label_entries(label), gram @ u
        loss_value, shares, minus_at_label = loss(scores - gram_u, labels)
        # The loss's gradient in the scores is the shares, but at the label −minus_at_label.
        residual = weight * u
        residual -= shares
        residual[labels] = weight * u[labels] + minus_at_label
        gram_residual = gram @ residual
        return cls(
            gram,
            loss,
            *inputs,
            u,
            weight,
            loss_value,
            shares,
            objective=0.5 * weight * dots(u, gram_u) + loss_value,
            residual=residual,
            gram_residual=gram_residual,
            squared_gradient=np.maximum(dots(residual, gram_residual), 0.0),
        )

    def take(self, rows: BoolArray | IntArray) -> Descent:
        """Return some of the rows; `numpy.take` keeps the order in memory, an index does not."""
        positions = np.flatnonzero(rows) if rows.dtype == bool else rows
        arrays = (getattr(self, name).take(positions, axis=-1) for name in ROW_ARRAYS)
        return Descent(self.gram, self.loss, *arrays)

    def put(self, rows: IntArray, other: Descent) -> None:
        """Replace the states of some rows."""
        for name in ROW_ARRAYS:
            getattr(self, name)[..., rows] = getattr(other, name)

    def moved(self, u: FloatArray, weight: FloatArray) -> Descent:
        """Return the state of the same rows at another u and λ."""
        return Descent.at(
            u, weight, (self.scores, self.label, self.score_size), self.gram, self.loss
        )

    def newton(self) -> FloatArray:
        """(K, n) the Newton direction at fixed λ; see `direction`."""
        return direction(self.gram, self.shares, self.weight, self.residual, self.gram_residual)

    def descended(self, step: FloatArray) -> tuple[Descent, BoolArray]:
        """Take a step, halved until E falls; return the new state, and which rows (n,) are stuck.

        Where the decrease that remains is below the rounding of E, the gradient must fall instead.
        A row that no such step helps is stuck, and stays where it is.
        """
        slope = dots(self.gram_residual, step)  # of E along the step
        moved = self.moved(self.u + step, self.weight)
        decrease = 1e-4 * slope  # at least this share of the predicted one (Armijo)
        flatter = moved.squared_gradient < self.squared_gradient
        accepted = flatter & (moved.objective <= self.objective + decrease)
        if accepted.all():  # nearly always; to allow for rounding costs as much again
            return moved, ~accepted
        # Terms that cancel in uᵀGu, and scores, are rounded in proportion to their sizes.
        cancelled = self.gram.diagonal().max() * np.abs(self.u).sum(axis=0)
        slack = 4.0 * EPS * (np.abs(self.objective) + self.score_size + cancelled)
        below_rounding, length = -slope <= slack, 1.0
        highest = self.objective + decrease + slack
        accepted = np.where(below_rounding, flatter, moved.objective <= highest)
        for halving in range(40):  # to 1e-12 of the step; 6 times if only the gradient can tell
            rejected = np.flatnonzero(~accepted & (~below_rounding | (halving < 6)))
            if not len(rejected):
                break
            length *= 0.5
            before = self.take(rejected)
            shorter = before.moved(before.u + length * step[:, rejected], before.weight)
            highest = before.objective + length * decrease[rejected] + slack[rejected]
            helps = np.where(
                below_rounding[rejected],
                shorter.squared_gradient < before.squared_gradient,
                shorter.objective <= highest,
            )
            moved.put(rejected[helps], shorter.take(helps))
            accepted[rejected[helps]] = True
        unmoved = np.flatnonzero(~accepted)
        moved.put(unmoved, self.take(unmoved))
        return moved, ~accepted


ROW_ARRAYS = tuple(field.name for field in fields(Descent) if field.name not in ("gram", "loss"))
"""The fields of `Descent` with an entry for each row."""


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
    # W = D (I − √p √pᵀ) D with D = diag(√p), and Δu = −(r + D h) / λ, where h solves the symmetric
    # system (λI + D C D) h = D (pᵀG r − G r), with C the Gram matrix centred by p.
    root, mean = np.sqrt(shares), gram @ shares
    spread = dots(shares, mean)
    right = root * (dots(shares, gram_residual) - gram_residual)
    # matrices of 128 KiB in all: one call of LAPACK is the quickest
    small = shares.size * len(shares) <= 1 << 14
    h = (_solved if small else _iterated)(gram, (root, mean, spread, weight), right)
    # In exact arithmetic h is orthogonal to √p already; a part that rounding left would make sums
    # of columns of Δu other than 0.
    h -= root * dots(root, h)
    return np.asarray(-(residual + root * h) / weight)


def _solved(gram: FloatArray, systems: System, right: FloatArray) -> FloatArray:
    """Solve (λI + D C D) h = right by LAPACK, or by its diagonal where rounding spoilt a system.

    D = diag(√p), and C is the Gram matrix centred by the shares p; ``systems`` holds √p, G p, pᵀG p
    and λ.
    """
    root, mean, spread, weight = systems[0].T, systems[1].T, *systems[2:]
    # (n, K, K): C = G − G p 1ᵀ − 1 (G p)ᵀ + pᵀG p, then D C D
    matrices = gram - mean[:, :, None]
    matrices -= mean[:, None, :]
    matrices += spread[:, None, None]
    matrices *= root[:, :, None]
    matrices *= root[:, None, :]
    diagonal = np.einsum("kii->ki", matrices)  # a view, whatever their order in memory
    diagonal += np.maximum(weight, 16.0 * EPS * diagonal.max(axis=1))[:, None]
    try:
        return np.asarray(np.linalg.solve(matrices, right.T[:, :, None])[:, :, 0].T)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.asarray(right / diagonal.T)
    # One of them is singular, and the error does not say which: solve each by itself.
    (root, mean, spread, weight), singles = systems, []
    for i in range(len(weight)):
        row = slice(i, i + 1)
        system = root[:, row], mean[:, row], spread[row], weight[row]
        singles.append(_solved(gram, system, right[:, row]))
    return np.hstack(singles)


def _iterated(gram: FloatArray, systems: System, right: FloatArray) -> FloatArray:
    """Solve (λI + D C D) h = right by conjugate gradients; by LAPACK where these fail.

    Systems are scaled to a diagonal of 1, and right sides to a length of 1. Where rounding leaves
    no positive curvature, steps overflow, and the residual is not small in the end.
    """
    root, mean, spread, weight = systems
    variance = gram.diagonal()[:, None] - 2.0 * mean + spread  # the diagonal of C
    scale = 1.0 / np.sqrt(weight + root * root * np.maximum(variance, 0.0))
    scaled_root, scaled_weight, residual = root * scale, weight * scale * scale, scale * right
    norm = np.maximum(np.sqrt(dots(residual, residual)), TINY)
    residual /= norm
    h, search, square = np.zeros_like(residual), residual.copy(), dots(residual, residual)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for _ in range(2 * min(len(right), 20) + 4):  # a few do where the diagonal holds most
            active = square > ACCURACY * ACCURACY
            if not active.any():
                break
            # image = (scaled system) search, where C v = G v − G p 1ᵀv + 1 (pᵀG p 1ᵀv − (G p)ᵀv)
            v = scaled_root * search
            total = v.sum(axis=0)
            image = gram @ v
            image -= mean * total
            image += spread * total - dots(mean, v)
            image *= scaled_root
            image += scaled_weight * search
            length = np.where(active, square / np.maximum(dots(search, image), TINY), 0.0)
            h += length * search
            image *= length
            residual -= image
            following = dots(residual, residual)
            search *= following / np.maximum(square, TINY)
            search += residual
            square = following
        h *= norm * scale
    failed = ~(square <= ACCURACY * ACCURACY)
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
    row stops when no step makes it fall, and is not settled.
    """
    n, classes = scores.shape
    weights, labels = np.empty(n), np.empty(n, dtype=np.intp)
    weights[:], labels[:] = weight, label
    out = Reduced.blank(n, classes)
    for block in blocks(n, classes):
        columns = np.ascontiguousarray(scores[block].T, dtype=np.float64)
        inputs = columns, labels[block], np.abs(columns).max(axis=0)
        if shares is None:
            u = _against_largest_rival(columns, gram, labels[block], weights[block])
        else:
            # Where the gradient vanishes, λu = p − e with e = 1 at the label and 0 at its rivals.
            # The label's entry is minus the sum of the others, so that columns of u sum to 0.
            at_label = label_entries(labels[block])
            u = shares[block].T / weights[block]
            u[at_label] = 0.0
            u[at_label] = -u.sum(axis=0)
        state = Descent.at(u, weights[block], inputs, gram, log_loss)
        _descend(state, accuracy, out, np.arange(block.start, block.stop))
    return out


def _against_largest_rival(
    scores: FloatArray, gram: FloatArray, label: IntArray, weight: FloatArray
) -> FloatArray:
    """(K, n) u at the optimum of each row if its largest rival were the only one: theorem 4.2."""
    at_label, rivals, u = label_entries(label), scores.copy(), np.zeros_like(scores)
    rivals[at_label] = -np.inf
    rival = rivals.argmax(axis=0)
    at_rival = label_entries(rival)
    # (n,) squared distances, in P⁻¹, of the rival's row of A from the label's
    square = np.maximum(gram[rival, rival] - 2.0 * gram[rival, label] + gram[label, label], 0.0)
    share, _ = logistic_root(square / weight, scores[at_label] - scores[at_rival])
    u[at_rival], u[at_label] = share / weight, -share / weight
    return u


def _descend(state: Descent, accuracy: tuple[float, float], out: Reduced, rows: IntArray) -> None:
    """Move the rows of a block down from a start, and record each when it is done."""
    tolerance, gap = accuracy
    stuck = np.zeros(len(rows), dtype=bool)
    for step in range(STEPS + 1):
        # strong convexity bounds E − E* by ‖∇E‖² / 2λ
        most = np.minimum(2.0 * state.weight * gap * state.objective, tolerance * tolerance)
        settled = state.squared_gradient <= most
        done = settled | stuck | (step == STEPS)
        if done.all():
            out.put(rows, state, step, settled)
            return
        if done.any():
            out.put(rows[done], state.take(done), step, settled[done])
            rows, state = rows[~done], state.take(~done)
        state, stuck = state.descended(state.newton())
