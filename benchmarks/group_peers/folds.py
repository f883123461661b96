"""Every method on the same folds: what is answered on one part of the rows is judged on the other.

The runs of the paper's method are truncated to k features a pair, as the paper does. Which of them
is taken is chosen on the rows of the fit, as in the paper; or its λ on rows that were held out of
the fit, within them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.groups import GroupTranslations, Quality, Translations
from counterpoint.groups.path import Count
from counterpoint.groups.quality import Points
from counterpoint.groups.reading import read_rows
from counterpoint.groups.representations import stages
from group_peers.eldr import Published
from group_peers.sgd import STRENGTHS, TRIALS, Setting, explain

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

FOLDS = 2
EACH, MEAN, STAR = "ours, each pair", "ours, on average", "ours, from a reference"
CUT = "ours, truncated"
SGD, TUNED, MEANS = "SGD, best of 55", "SGD, λ held out", "difference of means"
METHODS = (SGD, TUNED, MEANS, EACH, MEAN, STAR, CUT)
COUNTS: dict[str, Count] = {EACH: "each", MEAN: "mean", STAR: "reference"}


@dataclass(frozen=True)
class Judged:
    """How good the explanations of one method are at one k, on one fold."""

    name: str
    k: int
    method: str
    quality: Quality

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        """Correctness, coverage, L1 size and the share of values that leave the range.

        The first two with each group and itself among the pairs, as the paper counts.
        """
        one = self.quality
        return (
            float(one.correctness.mean()),
            float(one.coverage.mean()),
            one.mean(one.sizes),
            one.mean(one.outside),
        )


def fitted(data: Published, rows: IntArray) -> GroupTranslations:
    """Ours on some rows; costs are 1 as in the paper."""
    costs = np.ones(data.X.shape[1])
    model = GroupTranslations(data.network, radius=data.radius, costs=costs, polish=True)
    return model.fit(data.X[rows], [data.groups[i] for i in rows])


def halves(
    groups: Sequence[Any], seed: int, rows: IntArray | None = None
) -> Iterator[tuple[IntArray, IntArray]]:
    """Rows to learn from and rows to judge on; each group is dealt by itself."""
    random = np.random.default_rng(seed)
    fold = np.full(len(groups), -1)
    able = np.arange(len(groups)) if rows is None else rows
    for label in sorted({one for one in groups if one is not None}):
        own = random.permutation([i for i in able if groups[i] == label])
        fold[own] = np.arange(len(own)) % FOLDS
    for part in range(FOLDS):
        yield np.flatnonzero((fold >= 0) & (fold != part)), np.flatnonzero(fold == part)


def judged(data: Published, ks: Sequence[int], seeds: int) -> Iterator[Judged]:
    """Every method on held-out rows."""
    for seed in range(seeds):
        for learn, test in halves(data.groups, seed):
            yield from on(data, learn, test, ks, seed)


def on(
    data: Published, learn: IntArray, test: IntArray, ks: Sequence[int], seed: int
) -> Iterator[Judged]:
    """Every method, fitted on some rows and judged on others."""
    model = fitted(data, learn)
    there = data.X[test], [data.groups[i] for i in test]
    strengths = tuned(data, learn, ks, seed)
    for k, method, one in (*theirs(data, learn, ks, seed, strengths), *ours(model, ks)):
        yield Judged(data.name, k, method, model.judge(*there, one))


def ours(model: GroupTranslations, ks: Sequence[int]) -> Iterator[tuple[int, str, Translations]]:
    """What ours answers for each k."""
    for k in ks:
        yield k, CUT, model.truncated(k)
    for method in COUNTS:
        for k, one in sparse(model, ks, method):
            yield k, method, one


def sparse(
    model: GroupTranslations, ks: Sequence[int], method: str
) -> Iterator[tuple[int, Translations]]:
    """What is not truncated; what is chosen among the same for several k is polished once."""
    known: dict[Any, Translations] = {}
    for k in ks:
        able = model.path_.able(k, COUNTS[method])
        chosen = tuple(map(id, able[:6])) if method == MEAN else k
        if chosen not in known:
            known[chosen] = model.sparse(k, COUNTS[method])
        yield k, known[chosen]


def theirs(
    data: Published,
    rows: IntArray,
    ks: Sequence[int],
    seed: int,
    strengths: dict[int, int] | None = None,
) -> Iterator[tuple[int, str, Translations]]:
    """What the method of the paper answers for each k, and the difference of means."""
    seen = Seen.of(data, rows)
    runs, alike = seen.runs(seed), np.repeat(np.arange(len(STRENGTHS)), TRIALS)
    for k in ks:
        cut = [one.truncated(k) for one in runs]
        rates = np.array([seen.correctness(one) for one in cut])
        yield k, SGD, cut[int(rates.argmax())]
        if strengths is not None:
            chosen = np.where(alike == strengths[k], rates, -1.0)
            yield k, TUNED, cut[int(chosen.argmax())]
        yield k, MEANS, seen.translations(seen.means).truncated(k)


def tuned(data: Published, rows: IntArray, ks: Sequence[int], seed: int) -> dict[int, int]:
    """For each k the λ whose runs are most correct on rows that were held out of them.

    These are some of the rows of the fit; the mean over runs, and over both ways to hold out.
    """
    rates = np.zeros((len(ks), len(STRENGTHS)))
    for learn, test in halves(data.groups, seed + 1000, rows):
        runs, seen = Seen.of(data, learn).runs(seed), Seen.of(data, test)
        for place, k in enumerate(ks):
            found = [seen.correctness(one.truncated(k)) for one in runs]
            rates[place] += np.reshape(found, (len(STRENGTHS), TRIALS)).mean(axis=1)
    return dict(zip(ks, rates.argmax(axis=1).tolist(), strict=True))


@dataclass(frozen=True)
class Seen:
    """What the method of the paper sees of rows."""

    data: Published
    points: Points
    means: FloatArray

    @classmethod
    def of(cls, data: Published, rows: IntArray) -> Seen:
        """Some rows."""
        seen, _, groups = read_rows(data.X[rows], [data.groups[i] for i in rows], None)
        points = Points.of(seen, groups, stages(data.network))
        return cls(data, points, groups.means(seen))

    @property
    def setting(self) -> Setting:
        """What is minimised."""
        targets = self.points.groups.means(self.points.values)
        return Setting(self.data.network, self.means, targets)

    def runs(self, seed: int) -> list[Translations]:
        """The best of these is what the paper shows."""
        return [self.translations(D) for D in explain(self.setting, seed=seed)]

    def translations(self, offsets: FloatArray) -> Translations:
        """Offsets as an explanation, whose costs are 1 for all features."""
        return Translations.of(offsets, self.points.groups.labels)

    def correctness(self, one: Translations) -> float:
        """Equation (3), mean over pairs, as the paper counts."""
        return float(self.points.rates(one, self.data.radius)[0].mean())


def seconds(data: Published, ks: Sequence[int]) -> tuple[float, float, float, float]:
    """CPU seconds on one half of the rows, with the choice for each of all k.

    Of the method of the paper: 55 runs for each k, one by one, as published; 55 runs for all k, one
    by one; the same, all at once. And of ours. A run of each λ is timed, and counted five times.
    """
    learn, _ = next(iter(halves(data.groups, 0)))
    start = process_time()
    list(theirs(data, learn, ks, 0))
    at_once = process_time() - start
    setting = Seen.of(data, learn).setting
    start = process_time()
    explain(setting)
    choosing = at_once - (process_time() - start)
    start = process_time()
    for strength in STRENGTHS:
        explain(setting, strengths=(strength,), trials=1)
    alone = TRIALS * (process_time() - start)
    start = process_time()
    model = fitted(data, learn)
    list(sparse(model, ks, EACH))
    own = process_time() - start
    return len(ks) * alone + choosing, alone + choosing, at_once, own
