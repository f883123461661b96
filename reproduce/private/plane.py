"""Figure 2: two dimensions, a linear model, and explanations of all kinds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from common.report import Claim, Section, number
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import counterpoint as cp
from counterpoint.privacy import PrivateSVC
from private.known import Known
from private.looks import BAD, COLOURS, GOOD
from private.methods import METHODS, PLAIN, Answer, Asked, answer
from private.papers_rules import by_papers_rule, robust, with_papers_noise
from private.sets import Data
from private.simulation import Tally, interval

__all__ = ["section"]

FloatArray = NDArray[np.float64]

ROWS = 50
"""Of each class."""
BETA, P = 8.0, 0.9
X = np.array([-0.25, 0.15])
"""The row that is explained."""
TRUE = "by the true weights"
TEXT = """
Two normal classes with means (0, 0) and (1, 1) and covariance 0.1 I, {rows} rows each; a linear
model with an intercept, which is a feature and has noise as well; β = {beta:g}, p = {p:g}, bound
(10). The point is explained once for the figure, where red is what the true weights take for its
class, and again for the table with {draws} draws of the noise. "Right": the true weights take the
answer for the other class.
"""
NOTE = """
The figure is the first draw in which the non-robust explanation is wrong and all robust ones are
right, as in the paper's; the table says how often that is so. In two dimensions there is little to
choose from, so that the exact rule loses less of its promise than in thirty.
"""


@dataclass(frozen=True, eq=False)
class FitData:
    """One draw, and the points that methods find."""

    known: Known
    model: PrivateSVC
    points: dict[str, FloatArray]


def section(draws: int) -> Section:
    """The figure, and how often each method is right."""
    known = _known()
    held: dict[str, list[Answer]] = {name: [] for name in METHODS["linear"]}
    first: PrivateSVC | None = None
    for seed in range(1, draws + 1):
        model = known.released(BETA, seed)
        label = 1 - int(model.predict(X[None])[0])
        asked = Asked(known, model, X, label, P)
        for name, answers in held.items():
            answers.append(answer(asked, "linear", name))
        safety_margins = {name: answers[-1].safety_margin for name, answers in held.items()}
        told = safety_margins.pop(PLAIN) < 0.0 and all(
            safety_margin > 0.0 for safety_margin in safety_margins.values()
        )
        if first is None and label == 1 and told:
            first = model
    rows = [_line(name, Tally(P, answers)) for name, answers in held.items()]
    scene = _scene(known, first if first is not None else known.released(BETA, 1))
    best = float(np.linalg.norm(scene.points[TRUE] - X))
    rows.append((TRUE, "100%", number(best), "1.000"))
    robust = Tally(P, held["paper's cone program"])
    wrong = Tally(P, held[PLAIN])
    claims = [
        Claim(
            "the non-robust explanation may not be credible (figure 2)",
            "yes",
            f"it is wrong in {wrong.wrong / wrong.found:.0%} of the draws, the paper's robust one "
            f"in {robust.wrong / robust.found:.0%}",
            wrong.wrong > robust.wrong,
        )
    ]
    return Section(
        "Figure 2: in two dimensions",
        TEXT.format(rows=ROWS, beta=BETA, p=P, draws=draws),
        ("method", "found", "mean distance", "right"),
        rows,
        [NOTE],
        {"private_plane": _figure(scene)},
        claims,
    )


def _known() -> Known:
    random = np.random.default_rng(0)
    spread = np.sqrt(0.1)
    rows = np.vstack([random.normal(mean, spread, size=(ROWS, 2)) for mean in (0.0, 1.0)])
    y = np.repeat([0, 1], ROWS)
    model = PrivateSVC(
        1.0,
        C=float(np.sqrt(len(rows))),
        trust_data=True,
        insecure_noise_seed=0,
    ).fit(rows, y)
    weights = model.coef_ - model.noise_.draw(1, 0)[0]
    released = with_papers_noise(model, len(rows))
    return Known(Data("plane", rows, y, rows, y), released, weights)


def _line(name: str, tally: Tally) -> tuple[str, ...]:
    share, among = tally.right / max(tally.found, 1), len(tally.answers)
    low, high = interval(tally.right, tally.found)
    right = f"{share:.3f} ({low:.3f}–{high:.3f})"
    return name, f"{tally.found / among:.0%}", number(tally.mean), right


def _scene(known: Known, model: PrivateSVC) -> FitData:
    label = 1 - int(model.predict(X[None])[0])
    points = {}
    for name, how in METHODS["linear"].items():
        target = cp.Label(label) if name == PLAIN else robust(label, P, how)
        asked = by_papers_rule(model, P) if "rule" in how else model
        found = cp.Explainer(asked, cost=cp.SquaredEuclidean()).explain(X[None], target)
        if found.found[0]:
            points[name] = found.to_frame()[0]
    slope, constant = known.weights[:2], known.weights[2]
    points[TRUE] = X - (slope @ X + constant) / (slope @ slope) * slope
    return FitData(known, model, points)


def _figure(scene: FitData) -> Figure:
    figure = Figure(figsize=(7.6, 4.4), layout="constrained")
    axes = figure.subplots()
    low, high = np.array([-0.85, -0.75]), np.array([1.85, 1.75])
    _ground(axes, scene.known.weights, low, high)
    data = scene.known.data
    for label, marker, colour in ((0, "o", "#7a7a7a"), (1, "^", "#7a7a7a")):
        axes.scatter(*data.X[data.y == label].T, s=12, marker=marker, color=colour, linewidths=0)
    for weights, style, name in (
        (scene.known.weights, "-", "boundary, true weights"),
        (scene.model.coef_, "--", "boundary, released weights"),
    ):
        _line_of(axes, weights, low, high, linestyle=style, color="#222222", label=name)
    names = {TRUE: "nearest, true weights", PLAIN: "not robust"}
    colours = COLOURS | {TRUE: "#000000", PLAIN: "#e69f00"}
    order = [TRUE, PLAIN, "exact rule", "paper's cone program", "selection"]
    for name in (name for name in order if name in scene.points):
        point = scene.points[name]
        axes.plot(*np.array([X, point]).T, color=colours[name], linewidth=0.8, zorder=3)
        label = f"{names.get(name, name)}: {np.linalg.norm(point - X):.2f}"
        axes.scatter(*point, s=58, color=colours[name], edgecolors="white", zorder=5, label=label)
    axes.scatter(
        *X, s=80, color="white", edgecolors="black", linewidths=1.6, zorder=6, label="the row"
    )
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="x₁", ylabel="x₂")
    axes.set_aspect("equal")
    axes.grid(visible=False)
    place = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0)}
    axes.legend(fontsize=8, title="distance", title_fontsize=8, **place)
    return figure


def _ground(axes: Axes, weights: FloatArray, low: FloatArray, high: FloatArray) -> None:
    """Which class the true weights decide for."""
    across, up = (np.linspace(*ends, 300) for ends in zip(low, high, strict=True))
    score = weights[0] * across[None] + weights[1] * up[:, None] + weights[2]
    axes.contourf(across, up, score, levels=[-1e9, 0.0, 1e9], colors=[BAD, GOOD])


def _line_of(
    axes: Axes, weights: FloatArray, low: FloatArray, high: FloatArray, **style: str
) -> None:
    across = np.array([low[0], high[0]])
    axes.plot(across, -(weights[0] * across + weights[2]) / weights[1], linewidth=1.3, **style)
