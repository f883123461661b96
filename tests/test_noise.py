"""Laws of noise: against mpmath and another integral, and what a quantile has to obey."""

from __future__ import annotations

import statistics
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gammaln, kve

from counterpoint.errors import InvalidInput
from counterpoint.privacy.contour import Contour
from counterpoint.privacy.noise import (
    NoiseLaw,
    ProjectedGamma,
    ProjectedGaussian,
    ProjectedLaplace,
)

LEVELS = (0.5 + 1e-6, 0.6, 0.75, 0.9, 0.99, 0.9999, 1.0 - 1e-9)
DISTANCES = (1e-6, 0.1, 1.0, 3.0, 8.0, 14.0)  # in units of ‖φ‖: tails from ½ to 1e-9 and below


def fourier(size: int, seed: int = 0) -> np.ndarray:
    phase = 9.0 * np.random.default_rng(seed).normal(size=size // 2)
    return np.sqrt(2.0 / size) * np.concatenate([np.cos(phase), np.sin(phase)])


def spiky(size: int, rest: float = 0.01) -> np.ndarray:
    weights = rest * np.random.default_rng(1).normal(size=size)
    weights[0] = -1.0
    return weights


DISTINCT = {
    "two, nearly the same": np.array([1.0, 1.0 - 1e-9]),
    "very different": np.array([1.0, 1e-200]),
    "normal": np.random.default_rng(2).normal(size=25),
    "spiky": spiky(40),
    "geometric": 0.8 ** np.arange(40),
    "steep": 0.3 ** np.arange(25),
    "Fourier": fourier(100),
}
PARTS = ((0.0, 5.0), (5.0, 20.0), (20.0, 100.0))
LARGE = {
    "normal": np.random.default_rng(3).normal(size=500),
    "spiky": spiky(500, 0.05),
    "Fourier": fourier(500),
    "geometric": 0.98 ** np.arange(300),
}
LAWS: dict[str, NoiseLaw] = {
    "laplace": ProjectedLaplace(0.7, 4),
    "gamma": ProjectedGamma(0.3, 4),
    "gaussian": ProjectedGaussian.of(np.diag([1.0, 2.0, 0.5, 0.0]) + 0.2),
    "isotropic": ProjectedGaussian.isotropic(0.4, 4),
}
every = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
vectors = st.lists(st.floats(-3.0, 3.0), min_size=4, max_size=4).map(np.array)


# Oracles


def uniform_tail(size: int, t: float) -> Any:
    """P(L₁ + … + L_F > t), a finite sum of positive terms."""
    with mp.workdps(40):
        return mp.fsum(
            mp.binomial(size + j - 1, j)
            / mp.mpf(2) ** (size + j)
            * mp.gammainc(size - j, t)
            / mp.factorial(size - j - 1)
            for j in range(size)
        )


class PartialFractions:
    """P(Σ φ_j L_j > t) for distinct weights, in as many digits as cancel."""

    def __init__(self, phi: np.ndarray) -> None:
        with mp.workdps(500):
            self.a = [mp.mpf(abs(float(x))) for x in phi]
            squares = [a * a for a in self.a]
            self.c = [
                mp.fprod(s / (s - other) for k, other in enumerate(squares) if k != j)
                for j, s in enumerate(squares)
            ]

    def tail(self, t: float) -> Any:
        with mp.workdps(500):
            terms = [c * mp.exp(-mp.mpf(t) / a) for a, c in zip(self.a, self.c, strict=True)]
            return mp.fsum(terms) / 2


def inverted(phi: np.ndarray, t: float) -> float:
    """P(Σ φ_j L_j > t) by the midpoint rule on the formula of Gil-Pelaez (1951)."""
    h = 2.0 * np.pi / (t + 45.0 * np.abs(phi).max() + 9.0 * np.linalg.norm(phi))
    s = h * (np.arange(4000) + 0.5)
    transform = np.exp(-np.log1p(np.square(np.outer(s, phi))).sum(axis=1))
    return 0.5 - float((np.sin(t * s) / s * transform).sum()) * h / np.pi


# The law of Laplace noise


@pytest.mark.parametrize("size", [1, 2, 3, 7, 30, 100, pytest.param(500, marks=pytest.mark.slow)])
def test_equal_weights_have_the_closed_form(size: int):
    law, phi = ProjectedLaplace(1.0, size), np.ones(size)
    for distance in DISTANCES:
        t = distance * np.sqrt(size)
        exact = mp.log(uniform_tail(size, t))
        assert abs(float(mp.expm1(mp.mpf(float(law.log_tail(t, phi))) - exact))) < 1e-12
    for p in LEVELS:
        q = float(law.quantile(p, phi))
        assert float(uniform_tail(size, q) / mp.mpf(1.0 - p) - 1) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", DISTINCT)
def test_distinct_weights_agree_with_partial_fractions(name: str):
    phi = DISTINCT[name]
    law, oracle, norm = ProjectedLaplace(1.0, len(phi)), PartialFractions(phi), np.linalg.norm(phi)
    for distance in DISTANCES:
        exact = mp.log(oracle.tail(distance * norm))
        found = mp.mpf(float(law.log_tail(distance * norm, phi)))
        assert abs(float(mp.expm1(found - exact))) < 1e-12
    for p in LEVELS:
        tail = oracle.tail(float(law.quantile(p, phi)))
        assert float(tail / mp.mpf(1.0 - p) - 1) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", LARGE)
def test_many_weights_agree_with_the_inverted_characteristic_function(name: str):
    phi = LARGE[name]
    law = ProjectedLaplace(0.5, len(phi))
    for distance in (0.01, 0.1, 0.5, 1.0, 2.0, 3.0):
        t = distance * float(np.linalg.norm(phi))
        assert float(law.tail(0.5 * t, phi)) == pytest.approx(inverted(phi, t), abs=1e-13)


@pytest.mark.parametrize("phi", [*LARGE.values(), spiky(500), np.ones(1), np.ones(2), fourier(100)])
@pytest.mark.parametrize("p", LEVELS)
def test_the_gradient_is_that_of_finite_differences(phi: np.ndarray, p: float):
    law = ProjectedLaplace(1.3, len(phi))
    q, slope = law.quantile_with_gradient(p, phi)
    assert float(q) == float(law.quantile(p, phi))
    assert slope @ phi == pytest.approx(float(q), rel=1e-12)  # q is homogeneous
    for towards in (np.sign(phi), np.random.default_rng(0).normal(size=len(phi))):
        h = 1e-5 * np.linalg.norm(phi) / np.linalg.norm(towards)
        ahead, behind = law.quantile(p, phi + h * towards), law.quantile(p, phi - h * towards)
        moved = float(ahead - behind) / (2.0 * h)
        size = (1e-6 * float(q) / np.linalg.norm(phi) + 1e-9) * np.linalg.norm(towards)
        assert slope @ towards == pytest.approx(moved, abs=size)


@pytest.mark.parametrize("phi", [*DISTINCT.values(), *LARGE.values(), np.ones(1), np.ones(500)])
def test_few_nodes_suffice(phi: np.ndarray):
    squares = np.square(phi / np.abs(phi).max())[None]
    law = ProjectedLaplace(1.0, len(phi))
    for p in LEVELS[1:]:
        t = law.quantile(p, phi)[None] / np.abs(phi).max()
        assert Contour.through(squares, t).z.size <= 200


def test_rows_are_answered_like_one():
    rows = np.random.default_rng(0).normal(size=(300, 40)) ** 5
    rows[3], rows[7, 1:] = 0.0, 0.0
    law = ProjectedLaplace(2.0, 40)
    q, slopes = law.quantile_with_gradient(0.95, rows)
    tails = law.log_tail(q, rows)
    for i in (0, 3, 7, 150, 299):
        one, slope = law.quantile_with_gradient(0.95, rows[i])
        assert float(q[i]) == pytest.approx(float(one), rel=1e-13)
        assert np.allclose(slopes[i], slope, rtol=1e-10, atol=1e-13)
    assert np.allclose(np.delete(tails, 3), np.log(0.05), rtol=1e-12)
    assert q[3] == 0.0
    assert not slopes[3].any()


def test_tails_have_logarithms_where_they_are_no_floats():
    law = ProjectedLaplace(1.0, 3)
    for t in (1e3, 1e4):  # one weight decides: ½ exp(−t) / ((1 − ¼) (1 − 0.04))
        exact = -t + np.log(0.5 / 0.75 / 0.96)
        assert float(law.log_tail(t, [1.0, 0.5, 0.2])) == pytest.approx(exact, rel=1e-13)
    for t in (1e6, 1e9, 1e15):
        assert float(law.log_tail(t, [1.0, 0.5, 0.2])) == pytest.approx(-t, rel=1e-6)
    assert float(law.tail(1e6, [1.0, 0.5, 0.2])) == 0.0


def test_levels_at_the_ends_of_what_floats_can_say():
    law, phi = ProjectedLaplace(1.0, 3), [1.0, 0.5, 0.2]
    assert float(law.quantile(0.5, phi)) == 0.0
    assert 0.0 < float(law.quantile(np.nextafter(0.5, 1.0), phi)) < 1e-15
    assert float(law.quantile(1.0 - 2.0**-53, phi)) == pytest.approx(36.372157456, rel=1e-9)
    assert float(law.quantile(1e-300, phi)) == pytest.approx(-690.41088478, rel=1e-9)
    assert float(law.tail(1e-300, phi)) == pytest.approx(0.5, rel=1e-14)
    assert float(law.quantile(0.9, [1e-200, 0.0, 0.0])) == pytest.approx(1.6094379124341003e-200)


# The law of gamma noise


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_gamma_noise_agrees_with_its_density(size: int):
    law, phi, nu = ProjectedGamma(0.5, size), np.eye(1, size)[0], 0.5 * size
    scale = nu * np.log(2.0) + 0.5 * np.log(np.pi) + gammaln(nu + 0.5)

    def density(x: float) -> float:
        return np.exp(nu * np.log(x) - x - scale) * kve(nu, x)

    for distance in (0.3, 1.0, 3.0, 8.0):
        t = distance * np.sqrt(size + 1.0)
        parts = [quad(density, t + a, t + b, epsabs=0.0, epsrel=1e-13)[0] for a, b in PARTS]
        assert float(law.tail(0.5 * t, phi)) == pytest.approx(sum(parts), rel=2e-12)


def test_gamma_noise_of_one_weight_is_laplace_noise():
    gamma, laplace = ProjectedGamma(0.3, 1), ProjectedLaplace(0.3, 1)
    for p in LEVELS:
        assert gamma.quantile(p, [-2.0]) == pytest.approx(float(laplace.quantile(p, [-2.0])))


# The law of normal noise


def test_normal_noise_has_the_quantiles_of_its_covariance():
    root = np.random.default_rng(0).normal(size=(4, 4))
    law = ProjectedGaussian.of(root @ root.T)
    phi = np.array([1.0, -2.0, 0.5, 0.0])
    spread = float(np.sqrt(phi @ root @ root.T @ phi))
    for p in (0.1, 0.5, 0.9, 0.999):
        exact = statistics.NormalDist(0.0, spread).inv_cdf(p)
        assert float(law.quantile(p, phi)) == pytest.approx(exact, abs=1e-12)
        assert float(law.tail(exact, phi)) == pytest.approx(1.0 - p, rel=1e-9)
    assert float(law.deviation(phi)) == pytest.approx(spread)


# What holds for all


@every
@given(one=vectors, other=vectors, p=st.sampled_from([0.55, 0.9, 0.99]))
def test_a_quantile_is_a_norm_and_its_gradient_supports_it(
    law: NoiseLaw, one: np.ndarray, other: np.ndarray, p: float
):
    q, slope = law.quantile_with_gradient(p, one)
    r = law.quantile(p, other)
    assert float(law.quantile(p, one + other)) <= float(q + r) + 1e-9
    assert float(law.quantile(p, -2.0 * one)) == pytest.approx(2.0 * float(q), abs=1e-12)
    assert float(r) >= float(q + slope @ (other - one)) - 1e-9
    assert float(law.quantile(1.0 - p, one)) == pytest.approx(-float(q), abs=1e-12)


@every
def test_so_many_times_the_noise_has_so_many_times_the_quantile(law: NoiseLaw):
    rows = np.random.default_rng(0).normal(size=(20, 4))
    half = law.scaled(0.5)
    assert type(half) is type(law)
    np.testing.assert_allclose(half.quantile(0.9, rows), 0.5 * law.quantile(0.9, rows), rtol=1e-13)


@every
def test_tail_and_quantile_are_inverse(law: NoiseLaw):
    rows = np.random.default_rng(0).normal(size=(20, 4))
    for p in (0.02, 0.3, 0.6, 0.95, 0.9999):
        q = law.quantile(p, rows)
        assert np.allclose(law.tail(q, rows), 1.0 - p, rtol=1e-9)
        assert np.allclose(law.log_tail(q, rows), np.log1p(-p), rtol=1e-9)


@every
def test_draws_have_the_law(law: NoiseLaw):
    draws = law.draw(100_000, random_state=0)
    assert draws.shape == (100_000, 4)
    assert np.array_equal(draws, law.draw(100_000, random_state=0))
    assert np.array_equal(draws, law.draw(100_000, np.random.default_rng(0)))
    for phi in ([1.0, 0.0, 0.0, 0.0], [1.0, -1.0, 0.5, 2.0]):
        values = draws @ np.array(phi)
        assert values.std() == pytest.approx(float(law.deviation(phi)), rel=0.02)
        for p in (0.2, 0.9, 0.99):
            below = float((values <= float(law.quantile(p, phi))).mean())
            assert below == pytest.approx(p, abs=5.0 * np.sqrt(p * (1.0 - p) / 100_000))


@every
def test_no_features_have_no_noise(law: NoiseLaw):
    zero = np.zeros(4)
    q, slope = law.quantile_with_gradient(0.9, zero)
    assert float(q) == 0.0
    assert not slope.any()
    assert [float(law.tail(t, zero)) for t in (-1.0, 0.0, 1.0)] == [1.0, 0.0, 0.0]
    assert float(law.log_tail(-1.0, zero)) == 0.0
    assert float(law.deviation(zero)) == 0.0


@pytest.mark.parametrize("u", [1e-3, 0.5, 2.0, 9.0, 30.0])
def test_two_variables_have_the_tail_that_is_known(u: float):
    tail = float(ProjectedLaplace(1.0, 2).tail(u / np.sqrt(2.0), np.full(2, np.sqrt(0.5))))
    assert tail == pytest.approx(0.25 * np.exp(-u) * (2.0 + u), rel=1e-12)


# What cannot be


BAD: list[tuple[Any, str]] = [
    (lambda: ProjectedLaplace(0.0, 3), "noise scale above 0; got 0.0"),
    (lambda: ProjectedGamma(np.nan, 3), "noise scale above 0; got nan"),
    (lambda: ProjectedGaussian.isotropic(1.0, 0), "at least one weight; got n_features=0"),
    (lambda: ProjectedGaussian.of([[1.0, 2.0], [2.0, 1.0]]), "smallest eigenvalue is -1: check"),
    (lambda: ProjectedGaussian.of([[1.0, 2.0]]), r"symmetric covariance; got shape \(1, 2\)"),
    (lambda: ProjectedGaussian([1.0]), r"shape \(F, r\); got shape \(1,\)"),
    (lambda: LAWS["laplace"].quantile(1.0, np.ones(4)), "above 0 and below 1; got 1.0"),
    (lambda: LAWS["laplace"].quantile(np.nan, np.ones(4)), "got nan"),
    (lambda: LAWS["gamma"].quantile_with_gradient(0.0, np.ones(4)), "got 0.0"),
    (lambda: LAWS["gamma"].quantile(0.9, np.ones(3)), r"\(4,\) or \(n, 4\); got \(3,\)"),
    (lambda: LAWS["gaussian"].tail(0.0, [1.0, np.nan, 0.0, 0.0]), "finite features"),
    (lambda: LAWS["gaussian"].tail([0.0, 1.0], np.ones(4)), "one for each of 1 rows"),
    (lambda: LAWS["laplace"].tail(np.inf, np.ones(4)), "a finite number"),
]


@every
def test_half_of_the_noise_is_negative(law: NoiseLaw):
    assert law.quantile(0.5, np.ones(4)) == 0.0


@pytest.mark.parametrize(("call", "message"), BAD)
def test_what_cannot_be_is_refused(call: Any, message: str):
    with pytest.raises(InvalidInput, match=message):
        call()
