"""Columns, rows and products in SCIP: the only place that speaks its language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from pyscipopt import SCIP_PARAMSETTING, Model, sqrt
from pyscipopt.scip import Expr, ExprCons, Term

from counterpoint.errors import SolverFailure

__all__ = ["Column", "ScipFound", "ScipLimits", "ScipModel", "Translated"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

PARAMETERS: dict[str, Any] = {
    "propagating/obbt/freq": -1,
    "misc/allowstrongdualreds": False,  # nothing is cut off but what is impossible or too dear
    "misc/allowweakdualreds": False,
    "lp/presolving": False,  # it prints to the standard error, whatever it is told
}
FAINT = 1e-9
"""What SCIP takes for 0 as a coefficient; a row gives way by as much as is left out of it."""
ENDS = ("optimal", "gaplimit", "infeasible")
"""What SCIP says where nothing is left to search."""


@final
class ScipLimits(NamedTuple):
    """When a search stops."""

    gap: float  # at this relative gap
    seconds: float | None = None  # after this time; None for any
    first: bool = False  # whether at the first point
    nodes: int = -1  # after so many nodes; −1 for any number


@final
class ScipFound(NamedTuple):
    """What a search found."""

    ended: bool  # whether nothing is left to search
    bound: float  # a lower bound on the objective; infinite if no point is below the limit
    # of the columns that were asked for, at the best point; None without one
    values: FloatArray | None


@final
class Column(NamedTuple):
    """A column."""

    variable: Any  # SCIP's own
    scale: float  # what it is in SCIP where it is 1


@final
class ScipModel:
    """A model in SCIP, written column by column and row by row.

    Columns are to lie between about −1 and 1, and coefficients too.

    ``scale``: what SCIP sees in the place of 1, and its square for products, as its tolerances are
    absolute: they are 1e-6 / scale² relative to 1.
    """

    def __init__(self, scale: float) -> None:
        self.scale, self.unit = scale, scale * scale
        self.model = Model()
        self.model.hideOutput()
        for name, value in PARAMETERS.items():
            self.model.setParam(name, value)
        self.model.setHeuristics(SCIP_PARAMSETTING.OFF)

    def column(self, low: float, high: float, *, price: float = 0.0, degree: int = 1) -> Column:
        """A new column: a coordinate, or a product of two if its degree is 2."""
        scale = self.scale**degree
        paid = price * self.unit / scale
        return Column(self.model.addVar(lb=low * scale, ub=high * scale, obj=paid), scale)

    def whole(self, low: float, high: float, *, price: float = 0.0) -> Column:
        """A new column of whole numbers."""
        paid = price * self.unit
        return Column(self.model.addVar(lb=low, ub=high, obj=paid, vtype="I"), 1.0)

    def row(
        self, terms: Iterable[tuple[Column, float]], low: float = -np.inf, high: float = np.inf
    ) -> None:
        """low <= Σ coefficient · column <= high, widened by what is too faint to be written."""
        found: dict[Any, float] = {}
        faint = 0.0
        for column, coefficient in terms:
            if abs(coefficient) > FAINT:
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

    def product(self, a: Column, b: Column, column: Column) -> None:
        """a · b = column, of degree 2."""
        pair = Term(a.variable, b.variable)
        weight = column.scale / (a.scale * b.scale)
        self.model.addCons(Expr({pair: weight, Term(column.variable): -1.0}) == 0.0)

    def square(self, a: Column, most: Column) -> None:
        """a² <= most, of degree 2."""
        pair = Term(a.variable, a.variable)
        weight = most.scale / (a.scale * a.scale)
        self.model.addCons(Expr({pair: weight, Term(most.variable): -1.0}) <= 0.0)

    def cone(self, columns: Iterable[Column], most: Column) -> None:
        """√(Σ column²) <= most, all of degree 2."""
        squares = Expr({Term(column.variable, column.variable): 1.0 for column in columns})
        self.model.addCons(sqrt(squares) <= most.variable)

    def search(self, wanted: Sequence[Column], below: float, limits: ScipLimits) -> ScipFound:
        """Search for the least point below a limit, or for any of them.

        ``wanted``: the columns whose values to return; ``below``: the limit of the objective.
        """
        model = self.model
        model.setParam("limits/gap", limits.gap)
        model.setParam("limits/bestsol", 1 if limits.first else -1)
        model.setParam("limits/nodes", limits.nodes)
        if limits.seconds is not None:
            model.setParam("limits/time", limits.seconds)
        if np.isfinite(below):
            model.setObjlimit(below * self.unit)
        model.optimize()
        status = model.getStatus()
        if status == "userinterrupt":
            raise KeyboardInterrupt
        values = None
        if model.getNSols():
            best = model.getBestSol()
            values = np.array([model.getSolVal(best, c.variable) / c.scale for c in wanted])
        bound = np.inf if status == "infeasible" else float(model.getDualbound()) / self.unit
        return ScipFound(status in ENDS, bound, values)


@final
class Translated:
    """SCIP's errors as our own; it raises bare exceptions."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None and "SCIP:" in str(error):
            raise SolverFailure(f"SCIP failed: {error}") from error
