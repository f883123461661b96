"""What linear inequalities prove of a price over a domain of columns that are free of each other.

With normal · y <= offset for all points y of a region, each of them costs at least

    min over the domain of  price(y − x) + normal · y − offset                       (weak duality)

The minimum is exact, integrality included, because price is separable over the domain: a sum over
columns. (A full matrix is split into a diagonal and a convex rest; any tangent of the rest bounds
it.) With price 0 the same minimum, if positive, proves that the region is empty (Farkas).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.cases import Cases
from counterpoint.costs import Price
from counterpoint.regions import Cut
from counterpoint.separable import Diagonal, SeparableDomain

__all__ = ["Duality", "one_row_bound"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

ROUNDED = 4 * np.finfo(np.float64).eps
"""How much of its terms a bound gives away, so that rounding does not lift it over the truth."""
ROUNDING = 1e-12
"""What a positive Farkas value must exceed, relative to the size of its terms."""
SHY = 1.0 - 1e-15
"""A slope is shrunk to a little less than what a column without curvature bears."""


@final
@dataclass(frozen=True, eq=False)
class Duality:
    """A price over a separable domain.

    Parameters
    ----------
    price
        What a change costs.
    domain
        Where each column may be.
    weighed
        Whether charges are added to the price, which then counts as each person weighs it.
    """

    price: Price
    domain: SeparableDomain
    weighed: bool

    def bound(self, cases: Cases, cut: Cut, at: FloatArray | None = None) -> FloatArray:
        """(n,) what all points cost at least that meet normals (n, d) and offsets (n,).

        A full quadratic price is bounded by its tangent ``at`` (n, d) points; None for x itself.
        """
        normal, offset = cut
        if self.weighed:
            normal, offset = normal / cases.weights[:, None], offset / cases.weights
        if self.price.quadratic.ndim == 2:
            delta = (at - cases.x) if at is not None else np.zeros_like(cases.x)
            tangent = delta @ self.price.above_floor
            offset = offset + np.einsum("ij,ij->i", tangent, delta)
            slope = normal + 2.0 * tangent
        else:
            shrink = self._shrink(normal, cases)
            if shrink is not None:
                normal, offset = normal * shrink[:, None], offset * shrink
            slope = normal
        least = self.domain.least(Diagonal(self.price.absolute, self.price.floor), slope, cases)
        here = np.einsum("ij,ij->i", normal, cases.x)
        size = np.einsum("ij,ij->i", np.abs(normal), np.abs(cases.x)) + np.abs(offset)
        bound = np.maximum(least + here - offset - ROUNDED * size, 0.0)
        return np.asarray(bound * cases.weights) if self.weighed else bound

    def refutes(self, cases: Cases, cut: Cut) -> BoolArray:
        """(n,): whether no point of the domain meets normals (n, d) and offsets (n,)."""
        normal, offset = cut
        zero = np.zeros(normal.shape[1])
        least = self.domain.least(Diagonal(zero, zero), normal, cases)
        least += np.einsum("ij,ij->i", normal, cases.x)
        terms = np.abs(normal) * np.maximum(np.abs(cases.x), _largest(cases))
        with np.errstate(invalid="ignore"):
            size = np.abs(offset) + np.where(normal != 0, terms, 0.0).sum(axis=1)
        return np.asarray(least - offset > ROUNDING * np.where(np.isfinite(size), size, 0.0))

    def _shrink(self, slope: FloatArray, cases: Cases) -> FloatArray | None:
        """(n,) factors in [0, 1] that keep columns without curvature bounded; None if all 1."""
        flat = (self.price.floor == 0.0) & self.domain.numeric
        if not flat.any():
            return None
        weight = self.price.absolute[flat]
        slope, low, high = slope[:, flat], cases.low[:, flat], cases.high[:, flat]
        if cases.unbounded:
            excess = (np.abs(slope) / np.maximum(weight, 1e-300)).max(axis=1)
        else:
            open_slope = np.maximum(
                np.where(np.isinf(high), -slope, 0.0), np.where(np.isinf(low), slope, 0.0)
            )
            excess = (open_slope / np.maximum(weight, 1e-300)).max(axis=1)
        if not (excess > 1.0).any():
            return None
        return np.where(excess > 1.0, SHY / np.maximum(excess, 1.0), 1.0)


def one_row_bound(price: Price, row: FloatArray, x: FloatArray, weighed: Cut) -> FloatArray:
    """(n,) `Duality.bound` for one row (d,) and columns without bounds, without an (n, d) array.

    Parameters
    ----------
    price
        Separable.
    row
        The normal.
    x
        (n, d) the people.
    weighed
        What each weighs the row by, and the offset: both (n,).
    """
    weight, offset = weighed
    flat = price.quadratic == 0
    with np.errstate(divide="ignore", invalid="ignore"):
        steepest = np.nan_to_num(np.abs(row[flat]) / price.absolute[flat]).max(initial=0.0)
        curved = (row[~flat] ** 2 / (4.0 * price.quadratic[~flat])).sum()
    shrink = SHY / np.maximum(np.abs(weight) * steepest, SHY)
    weight, offset = weight * shrink, offset * shrink
    least = -weight * weight * curved
    size = np.abs(weight) * (np.abs(x) @ np.abs(row)) + np.abs(offset)
    return np.maximum(least + weight * (x @ row) - offset - ROUNDED * size, 0.0)


def _largest(cases: Cases) -> FloatArray:
    """(n, d) the largest finite bound of each column."""
    low = np.where(np.isfinite(cases.low), np.abs(cases.low), 0.0)
    high = np.where(np.isfinite(cases.high), np.abs(cases.high), 0.0)
    return np.maximum(low, high)
