"""Rows on their way down: the state of a batch that a Newton method works on."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import final

import numpy as np

from counterpoint.models.softmax.directions import Hessians
from counterpoint.models.softmax.reduced import Loss, dots
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray

__all__ = ["Rows", "State"]


DECREASE = 1e-4
"""The share of the predicted decrease that a step must bring (Armijo)."""
HALVINGS = 40
FINE = 6
"""How often a step is halved where only the gradient can tell whether it helps."""
ROUGH = 0.002
"""How exactly a Newton direction is computed at least; later as exactly as the progress asks."""


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Problems of a batch, classes first.

    Parameters
    ----------
    scores
        (K, n) z̄ at the factual points.
    label
        (n,) the position k of each row's class.
    position
        (n,) where each row stands in the batch.
    size
        (n,) how large the numbers are whose differences count, in score units.
    """

    scores: FloatArray
    label: IntArray
    position: IntArray
    size: FloatArray

    def take(self, keep: BoolArray | IntArray) -> Rows:
        """Some of the rows."""
        return Rows(self.scores[:, keep], self.label[keep], self.position[keep], self.size[keep])


@final
@dataclass(frozen=True, eq=False)
class State:
    """Where each row is: u, and what follows from it and its λ.

    Parameters
    ----------
    u
        (K, n).
    weight
        (n,) λ.
    shares
        (K, n) p.
    loss
        (n,) of the scores z̄ − Gu.
    value
        (n,) E = λ/2 uᵀGu + loss.
    residual, weighed
        (K, n) r = λu − (gradient of the loss in the scores), and G r.
    gradient
        (n,) rᵀGr, the squared length of ∇E in the metric P⁻¹.
    """

    u: FloatArray
    weight: FloatArray
    shares: FloatArray
    loss: FloatArray
    value: FloatArray
    residual: FloatArray
    weighed: FloatArray
    gradient: FloatArray

    @classmethod
    def at(
        cls, u: FloatArray, weight: FloatArray, rows: Rows, gram: FloatArray, loss: Loss
    ) -> State:
        """The state at u."""
        moved = gram @ u
        pull = loss.pull(rows.scores - moved, rows.label)
        value = 0.5 * weight * dots(u, moved) + pull.value
        residual = weight * u
        residual -= pull.shares
        columns = np.arange(len(rows.label))
        residual[rows.label, columns] = weight * u[rows.label, columns] + pull.away
        weighed = gram @ residual
        gradient = np.maximum(dots(residual, weighed), 0.0)
        return cls(u, weight, pull.shares, pull.value, value, residual, weighed, gradient)

    def take(self, keep: BoolArray | IntArray) -> State:
        """Some of the rows."""
        return State(*(getattr(self, field.name)[..., keep] for field in fields(self)))

    def put(self, at: IntArray, other: State) -> State:
        """With other states for some rows."""
        for field in fields(self):
            getattr(self, field.name)[..., at] = getattr(other, field.name)
        return self

    def hessians(self, gram: FloatArray) -> Hessians:
        """The Newton systems."""
        return Hessians(gram, self.shares, self.weight)

    def descended(
        self, step: FloatArray, rows: Rows, gram: FloatArray, loss: Loss
    ) -> tuple[State, BoolArray]:
        """After a step that is shortened until E falls; and for which rows it does not.

        Where the decrease that is left is below the rounding of E, the gradient must fall instead.
        """
        slope = dots(self.weighed, step)
        cancelled = float(np.diagonal(gram).max(initial=0.0)) * np.abs(self.u).sum(axis=0)
        slack = 4.0 * EPS * (np.abs(self.value) + rows.size + cancelled)
        reached = State.at(self.u + step, self.weight, rows, gram, loss)
        fine = -slope <= slack
        good = np.where(
            fine,
            reached.gradient < self.gradient,
            reached.value <= self.value + DECREASE * slope + slack,
        )
        length = 1.0
        for halving in range(HALVINGS):
            bad = np.flatnonzero(~good & (~fine | (halving < FINE)))
            if not len(bad):
                break
            length *= 0.5
            part, before = rows.take(bad), self.take(bad)
            tried = State.at(before.u + length * step[:, bad], before.weight, part, gram, loss)
            lower = before.value + DECREASE * length * slope[bad] + slack[bad]
            shorter = tried.gradient < before.gradient
            ok = np.where(fine[bad], shorter, tried.value <= lower)
            reached.put(bad[ok], tried.take(ok))
            good[bad[ok]] = True
        lost = np.flatnonzero(~good)
        if len(lost):
            reached.put(lost, self.take(lost))
        return reached, ~good

    def newton(self, gram: FloatArray, start: FloatArray) -> FloatArray:
        """(K, n) the Newton direction at fixed λ, as exactly as the progress since the start asks.

        Parameters
        ----------
        gram
            (K, K) G.
        start
            (n,) `gradient` at the start.
        """
        progress = np.sqrt(self.gradient / np.maximum(start, 1e-300))
        forcing = np.minimum(ROUGH, progress)
        return self.hessians(gram).direction(self.residual, self.weighed, forcing)
