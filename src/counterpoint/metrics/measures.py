"""Computes the metrics, each a number for each answer, and the table of their means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

import counterpoint as cp
from counterpoint.errors import InvalidInput, all_of, shown
from counterpoint.metrics.pairs import (
    ROUNDING,
    AnswerPairs,
    ReadOptions,
    is_other,
    meets,
    pairs,
    predicted_by,
    target_of,
    valid_rows,
)
from counterpoint.numerics import FloatArray
from counterpoint.programs.program import kinds_region

if TYPE_CHECKING:
    import pandas as pd


def validity(
    model: Any, factuals: Any, counterfactuals: Any, target: Any = None, **read: Unpack[ReadOptions]
) -> FloatArray:
    """Return whether the model gives each answer the target, by its own ``predict``: 1 or 0.

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
    answers = pairs(model, factuals, counterfactuals, **read)
    return answers.masked(valid_rows(model, answers, target, answers.after))


def proximity(
    model: Any,
    factuals: object,
    counterfactuals: object,
    distance: str | cp.Cost = "mad",
    **read: Unpack[ReadOptions],
) -> FloatArray:
    """Return the distance of each answer from its row; a category that changes counts 1.

    Parameters
    ----------
    model, factuals, counterfactuals, **read
        As for `validity`.
    distance
        ``"l1"`` and ``"l2"`` in standard deviations of each column; ``"mad"``, the sum of changes
        in median absolute deviations; or a `Cost`. NaN also where a missing cell was filled in.
    """
    return pairs(model, factuals, counterfactuals, **read).distances(distance)


def sparsity(
    model: Any, factuals: Any, counterfactuals: Any, **read: Unpack[ReadOptions]
) -> FloatArray:
    """Return how many features each answer changes; parameters as for `validity`."""
    answers = pairs(model, factuals, counterfactuals, **read)
    return answers.masked(answers.changed.sum(axis=1))


def redundancy(
    model: Any, factuals: Any, counterfactuals: Any, target: Any = None, **read: Unpack[ReadOptions]
) -> FloatArray:
    """Count the changes of each answer that could be undone, one at a time, with it still valid.

    Parameters as for `validity`. NaN also for answers that are not valid.

    References
    ----------
    Pawelczyk et al. (2021), CARLA, NeurIPS Datasets and Benchmarks.
    """
    answers = pairs(model, factuals, counterfactuals, **read)
    count = np.zeros(len(answers.row))
    for j in np.flatnonzero(answers.changed.any(axis=0)).tolist():
        undone, name = answers.after.copy(), answers.features.names[j]
        undone[name] = answers.before[name]
        count += valid_rows(model, answers, target, undone) & answers.changed[:, j]
    valid = valid_rows(model, answers, target, answers.after)
    return np.where(valid, answers.masked(count), np.nan)


def constraint_violation(
    model: Any,
    factuals: object,
    counterfactuals: object,
    constraints: cp.Constraint | Iterable[cp.Constraint] = (),
    **read: Unpack[ReadOptions],
) -> FloatArray:
    """Return how much each answer violates the constraint it violates most; 0 if it meets all.

    Relative to the size of the constraint's terms, as in `Certificate`; up to a millionth is
    rounding, and counts as 0. That an `Integer` changes in whole steps is one of the constraints.

    Parameters
    ----------
    model, factuals, counterfactuals, **read
        As for `validity`. The constraints of an `Explainer` count, and those that its data imply.
    constraints
        More of them.
    """
    answers = pairs(model, factuals, counterfactuals, **read)
    of_model = (*model.constraints, *model.implied) if isinstance(model, cp.Explainer) else ()
    added = all_of(cp.Constraint, constraints, "constraints such as cp.Immutable('age')")
    worst = np.zeros(len(answers.row))
    x, y = answers.encoded(answers.x), answers.encoded(answers.y)
    for constraint in (*of_model, *added):
        region = constraint.region(answers.features)
        if isinstance(constraint, cp.Clearance):  # the model's thresholds are put into its region
            explainer = model
            if not isinstance(model, cp.Explainer):
                explainer = cp.Explainer(model, features=answers.features, cost=cp.Manhattan())
            region = explainer.reading.form.placed(kinds_region(answers.features) & region)
        worst = np.maximum(worst, region.violation(y, x))
    for j, feature in enumerate(answers.features):
        if isinstance(feature, cp.Integer):
            steps = np.nan_to_num((answers.y[:, j] - answers.x[:, j]) / feature.step)
            worst = np.maximum(worst, np.abs(steps - np.round(steps)))
    return answers.masked(np.where(worst > ROUNDING, worst, 0.0))


def ynn(
    model: Any,
    factuals: Any,
    counterfactuals: Any,
    target: Any = None,
    k: int = 5,
    **read: Unpack[ReadOptions],
) -> FloatArray:
    """Return the share of each answer's k nearest rows of data that have the target.

    For several classes and for regressors too. Distances are those of `proximity` by ``"l2"``;
    rows of the data with a missing cell are left out, and answers with one have no number.

    Parameters
    ----------
    model, factuals, counterfactuals, target, **read
        As for `validity`.
    k
        How many neighbours; of few data, all rows but one.

    References
    ----------
    Pawelczyk et al. (2021), CARLA, NeurIPS Datasets and Benchmarks.
    """
    from sklearn.neighbors import NearestNeighbors

    answers, target = pairs(model, factuals, counterfactuals, **read), target_of(target)
    complete_data, points, complete, answer_points, k = answers.neighbour_space(k)
    if not len(answer_points):
        return answers.masked(np.nan)
    search = NearestNeighbors(n_neighbors=k).fit(points)
    nearest = search.kneighbors(answer_points, return_distance=False)
    rows = answers.as_input(answers.data[complete_data], model)
    if is_other(target):
        before = predicted_by(model, answers.as_input(answers.before[complete], model))
        satisfied = predicted_by(model, rows)[nearest] != before[:, None]
    else:
        satisfied = meets(model, target, rows)[nearest]
    return answers.put(complete, satisfied.mean(axis=1))


def lof(
    model: Any, factuals: Any, counterfactuals: Any, k: int = 20, **read: Unpack[ReadOptions]
) -> FloatArray:
    """Return the local outlier factor of each answer among the data: about 1 inside, else larger.

    By scikit-learn's `LocalOutlierFactor` with k neighbours, in the space of `ynn`; parameters as
    there.
    """
    from sklearn.neighbors import LocalOutlierFactor

    answers = pairs(model, factuals, counterfactuals, **read)
    _, points, complete, answer_points, k = answers.neighbour_space(k)
    if not len(answer_points):
        return answers.masked(np.nan)
    fitted = LocalOutlierFactor(k, novelty=True).fit(points)
    return answers.put(complete, -fitted.score_samples(answer_points))


def diversity(
    model: Any,
    factuals: object,
    counterfactuals: object,
    distance: str | cp.Cost = "mad",
    **read: Unpack[ReadOptions],
) -> FloatArray:
    """Return the mean distance between two answers to the same row; parameters as for `proximity`.

    One number (n,) for each factual row; NaN for those with fewer than two answers.

    References
    ----------
    Mothilal, Sharma & Tan (2020), Explaining machine learning classifiers through diverse
    counterfactual explanations, FAccT.
    """
    answers = pairs(model, factuals, counterfactuals, **read)
    by_row = (np.flatnonzero((answers.row == i) & answers.answered) for i in np.unique(answers.row))
    couples = [(a, b) for group in by_row for k, a in enumerate(group) for b in group[:k]]
    first, second = np.array(couples, dtype=np.intp).reshape(-1, 2).T
    # Couples take the places of a row and its answer, so that distances are measured as theirs.
    answered = np.ones(len(first), dtype=bool)
    between = replace(
        answers, row=answers.row[first], answered=answered, x=answers.y[first], y=answers.y[second]
    )
    sums = np.bincount(between.row, between.distances(distance), minlength=answers.count)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / np.bincount(between.row, minlength=answers.count))


def optimality_gap(
    model: Any, factuals: Any, counterfactuals: Any, target: Any = None, **read: Unpack[ReadOptions]
) -> FloatArray:
    """Return (cost − bound) / cost, by an `Explainer`'s cost and proved bound: 0 is optimal.

    A gap of 0.5 says that the answer costs up to twice as much as the cheapest. NaN also for
    answers that are not valid or violate a constraint: the bound is not on them. Parameters as for
    `validity`; ``model`` must be an `Explainer`.
    """
    if not isinstance(model, cp.Explainer):
        raise InvalidInput(f"optimality_gap needs an Explainer, for bounds; got {shown(model)}.")
    answers = pairs(model, factuals, counterfactuals, **read)
    return _gaps(model, answers, target, model.explain(factuals, target_of(target)))


def _gaps(
    model: cp.Explainer, answers: AnswerPairs, target: Any, explained: cp.Counterfactuals
) -> FloatArray:
    """Return `optimality_gap` (m,), by the bounds of the explainer's own answers."""
    cost, bound = answers.costs(model.cost), explained.bound[answers.row]
    violated = constraint_violation(model, None, answers) > 0.0
    comparable = valid_rows(model, answers, target, answers.after) & ~violated
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
        As for `validity`. With an `Explainer` the table has its own answers as well; without
        data it has no ``ynn`` and no ``lof``.
    counterfactuals
        Name of a tool → its answers, as for `validity`; or as a pair with their ``row``, as
        `read_dice` gives them. Anything but a mapping is the answers of one tool.

    Returns
    -------
    pandas.DataFrame
        ``found``: the share of rows with an answer; ``validity``: that of valid answers. All else
        are means over valid answers, since others may be as near as they like: ``l1``, ``l2`` and
        ``mad`` are `proximity`, ``violated`` is the share that violates a constraint, ``gap`` is
        `optimality_gap`. ``diversity`` is that of all answers.
    """
    import pandas as pd

    is_many = isinstance(counterfactuals, Mapping)
    by_tool: Any = counterfactuals if is_many else {"answers": counterfactuals}
    explained = None
    if isinstance(model, cp.Explainer):
        explained = model.explain(factuals, target_of(target))
        by_tool = {"counterpoint": explained, **by_tool}
    lines = {}
    for tool, given in by_tool.items():
        rows, row = given if isinstance(given, tuple) else (given, None)
        answers = pairs(model, factuals, rows, data, row)
        lines[tool] = _means(model, answers, target, explained, has_data=data is not None)
    return pd.DataFrame.from_dict(lines, orient="index")


def _means(
    model: Any,
    answers: AnswerPairs,
    target: Any,
    explained: cp.Counterfactuals | None,
    *,
    has_data: bool,
) -> dict[str, float]:
    """Return one tool's line of the table; ``has_data``: whether there are data to be near to."""
    inputs = model, None, answers  # what was read already needs no factual rows
    valid = validity(*inputs, target)
    values = {name: proximity(*inputs, distance=name) for name in ("l1", "l2", "mad")}
    values["sparsity"] = sparsity(*inputs)
    values["redundancy"] = redundancy(*inputs, target)
    values["violated"] = np.sign(constraint_violation(*inputs))
    if has_data:
        values["ynn"], values["lof"] = ynn(*inputs, target), lof(*inputs)
    if explained is not None:
        values["gap"] = _gaps(model, answers, target, explained)
    means = {name: _mean(column[valid == 1.0]) for name, column in values.items()}
    found = len(np.unique(answers.row[answers.answered])) / max(answers.count, 1)
    return {
        "found": found,
        "validity": _mean(valid),
        **means,
        "diversity": _mean(diversity(*inputs)),
    }


def _mean(values: FloatArray) -> float:
    """Return the mean of the values that are no NaN; NaN of none."""
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")
