"""Readers of scikit-learn's trees and of ensembles of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from counterpoint.errors import UnsupportedModel
from counterpoint.families.trees.form import Odds, Order, Trees, TreeScores
from counterpoint.models.columns import NUMBERS, Columns, join
from counterpoint.models.dispatch import classes_of, finish, finish_alone, read, read_step
from counterpoint.models.form import Form
from counterpoint.numerics import FloatArray

__all__ = ["from_float32"]

KINDS = (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
"""What is read here."""


def from_float32(thresholds: FloatArray, *, strict: bool = False) -> FloatArray:
    """Thresholds of comparisons in float32 as the largest float64 numbers that go left.

    A number goes left if it is rounded to a float32 that is at most the threshold, or below it.
    """
    with np.errstate(over="ignore"):
        last = thresholds.astype(np.float32)
    above = last.astype(np.float64) >= thresholds if strict else last > thresholds
    last = np.where(above, np.nextafter(last, np.float32(-np.inf)), last)
    following = np.nextafter(last, np.float32(np.inf)).astype(np.float64)
    middle = 0.5 * (last.astype(np.float64) + following)
    already_satisfied = middle.astype(np.float32) <= last
    return np.where(already_satisfied, middle, np.nextafter(middle, -np.inf))


def _tree(model: Any, *, missing: bool = True) -> Trees:
    """One fitted tree, with its own values; whether what is missing may pass."""
    tree = model.tree_
    count = tree.node_count
    own = np.arange(count)
    leaf = tree.children_left < 0
    values = tree.value[:, 0, :].astype(np.float64)
    return Trees(
        np.where(leaf, -1, tree.feature).astype(np.intp),
        from_float32(np.where(leaf, 0.0, tree.threshold)),
        np.where(leaf, own, tree.children_left).astype(np.intp),
        np.where(leaf, own, tree.children_right).astype(np.intp),
        values,
        np.zeros(1, dtype=np.intp),
        np.full(count, -1, dtype=np.intp),
        missing=tree.missing_go_to_left.astype(bool) if missing else None,
    )


def _order(model: Any) -> Order:
    """In which order sums over a model's members are added up."""
    return Order.ALONE if model.n_jobs in (None, 1) else Order.ANY


@read.register(DecisionTreeClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    base, inputs = np.zeros(len(classes)), model.n_features_in_
    return TreeScores(_tree(model), base, classes, inputs, Odds.SHARES, order=Order.LISTED)


@read.register(DecisionTreeRegressor)
def _(model: Any) -> Form:
    _require_one_output(model)
    inputs = model.n_features_in_
    return TreeScores(_tree(model), np.zeros(1), None, inputs, order=Order.LISTED)


@read.register(RandomForestClassifier | ExtraTreesClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    parts = [_tree(one) for one in model.estimators_]
    base, inputs, trees = np.zeros(len(classes)), model.n_features_in_, Trees.joined(parts)
    form = TreeScores(trees, base, classes, inputs, Odds.SHARES)
    return replace(form, divisor=len(parts), order=_order(model))


@read.register(RandomForestRegressor | ExtraTreesRegressor)
def _(model: Any) -> Form:
    _require_one_output(model)
    parts = [_tree(one) for one in model.estimators_]
    trees, inputs = Trees.joined(parts), model.n_features_in_
    form = TreeScores(trees, np.zeros(1), None, inputs)
    return replace(form, divisor=len(parts), order=_order(model))


@read.register(GradientBoostingClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    _require_constant_start(model)
    rows = np.zeros((1, model.n_features_in_))
    start = np.asarray(model._raw_predict_init(rows))[0]  # noqa: SLF001 (kept nowhere public)
    count, parts = len(classes), []
    for stage in model.estimators_:
        for k, one in enumerate(stage):
            tree = _tree(one, missing=False)
            at = k if len(stage) > 1 else 1
            values = np.zeros((len(tree.values), count))
            values[:, at] = model.learning_rate * tree.values[:, 0]
            parts.append(tree.valued(values))
    base = start if len(start) == count else np.array([0.0, start[0]])
    odds = Odds.LOGISTIC if model.loss == "log_loss" else Odds.NONE
    return TreeScores(Trees.joined(parts), base, classes, model.n_features_in_, odds)


@read.register(GradientBoostingRegressor)
def _(model: Any) -> Form:
    _require_constant_start(model)
    rows = np.zeros((1, model.n_features_in_))
    start = np.asarray(model._raw_predict_init(rows))[0]  # noqa: SLF001
    parts = [_tree(stage[0], missing=False) for stage in model.estimators_]
    parts = [part.valued(model.learning_rate * part.values) for part in parts]
    return TreeScores(Trees.joined(parts), start, None, model.n_features_in_)


# --- histogram-based gradient boosting ---


@read.register(HistGradientBoostingClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    count, start = len(classes), np.asarray(model._baseline_prediction).ravel()  # noqa: SLF001
    trees = _histogram_trees(model, [1] if count == 2 else list(range(count)), count)
    base = start if count > 2 else np.array([0.0, start[0]])
    inputs, odds = model.n_features_in_, Odds.LOGISTIC
    return TreeScores(trees, base, classes, inputs, odds, order=Order.LISTED)


@read.register(HistGradientBoostingRegressor)
def _(model: Any) -> Form:
    if model.loss in ("poisson", "gamma"):
        raise UnsupportedModel(
            f"HistGradientBoostingRegressor with loss={model.loss!r} predicts an exponential of "
            "its sum over leaves, which is not read. Use loss='squared_error', or fit it on "
            "logarithms."
        )
    start = np.asarray(model._baseline_prediction).ravel()  # noqa: SLF001 (kept nowhere public)
    trees, inputs = _histogram_trees(model, [0], 1), model.n_features_in_
    return TreeScores(trees, start, None, inputs, order=Order.LISTED)


def _histogram_trees(model: Any, outputs: list[int], count: int) -> Trees:
    """The trees, of which each adds to one of so many sums."""
    stages = model._predictors  # noqa: SLF001 (kept nowhere public)
    return Trees.joined(
        [
            _histogram_tree(one, at, count)
            for stage in stages
            for at, one in zip(outputs, stage, strict=True)
        ]
    )


def _histogram_tree(predictor: Any, at: int, count: int) -> Trees:
    nodes = predictor.nodes
    own, leaf = np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
    values = np.zeros((len(nodes), count))
    values[:, at] = np.where(leaf, nodes["value"], 0.0)
    categories = ~leaf & nodes["is_categorical"].astype(bool)
    bits = np.unpackbits(
        np.ascontiguousarray(predictor.raw_left_cat_bitsets, dtype="<u4").view(np.uint8),
        axis=1,
        bitorder="little",
    )
    return Trees(
        np.where(leaf, -1, nodes["feature_idx"]).astype(np.intp),
        np.where(leaf, 0.0, nodes["num_threshold"]),
        np.where(leaf, own, nodes["left"]).astype(np.intp),
        np.where(leaf, own, nodes["right"]).astype(np.intp),
        values,
        np.zeros(1, dtype=np.intp),
        np.where(categories, nodes["bitset_idx"].astype(np.intp), -1),
        tuple(np.flatnonzero(one).astype(np.float64) for one in bits),
        nodes["missing_go_to_left"].astype(bool),
    )


# --- ensembles of trees that are fitted one by one ---


@read.register(AdaBoostClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    weights = np.asarray(model.estimator_weights_)[: len(model.estimators_)]
    parts = []
    for one, weight in zip(model.estimators_, weights / weights.sum(), strict=True):
        form = _member(model, one, classes, DecisionTreeClassifier)
        chosen = np.eye(len(classes))[form.trees.values.argmax(axis=1)]
        votes = weight * np.where(chosen > 0.0, 1.0, -1.0 / (len(classes) - 1))
        parts.append(replace(form.trees, values=votes, missing=None))
    base, odds = np.zeros(len(classes)), Odds.LOGISTIC if len(classes) == 2 else Odds.NONE
    return TreeScores(Trees.joined(parts), base, classes, model.n_features_in_, odds)


@read.register(BaggingClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    own = [_member(model, one, classes) for one in model.estimators_]
    return _mean(model, own, classes, np.ones(len(own)), model.estimators_features_)


@read.register(BaggingRegressor)
def _(model: Any) -> Form:
    own = [_member(model, one, None) for one in model.estimators_]
    return _mean(model, own, None, np.ones(len(own)), model.estimators_features_)


@read.register(VotingClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    weights = model._weights_not_none  # noqa: SLF001 (those of members that were dropped are left out)
    weights = np.ones(len(model.estimators_)) if weights is None else np.asarray(weights, float)
    if model.voting == "soft":
        own = [_member(model, one, classes) for one in model.estimators_]
        return _mean(model, own, classes, weights)
    own = [_member(model, one, classes, DecisionTreeClassifier) for one in model.estimators_]
    votes = [np.eye(len(classes))[form.trees.values.argmax(axis=1)] for form in own]
    parts = zip(own, votes, weights.tolist(), strict=True)
    trees = Trees.joined([form.trees.valued(weight * vote) for form, vote, weight in parts])
    return TreeScores(trees, np.zeros(len(classes)), classes, model.n_features_in_, order=Order.ANY)


@read.register(VotingRegressor)
def _(model: Any) -> Form:
    own = [_member(model, one, None) for one in model.estimators_]
    weights = model._weights_not_none  # noqa: SLF001
    return _mean(model, own, None, np.ones(len(own)) if weights is None else np.array(weights))


def _member(model: Any, one: Any, classes: NDArray[Any] | None, kind: type = object) -> TreeScores:
    """A member of an ensemble: sums over leaves that can be added up with those of others."""
    form = read(one) if isinstance(one, kind) else None
    if isinstance(form, TreeScores):
        own, shares = form.classes, form.odds is Odds.SHARES
        if (own is None) == (classes is None) and (own is None or shares):
            if own is None or classes is None or len(own) == len(classes):
                return form
            raise UnsupportedModel(
                f"{type(model).__name__} has a member that knows {len(own)} of {len(classes)} "
                "classes. Fit it with more rows for each member."
            )
    wanted = "decision trees" if kind is not object else "trees and forests"
    raise UnsupportedModel(
        f"{type(model).__name__} of {type(one).__name__} is not a sum over leaves; it is read over "
        f"{wanted}. Use these as its members."
    )


def _mean(
    model: Any,
    forms: list[TreeScores],
    classes: NDArray[Any] | None,
    weights: FloatArray,
    inputs: Any = None,
) -> TreeScores:
    """The weighted mean of sums, of which each may take some of the inputs only."""
    shares = weights / weights.sum()
    plain = inputs is not None and all(len(form.trees.roots) == 1 for form in forms)
    if plain:  # bags of single trees are added up and divided like forests
        trees = [form.trees for form in forms]
    else:
        trees = [
            form.trees.valued(w / form.divisor * form.trees.values)
            for form, w in zip(forms, shares, strict=True)
        ]
    if inputs is not None:
        trees = [tree.over(np.asarray(own)) for tree, own in zip(trees, inputs, strict=True)]
    base = sum((w * form.base for form, w in zip(forms, shares, strict=True)), np.zeros(1))
    odds = Odds.NONE if classes is None else Odds.SHARES
    mean = TreeScores(Trees.joined(trees), base, classes, model.n_features_in_, odds)
    return replace(mean, divisor=len(forms), order=_order(model)) if plain else mean


# --- on top of other steps ---


def _on_columns(model: Any, columns: Columns) -> tuple[Form, Columns]:
    """A model on top of columns, of which each that is tested depends on one feature alone."""
    form = read(model)
    mixed = np.diff(columns.matrix.indptr) > 1
    tested = form.trees.tested if isinstance(form, TreeScores) else np.arange(0)
    for i in tested[tested < len(columns)].tolist():
        if mixed[i] and columns.sources[i] == NUMBERS:
            raise columns.refusal(
                model,
                f"it tests its input {i}, which mixes several columns, so that its leaves are no "
                "boxes. Fit it on columns that are scaled, selected or encoded one by one.",
            )
    return finish_alone(model, columns)


for kind in KINDS:
    finish.register(kind, _on_columns)


@finish.register(HistGradientBoostingClassifier | HistGradientBoostingRegressor)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    encoders = model._preprocessor  # noqa: SLF001 (None without categories)
    if encoders is not None:  # it takes the categories first
        first = np.asarray(model.is_categorical_)
        encoded = read_step(
            encoders.named_transformers_["encoder"], columns.take(np.flatnonzero(first))
        )
        columns = join(columns, [encoded, columns.take(np.flatnonzero(~first))])
    return _on_columns(model, columns)


def _require_constant_start(model: Any) -> None:
    if model.init not in (None, "zero") and not hasattr(model.init_, "constant_"):
        raise UnsupportedModel(
            f"{type(model).__name__} starts from {type(model.init).__name__}, which is no "
            "constant. Use init=None or init='zero'."
        )


def _require_one_output(model: Any) -> None:
    if model.n_outputs_ > 1:
        raise UnsupportedModel(
            f"{type(model).__name__} has several outputs; expected one. "
            "Fit one model for each output and explain them one by one."
        )
