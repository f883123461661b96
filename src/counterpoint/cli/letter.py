"""`counterpoint letter`: principal reasons and rounded advice for rows, in sentences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import counterpoint as cp
from counterpoint.cli.files import option, out_option, read_rows, write
from counterpoint.cli.question import Rows, Source, Wish
from counterpoint.letters import Letter, draft, write_letters

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["letter"]


def letter(
    wish: Wish,
    source: Source,
    rows: Rows,
    texts: Annotated[
        Path | None,
        option("What to call features and decisions (.toml); see the page on letters.", "TEXTS"),
    ] = None,
    draft_to: Annotated[
        Path | None,
        option("Write a file of texts to fill in, and no letters.", "FILE", "--draft"),
    ] = None,
    language: Annotated[
        str,
        typer.Option(metavar="en|de|FILE", help="The language, or a .toml file of its words."),
    ] = "en",
    row: Annotated[
        list[int] | None,
        option("Only about this row, from 0. Repeatable.", "N"),
    ] = None,
    protected: Annotated[
        list[str] | None,
        option(
            "A column that must not decide, and cannot change; the letter says where it counts. "
            "Repeatable; the policy may say so too.",
            "COLUMN",
        ),
    ] = None,
    part: Annotated[
        list[str] | None,
        option(
            "A part of each letter: creditor, recipient, date, reference, salutation, rights or "
            "signature. Repeatable; the texts may say so too.",
            "NAME=TEXT",
        ),
    ] = None,
    template: Annotated[
        Path | None,
        option("A layout of your own, in Jinja2; see the page on letters.", "FILE"),
    ] = None,
    html: Annotated[bool, option("Write letters as pages of HTML.", None, "--html")] = False,
    alternatives: Annotated[
        int | None, option("Up to N ways for each row, the cheapest first.", "N")
    ] = None,
    out: Annotated[
        Path | None,
        out_option("a line for each letter", "letters to read"),
    ] = None,
) -> None:
    """Write letters: principal reasons, and rounded advice that the model was asked about again."""
    source.check_out(out, rows, texts, template)
    parts = _parts(part or [])
    if html and template is not None:
        raise cp.InvalidInput("--html is for the built-in layout; pass it, or --template.")
    explainer, wanted = source.explainer(wish)
    if draft_to is not None:
        _write_draft(draft_to, explainer)
        return
    X = read_rows(rows)
    numbers = [*range(len(X))] if row is None else row
    outside = [k for k in numbers if not 0 <= k < len(X)]
    if outside:
        raise cp.InvalidInput(f"There is no row {outside[0]}; the last is {len(X) - 1}.")
    X = X.iloc[numbers]
    answers: Any = (
        explainer.explain(X, wanted)
        if alternatives is None
        else explainer.explain(X, wanted, n=alternatives)
    )
    letters = write_letters(
        explainer,
        answers,
        texts,
        language=language,
        protected=protected or (),
        parts=parts,
        template=template,
    )
    pages = [entry.html if html else entry.text for entry in letters]
    if out is None:
        heads = ("" if html else f"Row {k}\n\n" for k in numbers)
        typer.echo("\n\n\n".join(f"{head}{page}" for head, page in zip(heads, pages, strict=True)))
    else:
        to = write(out, lambda: _table(numbers, letters, pages))
        typer.echo(f"Wrote {len(letters)} letters to {to}.", err=True)
    if not all(entry.values or entry.status is cp.Status.ALREADY for entry in letters):
        raise typer.Exit(3)


def _parts(entries: list[str]) -> dict[str, str]:
    """Read entries NAME=TEXT."""
    pairs = [entry.partition("=") for entry in entries]
    wrong = [entry for entry, (_, mark, _) in zip(entries, pairs, strict=True) if not mark]
    if wrong:
        raise cp.InvalidInput(
            f"Expected --part NAME=TEXT, such as --part 'date=4 March 2026'; got {wrong[0]!r}."
        )
    return {name.strip(): text for name, _, text in pairs}


def _write_draft(path: Path, explainer: cp.Explainer) -> None:
    """Write a file of texts to fill in, where there is none yet."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(draft(explainer))
    except FileExistsError:
        raise cp.InvalidInput(
            f"{path} is there already; name another file for the draft."
        ) from None
    typer.echo(f"Wrote {path}: fill in the names, and pass it as --texts.", err=True)


def _table(numbers: list[int], letters: list[Letter], pages: list[str]) -> pd.DataFrame:
    """Return a line for each letter."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "row": k,
                "status": str(entry.status),
                "codes": ", ".join(reason.code for reason in entry.reasons),
                "reasons": "; ".join(reason.text for reason in entry.reasons),
                "letter": page,
            }
            for k, entry, page in zip(numbers, letters, pages, strict=True)
        ]
    )
