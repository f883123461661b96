"""The last layer of a torch classifier: read as it is, and explained by torch's own word."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.optimize import linprog, nnls
from scipy.sparse import block_diag
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import counterpoint as cp
from counterpoint.models import read
from counterpoint.models.linear import LinearScores, Link
from counterpoint.rows.features import Continuous, Features
from counterpoint.testing import check_reader

WIDTH = 4
NAMES = ["a", "b", "c", "d"]
LABELS = ["deny", "maybe", "accept", "call", "wait"]
OUTPUTS = (1, 2, 3, 5)
SINGLE = float(np.finfo(np.float32).eps)


def norm(width: int, **options: Any) -> nn.BatchNorm1d:
    """Batch normalization that has seen data and was trained."""
    made = nn.BatchNorm1d(width, **options)
    made(3.0 * torch.randn(50, width) + 1.0)
    if made.weight is not None:
        nn.init.normal_(made.weight)
        nn.init.normal_(made.bias)
    return made


def link(outputs: int) -> nn.Module:
    return nn.Sigmoid() if outputs == 1 else nn.Softmax(dim=1)


def chain(outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        norm(WIDTH),
        nn.Linear(WIDTH, 7, bias=False),
        nn.Sequential(nn.Dropout(0.5), norm(7, affine=False), nn.Identity(), nn.AlphaDropout(0.5)),
        nn.Linear(7, outputs),
        nn.Dropout(0.1),
        link(outputs),
    )


MODULES: dict[str, Callable[[int], nn.Module]] = {
    "linear": lambda k: nn.Linear(WIDTH, k),
    "without bias": lambda k: nn.Linear(WIDTH, k, bias=False),
    "with link": lambda k: nn.Sequential(nn.Linear(WIDTH, k), link(k)),
    "chain": chain,
    "the same module twice": lambda k: nn.Sequential(
        *[nn.Linear(WIDTH, WIDTH)] * 2, nn.Linear(WIDTH, k)
    ),
    "parametrized": lambda k: nn.utils.parametrizations.spectral_norm(nn.Linear(WIDTH, k)),
}
everywhere = pytest.mark.parametrize("name", MODULES)
outputs_of = pytest.mark.parametrize("outputs", OUTPUTS)


def made(name: str, outputs: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(outputs)
    return MODULES[name](outputs).to(dtype)


def labels(outputs: int) -> list[str]:
    return LABELS[: max(outputs, 2)]


def rows(n: int = 60) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, WIDTH)) * 3.0 + 1.0


def own_probabilities(module: nn.Module, X: np.ndarray) -> np.ndarray:
    """What torch says, all rows at once, with the link of the module itself if it has one."""
    dtype = next(module.parameters()).dtype
    with torch.no_grad():
        out = module.eval()(torch.tensor(X, dtype=dtype))
    if not isinstance(module, nn.Sequential) or isinstance(module[-1], nn.Linear):
        out = link(out.shape[1])(out)
    shares = out.double().numpy()
    return np.hstack([1.0 - shares, shares]) if shares.shape[1] == 1 else shares


# --- what is read ---


@outputs_of
@everywhere
def test_the_form_is_the_module(name: str, outputs: int):
    model = cp.LastLayer(made(name, outputs, torch.float64), classes=labels(outputs))
    plain = Features(Continuous(f"x{j}") for j in range(WIDTH))
    check_reader(model, rows(300), features=plain)
    named = cp.LastLayer(made(name, outputs, torch.float64), labels(outputs), names=NAMES)
    check_reader(named, pd.DataFrame(rows(300), columns=NAMES)[NAMES[::-1]])


@outputs_of
@everywhere
def test_a_float32_module_is_read_up_to_its_own_rounding(name: str, outputs: int):
    model = cp.LastLayer(made(name, outputs))
    form = read(model)
    assert isinstance(form, LinearScores)
    assert form.link is Link.SOFTMAX
    X = rows(300)
    found = X @ form.matrix.T + form.offset
    found = found[:, 1] - found[:, 0] if outputs <= 2 else found
    np.testing.assert_allclose(model.decision_function(X), found, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@outputs_of
@everywhere
def test_it_says_what_the_module_says(name: str, outputs: int, dtype: torch.dtype):
    module = made(name, outputs, dtype)
    model = cp.LastLayer(module, classes=labels(outputs))
    X = rows(300)
    expected = own_probabilities(module, X)
    found = model.predict_proba(X)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * torch.finfo(dtype).eps)
    sure = np.abs(np.diff(np.sort(expected, axis=1)[:, -2:])).ravel() > 1e-5
    assert sure.mean() > 0.9
    assert (model.predict(X) == model.classes_[expected.argmax(axis=1)])[sure].all()
    scores = model.decision_function(X)
    best = scores.argmax(axis=1) if outputs > 2 else (scores > 0).astype(int)
    assert (model.predict(X) == model.classes_[best]).all()


def test_log_softmax_and_one_output_as_an_array_of_them():
    for end in (nn.LogSoftmax(dim=-1), nn.Softmax(dim=None)):
        check_reader(cp.LastLayer(nn.Sequential(nn.Linear(WIDTH, 3), end).double()), rows())
    for start in (0, 1, -1):
        module = nn.Sequential(nn.Linear(WIDTH, 1), nn.Flatten(start), nn.Sigmoid()).double()
        model = cp.LastLayer(module)
        check_reader(model, rows())
        with torch.no_grad():
            expected = module(torch.tensor(rows())).numpy().ravel()
        np.testing.assert_allclose(model.predict_proba(rows())[:, 1], expected, rtol=1e-12)


@everywhere
def test_a_row_is_judged_alone(name: str):
    """Torch rounds otherwise in batches of other sizes; an answer must not depend on that."""
    X = rows(97)
    for outputs in OUTPUTS:
        model = cp.LastLayer(made(name, outputs))
        for method in (model.predict, model.predict_proba, model.decision_function):
            alone = np.concatenate([method(row[None, :]) for row in X])
            np.testing.assert_array_equal(method(X), alone)
            np.testing.assert_array_equal(method(X[::-1]), alone[::-1])
            assert method(X[:0]).shape == (0, *alone.shape[1:])


def test_a_tie_goes_to_the_first_class():
    for outputs in OUTPUTS:
        module = nn.Linear(WIDTH, outputs)
        nn.init.zeros_(module.weight)
        nn.init.zeros_(module.bias)
        model = cp.LastLayer(module, classes=labels(outputs))
        assert model.predict(rows()).tolist() == ["deny"] * len(rows())
        assert read(model).predict(rows()).tolist() == ["deny"] * len(rows())


# --- the module stays as it is, and so does the copy ---


def test_the_module_itself_is_left_alone():
    module = chain(3)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = cp.LastLayer(module)
    model.predict(rows())
    assert module.training
    assert all(value.requires_grad for value in module.parameters())
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_training_further_changes_the_model_only_when_it_is_copied_anew():
    module = nn.Linear(WIDTH, 3).double()
    model = cp.LastLayer(module)
    before, form = model.decision_function(rows()), read(model)
    with torch.no_grad():
        module.weight.mul_(2.0).add_(1.0)
    np.testing.assert_array_equal(model.decision_function(rows()), before)
    assert (read(model).matrix == form.matrix).all()
    check_reader(model, rows())
    model.fit()
    assert (read(model).matrix == 2.0 * form.matrix + 1.0).all()
    check_reader(model, rows())


def test_it_is_an_estimator():
    model = cp.LastLayer(chain(3), classes=LABELS[:3], names=NAMES)
    for other in (clone(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        np.testing.assert_array_equal(other.predict_proba(rows()), model.predict_proba(rows()))
        assert other.feature_names_in_.tolist() == NAMES
    assert model.score(rows(), model.predict(rows())) == 1.0
    assert model.n_features_in_ == WIDTH
    assert not hasattr(cp.LastLayer(chain(3)), "feature_names_in_")


def test_at_the_end_of_a_pipeline_it_is_explained_in_raw_columns():
    frame = pd.DataFrame(rows(200) * [1e3, 1.0, 0.1, 1.0], columns=NAMES)
    torch.manual_seed(0)
    model = make_pipeline(StandardScaler(), cp.LastLayer(nn.Linear(WIDTH, 3).double()))
    model.fit(frame, np.zeros(len(frame)))
    check_reader(model, frame)
    answers = cp.explain(model, frame[:20], 1, data=frame, extrapolate=True)
    assert (model.predict(answers.to_frame()) == 1).all()


# --- explanations ---

COSTS = {"squared euclidean": cp.SquaredEuclidean(), "manhattan": cp.Manhattan()}
FRAMES: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda X: X,
    "float32 array": lambda X: X.astype(np.float32),
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "float32 pandas": lambda X: pd.DataFrame(X.astype(np.float32), columns=NAMES),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
}


def rounding(model: Any, answers: cp.Counterfactuals, X: np.ndarray) -> np.ndarray:
    """(n,): what a bound may lack of the cost: float32 scores and cells, and the lead."""
    form = read(model)
    rows_of = form.matrix[:, None] - form.matrix
    steepness = np.abs(rows_of).max(axis=2)[~np.eye(len(form.matrix), dtype=bool)].min()
    size = (np.abs(X) @ np.abs(form.matrix.T) + np.abs(form.offset)).max(axis=1) + 1.0
    reach = (100.0 * SINGLE * size + 2.0 * answers.certificates.rounding) / steepness
    return reach * (1.0 + 2.0 * np.sqrt(answers.cost)) + 1e-6 * answers.cost


def scores_of(module: nn.Module) -> tuple[np.ndarray, np.ndarray]:
    """W and b of the scores W x + b of an affine module, by asking it; one output z is (0, z)."""
    module = module.eval()
    bare = module[:-1] if isinstance(module, nn.Sequential) else module
    with torch.no_grad():
        b, *others = bare(torch.tensor(np.vstack([np.zeros(WIDTH), np.eye(WIDTH)]))).numpy()
    W = np.stack([other - b for other in others], axis=1)
    return (W, b) if len(b) > 1 else (np.vstack([0.0 * W, W]), np.array([0.0, b[0]]))


def least_costs(
    scores: tuple[np.ndarray, np.ndarray], X: np.ndarray, k: int, safety_margin: float, cost: str
) -> np.ndarray:
    """(n,) what it costs at least that score k leads by so much.

    By HiGHS, all rows in one program, or by Lawson and Hanson's reduction to least squares.
    """
    W, b = scores
    others = [j for j in range(len(b)) if j != k]
    G = W[k] - W[others]
    short = safety_margin - (b[k] - b[others]) - X @ G.T  # G δ must be at least so much
    if cost == "manhattan":
        count = np.ones(2 * WIDTH * len(X))
        rows_of = block_diag([np.hstack([-G, G])] * len(X), format="csr")
        found = linprog(count, A_ub=rows_of, b_ub=-short.ravel(), method="highs")
        assert found.status == 0
        return found.x.reshape(len(X), -1).sum(axis=1)
    out = np.zeros(len(X))
    for i, needed in enumerate(short):
        if needed.max() > 0.0:
            system = np.vstack([G.T, needed])
            off = system @ nnls(system, np.eye(WIDTH + 1)[-1])[0] - np.eye(WIDTH + 1)[-1]
            out[i] = ((off[:-1] / off[-1]) ** 2).sum()
    return out


@pytest.mark.covering(1)
@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("kind", FRAMES)
@outputs_of
def test_every_class_is_reached_by_torchs_own_word(outputs: int, kind: str, cost: str):
    """A float32 module on float64 and float32 frames: valid, and as near as float32 can say."""
    X = FRAMES[kind](rows(40))
    for name in ("linear", "chain"):
        names = NAMES if outputs == 3 else None
        model = cp.LastLayer(made(name, outputs), labels(outputs), names)
        exact = scores_of(made(name, outputs, torch.float64))
        values = np.asarray(X, dtype=np.float64)
        for k, label in enumerate(labels(outputs)):
            answers = cp.explain(model, X, label, data=X, extrapolate=True, cost=COSTS[cost])
            assert answers.found.all()
            assert (model.predict(answers.to_frame()) == label).all()
            allowed = rounding(model, answers, rows(40))
            safety_margin = 4.0 * float(answers.certificates.rounding.max())
            best = least_costs(exact, values, k, 0.0, cost)
            ahead = least_costs(exact, values, k, safety_margin, cost)
            assert (answers.bound <= best + allowed).all()
            assert (best - allowed <= answers.cost).all()
            assert (answers.cost <= ahead + allowed).all()


@pytest.mark.covering(1)
@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_probability_is_reached_by_torchs_own_word(outputs: int, kind: str):
    X = FRAMES[kind](rows(40))
    for name in ("linear", "with link", "chain"):
        model = cp.LastLayer(made(name, outputs), labels(outputs))
        for column, label in enumerate(labels(outputs)):
            for least in (0.3, 0.9, 0.999):
                target = cp.Probability(label, least)
                answers = cp.explain(
                    model, X, target, data=X, extrapolate=True, cost=cp.SquaredEuclidean()
                )
                assert answers.found.all()
                shares = model.predict_proba(answers.to_frame())[:, column]
                assert (shares >= least).all()
                allowed = rounding(model, answers, rows(40))
                # where a probability is near 1, float32 tells log-odds apart by this much only
                allowed = allowed * (1.0 + 0.1 / (1.0 - least))
                assert (answers.cost - answers.bound <= allowed).all()


def test_large_numbers_that_float32_can_hardly_tell_apart():
    """Batch normalization of numbers near 1e6: float32 steps are 1/16 there."""
    torch.manual_seed(0)
    first = norm(WIDTH)
    first.running_mean += 1e6
    model = cp.LastLayer(nn.Sequential(first, nn.Linear(WIDTH, 3)))
    X = 1e6 + rows(40)
    for label in model.classes_:
        answers = cp.explain(model, X, label, cost=cp.Manhattan())
        assert answers.found.all()
        assert (model.predict(answers.to_frame()) == label).all()


def test_a_margin_holds_in_batches_too():
    torch.manual_seed(0)
    module = nn.Linear(64, 5)
    X = np.random.default_rng(0).normal(size=(100, 64))
    answers = cp.explain(cp.LastLayer(module), X, cp.Label(3, margin=1e-4), cost=cp.Manhattan())
    assert answers.found.all()
    with torch.no_grad():
        scores = module(torch.tensor(answers.to_frame(), dtype=torch.float32))
    assert (scores.argmax(dim=1) == 3).all()


def test_constraints_whole_numbers_and_conflicts():
    torch.manual_seed(1)
    frame = pd.DataFrame(rows(30), columns=NAMES).assign(b=np.arange(30) % 5)
    model = cp.LastLayer(nn.Linear(WIDTH, 1), classes=[False, True], names=NAMES)
    answers = cp.explain(
        model, frame, True, data=frame, extrapolate=True, constraints=[cp.Immutable("a")]
    )
    after = answers.to_frame()
    assert answers.found.all()
    assert model.predict(after).all()
    assert (after["a"] == frame["a"]).all()
    assert after["b"].dtype == frame["b"].dtype
    fixed = cp.explain(
        model, frame, True, data=frame, extrapolate=True, constraints=[cp.Immutable(*NAMES)]
    )
    assert (fixed.found == model.predict(frame)).all()


# --- inputs ---


def test_frames_go_by_name_and_arrays_by_position():
    model = cp.LastLayer(made("linear", 3), names=NAMES)
    frame = pd.DataFrame(rows(), columns=NAMES).assign(more="text")
    expected = model.predict(rows())
    for same in (frame[["more", *NAMES[::-1]]], pl.DataFrame(rows(), schema=NAMES)):
        np.testing.assert_array_equal(model.predict(same), expected)
    plain = cp.LastLayer(made("linear", 3))
    for same in (frame[NAMES], rows().tolist(), torch.tensor(rows())):
        np.testing.assert_array_equal(plain.predict(same), expected)
    with pytest.raises(cp.InvalidInput, match=r"missing: 'd'"):
        model.predict(frame[NAMES[:3]])


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (np.zeros(WIDTH), r"Expected rows of 4 features; got shape \(4,\)"),
        (np.zeros((2, 3)), r"Expected rows of 4 features; got shape \(2, 3\)"),
        (np.full((2, WIDTH), np.nan), r"finite numbers that fit into float32; .* Fill in"),
        (np.full((2, WIDTH), 1e39), "finite numbers that fit into float32"),
    ],
)
def test_rows_that_it_does_not_take(X: np.ndarray, sentence: str):
    model = cp.LastLayer(nn.Linear(WIDTH, 2))
    with pytest.raises(cp.InvalidInput, match=sentence):
        model.predict(X)


def test_a_row_with_a_missing_cell_is_invalid_and_costs_no_other():
    X = rows(5)
    X[2, 1] = np.nan
    answers = cp.explain(cp.LastLayer(made("linear", 3)), X, 1, cost=cp.Manhattan())
    assert answers.found.tolist() == [True, True, False, True, True]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"classes": ["a"]}, r"Expected 3 different classes, one for each output; got \['a'\]"),
        ({"classes": ["a", "b", "a"]}, "Expected 3 different classes"),
        ({"names": ["a", "b"]}, "Expected 4 names, one for each input of the module; got 2"),
        ({"names": ["a", "b", "c", "a"]}, "Expected distinct feature names"),
        ({"module": "fc"}, r"Expected a torch\.nn\.Module, .* got 'fc'"),
        ({"module": nn.Linear}, r"Expected a torch\.nn\.Module"),
        (
            {"module": nn.Linear(2, 1), "classes": [0]},
            "Expected 2 different classes, as the one output decides between two; got",
        ),
        (
            {"module": nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 2))},
            "got one with 3 outputs before one that takes 4",
        ),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], sentence: str):
    with pytest.raises(cp.InvalidInput, match=sentence):
        cp.LastLayer(**{"module": nn.Linear(WIDTH, 3), **arguments})


def test_labels_keep_their_kind():
    assert cp.LastLayer(nn.Linear(2, 1)).classes_.tolist() == [0, 1]
    assert cp.LastLayer(nn.Linear(2, 3)).classes_.tolist() == [0, 1, 2]
    assert cp.LastLayer(nn.Linear(2, 1), [False, True]).classes_.dtype == bool
    mixed = cp.LastLayer(nn.Linear(2, 2), np.array(["no", 1], dtype=object))
    assert mixed.classes_.tolist() == ["no", 1]


# --- refusals ---


class Net(nn.Module):
    """The usual way to write one."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 5), nn.ReLU())
        self.heads = nn.ModuleList([nn.Linear(5, 3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.heads[0](self.body(x))


class Scaled(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2.0 * super().forward(x)


class Renamed(nn.Linear):
    """A forward that is that of its base is known."""


def patched() -> nn.Module:
    module = nn.Linear(4, 3)
    module.forward = lambda x: x
    return module


def hooked() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 3))
    module[0].register_forward_hook(lambda module, args, out: -out)
    return module


def hooked_outside() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 3))
    module.register_forward_pre_hook(lambda module, args: args)
    return module


def diverged() -> nn.Module:
    module = nn.Linear(4, 3)
    nn.init.constant_(module.weight, float("nan"))
    return module


REFUSED = [
    (Net, r"module is Net; what its forward does cannot be known\. .*LastLayer\(module\.heads\[0"),
    (
        lambda: Scaled(4, 3),
        "module is Scaled; what its forward does cannot be known. Pass the last",
    ),
    (patched, "module is Linear; what its forward does cannot be known"),
    (
        lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3), nn.Softmax(1)),
        r"module\[1\] is ReLU; expected .* Linear alone\. Pass .*cp\.LastLayer\(module\[2\]\), and",
    ),
    (
        lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 5), nn.Tanh()), nn.Linear(5, 3)),
        r"module\[0\]\[1\] is Tanh.*cp\.LastLayer\(module\[1\]\)",
    ),
    (
        lambda: nn.Sequential(nn.Linear(4, 5), nn.Sigmoid(), nn.Linear(5, 1)),
        r"module\[1\] is Sigmoid; .*cp\.LastLayer\(module\[2\]\)",
    ),
    (lambda: nn.Sequential(nn.Conv1d(1, 1, 1), nn.Linear(4, 3)), r"module\[0\] is Conv1d"),
    (
        lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU()),
        r"module\[1\] is ReLU; expected at most one of LogSoftmax, Sigmoid, Softmax after the last",
    ),
    (
        lambda: nn.Sequential(nn.Linear(4, 3), nn.Softmax(1), nn.LogSoftmax(1)),
        "expected at most one of",
    ),
    (nn.ReLU, r"module is ReLU; expected .* before it and explain"),
    (nn.Sequential, r"Sequential has no nn\.Linear"),
    (lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Softmax(1)), r"has no nn\.Linear"),
    (lambda: nn.Sequential(nn.Linear(4, 3), nn.Sigmoid()), "3 outputs decides on each of them"),
    (lambda: nn.Sequential(nn.Linear(4, 1), nn.Softmax(1)), "over one output gives the same"),
    (lambda: nn.Sequential(nn.Linear(4, 3), nn.Softmax(0)), "dim=0 compares rows"),
    (lambda: nn.Sequential(nn.Linear(4, 3), nn.Flatten(0)), "start_dim=0 joins rows"),
    (lambda: nn.Sequential(nn.Flatten(0), nn.Linear(4, 1)), "start_dim=0 joins rows"),
    (
        lambda: nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 3)),
        "BatchNorm1d keeps no running statistics",
    ),
    (hooked, "Linear has a hook"),
    (hooked_outside, "Sequential has a hook"),
    (diverged, "Linear has weights that are not finite"),
    (lambda: nn.Linear(4, 3).bfloat16(), "Linear computes in bfloat16; expected float32 or"),
    (
        lambda: nn.Sequential(nn.Linear(4, 4).double(), nn.Linear(4, 3)),
        "Sequential computes in float32 and float64",
    ),
]


@pytest.mark.parametrize(("make", "sentence"), REFUSED)
def test_what_cannot_be_read_exactly_is_refused(make: Callable[[], Any], sentence: str):
    with pytest.raises(cp.UnsupportedModel, match=sentence):
        cp.LastLayer(make())


def test_a_lazy_layer_that_has_seen_nothing():
    module = nn.Sequential(nn.LazyLinear(3))
    with pytest.raises(cp.ModelNotFitted, match="LazyLinear has no weights before it has seen"):
        cp.LastLayer(module)
    module(torch.zeros(1, WIDTH))
    check_reader(cp.LastLayer(module.double()), rows())


def test_a_subclass_that_changes_nothing_is_read():
    check_reader(cp.LastLayer(Renamed(WIDTH, 3).double()), rows())


@pytest.mark.parametrize("module", [nn.Linear(WIDTH, 3), Net()])
@pytest.mark.parametrize("options", [{"data": rows()}, {"cost": cp.Manhattan()}])
def test_a_bare_module_is_told_of_the_wrapper(module: nn.Module, options: dict[str, Any]):
    sentence = rf"{type(module).__name__} cannot be read as it is\. .*counterpoint\.LastLayer"
    with pytest.raises(cp.UnsupportedModel, match=sentence):
        cp.Explainer(module, **options)
    with pytest.raises(cp.UnsupportedModel, match=sentence):
        cp.Explainer(make_pipeline(StandardScaler().fit(rows()), module), data=rows())


# --- without torch ---


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(cp.MissingExtra, match=r"pip install '\.\[torch\]'"):
        cp.LastLayer(object())
