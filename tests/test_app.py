"""The service: what it answers, what it refuses, and in which words."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from decimal import Decimal
from pathlib import Path
from threading import Thread
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from fastapi.testclient import TestClient
from hypothesis import given, settings
from loans import loan_model, loans
from sklearn.linear_model import LinearRegression
from typer.testing import CliRunner

import counterpoint as cp
from counterpoint.app import make_app
from counterpoint.app.guard import Guard
from counterpoint.app.limits import SliderLimits
from counterpoint.app.people import People
from counterpoint.app.pyfunc import _load_pyfunc
from counterpoint.app.words import few, least, number, percent, plain, readable
from counterpoint.cli import app as commands
from counterpoint.records.record import canonical, digest

POLICY = """\
target = "granted"
constraints = [
    { kind = "immutable", features = ["age"] },
    { kind = "bounds", feature = "income", rise = 30000 },
]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, the rows it was fitted on, and a policy; no test changes what is in it."""
    at = tmp_path_factory.mktemp("loans")
    skops.io.dump(loan_model(), at / "model.skops")
    loans()[0].to_csv(at / "train.csv", index=False)
    (at / "policy.toml").write_text(POLICY)
    return at


@pytest.fixture(scope="module")
def made(folder: Path) -> tuple[Any, pd.DataFrame, cp.Problem]:
    model = skops.io.load(folder / "model.skops")
    return model, pd.read_csv(folder / "train.csv"), cp.Problem.load(folder / "policy.toml")


@pytest.fixture(scope="module")
def client(made: tuple[Any, pd.DataFrame, cp.Problem]) -> Iterator[TestClient]:
    with TestClient(make_app(*made), "http://localhost", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def refused(made: tuple[Any, pd.DataFrame, cp.Problem]) -> list[dict[str, Any]]:
    model, X, _ = made
    return X[model.predict(X) == "refused"].head(6).to_dict("records")


# What it answers


def test_answers_are_those_of_the_library(client, made, refused):
    model, X, problem = made
    told = client.post("/explain", json={"rows": refused}).json()["answers"]
    want = problem.explainer(model, data=X).explain(pd.DataFrame(refused), problem.target)
    assert [one["status"] for one in told] == list(want.status)
    for one, answer in zip(told, want, strict=True):
        assert one["message"] == answer.message
        pairs = {name: {"from": a, "to": b} for name, (a, b) in answer.changes.items()}
        assert one["changes"] == pairs
        assert one["certificate"]["claim"] == answer.certificate.claim
        if answer.found:
            assert one["certificate"]["cost"] == answer.cost


def test_what_is_asked_is_added_to_the_policy(client, made, refused):
    model, X, problem = made
    more = {"kind": "bounds", "feature": "income", "rise": 3000}
    asked = {"rows": refused, "constraints": [more, "income <= 60000"]}
    told = client.post("/explain", json=asked).json()["answers"]
    rules = (
        *problem.constraints,
        cp.Bounds("income", rise=3000),
        cp.Linear.parse("income <= 60000"),
    )
    explainer = cp.Explainer(model, data=X, constraints=rules)
    want = explainer.explain(pd.DataFrame(refused), "granted")
    assert [one["status"] for one in told] == list(want.status)
    assert {"infeasible", "optimal"} <= {*want.status}
    cost = {"kind": "manhattan", "weights": {"income": 5.0}}
    told = client.post("/explain", json={"rows": refused[:1], "cost": cost}).json()["answers"][0]
    old, new = told["changes"]["income"].values() if "income" in told["changes"] else (0.0, 0.0)
    home = 1.0 if "home" in told["changes"] else 0.0
    assert told["certificate"]["cost"] == pytest.approx(5.0 * abs(new - old) + home)


def test_several_answers_and_reasons(client, refused):
    told = client.post("/explain", json={"rows": refused[:2], "n": 2}).json()["answers"]
    assert [one["row"] for one in told] == sorted(one["row"] for one in told)
    assert len(told) >= 2
    assert {one["row"] for one in told} == {0, 1}
    stuck = {
        "rows": refused[:1],
        "constraints": [{"kind": "max_changes", "count": 1}, "income <= 0"],
    }
    (told,) = client.post("/explain", json=stuck).json()["answers"]
    assert told["status"] == "infeasible"
    assert "income" in told["conflict"]
    assert told["certificate"]["cost"] is None


def test_records_are_rechecked(client, made, refused):
    told = client.post("/explain", json={"rows": refused, "records": True}).json()["answers"]
    records = [one["record"] for one in told]
    assert cp.recheck(records, made[0]).ok
    said = client.post("/recheck", json={"records": records}).json()
    assert said["ok"]
    assert all(said["proved"])
    assert not said["problems"]
    forged = json.dumps(records[0] | {"cost": 0.0})
    said = client.post("/recheck", json={"records": [records[1], forged, "{"]}).json()
    assert not said["ok"]
    assert "Record 1: It was changed after it was written" in said["problems"][0]
    assert said["proved"] == [True, False, False]


def test_records_that_are_no_text_are_refused(client, refused):
    told = client.post("/explain", json={"rows": refused[:1], "records": True}).json()["answers"]
    record = told[0]["record"]
    deep = "[" * 5000 + "]" * 5000
    for value, text in (("\ud800", '"\\ud800"'), (None, deep)):
        broken = json.dumps(record | {"message": "HERE"}).replace('"HERE"', text)
        for body in (f'{{"records":[{broken}]}}', json.dumps({"records": [broken]})):
            said = client.post("/recheck", content=body, headers=JSON)
            assert 400 <= said.status_code < 500, value
            assert said.json()["detail"].endswith(".")


def test_the_word_of_a_solver_is_accepted_on_demand(client, refused):
    told = client.post("/explain", json={"rows": refused[:1], "records": True}).json()["answers"]
    record = {key: value for key, value in told[0]["record"].items() if key != "digest"}
    record |= {"claim": "reported", "proof": None, "proved_bound": 0.0}
    record["message"] = record["message"].replace("proved", "as a solver reports")
    record["digest"] = digest(canonical(record))
    said = client.post("/recheck", json={"records": [record]}).json()
    assert not said["ok"]
    assert said["reported"] == [True]
    assert "rests on the word of a solver" in said["problems"][0]
    said = client.post("/recheck", json={"records": [record], "accept_reported": True}).json()
    assert said["ok"]


def test_the_model_and_health(client):
    card = client.get("/model").json()
    assert card["decides"] == ["granted", "refused"]
    assert list(card["features"]) == ["age", "income", "home"]
    assert cp.Problem.from_dict(card["policy"]).target == cp.Label("granted")
    assert client.get("/health").json() == {"status": "ok"}


def test_regressors_answer_to_ranges(refused):
    X, _ = loans()
    model = LinearRegression().fit(X[["age"]], X["income"])
    client = TestClient(make_app(model, X), "http://localhost")
    low = float(model.predict(X[["age"]]).mean())
    asked = {"rows": [{"age": 20}], "target": {"kind": "interval", "low": low}}
    (told,) = client.post("/explain", json=asked).json()["answers"]
    assert told["status"] in {"optimal", "already"}
    said = client.post("/explain", json={"rows": [{"age": 20}]})
    assert said.status_code == 422
    assert said.json()["detail"] == "Expected a target: the policy has none. Send one."
    assert client.post("/desk/answer", json=asked).status_code == 200


# What it refuses


def sent(client: TestClient, body: Any, status: int = 422) -> str:
    said = client.post("/explain", content=json.dumps(body), headers=JSON)
    assert said.status_code == status, said.text
    return said.json()["detail"]


JSON = {"Content-Type": "application/json"}
ROW = {"age": 30, "income": 4e4, "home": "rent"}


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({**ROW, "income": float("nan")}, "rows, 0, income: expected a finite number; send null"),
        ({**ROW, "income": float("inf")}, "rows, 0, income: expected a finite number; send null"),
        ({**ROW, "income": None}, "Row 0: "),
        ({**ROW, "income": 10**400}, "Row 0: "),
        ({**ROW, "income": "much"}, "Row 0: "),
        ({**ROW, "income": [1]}, "rows, 0, income: expected a number, text, true, false or null."),
        ({**ROW, "home": "castle"}, "Row 0: column 'home' holds the unknown category 'castle'"),
        ({**ROW, "home": "\ud800"}, "rows, 0, home: 'utf-8' codec can't encode"),
        ({"age": 30}, "Row 0 has no 'income'; send every column of the model"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_in_a_sentence(client, row, sentence):
    assert sent(client, {"rows": [row]}).startswith(sentence)


def test_among_others_it_carries_its_own_sentence(client):
    rows = [ROW, {**ROW, "home": "castle"}]
    told = client.post("/explain", json={"rows": rows}).json()["answers"]
    assert told[0]["status"] != "invalid"
    assert told[1]["status"] == "invalid"
    assert "'castle'" in told[1]["message"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ([], "The body: "),
        ({}, "rows: field required."),
        ({"rows": []}, "rows: list should have at least 1 item"),
        ({"rows": [ROW] * 257}, "Expected 1 to 256 rows; got 257."),
        ({"rows": [ROW], "seconds": 1}, "seconds: extra inputs are not permitted."),
        ({"rows": [ROW], "n": 0}, "n: input should be greater than or equal to 1."),
        ({"rows": [ROW], "target": "maybe"}, "Expected a target among the classes"),
        ({"rows": [ROW], "target": {"kind": "x"}}, "problem, target: expected a kind"),
        ({"rows": [ROW], "constraints": ["incom <= 3"]}, "There is no feature 'incom'"),
        (
            {
                "rows": [ROW],
                "constraints": [{"kind": "bounds", "feature": "age", "low": float("nan")}],
            },
            "",
        ),
        ({"rows": [ROW], "cost": {"kind": "manhattan", "weights": {"age": -1}}}, ""),
        ({"rows": [ROW], "n": 2, "records": True}, ""),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(client, body, sentence):
    said = sent(client, body)
    assert said.startswith(sentence)
    assert said[-1] in ".?"


@pytest.mark.parametrize(
    "changes",
    [
        *({"feature": wrong} for wrong in (["income"], {"income": 1}, [], {}, 5, True)),
        *({end: wrong} for end in ("low", "high") for wrong in (10**400, True, [1], "1")),
    ],
)
def test_bounds_of_wrong_types_are_refused_on_the_page_too(client, changes):
    rule = {"kind": "bounds", "feature": "income", "low": 1, **changes}
    body = {"rows": [ROW], "constraints": [rule]}
    said = client.post("/desk/answer", json=body)
    assert (said.status_code, said.json()["detail"]) == (422, readable(sent(client, body)))


def test_values_that_no_column_holds_are_told_on_the_page_too(client):
    rule = {"kind": "bounds", "feature": "income", "low": 1}
    body = {"rows": [{**ROW, "income": 10**400}], "constraints": [rule]}
    said = client.post("/desk/answer", json=body)
    assert said.status_code == 200
    assert "column “income” holds 10" in said.text


def test_bodies_that_are_no_json_or_too_large(client):
    said = client.post("/explain", content=b'{"rows": ', headers=JSON)
    assert (said.status_code, said.json()["detail"]) == (400, "The body is no JSON.")
    said = client.post("/explain", content=b"[" * 100_000, headers=JSON)
    assert said.status_code in {400, 422}
    for content in (b"x" * (2**20 + 1), iter([b"x" * 2**19] * 3)):  # with its length, and without
        said = client.post("/explain", content=content, headers=JSON)
        assert said.status_code == 413
        assert said.json()["detail"].startswith("The request is larger than 1048576 bytes")
    said = client.post("/explain", content=b"{}", headers={"Content-Length": "many"})
    assert said.status_code == 400
    assert client.get("/nothing").json() == {"detail": "Not Found."}


def test_what_fails_here_is_told_without_its_trace(made, refused, monkeypatch, caplog):
    client = TestClient(make_app(*made), "http://localhost", raise_server_exceptions=False)
    monkeypatch.setattr(cp.Explainer, "explain", lambda *_, **__: 1 / 0)
    said = client.post("/explain", json={"rows": refused})
    assert said.status_code == 500
    assert said.json()["detail"].startswith("Something is broken here")
    assert "ZeroDivision" not in said.text


def test_logs_hold_no_data(client, caplog):
    caplog.set_level(logging.INFO, "counterpoint.app")
    client.post("/explain?home=castle", json={"rows": [{**ROW, "home": "castle"}]})
    client.get("/castle")
    told = [record.request for record in caplog.records if hasattr(record, "request")]
    assert [(one["route"], one["status"]) for one in told] == [("/explain", 422), (None, 404)]
    assert "castle" not in str(told)


def test_who_waits_too_long_is_told_so(made, refused):
    app = make_app(*made, seconds=0.1)
    from counterpoint.app import dashboard

    client = TestClient(app, "http://localhost")
    full = type("Full", (), {"acquire": lambda self, timeout: False})()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dashboard, "BoundedSemaphore", lambda _: full)
        busy = TestClient(make_app(*made, seconds=0.1), "http://localhost")
    said = busy.post("/explain", json={"rows": refused})
    assert (said.status_code, said.headers["Retry-After"]) == (503, "5")
    assert client.get("/health").status_code == 200


# What is sent back is short


def test_what_is_sent_back_is_short_whatever_came(client):
    long = "x" * 100_000
    bodies = [
        {"rows": [{**ROW, "home": long}]},
        {"rows": [{long: 1}]},
        {"rows": [ROW], "target": long},
        {"rows": [ROW], "target": {"kind": long}},
        {"rows": [ROW], "constraints": [long]},
        {"rows": [ROW], "constraints": [{"kind": "immutable", "features": [long]}]},
        {"rows": [ROW], "cost": {"kind": "manhattan", "weights": {long: 1}}},
        {"rows": [ROW], long: 1},
    ]
    for body in bodies:
        for path in ("/explain", "/desk/answer"):
            said = client.post(path, json=body)
            assert len(said.text) < 1000, body
    for text in (loans()[0].to_csv(), long, "[" * 5000):
        for path in ("/recheck", "/v2/models/counterpoint/infer"):
            said = client.post(path, json={"records": text.splitlines()})
            assert len(said.json().get("problems", [])) <= 11
            assert len(" ".join(said.json().get("problems", []))) < 6000
    said = client.post("/recheck", json={"records": ["{"] * 500}).json()
    assert said["problems"][10] == "There are 490 more problems."
    assert len(said["proved"]) == 500


# Limits, values and people, in words


BOUNDS = [
    ([cp.Bounds("income", low=100, high=900)], "may be 100 to 900"),
    ([cp.Bounds("income", low=100)], "may be 100 to {high}"),
    ([cp.Bounds("income", rise=5)], "may be {low} to {high}, may rise by at most 5"),
    (
        [cp.Bounds("income", fall=5, rise=5)],
        "may be {low} to {high}, may rise or fall by at most 5",
    ),
    (
        [cp.Bounds("income", fall=7, rise=5)],
        "may be {low} to {high}, may rise by at most 5 and fall by at most 7",
    ),
    ([cp.Monotone("income", "increasing")], "may be {low} to {high}, may only rise"),
    (
        [cp.Monotone("income", "decreasing"), cp.Bounds("income", fall=1.5)],
        "may be {low} to {high}, may only fall, by at most 1.5",
    ),
    (
        [cp.Bounds("income", fall=3, rise=0), cp.Bounds("income", fall=2, low=100)],
        "may be 100 to {high}, may only fall, by at most 2",
    ),
]


@pytest.mark.parametrize(("rules", "sentence"), BOUNDS)
def test_limits_in_words_are_those_of_the_policy(made, rules, sentence):
    model, X, _ = made
    policy = cp.Explainer(model, data=X, constraints=rules)
    limits = SliderLimits.of(policy.features["income"], policy)
    ends = {"low": plain(float(X["income"].min())), "high": plain(float(X["income"].max()))}
    assert str(limits) == sentence.format(**ends)
    low, _ = limits.ends
    for value in X["income"].head(20).astype(float):
        # what the constraints themselves say, tried on a lattice around the ends
        least, most = limits.reach(value)
        for end, outside in ((least, least - 0.5), (most, most + 0.5)):
            if least <= most:
                assert allowed(policy, value, end)
                assert not allowed(policy, value, outside)
                assert limits.refusal(end, end, value) is None
        assert limits.refusal(most + 0.5, np.inf, value)
        assert limits.refusal(-np.inf, least - 0.5, value)
        assert limits.refusal(low - 1, np.inf, max(value, low)).endswith("is beyond that.")
        assert limits.refusal(-np.inf, np.inf, value) is None or least > most


def allowed(policy: cp.Explainer, value: float, new: float) -> bool:
    """Whether constraints let an income become another, one by one, as they are defined."""
    for rule in (*policy.constraints, *policy.implied):
        if isinstance(rule, cp.Bounds):
            inside = rule.low <= new <= rule.high and -rule.fall <= new - value <= rule.rise
        elif isinstance(rule, cp.Monotone):
            inside = new >= value if rule.direction == "increasing" else new <= value
        else:
            low, high = policy.features["income"].observed
            inside = True
            for bounds in rule.stated:
                low = -np.inf if np.isfinite(bounds.low) else low
                high = np.inf if np.isfinite(bounds.high) else high
            inside = min(low, value) <= new <= max(high, value)
        if not inside:
            return False
    return True


def test_values_are_written_as_people_write_them():
    assert [plain(v) for v in (None, float("nan"), True, False, 3, "a", 2.0, 1234567.0)] == [
        *("missing", "missing", "yes", "no", "3", "a", "2", "1234567")
    ]
    assert plain(pd.NA) == plain(pd.NaT) == plain(Decimal("NaN")) == "missing"
    assert number(4849.999755859374) == "4850"
    assert number(0.31025724134350263) == "0.310257"
    assert number(1.5e-13) == "1.5 × 10⁻¹³"
    assert number(-2.5e20) == "-2.5 × 10²⁰"
    assert [few(v) for v in (0.0, 1e-13, -1e-13, 0.7549, 12345.6)] == [
        "0",
        "0",
        "0",
        "0.755",
        "12300",
    ]
    assert [least(v) for v in (2.999999, 0.0, 1999.9, 1e-13)] == ["2.99", "0", "1990", "0"]
    assert [percent(v) for v in (0.4999999, 0.5, 1.0, 0.0004)] == ["49.9 %", "50 %", "100 %", "0 %"]


def test_people_are_found_and_told(made):
    model, X, _ = made
    named = X.assign(customer=[f"Ada {i}" for i in range(len(X))])
    named.index = pd.Index([f"C-{i}" for i in range(len(X))], name="Customer")
    people = People(named, list(X.columns), model)
    rents = np.flatnonzero(X["home"] == "rent").tolist()
    assert people.search("RENT") == (rents[:8], len(rents))
    assert people.search("rent home=own") == ([], 0)
    assert people.search("home=ren") == ([], 0)
    assert people.search("c-12")[0][0] == 12
    assert people.search("customer c-3")[0][0] == 3
    assert people.title(12) == "Customer C-12"
    assert people.summary(12).startswith("customer Ada 12, age ")
    assert people.summary(12, "rent own").split(", ")[0] == f"home {X['home'][12]}"
    assert {*people.row(12)} == {*X.columns}
    assert people.version == People(X, list(X.columns), model).version
    assert people.version != People(X.iloc[::-1], list(X.columns), model).version
    numbered = People(X, list(X.columns), model)
    assert numbered.search("7")[0][0] == numbered.search("Row 7")[0][0] == 7
    assert numbered.search("row 100000000000000000")[1] == 0
    with pytest.raises(cp.InvalidInput, match="a row from 0 to"):
        numbered.row(-1)


def test_people_whom_the_model_cannot_read_are_refused(made):
    model, X, problem = made
    with pytest.raises(cp.InvalidInput, match="have no column 'home'; the model needs it"):
        make_app(model, X, problem, people=X.drop(columns="home"))
    with pytest.raises(cp.InvalidInput, match="at least one row of people"):
        make_app(model, X, problem, people=X.head(0))


def test_messages_on_the_page_are_without_python():
    said = (
        "column 'home' holds the unknown category 'x'; known: 'own'. Describe it with Categorical."
    )
    assert readable(said) == "column “home” holds the unknown category “x”; known: “own”."
    assert readable("No range (pass extrapolate=True to lift it).") == "No range."
    assert readable("The model's row is the person's.") == "The model's row is the person's."
    assert readable("It is 3. Take 4.") == "It is 3. Take 4."
    assert len(readable("x" * 10_000)) == 500


def test_a_search_is_not_in_the_address(client, made):
    said = client.post("/desk/people", json={"query": "rent"}).json()
    assert said["count"] == (made[1]["home"] == "rent").sum()
    assert client.get("/desk/people").status_code == 405
    assert client.post("/desk/people", json={"query": "x" * 201}).status_code == 422
    half = client.post("/desk/people", content='{"query": "\\ud800"}', headers=JSON)
    assert half.status_code < 500


# The door

TOKEN = "open"  # noqa: S105


def test_without_a_token_it_answers_to_its_own_names_alone(made):
    app = make_app(*made)
    for host in ("localhost", "localhost:8765", "127.0.0.1:1", "[::1]:8765"):
        assert TestClient(app, f"http://{host}").get("/health").status_code == 200
    said = TestClient(app, "http://elsewhere.example").get("/health")  # a page that calls itself so
    assert said.status_code == 421


def test_with_a_token_nothing_is_answered_without_it(made):
    client = TestClient(make_app(*made, token=TOKEN), "http://example.org", follow_redirects=False)
    paths = ["/", "/nothing", "/openapi.json", *client.app.app.openapi()["paths"]]
    assert {"/explain", "/health", "/v2/models/counterpoint/infer"} <= {*paths}
    paths.remove("/health")
    for path in [
        *paths,
        "/desk/rows/0",
        "/static/desk.js",
        "/?token=other",
        "/explain?token=open",
        "/health/",
        "//health",
        "/health/../model",
    ]:
        for headers in ({}, {"Authorization": "Bearer other"}, {"Cookie": "counterpoint_token=x"}):
            for ask in (client.get, client.post):
                said = ask(path, headers=headers)
                assert said.status_code == 401, path
                assert "token" in said.json()["detail"]
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/model", headers=bearer).status_code == 200


def test_whether_it_runs_is_told_without_a_token_and_nothing_else(made):
    client = TestClient(make_app(*made, token=TOKEN), "http://10.0.0.7")
    told = client.request("GET", "/health", content=b"x" * 2**25)  # which nobody reads
    assert (told.status_code, told.json()) == (200, {"status": "ok"})
    assert client.get("/health?token=other").json() == {"status": "ok"}
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert client.request(method, "/health").status_code == 401


@pytest.mark.parametrize("token", ["", " ", "öpen", "a\nb"])
def test_a_token_that_no_header_can_carry_is_refused(made, token):
    with pytest.raises(cp.InvalidInput, match="a token of letters and digits"):
        make_app(*made, token=token)


def test_a_link_with_the_token_leaves_a_cookie(made):
    client = TestClient(make_app(*made, token=TOKEN), "http://example.org")
    page = client.get("/?token=open")
    assert str(page.url) == "http://example.org/"
    assert page.history[0].headers["set-cookie"].endswith("HttpOnly; Path=/; SameSite=strict")
    assert client.get("/health").status_code == 200


def test_a_body_that_does_not_arrive_is_not_waited_for():
    async def run() -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            told.append(message)

        door = Guard(None, None, ["localhost"], size=10, seconds=0.01)
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b""}
        scope |= {"headers": [(b"host", b"localhost"), (b"content-length", b"3")]}
        await door(scope, asyncio.Event().wait, send)
        return told

    start, body = asyncio.run(run())
    assert start["status"] == 408
    assert b"did not arrive within 0.01 seconds" in body["body"]


# Other software


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("count", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_no_request_that_the_schema_allows_or_forbids_breaks_it(made, count):
    import schemathesis  # here: it takes seconds, and all workers collect this file
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    app = make_app(*made, hosts=["testserver"])
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 5
    for operation in operations:

        @given(operation.as_strategy())
        @settings(max_examples=count, deadline=None, derandomize=True, database=None)
        def ask(case: schemathesis.Case) -> None:
            rows = case.body.get("rows") if isinstance(case.body, dict) else None
            if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
                case.body["rows"] = [{**ROW, **row} for row in rows]  # which columns, it cannot say
            response = case.call()
            assert response.status_code < 500, response.text
            assert response.status_code < 400 or response.json()["detail"]
            case.validate_response(response, excluded_checks=[positive_data_acceptance])

        ask()


def test_tensors_of_the_open_inference_protocol(client, refused):
    X = pd.DataFrame(refused)
    kinds = {"age": "INT64", "income": "FP64", "home": "BYTES"}
    inputs = [
        {"name": name, "shape": [len(X)], "datatype": kind, "data": X[name].tolist()}
        for name, kind in kinds.items()
    ]
    told = client.post("/v2/models/counterpoint/infer", json={"id": "7", "inputs": inputs}).json()
    want = client.post("/explain", json={"rows": refused}).json()["answers"]
    status, answer = (tensor["data"] for tensor in told["outputs"])
    assert told["id"] == "7"
    assert status == [one["status"] for one in want]
    assert [json.loads(text)["changes"] for text in answer] == [one["changes"] for one in want]
    inputs[0]["shape"] = [2]
    said = client.post("/v2/models/counterpoint/infer", json={"inputs": inputs})
    assert said.status_code == 422
    assert "'age' has shape [2] and 6 values" in said.json()["detail"]
    assert client.get("/v2/health/ready").json() == {"live": True, "ready": True}
    metadata = client.get("/v2/models/counterpoint").json()
    assert [one["name"] for one in metadata["inputs"]] == list(kinds)


def test_the_open_inference_protocol_to_the_letter(client, refused):
    assert client.get("/v2/health/live").json() == {"live": True}
    for path in ("/v2", "/v2/"):
        server = {"name": "counterpoint", "version": cp.__version__, "extensions": []}
        assert client.get(path).json() == server
    model, other = "/v2/models/counterpoint", "/v2/models/counterpoint/versions/1"
    assert client.get(f"{model}/ready").json() == {"name": "counterpoint", "ready": True}
    for path in ("", "/ready"):
        assert client.get(other + path).json() == client.get(model + path).json()
        for strange in ("/v2/models/iris", f"{model}/versions/2"):
            said = client.get(strange + path)
            assert said.status_code == 404
            assert said.json()["error"] == "Not Found."
    n, X = len(refused), pd.DataFrame(refused)
    inputs = [
        {"name": "age", "shape": [n, 1], "datatype": "UINT8", "data": X[["age"]].values.tolist()},
        {"name": "income", "shape": [n, 1], "datatype": "FP32", "data": X["income"].tolist()},
        {"name": "home", "shape": [n], "datatype": "BYTES", "data": X["home"].tolist()},
    ]
    whole = client.post(f"{model}/infer", json={"inputs": inputs}).json()
    assert whole["model_version"] == "1"
    assert "id" not in whole
    only = {"inputs": inputs, "outputs": [{"name": "answer", "parameters": {}}]}
    assert client.post(f"{other}/infer", json=only).json()["outputs"] == whole["outputs"][1:]
    assert json.loads(whole["outputs"][1]["data"][0])["status"] == whole["outputs"][0]["data"][0]

    def refusal(**changes: Any) -> str:
        sent = {"inputs": [{**inputs[0], **changes}, *inputs[1:]]}
        said = client.post(f"{model}/infer", json=sent)
        assert said.status_code == 422
        return said.json()["error"]

    assert "has the datatype INT8" in refusal(datatype="INT8", data=[200] * n, shape=[n])
    assert "has the datatype INT64" in refusal(datatype="INT64", data=[1.5] * n, shape=[n])
    assert "has the datatype FP64" in refusal(datatype="FP64", data=["1"] * n, shape=[n])
    assert "has the datatype BYTES" in refusal(datatype="BYTES")
    assert "has the datatype BOOL" in refusal(datatype="BOOL")
    assert "datatype" in refusal(datatype="float")
    assert "'age' has shape" in refusal(shape=[n])
    assert "'age' has shape" in refusal(data=[[1, 2]] * n)
    ragged = [[1, 2], [], *[[1]] * (n - 2)]
    assert "'age' has 2 in one and none in another" in refusal(data=ragged)
    assert "a name of its own" in refusal(name="home")
    assert "of one length" in refusal(data=[[1]], shape=[1, 1])
    empty = {"inputs": [{**tensor, "data": [], "shape": [0]} for tensor in inputs]}
    said = client.post(f"{model}/infer", json=empty)
    assert said.status_code == 422
    assert said.json()["error"].startswith("inputs, 0, data: list should have at least 1 item")
    strange = {"inputs": inputs, "outputs": [{"name": "reason"}]}
    said = client.post(f"{model}/infer", json=strange).json()
    assert said["error"].startswith("There is no output 'reason'")
    assert client.post(f"{model}/infer", content=b"{", headers=JSON).json()["error"]


def test_a_question_that_is_nested_deeply_is_refused(client):
    for depth in (300, 700, 900, 960):
        nested = "[" * depth + "]" * depth
        for body in (
            f'"target": {nested}',
            f'"constraints": [{{"kind": "immutable", "features": {nested}}}]',
            f'"cost": {{"kind": "manhattan", "weights": {nested}}}',
        ):
            text = f'{{"rows": [{json.dumps(ROW)}], {body}}}'
            said = client.post("/explain", content=text, headers=JSON)
            assert said.status_code in {400, 422}
            assert said.json()["detail"].endswith(".")


def test_a_model_as_mlflow_loads_it(folder, made, refused):
    found = _load_pyfunc(str(folder)).predict(pd.DataFrame(refused), {"time_limit": 5.0})
    want = made[2].explainer(made[0], data=made[1]).explain(pd.DataFrame(refused), "granted")
    assert list(found["cf_status"]) == list(want.status)
    assert found["income"].equals(want.to_frame()["income"])


# The command


def test_the_command_serves_behind_a_token_beyond_this_machine(folder, monkeypatch):
    import uvicorn

    started: list[tuple[Any, dict[str, Any]]] = []
    monkeypatch.setattr(uvicorn, "run", lambda app, **how: started.append((app, how)))
    monkeypatch.delenv("COUNTERPOINT_TOKEN", raising=False)
    monkeypatch.chdir(folder)
    asked = ["serve", "model.skops", "--data", "train.csv", "--spec", "policy.toml"]
    here = CliRunner().invoke(commands, asked, catch_exceptions=False)
    assert "The page: http://127.0.0.1:8765/\n" in here.output
    there = CliRunner().invoke(commands, [*asked, "--host", "0.0.0.0"], catch_exceptions=False)  # noqa: S104
    monkeypatch.setenv("COUNTERPOINT_TOKEN", "of mine")
    given = CliRunner().invoke(commands, [*asked, "--host", "::"], catch_exceptions=False)
    tokens = [app.token for app, _ in started]
    assert tokens[0] is None
    assert f"http://0.0.0.0:8765/?token={tokens[1]}" in there.output
    assert len(tokens[1]) > 40
    assert tokens[2] == "of mine"
    assert "of mine" not in given.output
    assert all(how["access_log"] is False for _, how in started)


@pytest.fixture
def served(folder, monkeypatch) -> Iterator[int]:
    """The port of what the command serves, which waits for half a second, not for ten."""
    import uvicorn

    from counterpoint.app import connections

    how: dict[str, Any] = {}
    monkeypatch.setattr(uvicorn, "run", lambda app, **more: how.update(more, app=app))
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    monkeypatch.setenv("COUNTERPOINT_TOKEN", TOKEN)
    asked = ["serve", str(folder / "model.skops"), "--data", str(folder / "train.csv")]
    CliRunner().invoke(commands, [*asked, "--host", "::"])
    server = uvicorn.Server(uvicorn.Config(**how | {"host": "127.0.0.1", "port": 0}))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()


def said_on(connection: socket.socket) -> bytes:
    """All that comes until the other side ends the connection."""
    told = b""
    with suppress(ConnectionResetError):
        while more := connection.recv(4096):
            told += more
    return told


def test_who_does_not_finish_a_request_keeps_nobody_out(served):
    with ExitStack() as opened:

        def connect(begun: bytes = b"") -> socket.socket:
            connection = socket.create_connection(("127.0.0.1", served), timeout=20)
            connection.sendall(begun)
            return opened.enter_context(connection)

        whole = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        half = [connect(whole[: 20 * (k % 3)]) for k in range(300)]
        assert b" 200 OK" in said_on(connect(whole))
        for connection in half:
            said_on(connection)
        head = b"POST /explain HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
        for begun in (head, whole.replace(b"close", b"keep-alive"), b""):
            connection, start = connect(begun), perf_counter()
            with suppress(OSError):  # it is closed, however often a byte comes
                while perf_counter() - start < 8:
                    connection.sendall(b"G")
                    sleep(0.1)
            assert perf_counter() - start < 6


def test_models_come_as_skops_files(folder, tmp_path):
    (tmp_path / "model.pkl").write_bytes(b"")
    asked = ["serve", str(tmp_path / "model.pkl"), "--data", str(folder / "train.csv")]
    said = CliRunner().invoke(commands, asked)
    assert said.exit_code == 2
    assert "a pickle" in said.output


def test_its_absence_names_the_extra():
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "import counterpoint as cp, counterpoint.app\n"
        "try: counterpoint.app.make_app(None, None)\n"
        "except cp.MissingExtra as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == (
        "The service needs fastapi, which is not installed. "
        "In a checkout of counterpoint, run: pip install '.[app]'.\n"
    )


def test_logged_lines_are_json_without_what_an_error_says():
    from counterpoint.cli.serve import Lines

    try:
        int("Ada is 36")
    except ValueError:
        record = logging.LogRecord("x", 40, "", 0, "failed", None, sys.exc_info())
    line = json.loads(Lines().format(record))
    assert (line["error"], line["by"]) == ("ValueError", "x")
    assert line["where"].startswith(f"{__file__}:")
    assert "Ada" not in str(line)
    told = logging.LogRecord("x", 20, "", 0, "answered", None, None)
    told.request = {"status": 200}
    assert json.loads(Lines().format(told))["status"] == 200
