"""`counterpoint letter`: principal reasons and rounded advice for rows, in sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import counterpoint as cp
from counterpoint.cli.files import option, out_option, read_rows, write
from counterpoint.cli.question import Rows, Source, Wish
from counterpoint.letters import write_letters

__all__ = ["letter"]


def letter(
    wish: Wish,
    source: Source,
    rows: Rows,
    texts: Annotated[
        Path | None,
        option("What to say of features and decisions (.toml); see the page on letters.", "TEXTS"),
    ] = None,
    language: Annotated[str, typer.Option(metavar="en|de", help="The language.")] = "en",
    row: Annotated[
        list[int] | None,
        option("Only about this row, from 0. Repeatable.", "N"),
    ] = None,
    protected: Annotated[
        list[str] | None,
        option("A feature that no letter may name; it has to be immutable. Repeatable.", "COLUMN"),
    ] = None,
    alternatives: Annotated[
        int | None, option("Up to N ways for each row, the cheapest first.", "N")
    ] = None,
    out: Annotated[
        Path | None,
        out_option("a line for each letter", "letters to read"),
    ] = None,
) -> None:
    """Write letters: principal reasons, and rounded advice that the model was asked about again."""
    import pandas as pd

    source.check_out(out, rows, texts)
    explainer, wanted = source.explainer(wish)
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
    letters = write_letters(explainer, answers, texts, language=language, protected=protected or ())
    if out is None:
        pages = (f"Row {k}\n\n{entry}" for k, entry in zip(numbers, letters, strict=True))
        typer.echo("\n\n\n".join(pages))
    else:
        lines = [
            {
                "row": k,
                "status": str(entry.status),
                "codes": ", ".join(reason.code for reason in entry.reasons),
                "reasons": "; ".join(reason.text for reason in entry.reasons),
                "letter": entry.text,
            }
            for k, entry in zip(numbers, letters, strict=True)
        ]
        to = write(out, lambda: pd.DataFrame(lines))
        typer.echo(f"Wrote {len(lines)} letters to {to}.", err=True)
    if not all(entry.values or entry.status is cp.Status.ALREADY for entry in letters):
        raise typer.Exit(3)
