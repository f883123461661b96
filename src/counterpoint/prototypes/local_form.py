"""Nearest prototypes, each in a metric of its own: differences of their distances are quadratic.

So are differences of the log-densities of Gaussians.

Source: Artelt & Hammer, Efficient computation of counterfactual explanations of LVQ models,
equations 14 and 15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.engine.couplings import Affine
from counterpoint.engine.region import Condition, Region
from counterpoint.errors import InvalidInput
from counterpoint.models.form import EPS, AffineMap, Magnitude
from counterpoint.models.linear import Link, ProbabilityForm
from counterpoint.prototypes.demands import Demand, demand_of
from counterpoint.prototypes.nearer import Nearer
from counterpoint.prototypes.parts import distinct, first_equal, parts_of
from counterpoint.targets import Target

__all__ = ["LocalPrototypes"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class LocalPrototypes(ProbabilityForm):
    """The class of the prototype i with the least ‖F_i y + f_i‖² + b_i; the first of equal ones.

    Its score is that with the other sign. So score units are those of the squared distance; of
    Gaussians they are natural logarithms of densities, and margins are log-odds. Make one by
    `from_arrays`.

    Parameters
    ----------
    factors
        (M, k, d) the different matrices F.
    metric
        (P,) the position of each prototype's matrix among them.
    shifts
        (P, k) f = −F p.
    offsets
        (P,) b.
    owner
        (P,) the position of each prototype's class in ``classes``.
    classes
        (C,) labels; each has a prototype.
    link
        Whether probabilities are a softmax of the scores; then each class has one prototype.
    images
        (P · k,) the sizes of the terms of F y + f, if there are steps before it.
    """

    factors: FloatArray
    metric: IntArray
    shifts: FloatArray
    offsets: FloatArray
    owner: IntArray
    classes: NDArray[Any]
    link: Link = Link.NONE
    images: Magnitude | None = None

    @classmethod
    def from_arrays(
        cls,
        prototypes: ArrayLike,
        labels: ArrayLike,
        matrices: ArrayLike | Sequence[ArrayLike],
        offsets: ArrayLike | None = None,
        *,
        metric_per: Literal["prototype", "class"] = "prototype",
        link: Link = Link.NONE,
    ) -> LocalPrototypes:
        """The form of any model with local metrics, from its parts.

        Parameters
        ----------
        prototypes
            (P, d).
        labels
            (P,) the class of each.
        matrices
            The metrics, of any rank: (P, k, d) Ω with Λ = ΩᵀΩ, or as many arrays (k, d) with a k
            for each; or (P, d) relevances, the diagonals of Λ, none of them negative.
        offsets
            (P,) b, what is added to the squared distances; None for 0.
        metric_per
            ``"class"`` if there is one matrix for each class instead, in the order of the sorted
            labels.
        link
            ``Link.SOFTMAX`` if minus the squared distances and offsets are, but for what all have
            in common, logarithms of the classes' probabilities. A Gaussian with mean p, covariance
            Σ and prior π has Ω with ΩᵀΩ = Σ⁻¹ / 2, and the offset ½ log|Σ| − log π.

        Returns
        -------
        LocalPrototypes

        Raises
        ------
        InvalidInput
            If the arrays do not fit each other, there is one class only, or the link needs one
            prototype for each class.

        Examples
        --------
        Two classes, of which the second is spread twice as wide:

        >>> import numpy as np
        >>> from counterpoint.prototypes.local_form import LocalPrototypes
        >>> form = LocalPrototypes.from_arrays(
        ...     [[0.0, 0.0], [3.0, 0.0]], ["narrow", "wide"], [np.eye(2), np.eye(2) / 2]
        ... )
        >>> form.predict(np.array([[0.9, 0.0], [1.1, 0.0], [-2.9, 0.0], [-3.1, 0.0]]))
        array(['narrow', 'wide', 'narrow', 'wide'], dtype='<U6')
        """
        parts = parts_of(prototypes, labels, matrices, offsets, metric_per)
        classes, owner = np.unique(parts.labels, return_inverse=True)
        if len(classes) < 2:
            raise InvalidInput(
                f"Expected prototypes of two classes or more; got {classes.tolist()!r} alone."
            )
        kept, shifts = distinct(parts, owner.ravel())
        if link is not Link.NONE and (link is not Link.SOFTMAX or len(kept) != len(classes)):
            raise InvalidInput(
                f"Expected Link.NONE, or Link.SOFTMAX for one prototype of each class; got {link} "
                f"for {len(kept)} prototypes of {len(classes)} classes."
            )
        used, metric = np.unique(parts.metric[kept], return_inverse=True)
        own = owner.ravel()[kept]
        return cls(
            parts.factors[used], metric.ravel(), shifts, parts.offsets[kept], own, classes, link
        )

    @property
    def width(self) -> int:
        return self.factors.shape[2]

    @cached_property
    def place(self) -> IntArray:
        """(P,) the first prototype with the same F and f, which may belong to another class."""
        return first_equal(np.column_stack([self.metric, self.shifts]))

    def scores(self, X: FloatArray) -> FloatArray:
        """(n, P) scores, of which the largest is the nearest prototype's."""
        return np.asarray(-(self._squares(X)[:, self.place] + self.offsets))

    def class_scores(self, X: FloatArray) -> FloatArray:
        """(n, C) that of the one prototype of each class, if there is a link."""
        return self.scores(X)[:, np.argsort(self.owner)]

    def _squares(self, X: FloatArray) -> FloatArray:
        """(n, P) ‖F y + f‖²."""
        out = np.empty((len(X), len(self.offsets)))
        for m, factor in enumerate(self.factors):
            seen = X @ factor.T
            for i in np.flatnonzero(self.metric == m).tolist():
                image = seen + self.shifts[i]
                out[:, i] = np.einsum("ij,ij->i", image, image)
        return out

    def predict(self, X: FloatArray) -> NDArray[Any]:
        return np.asarray(self.classes[self.owner[self.scores(X).argmax(axis=1)]])

    @cached_property
    def _sizes(self) -> Magnitude:
        """Those of F y + f, (P · k,)."""
        if self.images is not None:
            return self.images
        rows = self.factors[self.metric].reshape(-1, self.width)
        return Magnitude.of(rows, self.shifts.ravel())

    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        square, terms = self._squares(X), self.factors.shape[1] + 2
        size = np.linalg.norm(self._sizes(X).reshape(len(X), *self.shifts.shape), axis=2)
        off = (self._sizes.terms + 2) * eps * size  # the length of the error of F y + f
        error = (2.0 * np.sqrt(square) + off) * off + terms * eps * (square + np.abs(self.offsets))
        return np.asarray(2.0 * error.max(axis=1))

    def through(self, before: AffineMap) -> LocalPrototypes:
        count, k, d = self.factors.shape
        rows, shift = before.followed_by(self.factors.reshape(-1, d), np.zeros(count * k))
        shifts = self.shifts + shift.reshape(count, k)[self.metric]
        images = self._sizes.through(before)
        return replace(self, factors=rows.reshape(count, k, -1), shifts=shifts, images=images)

    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        demand, scores = self._demand(target), self.scores(X)
        inside = scores[:, demand.wanted].max(axis=1)
        return np.asarray(inside - scores[:, ~demand.wanted].max(axis=1) - demand.margin)

    def regions(self, target: Target) -> tuple[Region, ...]:
        demand = self._demand(target)
        rivals = self._one_a_place(~demand.wanted)
        pieces = [
            self._nearer(i, rivals, demand)
            for i in self._one_a_place(demand.wanted).tolist()
            if not self._is_shadowed(i, rivals, demand)
        ]
        return tuple(pieces) if pieces else (self._nowhere,)

    def _demand(self, target: Target) -> Demand:
        return demand_of(target, self.classes, self.owner, self.link)

    def _one_a_place(self, chosen: BoolArray) -> IntArray:
        """The best of the chosen prototypes at each place: what the others meet, it meets."""
        positions = np.flatnonzero(chosen)
        best = positions[np.lexsort((positions, self.offsets[positions]))]
        return np.sort(best[np.unique(self.place[best], return_index=True)[1]])

    def _is_shadowed(self, i: int, rivals: IntArray, demand: Demand) -> bool:
        """Whether a rival at the same place takes all that prototype i could get."""
        same = rivals[self.place[rivals] == self.place[i]]
        lead = self.offsets[same] - self.offsets[i] - demand.margin
        return bool(((lead < 0.0) | ((lead == 0.0) & (same < i) & demand.by_order)).any())

    def _nearer(self, i: int, rivals: IntArray, demand: Demand) -> Region:
        """score_i >= score_j + margin for each rival j: linear where they share a metric."""
        others = rivals[self.place[rivals] != self.place[i]]
        alike = self.metric[others] == self.metric[i]
        straight = others[alike]
        conditions: list[Condition] = []
        if len(straight):
            conditions.append(self._rows(i, straight, demand))
        conditions += [self._curve(i, j, demand) for j in others[~alike].tolist()]
        return Region(tuple(conditions))

    def _rows(self, i: int, others: IntArray, demand: Demand) -> Affine:
        """‖F y + f_i‖² − ‖F y + f_j‖² = 2 (f_i − f_j)ᵀF y + ‖f_i‖² − ‖f_j‖²."""
        apart, total = self.shifts[i] - self.shifts[others], self.shifts[i] + self.shifts[others]
        rows = 2.0 * apart @ self.factors[self.metric[i]]
        high = self.offsets[others] - self.offsets[i] - (apart * total).sum(axis=1) - demand.margin
        loses = (others < i) & demand.by_order
        low, tight = np.full(len(rows), -np.inf), np.ones(len(rows))
        return Affine(rows, low, high, tight, loses.astype(np.float64))

    def _curve(self, i: int, j: int, demand: Demand) -> Nearer:
        return Nearer(
            self.factors[self.metric[i]],
            self.shifts[i],
            self.factors[self.metric[j]],
            self.shifts[j],
            float(self.offsets[j] - self.offsets[i] - demand.margin),
            tight=1.0,
            lost=float(demand.by_order and j < i),
        )

    @property
    def _nowhere(self) -> Region:
        """No point: 0 · y <= −1."""
        none = np.full(1, -np.inf)
        return Region((Affine(np.zeros((1, self.width)), none, -np.ones(1)),))
