"""Nearest prototypes in one metric: differences of their squared distances are linear.

Source: Artelt & Hammer, Efficient computation of counterfactual explanations of LVQ models,
equations 12 and 13.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from counterpoint.engine.couplings import LinearBounds
from counterpoint.engine.region import Region
from counterpoint.errors import InvalidInput
from counterpoint.models.form import EPS, AffineMap, Form, Magnitude, rounding, split
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.prototypes.cells import Cells
from counterpoint.targets import Target

__all__ = ["Prototypes", "check_classes", "labelled", "nowhere"]

SCORES = 1 << 22
"""How many scores are held at a time: 32 MiB of them."""


@final
@dataclass(frozen=True, eq=False)
class Prototypes(Form):
    """The class of the prototype p with the least distance (y − p)ᵀΛ(y − p), one Λ for all.

    A prototype's score is 2 pᵀΛy − pᵀΛp: its distance with the other sign, but for what all
    prototypes have in common. So scores are linear, and score units are those of the squared
    distance. Make one by `from_arrays`.

    Parameters
    ----------
    rows
        (P, d) 2 Λp; any one row may be added to all of them.
    offsets
        (P,) −pᵀΛp; any one number may be added to all of them.
    owner
        (P,) the position of each prototype's class in ``classes``.
    classes
        (k,) labels; each has a prototype.
    place
        (P,) the first prototype at the same place, which may belong to another class.
    first_wins
        Whether the first of several nearest prototypes wins. If not, it is not known which, but at
        the same place it is still the first.
    magnitude
        The sizes of the terms of what the model computes: distances, of which scores are what
        prototypes do not have in common.
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
        >>> from counterpoint.prototypes.form import Prototypes
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
        points, _, classes, owner = labelled(prototypes, labels)
        omega = _metric(matrix, points)
        check_classes(classes)
        points, owner, place = _distinct(points, owner, omega)
        # The values of some prototype in the middle: taking it off loses no digit of whole numbers.
        center = np.quantile(points, 0.5, axis=0, method="lower")
        near, far = points - center, points + center
        rows, total = (near, far) if omega is None else (_seen(near, omega), far)
        offsets = -np.einsum("ij,ij->i", rows, total)
        root: Any = omega
        if omega is not None and omega.ndim == 1:
            root = sparse.diags_array(np.sqrt(omega)).tocsr()
        sizes = Magnitude.of_distances(points, root)
        return cls(2.0 * rows, offsets, owner, classes, place, first_wins, sizes)

    @property
    def width(self) -> int:
        return self.rows.shape[1]

    def scores(self, X: FloatArray) -> FloatArray:
        """(n, P) scores, of which the largest is the nearest prototype's."""
        scores = X @ self.rows.T + self.offsets
        alone = (self.place == np.arange(len(self.place))).all()
        return np.asarray(scores if alone else scores[:, self.place])

    def _blocks(self, X: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Rows, as many at a time as their scores leave room for."""
        size = max(1, SCORES // len(self.offsets))
        for start in range(0, len(X), size):
            part = slice(start, start + size)
            yield part, X[part]

    def predict(self, X: FloatArray) -> NDArray[Any]:
        winner = np.empty(len(X), dtype=np.intp)
        for part, some in self._blocks(X):
            winner[part] = self.scores(some).argmax(axis=1)
        return np.asarray(self.classes[self.owner[winner]])

    @cached_property
    def _sizes(self) -> Magnitude:
        return self.magnitude or Magnitude.of(self.rows, self.offsets)

    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        noise = np.empty(len(X))
        for part, some in self._blocks(X):
            noise[part] = rounding(some, self._sizes, eps)
        return noise

    def through(self, before: AffineMap) -> Prototypes:
        rows, offsets = before.followed_by(self.rows, self.offsets)
        sizes = self._sizes.through(before)
        return replace(self, rows=rows, offsets=offsets, magnitude=sizes)

    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        wanted, asked = self._wanted(target)
        lead = np.empty(len(X))
        for part, some in self._blocks(X):
            scores = self.scores(some)
            lead[part] = scores[:, wanted].max(axis=1) - scores[:, ~wanted].max(axis=1)
        return lead - asked

    def regions(self, target: Target) -> Sequence[Region]:
        wanted, asked = self._wanted(target)
        own, rivals = self._one_a_place(wanted), self._one_a_place(~wanted)
        own = own[~self._shadowed(own, rivals, asked)]
        if not len(own):
            return (nowhere(self.width),)
        order = np.arange(len(self.rows)) if self.first_wins and asked == 0.0 else None
        return Cells(self.rows, self.offsets, own, rivals, asked, order, self.place)

    def _wanted(self, target: Target) -> tuple[BoolArray, float]:
        """(P,) which prototypes are of a wanted class, and the margin that is asked for."""
        if target.requirement.probable:
            raise InvalidInput(
                f"{type(target).__name__} needs class probabilities: the nearest prototype "
                "decides, and distances are no probabilities. Use Label with a margin in units of "
                "the squared distance."
            )
        known = "the classes that have prototypes"
        classes, asked = split(target, self.classes, "Label or OtherLabel", known)
        return classes[self.owner], asked

    def _one_a_place(self, chosen: BoolArray) -> IntArray:
        """The first of the chosen prototypes at each place: what the others meet, it meets."""
        positions = np.flatnonzero(chosen)
        first = np.unique(self.place[positions], return_index=True)[1]
        return np.asarray(positions[np.sort(first)])

    def _shadowed(self, own: IntArray, rivals: IntArray, asked: float) -> BoolArray:
        """Whether a rival at the same place takes all that a prototype could get."""
        first = np.full(len(self.place), len(self.place))
        first[self.place[rivals]] = rivals
        return np.asarray(first[self.place[own]] < (len(self.place) if asked > 0.0 else own))


def labelled(
    prototypes: ArrayLike, labels: ArrayLike
) -> tuple[FloatArray, NDArray[Any], NDArray[Any], IntArray]:
    """(P, d) prototypes, their (P,) labels, the (k,) classes, and each one's position in them."""
    points, kinds = np.asarray(prototypes, dtype=np.float64), np.asarray(labels)
    if points.ndim != 2 or kinds.shape != points.shape[:1]:
        raise InvalidInput(
            "Expected prototypes of shape (P, d) and P labels; "
            f"got shapes {points.shape} and {kinds.shape}."
        )
    classes, owner = np.unique(kinds, return_inverse=True)
    return points, kinds, classes, owner.ravel()


def check_classes(classes: NDArray[Any]) -> None:
    """Raise if one class has all prototypes."""
    if len(classes) < 2:
        raise InvalidInput(
            f"Expected prototypes of two classes or more; got {classes.tolist()!r} alone."
        )


def nowhere(width: int) -> Region:
    """No point: 0 · y <= −1."""
    return Region((LinearBounds(np.zeros((1, width)), np.full(1, -np.inf), -np.ones(1)),))


def _metric(matrix: ArrayLike | None, points: FloatArray) -> FloatArray | None:
    """The metric, if it fits the prototypes."""
    omega = None if matrix is None else np.asarray(matrix, dtype=np.float64)
    if omega is not None and (omega.ndim not in (1, 2) or omega.shape[-1] != points.shape[1]):
        raise InvalidInput(
            f"Expected a matrix of shape (k, {points.shape[1]}), one for all prototypes, or "
            f"({points.shape[1]},) relevances; got shape {omega.shape}."
        )
    if not np.isfinite(points).all() or not (omega is None or np.isfinite(omega).all()):
        raise InvalidInput("Expected finite prototypes and a finite matrix; got others.")
    if omega is not None and omega.ndim == 1 and (omega < 0.0).any():
        raise InvalidInput(f"Expected relevances of at least 0; got {omega.min():.6g}.")
    if omega is not None and not omega.any():
        raise InvalidInput("Expected a metric in which some column counts; got zeros alone.")
    return omega


def _distinct(
    points: FloatArray, owner: IntArray, omega: FloatArray | None
) -> tuple[FloatArray, IntArray, IntArray]:
    """Prototypes and owners without repetitions within a class, and each one's place."""
    counts = slice(None) if omega is None else np.atleast_2d(omega).any(axis=0)
    _, where = np.unique(points[:, counts], axis=0, return_inverse=True)
    pairs = np.stack([where.ravel(), owner], axis=1)
    kept = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
    where = where.ravel()[kept]
    _, first, inverse = np.unique(where, return_index=True, return_inverse=True)
    return points[kept], owner[kept], np.asarray(first[inverse.ravel()])


def _seen(points: FloatArray, omega: FloatArray) -> FloatArray:
    """(P, d) Λ times each point."""
    return points * omega if omega.ndim == 1 else (points @ omega.T) @ omega
