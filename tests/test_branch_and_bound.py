"""The driver of all trees: on subset sums, whose least excess brute force knows."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.solvers.branch_and_bound import BranchingProblem, SearchTree, branch_and_bound

SIZES = np.array([3.0, 5.0, 7.0, 11.0, 13.0])
GOALS = np.array([12.0, 20.0, 39.0, 40.0])


class Nodes(NamedTuple):
    """Which sizes are decided, from the first on, and what the chosen ones sum up to."""

    depth: IntArray
    total: FloatArray


class SubsetSums(BranchingProblem[Nodes]):
    """The least sum of some sizes that is at least a goal, for each goal."""

    def __init__(self, goals: FloatArray, most: float = np.inf) -> None:
        self.goals, self.most = goals, most
        self.best, self.count = np.full(len(goals), np.inf), np.zeros(len(goals))

    @property
    def cutoff(self) -> FloatArray:
        return self.best

    @property
    def exhausted(self) -> BoolArray:
        return np.asarray(self.count > self.most)

    def roots(self) -> Nodes:
        return Nodes(np.zeros(len(self.goals), dtype=np.intp), np.zeros(len(self.goals)))

    def bound(self, nodes: Nodes, row: IntArray) -> tuple[Nodes, FloatArray]:
        np.add.at(self.count, row, 1.0)
        remaining = np.array([SIZES[depth:].sum() for depth in nodes.depth])
        enough = nodes.total >= self.goals[row]
        np.minimum.at(self.best, row[enough], nodes.total[enough])
        reachable = nodes.total + remaining >= self.goals[row]
        return nodes, np.where(reachable, np.maximum(nodes.total, self.goals[row]), np.inf)

    def record(self, nodes: Nodes) -> Nodes:
        return nodes

    def split(self, nodes: Nodes, row: IntArray) -> tuple[Nodes, Nodes, BoolArray]:
        fits = nodes.depth < len(SIZES)
        size = SIZES[np.minimum(nodes.depth, len(SIZES) - 1)]
        deeper = nodes._replace(depth=nodes.depth + 1)
        return deeper._replace(total=nodes.total + size), deeper, fits


def expected(goal: float) -> float:
    sums = (float(np.dot(choice, SIZES)) for choice in product((0, 1), repeat=len(SIZES)))
    return min((total for total in sums if total >= goal), default=np.inf)


def check_tree(tree: SearchTree) -> None:
    """Each node but the roots is one of two children of an earlier node of its row."""
    inner = np.flatnonzero(tree.children[:, 0] >= 0)
    children = tree.children[inner]
    assert (children > inner[:, None]).all()
    assert (tree.row[children] == tree.row[inner][:, None]).all()
    assert (tree.record.depth[children] == tree.record.depth[inner][:, None] + 1).all()
    n = len(tree.least)
    assert sorted(children.ravel()) == [*range(n, len(tree.row))]
    assert tree.row[:n].tolist() == [*range(n)]


@pytest.mark.parametrize("width", [None, 1, 3])
def test_it_finds_what_brute_force_finds(width: int | None):
    problem = SubsetSums(GOALS)
    tree = branch_and_bound(problem, width)
    assert problem.best.tolist() == [expected(goal) for goal in GOALS]
    assert not tree.unfinished.any()
    assert (tree.least >= np.minimum(problem.best, GOALS)).all()
    assert np.isposinf(tree.least[-1])  # all of the sizes are too few: every leaf is refuted
    check_tree(tree)


def test_a_row_is_searched_alone_as_with_others():
    whole = branch_and_bound(SubsetSums(GOALS))
    for i in range(len(GOALS)):
        alone = branch_and_bound(SubsetSums(GOALS[[i]]))
        mine = whole.row == i
        assert alone.bound.tolist() == whole.bound[mine].tolist()


def test_what_a_row_leaves_open_is_said():
    tree = branch_and_bound(SubsetSums(GOALS, most=2.0))
    assert tree.unfinished.tolist() == [True, True, True, False]
    assert np.isfinite(tree.least[:3]).all()
    check_tree(tree)
