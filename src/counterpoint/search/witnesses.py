"""Witnesses are rows of ``data=`` to which the model itself gives the target.

Every witness within a row's constraints is an answer, whatever a search says. The nearest ones are
moved closer: changes are taken back, and numbers moved towards the row, for as long as the model
agrees. A search that takes long begins with these, and they are returned when its time runs out; a
bound that excludes one is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, final

import numpy as np

from counterpoint.caches import Memo
from counterpoint.errors import InvalidInput
from counterpoint.numerics import MISSING, VIOLATION, BoolArray, FloatArray, IntArray, clock
from counterpoint.problem.targets import Target
from counterpoint.programs.program import Program
from counterpoint.programs.region import Batch
from counterpoint.rows.encoding import PRESENT, encode, match_columns
from counterpoint.rows.table import Table

if TYPE_CHECKING:
    from counterpoint.models.reading import ReadModel

ROWS, CELLS = 10_000, 1 << 20
"""Rows that are kept of the data, and cells of them: 8 MiB. To compare a row with all of them takes
1 ms."""
KEPT = 15
"""Witnesses that are moved towards a row."""
FIRST_TRIED, MOST_TRIED = 64, 512
"""How many of the nearest rows of data are moved into the constraints to find a witness: at first,
and if none of those is one."""
ASKED_FIRST = 256
"""About how many rows of data the model is asked about at first."""
SHARES = (0.0, 0.5, 0.8, 0.95, 0.99)
"""The shares of a number's change that are tried instead of it."""

Ask = Callable[[FloatArray], tuple[FloatArray, BoolArray]]
"""Points (m, d) → the same as they are returned, and (m,) whether the model gives the target."""


@final
class Witnesses:
    """Rows of the data, and the outputs of the model on those that it was asked about."""

    def __init__(self, model: ReadModel, data: Table) -> None:
        count = min(len(data), ROWS, max(CELLS // max(len(model.features), 1), KEPT))
        spread = np.arange(count) * len(data) // max(count, 1)
        data = data if count == len(data) else data.take(spread)
        self.model = model
        self.data = match_columns(data, model.features, named=model.named)
        # what is asked (labels of a probability; None for predictions) → usable row → output
        self._outputs: Memo[Any, dict[int, Any]] = Memo()

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "data": self.data}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._outputs = Memo()

    @cached_property
    def _usable(self) -> tuple[IntArray, FloatArray]:
        """The m rows in which no cell is missing for the model, and (m, d) the same, encoded."""
        features = self.model.features
        encoded = encode(self.data, features, self.model.fills, self.model.unfilled)
        takes_missing = [self.model.fills.get(name) == MISSING for name in features.names]
        usable = ((encoded.missing == PRESENT) | takes_missing).all(axis=1)
        usable[list(encoded.problems)] = False
        rows = np.flatnonzero(usable)
        return rows, features.expand(encoded.codes[rows])

    @property
    def points(self) -> FloatArray:
        """(m, d) the rows in which no cell is missing for the model, encoded."""
        return self._usable[1]

    def _has_target(self, target: Target, positions: IntArray) -> BoolArray:
        """(m,): whether the model gives the target at some of the usable rows; outputs are kept.

        Calls are slow, so that each is filled up with further rows, to as many as were asked about
        before it in all. If the model does not take the data, the target is given nowhere.
        """
        if not len(positions):
            return np.zeros(0, dtype=bool)
        requirement, (rows, x) = target.requirement, self._usable
        key = requirement.labels if requirement.probable else None
        outputs = self._outputs.made(key, dict)
        unknown = [k for k in positions.tolist() if k not in outputs]
        if unknown:
            excluded, size = {*outputs, *unknown}, max(len(outputs), ASKED_FIRST)
            further = (k for k in range(len(rows)) if k not in excluded)
            queried = np.array(unknown + list(islice(further, max(size - len(unknown), 0))))
            try:
                new_outputs = target.outputs(self.model, self.data.take(rows[queried]))
            except InvalidInput:
                return np.zeros(len(positions), dtype=bool)
            outputs.update(zip(queried.tolist(), new_outputs.tolist(), strict=True))
        outputs_at_positions = np.array([outputs[k] for k in positions.tolist()])
        return target.satisfied(self.model.form, x[positions], outputs_at_positions)

    def inside(self, target: Target, program: Program, case: Batch, cutoff: float) -> FloatArray:
        """(m, d) rows of the data that are answers to a row as they are, for less than a cutoff.

        The cheapest come first. A row is one only if nothing would move it into the constraints.
        """
        _, x = self._usable
        cost = program.encoded_cost(x, np.broadcast_to(case.x, x.shape))
        rows = np.flatnonzero(cost < cutoff)
        rows = rows[((x[rows] >= case.low) & (x[rows] <= case.high)).all(axis=1)]
        rows = rows[np.argsort(cost[rows], kind="stable")][:ASKED_FIRST]
        rows = rows[(self._moved(x[rows], program, case) == x[rows]).all(axis=1)]
        violation = program.violation(x[rows], np.broadcast_to(case.x, x[rows].shape))
        rows = rows[violation <= VIOLATION]
        return np.asarray(x[rows[self._has_target(target, rows)]][:KEPT])

    def nearest(self, target: Target, program: Program, case: Batch, most: int) -> FloatArray:
        """(m, d) the witnesses nearest to a row, moved into the bounds on its columns.

        The model is asked about rows of the data as they are, from the nearest on, ever more at a
        time. A point may have lost the target by its move: `shortened` asks about it again.
        """
        _, x = self._usable
        points = self._moved(x, program, case)
        cost = program.encoded_cost(points, np.broadcast_to(case.x, points.shape))
        order = np.argsort(cost, kind="stable")
        nearest, start, size = np.zeros(0, dtype=np.intp), 0, ASKED_FIRST
        while start < len(order) and len(nearest) < most:
            block = order[start : start + size]
            nearest = np.append(nearest, block[self._has_target(target, block)])
            start, size = start + size, 2 * size
        return np.asarray(points[nearest[:most]])

    @staticmethod
    def _moved(points: FloatArray, program: Program, case: Batch) -> FloatArray:
        """Move points into the bounds of a row's columns, onto their steps and categories.

        A number that is missing on either side stays as in the row; so does a category that the row
        may not take.
        """
        x, domain = case.x, program.domain
        points = np.where((points == MISSING) | (x == MISSING), x, points)
        points = np.minimum(np.maximum(points, case.low), case.high)
        whole = np.flatnonzero(domain.steps)
        count = np.rint((points[:, whole] - x[:, whole]) / domain.steps[whole])
        numbers = x[:, whole] + count * domain.steps[whole]
        numbers = np.minimum(np.maximum(numbers, case.low[:, whole]), case.high[:, whole])
        points[:, whole] = np.where(count == 0.0, x[:, whole], numbers)
        for group in domain.groups:
            barred = points[:, group].sum(axis=1) != 1.0
            points[barred, group] = x[:, group]
        return points


def shortened(
    points: FloatArray,
    program: Program,
    case: Batch,
    blocks: tuple[slice, ...],
    ask: Ask,
    end: float,
) -> FloatArray:
    """Take back changes of points that the model gives the target, and move numbers closer.

    Return (k, d) answers as they are returned, the cheapest first.

    Parameters
    ----------
    points
        (m, d) points that may have the target, the nearest first.
    program, case
        The cost over what is possible without the target, and the row.
    blocks
        The encoded columns of each feature.
    ask
        Asks the model about points.
    end
        When to stop, by `clock`.
    """
    witnesses = _MovedWitnesses(program, case, blocks, ask)
    for first, last in ((0, FIRST_TRIED), (FIRST_TRIED, MOST_TRIED)):
        if witnesses.begin(points[first:last]) or clock() > end:
            break
    witnesses.take_back(end)
    witnesses.move_closer(end)
    return witnesses.answers()


@final
class _MovedWitnesses:
    """Points (k, d) that have the target and become cheaper; each round asks the model once.

    Their ``cost`` and ``violation`` are (k,). A violation up to `VIOLATION` counts as that much, so
    that rounding does not stand in the way of a move.
    """

    def __init__(self, program: Program, case: Batch, blocks: tuple[slice, ...], ask: Ask) -> None:
        self.program, self.case, self.blocks, self.ask = program, case, blocks, ask
        self.points = np.empty((0, case.x.shape[1]))
        self.cost = self.violation = np.empty(0)

    def _measures(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = np.broadcast_to(self.case.x, points.shape)
        violation = np.maximum(self.program.violation(points, x), VIOLATION)
        return self.program.encoded_cost(points, x), violation

    def begin(self, points: FloatArray) -> bool:
        """Take the nearest points that have the target; return whether there are any."""
        if not len(points):
            return False
        returned, valid = self.ask(points)
        self.points = returned[valid][:KEPT]
        self.cost, self.violation = self._measures(self.points)
        return bool(valid.any())

    def answers(self) -> FloatArray:
        """The points within the constraints, the cheapest first."""
        order = np.argsort(self.cost, kind="stable")
        return self.points[order[self.violation[order] <= VIOLATION]]

    def _attempt(self, owner: IntArray, trials: FloatArray) -> bool:
        """Replace points by their cheapest trials that the model confirms; return whether any is.

        ``owner`` (t,) is the point that each trial (t, d) is to replace. A trial breaks no
        constraint by more than that point does.
        """
        cost, violation = self._measures(trials)
        better = (cost < self.cost[owner]) & (violation <= self.violation[owner])
        owner, trials = owner[better], trials[better]
        if not len(owner):
            return False
        trials, valid = self.ask(trials)
        cost, violation = self._measures(trials)  # of the trials as they are returned
        valid &= (cost < self.cost[owner]) & (violation <= self.violation[owner])
        order = np.flatnonzero(valid)
        order = order[np.lexsort((cost[order], owner[order]))]
        changed, first = np.unique(owner[order], return_index=True)
        cheapest = order[first]
        self.points[changed], self.cost[changed] = trials[cheapest], cost[cheapest]
        self.violation[changed] = violation[cheapest]
        return bool(len(changed))

    def take_back(self, end: float) -> None:
        """Take back the changes of each point, the dearest first, in up to 32 chunks."""
        x, chunks = self.case.x[0], [self._chunks(y, 32) for y in self.points]
        for turn in range(max(map(len, chunks), default=0)):
            if clock() > end:
                return
            owner = np.array([k for k, chunk in enumerate(chunks) if turn < len(chunk)], np.intp)
            trials = self.points[owner]
            for trial, k in zip(trials, owner.tolist(), strict=True):
                for block in chunks[k][turn]:
                    trial[block] = x[block]
            self._attempt(owner, trials)

    def _chunks(self, y: FloatArray, count: int) -> list[list[slice]]:
        """The features in which a point differs from the row, the dearest first, in chunks."""
        x = self.case.x[0]
        changed = [block for block in self.blocks if (y[block] != x[block]).any()]
        alone = np.tile(x, (len(changed), 1))
        for row, block in zip(alone, changed, strict=True):
            row[block] = y[block]
        cost = self.program.encoded_cost(alone, np.broadcast_to(x, alone.shape))
        order = [changed[k] for k in np.argsort(-cost, kind="stable").tolist()]
        size = -(-len(changed) // count) or 1
        return [order[k : k + size] for k in range(0, len(order), size)]

    def move_closer(self, end: float) -> None:
        """Shrink the change of one feature of each point after another, while a point gets cheaper.

        A round tries every share of a number's change, and to take each category back. After 40
        rounds hardly any point still moves.
        """
        x = self.case.x[0]
        for _ in range(40):
            owner, trials = list[int](), list[FloatArray]()
            for k, y in enumerate(self.points):
                for block in self.blocks:
                    if (y[block] == x[block]).all():
                        continue
                    is_number = block.stop == block.start + 1
                    # of a category there is no share but 0: back to that of the row
                    for share in SHARES if is_number else (0.0,):
                        trial = np.array(y)
                        trial[block] = self._between(block, y, share)
                        owner.append(k)
                        trials.append(trial)
            if not trials or clock() > end:
                return
            if not self._attempt(np.array(owner), np.array(trials)):
                return

    def _between(self, block: slice, y: FloatArray, share: float) -> FloatArray:
        """The values of a feature after a share of its change: whole steps of it, rounded down."""
        x, step = self.case.x[0, block], self.program.domain.steps[block]
        if share == 0.0:
            return x
        change = share * (y[block] - x)
        if step.any():
            change = np.where(change > 0.0, np.floor(change / step), np.ceil(change / step)) * step
        return np.asarray(x + change)
