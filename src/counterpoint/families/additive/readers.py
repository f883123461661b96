"""Readers of steps that bin or bend numbers column by column: each number through a curve.

The attributes of a fitted step say where the pieces of its curves start; its values there are found
by running it on points of each piece. Columns of categories are run as by any other reader.
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

AFFINE = {
    kind: read_step.dispatch(kind)
    for kind in (FunctionTransformer, MaxAbsScaler, MinMaxScaler, PolynomialFeatures)
}
"""Readers of these steps where they are affine, or take columns of categories alone."""


# --- steps that bin ---


@read_step.register(KBinsDiscretizer)
def _(binner: Any, columns: Columns) -> Columns:
    for j in numbers_in(columns):
        edges = np.asarray(binner.bin_edges_[j])
        if not (np.diff(edges) > 0.0).all():
            raise columns.refusal(
                binner,
                f"the edges of the bins of {columns.label(j)} do not increase. Fit it again.",
            )
    outputs = [len(edges) - 1 for edges in binner.bin_edges_]  # one column a bin, if not ordinal
    owner = np.repeat(np.arange(len(outputs)), 1 if binner.encode == "ordinal" else outputs)
    starts = [np.asarray(edges)[1:-1] for edges in binner.bin_edges_]
    return by_pieces(binner, columns, owner, starts, degree=0)


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
        knots = np.unique(spline.t[spline.k : len(spline.t) - spline.k])  # without boundary knots
        # the last knot still belongs to the piece below it; beyond it another piece starts, unless
        # the last polynomial continues
        ends = [] if splines.extrapolation == "continue" else [np.nextafter(knots[-1], np.inf)]
        starts.append(np.append(knots, ends))
    outputs = splines.bsplines_[0].c.shape[1] - (not splines.include_bias)
    owner = np.repeat(np.arange(len(columns)), outputs)
    return by_pieces(splines, columns, owner, starts, degree=max(splines.degree, 1))


@read_step.register(MaxAbsScaler | MinMaxScaler)
def _(scaler: Any, columns: Columns) -> Columns:
    if not (getattr(scaler, "clip", False) and len(numbers_in(columns))):
        return AFFINE[type(scaler)](scaler, columns)
    low, high = getattr(scaler, "feature_range", (-1.0, 1.0))
    shift = getattr(scaler, "min_", np.zeros(len(columns)))
    scale = scaler.scale_ if isinstance(scaler, MinMaxScaler) else 1.0 / scaler.scale_
    # inputs at which the scaled number reaches an end of the range, where it is clipped
    starts = [(np.array([low, high]) - b) / a for a, b in zip(scale, shift, strict=True)]
    return by_pieces(scaler, columns, np.arange(len(columns)), starts, degree=1, blurred=True)


@read_step.register(QuantileTransformer)
def _(quantiles: Any, columns: Columns) -> Columns:
    if quantiles.output_distribution == "normal":
        _require_no_numbers(quantiles, columns)
    starts = []
    for values in quantiles.quantiles_.T:
        knots, count = np.unique(values, return_counts=True)
        # A quantile that is repeated is a jump: its own value is a piece of one number. So are both
        # ends, at which values are set to the ends of the output.
        count[[0, -1]] = 2
        after = np.nextafter(knots[count > 1], np.inf)
        starts.append(np.unique(np.append(knots, after)))
    return by_pieces(quantiles, columns, np.arange(len(columns)), starts, degree=1)


@read_step.register(PolynomialFeatures)
def _(expansion: Any, columns: Columns) -> Columns:
    powers, numbers = np.asarray(expansion.powers_), numbers_in(columns)
    if not len(numbers) or powers.sum(axis=1).max(initial=0) <= 1:
        return AFFINE[PolynomialFeatures](expansion, columns)
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
    # Every output is a power of the one input; row p of the identity has the coefficients of x^p.
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
        raise columns.refusal(
            step,
            f"it bends {columns.label(int(numbers[0]))} by a function that is no polynomial, along "
            "which answers are not searched for. Use SplineTransformer, KBinsDiscretizer or "
            "uniform quantiles there, or transform the column in the data before fitting.",
        )


@read_step.register(FunctionTransformer)
def _(transformer: Any, columns: Columns) -> Columns:
    func = transformer.func
    if transformer.kw_args not in (None, {}) or not len(numbers_in(columns)):
        return AFFINE[FunctionTransformer](transformer, columns)
    if func is np.negative:
        return columns.scaled(-1.0)
    if func is np.square:
        curve = Curve.polynomial([0.0, 0.0, 1.0])
    elif func in (np.abs, np.fabs):  # −y up to 0, and y from there on
        starts, lines = np.array([-np.inf, 0.0]), np.array([[[0.0, -1.0]], [[0.0, 1.0]]])
        curve = Curve(starts, lines, np.zeros(2))
    else:
        return AFFINE[FunctionTransformer](transformer, columns)
    return through_curves(transformer, columns, np.arange(len(columns)), lambda _: curve)


# --- pieces ---


def numbers_in(columns: Columns) -> IntArray:
    """Return the columns that hold numbers."""
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

    ``owner`` (m',) is the input of each output; ``starts`` holds those of the pieces of each input,
    without the first. They are ``blurred`` if the step computes with an input itself, and not with
    its distance from a start.

    The step is run on degree + 1 points of each piece, through which the polynomial goes, and on
    one more that checks it. Steps of degree 0 say where they cut by their outputs.
    """
    numbers = numbers_in(columns).tolist()
    knots = {j: np.unique(starts[j]) if len(starts[j]) else np.zeros(1) for j in numbers}
    points = {j: _points(knots[j], degree) for j in numbers}

    def transformed(inputs: dict[int, FloatArray]) -> FloatArray:
        """Return the step's outputs (count, m') for values of its inputs, taken row by row.

        The values of an input with fewer are repeated, up to the count of the most.
        """
        count = max(values.size for values in inputs.values())
        cells = [
            np.resize(inputs[j].ravel() if j in inputs else columns.values(j)[:1], count)
            for j in range(len(columns))
        ]
        return run(step, cells, columns).astype(np.float64)

    outputs = transformed(points) if numbers else np.zeros(0)
    if numbers and not degree:
        knots = _exact_starts(transformed, owner, points, outputs)

    def curve_of(j: int) -> Curve:
        """Return the outputs of input j, polynomials through the values at its points."""
        inputs = points[j]  # (pieces, degree + 2), of which the last of each piece only checks
        # (pieces, degree + 2, outputs of j); the run goes on where other inputs have more points
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
        return replace(curve, blurred=blurred)  # how the step rounds, see above

    return through_curves(step, columns, owner, curve_of)


def _exact_starts(
    transformed: Callable[[dict[int, FloatArray]], FloatArray],
    owner: IntArray,
    points: dict[int, FloatArray],
    outputs: FloatArray,
) -> dict[int, FloatArray]:
    """Return where the pieces of each input start, but the first, to the last bit.

    That is the first number with the outputs of a piece, between a point of the piece before and
    one of its own: a step may compare in another way than by its edges as they are stored. All
    pieces of all inputs are bisected at once.

    ``transformed`` gives the step's outputs (count, m') for the numbers of each input, the shorter
    ones repeated up to the longest. ``points``: input → (pieces, 2), its numbers in each piece;
    ``outputs``: those of the ``points``.
    """
    # The pieces of all inputs without the first ones are one array; an input's are its span.
    ends = np.cumsum([0, *(len(inputs) - 1 for inputs in points.values())]).tolist()
    spans = dict(zip(points, map(slice, ends[:-1], ends[1:]), strict=True))
    low = np.concatenate([inputs[:-1, -1] for inputs in points.values()])
    high = np.concatenate([inputs[1:, -1] for inputs in points.values()])

    def is_in_piece(y: FloatArray) -> Any:
        trial = transformed({j: y[span] for j, span in spans.items()})
        same = np.zeros(len(y), dtype=bool)
        for j, span in spans.items():
            of_input = outputs[: points[j].size, owner == j].reshape(*points[j].shape, -1)
            expected = of_input[1:, -1]  # at ``high``; what follows in ``trial`` is repeated
            same[span] = (trial[: len(expected), owner == j] == expected).all(axis=1)
        return same

    first = first_float(is_in_piece, low, high)
    return {j: first[span] for j, span in spans.items()}


def _points(starts: FloatArray, degree: int) -> FloatArray:
    """Return degree + 2 numbers in each piece, (pieces, degree + 2), the last of them for a check.

    The others are Chebyshev points with the ends, at which polynomials are well conditioned. The
    first and the last piece, which have no end, are taken as long as all others together.
    """
    span = max(np.ptp(starts), np.abs(starts).max(), 1.0)
    low = np.append(starts[0] - span, starts)
    high = np.append(np.nextafter(starts, -np.inf), starts[-1] + span)
    share = 0.5 - 0.5 * np.cos(np.pi * np.arange(degree + 1) / degree) if degree else [0.618]
    share = np.append(share, 0.382)  # none of the others
    between = low[:, None] + (high - low)[:, None] * share
    return np.minimum(np.maximum(between, low[:, None]), high[:, None])


def _interpolated(starts: FloatArray, points: FloatArray, values: FloatArray) -> Curve:
    """Return the curve through points (pieces, degree + 1) with values (pieces, degree + 1, o).

    Coefficients are solved for in units of each piece's width. A piece with fewer numbers than
    points is constant.
    """
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
    all_starts = np.append(-np.inf, starts)
    return Curve(all_starts, coefficients.swapaxes(1, 2), centers, roundings=64 if degree else 1)


def through_curves(
    step: Any,
    columns: Columns,
    owner: IntArray,
    curve_of: Callable[[int], Curve],
    method: str = "transform",
) -> Columns:
    """Return the columns after a step's method that works column by column.

    Categories are run through it. Numbers go by curves: ``owner`` (m',) is the input that each
    output is a function of, and ``curve_of`` returns an input's outputs, in their order.
    """
    numbers = numbers_in(columns)
    if not len(numbers):
        return by_running(step, columns, method=method)
    # First the step is run with all numbers held at a constant, whose outputs are then replaced;
    # 0.5 is a number that every step which is read here takes.
    is_number = columns.sources == NUMBERS
    categories = sparse.diags_array(np.where(is_number, 0.0, 1.0))
    held = replace(
        columns,
        matrix=(categories @ columns.matrix).tocsr(),
        offset=np.where(is_number, 0.5, columns.offset),
        sizes=replace(columns.sizes, matrix=categories @ columns.sizes.matrix),
    )
    after = by_running(step, held, method=method)
    used = [j for j in numbers.tolist() if (owner == j).any()]
    curves = tuple(_over_encoded(step, columns, j, curve_of(j)) for j in used)
    # The values of the curves become further columns, behind the ``after.width`` that there are.
    # Each output of these inputs is one of them, with the coefficient 1 and no offset. Curves are
    # ordered by input, outputs by position.
    out = after.bent(curves, Additive)
    outputs = np.flatnonzero(np.isin(owner, used))
    outputs = outputs[np.argsort(owner[outputs], kind="stable")]
    ones = np.ones(len(outputs)), (outputs, after.width + np.arange(len(outputs)))
    selection = sparse.csr_array(ones, shape=(len(out), out.width))
    offset, offset_size = np.array(out.offset), np.array(out.sizes.offset)
    offset[outputs] = offset_size[outputs] = 0.0
    sizes = replace(out.sizes, matrix=out.sizes.matrix + selection, offset=offset_size)
    return replace(out, matrix=out.matrix + selection, offset=offset, sizes=sizes)


def _over_encoded(step: Any, columns: Columns, j: int, curve: Curve) -> tuple[int, Curve]:
    """Return the encoded column that input j of a step depends on, and a curve of j as one of it.

    With j = scale · column + shift, starts and centers are mapped back and coefficients take powers
    of the scale. A negative scale turns the order of the pieces.
    """
    column, scale, shift = _encoded_line(step, columns, j)
    if scale == 1.0 and shift == 0.0:
        return column, curve
    if _has_jumps(curve):
        raise columns.refusal(
            step,
            f"it cuts {columns.label(j)} after that was scaled. Give it the column as it comes; "
            "what cuts at values needs no scaler.",
        )
    starts = (curve.starts[1:] - shift) / scale
    order = slice(None) if scale > 0 else slice(None, None, -1)
    powers = scale ** np.arange(curve.coefficients.shape[2])
    starts = np.append(-np.inf, starts[order])
    # pieces that rounding leaves empty are dropped
    distinct = np.append(np.diff(starts) > 0.0, True) & (starts < np.inf)
    return column, replace(
        curve,
        starts=np.where(np.cumsum(distinct) == 1, -np.inf, starts)[distinct],
        coefficients=(curve.coefficients * powers)[order][distinct],
        centers=((curve.centers - shift) / scale)[order][distinct],
        roundings=curve.roundings + 8,
        blurred=True,
    )


def _encoded_line(step: Any, columns: Columns, j: int) -> tuple[int, float, float]:
    """Return a column as scale · u + shift: the encoded column u, the scale and the shift."""
    row = sparse.csr_array(columns.matrix[[j]])
    row.eliminate_zeros()
    if row.nnz != 1:
        raise columns.refusal(
            step,
            f"{columns.label(j)} that it takes is a mix of several columns. Give it the columns "
            "as they come.",
        )
    source, scale, shift = int(row.indices[0]), float(row.data[0]), float(columns.offset[j])
    if source < columns.features.width:
        return source, scale, shift
    # It is an output of a curve, which is a line as well if it is one piece without higher powers.
    ends = np.cumsum([columns.features.width, *(c.outputs for _, c in columns.curves)])
    which = int(np.searchsorted(ends, source, side="right")) - 1
    column, curve = columns.curves[which]
    output = source - int(ends[which])
    if len(curve.starts) > 1 or curve.coefficients[0, output, 2:].any():
        raise columns.refusal(
            step,
            f"{columns.label(j)} was cut or bent by another step before. Leave one of them out.",
        )
    at_center, slope = (*curve.coefficients[0, output], 0.0)[:2]
    shift += scale * (at_center - slope * curve.centers[0])
    return column, scale * slope, shift


def _has_jumps(curve: Curve) -> bool:
    """Return whether one of the functions is not continuous."""
    starts = curve.starts[1:]
    if not len(starts):
        return False
    before, after = curve(np.nextafter(starts, -np.inf)), curve(starts)
    return bool((np.abs(after - before) > SAME * (curve.sizes(starts) + 1.0)).any())
