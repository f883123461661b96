"""What each row of a batch asks for itself, beside what all of them ask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.rows.features import Features

__all__ = ["Terms"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Terms:
    """What each row asks for itself.

    Parameters
    ----------
    weight
        (n,) the weight of each row's `Tradeoff`; None for that of the target.
    held
        (n, p) which features must stay; None if none must.
    piece
        The one piece of the target in which to search; None for all.
    """

    weight: FloatArray | None = None
    held: BoolArray | None = None
    piece: int | None = None

    def take(self, rows: slice | IntArray) -> Terms:
        """Those of some rows."""
        return replace(
            self,
            weight=None if self.weight is None else self.weight[rows],
            held=None if self.held is None else self.held[rows],
        )

    def of(self, cases: Cases, features: Features) -> Cases:
        """The people of these rows, as a program sees them."""
        if self.weight is not None:
            cases = cases.weighing(0.5 * self.weight)
        if self.held is None:
            return cases
        width = [block.stop - block.start for block in features.blocks]
        held = np.repeat(self.held, width, axis=1)
        return cases.within(np.where(held, cases.x, -np.inf), np.where(held, cases.x, np.inf))
