"""The page, in a browser: what people do on it, and what it says."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import counterpoint as cp
from counterpoint.app import make_app

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="There is no Chromium here to look with."),
    pytest.mark.further,
]

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
DARK = {**DESKTOP, "color_scheme": "dark"}


def loans() -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": random.integers(20, 70, 300),
            "income": random.normal(4e4, 1.2e4, 300).round(),
            "debt": random.gamma(2.0, 4e3, 300).round(),
            "home": random.choice(["own", "rent"], 300),
        }
    )


@pytest.fixture(scope="module")
def model() -> Any:
    X = loans()
    score = X["income"] - 1.5 * X["debt"] + 200 * X["age"] + 5e3 * (X["home"] == "own")
    prepare = ColumnTransformer([("home", OneHotEncoder(), ["home"])], remainder=StandardScaler())
    fitted = make_pipeline(prepare, LogisticRegression())
    return fitted.fit(X, np.where(score > 36_000, "granted", "refused"))


class Served:
    """An application on a port of its own, while the tests run."""

    def __init__(self, app: Any) -> None:
        import uvicorn

        config = uvicorn.Config(app, port=0, log_config=None, ws="none", lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            sleep(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://localhost:{port}"

    def __enter__(self) -> str:
        return self.url

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()


@pytest.fixture(scope="module")
def url(model: Any) -> Iterator[str]:
    rules = [cp.Immutable("age"), cp.Bounds("income", rise=30_000.0)]
    with Served(make_app(model, loans(), cp.Problem("granted", constraints=rules))) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    context = browser.new_context(**DESKTOP)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)
    page.wait_for_selector("#answer h2")
    yield page
    context.close()
    assert not faults
    assert all(one.startswith((url, "blob:")) for one in asked)


def answered(page: Any, act: Any) -> str:
    """What the page says after something was done."""
    page.evaluate(
        """() => { window.said = new Promise((done, late) => {
            addEventListener('answered', done, true);
            setTimeout(() => late(new Error('The page does not answer.')), 20000);
        }) }"""
    )
    act()
    page.evaluate("() => window.said")
    return page.inner_text("#answer")


def feature(page: Any, name: str) -> Any:
    return page.locator(f".feature[data-name='{name}']")


def choose(page: Any, row: int) -> None:
    """Search for a row, and take it."""
    page.locator("#search").fill(f"row {row}")
    page.locator("#search").press("Enter")


def version_of(page: Any) -> str:
    return page.evaluate("() => form.dataset.people")


def bookmark(page: Any) -> dict[str, Any]:
    return page.evaluate("() => JSON.parse(decodeURIComponent(location.hash.slice(1)))")


def checked(page: Any, file: Path) -> str:
    """What the page says of a file as a receipt."""
    page.evaluate("() => { document.getElementById('checked').textContent = '' }")
    page.locator("#receipt").set_input_files(file)
    page.wait_for_function(
        "() => !['', 'Checking …'].includes(document.getElementById('checked').textContent)"
    )
    return page.inner_text("#checked")


def planned(page: Any) -> None:
    page.wait_for_function("() => document.querySelector('#plans').ariaBusy === 'false'")


def expected(model: Any, page: Any, *rules: cp.Constraint, target: Any = "granted") -> Any:
    rows = page.evaluate("() => cells()")
    policy = [cp.Immutable("age"), cp.Bounds("income", rise=30_000.0)]
    explainer = cp.Explainer(model, data=loans(), constraints=[*policy, *rules])
    return explainer.explain([rows], target).rounded(3)[0]


def plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def shown(answer: cp.Counterfactual) -> list[list[str]]:
    return [[name, *map(plain, pair)] for name, pair in answer.changes.items()]


def near_the_cheapest(answer: cp.Counterfactual) -> str:
    excess = math.ceil(1e3 * (answer.cost / answer.certificate.bound - 1)) / 10
    return f"In few digits, at most {excess:g} % above the cheapest possible change (proved)."


def cost_of(explainer: cp.Explainer) -> str:
    """What the page says of the cost: of the first features that may change, in their order."""
    weights = explainer.cost.weights
    income, debt = (f"{float(f'{1 / weights[name]:.3g}'):g}" for name in ("income", "debt"))
    return f"1 for every {income} of income, 1 for every {debt} of debt and 1 for another home."


def table(page: Any, place: str = "#answer") -> list[list[str]]:
    rows = page.locator(f"{place} tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def test_a_limit_a_lock_and_certainty_change_the_answer(page, model):
    said = page.inner_text("#answer")
    assert "The model says refused" in said
    first = expected(model, page)
    assert table(page) == shown(first)
    assert f"It costs {first.cost:.3g}." in said
    assert near_the_cheapest(first) in said

    name = next(iter(first.changes))
    answered(page, feature(page, name).get_by_label("keep as it is").check)
    kept = expected(model, page, cp.Immutable(name))
    assert table(page) == shown(kept) != shown(first)
    answered(page, feature(page, name).get_by_label("keep as it is").uncheck)

    slider = feature(page, "income").get_by_label("income, upper end")
    slider.focus()
    for _ in range(3):
        answered(page, lambda: page.keyboard.press("PageDown"))
    exact = float(feature(page, "income").get_by_label("at most").input_value())
    assert exact % 500 == 0  # a round number
    assert table(page) == shown(expected(model, page, cp.Bounds("income", high=exact)))

    answered(page, lambda: page.locator("#certainty").fill("90"))
    sure = expected(
        model, page, cp.Bounds("income", high=exact), target=cp.Probability("granted", 0.9)
    )
    assert table(page) == shown(sure)
    assert "at least 90 %" in page.inner_text("#desk")


def test_effort_weighs_and_plans_stand_side_by_side(page, model):
    X = loans()
    explainer = cp.Explainer(
        model, data=X, constraints=[cp.Immutable("age"), cp.Bounds("income", rise=30_000.0)]
    )
    row = page.evaluate("() => cells()")
    plans = [*explainer.explain([row], "granted", n=3).answers.rounded(3)]
    page.wait_for_selector("#plans .plan")
    cards = page.locator("#plans .plan")
    assert cards.count() == len(plans) - 1
    for k, plan in enumerate(plans[1:]):
        names = " and ".join(map(str, plan.changes))
        ranking = (
            f"Costs {plan.cost - plans[0].cost:.3g} more than the cheapest, changes only {names}."
        )
        assert ranking in cards.nth(k).inner_text()
        rows = cards.nth(k).locator("tbody tr").all()
        assert [one.locator("th, td").all_inner_texts() for one in rows] == shown(plan)
    name = next(iter(plans[0].changes))
    answered(page, lambda: feature(page, name).locator(".effort").fill("2"))
    cost = cp.Manhattan({**explainer.cost.weights, name: 4.0 * explainer.cost.weights[name]})
    harder = explainer.adding(cost=cost).explain([row], "granted").rounded(3)[0]
    assert table(page) == shown(harder)
    assert f"It costs {harder.cost:.3g}." in page.inner_text("#answer")
    assert "much harder, costs four times as much" in feature(page, name).inner_text()
    assert cost_of(explainer) in page.inner_text("#desk")


def test_the_address_is_a_bookmark(page, browser, url):
    answered(page, lambda: choose(page, 7))
    answered(page, lambda: feature(page, "debt").get_by_label("keep as it is").check())
    answered(page, lambda: feature(page, "income").locator(".effort").fill("-1"))
    answered(page, lambda: page.locator("#most").fill("1"))
    answered(page, lambda: feature(page, "income").get_by_label("at most").fill("60000"))
    said, address = page.inner_text("#answer"), page.url
    other = browser.new_context(**DESKTOP).new_page()
    other.goto(address)
    other.wait_for_selector("#answer h2")
    assert other.inner_text("#answer") == said
    assert other.url == address
    assert other.inner_text("#title") == "Row 7"
    other.context.close()
    page.get_by_role("button", name="Start again").click()
    page.wait_for_function("() => document.getElementById('most').value === ''")


def test_the_address_holds_no_data_of_a_person(page):
    answered(page, lambda: feature(page, "income").locator(".now").fill("12345"))
    assert "one value is typed in, which no bookmark holds" in page.inner_text("#who")
    answered(page, lambda: feature(page, "debt").get_by_label("at least").fill("17"))
    mark = bookmark(page)
    assert {*mark} == {"row", "of", "keep", "ranges", "effort", "target"}
    assert mark["ranges"] == {"debt": [17, None]}
    assert "12345" not in page.url
    page.reload()
    page.wait_for_selector("#answer h2")
    row = loans().iloc[mark["row"]]
    assert page.evaluate("() => cells()") == row.to_dict()
    assert feature(page, "debt").get_by_label("at least").input_value() == "17"


def test_a_bookmark_of_other_people_is_refused(browser, url):
    page = browser.new_context(**DESKTOP).new_page()
    page.goto(f"{url}/#" + json.dumps({"row": 3, "of": "00000000", "keep": ["debt"]}))
    page.wait_for_selector("#answer .wrong")
    assert "a person of other data" in page.inner_text("#answer")
    answered(page, lambda: choose(page, 4))
    assert page.evaluate("() => cells()") == loans().iloc[4].to_dict()
    assert feature(page, "debt").get_by_label("keep as it is").is_checked()
    mark = json.dumps({"row": 10**6, "of": version_of(page)})
    page.goto("about:blank")
    page.goto(f"{url}/#{mark}")
    page.wait_for_selector("#answer .wrong")
    assert page.inner_text("#answer") == "Expected a row from 0 to 299; got 1000000."
    page.context.close()


def test_a_receipt_is_rechecked_here_and_elsewhere(page, model, tmp_path):
    page.wait_for_selector("#plans svg")
    for number, button in enumerate(page.locator("button.receipt").all()):
        with page.expect_download() as loading:
            button.click()
        receipt = tmp_path / f"{number}.jsonl"
        loading.value.save_as(receipt)
        assert cp.recheck(receipt, model).ok
        record = json.loads(receipt.read_text())
        assert record["objective"] / record["proved_bound"] < 1.01  # few digits cost something
        place = "#answer" if number == 0 else f"#plans .plan:nth-child({number})"
        answer = record["answer"]
        assert {name: new for name, _, new in table(page, place)} == {
            name: plain(new) for name, new in answer.items() if new != record["row"][name]
        }
    excess = math.ceil(1e3 * (record["objective"] / record["proved_bound"] - 1)) / 10
    nearly = f": at most {excess:g} % above the cheapest possible change (proved)."
    proved = cp.recheck(receipt, model).proved.all()
    sentence = " and is proved." if proved else nearly
    assert checked(page, receipt) == f"The receipt is true of this model{sentence}"
    forged = tmp_path / "forged.jsonl"
    forged.write_text(json.dumps(json.loads(receipt.read_text()) | {"cost": 0.0}))
    assert checked(page, forged).startswith(
        "This receipt is not true of this model: It was changed after it was written"
    )


def test_a_wrong_file_as_a_receipt_gives_one_sentence(page, tmp_path):
    files = {
        "rows.csv": loans().to_csv(),
        "text.jsonl": "x" * 300_000,
        "large.jsonl": "x" * 2_000_000,
        "many.jsonl": '{"schema": "counterpoint-record/1"}\n' * 5000,
        "empty.jsonl": "",
        "other.jsonl": json.dumps({"schema": 3}),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        said = checked(page, tmp_path / name)
        assert said[-1] == "."
        assert 20 < len(said) < 200, name
    (tmp_path / "bytes.jsonl").write_bytes(bytes(range(256)) * 100)
    assert checked(page, tmp_path / "bytes.jsonl").startswith("This file is no receipt")


def test_what_cannot_be_is_said_with_the_reason(page):
    for name in ("income", "debt", "home"):
        said = answered(page, feature(page, name).get_by_label("keep as it is").check)
    assert "No change within the constraints gives the target." in said
    page.wait_for_selector("#answer h3:has-text('Why there is none')")
    said = page.inner_text("#answer")
    assert "immutable (yours)" in said
    assert "age is immutable (the policy)" in said
    assert "Why" not in page.inner_text("#plans")


def test_a_person_is_typed_in(page):
    answered(page, lambda: feature(page, "income").locator(".now").fill("90000"))
    assert "one value is typed in" in page.inner_text("#who")
    assert "The model already gives the target" in page.inner_text("#answer")


def test_a_value_that_is_missing_is_told(browser, url):
    page = browser.new_context(**DESKTOP).new_page()
    page.goto(url)
    page.wait_for_selector("#answer h2")
    said = answered(page, lambda: page.locator("#most").fill("0"))
    assert said == "Expected a count of at least 1; got 0."
    answered(page, lambda: page.locator("#most").fill(""))
    said = answered(page, lambda: feature(page, "income").locator(".now").fill(""))
    assert "column “income”" in said
    page.context.close()


@pytest.mark.parametrize(
    "device",
    [pytest.param(DESKTOP, marks=pytest.mark.slow), PHONE, DARK],
    ids=["desktop", "phone", "dark"],
)
def test_nothing_is_in_the_way_of_anybody(browser, url, device):
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_context(**device).new_page()
    page.goto(url)
    page.wait_for_selector("#plans svg")
    for details in page.locator("details").all():
        details.locator("summary").click()
    found = Axe().run(
        page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]}
    )
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page.context.close()


def test_all_of_it_is_reached_by_the_keyboard(page):
    reached, focused = set[str](), "() => document.activeElement"
    for _ in range(50):
        page.keyboard.press("Tab")
        reached |= {*page.evaluate(f"{focused}.className").split(), page.evaluate(f"{focused}.id")}
    assert {"receipt", "search", "target", "certainty", "most"} <= reached
    assert {"now", "keep", "low", "high", "from", "to", "effort"} <= reached
    income = feature(page, "income").get_by_label("keep as it is")
    income.focus()
    before = table(page)
    answered(page, lambda: page.keyboard.press("Space"))
    assert income.is_checked()
    assert table(page) != before or "income" not in str(before)


@pytest.fixture(scope="module")
def foreign() -> tuple[Any, pd.DataFrame]:
    """A model whose labels, categories and columns have names to be escaped."""
    random = np.random.default_rng(1)
    X = pd.DataFrame(
        {
            "<pay> & 'more'": random.normal(4e4, 1.2e4, 300).round(),
            "constructor": random.normal(10.0, 3.0, 300).round(1),
            "Straße": random.choice(["<b>rent</b>", "it's own", 'R&D \\ "x"', "München"], 300),
            "grade": random.choice([1.0, 2.0, 3.0], 300),
        }
    )
    score = X.iloc[:, 0] + 900 * X["constructor"] + 4e3 * X["grade"] - 6e3 * (X["Straße"] > "L")
    kinds = ColumnTransformer(
        [("words", OneHotEncoder(), ["Straße", "grade"])], remainder=StandardScaler()
    )
    labels = np.select([score < 45_000, score < 60_000], ["<=50K", "refusé"], ">50K")
    return make_pipeline(kinds, LogisticRegression(max_iter=1000)).fit(X, labels), X


def test_names_and_values_are_not_compared_as_text(browser, foreign):
    model, X = foreign
    page = browser.new_context(**DESKTOP).new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    with Served(make_app(model, X, cp.Problem(">50K"))) as url:
        page.goto(url)
        page.wait_for_selector("#answer h2")
        explainer = cp.Explainer(model, data=X)
        rows = [*np.flatnonzero(model.predict(X) != ">50K")[:4]]
        for row in rows:
            answered(page, lambda row=row: choose(page, row))
            assert table(page) == shown(explainer.explain(X.iloc[[row]], ">50K").rounded(3)[0])
        answered(page, lambda: page.locator("#target").select_option(label="refusé"))
        assert table(page) == shown(explainer.explain(X.iloc[[row]], "refusé").rounded(3)[0])
        answered(page, lambda: page.locator("#certainty").fill("70"))
        sure = explainer.explain(X.iloc[[row]], cp.Probability("refusé", 0.7)).rounded(3)[0]
        assert table(page) == shown(sure)
        fields = page.locator(".feature .now")
        for words in X["Straße"].unique():
            answered(page, lambda words=words: fields.nth(2).select_option(label=words))
            for grade in (1.0, 3.0):
                answered(
                    page, lambda grade=grade: fields.nth(3).select_option(label=f"{grade:.0f}")
                )
                person = X.iloc[[row]].assign(Straße=words, grade=grade)
                want = explainer.explain(person, cp.Probability("refusé", 0.7)).rounded(3)[0]
                assert table(page) == shown(want)
        answered(page, lambda: choose(page, row))  # what was typed in is in no bookmark
        before, address = page.inner_text("#answer"), page.url
        page.wait_for_selector("#plans svg")
        page.goto("about:blank")
        page.goto(address)
        page.wait_for_selector("#answer h2")
        assert page.inner_text("#answer") == before
        page.wait_for_selector("#plans .plan")
        for button in page.locator("button.receipt").all():
            with page.expect_download() as loading:
                button.click()
            assert cp.recheck(loading.value.path().read_text().splitlines(), model).ok
        answered(page, lambda: page.locator("button[type=reset]").click())
        assert page.locator("#target option:checked").inner_text() == ">50K"
    page.context.close()
    assert not faults


def test_nothing_is_shown_that_is_not_about_the_person(browser, model):
    X = loans()
    with Served(make_app(model, X, cp.Problem("granted"))) as url:
        page = browser.new_context(**DESKTOP).new_page()
        page.goto(url)
        page.wait_for_selector("#plans svg")

        def person(i: int, **cells: Any) -> dict[str, Any]:
            return {"cells": {**X.iloc[i].to_dict(), **cells}, "title": f"Row {i}", "summary": ""}

        # a category that the model does not know
        page.route("**/desk/rows/3", lambda route: route.fulfill(json=person(3, home="castle")))
        said = answered(page, lambda: choose(page, 3))
        assert "unknown category “castle”; known: “own”, “rent”." in said
        assert "Categorical" not in said
        assert page.locator(".plan").count() == 0

        held: list[Any] = []

        def hold(route: Any) -> None:
            held.append(route)

        page.route("**/desk/rows/4", hold)
        choose(page, 4)  # its row has not arrived
        page.wait_for_function("() => !document.querySelector('#answer h2')")
        answered(page, lambda: choose(page, 5))
        five = page.inner_text("#answer")
        held[0].fulfill(json=person(4))  # too late
        page.wait_for_timeout(100)
        assert page.inner_text("#answer") == five
        assert page.evaluate("() => cells().age") == X["age"][5]

        page.route("**/desk/rows/6", lambda route: route.abort())
        said = answered(page, lambda: choose(page, 6))
        assert said.startswith("The service does not answer.")
        assert page.locator(".plan").count() == 0

        page.route("**/desk/answer", hold)
        choose(page, 7)
        page.wait_for_function(
            "() => document.querySelector('#answer').innerText === 'Computing …'"
        )
        page.context.close()


def test_what_is_old_is_gone_or_looks_old(browser, url):
    from playwright.sync_api import Error as PlaywrightError

    page = browser.new_context(**DESKTOP).new_page()
    page.goto(url)
    page.wait_for_selector("#plans svg")
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route("**/desk/answer", hold)
    page.route("**/desk/why", hold)
    before = table(page)
    name = before[0][0]
    feature(page, name).get_by_label("keep as it is").check()
    page.wait_for_timeout(600)
    opacity = "id => Number(getComputedStyle(document.getElementById(id)).opacity)"
    for section in ("answer", "plans"):
        assert page.evaluate(opacity, section) < 0.5
        assert page.locator(f"#{section}").get_attribute("aria-busy") == "true"
    answered(page, lambda: held.pop().continue_())
    assert table(page) != before
    assert page.evaluate(opacity, "answer") == 1
    assert page.locator("#plans .plan").count() == 0  # those of the first question

    # nobody is waited for: the first of two questions is slow, and answers after the second
    feature(page, "debt").get_by_label("keep as it is").check()
    page.wait_for_timeout(50)
    slow = held.pop()
    feature(page, "debt").get_by_label("keep as it is").uncheck()
    page.wait_for_timeout(700)
    answered(page, lambda: held.pop().continue_())
    now = page.inner_text("#answer")
    with suppress(PlaywrightError):  # it is not waited for
        slow.fulfill(body="<h2>too late</h2>")
    page.wait_for_timeout(100)
    assert page.inner_text("#answer") == now

    # why there is none for one person does not stand beside the answer to another
    page.unroute("**/desk/answer")
    for name in ("income", "debt", "home"):
        feature(page, name).get_by_label("keep as it is").check()
    page.wait_for_selector("#answer .why .waiting")
    page.wait_for_timeout(300)
    late = held.pop()
    answered(page, lambda: feature(page, "income").get_by_label("keep as it is").uncheck())
    with suppress(PlaywrightError):
        late.fulfill(body="<h3>Why there is none</h3>")
    page.wait_for_timeout(100)
    assert "Why" not in page.inner_text("main")
    page.context.close()


def test_a_range_is_one_slider_with_two_ends(page):
    income = feature(page, "income")
    low, high = (income.get_by_label(f"income, {end} end") for end in ("lower", "upper"))
    assert low.bounding_box() == high.bounding_box()  # one over the other
    fields = [income.get_by_label("at least"), income.get_by_label("at most")]
    assert [field.input_value() for field in fields] == ["", ""]
    high.focus()
    answered(page, lambda: page.keyboard.press("Home"))  # it stops at the other end
    ends = page.locator(".feature[data-name='income'] .track input")
    assert ends.nth(0).input_value() == ends.nth(1).input_value() == "0"
    answered(page, lambda: page.keyboard.press("End"))
    assert [field.input_value() for field in fields] == ["", ""]
    low.focus()
    answered(page, lambda: page.keyboard.press("ArrowRight"))
    value = float(fields[0].input_value())
    assert value % 500 == 0
    assert low.evaluate("input => input.ariaValueText") == f"{value:g}"
    answered(page, lambda: fields[0].fill(""))
    assert low.input_value() == "0"
    box = high.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 12, box["y"] + box["height"] / 2)
    page.mouse.down()
    answered(page, lambda: page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 16))
    page.mouse.up()
    assert fields[0].input_value() == ""
    assert float(fields[1].input_value()) > 0


def test_limits_are_those_of_the_policy(page):
    income = feature(page, "income")
    now = page.evaluate("() => cells().income")
    ends = loans()["income"].agg(["min", "max"])
    low, high = max(ends["min"], -np.inf), ends["max"]
    policy = income.locator(".policy").inner_text()
    assert policy == (
        f"may be {low:.0f} to {high:.0f}, may rise by at most 30000; "
        f"from here {low:.0f} to {min(high, now + 30_000):.0f}"
    )
    said = answered(page, lambda: income.get_by_label("at least").fill(f"{high + 1:.0f}"))
    sentence = (
        f"income may be {low:.0f} to {high:.0f}, may rise by at most 30000; "
        f"{high + 1:.0f} is beyond that."
    )
    assert sentence in said
    assert income.locator(".refusal").inner_text() == sentence
    assert page.locator("table").count() == 0
    answered(page, lambda: income.get_by_label("at least").fill("50"))
    said = answered(page, lambda: income.get_by_label("at most").fill("40"))
    assert "income cannot be at least 50 and at most 40." in said
    answered(page, lambda: income.get_by_label("at most").fill(""))
    said = answered(page, lambda: income.get_by_label("at least").fill(f"{now - 1000:.0f}"))
    assert income.locator(".refusal").inner_text() == ""
    assert page.locator("#answer table").count() == 1


def test_people_are_found_by_words(page, model):
    X = loans()
    decisions = model.predict(X)

    def listed(words: str) -> list[int]:
        answer = page.request.post(
            "/".join(page.url.split("/")[:3]) + "/desk/people", data={"query": words}
        )
        reply = answer.json()
        return [match["row"] for match in reply["matches"]], reply["count"]

    want = np.flatnonzero((X["home"] == "rent") & (decisions == "refused")).tolist()
    assert listed("Rent refused") == (want[:8], len(want))
    age = int(X["age"][17])
    want = np.flatnonzero(X["age"] == age).tolist()
    assert listed(f"age={age}") == (want[:8], len(want))
    assert listed("17")[0][0] == listed("row 17")[0][0] == 17
    assert listed("nobody") == ([], 0)
    page.locator("#search").fill(f"rent age={age}")
    page.wait_for_function("() => document.querySelector('#matches').innerText.includes('age')")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("#matches [aria-selected='true']")
    active = page.locator("#search").get_attribute("aria-activedescendant")
    title = page.locator(f"#{active} strong").inner_text().split(":")[0]
    answered(page, lambda: page.keyboard.press("Enter"))
    assert page.inner_text("#title") == title
    assert not page.locator("#list").is_visible()
    row = X.iloc[int(title.split()[1])]
    assert f"age {row['age']}" in page.inner_text("#summary")
    page.locator("#search").fill("nobody")
    page.wait_for_function("() => document.querySelector('#hint').innerText.startsWith('Nobody')")


def test_on_a_phone_the_answer_comes_first(browser, url):
    page = browser.new_context(**PHONE).new_page()
    page.goto(url)
    page.wait_for_selector("#plans .plan")
    top = {i: page.locator(f"#{i}").bounding_box()["y"] for i in ("who", "answer", "desk", "plans")}
    assert top["who"] < top["answer"] < top["desk"] < top["plans"] < 3 * 844
    new = page.locator("#answer td.new").first.bounding_box()
    assert new["y"] + new["height"] < 844
    assert not page.locator("#line").is_visible()
    page.get_by_role("button", name="Other plans").click()
    page.wait_for_function("() => document.querySelector('#plans').getBoundingClientRect().y < 844")
    page.evaluate("() => scrollTo(0, 0)")
    feature(page, "debt").locator("summary").click()
    feature(page, "debt").locator(".effort").scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('#line').checkVisibility()")
    answered(page, lambda: feature(page, "debt").get_by_label("keep as it is").check())
    for name, _, new in table(page):
        assert f"{name} {new}" in page.inner_text("#line")
    page.context.close()


def test_nothing_scrolls_inside_of_the_page(browser, url):
    page = browser.new_context(**DESKTOP).new_page()
    page.goto(url)
    page.wait_for_selector("#plans svg")
    inner = """() => [...document.querySelectorAll('body *')].filter(item =>
        /auto|scroll/.test(getComputedStyle(item).overflowY) && item.tagName !== 'SELECT').length"""
    assert page.evaluate(inner) == 0
    page.context.close()


def test_many_features_with_long_names(browser):
    random = np.random.default_rng(2)
    names = [f"a rather_long-name of a column in a table of indicators {j:02}" for j in range(40)]
    X = pd.DataFrame(random.normal(size=(200, 40)), columns=names)
    X[names[3]] = X[names[3]] > 0
    model = LogisticRegression().fit(X, X.iloc[:, 0] + X.iloc[:, 1] > 0.5)
    with Served(make_app(model, X, cp.Problem(True))) as url:
        for device in (DESKTOP, PHONE):
            page = browser.new_context(**device).new_page()
            page.goto(url)
            page.wait_for_selector("#plans svg")
            assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
            cut = """() => [...document.querySelectorAll('.name, th, td, p, h2, h3, li')]
                .filter(item => getComputedStyle(item).display !== 'inline')
                .filter(item => item.scrollWidth > item.clientWidth + 1)
                .map(item => item.outerHTML)"""
            assert page.evaluate(cut) == []
            assert page.locator("details.feature[open]").count() == 0
            page.locator("#filter").fill("indicators 17")
            shown = page.locator("details.feature:visible .name").all_inner_texts()
            assert shown == [names[17]]
            page.locator("details.feature:visible summary").click()
            answered(page, page.locator("details.feature:visible .keep").check)
            says_no_python(page)
            page.context.close()


def says_no_python(page: Any) -> None:
    """Neither reprs nor numbers as programs write them."""
    for details in page.locator("details:visible").all():
        details.evaluate("item => { item.open = true }")
    text = page.inner_text("body") + " ".join(page.locator("option").all_inner_texts())
    python = (
        r"\b(True|False|None|nan|inf)\b|\d\.?e[-+]?\d|[\[\]{}()]=|\w=\w|extrapolate|cp\.|\bdata=|'"
    )
    assert re.findall(python, text) == []


def test_no_python_is_on_the_page(browser):
    X = loans().assign(member=lambda X: X["debt"] > 8000, share=lambda X: X["debt"] * 1e-13)
    prepare = ColumnTransformer([("home", OneHotEncoder(), ["home"])], remainder=StandardScaler())
    granted = X["income"] - 1.5 * X["debt"] > 26_000
    model = make_pipeline(prepare, LogisticRegression()).fit(X, granted)
    rules = [cp.Immutable("age", "share"), cp.Linear.parse("debt <= income"), cp.MaxChanges(3)]
    weights = {"income": 1e-4, "debt": 1e-4, "home": {("rent", "own"): 3.0}}
    for cost in (None, cp.Manhattan(weights), cp.SquaredEuclidean()):
        with Served(make_app(model, X, cp.Problem(True, cost, rules))) as url:
            page = browser.new_context(**DESKTOP).new_page()
            page.goto(url)
            planned(page)
            says_no_python(page)
            for name in ("income", "debt", "home", "member"):
                feature(page, name).get_by_label("keep as it is").check()
            page.wait_for_selector("#answer .why h3")
            says_no_python(page)
            page.context.close()


def test_a_regressor_is_asked_for_a_range(browser):
    X = loans()[["age", "income", "debt"]]
    model = LinearRegression().fit(X[["age", "income"]], X["debt"])
    with Served(make_app(model, X[["age", "income"]], cp.Problem(cp.Interval(low=9000.0)))) as url:
        page = browser.new_context(**DESKTOP).new_page()
        page.goto(url)
        page.wait_for_selector("#answer h2")
        said = answered(page, lambda: page.locator("#low").fill("8200"))
        row = page.evaluate("() => cells()")
        answer = cp.explain(
            model, [row], cp.Interval(low=8200.0), data=X[["age", "income"]]
        ).rounded(3)[0]
        assert table(page) == shown(answer)
        assert "It would say 8200.1 after" in said
        page.context.close()


def test_the_files_of_the_page_come_with_the_package():
    at = Path(cp.__file__).parent / "app"
    assert {"desk.css", "desk.js", "icon.svg"} <= {file.name for file in (at / "static").iterdir()}
    assert {"page.html", "answer.html", "why.html"} <= {
        file.name for file in (at / "templates").iterdir()
    }
