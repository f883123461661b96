"""The command line: a client of the public names."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from counterpoint import __version__
from counterpoint.cli.demo import demo
from counterpoint.cli.explain import explain
from counterpoint.cli.groups import groups
from counterpoint.cli.inspect import inspect
from counterpoint.cli.speech import EXIT_CODES

__all__ = ["app", "main"]

app = typer.Typer(
    name="counterpoint",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=EXIT_CODES)(demo)
app.command(epilog=EXIT_CODES)(inspect)
app.command(epilog=EXIT_CODES)(explain)
app.command(epilog=EXIT_CODES)(groups)


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"counterpoint {__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def start(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda value: _version(wanted=value),
            is_eager=True,
            help="Say which version this is.",
        ),
    ] = False,
) -> None:
    """Find the smallest change that makes a model decide otherwise.

    Every answer is exact and comes with its proof. Start with: counterpoint demo
    """


def main() -> None:
    """The command `counterpoint`."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # an old terminal
    app(prog_name="counterpoint")
