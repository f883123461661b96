"""A convex program in the standard form as cones, as Clarabel takes it, and back from its duals.

Variables: the change v of each column; for each absolute price a bound t on |v|; and for each
log-sum-exp a share for each of its terms, for a log-loss its value besides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import clarabel
import numpy as np
from scipy import sparse

from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Cone, LogLoss, LogSumExp
from counterpoint.engine.program import Program
from counterpoint.engine.region import Coupling
from counterpoint.numerics import FloatArray, IntArray
from counterpoint.solvers.standard_form import StandardForm

__all__ = ["Conic", "ConicProgram", "Model"]

Entries = tuple[IntArray, IntArray, FloatArray]
"""Rows, columns and values of a sparse matrix."""


@final
@dataclass(frozen=True, eq=False)
class Conic:
    """What the conic programs of all rows share: changes are in units of cost."""

    program: Program

    @cached_property
    def form(self) -> StandardForm:
        """The program in the standard form."""
        price = self.program.price
        size = price.absolute + np.sqrt(price.diagonal)
        return StandardForm(self.program, 1.0 / np.where(size > 0, size, 1.0))

    @cached_property
    def absolute(self) -> IntArray:
        """The columns with an absolute price."""
        return np.flatnonzero(self.form.absolute)

    @cached_property
    def hessian(self) -> Entries:
        """The entries of the Hessian's upper triangle."""
        hessian = self.form.hessian
        if hessian.ndim == 2:
            return _dense(np.triu(hessian))
        columns = np.flatnonzero(hessian)
        return columns, columns, hessian[columns]

    def cone_size(self, cone: Cone) -> float:
        """The largest entry of a cone's rows, in units of change."""
        size = max(np.abs(rows * self.form.unit).max() for rows in (cone.matrix, cone.slope))
        return float(size) if size > 0.0 else 1.0

    def steepest(self, part: Coupling) -> float:
        """The largest entry of what its multipliers weigh, in units of change."""
        return max(float(np.abs(part.normals * self.form.unit).max(initial=0.0)), 1e-300)


@final
@dataclass(frozen=True, eq=False)
class Model:
    """A log-loss to the second order about a point: a quadratic function of s = M (y − x)."""

    shares: FloatArray  # (m,) its gradient p there
    at: FloatArray  # (m,) s there
    # size, worth: About how large the change is, in units of change, and about the objective
    size: float
    worth: float

    def form(self, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(m, m) and (m,) its quadratic and linear parts about s = 0, for s in some units."""
        curvature = np.diag(self.shares) - np.outer(self.shares, self.shares)
        slope = self.shares - curvature @ self.at
        return curvature * np.outer(unit, unit) / self.worth, slope * unit / self.worth


@final
class ConicProgram:
    """The conic program of one row of a batch, and the way back from its duals.

    All changes are divided by ``scale``, about the size of the answer, and the objective by
    ``worth``, about its cost, so that tolerances mean the same for small and large answers. With a
    ``model``, that stands for what is charged.
    """

    def __init__(self, conic: Conic, case: Cases, model: Model | None = None) -> None:
        self.conic, self.case, self.model = conic, case, model
        self.program, self.form = conic.program, conic.form
        self.scale, self.worth = self._sizes() if model is None else (model.size, model.worth)
        self.entries: list[Entries] = []
        self.rights: list[FloatArray] = []
        self.cones: list[Any] = []
        self.starts: list[int] = []
        self.count, self.width = 0, self.program.width
        low, high, row_low, row_high = (v[0] for v in self.form.limits(case, self.scale))
        self._add_between(low, high, _picked)
        self._add_absolute()
        matrix = self.form.matrix
        self.sides = self._add_between(row_low, row_high, lambda i, s: _dense(s * matrix[i]))
        for part in self.program.beyond_rows:
            self.starts.append(self.count)
            if isinstance(part, Cone):
                self._add_cone(part)
            elif isinstance(part, LogSumExp):
                self._add_log_sum_exp(part)
            elif isinstance(part, LogLoss):
                self._add_log_loss(part) if model is None else self._add_scores(part)
        self.matrix = _csc(self.entries, (self.count, self.width))
        self.right = np.concatenate(self.rights)

    def objective(self) -> tuple[sparse.csc_matrix, FloatArray]:
        """Half a quadratic form (its upper triangle) and a linear one, in units of ``worth``."""
        charged, d, absolute = bool(self.program.charges), self.program.width, self.conic.absolute
        weight = float(self.case.weights[0]) if charged else 1.0
        i, j, values = self.conic.hessian
        entries = [(i, j, values * (weight * self.scale**2 / self.worth))]
        linear = np.zeros(self.width)
        prices = self.form.absolute[absolute]
        linear[d : d + len(absolute)] = prices * (weight * self.scale / self.worth)
        if self.model is not None:
            curvature, slope = self.model.form(self._score_unit)
            at = self.width - len(slope)
            linear[at:] = slope
            entries.append(_dense(np.triu(curvature), at, at))
        elif charged:
            linear[-1] = 1.0 / self.worth
        return _csc(entries, (self.width, self.width)), linear

    @cached_property
    def _score_unit(self) -> FloatArray:
        """(m,) how far the scores of a model may move: the largest entries of its rows."""
        size = np.abs(self.program.charges[0].normals * self.form.unit).max(axis=1, initial=0.0)
        return np.where(size > 0.0, size, 1.0) * self.scale

    def _sizes(self) -> tuple[float, float]:
        """About the size of the answer, in units of change, and about its objective."""
        scale = self._shortfall()
        if not self.program.charges:
            return scale, scale**2 if self.program.price.quadratic.any() else scale
        amount = sum(float(charge.amount(self.case.x)[0]) for charge in self.program.charges)
        reach = min(max(amount, 1.0) / self.conic.steepest(self.program.charges[0]), 1e12)
        return max(reach, scale if scale != 1.0 else 0.0), max(amount, 1e-9)

    def _shortfall(self) -> float:
        """By how much the worst condition is missed if nothing changes, in units of change."""
        x = self.case.x
        limits = self.form.limits(self.case)
        rows = np.maximum(limits.row_low, -limits.row_high)
        missed = [float(rows.max(initial=0.0))]
        for coupling in self.program.curved:
            if isinstance(coupling, Cone):
                missed.append(float(coupling.excess(x)[0]) / self.conic.cone_size(coupling))
            elif isinstance(coupling, LogSumExp):
                over = float(coupling.value(x)[0]) - coupling.limit
                missed.append(over / self.conic.steepest(coupling))
        worst = max(missed)
        return worst if 0.0 < worst < np.inf else 1.0

    def _add(self, cones: list[Any], right: FloatArray, *entries: Entries) -> int:
        """Append rows of cones; the position of the first."""
        at = self.count
        self.entries += [(i + at, j, values) for i, j, values in entries]
        self.rights.append(np.asarray(right, dtype=np.float64))
        self.cones += cones
        self.count += len(right)
        return at

    def _add_between(
        self, low: FloatArray, high: FloatArray, block: Callable[[IntArray, float], Entries]
    ) -> list[tuple[int, IntArray, float]]:
        """low <= rows <= high, given the entries of some rows times a sign; where each side is."""
        sides, fixed = [], low == high
        for chosen, sign, bound, cone in (
            (fixed, 1.0, high, clarabel.ZeroConeT),
            (np.isfinite(high) & ~fixed, 1.0, high, clarabel.NonnegativeConeT),
            (np.isfinite(low) & ~fixed, -1.0, low, clarabel.NonnegativeConeT),
        ):
            rows = np.flatnonzero(chosen)
            if len(rows):
                at = self._add([cone(len(rows))], sign * bound[rows], block(rows, sign))
                sides.append((at, rows, sign))
        return sides

    def _add_absolute(self) -> None:
        """v <= t and −v <= t."""
        absolute = self.conic.absolute
        t = np.arange(self.width, self.width + len(absolute))
        self.width += len(absolute)
        for sign in (1.0, -1.0) if len(absolute) else ():
            cone = clarabel.NonnegativeConeT(len(absolute))
            self._add([cone], np.zeros(len(t)), _picked(absolute, sign), _picked(t, -1.0))

    def _add_cone(self, cone: Cone) -> None:
        """(slope · y + radius, M y + c) in the second-order cone."""
        x, size = self.case.x[0], self.conic.cone_size(cone)
        radius = cone.radius - float(cone.closed_in(self.case.margin)[0])
        block = -np.vstack([cone.slope, cone.matrix]) / size * self.form.unit
        right = np.append(cone.slope @ x + radius, cone.matrix @ x + cone.offset)
        right = right / (size * self.scale)
        self._add([clarabel.SecondOrderConeT(len(right))], right, _dense(block))

    def _add_log_sum_exp(self, coupling: LogSumExp) -> None:
        """exp(zᵢ − limit) <= shareᵢ and Σ share <= 1."""
        limit = coupling.limit - float(self.case.margin[0, 0])
        here = coupling.matrix @ self.case.x[0] + coupling.offset - limit
        self._add_exponentials(coupling.matrix, here)

    def _add_log_loss(self, charge: LogLoss) -> None:
        """exp(zᵢ − value) <= shareᵢ, exp(−value) <= a last share, and Σ share <= 1."""
        matrix = np.vstack([charge.matrix, np.zeros((1, self.program.width))])
        here = np.append(charge.matrix @ self.case.x[0] + charge.offset, 0.0)
        m, value = len(matrix), np.full(len(matrix), self.width + len(matrix))
        self._add_exponentials(matrix, here, (3 * np.arange(m), value, np.ones(m)))
        self.width += 1

    def _add_exponentials(self, matrix: FloatArray, here: FloatArray, *value: Entries) -> None:
        """exp(matrix · change + here − value) <= shares that add up to 1 at most."""
        m = len(matrix)
        share = np.arange(self.width, self.width + m)
        self.width += m
        i, j, scores = _dense(-matrix * self.scale * self.form.unit)
        right = np.stack([here, np.ones(m), np.zeros(m)], axis=1).ravel()
        picked = 3 * np.arange(m) + 2, share, -np.ones(m)
        cones = [clarabel.ExponentialConeT() for _ in range(m)]
        self._add(cones, right, (3 * i, j, scores), picked, *value)
        total = np.zeros(m, dtype=np.intp), share, np.ones(m)
        self._add([clarabel.NonnegativeConeT(1)], np.ones(1), total)

    def _add_scores(self, charge: LogLoss) -> None:
        """The last variables are the changes of a log-loss's scores."""
        m, scores = charge.size, charge.matrix * (self.scale / self._score_unit)[:, None]
        own = np.arange(self.width, self.width + m)
        self.width += m
        block = _dense(scores * self.form.unit)
        self._add([clarabel.ZeroConeT(m)], np.zeros(m), block, _picked(own, -1.0))

    def point(self, variables: FloatArray) -> FloatArray:
        """(d,) the point that variables stand for."""
        change = variables[None, : self.program.width]
        return self.form.points(change, self.case, np.full(1, self.scale))[0]

    def multipliers(self, duals: FloatArray) -> FloatArray:
        """(size,) the program's multipliers."""
        rows = np.zeros((1, len(self.form.matrix)))
        for at, chosen, sign in self.sides:
            rows[0, chosen] += sign * duals[at : at + len(chosen)]
        out = self.form.multipliers(rows, self.scale)[0]
        start = self.program.affine.size
        for part, at in zip(self.program.beyond_rows, self.starts, strict=True):
            out[start : start + part.size] = self._of_curved(part, duals, at)
            start += part.size
        return out * self.worth

    def _of_curved(self, part: Coupling, duals: FloatArray, at: int) -> FloatArray:
        if isinstance(part, Cone):
            m = len(part.matrix)
            ordered = np.append(-duals[at + 1 : at + 1 + m], duals[at])
            return ordered[: part.size] / (self.conic.cone_size(part) * self.scale)
        if isinstance(part, LogLoss) and self.model is not None:
            return np.maximum(duals[at : at + part.size] / self._score_unit, 0.0)
        return np.maximum(-duals[at : at + 3 * part.size : 3], 0.0)


def _dense(block: FloatArray, row: int = 0, column: int = 0) -> Entries:
    """The entries of a block that begins at some row and column."""
    i, j = np.nonzero(block)
    return i + row, j + column, block[i, j]


def _picked(columns: IntArray, value: float) -> Entries:
    """One column a row."""
    return np.arange(len(columns)), columns, np.full(len(columns), value)


def _csc(entries: list[Entries], shape: tuple[int, int]) -> sparse.csc_matrix:
    rows, columns, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    return sparse.csc_matrix((values, (rows, columns)), shape=shape)
