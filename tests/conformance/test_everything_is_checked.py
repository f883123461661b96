"""A new form, cost, constraint, solver or target that no suite runs on fails the build."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from conformance import test_constraints, test_costs, test_forms, test_solvers
from strategies import COSTS, FORMS

import counterpoint as cp
from counterpoint.models.form import Form
from counterpoint.problem.targets import Target
from counterpoint.solvers import Solver


def subclasses(base: type) -> set[type]:
    """Those in the package, all modules imported."""
    for module in pkgutil.walk_packages(cp.__path__, "counterpoint."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found, waiting = set(), [base]
    while waiting:
        for cls in waiting.pop().__subclasses__():
            waiting.append(cls)
            own = cls.__module__.split(".")[0] == "counterpoint"
            if own and not inspect.isabstract(cls):
                found.add(cls)
    return found


def checked() -> dict[type, set[type]]:
    rng = np.random.default_rng(0)
    forms = [make(rng, 3) for make in FORMS.values()]
    plain = cp.Features([cp.Continuous("a")])
    return {
        Form: {type(form) for form in forms},
        cp.Cost: {type(make(rng, plain)) for make in COSTS.values()}.union(test_costs.TABLED),
        cp.Constraint: {
            *map(type, test_constraints.CONSTRAINTS),
            *map(type, test_constraints.DEFINED),
            *map(type, test_constraints.CLEAR),
            *(type(constraint) for constraint, _ in test_constraints.COMBINATIONS),
        },
        Solver: {*test_solvers.BY_NAME.values()},
        Target: {type(t) for form in forms for t in test_forms.targets(form)},
    }


@pytest.mark.parametrize("base", list(checked()), ids=lambda base: base.__name__)
def test_every_subclass_runs_through_its_suite(base: type):
    missing = {cls.__name__ for cls in subclasses(base) - checked()[base]}
    assert not missing, f"add {sorted(missing)} to the conformance tests of {base.__name__}"
