"""Noise drawn repeatedly, and whether what is answered holds by the true weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from scipy.stats import beta as beta_law
from scipy.stats import binom

import counterpoint as cp
from counterpoint.privacy import PrivateSVC
from private.paper import (
    LOADERS,
    Kind,
    TrueModel,
    bisect,
    cone_program,
    k_paper,
    true_model,
)

AS_PRINTED, PLAIN, PAPER = "Algorithm 1, as printed", "not robust", "segment, paper's rule"
CONE, COSTLY = "paper's cone program", "optimal, selection"
METHODS: dict[Kind, dict[str, dict[str, Any]]] = {
    "fourier": {
        PLAIN: {},
        AS_PRINTED: {},
        PAPER: {},
        "segment, exact rule": {"guarantee": "fixed", "search": "segment"},
        "optimal, exact rule": {"guarantee": "fixed", "search": "optimal"},
        "segment, selection": {"guarantee": "selection", "search": "segment"},
        COSTLY: {"guarantee": "selection", "search": "optimal"},
    },
    "linear": {
        PLAIN: {},
        CONE: {},
        "exact rule": {"guarantee": "fixed"},
        "selection": {"guarantee": "selection"},
    },
}
"""Kind of features → method → what is asked of `counterpoint.Robust`."""
COLOURS = {
    PLAIN: "#8c8c8c",
    AS_PRINTED: "#000000",
    PAPER: "#cc79a7",
    "segment, exact rule": "#56b4e9",
    "optimal, exact rule": "#d55e00",
    "segment, selection": "#0072b2",
    COSTLY: "#009e73",
    CONE: "#cc79a7",
    "exact rule": "#d55e00",
    "selection": "#009e73",
}
NAMES: dict[Kind, str] = {"fourier": "random features", "linear": "linear"}
P, BETA = 0.9, 5.0
BETAS: dict[Kind, tuple[float, ...]] = {
    "fourier": (5.0, 10.0, 50.0),
    "linear": (50.0, 100.0, 400.0),
}
"""Features of both signs add up to less noise than the 31 weights of standardised columns."""
CURVE = (0.1, 1.0, *BETAS["fourier"])
CURVE_PS = (0.6, 0.75, P, 0.99)
"""Of figures 5 and 6, for breast cancer; along p at β = 5."""


class Sizes(NamedTuple):
    """How much is done: everything, or enough to see that it works.

    Draws of the noise of each cell, each with a row and random features of its own; of these, those
    for the method that takes longest; draws of random features that take turns; draws for each
    accuracy; and how many data sets.
    """

    trials: int
    costly: int
    features: int
    accuracies: int
    sets: int


FULL, QUICK = Sizes(60, 15, 5, 10_000, 4), Sizes(2, 1, 1, 50, 1)


class Cell(NamedTuple):
    """What is simulated: a data set, a kind of features, β and p."""

    data: str
    kind: Kind
    beta: float
    p: float


class Answer(NamedTuple):
    """A distance, the true weights' lead for the label there (NaN without an answer), a claim."""

    distance: float = float("nan")
    lead: float = float("nan")
    guarantee: str = ""


@dataclass(frozen=True, eq=False)
class Tally:
    """What one method answered to independent trials."""

    p: float
    answers: Sequence[Answer]

    @property
    def distance(self) -> np.ndarray:
        """Distances; NaN without an answer."""
        return np.array([answer.distance for answer in self.answers])

    @property
    def lead(self) -> np.ndarray:
        """By how much the true weights are for the label; NaN without an answer."""
        return np.array([answer.lead for answer in self.answers])

    @property
    def count(self) -> int:
        """Number of answers."""
        return int(np.isfinite(self.distance).sum())

    @property
    def right(self) -> int:
        """Number of answers that have the label by the true weights."""
        return int((self.lead > 0.0).sum())

    @property
    def wrong(self) -> int:
        """Number of answers that have not."""
        return self.count - self.right

    @property
    def surprise(self) -> float:
        """How likely so many wrong answers are where each trial has one with chance 1 − p."""
        return float(binom.sf(self.wrong - 1, len(self.answers), 1.0 - self.p))

    @property
    def guarantees(self) -> set[str]:
        """What is claimed for the answers."""
        return {answer.guarantee for answer in self.answers if np.isfinite(answer.distance)}

    @property
    def mean(self) -> float:
        """The mean distance of the answers."""
        return float(np.nanmean(self.distance)) if self.count else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """The share of right answers, by Clopper and Pearson (1934), with 95 %."""
        right, wrong = self.right, self.wrong
        low = beta_law.ppf(0.025, right, wrong + 1) if right else 0.0
        high = beta_law.ppf(0.975, right + 1, wrong) if wrong else 1.0
        return float(low), float(high)

    @property
    def share(self) -> str:
        """The share of right answers with its interval, as a table shows it."""
        if not self.count:
            return ""
        low, high = self.interval
        return f"{self.right / self.count:.3f} ({low:.3f}–{high:.3f})"


Tallies = dict[str, Tally]
"""By method."""


def pooled(tallies: Sequence[Tally]) -> Tally:
    """Several cells of the same p as one."""
    return Tally(tallies[0].p, [answer for tally in tallies for answer in tally.answers])


def answer(truth: TrueModel, model: PrivateSVC, x: np.ndarray, cell: Cell, method: str) -> Answer:
    """What a method says of one row of a released model, and what the true weights say of that."""
    label = 1 - int(model.predict(x[None])[0])
    sign, prototype = (1.0 if label == 1 else -1.0), truth.data.prototypes[label]
    point, guarantee = None, "p (the paper)"
    if method in (AS_PRINTED, PAPER):
        lead = lambda y: float(sign * model.decision_function(y[None])[0])  # noqa: E731
        bisected = bisect(lead, x, prototype, model.scale_ * k_paper(cell.p))
        point = bisected.point if bisected.miss <= 0.0 or method == AS_PRINTED else None
    elif method == CONE:
        point = cone_program(model, x, sign, cell.p)
    else:
        how = dict(METHODS[cell.kind][method])
        if how.get("search") == "segment":
            if model.predict(prototype[None])[0] != label:
                return Answer()
            how["prototype"] = prototype
        target = cp.Robust(label, cell.p, **how) if how else cp.Label(label)
        answers = cp.Explainer(model, cost=cp.SquaredEuclidean()).explain(x[None], target)
        point = answers.to_frame()[0] if answers.found[0] else None
        guarantee = str(answers[0].certificate.guarantee)
    if point is None:
        return Answer()
    distance, lead_ = float(np.linalg.norm(point - x)), float(truth.lead(point[None], label)[0])
    return Answer(distance, lead_, guarantee)


@cache
def simulated(cell: Cell, sizes: Sizes) -> Tallies:
    """Method → its answers; the same trials for all, of which the costly one has fewer."""
    answers: dict[str, list[Answer]] = {name: [] for name in METHODS[cell.kind]}
    for trial in range(sizes.trials):
        random = np.random.default_rng([crc32(repr(tuple(cell)).encode()), trial])
        seed = trial % sizes.features if cell.kind == "fourier" else 0
        truth = true_model(cell.data, cell.kind, seed)
        model = truth.released(cell.beta, int(random.integers(1, 2**31)))
        x = truth.data.test[random.integers(len(truth.data.test))]
        for name, results in answers.items():
            if name != COSTLY or trial < sizes.costly:
                results.append(answer(truth, model, x, cell, name))
    return {name: Tally(cell.p, results) for name, results in answers.items()}


def cells(kind: Kind, sizes: Sizes) -> list[Cell]:
    """Those of the table of real validity."""
    names = [name for name, load in LOADERS.items() if load() is not None][: sizes.sets]
    betas = BETAS[kind] if sizes is FULL else BETAS[kind][1:]
    return [Cell(name, kind, beta, P) for name in names for beta in betas]


def curves(sizes: Sizes) -> tuple[dict[float, Tallies], dict[float, Tallies]]:
    """β → method → answers, and p → the same, for breast cancer."""
    betas, ps = (CURVE, CURVE_PS) if sizes is FULL else (CURVE[3:], CURVE_PS[::2])
    return (
        {beta: simulated(Cell("breast cancer", "fourier", beta, P), sizes) for beta in betas},
        {p: simulated(Cell("breast cancer", "fourier", BETA, p), sizes) for p in ps},
    )
