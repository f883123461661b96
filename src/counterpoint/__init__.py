"""Counterfactual explanations: the smallest change that changes a model's decision, proved."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterpoint.alternatives import Alternatives
from counterpoint.certificate import Certificate, Claim, Status
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
from counterpoint.explainer import Explainer, diversify, explain, trace
from counterpoint.path import Path
from counterpoint.problem.constraints import (
    Bounds,
    Clearance,
    Constraint,
    Ellipsoid,
    Forbidden,
    Immutable,
    Implies,
    Linear,
    MaxChanges,
    Monotone,
    ObservedCombinations,
    OppositeChange,
    SameChange,
    WithinObserved,
)
from counterpoint.problem.costs import (
    Cost,
    Mahalanobis,
    Manhattan,
    PercentileShift,
    SquaredEuclidean,
)
from counterpoint.problem.policy import Problem
from counterpoint.problem.targets import (
    Guarantee,
    Interval,
    Label,
    OtherLabel,
    Probability,
    Target,
    Tradeoff,
)
from counterpoint.problem.weights import mad_weights, percentile_ranks
from counterpoint.results import Counterfactual, Counterfactuals
from counterpoint.rows.features import Categorical, Continuous, Features, Integer

if TYPE_CHECKING:
    from counterpoint.audits import Audit, audit
    from counterpoint.families.uncertain.classifier import UncertainClassifier
    from counterpoint.families.uncertain.target import Robust
    from counterpoint.letters import Letter, letter
    from counterpoint.models import LastLayer, read
    from counterpoint.records import Recheck, recheck
    from counterpoint.search.conflicts import Conflict, Relaxation

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
    "Features",
    "Forbidden",
    "Guarantee",
    "Immutable",
    "Implies",
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
    "ObservedCombinations",
    "OppositeChange",
    "OtherLabel",
    "Path",
    "PercentileShift",
    "Probability",
    "Problem",
    "ReaderMismatch",
    "Recheck",
    "Relaxation",
    "Robust",
    "SameChange",
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
    "Conflict": "search.conflicts",
    "LastLayer": "models",
    "Letter": "letters",
    "Recheck": "records",
    "Relaxation": "search.conflicts",
    "Robust": "families.uncertain.target",
    "UncertainClassifier": "families.uncertain.classifier",
    "audit": "audits",
    "letter": "letters",
    "read": "models",
    "recheck": "records",
}
"""What imports scikit-learn or SciPy, only when it is asked for: name → module."""


def __getattr__(name: str) -> Any:
    if name in LATER:
        return getattr(import_module(f"counterpoint.{LATER[name]}"), name)
    if name in ("datasets", "groups", "scale"):
        return import_module(f"counterpoint.{name}")
    raise AttributeError(f"module 'counterpoint' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
