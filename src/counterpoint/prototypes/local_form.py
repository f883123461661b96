"""Nearest prototypes, each in a metric of its own: differences of their distances are quadratic.

So are differences of the log-densities of Gaussians.

Source: Artelt & Hammer, Efficient computation of counterfactual explanations of LVQ models,
equations 14 and 15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit, logsumexp

from counterpoint.engine.couplings import LinearBounds
from counterpoint.engine.region import Condition, Region
from counterpoint.errors import InvalidInput
from counterpoint.models.form import EPS, AffineMap, Form, Link, Magnitude, mask, split
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.prototypes.form import check_classes, labelled, nowhere
from counterpoint.prototypes.nearer import Nearer
from counterpoint.targets import Target

__all__ = ["LocalPrototypes"]


@final
@dataclass(frozen=True, eq=False)
class LocalPrototypes(Form):
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
        points, kinds, classes, owner = labelled(prototypes, labels)
        which = np.arange(len(kinds))
        if metric_per == "class":
            which = owner
        elif metric_per != "prototype":
            raise InvalidInput(f"Expected metric_per 'prototype' or 'class'; got {metric_per!r}.")
        count = int(which.max(initial=-1)) + 1
        factors = _factors(matrices, count, points.shape[1], metric_per)
        added = np.zeros(len(kinds)) if offsets is None else np.asarray(offsets, dtype=np.float64)
        if added.shape != kinds.shape:
            raise InvalidInput(f"Expected {len(kinds)} offsets; got shape {added.shape}.")
        if not all(np.isfinite(part).all() for part in (points, factors, added)):
            raise InvalidInput("Expected finite prototypes, matrices and offsets; got others.")
        if not factors.any():
            raise InvalidInput("Expected metrics in which some column counts; got zeros alone.")
        check_classes(classes)
        metric = _alike(factors)[which]
        kept, shifts = _distinct(points, factors, metric, added, owner)
        if link is not Link.NONE and (link is not Link.SOFTMAX or len(kept) != len(classes)):
            raise InvalidInput(
                f"Expected Link.NONE, or Link.SOFTMAX for one prototype of each class; got {link} "
                f"for {len(kept)} prototypes of {len(classes)} classes."
            )
        used, metric = np.unique(metric[kept], return_inverse=True)
        return cls(factors[used], metric.ravel(), shifts, added[kept], owner[kept], classes, link)

    @property
    def width(self) -> int:
        return self.factors.shape[2]

    @cached_property
    def place(self) -> IntArray:
        """(P,) the first prototype with the same F and f, which may belong to another class."""
        return _first_equal(np.column_stack([self.metric, self.shifts]))

    def scores(self, X: FloatArray) -> FloatArray:
        """(n, P) scores, of which the largest is the nearest prototype's."""
        return np.asarray(-(self._squares(X)[:, self.place] + self.offsets))

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
        scores, asked = self.scores(X), target.requirement
        if asked.probable and self.link is Link.SOFTMAX and asked.at_least is not None:
            wanted = mask(asked.labels, self.classes)[self.owner]
            odds = logsumexp(scores[:, wanted], axis=1) - logsumexp(scores[:, ~wanted], axis=1)
            return np.asarray(odds - logit(asked.at_least))
        demand = self._demand(target)
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
        return tuple(pieces) if pieces else (nowhere(self.width),)

    def _demand(self, target: Target) -> _Demand:
        return _demand_of(target, self.classes, self.owner, self.link)

    def _one_a_place(self, chosen: BoolArray) -> IntArray:
        """The best of the chosen prototypes at each place: what the others meet, it meets."""
        positions = np.flatnonzero(chosen)
        best = positions[np.lexsort((positions, self.offsets[positions]))]
        return np.sort(best[np.unique(self.place[best], return_index=True)[1]])

    def _is_shadowed(self, i: int, rivals: IntArray, demand: _Demand) -> bool:
        """Whether a rival at the same place takes all that prototype i could get."""
        same = rivals[self.place[rivals] == self.place[i]]
        lead = self.offsets[same] - self.offsets[i] - demand.margin
        return bool(((lead < 0.0) | ((lead == 0.0) & (same < i) & demand.by_order)).any())

    def _nearer(self, i: int, rivals: IntArray, demand: _Demand) -> Region:
        """score_i >= score_j + margin for each rival j: linear where they share a metric."""
        others = rivals[self.place[rivals] != self.place[i]]
        alike = self.metric[others] == self.metric[i]
        straight = others[alike]
        conditions: list[Condition] = []
        if len(straight):
            conditions.append(self._rows(i, straight, demand))
        conditions += [self._curve(i, j, demand) for j in others[~alike].tolist()]
        return Region(tuple(conditions))

    def _rows(self, i: int, others: IntArray, demand: _Demand) -> LinearBounds:
        """‖F y + f_i‖² − ‖F y + f_j‖² = 2 (f_i − f_j)ᵀF y + ‖f_i‖² − ‖f_j‖²."""
        apart, total = self.shifts[i] - self.shifts[others], self.shifts[i] + self.shifts[others]
        rows = 2.0 * apart @ self.factors[self.metric[i]]
        high = self.offsets[others] - self.offsets[i] - (apart * total).sum(axis=1) - demand.margin
        loses = (others < i) & demand.by_order
        low, tight = np.full(len(rows), -np.inf), np.ones(len(rows))
        return LinearBounds(rows, low, high, tight, loses.astype(np.float64))

    def _curve(self, i: int, j: int, demand: _Demand) -> Nearer:
        return Nearer(
            self.factors[self.metric[i]],
            self.shifts[i],
            self.factors[self.metric[j]],
            self.shifts[j],
            float(self.offsets[j] - self.offsets[i] - demand.margin),
            tight=1.0,
            lost=float(demand.by_order and j < i),
        )


def _factors(
    matrices: ArrayLike | Sequence[ArrayLike], count: int, width: int, metric_per: str
) -> FloatArray:
    """(count, k, d) matrices, shorter ones filled up with rows of zeros."""
    listed = matrices if isinstance(matrices, Sequence) else np.atleast_1d(np.asarray(matrices))
    found = [np.asarray(matrix, dtype=np.float64) for matrix in listed]
    shapes = sorted({matrix.shape for matrix in found})
    dimensions = {len(shape) for shape in shapes}
    fits = all(shape[-1:] == (width,) for shape in shapes) and dimensions in ({1}, {2})
    if len(found) != count or not fits:
        raise InvalidInput(
            f"Expected {count} matrices of shape (k, {width}), one for each {metric_per}, or as "
            f"many rows of {width} relevances; got {len(found)} of shape "
            f"{' and '.join(map(str, shapes))}."
        )
    if dimensions == {1}:
        relevances = np.stack(found)
        if (relevances < 0.0).any():
            raise InvalidInput(f"Expected relevances of at least 0; got {relevances.min():.6g}.")
        return np.asarray(np.sqrt(relevances)[:, None, :] * np.eye(width))
    out = np.zeros((count, max(len(matrix) for matrix in found), width))
    for place, matrix in zip(out, found, strict=True):
        place[: len(matrix)] = matrix
    return out


def _alike(factors: FloatArray) -> IntArray:
    """(M,) the first matrix Ω with the same ΩᵀΩ, up to the rounding of that product."""
    first = _first_equal(factors)
    size = np.sum(factors * factors, axis=1)
    rounding = 2.0 * (factors.shape[1] + 2) * EPS
    for j in np.flatnonzero(first == np.arange(len(first))).tolist():
        near = np.all(np.abs(size[:j] - size[j]) <= rounding * size[j], axis=1)
        for i in np.flatnonzero(near & (first[:j] == np.arange(j))).tolist():
            apart = np.abs(factors[i].T @ factors[i] - factors[j].T @ factors[j])
            if (apart <= rounding * np.sqrt(np.outer(size[j], size[j]))).all():
                first[first == j] = i
                break
    return first


def _distinct(
    points: FloatArray, factors: FloatArray, metric: IntArray, offsets: FloatArray, owner: IntArray
) -> tuple[IntArray, FloatArray]:
    """Which prototypes to keep, and their (P, k) shifts −Ωp, equal ones equal to the last bit.

    Of several of one class at one place, the first with the least offset is kept: the others never
    win.
    """
    counts = np.asarray(factors.any(axis=1))[metric]  # columns that a metric looks at
    place = _first_equal(np.column_stack([metric, np.where(counts, points, 0.0)]))
    order = np.lexsort((offsets, owner, place))
    _, best = np.unique(np.stack([place, owner])[:, order], axis=1, return_index=True)
    kept = np.sort(order[best])
    shifts = np.empty((len(kept), factors.shape[1]))
    for row, at in zip(shifts, place[kept].tolist(), strict=True):
        row[:] = -(factors[metric[at]] @ points[at])
    return kept, shifts


def _first_equal(rows: FloatArray) -> IntArray:
    """(n,) for each of n arrays the first that is equal to it."""
    seen: dict[bytes, int] = {}
    keys = (np.ascontiguousarray(row + 0.0).tobytes() for row in rows)  # −0 becomes 0
    return np.array([seen.setdefault(key, i) for i, key in enumerate(keys)], dtype=np.intp)


@final
class _Demand(NamedTuple):
    """What a target asks of prototypes."""

    wanted: BoolArray  # (P,) which of them may win
    margin: float  # by how much, in score units
    by_order: bool  # whether the first of equal scores wins; if not, being equal is enough


def _demand_of(target: Target, classes: NDArray[Any], owner: IntArray, link: Link) -> _Demand:
    """What a target asks of prototypes whose classes are at ``owner`` (P,) in ``classes``.

    Raises
    ------
    InvalidInput
        If the target has no meaning for them, or asks for a probability that has no region.
    """
    if target.requirement.probable:
        return _probable(target, classes, owner, link)
    known = "the classes that have prototypes"
    wanted, asked = split(target, classes, "Label, OtherLabel or Probability", known)
    return _Demand(wanted[owner], asked, asked == 0.0)


def _probable(target: Target, classes: NDArray[Any], owner: IntArray, link: Link) -> _Demand:
    """The log-odds of one of two classes are the difference of their scores."""
    kind = type(target).__name__
    if link is Link.NONE:
        raise InvalidInput(
            f"{kind} needs class probabilities: the nearest prototype decides, and distances are "
            "no probabilities. Use Label with a margin in units of the squared distance."
        )
    asked = target.requirement
    wanted = mask(asked.labels, classes)[owner]
    if asked.at_least is None:
        raise InvalidInput(
            "Tradeoff needs probabilities whose −log is convex; those of classes that each have a "
            "covariance of their own are not. Use Probability, or Label with a margin in log-odds."
        )
    needed = float(logit(asked.at_least))
    if len(classes) > 2:
        enough = np.ceil(1e4 * max(needed + np.log(len(classes) - 1), 0.0)) / 1e4
        raise InvalidInput(
            "Probability is read for two classes if each has a covariance of its own; got "
            f"{len(classes)}. Label({asked.labels[0]!r}, margin={enough:.6g}), a margin in "
            "log-odds against each other class, gives at least that probability."
        )
    return _Demand(wanted, needed, by_order=False)
