"""Deep forests: moves of single features, memory, and answers that time does not make worse."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import counterpoint as cp
from counterpoint.families.trees import leaf_bound, search
from counterpoint.families.trees.boxes import CellBoxes, RowCosts
from counterpoint.families.trees.form import LeafSums
from counterpoint.families.trees.leaf_bound import Exchange, LeafBound
from counterpoint.families.trees.proofs import _cheaper
from counterpoint.rows.encoding import encode
from counterpoint.rows.table import Table
from counterpoint.search import validation, witnesses

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "a": RNG.normal(size=400),
        "b": RNG.normal(size=400),
        "count": RNG.integers(0, 12, 400),
        "word": pd.Categorical(RNG.choice(["x", "y", "z", "w"], 400)),
    }
)
LABELS = (FRAME["a"] + FRAME["b"] * FRAME["count"] / 6 + (FRAME["word"] == "x") > 0.4).to_numpy()
BOOSTED = HistGradientBoostingClassifier(max_iter=15, categorical_features="from_dtype").fit(
    FRAME, LABELS
)
CANCER = load_breast_cancer(as_frame=True, return_X_y=True)
DEEP = RandomForestClassifier(25, random_state=0).fit(*CANCER)


def leaf_bound_of(
    model: Any, frame: pd.DataFrame, i: int, *constraints: cp.Constraint
) -> LeafBound:
    explainer = cp.Explainer(model, data=frame, constraints=constraints)
    query = explainer.explain(frame.head(1), True).query
    row = encode(Table.read(frame.iloc[[i]]), query.features).codes
    program = query.asking(target=cp.Label(True)).union.listed[0].program
    condition = next(c for c in program.region if isinstance(c, LeafSums))
    case = program.cases(query.features.expand(row))
    grid = condition.form.grid(program.domain.groups, case.x[0])
    values = np.ascontiguousarray(condition.weights @ grid.values.T)
    return LeafBound(RowCosts(grid, program, case), condition, 0.0, values)


@pytest.mark.parametrize("model", [BOOSTED, DEEP], ids=["categories", "numbers"])
def test_moves_are_what_the_trees_say_of_each_neighbour(model: Any):
    frame = FRAME if model is BOOSTED else CANCER[0]
    leaf_bound = leaf_bound_of(model, frame, 3)
    row, grid = leaf_bound.row, leaf_bound.grid
    rng, moves = np.random.default_rng(1), Exchange(leaf_bound, leaf_bound.needs, lambda *_: None)
    for _ in range(3):
        cells = rng.integers(0, row.top + 1)
        categories = np.array([rng.integers(s.start, s.stop) for s in grid.spans], dtype=np.intp)
        moved = moves.sums(cells, categories)[1]
        for k in rng.integers(0, moved.shape[1], 40).tolist():
            at = np.append(grid.starts[:-1] + cells, len(row.paid) + categories)
            at[moves.feature[k]] = k
            after = np.split(at, [len(cells)])
            own = grid.passed(after[0] - grid.starts[:-1], after[1] - len(row.paid))
            own = own[grid.tests].all(axis=1)
            assert own.sum() == len(grid.tree_starts)
            sums = leaf_bound.values[:, own].sum(axis=1) + leaf_bound.condition.shift
            np.testing.assert_allclose(moved[:, k], sums, atol=1e-12)


@pytest.mark.parametrize("constraints", [(), (cp.MaxChanges(2),)], ids=["free", "two changes"])
def test_what_moves_lead_to_meets_the_demands(constraints: Any):
    i = int(np.flatnonzero(~BOOSTED.predict(FRAME))[0])
    leaf_bound = leaf_bound_of(BOOSTED, FRAME, i, *constraints)
    row, offered = leaf_bound.row, []

    def offer(cells: np.ndarray, categories: np.ndarray) -> None:
        assert (moves.sums(cells, categories)[0] >= 0.0).all()
        assert row.allows(cells, categories)
        offered.append(row.cost_of(cells, categories))

    moves = Exchange(leaf_bound, leaf_bound.needs, offer)
    nearest, rng = row.costs(row.root), np.random.default_rng(0)
    moves.greedy(nearest.cells[0], nearest.categories[0])
    assert offered
    for _ in range(4):
        categories = np.array([rng.integers(s.start, s.stop) for s in leaf_bound.grid.spans])
        moves.greedy(rng.integers(0, row.top + 1), categories)
    explainer = cp.Explainer(BOOSTED, data=FRAME, constraints=constraints)
    least = explainer.explain(FRAME.iloc[[i]], True).cost[0]
    assert least * (1.0 - 1e-6) <= min(offered)


def test_boxes_whose_leaves_are_not_remembered_are_searched_alike(monkeypatch: pytest.MonkeyPatch):
    frame = CANCER[0].iloc[:, :6]
    model = RandomForestClassifier(12, max_depth=4, random_state=0).fit(frame, CANCER[1])
    rows = frame[model.predict(frame) == 0].head(4)
    explainer = cp.Explainer(model, data=frame)
    plain = explainer.explain(rows, 1)
    monkeypatch.setattr(search, "MOST_LEAVES", 0)
    monkeypatch.setattr(search, "WITNESSES_AFTER", 4)
    other = explainer.explain(rows, 1)
    np.testing.assert_allclose(other.cost, plain.cost, rtol=1e-6)
    assert (other.status == plain.status).all()


def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time goes on by a hundredth of a second whenever somebody looks."""
    ticks = count()
    clock: Callable[[], float] = lambda: 0.01 * next(ticks)  # noqa: E731
    for module in (validation, leaf_bound, search, witnesses):
        monkeypatch.setattr(module, "clock", clock)


def test_no_worse_than_a_naive_search_and_no_worse_with_time(monkeypatch: pytest.MonkeyPatch):
    frame = CANCER[0]
    explainer = cp.Explainer(DEEP, data=frame)
    ticking(monkeypatch)
    predicted = DEEP.predict(frame)
    rows, known = frame[predicted == 0].iloc[[0, 100]], frame[predicted == 1]
    encoded_cost = np.array([1.0 / explainer.spreads[name][0] for name in frame])
    costs = []
    for seconds in (1.0, 4.0):
        answers = explainer.explain(rows, 1, time_limit=seconds)
        assert answers.found.all()
        assert (DEEP.predict(answers.to_frame()) == 1).all()
        costs.append(answers.cost)
    assert (np.diff(costs, axis=0) <= 1e-9).all()
    for i in range(len(rows)):
        x = rows.iloc[i].to_numpy()
        away = encoded_cost * np.abs(known.to_numpy() - x)
        nearest = known.to_numpy()[np.argsort(away.sum(axis=1))[:15]]
        for point in nearest:
            for j in np.argsort(-encoded_cost * np.abs(point - x)):
                trial = point.copy()
                trial[j] = x[j]
                if DEEP.predict(pd.DataFrame([trial], columns=frame.columns))[0] == 1:
                    point[j] = x[j]
        assert costs[-1][i] <= (encoded_cost * np.abs(nearest - x)).sum(axis=1).min() * (1.0 + 1e-9)


def test_no_leaf_costs_less_where_a_proof_is_checked_than_in_the_search():
    """To the last digit: a bound is the cost of a leaf, and what is below it fails the proof."""
    frame = CANCER[0]
    row = leaf_bound_of(DEEP, frame, int(np.flatnonzero(DEEP.predict(frame) == 0)[0])).row
    leaves, rng = np.arange(len(row.grid.tests)), np.random.default_rng(0)
    ends = np.sort(rng.integers(0, row.top + 1, size=(2, 20, len(row.top))), axis=0)
    for k in range(20):
        box = CellBoxes(ends[0, k : k + 1], ends[1, k : k + 1], np.ones((1, 0), dtype=bool))
        cost = row.leaf_costs(row.costs(box), leaves, np.zeros(len(leaves), dtype=np.intp))[0]
        for leaf in rng.choice(np.flatnonzero(np.isfinite(cost)), 20).tolist():
            assert not _cheaper([row], box, leaves, cost[leaf])[leaf, 0]


def test_without_memory_the_best_answer_so_far_stays(monkeypatch: pytest.MonkeyPatch):
    frame = CANCER[0]
    row = frame[DEEP.predict(frame) == 0].iloc[[0]]

    def full(*_: Any) -> Any:
        raise MemoryError

    explainer = cp.Explainer(DEEP, data=frame)
    monkeypatch.setattr(LeafBound, "look", full)
    answer = explainer.explain(row, 1, time_limit=30.0)[0]
    assert answer.status == "limit"
    assert answer.certificate.valid
    assert answer.certificate.bound < answer.cost
    assert cp.recheck(answer.to_record(), DEEP).ok
