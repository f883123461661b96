"""A lead that has to be the larger, the farther a point is from the row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.couplings import Affine, Cone
from counterpoint.engine.region import EPS, TINY, Supported

__all__ = ["Lead"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@final
@dataclass(frozen=True, eq=False)
class Lead(Supported):
    """start_v + rate_v ‖y − x‖ <= slope · y + constant for each v, about one row x.

    The norm is that of a cost: Σ absolute |δ|, or √(δᵀ quadratic δ). Each functional g of dual norm
    1 supports it, g · δ <= ‖δ‖, so that the condition is the intersection of half-spaces.

    Parameters
    ----------
    x
        (d,) the row.
    start, rate
        (V,) in score units, and in score units for a unit of distance, not negative.
    slope, constant
        (d,) and a number: the score that is to lead.
    least
        What it leads by at least where it leads by enough, in score units; infinite if it never
        does.
    absolute
        (d,) for the first norm; zeros for the second.
    quadratic
        (d,) for a diagonal matrix, or (d, d).
    """

    is_cone: ClassVar[bool] = True

    x: FloatArray
    start: FloatArray
    rate: FloatArray
    slope: FloatArray
    constant: float
    least: float
    absolute: FloatArray
    quadratic: FloatArray

    def excess(self, y: FloatArray) -> FloatArray:
        needed = self.start + self.rate * self._length(y - self.x)[:, None]
        return np.asarray(needed.max(axis=1) - self._ahead(y))

    def supports(self, y: FloatArray) -> tuple[FloatArray, Affine]:
        delta = y - self.x
        length = self._length(delta)
        needed = self.start + self.rate * length[:, None]
        at = needed.argmax(axis=1)
        pull = self.rate[at, None] * self._functional(delta, length)
        high = self.constant - self.start[at] + pull @ self.x
        none = np.full(len(y), -np.inf)
        cut = Affine(pull - self.slope, none, high, np.ones(len(y)))
        return needed.max(axis=1) - self._ahead(y), cut

    def around(self, y: FloatArray, free: BoolArray, lost: float) -> FloatArray:
        return np.zeros((0, y.shape[1]))

    def first(self) -> Affine:
        """The lead at the least distance at which it can be enough, or a contradiction."""
        row, none = self.slope[None, :], np.array([-np.inf])
        if np.isinf(self.least):
            return Affine(np.zeros_like(row), none, -np.ones(1))
        return Affine(-row, none, np.array([self.constant - self.least]), np.ones(1))

    def place(self, y: FloatArray) -> FloatArray:
        return np.asarray(y[0])

    def turned(self, place: FloatArray, ray: FloatArray) -> None:
        return None

    def models(self, place: FloatArray) -> tuple[Cone, ...]:
        """The condition itself, if its norm is Euclidean; else none."""
        if self.absolute.any():
            return ()
        lines = sorted(set(zip(self.start.tolist(), self.rate.tolist(), strict=True)))
        return tuple(self._cone(*line) for line in lines if line[1] > 0.0)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        reach = np.abs(y) + np.abs(self.x)
        terms = reach @ np.abs(self.slope) + abs(self.constant)
        size = terms + np.abs(self.start).max() + self.rate.max() * self._length(reach)
        over = np.maximum(self.excess(y) - 16.0 * EPS * size, 0.0)
        return np.where(over > 0.0, over / np.maximum(size, TINY), 0.0)

    def _ahead(self, y: FloatArray) -> FloatArray:
        return np.asarray(y @ self.slope + self.constant)

    def _length(self, delta: FloatArray) -> FloatArray:
        """(n,) norms of (n, d) changes."""
        if self.absolute.any():
            return np.asarray(np.abs(delta) @ self.absolute)
        square = np.einsum("ij,ij->i", delta, self._weighed(delta))
        return np.asarray(np.sqrt(np.maximum(square, 0.0)))

    def _weighed(self, delta: FloatArray) -> FloatArray:
        """(n, d) changes times the matrix."""
        diagonal = self.quadratic.ndim == 1
        return np.asarray(delta * self.quadratic if diagonal else delta @ self.quadratic)

    def _functional(self, delta: FloatArray, length: FloatArray) -> FloatArray:
        """(n, d) functionals that are the norm at changes; where nothing moves, along the slope."""
        if self.absolute.any():
            towards = np.where(delta == 0.0, np.sign(self.slope), np.sign(delta))
            return np.asarray(self.absolute * towards)
        return np.asarray(self._weighed(delta) / np.maximum(length, TINY)[:, None])

    @cached_property
    def _root(self) -> FloatArray:
        """(d, d) R with RᵀR the matrix."""
        if self.quadratic.ndim == 1:
            return np.diag(np.sqrt(self.quadratic))
        size, towards = np.linalg.eigh(self.quadratic)
        return np.asarray((towards * np.sqrt(np.maximum(size, 0.0))).T)

    def _cone(self, start: float, rate: float) -> Cone:
        matrix = rate * self._root
        return Cone(matrix, -matrix @ self.x, self.constant - start, self.slope, tight=1.0)
