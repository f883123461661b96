"""What the authors published: their numbers, once more, from their explanations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
from inverse.report import Claim, Section

from counterpoint.groups import DifferenceOfMeans, Translations, similarity
from groups.sets import Published

ALIKE = 5e-5
"""Numbers are given to four digits."""


def offsets(folder: Path, data: Published, k: int) -> Translations:
    """Their explanation for k features; the first group is the reference."""
    rest = np.load(folder / "results" / data.name / f"deltas{k}.npy")
    labels = sorted({label for label in data.groups if label is not None})
    return Translations.of(np.vstack([np.zeros(rest.shape[1]), rest]), labels)


def broken(one: Translations) -> float:
    """The share of triples of groups whose changes do not add up."""
    away = [
        np.abs(one.translation(i, j) + one.translation(j, k) - one.translation(i, k)).max()
        for i, j, k in permutations(one.groups, 3)
    ]
    return float(np.mean(np.array(away) > 1e-9))


def lines(folder: Path, data: Published) -> Iterator[tuple[list[str], float, float]]:
    """A line of the table for each k; how far off the numbers are; how many triples break."""
    means = DifferenceOfMeans(data.network, radius=data.radius, costs=np.ones(data.X.shape[1]))
    means.fit(data.X, data.groups)
    for line in data.paper:
        k = int(line[0])
        theirs = offsets(folder, data, k).truncated(k)
        told = [means.judge(data.X, data.groups, one) for one in (theirs, means.sparse(k))]
        rates = [rate for one in told for rate in (one.correctness.mean(), one.coverage.mean())]
        off, triples = float(np.abs(np.array(rates) - line[1:]).max()), broken(theirs)
        shown = [f"{a:.3f}/{b:.3f}" for a, b in (line[1:3], line[3:5], rates[:2], rates[2:])]
        yield [f"{data.name}, k = {k}", *shown, f"{triples:.0%}"], off, triples


def kept(folder: Path, data: Published) -> list[float]:
    """Equation (10) between their explanations of neighbouring k, averaged over pairs."""
    ks = [int(line[0]) for line in data.paper]
    cut = {k: offsets(folder, data, k).truncated(k) for k in ks}
    off = ~np.eye(len(cut[ks[0]].groups), dtype=bool)
    return [float(similarity(cut[a], cut[b])[off].mean()) for a, b in pairwise(ks)]


def section(folder: Path, sets: list[Published]) -> Section:
    """The published numbers, from the published explanations."""
    found = {data.name: list(lines(folder, data)) for data in sets}
    every = [one for part in found.values() for one in part]
    better = [line[1] >= line[3] for data in sets for line in data.paper]
    wide = [triples for name in ("Housing", "Heart") for _, _, triples in found.get(name, [])]
    worst = max(off for _, off, _ in every)
    alike = min(min(kept(folder, data)) for data in sets)
    return Section(
        "Figure 7: the published explanations, judged again",
        """Correctness/coverage of the authors' own explanations and of the difference of means,
        truncated to k features a pair, as they stored them and as they come out here. The last
        column is the share of triples of groups whose truncated changes no longer add up.""",
        ("data", "TGT, stored", "means, stored", "TGT, here", "means, here", "triples broken"),
        [line for line, _, _ in every],
        claims=[
            Claim("all stored numbers", "four digits", f"off by {worst:.0e}", worst < ALIKE),
            Claim(
                "TGT at least as correct as the difference of means",
                "always",
                f"{sum(better)} of {len(better)}",
                all(better),
            ),
            Claim(
                "explanations are consistent among groups",
                "all",
                f"truncated, {np.mean(wide):.0%} of the triples break",
                agrees=False,
            ),
            Claim(
                "sparser explanations use features of denser ones",
                "quite similar",
                f"at least {alike:.2f}",
                alike > 0.5,
            ),
        ],
    )
