"""Explanations of private models: how long they take, and whether the exact rule is solved exactly.

Breast cancer, standardised on the training rows, which is not private.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from harness.report import Claim, Section, is_quick, publish
from harness.timing import interleaved, milliseconds, number, one_by_one
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.privacy import PrivateSVC

P = 0.9
TEXT = """
Breast cancer, 70 % of it for training, standardised, C = √n, Euclidean distance, p = 0.9; 100
random features at ε = 10, a linear model at ε = 50. The prototype is the mean of the class in the
training rows. How often answers hold is counted in `reproduce/private_svm.md`.
"""
LAWS = "A quantile of Laplace noise, 100 random features:"
METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "fourier": {
        "segment, exact rule": {"guarantee": "fixed", "search": "segment"},
        "optimal, exact rule": {"guarantee": "fixed", "search": "optimal"},
        "segment, selection": {"guarantee": "selection", "search": "segment"},
        "optimal, selection": {"guarantee": "selection", "search": "optimal"},
    },
    "linear": {"exact rule": {"guarantee": "fixed"}, "selection": {"guarantee": "selection"}},
}
EPSILON = {"fourier": 10.0, "linear": 50.0}


def main() -> None:
    quick = is_quick()
    X, y = load_breast_cancer(return_X_y=True)
    X, test, y, _ = train_test_split(X, y, test_size=0.3, random_state=1)
    scaler = StandardScaler().fit(X)
    X, test = scaler.transform(X), scaler.transform(test)
    options = {"C": float(np.sqrt(len(X))), "trust_data": True, "insecure_noise_seed": 0}
    mean, lines, gap = X[y == 1].mean(axis=0), [], 0.0
    for kind, methods in METHODS.items():
        model = PrivateSVC(EPSILON[kind], feature_map=kind, random_state=0, **options).fit(X, y)
        explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
        rows = test[model.predict(test) == 0][: 2 if quick else 20]
        for name, how in methods.items():
            prototype = {"prototype": mean} if kind == "fourier" else {}
            target = cp.Robust(1, P, **how, **prototype)
            singles = one_by_one(explainer, rows, target)
            distance = np.sqrt(singles.costs[np.isfinite(singles.costs)])
            mean_distance = number(float(distance.mean())) if len(distance) else "–"
            lines.append((kind, name, len(rows), len(distance), mean_distance, singles.median))
            if (kind, name) == ("linear", "exact rule"):
                gap = max(float(answers.gap[0]) for answers in singles.answers)
    claim = Claim("linear: gap of the exact rule", "at most 1e-8", f"{gap:.0e}", gap <= 1e-8)
    columns = ("features", "method", "rows", "found", "mean distance", "a row")
    sections = [
        Section("", TEXT, columns, lines, claims=[claim]),
        quantiles(X, y, options, quick=quick),
    ]
    publish("private", "Private models", sections, quick=quick)


def quantiles(X: np.ndarray, y: np.ndarray, options: dict[str, Any], *, quick: bool) -> Section:
    """Time of one quantile of noise, for 100 random features."""
    model = PrivateSVC(5.0, feature_map="fourier", random_state=0, **options).fit(X, y)
    phi, law, tasks = model.features(X), model.noise_, {}
    for count in (1, 100):
        tasks[f"{count}, value"] = lambda n=count: law.quantile(P, phi[:n])
        tasks[f"{count}, with gradient"] = lambda n=count: law.quantile_with_gradient(P, phi[:n])
    seconds = interleaved(tasks, 5 if quick else 51)
    rows = [(name, milliseconds(s / int(name.split(",")[0]))) for name, s in seconds.items()]
    single = seconds["1, with gradient"]
    claim = Claim("with gradient", "at most 2 ms", milliseconds(single), single <= 2e-3)
    return Section("Laws of noise", LAWS, ("rows", "time a row"), rows, claims=[claim])


if __name__ == "__main__":
    main()
