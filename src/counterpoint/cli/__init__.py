"""Run the command line, a client of the public names: `main`, and its application `app`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

import counterpoint as cp
from counterpoint.cli.demo import demo
from counterpoint.cli.explain import batch, explain, inspect
from counterpoint.cli.files import require_file
from counterpoint.cli.groups import groups
from counterpoint.cli.judging import audit, compare, recheck
from counterpoint.cli.letter import letter
from counterpoint.cli.models import models
from counterpoint.cli.options import as_options, sections_of, with_options
from counterpoint.cli.serve import serve

__all__ = ["app", "main"]

EXIT_CODES = (
    "Exit codes: 0 every row has an answer; 2 wrong usage or input; 3 some rows have no answer "
    "(the others are written), or a record has a problem; 4 the model cannot be explained; 5 some "
    "records rest on the word of a solver."
)

COMMANDS = (
    *(demo, models, inspect, explain, batch, letter, audit, compare, groups, recheck, serve),
)
EXAMPLES = {c.__name__: " ".join(sections_of(c)[1]["Examples"].split()) for c in COMMANDS}
"""How each command is called, for its help."""

app = typer.Typer(
    name="counterpoint",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _in_sentences(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command, so that errors and warnings become sentences on stderr, and exit codes."""

    @wraps(command)
    def run(**options: Any) -> None:
        fault, code = "", 2
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                _require_inputs(options)
                command(**options)
            except (cp.ModelError, cp.NoSolver, cp.SolverFailure) as error:
                fault, code = str(error), 4
            except cp.CounterpointError as error:
                fault = str(error)
            except BrokenPipeError:
                raise
            except OSError as error:
                fault = f"{error.filename}: {error.strerror or error}."
            finally:
                for sentence in dict.fromkeys(_sentence(warning.message) for warning in caught):
                    typer.echo(f"Note: {sentence}", err=True)
        if fault:
            typer.echo(f"Error: {as_options(fault)}", err=True)
            raise typer.Exit(code)

    return run


INPUTS = ("model", "rows", "data", "spec", "people", "answers", "texts", "space")
"""The options of all commands that name a file to read."""


def _require_inputs(options: dict[str, Any]) -> None:
    """Raise if a file is not there, before a model is loaded, which can take long."""
    for name in INPUTS:
        value = options.get(name)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path):
                require_file(path)


def _sentence(message: Warning | str) -> str:
    """Return a warning as a sentence that speaks of options, not of parameters."""
    if type(message).__name__ == "InconsistentVersionWarning":
        saved = getattr(message, "original_sklearn_version", "another version")
        current = getattr(message, "current_sklearn_version", "another one")
        return (
            f"the model was saved with scikit-learn {saved} and is read with {current}; if that "
            "matters, install the former or save the model anew."
        )
    return as_options(" ".join(str(message).split()))


for command in COMMANDS:
    app.command(
        help=sections_of(command)[0],
        epilog=f"Example: {EXAMPLES[command.__name__]}\n\n{EXIT_CODES}",
    )(_in_sentences(with_options(command)))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"counterpoint {cp.__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def start(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Say which version this is."
        ),
    ] = False,
) -> None:
    """Find the smallest change that changes a model's decision.

    Every answer comes with a certificate that says what is proved. Start with: counterpoint demo
    """


def main() -> None:
    """The command `counterpoint`."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # an old terminal
    app(prog_name="counterpoint")
