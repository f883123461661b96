"""Factual rows and answers to them, as numbers; and what models say of either."""

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
    """What all metrics take besides; see `validity`."""

    data: object | None
    row: ArrayLike | None


@final
@dataclass(frozen=True, eq=False)
class AnswerPairs:
    """m answers beside the rows that they answer, and the data that say spreads."""

    features: cp.Features  # p columns
    row: IntArray  # (m,) the positions of the factual rows
    count: int  # how many factual rows there are
    answered: BoolArray  # (m,)
    x: FloatArray  # (m, p) codes of the factual rows; NaN for what is missing
    y: FloatArray  # (m, p) codes of the answers
    data: pd.DataFrame  # the columns of the features, of other rows
    codes: FloatArray  # (r, p) of the data
    is_array: bool  # whether the factual rows came as an array
    before: pd.DataFrame
    after: pd.DataFrame

    @property
    def changed(self) -> BoolArray:
        """(m, p)."""
        return _differ(self.x, self.y) & self.answered[:, None]

    @property
    def spread(self) -> FloatArray:
        """(p,) standard deviations of the columns; 1 for categories and constants."""
        return _spreads(self.features, self.codes)

    def encoded(self, codes: FloatArray) -> FloatArray:
        """(m, d) points in the space of costs; what is missing as zeros."""
        return self.features.expand(np.nan_to_num(codes))

    def as_input(self, rows: pd.DataFrame, model: Any) -> Any:
        """Rows in the kind that a model takes."""
        estimator = _own(model)
        named = hasattr(estimator, "feature_names_in_") or not hasattr(estimator, "n_features_in_")
        return rows if named and not self.is_array else rows.to_numpy()

    def masked(self, values: ArrayLike) -> FloatArray:
        """(m,) values; NaN where no answer was found."""
        return np.where(self.answered, np.asarray(values, dtype=np.float64), np.nan)

    def costs(self, cost: cp.Cost) -> FloatArray:
        """(m,) costs; NaN also where a cell was filled in or emptied, which has no distance."""
        values = cost.encoded_cost(self.features)(self.encoded(self.y), self.encoded(self.x))
        filled = (np.isnan(self.x) != np.isnan(self.y)).any(axis=1)
        return np.where(filled, np.nan, self.masked(values))

    def distances(self, distance: str | cp.Cost) -> FloatArray:
        """(m,) as `proximity` says."""
        if isinstance(distance, cp.Cost):
            return self.costs(distance)
        if distance == "mad":
            return self.costs(cp.Manhattan(cp.mad_weights(self.data, self.features)))
        if distance == "l1":
            return self.costs(cp.Manhattan(1.0 / self.spread))
        if distance == "l2":
            return np.sqrt(self.costs(cp.SquaredEuclidean(self.spread**-2.0)))
        raise InvalidInput(f"Expected 'l1', 'l2', 'mad' or a Cost; got {shown(distance)}.")

    def space(self, k: Any) -> tuple[BoolArray, FloatArray, BoolArray, FloatArray, int]:
        """Return data and answers as points whose Euclidean distances are `proximity` by ``"l2"``.

        First which rows of the data miss no cell, and these as points; then which answers, and
        these; last k, at most one less than there are rows.
        """
        sizes = [block.stop - block.start for block in self.features.blocks]
        unit = np.repeat(np.where(self.features.is_numeric, self.spread, np.sqrt(2.0)), sizes)
        whole = np.asarray(~np.isnan(self.codes).any(axis=1))
        complete = np.asarray(~np.isnan(self.y).any(axis=1) & self.answered)
        most = int(whole.sum()) - 1
        if not isinstance(k, int | np.integer) or min(k, most) < 1:
            raise InvalidInput(
                f"Expected a whole number k of at least 1, and at least 2 rows of data; got "
                f"k={shown(k)} and {most + 1} rows."
            )
        points, answers = (self.features.expand(c) for c in (self.codes[whole], self.y[complete]))
        return whole, points / unit, complete, answers / unit, min(int(k), most)

    def put(self, mask: BoolArray, values: FloatArray) -> FloatArray:
        """(m,) values of some answers; NaN for the others."""
        out = np.full(len(self.row), np.nan)
        out[mask] = values
        return out


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
    stated = model.features if isinstance(model, cp.Explainer) else None
    x = frame_of(factuals, stated)
    shows = x if data is None else frame_of(data, stated)
    seen = cp.Features.from_data(shows) if stated is None else stated
    y = frame_of(counterfactuals, seen)
    features = _numbers(seen, x, y) if stated is None else stated
    names = list(features.names)
    sides = {"the factual rows": x, "the counterfactuals": y, "data": shows}
    for what, frame in sides.items():
        missing = [name for name in names if name not in frame.columns]
        if missing:
            raise InvalidInput(
                f"Expected all columns of the model in {what}; missing: {some(missing)}."
            )
    at = np.arange(len(x)) if row is None else np.asarray(row)
    if at.shape != (len(y),):
        raise InvalidInput(
            f"Expected one counterfactual for each of {len(at)} rows, in order, missing as a whole "
            f"where none was found; got {len(y)}. For several to a row pass row=, their positions."
        )
    if len(at) and not (at.dtype.kind in "iu" and at.min() >= 0 and at.max() < len(x)):
        raise InvalidInput(f"Expected positions of the {len(x)} rows for row=; got {shown(row)}.")
    factual, after, codes = (_codes(features, frame[names], what) for what, frame in sides.items())
    before = factual[at]
    answered = ~y[names].isna().all(axis=1).to_numpy()
    size = np.fmax(_spreads(features, codes), np.abs(before))
    near = features.is_numeric & (np.abs(after - before) <= ROUNDING * size)
    after = np.where(near | ~answered[:, None], before, after)
    rows = x[names].iloc[at].reset_index(drop=True)
    answers = _decoded(features, rows, before, after)
    numbers = features, at, len(x), answered, before, after, shows[names], codes
    return AnswerPairs(*numbers, isinstance(factuals, np.ndarray), rows, answers)


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


def _numbers(seen: cp.Features, *sides: pd.DataFrame) -> cp.Features:
    """The features, with columns that happened to hold only 0 and 1 as numbers if they are."""

    def is_number(feature: Any) -> bool:
        if not isinstance(feature, cp.Categorical) or feature.numbers is None:
            return False
        columns = [side[feature.name] for side in sides if feature.name in side]
        return any(
            column.dtype.kind == "f" and not column.dropna().isin(feature.numbers).all()
            for column in columns
        )

    return cp.Features(cp.Continuous(f.name) if is_number(f) else f for f in seen)


def _codes(features: cp.Features, frame: pd.DataFrame, what: str) -> FloatArray:
    """Return numbers, and the positions of categories, shape (n, p); NaN where a cell is missing.

    Text stands for the category that is written so: other tools turn categories into text.
    """
    import pandas as pd

    out = np.empty((len(frame), len(features)))
    for j, feature in enumerate(features):
        column, wanted = frame[feature.name], "a finite number"
        if isinstance(feature, cp.Categorical):
            positions: dict[Any, int] = {str(c): k for k, c in enumerate(feature.categories)}
            positions |= {c: k for k, c in enumerate(feature.categories)}
            codes, wanted = column.astype(object).map(positions), "one of its categories"
        else:
            codes = pd.to_numeric(column, errors="coerce")
        out[:, j] = codes.to_numpy(dtype=np.float64, na_value=np.nan)
        bad = np.isinf(out[:, j]) | (np.isnan(out[:, j]) & column.notna().to_numpy())
        if bad.any():
            raise InvalidInput(
                f"Expected {wanted} in column {feature.name!r} of {what}; got "
                f"{shown(column[bad].iloc[0])}."
            )
    return out


def _differ(x: FloatArray, y: FloatArray) -> BoolArray:
    """Where codes differ; what is missing is the same as what is missing."""
    return (x != y) & ~(np.isnan(x) & np.isnan(y))


def _spreads(features: cp.Features, codes: FloatArray) -> FloatArray:
    out = np.ones(len(features))
    for j in np.flatnonzero(features.is_numeric).tolist():
        values = codes[~np.isnan(codes[:, j]), j]
        out[j] = (values.std() if len(values) else 0.0) or 1.0
    return out


def _decoded(
    features: cp.Features, rows: pd.DataFrame, before: FloatArray, after: FloatArray
) -> pd.DataFrame:
    """Return rows with their changed cells replaced; a column keeps its dtype if it can."""
    import pandas as pd

    out, changed = rows.copy(), _differ(before, after)
    for j in np.flatnonzero(changed.any(axis=0)).tolist():
        feature, column = features.items[j], rows.iloc[:, j]
        new = pd.Series(after[:, j])
        if isinstance(feature, cp.Categorical):
            new = new.map(dict(enumerate(feature.categories))).astype(object)
        elif (new == new.round()).all() or not pd.api.types.is_integer_dtype(column.dtype):
            new = new.astype(column.dtype)
        mixed = column.astype(object).where(~changed[:, j], new.astype(object))
        out[feature.name] = mixed.astype(
            column.dtype if isinstance(feature, cp.Categorical) else new.dtype
        )
    return out


# What models say


def _own(model: Any) -> Any:
    """The model itself, if an `Explainer` was passed."""
    return model.model if isinstance(model, cp.Explainer) else model


def predicted_by(model: Any, rows: Any) -> NDArray[Any]:
    """(m,) what a model predicts; no rows, no predictions."""
    estimator = _own(model)
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
    wanted = target.requirement
    if wanted.chance is not None or (wanted.probable and wanted.at_least is None):
        raise InvalidInput(
            "Expected a target that a prediction meets or misses, such as cp.Label('yes'); got "
            f"{shown(target)}."
        )
    if wanted.at_least is not None:
        estimator = _own(model)
        classes = np.asarray(getattr(estimator, "classes_", ())).tolist()
        if wanted.labels[0] not in classes or not hasattr(estimator, "predict_proba"):
            raise InvalidInput(
                f"{type(estimator).__name__} says no probability of {wanted.labels[0]!r}; "
                "pass a Label."
            )
        shares = (
            np.asarray(estimator.predict_proba(rows)) if len(rows) else np.empty((0, len(classes)))
        )
        return shares[:, classes.index(wanted.labels[0])] >= wanted.at_least
    predicted = predicted_by(model, rows)
    if wanted.limits is not None:
        return np.asarray((predicted >= wanted.limits[0]) & (predicted <= wanted.limits[1]))
    if not wanted.labels:
        return np.asarray(predicted != before)
    named = np.logical_or.reduce([predicted == label for label in wanted.labels])
    return np.asarray(named != wanted.others)


def is_other(target: cp.Target) -> bool:
    """Whether any class other than that of the factual row is wanted."""
    return target.requirement.others and not target.requirement.labels


def valid_rows(model: Any, answers: AnswerPairs, target: Any, rows: pd.DataFrame) -> BoolArray:
    """(m,): whether rows in the place of the answers meet the target."""
    wanted = wanted_of(target)
    before = (
        predicted_by(model, answers.as_input(answers.before, model)) if is_other(wanted) else None
    )
    return meets(model, wanted, answers.as_input(rows, model), before)


def wanted_of(target: Any) -> cp.Target:
    """A target; of None, any other class."""
    return cp.OtherLabel() if target is None else as_target(target)
