"""Fitted models as representations, and the columns that they take."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline

from counterpoint.errors import ReaderMismatch, UnsupportedModel
from counterpoint.groups.representations import (
    Affine,
    Composed,
    Network,
    Representation,
    dense,
    of_module,
)
from counterpoint.groups.tables import Intake
from counterpoint.models.categories import fills_of
from counterpoint.models.columns import Columns
from counterpoint.models.dispatch import Inputs, fitted, inputs_of, read_step
from counterpoint.models.reading import see_columns
from counterpoint.models.transformers import run
from counterpoint.rows.features import Categorical, Features

__all__ = ["read_model", "represent"]

INSTEAD = (
    "Pass linear maps of scikit-learn (scalers, encoders of categories, PCA, TruncatedSVD, "
    "FastICA, FactorAnalysis, linear discriminants, NCA, pipelines and column transformers of "
    "these), a Network, a torch module, your own subclass of Representation, or "
    "FiniteDifferences(function, features) for few features."
)
Reading = tuple[Representation, Intake | None]
"""A representation, and the columns that it takes; None if only their number is known."""


@singledispatch
def represent(model: Any) -> Representation:
    """Read a fitted model as a representation.

    Linear maps of scikit-learn become one affine map, with all pipeline steps folded in; a column
    of categories that they encode becomes a column of zeros and ones for each category. Add yours
    with ``@represent.register(MyModel)``.

    Parameters
    ----------
    model
        A fitted transformer of scikit-learn or a pipeline of these, an ``MLPRegressor`` whose
        outputs are the space, a torch module, or a `Representation`.

    Returns
    -------
    Representation

    Raises
    ------
    UnsupportedModel
        If it has no derivatives that are known.
    ModelNotFitted
        If it, or a step of it, has not been fitted.
    ReaderMismatch
        If what was read is not what the model does.
    """
    return read_model(model)[0]


@represent.register
def _(model: Representation) -> Representation:
    return model


@represent.register
def _(model: MLPRegressor) -> Representation:
    fitted(model)
    return Network(model.coefs_, model.intercepts_, model.activation, model.out_activation_)


def read_model(model: Any) -> Reading:
    """Read a fitted model as `represent` does, with the columns that it takes."""
    reader = _reader_of(model)
    if reader is not None:
        found, inputs = reader(model), inputs_of(model)
        names = None if inputs is None else inputs.names
        return found, None if names is None else Intake.numbers(names, named=True)
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        name, last = model.steps[-1]
        reader = _reader_of(last)
        if reader is not None:
            head, intake = read_model(model[:-1])
            return _followed(head, reader(last)), intake
        if last is not None and not isinstance(last, str):  # words for steps that do nothing
            _require_trace(last, f"Step {name!r}: ")
    _require_trace(model)
    return _traced(model)


def _reader_of(model: Any) -> Callable[[Any], Representation] | None:
    """What reads a model as a whole; None for what is read step by step."""
    bases = type(model).__mro__
    if any(b.__name__ == "Module" and b.__module__.startswith("torch.nn.") for b in bases):
        return of_module
    registered = represent.dispatch(type(model))
    return None if registered is represent.dispatch(object) else registered


def _followed(first: Representation, rest: Representation) -> Representation:
    if not isinstance(first, Affine):
        raise UnsupportedModel(f"Only the last step of a pipeline may bend. {INSTEAD}")
    return first.then(rest) if isinstance(rest, Affine) else Composed(first, rest)


def _require_trace(model: Any, where: str = "") -> None:
    """Raise unless there is a reader of steps for a model."""
    is_class = isinstance(model, type)
    if is_class or read_step.dispatch(type(model)) is read_step.dispatch(object):
        what = f"the class {model.__name__}" if is_class else type(model).__name__
        raise UnsupportedModel(f"{where}{what} has no derivatives that are known. {INSTEAD}")


def _traced(model: Any) -> Reading:
    """A transformer, step by step."""
    fitted(model)
    inputs = inputs_of(model)
    if inputs is None:
        raise UnsupportedModel(
            f"{type(model).__name__} kept no note of the columns that it was fitted on. {INSTEAD}"
        )
    columns = see_columns(model, inputs)
    own = columns.numbers()
    matrix = own.matrix.T.tocsr()
    filled = matrix.nnz > 0.25 * matrix.shape[0] * matrix.shape[1]  # about where dense is faster
    found = Affine(matrix.toarray() if filled else matrix, own.offset)
    _check(model, inputs, columns.features, found)
    return found, Intake(columns.features, inputs.names is not None, *fills_of(columns))


def _check(model: Any, inputs: Inputs, features: Features, found: Affine) -> None:
    """Raise unless an affine map does what the transformer does, on four rows."""
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(4, len(features)))
    cells: list[Any] = list(codes.T)
    for j, feature in enumerate(features):
        if isinstance(feature, Categorical):
            at = rng.integers(len(feature.categories), size=4)
            codes[:, j] = at
            cells[j] = np.array(feature.categories, dtype=object)[at]
    rows: Any = np.column_stack(cells)
    if inputs.names is not None:
        import pandas as pd

        rows = pd.DataFrame(dict(zip(features.names, cells, strict=True)))
    told = run(model, rows, Columns.inputs(1)).astype(np.float64)
    points = features.expand(codes)
    read = found.vjp(points)[0]
    # Relative to what values add up from; steps may be of single floats.
    near = 1e-6 * (dense(np.abs(points) @ abs(found.matrix)) + np.abs(found.offset) + 1e-2)
    if told.shape != read.shape or (np.abs(told - read) > near).any():
        raise ReaderMismatch(
            f"What was read of {type(model).__name__} is not what its transform does. "
            f"Please report it; until then: {INSTEAD}"
        )
