"""All that a fit needs to know of rows, groups and representation."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput
from counterpoint.groups.fusion import Fusion
from counterpoint.groups.guarded import Guarded
from counterpoint.groups.limits import Limits, prices
from counterpoint.groups.matching import Matching, Task
from counterpoint.groups.membership import Groups
from counterpoint.groups.metrics import Points
from counterpoint.groups.path import Candidate
from counterpoint.groups.polish import Aim, ties
from counterpoint.groups.quality import Yardstick, keys
from counterpoint.groups.representations import Affine, Representation, Stages, stages, times
from counterpoint.groups.rows import Rows
from counterpoint.groups.translations import Translations

__all__ = ["Scene"]

FloatArray = NDArray[np.float64]

SHOWN = 10_000
"""Moved rows, over all pairs, that the choice between explanations is made by."""
FEWEST = 20
"""Rows of a group that it looks at, at least."""


@final
@dataclass(frozen=True, eq=False)
class Scene:
    """Groups of rows, seen through a representation.

    Parameters
    ----------
    parts
        The representation.
    labels
        l labels of groups.
    names
        d names of features.
    means
        (l, d) the means of the groups, in feature units.
    base
        (l, h) the same after the affine part of the representation.
    targets
        (l, m) the means of the representations of their rows.
    price
        (d,) what a change of one unit costs.
    sample
        Some rows of each group, by which the choice between explanations is made.
    points
        These in the representation.
    yardstick
        What rows are held against.
    """

    parts: Stages
    labels: tuple[Any, ...]
    names: tuple[Hashable, ...]
    means: FloatArray
    base: FloatArray
    targets: FloatArray
    price: FloatArray
    sample: Rows
    points: Points
    yardstick: Yardstick

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
        """Look at rows and groups that have been read.

        Raises
        ------
        InvalidInput
            If they do not fit together, or the radius is not positive.
        """
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
        known = np.flatnonzero(groups.member >= 0)
        rows, groups, parts = rows.take(known), groups.take(known), stages(representation)
        if parts.rest is not None:
            parts = Stages(parts.first, Guarded(parts.rest))
        every = Points(parts, parts.hidden(rows.matrix), groups)
        spread, (low, high) = rows.spread, rows.ends
        extent = float(np.ptp(every.values, axis=0).max()) or 1.0
        yardstick = Yardstick(
            radius=every.radius if radius is None else float(radius),
            low=low,
            high=high,
            scale=np.where(spread > 0.0, spread, 1.0),
            extent=extent,
            known=frozenset(keys(every.values, extent)),
        )
        shown = groups.thinned(max(FEWEST, SHOWN // len(groups) ** 2))
        return cls(
            parts,
            groups.labels,
            rows.names,
            groups.means(rows.matrix),
            groups.means(every.hidden),
            groups.means(every.values),
            prices(costs, spread, rows.names),
            rows.take(shown),
            Points(parts, every.hidden[shown], groups.take(shown)),
            yardstick,
        )

    def __repr__(self) -> str:
        return f"<Scene: {len(self.labels)} groups, {len(self.names)} features>"

    @property
    def scale(self) -> FloatArray:
        """(d,) the units that offsets are found in: those of the standard deviations."""
        return self.yardstick.scale

    def task(self, limits: Limits) -> Task:
        """What is minimised, over offsets in units of ``scale``."""
        count, parts = len(self.labels), self.parts
        scaled = Affine.scaling(self.scale, np.zeros(len(self.scale))).then(
            Affine(parts.first.matrix, np.zeros(parts.first.matrix.shape[1]))
        )
        fusion = Fusion(
            count,
            2.0 / (count * (count - 1)) * self.price * self.scale,
            limits.reach(self.means, self.names) / self.scale,
            limits.course(self.names),
        )
        return Task(Matching(self.base, self.targets, parts.rest), scaled.matrix, fusion)

    def centred(self, task: Task) -> FloatArray:
        """(l, d) the means in units of ``scale``, in the middle of what offsets may be."""
        middle = (self.means.max(axis=0) + self.means.min(axis=0)) / 2.0
        return task.fusion.nearest((self.means - middle) / self.scale)

    def translations(self, D: FloatArray, strength: float) -> Translations:
        """Offsets in units of ``scale`` as translations in feature units."""
        columns = np.flatnonzero(np.ptp(D, axis=0) > 0.0)
        levels = D[:, columns] * self.scale[columns]
        return Translations(
            self.labels,
            self.names,
            columns,
            levels,
            self.price[columns],
            float(strength),
        )

    def aim(self, task: Task, D: FloatArray) -> Aim:
        """What is minimised when offsets in units of ``scale`` are polished."""
        columns = np.flatnonzero(np.ptp(D, axis=0) > 0.0)
        scale, yardstick = self.scale[columns], self.yardstick
        return Aim(
            self.points,
            self.sample.dense(np.arange(len(self.sample)), columns) / scale,
            np.stack([yardstick.low[columns], yardstick.high[columns]]) / scale,
            times(np.eye(len(columns)), task.matrix[columns]),
            self.price[columns] * scale,
            ties(D[:, columns]),
            yardstick.radius,
        )

    def candidate(self, D: FloatArray, loss: float, strength: float) -> Candidate:
        """What offsets in units of ``scale`` are as an explanation."""
        translations = self.translations(D, strength)
        return Candidate(translations, D, loss, *self.rates(translations))

    def rates(self, translations: Translations) -> tuple[float, float]:
        """Correctness and coverage, the means over pairs, on the rows of the fit."""
        off = ~np.eye(len(self.labels), dtype=bool)
        radius = self.yardstick.radius
        correctness, coverage = self.points.rates(translations, radius, diagonal=False)
        return float(correctness[off].mean()), float(coverage[off].mean())
