"""The matrix: families of models × kinds of columns × costs × constraints × targets × dtypes.

A `Cell` is one combination with a seed, and `Question` what is asked of it: data, a fitted model,
features, cost, constraints, a target and a few rows. `cells` chooses cells in which each value of
each factor meets each value of each other one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations, product
from typing import Any
from zlib import crc32

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn import ensemble, linear_model, tree
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
)

import counterpoint as cp
from counterpoint.lvq import GLVQ, GMLVQ, LGMLVQ

ROWS = 60
"""How many rows a model is fitted on."""
LIMIT = 60.0
"""Seconds after which a row counts as not settled."""
STEPS = {"step 1": 1.0, "step .25": 0.25, "step .1": 0.1, "step .01": 0.01, "step 1/3": 1.0 / 3.0}
LETTERS = ("ash", "birch", "cedar")
CATEGORIES = ("c", "e")
"""Columns of letters; the second one is there where combinations of categories are asked about."""

FACTORS = {
    "family": (
        *("linear", "softmax", "bins", "splines", "quantiles", "naive Bayes"),
        *("GLVQ", "GMLVQ", "LGMLVQ", "QDA", "1-NN"),
        *("tree", "forest", "boosting", "histograms", "XGBoost", "LightGBM"),
    ),
    "kind": ("continuous", *STEPS, "categories", "missing"),
    "cost": ("by MAD", "weights", "squared", "mahalanobis", "percentiles", "pairs"),
    "constraint": (
        *("free", "immutable", "bounds", "monotone", "changes"),
        *("linear relation", "same change", "ellipsoid", "clearance"),
        *("forbidden", "implies", "observed", "several"),
    ),
    "target": ("label", "other label", "margin", "probability", "trade-off", "interval"),
    "dtype": ("float64", "float32", "int64", "mixed"),
    "reach": ("within", "extrapolate"),
}
LINEAR = ("linear", "softmax")
CURVES = ("bins", "splines", "quantiles")
LVQ = ("GLVQ", "GMLVQ", "LGMLVQ", "1-NN")
GAUSSIAN = ("naive Bayes", "QDA")
SHARES = ("tree", "forest")
BOOSTED = ("boosting", "histograms", "XGBoost", "LightGBM")
TREES = (*SHARES, *BOOSTED)
NATIVE = ("tree", "forest", "histograms", "XGBoost", "LightGBM")
"""Families that take missing cells themselves."""
BY_DECISION = ("linear", "softmax", *CURVES, "boosting", "histograms")
"""Families whose scores are those of ``decision_function``."""


def pairs(one: Sequence[str], other: Sequence[str]) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in product(one, other)}


def but(factor: str, *values: str) -> tuple[str, ...]:
    return tuple(value for value in FACTORS[factor] if value not in values)


RELATIONS = ("linear relation", "same change")
COMBINATIONS = ("forbidden", "implies", "observed")

UNASKED = (
    pairs(["int64"], but("kind", "step 1", "categories"))
    | pairs(["float32", "mixed"], ["step .1", "step .01", "step 1/3"])  # rows are invalid
    | pairs(["pairs", "observed"], but("kind", "categories"))
    | pairs(["margin"], but("family", *BY_DECISION))
    | pairs(["interval"], ("softmax", *GAUSSIAN, *LVQ))
    | pairs(["probability", "trade-off"], LVQ)
    | pairs(["percentiles", "pairs"], ["naive Bayes"])  # refused unless its boundary is a line
    | {frozenset(("squared", "linear relation", family)) for family in CURVES}  # or in whole steps
    | {frozenset(("squared", rule, "naive Bayes")) for rule in COMBINATIONS}  # or if none is broken
)
"""What cannot be asked: there is no such column, score, probability or regressor."""
REFUSED = (
    pairs(["clearance"], but("family", *TREES))
    | pairs(["same change"], ("LGMLVQ", *GAUSSIAN))
    | pairs(COMBINATIONS, ("LGMLVQ", "QDA"))
    | pairs(["mahalanobis", "ellipsoid", "trade-off"], TREES)
    | pairs(["mahalanobis", "ellipsoid", "trade-off"], CURVES)
    | pairs(["trade-off"], GAUSSIAN)
    | pairs(["percentiles", "pairs"], ("LGMLVQ", "QDA", "ellipsoid"))
    | {
        *(frozenset(("percentiles", "extrapolate", family)) for family in but("family", *TREES)),
        *(frozenset(("percentiles", "extrapolate", kind)) for kind in RELATIONS),
        *(frozenset(("mahalanobis", rule, "naive Bayes")) for rule in COMBINATIONS),
        *(frozenset((cost, "trade-off")) for cost in ("percentiles", "pairs")),
        *(frozenset((cost, "probability", "softmax")) for cost in ("percentiles", "pairs")),
    }
)
"""What is refused in a sentence."""


@dataclass(frozen=True)
class Cell:
    """One combination of values, in the order of `FACTORS`."""

    seed: int
    family: str
    kind: str
    cost: str
    constraint: str
    target: str
    dtype: str
    reach: str

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(getattr(self, factor) for factor in FACTORS)


BASE = {
    "kind": "continuous",
    "cost": "by MAD",
    "constraint": "free",
    "target": "label",
    "dtype": "float64",
    "reach": "within",
}
"""What a question is where nothing else is said."""


def plain(family: str, value: str) -> Cell | None:
    """The simplest cell of a family with a value; None if it is not asked, or refused."""
    factor = next(factor for factor, values in FACTORS.items() if value in values)
    chosen = {"family": family, **BASE, factor: value}
    if value in ("pairs", "observed"):
        chosen["kind"] = "categories"
    return Cell(0, **chosen) if allowed(chosen.values()) else None


@cache
def rules() -> dict[str, list[frozenset[str]]]:
    """Value → what it may not meet, all of a set at once."""
    out: dict[str, list[frozenset[str]]] = {v: [] for vs in FACTORS.values() for v in vs}
    for rule in UNASKED | REFUSED:
        for value in rule:
            out[value].append(rule - {value})
    return out


def allowed(values: Iterable[str]) -> bool:
    chosen = set(values)
    return all(fits(value, chosen) for value in chosen)


def fits(value: str, others: set[str]) -> bool:
    """Whether a value may meet all of the others."""
    return not any(rest <= others for rest in rules()[value])


@cache
def cells(seed: int) -> tuple[Cell, ...]:
    """Few cells in which each two values that may meet do so; greedy, from a seed.

    And for each family some of them again, with a rule about combinations in the place of what else
    is asked for: two that forbid one, one with each other rule.
    """
    rng = np.random.default_rng(seed)
    factors = FACTORS | {"constraint": but("constraint", *COMBINATIONS)}
    where = {value: factor for factor, values in factors.items() for value in values}
    unmet = {
        pair
        for one, other in combinations(factors.values(), 2)
        for pair in product(one, other)
        if fits(pair[0], {pair[1]})
    }
    order = {value: k for k, value in enumerate(where)}
    out, dead = [], dict.fromkeys(unmet, 0)
    while unmet:
        pair = min(unmet, key=lambda pair: (dead[pair], pair))
        chosen = {where[value]: value for value in pair}
        for factor in rng.permutation([f for f in factors if f not in chosen]).tolist():
            others = set(chosen.values())
            possible = [v for v in factors[factor] if fits(v, others)]
            if not possible:
                break
            new = [
                sum(tuple(sorted((v, w), key=order.get)) in unmet for w in others) for v in possible
            ]
            best = np.flatnonzero(np.array(new) == max(new))
            chosen[factor] = possible[int(rng.choice(best))]
        if len(chosen) == len(factors):
            cell = Cell(seed, *(chosen[factor] for factor in factors))
            unmet -= set(combinations(cell.values, 2))
            out.append(cell)
        else:
            dead[pair] += 1
            if dead[pair] == 20:  # no cell has these two
                unmet.discard(pair)
    plain_cells = tuple(out)
    for family, (rule, count) in product(
        FACTORS["family"], zip(COMBINATIONS, (2, 1, 1), strict=True)
    ):
        again = [replace(cell, constraint=rule) for cell in plain_cells if cell.family == family]
        out += [cell for cell in again if allowed(cell.values)][:count]
    return tuple(out)


# Models


def _linear(rng: np.random.Generator, classes: int) -> Any:
    strength = 10.0 ** rng.uniform(0, 4)
    if classes == 0:
        return linear_model.Ridge(alpha=1e-3)
    return linear_model.LogisticRegression(C=strength, max_iter=5000)


def _curve(step: Callable[[np.random.Generator], Any]) -> Callable[..., Any]:
    return lambda rng, classes: make_pipeline(step(rng), _linear(rng, classes))


def _bins(rng: np.random.Generator) -> Any:
    strategy = str(rng.choice(["uniform", "quantile"]))
    encode = str(rng.choice(["onehot", "onehot-dense"]))
    options = {"quantile_method": "averaged_inverted_cdf"} if strategy == "quantile" else {}
    return KBinsDiscretizer(int(rng.integers(3, 6)), strategy=strategy, encode=encode, **options)


def _splines(rng: np.random.Generator) -> Any:
    return SplineTransformer(
        n_knots=int(rng.integers(3, 6)),
        degree=int(rng.choice([1, 2, 3])),
        extrapolation=str(rng.choice(["constant", "linear"])),
    )


def _tree(rng: np.random.Generator, classes: int) -> Any:
    kind = tree.DecisionTreeClassifier if classes else tree.DecisionTreeRegressor
    return kind(max_depth=int(rng.integers(2, 7)), random_state=0)


def _forest(rng: np.random.Generator, classes: int) -> Any:
    kind = ensemble.RandomForestClassifier if classes else ensemble.RandomForestRegressor
    depth = [None, 3][int(rng.integers(2))]
    return kind(int(rng.integers(4, 11)), max_depth=depth, random_state=0)


def _boosting(rng: np.random.Generator, classes: int) -> Any:
    kind = ensemble.GradientBoostingClassifier if classes else ensemble.GradientBoostingRegressor
    return kind(n_estimators=6, max_depth=int(rng.integers(1, 4)), learning_rate=0.5)


def _histograms(rng: np.random.Generator, classes: int) -> Any:
    kind = (
        ensemble.HistGradientBoostingClassifier
        if classes
        else ensemble.HistGradientBoostingRegressor
    )
    return kind(max_iter=5, max_leaf_nodes=6, min_samples_leaf=4, learning_rate=0.5)


def _xgboost(rng: np.random.Generator, classes: int) -> Any:
    kind = xgboost.XGBClassifier if classes else xgboost.XGBRegressor
    return kind(n_estimators=6, max_depth=int(rng.integers(1, 4)), learning_rate=0.5, n_jobs=1)


def _lightgbm(rng: np.random.Generator, classes: int) -> Any:
    kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
    return kind(
        n_estimators=6,
        num_leaves=int(rng.integers(3, 8)),
        min_child_samples=4,
        learning_rate=0.5,
        n_jobs=1,
        verbose=-1,
    )


FAMILIES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "linear": _linear,
    "softmax": _linear,
    "bins": _curve(_bins),
    "splines": _curve(_splines),
    "quantiles": _curve(
        lambda rng: QuantileTransformer(
            n_quantiles=int(rng.integers(4, 20)),
            output_distribution="uniform",
        )
    ),
    "naive Bayes": lambda rng, classes: GaussianNB(),
    "GLVQ": lambda rng, classes: GLVQ(int(rng.integers(1, 3)), random_state=0, max_iter=30),
    "GMLVQ": lambda rng, classes: GMLVQ(int(rng.integers(1, 3)), random_state=0, max_iter=30),
    "LGMLVQ": lambda rng, classes: LGMLVQ(int(rng.integers(1, 3)), random_state=0, max_iter=30),
    "QDA": lambda rng, classes: QuadraticDiscriminantAnalysis(reg_param=0.1),
    "1-NN": lambda rng, classes: KNeighborsClassifier(1),
    "tree": _tree,
    "forest": _forest,
    "boosting": _boosting,
    "histograms": _histograms,
    "XGBoost": _xgboost,
    "LightGBM": _lightgbm,
}
SCALED = (*LINEAR, *LVQ, *GAUSSIAN)


# Questions


class Question:
    """What is asked of a cell; everything is drawn from the words of the cell and its seed."""

    def __init__(self, cell: Cell, count: int = 6) -> None:
        self.cell, self.count = cell, count
        self.rng = np.random.default_rng(crc32(repr((cell.seed, cell.values)).encode()))
        self.step = STEPS.get(cell.kind)
        self.X = self._data()
        self.names = list(self.X.columns)
        self.categories = [name for name in CATEGORIES if name in self.names]
        self.numbers = [name for name in self.names if name not in CATEGORIES]
        self.classes = self._classes()
        self.model = self._fitted()
        self.features = self._features()
        self.cost = self._cost()
        self.target = self._target()
        self.rows = self._rows()
        self.constraints = self._constraints()

    @cached_property
    def explainer(self) -> cp.Explainer:
        return cp.Explainer(
            self.model,
            data=self.X,
            features=self.features or None,
            cost=self.cost,
            constraints=self.constraints,
            extrapolate=self.cell.reach == "extrapolate",
        )

    def explained(self, explainer: cp.Explainer, some: slice = slice(None)) -> cp.Counterfactuals:
        return explainer.explain(self.rows.iloc[some], self.target, time_limit=LIMIT)

    def step_of(self, name: str) -> float:
        return self.step or 1.0

    # Data

    def _data(self) -> pd.DataFrame:
        rng, cell = self.rng, self.cell
        if self.step is not None:
            k = rng.integers(0, 10, size=(ROWS, 2)) + rng.integers(-12, 12)
            values = k / 3.0 if cell.kind == "step 1/3" else np.round(k * self.step, 10)
        elif cell.kind == "categories" and cell.dtype != "float64":
            values = rng.integers(-4, 6, size=(ROWS, 2)).astype(float)
        else:
            values = rng.normal(size=(ROWS, 2)) * rng.choice([0.1, 1.0, 30.0], size=2)
        types = {
            "float64": ("float64", "float64"),
            "float32": ("float32", "float32"),
            "int64": ("int64", "int64"),
            "mixed": ("int64" if cell.kind == "step 1" else "float32", "float64"),
        }[cell.dtype]
        if cell.family == "1-NN":  # the first of equal points would decide
            values = rng.permutation(np.unique(values, axis=0))
        n = len(values)
        X = pd.DataFrame({"a": values[:, 0].astype(types[0]), "b": values[:, 1].astype(types[1])})
        if cell.kind == "missing":
            X.loc[rng.random(n) < 0.2, "a"] = np.nan
        if cell.kind == "categories":
            X["c"] = rng.choice(LETTERS, size=n)
            if cell.constraint == "observed":
                X["e"] = rng.choice(LETTERS, size=n)
        elif rng.random() < 0.3:
            X["d"] = rng.normal(size=n).astype("float32" if cell.dtype == "float32" else float)
        return X

    def _classes(self) -> int:
        if self.cell.target == "interval":
            return 0
        additive = self.cell.cost == "squared" and self.cell.family in CURVES
        if (
            self.cell.family == "linear"
            or additive
            or (self.cell.family == "naive Bayes" and self.cell.constraint in COMBINATIONS)
            or (self.cell.target == "probability" and self.cell.family not in LINEAR + SHARES)
        ):
            return 2
        return 3 if self.cell.family == "softmax" else int(self.rng.integers(2, 4))

    def _labels(self) -> np.ndarray:
        values = self.X[self.numbers].astype(float)
        z = ((values - values.mean()) / values.std()).fillna(0.0).to_numpy()
        score = z[:, 0] + 0.7 * np.sin(2.0 * z[:, 1]) + 0.3 * self.rng.normal(size=len(self.X))
        if "c" in self.X:
            score = score + 0.8 * self.X["c"].map({"ash": -1, "birch": 0, "cedar": 1}).to_numpy()
        if not self.classes:
            return score
        ends = np.quantile(score, np.arange(1, self.classes) / self.classes)
        return np.searchsorted(ends, score)

    def _fitted(self) -> Any:
        cell, rng = self.cell, self.rng
        model = FAMILIES[cell.family](rng, self.classes)
        steps: list[Any] = []
        if cell.kind == "missing" and cell.family not in NATIVE:
            steps.append(SimpleImputer(strategy="median"))
        if cell.family in SCALED or (cell.family in TREES and rng.random() < 0.3):
            steps.append(StandardScaler())
        if cell.family in CURVES:
            steps.append(model.steps[0][1])
            model = model.steps[-1][1]
            if cell.family == "bins" and self.is_plain and rng.random() < 0.3:
                steps[-1].set_params(encode="onehot-dense")
                model = BernoulliNB(binarize=None)
        numbers = make_pipeline(*steps) if steps else "passthrough"
        if self.categories:
            encoder = OneHotEncoder(sparse_output=False)
            before = make_column_transformer((encoder, self.categories), (numbers, self.numbers))
            return make_pipeline(before, model).fit(self.X, self._labels())
        return make_pipeline(*steps, model).fit(self.X, self._labels())

    @property
    def is_plain(self) -> bool:
        """Whether it asks for a label or a probability, and no score."""
        return self.cell.target in ("label", "other label", "probability")

    def _features(self) -> list[cp.Integer]:
        if self.step is None:
            return []
        return [cp.Integer(name, step=self.step) for name in ("a", "b")]

    # What is asked

    def _cost(self) -> cp.Cost | None:
        rng, cost = self.rng, self.cell.cost
        width = len(self.names)
        spread = self.X[self.numbers].astype(float).std()
        weights = {name: float(rng.uniform(0.3, 3.0) / spread[name]) for name in self.numbers}
        if cost == "by MAD":
            return None
        if cost == "squared":
            return cp.SquaredEuclidean({name: w * w for name, w in weights.items()})
        if cost == "mahalanobis":
            root = rng.normal(size=(width, width)) / np.sqrt(width)
            matrix = root @ root.T + 0.1 * np.eye(width)
            scale = np.array([weights.get(name, 1.0) for name in self.names])
            matrix = matrix * np.outer(scale, scale)
            for k in range(len(self.numbers), width):
                matrix[k, np.arange(width) != k] = matrix[np.arange(width) != k, k] = 0.0
            return cp.Mahalanobis(matrix)
        if cost == "percentiles":
            return cp.PercentileShift(cp.percentile_ranks(self.X[self.names]))
        if cost == "pairs":
            moves = {pair: float(rng.uniform(0.2, 2)) for pair in product(LETTERS, LETTERS)}
            moves = {pair: weight for pair, weight in moves.items() if pair[0] != pair[1]}
            return cp.Manhattan(weights | dict.fromkeys(self.categories, moves))
        return cp.Manhattan(weights)

    def _target(self) -> cp.Target:
        rng, kind = self.rng, self.cell.target
        if kind == "other label":
            return cp.OtherLabel()
        if kind == "interval":
            predicted = self.model.predict(self.X)
            low, high = np.quantile(predicted, [0.6, 0.8], method="nearest").tolist()
            return cp.Interval(low, high) if rng.random() < 0.5 else cp.Interval(low)
        label = int(rng.integers(self.classes))
        if kind == "probability":
            given = self.model.predict_proba(self.X)[:, label]
            value = float(np.clip(np.quantile(given, 0.8, method="nearest"), 0.05, 0.95))
            return cp.Probability(label, value)
        if kind == "trade-off":
            return cp.Tradeoff(label, float(10.0 ** rng.uniform(-1, 1)))
        if kind == "margin":
            scores = np.abs(self.model.decision_function(self.X))
            return cp.Label(label, float(np.quantile(scores, 0.3)))
        return cp.Label(label)

    def _rows(self) -> pd.DataFrame:
        """A few rows that do not have the target, as far as there are such; one lies outside."""
        rng, satisfied = self.rng, self.meets(self.X, self.X)
        order = np.argsort(satisfied + rng.random(len(satisfied)) * 0.5)[: self.count]
        rows = self.X.iloc[order].copy()
        ends = self.X["b"].max(), (self.X["b"].max() - self.X["b"].min())
        far = 2.0 * self.step_of("b") if self.is_lattice("b") else 0.2 * ends[1]
        moved = rows["b"].to_numpy().copy()
        moved[-1] = ends[0] + far
        rows["b"] = moved.astype(self.X["b"].dtype)
        return rows.reset_index(drop=True)

    def is_lattice(self, name: str) -> bool:
        """Whether it changes in whole steps: by its dtype, as described, or as its floats are."""
        column = self.X[name].dropna()
        if column.dtype.kind in "iu" or (self.step is not None and name in ("a", "b")):
            return True
        return bool(column.dtype.kind == "f" and (column % 1 == 0).all() and column.nunique() > 2)

    def _constraints(self) -> list[cp.Constraint]:  # noqa: C901, PLR0911 (one case each)
        rng, kind, X = self.rng, self.cell.constraint, self.X
        low, mid, high = np.nanquantile(X["a"], [0.1, 0.5, 0.8], method="nearest").tolist()
        spread = float(high - low)
        bounds = [
            cp.Bounds("a", low=low, high=high),
            cp.Bounds("a", fall=spread / 2, rise=spread / 4),
            cp.Bounds("a", high=mid, fall=spread),
        ][int(rng.integers(3))]
        direction = str(rng.choice(["increasing", "decreasing"]))
        if kind == "immutable":
            return [cp.Immutable(str(rng.choice(self.names)))]
        if kind == "bounds":
            return [bounds]
        if kind == "monotone":
            return [cp.Monotone("b", direction)]
        if kind == "changes":
            return [cp.MaxChanges(1)]
        if kind == "linear relation":
            weights = {"a": 1.0, "b": float(rng.choice([-1.0, 0.5, 2.0]))}
            total = (X[["a", "b"]].astype(float) * weights).sum(axis=1, skipna=False)
            high = float(np.nanquantile(total, 0.6, method="nearest"))
            # A sum of rounded numbers is not on a bound or beside it by rounding.
            return [cp.Linear(weights, high=high + 0.1 * self.step_of("a"))]
        if kind == "same change":
            return [cp.SameChange("a", "b")]
        if kind == "ellipsoid":
            values = X[["a", "b"]].dropna().astype(float)
            center = values.mean().to_dict()
            return [cp.Ellipsoid(center, np.linalg.inv(np.cov(values.T)), 1.5)]
        if kind == "clearance":
            return [cp.Clearance("a", 0.02 * spread)]
        if kind == "forbidden":
            half = float(np.nanquantile(X["b"], 0.5, method="nearest"))
            first = [{"a": (low, high)}, {"a": (mid, None)}, {"a": (None, mid)}][
                int(rng.integers(3))
            ]
            second = {"b": (half, None) if rng.random() < 0.5 else (None, half)}
            return [cp.Forbidden(first, second)]
        if kind == "implies":
            when = (
                {"c": list(rng.choice(LETTERS, 2, replace=False))}
                if "c" in X
                else {"a": (mid, None)}
            )
            half = float(np.nanquantile(X["b"], 0.4, method="nearest"))
            return [cp.Implies(when, {"b": (half, None) if rng.random() < 0.5 else (None, half)})]
        if kind == "observed":
            return [cp.ObservedCombinations("c", "e", min_count=int(rng.integers(5, 8)))]
        if kind == "several":
            return [cp.MaxChanges(2), cp.Monotone("b", direction), bounds]
        return []

    # What the model says

    def meets(self, points: pd.DataFrame, rows: pd.DataFrame, *, short: float = 0.0) -> np.ndarray:
        """(n,): whether the model gives the target at points, each of which a row became.

        A margin may be missed by ``short``, a share of itself, for scores are rounded.
        """
        target, model = self.target, self.model
        if isinstance(target, cp.Tradeoff):
            return np.zeros(len(points), dtype=bool)
        if isinstance(target, cp.Probability):
            return model.predict_proba(points)[:, target.label] >= target.at_least
        predicted = model.predict(points)
        if isinstance(target, cp.Interval):
            return (predicted >= target.low) & (predicted <= target.high)
        if isinstance(target, cp.OtherLabel):
            return predicted != model.predict(rows)
        return (predicted == target.label) & (
            self.safety_margin(points) >= target.margin * (1.0 - short)
        )

    def safety_margin(self, points: pd.DataFrame) -> np.ndarray:
        """(n,) by how much the score of the label exceeds all others."""
        if not self.target.margin:
            return np.zeros(len(points))
        scores = np.asarray(self.model.decision_function(points))
        if scores.ndim == 1:
            return scores if self.target.label == 1 else -scores
        others = np.delete(scores, self.target.label, axis=1)
        return scores[:, self.target.label] - others.max(axis=1)

    def accepts(
        self, points: pd.DataFrame, rows: pd.DataFrame, *, short: float = 1e-9
    ) -> np.ndarray:
        """(n,): whether points count as answers; for a trade-off all do."""
        if isinstance(self.target, cp.Tradeoff):
            return np.ones(len(points), dtype=bool)
        return self.meets(points, rows, short=short)

    def objective(self, points: pd.DataFrame, cost: np.ndarray) -> np.ndarray:
        """(n,) what is minimised."""
        if not isinstance(self.target, cp.Tradeoff) or not len(points):
            return cost
        with np.errstate(divide="ignore"):
            lost = -np.log(self.model.predict_proba(points)[:, self.target.label])
        return 0.5 * self.target.weight * cost + lost

    NATIVE = NATIVE

    def fill(self, name: str) -> float:
        """What a missing cell of a number counts as."""
        return float(np.nanmedian(self.X[name]))

    def is_single(self, name: str) -> bool:
        """Whether a column holds float32."""
        return self.X[name].dtype == np.float32

    @property
    def in_double(self) -> dict[str, Any]:
        """The dtypes of the columns with float64 in the place of float32."""
        return {
            name: np.float64 if self.is_single(name) else dtype
            for name, dtype in self.X.dtypes.items()
        }

    @property
    def is_rough(self) -> bool:
        """Whether the model may compute in float32."""
        return self.cell.family == "XGBoost" or any(map(self.is_single, self.numbers))

    def range_of(self, name: str) -> tuple[float, float]:
        """Between which values the data leave a number; a bound that is stated holds instead."""
        if self.cell.reach == "extrapolate":
            return -np.inf, np.inf
        low, high = float(self.X[name].min()), float(self.X[name].max())
        for one in self.constraints:
            if isinstance(one, cp.Bounds) and one.feature == name:
                low = -np.inf if np.isfinite(one.low) else low
                high = np.inf if np.isfinite(one.high) else high
        return low, high

    def edges(self, name: str) -> np.ndarray:
        """Values of a continuous column that bounds name, and some that occur."""
        ends = [
            value
            for one in self.constraints
            if isinstance(one, cp.Bounds) and one.feature == name
            for value in (one.low, one.high)
            if np.isfinite(value)
        ]
        return np.array([*ends, *self.X[name].dropna().iloc[:5].tolist()])

    def may_be_invalid(self, i: int) -> bool:
        """Whether a row lacks a cell that a constraint needs, or one that is scaled for a tree."""
        of_both = {c: ["a", "b"] for c in ("linear relation", "same change", "ellipsoid")}
        names = of_both | {"clearance": ["a"]}
        needed = names.get(self.cell.constraint, [])
        if self.cell.cost == "percentiles" or len(self.model) > 1:  # what is missing has no rank
            needed = self.numbers
        return self.cell.family in NATIVE and bool(self.rows[needed].iloc[i].isna().any())
