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
from counterpoint.app.desk import Cell, Desk, Question

__all__ = ["page"]


def page(desk: Desk) -> APIRouter:
    """The routes of the page."""
    routes = APIRouter(include_in_schema=False)
    folder = Path(__file__).with_name("templates")
    templates = Environment(
        loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters["plain"] = _plain
    view = View(desk)

    def rendered(name: str, **values: Any) -> HTMLResponse:
        return HTMLResponse(templates.get_template(name).render(view=view, desk=desk, **values))

    @routes.get("/")
    def home() -> HTMLResponse:
        return rendered("page.html")

    @routes.get("/desk/rows/{i}")
    def row(i: int) -> dict[str, Cell]:
        if not 0 <= i < len(desk.people):
            raise cp.InvalidInput(f"Expected a row from 0 to {len(desk.people) - 1}; got {i}.")
        cells = desk.people.iloc[i].astype(object)
        return cells.where(cells.notna(), None).to_dict()

    @routes.post("/desk/answer")
    def answer(asked: Question) -> HTMLResponse:
        with desk.turn():
            found = desk.ask(asked)[0][0]
            label = view.label(desk.target(asked))
            said = view.says([asked.rows[0], *([found.row] if found.found else [])], label)
            return rendered("answer.html", answer=found, said=said)

    @routes.post("/desk/plans")
    def plans(asked: Question) -> HTMLResponse:
        with desk.turn():
            found = desk.ask(asked.model_copy(update={"n": 3}))[0]
            way = view.way(asked) if found[0].found else None
            others = [answer for answer in found if answer.found][1:]
            return rendered("plans.html", plans=others, first=found[0], way=way)

    @routes.post("/desk/receipt")
    def receipt(asked: Question) -> dict[str, Any]:
        with desk.turn():
            return desk.ask(asked)[0][0].to_record()

    return routes


@final
class View:
    """What the page shows of a desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        policy, target = desk.policy, desk.problem.target
        rules = (*policy.constraints, *policy.implied)
        kept = {n for rule in rules if isinstance(rule, cp.Immutable) for n in rule.features}
        self.movable = [f for f in policy.features if f.name not in kept]
        self.kept = [f for f in policy.features if f.name in kept]
        self.aim = self.label(target)  # of the policy
        self.is_plain = isinstance(target, cp.Label) and not target.margin
        self.weights = _weights(policy.cost, policy.features.names)
        self.kind = "manhattan" if isinstance(policy.cost, cp.Manhattan) else "squared_euclidean"
        self.probable = bool(desk.labels) and self._is_probable()
        told = desk.model.predict(desk.people.head(1000)).tolist()
        self.people = [_plain(said) for said in told]
        self.first = next((i for i, said in enumerate(told) if said != self.aim), 0)

    def _is_probable(self) -> bool:
        """Whether the model takes a `Probability`, asked about one person."""
        target = cp.Probability(self.desk.labels[0], 0.5)
        try:
            self.desk.policy.explain(self.desk.people.head(1), target, time_limit=1.0)
        except (cp.InvalidInput, cp.NoSolver):
            return False
        return True

    def label(self, target: cp.Target | None) -> Any:
        """The one label of the model that a target is about; None if there is none."""
        asked: tuple[Any, ...] = ()
        if isinstance(target, cp.Label):
            asked = target.labels
        elif isinstance(target, cp.Probability | cp.Tradeoff):
            asked = (target.label,)
        known = [label for label in self.desk.labels if label in asked]
        return known[0] if len(known) == len(asked) == 1 else None

    def ends(self, feature: Any) -> tuple[float, float, float] | None:
        """Least and largest value of a number's slider, and its step; None for other features."""
        if isinstance(feature, cp.Categorical) or feature.observed is None:
            return None
        low, high = feature.observed
        step = feature.step if isinstance(feature, cp.Integer) else (high - low) / 200
        return low, high, step

    def says(self, rows: Sequence[Mapping[Any, Any]], label: Any) -> list[tuple[str, float | None]]:
        """What the model itself says of each row: its decision, and the probability of a label."""
        at = self.desk.labels.index(label) if self.probable and label is not None else None
        return [(_plain(s), None if at is None else p[at]) for s, p in self.desk.says(rows)]

    def way(self, asked: Question) -> dict[str, Any] | None:
        """The path of a person to more and more certainty, as points of a picture."""
        label = self.label(self.desk.target(asked))
        if not self.probable or label is None:
            return None
        levels = [cp.Probability(label, p) for p in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)]
        path = self.desk.trace(asked, levels)
        found = np.flatnonzero(path.found[0])
        if len(found) < 2:
            return None
        cost, p = path.cost[0, found], path.probability[0, found]
        x, y = 40 + 300 * cost / max(float(cost.max()), 1e-12), 150 - 130 * p
        points = np.column_stack([x.round(1), y.round(1), cost, p]).tolist()
        return {"points": points, "ends": cp.Status.INFEASIBLE in path.status[0], "label": label}


def _weights(cost: cp.Cost, names: tuple[Any, ...]) -> dict[str, float]:
    """Name → weight of a cost that has one for each feature; empty for others."""
    if not isinstance(cost, cp.Manhattan | cp.SquaredEuclidean):
        return {}
    given = cost.weights
    if given is None or isinstance(given, Mapping):
        own = [(given or {}).get(name, 1.0) for name in names]
        one = [float(weight) for weight in own if not isinstance(weight, Mapping)]
        return dict(zip(names, one, strict=True)) if len(one) == len(own) else {}
    return dict(zip(names, np.asarray(given, dtype=float).tolist(), strict=True))


def _plain(value: Any) -> str:
    """A value to read."""
    if value is None or value != value:  # noqa: PLR0124 (NaN)
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
