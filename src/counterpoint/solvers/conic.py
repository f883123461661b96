"""A convex program as cones, in the shape that Clarabel takes, and the way back from its duals.

Variables: the change δ of each column, in units of its price; for absolute prices one bound t on
each |δ|; for a log-sum-exp one share for each of its terms, for a log-loss
also its value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.engine.cases import Cases
from counterpoint.engine.charges import LogLoss
from counterpoint.engine.couplings import Cone, LogSumExp
from counterpoint.engine.program import Program
from counterpoint.engine.region import Charge, Coupling

__all__ = ["Conic", "Model", "Rows"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Conic:
    """What the conic programs of all people share.

    Parameters
    ----------
    program
        The program.
    """

    program: Program

    @cached_property
    def unit(self) -> FloatArray:
        """(d,) the change of each column that costs about 1."""
        price = self.program.price
        diagonal = price.quadratic if price.quadratic.ndim == 1 else np.diag(price.quadratic)
        size = price.absolute + np.sqrt(diagonal)
        return 1.0 / np.where(size > 0, size, 1.0)

    @cached_property
    def absolute(self) -> NDArray[np.intp]:
        """The columns with an absolute price."""
        return np.flatnonzero(self.program.price.absolute)

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of changes, of bounds on absolute values, and of shares and values."""
        shares = sum(c.size for c in self.program.curved if isinstance(c, LogSumExp))
        shares += sum(c.size + 2 for c in self.program.charges)
        return self.program.width, len(self.absolute), shares

    @cached_property
    def price(self) -> tuple[sparse.csc_matrix, FloatArray]:
        """The price of the variables: a quadratic form and a linear one."""
        price, unit = self.program.price, self.unit
        d, a, shares = self.sizes
        if price.quadratic.ndim == 2:
            form = sparse.csc_matrix(2.0 * price.quadratic * np.outer(unit, unit))
        else:
            form = sparse.diags(2.0 * price.quadratic * unit * unit, format="csc")
        hessian = sparse.block_diag([form, sparse.csc_matrix((a + shares, a + shares))])
        linear = np.zeros(d + a + shares)
        linear[d : d + a] = (price.absolute * unit)[self.absolute]
        return sparse.csc_matrix(sparse.triu(hessian)), linear

    @cached_property
    def row_size(self) -> FloatArray:
        """(rows,) the largest entry of each linear row, in units of change."""
        size = np.abs(self.program.affine.matrix * self.unit).max(axis=1, initial=0.0)
        return np.where(size > 0, size, 1.0)

    def cone_size(self, cone: Cone) -> float:
        """The largest entry of a cone's rows, in units of change."""
        size = max(np.abs(rows * self.unit).max() for rows in (cone.matrix, cone.slope))
        return float(size) if size > 0.0 else 1.0


@final
@dataclass(frozen=True, eq=False)
class Model:
    """A log-loss to the second order about a point: a quadratic function of s = M (y − x).

    Parameters
    ----------
    shares
        (m,) its gradient p there.
    at
        (m,) s there.
    size, worth
        About how large the change is, in units of change, and about the objective.
    """

    shares: FloatArray
    at: FloatArray
    size: float
    worth: float

    def form(self, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(m, m) and (m,) its quadratic and linear parts about s = 0, for s in some units."""
        curvature = np.diag(self.shares) - np.outer(self.shares, self.shares)
        slope = self.shares - curvature @ self.at
        return curvature * np.outer(unit, unit) / self.worth, slope * unit / self.worth


@final
class Rows:
    """The rows of one person's conic program, and the way back from their duals.

    All lengths are divided by ``scale``, about the size of the answer, and the objective by
    ``worth``, about its cost, so that tolerances mean the same for small and large answers. With a
    ``model``, that stands for what is charged.
    """

    def __init__(self, conic: Conic, case: Cases, model: Model | None = None) -> None:
        self.conic, self.model = conic, model
        self.program = conic.program
        self.case = case
        self.matrices: list[Any] = []
        self.rights: list[FloatArray] = []
        self.cones: list[Any] = []
        self.starts: list[int] = []
        self.sides: list[tuple[int, NDArray[np.intp], float]] = []
        self.count = 0
        self.scale, self.worth = self._sizes() if model is None else (model.size, model.worth)
        self._add_bounds()
        self._add_absolute()
        self._add_affine()
        share = 0
        for coupling in self.program.curved:
            self.starts.append(self.count)
            if isinstance(coupling, Cone):
                self._add_cone(coupling)
            elif isinstance(coupling, LogSumExp):
                self._add_log_sum_exp(coupling, share)
                share += coupling.size
        for charge in self.program.charges:
            self.starts.append(self.count)
            if isinstance(charge, LogLoss):
                add = self._add_log_loss if model is None else self._add_scores
                add(charge, share)
                share += charge.size + 2
        self.matrix = sparse.csc_matrix(sparse.vstack(self.matrices))
        self.right = np.concatenate(self.rights)

    def objective(self) -> tuple[sparse.csc_matrix, FloatArray]:
        """Half a quadratic form and a linear one, in units of ``worth``."""
        hessian, linear = self.conic.price
        weight = float(self.case.weights[0]) if self.program.charges else 1.0
        hessian = hessian * (weight * self.scale**2 / self.worth)
        linear = linear * (weight * self.scale / self.worth)
        if not self.program.charges:
            return hessian, linear
        d, a, shares = self.conic.sizes
        charged = np.zeros(d + a + shares)
        if self.model is None:
            charged[-1] = 1.0 / self.worth
            return hessian, linear + charged
        curvature, slope = self.model.form(self._score_unit)
        m = len(slope)
        charged[d + a : d + a + m] = slope
        empty = [sparse.csc_matrix((size, size)) for size in (d + a, shares - m)]
        curved = sparse.block_diag([empty[0], sparse.csc_matrix(np.triu(curvature)), empty[1]])
        return sparse.csc_matrix(hessian + curved), linear + charged

    @cached_property
    def _score_unit(self) -> FloatArray:
        """(m,) how far the scores of a model may move: the largest entries of its rows."""
        size = np.abs(self.program.charges[0].normals * self.conic.unit).max(axis=1, initial=0.0)
        return np.where(size > 0.0, size, 1.0) * self.scale

    def _sizes(self) -> tuple[float, float]:
        """About the size of the answer, in units of change, and about its objective."""
        scale = self._shortfall()
        if not self.program.charges:
            return scale, scale**2 if self.program.price.quadratic.any() else scale
        amount = sum(float(charge.amount(self.case.x)[0]) for charge in self.program.charges)
        steepest = np.abs(self.program.charges[0].normals * self.conic.unit).max(initial=0.0)
        reach = min(max(amount, 1.0) / max(float(steepest), 1e-300), 1e12)
        return max(reach, scale if scale != 1.0 else 0.0), max(amount, 1e-9)

    def _shortfall(self) -> float:
        """By how much the worst condition is missed if nothing changes, in units of change."""
        x, size = self.case.x, self.conic.row_size
        low, high = self.program.affine.limits(self.case.margin)
        here = x @ self.program.affine.matrix.T
        missed = [((low - here) / size).max(initial=0.0), ((here - high) / size).max(initial=0.0)]
        for coupling in self.program.curved:
            if isinstance(coupling, Cone):
                missed.append(float(coupling.excess(x)[0]) / self.conic.cone_size(coupling))
            elif isinstance(coupling, LogSumExp):
                steepest = np.abs(coupling.matrix * self.conic.unit).max(initial=0.0)
                missed.append((coupling.value(x)[0] - coupling.limit) / max(steepest, 1e-300))
        worst = float(max(missed))
        return worst if 0.0 < worst < np.inf else 1.0

    def _add(self, matrix: Any, right: FloatArray, cone: Any) -> int:
        """Append rows; the position of the first."""
        at = self.count
        self.matrices.append(matrix)
        self.rights.append(np.asarray(right, dtype=np.float64))
        self.cones.append(cone)
        self.count += len(right)
        return at

    def _on_changes(self, matrix: FloatArray) -> sparse.csc_matrix:
        """Rows over the scaled changes, with zeros for the other variables."""
        _, a, shares = self.conic.sizes
        scaled = sparse.csc_matrix(matrix * self.conic.unit)
        return sparse.hstack([scaled, sparse.csc_matrix((len(matrix), a + shares))])

    def _add_bounds(self) -> None:
        x, unit = self.case.x[0], self.conic.unit
        unit = unit * self.scale
        low, high = (self.case.low[0] - x) / unit, (self.case.high[0] - x) / unit
        d, a, shares = self.conic.sizes
        eye = sparse.eye(d, d + a + shares, format="csr")
        fixed = np.flatnonzero(low == high)
        above = np.flatnonzero(np.isfinite(high) & (low != high))
        below = np.flatnonzero(np.isfinite(low) & (low != high))
        if len(fixed):
            self._add(eye[fixed], low[fixed], clarabel.ZeroConeT(len(fixed)))
        if len(above):
            self._add(eye[above], high[above], clarabel.NonnegativeConeT(len(above)))
        if len(below):
            self._add(-eye[below], -low[below], clarabel.NonnegativeConeT(len(below)))

    def _add_absolute(self) -> None:
        """δ <= t and −δ <= t."""
        d, a, shares = self.conic.sizes
        if not a:
            return
        pick = sparse.eye(d, format="csr")[self.conic.absolute]
        bound = sparse.hstack([-sparse.eye(a), sparse.csc_matrix((a, shares))])
        for sign in (1.0, -1.0):
            self._add(
                sparse.hstack([sign * pick, bound]), np.zeros(a), clarabel.NonnegativeConeT(a)
            )

    def _add_affine(self) -> None:
        affine, size = self.program.affine, self.conic.row_size
        low, high = (limit[0] for limit in affine.limits(self.case.margin))
        here = affine.matrix @ self.case.x[0]
        equal = low == high
        for chosen, sign, limit, cone in (
            (equal, 1.0, high, clarabel.ZeroConeT),
            (np.isfinite(high) & ~equal, 1.0, high, clarabel.NonnegativeConeT),
            (np.isfinite(low) & ~equal, -1.0, low, clarabel.NonnegativeConeT),
        ):
            rows = np.flatnonzero(chosen)
            if len(rows):
                block = self._on_changes(sign * affine.matrix[rows] / size[rows, None])
                right = sign * (limit - here)[rows] / (size[rows] * self.scale)
                self.sides.append((self._add(block, right, cone(len(rows))), rows, sign))

    def _add_cone(self, cone: Cone) -> None:
        """(slope · y + radius, M y + c) in the second-order cone."""
        x, size = self.case.x[0], self.conic.cone_size(cone)
        radius = cone.radius - float(cone.closed_in(self.case.margin)[0])
        block = -np.vstack([cone.slope, cone.matrix]) / size
        right = np.append(cone.slope @ x + radius, cone.matrix @ x + cone.offset)
        right = right / (size * self.scale)
        self._add(self._on_changes(block), right, clarabel.SecondOrderConeT(len(right)))

    def _add_log_sum_exp(self, coupling: LogSumExp, share: int) -> None:
        """exp(zᵢ − limit) <= shareᵢ and Σ share <= 1."""
        limit = coupling.limit - float(self.case.margin[0, 0])
        here = coupling.matrix @ self.case.x[0] + coupling.offset - limit
        self._add_exponentials(coupling.matrix, here, share, None)

    def _add_log_loss(self, charge: LogLoss, share: int) -> None:
        """exp(zᵢ − value) <= shareᵢ, exp(−value) <= a last share, and Σ share <= 1."""
        matrix = np.vstack([charge.matrix, np.zeros((1, self.program.width))])
        here = np.append(charge.matrix @ self.case.x[0] + charge.offset, 0.0)
        self._add_exponentials(matrix, here, share, share + charge.size + 1)

    def _add_scores(self, charge: LogLoss, share: int) -> None:
        """The first m of a log-loss's variables are its scores' changes; the others are 0."""
        d, a, shares = self.conic.sizes
        m, width = charge.size, d + a + shares
        own = sparse.eye(m + 2, width, k=d + a + share, format="csr")
        scores = self._on_changes(charge.matrix * (self.scale / self._score_unit)[:, None])
        self._add(scores - own[:m], np.zeros(m), clarabel.ZeroConeT(m))
        self._add(own[m:], np.zeros(2), clarabel.ZeroConeT(2))

    def _add_exponentials(
        self, matrix: FloatArray, here: FloatArray, share: int, value: int | None
    ) -> None:
        """exp(matrix · change + here − value) <= shares that add up to 1 at most."""
        d, a, shares = self.conic.sizes
        m, width = len(matrix), d + a + shares
        scores = self._on_changes(-matrix * self.scale)
        if value is not None:
            column = sparse.csr_matrix(
                (np.ones(m), (np.arange(m), np.full(m, d + a + value))), shape=(m, width)
            )
            scores = scores + column
        pick = sparse.csr_matrix(
            (-np.ones(m), (np.arange(m), d + a + share + np.arange(m))), shape=(m, width)
        )
        stacked = sparse.vstack([scores, sparse.csr_matrix((m, width)), pick], format="csr")
        order = np.arange(3 * m).reshape(3, m).T.ravel()
        right = np.stack([here, np.ones(m), np.zeros(m)], axis=1).ravel()
        for i in range(m):
            rows = order[3 * i : 3 * i + 3]
            self._add(stacked[rows], right[3 * i : 3 * i + 3], clarabel.ExponentialConeT())
        total = sparse.csr_matrix(-pick.sum(axis=0))
        self._add(total, np.ones(1), clarabel.NonnegativeConeT(1))

    def multipliers(self, duals: FloatArray) -> FloatArray:
        """(size,) the program's multipliers."""
        out = np.zeros(self.program.size)
        for at, rows, sign in self.sides:
            size = self.conic.row_size[rows] * self.scale
            out[rows] += sign * duals[at : at + len(rows)] / size
        start = self.program.affine.size
        for part, at in zip(self.program.beyond_rows, self.starts, strict=True):
            out[start : start + part.size] = self._of_curved(part, duals, at)
            start += part.size
        return out * self.worth

    def _of_curved(self, part: Coupling | Charge, duals: FloatArray, at: int) -> FloatArray:
        if isinstance(part, Cone):
            m = len(part.matrix)
            ordered = np.append(-duals[at + 1 : at + 1 + m], duals[at])
            return ordered[: part.size] / (self.conic.cone_size(part) * self.scale)
        if isinstance(part, LogLoss) and self.model is not None:
            return np.maximum(duals[at : at + part.size] / self._score_unit, 0.0)
        return np.maximum(-duals[at : at + 3 * part.size : 3], 0.0)
