"""Read final estimators that are linear, classifiers and regressors, and refuse others."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import linear_model
from sklearn.cross_decomposition import PLSRegression
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neighbors import NearestCentroid
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR

from counterpoint.errors import InvalidInput, UnsupportedModel
from counterpoint.models.columns import NUMBERS, Columns
from counterpoint.models.dispatch import (
    classes_of,
    dense,
    finish,
    finish_alone,
    fitted,
    quiet,
    read,
)
from counterpoint.models.form import Form, Link, Magnitude
from counterpoint.models.linear import LinearRegressor, LinearScores, Votes, scores_of_rows
from counterpoint.models.transformers import by_running

OTHER_SCORES = "NearestCentroid predicts by other scores than its decision_function gives"

ONE_VS_REST = (
    "the model is one-vs-rest, so its probabilities are independent ones divided by their sum, "
    "not a softmax of its scores"
)
NOT_READ = {
    CategoricalNB: "CategoricalNB takes categories, not numbers. Put an OrdinalEncoder before it, "
    "and describe its columns as Categorical.",
    DummyClassifier: "DummyClassifier does not look at its inputs, so no change of them changes "
    "its decision. Fit a model that does.",
    DummyRegressor: "DummyRegressor does not look at its inputs, so no change of them changes its "
    "value. Fit a model that does.",
    OneVsOneClassifier: "OneVsOneClassifier breaks ties between votes by a score that is not "
    "linear. Use OneVsRestClassifier, or SVC(kernel='linear').",
}


def _refuse(model: Any) -> Form:
    raise UnsupportedModel(next(NOT_READ[base] for base in type(model).__mro__ if base in NOT_READ))


for kind in NOT_READ:
    read.register(kind, _refuse)


# --- classifiers ---


def _linear_scores(model: Any, link: Link, **options: Any) -> LinearScores:
    """Read ``coef_``, ``intercept_`` and ``classes_``; one row of them is a binary decision."""
    classes = classes_of(model)
    coef = np.atleast_2d(dense(model.coef_))
    intercept = np.array(np.broadcast_to(dense(model.intercept_).ravel(), len(coef)))
    return LinearScores.of(coef, intercept, classes, link=link, **options)


@read.register(LinearDiscriminantAnalysis | linear_model.LogisticRegression)
def _(model: Any) -> Form:
    classes = classes_of(model)
    multi_class = getattr(model, "multi_class", "auto")  # gone in scikit-learn 1.8
    if len(classes) == 2 and multi_class == "multinomial":  # a softmax of (−z, z)
        coef, intercept = dense(model.coef_)[0], float(dense(model.intercept_)[0])
        matrix, offset = np.stack([-coef, coef]), np.array([-intercept, intercept])
        return LinearScores(matrix, offset, classes, link=Link.SOFTMAX)
    one_vs_rest = multi_class == "ovr" or (
        model.solver == "liblinear" and multi_class != "multinomial"
    )
    link = Link.NONE if len(classes) > 2 and one_vs_rest else Link.SOFTMAX
    return _linear_scores(model, link, no_probabilities=ONE_VS_REST)


@read.register(linear_model.SGDClassifier)
def _(model: Any) -> Form:
    link = {"log_loss": Link.SOFTMAX, "modified_huber": Link.CLIPPED}.get(model.loss)
    if link is None:
        reason = f"SGDClassifier with loss={model.loss!r} has none"
        return _linear_scores(model, Link.NONE, no_probabilities=reason)
    binary = len(classes_of(model)) == 2
    return _linear_scores(model, link if binary else Link.NONE, no_probabilities=ONE_VS_REST)


@read.register(LinearSVC | linear_model.Perceptron)
def _without_probabilities(model: Any) -> LinearScores:
    return _linear_scores(model, Link.NONE, no_probabilities=f"{type(model).__name__} has none")


@read.register(linear_model.RidgeClassifier | linear_model.RidgeClassifierCV)
def _(model: Any) -> Form:
    form = _without_probabilities(model)
    if _predict_at_zero(model, form.width).ndim != 1:
        raise UnsupportedModel(
            f"{type(model).__name__} was fitted on several labels for each row; expected one "
            "class. Fit one model for each label and explain them one by one."
        )
    return form


def _predict_at_zero(model: Any, width: int) -> NDArray[Any]:
    with quiet():  # it warns if it was fitted on names
        return np.asarray(model.predict(np.zeros((1, width))))


@read.register(NearestCentroid)
def _(model: Any) -> Form:
    """Read the nearest centroid: in differences of squared distances ‖x − c‖², ‖x‖² cancels.

    With equal priors the scores are c · x − ‖c‖²/2. Otherwise they are, with weights 1/σ² of the
    columns, 2 log(prior) − Σ (x − c)²/σ²; their softmax gives the probabilities.
    """
    classes = classes_of(model)
    if model.metric != "euclidean":
        raise UnsupportedModel(
            f"NearestCentroid with metric={model.metric!r} has decision boundaries that are not "
            "linear. Use metric='euclidean'."
        )
    centroids = dense(model.centroids_)
    prior = getattr(model, "class_prior_", None)  # new in scikit-learn 1.6
    if prior is None or np.isclose(prior, 1.0 / len(classes)).all():
        offset = -0.5 * (centroids**2).sum(axis=1)
        sizes = Magnitude.of_distances(centroids)
        options = {"no_probabilities": OTHER_SCORES}
        return scores_of_rows(centroids, offset, classes, Link.NONE, sizes, **options)
    deviation = dense(model.within_class_std_dev_).ravel()
    weights = np.where(deviation != 0, deviation, 1.0) ** -2.0
    offset = 2.0 * np.log(prior) - (weights * centroids**2).sum(axis=1)
    sizes = Magnitude.of_distances(centroids, sparse.diags_array(np.sqrt(weights)).tocsr())
    return scores_of_rows(2.0 * weights * centroids, offset, classes, Link.SOFTMAX, sizes=sizes)


@read.register(SVC | NuSVC)
def _(model: Any) -> Form:
    classes = classes_of(model)
    name = type(model).__name__
    if model.kernel != "linear":
        raise UnsupportedModel(
            f"{name} with kernel={model.kernel!r} is not linear. Use kernel='linear' or LinearSVC."
        )
    if len(classes) == 2:
        reason = f"those of {name} come from a second model (Platt scaling) that predict ignores"
        return _linear_scores(model, Link.NONE, no_probabilities=reason)
    most = 5  # 2^(k(k−1)/2) outcomes of the pairs are listed
    if len(classes) > most:
        raise UnsupportedModel(
            f"{name} decides among {len(classes)} classes by votes between all pairs, which is "
            f"read for up to {most} classes. Use LinearSVC or "
            "OneVsRestClassifier(SVC(kernel='linear'))."
        )
    if model.break_ties and model.decision_function_shape == "ovr":
        raise UnsupportedModel(
            f"{name} with break_ties=True decides by a score that is not linear. "
            "Use break_ties=False."
        )
    return Votes(dense(model.coef_), dense(model.intercept_).ravel(), classes)


@read.register(ComplementNB | MultinomialNB)
def _(model: Any) -> Form:
    classes, weights = classes_of(model), dense(model.feature_log_prob_)
    has_prior = isinstance(model, MultinomialNB)
    offset = dense(model.class_log_prior_) if has_prior else np.zeros(len(classes))
    return scores_of_rows(weights, offset, classes, Link.SOFTMAX)


@read.register(BernoulliNB)
def _(model: Any) -> Form:
    classes = classes_of(model)
    if model.binarize is not None:
        raise UnsupportedModel(
            f"BernoulliNB with binarize={model.binarize!r} cuts its inputs at a threshold, which "
            "is not linear. Fit it on columns of 0 and 1 with binarize=None."
        )
    log_one = dense(model.feature_log_prob_)  # log P(column is 1 | class)
    log_zero = np.log1p(-np.exp(log_one))
    offset = dense(model.class_log_prior_) + log_zero.sum(axis=1)
    return scores_of_rows(log_one - log_zero, offset, classes, Link.SOFTMAX)


@finish.register(BernoulliNB | CategoricalNB | GaussianNB)
def _(model: Any, columns: Columns) -> tuple[Form, Columns]:
    """Read naive Bayes over categories, where a sum of log-likelihoods is linear."""
    fitted(model, columns.where)
    if (columns.sources == NUMBERS).any():
        return finish_alone(model, columns)
    scores = by_running(model, columns, method="predict_joint_log_proba").map()
    form = scores_of_rows(scores.matrix, scores.offset, classes_of(model), Link.SOFTMAX)
    model_as_form = f"{type(model).__name__} as {type(form).__name__}"
    return form, columns.noted(f"{model_as_form} over {len(columns)} inputs of categories")


@read.register(OneVsRestClassifier)
def _(model: Any) -> Form:
    if fitted(model).multilabel_:
        raise UnsupportedModel(
            "OneVsRestClassifier was fitted on several labels for each row; expected one class. "
            "Explain its estimators_ one by one."
        )
    classes: NDArray[Any] = np.asarray(model.classes_)
    forms = [_binary_part(estimator) for estimator in model.estimators_]
    if len(forms) == 1:
        return replace(forms[0], classes=classes, last_of_ties=False)
    return LinearScores(
        np.stack([form.matrix[1] - form.matrix[0] for form in forms]),
        np.array([form.offset[1] - form.offset[0] for form in forms]),
        classes,
        no_probabilities=ONE_VS_REST,
        last_of_ties=True,
        magnitude=Magnitude.joined([form.sizes for form in forms]),
    )


def _binary_part(estimator: Any) -> LinearScores:
    """Read one estimator of a one-vs-rest model, whose decision function must be its score.

    Without a ``decision_function``, the model compares probabilities or values.
    """
    form = None
    if hasattr(estimator, "decision_function"):
        with suppress(InvalidInput, UnsupportedModel):
            form = read(estimator)
    if (
        not isinstance(form, LinearScores)
        or not form.is_binary
        or form.threshold != 0.0
        or form.no_probabilities == OTHER_SCORES  # its decision function is not its score
    ):
        raise UnsupportedModel(
            "OneVsRestClassifier is read over linear binary classifiers with a decision_function; "
            f"got {type(estimator).__name__}. Use LogisticRegression, LinearSVC or their like in "
            "it, and put steps that encode categories before it."
        )
    return form


# --- regressors ---


def _linear(model: Any, *, exponential: bool = False) -> LinearRegressor:
    """Read ``coef_`` and ``intercept_`` of a regressor that was fitted on a 1-D y."""
    coef = dense(fitted(model).coef_)
    at_zero = _predict_at_zero(model, coef.shape[-1])
    if at_zero.shape != (1,):
        raise UnsupportedModel(
            f"{type(model).__name__} was fitted on a target with {at_zero.ndim} dimensions; "
            "expected one value for each row. Fit on a 1-D y, one model for each output."
        )
    # PLSRegression's intercept_ is that of centred inputs, and its coef_ of inputs as they are.
    centred = isinstance(model, PLSRegression)
    intercept = at_zero[0] if centred else dense(model.intercept_).ravel()[0]
    return LinearRegressor(coef.reshape(1, -1), np.array([float(intercept)]), exponential)


@read.register(
    linear_model.ARDRegression
    | linear_model.BayesianRidge
    | linear_model.ElasticNet  # and Lasso
    | linear_model.ElasticNetCV
    | linear_model.HuberRegressor
    | linear_model.Lars  # and LassoLars, LarsCV, LassoLarsCV, LassoLarsIC
    | linear_model.LassoCV
    | linear_model.LinearRegression
    | LinearSVR
    | linear_model.OrthogonalMatchingPursuit
    | linear_model.OrthogonalMatchingPursuitCV
    | PLSRegression
    | linear_model.QuantileRegressor
    | linear_model.Ridge
    | linear_model.RidgeCV
    | linear_model.SGDRegressor
    | SVR
    | NuSVR
    | linear_model.TheilSenRegressor
)
def _plain_regressor(model: Any) -> Form:
    kernel = getattr(fitted(model), "kernel", "linear")
    if kernel != "linear":
        raise UnsupportedModel(
            f"{type(model).__name__} with kernel={kernel!r} is not linear. "
            "Use kernel='linear' or LinearSVR."
        )
    return _linear(model)


@read.register(
    linear_model.GammaRegressor | linear_model.PoissonRegressor | linear_model.TweedieRegressor
)
def _(model: Any) -> Form:
    link = getattr(model, "link", "log")
    return _linear(model, exponential=link == "log" or (link == "auto" and model.power > 0))


with suppress(ImportError):  # they leave scikit-learn with version 1.10
    from sklearn.linear_model import PassiveAggressiveClassifier, PassiveAggressiveRegressor

    read.register(PassiveAggressiveClassifier, _without_probabilities)
    read.register(PassiveAggressiveRegressor, _plain_regressor)
