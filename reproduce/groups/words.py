"""Figures 20, 22 and 23: what explanations say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from harness.report import Claim, Section

from groups.figure_7 import EACH, SHOWN, THEIRS, Compared, named

NUMBER = {"Iris": 20, "Housing": 22, "Heart": 23}
PAPER: dict[str, dict[tuple[int, int], tuple[float, float] | None]] = {
    "Iris": {
        (0, 1): (0.93, 0.857),
        (1, 0): (0.786, 0.953),
        (0, 2): (0.605, 0.208),
        (2, 0): (0.896, 0.419),
    },
    "Housing": {
        (0, 2): (0.943, 0.291),
        (2, 0): (0.756, 0.943),
        (3, 5): (0.987, 0.571),
        (5, 3): (0.514, 0.591),
    },
    "Heart": {(1, 3): (0.972, 1.0), (3, 1): None, (1, 6): (0.954, 1.0), (6, 1): (1.0, 0.861)},
}
"""Correctness and coverage that the paper prints above its pictures; one is not legible."""
SAID = {
    ("Iris", 0, 1): ("petal width",),
    ("Iris", 0, 2): ("petal width",),
    ("Housing", 0, 2): ("large lots", "B", "highways", "tax"),
    ("Housing", 3, 5): ("river", "B"),
    ("Heart", 1, 3): ("chest pain", "angina"),
    ("Heart", 1, 6): ("sex",),
}
"""The features that the paper says explain the difference."""
TINY = 0.05
"""Changes of features in [0, 1] that one would not mention."""


TEXT = """
At the numbers of features that the paper shows: correctness/coverage as printed above its pictures,
of its stored explanation, and of ours; then what each changes, largest first. Features are scaled
to [0, 1].
"""
NOTES = (
    """B is a transform of the share of black residents by the authors of the data, from which that
    share cannot be had again; the paper's words about B are repeated here and not endorsed. For
    3 → 5 ours does without it: the river and nitric oxides are enough.""",
    """For the way to the low risk, group 1 → 3 of Heart, the paper reads angina and a moderate fall
    of chest pain; ours does it with angina alone and needs no chest pain. Sex is 1 for men.""",
)


def section(sets: Sequence[Compared]) -> Section:
    """All three figures, as a table."""
    lines, claims = [], []
    for compared in sets:
        name, errors = compared.data.name, []
        for (i, j), printed in PAPER[name].items():
            rates = [_rates(compared, method, i, j) for method in (THEIRS, EACH)]
            if printed is not None:
                errors.append(np.abs(np.subtract(printed, rates[0])).max())
            words = (_words(compared, method, i, j) for method in (THEIRS, EACH))
            paper = "" if printed is None else _pair(printed)
            lines.append([f"{name}, {i} → {j}", paper, *map(_pair, rates), *words])
        what, count = f"figure {NUMBER[name]}: the printed numbers", f"{2 * len(errors)} numbers"
        measured = f"off by at most {max(errors):.1e}"
        claims.append(Claim(what, count, measured, bool(max(errors) < 6e-4)))
        claims += [_claim(compared, *pair) for data, *pair in SAID if data == name]
    columns = ("data, from → to", "paper", "TGT, here", "ours", "TGT changes", "ours changes")
    title = "Figures 20, 22 and 23: what explanations say"
    return Section(title, TEXT, columns, lines, NOTES, claims=claims)


def _claim(compared: Compared, i: int, j: int) -> Claim:
    name = compared.data.name
    printed = SAID[name, i, j]
    changes = named(name, compared.answers[EACH][SHOWN[name]], i, j)
    large = {feature: change for feature, change in changes.items() if abs(change) > TINY}
    return Claim(
        f"{name}, {i} → {j}: what differs",
        ", ".join(printed),
        ", ".join(f"{feature} {change:+.2f}" for feature, change in large.items()),
        set(printed) <= set(large),
    )


def _rates(compared: Compared, method: str, i: int, j: int) -> tuple[float, float]:
    quality = compared.quality[method][SHOWN[compared.data.name]]
    return float(quality.correctness[i, j]), float(quality.coverage[i, j])


def _pair(rates: tuple[float, float]) -> str:
    return f"{rates[0]:.3f}/{rates[1]:.3f}"


def _words(compared: Compared, method: str, i: int, j: int) -> str:
    name = compared.data.name
    changes = named(name, compared.answers[method][SHOWN[name]], i, j)
    return ", ".join(f"{feature} {change:+.2f}" for feature, change in changes.items())
