"""Reads limits and costs, holds the data of a fit, and polishes explanations on its rows.

Polishing moves offsets so that more rows, not only means, arrive near the groups they are moved to.
Correctness and coverage are shares of rows within a radius ε of others. With 1[a <= ε] smoothed to
the logistic function of (ε − a) / τ they have gradients; τ falls as the search goes on. The ties of
the offsets are kept, so that no change gets denser. Changes are charged for their cost, and for how
far moved values leave the range of the data, so that they do not grow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.utils.sparsefuncs import mean_variance_axis

from counterpoint.errors import InvalidInput, by_name
from counterpoint.groups.fitting import FEW_FEATURES
from counterpoint.groups.group_labels import Groups
from counterpoint.groups.path import Candidate
from counterpoint.groups.problem import Fusion, Objective, levels_of, moving
from counterpoint.groups.quality import Points, Quality, assigned, away, outside
from counterpoint.groups.reading import ColumnEncoding
from counterpoint.groups.representations import Matrix, Representation, dense, stages
from counterpoint.groups.translations import Translations
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.rows.features import unknown_name

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
        reach, varies = np.zeros(len(span)), span > 0.0  # times may be infinite: ∞ · 0 is NaN
        reach[varies] = self.times * span[varies]
        reach[switches] = np.minimum(reach[switches], 1.0)
        for name, bound in self.bounds.items():
            ends: Any = bound
            is_pair = isinstance(ends, tuple | list) and len(ends) == 2
            low, high = map(_number, ends) if is_pair else (-_number(ends), _number(ends))
            if not low <= 0.0 <= high:
                raise InvalidInput(
                    f"Expected the bounds of {name!r} to hold 0, the change from a group to "
                    f"itself; got {bound!r}. Pass the largest change, or (low, high) with low <= 0 "
                    "<= high."
                )
            reach[_positions(name, names)] = min(-low, high)
        reach[_positions_of_all(self.immutable, "immutable", names)] = 0.0
        return reach

    def monotone(self, names: Names) -> IntArray:
        """Return 1 for features (d,) that only rise, −1 for those that only fall, else 0."""
        rising = _positions_of_all(self.rising, "rising", names)
        falling = _positions_of_all(self.falling, "falling", names)
        both = np.intersect1d(rising, falling)
        if len(both):
            raise InvalidInput(
                f"Expected features to rise or to fall; {names[both[0]]!r} is to do both. Make it "
                "immutable if it is to stay."
            )
        monotone = np.zeros(len(names), dtype=np.intp)
        monotone[rising], monotone[falling] = 1, -1
        return monotone


def _unit_costs(
    costs: ArrayLike | Mapping[Hashable, float] | None, scale: FloatArray, names: Names
) -> FloatArray:
    """Return the cost (d,) of a change of one unit; 1 for each ``scale`` if it is not passed."""
    unit_costs, costs = 1.0 / scale, by_name(costs)
    if isinstance(costs, Mapping):
        for name, cost in costs.items():
            unit_costs[_positions(name, names)] = _number(cost)
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


def _positions(name: Any, names: Names) -> list[int]:
    """Return the positions of a feature, by name or position; a categorical one has several."""
    if name in names:
        return [names.index(name)]
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        if 0 <= name < len(names):
            return [int(name)]
        raise InvalidInput(
            f"Expected a position below {len(names)}; got {name!r}. Positions begin at 0."
        )
    categories = [i for i, column in enumerate(names) if str(column).startswith(f"{name}=")]
    if not categories:
        raise InvalidInput(unknown_name(name, names))
    return categories


def _positions_of_all(features: Sequence[Hashable], parameter: str, names: Names) -> IntArray:
    if isinstance(features, str):
        raise InvalidInput(
            f"Expected a list of names in {parameter}; got {features!r}. Pass [{features!r}]."
        )
    positions = [position for name in features for position in _positions(name, names)]
    return np.array(positions, dtype=np.intp)


def _number(value: Any) -> float:
    """Return a number as a float, and anything else as NaN, which satisfies no comparison."""
    return float(value) if isinstance(value, int | float | np.number) else float("nan")


def spread_of(matrix: Matrix) -> FloatArray:
    """Return the standard deviation (d,) of each column of dense or sparse rows."""
    if sparse.issparse(matrix):
        doubles = matrix.astype(np.float64, copy=False)
        return np.sqrt(mean_variance_axis(doubles, axis=0)[1])
    return dense(matrix.std(axis=0))


def _switches(matrix: Matrix) -> BoolArray:
    """Return which columns (d,) of dense or sparse rows hold zeros and ones alone."""
    if sparse.issparse(matrix):  # comparing a whole sparse matrix with 0 would make a dense one
        rows, switches = sparse.csr_array(matrix), np.ones(matrix.shape[1], dtype=bool)
        switches[rows.indices[(rows.data != 0.0) & (rows.data != 1.0)]] = False
        return switches
    return np.asarray(((matrix == 0.0) | (matrix == 1.0)).all(axis=0))


@final
@dataclass(frozen=True, eq=False)
class FitData:
    """A fit's l groups of rows of d features, and their representations in m dimensions."""

    points: Points  # a sample of the rows, by which the choice between explanations is made
    encoding: ColumnEncoding  # the columns that rows have
    means: FloatArray  # (l, d) the means of the groups, in feature units
    base: FloatArray  # (l, h) these means after the affine part of the representation
    targets: FloatArray  # (l, m) the means of the representations of their rows
    unit_costs: FloatArray  # (d,) the cost of a change of one unit
    radius: float | FloatArray  # ε, how near is near; or (l,) one for each group moved to
    low: FloatArray  # (d,) the smallest values of the features
    high: FloatArray  # (d,) the largest ones
    switches: BoolArray  # (d,) which columns hold zeros and ones alone
    scale: FloatArray  # (d,) the units of offsets: standard deviations, 1 where they are 0
    extent: float  # the widest range of the rows in the representation
    seen: frozenset[bytes]  # the keys of all rows, see `Points.keys`

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
        """Learn from rows (n, d) and their groups; costs and radius as `GroupTranslations` has."""
        groups.require(matrix.shape[0])
        if radius not in (None, "each") and not _number(radius) > 0.0:
            raise InvalidInput(
                f"Expected a positive radius; got {radius!r}. Pass None for the paper's rule, or "
                "'each' for one radius for each group."
            )
        points = Points.of(matrix, groups, stages(representation))
        matrix, groups, spread = points.matrix, points.groups, spread_of(points.matrix)
        scale = np.where(spread > 0.0, spread, 1.0)
        extent = float(np.ptp(points.values, axis=0).max()) or 1.0
        # Choices look at 10 000 moved rows over all pairs, but at 20 of each group at least.
        sample = groups.thinned(max(20, 10_000 // len(groups) ** 2))
        return cls(
            points=points.take(sample),
            encoding=encoding,
            means=groups.means(matrix),
            base=groups.means(points.hidden),
            targets=groups.means(points.values),
            unit_costs=_unit_costs(costs, scale, encoding.names),
            radius=points.radii if radius == "each" else float(radius or points.radii.max()),
            low=dense(matrix.min(axis=0)),
            high=dense(matrix.max(axis=0)),
            switches=_switches(matrix),
            scale=scale,
            extent=extent,
            seen=frozenset(points.keys(extent)),
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
            groups=count,
            # The penalty is a mean over the l (l − 1) / 2 pairs.
            weight=2.0 / (count * (count - 1)) * self.unit_costs * self.scale,
            reach=limits.reach(self.means, self.names, self.switches) / self.scale,
            monotone=limits.monotone(self.names),
        )
        matrix = sparse.diags_array(self.scale, format="csr") @ space.first.matrix
        if len(self.names) <= FEW_FEATURES:  # arrays of so few are faster dense
            matrix = dense(matrix)
        return Objective(self.base, self.targets, space, matrix, fusion)

    def centred(self, task: Objective) -> FloatArray:
        """Return the means (l, d) as offsets in units of ``scale``, within the bounds of a task."""
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

    def rates(
        self, translations: Translations, times: Sequence[float] = (1.0,)
    ) -> tuple[float, float]:
        """Return mean correctness and coverage over pairs of groups, on the sample of rows.

        They are means over these multiples (``times``) of the radius, too.
        """
        pairs = ~np.eye(len(self.labels), dtype=bool)
        rates = self.points.rates(translations, self.radius, diagonal=False, times=times)
        correctness, coverage = (float(rate[pairs].mean()) for rate in rates)
        return correctness, coverage

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


def polished(
    data: FitData,
    task: Objective,
    offsets: FloatArray,
    *,
    smooths: Sequence[float] = (0.5, 0.25, 0.12),
    steps: int = 25,
) -> FloatArray:
    """Return offsets (l, d) by which more moved rows arrive, with the ties of those passed.

    Offsets that are equal in a feature share one variable, a *level*. Cost less correctness and
    coverage is minimised over the levels, with at most ``steps`` steps for each of the ``smooths``,
    which are widths τ of the smoothing in units of the radius.
    """
    D, columns = np.zeros_like(offsets), moving(offsets)
    if not len(columns):
        return D
    start, fusion = offsets[:, columns], task.fusion.of(columns)
    # Only differences of offsets count. Between −reach / 2 and reach / 2 no change exceeds the
    # reach, and columns have the most room if their middle is at 0.
    middle = (start.max(axis=0) + start.min(axis=0)) / 2.0
    level = levels_of(start)  # (l, s) the position of each offset in ``levels``
    levels, bound = np.empty((2, int(level.max()) + 1))
    levels[level] = fusion.nearest(start - middle)
    bound[level] = fusion.reach / 2.0
    points = data.points.take(data.points.groups.thinned(500))
    loss = smoothed_rates(data, points, task, columns, level)
    # The weighted cost is 0.2 at the start; correctness and coverage are at most 1 each. The loss
    # is linear in the weight of the cost, so that the cost is its rise from weight 0 to 1.
    cost_weight = 0.2 / (loss(levels, smooths[0], 1.0)[0] - loss(levels, smooths[0], 0.0)[0])
    for smooth in smooths:
        levels = minimize(
            loss,
            levels,
            args=(smooth, cost_weight),
            jac=True,
            method="L-BFGS-B",
            bounds=np.column_stack([-bound, bound]),
            options={"maxiter": steps},
        ).x
    D[:, columns] = fusion.nearest(levels[level])
    return D


def smoothed_rates(
    data: FitData, points: Points, task: Objective, columns: IntArray, level: IntArray
) -> Callable[[FloatArray, float, float], tuple[float, FloatArray]]:
    """Return the function that `polished` minimises: cost less smoothed correctness and coverage.

    It takes the levels, the width of the smoothing, and the weight of the cost, and returns the
    mean over ordered pairs of groups, and its gradient by the levels. ``level`` (l, s) is the
    position in the levels of each group's offset of each of the ``columns``.
    """
    radii = np.broadcast_to(data.radius, (len(points.groups),))
    matrix, cost_of = dense(task.matrix[columns]), _changes_cost(data, points, columns)

    def value(levels: FloatArray, smooth: float, cost_weight: float) -> tuple[float, FloatArray]:
        D = levels[level]
        total, slope, n_pairs = 0.0, np.zeros_like(D), len(D) * (len(D) - 1)
        for i in range(len(D)):  # from group i to each other
            ends = np.delete(np.arange(len(D)), i)
            changes = D[ends] - D[i]
            rates, shift_slope = _arrivals(points, i, changes @ matrix, radii, smooth)
            cost, cost_slope = cost_of(i, changes)
            total += cost_weight * cost - rates
            change_slope = cost_weight * cost_slope - shift_slope @ matrix.T
            slope[ends] += change_slope
            slope[i] -= change_slope.sum(axis=0)
        gradient = np.bincount(level.ravel(), slope.ravel() / n_pairs, minlength=len(levels))
        return total / n_pairs, np.asarray(gradient, dtype=np.float64)

    return value


def _arrivals(
    points: Points, i: int, shifts: FloatArray, radii: FloatArray, smooth: float
) -> tuple[float, FloatArray]:
    """Return smoothed correctness plus coverage of group i moved to each other group, added up.

    ``shifts`` (l − 1, h) move its rows after the affine part of the representation, one to each
    other group; the gradient is by them.
    """
    rows, ends = points.members[i], np.delete(np.arange(len(points.group_values)), i).tolist()
    hidden = (points.hidden[rows] + shifts[:, None]).reshape(-1, shifts.shape[1])
    values, pull = points.space.pull(hidden)
    moved = values.reshape(len(ends), len(rows), -1)
    moved_slope, rates = np.zeros_like(moved), 0.0
    for position, j in enumerate(ends):
        arrived, slope = moved[position], moved_slope[position]
        target, widths = points.group_values[j], (float(radii[j]), float(smooth * radii[j]))
        distances = cdist(arrived, target)
        # correctness: each moved row has a row of the target near it
        nearest, least = distances.argmin(axis=1), distances.min(axis=1)
        correctness, pulls = _smooth_share(least, arrived - target[nearest], *widths)
        np.add(slope, pulls, out=slope)
        # coverage: each row of the target has a moved row near it; several may have the same one
        nearest, least = distances.argmin(axis=0), distances.min(axis=0)
        coverage, pulls = _smooth_share(least, arrived[nearest] - target, *widths)
        np.add.at(slope, nearest, pulls)
        rates += correctness + coverage
    hidden_slope = pull(moved_slope.reshape(len(values), -1)).reshape(len(ends), len(rows), -1)
    return rates, hidden_slope.sum(axis=1)


def _smooth_share(
    distances: FloatArray, differences: FloatArray, radius: float, width: float
) -> tuple[float, FloatArray]:
    """Return the smoothed share of distances (q,) within the radius, and its gradient (q, m).

    ``differences`` (q, m), whose lengths are the distances, are moved rows less the rows that they
    are near to; the gradient is by the moved rows.
    """
    near = expit((radius - distances) / width)
    # A difference over its length is a direction; that of 0 counts as 0.
    steep = near * (1.0 - near) / width / np.maximum(distances, 1e-12 * radius)
    return float(near.mean()), -steep[:, None] * differences / len(distances)


def _changes_cost(
    data: FitData, points: Points, columns: IntArray
) -> Callable[[int, FloatArray], tuple[float, FloatArray]]:
    """Return a function of changes (q, s) of a group's rows: their cost, and its gradient.

    The part of a change that leads out of the range of the data costs three times as much.
    """
    scale = data.scale[columns]
    cells = [rows / scale for rows in points.cells(columns)]
    low, high = data.low[columns] / scale, data.high[columns] / scale
    costs = data.unit_costs[columns] * scale

    def cost_of(i: int, changes: FloatArray) -> tuple[float, FloatArray]:
        moved = cells[i] + changes[:, None]
        above, below = moved - high, low - moved
        excess = np.maximum(np.maximum(above, below), 0.0).mean(axis=1)
        excess_slope = (above > 0.0).mean(axis=1) - (below > 0.0).mean(axis=1)
        changed = changes != 0.0  # what does not change is charged nothing, wherever it lies
        cost = np.abs(changes) + 2.0 * excess * changed
        slope = np.sign(changes) + 2.0 * excess_slope * changed
        return float((cost * costs).sum()), slope * costs

    return cost_of
