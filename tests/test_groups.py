"""Explanations between groups: laws of the estimators, choices, limits, kinds of rows, quality."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from functools import cache
from itertools import permutations, product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterpoint.errors import InvalidInput, ModelNotFitted
from counterpoint.groups import (
    Affine,
    DifferenceOfMeans,
    Groups,
    GroupTranslations,
    Limits,
    Network,
    Translations,
    estimators,
    from_anndata,
    represent,
    similarity,
    to_anndata,
)
from counterpoint.groups.fit_data import polished, smoothed_rates, spread_of
from counterpoint.groups.fitting import starred
from counterpoint.groups.group_labels import stratified_folds
from counterpoint.groups.path import Count, count_of
from counterpoint.groups.problem import levels_of, moving
from counterpoint.groups.reading import read_model, read_rows

COUNTS: tuple[Count, ...] = get_args(Count)


def wine() -> tuple[pd.DataFrame, pd.Series]:
    X, y = load_wine(return_X_y=True, as_frame=True)
    return X, y.map({0: "red", 1: "white", 2: "rose"})


def plane(X: pd.DataFrame) -> Any:
    return make_pipeline(StandardScaler(), PCA(2)).fit(X)


def bent(d: int, seed: int = 0) -> Network:
    """A network that is not linear, with two outputs."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(d, 8)) / np.sqrt(d), rng.normal(size=(8, 2))]
    return Network(weights, [rng.normal(size=8) * 0.1, np.zeros(2)], "elu")


def fitted(kind: str, **options: Any) -> tuple[GroupTranslations, Any, Any]:
    X, y = wine()
    if kind == "network":
        X = pd.DataFrame(StandardScaler().fit_transform(X), columns=X.columns)
    space = plane(X) if kind == "linear" else bent(X.shape[1])
    return GroupTranslations(space, **({"strengths": 8} | options)).fit(X, y), X, y


@pytest.fixture(scope="module", params=["linear", "network"])
def case(request: pytest.FixtureRequest) -> tuple[GroupTranslations, Any, Any]:
    return fitted(request.param)


# --- consistency, zeros, choices ---


def answers(model: GroupTranslations) -> list[Translations]:
    found = [*model.path_, *model.path_.penalized]
    return [*found, *(model.sparse(k, count) for k in (1, 3, 13) for count in COUNTS)]


def test_changes_are_opposite_and_add_up(case: tuple[GroupTranslations, Any, Any]):
    model, _, _ = case
    for one in answers(model):
        for i, j, k in permutations(model.groups_, 3):
            there, back = one.translation(i, j), one.translation(j, i)
            assert (there == -back).all()
            over = one.translation(i, k) + one.translation(k, j)
            np.testing.assert_allclose(there, over, rtol=1e-12, atol=1e-12 * np.abs(there).max())
        assert not one.translation("red", "red").any()


def test_zeros_are_exact_and_those_of_three_pairs_agree(
    case: tuple[GroupTranslations, Any, Any],
):
    model, _, _ = case
    for one in answers(model):
        red, white, rose = (one.offsets[one.position(g)] for g in ("red", "white", "rose"))
        tied = red == white
        assert (one.translation("red", "white") == 0.0)[tied].all()
        assert ((white - rose)[tied] == (red - rose)[tied]).all()
        count = one.counts[one.position("red"), one.position("white")]
        assert len(one.changes("red", "white")) == count == 13 - tied.sum()


@pytest.mark.parametrize("count", COUNTS)
def test_no_more_features_change_than_were_asked_for(
    case: tuple[GroupTranslations, Any, Any], count: Count
):
    model, _, _ = case
    cost_cutoff = []
    for k in range(1, 14):
        one = model.sparse(k, count)
        assert count_of(one, count) <= k
        cost_cutoff.append(sum(model.scene_.rates(one)))
    assert cost_cutoff == sorted(cost_cutoff)  # more features, no worse on the rows of the fit


def test_the_counts_are_what_one_counts(case: tuple[GroupTranslations, Any, Any]):
    model, _, _ = case
    one = model.sparse(3)
    pairs = [one.translation(i, j) for i, j in permutations(one.groups, 2)]
    changed = [int((pair != 0.0).sum()) for pair in pairs]
    assert count_of(one, "each") == max(changed)
    assert count_of(one, "mean") == pytest.approx(np.mean(changed))
    assert count_of(one, "shared") == int((np.array(pairs) != 0.0).any(axis=0).sum())


def test_none_is_about_as_good_as_the_best_and_sparser(case: tuple[GroupTranslations, Any, Any]):
    model, _, _ = case
    chosen, most = model.sparse(None), model.sparse(13)
    assert sum(model.scene_.rates(chosen)) >= sum(model.scene_.rates(most)) - 0.04
    assert count_of(chosen, "each") <= count_of(most, "each")
    assert model.translations_.offsets.tolist() == chosen.offsets.tolist()


def test_the_same_fit_twice_is_the_same_to_the_last_bit():
    once, again = (fitted("network", k=3, strengths=3)[0].translations_.offsets for _ in range(2))
    assert once.tobytes() == again.tobytes()


def test_the_order_of_rows_and_the_names_of_groups_do_not_matter():
    model, X, y = fitted("linear", k=4)
    order = np.random.default_rng(0).permutation(len(X))
    other = GroupTranslations(plane(X), k=4, strengths=8).fit(
        X.iloc[order], y.iloc[order].map({"red": 3, "white": 1, "rose": 2})
    )
    for (a, i), (b, j) in permutations([("red", 3), ("white", 1), ("rose", 2)], 2):
        np.testing.assert_allclose(
            model.translation(a, b), other.translation(i, j), rtol=1e-6, atol=1e-8
        )


def test_units_of_features_do_not_matter():
    """Costs are in standard deviations unless they are given."""
    X, y = wine()
    units = 10.0 ** np.arange(-6, 7)
    same = GroupTranslations(plane(X), k=3, strengths=8).fit(X, y)
    space = represent(plane(X))
    assert isinstance(space, Affine)
    scaled = Affine(np.diag(1.0 / units)).then(space)
    other = GroupTranslations(scaled, k=3, strengths=8).fit(X * units, y)
    np.testing.assert_allclose(
        other.translation("red", "rose") / units, same.translation("red", "rose"), rtol=1e-5
    )


# --- limits and costs ---


def spans(model: GroupTranslations) -> np.ndarray:
    """(d,) the largest change of each feature over all answers."""
    return np.max([np.ptp(one.offsets, axis=0) for one in answers(model)], axis=0)


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_limits_hold_on_every_answer(kind: str):
    names = list(load_wine().feature_names)
    limits = Limits(
        times=1.0,
        bounds={"proline": 0.5, "hue": (-0.25, 3.0), "color_intensity": np.inf},
        immutable=["alcohol", 1],
        rising=["flavanoids"],
        falling=["magnesium"],
    )
    model, X, y = fitted(kind, limits=limits)
    most = spans(model)
    ranges = np.ptp(X.groupby(y).mean().to_numpy(), axis=0)
    slack = 1e-12 * np.abs(ranges).max()
    for name, bound in (("proline", 0.5), ("hue", 0.25), ("alcohol", 0.0), ("malic_acid", 0.0)):
        assert most[names.index(name)] <= bound * (1.0 + 1e-12)
    free = [n for n in names if n not in {"proline", "hue", "color_intensity"}]
    assert all(most[names.index(n)] <= ranges[names.index(n)] + slack for n in free)
    for one in answers(model):
        assert (np.diff(one.offsets[:, names.index("flavanoids")]) >= 0.0).all()
        assert (np.diff(one.offsets[:, names.index("magnesium")]) <= 0.0).all()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_columns_of_zeros_and_ones_change_by_at_most_one(kind: Any):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = np.column_stack([y, y * 2.0, rng.normal(size=80) + y]).astype(float)
    space = Affine(np.array([[1.0], [0.2], [0.1]]), np.zeros(1))
    told = {"times": np.inf}, {"times": np.inf, "bounds": {0: 1.25, 1: np.inf, 2: np.inf}}
    plain, other = (GroupTranslations(space, limits=Limits(**one), strengths=4) for one in told)
    assert plain.fit(kind(X), y).task_.fusion.reach[0] * plain.scene_.scale[0] == 1.0
    assert np.isinf(plain.task_.fusion.reach[1:]).all()
    assert other.fit(kind(X), y).task_.fusion.reach[0] * other.scene_.scale[0] == 1.25


def test_a_feature_that_costs_more_changes_less():
    _, X, y = fitted("linear")
    sizes = []
    for cost in (0.1, 1.0, 10.0):
        costs = {"proline": cost / X["proline"].std(ddof=0)}
        model = GroupTranslations(plane(X), costs=costs, strengths=[0.3, 0.2, 0.1]).fit(X, y)
        place = X.columns.get_loc("proline")
        sizes.append(max(np.ptp(one.offsets[:, place]) for one in model.path_.penalized))
    assert sizes[0] > sizes[1] > sizes[2] == 0.0


def test_costs_in_a_series_go_by_its_labels():
    _, X, y = fitted("linear")
    costs = {name: 1.0 + i for i, name in enumerate(reversed(X.columns))}
    ways = (costs, pd.Series(costs), [costs[name] for name in X.columns])
    fits = (DifferenceOfMeans(plane(X), costs=way).fit(X, y) for way in ways)
    one, *others = (list(fit.translations_.costs) for fit in fits)
    assert others == [one, one]


def test_constant_features_stay():
    X, y = load_iris(return_X_y=True)
    wide = np.column_stack([X, np.full(len(X), 7.0), np.zeros(len(X))])
    space = Affine(np.random.default_rng(0).normal(size=(6, 2)), np.zeros(2))
    model = GroupTranslations(space, strengths=8).fit(wide, y)
    assert all(set(one.columns) <= set(range(4)) for one in model.path_)


# --- kinds of rows and groups ---


class AnnData:
    """What is used of one, for where the package is not installed."""

    def __init__(self, X: Any, obs: pd.DataFrame, names: list[str]) -> None:
        self.X, self.obs, self.var_names, self.uns = X, obs, pd.Index(names), {}


def made_of(kind: str, X: pd.DataFrame, y: pd.Series) -> tuple[Any, Any]:
    """The same rows and groups in other clothes."""
    values, names = X.to_numpy(), list(X.columns)
    if kind == "anndata":
        anndata = pytest.importorskip(
            "anndata", reason="anndata needs pandas 2: make test-pandas2 runs this"
        )
        obs = pd.DataFrame({"kind": y.to_numpy()}, index=[f"r{i}" for i in range(len(y))])
        return anndata.AnnData(values, obs=obs, var=pd.DataFrame(index=names)), "kind"
    return {
        "pandas": (X, y),
        "polars": (pl.from_pandas(X), y.to_list()),
        "array": (values, y.to_numpy()),
        "float32": (values.astype(np.float32), y.to_numpy()),
        "csr": (sparse.csr_matrix(values), y),
        "csc": (sparse.csc_array(values), list(y)),
        "categorical": (X, y.astype("category")),
        "masks": (X, {label: (y == label).to_numpy() for label in sorted(set(y))}),
        "like anndata": (
            AnnData(sparse.csr_matrix(values), pd.DataFrame({"kind": y}), names),
            "kind",
        ),
    }[kind]


@cache
def of_wine() -> tuple[GroupTranslations, Any, Any]:
    X, y = wine()
    return GroupTranslations(plane(X), k=3, strengths=8).fit(X, y), X, y


KINDS = (
    *("pandas", "polars", "array", "float32", "csr", "csc", "categorical", "masks"),
    *("like anndata", "anndata"),
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:anndata", "ignore::FutureWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_kind_get_the_same_answer(kind: str):
    plain, X, y = of_wine()
    space = plane(X)
    rows, groups = made_of(kind, X, y)
    model = GroupTranslations(space, k=3, strengths=8).fit(rows, groups)
    loose = 1e-3 if kind == "float32" else 1e-7
    np.testing.assert_allclose(model.translations_.offsets, plain.translations_.offsets, rtol=loose)
    assert model.translations_.names == tuple(X.columns)  # which the representation knows
    quality = model.judge(rows, groups)
    assert quality.mean(quality.correctness) == pytest.approx(
        (q := plain.judge(X, y)).mean(q.correctness), abs=0.02
    )


def test_changes_are_ranked_as_scanpy_ranks_genes():
    told = Translations.of(
        [[0, 0, 0, 0], [1, -3, 0, 2], [0, 0, 0, 0], [-5, 0, 1, 0]],
        ["a", "b", "same", 7],
        ["p", "q", "r", "s"],
        costs=[1, 1, 10, 4],
    )
    ranked = told.ranked("a", "kind")
    assert ranked["params"]["groupby"] == "kind"
    assert ranked["params"]["reference"] == "a"
    columns = ("names", "scores", "logfoldchanges", "pvals", "pvals_adj")
    assert ranked.keys() == {"params", *columns}
    for name in columns:  # nothing changes from a to same
        assert ranked[name].dtype.names == ("b", "7")
    assert ranked["names"].tolist() == [("s", "r"), ("q", "p")]  # as long as the shortest, 7
    assert ranked["scores"].tolist() == [(8.0, 10.0), (-3.0, -5.0)]
    assert ranked["logfoldchanges"].tolist() == [(2.0, 1.0), (-3.0, -5.0)]
    assert np.isnan(ranked["pvals"].tolist()).all()
    one = told.ranked("a", groups=["b"])
    assert dict(zip(one["names"]["b"], one["logfoldchanges"]["b"], strict=True)) == told.changes(
        "a", "b"
    )
    with pytest.raises(InvalidInput, match="changes from 'a' to another group to rank; there are"):
        told.ranked("a", groups=["a", "same"])
    with pytest.raises(InvalidInput, match=r"a group among .* got 'c'"):
        told.ranked("a", groups=["c"])
    moved = Translations.of([[1, 2], [3, 2]], ["a", "b"])
    assert moved.offsets.tolist() == [[0, 0], [2, 0]]  # relative to the first group


@pytest.mark.filterwarnings("ignore")  # scanpy's, and those of what it draws with
def test_scanpy_takes_ranked_changes_and_its_loadings_are_taken(tmp_path: Path):
    scanpy = pytest.importorskip(
        "scanpy", reason="scanpy needs pandas 2: make test-pandas2 runs this"
    )
    adata = scanpy.datasets.pbmc68k_reduced()
    unused = np.isnan(adata.varm["PCs"]).all(axis=1)
    with pytest.warns(UserWarning, match=f"^{unused.sum()} of 765 features have no loadings"):
        space = Affine(adata.varm["PCs"])
    model = GroupTranslations(space, k=10, strengths=8).fit(adata, "louvain")
    told = model.translations_
    assert not unused[told.columns].any()
    adata.uns["rank_genes_groups"] = told.ranked("0", "louvain")
    adata.write_h5ad(tmp_path / "cells.h5ad")
    adata = scanpy.read_h5ad(tmp_path / "cells.h5ad")
    for group in adata.uns["rank_genes_groups"]["names"].dtype.names:
        table, changes = scanpy.get.rank_genes_groups_df(adata, group), told.changes("0", group)
        largest = list(changes.items())[: len(table)]
        assert [*zip(table["names"], table["logfoldchanges"], strict=True)] == largest
        assert (table["scores"] != 0.0).all()
    for picture in ("", "_dotplot", "_heatmap", "_matrixplot", "_stacked_violin", "_tracksplot"):
        getattr(scanpy.pl, f"rank_genes_groups{picture}")(adata, show=False)
    scanpy.pl.rank_genes_groups_violin(adata, groups=["1"], n_genes=20, jitter=False, show=False)


def test_an_explanation_is_kept_with_an_anndata():
    model, X, y = fitted("linear", k=3)
    adata = AnnData(X.to_numpy(), pd.DataFrame({"kind": y}), list(X.columns))
    to_anndata(model.translations_, adata)
    kept = from_anndata(adata)
    assert kept.groups == model.groups_
    assert kept.offsets.tobytes() == model.translations_.offsets.tobytes()
    assert kept.changes("red", "rose") == model.translations_.changes("red", "rose")
    to_anndata(model.translations_.truncated(1), adata, key="other")
    assert from_anndata(adata, "other").truncate == 1


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_standard_deviations_of_sparse_rows_are_those_of_dense_ones(kind: Any):
    rng = np.random.default_rng(0)
    cells = np.zeros((200, 4), dtype=kind)
    cells[:, 0] = 5.0 + 1e-3 * rng.normal(size=200)  # small beside their mean
    cells[:, 1] = 7.1
    cells[:90, 2] = rng.normal(size=90)
    rows, *_ = read_rows(sparse.csr_matrix(cells), np.zeros(200), read_model(Affine(np.eye(4)))[1])
    np.testing.assert_allclose(
        spread_of(rows), cells.std(axis=0, dtype=float), rtol=1e-9, atol=1e-12
    )


def test_cells_that_a_sparse_matrix_has_twice_are_added_up():
    place = (np.array([0, 0, 1, 2]), np.array([1, 1, 0, 1]))
    given = sparse.coo_array((np.array([1.0, 2.0, 4.0, -1.0]), place), (3, 2))
    twice = sparse.csr_array((given.data, place[1], np.array([0, 2, 3, 4])), shape=(3, 2))
    rows, *_ = read_rows(twice, np.zeros(3), read_model(Affine(np.eye(2)))[1])
    np.testing.assert_allclose(spread_of(rows), given.toarray().std(axis=0))
    assert twice.nnz == 4  # what was passed is as it was


def test_sparse_rows_are_never_dense():
    """Of 50 000 features, a dense copy of the rows would be a gigabyte."""
    import tracemalloc

    rng = np.random.default_rng(0)
    n, d = 2500, 50_000
    X = sparse.random(n, d, density=1e-3, format="csr", rng=rng)
    y = np.repeat([0, 1], n // 2)
    bump = sparse.coo_array(
        (np.ones(n // 2), (np.arange(n // 2, n), np.zeros(n // 2, int))), (n, d)
    )
    X = sparse.csr_array(X) + 3.0 * bump.tocsr()
    space = Affine(rng.normal(size=(d, 2)) / 100.0, np.zeros(2))
    tracemalloc.start()
    model = GroupTranslations(space, k=1, strengths=4).fit(X, y)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 200e6
    assert list(model.translations_.changes(0, 1)) == ["x0"]


def test_rows_without_a_group_are_left_out():
    X, y = wine()
    some = y.where(y != "rose", None)
    both = GroupTranslations(plane(X), strengths=6).fit(X, some)
    known = y != "rose"
    alone = GroupTranslations(plane(X), strengths=6).fit(X[known], y[known])
    assert both.groups_ == ("red", "white")
    assert both.translations_.offsets.tobytes() == alone.translations_.offsets.tobytes()


def test_polygons_are_what_matplotlib_says():
    from matplotlib.path import Path

    rng = np.random.default_rng(0)
    points = rng.normal(size=(2000, 2))
    corners = [rng.normal(size=(c, 2)) for c in (3, 5, 8)]
    member = Groups.from_polygons(points, corners).member
    inside = np.array([Path(one).contains_points(points) for one in corners])
    expected = np.where(inside.any(axis=0), inside.argmax(axis=0), -1)
    assert (member == expected).mean() == 1.0


def test_a_point_as_high_as_a_corner_is_inside_or_not():
    diamond = [[[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]]
    points = np.array([[0.0, 0.0], [-0.5, 0.0], [-2.0, 0.0], [2.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert Groups.from_polygons(points, diamond).member.tolist() == [0, 0, -1, -1, -1, -1]


def test_what_is_kept_of_a_change_costs_most():
    offsets = [[0.0, 0.0], [1.0, 3.0]]
    dear = Translations.of(offsets, [0, 1], costs=[4.0, 1.0])
    assert dear.truncated(1).translation(0, 1).tolist() == [1.0, 0.0]
    plain = Translations.of(offsets, [0, 1])  # a unit of each costs as much
    assert plain.truncated(1).translation(0, 1).tolist() == [0.0, 3.0]


def test_clusters_leave_noise_out():
    rng = np.random.default_rng(0)
    points = np.concatenate(
        [rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 20.0, [[90.0, 9.0]]]
    )
    found = Groups.from_clusters(points, HDBSCAN(min_cluster_size=10, copy=True))
    assert len(found) == 2
    assert found.member[-1] == -1
    halves = Groups.from_clusters(points[:-1], KMeans(2, random_state=0, n_init=1))
    assert sorted(halves.sizes.tolist()) == [60, 60]


def test_noise_of_density_clustering_is_no_group_and_that_is_said():
    with pytest.warns(UserWarning, match="2 rows with the label -1 are of no group"):
        found = Groups.of([0, -1, 1, 1, -1, 0])
    assert found.labels == (0, 1)
    assert found.member.tolist() == [0, -1, 1, 1, -1, 0]
    classes = Groups.of([-1, 1, 1, -1])  # two classes
    assert classes.labels == (-1, 1)


def test_rows_are_moved_to_another_group():
    X, y = wine()
    space = plane(X)
    model = GroupTranslations(space, k=3, strengths=8).fit(X, y)
    assert model.feature_names_in_.tolist() == list(X.columns)
    assert model.n_features_in_ == 13
    given = y.where(np.arange(len(y)) > 9).astype(object)  # the first ten are of no group
    moved = model.transform(X, given, to="rose")
    for label in model.groups_:
        own = (given == label).to_numpy()
        expected = X[own] + model.translation(label, "rose")
        np.testing.assert_allclose(moved[own], expected)
    np.testing.assert_array_equal(moved[:10], X[:10])
    values = space.transform(X)
    means = np.stack([values[y == name].mean(axis=0) for name in model.groups_])
    nearest = ((values[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    told = model.transform(X.to_numpy(), to="red")
    for row, i, one in zip(X.to_numpy(), nearest, told, strict=True):
        np.testing.assert_allclose(one, row + model.translation(model.groups_[i], "red"))
    with pytest.raises(InvalidInput, match="Expected a group among"):
        model.transform(X, to="green")


def test_means_of_groups_are_means():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), np.array([0, 1, 2] * 10, dtype=object)
    y[:3] = None
    expected = [X[[label == g for label in y]].mean(axis=0) for g in (0, 1, 2)]
    groups = Groups.of(y)
    np.testing.assert_allclose(groups.means(X), expected)
    np.testing.assert_allclose(groups.means(sparse.csr_array(X)), expected)


# --- what is shown of an answer ---


def hand_made() -> Translations:
    offsets = [[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [2.0, -0.5, 1.0]]
    return Translations.of(offsets, ["a", "b", "c"], ["A", "B", "C"], costs=[1.0, 8.0, 1.0])


def test_sentences_say_what_changes():
    assert hand_made().sentences().splitlines() == [
        "from a to b: raise A by 2",
        "from a to c: lower B by 0.5, raise A by 2",
        "from b to c: lower B by 0.5",
    ]
    assert hand_made().sentence("c", "a", most=1) == "from c to a: raise B by 0.5, and 1 more"
    assert hand_made().sentence("a", "a") == "from a to a: nothing changes"


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (5724.3, "5720"),
        (0.3, "0.3"),
        (2.0, "2"),
        (0.01234, "0.0123"),
        (123456.0, "123000"),
        (1.5e9, "1.5e+09"),
        (2e-7, "2e-07"),
    ],
)
def test_sizes_are_written_as_one_writes_them(size: float, words: str):
    one = Translations.of([[0.0], [size]], ["a", "b"], ["A"])
    assert one.sentences() == f"from a to b: raise A by {words}"


def test_frames_have_a_line_for_each_change():
    frame = hand_made().to_frame({"B": "beta"})
    assert list(frame.columns) == ["from", "to", "feature", "change"]
    assert len(frame) == 2 * (1 + 2 + 1)
    assert frame.query("`from` == 'a' and to == 'c'")["feature"].tolist() == ["beta", "A"]
    assert hand_made().columns.tolist() == [0, 1]
    assert hand_made().sizes[0].tolist() == [0.0, 2.0, 6.0]
    assert hand_made().moved([[1.0, 1.0, 1.0]], "a", "c").tolist() == [[3.0, 0.5, 1.0]]
    assert "3 groups, 2 of 3 features" in repr(hand_made())


@pytest.mark.parametrize("kind", [dict, pd.Series])
def test_features_can_go_by_other_names(kind: Any):
    other = hand_made().renamed(kind({"A": "alpha", "C": "gamma"}))
    assert other.sentence("a", "c") == "from a to c: lower B by 0.5, raise alpha by 2"
    assert other.names == ("alpha", "B", "gamma")
    assert other.translation("a", "c").tolist() == hand_made().translation("a", "c").tolist()


def test_changes_of_features_that_share_a_name_are_all_there():
    other = hand_made().renamed({"A": "same", "B": "same"})
    assert len(other.to_frame()) == len(hand_made().to_frame())
    assert other.sentence("a", "c") == "from a to c: lower same (B) by 0.5, raise same (A) by 2"


def test_truncated_changes_keep_what_costs_most():
    cut = hand_made().truncated(1)
    assert cut.changes("a", "c") == {"B": -0.5}
    assert cut.counts.max() == 1
    added = cut.translation("a", "b") + cut.translation("b", "c")
    assert (added != cut.translation("a", "c")).any()  # which is why it is not done


def test_similarity_is_equation_ten():
    sparser = Translations.of([[0.0, 0.0], [1.0, 3.0]], [0, 1])
    denser = Translations.of([[0.0, 0.0], [0.0, 2.0]], [0, 1])
    assert similarity(sparser, denser)[0, 1] == pytest.approx(0.75)
    assert similarity(denser, sparser)[0, 1] == 1.0
    assert similarity(sparser, sparser).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_the_frame_of_a_path_has_its_columns(case: tuple[GroupTranslations, Any, Any]):
    model, _, _ = case
    frame = model.path_.to_frame()
    assert (np.diff(frame["strength"]) < 0.0).all()
    assert len(frame) == len(model.path_)
    assert frame.loc[0, ["each", "mean", "shared"]].tolist() == [0.0, 0.0, 0.0]
    assert (frame["loss"] <= frame["objective"] + 1e-9).all()


# --- quality ---


def brute_rates(
    values: Any, moved: dict[Any, np.ndarray], own: dict[Any, np.ndarray], radius: float
) -> Any:
    """Equations (3) and (4), point by point; a point is not near itself."""
    rates = {}
    for (i, j), there in moved.items():
        away = np.sqrt(((there[:, None] - own[j][None]) ** 2).sum(axis=2))
        if i == j:
            np.fill_diagonal(away, np.inf)
        rates[i, j] = (away.min(axis=1) <= radius).mean(), (away.min(axis=0) <= radius).mean()
    return rates


@pytest.mark.parametrize("m", [1, 2, 20])
def test_correctness_and_coverage_are_what_brute_force_counts(m: int):
    rng = np.random.default_rng(m)
    X, y = rng.normal(size=(80, 24)), rng.integers(0, 3, size=80)
    X[y == 1] += 0.7
    space = Affine(rng.normal(size=(24, m)), rng.normal(size=m))
    model = GroupTranslations(space, radius=2.5, strengths=5).fit(X, y)
    one = model.sparse(4)
    quality = model.judge(X, y, one)
    own = {g: X[y == g] @ space.matrix + space.offset for g in range(3)}
    moved = {
        (i, j): one.moved(X[y == i], i, j) @ space.matrix + space.offset
        for i, j in product(range(3), repeat=2)
    }
    for (i, j), (correct, covered) in brute_rates(None, moved, own, 2.5).items():
        assert quality.correctness[i, j] == pytest.approx(correct)
        assert quality.coverage[i, j] == pytest.approx(covered)


def test_the_radius_is_the_least_by_which_groups_are_like_themselves():
    model, _, _ = fitted("linear")
    same = Translations.of(np.zeros((3, 13)), model.groups_)
    for factor, enough in ((1.0, True), (0.999, False)):
        correctness, _ = model.scene_.points.rates(same, factor * model.radius_)
        assert (np.diag(correctness).min() >= 0.95) == enough


def test_each_group_may_have_a_radius_of_its_own():
    """That of a tight group is smaller; nothing is near it for being near a wide one."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)), 0.1 * rng.normal(size=(60, 2)) + 1.5])
    y = np.repeat(["wide", "tight"], 60)
    space = Affine(np.eye(2), np.zeros(2))
    common, each = (
        GroupTranslations(space, radius=radius, strengths=4).fit(X, y) for radius in (None, "each")
    )
    assert each.radius_.max() == common.radius_
    assert each.radius_[0] < common.radius_ / 3.0  # "tight" sorts first
    offsets = np.array([[0.0, 0.0], [-1.0, -1.0]])
    some = Translations.of(offsets, ["tight", "wide"])
    quality, own = each.judge(X, y, some), {0: X[60:], 1: X[:60]}
    moved = {(i, j): own[i] + offsets[j] - offsets[i] for i, j in product((0, 1), repeat=2)}
    for (i, j), there in moved.items():
        rates = brute_rates(None, {(i, j): there}, own, each.radius_[j])[i, j]
        assert (quality.correctness[i, j], quality.coverage[i, j]) == pytest.approx(rates)
    assert quality.unchanged[1, 0] < common.judge(X, y, some).unchanged[1, 0]
    assert "radii" in quality.summary()
    polished_ = copy.copy(each).set_params(polish=True).sparse(2)
    assert sum(each.scene_.rates(polished_)) >= sum(each.scene_.rates(each.sparse(2))) - 1e-9


def test_moved_rows_are_assigned_by_the_nearest_mean_or_by_a_rule():
    X, y = wine()
    space = plane(X)
    model = GroupTranslations(space, k=4, strengths=8).fit(X, y)
    quality, values, names = model.judge(X, y), space.transform(X), list(model.groups_)
    means = np.stack([values[y == name].mean(axis=0) for name in names])
    shares = []
    for (i, a), (j, b) in product(enumerate(names), repeat=2):
        moved = space.transform(X[y == a] + model.translation(a, b))
        apart = ((moved[:, None] - means) ** 2).sum(axis=2)
        assert quality.assigned[i, j] == (apart.argmin(axis=1) == j).mean()
        shares.append((apart.argmin(axis=1) == j).mean())
    told = model.judge(X, y, assign=lambda rows: np.full(len(rows), "rose"))
    assert told.assigned[:, names.index("rose")].tolist() == [1.0] * 3
    assert told.assigned.sum() == 3.0
    clusters = KMeans(3, random_state=0, n_init=1).fit(values)
    by_cluster = GroupTranslations(space, k=4, strengths=8).fit(X, clusters.labels_)
    held = by_cluster.evaluate(X, clusters.labels_, assign=clusters.predict)
    assert 0.5 < held.mean(held.assigned) <= 1.0
    with pytest.raises(InvalidInput, match="a label for each of 59 rows; got the shape"):
        model.judge(X, y, assign=lambda rows: np.zeros((len(rows), 2)))


def test_without_a_change_correctness_is_what_overlap_gives(
    case: tuple[GroupTranslations, Any, Any],
):
    model, X, y = case
    still = model.judge(X, y, Translations.of(np.zeros((3, 13)), model.groups_, costs=np.ones(13)))
    assert (still.unchanged == still.correctness).all()
    np.testing.assert_array_equal(model.judge(X, y).unchanged, still.correctness)


def test_outside_and_away_are_what_one_counts():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [4.0, 1.0], [5.0, 1.0]])
    y = ["a", "a", "b", "b"]
    space = Affine(np.eye(2), np.zeros(2))
    model = GroupTranslations(space, radius=1.0, strengths=3).fit(X, y)
    quality = model.judge(X, y, Translations.of([[0.0, 0.0], [5.0, 0.0]], ["a", "b"]))
    assert quality.outside[0, 1] == 0.5  # 0 to 5 and 1 to 6, of a range up to 5
    assert quality.outside[1, 0] == 0.5  # 4 to −1, and 5 to 0
    scale = X.std(axis=0)
    moved = (X[:2] + np.array([5.0, 0.0])) / scale
    near = np.sqrt(((moved[:, None] - (X[2:] / scale)[None]) ** 2).sum(axis=2)).min(axis=1)
    assert quality.away[0, 1] == pytest.approx(np.median(near) * scale[0])
    assert quality.away.diagonal().tolist() == [1.0, 1.0]  # a group is as near to itself as it is
    assert quality.worst in {("a", "b"), ("b", "a")}


def test_means_over_pairs_are_with_or_without_the_diagonal(
    case: tuple[GroupTranslations, Any, Any],
):
    model, X, y = case
    quality = model.judge(X, y)
    rates = quality.correctness
    assert quality.mean(rates, diagonal=True) == pytest.approx(rates.mean())
    assert quality.mean(rates) == pytest.approx((rates.sum() - np.trace(rates)) / 6)
    frame = quality.to_frame()
    assert len(frame) == 6
    worst = frame.loc[frame["correctness"].idxmin()]
    assert quality.worst == (worst["from"], worst["to"])


def test_quality_says_whether_rows_were_in_the_fit():
    X, y = wine()
    half = np.arange(len(X)) % 2 == 0
    model = GroupTranslations(plane(X), k=4, strengths=8).fit(X[half], y[half])
    assert model.judge(X[half], y[half]).seen == 1.0
    assert "100% of the rows were in the fit" in model.judge(X[half], y[half]).summary()
    assert model.judge(X[~half], y[~half]).seen == 0.0
    assert model.judge(X[~half], y[~half]).summary().startswith("3 groups, held-out rows\n")


@pytest.mark.parametrize("kind", ["linear", pytest.param("network", marks=pytest.mark.slow)])
def test_evaluation_is_on_rows_that_were_not_fitted(kind: str):
    model, X, y = fitted(kind, strengths=4)
    held = model.evaluate(X, y)
    assert held.seen < 0.05
    assert "held-out rows" in held.summary()
    again = model.evaluate(X, y)
    assert held.correctness.tobytes() == again.correctness.tobytes()
    other = model.evaluate(X, y, folds=3, random_state=1)
    assert other.correctness.tobytes() != held.correctness.tobytes()
    both = model.evaluate_each(X, y, [1, 5])
    assert [one.counts.max() <= k for one, k in zip(both, (1, 5), strict=True)] == [True, True]


@pytest.mark.parametrize("kind", [GroupTranslations, DifferenceOfMeans])
def test_evaluation_is_a_fit_on_some_folds_and_a_judgement_on_the_other(kind: Any):
    """Radius, scales, limits, strengths and choices are all those of the rows of the fit."""
    X, y = wine()
    space, by_hand = plane(X), []
    folds = stratified_folds(Groups.of(y), 2, np.random.RandomState(3))
    for learn, test in folds:
        model = kind(space, k=3).fit(X.iloc[learn], y.iloc[learn])
        by_hand.append(model.judge(X.iloc[test], y.iloc[test]))
    found = kind(space, k=3).evaluate(X, y, random_state=3)
    for name in ("correctness", "coverage", "sizes", "outside", "away", "radius", "seen"):
        mean = np.mean([getattr(one, name) for one in by_hand], axis=0)
        np.testing.assert_array_equal(getattr(found, name), mean)


def test_the_difference_of_means_is_what_it_says():
    X, y = wine()
    model = DifferenceOfMeans(plane(X)).fit(X, y)
    means = X.groupby(y).mean()
    np.testing.assert_allclose(
        model.translation("red", "rose"), means.loc["rose"] - means.loc["red"]
    )
    three = DifferenceOfMeans(plane(X), k=3).fit(X, y)
    assert three.translations_.counts.max() == 3
    kept = three.translations_.changes("red", "rose")
    costs = np.abs(model.translation("red", "rose")) / X.std(ddof=0)
    assert set(kept) == set(costs.nlargest(3).index)
    assert three.evaluate(X, y).mean(three.evaluate(X, y).counts) == 3.0
    assert three.sentences().count("\n") == 2


def test_few_features_do_on_held_out_rows_what_all_differences_do(
    case: tuple[GroupTranslations, Any, Any],
):
    model, X, y = case
    ours = model.evaluate_each(X, y, [8])[0]
    theirs = DifferenceOfMeans(model.representation).evaluate(X, y)
    assert ours.counts.max() <= 8 < theirs.counts.max()
    assert ours.mean(ours.correctness) >= theirs.mean(theirs.correctness) - 0.1


def test_a_path_gives_the_best_of_at_most_k_features(case: tuple[GroupTranslations, Any, Any]):
    path = case[0].path_
    for k, count in product((1, 3, None), COUNTS):
        best = path.at(k, count)
        assert best is path.able(k, count)[0].translations
        assert k is None or count_of(best, count) <= k


def test_many_features_stay_where_the_penalty_is_too_large():
    X = np.random.default_rng(0).normal(size=(40, 80))
    y = np.repeat(["a", "b"], 20)
    limits = Limits(rising=range(80))
    model = GroupTranslations(Affine(np.eye(80)[:, :3]), limits=limits, strengths=[1e6, 1e5])
    changes = model.fit(X, y).path_.penalized
    assert [len(one.columns) for one in changes] == [0, 0, 0]


@pytest.mark.parametrize("count", COUNTS)
def test_polished_explanations_keep_to_k_and_limits_and_bring_more_rows_near(
    case: tuple[GroupTranslations, Any, Any], count: Count
):
    model, _, _ = case
    plain = model.sparse(2, count)
    scene, task = model.scene_, model.task_
    able = copy.copy(model).set_params(polish=True)
    moved = able.sparse(2, count)
    assert count_of(moved, count) <= 2
    assert sum(scene.rates(moved)) >= sum(scene.rates(plain)) - 1e-9
    reach = 1.5 * np.ptp(scene.means, axis=0)
    assert (np.ptp(moved.offsets, axis=0) <= reach * (1.0 + 1e-12)).all()
    start = model.path_.able(4)[0].offsets
    ended, tied = polished(scene, task, start), start[:, None] == start[None]
    assert (ended[:, None] == ended[None])[tied].all()


def test_polishing_moves_rows_to_where_they_arrive():
    """From less than half of the way there, within the bounds."""
    rows = np.random.default_rng(0).normal(size=(30, 3))
    X = np.concatenate([rows, rows + np.array([4.0, -3.0, 0.0])])
    model = GroupTranslations(Affine(np.eye(3), np.zeros(3)), strengths=3)
    model.fit(X, np.repeat(["a", "b"], 30))
    scene, task = model.scene_, model.task_
    start = np.array([[0.0, 0.0, 0.0], [1.6, -1.2, 0.0]]) / scene.scale
    assert moving(start).tolist() == [0, 1]
    done = polished(scene, task, start)
    assert (np.ptp(done, axis=0) <= task.fusion.reach * (1.0 + 1e-12)).all()
    assert moving(done).tolist() == [0, 1]
    before, after = (sum(scene.rates(scene.translations(D, 0.0))) for D in (start, done))
    assert after > before + 0.1


def test_the_aim_of_polishing_has_the_gradient_of_finite_differences():
    model, _, _ = fitted("network")
    scene, task = model.scene_, model.task_
    D = model.path_.able(4)[0].offsets
    columns = moving(D)
    level = levels_of(D[:, columns])
    aim = smoothed_rates(scene, scene.points, task, columns, level)
    rng = np.random.default_rng(0)
    levels = np.empty(int(level.max()) + 1)
    levels[level] = D[:, columns]
    levels += 0.01 * rng.normal(size=len(levels))
    smooth, h = 0.5, 1e-7
    value, slope = aim(levels, smooth, 0.3)
    for _ in range(4):
        way = rng.normal(size=len(levels))
        change = (aim(levels + h * way, smooth, 0.3)[0] - aim(levels - h * way, smooth, 0.3)[0]) / (
            2 * h
        )
        assert change == pytest.approx(float(slope @ way), rel=1e-3, abs=1e-5)
    assert np.isfinite(value)


@pytest.mark.parametrize("reference", [0, 2, 3])
def test_stars_keep_the_costliest_changes_from_a_group(
    case: tuple[GroupTranslations, Any, Any], reference: int
):
    """Of features that only rise, fewer if need be; the order is kept."""
    task = case[0].task_
    rng = np.random.default_rng(reference)
    D, weight = rng.normal(size=(4, 13)), task.fusion.weight
    star = starred(task, D, reference, 3)
    for own, kept in zip(D, star, strict=True):
        cost = np.abs(own - D[reference]) * weight
        assert set(np.flatnonzero(kept != D[reference])) <= set(np.argsort(-cost)[:3])
    assert ((star != D[reference]).sum(axis=1) == [3 * (i != reference) for i in range(4)]).all()
    rises = replace(task, fusion=replace(task.fusion, monotone=np.ones(13, dtype=np.intp)))
    rising = np.sort(D, axis=0)
    star = starred(rises, rising, reference, 3)
    assert (np.diff(star, axis=0) >= 0.0).all()
    assert ((star != rising[reference]).sum(axis=1) <= 3).all()


def test_k_features_from_a_reference_group_explain_more_than_k_of_each_pair(
    case: tuple[GroupTranslations, Any, Any],
):
    """Whatever each pair may change, a star may; and other pairs change up to twice as many."""
    model, _, _ = case
    for k in (1, 2, 4):
        each, star = model.sparse(k), model.sparse(k, "reference")
        assert count_of(star, "reference") <= k
        wide = model.sparse(2 * k)  # for stars are explanations of at most twice as many
        assert sum(model.scene_.rates(wide)) >= sum(model.scene_.rates(star))
        assert count_of(star, "each") <= 2 * k
        assert sum(model.scene_.rates(star)) >= sum(model.scene_.rates(each))


# --- estimators ---


def test_a_clone_keeps_the_fitted_representation():
    model, X, y = fitted("linear", k=2)
    copy = clone(model)
    assert copy.representation is model.representation
    with pytest.raises(ModelNotFitted, match="GroupTranslations has not been fitted"):
        copy.translation("red", "rose")
    assert copy.fit(X, y).translations_.offsets.tobytes() == model.translations_.offsets.tobytes()


def test_models_can_be_pickled(case: tuple[GroupTranslations, Any, Any]):
    model, _, _ = case
    copy = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert copy.translations_.offsets.tobytes() == model.translations_.offsets.tobytes()


def test_truncation_is_the_best_of_the_path_cut_to_k(case: tuple[GroupTranslations, Any, Any]):
    model, _, _ = case
    for k in (1, 3):
        cut = model.truncated(k)
        assert cut.counts.max() <= k
        for one in (*model.path_, *model.path_.penalized):
            assert sum(model.scene_.rates(cut)) >= sum(model.scene_.rates(one.truncated(k)))


def test_groups_that_do_not_differ_stay_where_they_are():
    rows = np.random.default_rng(0).normal(size=(30, 3))
    model = GroupTranslations(Affine(np.eye(3), np.zeros(3)), strengths=3)
    model.fit(np.concatenate([rows, rows]), np.repeat(["a", "b"], 30))
    assert not model.translations_.translation("a", "b").any()


def test_nothing_is_polished_unless_asked_for(monkeypatch: pytest.MonkeyPatch):
    rows = np.random.default_rng(0).normal(size=(30, 3))
    model = GroupTranslations(Affine(np.eye(3), np.zeros(3)), strengths=3, polish=False)
    model.fit(np.concatenate([rows, rows + np.array([1.0, 2.0, 0.0])]), np.repeat(["a", "b"], 30))
    monkeypatch.setattr(estimators, "polished", None)
    assert model.sparse(2).counts.max() <= 2
    with pytest.raises(TypeError, match="not callable"):
        model.set_params(polish=True).sparse(2)
