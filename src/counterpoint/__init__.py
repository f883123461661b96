"""Counterfactual explanations: the smallest change that changes a model's decision, proved."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterpoint.answer import Counterfactual
from counterpoint.certificate import Certificate, Claim, Status
from counterpoint.constraints import (
    Bounds,
    Clearance,
    Constraint,
    Ellipsoid,
    Immutable,
    Linear,
    MaxChanges,
    Monotone,
    WithinObserved,
)
from counterpoint.costs import Cost, Mahalanobis, Manhattan, PercentileShift, SquaredEuclidean
from counterpoint.errors import (
    CounterpointError,
    InvalidInput,
    InvalidSpec,
    MissingExtra,
    ModelError,
    ModelNotFitted,
    NoAnswer,
    NoSolver,
    ReaderMismatch,
    SolverFailure,
    UnsupportedModel,
)
from counterpoint.explainer import Explainer, explain
from counterpoint.policy import Problem
from counterpoint.results import Counterfactuals
from counterpoint.rows.features import Categorical, Continuous, Features, Integer
from counterpoint.several.diversity import Alternatives, diversify
from counterpoint.several.path import Path, trace
from counterpoint.targets import (
    Guarantee,
    Interval,
    Label,
    OtherLabel,
    Probability,
    Target,
    Tradeoff,
)
from counterpoint.weights import mad_weights, percentile_ranks

if TYPE_CHECKING:
    from counterpoint.audits import Audit, audit
    from counterpoint.engine.conflicts import Conflict, Relaxation
    from counterpoint.engine.factored import FactoredCounterfactuals
    from counterpoint.letters import Letter, letter
    from counterpoint.models import LastLayer, read
    from counterpoint.records import Recheck, recheck
    from counterpoint.robust.target import Robust
    from counterpoint.robust.uncertain import UncertainClassifier

__version__ = "0.1.0"

__all__ = [
    "Alternatives",
    "Audit",
    "Bounds",
    "Categorical",
    "Certificate",
    "Claim",
    "Clearance",
    "Conflict",
    "Constraint",
    "Continuous",
    "Cost",
    "Counterfactual",
    "Counterfactuals",
    "CounterpointError",
    "Ellipsoid",
    "Explainer",
    "FactoredCounterfactuals",
    "Features",
    "Guarantee",
    "Immutable",
    "Integer",
    "Interval",
    "InvalidInput",
    "InvalidSpec",
    "Label",
    "LastLayer",
    "Letter",
    "Linear",
    "Mahalanobis",
    "Manhattan",
    "MaxChanges",
    "MissingExtra",
    "ModelError",
    "ModelNotFitted",
    "Monotone",
    "NoAnswer",
    "NoSolver",
    "OtherLabel",
    "Path",
    "PercentileShift",
    "Probability",
    "Problem",
    "ReaderMismatch",
    "Recheck",
    "Relaxation",
    "Robust",
    "SolverFailure",
    "SquaredEuclidean",
    "Status",
    "Target",
    "Tradeoff",
    "UncertainClassifier",
    "UnsupportedModel",
    "WithinObserved",
    "audit",
    "diversify",
    "explain",
    "letter",
    "mad_weights",
    "percentile_ranks",
    "read",
    "recheck",
    "trace",
]


LATER = {
    "Audit": "audits",
    "Conflict": "engine.conflicts",
    "FactoredCounterfactuals": "engine.factored",
    "LastLayer": "models",
    "Letter": "letters",
    "Recheck": "records",
    "Relaxation": "engine.conflicts",
    "Robust": "robust.target",
    "UncertainClassifier": "robust.uncertain",
    "audit": "audits",
    "letter": "letters",
    "read": "models",
    "recheck": "records",
}
"""What imports scikit-learn or SciPy, only when it is asked for: name → module."""


def __getattr__(name: str) -> Any:
    if name in LATER:
        return getattr(import_module(f"counterpoint.{LATER[name]}"), name)
    if name in ("groups", "scale"):
        return import_module(f"counterpoint.{name}")
    raise AttributeError(f"module 'counterpoint' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
