"""The page, in a browser: what people do on it, and what it says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
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


def expected(model: Any, page: Any, *rules: cp.Constraint, target: Any = "granted") -> Any:
    rows = page.evaluate("() => JSON.parse(decodeURIComponent(location.hash.slice(1))).row")
    policy = [cp.Immutable("age"), cp.Bounds("income", rise=30_000.0)]
    explainer = cp.Explainer(model, data=loans(), constraints=[*policy, *rules])
    return explainer.explain([rows], target)[0]


def shown(answer: cp.Counterfactual) -> list[list[str]]:
    cells = [(name, *pair) for name, pair in answer.changes.items()]
    return [[f"{v:.6g}" if isinstance(v, float) else str(v) for v in row] for row in cells]


def table(page: Any, plan: str = "#answer .plan") -> list[list[str]]:
    rows = page.locator(f"{plan} tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def test_a_limit_a_lock_and_certainty_change_the_answer(page, model):
    said = page.inner_text("#answer")
    assert "The model says refused" in said
    first = expected(model, page)
    assert table(page) == shown(first)
    assert f"costs {first.cost:.4g}; nothing costs less than {first.certificate.bound:.4g}" in said

    name = next(iter(first.changes))
    answered(page, feature(page, name).get_by_label("keep as it is").check)
    kept = expected(model, page, cp.Immutable(name))
    assert table(page) == shown(kept) != shown(first)
    answered(page, feature(page, name).get_by_label("keep as it is").uncheck)

    slider = feature(page, "income").get_by_label("income at most")
    slider.focus()
    for _ in range(3):
        answered(page, lambda: page.keyboard.press("PageDown"))
    limit = float(feature(page, "income").locator("output").first.inner_text().split()[-1])
    exact = page.evaluate("() => range(document.querySelector('[data-name=income]'))")[1]
    assert exact == pytest.approx(limit, rel=1e-5)
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
    row = page.evaluate("() => JSON.parse(decodeURIComponent(location.hash.slice(1))).row")
    plans = explainer.explain([row], "granted", n=3)[0]
    page.wait_for_selector("#plans .plan")
    cards = page.locator("#plans .plan")
    assert cards.count() == len(plans) - 1
    for k, plan in enumerate(plans[1:]):
        rows = cards.nth(k).locator("tbody tr").all()
        assert [one.locator("th, td").all_inner_texts() for one in rows] == shown(plan)
    name = next(iter(plans[0].changes))
    answered(page, lambda: feature(page, name).locator(".effort").fill("2"))
    cost = cp.Manhattan({**explainer.cost.weights, name: 4.0 * explainer.cost.weights[name]})
    harder = explainer.adding(cost=cost).explain([row], "granted")[0]
    assert table(page) == shown(harder)
    assert f"costs {harder.cost:.4g};" in page.inner_text("#answer")


def test_the_address_is_a_bookmark(page, browser, url):
    answered(page, lambda: page.locator("#person").select_option("7"))
    answered(page, lambda: feature(page, "debt").get_by_label("keep as it is").check())
    answered(page, lambda: feature(page, "income").locator(".effort").fill("-1"))
    answered(page, lambda: page.locator("#most").fill("1"))
    answered(
        page, lambda: feature(page, "income").get_by_label("income at most").press("ArrowLeft")
    )
    said, address = page.inner_text("#answer"), page.url
    other = browser.new_context(**DESKTOP).new_page()
    other.goto(address)
    other.wait_for_selector("#answer h2")
    assert other.inner_text("#answer") == said
    assert other.url == address
    assert other.locator("#person").input_value() == "7"
    other.context.close()
    page.get_by_role("button", name="Start again").click()
    page.wait_for_function("() => document.getElementById('most').value === ''")


def test_a_receipt_is_rechecked_here_and_elsewhere(page, model, tmp_path):
    page.wait_for_selector("#plans svg")
    for number, button in enumerate(page.locator("button.receipt").all()):
        with page.expect_download() as loading:
            button.click()
        receipt = tmp_path / f"{number}.jsonl"
        loading.value.save_as(receipt)
        found = cp.recheck(receipt, model)
        assert found.ok
        assert found.proved.all()
        record = json.loads(receipt.read_text())
        plan = page.locator(".plan").nth(number).inner_text()
        assert f"costs {record['cost']:.4g};" in plan
    said = page.locator("#checked")
    page.locator("#receipt").set_input_files(receipt)
    page.wait_for_function("() => document.getElementById('checked').textContent")
    assert said.inner_text() == "The receipt is true of this model and is proved."
    forged = tmp_path / "forged.jsonl"
    forged.write_text(json.dumps(json.loads(receipt.read_text()) | {"cost": 0.0}))
    page.locator("#receipt").set_input_files(forged)
    page.wait_for_function(
        "() => document.getElementById('checked').textContent.includes('changed')"
    )
    assert "It was changed after it was written" in said.inner_text()


def test_what_cannot_be_is_said_with_the_reason(page):
    for name in ("income", "debt", "home"):
        said = answered(page, feature(page, name).get_by_label("keep as it is").check)
    assert "No change within the constraints gives the target." in said
    page.wait_for_selector("#plans h2:has-text('Why there is none')")
    assert "are immutable" in page.inner_text("#plans")


def test_a_person_is_typed_in(page):
    answered(page, lambda: feature(page, "income").locator(".now").fill("90000"))
    assert page.locator("#person").input_value() == ""
    assert "The model already gives the target" in page.inner_text("#answer")


def test_a_value_that_is_missing_is_told(browser, url):
    page = browser.new_context(**DESKTOP).new_page()
    page.goto(url)
    page.wait_for_selector("#answer h2")
    said = answered(page, lambda: feature(page, "income").locator(".now").fill(""))
    assert "column 'income'" in said
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
    assert {"receipt", "person", "target", "certainty", "most"} <= reached
    assert {"now", "keep", "low", "high", "effort"} <= reached
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
            answered(page, lambda row=row: page.locator("#person").select_option(str(row)))
            assert table(page) == shown(explainer.explain(X.iloc[[row]], ">50K")[0])
        answered(page, lambda: page.locator("#target").select_option(label="refusé"))
        assert table(page) == shown(explainer.explain(X.iloc[[row]], "refusé")[0])
        answered(page, lambda: page.locator("#certainty").fill("70"))
        sure = explainer.explain(X.iloc[[row]], cp.Probability("refusé", 0.7))[0]
        assert table(page) == shown(sure)
        fields = page.locator(".feature .now")
        for words in X["Straße"].unique():
            answered(page, lambda words=words: fields.nth(2).select_option(label=words))
            for grade in (1.0, 3.0):
                answered(page, lambda grade=grade: fields.nth(3).select_option(label=str(grade)))
                person = X.iloc[[row]].assign(Straße=words, grade=grade)
                want = explainer.explain(person, cp.Probability("refusé", 0.7))[0]
                assert table(page) == shown(want)
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
        rows = {**X.iloc[3].to_dict(), "home": "castle"}  # a category that the model does not know
        page.route("**/desk/rows/3", lambda route: route.fulfill(json=rows))
        said = answered(page, lambda: page.locator("#person").select_option("3"))
        assert "unknown category 'castle'" in said
        assert page.locator(".plan").count() == 0

        held: list[Any] = []

        def hold(route: Any) -> None:
            held.append(route)

        page.route("**/desk/rows/4", hold)
        page.locator("#person").select_option("4")  # its row has not arrived
        page.wait_for_function("() => !document.querySelector('#answer').innerText.trim()")
        answered(page, lambda: page.locator("#person").select_option("5"))
        five = page.inner_text("#answer")
        held[0].fulfill(json=X.iloc[4].to_dict())  # too late
        page.wait_for_timeout(100)
        assert page.inner_text("#answer") == five
        assert page.evaluate("() => read().row.age") == X["age"][5]

        page.route("**/desk/rows/6", lambda route: route.abort())
        said = answered(page, lambda: page.locator("#person").select_option("6"))
        assert said == "The service does not answer."
        assert page.locator(".plan").count() == 0

        page.route("**/desk/answer", hold)
        page.locator("#person").select_option("7")
        page.wait_for_function("() => !document.querySelector('#answer').innerText.trim()")
        page.context.close()


def test_a_regressor_is_asked_for_a_range(browser):
    X = loans()[["age", "income", "debt"]]
    model = LinearRegression().fit(X[["age", "income"]], X["debt"])
    with Served(make_app(model, X[["age", "income"]], cp.Problem(cp.Interval(low=9000.0)))) as url:
        page = browser.new_context(**DESKTOP).new_page()
        page.goto(url)
        page.wait_for_selector("#answer h2")
        said = answered(page, lambda: page.locator("#low").fill("8200"))
        row = page.evaluate("() => read().row")
        answer = cp.explain(model, [row], cp.Interval(low=8200.0), data=X[["age", "income"]])[0]
        assert table(page) == shown(answer)
        assert "After the change it says" in said
        page.context.close()


def test_the_files_of_the_page_come_with_the_package():
    at = Path(cp.__file__).parent / "app"
    assert {"desk.css", "desk.js", "icon.svg"} <= {file.name for file in (at / "static").iterdir()}
    assert {"page.html", "answer.html"} <= {file.name for file in (at / "templates").iterdir()}
