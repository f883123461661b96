"""`Quality`: how good an explanation is, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.groups.membership import Groups
from counterpoint.groups.metrics import Points
from counterpoint.groups.neighbours import Neighbours
from counterpoint.groups.rows import Rows
from counterpoint.groups.translations import Translations

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Quality", "Yardstick"]

FloatArray = NDArray[np.float64]

WORK = 2e9
"""Products that the distances between all rows of all pairs may take."""
FEWEST, MOST = 10, 500
"""Rows of a group that distances are taken of."""


@final
@dataclass(frozen=True, eq=False)
class Yardstick:
    """What rows to be judged are held against: those of the fit.

    Parameters
    ----------
    radius
        ε, how near in the representation is near.
    low, high
        (d,) the smallest and largest values.
    scale
        (d,) the unit of each feature for distances: its standard deviation.
    extent
        Of the rows in the representation.
    known
        The rows, as their bytes there.
    """

    radius: float
    low: FloatArray
    high: FloatArray
    scale: FloatArray
    extent: float
    known: frozenset[bytes]

    def judge(
        self, translations: Translations, points: Points, rows: Rows, groups: Groups
    ) -> Quality:
        """How good translations are for rows."""
        correctness, coverage = points.rates(translations, self.radius)
        seen = float(np.mean([key in self.known for key in keys(points.values, self.extent)]))
        return Quality(
            translations.groups,
            self.radius,
            correctness,
            coverage,
            translations.counts.astype(np.float64),
            translations.sizes,
            self._outside(translations, rows, groups),
            self._away(translations, rows, groups),
            seen,
        )

    def _outside(self, translations: Translations, rows: Rows, groups: Groups) -> FloatArray:
        """(l, l) the share of changed values that leave the range of the rows of the fit."""
        outside = np.zeros((len(groups),) * 2)
        columns = translations.columns
        low, high = self.low[columns], self.high[columns]
        slack = 1e-12 * np.maximum(np.abs(low), np.abs(high))
        cells = [rows.dense(groups.rows(i), columns) for i in range(len(groups))]
        for i, j in translations.pairs:
            change = translations.between(i, j)
            moved = cells[i] + change
            out = (moved < low - slack) | (moved > high + slack)
            outside[i, j] = out[:, change != 0.0].mean() if change.any() else 0.0
        return outside

    def _away(self, translations: Translations, rows: Rows, groups: Groups) -> FloatArray:
        """(l, l) how far moved rows are from the nearest real one, in units of how far those are.

        Distances are Euclidean over all features in units of ``scale``; the median of the rows of
        i, moved to j, to the nearest of j, over the median of the rows of j to the nearest other.
        """
        every, count = np.arange(len(rows.names)), len(groups)
        most = int(np.sqrt(WORK / max(1, len(rows.names) * count * count)))
        step = [max(1, -(-size // int(np.clip(most, FEWEST, MOST)))) for size in groups.sizes]
        some = [rows.dense(groups.rows(i)[:: step[i]], every) / self.scale for i in range(count)]
        real = [Neighbours(points) for points in some]
        usual = [float(np.median(own.distances(own.points, 2))) for own in real]
        away = np.ones((count, count))
        for i, j in translations.pairs:
            shift = np.zeros(len(rows.names))
            shift[translations.columns] = translations.between(i, j)
            found = float(np.median(real[j].distances(some[i] + shift / self.scale)))
            away[i, j] = found / usual[j] if usual[j] > 0.0 else np.nan
        return away


def keys(values: FloatArray, extent: float) -> list[bytes]:
    """Each row as something to compare, to nine digits."""
    return [row.tobytes() for row in np.round(values / extent, 9) + 0.0]


@final
@dataclass(frozen=True, eq=False)
class Quality:
    """How good translations are, from each group (row) to each (column).

    Parameters
    ----------
    groups
        l labels.
    radius
        ε, how near in the representation is near.
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
    seen
        The share of these rows that were among those of the fit. Of held-out rows it is small:
        some may happen to be equal to others.
    """

    groups: tuple[Any, ...]
    radius: float
    correctness: FloatArray
    coverage: FloatArray
    counts: FloatArray
    sizes: FloatArray
    outside: FloatArray
    away: FloatArray
    seen: float

    @classmethod
    def mean_of(cls, parts: Sequence[Quality]) -> Quality:
        """The mean over several sets of rows."""

        def mean(name: str) -> Any:
            return np.mean([getattr(part, name) for part in parts], axis=0)

        names = ("correctness", "coverage", "counts", "sizes", "outside", "away", "seen")
        return cls(parts[0].groups, float(mean("radius")), *map(mean, names))

    def mean(self, of: FloatArray, *, diagonal: bool = False) -> float:
        """The mean of one of the matrices over pairs.

        Parameters
        ----------
        of
            (l, l), such as ``quality.coverage``.
        diagonal
            Whether each group and itself are a pair, as the paper counts.

        Returns
        -------
        float
            Of the pairs that have a number; NaN if none has.
        """
        values = of.ravel() if diagonal else of[~np.eye(len(of), dtype=bool)]
        known = values[~np.isnan(values)]
        return float(known.mean()) if len(known) else float("nan")

    @property
    def worst(self) -> tuple[Any, Any]:
        """The pair of groups that is explained least correctly."""
        held = self.correctness + 2.0 * np.eye(len(self.groups))
        i, j = np.unravel_index(int(held.argmin()), held.shape)
        return self.groups[i], self.groups[j]

    def summary(self) -> str:
        """The means over pairs, the worst pair, and which rows it is about."""
        start, end = self.worst
        i, j = self.groups.index(start), self.groups.index(end)
        rates = (self.correctness, self.coverage)
        mean, both = ([self.mean(r, diagonal=d) for r in rates] for d in (False, True))
        away = self.mean(self.away)
        far = "" if np.isnan(away) else f"; {away:.3g} times as far from real rows as these are"
        return (
            f"{self._about()}\n"
            f"correctness {mean[0]:.3f}, coverage {mean[1]:.3f} (radius {self.radius:.3g}; "
            f"with each group and itself {both[0]:.3f}, {both[1]:.3f})\n"
            f"worst pair: from {start} to {end}, correctness {self.correctness[i, j]:.3f}, "
            f"coverage {self.coverage[i, j]:.3f}\n"
            f"{self.mean(self.counts):.1f} features a pair, cost {self.mean(self.sizes):.3g}; "
            f"{self.mean(self.outside):.1%} of changed values outside the range of the data{far}"
        )

    def _about(self) -> str:
        if self.seen > 0.5:
            return f"{len(self.groups)} groups, {self.seen:.0%} of the rows were in the fit"
        alike = f", {self.seen:.1%} of them like rows of the fit" if self.seen else ""
        return f"{len(self.groups)} groups, held-out rows{alike}"

    def to_frame(self) -> pd.DataFrame:
        """One line for each ordered pair of different groups, with all numbers."""
        import pandas as pd

        first, second = np.nonzero(~np.eye(len(self.groups), dtype=bool))
        columns = {
            "from": [self.groups[i] for i in first],
            "to": [self.groups[j] for j in second],
        }
        names = ("correctness", "coverage", "counts", "sizes", "outside", "away")
        return pd.DataFrame(columns | {name: getattr(self, name)[first, second] for name in names})

    def plot(self, ax: Any = None) -> Figure:
        """Correctness and coverage of each pair as two maps.

        Parameters
        ----------
        ax
            Two matplotlib axes; None for a new figure.

        Raises
        ------
        MissingExtra
            If matplotlib is not installed.
        """
        from counterpoint.groups.pictures import draw_quality

        return draw_quality(self, ax)

    def __repr__(self) -> str:
        return f"<Quality: {self.summary().splitlines()[1]}; {self._about()}>"
