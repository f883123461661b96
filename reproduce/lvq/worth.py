"""What the answers of table 1 are worth: validity, proofs, the same points, and speed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from common.report import Claim, Section, number

import counterpoint as cp
from lvq import paper
from lvq.compare import AS_DERIVED, AS_PRINTED, CMA, METHODS, OURS, SIMPLEX, Cell
from lvq.table_1 import shown

WORTH = """
Found: an answer came back, right or wrong. Valid: the model predicts the target there, and what is
fixed stayed (to {kept}). Milliseconds are CPU time for one point alone, medians; programs of CVXPY
are made once for a model and only filled in, which is not counted. "Ours nearer" is the share of
the valid answers that are farther than ours by more than a thousandth, which is more than ε costs.
"Proved" is the share of ours whose certificate proves that nothing is nearer, to within 1e-6; "gap"
the median and the largest.
"""
WORTH_NOTE = """
With one metric all of ours are proved. With local metrics the program is not convex: the claim says
`local` unless the bound closes the gap. Asked as a batch, ours takes
{batch} ms a point.
"""
SAME = """
Means over points where all methods but "as printed, 2019" have a valid answer, so that they are
means over the same points; and, in the last columns, over those where that one has, too.
"""
SPEED = """
How many times longer the black box takes than the paper's method, and than ours: medians of one
point alone. The paper gives 1.5 to 158 over all of table 1; an early version of it gives seconds of
one black box, from which its factors here are.
"""
SPEED_NOTE = """
The black boxes are quicker here than in 2019: their objective is a few operations of NumPy, and
CMA-ES stops at 1e-4 as Downhill-Simplex does. So is the paper's method: its programs are compiled
once. Ours includes reading off the answer, asking the model, and the certificate.
"""


def validity(cells: Sequence[Cell], kept: float) -> Section:
    """What each method's answers are worth."""
    rows = []
    for cell in cells:
        for name in METHODS:
            found, ours = cell.found[name], name == OURS
            nearer = float(cell.worse(name).sum() / max(found.valid.sum(), 1))
            rows.append(
                (
                    *cell.key,
                    name,
                    f"{found.found.mean():.0%}",
                    f"{found.valid.mean():.0%}",
                    number(1e3 * float(np.median(found.seconds))),
                    "" if ours else f"{nearer:.0%}",
                    f"{_proved(cell):.0%}" if ours else "",
                    f"{np.median(cell.gaps):.0e}, {cell.gaps.max():.0e}" if ours else "",
                )
            )
    each = [1e3 * float(np.median(cell.batch)) for cell in cells]
    return Section(
        "What the answers are worth",
        WORTH.format(kept=f"{kept:.0e}"),
        ("data", "model", "method", "found", "valid", "ms", "ours nearer", "proved", "gap"),
        rows,
        [WORTH_NOTE.format(batch=f"{number(min(each), 2)}–{number(max(each), 2)}")],
    )


def same(cells: Sequence[Cell]) -> Section:
    """Means over the same points."""
    usual = [name for name in METHODS if name != AS_PRINTED]
    rows = []
    for cell in cells:
        some, all_of = cell.together(*usual), cell.together(*METHODS)
        first = (shown(cell.found[name].mean(some)) for name in usual)
        second = (shown(cell.found[name].mean(all_of)) for name in (AS_PRINTED, OURS))
        rows.append((*cell.key, int(some.sum()), *first, int(all_of.sum()), *second))
    return Section(
        "The same points",
        SAME,
        ("data", "model", "points", *usual, "points", f"{AS_PRINTED}", "ours"),
        rows,
    )


def speed(cells: Sequence[Cell]) -> Section:
    """How many times faster."""
    rows, theirs, ours = [], [], []
    for cell in cells:
        middle = {name: float(np.median(cell.found[name].seconds)) for name in METHODS}
        boxes = (middle[SIMPLEX], middle[CMA])
        theirs += [box / middle[AS_DERIVED] for box in boxes]
        ours += [box / middle[OURS] for box in boxes]
        early = paper.SECONDS.get(cell.key)
        rows.append(
            (
                *cell.key,
                "" if early is None else f"{early[0] / early[1]:.1f}×",
                *(f"{ratio:.1f}×" for ratio in theirs[-2:]),
                *(f"{ratio:.1f}×" for ratio in ours[-2:]),
                f"{middle[AS_DERIVED] / middle[OURS]:.1f}×",
            )
        )
    return Section(
        "Speed",
        SPEED,
        (
            *("data", "model", "paper (early version)", "Downhill-Simplex / paper, corrected"),
            *("CMA-ES / paper, corrected", "Downhill-Simplex / ours", "CMA-ES / ours"),
            "paper, corrected / ours",
        ),
        rows,
        [SPEED_NOTE],
        claims=[
            Claim(
                "the paper's method against a black box, time",
                "1.5–158×",
                f"{min(theirs):.1f}–{max(theirs):.0f}× (the corrected one)",
                min(theirs) > 1.0,
            ),
            Claim(
                "ours against a black box, time",
                "",
                f"{min(ours):.1f}–{max(ours):.0f}×",
                min(ours) > 1.0,
            ),
        ],
    )


def _proved(cell: Cell) -> float:
    return float(np.mean([claim == cp.Claim.PROVED for claim in cell.claims]))
