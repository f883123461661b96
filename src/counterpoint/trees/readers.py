"""Readers of scikit-learn's trees and of ensembles of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from counterpoint.errors import UnsupportedModel
from counterpoint.models.columns import NUMBERS, Columns
from counterpoint.models.dispatch import classes_of, finish, read
from counterpoint.models.form import Form
from counterpoint.numerics import FloatArray
from counterpoint.trees.form import Odds, Trees, TreeScores

__all__ = ["from_float32"]

KINDS = (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
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
    stays = middle.astype(np.float32) <= last
    return np.where(stays, middle, np.nextafter(middle, -np.inf))


def _tree(model: Any) -> Trees:
    """One fitted tree, with its own values."""
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
    )


def _shares(values: FloatArray) -> FloatArray:
    """(N, k) shares of classes in each leaf."""
    return values / values.sum(axis=1, keepdims=True)


@read.register(DecisionTreeClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    tree = _tree(model)
    tree = tree.valued(_shares(tree.values))
    return TreeScores(tree, np.zeros(len(classes)), classes, model.n_features_in_, Odds.SHARES)


@read.register(DecisionTreeRegressor)
def _(model: Any) -> Form:
    _require_one_output(model)
    return TreeScores(_tree(model), np.zeros(1), None, model.n_features_in_)


@read.register(RandomForestClassifier | ExtraTreesClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    parts = [_tree(one) for one in model.estimators_]
    parts = [part.valued(_shares(part.values) / len(parts)) for part in parts]
    base = np.zeros(len(classes))
    return TreeScores(Trees.joined(parts), base, classes, model.n_features_in_, Odds.SHARES)


@read.register(RandomForestRegressor | ExtraTreesRegressor)
def _(model: Any) -> Form:
    _require_one_output(model)
    parts = [_tree(one) for one in model.estimators_]
    parts = [part.valued(part.values / len(parts)) for part in parts]
    return TreeScores(Trees.joined(parts), np.zeros(1), None, model.n_features_in_)


@read.register(GradientBoostingClassifier)
def _(model: Any) -> Form:
    classes = classes_of(model)
    _require_constant_start(model)
    rows = np.zeros((1, model.n_features_in_))
    start = np.asarray(model._raw_predict_init(rows))[0]  # noqa: SLF001 (kept nowhere public)
    count, parts = len(classes), []
    for stage in model.estimators_:
        for k, one in enumerate(stage):
            tree = _tree(one)
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
    parts = [_tree(stage[0]) for stage in model.estimators_]
    parts = [part.valued(model.learning_rate * part.values) for part in parts]
    return TreeScores(Trees.joined(parts), start, None, model.n_features_in_)


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
    return finish.dispatch(object)(model, columns)


for kind in KINDS:
    finish.register(kind, _on_columns)


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
