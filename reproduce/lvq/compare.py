"""All methods on all points: what each of them found, what it is worth, and how long it took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

import numpy as np

import counterpoint as cp
from lvq.black_box import black_box, cma_es, downhill_simplex
from lvq.programs import CORRECTED, PRINTED, by_programs
from lvq.sets import Case, Data, Sizes, cases

SIMPLEX, CMA, AS_PRINTED, AS_DERIVED, OURS = (
    "Downhill-Simplex",
    "CMA-ES",
    "as printed, 2019",
    "paper, corrected",
    "ours",
)
Finder = Callable[[int], np.ndarray | None]
PEERS: dict[str, Callable[[Case], Finder]] = {
    SIMPLEX: black_box(downhill_simplex),
    CMA: black_box(cma_es),
    AS_PRINTED: by_programs(PRINTED),
    AS_DERIVED: by_programs(CORRECTED),
}
METHODS = (*PEERS, OURS)
KEPT = 1e-6
"""By how much a feature that is to stay as it is may move, where a solver takes it for equal."""
BETTER = 1e-6
"""The relative difference below which two distances are the same."""
NEARER = 1e-3
"""The relative difference that counts as nearer: more than a margin ε costs."""


@dataclass(frozen=True, eq=False)
class Found:
    """What one method found for the points of one data set and model.

    Parameters
    ----------
    distance
        (n,) Manhattan, in the model's space; NaN where there is no answer.
    valid
        (n,): whether the model predicts the target there, and what is fixed stayed.
    bare
        (n,): whether the answer is just a prototype.
    seconds
        (n,) of CPU time.
    """

    distance: np.ndarray
    valid: np.ndarray
    bare: np.ndarray
    seconds: np.ndarray

    @property
    def found(self) -> np.ndarray:
        """(n,): whether there is an answer, right or wrong."""
        return np.isfinite(self.distance)

    def mean(self, rows: np.ndarray | None = None) -> float:
        """The mean distance of valid answers, or of the answers to these rows; NaN of none."""
        chosen = self.distance[self.valid if rows is None else rows]
        return float(chosen.mean()) if len(chosen) else float("nan")


@dataclass(frozen=True, eq=False)
class Cell:
    """A data set and a model.

    Parameters
    ----------
    data, name
        Which.
    cases
        One for each fold.
    found
        Method → what it found.
    answers
        Ours, each of one point, with its certificate.
    batch
        (n,) seconds of ours where all points of a fold and a target are asked at once.
    """

    data: Data
    name: str
    cases: list[Case]
    found: dict[str, Found]
    answers: list[cp.Counterfactuals]
    batch: np.ndarray

    @property
    def key(self) -> tuple[str, str]:
        """As in the paper's tables."""
        return self.data.name, self.name

    @property
    def claims(self) -> list[cp.Claim]:
        """(n,) what is claimed for ours."""
        return [answer[0].certificate.claim for answer in self.answers]

    @property
    def gaps(self) -> np.ndarray:
        """(n,) the gaps of ours."""
        return np.concatenate([answer.gap for answer in self.answers])

    @property
    def right(self) -> float:
        """The share of held-out rows that are predicted right."""
        return float(np.mean([case.right for case in self.cases]))

    def worse(self, name: str) -> np.ndarray:
        """(n,): whether a valid answer of this method is farther than ours."""
        theirs, ours = self.found[name], self.found[OURS]
        farther = theirs.distance > ours.distance * (1.0 + NEARER)
        return farther & theirs.valid & ours.valid

    def together(self, *names: str) -> np.ndarray:
        """(n,): whether all of these methods have a valid answer."""
        return np.all([self.found[name].valid for name in names], axis=0)


def compare(data: Data, name: str, sizes: Sizes) -> Cell:
    """A cell of table 1."""
    folds = list(cases(data, name, sizes.points))
    found = {}
    for method, prepare in PEERS.items():
        parts = [_by(case, prepare(case)) for case in folds]
        found[method] = _joined(parts)
    results = [_ours(case) for case in folds]
    found[OURS] = _joined([found for found, _, _ in results])
    answers = [answer for _, each, _ in results for answer in each]
    return Cell(data, name, folds, found, answers, np.concatenate([b for _, _, b in results]))


def explainer(case: Case) -> cp.Explainer:
    """Ours: the model as it is, distance unweighted, the last features fixed."""
    names = [f"x{j}" for j in range(case.free, case.X.shape[1])]
    constraints = [cp.Immutable(*names)] if names else []
    return cp.Explainer(case.model, cost=cp.Manhattan(), constraints=constraints)


def _by(case: Case, find: Finder) -> Found:
    points, seconds = np.full(case.X.shape, np.nan), np.empty(len(case.X))
    for i in range(len(case.X)):
        start = process_time()
        point = find(i)
        seconds[i] = process_time() - start
        if point is not None:
            points[i] = point
    return _judged(case, points, seconds)


def _ours(case: Case) -> tuple[Found, list[cp.Counterfactuals], np.ndarray]:
    """Each point alone, after one that is not counted for each target; and as batches."""
    asked, targets = explainer(case), case.targets
    points, seconds, batch = np.empty(case.X.shape), *np.empty((2, len(case.X)))
    answers: list[cp.Counterfactuals] = []
    for label in np.unique(targets):
        rows = np.flatnonzero(targets == label)
        asked.explain(case.X[rows], int(label))
        start = process_time()
        asked.explain(case.X[rows], int(label))
        batch[rows] = (process_time() - start) / len(rows)
    for i, label in enumerate(targets.tolist()):
        start = process_time()
        answer = asked.explain(case.X[i : i + 1], label)
        seconds[i] = process_time() - start
        points[i] = answer.to_frame()[0]
        answers.append(answer)
    return _judged(case, points, seconds), answers, batch


def _judged(case: Case, points: np.ndarray, seconds: np.ndarray) -> Found:
    """The model's own word on the points."""
    there = np.isfinite(points).all(axis=1)
    distance = np.abs(points - case.X).sum(axis=1)
    moved = np.abs(points - case.X)[:, case.free :]
    valid = there & (moved <= KEPT).all(axis=1)
    valid[there] &= case.model.predict(points[there]) == case.targets[there]
    apart = np.abs(points[:, None] - case.model.prototypes_).max(axis=2)
    return Found(distance, valid, (apart <= KEPT).any(axis=1), seconds)


def _joined(parts: list[Found]) -> Found:
    names = ("distance", "valid", "bare", "seconds")
    return Found(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
