"""Counterfactuals lifted from PCA space to raw features, and those found in raw features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from common.report import Claim, Section, number
from sklearn.pipeline import Pipeline, make_pipeline

import counterpoint as cp
from lvq.sets import MODELS, Case, Data, Sizes, cases

TEXT = """
The paper computes counterfactuals after PCA, and says that they can be lifted to the original
features. Lifted: the answer in PCA space, nearest there, and the change of raw features that PCA
sees as its change; what PCA does not see of the point stays. Direct: `cp.Explainer` of the whole
pipeline `PCA, StandardScaler, model`, which asks for the nearest point in raw features; and the
same within the values that the data show. Costs are raw: for breast cancer the Manhattan distance
in median absolute deviations, for digits in grey levels (0 to 16 for each of 64 pixels). "Features
changed" and "outside" are medians over the points: outside are features beyond the least or the
greatest value that the data show.
"""
NOTE = """
What is nearest in PCA space is neither near nor sparse in raw features, since each component mixes
all of them; and lifted digits have pixels darker than black and lighter than white. Where a lifted
answer does not flip the pipeline, rounding took it back over the boundary, on which it lies. PCA is
of the raw measurements, so that in breast cancer areas and perimeters, whose numbers are the
largest, make most of it, and the direct answers change one of those. That is what the model
accepts; bounds, costs and fixed features, which tell what is sensible, have a meaning in raw
features only.
"""


@dataclass(frozen=True, eq=False)
class Ways:
    """One data set and model.

    Parameters
    ----------
    data, name
        Which.
    changes
        Way → (n, p) changes of raw features; NaN where there is no answer.
    flips
        Way → (n,): whether the pipeline predicts the target there.
    X
        (n, p) the raw points.
    """

    data: Data
    name: str
    X: np.ndarray
    changes: dict[str, np.ndarray]
    flips: dict[str, np.ndarray]


def section(every: Sequence[Data], sizes: Sizes) -> Section:
    """Breast cancer and digits, all models."""
    some = [data for data in every if data.components]
    found = [_ways(data, name, sizes.lifted) for data in some for name in MODELS]
    rows = [row for ways in found for row in _rows(ways)]
    ratios = [_median(w, "lifted") / _median(w, "direct") for w in found]
    flips = [float(w.flips["direct"].mean()) for w in found]
    return Section(
        "Lifted from PCA space, and in raw features",
        TEXT,
        ("data", "model", "way", "points", "flips", "raw cost", "features changed", "outside"),
        rows,
        [NOTE],
        claims=[
            Claim(
                "counterfactuals in PCA space can be lifted to the original features",
                "yes",
                f"they cost {min(ratios):.1f}–{max(ratios):.0f}× as much as those computed in raw "
                f"features, which flip the pipeline: {min(flips):.0%}",
                min(flips) == 1.0,
            )
        ],
    )


def _ways(data: Data, name: str, points: int) -> Ways:
    """All folds."""
    parts = [dict(_answers(case)) for case in cases(data, name, points)]
    X = np.concatenate([part["X"][0] for part in parts])
    names = [way for way in parts[0] if way != "X"]
    changes = {way: np.concatenate([part[way][0] for part in parts]) for way in names}
    flips = {way: np.concatenate([part[way][1] for part in parts]) for way in names}
    return Ways(data, name, X, changes, flips)


def _answers(case: Case) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    """Way, and its changes and whether they flip the pipeline; and the raw points themselves."""
    pipeline = make_pipeline(*case.before, case.model)
    X, targets = case.data.raw[case.rows], case.targets
    yield "X", (X, targets)
    inner = _explained(cp.Explainer(case.model, cost=cp.Manhattan()), case.X, targets)
    back = case.before.inverse_transform
    lifted = back(inner) - back(case.X)
    direct = cp.Explainer(pipeline, cost=_cost(case.data))
    inside = cp.Explainer(
        pipeline, data=case.data.raw, cost=_cost(case.data), constraints=[cp.WithinObserved()]
    )
    changes = {
        "lifted": lifted,
        "direct": _explained(direct, X, targets) - X,
        "direct, within the data": _explained(inside, X, targets) - X,
    }
    for way, change in changes.items():
        yield way, (change, _flips(pipeline, X + change, targets))


def _explained(explainer: cp.Explainer, X: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(n, p) the answers; NaN where there is none."""
    found = np.empty_like(X)
    for label in np.unique(targets):
        rows = targets == label
        found[rows] = explainer.explain(X[rows], int(label)).to_frame()
    return found


def _flips(pipeline: Pipeline, points: np.ndarray, targets: np.ndarray) -> np.ndarray:
    there = np.isfinite(points).all(axis=1)
    there[there] &= pipeline.predict(points[there]) == targets[there]
    return there


def _weights(data: Data) -> dict[str, float] | None:
    """What one unit of a raw feature costs; None for 1 each."""
    return None if data.name == "digits" else cp.mad_weights(data.raw)


def _cost(data: Data) -> cp.Manhattan:
    return cp.Manhattan(_weights(data))


def _costs(ways: Ways, way: str) -> np.ndarray:
    """(n,) raw cost of each change."""
    weights = _weights(ways.data)
    prices = 1.0 if weights is None else np.array(list(weights.values()))
    return (np.abs(ways.changes[way]) * prices).sum(axis=1)


def _median(ways: Ways, way: str) -> float:
    return float(np.nanmedian(_costs(ways, way)))


def _rows(ways: Ways) -> Iterator[tuple[str, ...]]:
    every = ways.data.raw
    low, high, size = every.min(axis=0), every.max(axis=0), np.abs(every).max(axis=0)
    for way, change in ways.changes.items():
        after, close = ways.X + change, 1e-9 * size
        outside = ((after < low - close) | (after > high + close)).sum(axis=1)
        changed = (np.abs(change) > close).mean(axis=1)
        yield (
            ways.data.name,
            ways.name,
            way,
            str(len(change)),
            f"{ways.flips[way].mean():.0%}",
            number(_median(ways, way)),
            f"{np.median(changed):.0%}",
            number(float(np.median(outside))),
        )
