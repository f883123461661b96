"""Coordinates of a ball, their products and their price, as columns and rows.

Products of coordinates are columns of their own, V_ij = v_i v_j, so that every quadratic condition
is one linear row, whatever its curvature. What makes the relaxation of V = v vᵀ tight is

- for an absolute price, the ball times itself: Σ_j |V_ij| <= |v_i| Σ_j |v_j| <= |v_i|
  (the reformulation-linearization technique);
- positive semidefiniteness of V − v vᵀ, by cuts for its negative eigenvectors;
- the price itself, which is linear in |v| and V.

Source: Sherali & Adams (1999), A Reformulation-Linearization Technique for Solving Discrete and
Continuous Nonconvex Problems; Sherali & Fraticelli (2002), Enhancing RLT relaxations via a new
class of semidefinite cuts, Journal of Global Optimization 22.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.prototypes.solvers.balls import Ball
from counterpoint.prototypes.solvers.cuts import Column
from counterpoint.prototypes.solvers.sheets import Sheet

__all__ = ["Lifted"]

IntArray = NDArray[np.intp]


@final
class Lifted:
    """The columns that stand for a point, and what ties them together.

    Parameters
    ----------
    sheet
        Where they are written.
    ball
        The ball. If it has no limit, the price is left out.
    share
        The largest share of the radius that is paid.
    used
        The coordinates whose products are needed.
    """

    def __init__(self, sheet: Sheet, ball: Ball, share: float, used: IntArray) -> None:
        self.sheet, self.ball, self.share = sheet, ball, share
        self.v = self._coordinates()
        self.lengths = self._lengths() if ball.is_limited else {}
        self.products = {pair: self._product(*pair) for pair in _pairs(used.tolist())}
        if len(used) > 1:
            rows = [[self.products.get((i, j)) for j in used[: k + 1]] for k, i in enumerate(used)]
            # Without lengths, cuts are all there is; with them, nodes are quicker than rounds.
            thorough = bool(ball.is_quadratic.any())
            sheet.semidefinite([self.v[i] for i in used], rows, thorough=thorough)
        if ball.is_limited:
            self._add_ball_times_ball([i for i in used.tolist() if i in self.lengths])
            self._add_price()

    def combined(self, weights: NDArray[np.float64]) -> Iterable[tuple[Column, float]]:
        """The terms of Σ weights_i v_i."""
        return zip(self.v, weights.tolist(), strict=True)

    def _coordinates(self) -> list[Column]:
        ball, (low, high) = self.ball, self.ball.bounds
        parts = zip(low.tolist(), high.tolist(), ball.hot_price.tolist(), strict=True)
        return [
            self.sheet.whole(least, most, price=price)
            if ball.is_hot[i]
            else self.sheet.column(least, max(least, most))
            for i, (least, most, price) in enumerate(parts)
        ]

    def _lengths(self) -> dict[int, Column]:
        """|v_i| for each coordinate with an absolute price."""
        lengths = {}
        for i in np.flatnonzero(self.ball.is_absolute).tolist():
            lengths[i] = self._size_of(self.v[i], self.sheet.column(0.0, 1.0, price=1.0))
        return lengths

    def _size_of(self, column: Column, size: Column) -> Column:
        for sign in (1.0, -1.0):
            self.sheet.row(((column, sign), (size, -1.0)), high=0.0)
        return size

    def _product(self, i: int, j: int) -> Column | None:
        """V_ij; None for 0."""
        ball = self.ball
        if ball.is_hot[i] and ball.is_hot[j]:
            if i == j:
                return self.v[i]
            if ball.are_rivals(i, j):
                return None
        price = 1.0 if i == j and ball.is_quadratic[i] else 0.0
        column = self.sheet.column(*self._range(i, j), price=price, degree=2)
        self.sheet.product(self.v[i], self.v[j], column)
        return column

    def _range(self, i: int, j: int) -> tuple[float, float]:
        """Bounds of v_i v_j: those of its factors, and those of the ball."""
        ball = self.ball
        if not ball.is_limited:
            return (0.0 if i == j else -np.inf), np.inf
        if i == j:
            return 0.0, 1.0
        low, high = ball.bounds
        ends = np.outer([low[i], high[i]], [low[j], high[j]])
        most = 0.25 if ball.is_absolute[i] and ball.is_absolute[j] else 1.0
        most = 0.5 if ball.is_quadratic[i] and ball.is_quadratic[j] else most
        least = max(float(ends.min()), -most)
        return least, max(least, min(float(ends.max()), most))

    def _add_ball_times_ball(self, used: list[int]) -> None:
        """Σ_j |V_ij| <= share · |v_i|, over coordinates with an absolute price."""
        sizes: dict[tuple[int, int], Column] = {}
        for i, j in _pairs(used):
            product = self.products[i, j]
            if product is not None:
                size = product if i == j else self.sheet.column(0.0, 0.25, degree=2)
                sizes[i, j] = sizes[j, i] = product if i == j else self._size_of(product, size)
        for i in used:
            total = [(sizes[i, j], 1.0) for j in used]
            self.sheet.row([(self.lengths[i], -self.share), *total], high=0.0)

    def _add_price(self) -> None:
        ball = self.ball
        paid = [(length, 1.0) for length in self.lengths.values()]
        paid += [(self.v[i], float(ball.hot_price[i])) for i in np.flatnonzero(ball.is_hot)]
        for i in np.flatnonzero(ball.is_quadratic).tolist():
            square = self.products.get((i, i))
            if square is None:
                square = self.sheet.column(0.0, 1.0, price=1.0, degree=2)
                self.sheet.square(self.v[i], square)
            paid.append((square, 1.0))
        self.sheet.row(paid, high=self.share - ball.paid)


def _pairs(used: list[int]) -> list[tuple[int, int]]:
    """(i, j) with j <= i."""
    return [(i, j) for k, i in enumerate(used) for j in used[: k + 1]]
