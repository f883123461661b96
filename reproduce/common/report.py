"""The page: sections with tables, figures and sentences, and what the paper says beside."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
from _common import number
from matplotlib.figure import Figure
from table import section as lines_of

__all__ = ["Claim", "Section", "number", "page", "spread"]

PACKAGES = ("counterpoint", "numpy", "scipy", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Claim:
    """Something that the paper says, and what is found here."""

    what: str
    paper: str
    here: str
    agrees: bool


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Parameters
    ----------
    title, text
        A heading, and sentences below it.
    columns, rows
        A table.
    notes
        Sentences below the table.
    figures
        File name → figure, shown at the end.
    claims
        What of the paper it checks.
    """

    title: str
    text: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()
    figures: dict[str, Figure] = field(default_factory=dict)
    claims: Sequence[Claim] = ()


def page(
    title: str,
    head: str,
    sections: Sequence[Section],
    shown: dict[str, str],
    packages: Sequence[str] = (),
) -> str:
    """The page in Markdown; `shown` says how each figure is shown, `packages` what else has run."""
    claims = [claim for section in sections for claim in section.claims]
    rows = [(c.what, c.paper, c.here, "yes" if c.agrees else "**no**") for c in claims]
    lines = [f"# {title}", ""]
    lines += _section(
        Section(
            "What the paper says",
            head,
            ("", "paper", "here", "agrees"),
            rows,
        ),
        {},
    )
    for section in sections:
        lines += ["", *_section(section, shown)]
    names = ", ".join(f"{name} {version(name)}" for name in (*PACKAGES, *packages))
    python = ".".join(map(str, sys.version_info[:3]))
    return "\n".join([*lines, "", f"Versions: python {python}, {names}."]) + "\n"


def _section(section: Section, shown: dict[str, str]) -> list[str]:
    lines = lines_of(
        {
            "title": section.title,
            "question": section.text,
            "columns": section.columns,
            "rows": section.rows,
            "goals": (),
            "notes": section.notes,
        }
    )
    for name in section.figures:
        lines += ["", shown[name]]
    return lines


def spread(values: Iterable[float], digits: int = 3) -> str:
    """The median, and the least and the greatest in brackets."""
    found = np.array(list(values), dtype=float)
    least, middle, most = (number(v, digits) for v in np.quantile(found, [0.0, 0.5, 1.0]))
    return f"{middle} ({least}–{most})"
