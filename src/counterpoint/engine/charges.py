"""Soft conditions: what points are charged instead of being excluded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.engine.region import Charge, Cut
from counterpoint.numerics import LIBRARY, FloatArray, gamma

__all__ = ["LogLoss"]


@final
@dataclass(frozen=True, eq=False)
class LogLoss(Charge):
    """log(1 + Σᵢ exp(M y + c)ᵢ): −log of a softmax probability.

    Multipliers v >= 0 with Σ v <= 1 (others are scaled to it) bound the charge from below by
    vᵀ(M y + c) + H(v, 1 − Σ v), H the entropy: the conjugate of log-sum-exp.

    Parameters
    ----------
    matrix
        (m, d) differences of score rows: of the other classes to the label's.
    offset
        (m,).
    """

    matrix: FloatArray
    offset: FloatArray

    @property
    def normals(self) -> FloatArray:
        return self.matrix

    @property
    def size(self) -> int:
        return len(self.matrix)

    def amount(self, y: FloatArray) -> FloatArray:
        return self.of(y @ self.matrix.T + self.offset)

    @staticmethod
    def of(z: FloatArray) -> FloatArray:
        """(n, m) score differences → (n,) what they are charged."""
        top = np.maximum(z.max(axis=1), 0.0)
        rest = np.exp(z - top[:, None]).sum(axis=1)
        return np.where(top == 0.0, np.log1p(rest), top + np.log(rest + np.exp(-top)))

    def cut(self, multipliers: FloatArray) -> Cut:
        v, entropy = self.shares(multipliers)
        m, total = self.size, v.sum(axis=1)
        # −r log r of what is left, r = 1 − Σ v: Σ v is off by some γ Σ v, and r log r changes by no
        # more than 1 + |log r| times as much.
        left = total * (4.0 - 3.0 * np.log(np.maximum(1.0 - total, gamma(m + 2))))
        doubt = gamma(m + LIBRARY + 8) * (entropy + left + v @ np.abs(self.offset))
        return Cut(v @ self.matrix, -(v @ self.offset) - entropy, v, self.sizes, m + 1, doubt)

    @staticmethod
    def shares(multipliers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, m) v >= 0 with Σ v <= 1, exactly, and (n,) the entropy of v and 1 − Σ v."""
        v = np.maximum(np.nan_to_num(multipliers), 0.0)
        total = v.sum(axis=1) * (1.0 + gamma(v.shape[1] + 4))
        v = v / np.maximum(total, 1.0)[:, None]
        total = np.minimum(v.sum(axis=1), 1.0)
        rest = 1.0 - total
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(v > 0.0, v * np.log(v), 0.0).sum(axis=1)
            last = np.where(rest > 0.0, rest * np.log1p(-total), 0.0)
        return v, -terms - last
