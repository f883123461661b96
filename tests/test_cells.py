"""Unions of thousands of cells: as cheap as brute force over all of them, and proved."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from itertools import product
from typing import Any

import daqp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import counterpoint as cp
from counterpoint.families.prototypes import cells
from counterpoint.families.prototypes.cells import CellRelaxation, VoronoiCells
from counterpoint.families.prototypes.form import Prototypes
from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import Box, Whole
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch, Region
from counterpoint.records.record import canonical, digest
from counterpoint.search import search as searching
from counterpoint.search.search import Union, search
from counterpoint.solvers import Effort

RELATIVE = 1e-6
"""The gap that is promised."""


@pytest.fixture
def celled(monkeypatch: pytest.MonkeyPatch):
    """No union is small."""
    monkeypatch.setattr(searching, "LISTED", 0)


def points(count: int, d: int, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes that lie in one another."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=count)
    return 0.8 * rng.normal(size=(classes, d))[labels] + rng.normal(size=(count, d)), labels + 3


def nearest(X: Any, y: np.ndarray, *before: Any) -> Any:
    return make_pipeline(*before, KNeighborsClassifier(1, algorithm="brute")).fit(X, y)


# Brute force over all cells


class Oracle:
    """Every cell as a program of its own, in SciPy or DAQP, in the columns of the user."""

    def __init__(self, model: Any, d: int, cost: cp.Cost, whole: bool = False):
        origin = model[:-1].transform(np.zeros((1, d))) if len(model) > 1 else np.zeros((1, d))
        eye = model[:-1].transform(np.eye(d)) if len(model) > 1 else np.eye(d)
        seen, neighbors = (eye - origin).T, model[-1]
        self.labels = neighbors.classes_[neighbors._y]
        kept = neighbors._fit_X
        self.rows = 2.0 * kept @ seen
        self.offset = 2.0 * kept @ origin[0] - (kept**2).sum(axis=1)
        self.cost, self.whole, self.d = cost, whole, d

    def best(
        self, x: np.ndarray, wanted: np.ndarray, box: tuple, more: tuple, safety_margin: float
    ):
        """The least cost of any cell of the wanted labels."""
        inside = np.isin(self.labels, wanted)
        rivals = np.flatnonzero(~inside)
        found = []
        for i in np.flatnonzero(inside).tolist():
            rows = np.vstack([self.rows[rivals] - self.rows[i], more[0]])
            high = (
                np.append(self.offset[i] - self.offset[rivals] - safety_margin, more[1]) - rows @ x
            )
            found.append(self._solve(rows, high, box[0] - x, box[1] - x))
        return min(found)

    def _solve(self, rows: np.ndarray, high: np.ndarray, low: np.ndarray, top: np.ndarray):
        if (low > top).any():
            return np.inf
        if isinstance(self.cost, cp.Manhattan):
            weights = np.asarray(self.cost.weights, dtype=float)
            both = np.hstack([rows, -rows])
            must = np.append(np.maximum(low, 0.0), np.maximum(-top, 0.0))
            room = np.append(np.maximum(top, 0.0), np.maximum(-low, 0.0))
            cost = np.append(weights, weights)
            if self.whole:
                conditions = LinearConstraint(both, -np.inf, high)
                answer = milp(
                    cost, constraints=conditions, bounds=Bounds(must, room), integrality=1
                )
            else:
                answer = linprog(cost, both, high, bounds=np.column_stack([must, room]))
            return float(answer.fun) if answer.status == 0 else np.inf
        full = isinstance(self.cost, cp.Mahalanobis)
        matrix = np.asarray(self.cost.matrix) if full else np.diag(np.asarray(self.cost.weights))
        unit = 1.0 / np.sqrt(np.diag(matrix))
        size = np.linalg.norm(rows * unit, axis=1)
        found, _, flag, _ = daqp.solve(
            2.0 * matrix * np.outer(unit, unit),
            np.zeros(self.d),
            np.ascontiguousarray(rows * unit / size[:, None]),
            np.append(top / unit, high / size),
            np.append(low / unit, np.full(len(rows), -1e30)),
            np.zeros(self.d + len(rows), dtype=np.int32),
            primal_tol=1e-9,
        )
        change = np.asarray(found) * unit
        return float(change @ matrix @ change) if flag > 0 else np.inf


def costs(d: int) -> dict[str, cp.Cost]:
    rng = np.random.default_rng(d)
    weights = rng.uniform(0.5, 2.0, size=d)
    root = rng.normal(size=(d, d)) / np.sqrt(d)
    return {
        "manhattan": cp.Manhattan(weights),
        "squared": cp.SquaredEuclidean(weights),
        "mahalanobis": cp.Mahalanobis(root.T @ root + 0.3 * np.eye(d)),
    }


FREE = np.full(4, np.inf)
LIMITS: dict[str, tuple[list[cp.Constraint], Any, tuple]] = {
    "free": ([], lambda x: (-FREE, FREE), (np.zeros((0, 4)), [])),
    "held and bounded": (
        [cp.Immutable("x1"), cp.Bounds("x0", low=-1.0, high=1.5), cp.Monotone("x3", "increasing")],
        lambda x: (
            np.array([-1.0, x[1], -np.inf, x[3]]),
            np.array([1.5, x[1], np.inf, np.inf]),
        ),
        (np.zeros((0, 4)), []),
    ),
    "bounded and linear": (
        [cp.Bounds("x2", fall=0.4, rise=0.3), cp.Linear({"x0": 1.0, "x3": -1.0}, high=0.5)],
        lambda x: (
            np.array([-np.inf, -np.inf, x[2] - 0.4, -np.inf]),
            np.array([np.inf, np.inf, x[2] + 0.3, np.inf]),
        ),
        (np.array([[1.0, 0.0, 0.0, -1.0]]), [0.5]),
    ),
}


def assert_best(answers: cp.Counterfactuals, i: int, best: float):
    status, certificate = answers.status[i], answers[i].certificate
    if np.isinf(best):
        assert status == cp.Status.INFEASIBLE
        return
    assert status == cp.Status.OPTIMAL
    assert certificate.claim in (cp.Claim.PROVED, cp.Claim.REPORTED)
    assert certificate.gap <= RELATIVE
    assert certificate.cost == pytest.approx(best, rel=RELATIVE, abs=1e-9)
    assert certificate.bound <= best * (1.0 + RELATIVE) + 1e-9


@pytest.mark.covering(2)
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("cost", sorted(costs(4)))
@pytest.mark.parametrize("before", [(), (StandardScaler(), PCA(3))], ids=["raw", "projected"])
def test_every_class_is_as_cheap_as_the_cheapest_of_all_cells(
    celled, before: Any, cost: str, limits: str
):
    X, y = points(70, 4)
    model, encoded_cost = nearest(X, y, *before), costs(4)[cost]
    constraints, box, more = LIMITS[limits]
    explainer = cp.Explainer(
        model,
        features=[cp.Continuous(f"x{j}") for j in range(4)],
        cost=encoded_cost,
        constraints=constraints,
    )
    oracle, rows, moved = Oracle(model, 4, encoded_cost), X[:2] + 0.1, 0
    for target in [*map(cp.Label, (3, 4, 5)), cp.OtherLabel(4, margin=0.2), cp.Label([3, 5])]:
        answers = explainer.explain(rows, target)
        is_label = isinstance(target, cp.Label)
        wanted = [label for label in (3, 4, 5) if (label in target.labels) == is_label]
        for i, x in enumerate(rows):
            if answers.status[i] == cp.Status.ALREADY:
                continue
            moved += 1
            assert_best(answers, i, oracle.best(x, wanted, box(x), more, target.margin))
    assert moved >= 5


@pytest.mark.parametrize("cost", sorted(costs(6)))
def test_three_hundred_points(cost: str):
    X, y = points(300, 6)
    model, encoded_cost = nearest(X[:-1], y[:-1]), costs(6)[cost]
    free = np.full(6, np.inf)
    oracle, x = Oracle(model, 6, encoded_cost), X[-1]
    answers = cp.Explainer(model, cost=encoded_cost).explain(x, 4)
    best = oracle.best(x, [4], (-free, free), (np.zeros((0, 6)), []), 0.0)
    assert_best(answers, 0, best)


def test_whole_columns_are_as_cheap_as_the_cheapest_of_all_cells(celled):
    X, y = points(60, 3)
    X = np.round(3.0 * X)
    X, first = np.unique(X, axis=0, return_index=True)
    model, encoded_cost = nearest(X, y[first]), costs(3)["manhattan"]
    features = [cp.Integer(f"x{j}", observed=(-12, 12)) for j in range(3)]
    explainer = cp.Explainer(
        model, features=features, cost=encoded_cost, constraints=[cp.WithinObserved()]
    )
    oracle, rows, box = Oracle(model, 3, encoded_cost, whole=True), X[::20], (np.full(3, -12.0),)
    for label in (3, 4, 5):
        answers = explainer.explain(rows, label)
        for i, x in enumerate(rows):
            if answers.status[i] != cp.Status.ALREADY:
                # No tie is lost by less than one step of a squared distance of whole numbers.
                best = [
                    oracle.best(x, [label], (*box, -box[0]), (np.zeros((0, 3)), []), safety_margin)
                    for safety_margin in (0.0, 0.5)
                ]
                assert best[0] * (1.0 - RELATIVE) <= answers.cost[i] <= best[1] * (1.0 + RELATIVE)
                assert answers[i].certificate.gap <= RELATIVE


@pytest.mark.parametrize("cost", ["manhattan", "squared", "mahalanobis"])
def test_among_few_whole_numbers_and_categories_the_model_itself_is_asked(celled, cost: str):
    rng = np.random.default_rng(2)
    data = pd.DataFrame(
        {
            "a": rng.integers(0, 5, 50),
            "b": rng.integers(0, 5, 50),
            "c": np.resize(["ash", "elm", "fir"], 50),
        }
    )
    encoder = make_column_transformer(
        ("passthrough", ["a", "b"]), (OneHotEncoder(sparse_output=False), ["c"])
    )
    model = nearest(data, rng.integers(3, size=50), encoder)
    every = pd.DataFrame(product(range(5), range(5), ["ash", "elm", "fir"]), columns=list("abc"))
    predicted, rows = model.predict(every), data.iloc[[3, 30]]
    squares = cost != "manhattan"
    encoded_cost = {
        "manhattan": cp.Manhattan({"a": 0.7, "c": 1.5}),
        "squared": cp.SquaredEuclidean({"a": 0.7, "c": 1.5}),
        "mahalanobis": cp.Mahalanobis(np.diag([0.7, 1.0, 1.5])),
    }[cost]
    explainer = cp.Explainer(model, data=data, cost=encoded_cost, constraints=[cp.WithinObserved()])
    for label in range(3):
        answers = explainer.explain(rows, label)
        for i, row in enumerate(rows.to_dict("records")):
            if answers.status[i] == cp.Status.ALREADY:
                continue
            a, b = (np.abs(every[name] - row[name]) ** (1 + squares) for name in "ab")
            paid = 0.7 * a + b + 1.5 * (every["c"] != row["c"])
            assert answers.status[i] == cp.Status.OPTIMAL
            assert answers.cost[i] == pytest.approx(paid[predicted == label].min(), rel=1e-9)


# Against the same union, written down


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_cells_and_pieces_that_are_written_down_agree(seed: int):
    rng = np.random.default_rng(seed)
    d, count = int(rng.integers(1, 6)), int(rng.integers(8, 60))
    X, y = points(count, d, int(rng.integers(2, 5)), seed)
    grain = rng.choice([0.0, 0.5])
    X = np.round(X / grain) * grain if grain else X  # equal points, and ties
    y[:2] = 3, 4
    omega = [None, rng.normal(size=(d, d)), np.abs(rng.normal(size=d))][rng.integers(3)]
    form = Prototypes.from_arrays(X, y, omega, first_wins=bool(rng.random() < 0.8))
    encoded_cost = list(costs(d).values())[rng.integers(3)].encoded_cost(
        cp.Features([cp.Continuous(f"x{j}") for j in range(d)])
    )
    box = Box.unbounded(d)
    bounded = rng.random(d) < 0.4
    box.least[bounded] = -rng.exponential(size=d)[bounded]
    box.most[bounded] = rng.exponential(size=d)[bounded] * (rng.random(d) < 0.8)[bounded]
    conditions: list[Any] = [box]
    if rng.random() < 0.3:
        conditions.append(Whole(np.arange(1), np.array([0.5])))
    program = Program(encoded_cost, Region(tuple(conditions)))
    target = cp.Label(int(rng.choice(form.classes)), margin=float(rng.choice([0.0, 0.3])))
    regions = form.regions(target)
    if not isinstance(regions, VoronoiCells):
        return
    x = X[:3] + 0.2 * rng.normal(size=(3, d))
    cases = program.cases(x)
    cells = search(Union(program, regions, regions), cases, Effort(1e-9))
    listed = search(Union.of(program, tuple(regions)), cases, Effort(1e-9))
    np.testing.assert_array_equal(cells.piece < 0, listed.piece < 0)
    found = cells.piece >= 0
    paid = [program.encoded_cost(findings.points, x)[found] for findings in (cells, listed)]
    np.testing.assert_allclose(*paid, rtol=1e-6, atol=1e-9)
    for i in np.flatnonzero(found):
        region = regions[int(cells.piece[i])]
        assert region.violation(cells.points[[i]], x[[i]])[0] <= 1e-8
    reached = np.full(3, np.inf)
    reached[found] = paid[0]
    (evidence,) = cells.evidence
    bound = evidence.bounds(reached)[1]
    assert (bound <= reached * (1.0 + 1e-9) + 1e-12).all()
    np.testing.assert_allclose(bound, reached, rtol=RELATIVE, atol=1e-9)


# What is proved rests on no choice of the search


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_no_rival_and_no_weight_lifts_a_bound_over_a_point(seed: int):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    X, y = points(30, d, 3, seed)
    y[:2] = 3, 4
    form = Prototypes.from_arrays(np.round(2.0 * X) / 2.0, y)
    cells = form.regions(cp.Label(3, margin=float(rng.choice([0.0, 0.4]))))
    if not isinstance(cells, VoronoiCells):
        return
    full = rng.normal(size=(d, d))
    prices = [
        EncodedCost(rng.uniform(0.5, 2.0, size=d), np.zeros(d)),
        EncodedCost(np.zeros(d), rng.uniform(0.5, 2.0, size=d)),
        EncodedCost(np.zeros(d), full.T @ full + 0.1 * np.eye(d)),
    ]
    encoded_cost = prices[rng.integers(3)]
    program = Program(encoded_cost, Region((Box.unbounded(d),)))
    x = rng.normal(size=(2, d))
    y = x[:, None] + 3.0 * rng.normal(size=(2, 200, d))
    low = np.where(rng.random(d) < 0.3, x, -np.inf)
    high = np.where(rng.random(d) < 0.3, x + rng.exponential(size=d), np.inf)
    y = np.minimum(np.maximum(y, low[:, None]), high[:, None])
    cases, count = Batch(x, low, high, np.zeros(2)), len(cells)
    for i, case in enumerate(cases):
        rivals = rng.integers(len(cells.rivals), size=count)
        weights = rng.choice([-1.0, 0.0, 1e100, 1e-300], size=count)
        weights = np.where(rng.random(count) < 0.7, rng.exponential(size=count), weights)
        relaxation = CellRelaxation(program, cells, case, rivals, weights)
        bounds = relaxation.cell_bounds()
        paid = encoded_cost(y[i], np.broadcast_to(x[i], y[i].shape))
        for s in range(count):
            inside = cells[s].violation(y[i], y[i]) == 0.0
            assert (bounds[s] <= paid[inside] * (1.0 + 1e-9) + 1e-12).all()
        least = relaxation.bounds(np.zeros(1))[0]
        np.testing.assert_array_equal(least, relaxation.cell_bounds(0.0).min())


def test_only_what_was_reached_needs_to_be_refuted():
    """A cell that is held back by a bound is out of reach, and only then infinitely dear."""
    form = Prototypes.from_arrays([[0.0], [4.0]], ["low", "high"])
    cells = form.regions(cp.Label("high"))
    program = Program(EncodedCost(np.ones(1), np.zeros(1)), Region())
    low, high = np.full((1, 1), -np.inf), np.ones((1, 1))
    case = Batch(np.zeros((1, 1)), low, high, np.zeros(1))
    rival, weight = np.zeros(1, dtype=np.intp), np.full(1, 0.1)
    relaxation = CellRelaxation(program, cells, case, rival, weight)
    assert np.isposinf(relaxation.cell_bounds())
    assert np.isfinite(relaxation.cell_bounds(0.5))


# Thousands of points


@pytest.fixture(scope="module")
def many() -> tuple[Any, np.ndarray, np.ndarray]:
    X, y = points(5_010, 10, 5)
    return nearest(X[10:], y[10:], StandardScaler()), X[10:], X[:10]


@pytest.mark.parametrize("cost", sorted(costs(10)))
def test_no_nearer_point_gets_the_label(many: Any, cost: str):
    model, data, rows = many
    encoded_cost = costs(10)[cost]
    answers = cp.Explainer(model, data=data, extrapolate=True, cost=encoded_cost).explain(rows, 5)
    assert set(answers.status) <= {cp.Status.OPTIMAL, cp.Status.ALREADY}
    assert (answers.certificates.claim == cp.Claim.PROVED).all()
    assert (answers.gap <= RELATIVE).all()
    assert (model.predict(answers.to_frame()) == 5).all()
    rng = np.random.default_rng(0)
    way = rng.normal(size=(2_000, 10))
    for i in np.flatnonzero(answers.cost > 0.0):
        explainer = cp.Explainer(model, data=data, extrapolate=True, cost=encoded_cost)
        away = explainer._prepared().encoded_cost(way, np.zeros_like(way))
        root = 1.0 if cost == "manhattan" else 0.5
        length = rng.random(len(way)) ** 0.1 * (answers.cost[i] * (1.0 - 1e-6)) ** root
        ball = rows[i] + way * (length / away**root)[:, None]
        assert not (model.predict(ball) == 5).any()


def test_nothing_as_large_as_all_rows_is_ever_held(many: Any):
    model, data, rows = many
    explainer = cp.Explainer(model, data=data, extrapolate=True)
    explainer.explain(rows[:1], 5)
    tracemalloc.start()
    explainer.explain(rows, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6  # a row of 10 numbers for each of 1000 cells and 4000 rivals is 320e6


def test_a_row_is_answered_as_it_is_alone(many: Any):
    model, data, rows = many
    explainer = cp.Explainer(model, data=data, extrapolate=True)
    together = explainer.explain(rows, cp.OtherLabel()).to_frame()
    alone = [explainer.explain(row, cp.OtherLabel()).to_frame()[0] for row in rows]
    np.testing.assert_array_equal(together, np.stack(alone))


def test_time_runs_out_with_valid_answers(many: Any):
    model, data, rows = many
    explainer = cp.Explainer(model, data=data, extrapolate=True)
    short = explainer.explain(rows, 5, time_limit=1e-9)
    known = {cp.Status.LIMIT, cp.Status.ALREADY, cp.Status.OPTIMAL}
    assert set(short.status) <= known
    assert cp.Status.LIMIT in set(short.status)
    free = explainer.explain(rows, 5)
    assert (short.bound <= free.cost * (1.0 + RELATIVE)).all()
    assert (explainer.explain(rows, 5, time_limit=60.0).cost == free.cost).all()


@pytest.mark.usefixtures("celled")
def test_each_row_of_a_batch_has_all_of_its_time(monkeypatch: pytest.MonkeyPatch):
    """A second passes whenever the clock is looked at: together the rows take longer than one may.

    The time of all rows began with the first one's search.
    """
    X, y = points(60, 3)
    explainer, rows = cp.Explainer(nearest(X, y), data=X), X[y != 5][:16]
    clock = iter(range(10**9))
    monkeypatch.setattr(cells, "perf_counter", lambda: float(next(clock)))
    longest = 0
    for k in range(len(rows)):
        start = next(clock)
        explainer.explain(rows[k : k + 1], 5)
        longest = max(longest, next(clock) - start)
    start = next(clock)
    answers = explainer.explain(rows, 5, time_limit=float(longest))
    assert next(clock) - start > longest
    assert cp.Status.LIMIT not in answers.status


def test_what_is_out_of_reach_is_proved_and_explained():
    X, y = points(310, 10, 5)
    model, data, rows = nearest(X[10:], y[10:]), X[10:], X[:10]
    held = [cp.Immutable(*(f"x{j}" for j in range(2, 10)))]
    tight = [cp.Bounds(f"x{j}", fall=0.01, rise=0.01) for j in range(2)]
    explainer = cp.Explainer(model, data=data, extrapolate=True, constraints=[*held, *tight])
    answers = explainer.explain(rows, 7)
    assert set(answers.status) <= {cp.Status.INFEASIBLE, cp.Status.ALREADY}
    at = int(np.flatnonzero(answers.status == cp.Status.INFEASIBLE)[0])
    assert answers[at].certificate.claim == cp.Claim.PROVED
    conflict = answers[at].conflict
    assert conflict is not None
    named = list(conflict.constraints)
    assert named
    assert (
        cp.explain(model, rows[[at]], 7, data=data, extrapolate=True, constraints=named).status
        == "infeasible"
    )[0]


def test_one_cell_alone(celled):
    """What is cheapest in each cell by itself is cheapest in all of them for one of them."""
    X, y = points(40, 3)
    explainer = cp.Explainer(nearest(X, y), cost=cp.Manhattan())
    row = X[[0]]
    best = explainer.explain(row, cp.OtherLabel())
    several = cp.diversify(explainer, row, cp.OtherLabel(), 40, by="piece")[0]
    assert len(several) > 10
    assert several[0].cost == pytest.approx(best.cost[0], rel=1e-9)


def test_cells_are_a_sequence_of_regions():
    X, y = points(30, 2)
    cells = Prototypes.from_arrays(X, y).regions(cp.Label(3))
    assert isinstance(cells, VoronoiCells)
    assert len(cells) == len(list(cells)) == len(cells[:]) == (y == 3).sum()
    assert cells.size == (y == 3).sum() * (y != 3).sum()
    here = X + 0.01
    for s, region in enumerate(cells):
        inside = region.violation(here, here) == 0.0
        np.testing.assert_array_equal(inside, cells[s - len(cells)].violation(here, here) == 0.0)
        for i, point in enumerate(here):
            assert (len(cells.missed(s, point, np.zeros(2))) == 0) == inside[i]


# What a record holds


def sealed(record: dict[str, Any], proof: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A record with another proof of its cells, and a digest that fits."""
    body = {key: value for key, value in record.items() if key != "digest"}
    body |= {"proof": [record["proof"][0] | {"own": proof}], **fields}
    return {**body, "digest": digest(canonical(body))}


def record_of(answers: cp.Counterfactuals, i: int) -> dict[str, Any]:
    return json.loads(json.dumps(answers[i].to_record()))


def tampered(proof: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Other proofs of cells: some left out, other multipliers, half-spaces of other rivals."""
    entries = proof["cells"]
    for k, entry in enumerate(entries):
        others = [*entries[:k], *entries[k + 1 :]]
        (piece,) = entry["proof"]
        yield proof | {"cells": others}
        for factor in (-1.0, 0.5, 1.1, 1e6):
            multipliers = [factor * v for v in piece["multipliers"]]
            other = entry | {"proof": [piece | {"multipliers": multipliers}]}
            yield proof | {"cells": [*others, other]}
        rivals = [r + 1 if r < 20 else r - 1 for r in entry["rivals"]]
        yield proof | {"cells": [*others, entry | {"rivals": rivals}]}
        cell = entry["cell"] + 1 if entry["cell"] < 20 else entry["cell"] - 1
        yield proof | {"cells": [*others, entry | {"cell": cell}]}
    yield proof | {"cells": []}
    yield proof | {"rival": (proof["rival"] + 1) % 20}


@pytest.mark.parametrize("cost", costs(4))
def test_the_proof_of_a_record_is_of_its_cells_and_of_no_others(celled, cost: str):
    """Whatever is changed proves less, or is refused; never more than brute force finds."""
    X, y = points(60, 4)
    model = nearest(X, y)
    names = [f"x{j}" for j in range(4)]
    frame = pd.DataFrame(X, columns=names)
    explainer = cp.Explainer(model, data=frame, cost=costs(4)[cost], extrapolate=True)
    rows = frame.iloc[np.flatnonzero(y != 3)[:2]]
    answers, lesser = explainer.explain(rows, 3), 0
    oracle = Oracle(model, 4, costs(4)[cost])
    for i in range(len(rows)):
        best = oracle.best(rows.to_numpy()[i], np.array([3]), (-FREE, FREE), LIMITS["free"][2], 0.0)
        record = record_of(answers, i)
        found = cp.recheck(record, model)
        assert found.ok, found.problems
        assert found.proved.all()
        assert record["proved_bound"] <= best * (1.0 + 1e-9)
        proof = record["proof"][0]["own"]
        assert proof["cells"]
        for forged in tampered(proof):
            lesser += not cp.recheck(sealed(record, forged), model).ok
            # no proof carries an answer that is dearer by a thousandth
            dear = 1.001 * best
            told = {"cost": dear, "objective": dear, "bound": dear, "proved_bound": dear}
            lie = cp.recheck(sealed(record, forged, **told), model)
            assert "Its proved bound is not what is computed." in lie.problems
    assert lesser > 4


@pytest.mark.parametrize(
    "change",
    [
        {"rival": -1},
        {"rival": 10**9},
        {"rival": 0.0},
        {"rivals": 0},
        {"rivals": [[0]]},
        {"rivals": [[0, 10**9]]},
        {"rivals": [[-1, 0]]},
        {"cells": [{}]},
        {"cells": [{"cell": True, "rivals": [], "proof": []}]},
        {"cells": [{"cell": 0, "rivals": [10**9], "proof": []}]},
        {"cells": [{"cell": 0, "rivals": [0], "proof": [{"multipliers": [1.0, 2.0]}]}]},
        {"more": 1},
    ],
    ids=str,
)
def test_what_is_no_proof_of_cells_is_refused(celled, change: dict[str, Any]):
    X, y = points(30, 2)
    model = nearest(X, y)
    record = record_of(cp.Explainer(model, data=X).explain(X[y != 3][:1], 3), 0)
    assert cp.recheck(record, model).ok
    forged = sealed(record, record["proof"][0]["own"] | change)
    assert not cp.recheck(forged, model, accept_reported=True).ok


def test_records_over_whole_steps_hold_trees_and_of_what_is_out_of_reach_a_refutation(celled):
    X, y = points(60, 2, 2)
    frame = pd.DataFrame(np.round(4.0 * X), columns=["a", "b"])
    model = nearest(frame, y)
    kinds = [cp.Integer("a"), cp.Integer("b")]
    rules = [cp.Bounds("a", fall=2.0, rise=2.0), cp.MaxChanges(1)]
    trees, statuses = 0, set()
    for more in ([], rules, [cp.Immutable("a"), cp.Bounds("b", fall=0.0, rise=1.0)]):
        cost = cp.SquaredEuclidean([1.0, 1.3])
        explainer = cp.Explainer(model, data=frame, features=kinds, cost=cost, constraints=more)
        answers = explainer.explain(frame.head(12), cp.OtherLabel())
        for i, answer in enumerate(answers):
            record = record_of(answers, i)
            statuses.add(record["status"])
            assert (record["status"], record["claim"]) == (answer.status, answer.certificate.claim)
            assert record["claim"] == "proved"
            found = cp.recheck(record, model)
            assert found.ok, found.problems
            trees += "trees" in str(record["proof"])
    assert trees
    assert statuses == {"optimal", "infeasible"}


def test_a_rival_that_is_the_same_score_has_no_row():
    """A row of zeros, closed in by a margin, would refute a cell that is there."""
    form = Prototypes.from_arrays([[0.0], [0.0], [4.0]], ["a", "b", "c"], first_wins=True)
    cells = form.regions(cp.OtherLabel("b"))
    assert isinstance(cells, VoronoiCells)
    every = np.arange(len(cells.rivals))
    for s in range(len(cells)):
        assert cells.rows(s, every).matrix.any(axis=1).all()


@pytest.mark.parametrize("extrapolate", [True, False])
def test_one_small_program_a_cell_finds_and_proves_what_the_general_search_does(
    monkeypatch: pytest.MonkeyPatch, extrapolate: bool
):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 6)), random.integers(0, 2, 200)
    model = KNeighborsClassifier(1, algorithm="brute").fit(X, y)
    rows = X[model.predict(X) == 0][:12] + 0.1
    costs = []
    for plain in (True, False):
        if not plain:
            monkeypatch.setattr(cells, "is_plain", lambda _: False)
        explainer = cp.Explainer(model, data=X, cost=cp.SquaredEuclidean(), extrapolate=extrapolate)
        answers = explainer.explain(rows, 1)
        assert set(answers.status) <= {cp.Status.OPTIMAL, cp.Status.ALREADY}
        records = [answer.to_record() for answer in answers]
        assert cp.recheck(records, model).proved.all()
        costs.append(answers.cost)
    np.testing.assert_allclose(*costs, rtol=1e-9)
