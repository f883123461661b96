"""Every figure of Mochaourab et al., next to the paper's own numbers, and what its answers hold.

*Robust explanations for private support vector machines* (2021). Writes `private_svm.md` and
figures, in some minutes on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

from common.figures import save
from common.report import Section, page
from private import (
    accuracy,
    constants,
    differences,
    distance,
    instance,
    neighbours,
    plane,
    safety_margins,
    violation,
)
from private.grid import FULL, QUICK, Amount
from private.results import results
from private.validity import by_p, every_cell, summary
from private.validity_figure import figure

PAGE = Path(__file__).with_suffix(".md")
PACKAGES = ("clarabel", "opendp")
PALETTE = 128
"""Colours of a file."""
TITLE = "Robust explanations for private support vector machines"
HEAD = """
Mochaourab, Sinha, Greenstein and Papapetrou, *Robust explanations for private support vector
machines* (2021), done again: the numbers of its repository seed by seed, the same with more draws,
counterpoint's answers beside them; and, since the true weights are known here, how often all of
these answers hold. Models are standardised by their rows and their noise is seeded, as in the
paper: they are not private. This page and its figures are written by `make reproduce
ONLY=private_svm`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few draws; write nothing")
    quick = parser.parse_args().quick
    start = perf_counter()
    every = sections(QUICK if quick else FULL)
    if quick:
        print(page(TITLE, HEAD, every, {name: "" for s in every for name in s.figures}, PACKAGES))
        return
    shown = {
        name: save(drawn, name, colours=PALETTE) for s in every for name, drawn in s.figures.items()
    }
    PAGE.write_text(page(TITLE, HEAD, every, shown, PACKAGES))
    print(f"{PAGE.name} is written, after {(perf_counter() - start) / 60:.1f} minutes.")


def sections(amount: Amount) -> list[Section]:
    """All experiments, in the paper's order; what is simulated is simulated once."""
    real = [results(kind, amount) for kind in ("fourier", "linear")]
    table = summary(real)
    table.figures["private_validity"] = figure(real)
    return [
        differences.section(),
        neighbours.section(amount.neighbours),
        constants.usefulness(),
        constants.section(amount.constants),
        plane.section(amount.plane),
        accuracy.section(amount.accuracies, amount.features),
        instance.section(),
        distance.section(amount),
        violation.section(amount),
        table,
        by_p(real),
        *(every_cell(one) for one in real),
        safety_margins.section(*amount.safety_margins),
    ]


if __name__ == "__main__":
    main()
