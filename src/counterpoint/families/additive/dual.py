"""Multipliers of knapsacks: the highest Lagrangian bound of many boxes at once, by Dantzig–Wolfe.

A basis holds one column more than there are demands: points, what a demand has too much of, and
what it has too little of, at a high cost. It gives multipliers; the point at which their Lagrangian
is least enters it, until none improves on it. For one demand, these are secants of a concave
function.

Points that miss a demand are repaired by replacing one feature, as cheaply as can be.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from counterpoint.families.additive.knapsack import Candidates, KnapsackLagrangian
from counterpoint.numerics import STEP_SLACK, BoolArray, FloatArray, IntArray
from counterpoint.programs import arrays

NEAR = 1e-9
"""A bound is the highest if it is this near, relatively, to the cost of a mixture of points."""
POINT, SURPLUS, MISSING = 0, 1, 2
"""Kinds of columns of a basis."""


@final
class Basis(NamedTuple):
    """The bases of m boxes for s demands, and the highest bounds so far; arrays change in place.

    A basis is one of a linear program: the cheapest mixture of points that meets the demands. Its
    s + 1 columns are points, *surplus* of a demand, which costs nothing, or what is *missing* of a
    demand, which costs more than it would to gain that.
    """

    # (m, s + 1, s + 1) what each column adds to the s demands, and to the sum of points' weights
    matrix: FloatArray
    target: FloatArray  # (m, s + 1) what these have to be: the missing gains, and 1
    cost: FloatArray  # (m, s + 1) of each column
    kind: IntArray  # (m, s + 1)
    points: Candidates  # (m, s + 1) those that columns of the kind POINT stand for
    shares: FloatArray  # (m, s + 1) amounts of the columns: matrix · shares = target
    multipliers: FloatArray  # (m, s) those of the highest bound so far
    bound: FloatArray  # (m,) infinite where a box has no point
    raises: IntArray  # (m,) how often the cost of what is missing was raised
    done: BoolArray  # (m,)
    ceiling: FloatArray  # (m,) bounds from there on are as good as the highest
    cap: FloatArray  # (m,) the largest multiplier, see `_caps`

    @property
    def weights(self) -> FloatArray:
        """(m, s + 1) the weight of each point in the mixture; 0 for the other kinds."""
        return np.where(self.kind == POINT, np.clip(self.shares, 0.0, 1.0), 0.0)


def maximize_dual(lagrangian: KnapsackLagrangian, start: FloatArray, ceiling: FloatArray) -> Basis:
    """Return the bases of the highest bounds; or of any that are as high as the ceilings (m,).

    ``start`` (m, s) are multipliers to begin with. It is the simplex method with columns that are
    generated: the multipliers of a basis bound a box, and the point at which its Lagrangian is
    least then enters the basis.
    """
    basis, empty = _initial_basis(lagrangian, start, ceiling), lagrangian.empty
    basis.done[:] |= empty | (basis.bound >= ceiling)
    for _ in range(60):  # four steps do, for most boxes
        if basis.done.all():
            break
        _improve(lagrangian, basis)
    np.maximum(basis.bound, 0.0, out=basis.bound)
    basis.bound[empty], basis.multipliers[empty] = np.inf, 0.0
    return basis


def _initial_basis(lagrangian: KnapsackLagrangian, start: FloatArray, ceiling: FloatArray) -> Basis:
    """Return bases of the least point of each box at the start, and of one column for each demand.

    If the point meets a demand, that is its surplus, else what it misses.
    """
    (n, s), k = start.shape, lagrangian.knapsack
    value, point = lagrangian.least(start)
    # What is missing costs more, per gain, than the dearest change does that gains most. That cost
    # is a bound on the multiplier, so it is at least four times the one at the start.
    costs = lagrangian.boxes.option_cost
    tables = k.table_gains if lagrangian.gain is None else lagrangian.gain
    most = np.abs(tables).max(axis=(-2, -1), initial=0.0)  # the largest gain for each demand
    most = np.maximum(np.abs(k.gains).max(axis=1, initial=0.0), most)
    most = np.maximum(np.abs(lagrangian.missing), most)  # so that costs stay within bounds
    most[most == 0.0] = 1.0  # nothing gains anything
    dearest = costs.max(axis=(1, 2), initial=0.0, where=np.isfinite(costs))
    dearest += point.cost + (k.cost.absolute + k.cost.curvature).max(initial=0.0)
    dearest[dearest == 0.0] = 1.0  # nothing is left to choose, but what is missing is not free
    matrix, cost = np.zeros((n, s + 1, s + 1)), np.zeros((n, s + 1))
    kind, shares = np.full((n, s + 1), POINT), np.zeros((n, s + 1))
    # the first column: the point
    matrix[:, :s, 0], matrix[:, s, 0] = point.gain, 1.0
    cost[:, 0], shares[:, 0] = point.cost, 1.0
    # the others: one for each demand
    is_met, demand = point.gain >= lagrangian.missing, np.arange(s)
    matrix[:, demand, demand + 1] = np.where(is_met, -1.0, 1.0)
    cost[:, 1:] = np.where(is_met, 0.0, np.maximum(4.0 * start, dearest[:, None] / most))
    kind[:, 1:] = np.where(is_met, SURPLUS, MISSING)
    return Basis(
        matrix=matrix,
        target=np.hstack([lagrangian.missing, np.ones((n, 1))]),
        cost=cost,
        kind=kind,
        points=Candidates._make([np.repeat(v[:, None], s + 1, axis=1) for v in point]),
        shares=shares,
        multipliers=np.array(start),
        bound=value + (start * lagrangian.missing).sum(axis=1),
        raises=np.zeros(n, dtype=np.intp),
        done=np.zeros(n, dtype=bool),
        ceiling=ceiling,
        cap=_caps(lagrangian),
    )


def _caps(lagrangian: KnapsackLagrangian) -> FloatArray:
    """Return the largest multipliers (m,) for which every column's least term is finite.

    From there on a column without an end gains at least what it costs. With several demands no
    column is without an end, see `Knapsack.endless`.
    """
    k = lagrangian.knapsack
    if not lagrangian.rows.is_endless or len(k.gains) > 1:
        return np.full(len(lagrangian.missing), np.inf)
    gains = k.gains[0]
    is_linear = ~k.nonlinear & (gains != 0.0)
    ratio = np.where(is_linear, k.cost.absolute / np.abs(gains), np.inf)
    end = np.where(gains > 0.0, lagrangian.boxes.high, -lagrangian.boxes.low)
    cap = np.where(np.isposinf(end), ratio, np.inf).min(axis=1, initial=np.inf)
    return np.asarray(cap * (1.0 - 1e-13))  # the term must not be at infinity by rounding


def _improve(lagrangian: KnapsackLagrangian, basis: Basis) -> None:
    """Do one step of the simplex method: bound all boxes, and let a column enter their bases.

    A box is done if its bound is the highest, or no column can enter. If the highest bound still
    pays for missing gains, either these cannot be had at all, and the box has no point, or their
    cost is raised. Boxes that are done do not change; their last multipliers are tried again.
    """
    s, inverse = basis.multipliers.shape[1], inverted(basis.matrix)
    duals = (basis.cost[:, None] @ inverse)[:, 0]
    basis.shares[:] = (inverse @ basis.target[:, :, None])[:, :, 0]
    # the basis prices a demand at its multiplier, and a point at cost − λ · gain = threshold
    lam, threshold = duals[:, :s], duals[:, s]
    in_cost = lam * np.abs(basis.matrix[:, :s]).max(axis=2)
    surplus = in_cost.argmin(axis=1)  # where a multiplier is negative, surplus lowers the cost
    is_negative = in_cost.min(axis=1) < -NEAR * np.abs(basis.cost).max(axis=1)
    lam = np.minimum(np.maximum(lam, 0.0), basis.cap[:, None])
    value, points = lagrangian.least(lam)
    bound = value + (lam * lagrangian.missing).sum(axis=1)
    is_higher = bound > basis.bound
    np.copyto(basis.bound, bound, where=is_higher)
    np.copyto(basis.multipliers, lam, where=is_higher[:, None])

    # No bound is higher if no point has less than the threshold, by more than rounding, or if the
    # bound comes to the cost of the mixture.
    size = np.abs(points.cost) + (lam * np.abs(points.gain)).sum(axis=1) + np.abs(threshold)
    tolerance = 2e-11 * np.abs(basis.target).max(axis=1, keepdims=True)
    is_missing = ((basis.kind == MISSING) & (basis.shares > tolerance)).any(axis=1)
    mixture_cost = (basis.cost * basis.shares).sum(axis=1)
    is_highest = ~is_negative & (value >= threshold - 1e-12 * size)
    is_highest |= ~is_missing & (mixture_cost - basis.bound <= NEAR * np.abs(mixture_cost))

    # At the cap, a column without an end is to go as far as it has to: its point is repaired, and
    # enters the basis last.
    is_capped = ~basis.done & (lam[:, 0] >= basis.cap)
    if is_capped.any():
        is_capped &= ~lagrangian.satisfied(points)
    if is_capped.any():
        index = np.flatnonzero(is_capped)
        arrays.put(points, index, repaired(lagrangian.pick(index), arrays.pick(points, index)))

    basis.done[:] |= (is_highest & ~is_missing & ~is_capped) | (basis.bound >= basis.ceiling)
    is_short = is_highest & is_missing & ~is_capped & ~basis.done
    entering = np.flatnonzero(~basis.done & ~is_short)
    if len(entering):
        _enter(basis, entering, points, np.where(is_negative & ~is_capped, surplus, -1), inverse)
    basis.done[:] |= is_capped
    if is_short.any():
        is_refuted = is_short & _is_ray(lagrangian, lam)
        basis.bound[is_refuted], basis.multipliers[is_refuted] = np.inf, lam[is_refuted]
        basis.raises[:] += is_short
        basis.done[:] |= is_refuted | (basis.raises > 6)  # then the bound stays as it is
        basis.cost[:] *= np.where(is_short[:, None] & (basis.kind == MISSING), 64.0, 1.0)


def _is_ray(lagrangian: KnapsackLagrangian, lam: FloatArray) -> BoolArray:
    """Return whether demands, weighed by λ (m, s), ask for more than any point gains, (m,)."""
    value, _ = lagrangian.without_cost().least(lam)
    size = (lam * (lagrangian.slack + np.abs(lagrangian.missing))).sum(axis=1)
    return np.asarray(value + (lam * lagrangian.missing).sum(axis=1) > 1e-9 * size)


def _enter(
    basis: Basis, rows: IntArray, points: Candidates, surplus: IntArray, inverse: FloatArray
) -> None:
    """Let a column enter the bases of some boxes (``rows``); those that it cannot enter are done.

    It is the surplus of the demand that ``surplus`` (m,) names, or the box's point where that is
    −1. By the ratio test the column leaves that is used up first.
    """
    is_surplus, demand = surplus[rows] >= 0, surplus[rows]
    entering = np.hstack([points.gain[rows], np.ones((len(rows), 1))])
    entering[is_surplus] = 0.0
    entering[is_surplus, demand[is_surplus]] = -1.0
    direction = (inverse[rows] @ entering[:, :, None])[:, :, 0]
    size = np.abs(direction).max(axis=1, keepdims=True)
    shares = np.maximum(basis.shares[rows], 0.0)
    ratio = np.where(direction > 1e-11 * size, shares / direction, np.inf)
    # of equal ratios, what is missing leaves first
    is_tied = (basis.kind[rows] == MISSING) & (ratio <= ratio.min(axis=1, keepdims=True))
    ratio = np.where(is_tied, -1.0, ratio)
    leaving = ratio.argmin(axis=1)
    fits = np.isfinite(ratio[np.arange(len(rows)), leaving])
    basis.done[rows[~fits]] = True
    rows, leaving, is_surplus = rows[fits], leaving[fits], is_surplus[fits]
    basis.matrix[rows, :, leaving] = entering[fits]
    basis.cost[rows, leaving] = np.where(is_surplus, 0.0, points.cost[rows])
    basis.kind[rows, leaving] = np.where(is_surplus, SURPLUS, POINT)
    arrays.put(basis.points, (rows, leaving), arrays.pick(points, rows))


def inverted(matrix: FloatArray) -> FloatArray:
    """Return the inverses of matrices (n, k, k); of a singular one the pseudoinverse.

    Columns of a basis that gain almost the same make it singular. Any multipliers bound a knapsack,
    so that its row loses a better bound at most, and the other rows nothing.
    """
    try:
        return np.asarray(np.linalg.inv(matrix))
    except np.linalg.LinAlgError:
        if len(matrix) > 1:
            return np.concatenate([inverted(matrix[[i]]) for i in range(len(matrix))])
        return np.asarray(np.linalg.pinv(matrix))


# --- points that meet their demands ---


def repaired(lagrangian: KnapsackLagrangian, points: Candidates) -> Candidates:
    """Replace one feature of each point, as cheaply as can be, so that all demands are met.

    A point stays as it is if no single feature does that, or if it meets them and none is cheaper.
    """
    k, point = lagrangian.knapsack, np.arange(len(points.cost))
    numbers = len(k.numbers)
    missing = lagrangian.missing - points.gain
    change = _least_changes(lagrangian, points, missing)
    possible = np.isfinite(change)
    change = np.where(possible, change, 0.0)
    increase = np.where(possible, lagrangian.paid(change) - lagrangian.paid(points.change), np.inf)
    option_increase = _option_increases(lagrangian, points, missing)
    if k.at_most is not None:  # where as many are changed as may be, no other feature changes
        changed = lagrangian.changed(points)
        is_fixed = ~changed & (changed.sum(axis=1) >= k.at_most)[:, None]
        increase[(change != 0.0) & is_fixed[:, :numbers]] = np.inf
        is_change = lagrangian.boxes.option_cost > 0.0  # to stay costs nothing
        option_increase[is_fixed[:, numbers:, None] & is_change] = np.inf
    # columns: the numbers, and then the options of the first table, of the second, …
    increase = np.hstack([increase, option_increase.reshape(len(point), -1)])
    best = increase.argmin(axis=1)
    least = increase[point, best]
    helps = np.isfinite(least) & (~lagrangian.satisfied(points) | (least < 0.0))
    changes, choice = np.array(points.change), np.array(points.choice)
    of_number = np.flatnonzero(helps & (best < numbers))
    changes[of_number, best[of_number]] = change[of_number, best[of_number]]
    of_option = np.flatnonzero(helps & (best >= numbers))
    if len(of_option):
        table, option = np.divmod(best[of_option] - numbers, option_increase.shape[2])
        choice[of_option, table] = option
    return lagrangian.points(changes, choice)


def _least_changes(
    lagrangian: KnapsackLagrangian, points: Candidates, missing: FloatArray
) -> FloatArray:
    """Return the change (m, c) of each column nearest to 0 that alone makes up for what is missing.

    NaN where there is none. ``missing`` (m, s) is relative to the points; negative where they gain
    more than they have to.
    """
    k, box = lagrangian.knapsack, lagrangian.boxes
    low, high, possible = box.low, box.high, np.ones(points.change.shape, dtype=bool)
    for r, gains in enumerate(k.gains):
        needed = points.change + missing[:, r, None] / gains
        low = np.where(gains > 0.0, np.maximum(low, needed), low)
        high = np.where(gains < 0.0, np.minimum(high, needed), high)
        possible &= (gains != 0.0) | (missing[:, r] <= lagrangian.slack[:, r])[:, None]
    low = np.where(k.whole, np.ceil(low - STEP_SLACK), low)
    high = np.where(k.whole, np.floor(high + STEP_SLACK), high)
    change = np.minimum(np.maximum(low, 0.0), high)
    possible &= (low <= change) & (change <= high)
    if k.smooth is not None:
        smooth = k.smooth_columns
        change[:, smooth], possible[:, smooth] = _smooth_least_changes(lagrangian, points, missing)
        possible[:, smooth] &= ((box.low <= change) & (change <= box.high))[:, smooth]
    return np.where(possible & np.isfinite(change), change, np.nan)


def _smooth_least_changes(
    lagrangian: KnapsackLagrangian, points: Candidates, missing: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return smaller changes (m, k) of single smooth columns that keep the demands met.

    The second array says where all demands are met. A change is a share of the point's own, found
    by bisection; it is not the least if the curve rises and falls in between.
    """
    k, smooth = lagrangian.knapsack, lagrangian.knapsack.smooth_columns
    change, linear = points.change[:, smooth], k.gains[:, smooth].T
    needed = (missing - lagrangian.slack)[:, None]
    gain_of_points = change[:, :, None] * linear + lagrangian.smooth_gains(change)

    def gain(changes: FloatArray) -> FloatArray:
        return changes[:, :, None] * linear + lagrangian.smooth_gains(changes) - gain_of_points

    low, high = np.zeros(change.shape), np.ones(change.shape)  # shares of the change
    for _ in range(36):  # to 11 digits
        middle = 0.5 * (low + high)
        # a demand that the point itself misses cannot be kept
        meets = ((gain(middle * change) >= needed) | (needed > 0.0)).all(axis=2)
        high, low = np.where(meets, middle, high), np.where(meets, low, middle)
    changes = high * change
    whole = np.copysign(np.ceil(np.abs(changes)), change)  # away from 0, where demands are met
    changes = np.where(k.whole[smooth], whole, changes)
    return changes, np.asarray((gain(changes) >= needed).all(axis=2))


def _option_increases(
    lagrangian: KnapsackLagrangian, points: Candidates, missing: FloatArray
) -> FloatArray:
    """Return what each option costs above the chosen one, (m, t, k); infinite if demands stay."""
    cost = lagrangian.boxes.option_cost
    increase = cost - lagrangian.chosen(cost, points.choice)[:, :, None]
    for r in range(len(lagrangian.knapsack.gains)):
        chosen = lagrangian.chosen_gains(points.choice, r)
        needed = missing[:, r, None] + chosen - lagrangian.slack[:, r, None]
        increase = np.where(lagrangian.gains_of(r) >= needed[:, :, None], increase, np.inf)
    return increase
