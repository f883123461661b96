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
from counterpoint.families.trees.form import Odds, Order, TreeScores
from counterpoint.families.trees.grid import Trees
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

FLOAT32 = float(np.finfo(np.float32).eps)
LINK = 16.0
"""Sums that differ by so many units of the precision have different probabilities: the exponential,
off by up to two units, of their difference, and a quotient of it."""
LINEAR = (
    "reg:squarederror",
    "reg:absoluteerror",
    "reg:pseudohubererror",
    "reg:quantileerror",
)
"""Objectives of XGBoost whose prediction is the sum itself."""
PLAIN = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
"""And those of LightGBM."""


def _refusal(model: Any, why: str) -> UnsupportedModel:
    return UnsupportedModel(f"{type(model).__name__} {why}")


# --- XGBoost ---


@by_name("xgboost", "XGBClassifier", "XGBRFClassifier")
def _(model: Any) -> Form:
    classes = classes_of(model)
    form, objective = _xgboost(model, len(classes))
    if objective not in ("binary:logistic", "multi:softprob", "multi:softmax"):
        raise _refusal(model, f"with objective={objective!r} is not read. Use 'binary:logistic'.")
    form = replace(form, classes=classes, odds=Odds.LOGISTIC, link_error=LINK * FLOAT32)
    if len(classes) > 2:
        return form
    odds = np.float32(1.0) / form.base[1:].astype(np.float32) - np.float32(1.0)
    form = replace(form, base=np.append(0.0, -np.log(odds.astype(np.float64))))
    # of a start that it chose itself the last digit is not what is written down
    return form if model.base_score is not None else replace(form, order=Order.OWN)


@by_name("xgboost", "XGBRegressor", "XGBRFRegressor")
def _(model: Any) -> Form:
    form, objective = _xgboost(model, 1)
    if objective not in LINEAR:
        raise _refusal(model, f"with objective={objective!r} is not read. Use 'reg:squarederror'.")
    return form


def _xgboost(model: Any, outputs: int) -> tuple[TreeScores, str]:
    """Return the sums over the trees, with their start as it is written down, and the objective."""
    if model.missing is not None and not np.isnan(model.missing):
        raise _refusal(model, f"takes {model.missing} as missing. Fit it with missing=nan.")
    booster = model.get_booster()
    best = getattr(model, "best_iteration", None)
    if best is not None:  # as it predicts after an early stop
        booster = booster[: best + 1]
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    boosted = learner["gradient_booster"]
    drops = boosted.get("weight_drop")
    boosted = boosted.get("gbtree", boosted)
    if "model" not in boosted or "trees" not in boosted["model"]:
        raise _refusal(model, "with booster='gblinear' has no trees. Use booster='gbtree'.")
    ensemble = boosted["model"]
    if any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in ensemble["trees"]):
        raise _refusal(
            model,
            "with multi_strategy='multi_output_tree' has several values in a leaf, which are not "
            "read. Use multi_strategy='one_output_per_tree'.",
        )
    several = int(learner["learner_model_param"].get("num_target", 1)) > 1
    if several or max(ensemble["tree_info"], default=0) >= outputs:
        raise _refusal(
            model,
            "has several outputs (targets, labels or quantiles); expected one. Fit one model for "
            "each output and explain them one by one.",
        )
    weights = [1.0] * len(ensemble["trees"]) if drops is None else drops
    members = []
    for tree, output, weight in zip(ensemble["trees"], ensemble["tree_info"], weights, strict=True):
        sides = np.array([tree["left_children"], tree["right_children"]])
        chosen, subset = np.array(tree["split_type"]) > 0, np.full(len(sides[0]), -1)
        sides = np.where(chosen, sides[::-1], sides)  # its sets go right, and ours left
        subset[tree["categories_nodes"]] = np.arange(chosen.sum())
        begins = tree["categories_segments"][1:]
        sets = (
            np.split(np.array(tree["categories"], dtype=np.float64), begins) if any(chosen) else []
        )
        leaf = sides[0] < 0
        cuts = np.array(tree["split_conditions"], dtype=np.float32).astype(np.float64)
        values = np.zeros((len(leaf), outputs))
        values[:, 1 if outputs == 2 else output] = np.where(leaf, weight * cuts, 0.0)
        members.append(
            Trees.one(
                tree["split_indices"],
                from_float32(np.where(leaf, 0.0, cuts), strict=True),
                sides,
                values,
                np.array(tree["default_left"]).astype(bool) ^ chosen,
                (subset, tuple(np.sort(values) for values in sets)),
            )
        )
    written = str(learner["learner_model_param"]["base_score"]).strip("[]").split(",")
    start = np.array(np.broadcast_to(np.array(written, dtype=np.float64), outputs))
    form = TreeScores(Trees.joined(members), start, None, model.n_features_in_, eps=FLOAT32)
    order = Order.LISTED if drops is None else Order.OWN
    return replace(form, order=order), str(learner["objective"]["name"])


@by_name(
    "xgboost",
    "XGBClassifier",
    "XGBRFClassifier",
    "XGBRegressor",
    "XGBRFRegressor",
    question=finish,
)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
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
            if not text.isascii():  # it cuts them between characters and not bytes
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
    """Return the columns with codes for categories, which are listed by the columns' positions."""
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
    form = replace(form, classes=classes, odds=Odds.LOGISTIC, link_error=LINK * EPS)
    if slope == 1.0:
        return form
    # We scale the leaves and LightGBM their sum, so that sums may differ in their last digits.
    trees = replace(form.trees, values=slope * form.trees.values)
    return replace(form, trees=trees, order=Order.OWN)


@by_name("lightgbm", "LGBMRegressor")
def _(model: Any) -> Form:
    form, objective = _lightgbm(model, 1)
    if objective.split()[0] not in PLAIN or "sqrt" in objective.split():
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
    """Return a threshold where numbers that LightGBM takes for 0 are on the side of 0."""
    zero = float(np.float32(1e-35))
    if abs(threshold) > zero:
        return threshold
    return zero if threshold >= 0.0 else float(np.nextafter(-zero, -np.inf))


def _lightgbm_tree(model: Any, root: Any, output: int, outputs: int) -> Trees:
    nodes = [root]
    children: list[list[int]] = []
    for node in nodes:  # it grows
        below = [node[side] for side in ("left_child", "right_child") if node.get(side)]
        children.append([*range(len(nodes), len(nodes) + 2)] if below else [-1, -1])
        nodes += below
    count = len(nodes)
    inputs, subset = np.full((2, count), -1)
    cuts, values = np.zeros(count), np.zeros((count, outputs))
    missing, sets = np.zeros(count, dtype=bool), list[FloatArray]()
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
            # without missing values in training, they count as 0
            missing[k] = node["default_left"] if node["missing_type"] == "NaN" else cuts[k] >= 0.0
    return Trees.one(inputs, cuts, np.array(children).T, values, missing, (subset, tuple(sets)))
