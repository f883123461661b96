"""Pages: sections with tables, figures and sentences, and what was promised or published beside.

A benchmark writes results/SUBJECT.json, and README.md and marked tables of docs/*.md from all of
these; a reproduction writes its own page. Run as a script, this writes README.md anew.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

HERE = Path(__file__).resolve().parents[1]
PACKAGES = (
    "counterpoint",
    "numpy",
    "pandas",
    "scikit-learn",
    "scipy",
    "highspy",
    "daqp",
    "clarabel",
)
ORDER = ("optimality", "cvxpy", "speed", "softmax", "gaps")
MARKED = re.compile(r"(?s)(?P<mark><!-- (?P<subject>\w+): (?P<begins>[^>]*) -->).*?<!-- end -->")
HEAD = """\
# Benchmarks

`make bench` measures everything, `make bench ONLY=speed` one subject; `--quick` makes a script
short and writes nothing; `make bench-quick` runs all of them so, and checks what they report. This
page is written by `benchmarks/harness/report.py` from `benchmarks/results/*.json`.

One thread. What is compared runs in turns within one process, and medians are shown. Times are CPU
time, which on an idle machine is time on the clock. Absolute times do not travel between machines.
"""


@dataclass(frozen=True)
class Claim:
    """A statement of a paper or a promise of ours, beside what was measured."""

    what: str
    expected: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Section:
    """A part of a page: sentences, a table, notes below it, figures, and claims it checks."""

    title: str
    text: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    claims: Sequence[Claim] = ()


def is_quick() -> bool:
    """Return whether --quick was given: fewer problems and repetitions, nothing is written."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run that writes nothing")
    return bool(parser.parse_args().quick)


def publish(
    subject: str,
    title: str,
    sections: Sequence[Section],
    *,
    quick: bool,
    packages: Sequence[str] = (),
) -> None:
    """Print a benchmark's sections; unless the run is quick, write its results and README.md."""
    result = {
        "subject": subject,
        "title": title,
        "sections": [asdict(section) for section in sections],
    }
    print("\n".join(benchmark_lines(result)))
    if quick:
        return
    result["versions"] = versions((*PACKAGES, *packages))
    text = json.dumps(result, indent=1, ensure_ascii=False, default=lambda value: value.item())
    (HERE / "results" / f"{subject}.json").write_text(text + "\n")
    write_readme()


def reproduce(
    script: str,
    title: str,
    head: str,
    sections: Callable[..., Iterable[Section]],
    packages: Sequence[str] = (),
) -> None:
    """Run a reproduction's sections, and unless the run is quick write its page and figures."""
    from harness.figures import save

    quick, start, done = is_quick(), perf_counter(), []
    for section in sections(quick=quick):
        done.append(section)
        print(f"{(perf_counter() - start) / 60:5.1f} min  {section.title}", flush=True)
    figures = {name: figure for section in done for name, figure in section.figures.items()}
    images = {name: "" if quick else save(figure, name) for name, figure in figures.items()}
    text = page(title, head, done, images, packages)
    if quick:
        print(text)
    else:
        Path(script).with_suffix(".md").write_text(text)


def page(
    title: str,
    head: str,
    sections: Sequence[Section],
    images: Mapping[str, str],
    packages: Sequence[str] = (),
) -> str:
    """Return a reproduction's page in Markdown; `images` has the line that shows each figure."""
    claims = _claims([claim for section in sections for claim in section.claims])
    summary = Section("What the paper says", head, ("", "paper", "here", "agrees"), claims)
    lines = [f"# {title}", ""]
    for section in (summary, *sections):
        lines += [*section_lines(vars(section)), ""]
        lines += [line for name in section.figures for line in (images[name], "")]
    names = ("counterpoint", "numpy", "scipy", "scikit-learn", "matplotlib", *packages)
    return "\n".join([*lines, _versions(versions(names))]) + "\n"


def versions(names: Sequence[str]) -> dict[str, str]:
    """Versions of Python and of the distributions that are installed."""
    installed = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in names:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


def write_readme() -> None:
    """Write README.md and the marked tables of docs/*.md from all results."""
    results = [json.loads(path.read_text()) for path in sorted((HERE / "results").glob("*.json"))]
    results.sort(key=lambda r: ORDER.index(r["subject"]) if r["subject"] in ORDER else len(ORDER))
    lines = [HEAD]
    for result in results:
        lines += [*benchmark_lines(result), "", _versions(result["versions"]), ""]
    (HERE / "README.md").write_text("\n".join(lines).rstrip() + "\n")
    by_subject = {result["subject"]: result for result in results}
    for path in (HERE.parent / "docs").glob("*.md"):
        text = path.read_text()
        filled = MARKED.sub(lambda match: _filled(match, by_subject), text)
        if filled != text:
            path.write_text(filled)


def _filled(match: re.Match[str], results: Mapping[str, Any]) -> str:
    """Rows of a result's first table that begin as the mark says."""
    section, begins = results[match["subject"]]["sections"][0], tuple(match["begins"].split(", "))
    rows = [row for row in section["rows"] if str(row[0]).startswith(begins)]
    table = "\n".join(table_lines(section["columns"], rows))
    return f"{match['mark']}\n\n{table}\n\n<!-- end -->"


def benchmark_lines(result: Mapping[str, Any]) -> list[str]:
    """Lines of one subject: its sections, each with its goals in a sentence."""
    lines = [f"## {result['title']}", ""]
    for section in result["sections"]:
        lines += [*section_lines(section, "###"), ""]
        claims = section["claims"]
        if claims:
            missed = [c for c in claims if not c["holds"]]
            lines += [f"Goals: {len(claims) - len(missed)} of {len(claims)} are met.", ""]
            if missed or len(claims) <= 4:
                columns = ("goal", "asked", "measured", "met")
                lines += [*table_lines(columns, _claims(missed or claims)), ""]
    return lines[:-1]


def section_lines(section: Mapping[str, Any], heading: str = "##") -> list[str]:
    """Lines of a section without its figures and claims."""
    lines = [f"{heading} {section['title']}", ""] if section["title"] else []
    lines += [_prose(section["text"]), "", *table_lines(section["columns"], section["rows"])]
    for note in section["notes"]:
        lines += ["", _prose(note)]
    return lines


def _claims(claims: Sequence[Any]) -> list[tuple[str, ...]]:
    fields = [claim if isinstance(claim, dict) else vars(claim) for claim in claims]
    names = ("what", "expected", "measured")
    return [(*(c[n] for n in names), "yes" if c["holds"] else "**no**") for c in fields]


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Lines of a table."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return lines + [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]


def _prose(text: str) -> str:
    return " ".join(text.split())


def _versions(installed: Mapping[str, str]) -> str:
    return "Versions: " + ", ".join(f"{name} {v}" for name, v in installed.items()) + "."


if __name__ == "__main__":
    write_readme()
