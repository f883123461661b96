"""Answers that survive selection: how near they are, and how often they are wrong.

Weights are known here, and released many times; each release answers one question.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time

import numpy as np
from _common import Goal, Report, finish, is_quick, milliseconds
from scipy.stats import binom
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.families.uncertain.chance import corners
from counterpoint.noise import NoiseLaw, ProjectedGamma, ProjectedGaussian, ProjectedLaplace

QUESTION = """
Linear scores with known true weights w, which are released with noise of standard deviation 1 on
each, or λ = 1 for Laplace noise. Each release is asked for the other label of one row, Euclidean
distance, with p = 0.9 or 0.95. *Nearer* is the median of the distances that the lead T(ρ) alone
asks for, over those of the answers.
"""
METHOD = """
*Wrong* is the share of questions with an answer that the true weights do not give the label; the
allowed one is 1 − p. Slopes are those of logistic regressions, of one column alone, and the mean of
all columns. A cell is one line with its p and slope; it is broken if so many wrong answers, or
more, have a probability below one in a thousand.
"""


def laws(d: int) -> dict[str, NoiseLaw]:
    return {
        "normal": ProjectedGaussian.isotropic(1.0, d + 1),
        "gamma": ProjectedGamma(1.0 / np.sqrt(d + 2), d + 1),
        "laplace": ProjectedLaplace(1.0, d + 1),
    }


def tasks() -> Iterator[tuple[str, np.ndarray, np.ndarray, float]]:
    """Rows, a slope of length 1, and an intercept."""
    for name, load in (("breast cancer", load_breast_cancer), ("wine", load_wine)):
        X, y = load(return_X_y=True)
        rows, d = StandardScaler().fit_transform(X), X.shape[1]
        fitted = LogisticRegression(C=0.1).fit(rows, y == 1)
        size = float(np.linalg.norm(fitted.coef_))
        yield name, rows, fitted.coef_[0] / size, float(fitted.intercept_[0]) / size
        yield name, rows, np.eye(d)[0], -0.5
        yield name, rows, np.ones(d) / np.sqrt(d), -1.0


def released(weights: np.ndarray, law: NoiseLaw) -> cp.UncertainClassifier:
    model = LogisticRegression()
    model.coef_, model.intercept_ = weights[None, :-1], weights[-1:]
    model.classes_, model.n_features_in_ = np.array([0, 1]), len(weights) - 1
    return cp.UncertainClassifier(model, law=law)


def alone(known: np.ndarray, x: np.ndarray, draws: np.ndarray, p: float) -> float:
    """The distance that T(ρ) asks for, in closed form."""
    phi = np.append(x, 1.0)
    length, start = float(np.linalg.norm(known[:-1])), float(known @ phi)
    far = np.linalg.norm(draws[:, :-1], axis=1)
    a, n = (part[0] for part in corners((draws @ phi)[None], far[None], p))
    if length <= n.max():
        return 0.0 if start >= a.max() and length == n.max() else np.inf
    return max(0.0, float(((a - start) / (length - n)).max()))


def cell(
    task: tuple[np.ndarray, np.ndarray, float],
    law: NoiseLaw,
    size: float,
    p: float,
    n: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """(n,) distances of T alone, and of answers; which are wrong; seconds a row."""
    rows, slope, intercept = task
    true = size * np.append(slope, intercept)
    low = rows[rows @ slope + intercept < 0.0]
    draws = law.draw(10_000, 0)  # those of a `Robust`
    before, after, wrong, seconds = [], [], [], []
    for k, mu in enumerate(law.draw(n, 77)):
        x = low[k % len(low)]
        explainer = cp.Explainer(released(true + mu, law), cost=cp.SquaredEuclidean())
        explainer.explain(x[None], cp.Robust(1, p, "selection"))
        begin = process_time()
        found = explainer.explain(x[None], cp.Robust(1, p, "selection"))
        seconds.append(process_time() - begin)
        given = bool(found.found[0])
        y = np.asarray(found.to_frame(), dtype=float)[0] if given else x
        before.append(alone(true + mu, x, draws, p))
        after.append(float(np.linalg.norm(y - x)) if given else np.inf)
        wrong.append(given and bool(y @ true[:-1] + true[-1] < 0.0))
    return np.array(before), np.array(after), np.array(wrong), float(np.median(seconds))


def main() -> None:
    quick = is_quick()
    sizes, n = ((12.0,), 3) if quick else ((5.0, 8.0, 12.0, 20.0, 30.0), 20)
    lines, cells, broken, slowest = [], 0, 0, 0.0
    nearest: dict[str, list[float]] = {"normal": [], "gamma": [], "laplace": []}
    lost = 0
    groups: dict[str, list[tuple[np.ndarray, np.ndarray, float]]] = {}
    for name, *task in tasks():
        groups.setdefault(name, []).append((task[0], task[1], task[2]))
    for name, some in groups.items():
        for label, law in laws(some[0][0].shape[1]).items():
            for size in sizes:
                shown: list[tuple[np.ndarray, np.ndarray, np.ndarray, float]] = []
                worst = 0.0
                for task in some:
                    for p in (0.9, 0.95):
                        told = cell(task, law, size, p, n)
                        shown.append(told)
                        cells += 1
                        broken += bool(binom.sf(told[2].sum() - 1, n, 1.0 - p) < 1e-3)
                        worst = max(worst, float(told[2].mean()))
                before, after, wrong = (np.concatenate([c[i] for c in shown]) for i in range(3))
                times = float(np.median([c[3] for c in shown]))
                slowest = max(slowest, times)
                both = np.isfinite(before) & np.isfinite(after) & (after > 0.0)
                ratio = float(np.median(before[both] / after[both])) if both.any() else np.nan
                lost += int((np.isfinite(before) & np.isinf(after)).sum())
                nearest[label].append(ratio)
                lines.append(
                    (
                        name,
                        label,
                        f"{size:g}",
                        f"{np.isfinite(before).mean():.2f}",
                        f"{np.isfinite(after).mean():.2f}",
                        f"{ratio:.2f}" if both.any() else "",
                        f"{wrong.mean():.3f}",
                        f"{worst:.3f}",
                        milliseconds(times),
                    )
                )
    least = {k: min(r for r in v if np.isfinite(r)) for k, v in nearest.items()}
    report = Report(
        "private_selection",
        "Answers that survive selection",
        QUESTION,
        (
            "data",
            "noise",
            "‖w‖",
            "found by T",
            "found",
            "nearer",
            "wrong",
            "worst cell",
            "time a row",
        ),
        lines,
        [
            Goal(
                "cells in which more is wrong than allowed", "0", f"{broken} of {cells}", not broken
            ),
            Goal("answers that T alone would have had", "0 lost", f"{lost} lost", not lost),
            *(
                Goal(
                    f"nearer, {k} noise, least of all lines",
                    "at least 1/1.02",
                    f"{r:.2f}",
                    r >= 1 / 1.02,
                )
                for k, r in least.items()
            ),
            Goal("time a row", "at most 20 ms", milliseconds(slowest), slowest <= 20e-3),
        ],
        [METHOD],
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
