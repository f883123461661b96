"""Figure 7: correctness, coverage and similarity against the number of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
from harness.figures import panels
from harness.report import Claim, Section
from matplotlib.figure import Figure
from peers.eldr import Published

from counterpoint.groups import GroupTranslations, Quality, Translations, similarity

NAMES = {
    "Iris": ("sepal length", "sepal width", "petal length", "petal width"),
    "Housing": (
        *("crime", "large lots", "industry", "river", "nitric oxides", "rooms", "age"),
        *("distance", "highways", "tax", "pupils", "B", "low status"),
    ),
    "Heart": (
        *("age", "sex", "chest pain", "blood pressure", "cholesterol", "blood sugar", "ECG"),
        *("heart rate", "angina", "ST depression", "ST slope", "vessels", "thalassemia"),
    ),
}
"""Table 2, in words."""
SHOWN = {"Iris": 1, "Housing": 5, "Heart": 3}
"""The features a pair that the paper shows, where fewer would be much worse."""
THEIRS, MEANS, EACH, MEAN = "TGT", "difference of means", "ours, each pair", "ours, on average"
STYLES = {
    THEIRS: ("#0072b2", "o", "-"),
    MEANS: ("#8c8c8c", "s", "--"),
    EACH: ("#d62728", "D", "-"),
    MEAN: ("#e69f00", "^", ":"),
}
TEXT = """
Correctness/coverage on the rows of the fit, as in the paper; means over all pairs, each group and
itself included. TGT and the difference of means are truncated to k features a pair. Beside the
paper's stored numbers is what comes out here of its stored explanations. Ours is one fit for all k,
polished; nothing is truncated, and each pair changes at most k features, or pairs change k on
average. Then the mean L1 size of a change, and the share of triples of groups whose changes, as TGT
truncates them, no longer add up.
"""


@dataclass(frozen=True, eq=False)
class Compared:
    """One data set: every method at every k, judged on the rows of the fit, as in the paper."""

    data: Published
    ks: list[int]
    model: GroupTranslations
    answers: dict[str, dict[int, Translations]]
    quality: dict[str, dict[int, Quality]]

    @classmethod
    def of(cls, folder: Path, data: Published) -> Compared:
        """Answer and judge."""
        ks, rows = [int(line[0]) for line in data.paper], np.arange(len(data.X))
        model, means = data.ours(rows), data.means(rows)
        answers = {
            THEIRS: {k: stored(folder, data, k) for k in ks},
            MEANS: {k: means.sparse(k) for k in ks},
            EACH: {k: model.sparse(k, "each") for k in ks},
            MEAN: {k: model.sparse(k, "mean") for k in ks},
        }
        quality = {
            method: {k: means.judge(data.X, data.groups, a) for k, a in by_k.items()}
            for method, by_k in answers.items()
        }
        return cls(data, ks, model, answers, quality)

    def rates(self, method: str, k: int) -> np.ndarray:
        """Correctness and coverage, each group and itself included."""
        quality = self.quality[method][k]
        return np.array([quality.correctness.mean(), quality.coverage.mean()])

    def similarity(self, method: str) -> list[float]:
        """Equation (10) between neighbouring k, averaged over pairs of groups."""
        by_k = self.answers[method]
        different = ~np.eye(len(by_k[self.ks[0]].groups), dtype=bool)
        return [float(similarity(by_k[a], by_k[b])[different].mean()) for a, b in pairwise(self.ks)]

    def lines(self) -> list[list[str]]:
        """A line for each k."""
        lines = []
        for k, paper in zip(self.ks, self.data.paper, strict=True):
            rates = {m: "/".join(f"{rate:.3f}" for rate in self.rates(m, k)) for m in STYLES}
            sizes = [self.quality[m][k] for m in (THEIRS, EACH)]
            theirs, means = ("/".join(f"{r:.3f}" for r in paper[i : i + 2]) for i in (1, 3))
            lines.append(
                [
                    *(f"{self.data.name}, k = {k}", theirs, rates[THEIRS], means, rates[MEANS]),
                    *(rates[EACH], rates[MEAN], *(f"{q.mean(q.sizes):.2f}" for q in sizes)),
                    f"{broken(self.answers[THEIRS][k]):.0%}",
                ]
            )
        return lines

    @property
    def error(self) -> float:
        """How far the stored numbers are from those that come out of the stored explanations."""
        rates = [[*self.rates(THEIRS, k), *self.rates(MEANS, k)] for k in self.ks]
        return float(np.abs(np.array(rates) - self.data.paper[:, 1:]).max())


def stored(folder: Path, data: Published, k: int) -> Translations:
    """Their explanation for k features, truncated; the first group is the reference."""
    deltas = np.load(folder / "results" / data.name / f"deltas{k}.npy")
    labels = sorted({label for label in data.groups if label is not None})
    return Translations.of(np.vstack([np.zeros(deltas.shape[1]), deltas]), labels).truncated(k)


def named(data: str, answer: Translations, i: int, j: int) -> dict[str, float]:
    """Name → change from one group to another, of the features that change, largest first."""
    change = answer.translation(i, j)
    order = np.argsort(-np.abs(change), kind="stable")
    return {NAMES[data][f]: float(change[f]) for f in order if change[f]}


def broken(answer: Translations) -> float:
    """The share of triples of groups whose changes do not add up."""
    errors = [
        np.abs(answer.translation(i, j) + answer.translation(j, k) - answer.translation(i, k)).max()
        for i, j, k in permutations(answer.groups, 3)
    ]
    return float(np.mean(np.array(errors) > 1e-9))


def section(sets: Sequence[Compared]) -> Section:
    """The numbers, the picture, and what the paper says of it."""
    places = [(c, k) for c in sets for k in c.ks]
    better = [c.rates(THEIRS, k)[0] >= c.rates(MEANS, k)[0] for c, k in places]
    ahead = [bool((c.rates(EACH, k) >= c.rates(THEIRS, k)).all()) for c, k in places]
    behind = [
        f"{c.data.name}, k = {k}" for (c, k), met in zip(places, ahead, strict=True) if not met
    ]
    share = np.mean([broken(c.answers[THEIRS][k]) for c, k in places])
    ours = max(broken(c.answers[EACH][k]) for c, k in places)
    alike = [min(min(c.similarity(method)) for c in sets) for method in (THEIRS, EACH)]
    error = max(c.error for c in sets)
    return Section(
        "Figure 7: how good explanations of k features are",
        TEXT,
        (
            *("data", "TGT, paper", "TGT, here", "means, paper", "means, here"),
            *("ours, each pair", "ours, on average", "size, TGT", "size, ours", "TGT breaks"),
        ),
        [line for c in sets for line in c.lines()],
        [
            f"""Not at or above TGT in both: {", ".join(behind) or "none"}. TGT here is the best of
            55 runs, chosen on the rows that it is judged on. If each pair changes one feature and
            all triples add up, it is the same one for all pairs. On held-out rows see the
            benchmarks. The genes of the paper's cells are not public; other cells are below."""
        ],
        {"groups_figure_7": _figure(sets)},
        [
            Claim(
                "the stored numbers of figure 7",
                "stored",
                f"off by at most {error:.0e}",
                error < 5e-5,
            ),
            Claim(
                "TGT is at least as correct as the difference of means",
                "always",
                f"at {sum(better)} of {len(better)}; of its own stored numbers",
                all(better),
            ),
            Claim(
                "TGT is consistent among groups",
                "always",
                f"as truncated, {share:.0%} of the triples break",
                bool(share == 0.0),
            ),
            Claim("ours is consistent among groups", "", f"{ours:.0%} of them break", ours == 0.0),
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


def _figure(sets: Sequence[Compared]) -> Figure:
    """The paper's figure, with ours."""
    figure, axes = panels(3, len(sets), 2.1)
    for column, c in zip(axes.T, sets, strict=True):
        for method, (colour, marker, dashes) in STYLES.items():
            style = {"color": colour, "marker": marker, "ls": dashes, "ms": 4, "label": method}
            rates = np.array([c.rates(method, k) for k in c.ks])
            for ax, rate in zip(column[:2], rates.T, strict=True):
                ax.plot(c.ks, rate, **style)
            column[2].plot(c.ks[1:], c.similarity(method), **style)
        column[0].set_title(c.data.name)
        column[2].set(xlabel="features a pair", xticks=c.ks)
    for ax, what in zip(axes[:, 0], ("correctness", "coverage", "similarity"), strict=True):
        ax.set(ylabel=what, ylim=(0.0, 1.03))
    axes[2, -1].legend(fontsize=8)
    return figure
