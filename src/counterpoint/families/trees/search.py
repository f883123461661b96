"""Best-first branch and bound over boxes of cells."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import final

import numpy as np

from counterpoint.caches import Memo
from counterpoint.families.trees.boxes import Boxes, Row, held
from counterpoint.families.trees.exchange import Exchange, State
from counterpoint.families.trees.form import LeafSums
from counterpoint.families.trees.grid import NUMBER, SET, Split
from counterpoint.families.trees.proofs import (
    EXACT,
    Proof,
    ProofTrees,
    needed,
    refuted,
    require_rows,
)
from counterpoint.families.trees.relations import Relations, without_trees
from counterpoint.families.trees.relaxation import Demands, relaxed
from counterpoint.families.trees.staircase import LeafBound
from counterpoint.numerics import EPS, FloatArray, IntArray, clock
from counterpoint.programs.evidence import Bounding
from counterpoint.search.search import Found, SafetyMargins
from counterpoint.search.union import Union

__all__ = ["search_trees"]

NODES = 100_000
"""Boxes that are looked at for a row without a time limit; then its bound is what those left open
leave."""
PATIENCE = 500
"""Boxes by which the staircase may close a box before that gets a linear program, which takes about
as long; eight times as many at first, for most rows need none."""
SEARCHING = 0.8
"""What share of the time of a row the search takes; the rest is for its proof."""
IMPROVING = 0.5
"""What share of the time that is left answers may be improved for before boxes are opened again."""
EASY = 1 << 24
"""Leaves of boxes that are looked at before witnesses are asked for: up to a second's work, and
most rows need no more. To find witnesses takes half a second, for the model is asked."""
LEAVES = 1 << 25
"""How many leaves of open boxes are remembered: 256 MiB."""
TESTS = 1 << 20
"""Tests of leaves times boxes that are looked at together: 8 MiB of each of some arrays."""
AT_ONCE = 16
"""Boxes that are opened together: NumPy's overhead is shared by twice as many parts."""


@final
@dataclass(frozen=True, eq=False)
class Open:
    """A box that is not closed yet."""

    bound: float  # no point of it that meets the demands costs less
    node: int  # of the proof
    box: Boxes  # one
    leaves: IntArray  # (A,) those that matter
    split: IntArray  # (3,)
    own: IntArray  # (T,) the leaves of the nearest point, and its
    cells: IntArray
    categories: IntArray
    # multipliers of relations, then prices by which a linear relaxation bounds it, or one around it
    prices: list[float]
    # the cells and categories of its cheapest point that keeps relations, once that is known, and
    # its bound, if solvers are believed
    tied: tuple[IntArray, IntArray] | None = None
    reported: float = 0.0

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
        eps: float = EPS,
        relations: Relations | None = None,
    ) -> None:
        self.row, self.grid, self.condition, self.needs = row, row.grid, condition, needs
        self.relations, self.size, self.eps = relations, row.program.size, eps
        self.values = np.ascontiguousarray(condition.weights @ row.grid.values.T)
        self.gap, self.end, self.looked, self.held = 0.0, np.inf, 0, 0
        self.everything = np.arange(len(row.grid.tests))
        self.at_once = max(1, min(AT_ONCE, TESTS // row.grid.pad)) if row.grid.pad else AT_ONCE
        # points that meet everything, for a search that takes long, see `Found`
        self.incumbents: Callable[[float], FloatArray] = lambda _: np.empty((0, row.program.width))
        self.cost = reached  # of the best point so far, and
        self.point: FloatArray | None = None  # it, and how to hold it in numbers that are shorter
        self.written: FloatArray | None = None
        self.best: State | None = None  # its cells and categories
        # the bound if solvers are believed, and what is proved of boxes that their word closes
        self.least, self.told = 0.0, np.inf
        self._stairs, self._tried = Memo[bytes, LeafBound](), set[bytes]()

    @cached_property
    def exchange(self) -> Exchange:
        """Moves of single features."""
        return Exchange(self.stairs([0.0] * self.size), self.goal, self.offer)

    @property
    def cost_cutoff(self) -> float:
        """A box that costs so much is of no use."""
        return self.cost * (1.0 - 0.5 * self.gap)

    # --- boxes ---

    def look(
        self,
        boxes: Boxes,
        leaves: Sequence[IntArray],
        least: Sequence[float],
        nodes: Sequence[int],
        prices: Sequence[list[float]],
    ) -> list[Open]:
        """The boxes that may hold something better; their nearest points may be the best so far.

        No point of a box costs less than the ``least``.
        """
        self.looked += len(boxes)
        seen = self.stairs(prices[0]).look(boxes, leaves, self.cost_cutoff, np.array(least))
        for k in np.flatnonzero(seen.satisfied).tolist():
            self.offer(seen.cells[k], seen.categories[k], seen.own[k])
        begins = np.append(0, seen.ends)
        if self.held + len(seen.leaves) > LEAVES:  # they are found again when a box is opened
            begins[:] = 0
            self.held -= len(seen.leaves)
        self.held += len(seen.leaves)
        return [
            Open(
                float(seen.bound[k]),
                nodes[k],
                boxes[k : k + 1],
                seen.leaves[begins[k] : begins[k + 1]] if begins[-1] else self.everything,
                seen.splits[k],
                seen.own[k],
                seen.cells[k],
                seen.categories[k],
                prices[k],
            )
            for k in np.flatnonzero(np.isfinite(seen.bound)).tolist()
        ]

    def stairs(self, prices: list[float]) -> LeafBound:
        """The staircase of the row with the multipliers among some prices."""
        multipliers = np.array(prices[: self.size])

        def made() -> LeafBound:
            row = self.row.charging(multipliers)
            return LeafBound(row, self.condition, self.least_needed, self.values)

        return self._stairs.made(multipliers.tobytes(), made)

    @property
    def least_needed(self) -> FloatArray:
        """(r,) what sums of an answer come to at least, as they are added up here."""
        return np.asarray(self.needs - self.condition.tolerance * (not np.any(self.needs)))

    @property
    def goal(self) -> FloatArray:
        """(r,) what sums come to that meet the demands, unless by a tie that rounding hides."""
        return np.asarray(self.needs + self.condition.lost * (self.needs - self.least_needed))

    def meets(self, leaves: IntArray) -> bool | None:
        """Whether these leaves, one of each tree, meet the demands; None if rounding decides."""
        if np.any(self.needs):
            sums = self.values[:, leaves].sum(axis=1) + self.condition.shift
            return bool((sums >= self.needs).all())
        return self.condition.meets(self.grid.own[leaves])

    def offer(
        self,
        cells: IntArray,
        categories: IntArray,
        leaves: IntArray | None = None,
        *,
        doubtful: bool = False,
    ) -> None:
        """Keep the cheapest point in cells if it meets the demands and is better.

        The model is asked about a ``doubtful`` one if rounding decides.
        """
        cost = self.row.price_of(cells, categories)
        if not cost < self.cost:
            return
        satisfied = self.meets(self._leaves_at(cells, categories) if leaves is None else leaves)
        if not (doubtful if satisfied is None else satisfied):
            return
        if self.relations is None:
            self.cost, self.point = cost, self.row.point(cells, categories)
            self.best = cells, categories
            if self.eps > EPS:
                self.written = held(self.row, cells, categories, self.eps)
            return
        box = self.row.around(cells, categories)
        key = b"".join(part.tobytes() for part in (box.low, box.high, box.among))
        if key not in self._tried:
            self._tried.add(key)
            y = self.relations.cheapest(box, self.gap, self.eps).point
            cost = self.relations.cost(y)
            if cost < self.cost:
                self.cost, self.point = cost, y
                self.best = cells, categories

    # --- answers to begin with ---

    def improve(self) -> None:
        """Better answers near the best one, and near witnesses, in a share of the time."""
        now, states = clock(), list[State]()
        self.exchange.end = now + IMPROVING * (self.end - now)
        for y in self.incumbents(self.exchange.end):
            cells, categories = self.row.cells(y)
            if self.meets(self._leaves_at(cells, categories)) is False:
                continue  # they meet another piece of the target
            if self.relations is not None and self.relations.cost(y) < self.cost:
                self.cost, self.point = self.relations.cost(y), np.array(y)
            elif self.relations is None:  # the model gives them the target
                self.offer(cells, categories, doubtful=True)
            reached = self.exchange.greedy((cells, categories))
            states += [] if reached is None else [reached]
        states.sort(key=lambda state: self.row.price_of(*state))
        for state in ([self.best] if self.best else []) + states:
            self.exchange.improve(state)
        self.exchange.end = np.inf

    # --- all of it ---

    def run(self, gap: float, end: float) -> tuple[Proof, bool]:
        """Search; the proof, and whether time or memory ran out.

        Where memory did, the best point so far stays, and nothing is proved.
        """
        try:
            return self._run(gap, end)
        except MemoryError:
            proof = Proof.begun()
            proof.prices[0], proof.bound, proof.leading = [0.0] * self.size, 0.0, 0.0
            self.least, self.told = 0.0, np.inf
            return proof, True

    def _run(self, gap: float, end: float) -> tuple[Proof, bool]:
        """Search; a box that the staircase does not close in some time gets a linear program."""
        self.gap, self.end, proof, heap = gap, end, Proof.begun(), list[Open]()
        if self.row.root is not None:
            self.exchange.greedy()
            begin = [0.0] * self.size
            proof.prices[0] = begin
            heap = self.look(self.row.root, [self.everything], [0.0], [0], [begin])
        patience = 8 * PATIENCE
        easy = EASY // len(self.everything)
        limbo = self._climb(heap, proof, min(easy, patience))
        if heap and heap[0].bound < self.cost_cutoff:
            self.improve()
        while heap and heap[0].bound < self.cost_cutoff and not self.is_over:
            one, size = heapq.heappop(heap), len(proof.kind)
            inside = [one]
            found = self._climb(inside, proof, size + patience)
            if inside and inside[0].bound < self.cost_cutoff and not self.is_over:
                solved = self._relax(one)
                if solved.bound > inside[0].bound:
                    proof.cut(one.node, size)
                    inside, patience = [], PATIENCE
                    found = self._open([solved], heap, proof)
                else:
                    patience *= 2
            for left in inside:
                heapq.heappush(heap, left)
            limbo = np.minimum(limbo, found)
        for one in heap:
            proof.prices[one.node] = one.prices
        least = min([self.cost_cutoff, *(one.bound for one in heap[:1])])
        proof.bound, proof.leading = np.minimum(min(least, self.told), limbo).tolist()
        self.least = min(least, limbo[0]) if np.isfinite(self.told) else 0.0
        return proof, self.end < np.inf and self.is_over

    @property
    def is_over(self) -> bool:
        """Whether the time is over, or without a limit the number of boxes to be looked at."""
        return clock() > self.end if self.end < np.inf else self.looked > NODES

    def _climb(self, heap: list[Open], proof: Proof, most: int) -> FloatArray:
        """Open boxes by the staircase until a proof has so many; what `_open` finds."""
        limbo, at_once = np.full(2, np.inf), 1
        while (
            heap
            and heap[0].bound < self.cost_cutoff
            and len(proof.kind) < most
            and not self.is_over
        ):
            opened = [heapq.heappop(heap)]
            while heap and len(opened) < at_once and heap[0].bound < self.cost_cutoff:
                opened.append(heapq.heappop(heap))
            limbo = np.minimum(limbo, self._open(opened, heap, proof))
            at_once = min(2 * at_once, self.at_once) if self.relations is None else 1
        return limbo

    def _relax(self, one: Open) -> Open:
        """A box with the bound and the split of its linear relaxation."""
        demands = Demands(self.values, self.condition.shift + self.condition.tolerance)
        self.looked += PATIENCE
        seconds = self.end - clock()
        row = self.stairs(one.prices).row
        found = relaxed(row, one.box, one.leaves, demands, self.cost_cutoff, seconds)
        if found is None or found.bound <= one.bound:
            return one
        self.exchange.greedy((found.cells, found.categories))
        split = np.array(found.split) if found.split[0] else one.split
        prices = [*one.prices[: self.size], *found.prices]
        return replace(one, bound=found.bound, split=split, prices=prices)

    def _open(self, opened: Sequence[Open], heap: list[Open], proof: Proof) -> FloatArray:
        """Split boxes and look at the parts.

        (2,) the least bound of those that cannot be split, of all and of those where a point may
        lead by what is needed.
        """
        limbo = np.full(2, np.inf)
        whole: list[Open] = []
        splits: list[Split] = []
        for one in map(self._tied, opened):
            self.held -= len(one.leaves) if one.leaves is not self.everything else 0
            proof.prices[one.node] = one.prices
            if one.bound >= self.cost_cutoff:
                continue
            split = self._apart(one)
            if split[0]:
                whole.append(one)
                splits.append(split)
            elif one.reported >= self.cost_cutoff:
                self.told = min(self.told, one.bound)
            elif refuted(self.condition, self.grid, one.leaves):
                proof.kind[one.node] = EXACT
            else:
                safety_margins = bool(
                    (self._sums(one) >= self.needs - self.condition.tolerance).all()
                )
                if safety_margins and not np.any(self.needs):
                    self.offer(*(one.tied or (one.cells, one.categories)), doubtful=True)
                limbo = np.minimum(limbo, [one.bound, one.bound if safety_margins else np.inf])
        if whole:
            self._halve(whole, splits, heap, proof)
        return limbo

    def _halve(
        self, whole: Sequence[Open], splits: Sequence[Split], heap: list[Open], proof: Proof
    ) -> None:
        """Look at both parts of boxes, and keep what is not closed."""
        nodes: list[int] = []
        for one, split in zip(whole, splits, strict=True):
            proof.prices[one.node] = []
            nodes += proof.split(one.node, split)
            proof.prices[nodes[-2]] = proof.prices[nodes[-1]] = one.prices[: self.size]
        twice = [one for one in whole for _ in range(2)]
        found = self.look(
            Boxes.stacked([one.box for one in whole]).halves(self.grid, np.array(splits)),
            [one.leaves for one in twice],
            [one.bound for one in twice],
            nodes,
            [one.prices for one in twice],
        )
        for part in found:
            one = twice[nodes.index(part.node)] if self.relations else part
            if one.tied is not None and part.box.hold(*one.tied):
                part = replace(part, tied=one.tied, reported=one.reported)  # noqa: PLW2901
            heapq.heappush(heap, part)

    def _leaves_at(self, cells: IntArray, categories: IntArray) -> IntArray:
        """(T,) the leaf of each tree at the points of cells."""
        return np.flatnonzero(self.row.passed(cells, categories)[self.grid.tests].all(axis=1))

    def _sums(self, one: Open) -> FloatArray:
        """(r,) what the nearest point of a box meets the demands by."""
        return np.asarray(self.values[:, one.own].sum(axis=1) + self.condition.shift)

    def _tied(self, one: Open) -> Open:
        """A box with its cheapest point that keeps relations, and the best bound of multipliers."""
        if self.relations is None or one.tied is not None or one.bound >= self.cost_cutoff:
            return one
        y, multipliers, reported = self.relations.cheapest(one.box, self.gap)
        self.looked += AT_ONCE
        tied = one.cells, one.categories
        if not np.isnan(y).any():
            tied = self.relations.cells(y, one.box)
            self.offer(*tied)
        one = self._charged(one, multipliers)
        return replace(one, tied=tied, reported=reported)

    def _charged(self, one: Open, multipliers: FloatArray) -> Open:
        """A box with multipliers of relations, if they bound it better."""
        assert self.relations is not None  # noqa: S101 (asked by the caller)
        bound, none = self.relations.bound(one.box, multipliers), [0.0] * self.size
        found = [replace(one, leaves=np.arange(len(self.grid.tests)))]
        for prices in (none, multipliers.tolist()):
            if bound < self.cost_cutoff:
                found = self.look(one.box, [found[0].leaves], [0.0], [one.node], [prices])
                bound = max([bound, *(each.bound for each in found)]) if found else np.inf
        if bound <= one.bound:
            return one
        return replace(found[0] if found else one, bound=bound, prices=prices)

    def _apart(self, one: Open) -> Split:
        """Where to split a box, if it can be split.

        With relations, nearest cells that meet the demands are parted from those of the cheapest
        point that keeps these.
        """
        if one.tied is None or self.meets(one.own) is False:
            found = int(one.split[0]), int(one.split[1]), int(one.split[2])
            return found if found[0] or one.reported >= self.cost_cutoff else self._aside(one)
        cells, categories = one.tied
        away = np.abs(cells - one.cells)
        if away.any():
            f = int(away.argmax())
            return NUMBER, f, int(cells[f] + one.cells[f] + 1) // 2
        among, of_set = one.box.among[0], self.grid.of_set
        inside, both = self.grid.sets[:, categories], self.grid.sets[:, one.categories]
        places = np.arange(len(of_set))
        differs = inside[places, of_set] != both[places, of_set]
        some = (self.grid.sets & among).any(axis=1)
        some &= (~self.grid.sets & among & (self.grid.owner == of_set[:, None])).any(axis=1)
        for m in np.flatnonzero(some)[np.argsort(~differs[some], kind="stable")].tolist():
            return SET, m, 0
        wide = one.box.high[0] - one.box.low[0]
        if not wide.any():
            return 0, 0, 0
        f = int(wide.argmax())
        return NUMBER, f, int(one.box.low[0, f] + one.box.high[0, f] + 1) // 2

    def _aside(self, one: Open) -> Split:
        """Where to part the nearest point from other leaves, if it is a tie of another class."""
        grid, row, box, tests = self.grid, self.row, one.box, np.unique(self.grid.tests[one.own])
        if not refuted(self.condition, grid, one.own) or refuted(self.condition, grid, one.leaves):
            return 0, 0, 0
        n, m = tests[tests < len(grid.number)], tests[tests >= len(grid.number)] - len(grid.number)
        f = grid.number[n]
        for k in np.flatnonzero(row.first[n] > box.low[0, f]).tolist():
            return NUMBER, int(f[k]), int(row.first[n[k]])
        for k in np.flatnonzero(row.final[n] < box.high[0, f]).tolist():
            return NUMBER, int(f[k]), int(row.next[grid.starts[f[k]] + row.final[n[k]] + 1])
        for k in m[m < len(grid.of_set)].tolist():
            if (box.among[0] & ~grid.sets[k] & (grid.owner == grid.of_set[k])).any():
                return SET, k, 0
        return 0, 0, 0


def search_trees(found: Found, pieces: Union, _: SafetyMargins | None) -> Sequence[Bounding]:
    """The best points of a union whose pieces are demands on sums over leaves, row by row."""
    evidence = []
    for s, piece in enumerate(pieces.listed):
        program, cases = piece.program, piece.sees(found.cases)
        condition = next(c for c in program.region if isinstance(c, LeafSums))
        require_rows(program)
        seconds = found.effort.shared(len(pieces.listed)).seconds
        proofs, told, rest = [], np.zeros(len(cases)), without_trees(program)
        for i, case in enumerate(cases):
            end = np.inf if seconds is None else clock() + SEARCHING * seconds
            needs = needed(condition, case.margin[0])
            row = Row(condition.form.grid(program.groups, case.x[0]), program, case)
            relations = Relations(row, rest) if program.size else None
            reached, eps = float(found.objective[i]), found.effort.eps
            search = Search(row, condition, needs, reached, eps, relations)
            search.incumbents = partial(found.incumbents, i)
            proof, limited = search.run(found.effort.gap, end)
            found.limited[i] |= limited
            proofs.append(proof)
            told[i] = search.least
            if search.point is not None:
                y = search.point[None, :]
                found.offer(s, np.array([i]), y, program.objective(y, case))
                if search.written is not None and found.piece[i] == s:
                    found.written[i] = search.written
        evidence.append(ProofTrees(program, condition, cases, proofs, told))
    return evidence
