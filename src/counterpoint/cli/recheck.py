"""`counterpoint recheck`: whether records of answers are true of a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import typer

import counterpoint as cp
from counterpoint.cli.files import read_rows, require_file
from counterpoint.cli.model_files import Trust
from counterpoint.cli.options import Salt

__all__ = ["recheck"]

SHOWN = 20
"""Problems that are shown."""


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
    for problem in result.problems[:SHOWN]:
        typer.echo(problem)
    if len(result.problems) > SHOWN:
        typer.echo(f"and {len(result.problems) - SHOWN} more problems")
    reported = int(np.count_nonzero(result.reported))
    words = f", {reported} on the word of a solver" if reported else ""
    typer.echo(
        f"{result.count} records: {result.count - len(result.found)} without a problem, "
        f"{np.count_nonzero(result.proved)} with their optimality or impossibility proved{words}.",
        err=True,
    )
    if not result.ok:
        raise typer.Exit(5 if {*result.found} <= {*np.flatnonzero(result.reported)} else 3)
