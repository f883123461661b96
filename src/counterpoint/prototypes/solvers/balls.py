"""Coordinates in which every change that costs no more than a radius lies in about a unit ball.

y = center + basis v. With an absolute price, v_j = w_j δ_j / radius, and Σ |v_j| is the share of
the radius that is paid; with a quadratic one, v = Lᵀ δ / √radius for the price L Lᵀ, and Σ v_j² is
it. A one-hot column is its own coordinate. So tolerances mean the same for every row, no product of
coordinates exceeds 1, and nothing has to be searched without bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program

__all__ = ["Ball"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Ball:
    """What one row can reach for at most a radius.

    ``program``: the program; every column has a price, or is one of a category; ``case``: one
    row, whose bounds leave each column a value; ``radius``: A positive cost; ``limit``: the
    largest coordinate: 1, or infinite, if the radius is to be a unit and no limit.
    """

    program: Program
    case: Cases
    radius: float
    limit: float = 1.0

    @property
    def x(self) -> FloatArray:
        """(d,) the factual point."""
        return np.asarray(self.case.x[0])

    @cached_property
    def columns(self) -> IntArray:
        """(p,) the columns that can move, in the order of their coordinates."""
        return np.flatnonzero(self.case.low[0] < self.case.high[0])

    @cached_property
    def is_hot(self) -> BoolArray:
        """(p,) which coordinates are those of categories."""
        return np.asarray(~self.program.numeric[self.columns])

    @cached_property
    def is_absolute(self) -> BoolArray:
        """(p,) which coordinates have an absolute price."""
        return np.asarray(~self.is_hot & (self.program.price.absolute[self.columns] > 0.0))

    @cached_property
    def is_quadratic(self) -> BoolArray:
        """(p,) which coordinates have a quadratic price."""
        return np.asarray(~self.is_hot & ~self.is_absolute)

    @cached_property
    def _held(self) -> FloatArray:
        """(d,) where columns that cannot move are, relative to the factual point; 0 for others."""
        held = self.case.low[0] == self.case.high[0]
        return np.where(held, self.case.low[0] - self.x, 0.0)

    @cached_property
    def _quadratic(self) -> tuple[FloatArray, FloatArray]:
        """(p, p) the quadratic price of coordinates' columns, and (p,) its slope where held."""
        quadratic, chosen = self.program.price.quadratic, self.columns
        if quadratic.ndim == 1:
            return np.diag(quadratic[chosen]), np.zeros(len(chosen))
        return quadratic[np.ix_(chosen, chosen)], (quadratic @ self._held)[chosen]

    @cached_property
    def basis(self) -> FloatArray:
        """(d, p)."""
        out = np.zeros((self.program.width, len(self.columns)))
        absolute = self.program.price.absolute[self.columns]
        scale = self.radius / np.where(self.is_absolute, absolute, 1.0)
        out[self.columns, np.arange(len(self.columns))] = np.where(self.is_hot, 1.0, scale)
        curved = np.flatnonzero(self.is_quadratic)
        if len(curved):
            form = self._quadratic[0][np.ix_(curved, curved)]
            root = np.linalg.inv(np.linalg.cholesky(form)).T
            out[np.ix_(self.columns[curved], curved)] = np.sqrt(self.radius) * root
        return out

    @cached_property
    def center(self) -> FloatArray:
        """(d,): x, but for columns that are held elsewhere, and what a full price makes of them."""
        out = self.x + self._held
        out[self.columns[self.is_hot]] = 0.0
        curved = np.flatnonzero(self.is_quadratic)
        form, slope = self._quadratic
        if slope[curved].any():
            out[self.columns[curved]] -= np.linalg.solve(
                form[np.ix_(curved, curved)], slope[curved]
            )
        return out

    @cached_property
    def hot_price(self) -> FloatArray:
        """(p,) what a category's coordinate adds to the share that is paid: more, or less."""
        share = self.program.price.absolute[self.columns] / self.radius
        stays = self.x[self.columns] > 0.5
        return np.where(self.is_hot, np.where(stays, -share, share), 0.0)

    @cached_property
    def paid(self) -> float:
        """The share of the radius that is paid at v = 0."""
        stays = self.is_hot & (self.x[self.columns] > 0.5)
        hot = -float(self.hot_price[stays].sum())
        delta = self.center - self.x
        delta[self.columns[self.is_hot]] = 0.0
        return hot + float(self.program.price(delta[None])[0]) / self.radius

    @cached_property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """(p,) least and largest values: of the ball, and of columns with a coordinate each."""
        low = np.where(self.is_hot, self.case.low[0, self.columns], -self.limit)
        high = np.where(self.is_hot, self.case.high[0, self.columns], self.limit)
        plain = self.is_absolute if self.is_full else ~self.is_hot
        if plain.any():
            columns = self.columns[plain]
            unit, center = self.basis[columns, np.flatnonzero(plain)], self.center[columns]
            low[plain] = np.maximum(low[plain], (self.case.low[0, columns] - center) / unit)
            high[plain] = np.minimum(high[plain], (self.case.high[0, columns] - center) / unit)
        return low, high

    @property
    def is_limited(self) -> bool:
        """Whether it is a ball at all."""
        return bool(np.isfinite(self.limit))

    def are_rivals(self, i: int, j: int) -> bool:
        """Whether two coordinates are categories of one feature."""
        a, b = self.columns[i], self.columns[j]
        return any(g.start <= a < g.stop and g.start <= b < g.stop for g in self.program.groups)

    @property
    def is_full(self) -> bool:
        """Whether the price ties columns together, so that a bound on a column is a row."""
        return self.program.price.quadratic.ndim == 2

    @cached_property
    def reach(self) -> FloatArray:
        """(d,) how far each column can get from x for the radius, bounds aside."""
        if not self.is_limited:
            return np.full(self.program.width, np.inf)
        length = np.abs(self.center - self.x)
        absolute = np.abs(self.basis[:, self.is_absolute]).max(axis=1, initial=0.0)
        curved = np.linalg.norm(self.basis[:, self.is_quadratic], axis=1)
        return np.asarray(length + absolute + curved)

    def point(self, v: FloatArray) -> FloatArray:
        """(d,) y within its bounds, with what is whole, a category or unchanged exactly so."""
        y = self.center + self.basis @ v
        steps = self.program.steps
        whole = np.flatnonzero(steps)
        counts = np.rint((y[whole] - self.x[whole]) / steps[whole])
        y[whole] = self.x[whole] + counts * steps[whole]
        for group in self.program.groups:
            y[group] = np.eye(group.stop - group.start)[y[group].argmax()]
        if self.program.at_most is not None:
            moved = np.abs(y - self.x) / np.where(self.reach > 0.0, self.reach, 1.0)
            blocks = self.program.at_most.blocks
            furthest = [-moved[block].max() for block in blocks]
            for b in np.argsort(furthest, kind="stable")[self.program.at_most.count :].tolist():
                y[blocks[b]] = self.x[blocks[b]]
        return np.minimum(np.maximum(y, self.case.low[0]), self.case.high[0])
