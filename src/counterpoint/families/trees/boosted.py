"""Readers of XGBoost and LightGBM, neither of which is imported here."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.preprocessing import OrdinalEncoder

from counterpoint.errors import UnsupportedModel
from counterpoint.families.trees.ensemble import Trees
from counterpoint.families.trees.form import FLOAT32, Odds, Order, TreeScores
from counterpoint.families.trees.readers import from_float32
from counterpoint.models.columns import Columns, join
from counterpoint.models.dispatch import (
    by_name,
    classes_of,
    finish,
    finish_alone,
    fitted,
    read_step,
)
from counterpoint.models.form import Form
from counterpoint.numerics import EPS, FloatArray

LINK_UNITS = 16.0
"""Sums that differ by so many units of the precision have different probabilities: these are a
quotient of the exponential of their difference, which is off by up to two units."""
XGBOOST_SUMS = (
    "reg:squarederror",
    "reg:absoluteerror",
    "reg:pseudohubererror",
    "reg:quantileerror",
)
"""Objectives of XGBoost whose prediction is the sum itself."""
LIGHTGBM_SUMS = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
"""Objectives of LightGBM whose prediction is the sum itself."""


def _refusal(model: Any, why: str) -> UnsupportedModel:
    return UnsupportedModel(f"{type(model).__name__} {why}")


# --- XGBoost ---


@by_name("xgboost", "XGBClassifier", "XGBRFClassifier")
def _(model: Any) -> Form:
    classes = classes_of(model)
    form, objective = _xgboost(model, len(classes))
    if objective not in ("binary:logistic", "multi:softprob", "multi:softmax"):
        raise _refusal(model, f"with objective={objective!r} is not read. Use 'binary:logistic'.")
    form = replace(form, classes=classes, odds=Odds.LOGISTIC, link_error=LINK_UNITS * FLOAT32)
    if len(classes) > 2:
        return form
    # Of two classes the start is written down as a probability, and computed with as its logit.
    odds = np.float32(1.0) / form.base[1:].astype(np.float32) - np.float32(1.0)
    form = replace(form, base=np.append(0.0, -np.log(odds.astype(np.float64))))
    # the last digit of a start that was estimated is not written down
    return form if model.base_score is not None else replace(form, order=Order.OWN)


@by_name("xgboost", "XGBRegressor", "XGBRFRegressor")
def _(model: Any) -> Form:
    form, objective = _xgboost(model, 1)
    if objective not in XGBOOST_SUMS:
        raise _refusal(model, f"with objective={objective!r} is not read. Use 'reg:squarederror'.")
    return form


def _xgboost(model: Any, outputs: int) -> tuple[TreeScores, str]:
    """Return the sums over the trees, with their start as it is written down, and the objective.

    ``outputs`` is the number of sums: two for two classes, where trees add to the second alone.
    """
    if model.missing is not None and not np.isnan(model.missing):
        raise _refusal(model, f"takes {model.missing} as missing. Fit it with missing=nan.")
    booster = model.get_booster()
    best = getattr(model, "best_iteration", None)
    if best is not None:  # after an early stop it predicts by the rounds up to the best one
        booster = booster[: best + 1]
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    gradient_booster = learner["gradient_booster"]
    weights = gradient_booster.get("weight_drop")  # of booster='dart'
    has_own_order = weights is not None
    gradient_booster = gradient_booster.get("gbtree", gradient_booster)
    if "model" not in gradient_booster or "trees" not in gradient_booster["model"]:
        raise _refusal(model, "with booster='gblinear' has no trees. Use booster='gbtree'.")
    trees = gradient_booster["model"]["trees"]
    output_of_tree = gradient_booster["model"]["tree_info"]
    if any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in trees):
        raise _refusal(
            model,
            "with multi_strategy='multi_output_tree' has several values in a leaf, which are not "
            "read. Use multi_strategy='one_output_per_tree'.",
        )
    several = int(learner["learner_model_param"].get("num_target", 1)) > 1
    if several or max(output_of_tree, default=0) >= outputs:
        raise _refusal(
            model,
            "has several outputs (targets, labels or quantiles); expected one. Fit one model for "
            "each output and explain them one by one.",
        )
    members = []
    for t, tree in enumerate(trees):
        output = 1 if outputs == 2 else output_of_tree[t]
        members.append(_xgboost_tree(tree, output, outputs, weights[t] if weights else 1.0))
    written = str(learner["learner_model_param"]["base_score"]).strip("[]").split(",")
    start = np.array(np.broadcast_to(np.array(written, dtype=np.float64), outputs))
    form = TreeScores(Trees.joined(members), start, None, model.n_features_in_, eps=FLOAT32)
    form = replace(form, order=Order.OWN if has_own_order else Order.LISTED)
    return form, str(learner["objective"]["name"])


def _xgboost_tree(tree: Any, output: int, outputs: int, weight: float) -> Trees:
    """Return a tree, as it is dumped, of which the leaves add to one of the outputs."""
    children = np.array([tree["left_children"], tree["right_children"]])
    is_leaf = children[0] < 0
    # Rows whose category is in a node's set go right in XGBoost, and left here.
    has_set, subset = np.array(tree["split_type"]) > 0, np.full(len(is_leaf), -1)
    children = np.where(has_set, children[::-1], children)
    subset[tree["categories_nodes"]] = np.arange(has_set.sum())
    categories = np.array(tree["categories"], dtype=np.float64)
    sets = np.split(categories, tree["categories_segments"][1:]) if has_set.any() else []
    # a threshold, and of a leaf its value
    conditions = np.array(tree["split_conditions"], dtype=np.float32).astype(np.float64)
    values = np.zeros((len(is_leaf), outputs))
    values[:, output] = np.where(is_leaf, weight * conditions, 0.0)
    return Trees.one(
        tree["split_indices"],
        from_float32(np.where(is_leaf, 0.0, conditions), strict=True),
        children,
        values,
        np.array(tree["default_left"]).astype(bool) ^ has_set,
        (subset, tuple(np.sort(values) for values in sets)),
    )


@by_name(
    "xgboost",
    "XGBClassifier",
    "XGBRFClassifier",
    "XGBRegressor",
    "XGBRFRegressor",
    question=finish,
)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    """Read XGBoost over categories too: it lists those of each column as it was fitted on them.

    Numbers are listed as ``values``. Words are bytes one after the other, cut at ``offsets``.
    """
    learner = json.loads(bytes(fitted(model).get_booster().save_raw("json")))["learner"]
    boosted = learner["gradient_booster"]
    encoders = boosted.get("gbtree", boosted).get("model", {}).get("cats", {}).get("enc", [])
    categories: dict[int, list[Any]] = {}
    for j, encoder in enumerate(encoders):
        if "offsets" not in encoder:
            categories[j] = encoder["values"]
        elif encoder["offsets"]:
            text = np.array(encoder["values"], dtype=np.int64).astype(np.uint8).tobytes()
            ends = pairwise(encoder["offsets"])
            categories[j] = [text[a:b].decode("latin-1") for a, b in ends]
            if not text.isascii():  # XGBoost's offsets then count characters and not bytes
                raise _refusal(model, "takes categories that are not in ASCII. Rename them.")
    return finish_alone(model, _coded(columns, categories))


# --- LightGBM ---


@by_name("lightgbm", "LGBMClassifier", "LGBMRegressor", question=finish)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    booster = fitted(model).booster_
    infos, lists = booster.dump_model()["feature_infos"], booster.pandas_categorical or []
    names = booster.feature_name()
    at = [j for j, name in enumerate(names) if infos.get(name, {}).get("values")]
    if lists and len(lists) != len(at):
        raise _refusal(
            model, "has categories that no split can tell apart. Leave their columns out."
        )
    return finish_alone(model, _coded(columns, dict(zip(at, lists, strict=bool(lists)))))


def _coded(columns: Columns, categories: dict[int, list[Any]]) -> Columns:
    """Return the columns with codes for those of categories, which are listed by position."""
    coded = [columns.take([j]) for j in range(len(columns))]
    for j, names in categories.items():
        values = np.array(names, dtype=object)
        coded[j] = read_step(OrdinalEncoder(categories=[values]).fit(values[:, None]), coded[j])
    return join(columns, coded) if categories else columns


@by_name("lightgbm", "LGBMClassifier")
def _(model: Any) -> Form:
    classes = classes_of(model)
    form, objective = _lightgbm(model, len(classes))
    name, *options = objective.split()  # "binary sigmoid:1", or "multiclass num_class:3"
    slope = 1.0
    if name == "binary":  # the probability is 1 / (1 + exp(−slope · sum))
        slope = float(dict(option.split(":") for option in options).get("sigmoid", 1.0))
    elif name != "multiclass":
        raise _refusal(model, f"with objective={name!r} is not read. Use 'binary', 'multiclass'.")
    form = replace(form, classes=classes, odds=Odds.LOGISTIC, link_error=LINK_UNITS * EPS)
    if slope == 1.0:
        return form
    # We scale the leaves and LightGBM their sum, so that sums may differ in their last digits.
    trees = replace(form.trees, values=slope * form.trees.values)
    return replace(form, trees=trees, order=Order.OWN)


@by_name("lightgbm", "LGBMRegressor")
def _(model: Any) -> Form:
    form, objective = _lightgbm(model, 1)
    if objective.split()[0] not in LIGHTGBM_SUMS or "sqrt" in objective.split():
        raise _refusal(model, f"with objective={objective!r} is not read. Use 'regression'.")
    return form


def _lightgbm(model: Any, outputs: int) -> tuple[TreeScores, str]:
    """Return the sums over the trees, and the objective."""
    dump = model.booster_.dump_model()
    if "objective" not in dump:
        raise _refusal(
            model, "with an objective of your own is not read. Use one that LightGBM names."
        )
    per_round, infos, members = dump["num_tree_per_iteration"], dump["tree_info"], []
    for info in infos:
        output = info["tree_index"] % per_round if per_round > 1 else outputs - 1
        members.append(_lightgbm_tree(model, info["tree_structure"], output, outputs))
    form = TreeScores(Trees.joined(members), np.zeros(outputs), None, model.n_features_in_)
    divisor = len(infos) // per_round if dump["average_output"] else 1
    return replace(form, divisor=divisor, order=Order.LISTED), str(dump["objective"])


def _beyond_zero(threshold: float) -> float:
    """Return a threshold that has all numbers which LightGBM takes for 0 on the side of 0."""
    zero = float(np.float32(1e-35))
    if abs(threshold) > zero:
        return threshold
    return zero if threshold >= 0.0 else float(np.nextafter(-zero, -np.inf))


def _lightgbm_tree(model: Any, root: Any, output: int, outputs: int) -> Trees:
    """Return a tree, given as nested nodes, of which the leaves add to one of the outputs."""
    nodes = [root]
    children: list[list[int]] = []
    for node in nodes:  # the list grows, level by level
        below = [node[side] for side in ("left_child", "right_child") if node.get(side)]
        children.append([*range(len(nodes), len(nodes) + 2)] if below else [-1, -1])
        nodes += below
    count = len(nodes)
    inputs, subset = np.full((2, count), -1)
    cuts, values = np.zeros(count), np.zeros((count, outputs))
    missing_left, sets = np.zeros(count, dtype=bool), list[FloatArray]()
    for k, node in enumerate(nodes):
        if "leaf_value" in node:
            if "leaf_coeff" in node:
                raise _refusal(model, "with linear_tree=True has leaves that are not constant.")
            values[k, output] = node["leaf_value"]
            continue
        if node["missing_type"] == "Zero":
            raise _refusal(model, "takes zeros as missing. Fit it with zero_as_missing=False.")
        inputs[k] = node["split_feature"]
        if node["decision_type"] == "==":
            subset[k] = len(sets)
            sets.append(np.array(re.findall(r"\d+", str(node["threshold"])), dtype=np.float64))
        else:
            cuts[k] = _beyond_zero(node["threshold"])
            # Without missing values in training, they count as 0.
            takes_missing = node["missing_type"] == "NaN"
            missing_left[k] = node["default_left"] if takes_missing else cuts[k] >= 0.0
    all_sets = subset, tuple(sets)
    return Trees.one(inputs, cuts, np.array(children).T, values, missing_left, all_sets)
