"""Readers of scikit-learn's trees and of ensembles of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
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
from counterpoint.families.trees.ensemble import Trees
from counterpoint.families.trees.form import Odds, Order, TreeScores
from counterpoint.models.columns import NUMBERS, Columns, join
from counterpoint.models.dispatch import (
    classes_of,
    finish,
    finish_alone,
    fitted,
    read,
    read_step,
)
from counterpoint.models.form import Form
from counterpoint.numerics import FloatArray


def from_float32(thresholds: FloatArray, *, strict: bool = False) -> FloatArray:
    """Return thresholds of comparisons in float32 as the largest float64 numbers that go left.

    A number goes left if, rounded to float32, it is at most the threshold; below it, if ``strict``.
    """
    with np.errstate(over="ignore"):
        last = thresholds.astype(np.float32)  # and then the last float32 number that goes left
    above = last.astype(np.float64) >= thresholds if strict else last > thresholds
    last = np.where(above, np.nextafter(last, np.float32(-np.inf)), last)
    following = np.nextafter(last, np.float32(np.inf)).astype(np.float64)
    middle = 0.5 * (last.astype(np.float64) + following)  # which is rounded to the even one
    goes_left = middle.astype(np.float32) <= last
    return np.where(goes_left, middle, np.nextafter(middle, -np.inf))


def _tree(model: Any, *, missing: bool = True) -> Trees:
    """Return a fitted tree; one that refuses missing values, where these are not to pass."""
    tree = fitted(model).tree_
    return Trees.one(
        tree.feature,
        from_float32(np.where(tree.children_left < 0, 0.0, tree.threshold)),
        np.array([tree.children_left, tree.children_right]),
        tree.value[:, 0, :].astype(np.float64),
        tree.missing_go_to_left.astype(bool) if missing else None,
    )


def _order(model: Any) -> Order:
    """Return the order in which sums over a model's members are added up."""
    return Order.ALONE if model.n_jobs in (None, 1) else Order.ANY


def _classes(model: Any) -> NDArray[Any] | None:
    """Return the classes of a classifier; None of a regressor, which has one output."""
    if is_classifier(model):
        return classes_of(model)
    if getattr(model, "n_outputs_", 1) > 1:
        raise UnsupportedModel(
            f"{type(model).__name__} has several outputs; expected one. "
            "Fit one model for each output and explain them one by one."
        )
    return None


def _summed(
    model: Any, members: list[Trees], odds: Odds, start: FloatArray | None = None
) -> TreeScores:
    """Return the sums over trees and a start; of two classes, a start may be the second's alone."""
    classes = _classes(model)
    count = 1 if classes is None else len(classes)
    base = np.zeros(count)
    if start is not None:
        base[count - len(start) :] = start
    odds = Odds.NONE if classes is None else odds
    return TreeScores(Trees.joined(members), base, classes, model.n_features_in_, odds)


def _boosts(model: Any, stage: Any) -> list[tuple[Any, int, int]]:
    """Return the trees of a stage, each with the sum that it adds to and the number of sums.

    A stage has a tree for each sum, but for two classes only one, which adds to the second's.
    """
    classes = _classes(model)
    count = 1 if classes is None else len(classes)
    return [(member, count - len(stage) + k, count) for k, member in enumerate(stage)]


@read.register(DecisionTreeClassifier | DecisionTreeRegressor)
def _(model: Any) -> Form:
    return replace(_summed(model, [_tree(model)], Odds.SHARES), order=Order.LISTED)


@read.register(
    ExtraTreesClassifier | ExtraTreesRegressor | RandomForestClassifier | RandomForestRegressor
)
def _(model: Any) -> Form:
    members = [_tree(member) for member in fitted(model).estimators_]
    form = _summed(model, members, Odds.SHARES)
    return replace(form, divisor=len(members), order=_order(model))


@read.register(GradientBoostingClassifier | GradientBoostingRegressor)
def _(model: Any) -> Form:
    if fitted(model).init not in (None, "zero") and not hasattr(model.init_, "constant_"):
        raise UnsupportedModel(
            f"{type(model).__name__} starts from {type(model.init).__name__}, which is no "
            "constant. Use init=None or init='zero'."
        )
    row, members = np.zeros((1, model.n_features_in_)), []  # any has the same start
    start = np.asarray(model._raw_predict_init(row))[0]  # noqa: SLF001 (kept nowhere public)
    for stage in model.estimators_:
        for member, output, count in _boosts(model, stage):
            tree = _tree(member, missing=False)
            values = np.zeros((len(tree.values), count))
            values[:, output] = model.learning_rate * tree.values[:, 0]
            members.append(replace(tree, values=values))
    return _summed(model, members, Odds.LOGISTIC if model.loss == "log_loss" else Odds.NONE, start)


@read.register(HistGradientBoostingClassifier | HistGradientBoostingRegressor)
def _(model: Any) -> Form:
    if model.loss in ("poisson", "gamma"):
        raise UnsupportedModel(
            f"HistGradientBoostingRegressor with loss={model.loss!r} predicts an exponential of "
            "its sum over leaves, which is not read. Use loss='squared_error', or fit it on "
            "logarithms."
        )
    start = np.asarray(fitted(model)._baseline_prediction).ravel()  # noqa: SLF001 (kept nowhere public)
    stages = model._predictors  # noqa: SLF001
    members = [_histogram_tree(*boost) for stage in stages for boost in _boosts(model, stage)]
    return replace(_summed(model, members, Odds.LOGISTIC, start), order=Order.LISTED)


def _histogram_tree(predictor: Any, output: int, count: int) -> Trees:
    """Return a tree of histogram boosting, of which the leaves add to one of so many outputs."""
    nodes = predictor.nodes
    is_leaf, is_set = nodes["is_leaf"].astype(bool), nodes["is_categorical"].astype(bool)
    values = np.zeros((len(nodes), count))
    values[:, output] = np.where(is_leaf, nodes["value"], 0.0)
    # (sets, 256) whether each category goes left
    bits = np.unpackbits(
        np.ascontiguousarray(predictor.raw_left_cat_bitsets, dtype="<u4").view(np.uint8),
        axis=1,
        bitorder="little",
    )
    sides = np.array([nodes["left"], nodes["right"]], dtype=np.intp)
    return Trees.one(
        nodes["feature_idx"],
        nodes["num_threshold"],
        np.where(is_leaf, -1, sides),
        values,
        nodes["missing_go_to_left"].astype(bool),
        (
            np.where(is_set, nodes["bitset_idx"].astype(np.intp), -1),
            tuple(np.flatnonzero(row).astype(np.float64) for row in bits),
        ),
    )


# --- ensembles of trees that are fitted one by one ---


@read.register(AdaBoostClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    weights = np.asarray(model.estimator_weights_)[: len(model.estimators_)]
    members = []
    for member, weight in zip(model.estimators_, weights / weights.sum(), strict=True):
        form = _member(model, member, classes, DecisionTreeClassifier)
        chosen = np.eye(len(classes))[form.trees.values.argmax(axis=1)]
        votes = weight * np.where(chosen > 0.0, 1.0, -1.0 / (len(classes) - 1))
        members.append(replace(form.trees, values=votes, missing=None))
    return _summed(model, members, Odds.LOGISTIC if len(classes) == 2 else Odds.NONE)


@read.register(BaggingClassifier | BaggingRegressor)
def _(model: Any) -> Form:
    classes = _classes(model)
    forms = [_member(model, member, classes) for member in model.estimators_]
    return _mean(model, forms, classes, np.ones(len(forms)), model.estimators_features_)


@read.register(VotingClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    weights = model._weights_not_none  # noqa: SLF001 (those of members that were dropped are left out)
    weights = np.ones(len(model.estimators_)) if weights is None else np.asarray(weights, float)
    if model.voting == "soft":
        forms = [_member(model, member, classes) for member in model.estimators_]
        return _mean(model, forms, classes, weights)
    forms = [_member(model, tree, classes, DecisionTreeClassifier) for tree in model.estimators_]
    votes = [np.eye(len(classes))[form.trees.values.argmax(axis=1)] for form in forms]
    weighted = zip(forms, votes, weights.tolist(), strict=True)
    members = [replace(form.trees, values=weight * vote) for form, vote, weight in weighted]
    return replace(_summed(model, members, Odds.NONE), order=Order.ANY)


@read.register(VotingRegressor)
def _(model: Any) -> Form:
    forms = [_member(model, member, None) for member in model.estimators_]
    weights = model._weights_not_none  # noqa: SLF001
    return _mean(model, forms, None, np.ones(len(forms)) if weights is None else np.array(weights))


def _member(
    model: Any, member: Any, classes: NDArray[Any] | None, kind: type = object
) -> TreeScores:
    """Return the sums over leaves of a member of an ensemble, to be added up with others.

    Raise an `UnsupportedModel` unless these are its values, or probabilities of all ``classes``.
    """
    form = read(member) if isinstance(member, kind) else None
    if isinstance(form, TreeScores):
        labels, are_shares = form.classes, form.odds is Odds.SHARES
        if (labels is None) == (classes is None) and (labels is None or are_shares):
            if labels is None or classes is None or len(labels) == len(classes):
                return form
            raise UnsupportedModel(
                f"{type(model).__name__} has a member that knows {len(labels)} of {len(classes)} "
                "classes. Fit it with more rows for each member."
            )
    wanted = "decision trees" if kind is not object else "trees and forests"
    raise UnsupportedModel(
        f"{type(model).__name__} of {type(member).__name__} is not a sum over leaves; it is read "
        f"over {wanted}. Use these as its members."
    )


def _mean(
    model: Any,
    forms: list[TreeScores],
    classes: NDArray[Any] | None,
    weights: FloatArray,
    inputs: Any = None,
) -> TreeScores:
    """Return the mean of the members' sums, weighted by ``weights``.

    ``inputs`` are the numbers of the inputs that each member takes; None if each takes all.
    """
    shares = weights / weights.sum()
    is_forest = inputs is not None and all(len(form.trees.roots) == 1 for form in forms)
    if is_forest:  # bags of single trees are added up and then divided, as forests are
        trees = [form.trees for form in forms]
    else:
        trees = [
            replace(form.trees, values=share / form.divisor * form.trees.values)
            for form, share in zip(forms, shares, strict=True)
        ]
    if inputs is not None:
        # each tree's inputs as inputs of the model; −1, of leaves, stays
        trees = [
            replace(tree, inputs=np.where(tree.inputs < 0, -1, np.asarray(chosen)[tree.inputs]))
            for tree, chosen in zip(trees, inputs, strict=True)
        ]
    base = sum((share * form.base for form, share in zip(forms, shares, strict=True)), np.zeros(1))
    odds = Odds.NONE if classes is None else Odds.SHARES
    mean = TreeScores(Trees.joined(trees), base, classes, model.n_features_in_, odds)
    return replace(mean, divisor=len(forms), order=_order(model)) if is_forest else mean


# --- on top of other steps ---


def _on_columns(model: Any, columns: Columns) -> tuple[Form, Columns]:
    """Read a model on top of columns; refuse it if it tests a mix of several of them."""
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


for kind, reader in tuple(read.registry.items()):
    if reader.__module__ == __name__:  # each model that is read here
        finish.register(kind, _on_columns)


@finish.register(HistGradientBoostingClassifier | HistGradientBoostingRegressor)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    encoders = model._preprocessor  # noqa: SLF001 (None without categories)
    if encoders is not None:  # it encodes the categories, and puts them before the numbers
        is_category = np.asarray(model.is_categorical_)
        categories = columns.take(np.flatnonzero(is_category))
        encoded = read_step(encoders.named_transformers_["encoder"], categories)
        columns = join(columns, [encoded, columns.take(np.flatnonzero(~is_category))])
    return _on_columns(model, columns)
