"""The trade-off of one row: the method for a batch, with as few steps of Python as it takes.

A batch spreads the cost of a NumPy call over its rows; alone, a row is mostly that cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, isfinite, log, log1p
from typing import final

import numpy as np
from scipy.linalg.lapack import dposv

from counterpoint.models.softmax.start import ROUNDS, UNSEEN
from counterpoint.numerics import EPS, FloatArray

__all__ = ["Single"]


DECREASE = 1e-4
HALVINGS = 40
FINE = 6
HALF = log(0.5)


@final
@dataclass(eq=False)
class Single:
    """One row on its way down.

    Parameters
    ----------
    scores, gram
        (K,) z̄ and (K, K) G.
    label, weight
        k and λ.
    """

    scores: FloatArray
    gram: FloatArray
    label: int
    weight: float

    def run(self, steps: int, tolerance: float, gap: float) -> tuple[int, bool]:
        """Newton's method; how many steps it took, and whether it settled."""
        self.size = float(np.abs(self.scores).max())
        self.longest = float(np.diagonal(self.gram).max())
        self._move(self._guess())
        for step in range(steps):
            if self._is_settled(tolerance, gap):
                return step, True
            if not self._descend():
                return step + 1, self._is_settled(tolerance, gap)
        return steps, self._is_settled(tolerance, gap)

    def _is_settled(self, tolerance: float, gap: float) -> bool:
        close = self.gradient <= 2.0 * self.weight * gap * self.value
        return close and self.gradient <= tolerance * tolerance

    def _move(self, u: FloatArray) -> None:
        """Stand at u, and know what follows from it; see `State`."""
        k, weight = self.label, self.weight
        moved = self.gram @ u
        scores = self.scores - moved
        top = float(scores.max())
        lag = top - float(scores[k])
        shares = np.exp(scores - top)
        own = float(shares[k])
        shares[k] = 0.0
        rest = float(shares.sum())
        shares[k] = own
        total = own + rest
        shares /= total
        loss = log1p(rest) if lag == 0.0 else lag + log(total)
        residual = weight * u
        residual -= shares
        residual[k] = weight * float(u[k]) + rest / total
        self.u, self.shares, self.residual = u, shares, residual
        self.value = 0.5 * weight * float(u @ moved) + loss
        self.weighed = self.gram @ residual
        self.gradient = max(float(residual @ self.weighed), 0.0)

    def _direction(self) -> FloatArray:
        """The Newton direction; see `Hessians`."""
        shares, weighed = self.shares, self.weighed
        mean = self.gram @ shares
        root = np.sqrt(shares)
        matrix = self.gram - mean
        matrix -= mean[:, None]
        matrix += float(shares @ mean)
        matrix *= root
        matrix *= root[:, None]
        least = 16.0 * EPS * float(np.diagonal(matrix).max())
        matrix.flat[:: len(root) + 1] += max(self.weight, least)
        h, failed = dposv(matrix, root * (float(shares @ weighed) - weighed), lower=1)[1:]
        if failed:  # rounding took its definiteness: the diagonal alone still points down
            h = root * (float(shares @ weighed) - weighed) / np.diagonal(matrix)
        h -= root * float(root @ h)
        return np.asarray(-(self.residual + root * h) / self.weight)

    def _descend(self) -> bool:
        """One step; whether anything fell."""
        u, value, gradient = self.u, self.value, self.gradient
        step = self._direction()
        slope = float(self.weighed @ step)
        slack = 4.0 * EPS * (abs(value) + self.size + self.longest * float(np.abs(u).sum()))
        fine = -slope <= slack
        length = 1.0
        for _ in range(FINE if fine else HALVINGS):
            self._move(u + length * step)
            lower = value + DECREASE * length * slope + slack
            if self.gradient < gradient if fine else self.value <= lower:
                return True
            length *= 0.5
        self._move(u)
        return False

    def _guess(self) -> FloatArray:
        """u after a few steps on one rival each; see `guess`."""
        k, weight, gram = self.label, self.weight, self.gram
        shares = np.zeros(len(self.scores))
        held = np.full(len(shares), UNSEEN)
        own, ahead = 1.0, self.scores - self.scores[k]
        diagonal = float(gram[k, k])
        for _ in range(min(ROUNDS, len(shares))):
            lead = ahead - held
            lead[k] = -inf
            rival = int(lead.argmax())
            steep = max(float(gram[rival, rival]) - 2.0 * float(gram[rival, k]) + diagonal, 0.0)
            before = float(shares[rival])
            total = before + own
            root = _root(total * steep / weight, -float(ahead[rival]) - steep / weight * before)
            shares[rival], own = total * root, total * (1.0 - root)
            held = np.maximum(_logs(shares) - log(max(own, 1e-300)), UNSEEN)
            toward = gram[rival] - gram[k]
            ahead = ahead - ((total * root - before) / weight) * (toward - toward[k])
        u = shares / weight
        u[k] = 0.0
        u[k] = -float(u.sum())
        return np.asarray(u)


def _logs(values: FloatArray) -> FloatArray:
    return np.log(np.maximum(values, 1e-300))


def _root(alpha: float, beta: float) -> float:
    """About the root t of t = 1 / (1 + exp(α t + β)); `logistic_root` knows all of its digits."""
    if 0.5 * alpha + beta < 0.0:
        return 1.0 - _small_root(alpha, -alpha - beta)
    return _small_root(alpha, beta)


def _small_root(alpha: float, beta: float) -> float:
    """About a root of at most 1/2, by Newton's method on its logarithm."""
    level = log(alpha) - beta if alpha > 0.0 else -inf
    y = log(max(level - log(level), 1.0)) - log(alpha) if level > 1.0 else -beta
    y = min(y, HALF)
    for _ in range(4):
        t = exp(y)
        y = min(y - (y - log1p(-t) + alpha * t + beta) / (1.0 / (1.0 - t) + alpha * t), HALF)
    return exp(y) if isfinite(y) else 0.0
