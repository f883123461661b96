"""LGMLVQ searched exhaustively: how far the local answers are from the optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from common.report import Claim, Section, number

import counterpoint as cp
from lvq.compare import BETTER, OURS, Cell, explainer
from lvq.sets import Case, Sizes

TEXT = """
All points whose local answer is not proved, again with `optimality="global"`: branch and bound
(SCIP) over all that is nearer, at most {seconds:g} s a point. "Improved" is the share of these for
which it found something nearer, "closed" that of gaps of at most 1e-6 after it, and "closed, all"
the share of such gaps among all points. Its bound is its own word: the claim is `reported`.
"""
NOTE = """
Where a search ends with a gap, its bound was not raised in time; the answer may be optimal all the
same.
"""


@dataclass(frozen=True, eq=False)
class Searched:
    """Points of one data set, searched exhaustively.

    Parameters
    ----------
    local, before
        (n,) the distance of the local answer, and its gap.
    cost, gap
        (n,) those of the answer now.
    seconds
        (n,) on the clock.
    """

    local: np.ndarray
    before: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    seconds: np.ndarray

    @property
    def improved(self) -> np.ndarray:
        """(n,): whether something nearer was found."""
        return self.cost < self.local * (1.0 - BETTER)

    @property
    def closed(self) -> np.ndarray:
        """(n,): whether nothing is nearer."""
        return self.gap <= BETTER


def section(cells: Sequence[Cell], sizes: Sizes) -> Section:
    """Those cells that have several metrics."""
    local = [cell for cell in cells if cell.name == "LGMLVQ"]
    found = {cell.data.name: (cell, _searched(cell, sizes)) for cell in local}
    improved = sum(int(searched.improved.sum()) for _, searched in found.values())
    closed = sum(int(searched.closed.sum()) for _, searched in found.values())
    count = sum(len(cell.claims) for cell in local)
    total = sum(len(searched.cost) for _, searched in found.values())
    return Section(
        "LGMLVQ, searched exhaustively",
        TEXT.format(seconds=sizes.seconds),
        (
            *("data", "points", "proved, local", "searched", "mean, local", "mean, global"),
            *("improved", "closed", "gap before: median, largest", "gap: median, largest"),
            *("s", "closed, all"),
        ),
        [_row(cell, searched) for cell, searched in found.values()],
        [NOTE],
        claims=[
            Claim(
                "ours is the global optimum (LGMLVQ)",
                "",
                f"proved at once for {count - total} of {count} points; of the other {total} an "
                f"exhaustive search closes {closed}, and improves {improved}",
                improved == 0 and closed == total,
            )
        ],
    )


def _row(cell: Cell, searched: Searched) -> tuple[str, ...]:
    at_once = 1.0 - float(np.mean(_open(cell)))
    head = (cell.data.name, str(len(cell.claims)), f"{at_once:.0%}", str(len(searched.cost)))
    if not len(searched.cost):
        return (*head, *[""] * 7, f"{at_once:.0%}")
    return (
        *head,
        f"{searched.local.mean():.3f}",
        f"{searched.cost.mean():.3f}",
        f"{searched.improved.mean():.0%}",
        f"{searched.closed.mean():.0%}",
        _spread(searched.before),
        _spread(searched.gap),
        number(float(np.median(searched.seconds))),
        f"{at_once + (1.0 - at_once) * searched.closed.mean():.0%}",
    )


def _spread(gaps: np.ndarray) -> str:
    return f"{np.median(gaps):.1%}, {gaps.max():.1%}"


def _open(cell: Cell) -> np.ndarray:
    """(n,): whether the local answer is not proved."""
    return np.array([claim != cp.Claim.PROVED for claim in cell.claims])


def _searched(cell: Cell, sizes: Sizes) -> Searched:
    """All points that are open."""
    rows = np.flatnonzero(_open(cell))
    points = [(case, i) for case in cell.cases for i in range(len(case.X))]
    found = [_search(*points[row], sizes.seconds) for row in rows]
    cost, gap, seconds = np.array(found).reshape(-1, 3).T
    return Searched(cell.found[OURS].distance[rows], cell.gaps[rows], cost, gap, seconds)


def _search(case: Case, i: int, limit: float) -> tuple[float, float, float]:
    start = perf_counter()
    answer = explainer(case).explain(
        case.X[[i]], case.targets[i].item(), optimality="global", time_limit=limit
    )
    return answer.cost[0], answer.gap[0], perf_counter() - start
