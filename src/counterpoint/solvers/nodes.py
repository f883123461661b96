"""What is integral in branch and bound: how nodes are split, and how points are rounded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program

__all__ = ["Node", "Splits"]

FloatArray = NDArray[np.float64]

CLOSE = 1e-7
"""How far from a whole step, a category or no change a point may be and count as on it."""


@final
@dataclass(frozen=True, eq=False)
class Node:
    """The program within narrower bounds.

    Parameters
    ----------
    low, high
        (d,) bounds on y.
    point
        (d,) the answer of the relaxation; of the parent's, before the node is visited.
    used
        Features that count as changed.
    bound
        A lower bound on the cost within the node.
    """

    low: FloatArray
    high: FloatArray
    point: FloatArray
    used: frozenset[int]
    bound: float

    def within(self, low: FloatArray | None, high: FloatArray | None) -> Node:
        """A child with one bound or both replaced."""
        return replace(
            self,
            low=self.low if low is None else low,
            high=self.high if high is None else high,
        )


@final
@dataclass(frozen=True, eq=False)
class Splits:
    """Whole steps, categories and the number of changes of one program.

    Parameters
    ----------
    program
        The program.
    x
        (d,) one person.
    """

    program: Program
    x: FloatArray

    def of(self, node: Node, close: float = CLOSE) -> list[Node]:
        """Two halves of a node, or none if its point is integral and hence its optimum.

        Parameters
        ----------
        node
            The node.
        close
            How far from a whole step, a category or no change a point may be and count as on it.
        """
        return (
            self._split_changes(node, close)
            or self._split_category(node, close)
            or self._split_whole(node, close)
        )

    def _split_changes(self, node: Node, close: float) -> list[Node]:
        """A feature that moves: it stays, or it counts as changed (and then others must stay)."""
        at_most = self.program.at_most
        if at_most is None:
            return []
        moves = self._moves(node.point[None, :], at_most.blocks)[0]
        if (moves > close * close * max(float(moves.sum()), 1e-300)).sum() <= at_most.count:
            return []
        moves[list(node.used)] = -1.0
        feature = int(moves.argmax())
        if moves[feature] <= 0:
            return []
        used = node.used | {feature}
        others = [b for i, b in enumerate(at_most.blocks) if i not in used]
        changes = self._held(node, others) if len(used) == at_most.count else node
        return [self._held(node, [at_most.blocks[feature]]), replace(changes, used=used)]

    def _held(self, node: Node, blocks: list[slice]) -> Node:
        """The node with some features held where they are."""
        x, low, high = self.x, np.array(node.low), np.array(node.high)
        for block in blocks:
            low[block] = np.maximum(low[block], x[block])
            high[block] = np.minimum(high[block], x[block])
        return node.within(low, high)

    def _split_category(self, node: Node, close: float) -> list[Node]:
        """The most undecided group: its likeliest category, or any other."""
        split, worst = None, close
        for group in self.program.groups:
            undecided = self._undecided(node, group)
            if undecided > worst:
                split, worst = group, undecided
        if split is None:
            return []
        column = split.start + int(node.point[split].argmax())
        low, only = np.array(node.low), np.array(node.high)
        low[column] = 1.0
        only[split] = np.where(np.arange(split.start, split.stop) == column, only[split], 0.0)
        without = np.array(node.high)
        without[column] = 0.0
        return [node.within(low, only), node.within(None, without)]

    @staticmethod
    def _undecided(node: Node, group: slice) -> float:
        """What a group has besides its likeliest category, of those that the node permits."""
        shares = np.where(node.high[group] > 0.0, node.point[group], 0.0)
        return float(shares.sum() - shares.max())

    def _split_whole(self, node: Node, close: float) -> list[Node]:
        """The column furthest from a whole step: below it, or above."""
        steps, x = self.program.steps, self.x
        whole = steps > 0
        if not whole.any():
            return []
        unit = np.where(whole, steps, 1.0)
        counts = (node.point - x) / unit
        off = np.where(whole, np.abs(counts - np.round(counts)), 0.0)
        column = int(off.argmax())
        if off[column] <= close:
            return []
        high, low = np.array(node.high), np.array(node.low)
        high[column] = x[column] + np.floor(counts[column]) * unit[column]
        low[column] = x[column] + np.ceil(counts[column]) * unit[column]
        return [node.within(None, high), node.within(low, None)]

    def rounded(self, points: FloatArray, cases: Cases) -> tuple[FloatArray, FloatArray]:
        """(n, d) bounds that fix whole columns, categories and unchanged features."""
        program, x = self.program, self.x
        low, high = np.array(cases.low), np.array(cases.high)
        whole = np.flatnonzero(program.steps)
        if len(whole):
            step, at = program.steps[whole], x[whole]
            value = at + np.round((points[:, whole] - at) / step) * step
            value = np.minimum(np.maximum(value, low[:, whole]), high[:, whole])
            low[:, whole] = high[:, whole] = value
        for group in program.groups:
            likeliest = np.where(high[:, group] > 0.5, points[:, group], -1.0).argmax(axis=1)
            chosen = np.eye(group.stop - group.start)[likeliest]
            low[:, group] = high[:, group] = chosen
        if program.at_most is not None:
            blocks = program.at_most.blocks
            order = np.argsort(-self._moves(points, blocks), axis=1, kind="stable")
            for i, still in enumerate(order[:, program.at_most.count :].tolist()):
                for b in still:
                    low[i, blocks[b]] = high[i, blocks[b]] = x[blocks[b]]
        return low, high

    def _moves(self, points: FloatArray, blocks: tuple[slice, ...]) -> FloatArray:
        """(n, blocks) how much each feature's change costs, alone."""
        price, delta = self.program.price, points - self.x
        diagonal = price.quadratic if price.quadratic.ndim == 1 else np.diag(price.quadratic)
        paid = price.absolute * np.abs(delta) + diagonal * delta * delta
        return np.asarray(np.add.reduceat(paid, [block.start for block in blocks], axis=1))
