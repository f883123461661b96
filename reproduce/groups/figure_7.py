"""Figure 7: correctness, coverage and similarity against the number of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
from common.figures import panels
from common.report import Claim, Section
from group_peers.folds import EACH, MEAN, MEANS, fitted, sparse
from matplotlib.figure import Figure

from counterpoint.groups import GroupTranslations, Quality, Translations, similarity
from counterpoint.groups.fitting import refit
from groups.sets import Published, means_of, stored

ALIKE = 5e-5
"""Numbers are given to four digits."""
THEIRS = "TGT"
LOOKS = {
    THEIRS: ("#0072b2", "o", "-"),
    MEANS: ("#8c8c8c", "s", "--"),
    EACH: ("#d62728", "D", "-"),
    MEAN: ("#e69f00", "^", ":"),
}
GENES = "scRNA"


@dataclass(frozen=True, eq=False)
class Compared:
    """One data set: every method at every k, judged on the rows of the fit, as in the paper."""

    data: Published
    ks: list[int]
    model: GroupTranslations
    answers: dict[str, dict[int, Translations]]
    quality: dict[str, dict[int, Quality]]

    @classmethod
    def of(cls, where: Path, data: Published) -> Compared:
        """Answer and judge."""
        ks = [int(line[0]) for line in data.paper]
        model, means = fitted(data, np.arange(len(data.X))), means_of(data)
        answers = {
            THEIRS: {k: stored(where, data, k) for k in ks},
            MEANS: {k: means.sparse(k) for k in ks},
            EACH: dict(sparse(model, ks, EACH)),
            MEAN: dict(sparse(model, ks, MEAN)),
        }
        quality = {
            method: {k: means.judge(data.X, data.groups, one) for k, one in found.items()}
            for method, found in answers.items()
        }
        return cls(data, ks, model, answers, quality)

    def rates(self, method: str, k: int) -> tuple[float, float]:
        """Correctness and coverage, each group and itself included."""
        one = self.quality[method][k]
        return float(one.correctness.mean()), float(one.coverage.mean())

    def similarity(self, method: str) -> list[float]:
        """Equation (10) between neighbouring k, averaged over pairs of groups."""
        found = self.answers[method]
        off = ~np.eye(len(found[self.ks[0]].groups), dtype=bool)
        return [float(similarity(found[a], found[b])[off].mean()) for a, b in pairwise(self.ks)]

    def lines(self) -> list[list[str]]:
        """A line for each k."""
        lines = []
        for k, paper in zip(self.ks, self.data.paper, strict=True):
            told = ["/".join(f"{rate:.3f}" for rate in self.rates(m, k)) for m in LOOKS]
            size = [self.quality[m][k] for m in (THEIRS, EACH)]
            lines.append(
                [
                    f"{self.data.name}, k = {k}",
                    "/".join(f"{rate:.3f}" for rate in paper[1:3]),
                    told[0],
                    "/".join(f"{rate:.3f}" for rate in paper[3:5]),
                    *told[1:],
                    *(f"{one.mean(one.sizes):.2f}" for one in size),
                    f"{broken(self.answers[THEIRS][k]):.0%}",
                ]
            )
        return lines

    @property
    def off(self) -> float:
        """How far the stored numbers are from those that come out of the stored explanations."""
        told = [[*self.rates(THEIRS, k), *self.rates(MEANS, k)] for k in self.ks]
        return float(np.abs(np.array(told) - self.data.paper[:, 1:]).max())


def single(one: Compared) -> str:
    """The best explanation of one feature for all pairs, of all features."""
    task, scene = one.model.task_, one.model.scene_
    means, rates = scene.centred(task), []
    for feature in range(means.shape[1]):
        start = np.zeros_like(means)
        start[:, feature] = means[:, feature]
        ended = refit(task, start, 0.0, free=True)
        answer = scene.translations(ended.D, 0.0)
        quality = one.model.judge(one.data.X, one.data.groups, answer)
        rates.append((float(quality.correctness.mean()), float(quality.coverage.mean())))
    return "/".join(f"{rate:.3f}" for rate in max(rates, key=sum)) + f" ({one.data.name})"


def broken(one: Translations) -> float:
    """The share of triples of groups whose changes do not add up."""
    away = [
        np.abs(one.translation(i, j) + one.translation(j, k) - one.translation(i, k)).max()
        for i, j, k in permutations(one.groups, 3)
    ]
    return float(np.mean(np.array(away) > 1e-9))


def section(where: Path, found: Sequence[Compared]) -> Section:
    """The numbers, the picture, and what the paper says of it."""
    places = [(one, k) for one in found for k in one.ks]
    better = [one.rates(THEIRS, k)[0] >= one.rates(MEANS, k)[0] for one, k in places]
    ahead = [
        all(a >= b for a, b in zip(one.rates(EACH, k), one.rates(THEIRS, k), strict=True))
        for one, k in places
    ]
    wide = [broken(one.answers[THEIRS][k]) for one, k in places if one.data.name != "Iris"]
    alike = [min(min(one.similarity(method)) for one in found) for method in (THEIRS, EACH)]
    off = max(one.off for one in found)
    behind = [
        f"{one.data.name}, k = {k}" for (one, k), yes in zip(places, ahead, strict=True) if not yes
    ]
    ours_broken = max(broken(one.answers[EACH][k]) for one, k in places)
    genes = np.loadtxt(where / "results" / "Bipolar" / "out.csv", delimiter=",")
    return Section(
        "Figure 7: how good explanations of k features are",
        """Correctness/coverage on the rows of the fit, as in the paper; means over all pairs, each
        group and itself included. TGT and the difference of means are truncated to k features a
        pair. Beside the paper's stored numbers is what comes out here of its stored explanations.
        Ours is one fit for all k, polished; nothing is truncated, and each pair changes at most k
        features, or pairs change k on average. Then the mean L1 size of a change, and the share of
        triples of groups whose changes, as TGT truncates them, no longer add up.""",
        (
            *("data", "TGT, paper", "TGT, here", "means, paper", "means, here"),
            *("ours, each pair", "ours, on average", "size, TGT", "size, ours", "TGT breaks"),
        ),
        [
            *(line for one in found for line in one.lines()),
            *(_genes(line) for line in genes),
        ],
        notes=[
            """The genes of the paper's cells (scRNA) are not public; its own numbers are shown for
            completeness, and other cells are explained below.""",
            f"""Not at or above TGT in both: {", ".join(behind) or "none"}. TGT here is the best of
            55 runs, chosen on the rows that it is judged on. If each pair changes one feature and
            all triples add up, it is the same one for all pairs; of all such, without polish, the
            best comes to {", ".join(map(single, found))}. On held-out rows see the benchmarks.""",
        ],
        figures={"groups_figure_7": _figure(found, genes)},
        claims=[
            Claim("the 72 numbers of figure 7", "stored", f"off by at most {off:.0e}", off < ALIKE),
            Claim(
                "TGT is at least as correct as the difference of means",
                "always",
                f"at {sum(better)} of {len(better)}; of its own stored numbers",
                all(better),
            ),
            *(
                Claim(
                    "TGT is consistent among groups",
                    "always",
                    f"as truncated, {share:.0%} of the triples break (Housing, Heart)",
                    agrees=not share,
                )
                for share in ([np.mean(wide)] if wide else [])
            ),
            Claim(
                "ours is consistent among groups",
                "",
                f"{ours_broken:.0%} of the triples break",
                not ours_broken,
            ),
            Claim(
                "ours, at most k for every pair, at least as correct and as covering as TGT",
                "",
                f"at {sum(ahead)} of {len(ahead)}",
                all(ahead),
            ),
            Claim(
                "sparser explanations use features of denser ones",
                "quite similar",
                f"similarity at least {alike[0]:.2f}; ours {alike[1]:.2f}",
                alike[0] > 0.5,
            ),
        ],
    )


def _genes(line: np.ndarray) -> list[str]:
    pairs = ("/".join(f"{rate:.3f}" for rate in line[i : i + 2]) for i in (1, 3))
    theirs, means = pairs
    return [f"{GENES}, k = {line[0]:.0f}", theirs, "", means, *[""] * 6]


def _figure(found: Sequence[Compared], genes: np.ndarray) -> Figure:
    """The paper's figure, with ours; of its cells only the stored numbers."""
    figure, axes = panels(3, len(found) + 1, 2.1)
    for column, one in zip(axes.T[:-1], found, strict=True):
        _column(column, one)
    _stored(axes[:, -1], genes)
    axes[2, -1].legend(*axes[0, 0].get_legend_handles_labels(), loc="center", fontsize=9)
    for ax, what in zip(axes[:, 0], ("correctness", "coverage", "similarity"), strict=True):
        ax.set_ylabel(what)
        ax.set_ylim(0.0, 1.03)
    for ax in (*axes[2, :-1], axes[1, -1]):
        ax.set_xlabel("features a pair")
    return figure


def _column(column: np.ndarray, one: Compared) -> None:
    for method, (colour, marker, dashes) in LOOKS.items():
        look = {"color": colour, "marker": marker, "ls": dashes, "ms": 4, "label": method}
        rates = np.array([one.rates(method, k) for k in one.ks])
        for ax, rate in zip(column[:2], rates.T, strict=True):
            ax.plot(one.ks, rate, **look)
        if method != MEANS:
            column[2].plot(one.ks[1:], one.similarity(method), **look)
    column[0].set_title(one.data.name)
    for ax in column:
        ax.set_xticks(one.ks)


def _stored(column: np.ndarray, genes: np.ndarray) -> None:
    """Of the paper's cells the stored numbers."""
    for method, first in ((THEIRS, 1), (MEANS, 3)):
        colour, marker, dashes = LOOKS[method]
        for ax, rate in zip(column[:2], genes[:, first : first + 2].T, strict=True):
            ax.plot(genes[:, 0], rate, color=colour, marker=marker, ls=dashes, ms=4)
            ax.set_xscale("log")
    column[0].set_title("single cells (stored)")
    column[2].axis("off")
