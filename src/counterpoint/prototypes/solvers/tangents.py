"""The convex part of a program about a point: one step of the convex-concave procedure.

Each quadratic condition e(y) = ‖F y + f‖² − ‖H y + h‖² − limit <= 0 is replaced by what one tangent
of its rival's distance leaves (Artelt & Hammer, equations 38–42). About the point ``at`` that is

    ‖F (y − at)‖² + ∇e(at) · (y − at) + e(at)  <=  0,

convex, within the condition, and met by ``at`` if that meets it. Conditions on one prototype share
one cone: s >= ‖F (y − at)‖² and s + ∇e_j(at) · (y − at) + e_j(at) <= 0 for each rival j. Lengths
are in units of the answer's size, so that tolerances mean the same for small and large answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Cone
from counterpoint.engine.program import Program
from counterpoint.prototypes.nearer import quadrics_of
from counterpoint.solvers.base import Effort, translated

__all__ = ["Step", "convex_step", "settings", "sparse_columns", "unit_changes"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

USABLE = (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
SAFE = 2e-9
"""How far within convex conditions points stay, relative to the change: they are not exact."""
TINY = 1e-300


@final
@dataclass(frozen=True, eq=False)
class Step:
    """The optimum of a convex part, within the bounds: a (d,) point, with multipliers.

    ``weights`` (J,) are those of the quadratic conditions, ``rows`` those of the linear rows.
    """

    point: FloatArray
    weights: FloatArray
    rows: FloatArray


def unit_changes(program: Program) -> FloatArray:
    """(d,) the change of each column that costs about 1."""
    price = program.price
    diagonal = price.quadratic if price.quadratic.ndim == 1 else np.diag(price.quadratic)
    size = price.absolute + np.sqrt(diagonal)
    return 1.0 / np.where(size > 0.0, size, 1.0)


def convex_step(
    program: Program,
    case: Cases,
    at: FloatArray,
    chosen: IntArray,
    effort: Effort,
    penalty: float | None = None,
) -> Step | None:
    """The least price over the convex part about a point within the bounds; None if that fails.

    Only the ``chosen`` quadratic conditions count; to miss them costs a ``penalty``, relative to
    the price, or is forbidden.
    """
    if not (case.low[0] < case.high[0]).any():
        return None
    with translated("Clarabel"):
        return _Cones(program, case, at, chosen, penalty).solve(effort)


@final
class _Cones:
    """One convex part in the shape that Clarabel takes: A v + s = b with s in cones.

    Variables: the change of each free column from ``at``; a bound on each absolute change from x; a
    square for each prototype; and, with a penalty, how far the conditions are missed.
    """

    def __init__(
        self,
        program: Program,
        case: Cases,
        at: FloatArray,
        chosen: IntArray,
        penalty: float | None,
    ) -> None:
        self.program, self.case, self.at, self.chosen = program, case, at, chosen
        self.penalty = penalty
        self.quadrics, price, unit = quadrics_of(program), program.price, unit_changes(program)
        self.free = np.flatnonzero(case.low[0] < case.high[0])
        self.excess = self.quadrics.missed(at[None], case.margin)[0, chosen]
        self.slopes = self.quadrics.slopes(at[None])[0][np.ix_(chosen, self.free)]
        self.size = self._size(unit)
        self.scale = unit[self.free] * self.size
        self.absolute = np.flatnonzero(price.absolute[self.free])
        self.near, self.square = np.unique(self.quadrics.near_of[chosen], return_inverse=True)
        counts = len(self.free), len(self.absolute), len(self.near), int(penalty is not None)
        self.ends = np.cumsum(counts)
        self.worth = self.size**2 if price.quadratic.any() else self.size
        self.blocks: list[FloatArray] = []
        self.rights: list[FloatArray] = []
        self.cones: list[Any] = []

    def _size(self, unit: FloatArray) -> float:
        """About how large the change is, in units of change."""
        change = float((np.abs(self.at - self.case.x[0]) / unit).max(initial=0.0))
        steep = np.abs(self.slopes * unit[self.free]).max(axis=1, initial=0.0)
        short = (np.abs(self.excess) / np.maximum(steep, TINY)).max(initial=0.0)
        return change if change > 0.0 else min(max(float(short), 1e-9), 1e9)

    def solve(self, effort: Effort) -> Step | None:
        """The optimum, or None."""
        rows = self._add_rows()
        tangents, heights = self._add_tangents()
        self._add_bounds()
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
        v, duals = np.asarray(result.x), np.asarray(result.z) * self.worth
        point = np.array(self.at)
        point[self.free] += v[: len(self.free)] * self.scale
        point = np.minimum(np.maximum(point, self.case.low[0]), self.case.high[0])
        weights, affine = np.zeros(len(self.quadrics)), np.zeros(self.program.affine.size)
        weights[self.chosen] = duals[tangents] / heights
        for where, index, sign, size in rows:
            np.add.at(affine, index, sign * duals[where] / size)
        return Step(point, weights, affine)

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

    def _add_rows(self) -> list[tuple[slice, IntArray, float, FloatArray]]:
        """The linear rows: where they are, which, on which side, and in what unit."""
        affine = self.program.affine
        low, high = (limit[0] for limit in affine.limits(self.case.margin))
        block, here = affine.matrix[:, self.free] * self.scale, affine.matrix @ self.at
        size = np.abs(block).max(axis=1, initial=0.0)
        equal, added = low == high, []
        for chosen, sign, limit, cone in (
            (equal, 1.0, high, clarabel.ZeroConeT),
            (np.isfinite(high) & ~equal, 1.0, high, clarabel.NonnegativeConeT),
            (np.isfinite(low) & ~equal, -1.0, low, clarabel.NonnegativeConeT),
        ):
            index = np.flatnonzero(chosen & (size > 0.0))
            unit = size[index]
            right = sign * (limit - here)[index] / unit - SAFE * (cone is not clarabel.ZeroConeT)
            where = self._add(sign * block[index] / unit[:, None], right, cone)
            added.append((where, index, sign, unit))
        return added

    def _add_tangents(self) -> tuple[slice, FloatArray]:
        """square + slope · (y − at) + excess <= missed, in units of heights; and the squares."""
        k, a, g = self.ends[:3]
        forms = self.quadrics.map_forms[self.near]
        diagonal = np.diagonal(forms, axis1=1, axis2=2)[:, self.free] * self.scale**2
        widths = np.maximum(diagonal.max(axis=1, initial=0.0), TINY)
        slopes = self.slopes * self.scale
        heights = np.maximum(np.abs(slopes).max(axis=1, initial=0.0), widths[self.square])
        heights = np.where(heights > TINY, heights, 1.0)
        block = np.zeros((len(self.chosen), self.ends[-1]))
        block[:, :k] = slopes / heights[:, None]
        block[np.arange(len(block)), a + self.square] = widths[self.square] / heights
        block[:, g:] = -1.0
        where = self._add(block, -self.excess / heights, clarabel.NonnegativeConeT)
        for g, width in enumerate(widths.tolist()):
            # ‖F (y − at)‖² <= square, as ‖(2 F (y − at), square − 1)‖ <= square + 1
            matrix = self.quadrics.maps[self.near[g]][:, self.free]
            block, right = np.zeros((len(matrix) + 2, self.ends[-1])), np.zeros(len(matrix) + 2)
            block[:2, a + g], right[:2] = -1.0, (1.0, -1.0)
            block[2:, :k] = -2.0 * matrix * self.scale / np.sqrt(width)
            self._add(block, right, clarabel.SecondOrderConeT)
        return where, heights

    def _add_bounds(self) -> None:
        """The bounds of columns, the absolute changes, and that none is missed by less than 0."""
        k, a, g = self.ends[:3]
        at, eye = self.at[self.free], np.eye(k)
        high = (self.case.high[0, self.free] - at) / self.scale
        low = (at - self.case.low[0, self.free]) / self.scale
        above, below = np.isfinite(high), np.isfinite(low)
        gone = ((at - self.case.x[0, self.free]) / self.scale)[self.absolute]
        within = np.vstack([eye[above], -eye[below]])
        self._add(within, np.append(high[above], low[below]), clarabel.NonnegativeConeT)
        own, size = eye[self.absolute], np.eye(a - k)
        sizes = np.vstack([np.hstack([own, -size]), np.hstack([-own, -size])])
        self._add(sizes, np.append(-gone, gone), clarabel.NonnegativeConeT)
        if self.penalty is not None:
            self._add(-np.eye(1, self.ends[-1], k=g), np.zeros(1), clarabel.NonnegativeConeT)

    def _add_cones(self) -> None:
        """(slope · y + radius, M y + c) of the convex conditions."""
        for cone in self.program.curved:
            if isinstance(cone, Cone):
                radius = cone.radius - float(cone.closed_in(self.case.margin)[0])
                block = -np.vstack([cone.slope, cone.matrix])[:, self.free] * self.scale
                size = float(np.abs(block).max(initial=0.0)) or 1.0
                here = cone.matrix @ self.at + cone.offset
                right = np.append(cone.slope @ self.at + radius - SAFE * size, here)
                self._add(block / size, right / size, clarabel.SecondOrderConeT)

    def _objective(self) -> tuple[FloatArray, FloatArray]:
        """Twice a quadratic form and a linear one, in units of ``worth``."""
        k, a = self.ends[:2]
        price = self.program.price
        form = np.diag(price.quadratic) if price.quadratic.ndim == 1 else price.quadratic
        hessian, linear = np.zeros((self.ends[-1],) * 2), np.zeros(self.ends[-1])
        units = np.outer(self.scale, self.scale)
        hessian[:k, :k] = 2.0 * form[np.ix_(self.free, self.free)] * units
        linear[:k] = 2.0 * (form @ (self.at - self.case.x[0]))[self.free] * self.scale
        linear[k:a] = (price.absolute[self.free] * self.scale)[self.absolute]
        if self.penalty is not None:
            linear[-1] = self.penalty * self.worth
        return hessian / self.worth, linear / self.worth


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
