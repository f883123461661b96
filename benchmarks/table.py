"""Write README.md and the tables of docs/*.md from results/*.json.

Run as a script, or by each benchmark that finishes. On a page of docs, the lines between
``<!-- trees: wine -->`` and ``<!-- end -->`` are the rows of results/trees.json that begin so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ORDER = ("optimality", "speed_cvxpy", "throughput", "latency", "heloc", "peers", "softmax")
MARKED = re.compile(r"(?s)(?P<first><!-- (?P<subject>\w+): (?P<begins>[^>]*) -->).*?<!-- end -->")
HEAD = """\
# Benchmarks

`make bench` measures everything, `make bench ONLY=latency` one subject; `--quick` makes a script
short and writes nothing; `make bench-quick` runs all of them so, and checks what they report. This
page is written by `benchmarks/table.py` from `benchmarks/results/*.json`.

One thread. What is compared runs in turns within one process, and medians are shown. Times are CPU
time, which on an idle machine is time on the clock; where the clock is shown too, a large
difference means that the machine was busy. Absolute times do not travel between machines.
"""


def write() -> None:
    """The page, from all results that there are."""
    results = [json.loads(path.read_text()) for path in sorted((HERE / "results").glob("*.json"))]
    results.sort(key=lambda r: ORDER.index(r["subject"]) if r["subject"] in ORDER else len(ORDER))
    lines = [HEAD, *_overview(results)]
    for result in results:
        lines += ["", *section(result), "", _versions(result)]
    (HERE / "README.md").write_text("\n".join(lines).rstrip() + "\n")
    known = {result["subject"]: result for result in results}
    for page in (HERE.parent / "docs").glob("*.md"):
        text = page.read_text()
        filled = MARKED.sub(lambda found: _filled(found, known), text)
        if filled != text:
            page.write_text(filled)


def _filled(found: re.Match[str], known: Mapping[str, Any]) -> str:
    """Marked lines of a page, with the rows that they are for."""
    result, begins = known[found["subject"]], tuple(found["begins"].split(", "))
    rows = [row for row in result["rows"] if str(row[0]).startswith(begins)]
    table = "\n".join(_table(result["columns"], rows))
    return f"{found['first']}\n\n{table}\n\n<!-- end -->"


def section(result: Mapping[str, Any]) -> list[str]:
    """The lines of one subject."""
    lines = [f"## {result['title']}", "", _prose(result["question"]), ""]
    lines += _table(result["columns"], result["rows"])
    if result["goals"]:
        lines += ["", *_table(("goal", "asked", "measured", "met"), _goals(result))]
    for more in result.get("tables", ()):
        lines += ["", _prose(more["caption"]), "", *_table(more["columns"], more["rows"])]
    for note in result["notes"]:
        lines += ["", _prose(note)]
    return lines


def _prose(text: str) -> str:
    return " ".join(text.split())


def _overview(results: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [(r["subject"], *goal) for r in results for goal in _goals(r)]
    if not rows:
        return []
    return ["## Goals", "", *_table(("subject", "goal", "asked", "measured", "met"), rows)]


def _goals(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (g["what"], g["goal"], g["measured"], "yes" if g["met"] else "**no**")
        for g in result["goals"]
    ]


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return lines + [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]


def _versions(result: Mapping[str, Any]) -> str:
    return "Versions: " + ", ".join(f"{k} {v}" for k, v in result["versions"].items()) + "."


if __name__ == "__main__":
    write()
