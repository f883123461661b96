"""Rows and groups as they are given: arrays, sparse matrices, frames, AnnData, labels, masks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from counterpoint.errors import InvalidInput
from counterpoint.groups.representations import Matrix, dense
from counterpoint.numerics import FloatArray, IntArray
from counterpoint.rows.encoding import encode
from counterpoint.rows.features import Categorical, Continuous, Features, unknown_name
from counterpoint.rows.table import Table

__all__ = ["Groups", "Intake", "read_rows", "spread_of", "stratified_folds"]


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
        """Read groups as they are given.

        Parameters
        ----------
        groups
            (n,) labels, of which missing ones (None, NaN) mean no group; a mapping from labels to
            boolean masks; or `Groups`. The order is that of the sorted labels, of the categories of
            a categorical column, or of the mapping.

        Raises
        ------
        InvalidInput
            If it is none of these.
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
        found = pd.Categorical(groups).remove_unused_categories()
        return cls(tuple(found.categories.tolist()), np.array(found.codes, dtype=np.intp))

    @classmethod
    def from_masks(cls, masks: Mapping[Any, ArrayLike]) -> Groups:
        """A group for each label, of the rows where its mask is true.

        Raises
        ------
        InvalidInput
            If a mask is not boolean, differs in length, has no row, or two share a row.
        """
        given = {label: np.asarray(mask) for label, mask in masks.items()}
        sizes = {mask.shape for mask in given.values()}
        if len(sizes) != 1 or any(mask.dtype != bool or mask.ndim != 1 for mask in given.values()):
            raise InvalidInput(
                "Expected boolean masks of one length, an entry for each row; got the shapes "
                f"{sorted(sizes)} and dtypes {sorted({str(m.dtype) for m in given.values()})}. "
                "Compare, as in labels == 'a', to get a mask."
            )
        labels, stack = tuple(given), np.stack(list(given.values()))
        shared = np.flatnonzero(stack.sum(axis=0) > 1)
        if len(shared):
            both = [repr(labels[i]) for i in np.flatnonzero(stack[:, shared[0]])]
            raise InvalidInput(
                f"Expected masks that do not overlap; {len(shared)} rows are in several, such as "
                f"row {shared[0]} in {' and '.join(both)}. Take them out of all but one."
            )
        _require_rows({label: int(mask.sum()) for label, mask in given.items()}, 1)
        return cls(labels, np.where(stack.any(axis=0), stack.argmax(axis=0), -1))

    @classmethod
    def from_polygons(
        cls, points: ArrayLike, polygons: Mapping[Any, ArrayLike] | Sequence[ArrayLike]
    ) -> Groups:
        """Points of a plane by the polygon they lie in; the first one, if there are several.

        Parameters
        ----------
        points
            (n, 2) an embedding.
        polygons
            Corners (c, 2) of a polygon for each label; of a sequence, the labels are 0, 1, 2 …

        Raises
        ------
        InvalidInput
            If points or corners are not in a plane, or a polygon holds no point.
        """
        plane = _plane(points, "points")
        named = polygons if isinstance(polygons, Mapping) else dict(enumerate(polygons))
        member = np.full(len(plane), -1)
        for i, corners in enumerate(named.values()):
            inside = _inside(plane, _plane(corners, "corners of polygons"))
            member[inside & (member < 0)] = i
        counts = np.bincount(member[member >= 0], minlength=len(named)).tolist()
        _require_rows(dict(zip(named, counts, strict=True)), 1)
        return cls(tuple(named), member.astype(np.intp))

    @classmethod
    def from_clusters(cls, points: ArrayLike, clusterer: Any) -> Groups:
        """The clusters that an estimator of scikit-learn finds; noise (−1) belongs to none.

        Parameters
        ----------
        points
            (n, m) an embedding, or any rows.
        clusterer
            Such as ``KMeans(5, random_state=0)`` or ``HDBSCAN(min_cluster_size=20)``; it is cloned.
        """
        from sklearn.base import clone

        found = np.asarray(clone(clusterer).fit_predict(np.asarray(points, dtype=float)))
        return cls.of([None if label == -1 else label for label in found.tolist()])

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
        """(l,) the number of rows of each group."""
        return np.bincount(self.member[self.member >= 0], minlength=len(self.labels))

    def rows(self, group: int) -> IntArray:
        """The rows of the group at a position."""
        return np.flatnonzero(self.member == group)

    def thinned(self, most: int) -> IntArray:
        """At most so many rows of each group, evenly spaced, group by group."""
        chosen = [self.rows(i) for i in range(len(self))]
        return np.concatenate([rows[:: max(1, -(-len(rows) // most))] for rows in chosen])

    def take(self, rows: IntArray) -> Groups:
        """The groups of some of the rows."""
        return Groups(self.labels, self.member[rows])

    def ordered(self, labels: tuple[Any, ...]) -> Groups:
        """The same groups, in the order of these labels; an error if one is not among them."""
        unknown = [label for label in self.labels if label not in labels]
        if unknown:
            raise InvalidInput(
                f"Expected groups among {', '.join(map(repr, labels))}, those of the fit; got also "
                f"{', '.join(map(repr, unknown))}. Leave their rows out, or fit with them."
            )
        position = np.array([labels.index(label) for label in self.labels] + [-1], dtype=np.intp)
        return Groups(labels, position[self.member])

    def require(self, rows: int) -> None:
        """Raise unless these are at least two groups of two rows, out of so many rows."""
        if len(self.member) != rows:
            raise InvalidInput(
                f"Expected a group for each of {rows} rows; got {len(self.member)}. Use None for "
                "rows without one."
            )
        if len(self) < 2:
            raise InvalidInput(
                f"Expected at least two groups; got {len(self)}. Explanations are between groups."
            )
        _require_rows(dict(zip(self.labels, self.sizes.tolist(), strict=True)), 2)

    def means(self, values: Matrix) -> FloatArray:
        """(l, d) the mean of the rows of each group; of dense or sparse rows."""
        known = np.flatnonzero(self.member >= 0)
        shape = len(self), len(self.member)
        belongs = sparse.csr_array((np.ones(len(known)), (self.member[known], known)), shape=shape)
        return dense(belongs @ values) / self.sizes[:, None]


def stratified_folds(
    groups: Groups, folds: int, random: np.random.RandomState
) -> Iterator[tuple[IntArray, IntArray]]:
    """The rows to learn from and those to judge on, fold by fold; each group is dealt by itself."""
    least = int(groups.sizes.min())
    if folds not in range(2, least // 2 + 1):
        small = groups.labels[int(groups.sizes.argmin())]
        raise InvalidInput(
            f"Expected at least 2 folds, with 2 rows of each group in each; got {folds!r}, and "
            f"group {small!r} has {least} rows. Leave it out, or judge on new rows with judge."
        )
    fold = np.full(len(groups.member), -1)
    for i in range(len(groups)):
        rows = random.permutation(groups.rows(i))
        fold[rows] = np.arange(len(rows)) % folds
    for part in range(folds):
        yield np.flatnonzero((fold >= 0) & (fold != part)), np.flatnonzero(fold == part)


def _require_rows(sizes: Mapping[Any, int], least: int) -> None:
    for label, size in sizes.items():
        if size < least:
            raise InvalidInput(
                f"Expected at least {least} {'rows' if least > 1 else 'row'} in each group; group "
                f"{label!r} has {size}. Leave it out, or join it with another."
            )


def _plane(points: ArrayLike, what: str) -> FloatArray:
    plane = np.asarray(points, dtype=np.float64)
    if plane.ndim != 2 or plane.shape[1] != 2 or not np.isfinite(plane).all():
        raise InvalidInput(
            f"Expected {what} as finite numbers of shape (n, 2); got the shape {plane.shape}. "
            "Polygons are drawn on an embedding of two dimensions."
        )
    return plane


def _inside(points: FloatArray, corners: FloatArray) -> NDArray[np.bool_]:
    """(n,) whether a ray to the right crosses an odd number of edges."""
    x, y = points[:, :1], points[:, 1:]
    a, b = corners, np.roll(corners, -1, axis=0)
    spans = (a[:, 1] > y) != (b[:, 1] > y)
    rise = np.where(a[:, 1] == b[:, 1], 1.0, b[:, 1] - a[:, 1])
    meets = (b[:, 0] - a[:, 0]) * (y - a[:, 1]) / rise + a[:, 0]
    return np.asarray((spans & (x < meets)).sum(axis=1) % 2 == 1)


@final
@dataclass(frozen=True, eq=False)
class Intake:
    """The columns that a representation takes, in its order.

    They go by name where it was fitted on names and rows have names, else by position. ``fills``
    says what a missing cell of a column counts as, ``unfilled`` why it counts as nothing.
    """

    features: Features
    named: bool
    fills: Mapping[Hashable, Any] = field(default_factory=dict)
    unfilled: Mapping[Hashable, str] = field(default_factory=dict)

    @classmethod
    def numbers(cls, names: Sequence[Hashable], *, named: bool) -> Intake:
        """Columns of numbers."""
        return cls(Features(Continuous(name) for name in names), named)

    @cached_property
    def names(self) -> tuple[Hashable, ...]:
        """(d,) names of the encoded columns; of categories as ``home=own``."""
        names: list[Hashable] = []
        for one in self.features:
            if isinstance(one, Categorical):
                names += [f"{one.name}={category}" for category in one.categories]
            else:
                names.append(one.name)
        return tuple(names)

    def renamed(self, names: Sequence[Hashable]) -> Intake:
        """The same columns under other names, by which they go from now on."""
        both = dict(zip(self.features.names, names, strict=True))
        return Intake(
            Features(replace(one, name=both[one.name]) for one in self.features),
            named=True,
            fills={both[name]: fill for name, fill in self.fills.items()},
            unfilled={both[name]: why for name, why in self.unfilled.items()},
        )


def spread_of(matrix: Matrix) -> FloatArray:
    """(d,) the standard deviation of each column, of dense or sparse rows."""
    if sparse.issparse(matrix):
        doubles = matrix.astype(np.float64, copy=False)
        return np.sqrt(mean_variance_axis(doubles, axis=0)[1])
    return dense(matrix.std(axis=0))


def read_rows(X: Any, groups: Any, intake: Intake | None) -> tuple[Matrix, Intake, Groups]:
    """Finite rows (n, d), dense or sparse, what was taken of them, and their groups.

    They come as `GroupExplainer.fit` takes them; without an intake all columns are taken. A column
    of categories becomes a column of zeros and ones for each of them.
    """
    if any(b.__name__ == "AnnData" for b in type(X).__mro__):
        if isinstance(groups, str):
            _require_column(groups, tuple(X.obs), "obs")
            groups = X.obs[groups]
        return *_of_matrix(X.X, tuple(X.var_names.tolist()), intake), Groups.of(groups)
    if sparse.issparse(X):
        return *_of_matrix(X, None, intake), Groups.of(groups)
    table = Table.read(X)
    if table.is_array:
        if isinstance(groups, str):
            _require_column(groups, (), "the data frame")
        return *_of_matrix(table.native, None, intake), Groups.of(groups)
    if isinstance(groups, str):
        _require_column(groups, table.names, "the data frame")
        column, groups = groups, _labels(table, groups)
        table = table.select([name for name in table.names if name != column])
    took = _arranged(intake, table.names, len(table.names))
    return _encoded(table.select(took.features.names), took), took, Groups.of(groups)


def _require_column(name: str, names: tuple[Hashable, ...], what: str) -> None:
    if name not in names:
        raise InvalidInput(
            f"Expected the groups to be a column of {what}; got {name!r}, and there are "
            f"{', '.join(map(str, names)) or 'none'}. Pass one of them, or a label for each row."
        )


def _labels(table: Table, name: str) -> Any:
    """A column of labels, with the order of its categories if it has one."""
    import pandas as pd

    values, levels = table.column(name), table.levels(name)
    return values if levels is None else pd.Categorical(values.tolist(), categories=list(levels))


def _arranged(intake: Intake | None, names: tuple[Hashable, ...] | None, width: int) -> Intake:
    """What is taken of some columns, which go by position if they have no names."""
    if names is not None and len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidInput(
            f"Expected distinct names of columns; {twice!r} is there twice. Rename one; of an "
            "AnnData, call var_names_make_unique."
        )
    if intake is None:
        listed = names or tuple(f"x{j}" for j in range(width))
        return Intake.numbers(listed, named=names is not None)
    wanted = intake.features.names
    if names is not None and intake.named:
        known = set(names)
        missing = [name for name in wanted if name not in known]
        if missing:
            raise InvalidInput(
                f"Expected the columns that the representation was fitted on; {len(missing)} of "
                f"{len(wanted)} are missing. {unknown_name(missing[0], names)}"
            )
        return intake
    if width != len(wanted):
        raise InvalidInput(
            f"Expected rows of {len(wanted)} features, which the representation takes; got "
            f"{width}. Pass the columns that it was fitted on, in order."
        )
    return intake if names is None else intake.renamed(names)


def _of_matrix(
    X: Any, names: tuple[Hashable, ...] | None, intake: Intake | None
) -> tuple[Matrix, Intake]:
    """Rows of a matrix, which may be sparse."""
    took = _arranged(intake, names, X.shape[1])
    wanted = took.features.names
    matrix: Matrix = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if names is not None and wanted != names:
        place = {name: j for j, name in enumerate(names)}
        matrix = matrix[:, [place[name] for name in wanted]]
    if not sparse.issparse(matrix):
        if matrix.dtype.kind in "biuf":  # all at once, and not column by column
            matrix = np.ascontiguousarray(matrix, dtype=np.float64)
        return _encoded(Table(matrix, wanted), took), took
    if not took.features.all_numeric:
        raise InvalidInput(
            "Expected a data frame, because the representation encodes categories; got a sparse "
            "matrix. Pass the frame that has them."
        )
    if not np.isfinite(matrix.data).all():
        raise InvalidInput(
            "Expected finite numbers; got a sparse cell that is none. Impute missing cells, or "
            "leave the rows out."
        )
    if not matrix.has_canonical_format:  # a cell that is there twice counts with its sum
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix, took


def _encoded(table: Table, took: Intake) -> FloatArray:
    """Rows with categories encoded, and missing cells filled in as the representation does."""
    encoded = encode(table, took.features, took.fills, took.unfilled)
    if encoded.problems:
        row = min(encoded.problems)
        problem = encoded.problems[row].replace(
            "Describe it with Categorical to add one.",  # the representation knows its categories
            "Leave the row out, or fit on it as well.",
        )
        raise InvalidInput(f"Row {row} cannot be used: {problem}")
    codes = took.features.expand(encoded.codes)
    return np.ascontiguousarray(codes, dtype=np.float64)
