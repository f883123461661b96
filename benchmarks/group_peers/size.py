"""Many rows of many features: seconds, and memory against that of a dense matrix."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
from scipy import sparse

from counterpoint.groups import Affine, GroupTranslations
from group_peers.cells import cells
from group_peers.sgd import Setting, explain

GENES = 13_166
STRENGTHS = 10
ROWS = 30_000
GROUPS = 18
SHARE = 0.03
"""Of the entries of sparse rows are not zero."""
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Large:
    """Seconds of a fit of ours and of one run of the method of the paper; and what ours found."""

    groups: int
    features: int
    ours: float
    theirs: float
    path: str


def many_features(folder: Path, features: int, strengths: int) -> Large:
    """Several strengths on as many features as there are genes, before the authors' encoder."""
    rows, labels, space = cells(folder, features)
    costs = np.ones(rows.shape[1])
    start = process_time()
    model = GroupTranslations(space, strengths=strengths, costs=costs).fit(rows, labels)
    ours = process_time() - start
    scene = model.scene_
    start = process_time()
    explain(Setting(space, scene.means, scene.targets), strengths=(0.5,), trials=1)
    theirs = process_time() - start
    path = str(model.path_)[1:-1].partition(": ")[2]
    return Large(len(scene.labels), rows.shape[1], ours, theirs, path)


@dataclass(frozen=True)
class Sparse:
    """Sparse rows: seconds of a fit and of judging, and the most memory that both took, in MiB."""

    rows: int
    features: int
    fit: float
    judge: float
    peak: float
    own: float
    dense: float


def many_rows(rows: int, features: int) -> Sparse:
    """Counts of which most are zero, seen through a linear map into two dimensions."""
    random = np.random.default_rng(0)
    X = sparse.random_array((rows, features), density=SHARE, format="csr", rng=random)
    labels = np.arange(rows) % GROUPS
    X = sparse.csr_array(X.multiply(1.0 + random.random((GROUPS, 1))[labels]))
    space = Affine(random.normal(size=(features, 2)) / np.sqrt(features), np.zeros(2))
    start = process_time()
    model = GroupTranslations(space, strengths=STRENGTHS).fit(X, labels)
    fit = process_time() - start
    start = process_time()
    model.judge(X, labels)
    judge = process_time() - start
    tracemalloc.start()
    GroupTranslations(space, strengths=2).fit(X, labels).judge(X, labels)
    peak = tracemalloc.get_traced_memory()[1] / MEBIBYTE
    tracemalloc.stop()
    own = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / MEBIBYTE
    return Sparse(rows, features, fit, judge, peak, own, 8.0 * rows * features / MEBIBYTE)
