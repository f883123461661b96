"""How good an explanation is: correctness, coverage and similarity, equations (3), (4), (10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, final

import numpy as np

from counterpoint.errors import InvalidInput
from counterpoint.groups.translations import Translations
from counterpoint.numerics import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Quality", "similarity"]


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
        names = [one.name for one in fields(cls)][1:]
        means = {n: np.mean([getattr(part, n) for part in parts], axis=0) for n in names}
        return cls(parts[0].groups, **means)

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


def similarity(sparser: Translations, denser: Translations) -> FloatArray:
    """How much of each explanation uses features that another one uses too, by equation (10).

    Parameters
    ----------
    sparser
        e₁, whose changes are counted.
    denser
        e₂, whose features count.

    Returns
    -------
    ndarray
        (l, l) ``Σ_f |e₁f| 1[e₂f ≠ 0] / ‖e₁‖₁`` of each pair; 1 where e₁ changes nothing.

    Raises
    ------
    InvalidInput
        If they are about other groups or features.
    """
    if sparser.groups != denser.groups or sparser.names != denser.names:
        raise InvalidInput(
            "Expected translations of the same groups and features; got others. Fit both on the "
            "same columns and labels."
        )

    def share(i: int, j: int) -> float:
        pair = sparser.groups[i], sparser.groups[j]
        one, other = np.abs(sparser.translation(*pair)), denser.translation(*pair)
        return float(one[other != 0.0].sum() / one.sum()) if one.any() else 1.0

    return sparser.over_pairs(share, same=1.0)
