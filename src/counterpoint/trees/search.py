"""Best-first branch and bound over boxes of cells, and the proof that it leaves behind.

In a box, a leaf costs at least what its nearest cells cost. With m_t(r) the largest value of a leaf
of tree t that costs at most r, S(r) = b + Σ_t m_t(r) bounds the sum at every point of the box that
costs at most r (the *staircase*): the least r at which S(r) meets the demands is a lower bound.
The proof is the tree of splits; whoever checks it computes S anew in each box that was closed.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from time import perf_counter
from typing import Any, final

import numpy as np

from counterpoint.certificate import Bounding, Kept
from counterpoint.engine.pieces import Pieces
from counterpoint.engine.program import Program
from counterpoint.engine.region import Cases
from counterpoint.engine.search import Found, Leads
from counterpoint.errors import NoSolver
from counterpoint.numerics import EPS, TINY, BoolArray, FloatArray, IntArray
from counterpoint.trees.boxes import Boxes, Costs, Row
from counterpoint.trees.form import LeafSums
from counterpoint.trees.grid import NUMBER, SET, Split

__all__ = ["Proof", "ProofTrees", "search_trees"]

LEAF, EXACT = 0, 3
"""What a node of a proof is that is not split: a box that holds nothing cheaper than the bound, by
the staircase; one in which the best leaves do not meet the demands when their values are added up
without rounding."""
NODES = 40_000
"""Boxes that are looked at for a row; then its bound is what those left open leave."""
SEARCHING = 0.5
"""What share of the time of a row the search takes; the rest is for its proof."""
GREEDY = 60
"""Moves of one feature that are made to find an answer to begin with."""
SHARE = 0.3
"""A move of one feature that gains less than this share of what the best one does is too small."""
AT_ONCE = 16
"""Boxes that are opened together: NumPy's overhead is shared by twice as many parts."""
HALVINGS = 10
"""How closely the radius of a box is found: what it is worth, over 2 to the power of so many."""


@final
@dataclass(eq=False)
class Proof:
    """Boxes that cover what is possible, for one row."""

    kind: list[int]
    what: list[int]  # of a split
    where: list[int]
    left: list[int]  # the first of its two parts; the other is the next
    bound: float  # no point that meets the demands costs less
    leading: float  # nor does any that leads by what was needed, which may be more

    @classmethod
    def begun(cls) -> Proof:
        """One box."""
        return cls([LEAF], [0], [0], [0], np.inf, np.inf)

    def split(self, node: int, split: Split) -> tuple[int, int]:
        """Split a box; the places of its parts."""
        self.kind[node], self.what[node], self.where[node] = split
        self.left[node] = place = len(self.kind)
        for entries in (self.kind, self.what, self.where, self.left):
            entries += [0, 0]
        return place, place + 1


@final
@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of n boxes that matter, those of one box after those of another."""

    which: IntArray  # (A,)
    box: IntArray  # (A,)
    cost: FloatArray  # (A,) what each costs at least
    begin: IntArray  # (n · T,) where those of each box and tree begin


@final
@dataclass(frozen=True, eq=False)
class Open:
    """A box that is not closed yet."""

    bound: float  # no point of it that meets the demands costs less
    node: int  # of the proof
    box: Boxes  # one
    leaves: IntArray  # (A,) those that matter

    def __lt__(self, other: Open) -> bool:
        return (self.bound, self.node) < (other.bound, other.node)


@final
class Search:
    """The search for one row and one set of demands, which an answer meets by what it ``needs``."""

    def __init__(
        self,
        row: Row,
        condition: LeafSums,
        needs: FloatArray | float = 0.0,
        reached: float = np.inf,
        floor: FloatArray | float = 0.0,
    ) -> None:
        self.row, self.grid, self.condition, self.needs = row, row.grid, condition, needs
        # (r, 1) what is sure to miss what points have to lead by: at least the ``floor``
        self.missed = np.reshape(floor - condition.noise, (-1, 1))
        # (r, L) what leaves add to each demand
        self.values = np.ascontiguousarray(condition.weights @ row.grid.values.T)
        self.gap, self.cost = 0.0, reached  # of the best point so far, and
        self.best: tuple[IntArray, IntArray] | None = None  # its cells and categories

    @property
    def worth(self) -> float:
        """A box that costs so much is of no use."""
        return self.cost * (1.0 - 0.5 * self.gap)

    # --- boxes ---

    def staircase(
        self, known: Costs, leaves: Sequence[IntArray], worth: float
    ) -> tuple[IntArray, Leaves]:
        """The boxes that hold something for less than it is worth, and their leaves that do.

        In all others S does not meet the demands.
        """
        which = np.concatenate(leaves)
        box = np.repeat(np.arange(len(leaves)), [len(part) for part in leaves])
        tests = self.grid.tests[which]
        cost = known.base[box] + known.more[box[:, None], tests].sum(axis=1)
        matters = cost < worth
        if known.changes is not None and known.left is not None:
            matters &= known.changes[box[:, None], tests].sum(axis=1) <= known.left[box]
        held, trees = np.arange(len(leaves)), self.grid.tree
        kept = Leaves(which, box, cost, self._begin(which, box, len(held)))
        kept = self._part(kept, matters, len(held))
        sizes = np.diff(np.append(kept.begin, len(kept.which))).reshape(-1, len(trees))
        full: BoolArray = np.asarray((sizes > 0).all(axis=1))
        if not full.all():
            held, kept = held[full], self._part(kept, full[kept.box], int(full.sum()))
        if len(held):
            full = self._reach(kept, np.ones(len(kept.which), dtype=bool))
            if not full.all():
                held, kept = held[full], self._part(kept, full[kept.box], int(full.sum()))
        return held, kept

    def _part(self, leaves: Leaves, some: BoolArray, count: int) -> Leaves:
        """Some of the leaves, of so many boxes."""
        box = leaves.box[some]
        if count:  # numbered anew if boxes are gone
            new = np.cumsum(np.append(0, np.diff(box) > 0)) if len(box) else box
            box = new if len(box) and new[-1] + 1 == count else box
        which = leaves.which[some]
        return Leaves(which, box, leaves.cost[some], self._begin(which, box, count))

    def _begin(self, which: IntArray, box: IntArray, count: int) -> IntArray:
        """(count · T,) where the leaves of each box and tree begin."""
        size = len(self.values[0])
        keys = (np.arange(count)[:, None] * size + self.grid.tree).ravel()
        return np.searchsorted(box * size + which, keys)

    def _top(self, leaves: Leaves, near: BoolArray) -> FloatArray:
        """(r, n, T) the largest value in each tree of the leaves that are near."""
        values = np.where(near, self.values[:, leaves.which], -np.inf)
        top = np.maximum.reduceat(values, leaves.begin, axis=1)
        return np.asarray(top.reshape(len(values), -1, len(self.grid.tree)))

    def _reach(self, leaves: Leaves, near: BoolArray) -> BoolArray:
        """(n,): whether S meets the demands with the leaves that are near."""
        sums = self._top(leaves, near).sum(axis=2) + self.condition.shift[:, None]
        return np.asarray((sums >= self.missed).all(axis=0))

    def _own(self, known: Costs, leaves: Leaves, held: IntArray) -> IntArray:
        """(n, T) the leaf of each tree at the nearest point of each box, as places among them."""
        own = np.flatnonzero(leaves.cost == known.base[held][leaves.box])
        count = len(held) * len(self.grid.tree)
        if len(own) != count:  # to change something may cost nothing
            tests = self.grid.tests[leaves.which[own]]
            own = own[known.passed(self.grid, held[leaves.box[own]], tests).all(axis=1)]
        return own.reshape(len(held), -1)

    def look(
        self, boxes: Boxes, leaves: Sequence[IntArray], least: Sequence[float], nodes: Sequence[int]
    ) -> list[Open]:
        """The boxes that may hold something better; their nearest points may be the best so far.

        No point of a box costs less than the ``least``.
        """
        known = self.row.costs(boxes)
        held, kept = self.staircase(known, leaves, self.worth)
        if not len(held):
            return []
        own = self._own(known, kept, held)
        sums = self.values[:, kept.which[own]].sum(axis=2) + self.condition.shift[:, None]
        for k in np.flatnonzero((self.needs <= sums.T).all(axis=1)).tolist():
            self.offer(known.cells[held[k]], known.categories[held[k]])
        bound = np.maximum(known.base[held], np.asarray(least)[held])
        bound = self._radii(kept, bound)
        ends = np.append(np.searchsorted(kept.box, np.arange(len(held))), len(kept.which))
        return [
            Open(float(bound[k]), nodes[held[k]], boxes[int(held[k])], kept.which[a:b])
            for k, (a, b) in enumerate(pairwise(ends))
        ]

    def _radii(self, leaves: Leaves, low: FloatArray) -> FloatArray:
        """(n,) radii, from ``low`` on, below which S does not meet the demands."""
        short = ~self._reach(leaves, leaves.cost <= low[leaves.box])
        if not short.any():
            return low
        begin = leaves.begin[:: len(self.grid.tree)]
        high, low = np.maximum.reduceat(leaves.cost, begin), np.array(low)
        for _ in range(HALVINGS):
            middle = np.where(short, 0.5 * (low + high), low)
            reached = self._reach(leaves, leaves.cost <= middle[leaves.box])
            low = np.where(short & ~reached, middle, low)
            high = np.where(reached, middle, high)
        beyond = np.where(leaves.cost > low[leaves.box], leaves.cost, np.inf)
        return np.where(short, np.minimum.reduceat(beyond, begin), low)

    def offer(self, cells: IntArray, categories: IntArray) -> None:
        """The nearest point in cells meets the demands; it is kept if it is better."""
        cost = self.row.price_of(cells, categories)
        if cost < self.cost:
            self.cost, self.best = cost, (cells, categories)

    # --- answers to begin with ---

    def _moves(self, cells: IntArray, categories: IntArray) -> tuple[FloatArray, FloatArray]:
        """(r,) what a point meets demands by, and (r, M + C) if one feature alone moves."""
        grid, count = self.grid, len(self.grid.number)
        passed = np.ones(grid.pad + 1, dtype=bool)
        at = cells[grid.number]
        passed[:count] = (grid.first <= at) & (at <= grid.last)
        passed[count:-1] = grid.sets[np.arange(len(grid.of_set)), categories[grid.of_set]]
        failed = ~passed[grid.tests]
        fails = failed.sum(axis=1)
        own, near = np.flatnonzero(fails == 0), np.flatnonzero(fails == 1)
        # leaves that the point is in are left, those that it fails one test of are entered
        left = grid.tests[own].ravel()
        entered = grid.tests[near][failed[near]]
        slots = grid.starts[:-1] + np.arange(len(grid.columns))  # one more for each number
        size = int(grid.starts[-1]) + len(grid.columns)
        first, last = slots[grid.number] + grid.first, slots[grid.number] + grid.last + 1
        stops = np.append(slots[1:], size)[: len(slots)] - 1 if len(slots) else slots
        ends = stops[grid.number]
        sums = self.values[:, own].sum(axis=1) + self.condition.shift
        spread = [span.stop - span.start for span in grid.spans]
        out = np.empty((len(sums), len(self.row.paid) + len(self.row.category)))
        for r, value in enumerate(self.values):
            lost = np.bincount(left, np.repeat(value[own], grid.tests.shape[1]), grid.pad + 1)
            won = np.bincount(entered, value[near], grid.pad + 1)
            both = (lost + won)[:count]
            steps = np.bincount(first, both, size) - np.bincount(last, both, size)
            steps += np.bincount(ends, lost[:count], size)
            steps -= np.bincount(slots[grid.number], lost[:count], size)
            whole = np.bincount(grid.of_set, lost[count:-1], len(grid.spans))
            sets = (lost + won)[count:-1] @ grid.sets - np.repeat(whole, spread)
            out[r] = sums[r] + np.append(np.delete(np.cumsum(steps), stops), sets)
        return sums, out

    def greedy(self) -> None:
        """An answer to begin with: moves of one feature that gain most for what they cost.

        When the demands are met, moves that save most.
        """
        row, grid = self.row, self.grid
        assert row.root is not None  # noqa: S101 (asked by the caller)
        known = row.costs(row.root)
        if np.isinf(known.base[0]):
            return
        cells, categories = known.cells[0], known.categories[0]
        owner = np.repeat(np.arange(len(grid.columns)), np.diff(grid.starts))
        group = np.repeat(np.arange(len(grid.spans)), [s.stop - s.start for s in grid.spans])
        place = np.arange(len(owner)) - grid.starts[owner]
        for _ in range(GREEDY):
            here = grid.starts[:-1] + cells
            extra = np.append(
                row.paid - row.paid[here][owner],
                row.category - row.category[categories][group],
            )
            if row.most is not None:
                extra[self._too_many(cells, categories, owner, group)] = np.inf
            now, found = self._moves(cells, categories)
            best = self._best_move(now, found, extra)
            if (now >= self.needs).all():
                self.offer(cells, categories)
            if best is None:
                return
            if best < len(owner):
                cells = cells.copy()
                cells[owner[best]] = place[best]
            else:
                categories = categories.copy()
                categories[group[best - len(owner)]] = best - len(owner)

    def _best_move(self, now: FloatArray, found: FloatArray, extra: FloatArray) -> int | None:
        """The move of one feature to make next; None to stay."""
        needs = np.reshape(self.needs, (-1, 1))
        met: BoolArray = np.asarray((found >= needs).all(axis=0))
        best = int(np.where(met, extra, np.inf).argmin())
        if (now >= self.needs).all():
            return best if extra[best] < 0.0 else None
        if met[best] and np.isfinite(extra[best]):
            return best
        short = np.minimum(found - needs, 0.0).sum(axis=0)
        gain = short - np.minimum(now - needs[:, 0], 0.0).sum()
        gain[np.isinf(extra)] = 0.0
        rate = np.where(gain > SHARE * gain.max(), gain / np.maximum(extra, TINY), 0.0)
        best = int(rate.argmax())
        return best if rate[best] > 0.0 else None

    def _too_many(
        self, cells: IntArray, categories: IntArray, owner: IntArray, group: IntArray
    ) -> BoolArray:
        """(M + C,): whether to move one feature elsewhere changes more of them than may change."""
        row, start = self.row, self.grid.starts[:-1]
        moved = row.counts & ~row.can_stay[start + cells]
        left = row.group_counts & ~row.stays[categories]
        numbers = moved.sum() + left.sum() - moved[owner] + (row.counts[owner] & ~row.can_stay)
        sets = moved.sum() + left.sum() - left[group] + (row.group_counts[group] & ~row.stays)
        return np.asarray(np.concatenate([numbers, sets]) > row.most)

    # --- splits ---

    def splits(self, opened: Sequence[Open]) -> list[Split | IntArray]:
        """For each box the split that most of the improving leaves ask for.

        If there is one leaf alone of each tree, these.
        """
        known = self.row.costs(Boxes.stacked([one.box for one in opened]))
        which = np.concatenate([one.leaves for one in opened])
        box = np.repeat(np.arange(len(opened)), [len(one.leaves) for one in opened])
        cost = known.base[box] + known.more[box[:, None], self.grid.tests[which]].sum(axis=1)
        leaves = Leaves(which, box, cost, self._begin(which, box, len(opened)))
        own = self._own(known, leaves, np.arange(len(opened)))
        here = self.values[:, which[own]]  # (r, n, T)
        order = np.argsort(here.sum(axis=2) + self.condition.shift[:, None], axis=0)
        bounds = np.array([one.bound for one in opened])
        out: list[Split | IntArray] = [which[one] for one in own]
        left = np.ones(len(opened), dtype=bool)
        for near in (cost <= bounds[box], np.ones(len(cost), dtype=bool)):
            top = self._top(leaves, near)
            for rank in range(len(here)):
                r = order[rank]
                gain = np.take_along_axis(top - here, r[None, :, None], axis=0)[0]
                wanted = np.flatnonzero(left & (gain > 0.0).any(axis=1))
                if len(wanted):
                    values = np.where(near, self.values[r[box], which], -np.inf)
                    votes = self._votes(known, leaves, values, gain, wanted)
                    for k, split in zip(wanted.tolist(), votes, strict=True):
                        out[k] = split
                    left[wanted] = False
            if not left.any():
                break
        return out

    def _votes(
        self,
        known: Costs,
        leaves: Leaves,
        values: FloatArray,
        gain: FloatArray,
        wanted: IntArray,
    ) -> list[Split]:
        """The split that the improving leaves of each box ask for most, each by what it gains."""
        grid, trees = self.grid, len(self.grid.tree)
        sizes = np.diff(np.append(leaves.begin, len(values)))
        highest = np.flatnonzero(
            values == np.repeat(np.maximum.reduceat(values, leaves.begin), sizes)
        )
        first = highest[np.searchsorted(highest, leaves.begin)].reshape(-1, trees)
        box, tree = np.nonzero(gain[wanted] > 0.0)
        leaf = leaves.which[first[wanted[box], tree]]
        tests = grid.tests[leaf]
        who, column = np.nonzero(~known.passed(grid, wanted[box], tests))
        ids, weight = tests[who, column], gain[wanted[box[who]], tree[who]]
        count = int(grid.starts[-1]) + len(grid.columns)
        is_number = ids < len(grid.number)
        n = ids[is_number]
        below = known.cells[wanted[box[who[is_number]]], grid.number[n]] < grid.first[n]
        cut = np.where(below, grid.first[n], grid.last[n] + 1)
        keys = count + ids - len(grid.number)
        keys[is_number] = grid.starts[grid.number[n]] + grid.number[n] + cut
        each = count + len(grid.of_set)
        found = np.bincount(box[who] * each + keys, weight, minlength=len(wanted) * each)
        begins = grid.starts + np.arange(len(grid.starts))
        out: list[Split] = []
        for best in found.reshape(len(wanted), each).argmax(axis=1).tolist():
            f = int(np.searchsorted(begins, best, "right")) - 1
            out.append(
                (SET, best - count, 0) if best >= count else (NUMBER, f, best - int(begins[f]))
            )
        return out

    def refutes(self, leaves: IntArray) -> bool:
        """Whether the best of a box's leaves do not meet a demand, added up without rounding."""
        asked, begin = self.condition, np.searchsorted(leaves, self.grid.tree)
        values = self.values[:, leaves]
        near = np.maximum.reduceat(values - EPS * np.abs(values), begin, axis=1)
        sizes = np.diff(np.append(begin, len(leaves)))
        tree = np.repeat(np.arange(len(begin)), sizes)
        more = np.column_stack([asked.weights * asked.form.base, asked.offset])
        for r, weight in enumerate(asked.weights):
            best: dict[int, Fraction] = {}
            for k in np.flatnonzero(values[r] + EPS * np.abs(values[r]) >= near[r][tree]).tolist():
                pairs = zip(weight.tolist(), self.grid.values[leaves[k]].tolist(), strict=True)
                exact = sum((Fraction(w) * Fraction(v) for w, v in pairs), Fraction(0))
                best[tree[k]] = max(best.get(tree[k], exact), exact)
            total = sum(best.values(), sum(map(Fraction, more[r].tolist()), Fraction(0)))
            if total < 0 or (asked.lost[r] and total == 0):
                return True
        return False

    # --- all of it ---

    def run(self, gap: float, end: float) -> tuple[Proof, bool]:
        """Search; the proof, and whether time ran out."""
        self.gap, proof = gap, Proof.begun()
        heap: list[Open] = []
        if self.row.root is not None:
            self.greedy()
            heap = self.look(self.row.root, [np.arange(len(self.grid.tests))], [0.0], [0])
        limbo, limited, at_once = np.full(2, np.inf), False, 1
        while heap and heap[0].bound < self.worth and len(proof.kind) < NODES and not limited:
            opened = [heapq.heappop(heap)]
            while heap and len(opened) < at_once and heap[0].bound < self.worth:
                opened.append(heapq.heappop(heap))
            limbo = np.minimum(limbo, self._open(opened, heap, proof))
            limited = end < np.inf and perf_counter() > end
            at_once = min(2 * at_once, AT_ONCE)
        least = min([self.worth, *(one.bound for one in heap[:1])])
        proof.bound, proof.leading = np.minimum(least, limbo).tolist()
        return proof, limited

    def _open(self, opened: Sequence[Open], heap: list[Open], proof: Proof) -> FloatArray:
        """Split boxes and look at the parts.

        (2,) the least bound of those that cannot be split, of all and of those where a point may
        lead by what is needed.
        """
        limbo = np.full(2, np.inf)
        parts: list[Boxes] = []
        leaves: list[IntArray] = []
        least: list[float] = []
        nodes: list[int] = []
        for one, split in zip(opened, self.splits(opened), strict=True):
            if isinstance(split, tuple):
                parts.append(one.box.halves(self.grid, split))
                leaves += [one.leaves] * 2
                least += [one.bound] * 2
                nodes += proof.split(one.node, split)
            elif self.refutes(one.leaves):
                proof.kind[one.node] = EXACT
            else:
                sums = self.values[:, split].sum(axis=1) + self.condition.shift
                leads = bool((sums >= self.needs - self.condition.noise).all())
                limbo = np.minimum(limbo, [one.bound, one.bound if leads else np.inf])
        if parts:
            for child in self.look(Boxes.stacked(parts), leaves, least, nodes):
                heapq.heappush(heap, child)
        return limbo

    def proves(self, proof: Proof, bound: float) -> bool:
        """Whether a proof shows that no point that meets the demands costs less than a bound."""
        root = self.row.root
        todo = [] if root is None else [(root, np.arange(len(self.grid.tests)), 0)]
        while todo:
            part, todo = todo[-2 * AT_ONCE :], todo[: -2 * AT_ONCE]
            known = self.row.costs(Boxes.stacked([box for box, _, _ in part]))
            held, kept = self.staircase(known, [leaves for _, leaves, _ in part], bound)
            for k, i in enumerate(held.tolist()):
                box, _, node = part[i]
                left = kept.which[kept.box == k]
                if node >= len(proof.kind):
                    return False
                kind = proof.kind[node]
                if kind == EXACT and self.refutes(left):
                    continue
                split = kind, proof.what[node], proof.where[node]
                if not self.grid.has(split) or proof.left[node] <= node:
                    return False
                halves = box.halves(self.grid, split)
                todo += [(halves[j], left, proof.left[node] + j) for j in range(2)]
        return True


@final
@dataclass(frozen=True, eq=False)
class ProofTrees(Bounding):
    """Proofs for rows and one set of demands, checked anew whenever a bound is asked for."""

    program: Program
    condition: LeafSums
    cases: Cases
    proofs: Sequence[Proof]

    @property
    def is_local(self) -> bool:
        return False

    @property
    def kept(self) -> Kept:
        return Kept(np.zeros((len(self.proofs), self.program.size)), own=self.proofs)

    def bounds(
        self, reached: FloatArray, margin: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) the bounds of the proofs that hold, 0 for the others."""
        out, grid = np.zeros(len(self.proofs)), self.condition.form.grid(self.program.groups)
        for i, (case, proof) in enumerate(zip(self.cases, self.proofs, strict=True)):
            floor = 0.0 if margin is None else _needs(self.condition, margin[i])
            bound = proof.bound if margin is None else proof.leading
            search = Search(Row(grid, self.program, case), self.condition, floor=floor)
            if search.proves(proof, bound):
                out[i] = bound
        return out, out


def search_trees(found: Found, pieces: Pieces, _: Leads | None) -> Sequence[Bounding]:
    """The best points of a union whose pieces are demands on sums over leaves, row by row."""
    evidence = []
    for s, piece in enumerate(pieces.listed):
        program, cases = piece.program, piece.sees(found.cases)
        condition = next(c for c in program.region if isinstance(c, LeafSums))
        _require_separable(program)
        grid = condition.form.grid(program.groups)
        seconds = found.effort.shared(len(pieces.listed)).seconds
        proofs = []
        for i, case in enumerate(cases):
            end = np.inf if seconds is None else perf_counter() + SEARCHING * seconds
            needs = _needs(condition, case.margin[0])
            search = Search(Row(grid, program, case), condition, needs, float(found.objective[i]))
            proof, limited = search.run(found.effort.gap, end)
            found.limited[i] |= limited
            proofs.append(proof)
            if search.best is not None:
                y = search.row.point(*search.best)[None, :]
                found.offer(s, np.array([i]), y, program.objective(y, case))
        evidence.append(ProofTrees(program, condition, cases, proofs))
    return evidence


def _needs(condition: LeafSums, margin: FloatArray) -> FloatArray:
    """(r,) by how much each demand is to be met, for a margin as of `Cases`."""
    return np.asarray(margin[0] + np.where(condition.lost, margin[1], 0.0))


def _require_separable(program: Program) -> None:
    """Raise `NoSolver` for what ties columns together beside the trees."""
    full = program.price.quadratic.ndim == 2
    if full or program.size:
        what = "a full Mahalanobis cost" if full else "relations between columns"
        raise NoSolver(
            f"Trees cannot be searched with {what}. Use a cost and constraints of one feature at a "
            "time."
        )


def evidence_of(program: Program, cases: Cases, told: Sequence[dict[str, Any]]) -> ProofTrees:
    """Proofs as a record tells them; a ValueError if they are none."""
    condition = next(c for c in program.region if isinstance(c, LeafSums))
    _require_separable(program)
    proofs = []
    for each in told:
        entries = [each[name] for name in ("kind", "what", "where", "left")]
        whole = all(type(v) is int and v >= 0 for entry in entries for v in entry)
        if not whole or len({len(entry) for entry in entries}) != 1 or len(each) != 6:
            raise ValueError("the nodes of a tree are whole numbers, as many of each sort")
        proofs.append(Proof(*entries, *(_bound(each[name]) for name in ("bound", "leading"))))
    return ProofTrees(program, condition, cases, proofs)


def _bound(told: float | str) -> float:
    """A bound as a record tells it; NaN is none."""
    bound = float(told)
    if not bound >= 0.0:
        raise ValueError("a bound is a number of at least 0")
    return bound
