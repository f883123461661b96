"""Both tables of Artelt and Hammer, next to the paper's own numbers.

*Efficient computation of counterfactual explanations of LVQ models* (2020). Writes `lvq.md`, in
some minutes on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from harness.report import Section, reproduce
from lvq import table_1, table_2
from lvq.methods import compare
from lvq.sets import FULL, MODELS, QUICK, data_sets

TITLE = "Efficient computation of counterfactual explanations of LVQ models"
HEAD = """
Artelt and Hammer, *Efficient computation of counterfactual explanations of LVQ models* (2020), done
again: the paper's black boxes, its own method as printed in 2019 and as its derivation says, and
counterpoint's. This page is written by `make reproduce ONLY=lvq`; times are from one core.
"""


def sections(*, quick: bool) -> Iterator[Section]:
    """All experiments, in the paper's order."""
    sizes, sets = QUICK if quick else FULL, list(data_sets())
    cells = [compare(data, name, sizes) for data in sets for name in MODELS]
    yield table_1.means(cells, sizes)
    yield table_1.worth(cells)
    yield table_1.globally(cells, sizes)
    for data in sets:
        if data.name == "houses":
            yield table_2.section(data)


def main() -> None:
    reproduce(__file__, TITLE, HEAD, sections, ("clarabel", "cma", "cvxpy", "pyscipopt"))


if __name__ == "__main__":
    main()
