"""Reads fitted models as representations, with the columns that they take, and rows for them.

Rows are arrays, sparse matrices, frames or AnnData.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, singledispatch
from typing import Any, final

import numpy as np
from scipy import sparse
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline

from counterpoint.errors import InvalidInput, ReaderMismatch, UnsupportedModel
from counterpoint.groups.group_labels import Groups
from counterpoint.groups.representations import (
    Affine,
    Composed,
    Matrix,
    Network,
    Representation,
    dense,
    of_module,
)
from counterpoint.models.categories import fills_of
from counterpoint.models.columns import Columns
from counterpoint.models.dispatch import Inputs, fitted, inputs_of, read_step
from counterpoint.models.reading import see_columns
from counterpoint.models.transformers import run
from counterpoint.numerics import FloatArray
from counterpoint.rows.encoding import encode
from counterpoint.rows.features import Categorical, Continuous, Features, unknown_name
from counterpoint.rows.table import Table

INSTEAD = (
    "Pass linear maps of scikit-learn (scalers, encoders of categories, PCA, TruncatedSVD, "
    "FastICA, FactorAnalysis, linear discriminants, NCA, pipelines and column transformers of "
    "these), a Network, a torch module, your own subclass of Representation, or, for at most 64 "
    "features, FiniteDifferences(model.transform, features)."
)


@final
@dataclass(frozen=True, eq=False)
class ColumnEncoding:
    """The columns that a representation takes, and what missing cells of them count as."""

    features: Features  # before categories are encoded
    named: bool  # whether columns are matched by name, if rows have names, or by position
    fills: Mapping[Hashable, Any] = field(default_factory=dict)  # name → value of a missing cell
    unfilled: Mapping[Hashable, str] = field(default_factory=dict)  # name → why there is none

    @cached_property
    def names(self) -> tuple[Hashable, ...]:
        """The names (d,) of the encoded columns; of categories as ``home=own``."""
        names: list[Hashable] = []
        for feature in self.features:
            if isinstance(feature, Categorical):
                names += [f"{feature.name}={category}" for category in feature.categories]
            else:
                names.append(feature.name)
        return tuple(names)

    def renamed(self, names: Sequence[Hashable]) -> ColumnEncoding:
        """Return the same columns under other names, by which they go from now on."""
        renamed = dict(zip(self.features.names, names, strict=True))
        return ColumnEncoding(
            Features(replace(feature, name=renamed[feature.name]) for feature in self.features),
            named=True,
            fills={renamed[name]: fill for name, fill in self.fills.items()},
            unfilled={renamed[name]: why for name, why in self.unfilled.items()},
        )


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
    """
    return read_model(model)[0]


@represent.register
def _(model: Representation) -> Representation:
    return model


@represent.register
def _(model: MLPRegressor) -> Representation:
    fitted(model)
    if model.out_activation_ != "identity":
        raise UnsupportedModel(
            f"The outputs of this {type(model).__name__} pass {model.out_activation_!r}. {INSTEAD}"
        )
    return Network(model.coefs_, model.intercepts_, model.activation)


def read_model(model: Any) -> tuple[Representation, ColumnEncoding]:
    """Read a model as `represent` does, with the columns that it takes.

    A model is read as a whole, such as a network; step by step, as an affine map; or, if it is a
    pipeline whose last step is read as a whole, as an affine map before that.
    """
    reader = _reader_of(model)
    if reader is not None:
        representation, inputs = reader(model), inputs_of(model)
        width = representation.n_features
        # names serve only if there is one for each column that it takes
        names = inputs.names if inputs is not None and inputs.count == width else None
        features = Features(map(Continuous, names or (f"x{j}" for j in range(width))))
        return representation, ColumnEncoding(features, named=names is not None)
    if isinstance(model, Pipeline):
        steps = [(name, step) for name, step in model.steps if step not in (None, "passthrough")]
        last_name, last = steps[-1] if steps else ("", None)
        if steps and _reader_of(last) is not None:
            second, encoding = read_model(last)
            if len(steps) == 1:
                return second, encoding
            first, encoding = _read_affine(Pipeline(steps[:-1]))
            joined = first.then(second) if isinstance(second, Affine) else Composed(first, second)
            return joined, encoding
        if len(steps) > 1:  # an error that names the step
            _require_step_reader(last, f"Step {last_name!r}: ")
    _require_step_reader(model)
    return _read_affine(model)


def _reader_of(model: Any) -> Callable[[Any], Representation] | None:
    """Return the function that reads a model as a whole; None if it is read step by step."""
    bases = type(model).__mro__
    if any(b.__name__ == "Module" and b.__module__.startswith("torch.nn.") for b in bases):
        return of_module
    registered = represent.dispatch(type(model))
    return None if registered is represent.dispatch(object) else registered


def _require_step_reader(model: Any, where: str = "") -> None:
    """Raise unless there is a reader of steps for a model."""
    is_class = isinstance(model, type)
    if is_class or read_step.dispatch(type(model)) is read_step.dispatch(object):
        name = f"the class {model.__name__}" if is_class else type(model).__name__
        raise UnsupportedModel(f"{where}{name} has no derivatives that are known. {INSTEAD}")


def _read_affine(model: Any) -> tuple[Affine, ColumnEncoding]:
    """Read a transformer of scikit-learn as one affine map of its encoded columns, and these.

    All steps of a pipeline are multiplied out.
    """
    fitted(model)  # raises if it is not
    inputs = inputs_of(model)
    if inputs is None:
        raise UnsupportedModel(
            f"{type(model).__name__} kept no note of the columns that it was fitted on. {INSTEAD}"
        )
    try:
        columns = see_columns(model, inputs)
    except UnsupportedModel as error:
        raise UnsupportedModel(f"{error} Otherwise: {INSTEAD}") from error
    numbers = columns.numbers()  # the outputs as matrix · encoded row + offset
    matrix = numbers.matrix.T.tocsr()  # (d, m), for rows from the left
    faster_dense = matrix.nnz > 0.25 * matrix.shape[0] * matrix.shape[1]
    affine = Affine(matrix.toarray() if faster_dense else matrix, numbers.offset)
    _check_reading(model, inputs, columns.features, affine)
    named = inputs.names is not None
    return affine, ColumnEncoding(columns.features, named, *fills_of(columns))


def _check_reading(model: Any, inputs: Inputs, features: Features, affine: Affine) -> None:
    """Raise unless an affine map does what the transformer does, on four random rows."""
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(4, len(features)))
    columns: list[Any] = list(codes.T)  # of the rows as the transformer takes them
    for j, feature in enumerate(features):
        if isinstance(feature, Categorical):
            categories = rng.integers(len(feature.categories), size=4)
            codes[:, j] = categories
            columns[j] = np.array(feature.categories, dtype=object)[categories]
    rows: Any = np.column_stack(columns)
    if inputs.names is not None:
        import pandas as pd

        rows = pd.DataFrame(dict(zip(features.names, columns, strict=True)))
    expected = run(model, rows, Columns.inputs(1)).astype(np.float64)
    points = features.expand(codes)
    values = affine.vjp(points)[0]
    # Relative to the sizes of the terms; the transformer may compute in single precision.
    sizes = dense(np.abs(points) @ abs(affine.matrix)) + np.abs(affine.offset)
    tolerance = 1e-6 * (sizes + 1e-2)
    if expected.shape != values.shape or (np.abs(expected - values) > tolerance).any():
        raise ReaderMismatch(
            f"What was read of {type(model).__name__} is not what its transform does. "
            f"Please report it; until then: {INSTEAD}"
        )


def read_rows(
    X: Any, groups: Any, encoding: ColumnEncoding, layer: str | None = None
) -> tuple[Matrix, ColumnEncoding, Groups]:
    """Return finite rows (n, d), dense or sparse, the encoding of their columns, and groups."""
    cells, names, groups = _cells_of(X, groups, layer)
    encoding = _matched(encoding, names, cells.shape[1] if names is None else len(names))
    expected = encoding.features.names
    if not isinstance(cells, Table):  # a matrix
        cells = sparse.csr_array(cells) if sparse.issparse(cells) else np.asarray(cells)
        if names is not None and expected != names:
            position = {name: j for j, name in enumerate(names)}
            cells = cells[:, [position[name] for name in expected]]
        if sparse.issparse(cells):
            return _checked_sparse(cells, encoding.features), encoding, groups
        if cells.dtype.kind in "biuf":  # converted all at once, and not column by column
            cells = np.ascontiguousarray(cells, dtype=np.float64)
        cells = Table(cells, expected)
    return _encoded(cells.select(expected), encoding), encoding, groups


def _cells_of(
    X: Any, groups: Any, layer: str | None
) -> tuple[Any, tuple[Hashable, ...] | None, Groups]:
    """Return a table or matrix, the names of its columns or None, and the groups of its rows.

    ``groups`` are labels, or the name of a column that holds them: in a data frame, which then
    loses it, or in ``obs`` of an AnnData. ``layer`` names what to take of an AnnData, from its
    ``layers`` or ``obsm``; None takes its X.
    """
    if any(base.__name__ == "AnnData" for base in type(X).__mro__):  # which is not imported
        if isinstance(groups, str):
            _require_column(groups, tuple(X.obs), "obs")
            groups = X.obs[groups]
        if layer is not None and layer not in X.layers:  # an array or frame, with its own columns
            return _cells_of(_embedded(X, layer), groups, None)
        matrix = X.X if layer is None else X.layers[layer]
        return matrix, tuple(X.var_names.tolist()), Groups.of(groups)
    if layer is not None:
        raise InvalidInput(
            f"Expected an AnnData, because layer={layer!r}; got {type(X).__name__}. Pass one, or "
            "leave layer out."
        )
    table = None if sparse.issparse(X) else Table.read(X)
    if table is None or table.is_array:
        if isinstance(groups, str):
            _require_column(groups, (), "the data frame")  # raises: there are no columns to name
        return X if table is None else table.native, None, Groups.of(groups)
    names = table.names
    if isinstance(groups, str):
        _require_column(groups, names, "the data frame")
        names = tuple(name for name in names if name != groups)
        groups = _labels(table, groups)
    return table, names, Groups.of(groups)


def _embedded(adata: Any, layer: str) -> Any:
    if layer not in adata.obsm:
        raise InvalidInput(
            f"Expected layer to be one of layers or obsm of the AnnData; got {layer!r}, and there "
            f"are {', '.join([*adata.layers, *adata.obsm]) or 'none'}. Leave it out to take X."
        )
    return adata.obsm[layer]


def _labels(table: Table, name: str) -> Any:
    """Return a column of labels, with the order of its categories if it has one."""
    import pandas as pd

    values, levels = table.column(name), table.levels(name)
    return values if levels is None else pd.Categorical(values.tolist(), list(levels))


def _require_column(name: str, names: tuple[Hashable, ...], where: str) -> None:
    if name not in names:
        raise InvalidInput(
            f"Expected the groups to be a column of {where}; got {name!r}, and there are "
            f"{', '.join(map(str, names)) or 'none'}. Pass one of them, or a label for each row."
        )


def _matched(
    encoding: ColumnEncoding, names: tuple[Hashable, ...] | None, width: int
) -> ColumnEncoding:
    """Return the encoding, under the names of the columns if they are matched by position.

    ``width`` columns with these ``names``, or none, are matched by name if the encoding has names,
    too. Raises if columns are missing, or not as many as the encoding has.
    """
    if names is not None and len(set(names)) < len(names):
        duplicate = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidInput(
            f"Expected distinct names of columns; {duplicate!r} is there twice. Rename one; of an "
            "AnnData, call var_names_make_unique."
        )
    expected = encoding.features.names
    if names is not None and encoding.named:
        present = set(names)
        missing = [name for name in expected if name not in present]
        if missing:
            raise InvalidInput(
                f"Expected the columns that the representation was fitted on; {len(missing)} of "
                f"{len(expected)} are missing. {unknown_name(missing[0], names)}"
            )
        return encoding
    if width != len(expected):
        raise InvalidInput(
            f"Expected rows of {len(expected)} features, which the representation takes; got "
            f"{width}. Pass the columns that it was fitted on, in order."
        )
    return encoding if names is None else encoding.renamed(names)


def _checked_sparse(matrix: Matrix, features: Features) -> Matrix:
    """Return sparse rows with finite cells and no duplicate entries."""
    if not features.all_numeric:
        raise InvalidInput(
            "Expected a data frame, because the representation encodes categories; got a sparse "
            "matrix. Pass the frame that has them."
        )
    if not np.isfinite(matrix.data).all():
        raise InvalidInput(
            "Expected finite numbers; got a sparse cell that is none. Impute missing cells, or "
            "leave the rows out."
        )
    if not matrix.has_canonical_format:  # a cell that is there twice counts with its sum
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _encoded(table: Table, encoding: ColumnEncoding) -> FloatArray:
    """Return rows (n, d) with categories encoded and missing cells filled as the model does."""
    encoded = encode(table, encoding.features, encoding.fills, encoding.unfilled)
    if encoded.problems:
        row = min(encoded.problems)
        problem = encoded.problems[row].replace(
            "Describe it with Categorical to add one.",  # the representation knows its categories
            "Leave the row out, or fit on it as well.",
        )
        raise InvalidInput(f"Row {row} cannot be used: {problem}")
    return np.ascontiguousarray(encoding.features.expand(encoded.codes), dtype=np.float64)
