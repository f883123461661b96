"""Explanations between groups, pruned: of few features for every pair, and still consistent."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from counterpoint.groups import Affine, GroupTranslations, Limits, Network
from counterpoint.groups.fitting import refit
from counterpoint.groups.fusion import Fusion
from counterpoint.groups.matching import Matching, Task
from counterpoint.groups.pruning import pair_counts, prunable, pruned
from counterpoint.groups.representations import Representation, stages

SHAPES = [(2, 4), (3, 5), (5, 6)]


def space(kind: str, d: int, rng: np.random.Generator) -> Representation:
    first = rng.normal(size=(d, 4))
    if kind == "affine":
        return Affine(first[:, :3], np.zeros(3))
    return Network([first, rng.normal(size=(4, 3))], [np.zeros(4), np.zeros(3)], "elu")


def made(kind: str, n: int, d: int, reach: float = np.inf) -> tuple[Task, np.ndarray]:
    """A task of n groups and d features, and offsets that change all of them."""
    rng = np.random.default_rng(n + d)
    means = rng.normal(size=(n, d))
    parts = stages(space(kind, d, rng))
    base = parts.hidden(means)
    penalty = Fusion(n, np.ones(d), np.full(d, reach), np.zeros(d, dtype=int))
    task = Task(Matching(base, parts.finish(base), parts.rest), parts.first.matrix, penalty)
    return task, penalty.nearest(means - means.mean(axis=0))


every = pytest.mark.parametrize(
    ("kind", "n", "d"), [(kind, *shape) for kind in ("affine", "network") for shape in SHAPES]
)

both = pytest.mark.parametrize("near", [True, False])


@every
def test_many_losses_at_once_are_those_one_by_one(kind: str, n: int, d: int):
    task, start = made(kind, n, d)
    many = np.stack([start, 0.5 * start, np.zeros_like(start), start[::-1]])
    np.testing.assert_allclose(task.values(many), [task.value(one) for one in many], atol=1e-12)


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
    fusion = replace(task.fusion, course=np.array([1, 1, 0, 0]))
    for one in pruned(replace(task, fusion=fusion), start, near=near):
        assert (np.diff(one[:, :2], axis=0) >= 0.0).all()


@both
def test_two_groups_are_pruned_as_by_the_best_subset_where_features_are_apart(*, near: bool):
    """With r(x) = x the loss is a sum over features, and the smallest differences go first."""
    means = np.array([[0.0, 0.0, 0.0, 0.0], [3.0, -1.0, 0.5, 2.0]])
    penalty = Fusion(2, np.ones(4), np.full(4, np.inf), np.zeros(4, dtype=int))
    task = Task(Matching(means, means, None), np.eye(4), penalty)
    supports = [set(np.flatnonzero(np.ptp(one, axis=0))) for one in pruned(task, means, near=near)]
    assert supports == [{0, 1, 3}, {0, 3}, {0}]


@both
def test_levels_with_another_one_between_them_can_become_one(*, near: bool):
    """Each group moves a feature of its own; of one feature a pair, all that is left is one."""
    task, start = made("affine", 3, 3)
    (*_, last) = pruned(task, np.diag([1.0, 2.0, 3.0]), near=near)
    assert pair_counts(last).max() <= 1
    assert start.shape == last.shape


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
