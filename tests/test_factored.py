"""Answers as x̄ and a few coefficients: the same answers, without an array of rows × columns."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

import counterpoint as cp
from counterpoint.search import span

ROWS, WIDTH, CLASSES = 60, 40, 4


def texts(rng: np.random.Generator, rows: int = ROWS, width: int = WIDTH) -> Any:
    return sparse.random_array((rows, width), density=0.15, format="csr", rng=rng)


@pytest.fixture(scope="module")
def rows() -> Any:
    return texts(np.random.default_rng(0))


@pytest.fixture(scope="module")
def labels() -> np.ndarray:
    return np.random.default_rng(1).integers(CLASSES, size=ROWS)


@pytest.fixture(scope="module")
def model(rows: Any, labels: np.ndarray) -> Any:
    return LogisticRegression(C=30.0, max_iter=500).fit(rows, labels)


def costs() -> list[cp.Cost]:
    rng = np.random.default_rng(2)
    root = rng.normal(size=(WIDTH, WIDTH))
    return [
        cp.SquaredEuclidean(),
        cp.SquaredEuclidean(rng.uniform(0.1, 10.0, WIDTH)),
        cp.Mahalanobis(root @ root.T + np.eye(WIDTH)),
    ]


def targets() -> list[cp.Target]:
    made: list[cp.Target] = [cp.OtherLabel()]
    for k in range(CLASSES):
        made += [cp.Label(k), cp.Label(k, margin=0.5), cp.Probability(k, 0.8), cp.Tradeoff(k, 0.1)]
    return made


@pytest.mark.parametrize("cost", costs(), ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("target", targets(), ids=repr)
def test_the_answers_are_those_of_dense_rows(
    model: Any, rows: Any, target: cp.Target, cost: cp.Cost
):
    explainer = cp.Explainer(model, cost=cost)
    dense, few = explainer.explain(rows.toarray(), target), explainer.explain_factored(rows, target)
    assert few.status.tolist() == dense.status.tolist()
    assert few.cost == pytest.approx(dense.cost, rel=1e-7, abs=1e-12)
    assert few.rows(slice(None)) == pytest.approx(dense.to_frame(), abs=1e-5)
    assert np.nanmax(few.gap) <= 1e-6
    if not isinstance(target, cp.Tradeoff | cp.OtherLabel):
        assert (model.predict(few.rows(slice(None))) == target.label).sum() >= ROWS // 2
    if isinstance(target, cp.Probability | cp.Tradeoff):
        said = model.predict_proba(few.rows(slice(None)))[:, target.label]
        assert few.probability == pytest.approx(said, rel=1e-9)


@pytest.mark.parametrize(
    "kind", [sparse.csc_array, sparse.coo_matrix, sparse.lil_array, np.asarray], ids=str
)
def test_rows_may_come_in_any_format(model: Any, rows: Any, kind: Any):
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    given = kind(rows.toarray())
    answers = explainer.explain_factored(given, cp.Probability(1, 0.9))
    expected = explainer.explain_factored(rows, cp.Probability(1, 0.9))
    assert answers.coefficients == pytest.approx(expected.coefficients, abs=1e-9)
    assert answers.found.all()


def test_rows_are_not_written_to(model: Any):
    """Not even to add up entries that stand in the same cell."""
    twice = sparse.csr_array(
        (np.array([1.0, 2.0, 3.0]), np.array([5, 0, 5]), np.array([0, 3])), shape=(1, WIDTH)
    )
    parts = (twice.data, twice.indices, twice.indptr)
    kept = [np.array(part) for part in parts]
    for part in parts:
        part.flags.writeable = False
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    answers = explainer.explain_factored(twice, cp.Probability(1, 0.9))
    expected = explainer.explain_factored(twice.toarray(), cp.Probability(1, 0.9))
    assert answers.coefficients == pytest.approx(expected.coefficients, abs=1e-9)
    for part, before in zip(parts, kept, strict=True):
        np.testing.assert_array_equal(part, before)


def test_single_precision_stays_single_and_valid(model: Any, rows: Any):
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    for target in (cp.Label(2), cp.Probability(2, 0.9)):
        answers = explainer.explain_factored(rows.astype(np.float32), target, gap=1e-2)
        full = answers.rows(slice(None))
        assert full.dtype == np.float32
        assert answers.found.all()
        assert (model.predict(full) == 2).all()
        # A lead by the rounding error of 40 terms in float32 has its price.
        changed = answers.status != cp.Status.ALREADY
        assert (answers.status[changed] == cp.Status.OPTIMAL).all()
        certificates = answers.answers.certificates
        assert not certificates.on_edge[changed].any()
        assert (certificates.margin[changed] <= 4.0 * certificates.rounding[changed]).all()
    assert (model.predict_proba(full)[:, 2] >= 0.9).all()


def test_a_pipeline_is_seen_through(rows: Any, labels: np.ndarray):
    steps = make_pipeline(MaxAbsScaler(), StandardScaler(with_mean=False), LogisticRegression())
    steps.fit(rows, labels)
    explainer = cp.Explainer(steps, cost=cp.SquaredEuclidean())
    answers = explainer.explain_factored(rows, cp.Label(0))
    assert (steps.predict(answers.rows(slice(None))) == 0).all()


def test_models_with_scores_alone(rows: Any, labels: np.ndarray):
    svm = LinearSVC().fit(rows, labels == 1)
    answers = cp.Explainer(svm, cost=cp.SquaredEuclidean()).explain_factored(rows, True)
    assert svm.predict(answers.rows(slice(None))).all()
    with pytest.raises(cp.InvalidInput, match="Tradeoff needs class probabilities"):
        cp.Explainer(svm, cost=cp.SquaredEuclidean()).explain_factored(rows, cp.Tradeoff(True, 1.0))


def test_immutable_columns_stay_to_the_bit(model: Any, rows: Any):
    frozen = [cp.Immutable(*(f"x{j}" for j in range(0, WIDTH, 3)))]
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean(), constraints=frozen)
    answers = explainer.explain_factored(rows, cp.Probability(3, 0.7))
    before, after = rows.toarray(), answers.rows(slice(None))
    assert (before[:, ::3] == after[:, ::3]).all()
    dense = explainer.explain(before, cp.Probability(3, 0.7))
    assert answers.cost == pytest.approx(dense.cost, rel=1e-9)


def test_a_row_that_cannot_be_used_keeps_its_place(model: Any, rows: Any):
    broken = rows.toarray()
    broken[5, 7] = np.nan
    broken[9, 0] = np.inf
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    masked = np.ma.masked_array(rows.toarray(), mask=~np.isfinite(broken))
    assert (explainer.explain_factored(masked, cp.Label(1)).status[[5, 9]] == "invalid").all()
    answers = explainer.explain_factored(broken, cp.Label(1))
    bad = np.flatnonzero(answers.status == "invalid")
    assert bad.tolist() == [5, 9]
    assert "missing or infinite" in answers[5].message
    full = answers.rows(slice(None))
    assert np.isnan(full[bad]).all()
    assert not np.isnan(np.delete(full, bad, axis=0)).any()


def test_one_row_has_its_changes(model: Any, rows: Any):
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    answers = explainer.explain_factored(rows, cp.Label(1))
    i = int(np.flatnonzero(answers.status == "optimal")[0])
    before, after = rows[i].toarray().ravel(), answers.rows(slice(i, i + 1))[0]
    assert answers[i].changes == {
        f"x{j}": (before[j], after[j]) for j in np.flatnonzero(before != after)
    }
    largest = answers.changes(i, most=3)
    sizes = [abs(b - a) for a, b in largest.values()]
    assert len(largest) == 3
    assert sizes == sorted(np.abs(after - before), reverse=True)[:3]
    assert answers.report()["status"].tolist() == [str(s) for s in answers.status]
    assert len(answers) == ROWS
    assert repr(answers).startswith("<FactoredCounterfactuals: 60 rows: ")


def test_answers_are_written_in_blocks(model: Any, rows: Any, tmp_path: Any):
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    answers = explainer.explain_factored(rows, cp.Tradeoff(0, 0.5))
    sink = np.lib.format.open_memmap(
        tmp_path / "answers.npy", mode="w+", dtype=np.float64, shape=rows.shape
    )
    memory = 8 * WIDTH * 7
    answers.write(sink, memory)
    sizes = [part.stop - part.start for part, _ in answers.blocks(memory)]
    assert max(sizes) == 7
    assert sum(sizes) == ROWS
    assert (np.load(tmp_path / "answers.npy") == answers.rows(slice(None))).all()


def test_full_rows_take_their_budget_once():
    rng = np.random.default_rng(0)
    n, d = 1500, 20_000
    X = sparse.random_array((n, d), density=1e-3, format="csr", rng=rng)
    model = LogisticRegression(max_iter=3)
    model.classes_, model.n_features_in_ = np.arange(3), d
    model.coef_, model.intercept_ = rng.normal(size=(3, d)), np.zeros(3)
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    budget = 8 * d * span.ROWS
    tracemalloc.start()
    answers = explainer.explain_factored(X, cp.Probability(1, 0.99))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answers.found.all()
    assert peak < 1.5 * budget < 0.07 * 8 * n * d


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cost": cp.Manhattan()}, "Expected a quadratic cost over numbers"),
        (
            {"cost": cp.SquaredEuclidean(), "constraints": [cp.Bounds("x3", low=0.0)]},
            r"Expected no constraints but Immutable.*got x3 is at least 0",
        ),
        (
            {"cost": cp.SquaredEuclidean(), "constraints": [cp.MaxChanges(2)]},
            "Expected no constraints but Immutable",
        ),
    ],
)
def test_what_cannot_be_factored_is_said(
    model: Any, rows: Any, options: dict[str, Any], sentence: str
):
    with pytest.raises(cp.InvalidInput, match=sentence):
        cp.Explainer(model, **options).explain_factored(rows, 1)


def test_two_classes_may_cost_absolute_differences(rows: Any, labels: np.ndarray):
    two = LogisticRegression().fit(rows, labels == 1)
    held = cp.Immutable(*(f"x{j}" for j in range(0, WIDTH, 2)))
    explainer = cp.Explainer(two, cost=cp.Manhattan(), constraints=held)
    for target in (True, cp.OtherLabel(), cp.Probability(False, 0.9), cp.Tradeoff(True, 0.3)):
        answers = explainer.explain_factored(rows, target)
        full = explainer.explain(rows.toarray(), target)
        assert (answers.status == full.status).all()
        assert answers.cost == pytest.approx(full.cost, rel=1e-9, abs=1e-12)
        assert (answers.answers.certificates.claim == full.certificates.claim).all()


def test_models_without_linear_scores_are_refused(rows: Any, labels: np.ndarray):
    for fitted in (LinearRegression(), SVC(kernel="linear")):
        fitted.fit(rows.toarray(), labels)
        with pytest.raises(cp.InvalidInput, match="one linear score a class"):
            cp.Explainer(fitted, cost=cp.SquaredEuclidean()).explain_factored(rows, 1)


def test_rows_must_fit(model: Any, rows: Any):
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    with pytest.raises(cp.InvalidInput, match=r"Expected rows of 40 columns; got shape \(60, 39\)"):
        explainer.explain_factored(rows[:, 1:], 1)
    with pytest.raises(cp.InvalidInput, match="Expected numbers; got dtype"):
        explainer.explain_factored(np.full((2, WIDTH), "a"), 1)
    with pytest.raises(cp.InvalidInput, match="explain_factored"):
        explainer.explain(rows, 1)


def softmax_model(matrix: np.ndarray, offset: np.ndarray) -> Any:
    model = LogisticRegression()
    model.coef_, model.intercept_ = matrix, offset
    model.classes_, model.n_features_in_ = np.arange(len(matrix)), matrix.shape[1]
    return model


@pytest.mark.parametrize("seed", range(12))
def test_scores_that_no_free_column_moves_count_as_they_are(seed: int):
    """Fewer free columns than classes: the rest of the scores is held, not projected away."""
    rng = np.random.default_rng(seed)
    matrix, offset, X = rng.normal(size=(4, 5)), rng.normal(size=4), rng.normal(size=(3, 5))
    frozen = [cp.Immutable("x0", "x1", "x2")]
    explainer = cp.Explainer(
        softmax_model(matrix, offset), cost=cp.SquaredEuclidean(), constraints=frozen
    )
    for target in (cp.Probability(2, 0.4), cp.Tradeoff(1, 0.3), cp.Label(0)):
        dense, few = explainer.explain(X, target), explainer.explain_factored(X, target)
        assert few.status.tolist() == dense.status.tolist()
        assert few.cost == pytest.approx(dense.cost, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("common", [1e3, 1e6])
def test_what_all_classes_share_does_not_count(common: float):
    rng = np.random.default_rng(2)
    shared = rng.normal(size=6) * common
    matrix, X = rng.normal(size=(4, 6)) + shared, rng.normal(size=(1, 6))
    X -= np.outer(X @ shared, shared) / (shared @ shared)
    explainer = cp.Explainer(softmax_model(matrix, np.zeros(4)), cost=cp.SquaredEuclidean())
    dense = explainer.explain(X, cp.Probability(2, 0.9))
    few = explainer.explain_factored(X, cp.Probability(2, 0.9))
    # Each leads by what the model's own sums of such terms may be off, at about 1 a log-odds.
    safety_margins = [answers.certificates.margin[0] for answers in (dense, few.answers)]
    assert few.cost == pytest.approx(
        dense.cost, rel=1e-9, abs=2.0 * abs(safety_margins[0] - safety_margins[1])
    )
    assert few.bound[0] <= dense.cost[0] * (1.0 + 1e-9)


def test_empty_texts_have_answers():
    model = softmax_model(np.array([[1.0, 2.0], [0.0, 1.0], [-1.0, 0.0]]), np.zeros(3))
    nothing = np.zeros((2, 2))
    for weight in (1.0, 1e12):
        explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
        assert explainer.explain(nothing, cp.Tradeoff(1, weight)).found.all()
        assert explainer.explain_factored(nothing, cp.Tradeoff(1, weight)).found.all()
