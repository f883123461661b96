"""A second-order cone as the half-spaces that hold it, for searches over whole steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.couplings import Affine, Cone
from counterpoint.engine.pieces import Piece
from counterpoint.engine.program import Program
from counterpoint.engine.region import TINY, Region, Supported

__all__ = ["Faceted", "faceted"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@final
@dataclass(frozen=True, eq=False)
class Faceted(Supported):
    """‖M y + c‖₂ <= slope · y + radius, known by u · (M y + c) <= … for each unit vector u.

    A branch and bound solves thousands of relaxations, and linear ones many times as fast.

    Parameters
    ----------
    cone
        The condition.
    """

    is_cone: ClassVar[bool] = True

    cone: Cone

    def excess(self, y: FloatArray) -> FloatArray:
        return self.cone.excess(y)

    def supports(self, y: FloatArray) -> tuple[FloatArray, Affine]:
        seen = y @ self.cone.matrix.T + self.cone.offset
        length = np.linalg.norm(seen, axis=1, keepdims=True)
        return self.cone.excess(y), self._facets(seen / np.maximum(length, TINY))

    def around(self, y: FloatArray, free: BoolArray, lost: float) -> FloatArray:
        return np.zeros((0, y.shape[1]))

    def first(self) -> Affine:
        """Those of the axes of M y + c."""
        axes = np.eye(len(self.cone.matrix))
        return self._facets(np.concatenate([axes, -axes]))

    def place(self, y: FloatArray) -> FloatArray:
        return np.asarray(y[0])

    def turned(self, place: FloatArray, ray: FloatArray) -> None:
        return None

    def models(self, place: FloatArray) -> tuple[Cone, ...]:
        """The condition itself."""
        return (self.cone,)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        return self.cone.violation(y, x)

    def _facets(self, units: FloatArray) -> Affine:
        """The half-spaces of (k, m) unit vectors."""
        cone, none = self.cone, np.full(len(units), -np.inf)
        size = np.full(len(units), cone.tight)
        rows, high = units @ cone.matrix - cone.slope, cone.radius - units @ cone.offset
        return Affine(rows, none, high, size)


def faceted(piece: Piece) -> Piece:
    """A piece with its cones, too, known by half-spaces that hold them."""
    region = (Faceted(c) if isinstance(c, Cone) else c for c in piece.program.region)
    return replace(piece, program=Program(piece.program.price, Region(tuple(region))))
