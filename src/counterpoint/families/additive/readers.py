"""Readers of steps that bin or bend numbers column by column: each number through a curve.

What a step is made of says where the pieces of its curves start; what it does there it says itself,
by being run on points of each piece. Columns of categories are run as by any other reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
)

from counterpoint.families.additive.curves import Curve
from counterpoint.families.additive.form import Additive
from counterpoint.models.columns import NUMBERS, Columns
from counterpoint.models.dispatch import read_step
from counterpoint.models.transformers import SAME, by_running, run
from counterpoint.numerics import EPS, FloatArray, IntArray, first_float

WITHIN = 0.5
"""A number that every function that is read here takes."""
NO_POLYNOMIAL = (
    "it bends {} by a function that is no polynomial, along which answers are not searched for. "
    "Use SplineTransformer, KBinsDiscretizer or uniform quantiles there, or transform the column "
    "in the data before fitting."
)
"""Why a step is refused, and what to do."""

PLAIN = {
    kind: read_step.dispatch(kind)
    for kind in (FunctionTransformer, MaxAbsScaler, MinMaxScaler, PolynomialFeatures)
}
"""Readers of steps that are affine, or of columns of categories alone."""


# --- steps that bin ---


@read_step.register(KBinsDiscretizer)
def _(binner: Any, columns: Columns) -> Columns:
    count = np.array([len(edges) - 1 for edges in binner.bin_edges_])
    for j in numbers_in(columns):
        edges = np.asarray(binner.bin_edges_[j])
        if not (np.diff(edges) > 0.0).all():
            raise columns.refusal(
                binner,
                f"the edges of the bins of {columns.label(j)} do not increase. Fit it again.",
            )
    owner = np.repeat(np.arange(len(count)), 1 if binner.encode == "ordinal" else count)
    inner = [np.asarray(edges)[1:-1] for edges in binner.bin_edges_]
    return by_pieces(binner, columns, owner, inner, degree=0)


@read_step.register(Binarizer)
def _(binarizer: Any, columns: Columns) -> Columns:
    after = np.array([np.nextafter(binarizer.threshold, np.inf)])
    return by_pieces(binarizer, columns, np.arange(len(columns)), [after] * len(columns), degree=0)


# --- steps that bend, piece by piece ---


@read_step.register(SplineTransformer)
def _(splines: Any, columns: Columns) -> Columns:
    numbers = numbers_in(columns)
    if len(numbers) and splines.extrapolation in ("error", "periodic"):
        raise columns.refusal(
            splines,
            f"extrapolation={splines.extrapolation!r} is not read for numbers such as "
            f"{columns.label(int(numbers[0]))}. Use extrapolation='constant', 'linear' or "
            "'continue'.",
        )
    if len(numbers) and splines.degree > 3:
        raise columns.refusal(
            splines, f"splines of degree {splines.degree} are not read. Use degree=3 or less."
        )
    starts = []
    for spline in splines.bsplines_:
        knots = np.unique(spline.t[spline.k : len(spline.t) - spline.k])
        ends = [] if splines.extrapolation == "continue" else [np.nextafter(knots[-1], np.inf)]
        starts.append(np.append(knots, ends))
    outputs = splines.bsplines_[0].c.shape[1] - (not splines.include_bias)
    owner = np.repeat(np.arange(len(columns)), outputs)
    return by_pieces(splines, columns, owner, starts, degree=max(splines.degree, 1))


@read_step.register(MaxAbsScaler | MinMaxScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    if not (getattr(scaler, "clip", False) and len(numbers_in(columns))):
        return PLAIN[type(scaler)](scaler, columns)
    low, high = getattr(scaler, "feature_range", (-1.0, 1.0))
    shift = getattr(scaler, "min_", np.zeros(len(columns)))
    scale = scaler.scale_ if isinstance(scaler, MinMaxScaler) else 1.0 / scaler.scale_
    starts = [(np.array([low, high]) - b) / a for a, b in zip(scale, shift, strict=True)]
    return by_pieces(scaler, columns, np.arange(len(columns)), starts, degree=1, blurred=True)


@read_step.register(QuantileTransformer)
def _(quantiles: Any, columns: Columns) -> Columns:
    if quantiles.output_distribution == "normal":
        _require_no_numbers(quantiles, columns)
    starts = []
    for values in quantiles.quantiles_.T:
        knots, count = np.unique(values, return_counts=True)
        count[[0, -1]] = 2  # whose values at the ends are set
        alone = np.nextafter(knots[count > 1], np.inf)
        starts.append(np.unique(np.append(knots, alone)))
    return by_pieces(quantiles, columns, np.arange(len(columns)), starts, degree=1)


@read_step.register(PolynomialFeatures)
def _(expansion: Any, columns: Columns) -> Columns:
    powers, numbers = np.asarray(expansion.powers_), numbers_in(columns)
    if not len(numbers) or powers.sum(axis=1).max(initial=0) <= 1:
        return PLAIN[PolynomialFeatures](expansion, columns)
    if len(columns) > 1:
        raise columns.refusal(
            expansion,
            f"it multiplies {columns.label(int(numbers[0]))} with other columns. Apply it to one "
            "column at a time, each in a ColumnTransformer of its own, or leave it out.",
        )
    if powers.max() > 3:
        raise columns.refusal(
            expansion, f"powers up to {powers.max()} are not read. Use degree=3 or less."
        )
    curve = Curve.polynomial(np.eye(4)[powers[:, 0]])
    return through_curves(expansion, columns, np.zeros(len(powers), dtype=np.intp), lambda _: curve)


# --- functions ---


@read_step.register(PowerTransformer)
def _(power: Any, columns: Columns) -> Columns:
    _require_no_numbers(power, columns)
    return by_running(power, columns)


def _require_no_numbers(step: Any, columns: Columns) -> None:
    numbers = numbers_in(columns)
    if len(numbers):
        raise columns.refusal(step, NO_POLYNOMIAL.format(columns.label(int(numbers[0]))))


@read_step.register(FunctionTransformer)
def _(transformer: Any, columns: Columns) -> Columns:
    func = transformer.func
    plain = transformer.kw_args in (None, {}) and len(numbers_in(columns))
    if func is np.negative and plain:
        return columns.scaled(-1.0)
    if func in (np.square, np.abs, np.fabs) and plain:
        if func is np.square:
            curve = Curve.polynomial([0.0, 0.0, 1.0])
        else:
            ends, slopes = np.array([-np.inf, 0.0]), np.array([[[0.0, -1.0]], [[0.0, 1.0]]])
            curve = Curve(ends, slopes, np.zeros(2))
        return through_curves(transformer, columns, np.arange(len(columns)), lambda _: curve)
    return PLAIN[FunctionTransformer](transformer, columns)


# --- pieces ---


def numbers_in(columns: Columns) -> IntArray:
    """The columns that hold numbers."""
    return np.flatnonzero(columns.sources == NUMBERS)


def by_pieces(
    step: Any,
    columns: Columns,
    owner: IntArray,
    starts: Sequence[FloatArray],
    degree: int,
    *,
    blurred: bool = False,
) -> Columns:
    """Return the columns after a step that is a polynomial between the starts of its pieces.

    ``owner`` is the input of each output; ``starts`` are those of each input, but the first.
    They are ``blurred`` if it computes with numbers, and not with their distances from starts.
    """
    numbers = numbers_in(columns).tolist()
    knots = {j: np.unique(starts[j]) if len(starts[j]) else np.zeros(1) for j in numbers}
    points = {j: _points(knots[j], degree) for j in numbers}

    def ask(rows: dict[int, FloatArray]) -> FloatArray:
        count = max(values.size for values in rows.values())
        cells = [
            np.resize(rows[j].ravel() if j in rows else columns.values(j)[:1], count)
            for j in range(len(columns))
        ]
        return run(step, cells, columns).astype(np.float64)

    outputs = ask(points) if numbers else np.zeros(0)
    if numbers and not degree:
        knots = _cuts(ask, owner, points, outputs)

    def curve_of(j: int) -> Curve:
        """Return an input's curve, through all points of its pieces but the last, which check it.

        There is a value for each point and each output, (pieces, degree + 2, o).
        """
        inputs = points[j]
        values = outputs[: inputs.size, owner == j].reshape(*inputs.shape, -1)
        if not np.isfinite(values).all():
            number = inputs[tuple(np.argwhere(~np.isfinite(values))[0][:2])]
            raise columns.refusal(
                step,
                f"it gives no finite number for {number:.6g} in {columns.label(j)}. Let it encode "
                "every bin as a number.",
            )
        curve = _interpolated(knots[j], inputs[:, :-1], values[:, :-1])
        size = np.abs(values).max(axis=(0, 1))
        if (np.abs(curve(inputs[:, -1]) - values[:, -1]) > SAME * size).any():
            raise columns.refusal(
                step, f"what it makes of {columns.label(j)} is not a polynomial between its knots."
            )
        return replace(curve, blurred=blurred)

    return through_curves(step, columns, owner, curve_of)


def _cuts(
    ask: Callable[[dict[int, FloatArray]], FloatArray],
    owner: IntArray,
    points: dict[int, FloatArray],
    out: FloatArray,
) -> dict[int, FloatArray]:
    """Input → where its pieces start, to the last bit: the first number with a piece's outputs."""
    ends = np.cumsum([0, *(len(inputs) - 1 for inputs in points.values())]).tolist()
    spans = dict(zip(points, map(slice, ends[:-1], ends[1:]), strict=True))
    low = np.concatenate([inputs[:-1, -1] for inputs in points.values()])
    high = np.concatenate([inputs[1:, -1] for inputs in points.values()])

    def arrived(y: FloatArray) -> Any:
        outputs = ask({j: y[span] for j, span in spans.items()})
        same = np.zeros(len(y), dtype=bool)
        for j, span in spans.items():
            expected = out[: points[j].size, owner == j].reshape(len(points[j]), 2, -1)[1:, -1]
            same[span] = (outputs[: len(expected), owner == j] == expected).all(axis=1)
        return same

    first = first_float(arrived, low, high)
    return {j: first[span] for j, span in spans.items()}


def _points(starts: FloatArray, degree: int) -> FloatArray:
    """(pieces, degree + 2) numbers in each piece, the last of them to see whether they suffice."""
    span = max(np.ptp(starts), np.abs(starts).max(), 1.0)
    low = np.append(starts[0] - span, starts)
    high = np.append(np.nextafter(starts, -np.inf), starts[-1] + span)
    share = 0.5 - 0.5 * np.cos(np.pi * np.arange(degree + 1) / degree) if degree else [0.618]
    share = np.append(share, 0.382)
    between = low[:, None] + (high - low)[:, None] * share
    return np.minimum(np.maximum(between, low[:, None]), high[:, None])


def _interpolated(starts: FloatArray, points: FloatArray, values: FloatArray) -> Curve:
    """The curve through (pieces, degree + 1) points with (pieces, degree + 1, o) values."""
    centers, degree = np.append(starts[0], starts), points.shape[1] - 1
    width = np.abs(points - centers[:, None]).max(axis=1)
    width = np.where(width > 0.0, width, 1.0)
    powers = ((points - centers[:, None]) / width[:, None])[:, :, None] ** np.arange(degree + 1)
    distinct = (np.diff(points, axis=1) > 0.0).all(axis=1)
    coefficients = np.zeros((len(points), degree + 1, values.shape[2]))
    coefficients[:, 0] = values[:, 0]
    coefficients[distinct] = np.linalg.solve(powers[distinct], values[distinct])
    # what rounding leaves of a coefficient that is 0 would grow far from the piece
    coefficients[np.abs(coefficients) <= 64.0 * EPS * np.abs(values).max()] = 0.0
    coefficients /= width[:, None, None] ** np.arange(degree + 1)[:, None]
    first = np.append(-np.inf, starts)
    return Curve(first, coefficients.swapaxes(1, 2), centers, roundings=64 if degree else 1)


def through_curves(
    step: Any,
    columns: Columns,
    owner: IntArray,
    of: Callable[[int], Curve],
    method: str = "transform",
) -> Columns:
    """Return the columns after a step's method that works column by column.

    Categories are run through it. Numbers go by curves: ``owner`` (m',) is the input that each
    output is a function of, and ``of`` says what the outputs of an input are, in their order.
    """
    numbers = numbers_in(columns)
    if not len(numbers):
        return by_running(step, columns, method=method)
    held = np.zeros(len(columns), dtype=bool)
    held[numbers] = True
    categories = sparse.diags_array(np.where(held, 0.0, 1.0))
    size = replace(columns.sizes, matrix=categories @ columns.sizes.matrix)
    offset = np.where(held, WITHIN, columns.offset)
    constant = replace(
        columns, matrix=(categories @ columns.matrix).tocsr(), offset=offset, sizes=size
    )
    after = by_running(step, constant, method=method)
    used = [j for j in numbers.tolist() if (owner == j).any()]
    curves = tuple(_over(step, columns, j, of(j)) for j in used)
    out = after.bent(curves, Additive)
    to = np.flatnonzero(np.isin(owner, used))
    to = to[np.argsort(owner[to], kind="stable")]
    ones = np.ones(len(to)), (to, after.width + np.arange(len(to)))
    place = sparse.csr_array(ones, shape=(len(out), out.width))
    offset, extra = np.array(out.offset), np.array(out.sizes.offset)
    offset[to] = extra[to] = 0.0
    sizes = replace(out.sizes, matrix=out.sizes.matrix + place, offset=extra)
    return replace(out, matrix=out.matrix + place, offset=offset, sizes=sizes)


def _over(step: Any, columns: Columns, j: int, curve: Curve) -> tuple[int, Curve]:
    """The encoded column that input j of a step depends on; a curve of the input as one of that."""
    column, scale, shift = _line(step, columns, j)
    if scale == 1.0 and shift == 0.0:
        return column, curve
    if _jumps(curve):
        raise columns.refusal(
            step,
            f"it cuts {columns.label(j)} after that was scaled. Give it the column as it comes; "
            "what cuts at values needs no scaler.",
        )
    starts = (curve.starts[1:] - shift) / scale
    order = slice(None) if scale > 0 else slice(None, None, -1)
    powers = scale ** np.arange(curve.coefficients.shape[2])
    starts = np.append(-np.inf, starts[order])
    distinct = np.append(np.diff(starts) > 0.0, True) & (starts < np.inf)
    return column, replace(
        curve,
        starts=np.where(np.cumsum(distinct) == 1, -np.inf, starts)[distinct],
        coefficients=(curve.coefficients * powers)[order][distinct],
        centers=((curve.centers - shift) / scale)[order][distinct],
        roundings=curve.roundings + 8,
        blurred=True,
    )


def _line(step: Any, columns: Columns, j: int) -> tuple[int, float, float]:
    """A column as scale · u + shift: the encoded column u, scale, shift."""
    row = sparse.csr_array(columns.matrix[[j]])
    row.eliminate_zeros()
    if row.nnz != 1:
        raise columns.refusal(
            step,
            f"{columns.label(j)} that it takes is a mix of several columns. Give it the columns "
            "as they come.",
        )
    at, scale, shift = int(row.indices[0]), float(row.data[0]), float(columns.offset[j])
    if at < columns.features.width:
        return at, scale, shift
    ends = np.cumsum([columns.features.width, *(c.outputs for _, c in columns.curves)])
    which = int(np.searchsorted(ends, at, side="right")) - 1
    column, curve = columns.curves[which]
    at -= int(ends[which])
    if len(curve.starts) > 1 or curve.coefficients[0, at, 2:].any():
        raise columns.refusal(
            step,
            f"{columns.label(j)} was cut or bent by another step before. Leave one of them out.",
        )
    start, slope = (*curve.coefficients[0, at], 0.0)[:2]
    shift += scale * (start - slope * curve.centers[0])
    return column, scale * slope, shift


def _jumps(curve: Curve) -> bool:
    """Whether the functions are not continuous."""
    at = curve.starts[1:]
    if not len(at):
        return False
    before, after = curve(np.nextafter(at, -np.inf)), curve(at)
    return bool((np.abs(after - before) > SAME * (curve.sizes(at) + 1.0)).any())
