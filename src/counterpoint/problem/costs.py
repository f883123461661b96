"""Define costs of a change: Manhattan, squared Euclidean, Mahalanobis, percentile shifts.

Users state a cost in feature names; `Cost.encoded_cost` turns it into the one formula that programs
know,

    cost(y, x) = Σ_j absolute_j |δ_j| + δᵀ quadratic δ,  δ = y − x,  over the encoded columns,

in which a category that changes, two entries of a one-hot block that move by 1, costs its weight.
A feature may have a *table* besides, with the cost of moving from the factual value to each other
one: never less than the formula, so that a lower bound on the formula is one on the cost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.errors import InvalidInput, by_name, check_numbers, floats, shown, some
from counterpoint.numerics import EPS, STEP_SLACK, FloatArray, IntArray
from counterpoint.rows import lattice
from counterpoint.rows.features import Categorical, Feature, Features

ByPair = Mapping[tuple[Hashable, Hashable], float]
Weights = Mapping[Hashable, float | ByPair] | ArrayLike | None


@final
class TransitionCost(NamedTuple):
    """The cost of moving from each category of a feature to each other."""

    columns: slice  # the encoded columns of the feature, c of them
    costs: FloatArray  # (c, c): row = the factual category, column = the new one; 0 for the same


@final
class PercentileCost(NamedTuple):
    """The cost |L(y) − L(x)| of a number by its level L, which is piecewise linear, L' >= 1.

    ``L(knots) = values``. The level is a percentile rank in units in which its least slope is 1.
    """

    column: int
    knots: FloatArray  # (m,) numbers at which L bends, increasing
    slopes: FloatArray  # (m + 1,) of L before, between and after the knots

    @property
    def values(self) -> FloatArray:
        """The levels (m,) of the knots, from 0."""
        return np.append(0.0, np.cumsum(self.slopes[1:-1] * np.diff(self.knots)))

    def __call__(self, y: FloatArray) -> FloatArray:
        """Return the levels of numbers."""
        piece = np.searchsorted(self.knots, y, side="right")
        knot = np.maximum(piece - 1, 0)  # the one below; before the first knot, the first
        return np.asarray(self.values[knot] + self.slopes[piece] * (y - self.knots[knot]))

    def table(
        self, x: FloatArray, low: FloatArray, high: FloatArray, step: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return changes of numbers x, (n, k), and by how much the level rises with each, (n, k).

        The cost plus any linear function is least at one of these changes from ``low`` to ``high``,
        (n,): at both ends, at no change (or the end nearest to it), and at the bends, which lead to
        the knots. Changes are in feature units, or in steps if ``step`` is not 0.
        """
        level, unit = self(x)[:, None], step or 1.0
        bends, rise = (self.knots - x[:, None]) / unit, self.values - level
        if step:  # instead of a knot between two steps, both of them
            down, up = np.floor(bends + STEP_SLACK), np.ceil(bends - STEP_SLACK)
            between_steps = (down != up).any(axis=1)
            bends = down
            if between_steps.any():
                bends, rise = np.hstack([down, up]), np.hstack([rise, rise])
                moved = lattice.number(x[between_steps, None], bends[between_steps], unit)
                rise[between_steps] = self(moved) - level[between_steps]
        zero = np.minimum(np.maximum(0.0, low), high)
        ends = np.stack([low, high, zero], axis=1)
        end_rise = np.where(ends == 0.0, 0.0, self(lattice.number(x[:, None], ends, unit)) - level)
        # A bend outside of the interval repeats its end: the arrays stay rectangular. As the level
        # increases, its rise is clipped by those at the ends.
        bends = np.minimum(np.maximum(bends, low[:, None]), high[:, None])
        rise = np.minimum(np.maximum(rise, end_rise[:, :1]), end_rise[:, 1:2])
        return np.hstack([bends, ends]), np.hstack([rise, end_rise])


@final
@dataclass(frozen=True, eq=False)
class EncodedCost:
    """The cost Σ_j absolute_j |δ_j| + δᵀ quadratic δ over the encoded columns, with tables.

    A table replaces the formula in its columns. The formula is at most what the table says:
    ``absolute`` then holds half of the least cost of a `TransitionCost` (two entries change), or
    the weight that a `PercentileCost` is multiplied by, whose slopes are at least 1.
    """

    absolute: FloatArray  # (d,) not negative; 0 where there is a quadratic cost
    quadratic: FloatArray  # (d,) for a diagonal matrix >= 0, or (d, d) positive semidefinite
    tables: tuple[TransitionCost | PercentileCost, ...] = ()  # for columns with an absolute cost

    def __post_init__(self) -> None:
        if (self.absolute * self.diagonal).any():
            raise InvalidInput(
                "Expected each column to have an absolute or a quadratic price; got both."
            )

    @property
    def condition_types(self) -> frozenset[type]:
        """The types that a solver must accept: the `kind` of the cost and those of its tables."""
        return frozenset({self.kind, *map(type, self.tables)})

    @cached_property
    def transitions(self) -> tuple[TransitionCost, ...]:
        """The tables of categories."""
        return tuple(table for table in self.tables if isinstance(table, TransitionCost))

    @cached_property
    def levels(self) -> tuple[PercentileCost, ...]:
        """The tables of numbers."""
        return tuple(table for table in self.tables if isinstance(table, PercentileCost))

    @cached_property
    def kind(self) -> type[Cost]:
        """The simplest cost with the same formula; solvers list the kinds that they accept."""
        if self.quadratic.ndim == 2:
            return Mahalanobis
        return SquaredEuclidean if self.quadratic.any() else Manhattan

    def distances(self, columns: IntArray, y: FloatArray, x: FloatArray) -> FloatArray:
        """Return the distances of values (…, k) of k columns, or those of their levels if any."""
        distance = np.abs(y - x)
        for level in self.levels:
            at = np.flatnonzero(columns == level.column)
            distance[..., at] = np.abs(level(y[..., at]) - level(x[..., at]))
        return np.asarray(distance)

    def each(self, y: FloatArray, x: FloatArray) -> FloatArray:
        """Return the cost (n, d) of each column's change alone, from points x to y, (n, d)."""
        distance = self.distances(np.arange(len(self.absolute)), y, x)
        cost = self.absolute * distance + self.diagonal * distance * distance
        for columns, costs in self.transitions:  # the new category bears all of it
            cost[:, columns] = (x[:, columns] @ costs) * y[:, columns]
        return np.asarray(cost)

    def __call__(self, y: FloatArray, x: FloatArray) -> FloatArray:
        """Return the costs (n,) of moving from points x to points y (n, d)."""
        if self.tables:
            return np.asarray(self.each(y, x).sum(axis=1))
        delta = y - x
        cost = np.abs(delta) @ self.absolute if self.absolute.any() else np.zeros(len(delta))
        if self.quadratic.ndim == 2:
            return np.asarray(cost + np.einsum("ij,ij->i", delta @ self.quadratic, delta))
        if self.quadratic.any():
            return np.asarray(cost + np.square(delta, out=delta) @ self.quadratic)
        return np.asarray(cost)

    @cached_property
    def diagonal(self) -> FloatArray:
        """The quadratic cost (d,) of each column alone."""
        return self.quadratic if self.quadratic.ndim == 1 else np.diag(self.quadratic)

    @cached_property
    def floor(self) -> FloatArray:
        """A diagonal (d,) that is at most ``quadratic``, as matrices: λ · `diagonal`.

        λ is the smallest eigenvalue of ``quadratic`` scaled to ones on its diagonal. Then
        quadratic − floor is convex, so that its tangents bound it from below, while the floor keeps
        the minimum over each column finite.
        """
        if self.quadratic.ndim == 1:
            return self.quadratic
        scale = np.sqrt(self.diagonal)
        used = scale > 0
        if not used.any():
            return np.zeros(len(scale))
        scaled = self.quadratic[np.ix_(used, used)] / np.outer(scale[used], scale[used])
        # eigvalsh is off by a small multiple of d · eps times the norm. One hundredth is left to
        # the difference, so that rounding does not make that one indefinite.
        eigenvalue_error = 4.0 * len(scaled) * EPS * float(np.linalg.norm(scaled))
        smallest = max(float(np.linalg.eigvalsh(scaled)[0]) - eigenvalue_error, 0.0)
        return np.where(used, 0.99 * smallest * scale**2, 0.0)

    @cached_property
    def above_floor(self) -> FloatArray:
        """The convex rest quadratic − diag(floor), (d, d)."""
        return self.quadratic - np.diag(self.floor)


class Cost(ABC):
    """A cost of a change, which is 0 for no change, in feature names and units."""

    @abstractmethod
    def encoded_cost(self, features: Features) -> EncodedCost:
        """Return the cost as a formula over the encoded columns."""


class Weighted(Cost):
    """A cost with a weight for each feature; of a pandas series, its values are kept by label."""

    weights: Weights

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", by_name(self.weights))


@final
@dataclass(frozen=True)
class Manhattan(Weighted):
    """``Σ_j w_j |y_j − x_j|``; a category that changes costs w_j.

    Parameters
    ----------
    weights
        A mapping from names, or a series of pandas with them as labels (the others weigh 1), a
        sequence in the order of the features, or None for all ones; in cost units for each feature
        unit. In a mapping, the weight of a category may itself be a mapping, from pairs (from, to)
        to costs (the other pairs cost 1).

    Examples
    --------
    >>> import counterpoint as cp
    >>> cp.Manhattan(weights={"age": 2.0})
    Manhattan(weights={'age': 2.0})
    >>> easier_down = cp.Manhattan({"home": {("own", "rent"): 0.5, ("rent", "own"): 3.0}})
    """

    weights: Weights = None

    def encoded_cost(self, features: Features) -> EncodedCost:
        weights, transitions = weight_vector(self.weights, features)
        return EncodedCost(
            _absolute(weights, features, numeric=True), np.zeros(features.width), transitions
        )


@final
@dataclass(frozen=True)
class SquaredEuclidean(Weighted):
    """Σ_j w_j (y_j − x_j)²; a category that changes costs w_j.

    Parameters
    ----------
    weights
        As for `Manhattan`, in cost units for each squared feature unit.
    """

    weights: Weights = None

    def encoded_cost(self, features: Features) -> EncodedCost:
        weights, transitions = weight_vector(self.weights, features)
        quadratic = np.zeros(features.width)
        quadratic[features.numeric_columns] = weights[features.is_numeric]
        return EncodedCost(_absolute(weights, features, numeric=False), quadratic, transitions)


@final
@dataclass(frozen=True)
class PercentileShift(Weighted):
    """``Σ_j w_j |Q_j(y_j) − Q_j(x_j)|`` with percentile ranks Q_j in the data, from 0 to 1.

    A change that passes many other rows costs much, however small it is; a category that changes
    costs w_j. Ranks are linear between the values of ``ranks``; beyond them they go on as steeply
    as from the first to the last of these, so that no change is free.

    Parameters
    ----------
    ranks
        For the name of each number, pairs (value, rank), both increasing, as `percentile_ranks`
        takes them from data. At least one pair each.
    weights
        As for `Manhattan`, in cost units from the lowest to the highest rank.

    References
    ----------
    Ustun, Spangher & Liu (2019), Actionable recourse in linear classification, FAT* 2019.

    Examples
    --------
    >>> import counterpoint as cp
    >>> cost = cp.PercentileShift({"income": [(1e4, 0.0), (3e4, 0.6), (2e5, 1.0)]})
    """

    ranks: Mapping[Hashable, Sequence[tuple[float, float]]] = field(repr=False)
    weights: Weights = None

    def encoded_cost(self, features: Features) -> EncodedCost:
        weights, transitions = weight_vector(self.weights, features)
        absolute, levels = _absolute(weights, features, numeric=True), list[PercentileCost]()
        for name in self.ranks:
            features.index(name)  # refuses an unknown name
        for feature, block in zip(features, features.blocks, strict=True):
            if isinstance(feature, Categorical):
                continue
            knots, slopes = _ranked(feature.name, self.ranks)
            least = slopes.min()  # goes into the weight: the slopes of levels are at least 1
            levels.append(PercentileCost(block.start, knots, slopes / least))
            absolute[block] *= least
        return EncodedCost(absolute, np.zeros(features.width), (*transitions, *levels))


@final
@dataclass(frozen=True)
class Mahalanobis(Cost):
    """(y − x)ᵀ P (y − x) over the features; a category that changes counts as a difference of 1.

    Parameters
    ----------
    matrix
        (p, p) symmetric positive definite, rows and columns in the order of the features; those of
        a data frame must be labelled so. The sign of a change of category has no meaning, so its
        row may hold a diagonal entry only.
    """

    matrix: ArrayLike

    def encoded_cost(self, features: Features) -> EncodedCost:
        matrix = _checked_matrix(self.matrix, features)
        quadratic = np.zeros((features.width, features.width))
        numeric = features.numeric_columns
        chosen = features.is_numeric
        quadratic[np.ix_(numeric, numeric)] = matrix[np.ix_(chosen, chosen)]
        return EncodedCost(_absolute(np.diag(matrix), features, numeric=False), quadratic)


def weight_vector(
    weights: Weights, features: Features
) -> tuple[FloatArray, tuple[TransitionCost, ...]]:
    """Return the positive weight of each feature, (p,), and the costs of features with pairs.

    A mapping may hold costs by pair of categories in place of a feature's weight; the weight is
    then the least of these costs, which every change of the feature costs at least. Features that a
    mapping lacks have a weight of 1.
    """
    out, transitions = np.ones(len(features)), list[TransitionCost]()
    if isinstance(weights, Mapping):
        single = {k: v for k, v in weights.items() if not isinstance(v, Mapping)}
        check_numbers("the weight", single)
        for name, weight in weights.items():
            j = features.index(name)
            if isinstance(weight, Mapping):
                costs = _by_pair(features[name], weight)
                transitions.append(TransitionCost(features.blocks[j], costs))
                weight = costs[~np.eye(len(costs), dtype=bool)].min(initial=np.inf)  # noqa: PLW2901
            out[j] = weight
    elif weights is not None:
        listed = floats("the weights", weights)
        if listed.shape != out.shape:
            raise InvalidInput(
                f"Expected {len(features)} weights, one for each feature; got shape {listed.shape}."
            )
        out = listed
    for name, weight in zip(features.names, out.tolist(), strict=True):
        if not (np.isfinite(weight) and weight > 0):
            raise InvalidInput(
                f"Expected a positive finite weight for {name!r}; got {weight!r}. To forbid a "
                "change use Immutable; to make it cheap use a small weight."
            )
    return out, tuple(transitions)


def _by_pair(feature: Feature, costs_by_pair: ByPair) -> FloatArray:
    """Return the cost (c, c) of moving from each category to each other; 1 for pairs left out."""
    if not isinstance(feature, Categorical) or len(feature.categories) < 2:
        raise InvalidInput(
            f"Expected one weight for {feature.name!r}, which has no two categories; got costs by "
            "pair."
        )
    places = {category: i for i, category in enumerate(feature.categories)}
    check_numbers(f"the cost of {feature.name!r} from and to", costs_by_pair)
    costs, pairs = 1.0 - np.eye(len(places)), {*permutations(places, 2)}
    for pair, cost in costs_by_pair.items():
        if pair not in pairs:
            raise InvalidInput(
                f"Expected pairs (from, to) of two categories of {feature.name!r}, which are "
                f"{some(feature.categories, 12)}; got {shown(pair)}."
            )
        if not (np.isfinite(cost) and cost > 0):
            raise InvalidInput(
                f"Expected a positive finite cost of {feature.name!r} from {pair[0]!r} to "
                f"{pair[1]!r}; got {cost!r}. To forbid any change use Immutable."
            )
        costs[places[pair[0]], places[pair[1]]] = cost
    return costs


def _ranked(name: Hashable, ranks: Mapping[Hashable, Any]) -> tuple[FloatArray, FloatArray]:
    """Return the values (m,) with a rank, and the slopes (m + 1,) of the ranks around them.

    Before the first and after the last value, the slope is that from the first to the last.
    """
    if name not in ranks:
        raise InvalidInput(
            f"Expected percentile ranks of {name!r}; got none. Pass "
            "PercentileShift(percentile_ranks(data)), or describe the column as Categorical."
        )
    pairs = floats(f"the ranks of {name!r}", ranks[name])
    are_pairs = pairs.ndim == 2 and pairs.shape[1] == 2 and len(pairs) > 0
    if not are_pairs or not np.isfinite(pairs).all() or not (np.diff(pairs, axis=0) > 0.0).all():
        raise InvalidInput(
            f"Expected pairs (value, rank) for {name!r}, both increasing; got {shown(ranks[name])}."
        )
    if len(pairs) == 1:
        return pairs[:, 0], np.ones(2)
    values, ranks_of_values = pairs.T
    outside = (ranks_of_values[-1] - ranks_of_values[0]) / (values[-1] - values[0])
    between = np.diff(ranks_of_values) / np.diff(values)
    return values, np.concatenate([[outside], between, [outside]])


def _absolute(weights: FloatArray, features: Features, *, numeric: bool) -> FloatArray:
    """Return the cost (d,) of |δ| in each encoded column; of numbers only if ``numeric``.

    A category that changes moves two entries of its block by 1: each costs half of its weight.
    """
    sizes = [block.stop - block.start for block in features.blocks]
    shares = np.where(features.is_numeric, weights if numeric else 0.0, weights / 2.0)
    return np.repeat(shares, sizes)


def _checked_matrix(matrix: ArrayLike, features: Features) -> FloatArray:
    """Return a Mahalanobis matrix (p, p), exactly symmetric; refuse one that is none."""
    p = len(features)
    out = floats("the Mahalanobis matrix", matrix, features.names)
    if out.shape != (p, p):
        raise InvalidInput(f"Expected a Mahalanobis matrix of shape {(p, p)}; got {out.shape}.")
    if not np.isfinite(out).all() or not np.allclose(out, out.T, rtol=1e-9, atol=0):
        raise InvalidInput("Expected a finite symmetric Mahalanobis matrix; got one that is not.")
    off_diagonal = (out - np.diag(np.diag(out)))[~features.is_numeric]
    if off_diagonal.any():
        names = [f.name for f in features if isinstance(f, Categorical)]
        raise InvalidInput(
            f"Expected zeros off the diagonal for the categorical features {names!r}: a change of "
            "category has no sign."
        )
    out = (out + out.T) / 2.0
    scale = np.sqrt(np.maximum(np.diag(out), 0.0))
    # Scaled to ones on the diagonal, a singular matrix has an eigenvalue of the size of rounding.
    if not (scale > 0).all() or np.linalg.eigvalsh(out / np.outer(scale, scale))[0] < 1e-10:
        raise InvalidInput(
            "Expected a positive definite Mahalanobis matrix; got a singular or indefinite one. "
            "Add a small multiple of the identity, as in P + 1e-6 * np.eye(len(P))."
        )
    return out
