"""Reads factual rows and answers to them as numbers, and asks models about either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

import counterpoint as cp
from counterpoint.errors import InvalidInput, shown, some
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.problem.targets import as_target

if TYPE_CHECKING:
    import pandas as pd

ROUNDING = 1e-6
"""The relative difference of numbers up to which they are the same."""


@final
class ReadOptions(TypedDict, total=False):
    """The options of all metrics for reading; see `validity`."""

    data: object | None
    row: ArrayLike | None


@final
@dataclass(frozen=True, eq=False)
class AnswerPairs:
    """m answers beside the rows that they answer, and data for the spreads of columns.

    Codes are numbers, and the positions of categories; NaN where a cell is missing.
    """

    features: cp.Features  # p columns
    row: IntArray  # (m,) the positions of the factual rows
    count: int  # how many factual rows there are
    answered: BoolArray  # (m,) whether there is an answer
    x: FloatArray  # (m, p) codes of the factual rows
    y: FloatArray  # (m, p) codes of the answers; of the factual row where there is none
    data: pd.DataFrame  # (r, p) the data, which may be other rows
    codes: FloatArray  # (r, p) codes of the data
    is_array: bool  # whether the factual rows came as an array
    before: pd.DataFrame  # (m, p) the factual rows
    after: pd.DataFrame  # (m, p) the answers, in the dtypes of the factual rows if they fit

    @property
    def changed(self) -> BoolArray:
        """Which cells (m, p) answers change."""
        return _differ(self.x, self.y) & self.answered[:, None]

    @property
    def spread(self) -> FloatArray:
        """Standard deviations (p,) of the columns; 1 for categories and constants."""
        return _spreads(self.features, self.codes)

    def encoded(self, codes: FloatArray) -> FloatArray:
        """Return points (m, d) in the space of costs; what is missing as zeros."""
        return self.features.expand(np.nan_to_num(codes))

    def as_input(self, rows: pd.DataFrame, model: Any) -> Any:
        """Return rows as the model takes them: a frame, or an array if it knows no names."""
        estimator = _estimator_of(model)
        named = hasattr(estimator, "feature_names_in_") or not hasattr(estimator, "n_features_in_")
        return rows if named and not self.is_array else rows.to_numpy()

    def masked(self, values: ArrayLike) -> FloatArray:
        """Return values (m,), with NaN where no answer was found."""
        return np.where(self.answered, np.asarray(values, dtype=np.float64), np.nan)

    def costs(self, cost: cp.Cost) -> FloatArray:
        """Return costs (m,); NaN also where a cell was filled in or emptied, which has none."""
        values = cost.encoded_cost(self.features)(self.encoded(self.y), self.encoded(self.x))
        filled = (np.isnan(self.x) != np.isnan(self.y)).any(axis=1)
        return np.where(filled, np.nan, self.masked(values))

    def distances(self, distance: str | cp.Cost) -> FloatArray:
        """Return distances (m,), as `proximity` does."""
        if isinstance(distance, cp.Cost):
            return self.costs(distance)
        if distance == "mad":
            return self.costs(cp.Manhattan(cp.mad_weights(self.data, self.features)))
        if distance == "l1":
            return self.costs(cp.Manhattan(1.0 / self.spread))
        if distance == "l2":
            return np.sqrt(self.costs(cp.SquaredEuclidean(self.spread**-2.0)))
        raise InvalidInput(f"Expected 'l1', 'l2', 'mad' or a Cost; got {shown(distance)}.")

    def neighbour_space(self, k: Any) -> tuple[BoolArray, FloatArray, BoolArray, FloatArray, int]:
        """Return data and answers as points whose Euclidean distances are `proximity` by ``"l2"``.

        Returns masks of the rows of the data (r,) and of the answers (m,) that miss no cell, each
        followed by these as points; and k, cut down to one less than these rows of the data.
        """
        # Another category changes two columns by 1, and counts 1: √(1/2 + 1/2).
        sizes = [block.stop - block.start for block in self.features.blocks]
        unit = np.repeat(np.where(self.features.is_numeric, self.spread, np.sqrt(2.0)), sizes)
        complete_data = np.asarray(~np.isnan(self.codes).any(axis=1))
        complete = np.asarray(~np.isnan(self.y).any(axis=1) & self.answered)
        most = int(complete_data.sum()) - 1
        if not isinstance(k, int | np.integer) or min(k, most) < 1:
            raise InvalidInput(
                f"Expected a whole number k of at least 1, and at least 2 rows of data; got "
                f"k={shown(k)} and {most + 1} rows."
            )
        points = self.features.expand(self.codes[complete_data]) / unit
        answers = self.features.expand(self.y[complete]) / unit
        return complete_data, points, complete, answers, min(int(k), most)

    def put(self, mask: BoolArray, values: FloatArray) -> FloatArray:
        """Return the values (m,) of the answers of a mask, with NaN for the others."""
        placed = np.full(len(self.row), np.nan)
        placed[mask] = values
        return placed


def pairs(
    model: Any,
    factuals: object,
    counterfactuals: object,
    data: object | None = None,
    row: ArrayLike | None = None,
) -> AnswerPairs:
    """Read both sides, with the parameters of `validity`; what was read already stays as it is."""
    if isinstance(counterfactuals, AnswerPairs):
        return counterfactuals
    if row is None and isinstance(counterfactuals, cp.Alternatives):
        row = counterfactuals.row
    known = model.features if isinstance(model, cp.Explainer) else None
    factual_frame = frame_of(factuals, known)
    data_frame = factual_frame if data is None else frame_of(data, known)
    features = cp.Features.from_data(data_frame) if known is None else known
    answer_frame = frame_of(counterfactuals, features)
    if known is None:
        features = _with_numbers(features, factual_frame, answer_frame)
    names = list(features.names)
    frames = {
        "the factual rows": factual_frame,
        "the counterfactuals": answer_frame,
        "data": data_frame,
    }
    for where, frame in frames.items():
        missing = [name for name in names if name not in frame.columns]
        if missing:
            raise InvalidInput(
                f"Expected all columns of the model in {where}; missing: {some(missing)}."
            )
    position = _positions(row, len(factual_frame), len(answer_frame))
    x, y, codes = (_codes(features, frame[names], where) for where, frame in frames.items())
    x, answered = x[position], ~answer_frame[names].isna().all(axis=1).to_numpy()
    # Numbers that differ by rounding become the same, so that they do not count as changes.
    size = np.fmax(_spreads(features, codes), np.abs(x))
    same = features.is_numeric & (np.abs(y - x) <= ROUNDING * size)
    y = np.where(same | ~answered[:, None], x, y)
    before = factual_frame[names].iloc[position].reset_index(drop=True)
    return AnswerPairs(
        features=features,
        row=position,
        count=len(factual_frame),
        answered=answered,
        x=x,
        y=y,
        data=data_frame[names],
        codes=codes,
        is_array=isinstance(factuals, np.ndarray),
        before=before,
        after=_decoded(features, before, x, y),
    )


def _positions(row: ArrayLike | None, n: int, m: int) -> IntArray:
    """Return the position (m,) of each answer's factual row, one of n; by default in order."""
    position = np.arange(n) if row is None else np.asarray(row)
    if position.shape != (m,):
        raise InvalidInput(
            f"Expected one counterfactual for each of {len(position)} rows, in order, missing as a "
            f"whole where none was found; got {m}. For several to a row pass row=, their positions."
        )
    if m and not (position.dtype.kind in "iu" and position.min() >= 0 and position.max() < n):
        raise InvalidInput(f"Expected positions of the {n} rows for row=; got {shown(row)}.")
    return position


def frame_of(rows: Any, features: cp.Features | None) -> pd.DataFrame:
    """Return rows of any kind as a pandas frame; the columns of an array are the features."""
    import pandas as pd

    if isinstance(rows, cp.Counterfactuals | cp.Alternatives):
        rows = rows.to_frame()
    if isinstance(rows, pd.DataFrame):
        return rows.reset_index(drop=True)
    if isinstance(rows, np.ndarray):
        names = [f"x{j}" for j in range(rows.shape[-1])] if features is None else features.names
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise InvalidInput(
                f"Expected an array of shape (rows, {len(names)}); got shape {rows.shape}."
            )
        return pd.DataFrame(rows, columns=list(names))
    import narwhals.stable.v2 as nw

    try:
        return pd.DataFrame(nw.from_native(rows, eager_only=True).to_dict(as_series=False))
    except TypeError:
        raise InvalidInput(f"Expected a data frame or an array; got {shown(rows)}.") from None


def _with_numbers(features: cp.Features, *frames: pd.DataFrame) -> cp.Features:
    """Return the features, with those made continuous that are categories in the data alone.

    Such a column holds only 0 and 1 in the data, but other numbers in one of the frames.
    """

    def is_number(feature: Any) -> bool:
        if not isinstance(feature, cp.Categorical) or feature.numbers is None:
            return False
        columns = [frame[feature.name] for frame in frames if feature.name in frame]
        return any(
            column.dtype.kind == "f" and not column.dropna().isin(feature.numbers).all()
            for column in columns
        )

    return cp.Features(cp.Continuous(f.name) if is_number(f) else f for f in features)


def _codes(features: cp.Features, frame: pd.DataFrame, where: str) -> FloatArray:
    """Return the codes (n, p) of a frame, whose name in an error is ``where``.

    Text stands for the category that is written so: other tools turn categories into text.
    """
    import pandas as pd

    codes = np.empty((len(frame), len(features)))
    for j, feature in enumerate(features):
        column = frame[feature.name]
        if isinstance(feature, cp.Categorical):
            positions: dict[Any, int] = {str(c): k for k, c in enumerate(feature.categories)}
            positions |= {c: k for k, c in enumerate(feature.categories)}
            numbers, expected = column.astype(object).map(positions), "one of its categories"
        else:
            numbers, expected = pd.to_numeric(column, errors="coerce"), "a finite number"
        codes[:, j] = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
        bad = np.isinf(codes[:, j]) | (np.isnan(codes[:, j]) & column.notna().to_numpy())
        if bad.any():
            raise InvalidInput(
                f"Expected {expected} in column {feature.name!r} of {where}; got "
                f"{shown(column[bad].iloc[0])}."
            )
    return codes


def _differ(x: FloatArray, y: FloatArray) -> BoolArray:
    """Return where codes differ; two missing cells do not."""
    return (x != y) & ~(np.isnan(x) & np.isnan(y))


def _spreads(features: cp.Features, codes: FloatArray) -> FloatArray:
    spreads = np.ones(len(features))
    for j in np.flatnonzero(features.is_numeric).tolist():
        values = codes[~np.isnan(codes[:, j]), j]
        spreads[j] = (values.std() if len(values) else 0.0) or 1.0
    return spreads


def _decoded(
    features: cp.Features, rows: pd.DataFrame, x: FloatArray, y: FloatArray
) -> pd.DataFrame:
    """Return rows of codes x with cells replaced where codes y differ.

    A column keeps its dtype, unless it holds whole numbers and other numbers replace them.
    """
    import pandas as pd

    decoded, changed = rows.copy(), _differ(x, y)
    for j in np.flatnonzero(changed.any(axis=0)).tolist():
        feature, column = features.items[j], rows.iloc[:, j]
        new = pd.Series(y[:, j])
        dtype = column.dtype
        if isinstance(feature, cp.Categorical):
            new = new.map(dict(enumerate(feature.categories)))
        elif pd.api.types.is_integer_dtype(dtype) and not (new == new.round()).all():
            dtype = new.dtype
        else:
            new = new.astype(dtype)
        mixed = column.astype(object).where(~changed[:, j], new.astype(object))
        decoded[feature.name] = mixed.astype(dtype)
    return decoded


def _estimator_of(model: Any) -> Any:
    """Return the model, also if an `Explainer` was passed."""
    return model.model if isinstance(model, cp.Explainer) else model


def predicted_by(model: Any, rows: Any) -> NDArray[Any]:
    """Return a model's predictions (m,); of no rows none, which models refuse to predict."""
    estimator = _estimator_of(model)
    if not hasattr(estimator, "predict"):
        raise InvalidInput(f"Expected a fitted model with predict; got {shown(estimator)}.")
    try:
        return np.asarray(estimator.predict(rows)).reshape(-1) if len(rows) else np.empty(0)
    except (TypeError, ValueError) as error:
        text = str(error).partition("\n")[0].rstrip(".:")
        raise InvalidInput(
            f"{type(estimator).__name__} does not take these rows: {text}."
        ) from error


def meets(
    model: Any, target: cp.Target, rows: Any, before: NDArray[Any] | None = None
) -> BoolArray:
    """Return whether a model gives rows (m,) the target; ``before`` are labels to differ from."""
    required = target.requirement
    if required.varying_margin is not None or (required.probable and required.at_least is None):
        raise InvalidInput(
            "Expected a target that a prediction meets or misses, such as cp.Label('yes'); got "
            f"{shown(target)}."
        )
    if required.at_least is not None:
        (label, *_), estimator = required.labels, _estimator_of(model)
        classes = np.asarray(getattr(estimator, "classes_", ())).tolist()
        if label not in classes or not hasattr(estimator, "predict_proba"):
            raise InvalidInput(
                f"{type(estimator).__name__} says no probability of {label!r}; pass a Label."
            )
        if not len(rows):  # which models refuse
            return np.zeros(0, dtype=bool)
        probability = np.asarray(estimator.predict_proba(rows))[:, classes.index(label)]
        return np.asarray(probability >= required.at_least)
    predicted = predicted_by(model, rows)
    if required.limits is not None:
        return np.asarray((predicted >= required.limits[0]) & (predicted <= required.limits[1]))
    if not required.labels:
        return np.asarray(predicted != before)
    named = np.logical_or.reduce([predicted == label for label in required.labels])
    return np.asarray(named != required.others)


def is_other(target: cp.Target) -> bool:
    """Return whether the target is any class other than that of the factual row."""
    return target.requirement.others and not target.requirement.labels


def valid_rows(model: Any, answers: AnswerPairs, target: Any, rows: pd.DataFrame) -> BoolArray:
    """Return whether rows (m,) in the places of the answers meet the target."""
    target, before = target_of(target), None
    if is_other(target):
        before = predicted_by(model, answers.as_input(answers.before, model))
    return meets(model, target, answers.as_input(rows, model), before)


def target_of(target: Any) -> cp.Target:
    """Return a target or label as a target, and None as any other class."""
    return cp.OtherLabel() if target is None else as_target(target)
