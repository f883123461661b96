"""`counterpoint letter` writes principal reasons and rounded advice for rows, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import counterpoint as cp
from counterpoint.cli.files import check_out, write
from counterpoint.cli.question import Question
from counterpoint.letters import draft as draft_texts
from counterpoint.letters import write_letters


def letter(
    question: Question,
    texts: Path | None = None,
    draft: Path | None = None,
    language: str = "en",
    row: list[int] | None = None,
    protected: list[str] | None = None,
    part: list[str] | None = None,
    template: Path | None = None,
    html: bool = False,
    alternatives: int | None = None,
    out: Path | None = None,
) -> None:
    """Write letters: principal reasons, and rounded advice that the model was asked about again.

    Parameters
    ----------
    texts : TEXTS
        What to call features and decisions (.toml); see the page on letters.
    draft : FILE
        Write a file of texts to fill in, and no letters.
    language : en|de|FILE
        The language, or a .toml file of its words.
    row : N
        Only about this row, from 0. Repeatable.
    protected : COLUMN
        A column that must not decide, and cannot change; the letter says where it counts.
        Repeatable; the policy may say so too.
    part : NAME=TEXT
        A part of each letter: creditor, recipient, date, reference, salutation, rights or
        signature. Repeatable; the texts may say so too.
    template : FILE
        A layout of your own, in Jinja2; see the page on letters.
    html
        Write letters as pages of HTML.
    alternatives : N
        Up to N ways for each row, the cheapest first.
    out : FILE
        Write a line for each letter to a .csv, .parquet or .jsonl file; - for JSON lines on
        standard output. Without it, letters to read.

    Examples
    --------
    counterpoint letter model.skops rows.csv --data train.csv --target granted --texts texts.toml
    """
    check_out(out, *question.inputs, texts, template)
    supplied = dict(_read_parts(part or []))
    if html and template is not None:
        raise cp.InvalidInput("--html is for the built-in layout; pass it, or --template.")
    if draft is not None:
        _write_draft(draft, question.source.explainer(question.wish)[0])
        return
    explainer, target, X = question.read()
    rows = [*range(len(X))] if row is None else row
    for i in rows:
        if not 0 <= i < len(X):
            raise cp.InvalidInput(f"There is no row {i}; the last is {len(X) - 1}.")
    several: dict[str, Any] = {} if alternatives is None else {"n": alternatives}
    letters = write_letters(
        explainer,
        explainer.explain(X.iloc[rows], target, **several),
        texts,
        language=language,
        protected=protected or (),
        parts=supplied,
        template=template,
    )
    lines = [
        {
            "row": i,
            "status": str(entry.status),
            "codes": ", ".join(reason.code for reason in entry.reasons),
            "reasons": "; ".join(reason.text for reason in entry.reasons),
            "letter": entry.html if html else entry.text,
        }
        for i, entry in zip(rows, letters, strict=True)
    ]
    if out is None:
        pages = ("" if html else f"Row {line['row']}\n\n" for line in lines)
        texts_to_read = (f"{head}{line['letter']}" for head, line in zip(pages, lines, strict=True))
        typer.echo("\n\n\n".join(texts_to_read))
    else:
        import pandas as pd

        to = write(out, lambda: pd.DataFrame(lines))
        typer.echo(f"Wrote {len(lines)} letters to {to}.", err=True)
    if not all(entry.values or entry.status is cp.Status.ALREADY for entry in letters):
        raise typer.Exit(3)


def _read_parts(entries: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and text of entries NAME=TEXT."""
    for entry in entries:
        name, mark, text = entry.partition("=")
        if not mark:
            raise cp.InvalidInput(
                f"Expected --part NAME=TEXT, such as --part 'date=4 March 2026'; got {entry!r}."
            )
        yield name.strip(), text


def _write_draft(path: Path, explainer: cp.Explainer) -> None:
    """Write a file of texts to fill in, where there is none yet."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(draft_texts(explainer))
    except FileExistsError:
        raise cp.InvalidInput(
            f"{path} is there already; name another file for the draft."
        ) from None
    typer.echo(f"Wrote {path}: fill in the names, and pass it as --texts.", err=True)
