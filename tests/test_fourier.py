"""Random Fourier features: explanations against grids, the rules recomputed, and simulation."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from oracles import cost_of
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer

import counterpoint as cp
from counterpoint.families.uncertain.form import FourierScores
from counterpoint.families.uncertain.fourier import (
    CosineSums,
    FourierConstraint,
    FourierFeatures,
    FourierMargins,
)
from counterpoint.families.uncertain.fourier_search import RowSearch, parabola
from counterpoint.families.uncertain.target import StartHint
from counterpoint.models import read
from counterpoint.models.reading import see_through
from counterpoint.privacy import PrivateSVC
from counterpoint.privacy.noise import NoiseLaw, ProjectedGamma, ProjectedGaussian, ProjectedLaplace
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.program import Program
from counterpoint.programs.region import Region
from counterpoint.search.query import Query
from counterpoint.solvers import Effort
from counterpoint.testing import check_form, check_reader

NAMES = ["a", "b"]
LABELS = np.array(["no", "yes"])
CENTRES = {"no": np.array([-1.0, -0.6]), "yes": np.array([1.0, 0.6])}
BOX = 4.0
P = 0.9
COSTS: dict[str, cp.Cost] = {
    "manhattan": cp.Manhattan([1.0, 1.5]),
    "squared euclidean": cp.SquaredEuclidean([1.0, 2.0]),
    "mahalanobis": cp.Mahalanobis([[1.0, 0.4], [0.4, 1.5]]),
}
KINDS = ("laplace", "gamma", "gaussian")
FEATURES = [cp.Continuous(name, (-BOX, BOX)) for name in NAMES]

every_cost = pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_label = pytest.mark.parametrize("label", LABELS)


def rows(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < 0.5, *LABELS)
    X = np.stack([CENTRES[label] for label in y]) + 0.7 * random.normal(size=(n, 2))
    return pd.DataFrame(X, columns=NAMES), y


def fitted(kind: str = "laplace", epsilon: float = 40.0, **options: Any) -> PrivateSVC:
    """A model of 400 rows, whose noise is seeded."""
    X, y = rows(400, 0)
    options = {"delta": 1e-5 if kind == "gaussian" else None, "C": 20.0, "gamma": 1.0} | options
    model = PrivateSVC(
        epsilon,
        feature_map="fourier",
        n_components=24,
        bounds=(-BOX, BOX),
        classes=LABELS,
        mechanism=kind,  # type: ignore[arg-type]
        insecure_noise_seed=1,
        random_state=3,
        **options,
    )
    return model.fit(X, y)


def factual(model: PrivateSVC, label: str, n: int = 2) -> pd.DataFrame:
    """Rows that do not have a label."""
    X, _ = rows(200, 5)
    return X[model.predict(X) != label].head(n)


def valid(answers: cp.Counterfactuals) -> np.ndarray:
    return answers.report()["valid"].to_numpy(dtype=bool)


def safety_margin(model: PrivateSVC, y: Any, label: str) -> np.ndarray:
    sign = 1.0 if label == LABELS[1] else -1.0
    return sign * model.decision_function(pd.DataFrame(np.asarray(y), columns=NAMES))


def sureness(model: PrivateSVC, y: Any, label: str) -> np.ndarray:
    """P(the true weights give the label) at fixed points, by other formulas than the code's own."""
    phi = model.features(pd.DataFrame(np.asarray(y), columns=NAMES))
    far = 30.0 * model.scale_ * np.linalg.norm(phi, axis=1)  # beyond, the midpoint rule repeats
    t = np.clip(safety_margin(model, y, label), -far, far)
    if model.mechanism_ == "gaussian":
        return norm.cdf(t / (model.scale_ * np.linalg.norm(phi, axis=1)))
    # Gil-Pelaez: P(S > t) = ½ − 1/π ∫₀^∞ sin(t s) ψ(s) / s ds, by the midpoint rule
    h = 0.08 / (model.scale_ * np.linalg.norm(phi, axis=1).max())
    s = h * (np.arange(400) + 0.5)
    if model.mechanism_ == "gamma":
        square = (model.scale_ * np.linalg.norm(phi, axis=1)[:, None] * s) ** 2
        transform = (1.0 + square) ** (-0.5 * (phi.shape[1] + 1))
    else:
        transform = np.ones((len(phi), len(s)))
        for column in np.abs(phi.T):
            transform /= 1.0 + (model.scale_ * column[:, None] * s) ** 2
    return 0.5 + (np.sin(t[:, None] * s) * transform / s).sum(axis=1) * h / np.pi


def grid(steps: int = 121) -> np.ndarray:
    axis = np.linspace(-BOX, BOX, steps)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def costs(cost: cp.Cost, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    features = cp.Features(FEATURES)
    start = dict(zip(NAMES, before, strict=True))
    return np.array(
        [cost_of(cost, features, start, dict(zip(NAMES, y, strict=True))) for y in after]
    )


def explainer(model: PrivateSVC, cost: cp.Cost, **options: Any) -> cp.Explainer:
    constraints = [cp.Bounds(name, -BOX, BOX) for name in NAMES]
    constraints += options.pop("constraints", [])
    features = options.pop("features", FEATURES)
    return cp.Explainer(model, features=features, cost=cost, constraints=constraints, **options)


# The form


@pytest.mark.parametrize("intercept", [0.0, 0.7])
@every_kind
def test_the_model_is_read(kind: str, intercept: float):
    model = fitted(kind, intercept_scaling=intercept)
    X, _ = rows(300, 2)
    check_reader(model, X)
    form = read(model)
    made = [k(label) for label in LABELS for k in (cp.Label, cp.OtherLabel)]
    made += [cp.Robust(label, 0.9, "fixed") for label in LABELS]
    made += [cp.Robust(label, 0.9, "selection") for label in LABELS]
    check_form(form, made)


def test_preprocessing_is_seen_through():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, _ = rows(300, 2)
    model = make_pipeline(StandardScaler().fit(X), fitted())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names are lost on the way
        check_reader(model, X)


def waves(seed: int, k: int = 6, d: int = 3) -> tuple[FourierFeatures, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    weights = random.normal(size=2 * k + 1)
    return FourierFeatures(random.normal(size=(k, d)), random.normal(size=k), 0.5), weights, random


@pytest.mark.parametrize("seed", range(4))
def test_a_sum_of_waves_lies_between_its_parabolas(seed: int):
    features, weights, random = waves(seed)
    for _ in range(20):
        at, step = random.normal(size=3), 4.0 * random.normal(size=(200, 3))
        total = features.sums(weights[None], at)
        there = features(at + step) @ weights
        turned = total.values(step @ features.frequencies.T)[0]
        np.testing.assert_allclose(there, turned, atol=1e-12)
        low = features(at[None])[0] @ weights + step @ total.slopes[0]
        low -= 0.5 * np.einsum("ij,jk,ik->i", step, total.curvatures_below[0], step)
        high = total.in_balls(np.linalg.norm(step, axis=1), is_round=True)[0]
        assert (low <= there + 1e-9).all()
        assert (there <= high + 1e-9).all()
        assert (there <= total.upper_bounds + 1e-12).all()


@pytest.mark.parametrize("seed", range(3))
def test_slopes_are_those_of_differences(seed: int):
    features, weights, random = waves(seed)
    y, h = random.normal(size=(4, 3)), 1e-5
    total = features.sums(weights[None], y[0])
    limit = FourierConstraint(features, weights, 0.1, ProjectedLaplace(0.3, 13), P)
    excess, slopes = limit.excess_with_slope(y)
    np.testing.assert_allclose(excess, limit.excess(y), atol=1e-12)
    for j, step in enumerate(h * np.eye(3)):
        rise = (limit.excess(y + step) - limit.excess(y - step)) / (2 * h)
        np.testing.assert_allclose(slopes[:, j], rise, atol=1e-7)
        rise = (features(y[:1] + step) - features(y[:1] - step)) @ weights / (2 * h)
        np.testing.assert_allclose(total.slopes[0, j], rise[0], atol=1e-8)
        near = [features.sums(weights[None], y[0] + sign * step).slopes[0] for sign in (1, -1)]
        turn = (near[0] - near[1]) / (2 * h)
        np.testing.assert_allclose(total.hessians[0, j], turn, atol=1e-7)


@pytest.mark.parametrize("law", [ProjectedLaplace(0.3, 13), ProjectedGamma(0.2, 13)], ids=KINDS[:2])
@pytest.mark.parametrize("p", [0.6, 0.9, 0.99])
def test_no_features_ask_for_less_than_the_least(law: NoiseLaw, p: float):
    features, _, random = waves(0)
    phi = features(random.normal(size=(500, 3)) * 3)
    assert law.quantile(p, phi).min() >= law.quantile(p, features.least_in_norm)


@pytest.mark.parametrize("seed", range(6))
def test_a_step_goes_to_the_cheapest_point_of_its_model(seed: int):
    """As SciPy finds it by the one multiplier; nowhere where the model is above 0 everywhere."""
    from scipy.optimize import brentq

    rng = np.random.default_rng(seed)
    root, bent = rng.normal(size=(2, 3, 3))
    metric = root @ root.T + np.eye(3)
    limit = FourierConstraint(
        FourierFeatures(rng.normal(size=(4, 3)), rng.normal(size=4)), rng.normal(size=8)
    )
    program = Program(EncodedCost(np.zeros(3), metric), Region((limit,)))
    case = program.cases(rng.normal(size=(1, 3)))
    row, x = RowSearch(program, case, Effort(), StartHint(), None), case.x[0]
    y, slope, form = rng.normal(size=3), rng.normal(size=3), bent @ bent.T + 0.1 * np.eye(3)
    least = -0.5 * slope @ np.linalg.solve(form, slope)  # of the model, beside its value at y
    for value in (-0.5 * least, -0.01 * least, 0.0):

        def model(z: np.ndarray, value: float = value) -> float:
            return float(value + slope @ (z - y) + 0.5 * (z - y) @ form @ (z - y))

        def stationary(nu: float) -> np.ndarray:
            return np.linalg.solve(2 * metric + nu * form, 2 * metric @ x + nu * (form @ y - slope))

        expected = x
        if model(x) > 0.0:
            expected = stationary(brentq(lambda nu: model(stationary(nu)), 0.0, 1e6, xtol=1e-14))
        point = row._optimum(parabola(y, value, slope, form), case)
        assert point is not None
        assert model(point) <= 1e-7
        np.testing.assert_allclose(point, expected, atol=1e-5)
    assert row._optimum(parabola(y, 1.0 - least, slope, form), case) is None


# Answers


@pytest.mark.covering(1)
@every_cost
@every_label
@every_kind
def test_answers_are_those_of_a_grid(kind: str, label: str, cost: cp.Cost):
    model = fitted(kind)
    X, points = factual(model, label), grid()
    inside = safety_margin(model, points, label) >= 0.0
    sure = np.zeros(len(points), dtype=bool)
    some = np.flatnonzero(inside)
    sure[some] = sureness(model, points[some], label) >= P
    asked = {cp.Label(label): inside, cp.Robust(label, P, "fixed", search="optimal"): sure}
    for target, satisfied in asked.items():
        answers = explainer(model, cost).explain(X, target)
        for i, before in enumerate(X.to_numpy()):
            best = costs(cost, before, points[satisfied]).min()
            said = answers[i].certificate
            assert said.holds
            assert said.bound <= best + 1e-12, "a grid point is nearer than the bound"
            assert said.cost <= best * (1 + 1e-9), "a grid point is cheaper"
            assert said.claim is cp.Claim.LOCAL
    y = answers.to_frame()[NAMES].to_numpy()
    at = sureness(model, y, label)
    assert (at >= P - 1e-9).all()
    np.testing.assert_allclose(answers.report()["probability"], at, atol=1e-9)


@every_cost
def test_no_point_that_leads_by_the_margin_of_its_distance_costs_less_than_the_bound(
    cost: cp.Cost,
):
    """Nor is there any where that is proved, by grids of points at which it would be enough."""
    target = cp.Robust("yes", 0.8, "selection", draws=1500)
    features, points, seen = cp.Features(FEATURES), grid(), set()
    limits = [cp.Bounds(name, -BOX, BOX) for name in NAMES]
    for epsilon, size in ((4.0, 1.0), (15.0, 1.0), (60.0, 1.0), (60.0, 0.05), (60.0, 0.02)):
        model = copy.deepcopy(fitted(epsilon=epsilon))
        model.coef_ = size * model.coef_
        X = factual(model, "yes", 3)
        answers = explainer(model, cost).explain(X, target)
        asked = Query.ask(see_through(model, features, fixed=True), features, limits, cost)
        for i, x in enumerate(X.to_numpy()):
            spent = asked.encoded_cost(points, np.broadcast_to(x, points.shape))
            margins = target.safety_margins(asked, x[None]).take(np.zeros(len(points), np.intp))
            enough = safety_margin(model, points, "yes") >= margins.required(points, spent)
            best = spent[enough].min(initial=np.inf)
            assert answers[i].certificate.bound <= best + 1e-12
            seen.add(answers.status[i])
    assert {cp.Status.INFEASIBLE, cp.Status.SUBOPTIMAL} <= seen


@pytest.mark.covering(1)
@every_cost
@every_label
@pytest.mark.parametrize(
    ("kind", "guarantee"), [*((kind, "fixed") for kind in KINDS), ("laplace", "selection")]
)
def test_no_answer_is_farther_than_on_the_segment(
    kind: str, label: str, cost: cp.Cost, guarantee: Any
):
    model = fitted(kind)
    X, z = factual(model, label), CENTRES[label]
    said = explainer(model, cost)
    short = {"draws": 4000} if guarantee == "selection" else {}
    on = said.explain(X, cp.Robust(label, P, guarantee, search="segment", prototype=z, **short))
    best = said.explain(X, cp.Robust(label, P, guarantee, prototype=z, **short))
    assert valid(on).all()
    y = on.to_frame()[NAMES].to_numpy()
    gone, way = y - X.to_numpy(), z - X.to_numpy()
    share = (gone * way).sum(axis=1) / (way * way).sum(axis=1)
    np.testing.assert_allclose(gone, share[:, None] * way, atol=1e-9)
    if guarantee == "fixed":
        wide = said.explain(X, cp.Robust(label, P, "fixed", search="optimal", prototype=z))
        assert (wide.report()["cost"] <= on.report()["cost"] * (1 + 1e-9)).all()
        np.testing.assert_array_equal(best.to_frame(), on.to_frame())
        assert (sureness(model, y, label) >= P - 1e-9).all()
        back = X.to_numpy() + 0.99 * gone  # the first point, not some point
        assert (sureness(model, back, label) < P).all()
    else:
        least = [a.certificate.cost for a in best]
        assert valid(best).all()
        assert all(a.certificate.guarantee is cp.Guarantee.SELECTION for a in [*on, *best])
        assert (sureness(model, y, label) >= P).all()
        wide = said.explain(X, cp.Robust(label, P, "selection", search="optimal", **short))
        for i, answer in enumerate(wide):  # the best of both asks each for a little more
            if answer.certificate.holds:
                assert least[i] <= answer.certificate.cost * 1.25


@every_cost
@pytest.mark.parametrize("guarantee", ["fixed", "selection"])
def test_answers_lead_by_more_than_rounding(guarantee: Any, cost: cp.Cost):
    model = fitted()
    X = factual(model, "yes", 4)
    said = explainer(model, cost)
    for target in (cp.Label("yes"), cp.Robust("yes", 0.8, guarantee, draws=1500)):
        answers = said.explain(X, target)
        assert answers.found.all()
        assert all(a.certificate.margin > a.certificate.rounding > 0.0 for a in answers)


def test_constraints_are_kept():
    model = fitted()
    X = factual(model, "yes")
    steps = [FEATURES[0], cp.Integer("b", 0.25, (-BOX, BOX))]
    whole = X.assign(b=np.rint(4 * X["b"]) / 4)
    for cost in COSTS.values():
        for target in (cp.Label("yes"), cp.Robust("yes", 0.8, "fixed")):
            held = explainer(model, cost, constraints=[cp.Immutable("b")]).explain(X, target)
            row = cp.Linear({"a": 1, "b": 1}, high=0.9)
            rowed = explainer(model, cost, constraints=[row]).explain(X, target)
            near = explainer(model, cost, constraints=[cp.Bounds("a", rise=1.2)]).explain(X, target)
            kept = explainer(model, cost, features=steps).explain(whole, target)
            for answers, was in ((held, X), (rowed, X), (near, X), (kept, whole)):
                for answer in answers:
                    assert answer.certificate.violation <= 1e-8
                y, ok = answers.to_frame()[NAMES], valid(answers)
                assert (model.predict(y[ok]) == "yes").all()
                if answers is held or answers is kept:
                    assert (y["b"][ok] == was["b"][ok]).all()
            assert valid(rowed).all()
            assert valid(held).any()


def test_categories_and_what_cannot_move_stay():
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    X, y = rows(300, 0)
    X["home"] = np.where(np.random.default_rng(1).random(len(X)) < 0.5, "own", "rent")
    encoder = ColumnTransformer([("home", OneHotEncoder(), ["home"])], remainder="passthrough")
    svc = PrivateSVC(
        40.0, C=20.0, feature_map="fourier", n_components=24, insecure_noise_seed=1, random_state=3
    ).set_params(bounds=(-BOX, BOX), classes=LABELS)
    model = make_pipeline(encoder, svc).fit(X, y)
    before = X[model.predict(X) != "yes"].head(3)
    for cost in (cp.Manhattan(), cp.SquaredEuclidean()):
        said = cp.Explainer(model, data=X, cost=cost)
        for target in ("yes", cp.Robust("yes", 0.8, "fixed"), cp.Robust("yes", 0.8, draws=1500)):
            answers = said.explain(before, target)
            after = answers.to_frame()
            assert valid(answers).all()
            assert (after["home"] == before["home"]).all()
            assert (model.predict(after[X.columns]) == "yes").all()
    stuck = cp.Explainer(model, data=X, constraints=[cp.Immutable(*NAMES, "home")])
    for target in ("yes", cp.Robust("yes", 0.8, draws=1500)):
        assert not valid(stuck.explain(before, target)).any()


def test_a_row_beyond_all_sums_is_proved_infeasible():
    model = copy.deepcopy(fitted())
    model.coef_ = 0.01 * model.coef_
    X = factual(model, "yes", 2)
    for target in (cp.Robust("yes", 0.99, "fixed"), cp.Robust("yes", 0.9, "selection")):
        answers = explainer(model, COSTS["manhattan"]).explain(X, target)
        assert (answers.status == cp.Status.INFEASIBLE).all()
        assert "uncertain" in answers[0].message


def test_the_same_question_has_the_same_answer():
    model = fitted()
    X = factual(model, "yes", 2)
    for options in ({}, {"guarantee": "fixed"}, {"guarantee": "selection", "prototype": [1, 0.6]}):
        target = cp.Robust("yes", P, draws=3000, **options)  # type: ignore[arg-type]
        made = [explainer(model, COSTS["manhattan"]).explain(X, target) for _ in range(2)]
        pd.testing.assert_frame_equal(made[0].to_frame(), made[1].to_frame(), check_exact=True)


def test_a_prototype_may_be_named():
    z = CENTRES["yes"]
    given = [z, z.tolist(), {"b": z[1], "a": z[0]}, pd.Series(z[::-1], index=["b", "a"])]
    model = fitted()
    X = factual(model, "yes", 1)
    said = explainer(model, COSTS["manhattan"])
    made = [
        said.explain(X, cp.Robust("yes", P, "fixed", search="segment", prototype=row)).to_frame()
        for row in given
    ]
    for frame in made:
        pd.testing.assert_frame_equal(frame, made[0])


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_a_prototype_is_kept_in_files(suffix: str, tmp_path: Path):
    for row in ([1.0, 0.6], ["rent", 3], {"home": "rent", "age": 3.5}):
        target = cp.Robust("yes", P, search="segment", prototype=row)
        cp.Problem(target).save(tmp_path / f"loan{suffix}")
        assert cp.Problem.load(tmp_path / f"loan{suffix}").target == target


def test_what_makes_no_sense_is_refused():
    model, cost = fitted(), COSTS["manhattan"]
    X, z = factual(model, "yes", 1), CENTRES["yes"]
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: cp.Robust("yes", P, search="segment"), "Expected a prototype"),
        (lambda: cp.Robust("yes", P, search="far", prototype=z), "Expected search"),  # type: ignore[arg-type]
        (lambda: cp.Robust("yes", P, prototype=[[0, 0], [1, 1]]), "Expected one row"),
        (lambda: cp.Robust("yes", P, prototype=((0, 0), (1,))), "the same length"),
        (lambda: cp.Robust("yes", 0.4), "probability of at least 0.5"),
        (lambda: cp.Robust("yes", 1.0), "below 1"),
    ]
    for make, words in wrong:
        with pytest.raises(cp.InvalidInput, match=words):
            make()
    asked = [
        (cp.Robust("yes", P, search="segment", prototype=CENTRES["no"]), "it takes this one"),
        (cp.Robust("yes", P, prototype=[0.0, 0.0, 1.0]), "Expected 2 columns"),
        (cp.Robust("yes", P, prototype={"a": 1.0}), "missing"),
        (cp.Robust("yes", P, prototype=[np.nan, 1.0]), "prototype"),
        (cp.Robust("yes", 0.999, "selection", draws=1000), "draws="),
        (cp.Robust("maybe", P), "Expected a target among"),
        (cp.Probability("yes", P), "Probability needs class probabilities"),
    ]
    for target, words in asked:
        with pytest.raises(cp.InvalidInput, match=words):
            explainer(model, cost).explain(X, target)
    with pytest.raises(cp.InvalidInput, match="MaxChanges"):
        explainer(model, cost, constraints=[cp.MaxChanges(1)]).explain(X, "yes")
    with pytest.raises(cp.InvalidInput, match="optimality='local'"):
        explainer(model, cost).explain(X, "yes", optimality="global")


def test_a_prototype_that_is_not_sure_enough_is_no_answer():
    model = fitted()
    X, share = factual(model, "yes", 3), np.linspace(0, 1, 200)[:, None]
    between = CENTRES["no"] + share * (CENTRES["yes"] - CENTRES["no"])
    z = between[(sureness(model, between, "yes") > 0.7).argmax()]
    target = cp.Robust("yes", 0.95, "fixed", search="segment", prototype=z)
    answers = explainer(model, COSTS["manhattan"]).explain(X, target)
    for x, answer in zip(X.to_numpy(), answers, strict=True):
        sure = sureness(model, x + share * (z - x), "yes")
        assert answer.certificate.holds == (sure >= target.probability).any()
        if not answer.certificate.holds:
            assert answer.status in {cp.Status.UNPROVED, cp.Status.INFEASIBLE}
            assert "uncertain" in answer.message
    assert not all(answer.certificate.holds for answer in answers)


def test_an_answer_that_is_nearer_than_the_segment_says_nothing_of_that():
    """On the way to the prototype there are points as sure; they are only farther away."""
    model, cost = fitted(epsilon=100.0), COSTS["manhattan"]
    X, seen = factual(model, "yes", 2), 0
    asked = {"prototype": CENTRES["yes"], "draws": 2000}
    on_the_way = explainer(model, cost).explain(X, cp.Robust("yes", P, search="segment", **asked))
    answers = explainer(model, cost).explain(X, cp.Robust("yes", P, **asked))
    for answer, segment in zip(answers, on_the_way, strict=True):
        if segment.certificate.guarantee == answer.certificate.guarantee == cp.Guarantee.SELECTION:
            seen += segment.found
            assert "On the way" not in answer.message
    assert seen


@pytest.mark.parametrize("guarantee", ["fixed", "selection", "best"])
def test_without_a_good_prototype_the_best_search_looks_elsewhere(guarantee: Any):
    """On the wrong side, which noise decides, it is of no use."""
    model, cost = fitted(), COSTS["squared euclidean"]
    X, short = factual(model, "yes", 2), {"draws": 2000}
    wrong = cp.Robust("yes", P, guarantee, prototype=CENTRES["no"], **short)
    answers = explainer(model, cost).explain(X, wrong)
    assert valid(answers).all()
    said = "The prototype was not used: the model takes it for the other class."
    assert all(said in answer.message for answer in answers)
    without = cp.Robust("yes", P, guarantee, search="optimal", **short)
    elsewhere = explainer(model, cost).explain(X, without)
    if guarantee == "fixed":
        np.testing.assert_array_equal(answers.to_frame(), elsewhere.to_frame())
    assert not any(said in answer.message for answer in elsewhere)
    already_satisfied = explainer(model, cost).explain(
        pd.DataFrame([CENTRES["yes"]], columns=NAMES), wrong
    )
    assert already_satisfied.status[0] == cp.Status.ALREADY
    assert said not in already_satisfied[0].message


def test_whether_noise_puts_the_prototype_on_the_wrong_side_does_not_change_what_is_asked():
    """What a lead has to be is fixed without a look at the weights."""
    target = cp.Robust("yes", P, "selection", prototype=CENTRES["yes"], draws=2000)
    asked = []
    for sign in (1.0, -1.0):
        model = copy.deepcopy(fitted())
        model.coef_ = sign * model.coef_
        limits = [cp.Bounds(name, -BOX, BOX) for name in NAMES]
        features, cost = cp.Features(FEATURES), COSTS["manhattan"]
        question = Query.ask(see_through(model, features, fixed=True), features, limits, cost)
        safety_margins = target.safety_margins(question, factual(fitted(), "yes").to_numpy())
        assert isinstance(safety_margins, FourierMargins)
        asked.append(safety_margins.balls)
    np.testing.assert_array_equal(*asked)


def test_a_prototype_that_is_not_sure_enough_leaves_the_best_search_to_look_elsewhere():
    model = fitted()
    X, share = factual(model, "yes", 3), np.linspace(0, 1, 200)[:, None]
    between = CENTRES["no"] + share * (CENTRES["yes"] - CENTRES["no"])
    z = between[(sureness(model, between, "yes") > 0.7).argmax()]
    said = explainer(model, COSTS["manhattan"])
    segment = said.explain(X, cp.Robust("yes", 0.95, "fixed", search="segment", prototype=z))
    best = said.explain(X, cp.Robust("yes", 0.95, "fixed", prototype=z))
    assert not valid(segment).all()
    assert valid(best).all()
    assert (sureness(model, best.to_frame()[NAMES], "yes") >= 0.95 - 1e-9).all()
    for alone, answer in zip(segment, best, strict=True):
        elsewhere = "On the way to the prototype no point is as likely" in answer.message
        assert elsewhere != alone.found
        if not alone.found:
            own = re.search(r"The prototype itself has a probability of (\S+),", alone.message)
            assert own
            assert float(own[1]) == pytest.approx(sureness(model, z[None], "yes")[0], abs=2e-3)


@pytest.mark.parametrize("guarantee", ["fixed", "selection"])
def test_a_row_without_an_answer_says_what_could_be_had(guarantee: Any):
    """Whether that is proved or not."""
    limits, seen = [cp.Bounds(name, rise=0.9, fall=0.9) for name in NAMES], set()
    for epsilon in (3.0, 10.0):
        model = fitted(epsilon=epsilon)
        X, said = factual(model, "yes", 3), COSTS["manhattan"]
        asked = cp.Robust("yes", 0.97, guarantee)
        answers = explainer(model, said, constraints=limits).explain(X, asked)
        for i, answer in enumerate(answers):
            if answer.found or "Even without noise" in answer.message:
                continue
            seen.add(answer.status)
            found = re.search(r"is attainable with (\S+) times the noise", answer.message)
            quiet = copy.deepcopy(model)
            assert found, answer.message
            assert "epsilon" not in answer.message  # seeded noise is not private
            quiet.scale_ *= float(found[1])
            again = explainer(quiet, said, constraints=limits).explain(X.iloc[[i]], asked)
            assert valid(again).all()
            reached = re.search(r"A probability of (0\.\d+) is attainable", answer.message)
            if reached:
                fewer = cp.Robust("yes", float(reached[1]), guarantee)
                again = explainer(model, said, constraints=limits).explain(X.iloc[[i]], fewer)
                assert valid(again).all()
    assert seen


def test_nothing_changes_by_a_trace():
    """Under a Manhattan cost most columns stay, exactly."""
    X, y = load_breast_cancer(return_X_y=True)
    high = np.ceil(120.0 * X.max(axis=0)) / 100.0
    model = PrivateSVC(
        200.0,
        C=20.0,
        feature_map="fourier",
        gamma=0.3,
        bounds=(np.zeros(30), high),
        classes=LABELS,
        insecure_noise_seed=11,
        random_state=0,
    ).fit(X, LABELS[y])
    rows = X[model.predict(X) == "no"][:3]
    weights = 1.0 / np.median(np.abs(X - np.median(X, axis=0)), axis=0)
    target = cp.Robust("yes", P, "selection", draws=2000)
    answers = cp.Explainer(model, cost=cp.Manhattan(weights)).explain(rows, target)
    paid = weights * np.abs(answers.to_frame() - rows)
    assert answers.found.all()
    assert (paid[paid > 0.0] > 1e-4 * paid.sum(axis=1).max()).all()


# Sums of waves


def drawn(n: int, k: int, f: int, seed: int) -> CosineSums:
    random = np.random.default_rng(seed)
    sizes = random.exponential(size=(n, k))
    angles = random.uniform(-9.0, 9.0, size=(n, k))
    constants = random.normal(size=n)
    return CosineSums(sizes, angles, constants, random.normal(size=(k, f)))


def values(sums: CosineSums, i: int, y: np.ndarray) -> np.ndarray:
    angle = sums.angles[i] + y @ sums.frequencies.T
    return np.asarray((sums.sizes[i] * np.cos(angle)).sum(axis=-1) + sums.constants[i])


@pytest.mark.parametrize("is_round", [True, False])
@pytest.mark.parametrize("f", [1, 2, 3, 8])
def test_nothing_in_a_ball_is_above_its_bound(f: int, is_round: bool):
    sums = drawn(6, 10, f, f)
    radii = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 5.0, np.inf])
    bounds = sums.in_balls(radii, is_round=is_round)
    random = np.random.default_rng(0)
    assert (np.diff(bounds, axis=1) >= -1e-9).all()
    for v, radius in enumerate(radii[:-1].tolist()):
        for i in range(len(bounds)):
            y = random.normal(size=(4000, f))
            length = np.linalg.norm(y, axis=1) if is_round else np.abs(y).sum(axis=1)
            y *= radius * random.random((4000, 1)) ** (1 / f) / length[:, None]
            seen = values(sums, i, y)
            assert seen.max() <= bounds[i, v] + 1e-9
            if is_round and radius:
                start = y[seen.argmax()]
                ball = {"type": "ineq", "fun": lambda z, r=radius: r * r - z @ z}
                up = minimize(
                    lambda z, i=i: -values(sums, i, z), start, constraints=[ball], method="SLSQP"
                )
                if up.x @ up.x <= radius**2 * (1 + 1e-9):
                    assert -up.fun <= bounds[i, v] + 1e-6
    assert (bounds[:, 0] <= [values(sums, i, np.zeros(f)) + 0.05 for i in range(6)]).all()


def test_nothing_on_a_segment_is_above_its_bound():
    sums = drawn(6, 10, 3, 0)
    to = np.array([1.0, -2.0, 0.5])
    bounds = sums.on_segment(to)
    way = np.linspace(0, 1, 20_001)[:, None] * to
    for i, bound in enumerate(bounds):
        assert bound - 1e-3 <= values(sums, i, way).max() <= bound


# What the guarantees promise


@pytest.mark.parametrize(
    ("kind", "cost"),
    [
        pytest.param(
            kind, COSTS[name], id=name, marks=[] if name == "manhattan" else pytest.mark.slow
        )
        for kind, name in zip(KINDS, COSTS, strict=True)
    ],
)
def test_answers_with_a_guarantee_for_selection_hold_as_often_as_promised(kind: str, cost: cp.Cost):
    """The true weights are known here, and the noise is drawn many times."""
    model = copy.deepcopy(fitted(kind, epsilon=60.0))
    truth, law, p = model.coef_, model.noise_, 0.8
    x, holds = factual(model, "yes", 1), []
    target = cp.Robust("yes", p, "selection", prototype=CENTRES["yes"], draws=1500)
    for mu in law.draw(25, 11):
        model.coef_ = truth + mu
        both = pd.concat([x, pd.DataFrame([CENTRES["yes"]], columns=NAMES)])
        if model.predict(both).tolist() != ["no", "yes"]:
            continue
        answer = explainer(model, cost).explain(x, target)
        if valid(answer)[0]:
            model.coef_ = truth
            holds.append(model.predict(answer.to_frame()[NAMES])[0] == "yes")
    assert len(holds) > 15
    assert np.mean(holds) >= p - 3 * np.sqrt(p * (1 - p) / len(holds))


def test_isotropic_gaussian_noise_asks_for_the_same_everywhere():
    form = read(fitted("gaussian"))
    assert isinstance(form, FourierScores)
    assert isinstance(form.law, ProjectedGaussian)
    asked = form.law.quantile(P, form.phi(grid(21)))
    np.testing.assert_allclose(asked, asked[0], rtol=1e-12)
