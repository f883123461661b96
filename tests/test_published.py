"""Each benchmark and each reproduction at small sizes: it runs, and says what it found.

`make bench-quick` runs these tests; what is published is written by `make bench` and
`make reproduce`.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
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
ASKED = re.compile(rf"(?P<how>≥|at least|≤|at most|below|<) {QUANTITY.pattern}")
UNITS = {"µs": 1e-6, "ms": 1e-3}
ROUNDED = 0.01
"""Numbers are shown with three digits."""
DURATIONS = {
    "conflicts": ("median", "worst"),
    "gaps": ("CPU",),
    "latency": ("median", "95 %", "median on the clock", "predict alone"),
    "lvq_local": ("a row", "a row of the paper's"),
    "lvq_training": ("a fit",),
    "peers": ("wall", "CPU"),
    "private": ("time a row",),
    "prototypes": ("median", "95 %", "largest"),
    "scale": ("clock", "CPU"),
    "softmax": ("explain, a row", "limit", "the paper's Newton", "one row"),
    "trees": ("predict", "median", "90 %", "slowest"),
    "trees_reach": ("first", "median", "slowest"),
    "which_model": ("median", "slowest"),
    "speed_cvxpy": ("batch", "single row", "CVXPY built each time", "CVXPY compiled once"),
}
"""Subject → columns of its first table that hold times."""


Table = tuple[Sequence[str], Sequence[Sequence[Any]]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All answers of an Explainer, in the order in which they were given."""
    answers: list[Any] = []

    def kept(explain: Callable[..., Any]) -> Callable[..., Any]:
        def both(*args: Any, **options: Any) -> Any:
            answers.append(explain(*args, **options))
            return answers[-1]

        return both

    monkeypatch.setattr(cp.Explainer, "explain", kept(cp.Explainer.explain))
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
            part = re.fullmatch(r"(\d+) of (\d+)", cell)
            assert part is None or int(part[1]) <= int(part[2]), (column, cell)
            if column == "claim":
                assert cell in {"", *cp.Claim, *cp.Status}


def assert_judged_right(goal: Any) -> bool:
    """What is asked for in numbers is met if and only if the number that was measured says so."""
    assert isinstance(goal.satisfied, bool | np.bool_)
    assert goal.what
    assert not re.search(r"\b(nan|inf)\b", goal.measured, re.IGNORECASE), goal
    part = re.match(r"(\d+) of (\d+)\b", goal.measured)
    if part is not None:
        assert int(part[1]) <= int(part[2]), goal
        if re.search(r"\b(each|every)\b", goal.goal):
            assert goal.satisfied == (part[1] == part[2]), goal
        return True
    asked, measured = ASKED.match(goal.goal), QUANTITY.match(goal.measured)
    if asked is None or measured is None:
        return False
    limit, value = (
        float(m["number"].replace(" ", ""))
        * (1e6 if m["million"] else 1.0)
        * UNITS.get(m["unit"] or "", 1.0)
        for m in (asked, measured)
    )
    if abs(value - limit) > ROUNDED * abs(limit):
        assert goal.satisfied == (
            value > limit if asked["how"] in ("≥", "at least") else value < limit
        ), goal
    return True


# What single tables say of answers


def named(table: Table) -> Iterator[dict[str, str]]:
    columns, rows = table
    return (dict(zip(columns, map(str, row), strict=True)) for row in rows)


def closed(answers: Any, gap: float = 1e-6) -> np.ndarray:
    """(n,): whether the bound closes the gap, by the numbers of each certificate."""
    c = answers.certificates
    return np.asarray(c.valid & (c.objective - c.bound <= gap * c.objective))


def proved(answers: Any, gap: float = 1e-6) -> np.ndarray:
    return closed(answers, gap) & (np.asarray(answers.certificates.claim) == "proved")


def heloc(table: Table, asked: list[Any], _: Any):
    """Shares are those of the certificates, and of all rows together 1."""
    for line, answers in zip(named(table), asked[1::2], strict=True):
        gap = float(line["gap asked"])
        here, sure = closed(answers, gap), proved(answers, gap)
        impossible = answers.status == "infeasible"
        assert line["proved"] == f"{sure.mean():.1%}"
        assert line["reported"] == f"{(here & ~sure).mean():.1%}"
        assert line["impossible"] == f"{impossible.mean():.1%}"
        assert line["unsettled"] == f"{(~here & ~impossible).mean():.1%}"
        assert line["rounding alone"] == f"{(sure & answers.closed_form).mean():.1%}"
        assert len(answers) == int(line["rows"])


def throughput(table: Table, asked: list[Any], _: Any):
    lines = list(named(table))
    for line, answers in zip(lines, asked[1 : 2 * len(lines) : 2], strict=True):
        assert line["proved"] == f"{proved(answers)[answers.found].mean():.1%}"
        assert line["need a change"] == f"{(answers.cost != 0.0).mean():.0%}"
        assert float(line["largest gap"]) <= 1e-6


def one_by_one(table: Table, asked: list[Any]) -> Iterator[tuple[dict[str, str], list[Any]]]:
    """Lines, and what was asked for each: a row that does not count, and so many that do."""
    place = 0
    for line in named(table):
        count = int(line["rows"])
        yield line, asked[place + 1 : place + 1 + count]
        place += 1 + count


def latency(table: Table, asked: list[Any], _: Any):
    for line, answers in one_by_one(table, asked):
        settled = [closed(a)[0] or a.certificates.bound[0] == np.inf for a in answers]
        assert line["settled"] == f"{np.mean(settled):.0%}"
        assert line["closed form"] == f"{np.mean([a.closed_form[0] for a in answers]):.0%}"


def prototypes(table: Table, asked: list[Any], _: Any):
    for line, answers in one_by_one(table, asked):
        work = [a for a in answers if a.cost[0] != 0.0]
        assert line["proved"] == f"{np.mean([proved(a)[0] for a in work]):.0%}"
        assert line["closed form"] == f"{np.mean([a.closed_form[0] for a in work]):.0%}"


def lvq_local(table: Table, asked: list[Any], _: Any):
    place = 0
    for line in named(table):
        count = int(line["short of it"].split(" of ")[1])
        answers = asked[place + 1 : place + 2 * count : 2]
        place += 2 * count
        assert line["proved"] == f"{100 * np.mean([proved(a)[0] for a in answers]):.0f}%"
        assert line["ours"] == f"{np.mean([a.cost[0] for a in answers]):.4f}"


def softmax(table: Table, asked: list[Any], _: Any):
    """The first table, of what goes through the public interface."""
    shares = {f"{proved(getattr(one, 'answers', one)).mean():.1%}" for one in asked}
    for line in named(table):
        assert line["proved"] in shares


def optimality(table: Table, asked: list[Any], _: Any):
    lines = list(named(table))
    total = {name: sum(int(line[name]) for line in lines) for name in lines[0] if name in COUNTS}
    assert total["rows"] == sum(len(answers) for answers in asked)
    already = [answers.found & (answers.cost == 0.0) for answers in asked]
    assert total["already"] == sum(one.sum() for one in already)
    answered = [a.found & ~one for a, one in zip(asked, already, strict=True)]
    assert total["answered"] == sum(one.sum() for one in answered)
    assert total["infeasible"] == sum((answers.bound == np.inf).sum() for answers in asked)
    for line in lines:
        left = int(line["rows"]) - int(line["already"]) - int(line["answered"])
        assert int(line["of these proved"]) <= int(line["infeasible"]) <= left
        assert int(line["valid"]) <= int(line["answered"])


COUNTS = ("rows", "already", "answered", "infeasible")
OF_ANSWERS = (heloc, throughput, latency, prototypes, lvq_local, softmax, optimality)


@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda script: script.stem)
def test_a_benchmark_reports_what_it_measured(
    script: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
):
    module, reports = loaded(script, monkeypatch), []
    monkeypatch.setattr(module, "finish", lambda report, *, quick: reports.append((report, quick)))
    module.main()
    ((report, quick),) = reports
    assert quick
    assert script.stem == f"bench_{report.subject}"
    first = report.columns, report.rows
    for table in (first, *((more.columns, more.rows) for more in report.tables)):
        assert_sound(table)
    assert report.goals
    for goal in report.goals:
        assert_judged_right(goal)
    for line in named(first):
        for column in DURATIONS.get(report.subject, ()):
            assert re.search(r"\d (µs|ms|s)\b|^–?$", line[column]), (column, line[column])
    for check in OF_ANSWERS:
        if check.__name__ == report.subject:
            check(first, asked, report)


@pytest.mark.parametrize("script", REPRODUCTIONS, ids=lambda script: script.stem)
def test_a_reproduction_reports_what_it_found(script: Path, monkeypatch: pytest.MonkeyPatch):
    module = loaded(script, monkeypatch)
    written, page = [], module.page

    def kept(title: str, head: str, sections: Any, *more: Any) -> str:
        written.extend(sections)
        return str(page(title, head, sections, *more))

    monkeypatch.setattr(module, "page", kept)
    module.main()
    assert written
    assert not plt.get_fignums(), "figures are left open"
    for section in written:
        assert_sound((section.columns, section.rows))
        for claim in section.claims:
            assert isinstance(claim.agrees, bool | np.bool_), claim
            assert claim.what
            assert not re.search(r"\b(nan|inf)\b", f"{claim.paper} {claim.here}", re.IGNORECASE)


@pytest.mark.parametrize(
    ("asked_", "measured", "met"),
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
def test_a_goal_that_is_judged_wrong_is_noticed(asked_: str, measured: str, satisfied: bool):
    class Goal:
        what, goal = "something", asked_

    Goal.measured, Goal.satisfied = measured, satisfied
    with pytest.raises(AssertionError):
        assert_judged_right(Goal)
    Goal.satisfied = not satisfied
    assert assert_judged_right(Goal)


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
