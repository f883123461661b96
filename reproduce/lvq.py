"""Both tables of Artelt and Hammer, next to the paper's own numbers.

*Efficient computation of counterfactual explanations of LVQ models* (2020). Writes `lvq.md` and
`figures/lvq_regions.png`, in some minutes on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

from common.figures import save
from common.report import Section, page
from lvq import cost_cutoff, lifted, pictures, proofs, table_1, table_2
from lvq.compare import KEPT, compare
from lvq.sets import FULL, MODELS, QUICK, Sizes, ames, data_sets

PAGE = Path(__file__).with_suffix(".md")
PACKAGES = ("clarabel", "cma", "cvxpy", "pyscipopt")
TITLE = "Efficient computation of counterfactual explanations of LVQ models"
HEAD = """
Artelt and Hammer, *Efficient computation of counterfactual explanations of LVQ models* (2020), done
again: the paper's black boxes, its own method as printed in 2019 and as its derivation says, and
counterpoint's. This page and its figure are written by `make reproduce ONLY=lvq`; times are from
one core.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few points; write nothing")
    quick = parser.parse_args().quick
    start = perf_counter()
    every = sections(QUICK if quick else FULL)
    if quick:
        print(page(TITLE, HEAD, every, {name: "" for s in every for name in s.figures}, PACKAGES))
        return
    shown = {
        name: save(figure, name, colours=pictures.PALETTE)
        for s in every
        for name, figure in s.figures.items()
    }
    PAGE.write_text(page(TITLE, HEAD, every, shown, PACKAGES))
    print(f"{PAGE.name} is written, after {(perf_counter() - start) / 60:.1f} minutes.")


def sections(sizes: Sizes) -> list[Section]:
    """All experiments, in the paper's order."""
    every = list(data_sets())
    cells = [compare(data, name, sizes) for data in every for name in MODELS]
    found = [
        table_1.means(cells, sizes.points),
        cost_cutoff.validity(cells, KEPT),
        cost_cutoff.same(cells),
        cost_cutoff.speed(cells),
        proofs.section(cells, sizes),
        lifted.section(every, sizes),
        pictures.section(),
    ]
    houses, frame = next((d for d in every if d.name == "houses"), None), ames()
    if houses is not None and frame is not None:
        found.insert(5, table_2.section(houses, frame["Order"].to_numpy()))
    return found


if __name__ == "__main__":
    main()
