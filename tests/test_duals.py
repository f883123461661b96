"""Multipliers that an interior point left inexact: they bound and refute as the exact ones do."""

from __future__ import annotations

import numpy as np
import pytest
from known_programs import KNOWN

from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.losses import LogLoss
from counterpoint.programs.program import Program
from counterpoint.programs.region import Region
from counterpoint.solvers.duals import cost_limited, purified
from counterpoint.testing import Known

NOISE = 1e-9
DUAL = [known for known in KNOWN if known.multipliers is not None and not known.program.nonconvex]


def noisy(known: Known, seed: int) -> np.ndarray:
    """Its multipliers, each off by a little, and none of them 0."""
    rng = np.random.default_rng(seed)
    exact = known.multipliers
    assert exact is not None
    size = np.abs(exact).max(initial=1e-3)
    signs = np.where(exact != 0.0, np.sign(exact), rng.choice([-1.0, 1.0], len(exact)))
    return exact + NOISE * size * signs * rng.uniform(0.1, 1.0, len(exact))


@pytest.mark.parametrize("known", [k for k in DUAL if k.cost < np.inf], ids=lambda k: k.name)
def test_no_bound_falls_and_none_exceeds_the_optimum(known: Known):
    case = known.program.cases(known.x[None, :])
    for seed in range(5):
        before = noisy(known, seed)
        after = cost_limited(known.program, case, before)
        bounds = [
            known.program.bound(case, v[None, :], known.point[None])[0] for v in (before, after)
        ]
        assert bounds[0] <= bounds[1] <= known.cost * (1.0 + 1e-12)


@pytest.mark.parametrize("known", [k for k in DUAL if k.cost == np.inf], ids=lambda k: k.name)
def test_rays_refute_what_they_are_near_to_refuting(known: Known):
    case = known.program.cases(known.x[None, :])
    if known.program.domain.is_empty(case)[0]:
        return
    for seed in range(5):
        ray = purified(known.program, case, noisy(known, seed))
        assert known.program.refutes(case, ray[None, :])[0]


@pytest.mark.parametrize("weight", [1.0, 1e-2, 1e-4])
def test_small_prices_lose_nothing_to_noise(weight: float):
    """The slopes of a probability and of a row cancel but for the price, however small that is."""
    encoded_cost = EncodedCost(np.full(2, weight), np.zeros(2))
    rows = LinearBounds(np.ones((1, 2)), np.array([-np.inf]), np.array([-1.0]))
    program = Program(encoded_cost, Region((rows, LogLoss(-8.0 * np.ones((1, 2)), np.zeros(1)))))
    case = program.cases(np.zeros((1, 2)))
    share = 1.0 / (1.0 + np.exp(-8.0))
    exact = np.array([8.0 * share + weight, share])
    best = weight + np.log1p(np.exp(8.0))
    # These are rounded themselves: slopes of ±8 cancel but for the weight, and none may exceed it.
    cancelled = 16.0 * np.finfo(np.float64).eps * 8.0 / weight
    bound = program.bound(case, exact[None, :])[0]
    assert best * (1.0 - 1e-12 - cancelled) <= bound <= best
    off = exact * (1.0 + np.array([NOISE, -NOISE]))
    assert program.bound(case, off[None, :])[0] < best * (1.0 - 1e-9 / weight)
    bound = program.bound(case, cost_limited(program, case, off)[None, :])[0]
    assert best * (1.0 - 1e-10) <= bound <= best * (1.0 + 1e-12)


def test_the_way_to_no_slope_is_not_to_no_multipliers():
    """Rivals on both sides of the label: their shares cancel, as nearly as rows are rounded."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        row, share = rng.normal(size=3), rng.uniform(0.1, 0.9)
        rows = np.array([row, -row * share / (1.0 - share)])
        program = Program(
            EncodedCost(np.ones(3), np.zeros(3)),
            Region((LinearBounds(rows, np.ones(2), np.full(2, np.inf)),)),
        )
        case = program.cases(np.zeros((1, 3)))
        ray = -np.array([share, 1.0 - share]) * (1.0 + NOISE * rng.normal(size=2))
        pure = purified(program, case, ray)
        assert program.refutes(case, pure[None, :])[0]
        np.testing.assert_allclose(pure, ray, rtol=1e-7)
