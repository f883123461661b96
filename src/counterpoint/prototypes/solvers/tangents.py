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
from functools import cached_property
from typing import Any, final

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.engine.cases import Cases
from counterpoint.engine.couplings import Cone
from counterpoint.engine.program import Program
from counterpoint.prototypes.curvature import quadrics_of
from counterpoint.solvers.base import Effort, translated

__all__ = ["Step", "Tangents", "sparse_columns"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

STATUS = clarabel.SolverStatus
USABLE = (STATUS.Solved, STATUS.AlmostSolved)
SAFE = 2e-9
"""How far within convex conditions points stay, relative to the change: they are not exact."""
TINY = 1e-300


@final
@dataclass(frozen=True, eq=False)
class Step:
    """The optimum of a convex part.

    Parameters
    ----------
    point
        (d,), within the bounds.
    slack
        By how much the conditions are missed at the point, in units of their slopes; 0 without a
        penalty.
    weights
        (J,) the multipliers of the quadratic conditions.
    rows
        (rows,) those of the linear rows.
    """

    point: FloatArray
    slack: float
    weights: FloatArray
    rows: FloatArray


@final
@dataclass(frozen=True, eq=False)
class Tangents:
    """What the convex parts of a program share.

    Parameters
    ----------
    program
        The program; its integral conditions are not looked at.
    """

    program: Program

    @cached_property
    def unit(self) -> FloatArray:
        """(d,) the change of each column that costs about 1."""
        price = self.program.price
        diagonal = price.quadratic if price.quadratic.ndim == 1 else np.diag(price.quadratic)
        size = price.absolute + np.sqrt(diagonal)
        return 1.0 / np.where(size > 0.0, size, 1.0)

    def step(
        self,
        case: Cases,
        at: FloatArray,
        chosen: IntArray,
        effort: Effort,
        penalty: float | None = None,
    ) -> Step | None:
        """Minimise the price over the convex part about a point; None if that fails.

        Parameters
        ----------
        case
            One person.
        at
            (d,) the point, within the bounds.
        chosen
            The quadratic conditions that count.
        effort
            When to stop.
        penalty
            What it costs to miss the conditions, relative to the price; None to forbid it.
        """
        if not (case.low[0] < case.high[0]).any():
            return None
        with translated("Clarabel"):
            return _Cones(self, case, at, chosen, penalty).solve(effort)


@final
class _Cones:
    """One convex part in the shape that Clarabel takes: A v + s = b with s in cones.

    Variables: the change of each free column from ``at``; a bound on each absolute change from x; a
    square for each prototype; and, with a penalty, how far the conditions are missed.
    """

    def __init__(
        self, owner: Tangents, case: Cases, at: FloatArray, chosen: IntArray, penalty: float | None
    ) -> None:
        self.program, self.case = owner.program, case
        self.at, self.chosen, self.penalty = at, chosen, penalty
        quadrics, price = quadrics_of(self.program), self.program.price
        self.free = np.flatnonzero(case.low[0] < case.high[0])
        self.excess = quadrics.missed(at[None], case.margin)[0, chosen]
        self.slopes = quadrics.slopes(at[None])[0][np.ix_(chosen, self.free)]
        self.size = self._size(owner.unit)
        self.scale = owner.unit[self.free] * self.size
        self.absolute = np.flatnonzero(price.absolute[self.free])
        self.near, self.square = np.unique(quadrics.near_of[chosen], return_inverse=True)
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
        tangents = self._add_tangents()
        self._add_bounds()
        self._add_near()
        self._add_cones()
        hessian, linear = self._objective()
        solver = clarabel.DefaultSolver(
            sparse_columns(np.triu(hessian)),
            linear,
            sparse_columns(np.vstack(self.blocks)),
            np.concatenate(self.rights),
            self.cones,
            _settings(effort),
        )
        result = solver.solve()
        if result.status not in USABLE:
            return None
        v, duals = np.asarray(result.x), np.asarray(result.z) * self.worth
        point = np.array(self.at)
        point[self.free] += v[: len(self.free)] * self.scale
        point = np.minimum(np.maximum(point, self.case.low[0]), self.case.high[0])
        weights = np.zeros(len(quadrics_of(self.program)))
        weights[self.chosen] = duals[tangents] / self.heights
        affine = np.zeros(self.program.affine.size)
        for where, index, sign, size in rows:
            np.add.at(affine, index, sign * duals[where] / size)
        return Step(point, 0.0 if self.penalty is None else float(v[-1]), weights, affine)

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
        if not affine.size:
            return []
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

    def _add_tangents(self) -> slice:
        """square + slope · (y − at) + excess <= missed."""
        k, a, g = self.ends[:3]
        slopes = self.slopes * self.scale
        self.widths = self._widths()
        heights = np.maximum(np.abs(slopes).max(axis=1, initial=0.0), self.widths[self.square])
        self.heights = np.where(heights > TINY, heights, 1.0)
        block = np.zeros((len(self.chosen), self.ends[-1]))
        block[:, :k] = slopes / self.heights[:, None]
        block[np.arange(len(block)), a + self.square] = self.widths[self.square] / self.heights
        block[:, g:] = -1.0
        return self._add(block, -self.excess / self.heights, clarabel.NonnegativeConeT)

    def _widths(self) -> FloatArray:
        """(G,) about how large each square gets."""
        forms = quadrics_of(self.program).near.forms[self.near]
        diagonal = np.diagonal(forms, axis1=1, axis2=2)[:, self.free] * self.scale**2
        return np.maximum(diagonal.max(axis=1, initial=0.0), TINY)

    def _add_bounds(self) -> None:
        """The bounds of columns, the absolute changes, and that none is missed by less than 0."""
        k, a, _ = self.ends[:3]
        at, eye = self.at[self.free], np.eye(k)
        high = (self.case.high[0, self.free] - at) / self.scale
        low = (at - self.case.low[0, self.free]) / self.scale
        above, below = np.flatnonzero(np.isfinite(high)), np.flatnonzero(np.isfinite(low))
        blocks = [self._wide(eye[above]), self._wide(-eye[below])]
        rights = [high[above], low[below]]
        gone = ((at - self.case.x[0, self.free]) / self.scale)[self.absolute]
        for sign in (1.0, -1.0):
            block = self._wide(sign * eye[self.absolute])
            block[:, k:a] = -np.eye(a - k)
            blocks.append(block)
            rights.append(-sign * gone)
        if self.penalty is not None:
            last = self._wide(np.zeros((1, k)))
            last[0, -1] = -1.0
            blocks.append(last)
            rights.append(np.zeros(1))
        self._add(np.vstack(blocks), np.concatenate(rights), clarabel.NonnegativeConeT)

    def _wide(self, block: FloatArray) -> FloatArray:
        return np.hstack([block, np.zeros((len(block), self.ends[-1] - block.shape[1]))])

    def _add_near(self) -> None:
        """‖F (y − at)‖² <= square, as ‖(2 F (y − at), square − 1)‖ <= square + 1."""
        k, a, _ = self.ends[:3]
        for g, width in enumerate(self.widths.tolist()):
            matrix = quadrics_of(self.program).near.matrix(self.near[g])[:, self.free]
            block = np.zeros((len(matrix) + 2, self.ends[-1]))
            block[:2, a + g] = -1.0
            block[2:, :k] = -2.0 * matrix * self.scale / np.sqrt(width)
            right = np.zeros(len(block))
            right[:2] = 1.0, -1.0
            self._add(block, right, clarabel.SecondOrderConeT)

    def _add_cones(self) -> None:
        """(slope · y + radius, M y + c) of the convex conditions."""
        for cone in self.program.curved:
            if isinstance(cone, Cone):
                radius = cone.radius - float(cone.closed_in(self.case.margin)[0])
                block = -np.vstack([cone.slope, cone.matrix])[:, self.free] * self.scale
                size = float(np.abs(block).max(initial=0.0)) or 1.0
                right = np.append(
                    cone.slope @ self.at + radius, cone.matrix @ self.at + cone.offset
                )
                right[0] -= SAFE * size
                self._add(block / size, right / size, clarabel.SecondOrderConeT)

    def _objective(self) -> tuple[FloatArray, FloatArray]:
        """Twice a quadratic form and a linear one, in units of ``worth``."""
        k, a, _ = self.ends[:3]
        price = self.program.price
        form = np.diag(price.quadratic) if price.quadratic.ndim == 1 else price.quadratic
        hessian, linear = np.zeros((self.ends[-1],) * 2), np.zeros(self.ends[-1])
        gone = self.at - self.case.x[0]
        hessian[:k, :k] = (
            2.0 * form[np.ix_(self.free, self.free)] * np.outer(self.scale, self.scale)
        )
        linear[:k] = 2.0 * (form @ gone)[self.free] * self.scale
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


def _settings(effort: Effort) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.presolve_enable = False
    settings.tol_gap_rel, settings.tol_gap_abs, settings.tol_feas = 1e-9, 1e-10, 1e-9
    if effort.seconds:
        settings.time_limit = effort.seconds
    return settings
