"""Everything counterpoint raises, in one tree.

::

    CounterpointError
    ├── InvalidInput (ValueError)      what was passed cannot be used
    │   └── InvalidSpec                a problem file says something that cannot be read
    ├── ModelError
    │   ├── UnsupportedModel           no reader, or a step that cannot be read exactly
    │   ├── ModelNotFitted             the model, or a step of it, has no fitted attributes
    │   └── ReaderMismatch             what was read predicts something else than the model
    ├── NoSolver                       no solver takes every part of the program
    ├── SolverFailure                  a solver backend broke; the original error is its cause
    ├── NoAnswer                       a row has no counterfactual (``raise_for_status``)
    └── MissingExtra (ImportError)     an optional dependency is not installed

Each message is one sentence or two: what was expected, what came, what to do.
"""

from __future__ import annotations

from typing import final

__all__ = [
    "CounterpointError",
    "InvalidInput",
    "InvalidSpec",
    "MissingExtra",
    "ModelError",
    "ModelNotFitted",
    "NoAnswer",
    "NoSolver",
    "ReaderMismatch",
    "SolverFailure",
    "UnsupportedModel",
]


class CounterpointError(Exception):
    """Base of every error that counterpoint raises itself."""


class InvalidInput(CounterpointError, ValueError):
    """What was passed cannot be used; the message says what to pass instead."""


@final
class InvalidSpec(InvalidInput):
    """A problem file (TOML or JSON) says something that cannot be read."""


class ModelError(CounterpointError):
    """Base of what can be wrong with a model."""


@final
class UnsupportedModel(ModelError, TypeError):
    """There is no reader for the model, or one of its steps cannot be read exactly."""


@final
class ModelNotFitted(ModelError, ValueError):
    """The model, or a step of it, has not been fitted."""


@final
class ReaderMismatch(ModelError):
    """The form that was read predicts something else than ``model.predict``."""


@final
class NoSolver(CounterpointError):
    """No solver takes every part of the program; the message names what is missing."""


@final
class SolverFailure(CounterpointError):
    """A solver backend broke; the backend's own error is the cause of this one."""


@final
class NoAnswer(CounterpointError):
    """A row has no counterfactual; raised by ``Counterfactual.raise_for_status``."""


@final
class MissingExtra(CounterpointError, ImportError):
    """An optional dependency is not installed; the message names the extra."""
