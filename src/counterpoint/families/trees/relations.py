"""Linear relations between columns in boxes of cells, of which the trees know nothing.

A box with relations is a program that the solvers take. Its multipliers charge for breaking them,
column by column (`RelationCosts`), so that `LeafBound` bounds what points cost that keep them.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from counterpoint.families.trees.boxes import CellBoxes, RowCosts, on_lattice
from counterpoint.numerics import VIOLATION, FloatArray, IntArray
from counterpoint.programs.conditions import MinimumChange
from counterpoint.programs.program import NonConvex, Program
from counterpoint.programs.region import Cases, Region
from counterpoint.search.search import Found, Subproblem, search_listed
from counterpoint.solvers.base import Effort

__all__ = ["Relations", "without_trees"]


def without_trees(program: Program) -> Subproblem:
    """Return a program without its trees, and without what is asked of their thresholds."""
    conditions = [c for c in program.region if not isinstance(c, NonConvex | MinimumChange)]
    return Subproblem(Program(program.encoded_cost, Region(tuple(conditions))))


@final
class Cheapest(NamedTuple):
    """The cheapest point of a box that keeps relations."""

    point: FloatArray  # (d,) NaN for none
    multipliers: FloatArray  # (m,)
    reported: float  # its bound, if solvers are believed; infinite if there is no point


@final
class Relations:
    """The relations between the columns of one row, of a program `without_trees`."""

    def __init__(self, row: RowCosts, subproblem: Subproblem) -> None:
        self.row, self.subproblem, self.program = row, subproblem, subproblem.program

    def within(self, box: CellBoxes, eps: float | None = None) -> Cases:
        """Return the row within a box; surely so, if numbers are kept so that 1 + eps is next."""
        row, grid = self.row, self.row.grid
        low, high = np.array(self.row.bounds)
        ends = row.ends(eps)
        at, to = grid.starts[:-1] + box.low[0], grid.starts[:-1] + box.high[0]
        low[grid.columns] = np.maximum(low[grid.columns], ends[0][at])
        high[grid.columns] = np.minimum(high[grid.columns], ends[1][to])
        high[grid.members] = np.minimum(high[grid.members], box.among[0])
        low, high = on_lattice(row.x, low, high, self.program.domain.steps)
        return Cases(row.case.x, low[None], high[None], np.zeros(1))

    def cheapest(self, box: CellBoxes, gap: float, eps: float | None = None) -> Cheapest:
        """Return the cheapest point of a box."""
        cases = self.within(box, eps)
        if (cases.low > cases.high).any():
            return Cheapest(
                np.full(self.program.width, np.nan), np.zeros(self.program.size), np.inf
            )
        solution = search_listed(Found(cases, Effort(0.1 * gap)), (self.subproblem,))
        (evidence,) = solution.evidence
        assert evidence.kept is not None  # noqa: S101 (what is listed keeps its multipliers)
        point = np.clip(solution.points[0], cases.low[0], cases.high[0])
        # a little less, so that what they charge is borne by the price, roundings included
        multipliers = (1.0 - 1e-12) * evidence.kept.multipliers[0]
        return Cheapest(point, multipliers, float(evidence.bounds(solution.objective)[1][0]))

    def bound(self, box: CellBoxes, multipliers: FloatArray) -> float:
        """Return the least cost of points of a box that keep the relations; infinite for none."""
        cases = self.within(box)
        none = cases.empty | self.program.refutes(cases, multipliers[None])
        return np.inf if none[0] else float(self.program.bound(cases, multipliers[None])[0])

    def cost(self, y: FloatArray) -> float:
        """Return the cost of a point; infinite if it does not keep the relations."""
        if np.isnan(y).any() or self.program.violation(y[None], self.row.x[None])[0] > VIOLATION:
            return np.inf
        return float(self.program.objective(y[None], self.row.case)[0])

    def cells(self, y: FloatArray, box: CellBoxes) -> tuple[IntArray, IntArray]:
        """Return the cells and categories of a point of a box."""
        cells, categories = self.row.cells(y)
        return np.clip(cells, box.low[0], box.high[0]), categories
