"""`counterpoint audit`: whom no action helps, and what actions cost by group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import typer

import counterpoint as cp
from counterpoint.cli.files import check_out, write
from counterpoint.cli.options import Effort, NotNegative
from counterpoint.cli.question import Question

__all__ = ["audit"]


def audit(
    question: Question,
    effort: Effort,
    by: str | None = None,
    protected: list[str] | None = None,
    confidence: float = 0.95,
    sample: NotNegative = 20,
    out: Path | None = None,
    plot: Path | None = None,
    html: Path | None = None,
    texts: Path | None = None,
    records: Path | None = None,
) -> None:
    """Audit a model: whom no action helps, each proved, and how groups differ.

    Parameters
    ----------
    by : COLUMN
        A column of the rows that holds groups; the model need not use it.
    protected : COLUMN
        A column that must not decide: how many decisions change with it alone, and how much of the
        score it carries. Repeatable; without it, what the policy protects.
    confidence : P
        The probability of the intervals.
    sample : N
        How many fixed rows and how many others are asked about rules.
    out : FILE
        Write the table of groups to a .csv, .parquet or .jsonl file; - for JSON lines on standard
        output. Without it, tables to read.
    plot : FILE
        Draw a picture, as the name of the file says (.png, .svg).
    html : FILE
        Write a page of its own, for a browser or a printer (.html).
    texts : TEXTS
        What to call features, groups and decisions (.toml), as for letters.
    records : FILE
        Write a record of each row, with its proof, for `counterpoint recheck` (.parquet, .jsonl).

    Examples
    --------
    counterpoint audit model.skops rows.csv --data train.csv --target granted --by sex
    """
    check_out(out, *question.inputs, texts)
    files = {"picture": plot, "page": html, "records": records}
    _check(files, (*question.inputs, texts, out))
    explainer, target, X = question.read()
    result = cp.audit(
        explainer,
        X,
        target,
        by,
        texts=texts,
        protected=protected,
        confidence=confidence,
        sample=sample,
        **vars(effort),
    )
    for what, file in files.items():
        if file is not None:
            KINDS[what][1](result, file)
            typer.echo(f"Wrote the {what} to {file}.", err=True)
    if out is None:
        typer.echo(str(result))
    else:
        typer.echo(f"Wrote the groups to {write(out, result.groups.reset_index)}.", err=True)


KINDS: dict[str, tuple[tuple[str, ...], Callable[[cp.Audit, Path], object]]] = {
    "picture": ((".png", ".svg", ".pdf"), lambda result, file: result.plot().savefig(file)),
    "page": ((".html",), lambda result, file: result.to_html(file)),
    "records": ((".parquet", ".jsonl"), lambda result, file: result.answers.to_records(file)),
}
"""Files that an audit writes: their endings, and what writes them."""


def _check(files: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """Raise, before any work, if a file cannot be written, or would replace another."""
    taken = {path.resolve() for path in inputs if path}
    for what, file in files.items():
        if file is None:
            continue
        suffixes = KINDS[what][0]
        if file.suffix not in suffixes or file.resolve() in taken:
            raise cp.InvalidInput(f"Expected a new {' or '.join(suffixes)} file; got {file}.")
        if not file.parent.is_dir():
            raise cp.InvalidInput(f"There is no folder {str(file.parent)!r}; make it first.")
    if files["picture"] or files["page"]:
        from counterpoint.audits.drawing import check_drawing

        check_drawing()
