"""What the command line says: sentences on stderr, and exit codes that scripts rely on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer

import counterpoint as cp

__all__ = ["EXIT_CODES", "Exit", "note", "sentences"]


class Exit(IntEnum):
    """The exit codes."""

    ANSWERED = 0
    INPUT = 2
    UNANSWERED = 3
    MODEL = 4


EXIT_CODES = (
    "Exit codes: 0 every row has an answer; 2 wrong usage or input; 3 some rows have no answer "
    "(the others are written); 4 the model cannot be explained."
)


def note(sentence: str) -> None:
    """Say something on stderr."""
    typer.echo(sentence, err=True)


@contextmanager
def sentences() -> Iterator[None]:
    """Errors and warnings of the work inside become sentences on stderr and an exit code."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        code: Exit | None = None
        try:
            yield
        except (cp.ModelError, cp.NoSolver, cp.SolverFailure) as error:
            code = _fail(str(error), Exit.MODEL)
        except cp.CounterpointError as error:
            code = _fail(str(error), Exit.INPUT)
        except BrokenPipeError:
            raise
        except OSError as error:
            code = _fail(f"{error.filename}: {error.strerror or error}.", Exit.INPUT)
        finally:
            for sentence in dict.fromkeys(_sentence(warning.message) for warning in heard):
                note(f"Note: {sentence}")
    if code is not None:
        raise typer.Exit(code)


def _fail(message: str, code: Exit) -> Exit:
    note(f"Error: {message}")
    return code


def _sentence(message: Warning | str) -> str:
    if type(message).__name__ == "InconsistentVersionWarning":
        saved = getattr(message, "original_sklearn_version", "another version")
        here = getattr(message, "current_sklearn_version", "another one")
        return (
            f"the model was saved with scikit-learn {saved} and is read with {here}; if that "
            "matters, install the former or save the model anew."
        )
    return " ".join(str(message).split())
