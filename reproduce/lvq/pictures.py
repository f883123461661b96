"""Counterfactuals in two dimensions, for each kind of model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from common.figures import panels
from common.report import Section, number
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from lvq.sets import MODELS, fitted

FEATURES = ("alcohol", "flavanoids")
TINTS = ("#cfe3f1", "#fbe3c0", "#d6eadf")
"""Of the regions of three cultivars; markers tell them apart as well."""
DARK = ("#0072b2", "#b36b00", "#00724f")
MARKERS = ("o", "s", "^")
COSTS: dict[str, tuple[cp.Cost, str, str]] = {
    "Manhattan": (cp.Manhattan(), "#000000", "-"),
    "Euclidean": (cp.SquaredEuclidean(), "#a8336e", (0, (4, 2))),
}
HIGH = 0.25
"""Of each class the wine is explained that is nearest to this quantile of both features."""
PALETTE = 128
"""Colours of the file."""
TEXT = """
Two features of the three wines of scikit-learn, in standard deviations; 3 prototypes a class.
Coloured: what the model decides; small: the wines; large with a dark rim: prototypes. Arrows lead
from a wine to the nearest point with another label, Manhattan (solid) and Euclidean (dashed).
"""
NOTE = """
The regions of GLVQ and GMLVQ are bounded by straight lines, and so their answers are proved
optimal; those of LGMLVQ are bounded by pieces of ellipses and hyperbolas. Manhattan distance
changes one feature at a time where it can.
"""


@dataclass(frozen=True, eq=False)
class FitData:
    """One model, and points with their counterfactuals.

    Parameters
    ----------
    name, model
        The model.
    X, y
        All wines.
    x
        (n, 2) the wines that are explained.
    answers
        Cost → their counterfactuals.
    """

    name: str
    model: Any
    X: np.ndarray
    y: np.ndarray
    x: np.ndarray
    answers: dict[str, cp.Counterfactuals]


def section() -> Section:
    """The figure, and the distances in it."""
    scenes = list(_scenes())
    rows = [
        (
            scene.name,
            cost,
            ", ".join(number(answer.cost) for answer in answers),
            ", ".join(str(answer.certificate.claim) for answer in answers),
        )
        for scene in scenes
        for cost, answers in scene.answers.items()
    ]
    return Section(
        "In two dimensions",
        TEXT,
        ("model", "distance", "of the three (Euclidean: squared)", "claims"),
        rows,
        [NOTE],
        {"lvq_regions": _drawn(scenes)},
    )


def _scenes() -> Iterator[FitData]:
    wine = load_wine(as_frame=True)
    X = StandardScaler().fit_transform(wine.data[list(FEATURES)])
    y = wine.target.to_numpy()
    for name in MODELS:
        model = fitted(name, X, y)
        x = _one_a_class(X, y)
        answers = {
            kind: cp.Explainer(model, cost=cost).explain(x, cp.OtherLabel())
            for kind, (cost, *_) in COSTS.items()
        }
        yield FitData(name, model, X, y, x, answers)


def _one_a_class(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    chosen = []
    for label in np.unique(y):
        some = X[y == label]
        away = some - np.quantile(some, HIGH, axis=0)
        chosen.append(some[(away**2).sum(axis=1).argmin()])
    return np.array(chosen)


def _drawn(scenes: list[FitData]) -> Figure:
    figure, axes = panels(1, len(scenes), 3.1)
    figure.set_size_inches(10.2, 4.0)
    for ax, scene in zip(axes.flat, scenes, strict=True):
        _draw(ax, scene)
    axes.flat[0].set_ylabel(FEATURES[1])
    _key(figure)
    return figure


def _draw(ax: Axes, scene: FitData) -> None:
    low, high = scene.X.min(axis=0) - 0.25, scene.X.max(axis=0) + 0.25
    across, up = (np.linspace(*ends, 400) for ends in zip(low, high, strict=True))
    mesh = np.stack(np.meshgrid(across, up), axis=-1)
    ties_resolved = scene.model.predict(mesh.reshape(-1, 2)).reshape(mesh.shape[:2])
    extent = (low[0], high[0], low[1], high[1])
    ax.imshow(
        ties_resolved,
        origin="lower",
        extent=extent,
        cmap=ListedColormap(TINTS),
        aspect="auto",
        interpolation="nearest",
    )
    ax.contour(across, up, ties_resolved, levels=[0.5, 1.5], colors="white", linewidths=1.2)
    for label, (colour, marker) in enumerate(zip(DARK, MARKERS, strict=True)):
        some, p = scene.X[scene.y == label], scene.model.prototypes_
        p = p[scene.model.prototype_labels_ == label]
        ax.scatter(*some.T, s=9, marker=marker, color=colour, alpha=0.35, linewidths=0)
        ax.scatter(*p.T, s=75, marker=marker, color=colour, edgecolors="black", linewidths=1.0)
    for name, (_, colour, dashes) in COSTS.items():
        for start, end in zip(scene.x, scene.answers[name].to_frame(), strict=True):
            ax.annotate(
                "",
                end,
                start,
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": colour,
                    "linestyle": dashes,
                    "linewidth": 1.5,
                    "shrinkA": 0,
                    "shrinkB": 0,
                },
                zorder=5,
            )
    ax.scatter(*scene.x.T, s=34, color="white", edgecolors="black", linewidths=1.4, zorder=6)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), title=scene.name, xlabel=FEATURES[0])
    ax.grid(visible=False)


def _key(figure: Figure) -> None:
    dots = {"color": "#555555", "linestyle": "none"}
    handles = [
        Line2D([], [], marker="o", markersize=3.5, label="wine", **dots),
        Line2D(
            [], [], marker="o", markersize=8, markeredgecolor="black", label="prototype", **dots
        ),
        Line2D(
            [],
            [],
            marker="o",
            markersize=6,
            color="white",
            markeredgecolor="black",
            linestyle="none",
            label="explained",
        ),
        *(
            Line2D([], [], color=colour, linestyle=dashes, linewidth=1.5, label=name)
            for name, (_, colour, dashes) in COSTS.items()
        ),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
