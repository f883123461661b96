"""What the answers should be, by other software and by brute force, in the user's own terms.

Nothing here calls the code under test: costs, constraints and targets are only read for the numbers
that the user wrote into them. A model is known by probing its own ``decision_function`` or
``predict``; the problem is stated over raw columns in CVXPY (continuous columns), in SCIP (whole
steps, categories, a bound on the number of changes), or tried point by point (all discrete).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any

import cvxpy
import mpmath
import numpy as np
import pandas as pd
import pyscipopt
from scipy.optimize import linprog

import counterpoint as cp

Row = Mapping[Hashable, Any]
TOL = 1e-8
"""SCIP's tolerance. At 1e-9, its own limit, it calls points optimal where others are far better."""


# Definitions, in raw terms

EPS = float(np.finfo(np.float64).eps)


def number(value: Any) -> float:
    """A raw value that is a number, or a category that is one."""
    return float(value)


def cost_of(cost: cp.Cost, features: cp.Features, before: Row, after: Row) -> float:
    """The definition in the docstring of each cost."""
    names = list(features.names)
    is_category = {f.name: isinstance(f, cp.Categorical) for f in features}
    delta = np.array(
        [
            float(before[n] != after[n]) if is_category[n] else number(after[n]) - number(before[n])
            for n in names
        ]
    )
    if isinstance(cost, cp.Mahalanobis):
        return float(delta @ np.asarray(cost.matrix) @ delta)
    weights = weights_of(cost, names)
    if isinstance(cost, cp.Manhattan):
        return float(weights @ np.abs(delta))
    assert isinstance(cost, cp.SquaredEuclidean)
    return float(weights @ delta**2)


def weights_of(cost: Any, names: Sequence[Hashable]) -> np.ndarray:
    if cost.weights is None:
        return np.ones(len(names))
    if isinstance(cost.weights, Mapping):
        return np.array([cost.weights.get(n, 1.0) for n in names], dtype=float)
    return np.asarray(cost.weights, dtype=float)


def rank(feature: cp.Categorical, value: Any) -> float:
    """Where a category stands: its number, else its place in the order."""
    if all(isinstance(c, int | float | np.number) for c in feature.categories):
        return float(value)
    return float(feature.categories.index(value))


def allows(constraint: cp.Constraint, features: cp.Features, before: Row, after: Row) -> bool:
    """Whether a change is permitted, by the definition of each constraint."""
    return excess(constraint, features, before, after) <= 0.0


def excess(  # noqa: C901, PLR0911 (one case each)
    constraint: cp.Constraint, features: cp.Features, before: Row, after: Row
) -> float:
    """By how much a change breaks a constraint, in the units of the constraint."""
    match constraint:
        case cp.Immutable(features=names):
            return float(any(before[n] != after[n] for n in names))
        case cp.Bounds(feature=name):
            old, new = number(before[name]), number(after[name])
            return max(
                constraint.low - new,
                new - constraint.high,
                (old - new) - constraint.fall,
                (new - old) - constraint.rise,
            )
        case cp.Monotone(feature=name, direction=direction):
            feature = features[name]
            place = (lambda v: rank(feature, v)) if isinstance(feature, cp.Categorical) else number
            step = place(after[name]) - place(before[name])
            return -step if direction == "increasing" else step
        case cp.Linear(coefficients=coefficients, low=low, high=high):
            terms = [c * number(after[n]) for n, c in coefficients.items()]
            total, off = sum(terms), (len(terms) + 1) * EPS * sum(map(abs, terms))
            return max(low - total, total - high) - off  # by how much this sum itself may be off
        case cp.SameChange(first=first, second=second):
            values = [number(row[n]) for row in (after, before) for n in (first, second)]
            apart = (values[0] - values[2]) - (values[1] - values[3])
            return abs(apart) - 4.0 * EPS * sum(map(abs, values))
        case cp.Ellipsoid(center=center, matrix=matrix, radius=radius):
            away = np.array([number(after[n]) - c for n, c in center.items()])
            return float(np.sqrt(away @ np.asarray(matrix) @ away) - radius)
        case cp.MaxChanges(count=count):
            return float(sum(before[n] != after[n] for n in features.names) - count)
        case cp.WithinObserved(features=names):
            chosen = names or features.names
            return max(_outside(features[n], before[n], after[n]) for n in chosen)
    raise AssertionError(f"No definition of {constraint!r} here; write it.")


def _outside(feature: Any, old: Any, new: Any) -> float:
    if isinstance(feature, cp.Categorical):
        return float(new not in (*feature.observed, old))
    low, high = _range(feature, old)
    return max(low - number(new), number(new) - high)


def _range(feature: Any, at: Any) -> tuple[float, float]:
    """What `WithinObserved` leaves to a number: a row outside may stay or come nearer."""
    low, high = feature.observed
    return min(low, number(at)), max(high, number(at))


# Models, by probing


@dataclass(frozen=True)
class Additive:
    """Scores that are sums over raw columns: slope · number, or one vector for each category."""

    offset: np.ndarray
    slopes: dict[Hashable, np.ndarray] = field(default_factory=dict)
    tables: dict[Hashable, dict[Any, np.ndarray]] = field(default_factory=dict)

    def __call__(self, row: Row) -> np.ndarray:
        numbers = sum((s * number(row[n]) for n, s in self.slopes.items()), self.offset)
        return sum((t[row[n]] for n, t in self.tables.items()), numbers)

    @classmethod
    def probed(
        cls, decision: Callable[[Any], np.ndarray], base: pd.DataFrame, features: cp.Features
    ) -> Additive:
        """What a linear model is, found by changing one cell of a base row at a time."""
        here = _scores(decision(base))[0]
        slopes, tables, offset = {}, {}, np.array(here)
        for f in features:
            if isinstance(f, cp.Categorical):
                rows = _varied(base, f.name, list(f.categories))
                seen = _scores(decision(rows)) - here
                tables[f.name] = dict(zip(f.categories, seen, strict=True))
                continue
            value = base[f.name].iloc[0]
            step = _stride(f)
            ends = _scores(decision(_varied(base, f.name, [value, value + step])))
            slopes[f.name] = (ends[1] - ends[0]) / float(step)
            offset = offset - slopes[f.name] * float(value)
        return cls(offset, slopes, tables)


def _stride(feature: Any) -> float | int:
    """A change that shows the slope: as far as the data go."""
    low, high = feature.observed or (0.0, 1.0)
    far = max(high - low, 1.0)
    return int(far) if isinstance(feature, cp.Integer) else far


def _varied(base: pd.DataFrame, name: Hashable, values: list[Any]) -> pd.DataFrame:
    rows = base.iloc[[0] * len(values)].reset_index(drop=True)
    rows[name] = pd.Series(values, dtype=base[name].dtype)
    return rows


def _scores(values: np.ndarray) -> np.ndarray:
    """One decision z becomes the scores (0, z)."""
    values = np.asarray(values, dtype=float)
    return np.stack([np.zeros(len(values)), values], axis=1) if values.ndim == 1 else values


# Targets, as demands on scores


@dataclass(frozen=True)
class Demand:
    """``weights · scores >= least``; or, with ``softmax``, log Σ exp(scores − its) <= −least."""

    weights: np.ndarray
    least: float
    softmax: int | None = None


Subproblem = tuple[Demand, ...]


def pieces(target: cp.Target, classes: Sequence[Any], *, clipped: bool = False) -> list[Subproblem]:
    """The demands of each way to meet a target of a scoring classifier."""
    k, eye = len(classes), np.eye(len(classes))
    if isinstance(target, cp.Probability):
        at = list(classes).index(target.label)
        odds = np.log(target.at_least / (1.0 - target.at_least))
        if k > 2:
            return [(Demand(eye[at], odds, softmax=at),)]
        least = 2.0 * target.at_least - 1.0 if clipped else odds
        return [(Demand(eye[at] - eye[1 - at], least),)]
    inside = wanted(target, classes)
    return [
        tuple(Demand(eye[i] - eye[j], target.margin) for j in range(k) if j not in inside)
        for i in inside
    ]


def wanted(target: Any, classes: Sequence[Any]) -> list[int]:
    given = target.label if isinstance(target, cp.Label) else target.than
    named = set(given) if isinstance(given, list | tuple | set | frozenset) else {given}
    other = isinstance(target, cp.OtherLabel)
    return [i for i, c in enumerate(classes) if (c in named) != other]


def vote_pieces(target: Any, classes: Sequence[Any]) -> list[Subproblem]:
    """The same for pairwise votes: pairs that, so decided, elect a wanted class without the others.

    A margin is asked of these only: how another pair votes, and by how little, changes nothing.
    """
    k = len(classes)
    pairs = list(combinations(range(k), 2))
    inside, eye, enough = wanted(target, classes), np.eye(len(pairs)), []
    some = product((0.0, 1.0, -1.0), repeat=len(pairs))
    for signs in map(np.array, sorted(some, key=np.count_nonzero)):
        if any((signs[fewer != 0] == fewer[fewer != 0]).all() for fewer in enough):
            continue
        open_ = [(s,) if s else (1.0, -1.0) for s in signs]
        if all(_elected(every, pairs, k) in inside for every in product(*open_)):
            enough.append(signs)
    return [
        tuple(Demand(s * e, target.margin) for s, e in zip(signs, eye, strict=True) if s)
        for signs in enough
    ]


def _elected(signs: Sequence[float], pairs: list[tuple[int, int]], k: int) -> int:
    votes = [0] * k
    for sign, (i, j) in zip(signs, pairs, strict=True):
        votes[i if sign > 0 else j] += 1
    return votes.index(max(votes))


def interval_pieces(low: float, high: float) -> list[Subproblem]:
    """A prediction, which is the second of two scores (0, z), between two values."""
    row, demands = np.array([0.0, 1.0]), []
    if np.isfinite(low):
        demands.append(Demand(row, low))
    if np.isfinite(high):
        demands.append(Demand(-row, -high))
    return [tuple(demands)]


# The whole problem


@dataclass(frozen=True)
class Charge:
    """``weight / 2 · cost − log softmax(scores)[label]`` instead of the cost."""

    label: int
    weight: float

    def __call__(self, cost: float, scores: np.ndarray) -> float:
        top = scores.max()
        loss = top - scores[self.label] + np.log(np.exp(scores - top).sum())
        return float(0.5 * self.weight * cost + loss)


@dataclass(frozen=True)
class Question:
    """Everything that was asked of one person, in raw terms."""

    features: cp.Features
    model: Additive
    pieces: Sequence[Subproblem]
    cost: cp.Cost
    constraints: Sequence[cp.Constraint]
    row: Row
    objective_term: Charge | None = None

    @property
    def is_continuous(self) -> bool:
        return all(isinstance(f, cp.Continuous) for f in self.features)

    def stricter(self, by: float) -> Question:
        """The same with every demand raised, in score units."""
        raised = [tuple(replace(d, least=d.least + by) for d in piece) for piece in self.pieces]
        return replace(self, pieces=raised)


@dataclass(frozen=True)
class Optimum:
    """What an oracle knows of the least cost, or of what is minimised instead.

    Parameters
    ----------
    low
        Nothing costs less: a dual bound, but for `ROUNDING`; from SCIP, also but for `SCIP_OFF`.
    high
        What a point costs that keeps every demand; infinite if there is no point.
    """

    low: float
    high: float

    @property
    def exists(self) -> bool:
        """Whether there is a point."""
        return bool(np.isfinite(self.high))

    def allows(self, cost: float) -> bool:
        """Whether an answer can cost so little."""
        return cost >= self.low - KEPT_BY_ANSWERS * (1.0 + abs(self.low))


NOTHING = Optimum(np.inf, np.inf)
ROUNDING = 1e-12
"""By what share a cost is off that is summed in float64, and a point on a curved boundary."""
KEPT_BY_ANSWERS = 1e-9
"""By what share of 1 + cost an answer undercuts the optimum whose floats miss an equation a bit."""
SCIP_OFF = 1e-7
"""By what share of 1 + cost SCIP can be too low: demands are kept up to `TOL`."""


def optimum(question: Question) -> Optimum:
    """The least cost, or what is minimised instead, of an answer."""
    solve = cvxpy_optimum if question.is_continuous else scip_optimum
    return least(solve(question, piece) for piece in question.pieces)


def least(found: Iterable[Optimum]) -> Optimum:
    """The optimum over a union."""
    every = list(found)
    return Optimum(
        min((one.low for one in every), default=np.inf),
        min((one.high for one in every), default=np.inf),
    )


def cvxpy_optimum(q: Question, piece: Subproblem) -> Optimum:
    """Continuous columns, in CVXPY; a bound on the number of changes by trying every subset."""
    names = list(q.features.names)
    counts = [c.count for c in q.constraints if isinstance(c, cp.MaxChanges)]
    free = min([len(names), *counts])
    return least(
        _cvxpy(q, piece, set(chosen), q.row) or scip_optimum(q, piece)
        for chosen in combinations(names, free)
    )


def _cvxpy(q: Question, piece: Subproblem, free: set[Hashable], start: Row) -> Optimum | None:
    """The best change of the free continuous columns of a start; None if Clarabel cannot say."""
    names = [f.name for f in q.features if isinstance(f, cp.Continuous)]
    x = np.array([number(start[n]) for n in names])
    change = cvxpy.Variable(len(names))
    y: dict[Hashable, Any] = {n: x[j] + change[j] for j, n in enumerate(names)}
    y |= {n: start[n] for n in q.features.names if n not in y}
    demands = [change[j] == 0 for j, n in enumerate(names) if n not in free]
    here = q.model(start)
    slopes = np.stack([q.model.slopes[n] for n in names], axis=1)
    for demand in piece:
        if demand.softmax is None:
            row, short = demand.weights @ slopes, demand.least - demand.weights @ here
            size = np.linalg.norm(row)
            demands.append((row / size) @ change >= short / size if size else short <= 0)
        else:
            others = [i for i in range(len(here)) if i != demand.softmax]
            rows = slopes[others] - slopes[demand.softmax]
            at = here[others] - here[demand.softmax]
            demands.append(cvxpy.log_sum_exp(rows @ change + at) <= -demand.least)
    for constraint in q.constraints:
        demands += list(_cvxpy_constraint(constraint, q, y))
    demands = _plain(demands)
    encoded_cost, loss = _price(q, names, start), _cvxpy_loss(q, change, slopes, here)
    problem = cvxpy.Problem(cvxpy.Minimize(encoded_cost.cvxpy(change) + loss), demands)
    options = dict.fromkeys(("tol_gap_rel", "tol_gap_abs", "tol_feas"), 1e-11)
    try:
        if encoded_cost.is_absolute and problem.is_qp():
            problem.solve(solver="HIGHS")
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # how inaccurate it is, the bracket says
                problem.solve(solver="CLARABEL", **options)
    except cvxpy.SolverError:
        return None
    if problem.status == "infeasible":
        return NOTHING
    if problem.status not in ("optimal", "optimal_inaccurate"):
        return None
    return bracketed(encoded_cost, loss, demands, change)


@dataclass(frozen=True)
class EncodedCost:
    """``fixed + curvature(δ + shift)`` or ``fixed + absolute · |δ|`` of a change δ."""

    fixed: float
    absolute: np.ndarray | None
    matrix: np.ndarray | None
    slope: np.ndarray

    @property
    def is_absolute(self) -> bool:
        return self.matrix is None

    def cvxpy(self, change: Any) -> Any:
        if self.matrix is None:
            return self.fixed + self.absolute @ cvxpy.abs(change)
        root = np.linalg.cholesky(self.matrix).T
        return self.fixed + self.slope @ change + cvxpy.sum_squares(root @ change)

    def __call__(self, change: np.ndarray) -> float:
        if self.matrix is None:
            return float(self.fixed + self.absolute @ np.abs(change))
        return float(self.fixed + self.slope @ change + change @ self.matrix @ change)


def _price(q: Question, names: list[Hashable], start: Row) -> EncodedCost:
    """What changes of continuous columns cost, beyond those of the start."""
    factor = 1.0 if q.objective_term is None else 0.5 * q.objective_term.weight
    fixed = factor * cost_of(q.cost, q.features, q.row, start)
    every = list(q.features.names)
    at = [every.index(n) for n in names]
    if isinstance(q.cost, cp.Manhattan):
        return EncodedCost(fixed, factor * weights_of(q.cost, every)[at], None, np.zeros(len(at)))
    is_full = isinstance(q.cost, cp.Mahalanobis)
    matrix = np.asarray(q.cost.matrix, float) if is_full else np.diag(weights_of(q.cost, every))
    gone = [
        0.0 if isinstance(f, cp.Categorical) else number(start[f.name]) - number(q.row[f.name])
        for f in q.features
    ]
    slope = 2.0 * factor * (matrix @ gone)[at]
    return EncodedCost(fixed, None, factor * matrix[np.ix_(at, at)], slope)


def _cvxpy_loss(q: Question, change: Any, slopes: np.ndarray, here: np.ndarray) -> Any:
    """What is added to the cost."""
    if q.objective_term is None:
        return cvxpy.Constant(0.0)
    k = q.objective_term.label
    return cvxpy.log_sum_exp((slopes - slopes[k]) @ change + here - here[k])


def bracketed(encoded_cost: EncodedCost, loss: Any, demands: Sequence[Any], change: Any) -> Optimum:
    """What a solver's point and multipliers prove, however good they are, in floats.

    The Lagrangian ``L = price + loss + Σ λ g`` lies above its tangents. From below by its slope at
    the point s: a quadratic price leaves ``L − sᵀ Q⁻¹ s / 4``, the square of what the point is off;
    an absolute one loses ``(|s_j| − w_j)₊ |δ_j|``, where ``w_j |δ_j|`` is at most the optimum.
    """
    at, fall = change.value, np.zeros(change.size)
    total, sloped = float(loss.value), _gradient(loss, change)[0]
    for demand in demands:
        cost_cutoff = np.atleast_1d(demand.dual_value).astype(float)
        if not isinstance(demand, cvxpy.constraints.Zero | cvxpy.constraints.Equality):
            cost_cutoff = np.maximum(cost_cutoff, 0.0)
        total += float(cost_cutoff @ np.atleast_1d(demand.expr.value))
        sloped = sloped + cost_cutoff @ _gradient(demand.expr, change)
    high = _kept(encoded_cost, loss, demands, change, at)
    if encoded_cost.matrix is None:
        over = np.maximum(np.abs(sloped) - encoded_cost.absolute, 0.0)
        reach = np.where(over > 0, (high - encoded_cost.fixed) / encoded_cost.absolute, 0.0)
        low = encoded_cost.fixed + total - sloped @ at - over @ reach
    else:
        fall = sloped + encoded_cost.slope + 2.0 * encoded_cost.matrix @ at
        low = encoded_cost(at) + total - fall @ np.linalg.solve(encoded_cost.matrix, fall) / 4.0
    return Optimum(float(low) - ROUNDING * (1.0 + abs(low)), high)


def _gradient(expression: Any, change: Any) -> np.ndarray:
    """(m, n) of m values, at the point that the variable has."""
    found = expression.grad.get(change) if expression.variables() else None
    if found is None:
        return np.zeros((expression.size, change.size))
    return np.asarray(found.todense() if hasattr(found, "todense") else found).T.reshape(
        -1, change.size
    )


def _kept(
    encoded_cost: EncodedCost, loss: Any, demands: Sequence[Any], change: Any, start: np.ndarray
) -> float:
    """What a point costs that keeps the demands: Newton steps onto those that a point breaks."""
    at = np.array(start)
    for _ in range(20):
        change.value = at
        rows, short = [], []
        for demand in demands:
            equal = isinstance(demand, cvxpy.constraints.Zero | cvxpy.constraints.Equality)
            values = np.atleast_1d(demand.expr.value)
            gradient = _gradient(demand.expr, change)
            near = np.ones(len(values), bool) if equal else values > -NEAR * (1 + np.abs(at).max())
            rows.append(gradient[near])
            short.append(values[near] if equal else np.maximum(values[near], 0.0))
        off = np.concatenate([*short, np.zeros(0)])
        if np.abs(off).max(initial=0.0) <= KEPT * (1.0 + np.abs(at).max(initial=0.0)):
            value = encoded_cost(at) + float(loss.value)
            return value + ROUNDING * (1.0 + abs(value))
        at = at - np.linalg.lstsq(np.vstack(rows), off)[0]
    return np.inf


NEAR = 1e-7
"""Demands that are kept by less are held while others are repaired; in their own units."""
KEPT = 1e-14
"""What a demand is broken by if it is broken by rounding, as a share of the point's size."""


def _plain(demands: list[Any]) -> list[Any]:
    """Demands without a variable are Python booleans; False excludes everything."""
    return [
        d if not isinstance(d, bool | np.bool_) else cvxpy.Constant(0) >= int(not d)
        for d in demands
    ]


def _cvxpy_constraint(  # noqa: C901 (one case each)
    constraint: cp.Constraint, q: Question, y: Mapping[Hashable, Any]
) -> Iterator[Any]:
    match constraint:
        case cp.Immutable(features=names):
            yield from (y[n] == q.row[n] for n in names)
        case cp.Bounds() | cp.Monotone() | cp.WithinObserved():
            for name, low, high in intervals(constraint, q.features, q.row):
                if not isinstance(q.features[name], cp.Continuous):
                    continue  # SCIP has chosen it among those that are permitted
                if np.isfinite(low):
                    yield y[name] >= low
                if np.isfinite(high):
                    yield y[name] <= high
        case cp.Linear(coefficients=coefficients, low=low, high=high):
            fixed = [
                number(v) if isinstance(v := y[n], str | int | float) else v for n in coefficients
            ]
            total = sum(c * v for c, v in zip(coefficients.values(), fixed, strict=True))
            if np.isfinite(low):
                yield total >= low
            if np.isfinite(high):
                yield total <= high
        case cp.Ellipsoid(center=center, matrix=matrix, radius=radius):
            root = np.linalg.cholesky(np.asarray(matrix)).T
            away = cvxpy.hstack([y[n] - c for n, c in center.items()])
            yield cvxpy.norm(root @ away) <= radius
        case cp.MaxChanges():
            pass
        case _:
            raise AssertionError(f"No statement of {constraint!r} here; write it.")


def intervals(
    constraint: cp.Constraint, features: cp.Features, row: Row
) -> Iterator[tuple[Hashable, float, float]]:
    """What one-column constraints leave to numbers."""
    match constraint:
        case cp.Bounds(feature=name) if not isinstance(features[name], cp.Categorical):
            at = number(row[name])
            low = max(constraint.low, at - constraint.fall)
            yield name, low, min(constraint.high, at + constraint.rise)
        case cp.Monotone(feature=name) if not isinstance(features[name], cp.Categorical):
            rises = constraint.direction == "increasing"
            at = number(row[name])
            yield (name, at, np.inf) if rises else (name, -np.inf, at)
        case cp.WithinObserved(features=names):
            for name in names or features.names:
                if not isinstance(features[name], cp.Categorical):
                    yield name, *_range(features[name], row[name])


class _Scip:
    """One person's problem in SCIP, piece by piece."""

    def __init__(self, q: Question) -> None:
        self.q, self.model = q, pyscipopt.Model()
        self.is_empty, self.has_exponentials = False, False
        self.model.hideOutput()
        self.model.setParam("numerics/feastol", TOL)
        self.model.setParam("numerics/dualfeastol", TOL)
        self.model.setParam("limits/gap", 0.0)
        self.steps: dict[Hashable, Any] = {}
        self.chosen: dict[Hashable, dict[Any, Any]] = {}
        self.value: dict[Hashable, Any] = {}
        for f in q.features:
            self._column(f)

    def _column(self, f: Any) -> None:
        at = self.q.row[f.name]
        if isinstance(f, cp.Categorical):
            chosen = {c: self.model.addVar(vtype="B") for c in f.categories}
            self.model.addCons(pyscipopt.quicksum(chosen.values()) == 1)
            for c, variable in chosen.items():
                if not all(self._permits(k, f.name, c) for k in self.q.constraints):
                    self.model.addCons(variable == 0)
            self.chosen[f.name] = chosen
            return
        unit = f.step if isinstance(f, cp.Integer) else 1.0
        low, high = ((bound - number(at)) / unit for bound in self._interval(f.name))
        if isinstance(f, cp.Integer):
            low, high = np.ceil(low - 1e-9), np.floor(high + 1e-9)
        self.is_empty |= bool(low > high)
        ends = {"lb": low, "ub": high} if low <= high else {"lb": 0.0, "ub": 0.0}
        ends = {side: float(end) if np.isfinite(end) else None for side, end in ends.items()}
        step = self.model.addVar(vtype="I" if isinstance(f, cp.Integer) else "C", **ends)
        self.steps[f.name] = step
        self.value[f.name] = number(at) + unit * step

    def _interval(self, column: Hashable) -> tuple[float, float]:
        ends = [(-np.inf, np.inf)]
        for constraint in self.q.constraints:
            limits = intervals(constraint, self.q.features, self.q.row)
            ends += [(low, high) for name, low, high in limits if name == column]
            if isinstance(constraint, cp.Immutable) and column in constraint.features:
                ends.append((number(self.q.row[column]),) * 2)
        return max(low for low, _ in ends), min(high for _, high in ends)

    def _permits(self, constraint: cp.Constraint, name: Hashable, category: Any) -> bool:
        """Whether a one-column constraint permits a category."""
        row = self.q.row
        if isinstance(constraint, cp.WithinObserved):
            return name not in (constraint.features or self.q.features.names) or (
                category in (*self.q.features[name].observed, row[name])
            )
        names = getattr(constraint, "features", (getattr(constraint, "feature", None),))
        if isinstance(constraint, cp.Immutable | cp.Bounds | cp.Monotone) and name in names:
            return allows(constraint, self.q.features, row, {**row, name: category})
        return True

    def _sum(self, name: Hashable, of_category: Callable[[Any], float], slope: float) -> Any:
        """A linear function of one column."""
        if name in self.chosen:
            return pyscipopt.quicksum(of_category(c) * v for c, v in self.chosen[name].items())
        return slope * self.value[name]

    def score(self, weights: np.ndarray) -> Any:
        model = self.q.model
        total = float(weights @ model.offset)
        for name, slope in model.slopes.items():
            total = total + float(weights @ slope) * self.value[name]
        for name, table in model.tables.items():
            total = total + self._sum(name, lambda c, t=table: float(weights @ t[c]), 0.0)
        return total

    def demand(self, demand: Demand) -> None:
        if demand.softmax is None:
            size = max(float(np.abs(demand.weights).max()), 1e-300)
            self._at_least(self.score(demand.weights / size), demand.least / size)
            return
        eye = np.eye(len(demand.weights))
        others = [i for i in range(len(eye)) if i != demand.softmax]
        terms = []
        for i in others:
            z = self.model.addVar(lb=None)
            self._at_least(z - self.score(eye[i] - eye[demand.softmax]), 0.0)
            terms.append(pyscipopt.exp(z + demand.least))
        self._exponential(pyscipopt.quicksum(terms) <= 1.0)

    def _exponential(self, condition: Any) -> None:
        self.has_exponentials = True
        self.model.addCons(condition)

    def _at_least(self, expression: Any, least: float) -> None:
        if isinstance(expression, int | float):
            if expression < least:
                self.is_empty = True
            return
        self.model.addCons(expression >= least)

    def constrain(self, constraint: cp.Constraint) -> None:
        if isinstance(constraint, cp.Linear):
            total = pyscipopt.quicksum(
                self._sum(n, lambda c, k=k: k * number(c), k)
                for n, k in constraint.coefficients.items()
            )
            if np.isfinite(constraint.low):
                self.model.addCons(total >= constraint.low)
            if np.isfinite(constraint.high):
                self.model.addCons(total <= constraint.high)
        elif isinstance(constraint, cp.Ellipsoid):
            root = np.linalg.cholesky(np.asarray(constraint.matrix)).T / constraint.radius
            away = [self.value[n] - c for n, c in constraint.center.items()]
            terms = [self._square(_dot(row, away)) for row in root]
            self.model.addCons(pyscipopt.quicksum(terms) <= 1.0)
        elif isinstance(constraint, cp.MaxChanges):
            self.limit_changes(constraint.count)

    def limit_changes(self, count: int) -> None:
        changed = []
        for step in self.steps.values():
            switch = self.model.addVar(vtype="B")
            self.model.addConsIndicator(step <= 0, binvar=switch, activeone=False)
            self.model.addConsIndicator(-step <= 0, binvar=switch, activeone=False)
            changed.append(switch)
        changed += [1 - self.chosen[n][self.q.row[n]] for n in self.chosen]
        self.model.addCons(pyscipopt.quicksum(changed) <= count)

    def objective(self) -> None:
        q, names = self.q, list(self.q.features.names)
        is_full = isinstance(q.cost, cp.Mahalanobis)
        weights = np.diag(np.asarray(q.cost.matrix)) if is_full else weights_of(q.cost, names)
        staying = [1 - self.chosen[n][q.row[n]] if n in self.chosen else 0.0 for n in names]
        total = pyscipopt.quicksum(w * s for w, s in zip(weights.tolist(), staying, strict=True))
        at = [j for j, n in enumerate(names) if n in self.steps]
        changes = [self.value[names[j]] - number(q.row[names[j]]) for j in at]
        if isinstance(q.cost, cp.Manhattan):
            terms = [self._size(weights[j] * c) for j, c in zip(at, changes, strict=True)]
        else:
            matrix = np.asarray(q.cost.matrix, dtype=float) if is_full else np.diag(weights)
            root = np.linalg.cholesky(matrix[np.ix_(at, at)]).T if at else []
            terms = [self._square(_dot(row, changes)) for row in root]
        cost = total + pyscipopt.quicksum(terms)
        self.model.setObjective(
            cost if q.objective_term is None else self._charged(q.objective_term, cost)
        )

    def _charged(self, objective_term: Charge, cost: Any) -> Any:
        """The loss is the least t with Σ exp(z − z_label − t) <= 1."""
        loss, parts, eye = self.model.addVar(), [], np.eye(len(self.q.model.offset))
        for row in eye:
            z = self.model.addVar(lb=None)
            self._at_least(z + loss - self.score(row - eye[objective_term.label]), 0.0)
            parts.append(pyscipopt.exp(z))
        self._exponential(pyscipopt.quicksum(parts) <= 1.0)
        return 0.5 * objective_term.weight * cost + loss

    def polished(self, piece: Subproblem) -> Optimum | None:
        """The optimum where the discrete columns, and those that stay, are what SCIP found."""
        q, row, moves = self.q, dict(self.q.row), {}
        for f in q.features:
            if f.name in self.chosen:
                row[f.name] = max(
                    self.chosen[f.name], key=lambda c: self._at(self.chosen[f.name][c])
                )
            elif isinstance(f, cp.Integer):
                row[f.name] = number(row[f.name]) + f.step * round(self._at(self.steps[f.name]))
            else:
                moves[f.name] = abs(self._at(self.steps[f.name]))
        if not moves:
            cost = cost_of(q.cost, q.features, q.row, row)
            value = cost if q.objective_term is None else q.objective_term(cost, q.model(row))
            off = ROUNDING * (1.0 + abs(value))
            return Optimum(value - off, value + off)
        spent = sum(row[n] != q.row[n] for n in row)
        counts = [c.count - spent for c in q.constraints if isinstance(c, cp.MaxChanges)]
        most = sorted(moves, key=moves.__getitem__, reverse=True)
        return _cvxpy(q, piece, set(most[: max(min([len(moves), *counts]), 0)]), row)

    def _at(self, variable: Any) -> float:
        return float(self.model.getVal(variable))

    def _size(self, change: Any) -> Any:
        size = self.model.addVar()
        self.model.addCons(size >= change)
        self.model.addCons(size >= -change)
        return size

    def _square(self, expression: Any) -> Any:
        v, square = self.model.addVar(lb=None), self.model.addVar()
        self.model.addCons(v == expression)
        self.model.addCons(v * v <= square)
        return square


def _dot(numbers: Any, expressions: Any) -> Any:
    return pyscipopt.quicksum(a * b for a, b in zip(numbers, expressions, strict=True))


def scip_optimum(q: Question, piece: Subproblem) -> Optimum:
    """Any columns, in SCIP; where it ends, CVXPY says what the continuous columns cost there.

    With exponentials, or products of whole columns, SCIP now and then calls points optimal where
    others are far better, be it with presolving or without, rarely with both: the better of the two
    counts.
    """
    found, problem = _scip(q, piece, presolved=True)
    if problem.has_exponentials or isinstance(q.cost, cp.Mahalanobis):
        found = least([found, _scip(q, piece, presolved=False)[0]])
    return found


def _scip(q: Question, piece: Subproblem, *, presolved: bool) -> tuple[Optimum, _Scip]:
    problem = _Scip(q)
    if not presolved:
        problem.model.setParam("presolving/maxrounds", 0)
    for constraint in q.constraints:
        problem.constrain(constraint)
    for demand in piece:
        problem.demand(demand)
    problem.objective()
    if problem.is_empty:
        return NOTHING, problem
    problem.model.optimize()
    status = problem.model.getStatus()
    if status in ("infeasible", "inforunbd"):
        return NOTHING, problem
    assert status in ("optimal", "gaplimit"), status
    value, off = max(float(problem.model.getObjVal()), 0.0), SCIP_OFF
    low, found = value - off * (1.0 + value), problem.polished(piece)
    high = found.high if found is not None and found.exists else value + off * (1.0 + value)
    return Optimum(min(low, high), high), problem


# Brute force


def grid(features: cp.Features, row: Row, reach: int) -> Iterator[dict[Hashable, Any]]:
    """Every row within so many steps whose continuous columns stay."""
    steps = range(-reach, reach + 1)
    choices: list[list[Any]] = []
    for f in features:
        if isinstance(f, cp.Categorical):
            choices.append(list(f.categories))
        else:
            step = f.step if isinstance(f, cp.Integer) else 0.0
            choices.append([row[f.name] + s * step for s in (steps if step else (0,))])
    for values in product(*choices):
        yield dict(zip(features.names, values, strict=True))


def brute_force(q: Question, reach: int) -> float:
    """The least cost, or what is minimised instead, among the rows of a `grid`."""
    best = np.inf
    for after in grid(q.features, q.row, reach):
        if any(excess(c, q.features, q.row, after) > 1e-9 for c in q.constraints):
            continue
        scores = q.model(after)
        if any(meets(piece, scores) for piece in q.pieces):
            cost = cost_of(q.cost, q.features, q.row, after)
            best = min(best, cost if q.objective_term is None else q.objective_term(cost, scores))
    return best


def meets(piece: Subproblem, scores: np.ndarray, tolerance: float = 1e-9) -> bool:
    for demand in piece:
        if demand.softmax is None:
            if demand.weights @ scores < demand.least - tolerance:
                return False
        else:
            others = np.delete(scores, demand.softmax) - scores[demand.softmax]
            if np.log(np.exp(others).sum()) > -demand.least + tolerance:
                return False
    return True


# Softmax scores in many digits, and what can be said of them in D columns


DIGITS = 60
LONG = np.longdouble
"""18 digits and more where the processor has them; laws that need them say `needs_long`."""
LEAST = float(np.finfo(np.float64).tiny)


def logistic_root(alpha: float, beta: float) -> tuple[Any, Any]:
    """t and 1 − t for the root t of t = 1 / (1 + exp(α t + β)), in 60 digits.

    Bisection and Newton's method on the log-odds y of t: y + α t + β = 0 is increasing in y.
    """
    with mpmath.workdps(DIGITS):
        a, b = mpmath.mpf(float(alpha)), mpmath.mpf(float(beta))
        low, high = -a - b - 1, 1 - b
        y, before = (low + high) / 2, high - low
        while before > mpmath.mpf(10) ** (15 - DIGITS) * (1 + abs(y)):
            t = 1 / (1 + mpmath.exp(-y))
            value, slope = y + a * t + b, 1 + a * t * (1 - t)
            low, high = (low, y) if value > 0 else (y, high)
            following = y - value / slope
            if not (low < following < high and abs(following - y) < before / 2):
                following = (low + high) / 2
            before, y = abs(following - y), following
        return 1 / (1 + mpmath.exp(-y)), 1 / (1 + mpmath.exp(y))


def relative_error(value: float, truth: Any) -> float:
    """0 where the truth is too small for a float of full precision."""
    with mpmath.workdps(DIGITS):
        return float(abs(mpmath.mpf(float(value)) - truth) / truth) if truth >= LEAST else 0.0


@dataclass(frozen=True)
class Loss:
    """What is known of −log p or of −log (p / (1 − p)) at points, in extended precision.

    Parameters
    ----------
    value
        (n,) the loss.
    pull
        (n, K) its gradient in the scores; each row sums to 0.
    """

    value: np.ndarray
    pull: np.ndarray


def log_loss(scores: np.ndarray, label: np.ndarray) -> Loss:
    """−log p of the labels; p − e."""
    own = np.take_along_axis(scores, label[:, None], 1)
    top = scores.max(axis=1, keepdims=True)
    parts = np.exp(scores - top)
    rest = parts.copy()
    np.put_along_axis(rest, label[:, None], 0.0, 1)
    total, others = parts.sum(axis=1), rest.sum(axis=1)
    safety_margins = (own == top)[:, 0]
    value = np.where(safety_margins, np.log1p(others), (top - own)[:, 0] + np.log(total))
    return Loss(value, _pulling(parts / total[:, None], label, others / total))


def log_odds_loss(scores: np.ndarray, label: np.ndarray) -> Loss:
    """−log (p / (1 − p)) of the labels."""
    others = scores - np.take_along_axis(scores, label[:, None], 1)
    np.put_along_axis(others, label[:, None], -np.inf, 1)
    top = others.max(axis=1, keepdims=True)
    parts = np.exp(others - top)
    total = parts.sum(axis=1)
    pull = _pulling(parts / total[:, None], label, np.ones(len(scores)))
    return Loss(top[:, 0] + np.log(total), pull)


def _pulling(shares: np.ndarray, label: np.ndarray, away: np.ndarray) -> np.ndarray:
    pull = shares.copy()
    np.put_along_axis(pull, label[:, None], -away[:, None], 1)
    return pull


def entropy(shares: np.ndarray) -> np.ndarray:
    """(n,) −Σ v log v of (n, m) shares."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.where(shares > 0, shares * np.log(shares), 0).sum(axis=1)


def tradeoff_bound(given: Any, shares: np.ndarray) -> np.ndarray:
    """(n,) what λ/2 ‖δ‖² − log p is at least: its dual at shares of the classes, by the conjugate.

    The label's share is what the others leave.
    """
    v = shares.astype(LONG)
    np.put_along_axis(v, given.label[:, None], 0.0, 1)
    v = v / np.maximum(v.sum(axis=1, keepdims=True), 1)
    total = np.minimum(v.sum(axis=1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        last = np.where(total < 1, -(1 - total) * np.log1p(-total), 0)
    pull = _pulling(v, given.label, total)
    moved = pull @ given.matrix.astype(LONG)
    spent = (moved * moved).sum(axis=1) / (2 * given.weight.astype(LONG))
    return (pull * given.scores).sum(axis=1) - spent + entropy(v) + last


def reach_bound(given: Any, goal: np.ndarray, shares: np.ndarray, weight: Any) -> np.ndarray:
    """(n,) what ½ ‖δ‖² is at least where the log-odds are a goal: multipliers are shares / λ."""
    v = shares.astype(LONG)
    np.put_along_axis(v, given.label[:, None], 0.0, 1)
    v = v / np.maximum(v.sum(axis=1, keepdims=True), LEAST)
    pull = _pulling(v, given.label, np.ones(len(v)))
    moved, mu = pull @ given.matrix.astype(LONG), 1 / np.asarray(weight, dtype=LONG)
    lacking = (pull * given.scores).sum(axis=1) + entropy(v) + goal
    return mu * lacking - mu * mu * (moved * moved).sum(axis=1) / 2


def best_log_odds(matrix: np.ndarray, scores: np.ndarray, label: int) -> float:
    """The supremum of a label's log-odds over all points; infinite if its row is extreme.

    If it lies within the hull of the others, the dual says: −max { pᵀ(z − z_label) + H(p) } over
    the shares p of the others with Σ p (a − a_label) = 0.
    """
    rows = np.delete(matrix, label, axis=0) - matrix[label]
    size = np.abs(rows).max(axis=1, initial=0.0)
    if size.all() and len(rows):
        d = rows.shape[1]
        away = linprog(
            np.zeros(d), rows / size[:, None], -np.ones(len(rows)), bounds=[(None, None)] * d
        )
        if away.status == 0:
            return np.inf
    ahead = np.delete(scores, label) - scores[label]
    shares = cvxpy.Variable(len(rows), nonneg=True)
    value = ahead @ shares + cvxpy.sum(cvxpy.entr(shares))
    known = [cvxpy.sum(shares) == 1, rows.T @ shares == 0]
    problem = cvxpy.Problem(cvxpy.Maximize(value), known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver="CLARABEL")
    assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
    return -float(problem.value)


def least_change(matrix: np.ndarray, scores: np.ndarray, label: int, goal: float) -> Optimum:
    """½ ‖δ‖² of the least change at which a label's log-odds are a goal, in CVXPY."""
    rows = np.delete(matrix, label, axis=0) - matrix[label]
    change = cvxpy.Variable(matrix.shape[1])
    ahead = np.delete(scores, label) - scores[label]
    satisfied = cvxpy.log_sum_exp(rows @ change + ahead) <= -goal
    encoded_cost = EncodedCost(0.0, None, np.eye(change.size) / 2.0, np.zeros(change.size))
    problem = cvxpy.Problem(cvxpy.Minimize(encoded_cost.cvxpy(change)), [satisfied])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how inaccurate it is, the bracket says
        problem.solve(solver="CLARABEL", **dict.fromkeys(("tol_gap_rel", "tol_gap_abs"), 1e-11))
    return bracketed(encoded_cost, cvxpy.Constant(0.0), [satisfied], change)


def newton_in_all_columns(
    matrix: np.ndarray, scores: np.ndarray, label: int, weight: float
) -> np.ndarray:
    """(D,) the change δ that minimises λ/2 ‖δ‖² − log p: the paper's algorithm, written plainly.

    Steps are shortened until the objective falls; at the end, where it is all rounding, the slope.
    """
    own, labels = np.eye(len(matrix))[label], np.array([label])

    def at(change: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        loss = log_loss((scores + matrix @ change)[None, :], labels)
        value = 0.5 * weight * change @ change + loss.value[0]
        return value, weight * change + loss.pull[0] @ matrix, loss.pull[0] + own

    change = np.zeros(matrix.shape[1])
    value, slope, p = at(change)
    for _ in range(500):
        hessian = weight * np.eye(len(change)) + matrix.T @ (np.diag(p) - np.outer(p, p)) @ matrix
        step, length = -np.linalg.solve(hessian, slope), 1.0
        fall, following = -(slope @ step), at(change + step)
        if fall <= 1e-13 * value:
            if not np.linalg.norm(following[1]) < 0.5 * np.linalg.norm(slope):
                break
        else:
            while following[0] > value - 1e-4 * length * fall and length > 1e-12:
                length *= 0.5
                following = at(change + length * step)
        change, (value, slope, p) = change + length * step, following
    return change


def newton_step(
    matrix: np.ndarray, shares: np.ndarray, weight: float, slope: np.ndarray
) -> np.ndarray:
    """(D,) −H⁻¹ ∇E with H = λI + Aᵀ (diag p − ppᵀ) A, refined in extended precision."""
    a, p = matrix.astype(LONG), shares.astype(LONG)
    centred = a - p @ a
    hessian = weight * np.eye(a.shape[1], dtype=LONG) + (centred * p[:, None]).T @ centred
    step = np.zeros(a.shape[1], dtype=LONG)
    for _ in range(8):
        left = -slope - hessian @ step
        step = step + np.linalg.solve(hessian.astype(float), left.astype(float))
    return step
