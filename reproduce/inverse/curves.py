"""Figures 2, 5, 7 and 8, and table 2: learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from common.figures import panels, plain
from common.report import Claim, Section, number
from inverse_peers import (
    Backtracking,
    Constant,
    Limits,
    Problem,
    Record,
    StrongWolfe,
    gradient_descent,
    lipschitz,
)
from matplotlib.figure import Figure

from inverse import paper
from inverse.figures import FLOOR, legend, line
from inverse.methods import OURS, PEERS, SEARCHES, Method, methods_for, our_record
from inverse.sets import Set

CURVES = """
One problem a data set, the one of the collection that takes Newton's method the most iterations.
Both axes are logarithmic; iterate 1 is the start. E* is the least E that any method found, and
differences below 1e-16 are drawn there.
"""
CURVES_NOTE = """
As in the paper, Newton's curves (blue) bend down at the end, where each iteration doubles the
correct digits, and those of the others are nearly straight. Ours (red) ends in the same way; its
first iterate is the guess from pairs of classes. In time, a row alone has a fixed cost in ours,
which is seen where K and D are small.
"""
DIGITS = """
E − E* at iterate k, for the RCV1 problem of figure 2: in the paper, and here for the RCV1-like one.
"""
DIGITS_NOTE = """
The problems are not the same, so the rows where a method arrives differ; how it arrives does not.
At the end each iteration of Newton's, and of ours, gains twice the digits of the one before; those
of the others gain a constant number. Ours begins at a guess, not at x̄.
"""
DESCENT = """
Gradient descent with the three line searches of appendix C, on the hardest VGGFeat256 problem with
λ = 0.001, until ‖∇E‖ < 1e-7 or 1000 iterations.
"""
DESCENT_NOTE = """
L = {steep}, so that the constant step is {step} (paper: 4.511 and 0.221). The order is the paper's:
the step that is best varies by orders of magnitude from one iteration to the next, and only the
Wolfe search may lengthen it.
"""
SEARCH_CURVES = """
Newton's method with two line searches, on the problems of figure 2.
"""
PAIRS = """
Ten classes against a hundred: MNIST, and two digits side by side. λ = 0.01 and 0.215, farthest
class, first problem of each collection.
"""

QUANTITIES = ("E", "‖∇E‖", "E − E*")


@dataclass(frozen=True)
class Curves:
    """One problem, and how each method went down on it.

    Parameters
    ----------
    one, problem
        What was solved.
    records
        Method → its iterates; ours begins at a guess, all others at x̄.
    end
        Newton's last iterate.
    """

    one: Set
    problem: Problem
    records: Mapping[str, Record]
    end: np.ndarray

    def left(self, name: str) -> np.ndarray:
        """E − E* of each iterate."""
        return np.array(self.records[name].energies) - self.best

    @property
    def best(self) -> float:
        """The least E that was found."""
        return min(min(record.energies) for record in self.records.values())

    @property
    def title(self) -> str:
        """λ, and the label's probability before and after."""
        before, after = map(self.problem.probability, (self.problem.xbar, self.end))
        return f"{self.one.heading}\nλ = {self.problem.weight:g}, p: {before:.0e} → {after:.3f}"


def learn(
    one: Set,
    problem: Problem,
    methods: Mapping[str, Method],
    limits: Limits | None = None,
    *,
    ours: bool = True,
) -> Curves:
    """One problem by several methods, timed; of a few runs the middle one is kept."""
    limits = replace(limits or Limits(max_iter=one.sizes.iterations), timed=True)
    records, ends = {}, {}
    for name, run in methods.items():
        found = [run(one, problem, limits) for _ in range(one.sizes.repeats)]
        found.sort(key=lambda pair: pair[1].seconds[-1])
        ends[name], records[name] = found[len(found) // 2]
    if ours:
        records[OURS] = our_record(one, problem)
    return Curves(one, problem, records, next(iter(ends.values())))


def hardest(every: Sequence[Set]) -> list[Curves]:
    """The problems of figure 2 and table 2."""
    return [learn(one, one.hardest, methods_for(one)) for one in every]


def learning_curves(every: Sequence[Curves]) -> Section:
    """Figure 2."""
    rows = []
    for curves in every:
        for name, record in curves.records.items():
            rows.append(
                (
                    curves.one.title,
                    name,
                    record.trials[-1] if name == OURS else record.iterations,
                    number(1e3 * record.seconds[-1]),
                    f"{record.norms[-1]:.0e}",
                    f"{max(curves.left(name)[-1], 0.0):.0e}",
                )
            )
    return Section(
        "Figure 2: learning curves",
        CURVES,
        ("data (K, D)", "method", "iterations", "ms", "‖∇E‖ at the end", "E − E* at the end"),
        rows,
        [CURVES_NOTE],
        {
            "figure_2_iterations": _by_set(every, timed=False),
            "figure_2_time": _by_set(every, timed=True),
        },
    )


def digits(every: Sequence[Curves]) -> Section:
    """Table 2."""
    curves = next((c for c in every if c.one.paper == "RCV1"), every[-1])
    names = ("Newton", "GD", "L-BFGS", "CG")
    left = {name: curves.left(name) for name in (*names, OURS)}
    rows = []
    for k, theirs in paper.TABLE_2.items():
        cells = []
        for name, value in zip(names, theirs, strict=True):
            cells += ["" if value is None else f"{value:.2g}", _digits(left[name], k)]
        rows.append((k, *cells, _digits(left[OURS], k)))
    gains = _last_gains(left["Newton"])
    return Section(
        "Table 2: digits of accuracy an iteration",
        DIGITS,
        ("k", *(cell for name in names for cell in (f"{name}: paper", "here")), OURS),
        rows,
        [DIGITS_NOTE],
        {},
        [
            Claim(
                "digits of E gained by Newton's last iterations (table 2)",
                "1.4, 2.6, 5.2: they double",
                ", ".join(f"{gain:.1f}" for gain in gains),
                bool(np.all(gains[1:] > 1.6 * gains[:-1])),
            )
        ],
    )


def _digits(left: np.ndarray, k: int) -> str:
    return f"{max(left[k - 1], 0.0):.2g}" if k <= len(left) else ""


def _last_gains(left: np.ndarray) -> np.ndarray:
    """By how much −log10(E − E*) grows in the last iterations that stay above the rounding of E."""
    return np.diff(-np.log10(left[left > 1e-14]))[-3:]


def descents(one: Set) -> Section:
    """Figure 5."""
    problem = replace(one.hardest, weight=1e-3)
    steepest = lipschitz(problem, one.gram)
    limits = Limits(tolerance=1e-7, max_iter=one.sizes.iterations)
    searches = {"Wolfe": StrongWolfe(), "backtracking": Backtracking()}
    searches["constant"] = Constant(1.0 / steepest)
    methods: dict[str, Method] = {
        name: lambda _, problem, limits, search=search: gradient_descent(
            problem, search, limits=limits
        )
        for name, search in searches.items()
    }
    curves = learn(one, problem, {"Newton": PEERS["Newton"], **methods}, limits, ours=False)
    records = {name: record for name, record in curves.records.items() if name != "Newton"}
    rows = [
        (
            name,
            record.iterations,
            number(1e3 * record.seconds[-1]),
            f"{record.norms[-1]:.0e}",
            f"{max(curves.left(name)[-1], 0.0):.0e}",
        )
        for name, record in records.items()
    ]
    figure, axes = panels(2, 3, alike=False)
    _quantities(axes[0], curves, timed=False, names=records)
    _quantities(axes[1], curves, timed=True, names=records)
    axes[0, 1].set_title(_above(curves))
    legend(figure, axes)
    wolfe, others = records["Wolfe"], [records["backtracking"], records["constant"]]
    return Section(
        "Figure 5: gradient descent with three line searches",
        DESCENT,
        ("line search", "iterations", "ms", "‖∇E‖ at the end", "E − E* at the end"),
        rows,
        [DESCENT_NOTE.format(steep=number(steepest), step=number(1 / steepest))],
        {"figure_5": figure},
        [
            Claim(
                "gradient descent, Wolfe: iterations (figure 5)",
                "within 200",
                str(wolfe.iterations),
                wolfe.converged and wolfe.iterations <= 200,
            ),
            Claim(
                "gradient descent, backtracking and constant step: iterations (figure 5)",
                "1000 are not enough for either",
                " and ".join(
                    f"{r.iterations}{'' if r.converged else ', not there'}" for r in others
                ),
                not any(r.converged for r in others),
            ),
        ],
    )


def search_curves(every: Sequence[Set]) -> Section:
    """Figure 7."""
    found = [learn(one, one.hardest, SEARCHES, ours=False) for one in every]
    rows = []
    for curves in found:
        back, wolfe = (curves.records[name] for name in SEARCHES)
        rows.append(
            (
                curves.one.title,
                back.iterations,
                wolfe.iterations,
                sum(back.trials),
                sum(wolfe.trials),
                number(1e3 * back.seconds[-1]),
                number(1e3 * wolfe.seconds[-1]),
            )
        )
    figure, axes = panels(2, len(found))
    for curves, (above, below) in zip(found, axes.T, strict=True):
        for name, record in curves.records.items():
            line(above, name, range(1, len(record.energies) + 1), curves.left(name))
            line(below, name, 1e3 * np.array(record.seconds), curves.left(name))
        above.set(title=curves.title, xscale="log", yscale="log")
        below.set(xlabel="milliseconds", xscale="log", yscale="log")
        plain(above.xaxis)
        plain(below.xaxis, (1, 3))
    axes[0, 0].set_ylabel("E − E*, by iteration")
    axes[1, 0].set_ylabel("E − E*, by CPU time")
    legend(figure, axes)
    return Section(
        "Figure 7: Newton's method with two line searches, learning curves",
        SEARCH_CURVES,
        (
            "data (K, D)",
            "iterations, backtracking",
            "Wolfe",
            "trials, backtracking",
            "Wolfe",
            "ms, backtracking",
            "Wolfe",
        ),
        rows,
        (),
        {"figure_7": figure},
    )


def pairs(small: Set, large: Set) -> Section:
    """Figure 8."""
    found = [
        learn(one, replace(one.problems[0], weight=weight), methods_for(one))
        for one, weight in ((small, 0.01), (large, 0.215))
    ]
    ten, hundred = (curves.records for curves in found)
    rows = []
    for name in ten:
        steps = [r[name].trials[-1] if name == OURS else r[name].iterations for r in (ten, hundred)]
        times = [1e3 * r[name].seconds[-1] for r in (ten, hundred)]
        rows.append((name, *steps, *map(number, times), number(times[1] / times[0])))
    figure, axes = panels(4, 3, 2.2, alike=False)
    for curves, (above, below) in zip(found, axes.reshape(2, 2, 3), strict=True):
        _quantities(above, curves, timed=False)
        _quantities(below, curves, timed=True)
        above[1].set_title(_above(curves))
    legend(figure, axes)
    ratios = [hundred[n].iterations / ten[n].iterations for n in ("L-BFGS", "CG", "GD")]
    seconds = {n: hundred[n].seconds[-1] for n in methods_for(large)}
    return Section(
        "Figure 8: ten classes and a hundred",
        PAIRS,
        ("method", "iterations, K = 10", "K = 100", "ms, K = 10", "K = 100", "ratio"),
        rows,
        (),
        {"figure_8": figure},
        [
            Claim(
                "Newton's iterations with 10 and with 100 classes (figure 8)",
                "around 10 in both",
                f"{ten['Newton'].iterations} and {hundred['Newton'].iterations}",
                max(r["Newton"].iterations for r in (ten, hundred)) <= 14,
            ),
            Claim(
                "iterations of L-BFGS, CG and gradient descent, 100 classes against 10 (figure 8)",
                "twice as many or more",
                ", ".join(f"{ratio:.1f}×" for ratio in ratios),
                min(ratios) >= 2,
            ),
            Claim(
                "iterations of BFGS, 10 classes and 100 (figure 8)",
                "fewer with 100",
                f"{ten['BFGS'].iterations} and {hundred['BFGS'].iterations}",
                hundred["BFGS"].iterations < ten["BFGS"].iterations,
            ),
            Claim(
                "the slowest with 100 classes, the fastest (figure 8)",
                "BFGS, Newton",
                f"{max(seconds, key=seconds.get)}, {min(seconds, key=seconds.get)}",
                max(seconds, key=seconds.get) == "BFGS"
                and min(seconds, key=seconds.get) == "Newton",
            ),
        ],
    )


def _above(curves: Curves) -> str:
    """The title of a middle panel, and above it that of all panels."""
    return "\n\n".join([", ".join(curves.title.split("\n")), QUANTITIES[1]])


def _by_set(every: Sequence[Curves], *, timed: bool) -> Figure:
    figure, axes = panels(3, len(every), 2.2)
    for curves, column in zip(every, axes.T, strict=True):
        _quantities(column, curves, timed=timed)
        for ax in column:
            ax.set(title="", xlabel="")
        column[0].set_title(curves.title)
        column[-1].set_xlabel("milliseconds" if timed else "iterate")
    for ax, label in zip(axes[:, 0], QUANTITIES, strict=True):
        ax.set_ylabel(label)
    legend(figure, axes)
    return figure


def _quantities(
    axes: np.ndarray, curves: Curves, *, timed: bool, names: Mapping[str, Record] | None = None
) -> None:
    """E, ‖∇E‖ and E − E* in three panels."""
    for name in names or curves.records:
        record = curves.records[name]
        at = np.arange(1, len(record.energies) + 1)
        if name == OURS:
            at = np.array(record.trials) + 1
        if timed:
            at = 1e3 * np.array(record.seconds)
        for ax, values in zip(
            axes, (record.energies, record.norms, curves.left(name)), strict=True
        ):
            line(ax, name, at, np.array(values))
    for ax, label in zip(axes, QUANTITIES, strict=True):
        ax.set(xscale="log", yscale="log", title=label)
        ax.set_xlabel("milliseconds" if timed else "iterate")
        wide = timed or max(len(record.energies) for record in curves.records.values()) > 200
        plain(ax.xaxis, (1,) if wide else (1, 2, 5))
    plain(axes[0].yaxis, (1,) if curves.left("Newton")[0] > 30.0 * curves.best else (1, 3))
    axes[2].set_ylim(FLOOR / 3, None)
