"""The page: what-ifs of one person. The browser keeps the state and sends all of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, final

import numpy as np
from fastapi import APIRouter
from jinja2 import Environment, FileSystemLoader
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse

import counterpoint as cp
from counterpoint.app.desk import Cell, Desk

__all__ = ["page"]

Number = Annotated[float, Field(allow_inf_nan=False)]


@final
class Wish(BaseModel):
    """What is on the page: a person, what is wanted, and what may change how far at what price."""

    model_config = ConfigDict(extra="forbid")

    row: dict[str, Cell]
    target: Cell = Field(None, description="A label; that of the policy if it is left out.")
    low: Number | None = None
    high: Number | None = None
    certainty: Number | None = Field(None, description="The least probability of the label.")
    keep: list[str] = Field([], description="Features that stay as they are.")
    ranges: dict[str, tuple[Number | None, Number | None]] = {}
    effort: dict[str, Number] = Field({}, description="How many times as hard as in the policy.")
    most: int | None = Field(None, description="How many features may change.")
    only: list[str] | None = Field(None, description="The features that may change; None for all.")


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
        return HTMLResponse(templates.get_template(name).render(view=view, **values))

    @routes.get("/")
    def home() -> HTMLResponse:
        return rendered("page.html", desk=desk, summary=desk.policy.summary())

    @routes.get("/desk/rows/{i}")
    def row(i: int) -> dict[str, Cell]:
        return view.row(i)

    @routes.post("/desk/answer")
    def answer(wish: Wish) -> HTMLResponse:
        with desk.turn():
            found = view.ask(wish)[0]
            rows: list[Any] = [wish.row, *([found.row] if found.found else [])]
            said = [view.says(row, wish) for row in rows]
            return rendered("answer.html", answer=found, said=said)

    @routes.post("/desk/plans")
    def plans(wish: Wish) -> HTMLResponse:
        with desk.turn():
            found = view.ask(wish, n=3)
            way = view.way(wish) if found[0].found else None
            others = [answer for answer in found if answer.found][1:]
            return rendered("plans.html", plans=others, first=found[0], way=way)

    @routes.post("/desk/receipt")
    def receipt(wish: Wish) -> dict[str, Any]:
        with desk.turn():
            return view.ask(wish)[0].to_record()

    return routes


@final
class View:
    """What the page shows of a desk, and how a wish becomes a question."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        policy, target = desk.policy, desk.problem.target
        rules = (*policy.constraints, *policy.implied)
        kept = {n for rule in rules if isinstance(rule, cp.Immutable) for n in rule.features}
        self.movable = [f for f in policy.features if f.name not in kept]
        self.kept = [f for f in policy.features if f.name in kept]
        plain = isinstance(target, cp.Label) and not target.margin
        self.goal = self.label(target) if plain else None
        self.weights = _weights(policy.cost, policy.features.names)
        self.probable = bool(desk.labels) and self._is_probable()
        told = desk.model.predict(desk.people)
        self.decisions_of_people = [_plain(value) for value in told[:1000].tolist()]
        other = [i for i, said in enumerate(told[:1000].tolist()) if said != self.goal]
        self.first = other[0] if other else 0

    def _is_probable(self) -> bool:
        """Whether the model takes a `Probability`, asked about one person."""
        target = cp.Probability(self.desk.labels[0], 0.5)
        try:
            self.desk.policy.explain(self.desk.people.head(1), target, time_limit=1.0)
        except (cp.InvalidInput, cp.NoSolver):
            return False
        return True

    def row(self, i: int) -> dict[str, Any]:
        """One of the people, as JSON has it."""
        if not 0 <= i < len(self.desk.people):
            raise cp.InvalidInput(f"Expected a row from 0 to {len(self.desk.people) - 1}; got {i}.")
        cells = self.desk.people.iloc[i].astype(object)
        return cells.where(cells.notna(), None).to_dict()

    def ends(self, feature: Any) -> tuple[float, float, float] | None:
        """Least and largest value of a number's slider, and its step; None for other features."""
        if isinstance(feature, cp.Categorical) or feature.observed is None:
            return None
        low, high = feature.observed
        step = feature.step if isinstance(feature, cp.Integer) else (high - low) / 200
        return low, high, step

    def ask(self, wish: Wish, n: int | None = None) -> cp.Counterfactuals:
        """The answers to a wish."""
        found, _ = self.desk.ask([wish.row], self.target(wish), self._asked(wish), n)
        if found.status[0] is cp.Status.INVALID:
            raise cp.InvalidInput(found[0].message)
        return found

    def target(self, wish: Wish) -> cp.Target:
        """What is wanted."""
        if wish.low is not None or wish.high is not None:
            ends = {"low": wish.low, "high": wish.high}
            given = {name: end for name, end in ends.items() if end is not None}
            return self.desk.target({"kind": "interval", **given})
        target = self.desk.target(wish.target)
        label = self.label(target)
        if wish.certainty is None or not self.probable or label is None:
            return target
        return cp.Probability(label, wish.certainty)

    def label(self, target: cp.Target | None) -> Any:
        """The one label that a target is about; None if it is about several, or none."""
        if isinstance(target, cp.Label) and len(target.labels) == 1:
            return target.labels[0]
        return target.label if isinstance(target, cp.Probability | cp.Tradeoff) else None

    def _asked(self, wish: Wish) -> dict[str, Any]:
        """What a wish adds to the policy, as in a policy file."""
        keep = [*wish.keep]
        if wish.only is not None:
            keep += [n for n in self.desk.names if n not in (*keep, *wish.only)]
        rules: list[dict[str, Any]] = [{"kind": "immutable", "features": keep}] if keep else []
        for name, ends in wish.ranges.items():
            given = {e: v for e, v in zip(("low", "high"), ends, strict=True) if v is not None}
            rules.append({"kind": "bounds", "feature": name, **given})
        if wish.most is not None:
            rules.append({"kind": "max_changes", "count": wish.most})
        asked: dict[str, Any] = {"constraints": rules}
        if wish.effort and self.weights:
            times = {name: w * wish.effort.get(name, 1.0) for name, w in self.weights.items()}
            squared = isinstance(self.desk.policy.cost, cp.SquaredEuclidean)
            kind = "squared_euclidean" if squared else "manhattan"
            asked["cost"] = {"kind": kind, "weights": times}
        return asked

    def says(self, row: Mapping[Any, Any], wish: Wish) -> tuple[str, float | None]:
        """What the model itself says of a row: its decision, and the probability of the target."""
        said, chances = self.desk.says(row)
        label = self.label(self.target(wish))
        known = self.probable and label in self.desk.labels
        return _plain(said), chances[self.desk.labels.index(label)] if known else None

    def way(self, wish: Wish) -> dict[str, Any] | None:
        """The path of a person to more and more certainty, as points of a picture."""
        label = self.label(self.target(wish))
        if not self.probable or label not in self.desk.labels:
            return None
        levels = [cp.Probability(label, p) for p in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)]
        path = self.desk.trace(wish.row, levels, self._asked(wish))
        found = np.flatnonzero(path.found[0])
        if len(found) < 2:
            return None
        cost, p = path.cost[0, found], path.probability[0, found]
        x = 40 + 300 * cost / max(float(cost.max()), 1e-12)
        y = 150 - 130 * p
        points = [
            {"x": f"{a:.1f}", "y": f"{b:.1f}", "cost": c, "p": q}
            for a, b, c, q in zip(x.tolist(), y.tolist(), cost.tolist(), p.tolist(), strict=True)
        ]
        return {"points": points, "lost": len(levels) - len(found), "label": label}


def _weights(cost: cp.Cost, names: tuple[Any, ...]) -> dict[str, float]:
    """Name → weight of a cost that has one for each feature; empty for others."""
    if not isinstance(cost, cp.Manhattan | cp.SquaredEuclidean):
        return {}
    given = cost.weights
    if given is None or isinstance(given, Mapping):
        return {name: float((given or {}).get(name, 1.0)) for name in names}
    return dict(zip(names, np.asarray(given, dtype=float).tolist(), strict=True))


def _plain(value: Any) -> str:
    """A value to read."""
    if value is None or value != value:  # noqa: PLR0124 (NaN)
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
