"""Squared distances d(x, p) = (x − p)′ Ω′Ω (x − p), and what a slope in them pulls at.

``distances`` returns the values together with a function that carries a gradient back: from
slope = ∂loss/∂values, (n, P), to the gradients in the prototypes and in Ω.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from counterpoint.lvq.starts import Start

__all__ = ["Diagonal", "Identity", "Matrices", "Matrix", "Metric", "Pull", "unit"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Pull = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
Back = Callable[[FloatArray], FloatArray]


class Metric(ABC):
    """How distances are measured; Ω itself is passed in."""

    attribute: ClassVar[str]
    """The fitted attribute that keeps Ω; empty if nothing is learned."""

    @abstractmethod
    def kept(self, omega: FloatArray, order: IntArray) -> FloatArray:
        """What the attribute holds, for prototypes (P,) in some order."""

    @abstractmethod
    def omega(self, kept: FloatArray) -> FloatArray:
        """Ω, of what the attribute holds."""

    @abstractmethod
    def start(self, start: Start) -> FloatArray:
        """Ω before training, up to a factor: the Euclidean distance, if Ω is square."""

    @abstractmethod
    def unit(self, omega: FloatArray) -> tuple[FloatArray, Back]:
        """Ω scaled so that trace(Ω′Ω) = 1; and how a gradient in it goes back to the unscaled."""

    @abstractmethod
    def distances(
        self, x: FloatArray, prototypes: FloatArray, omega: FloatArray
    ) -> tuple[FloatArray, Pull]:
        """(n, P) the squared distances of x (n, d) to prototypes (P, d); and how they pull."""

    @abstractmethod
    def degeneracy(self, omega: FloatArray) -> tuple[float, FloatArray]:
        """−log det(k ΩΩ′) / k, at least 0, and its gradient; the mean, if there are many Ω.

        0 if all k directions count the same, infinite if one of them is lost.
        """


@final
@dataclass(frozen=True)
class Identity(Metric):
    """The Euclidean distance: Ω is the identity, and nothing is learned."""

    attribute: ClassVar[str] = ""

    def kept(self, omega: FloatArray, order: IntArray) -> FloatArray:
        return omega

    def omega(self, kept: FloatArray) -> FloatArray:
        return kept

    def start(self, start: Start) -> FloatArray:
        return np.empty(0)

    def unit(self, omega: FloatArray) -> tuple[FloatArray, Back]:
        return omega, lambda gradient: gradient

    def distances(
        self, x: FloatArray, prototypes: FloatArray, omega: FloatArray
    ) -> tuple[FloatArray, Pull]:
        def pull(slope: FloatArray) -> tuple[FloatArray, FloatArray]:
            return -2.0 * _inward(x, prototypes, slope), omega

        return _squared(x, prototypes), pull

    def degeneracy(self, omega: FloatArray) -> tuple[float, FloatArray]:
        return 0.0, omega


@final
@dataclass(frozen=True)
class Diagonal(Metric):
    """A weight for each feature: Ω is diagonal, and (d,) holds its diagonal."""

    attribute: ClassVar[str] = "relevances_"

    def kept(self, omega: FloatArray, order: IntArray) -> FloatArray:
        return omega**2

    def omega(self, kept: FloatArray) -> FloatArray:
        return np.sqrt(kept)

    def start(self, start: Start) -> FloatArray:
        return np.ones(start.prototypes.shape[1])

    def unit(self, omega: FloatArray) -> tuple[FloatArray, Back]:
        return unit(omega, axes=(-1,))

    def distances(
        self, x: FloatArray, prototypes: FloatArray, omega: FloatArray
    ) -> tuple[FloatArray, Pull]:
        z, q = x * omega, prototypes * omega

        def pull(slope: FloatArray) -> tuple[FloatArray, FloatArray]:
            inward, outward = _inward(z, q, slope), _outward(z, q, slope)
            stretch = (outward * x).sum(axis=0) - (inward * prototypes).sum(axis=0)
            return -2.0 * inward * omega, 2.0 * stretch

        return _squared(z, q), pull

    def degeneracy(self, omega: FloatArray) -> tuple[float, FloatArray]:
        k = len(omega)
        return -float(np.log(k * omega * omega).mean()), -2.0 / (k * omega)


@final
@dataclass(frozen=True)
class Matrix(Metric):
    """One matrix for all prototypes: Ω is (k, d).

    Parameters
    ----------
    rank
        k, the number of its rows; None for d.
    """

    attribute: ClassVar[str] = "omega_"
    rank: int | None = None

    def kept(self, omega: FloatArray, order: IntArray) -> FloatArray:
        return omega

    def omega(self, kept: FloatArray) -> FloatArray:
        return kept

    def start(self, start: Start) -> FloatArray:
        return start.directions(self.rank or start.prototypes.shape[1])

    def unit(self, omega: FloatArray) -> tuple[FloatArray, Back]:
        return unit(omega, axes=(-2, -1))

    def distances(
        self, x: FloatArray, prototypes: FloatArray, omega: FloatArray
    ) -> tuple[FloatArray, Pull]:
        z, q = x @ omega.T, prototypes @ omega.T

        def pull(slope: FloatArray) -> tuple[FloatArray, FloatArray]:
            inward, outward = _inward(z, q, slope), _outward(z, q, slope)
            return -2.0 * inward @ omega, 2.0 * (outward.T @ x - inward.T @ prototypes)

        return _squared(z, q), pull

    def degeneracy(self, omega: FloatArray) -> tuple[float, FloatArray]:
        return _degeneracy(omega)


@final
@dataclass(frozen=True, eq=False)
class Matrices(Metric):
    """Several matrices: Ω is (M, k, d).

    Parameters
    ----------
    which
        (P,) the matrix of each prototype, 0 … M − 1.
    rank
        k, the number of rows of each; None for d.
    """

    attribute: ClassVar[str] = "omegas_"
    which: IntArray
    rank: int | None = None

    @classmethod
    def per(
        cls, what: Literal["prototype", "class"], owner: IntArray, rank: int | None
    ) -> Matrices:
        """One for each ``"prototype"`` or for each ``"class"``.

        Parameters
        ----------
        what
            Which of the two.
        owner
            (P,) the class of each prototype.
        rank
            k, or None for d.
        """
        return cls(owner if what == "class" else np.arange(len(owner)), rank)

    def kept(self, omega: FloatArray, order: IntArray) -> FloatArray:
        # In the order in which the prototypes first need each.
        needed = self.which[order]
        _, first = np.unique(needed, return_index=True)
        return np.asarray(omega[needed[np.sort(first)]])

    def omega(self, kept: FloatArray) -> FloatArray:
        return kept

    @cached_property
    def owned(self) -> list[IntArray]:
        """The prototypes of each matrix."""
        return [np.flatnonzero(self.which == m) for m in range(int(self.which.max()) + 1)]

    def start(self, start: Start) -> FloatArray:
        one = start.directions(self.rank or start.prototypes.shape[1])
        return np.repeat(one[None], len(self.owned), axis=0)

    def unit(self, omega: FloatArray) -> tuple[FloatArray, Back]:
        return unit(omega, axes=(-2, -1))

    def distances(
        self, x: FloatArray, prototypes: FloatArray, omega: FloatArray
    ) -> tuple[FloatArray, Pull]:
        values = np.empty((len(x), len(prototypes)))
        for own, matrix in zip(self.owned, omega, strict=True):
            values[:, own] = _squared(x @ matrix.T, prototypes[own] @ matrix.T)

        def pull(slope: FloatArray) -> tuple[FloatArray, FloatArray]:
            places, matrices = np.empty_like(prototypes), np.empty_like(omega)
            for m, own in enumerate(self.owned):
                rows = np.flatnonzero(slope[:, own].any(axis=1))
                part = slope[rows][:, own]
                z, q = x[rows] @ omega[m].T, prototypes[own] @ omega[m].T
                inward, outward = _inward(z, q, part), _outward(z, q, part)
                places[own] = -2.0 * inward @ omega[m]
                matrices[m] = 2.0 * (outward.T @ x[rows] - inward.T @ prototypes[own])
            return places, matrices

        return values, pull

    def degeneracy(self, omega: FloatArray) -> tuple[float, FloatArray]:
        return _degeneracy(omega)


def unit(array: FloatArray, axes: tuple[int, ...]) -> tuple[FloatArray, Back]:
    """An array scaled to Euclidean length 1 along some axes, and how gradients go back."""
    length = np.sqrt((array * array).sum(axis=axes, keepdims=True))
    scaled = array / length

    def back(gradient: FloatArray) -> FloatArray:
        along = (scaled * gradient).sum(axis=axes, keepdims=True)
        return (gradient - scaled * along) / length

    return scaled, back


def _squared(z: FloatArray, q: FloatArray) -> FloatArray:
    return np.asarray(cdist(z, q, "sqeuclidean"))


def _inward(z: FloatArray, q: FloatArray, slope: FloatArray) -> FloatArray:
    """(P, k) Σ_i slope_ij (z_i − q_j)."""
    return slope.T @ z - slope.sum(axis=0)[:, None] * q


def _outward(z: FloatArray, q: FloatArray, slope: FloatArray) -> FloatArray:
    """(n, k) Σ_j slope_ij (z_i − q_j)."""
    return slope.sum(axis=1)[:, None] * z - slope @ q


def _degeneracy(omega: FloatArray) -> tuple[float, FloatArray]:
    """Of one matrix (k, d), or the mean of several (M, k, d)."""
    k, many = omega.shape[-2], int(np.prod(omega.shape[:-2]))
    gram = k * omega @ np.swapaxes(omega, -1, -2)
    value = -np.linalg.slogdet(gram)[1] / k
    return float(np.mean(value)), -2.0 * np.linalg.solve(gram, omega) / many
