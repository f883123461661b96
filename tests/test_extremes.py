"""A row whose numbers cannot be computed with is invalid, and no other of its batch is lost."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, SplineTransformer, StandardScaler

import counterpoint as cp
from counterpoint.lvq import LGMLVQ
from counterpoint.models.reading import ReadModel

RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.normal(size=80), "b": 3.0 * RNG.normal(size=80)})
Y = (X["a"] + 0.2 * X["b"] > 0.0).to_numpy()
FAMILIES: dict[str, Any] = {
    "linear": LogisticRegression(),
    "scaled": make_pipeline(StandardScaler(), LogisticRegression()),
    "bins": make_pipeline(
        KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"), LogisticRegression()
    ),
    "splines": make_pipeline(SplineTransformer(n_knots=4), LogisticRegression()),
    "bayes": GaussianNB(),
    "qda": QuadraticDiscriminantAnalysis(),
    "nearest": KNeighborsClassifier(1),
    "local metrics": LGMLVQ(random_state=0),
    "forest": RandomForestClassifier(5, max_depth=3, random_state=0),
}
CELLS = (
    *(1e308, -1.7e308, 1e200, 1e155, 5e-324, np.inf, np.nan, 1e19, 10**30, 10**400, 2**64),
    *(np.float32(1e38), np.int64(2**62), Decimal("1.5"), Decimal("1e400"), True),
    *(pd.Timestamp("2020"), np.datetime64("2020-01-01"), "text", None),
)


@cache
def explainer(name: str) -> cp.Explainer:
    return cp.Explainer(FAMILIES[name].fit(X, Y), data=X)


@pytest.mark.parametrize("cell", CELLS, ids=repr)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.covering(1)
def test_no_cell_loses_the_other_rows(name: str, cell: Any):
    one, rows = explainer(name), X.head(4).astype(object)
    rows.iloc[1, 0] = cell
    answers = one.explain(rows, cp.OtherLabel(), time_limit=2.0)
    plain = one.explain(X.head(4), cp.OtherLabel(), time_limit=2.0)
    others = [0, 2, 3]
    assert answers.status[others].tolist() == plain.status[others].tolist()
    assert np.allclose(answers.certificates.cost[others], plain.certificates.cost[others], 1e-6)
    assert answers.message(1)
    assert len(answers.to_frame()) == 4


@pytest.mark.parametrize("weight", [5e-324, 1e-320, 1e-308, 1e-200, 1e200, 1.7e308])
@pytest.mark.parametrize("cost", [cp.Manhattan, cp.SquaredEuclidean])
@pytest.mark.parametrize("name", ["linear", "bins", "local metrics", "forest"])
@pytest.mark.covering(1)
def test_no_weight_of_a_cost_is_an_exception(name: str, cost: Any, weight: float):
    for weights in ({"a": weight, "b": 1.0}, {"a": weight, "b": weight}):
        asked = explainer(name).adding(cost=cost(weights))
        answers = asked.explain(X.head(3), cp.OtherLabel(), time_limit=2.0)
        assert all(answers.message(i) for i in range(3))


def test_a_weight_that_nothing_can_be_divided_by():
    asked = explainer("linear").adding(cost=cp.SquaredEuclidean({"a": 5e-324, "b": 1.0}))
    answers = asked.explain(X.head(3), cp.OtherLabel())
    assert set(answers.status) == {cp.Status.INVALID}
    assert answers.message(2).startswith("its numbers, with those of the model and the cost, are ")
    assert answers.message(2).endswith("Rescale the columns, or the weights of the cost.")
    assert not answers.certificates.valid.any()
    assert (answers.after == X.head(3)).all(axis=None)
    assert cp.recheck([answer.to_record() for answer in answers], FAMILIES["linear"]).ok


@pytest.mark.parametrize("error", [ZeroDivisionError, OverflowError, FloatingPointError])
def test_of_a_large_batch_only_the_row_that_fails_is_lost(monkeypatch: Any, error: Any):
    """It is found by halves: the model is asked some ten times, and not once for each row."""
    many = pd.concat([X] * 2, ignore_index=True)
    one = explainer("linear")
    plain, asked = one.explain(many, cp.OtherLabel()), list[int]()
    predict, name = ReadModel.predict, next(iter(many.columns))

    def failing(self: ReadModel, *tables: Any) -> Any:
        asked.append(len(tables[0]))
        if (tables[0].column(name) == many[name].iloc[7]).any():
            raise error("too small")
        return predict(self, *tables)

    monkeypatch.setattr(ReadModel, "predict", failing)
    answers = one.explain(many, cp.OtherLabel())
    lost = np.flatnonzero(many[name] == many[name].iloc[7])
    assert answers.problems.keys() == set(lost.tolist())
    assert "(too small)" in answers.message(7)
    assert len(asked) < 60
    good = np.delete(np.arange(len(many)), lost)
    assert (answers.statuses[good] == plain.statuses[good]).all()
    assert np.allclose(answers.certificates.cost[good], plain.certificates.cost[good], 1e-9)
