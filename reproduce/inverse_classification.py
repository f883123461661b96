"""Every figure and table of Carreira-Perpiñán and Hada, next to the paper's own numbers.

*Inverse classification with logistic and softmax classifiers: efficient optimization* (2023).
Writes `inverse_classification.md` and `figures/`, in some minutes on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

from common.figures import save
from common.report import Section, page
from inverse import curves, fifty, logistic, paths, public, table_1
from inverse.methods import SEARCHES
from inverse.sets import FULL, QUICK, Set, Sizes, binary_sets, pairs_of_digits, softmax_sets

PAGE = Path(__file__).with_suffix(".md")
TITLE = "Inverse classification with logistic and softmax classifiers"
HEAD = """
Carreira-Perpiñán and Hada, *Inverse classification with logistic and softmax classifiers: efficient
optimization* (2023), done again: the paper's methods, implemented with care in
`benchmarks/inverse_peers`, and counterpoint's. This page and its figures are written by `make
reproduce ONLY=inverse_classification`. The paper's numbers are from Matlab on a PC with 8 cores,
those here from NumPy on one core; what compares is ratios and iterations.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few small problems; write nothing")
    quick = parser.parse_args().quick
    start = perf_counter()
    every = sections(QUICK if quick else FULL)
    if quick:
        print(page(TITLE, HEAD, every, {name: "" for s in every for name in s.figures}))
        return
    shown = {name: save(figure, name) for s in every for name, figure in s.figures.items()}
    PAGE.write_text(page(TITLE, HEAD, every, shown))
    print(f"{PAGE.name} is written, after {(perf_counter() - start) / 60:.1f} minutes.")


def sections(sizes: Sizes) -> list[Section]:
    """All experiments, in the paper's order."""
    softmax = softmax_sets(sizes)
    binary = list(binary_sets(softmax))
    solved = [fifty.solve_fifty(one) for one in softmax]
    learned = curves.hardest(softmax)
    largest = next((one for one in softmax if one.paper == "VGGFeat256"), softmax[-1])
    small, large = _two(sizes)
    return [
        table_1.section([*softmax, large], binary),
        fifty.performance(solved),
        curves.learning_curves(learned),
        curves.digits(learned),
        fifty.trials(solved),
        paths.section([paths.follow(one) for one in softmax]),
        logistic.section(binary),
        curves.descents(largest),
        fifty.line_searches([fifty.solve_fifty(one, SEARCHES) for one in softmax]),
        curves.search_curves(softmax),
        curves.pairs(small, large),
        public.section(solved),
    ]


def _two(sizes: Sizes) -> tuple[Set, Set]:
    found = list(pairs_of_digits(sizes))
    return found[0], found[-1]


if __name__ == "__main__":
    main()
