"""Witnesses: rows of ``data=`` to which the model itself gives the target, moved towards a row.

Every witness within a row's constraints is an answer, whatever a search says. The nearest ones,
with changes taken back and numbers moved towards the row for as long as the model agrees, are where
a search that takes long begins, and what is returned when its time runs out; a bound that excludes
one is wrong.
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
NEAREST = 15
"""Witnesses that are moved towards a row."""
FIRST_TRIED, MOST_TRIED = 64, 512
"""How many of the nearest rows of data are moved into the constraints to find a witness: at first,
and if none of those is one."""
ASKED = 256
"""About how many rows of data the model is asked at first."""
CHUNKS = 32
"""Changes are taken back one by one; more than so many, several at a time."""
SHARES = (0.0, 0.5, 0.8, 0.95, 0.99)
"""The shares of a number's change that are tried instead of it."""
MOVES = 40
"""How often one number of each witness is moved; after so many hardly any is."""

Ask = Callable[[FloatArray], tuple[FloatArray, BoolArray]]
"""(m, d) points → the same as they are returned, and (m,) whether the model gives the target."""


@final
class Witnesses:
    """Rows of the data, and what the model says of those that it was asked about."""

    def __init__(self, model: ReadModel, data: Table) -> None:
        count = min(len(data), ROWS, max(CELLS // max(len(model.features), 1), NEAREST))
        spread = np.arange(count) * len(data) // max(count, 1)
        data = data if count == len(data) else data.take(spread)
        self.model = model
        self.data = match_columns(data, model.features, named=model.named)
        self._answers: Memo[Any, dict[int, Any]] = Memo()

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "data": self.data}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._answers = Memo()

    @cached_property
    def _usable(self) -> tuple[IntArray, FloatArray]:
        """The rows in which no cell is missing for the model, and (m, d) what they are, encoded."""
        features = self.model.features
        encoded = encode(self.data, features, self.model.fills, self.model.unfilled)
        native = [self.model.fills.get(name) == MISSING for name in features.names]
        usable = ((encoded.missing == PRESENT) | native).all(axis=1)
        usable[list(encoded.problems)] = False
        rows = np.flatnonzero(usable)
        return rows, features.expand(encoded.codes[rows])

    @property
    def points(self) -> FloatArray:
        """(m, d) the rows in which no cell is missing for the model, encoded."""
        return self._usable[1]

    def _gives(self, target: Target, which: IntArray) -> BoolArray:
        """(m,): whether the model gives the target at some of the usable rows.

        It does nowhere if the model does not take the data. Each time it is asked about as many
        rows as it has been asked about before, for a call takes long.
        """
        if not len(which):
            return np.zeros(0, dtype=bool)
        required, (rows, x) = target.requirement, self._usable
        key = required.labels if required.probable else None
        outputs = self._answers.made(key, dict)
        unknown = [k for k in which.tolist() if k not in outputs]
        if unknown:
            named, size = {*outputs, *unknown}, max(len(outputs), ASKED)
            unasked = (k for k in range(len(rows)) if k not in named)
            questioned = np.array(unknown + list(islice(unasked, max(size - len(unknown), 0))))
            try:
                answers = target.outputs(self.model, self.data.take(rows[questioned]))
            except InvalidInput:
                return np.zeros(len(which), dtype=bool)
            outputs.update(zip(questioned.tolist(), answers.tolist(), strict=True))
        return target.satisfied(
            self.model.form, x[which], np.array([outputs[k] for k in which.tolist()])
        )

    def inside(self, target: Target, program: Program, case: Batch, cutoff: float) -> FloatArray:
        """(m, d) rows of the data that are answers to a row as they are, for less than a cutoff."""
        _, x = self._usable
        cost = program.encoded_cost(x, np.broadcast_to(case.x, x.shape))
        within = np.flatnonzero(cost < cutoff)
        candidates = x[within]
        within = within[((candidates >= case.low) & (candidates <= case.high)).all(axis=1)]
        within = within[np.argsort(cost[within], kind="stable")][:ASKED]
        within = within[(self._moved(x[within], program, case) == x[within]).all(axis=1)]
        violation = program.violation(x[within], np.broadcast_to(case.x, x[within].shape))
        within = within[violation <= VIOLATION]
        return np.asarray(x[within[self._gives(target, within)]][:NEAREST])

    def nearest(self, target: Target, program: Program, case: Batch, most: int) -> FloatArray:
        """(m, d) the witnesses nearest to a row, moved into the bounds on its columns."""
        _, x = self._usable
        points = self._moved(x, program, case)
        cost = program.encoded_cost(points, np.broadcast_to(case.x, points.shape))
        order = np.argsort(cost, kind="stable")
        nearest, start, size = np.zeros(0, dtype=np.intp), 0, ASKED
        while start < len(order) and len(nearest) < most:
            block = order[start : start + size]
            nearest = np.append(nearest, block[self._gives(target, block)])
            start, size = start + size, 2 * size
        return np.asarray(points[nearest[:most]])

    @staticmethod
    def _moved(points: FloatArray, program: Program, case: Batch) -> FloatArray:
        """Points moved into the bounds of a row's columns, onto their steps and categories."""
        x = case.x
        points = np.where((points == MISSING) | (x == MISSING), x, points)
        points = np.minimum(np.maximum(points, case.low), case.high)
        whole = np.flatnonzero(program.domain.steps)
        steps = np.rint((points[:, whole] - x[:, whole]) / program.domain.steps[whole])
        lattice = x[:, whole] + steps * program.domain.steps[whole]
        lattice = np.minimum(np.maximum(lattice, case.low[:, whole]), case.high[:, whole])
        points[:, whole] = np.where(steps == 0.0, x[:, whole], lattice)
        for group in program.domain.groups:
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
        What the model says of points.
    end
        When to stop, by `clock`.
    """
    state = _Shortening(program, case, ask)
    for first, last in ((0, FIRST_TRIED), (FIRST_TRIED, MOST_TRIED)):
        if state.begin(points[first:last]) or clock() > end:
            break
    state.take_back(blocks, end)
    state.move_closer(blocks, end)
    state.keep()
    return state.points


@final
class _Shortening:
    """Points that have the target and become cheaper; each round asks the model once."""

    def __init__(self, program: Program, case: Batch, ask: Ask) -> None:
        self.program, self.case, self.ask = program, case, ask
        self.points = np.empty((0, case.x.shape[1]))
        self.cost = self.violation = np.empty(0)

    def _measures(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = np.broadcast_to(self.case.x, points.shape)
        return self.program.encoded_cost(points, x), np.maximum(
            self.program.violation(points, x), VIOLATION
        )

    def begin(self, points: FloatArray) -> bool:
        """Take the nearest points that have the target; whether there are any."""
        if not len(points):
            return False
        returned, valid = self.ask(points)
        self.points = returned[valid][:NEAREST]
        self.cost, self.violation = self._measures(self.points)
        return bool(valid.any())

    def keep(self) -> None:
        """Keep the points within the constraints, the cheapest first."""
        order = np.argsort(self.cost, kind="stable")
        order = order[self.violation[order] <= VIOLATION]
        self.points, self.cost = self.points[order], self.cost[order]
        self.violation = self.violation[order]

    def _attempt(self, owner: IntArray, trials: FloatArray) -> bool:
        """Replace points by their cheapest trials that the model confirms; whether there are any.

        Trials break no constraint by more than the points whose they are.
        """
        cost, violation = self._measures(trials)
        better = (cost < self.cost[owner]) & (violation <= self.violation[owner])
        owner, trials = owner[better], trials[better]
        if not len(owner):
            return False
        trials, valid = self.ask(trials)
        cost, violation = self._measures(trials)
        valid &= (cost < self.cost[owner]) & (violation <= self.violation[owner])
        order = np.flatnonzero(valid)
        order = order[np.lexsort((cost[order], owner[order]))]
        changed, first = np.unique(owner[order], return_index=True)
        chosen = order[first]
        self.points[changed], self.cost[changed] = trials[chosen], cost[chosen]
        self.violation[changed] = violation[chosen]
        return bool(len(changed))

    def take_back(self, blocks: tuple[slice, ...], end: float) -> None:
        """Take changes back one by one, the dearest first."""
        x, chunks = self.case.x[0], list[list[list[slice]]]()
        for y in self.points:
            changed = [block for block in blocks if (y[block] != x[block]).any()]
            alone = np.tile(x, (len(changed), 1))
            for k, block in enumerate(changed):
                alone[k, block] = y[block]
            dearest = np.argsort(
                -self.program.encoded_cost(alone, np.broadcast_to(x, alone.shape)), kind="stable"
            )
            size = -(-len(changed) // CHUNKS) or 1
            order = [changed[k] for k in dearest.tolist()]
            chunks.append([order[k : k + size] for k in range(0, len(order), size)])
        for turn in range(max(map(len, chunks), default=0)):
            if clock() > end:
                return
            owner = np.array([k for k, chunk in enumerate(chunks) if turn < len(chunk)], np.intp)
            trials = self.points[owner]
            for trial, k in zip(trials, owner.tolist(), strict=True):
                for block in chunks[k][turn]:
                    trial[block] = x[block]
            self._attempt(owner, trials)

    def move_closer(self, blocks: tuple[slice, ...], end: float) -> None:
        """Move one number of each point towards the row, or one category back, again and again."""
        x = self.case.x[0]
        for _ in range(MOVES):
            owner, trials = list[int](), list[FloatArray]()
            for k, y in enumerate(self.points):
                for block in blocks:
                    if (y[block] == x[block]).all():
                        continue
                    for share in SHARES if block.stop == block.start + 1 else SHARES[:1]:
                        trial = np.array(y)
                        trial[block] = self._between(block, y, share)
                        owner.append(k)
                        trials.append(trial)
            if not trials or clock() > end:
                return
            if not self._attempt(np.array(owner), np.array(trials)):
                return

    def _between(self, block: slice, y: FloatArray, share: float) -> FloatArray:
        """A feature with a share of its change, in whole steps if it has steps."""
        x, step = self.case.x[0, block], self.program.domain.steps[block]
        if share == 0.0:
            return x
        change = share * (y[block] - x)
        if step.any():
            change = np.where(change > 0.0, np.floor(change / step), np.ceil(change / step)) * step
        return np.asarray(x + change)
