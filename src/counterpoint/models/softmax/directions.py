"""Newton directions for many rows: one stacked system, K × K for each row.

With p the shares, W = diag(p) − ppᵀ and d = √p, the step solves (λI + WG) Δu = −r. It is
Δu = −(r + D h)/λ with

    (λI + D C D) h = −D (I − 1pᵀ) G r,

where C is the Gram matrix of the rows of A centred at their p-weighted mean. The matrix is
symmetric and positive definite whatever p and G are, duplicate rows and vanishing shares included,
and its diagonal holds most of it: conjugate gradients need a few products with G, which a batch
shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.models.softmax.reduced import dots
from counterpoint.numerics import TINY, FloatArray

__all__ = ["Hessians"]


FEW = 1 << 14
"""Entries of the matrices of rows that are solved directly: one call of LAPACK is the quickest."""
NEARLY_SINGULAR = 16.0 * np.finfo(np.float64).eps
"""The least multiple of the identity, relative to the largest diagonal entry, that LAPACK gets."""
STALLED = 1e-28
"""What conjugate gradients cannot reduce further, relative to where they began."""


@final
@dataclass(frozen=True, eq=False)
class Hessians:
    """λI + D C D of n rows.

    Parameters
    ----------
    gram
        (K, K) G.
    shares
        (K, n) p.
    weight
        (n,) λ.
    """

    gram: FloatArray
    shares: FloatArray
    weight: FloatArray

    @cached_property
    def root(self) -> FloatArray:
        """(K, n) d = √p."""
        return np.sqrt(self.shares)

    @cached_property
    def mean(self) -> FloatArray:
        """(K, n) G p."""
        return self.gram @ self.shares

    @cached_property
    def spread(self) -> FloatArray:
        """(n,) pᵀ G p."""
        return dots(self.shares, self.mean)

    @cached_property
    def diagonal(self) -> FloatArray:
        """(K, n) the diagonal of the matrices."""
        centred = np.diagonal(self.gram)[:, None] - 2.0 * self.mean + self.spread
        return self.weight + self.shares * np.maximum(centred, 0.0)

    def direction(
        self, residual: FloatArray, weighed: FloatArray, forcing: FloatArray
    ) -> FloatArray:
        """(K, n) Δu with (λI + WG) Δu = −r.

        Parameters
        ----------
        residual, weighed
            (K, n) r and G r.
        forcing
            (n,) how exactly: the error in units of the direction itself.
        """
        right = self.root * (dots(self.shares, weighed) - weighed)
        k, n = right.shape
        few = n * k * k <= FEW
        h = self._direct(right, np.arange(n)) if few else self._iterated(right, forcing)
        h -= self.root * dots(self.root, h)
        return -(residual + self.root * h) / self.weight

    def _iterated(self, right: FloatArray, forcing: FloatArray) -> FloatArray:
        """Conjugate gradients, preconditioned by the diagonal; rows that resist, directly."""
        inverse = 1.0 / self.diagonal
        h, left = np.zeros_like(right), right
        step = inverse * left
        size = dots(left, step)
        wanted = np.maximum(forcing * forcing, STALLED) * size
        for _ in range(2 * min(len(right), 20) + 4):
            active = size > wanted
            if not active.any():
                return h
            image = self._times(step)
            length = np.where(active, size / np.maximum(dots(step, image), TINY), 0.0)
            h += length * step
            left = left - length * image
            scaled = inverse * left
            following = dots(left, scaled)
            step = scaled + np.where(active, following / np.maximum(size, TINY), 0.0) * step
            size = np.where(active, following, size)
        resisting = np.flatnonzero(~(size <= wanted))
        h[:, resisting] = self._direct(right[:, resisting], resisting)
        return h

    def _times(self, vectors: FloatArray) -> FloatArray:
        """(K, n) the matrices times vectors."""
        scaled = self.root * vectors
        image = self.gram @ scaled
        total = scaled.sum(axis=0)
        image -= self.mean * total
        image += self.spread * total - dots(self.mean, scaled)
        image *= self.root
        image += self.weight * vectors
        return np.asarray(image)

    def _direct(self, right: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
        """The systems of some rows by LAPACK."""
        if not len(rows):
            return right
        root, mean = self.root[:, rows].T, self.mean[:, rows].T
        matrices = self.gram - mean[:, :, None] - mean[:, None, :]
        matrices += self.spread[rows, None, None]
        matrices *= root[:, :, None]
        matrices *= root[:, None, :]
        classes = np.arange(len(right))
        least = NEARLY_SINGULAR * np.einsum("ijj->ij", matrices).max(axis=1)
        matrices[:, classes, classes] += np.maximum(self.weight[rows], least)[:, None]
        return np.asarray(np.linalg.solve(matrices, right.T[:, :, None])[:, :, 0].T)
