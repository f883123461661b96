"""How often explanations hold by the true weights, for every method, and what is claimed."""

from __future__ import annotations

from collections.abc import Sequence

from common.report import Section, number

from private.grid import BETAS
from private.methods import AS_PRINTED, METHODS
from private.promises import SURE, claims, unclaimed
from private.results import FIXED, NAMES, NONE, SELECTION, Results, interval_of, right
from private.simulation import Tally, pooled

__all__ = ["by_p", "every_cell", "summary"]

CLAIMED = {
    SELECTION: "p, however the point was chosen",
    FIXED: "p, had the point been fixed beforehand",
    NONE: "nothing",
    "": "p (the paper)",
}
"""Guarantee → what a certificate claims."""
SUMMARY = """
Noise is drawn, a row of the test set is drawn, the released model is explained, and the answer is
put to the **true** weights, which are known here. Each trial draws its own noise, so that trials
are independent; {trials} for each cell, which is a data set, a β and a p, of which {costly} for the
method that takes longest; {features} draws of random features take turns. λ is that of bound (10):
with the tight bound all of this holds at half of β. *Found*: an answer came back that the method
holds to be good. *Right*: the share of the answers with the label by the true weights, and the
interval of Clopper and Pearson (95 %). *Wrong of all*: of all rows that were asked for. *Worst
cell*: the lowest share of right answers, of cells with at least ten. *Claims*: what the
certificates say of the answers. Here p = 0.9; all cells are in the next section.
"""
READING = """
A probability over the noise is a promise about the point that the rule was applied to, and a search
looks at the released weights before it chooses: it finds points where their noise flatters the
label. An optimum does this in all directions, and its promise is worth little; a segment to a
prototype leaves only one direction, and what is lost is small. The guarantee "selection" keeps the
promise for whatever point is chosen, and pays with distance, or with an honest "not found".
"""
FAULT = """
Algorithm 1 as printed returns a midpoint whether or not it meets the rule, and the prototype where
that does not meet it either. Where prototypes are good it is right for that reason alone; where one
is on the wrong side of the true model it is wrong nearly always: {data}, {share:.0%} right.
"""
PROMISE = """
What is promised is that a wrong answer comes back with a chance of at most 1 − p, and so "wrong of
all" is what is tested: of {cells} cells, {broken} have so many that they would have a chance below
{sure:g} in any of them. The share that is right of the answers that are given is no promise, since
whether there is one depends on the noise, too; of its intervals, {below} of {cells} lie below p.
"""


def summary(every: Sequence[Results]) -> Section:
    """Every method, over all cells of p = 0.9."""
    rows = [_line(one, method) for one in every for method in METHODS[one.kind]]
    size = every[0].amount.cell
    text = SUMMARY.format(trials=size.trials, costly=size.costly, features=size.features)
    columns = (
        *("features", "method", "asked", "found", "distance: mean, median", "right"),
        *("wrong of all", "worst cell", "claims"),
    )
    promised = [one for result in every for one in result.promising()]
    below = sum(interval_of(t)[1] < t.p for _, _, t in promised if t.found)
    broken = sum(tally.surprise < SURE / len(promised) for _, _, tally in promised)
    promise = PROMISE.format(sure=SURE, cells=len(promised), broken=broken, below=below)
    return Section(
        "Section 3: real validity of every method, p = 0.9",
        text,
        columns,
        rows,
        [READING, _fault(every), promise],
        claims=claims(every),
    )


def _fault(every: Sequence[Results]) -> str:
    """What algorithm 1 comes to for the data set that it is worst for."""
    held: dict[str, list[Tally]] = {}
    for cell, tally in (pair for one in every for pair in one.of(AS_PRINTED, 0.9)):
        held.setdefault(cell.data, []).append(tally)
    shares = {name: pooled(some).right / pooled(some).found for name, some in held.items()}
    worst = min(shares, key=lambda name: shares[name])
    return FAULT.format(data=worst, share=shares[worst])


def _line(one: Results, method: str) -> tuple[str, ...]:
    parts = one.of(method, 0.9)
    both = pooled([tally for _, tally in parts])
    judged = [(t.right / t.found, c) for c, t in parts if t.found >= 10]
    worst = ""
    if judged:
        share, cell = min(judged, key=lambda pair: pair[0])
        worst = f"{share:.2f}: {cell.data}, β = {cell.beta:g}"
    asked = len(both.answers)
    return (
        NAMES[one.kind],
        method,
        str(asked),
        f"{both.found / asked:.0%}",
        f"{number(both.mean)}, {number(both.median)}",
        right(both),
        f"{both.wrong / asked:.3f}",
        worst,
        "; ".join(CLAIMED[word] for word in both.guarantees),
    )


def every_cell(one: Results) -> Section:
    """Found, mean distance, and real validity of each cell."""
    rows = [
        (cell.data, f"{cell.beta:g}", f"{cell.p:g}", *(_cell(tally) for tally in held.values()))
        for cell, held in one.held.items()
    ]
    return Section(
        f"Section 3: real validity, cell by cell, {NAMES[one.kind]}",
        "Found / mean distance of the answers / share of them that are right by the true weights. "
        "Mean distances of some hundred are those of models that can hardly be certified, where a "
        "few answers are very far away.",
        ("data", "β", "p", *METHODS[one.kind]),
        rows,
    )


def _cell(tally: Tally) -> str:
    if not tally.found:
        return "0 / – / –"
    share = tally.found / len(tally.answers)
    return f"{share:.2f} / {number(tally.mean)} / {tally.right / tally.found:.2f}"


def by_p(every: Sequence[Results]) -> Section:
    """Real validity along p, pooled over data sets."""
    rows = []
    ps = sorted({cell.p for cell in every[0].held})
    for one in every:
        beta = BETAS[one.kind][1]
        for method in METHODS[one.kind]:
            held = [[t for c, t in one.of(method, p) if c.beta == beta] for p in ps]
            shown = (right(pooled(some)) if some else "" for some in held)
            rows.append((f"{NAMES[one.kind]}, β = {beta:g}", method, *shown))
    return Section(
        "Section 3: real validity along p",
        "The share of the answers that are right by the true weights, over all data sets. Below "
        "p = 0.72 the paper's rule asks for less than p.",
        ("", "method", *(f"p = {p:g}" for p in ps)),
        rows,
        claims=unclaimed(every),
    )
