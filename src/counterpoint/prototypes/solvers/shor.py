"""The best bound that curvature gives (Shor's relaxation), by semidefinite programming.

Over multipliers λ >= 0 of the quadratic conditions, μ of the linear rows and of bounds, and for an
absolute price ratios |r_ij| <= 1 of pairs of columns (see `counterpoint.prototypes.curvature`),

    maximise γ  subject to  [[P(r) + Σ λ_j Q_j, b/2], [bᵀ/2, c − γ]]  positive semidefinite

where c and b are the value and the slope at x of Σ λ_j e_j and of the rows. Its dual holds a change
δ and a matrix X in the place of δδᵀ: where X is that, δ is the optimum. Only the conditions that
the dual misses are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from counterpoint.engine.cases import Cases
from counterpoint.engine.program import Program
from counterpoint.prototypes.curvature import quadrics_of
from counterpoint.prototypes.solvers.moments import Moments, Relaxed
from counterpoint.solvers.base import Effort

__all__ = ["Shor"]

FIRST = 4
"""How many conditions are looked at first."""
ROUNDS = 6


@final
@dataclass(frozen=True, eq=False)
class Shor:
    """The relaxation of a program without its integral conditions.

    Parameters
    ----------
    program
        The program.
    """

    program: Program

    def relaxed(self, case: Cases, size: float, effort: Effort) -> Relaxed | None:
        """The relaxation for one person; None if it is not solved.

        Parameters
        ----------
        case
            One person.
        size
            About the root of the answer's price; of its square, if that is absolute.
        effort
            When to stop.
        """
        quadrics = quadrics_of(self.program)
        order = np.argsort(-quadrics.missed(case.x, case.margin)[0], kind="stable")
        chosen = order[:FIRST]
        for _ in range(ROUNDS):
            moments = Moments(self.program, case, size, np.sort(chosen))
            found = moments.solve(effort)
            if found is None or found.is_empty:
                return found
            missed = np.setdiff1d(moments.missed(order, found.moment), chosen)
            if not len(missed):
                return found
            chosen = np.concatenate([chosen, missed])
        return found
