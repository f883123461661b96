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

from counterpoint.models.softmax.logistic import logistic_root, rough_root
from counterpoint.numerics import EPS, TINY, BoolArray, FloatArray, IntArray, as_slice

__all__ = [
    "FORCING",
    "STEPS",
    "Descent",
    "Reduced",
    "blocks",
    "direction",
    "dots",
    "every",
    "log_loss",
    "minimise",
    "own",
]

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
FORCING = 2e-6, 0.005
"""How exactly Newton directions are computed: at best, so that single precision will do, and at
least; in between as exactly as the progress asks."""
STEPS = 200
"""Newton steps at most: what is not settled then is returned as it is, and says so."""


def own(label: Any) -> Any:
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


def every(flags: Any) -> bool:
    """Whether all of (n,) flags are set, or the one of a row alone."""
    return bool(flags) if flags.ndim == 0 else bool(flags.all())


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
        self.iterations[at] += steps
        self.settled[at] = settled


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
        """Where u is, for the scores, labels and sizes that are given."""
        scores, label, _ = inputs
        at, moved = own(label), gram @ u
        loss_value, shares, away = loss(scores - moved, at)
        residual = weight * u
        residual -= shares
        residual[at] = weight * u[at] + away
        weighed = gram @ residual
        value = 0.5 * weight * dots(u, moved) + loss_value
        gradient = np.maximum(dots(residual, weighed), 0.0)
        rows = (u, weight, loss_value, shares, value, residual, weighed, gradient)
        return cls(gram, loss, *inputs, *rows)

    @property
    def given(self) -> tuple[FloatArray, IntArray, FloatArray]:
        """The scores, labels and sizes."""
        return self.scores, self.label, self.size

    def take(self, rows: Any) -> Descent:
        """Some of the rows; `numpy.take` keeps the order in memory, an index does not."""
        at = np.flatnonzero(rows) if rows.dtype == bool else rows
        arrays = (getattr(self, name).take(at, axis=-1) for name in OF_ROWS)
        return Descent(self.gram, self.loss, *arrays)

    def put(self, rows: Any, other: Descent) -> None:
        """Write where some rows are."""
        for name in OF_ROWS:
            getattr(self, name)[..., rows] = getattr(other, name)

    def moved(self, step: FloatArray) -> Descent:
        """After a step."""
        return Descent.at(self.u + step, self.weight, self.given, self.gram, self.loss)

    def newton(self, forcing: FloatArray) -> FloatArray:
        """(K, n) the Newton direction at fixed λ; see `direction`."""
        return direction(self.gram, self.shares, self.weight, self.residual, self.weighed, forcing)

    def descended(self, step: FloatArray) -> tuple[Descent, BoolArray]:
        """After a step that is shortened until E falls; and for which rows it does not.

        Where the decrease that is left is below the rounding of E, the gradient must fall instead.
        """
        slope, reached = dots(self.weighed, step), self.moved(step)
        lower, shorter = self.value + DECREASE * slope, reached.gradient < self.gradient
        good = shorter & (reached.value <= lower)
        if every(good):  # which is the rule: what follows costs as much again
            return reached, ~good
        cancelled = self.gram.diagonal().max() * np.abs(self.u).sum(axis=0)
        slack = 4.0 * EPS * (np.abs(self.value) + self.size + cancelled)
        fine = -slope <= slack
        good = (fine & shorter) | (~fine & (reached.value <= lower + slack))
        if every(good):
            return reached, ~good
        if self.u.ndim == 2:
            return self._shortened(reached, good, step, slope, slack)
        length = 1.0  # one row alone: as `_shortened` does, at half the cost
        for _ in range(FINE if fine else HALVINGS):
            length *= 0.5
            tried = self.moved(length * step)
            lower = self.value + DECREASE * length * slope + slack
            if (tried.gradient < self.gradient) if fine else (tried.value <= lower):
                return tried, good  # which is False
        return self, ~good

    def _shortened(
        self,
        reached: Descent,
        good: BoolArray,
        step: FloatArray,
        slope: FloatArray,
        slack: FloatArray,
    ) -> tuple[Descent, BoolArray]:
        """Rows whose full step was not good halve it, and stay where they were if none is."""
        fine, length = -slope <= slack, 1.0
        for halving in range(HALVINGS):
            bad = np.flatnonzero(~good & (~fine | (halving < FINE)))
            if not len(bad):
                break
            length *= 0.5
            before = self.take(bad)
            tried = before.moved(length * step[:, bad])
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
    forcing: FloatArray,
) -> FloatArray:
    """Return Newton's direction, (K, n) Δu with (λI + WG) Δu = −r and W = diag(p) − p pᵀ.

    ``gram``: (K, K) G; ``shares``: (K, n) p; ``weight``: (n,) λ; ``residual``: (K, n) r;
    ``gram_residual``: (K, n) G r; ``forcing``: (n,) the relative accuracy that is enough.
    """
    root, mean = np.sqrt(shares), gram @ shares
    spread = dots(shares, mean)
    right = root * (dots(shares, gram_residual) - gram_residual)
    # matrices of 128 KiB in all: one call of LAPACK is the quickest
    if right.ndim == 1 or shares.size * len(shares) <= 1 << 14:
        h = _solved(gram, (root, mean, spread, weight), right)
    else:
        h, rounding = np.empty_like(right), np.finfo(np.float32).eps * (gram.diagonal() @ shares)
        single = (forcing >= FORCING[0]) & (rounding <= 0.05 * weight)
        for kind, rows in (np.float32, single), (np.float64, ~single):
            if rows.any():
                at = as_slice(np.flatnonzero(rows))
                systems = root[:, at], mean[:, at], spread[at], weight[at]
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    h[:, at] = _iterated(gram, systems, right[:, at], forcing[at], kind)
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


def _iterated(
    gram: FloatArray, systems: System, right: FloatArray, forcing: FloatArray, kind: Any
) -> FloatArray:
    """Those of many rows by conjugate gradients, in some precision; by LAPACK where these fail.

    They are scaled to a diagonal of 1. Where rounding leaves no positive curvature, steps overflow.
    """
    root, mean, spread, weight = systems
    diagonal = gram.diagonal()[:, None]
    scale = 1.0 / np.sqrt(weight + root * root * np.maximum(diagonal - 2.0 * mean + spread, 0.0))
    h, top = scale * right, max(diagonal.max(), TINY)
    norm = np.maximum(np.sqrt(dots(h, h)), TINY)
    h /= norm
    # 1e-28: what they cannot reduce further, relative to where they began
    wanted, size = np.maximum(forcing * forcing, 1e-28), dots(h, h)
    matrix, common = (gram / top).astype(kind), (spread / top).astype(kind)
    work = np.empty((6, *h.shape), kind)
    work[0], work[1:3], work[4] = 0.0, h, mean / top
    work[3], work[5] = np.sqrt(top) * root * scale, weight * scale * scale
    last, rows = np.empty_like(size), np.arange(len(size))
    for remaining in range(2 * min(len(right), 20) + 4, -1, -1):
        active = size > wanted[rows]
        if 2 * np.count_nonzero(active) <= len(rows) or not remaining:
            h[:, rows], last[rows] = work[0], size
            rows, size, common = rows[active], size[active], common[active]
            work, active = work.compress(active, axis=-1), active[active]
            if not len(rows):
                break
        reached, residual, step, edge, centre, ridge = work
        moved = edge * step
        image = matrix @ moved
        total = np.add.reduce(moved)
        shift = common * total - dots(centre, moved)
        image -= np.multiply(centre, total, out=moved)
        image += shift
        image *= edge
        image += np.multiply(ridge, step, out=moved)
        length = np.where(active, size / np.maximum(dots(step, image), TINY), 0.0).astype(kind)
        reached += np.multiply(length, step, out=moved)
        image *= length
        residual -= image
        following = dots(residual, residual)
        step *= np.where(active, following / np.maximum(size, TINY), 0.0).astype(kind)
        step += residual
        size = np.where(active, following, size)
    h *= norm * scale
    failed = ~(last <= wanted)
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

    Two classes are solved in closed form, more by Newton's method.

    ``scores``: (n, K) z̄ at the factual points; ``gram``: (K, K) G = A P⁻¹ Aᵀ, which may be
    singular; ``label``: the position k of the class, and ``weight``: λ > 0, one or (n,);
    ``shares``: (n, K) about the probabilities at the optimum, to start from, None for a guess;
    ``accuracy``: the length of the gradient, and the relative gap of the objective, at which to
    stop; both must be met. Where scores are so large that rounding keeps the gradient above, a row
    stops where it does not fall any more, and is not settled.
    """
    n, classes = scores.shape
    weights, labels = np.empty(n), np.empty(n, dtype=np.intp)
    weights[:], labels[:] = weight, label
    out = Reduced.blank(n, classes)
    # alone, a row takes a third of what a batch of one takes
    for block in range(n) if n <= 4 else blocks(n, classes):
        columns = np.ascontiguousarray(scores[block].T, dtype=np.float64)
        inputs = columns, labels[block], np.abs(columns).max(axis=0)
        if classes == 2:
            u = _of_two(columns, gram, labels[block], weights[block])
        elif shares is None:
            u = _guess(columns, gram, labels[block], weights[block])
        else:
            u = _pulled(np.array(shares[block].T), labels[block], weights[block])
        state = Descent.at(u, weights[block], inputs, gram, log_loss)
        _descend(state, accuracy, out, block, closed=classes == 2)
    return out


def _descend(
    state: Descent, accuracy: tuple[float, float], out: Reduced, block: Any, *, closed: bool
) -> None:
    """The rows of a block, or one row alone, from a start; finished rows leave."""
    rows, (tolerance, gap) = np.arange(len(out.weight))[block], accuracy
    start: FloatArray = np.maximum(state.gradient, TINY)
    stuck: Any = np.bool_(closed)
    alone, forcing = state.label.ndim == 0, start  # alone, a row is solved exactly
    exact: Any = np.full(state.label.shape, alone)
    for step in range(STEPS + 1):
        # strong convexity bounds E − E* by ‖∇E‖² / 2λ
        goal = np.minimum(2.0 * state.weight * gap * state.value, tolerance * tolerance)
        settled = state.gradient <= goal
        gone = settled | stuck | (step == STEPS)
        if every(gone):
            out.put(rows, state, step, settled)
            return
        if gone.any():
            out.put(rows[gone], state.take(gone), step, settled[gone])
            rows, state, start = rows[~gone], state.take(~gone), start[~gone]
            goal, exact = goal[~gone], exact[~gone]
        if not alone:  # no better than the next step may need, unless one so rough has failed
            distance = goal / np.maximum(state.gradient, TINY)
            needed = np.sqrt(np.maximum(state.gradient / start, 1e-4 * distance))
            forcing = np.where(exact, 0.0, np.clip(needed, *FORCING))
        state, failed = state.descended(state.newton(forcing))
        stuck, exact = failed & exact, failed | exact


def _apart(gram: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
    """(n,) the squared length of the difference of rows i and j of A, in the metric P⁻¹."""
    return np.maximum(gram[i, i] - 2.0 * gram[i, j] + gram[j, j], 0.0)


def _of_two(
    scores: FloatArray, gram: FloatArray, label: IntArray, weight: FloatArray
) -> FloatArray:
    """(2, n) u of two classes: theorem 4.2."""
    mine, other, u = own(label), own(1 - label), np.empty_like(scores)
    slope, ahead = _apart(gram, label, 1 - label) / weight, scores[other] - scores[mine]
    share = logistic_root(np.atleast_1d(slope), np.atleast_1d(-ahead))[0].reshape(label.shape)
    u[mine], u[other] = -share / weight, share / weight
    return u


def _guess(scores: FloatArray, gram: FloatArray, label: IntArray, weight: FloatArray) -> FloatArray:
    """(K, n) u near the optimum of each row: rivals one by one, by the closed form for two classes.

    The dual of the trade-off has one variable v ≥ 0 a rival, and v_label = 1 − Σ v. Given the
    others, the best v_j is the root of the two-class equation. A few such steps, each on the rival
    that is furthest from its optimum, spare Newton's method half of its steps: all those in which
    one rival after the other comes into sight.
    """
    mine = own(label)
    shares = np.zeros(scores.shape)
    shares[mine] = 1.0
    # the logarithm of a share, which without one counts as that of 1e-8; and by how much a rival is
    # ahead of the label at the current shares, beyond that
    held = np.full(scores.shape, np.log(1e-8))
    safety_margin = scores - scores[mine] - held
    safety_margin[mine] = -np.inf
    toward_label = gram.take(label, axis=1)
    for _ in range(min(3 + len(scores) // 16, len(scores))):
        rival = safety_margin.argmax(axis=0)
        at = (rival, *mine[1:])
        if every(safety_margin[at] + np.log(np.maximum(shares[mine], TINY)) < 1.0):
            break  # log-odds are near enough for Newton's method to begin
        before, slope = shares[at], _apart(gram, rival, label) / weight
        total = before + shares[mine]
        share, complement = rough_root(total * slope, safety_margin[at] + held[at] + slope * before)
        shares[at], shares[mine] = total * share, total * complement
        toward = gram.take(rival, axis=1)
        toward -= toward_label
        toward -= toward[mine]
        toward *= (total * share - before) / weight
        safety_margin -= toward
        now = np.log(np.maximum(total * share, 1e-8))
        safety_margin[at] += held[at] - now
        held[at] = now
    return _pulled(shares, label, weight)


def _pulled(shares: FloatArray, label: IntArray, weight: FloatArray) -> FloatArray:
    """(K, n) u where the gradient vanishes for these shares, which are overwritten."""
    mine, u = own(label), shares
    u /= weight
    u[mine] = 0.0
    u[mine] = -u.sum(axis=0)
    return u
