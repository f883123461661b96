"""Pipelines are seen through exactly: scores of raw rows, whatever stands before the model."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import (
    PCA,
    FactorAnalysis,
    FastICA,
    IncrementalPCA,
    MiniBatchSparsePCA,
    SparsePCA,
    TruncatedSVD,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import (
    RFE,
    SelectFromModel,
    SelectKBest,
    SelectPercentile,
    VarianceThreshold,
)
from sklearn.impute import IterativeImputer, KNNImputer, MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

import counterpoint as cp
from counterpoint.errors import InvalidInput, UnsupportedModel
from counterpoint.models import read_step, see_through
from counterpoint.models.linear import LinearScores
from counterpoint.rows.encoding import encode, match_columns
from counterpoint.rows.features import Categorical, Continuous, Features, Integer
from counterpoint.rows.table import Table
from counterpoint.testing import check_reader

NUMBERS = ["income", "age", "debt"]
TEXT = ["home", "job"]


def people(n=150, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.normal(3e4, 1e4, n),
            "age": rng.integers(18, 80, n),
            "debt": rng.exponential(size=n),
            "home": rng.choice(["own", "rent", "free"], n),
            "job": rng.choice(list("abcdefgh"), n, p=[0.4, 0.3, 0.2, 0.02, 0.02, 0.02, 0.02, 0.02]),
            "grade": rng.integers(1, 5, n),
            "flag": rng.random(n) < 0.5,
        }
    )


X = people()
Y = np.random.default_rng(1).choice(["no", "perhaps", "yes"], len(X))


def fit(*steps, data=X, y=Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_pipeline(*steps, LogisticRegression()).fit(data, y)


def scores_agree(model, rows, features=None, *, fixed=False):
    """The law: the form's scores of encoded raw rows are the model's decision function."""
    table = Table.read(rows)
    features = Features.from_data(table) if features is None else features
    reading = see_through(model, features, fixed=fixed)
    matched = match_columns(table, reading.features)
    encoded = encode(matched, reading.features)
    assert not encoded.problems
    points = reading.features.expand(encoded.codes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.decision_function(matched.to_model_input(named=reading.named))
    found = reading.form.scores(points)
    found = found[:, 1] - found[:, 0] if expected.ndim == 1 else found
    size = np.abs(points) @ np.abs(reading.form.matrix.T) + np.abs(reading.form.offset)
    accuracy = 1e-9 if expected.dtype == np.float64 else 1e-5  # a float32 model rounds for itself
    assert np.all(np.abs(found - expected) <= accuracy * (size.max() + np.abs(expected).max()))
    return reading


def columns(*pairs, **options):
    return make_column_transformer(*pairs, **options)


BEFORE_NUMBERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler((-1, 3)),
    MaxAbsScaler(),
    RobustScaler(),
    RobustScaler(with_centering=False),
    RobustScaler(with_scaling=False, unit_variance=True),
    PCA(2),
    PCA(2, whiten=True),
    IncrementalPCA(2, whiten=True),
    TruncatedSVD(2, algorithm="arpack", random_state=0),
    FastICA(2, random_state=0),
    FastICA(whiten=False, random_state=0),
    FactorAnalysis(1),
    SparsePCA(2, random_state=0),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="eigen", n_components=1),
    NeighborhoodComponentsAnalysis(2, max_iter=2, random_state=0),
    GaussianRandomProjection(2, random_state=0),
    SparseRandomProjection(2, random_state=0),
    SelectKBest(k=2),
    SelectPercentile(percentile=70),
    SelectFromModel(LogisticRegression(), max_features=2, threshold=-np.inf),
    RFE(LogisticRegression(), n_features_to_select=2),
    VarianceThreshold(),
    SimpleImputer(),
    SimpleImputer(strategy="constant", fill_value=-1.0, add_indicator=True),
    KNNImputer(),
    IterativeImputer(max_iter=2, random_state=0),
    FunctionTransformer(),
    FunctionTransformer(validate=True),
    PolynomialFeatures(1),
    PolynomialFeatures(1, include_bias=False),
    make_pipeline(StandardScaler(), make_pipeline(PCA(2), "passthrough")),
    make_union(StandardScaler(), PCA(1), "passthrough"),
    FeatureUnion(
        [("a", PCA(1)), ("b", "drop"), ("c", MinMaxScaler())], transformer_weights={"a": 3}
    ),
    GridSearchCV(PCA(), {"n_components": [1, 2]}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("step", BEFORE_NUMBERS, ids=repr)
@pytest.mark.parametrize("named", [True, False])
def test_every_affine_step(step, named):
    data = X[NUMBERS] if named else X[NUMBERS].to_numpy()
    data = data / [1e4, 10, 1]
    if isinstance(step, GridSearchCV):
        step = step.fit(data)
    model = Pipeline([("step", step), ("model", LogisticRegression())]).fit(data, Y)
    reading = scores_agree(model, data)
    assert reading.named is named
    assert see_through(model, None, fixed=False).features.names == tuple(
        NUMBERS if named else ["x0", "x1", "x2"]
    )


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_extreme_scales(scale):
    data = X[NUMBERS].to_numpy() * [scale, 1, 1 / scale]
    scores_agree(fit(StandardScaler(), PCA(2), data=data), data)


def test_imputers_pass_on_what_is_not_missing():
    holes = X.assign(nothing=np.nan, age=X["age"].astype(float))
    holes.loc[::7, "debt"] = np.nan
    holes.loc[::5, "home"] = None
    for imputer in (
        SimpleImputer(add_indicator=True),
        KNNImputer(add_indicator=True),
        SimpleImputer(keep_empty_features=True),
        MissingIndicator(features="all"),
        IterativeImputer(max_iter=2, add_indicator=True),
    ):
        names = [*NUMBERS, "nothing"]
        model = fit(
            columns(
                (imputer, names),
                (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), TEXT),
                (StandardScaler(), ["income"]),
            ),
            data=holes,
        )
        features = Features.from_data(holes.drop(columns="nothing"))
        features = Features([*features, Continuous("nothing")])
        scores_agree(model, holes.dropna(subset=["debt", "home"]).assign(nothing=1.0), features)


def test_a_column_of_one_word_reaches_the_steps_after_an_imputer():
    data = X.assign(country="here")
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    for names in (["country", "home"], ["home", "country"], ["country"]):
        check_reader(fit(columns((words, names), (StandardScaler(), NUMBERS)), data=data), data)


def test_what_an_imputer_puts_for_missing_cells_is_no_category_to_choose():
    holes = X.copy()
    holes.loc[::5, "home"] = None
    fill = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder())
    model = fit(columns((fill, ["home"])), data=holes)
    for features in (Features.from_data(holes[["home"]]), None):
        found = see_through(model, features, fixed=False).features["home"]
        assert found.categories == ("free", "own", "rent", "none")
        assert found.stand_in == "none"


ENCODERS = [
    OneHotEncoder(),
    OneHotEncoder(sparse_output=False, dtype=np.float32),
    OneHotEncoder(drop="first"),
    OneHotEncoder(drop="if_binary"),
    OneHotEncoder(handle_unknown="ignore"),
    OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False),
    OneHotEncoder(min_frequency=10),
    OneHotEncoder(max_categories=3, handle_unknown="infrequent_if_exist"),
    OneHotEncoder(min_frequency=0.1, drop="first"),
    OrdinalEncoder(),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    OrdinalEncoder(min_frequency=10),
    TargetEncoder(),
    TargetEncoder(smooth=3.0),
    make_pipeline(OrdinalEncoder(), StandardScaler()),
    make_pipeline(OrdinalEncoder(), OneHotEncoder()),
    make_pipeline(OneHotEncoder(), TruncatedSVD(3)),
    make_pipeline(OrdinalEncoder(), KBinsDiscretizer(2)),
    make_pipeline(OrdinalEncoder(), PowerTransformer()),
    make_pipeline(OneHotEncoder(), Binarizer()),
    make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(), SelectKBest(k=4)),
]


@pytest.mark.covering(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
@pytest.mark.parametrize("library", ["pandas", "category", "polars", "array"])
def test_every_encoder_of_categories(encoder, library):
    if library == "category" and "SimpleImputer" in repr(encoder):
        pytest.skip("scikit-learn imputes no pandas categories")
    names = [*TEXT, "grade", "flag", "age"]
    data = X[names]
    if library == "category":
        data = data.astype(dict.fromkeys(TEXT, "category"))
    if library == "polars":
        data = pl.from_pandas(data)
    if library == "array":
        data = data.to_numpy(dtype=object)
    at = [0, 1, 2, 3] if library == "array" else names[:4]
    model = fit(columns((encoder, at), remainder=StandardScaler()), data=data)
    reading = scores_agree(model, data)
    assert isinstance(reading.features.items[2], Categorical)
    assert isinstance(reading.features.items[4], Integer)
    derived = see_through(model, None, fixed=False)
    scores_agree(model, data, derived.features, fixed=True)


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_containers_between_steps_do_not_matter(output, library):
    data = X if library == "pandas" else pl.from_pandas(X)
    encoder = OneHotEncoder(sparse_output=False)
    first = columns(
        (StandardScaler(), NUMBERS), (encoder, TEXT), ("passthrough", ["flag"]), remainder="drop"
    ).set_output(transform=output)
    second = columns((MinMaxScaler(), [1, 4, 5]), (PCA(2), slice(5, None)), remainder="passthrough")
    check_reader(fit(first, second, data=data), data)
    scores_agree(fit(first, second, data=data), data)


def test_names_of_earlier_outputs_choose_columns():
    first = columns((StandardScaler(), NUMBERS), (OrdinalEncoder(), TEXT))
    first.set_output(transform="pandas")
    second = columns(("passthrough", ["standardscaler__debt", "ordinalencoder__job"]))
    scores_agree(fit(first, second), X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("remainder", ["drop", "passthrough", MinMaxScaler()])
@pytest.mark.parametrize(
    "spec",
    [
        ["income", "debt"],
        "positions",
        slice("income", "debt"),
        slice(0, 3),
        [0, -3],
        np.array([True, False, True, False, False, False, False]),
        make_column_selector("inco|debt"),
        pd.Index(["debt", "income"]),
    ],
    ids=lambda spec: type(spec).__name__,
)
def test_every_way_to_choose_columns(spec, remainder):
    if isinstance(spec, str):
        spec = [2, 0]
    data = X.drop(columns=TEXT).assign(home=X["grade"] / 3, job=X["age"] / 2)
    step = ColumnTransformer(
        [("a", StandardScaler(), spec), ("none", PCA(), []), ("b", "passthrough", ["age"])],
        remainder=remainder,
        transformer_weights={"a": 2.0, "b": -1.5, "remainder": 0.5},
        verbose_feature_names_out=False,
    )
    check_reader(fit(step, data=data), data)
    scores_agree(fit(step, data=data), data)


def test_columns_used_twice_and_columns_in_another_order():
    step = columns(
        (StandardScaler(), NUMBERS), (OneHotEncoder(), ["grade", "job"]), (PCA(1), ["grade", "age"])
    )
    model = fit(step)
    reading = scores_agree(model, X[X.columns[::-1]])
    assert reading.features.names == tuple(X.columns)
    assert reading.features["grade"].numbers.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", [GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV])
def test_searches_are_seen_through(kind):
    search = kind(
        make_pipeline(StandardScaler(), LogisticRegression()),
        {"logisticregression__C": [0.1, 1]},
        cv=2,
    )
    if kind is RandomizedSearchCV:
        search.set_params(n_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores_agree(search.fit(X[NUMBERS], Y), X[NUMBERS])


def test_a_search_over_a_step():
    search = GridSearchCV(PCA(), {"n_components": [1, 2]}).fit(X[NUMBERS])
    scaled = make_pipeline(search, LogisticRegression()).fit(X[NUMBERS] / [1e4, 10, 1], Y)
    scores_agree(scaled, X[NUMBERS])


def test_frozen_estimators_are_seen_through():
    frozen = pytest.importorskip("sklearn.frozen").FrozenEstimator
    scaler = frozen(StandardScaler().fit(X[NUMBERS]))
    model = make_pipeline(scaler, frozen(LogisticRegression().fit(scaler.transform(X[NUMBERS]), Y)))
    scores_agree(model.fit(X[NUMBERS], Y), X[NUMBERS])


# --- features ---


def test_numbers_that_are_encoded_become_categories():
    model = fit(columns((OneHotEncoder(), ["grade"]), (StandardScaler(), NUMBERS)))
    found = scores_agree(model, X).features["grade"]
    assert found == Categorical("grade", (1, 2, 3, 4), ordered=True, observed=(1, 2, 3, 4))
    few = Features.from_data(X[X["grade"] <= 2])
    assert see_through(model, few, fixed=False).features["grade"].observed == (1, 2)
    assert isinstance(see_through(model, few, fixed=False).features["age"], Integer)
    with pytest.raises(
        InvalidInput, match=r"Describe it as Categorical\('grade', \(1, 2, 3, 4\)\)"
    ):
        see_through(model, few, fixed=True)


def test_categories_that_the_encoder_knows_may_be_chosen():
    model = fit(columns((OneHotEncoder(), TEXT)))
    few = Features.from_data(X[X["home"] != "free"])
    found = see_through(model, few, fixed=False).features["home"]
    assert found.categories == ("own", "rent", "free")
    assert found.observed == ("own", "rent")
    assert see_through(model, few, fixed=True).features["home"].categories == ("own", "rent")


def test_categories_that_the_encoder_does_not_take_are_left_out():
    more = Features.from_data(X).replaced(Categorical("home", ("own", "boat"), observed=("boat",)))
    strict = fit(columns((OneHotEncoder(), TEXT), (TargetEncoder(), TEXT)))
    found = see_through(strict, more, fixed=False).features["home"]
    assert found.categories == ("own", "free", "rent")
    assert found.observed == ()
    with pytest.raises(InvalidInput, match=r"knows, .* got .*boat.*Leave them out"):
        see_through(strict, more, fixed=True)
    lenient = fit(columns((OneHotEncoder(handle_unknown="ignore"), TEXT)))
    rows = X.assign(home=X["home"].replace("rent", "boat"))
    assert "boat" in scores_agree(lenient, rows).features["home"].categories


def test_two_encoders_that_know_different_categories():
    half = OneHotEncoder(categories=[["own", "rent"]], handle_unknown="error")
    data = X[X["home"] != "free"]
    model = fit(
        columns((half, ["home"]), (OrdinalEncoder(categories=[["free", "own", "rent"]]), ["home"])),
        data=data,
        y=Y[X["home"] != "free"],
    )
    for features in (None, Features.from_data(data), Features.from_data(X)):
        found = see_through(model, features, fixed=False).features["home"]
        assert set(found.categories) == {"own", "rent"}


def test_the_model_decides_which_columns_and_in_which_order():
    model = fit(StandardScaler(), data=X[["debt", "income"]])
    assert scores_agree(model, X).features.names == ("debt", "income")
    with pytest.raises(InvalidInput, match=r"'debt', which the model uses"):
        see_through(model, Features.from_data(X[["income", "age"]]), fixed=False)
    dropping = fit(columns((StandardScaler(), ["debt"])))
    assert scores_agree(dropping, X[["debt"]]).features.names == ("debt",)
    assert see_through(dropping, None, fixed=False).features.names == ("debt",)
    with pytest.raises(InvalidInput, match="'debt'"):
        see_through(dropping, Features.from_data(X[["age"]]), fixed=False)


def test_a_model_without_names_goes_by_position():
    model = fit(StandardScaler(), data=X[NUMBERS].to_numpy())
    reading = see_through(model, Features.from_data(X[NUMBERS]), fixed=False)
    assert reading.features.names == tuple(NUMBERS)
    assert not reading.named
    with pytest.raises(InvalidInput, match=r"Expected 3 features.*got 7"):
        see_through(model, Features.from_data(X), fixed=False)


def test_text_that_reaches_a_model_as_a_number():
    model = fit(columns((StandardScaler(), ["grade"])))
    text = Features([Categorical("grade", ("1", "2"))])
    with pytest.raises(
        InvalidInput, match="'columntransformer__standardscaler' takes column 'grade'"
    ):
        see_through(model, text, fixed=False)


def test_the_steps_are_told():
    model = fit(columns((StandardScaler(), NUMBERS), (OneHotEncoder(), TEXT)), PCA(3))
    assert see_through(model, None, fixed=False).steps == (
        "columntransformer__standardscaler: StandardScaler, 3 → 3 columns",
        "columntransformer__onehotencoder: OneHotEncoder, 2 → 10 columns",
        "pca: PCA, 13 → 3 columns",
        "logisticregression: LogisticRegression as LinearScores over 3 inputs",
    )


# --- refusals ---


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [SparsePCA, MiniBatchSparsePCA])
def test_a_sparse_pca_is_read_with_its_offset(kind):
    """Its values at 0 are not 0 where the data are not centred, and count by themselves."""
    data = X[NUMBERS].to_numpy() / [1e4, 10, 1] + [3.0, -5.0, 7.0]
    projection = kind(2, alpha=0.01, random_state=0).fit(data)
    assert np.abs(projection.transform(np.zeros((1, 3)))).min() > 0.1
    model = Pipeline([("step", projection), ("model", LogisticRegression())]).fit(data, Y)
    scores_agree(model, np.random.default_rng(1).normal(size=(20, 3)))


@pytest.mark.filterwarnings("ignore")
def test_a_sparse_pca_that_is_not_affine_is_refused():
    class Bent(SparsePCA):
        """Affine nearly everywhere, at 0 and at unit vectors too."""

        def transform(self, rows):
            return super().transform(rows) + 1e-6 * np.maximum(rows[:, :2] - 1.0, 0.0)

    model = fit(Bent(2, alpha=0.01, random_state=0), data=X[NUMBERS].to_numpy() / [1e4, 10, 1])
    with pytest.raises(
        UnsupportedModel, match=r"cannot be read exactly: it is not affine\. Use PCA"
    ):
        see_through(model, None, fixed=False)


class Unknown(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.n_features_in_ = 1
        return self

    def transform(self, X):
        return np.asarray(X)


REFUSED = [
    (Normalizer(), r"^Step 'outer__num' \(Normalizer\) .* not an affine .* 'income'"),
    (PolynomialFeatures(2), "it multiplies column 'income' with other columns. Apply it to one"),
    (RBFSampler(), "RBFSampler.*Use an affine step.*transform the column in the data"),
    (FunctionTransformer(np.rint), "'rint' does cannot be known.*Apply it to the data before"),
    (SimpleImputer(missing_values=0.0), "Mark missing cells as NaN"),
    (Unknown(), r"\(Unknown\) cannot be read exactly: there is no reader.*read_step\.register"),
    (
        make_pipeline(StandardScaler(), OneHotEncoder(handle_unknown="ignore")),
        "__onehotencoder' .*computed from numbers",
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("step", "sentence"), REFUSED, ids=[s for _, s in REFUSED])
def test_steps_that_are_not_affine_are_refused_with_their_place(step, sentence):
    outer = ColumnTransformer([("num", step, ["income", "debt"])])
    model = Pipeline([("outer", outer), ("model", LogisticRegression())]).fit(X, Y)
    with pytest.raises(UnsupportedModel, match=sentence):
        see_through(model, Features.from_data(X), fixed=False)


def test_a_step_that_mixes_features_is_refused_and_one_that_does_not_is_read():
    one = fit(columns((make_pipeline(OneHotEncoder(), Normalizer()), ["job"])))
    scores_agree(one, X)
    scores_agree(fit(columns((make_pipeline(OneHotEncoder(), Normalizer()), TEXT))), X)
    two = fit(columns((make_pipeline(OneHotEncoder(drop="first"), Normalizer()), TEXT)))
    with pytest.raises(
        UnsupportedModel, match=r"'columntransformer__pipeline__normalizer'.*mixes several"
    ):
        see_through(two, None, fixed=False)
    products = make_pipeline(OneHotEncoder(sparse_output=False), PolynomialFeatures(2))
    scores_agree(fit(columns((products, ["job"]))), X)
    with pytest.raises(UnsupportedModel, match="mixes several features"):
        see_through(fit(columns((products, TEXT))), None, fixed=False)


def test_a_rare_combination_that_breaks_the_sum_is_not_overlooked():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"a": rng.integers(200, size=900), "b": rng.integers(200, size=900)})
    data = data.astype(str)
    step = make_pipeline(OneHotEncoder(drop="first"), Normalizer())
    model = fit(columns((step, ["a", "b"])), data=data, y=rng.integers(2, size=900))
    with pytest.raises(UnsupportedModel, match="mixes several features"):
        see_through(model, None, fixed=False)


@pytest.mark.parametrize("model", [BernoulliNB(binarize=0.5), CategoricalNB(), GaussianNB()])
def test_naive_bayes_of_categories_is_linear(model):
    names = [*TEXT, "grade", "flag"]
    model = make_pipeline(columns((OrdinalEncoder(), names)), model).fit(X, Y)
    check_reader(model, X)
    assert isinstance(see_through(model, None, fixed=False).form, LinearScores)
    numbers = make_pipeline(MinMaxScaler(), model[-1]).fit(X[NUMBERS], Y)
    if isinstance(model[-1], GaussianNB):
        check_reader(numbers, X[NUMBERS])
        return
    with pytest.raises(UnsupportedModel, match="Step '"):
        see_through(numbers, None, fixed=False)


def test_unions_of_column_transformers():
    model = fit(
        make_union(columns((StandardScaler(), ["age"])), columns((OneHotEncoder(), ["job"])))
    )
    assert see_through(model, None, fixed=False).features.names == ("age", "job")
    scores_agree(model, X)
    selected = make_pipeline(
        SelectKBest(k=2).set_output(transform="pandas"), columns((StandardScaler(), ["x0"]))
    )
    data = np.stack([np.unique(Y, return_inverse=True)[1] + X["debt"], X["age"], X["debt"]], axis=1)
    model = fit(selected, data=data)
    scores_agree(model, data, Features(Continuous(name) for name in "abc"))


def test_a_category_without_a_number_is_named():
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    model = fit(columns((make_pipeline(encoder, SimpleImputer()), ["home"])))
    more = Features([Categorical("home", ("own", "boat"))])
    with pytest.raises(
        UnsupportedModel, match="no finite number for the category 'boat' of column 'home'"
    ):
        see_through(model, more, fixed=False)


def test_values_that_a_later_step_does_not_take():
    lenient = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    model = fit(columns((make_pipeline(lenient, OneHotEncoder()), ["home"])))
    more = Features([Categorical("home", ("own", "boat"))])
    with pytest.raises(UnsupportedModel, match=r"does not take the values .*Found unknown"):
        see_through(model, more, fixed=False)


def test_clipping_scalers_of_categories_and_of_numbers():
    scalers = [MinMaxScaler(clip=True)]
    if "clip" in MaxAbsScaler().get_params():  # new in scikit-learn 1.8
        scalers.append(MaxAbsScaler(clip=True))
    for scaler in scalers:
        scores_agree(fit(columns((make_pipeline(OrdinalEncoder(), scaler), TEXT))), X)
        check_reader(fit(columns((scaler, NUMBERS))), X)


def test_a_column_of_one_category():
    data = X.assign(home="own")
    step = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    scores_agree(fit(columns((step, TEXT)), data=data), data)
    scores_agree(
        fit(columns((OneHotEncoder(), ["home"]), (StandardScaler(), ["age"])), data=data), data
    )


def test_a_trace_for_a_step_of_ones_own():
    class Doubled(Unknown):
        def transform(self, X):
            return 2 * np.asarray(X) + 1

    @read_step.register(Doubled)
    def _(step, columns):
        return columns.scaled(2.0, 1.0)

    scores_agree(fit(columns((Doubled(), NUMBERS))), X)


# --- size ---


def test_many_categories_take_no_minutes():
    rng = np.random.default_rng(0)
    n = 6000
    data = pd.DataFrame({"zip": rng.integers(3000, size=n).astype(str), "x": rng.normal(size=n)})
    y = rng.integers(2, size=n)
    model = fit(columns((OneHotEncoder(), ["zip"]), (StandardScaler(), ["x"])), data=data, y=y)
    start = time.process_time()
    scores_agree(model, data)
    assert time.process_time() - start < 20


def test_many_numbers_stay_sparse():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(20, 20000))
    model = make_pipeline(StandardScaler(), Ridge(solver="lsqr")).fit(data, data[:, 0])
    form = see_through(model, None, fixed=False).form
    np.testing.assert_allclose(form.predict(data), model.predict(data), atol=1e-9)


# --- any pipeline ---

NUMERIC_STEPS = st.sampled_from(
    [
        StandardScaler(),
        MinMaxScaler(),
        RobustScaler(),
        SimpleImputer(),
        PCA(2, random_state=0),
        SelectKBest(k=1),
        PolynomialFeatures(1),
        FunctionTransformer(),
        make_union(MaxAbsScaler(), PCA(1, random_state=0)),
    ]
)
TEXT_STEPS = st.sampled_from(
    [
        *ENCODERS,
        make_pipeline(OrdinalEncoder(), Binarizer()),
        make_pipeline(TargetEncoder(), PCA(1)),
    ]
)
SOME_NUMBERS = st.lists(st.sampled_from([*NUMBERS, "grade", "flag"]), min_size=2, unique=True)
SOME_TEXT = st.lists(st.sampled_from([*TEXT, "grade", "flag"]), min_size=1, unique=True)


@pytest.mark.filterwarnings("ignore")
@given(
    branches=st.lists(
        st.one_of(
            st.tuples(st.lists(NUMERIC_STEPS, min_size=1, max_size=3), SOME_NUMBERS),
            st.tuples(st.lists(TEXT_STEPS, min_size=1, max_size=1), SOME_TEXT),
        ),
        min_size=1,
        max_size=3,
    ),
    after=st.lists(NUMERIC_STEPS, max_size=2),
    remainder=st.sampled_from(["drop", StandardScaler()]),
    names=st.booleans(),
)
def test_any_pipeline_has_the_scores_of_its_form(branches, after, remainder, names):
    from sklearn.base import clone

    data = X if names else X.to_numpy(dtype=object)
    used = {name for _, chosen in branches for name in chosen}
    rest = [name for name in X.columns if name not in used | set(TEXT)]
    pairs = [
        (make_pipeline(*map(clone, steps)), [X.columns.get_loc(name) for name in chosen])
        for steps, chosen in branches
    ]
    pairs += [(remainder, [X.columns.get_loc(name) for name in rest])]
    try:
        model = fit(columns(*pairs, sparse_threshold=0), *map(clone, after), data=data)
    except ValueError:  # scikit-learn itself refuses some combinations: fewer columns than wanted
        return
    try:
        scores_agree(model, data)
    except UnsupportedModel as refusal:
        assert "Binarizer" in str(refusal) or "mixes" in str(refusal)  # noqa: PT017


def test_a_large_output_hides_no_interaction_of_small_ones():
    data = pd.DataFrame(
        [(20240101.0, a, b) for a in (0.0, 1.0) for b in (0.0, 1.0)], columns=["day", "a", "b"]
    )
    data = pd.concat([data] * 10, ignore_index=True)
    model = make_pipeline(PolynomialFeatures(2), StandardScaler(), LogisticRegression(C=1e3))
    model.fit(data, data.a * data.b)
    kinds = [cp.Categorical("day", (20240101.0,)), *(cp.Categorical(n, (0.0, 1.0)) for n in "ab")]
    with pytest.raises(cp.UnsupportedModel, match="not a sum of one part for each"):
        cp.Explainer(model, data=data, features=kinds)
