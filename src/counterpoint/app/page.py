"""The page: what-ifs of one person. The browser keeps the state, and asks as other programs do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from fastapi import APIRouter
from jinja2 import Environment, FileSystemLoader
from starlette.responses import HTMLResponse

import counterpoint as cp
from counterpoint.app.dashboard import Cell, Dashboard, ExplainRequest

__all__ = ["page"]


def page(dashboard: Dashboard) -> APIRouter:
    """The routes of the page."""
    routes = APIRouter(include_in_schema=False)
    folder = Path(__file__).with_name("templates")
    templates = Environment(
        loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters["plain"] = _plain
    view = View(dashboard)

    def rendered(name: str, **values: Any) -> HTMLResponse:
        return HTMLResponse(
            templates.get_template(name).render(view=view, dashboard=dashboard, **values)
        )

    @routes.get("/")
    def home() -> HTMLResponse:
        return rendered("page.html")

    @routes.get("/desk/rows/{i}")
    def row(i: int) -> dict[str, Cell]:
        if not 0 <= i < len(dashboard.people):
            raise cp.InvalidInput(f"Expected a row from 0 to {len(dashboard.people) - 1}; got {i}.")
        cells = dashboard.people.iloc[i].astype(object)
        return cells.where(cells.notna(), None).to_dict()

    @routes.post("/desk/answer")
    def answer(request: ExplainRequest) -> HTMLResponse:
        with dashboard.turn():
            best = dashboard.ask(request)[0][0]
            label = view.label(dashboard.target(request))
            rows: list[Any] = [request.rows[0], *([best.row] if best.found else [])]
            return rendered("answer.html", answer=best, said=view.says(rows, label))

    @routes.post("/desk/plans")
    def plans(request: ExplainRequest) -> HTMLResponse:
        with dashboard.turn():
            answers = dashboard.ask(request.model_copy(update={"n": 3}))[0]
            way = view.way(request) if answers[0].found else None
            alternatives = [answer for answer in answers if answer.found][1:]
            return rendered("plans.html", plans=alternatives, first=answers[0], way=way)

    @routes.post("/desk/receipt")
    def receipt(request: ExplainRequest) -> dict[str, Any]:
        with dashboard.turn():
            return dashboard.ask(request)[0][0].to_record()

    return routes


@final
class View:
    """Values that the templates of the page show."""

    def __init__(self, dashboard: Dashboard) -> None:
        self.dashboard = dashboard
        policy, target = dashboard.policy, dashboard.problem.target
        rules = (*policy.constraints, *policy.implied)
        immutable = {n for rule in rules if isinstance(rule, cp.Immutable) for n in rule.features}
        self.movable = [f for f in policy.features if f.name not in immutable]
        self.immutable = [f for f in policy.features if f.name in immutable]
        self.aim = self.label(target)  # of the policy
        self.is_plain = isinstance(target, cp.Label) and not target.margin
        self.weights = _weights(policy.cost, policy.features.names)
        self.kind = "manhattan" if isinstance(policy.cost, cp.Manhattan) else "squared_euclidean"
        self.probable = bool(dashboard.labels) and self._is_probable()
        labels = dashboard.model.predict(dashboard.people.head(1000)).tolist()
        self.people = [_plain(label) for label in labels]
        self.first = next((i for i, label in enumerate(labels) if label != self.aim), 0)

    def _is_probable(self) -> bool:
        """Return whether the model takes a `Probability`, tried on one person."""
        target = cp.Probability(self.dashboard.labels[0], 0.5)
        try:
            self.dashboard.policy.explain(self.dashboard.people.head(1), target, time_limit=1.0)
        except (cp.InvalidInput, cp.NoSolver):
            return False
        return True

    def label(self, target: cp.Target | None) -> Any:
        """Return the one label of the model that a target is about; None if there is none."""
        wanted: tuple[Any, ...] = ()
        if isinstance(target, cp.Label):
            wanted = target.labels
        elif isinstance(target, cp.Probability | cp.Tradeoff):
            wanted = (target.label,)
        labels = [label for label in self.dashboard.labels if label in wanted]
        return labels[0] if len(labels) == len(wanted) == 1 else None

    def ends(self, feature: Any) -> tuple[float, float, float] | None:
        """Return the ends and the step of a number's slider; None for other features."""
        if isinstance(feature, cp.Categorical) or feature.observed is None:
            return None
        low, high = feature.observed
        step = feature.step if isinstance(feature, cp.Integer) else (high - low) / 200
        return low, high, step

    def says(self, rows: Sequence[Mapping[Any, Any]], label: Any) -> list[tuple[str, float | None]]:
        """Return the model's decision for each row, and its probability of a label."""
        at = self.dashboard.labels.index(label) if self.probable and label is not None else None
        return [(_plain(s), None if at is None else p[at]) for s, p in self.dashboard.says(rows)]

    def way(self, request: ExplainRequest) -> dict[str, Any] | None:
        """Return the path of a person to higher probabilities, as points of a picture."""
        label = self.label(self.dashboard.target(request))
        if not self.probable or label is None:
            return None
        levels = [cp.Probability(label, p) for p in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)]
        path = self.dashboard.trace(request, levels)
        answered = np.flatnonzero(path.found[0])
        if len(answered) < 2:
            return None
        cost, p = path.cost[0, answered], path.probability[0, answered]
        x, y = 40 + 300 * cost / max(float(cost.max()), 1e-12), 150 - 130 * p
        points = np.column_stack([x.round(1), y.round(1), cost, p]).tolist()
        return {"points": points, "ends": cp.Status.INFEASIBLE in path.status[0], "label": label}


def _weights(cost: cp.Cost, names: tuple[Any, ...]) -> dict[str, float]:
    """Name → weight of a cost that has one for each feature; empty for others."""
    if not isinstance(cost, cp.Manhattan | cp.SquaredEuclidean):
        return {}
    weights = cost.weights
    if weights is None or isinstance(weights, Mapping):
        entries = [(weights or {}).get(name, 1.0) for name in names]
        numbers = [float(weight) for weight in entries if not isinstance(weight, Mapping)]
        return dict(zip(names, numbers, strict=True)) if len(numbers) == len(entries) else {}
    return dict(zip(names, np.asarray(weights, dtype=float).tolist(), strict=True))


def _plain(value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124 (NaN)
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
