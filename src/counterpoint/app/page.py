"""Serve the page on which one person tries what-ifs; the browser keeps its state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
from fastapi import APIRouter
from jinja2 import Environment, FileSystemLoader
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse

import counterpoint as cp
from counterpoint.app.dashboard import Dashboard, ExplainRequest
from counterpoint.app.limits import SliderLimits, cost_in_words, rule_in_words, weights_of
from counterpoint.app.words import few, least, number, percent, plain, readable
from counterpoint.cli.answers import DIGITS
from counterpoint.errors import is_number
from counterpoint.problem.constraints import named


@final
class Search(BaseModel):
    """A search for people by words, sent in the body: addresses are logged where bodies are not."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(default="", max_length=200)


def page(dashboard: Dashboard) -> APIRouter:
    """Return the routes of the page."""
    routes = APIRouter(include_in_schema=False)
    people, view = dashboard.people, View(dashboard)

    @routes.get("/")
    def home() -> HTMLResponse:
        return _rendered("page.html", {"dashboard": dashboard, "view": view, "inf": math.inf})

    @routes.get("/desk/rows/{i}")
    def row(i: int) -> dict[str, Any]:
        return {"cells": people.row(i), "title": people.title(i), "summary": people.summary(i)}

    @routes.post("/desk/people")
    def search(request: Search) -> dict[str, Any]:
        return people.matches(request.query)

    @routes.post("/desk/answer")
    def answer(request: ExplainRequest) -> HTMLResponse:
        return _rendered(*view.answer(request))

    @routes.post("/desk/why")
    def why(request: ExplainRequest) -> HTMLResponse:
        with dashboard.turn():
            return _rendered("why.html", view.why(request))

    @routes.post("/desk/plans")
    def plans(request: ExplainRequest) -> HTMLResponse:
        with dashboard.turn():
            return _rendered("plans.html", view.plans(request))

    @routes.post("/desk/receipt")
    def receipt(request: ExplainRequest) -> dict[str, Any]:
        with dashboard.turn():
            return view.answers(request)[0][0].to_record()

    return routes


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
FILTERS = (few, least, percent, plain, readable)
TEMPLATES.filters |= {words_of.__name__: words_of for words_of in FILTERS}


def _rendered(name: str, values: dict[str, Any]) -> HTMLResponse:
    return HTMLResponse(TEMPLATES.get_template(name).render(values))


def standing(
    answer: cp.Counterfactual, exact: cp.Counterfactual, best: str = "the cheapest possible change"
) -> tuple[str, str]:
    """Return how near an answer in few digits is to the ``best``: its claim, and a sentence.

    The claim of the ``exact`` answer, in all its digits, is one about the lower bound; so it holds
    of this answer, too, which costs a little more.
    """
    if answer.changes == exact.changes:
        return exact.certificate.claim, readable(exact.message)
    certificate, claim = answer.certificate, exact.certificate.claim
    was_optimal = exact.status is cp.Status.OPTIMAL and answer.status is cp.Status.SUBOPTIMAL
    if not was_optimal or certificate.bound <= 0.0:
        return certificate.claim, readable(answer.message)
    excess = math.ceil(1e3 * (certificate.objective / certificate.bound - 1.0)) / 10
    source = "proved" if claim is cp.Claim.PROVED else "as a solver reports"
    sentence = f"In few digits, at most {number(excess, 3)} % above {best} ({source})."
    return claim, sentence


def ranking(plan: cp.Counterfactual, cheapest: cp.Counterfactual) -> str:
    """Return how a plan ranks: what it costs beyond the cheapest, and which features it changes."""
    extra, names = plan.cost - cheapest.cost, list(plan.changes)
    is_more = extra > 0.0 and few(extra) != "0"  # few digits may cost the cheapest more
    cost = f"{few(extra)} more than the cheapest" if is_more else "as much as the cheapest"
    features = named(names) if len(names) <= 3 else f"{len(names)} features"
    return f"Costs {cost}, changes only {features}."


@final
class View:
    """Values of the policy and of its answers that the templates of the page show.

    ``limits`` are those of the ``movable`` features, by name; ``aim`` is the label that the
    policy's target is about, and ``probable`` whether probabilities of labels can be targets;
    ``first`` is the position of the person that the page opens with.
    """

    def __init__(self, dashboard: Dashboard) -> None:
        self.dashboard = dashboard
        policy, target = dashboard.policy, dashboard.problem.target
        rules = (*policy.constraints, *policy.implied)
        immutable = {n for rule in rules if isinstance(rule, cp.Immutable) for n in rule.features}
        self.movable = [f for f in policy.features if f.name not in immutable]
        self.immutable = [f for f in policy.features if f.name in immutable]
        # up to eight features are shown open; of more, one opens those that one looks for
        self.is_folded = len(self.movable) > 8
        self.limits = {f.name: SliderLimits.of(f, policy) for f in self.movable}
        self.aim = self.label(target)  # the policy's
        self.is_plain = isinstance(target, cp.Label) and not target.margin
        self.weights = weights_of(policy.cost, policy.features.names)
        self.cost = cost_in_words(policy.cost, self.weights, self.movable)
        self.kind = "manhattan" if isinstance(policy.cost, cp.Manhattan) else "squared_euclidean"
        self.probable = bool(dashboard.labels) and self._is_probable()
        # the policy's interval, for a regressor
        ends = (target.low, target.high) if isinstance(target, cp.Interval) else (-np.inf, np.inf)
        self.interval = [plain(float(e)) if math.isfinite(e) else "any" for e in ends]
        self.first = dashboard.people.first(self._is_open)
        # constraints on several features together, or on how many change
        alone = cp.Immutable | cp.Bounds | cp.Monotone | cp.WithinObserved
        together = [rule for rule in policy.constraints if not isinstance(rule, alone)]
        self.rules = [rule_in_words(rule) for rule in together]

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

    def answers(self, request: ExplainRequest) -> list[tuple[cp.Counterfactual, cp.Counterfactual]]:
        """Return the answers that the page shows, in few digits, and each in all its digits."""
        exact = self.dashboard.answers(request)[0]
        return [*zip(exact.rounded(DIGITS), exact, strict=True)]

    def answer(self, request: ExplainRequest) -> tuple[str, dict[str, Any]]:
        """Return a template and its values: the cheapest answer, with the model's decisions.

        The decisions are on the person's row and, if there is an answer, on the row of that answer;
        each has the probability of the target's label, or None if the target is not about one
        label, or the model has no probabilities that can be explained.
        """
        refusals = self.refusals(request)
        if refusals:
            return "refused.html", {"refusals": refusals}
        with self.dashboard.turn():
            answer, exact = self.answers(request)[0]  # in few digits, and in all its digits
            if answer.status is cp.Status.INVALID:
                return "answer.html", {"answer": answer}
            label = self.label(self.dashboard.target(request))
            rows: list[Mapping[Any, Any]] = [request.rows[0]]
            if answer.found:
                rows.append(answer.row)
            predictions = self.dashboard.predictions(rows)
            claim, sentence = standing(answer, exact)
        decisions: list[tuple[str, float | None]] = [(plain(d), None) for d, _ in predictions]
        if self.probable and label is not None:
            k = self.dashboard.labels.index(label)
            decisions = [(plain(d), p[k]) for d, p in predictions]
        values = {"answer": answer, "decisions": decisions, "label": label}
        return "answer.html", {**values, "claim": claim, "sentence": sentence}

    def plans(self, request: ExplainRequest) -> dict[str, Any]:
        """Return the plans beside the cheapest, and the path to higher probabilities."""
        # three plans stand side by side, the cheapest among them
        pairs = self.answers(request.model_copy(update={"n": 3}))
        pairs = [(answer, exact) for answer, exact in pairs if answer.found]
        best = "the cheapest change that differs enough from the plans before it"
        cards = [
            (answer, ranking(answer, pairs[0][0]), *standing(answer, exact, best))
            for answer, exact in pairs[1:]
        ]
        return {"cards": cards, "path": self._path(request) if pairs else None}

    def _path(self, request: ExplainRequest) -> dict[str, Any] | None:
        """Return the cheapest change to each of several probabilities, as points of a picture.

        Points are x, y, cost and probability. None if the target is about no probability, or fewer
        than two of them can be had.
        """
        label = self.label(self.dashboard.target(request))
        if not self.probable or label is None:
            return None
        levels = [cp.Probability(label, p) for p in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)]
        path = self.dashboard.trace(request, levels)
        answered = np.flatnonzero(path.found[0])
        if len(answered) < 2:
            return None
        cost, p = path.cost[0, answered], path.probability[0, answered]
        # in a picture of 300 by 130 units, whose lower left corner is at (40, 150)
        x, y = 40 + 300 * cost / max(float(cost.max()), 1e-12), 150 - 130 * p
        points = np.column_stack([x.round(1), y.round(1), cost, p]).tolist()
        is_limited = cp.Status.INFEASIBLE in path.status[0]  # higher ones have no answer
        return {"points": points, "is_limited": is_limited, "label": label}

    def refusals(self, request: ExplainRequest) -> dict[str, str]:
        """Return why bounds that a person sets contradict the policy, by feature, where they do."""
        row, refusals = request.rows[0], dict[str, str]()
        for rule in request.constraints:
            if not isinstance(rule, dict) or rule.get("kind") != "bounds":
                continue
            name, ends = rule.get("feature"), [rule.get("low"), rule.get("high")]
            are_numbers = all(end is None or is_number(end) for end in ends)
            if not isinstance(name, str) or name not in self.limits or not are_numbers:
                continue  # the policy's limits are of numbers that may move
            low = -math.inf if ends[0] is None else float(ends[0])
            high = math.inf if ends[1] is None else float(ends[1])
            value, sentence = row.get(name), None
            if low > high:
                demand = f"at least {plain(low)} and at most {plain(high)}"
                sentence = f"{name} cannot be {demand}."
            elif value is not None and is_number(value):
                sentence = self.limits[name].refusal(low, high, float(value))
            if sentence:
                refusals[name] = sentence
        return refusals

    def why(self, request: ExplainRequest) -> dict[str, Any]:
        """Return why there is no answer: constraints in words, and whose they are."""
        conflict = self.dashboard.answers(request)[0][0].conflict
        stated = cp.Problem.from_dict({"constraints": request.constraints}).constraints
        fixed = {n for rule in stated if isinstance(rule, cp.Immutable) for n in rule.features}
        reasons = []
        for rule in () if conflict is None else conflict.constraints:
            # a conflict holds one Immutable, for the features of the person's and of the policy's
            if isinstance(rule, cp.Immutable):
                yours = [name for name in rule.features if name in fixed]
                policy = [name for name in rule.features if name not in fixed]
                sides = (("yours", yours), ("the policy", policy))
                reasons += [(str(cp.Immutable(*names)), whose) for whose, names in sides if names]
            else:
                whose = "yours" if rule in stated else "the policy"
                reasons.append((rule_in_words(rule), whose))
        return {"conflict": conflict, "reasons": reasons}
