"""The tables and figures of Plumb et al. that can be done again, next to the paper's own numbers.

*Explaining groups of points in low-dimensional representations* (2020). Writes `groups.md` and
figures, in some minutes on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from common.figures import save
from common.report import Section, page
from groups import cells, figure_7, figure_8, figures_20, planted, table_1
from groups.sets import cells_file, folder, sets

PAGE = Path(__file__).with_suffix(".md")
TITLE = "Explaining groups of points in low-dimensional representations"
HEAD = """
Plumb, Terhorst, Sankararaman and Talwalkar (2020), done again: their published explanations (TGT),
judged here; ours of the same data and encoders; data whose structure is known; changes that were
planted; and single cells. Explanations on rows that were not fitted are in the benchmarks. This
page and its figures are written by `make reproduce ONLY=groups`.
"""
TONES = 96
"""Colours of a file; maps of pairs have many."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one set; write nothing")
    quick = parser.parse_args().quick
    start = perf_counter()
    every = []
    for one in sections(quick=quick):
        every.append(one)
        print(f"{(perf_counter() - start) / 60:5.1f} min  {one.title}", flush=True)
    if quick:
        print(page(TITLE, HEAD, every, {name: "" for s in every for name in s.figures}))
        return
    shown = {
        name: save(figure, name, colours=TONES) for s in every for name, figure in s.figures.items()
    }
    PAGE.write_text(page(TITLE, HEAD, every, shown))
    print(f"{PAGE.name} is written, after {(perf_counter() - start) / 60:.1f} minutes.")


def sections(*, quick: bool) -> Iterator[Section]:
    """All that is done again, in the paper's order."""
    where, counts = folder(), cells_file()
    found = []
    if where is not None:
        found = [figure_7.Compared.of(where, data) for data in sets(where, quick=quick)]
        yield figure_7.section(where, found)
        yield figure_8.section(found)
    yield table_1.section(where, quick=quick)
    if where is not None:
        yield from figures_20.sections(found)
        yield planted.section(where, found)
    if counts is not None:
        yield cells.section(counts, quick=quick)


if __name__ == "__main__":
    main()
