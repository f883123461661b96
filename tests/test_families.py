"""Take any family off, and the house stands: its import is blocked, and the rest explains."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from counterpoint.families.registry import FAMILIES

WITHOUT = """
import importlib.abc, sys

class Gone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("counterpoint.families.{family}"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Gone())
import numpy as np
import counterpoint as cp
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

rng = np.random.default_rng(0)
X = rng.normal(size=(90, 4))
y = (X @ np.array([1.0, -2.0, 0.5, 0.0]) > 0).astype(int) + (X[:, 3] > 0.8)
binary = y > 0

def check(model, target, rows=X[:6], **options):
    answers = cp.explain(model, rows, target, data=X, **options)
    statuses = {{str(status) for status in answers.status}}
    assert statuses <= {{"optimal", "already"}}, (type(model).__name__, answers.report())
    assert "optimal" in statuses, (type(model).__name__, statuses)
"""
MIDDLE = """
logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, binary)
softmax = LogisticRegression().fit(X, y)
check(logistic, True)
check(logistic, False, cost=cp.SquaredEuclidean())
check(logistic, cp.Probability(True, at_least=0.8))
check(logistic, True, constraints=[cp.MaxChanges(2), cp.Immutable("x3")])
check(softmax, 2)
check(softmax, cp.Probability(0, at_least=0.7), cost=cp.SquaredEuclidean())
check(softmax, cp.Tradeoff(1, weight=0.5), cost=cp.SquaredEuclidean())
check(RidgeClassifier().fit(X, y), cp.OtherLabel())
check(NearestCentroid().fit(X, y), 1)
check(MultinomialNB().fit(np.abs(X), y), 0)
check(Ridge().fit(X, X[:, 0]), cp.Interval(1.0, 2.0))
(conflict,) = cp.explain(logistic, X[:1], not logistic.predict(X[:1])[0], data=X,
                         constraints=cp.Immutable("x0", "x1", "x2", "x3"))
assert str(conflict.status) == "infeasible", conflict
from counterpoint.testing import KNOWN, check_solver
from counterpoint.solvers import all_solvers
own = [solver for solver in all_solvers() if solver.__module__.startswith("counterpoint.solvers.")]
assert own and all(check_solver(solver, complete=False) for solver in own)
"""
OTHERS = {
    "trees": """
from sklearn.ensemble import RandomForestClassifier
check(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y), 2)
""",
    "prototypes": """
check(KNeighborsClassifier(1).fit(X, y), 2)
check(QuadraticDiscriminantAnalysis().fit(X, binary), True)
""",
    "uncertain": """
noisy = cp.UncertainClassifier(LogisticRegression().fit(X, binary), covariance=1e-4 * np.eye(5))
check(noisy, cp.Robust(True, 0.9, "fixed"))
""",
}


def run(code: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


GONE = {
    "prototypes": """
for model in (KNeighborsClassifier(1), GaussianNB(), QuadraticDiscriminantAnalysis()):
    try:
        cp.Explainer(make_pipeline(StandardScaler(), model).fit(X, y), data=X)
    except cp.UnsupportedModel:
        continue
    raise AssertionError
"""
}
"""Models of a family that is gone are not supported."""


@pytest.mark.further
@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_wing_the_rest_explains(family: str):
    others = "".join(code for name, code in OTHERS.items() if name != family)
    run(WITHOUT.format(family=family) + MIDDLE + others + GONE.get(family, ""))


def test_a_wing_that_is_there_but_broken_is_an_error():
    run(
        WITHOUT.format(family="prototypes.form")
        + """
try:
    check(LogisticRegression().fit(X, binary), True)
except ModuleNotFoundError as error:
    assert error.name == "counterpoint.families.prototypes.form"
    raise SystemExit
raise AssertionError
"""
    )
