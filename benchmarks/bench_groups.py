"""Explanations between groups: against the method of the paper, and how it scales.

Each number is a mean over all pairs of groups, each group and itself included, as the paper counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from _common import Goal, More, Report, data_file, finish, is_quick, number
from group_peers.cells import cells
from group_peers.eldr import RADIUS, Published, published
from group_peers.sgd import Setting, explain
from numpy.typing import NDArray

from counterpoint.groups import GroupTranslations, Quality, Translations

FloatArray = NDArray[np.float64]

SEEDS = 3
FOLDS = 2
STRENGTHS = 10
GENES = 13_166
SECONDS = 20.0
OURS = "ours, truncated"
EACH, MEAN = "ours, each pair", "ours, on average"
SGD, MEANS = "SGD, best of 55", "difference of means"
POLISHED = ", polished"
CUT = (SGD, MEANS, OURS, OURS + POLISHED)
WHOLE = (EACH, EACH + POLISHED, MEAN, MEAN + POLISHED)


@dataclass(frozen=True)
class Judged:
    """How good the explanations of one method are at one k."""

    name: str
    k: int
    method: str
    quality: Quality

    @property
    def rates(self) -> tuple[float, float]:
        """Correctness and coverage."""
        return float(self.quality.correctness.mean()), float(self.quality.coverage.mean())


def answers(
    model: GroupTranslations, ks: Sequence[int], seed: int
) -> Iterator[tuple[int, str, Translations]]:
    """What each method answers on the rows that a model was fitted on."""
    scene, costs = model.scene_, np.ones(model.n_features_in_)
    runs = explain(Setting(model.representation, scene.means, scene.targets), seed=seed)
    theirs = [Translations.of(D, scene.labels, costs=costs) for D in runs]
    means = Translations.of(scene.means, scene.labels, costs=costs)
    for k in ks:
        cut = [one.truncated(k) for one in theirs]
        yield k, SGD, max(cut, key=lambda one: scene.rates(one)[0])
        yield k, MEANS, means.truncated(k)
        for polish, said in ((False, ""), (True, POLISHED)):
            model.set_params(polish=polish)
            yield k, OURS + said, model.truncated(k)
            yield k, EACH + said, model.sparse(k, "each")
            yield k, MEAN + said, model.sparse(k, "mean")


def fitted(data: Published, rows: NDArray[np.intp]) -> GroupTranslations:
    """Ours on some rows; costs are 1 as in the paper."""
    costs = np.ones(data.X.shape[1])
    model = GroupTranslations(data.network, radius=data.radius, costs=costs)
    return model.fit(data.X[rows], [data.groups[i] for i in rows])


def halves(data: Published, seed: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows to learn from and rows to judge on; each group is dealt by itself."""
    random = np.random.default_rng(seed)
    fold = np.full(len(data.groups), -1)
    for label in set(data.groups) - {None}:
        rows = random.permutation([i for i, one in enumerate(data.groups) if one == label])
        fold[rows] = np.arange(len(rows)) % FOLDS
    for part in range(FOLDS):
        yield np.flatnonzero((fold >= 0) & (fold != part)), np.flatnonzero(fold == part)


def judged(data: Published, ks: Sequence[int], seeds: int) -> Iterator[Judged]:
    """Every method on held-out rows."""
    for seed in range(seeds):
        for learn, test in halves(data, seed):
            model = fitted(data, learn)
            there = data.X[test], [data.groups[i] for i in test]
            for k, method, one in answers(model, ks, seed):
                yield Judged(data.name, k, method, model.judge(*there, one))


def on_the_same(data: Published, ks: Sequence[int]) -> Iterator[Judged]:
    """Every method on the rows of its fit, as the paper does."""
    model = fitted(data, np.arange(len(data.X)))
    for k, method, one in answers(model, ks, 0):
        yield Judged(data.name, k, method, model.judge(data.X, data.groups, one))


def table(found: Sequence[Judged], methods: Sequence[str]) -> list[list[str]]:
    """A line for each set and k: correctness and coverage of each method."""
    lines = []
    for name, k in dict.fromkeys((one.name, one.k) for one in found):
        cells_ = [
            "/".join(f"{rate:.3f}" for rate in mean_of(found, name, k, method))
            for method in methods
        ]
        lines.append([f"{name}, k = {k}", *cells_])
    return lines


def mean_of(found: Sequence[Judged], name: str, k: int, method: str) -> FloatArray:
    """Mean correctness and coverage."""
    wanted = (name, k, method)
    return np.mean([one.rates for one in found if (one.name, one.k, one.method) == wanted], axis=0)


def goals(held: Sequence[Judged]) -> list[Goal]:
    """At each k, no worse than the best of 55 runs, on rows that neither has seen."""
    asked = []
    for index, what in enumerate(("correctness", "coverage")):
        places = list(dict.fromkeys((one.name, one.k) for one in held))
        gains = [
            mean_of(held, *place, OURS + POLISHED)[index] - mean_of(held, *place, SGD)[index]
            for place in places
        ]
        better = int(np.sum(np.array(gains) > 0.0))
        asked.append(
            Goal(
                f"{what}, held out, truncated as theirs",
                "above the best of 55 runs at every k",
                f"{better} of {len(places)}, by {number(float(np.mean(gains)))} on average",
                better == len(places),
            )
        )
    return asked


def paper_of(data: Published, ks: Sequence[int]) -> dict[tuple[str, int], str]:
    """The numbers of the paper."""
    lines = {int(line[0]): line for line in data.paper}
    return {(data.name, k): f"{lines[k][1]:.3f}/{lines[k][2]:.3f}" for k in ks}


def scale(folder: Path, quick: bool) -> tuple[Goal, list[str]]:  # noqa: FBT001 (a flag of the script)
    """Ten strengths on as many features as there are genes."""
    rows, labels, space = cells(folder, GENES // 10 if quick else GENES)
    costs = np.ones(rows.shape[1])
    start = process_time()
    model = GroupTranslations(space, strengths=STRENGTHS, costs=costs).fit(rows, labels)
    ours = process_time() - start
    scene = model.scene_
    start = process_time()
    explain(Setting(space, scene.means, scene.targets), strengths=(0.5,), trials=1)
    theirs = process_time() - start
    size = f"{len(scene.labels)} groups × {rows.shape[1]} features"
    goal = Goal(
        f"{size}, {STRENGTHS} strengths", f"at most {SECONDS:g} s", f"{ours:.1f} s", ours <= SECONDS
    )
    return goal, [size, f"{ours:.1f} s", f"{theirs:.1f} s", str(model.path_)[1:-1]]


def main() -> None:
    """Measure and report."""
    quick = is_quick()
    file = data_file("eldr/results/Iris/out.csv")
    if file is None:
        return
    folder = file.parents[2]
    same: list[Judged] = []
    held: list[Judged] = []
    printed: dict[tuple[str, int], str] = {}
    for name in ("Iris",) if quick else RADIUS:
        data = published(folder, name)
        ks = [int(k) for k in data.paper[:, 0] if k <= 9]
        printed |= paper_of(data, ks)
        same += on_the_same(data, ks)
        held += judged(data, ks, 1 if quick else SEEDS)
    speed, line = scale(folder, quick)
    lines = table(same, (*CUT, *WHOLE))
    for one, (name, k) in zip(lines, dict.fromkeys((x.name, x.k) for x in same), strict=True):
        one.insert(1, printed[name, k])
    finish(
        Report(
            subject="groups",
            title="Explanations between groups",
            question="""Correctness/coverage of explanations of all pairs of groups, on held-out
                rows: fitted on one half of each group, judged on the other, mean of both ways and
                of three seeds.""",
            columns=("data", *CUT, *WHOLE),
            rows=table(held, (*CUT, *WHOLE)),
            goals=[*goals(held), speed],
            notes=notes(),
            tables=(
                More(
                    "On the rows of the fit, on which the runs of the paper were chosen as well",
                    ("data", "paper", *CUT, *WHOLE),
                    lines,
                ),
                More(
                    "CPU seconds with many features",
                    ("size", f"ours, {STRENGTHS} strengths", "SGD, one run", "path"),
                    [line],
                ),
            ),
        ),
        quick=quick,
    )


def notes() -> list[Any]:
    """What must be said along with the numbers."""
    return [
        """Truncated explanations keep the k largest changes of each pair, as the paper does;
        changes of three groups then do not add up. All others do, to rounding, and change at most
        k features of each pair, or k on average.""",
        """The SGD of the paper is run as the paper says, with 11 strengths and 5 trials of each;
        for each k the run of the highest correctness on the rows of the fit is taken. Costs are 1
        for all features, and the radius is the paper's.""",
        """With one feature for each pair, consistency costs most: of groups that do not lie on a
        line, some pairs need two.""",
    ]


if __name__ == "__main__":
    main()
