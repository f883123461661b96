"""`counterpoint recheck`: whether records of answers are true of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import counterpoint as cp
from counterpoint.cli.files import option, read_rows, require_file
from counterpoint.cli.model_files import Trust
from counterpoint.cli.question import Model

__all__ = ["recheck"]


def recheck(
    records: Annotated[
        Path,
        typer.Argument(
            metavar="RECORDS",
            help="The records of answers (.jsonl, .parquet).",
            show_default=False,
        ),
    ],
    model: Model,
    trusted: Trust,
    rows: Annotated[
        Path | None, option("The rows, in order, if the records hold hashes in their place.")
    ] = None,
    salt: Annotated[
        str | None,
        option("The salt that the hashes were made with.", envvar="COUNTERPOINT_SALT"),
    ] = None,
    accept_reported: Annotated[
        bool,
        option("Accept records that rest on the word of a solver, which nothing in them proves."),
    ] = False,
) -> None:
    """Check records of answers against a model, without solving anything.

    Exit code 3 if a record has a problem; 5 if none has, but for resting on the word of a solver,
    which --accept-reported accepts.
    """
    require_file(records)
    loaded = trusted.load(model)
    table = None if rows is None else read_rows(rows)
    result = cp.recheck(records, loaded, rows=table, salt=salt, accept_reported=accept_reported)
    most = 20  # problems that are shown
    for problem in result.problems[:most]:
        typer.echo(problem)
    if len(result.problems) > most:
        typer.echo(f"and {len(result.problems) - most} more problems")
    proved = int(np.count_nonzero(result.proved))
    reported = int(np.count_nonzero(result.reported))
    words = f", {reported} on the word of a solver" if reported else ""
    typer.echo(
        f"{result.count} records: {result.count - len(result.found)} without a problem, {proved} "
        f"with their optimality or impossibility proved{words}.",
        err=True,
    )
    if not result.ok:
        raise typer.Exit(5 if {*result.found} <= {*np.flatnonzero(result.reported)} else 3)
