"""A step that bins or bends numbers is read as what it computes, up to the last bit of its cuts."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

from counterpoint.errors import UnsupportedModel
from counterpoint.families.additive.form import Additive
from counterpoint.models import see_through
from counterpoint.models.dispatch import inputs_of
from counterpoint.models.reading import see_columns
from counterpoint.rows.features import Continuous, Features
from counterpoint.testing import check_reader

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(300, 3))) * [1.0, 10.0, 0.1] + 0.01
SCORE = np.sin(2.0 * X[:, 0]) + np.log(X[:, 1]) - 5.0 * X[:, 2] + 0.3 * RNG.normal(size=300)
BINARY = np.where(SCORE > 1.0, "yes", "no")
THREE = np.where(X[:, 0] > 1.2, "later", BINARY)
NUMBERS = Features(Continuous(f"x{j}") for j in range(3))


def quietly(model, data=X, y=BINARY):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(data, y)


def at_the_edges(form, data):
    """Rows with each start of a piece, and its neighbours, in the column that it cuts."""
    rows = [data]
    for j, curve in form.curves:
        cuts = curve.starts[1:]
        for cut in np.concatenate([cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf)]):
            row = data[[len(rows) % len(data)]].copy()
            row[:, j] = cut
            rows.append(row)
    return np.concatenate(rows)


def positive(rows):
    return rows[(rows > 0.0).all(axis=1)]


BINS = [
    KBinsDiscretizer(5),
    KBinsDiscretizer(5, encode="onehot-dense", strategy="uniform"),
    KBinsDiscretizer(7, encode="ordinal", strategy="kmeans", random_state=0),
    Binarizer(threshold=0.5),
    make_pipeline(SimpleImputer(), KBinsDiscretizer(4)),
]
CURVES = [
    SplineTransformer(),
    SplineTransformer(degree=2, extrapolation="linear", include_bias=False),
    SplineTransformer(degree=1, extrapolation="continue"),
    SplineTransformer(knots="quantile", sparse_output=True),
    QuantileTransformer(n_quantiles=50),
    FunctionTransformer(np.abs),
    FunctionTransformer(np.square),
    MinMaxScaler(clip=True),
    make_union(KBinsDiscretizer(4), StandardScaler(), QuantileTransformer(n_quantiles=50)),
    FeatureUnion(
        [("a", MinMaxScaler(clip=True)), ("b", SplineTransformer(3))],
        transformer_weights={"a": 3.0},
    ),
    make_pipeline(StandardScaler(), SplineTransformer()),
    make_pipeline(FunctionTransformer(np.negative), MinMaxScaler((-1, 1)), SplineTransformer(4)),
    make_column_transformer(
        (PolynomialFeatures(3), [0]),
        (PolynomialFeatures(2, include_bias=False), [1]),
        ("passthrough", [2]),
    ),
]


@pytest.mark.parametrize(
    ("step", "labels"),
    [
        *((step, "two") for step in BINS + CURVES),
        *((step, "three") for step in BINS[:2] + CURVES[:2]),
    ],
    ids=repr,
)
def test_a_step_column_by_column_is_read_as_it_is(step, labels):
    model = quietly(
        make_pipeline(step, StandardScaler(with_mean=False), LogisticRegression()),
        y=BINARY if labels == "two" else THREE,
    )
    form = see_through(model, NUMBERS, fixed=True).form
    more = np.abs(RNG.normal(size=(300, 3))) * [3.0, 30.0, 0.3] + 1e-3
    rows = positive(at_the_edges(form, np.concatenate([X, more])))
    check_reader(model, rows, features=NUMBERS)
    again = pickle.loads(pickle.dumps(form))  # noqa: S301
    assert (again.predict(rows) == form.predict(rows)).all()


@pytest.mark.parametrize("step", BINS, ids=repr)
def test_what_cuts_is_cut_at_the_same_number(step):
    """Scores of bins are sums of as few numbers: they are the same but for a few roundings."""
    model = quietly(make_pipeline(step, LogisticRegression()))
    form = see_through(model, NUMBERS, fixed=True).form
    rows = positive(at_the_edges(form, X))
    scores = form.inner.scores(np.hstack([rows, *(c(rows[:, j]) for j, c in form.curves)]))[:, 1]
    np.testing.assert_allclose(scores, model.decision_function(rows), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("extrapolation", ["constant", "linear", "continue"])
@pytest.mark.parametrize("shift", [0.0, 30.0, -1e3])
def test_pieces_that_a_scaler_leaves_no_number_are_left_out(extrapolation, shift):
    """Beyond the last knot the next piece counts, and not the one that has no number left."""
    data = X + shift
    spline = SplineTransformer(4, degree=1, extrapolation=extrapolation)
    model = quietly(make_pipeline(StandardScaler(), spline, Ridge(alpha=1e-3)), data, SCORE)
    form = see_through(model, NUMBERS, fixed=True).form
    rows = np.concatenate([data, shift + 2.0 * X, shift - X, at_the_edges(form, data[:9])])
    np.testing.assert_allclose(form.predict(rows), model.predict(rows), rtol=1e-9, atol=1e-9)


def test_quantiles_that_repeat_have_a_value_of_their_own():
    data = np.round(X, 1)
    model = quietly(make_pipeline(QuantileTransformer(n_quantiles=100), Ridge()), data, SCORE)
    form = see_through(model, NUMBERS, fixed=True).form
    check_reader(model, at_the_edges(form, data), features=NUMBERS)


REGRESSORS = [
    make_pipeline(SplineTransformer(), Ridge()),
    make_pipeline(KBinsDiscretizer(6), PoissonRegressor()),
    TransformedTargetRegressor(
        make_pipeline(KBinsDiscretizer(6), Ridge()), func=np.log, inverse_func=np.exp
    ),
]


@pytest.mark.parametrize("model", REGRESSORS, ids=repr)
def test_regressors_over_bins_and_splines(model):
    model = quietly(model, y=np.exp(0.3 * SCORE))
    form = see_through(model, NUMBERS, fixed=True).form
    assert isinstance(form, Additive)
    check_reader(model, at_the_edges(form, X), features=NUMBERS)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_thresholds_and_calibrations_over_bins(method):
    bins = make_pipeline(KBinsDiscretizer(5), LogisticRegression())
    calibrated = CalibratedClassifierCV(bins, method=method, ensemble=False)
    for model in (FixedThresholdClassifier(bins, threshold=0.3), calibrated):
        check_reader(quietly(model), X, features=NUMBERS)


def test_bins_beside_categories_and_missing_cells():
    data = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        job=RNG.choice(["cook", "clerk", "smith"], size=300), late=RNG.integers(2, size=300)
    )
    data.loc[::7, "a"] = np.nan
    steps = make_column_transformer(
        (make_pipeline(SimpleImputer(), KBinsDiscretizer(4)), ["a", "late"]),
        (make_pipeline(OneHotEncoder(sparse_output=False), SplineTransformer(degree=1)), ["job"]),
        (TargetEncoder(random_state=0), ["job", "late"]),
        (SplineTransformer(), ["b"]),
        remainder="passthrough",
    )
    model = quietly(make_pipeline(steps, StandardScaler(), LogisticRegression()), data)
    check_reader(model, data.dropna())
    assert set(see_through(model, None, fixed=False).fills) == {"a"}


def test_numbers_of_float32_are_cut_as_float32():
    data = X.astype(np.float32)
    model = quietly(
        make_pipeline(KBinsDiscretizer(8, dtype=np.float32), LogisticRegression()), data
    )
    form = see_through(model, NUMBERS, fixed=True).form
    rows = at_the_edges(form, data.astype(np.float64))
    lifted = np.hstack([rows, *(curve(rows[:, j]) for j, curve in form.curves)])
    expected = model.decision_function(rows)
    np.testing.assert_allclose(form.inner.scores(lifted)[:, 1], expected, atol=1e-5)


class Wild(SplineTransformer):
    def transform(self, rows):
        return super().transform(np.sin(rows))


class Shuffled(KBinsDiscretizer):
    def fit(self, rows, y=None, sample_weight=None):
        super().fit(rows)
        self.bin_edges_[1] = self.bin_edges_[1][[0, 2, 1, 3, 4]]
        return self


class Hollow(KBinsDiscretizer):
    def transform(self, rows):
        return np.where(super().transform(rows) == 2, np.nan, 1.0)


REFUSED = [
    (SplineTransformer(extrapolation="error"), "extrapolation='error' is not read .* 'x0'"),
    (SplineTransformer(extrapolation="periodic"), "Use extrapolation='constant', 'linear' or"),
    (SplineTransformer(degree=4), "Use degree=3 or less"),
    (PolynomialFeatures(2), "multiplies column 'x0' with other columns"),
    (
        make_pipeline(StandardScaler(), KBinsDiscretizer(3)),
        "it cuts its input 0 after that was scaled",
    ),
    (make_pipeline(PCA(), KBinsDiscretizer(3)), "is a mix of several columns"),
    (make_pipeline(SplineTransformer(), KBinsDiscretizer(3)), "was cut or bent by another step"),
    (PowerTransformer(), "bends column 'x0' by a function that is no polynomial.*Use SplineTr"),
    (
        QuantileTransformer(n_quantiles=9, output_distribution="normal"),
        "bends column 'x0' by a function that is no polynomial",
    ),
    (FunctionTransformer(np.log1p), "'log1p' does cannot be known. Apply it to the data before"),
    (FunctionTransformer(np.rint), "what the function 'rint' does cannot be known"),
    (FunctionTransformer(lambda rows: rows + 1.0), "'<lambda>' does cannot be known"),
    (Wild(), "not a polynomial between its knots"),
    (Shuffled(4), "the edges of the bins of column 'x1' do not increase"),
    (Hollow(4, encode="ordinal"), "gives no finite number for .* in column 'x0'"),
    (make_column_transformer((PolynomialFeatures(4), [0])), "powers up to 4 are not read"),
]


@pytest.mark.parametrize(("step", "sentence"), REFUSED, ids=[s for _, s in REFUSED])
def test_what_cannot_be_read_is_refused_with_its_step(step, sentence):
    model = quietly(make_pipeline(step, SimpleImputer(), LogisticRegression()))
    with pytest.raises(UnsupportedModel, match=sentence):
        see_through(model, NUMBERS, fixed=True)


def test_bins_where_only_affine_steps_will_do():
    with pytest.raises(UnsupportedModel, match=r"or bends numbers\. Apply it to the data"):
        see_columns(step := KBinsDiscretizer(3).fit(X), inputs_of(step))
    model = TransformedTargetRegressor(Ridge(), transformer=PowerTransformer())
    with pytest.raises(UnsupportedModel, match="by PowerTransformer, which is not affine"):
        see_through(quietly(model, y=SCORE), NUMBERS, fixed=True)
