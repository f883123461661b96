"""The collection through the public interface: model in, certified answers out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from common.report import Claim, Section, number
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from inverse.fifty import Fifty
from inverse.methods import OURS, measured, sources
from inverse.sets import Set

WIDEST = 10_000
"""The largest D that is shown; a column is a feature with a name and a kind."""
TEXT = """
The same problems as `cp.Explainer(model, cost=cp.SquaredEuclidean()).explain(rows,
cp.Tradeoff(label, weight))`, one call for each label and weight. It reads the model, asks its
`predict`, and bounds the objective from below for each answer; the time is that of all this.
"""


def section(every: Sequence[Fifty]) -> Section:
    """Those of the data sets that are narrow enough."""
    rows, apart, gaps, proved = [], [], [], []
    for fifty in every:
        one = fifty.one
        if one.A.shape[1] > WIDEST:
            continue
        explainer = cp.Explainer(_model(one), cost=cp.SquaredEuclidean())
        (answers, order), seconds = measured(lambda e=explainer, o=one: _ask(e, o), 3)
        energies = np.empty(len(order))
        energies[order] = np.concatenate([a.certificates.objective for a in answers])
        theirs = np.array([s.energy for s in fifty.solved["Newton"]])
        apart.append(float(np.abs(energies / theirs - 1.0).max()))
        gaps.append(max(float(a.gap.max()) for a in answers))
        claims = np.concatenate([a.certificates.claim == cp.Claim.PROVED for a in answers])
        proved.append(float(np.mean(claims)))
        rows.append(
            (
                one.title,
                len(answers),
                number(1e3 * seconds / len(order)),
                number(1e3 * fifty.middle("Newton", "seconds")),
                number(1e3 * fifty.middle(OURS, "seconds")),
                f"{proved[-1]:.0%}",
                f"{gaps[-1]:.0e}",
                f"{apart[-1]:.0e}",
            )
        )
    return Section(
        "Through the public interface",
        TEXT,
        (
            "data (K, D)",
            "calls",
            "ms a row",
            "Newton, no certificate",
            "ours, no certificate",
            "proved optimal",
            "largest gap",
            "E against Newton's, relative",
        ),
        rows,
        claims=[
            Claim(
                "the same optimum, relative difference of E",
                "",
                f"at most {max(apart):.0e}; {min(proved):.0%} proved, gap at most {max(gaps):.0e}",
                max(apart) < 1e-9 and min(proved) == 1.0,
            )
        ],
    )


def _model(one: Set) -> LogisticRegression:
    """The classifier that has A and b."""
    model = LogisticRegression()
    model.coef_, model.intercept_ = one.A, one.b
    model.classes_ = np.arange(len(one.A))
    model.n_features_in_ = one.A.shape[1]
    return model


def _ask(explainer: cp.Explainer, one: Set) -> tuple[list[cp.Counterfactuals], np.ndarray]:
    """The answers of each call, and which problems they are of."""
    X = sources(one.problems)
    asked = np.array([(p.label, p.weight) for p in one.problems])
    kinds, of = np.unique(asked, axis=0, return_inverse=True)
    parts = [np.flatnonzero(of.ravel() == i) for i in range(len(kinds))]
    answers = [
        explainer.explain(X[part], cp.Tradeoff(int(label), float(weight)))
        for part, (label, weight) in zip(parts, kinds, strict=True)
    ]
    return answers, np.concatenate(parts)
