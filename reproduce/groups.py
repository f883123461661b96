"""The tables and figures of Plumb et al. that can be done again, next to the paper's own numbers.

*Explaining groups of points in low-dimensional representations* (2020). Writes `groups.md` and
figures, in some minutes on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from groups import cells, figure_7, planted, table_1, words
from harness.data import data_file
from harness.report import Section, reproduce
from peers.eldr import RADIUS, published

TITLE = "Explaining groups of points in low-dimensional representations"
HEAD = """
Plumb, Terhorst, Sankararaman and Talwalkar (2020), done again: their published explanations (TGT),
judged here; ours of the same data and encoders; data whose structure is known; changes that were
planted; and single cells. Explanations on rows that were not fitted are in the benchmarks. This
page and its figures are written by `make reproduce ONLY=groups`.
"""


def sections(*, quick: bool) -> Iterator[Section]:
    """All that is done again, in the paper's order."""
    file, counts = data_file("eldr/results/Iris/out.csv"), data_file("scrna/pbmc68k_reduced.npz")
    folder = None if file is None else file.parents[2]
    if folder is not None:
        names = ("Iris",) if quick else RADIUS
        sets = [figure_7.Compared.of(folder, published(folder, name)) for name in names]
        yield figure_7.section(sets)
    yield table_1.section(folder, quick=quick)
    if folder is not None:
        yield words.section(sets)
        yield planted.section(folder, sets)
    if counts is not None:
        yield cells.section(counts, quick=quick)


def main() -> None:
    reproduce(__file__, TITLE, HEAD, sections)


if __name__ == "__main__":
    main()
