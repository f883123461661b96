"""`counterpoint audit`: whom no action helps, and what actions cost by group."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import counterpoint as cp
from counterpoint.cli.files import option, out_option, read_rows, write
from counterpoint.cli.question import Gap, Rows, Source, TimeLimit, Wish

__all__ = ["audit"]


def audit(
    wish: Wish,
    source: Source,
    rows: Rows,
    by: Annotated[
        str | None,
        option("A column of the rows that holds groups; the model need not use it.", "COLUMN"),
    ] = None,
    protected: Annotated[
        list[str] | None,
        option(
            "A column that must not decide: how many decisions change with it alone, and how much "
            "of the score it carries. Repeatable; without it, what the policy protects.",
            "COLUMN",
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(metavar="P", help="The probability of the intervals.")
    ] = 0.95,
    sample: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="How many fixed rows and how many others are asked about constraints.",
        ),
    ] = 20,
    gap: Gap = 1e-6,
    time_limit: TimeLimit = None,
    out: Annotated[
        Path | None,
        out_option("the table of groups", "tables to read"),
    ] = None,
    plot: Annotated[
        Path | None, option("Draw a picture, as the name of the file says (.png, .svg).", "FILE")
    ] = None,
    html: Annotated[
        Path | None, option("Write a page of its own, for a browser or a printer (.html).", "FILE")
    ] = None,
    texts: Annotated[
        Path | None,
        option("What to call features, groups and decisions (.toml), as for letters.", "TEXTS"),
    ] = None,
    records: Annotated[
        Path | None,
        option(
            "Write a record of each row, with its proof, for `counterpoint recheck` (.parquet, "
            ".jsonl).",
            "FILE",
        ),
    ] = None,
) -> None:
    """Audit a model: the rows that no action helps, each proved, and what actions cost by group."""
    source.check_out(out, rows, texts)
    outputs = ((plot, (".png", ".svg", ".pdf")), (html, (".html",)))
    for file, kinds in (*outputs, (records, (".parquet", ".jsonl"))):
        inputs = (rows, source.model, source.data, source.spec, texts, out)
        taken = [path.resolve() for path in inputs if path]
        if file and (file.suffix not in kinds or file.resolve() in taken):
            raise cp.InvalidInput(f"Expected a new {' or '.join(kinds)} file; got {file}.")
    explainer, wanted = source.explainer(wish)
    result = cp.audit(
        explainer,
        read_rows(rows),
        wanted,
        by,
        texts=texts,
        protected=protected,
        confidence=confidence,
        sample=sample,
        gap=gap,
        time_limit=time_limit,
    )
    if plot is not None:
        result.plot().savefig(plot)
    if html is not None:
        result.to_html(html)
    if records is not None:
        result.answers.to_records(records)
    if out is None:
        typer.echo(str(result))
    else:
        typer.echo(f"Wrote the groups to {write(out, result.groups.reset_index)}.", err=True)
