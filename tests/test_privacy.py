"""Private models: what one row can do, what is certified, what is kept, and what is refused."""

from __future__ import annotations

import asyncio
import io
import pickle
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy as shallow_copy
from copy import deepcopy
from functools import partial
from threading import Barrier
from typing import Any

import cvxpy as cp
import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from skops.io import dumps, get_untrusted_types, loads

import counterpoint
from counterpoint.errors import InvalidInput, MissingExtra, SolverFailure
from counterpoint.privacy import (
    BudgetAccountant,
    BudgetError,
    PrivacyLeakWarning,
    PrivateSVC,
    svc,
)
from counterpoint.privacy.accountant import concentrated_epsilon
from counterpoint.privacy.features import largest, lift
from counterpoint.privacy.hinge import certified_gap, minimize_hinge
from counterpoint.privacy.mechanisms import (
    MECHANISMS,
    normal_delta,
    opendp_noise,
    tight_sensitivity,
)
from counterpoint.privacy.noise import ProjectedGamma, ProjectedGaussian, ProjectedLaplace
from counterpoint.testing import check_reader

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "linear": {},
    "no intercept": {"intercept_scaling": 0.0},
    "gamma": {"mechanism": "gamma"},
    "gaussian": {"mechanism": "gaussian", "delta": 1e-5},
    "Fourier": {"feature_map": "fourier", "n_components": 24, "random_state": 0},
    "Fourier, gamma": {
        "feature_map": "fourier",
        "n_components": 24,
        "mechanism": "gamma",
        "intercept_scaling": 0.5,
        "random_state": 0,
    },
}
configured = pytest.mark.parametrize("name", CONFIGURATIONS)
PUBLIC = {"bounds": (-15.0, 15.0), "classes": ["no", "yes"]}
LAWS = {"laplace": ProjectedLaplace, "gamma": ProjectedGamma, "gaussian": ProjectedGaussian}


def data(seed: int = 0, n: int = 120, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(n, d, centers=2, cluster_std=4.0, random_state=seed)
    return X, np.array(["no", "yes"])[y]


def model(name: str = "linear", **changes: Any) -> PrivateSVC:
    parameters = {"epsilon": 2.0, "C": 5.0, **PUBLIC, **CONFIGURATIONS[name], **changes}
    return PrivateSVC(**parameters)


def seen(fitted: PrivateSVC, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """y_i φ_i as the fit saw them: clipped, scaled."""
    low, high = fitted.bounds_
    rows = fitted.features(np.clip(X, low, high))
    return np.where(y == fitted.classes_[1], 1.0, -1.0)[:, None] * rows


def objective(rows: np.ndarray, box: float, w: np.ndarray) -> float:
    return 0.5 * float(w @ w) + box * float(np.maximum(0.0, 1.0 - rows @ w).sum())


# The minimiser


def signed_rows(seed: int, n: int, size: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, size))
    if kind == "whole":
        return np.round(rows)
    if kind == "repeated":
        return rows[rng.integers(0, max(1, n // 3), n)]
    if kind == "one direction":
        return rows[:, :1] * rng.normal(size=size) + 1e-8 * rows
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


KINDS = ("unit", "whole", "repeated", "one direction")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("C", [0.1, 3.0, 60.0])
def test_the_minimiser_is_that_of_another_solver(kind: str, C: float):
    rows = signed_rows(0, 60, 5, kind)
    w = cp.Variable(5)
    loss = cp.sum_squares(w) / 2 + C / 60 * cp.sum(cp.pos(1 - rows @ w))
    least = cp.Problem(cp.Minimize(loss)).solve(solver=cp.CLARABEL, tol_gap_rel=1e-12)
    found = minimize_hinge(rows, C / 60, 1e-10, 200)
    assert objective(rows, C / 60, found) <= least + 1e-7
    assert np.allclose(found, w.value, atol=1e-4)


@given(
    seed=st.integers(0, 10**6),
    n=st.sampled_from([1, 2, 7, 40, 200]),
    size=st.sampled_from([1, 2, 10, 50]),
    kind=st.sampled_from(KINDS),
    per_row=st.sampled_from([1e-3, 0.05, 1.0]),
)
def test_the_gap_is_always_certified(seed: int, n: int, size: int, kind: str, per_row: float):
    rows = signed_rows(seed, n, size, kind)
    found = minimize_hinge(rows, per_row, 1e-10, 200)
    value = objective(rows, per_row, found)
    for towards in np.random.default_rng(seed).normal(size=(20, size)):
        for step in (1e-4, 1e-2, 1.0):  # no other point is lower by more than the gap
            assert objective(rows, per_row, found + step * towards) >= value - 1.1e-10


@given(seed=st.integers(0, 10**6), wrong=st.floats(0.0, 1.0))
def test_the_certificate_is_not_fooled(seed: int, wrong: float):
    rows, rng = signed_rows(seed, 30, 4, "unit"), np.random.default_rng(seed)
    box = 0.3
    best = minimize_hinge(rows, box, 1e-12, 200)
    least = objective(rows, box, best)
    w = best + wrong * rng.normal(size=4)
    for alpha in (rng.uniform(0.0, box, 30), np.zeros(30), np.full(30, box)):
        gap = certified_gap(rows, alpha, w, box)
        assert gap >= objective(rows, box, w) - least - 1e-11
        dual = alpha.sum() - 0.5 * float(np.square(alpha @ rows).sum())
        assert gap == pytest.approx(objective(rows, box, w) - dual, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("C", [1e-3, 1.0, 3e3, 1e7])
def test_the_default_tolerance_is_proved_whatever_the_rows(C: float):
    for n in (1, 40, 300):
        for kind in KINDS:
            rows = signed_rows(3, n, 10, kind)
            norm = float(np.linalg.norm(rows, axis=1).max()) or 1.0
            minimize_hinge(rows, C / n, 0.5 * (1e-4 * norm * C / n) ** 2, 200)
    X, y = data(n=40)
    fitted = model(C=C).fit(X, y)
    assert fitted.tol_ == pytest.approx(0.5 * (1e-4 * fitted.norm_bound_ * C / 40) ** 2)
    assert fitted.sensitivity_ == pytest.approx(2.0002 * fitted.norm_bound_ * C / 40 * 2.0)


@pytest.mark.parametrize("tol", [1e-15, 1e-18, 1e-25, 1e-300])
def test_a_tolerance_below_what_floats_can_prove_fails_in_a_sentence(tol: float):
    for seed in range(6):
        try:
            assert model(tol=tol, insecure_noise_seed=0).fit(*data(seed, n=40)).tol_ == tol
        except SolverFailure as error:
            assert f"tol={tol:g}" in str(error)  # noqa: PT017 (it may do as well)


def test_an_uncertified_minimiser_is_not_released():
    X, y = data()
    with pytest.raises(
        SolverFailure, match=r"max_iter=1 iterations did not prove .* raise max_iter"
    ):
        model(C=100.0, max_iter=1).fit(X, y)
    with pytest.raises(SolverFailure, match="tol=1e-30"):
        model(tol=1e-30).fit(X, y)
    fitted = model(C=100.0, max_iter=1)
    with pytest.raises(SolverFailure):
        fitted.fit(X, y)
    assert not hasattr(fitted, "coef_")


# Sensitivity


def neighbours(rng: np.random.Generator, rows: np.ndarray, norm: float) -> list[np.ndarray]:
    """The same rows with one exchanged: any, one on the margin, the most adverse direction."""
    found = []
    for i in rng.choice(len(rows), 3, replace=False):
        for new in (-rows[i], rng.normal(size=rows.shape[1]), -rows.mean(axis=0)):
            other = rows.copy()
            other[i] = new * norm / np.linalg.norm(new)
            found.append(other)
    return found


@pytest.mark.parametrize("C", [0.5, 10.0, 100.0])
@pytest.mark.parametrize("kind", ["unit", "Fourier"])
def test_no_neighbour_moves_the_weights_by_more_than_the_sensitivity(kind: str, C: float):
    rng = np.random.default_rng(0)
    n, size, largest = 60, 10, 0.0
    frequencies = rng.normal(size=(size // 2, 3))
    for seed in range(8):
        rows = signed_rows(seed, n, size, "unit")
        if kind == "Fourier":
            rows = lift(rng.normal(size=(n, 3)), frequencies, 0.0) * rng.choice([-1.0, 1.0], (n, 1))
        w = minimize_hinge(rows, C / n, 1e-10, 200)
        bound = tight_sensitivity(box=C / n, norm=1.0, tol=1e-10)
        for other in neighbours(rng, rows, 1.0):
            moved = np.linalg.norm(minimize_hinge(other, C / n, 1e-10, 200) - w)
            largest = max(largest, float(moved) / bound)
    assert largest <= 1.0
    assert largest >= {0.5: 0.99, 10.0: 0.8, 100.0: 0.25}[C]  # and it can hardly be smaller


@configured
def test_no_neighbour_of_a_fit_moves_the_weights_by_more_than_it_says(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    found: list[np.ndarray] = []

    def kept(*arguments: Any) -> np.ndarray:
        found.append(minimize_hinge(*arguments))
        return found[-1]

    monkeypatch.setattr(svc, "minimize_hinge", kept)
    X, y = data(n=30)
    first = model(name).fit(X, y)
    for i in range(10):
        far, other = X.copy(), y.copy()
        far[i], other[i] = -1e6 * X[i], "no" if y[i] == "yes" else "yes"  # clipped to the bounds
        model(name).fit(far, other)
        order = 1 if first.mechanism_ == "laplace" else 2
        assert np.linalg.norm(found[-1] - found[0], ord=order) <= first.sensitivity_


def test_the_sensitivity_is_what_the_formula_says():
    X, y = data(n=100)
    common = {"C": 3.0, "intercept_scaling": 2.0}
    l2 = (2.0 + 2e-4) * 3.0 * np.sqrt(3 + 4) / 100
    assert model(**common).fit(X, y).sensitivity_ == pytest.approx(2.0 * l2, rel=1e-9)
    assert model("gamma", **common).fit(X, y).sensitivity_ == pytest.approx(l2, rel=1e-9)
    rough = model(**common, tol=1e-4).fit(X, y)
    assert rough.sensitivity_ == pytest.approx(2.0 * (l2 + 2.0 * np.sqrt(2e-4)), rel=1e-3)


@given(seed=st.integers(0, 10**6), size=st.sampled_from([2, 20, 100]), spread=st.floats(0.1, 1e6))
def test_features_within_the_bounds_are_no_longer_than_they_say(
    seed: int, size: int, spread: float
):
    rng = np.random.default_rng(seed)
    Z = np.clip(spread * rng.normal(size=(20, 4)), -1.0, 1.0)
    for frequencies, intercept in (
        (np.empty((0, 4)), 0.0),
        (np.empty((0, 4)), 1.5),
        (rng.normal(size=(size // 2, 4)), 0.0),
        (spread * rng.normal(size=(size // 2, 4)), 0.7),
    ):
        rows = lift(Z, frequencies, intercept)
        norm, entry = largest(frequencies, intercept)
        width = 2 * len(frequencies) or 4
        assert rows.shape == (20, width + (intercept > 0.0))
        assert (np.linalg.norm(rows, axis=1) <= norm).all()
        assert (np.abs(rows) <= entry * (1.0 + 1e-12)).all()
    pairs = lift(Z, rng.normal(size=(size // 2, 4)), 0.0)
    assert np.allclose(np.linalg.norm(pairs, axis=1), 1.0, rtol=1e-13)


def test_random_features_approach_their_kernel():
    Z = np.random.default_rng(0).uniform(-1.0, 1.0, size=(30, 4))
    phi = lift(Z, np.random.RandomState(0).standard_normal((10_000, 4)), 0.0)  # γ is ½
    kernel = np.exp(-0.5 * np.square(Z[:, None] - Z).sum(axis=2))
    assert np.allclose(phi @ phi.T, kernel, atol=0.03)


# Noise


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_release_has_the_law_that_the_model_names(mechanism: str):
    kind, scale, many = MECHANISMS[mechanism], 0.7, 1500
    assert isinstance(kind.law(scale, 3), LAWS[mechanism])
    if mechanism == "gamma":  # its entries are not independent: release after release
        phi, w = np.array([1.0, -0.5, 2.0]), np.array([10.0, -3.0, 0.0])
        released = [kind.release(w, scale, 0.1, (1.0, 0.0)) for _ in range(many)]
        noise = (np.array(released) - w) @ phi
    else:
        phi, w = np.array([1.0]), np.linspace(-9.0, 9.0, many)
        noise = kind.release(w, scale, 0.1, (1.0, 0.1)) - w
    law = kind.law(scale, len(phi))
    below = 1.0 - law.tail(np.sort(noise), np.tile(phi, (many, 1)))
    apart = np.abs(below - (np.arange(many) + 0.5) / many).max()
    assert np.sqrt(many) * apart < 3.3  # Kolmogorov and Smirnov: fails once in a thousand million


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_neighbours_are_not_told_apart(epsilon: str):
    """The densities of the laws, for weights that are as far apart as they can be."""
    rng, size = np.random.default_rng(0), 6
    step = rng.choice([-1.0, 1.0], size) / np.sqrt(size)  # of length 1, the worst in both norms
    for name in ("laplace", "gamma"):
        kind, order = MECHANISMS[name], 1 if name == "laplace" else 2
        scale = kind.scale(kind.sensitivity(1.0, size), (epsilon, 0.0))
        z = np.concatenate([kind.law(scale, size).draw(1000, 0), 9.0 * np.outer([-1, 1], step)])
        lengths = (np.linalg.norm(at, ord=order, axis=1) / scale for at in (z, z - step))
        apart = np.subtract(*lengths)
        assert np.abs(apart).max() <= epsilon
        assert np.abs(apart).max() >= 0.999 * epsilon
    # Balle & Wang (2018), theorem 8: the exact δ of normal noise at this ε
    sigma = MECHANISMS["gaussian"].scale(1.0, (epsilon, 1e-5))
    ends = (0.5 / sigma - epsilon * sigma, -0.5 / sigma - epsilon * sigma)
    assert 0.999999 * 1e-5 <= ndtr(ends[0]) - np.exp(epsilon) * ndtr(ends[1]) <= 1e-5


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 7.0, 2e3, 1e8])
@pytest.mark.parametrize("delta", [1e-14, 1e-6, 0.4])
def test_normal_noise_has_the_delta_that_is_said(epsilon: float, delta: float):
    """Against 50 digits; and the standard deviation is the smallest that does."""
    scale = MECHANISMS["gaussian"].unit_scale((epsilon, delta))
    with mpmath.workdps(50):
        m, e = 1 / mpmath.mpf(scale), mpmath.mpf(epsilon)
        exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        assert exact <= normal_delta(epsilon, 0.5 * scale**-2) <= delta
        assert exact >= (1.0 - 1e-4) * delta
    assert normal_delta(epsilon, 0.5 * (0.999 * scale) ** -2) > delta


def test_normal_noise_is_less_than_by_concentrated_privacy():
    import opendp.prelude as dp

    for budget in ((0.1, 1e-5), (1.0, 1e-6), (5.0, 1e-5)):
        make = partial(concentrated, dp, delta=budget[1])
        through_rho = dp.binary_search_param(make, d_in=1.0, d_out=budget)
        ratio = through_rho / MECHANISMS["gaussian"].unit_scale(budget)
        assert 1.05 < ratio < 1.2


def concentrated(dp: Any, scale: float, delta: float) -> Any:
    """(ε, δ) of normal noise by OpenDP alone."""
    return dp.c.make_fix_delta(
        dp.c.make_zCDP_to_approxDP(opendp_noise("gaussian", 1, scale)), delta
    )


def test_the_scale_is_the_smallest_that_the_map_of_opendp_allows():
    X, y = data()
    laplace = model().fit(X, y)
    assert laplace.scale_ == pytest.approx(laplace.sensitivity_ / 2.0, rel=1e-11)
    made = opendp_noise("laplace", 4, laplace.scale_)
    assert 2.0 * (1.0 - 1e-9) <= made.map(laplace.sensitivity_) <= 2.0
    normal = model("gaussian").fit(X, y)
    rho = opendp_noise("gaussian", 4, normal.scale_ * (1.0 - 1e-6)).map(normal.sensitivity_)
    assert normal_delta(2.0, rho) > 1e-5
    assert normal.rho_spent_ == pytest.approx(rho, rel=1e-5)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_that_is_too_small_is_not_released(mechanism: str):
    kind, budget = MECHANISMS[mechanism], (1.0, 1e-6 * (mechanism == "gaussian"))
    scale = kind.scale(1.0, budget)
    with pytest.raises(SolverFailure, match="Expected noise that costs at most"):
        kind.release(np.zeros(4), 0.999 * scale, 1.0, budget)


@configured
def test_the_noise_is_from_opendp_and_from_no_seed(name: str, monkeypatch: pytest.MonkeyPatch):
    X, y = data()
    drawn = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002 (the seed that must not matter)
        drawn.append(model(name, random_state=0).fit(X, y).coef_)
    assert (drawn[0] != drawn[1]).all()
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[privacy\]'"):
        model(name).fit(X, y)


def test_a_complaint_of_opendp_is_translated():
    with pytest.raises(SolverFailure, match="OpenDP refused"):
        opendp_noise("laplace", 3, -1.0)


@configured
def test_the_experimental_draw_repeats_and_is_not_private(name: str):
    X, y = data()
    one, other = (model(name, insecure_noise_seed=7).fit(X, y) for _ in range(2))
    assert np.array_equal(one.coef_, other.coef_)
    assert (one.coef_ != model(name, insecure_noise_seed=8).fit(X, y).coef_).all()
    assert not one.private_
    assert (one.epsilon_spent_, one.delta_spent_) == (np.inf, 1.0)
    assert repr(one).endswith("[not private: insecure_noise_seed=7]")


# What is kept


def arrays(value: Any, seen_before: set[int]) -> list[np.ndarray]:
    """Every array and number that can be reached, bases of views included."""
    if id(value) in seen_before:
        return []
    seen_before.add(id(value))
    if isinstance(value, np.ndarray):
        base = [] if value.base is None else arrays(value.base, seen_before)
        return [value, *base]
    if isinstance(value, float | int | np.number):
        return [np.array([value])]
    if isinstance(value, dict):
        inside: list[Any] = [*value, *value.values()]
    elif isinstance(value, list | tuple | set):
        inside = list(value)
    else:
        inside = [getattr(value, "__dict__", None)]
    return [a for one in inside if one is not None for a in arrays(one, seen_before)]


@configured
def test_nothing_of_the_data_is_kept_but_the_release(name: str, monkeypatch: pytest.MonkeyPatch):
    found: list[np.ndarray] = []

    def kept(*arguments: Any) -> np.ndarray:
        found.append(minimize_hinge(*arguments))
        return found[-1]

    monkeypatch.setattr(svc, "minimize_hinge", kept)
    X, y = data(n=57)
    X[:7] *= 20.0  # beyond the bounds
    fitted = model(name).fit(X, y)
    rows = seen(fitted, X, y)
    secrets = np.concatenate(
        [
            *(
                m.ravel()
                for m in (found[0], X, rows, X.mean(0), X.std(0), X.min(0), X.max(0), X.sum(0))
            ),
            rows.sum(0),
            rows.mean(0),
            np.linalg.norm(X, axis=1),
            rows @ found[0],
        ]
    )
    public = (0.0, 0.5, 1.0, fitted.intercept_scaling_)
    secrets = secrets[~np.isin(np.abs(secrets), [*public, 15.0])]
    everything = np.concatenate([
        np.ravel(a).astype(float) for a in arrays(vars(fitted), set()) if a.dtype.kind in "fiu"
    ])  # fmt: skip
    outside = np.abs(X) > 15.0
    counts = [
        57,
        7,
        int(outside.sum()),
        int(outside.any(axis=1).sum()),
        *(int((y == c).sum()) for c in ("no", "yes")),
    ]
    assert not np.isin(everything, secrets).any()
    assert not np.isin(everything, np.array(counts, dtype=float)).any()
    allowed = {
        *fitted.get_params(), "coef_", "classes_", "scale_", "sensitivity_", "norm_bound_",
        "entry_bound_", "bounds_", "frequencies_", "intercept_scaling_", "mechanism_", "private_",
        "epsilon_spent_", "delta_spent_", "rho_spent_", "tol_", "n_features_in_",
    }  # fmt: skip
    assert set(vars(fitted)) == allowed
    for written in (pickle.dumps(fitted), dumps(fitted)):
        assert fitted.coef_.tobytes() in _unpacked(written)
        for secret in found[0]:
            assert secret.tobytes() not in _unpacked(written)
            assert repr(float(secret))[:12].encode() not in _unpacked(written)


def _unpacked(written: bytes) -> bytes:
    """The bytes of a pickle, or of the members of a skops file."""
    from zipfile import ZipFile, is_zipfile

    if not is_zipfile(io.BytesIO(written)):
        return written
    with ZipFile(io.BytesIO(written)) as archive:
        return b"".join(archive.read(member) for member in archive.namelist())


@configured
def test_explanations_are_made_of_the_release_alone(name: str, monkeypatch: pytest.MonkeyPatch):
    """Neither the explainer nor its answers hold what was computed from rows, nor depend on it."""
    found: list[np.ndarray] = []

    def kept(*arguments: Any) -> np.ndarray:
        found.append(minimize_hinge(*arguments))
        return found[-1]

    monkeypatch.setattr(svc, "minimize_hinge", kept)
    X, y = data(n=57)
    fitted = model(name, epsilon=50.0).fit(X, y)
    asked = np.array([[1.25, -2.5, 0.75], [-3.5, 4.25, 1.5]])
    secrets = np.concatenate([found[0], X.ravel(), seen(fitted, X, y).ravel(), X.mean(0), X.std(0)])
    other = loads(dumps(fitted), trusted=get_untrusted_types(data=dumps(fitted)))
    for label in ("no", "yes"):
        target = counterpoint.Robust(label, 0.9, draws=2000)
        made = []
        for published in (fitted, other):
            explainer = counterpoint.Explainer(published, cost=counterpoint.SquaredEuclidean())
            answers = explainer.explain(asked, target)
            made.append(answers.report())
            held = arrays([vars(explainer), vars(answers), answers.to_frame(), made[-1]], set())
            numbers = np.concatenate([np.ravel(a) for a in held if a.dtype.kind == "f"])
            public = [0.0, 0.5, 1.0, 15.0, fitted.intercept_scaling_]
            assert not np.isin(numbers, secrets[~np.isin(np.abs(secrets), public)]).any()
        pd.testing.assert_frame_equal(*made, check_exact=True)


@configured
def test_all_but_the_release_is_known_before_the_data(name: str):
    """The same numbers of rows and columns, the same public parameters, and nothing else alike."""
    one = model(name).fit(*data(0))
    other = model(name).fit(-(data(1)[0] ** 3), np.full(120, "yes"))
    for attribute, value in vars(one).items():
        if attribute != "coef_":
            assert np.array_equal(value, vars(other)[attribute]), attribute
    assert one.coef_.shape == other.coef_.shape


@configured
def test_a_pickle_and_a_skops_file_predict_the_same(name: str):
    X, y = data()
    fitted = model(name).fit(X, y)
    written = dumps(fitted)
    again = (
        pickle.loads(pickle.dumps(fitted)),  # noqa: S301 (our own)
        loads(written, trusted=get_untrusted_types(data=written)),
    )
    assert get_untrusted_types(data=written) == ["counterpoint.privacy.svc.PrivateSVC"]
    for copy in again:
        assert np.array_equal(copy.decision_function(X), fitted.decision_function(X))
        assert type(copy.noise_) is type(fitted.noise_)
        unit = np.eye(fitted.noise_.n_features)
        assert np.array_equal(copy.noise_.deviation(unit), fitted.noise_.deviation(unit))
        assert repr(copy) == repr(fitted)


def test_a_fit_says_nothing_about_the_rows(recwarn: pytest.WarningsRecorder):
    X, y = data(n=6)
    model().fit(1e300 * X, y)
    model().fit(X, np.full(6, "no"))
    assert not recwarn.list


def test_rows_outside_the_bounds_are_clipped_in_fit_alone():
    X, y = data()
    seeded = model(insecure_noise_seed=0, bounds=([-1.0, -2.0, -3.0], [1.0, 5.0, 3.0]))
    clipped = np.clip(X, [-1.0, -2.0, -3.0], [1.0, 5.0, 3.0])
    one, other = clone(seeded).fit(X, y), clone(seeded).fit(clipped, y)
    assert np.array_equal(one.coef_, other.coef_)
    assert not np.allclose(one.decision_function(X), one.decision_function(clipped))


# The model


@configured
def test_scores_are_linear_in_the_features(name: str):
    X, y = data()
    fitted = model(name).fit(X, y)
    low, high = fitted.bounds_
    Z = (X - (low + high) / 2.0) / ((high - low) / 2.0)
    phase = Z @ fitted.frequencies_.T
    pairs = np.sqrt(2.0 / 24) * np.concatenate([np.cos(phase), np.sin(phase)], axis=1)
    phi = pairs if "Fourier" in name else Z
    if fitted.intercept_scaling_:
        phi = np.column_stack([phi, np.full(len(X), fitted.intercept_scaling_)])
    assert np.allclose(fitted.features(X), phi, atol=1e-14)
    scores = phi @ fitted.coef_
    assert np.allclose(fitted.decision_function(X), scores)
    assert np.array_equal(fitted.predict(X), np.where(scores >= 0.0, "yes", "no"))
    assert fitted.noise_.n_features == len(fitted.coef_) == phi.shape[1]


@configured
def test_bounds_about_another_middle_than_zero_are_read_as_they_are(name: str):
    X, y = data()
    bounds = ([-20.0, 1.0, -3.0], [4.0, 30.0, 3.0])
    check_reader(model(name, bounds=bounds).fit(X, y), np.clip(X, *bounds))


def test_a_score_of_zero_decides_for_the_second_class():
    fitted = model("no intercept", bounds=(-1.0, 1.0)).fit(*data())
    assert fitted.predict(np.zeros((1, 3))).tolist() == ["yes"]


def test_little_privacy_costs_little_accuracy():
    X, y = load_breast_cancer(return_X_y=True)
    X, test, y, truth = train_test_split(X, y, test_size=0.3, random_state=1)
    paper = PrivateSVC(  # of as much noise as the paper's, at twice the epsilon
        0.50005 * 5.0, C=np.sqrt(len(X)), feature_map="fourier", gamma=1 / 30,
        trust_data=True, insecure_noise_seed=0, random_state=0,
    )  # fmt: skip
    assert make_pipeline(StandardScaler(), paper).fit(X, y)[-1].scale_ == pytest.approx(
        0.4010, abs=5e-5
    )
    loose = make_pipeline(StandardScaler(), clone(paper).set_params(epsilon=1e4)).fit(X, y)
    assert loose.score(test, truth) > 0.9


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scores_are_off_by_no_more_than_the_bound(mechanism: str):
    X, y = data(n=400)
    delta = {"delta": 1e-5} if mechanism == "gaussian" else {}
    fitted = model("Fourier", mechanism=mechanism, **delta).fit(X, y)
    draws = fitted.noise_.draw(2000, random_state=0)
    rows = fitted.features(np.random.default_rng(0).uniform(-15.0, 15.0, size=(300, 3)))
    worst = np.abs(draws @ rows.T).max(axis=1)
    assert (worst <= fitted.error_bound(0.1)).mean() >= 0.88
    assert fitted.error_bound(0.01) > fitted.error_bound(0.1) > fitted.error_bound(0.5)
    assert fitted.is_useful(fitted.error_bound(0.1), 0.1)
    assert not fitted.is_useful(0.99 * fitted.error_bound(0.1), 0.1)


def test_no_error_has_a_chance_of_one():
    X, y = data()
    fitted = model(C=1.0).fit(X, y)
    assert fitted.error_bound(0.05) < 2.0 * 1.0 * fitted.scale_ * (4 - np.log(0.05))
    with pytest.raises(InvalidInput, match="above 0 and below 1; got 1"):
        fitted.error_bound(1)


# More than two classes


CLASSES = ["a", "b", "c"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_several_classes_share_the_budget(mechanism: str):
    X, k = make_blobs(300, 4, centers=3, random_state=0)
    y, delta = np.array(CLASSES)[k], 1e-5 if mechanism == "gaussian" else None
    options = {"bounds": (-15, 15), "mechanism": mechanism, "delta": delta, "C": 5.0}
    one = PrivateSVC(6.0, classes=["a", "b"], **options).fit(X, np.where(y == "c", "b", y))
    many = PrivateSVC(6.0, classes=CLASSES, **options).fit(X, y)
    share = np.sqrt(3.0) if mechanism == "gaussian" else 3.0
    assert many.coef_.shape == (3, 5)
    assert many.sensitivity_ == one.sensitivity_
    assert many.scale_ == pytest.approx(share * one.scale_, rel=1e-9)
    assert many.epsilon_spent_ == 6.0
    assert many.rho_spent_ == pytest.approx(
        one.rho_spent_ / (1.0 if mechanism == "gaussian" else 3.0)
    )
    assert many.decision_function(X).shape == (300, 3)
    assert many.error_bound(0.1) > one.error_bound(0.1)


def test_each_class_is_learned_against_the_rest():
    X, k = make_blobs(300, 4, centers=3, random_state=0)
    y = np.array(CLASSES)[k]
    options = {"bounds": (-15, 15), "C": 500.0, "insecure_noise_seed": 0}
    many = PrivateSVC(1e9, classes=CLASSES, **options).fit(X, y)
    for label, weights in zip(CLASSES, many.coef_, strict=True):
        against = PrivateSVC(1e9, classes=[False, True], **options).fit(X, y == label)
        assert np.allclose(against.coef_, weights, atol=1e-5)
    assert many.score(X, y) > 0.95
    check_reader(many, X)
    answers = counterpoint.Explainer(many).explain(X[:9], "b")
    assert answers.found.all()
    with pytest.raises(InvalidInput, match="linear model; got a classifier of 3 classes"):
        counterpoint.Explainer(many).explain(X[:1], counterpoint.Robust("b", 0.9))
    waves = PrivateSVC(1e9, classes=CLASSES, feature_map="fourier", **options).fit(X, y)
    assert waves.score(X, y) > 0.95
    with pytest.raises(counterpoint.UnsupportedModel, match="for two classes; got 3"):
        counterpoint.Explainer(waves)


# What releases cost together


def test_a_search_counts_each_fit():
    X, y = data()
    accountant = BudgetAccountant(epsilon=16.0)
    search = GridSearchCV(
        model(epsilon=1.0, accountant=accountant), {"C": [1.0, 2.0, 3.0]}, error_score="raise"
    )
    search.fit(X, y)
    assert (len(accountant), accountant.total()) == (16, (16.0, 0.0))
    with pytest.raises(BudgetError, match=r"\(16, 0\), and 16 releases cost .* \(17, 0\)"):
        model(epsilon=1.0, accountant=accountant).fit(X, y)
    assert len(accountant) == 16


def test_a_default_accountant_counts_what_got_none():
    X, y = data()
    with BudgetAccountant(epsilon=3.0) as outer:
        model(epsilon=1.0).fit(X, y)
        with BudgetAccountant(delta=1e-4) as inner:
            model("gaussian").fit(X, y)
        own = BudgetAccountant()
        model(epsilon=1.0, accountant=own).fit(X, y)
        with pytest.raises(BudgetError):
            model(epsilon=2.5).fit(X, y)
        with pytest.raises(BudgetError):  # what is not private costs all
            model(insecure_noise_seed=0).fit(X, y)
    assert outer.total() == own.total() == (1.0, 0.0)
    assert inner.total() == (2.0, 1e-5)
    assert BudgetAccountant.default() is BudgetAccountant.pop_default() is None
    assert outer.set_default() is BudgetAccountant.default() is BudgetAccountant.pop_default()


def test_a_block_counts_the_fits_of_its_own_thread():
    X, y = data()
    both_inside, both_fitted = Barrier(2, timeout=20.0), Barrier(2, timeout=20.0)

    def total_of_a_block(epsilon: float) -> float:
        with BudgetAccountant() as accountant:
            both_inside.wait()
            model(epsilon=epsilon).fit(X, y)
            both_fitted.wait()
            assert BudgetAccountant.default() is accountant
        assert BudgetAccountant.default() is None
        return accountant.total()[0]

    with BudgetAccountant() as outer, ThreadPoolExecutor(2) as pool:
        assert [*pool.map(total_of_a_block, (1.0, 4.0))] == [1.0, 4.0]
        assert pool.submit(BudgetAccountant.default).result() is None
    assert not len(outer)


def test_a_block_counts_the_fits_of_its_own_task():
    async def total_of_a_block(epsilon: float, turns: int) -> float:
        with BudgetAccountant() as accountant:
            for _ in range(turns):
                await asyncio.sleep(0.0)
                assert BudgetAccountant.default() is accountant
                BudgetAccountant.default().spend(epsilon)
        assert BudgetAccountant.default() is outer
        return accountant.total()[0]

    async def at_once() -> list[float]:
        return await asyncio.gather(*(total_of_a_block(e, 6 - e) for e in (1, 2, 3)))

    with BudgetAccountant() as outer:
        assert asyncio.run(at_once()) == [5.0, 8.0, 9.0]
    assert BudgetAccountant.default() is None
    assert not len(outer)


def test_blocks_may_end_in_any_order():
    def block(accountant: BudgetAccountant) -> Iterator[None]:
        with accountant:
            yield

    first, second = BudgetAccountant(), BudgetAccountant()
    blocks = block(first), block(second)
    for entered in blocks:
        next(entered)
    assert BudgetAccountant.default() is second
    blocks[0].close()
    assert BudgetAccountant.default() is second
    blocks[1].close()
    assert BudgetAccountant.default() is None
    with first, second, first:
        with first:
            pass
        assert BudgetAccountant.default() is first


def test_a_default_holds_for_all_threads_and_beside_blocks():
    process, block = BudgetAccountant(), BudgetAccountant()
    with ThreadPoolExecutor(1) as pool, block:
        assert process.set_default() is process
        assert BudgetAccountant.default() is block
        assert pool.submit(BudgetAccountant.default).result() is process
        assert BudgetAccountant.pop_default() is process
        assert BudgetAccountant.default() is block
        assert BudgetAccountant.pop_default() is None


def test_a_fit_that_releases_nothing_costs_nothing():
    X, y = data()
    accountant = BudgetAccountant(1.0)
    with pytest.raises(SolverFailure):
        model(epsilon=1.0, C=100.0, max_iter=1, accountant=accountant).fit(X, y)
    with pytest.raises(InvalidInput):
        model(epsilon=1.0, accountant=accountant).fit(X, y.astype("U9") + "?")
    assert not len(accountant)


def test_concentrated_composition_is_that_of_the_field():
    import opendp.prelude as dp

    for rho in (1e-4, 0.02, 1.0, 30.0):
        for delta in (1e-9, 1e-5, 0.01):
            sigma = np.sqrt(0.5 / rho)
            curve = dp.c.make_zCDP_to_approxDP(opendp_noise("gaussian", 1, sigma)).map(1.0)
            ours = concentrated_epsilon(rho, delta)
            assert ours == pytest.approx(curve.epsilon(delta), rel=1e-4)
            assert ours <= rho + 2.0 * np.sqrt(rho * np.log(1.0 / delta))


def test_many_small_releases_cost_less_when_they_are_concentrated():
    X, y = data()
    basic, dense = BudgetAccountant(), BudgetAccountant(delta=1e-5, composition="zcdp")
    for _ in range(3):
        model(epsilon=0.1, accountant=basic).fit(X, y)
        model(epsilon=0.1, accountant=dense).fit(X, y)
    for _ in range(97):
        basic.spend(0.1)
        dense.spend(0.1)
    assert basic.total() == (pytest.approx(10.0, rel=1e-15), 0.0)
    assert dense.total() == (pytest.approx(concentrated_epsilon(0.5, 1e-5)), 1e-5)
    assert dense.total()[0] < 0.6 * basic.total()[0]
    normal = model("gaussian", epsilon=1.0)
    limited = BudgetAccountant(2.0, 1e-5, "zcdp")
    normal.set_params(accountant=limited).fit(X, y)
    one = limited.total()[0]
    assert 1.0 < one < 1.15  # by way of ρ it is a little more than what was proved of one
    more = limited.remaining(4)[0]
    for _ in range(4):
        limited.spend(more)
    assert limited.total()[0] == pytest.approx(2.0, abs=1e-9)
    with pytest.raises(BudgetError):
        limited.spend(0.01)


def test_an_accountant_adds_up_to_what_may_be_spent():
    accountant = BudgetAccountant(1.0, 1e-5)
    for _ in range(10):
        accountant.check(0.1, 1e-6)
        accountant.spend(0.1, 1e-6)
    assert accountant.remaining() == (0.0, pytest.approx(0.0, abs=1e-20))
    assert repr(accountant).endswith("[spent: (1, 1e-05)]")
    with pytest.raises(BudgetError):
        accountant.spend(1e-6)
    assert BudgetAccountant().remaining(3)[0] == np.inf
    with pytest.raises(BudgetError):  # not pure, so nothing is known of its ρ
        BudgetAccountant(10.0, 1e-5, "zcdp").spend(1.0, 1e-6)
    wide = BudgetAccountant(4.0, 0.75)
    wide.spend(1.0, 0.5)
    assert wide.remaining(3) == (1.0, pytest.approx(0.25 / 3))
    with pytest.raises(BudgetError, match=r"this one would make it \(2, 1\)"):  # δ is at most 1
        wide.check(1.0, 0.625)


def test_a_copy_of_an_accountant_is_itself():
    accountant = BudgetAccountant(1.0)
    assert shallow_copy(accountant) is accountant
    assert deepcopy(accountant) is accountant


def test_of_a_budget_without_end_any_epsilon_remains():
    assert BudgetAccountant(delta=1e-6, composition="zcdp").remaining() == (np.inf, 0.0)


def test_a_copy_counts_on_and_one_from_another_process_allows_nothing():
    X, y = data()
    accountant = BudgetAccountant(5.0)
    fitted = clone(model(accountant=accountant)).fit(X, y)
    assert fitted.accountant is accountant
    assert accountant.total() == (2.0, 0.0)
    elsewhere = pickle.loads(pickle.dumps(fitted))  # noqa: S301 (our own)
    assert np.array_equal(elsewhere.predict(X), fitted.predict(X))
    with pytest.raises(BudgetError, match="a copy from another process"):
        elsewhere.fit(X, y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0,), "epsilon above 0"),
        ((1.0, 1.0), "delta from 0 to below 1"),
        ((1.0, 0.0, "rdp"), "composition 'basic' or 'zcdp'; got 'rdp'"),
        ((1.0, 0.0, "zcdp"), "delta above 0 with composition='zcdp'"),
        (("1",), "a number for epsilon"),
    ],
)
def test_an_accountant_refuses_what_is_none(arguments: tuple[Any, ...], message: str):
    with pytest.raises(InvalidInput, match=message):
        BudgetAccountant(*arguments)
    with pytest.raises(InvalidInput, match="whole number"):
        BudgetAccountant().remaining(0)
    with pytest.raises(InvalidInput, match="Expected epsilon and rho above 0"):
        BudgetAccountant().spend(-1.0)


# What it warns of


def test_a_step_that_learns_before_it_is_a_leak():
    X, y = data()
    for steps in (
        (StandardScaler(), model()),
        (StandardScaler(), make_pipeline("passthrough", model())),
    ):
        with pytest.warns(PrivacyLeakWarning, match="^StandardScaler before PrivateSVC"):
            make_pipeline(*steps).fit(X, y)
    public = FrozenEstimator(StandardScaler().fit(data(1)[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_pipeline(public, FunctionTransformer(np.abs), "passthrough", model()).fit(X, y)
        replication = model(trust_data=True, bounds=None, classes=None)
        make_pipeline(StandardScaler(), replication).fit(X, y)


def test_a_delta_of_one_row_is_a_leak():
    X, y = data()
    with pytest.warns(PrivacyLeakWarning, match=r"delta=0.01 is at least 1/n, n=120"):
        model("gaussian", delta=0.01).fit(X, y)


# Bounds


def test_bounds_go_by_the_names_of_columns():
    X, y = data()
    frame = pd.DataFrame(X, columns=[*"abc"])
    named = {"c": (-3.0, 3.0), "a": (-1.0, 1.0), "b": (-2.0, 5.0)}
    fitted = model(bounds=named).fit(frame, y)
    assert fitted.bounds_.tolist() == [[-1.0, -2.0, -3.0], [1.0, 5.0, 3.0]]
    assert counterpoint.Explainer(fitted).explain(frame[:3], "yes").found.all()
    for wrong, message in (
        ({"a": (0, 1)}, "got none for 'b', 'c'"),
        ({**named, "d": (0, 1)}, "got some for 'd'"),
        ({**named, "a": 1.0}, "Expected a pair"),
    ):
        with pytest.raises(InvalidInput, match=message):
            model(bounds=wrong).fit(frame, y)


def test_bounds_that_can_be_read_in_two_ways_are_refused():
    X, y = data(d=2)
    for twofold in ([(0, 10), (5, 20)], ((0, 10), (5, 20)), [(0, 10), (0, 20)]):
        with pytest.raises(InvalidInput, match="that can be read in one way"):
            model(bounds=twofold).fit(X, y)
    for low, high in (([0, 5], [10, 20]), (np.zeros(2), [10, 20])):
        assert model(bounds=(low, high)).fit(X, y).bounds_.tolist() == [list(low), list(high)]
    assert model(bounds=[0, 10]).fit(X, y).bounds_.tolist() == [[0, 0], [10, 10]]


def test_weights_of_rows_are_refused():
    X, y = data()
    with pytest.raises(InvalidInput, match="takes no sample_weight: how far"):
        model().fit(X, y, sample_weight=np.ones(120))
    with pytest.raises(InvalidInput, match="to X and y alone; got 'groups'"):
        model().fit(X, y, groups=y)
    assert model().fit(X, y, sample_weight=None).coef_.shape == (4,)


# The contract of scikit-learn


ITERATIONS = {"check_non_transformer_estimators_n_iter": "how many there were depends on the rows"}
PAIRS = dict.fromkeys(
    (
        "check_dont_overwrite_parameters",
        "check_fit2d_1feature",
        "check_fit2d_1sample",
        "check_fit2d_predict1d",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
    ),
    "these ask for a single random feature, and they come in pairs",
)


@configured
def test_the_estimator_keeps_the_contract(name: str):
    """Without bounds and classes, which the checks do not know, and with noise that repeats."""
    replication = {"epsilon": 1e6, "bounds": None, "classes": None}
    estimator = model(name, **replication, trust_data=True, insecure_noise_seed=0)
    reasons = ITERATIONS | (PAIRS if "Fourier" in name else {})
    check_estimator(estimator, expected_failed_checks=reasons, on_skip=None)


def test_frames_name_their_columns():
    X, y = data()
    frame = pd.DataFrame(X, columns=[*"abc"])
    fitted = model(insecure_noise_seed=0).fit(frame, y)
    assert list(fitted.feature_names_in_) == [*"abc"]
    assert np.array_equal(fitted.predict(frame), model(insecure_noise_seed=0).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[[*"cba"]])


def test_it_says_so_when_it_is_not_fitted():
    for call in (
        lambda m: m.predict(np.zeros((1, 3))),
        lambda m: m.features(np.zeros((1, 3))),
        lambda m: m.noise_,
        lambda m: m.error_bound(0.1),
    ):
        with pytest.raises(NotFittedError):
            call(model())


# What it says of itself


def test_what_is_not_private_says_so():
    X, y = data()
    private = model().fit(X, y)
    assert private.private_
    assert (private.epsilon_spent_, private.delta_spent_) == (2.0, 0.0)
    assert "not private" not in repr(private)
    assert model("gaussian").fit(X, y).delta_spent_ == 1e-5
    trusting = model(trust_data=True, bounds=None, classes=None)
    assert repr(trusting).endswith("[not private: trust_data=True]")
    trusting.fit(X, y)
    assert not trusting.private_
    trusting.set_params(trust_data=False)  # what was fitted stays what it is
    assert "[not private" in repr(trusting)
    assert trusting.norm_bound_ == pytest.approx(np.sqrt((X**2).sum(axis=1).max() + 1.0))


def test_the_label_does_not_follow_parameters_that_change_after_the_fit():
    X, y = data()
    fitted = model("gamma").fit(X, y)
    fitted.set_params(mechanism="laplace", feature_map="fourier")
    assert isinstance(fitted.noise_, ProjectedGamma)
    assert fitted.features(X).shape == (120, 4)


# What cannot be


BAD: list[tuple[dict[str, Any], str]] = [
    ({"bounds": None}, r"expects bounds, .* got None: .* Pass bounds=…, or trust_data=True"),
    ({"classes": None}, r"expects classes, the labels that there are, .*; got None"),
    (
        {"epsilon": 0.0},
        r"'epsilon' .* PrivateSVC must be a float in the range \(0.0, inf\). Got 0.0",
    ),
    ({"epsilon": -1.0}, "Got -1.0"),
    ({"epsilon": np.inf}, "Got inf"),
    ({"epsilon": np.nan}, "Got nan"),
    ({"epsilon": True}, "'epsilon' .* must be a number .*, and not a boolean. Got True"),
    ({"C": 0}, r"'C' .* float in the range \(0.0, inf\). Got 0"),
    ({"feature_map": "poly"}, r"'feature_map' .* a str among \{'\w+', '\w+'\}. Got 'poly'"),
    ({"mechanism": "none"}, r"'mechanism' .* a str among \{'\w+', '\w+', '\w+'\}. Got 'none'"),
    ({"mechanism": "gaussian"}, "delta with mechanism='gaussian', .* got delta=None"),
    ({"delta": 1e-6}, "without it otherwise; got delta=1e-06 with mechanism='laplace'"),
    (
        {"mechanism": "gaussian", "delta": 1.0},
        r"'delta' .* float in the range \(0.0, 1.0\) or None. Got 1.0",
    ),
    ({"feature_map": "fourier", "n_components": 7}, "n_components to be even, .* got 7: pass one"),
    ({"n_components": 0}, r"'n_components' .* an int in the range \[1, inf\). Got 0"),
    ({"gamma": -1.0}, r"'gamma' .* float in the range \(0.0, inf\) or None. Got -1.0"),
    ({"intercept_scaling": -1.0}, r"'intercept_scaling' .* in the range \[0.0, inf\) or None"),
    ({"tol": 0.0}, r"'tol' .* float in the range \(0.0, inf\) or None. Got 0.0"),
    ({"max_iter": 0}, r"'max_iter' .* an int in the range \[1, inf\). Got 0"),
    ({"trust_data": 1}, "'trust_data' .* an instance of 'bool' .* Got 1"),
    ({"insecure_noise_seed": -1}, r"'insecure_noise_seed' .* int in the range \[0, inf\) or None"),
    ({"bounds": (0.0,)}, r"a pair \(low, high\), each a number or 3 of them"),
    ({"bounds": ([0.0, 1.0], 2.0)}, r"a pair \(low, high\), each a number or 3 of them"),
    ({"bounds": 3.0}, "a pair"),
    ({"bounds": ([0.0, 1.0, 2.0], 1.0)}, "those of column 1 are 1 and 1: leave out"),
    ({"bounds": (-np.inf, 1.0)}, "those of column 0 are -inf and 1"),
    ({"bounds": (np.nan, 1.0)}, "those of column 0 are nan and 1"),
    ({"classes": ["no"]}, "expects at least two classes; got 1 class"),
    ({"bounds": {"a": (0, 1)}}, "bounds by the name of the column; got rows without names"),
    ({"accountant": 1.0}, "'accountant' .* an instance of .*BudgetAccountant"),
    ({"classes": ["no", "maybe"]}, "every label to be among classes=.'maybe', 'no'.; got ano"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD)
def test_what_cannot_be_is_refused(parameters: dict[str, Any], message: str):
    with pytest.raises(InvalidInput, match=message):
        model(**parameters).fit(*data())


def test_missing_values_are_refused():
    X, y = data()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model().fit(X, y)


def test_the_classes_of_the_rows_are_asked_for_with_trust_alone():
    X, _ = data()
    with pytest.raises(InvalidInput, match="at least two classes; got 1"):
        model(trust_data=True, classes=None).fit(X, np.full(120, "no"))
    assert model().fit(X, np.full(120, "no")).classes_.tolist() == ["no", "yes"]


# Explained without any data


def test_an_explanation_needs_no_data_but_the_bounds():
    X, y = data()
    frame = pd.DataFrame(X, columns=[*"abc"])
    bounds = (np.array([-20.0, -15.0, -30.0]), np.array([20.0, 15.0, 10.0]))
    fitted = model(bounds=bounds, insecure_noise_seed=0).fit(frame, y)
    explainer = counterpoint.Explainer(fitted, constraints=[counterpoint.WithinObserved()])
    assert [f.observed for f in explainer.features] == [(-20, 20), (-15, 15), (-30, 10)]
    assert explainer.cost == counterpoint.Manhattan({"a": 1 / 40, "b": 1 / 30, "c": 1 / 40})
    assert "each change divided by the feature's range" in explainer.summary()
    answers = explainer.explain(frame, counterpoint.OtherLabel())
    assert answers.found.any()
    low, high = bounds
    before, after = X[answers.found], answers.to_frame().to_numpy()[answers.found]
    inside = (low <= before) & (before <= high)
    assert ((low <= after) & (after <= high))[inside].all()


def test_a_model_that_was_told_no_bounds_needs_data():
    X, y = data()
    fitted = model(trust_data=True, bounds=None).fit(X, y)
    with pytest.raises(InvalidInput, match="the range of 'x0' is not known"):
        counterpoint.Explainer(fitted)
    assert counterpoint.Explainer(fitted, data=X).explain(X, "yes").found.all()
