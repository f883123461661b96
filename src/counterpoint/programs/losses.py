"""Conditions on softmax probabilities: at least so high, and the log-loss of low ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.numerics import LARGEST, LIBRARY, TINY, FloatArray, gamma, relative
from counterpoint.programs.region import Coupling, Cut


@final
@dataclass(frozen=True, eq=False)
class LogSumExp(Coupling):
    """log Σᵢ exp(M y + c)ᵢ <= limit: a softmax probability of at least exp(−limit).

    Multipliers v >= 0 with total t and shares p = v/t give the cut
    t · (pᵀ(M y + c) + H(p)) <= t · limit, H the entropy (the conjugate of log-sum-exp).
    """

    matrix: FloatArray  # (m, d) differences of score rows
    offset: FloatArray  # (m,)
    limit: float

    @property
    def normals(self) -> FloatArray:
        return self.matrix

    def cut(self, multipliers: FloatArray) -> Cut:
        v, m = np.maximum(multipliers, 0.0), self.size
        total = v.sum(axis=1, keepdims=True)
        share = v / np.maximum(total, TINY)
        entropy = -(share * np.log(np.maximum(share, TINY))).sum(axis=1)
        offset = total[:, 0] * (self.limit - entropy) - v @ self.offset
        # A relative error of its argument is an absolute error of a logarithm: hence the 1.
        size = total[:, 0] * (abs(self.limit) + entropy + 1.0) + v @ np.abs(self.offset)
        offset_error = gamma(3 * m + LIBRARY + 8) * size
        return Cut(v @ self.matrix, offset, v, self.sizes, m + 1, offset_error)

    def excess(self, y: FloatArray) -> FloatArray:
        """Return by how much points miss it, in score units, (n,); negative where they do not."""
        z = y @ self.matrix.T + self.offset
        top = z.max(axis=1)
        return np.asarray(top + np.log(np.exp(z - top[:, None]).sum(axis=1)) - self.limit)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        terms = (np.abs(y) + np.abs(x)) @ np.abs(self.matrix.T) + np.abs(self.offset)
        size = terms.max(axis=1) + abs(self.limit)
        return relative(self.excess(y), size)


@final
@dataclass(frozen=True, eq=False)
class LogLoss(Coupling):
    """log(1 + Σᵢ exp(M y + c)ᵢ), −log of a softmax probability: a term of the objective.

    Multipliers v >= 0 with Σ v <= 1 (others are scaled to it) bound it from below by
    vᵀ(M y + c) + H(v, 1 − Σ v), H the entropy: the conjugate of log-sum-exp.
    """

    matrix: FloatArray  # (m, d) differences of score rows: of the other classes to the label's
    offset: FloatArray  # (m,)

    @property
    def normals(self) -> FloatArray:
        return self.matrix

    def amount(self, y: FloatArray) -> FloatArray:
        """Return its values at points, (n,), at least 0."""
        return self.of(y @ self.matrix.T + self.offset)

    @staticmethod
    def of(z: FloatArray) -> FloatArray:
        """Return its values (n,) at score differences (n, m)."""
        top = np.maximum(z.max(axis=1), 0.0)
        total = np.exp(z - top[:, None]).sum(axis=1)
        return np.where(top == 0.0, np.log1p(total), top + np.log(total + np.exp(-top)))

    def cut(self, multipliers: FloatArray) -> Cut:
        v, entropy = self.shares(multipliers)
        offset_error = self.entropy_error(v.sum(axis=1), entropy)
        offset_error += gamma(self.size + LIBRARY + 8) * (v @ np.abs(self.offset))
        offset = -(v @ self.offset) - entropy
        return Cut(v @ self.matrix, offset, v, self.sizes, self.size + 1, offset_error)

    def entropy_error(self, total: FloatArray, entropy: FloatArray) -> FloatArray:
        """Return by how much the `entropy` of shares v with ``total`` Σ v may be off, (n,).

        Its last term is −r log r with r = 1 − Σ v. Σ v is off by some γ Σ v, and r log r changes by
        no more than 1 + |log r| times as much.
        """
        remainder = total * (4.0 - 3.0 * np.log(np.maximum(1.0 - total, gamma(self.size + 2))))
        return gamma(self.size + LIBRARY + 8) * (entropy + remainder)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        return np.zeros(len(y))

    @staticmethod
    def shares(multipliers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return shares v (n, m) and the entropy of v and 1 − Σ v, (n,).

        They are the multipliers >= 0, scaled down where they add up to more than 1: Σ v <= 1 holds
        exactly.
        """
        v = np.minimum(np.fmax(multipliers, 0.0), LARGEST)  # NaN counts as 0
        total = v.sum(axis=1) * (1.0 + gamma(v.shape[1] + 4))
        v = v / np.maximum(total, 1.0)[:, None]
        total = np.minimum(v.sum(axis=1), 1.0)
        remainder = 1.0 - total
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(v > 0.0, v * np.log(v), 0.0).sum(axis=1)
            last = np.where(remainder > 0.0, remainder * np.log1p(-total), 0.0)
        return v, -terms - last
