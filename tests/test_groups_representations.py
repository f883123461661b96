"""Representations: what is read of a model is what the model does, and so are its derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import (
    PCA,
    FactorAnalysis,
    FastICA,
    IncrementalPCA,
    KernelPCA,
    TruncatedSVD,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from torch import nn

from counterpoint.errors import InvalidInput, UnsupportedModel
from counterpoint.groups import (
    Affine,
    Composed,
    FiniteDifferences,
    GroupTranslations,
    Network,
    Representation,
    TorchFunction,
    represent,
)
from counterpoint.groups.representations import stages

X, Y = load_iris(return_X_y=True)
TRANSFORMERS: dict[str, Any] = {
    "StandardScaler": StandardScaler(),
    "StandardScaler, no mean": StandardScaler(with_mean=False),
    "StandardScaler, no scale": StandardScaler(with_std=False),
    "RobustScaler": RobustScaler(),
    "RobustScaler, no centre": RobustScaler(with_centering=False),
    "MinMaxScaler": MinMaxScaler(feature_range=(-1, 3)),
    "MaxAbsScaler": MaxAbsScaler(),
    "PCA": PCA(2),
    "PCA, whitened": PCA(2, whiten=True),
    "IncrementalPCA": IncrementalPCA(2, whiten=True),
    "TruncatedSVD": TruncatedSVD(2, random_state=0),
    "FastICA": FastICA(2, random_state=0, whiten="unit-variance"),
    "FactorAnalysis": FactorAnalysis(2),
    "LDA, svd": LinearDiscriminantAnalysis(n_components=1),
    "LDA, eigen": LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1),
    "NCA": NeighborhoodComponentsAnalysis(2, random_state=0, max_iter=20),
    "pipeline": make_pipeline(
        StandardScaler(), "passthrough", PCA(3), MinMaxScaler(), LinearDiscriminantAnalysis()
    ),
}


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))


def as_network(module: nn.Sequential) -> Network:
    layers = [step for step in module if isinstance(step, nn.Linear)]
    weights = [layer.weight.detach().numpy().T for layer in layers]
    return Network(weights, [layer.bias.detach().numpy() for layer in layers], "tanh")


def first_two(rows: np.ndarray) -> np.ndarray:
    return np.column_stack([rows[:, 0] * rows[:, 1], np.sin(rows[:, 2]) + rows[:, 3] ** 2])


class Twisted(Representation):
    """One of a user's own."""

    @property
    def n_features(self) -> int:
        return 4

    def vjp(self, X: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        def pull(C: np.ndarray) -> np.ndarray:
            slopes = [X[:, 1] * C[:, 0], X[:, 0] * C[:, 0], np.cos(X[:, 2]) * C[:, 1]]
            return np.column_stack([*slopes, 2.0 * X[:, 3] * C[:, 1]])

        return first_two(X), pull


REPRESENTATIONS: dict[str, Callable[[], Representation]] = {
    "affine": lambda: Affine(np.arange(8.0).reshape(4, 2), np.ones(2)),
    "composed": lambda: Composed(
        Affine(sparse.diags_array(np.arange(1.0, 5.0), format="csr")), Twisted()
    ),
    "network": lambda: as_network(net()),
    "network, its inputs activated": lambda: Network(
        [np.eye(4)[:, :3]], [np.zeros(3)], "elu", activates_inputs=True
    ),
    "network, one layer": lambda: Network([np.eye(4)[:, :2]], [np.ones(2)]),
    "differences": lambda: FiniteDifferences(first_two, 4),
    "own": Twisted,
    "torch": lambda: represent(net()),
    "torch function": lambda: TorchFunction(nn.Sequential(*list(net())).double(), 4),
    "torch, linear": lambda: represent(nn.Linear(4, 2)),
    "torch, one step": lambda: represent(nn.Sequential(nn.Linear(4, 2, bias=False))),
    "MLP": lambda: represent(
        MLPRegressor(
            hidden_layer_sizes=(5,), activation="tanh", max_iter=5000, tol=1e-2, random_state=0
        ).fit(X, X[:, :2])
    ),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("framed", [False, True])
def test_what_is_read_is_what_the_transformer_does(name: str, framed: bool):
    rows = pd.DataFrame(X, columns=list("abcd")) if framed else X
    model = TRANSFORMERS[name].fit(rows, Y)
    read = represent(model)
    assert isinstance(read, Affine)
    np.testing.assert_allclose(read.vjp(X)[0], model.transform(rows), rtol=1e-9, atol=1e-9)
    assert read.n_features == 4


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_gradients_are_those_of_differences(name: str):
    model = REPRESENTATIONS[name]()
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(7, model.n_features))
    values, pull = model.vjp(rows)
    C = rng.normal(size=values.shape)
    slopes = pull(C)
    assert slopes.shape == rows.shape
    for j in range(rows.shape[1]):
        step = np.zeros(rows.shape)
        step[:, j] = 1e-6
        change = (model.vjp(rows + step)[0] - model.vjp(rows - step)[0]) / 2e-6
        np.testing.assert_allclose(slopes[:, j], (change * C).sum(axis=1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_taken_apart_a_representation_stays_what_it_is(name: str):
    model = REPRESENTATIONS[name]()
    parts, rows = stages(model), np.random.default_rng(1).normal(size=(9, 4))
    np.testing.assert_allclose(parts.values(rows), model.vjp(rows)[0], atol=1e-12)
    np.testing.assert_allclose(parts.values(sparse.csr_array(rows)), model.vjp(rows)[0], atol=1e-12)
    values, pull = parts.pull(parts.hidden(rows))
    C = np.ones(values.shape)
    back = pull(C) @ np.asarray((parts.first.matrix @ np.eye(parts.first.matrix.shape[1])).T)
    np.testing.assert_allclose(back, model.vjp(rows)[1](C), atol=1e-6)


@pytest.mark.parametrize("name", ["elu", "identity", "logistic", "relu", "tanh"])
def test_activations_are_those_of_torch(name: str):
    rows = np.linspace(-4.0, 4.0, 101)[:, None] + 1e-3
    tensor = torch.tensor(rows, requires_grad=True)
    functions = {"elu": nn.functional.elu, "logistic": torch.sigmoid, "identity": torch.clone}
    expected = functions.get(name, getattr(torch, name, None))(tensor)
    expected.sum().backward()
    values, pull = Network([np.eye(1)], [np.zeros(1)], name, activates_inputs=True).vjp(rows)
    np.testing.assert_allclose(values, expected.detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(pull(np.ones(rows.shape)), tensor.grad.numpy(), atol=1e-12)


def test_a_torch_module_is_the_network_of_its_weights():
    module = net(3)
    rows = np.random.default_rng(0).normal(size=(5, 4))
    np.testing.assert_allclose(
        represent(module).vjp(rows)[0], as_network(module).vjp(rows)[0], atol=1e-12
    )
    assert module[0].weight.dtype == torch.float32  # the module itself is left as it was
    assert module.training


def test_of_a_module_and_of_its_network_the_answer_is_the_same():
    module = net(5)
    offsets = [
        GroupTranslations(space, k=2, strengths=3).fit(X, Y).translations_.offsets
        for space in (module, as_network(module))
    ]
    np.testing.assert_allclose(*offsets, rtol=1e-4, atol=1e-6)


def test_what_an_encoder_needs_beside_rows_goes_into_a_function():
    """As encoders of counts do: logarithms first, a batch, the mean of several outputs."""
    module = net(1).double().eval()

    def encode(rows: Any) -> Any:
        return module(torch.log1p(rows.clamp(min=0.0)) * 2.0)

    model = GroupTranslations(TorchFunction(encode, 4), k=2, strengths=[3.0, 1.0]).fit(X, Y)
    assert model.translations_.counts.max() <= 2


def test_scalers_before_a_network_are_folded_into_its_first_layer():
    scaler = StandardScaler().fit(X)
    read = Composed(represent(scaler), as_network(net()))
    parts = stages(read)
    assert parts.first.matrix.shape == (4, 6)
    expected = as_network(net()).vjp(scaler.transform(X))[0]
    np.testing.assert_allclose(parts.values(X), expected, atol=1e-12)


@pytest.mark.parametrize("count", [7, 200])
def test_finite_differences_take_all_rows_in_two_calls(count: int):
    rng = np.random.default_rng(0)
    net = Network([rng.normal(size=(5, 4)), rng.normal(size=(4, 2))], [np.ones(4), np.zeros(2)])
    calls = []

    def function(rows: np.ndarray) -> np.ndarray:
        calls.append(len(rows))
        return np.tanh(net.vjp(rows)[0])

    X, C = rng.normal(size=(count, 5)), rng.normal(size=(count, 2))
    _, pull = FiniteDifferences(function, 5, step=np.geomspace(1e-6, 1e-5, 5)).vjp(X)
    found, _ = pull(C), pull(2.0 * C)
    assert calls == [count, 10 * count]
    values, back = net.vjp(X)
    np.testing.assert_allclose(found, back(C / np.cosh(values) ** 2), rtol=1e-5, atol=1e-8)


def test_a_function_is_called_seldom_for_fits_as_good():
    network, calls = as_network(net()), []

    def function(rows: np.ndarray) -> np.ndarray:
        calls.append(len(rows))
        return network.vjp(rows)[0]

    exact, blind = (
        GroupTranslations(space, k=2, strengths=4).fit(X, Y)
        for space in (network, FiniteDifferences(function, 4))
    )
    ended, expected = ([one.objective for one in m.path_.fits] for m in (blind, exact))
    assert ended == pytest.approx(expected, rel=1e-3)
    assert len(calls) < 600


BENT: dict[str, Any] = {
    "kernel PCA": KernelPCA(2, kernel="poly"),
    "powers": PowerTransformer(),
    "quantiles": QuantileTransformer(n_quantiles=100),
}


@pytest.mark.parametrize("name", BENT)
@pytest.mark.parametrize("place", ["first", "alone", "last"])
def test_transformers_that_bend_are_refused_with_what_to_do(name: str, place: str):
    bent = clone(BENT[name])
    steps = {"first": [bent, PCA(2)], "alone": [bent], "last": [MinMaxScaler(), bent]}[place]
    model = make_pipeline(*steps).fit(X)
    with pytest.raises(UnsupportedModel, match=r"FiniteDifferences\(model.transform, features\)"):
        represent(model)


@pytest.mark.parametrize("name", BENT)
def test_groups_are_explained_through_a_transformer_that_bends_by_differences(name: str):
    bent = clone(BENT[name])
    steps = [StandardScaler(), bent] if name == "kernel PCA" else [bent, PCA(2)]
    model = make_pipeline(*steps).fit(X)
    # The slopes of quantiles say little: differences over a tenth of the range cross many.
    step = 0.1 * np.ptp(X, axis=0) if name == "quantiles" else 1e-5
    space = FiniteDifferences(model.transform, 4, step=step)
    explained = GroupTranslations(space, k=3, strengths=5).fit(X, Y)
    quality = explained.judge(X, Y)
    assert quality.mean(quality.correctness) > quality.mean(quality.unchanged) + 0.5
    assert explained.translations_.counts.max() <= 3
    losses = explained.path_.to_frame()["loss"].to_numpy()
    assert losses[-1] < 0.05 * losses[0]


def test_features_without_loadings_count_as_0():
    wide = np.column_stack([X, X[:, 0]])
    loadings = np.random.default_rng(0).normal(size=(5, 2))
    loadings[[1, 4]] = np.nan
    zeros = Affine(np.nan_to_num(loadings))
    assert zeros.offset.tolist() == [0.0, 0.0]
    says = "^2 of 5 features have no loadings .NaN.: they count as 0, and no explanation changes"
    with pytest.warns(UserWarning, match=says) as caught:
        space = Affine(loadings)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="So does the offset, which is NaN with them"):
        moved = Affine(loadings, -wide.mean(axis=0) @ loadings)
    for one in (space, moved):
        np.testing.assert_array_equal(one.matrix, zeros.matrix)
        np.testing.assert_array_equal(one.offset, zeros.offset)
    columns = GroupTranslations(space, k=2, strengths=5).fit(wide, Y).translations_.columns
    assert {*columns.tolist()} <= {0, 2, 3}
    assert Affine(loadings[[0, 2]], 3.0).offset.tolist() == [3.0, 3.0]
    loadings[0, 1] = np.nan
    for bad, offset in ((loadings, 0.0), (loadings[[1, 4]], 0.0), (loadings[1:], [0.0, np.nan])):
        with pytest.raises(InvalidInput, match="Expected finite numbers in an affine map"):
            Affine(bad, offset)


def test_a_module_that_does_not_say_its_width_is_refused():
    with pytest.raises(InvalidInput, match="ReLU takes, and it does not begin with"):
        represent(nn.ReLU())


def test_a_composition_with_nothing_behind_the_map_is_the_map():
    alone = Composed(Affine(np.eye(2)), None)
    assert stages(alone) is alone
