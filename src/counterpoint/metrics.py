"""Metrics of counterfactuals, whichever tool they come from, named as in the field.

Each gives one number for each answer, NaN where there is none; `compare` makes one table of several
tools. Answers are rows in the order of the factual rows, in which a row that is missing as a whole
says that none was found; or several to each, with ``row``, the positions of the rows that they
answer. A number that differs by less than a millionth of itself, or of the column's standard
deviation, counts as unchanged: that is rounding.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

import counterpoint as cp
from counterpoint.errors import InvalidInput, InvalidSpec, all_of, shown, some
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.targets import as_target

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "compare",
    "constraint_violation",
    "diversity",
    "lof",
    "optimality_gap",
    "problem_from_dice",
    "proximity",
    "read_dice",
    "redundancy",
    "sparsity",
    "validity",
    "ynn",
]

ROUNDING = 1e-6
"""Relative differences of numbers up to this are no change, and no violation."""


@final
class Read(TypedDict, total=False):
    """What all metrics take besides; see `validity`."""

    data: object | None
    row: ArrayLike | None


@final
@dataclass(frozen=True, eq=False)
class Pairs:
    """m answers beside the rows that they answer, and the data that say spreads."""

    features: cp.Features  # p columns
    row: IntArray  # (m,) the positions of the factual rows
    count: int  # how many factual rows there are
    found: BoolArray  # (m,)
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
        return _differ(self.x, self.y) & self.found[:, None]

    @property
    def spread(self) -> FloatArray:
        """(p,) standard deviations of the columns; 1 for categories and constants."""
        return _spreads(self.features, self.codes)

    def encoded(self, codes: FloatArray) -> FloatArray:
        """(m, d) points in the space of costs; what is missing as zeros."""
        return self.features.expand(np.nan_to_num(codes))

    def given(self, rows: pd.DataFrame, model: Any) -> Any:
        """Rows in the kind that a model takes."""
        own = _own(model)
        named = hasattr(own, "feature_names_in_") or not hasattr(own, "n_features_in_")
        return rows if named and not self.is_array else rows.to_numpy()

    def told(self, values: ArrayLike) -> FloatArray:
        """(m,) values; NaN where no answer was found."""
        return np.where(self.found, np.asarray(values, dtype=np.float64), np.nan)

    def costs(self, cost: cp.Cost) -> FloatArray:
        """(m,) costs; NaN also where a cell was filled in or emptied, which has no distance."""
        values = cost.price(self.features)(self.encoded(self.y) - self.encoded(self.x))
        filled = (np.isnan(self.x) != np.isnan(self.y)).any(axis=1)
        return np.where(filled, np.nan, self.told(values))

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

    def space(self, k: int) -> tuple[BoolArray, FloatArray, BoolArray, FloatArray]:
        """Which rows of the data, and which answers, miss no cell; and these as points.

        Euclidean distances between points are those of `proximity` by ``"l2"``.
        """
        sizes = [block.stop - block.start for block in self.features.blocks]
        unit = np.repeat(np.where(self.features.is_numeric, self.spread, np.sqrt(2.0)), sizes)
        whole = np.asarray(~np.isnan(self.codes).any(axis=1))
        asked = np.asarray(~np.isnan(self.y).any(axis=1) & self.found)
        if k not in range(1, int(whole.sum())):
            raise InvalidInput(
                f"Expected k from 1 to less than the {whole.sum()} rows of data; got {shown(k)}."
            )
        points, answers = self.codes[whole], self.y[asked]
        return (
            whole,
            self.features.expand(points) / unit,
            asked,
            self.features.expand(answers) / unit,
        )

    def put(self, asked: BoolArray, values: FloatArray) -> FloatArray:
        """(m,) values of some answers; NaN for the others."""
        out = np.full(len(self.row), np.nan)
        out[asked] = values
        return out


def pairs(
    model: Any,
    factuals: object,
    counterfactuals: object,
    data: object | None = None,
    row: ArrayLike | None = None,
) -> Pairs:
    """Read both sides; the parameters are those of `validity`."""
    if row is None and isinstance(counterfactuals, cp.Alternatives):
        row = counterfactuals.row
    told = model.features if isinstance(model, cp.Explainer) else None
    x = _frame(factuals, told)
    shows = x if data is None else _frame(data, told)
    seen = cp.Features.from_data(shows) if told is None else told
    y = _frame(counterfactuals, seen)
    features = _numbers(seen, x, y) if told is None else told
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
    came, after, known = (_codes(features, frame[names], what) for what, frame in sides.items())
    before = came[at]
    found = ~y[names].isna().all(axis=1).to_numpy()
    size = np.fmax(_spreads(features, known), np.abs(before))
    near = features.is_numeric & (np.abs(after - before) <= ROUNDING * size)
    after = np.where(near | ~found[:, None], before, after)
    rows = x[names].iloc[at].reset_index(drop=True)
    answers = _decoded(features, rows, before, after)
    numbers = features, at, len(x), found, before, after, shows[names], known
    return Pairs(*numbers, isinstance(factuals, np.ndarray), rows, answers)


def _frame(rows: Any, features: cp.Features | None) -> pd.DataFrame:
    """Rows of any kind as a pandas frame; the columns of an array are the features."""
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
    """(n, p) the number, or the position of the category; NaN for what is missing.

    Text stands for the category that is written so: other tools turn categories into text.
    """
    import pandas as pd

    out = np.empty((len(frame), len(features)))
    for j, feature in enumerate(features):
        column, wanted = frame[feature.name], "a finite number"
        if isinstance(feature, cp.Categorical):
            known: dict[Any, int] = {str(c): k for k, c in enumerate(feature.categories)}
            known |= {c: k for k, c in enumerate(feature.categories)}
            codes, wanted = column.astype(object).map(known), "one of its categories"
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
    """Rows with their changed cells replaced, in their dtypes where these hold the values."""
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


def said(model: Any, rows: Any) -> NDArray[Any]:
    """(m,) what a model predicts; no rows, no predictions."""
    own = _own(model)
    if not hasattr(own, "predict"):
        raise InvalidInput(f"Expected a fitted model with predict; got {shown(own)}.")
    try:
        return np.asarray(own.predict(rows)).reshape(-1) if len(rows) else np.empty(0)
    except (TypeError, ValueError) as error:
        told = str(error).partition("\n")[0].rstrip(".:")
        raise InvalidInput(f"{type(own).__name__} does not take these rows: {told}.") from error


def meets(
    model: Any, target: cp.Target, rows: Any, before: NDArray[Any] | None = None
) -> BoolArray:
    """(m,): whether a model gives rows the target; ``before``: what it is to be other than."""
    wanted = target.requirement
    if wanted.chance is not None or (wanted.probable and wanted.at_least is None):
        raise InvalidInput(
            "Expected a target that a prediction meets or misses, such as cp.Label('yes'); got "
            f"{shown(target)}."
        )
    if wanted.at_least is not None:
        own = _own(model)
        known = np.asarray(getattr(own, "classes_", ())).tolist()
        if wanted.labels[0] not in known or not hasattr(own, "predict_proba"):
            raise InvalidInput(
                f"{type(own).__name__} says no probability of {wanted.labels[0]!r}; pass a Label."
            )
        shares = np.asarray(own.predict_proba(rows)) if len(rows) else np.empty((0, len(known)))
        return shares[:, known.index(wanted.labels[0])] >= wanted.at_least
    predicted = said(model, rows)
    if wanted.limits is not None:
        return np.asarray((predicted >= wanted.limits[0]) & (predicted <= wanted.limits[1]))
    if not wanted.labels:
        return np.asarray(predicted != before)
    named = np.logical_or.reduce([predicted == label for label in wanted.labels])
    return np.asarray(named != wanted.others)


def is_other(target: cp.Target) -> bool:
    """Whether any class other than that of the factual row is wanted."""
    return target.requirement.others and not target.requirement.labels


def _valid(model: Any, asked: Pairs, target: Any, rows: pd.DataFrame) -> BoolArray:
    """(m,): whether rows in the place of the answers meet the target."""
    wanted = _wanted(target)
    before = said(model, asked.given(asked.before, model)) if is_other(wanted) else None
    return meets(model, wanted, asked.given(rows, model), before)


def _wanted(target: Any) -> cp.Target:
    return cp.OtherLabel() if target is None else as_target(target)


# The metrics


def validity(
    model: Any, factuals: Any, counterfactuals: Any, target: Any = None, **read: Unpack[Read]
) -> FloatArray:
    """Whether the model gives each answer the target, by its own ``predict``: 1 or 0.

    Parameters
    ----------
    model
        An `Explainer`, which says kinds of features, cost and constraints; or any fitted model with
        ``predict`` (with ``predict_proba`` for a `Probability`).
    factuals, counterfactuals
        Rows and answers to them: data frames, arrays, `Counterfactuals`, `Alternatives`.
    target
        A `Target`, or a label; None for any class other than that of the factual row. Its margin
        is not looked at.
    **read
        ``data``: rows like those the model was fitted on, which say the spreads of the columns, and
        without an `Explainer` their kinds; by default the factual rows do. ``row``: (m,) which
        factual row each answers, by position; by default one each, in order.

    Returns
    -------
    ndarray of shape (m,)
        NaN where no answer was found.

    Raises
    ------
    InvalidInput
        If columns are missing, rows and answers do not fit each other, or the target is one that a
        prediction cannot meet.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoint import metrics
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = LogisticRegression().fit(X, [0, 0, 1, 1])
    >>> metrics.validity(model, X[:2], np.array([[2.0], [1.1]]), 1)
    array([1., 0.])
    """
    asked = pairs(model, factuals, counterfactuals, **read)
    return asked.told(_valid(model, asked, target, asked.after))


def proximity(
    model: Any,
    factuals: object,
    counterfactuals: object,
    distance: str | cp.Cost = "mad",
    **read: Unpack[Read],
) -> FloatArray:
    """The distance of each answer from its row; a category that changes counts 1.

    Parameters
    ----------
    model, factuals, counterfactuals, **read
        As for `validity`.
    distance
        ``"l1"`` and ``"l2"`` in standard deviations of each column; ``"mad"``, the sum of changes
        in median absolute deviations; or a `Cost`.

    Returns
    -------
    ndarray of shape (m,)
        NaN also where a missing cell was filled in.
    """
    return pairs(model, factuals, counterfactuals, **read).distances(distance)


def sparsity(model: Any, factuals: Any, counterfactuals: Any, **read: Unpack[Read]) -> FloatArray:
    """How many features each answer changes; parameters as for `validity`."""
    asked = pairs(model, factuals, counterfactuals, **read)
    return asked.told(asked.changed.sum(axis=1))


def redundancy(
    model: Any, factuals: Any, counterfactuals: Any, target: Any = None, **read: Unpack[Read]
) -> FloatArray:
    """How many changes of each answer could be taken back, one at a time, with it still valid.

    Parameters as for `validity`. NaN also for answers that are not valid.

    References
    ----------
    Pawelczyk et al. (2021), CARLA, NeurIPS Datasets and Benchmarks.
    """
    asked = pairs(model, factuals, counterfactuals, **read)
    times = np.zeros(len(asked.row))
    for j in np.flatnonzero(asked.changed.any(axis=0)).tolist():
        undone, name = asked.after.copy(), asked.features.names[j]
        undone[name] = asked.before[name]
        times += _valid(model, asked, target, undone) & asked.changed[:, j]
    return np.where(_valid(model, asked, target, asked.after), asked.told(times), np.nan)


def constraint_violation(
    model: Any,
    factuals: object,
    counterfactuals: object,
    constraints: cp.Constraint | Iterable[cp.Constraint] = (),
    **read: Unpack[Read],
) -> FloatArray:
    """By how much each answer violates the constraint that it violates most; 0 if it meets all.

    Relative to the size of the constraint's terms, as in `Certificate`; up to a millionth is
    rounding, and counts as 0. That an `Integer` changes in whole steps is one of the constraints.

    Parameters
    ----------
    model, factuals, counterfactuals, **read
        As for `validity`. The constraints of an `Explainer` count, and those that its data imply.
    constraints
        More of them.

    Returns
    -------
    ndarray of shape (m,)
    """
    asked = pairs(model, factuals, counterfactuals, **read)
    known = (*model.constraints, *model.implied) if isinstance(model, cp.Explainer) else ()
    more = all_of(cp.Constraint, constraints, "constraints such as cp.Immutable('age')")
    worst = np.zeros(len(asked.row))
    x, y = asked.encoded(asked.x), asked.encoded(asked.y)
    for constraint in (*known, *more):
        worst = np.maximum(worst, constraint.region(asked.features).violation(y, x))
    for j, feature in enumerate(asked.features):
        if isinstance(feature, cp.Integer):
            steps = np.nan_to_num((asked.y[:, j] - asked.x[:, j]) / feature.step)
            worst = np.maximum(worst, np.abs(steps - np.round(steps)))
    return asked.told(np.where(worst > ROUNDING, worst, 0.0))


def ynn(
    model: Any,
    factuals: Any,
    counterfactuals: Any,
    target: Any = None,
    k: int = 5,
    **read: Unpack[Read],
) -> FloatArray:
    """The share of each answer's k nearest rows of the data to which the model gives the target.

    For several classes and for regressors too. Distances are those of `proximity` by ``"l2"``;
    rows of the data with a missing cell are left out, and answers with one have no number.

    Parameters
    ----------
    model, factuals, counterfactuals, target, **read
        As for `validity`.
    k
        How many neighbours.

    Returns
    -------
    ndarray of shape (m,)

    References
    ----------
    Pawelczyk et al. (2021), CARLA, NeurIPS Datasets and Benchmarks.
    """
    from sklearn.neighbors import NearestNeighbors

    asked, wanted = pairs(model, factuals, counterfactuals, **read), _wanted(target)
    whole, points, known, answers = asked.space(k)
    if not len(answers):
        return asked.told(np.nan)
    near = NearestNeighbors(n_neighbors=k).fit(points).kneighbors(answers, return_distance=False)
    rows = asked.given(asked.data[whole], model)
    if is_other(wanted):
        before = said(model, asked.given(asked.before[known], model))
        met = said(model, rows)[near] != before[:, None]
    else:
        met = meets(model, wanted, rows)[near]
    return asked.put(known, met.mean(axis=1))


def lof(
    model: Any, factuals: Any, counterfactuals: Any, k: int = 20, **read: Unpack[Read]
) -> FloatArray:
    """The local outlier factor of each answer among the data: about 1 inside, larger outside.

    By scikit-learn's `LocalOutlierFactor` with k neighbours, in the space of `ynn`; parameters as
    there.
    """
    from sklearn.neighbors import LocalOutlierFactor

    asked = pairs(model, factuals, counterfactuals, **read)
    _, points, known, answers = asked.space(k)
    if not len(answers):
        return asked.told(np.nan)
    return asked.put(known, -LocalOutlierFactor(k, novelty=True).fit(points).score_samples(answers))


def diversity(
    model: Any,
    factuals: object,
    counterfactuals: object,
    distance: str | cp.Cost = "mad",
    **read: Unpack[Read],
) -> FloatArray:
    """The mean distance between two answers to the same row; parameters as for `proximity`.

    Returns
    -------
    ndarray of shape (n,)
        One for each factual row; NaN for those with fewer than two answers.

    References
    ----------
    Mothilal, Sharma & Tan (2020), Explaining machine learning classifiers through diverse
    counterfactual explanations, FAccT.
    """
    asked = pairs(model, factuals, counterfactuals, **read)
    each = (np.flatnonzero((asked.row == i) & asked.found) for i in np.unique(asked.row))
    both = [(a, b) for mine in each for k, a in enumerate(mine) for b in mine[:k]]
    first, second = np.array(both, dtype=np.intp).reshape(-1, 2).T
    found = np.ones(len(first), dtype=bool)
    two = replace(asked, row=asked.row[first], found=found, x=asked.y[first], y=asked.y[second])
    sums = np.bincount(two.row, two.distances(distance), minlength=asked.count)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / np.bincount(two.row, minlength=asked.count))


def optimality_gap(
    model: Any, factuals: Any, counterfactuals: Any, target: Any = None, **read: Unpack[Read]
) -> FloatArray:
    """(cost − bound) / cost, by the cost of the `Explainer` and its proved bound: 0 is optimal.

    A gap of 0.5 says that the answer costs up to twice as much as the cheapest. Parameters as for
    `validity`; ``model`` must be an `Explainer`.

    Returns
    -------
    ndarray of shape (m,)
        NaN also for answers that are not valid or violate a constraint: the bound is not on them.
    """
    if not isinstance(model, cp.Explainer):
        raise InvalidInput(f"optimality_gap needs an Explainer, for bounds; got {shown(model)}.")
    asked = pairs(model, factuals, counterfactuals, **read)
    cost, wanted = asked.costs(model.cost), _wanted(target)
    bound = model.explain(factuals, wanted).bound[asked.row]
    violated = constraint_violation(model, factuals, counterfactuals, **read) > 0.0
    comparable = _valid(model, asked, wanted, asked.after) & ~violated
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.where(cost == 0.0, 0.0, (cost - bound) / cost)
    return np.where(comparable, gap, np.nan)


def compare(
    model: Any,
    factuals: object,
    counterfactuals: Mapping[str, Any] | object,
    target: Any = None,
    *,
    data: object | None = None,
) -> pd.DataFrame:
    """One row a tool: how many answers it found, and the means of the metrics over them.

    Parameters
    ----------
    model, factuals, target, data
        As for `validity`. With an `Explainer` the table has its own answers as well.
    counterfactuals
        Name of a tool → its answers, as for `validity`; or as a pair with their ``row``, as
        `read_dice` gives them. What is no mapping are the answers of one tool.

    Returns
    -------
    pandas.DataFrame
        ``found``: the share of rows with an answer; ``validity``: that of valid answers. All else
        are means over valid answers, since others may be as near as they like: ``l1``, ``l2`` and
        ``mad`` are `proximity`, ``violated`` is the share that violates a constraint, ``gap`` is
        `optimality_gap`. ``diversity`` is that of all answers.
    """
    import pandas as pd

    tools = {"answers": counterfactuals}
    if isinstance(counterfactuals, Mapping):
        tools = dict(counterfactuals)
    if isinstance(model, cp.Explainer):
        tools = {"counterpoint": model.explain(factuals, _wanted(target)), **tools}
    lines = {}
    for name, answers in tools.items():
        rows, row = answers if isinstance(answers, tuple) else (answers, None)
        lines[name] = _means(model, factuals, rows, target, {"data": data, "row": row})
    return pd.DataFrame.from_dict(lines, orient="index")


def _means(
    model: Any, factuals: object, answers: object, target: Any, read: Read
) -> dict[str, float]:
    """The line of one tool."""
    both = model, factuals, answers
    asked, valid = pairs(*both, **read), validity(*both, target, **read)
    values = {name: proximity(*both, distance=name, **read) for name in ("l1", "l2", "mad")}
    values["sparsity"] = sparsity(*both, **read)
    values["redundancy"] = redundancy(*both, target, **read)
    values["violated"] = np.sign(constraint_violation(*both, **read))
    values["ynn"], values["lof"] = ynn(*both, target, **read), lof(*both, **read)
    if isinstance(model, cp.Explainer):
        values["gap"] = optimality_gap(*both, target, **read)
    means = {name: _mean(column[valid == 1.0]) for name, column in values.items()}
    found = len(np.unique(asked.row[asked.found])) / max(asked.count, 1)
    diverse = _mean(diversity(*both, **read))
    return {"found": found, "validity": _mean(valid), **means, "diversity": diverse}


def _mean(values: FloatArray) -> float:
    """Of all that are no NaN; NaN of none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


# What DiCE writes, and what it is asked


def read_dice(source: str | PathLike[str]) -> tuple[pd.DataFrame, IntArray]:
    """The counterfactuals of a JSON file of DiCE, and the positions of the rows that they answer.

    Parameters
    ----------
    source
        A path, or the text that ``to_json()`` of dice-ml 0.8 or later returned.

    Returns
    -------
    frame : pandas.DataFrame
        (m, p) without the outcome.
    row : ndarray of shape (m,)
        As the metrics take them.

    Raises
    ------
    InvalidSpec
        If it is no such JSON.
    """
    import pandas as pd

    is_text = isinstance(source, str) and source.lstrip()[:1] in ("{", "[")
    name = "The text" if is_text else Path(source).name
    try:
        text = str(source) if is_text else Path(source).read_text(encoding="utf-8")
        told = json.loads(text)
        version = told["metadata"]["version"]
        names, sets = list(told["feature_names_including_target"]), told["cfs_list"]
        outcome = told["data_interface"]["outcome_name"]
        lists = [answers or [] for answers in sets]
        rows = [dict(zip(names, answer, strict=True)) for some in lists for answer in some]
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidSpec(
            f"{name} is no JSON of DiCE that can be read ({type(error).__name__}: {error}). Write "
            "it with to_json() of what generate_counterfactuals returned (dice-ml 0.8 or later)."
        ) from error
    if version != "2.0":
        raise InvalidSpec(f"{name} has version {shown(version)} of DiCE's JSON; expected '2.0'.")
    frame = pd.DataFrame(rows, columns=names).drop(columns=[outcome])
    return frame, np.repeat(np.arange(len(lists)), list(map(len, lists)))


def problem_from_dice(
    data: object,
    features_to_vary: str | Sequence[Hashable] = "all",
    permitted_range: Mapping[Hashable, Sequence[Any]] | None = None,
    target: Any = None,
) -> cp.Problem:
    """The `Problem` that DiCE's options describe: what it may vary, and within which range.

    Parameters
    ----------
    data
        Rows like those the model was fitted on.
    features_to_vary
        ``"all"``, or names; the others are `Immutable`.
    permitted_range
        Name → [low, high], a `Bounds`; of categories, those that an answer may choose. Other
        numbers stay within the range of the data, in DiCE as in an `Explainer`.
    target
        For the problem.

    Returns
    -------
    Problem
        ``problem.explainer(model, data=data)`` asks the same, and ``problem.save("policy.toml")``
        keeps it.

    Examples
    --------
    >>> import pandas as pd
    >>> from counterpoint import metrics
    >>> X = pd.DataFrame({"income": [30.0, 50.0], "home": ["own", "rent"], "age": [40, 50]})
    >>> metrics.problem_from_dice(X, ["income", "home"], {"income": [20, 60]}).constraints
    (Immutable(features=('age',)), Bounds(feature='income', low=20, high=60, fall=inf, rise=inf))
    """
    shows = _frame(data, None)
    known = cp.Features.from_data(shows)
    vary = known.names if features_to_vary == "all" else tuple(features_to_vary)
    for name in (*vary, *(permitted_range or {})):
        known.index(name)
    held = [name for name in known.names if name not in vary]
    constraints: list[cp.Constraint] = [cp.Immutable(*held)] if held else []
    features: list[Any] = []
    for name, allowed in (permitted_range or {}).items():
        feature = known[name]
        if isinstance(feature, cp.Categorical):
            named = {str(c): c for c in feature.categories}
            chosen = tuple(named.get(str(value), value) for value in allowed)
            features.append(replace(feature, observed=chosen))
        elif len(allowed) == 2:
            constraints.append(cp.Bounds(name, *allowed))
        else:
            raise InvalidInput(
                f"Expected [low, high] in permitted_range for {name!r}; got {shown(allowed)}."
            )
    return cp.Problem(target, None, tuple(constraints), tuple(features))
