"""Proof trees: what a branch and bound did, so that anyone can check it without a solver.

Each node of a tree is a box of the domain, with multipliers that bound the cost within it by weak
duality (`Program.bound`). A leaf is closed by that bound. The two children of any other node make
up its box, but for values that its own multipliers exclude: whoever takes one of them pays at least
the *ceiling*. So no point costs less than the least bound of a leaf, or than the ceiling; and where
multipliers refute every leaf, there is no point.

Nothing in a tree is believed: every bound is recomputed, rounding included, and every node compared
with its children. Other boxes, multipliers or ceilings are another proof, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from counterpoint.numerics import AFTER, TINY, BoolArray, FloatArray, IntArray, gamma
from counterpoint.programs.region import Cases
from counterpoint.rows import lattice

if TYPE_CHECKING:
    from counterpoint.programs.program import Program

__all__ = ["Proof", "node_size", "proved"]


def node_size(program: Program) -> int:
    """How many numbers bound a node of a `Proof`, see `Proof.multipliers`."""
    return program.size + (program.encoded_cost.quadratic.ndim == 2) * program.width


@final
class Proof(NamedTuple):
    """The trees of n rows, all nodes one after the other; children come after their parents."""

    row: IntArray  # (N,) whose node it is
    low: FloatArray  # (N, d) bounds on y
    high: FloatArray
    forced: BoolArray  # (N, d): features that count as changed, by their first columns
    # (N, size), any; of a full quadratic price (N, size + d), with points whose tangents bound it
    multipliers: FloatArray
    children: IntArray  # (N, 2); −1 for a leaf
    root: IntArray  # (n,) −1 for a row without a tree
    ceiling: FloatArray  # (n,) in cost units; infinite where there is no point

    def take(self, rows: IntArray) -> Proof:
        """The trees of some rows."""
        place = np.full(len(self.root), -1)
        place[rows] = np.arange(len(rows))
        nodes = np.flatnonzero(place[self.row] >= 0)
        place_of = np.full(len(self.row) + 1, -1)
        place_of[nodes] = np.arange(len(nodes))
        return Proof(
            place[self.row[nodes]],
            self.low[nodes],
            self.high[nodes],
            self.forced[nodes],
            self.multipliers[nodes],
            place_of[self.children[nodes]],
            place_of[self.root[rows]],
            self.ceiling[rows],
        )

    @classmethod
    def joined(cls, batches: Sequence[tuple[IntArray, Proof]], n: int) -> Proof:
        """Return the trees of n rows, of which each batch has some."""
        root, ceiling, size, moved = np.full(n, -1), np.zeros(n), 0, list[Proof]()
        for rows, proof in batches:
            children = np.where(proof.children < 0, -1, proof.children + size)
            root[rows] = np.where(proof.root < 0, -1, proof.root + size)
            ceiling[rows] = proof.ceiling
            moved.append(proof._replace(row=rows[proof.row], children=children))
            size += len(proof.row)
        nodes = map(np.concatenate, zip(*(proof[:6] for proof in moved), strict=True))
        return cls._make([*nodes, root, ceiling])

    def within(self, cases: Cases) -> Proof:
        """The same trees, of parts of the domains beyond which the price alone is too high."""
        rows, root = np.flatnonzero(self.root >= 0), np.full(len(self.root), -1)
        n, d = len(rows), self.low.shape[1]
        root[rows], first = np.arange(n), self.root[rows, None] + n
        below = np.where(self.children < 0, -1, self.children + n)
        return Proof(
            np.append(rows, self.row),
            np.vstack([cases.low[rows], self.low]),
            np.vstack([cases.high[rows], self.high]),
            np.vstack([np.zeros((n, d), dtype=bool), self.forced]),
            np.vstack([np.zeros((n, self.multipliers.shape[1])), self.multipliers]),
            np.vstack([np.hstack([first, first]), below]),
            root,
            self.ceiling,
        )


def proved(program: Program, cases: Cases, proof: Proof) -> FloatArray:
    """(n,) what every point of a row costs at least, by its tree; 0 where that proves nothing.

    Infinite where no point exists. The margins of the cases have no part in it.
    """
    if not len(proof.row):
        return np.zeros(len(cases))
    finite = np.where(np.isfinite(proof.multipliers), proof.multipliers, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):  # numbers beyond all bounds prove nothing
        return _proved(program, cases, proof._replace(multipliers=finite))


def _proved(program: Program, cases: Cases, proof: Proof) -> FloatArray:
    """(n,) the same, for finite multipliers."""
    rows = cases.take(proof.row)
    forced = proof.forced if proof.forced.any() else None
    nodes = replace(rows.within(proof.low, proof.high), forced=forced)
    multipliers, at = np.split(proof.multipliers, [program.size], axis=1)
    proof = proof._replace(multipliers=multipliers)
    bounded = _exhausted(program, nodes)
    bound = program.bound(bounded, multipliers, at if at.size else None)
    ceiling = proof.ceiling[proof.row]
    leaf = np.asarray((proof.children < 0).all(axis=1))
    short = np.flatnonzero(leaf & (bound < ceiling))
    if len(short):
        refuted = program.refutes(bounded.take(short), proof.multipliers[short])
        bound[short[refuted]] = np.inf
    least = np.array(proof.ceiling)
    np.minimum.at(least, proof.row[leaf], bound[leaf])
    sound = _begun(cases, proof)
    inner = np.flatnonzero(~leaf)
    if len(inner):
        made_up = _made_up(program, nodes, bound, proof, inner)
        sound[proof.row[inner[~made_up]]] = False
    return np.where(sound & ~np.isnan(least), np.maximum(least, 0.0), 0.0)


def _exhausted(program: Program, nodes: Cases) -> Cases:
    """The same boxes; where as many features must change as may, the others stay."""
    if program.domain.at_most is None or nodes.forced is None:
        return nodes
    must = program.domain.must_change(nodes)
    full = must[:, [block.start for block in program.domain.at_most.blocks]].sum(axis=1)
    still = np.zeros(must.shape, dtype=bool)
    for block in program.domain.at_most.blocks:
        still[:, block] = ((full >= program.domain.at_most.count) & ~must[:, block.start])[:, None]
    return nodes.holding(still, nodes.x)


def _begun(cases: Cases, proof: Proof) -> BoolArray:
    """(n,): whether a row has a root, which is all of its domain."""
    begun = (proof.root >= 0) & (proof.root < len(proof.row))
    at = np.where(begun, proof.root, 0)
    begun &= proof.row[at] == np.arange(len(at))
    begun &= (proof.low[at] <= cases.low).all(axis=1) & (proof.high[at] >= cases.high).all(axis=1)
    return np.asarray(begun & ~proof.forced[at].any(axis=1))


def _made_up(
    program: Program, nodes: Cases, bound: FloatArray, proof: Proof, inner: IntArray
) -> BoolArray:
    """Which inner nodes are made up by their children and by what their multipliers exclude.

    The children may differ in one feature. There they leave out nothing between them; or one holds
    all points at which the feature stays as it is, and the other, where it counts as changed, all.
    """
    children = proof.children[inner]
    fits = np.asarray(((children > inner[:, None]) & (children < len(proof.row))).all(axis=1))
    children = np.where(fits[:, None], children, inner[:, None])
    fits &= (proof.row[children] == proof.row[inner][:, None]).all(axis=1)
    ceiling, node = proof.ceiling[proof.row[inner]], nodes.take(inner)
    first, second = nodes.take(children[:, 0]), nodes.take(children[:, 1])
    excluded = _Excluded(program, node, proof.multipliers[inner], bound[inner], ceiling)
    differs, meets, covered = _numbers(program, node, first, second, excluded)
    if program.domain.groups:
        hot = program.domain.hot
        options = [hot.permitted(child) for child in (first, second)]
        covers = options[0] | options[1] | ~hot.permitted(node) | excluded.options()
        fits &= np.asarray(covers.all(axis=1))
        differ = hot.reduce(np.logical_or, options[0] != options[1])
        differs[:, hot.first] = differ
        meets[:, hot.first] = True
    if nodes.forced is not None:
        for child, sibling in ((first, second), (second, first)):
            newly_forced = np.asarray(child.forced) & ~nodes.forced[inner]
            differs |= newly_forced
            meets &= ~newly_forced | (_holds(program, child, sibling) & _stays(program, sibling))
    apart = differs.sum(axis=1) <= 1
    return np.asarray(fits & apart & covered.all(axis=1) & (meets | ~differs).all(axis=1))


def _numbers(
    program: Program, node: Cases, first: Cases, second: Cases, excluded: _Excluded
) -> tuple[BoolArray, BoolArray, BoolArray]:
    """(N, d): where children differ, where they then touch, and where both cover what remains."""
    steps, numeric = program.domain.steps, program.domain.numeric
    low, high = np.minimum(first.low, second.low), np.maximum(first.high, second.high)
    differs = ((first.low != second.low) | (first.high != second.high)) & numeric
    nonempty = (first.low <= first.high) & (second.low <= second.high)
    gap_low, gap_high = np.maximum(first.low, second.low), np.minimum(first.high, second.high)
    whole, unit = steps > 0.0, np.where(steps > 0.0, steps, 1.0)
    with np.errstate(invalid="ignore"):
        start, low_count, up = (
            lattice.first(node.x, end, unit) for end in (node.low, low, gap_low)
        )
        end, high_count, down = (
            lattice.last(node.x, end, unit) for end in (node.high, high, gap_high)
        )
        next_to = up <= down + 1.0
        below, above = (
            np.where(whole, low_count > start, low > node.low),
            np.where(whole, high_count < end, high < node.high),
        )
        before, after = (
            np.where(whole, lattice.number(node.x, count, unit), end) - node.x
            for count, end in ((low_count - 1.0, low), (high_count + 1.0, high))
        )
    touch = np.where(whole, next_to, gap_low <= np.nextafter(gap_high, np.inf))
    covered = ~numeric | (
        nonempty
        & (~below | excluded.numbers(before, -1.0))
        & (~above | excluded.numbers(after, 1.0))
    )
    return differs, touch, covered


def _holds(program: Program, box: Cases, other: Cases) -> BoolArray:
    """(N, d): whether a box holds all that another holds of a feature."""
    within = (box.low <= other.low) & (box.high >= other.high)
    if program.domain.groups:
        hot = program.domain.hot
        missing = hot.permitted(other) & ~hot.permitted(box)
        within[:, hot.first] = ~hot.reduce(np.logical_or, missing)
    return np.asarray(within)


def _stays(program: Program, box: Cases) -> BoolArray:
    """(N, d): whether a box holds the points at which a feature stays, which do not count."""
    within = (box.low <= box.x) & (box.high >= box.x)
    if program.domain.groups:
        within[:, program.domain.hot.first] = ~program.domain.hot.forced(box)
    return np.asarray(within if box.forced is None else within & ~box.forced)


@final
class _Excluded:
    """What multipliers exclude from the boxes of N nodes: values that cost the ceiling or more.

    With everything else at its least, a value costs the node's bound, and what its column's
    function of one variable takes there beyond its least. That function is convex, so all values
    beyond are excluded too. Rounding is allowed for: each term of a column is off by no more than
    some roundings of its size.
    """

    def __init__(
        self,
        program: Program,
        node: Cases,
        multipliers: FloatArray,
        bound: FloatArray,
        ceiling: FloatArray,
    ) -> None:
        self.program, self.node, self.encoded_cost = program, node, program.duality.diagonal
        cut = program.cut(multipliers, node.x)
        self.slope = cut.normal
        count = cut.roundings + AFTER + 8
        self.size = cut.weights @ cut.normals
        self.share = gamma(count)
        open_ = np.isinf(node.low) | np.isinf(node.high)
        steep = np.abs(self.slope) + self.share * self.size >= self.encoded_cost.absolute
        shrunk = (
            open_ & program.domain.numeric & (self.encoded_cost.curvature == 0.0) & steep
        ).any(axis=1)
        plain = not program.couplings and program.encoded_cost.quadratic.ndim == 1
        alone = ~multipliers.any(axis=1)  # the price
        sound = alone if program.nonconvex else alone | (bound > 0.0)
        # (N, 1) how much more than its least a column may take; nothing is excluded if infinite
        none = ~np.asarray(plain & sound) | shrunk | np.isnan(ceiling)
        rounding = 4.0 * gamma(1) * (bound + np.abs(ceiling)) + TINY
        self.room = np.where(none, np.inf, ceiling - bound + rounding)[:, None]

        ends = node.low - node.x, node.high - node.x
        self.best = self.encoded_cost.best(self.slope, *ends, node.x, program.domain.steps)
        self.alternative, self.rounding, self.must = self._alternative()

    def _alternative(self) -> tuple[FloatArray, FloatArray | float, BoolArray | None]:
        """(N, d) what a feature that takes another value would leave, of a group its first column.

        That is its own least; or, where so many features may change that another would have to
        stay, the most that one of those takes which do. By how much that may be off; and where
        changes are counted, which features must change.
        """
        program, encoded_cost = self.program, self.encoded_cost
        with np.errstate(invalid="ignore", over="ignore"):
            value = encoded_cost.value(self.best, self.slope)
        for level in encoded_cost.levels:
            j = level.column
            value[:, j] = program.domain.by_level(
                level, encoded_cost.absolute[j], self.slope[:, j], self.node
            )[0]
        if program.domain.groups:
            hot = program.domain.hot
            values, staying = self._options()
            least = np.where(hot.permitted(self.node), values, np.inf)
            value[:, hot.first] = hot.reduce(np.minimum, least) - staying
        if program.domain.at_most is None:
            return value, 0.0, None
        must = program.domain.must_change(self.node)
        starts = [block.start for block in program.domain.at_most.blocks]
        counted = np.zeros(program.width, dtype=bool)
        counted[starts] = True
        remaining = program.domain.at_most.count - must[:, starts].sum(axis=1)
        free = np.sort(np.where(must | ~counted, 0.0, np.minimum(value, 0.0)), axis=1)
        last = free[np.arange(len(free)), np.clip(remaining, 1, free.shape[1]) - 1]
        alternative = np.where(must, value, np.minimum(value, last[:, None]))
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.abs(np.where(program.domain.numeric, self.best, 1.0))
            rounding = (
                4.0 * self.share * (self._terms(distance) * distance).max(axis=1, keepdims=True)
            )
        return alternative, rounding, must

    def _terms(self, reach: FloatArray) -> FloatArray:
        """(N, d) the sizes of what changes of (N, d) lengths take, for each unit."""
        encoded_cost = self.encoded_cost
        terms = (
            self.size + np.abs(self.slope) + encoded_cost.dearest + encoded_cost.curvature * reach
        )
        return np.asarray(terms)

    def _options(self) -> tuple[FloatArray, FloatArray]:
        """(N, columns of groups) what categories take; (N, groups) what those take that stay."""
        hot, node = self.program.domain.hot, self.node
        factual, slope = node.x[:, hot.columns] > 0.5, self.slope[:, hot.columns]
        value = slope + self.encoded_cost.entered(node.x)[:, hot.columns]
        return value, hot.reduce(np.add, np.where(factual, slope, 0.0))

    def numbers(self, at: FloatArray, way: float) -> BoolArray:
        """(N, d): whether changes, and all beyond them up (1) or down (−1), are excluded."""
        encoded_cost, slope = self.encoded_cost, self.slope
        with np.errstate(invalid="ignore", over="ignore"):
            least = encoded_cost.value(self.best, slope) - self.alternative
            reach = np.maximum(np.abs(at), np.abs(self.best))
            terms = 4.0 * self.share * self._terms(reach)
            rounding = terms * reach + self.rounding + TINY
            rise = encoded_cost.value(at, slope) - self.alternative
            tilt = encoded_cost.absolute * np.sign(at) + 2.0 * encoded_cost.curvature * at + slope
            beyond = (way * tilt > terms) & (way * (at - self.best) > 0.0)
            excluded = (beyond & (rise - rounding >= self.room)) | (least - rounding >= self.room)
            excluded[:, [level.column for level in encoded_cost.levels]] = (
                False  # they are not convex
            )
            if self.must is not None:  # no change is no part of what is counted
                excluded &= self.must | (way * at > 0.0)
            return np.asarray(excluded)

    def options(self) -> BoolArray:
        """(N, columns of groups): which categories are excluded."""
        hot, node = self.program.domain.hot, self.node
        value, staying = self._options()
        alternative = hot.spread(self.alternative[:, hot.first] + staying)
        tall = self.size[:, hot.columns] + np.abs(self.slope[:, hot.columns])
        tall = hot.reduce(np.maximum, tall + self.encoded_cost.dearest[hot.columns])
        rounding = 16.0 * self.share * hot.spread(tall) + self.rounding
        with np.errstate(invalid="ignore"):
            excluded = value - alternative - rounding - TINY >= self.room
        if self.must is not None:
            may = hot.spread(np.where(self.must[:, hot.first], 0.0, 1.0)) > 0.0
            excluded &= ~(may & (node.x[:, hot.columns] > 0.5))
        return np.asarray(excluded)
