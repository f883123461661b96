"""Multipliers that an interior point left inexact: they refute as the exact ones do."""

from __future__ import annotations

import numpy as np
import pytest
from known_programs import KNOWN

from counterpoint.problem.costs import EncodedCost
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.program import Program
from counterpoint.programs.region import Region
from counterpoint.solvers.duals import purified
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


@pytest.mark.parametrize("known", [k for k in DUAL if k.cost == np.inf], ids=lambda k: k.name)
def test_rays_refute_what_they_are_near_to_refuting(known: Known):
    case = known.program.cases(known.x[None, :])
    if known.program.domain.is_empty(case)[0]:
        return
    for seed in range(5):
        ray = purified(known.program, case, noisy(known, seed))
        assert known.program.refutes(case, ray[None, :])[0]


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
