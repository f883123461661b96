"""Explanations between groups, pruned: of few features for every pair, and still consistent."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy import sparse

from counterpoint.groups import Affine, GroupTranslations, Limits, Network
from counterpoint.groups.estimators import prunable
from counterpoint.groups.fitting import _relieving, pair_counts, pruned, refit
from counterpoint.groups.problem import Fusion, Objective
from counterpoint.groups.representations import Representation, stages

SHAPES = [(2, 4), (3, 5), (5, 6)]


def space(kind: str, d: int, rng: np.random.Generator) -> Representation:
    first = rng.normal(size=(d, 4))
    if kind == "affine":
        return Affine(first[:, :3], np.zeros(3))
    return Network([first, rng.normal(size=(4, 3))], [np.zeros(4), np.zeros(3)], "elu")


def made(kind: str, n: int, d: int, reach: float = np.inf) -> tuple[Objective, np.ndarray]:
    """A task of n groups and d features, and offsets that change all of them."""
    rng = np.random.default_rng(n + d)
    means = rng.normal(size=(n, d))
    parts = stages(space(kind, d, rng))
    base = parts.hidden(means)
    penalty = Fusion(n, np.ones(d), np.full(d, reach), np.zeros(d, dtype=int))
    task = Objective(base, parts.finish(base), parts, parts.first.matrix, penalty)
    return task, penalty.nearest(means - means.mean(axis=0))


every = pytest.mark.parametrize(
    ("kind", "n", "d"), [(kind, *shape) for kind in ("affine", "network") for shape in SHAPES]
)

both = pytest.mark.parametrize("near", [True, False])


@every
def test_many_losses_at_once_are_those_one_by_one(kind: str, n: int, d: int):
    task, start = made(kind, n, d)
    features = np.tile(np.arange(d), 3)
    columns = np.random.default_rng(0).normal(size=(3 * d, n))
    many = np.repeat(start[None], 3 * d, axis=0)
    many[np.arange(3 * d), :, features] = columns
    one_by_one = [task.value(one) for one in many]
    np.testing.assert_allclose(task.exchanged(start, features, columns), one_by_one, atol=1e-12)
    few = task.exchanged(start, features, columns, at_once=1)
    np.testing.assert_allclose(few, one_by_one, atol=1e-12)
    scattered = replace(task, matrix=sparse.csr_array(task.matrix))
    np.testing.assert_allclose(
        scattered.exchanged(start, features, columns, at_once=1), one_by_one, atol=1e-12
    )


@both
@every
def test_every_pair_changes_fewer_and_fewer_features(kind: str, n: int, d: int, *, near: bool):
    task, start = made(kind, n, d)
    found = list(pruned(task, start, near=near))
    most = [int(pair_counts(one).max()) for one in found]
    assert len(found) == d - 1
    assert all(count <= k for count, k in zip(most, range(d - 1, 0, -1), strict=True))
    refitted = [refit(task, one, 0.0) for one in found]
    assert all(one.loss <= task.value(D) + 1e-9 for one, D in zip(refitted, found, strict=True))
    assert all(
        (pair_counts(one.D) <= pair_counts(D)).all() for one, D in zip(refitted, found, strict=True)
    )


@both
def test_what_is_tied_stays_tied(*, near: bool):
    task, start = made("affine", 5, 6)
    start[:, 2] = 0.0
    start[3] = start[1]
    previous = start
    for one in pruned(task, start, near=near):
        tied = previous[:, None] == previous[None]
        assert (one[:, None] == one[None])[tied].all()
        previous = one


@both
def test_bounds_hold(*, near: bool):
    task, start = made("network", 4, 5, reach=0.6)
    for one in pruned(task, start, near=near):
        assert (np.ptp(one, axis=0) <= 0.6 * (1.0 + 1e-12)).all()


@both
def test_features_that_rise_from_group_to_group_still_do(*, near: bool):
    task, start = made("network", 5, 4)
    start[:, :2] = np.sort(start[:, :2], axis=0)
    fusion = replace(task.fusion, monotone=np.array([1, 1, 0, 0]))
    for one in pruned(replace(task, fusion=fusion), start, near=near):
        assert (np.diff(one[:, :2], axis=0) >= 0.0).all()


@both
def test_two_groups_are_pruned_as_by_the_best_subset_where_features_are_apart(*, near: bool):
    """With r(x) = x the loss is a sum over features, and the smallest differences go first."""
    means = np.array([[0.0, 0.0, 0.0, 0.0], [3.0, -1.0, 0.5, 2.0]])
    penalty = Fusion(2, np.ones(4), np.full(4, np.inf), np.zeros(4, dtype=int))
    parts = stages(Affine(np.eye(4), np.zeros(4)))
    task = Objective(means, means, parts, np.eye(4), penalty)
    supports = [set(np.flatnonzero(np.ptp(one, axis=0))) for one in pruned(task, means, near=near)]
    assert supports == [{0, 1, 3}, {0, 3}, {0}]


@both
def test_levels_with_another_one_between_them_can_become_one(*, near: bool):
    """Each group moves a feature of its own; of one feature a pair, all that is left is one."""
    task, start = made("affine", 3, 3)
    (*_, last) = pruned(task, np.diag([1.0, 2.0, 3.0]), near=near)
    assert pair_counts(last).max() <= 1
    assert start.shape == last.shape


@both
@pytest.mark.parametrize("monotone", [0, 1, -1])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_merges_are_those_that_brute_force_lists(n: int, monotone: int, *, near: bool):
    task, start = made("affine", n, 4)
    start = start.round()  # ties
    if monotone:
        start = monotone * np.sort(start, axis=0)[::monotone]
    task = replace(task, fusion=replace(task.fusion, monotone=np.full(4, monotone)))
    crowded = pair_counts(start) > 1
    listed = {}
    for feature, column in enumerate(start.T):
        levels = sorted(set(column))
        pairs = list(pairwise(levels) if near else combinations(levels, 2))
        for low, high in pairs:
            among = (low, high) if not monotone else [v for v in levels if low <= v <= high]
            own = [i for i in range(n) if column[i] in among]
            gain = sum(crowded[i, j] and column[i] != column[j] for i, j in combinations(own, 2))
            if gain:
                after = column.copy()
                after[own] = np.mean([column[i] for i in own])
                listed[feature, low, high] = (feature, after, gain)
    features, columns, gains = _relieving(task.fusion, start, crowded, near=near)
    assert len(features) == len(listed)
    for one, found in zip(listed.values(), zip(features, columns, gains, strict=True), strict=True):
        assert one[0] == found[0]
        np.testing.assert_allclose(one[1], found[1], atol=1e-15)
        assert one[2] == found[2]


def test_many_features_of_two_groups_do_not_take_their_square():
    """Of 700 features, all offsets after each of 700 merges would be 8 MB, at each of 700 steps."""
    import tracemalloc

    rng = np.random.default_rng(0)
    means = rng.normal(size=(2, 700))
    parts = stages(Affine(rng.normal(size=(700, 2)), np.zeros(2)))
    base = parts.hidden(means)
    free = Fusion(2, np.ones(700), np.full(700, np.inf), np.zeros(700, dtype=int))
    tracemalloc.start()
    few = next(pruned(Objective(base, base, parts, parts.first.matrix, free), means, near=True))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pair_counts(few).max() == int(0.93 * 700)
    assert most < 2e6


def test_a_pair_with_another_group_between_it_everywhere_is_relieved_too():
    """No merge of neighbouring levels relieves the only pair that changes too much."""
    task, _ = made("affine", 5, 6)
    between = [[1, 1, 0, 2, 0, 2], [0, 2, 1, 1, 0, 2], [0, 2, 0, 2, 1, 1]]
    start = np.array([[0] * 6, [2] * 6, *between], dtype=float)
    crowded = pair_counts(start) > 5
    assert np.argwhere(crowded).tolist() == [[0, 1], [1, 0]]
    assert not len(_relieving(task.fusion, start, crowded, near=True)[0])
    assert pair_counts(next(pruned(task, start, near=True))).max() <= 5


def test_a_model_of_few_features_a_pair_is_better_for_it():
    """Three groups at the corners of a triangle: each moved to by a feature of its own."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], 30)
    X = 0.3 * rng.normal(size=(120, 8))
    for group in (1, 2, 3):
        X[y == group, group] += 4.0
    model = GroupTranslations(Affine(np.eye(8), np.zeros(8)), limits=Limits(times=2.0)).fit(X, y)
    two = model.sparse(2)
    assert two.counts.max() == 2
    quality = model.judge(X, y, two)
    assert quality.mean(quality.correctness) > 0.9
    counts = [one.translations.counts.max() for one in prunable(model.path_.candidates, 5)]
    assert all(a <= b for a, b in pairwise(counts))


def test_what_is_pruned_changes_several_features():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 4)), np.repeat([0, 1, 2], 30)
    X[y == 1] += [1.0, 2.0, 0.0, 0.0]
    X[y == 2] += [0.0, 2.0, 3.0, 0.0]
    model = GroupTranslations(Affine(np.eye(4), np.zeros(4)), strengths=5).fit(X, y)
    able = prunable(model.path_.candidates, 3)
    assert 0 < len(able) <= 3
    assert all(len(one.translations.columns) > 1 for one in able)
