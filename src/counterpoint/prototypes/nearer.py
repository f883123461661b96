"""Nearer to one prototype than to another, each with a metric of its own: quadratic, not convex.

`Quadrics` evaluates several such conditions at once: values, slopes and curvatures in few products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.couplings import Cone
from counterpoint.engine.region import NonConvex, Region
from counterpoint.numerics import EPS, TINY, gamma

if TYPE_CHECKING:
    from counterpoint.engine.program import Program
    from counterpoint.prototypes.curvature import Curvature

__all__ = ["Nearer", "Quadrics"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class Nearer(NonConvex):
    """‖F y + f‖² <= ‖H y + h‖² + limit.

    ``matrix``, ``offset``: (k, d) F and (k,) f: what y is near to; ``rival``, ``rival_offset``: (l,
    d) H and (l,) h: what it is farther from; ``limit``: A number; ``tight``: by how many score
    units a unit of margin lowers the limit; 0 for what is a constraint and no part of a target;
    ``lost``: the same for the margin that only ties need: 1 where a tie is lost.
    """

    matrix: FloatArray
    offset: FloatArray
    rival: FloatArray
    rival_offset: FloatArray
    limit: float
    tight: float = 0.0
    lost: float = 0.0

    def closed_in(self, margin: FloatArray) -> FloatArray:
        """(n,) by how much (n, 2) margins, see `Cases`, lower the limit."""
        return np.asarray(margin @ np.array([self.tight, self.lost]))

    def tightened(self, margin: FloatArray) -> Nearer:
        """The same with its limit lowered by a (1, 2) margin."""
        return replace(self, limit=self.limit - float(self.closed_in(margin)[0]))

    def excess(self, y: FloatArray) -> FloatArray:
        """(n,) by how much points miss it, as squared distances; negative where they do not."""
        near = ((y @ self.matrix.T + self.offset) ** 2).sum(axis=1)
        far = ((y @ self.rival.T + self.rival_offset) ** 2).sum(axis=1)
        return np.asarray(near - far - self.limit)

    def along(self, y: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(n,) a, b, c with excess(y + t · step) = a t² + b t + c."""
        near, moved = y @ self.matrix.T + self.offset, step @ self.matrix.T
        far, gone = y @ self.rival.T + self.rival_offset, step @ self.rival.T
        square = (moved * moved).sum(axis=1) - (gone * gone).sum(axis=1)
        slope = 2.0 * ((near * moved).sum(axis=1) - (far * gone).sum(axis=1))
        return square, slope, self.excess(y)

    def violation(self, y: FloatArray, x: FloatArray) -> FloatArray:
        near = ((y @ self.matrix.T + self.offset) ** 2).sum(axis=1)
        far = ((y @ self.rival.T + self.rival_offset) ** 2).sum(axis=1)
        size = near + far + abs(self.limit)
        over = np.maximum(near - far - self.limit - 16.0 * EPS * size, 0.0)
        return np.where(over > 0.0, over / np.maximum(size, TINY), 0.0)

    def convexified(self, at: FloatArray, margin: float) -> Region:
        """The part of it that one tangent of the rival's distance leaves; it holds ``at``.

        ‖H y + h‖² lies above its tangents, so ‖F y + f‖² <= tangent + limit − margin =: s is convex
        and within (Artelt & Hammer, equations 38–42); it is the cone
        ‖(2 (F y + f), s/σ − σ)‖ <= s/σ + σ, for any σ > 0.
        """
        far = self.rival @ at + self.rival_offset
        slope = 2.0 * far @ self.rival
        square = float(far @ far)
        here = square + self.limit - margin
        sigma = np.sqrt(here if here > 0.0 else max(square + abs(self.limit) + margin, TINY))
        along, constant = slope / sigma, (here - float(slope @ at)) / sigma
        matrix = np.vstack([2.0 * self.matrix, along])
        offset = np.append(2.0 * self.offset, constant - sigma)
        return Region((Cone(matrix, offset, constant + sigma, along),))

    def duality(self, program: Program) -> Curvature:
        from counterpoint.prototypes.curvature import Curvature

        all_of_them = [c for c in program.nonconvex if isinstance(c, Nearer)]
        return Curvature.of(program, Quadrics(all_of_them, program.width))

    @cached_property
    def nearest(self) -> FloatArray:
        """(d, k) moves by which F y + f becomes 0, the shortest ones: y − nearest (F y + f)."""
        return np.asarray(np.linalg.pinv(self.matrix))


@final
class Quadrics:
    """The excesses e_j(y) = ‖F_j y + f_j‖² − ‖H_j y + h_j‖² − limit_j of J conditions.

    Conditions on one prototype share F and f, and so does the work on them.

    ``conditions``: the J conditions; ``d``: the number of columns.
    """

    def __init__(self, conditions: Sequence[Nearer], d: int) -> None:
        self.conditions = tuple(conditions)
        self.near_of, near = _distinct([(c.matrix, c.offset) for c in conditions])
        self.near = _Squares(near, d)
        self.far = _Squares([(c.rival, c.rival_offset) for c in conditions], d)
        self.limits = np.array([c.limit for c in conditions])
        self.closing = np.array([[c.tight, c.lost] for c in conditions]).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.conditions)

    @cached_property
    def columns(self) -> NDArray[np.bool_]:
        """(d,) the columns that have an effect on any of them."""
        return np.asarray(self.near.columns | self.far.columns)

    @property
    def depth(self) -> int:
        """How many roundings a weighed sum of excesses is worth, or of slopes, or curvatures."""
        return 2 * (self.near.depth + self.far.depth) + 2 * len(self) + 8

    @cached_property
    def forms(self) -> FloatArray:
        """(J, d, d) the curvatures Q_j = F_jᵀF_j − H_jᵀH_j."""
        return np.asarray(self.near.forms[self.near_of] - self.far.forms)

    @cached_property
    def sizes(self) -> FloatArray:
        """(J, d, d) the sums of the sizes of the terms of Q_j."""
        return np.asarray(self.near.sizes[self.near_of] + self.far.sizes)

    def excess(self, y: FloatArray) -> FloatArray:
        """(n, J) by how much points miss each condition, in score units."""
        near = self.near.values(y)[:, self.near_of]
        return np.asarray(near - self.far.values(y) - self.limits)

    def closed_in(self, margin: FloatArray) -> FloatArray:
        """(n, J) by how much (n, 2) margins lower the limits."""
        return np.asarray(margin @ self.closing.T)

    def missed(self, y: FloatArray, margin: FloatArray) -> FloatArray:
        """(n, J) by how much points miss each condition with (n, 2) margins."""
        excess = self.excess(y)
        return excess + self.closed_in(margin) if margin.any() else excess

    def misses(self, y: FloatArray, margin: FloatArray) -> FloatArray:
        """(n, J) `missed`, relative to the size of its terms; 0 where that is rounding."""
        near, far = self.near.values(y)[:, self.near_of], self.far.values(y)
        size = near + far + np.abs(self.limits)
        over = near - far - self.limits + self.closed_in(margin) - 16.0 * EPS * size
        return np.where(over > 0.0, over / np.maximum(size, TINY), 0.0)

    def total(self, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n,) Σ weights_j e_j(y), and (n,) the sum of the sizes of its terms."""
        near, far = self.near.values(y)[:, self.near_of], self.far.values(y)
        rounding = self.near.cancelled(y)[:, self.near_of] + self.far.cancelled(y)
        value = np.einsum("ij,ij->i", weights, near - far - self.limits)
        size = np.einsum("ij,ij->i", weights, near + far + np.abs(self.limits) + rounding)
        return value, size

    def slopes(self, y: FloatArray) -> FloatArray:
        """(n, J, d) the gradients of the excesses."""
        return np.asarray(2.0 * (self.near.slopes(y)[:, self.near_of] - self.far.slopes(y)))

    def slope(self, y: FloatArray, weights: FloatArray) -> FloatArray:
        """(n, d) the gradient of Σ weights_j e_j."""
        shared = np.zeros((len(y), len(self.near)))
        np.add.at(shared.T, self.near_of, weights.T)
        return np.asarray(2.0 * (self.near.slope(y, shared) - self.far.slope(y, weights)))

    def slope_size(self, y: FloatArray, weights: FloatArray) -> FloatArray:
        """(n, d) the sums of the sizes of the terms of `slope`."""
        shared = np.zeros((len(y), len(self.near)))
        np.add.at(shared.T, self.near_of, np.abs(weights).T)
        return np.asarray(
            2.0 * (self.near.slope_size(y, shared) + self.far.slope_size(y, np.abs(weights)))
        )

    def form(self, weights: FloatArray) -> FloatArray:
        """(n, d, d) the curvature of Σ weights_j e_j."""
        return np.asarray(np.tensordot(weights, self.forms, axes=1))

    def size(self, weights: FloatArray) -> FloatArray:
        """(n, d, d) the sums of the sizes of the terms of `form`."""
        return np.asarray(np.tensordot(weights, self.sizes, axes=1))


@final
class _Squares:
    """‖A_g y + a_g‖² for several maps, which may have different numbers of rows."""

    def __init__(self, maps: Sequence[tuple[FloatArray, FloatArray]], d: int) -> None:
        rows = max((len(a) for _, a in maps), default=1)
        self._matrix, self._offset = np.zeros((len(maps), rows, d)), np.zeros((len(maps), rows))
        for g, (matrix, offset) in enumerate(maps):
            self._matrix[g, : len(offset)], self._offset[g, : len(offset)] = matrix, offset
        self._flat = self._matrix.reshape(-1, d).T

    @cached_property
    def columns(self) -> NDArray[np.bool_]:
        """(d,) the columns that have an effect on any of them."""
        return np.asarray(self._matrix.any(axis=(0, 1)))

    @cached_property
    def forms(self) -> FloatArray:
        """(G, d, d) A_gᵀA_g."""
        return np.matmul(self._matrix.transpose(0, 2, 1), self._matrix)

    @cached_property
    def sizes(self) -> FloatArray:
        """(G, d, d) |A_g|ᵀ|A_g|."""
        absolute = np.abs(self._matrix)
        return np.matmul(absolute.transpose(0, 2, 1), absolute)

    def __len__(self) -> int:
        return len(self._matrix)

    @property
    def depth(self) -> int:
        """How many roundings a value is worth."""
        return sum(self._matrix.shape[1:]) + 2

    def matrix(self, g: int) -> FloatArray:
        """(rows, d) A_g."""
        return np.asarray(self._matrix[g])

    def _seen(self, y: FloatArray) -> FloatArray:
        """(n, G, rows) A_g y + a_g."""
        return np.asarray((y @ self._flat).reshape(len(y), *self._offset.shape) + self._offset)

    def values(self, y: FloatArray) -> FloatArray:
        """(n, G)."""
        seen = self._seen(y)
        return np.einsum("igk,igk->ig", seen, seen)

    def _terms(self, y: FloatArray) -> FloatArray:
        """(n, G, rows) the sums of the sizes of the terms of A_g y + a_g."""
        terms = np.abs(y) @ np.abs(self._flat)
        return np.asarray(terms.reshape(len(y), *self._offset.shape) + np.abs(self._offset))

    def cancelled(self, y: FloatArray) -> FloatArray:
        """(n, G) what A_g y + a_g may lose where its terms cancel, as it enters the square."""
        terms = self._terms(y)
        lost = 2.0 * np.abs(self._seen(y)) + gamma(self.depth) * terms
        return np.einsum("igk,igk->ig", lost, terms)

    def slopes(self, y: FloatArray) -> FloatArray:
        """(n, G, d) half of the gradients."""
        return np.einsum("igk,gkj->igj", self._seen(y), self._matrix)

    def slope(self, y: FloatArray, weights: FloatArray) -> FloatArray:
        """(n, d) half of the gradient of Σ weights_g ‖A_g y + a_g‖²."""
        seen = self._seen(y) * weights[:, :, None]
        return np.asarray(seen.reshape(len(y), -1) @ self._flat.T)

    def slope_size(self, y: FloatArray, weights: FloatArray) -> FloatArray:
        """(n, d) the sums of the sizes of the terms of `slope`."""
        terms = self._terms(y) * weights[:, :, None]
        return np.asarray(terms.reshape(len(y), -1) @ np.abs(self._flat.T))


def _distinct(
    maps: Sequence[tuple[FloatArray, FloatArray]],
) -> tuple[IntArray, list[tuple[FloatArray, FloatArray]]]:
    """For each map its position among the distinct ones, and these."""
    found: dict[tuple[tuple[int, ...], bytes, bytes], int] = {}
    keys = [(m.shape, m.tobytes(), a.tobytes()) for m, a in maps]
    positions = np.array([found.setdefault(key, len(found)) for key in keys], dtype=np.intp)
    first = [int(np.flatnonzero(positions == g)[0]) for g in range(len(found))]
    return positions, [maps[g] for g in first]
