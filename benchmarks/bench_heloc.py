"""HELOC with every column in whole steps: how far rounding alone goes, and how fast."""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import (
    Goal,
    Report,
    finish,
    heloc,
    heloc_integers,
    heloc_model,
    heloc_policy,
    interleaved,
    is_quick,
    number,
)

import counterpoint as cp

QUESTION = """
Logistic regression on 23 columns, each of which changes by whole numbers only; applicants whom the
model denies. *Rounding alone*: settled by closed forms and rounding with a proved gap of at most
what was asked, before any branching.
"""
GAPS = (1e-6, 0.05, 0.2)


def line(name: str, explainer: cp.Explainer, rows: Any, gap: float) -> tuple[Any, ...]:
    """Speed, statuses and claims of one setting."""
    explainer.explain(rows.head(2), 0, gap=gap)
    held: list[Any] = []

    def answer() -> None:
        held[:] = [explainer.explain(rows, 0, gap=gap)]

    seconds = interleaved({"ours": answer}, 1)
    answers = held[0]
    found = answers.found
    claim, status = answers.certificates.claim, answers.status
    proved, reported = claim == cp.Claim.PROVED, claim == cp.Claim.REPORTED
    return (
        name,
        f"{gap:g}",
        number(len(rows)),
        number(len(rows) / seconds["ours"]),
        f"{np.mean(answers.closed_form & found & proved):.1%}",
        f"{np.mean(found & proved):.1%}",
        f"{np.mean(found & reported):.1%}",
        f"{np.mean(found):.1%}",
        f"{np.mean(status == cp.Status.INFEASIBLE):.1%}",
        f"{np.mean(np.isin(status, ('unproved', 'suboptimal', 'limit', 'invalid'))):.1%}",
        f"{np.nanmax(answers.gap[found], initial=0.0):.1e}",
    )


def main() -> None:
    quick = is_quick()
    data = heloc()
    if data is None:
        return
    frame, labels = data
    model = heloc_model(frame, labels)
    denied = frame[model.predict(frame) == 1].head(20 if quick else 500)
    policies: dict[str, list[cp.Constraint]] = {
        "none": [],
        "within observed": [cp.WithinObserved()],
        "policy": heloc_policy(),
        "policy, 3 changes": [*heloc_policy(), cp.MaxChanges(3)],
    }
    rows = []
    for cost_name, cost in (("L1 / MAD", None), ("L2 / variance", variance(frame))):
        for name, constraints in policies.items():
            explainer = cp.Explainer(
                model,
                data=frame,
                extrapolate=True,
                features=heloc_integers(frame),
                cost=cost,
                constraints=constraints,
            )
            people = denied if cost is None else denied.head(len(denied) // 20)
            setting = f"{cost_name}, {name}"
            rows += [line(setting, explainer, people, gap) for gap in GAPS]
    goals = [
        Goal(f"settled, {r[0]}, gap {r[1]}", "every row", f"{r[9]} unsettled", r[9] == "0.0%")
        for r in rows
        if r[1] == f"{GAPS[0]:g}"
    ]
    report = Report(
        "heloc",
        "HELOC in whole steps",
        QUESTION,
        (
            "setting",
            "gap asked",
            "rows",
            "rows/s",
            "rounding alone",
            "proved",
            "reported",
            "found",
            "impossible",
            "unsettled",
            "largest gap",
        ),
        rows,
        goals,
        [
            """*Proved* and *reported*: the share of rows with an answer that is within the gap, by
            what says so. *Unsettled*: no answer and no proof, a gap above what was asked, or out of
            time."""
        ],
    )
    finish(report, quick=quick)


def variance(frame: Any) -> cp.SquaredEuclidean:
    """Each column in units of its variance."""
    return cp.SquaredEuclidean({name: 1.0 / frame[name].var() for name in frame.columns})


if __name__ == "__main__":
    main()
