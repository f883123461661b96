"""The question of a counterfactual stated anew in CVXPY, from the public meaning of every part.

Nothing of counterpoint is used but the values that the user writes down: features, costs, targets
and constraints. The model is read by asking its ``decision_function``, which is affine, at a few
points.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Any

import cvxpy
import numpy as np
import pandas as pd

import counterpoint as cp

TIGHT = {
    "CLARABEL": {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11},
    "HIGHS": {
        "highs_options": {
            "mip_rel_gap": 1e-9,
            "mip_feasibility_tolerance": 1e-9,
            "primal_feasibility_tolerance": 1e-9,
            "dual_feasibility_tolerance": 1e-9,
            "time_limit": 20.0,
        }
    },
    "SCIP": {"scip_params": {"limits/time": 20.0, "limits/gap": 1e-9}},
}


@dataclass(frozen=True)
class Scores:
    """score_k(y) = offset_k + Σ slopes[column]_k · y, or + levels[column][value]_k."""

    offset: np.ndarray
    slopes: dict[Any, np.ndarray]
    levels: dict[Any, dict[Any, np.ndarray]]

    @classmethod
    def ask(cls, model: Any, frame: pd.DataFrame, features: Iterable[Any]) -> Scores:
        """Differences of the decision function, one column at a time."""
        base = frame.iloc[[0]].copy()
        numeric = [f.name for f in features if not isinstance(f, cp.Categorical)]
        for name in numeric:
            base[name] = float(frame[name].mean())
        probes, keys = [base], []
        spread = frame[numeric].std().replace(0.0, 1.0)
        for f in features:
            values = (
                f.categories
                if isinstance(f, cp.Categorical)
                else (base[f.name].iloc[0] + spread[f.name],)
            )
            for value in values:
                probe = base.copy()
                probe[f.name] = pd.Series([value], index=base.index).astype(_kind(frame, f))
                probes.append(probe)
                keys.append((f, value))
        table = pd.concat(probes)
        scores = np.asarray(model.decision_function(table), dtype=float)
        scores = np.stack([0 * scores, scores], axis=1) if scores.ndim == 1 else scores
        start, change = scores[0], scores[1:] - scores[0]
        offset, slopes, levels = start.copy(), {}, {}
        for (f, value), effect in zip(keys, change, strict=True):
            if isinstance(f, cp.Categorical):
                levels.setdefault(f.name, {})[value] = effect
            else:
                slopes[f.name] = effect / spread[f.name]
                offset -= slopes[f.name] * base[f.name].iloc[0]
        return cls(offset, slopes, levels)


def _kind(frame: pd.DataFrame, feature: Any) -> Any:
    return frame[feature.name].dtype if isinstance(feature, cp.Categorical) else float


@dataclass
class Answer:
    """What CVXPY says of one row.

    Parameters
    ----------
    cost
        Of its best point, polished; infinite if there is none.
    impossible
        Whether every piece is infeasible.
    finished
        Whether the solver says that it is done.
    """

    cost: float
    impossible: bool
    finished: bool


class Statement:
    """One person's question in CVXPY variables."""

    def __init__(
        self, explainer: cp.Explainer, scores: Scores, x: dict[Any, Any], spread: pd.Series
    ) -> None:
        self.features = {f.name: f for f in explainer.features}
        self.x = x
        self.explainer = explainer
        self.delta: dict[Any, Any] = {}
        self.choice: dict[Any, Any] = {}
        self.steps: dict[Any, Any] = {}
        self.conditions: list[Any] = []
        self.switches: list[Any] = []
        self.whole: list[tuple[Any, Any]] = []
        self.low = dict.fromkeys(self.features, -np.inf)
        self.high = dict.fromkeys(self.features, np.inf)
        for f in self.features.values():
            self._variable(f, spread)
        late = [c for c in explainer.constraints if isinstance(c, cp.MaxChanges)]
        for constraint in (*explainer.constraints, *self._constant()):
            if constraint not in late:
                self.restrict(constraint)
        for constraint in late:  # they need the bounds that the others give
            self.restrict(constraint)
        self.scores = self._score(scores)
        self.cost = self.encoded_cost(explainer.cost)

    def _constant(self) -> list[cp.Immutable]:
        """Columns that the data show with one value only do not move."""
        names = [f.name for f in self.features.values() if len(set(f.observed or (0, 1))) == 1]
        return [cp.Immutable(*names)] if names else []

    def _variable(self, f: Any, spread: pd.Series) -> None:
        name = f.name
        if isinstance(f, cp.Categorical):
            self.choice[name] = self._integral(len(f.categories), boolean=True)
            self.conditions.append(cvxpy.sum(self.choice[name]) == 1)
        elif isinstance(f, cp.Integer):
            self.steps[name] = self._integral(1, integer=True)[0]
            self.delta[name] = f.step * self.steps[name]
        else:
            scale = spread[name] if spread[name] > 0 else 1.0
            self.delta[name] = scale * cvxpy.Variable()

    def _integral(self, size: int, **kind: bool) -> Any:
        """A variable, and its twin that is whole: one can be fixed without the other."""
        variable = cvxpy.Variable(size)
        self.whole.append((variable, cvxpy.Variable(size, **kind)))
        return variable

    def _here(self, name: Any) -> int:
        return self.features[name].categories.index(self.x[name])

    def _value(self, name: Any) -> Any:
        """A feature's number as an expression."""
        if name in self.choice:
            return np.array(self.features[name].categories, dtype=float) @ self.choice[name]
        return float(self.x[name]) + self.delta[name]

    def _leaves(self, name: Any) -> Any:
        """1 if the category changes."""
        return 1 - self.choice[name][self._here(name)]

    def _score(self, scores: Scores) -> Any:
        total = scores.offset
        for name, slope in scores.slopes.items():
            total = total + slope * self._value(name)
        for name, effects in scores.levels.items():
            rows = np.array([effects[value] for value in self.features[name].categories])
            total = total + rows.T @ self.choice[name]
        return total

    # Costs

    @singledispatchmethod
    def encoded_cost(self, cost: Any) -> Any:
        """The cost as an expression."""
        raise NotImplementedError(cost)

    @encoded_cost.register
    def _(self, cost: cp.Manhattan) -> Any:
        weight = self._weights(cost.weights)
        return sum(weight[n] * cvxpy.abs(d) for n, d in self.delta.items()) + self._categories(
            weight
        )

    @encoded_cost.register
    def _(self, cost: cp.SquaredEuclidean) -> Any:
        weight = self._weights(cost.weights)
        return sum(weight[n] * cvxpy.square(d) for n, d in self.delta.items()) + self._categories(
            weight
        )

    @encoded_cost.register
    def _(self, cost: cp.Mahalanobis) -> Any:
        matrix = np.asarray(cost.matrix)
        names = list(self.features)
        numeric = [names.index(n) for n in self.delta]
        weight = dict(zip(names, np.diag(matrix), strict=True))
        encoded_cost = self._categories(weight)
        if numeric:
            root = np.linalg.cholesky(matrix[np.ix_(numeric, numeric)]).T
            moved = cvxpy.hstack([self.delta[names[j]] for j in numeric])
            encoded_cost = encoded_cost + cvxpy.sum_squares(root @ moved)
        return encoded_cost

    def _weights(self, weights: Any) -> dict[Any, float]:
        return {name: float((weights or {}).get(name, 1.0)) for name in self.features}

    def _categories(self, weight: dict[Any, float]) -> Any:
        return sum((weight[name] * self._leaves(name) for name in self.choice), start=0.0)

    # Constraints

    @singledispatchmethod
    def restrict(self, constraint: Any) -> None:
        """The constraint as conditions."""
        raise NotImplementedError(constraint)

    @restrict.register
    def _(self, constraint: cp.Immutable) -> None:
        for name in constraint.features:
            self.conditions.append(
                self._leaves(name) == 0 if name in self.choice else self.delta[name] == 0
            )

    @restrict.register
    def _(self, constraint: cp.Bounds) -> None:
        c, x = constraint, float(self.x[constraint.feature])
        self._between(c.feature, max(c.low, x - c.fall), min(c.high, x + c.rise))

    @restrict.register
    def _(self, constraint: cp.Monotone) -> None:
        name, rising = constraint.feature, constraint.direction == "increasing"
        if name in self.choice:
            index = self._here(name)
            values = self.features[name].categories
            for i, value in enumerate(values):
                if (value < values[index]) if rising else (value > values[index]):
                    self.conditions.append(self.choice[name][i] == 0)
            return
        x = float(self.x[name])
        self._between(name, x if rising else -np.inf, np.inf if rising else x)

    def _between(self, name: Any, low: float, high: float) -> None:
        self.low[name], self.high[name] = max(self.low[name], low), min(self.high[name], high)
        value = self._value(name)
        self.conditions += [value >= low] if np.isfinite(low) else []
        self.conditions += [value <= high] if np.isfinite(high) else []

    @restrict.register
    def _(self, constraint: cp.Linear) -> None:
        total = sum(c * self._value(name) for name, c in constraint.coefficients.items())
        self.conditions += [total >= constraint.low] if np.isfinite(constraint.low) else []
        self.conditions += [total <= constraint.high] if np.isfinite(constraint.high) else []

    @restrict.register
    def _(self, constraint: cp.Ellipsoid) -> None:
        root = np.linalg.cholesky(np.asarray(constraint.matrix)).T
        away = cvxpy.hstack([self._value(n) - c for n, c in constraint.center.items()])
        self.conditions.append(cvxpy.norm(root @ away) <= constraint.radius)

    @restrict.register
    def _(self, constraint: cp.WithinObserved) -> None:
        for name in constraint.features or self.features:
            f = self.features[name]
            if name not in self.choice:
                self._between(name, *f.observed)
                continue
            for i, value in enumerate(f.categories):
                if value not in f.observed:
                    self.conditions.append(self.choice[name][i] == 0)

    @restrict.register
    def _(self, constraint: cp.MaxChanges) -> None:
        """Needs bounds on every numeric feature, which give the big M."""
        moved = []
        for name in self.features:
            if name in self.choice:
                moved.append(self._leaves(name))
                continue
            reach = max(abs(self.high[name] - self.x[name]), abs(self.x[name] - self.low[name]))
            used = self._integral(1, boolean=True)[0]
            self.switches.append(used)
            self.conditions.append(cvxpy.abs(self.delta[name]) <= reach * used)
            moved.append(used)
        self.conditions.append(sum(moved) <= constraint.count)

    # Targets

    def pieces(self, target: Any, classes: list[Any], now: Any) -> list[list[Any]]:
        """The conditions of each piece of the target."""
        z = self.scores
        if isinstance(target, cp.Probability):
            k = classes.index(target.label)
            margins = [z[j] - z[k] for j in range(len(classes)) if j != k]
            needed = float(np.log(target.at_least / (1.0 - target.at_least)))
            miss = margins[0] if len(margins) == 1 else cvxpy.log_sum_exp(cvxpy.hstack(margins))
            return [[miss <= -needed]]
        if isinstance(target, cp.OtherLabel):
            away = target.labels or (now,)
            wanted = [k for k, label in enumerate(classes) if label not in away]
        else:
            wanted = [classes.index(label) for label in target.labels]
        rivals = [j for j in range(len(classes)) if j not in wanted]
        return [[z[k] >= z[j] + target.margin for j in rivals] for k in wanted]

    def answer(self, target: Any, classes: list[Any], now: Any) -> Answer:
        """The best of all pieces."""
        best, impossible, finished = np.inf, True, True
        for piece in self.pieces(target, classes, now):
            twins = [variable == twin for variable, twin in self.whole]
            status, value = self._solve([*piece, *twins], self._solver(target, classes))
            impossible &= status in (cvxpy.INFEASIBLE, cvxpy.INFEASIBLE_INACCURATE)
            finished &= status in (cvxpy.OPTIMAL, cvxpy.INFEASIBLE)
            if np.isfinite(value) and self.whole:
                fixed = [variable == np.round(twin.value) for variable, twin in self.whole]
                value = self._solve([*piece, *fixed], "CLARABEL")[1]
            best = min(best, value)
        return Answer(best, impossible, finished)

    def _solver(self, target: Any, classes: list[Any]) -> str:
        if not self.whole:
            return "CLARABEL"
        explainer = self.explainer
        nonlinear = any(isinstance(c, cp.Ellipsoid) for c in explainer.constraints)
        return "HIGHS" if isinstance(explainer.cost, cp.Manhattan) and not nonlinear else "SCIP"

    def _solve(self, conditions: list[Any], solver: str) -> tuple[str, float]:
        """The status, and the value if there is a point."""
        problem = cvxpy.Problem(cvxpy.Minimize(self.cost), [*self.conditions, *conditions])
        for options in (TIGHT[solver], {}):
            try:
                problem.solve(solver=solver, **options)
            except cvxpy.SolverError:
                continue
            break
        else:
            return "failed", np.inf
        statuses = (cvxpy.OPTIMAL, cvxpy.OPTIMAL_INACCURATE, cvxpy.USER_LIMIT)
        usable = problem.status in statuses and problem.value is not None
        return problem.status, float(problem.value) if usable else np.inf

    # Judging an answer of ours

    def judge(
        self, y: dict[Any, Any], target: Any, classes: list[Any], now: Any
    ) -> tuple[float, float]:
        """A point's cost, and by how much it fails, as CVXPY computes them."""
        for name, choice in self.choice.items():
            choice.value = np.eye(choice.size)[self.features[name].categories.index(y[name])]
        for name, delta in self.delta.items():
            leaf = delta.variables()[0]
            leaf.value = np.ones(leaf.shape)
            leaf.value = leaf.value * (float(y[name]) - float(self.x[name])) / float(delta.value)
        for switch in self.switches:
            switch.variables()[0].value = np.ones(1)
        about = {v.id for switch in self.switches for v in switch.variables()}
        conditions = [c for c in self.conditions if about.isdisjoint(v.id for v in c.variables())]
        worst = max((_failure(c) for c in conditions), default=0.0)
        pieces = self.pieces(target, classes, now)
        return float(self.cost.value), max(worst, min(max(map(_failure, p)) for p in pieces))


def _failure(condition: Any) -> float:
    """By how much a condition is violated, relative to the size of its sides."""
    size = max(float(np.max(np.abs(side.value), initial=1.0)) for side in condition.args)
    return float(np.max(condition.violation(), initial=0.0)) / size
