"""Training rows in a form that does not depend on their order or on how their labels are named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rows"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Distinct weighted rows, class after class, centred and on a common scale.

    Parameters
    ----------
    x
        (n, d) (X − centre) / scale.
    label
        (n,) the class of each row, counted in the order of their first rows.
    weight
        (n,) positive, of sum 1.
    classes
        (C,) the position in the caller's classes of each class.
    centre
        (d,) the weighted mean, in feature units.
    scale
        The root of the mean variance of the columns, in feature units; 1 if that is 0.
    """

    x: FloatArray
    label: IntArray
    weight: FloatArray
    classes: IntArray
    centre: FloatArray
    scale: float

    @classmethod
    def of(cls, X: FloatArray, label: IntArray, weight: FloatArray) -> Rows:
        """Rows (n, d) with a class 0 … C − 1 and a positive weight each; equal ones are merged."""
        order = np.lexsort((weight, label, *X.T[::-1]))
        X, label, weight = X[order], label[order], weight[order]
        _, first, label = np.unique(label, return_index=True, return_inverse=True)
        classes = np.argsort(first)
        label = np.argsort(classes)[label]
        order = np.argsort(label, kind="stable")
        X, label, weight = X[order], label[order], weight[order]
        new = np.ones(len(X), dtype=bool)
        new[1:] = (X[1:] != X[:-1]).any(axis=1) | (label[1:] != label[:-1])
        starts = np.flatnonzero(new)
        X, label, weight = X[starts], label[starts], np.add.reduceat(weight, starts)
        weight = weight / weight.sum()
        centre = weight @ X
        X = X - centre
        scale = float(np.sqrt((weight @ (X * X)).mean())) or 1.0
        return cls(X / scale, label, weight, classes, centre, scale)

    def of_class(self, position: int) -> tuple[FloatArray, FloatArray]:
        """The rows of a class and their weights."""
        own = slice(*np.searchsorted(self.label, (position, position + 1)))
        return self.x[own], self.weight[own]
