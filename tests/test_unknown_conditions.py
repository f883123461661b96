"""A condition that no search knows is refused in a sentence; what is known is proved."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from matrix import BASE, FACTORS, STEPS, Cell, Question, allowed, plain
from test_fourier import fitted as fourier_model
from test_fourier import rows as fourier_rows

import counterpoint as cp
from counterpoint.programs.region import Condition, Coupling, Cut, Domain, Region

pytestmark = pytest.mark.filterwarnings("ignore:.*stopped after max_iter")  # of LVQ


class Invented(Condition):
    def violation(self, y: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.zeros(len(y))


class InventedDomain(Domain):
    def violation(self, y: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.zeros(len(y))


class InventedCoupling(Coupling):
    def __init__(self, width: int) -> None:
        self.width = width

    @property
    def normals(self) -> np.ndarray:
        return np.zeros((1, self.width))

    def violation(self, y: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.zeros(len(y))

    def cut(self, multipliers: np.ndarray) -> Cut:
        zero = np.zeros(len(multipliers))
        normal = multipliers @ self.normals
        return Cut(normal, zero, np.abs(multipliers), self.normals, 1, zero)


class Asked(cp.Constraint):
    """A constraint whose condition is new to all searches."""

    def __init__(self, kind: type[Condition]) -> None:
        self.kind = kind

    def __str__(self) -> str:
        return "what was invented"

    def region(self, features: cp.Features) -> Region:
        coupling = self.kind is InventedCoupling
        return Region((InventedCoupling(features.width) if coupling else self.kind(),))


KINDS = (Invented, InventedDomain, InventedCoupling)


def refused(explainer: cp.Explainer, rows: Any, target: Any, kind: type[Condition]) -> None:
    # Trees refuse all couplings that are not linear rows.
    with pytest.raises(cp.NoSolver, match=rf"with {kind.__name__}\. Leave|not linear\. Use"):
        explainer.explain(rows, target)


@pytest.mark.parametrize("target", ["label", "other label", "probability", "trade-off"])
@pytest.mark.parametrize("family", FACTORS["family"])
def test_an_invented_condition_is_refused(family: str, target: str) -> None:
    cell = plain(family, target)
    if cell is None:
        pytest.skip("there is no such target")
    question = Question(cell, 3)
    for kind in KINDS:
        explainer = cp.Explainer(question.model, data=question.X, constraints=Asked(kind))
        refused(explainer, question.rows, question.target, kind)


def test_an_invented_condition_is_refused_under_noise() -> None:
    X, _ = fourier_rows(60, 1)
    model = fourier_model()
    rows = X[model.predict(X) == "no"].head(2)
    names = {kind.__name__: Asked(kind) for kind in KINDS[:2]}
    names["changes that depend on one another"] = cp.SameChange("a", "b")
    for name, constraint in names.items():
        explainer = cp.Explainer(model, data=X, constraints=constraint)
        with pytest.raises(cp.NoSolver, match=rf"searched with {name}\."):
            explainer.explain(rows, cp.Robust("yes", 0.7))


REPORTED = (
    *({"tree", "linear relation", kind} for kind in STEPS),
    {"tree", "linear relation", "percentiles"},
    {"tree", "same change", "percentiles"},
)
"""Where solvers are believed: within a box of cells, relations are left to branch and bound."""


@pytest.mark.further
@pytest.mark.further
@pytest.mark.parametrize("constraint", FACTORS["constraint"])
@pytest.mark.parametrize("family", ["linear", "tree"])
def test_each_constraint_cost_and_kind_of_column_is_proved(family: str, constraint: str) -> None:
    """The exceptions are listed above."""
    for cost, kind in product(FACTORS["cost"], FACTORS["kind"]):
        chosen = BASE | {"family": family, "constraint": constraint, "cost": cost, "kind": kind}
        if not allowed(chosen.values()):
            continue
        claims = {cp.Claim.PROVED}
        if any(rule <= set(chosen.values()) for rule in REPORTED):
            claims.add(cp.Claim.REPORTED)
        question = Question(Cell(0, **chosen), 3)
        for answer in question.explained(question.explainer):
            invalid = answer.status is cp.Status.INVALID
            assert invalid or answer.certificate.claim in claims, (cost, kind, answer)
