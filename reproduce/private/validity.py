"""How often explanations hold by the true weights, for every method, and what is claimed."""

from __future__ import annotations

import numpy as np
from harness.figures import legend, panels, plain
from harness.report import Claim, Section
from harness.timing import number
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from private.paper import Kind
from private.simulation import (
    AS_PRINTED,
    COLOURS,
    CONE,
    METHODS,
    NAMES,
    PAPER,
    Cell,
    P,
    Sizes,
    Tallies,
    Tally,
    cells,
    pooled,
    simulated,
)

SURE = 1e-3
"""A method breaks its promise where its wrong answers are less likely than this, over all cells."""
LEAST = 5
"""Answers, for a point to be drawn."""
CLAIMED = {
    "selection": "p, however the point was chosen",
    "fixed": "p, had the point been fixed beforehand",
    "none": "nothing",
}
"""Guarantee → what a certificate claims."""
TEXT = """
Noise is drawn, a row of the test set is drawn, the released model is explained, and the answer is
put to the **true** weights, which are known here. Each trial draws its own noise, so that trials
are independent; {trials} for each cell, which is a data set and a β, of which {costly} for the
method that takes longest; {features} draws of random features take turns. p = 0.9; λ is that of
bound (10): with the tight bound all of this holds at half of β. *Found*: an answer came back that
the method holds to be good. *Right*: the share of the answers with the label by the true weights,
and the interval of Clopper and Pearson (95 %). *Wrong of all*: of all rows that were asked for.
*Worst cell*: the lowest share of right answers, of cells with at least ten. *Claims*: what the
certificates say of the answers.
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
Results = dict[Kind, dict[Cell, Tallies]]


def section(sizes: Sizes) -> Section:
    """Every method, over all cells."""
    results: Results = {
        kind: {cell: simulated(cell, sizes) for cell in cells(kind, sizes)} for kind in METHODS
    }
    rows = [
        _line(kind, method, {cell: tallies[method] for cell, tallies in by_cell.items()})
        for kind, by_cell in results.items()
        for method in METHODS[kind]
    ]
    return Section(
        "Section 3: real validity of every method, p = 0.9",
        TEXT.format(trials=sizes.trials, costly=sizes.costly, features=sizes.features),
        (
            *("features", "method", "rows", "found", "mean distance", "right", "wrong of all"),
            *("worst cell", "claims"),
        ),
        rows,
        [READING, _fault(results["fourier"])],
        {"private_validity": _figure(results)},
        _claims(results),
    )


def _line(kind: Kind, method: str, tallies: dict[Cell, Tally]) -> tuple[str, ...]:
    total = pooled(list(tallies.values()))
    judged = [(t.right / t.count, cell) for cell, t in tallies.items() if t.count >= 10]
    worst = ""
    if judged:
        share, cell = min(judged, key=lambda pair: pair[0])
        worst = f"{share:.2f}: {cell.data}, β = {cell.beta:g}"
    count = len(total.answers)
    return (
        *(NAMES[kind], method, str(count), f"{total.count / count:.0%}", number(total.mean)),
        *(total.share, f"{total.wrong / count:.3f}", worst),
        "; ".join(CLAIMED.get(word, word) for word in sorted(total.guarantees)),
    )


def _fault(by_cell: dict[Cell, Tallies]) -> str:
    """What algorithm 1 comes to for the data set that it is worst for."""
    by_data: dict[str, list[Tally]] = {}
    for cell, tallies in by_cell.items():
        by_data.setdefault(cell.data, []).append(tallies[AS_PRINTED])
    shares = {name: pooled(every).right / pooled(every).count for name, every in by_data.items()}
    worst = min(shares, key=lambda name: shares[name])
    return FAULT.format(data=worst, share=shares[worst])


def _claims(results: Results) -> list[Claim]:
    """Real validity of what the paper proposes, and of what claims to hold for a chosen point."""
    claims = []
    for kind, name in (("fourier", PAPER), ("fourier", AS_PRINTED), ("linear", CONE)):
        total = pooled([tallies[name] for tallies in results[kind].values()])
        what = f"explanations hold for the true model with the confidence asked for: {name}"
        claims.append(Claim(what, "90 %", total.share, total.interval[1] >= P))
    promised = [
        tally
        for by_cell in results.values()
        for tallies in by_cell.values()
        for tally in tallies.values()
        if tally.guarantees == {"selection"}
    ]
    lowest = min((tally.surprise for tally in promised), default=1.0)
    level = SURE / max(len(promised), 1)
    wrong, count = (sum(getattr(t, name) for t in promised) for name in ("wrong", "count"))
    allowed = sum((1.0 - t.p) * len(t.answers) for t in promised)
    claims.append(
        Claim(
            "what claims the probability for a point that was chosen keeps it: validity >= p",
            "",
            f"{wrong} wrong of {count} answers where {allowed:.0f} were allowed; the worst of "
            f"{len(promised)} cells has a chance of {lowest:.2g} (less than {level:.1g} would "
            "break it)",
            lowest >= level,
        )
    )
    return claims


def _figure(results: Results) -> Figure:
    """A row of panels for each kind of features, a column for each data set."""
    names = list(dict.fromkeys(cell.data for cell in results["fourier"]))
    figure, axes = panels(2, len(names), size=(2.75 * len(names) + 0.8, 6.4))
    for line, (kind, by_cell) in zip(axes, results.items(), strict=True):
        for ax, name in zip(line, names, strict=True):
            for k, method in enumerate(METHODS[kind]):
                tallies = {c.beta: t[method] for c, t in by_cell.items() if c.data == name}
                _points(ax, tallies, method, shift=float(np.exp(0.06 * (k - 3))))
            ax.axhline(P, color="#a33b2a", linewidth=1.0, linestyle="--", zorder=1)
            ax.set(xscale="log", ylim=(-0.03, 1.04), xlabel="β", title=name)
            plain(ax.xaxis)
            ax.yaxis.set_major_formatter(PercentFormatter(1.0))
        line[0].set_ylabel(f"{NAMES[kind]}:\nanswers that are right")
    legend(figure, axes[:1], fontsize=8, ncols=4)
    legend(figure, axes[1:], fontsize=8, loc="outside lower center")
    return figure


def _points(ax: Axes, tallies: dict[float, Tally], method: str, *, shift: float) -> None:
    """Shares with their intervals; methods are set apart along β."""
    drawn = [(shift * beta, t) for beta, t in tallies.items() if t.count >= LEAST]
    shares = np.array([t.right / t.count for _, t in drawn])
    ends = np.array([t.interval for _, t in drawn]).reshape(-1, 2)
    ax.errorbar(
        [place for place, _ in drawn],
        shares,
        yerr=np.abs(ends.T - shares),
        color=COLOURS[method],
        marker="o",
        markersize=3.5,
        linewidth=1.0,
        elinewidth=0.7,
        linestyle="--" if method == AS_PRINTED else "-",
        label=method,
    )
