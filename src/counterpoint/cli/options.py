"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Data", "Extrapolate", "Model", "Spec", "Trust", "TrustPickle"]

Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="The fitted model: a .skops file.", show_default=False),
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="TRAIN",
        help="Rows like those the model was fitted on (.csv, .parquet, .jsonl): kinds of features, "
        "observed ranges and the default cost come from them.",
        show_default=False,
    ),
]
Extrapolate = Annotated[
    bool,
    typer.Option(
        "--extrapolate", help="With --data: numbers may leave the range that the data show."
    ),
]
Spec = Annotated[
    Path | None,
    typer.Option(
        metavar="POLICY",
        help="A policy file (.toml, .json): target, cost, constraints, features.",
        show_default=False,
    ),
]
TrustPickle = Annotated[
    bool,
    typer.Option(
        "--trust-pickle",
        help="Load a .pkl, .pickle or .joblib file, though loading it can run any program that its "
        "author put in.",
        rich_help_panel="Model file",
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE",
        help="Load this type from a .skops file, though it is not known to be safe. Repeatable.",
        show_default=False,
        rich_help_panel="Model file",
    ),
]
