"""A program within a ball, lifted, for spatial branch and bound.

Every change that costs no more than a radius lies in about a unit ball: y = center + basis v. With
an absolute price, v_j = w_j δ_j / radius, and Σ |v_j| is the share of the radius that is paid; with
a quadratic one, v = Lᵀ δ / √radius for the price L Lᵀ, and Σ v_j² is it. A one-hot column is a
coordinate itself. So tolerances mean the same for every row, no product of coordinates exceeds 1,
and nothing has to be searched without bounds.

Products of coordinates are columns of their own, V_ij = v_i v_j, so that every quadratic condition
is one linear row, whatever its curvature. What makes the relaxation of V = v vᵀ tight is

- for an absolute price, the ball times itself: Σ_j |V_ij| <= |v_i| Σ_j |v_j| <= |v_i|
  (the reformulation-linearization technique);
- the price itself, which is linear in |v| and V.

Source: Sherali & Adams (1999), A Reformulation-Linearization Technique for Solving Discrete and
Continuous Nonconvex Problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple, final

import numpy as np
from pyscipopt import SCIP_PARAMSETTING, Model, sqrt
from pyscipopt.scip import Expr, ExprCons, Term

from counterpoint.errors import SolverFailure
from counterpoint.families.prototypes.lagrangian import Quadrics
from counterpoint.families.prototypes.nearer import QuadraticDifference, curvature_of
from counterpoint.numerics import EPS, TINY, FloatArray
from counterpoint.programs.conditions import Cone
from counterpoint.programs.program import Program
from counterpoint.programs.region import Cases
from counterpoint.rows import lattice

__all__ = ["Ball", "ScipFound", "Spatial", "scip_errors"]

ROUNDED = 16.0 * EPS
"""How much of its terms a row gives away, so that rounding excludes nothing."""
PARAMETERS: dict[str, Any] = {
    "propagating/obbt/freq": -1,
    "misc/allowstrongdualreds": False,  # nothing is cut off but what is impossible or too dear
    "misc/allowweakdualreds": False,
    "lp/presolving": False,  # it prints to the standard error, whatever it is told
}
ENDS = ("optimal", "gaplimit", "infeasible")
"""What SCIP says where nothing is left to search."""


def scip_errors() -> ExitStack:
    """A context in which SCIP's errors, which are bare exceptions, become `SolverFailure`."""

    def translate(_kind: object, error: BaseException | None, _trace: object) -> None:
        if "SCIP:" in str(error):
            raise SolverFailure(f"SCIP failed: {error}") from error

    stack = ExitStack()
    stack.push(translate)
    return stack


@final
class ScipFound(NamedTuple):
    """What a search found."""

    ended: bool  # whether nothing is left to search
    bound: float  # a lower bound on the objective; infinite if no point is below the limit
    values: FloatArray | None = None  # (p,) the coordinates of the best point


@final
class Column(NamedTuple):
    """A column: a coordinate, or a product of two."""

    variable: Any  # SCIP's own
    scale: float  # what it is in SCIP where it is 1


@final
class Ball:
    """What one row can reach for at most a radius, in p coordinates.

    Every column has a price, or is one of a category; the row's bounds leave each column a value.
    ``limit``: the largest coordinate: 1, or infinite, if the radius is to be a unit and no limit.
    """

    def __init__(self, program: Program, case: Cases, radius: float, limit: float = 1.0) -> None:
        self.program, self.case, self.radius = program, case, radius
        self.is_limited = bool(np.isfinite(limit))
        encoded_cost, x, low, high = program.encoded_cost, case.x[0], case.low[0], case.high[0]
        self.x, self.columns = x, np.flatnonzero(low < high)  # those that can move
        p, at = len(self.columns), self.columns
        absolute = encoded_cost.absolute[at]
        self.is_hot = ~program.numeric[at]
        self.is_absolute = ~self.is_hot & (absolute > 0.0)
        self.is_quadratic = ~self.is_hot & ~self.is_absolute
        # whether the price ties columns together, so that a bound on a column is a row
        self.is_full = encoded_cost.quadratic.ndim == 2
        held = np.where(low == high, low - x, 0.0)
        self.basis, self.center = np.zeros((program.width, p)), x + held  # (d, p) and (d,)
        self.center[at[self.is_hot]] = 0.0
        scale = radius / np.where(self.is_absolute, absolute, 1.0)
        self.basis[at, np.arange(p)] = np.where(self.is_hot, 1.0, scale)
        nonlinear = np.flatnonzero(self.is_quadratic)
        if len(nonlinear):
            full = encoded_cost.quadratic if self.is_full else np.diag(encoded_cost.quadratic)
            form = full[np.ix_(at[nonlinear], at[nonlinear])]
            root = np.linalg.inv(np.linalg.cholesky(form)).T
            self.basis[np.ix_(at[nonlinear], nonlinear)] = np.sqrt(radius) * root
            slope = (full @ held)[at[nonlinear]]
            if slope.any():
                self.center[at[nonlinear]] -= np.linalg.solve(form, slope)
        # (p,) what a category's coordinate adds to the share that is paid: more, or less; and the
        # share that is paid at v = 0
        already_satisfied = self.is_hot & (x[at] > 0.5)
        share = np.where(self.is_hot, absolute / radius, 0.0)
        self.hot_price = np.where(already_satisfied, -share, share)
        delta = self.center - x
        delta[at[self.is_hot]] = 0.0
        self.paid = (
            float(share[already_satisfied].sum())
            + float(encoded_cost(delta[None], np.zeros((1, len(delta))))[0]) / radius
        )
        # (p,) least and largest values: of the ball, and of columns with a coordinate each
        self.low = np.where(self.is_hot, low[at], -limit)
        self.high = np.where(self.is_hot, high[at], limit)
        plain = np.flatnonzero(self.is_absolute if self.is_full else ~self.is_hot)
        unit, middle = self.basis[at[plain], plain], self.center[at[plain]]
        self.low[plain] = np.maximum(self.low[plain], (low[at[plain]] - middle) / unit)
        self.high[plain] = np.minimum(self.high[plain], (high[at[plain]] - middle) / unit)
        # (d,) how far each column can get from x for the radius, bounds aside
        self.reach = np.full(program.width, np.inf)
        if self.is_limited:
            straight = np.abs(self.basis[:, self.is_absolute]).max(axis=1, initial=0.0)
            round_ = np.linalg.norm(self.basis[:, self.is_quadratic], axis=1)
            self.reach = np.abs(self.center - x) + straight + round_

    def are_rivals(self, i: int, j: int) -> bool:
        """Whether two coordinates are categories of one feature."""
        a, b = self.columns[i], self.columns[j]
        return any(g.start <= a < g.stop and g.start <= b < g.stop for g in self.program.groups)

    def point(self, v: FloatArray) -> FloatArray:
        """(d,) y within its bounds, with what is whole, a category or unchanged exactly so."""
        y = self.center + self.basis @ v
        steps = self.program.steps
        whole = np.flatnonzero(steps)
        y[whole] = lattice.nearest(self.x[whole], y[whole], steps[whole])
        for group in self.program.groups:
            y[group] = np.eye(group.stop - group.start)[y[group].argmax()]
        if self.program.at_most is not None:
            moved = np.abs(y - self.x) / np.where(self.reach > 0.0, self.reach, 1.0)
            blocks = self.program.at_most.blocks
            furthest = [-moved[block].max() for block in blocks]
            for b in np.argsort(furthest, kind="stable")[self.program.at_most.count :].tolist():
                y[blocks[b]] = self.x[blocks[b]]
        return np.minimum(np.maximum(y, self.case.low[0]), self.case.high[0])


@final
class Spatial:
    """One row's program within a ball, with some column that can move, as a model in SCIP.

    ``share``: points that pay no less than this share of the radius are not looked for; infinite,
    and the price and the number of changes are left out, if the ball has no limit. ``scale``: what
    SCIP sees in the place of 1, and its square for products: its tolerances are absolute, and so
    are 1e-6 / scale² relative to 1. Coordinates and coefficients are 1 at most, or about that.
    """

    def __init__(self, ball: Ball, share: float, scale: float) -> None:
        self.ball, self.program, self.share = ball, ball.program, share
        self.scale, self.unit = scale, scale * scale
        self.model = Model()
        self.model.hideOutput()
        for name, value in PARAMETERS.items():
            self.model.setParam(name, value)
        self.model.setHeuristics(SCIP_PARAMSETTING.OFF)
        self.cones = [c for c in self.program.nonlinear if isinstance(c, Cone)]
        self.v = [
            self._whole(low, high, encoded_cost) if hot else self._column(low, max(low, high))
            for low, high, encoded_cost, hot in zip(
                ball.low.tolist(), ball.high.tolist(), ball.hot_price.tolist(), ball.is_hot,
                strict=True,
            )
        ]  # fmt: skip
        forms = self._forms()
        used = np.flatnonzero(forms[0].any(axis=(0, 1))).tolist()
        lengths = {}  # |v_i| for each coordinate with an absolute price
        for i in np.flatnonzero(ball.is_absolute).tolist() if ball.is_limited else ():
            lengths[i] = self._size_of(self.v[i], self._column(0.0, 1.0, encoded_cost=1.0))
        self.products = {pair: self._product(*pair) for pair in _pairs(used)}
        if ball.is_limited:
            self._add_ball_times_ball(lengths, [i for i in used if i in lengths])
            self._add_price(lengths)
        self._add_quadrics(*forms)
        affine = self.program.affine
        self._add_rows(affine.matrix, affine.low, affine.high)
        if ball.is_full:
            tied = ball.columns[ball.is_quadratic]
            low, high = ball.case.low[0, tied], ball.case.high[0, tied]
            self._add_rows(np.eye(self.program.width)[tied], low, high)
        self._add_cones()
        for group in self.program.groups:
            inside = (ball.columns >= group.start) & (ball.columns < group.stop)
            rest = 1.0 - ball.center[group].sum()
            self._row([(self.v[i], 1.0) for i in np.flatnonzero(inside)], rest, rest)
        self._add_whole()
        if ball.is_limited:
            self._add_changes()

    def search(
        self, gap: float, seconds: float | None = None, *, first: bool = False, nodes: int = -1
    ) -> ScipFound:
        """Search; the bound is a share of the radius.

        ``gap``: the relative gap at which to stop; ``seconds``: or after so many; ``first``: or at
        the first point; ``nodes``: or after so many nodes, −1 for any number.
        """
        model, paid = self.model, self.ball.paid
        model.setParam("limits/gap", gap)
        model.setParam("limits/bestsol", 1 if first else -1)
        model.setParam("limits/nodes", nodes)
        if seconds is not None:
            model.setParam("limits/time", seconds)
        if np.isfinite(self.share):
            model.setObjlimit((self.share - paid) * self.unit)
        model.optimize()
        status = model.getStatus()
        if status == "userinterrupt":
            raise KeyboardInterrupt
        values = None
        if model.getNSols():
            best = model.getBestSol()
            values = np.array([model.getSolVal(best, c.variable) / c.scale for c in self.v])
        bound = np.inf if status == "infeasible" else float(model.getDualbound()) / self.unit
        return ScipFound(status in ENDS, bound + paid, values)

    # SCIP's language

    def _column(
        self, low: float, high: float, *, encoded_cost: float = 0.0, degree: int = 1
    ) -> Column:
        """A new column: a coordinate, or a product of two if its degree is 2."""
        scale = self.scale**degree
        paid = encoded_cost * self.unit / scale
        return Column(self.model.addVar(lb=low * scale, ub=high * scale, obj=paid), scale)

    def _whole(self, low: float, high: float, encoded_cost: float = 0.0) -> Column:
        """A new column of whole numbers."""
        return Column(
            self.model.addVar(lb=low, ub=high, obj=encoded_cost * self.unit, vtype="I"), 1.0
        )

    def _row(
        self, terms: Iterable[tuple[Column, float]], low: float = -np.inf, high: float = np.inf
    ) -> None:
        """low <= Σ coefficient · column <= high, widened by what is too faint to be written."""
        found: dict[Any, float] = {}
        faint = 0.0
        for column, coefficient in terms:
            if abs(coefficient) > 1e-9:  # what SCIP takes for 0; the row gives way by as much
                term = Term(column.variable)
                more = float(coefficient) * self.unit / column.scale
                found[term] = found.get(term, 0.0) + more
            else:
                faint += abs(coefficient)
        low, high = float(low - faint) * self.unit, float(high + faint) * self.unit
        if found:
            sides = {"lhs": low} if np.isfinite(low) else {}
            sides |= {"rhs": high} if np.isfinite(high) else {}
            if sides:
                self.model.addCons(ExprCons(Expr(found), **sides))
        elif low > 0.0 or high < 0.0:
            self.model.addCons(self.model.addVar(lb=0.0, ub=0.0) >= 1.0)

    def _times(self, a: Column, b: Column, product: Column) -> Any:
        """a · b − product, of degree 2."""
        weight = product.scale / (a.scale * b.scale)
        return Expr({Term(a.variable, b.variable): weight, Term(product.variable): -1.0})

    def _combined(self, weights: FloatArray) -> Iterator[tuple[Column, float]]:
        """The terms of Σ weights_i v_i."""
        return zip(self.v, weights.tolist(), strict=True)

    # The columns that stand for a point, and what ties them together

    def _size_of(self, column: Column, size: Column) -> Column:
        for sign in (1.0, -1.0):
            self._row(((column, sign), (size, -1.0)), high=0.0)
        return size

    def _product(self, i: int, j: int) -> Column | None:
        """V_ij; None for 0."""
        ball = self.ball
        if ball.is_hot[i] and ball.is_hot[j]:
            if i == j:
                return self.v[i]
            if ball.are_rivals(i, j):
                return None
        encoded_cost = 1.0 if i == j and ball.is_quadratic[i] else 0.0
        column = self._column(*self._range(i, j), encoded_cost=encoded_cost, degree=2)
        self.model.addCons(self._times(self.v[i], self.v[j], column) == 0.0)
        return column

    def _range(self, i: int, j: int) -> tuple[float, float]:
        """Bounds of v_i v_j: those of its factors, and those of the ball."""
        ball = self.ball
        if not ball.is_limited:
            return (0.0 if i == j else -np.inf), np.inf
        if i == j:
            return 0.0, 1.0
        ends = np.outer([ball.low[i], ball.high[i]], [ball.low[j], ball.high[j]])
        most = 0.25 if ball.is_absolute[i] and ball.is_absolute[j] else 1.0
        most = 0.5 if ball.is_quadratic[i] and ball.is_quadratic[j] else most
        least = max(float(ends.min()), -most)
        return least, max(least, min(float(ends.max()), most))

    def _add_ball_times_ball(self, lengths: dict[int, Column], used: list[int]) -> None:
        """Σ_j |V_ij| <= share · |v_i|, over coordinates with an absolute price."""
        sizes: dict[tuple[int, int], Column] = {}
        for i, j in _pairs(used):
            product = self.products[i, j]
            if product is not None:
                size = product
                if i != j:  # |v_i| + |v_j| <= 1
                    size = self._size_of(product, self._column(0.0, 0.25, degree=2))
                sizes[i, j] = sizes[j, i] = size
        for i in used:
            total = [(sizes[i, j], 1.0) for j in used]
            self._row([(lengths[i], -self.share), *total], high=0.0)

    def _add_price(self, lengths: dict[int, Column]) -> None:
        ball = self.ball
        paid = [(length, 1.0) for length in lengths.values()]
        paid += [(self.v[i], float(ball.hot_price[i])) for i in np.flatnonzero(ball.is_hot)]
        for i in np.flatnonzero(ball.is_quadratic).tolist():
            square = self.products.get((i, i))
            if square is None:
                square = self._column(0.0, 1.0, encoded_cost=1.0, degree=2)
                self.model.addCons(self._times(self.v[i], self.v[i], square) <= 0.0)
            paid.append((square, 1.0))
        self._row(paid, high=self.share - ball.paid)

    # The conditions

    def _forms(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Quadratic conditions over v: (J, p, p), (J, p), (J,), and the sizes of the last's terms.

        ‖M y + c‖ <= radius is one of them.
        """
        ball, conditions = self.ball, list(curvature_of(self.program).quadrics.conditions)
        for c in self.cones:
            if not c.slope.any():
                radius = np.full(1, c.radius)
                conditions.append(
                    QuadraticDifference(c.matrix, c.offset, c.slope[None], radius, 0.0)
                )
        quadrics = Quadrics(conditions, self.program.width)
        forms = ball.basis.T @ quadrics.forms @ ball.basis
        slopes = quadrics.slopes(ball.center[None])[0] @ ball.basis
        each = np.eye(len(quadrics))
        value, size, *_ = quadrics.expanded(np.repeat(ball.center[None], len(each), axis=0), each)
        return forms, slopes, value, size

    def _add_quadrics(self, *forms: FloatArray) -> None:
        for form, slope, value, size in zip(*forms, strict=True):
            scale = max(np.abs(form).max(), np.abs(slope).max(), TINY)
            terms = [
                (column, form[i, j] * (1.0 if i == j else 2.0) / scale)
                for (i, j), column in self.products.items()
                if column is not None
            ]
            terms += self._combined(slope / scale)
            self._row(terms, high=(ROUNDED * size - value) / scale)

    def _add_rows(self, matrix: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """low <= matrix · y <= high."""
        ball = self.ball
        block, here = matrix @ ball.basis, matrix @ ball.center
        terms = np.abs(matrix) @ (np.abs(ball.center) + np.abs(ball.x))
        scale = np.maximum(np.abs(block).max(axis=1, initial=0.0), TINY)
        ends = []
        for limit, sign in ((low, -1.0), (high, 1.0)):
            finite = np.where(np.isfinite(limit), limit, 0.0)
            given = finite - here + sign * ROUNDED * (terms + np.abs(finite))
            ends.append(np.where(np.isfinite(limit), given, limit) / scale)
        for row, least, most in zip(block / scale[:, None], *ends, strict=True):
            self._row(self._combined(row), least, most)

    def _add_cones(self) -> None:
        """‖M y + c‖ <= slope · y + radius, where there is a slope."""
        ball = self.ball
        for cone in self.cones:
            if not cone.slope.any():
                continue
            matrix = np.vstack([cone.matrix, cone.slope])
            offset = np.append(cone.offset, cone.radius)
            block, here = matrix @ ball.basis, matrix @ ball.center + offset
            terms = np.abs(matrix) @ np.abs(ball.center) + np.abs(offset)
            here[-1] += ROUNDED * np.linalg.norm(terms)
            scale = max(np.abs(block).max(), TINY)
            sides = []
            for row, at in zip(block / scale, (here / scale).tolist(), strict=True):
                sides.append(self._column(-np.inf, np.inf, degree=2).variable)
                self._row([(Column(sides[-1], self.unit), -1.0), *self._combined(row)], -at, -at)
            squares = Expr({Term(side, side): 1.0 for side in sides[:-1]})
            self.model.addCons(sqrt(squares) <= sides[-1])

    def _add_whole(self) -> None:
        """y = x + step · count."""
        ball, steps = self.ball, self.program.steps
        low, high = ball.case.low[0] - ball.x, ball.case.high[0] - ball.x
        for c in ball.columns[steps[ball.columns] > 0.0].tolist():
            furthest = np.floor(ball.reach[c] / steps[c] * (1.0 + ROUNDED))
            if furthest > 1e6:  # next to no restriction, and no number to be exact with
                continue
            least, most = np.rint(low[c] / steps[c]), np.rint(high[c] / steps[c])
            count = self._whole(max(least, -furthest), min(most, furthest))
            scale = max(np.abs(ball.basis[c]).max(), steps[c])
            at = (ball.x[c] - ball.center[c]) / scale
            terms = self._combined(ball.basis[c] / scale)
            self._row([*terms, (count, -steps[c] / scale)], at, at)

    def _add_changes(self) -> None:
        """At most so many features change; a switch is on for each that does."""
        at_most, ball = self.program.at_most, self.ball
        if at_most is None:
            return
        switches = [(self._whole(0.0, 1.0), 1.0) for _ in at_most.blocks]
        low, high, reach = ball.case.low[0], ball.case.high[0], np.array(ball.reach)
        reach = np.minimum(reach, np.maximum(high - ball.x, ball.x - low))
        furthest = np.maximum(np.where(self.program.numeric, reach, 1.0), TINY)
        for block, (switch, _) in zip(at_most.blocks, switches, strict=True):
            for c in range(block.start, block.stop):
                at = (ball.center[c] - ball.x[c]) / furthest[c]
                for sign in (1.0, -1.0):
                    terms = self._combined(sign * ball.basis[c] / furthest[c])
                    self._row([*terms, (switch, -1.0)], high=-sign * at)
        self._row(switches, high=float(at_most.count))


def _pairs(used: list[int]) -> list[tuple[int, int]]:
    """(i, j) with j <= i."""
    return [(i, j) for k, i in enumerate(used) for j in used[: k + 1]]
