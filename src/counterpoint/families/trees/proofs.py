"""Check proof trees over boxes of cells: each leaf of a proof is bounded anew with `RowCosts`.

Many leaves are bounded at once, neither in the order of the search that found them, nor with its
bounds.

The model's trees know nothing of linear relations between columns. Without them, a box with
relations is a program that the solvers take, and whose multipliers bound the box by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.errors import NoSolver
from counterpoint.families.trees.boxes import CellBoxes, RowCosts
from counterpoint.families.trees.form import LeafSums, Order
from counterpoint.families.trees.grid import Grid
from counterpoint.numerics import VIOLATION, BoolArray, FloatArray, IntArray
from counterpoint.programs import arrays
from counterpoint.programs.conditions import MinimumChange
from counterpoint.programs.evidence import Bounding, BoundProof
from counterpoint.programs.program import NonConvex, Program
from counterpoint.programs.proof import ProofTrees
from counterpoint.programs.region import Batch, Region
from counterpoint.rows import lattice
from counterpoint.search.search import Incumbents, Subproblem, search_listed
from counterpoint.solvers.base import Effort


@final
@dataclass(frozen=True, eq=False)
class BoxProofs(Bounding):
    """Proofs for rows and one set of demands, checked anew whenever a bound is asked for.

    Splits are numbered as by the grid: of a number, the value is the first cell of the second
    child; a set is one of the grid's tests of groups.
    """

    program: Program
    condition: LeafSums
    cases: Batch
    trees: Sequence[ProofTrees]
    reported: FloatArray  # (n,) bounds as reported by solvers, which are not proved; 0 for none

    @property
    def is_local(self) -> bool:
        return False

    @property
    def bound_proofs(self) -> Sequence[BoundProof]:
        return [BoundProof.without_multipliers(self.program, len(self.cases), self.trees)]

    def bounds(
        self, incumbent: FloatArray, margin: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the bounds (n,) of the proofs that hold, 0 for the others."""
        out, form = np.zeros(len(self.cases)), self.condition.form
        for i, tree in (pair for trees in self.trees for pair in trees.each()):
            case = self.cases.take(np.array([i]))
            needs = needed(self.condition, np.zeros(2) if margin is None else margin[i])
            row = RowCosts(form.grid(self.program.domain.groups, case.x[0]), self.program, case)
            out[i] = max(out[i], _proved(tree, row, self.condition, needs))
        return out, np.maximum(out, self.reported)


def _proved(tree: ProofTrees, row: RowCosts, condition: LeafSums, needs: FloatArray) -> float:
    """Return the bound that a tree claims on the cost of points that meet the demands, or 0.

    It is 0 if some leaf may hold a point below the claim. ``needs`` (r,) is by how much the points
    meet each demand.
    """
    if row.root is None:
        return float(tree.bound[0])
    if not np.isfinite(tree.multipliers).all():
        return 0.0
    grid, claim = row.grid, float(tree.bound[0])
    values, shift = condition.weights @ grid.values.T, condition.shift + condition.tolerance - needs
    relations = Relations(row, without_trees(row.program)) if row.program.size else None
    boxes, nodes = _leaf_boxes(tree, row.root, grid)
    for multipliers, chunk in _chunks(tree.multipliers[nodes], grid):
        rows = [row]  # costs of the row: as they are, and with multipliers of relations
        if multipliers.any():
            rows.append(row.with_relations(multipliers))
        # A box that the costs of leaves do not close may be closed by the relations alone, or by
        # the model's own sums.
        for k, leaves in _unclosed(rows, arrays.pick(boxes, chunk), values, shift, claim):
            box = arrays.pick(boxes, chunk[k : k + 1])
            is_bounded = relations is not None and relations.bound(box, multipliers) >= claim
            if not is_bounded and not refuted(condition, grid, leaves):
                return 0.0
    return float(np.fmax(claim, 0.0))


def _leaf_boxes(tree: ProofTrees, root: CellBoxes, grid: Grid) -> tuple[CellBoxes, IntArray]:
    """Return the boxes of the leaves, in their order from left to right, and their nodes."""
    inner = np.flatnonzero(~tree.is_leaf)
    # Each split of the root's box leaves a half to each of the two children; a node's box is the
    # intersection of its half with those of the nodes above it.
    whole = arrays.pick(root, np.zeros(len(inner), dtype=np.intp))
    first, second = whole.halves(grid, _splits(tree, inner, grid))
    boxes = []
    intersections = np.maximum, np.minimum, np.logical_and  # of low, high and among
    for intersect, of_root, *halves in zip(intersections, root, first, second, strict=True):
        # Nodes are in this order: the root, and the two children of each inner node.
        children = np.stack(halves, axis=1).reshape(2 * len(inner), of_root.shape[1])
        boxes.append(tree.inherited(intersect, np.concatenate([of_root, children])))
    # A node's place from left to right: each second child on the way adds ½, ¼, …; the root adds 1.
    is_second = np.arange(len(tree.kind)) % 2 == 0
    place = tree.inherited(np.add, 0.5**tree.depth * is_second)
    leaves = np.flatnonzero(tree.is_leaf)
    leaves = leaves[np.argsort(place[leaves], kind="stable")]
    return arrays.pick(CellBoxes._make(boxes), leaves), leaves


def _splits(tree: ProofTrees, nodes: IntArray, grid: Grid) -> IntArray:
    """Return the splits (m, 3) of nodes; raise a ValueError if there is no such split."""
    cell = np.clip(np.nan_to_num(tree.value[nodes]), -1, 1 << 30).astype(np.intp)
    splits = np.stack([tree.kind[nodes], tree.column[nodes], cell], axis=1)
    if not grid.has(splits):
        raise ValueError("a node of a tree is split in no way that there is")
    return splits


def _chunks(multipliers: FloatArray, grid: Grid) -> Iterator[tuple[FloatArray, IntArray]]:
    """Yield boxes (their indices) with the same multipliers, of (boxes, m), and these (m,).

    Boxes that are neighbours come together: they share the leaves of the box around them. They are
    64 at most, and so few that an array of tests times boxes has 32 MiB.
    """
    unique, group = np.zeros((1, 0)), np.zeros(len(multipliers), dtype=np.intp)
    if multipliers.size:
        unique, group = np.unique(multipliers, axis=0, return_inverse=True)
    most = min(64, max(1, (1 << 22) // max(grid.pad, 1)))
    for k, vector in enumerate(unique):
        same = np.flatnonzero(group.ravel() == k)
        for begin in range(0, len(same), most):
            yield vector, same[begin : begin + most]


def _unclosed(
    rows: Sequence[RowCosts],
    boxes: CellBoxes,
    values: FloatArray,
    shift: FloatArray,
    bound: float,
) -> Iterator[tuple[int, IntArray]]:
    """Yield each box (its index) that may hold an answer below a bound, with its cheap leaves.

    Cheap are leaves of the model with a point in the box that costs less than the bound, by each of
    the ``rows``: the costs of one row without and with multipliers of relations. An answer needs
    that the best cheap leaves of all trees meet the demands: their ``values`` (r, L) and the
    ``shift`` (r,) add up to 0 or more.
    """
    grid, leaves = rows[0].grid, np.arange(len(rows[0].grid.tests))
    if len(boxes.low) > 1:
        leaves = leaves[_cheaper(rows, boxes.hull, leaves, bound)[:, 0]]
    starts = np.searchsorted(leaves, grid.tree_starts)
    if (np.diff(starts, append=len(leaves)) == 0).any():
        return  # a tree has no cheap leaf in any of the boxes
    cheap = _cheaper(rows, boxes, leaves, bound)
    feasible = np.ones(cheap.shape[1], dtype=bool)
    for value, offset in zip(values[:, leaves], shift, strict=True):
        best = np.maximum.reduceat(np.where(cheap, value[:, None], -np.inf), starts)
        feasible &= best.sum(axis=0) + offset >= 0.0
    for k in np.flatnonzero(feasible).tolist():
        yield k, leaves[cheap[:, k]]


def _cheaper(
    rows: Sequence[RowCosts], boxes: CellBoxes, leaves: IntArray, bound: float
) -> BoolArray:
    """Return whether leaves have points in boxes below a bound, (A, n), by the costs of all."""
    n, near = len(boxes.low), np.ones((len(leaves), len(boxes.low)), dtype=bool)
    pairs = np.repeat(leaves, n), np.tile(np.arange(n), len(leaves))
    for row in rows:
        cost, allowed = row.leaf_costs(row.costs(boxes), *pairs)
        near &= ((cost < bound) & allowed).reshape(near.shape)
    return near


def refuted(condition: LeafSums, grid: Grid, leaves: IntArray) -> bool:
    """Return whether the model's own sums over a box's leaves miss a demand, whichever they are.

    These sums take one leaf of each tree; the best one for the demand bounds them all. It is known
    bit by bit in two cases. Where all values are binary fractions, only the last division is
    rounded. And where leaves are added up tree by tree, a larger term makes no rounded sum smaller.
    How other sums are rounded is unknown; but with a slack, sums in our own order decide, see
    `TreeScores.decides`.
    """
    form, weights, values = condition.form, condition.weights, grid.undivided[leaves]
    if not condition.ties_resolved or (form.order is Order.OWN and not condition.slack):
        return False
    begin, gains = np.searchsorted(leaves, grid.tree_starts), weights @ values.T
    best = np.maximum.reduceat(gains, begin, axis=1)  # (r, T) gains of the best leaf of each tree
    if form.sums_exactly(values):
        sums = (best.sum(axis=1) + weights @ form.base) / form.divisor
    elif form.order is not Order.ANY or condition.slack:
        # A sum with a leaf whose gain is not near its tree's best is below 0 by more than rounding,
        # if the best sum is near 0; if that is clearly above, nothing is refuted. Of the leaves
        # near the best, each score takes the value that is best for the demand.
        error = 2.0 * form.divisor * condition.tolerance[:, None]
        near = gains >= best.repeat(np.diff([*begin, len(leaves)]), axis=1) - error
        low = np.minimum.reduceat(np.where(near[:, :, None], values, np.inf), begin, axis=1)
        high = np.maximum.reduceat(np.where(near[:, :, None], values, -np.inf), begin, axis=1)
        extreme = np.where(weights[:, None] > 0.0, high, low)  # (r, T, k)
        sums = (weights * form.added(extreme)).sum(axis=1)
    else:
        return False
    sums = sums + condition.offset
    allowance = condition.tolerance if condition.slack else form.link_error
    return bool(np.where(condition.strict, sums <= 0.0, sums < -allowance).any())


def needed(condition: LeafSums, margin: FloatArray) -> FloatArray:
    """Return by how much each demand has to be met, (r,), for a margin (2,), see `Batch`."""
    return np.asarray(margin[0] + np.where(condition.strict, margin[1], 0.0))


def require_rows(program: Program) -> None:
    """Raise `NoSolver` for conditions and costs that tie columns together beside the trees."""
    full = program.encoded_cost.quadratic.ndim == 2
    if full or program.couplings:
        what = "a full Mahalanobis cost" if full else "relations that are not linear"
        raise NoSolver(
            f"Trees cannot be searched with {what}. Use a cost of one feature at a time, and "
            "constraints of one feature at a time or Linear."
        )


def evidence_of(
    condition: LeafSums, program: Program, cases: Batch, proof: BoundProof
) -> BoxProofs:
    """Return the bounds of recorded proofs, which are checked whenever they are asked for."""
    require_rows(program)
    proof.require_no_family_proofs()
    return BoxProofs(program, condition, cases, proof.trees, np.zeros(len(cases)))


# --- relations between columns ---


def without_trees(program: Program) -> Subproblem:
    """Return a program without its trees, and without minimum changes across their thresholds."""
    conditions = [c for c in program.region if not isinstance(c, NonConvex | MinimumChange)]
    return Subproblem(Program(program.encoded_cost, Region(tuple(conditions))))


@final
class Relations:
    """The linear relations between columns, for one row: boxes as programs `without_trees`."""

    def __init__(self, row: RowCosts, subproblem: Subproblem) -> None:
        self.row, self.subproblem, self.program = row, subproblem, subproblem.program

    def within(self, box: CellBoxes, eps: float | None = None) -> Batch:
        """Return the row with the bounds of a box; with a precision ``eps``, surely within it.

        See `RowCosts.ends`.
        """
        row, grid = self.row, self.row.grid
        low, high = np.array(self.row.bounds)
        first, last = row.ends(eps)
        low_cell, high_cell = grid.starts[:-1] + box.low[0], grid.starts[:-1] + box.high[0]
        low[grid.columns] = np.maximum(low[grid.columns], first[low_cell])
        high[grid.columns] = np.minimum(high[grid.columns], last[high_cell])
        high[grid.category_columns] = np.minimum(high[grid.category_columns], box.among[0])
        # without slack: the number of whole steps that is a threshold is in the cell below it
        low, high = lattice.within(row.x, low, high, self.program.domain.steps)
        return Batch(row.case.x, low[None], high[None], np.zeros(1))

    def cheapest(
        self, box: CellBoxes, gap: float, eps: float | None = None
    ) -> tuple[FloatArray, FloatArray, float]:
        """Return the cheapest point (d,) of a box, its multipliers, and the bound.

        The bound is as the solver reports it, and not proved. If there is no point, it is infinite
        and the point NaN.
        """
        cases = self.within(box, eps)
        if (cases.low > cases.high).any():
            return np.full(self.program.width, np.nan), np.zeros(self.program.size), np.inf
        solution = search_listed(Incumbents(cases, Effort(0.1 * gap)), (self.subproblem,))
        (evidence,) = solution.evidence
        (proof,) = evidence.bound_proofs  # what is listed keeps its multipliers
        point = np.clip(solution.points[0], cases.low[0], cases.high[0])
        return point, proof.multipliers[0], float(evidence.bounds(solution.objective)[1][0])

    def bound(self, box: CellBoxes, multipliers: FloatArray) -> float:
        """Return the least cost of points of a box that keep the relations; infinite for none."""
        cases = self.within(box)
        none = cases.empty | self.program.refutes(cases, multipliers[None])
        return np.inf if none[0] else float(self.program.bound(cases, multipliers[None])[0])

    def cost(self, y: FloatArray) -> float:
        """Return the cost of a point; infinite if it does not keep the relations."""
        if np.isnan(y).any() or self.program.violation(y[None], self.row.x[None])[0] > VIOLATION:
            return np.inf
        return float(self.program.objective(y[None], self.row.case)[0])

    def cells(self, y: FloatArray, box: CellBoxes) -> tuple[IntArray, IntArray]:
        """Return the cells and categories of a point of a box."""
        cells, categories = self.row.cells(y)
        return np.clip(cells, box.low[0], box.high[0]), categories
