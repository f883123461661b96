"""What cannot be used is said in a sentence: expected, got, do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.manifold import TSNE, Isomap
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from counterpoint.errors import (
    InvalidInput,
    MissingExtra,
    ModelNotFitted,
    ReaderMismatch,
    UnsupportedModel,
)
from counterpoint.groups import (
    Affine,
    DifferenceOfMeans,
    FiniteDifferences,
    Groups,
    GroupTranslations,
    Limits,
    Network,
    TorchFunction,
    Translations,
    from_anndata,
    plot_curves,
    represent,
    similarity,
)

X, Y = load_iris(return_X_y=True)
PLANE = PCA(2).fit(X)


def fit(X: Any = X, groups: Any = Y, space: Any = PLANE, **options: Any) -> GroupTranslations:
    return GroupTranslations(space, **({"strengths": 4} | options)).fit(X, groups)


def holes() -> np.ndarray:
    return np.where(np.arange(len(X))[:, None] == 7, [[1.0, np.nan, 2.0, 3.0]], X)


def framed() -> pd.DataFrame:
    return pd.DataFrame(X, columns=list("abcd"))


def stand_in(names: list[str]) -> Any:
    """What is used of an AnnData."""
    made = type("AnnData", (), {})()
    made.X, made.obs, made.var_names = X, pd.DataFrame({"kind": Y}), pd.Index(names)
    return made


def one_row(label: Any) -> np.ndarray:
    groups = Y.astype(object)
    groups[0] = label
    return groups


def masks(**given: Any) -> dict[str, Any]:
    return {"a": np.asarray(Y == 0), "b": np.asarray(Y == 1)} | given


class Liar(StandardScaler):
    def transform(self, X: Any, copy: Any = None) -> Any:
        return super().transform(X) + 1.0


FITS: dict[str, tuple[Callable[[], Any], type, str]] = {
    "one group": (lambda: fit(groups=np.zeros(150)), InvalidInput, "at least two groups; got 1"),
    "no group": (lambda: fit(groups=[None] * 150), InvalidInput, "at least two groups; got 0"),
    "tiny": (
        lambda: fit(groups=one_row("odd")),
        InvalidInput,
        "at least 2 rows in each group; group 'odd' has 1",
    ),
    "too few labels": (
        lambda: fit(groups=Y[:-1]),
        InvalidInput,
        "a group for each of 150 rows; got 149",
    ),
    "labels in a table": (
        lambda: fit(groups=np.zeros((150, 2))),
        InvalidInput,
        "one label for each row",
    ),
    "empty mask": (
        lambda: fit(groups=masks(c=np.zeros(150, dtype=bool))),
        InvalidInput,
        "group 'c' has 0",
    ),
    "overlap": (
        lambda: fit(groups=masks(c=np.asarray(Y < 2))),
        InvalidInput,
        "100 rows are in several, such as row 0 in 'a' and 'c'",
    ),
    "masks of numbers": (
        lambda: fit(groups=masks(c=np.ones(150))),
        InvalidInput,
        "boolean masks of one length",
    ),
    "a word": (
        lambda: fit(groups="species"),
        InvalidInput,
        "a column of the data frame; got 'species', and there are none",
    ),
    "a hole": (lambda: fit(holes()), InvalidInput, "Row 7 cannot be used: column 'x1' is missing"),
    "infinite": (
        lambda: fit(np.where(X > 7.0, np.inf, X)),
        InvalidInput,
        "Row 102 cannot be used: column 'x0' is infinite",
    ),
    "sparse hole": (lambda: fit(sparse.csr_array(holes())), InvalidInput, "a sparse cell"),
    "words": (
        lambda: fit(pd.DataFrame(X).assign(**{"3": "w"}).drop(columns=3).rename(columns={"3": 3})),
        InvalidInput,
        "Row 0 cannot be used: column 3 holds 'w'; expected a number.",
    ),
    "flat": (lambda: fit(np.array(["a"] * 150)), InvalidInput, "rows of 4 features"),
    "text": (
        lambda: fit(np.full((150, 4), "w")),
        InvalidInput,
        "column 'x0' holds 'w'; expected a number",
    ),
    "complex": (lambda: fit(X + 1j), InvalidInput, "expected a number"),
    "labels in no column": (
        lambda: fit(pd.DataFrame(X, columns=list("abcd")), "kind"),
        InvalidInput,
        "got 'kind', and there are a, b, c, d",
    ),
    "the same name twice": (
        lambda: fit(stand_in(["a", "b", "c", "b"]), "kind"),
        InvalidInput,
        "'b' is there twice",
    ),
    "a column that is missing": (
        lambda: fit(stand_in(list("abce")), "kind", space=PCA(2).fit(framed())),
        InvalidInput,
        "1 of 4 are missing. There is no feature 'd'",
    ),
    "too few columns": (
        lambda: fit(X[:, :3]),
        InvalidInput,
        "rows of 4 features, which the representation takes; got 3",
    ),
    "k above d": (lambda: fit(k=5), InvalidInput, "whole number of features, 1 to 4; got 5"),
    "k of 0": (lambda: fit(k=0), InvalidInput, "1 to 4; got 0"),
    "k of a half": (lambda: fit(k=1.5), InvalidInput, "1 to 4; got 1.5"),
    "k is true": (lambda: fit(k=True), InvalidInput, "1 to 4; got True"),
    "count": (lambda: fit(count="all"), InvalidInput, "'mean', 'shared', 'reference'; got 'all'"),
    "radius": (lambda: fit(radius=0.0), InvalidInput, "positive radius; got 0.0"),
    "strengths": (lambda: fit(strengths=1), InvalidInput, "at least 2 strengths"),
    "rising strengths": (
        lambda: fit(strengths=[0.1, 0.2]),
        InvalidInput,
        "positive strengths that fall",
    ),
    "free": (lambda: fit(costs=[1, 0, 1, 1]), InvalidInput, "positive costs; got 0.0 for 'x1'"),
    "few costs": (lambda: fit(costs=[1, 1]), InvalidInput, "a cost for each of 4 features"),
    "unknown cost": (
        lambda: fit(costs={"width": 1.0}),
        InvalidInput,
        "no feature 'width'; known: 'x0', 'x1', 'x2', 'x3'.",
    ),
    "no zero": (
        lambda: fit(limits=Limits(bounds={0: (0.5, 1.0)})),
        InvalidInput,
        "the bounds of 0 to hold 0",
    ),
    "negative bound": (
        lambda: fit(limits=Limits(bounds={"x2": -1.0})),
        InvalidInput,
        "the bounds of 'x2' to hold 0",
    ),
    "negative times": (lambda: fit(limits=Limits(times=-1.0)), InvalidInput, "times of at least 0"),
    "up and down": (
        lambda: fit(limits=Limits(rising=["x0"], falling=[0])),
        InvalidInput,
        "'x0' is to do both",
    ),
    "unknown feature": (
        lambda: fit(limits=Limits(immutable=["age"])),
        InvalidInput,
        "no feature 'age'",
    ),
    "a word for a list": (
        lambda: fit(limits=Limits(rising="x1")),
        InvalidInput,
        "a list of names in rising; got 'x1'. Pass ['x1']",
    ),
    "a bound in words": (
        lambda: fit(limits=Limits(bounds={"x1": "small"})),
        InvalidInput,
        "the bounds of 'x1' to hold 0",
    ),
    "times in words": (lambda: fit(limits=Limits(times="2")), InvalidInput, "got '2'"),
    "limits in words": (lambda: fit(limits={"times": 2}), InvalidInput, "limits as Limits(…)"),
    "costs in words": (lambda: fit(costs=list("abcd")), InvalidInput, "a cost for each of 4"),
    "a cost in words": (lambda: fit(costs={"x1": "high"}), InvalidInput, "got nan for 'x1'"),
    "radius in words": (lambda: fit(radius="near"), InvalidInput, "positive radius; got 'near'"),
    "unknown position": (
        lambda: fit(limits=Limits(immutable=[4])),
        InvalidInput,
        "a position below 4; got 4",
    ),
    "the class": (lambda: fit(space=PCA), UnsupportedModel, "the class PCA has no derivatives"),
    "a function": (lambda: fit(space=lambda rows: rows), UnsupportedModel, "FiniteDifferences"),
    "no derivatives": (
        lambda: fit(space=Isomap(n_neighbors=60).fit(X)),
        UnsupportedModel,
        "Isomap has no derivatives that are known",
    ),
    "no map": (lambda: fit(space=TSNE(2)), UnsupportedModel, "TSNE has no derivatives"),
    "in a pipeline": (
        lambda: fit(space=make_pipeline(StandardScaler(), Isomap(n_neighbors=60)).fit(X)),
        UnsupportedModel,
        "Step 'isomap': Isomap",
    ),
    "empty pipeline": (
        lambda: fit(space=make_pipeline("passthrough")),
        UnsupportedModel,
        "no note of the columns",
    ),
    "clipped": (lambda: fit(space=MinMaxScaler(clip=True).fit(X)), UnsupportedModel, "clip=True"),
    "lsqr": (
        lambda: fit(space=LinearDiscriminantAnalysis(solver="lsqr").fit(X, Y)),
        UnsupportedModel,
        "transform not implemented for 'lsqr'",
    ),
    "not fitted": (lambda: fit(space=PCA(2)), ModelNotFitted, "PCA has not been fitted"),
    "not fitted step": (
        lambda: fit(space=make_pipeline(StandardScaler(), PCA(2))),
        ModelNotFitted,
        "has not been fitted",
    ),
    "not what it does": (lambda: fit(space=Liar().fit(X)), ReaderMismatch, "read of Liar"),
    "an offset of others": (
        lambda: Affine(np.eye(4)[:, :3], np.zeros(2)),
        InvalidInput,
        "the shapes (4, 3) and (2,)",
    ),
    "a flat map": (lambda: Affine(np.ones(4), np.zeros(1)), InvalidInput, "the shapes (4,)"),
    "a map that is not finite": (
        lambda: Affine(sparse.csr_array([[np.nan], [1.0]]), np.zeros(1)),
        InvalidInput,
        "finite numbers in an affine map",
    ),
    "many differences": (
        lambda: FiniteDifferences(lambda rows: rows, 65),
        InvalidInput,
        "1 to 64 features; got 65",
    ),
    "no step": (
        lambda: FiniteDifferences(lambda rows: rows, 4, step=0.0),
        InvalidInput,
        "positive step",
    ),
    "a flat function": (
        lambda: fit(space=FiniteDifferences(lambda rows: rows[:, 0], 4)),
        InvalidInput,
        "as many rows; got the shape",
    ),
    "a wild function": (
        lambda: fit(space=FiniteDifferences(lambda rows: rows / 0.0, 4)),
        InvalidInput,
        "finite values from the representation",
    ),
    "not finite where rows are moved": (
        lambda: fit(
            space=TorchFunction(lambda rows: torch.log(rows[:, :2] - torch.tensor([4.2, 1.9])), 4)
        ),
        InvalidInput,
        "also where rows are moved to within the limits",
    ),
    "no derivative at zero": (
        lambda: fit(X - X.min(axis=0), space=TorchFunction(torch.sqrt, 4)),
        InvalidInput,
        "finite derivatives",
    ),
    "no layers": (
        lambda: Network([], []),
        InvalidInput,
        "of 0 matrices and 0 vectors",
    ),
    "flat weights": (
        lambda: Network([np.ones(3)], [np.ones(3)]),
        InvalidInput,
        "Transpose weights",
    ),
    "transposed": (
        lambda: Network([np.ones((4, 3)), np.ones((2, 3))], [np.ones(3), np.ones(3)]),
        InvalidInput,
        "takes the outputs of the one before",
    ),
    "diverged": (
        lambda: Network([np.full((4, 2), np.nan)], [np.ones(2)]),
        InvalidInput,
        "finite weights; got others",
    ),
    "no such activation": (
        lambda: Network([np.eye(4), np.eye(4)], [np.ones(4)] * 2, "sine"),
        InvalidInput,
        "got 'sine'",
    ),
    "a flat tensor": (
        lambda: fit(space=TorchFunction(lambda rows: rows.sum(), 4)),
        InvalidInput,
        "a tensor of shape",
    ),
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("name", FITS)
def test_what_cannot_be_fitted_is_said(name: str):
    call, error, words = FITS[name]
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert words in message
    assert message[-1] in ".'\"" or message.endswith(")")
    assert "\n" not in message


@pytest.fixture(scope="module")
def model() -> GroupTranslations:
    return fit()


def changed(groups: Any) -> Any:
    return np.where(Y == 0, 9, groups)


LATER: dict[str, tuple[Callable[[Any], Any], str]] = {
    "unknown start": (lambda m: m.translation(7, 0), "a group among 0, 1, 2; got 7"),
    "unknown end": (lambda m: m.translations_.sentence(0, "b"), "got 'b'"),
    "unseen groups": (lambda m: m.judge(X, changed(Y)), "those of the fit; got also 9"),
    "a group without rows": (lambda m: m.judge(X[:100], Y[:100]), "group 2 has none"),
    "no rows": (lambda m: m.judge(X, [None] * 150), "has none"),
    "other columns": (lambda m: m.judge(X[:, :3], Y), "rows of 4 features"),
    "rows to move": (lambda m: m.translations_.moved(X[:, :3], 0, 1), "rows of 4 numbers"),
    "one fold": (lambda m: m.evaluate(X, Y, folds=1), "at least 2 folds"),
    "folds as a float": (lambda m: m.evaluate(X, Y, folds=2.0), "got 2.0"),
    "half a fold": (lambda m: m.evaluate(X, Y, folds=2.5), "got 2.5"),
    "many folds": (lambda m: m.evaluate(X, Y, folds=26), "group 0 has 50 rows"),
    "k": (lambda m: m.sparse(9), "1 to 4; got 9"),
    "k to truncate": (lambda m: m.truncated(0), "1 to 4; got 0"),
    "the count": (lambda m: m.sparse(2, "some"), "got 'some'"),
    "the count of a path": (lambda m: m.path_.counts("some"), "got 'some'"),
    "a count of means": (
        lambda m: DifferenceOfMeans(PLANE).fit(X, Y).sparse(2, "mean"),
        "count='each'",
    ),
    "shapes": (lambda m: Translations.of(np.zeros(3), [0, 1]), "a row for each of 2 groups"),
    "names": (
        lambda m: Translations.of(np.zeros((2, 3)), [0, 1], ["a"]),
        "a name and a cost for each of 3",
    ),
    "not finite": (lambda m: Translations.of(np.full((2, 3), np.nan), [0, 1]), "finite offsets"),
    "others": (
        lambda m: similarity(m.translations_, Translations.of(np.zeros((2, 4)), [0, 1])),
        "of the same groups and features",
    ),
    "judged groups": (
        lambda m: m.judge(X, Y, Translations.of(np.zeros((3, 4)), [2, 1, 0])),
        "groups 0, 1, 2, in this order; got 2, 1, 0",
    ),
    "judged features": (
        lambda m: m.judge(X, Y, Translations.of(np.zeros((3, 5)), [0, 1, 2])),
        "of 4 features; got 5",
    ),
    "no such key": (
        lambda m: from_anndata(type("A", (), {"uns": {}})()),
        "uns['group_translations']",
    ),
    "polygons in space": (lambda m: Groups.from_polygons(X, [X[:3, :2]]), "of shape (n, 2)"),
    "an empty polygon": (
        lambda m: Groups.from_polygons(X[:, :2], {"far": [[90, 90], [91, 90], [90, 91]]}),
        "group 'far' has 0",
    ),
    "a map of one dimension": (
        lambda m: fit(space=PCA(1).fit(X)).plot_map(X, Y, 0, 1),
        "at least two dimensions",
    ),
    "axes": (lambda m: m.path_.plot(ax="here"), "Expected 1 matplotlib axes"),
    "curves": (lambda m: plot_curves([1, 2], {"ours": [m.judge(X, Y)]}), "2 qualities of 'ours'"),
}


@pytest.mark.parametrize("name", LATER)
def test_what_cannot_be_answered_is_said(name: str, model: GroupTranslations):
    call, words = LATER[name]
    with pytest.raises(InvalidInput) as caught:
        call(model)
    assert words in str(caught.value)


def test_before_a_fit_there_is_no_answer():
    for one in (GroupTranslations(PLANE), DifferenceOfMeans(PLANE)):
        other = Translations.of(np.zeros((3, 4)), [0, 1, 2])
        calls = (
            one.sentences,
            one.to_frame,
            partial(one.sparse, 1),
            partial(one.judge, X, Y, other),
        )
        for call in calls:
            with pytest.raises(ModelNotFitted, match="has not been fitted"):
                call()


def test_a_column_of_obs_has_to_be_there():
    class AnnData:
        X = X
        obs = pd.DataFrame({"kind": Y})
        var_names = pd.Index(list("abcd"))

    with pytest.raises(InvalidInput, match="got 'cluster', and there are kind"):
        fit(AnnData(), "cluster")


def test_an_extra_that_is_missing_is_named(
    model: GroupTranslations, monkeypatch: pytest.MonkeyPatch
):
    for missing in ("matplotlib", "matplotlib.pyplot", "torch"):
        monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[plots\]'"):
        model.path_.plot()
    with pytest.raises(MissingExtra, match=r"pip install '\.\[torch\]'"):
        TorchFunction(lambda rows: rows, 4)


def test_an_affine_map_is_read_as_it_is():
    space = Affine(np.eye(4)[:, :2], np.zeros(2))
    assert represent(space) is space


@pytest.mark.parametrize("kind", [list, np.float32, sparse.csr_matrix])
def test_an_affine_map_may_be_given_as_anything_like_an_array(kind: Any):
    matrix = np.random.default_rng(0).normal(size=(4, 2))
    offset = sparse.csr_matrix(X).mean(axis=0) @ matrix  # (1, 2)
    found = fit(space=Affine(kind(matrix), offset), k=2).translations_
    assert (
        found.columns.tolist()
        == fit(space=Affine(matrix, offset), k=2).translations_.columns.tolist()
    )
