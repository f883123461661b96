"""Ties of trees: what the model always decides the same way is an answer; what rounding does, none.

The oracle asks the model about the nearest point of every product of cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import counterpoint as cp
from counterpoint.families.trees.form import LeafSums, Odds, Order, TreeScores
from counterpoint.families.trees.proofs import refuted
from counterpoint.models import read, see_through
from counterpoint.programs.conditions import BINARY_PLACES

GAP = 1e-6
COST = np.array([1.0, 0.5, 2.0])
SHALLOW = DecisionTreeClassifier(max_depth=2, max_features=1)
ROUND = {"n_estimators": 4, "max_depth": 2, "learning_rate": 1.0}


def packaged(package: str, name: str, **options: Any) -> Any:
    return getattr(pytest.importorskip(package), name)(**options)


MODELS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=3, random_state=0),
    "pure forest": lambda: RandomForestClassifier(4, random_state=0),
    "pure forest in threads": lambda: RandomForestClassifier(4, random_state=0, n_jobs=2),
    "forest": lambda: RandomForestClassifier(4, max_depth=2, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(4, max_depth=2, random_state=0),
    "bag": lambda: BaggingClassifier(SHALLOW, 4, max_features=0.7, random_state=0),
    "votes": lambda: VotingClassifier(
        [(f"{i}", clone(SHALLOW).set_params(random_state=i)) for i in range(4)]
    ),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=3, max_depth=2),
    "XGBoost": lambda: packaged("xgboost", "XGBClassifier", base_score=0.5, **ROUND),
    "LightGBM": lambda: packaged(
        "lightgbm", "LGBMClassifier", min_child_samples=4, verbose=-1, **ROUND
    ),
    "LightGBM forest": lambda: packaged(
        "lightgbm",
        "LGBMClassifier",
        boosting_type="rf",
        bagging_freq=1,
        bagging_fraction=0.6,
        n_estimators=4,
        max_depth=2,
        verbose=-1,
    ),
}


def ties(
    seed: int, classes: int, width: int = 2, *, twice: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers with labels that have little to do with them: many classes are tied.

    Some may be there ``twice``, so that leaves have shares of a third.
    """
    rng = np.random.default_rng(seed)
    X = np.array(list(product(range(7), repeat=width)), dtype=float)
    X = X[rng.choice(len(X), 40, replace=twice)]
    return X, np.append(np.arange(classes), rng.integers(0, classes, 40 - classes))


def points_of(form: TreeScores, x: np.ndarray) -> np.ndarray:
    """The nearest point of each product of cells."""
    trees, columns = form.trees, []
    for j, value in enumerate(x):
        cuts = np.unique(trees.thresholds[trees.inputs == j])
        beside = np.where(value > cuts, cuts, np.nextafter(cuts, np.inf))
        columns.append(np.unique(np.append(beside, value)))
    return np.array(list(product(*columns)))


def check(model: Any, X: np.ndarray, rows: np.ndarray, target: Any, good: Any) -> int:
    """Every row is settled, and as brute force says; how many answers are on a tie."""
    cost = cp.Manhattan(
        {f"x{j}": encoded_cost for j, encoded_cost in enumerate(COST[: X.shape[1]])}
    )
    features = [cp.Continuous(f"x{j}") for j in range(X.shape[1])]
    answers = cp.explain(model, rows, target, data=X, features=features, cost=cost)
    form, tied = read(model), 0
    for x, answer in zip(rows, answers, strict=True):
        points = points_of(form, x)
        points = points[good(points)]
        best = (np.abs(points - x) @ COST[: X.shape[1]]).min(initial=np.inf)
        certificate = answer.certificate
        assert certificate.claim == "proved", answer
        assert certificate.bound <= best * (1.0 + 1e-9)
        if not np.isfinite(best):
            assert str(answer.status) == "infeasible"
            continue
        assert str(answer.status) in ("optimal", "already"), answer
        assert certificate.gap <= GAP
        assert certificate.cost == pytest.approx(best, rel=2.0 * GAP, abs=1e-12)
        assert not certificate.on_edge
        tied += str(answer.status) == "optimal" and certificate.margin == 0.0
    assert cp.recheck([answer.to_record() for answer in answers], model).ok
    return tied


@pytest.mark.parametrize("name", MODELS)
def test_ties_that_the_model_always_decides_are_answers(name: str) -> None:
    tied = 0
    for seed, classes in ((0, 2), (1, 3), (2, 3)):
        X, y = ties(seed, classes)
        model = MODELS[name]().fit(X, y)
        for label in range(classes):
            target = cp.Label(label)
            tied += check(model, X, X[:3], target, lambda p, t=label, m=model: m.predict(p) == t)
    if name in ("pure forest", "pure forest in threads", "votes"):
        assert tied


@pytest.mark.parametrize("name", ["tree", "pure forest", "forest", "extra trees", "bag"])
def test_shares_and_leads_of_exactly_what_is_asked_are_answers(name: str) -> None:
    X, y = ties(4, 3)
    model = MODELS[name]().fit(X, y)
    shares = model.predict_proba(X)
    for at_least in np.unique(shares[:, 1])[1:-1:3]:
        target = cp.Probability(1, float(at_least))
        good = lambda p, b=at_least: model.predict_proba(p)[:, 1] >= b  # noqa: E731
        check(model, X, X[:3], target, good)
    safety_margins = shares[:, 1] - np.delete(shares, 1, axis=1).max(axis=1)
    for margin in np.unique(safety_margins[safety_margins > 1e-9])[::3].tolist():

        def good(points: np.ndarray, least: float = margin) -> np.ndarray:
            shares = model.predict_proba(points)
            return shares[:, 1] - np.delete(shares, 1, axis=1).max(axis=1) >= least - 1e-12

        check(model, X, X[:3], cp.Label(1, margin=margin), good)


REGRESSORS: list[Callable[[], Any]] = [
    lambda: RandomForestRegressor(7, max_depth=3, random_state=0),
    lambda: HistGradientBoostingRegressor(max_iter=7, max_depth=3, min_samples_leaf=3),
    lambda: packaged("xgboost", "XGBRegressor", n_estimators=7, max_depth=3),
    lambda: packaged("lightgbm", "LGBMRegressor", n_estimators=7, min_child_samples=4, verbose=-1),
]


@pytest.mark.parametrize("make", REGRESSORS)
def test_predictions_of_exactly_what_is_asked_are_answers(make: Any) -> None:
    """Only the model's own sums, in its order and precision, say which points have them."""
    for seed in range(3):
        X, _ = ties(seed, 2)
        y = np.random.default_rng(seed).normal(size=len(X))
        model = make().fit(X, y)
        predicted = model.predict(points_of(read(model), X[0])).astype(float)
        for low, high in ((predicted.max(), np.inf), (-np.inf, predicted.min())):

            def good(
                points: np.ndarray, a: float = low, b: float = high, m: Any = model
            ) -> np.ndarray:
                predicted = m.predict(points).astype(float)
                return (predicted >= a) & (predicted <= b)

            check(model, X, X[:3], cp.Interval(low, high), good)


def test_a_default_forest_leaves_no_gap_where_a_tie_decides() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = RandomForestClassifier(30, random_state=0).fit(X, y)
    rows = X[y != 0].iloc[::12]
    answers = cp.explain(model, rows, 0, data=X)
    assert set(map(str, answers.status)) == {"optimal"}
    assert (answers.certificates.gap <= GAP).all()
    assert (answers.certificates.margin == 0.0).any()
    assert (model.predict(answers.to_frame()) == 0).all()


def test_where_rounding_decides_nothing_is_called_optimal_that_a_bound_contradicts() -> None:
    """With threads the order is not known; shares of a third are rounded."""
    unsure = 0
    for seed in range(12):
        X, y = ties(seed, 3, twice=True)
        model = RandomForestClassifier(4, random_state=seed, n_jobs=2).fit(X, y)
        for label in range(3):
            answers = cp.explain(model, X[:4], label, data=X)
            optimal = answers.status == cp.Status.OPTIMAL
            assert (answers.certificates.gap[optimal] <= GAP).all()
            unsure += (answers.status == cp.Status.SUBOPTIMAL).sum()
    assert unsure


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_added_up_as_the_model_does(name: str, classes: int) -> None:
    X, y = ties(0, classes, 3)
    model = MODELS[name]().fit(X, y)
    form = read(model)
    assert form.is_exact
    points = np.random.default_rng(1).uniform(-1.0, 7.0, (400, 3)).astype(np.float32).astype(float)
    scores = form.scores(points)
    values = form.trees.values[form.trees.leaves(points)]
    np.testing.assert_array_equal(form.added(values), scores)
    if name == "LightGBM forest":  # its raw scores are sums, and no means
        shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(shares, model.predict_proba(points), rtol=1e-12)
        return
    options: dict[str, Any] = {}
    if name == "XGBoost":
        options = {"output_margin": True}
    elif name == "LightGBM":
        options = {"raw_score": True}
    if options:
        raw = model.predict(points, **options)
    elif name == "histograms":
        raw = model.decision_function(points)
    elif name == "votes":
        return
    else:
        raw = model.predict_proba(points)
    np.testing.assert_array_equal(scores if raw.ndim == 2 else scores[:, 1], raw)


@pytest.mark.parametrize("order", [Order.LISTED, Order.ANY, Order.OWN])
def test_what_a_model_is_known_to_decide(order: Order) -> None:
    """Of three trees with shares of a tenth, a third and a half."""
    base = read(RandomForestClassifier(3, max_depth=1, random_state=0).fit([[0.0], [1.0]], [0, 1]))
    trees = replace(base.trees, values=np.full_like(base.trees.values, 0.1))
    form = TreeScores(trees, np.zeros(2), base.classes, 1, base.odds, order=order)
    condition = form._conditions(cp.Label(1))[0]
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    for one, other in ((shares, shares), (shares, shares[::-1]), (shares[::-1], shares)):
        values = np.column_stack([other, one])
        ahead = one.cumsum()[-1] - other.cumsum()[-1]
        expected = bool(ahead > 0.0) if order is Order.LISTED else None
        assert condition.meets(values) is expected
    assert condition.meets(np.array([[0.5, 0.75], [0.5, 0.5]])) is True
    assert condition.meets(np.array([[0.75, 0.5], [0.5, 0.5]])) is False
    safety_margins = form._conditions(cp.Label(1, margin=0.2))[0]
    assert 0.3 - 0.1 < 0.2
    assert safety_margins.meets(np.array([[0.1, 0.3]])) is True
    assert safety_margins.meets(np.array([[0.1, 0.2999]])) is False


def shares_of_leaves(values: np.ndarray, order: Order = Order.LISTED) -> TreeScores:
    """(T, 2) shares of the leaves of as many trees, of which each has the same leaf twice."""
    X, T = [[0.0], [1.0]], len(values)
    base = read(RandomForestClassifier(T, max_depth=1, bootstrap=False).fit(X, [0, 1]))
    trees = base.trees
    tree = np.searchsorted(trees.roots, np.arange(len(trees.inputs)), side="right") - 1
    valued = replace(trees, values=np.asarray(values)[tree])
    return TreeScores(valued, np.zeros(2), base.classes, 1, base.odds, order=order)


def test_leaves_refute_a_box_if_nothing_but_their_sum_decides() -> None:
    """Listed, .3 + .2 + .1 is less than .1 + .2 + .3, and the first class gets what is tied."""
    rounded = np.array([[0.1, 0.3], [0.2, 0.2], [0.3, 0.1]])
    tied, behind = np.array([[0.25, 0.75], [0.75, 0.25]]), np.array([[0.75, 0.25], [0.5, 0.5]])
    for values, label, expected in (
        (rounded, 1, {Order.LISTED: True, Order.ALONE: True}),
        (rounded, 0, {}),
        (tied, 0, {}),
        (tied, 1, {Order.LISTED: True, Order.ALONE: True, Order.ANY: True}),
        (behind, 0, {}),
        (behind, 1, {Order.LISTED: True, Order.ALONE: True, Order.ANY: True}),
    ):
        for order in Order:
            form = shares_of_leaves(values, order)
            grid, condition = form.grid((), np.zeros(1)), form._conditions(cp.Label(label))[0]
            every = np.arange(len(grid.tests))
            assert refuted(condition, grid, every) is expected.get(order, False), (values, order)
            assert not refuted(replace(condition, ties_resolved=False), grid, every)


def test_sums_are_exact_of_few_binary_fractions_and_no_others() -> None:
    form = shares_of_leaves(np.full((3, 2), 0.5))
    single = replace(form, eps=float(np.finfo(np.float32).eps))
    assert form.sums_exactly(np.array([[0.5, 0.25]]))
    assert not form.sums_exactly(np.array([[0.5, 0.1]]))
    assert not replace(form, base=np.array([0.0, 0.1])).sums_exactly(np.array([[0.5, 0.25]]))
    for kind, digits in ((form, 53), (single, 24)):
        largest = 2.0 ** (digits - BINARY_PLACES - 2)  # three of them and a base
        assert kind.sums_exactly(np.array([[largest, 0.0]]))
        assert not kind.sums_exactly(np.array([[2.0 * largest, 0.0]]))


def test_leads_as_small_as_rounding_are_decided_by_the_model_and_others_here() -> None:
    form = shares_of_leaves(np.array([[0.1, 0.3], [0.5, 0.5]]))
    assert 0.3 - 0.1 < 0.2
    exactly = cp.Label(1, margin=0.2)
    assert form.margin(np.zeros((1, 1)), exactly)[0] == 0.0
    assert form.margin(np.zeros((1, 1)), cp.Label(1))[0] == pytest.approx(0.2)
    assert form.margin(np.zeros((1, 1)), cp.Label(1, margin=0.1))[0] == pytest.approx(0.1)
    assert form.decides(exactly.requirement)
    assert form.decides(cp.Label(1).requirement)
    for size, ties_resolved in ((0.5, False), (2.0, False), (3.0, True)):
        assert form.decides(cp.Label(1, margin=size * form.lead_error).requirement) is ties_resolved
    probable = cp.Probability(1, 0.6).requirement
    assert form.decides(probable)
    assert not replace(form, odds=Odds.LOGISTIC).decides(probable)


def test_the_order_of_a_sum_is_known_of_one_thread() -> None:
    X, y = ties(0, 2)
    for n_jobs, order in ((None, Order.ALONE), (1, Order.ALONE), (2, Order.ANY), (-1, Order.ANY)):
        for kind in (RandomForestClassifier, ExtraTreesClassifier):
            assert read(kind(2, n_jobs=n_jobs).fit(X, y)).order is order
        assert read(RandomForestRegressor(2, n_jobs=n_jobs).fit(X, y)).order is order
        assert read(BaggingClassifier(SHALLOW, 2, n_jobs=n_jobs).fit(X, y)).order is order
    for name, order in (("gbtree", Order.LISTED), ("dart", Order.OWN)):
        model = packaged("xgboost", "XGBClassifier", booster=name, base_score=0.5, n_estimators=2)
        assert read(model.fit(X, y)).order is order


def test_a_link_hides_what_is_nearly_tied() -> None:
    kind = pytest.importorskip("lightgbm").LGBMClassifier
    X, y = ties(0, 3)
    form = read(kind(n_estimators=2, min_child_samples=4, verbose=-1).fit(X, y))
    first, last = form._conditions(cp.Label(0))[0], form._conditions(cp.Label(2))[0]
    tiny = 0.5 * form.link_error
    assert form.link_error > 0.0
    for gained, for_first, for_last in (
        (0.0, True, False),
        (tiny, None, False),
        (-tiny, True, None),
        (4.0 * tiny, False, False),
        (-4.0 * tiny, True, True),
    ):
        values = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, gained]])
        assert first.meets(values) is for_first
        assert last.meets(-values[:, [0, 1, 2]] - [0.0, 1.0, 0.0]) is for_last


def test_the_best_leaves_refute_a_box_as_the_model_adds_them_up() -> None:
    """No choice of leaves of a box is refuted that meets the demands."""
    rng = np.random.default_rng(0)
    told = 0
    for seed in range(40):
        X, y = ties(seed, 3, twice=True)
        options = {"max_depth": 2} if seed % 2 else {}
        model = RandomForestClassifier(4, random_state=seed, **options).fit(X, y)
        form = read(model)
        grid = form.grid((), X[0])
        for condition in (form._conditions(cp.Label(k))[0] for k in range(3)):
            assert isinstance(condition, LeafSums)
            ends = [*grid.tree_starts[1:], len(grid.tests)]
            some = [
                np.sort(rng.choice(np.arange(a, b), min(2, b - a), replace=False))
                for a, b in zip(grid.tree_starts, ends, strict=True)
            ]
            meets = [condition.meets(grid.undivided[list(each)]) for each in product(*some)]
            if refuted(condition, grid, np.concatenate(some)):
                told += 1
                assert not any(meets)
            alone = [each[:1] for each in some]
            assert refuted(condition, grid, np.concatenate(alone)) == (meets[0] is False)
    assert told


def test_rows_at_a_threshold_behind_a_scaler_are_in_doubt() -> None:
    X, y = ties(0, 2)
    model = make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)).fit(X, y)
    whole = see_through(model, None, fixed=False).form
    assert isinstance(whole, TreeScores)
    form = whole.narrow()  # as if nobody knew how the scaler computes
    columns, cuts, _ = form.thresholds(())
    at, apart = X[:1].copy(), np.array([[1e6, 1e6]])
    at[0, columns[0]] = cuts[0]
    required, eps = cp.Label(1).requirement, float(np.finfo(float).eps)
    assert form.noise(at)[0] == 2.0 * form.sizes.max()
    assert form.margin_error(at, required, eps)[0] == form.sizes.max()
    assert form.noise(apart)[0] < 1e-12
    assert form.margin_error(apart, required, eps)[0] == 0.0
    assert whole.noise(at)[0] < 1e-12
    assert whole.margin_error(at, required, eps)[0] == 0.0
    assert whole.noise(at, 2.0**-23)[0] == 2.0 * whole.sizes.max()


def test_a_row_on_a_threshold_is_cleared_of_it() -> None:
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = DecisionTreeClassifier().fit(X, X[:, 0] > 1.5)
    cost, features = cp.Manhattan({"x0": 1.0}), [cp.Continuous("x0")]
    cut = float(read(model).trees.thresholds[0])  # the last number on the left
    for x, end in ((cut, 2.0), (1.5, 2.0), (1.0, 2.0), (2.0, 1.0), (cut + 1e-7, 1.0)):
        answer = cp.explain(
            model,
            np.array([[x]]),
            cp.OtherLabel(),
            data=X,
            cost=cost,
            features=features,
            constraints=cp.Clearance("x0", 0.5),
        )[0]
        assert str(answer.status) == "optimal"
        assert answer.row["x0"] == pytest.approx(end, abs=1e-6)


def test_a_threshold_of_zero_is_where_lightgbm_has_it() -> None:
    """What it takes for 0 is on the side of 0, whatever the sign of a threshold of 0."""
    lightgbm = pytest.importorskip("lightgbm")
    X = np.arange(-20.0, 20.0)[:, None]
    model = lightgbm.LGBMClassifier(n_estimators=1, verbose=-1, min_child_samples=2)
    model.fit(X, X[:, 0] > 0.0)
    text = model.booster_.model_to_string()
    cut = next(line for line in text.split("\n") if line.startswith("threshold="))
    zero = float(np.float32(1e-35))
    points = np.array([[-1.0], [-2 * zero], [-zero], [0.0], [zero], [2.0 * zero], [1.0]])
    for threshold in ("0", "-0", "1e-40", "-1e-40", "1e-30", "-1e-30"):
        ends = " ".join([threshold] * len(cut.removeprefix("threshold=").split()))
        model._Booster = lightgbm.Booster(model_str=text.replace(cut, f"threshold={ends}"))
        np.testing.assert_array_equal(read(model).predict(points), model.predict(points))
