"""Reads groups of rows from labels, masks, polygons or clusters, and deals them into folds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone

from counterpoint.errors import InvalidInput
from counterpoint.groups.representations import Matrix, dense
from counterpoint.numerics import BoolArray, FloatArray, IntArray


@final
@dataclass(frozen=True, eq=False)
class Groups:
    """Disjoint groups of rows; rows may belong to none.

    Parameters
    ----------
    labels
        A label for each of l groups, in their order.
    member
        (n,) the position of each row's group; −1 for a row without one.
    """

    labels: tuple[Any, ...]
    member: IntArray

    @classmethod
    def of(cls, groups: Any) -> Groups:
        """Read (n,) labels, a mapping from labels to boolean masks, or `Groups`.

        Missing labels (None, NaN) mean no group, and so does −1, with a warning, where the others
        are 0, 1, 2 …, as DBSCAN and HDBSCAN label noise. The order is that of the sorted labels, of
        the categories of a categorical column, or of the mapping.
        """
        if isinstance(groups, Groups):
            return groups
        if isinstance(groups, Mapping):
            return cls.from_masks(groups)
        import pandas as pd

        if np.ndim(groups) != 1:
            raise InvalidInput(
                "Expected one label for each row, a mapping from labels to masks, or Groups; got "
                f"{type(groups).__name__} of {np.ndim(groups)} dimensions. Pass a flat sequence."
            )
        categories = pd.Categorical(groups).remove_unused_categories()
        labels = categories.categories
        if labels.dtype.kind == "i" and 0 in labels and labels.min() == -1:
            warnings.warn(
                f"{(np.asarray(categories) == -1).sum()} rows with the label -1 are of no group, "
                "as DBSCAN and HDBSCAN label noise. Pass a mapping from labels to masks if -1 is "
                "one.",
                UserWarning,
                stacklevel=2,
            )
            categories = categories.remove_categories([-1])
        return cls(tuple(categories.categories.tolist()), np.array(categories.codes, dtype=np.intp))

    @classmethod
    def from_masks(cls, masks: Mapping[Any, ArrayLike]) -> Groups:
        """Make a group for each label, of the rows where its mask is true; none may share a row."""
        arrays = {label: np.asarray(mask) for label, mask in masks.items()}
        sizes = {mask.shape for mask in arrays.values()}
        if len(sizes) != 1 or any(mask.dtype != bool or mask.ndim != 1 for mask in arrays.values()):
            raise InvalidInput(
                "Expected boolean masks of one length, an entry for each row; got the shapes "
                f"{sorted(sizes)} and dtypes {sorted({str(m.dtype) for m in arrays.values()})}. "
                "Compare, as in labels == 'a', to get a mask."
            )
        labels, stack = tuple(arrays), np.stack(list(arrays.values()))
        shared = np.flatnonzero(stack.sum(axis=0) > 1)
        if len(shared):
            both = [repr(labels[i]) for i in np.flatnonzero(stack[:, shared[0]])]
            raise InvalidInput(
                f"Expected masks that do not overlap; {len(shared)} rows are in several, such as "
                f"row {shared[0]} in {' and '.join(both)}. Take them out of all but one."
            )
        member = np.where(stack.any(axis=0), stack.argmax(axis=0), -1)
        return cls(labels, member).filled(1)  # raises for a group without rows

    @classmethod
    def from_polygons(
        cls, points: ArrayLike, polygons: Mapping[Any, ArrayLike] | Sequence[ArrayLike]
    ) -> Groups:
        """Group points of a plane by the first polygon that they lie in.

        Parameters
        ----------
        points
            (n, 2) an embedding.
        polygons
            Corners (c, 2) of a polygon for each label; of a sequence, the labels are 0, 1, 2 …
        """
        plane = _plane(points, "points")
        labelled = polygons if isinstance(polygons, Mapping) else dict(enumerate(polygons))
        member = np.full(len(plane), -1, dtype=np.intp)
        for i, corners in enumerate(labelled.values()):
            inside = _inside(plane, _plane(corners, "corners of polygons"))
            member[inside & (member < 0)] = i
        return cls(tuple(labelled), member).filled(1)  # raises for a group without rows

    @classmethod
    def from_clusters(cls, points: ArrayLike, clusterer: Any) -> Groups:
        """Group rows by the clusters that an estimator finds; noise (−1) belongs to none.

        Parameters
        ----------
        points
            (n, m) an embedding, or any rows.
        clusterer
            Such as ``KMeans(5, random_state=0)`` or ``HDBSCAN(min_cluster_size=20)``; it is cloned.
        """
        clusters = np.asarray(clone(clusterer).fit_predict(np.asarray(points, dtype=float)))
        labels = np.unique(clusters[clusters >= 0]).tolist()
        member = np.where(clusters < 0, -1, np.searchsorted(labels, clusters))
        return cls(tuple(labels), member)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        sizes = self.sizes.tolist() or [0]
        outside = len(self.member) - sum(sizes)
        return (
            f"<Groups: {len(self)} groups of {min(sizes)} to {max(sizes)} rows; {outside} rows "
            "in none>"
        )

    @property
    def sizes(self) -> IntArray:
        """The number of rows (l,) of each group."""
        return np.bincount(self.member[self.member >= 0], minlength=len(self.labels))

    def rows(self, group: int) -> IntArray:
        """Return the rows of the group at a position."""
        return np.flatnonzero(self.member == group)

    def thinned(self, most: int) -> IntArray:
        """Return at most so many rows of each group, evenly spaced, group by group."""
        by_group = [self.rows(i) for i in range(len(self))]
        return np.concatenate([rows[:: max(1, -(-len(rows) // most))] for rows in by_group])

    def take(self, rows: IntArray) -> Groups:
        """Return the groups of some of the rows."""
        return Groups(self.labels, self.member[rows])

    def ordered(self, labels: tuple[Any, ...]) -> Groups:
        """Return the same groups in the order of these labels, which must hold all of them."""
        unknown = [label for label in self.labels if label not in labels]
        if unknown:
            raise InvalidInput(
                f"Expected groups among {', '.join(map(repr, labels))}, those of the fit; got also "
                f"{', '.join(map(repr, unknown))}. Leave their rows out, or fit with them."
            )
        # −1, of rows without a group, is the index of the last entry, and stays −1.
        position = np.array([labels.index(label) for label in self.labels] + [-1], dtype=np.intp)
        return Groups(labels, position[self.member])

    def require(self, rows: int) -> None:
        """Raise unless these are at least two groups of at least two rows, out of so many rows."""
        if len(self.member) != rows:
            raise InvalidInput(
                f"Expected a group for each of {rows} rows; got {len(self.member)}. Use None for "
                "rows without one."
            )
        if len(self) < 2:
            raise InvalidInput(
                f"Expected at least two groups; got {len(self)}. Explanations are between groups."
            )
        self.filled(2)

    def filled(self, least: int) -> Groups:
        """Return the groups, or raise if one has fewer than so many rows."""
        for label, size in zip(self.labels, self.sizes.tolist(), strict=True):
            if size < least:
                raise InvalidInput(
                    f"Expected at least {least} {'rows' if least > 1 else 'row'} in each group; "
                    f"group {label!r} has {size}. Leave it out, or join it with another."
                )
        return self

    def means(self, values: Matrix) -> FloatArray:
        """Return the mean (l, d) of the rows of each group, dense or sparse."""
        rows = np.flatnonzero(self.member >= 0)
        shape = len(self), len(self.member)
        belongs = sparse.csr_array((np.ones(len(rows)), (self.member[rows], rows)), shape=shape)
        return dense(belongs @ values) / self.sizes[:, None]


def stratified_folds(
    groups: Groups, folds: int, random: np.random.RandomState
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the rows to learn from and those to judge on, each fold in turn; none without a group.

    The rows of each group are dealt into folds by themselves.
    """
    if not isinstance(folds, int | np.integer):
        raise InvalidInput(f"Expected a whole number of folds, as an int; got {folds!r}.")
    least = int(groups.sizes.min())
    if folds not in range(2, least // 2 + 1):
        small = groups.labels[int(groups.sizes.argmin())]
        raise InvalidInput(
            f"Expected at least 2 folds, with 2 rows of each group in each; got {folds!r}, and "
            f"group {small!r} has {least} rows. Leave it out, or judge on new rows with judge."
        )
    fold = np.full(len(groups.member), -1)  # that of each row
    for i in range(len(groups)):
        rows = random.permutation(groups.rows(i))
        fold[rows] = np.arange(len(rows)) % folds
    for held_out in range(folds):
        yield np.flatnonzero((fold >= 0) & (fold != held_out)), np.flatnonzero(fold == held_out)


def _plane(points: ArrayLike, name: str) -> FloatArray:
    plane = np.asarray(points, dtype=np.float64)
    if plane.ndim != 2 or plane.shape[1] != 2 or not np.isfinite(plane).all():
        raise InvalidInput(
            f"Expected {name} as finite numbers of shape (n, 2); got the shape {plane.shape}. "
            "Polygons are drawn on an embedding of two dimensions."
        )
    return plane


def _inside(points: FloatArray, corners: FloatArray) -> BoolArray:
    """Return which points (n,) lie inside: a ray to the right crosses an odd number of edges."""
    x, y = points[:, :1], points[:, 1:]
    (x1, y1), (x2, y2) = corners.T, np.roll(corners, -1, axis=0).T  # the ends of the edges
    spans = (y1 > y) != (y2 > y)  # (n, edges) whether the edge is at the height of the point
    rise = np.where(y1 == y2, 1.0, y2 - y1)  # level edges span no height
    crossing = (x2 - x1) * (y - y1) / rise + x1
    return np.asarray((spans & (x < crossing)).sum(axis=1) % 2 == 1)
