"""Laws of every family: what is called optimal has a gap of at most what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, SplineTransformer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import counterpoint as cp
from counterpoint.lvq import GLVQ, GMLVQ

STUMP = DecisionTreeClassifier(max_depth=1, random_state=0)


def packaged(package: str, name: str, **options: Any) -> Any:
    return getattr(pytest.importorskip(package), name)(**options)


FAMILIES: dict[str, Callable[[], Any]] = {
    "softmax": lambda: LogisticRegression(max_iter=2000),
    "linear": LinearSVC,
    "scaled": lambda: make_pipeline(StandardScaler(), RidgeClassifier()),
    "bins": lambda: make_pipeline(
        KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"), LogisticRegression()
    ),
    "splines": lambda: make_pipeline(
        SplineTransformer(n_knots=3, degree=1), LogisticRegression(max_iter=2000)
    ),
    "Gaussians": GaussianNB,
    "one neighbour": lambda: KNeighborsClassifier(1),
    "GLVQ": lambda: GLVQ(random_state=0),
    "GMLVQ": lambda: GMLVQ(random_state=0),
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "forest": lambda: RandomForestClassifier(8, random_state=0),
    "forest in threads": lambda: RandomForestClassifier(6, max_depth=2, random_state=0, n_jobs=2),
    "votes": lambda: VotingClassifier([("a", STUMP), ("b", DecisionTreeClassifier(max_depth=2))]),
    "AdaBoost": lambda: AdaBoostClassifier(STUMP, n_estimators=5, random_state=0),
    "boosted": lambda: GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=3, max_depth=2),
    "XGBoost": lambda: packaged("xgboost", "XGBClassifier", n_estimators=3, max_depth=2),
    "LightGBM": lambda: packaged("lightgbm", "LGBMClassifier", n_estimators=3, verbose=-1),
}


DTYPES: dict[str, Any] = {"double": "float64", "single": "float32", "mixed": {"a": "float32"}}


@pytest.mark.further
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_optimal_has_no_larger_gap_than_was_asked_for(name: str, dtype: str) -> None:
    """And what has no larger gap is optimal; so it is in a record, which is found to be true."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.iloc[:, [0, 2, 3]].set_axis(list("abc"), axis=1).astype(DTYPES[dtype])
    model = FAMILIES[name]().fit(X, y)
    rows = X.iloc[:: 25 if dtype == "double" else 50]
    explainer = cp.Explainer(model, data=X)
    for target in (cp.Label(0), cp.Label(1), cp.OtherLabel()):
        for gap in (1e-6, 1e-2):
            answers = explainer.explain(rows, target, gap=gap, time_limit=5.0)
            certificates = answers.certificates
            optimal = answers.status == cp.Status.OPTIMAL
            assert (certificates.gap[optimal] <= gap).all()
            for i in np.flatnonzero(certificates.valid & ~optimal):
                already = answers.status[i] is cp.Status.ALREADY
                assert already or certificates.gap[i] > gap
            records = [answer.to_record() for answer in answers]
            assert cp.recheck(records, model, accept_reported=True).ok
