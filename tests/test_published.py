"""Each benchmark and each reproduction at small sizes: it runs, and says what it measured.

`make bench-quick` runs these tests; what is published is written by `make bench` and
`make reproduce`.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import counterpoint as cp

pytestmark = pytest.mark.published

ROOT = Path(__file__).parents[1]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("bench_*.py"))
REPRODUCTIONS = sorted((ROOT / "reproduce").glob("*.py"))

NUMBER = r"(?P<number>[-+]?\d+(?: \d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)(?P<million> million)?"
QUANTITY = re.compile(rf"{NUMBER} ?(?P<unit>µs|ms|s\b|×|rows/s|%)?")
LIMIT = re.compile(rf"(?P<how>≥|at least|≤|at most|below|<) {QUANTITY.pattern}")
UNITS = {"µs": 1e-6, "ms": 1e-3}
ROUNDED = 0.01
"""Numbers are shown with three digits."""
DURATIONS = {
    *("median", "95 %", "90 %", "slowest", "largest", "predict", "predict alone", "a row", "CPU"),
    *("first", "batch", "single row", "CVXPY built each time", "CVXPY compiled once", "clock"),
    *("explain, a row", "limit", "the paper's Newton", "one row", "a fit", "fit", "all metrics"),
    *("ours", "55 runs, all at once", "naive: CPU", "time a row", "99 %"),
}
"""Columns of benchmarks that hold times, but for `limit` and `median` of forests."""


Table = tuple[Sequence[str], Sequence[Sequence[Any]]]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All answers of an Explainer, in the order of the calls."""
    answers: list[Any] = []
    explain = cp.Explainer.explain

    def recording(*args: Any, **options: Any) -> Any:
        answers.append(explain(*args, **options))
        return answers[-1]

    monkeypatch.setattr(cp.Explainer, "explain", recording)
    return answers


def loaded(script: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script as a module, about to run with --quick."""
    for folder in ("benchmarks", "reproduce"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    monkeypatch.setattr(sys, "argv", [str(script), "--quick"])
    spec = importlib.util.spec_from_file_location(f"published_{script.stem}", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


# What holds for every table


def assert_sound(table: Table):
    """As many cells as columns, numbers that are finite, shares between 0 and 1, known words."""
    columns, rows = table
    assert len(rows)
    for row in rows:
        assert len(row) == len(columns), row
        for column, cell in zip(columns, map(str, row), strict=True):
            assert not re.search(r"\b(nan|inf)\b", cell, re.IGNORECASE), (column, cell)
            for share in re.findall(r"(?<![\d.e-])([-+]?\d+(?:\.\d+)?(?:e-?\d+)?) ?%", cell):
                assert 0.0 <= float(share) <= 100.0, (column, cell)
            fraction = re.fullmatch(r"(\d+) of (\d+)", cell)
            assert fraction is None or int(fraction[1]) <= int(fraction[2]), (column, cell)
            if column == "claim":
                assert cell in {"", *cp.Claim, *cp.Status}


def assert_judged_right(claim: Any) -> bool:
    """What is asked for in numbers is met if and only if the number that was measured says so."""
    assert isinstance(claim.holds, bool | np.bool_)
    assert claim.what
    text = f"{claim.expected} {claim.measured}"
    assert not re.search(r"\b(nan|inf)\b", text, re.IGNORECASE), claim
    fraction = re.match(r"(\d+) of (\d+)\b", claim.measured)
    if fraction is not None:
        assert int(fraction[1]) <= int(fraction[2]), claim
        if re.search(r"\b(each|every)\b", claim.expected):
            assert claim.holds == (fraction[1] == fraction[2]), claim
        return True
    limit, measured = LIMIT.match(claim.expected), QUANTITY.match(claim.measured)
    if limit is None or measured is None:
        return False
    bound, value = (
        float(match["number"].replace(" ", ""))
        * (1e6 if match["million"] else 1.0)
        * UNITS.get(match["unit"] or "", 1.0)
        for match in (limit, measured)
    )
    if abs(value - bound) > ROUNDED * abs(bound):
        below = limit["how"] not in ("≥", "at least")
        assert claim.holds == (value < bound if below else value > bound), claim
    return True


# What single tables say of answers


def named(section: Any) -> Iterator[dict[str, str]]:
    """Rows by the names of the columns."""
    for row in section.rows:
        yield dict(zip(section.columns, map(str, row), strict=True))


def closed(answers: Any, gap: float = 1e-6) -> np.ndarray:
    """(n,): whether the bound closes the gap, by the numbers of each certificate."""
    c = answers.certificates
    return np.asarray(c.valid & (c.objective - c.bound <= gap * c.objective))


def proved(answers: Any, gap: float = 1e-6) -> np.ndarray:
    return closed(answers, gap) & (np.asarray(answers.certificates.claim) == "proved")


def calls(section: Any, recorded: list[Any], start: int) -> Iterator[tuple[dict[str, str], list]]:
    """Lines, and the answers of each: one call that does not count, and one for each row."""
    for line in named(section):
        count = int(line["rows"])
        yield line, recorded[start + 1 : start + 1 + count]
        start += 1 + count


def speed(sections: Sequence[Any], recorded: list[Any]):
    million, single, steps = sections
    lines = list(named(million))
    for line, answers in zip(lines, recorded[1 : 2 * len(lines) : 2], strict=True):
        assert line["proved"] == f"{proved(answers)[answers.found].mean():.1%}"
        assert line["closed form"] == f"{np.mean(answers.closed_form):.1%}"
        assert float(line["largest gap"]) <= 1e-6
    for line, answers in calls(single, recorded, 2 * len(lines) + 4):  # two calls for each memory
        settled = [closed(a)[0] or a.certificates.bound[0] == np.inf for a in answers]
        assert line["settled"] == f"{np.mean(settled):.0%}"
        assert line["closed form"] == f"{np.mean([a.closed_form[0] for a in answers]):.0%}"
    for line, answers in zip(named(steps), recorded[1 - 2 * len(steps.rows) :: 2], strict=True):
        impossible = answers.certificates.bound == np.inf
        sure = proved(answers) | (impossible & (answers.certificates.claim == "proved"))
        assert line["proved"] == f"{sure.mean():.1%}"


def prototypes(sections: Sequence[Any], recorded: list[Any]):
    for line, answers in calls(sections[0], recorded, 0):
        work = [a for a in answers if a.cost[0] != 0.0]
        assert line["proved"] == f"{np.mean([proved(a)[0] for a in work]):.0%}"
        assert line["closed form"] == f"{np.mean([a.closed_form[0] for a in work]):.0%}"


def trees(sections: Sequence[Any], recorded: list[Any]):
    for line, answers in calls(sections[0], recorded, 0):
        assert line["proved"] == f"{np.mean([proved(a)[0] for a in answers]):.0%}"


def softmax(sections: Sequence[Any], recorded: list[Any]):
    shares = {f"{proved(answers).mean():.1%}" for answers in recorded}
    for line in named(sections[0]):
        assert line["proved"] in shares


def optimality(sections: Sequence[Any], recorded: list[Any]):
    lines = list(named(sections[0]))
    total = {name: sum(int(line[name]) for line in lines) for name in lines[0] if name in COUNTS}
    assert total["rows"] == sum(len(answers) for answers in recorded)
    already = [answers.found & (answers.cost == 0.0) for answers in recorded]
    assert total["already"] == sum(mask.sum() for mask in already)
    answered = [a.found & ~mask for a, mask in zip(recorded, already, strict=True)]
    assert total["answered"] == sum(mask.sum() for mask in answered)
    assert total["infeasible"] == sum((answers.bound == np.inf).sum() for answers in recorded)
    for line in lines:
        remaining = int(line["rows"]) - int(line["already"]) - int(line["answered"])
        assert int(line["of these proved"]) <= int(line["infeasible"]) <= remaining
        assert int(line["valid"]) <= int(line["answered"])


COUNTS = ("rows", "already", "answered", "infeasible")
OF_ANSWERS = (speed, prototypes, trees, softmax, optimality)


@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda script: script.stem)
def test_a_benchmark_reports_what_it_measured(
    script: Path, recorded: list[Any], monkeypatch: pytest.MonkeyPatch
):
    module, published = loaded(script, monkeypatch), []

    def publish(subject: str, title: str, sections: Any, **options: Any):
        published.append((subject, title, sections, options["quick"]))

    monkeypatch.setattr(module, "publish", publish)
    module.main()
    ((subject, title, sections, quick),) = published
    assert quick
    assert title
    assert script.stem == f"bench_{subject}"
    assert any(section.claims for section in sections)
    for section in sections:
        assert_sound((section.columns, section.rows))
        for claim in section.claims:
            assert_judged_right(claim)
        for line in named(section) if subject != "forests" else ():
            for column in DURATIONS & set(line):
                assert re.search(r"\d (µs|ms|s)\b|^–?$", line[column]), (column, line[column])
    for check in OF_ANSWERS:
        if check.__name__ == subject:
            check(sections, recorded)


@pytest.mark.parametrize("script", REPRODUCTIONS, ids=lambda script: script.stem)
def test_a_reproduction_reports_what_it_measured(script: Path, monkeypatch: pytest.MonkeyPatch):
    module = loaded(script, monkeypatch)
    report = sys.modules["harness.report"]
    sections, page = [], report.page

    def recording(title: str, head: str, written: Any, *arguments: Any) -> str:
        sections.extend(written)
        return str(page(title, head, written, *arguments))

    monkeypatch.setattr(report, "page", recording)
    module.main()
    assert sections
    assert not plt.get_fignums(), "figures are left open"
    for section in sections:
        assert_sound((section.columns, section.rows))
        for claim in section.claims:
            assert isinstance(claim.holds, bool | np.bool_), claim
            assert claim.what
            text = f"{claim.expected} {claim.measured}"
            assert not re.search(r"\b(nan|inf)\b", text, re.IGNORECASE)


@pytest.mark.parametrize(
    ("expected", "measured", "met"),
    [
        ("≥ 100×", "77×", True),
        ("below 1 ms", "1.2 ms", True),
        ("below 1 ms", "900 µs", False),
        ("at least 500 000 rows/s", "412 345 rows/s", True),
        ("≥ 2 million rows/s", "1 500 000 rows/s", True),
        ("≤ 1e-6 relative", "3e-5", True),
        ("every answer", "28 of 29", True),
        ("≤ 1e-6 each", "29 of 29", False),
    ],
)
def test_a_claim_that_is_judged_wrong_is_noticed(expected: str, measured: str, met: bool):
    claim = SimpleNamespace(what="something", expected=expected, measured=measured, holds=met)
    with pytest.raises(AssertionError):
        assert_judged_right(claim)
    claim.holds = not met
    assert assert_judged_right(claim)


@pytest.mark.parametrize(
    "table",
    [
        (("proved",), []),
        (("proved",), [("101.0%",)]),
        (("proved",), [("-3%",)]),
        (("found",), [("3 of 2",)]),
        (("gap",), [("nan",)]),
        (("gap",), [("inf and more",)]),
        (("a", "b"), [("1",)]),
        (("claim",), [("2",)]),
    ],
)
def test_a_table_that_cannot_be_is_noticed(table: Table):
    with pytest.raises(AssertionError):
        assert_sound(table)
