"""Trees, forests and boosted ensembles: what is read is what they predict; answers are the best."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import counterpoint as cp
from counterpoint.families.trees import family, search
from counterpoint.families.trees.form import LeafSums
from counterpoint.families.trees.readers import from_float32
from counterpoint.families.trees.search import search_trees
from counterpoint.models import read

SMALL = {"max_depth": 3, "random_state": 0}
TREE = DecisionTreeClassifier(**SMALL)
CLASSIFIERS = [
    DecisionTreeClassifier(**SMALL),
    RandomForestClassifier(4, **SMALL),
    ExtraTreesClassifier(4, **SMALL),
    GradientBoostingClassifier(n_estimators=4, **SMALL),
]
REGRESSORS = [
    DecisionTreeRegressor(**SMALL),
    RandomForestRegressor(4, **SMALL),
    ExtraTreesRegressor(4, **SMALL),
    GradientBoostingRegressor(n_estimators=4, **SMALL),
]


def rows_of(kind: str, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Numbers, whole numbers, and a category."""
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    if kind != "numbers":
        frame["count"] = rng.integers(0, 6, size=n)
    if kind == "categories":
        frame["kind"] = rng.choice(["red", "green", "blue"], size=n)
    return frame


def labels_of(frame: pd.DataFrame, classes: int, rng: np.random.Generator) -> Any:
    score = frame["a"] - frame["b"] ** 2 + 0.4 * frame.get("count", 0)
    if "kind" in frame:
        score = score + (frame["kind"] == "red")
    score = score + 0.3 * rng.normal(size=len(frame))
    return pd.qcut(score, classes, labels=False).to_numpy()


def fitted(model: Any, kind: str, classes: int, seed: int = 0) -> tuple[Any, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    frame = rows_of(kind, 80, rng)
    target = labels_of(frame, classes, rng)
    if kind == "categories":
        columns = make_column_transformer(
            (OneHotEncoder(), ["kind"]), (StandardScaler(), ["a"]), remainder="passthrough"
        )
        model = make_pipeline(columns, model)
    return model.fit(frame, target), frame


def options(explainer: cp.Explainer, model: Any, frame: pd.DataFrame, x: pd.Series) -> list[Any]:
    """Values of each column on either side of each threshold, among which the best point is."""
    last = model[-1] if hasattr(model, "steps") else model
    parts = [last] if hasattr(last, "tree_") else np.ravel(last.estimators_)
    step = model[0] if hasattr(model, "steps") else None
    cuts: dict[str, set[float]] = {name: set() for name in frame.columns if name != "kind"}
    names = list(frame.columns) if step is None else ["", "", "", "a", "b", "count"]
    for part in parts:
        tree = part.tree_
        inner = tree.children_left >= 0
        for i, t in zip(tree.feature[inner], tree.threshold[inner], strict=True):
            if not names[i]:
                continue
            scale, shift = 1.0, 0.0
            if step is not None and names[i] == "a":
                scaler = step.named_transformers_["standardscaler"]
                scale, shift = scaler.scale_[0], scaler.mean_[0]
            cuts[names[i]].add(float(t * scale + shift))
    out: list[Any] = []
    for name in frame.columns:
        if name == "kind":
            out.append(["red", "green", "blue"])
        elif name == "count":
            ends = [f(t) for t in cuts[name] for f in (np.floor, np.ceil)]
            out.append(sorted({*map(int, ends), int(x[name])}))
        else:
            ends = [t + side * 1e-6 * (1 + abs(t)) for t in cuts[name] for side in (-1, 1)]
            out.append(sorted({*ends, float(x[name])}))
    return out


def cheapest(
    model: Any, frame: pd.DataFrame, x: pd.Series, values: list[Any], good: Any, allowed: Any
) -> float:
    """By brute force, with a cost of 1 for each unit and each category."""
    grid = pd.DataFrame(list(product(*values)), columns=frame.columns)
    grid = grid[np.asarray(good(model, grid))]
    change = np.zeros((len(grid), len(frame.columns)))
    for j, name in enumerate(frame.columns):
        differs = (grid[name] != x[name]).to_numpy()
        change[:, j] = differs if name == "kind" else np.abs(grid[name] - x[name]).to_numpy()
    change = change[allowed(grid, x)]
    return float(change.sum(axis=1).min(initial=np.inf))


def safety_margins(label: int, model: Any, grid: pd.DataFrame) -> np.ndarray:
    """Whether the shares of a label are above all others by more than rounding."""
    shares = model.predict_proba(grid)
    return shares[:, label] > np.delete(shares, label, axis=1).max(axis=1) + 1e-12


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 9))]
)
@pytest.mark.parametrize("kind", ["numbers", "whole", "categories"])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)
def test_the_cheapest_change_is_that_of_brute_force(model: Any, kind: str, seed: int) -> None:
    plain = model
    for classes in (2, 3):
        model, frame = fitted(clone(plain), kind, classes, seed)
        explainer = cp.Explainer(model, data=frame, cost=cp.Manhattan(dict.fromkeys(frame, 1.0)))
        some = frame.iloc[:4]
        for target in range(classes):
            found = explainer.explain(some, target)
            for i, answer in enumerate(found):
                x = some.iloc[i]
                asked = model, frame, x, options(explainer, model, frame, x)
                anywhere = lambda grid, x: np.ones(len(grid), dtype=bool)  # noqa: E731
                best = cheapest(*asked, lambda m, grid, t=target: m.predict(grid) == t, anywhere)
                if not np.isfinite(best):
                    assert str(answer.status) == "infeasible"
                    assert answer.certificate.claim == "proved"
                    continue
                assert str(answer.status) in ("optimal", "already"), answer
                assert answer.certificate.claim == "proved"
                assert answer.certificate.bound <= best + 2e-5
                if answer.certificate.cost > best + 2e-5:  # a tie is no answer if another leads
                    best = cheapest(*asked, partial(safety_margins, target), anywhere)
                assert answer.certificate.cost == pytest.approx(best, abs=2e-5)
        returned = found.to_frame()[found.found]
        assert (model.predict(returned) == target).all()


@pytest.mark.parametrize(
    ("kind", "classes", "seed"), [("numbers", 4, 19), ("whole", 5, 36), ("categories", 4, 35)]
)
def test_leaves_that_are_tied_are_those_of_the_class_that_comes_first(
    kind: str, classes: int, seed: int
) -> None:
    """The nearest point of a box is such a leaf: the others are looked at too."""
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    model, frame = fitted(tree, kind, classes, seed)
    cost, observed = cp.Manhattan(dict.fromkeys(frame, 1.0)), cp.WithinObserved()
    explainer = cp.Explainer(model, data=frame, cost=cost, constraints=observed)

    def inside(grid: pd.DataFrame, x: pd.Series) -> np.ndarray:
        numbers = [name for name in frame if name != "kind"]
        low, high = frame[numbers].min(), frame[numbers].max()
        return np.asarray(((grid[numbers] >= low) & (grid[numbers] <= high)).all(axis=1))

    some = frame.iloc[:4]
    for target in range(classes):
        for answer, (_, x) in zip(explainer.explain(some, target), some.iterrows(), strict=True):
            values = options(explainer, model, frame, x)
            good = lambda m, grid, t=target: m.predict(grid) == t  # noqa: E731
            best = cheapest(model, frame, x, values, good, inside)
            assert answer.certificate.claim == "proved"
            assert answer.found == np.isfinite(best)
            if answer.found:
                assert answer.certificate.cost == pytest.approx(best, abs=2e-5)


def nearest_in(x: Any, low: Any, high: Any, row: tuple[Any, float], power: int) -> Any:
    """(n,) the least Σ |y − x| ** power between (n, d) ends that meets a row, by bisection."""
    weights, limit = row

    def points(encoded_cost: Any) -> Any:
        pull = encoded_cost[:, None] * weights
        if power == 2:
            return np.clip(x - 0.5 * pull, low, high)
        return np.clip(np.where(np.abs(pull) <= 1.0, x, -1e9 * np.sign(pull)), low, high)

    cheap, dear = np.zeros(len(low)), np.full(len(low), 1e9)
    for _ in range(100):
        middle = 0.5 * (cheap + dear)
        kept = points(middle) @ weights <= limit
        cheap, dear = np.where(kept, cheap, middle), np.where(kept, middle, dear)
    ends = points(cheap), points(dear)
    over, under = (np.maximum(end @ weights - limit, 0.0) for end in ends)
    left = np.maximum(over + (limit - ends[1] @ weights), 1e-12)
    share = np.where(under > 1e-9, np.nan, over / left)
    y = ends[0] + np.clip(share, 0.0, 1.0)[:, None] * (ends[1] - ends[0])
    free = points(np.zeros(len(low)))
    y = np.where((free @ weights <= limit)[:, None], free, y)
    return np.nan_to_num((np.abs(y - x) ** power).sum(axis=1), nan=np.inf)


def with_a_relation(
    model: Any, frame: pd.DataFrame, x: pd.Series, row: tuple[Any, float], power: int
) -> list[float]:
    """(d,) the least cost at which a forest says 1 and row @ y <= limit, if so many may change.

    Cell by cell; a category costs 1 and a whole number is each of its values.
    """
    names = [name for name in frame if name != "kind"]
    forest = model[-1] if hasattr(model, "steps") else model
    inputs = ["", "", "", "a", "b", "count"] if hasattr(model, "steps") else names
    scaler = model[0].named_transformers_["standardscaler"] if hasattr(model, "steps") else None
    cells: list[list[Any]] = []
    for name, end in zip(names, (50.0, 9.0, None), strict=False):
        trees = [one.tree_ for one in forest.estimators_]
        cuts = {t for one in trees for t in one.threshold[one.feature == inputs.index(name)]}
        if scaler is not None and name == "a":
            cuts = {t * scaler.scale_[0] + scaler.mean_[0] for t in cuts}
        ends = [] if end is None else list(pairwise([-end, *sorted(cuts), end]))
        cells.append([(x[name], x[name]), *(ends or [(v, v) for v in range(18)])])
    if "kind" in frame:
        cells.append(["red", "green", "blue"])
    grid, numbers = list(product(*cells)), x[names].to_numpy(float)
    inside = [[v if isinstance(v, str) else 0.5 * sum(v) for v in cell] for cell in grid]
    good = np.flatnonzero(model.predict(pd.DataFrame(inside, columns=frame.columns)) == 1)
    ends = np.array([grid[k][: len(names)] for k in good]).reshape(len(good), len(names), 2)
    low, high = np.moveaxis(ends, 2, 0)
    other = np.array(["kind" in frame and grid[k][-1] != x["kind"] for k in good], dtype=int)
    moved = ((low != numbers) | (high != numbers)).sum(axis=1) + other
    best = np.full(len(x) + 1, np.inf)
    np.minimum.at(best, moved, other + nearest_in(numbers, low, high, row, power))
    return np.minimum.accumulate(best).tolist()


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 40))]
)
@pytest.mark.parametrize("kind", ["numbers", "whole", "categories"])
def test_linear_relations_are_kept(kind: str, seed: int) -> None:
    model, frame = fitted(RandomForestClassifier(3, **SMALL), kind, 2, seed)
    rows = frame[model.predict(frame) == 0].iloc[:2]
    asked = [("a + b <= -0.5", [1.0, 1.0, 0.0], -0.5), ("a + b <= -60", [1.0, 1.0, 0.0], -60.0)]
    if kind != "numbers":
        asked.append(("a - 0.3*count >= 0.2", [-1.0, 0.0, 0.3], -0.2))
    width = len(frame.columns) - (kind == "categories")
    bounds = [cp.Bounds("a", -50, 50), cp.Bounds("b", -9, 9)]
    for (said, weights, limit), cost in product(asked, (cp.Manhattan, cp.SquaredEuclidean)):
        power = 1 if cost is cp.Manhattan else 2
        least = [
            with_a_relation(model, frame, rows.iloc[i], (np.array(weights[:width]), limit), power)
            for i in range(len(rows))
        ]
        for most in (2, len(frame.columns)):
            constraints = [cp.Linear.parse(said), cp.MaxChanges(most), *bounds]
            found = cp.explain(
                model,
                rows,
                1,
                data=frame,
                cost=cost(dict.fromkeys(frame, 1.0)),
                constraints=constraints,
            )
            for i, answer in enumerate(found):
                best, at = least[i][most], answer.certificate
                assert str(answer.status) == ("optimal" if np.isfinite(best) else "infeasible")
                # what rests on whole numbers or on counts may be reported
                alone = most > 2 and kind == "numbers"
                assert at.claim in ("proved", "proved" if alone else "reported")
                if np.isfinite(best):
                    assert at.cost == pytest.approx(best, abs=5e-5, rel=1e-5)
                    y = [answer.row[name] for name in frame if name != "kind"]
                    assert np.dot(weights[:width], y) <= limit + 1e-7


def by_cp_sat(cp_model: Any, model: Any, x: pd.Series) -> float:
    """The least Manhattan cost at which a forest says 1 of 0, 1; the last column is whole."""
    said = cp_model.CpModel()
    trees = [one.tree_ for one in model.estimators_]
    cells, cuts, costs = [], [], []
    for j, value in enumerate(x):
        tested = [tree.threshold[tree.feature == j] for tree in trees]
        cuts.append(np.unique(np.concatenate(tested)))
        low, high = np.array([[-np.inf, *cuts[-1]], [*cuts[-1], np.inf]])
        if j == len(x) - 1:
            low, high = np.floor(low) + 1, np.floor(high)
        own = [said.new_bool_var("") for _ in low]
        said.add(sum(cell for cell, some in zip(own, low <= high, strict=True) if some) == 1)
        said.add_exactly_one(own)
        far = np.maximum(np.maximum(low - value, value - high), 0.0)
        costs += [round(1e6 * d) * cell for d, cell in zip(far, own, strict=True)]
        cells.append(own)
    safety_margin = []
    for tree in trees:
        leaves = []
        paths: list[tuple[int, list[tuple[int, int, bool]]]] = [(0, [])]
        for node, path in paths:  # it grows
            if tree.children_left[node] < 0:
                leaf = said.new_bool_var("")
                for j, k, left in path:
                    said.add(sum(cells[j][: k + 1]) == int(left)).only_enforce_if(leaf)
                shares = tree.value[node, 0] / tree.value[node, 0].sum()
                safety_margin.append(round(1e9 * (shares[1] - shares[0])) * leaf)
                leaves.append(leaf)
                continue
            j = int(tree.feature[node])
            k = int(np.searchsorted(cuts[j], tree.threshold[node]))
            paths.append((tree.children_left[node], [*path, (j, k, True)]))
            paths.append((tree.children_right[node], [*path, (j, k, False)]))
        said.add_exactly_one(leaves)
    said.add(sum(safety_margin) >= 100)
    said.minimize(sum(costs))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(said) == cp_model.OPTIMAL
    return solver.objective_value / 1e6


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_cheapest_change_is_that_of_constraint_programming(seed: int) -> None:
    cp_model = pytest.importorskip("ortools.sat.python.cp_model")
    model, frame = forest(seed)
    rows = frame[model.predict(frame) == 0].iloc[:6]
    cost = cp.Manhattan(dict.fromkeys(frame, 1.0))
    for i, answer in enumerate(cp.explain(model, rows, 1, data=frame, cost=cost)):
        assert answer.certificate.cost == pytest.approx(
            by_cp_sat(cp_model, model, rows.iloc[i]), abs=1e-5
        )


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda m: type(m).__name__)
def test_an_interval_of_a_regressor(model: Any) -> None:
    model, frame = fitted(clone(model), "categories", 10)
    explainer = cp.Explainer(model, data=frame, cost=cp.Manhattan(dict.fromkeys(frame, 1.0)))
    some = frame.iloc[:4]
    found = explainer.explain(some, cp.Interval(5.0, 7.0))
    for i, answer in enumerate(found):
        x = some.iloc[i]
        best = cheapest(
            model,
            frame,
            x,
            options(explainer, model, frame, x),
            lambda m, grid: (m.predict(grid) >= 5.0) & (m.predict(grid) <= 7.0),
            lambda grid, x: np.ones(len(grid), dtype=bool),
        )
        assert answer.certificate.cost == pytest.approx(best, abs=2e-5)
        assert answer.certificate.claim == "proved"


def test_constraints_are_kept() -> None:
    model, frame = fitted(RandomForestClassifier(5, **SMALL), "categories", 2)
    constraints = [
        cp.MaxChanges(1),
        cp.Immutable("a"),
        cp.Monotone("count", "increasing"),
        cp.Bounds("b", high=1.0),
        cp.WithinObserved(),
    ]
    allows = [
        lambda grid, x: sum((grid[n] != x[n]).to_numpy().astype(int) for n in grid) <= 1,
        lambda grid, x: (grid["a"] == x["a"]).to_numpy(),
        lambda grid, x: (grid["count"] >= x["count"]).to_numpy(),
        lambda grid, x: (grid["b"] <= 1.0).to_numpy(),
        lambda grid, x: np.logical_and.reduce(
            [
                ((grid[n] >= frame[n].min()) & (grid[n] <= frame[n].max()))
                for n in ("a", "b", "count")
            ]
        ),
    ]
    some = frame[(model.predict(frame) == 0) & (frame["b"] <= 1.0)].iloc[:5]
    cost = cp.Manhattan(dict.fromkeys(frame, 1.0))
    for k in range(len(constraints)):
        for chosen in ([k], [k, (k + 1) % 5], list(range(5))):
            explainer = cp.Explainer(
                model, data=frame, cost=cost, constraints=[constraints[c] for c in chosen]
            )
            for i, answer in enumerate(explainer.explain(some, 1)):
                x = some.iloc[i]
                best = cheapest(
                    model,
                    frame,
                    x,
                    options(explainer, model, frame, x),
                    lambda m, grid: m.predict(grid) == 1,
                    lambda grid, x, chosen=chosen: np.logical_and.reduce(
                        [allows[c](grid, x) for c in chosen]
                    ),
                )
                if np.isfinite(best):
                    assert answer.certificate.cost == pytest.approx(best, abs=2e-5)
                    assert str(answer.status) == "optimal"
                else:
                    assert str(answer.status) == "infeasible"
                assert answer.certificate.claim == "proved"


def test_thresholds_of_float32_are_the_last_numbers_that_go_left() -> None:
    rng = np.random.default_rng(0)
    thresholds = np.concatenate(
        [rng.normal(size=500), np.float32(rng.normal(size=500)), [0.0, 2.5]]
    )
    for strict in (False, True):
        last = from_float32(thresholds, strict=strict)
        after = np.nextafter(last, np.inf)
        left = np.less if strict else np.less_equal
        assert left(last.astype(np.float32).astype(float), thresholds).all()
        assert not left(after.astype(np.float32).astype(float), thresholds).any()


MORE = [
    HistGradientBoostingClassifier(max_iter=5),
    HistGradientBoostingRegressor(max_iter=5),
    AdaBoostClassifier(TREE, n_estimators=5, random_state=0),
    BaggingClassifier(TREE, 5, max_features=2, random_state=0),
    BaggingClassifier(RandomForestClassifier(3, **SMALL), 3, random_state=0),
    BaggingRegressor(DecisionTreeRegressor(**SMALL), 5, random_state=0),
    VotingClassifier([("a", TREE), ("b", RandomForestClassifier(3, **SMALL))], voting="soft"),
    VotingClassifier(
        [(f"{k}", DecisionTreeClassifier(max_depth=k)) for k in (2, 3, 4)], weights=[2, 1, 1]
    ),
    VotingRegressor([("a", DecisionTreeRegressor(**SMALL)), ("b", REGRESSORS[1])], weights=[1, 3]),
]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", MORE, ids=lambda m: type(m).__name__)
def test_ensembles_get_the_target(model: Any, classes: int) -> None:
    model, frame = fitted(clone(model), "whole", classes)
    rows = frame.iloc[:5]
    target = cp.Interval(0.2, 0.8) if not hasattr(model, "classes_") else cp.Label(classes - 1)
    found = cp.explain(model, rows, target, data=frame)
    assert set(map(str, found.status)) <= {"optimal", "already"}
    assert {answer.certificate.claim for answer in found} == {"proved"}


def test_categories_that_the_model_splits_by_itself() -> None:
    rng = np.random.default_rng(0)
    frame = rows_of("categories", 200, rng)
    frame["kind"] = frame["kind"].astype("category")
    labels = ((frame["a"] > 0) ^ (frame["kind"] == "red")).to_numpy()
    model = HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype")
    model.fit(frame, labels)
    cost = cp.Manhattan({"a": 10.0, "b": 10.0, "count": 10.0, "kind": 1.0})
    found = cp.explain(model, frame[:20], cp.OtherLabel(), data=frame, cost=cost)
    assert {str(status) for status in found.status} == {"optimal"}
    assert any("kind" in answer.changes for answer in found)
    assert (model.predict(found.to_frame()) != model.predict(frame[:20])).all()


MISSING = [
    ("sklearn.ensemble", "HistGradientBoostingClassifier", {"max_iter": 8}),
    ("sklearn.ensemble", "RandomForestClassifier", {"n_estimators": 5, **SMALL}),
    ("sklearn.tree", "DecisionTreeClassifier", SMALL),
    ("xgboost", "XGBClassifier", {"n_estimators": 6, "max_depth": 3}),
    ("lightgbm", "LGBMClassifier", {"n_estimators": 6, "verbose": -1}),
]


@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize(("package", "name", "options"), MISSING)
def test_missing_cells_are_taken_as_the_model_takes_them(
    package: str, name: str, options: dict[str, Any], gaps: float
) -> None:
    kind, rng = getattr(pytest.importorskip(package), name), np.random.default_rng(0)
    frame = rows_of("whole", 200, rng).astype(float)
    labels = labels_of(frame, 2, rng)
    model = kind(**options).fit(frame.mask(rng.random(frame.shape) < gaps), labels)
    trees, some = read(model).trees, frame.mask(rng.random(frame.shape) < 0.3)
    rows = some[(model.predict(some) == 0) & some.notna().any(axis=1)][:8]
    cost = cp.Manhattan(dict.fromkeys(frame, 1.0))
    features = [cp.Continuous(column) for column in frame]
    for constraints in ([], [cp.Bounds("a", -0.5, 0.5)], [cp.WithinObserved()]):
        explainer = cp.Explainer(
            model, data=frame, features=features, cost=cost, constraints=constraints
        )
        assert "stay missing, as the model takes them: 'a', 'b', 'count'" in explainer.summary()
        found = explainer.explain(rows, 1)
        for i, answer in enumerate(found):
            x, values = rows.iloc[i], []
            for j, column in enumerate(frame):
                cuts = np.unique(trees.thresholds[trees.inputs == j])
                near = np.concatenate([cuts + side * 1e-6 * (1 + abs(cuts)) for side in (-1, 1)])
                low, high = -np.inf, np.inf
                if constraints and column == "a" and isinstance(constraints[0], cp.Bounds):
                    low, high = -0.5, 0.5
                elif constraints and not isinstance(constraints[0], cp.Bounds):
                    low, high = frame[column].min(), frame[column].max()
                near = np.clip(np.append(near, x[column]), low, high)
                values.append([np.nan] if np.isnan(x[column]) else np.unique(near))
            grid = pd.DataFrame(list(product(*values)), columns=frame.columns)
            grid = grid[model.predict(grid) == 1]
            best = np.abs(grid - x).fillna(0.0).sum(axis=1).min() if len(grid) else np.inf
            assert answer.certificate.claim == "proved"
            assert str(answer.status) == ("optimal" if np.isfinite(best) else "infeasible")
            if np.isfinite(best):
                assert answer.certificate.cost == pytest.approx(best, abs=5e-5)
        returned = found.to_frame()[found.found]
        assert (model.predict(returned) == 1).all()
        assert (returned.isna() == rows[found.found].isna()).all(axis=None)


def test_no_number_is_on_the_side_of_what_is_missing() -> None:
    data = pd.DataFrame({"a": [1.0, 2.0, 3.0, np.nan, np.nan, np.nan]})
    model = DecisionTreeClassifier(max_depth=1).fit(data[["a"]], data["a"].isna())
    assert np.isinf(model.tree_.threshold[0])
    explainer = cp.Explainer(model, data=data[["a"]], extrapolate=True)
    told, back = explainer.explain(data[["a"]].iloc[[0, 5]], cp.OtherLabel())
    assert {str(told.status), str(back.status)} == {"infeasible"}
    assert told.certificate.claim == "proved"


def test_a_missing_cell_keeps_no_relation() -> None:
    rng = np.random.default_rng(0)
    frame = rows_of("numbers", 100, rng)
    model = HistGradientBoostingClassifier(max_iter=5).fit(frame, labels_of(frame, 2, rng))
    rows = frame[model.predict(frame) == 0].iloc[:3]
    rows.iloc[1, 1] = np.nan
    found = cp.explain(model, rows, 1, data=frame, constraints=cp.Linear.parse("a + b <= 1"))
    assert [str(status) for status in found.status] == ["optimal", "invalid", "optimal"]
    assert "'b' is missing, and a constraint relates it" in found[1].message


BAGGED = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "verbose": -1}
BOOSTED = [
    ("xgboost", "XGBClassifier", {"n_estimators": 10, "max_depth": 3}),
    ("xgboost", "XGBRegressor", {"n_estimators": 10, "max_depth": 3}),
    ("xgboost", "XGBClassifier", {"n_estimators": 10, "booster": "dart", "rate_drop": 0.5}),
    ("lightgbm", "LGBMClassifier", {"n_estimators": 10, "verbose": -1}),
    ("lightgbm", "LGBMClassifier", {"n_estimators": 10, "verbose": -1, "sigmoid": 2.0}),
    ("lightgbm", "LGBMRegressor", {"n_estimators": 10, "verbose": -1}),
    ("lightgbm", "LGBMClassifier", {**BAGGED, "n_estimators": 10}),
    ("lightgbm", "LGBMRegressor", {**BAGGED, "n_estimators": 10}),
]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("package", "name", "options"), BOOSTED)
def test_models_of_other_packages(
    package: str, name: str, options: dict[str, Any], classes: int
) -> None:
    kind = getattr(pytest.importorskip(package), name)
    rng = np.random.default_rng(0)
    frame = rows_of("whole", 200, rng)
    model = kind(**options).fit(frame, labels_of(frame, classes, rng))
    form, points = read(model), rows_of("whole", 300, rng)
    if name.endswith("Regressor"):
        said, target = form.predict(points.to_numpy(float)), cp.Interval(0.2, 0.6)
        np.testing.assert_allclose(said, model.predict(points), atol=1e-5)
    else:
        target = cp.Label(classes - 1)
        assert (form.predict(points.to_numpy(float)) == model.predict(points)).all()
    found = cp.explain(model, frame[:8], target, data=frame)
    assert {str(status) for status in found.status} <= {"optimal", "already"}
    assert {answer.certificate.claim for answer in found} == {"proved"}


def test_what_lightgbm_takes_for_zero() -> None:
    kind, rng = pytest.importorskip("lightgbm").LGBMClassifier, np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=100)})
    model = kind(n_estimators=5, verbose=-1).fit(X, X["a"] > 0.0)
    small = np.array([1e-36, 1e-35, np.float32(1e-35), 2e-35])
    points = np.concatenate([-small, [0.0], small])
    for step in (np.inf, 0.0, -np.inf):
        near = pd.DataFrame({"a": np.nextafter(points, step)})
        assert (read(model).predict(near.to_numpy()) == model.predict(near)).all()
    found = cp.explain(model, X[:8], cp.OtherLabel(), data=X)
    assert {str(status) for status in found.status} == {"optimal"}


OWN = [
    ("sklearn.ensemble", "HistGradientBoostingClassifier", {"categorical_features": "from_dtype"}),
    ("xgboost", "XGBClassifier", {"enable_categorical": True, "max_cat_to_onehot": 1}),
    ("xgboost", "XGBClassifier", {"enable_categorical": True, "max_cat_to_onehot": 9}),
    ("xgboost", "XGBRegressor", {"enable_categorical": True}),
    ("lightgbm", "LGBMClassifier", {"min_data_per_group": 5, "cat_smooth": 1, "verbose": -1}),
    ("lightgbm", "LGBMRegressor", {"min_data_per_group": 5, "max_cat_to_onehot": 1, "verbose": -1}),
]


@pytest.mark.parametrize("values", [["red", "green", "blue", "grey", "pink"], [9, 3, 7, 5, 4]])
@pytest.mark.parametrize(("package", "name", "options"), OWN)
def test_categories_of_the_model_are_those_of_brute_force(
    package: str, name: str, options: dict[str, Any], values: list[Any]
) -> None:
    kind, rng = getattr(pytest.importorskip(package), name), np.random.default_rng(0)
    frame = rows_of("numbers", 300, rng)[["b", "a"]]
    frame.insert(1, "kind", pd.Categorical(rng.choice(values, 300), categories=values))
    score = frame["a"] - 0.5 * frame["b"] + 2.0 * frame["kind"].isin(values[1:3])
    count = {"max_iter" if package == "sklearn.ensemble" else "n_estimators": 6}
    model = kind(**options, **count, max_depth=3).fit(frame, (score > 0.8).astype(int))
    target = cp.Label(1) if hasattr(model, "classes_") else cp.Interval(0.6, 1.2)

    def good(grid: pd.DataFrame) -> Any:
        said = model.predict(grid)
        return said == 1 if hasattr(model, "classes_") else (said >= 0.6) & (said <= 1.2)

    explainer = cp.Explainer(model, data=frame, cost=cp.Manhattan(dict.fromkeys(frame, 1.0)))
    rows = frame[~good(frame)].iloc[:3]
    found = explainer.explain(rows, target)
    step = 0.05
    for i, answer in enumerate(found):
        x, moves = rows.iloc[i], step * np.arange(-50, 51)
        grid = pd.DataFrame(
            list(product(x["b"] + moves, values, x["a"] + moves)), columns=list(frame)
        )
        grid["kind"] = pd.Categorical(grid["kind"], categories=values)
        grid = grid[good(grid)]
        cost = abs(grid["b"] - x["b"]) + abs(grid["a"] - x["a"]) + (grid["kind"] != x["kind"])
        assert str(answer.status) == "optimal"
        assert answer.certificate.claim == "proved"
        least = cost.min() - answer.certificate.cost
        assert -1e-6 <= least <= 2.0 * step + 1e-6
    assert good(found.to_frame()).all()


@pytest.mark.parametrize("model", [*CLASSIFIERS, *REGRESSORS], ids=lambda m: type(m).__name__)
def test_sums_are_those_of_the_model(model: Any) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100, 3)).astype(np.float32).astype(float)
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int) + (X[:, 2] > 0.5)
    form = read(model.fit(X, y))
    at = np.unique(form.trees.thresholds[form.trees.inputs >= 0])
    edges = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)])
    points = np.vstack([X, rng.choice(edges, size=(500, 3))])
    said = model.predict(points)
    if hasattr(model, "classes_"):
        best = np.sort(form.scores(points), axis=1)
        clear = best[:, -1] - best[:, -2] > 1e-9
        assert (form.predict(points) == said)[clear].all()
    else:
        np.testing.assert_allclose(form.predict(points), said, atol=1e-12)
    if hasattr(model, "predict_proba"):
        scores, shares = form.scores(points), model.predict_proba(points)
        if isinstance(model, GradientBoostingClassifier):
            scores = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(scores, shares, atol=1e-12)


def forest(seed: int, trees: int = 30) -> tuple[Any, pd.DataFrame]:
    model, frame = fitted(RandomForestClassifier(trees, max_depth=4, random_state=seed), "whole", 2)
    return model, frame


def evidence_of(model: Any, frame: pd.DataFrame, **options: Any) -> Any:
    """What a search leaves behind of one row that is not easy."""
    kept = []

    def keep(found: Any, pieces: Any, safety_margins: Any) -> Any:
        kept.append((found, search_trees(found, pieces, safety_margins)))
        return kept[-1][1]

    cost = cp.Manhattan(dict.fromkeys(frame, 1.0))
    explainer = cp.Explainer(model, data=frame, cost=cost, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(family.SEARCHES, LeafSums, keep)
        explainer.explain(frame[model.predict(frame) == 0].iloc[:8], 1)
    return kept


@pytest.mark.parametrize("times", [5, pytest.param(125, marks=pytest.mark.slow)])
@pytest.mark.parametrize("related", [False, True])
@pytest.mark.parametrize("easy", [0, search.WITNESSES_AFTER])
def test_a_proof_that_was_tampered_with_is_refused_or_still_true(
    monkeypatch: pytest.MonkeyPatch, times: int, easy: int, related: bool
) -> None:
    monkeypatch.setattr(search, "WITNESSES_AFTER", easy)
    model, frame = forest(0)
    rng = np.random.default_rng(0)
    refused = 0
    constraints = [cp.Linear.parse("a + b <= -0.5")] if related else []
    for found, (evidence,) in evidence_of(model, frame, constraints=constraints):
        optimum = found.objective
        before = evidence.bounds(optimum)[0]
        assert (before <= optimum).all()
        assert (before >= optimum * (1.0 - 1e-6)).all()
        for k, proof in enumerate(evidence.trees):
            (i,), leaf = proof.row, proof.kind == 0
            for _ in range(times):
                name = str(rng.choice(["kind", "column", "value", "multipliers", "bound"]))
                values = np.array(getattr(proof, name))
                if name == "bound":
                    values *= 1.0 + rng.random()
                elif name == "multipliers":
                    values *= rng.exponential(size=values.shape)
                else:
                    node = rng.choice(
                        np.flatnonzero(leaf if name == "kind" or leaf.all() else ~leaf)
                    )
                    values[node] = (
                        int(rng.integers(-2, 200))
                        if name == "column"
                        else rng.choice(
                            [np.nan, np.inf, -1.5, 0.5, rng.integers(-2, 200)]
                            if name == "value"
                            else 3
                        )
                    )
                trees = [
                    *evidence.trees[:k],
                    proof._replace(**{name: values}),
                    *evidence.trees[k + 1 :],
                ]
                try:
                    bound = replace(evidence, trees=trees).bounds(optimum)[0][i]
                except ValueError:
                    bound = 0.0
                assert bound <= optimum[i]
                refused += bound == 0.0
    assert refused > 0.8 * times


NARROW = [
    RandomForestClassifier(5, **SMALL),
    HistGradientBoostingClassifier(max_iter=5),
    make_pipeline(StandardScaler(), RandomForestClassifier(5, **SMALL)),
    make_pipeline(MinMaxScaler(), HistGradientBoostingClassifier(max_iter=5)),
    make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=5)),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", NARROW, ids=lambda m: type(m[-1] if hasattr(m, "steps") else m))
def test_numbers_of_either_precision_are_found_at_once(
    monkeypatch: pytest.MonkeyPatch, model: Any, dtype: type
) -> None:
    frame, labels = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = frame.iloc[:, [0, 1, 4, 5]].astype(dtype)
    rows, searches = frame[:15], []
    model = clone(model).fit(frame, labels)

    def counted(*args: Any) -> Any:
        searches.append(args)
        return search_trees(*args)

    monkeypatch.setitem(family.SEARCHES, LeafSums, counted)
    # beyond a threshold lies the next number of the column, which is farther in single precision
    gap = 1e-6 if dtype is np.float64 else 2e-3
    found = cp.explain(model, rows, cp.OtherLabel(), data=frame)
    assert found.found.all()
    assert (found.certificates.gap <= gap).all()
    assert len(searches) <= 2  # one for each class
    assert not found.certificates.on_edge.any()
    returned, said = found.to_frame(), model.predict(rows)
    assert (returned.dtypes == dtype).all()
    assert (model.predict(returned) != said).all()
    for i in range(len(rows)):
        assert model.predict(returned.iloc[[i]])[0] != said[i]


def test_a_row_without_an_answer_is_told_why() -> None:
    model, frame = forest(1)
    rows = frame[model.predict(frame) == 0].iloc[:3]
    found = cp.explain(
        model, rows, 1, data=frame, constraints=[cp.Immutable("a", "b"), cp.Bounds("count", high=0)]
    )
    for answer in found:
        if str(answer.status) == "infeasible":
            assert answer.certificate.claim == "proved"
            assert answer.conflict.constraints


def test_a_lead_and_a_probability_are_kept() -> None:
    model, frame = forest(2)
    rows = frame[model.predict(frame) == 0].iloc[:5]
    found = cp.explain(model, rows, cp.Probability(1, at_least=0.7), data=frame)
    shares = model.predict_proba(found.to_frame())[:, 1]
    assert (shares >= 0.7).all()
    ahead = cp.explain(model, rows, cp.Label(1, margin=0.3), data=frame)
    assert (np.diff(model.predict_proba(ahead.to_frame()))[:, 0] >= 0.3 - 1e-9).all()
    assert (ahead.cost >= cp.explain(model, rows, 1, data=frame).cost - 1e-12).all()


def test_boosted_votes_of_two_classes_have_log_odds() -> None:
    model, frame = fitted(AdaBoostClassifier(TREE, n_estimators=5, random_state=0), "whole", 2)
    likely = np.quantile(model.predict_proba(frame)[:, 1], 0.8)
    found = cp.explain(model, frame.iloc[:8], cp.Probability(1, likely), data=frame)
    returned = model.predict_proba(found.to_frame())[:, 1]
    assert (returned >= likely).all()
    assert found.certificates.probability == pytest.approx(returned, rel=1e-12)
    assert {str(status) for status in found.status} == {"already", "optimal"}


def test_several_answers_differ() -> None:
    model, frame = forest(3)
    rows = frame[model.predict(frame) == 0].iloc[:2]
    explainer = cp.Explainer(model, data=frame)
    for several in explainer.explain(rows, 1, n=3):
        assert len({tuple(one.row.items()) for one in several}) == 3


@pytest.mark.parametrize(
    ("options", "target", "said"),
    [
        ({}, cp.Tradeoff(1, 1.0), "has steps"),
        ({"cost": cp.Mahalanobis(np.eye(3) + 0.1)}, 1, "Mahalanobis"),
        (
            {"constraints": cp.Ellipsoid({"a": 0.0, "b": 0.0}, np.eye(2), 9.0)},
            1,
            "relations that are not linear",
        ),
    ],
)
def test_what_trees_cannot_do_is_said(options: dict[str, Any], target: Any, said: str) -> None:
    model, frame = forest(4, 5)
    rows = frame[model.predict(frame) == 0].iloc[:1]
    with pytest.raises(cp.CounterpointError, match=said):
        cp.explain(model, rows, target, data=frame, **options)


def squared(labels: Any, predicted: Any) -> Any:
    """An objective of one's own."""
    return predicted - labels, np.ones_like(predicted)


SEVERAL = {"multi_strategy": "multi_output_tree", "n_estimators": 3}
REFUSED = [
    ("sklearn.ensemble", "RandomForestClassifier", None, "has not been fitted"),
    ("sklearn.ensemble", "HistGradientBoostingRegressor", {"loss": "poisson"}, "exponential"),
    (
        "sklearn.ensemble",
        "GradientBoostingRegressor",
        {"init": DecisionTreeRegressor(max_depth=1)},
        "no constant",
    ),
    (
        "sklearn.ensemble",
        "AdaBoostClassifier",
        {"estimator": RandomForestClassifier(2)},
        "over decision trees",
    ),
    ("xgboost", "XGBClassifier", {"booster": "gblinear"}, "no trees"),
    ("xgboost", "XGBClassifier", {"n_estimators": 0}, "no trees"),
    ("xgboost", "XGBClassifier", {"missing": -1.0}, "as missing"),
    ("xgboost", "XGBRegressor", {"objective": "count:poisson"}, "is not read"),
    ("lightgbm", "LGBMClassifier", {"linear_tree": True, "verbose": -1}, "not constant"),
    ("lightgbm", "LGBMClassifier", {"zero_as_missing": True, "verbose": -1}, "zeros"),
    ("lightgbm", "LGBMRegressor", {"objective": "poisson", "verbose": -1}, "is not read"),
    (
        "xgboost",
        "XGBRegressor",
        {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9], "n_estimators": 3},
        "several outputs",
    ),
    ("lightgbm", "LGBMClassifier", {"objective": squared, "verbose": -1}, "of your own"),
    ("lightgbm", "LGBMRegressor", {"objective": squared, "verbose": -1}, "of your own"),
]
SEVERAL_OUTPUTS = [
    ("xgboost", "XGBClassifier", {"n_estimators": 3}, 2, "several outputs"),
    ("xgboost", "XGBRegressor", {"n_estimators": 3}, 2, "several outputs"),
    ("xgboost", "XGBRFRegressor", {"n_estimators": 3}, 2, "several outputs"),
    ("xgboost", "XGBClassifier", SEVERAL, 1, "several values in a leaf"),
    ("xgboost", "XGBClassifier", SEVERAL, 2, "several values in a leaf"),
    ("xgboost", "XGBRegressor", SEVERAL, 2, "several values in a leaf"),
    ("sklearn.tree", "DecisionTreeClassifier", {}, 2, "several outputs"),
    ("sklearn.tree", "DecisionTreeRegressor", {}, 2, "several outputs"),
    ("sklearn.ensemble", "RandomForestClassifier", {"n_estimators": 3}, 2, "several outputs"),
    ("sklearn.ensemble", "ExtraTreesRegressor", {"n_estimators": 3}, 2, "several outputs"),
]


@pytest.mark.parametrize(("package", "name", "options", "count", "said"), SEVERAL_OUTPUTS)
def test_several_outputs_are_refused_in_a_sentence(
    package: str, name: str, options: dict[str, Any], count: int, said: str
) -> None:
    """Of vector leaves, which were read as others, infeasible was proved where answers exist."""
    kind, rng = getattr(pytest.importorskip(package), name), np.random.default_rng(0)
    frame = rows_of("whole", 100, rng)
    labels = np.stack([labels_of(frame, 3, rng), labels_of(frame, 3, rng) > 0], axis=1)
    if name.endswith("Classifier") and count > 1:
        labels = labels > 0
    model = kind(**options).fit(frame, labels[:, :count].squeeze())
    with pytest.raises(cp.UnsupportedModel, match=said) as error:
        cp.explain(model, frame[:2], cp.OtherLabel(), data=frame)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("package", "name", "options", "said"), REFUSED)
def test_models_that_are_not_read_are_refused_in_a_sentence(
    package: str, name: str, options: dict[str, Any] | None, said: str
) -> None:
    kind, rng = getattr(pytest.importorskip(package), name), np.random.default_rng(0)
    frame = rows_of("whole", 100, rng)
    model = kind(**(options or {}))
    if options is not None:
        model.fit(frame, labels_of(frame, 2, rng))
    target = 1 if name.endswith("Classifier") else cp.Interval(0.5, 1.0)
    with pytest.raises(cp.CounterpointError, match=said) as error:
        cp.explain(model, frame[:2], target, data=frame)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("options", [{"criterion": "entropy"}, {"monotonic_cst": [1, 0, 0]}])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_forests_however_they_were_fitted(dtype: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    frame = rows_of("whole", 100, rng).astype(dtype)
    model = RandomForestClassifier(4, warm_start=True, **SMALL, **options)
    labels = labels_of(frame.astype(float), 2, rng)
    model.fit(frame, labels, sample_weight=rng.random(100))
    model.set_params(n_estimators=6).fit(frame, labels)
    gap = 1e-5 if dtype == "float32" else 1e-6  # beyond a threshold lies the next number
    found = cp.explain(model, frame[:6], 1, data=frame, gap=gap)
    if dtype != "float16":  # the best point may be none of these numbers
        assert {answer.certificate.claim for answer in found} == {"proved"}
    assert found.found.all()
    assert (model.predict(found.to_frame()) == 1).all()


def test_inputs_that_mix_columns_are_refused() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = make_pipeline(PCA(2), RandomForestClassifier(3)).fit(X, X[:, 0] > 0)
    with pytest.raises(cp.UnsupportedModel, match="mixes several columns"):
        cp.explain(model, X[:2], True, data=X)


@pytest.mark.parametrize("seed", [0, 15, 24, 35])
def test_ties_between_shares_are_no_answers_and_leave_no_doubt(seed: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = (X @ np.array([1.0, -2.0, 0.5, 0.0]) > 0).astype(int) + (X[:, 3] > 0.8)
    model = RandomForestClassifier(5, max_depth=3, random_state=seed).fit(X, y)
    for target in range(3):
        found = cp.explain(model, X[:6], target, data=X)
        assert set(map(str, found.status)) <= {"optimal", "already"}
        assert {answer.certificate.claim for answer in found} == {"proved"}
        assert (model.predict(found.to_frame()) == target).all()


@pytest.mark.parametrize("count", [3, 6, 7])
def test_shares_of_exactly_what_is_asked_are_found_and_bounded(count: int) -> None:
    points = np.array(list(product(range(5), range(5))), dtype=np.float64)
    features = [cp.Integer("x0"), cp.Integer("x1")]
    cost, weights = cp.Manhattan({"x0": 1.0, "x1": 1.3}), np.array([1.0, 1.3])
    for seed in (2, 3, 4):
        rng = np.random.default_rng(seed)
        X, y = rng.integers(0, 5, (40, 2)).astype(float), rng.integers(0, 3, 40)
        options = {"bootstrap": False, "max_features": 1, "random_state": seed}
        model = RandomForestClassifier(count, **options).fit(X, y)
        shares = model.predict_proba(points)
        asked = [(cp.Probability(k, 0.5), shares[:, k] >= 0.5) for k in range(3)]
        asked += [(cp.Label(k), model.predict(points) == k) for k in range(3)]
        for target, satisfied in asked:
            found = cp.explain(model, X[:3], target, data=points, features=features, cost=cost)
            for x, answer in zip(X[:3], found, strict=True):
                best = (np.abs(points[satisfied] - x) @ weights).min(initial=np.inf)
                assert answer.certificate.bound <= best * (1.0 + 1e-9)
                if isinstance(target, cp.Probability):
                    assert str(answer.status) in ("optimal", "already", "infeasible")
                if str(answer.status) == "optimal":
                    assert answer.certificate.cost == pytest.approx(best)


def test_a_whole_number_at_a_threshold_is_in_the_cell_below_it():
    """Beside a relation, too: one that excludes nothing changes no answer."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = X[["alcohol", "malic_acid", "flavanoids", "color_intensity", "proline"]]
    X = X.astype({"proline": int})
    model = HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(X, y)
    rows, rule = X.iloc[72:120:6], cp.Linear.parse("alcohol + flavanoids <= 100")
    free, related = (
        cp.Explainer(model, data=X, constraints=c).explain(rows, 0, time_limit=20)
        for c in ([], [rule])
    )
    assert (related.status == cp.Status.OPTIMAL).all()
    assert related.cost == pytest.approx(free.cost, rel=2e-6)
