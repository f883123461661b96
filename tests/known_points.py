"""Points that the matrix knows without any search: lattices, grids, and what is nearer on the way.

Each point that the model accepts and that the constraints allow bounds the optimum of its row from
above. On columns of whole steps and categories all points are tried; between the rest and the row
the nearest that the model still accepts is looked for, so that what is known is near the optimum.
Costs and constraints are the definitions in their docstrings, over arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
from matrix import LETTERS, Question

import counterpoint as cp

Columns = Mapping[str, np.ndarray]
FINE = 25
"""Values of a continuous column on the grid."""
NEAREST = 5
"""Points of each row that are moved towards it."""
STRIDES = 33
ROUND = 2.0**-22
"""By what share a float32 cell may be off the number that was meant."""


def as_columns(question: Question, points: pd.DataFrame) -> dict[str, np.ndarray]:
    """Numbers as float64, missing ones as what they count as; categories as positions.

    Of a family that takes missing numbers as they are, ``"a is missing"`` says where they are.
    """
    out = {}
    for name in question.names:
        if name in question.categories:
            out[name] = points[name].map(LETTERS.index).to_numpy().astype(float)
        else:
            values = points[name].to_numpy(dtype=float)
            out[name] = np.where(np.isnan(values), question.fill(name), values)
            if question.cell.family in question.NATIVE:
                out[f"{name} is missing"] = np.isnan(values)
    return out


def slack_of(question: Question, points: Columns) -> dict[str, np.ndarray]:
    """How far a returned number may be off by the dtype of its column."""
    return {
        name: np.abs(points[name]) * (ROUND if question.is_single(name) else 0.0)
        for name in question.names
    }


def cost(question: Question, points: Columns, rows: Columns, slack: Columns) -> np.ndarray:
    """(n,) what the change costs, where each number changes by ``slack`` more."""
    encoded_cost, names = question.explainer.cost, question.names
    if isinstance(encoded_cost, cp.PercentileShift):
        delta = {
            n: np.abs(rank(encoded_cost, n, points[n]) - rank(encoded_cost, n, rows[n]))
            for n in names
        }
        steep = {n: steepness(encoded_cost, n) * slack[n] for n in question.numbers}
    else:
        delta = {n: points[n] - rows[n] for n in names}
        steep = dict(slack)
    for name in question.categories:
        delta[name] = (points[name] != rows[name]).astype(float)
        steep[name] = 0.0 * delta[name]
    if isinstance(encoded_cost, cp.Mahalanobis):
        change = np.column_stack([delta[n] for n in names])
        more = np.column_stack([steep[n] for n in names])
        matrix = np.asarray(encoded_cost.matrix)
        exact = np.einsum("ij,jk,ik->i", change, matrix, change)
        off = 2.0 * np.einsum("ij,jk,ik->i", np.abs(change), np.abs(matrix), more)
        return exact + off + np.einsum("ij,jk,ik->i", more, np.abs(matrix), more)
    power = 2 if isinstance(encoded_cost, cp.SquaredEuclidean) else 1
    total = np.zeros(len(points[names[0]]))
    for name in names:
        weight = (encoded_cost.weights or {}).get(name, 1.0)
        if isinstance(weight, Mapping):
            at = zip(rows[name].astype(int), points[name].astype(int), strict=True)
            moves = [(LETTERS[i], LETTERS[j]) for i, j in at]
            total += [0.0 if i == j else weight.get((i, j), 1.0) for i, j in moves]
        else:
            exponent = 1 if name in question.categories else power
            total += weight * (np.abs(delta[name]) + steep[name]) ** exponent
    return total


def rank(encoded_cost: cp.PercentileShift, name: str, values: np.ndarray) -> np.ndarray:
    if name not in encoded_cost.ranks:
        return values
    known, ranks = np.array(encoded_cost.ranks[name]).T
    slope = (ranks[-1] - ranks[0]) / (known[-1] - known[0])
    beyond = np.minimum(values - known[0], 0.0) + np.maximum(values - known[-1], 0.0)
    return np.interp(values, known, ranks) + slope * beyond


def steepness(encoded_cost: cp.PercentileShift, name: str) -> float:
    known, ranks = np.array(encoded_cost.ranks[name]).T
    return float((np.diff(ranks) / np.diff(known)).max())


def allowed(
    question: Question, points: Columns, rows: Columns, *, exactly: bool = True
) -> np.ndarray:
    """(n,): whether what the question allows has the points, up to rounding."""
    ok = np.ones(len(points[question.names[0]]), dtype=bool)
    for name in question.numbers:
        low, high = question.range_of(name)
        off = tolerance(question, name, points[name], exactly=exactly)
        ok &= points[name] >= np.minimum(low, rows[name]) - off
        ok &= points[name] <= np.maximum(high, rows[name]) + off
    for constraint in question.constraints:
        ok &= meets(question, constraint, points, rows, exactly=exactly)
    return ok


def tolerance(
    question: Question, name: str, values: np.ndarray, *, exactly: bool
) -> np.ndarray | float:
    """What counts as rounding: a whole step that ends on a bound is on it, and a float32 cell."""
    if question.is_single(name):
        return 2.0 * ROUND * np.abs(values) + 1e-12
    if question.is_lattice(name) or not exactly:
        return 1e-9 * (1.0 + np.abs(values))
    return 0.0


def meets(  # noqa: C901, PLR0911, PLR0912 (one case each)
    question: Question, constraint: cp.Constraint, y: Columns, x: Columns, *, exactly: bool
) -> np.ndarray:
    def off(name: str) -> np.ndarray | float:
        return tolerance(question, name, y[name], exactly=exactly)

    match constraint:
        case cp.Immutable(features=names):
            return np.all([y[n] == x[n] for n in names], axis=0)
        case cp.Bounds(feature=n):
            change = y[n] - x[n]
            inside = (y[n] >= constraint.low - off(n)) & (y[n] <= constraint.high + off(n))
            moves = (change >= -constraint.fall - off(n)) & (change <= constraint.rise + off(n))
            return (inside & moves) | is_missing(y, n)  # a missing cell stays, whatever its bounds
        case cp.Monotone(feature=n, direction="increasing"):
            return y[n] >= x[n]
        case cp.Monotone(feature=n):
            return y[n] <= x[n]
        case cp.MaxChanges(count=count):
            return sum((y[n] != x[n]).astype(int) for n in question.names) <= count
        case cp.Linear(coefficients=weights, high=high):
            total = sum(w * y[n] for n, w in weights.items())
            return total <= high + sum(abs(w) * off(n) for n, w in weights.items())
        case cp.Forbidden(conditions=conditions):
            pairs = [pair for condition in conditions for pair in condition.items()]
            held = [
                within(question, y, n, ends, exactly=exactly) & ~is_missing(y, n)
                for n, ends in pairs
            ]
            return ~(np.all(held, axis=0) & np.any([y[n] != x[n] for n, _ in pairs], axis=0))
        case cp.Implies(when=when, then=then):
            held = [
                within(question, y, n, values, exactly=exactly) & ~is_missing(y, n)
                for n, values in when.items()
            ]
            missed = [
                ~within(question, y, n, ends, exactly=not exactly) & ~is_missing(y, n)
                for n, ends in then.items()
            ]
            changed = np.any([y[n] != x[n] for n in [*when, *then]], axis=0)
            return ~(np.all(held, axis=0) & np.any(missed, axis=0) & changed)
        case cp.ObservedCombinations(features=names, min_count=least):
            counts = question.X[[*names]].value_counts()
            often = {tuple(map(LETTERS.index, row)) for row in counts.index[counts >= least]}
            seen = [row in often for row in zip(*(y[n].tolist() for n in names), strict=True)]
            return np.array(seen, dtype=bool) | np.all([y[n] == x[n] for n in names], axis=0)
        case cp.SameChange(first=a, second=b):
            sizes = sum(np.abs(z[n]) for z in (x, y) for n in (a, b))
            apart = np.abs((y[a] - x[a]) - (y[b] - x[b]))
            return apart <= off(a) + off(b) + (0.0 if exactly else 1e-9) * sizes
        case cp.Ellipsoid(center=center, matrix=matrix, radius=radius):
            away = np.column_stack([y[n] - c for n, c in center.items()])
            share = 1e-7 if any(question.is_lattice(n) for n in center) or not exactly else -1e-12
            if any(map(question.is_single, center)):
                share = 1e-5
            return np.einsum("ij,jk,ik->i", away, matrix, away) <= radius**2 * (1.0 + share)
        case cp.Clearance(feature=n):  # its thresholds are the model's; only what stays is sure
            return y[n] == x[n] if exactly else np.ones(len(y[n]), dtype=bool)
    raise AssertionError(constraint)


def within(
    question: Question, y: Columns, name: str, values: object, *, exactly: bool
) -> np.ndarray:
    """(n,): whether a column is a category of some, or between two ends; ``exactly``, or nearly so.

    Single precision does not tell a number from what is so near to it: where an answer could be
    refused for that, what is beside an end counts as met.
    """
    if name in question.categories:
        return np.isin(y[name], [LETTERS.index(value) for value in values])
    low, high = values.get("low", -np.inf), values.get("high", np.inf)
    off = tolerance(question, name, y[name], exactly=exactly)
    low_room, high_room = (
        (np.spacing(np.float32(abs(end))) if np.isfinite(end) else 0.0) if exactly else -off
        for end in (low, high)
    )
    return (y[name] >= low - low_room) & (y[name] <= high + high_room)


def is_missing(y: Columns, name: str) -> np.ndarray:
    """(n,): where a cell stays missing, so that no condition about combinations is met."""
    return y.get(f"{name} is missing", np.zeros(len(y[name]), dtype=bool))


# Points


def values_of(question: Question, row: pd.Series, name: str) -> np.ndarray:
    """What a column of one row may become: all of a lattice around its range, or a grid."""
    value, seen = row[name], question.X[name]
    if name in question.categories:
        return np.array(LETTERS, dtype=object)
    if pd.isna(value) and question.cell.family in question.NATIVE:
        return np.array([np.nan])
    low, high = float(seen.min()), float(seen.max())
    if question.is_lattice(name):
        step = question.step_of(name)
        k = np.arange(np.floor((low - value) / step) - 3, np.ceil((high - value) / step) + 4)
        return (float(value) + k * step).astype(seen.dtype)
    more = 0.3 * (high - low) if question.cell.reach == "extrapolate" else 0.0
    some = FINE if name != "d" else FINE // 3
    grid = np.linspace(low - more, high + more, some)
    known = question.edges(name)
    return np.unique(np.concatenate([grid, known, [float(value)]]).astype(seen.dtype))


def around(question: Question) -> tuple[pd.DataFrame, np.ndarray]:
    """Points of each row, and whose they are."""
    frames = []
    for _, row in question.rows.iterrows():
        values = [values_of(question, row, name) for name in question.names]
        mesh = np.meshgrid(*map(np.arange, map(len, values)), indexing="ij")
        columns = {name: values[j][mesh[j].reshape(-1)] for j, name in enumerate(question.names)}
        frames.append(pd.DataFrame(columns).astype(question.X.dtypes))
    owner = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames])
    return pd.concat(frames, ignore_index=True), owner


class Known:
    """Points that are valid and allowed, with what they cost, of all rows of a question."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.rows = as_columns(question, question.rows)
        self.points = question.rows.iloc[:0]
        self.owner = np.zeros(0, dtype=int)
        self.cost = np.zeros(0)
        self.slack = np.zeros(0)
        self.add(*around(question))

    def add(self, points: pd.DataFrame, owner: np.ndarray) -> None:
        """Keep of the points those that count, of each row the cheapest."""
        question = self.question
        x = {name: values[owner] for name, values in self.rows.items()}
        y = as_columns(question, points)
        inside = allowed(question, y, x)
        points, owner = points[inside].reset_index(drop=True), owner[inside]
        before = question.rows.iloc[owner].reset_index(drop=True)
        accepted = np.ones(len(points), dtype=bool)
        # Where single precision decides a tie by how a scaler rounds, nothing is known.
        for dtypes in (question.X.dtypes, question.in_double) if len(points) else ():
            accepted &= question.accepts(points.astype(dtypes), before, short=0.0)
        points, owner = points[accepted].reset_index(drop=True), owner[accepted]
        x = {name: values[owner] for name, values in self.rows.items()}
        y = as_columns(question, points)
        exact = question.objective(points, cost(question, y, x, {n: 0.0 * y[n] for n in y}))
        loose = question.objective(points, cost(question, y, x, slack_of(question, y)))
        if isinstance(question.target, cp.Tradeoff) and question.is_rough:
            loose = loose + 16.0 * ROUND * (1.0 + np.abs(exact))  # so are its probabilities
        order = np.argsort(exact, kind="stable")
        rank_in_row = pd.Series(owner[order]).groupby(owner[order]).cumcount().to_numpy()
        chosen = order[rank_in_row < NEAREST]
        self.points = pd.concat([self.points, points.iloc[chosen]], ignore_index=True)
        self.owner = np.concatenate([self.owner, owner[chosen]])
        self.cost = np.concatenate([self.cost, exact[chosen]])
        self.slack = np.concatenate([self.slack, (loose - exact)[chosen]])

    def nearer(self, *, back: bool) -> None:
        """Move numbers towards the row, and take changes ``back`` one by one."""
        question = self.question
        order = np.argsort(self.cost, kind="stable")
        place = pd.Series(self.owner[order]).groupby(self.owner[order]).cumcount().to_numpy()
        chosen = order[place < NEAREST]
        if not len(chosen):
            return
        points, owner = self.points.iloc[chosen], self.owner[chosen]
        rows = question.rows.iloc[owner]
        free = [n for n in question.numbers if not question.is_lattice(n)]
        shares = np.linspace(0.0, 1.0, STRIDES)[1:] if free else np.ones(1)
        columns: dict[str, list[np.ndarray]] = {name: [] for name in question.names}
        for same, share in product((None, *question.names) if back else (None,), shares.tolist()):
            for name in question.names:
                start, end = rows[name].to_numpy(), points[name].to_numpy()
                value = start if name == same else end
                if name in free and name != same:
                    start = np.where(np.isnan(start), question.fill(name), start).astype(float)
                    moved = start + share * (end.astype(float) - start)
                    value = np.where(np.isnan(end) | (end == rows[name]), end, moved)
                columns[name].append(value)
        frame = pd.DataFrame({name: np.concatenate(parts) for name, parts in columns.items()})
        frame = frame.astype(question.X.dtypes)
        self.add(frame, np.tile(owner, len(frame) // len(owner)))

    def best(self, i: int) -> int | None:
        """The cheapest point of a row."""
        mine = np.flatnonzero(self.owner == i)
        return int(mine[np.argmin(self.cost[mine])]) if len(mine) else None
