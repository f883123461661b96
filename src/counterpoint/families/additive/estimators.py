"""Readers of whole models whose scores are sums of functions of one column each.

Explainable boosting machines of interpret, scorecards and binnings of optbinning, which need not be
installed, and Gaussian naive Bayes of two classes.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB

from counterpoint.errors import InvalidInput, UnsupportedModel
from counterpoint.families.additive.curves import Curve
from counterpoint.families.additive.form import Additive
from counterpoint.families.additive.readers import by_pieces, numbers_in, through_curves
from counterpoint.models.columns import Columns, Fill
from counterpoint.models.dispatch import (
    Inputs,
    by_name,
    classes_of,
    dense,
    finish,
    fitted,
    inputs_of,
    read_step,
    through_step,
)
from counterpoint.models.form import Form, Link
from counterpoint.models.linear import LinearRegressor, LinearScores
from counterpoint.models.transformers import OWN
from counterpoint.numerics import FloatArray

# --- explainable boosting machines: a table for each column ---

BOOSTED = ("ExplainableBoostingClassifier", "ExplainableBoostingRegressor")


@by_name("interpret", *BOOSTED, question=finish)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    name = type(fitted(model, columns.where)).__name__
    inputs, classes = len(model.feature_names_in_), getattr(model, "classes_", None)
    _require_a_sum(model)
    if len(columns) != inputs:
        raise InvalidInput(f"Expected {inputs} inputs for {name}; got {len(columns)} columns.")
    terms = [term for (term,) in model.term_features_]  # the input of each
    tables = dict(zip(terms, model.term_scores_, strict=True))

    def curve_of(j: int) -> Curve:
        if model.feature_types_in_[j] != "continuous":
            raise columns.refusal(
                model,
                f"it takes categories, but {columns.label(j)} holds numbers. Describe it as "
                "Categorical.",
            )
        scores = np.asarray(tables[j])
        cuts, scores = np.asarray(model.bins_[j][0]), scores.reshape(len(scores), -1)
        if not (np.diff(cuts) > 0.0).all() or not np.isfinite(scores).all():
            raise columns.refusal(
                model, f"the bins of {columns.label(j)} do not increase, or have no finite scores."
            )
        # the first and the last score are those of missing and of unknown values
        return Curve.steps(np.append(-np.inf, cuts), scores[1:-1])

    # Each table has a score for each output of the model, which adds up the tables' scores.
    outputs = np.size(model.intercept_)
    owner = np.repeat(terms, outputs)
    described = columns.filled(dict.fromkeys(range(len(columns)), Fill(why_not=OWN)))
    after = through_curves(model, described, owner, curve_of, method="eval_terms")
    matrix = np.tile(np.eye(outputs), len(terms))
    offset = dense(np.atleast_1d(model.intercept_))
    form: LinearScores | LinearRegressor
    if classes is not None:
        form = LinearScores.of(matrix, offset, classes_of(model), link=Link.SOFTMAX)
    else:
        form = LinearRegressor(matrix, offset, model.link_ == "log")
    return form.through(after.map()), after.noted(f"{name} as {len(tables)} tables")


def _require_a_sum(model: Any) -> None:
    name, names = type(model).__name__, list(model.feature_names_in_)
    for term in model.term_features_:
        if len(term) > 1:
            pair = " and ".join(repr(names[j]) for j in term)
            raise UnsupportedModel(
                f"{name} has interactions, such as that of {pair}, so its score is not a sum of "
                "functions of one column each. Fit it with interactions=0."
            )
    if model.link_ not in ("logit", "mlogit", "identity", "log"):
        raise UnsupportedModel(
            f"{name} with link {model.link_!r} is not read. Use objective='log_loss' for classes, "
            "'rmse' or 'poisson_deviance' for values."
        )


@by_name("interpret", *BOOSTED, question=inputs_of)
def _(model: Any) -> Inputs | None:
    """Where it was fitted on an array, it made up names."""
    inputs = Inputs.of(fitted(model))
    made_up = [f"feature_{j:04}" for j in range(len(model.feature_names_in_))]
    if inputs is not None and list(model.feature_names_in_) == made_up:
        return Inputs(inputs.count)
    return inputs


# --- scorecards: bins, each with a weight of evidence, before a linear model ---


@by_name("optbinning", "BinningProcess", question=read_step)
def _(process: Any, columns: Columns) -> Columns:
    names = list(process.variable_names)
    binned = [process.get_binned_variable(name) for name in names]
    for j in numbers_in(columns):
        if binned[j].dtype != "numerical":
            raise columns.refusal(
                process,
                f"it takes categories, but {columns.label(int(j))} holds numbers. Describe it as "
                "Categorical.",
            )
        if binned[j].special_codes is not None:
            raise columns.refusal(
                process,
                f"{columns.label(int(j))} has special codes, which are numbers that do not count "
                "as such. Mark them as missing before.",
            )
    starts = [
        dense(variable.splits) if variable.dtype == "numerical" else np.zeros(0)
        for variable in binned
    ]
    step = copy(process)  # which is to take the columns by these names
    step.feature_names_in_ = names
    owner = process.get_support(indices=True)
    described = columns.filled(dict.fromkeys(range(len(columns)), Fill(why_not=OWN)))
    return by_pieces(step, described, owner, starts, degree=0)


@by_name("optbinning", "BinningProcess", question=inputs_of)
def _(process: Any) -> Inputs | None:
    names = tuple(process.variable_names)
    return Inputs(len(names), names)


@by_name("optbinning", "Scorecard", question=finish)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    fitted(model, columns.where)
    binned = through_step("binning_process", model.binning_process_, columns)
    form, after = finish(model.estimator_, binned.at("estimator"))
    return form, replace(after, where=columns.where)


@by_name("optbinning", "Scorecard", question=inputs_of)
def _(model: Any) -> Inputs | None:
    return inputs_of(fitted(model).binning_process_)


# --- Gaussian naive Bayes: a parabola for each column and class ---

LINEAR_OR_QUADRATIC = finish.dispatch(GaussianNB)
"""The reader of Gaussian naive Bayes as a linear or quadratic form, which takes any of them."""


def _log_densities(means: FloatArray, variances: FloatArray) -> list[Curve]:
    """Return the logarithms of the densities of classes (k, m), a curve for each column.

    Each is −(y − mean)² / (2 variance), in powers of the distance from a center that all classes
    share. Their normalization is left out.
    """
    weights, centers = -0.5 / variances, means.mean(axis=0)
    shift = means - centers
    terms = np.stack([weights * shift**2, -2.0 * weights * shift, weights], axis=2)
    return [Curve.polynomial(terms[:, j], center) for j, center in enumerate(centers.tolist())]


@finish.register(GaussianNB)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    """Read two classes as a sum of parabolas, unless inputs are mixed or the sum is linear.

    On the values of a category a parabola is as good as any function.
    """
    classes = classes_of(fitted(model, columns.where))
    form, after = LINEAR_OR_QUADRATIC(model, columns)  # for all other cases
    variances, priors = dense(model.var_), dense(model.class_prior_)
    is_curved = bool(np.ptp(variances, axis=0).any() and (priors > 0.0).all())
    if not (is_curved and len(numbers_in(columns)) and len(classes) == 2) or columns.curves:
        return form, after
    curves = _log_densities(dense(model.theta_), variances)
    owner = np.repeat(np.arange(len(columns)), 2)  # two outputs of each column, one a class

    def densities(rows: FloatArray) -> FloatArray:
        return np.hstack([curve(rows[:, j]) for j, curve in enumerate(curves)])

    try:
        step = SimpleNamespace(transform=densities)
        bent = through_curves(step, columns, owner, curves.__getitem__)
    except UnsupportedModel:  # a column is a mix of several
        return form, after
    offset = np.log(priors) - 0.5 * np.log(2.0 * np.pi * variances).sum(axis=1)
    matrix = np.tile(np.eye(2), len(columns))  # each class adds up its own parabolas
    scores = LinearScores(matrix, offset, classes, link=Link.SOFTMAX).through(bent.map())
    lift = partial(Additive, otherwise=form)
    return scores, replace(bent, lift=lift).noted(f"GaussianNB as {2 * len(bent.curves)} parabolas")
