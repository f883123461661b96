"""`counterpoint recheck`: whether records of answers are true of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import counterpoint as cp
from counterpoint.cli.files import Trust, TrustPickle, load_model

__all__ = ["recheck"]

SHOWN = 20
"""How many problems are shown."""


def recheck(
    records: Annotated[
        Path,
        typer.Argument(
            metavar="RECORDS",
            help="The records of answers (.jsonl, .parquet).",
            show_default=False,
        ),
    ],
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="The fitted model: a .skops file.", show_default=False
        ),
    ],
    trust_pickle: TrustPickle = False,
    trust: Trust = None,
) -> None:
    """Check records of answers against a model, without solving anything.

    Exit code 3 if a record has a problem.
    """
    loaded = load_model(model, trust_pickle=trust_pickle, trust=trust or ())
    records.open("rb").close()
    found = cp.recheck(records, loaded)
    for problem in found.problems[:SHOWN]:
        typer.echo(problem)
    more = len(found.problems) - SHOWN
    if more > 0:
        typer.echo(f"and {more} more problems")
    proved = int(np.count_nonzero(found.proved))
    typer.echo(
        f"{found.count} records: {found.count - len(found.found)} without a problem, {proved} with "
        "their optimality or impossibility proved.",
        err=True,
    )
    if not found.ok:
        raise typer.Exit(3)
