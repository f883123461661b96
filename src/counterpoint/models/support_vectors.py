"""Support vector machines with a linear kernel."""

from __future__ import annotations

from typing import Any

from sklearn.svm import SVC, NuSVC

from counterpoint.errors import UnsupportedModel
from counterpoint.models.attributes import classes_of, dense, linear_scores
from counterpoint.models.dispatch import on, read
from counterpoint.models.form import Form
from counterpoint.models.linear import Link, Votes

__all__: list[str] = []

MOST_VOTING_CLASSES = 5  # 2^(k(k−1)/2) outcomes of the pairs are listed


@on(read, SVC, NuSVC)
def _(model: Any) -> Form:
    classes = classes_of(model)
    name = type(model).__name__
    if model.kernel != "linear":
        raise UnsupportedModel(
            f"{name} with kernel={model.kernel!r} is not linear. Use kernel='linear' or LinearSVC."
        )
    if len(classes) == 2:
        reason = f"those of {name} come from a second model (Platt scaling) that predict ignores"
        return linear_scores(model, Link.NONE, reason)
    if len(classes) > MOST_VOTING_CLASSES:
        raise UnsupportedModel(
            f"{name} decides among {len(classes)} classes by votes between all pairs, which is "
            f"read for up to {MOST_VOTING_CLASSES} classes. Use LinearSVC or "
            "OneVsRestClassifier(SVC(kernel='linear'))."
        )
    if model.break_ties and model.decision_function_shape == "ovr":
        raise UnsupportedModel(
            f"{name} with break_ties=True decides by a score that is not linear. "
            "Use break_ties=False."
        )
    return Votes(dense(model.coef_), dense(model.intercept_).ravel(), classes)
