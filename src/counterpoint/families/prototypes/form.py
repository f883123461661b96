"""Say which regions give a class by nearest prototypes, or by Gaussians, one for each class.

In one metric for all prototypes regions are linear; in metrics of their own they are quadratic, as
are differences of the log-densities of Gaussians.

Source: Artelt & Hammer, Efficient computation of counterfactual explanations of LVQ models,
equations 12–15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import logit, logsumexp

from counterpoint.errors import InvalidInput
from counterpoint.families.prototypes.arrays import (
    distinct,
    factors_of,
    first_equal,
    metrics_of,
    validated,
)
from counterpoint.families.prototypes.cells import VoronoiCells
from counterpoint.families.prototypes.quadratic_difference import QuadraticDifference
from counterpoint.models.form import (
    AffineMap,
    Form,
    Link,
    Magnitude,
    mask,
    rounding,
    wanted_classes,
)
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray, row_blocks
from counterpoint.problem.targets import Target
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.region import Condition, Region


@final
@dataclass(frozen=True, eq=False)
class Prototypes(Form):
    """The class of the prototype p with the least distance (y − p)ᵀΛ(y − p), one Λ for all.

    A prototype's score is 2 pᵀΛy − pᵀΛp: its distance with the other sign, but for what all
    prototypes have in common. So scores are linear, and score units are those of the squared
    distance. Make one by `from_arrays`.

    ``rows``: (P, d) 2 Λp; any one row may be added to all of them; ``offsets``: (P,) −pᵀΛp; any one
    number may be added to all of them; ``owner``: (P,) the position of each prototype's class in
    ``classes``: (k,) labels, each of which has a prototype; ``place``: (P,) the first prototype at
    the same place, which may belong to another class; ``first_wins``: whether the first of several
    nearest prototypes wins; if not, it is not known which, but at the same place it is still the
    first; ``magnitude``: the sizes of the terms of what the model computes: distances, of which
    scores are what prototypes do not have in common.
    """

    rows: FloatArray
    offsets: FloatArray
    owner: IntArray
    classes: NDArray[Any]
    place: IntArray
    first_wins: bool = True
    magnitude: Magnitude | None = None

    @classmethod
    def from_arrays(
        cls,
        prototypes: ArrayLike,
        labels: ArrayLike,
        matrix: ArrayLike | None = None,
        *,
        first_wins: bool = True,
    ) -> Prototypes:
        """The form of any nearest-prototype model, from its parts.

        Parameters
        ----------
        prototypes
            (P, d).
        labels
            (P,) the class of each.
        matrix
            The metric: (k, d) Ω with Λ = ΩᵀΩ, or (d,) relevances, the diagonal of Λ, none of them
            negative; None for the squared Euclidean distance.
        first_wins
            Whether the first of several nearest prototypes wins; if not, it is not known which.

        Returns
        -------
        Prototypes

        Raises
        ------
        InvalidInput
            If the arrays do not fit each other, or there is one class only.

        Examples
        --------
        A model of one's own:

        >>> import numpy as np
        >>> import counterpoint as cp
        >>> from counterpoint.families.prototypes.form import Prototypes
        >>> class Nearest:
        ...     prototypes = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
        ...     labels = np.array(["deny", "accept", "accept"])
        ...
        ...     def predict(self, X):
        ...         away = ((X[:, None] - self.prototypes) ** 2).sum(axis=2)
        ...         return self.labels[away.argmin(axis=1)]
        >>> @cp.read.register(Nearest)
        ... def _(model):
        ...     return Prototypes.from_arrays(model.prototypes, model.labels)
        >>> answers = cp.explain(Nearest(), np.zeros((1, 2)), "accept", cost=cp.Manhattan())
        >>> answers.to_frame().round(6)
        array([[0. , 1.5]])
        """
        points, classes, owner = validated(prototypes, labels)
        weights = np.ones(points.shape[1]) if matrix is None else matrix
        (metric,) = metrics_of([weights], 1, points, "all prototypes")
        omega = None if matrix is None else metric
        columns = (
            slice(None) if omega is None else np.atleast_2d(omega).any(axis=0)
        )  # with an effect
        place = first_equal(points[:, columns])
        winners = distinct(place, owner, np.zeros(len(points)))
        points, owner, place = points[winners], owner[winners], first_equal(place[winners])
        # The score of a centre c is taken off all of them; 2 (p − c)ᵀΛy − (p − c)ᵀΛ(p + c) is left.
        # Its values are those of prototypes: whole numbers stay whole.
        center = np.quantile(points, 0.5, axis=0, method="lower")
        differences, sums = points - center, points + center
        rows, root = differences, omega
        if omega is not None and omega.ndim == 1:
            rows, root = differences * omega, sparse.diags_array(np.sqrt(omega)).tocsr()
        elif omega is not None:
            rows = (differences @ omega.T) @ omega
        offsets = -np.einsum("ij,ij->i", rows, sums)
        sizes = Magnitude.of_distances(points, root)
        return cls(2.0 * rows, offsets, owner, classes, place, first_wins, sizes)

    @property
    def width(self) -> int:
        return self.rows.shape[1]

    def scores(self, X: FloatArray) -> FloatArray:
        """(n, P) scores, of which the largest is the nearest prototype's."""
        scores = X @ self.rows.T + self.offsets
        return np.asarray(scores[:, self.place] if self.has_shared_places else scores)

    @cached_property
    def has_shared_places(self) -> bool:
        """Whether prototypes of several classes are at one place."""
        return bool((self.place != np.arange(len(self.place))).any())

    def predict(self, X: FloatArray) -> NDArray[Any]:
        winner = np.empty(len(X), dtype=np.intp)
        for block in row_blocks(len(X), len(self.offsets)):
            winner[block] = self.scores(X[block]).argmax(axis=1)
        return np.asarray(self.classes[self.owner[winner]])

    @cached_property
    def _sizes(self) -> Magnitude:
        return self.magnitude or Magnitude.of(self.rows, self.offsets)

    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        noise = np.empty(len(X))
        for block in row_blocks(len(X), len(self.offsets)):
            noise[block] = rounding(X[block], self._sizes, eps)
        return noise

    def through(self, before: AffineMap) -> Prototypes:
        rows, offsets = before.followed_by(self.rows, self.offsets)
        sizes = self._sizes.through(before)
        return replace(self, rows=rows, offsets=offsets, magnitude=sizes)

    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        wanted, demand = _demand(target, self.classes, self.owner)
        safety_margin = np.empty(len(X))
        for block in row_blocks(len(X), len(self.offsets)):
            scores = self.scores(X[block])
            safety_margin[block] = scores[:, wanted].max(axis=1) - scores[:, ~wanted].max(axis=1)
        return safety_margin - demand

    def regions(self, target: Target) -> Sequence[Region]:
        wanted, demand = _demand(target, self.classes, self.owner)
        worse = np.zeros(len(self.rows))
        leaders, rivals = _contenders(wanted, self.place, worse, demand, by_order=demand == 0.0)
        if not len(leaders):
            return (_nowhere(self.width),)
        order = np.arange(len(self.rows)) if self.first_wins and demand == 0.0 else None
        return VoronoiCells(self.rows, self.offsets, leaders, rivals, demand, order, self.place)


@final
@dataclass(frozen=True, eq=False)
class LocalPrototypes(Form):
    """The class of the prototype i with the least ‖F_i y + f_i‖² + b_i; the first of equal ones.

    Its score is that with the other sign. So score units are those of the squared distance; of
    Gaussians they are natural logarithms of densities, and margins are log-odds. Make one by
    `from_arrays`.

    ``factors``: (M, k, d) the different matrices F; ``metric``: (P,) the position of each
    prototype's matrix among them; ``shifts``: (P, k) f = −F p; ``offsets``: (P,) b; ``owner``: (P,)
    the position of each prototype's class in ``classes``: (C,) labels, each of which has a
    prototype; ``link``: whether probabilities are a softmax of the scores; then each class has one
    prototype; ``images``: (P · k,) the sizes of the terms of F y + f, if there are steps before it.
    """

    factors: FloatArray
    metric: IntArray
    shifts: FloatArray
    offsets: FloatArray
    owner: IntArray
    classes: NDArray[Any]
    link: Link = Link.NONE
    images: Magnitude | None = None

    proves_steps = False

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
        >>> from counterpoint.families.prototypes.form import LocalPrototypes
        >>> form = LocalPrototypes.from_arrays(
        ...     [[0.0, 0.0], [3.0, 0.0]], ["narrow", "wide"], [np.eye(2), np.eye(2) / 2]
        ... )
        >>> form.predict(np.array([[0.9, 0.0], [1.1, 0.0], [-2.9, 0.0], [-3.1, 0.0]]))
        array(['narrow', 'wide', 'narrow', 'wide'], dtype='<U6')
        """
        points, classes, owner = validated(prototypes, labels)
        metric = np.arange(len(owner))
        if metric_per == "class":
            metric = owner
        elif metric_per != "prototype":
            raise InvalidInput(f"Expected metric_per 'prototype' or 'class'; got {metric_per!r}.")
        count = int(metric.max(initial=-1)) + 1
        metrics = matrices if isinstance(matrices, Sequence) else np.atleast_1d(matrices)
        factors = factors_of(metrics_of([*metrics], count, points, f"each {metric_per}"))
        added = np.zeros(len(owner)) if offsets is None else np.asarray(offsets, dtype=np.float64)
        if added.shape != owner.shape or not np.isfinite(added).all():
            raise InvalidInput(f"Expected {len(owner)} finite offsets; got {added.tolist()!r}.")
        metric = first_equal(factors)[metric]
        has_effect = np.asarray(factors.any(axis=1))[metric]  # (P, d) on distances to a prototype
        place = first_equal(np.column_stack([metric, np.where(has_effect, points, 0.0)]))
        winners = distinct(place, owner, added)
        # Prototypes at one place get the same shift to the last bit: that of the first there.
        firsts = place[winners].tolist()
        shifts = np.array([-(factors[metric[first]] @ points[first]) for first in firsts])
        if link is not Link.NONE and (link is not Link.SOFTMAX or len(winners) != len(classes)):
            raise InvalidInput(
                f"Expected Link.NONE, or Link.SOFTMAX for one prototype of each class; got {link} "
                f"for {len(winners)} prototypes of {len(classes)} classes."
            )
        used, metric = np.unique(metric[winners], return_inverse=True)
        arrays = factors[used], metric.ravel(), shifts, added[winners], owner[winners]
        return cls(*arrays, classes, link)

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

    def _squares(self, X: FloatArray) -> FloatArray:
        """(n, P) the squared distances ‖F_i y + f_i‖²."""
        squares = np.empty((len(X), len(self.offsets)))
        for m, factor in enumerate(self.factors):
            product = X @ factor.T
            for i in np.flatnonzero(self.metric == m).tolist():
                image = product + self.shifts[i]
                squares[:, i] = np.einsum("ij,ij->i", image, image)
        return squares

    def predict(self, X: FloatArray) -> NDArray[Any]:
        return np.asarray(self.classes[self.owner[self.scores(X).argmax(axis=1)]])

    @cached_property
    def _sizes(self) -> Magnitude:
        if self.images is not None:
            return self.images
        rows = self.factors[self.metric].reshape(-1, self.width)
        return Magnitude.of(rows, self.shifts.ravel())

    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        square, terms = self._squares(X), self.factors.shape[1] + 2
        size = np.linalg.norm(self._sizes(X).reshape(len(X), *self.shifts.shape), axis=2)
        image_error = (self._sizes.terms + 2) * eps * size  # the length of that of F y + f
        error = (2.0 * np.sqrt(square) + image_error) * image_error
        error += terms * eps * (square + np.abs(self.offsets))
        return np.asarray(2.0 * error.max(axis=1))

    def through(self, before: AffineMap) -> LocalPrototypes:
        count, k, d = self.factors.shape
        rows, shift = before.followed_by(self.factors.reshape(-1, d), np.zeros(count * k))
        shifts = self.shifts + shift.reshape(count, k)[self.metric]
        images = self._sizes.through(before)
        return replace(self, factors=rows.reshape(count, k, -1), shifts=shifts, images=images)

    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        scores, requirement = self.scores(X), target.requirement
        if requirement.probable and self.link is Link.SOFTMAX and requirement.at_least is not None:
            wanted = mask(requirement.labels, self.classes)[self.owner]
            odds = logsumexp(scores[:, wanted], axis=1) - logsumexp(scores[:, ~wanted], axis=1)
            return np.asarray(odds - logit(requirement.at_least))
        wanted, margin = _demand(target, self.classes, self.owner, self.link)
        return np.asarray(scores[:, wanted].max(axis=1) - scores[:, ~wanted].max(axis=1) - margin)

    def regions(self, target: Target) -> tuple[Region, ...]:
        wanted, margin = _demand(target, self.classes, self.owner, self.link)
        by_order = margin == 0.0 and not target.requirement.probable
        arrays = self.place, self.offsets, margin
        leaders, rivals = _contenders(wanted, *arrays, by_order=by_order)
        cells = tuple(self._cell(i, rivals, margin, by_order=by_order) for i in leaders.tolist())
        return cells or (_nowhere(self.width),)

    def _cell(self, i: int, rivals: IntArray, margin: float, *, by_order: bool) -> Region:
        """Return the region with score_i >= score_j + margin for each rival j.

        Against rivals with the same metric it is linear, for
        ‖F y + f_i‖² − ‖F y + f_j‖² = 2 (f_i − f_j)ᵀF y + ‖f_i‖² − ‖f_j‖².
        """
        rivals = rivals[self.place[rivals] != self.place[i]]
        limit = self.offsets[rivals] - self.offsets[i] - margin
        tie_lost = ((rivals < i) & by_order).astype(np.float64)
        matrix, shift = self.factors[self.metric[i]], self.shifts[i]
        same_metric = self.metric[rivals] == self.metric[i]
        conditions: list[Condition] = []
        if same_metric.any():
            rival_shifts = self.shifts[rivals[same_metric]]
            difference, total = shift - rival_shifts, shift + rival_shifts
            rows = 2.0 * difference @ matrix
            high = limit[same_metric] - (difference * total).sum(axis=1)
            low, margin_coefficient = np.full(len(rows), -np.inf), np.ones(len(rows))
            coefficients = margin_coefficient, tie_lost[same_metric]
            conditions.append(LinearBounds(rows, low, high, *coefficients))
        for k in np.flatnonzero(~same_metric).tolist():
            rival = self.factors[self.metric[rivals[k]]], self.shifts[rivals[k]]
            numbers = float(limit[k]), 1.0, float(tie_lost[k])
            conditions.append(QuadraticDifference(matrix, shift, *rival, *numbers))
        return Region(tuple(conditions))


def _contenders(
    wanted: BoolArray, place: IntArray, offsets: FloatArray, margin: float, *, by_order: bool
) -> tuple[IntArray, IntArray]:
    """Return the wanted prototypes that may win, and their rivals: one of each at a place.

    That is the first of those with the least offset, for where another one wins, it wins. A wanted
    prototype is left out if it loses to the rival at its place everywhere: if its score is less
    than the margin asks for, or, if equal scores go ``by_order``, equal and the rival is first.
    """
    best_of = []
    for chosen in (wanted, ~wanted):
        positions = np.flatnonzero(chosen)
        best_first = positions[np.lexsort((positions, offsets[positions]))]
        best_of.append(np.sort(best_first[np.unique(place[best_first], return_index=True)[1]]))
    leaders, rivals = best_of
    rival_at = np.full(len(place), -1)
    rival_at[place[rivals]] = rivals
    rival = rival_at[place[leaders]]  # −1 without one
    # by how much a leader's score exceeds its rival's and the margin, wherever the point is
    excess = offsets[rival] - offsets[leaders] - margin
    loses = (excess < 0.0) | ((excess == 0.0) & (rival < leaders) & by_order)
    return leaders[~((rival >= 0) & loses)], rivals


def _nowhere(width: int) -> Region:
    """Return a region without points, for a class that never wins."""
    return Region((LinearBounds(np.zeros((1, width)), np.full(1, -np.inf), -np.ones(1)),))


def _demand(
    target: Target, classes: NDArray[Any], owner: IntArray, link: Link | None = None
) -> tuple[BoolArray, float]:
    """Return which prototypes are wanted to win, (P,), and by how much, in score units.

    A probability of one of two classes asks for its log-odds, which are the difference of their
    scores. ``link`` is None for models that have distances alone.
    """
    requirement, kind = target.requirement, type(target).__name__
    if not requirement.probable:
        fitting = "Label or OtherLabel" if link is None else "Label, OtherLabel or Probability"
        wanted, margin = wanted_classes(
            target, classes, fitting, "the classes that have prototypes"
        )
        return wanted[owner], margin
    if link is not Link.SOFTMAX:
        raise InvalidInput(
            f"{kind} needs class probabilities: the nearest prototype decides, and distances are "
            "no probabilities. Use Label with a margin in units of the squared distance."
        )
    wanted = mask(requirement.labels, classes)[owner]
    if requirement.at_least is None:
        raise InvalidInput(
            "Tradeoff needs probabilities whose −log is convex; those of classes that each have a "
            "covariance of their own are not. Use Probability, or Label with a margin in log-odds."
        )
    needed = float(logit(requirement.at_least))
    if len(classes) > 2:
        enough = np.ceil(1e4 * max(needed + np.log(len(classes) - 1), 0.0)) / 1e4
        raise InvalidInput(
            "Probability is read for two classes if each has a covariance of its own; got "
            f"{len(classes)}. Label({requirement.labels[0]!r}, margin={enough:.6g}), a margin in "
            "log-odds against each other class, gives at least that probability."
        )
    return wanted, needed
