"""Answers to thousands of questions, written down, to be compared after the code has changed.

Run it before a change with ``--write FILE``, after it with ``--compare FILE``: statuses and claims
must be the same, costs equal to 1e-9. ``--only NAME`` takes one family of models.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from harness.data import data_file
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import counterpoint as cp
from counterpoint.lvq import GLVQ, GMLVQ, LGMLVQ, RSLVQ
from counterpoint.privacy import PrivateSVC

COST = 1e-9
"""Relative: costs that differ by less are equal."""

Record = dict[str, Any]


def rows_of(name: str, answers: cp.Counterfactuals) -> Iterator[Record]:
    """One record an answer."""
    frame = answers.report()
    for i, answer in enumerate(answers):
        certificate = answer.certificate
        yield {
            "id": f"{name}/{i}",
            "status": str(answer.status),
            "claim": str(certificate.claim),
            "cost": certificate.cost,
            "objective": certificate.objective,
            "bound": certificate.bound,
            "valid": bool(certificate.valid),
        }
    assert len(frame) == len(answers)


def breast_cancer() -> Iterator[tuple[str, cp.Counterfactuals]]:
    """Two classes through a scaler: all targets, costs and constraints."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    weights = dict(cp.mad_weights(X))
    costs = {
        "mad": None,
        "squared": cp.SquaredEuclidean(weights),
        "mahalanobis": cp.Mahalanobis(np.linalg.inv(np.cov(X.to_numpy().T) + np.eye(30))),
    }
    policies = {
        "free": [],
        "policy": [cp.Immutable("mean area"), cp.Monotone("mean texture", "increasing")],
        "bounds": [
            cp.Bounds("worst radius", low=10.0, high=25.0),
            cp.Bounds("mean radius", fall=2),
        ],
        "linear": [cp.Linear({"mean radius": 1, "worst radius": -1}, high=0)],
        "few": [cp.MaxChanges(3)],
        "few, linear": [
            cp.MaxChanges(2),
            cp.Linear({"mean radius": 1, "worst radius": -1}, high=0),
        ],
        "observed": [cp.WithinObserved()],
        "ellipsoid": [cp.Ellipsoid({"mean radius": 14.0, "mean texture": 19.0}, np.eye(2), 6.0)],
    }
    targets = {
        "other": cp.OtherLabel(),
        "margin": cp.Label(1, margin=0.5),
        "probability": cp.Probability(1, 0.9),
        "tradeoff": cp.Tradeoff(1, weight=0.2),
    }
    for c, cost in costs.items():
        for a, constraints in policies.items():
            slow = c == "mahalanobis" and a.startswith("few")
            explainer = cp.Explainer(
                model, data=X, cost=cost, constraints=constraints, extrapolate=True
            )
            for t, target in targets.items():
                if slow and t != "other":
                    continue
                count = 3 if slow else 12 if a.startswith("few") else 25
                yield f"{c}, {a}, {t}", explainer.explain(X.head(count), target)


def several_classes() -> Iterator[tuple[str, cp.Counterfactuals]]:
    """Softmax, votes, discriminants: every class as target, sets of labels."""
    for name, load in (("iris", load_iris), ("wine", load_wine)):
        X, y = load(return_X_y=True)
        models = {
            "softmax": make_pipeline(StandardScaler(), LogisticRegression()),
            "votes": SVC(kernel="linear"),
            "lda": LinearDiscriminantAnalysis(),
            "svm": make_pipeline(StandardScaler(), PCA(3), LinearSVC()),
        }
        for m, model in models.items():
            model.fit(X, y)
            subset = X[::6]
            plain = cp.Explainer(model, data=X, extrapolate=True)
            square = cp.Explainer(
                model, data=X, cost=cp.SquaredEuclidean(), constraints=[cp.WithinObserved()]
            )
            few = cp.Explainer(model, data=X, constraints=[cp.MaxChanges(2)])
            for k in range(3):
                yield f"{name}, {m}, {k}", plain.explain(subset, k)
                yield f"{name}, {m}, squared, {k}", square.explain(subset, k)
                yield f"{name}, {m}, few, {k}", few.explain(subset[:10], k)
            yield f"{name}, {m}, set", plain.explain(subset, cp.Label((0, 2)))
            if m == "softmax":
                for k in range(3):
                    subset = X[::12]
                    yield f"{name}, {k}, sure", plain.explain(subset, cp.Probability(k, 0.8))
                    yield (
                        f"{name}, {k}, sure, squared",
                        square.explain(subset, cp.Probability(k, 0.8)),
                    )
                    yield f"{name}, {k}, trade", plain.explain(subset, cp.Tradeoff(k, 0.5))
                    yield (
                        f"{name}, {k}, trade, squared",
                        square.explain(subset, cp.Tradeoff(k, 0.5)),
                    )
    X, y = load_digits(return_X_y=True)
    model = LogisticRegression(max_iter=300).fit(X / 16.0, y)
    for c, cost in (("l1", cp.Manhattan()), ("l2", cp.SquaredEuclidean())):
        explainer = cp.Explainer(model, cost=cost)
        yield f"digits, {c}", explainer.explain(X[:60] / 16.0, cp.OtherLabel())
        yield f"digits, {c}, 3", explainer.explain(X[:60] / 16.0, 3)
        yield f"digits, {c}, trade", explainer.explain(X[:60] / 16.0, cp.Tradeoff(3, 0.1))


def credit() -> Iterator[tuple[str, cp.Counterfactuals]]:
    """German credit: whole numbers and categories."""
    frame = pd.read_csv(data_file("german/german.csv"))
    y, X = frame.pop("GoodCustomer"), frame
    words = X.select_dtypes(exclude="number").columns.tolist()
    model = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), words), remainder=StandardScaler()
        ),
        LogisticRegression(max_iter=1000),
    ).fit(X, y)
    bad = X[model.predict(X) == -1]
    policies = {
        "free": [],
        "policy": [cp.Immutable("Age"), cp.Monotone("YearsAtCurrentHome", "increasing")],
        "few": [cp.MaxChanges(2)],
    }
    for a, constraints in policies.items():
        for c, cost in (("mad", None), ("squared", cp.SquaredEuclidean())):
            explainer = cp.Explainer(model, data=X, cost=cost, constraints=constraints)
            count = 60 if c == "mad" else 3 if a == "few" else 20
            yield f"{a}, {c}", explainer.explain(bad.head(count), 1)
        yield f"{a}, probability", explainer.explain(bad.head(10), cp.Probability(1, 0.7))


def heloc() -> Iterator[tuple[str, cp.Counterfactuals]]:
    """HELOC: whole numbers only."""
    frame = pd.read_csv(data_file("heloc/heloc.csv"))
    y, X = frame.iloc[:, -1], frame.iloc[:, :-1]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)
    bad = X[model.predict(X) != 1]
    floats, few = bad.astype(float), [cp.MaxChanges(3)]
    kinds = [*map(cp.Continuous, X.columns)]
    plain = cp.Explainer(model, data=X.astype(float), features=kinds, extrapolate=True)
    yield "continuous", plain.explain(floats.head(500), 1)
    whole = cp.Explainer(model, data=X, constraints=[cp.WithinObserved()])
    yield "whole", whole.explain(bad.head(60), 1)
    yield "whole, few", cp.Explainer(model, data=X, constraints=few).explain(bad.head(30), 1)
    square = cp.Explainer(model, data=X, cost=cp.SquaredEuclidean(dict(cp.mad_weights(X))))
    yield "whole, squared", square.explain(bad.head(20), 1)


def regressors() -> Iterator[tuple[str, cp.Counterfactuals]]:
    """Intervals of predictions."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    for name, model in (
        ("ridge", make_pipeline(StandardScaler(), Ridge())),
        ("poisson", make_pipeline(StandardScaler(), PoissonRegressor())),
    ):
        model.fit(X, y)
        for c, cost in (("l1", None), ("l2", cp.SquaredEuclidean())):
            explainer = cp.Explainer(model, data=X, cost=cost)
            yield f"{name}, {c}", explainer.explain(X.head(60), cp.Interval(high=120.0))
            yield f"{name}, {c}, both", explainer.explain(X.head(60), cp.Interval(150.0, 160.0))


def prototypes() -> Iterator[tuple[str, cp.Counterfactuals]]:
    """Nearest prototypes, with one metric and with many; Gaussians."""
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:, :6]
    shared = {
        "glvq": GLVQ(random_state=0, prototypes_per_class=2),
        "gmlvq": GMLVQ(random_state=0),
        "rslvq": RSLVQ(random_state=0),
        "centroid": NearestCentroid(),
        "neighbour": KNeighborsClassifier(1),
    }
    local = {
        "lgmlvq": LGMLVQ(random_state=0, prototypes_per_class=2),
        "gaussians": QuadraticDiscriminantAnalysis(),
        "naive": GaussianNB(),
    }
    for m, model in (shared | local).items():
        model.fit(X, y)
        count = 12 if m in local else 40
        for c, cost in (("l1", cp.Manhattan()), ("l2", cp.SquaredEuclidean())):
            explainer = cp.Explainer(model, data=X, cost=cost, extrapolate=True)
            for k in range(3):
                yield f"{m}, {c}, {k}", explainer.explain(X[:: 178 // count], k)
        few = cp.Explainer(model, data=X, constraints=[cp.MaxChanges(2)], extrapolate=True)
        yield f"{m}, few", few.explain(X[:: 178 // 8], 1)
    X, y = load_digits(return_X_y=True)
    model = KNeighborsClassifier(1).fit(X, y)
    yield "cells", cp.Explainer(model, cost=cp.SquaredEuclidean()).explain(X[:4] + 0.3, 5)


def private() -> Iterator[tuple[str, cp.Counterfactuals]]:
    """Weights that are known up to noise: linear models and random features."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    common = {"C": float(np.sqrt(len(X))), "tol": 1e-10, "trust_data": True, "random_state": 0}
    normal = {"mechanism": "gaussian", "delta": 1e-5}  # of as much noise as ever
    for law, epsilon, options in (("laplace", 5.0, {}), ("gaussian", 4.630650666078382, normal)):
        model = PrivateSVC(epsilon, insecure_noise_seed=1, **common, **options).fit(X, y)
        low = X[model.predict(X) == 0]
        for c, cost in (("l1", cp.Manhattan()), ("l2", cp.SquaredEuclidean())):
            explainer = cp.Explainer(model, cost=cost)
            for p in (0.6, 0.9):
                for how in ("fixed", "selection"):
                    target = cp.Robust(1, p, how, draws=2000)
                    yield f"{law}, {c}, {p}, {how}", explainer.explain(low[:6], target)
    epsilon = 2.5 * (1.0 + float(np.sqrt(2e-10 * len(X))))  # of as much noise as ever
    model = PrivateSVC(epsilon, feature_map="fourier", insecure_noise_seed=1, **common).fit(X, y)
    low, mean = X[model.predict(X) == 0], X[y == 1].mean(axis=0)
    explainer = cp.Explainer(model, cost=cp.SquaredEuclidean())
    yield "fourier", explainer.explain(low[:4], cp.Robust(1, 0.8, "fixed", prototype=mean))
    segment = cp.Robust(1, 0.8, draws=2000, search="segment", prototype=mean)
    yield "fourier, segment", explainer.explain(low[:4], segment)


def single_precision() -> Iterator[tuple[str, cp.Counterfactuals]]:
    """Models and rows in float32: answers lead, and are the cheapest of those that do."""
    for name, load in (("iris", load_iris), ("breast cancer", load_breast_cancer)):
        X, y = load(return_X_y=True)
        X = X.astype(np.float32)
        models = {
            "softmax": make_pipeline(StandardScaler(), LogisticRegression()),
            "votes": SVC(kernel="linear"),
            "centroids": NearestCentroid(),
        }
        for m, model in models.items():
            model.fit(X, y)
            for c, cost in (("mad", None), ("squared", cp.SquaredEuclidean())):
                explainer = cp.Explainer(model, data=X, cost=cost)
                yield f"{name}, {m}, {c}", explainer.explain(X[::12], cp.OtherLabel())


def trees() -> Iterator[tuple[str, cp.Counterfactuals]]:
    """Trees, forests and boosting: every class a target, few changes, clearances, relations."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = X.iloc[:, [0, 1, 6, 9, 12]]
    models = {
        "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
        "forest": RandomForestClassifier(10, max_depth=3, random_state=0),
        "boosting": HistGradientBoostingClassifier(max_iter=10, random_state=0),
    }
    policies = {
        "free": [],
        "few": [cp.MaxChanges(2)],
        "clear": [cp.Clearance("alcohol", 0.1), cp.Clearance("proline", 10)],
        "relation": [cp.Linear({"alcohol": 1.0, "flavanoids": 1.0}, high=16.0)],
    }
    for m, model in models.items():
        model.fit(X, y)
        for a, constraints in policies.items():
            explainer = cp.Explainer(model, data=X, constraints=constraints)
            for k in range(3):
                yield f"{m}, {a}, {k}", explainer.explain(X[::9], k)


def clients() -> Iterator[tuple[str, cp.Counterfactuals]]:
    """Several answers, and paths."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    explainer = cp.Explainer(model, data=X, extrapolate=True)
    for by in ("features", "disjoint"):
        yield f"diverse, {by}", cp.diversify(explainer, X.head(6), 1, 3, by=by).answers
    path = cp.trace(explainer, X.head(4), [cp.Tradeoff(1, w) for w in (0.01, 0.1, 1.0)])
    yield from ((f"path, {k}", answers) for k, answers in enumerate(path.answers))


FAMILIES = {
    family.__name__: family
    for family in (
        breast_cancer,
        several_classes,
        credit,
        heloc,
        regressors,
        prototypes,
        private,
        single_precision,
        trees,
        clients,
    )
}


def collected(names: list[str]) -> Iterator[Record]:
    """All records of some families."""
    for name in names:
        start, count = process_time(), 0
        for what, answers in FAMILIES[name]():
            for record in rows_of(f"{name}/{what}", answers):
                count += 1
                yield record
        print(f"{name}: {count} answers, {process_time() - start:.1f} s", file=sys.stderr)


def differences(old: list[Record], new: list[Record]) -> Iterator[str]:
    """What is not the same, a line each."""
    records = {record["id"]: record for record in new}
    for record in old:
        other = records.get(record["id"])
        if other is None:
            yield f"{record['id']}: missing"
            continue
        for key in ("status", "claim", "valid"):
            if record[key] != other[key]:
                yield f"{record['id']}: {key} {record[key]} -> {other[key]}"
        for key in ("cost", "objective"):
            before, after = record[key], other[key]
            if before is None or after is None or before == after or np.isnan(before):
                continue
            if not abs(after - before) <= COST * max(abs(before), abs(after)):
                yield f"{record['id']}: {key} {before!r} -> {after!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--only", choices=FAMILIES, action="append")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    new = list(collected(arguments.only or list(FAMILIES)))
    print(len(new), "answers:", dict(Counter(record["status"] for record in new)))
    if arguments.write:
        arguments.write.write_text("".join(json.dumps(record) + os.linesep for record in new))
    if arguments.compare:
        old = [json.loads(line) for line in arguments.compare.read_text().splitlines()]
        old = [r for r in old if not arguments.only or r["id"].split("/")[0] in arguments.only]
        lines = list(differences(old, new))
        print(*lines[:200], sep="\n")
        print(f"{len(lines)} differences among {len(old)} answers")
        sys.exit(bool(lines))


if __name__ == "__main__":
    main()
