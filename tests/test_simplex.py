"""The dual simplex method of a batch against HiGHS, as SciPy calls it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from counterpoint.solvers.simplex import unique_optima
from counterpoint.solvers.standard_form import BatchBounds


def programs(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, BatchBounds]:
    """Random programs of one kind: a matrix, prices, and the limits of 40 programs."""
    n, m, d = 40, int(rng.integers(1, 7)), int(rng.integers(1, 12))
    matrix = rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.8)
    encoded_cost = rng.uniform(0.5, 2.0, d)
    low, high = np.full((n, d), -np.inf), np.full((n, d), np.inf)
    row_low, row_high = rng.normal(size=(n, m)) + 0.5, np.full((n, m), np.inf)
    if kind != "free":
        low, high = -rng.uniform(0.0, 2.0, (n, d)), rng.uniform(0.0, 2.0, (n, d))
    if kind == "moved":  # bounds that nothing meets at first, held columns, gratis ones
        low, high = low + rng.integers(-1, 2, (n, d)), high + rng.integers(-1, 2, (n, d))
        low, high = np.minimum(low, high), np.maximum(low, high)
        high[:, :1] = low[:, :1]
        encoded_cost[-1:] = 0.0
    if kind == "rows":  # equalities, two-sided rows, and rows that contradict each other
        row_high = row_low + rng.choice([0.0, 0.5, np.inf], (n, m))
        matrix[-1] = -matrix[0]
    return matrix, encoded_cost, BatchBounds(low, high, row_low, row_high)


def oracle(matrix: np.ndarray, encoded_cost: np.ndarray, one: BatchBounds) -> float:
    """The optimum by HiGHS; NaN if there is no point."""
    low, high, row_low, row_high = one
    split, upper, lower = np.hstack([matrix, -matrix]), np.isfinite(row_high), np.isfinite(row_low)
    bounds = np.column_stack([np.maximum(low, 0), np.maximum(high, 0)]).tolist()
    bounds += np.column_stack([np.maximum(-high, 0), np.maximum(-low, 0)]).tolist()
    found = linprog(
        np.tile(encoded_cost, 2),
        np.vstack([split[upper], -split[lower]]),
        np.append(row_high[upper], -row_low[lower]),
        bounds=bounds,
        method="highs",
    )
    return float(found.fun) if found.status == 0 else np.nan


def lower_bound(
    matrix: np.ndarray, encoded_cost: np.ndarray, one: BatchBounds, dual: np.ndarray
) -> float:
    """What the multipliers prove, column by column: weak duality."""
    ends = np.where(dual > 0.0, one.row_low, np.where(dual < 0.0, one.row_high, 0.0))
    low, high = np.clip(one.low, -1e3, None), np.clip(one.high, None, 1e3)  # no optimum is as far
    values = [
        encoded_cost * np.abs(v) - (dual @ matrix) * v for v in (low, high, np.clip(0.0, low, high))
    ]
    return float(dual @ ends + np.min(values, axis=0).sum())


@pytest.mark.parametrize("kind", ["free", "box", "moved", "rows"])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_found_is_optimal_and_proved(kind: str, seed: int) -> None:
    matrix, encoded_cost, limits = programs(kind, np.random.default_rng(seed))
    change, duals = unique_optima(matrix, encoded_cost, limits)
    for i in range(len(change)):
        one = BatchBounds(*(limit[i] for limit in limits))
        least = oracle(matrix, encoded_cost, one)
        if np.isnan(change[i]).any():
            continue
        cost, reach = float(encoded_cost @ np.abs(change[i])), matrix @ change[i]
        assert cost == pytest.approx(least, rel=1e-9, abs=1e-9)
        for value, low, high in (
            (change[i], one.low, one.high),
            (reach, one.row_low, one.row_high),
        ):
            assert np.maximum(low - value, value - high).max() <= 1e-9
        assert lower_bound(matrix, encoded_cost, one, duals[i]) == pytest.approx(
            cost, rel=1e-9, abs=1e-9
        )


@pytest.mark.parametrize("kind", ["free", "box"])
def test_programs_with_a_point_are_solved_and_others_left(kind: str) -> None:
    for seed in range(20):
        matrix, encoded_cost, limits = programs(kind, np.random.default_rng(seed))
        found = np.isfinite(unique_optima(matrix, encoded_cost, limits)[0]).all(axis=1)
        each = [BatchBounds(*(limit[i] for limit in limits)) for i in range(len(found))]
        possible = ~np.isnan([oracle(matrix, encoded_cost, one) for one in each])
        assert not (found & ~possible).any()
        assert (found == possible).mean() > 0.9  # with equal multipliers, few have several optima


def test_of_several_optima_none_is_chosen() -> None:
    limits = BatchBounds(
        *(np.full((1, k), v) for k, v in ((2, -9.0), (2, 9.0), (1, 1.0), (1, 2.0)))
    )
    same = unique_optima(np.ones((1, 2)), np.ones(2), limits)[0]
    assert np.isnan(same).all()
    cheaper = unique_optima(np.ones((1, 2)), np.array([1.0, 2.0]), limits)
    np.testing.assert_allclose(cheaper[0], [[1.0, 0.0]])
    np.testing.assert_allclose(cheaper[1], [[1.0]])


def test_a_program_alone_has_the_same_optimum_as_in_a_batch() -> None:
    matrix, encoded_cost, limits = programs("box", np.random.default_rng(3))
    before = [np.array(limit) for limit in limits]
    change, duals = unique_optima(matrix, encoded_cost, limits)
    for i in range(len(change)):
        alone = unique_optima(matrix, encoded_cost, BatchBounds(*(v[i : i + 1] for v in limits)))
        np.testing.assert_allclose(alone[0][0], change[i], rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(alone[1][0], duals[i], rtol=0.0, atol=1e-12)
    for old, new in zip(before, limits, strict=True):
        np.testing.assert_array_equal(old, new)
