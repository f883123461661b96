"""Figure 6: the left-hand side of (12b) at the explanations, by the true weights."""

from __future__ import annotations

import numpy as np
from common.figures import panels, plain
from common.report import Claim, Section
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from private import repository
from private.distance import along
from private.grid import Amount
from private.looks import BAD, COLOURS
from private.methods import AS_PRINTED, METHODS, PLAIN
from private.simulation import Tally

__all__ = ["section"]

PERCENTS = (10, 25, 50, 75, 90)
SHOWN = (PLAIN, AS_PRINTED, "segment, exact rule", "optimal, exact rule", "optimal, selection")
TEXT = """
y'φ(x)ᵀw* at the explanations: where it is positive, the true model decides as for the row, and the
explanation fails. Medians of the simulation, with bands that hold 50 % and 80 % of the answers;
breast cancer, p = 0.9. The paper has such figures for its non-robust and its robust points, both on
a segment. "Not robust" is here the nearest point by the released weights; "optimal, selection"
begins where it finds answers.
"""
NOTE = """
The non-robust point of a segment is on the wrong side half of the time, as the paper says; the
nearest one far more often, because it was chosen among all. For the same reason the exact rule is
broken by an optimum, and kept by "selection". The median of algorithm 1 is flat for small β because
it returns the prototype.
"""


def section(amount: Amount) -> Section:
    """The table and the figure."""
    by_beta, _ = along(amount)
    by_beta = {beta: held for beta, held in by_beta.items() if beta >= 1.0}
    theirs = repository.along_beta()
    columns = ("", *(f"β = {beta:g}" for beta in by_beta))
    rows = [
        (name, *(_violated(held[name]) for held in by_beta.values())) for name in METHODS["fourier"]
    ]
    plain_share = float((theirs.plain_score > 0.0).mean())
    robust_share = float((theirs.robust_score[:, 1:] > 0.0).mean())
    note = (
        f"Of the paper's ten draws along β, {plain_share:.0%} of the non-robust explanations are "
        f"on the wrong side, and {robust_share:.0%} of the robust ones for β > 5."
    )
    claims = [
        Claim(
            "non-robust explanations violate (12b) with probability ½",
            "0.5",
            f"{plain_share:.2f} on its segments; {_share(by_beta, PLAIN):.2f} of the nearest",
            abs(plain_share - 0.5) < 0.2,
        ),
        Claim(
            "robust explanations violate it with probability 1 − p (its text says p)",
            "0.1",
            f"{robust_share:.2f} of its ten draws for β > 5",
            robust_share <= 0.15,
        ),
        Claim(
            "so do the solutions of problem (16), of which algorithm 1 is a substitute",
            "0.1",
            f"{_share(by_beta, 'optimal, exact rule'):.2f} of the optima of the exact rule",
            _share(by_beta, "optimal, exact rule") <= 0.1,
        ),
    ]
    return Section(
        "Figure 6: the constraint, by the true weights",
        f"{TEXT} In the table: the share of answers for which it is positive.",
        columns,
        rows,
        [note, NOTE],
        {"private_violation": _figure(by_beta)},
        claims,
    )


def _violated(tally: Tally) -> str:
    return f"{tally.wrong / tally.found:.2f}" if tally.found else "–"


def _share(found: dict[float, dict[str, Tally]], name: str) -> float:
    """Of all answers, how many are wrong."""
    some = [held[name] for held in found.values()]
    return sum(tally.wrong for tally in some) / max(sum(tally.found for tally in some), 1)


def _figure(by_beta: dict[float, dict[str, Tally]]) -> Figure:
    figure, axes = panels(1, len(SHOWN), 2.8)
    figure.set_size_inches(11.0, 3.4)
    for ax, name in zip(axes.flat, SHOWN, strict=True):
        _draw(ax, {beta: held[name] for beta, held in by_beta.items()}, COLOURS[name])
        ax.set(title=name, xlabel="β", xscale="log", xlim=(min(by_beta), max(by_beta)))
        plain(ax.xaxis)
    axes.flat[0].set_ylabel("y'φ(x)ᵀw*")
    low, high = axes.flat[0].get_ylim()
    for ax in axes.flat:
        ax.axhspan(0.0, high, color=BAD, zorder=0, linewidth=0)
        ax.axhline(0.0, color="#a33b2a", linewidth=1.0)
        ax.set_ylim(low, high)
    axes.flat[0].text(
        0.97,
        0.96,
        "not a counterfactual",
        transform=axes.flat[0].transAxes,
        ha="right",
        va="top",
        fontsize=8,
        color="#a33b2a",
    )
    return figure


def _draw(ax: Axes, found: dict[float, Tally], colour: str) -> None:
    """Percentiles along β."""
    held = {
        beta: -t.safety_margin[np.isfinite(t.safety_margin)]
        for beta, t in found.items()
        if t.found >= 5
    }
    if not held:
        return
    betas = list(held)
    lowest, low, middle, high, highest = np.array(
        [np.percentile(values, PERCENTS) for values in held.values()]
    ).T
    colour = "#444444" if colour == "#000000" else colour
    ax.fill_between(betas, lowest, highest, color=colour, alpha=0.2, linewidth=0, label="10–90 %")
    ax.fill_between(betas, low, high, color=colour, alpha=0.35, linewidth=0, label="25–75 %")
    ax.plot(betas, middle, color=colour, marker="o", markersize=3.5, label="median")
