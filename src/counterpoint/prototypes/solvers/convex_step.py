"""The convex part of a program about a point: one step of the convex-concave procedure.

Each quadratic condition e(y) = ‖F y + f‖² − ‖H y + h‖² − limit <= 0 is replaced by what one tangent
of its rival's distance leaves (Artelt & Hammer, equations 38–42). About the point ``at`` that is

    ‖F (y − at)‖² + ∇e(at) · (y − at) + e(at)  <=  0,

convex, within the condition, and met by ``at`` if that meets it. Conditions on one prototype share
one cone: s >= ‖F (y − at)‖² and s + ∇e_j(at) · (y − at) + e_j(at) <= 0 for each rival j. The rest
is the standard form, in units of the answer's size, so that tolerances mean the same for small and
large answers.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import clarabel
import numpy as np
from scipy import sparse

from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Cone
from counterpoint.engine.program import Program
from counterpoint.numerics import TINY, FloatArray, IntArray
from counterpoint.prototypes.nearer import quadrics_of
from counterpoint.solvers.base import Effort, translated
from counterpoint.solvers.standard_form import StandardForm

__all__ = ["Step", "convex_step", "settings", "sparse_columns", "standard_form"]

USABLE = (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
SAFE = 2e-9
"""How far within convex conditions points stay, relative to the change: they are not exact."""


@final
class Step(NamedTuple):
    """The optimum of a convex part, and the multipliers of its quadratic conditions and rows."""

    point: FloatArray  # (d,) within the bounds
    weights: FloatArray  # (J,)
    rows: FloatArray  # (program.affine.size,)


def standard_form(program: Program) -> StandardForm:
    """The program in the standard form, with changes that cost about 1 as units."""
    size = program.price.absolute + np.sqrt(program.price.diagonal)
    return StandardForm(program, 1.0 / np.where(size > 0.0, size, 1.0))


def convex_step(
    form: StandardForm, case: Cases, at: FloatArray, effort: Effort, penalty: float | None = None
) -> Step | None:
    """The least price over the convex part about a point within the bounds; None if that fails.

    To miss quadratic conditions costs a ``penalty``, relative to the price, or is forbidden.
    """
    if not (case.low[0] < case.high[0]).any():
        return None
    with translated("Clarabel"):
        return _ConvexPart(form, case, at, penalty).solve(effort)


@final
class _ConvexPart:
    """One convex part in the shape that Clarabel takes: A v + s = b with s in cones.

    Variables: the change of each free column from x; a bound on each absolute change; a square for
    each prototype; and, with a penalty, how far the conditions are missed.
    """

    def __init__(
        self, form: StandardForm, case: Cases, at: FloatArray, penalty: float | None
    ) -> None:
        self.form, self.program, self.case, self.at = form, form.program, case, at
        self.penalty, self.quadrics = penalty, quadrics_of(form.program)
        self.excess = self.quadrics.missed(at[None], case.margin)[0]
        slopes = self.quadrics.slopes(at[None])[0]
        self.free = np.flatnonzero(case.low[0] < case.high[0])
        self.size = self._size(slopes[:, self.free] * form.unit[self.free])
        self.worth = self.size**2 if self.program.price.quadratic.any() else self.size
        self.scale = form.unit * self.size
        self.slopes = slopes[:, self.free] * self.scale[self.free]
        self.ahead = (at - case.x[0])[self.free] / self.scale[self.free]
        self.absolute = np.flatnonzero(form.absolute[self.free])
        counts = len(self.free), len(self.absolute), len(self.quadrics.nearest), penalty is not None
        self.ends = np.cumsum(counts)
        self.blocks: list[FloatArray] = []
        self.rights: list[FloatArray] = []
        self.cones: list[Any] = []

    def _size(self, steepness: FloatArray) -> float:
        """About how large the change is, in units of change."""
        change = float((np.abs(self.at - self.case.x[0]) / self.form.unit).max(initial=0.0))
        steep = np.abs(steepness).max(axis=1, initial=0.0)
        short = float((np.abs(self.excess) / np.maximum(steep, 1e-300)).max(initial=0.0))
        return change if change > 0.0 else min(max(short, 1e-9), 1e9)

    def solve(self, effort: Effort) -> Step | None:
        """The optimum, or None."""
        sides = self._add_standard()
        tangents, heights = self._add_tangents()
        self._add_cones()
        hessian, linear = self._objective()
        result = clarabel.DefaultSolver(
            sparse_columns(np.triu(hessian)),
            linear,
            sparse_columns(np.vstack(self.blocks)),
            np.concatenate(self.rights),
            self.cones,
            settings(effort),
        ).solve()
        if result.status not in USABLE:
            return None
        duals, change = np.asarray(result.z) * self.worth, np.zeros((1, self.program.width))
        change[0, self.free] = np.asarray(result.x)[: len(self.free)]
        point = self.form.points(change, self.case, np.full(1, self.size))[0]
        rows = np.zeros((1, len(self.form.matrix)))
        for where, which, sign in sides:
            rows[0, which] += sign * duals[where]
        rows = self.form.multipliers(rows, self.size)[0, : self.program.affine.size]
        return Step(point, duals[tangents] / heights, rows)

    def _add(self, block: FloatArray, right: FloatArray, cone: Any) -> slice:
        """Append rows over the first variables; their positions."""
        at = sum(map(len, self.rights))
        if len(right):
            wide = np.zeros((len(right), self.ends[-1]))
            wide[:, : block.shape[1]] = block
            self.blocks.append(wide)
            self.rights.append(np.asarray(right, dtype=np.float64))
            self.cones.append(cone(len(right)))
        return slice(at, at + len(right))

    def _add_standard(self) -> list[tuple[slice, IntArray, float]]:
        """Rows and bounds, and where each side of the rows is; the sizes of absolute changes."""
        low, high, row_low, row_high = (v[0] for v in self.form.limits(self.case, self.size))
        held = np.where(self.case.low[0] < self.case.high[0], 0.0, low)
        block, here = self.form.matrix[:, self.free], self.form.matrix @ held
        used, sides, equal = block.any(axis=1), [], row_low == row_high
        for chosen, sign, limit, cone in (
            (equal, 1.0, row_high, clarabel.ZeroConeT),
            (np.isfinite(row_high) & ~equal, 1.0, row_high, clarabel.NonnegativeConeT),
            (np.isfinite(row_low) & ~equal, -1.0, row_low, clarabel.NonnegativeConeT),
        ):
            which = np.flatnonzero(chosen & used)
            right = sign * (limit - here)[which] - SAFE * (cone is not clarabel.ZeroConeT)
            sides.append((self._add(sign * block[which], right, cone), which, sign))
        k, a = self.ends[:2]
        eye = np.eye(k)
        for sign, limit in ((1.0, high[self.free]), (-1.0, -low[self.free])):
            bounded = np.isfinite(limit)
            self._add(sign * eye[bounded], limit[bounded], clarabel.NonnegativeConeT)
            lengths = np.hstack([sign * eye[self.absolute], -np.eye(a - k)])
            self._add(lengths, np.zeros(a - k), clarabel.NonnegativeConeT)
        return sides

    def _add_tangents(self) -> tuple[slice, FloatArray]:
        """square + slope · (y − at) + excess <= missed, in units of heights; and the squares."""
        quadrics, (k, a, g) = self.quadrics, self.ends[:3]
        maps = quadrics.maps[: g - a, :, self.free] * self.scale[self.free]
        widths = np.maximum((maps * maps).sum(axis=1).max(axis=1, initial=0.0), TINY)
        own = widths[quadrics.near_of]
        heights = np.maximum(np.abs(self.slopes).max(axis=1, initial=0.0), own)
        heights = np.where(heights > TINY, heights, 1.0)
        block = np.zeros((len(heights), self.ends[-1]))
        block[:, :k] = self.slopes / heights[:, None]
        block[np.arange(len(block)), a + quadrics.near_of] = own / heights
        block[:, g:] = -1.0
        right = block[:, :k] @ self.ahead - self.excess / heights
        where = self._add(block, right, clarabel.NonnegativeConeT)
        if self.penalty is not None:
            self._add(-np.eye(1, self.ends[-1], k=g), np.zeros(1), clarabel.NonnegativeConeT)
        for i, matrix in enumerate(maps / np.sqrt(widths)[:, None, None]):
            # ‖F (y − at)‖² <= square, as ‖(2 F (y − at), square − 1)‖ <= square + 1
            block = np.zeros((len(matrix) + 2, self.ends[-1]))
            block[:2, a + i], block[2:, :k] = -1.0, -2.0 * matrix
            right = np.concatenate([[1.0, -1.0], -2.0 * matrix @ self.ahead])
            self._add(block, right, clarabel.SecondOrderConeT)
        return where, heights

    def _add_cones(self) -> None:
        """(slope · y + radius, M y + c) of the convex conditions."""
        at_x = np.array(self.at)
        at_x[self.free] = self.case.x[0, self.free]
        for cone in self.program.curved:
            if isinstance(cone, Cone):
                radius = cone.radius - float(cone.closed_in(self.case.margin)[0])
                block = -(np.vstack([cone.slope, cone.matrix]) * self.scale)[:, self.free]
                size = float(np.abs(block).max(initial=0.0)) or 1.0
                first = cone.slope @ at_x + radius - SAFE * size
                right = np.append(first, cone.matrix @ at_x + cone.offset)
                self._add(block / size, right / size, clarabel.SecondOrderConeT)

    def _objective(self) -> tuple[FloatArray, FloatArray]:
        """Twice a quadratic form and a linear one, in units of ``worth``."""
        k, a = self.ends[:2]
        hessian, linear = np.zeros((self.ends[-1],) * 2), np.zeros(self.ends[-1])
        full, share = self.form.hessian, self.size / self.worth
        full = np.diag(full) if full.ndim == 1 else full
        held = (self.at - self.case.x[0]) / self.scale
        held[self.free] = 0.0
        hessian[:k, :k] = full[np.ix_(self.free, self.free)] * (self.size * share)
        linear[:k] = (full @ held)[self.free] * (self.size * share)
        linear[k:a] = self.form.absolute[self.free][self.absolute] * share
        if self.penalty is not None:
            linear[-1] = self.penalty
        return hessian, linear


def sparse_columns(matrix: FloatArray) -> sparse.csc_matrix:
    """The same without its zeros, with as few checks as possible."""
    filled = matrix.T != 0.0
    columns, rows = np.nonzero(filled)
    starts = np.zeros(matrix.shape[1] + 1, dtype=np.int32)
    np.cumsum(filled.sum(axis=1), out=starts[1:])
    data = matrix.T[columns, rows]
    return sparse.csc_matrix((data, rows.astype(np.int32), starts), shape=matrix.shape)


def settings(effort: Effort) -> Any:
    """Clarabel's, for one small dense program."""
    out = clarabel.DefaultSettings()
    out.verbose = out.presolve_enable = out.chordal_decomposition_enable = False
    out.max_threads = 1
    out.tol_gap_rel, out.tol_gap_abs, out.tol_feas = 1e-9, 1e-10, 1e-9
    if effort.seconds:
        out.time_limit = effort.seconds
    return out
