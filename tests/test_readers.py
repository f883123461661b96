"""A reader's law: the form is the model, for every class, on every row."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.feature_selection import RFE
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    HuberRegressor,
    Lars,
    LarsCV,
    Lasso,
    LassoCV,
    LassoLars,
    LassoLarsCV,
    LassoLarsIC,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    MultiTaskLasso,
    OrthogonalMatchingPursuit,
    OrthogonalMatchingPursuitCV,
    Perceptron,
    PoissonRegressor,
    QuantileRegressor,
    RANSACRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TheilSenRegressor,
    TweedieRegressor,
)
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR

from counterpoint.errors import InvalidInput, ModelNotFitted, UnsupportedModel
from counterpoint.explainer import explain
from counterpoint.models import read, see_through
from counterpoint.models.form import Magnitude
from counterpoint.models.linear import LinearScores, Link, Votes, scores_of_rows
from counterpoint.problem.costs import SquaredEuclidean
from counterpoint.problem.targets import Probability, Tradeoff
from counterpoint.rows.features import Continuous, Features
from counterpoint.testing import check_reader

# Deprecations of scikit-learn and unfinished fits are not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*converge")

LABELS = np.array(["deny", "maybe", "accept", "call"])
METHODS = ["sigmoid", "isotonic", "temperature"]  # the last is new in scikit-learn 1.8
if "temperature" not in CalibratedClassifierCV._parameter_constraints["method"][0].options:
    METHODS.pop()


class EqualGaussians(GaussianNB):
    """Linear, with probabilities and no decision_function."""

    def fit(self, X, y):
        super().fit(X, y)
        self.var_ = np.broadcast_to(self.var_.mean(axis=0), self.var_.shape)
        return self


class OneSided(LogisticRegression):
    """Its scores say little about the classes."""

    def fit(self, X, y):
        super().fit(X, np.resize(LABELS[:2], len(y)))
        self.coef_ = 0.0 * self.coef_
        return self


def blobs(classes, n=160, d=5):
    X, y = make_classification(
        n,
        d,
        n_informative=d,
        n_redundant=0,
        n_classes=classes,
        n_clusters_per_class=1,
        class_sep=0.7,
        random_state=classes,
    )
    return X * np.array([1.0, 10.0, 0.1, 3.0, 1.0])[:d] + 0.5, LABELS[y]


def fit(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def passive_aggressive(name):
    """These leave scikit-learn with version 1.10."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = getattr(linear_model, name, None)
        return [] if kind is None else [kind(random_state=0)]


def priors():
    """These come with scikit-learn 1.6."""
    known = "priors" in NearestCentroid().get_params()
    return [NearestCentroid().set_params(priors="empirical")] if known else []


def described(X):
    """Every column a number, whatever its values look like."""
    return Features(Continuous(f"x{j}") for j in range(X.shape[1]))


LASSO = (
    {"l1_ratio": 1.0} if LogisticRegression().get_params()["penalty"] != "l2" else {"penalty": "l1"}
)
CLASSIFIERS = [
    LogisticRegression(),
    LogisticRegression(solver="newton-cg", C=0.1, fit_intercept=False),
    LogisticRegression(solver="saga", C=0.5),
    LogisticRegression(**LASSO, solver="saga", C=0.5),
    LogisticRegressionCV(Cs=2, cv=2, scoring="accuracy"),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    SGDClassifier(random_state=0),
    SGDClassifier(loss="log_loss", random_state=0, average=True, alpha=0.1),
    SGDClassifier(loss="modified_huber", random_state=0, alpha=1.0),
    *passive_aggressive("PassiveAggressiveClassifier"),
    Perceptron(random_state=0),
    RidgeClassifier(),
    RidgeClassifierCV(),
    LinearSVC(random_state=0),
    LinearSVC(multi_class="crammer_singer", random_state=0),
    SVC(kernel="linear"),
    NuSVC(kernel="linear", nu=0.2),
    GaussianNB(),
    GaussianNB(var_smoothing=1e14),
    QuadraticDiscriminantAnalysis(tol=1e-9),
    NearestCentroid(),
    NearestCentroid(shrink_threshold=0.2),
    KNeighborsClassifier(n_neighbors=1),
    KNeighborsClassifier(n_neighbors=1, algorithm="brute"),
    *priors(),
    OneVsRestClassifier(LogisticRegression()),
    OneVsRestClassifier(SVC(kernel="linear")),
    OneVsRestClassifier(make_pipeline(StandardScaler(), RidgeClassifier())),
    RFE(LogisticRegression(), n_features_to_select=3),
]


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=repr)
def test_every_classifier_is_read_as_it_is(model, classes):
    X, y = blobs(classes)
    model = fit(model, X, y)
    rng = np.random.default_rng(0)
    rows = np.concatenate([X, rng.normal(size=X.shape) * 20])
    check_reader(model, rows, features=described(X))
    form = read(model)
    own_scores = hasattr(model, "decision_function") and not isinstance(model, NearestCentroid)
    if isinstance(form, LinearScores) and own_scores:
        found = form.matrix @ rows.T + form.offset[:, None]
        expected = model.decision_function(rows).T
        found = found[1] - found[0] if classes == 2 else found
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("model", "link"),
    [
        (LogisticRegression(), (Link.SOFTMAX, Link.SOFTMAX)),
        (LinearDiscriminantAnalysis(), (Link.SOFTMAX, Link.SOFTMAX)),
        (SGDClassifier(loss="log_loss"), (Link.SOFTMAX, Link.NONE)),
        (SGDClassifier(loss="modified_huber"), (Link.CLIPPED, Link.NONE)),
        (SGDClassifier(loss="hinge"), (Link.NONE, Link.NONE)),
        (LinearSVC(), (Link.NONE, Link.NONE)),
        (NearestCentroid(), (Link.NONE, Link.NONE)),
        *((model, (Link.SOFTMAX, Link.SOFTMAX)) for model in priors()),
        (OneVsRestClassifier(LogisticRegression()), (Link.SOFTMAX, Link.NONE)),
    ],
    ids=repr,
)
def test_probabilities_are_claimed_where_they_are_a_function_of_the_scores(model, link):
    for classes, expected in zip((2, 3), link, strict=True):
        X, y = blobs(classes, n=163)
        y[:7] = y[0]  # classes of different sizes
        form = read(fit(model, X, y))
        assert form.link is expected
        if expected is Link.NONE:
            with pytest.raises(InvalidInput, match=r"Probability needs class probabilities: .+"):
                form.regions(Probability(y[0], 0.9))


def test_names_inside_another_model_go_by_position():
    X, y = blobs(3, d=4)
    frame = pd.DataFrame(X, columns=["x1", "x0", "b", "a"])
    first = make_column_transformer((StandardScaler(), ["x0", "a"]), (MinMaxScaler(), ["x1"]))
    model = OneVsRestClassifier(make_pipeline(first, LogisticRegression())).fit(frame, y)
    check_reader(model, frame)
    text = frame.assign(b=np.where(frame["b"] > 0, "yes", "no"))
    encoded = make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough")
    check_reader(make_pipeline(encoded, model.estimator[1]).fit(text, y), text)
    model = OneVsRestClassifier(make_pipeline(encoded, LogisticRegression())).fit(text, y)
    with pytest.raises(UnsupportedModel, match="put steps that encode categories before it"):
        see_through(model, Features.from_data(text), fixed=False)


def test_liblinear_is_one_vs_rest_where_it_still_takes_several_classes():
    X, y = blobs(3)
    try:
        model = fit(LogisticRegression(solver="liblinear"), X, y)
    except ValueError:
        pytest.skip("this scikit-learn has no one-vs-rest logistic regression")
    assert read(model).link is Link.NONE
    check_reader(model, X, features=described(X))


@pytest.mark.parametrize("kind", ["multinomial", "ovr"])
@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_regression_as_it_was_before_scikit_learn_1_8(kind, classes):
    if "multi_class" not in LogisticRegression().get_params():
        pytest.skip("this scikit-learn has one kind of logistic regression")
    X, y = blobs(classes)
    model = fit(LogisticRegression(multi_class=kind), X, y)
    check_reader(model, X, features=described(X))
    check_reader(fit(OneVsRestClassifier(model), X, y), X, features=described(X))
    if classes == 2:
        moved = FixedThresholdClassifier(model, threshold=0.3)
        if kind == "ovr":
            check_reader(fit(moved, X, y), X, features=described(X))
        else:
            with pytest.raises(UnsupportedModel, match="read over binary linear classifiers"):
                see_through(fit(moved, X, y), None, fixed=False)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [MultinomialNB(), ComplementNB(), ComplementNB(norm=True), MultinomialNB(fit_prior=False)],
)
def test_naive_bayes_of_counts_is_linear(model, classes):
    rng = np.random.default_rng(0)
    X, y = rng.poisson(3.0, size=(90, 5)).astype(float), LABELS[rng.integers(classes, size=90)]
    check_reader(fit(model, X, y), X, features=described(X))


def test_bernoulli_naive_bayes_is_linear_in_zeros_and_ones():
    rng = np.random.default_rng(0)
    X, y = rng.integers(2, size=(90, 5)).astype(float), LABELS[rng.integers(3, size=90)]
    check_reader(BernoulliNB(binarize=None).fit(X, y), X, features=described(X))


def test_sparse_coefficients_and_sparse_training_data():
    from scipy import sparse

    X, y = blobs(3)
    check_reader(fit(SGDClassifier(random_state=0), X, y).sparsify(), X)
    check_reader(fit(SVC(kernel="linear"), sparse.csr_array(X), y), X)
    check_reader(fit(Lasso(alpha=0.1), X, X @ np.arange(5)), X)


def test_votes_are_read_up_to_five_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    five = SVC(kernel="linear", decision_function_shape="ovo").fit(X, rng.integers(5, size=200))
    assert isinstance(read(five), Votes)
    check_reader(five, X)
    six = SVC(kernel="linear").fit(X, rng.integers(6, size=200))
    with pytest.raises(UnsupportedModel, match=r"up to 5 classes\. Use LinearSVC or OneVsRest"):
        read(six)


def positive_values(X):
    return np.exp(X @ np.array([0.2, 0.01, 0.5, 0.0, -0.1]))


REGRESSORS = [
    ARDRegression(),
    BayesianRidge(),
    ElasticNet(alpha=0.01),
    ElasticNetCV(cv=2),
    HuberRegressor(),
    Lars(),
    LarsCV(cv=2),
    Lasso(alpha=0.01),
    LassoCV(cv=2),
    LassoLars(alpha=0.01),
    LassoLarsCV(cv=2),
    LassoLarsIC(),
    LinearRegression(),
    LinearRegression(positive=True, fit_intercept=False),
    LinearSVR(random_state=0),
    NuSVR(kernel="linear"),
    OrthogonalMatchingPursuit(),
    OrthogonalMatchingPursuitCV(cv=2),
    *passive_aggressive("PassiveAggressiveRegressor"),
    PLSRegression(n_components=2),
    QuantileRegressor(alpha=0.01),
    RANSACRegressor(random_state=0),
    RANSACRegressor(make_pipeline(StandardScaler(), Ridge()), min_samples=20, random_state=0),
    Ridge(),
    RidgeCV(),
    SGDRegressor(random_state=0, eta0=1e-6),
    SVR(kernel="linear"),
    TheilSenRegressor(random_state=0, max_subpopulation=100),
    TransformedTargetRegressor(Ridge()),
    TransformedTargetRegressor(Ridge(), transformer=StandardScaler()),
    TransformedTargetRegressor(
        make_pipeline(StandardScaler(), Ridge()), transformer=MinMaxScaler()
    ),
    TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp),
    GammaRegressor(),
    PoissonRegressor(alpha=0.1),
    TweedieRegressor(power=0),
    TweedieRegressor(power=1.5),
    TweedieRegressor(power=0, link="log"),
]


@pytest.mark.parametrize("model", REGRESSORS, ids=repr)
def test_every_regressor_is_read_as_it_is(model):
    X = np.random.default_rng(0).normal(size=(120, 5)) * [1, 5, 1, 2, 1]
    check_reader(fit(model, X, positive_values(X)), X, features=described(X))


def test_a_log_link_is_told():
    X = np.random.default_rng(0).normal(size=(50, 5))
    assert read(PoissonRegressor().fit(X, positive_values(X))).exponential
    assert not read(TweedieRegressor(power=0).fit(X, positive_values(X))).exponential


THRESHOLDS = [
    (LogisticRegression(), 0.3, "predict_proba"),
    (LogisticRegression(), 0.8, "auto"),
    (LogisticRegression(), "auto", "auto"),
    (LogisticRegression(), -0.7, "decision_function"),
    (LinearSVC(random_state=0), 0.4, "auto"),
    (SGDClassifier(loss="modified_huber", alpha=1.0, random_state=0), 0.6, "predict_proba"),
    (make_pipeline(StandardScaler(), LogisticRegression()), 0.2, "auto"),
]


@pytest.mark.parametrize("positive", [None, "deny", "maybe"])
@pytest.mark.parametrize(("model", "threshold", "method"), THRESHOLDS, ids=repr)
def test_a_fixed_threshold_moves_the_decision_and_keeps_the_probability(
    model, threshold, method, positive
):
    X, y = blobs(2)
    decider = FixedThresholdClassifier(
        model, threshold=threshold, pos_label=positive, response_method=method
    )
    rows = np.concatenate([X, np.random.default_rng(0).normal(size=(2000, 5)) * 3])
    check_reader(fit(decider, X, y), rows, features=described(X))


CALIBRATED = [
    *(
        (model, method, 2)
        for model in (LinearSVC(), SGDClassifier(random_state=0))
        for method in METHODS
    ),
    *((make_pipeline(StandardScaler(), LogisticRegression()), method, 2) for method in METHODS),
    *((EqualGaussians(), method, 2) for method in METHODS[:2]),
    *((LinearSVC(), method, 3) for method in METHODS if method != "isotonic"),
    *((LogisticRegression(), method, 4) for method in METHODS if method != "isotonic"),
]


@pytest.mark.parametrize(("model", "method", "classes"), CALIBRATED, ids=repr)
def test_one_calibration_moves_the_decision_and_the_probabilities(model, method, classes):
    X, y = blobs(classes)
    rows = np.concatenate([X, np.random.default_rng(0).normal(size=(2000, 5)) * 3])
    whole = fit(CalibratedClassifierCV(model, method=method, ensemble=False), X, y)
    check_reader(whole, rows, features=described(X))
    check_reader(make_pipeline(StandardScaler(), whole).fit(X, y), X, features=described(X))


@pytest.mark.parametrize("level", [0.2, 0.5, 0.7])
@pytest.mark.parametrize("label", ["deny", "maybe"])
def test_a_calibrated_probability_is_reached_and_not_a_little_before(label, level):
    X, y = blobs(2)
    model = fit(CalibratedClassifierCV(LinearSVC(), method="isotonic", ensemble=False), X, y)
    target = Probability(label, level)
    answers = explain(model, X[:40], target, data=X, cost=SquaredEuclidean())
    report = answers.report()
    assert set(report.status) <= {"optimal", "already"}
    assert report.valid.all()
    column = list(model.classes_).index(label)
    found = answers.to_frame()
    assert (model.predict_proba(found)[:, column] >= level).all()
    moved = (report.status == "optimal").to_numpy()
    short = found[moved] + 1e-6 * (X[:40][moved] - found[moved])
    assert (model.predict_proba(short)[:, column] < level).mean() > 0.9  # but on steps, all


def test_a_probability_that_no_score_has_is_refused_with_the_largest():
    X, y = blobs(2)
    y[X[:, 0] > np.median(X[:, 0])] = "maybe"
    noisy = np.where(np.random.default_rng(0).random(len(y)) < 0.3, "deny", y)
    model = fit(CalibratedClassifierCV(LinearSVC(), method="isotonic", ensemble=False), X, noisy)
    most = model.predict_proba(X * 1e6)[:, 1].max()
    if most < 1.0:
        with pytest.raises(InvalidInput, match="Expected a probability of at most"):
            explain(model, X[:2], Probability("maybe", (1.0 + most) / 2.0), data=X)
    with pytest.raises(InvalidInput, match="Tradeoff needs probabilities that are a softmax"):
        explain(model, X[:2], Tradeoff("maybe", 1.0), data=X)


def test_a_threshold_over_a_calibration_is_one_on_the_calibrated_probability():
    X, y = blobs(2)
    for method in METHODS[:2]:
        inner = CalibratedClassifierCV(LinearSVC(), method=method, ensemble=False)
        decider = fit(FixedThresholdClassifier(inner, threshold=0.3), X, y)
        check_reader(decider, X, features=described(X))


def test_a_threshold_inside_a_pipeline_and_a_tuned_one():
    X, y = blobs(2)
    inside = make_pipeline(
        StandardScaler(), FixedThresholdClassifier(LogisticRegression(), threshold=0.3)
    )
    check_reader(fit(inside, X, y), X)
    for positive in ("deny", "maybe"):
        from sklearn.metrics import f1_score, make_scorer

        tuned = TunedThresholdClassifierCV(
            LogisticRegression(), scoring=make_scorer(f1_score, pos_label=positive), cv=2
        )
        check_reader(fit(tuned, X, y), X)


def binary(model):
    return fit(model, *blobs(2))


def three(model):
    return fit(model, *blobs(3))


def values(model, outputs=1):
    X = np.random.default_rng(0).normal(size=(60, 5)) + 3
    y = positive_values(X)
    return fit(model, X, y if outputs == 1 else np.stack([y, y + 1], axis=1))


def calibrated(model, method="sigmoid", classes=2):
    X, y = blobs(classes)
    if isinstance(model, OneSided):
        y = np.where(np.arange(len(y)) % 3 == 0, "maybe", "deny")
    return fit(CalibratedClassifierCV(model, method=method, ensemble=False), X, y)


def positive_counts(model):
    X, y = blobs(2)
    return fit(model, np.abs(X).astype(int) % 3, y)


def indicator(model):
    X, y = blobs(3)
    return fit(model, X, (y[:, None] == LABELS[:3]).astype(int))


REFUSED = [
    (lambda: binary(MLPClassifier(2, tol=1e3)), "MLPClassifier cannot be read exactly"),
    (lambda: binary(MLPClassifier(2, tol=1e3)), "Counterpoint reads linear models, .* docs/faq.md"),
    (lambda: values(MLPRegressor(max_iter=2)), "MLPRegressor cannot be read exactly"),
    (lambda: binary(CalibratedClassifierCV(LinearSVC())), "average over 5 folds of calibrations"),
    (lambda: calibrated(QuadraticDiscriminantAnalysis()), "linear classifiers with a decision_fun"),
    (lambda: calibrated(LinearSVC(), "isotonic", 3), "of 3 classes has .* not linear. Use method="),
    (lambda: calibrated(OneSided(), "isotonic"), "gives the class 'deny' to every input"),
    (lambda: binary(DummyClassifier()), "does not look at its inputs"),
    (lambda: values(DummyRegressor()), "does not look at its inputs"),
    (lambda: binary(BernoulliNB()), "binarize=None"),
    (lambda: positive_counts(CategoricalNB()), "Put an OrdinalEncoder before it"),
    (lambda: binary(SVC()), "kernel='rbf' is not linear. Use kernel='linear' or LinearSVC"),
    (lambda: three(SVC(kernel="linear", break_ties=True)), "Use break_ties=False"),
    (lambda: values(SVR()), "kernel='rbf' is not linear. Use kernel='linear' or LinearSVR"),
    (lambda: binary(NearestCentroid(metric="manhattan")), "Use metric='euclidean'"),
    (lambda: three(OneVsOneClassifier(LinearSVC())), "Use OneVsRestClassifier, or SVC"),
    (lambda: three(OneVsRestClassifier(Ridge())), "with a decision_function; got Ridge"),
    (lambda: three(OneVsRestClassifier(SVC())), "linear binary classifiers .* got SVC"),
    (lambda: three(OneVsRestClassifier(NearestCentroid())), "got NearestCentroid"),
    (lambda: indicator(OneVsRestClassifier(LinearSVC())), "Explain its estimators_ one by one"),
    (lambda: indicator(RidgeClassifier()), "one model for each label"),
    (lambda: values(LinearRegression(), 2), "Fit on a 1-D y, one model for each output"),
    (lambda: values(MultiTaskLasso(), 2), "Fit on a 1-D y"),
    (lambda: values(PLSRegression(), 2), "Fit on a 1-D y"),
    (
        lambda: values(TransformedTargetRegressor(func=np.log1p, inverse_func=np.expm1)),
        "turns predictions back with 'expm1'",
    ),
    (lambda: values(TransformedTargetRegressor(MLPRegressor(max_iter=2))), "MLPRegressor cannot"),
    (
        lambda: values(TransformedTargetRegressor(PoissonRegressor(), transformer=MinMaxScaler())),
        "Leave the scaler out",
    ),
    (
        lambda: binary(FixedThresholdClassifier(LogisticRegression(), threshold=1.5)),
        "Use a threshold between 0 and 1",
    ),
    (
        lambda: three(make_pipeline(StandardScaler(), MLPClassifier(2, tol=1e3))),
        "Step 'mlpclassifier': MLPClassifier cannot be read",
    ),
    (lambda: binary(make_pipeline(StandardScaler(), "passthrough")), "ends in a model"),
]


@pytest.mark.parametrize(("make", "sentence"), REFUSED, ids=[s for _, s in REFUSED])
def test_what_cannot_be_read_is_refused_with_a_sentence(make, sentence):
    with pytest.raises(UnsupportedModel, match=sentence):
        see_through(make(), None, fixed=False)


@pytest.mark.parametrize(
    ("home", "name", "sentence"),
    [
        ("catboost.core", "CatBoostClassifier", "Fit HistGradientBoostingClassifier, XGBClass"),
        ("statsmodels.discrete.discrete_model", "BinaryResultsWrapper", "Copy its parameters"),
        ("keras.src.models.sequential", "Sequential", "Explain its last layer"),
        ("xgboost.core", "Booster", "Save it with save_model"),
        ("xgboost.sklearn", "XGBRanker", "Counterpoint reads linear models"),
        ("lightgbm.basic", "Booster", "Fit LGBMClassifier"),
    ],
)
def test_of_models_that_many_have_the_refusal_says_what_to_do(home: str, name: str, sentence: str):
    kind = type(name, (), {"__module__": home, "predict": len})
    with pytest.raises(UnsupportedModel, match=rf"{name} cannot be read exactly\. {sentence}"):
        see_through(kind(), None, fixed=False)


def test_a_message_names_columns_as_text_where_a_model_has_strings_of_numpy():
    lightgbm = pytest.importorskip("lightgbm")
    X = pd.DataFrame(np.eye(40), columns=[f"column {j}" for j in range(40)])
    model = lightgbm.LGBMClassifier(n_estimators=1, verbose=-1).fit(X, np.arange(40) % 2)
    with pytest.raises(InvalidInput, match="missing: 'column_0'"):  # which is LightGBM's name
        explain(model, X, 1, data=X)


@pytest.mark.parametrize("method", ["auto", "decision_function"])
def test_a_threshold_on_scores_that_predict_does_not_use_is_refused(method):
    if not priors():
        pytest.skip("nearest centroids have no scores in this scikit-learn")
    model = FixedThresholdClassifier(NearestCentroid(), threshold=0.1, response_method=method)
    X, y = blobs(2)
    with pytest.raises(UnsupportedModel, match=r"NearestCentroid predicts by other scores"):
        see_through(model.fit(X[:, :3], np.resize(["a", "b"], len(y))), None, fixed=False)


def test_a_model_of_one_class_is_refused():
    X, y = blobs(2)
    model = LogisticRegression().fit(X, y)
    model.classes_ = model.classes_[:1]
    with pytest.raises(UnsupportedModel, match="knows only the class 'deny'"):
        read(model)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (LogisticRegression(), "LogisticRegression has not been fitted"),
        (Ridge(), "Ridge has not been fitted"),
        (SVR(kernel="linear"), "SVR has not been fitted"),
        (
            FixedThresholdClassifier(LogisticRegression()),
            "(FixedThreshold|Logistic).* has not been fitted",
        ),
        (OneVsRestClassifier(LinearSVC()), "OneVsRestClassifier has not been fitted"),
        (TransformedTargetRegressor(Ridge()), "TransformedTargetRegressor has not been fitted"),
        (RANSACRegressor(), "RANSACRegressor has not been fitted"),
        (TunedThresholdClassifierCV(Ridge()), "has not been fitted"),
        (
            TunedThresholdClassifierCV(LogisticRegression().fit([[0.0], [1.0]], [0, 1])),
            "TunedThresholdClassifierCV has not been fitted",
        ),
        (GaussianNB(), "GaussianNB has not been fitted"),
        (PLSRegression(), "PLSRegression has not been fitted"),
        (RFE(Ridge()), "RFE has not been fitted"),
        (GridSearchCV(Ridge(), {}), "keeps no best_estimator_"),
        (make_pipeline(StandardScaler(), Ridge()), r"step 'standardscaler' \(StandardScaler\) has"),
        (
            make_pipeline(FunctionTransformer(), Ridge()),
            r"step 'ridge' \(Ridge\) has not been fitted\. Call fit",
        ),
    ],
    ids=repr,
)
@pytest.mark.parametrize("features", [None, Features([Continuous("a")])])
def test_a_model_that_was_not_fitted_is_named(model, sentence, features):
    if features is None and "Function" in repr(model):
        pytest.skip("a pipeline that knows nothing of its columns needs features")
    with pytest.raises(ModelNotFitted, match=sentence):
        see_through(model, features, fixed=False)


def test_a_class_instead_of_a_model():
    with pytest.raises(InvalidInput, match="got the class Ridge"):
        see_through(Ridge, None, fixed=False)


class Own(ClassifierMixin, BaseEstimator):
    """A user's own model."""

    def __init__(self, width=3):
        self.width = width

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[(X[:, : self.width].sum(axis=1) > 0).astype(int)]


def test_a_reader_for_a_model_of_ones_own():
    X, y = blobs(2)
    model = Own(5).fit(X, y)
    with pytest.raises(UnsupportedModel, match=r"Own cannot be read.*read\.register"):
        see_through(model, None, fixed=False)

    @read.register(Own)
    def _(model):
        return LinearScores.binary(np.ones(model.width), 0.0, model.classes_)

    assert see_through(model, None, fixed=False).features.names == ("x0", "x1", "x2", "x3", "x4")
    check_reader(model, X)
    check_reader(make_pipeline(StandardScaler(), Own(5)).fit(X, y), X)


def test_check_reader_finds_a_wrong_reader():
    class Wrong(Own):
        pass

    @read.register(Wrong)
    def _(model):
        return LinearScores.binary(-np.ones(model.width), 0.0, model.classes_)

    X, y = blobs(2)
    with pytest.raises(AssertionError, match=r"The form predicts .* in row \d+, by .* the model,"):
        check_reader(Wrong(5).fit(X, y), X)


def test_rows_of_scores_that_cancel_round_as_what_they_are():
    """The difference of two scores is off by what the scores are off by."""
    matrix, offset, classes = np.array([[1e6], [1e6 + 1.0]]), np.array([3.0, 4.0]), np.array([0, 1])
    own = scores_of_rows(matrix, offset, classes, Link.NONE).magnitude
    assert own.matrix.tolist() == matrix.tolist()
    assert own.offset.tolist() == offset.tolist()
    told = Magnitude(2.0 * matrix, 2.0 * offset, 7)
    given = scores_of_rows(matrix, offset, classes, Link.NONE, sizes=told).magnitude
    assert given.matrix.tolist() == told.matrix.tolist()
    assert given.terms == 7
