"""Nearest prototypes: one nearest neighbour among thousands, GLVQ and GMLVQ against CVXPY."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from _common import (
    Goal,
    More,
    Report,
    data_file,
    each,
    finish,
    heloc,
    interleaved,
    is_quick,
    microseconds,
    milliseconds,
    number,
)
from bench_speed_cvxpy import Subproblem, built_each_time, compiled
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.lvq import GLVQ, GMLVQ

ACCURATE = 1e-4
"""The relative error in cost up to which a peer's answer counts."""
QUESTION = """
One nearest neighbour: every training point is a prototype, and what it wins, a cell. Time of a row
asked alone, in a model of so many training points in so many columns, with the model's own
`predict` and the certificate.
"""
METHOD = """
MNIST: the test images, and for 20 000 points each one shifted by a pixel to the left and to the
right as well, in principal components; HELOC: standardised, or in principal components. Rows are
none of the points. L1 is Manhattan weighted by 1/MAD, L2 squared Euclidean. "Closed form": rows for
which no solver was called. "Any": another label than the row has. Times and shares are of the
rows that need a change.
"""
PEERS = f"""
The same question in CVXPY is a linear or quadratic program for each prototype of the target, as in
Artelt & Hammer's algorithm 1: built for each row, or compiled once with parameters, by the fastest
solver whose cost is within {ACCURATE:g} of the optimum on every row. Times here include the model's
own `predict` and the certificate; those of CVXPY are `solve` alone.
"""
COSTS = {"L1": None, "L2": cp.SquaredEuclidean()}


# One nearest neighbour


@dataclass(frozen=True)
class Points:
    """Labelled points."""

    name: str
    X: np.ndarray
    y: np.ndarray


def mnist(columns: int) -> Points | None:
    """The images with their neighbours to the left and to the right, in principal components."""
    images, labels = data_file("mnist/t10k-images-idx3-ubyte.gz"), None
    if images is not None:
        labels = data_file("mnist/t10k-labels-idx1-ubyte.gz")
    if images is None or labels is None:
        return None
    X = np.frombuffer(gzip.decompress(images.read_bytes()), np.uint8, offset=16)
    X = X.reshape(-1, 28, 28) / 255.0
    y = np.frombuffer(gzip.decompress(labels.read_bytes()), np.uint8, offset=8).astype(int)
    shifted = [np.roll(X, step, axis=2) for step in (0, 1, -1)]
    seen = PCA(columns, random_state=0).fit(X.reshape(len(X), -1))
    Z = np.concatenate([seen.transform(part.reshape(len(X), -1)) for part in shifted])
    return Points(f"MNIST, {columns} components", Z, np.tile(y, 3))


def loans(columns: int | None) -> Points | None:
    """HELOC, standardised, and in principal components if that many are asked for."""
    known = heloc()
    if known is None:
        return None
    X = StandardScaler().fit_transform(known[0])
    if columns is None:
        return Points(f"HELOC, {X.shape[1]} columns", X, known[1].to_numpy())
    Z = PCA(columns, random_state=0).fit_transform(X)
    return Points(f"HELOC, {columns} components", Z, known[1].to_numpy())


def neighbours(points: Points, count: int, target: Any, rows: int) -> tuple[list[Any], list[Goal]]:
    """A line of the table for each cost."""
    order = np.random.default_rng(0).permutation(len(points.X))
    kept, asked = order[:count], order[-rows:]
    model = KNeighborsClassifier(1, algorithm="brute").fit(points.X[kept], points.y[kept])
    lines, goals = [], []
    for name, cost in COSTS.items():
        explainer = cp.Explainer(model, data=points.X[kept], extrapolate=True, cost=cost)
        found: list[Any] = []

        def ask(x: np.ndarray, explainer: Any = explainer, found: list[Any] = found) -> None:
            found.append(explainer.explain(x, target))

        explainer.explain(points.X[asked[0]], target)
        seconds, _ = each([lambda x=x: ask(x) for x in points.X[asked]])
        moved = np.array([answers.status[0] != "already" for answers in found])
        seconds, work = seconds[moved], [a for a, m in zip(found, moved, strict=True) if m]
        proved = np.mean(
            [a.status[0] == "optimal" and a[0].certificate.claim == "proved" for a in work]
        )
        said = "any" if isinstance(target, cp.OtherLabel) else str(target)
        middle, high = float(np.median(seconds)), float(np.quantile(seconds, 0.95))
        lines.append(
            (
                points.name,
                number(count),
                said,
                name,
                number(rows),
                milliseconds(middle),
                milliseconds(high),
                milliseconds(float(seconds.max())),
                f"{np.mean([a.closed_form[0] for a in work]):.0%}",
                f"{proved:.0%}",
                f"{max(float(a.gap[0]) for a in work):.0e}",
            )
        )
        if count == 5000:
            what = f"5000 points, {points.name}, label {said}, {name}"
            goals.append(Goal(what, "< 50 ms a row (median)", milliseconds(middle), middle < 0.05))
    return lines, goals


def all_neighbours(*, quick: bool) -> tuple[list[Any], list[Goal]]:
    """The whole table."""
    lines, goals = [], []
    sources: list[tuple[Callable[[Any], Points | None], Any, Any]] = [
        (loans, 10, cp.OtherLabel()),
        (mnist, 10, 3),
    ]
    if not quick:
        sources += [
            (loans, None, cp.OtherLabel()),
            (mnist, 10, cp.OtherLabel()),
            (mnist, 30, cp.OtherLabel()),
            (mnist, 30, 3),
        ]
    for source, columns, target in sources:
        points = source(columns)
        if points is None:
            continue
        for count in (1000, 5000) if quick else (1000, 5000, 20_000):
            if len(points.X) > count:
                new = neighbours(points, count, target, 5 if quick else 100)
                lines, goals = lines + new[0], goals + new[1]
    return lines, goals


# A few prototypes, against CVXPY


@dataclass(frozen=True)
class Setting:
    """A model, a cost, and rows that do not have the target."""

    name: str
    kind: str
    model: Any
    pieces: list[Subproblem]
    explainer: cp.Explainer
    target: Any
    rows: np.ndarray


def cells(model: Any, target: Any) -> list[Subproblem]:
    """One for each prototype of the target: nearer to it than to any of another class."""
    points, labels = model.prototypes_, model.prototype_labels_
    metric = model.omega_.T @ model.omega_ if hasattr(model, "omega_") else np.eye(len(points[0]))
    size = np.einsum("ij,jk,ik->i", points, metric, points)
    others = np.flatnonzero(labels != target)
    return [
        Subproblem(2.0 * (points[others] - points[i]) @ metric, size[others] - size[i], None, None)
        for i in np.flatnonzero(labels == target)
    ]


def people(X: np.ndarray, model: Any, target: Any, count: int) -> np.ndarray:
    """Rows like the data, resampled with a little noise, that the model gives another class."""
    rng = np.random.default_rng(0)
    rows = X[rng.integers(0, len(X), 4 * count)]
    rows = rows + rng.normal(0.0, 0.05, rows.shape) * (X.std(axis=0) > 0)
    return rows[model.predict(rows) != target][:count]


def settings(count: int) -> list[Setting]:
    """All of them."""
    sources = {"digits, 10 classes × 64": (load_digits, 3)}
    sources |= {"iris, 3 × 4": (load_iris, 1), "breast cancer, 2 × 30": (load_breast_cancer, 1)}
    costs = {"LP": cp.Manhattan(), "QP": cp.SquaredEuclidean()}
    out = []
    for source, (load, target) in sources.items():
        X, y = load(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        for kind, per_class in ((GLVQ, 3), (GMLVQ, 1)):
            model = kind(prototypes_per_class=per_class, random_state=0).fit(X, y)
            rows = people(X, model, target, count)
            for program, cost in costs.items():
                out.append(
                    Setting(
                        f"{program}, {kind.__name__}, {per_class} a class, {source}",
                        program,
                        model,
                        cells(model, target),
                        cp.Explainer(model, data=X, extrapolate=True, cost=cost),
                        target,
                        rows,
                    )
                )
    return out


def measure(setting: Setting, *, few: int, repeats: int) -> tuple[dict[str, float], str]:
    """Seconds a row in the batch, alone, and of CVXPY; the solver that it is compiled for."""
    explainer, target, rows = setting.explainer, setting.target, setting.rows
    answers = explainer.explain(rows, target)
    assert (answers.status == "optimal").all()
    ready = [compiled(piece, setting.kind, rows[0]) for piece in setting.pieces]
    best = np.asarray(answers.cost[:few])
    tasks: dict[str, Callable[[], Any]] = {
        "batch": lambda: explainer.explain(rows, target),
        "alone": lambda: [explainer.explain(row, target) for row in rows[:few]],
        "built": lambda: [
            min(built_each_time(piece, setting.kind, x) for piece in setting.pieces)
            for x in rows[:few]
        ],
    }
    for solver in set.intersection(*(set(r) for r in ready)):

        def run(solver: str = solver) -> np.ndarray:
            return np.array([min(r[solver](x) for r in ready) for x in rows[:few]])

        if np.nanmax(np.abs(run() / best - 1.0), initial=0.0) <= ACCURATE:
            tasks[solver] = run
    seconds = interleaved(tasks, repeats)
    for name in seconds:
        seconds[name] /= len(rows) if name == "batch" else few
    solver = min((s for s in seconds if s.isupper()), key=lambda s: seconds[s])
    return seconds, solver


def against_cvxpy(*, quick: bool) -> tuple[list[Any], list[Goal]]:
    """A line of the table for each model, data set and cost."""
    lines, goals = [], []
    for setting in settings(50 if quick else 2000):
        seconds, solver = measure(setting, few=1 if quick else 10, repeats=1 if quick else 5)
        ours, careful = seconds["batch"], seconds[solver]
        built = seconds["built"] / ours
        lines.append(
            (
                setting.name,
                number(len(setting.pieces)),
                microseconds(ours),
                microseconds(seconds["alone"]),
                microseconds(seconds["built"]),
                f"{microseconds(careful)} ({solver})",
                f"{built:.0f}",
                f"{careful / ours:.0f}",
                f"{careful / seconds['alone']:.2g}",
            )
        )
        goals += [
            Goal(f"built each time, {setting.name}", "≥ 100×", f"{built:.0f}×", built >= 100),
            Goal(
                f"compiled once, {setting.name}",
                "≥ 20×",
                f"{careful / ours:.0f}×",
                careful >= 20 * ours,
            ),
        ]
    return lines, goals


# Batches


def batches(*, quick: bool) -> list[Any]:
    """10 000 rows of models with few prototypes, also through a pipeline."""
    lines = []
    count, repeats = (200, 1) if quick else (10_000, 5)
    frame, labels = load_breast_cancer(return_X_y=True, as_frame=True)
    models = {
        "GLVQ, 3 a class": GLVQ(prototypes_per_class=3, random_state=0),
        "GMLVQ, 1 a class": GMLVQ(prototypes_per_class=1, random_state=0),
        "GMLVQ, 3 a class": GMLVQ(prototypes_per_class=3, random_state=0),
        "NearestCentroid": NearestCentroid(),
    }
    for name, model in models.items():
        for before in ([StandardScaler()], [StandardScaler(), PCA(5)]):
            fitted = make_pipeline(*before, model).fit(frame, labels)
            rng = np.random.default_rng(0)
            values = frame.to_numpy()[rng.integers(0, len(frame), count)]
            noise = 0.1 * frame.std().to_numpy() * rng.normal(size=values.shape)
            rows = pd.DataFrame(values + noise, columns=frame.columns)
            for constraints in ([], [cp.WithinObserved()]):
                for kind, cost in COSTS.items():
                    encoded_cost = cost or cp.Manhattan(cp.mad_weights(frame))
                    explainer = cp.Explainer(
                        fitted,
                        data=frame,
                        extrapolate=True,
                        cost=encoded_cost,
                        constraints=constraints,
                    )
                    explainer.explain(rows.head(100), cp.OtherLabel())
                    held: list[Any] = []

                    def ask(explainer: Any = explainer, rows: Any = rows, held: Any = held) -> None:
                        held[:] = [explainer.explain(rows, cp.OtherLabel())]

                    ours = interleaved(
                        {"ours": ask, "predict": lambda m=fitted, r=rows: m.predict(r)}, repeats
                    )
                    answers = held[0]
                    lines.append(
                        (
                            f"{name}{', PCA 5' if len(before) > 1 else ''}",
                            kind,
                            "observed" if constraints else "none",
                            microseconds(ours["ours"] / count),
                            number(ours["ours"] / ours["predict"]),
                            f"{np.mean(answers.closed_form):.1%}",
                            f"{np.mean(answers.status == 'optimal'):.1%}",
                            f"{np.nanmax(answers.gap):.0e}",
                        )
                    )
    return lines


def main() -> None:
    warnings.filterwarnings("ignore", message="Solution may be inaccurate")
    quick = is_quick()
    rows, goals = all_neighbours(quick=quick)
    versus, promised = against_cvxpy(quick=quick)
    peers = More(
        "Learning vector quantisation against CVXPY; time a row, in a batch of 2000 and alone:",
        (
            "program",
            "prototypes of the target",
            "batch",
            "single row",
            "CVXPY built each time",
            "CVXPY compiled once",
            "built / batch",
            "compiled / batch",
            "compiled / single",
        ),
        versus,
    )
    many = More(
        "10 000 rows of breast cancer (a data frame of 30 columns) that are to get another label:",
        (
            "model",
            "cost",
            "constraints",
            "time a row",
            "× predict",
            "closed form",
            "optimal",
            "largest gap",
        ),
        batches(quick=quick),
    )
    report = Report(
        "prototypes",
        "Nearest prototypes",
        QUESTION,
        (
            "data",
            "points",
            "label",
            "cost",
            "rows",
            "median",
            "95 %",
            "largest",
            "closed form",
            "proved",
            "largest gap",
        ),
        rows,
        [*goals, *promised],
        [METHOD, PEERS],
        [peers, many],
        ("cvxpy",),
    )
    finish(report, quick=quick)


if __name__ == "__main__":
    main()
