"""`counterpoint compare`: answers of any tools to the same rows, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import counterpoint as cp
from counterpoint.cli.files import out_option, read_rows, with_formulas, write
from counterpoint.cli.question import Rows, Source, Wish

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compare"]


def compare(
    wish: Wish,
    source: Source,
    rows: Rows,
    answers: Annotated[
        list[Path],
        typer.Argument(
            metavar="COUNTERFACTUALS...",
            help="For each tool a file of answers: rows in the same order, empty where none was "
            "found; or with a column cf_row or row, the number of the row that each answers, from "
            "0; or a .json file that DiCE wrote.",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, out_option("the table", "it is shown")] = None,
) -> None:
    """Compare answers of any tools: validity, proximity, violations, distance from the optimum.

    All but found and validity are means over valid answers. A gap of 0.5 says that an answer costs
    twice as much as the cheapest.
    """
    from counterpoint.metrics import compare as compared

    source.check_out(out, rows, *answers)
    explainer, wanted = source.explainer(wish)
    tools = {path.stem: _answers(path, explainer.features.names) for path in answers}
    if len(tools) < len(answers):
        raise cp.InvalidInput("Two files of answers have the same name; rename one.")
    train = None if source.data is None else read_rows(source.data)
    table = compared(explainer, read_rows(rows), tools, wanted, data=train)
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
