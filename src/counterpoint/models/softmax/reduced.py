"""What a solution in K dimensions is, and the two losses whose gradients it balances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.numerics import BoolArray, FloatArray, IntArray

__all__ = ["LogLosses", "LogOdds", "Loss", "Pull", "Reduced", "blocks", "dots", "pair_gram"]


CELLS = 1 << 15
"""Cells of a block of rows: small enough for the cache, large enough that Python does not count."""


@final
@dataclass(frozen=True, eq=False)
class Reduced:
    """Solutions in K dimensions: the answer of a row is x̄ − P⁻¹Aᵀu.

    Parameters
    ----------
    coefficients
        (n, K) u; each row sums to 0.
    weight
        (n,) λ.
    shares
        (n, K) the weights with which the scores of the classes pull, for a trade-off their
        probabilities; they sum to 1.
    gradient
        (n,) the length of the gradient of λ/2 δᵀPδ + loss, in the metric P⁻¹: ``‖∇E‖`` if P is the
        identity.
    iterations
        (n,) Newton steps.
    settled
        (n,): whether the gradient, and for a log-odds its distance from the goal, are as small as
        was asked for.
    """

    coefficients: FloatArray
    weight: FloatArray
    shares: FloatArray
    gradient: FloatArray
    iterations: IntArray
    settled: BoolArray

    @classmethod
    def blank(cls, n: int, classes: int) -> Reduced:
        """For n rows, to be filled in."""
        return cls(
            np.zeros((n, classes)),
            np.full(n, np.inf),
            np.zeros((n, classes)),
            np.zeros(n),
            np.zeros(n, dtype=np.intp),
            np.zeros(n, dtype=bool),
        )


@final
@dataclass(frozen=True, eq=False)
class Pull:
    """A loss of scores, and how it pulls.

    Parameters
    ----------
    value
        (n,) the loss.
    shares
        (K, n) its gradient in the scores, but for the label's own entry: non-negative weights.
    away
        (n,) the gradient in the label's score, with the other sign.
    """

    value: FloatArray
    shares: FloatArray
    away: FloatArray


class Loss(ABC):
    """A convex function of the scores that falls as the label's probability grows."""

    @abstractmethod
    def pull(self, scores: FloatArray, label: IntArray) -> Pull:
        """The loss of (K, n) scores for (n,) labels, and its gradient."""


@final
class LogLosses(Loss):
    """−log p, with p the label's probability: log Σ exp(z) − z_label."""

    def pull(self, scores: FloatArray, label: IntArray) -> Pull:
        columns = np.arange(len(label))
        top = scores.max(axis=0)
        parts = np.exp(scores - top)
        own = parts[label, columns]
        parts[label, columns] = 0.0
        rest = parts.sum(axis=0)
        parts[label, columns] = own
        total = own + rest
        parts /= total
        lag = top - scores[label, columns]
        value = np.where(lag == 0.0, np.log1p(rest), lag + np.log(total))
        return Pull(value, parts, rest / total)


@final
class LogOdds(Loss):
    """−log(p / (1 − p)), with p the label's probability: log Σ exp(z) over the others − z_label."""

    def pull(self, scores: FloatArray, label: IntArray) -> Pull:
        columns = np.arange(len(label))
        others = np.array(scores)
        others[label, columns] = -np.inf
        top = others.max(axis=0)
        others -= top
        np.exp(others, out=others)
        total = others.sum(axis=0)
        others /= total
        value = top - scores[label, columns] + np.log(total)
        return Pull(value, others, np.ones(len(label)))


def dots(a: FloatArray, b: FloatArray) -> FloatArray:
    """(m, n), (m, n) → (n,): the products column by column, summed."""
    return np.einsum("ij,ij->j", a, b)


def pair_gram(gram: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
    """(n,) the squared length of the difference of rows i and j of A, in the metric P⁻¹."""
    return np.maximum(gram[i, i] - 2.0 * gram[i, j] + gram[j, j], 0.0)


def blocks(n: int, classes: int) -> list[slice]:
    """Rows in blocks that fit the cache."""
    size = max(64, CELLS // classes)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
