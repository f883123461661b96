"""Noise drawn again and again, and whether what is answered holds by the true weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta as beta_law
from scipy.stats import binom

from private.known import Kind, known
from private.methods import COSTLY, METHODS, Answer, Asked, answer

__all__ = ["Cell", "Sizes", "Tally", "interval", "pooled", "simulated"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """How much is done.

    Parameters
    ----------
    trials
        Draws of the noise for each cell, each with a row and random features of its own.
    costly
        Of these, how many are for the method that takes longest.
    features
        So many draws of random features take turns.
    """

    trials: int
    costly: int
    features: int


@dataclass(frozen=True)
class Cell:
    """What is simulated: a data set, a kind of features, β and p."""

    data: str
    kind: Kind
    beta: float
    p: float


@dataclass(frozen=True, eq=False)
class Tally:
    """What one method answered to independent trials."""

    p: float
    answers: Sequence[Answer]

    @property
    def distance(self) -> FloatArray:
        """(n,) NaN without an answer."""
        return np.array([one.distance for one in self.answers])

    @property
    def safety_margin(self) -> FloatArray:
        """(n,) by how much the true weights are for the label; NaN without an answer."""
        return np.array([one.safety_margin for one in self.answers])

    @property
    def found(self) -> int:
        """How many answers there are."""
        return int(np.isfinite(self.distance).sum())

    @property
    def right(self) -> int:
        """How many have the label by the true weights."""
        return int((self.safety_margin > 0.0).sum())

    @property
    def wrong(self) -> int:
        """And how many have not."""
        return self.found - self.right

    @property
    def surprise(self) -> float:
        """How likely so many wrong answers are where each trial has one with chance 1 − p."""
        return float(binom.sf(self.wrong - 1, len(self.answers), 1.0 - self.p))

    @property
    def guarantees(self) -> dict[str, int]:
        """What is claimed → for how many answers."""
        said = [one.guarantee for one in self.answers if np.isfinite(one.distance)]
        return {word: said.count(word) for word in sorted(set(said))}

    @property
    def mean(self) -> float:
        """The mean distance of the answers."""
        return float(np.nanmean(self.distance)) if self.found else float("nan")

    @property
    def median(self) -> float:
        """The median distance of the answers."""
        return float(np.nanmedian(self.distance)) if self.found else float("nan")


@cache
def simulated(cell: Cell, sizes: Sizes) -> dict[str, Tally]:
    """Method → what it answered; the same trials for all, of which the costly one has fewer."""
    held: dict[str, list[Answer]] = {name: [] for name in METHODS[cell.kind]}
    for trial in range(sizes.trials):
        asked = _asked(cell, trial, sizes.features)
        for name, answers in held.items():
            if name != COSTLY or trial < sizes.costly:
                answers.append(answer(asked, cell.kind, name))
    return {name: Tally(cell.p, answers) for name, answers in held.items()}


def _asked(cell: Cell, trial: int, features: int) -> Asked:
    """One trial: all of it is drawn anew."""
    random = np.random.default_rng([crc32(repr(cell).encode()), trial])
    drawn = trial % features if cell.kind == "fourier" else 0
    one = known(cell.data, cell.kind, drawn)
    model = one.released(cell.beta, int(random.integers(1, 2**31)))
    x = one.data.test[random.integers(len(one.data.test))]
    return Asked(one, model, x, 1 - int(model.predict(x[None])[0]), cell.p)


def pooled(tallies: Sequence[Tally]) -> Tally:
    """Several cells of the same p as one."""
    return Tally(tallies[0].p, [one for tally in tallies for one in tally.answers])


def interval(right: int, among: int, sure: float = 0.95) -> tuple[float, float]:
    """The interval of Clopper and Pearson (1934)."""
    tail = 0.5 * (1.0 - sure)
    low = beta_law.ppf(tail, right, among - right + 1) if right else 0.0
    high = beta_law.ppf(1.0 - tail, right + 1, among - right) if right < among else 1.0
    return float(low), float(high)
