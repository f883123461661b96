"""The tables and figures of Plumb et al. that can be done again, next to the paper's own numbers.

*Explaining groups of points in low-dimensional representations* (2020). Writes `groups.md` and
figures, in some minutes on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

from groups import cells, known, ours, published
from groups.sets import cells_file, folder, sets
from inverse.figures import save
from inverse.report import Section, page

PAGE = Path(__file__).with_suffix(".md")
TITLE = "Explaining groups of points in low-dimensional representations"
HEAD = """
Plumb, Terhorst, Sankararaman and Talwalkar (2020), done again: their published explanations, judged
here; exact explanations of the same data and encoders; data whose structure is known; and single
cells. The genes of the paper's own cells are not public. Explanations on rows that were not fitted
are in the benchmarks. This page is written by `make reproduce ONLY=groups`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one set; write nothing")
    quick = parser.parse_args().quick
    start = perf_counter()
    every = sections(quick=quick)
    if quick:
        print(page(TITLE, HEAD, every, {name: "" for s in every for name in s.figures}))
        return
    shown = {name: save(figure, name) for s in every for name, figure in s.figures.items()}
    PAGE.write_text(page(TITLE, HEAD, every, shown))
    print(f"{PAGE.name} is written, after {(perf_counter() - start) / 60:.1f} minutes.")


def sections(*, quick: bool) -> list[Section]:
    """All that is done again, in the paper's order."""
    found = [known.table_1(quick=quick)]
    where, counts = folder(), cells_file()
    if where is not None:
        every = sets(where, quick=quick)
        models = ours.models(every)
        found = [
            published.section(where, every),
            ours.section(every, models),
            *found,
            ours.words(models),
            known.planted(where, every),
        ]
    if counts is not None:
        found.append(cells.section(counts))
    return found


if __name__ == "__main__":
    main()
