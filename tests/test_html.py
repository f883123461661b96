"""What notebooks and prompts show: escaped, complete, one line where it is a line."""

from __future__ import annotations

import pickle
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

import counterpoint as cp
from counterpoint import groups
from counterpoint.pictures import html

EVIL = '<script>alert("x")</script>'


class Seen(HTMLParser):
    """Tags that are open, all that were opened, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def seen(shown: object) -> Seen:
    parser = Seen()
    parser.feed(shown._repr_html_())  # type: ignore[attr-defined]
    assert not parser.open
    return parser


@cache
def shown() -> dict[str, Any]:
    """One of each public thing that people look at."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=[EVIL, "b"])
    y = np.where(X[EVIL] + X["b"] > 0, f"yes {EVIL}", "no")
    model = LogisticRegression().fit(X, y)
    explainer = cp.Explainer(model, data=X, constraints=cp.Monotone(EVIL, "increasing"))
    stuck = cp.Explainer(model, data=X, constraints=cp.Immutable(EVIL, "b"))
    rows = X[model.predict(X) == "no"].head(15)
    answers = explainer.explain(rows, y[y != "no"][0])
    several = explainer.explain(rows.head(2), y[y != "no"][0], n=2)
    translations = groups.GroupTranslations(PCA(2).fit(X)).fit(X, (y == "no").astype(int))
    return {
        "explainer": explainer,
        "answer": answers[0],
        "none": stuck.explain(rows, y[y != "no"][0])[0],
        "answers": answers,
        "several": several,
        "translations": translations.translations_,
        "quality": translations.evaluate(X, (y == "no").astype(int)),
        "path": explainer.trace(rows.head(1), [cp.Tradeoff("no", 1.0)]),
        "features": explainer.features,
        "certificate": answers[0].certificate,
        "certificates": answers.certificates,
        "problem": cp.Problem(target="no"),
        "recheck": cp.recheck(answers[0].to_record(), model),
    }


@pytest.mark.parametrize("name", shown())
def test_every_repr_is_one_line_that_says_something(name: str):
    told = repr(shown()[name])
    assert "\n" not in told
    assert " object at 0x" not in told


HTML = ("explainer", "answer", "none", "answers", "several", "translations", "quality")


@pytest.mark.parametrize("name", HTML)
def test_names_and_values_are_escaped_and_tags_closed(name: str):
    found = seen(shown()[name])
    assert "script" not in found.tags
    if name != "quality":
        assert EVIL in found.text


@pytest.mark.parametrize("name", ["answer", "none", "answers", "several"])
def test_the_certificate_is_folded_in(name: str):
    found = seen(shown()[name])
    assert "details" in found.tags
    assert all(word in found.text for word in ("claim", "bound", "violation"))


def test_an_answer_says_what_changes_and_what_it_costs():
    answer = shown()["answer"]
    text = seen(answer).text
    assert answer.message in text
    rounded = answer.rounded()
    assert f"cost {rounded.cost:.4g}, at least {answer.certificate.bound:.4g} (proved)" in text
    assert "numbers are rounded, and the model was asked again" in text
    for name, (old, new) in rounded.changes.items():
        assert f"{name}{old:.6g}{new:.15g}" in text
        assert new != answer.changes[name][1]


def test_answers_are_shown_in_few_digits():
    answers = shown()["answers"]
    rounded = answers.rounded()
    text = seen(answers).text
    for i in range(10):
        assert all(f"{new:.15g}" in text for _, new in rounded[i].changes.values())
    precise = answers.rounded(5)  # as they were asked for
    assert f"{next(iter(precise[0].changes.values()))[1]:.6g}" in seen(precise).text
    without_model = pickle.loads(pickle.dumps(answers))  # noqa: S301 (it is ours)
    assert f"{next(iter(answers[0].changes.values()))[1]:.6g}" in seen(without_model).text


def test_a_table_without_names_has_no_head():
    assert "<thead>" not in html.table(("", ""), [(1, 2)])
    assert "<thead>" in html.table(("", "b"), [(1, 2)])


def test_of_many_answers_the_first_are_shown():
    answers = shown()["answers"]
    found = seen(answers)
    assert found.tags.count("tr") == 2 * 11
    assert "and 5 more" in found.text
    assert "optimal" in found.text


def test_rows_that_cannot_be_used_are_shown():
    explainer = shown()["explainer"]
    rows = pd.DataFrame({EVIL: [np.nan], "b": [1.0]})
    answers = explainer.explain(rows, "no")
    assert "invalid" in seen(answers).text
    assert "missing" in seen(answers[0]).text
    assert seen(explainer.explain(rows.head(0), "no")).text
