"""Explanations of private models: how long they take, how near they are, how often they hold.

The paper's task: breast cancer, standardised on the training rows, which is not private.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from time import process_time
from typing import Any

import cvxpy
import numpy as np
from _common import Goal, More, Report, finish, interleaved, is_quick, milliseconds, number
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.privacy import PrivateSVC

P = 0.9
QUESTION = """
Breast cancer, 70 % of it for training, standardised, C = √n, Euclidean distance, the paper's noise
(bound 10). The prototype is the mean of the class in the training rows. True weights are known
here, so that how often an answer really has its label can be counted.
"""
METHOD = """
A seeded generator draws the noise, the same for all methods. *Found* is the share of rows with an
answer that the method holds to be right; *distance* the mean over those, *common* over rows where
all methods have one; *true* how many of the answers have the label by the true weights.
"""


@cache
def task() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Standardised training rows, their labels, and test rows."""
    X, y = load_breast_cancer(return_X_y=True)
    X, test, y, _ = train_test_split(X, y, test_size=0.3, random_state=1)
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(test)


def fitted(epsilon: float, seed: int, feature_map: Any) -> tuple[PrivateSVC, np.ndarray]:
    """A model and the weights before noise."""
    X, y, _ = task()
    model = PrivateSVC(
        0.50005 * epsilon,  # as much noise as (10) has at epsilon
        C=float(np.sqrt(len(X))),
        feature_map=feature_map,
        trust_data=True,
        insecure_noise_seed=seed,
        random_state=0,
    ).fit(X, y)
    return model, model.coef_ - model.noise_.draw(1, seed)[0]


def laws(repeats: int) -> dict[str, float]:
    """Seconds that one quantile of noise takes, for 100 random features."""
    model, _ = fitted(5.0, 0, "fourier")
    phi = model.features(task()[2])
    asked: dict[str, Callable[[], Any]] = {}
    for many in (1, 100):
        rows = phi[:many]
        asked[f"{many}, value"] = lambda r=rows: model.noise_.quantile(P, r)
        asked[f"{many}, with gradient"] = lambda r=rows: model.noise_.quantile_with_gradient(P, r)
    seconds = interleaved(asked, repeats)
    return {name: s / int(name.split(",")[0]) for name, s in seconds.items()}


def linear(rows: int) -> tuple[list[tuple[str, ...]], float, float]:
    """The exact rule beside the paper's cone program; the largest gap, the least distance of (17).

    The distance in units of that of the exact rule.
    """
    model, _ = fitted(20.0, 0, "linear")
    found, worst, least = [], 0.0, np.inf
    test = task()[2]
    for p in (0.9, 0.99):
        explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
        target = {c: cp.Robust(c, p, "fixed") for c in (0, 1)}
        ratios, gaps, seconds, peer = [], [], [], []
        for x, now in zip(test[:rows], model.predict(test[:rows]), strict=True):
            explainer.explain(x[None], target[1 - now])
            start = process_time()
            answer = explainer.explain(x[None], target[1 - now])[0]
            middle = process_time()
            distance = cone(model, x, p, 1.0 if now == 0 else -1.0)
            seconds.append(middle - start)
            peer.append(process_time() - middle)
            if answer.certificate.valid and distance is not None:
                ratios.append(distance / np.sqrt(answer.certificate.cost))
                gaps.append(answer.certificate.gap)
        worst, least = max([worst, *gaps]), min([least, *ratios])
        shown = ("", "")
        if gaps:
            shown = (f"{np.min(ratios):.3f}–{np.max(ratios):.3f}", f"{max(gaps):.0e}")
        found.append(
            (
                f"{p:g}",
                f"{len(ratios)} of {rows}",
                milliseconds(float(np.median(seconds))),
                milliseconds(float(np.median(peer))),
                *shown,
            )
        )
    return found, worst, least


def cone(model: PrivateSVC, x: np.ndarray, p: float, sign: float) -> float | None:
    """Equation (17) by CVXPY."""
    y = cvxpy.Variable(len(x))
    low, high = model.bounds_
    half = 0.5 * (high - low)
    scaled = cvxpy.multiply(1.0 / half, y) - (low + half) / half
    phi = cvxpy.hstack([scaled, [model.intercept_scaling_]])
    safety_margin = sign * (model.coef_ @ phi)
    k = np.sqrt(2.0) * np.log(0.5 / (1.0 - p))  # (16b)
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.norm(y - x)),
        [model.scale_ * k * cvxpy.norm(phi) <= safety_margin],
    )
    problem.solve(solver=cvxpy.CLARABEL)
    return float(problem.value) if problem.status == "optimal" else None


METHODS: dict[str, dict[str, Any]] = {
    "segment, exact rule": {"guarantee": "fixed", "search": "segment"},
    "optimal, exact rule": {"guarantee": "fixed", "search": "optimal"},
    "segment, selection": {"guarantee": "selection", "search": "segment"},
    "optimal, selection": {"guarantee": "selection", "search": "optimal"},
}


def fourier(epsilon: float, draws: int, rows: int) -> list[tuple[str, ...]]:
    """Every method on the same rows and draws of the noise."""
    X, y, test = task()
    means = {c: X[y == c].mean(axis=0) for c in (0, 1)}
    held: dict[str, list[tuple[bool, float, bool]]] = {name: [] for name in METHODS}
    seconds: dict[str, list[float]] = {name: [] for name in METHODS}
    for seed in range(draws):
        model, truth = fitted(epsilon, seed, "fourier")
        known = copy.deepcopy(model)
        known.coef_ = truth
        explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
        some = test[rows * seed % (len(test) - rows) :][:rows]
        for x, now in zip(some, model.predict(some), strict=True):
            to = 1 - now
            for name, how in METHODS.items():
                if model.predict(means[to][None])[0] == to:
                    more = {"prototype": means[to]}
                elif how["search"] == "segment":
                    held[name].append((False, np.nan, False))
                    continue
                else:
                    more = {}
                start = process_time()
                answer = explainer.explain(x[None], cp.Robust(to, P, **how, **more))
                seconds[name].append(process_time() - start)
                said = answer[0].certificate
                point = answer.to_frame() if said.valid else x[None]
                right = said.valid and known.predict(point)[0] == to
                held[name].append((said.valid, np.sqrt(said.cost), bool(right)))
    table = {name: np.array(said, dtype=float) for name, said in held.items()}
    common = np.all([said[:, 0] == 1.0 for said in table.values()], axis=0)
    return [
        (
            f"{epsilon:g}",
            name,
            f"{said[:, 0].mean():.2f}",
            number(float(said[said[:, 0] == 1.0, 1].mean())) if said[:, 0].any() else "",
            number(float(said[common, 1].mean())) if common.any() else "",
            f"{said[said[:, 0] == 1.0, 2].mean():.2f}" if said[:, 0].any() else "",
            milliseconds(float(np.median(seconds[name]))) if seconds[name] else "",
        )
        for name, said in table.items()
    ]


def main() -> None:
    quick = is_quick()
    repeats, draws, rows = (5, 1, 2) if quick else (51, 12, 16)
    every = (5.0, 50.0) if quick else (5.0, 10.0, 20.0, 50.0)
    lines = [line for epsilon in every for line in fourier(epsilon, draws, rows)]
    exact, gap, least = linear(4 if quick else 60)
    quantiles = laws(repeats)
    one = quantiles["1, with gradient"]
    report = Report(
        "private",
        "Private models",
        QUESTION,
        ("ε", "method", "found", "distance", "common", "true", "time a row"),
        lines,
        [
            Goal("linear: gap of the exact rule", "at most 1e-8", f"{gap:.0e}", gap <= 1e-8),
            Goal(
                "linear: distance of (17) over that of the exact rule",
                "at least 1 everywhere",
                f"{least:.3f} and more",
                least >= 1.0 - 1e-9,
            ),
            Goal("quantile with gradient", "at most 2 ms", milliseconds(one), one <= 2e-3),
        ],
        [METHOD],
        [
            More(
                "One linear model at ε = 20: the exact rule, and the distance of (17) beside it:",
                ("p", "both", "time a row", "(17) by CVXPY", "distance of (17)", "largest gap"),
                exact,
            ),
            More(
                "A quantile of Laplace noise, 100 random features:",
                ("rows", "time a row"),
                [(name, milliseconds(s)) for name, s in quantiles.items()],
            ),
        ],
        ("cvxpy",),
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
