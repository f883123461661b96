"""Scores that are linear in functions of single columns: F(y) = A (y, φ(y)) + b.

A pipeline that maps each column on its own, before a linear last layer, is such a score: a reader
keeps the last layer as it is (`LinearScores`, `LinearRegressor`, `Votes`), over the d columns and
after them the outputs of all curves, and names the curves with the columns that they see::

    inner = LinearScores.binary(np.array([0.3, 0.0, 1.0]), -0.5, classes)  # over y₀, y₁, φ(y₁)
    form = Additive(inner, ((1, Curve.steps([-np.inf, 30.0, 50.0], [-0.7, 0.1, 0.9])),))

A column that counts through its curve alone has coefficient 0 itself. Categories need no curve: on
one-hot columns everything is linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.errors import InvalidInput, UnsupportedModel
from counterpoint.families.additive.curves import Curve
from counterpoint.families.additive.sums import SumBounds, lifted
from counterpoint.models.form import AffineMap, Form, Link
from counterpoint.numerics import AFTER, EPS, FloatArray, IntArray
from counterpoint.problem.targets import Target
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.region import Condition, Region


@final
@dataclass(frozen=True, eq=False)
class Additive(Form):
    """A linear form over the columns and functions of single columns.

    It stands over the d columns; its inner form over these and, after them, the curves' outputs.
    """

    inner: Form
    curves: tuple[tuple[int, Curve], ...]  # (column, curve); several may see one column
    # another form of the same model, for targets whose conditions are not linear in the scores
    otherwise: Form | None = None

    def __post_init__(self) -> None:
        if any(not 0 <= j < self.width for j, _ in self.curves):
            raise InvalidInput(
                f"Expected curves of columns below {self.width}: the inner form is over "
                f"{self.inner.width}, {self._outputs} of which are outputs of curves."
            )

    @property
    def width(self) -> int:
        return self.inner.width - self._outputs

    @cached_property
    def _outputs(self) -> int:
        return sum(curve.outputs for _, curve in self.curves)

    @property
    def link(self) -> Link:  # type: ignore[override]
        """How class scores become probabilities."""
        return self.inner.link

    @property
    def classes(self) -> NDArray[Any]:
        """(k,) the labels."""
        return np.asarray(getattr(self.inner, "classes", ()))

    @property
    def has_values(self) -> bool:  # type: ignore[override]
        """Whether it predicts numbers."""
        return self.inner.has_values

    @cached_property
    def _roundings(self) -> int:
        return max((curve.roundings for _, curve in self.curves), default=0)

    @property
    def breakpoints(self) -> tuple[IntArray, FloatArray]:  # type: ignore[override]
        """Where the pieces of the curves start."""
        starts = [curve.starts[1:] for _, curve in self.curves]
        columns = np.array([j for j, _ in self.curves], dtype=np.intp)
        return np.repeat(columns, [*map(len, starts)]), np.concatenate([np.zeros(0), *starts])

    def predict(self, X: FloatArray) -> NDArray[Any]:
        return self.inner.predict(lifted(self.curves, X))

    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        return self.inner.margin(lifted(self.curves, X), target)

    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        sizes = np.hstack([np.abs(X), *(curve.sizes(X[:, j]) for j, curve in self.curves)])
        # each term of the last layer was rounded `AFTER` times at least, and so often before
        return self.inner.noise(sizes, eps) * (1.0 + self._roundings / AFTER)

    def regions(self, target: Target) -> Sequence[Region]:
        inner = self.inner.regions(target)
        linear = all(isinstance(c, LinearBounds) for region in inner for c in region)
        if self.otherwise is not None and not linear:
            return self.otherwise.regions(target)
        return tuple(Region(tuple(self._lifted(c, target) for c in region)) for region in inner)

    def _lifted(self, condition: Condition, target: Target) -> Condition:
        if isinstance(condition, LinearBounds):
            return SumBounds(condition, self.curves)
        raise InvalidInput(
            f"{type(target).__name__} is not supported for a model that bins or bends its columns "
            "and has several classes, or trades off cost and probability. Use Label, with a "
            "margin in score units."
        )

    def through(self, before: AffineMap) -> Form:
        # A curve stays one of a single column, which has to come as it is; the outputs of curves
        # pass the map by.
        matrix, curves = sparse.csr_array(before.matrix), []
        for j, curve in self.curves:
            row = matrix[[j]]
            row.eliminate_zeros()
            if row.nnz != 1 or row.data[0] != 1.0 or before.offset[j] != 0.0:
                raise UnsupportedModel(
                    f"Input {j} of the model is binned or bent after it was scaled or mixed with "
                    "others. Give this step the raw column."
                )
            curves.append((int(row.indices[0]), curve))
        lifted_matrix = sparse.block_diag([matrix, sparse.eye_array(self._outputs)])
        offset = np.append(before.offset, np.zeros(self._outputs))
        inner = self.inner.through(AffineMap(lifted_matrix.toarray(), offset))
        otherwise = None if self.otherwise is None else self.otherwise.through(before)
        return replace(self, inner=inner, curves=tuple(curves), otherwise=otherwise)
