"""Table 1: the data sets and their classifiers."""

from __future__ import annotations

from collections.abc import Sequence

from common.report import Section

from inverse import paper
from inverse.sets import Set

TEXT = """
The paper trains on MNIST, RCV1 and features of images of ImageNet that a neural network computes.
Here MNIST is its public test set, half of it to train on; where that is absent, strokes are drawn
instead (MNIST-like). The others are drawn: documents with words of topics and of fields that topics
share (RCV1-like), and features behind a rectifier (VGGFeat-like), in the paper's K and D, with a
softmax classifier trained on them. scikit-learn's digits are added.
"""
NOTE = """
So the classifiers are not the paper's, and neither are the problems: what carries over is K, D and
how the methods compare.
"""


def section(softmax: Sequence[Set], binary: Sequence[Set]) -> Section:
    """All classifiers."""
    rows = [_row(one, one.paper, len(one.A)) for one in softmax]
    rows += [_row(one, f"{one.paper}, K = 2", 2) for one in binary]
    return Section(
        "Table 1: data sets and classifiers",
        TEXT,
        (
            "data",
            "D",
            "K",
            "trained on: paper",
            "here",
            "error, %: paper",
            "here",
            "tested on: paper",
            "here",
            "error, %: paper",
            "here",
        ),
        rows,
        [NOTE],
    )


def _row(one: Set, paper_name: str, classes: int) -> tuple[str, ...]:
    theirs = paper.TABLE_1.get(paper_name, ("", "", "", "", "", ""))
    train, held = one.errors()
    data = one.data
    return (
        one.name,
        _count(one.A.shape[1]),
        str(classes),
        theirs[2],
        _count(data.X.shape[0]),
        theirs[3],
        f"{100 * train:.2f}",
        theirs[4],
        _count(data.held.shape[0]),
        theirs[5],
        f"{100 * held:.2f}",
    )


def _count(number: int) -> str:
    return f"{number:,}".replace(",", " ")
