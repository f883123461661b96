"""Cuts that keep a matrix of products positive semidefinite, made while SCIP searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from pyscipopt import SCIP_RESULT, Sepa

__all__ = ["Column", "Semidefinite"]

FloatArray = NDArray[np.float64]

DEEP = 1e-6
"""What a semidefinite cut must cut off."""
CUTS = 10
"""How many of them are added at a time."""


@final
@dataclass(frozen=True, eq=False)
class Column:
    """A column.

    Parameters
    ----------
    variable
        SCIP's own.
    scale
        What it is in SCIP where it is 1.
    """

    variable: Any
    scale: float


@final
class Semidefinite(Sepa):  # type: ignore[misc]
    """Cuts (uᵀv)² <= uᵀV u, linearised at the point to be cut off.

    Parameters
    ----------
    columns
        The p columns v.
    products
        The columns V, row by row up to the diagonal; None for 0.
    unit
        What a row is multiplied by.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        products: Sequence[Sequence[Column | None]],
        unit: float,
    ) -> None:
        self.columns, self.unit = list(columns), unit
        parts = [(i, j, part) for i, row in enumerate(products) for j, part in enumerate(row)]
        self.products = [part for *_, part in parts if part is not None]
        kept = [(i, j) for i, j, part in parts if part is not None]
        self.row, self.across = np.array(kept, dtype=np.intp).T

    def sepaexeclp(self) -> dict[str, Any]:
        """Cut off the solution of the current relaxation, as SCIP asks."""
        v = self._values(self.columns)
        matrix = np.zeros((len(v), len(v)))
        matrix[self.row, self.across] = self._values(self.products)
        matrix[self.across, self.row] = matrix[self.row, self.across]
        values, vectors = np.linalg.eigh(matrix - np.outer(v, v))
        result = SCIP_RESULT.DIDNOTFIND
        for value, u in zip(values[:CUTS].tolist(), vectors.T, strict=False):
            if value > -DEEP:
                break
            result = SCIP_RESULT.SEPARATED
            if self._cut(u, float(u @ v)):
                return {"result": SCIP_RESULT.CUTOFF}
        return {"result": result}

    def _values(self, columns: Sequence[Column]) -> FloatArray:
        return np.array([self.model.getSolVal(None, c.variable) / c.scale for c in columns])

    def _cut(self, u: FloatArray, at: float) -> bool:
        """uᵀV u − 2 at uᵀv >= −at²; whether that leaves nothing."""
        model, twice = self.model, np.where(self.row == self.across, 1.0, 2.0)
        weights = np.append(-2.0 * at * u, twice * u[self.row] * u[self.across]).tolist()
        row = model.createEmptyRowSepa(self, "semidefinite", lhs=-at * at * self.unit, local=False)
        model.cacheRowExtensions(row)
        for column, weight in zip((*self.columns, *self.products), weights, strict=True):
            model.addVarToRow(row, column.variable, weight * self.unit / column.scale)
        model.flushRowExtensions(row)
        excludes = bool(model.addCut(row, forcecut=True))
        model.releaseRow(row)
        return excludes
