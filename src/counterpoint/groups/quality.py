"""Measures explanations: correctness, coverage and similarity, equations (3), (4), (10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from counterpoint.errors import InvalidInput
from counterpoint.groups.group_labels import Groups
from counterpoint.groups.representations import Composed, Matrix, dense
from counterpoint.groups.translations import Translations
from counterpoint.numerics import FloatArray, IntArray
from counterpoint.pictures import html

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True, eq=False)
class Quality:
    """The quality of translations from each group (row) to each (column).

    Parameters
    ----------
    groups
        l labels.
    radius
        ε, how near in the representation is near; or (l,) one for each group moved to.
    correctness
        (l, l) the share of moved rows that are near a row of the group they are moved to: (3).
    coverage
        (l, l) the share of rows of that group that are near a moved one: (4).
    counts
        (l, l) the number of features changed.
    sizes
        (l, l) the cost of the change.
    outside
        (l, l) the share of changed values that leave the range of the rows of the fit.
    away
        (l, l) how far a moved row is from the nearest real one of the group, in units of how far
        real ones are from each other; NaN where these coincide.
    unchanged
        (l, l) correctness if nothing changes: what groups that overlap have for nothing.
    assigned
        (l, l) the share of moved rows that are assigned to the group they are moved to: whose mean
        in the representation is nearest, or by a rule that was passed.
    seen
        The share of these rows that were among those of the fit. It is small, and need not be 0,
        for held-out rows: some may happen to be equal to others.
    """

    groups: tuple[Any, ...]
    radius: float | FloatArray
    correctness: FloatArray
    coverage: FloatArray
    counts: FloatArray
    sizes: FloatArray
    outside: FloatArray
    away: FloatArray
    unchanged: FloatArray
    assigned: FloatArray
    seen: float

    @classmethod
    def mean_of(cls, qualities: Sequence[Quality]) -> Quality:
        """Return the mean over several sets of rows."""
        names = [field.name for field in fields(cls)][1:]
        means = {n: np.mean([getattr(quality, n) for quality in qualities], axis=0) for n in names}
        return cls(qualities[0].groups, **means)

    def mean(self, of: FloatArray, *, diagonal: bool = False) -> float:
        """Return the mean of a matrix (l, l), such as ``quality.coverage``, over its numbers.

        With ``diagonal``, each group and itself are a pair, as the paper counts.
        """
        values = of.ravel() if diagonal else of[~np.eye(len(of), dtype=bool)]
        numbers = values[~np.isnan(values)]
        return float(numbers.mean()) if len(numbers) else float("nan")

    @property
    def worst(self) -> tuple[Any, Any]:
        """The pair of groups that is explained least correctly."""
        correctness = self.correctness + 2.0 * np.eye(len(self.groups))  # a group and itself last
        i, j = np.unravel_index(int(correctness.argmin()), correctness.shape)
        return self.groups[i], self.groups[j]

    def summary(self) -> str:
        """Say the means over pairs, the worst pair, and which rows they are about."""
        start, end = self.worst
        worst = self.groups.index(start), self.groups.index(end)
        correctness, coverage = self.mean(self.correctness), self.mean(self.coverage)
        least, most = np.min(self.radius), np.max(self.radius)
        radius = f"radius {least:.3g}" if least == most else f"radii {least:.3g} to {most:.3g}"
        away = self.mean(self.away)
        apart = "" if np.isnan(away) else f"; {away:.3g} times as far from real rows as these are"
        return (
            f"{self._about()}\n"
            f"correctness {correctness:.3f}, coverage {coverage:.3f} ({radius}; "
            f"with each group and itself {self.mean(self.correctness, diagonal=True):.3f}, "
            f"{self.mean(self.coverage, diagonal=True):.3f})\n"
            f"correctness without any change {self.mean(self.unchanged):.3f}; of moved rows, "
            f"{self.mean(self.assigned):.1%} are assigned to the group they are moved to\n"
            f"worst pair: from {start} to {end}, correctness {self.correctness[worst]:.3f}, "
            f"coverage {self.coverage[worst]:.3f}\n"
            f"{self.mean(self.counts):.1f} features a pair, cost {self.mean(self.sizes):.3g}; "
            f"{self.mean(self.outside):.1%} of changed values outside the range of the data{apart}"
        )

    def _about(self) -> str:
        """Say how many groups there are, and whether these rows were in the fit."""
        if self.seen > 0.5:
            return f"{len(self.groups)} groups, {self.seen:.0%} of the rows were in the fit"
        alike = f", {self.seen:.1%} of them like rows of the fit" if self.seen else ""
        return f"{len(self.groups)} groups, held-out rows{alike}"

    def to_frame(self) -> pd.DataFrame:
        """Return a line for each ordered pair of different groups, with all numbers."""
        import pandas as pd

        first, second = np.nonzero(~np.eye(len(self.groups), dtype=bool))
        names = (
            *("correctness", "coverage", "unchanged", "assigned"),
            *("counts", "sizes", "outside", "away"),
        )
        pairs = [(self.groups[i], self.groups[j]) for i, j in zip(first, second, strict=True)]
        numbers = {name: getattr(self, name)[first, second] for name in names}
        return pd.DataFrame(pairs, columns=["from", "to"]).assign(**numbers)

    def plot(self, ax: Any = None) -> Figure:
        """Draw correctness and coverage of each pair on two Matplotlib axes, or a new figure."""
        from counterpoint.pictures.plots import draw_quality

        return draw_quality(self, ax)

    def __repr__(self) -> str:
        return f"<Quality: {self.summary().splitlines()[1]}; {self._about()}>"

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        rows = frame.itertuples(index=False)
        return html.panel(
            "Quality",
            html.paragraph(self.summary()),
            html.folded("Pairs", html.table(list(frame), rows, most=20)),
        )


def similarity(sparser: Translations, denser: Translations) -> FloatArray:
    """Return how much of each explanation uses features that another uses too: equation (10).

    It is ``Σ_f |e₁f| 1[e₂f ≠ 0] / ‖e₁‖₁`` of each pair (l, l) of groups, with e₁ the sparser and
    e₂ the denser; 1 where e₁ changes nothing.
    """
    if sparser.groups != denser.groups or sparser.names != denser.names:
        raise InvalidInput(
            "Expected translations of the same groups and features; got others. Fit both on the "
            "same columns and labels."
        )

    def share(i: int, j: int) -> float:
        pair = sparser.groups[i], sparser.groups[j]
        size, other = np.abs(sparser.translation(*pair)), denser.translation(*pair)
        return float(size[other != 0.0].sum() / size.sum()) if size.any() else 1.0

    return sparser.over_pairs(share, same=1.0)


@final
@dataclass(frozen=True, eq=False)
class Points:
    """Rows of groups, in the representation; each row belongs to a group, each group has rows.

    Two points are near if they are within the radius, in Euclidean distance; a point is not near
    itself: where both groups are the same, others count.
    """

    matrix: Matrix  # (n, d) the rows
    groups: Groups
    space: Composed  # the representation
    hidden: FloatArray  # (n, h) the rows after the affine part of the representation

    @classmethod
    def of(cls, matrix: Matrix, groups: Groups, space: Composed) -> Points:
        """Take the rows (n, d) that belong to a group."""
        rows = np.flatnonzero(groups.member >= 0)
        matrix = matrix[rows]
        return cls(matrix, groups.take(rows), space, space.hidden(matrix))

    def take(self, rows: IntArray) -> Points:
        """Return some of the points."""
        return Points(self.matrix[rows], self.groups.take(rows), self.space, self.hidden[rows])

    @cached_property
    def values(self) -> FloatArray:
        """The representation (n, m) of the rows."""
        return self.space.finish(self.hidden)

    @cached_property
    def members(self) -> tuple[IntArray, ...]:
        """The rows of each group."""
        return tuple(self.groups.rows(i) for i in range(len(self.groups)))

    @cached_property
    def group_values(self) -> tuple[FloatArray, ...]:
        """The values of the rows of each group."""
        return tuple(self.values[rows] for rows in self.members)

    @cached_property
    def searchable(self) -> tuple[KDTree | FloatArray, ...]:
        """The values of each group, as `_distances` takes them."""
        return tuple(map(_searchable, self.group_values))

    def cells(self, columns: IntArray) -> list[FloatArray]:
        """The cells of some columns, group by group."""
        return [dense(self.matrix[rows][:, columns]) for rows in self.members]

    @cached_property
    def radii(self) -> FloatArray:
        """The least radius (l,) within which 95 % of each group are near another row of it."""
        least = 1e-3 * float(np.ptp(self.values, axis=0).max())  # where rows coincide
        radii = np.empty(len(self.groups))
        for j, values in enumerate(self.group_values):
            distances = np.sort(_distances(self.searchable[j], values, 2))
            radii[j] = max(least, distances[int(np.ceil(0.95 * len(values))) - 1])
        return radii * (1.0 + 1e-9)  # the distance itself is within it, however it is computed

    def arrived(self, translations: Translations, i: int, j: int) -> FloatArray:
        """Return the values (n, m) of the rows of group i, moved to group j."""
        matrix = self.space.first.matrix[translations.columns]
        shift = np.asarray(translations.between(i, j) @ matrix)
        if not shift.any():
            return self.group_values[i]
        return self.space.finish(self.hidden[self.members[i]] + shift)

    def rates(
        self,
        translations: Translations,
        radius: float | FloatArray,
        *,
        diagonal: bool = True,
        times: Sequence[float] = (1.0,),
    ) -> tuple[FloatArray, FloatArray]:
        """Return correctness and coverage (l, l) within a radius, or (l,) one for each group.

        Rates are means over several multiples of the radius, ``times``.
        """
        count = len(self.groups)
        correctness, coverage = np.full((2, count, count), np.nan)
        # With an affine map, a move from i to j is that from j to i taken back: with one radius for
        # all groups, coverage of j by i is then correctness from j to i.
        mirrored = self.space.second is None and np.ndim(radius) == 0
        radii = np.multiply.outer(np.broadcast_to(radius, (count,)), times)  # (l, times)
        for i, j in np.ndindex(count, count):
            if i == j and not diagonal:
                continue
            neighbour = 2 if i == j else 1  # a row of the own group is nearest to itself
            cutoff = float(np.nextafter(radii[j].max(), np.inf))  # trees exclude the bound itself
            moved = self.arrived(translations, i, j)
            distances = _distances(self.searchable[j], moved, neighbour, cutoff)
            correctness[i, j] = (distances[:, None] <= radii[j]).mean()
            if not mirrored:
                distances = _distances(_searchable(moved), self.group_values[j], neighbour, cutoff)
                coverage[i, j] = (distances[:, None] <= radii[j]).mean()
        return correctness, correctness.T.copy() if mirrored else coverage

    def keys(self, extent: float) -> list[bytes]:
        """Return each row in the representation, to nine digits, as bytes to compare."""
        return [row.tobytes() for row in np.round(self.values / extent, 9) + 0.0]


def _searchable(points: FloatArray) -> KDTree | FloatArray:
    """Make a tree of points, if they have few dimensions: of many it would search most of it."""
    return KDTree(points) if points.shape[1] <= 12 else points


def _distances(
    targets: KDTree | FloatArray, points: FloatArray, neighbour: int = 1, cutoff: float = np.inf
) -> FloatArray:
    """Return the distance (n,) from each point to its nearest target, or to the second nearest.

    With a tree, distances of ``cutoff`` or more are ∞, which is quicker.
    """
    if isinstance(targets, KDTree):
        distances, _ = targets.query(points, k=[neighbour], distance_upper_bound=cutoff)
        return np.asarray(distances[:, 0])
    if len(targets) < neighbour:
        return np.full(len(points), np.inf)
    # ‖p − q‖² = ‖q‖² − 2 pᵀq + ‖p‖², of which ‖p‖² decides nothing, and is added at the end.
    squares, lengths = np.empty(len(points)), np.einsum("ij,ij->i", targets, targets)
    step = max(1, 2**22 // len(targets))  # 32 MB of distances at a time
    for i in range(0, len(points), step):
        chunk = points[i : i + step]
        partial = lengths - 2.0 * chunk @ targets.T
        if neighbour > 1:
            partial.partition(neighbour - 1, axis=1)
            partial = partial[:, neighbour - 1 :]
        squares[i : i + step] = partial.min(axis=1) + np.einsum("ij,ij->i", chunk, chunk)
    return np.sqrt(np.maximum(squares, 0.0))


def assigned(
    translations: Translations,
    points: Points,
    targets: FloatArray,
    assign: Callable[[FloatArray], Any] | None,
) -> FloatArray:
    """Return the share (l, l) of moved rows that are assigned to the group they are moved to.

    ``assign`` takes moved rows (n, m) to labels of groups; by default, a row is assigned to the
    nearest of the means ``targets`` (l, m).
    """
    count = len(points.groups)
    shares = np.empty((count, count))
    for i, j in np.ndindex(count, count):
        moved = points.arrived(translations, i, j)
        if assign is None:
            arrived = cdist(moved, targets).argmin(axis=1) == j
        else:
            arrived = np.asarray(assign(moved), dtype=object) == points.groups.labels[j]
        if np.shape(arrived) != (len(moved),):
            raise InvalidInput(
                f"Expected assign to give a label for each of {len(moved)} rows; got the shape "
                f"{np.shape(arrived)}. Pass a function of rows (n, m) of the representation, such "
                "as kmeans.predict."
            )
        shares[i, j] = arrived.mean()
    return shares


def outside(
    translations: Translations, points: Points, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return the share (l, l) of changed values that leave the range (d,) of each feature."""
    columns = translations.columns
    low, high = low[columns], high[columns]
    slack = 1e-12 * np.maximum(np.abs(low), np.abs(high))  # for the rounding of moved values
    cells = points.cells(columns)

    def share(i: int, j: int) -> float:
        change = translations.between(i, j)
        moved = cells[i] + change
        leaves = (moved < low - slack) | (moved > high + slack)
        return float(leaves[:, change != 0.0].mean()) if change.any() else 0.0

    return translations.over_pairs(share)


def away(translations: Translations, points: Points, scale: FloatArray) -> FloatArray:
    """Return the distance (l, l) of moved rows from real ones, over that of real ones.

    Both are medians of Euclidean distances to the nearest other row of the group moved to, over all
    features in units of ``scale``; NaN if that of real ones is 0.
    """
    # Samples of 500 rows of each group, or of so few, but at least 10, that the distances between
    # all pairs of groups take two billion products.
    width, count = points.matrix.shape[1], len(points.groups)
    most = int(np.clip(int(np.sqrt(2e9 / max(1, width * count * count))), 10, 500))
    sample = points.take(points.groups.thinned(most))
    rows = [cells / scale for cells in sample.cells(np.arange(width))]
    targets = [_searchable(cells) for cells in rows]
    # second nearest: the nearest row is the row itself
    spacing = [float(np.median(_distances(*pair, 2))) for pair in zip(targets, rows, strict=True)]

    def ratio(i: int, j: int) -> float:
        shift = np.zeros(width)
        shift[translations.columns] = translations.between(i, j)
        distance = float(np.median(_distances(targets[j], rows[i] + shift / scale)))
        return distance / spacing[j] if spacing[j] > 0.0 else np.nan

    return translations.over_pairs(ratio, same=1.0)
