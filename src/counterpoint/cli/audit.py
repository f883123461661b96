"""`counterpoint audit`: whom no action helps, and what actions cost by group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
            help="How many fixed rows and how many others are asked about rules.",
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
    """Audit a model: whom no action helps, each proved, and how groups differ."""
    source.check_out(out, rows, texts)
    files = {"picture": plot, "page": html, "records": records}
    _check(files, (rows, source.model, source.data, source.spec, texts, out))
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
    for what, file in files.items():
        if file is not None:
            typer.echo(f"Wrote the {what} to {file}.", err=True)
    if out is None:
        typer.echo(str(result))
    else:
        typer.echo(f"Wrote the groups to {write(out, result.groups.reset_index)}.", err=True)


SUFFIXES = {
    "picture": (".png", ".svg", ".pdf"),
    "page": (".html",),
    "records": (".parquet", ".jsonl"),
}
"""Endings of the files that an audit writes."""


def _check(files: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """Raise, before any work, if a file cannot be written, or would replace another."""
    from counterpoint.audits.drawing import check_drawing

    taken = {path.resolve() for path in inputs if path}
    for what, file in files.items():
        if file is None:
            continue
        if file.suffix not in SUFFIXES[what] or file.resolve() in taken:
            kinds = " or ".join(SUFFIXES[what])
            raise cp.InvalidInput(f"Expected a new {kinds} file; got {file}.")
        if not file.parent.is_dir():
            raise cp.InvalidInput(f"There is no folder {str(file.parent)!r}; make it first.")
    if files["picture"] or files["page"]:
        check_drawing()
