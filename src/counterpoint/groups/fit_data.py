"""The data of a fit: groups of rows in the representation, limits and costs of changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from counterpoint.errors import InvalidInput, by_name
from counterpoint.groups.fitting import FEW
from counterpoint.groups.group_labels import Groups
from counterpoint.groups.path import Candidate
from counterpoint.groups.problem import Fusion, Objective, moving
from counterpoint.groups.quality import Points, Quality, assigned, away, outside
from counterpoint.groups.reading import ColumnEncoding
from counterpoint.groups.representations import Matrix, Representation, dense, stages
from counterpoint.groups.translations import Translations
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.rows.features import unknown_name

__all__ = ["FitData", "Limits", "spread_of"]

Names = tuple[Hashable, ...]
Bound = float | tuple[float, float]


@final
@dataclass(frozen=True)
class Limits:
    """Bounds on the change of each feature between any two groups.

    Parameters
    ----------
    times
        The largest change in units of the range of the group means; infinite for none. The
        difference of means is within it from 1 on. Columns of zeros and ones change by at most 1,
        unless ``bounds`` say otherwise.
    bounds
        Name or position → the largest change up or down in feature units, in place of that: a
        number, or the two ends (low, high). Every change has its opposite, so that both are held
        within the nearer of the two. Here and below, the name of a column of categories stands for
        all of them, and ``home=own`` for one.
    immutable
        Names or positions of features that stay.
    rising, falling
        Names or positions of features that may only rise, or only fall, from each group to those
        after it, in the order of the groups.
    """

    times: float = 1.5
    bounds: Mapping[Hashable, Bound] = field(default_factory=dict)
    immutable: Sequence[Hashable] = ()
    rising: Sequence[Hashable] = ()
    falling: Sequence[Hashable] = ()

    def reach(self, means: FloatArray, names: Names, switches: BoolArray) -> FloatArray:
        """Return the largest change (d,) in feature units; ``switches`` hold zeros and ones."""
        if not _number(self.times) >= 0.0:
            raise InvalidInput(f"Expected times of at least 0; got {self.times!r}. Pass 1.5, say.")
        span = np.ptp(means, axis=0)
        reach = np.where(span > 0.0, self.times, 0.0) * np.where(span > 0.0, span, 1.0)
        reach[switches] = np.minimum(reach[switches], 1.0)
        for name, bound in self.bounds.items():
            change: Any = bound
            is_pair = isinstance(change, tuple | list) and len(change) == 2
            low, high = map(_number, change) if is_pair else (-_number(change), _number(change))
            if not low <= 0.0 <= high:
                raise InvalidInput(
                    f"Expected the bounds of {name!r} to hold 0, the change from a group to "
                    f"itself; got {bound!r}. Pass the largest change, or (low, high) with low <= 0 "
                    "<= high."
                )
            reach[_places(name, names)] = min(-low, high)
        reach[_listed(self.immutable, "immutable", names)] = 0.0
        return reach

    def monotone(self, names: Names) -> IntArray:
        """Return 1 for features (d,) that only rise, −1 for those that only fall, else 0."""
        rising = _listed(self.rising, "rising", names)
        falling = _listed(self.falling, "falling", names)
        both = np.intersect1d(rising, falling)
        if len(both):
            raise InvalidInput(
                f"Expected features to rise or to fall; {names[both[0]]!r} is to do both. Make it "
                "immutable if it is to stay."
            )
        monotone = np.zeros(len(names), dtype=np.intp)
        monotone[rising], monotone[falling] = 1, -1
        return monotone


def _prices(
    costs: ArrayLike | Mapping[Hashable, float] | None, spread: FloatArray, names: Names
) -> FloatArray:
    """Return the cost (d,) of a change of one unit; by default 1 for each standard deviation."""
    unit_costs, costs = 1.0 / np.where(spread > 0.0, spread, 1.0), by_name(costs)
    if isinstance(costs, Mapping):
        for name, cost in costs.items():
            unit_costs[_places(name, names)] = _number(cost)
    elif costs is not None:
        numbers = np.asarray(costs)
        if numbers.shape != (len(names),) or numbers.dtype.kind not in "biuf":
            raise InvalidInput(
                f"Expected a cost for each of {len(names)} features; got {numbers.dtype} of shape "
                f"{numbers.shape}. Pass a flat sequence of numbers, or a mapping from names."
            )
        unit_costs = numbers.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(unit_costs) & (unit_costs > 0.0)))
    if len(wrong):
        raise InvalidInput(
            f"Expected positive costs; got {unit_costs[wrong[0]]} for {names[wrong[0]]!r}. "
            "Make a feature that must not change immutable."
        )
    return unit_costs


def _places(name: Any, names: Names) -> list[int]:
    """Return the positions of a feature, by name or position; a categorical one has several."""
    if name in names:
        return [names.index(name)]
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        if 0 <= name < len(names):
            return [int(name)]
        raise InvalidInput(
            f"Expected a position below {len(names)}; got {name!r}. Positions begin at 0."
        )
    places = [i for i, column in enumerate(names) if str(column).startswith(f"{name}=")]
    if not places:
        raise InvalidInput(unknown_name(name, names))
    return places


def _listed(listed: Sequence[Hashable], what: str, names: Names) -> IntArray:
    if isinstance(listed, str):
        raise InvalidInput(
            f"Expected a list of names in {what}; got {listed!r}. Pass [{listed!r}]."
        )
    places = [place for name in listed for place in _places(name, names)]
    return np.array(places, dtype=np.intp)


def _number(value: Any) -> float:
    """Return the number, or NaN for what is none."""
    return float(value) if isinstance(value, int | float | np.number) else float("nan")


def spread_of(matrix: Matrix) -> FloatArray:
    """Return the standard deviation (d,) of each column of dense or sparse rows."""
    if sparse.issparse(matrix):
        doubles = matrix.astype(np.float64, copy=False)
        return np.sqrt(mean_variance_axis(doubles, axis=0)[1])
    return dense(matrix.std(axis=0))


def _switches(matrix: Matrix) -> BoolArray:
    """Return which columns (d,) of dense or sparse rows hold zeros and ones alone."""
    if sparse.issparse(matrix):  # by its entries: no other matrix is made
        rows, switches = sparse.csr_array(matrix), np.ones(matrix.shape[1], dtype=bool)
        switches[rows.indices[(rows.data != 0.0) & (rows.data != 1.0)]] = False
        return switches
    return np.asarray(((matrix == 0.0) | (matrix == 1.0)).all(axis=0))


@final
@dataclass(frozen=True, eq=False)
class FitData:
    """The groups of rows of a fit, with limits and costs, before anything is minimised."""

    points: Points  # some rows of each group, by which the choice between explanations is made
    encoding: ColumnEncoding  # what was taken of the columns
    means: FloatArray  # (l, d) of the groups, in feature units
    base: FloatArray  # (l, h) the same after the affine part of the representation
    targets: FloatArray  # (l, m) the means of the representations of their rows
    unit_costs: FloatArray  # (d,) what a change of one unit costs
    radius: float | FloatArray  # ε, how near is near; (l,) one for each group moved to
    low: FloatArray  # (d,) the smallest values and
    high: FloatArray  # (d,) the largest
    switches: BoolArray  # (d,) which columns are of zeros and ones
    scale: FloatArray  # (d,) the units of offsets: standard deviations, 1 where they are 0
    extent: float  # of the rows in the representation
    seen: frozenset[bytes]  # the rows in the representation, as bytes

    @classmethod
    def of(
        cls,
        representation: Representation,
        matrix: Matrix,
        encoding: ColumnEncoding,
        groups: Groups,
        *,
        costs: Any,
        radius: float | str | None,
    ) -> FitData:
        """Learn from rows and groups that fit together."""
        groups.require(matrix.shape[0])
        if radius not in (None, "each") and not _number(radius) > 0.0:
            raise InvalidInput(
                f"Expected a positive radius; got {radius!r}. Pass None for the paper's rule, or "
                "'each' for one radius for each group."
            )
        points = Points.of(matrix, groups, stages(representation))
        matrix, groups, spread = points.matrix, points.groups, spread_of(points.matrix)
        extent = float(np.ptp(points.values, axis=0).max()) or 1.0
        # Choices look at 10 000 moved rows over all pairs, but at 20 of each group at least.
        sample = groups.thinned(max(20, 10_000 // len(groups) ** 2))
        return cls(
            points.take(sample),
            encoding,
            groups.means(matrix),
            groups.means(points.hidden),
            groups.means(points.values),
            _prices(costs, spread, encoding.names),
            points.radii if radius == "each" else float(radius or points.radii.max()),
            dense(matrix.min(axis=0)),
            dense(matrix.max(axis=0)),
            _switches(matrix),
            np.where(spread > 0.0, spread, 1.0),
            extent,
            frozenset(points.keys(extent)),
        )

    @property
    def labels(self) -> tuple[Any, ...]:
        """l labels of groups."""
        return self.points.groups.labels

    @property
    def names(self) -> Names:
        """d names of features."""
        return self.encoding.names

    def __repr__(self) -> str:
        return f"<FitData: {len(self.labels)} groups, {len(self.names)} features>"

    def task(self, limits: Limits) -> Objective:
        """Return the problem to minimise, over offsets in units of ``scale``."""
        count, space = len(self.labels), self.points.space
        fusion = Fusion(
            count,
            2.0 / (count * (count - 1)) * self.unit_costs * self.scale,
            limits.reach(self.means, self.names, self.switches) / self.scale,
            limits.monotone(self.names),
        )
        matrix = sparse.diags_array(self.scale, format="csr") @ space.first.matrix
        if len(self.names) <= FEW:  # arrays of so few are faster dense
            matrix = dense(matrix)
        return Objective(self.base, self.targets, space, matrix, fusion)

    def centred(self, task: Objective) -> FloatArray:
        """Return the means (l, d) in units of ``scale``, in the middle of their bounds."""
        middle = (self.means.max(axis=0) + self.means.min(axis=0)) / 2.0
        return task.fusion.nearest((self.means - middle) / self.scale)

    def translations(self, D: FloatArray, strength: float) -> Translations:
        """Return offsets in units of ``scale`` as translations in feature units."""
        columns = moving(D)
        levels, costs = D[:, columns] * self.scale[columns], self.unit_costs[columns]
        return Translations(self.labels, self.names, columns, levels, costs, float(strength))

    def candidate(self, D: FloatArray, loss: float, strength: float) -> Candidate:
        """Return offsets in units of ``scale`` as an explanation with its rates."""
        translations = self.translations(D, strength)
        return Candidate(translations, D, loss, *self.rates(translations))

    def rates(self, translations: Translations) -> tuple[float, float]:
        """Return mean correctness and coverage over pairs, on the rows of the fit."""
        pairs = ~np.eye(len(self.labels), dtype=bool)
        correctness, coverage = self.points.rates(translations, self.radius, diagonal=False)
        return float(correctness[pairs].mean()), float(coverage[pairs].mean())

    def judge(
        self, translations: Translations, points: Points, assign: Callable[..., Any] | None
    ) -> Quality:
        """Judge translations on rows, of the fit or others; ``assign`` is that of `assigned`."""
        no_change = Translations.of(np.zeros_like(self.means), self.labels, self.names)
        correctness, coverage = points.rates(translations, self.radius)
        return Quality(
            translations.groups,
            self.radius,
            correctness,
            coverage,
            counts=translations.counts.astype(np.float64),
            sizes=translations.sizes,
            outside=outside(translations, points, self.low, self.high),
            away=away(translations, points, self.scale),
            unchanged=points.rates(no_change, self.radius)[0],
            assigned=assigned(translations, points, self.targets, assign),
            seen=float(np.mean([key in self.seen for key in points.keys(self.extent)])),
        )
