"""The linear relaxation of a box: each tree chooses a leaf, and a price is set on what they imply.

A *literal* says that a number is in one of its cells or above, or that a category is in a set. A
point makes each true or false; a leaf implies some of them, or that they are false. With prices
a, b ≥ 0 of every tree on both, and λ ≥ 0 on the demands, no point costs less than

    Σ_f min_z [cost_f(z) − prices of all trees on what z makes true or false]
    + Σ_t min_l [prices of t on what l implies − λᵀ v_l] − λᵀ(what is added to the sums),

for what a leaf implies is so at every point of it. Any prices prove this bound; the best are the
multipliers of a linear program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from counterpoint.families.trees.boxes import Boxes, Costs, Row, reduced
from counterpoint.families.trees.grid import NUMBER, SET, Split
from counterpoint.numerics import AFTER, EPS, BoolArray, FloatArray, IntArray

__all__ = ["Demands", "Literals", "Relaxed", "relaxed"]

ENTRIES = 1 << 23
"""Leaves times the literals of their trees that a program may have: with the solver's own copies it
takes some 500 MiB then, and longer than a row has."""


@final
class Relaxed(NamedTuple):
    """The best prices for a box."""

    bound: float  # what every point of the box costs that meets the demands
    prices: list[float]  # λ, then a tree, a literal, a and b, again and again
    split: Split  # kind 0 if there is nothing to branch on
    cells: IntArray  # a point near the solution
    categories: IntArray


@final
class Demands(NamedTuple):
    """What sums over leaves have to reach: values @ chosen + shift >= 0."""

    values: FloatArray  # (r, L)
    shift: FloatArray  # (r,)


@final
class Literals:
    """Literals in a box, and which of its leaves imply what.

    Those of numbers are named by their cell among those of all, then those of sets by their test.
    """

    def __init__(self, row: Row, box: Boxes, leaves: IntArray) -> None:
        self.row, self.grid, self.leaves = row, row.grid, leaves
        grid, tests = self.grid, self.grid.tests[leaves]
        self.known: Costs = row.costs(box)
        self.low, self.high = self.known.boxes.low[0], self.known.boxes.high[0]
        self.among = self.known.boxes.among[0]
        self.tree = np.searchsorted(grid.tree, leaves, "right") - 1
        # (A, F) the cells and (A, C) the categories that leaves leave of the box
        self.first = np.tile(self.low, (len(leaves), 1))
        self.final = np.tile(self.high, (len(leaves), 1))
        self.within = np.tile(self.among, (len(leaves), 1))
        for test in tests.T:
            at = np.flatnonzero(test < len(grid.number))
            n = test[at]
            f = grid.number[n]
            self.first[at, f] = np.maximum(self.first[at, f], row.first[n])
            self.final[at, f] = np.minimum(self.final[at, f], row.final[n])
            at = np.flatnonzero((test >= len(grid.number)) & (test < grid.pad))
            m = test[at] - len(grid.number)
            self.within[at] &= grid.sets[m] | (grid.owner != grid.of_set[m, None])

    @property
    def used(self) -> tuple[IntArray, IntArray]:
        """The trees and the literals that their leaves are bounded by, each pair once."""
        grid, starts, tests = self.grid, self.grid.starts[:-1], self.grid.tests[self.leaves]
        pairs = []
        at, f = np.nonzero(self.first > self.low)
        pairs.append((self.tree[at], starts[f] + self.first[at, f]))
        at, f = np.nonzero(self.final < self.high)
        pairs.append((self.tree[at], starts[f] + self.row.next[starts[f] + self.final[at, f] + 1]))
        at, j = np.nonzero((tests >= len(grid.number)) & (tests < grid.pad))
        m = tests[at, j] - len(grid.number)
        inside = (grid.sets[m] & self.among).any(axis=1)
        outside = ((grid.owner == grid.of_set[m, None]) & ~grid.sets[m] & self.among).any(axis=1)
        some = inside & outside
        pairs.append((self.tree[at[some]], len(self.row.cost) + m[some]))
        tree, literal = (np.concatenate(part) for part in zip(*pairs, strict=True))
        width = len(self.row.cost) + len(grid.of_set)
        keys = np.unique(tree * width + literal)
        return keys // width, keys % width

    def parts(self, literals: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The features and cells of literals on numbers, and the sets of the others."""
        cells = literals[literals < len(self.row.cost)]
        f = np.searchsorted(self.grid.starts, cells, "right") - 1
        return f, cells - self.grid.starts[f], literals[len(cells) :] - len(self.row.cost)

    def implied(self, some: slice, literals: IntArray) -> tuple[BoolArray, BoolArray]:
        """(A, q) which literals some of the leaves imply, and which they imply to be false."""
        f, cell, m = self.parts(literals)
        sets, inside = self.grid.sets[m], self.grid.owner == self.grid.of_set[m, None]
        within, first, final = self.within[some], self.first[some], self.final[some]
        within = within.astype(np.float32)
        true = np.hstack([first[:, f] >= cell, within @ (inside & ~sets).T == 0.0])
        false = np.hstack([final[:, f] < cell, within @ sets.T == 0.0])
        return true, false

    def by_tree(self, trees: IntArray) -> Iterator[tuple[slice, IntArray]]:
        """For each tree among ascending ones its leaves, and where it stands among these."""
        which, begin = np.unique(trees, return_index=True)
        parts = zip(which.tolist(), np.split(np.arange(len(trees)), begin[1:]), strict=True)
        ends = np.append(np.searchsorted(self.tree, np.arange(len(self.grid.tree))), len(self.tree))
        for tree, places in parts if len(trees) else ():
            yield slice(int(ends[tree]), int(ends[tree + 1])), places

    def entries(self, trees: IntArray) -> int:
        """How many leaves and literals of their trees there are, each pair once."""
        size = len(self.grid.tree)
        return int(
            (np.bincount(trees, minlength=size) * np.bincount(self.tree, minlength=size)).sum()
        )

    def implications(self, side: int, trees: IntArray, used: IntArray) -> tuple[IntArray, IntArray]:
        """Leaves and what they imply of literals ``used`` by their trees: tree · q + literal."""
        literals, leaf, key = np.unique(used), list[IntArray](), list[IntArray]()
        for some, places in self.by_tree(trees):
            at, on = np.nonzero(self.implied(some, used[places])[side])
            leaf.append(at + some.start)
            key.append(
                trees[places[on]] * len(literals) + np.searchsorted(literals, used[places[on]])
            )
        return np.concatenate(leaf), np.concatenate(key)

    def split(self, literals: IntArray, doubt: FloatArray, prices: FloatArray) -> Split:
        """The literal that a solution leaves most in doubt for what trees pay for it."""
        q = int((doubt * (1.0 + prices)).argmax())
        f, cell, m = self.parts(literals)
        if doubt[q] < np.sqrt(EPS):  # rounding
            return 0, 0, 0
        return (NUMBER, int(f[q]), int(cell[q])) if q < len(f) else (SET, int(m[q - len(f)]), 0)

    def bound(self, demands: Demands, prices: list[float]) -> float:
        """What prices prove that every point costs; 0 if they are none."""
        grid, count = self.grid, len(demands.shift)
        if len(prices) < count or (len(prices) - count) % 4:
            return 0.0
        weights = np.array(prices[:count])
        tree, literal, both = _priced(prices[count:])
        named = (tree >= 0) & (tree < len(grid.tree)) & (literal >= 0)
        named &= literal < len(self.row.cost) + len(grid.of_set)
        if not (named.all() and (weights >= 0.0).all() and (both >= 0.0).all()):
            return 0.0
        order = np.lexsort((literal, tree))
        tree, literal, both = tree[order], literal[order], both[:, order]
        if ((np.diff(tree) == 0) & (np.diff(literal) == 0)).any():
            return 0.0  # a price is set twice
        values, paid = weights @ demands.values[:, self.leaves], np.zeros(len(self.leaves))
        for leaves, places in self.by_tree(tree):
            true, false = self.implied(leaves, literal[places])
            paid[leaves] = np.where(true, both[0, places], 0.0).sum(axis=1)
            paid[leaves] += np.where(false, both[1, places], 0.0).sum(axis=1)
        literals, at = np.unique(literal, return_inverse=True)
        a, b = (np.bincount(at, part, len(literals)) for part in both)
        begin = np.searchsorted(self.leaves, grid.tree)
        trees = np.minimum.reduceat(paid - values, begin)
        f, cell, m = self.parts(literals)
        gain = np.bincount(grid.starts[f] + cell, (a - b)[: len(f)], len(self.row.cost))
        earned = np.cumsum(gain)
        begins = np.repeat(np.append(0.0, earned)[grid.starts[:-1]], np.diff(grid.starts))
        place = np.arange(len(gain)) - np.repeat(grid.starts[:-1], np.diff(grid.starts))
        low, high = (np.repeat(end, np.diff(grid.starts)) for end in (self.low, self.high))
        cost = np.where((low <= place) & (place <= high), self.row.cost - earned + begins, np.inf)
        numbers = reduced(np.minimum, cost[None], grid.starts[:-1])[0]
        sets, inside = grid.sets[m], grid.owner == grid.of_set[m, None]
        earned = a[len(f) :] @ sets + b[len(f) :] @ (inside & ~sets)
        cost = np.where(self.among, self.row.category_low - earned, np.inf)
        groups = reduced(np.minimum, cost[None], grid.firsts)[0]
        parts = [trees, numbers, groups, -b[: len(f)], -weights * demands.shift]
        total = self.row.rest_cost + sum(float(part.sum()) for part in parts)
        size = abs(self.row.rest_cost) + 2.0 * (a.sum() + b.sum())
        size += sum(float(np.abs(part).sum()) for part in parts)
        size += float((weights @ np.abs(demands.values).max(axis=1, initial=0.0)).sum())
        terms = len(literals) + len(grid.tree) + len(self.row.cost) + AFTER
        bound = total - terms * EPS * size
        return bound if np.isfinite(bound) else 0.0


def _priced(prices: list[float]) -> tuple[IntArray, IntArray, FloatArray]:
    """The trees, the literals, and (2, n) prices."""
    table = np.array(prices, dtype=np.float64).reshape(-1, 4).T
    return table[0].astype(np.intp), table[1].astype(np.intp), table[2:]


@final
class Atoms(NamedTuple):
    """What a feature can be as far as literals tell: parts of its cells, or its categories."""

    owner: IntArray  # (m,) the number, or F + the group
    place: IntArray  # the cheapest cell, or the category
    cost: FloatArray
    satisfied: BoolArray  # (q, m) which literals are true

    @classmethod
    def of(cls, known: Literals, literals: IntArray) -> Atoms:
        """Those of the features that some literals are about."""
        row, grid = known.row, known.grid
        f, cell, m = known.parts(literals)
        some = np.unique(f)
        number, begin = np.append(some, f), np.append(known.low[some], cell)
        order = np.lexsort((begin, number))
        number, begin = number[order], begin[order]
        last = np.append(number[1:] != number[:-1], True)[: len(number)]
        end = np.where(last, known.high[number] + 1, np.roll(begin, -1)) - 1
        start = grid.starts[number]
        best = np.clip(row.home[number], begin, row.last[start + end])
        category = np.flatnonzero(known.among & np.isin(grid.owner, grid.of_set[m]))
        count = len(row.home)
        above = (number == f[:, None]) & (begin >= cell[:, None])
        return cls(
            np.append(number, count + grid.owner[category]),
            np.append(best, category),
            np.append(row.cost[start + best], row.category_low[category]),
            sparse.block_diag([above, grid.sets[m][:, category]]).toarray() > 0,
        )


def relaxed(
    row: Row, box: Boxes, leaves: IntArray, demands: Demands, cost_cutoff: float, seconds: float
) -> Relaxed | None:
    """The best prices for a box, of which no more is asked than that it costs what it is worth.

    None if there is nothing to price, or the program is too large, or not solved in that time.
    """
    if seconds <= 0.0 or len(leaves) * (len(row.top) + len(row.already_satisfied)) > ENTRIES:
        return None
    known = Literals(row, box, leaves)
    trees, used = known.used
    literals, size = np.unique(used), len(row.grid.tree)
    if not len(literals) or len(literals) ** 2 > ENTRIES or known.entries(trees) > ENTRIES:
        return None
    atoms, count, q = Atoms.of(known, literals), len(leaves), len(literals)
    # y of leaves, u of literals, shares of atoms, and a share of giving up, which costs a little
    # more than it is worth, so that the bound can reach that
    width, sides, places = count + q + len(atoms.cost) + 1, [], []
    for side, sign in ((0, -1.0), (1, 1.0)):
        leaf, key = known.implications(side, trees, used)
        keys, at = np.unique(key, return_inverse=True)
        whose = sparse.csr_array((np.ones(len(leaf)), (at, leaf)), (len(keys), count))
        each = np.full(len(keys), sign), (np.arange(len(keys)), keys % q)
        literal = sparse.csr_array(each, (len(keys), q))
        sides.append(sparse.hstack([whose, literal, _zeros(len(keys), width - count - q)]))
        places.append(keys)
    short = np.maximum(-demands.shift, 0.0)[:, None]
    middle = _zeros(len(short), width - count - 1)
    demanded = sparse.hstack([-demands.values[:, leaves], middle, -short])
    tree = sparse.csr_array((np.ones(count), (known.tree, np.arange(count))), (size, count))
    owners, which = np.unique(atoms.owner, return_inverse=True)
    equal = sparse.block_array(
        [
            [tree, None, _zeros(size, len(which)), np.ones((size, 1))],
            [None, sparse.eye_array(q), sparse.csr_array(-1.0 * atoms.satisfied), None],
            [None, None, sparse.csr_array(1.0 * (which == np.arange(len(owners))[:, None])), None],
        ]
    )
    gives_up = 1.001 * cost_cutoff - float(known.known.base[0]) if np.isfinite(cost_cutoff) else 0.0
    found = linprog(
        np.concatenate([np.zeros(count + q), atoms.cost, [max(gives_up, 0.0)]]),
        sparse.vstack([*sides, demanded]),
        np.concatenate([np.zeros(len(places[0])), np.ones(len(places[1])), demands.shift]),
        equal,
        np.concatenate([np.ones(size), np.zeros(q), np.ones(len(owners))]),
        np.append(np.ones(width - 1), float(np.isfinite(cost_cutoff)))[:, None] * [0.0, 1.0],
        method="highs",
        options={"time_limit": seconds} if np.isfinite(seconds) else {},
    )
    if found.status != 0:
        return None
    duals = np.split(np.maximum(-found.ineqlin.marginals, 0.0), np.cumsum([*map(len, places)]))
    keys = np.unique(np.concatenate(places))
    paid = np.zeros((2, len(keys)))
    for side in (0, 1):
        paid[side, np.searchsorted(keys, places[side])] = duals[side]
    keys, paid = keys[paid.any(axis=0)], paid[:, paid.any(axis=0)]
    table = np.column_stack([keys // q, literals[keys % q], *paid])
    prices = [*duals[2].tolist(), *table.ravel().tolist()]
    u, shares = found.x[count : count + q], found.x[count + q : -1]
    cells, categories = np.array(known.known.cells[0]), np.array(known.known.categories[0])
    for k, owner in enumerate(owners.tolist()):
        place = atoms.place[np.where(which == k, shares, -1.0).argmax()]
        if owner < len(cells):
            cells[owner] = place
        else:
            categories[owner - len(cells)] = place
    prices_of = np.bincount(keys % q, paid.sum(axis=0), q).astype(np.float64)
    split = known.split(literals, np.minimum(u, 1.0 - u), prices_of)
    return Relaxed(known.bound(demands, prices), prices, split, cells, categories)


def _zeros(*shape: int) -> Any:
    return sparse.csr_array(shape)
