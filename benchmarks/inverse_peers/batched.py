"""The paper's Newton method on many rows at once: products of matrices, and stacked systems.

Everything is as in `newton`, iterates in D dimensions included, but rows go together. Those that
have finished leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dposv

from inverse_peers.line_search import FACTOR, SHORTEST
from inverse_peers.problem import EPS, LIMITS, Limits, Watch

STACKED = 16  # up to here NumPy's stacked LU is faster than a loop of Cholesky factorisations
NUMBERS = 500_000  # how many of them a block of rows may have, in D and in K × K
FEWEST, MOST = 64, 256
WIDTH = 2048  # columns that go through the processor's cache together


@dataclass(frozen=True)
class Problems:
    """Problem (2) for many rows of one model.

    Parameters
    ----------
    A, b
        The classifier: K × D, and K.
    X
        The source instances, dense or a CSR matrix.
    labels, weights
        k and λ of each row.
    """

    A: np.ndarray
    b: np.ndarray
    X: Any
    labels: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class BatchRecord:
    """How each row went: see `Record`; `trials` are those of all iterations."""

    iterations: np.ndarray
    trials: np.ndarray
    energies: np.ndarray
    norms: np.ndarray


def batched_newton(
    problems: Problems,
    gram: np.ndarray,
    *,
    rows: int | None = None,
    limits: Limits = LIMITS,
    out: np.ndarray | None = None,
) -> tuple[np.ndarray, BatchRecord]:
    """Newton's method with backtracking on every row, a block of rows at a time.

    Parameters
    ----------
    problems
        What to solve.
    gram
        `gram(A)`, computed once for the model.
    rows
        Rows of a block; by default what is fast.
    limits
        When to stop; `timed` has no meaning here.
    out
        Where the last iterates shall go.

    Returns
    -------
    X, record
        The last iterates, and how they went.
    """
    number, size = problems.X.shape
    record = BatchRecord(
        np.zeros(number, dtype=int), np.zeros(number, dtype=int), np.empty(number), np.empty(number)
    )
    found = np.empty((number, size)) if out is None else out
    rows = min(number, rows or min(max(FEWEST, NUMBERS // max(size, gram.size)), MOST))
    room = [_Columns(problems.A, slice(i, i + WIDTH), rows) for i in range(0, size, WIDTH)]
    for first in range(0, number, rows):
        _Block(problems, gram, slice(first, first + rows), room).run(limits, found, record)
    return found, record


class _Columns:
    """Some columns of A, and of λ(x − x̄) and ∇E of a block of rows.

    A direction, as λ s, is written where the gradient was, and the next gradient over it.
    """

    def __init__(self, A: np.ndarray, where: slice, rows: int) -> None:
        self.where = where
        self.A = np.ascontiguousarray(A[:, where])
        self._moved, self._gradient = np.empty((2, rows, self.A.shape[1]))

    def start(self, pulls: np.ndarray) -> np.ndarray:
        """Be at x̄; ‖∇E‖² of each row."""
        self.moved, self.gradient = self._moved[: len(pulls)], self._gradient[: len(pulls)]
        self.moved[:] = 0.0
        np.matmul(pulls, self.A, out=self.gradient)
        return np.vecdot(self.gradient, self.gradient)

    def turn(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From the gradient to the direction; its products with λ(x − x̄) and with itself."""
        dgemm(1.0, self.A.T, w.T, -1.0, self.gradient.T, overwrite_c=1)
        return np.vecdot(self.moved, self.gradient), np.vecdot(self.gradient, self.gradient)

    def go(self, step: np.ndarray, pulls: np.ndarray) -> np.ndarray:
        """Along the direction; ‖∇E‖² of each row there."""
        if (step != 1.0).any():
            self.gradient *= step[:, None]
        self.moved += self.gradient
        np.copyto(self.gradient, self.moved)
        dgemm(1.0, self.A.T, pulls.T, 1.0, self.gradient.T, overwrite_c=1)
        return np.vecdot(self.gradient, self.gradient)

    def keep(self, left: int, holes: np.ndarray, movers: np.ndarray) -> None:
        """Rows from the end take the places of others."""
        for values in (self.moved, self.gradient):
            values[holes] = values[movers]
        self.moved, self.gradient = self.moved[:left], self.gradient[:left]


class _Block:
    """Rows that go together; arrays are cut to the rows that are still on their way."""

    PER_ROW = (
        *("label", "weight", "row", "start", "scores", "trials", "idle", "squared", "best"),
        *("p", "energy", "pulls", "norm"),
    )

    def __init__(
        self, problems: Problems, gram: np.ndarray, part: slice, room: list[_Columns]
    ) -> None:
        X = problems.X[part]
        self.X = X if isinstance(X, np.ndarray) else X.toarray()
        self.first, self.gram, self.room = part.start, gram, room
        self.label = np.array(problems.labels[part])
        self.weight = np.array(problems.weights[part], dtype=float)
        self.start = X @ problems.A.T + problems.b
        self.scores = self.start.copy()
        number, size = self.start.shape
        self.row = np.arange(number)
        self.trials, self.idle = np.zeros((2, number), dtype=int)
        self.squared, self.best = np.zeros(number), np.full(number, np.inf)
        self.ones = np.ones(size)
        top = self.start.max(axis=1)
        self.p = np.exp(self.start - top[:, None])
        total = self.p @ self.ones
        self.p /= total[:, None]
        self.energy = top - self.start[self.row, self.label] + np.log(total)
        self._pull()
        self.norm = np.sqrt(sum(columns.start(self.pulls) for columns in room))

    def run(self, limits: Limits, found: np.ndarray, record: BatchRecord) -> None:
        """Iterate until every row has left."""
        for iteration in range(limits.max_iter + 1):
            over = (self.norm < limits.tolerance) | (self.idle >= Watch.PATIENCE)
            if iteration == limits.max_iter:
                over[:] = True
            if over.any():
                self._leave(over, iteration, found, record)
                if not len(self.row):
                    return
            self._step()

    def _leave(
        self, over: np.ndarray, iteration: int, found: np.ndarray, record: BatchRecord
    ) -> None:
        """Write down rows that are over; rows from the end take their places."""
        gone = np.flatnonzero(over)
        at = self.first + self.row[gone]
        for i, to in zip(gone, at, strict=True):
            for columns in self.room:
                np.divide(columns.moved[i], self.weight[i], out=found[to, columns.where])
            found[to] += self.X[self.row[i]]
        record.iterations[at] = iteration
        record.trials[at] = self.trials[gone]
        record.energies[at] = self.energy[gone]
        record.norms[at] = self.norm[gone]
        left = len(over) - len(gone)
        holes = gone[gone < left]
        movers = left + np.flatnonzero(~over[left:])
        for name in self.PER_ROW:
            values = getattr(self, name)
            values[holes] = values[movers]
            setattr(self, name, values[:left])
        for columns in self.room:
            columns.keep(left, holes, movers)

    def _step(self) -> None:
        pull = self.pulls @ self.gram
        pull += self.weight[:, None] * (self.scores - self.start)
        w = self._solve(pull)
        slope = (np.vecdot(pull, w) - self.norm**2) / self.weight
        rise = w @ self.gram
        rise -= pull
        rise /= self.weight[:, None]
        products = np.array([columns.turn(w) for columns in self.room])
        across, along = products.sum(axis=0) / self.weight
        before = self.energy
        step = self._search(rise, across, along, slope)
        self._pull()
        self.best = np.minimum(self.best, self.norm)
        self.norm = np.sqrt(sum(columns.go(step, self.pulls) for columns in self.room))
        stuck = (self.energy >= before) & (self.norm >= self.best)
        self.idle = np.where(stuck, self.idle + 1, 0)

    def _pull(self) -> None:
        self.pulls = self.p.copy()
        self.pulls[np.arange(len(self.row)), self.label] -= 1.0

    def _solve(self, pull: np.ndarray) -> np.ndarray:
        """The vector w of `Woodbury` for each row."""
        root = np.sqrt(self.p)
        number, size = root.shape
        matrices = root[:, :, None] * self.gram
        matrices *= root[:, None, :]
        matrices.reshape(number, -1)[:, :: size + 1] += self.weight[:, None]
        right = np.empty((number, 2, size))
        right[:, 0] = root
        np.multiply(root, pull, out=right[:, 1])
        columns = right.transpose(0, 2, 1)
        if size <= STACKED:
            columns = np.linalg.solve(matrices, columns)
        else:
            for matrix, column in zip(matrices, columns, strict=True):
                if dposv(matrix.T, column, overwrite_a=1, overwrite_b=1)[2]:
                    raise np.linalg.LinAlgError("λ is too small for A")
        h, u = columns[:, :, 0], columns[:, :, 1]
        w = u - (np.vecdot(root, u) / np.vecdot(root, h))[:, None] * h
        w *= root
        return w

    def _search(
        self, rise: np.ndarray, across: np.ndarray, along: np.ndarray, slope: np.ndarray
    ) -> np.ndarray:
        """Backtracking on the rows whose E has not fallen yet; the step of each row."""
        step = np.ones(len(rise))
        energy, squared = self.energy.copy(), self.squared.copy()
        scores, p = self.scores.copy(), self.p.copy()
        left = np.arange(len(rise))
        while len(left):
            a, r, before = step[left], rise[left], self.energy[left]
            own = np.arange(len(left)), self.label[left]
            trial = self.scores[left] + a[:, None] * r
            top = trial.max(axis=1)
            exps = np.exp(trial - top[:, None])
            total = exps @ self.ones
            exps /= total[:, None]
            square = self.squared[left] + a * (2.0 * across[left] + a * along[left])
            value = 0.5 * square + (top - trial[own]) + np.log(total)
            fell = value < before
            if not fell.all():
                noise = EPS * (before + np.abs(self.scores[left]).max(axis=1))
                fell |= -slope[left] < noise
            self.trials[left] += 1
            done = left[fell]
            energy[done], squared[done] = value[fell], square[fell]
            scores[done], p[done] = trial[fell], exps[fell]
            left = left[~fell]
            step[left] *= FACTOR
            hopeless = step[left] < SHORTEST
            step[left[hopeless]] = 0.0
            self.idle[left[hopeless]] = Watch.PATIENCE
            left = left[~hopeless]
        self.energy, self.squared, self.scores, self.p = energy, squared, scores, p
        return step
