"""Columns that bend smoothly: answers are as cheap as any point of a fine grid, and proved."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
)

import counterpoint as cp
from counterpoint.errors import UnsupportedModel
from counterpoint.families.additive.curves import Curve, MergedCurves, sizes_of
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.program import Program
from counterpoint.programs.region import Region
from counterpoint.rows.features import Categorical, Continuous, Features, Integer
from counterpoint.testing import check_reader

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=400), RNG.integers(0, 9, size=400)])
SCORE = (
    np.abs(X[:, 0])
    - 1.0
    + np.sin(2.0 * X[:, 0])
    + 0.1 * (X[:, 1] - 4.0) ** 2
    + 0.2 * RNG.normal(size=400)
)
BINARY = np.where(SCORE > 1.0, "yes", "no")
KINDS = {
    "continuous": (Continuous("x0"), Continuous("x1")),
    "whole": (Continuous("x0"), Integer("x1")),
    "categorical": (Continuous("x0"), Categorical("x1", tuple(range(9)))),
}
STEPS = {
    "splines": SplineTransformer(),
    "lines": SplineTransformer(degree=1, extrapolation="linear"),
    "quantiles": QuantileTransformer(n_quantiles=15),
    "scaled": make_pipeline(StandardScaler(), SplineTransformer(4)),
    "mixed": make_column_transformer((SplineTransformer(), [0]), (StandardScaler(), [1])),
    "powers": make_column_transformer((PolynomialFeatures(3), [0]), (KBinsDiscretizer(4), [1])),
    "squares": make_column_transformer((FunctionTransformer(np.square), [0]), ("passthrough", [1])),
}


def quietly(model, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def grid(whole):
    first = np.linspace(X[:, 0].min(), X[:, 0].max(), 1500)
    second = np.arange(9.0) if whole else np.linspace(0.0, 8.0, 161)
    return np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2)


QUICK = {
    ("splines", "continuous", False),
    ("mixed", "whole", True),
    ("lines", "whole", False),
    ("powers", "whole", True),  # a mixture of options, while the column that bends stands still
}
CASES = [
    pytest.param(step, kind, squared, marks=() if at in QUICK else pytest.mark.slow)
    for at in product(STEPS, ("continuous", "whole"), (False, True))
    for step, kind, squared in [at]
]


@pytest.mark.parametrize(("step", "kind", "squared"), CASES)
def test_no_point_of_a_grid_is_cheaper(step, kind, squared):
    model = quietly(make_pipeline(STEPS[step], LogisticRegression(C=10.0)), BINARY)
    cost = cp.SquaredEuclidean() if squared else cp.Manhattan()
    answers = cp.explain(
        model,
        X[:8],
        cp.OtherLabel(),
        data=X,
        features=Features(KINDS[kind]),
        cost=cost,
        constraints=cp.WithinObserved("x0", "x1"),
    )
    points = grid(kind == "whole")
    said, report = model.predict(points), answers.report()
    found = answers.to_frame()
    for i, row in enumerate(X[:8]):
        if report.cost[i] < 1e-9:  # at the very edge of a bin, where a bound is no longer sharp
            continue
        there = points[said != model.predict(row[None])[0]]
        delta = np.abs(there - row)
        paid = (delta**2 if squared else delta).sum(axis=1).min(initial=np.inf)
        assert report.status[i] == "optimal"
        assert report.claim[i] == "proved"
        assert model.predict(found[[i]]) != model.predict(row[None])
        assert report.bound[i] <= paid * (1.0 + 1e-9)
        assert report.cost[i] <= paid * (1.0 + 1e-6)


@pytest.mark.parametrize("kind", ["continuous", "whole"])
def test_an_interval_of_a_regressor_over_splines(kind):
    model = quietly(make_pipeline(SplineTransformer(), Ridge(alpha=0.1)), SCORE)
    answers = cp.explain(
        model,
        X[:8],
        cp.Interval(1.2, 1.3),
        data=X,
        features=Features(KINDS[kind]),
        cost=cp.Manhattan(),
        constraints=cp.WithinObserved("x0", "x1"),
    )
    report, found, points = answers.report(), answers.to_frame(), grid(kind == "whole")
    said = model.predict(points)
    there = points[(said >= 1.2) & (said <= 1.3)]
    for i, row in enumerate(X[:8]):
        paid = np.abs(there - row).sum(axis=1).min()
        assert report.bound[i] <= paid * (1.0 + 1e-9)
        if report.status[i] == "optimal":
            assert 1.2 <= model.predict(found[[i]])[0] <= 1.3
            assert report.cost[i] <= paid * (1.0 + 1e-6)
    assert (report.status == "optimal").mean() > 0.5


@pytest.mark.parametrize("kind", ["continuous", "whole", "categorical"])
@pytest.mark.parametrize("cost", [cp.Manhattan(), cp.SquaredEuclidean()], ids=repr)
@pytest.mark.parametrize("target", [cp.OtherLabel(), cp.Probability("yes", 0.6)], ids=repr)
def test_naive_bayes_of_two_classes_is_a_sum_of_parabolas(kind, cost, target):
    model = quietly(GaussianNB(), BINARY)
    features = Features(KINDS[kind])
    within = cp.WithinObserved(*("x0", "x1")[: 1 if kind == "categorical" else 2])
    check_reader(model, X, features=features)
    answers = cp.explain(
        model, X[:8], target, data=X, features=features, cost=cost, constraints=within
    )
    points, report, found = grid(kind != "continuous"), answers.report(), answers.to_frame()
    said, probable = model.predict(points), model.predict_proba(points)[:, 1]
    for i, row in enumerate(X[:8]):
        now = model.predict(row[None])[0]
        there = points[said != now if target == cp.OtherLabel() else probable >= 0.6]
        after = features.expand(there)
        before = np.broadcast_to(features.expand(row[None]), after.shape)
        paid = np.asarray(cost.encoded_cost(features)(after, before)).min(initial=np.inf)
        if report.status[i] == "already":
            continue
        assert report.status[i] == "optimal"
        assert report.claim[i] == "proved"
        assert report.bound[i] <= paid * (1.0 + 1e-9)
        assert report.cost[i] <= paid * (1.0 + 1e-6)
        assert model.predict(found[[i]])[0] == "yes" or target == cp.OtherLabel()


def test_naive_bayes_is_a_quadratic_form_where_sums_are_not_searched():
    model, within = quietly(GaussianNB(), BINARY), cp.WithinObserved("x0", "x1")
    options = {"data": X, "features": Features(KINDS["whole"]), "constraints": within}
    explainer = cp.Explainer(model, cost=cp.Mahalanobis([[2.0, 0.1], [0.1, 0.5]]), **options)
    assert set(explainer.explain(X[:4], cp.OtherLabel()).report().valid) == {True}


@pytest.mark.parametrize("constraints", [(), (cp.MaxChanges(1),)], ids=["free", "few changes"])
@pytest.mark.parametrize("kind", ["bayes", "squares"])
def test_columns_that_bend_may_move_without_end(kind, constraints):
    rows = RNG.normal(size=(200, 2)) * np.array([3.0, 1.0])
    nonlinear = rows[:, 0] + 3.0 * rows[:, 1] ** 2 > 2.0
    squares = [(PolynomialFeatures(2, include_bias=False), [j]) for j in range(2)]
    sums = make_pipeline(make_column_transformer(*squares), LogisticRegression())
    model = (GaussianNB() if kind == "bayes" else sums).fit(rows, nonlinear)
    cost = cp.Manhattan({"x0": 1.0, "x1": 2.0})
    asked = {"cost": cost, "constraints": constraints, "extrapolate": True}
    answers = cp.Explainer(model, data=rows, **asked).explain(rows[:10], cp.OtherLabel())
    ends, now = np.linspace(-30.0, 30.0, 3001), model.predict(rows[:10])
    if not constraints:
        plane = np.stack(np.meshgrid(ends, ends, indexing="ij"), axis=-1).reshape(-1, 2)
        said = model.predict(plane)
    for i, row in enumerate(rows[:10]):
        if constraints:
            sides = [np.column_stack([ends, np.full(3001, row[1])])]
            sides += [np.column_stack([np.full(3001, row[0]), ends])]
            there = np.concatenate([side[model.predict(side) != now[i]] for side in sides])
        else:
            there = plane[said != now[i]]
        least = (np.abs(there - row) @ [1.0, 2.0]).min(initial=np.inf)
        assert answers.status[i] == ("infeasible" if np.isinf(least) else "optimal")
        assert np.isinf(least) or least - 0.1 <= answers.cost[i] <= least + 1e-9


def test_sizes_bound_by_how_much_rounding_moves_a_curve():
    """To first order; what is blurred moves with y and with its center."""
    y, center, error = np.array([[10.0], [-3.0], [4.5]]), np.array([[4.0]]), 1e-7
    curve = Curve.polynomial([1.0, -2.0, 0.5, 0.25])
    for blur in (0.0, 1.0):
        size = sizes_of(np.abs(curve.coefficients[0]), y, center, blur)[:, 0]
        for a, b, c in product((-error, error), repeat=3):
            moved = (y * (1.0 + blur * a) - center * (1.0 + blur * b)).ravel()
            change = curve(moved) * (1.0 + c) - curve((y - center).ravel())
            assert (np.abs(change[:, 0]) <= 1.01 * error * size).all()


def test_the_least_of_a_column_is_lowered_by_its_rounding():
    rows, curve = np.array([[0.0, 1.0]]), Curve.polynomial([1.0, 0.3, 0.7, 0.1], 0.3)
    bends = MergedCurves.of(rows, ((0, curve),))
    region = Region((LinearBounds(np.ones((1, 1)), np.zeros(1), np.full(1, np.inf)),))
    program = Program(EncodedCost(np.ones(1), np.zeros(1)), region)
    x = np.linspace(-1.0, 2.0, 7)[:, None]
    cases = program.cases(x).within(x - 2.0, x + 2.0)
    weights, slope = np.ones((7, 1)), np.zeros((7, 1))
    least, where = bends.least(cases, weights, slope, (np.ones(1), np.zeros(1)), np.zeros(1))
    u = [Fraction(y) - Fraction(0.3) for y in where[:, 0].tolist()]
    exact = [sum(Fraction(c) * v**k for k, c in enumerate((1.0, 0.3, 0.7, 0.1))) for v in u]
    values = zip(exact, where[:, 0], x[:, 0], strict=True)
    exact = [e + abs(Fraction(y) - Fraction(z)) for e, y, z in values]
    assert all(Fraction(each) < e for each, e in zip(least[:, 0].tolist(), exact, strict=True))
    assert np.allclose(least[:, 0], [float(e) for e in exact], rtol=1e-12)


def test_rows_alone_and_in_a_batch_have_the_same_answers():
    model = quietly(make_pipeline(SplineTransformer(), LogisticRegression()), BINARY)
    within = cp.WithinObserved("x0", "x1")
    explainer = cp.Explainer(model, data=X, cost=cp.Manhattan(), constraints=within)
    target = cp.OtherLabel()
    batch = explainer.explain(X[:6], target).to_frame()
    alone = np.concatenate([explainer.explain(X[[i]], target).to_frame() for i in range(6)])
    # a hair within the gap may move an answer along a valley, and costs no more
    paid = [np.abs(found - X[:6]).sum(axis=1) for found in (batch, alone)]
    np.testing.assert_allclose(paid[0], paid[1], rtol=1e-6)


@pytest.mark.parametrize("step", [PowerTransformer(), FunctionTransformer(np.arcsinh)], ids=repr)
def test_functions_that_are_no_polynomials_are_refused_when_an_explainer_is_made(step):
    model = quietly(make_pipeline(step, LogisticRegression()), BINARY)
    with pytest.raises(UnsupportedModel, match=r"cannot be read exactly: .* before fitting"):
        cp.Explainer(model, data=X)
