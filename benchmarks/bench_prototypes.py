"""One nearest neighbour among thousands: every training point is a prototype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness.data import heloc, mnist
from harness.report import Claim, Section, is_quick, publish
from harness.timing import number, one_by_one
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import counterpoint as cp

TEXT = """
Every training point is a prototype, and what it wins, a cell. Time of a row asked alone, in a model
of so many training points in so many columns, with the model's own `predict` and the certificate.
MNIST: the test images, and for 20 000 points each one shifted by a pixel to the left and to the
right as well, in principal components; HELOC: standardised, or in principal components. Rows are
none of the points. L1 is Manhattan weighted by 1/MAD, L2 squared Euclidean. "Closed form": rows for
which no solver was called. "Any": another label than the row has. Times and shares are of the rows
that need a change.
"""
COSTS = {"L1": None, "L2": cp.SquaredEuclidean()}
Points = tuple[str, np.ndarray, np.ndarray, Any]
"""A name, labelled points, and the label that is wanted."""


def shifted_digits(columns: int, target: Any) -> Iterator[Points]:
    """The images with their neighbours to the left and to the right, in principal components."""
    data = mnist()
    if data is not None:
        X, y = data
        images = X.reshape(-1, 28, 28)
        space = PCA(columns, random_state=0).fit(X)
        shifted = [np.roll(images, step, axis=2).reshape(X.shape) for step in (0, 1, -1)]
        Z = np.concatenate([space.transform(pixels) for pixels in shifted])
        yield f"MNIST, {columns} components", Z, np.tile(y, 3), target


def loans(columns: int | None) -> Iterator[Points]:
    """HELOC, standardised, and in principal components if that many are asked for."""
    data = heloc()
    if data is not None:
        X, y = StandardScaler().fit_transform(data[0]), data[1].to_numpy()
        if columns is not None:
            X = PCA(columns, random_state=0).fit_transform(X)
        name = f"HELOC, {X.shape[1]} {'columns' if columns is None else 'components'}"
        yield name, X, y, cp.OtherLabel()


def sources(*, quick: bool) -> Iterator[Points]:
    """All labelled points."""
    yield from loans(10)
    yield from shifted_digits(10, 3)
    if not quick:
        yield from loans(None)
        for columns, target in ((10, cp.OtherLabel()), (30, cp.OtherLabel()), (30, 3)):
            yield from shifted_digits(columns, target)


def lines(points: Points, count: int, rows: int) -> Iterator[tuple[tuple[Any, ...], list[Claim]]]:
    """A line of the table for each cost."""
    source, X, y, target = points
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:count], order[-rows:]
    model = KNeighborsClassifier(1, algorithm="brute").fit(X[train], y[train])
    label = "any" if isinstance(target, cp.OtherLabel) else str(target)
    for name, cost in COSTS.items():
        explainer = cp.Explainer(model, data=X[train], extrapolate=True, cost=cost)
        every = one_by_one(explainer, X[test], target)
        work = every.where(every.status != "already")
        proved = (work.status == "optimal") & work.proved
        line = (
            *(source, number(count), label, name, number(rows)),
            *(work.median, work.quantile(0.95), work.slowest),
            *(f"{work.closed_form.mean():.0%}", f"{proved.mean():.0%}"),
            f"{max(float(answers.gap[0]) for answers in work.answers):.0e}",
        )
        claims = []
        if count == 5000:
            what, met = (
                f"5000 points, {source}, label {label}, {name}",
                np.median(work.seconds) < 0.05,
            )
            claims.append(Claim(what, "< 50 ms a row (median)", work.median, bool(met)))
        yield line, claims


def main() -> None:
    quick = is_quick()
    table = [
        pair
        for points in sources(quick=quick)
        for count in ((1000, 5000) if quick else (1000, 5000, 20_000))
        if len(points[1]) > count
        for pair in lines(points, count, 5 if quick else 100)
    ]
    columns = (
        *("data", "points", "label", "cost", "rows", "median", "95 %", "largest", "closed form"),
        *("proved", "largest gap"),
    )
    claims = [claim for _, made in table for claim in made]
    section = Section("", TEXT, columns, [line for line, _ in table], claims=claims)
    publish("prototypes", "Nearest prototypes", [section], quick=quick)


if __name__ == "__main__":
    main()
