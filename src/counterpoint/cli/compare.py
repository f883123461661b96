"""`counterpoint compare`: answers of any tools to the same rows, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import counterpoint as cp
from counterpoint.cli.files import check_out, read_rows, with_formulas, write
from counterpoint.cli.question import Question

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compare"]


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
    """The rows of one file, and which rows they answer."""
    from counterpoint.metrics import read_dice

    if path.suffix == ".json":
        return read_dice(path)
    frame = with_formulas(read_rows(path)) if path.suffix == ".csv" else read_rows(path)
    for column in ("cf_row", "row"):
        if column in frame and column not in names:
            return frame, frame[column].to_numpy()
    return frame, None
