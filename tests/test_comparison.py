"""What was read is compared with the model on the data: each misreading here is one that is made.

The models do something else than their parameters say, as a library does whose option a reader
misses: that is all that a comparison can see.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import counterpoint as cp
from counterpoint.models import comparison, read
from counterpoint.models.linear import LinearScores

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(400, 3)), columns=["a", "b", "c"])
Y = (X["a"] + X["b"] ** 2 > 0.5).to_numpy().astype(int) + (X["c"] > 1.0)


def refused(model: Any, data: Any, sentence: str, **options: Any) -> None:
    """An explainer of the model is refused, with a sentence that names it."""
    with pytest.raises(cp.ReaderMismatch, match=rf"^{type(model).__name__} {sentence}"):
        cp.Explainer(model, data=data, **options)


class Vectors(DecisionTreeClassifier):
    """Reads its leaves in another order than its parameters have them, as vector leaves may be."""

    def predict(self, X: Any) -> Any:
        return self.classes_[(self.predict_proba(X).argmax(axis=1) + 1) % len(self.classes_)]


class Threshold(DecisionTreeRegressor):
    """What is equal to a threshold goes right, and not left."""

    def predict(self, X: Any) -> Any:
        single = np.asarray(X, dtype=np.float32)
        return self.tree_.predict(np.nextafter(single, np.float32(np.inf)))[:, 0]


class Rarely(LogisticRegression):
    """Gives its second class back where it is surest of it."""

    beyond = 8.0

    def predict(self, X: Any) -> Any:
        score = self.decision_function(X)
        return self.classes_[((score > 0.0) & (score < self.beyond)).astype(int)]


class Unsure(LogisticRegression):
    """Its probabilities are not those of its scores."""

    def predict_proba(self, X: Any) -> Any:
        second = 1.0 / (1.0 + np.exp(-1.05 * self.decision_function(X)))
        return np.stack([1.0 - second, second], axis=1)


class Seen(KBinsDiscretizer):
    """Tells what it was asked about."""

    def transform(self, X: Any) -> Any:
        self.seen_ = np.vstack([getattr(self, "seen_", np.asarray(X)[:0]), X])
        return super().transform(X)


def test_leaves_that_are_read_in_another_order():
    refused(Vectors(max_depth=3).fit(X, Y), X, r"predicts .* for row \d+ of data=")


@pytest.mark.parametrize("scaled", [False, True])
def test_a_threshold_that_belongs_to_the_other_side(scaled: bool):
    """No row of the data lies on a threshold, which is between two of them."""
    model: Any = Threshold(max_depth=4)
    if scaled:  # behind a scaler rounding leaves it open on which side a number is
        assert cp.Explainer(make_pipeline(StandardScaler(), model).fit(X, Y), data=X)
        return
    refused(model.fit(X, Y), X, r"predicts .* for row \d+ of data=, with '[abc]' = ")


@pytest.mark.parametrize("whole", [False, True])
def test_the_model_is_asked_at_and_beside_the_edges_of_bins(whole: bool):
    bins = Seen(4, encode="onehot-dense", strategy="uniform")
    model = make_pipeline(bins, LogisticRegression()).fit(X, Y)
    kinds = [cp.Integer(name) for name in X.columns] if whole else None
    data = (10 * X).round() if whole else X
    cp.Explainer(model.fit(data, Y), data=data, features=kinds)
    for j, edges in enumerate(bins.bin_edges_):
        for edge in edges[1:-1]:
            near = np.nextafter(edge, [-np.inf, np.inf])
            asked = np.ceil(edge) - 1.0, np.floor(edge) + 1.0, np.floor(edge)
            assert np.isin(asked if whole else (*near, edge), bins.seen_[:, j]).all()


def test_a_class_that_the_data_hardly_show():
    """It is found among other rows than the first thousand."""
    many = pd.DataFrame({"a": RNG.normal(size=4000), "b": RNG.normal(size=4000)})
    places = np.linspace(0, 3999, comparison.ROWS).astype(int)
    hidden = np.setdiff1d(np.arange(4000), places)[[700]]
    many.loc[hidden, "a"] = 30.0
    model = Rarely().fit(many, many["a"] > 0.0)
    model.coef_, model.intercept_ = np.array([[1.0, 0.0]]), np.array([-8.0])
    assert not model.predict(many).any()
    refused(model, many, rf"predicts np.False_ for row {hidden[0]} of data=")


def test_probabilities_that_are_others():
    refused(Unsure().fit(X, Y > 0), X, r"gives .* the probability 0\.\d+ for row \d+ of data=")


def test_a_value_that_is_filled_in_is_compared_as_it_counts():
    holes = X.mask(RNG.uniform(size=X.shape) < 0.3)
    model = make_pipeline(SimpleImputer(), DecisionTreeRegressor(max_depth=4)).fit(holes, Y)
    assert cp.Explainer(model, data=holes)
    model[-1].tree_.value[:] += 1.0
    assert cp.Explainer(model, data=holes)
    model[1].__class__ = Threshold
    refused(model, holes, r"predicts .* for row \d+ of data=")


def test_a_row_that_cannot_be_used_is_none_to_compare():
    holes = X.mask(RNG.uniform(size=X.shape) < 0.3)
    holes.iloc[0, 0] = np.inf
    assert cp.Explainer(LogisticRegression().fit(X, Y), data=holes)
    with pytest.raises(cp.ReaderMismatch):
        cp.Explainer(Unsure().fit(X, Y > 0), data=holes)
    none = X.assign(a=np.where(np.arange(400) % 2, X["a"], np.nan))
    none["b"] = np.where(np.arange(400) % 2, np.nan, X["b"])
    assert cp.Explainer(Unsure().fit(X, Y > 0), data=none)  # there is no other


class Registered:
    """A model of a library that nobody knows."""

    classes_ = np.array(["no", "yes"])

    def predict(self, X: Any) -> Any:
        return self.classes_[(np.asarray(X)[:, 0] > 0.0).astype(int)]


@read.register
def _(model: Registered) -> LinearScores:
    return LinearScores.binary(np.array([1.0, 0.1, 0.0]), 0.0, model.classes_)


def test_a_reader_that_is_registered_by_a_user():
    refused(Registered(), X.to_numpy(), r"predicts np.str_\('(no|yes)'\)", cost=cp.Manhattan())


# What is no misreading


def test_ties_that_either_decides_are_none():
    even = pd.DataFrame({"a": [0.0, 1.0, 0.0, 1.0], "b": [0.0, 0.0, 1.0, 1.0]})
    model = RandomForestClassifier(10, max_features=1, random_state=0).fit(even, [0, 1, 1, 0])
    assert cp.Explainer(model, data=even, features=[cp.Continuous("a"), cp.Continuous("b")])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "Float64", "object"])
@pytest.mark.parametrize("kind", ["linear", "scaled", "bins", "forest", "regressor"])
def test_no_dtype_is_a_misreading(dtype: str, kind: str):
    model: Any = {
        "linear": LogisticRegression(),
        "scaled": make_pipeline(StandardScaler(), LogisticRegression()),
        "bins": make_pipeline(
            KBinsDiscretizer(5, quantile_method="averaged_inverted_cdf"), LogisticRegression()
        ),
        "forest": RandomForestClassifier(20, random_state=0),
        "regressor": RandomForestRegressor(20, random_state=0),
    }[kind]
    scaled = 1e3 * X if dtype != "int8" else (20 * X).round()
    data = scaled.astype(dtype)
    assert cp.Explainer(model.fit(scaled, Y), data=data)


def test_categories_and_data_of_other_libraries():
    pl = pytest.importorskip("polars")
    words = X.assign(a=np.where(X["a"] > 0, "high", "low"))
    one_hot = OneHotEncoder(handle_unknown="ignore")
    model = make_pipeline(one_hot, LogisticRegression()).fit(words, Y)
    assert cp.Explainer(model, data=words)
    forest = RandomForestClassifier(5, random_state=0).fit(pl.from_pandas(X), Y)
    assert cp.Explainer(forest, data=pl.from_pandas(X).head(3))


def test_isotonic_probabilities_have_steps():
    model = CalibratedClassifierCV(LogisticRegression(), method="isotonic", ensemble=False)
    assert cp.Explainer(model.fit(X, Y > 0), data=X)


def test_it_asks_the_model_once_about_a_thousand_rows():
    sizes: list[int] = []

    class Counting(DecisionTreeClassifier):
        def predict(self, X: Any) -> Any:
            sizes.append(len(X))
            return super().predict(X)

    many = pd.concat([X] * 10, ignore_index=True)
    cp.Explainer(Counting().fit(many, np.tile(Y, 10)), data=many)
    assert len(sizes) == 1
    assert comparison.ROWS <= sizes[0] <= comparison.ROWS + 3 * comparison.BREAKPOINTS
