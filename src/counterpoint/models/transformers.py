"""Readers of preprocessing steps: scalers, projections, encoders, imputers.

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
"""(n, p) category codes → (n, m') what a step makes of these rows."""
Parts = dict[int, tuple[BoolArray, Any]]
"""Feature → the outputs that vary with it, and all outputs for each of its categories."""

OWN = "the model takes that for a category of its own"
INDICATED = "the model also looks at whether it is missing"


# --- affine, column by column ---


@read_step.register(preprocessing.RobustScaler | preprocessing.StandardScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    if isinstance(scaler, preprocessing.StandardScaler):
        center, centers, scales = scaler.mean_, scaler.with_mean, scaler.with_std
    else:
        center, centers, scales = scaler.center_, scaler.with_centering, scaler.with_scaling
    subtract = [("subtract", dense(center))] if centers else []
    divide = [("divide", dense(scaler.scale_))] if scales else []
    return columns.operated(*subtract, *divide)


@read_step.register(preprocessing.MaxAbsScaler | preprocessing.MinMaxScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    if getattr(scaler, "clip", False):  # of numbers, a family reads it
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
    components = dense(model.components_)
    loads = components / model.noise_variance_
    axes = np.linalg.solve(np.eye(len(loads)) + loads @ components.T, loads)
    return _centered(columns, dense(axes), dense(model.mean_))


@read_step.register(decomposition.MiniBatchSparsePCA | decomposition.SparsePCA)
def _(projection: Any, columns: Columns) -> Columns:
    """Affine, but their attributes do not say how: found from their values at unit vectors."""
    rows = np.random.default_rng(0).normal(size=(8, len(columns)))  # one would do, almost surely
    corners = np.vstack([np.zeros(len(columns)), np.eye(len(columns))])
    values = run(projection, np.vstack([corners, rows]), columns)
    offset, expected = values[0], values[len(corners) :]
    matrix = (values[1 : len(corners)] - offset).T
    size = np.abs(rows) @ np.abs(matrix.T) + np.abs(offset)
    if (np.abs(rows @ matrix.T + offset - expected) > SAME * size).any():
        raise columns.refusal(projection, "it is not affine. Use PCA or TruncatedSVD instead.")
    return columns.affine(matrix, offset)


@read_step.register(preprocessing.PolynomialFeatures)
def _(expansion: Any, columns: Columns) -> Columns:
    powers = expansion.powers_
    if powers.sum(axis=1).max(initial=0) > 1:
        return by_running(expansion, columns, mixes=True)
    return columns.affine(sparse.csr_array(powers), (powers.sum(axis=1) == 0).astype(float))


# --- run on every category ---


@read_step.register(
    preprocessing.OneHotEncoder | preprocessing.OrdinalEncoder | preprocessing.TargetEncoder
)
def _(encoder: Any, columns: Columns) -> Columns:
    strict = getattr(encoder, "handle_unknown", "") == "error"
    settle_categories(encoder, columns, strict=strict)
    has_missing = [any(map(is_missing, listed.tolist())) for listed in encoder.categories_]
    fills = {j: Fill(why_not=OWN if has_own else "") for j, has_own in enumerate(has_missing)}
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
        seen = range(len(columns)) if imputer.error_on_new else imputer.features_.tolist()
        fills = dict.fromkeys(seen, Fill(why_not=INDICATED))
    else:
        why_not = "the pipeline's fill for it depends on other columns"
        fills = dict.fromkeys(range(len(columns)), Fill(why_not=why_not))
    numeric = np.flatnonzero(columns.sources == NUMBERS)
    if len(numeric) and not is_missing(imputer.missing_values):
        raise columns.refusal(
            imputer,
            f"it replaces the number {imputer.missing_values!r}, which is not affine in "
            f"{columns.label(int(numeric[0]))}. Mark missing cells as NaN instead.",
        )
    return by_running(imputer, columns.filled(fills), passes=True)


def _constants(imputer: Any) -> Iterator[tuple[int, Fill]]:
    """Yield what a fitted imputer puts into each column, if it puts anything there."""
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
    rows = _block(step, rows) if isinstance(rows, list) else rows
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
    numeric = np.flatnonzero(sources == NUMBERS)
    if len(numeric) and not passes:
        raise columns.refusal(
            step,
            f"it is not an affine function of numbers, and {columns.label(int(numeric[0]))} holds "
            "numbers. Use an affine step (StandardScaler, MinMaxScaler, RobustScaler) there, or "
            "transform the column in the data before fitting.",
        )
    # two rows of numbers, of which no two are equal
    marks = np.random.default_rng(0).normal(size=(2, len(columns)))
    tables = [None if source == NUMBERS else columns.values(j) for j, source in enumerate(sources)]

    def ask(codes: IntArray, row: int = 0) -> NDArray[Any]:
        cells = []
        for table, source, mark in zip(tables, sources.tolist(), marks[row], strict=True):
            held = np.array([mark]) if table is None else table
            cells.append(held[codes[:, source]] if source >= 0 else np.repeat(held, len(codes)))
        return run(step, cells, columns, method)

    used = np.unique(sources[sources >= 0]).tolist()
    zero = np.zeros((1, len(columns.features)), dtype=np.intp)
    base = ask(zero)[0]
    varied = {feature: _varied(step, columns, ask, base, feature) for feature in used}
    out = _assembled(step, columns, base, varied)
    if len(used) > 1:
        codes = _combinations(columns, used, mixes=mixes)
        if codes is None or not _is_sum(out, codes, ask(codes)):
            raise columns.refusal(step, NOT_A_SUM)
    out = out.bent(columns.curves, columns.lift) if columns.curves else out
    if not len(numeric):
        return out
    return _with_numbers(step, out, columns, marks, (base, ask(zero, 1)[0]))


def _block(step: Any, cells: list[NDArray[Any]]) -> Any:
    """Arrange cells as the step got its input: a frame with names, or an array."""
    encoded = [np.asarray(listed) for listed in getattr(step, "categories_", ())]
    names = getattr(step, "feature_names_in_", None)
    if names is None:
        if any(column.dtype == object for column in (*cells, *encoded)):
            cells = [column.astype(object) for column in cells]
        return np.column_stack(cells)
    import pandas as pd

    for j, column in enumerate(encoded):
        cells[j] = cells[j].astype(object) if column.dtype == object else cells[j]
    return pd.DataFrame(dict(zip(names, cells, strict=True)))


def _varied(
    step: Any, columns: Columns, ask: Run, base: NDArray[Any], feature: int
) -> tuple[BoolArray, Any]:
    """Return which outputs (m',) vary with a feature, and all of them (c, m') by category."""
    changed = np.zeros(len(base), dtype=bool)
    chunks: list[Any] = []
    block, size = columns.features.blocks[feature], 1024  # rows at a time: outputs may be wide
    for start in range(0, block.stop - block.start, size):
        categories = np.arange(start, min(start + size, block.stop - block.start))
        codes = np.zeros((len(categories), len(columns.features)), dtype=np.intp)
        codes[:, feature] = categories
        out = ask(codes)
        if out.dtype.kind == "f" and not np.isfinite(out).all():
            category = start + int(np.flatnonzero(~np.isfinite(out).all(axis=1))[0])
            name = columns.features.names[feature]
            raise columns.refusal(
                step,
                "it gives no finite number for the category "
                f"{columns.features.describe(name, category)!r} of column {name!r}. "
                "Let it encode that category as a number.",
            )
        changed |= np.asarray(out != base).any(axis=0)
        is_number = out.dtype.kind in "biuf"
        chunks.append(sparse.csr_array(out.astype(np.float64)) if is_number else out)
    return changed, sparse.vstack(chunks) if sparse.issparse(chunks[0]) else np.concatenate(chunks)


def _assembled(step: Any, columns: Columns, base: NDArray[Any], varied: Parts) -> Columns:
    """Build each output from the runs: coefficients if all outputs are numbers, else lookups."""
    count = sum((changed.astype(int) for changed, _ in varied.values()), np.zeros(len(base)))
    matrix, lookups = sparse.csr_array((len(base), columns.features.width)), dict[int, Lookup]()
    if base.dtype.kind in "biuf":
        matrix, offset = _coefficients(columns, base, varied, count)
    elif (count > 1).any():
        raise columns.refusal(step, NOT_A_SUM)
    else:
        offset, lookups = _looked_up(base, varied)
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
    columns: Columns, base: NDArray[Any], varied: Parts, count: NDArray[Any]
) -> tuple[Any, FloatArray]:
    """Return the matrix and offset of outputs that are numbers, ``count`` (m',) features each.

    An output of one feature gets its values as coefficients; one of several, the differences.
    """
    matrix = sparse.csr_array((len(base), columns.features.width))
    offset = np.where(count == 1, 0.0, base.astype(np.float64))
    for feature, (changed, values) in varied.items():
        outputs = np.flatnonzero(changed)
        block: Any = sparse.csc_array(values)[:, outputs]
        if (count[outputs] > 1).any():
            block = block.toarray() - offset[outputs]
        entries = sparse.coo_array(block)
        rows, categories = outputs[entries.coords[1]], entries.coords[0]
        place = rows, columns.features.blocks[feature].start + categories
        matrix += sparse.csr_array(sparse.coo_array((entries.data, place), shape=matrix.shape))
    return matrix, offset


def _looked_up(base: NDArray[Any], varied: Parts) -> tuple[FloatArray, dict[int, Lookup]]:
    """Return numbers that never change, and lookups of all other outputs, one feature each."""
    offset, lookups = np.zeros(len(base)), dict[int, Lookup]()
    for feature, (changed, values) in varied.items():
        lookups |= {j: (feature, values[:, j]) for j in np.flatnonzero(changed).tolist()}
    for j, value in enumerate(base):
        if j in lookups:
            continue
        if isinstance(value, int | float | np.number):
            offset[j] = float(value)
        elif varied:
            feature, (_, values) = next(iter(varied.items()))
            lookups[j] = feature, np.full(values.shape[0], value, dtype=object)
    return offset, lookups


def _combinations(columns: Columns, used: list[int], *, mixes: bool) -> IntArray | None:
    """List codes (n, p) to check a sum on: random ones, or all; None if these are too many."""
    blocks = [columns.features.blocks[feature] for feature in used]
    counts = [block.stop - block.start for block in blocks]
    if mixes and prod(counts) > 4096:  # rows, which take a step some milliseconds
        return None
    if mixes:
        rows = np.indices(counts).reshape(len(counts), -1).T
    else:  # a step column by column is one already: this is to notice that it is not
        rows = np.random.default_rng(0).integers(counts, size=(64, len(counts)))
    codes = np.zeros((len(rows), len(columns.features)), dtype=np.intp)
    codes[:, used] = rows
    return codes


def _is_sum(out: Columns, codes: IntArray, outputs: NDArray[Any]) -> bool:
    """Return whether the outputs on rows of these codes are what the features' terms add up to."""
    looked = out.lookups.items()
    if any((outputs[:, j] != values[codes[:, feature]]).any() for j, (feature, values) in looked):
        return False
    numeric = [j for j in range(len(out)) if j not in out.lookups]
    sums, encoded = out.take(numeric), out.features.expand(codes.astype(np.float64))
    numbers = np.asarray(encoded @ sums.matrix.T + sums.offset)
    values = outputs[:, numeric].astype(np.float64)
    # what cancels leaves the rounding of the largest, which is no excuse for a small output
    most = np.abs(values).max(axis=0, initial=0.0)
    cancelled = np.minimum(64.0 * EPS * most.max(initial=0.0), SAME * most)
    near = SAME * sums.sizes(encoded) + cancelled
    return bool((np.abs(values - numbers) <= near).all())


def _with_numbers(
    step: Any, after: Columns, before: Columns, marks: FloatArray, outputs: tuple[Any, Any]
) -> Columns:
    """Give outputs that pass on a column that column's coefficients.

    ``marks`` are two rows of numbers by which columns are told apart, and ``outputs`` what the step
    makes of either: an output that differs between them has to be the marks of a column.
    """
    first, second = outputs
    to = np.flatnonzero(first != second)
    same = (marks[0] == first[to, None]) & (marks[1] == second[to, None])
    if not same.any(axis=1).all():
        raise before.refusal(
            step, "it changes numbers that are not missing. Impute in the data before fitting."
        )
    source, shape = same.argmax(axis=1), (len(after), len(before))
    place = sparse.csr_array((np.ones(len(to)), (to, source)), shape)
    offset, size = after.offset.copy(), after.sizes.offset.copy()
    offset[to], size[to] = before.offset[source], before.sizes.offset[source]
    sizes = Magnitude(after.sizes.matrix + place @ before.sizes.matrix, size, before.sizes.terms)
    matrix = sparse.csr_array(after.matrix + place @ before.matrix)
    pairs = zip(to.tolist(), source.tolist(), strict=True)
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
