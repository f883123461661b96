"""Conditions by hand: which points they hold, and by how much a point fails, relatively."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterpoint.families.prototypes.quadratic_difference import QuadraticDifference
from counterpoint.programs.conditions import (
    AtMost,
    Box,
    Cone,
    LinearBounds,
    OneOf,
    Transitions,
    Whole,
)
from counterpoint.programs.losses import LogSumExp
from counterpoint.programs.region import Condition, Region

INF = np.inf
BOX = Box(np.array([0.0, -INF]), np.array([4.0, INF]), np.array([-INF, -1.0]), np.array([INF, 2.0]))
STEPS = Whole(np.array([0]), np.array([0.5]))
ONE = OneOf(slice(0, 3))
NEVER_BACK = Transitions(slice(0, 2), np.array([[True, True], [False, True]]))
TWO_OF_THREE = AtMost(2, (slice(0, 1), slice(1, 3), slice(3, 4)))
ROW = LinearBounds(np.array([[1.0, 1.0]]), np.array([-1.0]), np.array([2.0]))
EQUATION = LinearBounds(np.array([[1.0, 1.0]]), np.array([2.0]), np.array([2.0]))
BALL = Cone(np.eye(2), np.array([-1.0, 0.0]), 2.0)
UPWARDS = Cone(np.eye(1, 2), np.zeros(1), -2.0, np.array([0.0, 1.0]))
RIVALS = LogSumExp(np.array([[-1.0], [-1.0]]), np.zeros(2), 0.0)
NEAR = QuadraticDifference(np.eye(2), np.zeros(2), 0.5 * np.eye(2), np.array([-2.0, 0.0]), 0.0)

INSIDE, OUTSIDE = True, False
CASES = [
    (BOX, [1.0, 5.0], [4.0, 7.0], INSIDE),
    (BOX, [1.0, 5.0], [5.0, 5.0], OUTSIDE),
    (BOX, [1.0, 5.0], [-1.0, 5.0], OUTSIDE),
    (BOX, [1.0, 5.0], [1.0, 8.0], OUTSIDE),
    (BOX, [1.0, 5.0], [1.0, 3.0], OUTSIDE),
    (STEPS, [0.3], [1.8], INSIDE),
    (STEPS, [0.3], [0.5], OUTSIDE),
    (STEPS, [0.3], [2.7], OUTSIDE),
    (ONE, [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], INSIDE),
    (ONE, [1.0, 0.0, 0.0], [0.5, 0.5, 0.0], OUTSIDE),
    (ONE, [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], OUTSIDE),
    (ONE, [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], OUTSIDE),
    (NEVER_BACK, [1.0, 0.0], [0.0, 1.0], INSIDE),
    (NEVER_BACK, [0.0, 1.0], [1.0, 0.0], OUTSIDE),
    (TWO_OF_THREE, [0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], INSIDE),
    (TWO_OF_THREE, [0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 9.0], OUTSIDE),
    (ROW, [0.0, 0.0], [1.0, 1.0], INSIDE),
    (ROW, [0.0, 0.0], [2.0, 1.0], OUTSIDE),
    (ROW, [0.0, 0.0], [-2.0, 0.0], OUTSIDE),
    (EQUATION, [0.0, 0.0], [1.0, 0.0], OUTSIDE),
    (BALL, [0.0, 0.0], [3.0, 0.0], INSIDE),
    (BALL, [0.0, 0.0], [4.0, 0.0], OUTSIDE),
    (UPWARDS, [0.0, 0.0], [0.5, 3.0], INSIDE),
    (UPWARDS, [0.0, 0.0], [0.0, 2.0], INSIDE),
    (UPWARDS, [0.0, 0.0], [0.0, 1.0], OUTSIDE),
    (UPWARDS, [0.0, 0.0], [2.0, 3.0], OUTSIDE),
    (NEAR, [4.0, 0.0], [1.0, 0.0], INSIDE),
    (NEAR, [4.0, 0.0], [2.0, 0.0], OUTSIDE),
    (RIVALS, [0.0], [np.log(2.0)], INSIDE),
    (RIVALS, [0.0], [0.5], OUTSIDE),
]


@pytest.mark.parametrize(("condition", "x", "y", "inside"), CASES)
def test_a_condition_holds_the_points_that_it_should(
    condition: Condition, x: list[float], y: list[float], inside: bool
):
    """Relative to the sizes at hand, what fails here fails by some percent at least."""
    found = condition.violation(np.array([y]), np.array([x]))
    assert found.shape == (1,)
    if inside:
        assert found[0] <= 1e-15
    else:
        assert 0.02 <= found[0] <= 1.0


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case[0]).__name__)
def test_rows_are_judged_one_by_one(case: Any):
    condition, x, y, _ = case
    both = condition.violation(np.array([y, x]), np.array([x, x]))
    alone = [condition.violation(np.array([row]), np.array([x]))[0] for row in (y, x)]
    np.testing.assert_allclose(both, alone, rtol=1e-12, atol=1e-15)


def test_a_category_is_as_far_from_chosen_as_its_worst_entry():
    y = np.array([[0.0, 1.0, 0.0], [1.6, -0.3, -0.3], [-1.0, 1.0, 1.0], [0.5, 0.5, 0.0]])
    np.testing.assert_allclose(ONE.violation(y, y), [0.0, 0.6, 1.0, 0.5], atol=1e-15)


def test_an_intersection_fails_where_its_worst_condition_fails():
    region = Region((ROW,)) & Region((BALL,))
    y, x = np.array([[4.0, 0.0], [1.0, 1.0]]), np.zeros((2, 2))
    worst = np.maximum(ROW.violation(y, x), BALL.violation(y, x))
    np.testing.assert_array_equal(region.violation(y, x), worst)
    assert region.condition_types == {LinearBounds, Cone}
    assert Region().violation(y, x).tolist() == [0.0, 0.0]


def test_a_margin_closes_only_the_rows_of_a_target():
    target = LinearBounds(np.array([[1.0]]), np.array([0.0]), np.array([4.0]), np.ones(1))
    both = target.stacked(LinearBounds(np.array([[1.0]]), np.array([0.0]), np.array([4.0])))
    low, high = both.limits(np.array([[0.5, 0.0]]))
    assert low.tolist() == [[0.5, 0.0]]
    assert high.tolist() == [[3.5, 4.0]]


def test_there_is_one_multiplier_for_each_row_of_the_matrix():
    assert ROW.size == 1
    assert BALL.size == RIVALS.size == 2
    assert UPWARDS.size == len(UPWARDS.normals) == 2


def test_a_lost_tie_is_outside_on_a_lattice():
    """Over whole columns: value < limit where a tie is lost, value <= limit elsewhere."""
    rng = np.random.default_rng(0)
    units = np.array([1.0, 0.5, 1.0, 0.0])
    matrix = rng.integers(-4, 5, size=(60, 4)) * np.array([2.0, 1.0, 0.25, 0.0])
    matrix[40:, 3] = rng.normal(size=20)  # a column that takes any value
    matrix[30:40, 0] = 1.0 / 3.0  # a number that is not short
    high, lost = rng.integers(-8, 9, size=60) / 4.0, (rng.random(60) < 0.7).astype(float)
    row = LinearBounds(matrix, np.full(60, -INF), high, np.ones(60), lost)
    ties_resolved = row.ties_resolved(units)
    exact = (np.arange(60) < 30) & matrix.any(axis=1)
    np.testing.assert_array_equal(ties_resolved.tie_coefficient, np.where(exact, 0.0, lost))
    np.testing.assert_array_equal(ties_resolved.high[~exact], high[~exact])
    y = rng.integers(-20, 21, size=(4000, 4)) * np.where(units > 0, units, 0.7)
    value = (y @ matrix.T)[:, exact]
    tie = value == high[exact]
    meets = (value < high[exact]) | (tie & (lost[exact] == 0.0))
    np.testing.assert_array_equal(value <= ties_resolved.high[exact], meets)
    assert (tie & (lost[exact] == 1.0)).any()
    assert (
        np.abs(value - ties_resolved.high[exact])[:, (lost[exact] == 1.0)].min(axis=0) > 0
    ).all()
