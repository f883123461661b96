"""Explanations between groups of rows of mixed tables: names, categories, missing cells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    StandardScaler,
)

from counterpoint.errors import InvalidInput, UnsupportedModel
from counterpoint.groups import (
    Affine,
    DifferenceOfMeans,
    Groups,
    GroupTranslations,
    Limits,
    estimators,
    explaining,
    represent,
)

NUMBERS = ["age", "income", "rooms"]


def customers() -> pd.DataFrame:
    """Two groups: the second is older, owns its home, and lives in the east."""
    rng = np.random.default_rng(0)
    group = np.repeat(["first", "second"], 60)
    second = group == "second"
    home = np.where(rng.random(120) < np.where(second, 0.9, 0.1), "own", "rent")
    return pd.DataFrame(
        {
            "age": rng.normal(40, 5, 120) + 20 * second,
            "home": home,
            "income": rng.normal(3e4, 4e3, 120),
            "region": np.where(second, "east", rng.choice(["north", "south"], 120)),
            "rooms": rng.integers(1, 6, 120),
            "segment": group,
        }
    )


ROWS = customers()
X, Y = ROWS.drop(columns="segment"), ROWS["segment"]


def mixed(encoder: Any = None, numbers: Any = None) -> ColumnTransformer:
    return ColumnTransformer(
        [
            ("numbers", numbers or StandardScaler(), NUMBERS),
            ("words", encoder or OneHotEncoder(), ["home", "region"]),
        ]
    )


def space(**parts: Any) -> Any:
    return make_pipeline(mixed(**parts), PCA(2, random_state=0)).fit(X)


@pytest.mark.parametrize(
    "transformer",
    [
        mixed(),
        mixed(OneHotEncoder(drop="first")),
        mixed(OneHotEncoder(handle_unknown="ignore", sparse_output=False)),
        mixed(OrdinalEncoder()),
        make_pipeline(mixed(), PCA(3)),
        make_pipeline(mixed(OneHotEncoder(sparse_output=False)), FactorAnalysis(2)),
        make_pipeline(mixed(), PCA(3), StandardScaler()),
        make_column_transformer(
            (StandardScaler(), ["income"]), remainder="drop", verbose_feature_names_out=False
        ),
        make_column_transformer(("passthrough", ["rooms", "age"])).set_output(transform="pandas"),
    ],
    ids=lambda one: str(len(str(one))),
)
def test_a_column_transformer_is_read_as_what_it_does(transformer: Any):
    model = DifferenceOfMeans(transformer.fit(X)).fit(X, Y)
    read, rows = represent(transformer), model.scene_.points.matrix
    assert isinstance(read, Affine)
    shown = [X.index[label == Y] for label in model.groups_]
    told = transformer.transform(X.loc[np.concatenate(shown)])
    told = told.toarray() if sparse.issparse(told) else np.asarray(told)
    np.testing.assert_allclose(read.vjp(rows)[0], told, rtol=1e-9, atol=1e-9)


def test_steps_of_single_floats_are_read_within_their_precision():
    rows = np.random.default_rng(0).normal(size=(60, 400)).astype(np.float32)
    read = make_pipeline(MaxAbsScaler(), PCA(2)).fit(rows)
    assert read[1].components_.dtype == np.float32
    told = read.transform(rows.astype(float))
    np.testing.assert_allclose(represent(read).vjp(rows.astype(float))[0], told, atol=1e-5)


def test_categories_are_columns_of_zeros_and_ones():
    model = DifferenceOfMeans(space()).fit(X, Y)
    names = ("age", "home=own", "home=rent", "income", "region=east", "region=north")
    assert model.translations_.names == (*names, "region=south", "rooms")
    changes = model.translations_.changes("first", "second")
    shares = X.groupby(Y)["home"].apply(lambda home: (home == "own").mean())
    assert changes["home=own"] == pytest.approx(shares["second"] - shares["first"])
    assert changes["region=east"] == pytest.approx(1.0)


def test_an_explanation_names_categories():
    model = GroupTranslations(space(), k=2, strengths=10).fit(X, Y)
    assert model.translations_.counts.max() <= 2
    assert "region=east by 1" in model.sentences()
    assert all(one.gap <= 1e-8 for one in model.path_.fits)
    quality = model.evaluate(X, Y)
    assert quality.mean(quality.correctness) > 0.8


def test_the_name_of_a_column_stands_for_its_categories():
    costs = {"home": 100.0}
    limits = Limits(immutable=["region"], bounds={"home=own": 0.0}, times=1.0)
    model = GroupTranslations(space(), limits=limits, costs=costs, strengths=6).fit(X, Y)
    changed = set(model.path_[-1].changes("first", "second"))
    assert changed
    assert not changed & {"region=east", "region=north", "region=south", "home=own"}
    unit_costs = dict(zip(model.translations_.names, model.scene_.unit_costs, strict=True))
    assert unit_costs["home=own"] == unit_costs["home=rent"] == 100.0


def bent() -> MLPRegressor:
    """A network over the numbers."""
    net = MLPRegressor(
        hidden_layer_sizes=(5,), activation="tanh", max_iter=3000, tol=1e-2, random_state=0
    )
    rows = X[NUMBERS] / [10.0, 1e4, 1.0]
    return net.fit(rows, rows[["age", "income"]])


FRAMES: dict[str, Any] = {
    "as it was": X,
    "other order": X[X.columns[::-1]],
    "more columns": ROWS.assign(note="?"),
    "polars": pl.from_pandas(X[X.columns[::-1]]),
    "categorical": X.astype({"home": "category", "region": "category"}),
    "objects": X.astype(object),
    "array": X.to_numpy(),
}


@cache
def of_x() -> GroupTranslations:
    return GroupTranslations(space(), k=3, strengths=6).fit(X, Y)


@pytest.mark.parametrize("kind", FRAMES)
def test_columns_go_by_name(kind: str):
    expected = of_x()
    model = GroupTranslations(space(), k=3, strengths=6).fit(FRAMES[kind], Y.to_list())
    assert model.translations_.offsets.tobytes() == expected.translations_.offsets.tobytes()
    assert model.translations_.names == expected.translations_.names
    for rows in (X, FRAMES[kind]):
        assert model.judge(rows, Y.to_list()).seen == 1.0


def test_numbers_go_by_name_whatever_was_fitted_on_them():
    """An own representation knows no names, so that those of the fit are what later rows have."""
    numbers = X[NUMBERS]
    turned = numbers[NUMBERS[::-1]]
    by_name = make_pipeline(StandardScaler(), PCA(2)).fit(numbers)
    by_place = make_pipeline(StandardScaler(), PCA(2)).fit(numbers.to_numpy())
    first = GroupTranslations(by_name, strengths=6).fit(turned, Y)
    second = GroupTranslations(by_place, strengths=6).fit(numbers, Y)
    assert first.translations_.names == second.translations_.names == tuple(NUMBERS)
    assert first.translations_.offsets.tobytes() == second.translations_.offsets.tobytes()
    own = GroupTranslations(represent(by_name), strengths=6).fit(numbers, Y)
    for model in (first, second, own):
        assert model.judge(turned, Y).seen == 1.0
        assert model.judge(numbers.to_numpy(), Y).seen == 1.0


def test_an_anndata_goes_by_the_names_of_its_variables():
    by_name = make_pipeline(StandardScaler(), PCA(2)).fit(X[NUMBERS])
    expected = GroupTranslations(by_name, strengths=6).fit(X[NUMBERS], Y)
    for cells in (np.asarray, sparse.csr_array):
        made = type("AnnData", (), {})()
        made.X, made.obs = cells(X[NUMBERS[::-1]].to_numpy(float)), ROWS[["segment"]]
        made.var_names = pd.Index(NUMBERS[::-1])
        model = GroupTranslations(by_name, strengths=6).fit(made, "segment")
        np.testing.assert_allclose(
            model.translations_.offsets, expected.translations_.offsets, rtol=1e-9
        )


def test_rows_are_taken_from_layers_and_embeddings_of_an_anndata():
    numbers = X[NUMBERS].to_numpy(float)
    adata = type("AnnData", (), {})()
    adata.X, adata.obs = np.zeros_like(numbers), ROWS[["segment"]]
    adata.var_names = pd.Index(NUMBERS)
    adata.layers = {"counts": sparse.csr_array(numbers)}
    adata.obsm = {"X_own": numbers, "frame": X[NUMBERS]}
    by_name = make_pipeline(StandardScaler(), PCA(2)).fit(X[NUMBERS])
    expected = GroupTranslations(by_name, strengths=6).fit(X[NUMBERS], Y)
    for layer in ("counts", "X_own", "frame"):
        model = GroupTranslations(by_name, strengths=6, layer=layer).fit(adata, "segment")
        told, known = model.translations_, expected.translations_
        np.testing.assert_allclose(told.offsets, known.offsets, rtol=1e-9)
        assert model.judge(adata, "segment").seen == 1.0
    for rows, words in ((adata, "got 'other', and there are counts, X_own, frame"), (X, "AnnData")):
        with pytest.raises(InvalidInput, match=words):
            GroupTranslations(by_name, layer="other").fit(rows, Y)


@pytest.mark.parametrize("frame", [ROWS, pl.from_pandas(ROWS)], ids=["pandas", "polars"])
def test_groups_can_be_the_name_of_a_column(frame: Any):
    model = GroupTranslations(space(), k=2, strengths=6).fit(frame, "segment")
    assert model.groups_ == ("first", "second")
    expected = GroupTranslations(space(), k=2, strengths=6).fit(X, Y)
    assert model.translations_.offsets.tobytes() == expected.translations_.offsets.tobytes()
    assert model.judge(frame, "segment").seen == 1.0


def test_a_categorical_column_of_groups_keeps_its_order():
    turned = pd.Categorical(ROWS["segment"], categories=["second", "first", "none"])
    model = DifferenceOfMeans(space()).fit(ROWS.assign(segment=turned), "segment")
    assert model.groups_ == ("second", "first")


def test_missing_cells_are_what_the_representation_makes_of_them():
    holes = X.astype({"rooms": float})
    holes.loc[[3, 70], "age"] = np.nan
    holes.loc[5, "home"] = None
    filled = holes.fillna({"age": holes["age"].mean(), "home": holes["home"].mode()[0]})
    encoder = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    read = make_pipeline(mixed(encoder, numbers), PCA(2)).fit(holes)
    models = [GroupTranslations(read, k=2, strengths=6).fit(rows, Y) for rows in (holes, filled)]
    offsets = [model.translations_.offsets for model in models]
    np.testing.assert_allclose(*offsets, rtol=1e-9, atol=1e-12)
    with pytest.raises(InvalidInput, match="Row 3 cannot be used: column 'age' is missing"):
        GroupTranslations(space()).fit(holes, Y)


def test_a_network_may_come_after_a_column_transformer():
    net = MLPRegressor(
        hidden_layer_sizes=(5,), activation="tanh", max_iter=3000, tol=1e-2, random_state=0
    )
    read = make_pipeline(mixed(), net).fit(X, X[["age", "income"]] / [10.0, 1e4])
    model = GroupTranslations(read, k=3, strengths=5).fit(X, Y)
    rows = model.scene_.points.matrix
    shown = np.concatenate([X.index[label == Y] for label in model.groups_])
    told = read.predict(X.loc[shown])
    np.testing.assert_allclose(represent(read).vjp(rows)[0], told, rtol=1e-9, atol=1e-9)


WRONG: dict[str, tuple[Any, Any, type, str]] = {
    "unknown category": (
        space(),
        X.assign(home=["yacht", *X["home"][1:]]),
        InvalidInput,
        "Row 0 cannot be used: column 'home' holds the unknown category 'yacht'",
    ),
    "missing column": (
        space(),
        X.drop(columns="home"),
        InvalidInput,
        "1 of 5 are missing. There is no feature 'home'",
    ),
    "a matrix": (space(), sparse.csr_array((120, 5)), InvalidInput, "Expected a data frame"),
    "a bent step": (
        make_pipeline(mixed(numbers=PowerTransformer()), PCA(2)).fit(X),
        X,
        UnsupportedModel,
        "Step 'columntransformer__numbers' (PowerTransformer) cannot be read exactly",
    ),
    "a function": (
        make_pipeline(mixed(numbers=FunctionTransformer(np.log1p)), PCA(2)).fit(X),
        X,
        UnsupportedModel,
        "Apply it to the data before fitting",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_read_is_said(name: str):
    read, rows, error, words = WRONG[name]
    with pytest.raises(error) as caught:
        GroupTranslations(read).fit(rows, Y)
    assert words in str(caught.value)
    assert "Categorical" not in str(caught.value)


def test_progress_counts_fits_and_folds(monkeypatch: pytest.MonkeyPatch):
    told: list[tuple[str, int, bool | None]] = []

    @contextmanager
    def track(total: int, *, show: bool | None, unit: str) -> Iterator[Any]:
        done: list[int] = []
        yield done.append
        assert sum(done) == total
        if unit != "explanations pruned":
            told.append((unit, total, show))

    for module in (estimators, explaining):
        monkeypatch.setattr(module, "track", track)
    model = GroupTranslations(space(), k=2, strengths=5).fit(X, Y)
    model.set_params(representation=represent(bent())).fit(X[NUMBERS], Y, progress=True)
    model.evaluate(X[NUMBERS], Y, progress=True)
    fits = [("fits", 5, None), ("fits", 10, True)]
    assert told == [*fits, ("fits", 10, False), ("fits", 10, False), ("folds", 2, True)]


def test_pairs_without_a_distance_are_left_out_of_its_mean():
    same = np.array([[0.0], [0.0], [1.0], [2.0]])
    one = Affine(np.ones((1, 1)), np.zeros(1))
    quality = DifferenceOfMeans(one, radius=2.0).fit(same, list("aabb")).judge(same, list("aabb"))
    assert np.isnan(quality.away[1, 0])
    assert quality.mean(quality.away) == quality.away[0, 1]
    assert "as far from real rows" in quality.summary()
    flat = DifferenceOfMeans(one, radius=1.0).fit(same[:2].repeat(2, axis=0), list("aabb"))
    summary = flat.judge(same[:2].repeat(2, axis=0), list("aabb")).summary()
    assert "nan" not in summary


def test_what_is_shown_of_things_is_short():
    model = GroupTranslations(space(), k=2, strengths=5).fit(X, Y)
    members = model.scene_.points.groups
    assert repr(members) == "<Groups: 2 groups of 60 to 60 rows; 0 rows in none>"
    uneven = Groups(("a", "b"), np.array([0, 1, 1, -1, 1]))
    assert repr(uneven) == "<Groups: 2 groups of 1 to 3 rows; 1 rows in none>"
    quality = model.judge(X, Y)
    correctness = quality.mean(quality.correctness)
    assert repr(quality).startswith(f"<Quality: correctness {correctness:.3f}")
    for thing in (model.translations_, model.path_, model.judge(X, Y), model.scene_):
        assert len(repr(thing)) < 200


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_network_is_read_alone_in_a_pipeline_and_with_outputs_as_they_are():
    X = np.random.default_rng(0).normal(size=(40, 3))
    net = MLPRegressor(hidden_layer_sizes=(4,), max_iter=5, random_state=0).fit(X, X[:, :2])
    values, _ = represent(make_pipeline(net)).vjp(X)
    np.testing.assert_allclose(values, net.predict(X), rtol=1e-9, atol=1e-12)
    net.out_activation_ = "exp"  # as with loss="poisson"
    with pytest.raises(UnsupportedModel, match="outputs of this MLPRegressor pass 'exp'"):
        represent(net)
