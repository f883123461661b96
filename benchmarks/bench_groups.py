"""Explanations between groups: against the method of the paper, on real cells, and how it scales.

Fitted on one half of each group and judged on the other, both ways, for five seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _common import Goal, More, Report, data_file, finish, is_quick, number
from group_peers import genes, sgd
from group_peers.eldr import RADIUS, published
from group_peers.folds import (
    CUT,
    EACH,
    MEAN,
    MEANS,
    SGD,
    STAR,
    TUNED,
    Judged,
    halves,
    judged,
    seconds,
)
from group_peers.size import GENES, ROWS, STRENGTHS, many_features, many_rows

from counterpoint.groups import DifferenceOfMeans, Quality

SEEDS = 5
MOST = 9
"""Features a pair that are compared at most."""
SHARE = 0.1
"""Of the time of the method of the paper."""
SECONDS = 20.0
JUDGING = 10.0
KS = (25, 50, 100)
TIMES = (1.0, 1.5, 2.0)
"""The largest change of a gene, in ranges of the cluster means."""
SHOWN = (SGD, TUNED, MEANS, EACH, MEAN, STAR, CUT)


@dataclass(frozen=True)
class Cell:
    """What one set and one k come to over the folds."""

    name: str
    k: int
    found: Sequence[Judged]

    def of(self, method: str) -> np.ndarray:
        """(folds, 4) correctness, coverage, L1 size, share out of range."""
        return np.array([one.numbers for one in self.found if one.method == method])

    def gain(self, method: str, index: int) -> tuple[float, float]:
        """Over the best of 55 runs on the same folds: the mean, and its standard error."""
        gains = (self.of(method) - self.of(SGD))[:, index]
        return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))

    @property
    def label(self) -> str:
        return f"{self.name}, k = {self.k}"


def cells_of(found: Sequence[Judged]) -> list[Cell]:
    """One for each set and k."""
    places = dict.fromkeys((one.name, one.k) for one in found)
    return [Cell(*at, [one for one in found if (one.name, one.k) == at]) for at in places]


def rates(cell: Cell) -> list[str]:
    """Correctness/coverage of each method; of ours in bold if neither is below the runs."""
    line = [cell.label]
    for method in SHOWN:
        told = "/".join(f"{rate:.3f}" for rate in cell.of(method)[:, :2].mean(axis=0))
        ahead = all(cell.gain(method, index)[0] >= 0.0 for index in (0, 1))
        line.append(f"**{told}**" if ahead and method in (EACH, MEAN, STAR, CUT) else told)
    return line


def spreads(cell: Cell) -> list[str]:
    """What the means do not say: spread, gain and its error, size, range."""
    line = [cell.label]
    for index in (0, 1):
        line += [f"{cell.of(method)[:, index].std(ddof=1):.3f}" for method in (SGD, EACH)]
        gain, error = cell.gain(EACH, index)
        line.append(f"{gain:+.3f} ± {error:.3f}")
    for index, form in ((2, ".2f"), (3, ".0%")):
        line += [f"{cell.of(method)[:, index].mean():{form}}" for method in (SGD, EACH)]
    larger = cell.gain(EACH, 2)[0] > 0.0
    behind = [what for index, what in enumerate(WHAT) if cell.gain(EACH, index)[0] < 0.0]
    return [
        *line,
        "; ".join([*(f"{what} lower" for what in behind), *["larger"] * larger]) or "yes",
    ]


WHAT = ("correctness", "coverage")
KINDS = (
    (EACH, "at most k for every pair", 0.8),
    (STAR, "k from a reference group", 0.93),
    (CUT, "truncated as theirs", 0.93),
)
"""And the share of the cells in which each is to be ahead: 11, 13 and 13 of 14."""


def goals(cells: Sequence[Cell]) -> list[Goal]:
    """Seldom worse than the best of 55 runs, on rows that neither has seen, nor larger."""
    asked = []
    for method, what, least in KINDS:
        for index, rate in enumerate(WHAT):
            gains = np.array([cell.gain(method, index)[0] for cell in cells])
            ahead = int((gains >= 0.0).sum())
            asked.append(
                Goal(
                    f"{rate}, held out, {what}",
                    f"at least that of the best of 55 runs in {least:.0%} of the cells",
                    f"{ahead} of {len(gains)}, by {gains.mean():+.3f} on average",
                    ahead >= int(least * len(gains)),
                )
            )
        sizes = np.array(
            [cell.of(method)[:, 2].mean() / cell.of(SGD)[:, 2].mean() for cell in cells]
        )
        asked.append(
            Goal(
                f"mean L1 size, {what}",
                "at most theirs on average",
                f"{sizes.mean():.2f}× on average; at most theirs in "
                f"{int((sizes <= 1.0).sum())} of {len(sizes)}",
                bool(sizes.mean() <= 1.0),
            )
        )
    return asked


def times(folder: Path, names: Sequence[str]) -> tuple[list[Goal], More]:
    """Seconds for all k together."""
    asked, lines = [], []
    for name in names:
        data = published(folder, name)
        published_, shared, at_once, own = seconds(data, ks_of(data.paper))
        asked.append(
            Goal(
                f"{name}, CPU time, all k",
                f"at most {SHARE:g} of 55 runs for each k, as published",
                f"{own / published_:.2f}; {own / shared:.2f} of 55 runs for all k",
                own <= SHARE * published_,
            )
        )
        lines.append([name, *(f"{one:.1f} s" for one in (published_, shared, at_once, own))])
    columns = ("data", "55 runs for each k", "55 runs for all k", "these all at once", "ours")
    return asked, More(
        "CPU seconds on one half of the rows, with the choice for each k", columns, lines
    )


def ks_of(paper: np.ndarray) -> list[int]:
    """Those of the paper that are compared."""
    return [int(k) for k in paper[:, 0] if k <= MOST]


def blood(file: Path, seeds: int, bounds: Sequence[float] = TIMES) -> tuple[list[Goal], More]:
    """Real cells: correctness and the share of changed values out of range, held out."""
    X, groups, space, _ = genes.blood(file)
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for seed in range(seeds):
        for learn, test in halves(groups, seed):
            learnt, there = ((X[rows], [groups[i] for i in rows]) for rows in (learn, test))
            for k, method, rate in blood_fold(space, learnt, there, bounds):
                found.setdefault((k, method), []).append(rate)
    methods = list(dict.fromkeys(method for _, method in found))
    lines = [[str(k), *(_told(found[k, method]) for method in methods)] for k in KS]
    asked = []
    for most in bounds:
        method = f"ours, c = {most:g}, each"
        best = [
            max(np.mean(found[k, one], axis=0)[0] for one in ("difference of means", "t-tests"))
            for k in KS
        ]
        own = [float(np.mean(found[k, method], axis=0)[0]) for k in KS]
        asked.append(
            Goal(
                f"blood cells, correctness, held out, changes within {most:g}× the range of means",
                "above differences of means and t-tests at k = 25, 50, 100",
                ", ".join(f"{a:.2f} against {b:.2f}" for a, b in zip(own, best, strict=True)),
                all(a > b for a, b in zip(own, best, strict=True)),
            )
        )
    caption = """700 blood cells × 765 genes in 8 principal components: correctness ± standard
        deviation over the folds, and the share of changed values that leave the range of the data.
        c bounds each change to so many ranges of the cluster means; k features for each pair, or on
        average."""
    return asked, More(caption, ("genes a pair", *methods), lines)


def blood_fold(
    space: Any, learnt: genes.Rows, there: genes.Rows, bounds: Sequence[float]
) -> Iterator[tuple[int, str, tuple[float, float]]]:
    """Correctness and the share out of range for each k and method."""
    means = DifferenceOfMeans(space).fit(*learnt)
    for k in KS:
        yield k, "difference of means", _rates(means.judge(*there, means.sparse(k)))
        yield k, "t-tests", genes.by_tests(learnt, there, space, means.radius_, k)
    for most in bounds:
        model = genes.fitted(space, *learnt, most)
        for k in KS:
            for count in ("each", "mean"):
                rate = _rates(model.judge(*there, model.sparse(k, count)))
                yield k, f"ours, c = {most:g}, {count}", rate


def _rates(quality: Quality) -> tuple[float, float]:
    return quality.mean(quality.correctness), quality.mean(quality.outside)


def _told(found: Sequence[tuple[float, float]]) -> str:
    rate, out = np.mean(found, axis=0)
    return f"{rate:.2f} ± {np.std([one[0] for one in found], ddof=1):.2f}, {out:.0%} out"


def sizes(folder: Path, scale: int, strengths: int = STRENGTHS) -> tuple[list[Goal], list[More]]:
    """Many features, and many sparse rows."""
    large = many_features(folder, GENES // scale, strengths)
    rows = many_rows(ROWS // scale, GENES // scale)
    what = f"{large.groups} groups × {large.features} features"
    many = f"{rows.rows} sparse rows × {rows.features} features"
    asked = [
        Goal(
            f"{what}, {strengths} strengths",
            f"at most {SECONDS:g} s",
            f"{large.ours:.1f} s",
            large.ours <= SECONDS,
        ),
        Goal(
            f"{many}: all metrics",
            f"at most {JUDGING:g} s",
            f"{rows.judge:.1f} s",
            rows.judge <= JUDGING,
        ),
        Goal(
            f"{many}: peak memory",
            "never that of a dense matrix",
            f"{rows.peak:.0f} MiB; dense {number(rows.dense)} MiB",
            rows.peak < 0.5 * rows.dense,
        ),
    ]
    seconds_ = [f"{one:.1f} s" for one in (large.ours, large.theirs)]
    memory = [f"{number(one)} MiB" for one in (rows.own, rows.peak, rows.dense)]
    return asked, [
        More(
            "CPU seconds with many features, before the encoder of the authors' single cells",
            ("size", f"ours, {strengths} strengths", "SGD, one run", "path"),
            [[what, *seconds_, large.path]],
        ),
        More(
            """Sparse rows through a linear map: seconds, and the most memory of a fit with two
            strengths and of judging""",
            ("size", "fit", "all metrics", "the rows alone", "peak", "dense rows would take"),
            [[many, f"{rows.fit:.1f} s", f"{rows.judge:.1f} s", *memory]],
        ),
    ]


def main() -> None:
    """Measure and report."""
    quick = is_quick()
    file, counts = data_file("eldr/results/Iris/out.csv"), data_file("scrna/pbmc68k_reduced.npz")
    if file is None or counts is None:
        return
    folder, seeds = file.parents[2], 1 if quick else SEEDS
    if quick:
        sgd.MOST = 300  # steps, of thousands
    names = ("Iris",) if quick else tuple(RADIUS)
    found: list[Judged] = []
    for name in names:
        data = published(folder, name)
        found += judged(data, ks_of(data.paper), seeds)
        print(f"{name} is judged.", flush=True)
    cells = cells_of(found)
    speed, seconds_ = times(folder, names)
    real, real_cells = blood(counts, seeds, TIMES[:1] if quick else TIMES)
    large, tables = sizes(folder, 100, 2) if quick else sizes(folder, 1)
    finish(
        Report(
            subject="groups",
            title="Explanations between groups",
            question=f"""Correctness/coverage of explanations of all pairs of groups, on held-out
                rows: fitted on one half of each group, judged on the other, mean of both ways and
                of {seeds} seeds. Bold: neither is below those of the best of 55 runs.""",
            columns=("data", *SHOWN),
            rows=[rates(cell) for cell in cells],
            goals=[*goals(cells), *speed, *real, *large],
            notes=NOTES,
            tables=(
                More(
                    """The best of 55 runs (SGD) and ours, at most k for every pair: the standard
                    deviation over folds, the mean gain and its standard error, mean L1 size, and
                    the share of changed values that leave the range of the data""",
                    ("data", *SPREADS),
                    [spreads(cell) for cell in cells],
                ),
                seconds_,
                real_cells,
                *tables,
            ),
        ),
        quick=quick,
    )


SPREADS = (
    *("correctness, SGD ±", "ours ±", "gain", "coverage, SGD ±", "ours ±", "gain"),
    *("size, SGD", "ours", "out, SGD", "ours", "as good, no larger"),
)
NOTES = (
    """The SGD of the paper is run as its public code runs it: 11 strengths, 5 trials of each, and
    for each k the run of the highest correctness on the rows of the fit. It comes to the paper's
    numbers where it is judged as there. "λ held out" takes, of the same runs, those of the strength
    that is best on rows that were held out within those of the fit. Means are over all pairs, each
    group and itself included, as the paper counts; L1 sizes are over pairs of different groups.
    Costs are 1 for all features, the radius is the paper's; the encoders have seen all rows.""",
    """SGD, the difference of means and "truncated" keep the k largest changes of each pair, as the
    paper does; changes of three groups then do not add up. Those of the others do, to rounding, and
    are polished: each pair changes at most k features, or k on average.""",
    """Where each pair may change one feature, and all triples are to add up, all pairs must change
    the same one: of three groups two of which differ in one feature and two in another, the third
    pair differs in both. What is then lost against truncated changes is the price of consistency;
    three features for each pair of Housing still pay some of it. "From a reference" pays it
    otherwise: each group changes k features from one group that all are told apart from, and other
    pairs up to 2 k, which are consistent, and whose changes are larger in all. With one feature of
    Iris, ours is less correct and covers more: it is chosen by both, their runs by correctness.""",
    """55 runs for each k are what the public code does; here they are shared by all k. Our time is
    one fit, and for each k the polish of the best of six, each of which is polished for a
    little first.""",
)


if __name__ == "__main__":
    main()
