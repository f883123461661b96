"""The methods that are compared: what is asked, what comes back, and what is claimed for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import counterpoint as cp
from counterpoint.privacy import PrivateSVC
from private.bisection import asked_by_paper, bisect
from private.known import Kind, Known
from private.papers_rules import by_papers_rule, probability_at, robust

__all__ = ["AS_PRINTED", "COSTLY", "METHODS", "PLAIN", "Answer", "Asked", "answer"]

FloatArray = NDArray[np.float64]

AS_PRINTED = "Algorithm 1, as printed"
PLAIN = "not robust"
COSTLY = "optimal, selection"
METHODS: dict[Kind, dict[str, dict[str, Any]]] = {
    "fourier": {
        PLAIN: {},
        AS_PRINTED: {},
        "segment, paper's rule": {"guarantee": "fixed", "rule": "paper", "search": "segment"},
        "segment, exact rule": {"guarantee": "fixed", "search": "segment"},
        "optimal, exact rule": {"guarantee": "fixed", "search": "optimal"},
        "segment, selection": {"guarantee": "selection", "search": "segment"},
        COSTLY: {"guarantee": "selection", "search": "optimal"},
    },
    "linear": {
        PLAIN: {},
        "paper's cone program": {"guarantee": "fixed", "rule": "paper"},
        "exact rule": {"guarantee": "fixed"},
        "selection": {"guarantee": "selection"},
    },
}
"""Kind of features → name → what is asked of `counterpoint.Robust`."""


@dataclass(frozen=True, eq=False)
class Asked:
    """One row of one released model.

    Parameters
    ----------
    known, model
        The true model, and the released one.
    explainer
        Of the released one.
    x, label
        (d,) the row, and the label that it is to have.
    p
        The probability.
    """

    known: Known
    model: PrivateSVC
    x: FloatArray
    label: int
    p: float
    explainer: cp.Explainer = field(init=False)

    def __post_init__(self) -> None:
        cost = cp.SquaredEuclidean()
        object.__setattr__(self, "explainer", cp.Explainer(self.model, cost=cost))

    @property
    def prototype(self) -> FloatArray:
        """(d,) that of the label."""
        return np.asarray(self.known.data.prototypes[self.label])

    def safety_margins(self, rows: FloatArray) -> FloatArray:
        """(n,) by how much the released weights are for the label."""
        score = self.model.decision_function(rows)
        return np.asarray(score if self.label == 1 else -score)


@dataclass(frozen=True)
class Answer:
    """What came back.

    Parameters
    ----------
    distance
        NaN without an answer.
    lead
        By how much the true weights are for the label there; NaN without an answer.
    guarantee, text
        What is claimed for it, in a word; and all that is printed of it.
    """

    distance: float = float("nan")
    safety_margin: float = float("nan")
    guarantee: str = ""
    text: str = ""


def answer(asked: Asked, kind: Kind, name: str) -> Answer:
    """What a method says."""
    if name == AS_PRINTED:
        return _as_printed(asked)
    target: cp.Target = cp.Label(asked.label)
    if name != PLAIN:
        how = dict(METHODS[kind][name])
        if how.get("search") == "segment":
            if asked.safety_margins(asked.prototype[None])[0] < 0.0:
                return Answer()
            how["prototype"] = asked.prototype
        target = robust(asked.label, asked.p, how)
    papers = "rule" in METHODS[kind][name]
    model = by_papers_rule(asked.model, asked.p) if papers else asked.model
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean()) if papers else asked.explainer
    found = explainer.explain(asked.x[None], target)
    if not found.found[0]:
        return Answer()
    safety_margin = float(asked.known.safety_margin(found.to_frame(), asked.label)[0])
    sure = found[0].certificate
    guarantee = str(sure.guarantee)
    if papers and probability_at(asked.model, found.to_frame(), asked.label) < asked.p:
        guarantee = "none"
    return Answer(float(np.sqrt(sure.cost)), safety_margin, guarantee, str(found[0]))


def _as_printed(asked: Asked) -> Answer:
    """The last midpoint, whether or not it meets the rule."""
    rule = asked_by_paper(asked.model.scale_, asked.p)
    ends = asked.x, asked.prototype
    point = bisect(lambda y: float(asked.safety_margins(y[None])[0]), *ends, rule).point
    safety_margin = float(asked.known.safety_margin(point[None], asked.label)[0])
    return Answer(float(np.linalg.norm(point - asked.x)), safety_margin)
