"""Figures of Mochaourab et al., next to the paper's own numbers, and what its answers hold.

*Robust explanations for private support vector machines* (2021). Writes `private_svm.md` and
figures, in some minutes on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from harness.report import Section, reproduce
from private import accuracy, constants, explanations, validity
from private.simulation import FULL, QUICK

TITLE = "Robust explanations for private support vector machines"
HEAD = """
Mochaourab, Sinha, Greenstein and Papapetrou, *Robust explanations for private support vector
machines* (2021), done again: the numbers of its repository seed by seed, the same with more draws,
counterpoint's answers beside them; and, since the true weights are known here, how often all of
these answers hold. Models are standardised by their rows and their noise is seeded, as in the
paper: they are not private. Where the paper's text and its code differ (figure 5b: β = 0.5 or 5;
robust points violate (12b) with probability p or 1 − p), this follows the code. Figures 2 and 4 are
not done again. This page and its figures are written by `make reproduce ONLY=private_svm`.
"""


def sections(*, quick: bool) -> Iterator[Section]:
    """All experiments, in the paper's order; what is simulated is simulated once."""
    sizes = QUICK if quick else FULL
    yield constants.usefulness()
    yield constants.section()
    yield accuracy.section(sizes.accuracies)
    yield explanations.distance(sizes)
    yield explanations.violation(sizes)
    yield validity.section(sizes)


def main() -> None:
    reproduce(__file__, TITLE, HEAD, sections, ("clarabel", "cvxpy", "opendp"))


if __name__ == "__main__":
    main()
