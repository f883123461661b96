"""The page: what-ifs of one person. The browser keeps the state, and asks as other programs do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from fastapi import APIRouter
from jinja2 import Environment, FileSystemLoader
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse

import counterpoint as cp
from counterpoint.app.dashboard import Dashboard, ExplainRequest
from counterpoint.app.limits import SliderLimits
from counterpoint.app.people import People
from counterpoint.app.words import (
    cost_in_words,
    few,
    least,
    listing,
    percent,
    plain,
    ranking,
    readable,
    rule_in_words,
    standing,
    weights_of,
)

__all__ = ["page"]

DIGITS = 3
"""Significant digits of a number that is to change: nobody earns 41237.12."""
FURTHER = "the cheapest change that differs enough from the plans before it"
PLANS = 3
"""Plans that stand side by side, the cheapest among them."""
FOLDED = 8
"""Features that may change and are shown open; of more, one opens those that one looks for."""


@final
class Search(BaseModel):
    """Words about people; in the body, for addresses are kept where bodies are not."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(default="", max_length=200)


def page(dashboard: Dashboard) -> APIRouter:
    """The routes of the page."""
    routes = APIRouter(include_in_schema=False)
    view, rendered = View(dashboard), _renderer(dashboard)

    @routes.get("/")
    def home() -> HTMLResponse:
        return rendered("page.html", view=view, inf=math.inf)

    _add_people(routes, dashboard.people)
    _add_answers(routes, dashboard, view, rendered)
    return routes


def _add_people(routes: APIRouter, people: People) -> None:
    """Add the routes that say who may be asked about."""

    @routes.get("/desk/rows/{i}")
    def row(i: int) -> dict[str, Any]:
        cells = people.row(i)
        return {"cells": cells, "title": people.title(i), "summary": people.summary(i)}

    @routes.post("/desk/people")
    def search(request: Search) -> dict[str, Any]:
        rows, count = people.search(request.query)
        matches = [
            {"row": i, "title": people.title(i), "decision": decision}
            | {"summary": people.summary(i, request.query)}
            for i, decision in zip(rows, people.decisions(rows), strict=True)
        ]
        return {"matches": matches, "count": count}


def _add_answers(routes: APIRouter, dashboard: Dashboard, view: View, rendered: Any) -> None:
    """Add the routes that answer."""

    @routes.post("/desk/answer")
    def answer(request: ExplainRequest) -> HTMLResponse:
        refusals = view.refusals(request)
        if refusals:
            return rendered("refused.html", refusals=refusals)
        with dashboard.turn():
            (best, exact), *_ = _answers(dashboard, request)
            if best.status is cp.Status.INVALID:
                return rendered("answer.html", answer=best, decisions=[])
            label = view.label(dashboard.target(request))
            rows: list[Any] = [request.rows[0], *([best.row] if best.found else [])]
            decisions, (claim, sentence) = view.decisions(rows, label), standing(best, exact)
            values = {"answer": best, "decisions": decisions, "label": label}
            return rendered("answer.html", **values, claim=claim, sentence=sentence)

    @routes.post("/desk/why")
    def why(request: ExplainRequest) -> HTMLResponse:
        with dashboard.turn():
            conflict = dashboard.answers(request)[0][0].conflict
        reasons = [] if conflict is None else view.reasons(request, conflict)
        return rendered("why.html", conflict=conflict, reasons=reasons)

    @routes.post("/desk/plans")
    def plans(request: ExplainRequest) -> HTMLResponse:
        with dashboard.turn():
            pairs = _answers(dashboard, request.model_copy(update={"n": PLANS}))
            pairs = [(answer, exact) for answer, exact in pairs if answer.found]
            cards = [
                (answer, ranking(answer, pairs[0][0]), *standing(answer, exact, FURTHER))
                for answer, exact in pairs[1:]
            ]
            way = view.way(request) if pairs else None
            return rendered("plans.html", cards=cards, way=way)

    @routes.post("/desk/receipt")
    def receipt(request: ExplainRequest) -> dict[str, Any]:
        with dashboard.turn():
            return _answers(dashboard, request)[0][0].to_record()


def _answers(
    dashboard: Dashboard, request: ExplainRequest
) -> list[tuple[cp.Counterfactual, cp.Counterfactual]]:
    """Return the answers that the page shows, in few digits, and each in all its digits."""
    exact = dashboard.answers(request)[0]
    return [*zip(exact.rounded(DIGITS), exact, strict=True)]


def _renderer(dashboard: Dashboard) -> Any:
    """Return a function that renders a template with values."""
    folder = Path(__file__).with_name("templates")
    templates = Environment(
        loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= {
        "few": few,
        "least": least,
        "listing": listing,
        "percent": percent,
        "plain": plain,
        "readable": readable,
    }

    def rendered(name: str, **values: Any) -> HTMLResponse:
        return HTMLResponse(templates.get_template(name).render(dashboard=dashboard, **values))

    return rendered


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
        self.is_folded = len(self.movable) > FOLDED
        self.limits = {f.name: SliderLimits.of(f, policy) for f in self.movable}
        self.aim = self.label(target)  # of the policy
        self.is_plain = isinstance(target, cp.Label) and not target.margin
        self.weights = weights_of(policy.cost, policy.features.names)
        self.cost = cost_in_words(policy.cost, self.weights, self.movable)
        self.kind = "manhattan" if isinstance(policy.cost, cp.Manhattan) else "squared_euclidean"
        self.probable = bool(dashboard.labels) and self._is_probable()
        self.interval = _interval(target)  # of the policy, for a regressor
        self.first = dashboard.people.first(self._is_open)

    def _is_open(self, prediction: Any) -> bool:
        """Return whether the policy's target asks somebody of this prediction for a change."""
        target = self.dashboard.problem.target
        if isinstance(target, cp.Interval):
            return not target.low <= prediction <= target.high
        return self.aim is None or bool(prediction != self.aim)

    def _is_probable(self) -> bool:
        """Return whether the model takes a `Probability`, tried on one person."""
        target = cp.Probability(self.dashboard.labels[0], 0.5)
        first = self.dashboard.people.frame[self.dashboard.names].head(1)
        try:
            self.dashboard.policy.explain(first, target, time_limit=1.0)
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

    def rules(self) -> list[str]:
        """Return what the policy says of several features at once, or of how many change."""
        alone = cp.Immutable | cp.Bounds | cp.Monotone | cp.WithinObserved
        policy = self.dashboard.policy
        return [rule_in_words(rule) for rule in policy.constraints if not isinstance(rule, alone)]

    def refusals(self, request: ExplainRequest) -> dict[str, str]:
        """Name → why the bounds that a person sets contradict the policy, where they do."""
        row, refusals = request.rows[0], dict[str, str]()
        for rule in request.constraints:
            if not isinstance(rule, dict) or rule.get("kind") != "bounds":
                continue
            name, low, high = rule.get("feature"), rule.get("low"), rule.get("high")
            low, high = -math.inf if low is None else low, math.inf if high is None else high
            value = row.get(str(name))
            if name not in self.limits or not all(isinstance(v, int | float) for v in (low, high)):
                continue
            sentence = None
            if low > high:
                ends = f"at least {plain(float(low))} and at most {plain(float(high))}"
                sentence = f"{name} cannot be {ends}."
            elif isinstance(value, int | float):
                sentence = self.limits[name].refusal(float(low), float(high), float(value))
            refusals |= {str(name): sentence} if sentence else {}
        return refusals

    def reasons(self, request: ExplainRequest, conflict: cp.Conflict) -> list[tuple[str, str]]:
        """Return the constraints of a conflict in words, and whose they are."""
        stated = cp.Problem.from_dict({"constraints": request.constraints}).constraints
        fixed = {n for rule in stated if isinstance(rule, cp.Immutable) for n in rule.features}
        reasons = []
        for rule in conflict.constraints:
            if isinstance(rule, cp.Immutable):  # one for the features of all of them
                names = {
                    "yours": [name for name in rule.features if name in fixed],
                    "the policy": [name for name in rule.features if name not in fixed],
                }
                reasons += [(str(cp.Immutable(*n)), whose) for whose, n in names.items() if n]
            else:
                reasons.append((rule_in_words(rule), "yours" if rule in stated else "the policy"))
        return reasons

    def decisions(
        self, rows: Sequence[Mapping[Any, Any]], label: Any
    ) -> list[tuple[str, float | None]]:
        """Return the model's decision for each row, and its probability of a label."""
        at = self.dashboard.labels.index(label) if self.probable and label is not None else None
        return [(plain(s), None if at is None else p[at]) for s, p in self.dashboard.says(rows)]

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


def _interval(target: cp.Target | None) -> tuple[str, str]:
    """Return the ends of a target for numbers in words; "any" where there is none."""
    ends = (target.low, target.high) if isinstance(target, cp.Interval) else (-math.inf, math.inf)
    low, high = (plain(float(end)) if math.isfinite(end) else "any" for end in ends)
    return low, high
