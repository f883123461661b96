"""`Scene`: what a fit learns of rows and groups before anything is minimised."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from counterpoint.errors import InvalidInput
from counterpoint.groups.limits import Limits, prices
from counterpoint.groups.path import Candidate
from counterpoint.groups.problem import Fusion, Task
from counterpoint.groups.quality import Points, Quality, away, outside
from counterpoint.groups.refinement import Aim, ties
from counterpoint.groups.representations import FloatArray, Representation, dense, stages
from counterpoint.groups.tables import Groups, Rows
from counterpoint.groups.translations import Translations

__all__ = ["Scene"]


@final
@dataclass(frozen=True, eq=False)
class Scene:
    """Groups of rows, seen through a representation.

    Parameters
    ----------
    points
        Some rows of each group, by which the choice between explanations is made.
    means
        (l, d) the means of the groups, in feature units.
    base
        (l, h) the same after the affine part of the representation.
    targets
        (l, m) the means of the representations of their rows.
    price
        (d,) what a change of one unit costs.
    radius
        ε, how near in the representation is near.
    low, high
        (d,) the smallest and largest values.
    scale
        (d,) the units that offsets are found in: the standard deviations, 1 where they are 0.
    extent
        Of the rows in the representation.
    known
        The rows, as their bytes there.
    """

    points: Points
    means: FloatArray
    base: FloatArray
    targets: FloatArray
    price: FloatArray
    radius: float
    low: FloatArray
    high: FloatArray
    scale: FloatArray
    extent: float
    known: frozenset[bytes]

    @classmethod
    def of(
        cls,
        representation: Representation,
        rows: Rows,
        groups: Groups,
        *,
        costs: Any,
        radius: float | None,
    ) -> Scene:
        """Look at rows and groups that have been read; an error if they do not fit together."""
        if representation.n_features != len(rows.names):
            raise InvalidInput(
                f"Expected rows of {representation.n_features} features, which the representation "
                f"takes; got {len(rows.names)}. Pass the columns that it was fitted on, in order."
            )
        groups.require(len(rows))
        if radius is not None and not (np.isreal(radius) and radius > 0.0):
            raise InvalidInput(
                f"Expected a positive radius; got {radius!r}. Pass None for the paper's rule."
            )
        every = Points.of(rows, groups, stages(representation))
        rows, groups = every.rows, every.groups
        spread, (low, high) = rows.spread, rows.ends
        extent = float(np.ptp(every.values, axis=0).max()) or 1.0
        # Choices look at 10 000 moved rows over all pairs, but at 20 of each group at least.
        shown = groups.thinned(max(20, 10_000 // len(groups) ** 2))
        return cls(
            every.take(shown),
            groups.means(rows.matrix),
            groups.means(every.hidden),
            groups.means(every.values),
            prices(costs, spread, rows.names),
            every.radius if radius is None else float(radius),
            low,
            high,
            np.where(spread > 0.0, spread, 1.0),
            extent,
            frozenset(every.keys(extent)),
        )

    @property
    def labels(self) -> tuple[Any, ...]:
        """l labels of groups."""
        return self.points.groups.labels

    @property
    def names(self) -> tuple[Hashable, ...]:
        """d names of features."""
        return self.points.rows.names

    def __repr__(self) -> str:
        return f"<Scene: {len(self.labels)} groups, {len(self.names)} features>"

    def task(self, limits: Limits) -> Task:
        """What is minimised, over offsets in units of ``scale``."""
        count, parts = len(self.labels), self.points.parts
        fusion = Fusion(
            count,
            2.0 / (count * (count - 1)) * self.price * self.scale,
            limits.reach(self.means, self.names) / self.scale,
            limits.course(self.names),
        )
        matrix = sparse.diags_array(self.scale, format="csr") @ parts.first.matrix
        return Task(self.base, self.targets, parts, matrix, fusion)

    def centred(self, task: Task) -> FloatArray:
        """(l, d) the means in units of ``scale``, in the middle of what offsets may be."""
        middle = (self.means.max(axis=0) + self.means.min(axis=0)) / 2.0
        return task.fusion.nearest((self.means - middle) / self.scale)

    def translations(self, D: FloatArray, strength: float) -> Translations:
        """Offsets in units of ``scale`` as translations in feature units."""
        columns = np.flatnonzero(np.ptp(D, axis=0) > 0.0)
        levels, costs = D[:, columns] * self.scale[columns], self.price[columns]
        return Translations(self.labels, self.names, columns, levels, costs, float(strength))

    def aim(self, task: Task, D: FloatArray) -> Aim:
        """What is minimised when offsets in units of ``scale`` are polished."""
        columns = np.flatnonzero(np.ptp(D, axis=0) > 0.0)
        scale = self.scale[columns]
        return Aim(
            self.points,
            [cells / scale for cells in self.points.cells(columns)],
            self.low[columns] / scale,
            self.high[columns] / scale,
            dense(task.matrix[columns]),
            self.price[columns] * scale,
            ties(D[:, columns]),
            self.radius,
        )

    def candidate(self, D: FloatArray, loss: float, strength: float) -> Candidate:
        """What offsets in units of ``scale`` are as an explanation."""
        translations = self.translations(D, strength)
        return Candidate(translations, D, loss, *self.rates(translations))

    def rates(self, translations: Translations) -> tuple[float, float]:
        """Correctness and coverage, the means over pairs, on the rows of the fit."""
        off = ~np.eye(len(self.labels), dtype=bool)
        correctness, coverage = self.points.rates(translations, self.radius, diagonal=False)
        return float(correctness[off].mean()), float(coverage[off].mean())

    def judge(self, translations: Translations, points: Points) -> Quality:
        """How good translations are for rows, which are held against those of the fit."""
        return Quality(
            translations.groups,
            self.radius,
            *points.rates(translations, self.radius),
            translations.counts.astype(np.float64),
            translations.sizes,
            outside(translations, points, self.low, self.high),
            away(translations, points, self.scale),
            float(np.mean([key in self.known for key in points.keys(self.extent)])),
        )
