"""Read preprocessing steps: scalers, projections, encoders, imputers.

A step that is affine gives its fitted attributes as a matrix and an offset. Any other is run on
every category (`by_running`), so it may take numbers only if it passes them on as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import decomposition, kernel_approximation, preprocessing
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.random_projection import BaseRandomProjection

from counterpoint.models.categories import settle_categories
from counterpoint.models.columns import NUMBERS, Columns, Fill, Lookup
from counterpoint.models.dispatch import dense, quiet, read_step
from counterpoint.models.form import Magnitude
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray
from counterpoint.rows.cells import is_missing

Run = Callable[[IntArray], NDArray[Any]]
"""(n, p) category codes → (n, m') the outputs of a step for these rows."""
Parts = dict[int, tuple[BoolArray, Any]]
"""Feature → the outputs (m',) that vary with it, and all outputs (c, m') for its categories."""

OWN = "the model takes that for a category of its own"
INDICATED = "the model also looks at whether it is missing"


# --- affine, column by column ---


@read_step.register(preprocessing.RobustScaler | preprocessing.StandardScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    if isinstance(scaler, preprocessing.StandardScaler):
        center, subtracts, divides = scaler.mean_, scaler.with_mean, scaler.with_std
    else:
        center, subtracts, divides = scaler.center_, scaler.with_centering, scaler.with_scaling
    subtract = [("subtract", dense(center))] if subtracts else []
    divide = [("divide", dense(scaler.scale_))] if divides else []
    return columns.operated(*subtract, *divide)


@read_step.register(preprocessing.MaxAbsScaler | preprocessing.MinMaxScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    if getattr(scaler, "clip", False):  # not affine; for numbers a family has a reader
        return by_running(scaler, columns)
    if isinstance(scaler, preprocessing.MinMaxScaler):
        return columns.operated(("multiply", dense(scaler.scale_)), ("add", dense(scaler.min_)))
    return columns.operated(("divide", dense(scaler.scale_)))


@read_step.register(SelectorMixin)
def _(selector: Any, columns: Columns) -> Columns:
    return replace(columns.take(selector.get_support(indices=True)), names=None)


@read_step.register(preprocessing.FunctionTransformer)
def _(transformer: Any, columns: Columns) -> Columns:
    if transformer.func is None:
        return replace(columns, names=None)
    func = getattr(transformer.func, "__name__", repr(transformer.func))
    raise columns.refusal(
        transformer,
        f"what the function {func!r} does cannot be known. Apply it to the data before fitting "
        "(then its result is a raw column), or give your own transformer class a reader with "
        "@counterpoint.models.read_step.register.",
    )


# --- affine, with outputs of many columns ---


def _centered(columns: Columns, axes: FloatArray, mean: FloatArray) -> Columns:
    """Return the columns axes · (columns − mean), with the terms of both steps."""
    return columns.scaled(1.0, -mean).affine(axes)


@read_step.register(decomposition.PCA | decomposition.IncrementalPCA)
def _(pca: Any, columns: Columns) -> Columns:
    axes = dense(pca.components_)
    if pca.whiten:
        scale = np.sqrt(pca.explained_variance_)
        # as scikit-learn does: directions without variance are not blown up
        scale = dense(np.maximum(scale, np.finfo(scale.dtype).eps))
        axes = axes / scale[:, None]
    return _centered(columns, axes, dense(pca.mean_))


@read_step.register(decomposition.FastICA)
def _(ica: Any, columns: Columns) -> Columns:
    mean = dense(ica.mean_) if ica.whiten else np.zeros(len(columns))
    return _centered(columns, dense(ica.components_), mean)


@read_step.register(
    decomposition.TruncatedSVD | NeighborhoodComponentsAnalysis | BaseRandomProjection
)
def _(projection: Any, columns: Columns) -> Columns:
    return columns.affine(projection.components_)


@read_step.register(LinearDiscriminantAnalysis)
def _(lda: Any, columns: Columns) -> Columns:
    count = run(lda, np.zeros((1, len(columns))), columns).shape[1]
    axes = dense(lda.scalings_)[:, :count].T
    center = dense(lda.xbar_) if lda.solver == "svd" else np.zeros(len(columns))
    return _centered(columns, axes, center)


@read_step.register(decomposition.FactorAnalysis)
def _(model: Any, columns: Columns) -> Columns:
    """The posterior mean of the factors: (I + W Ψ⁻¹ Wᵀ)⁻¹ W Ψ⁻¹ (columns − mean)."""
    components = dense(model.components_)
    weighted = components / model.noise_variance_
    axes = np.linalg.solve(np.eye(len(weighted)) + weighted @ components.T, weighted)
    return _centered(columns, dense(axes), dense(model.mean_))


@read_step.register(decomposition.MiniBatchSparsePCA | decomposition.SparsePCA)
def _(projection: Any, columns: Columns) -> Columns:
    """Find the affine map from the outputs at 0 and at unit vectors, and check it at random rows.

    Fitted attributes do not give it: ``transform`` solves a ridge regression for each row.
    """
    rows = np.random.default_rng(0).normal(size=(8, len(columns)))  # one would do, almost surely
    corners = np.vstack([np.zeros(len(columns)), np.eye(len(columns))])
    outputs = run(projection, np.vstack([corners, rows]), columns)
    offset, expected = outputs[0], outputs[len(corners) :]
    matrix = (outputs[1 : len(corners)] - offset).T
    size = np.abs(rows) @ np.abs(matrix.T) + np.abs(offset)
    if (np.abs(rows @ matrix.T + offset - expected) > SAME * size).any():
        raise columns.refusal(projection, "it is not affine. Use PCA or TruncatedSVD instead.")
    return columns.affine(matrix, offset)


@read_step.register(preprocessing.PolynomialFeatures)
def _(expansion: Any, columns: Columns) -> Columns:
    powers = expansion.powers_
    degrees = powers.sum(axis=1)
    if degrees.max(initial=0) > 1:
        return by_running(expansion, columns, mixes=True)
    return columns.affine(sparse.csr_array(powers), (degrees == 0).astype(float))


# --- run on every category ---


@read_step.register(
    preprocessing.OneHotEncoder | preprocessing.OrdinalEncoder | preprocessing.TargetEncoder
)
def _(encoder: Any, columns: Columns) -> Columns:
    strict = getattr(encoder, "handle_unknown", "") == "error"
    settle_categories(encoder, columns, strict=strict)
    fills = {}
    for j, categories in enumerate(encoder.categories_):
        has_own = any(map(is_missing, categories.tolist()))  # a category for missing cells
        fills[j] = Fill(why_not=OWN if has_own else "")
    return by_running(encoder, columns.filled(fills))


# --- missing cells ---

# The common base of SimpleImputer, KNNImputer and IterativeImputer is private, and importing the
# last needs an experimental switch that is not ours to turn on.
_Imputer: Any = SimpleImputer.__base__


@read_step.register(_Imputer | SimpleImputer | MissingIndicator)
def _(imputer: Any, columns: Columns) -> Columns:
    if isinstance(imputer, SimpleImputer):
        fills = dict(_constants(imputer))
    elif isinstance(imputer, MissingIndicator):
        indicated = range(len(columns)) if imputer.error_on_new else imputer.features_.tolist()
        fills = dict.fromkeys(indicated, Fill(why_not=INDICATED))
    else:
        why_not = "the pipeline's fill for it depends on other columns"
        fills = dict.fromkeys(range(len(columns)), Fill(why_not=why_not))
    numbers = np.flatnonzero(columns.sources == NUMBERS)
    if len(numbers) and not is_missing(imputer.missing_values):
        raise columns.refusal(
            imputer,
            f"it replaces the number {imputer.missing_values!r}, which is not affine in "
            f"{columns.label(int(numbers[0]))}. Mark missing cells as NaN instead.",
        )
    # numbers come out as they are, or of an indicator not at all
    return by_running(imputer, columns.filled(fills), passes=True)


def _constants(imputer: Any) -> Iterator[tuple[int, Fill]]:
    """Yield the columns into which a fitted imputer puts a constant, with their fills."""
    indicated = set() if imputer.indicator_ is None else set(imputer.indicator_.features_.tolist())
    why_not = None if is_missing(imputer.missing_values) else ""
    invented = imputer.strategy == "constant"
    for j, value in enumerate(imputer.statistics_.tolist()):
        if not is_missing(value):
            yield j, Fill(value, INDICATED if j in indicated else why_not, invented)


# --- running ---

SAME = 1e-9
"""The relative difference up to which two numbers count as the same: rounding takes fewer than
seven of float64's sixteen digits, and another function leaves fewer than nine."""
NOT_A_SUM = (
    "its output mixes several features in a way that is not a sum of one part for each. "
    "Apply it to the columns of one feature at a time, or leave it out."
)


def run(step: Any, rows: Any, columns: Columns, method: str = "transform") -> NDArray[Any]:
    """Run a fitted step on rows, or cells by column, and make a dense array of what it returns."""
    rows = _input_of(step, rows) if isinstance(rows, list) else rows
    try:
        with quiet():
            out = getattr(step, method)(rows)
    except (ValueError, TypeError, KeyError, IndexError, NotImplementedError) as error:
        raise columns.refusal(
            step, f"it does not take the values that reach it ({error}). Check its input."
        ) from error
    out = out.toarray() if sparse.issparse(out) else np.asarray(out)
    return out if out.ndim == 2 else out.reshape(len(out), -1)


def by_running(
    step: Any,
    columns: Columns,
    *,
    method: str = "transform",
    mixes: bool = False,
    passes: bool = False,
) -> Columns:
    """Read a step by running it on every category of the features before it.

    A column of categories takes finitely many values, so a step that works column by column is
    known completely once it has been run on each: no option of an encoder needs to be understood,
    its own ``transform`` answers. A step that mixes columns is known as well if all of them depend
    on one feature, or if its output is a sum of parts of one feature each on every combination.

    Each of the ``columns`` must be constant or depend on one categorical feature; if ``passes``,
    they may hold numbers as well, which come out as they are, or not at all. With ``mixes`` an
    output may depend on several columns, so that a sum is checked on every combination of
    categories.
    """
    if not len(columns):
        return replace(columns, names=None)
    sources = columns.sources
    numbers = np.flatnonzero(sources == NUMBERS)
    if len(numbers) and not passes:
        raise columns.refusal(
            step,
            f"it is not an affine function of numbers, and {columns.label(int(numbers[0]))} holds "
            "numbers. Use an affine step (StandardScaler, MinMaxScaler, RobustScaler) there, or "
            "transform the column in the data before fitting.",
        )
    # Columns of numbers hold a mark in all rows of a run: outputs that pass it on tell by it which
    # column they are. A second run with other marks tells which outputs pass any on.
    marks = np.random.default_rng(0).normal(size=(2, len(columns)))
    values = [
        marks[:, j] if source == NUMBERS else columns.values(j)
        for j, source in enumerate(sources.tolist())
    ]

    def outputs(codes: IntArray, marking: int = 0) -> NDArray[Any]:
        cells = []
        for column, source in zip(values, sources.tolist(), strict=True):
            same = np.full(len(codes), marking if source == NUMBERS else 0)
            cells.append(column[codes[:, source] if source >= 0 else same])
        return run(step, cells, columns, method)

    features = np.unique(sources[sources >= 0]).tolist()
    first_categories = np.zeros((1, len(columns.features)), dtype=np.intp)
    base = outputs(first_categories)[0]
    parts = {feature: _varied(step, columns, outputs, base, feature) for feature in features}
    after = _assembled(step, columns, base, parts)
    if len(features) > 1:
        codes = _combinations(columns, features, mixes=mixes)
        if codes is None or not _is_sum(after, codes, outputs(codes)):
            raise columns.refusal(step, NOT_A_SUM)
    after = after.bent(columns.curves, columns.lift) if columns.curves else after
    if not len(numbers):
        return after
    other = outputs(first_categories, 1)[0]
    return _with_numbers(step, after, columns, marks, (base, other))


def _input_of(step: Any, columns: list[NDArray[Any]]) -> Any:
    """Arrange columns of cells as a step's input: a frame if it was fitted on names, or an array.

    An encoder whose categories are of dtype object was fitted on objects, and gets these again. An
    array has one dtype: if any of its columns are objects all become so, for beside words NumPy
    would turn numbers into words.
    """
    categories = [np.asarray(of_column) for of_column in getattr(step, "categories_", ())]
    names = getattr(step, "feature_names_in_", None)
    if names is None:
        if any(values.dtype == object for values in (*columns, *categories)):
            columns = [column.astype(object) for column in columns]
        return np.column_stack(columns)
    import pandas as pd

    for j, of_column in enumerate(categories):
        columns[j] = columns[j].astype(object) if of_column.dtype == object else columns[j]
    return pd.DataFrame(dict(zip(names, columns, strict=True)))


def _varied(
    step: Any, columns: Columns, outputs: Run, base: NDArray[Any], feature: int
) -> tuple[BoolArray, Any]:
    """Run a step on all c categories of a feature, all other features at their first category.

    Returns the mask (m',) of the outputs that vary with the feature, and all outputs (c, m'),
    sparse if they are numbers. ``base`` (m',) are the outputs where all features are at their first
    category.
    """
    varies = np.zeros(len(base), dtype=bool)
    chunks: list[Any] = []
    block, size = columns.features.blocks[feature], 1024  # rows at a time: outputs may be wide
    for start in range(0, block.stop - block.start, size):
        categories = np.arange(start, min(start + size, block.stop - block.start))
        codes = np.zeros((len(categories), len(columns.features)), dtype=np.intp)
        codes[:, feature] = categories
        chunk = outputs(codes)
        if chunk.dtype.kind == "f" and not np.isfinite(chunk).all():
            category = start + int(np.flatnonzero(~np.isfinite(chunk).all(axis=1))[0])
            name = columns.features.names[feature]
            raise columns.refusal(
                step,
                "it gives no finite number for the category "
                f"{columns.features.describe(name, category)!r} of column {name!r}. "
                "Let it encode that category as a number.",
            )
        varies |= np.asarray(chunk != base).any(axis=0)
        is_number = chunk.dtype.kind in "biuf"
        chunks.append(sparse.csr_array(chunk.astype(np.float64)) if is_number else chunk)
    return varies, sparse.vstack(chunks) if sparse.issparse(chunks[0]) else np.concatenate(chunks)


def _assembled(step: Any, columns: Columns, base: NDArray[Any], parts: Parts) -> Columns:
    """Build each output from the runs: coefficients if all outputs are numbers, else lookups.

    Words cannot be added up, so an output that is looked up depends on one feature at most.
    """
    count = sum((varies.astype(int) for varies, _ in parts.values()), np.zeros(len(base)))
    matrix, lookups = sparse.csr_array((len(base), columns.features.width)), dict[int, Lookup]()
    if base.dtype.kind in "biuf":
        matrix, offset = _coefficients(columns, base, parts, count)
    elif (count > 1).any():
        raise columns.refusal(step, NOT_A_SUM)
    else:
        offset, lookups = _looked_up(base, parts)
    return replace(
        columns.seen(),
        curves=(),
        matrix=matrix,
        offset=offset,
        sizes=Magnitude(abs(matrix), np.abs(offset), 0),
        gaps=np.full(len(base), -1),
        lookups=lookups,
        names=None,
        computed={},
    )


def _coefficients(
    columns: Columns, base: NDArray[Any], parts: Parts, count: NDArray[Any]
) -> tuple[Any, FloatArray]:
    """Return the matrix and offset of outputs that are numbers, ``count`` (m',) features each.

    An output of one feature has its values as coefficients and no offset. One of several has the
    offset ``base``, and the differences from it as coefficients.
    """
    matrix = sparse.csr_array((len(base), columns.features.width))
    offset = np.where(count == 1, 0.0, base.astype(np.float64))
    for feature, (varies, values) in parts.items():
        outputs = np.flatnonzero(varies)
        block: Any = sparse.csc_array(values)[:, outputs]
        if (count[outputs] > 1).any():
            block = block.toarray() - offset[outputs]
        entries = sparse.coo_array(block)
        rows, categories = outputs[entries.coords[1]], entries.coords[0]
        place = rows, columns.features.blocks[feature].start + categories
        matrix += sparse.csr_array(sparse.coo_array((entries.data, place), shape=matrix.shape))
    return matrix, offset


def _looked_up(base: NDArray[Any], parts: Parts) -> tuple[FloatArray, dict[int, Lookup]]:
    """Return numbers that never change, and lookups of all other outputs, one feature each."""
    offset, lookups = np.zeros(len(base)), dict[int, Lookup]()
    for feature, (varies, values) in parts.items():
        lookups |= {j: (feature, values[:, j]) for j in np.flatnonzero(varies).tolist()}
    for j, value in enumerate(base):
        if j in lookups:
            continue
        if isinstance(value, int | float | np.number):
            offset[j] = float(value)
        elif parts:  # a word: the same for each category of any feature
            feature, (_, values) = next(iter(parts.items()))
            lookups[j] = feature, np.full(values.shape[0], value, dtype=object)
    return offset, lookups


def _combinations(columns: Columns, features: list[int], *, mixes: bool) -> IntArray | None:
    """List codes (n, p) to check a sum on: random ones, or all; None if these are too many."""
    blocks = [columns.features.blocks[feature] for feature in features]
    counts = [block.stop - block.start for block in blocks]
    if mixes and prod(counts) > 4096:  # rows, which take a step some milliseconds
        return None
    if mixes:
        rows = np.indices(counts).reshape(len(counts), -1).T
    else:  # a step that works column by column is a sum; random rows show if it does not
        rows = np.random.default_rng(0).integers(counts, size=(64, len(counts)))
    codes = np.zeros((len(rows), len(columns.features)), dtype=np.intp)
    codes[:, features] = rows
    return codes


def _is_sum(after: Columns, codes: IntArray, outputs: NDArray[Any]) -> bool:
    """Return whether a step's outputs (n, m') for codes (n, p) are those that ``after`` gives."""
    lookups = after.lookups.items()
    if any((outputs[:, j] != values[codes[:, feature]]).any() for j, (feature, values) in lookups):
        return False
    numeric = [j for j in range(len(after)) if j not in after.lookups]
    sums, encoded = after.take(numeric), after.features.expand(codes.astype(np.float64))
    expected = np.asarray(encoded @ sums.matrix.T + sums.offset)
    numbers = outputs[:, numeric].astype(np.float64)
    # Where terms cancel, the rounding of the largest output is left, which must not excuse an error
    # in an output that is small itself.
    largest = np.abs(numbers).max(axis=0, initial=0.0)
    cancelled = np.minimum(64.0 * EPS * largest.max(initial=0.0), SAME * largest)
    allowed = SAME * sums.sizes(encoded) + cancelled
    return bool((np.abs(numbers - expected) <= allowed).all())


def _with_numbers(
    step: Any, after: Columns, before: Columns, marks: FloatArray, outputs: tuple[Any, Any]
) -> Columns:
    """Give outputs that pass on a column of numbers that column's coefficients.

    ``marks`` (2, m) are the numbers in two runs of the step, and ``outputs`` (m',) those of either:
    an output that differs between the runs must be the two marks of one column.
    """
    first, second = outputs
    passing = np.flatnonzero(first != second)
    is_mark = (marks[0] == first[passing, None]) & (marks[1] == second[passing, None])
    if not is_mark.any(axis=1).all():
        raise before.refusal(
            step, "it changes numbers that are not missing. Impute in the data before fitting."
        )
    source, shape = is_mark.argmax(axis=1), (len(after), len(before))
    select = sparse.csr_array((np.ones(len(passing)), (passing, source)), shape)
    offset, size = after.offset.copy(), after.sizes.offset.copy()
    offset[passing], size[passing] = before.offset[source], before.sizes.offset[source]
    sizes = Magnitude(after.sizes.matrix + select @ before.sizes.matrix, size, before.sizes.terms)
    matrix = sparse.csr_array(after.matrix + select @ before.matrix)
    pairs = zip(passing.tolist(), source.tolist(), strict=True)
    computed = {i: before.computed[j] for i, j in pairs if j in before.computed}
    return replace(after, matrix=matrix, offset=offset, sizes=sizes, computed=computed)


read_step.register(
    kernel_approximation.AdditiveChi2Sampler
    | preprocessing.Binarizer
    | preprocessing.KBinsDiscretizer
    | preprocessing.PowerTransformer
    | preprocessing.QuantileTransformer
    | preprocessing.SplineTransformer,
    by_running,
)
read_step.register(
    kernel_approximation.Nystroem
    | kernel_approximation.PolynomialCountSketch
    | kernel_approximation.RBFSampler
    | kernel_approximation.SkewedChi2Sampler
    | preprocessing.Normalizer,
    partial(by_running, mixes=True),
)
