"""`counterpoint audit`, `compare`, `recheck` judge models, answers of tools, and records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

import counterpoint as cp
from counterpoint.cli.files import check_out, read_rows, require_file, with_formulas, write
from counterpoint.cli.model_files import Trust
from counterpoint.cli.options import NotNegative, Salt, SearchEffort
from counterpoint.cli.question import Question

if TYPE_CHECKING:
    import pandas as pd


def audit(
    question: Question,
    effort: SearchEffort,
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
    for kind, file in files.items():
        if file is not None:
            KINDS[kind][1](result, file)
            typer.echo(f"Wrote the {kind} to {file}.", err=True)
    if out is None:
        typer.echo(str(result))
    else:
        typer.echo(f"Wrote the groups to {write(out, result.groups.reset_index)}.", err=True)


KINDS: dict[str, tuple[tuple[str, ...], Callable[[cp.Audit, Path], object]]] = {
    "picture": ((".png", ".svg", ".pdf"), lambda result, file: result.plot().savefig(file)),
    "page": ((".html",), lambda result, file: result.to_html(file)),
    "records": ((".parquet", ".jsonl"), lambda result, file: result.answers.to_records(file)),
}
"""Kinds of files that an audit writes: their endings, and functions that write them."""


def _check(files: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """Raise, before any work, if a file cannot be written, or would replace another."""
    read = {path.resolve() for path in inputs if path}
    for kind, file in files.items():
        if file is None:
            continue
        suffixes = KINDS[kind][0]
        if file.suffix not in suffixes or file.resolve() in read:
            raise cp.InvalidInput(f"Expected a new {' or '.join(suffixes)} file; got {file}.")
        if not file.parent.is_dir():
            raise cp.InvalidInput(f"There is no folder {str(file.parent)!r}; make it first.")
    if files["picture"] or files["page"]:
        from counterpoint.audits.drawing import check_drawing

        check_drawing()


def compare(question: Question, answers: list[Path], out: Path | None = None) -> None:
    """Compare answers of any tools: validity, proximity, violations, distance from the optimum.

    All but found and validity are means over valid answers. A gap of 0.5 says that an answer costs
    twice as much as the cheapest.

    Parameters
    ----------
    answers : COUNTERFACTUALS...
        For each tool a file of answers: rows in the same order, empty where none was found; or with
        a column cf_row or row, the number of the row that each answers, from 0; or a .json file
        that DiCE wrote.
    out : FILE
        Write the table to a .csv, .parquet or .jsonl file; - for JSON lines on standard output.
        Without it, it is shown.

    Examples
    --------
    counterpoint compare model.skops rows.csv dice.json other.csv --data train.csv --target granted
    """
    from counterpoint.metrics import compare as compared

    check_out(out, *question.inputs, *answers)
    explainer, target, X = question.read()
    tools = {path.stem: _answers(path, explainer.features.names) for path in answers}
    if len(tools) < len(answers):
        raise cp.InvalidInput("Two files of answers have the same name; rename one.")
    data = question.source.data
    train = None if data is None else read_rows(data)
    table = compared(explainer, X, tools, target, data=train)
    if out is None:
        typer.echo(table.T.to_string(float_format=lambda value: f"{value:.4g}", na_rep="–"))
        return
    to = write(out, table.rename_axis("tool").reset_index)
    typer.echo(f"Wrote {len(table)} rows to {to}.", err=True)


def _answers(path: Path, names: tuple[Any, ...]) -> tuple[pd.DataFrame, Any]:
    """Return the answers in one file, and the positions of the rows that they answer, if stated."""
    from counterpoint.metrics import read_dice

    if path.suffix == ".json":
        return read_dice(path)
    frame = with_formulas(read_rows(path)) if path.suffix == ".csv" else read_rows(path)
    for column in ("cf_row", "row"):
        if column in frame and column not in names:
            return frame, frame[column].to_numpy()
    return frame, None


def recheck(
    records: Path,
    model: Path,
    trusted: Trust,
    rows: Path | None = None,
    salt: Salt = None,
    accept_reported: bool = False,
) -> None:
    """Check records of answers against a model, without solving anything.

    Exit code 3 if a record has a problem; 5 if none has, but for resting on the word of a solver,
    which --accept-reported accepts.

    Parameters
    ----------
    records : RECORDS
        The records of answers (.jsonl, .parquet).
    model : MODEL
        The fitted model: a .skops file.
    rows
        The rows, in order, if the records hold hashes in their place.
    salt
        The salt that the hashes were made with.
    accept_reported
        Accept records that rest on the word of a solver, which nothing in them proves.

    Examples
    --------
    counterpoint recheck answers.parquet model.skops
    """
    require_file(records)
    loaded = trusted.load(model)
    table = None if rows is None else read_rows(rows)
    result = cp.recheck(records, loaded, rows=table, salt=salt, accept_reported=accept_reported)
    most = 20
    for problem in result.problems[:most]:
        typer.echo(problem)
    if len(result.problems) > most:
        typer.echo(f"and {len(result.problems) - most} more problems")
    reported = int(np.count_nonzero(result.reported))
    words = f", {reported} on the word of a solver" if reported else ""
    typer.echo(
        f"{result.count} records: {result.count - len(result.found)} without a problem, "
        f"{np.count_nonzero(result.proved)} with their optimality or impossibility proved{words}.",
        err=True,
    )
    if not result.ok:
        raise typer.Exit(5 if {*result.found} <= {*np.flatnonzero(result.reported)} else 3)
