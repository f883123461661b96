"""A program within a ball, lifted, for spatial branch and bound.

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

from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.regions import Cone, Nearer, Quadrics
from counterpoint.solvers.balls import Ball
from counterpoint.solvers.sheets import Column, Found, Limits, Sheet

__all__ = ["Spatial"]

FloatArray = NDArray[np.float64]

ROUNDED = 16.0 * float(np.finfo(np.float64).eps)
"""How much of its terms a row gives away, so that rounding excludes nothing."""
MANY = 1e6
"""Up to how many steps in the ball whole columns are held to be whole."""
TINY = float(np.finfo(np.float64).tiny)


@final
class Spatial:
    """One person's program within a ball.

    Parameters
    ----------
    ball
        The ball, with some column that can move.
    share
        Points that pay no less than this share of the radius are not looked for; infinite, and the
        price is left out, if the ball has no limit.
    scale
        How fine tolerances are, see `Sheet`.
    """

    def __init__(self, ball: Ball, share: float, scale: float) -> None:
        self.ball, self.program, self.share = ball, ball.program, share
        self.sheet = Sheet(scale)
        self.v = self._add_coordinates()
        self.paid: list[tuple[Column, float]] = [(self.v[i], ball.hot_price[i]) for i in np.flatnonzero(ball.is_hot).tolist()]
        self.is_bounded = np.isfinite(ball.limit)
        self.lengths = self._add_lengths() if self.is_bounded else {}
        self.products = self._add_products()
        if self.is_bounded:
            self._add_price()
        self._add_quadrics()
        self._add_affine()
        self._add_cones()
        self._add_categories()
        self._add_whole()
        if self.is_bounded:
            self._add_changes()

    def search(self, limits: Limits) -> Found:
        """Search; the bound and the values are shares of the radius, and coordinates."""
        found = self.sheet.search(self.v, self.share - self.ball.paid, limits)
        return Found(found.ended, found.bound + self.ball.paid, found.values)

    def _add_coordinates(self) -> list[Column]:
        ball, (low, high) = self.ball, self.ball.bounds
        parts = zip(low.tolist(), high.tolist(), ball.hot_price.tolist(), strict=True)
        return [
            self.sheet.whole(least, most, price=price)
            if ball.is_hot[i]
            else self.sheet.column(least, max(least, most))
            for i, (least, most, price) in enumerate(parts)
        ]

    def _add_lengths(self) -> dict[int, Column]:
        """|v_i| for each coordinate with an absolute price."""
        lengths = {}
        for i in np.flatnonzero(self.ball.is_absolute).tolist():
            lengths[i] = length = self.sheet.column(0.0, 1.0, price=1.0)
            self.paid.append((length, 1.0))
            for sign in (1.0, -1.0):
                self.sheet.row(((self.v[i], sign), (length, -1.0)), high=0.0)
        return lengths

    @cached_property
    def _cones(self) -> list[Cone]:
        return [c for c in self.program.curved if isinstance(c, Cone)]

    @cached_property
    def _forms(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Quadratic conditions over v: (J, p, p), (J, p), (J,), and the sizes of the last's terms.

        ‖M y + c‖ <= radius is one of them.
        """
        cones = [
            Nearer(c.matrix, c.offset, c.slope[None], np.array([c.radius]), 0.0)
            for c in self._cones
            if not c.slope.any()
        ]
        quadrics, ball = Quadrics((*self.program.nonconvex, *cones), self.program.width), self.ball
        forms = ball.basis.T @ quadrics.forms @ ball.basis
        slopes = quadrics.slopes(ball.center[None])[0] @ ball.basis
        each = np.eye(len(quadrics))
        value, size = quadrics.total(np.repeat(ball.center[None], len(each), axis=0), each)
        return forms, slopes, value, size

    def _add_products(self) -> dict[tuple[int, int], Column | None]:
        """V_ij for j <= i, both with an effect on a quadratic condition; None for 0."""
        used = np.flatnonzero(self._forms[0].any(axis=(0, 1))).tolist()
        products = {(i, j): self._product(i, j) for i in used for j in used if j <= i}
        rows = [[products[i, j] for j in used if j <= i] for i in used]
        self._add_ball_times_ball([i for i in used if i in self.lengths], products)
        if len(used) > 1:
            self.sheet.semidefinite([self.v[i] for i in used], rows)
        return products

    def _product(self, i: int, j: int) -> Column | None:
        ball = self.ball
        if ball.is_hot[i] and i == j:
            return self.v[i]
        if ball.is_hot[i] and ball.is_hot[j] and self._are_rivals(i, j):
            return None
        curved = i == j and bool(ball.is_quadratic[i])
        column = self.sheet.column(*self._range(i, j), price=float(curved), degree=2)
        self.sheet.product(self.v[i], self.v[j], column)
        if curved:
            self.paid.append((column, 1.0))
        return column

    def _range(self, i: int, j: int) -> tuple[float, float]:
        """Bounds of v_i v_j: those of its factors, and those of the ball."""
        ball = self.ball
        if not self.is_bounded:
            return (0.0 if i == j else -np.inf), np.inf
        if i == j:
            return 0.0, 1.0
        low, high = ball.bounds
        ends = np.outer([low[i], high[i]], [low[j], high[j]])
        most = 0.25 if ball.is_absolute[i] and ball.is_absolute[j] else 1.0
        most = 0.5 if ball.is_quadratic[i] and ball.is_quadratic[j] else most
        return max(float(ends.min()), -most), min(float(ends.max()), most)

    def _are_rivals(self, i: int, j: int) -> bool:
        """Whether two categories belong to one feature."""
        a, b = self.ball.columns[[i, j]]
        return any(g.start <= a < g.stop and g.start <= b < g.stop for g in self.program.groups)

    def _add_ball_times_ball(self, used: list[int], products: dict[tuple[int, int], Column | None]) -> None:
        """Σ_j |V_ij| <= share · |v_i|."""
        sizes = {(i, i): products[i, i] for i in used}
        for i in used:
            for j in used:
                if j < i:
                    size = self.sheet.column(0.0, 0.25, degree=2)
                    for sign in (1.0, -1.0):
                        self.sheet.row(((products[i, j], sign), (size, -1.0)), high=0.0)
                    sizes[i, j] = sizes[j, i] = size
        for i in used:
            self.sheet.row(
                [(self.lengths[i], -self.share), *((sizes[i, j], 1.0) for j in used)], high=0.0
            )

    def _add_price(self) -> None:
        """What is paid is at most the share that is looked for."""
        ball = self.ball
        for i in np.flatnonzero(ball.is_quadratic).tolist():
            if (i, i) not in self.products:
                square = self.sheet.column(0.0, 1.0, price=1.0, degree=2)
                self.sheet.square(self.v[i], square)
                self.paid.append((square, 1.0))
        self.sheet.row(self.paid, high=self.share - ball.paid)

    def _add_quadrics(self) -> None:
        for form, slope, value, size in zip(*self._forms, strict=True):
            scale = max(np.abs(form).max(), np.abs(slope).max(), TINY)
            terms = [
                (column, form[i, j] * (1.0 if i == j else 2.0) / scale)
                for (i, j), column in self.products.items()
                if column is not None
            ]
            terms += list(zip(self.v, (slope / scale).tolist(), strict=True))
            self.sheet.row(terms, high=(ROUNDED * size - value) / scale)

    def _add_affine(self) -> None:
        affine = self.program.affine
        self._add_rows(affine.matrix, affine.low, affine.high)
        if self.ball.is_full:
            chosen = self.ball.columns[self.ball.is_quadratic]
            case = self.ball.case
            self._add_rows(
                np.eye(self.program.width)[chosen], case.low[0, chosen], case.high[0, chosen]
            )

    def _add_rows(self, matrix: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """low <= matrix · y <= high."""
        ball = self.ball
        block, here = matrix @ ball.basis, matrix @ ball.center
        terms = np.abs(matrix) @ (np.abs(ball.center) + np.abs(ball.x))
        for row, at, size, least, most in zip(block, here, terms, low, high, strict=True):
            scale = max(np.abs(row).max(initial=0.0), TINY)
            lost = [
                ROUNDED * (size + abs(end)) if np.isfinite(end) else 0.0 for end in (least, most)
            ]
            self.sheet.row(
                zip(self.v, (row / scale).tolist(), strict=True),
                (least - at - lost[0]) / scale,
                (most - at + lost[1]) / scale,
            )

    def _add_cones(self) -> None:
        """‖M y + c‖ <= slope · y + radius, where there is a slope."""
        ball, sheet = self.ball, self.sheet
        for cone in self._cones:
            if not cone.slope.any():
                continue
            matrix = np.vstack([cone.matrix, cone.slope])
            offset = np.append(cone.offset, cone.radius)
            block, here = matrix @ ball.basis, matrix @ ball.center + offset
            here[-1] += ROUNDED * np.linalg.norm(
                np.abs(matrix) @ np.abs(ball.center) + np.abs(offset)
            )
            scale = max(np.abs(block).max(), TINY)
            sides = []
            for row, at in zip(block / scale, (here / scale).tolist(), strict=True):
                sides.append(sheet.column(-np.inf, np.inf, degree=2))
                sheet.row([(sides[-1], -1.0), *zip(self.v, row.tolist(), strict=True)], -at, -at)
            sheet.cone(sides[:-1], sides[-1])

    def _add_categories(self) -> None:
        """Σ of a feature's columns = 1."""
        ball, total = self.ball, self.ball.center
        for group in self.program.groups:
            inside = (ball.columns >= group.start) & (ball.columns < group.stop)
            rest = 1.0 - total[group].sum()
            self.sheet.row([(self.v[i], 1.0) for i in np.flatnonzero(inside)], rest, rest)

    def _add_whole(self) -> None:
        """y = x + step · count."""
        ball, steps = self.ball, self.program.steps
        low, high = ball.case.low[0] - ball.x, ball.case.high[0] - ball.x
        for c in ball.columns[steps[ball.columns] > 0.0].tolist():
            furthest = np.floor(ball.reach[c] / steps[c] * (1.0 + ROUNDED))
            if furthest > MANY:  # next to no restriction, and no number to be exact with
                continue
            least, most = np.rint(low[c] / steps[c]), np.rint(high[c] / steps[c])
            count = self.sheet.whole(max(least, -furthest), min(most, furthest))
            scale = max(np.abs(ball.basis[c]).max(), steps[c])
            terms = zip(self.v, (ball.basis[c] / scale).tolist(), strict=True)
            at = (ball.x[c] - ball.center[c]) / scale
            self.sheet.row([*terms, (count, -steps[c] / scale)], at, at)

    def _add_changes(self) -> None:
        """At most so many features change; a switch is on for each that does."""
        at_most, sheet = self.program.at_most, self.sheet
        if at_most is None:
            return
        switches = []
        for block in at_most.blocks:
            switch = sheet.whole(0.0, 1.0)
            switches.append((switch, 1.0))
            for c in range(block.start, block.stop):
                self._add_switch(c, switch)
        sheet.row(switches, high=float(at_most.count))

    def _add_switch(self, c: int, switch: Column) -> None:
        """Column c changes only if the switch is on."""
        ball = self.ball
        low, high = ball.case.low[0, c], ball.case.high[0, c]
        furthest = min(ball.reach[c], max(high - ball.x[c], ball.x[c] - low))
        if not self.program.numeric[c]:
            furthest = 1.0
        scale = max(furthest, TINY)
        at = (ball.center[c] - ball.x[c]) / scale
        row = (ball.basis[c] / scale).tolist()
        for sign in (1.0, -1.0):
            terms = [(v, sign * coefficient) for v, coefficient in zip(self.v, row, strict=True)]
            self.sheet.row([*terms, (switch, -furthest / scale)], high=-sign * at)
