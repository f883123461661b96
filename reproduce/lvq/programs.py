"""The paper's own method, as printed in 2019 and as its derivation says.

For each prototype p of the target, the nearest point to x that is nearer to p than to the
prototypes of other classes (equation 9), and of these the nearest (algorithm 1). With one metric
that is a linear program (12); with several, the convex-concave procedure of Park and Boyd from the
prototype (38)–(42). CVXPY and Clarabel, each program made once for a model and then only filled in.

The short version, and the paper's code, put a ½ on the linear term that does not belong
there. Slack stood in the code's objective, but in no constraint: where a convex stand-in has no
point, the prototype itself was returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy
import numpy as np

from lvq.sets import Case

MARGIN = 1e-5
"""ε. The paper does not say which."""
PENALTIES = tuple(1.2 * 1.5**k for k in range(11))
"""τ of the convex-concave procedure: from 1.2, times 1.5, up to 100; one solve for each."""


@dataclass(frozen=True, eq=False)
class Stand:
    """½‖Ω̃ z‖² + C z + h <= slack, as near to x as can be; C and h are filled in.

    Parameters
    ----------
    problem
        Minimise ‖z − x‖₁ + τ Σ slack.
    z
        (d,) the answer.
    x, slopes, offsets, penalty
        Parameters: the point, (J, d) C, (J,) h, and τ; None where there is no slack.
    """

    problem: cvxpy.Problem
    z: cvxpy.Variable
    x: cvxpy.Parameter
    slopes: cvxpy.Parameter
    offsets: cvxpy.Parameter
    penalty: cvxpy.Parameter | None

    def solve(
        self, x: np.ndarray, slopes: np.ndarray, offsets: np.ndarray, penalty: float
    ) -> np.ndarray | None:
        """The answer, or None if there is no point."""
        self.x.value, self.slopes.value, self.offsets.value = x, slopes, offsets
        if self.penalty is not None:
            self.penalty.value = penalty
        try:
            self.problem.solve(solver=cvxpy.CLARABEL)
        except cvxpy.SolverError:
            return None
        return self.z.value if self.problem.status == cvxpy.OPTIMAL else None


@dataclass(frozen=True)
class Version:
    """How the method is read.

    Parameters
    ----------
    linear
        The factor of the linear term q in equation 14.
    slack
        Whether slack makes room in the constraints.
    """

    linear: float
    slack: bool


PRINTED = Version(linear=0.5, slack=False)
CORRECTED = Version(linear=1.0, slack=True)


def by_programs(version: Version) -> Callable[[Case], Callable[[int], np.ndarray | None]]:
    """What finds counterfactuals of a case by this version of the method."""

    def prepared(case: Case) -> Callable[[int], np.ndarray | None]:
        ways = [_way(case, p, version) for p in range(len(case.model.prototypes_))]
        return lambda i: _best(case, i, ways)

    return prepared


Way = Callable[[np.ndarray], np.ndarray]


def _best(case: Case, i: int, ways: list[Way]) -> np.ndarray:
    """Algorithm 1, among the points that the model predicts as the target, if there are any."""
    x, label = case.X[i], case.targets[i]
    found = [ways[p](x) for p in np.flatnonzero(case.model.prototype_labels_ == label)]
    right = [z for z in found if case.model.predict(z[None])[0] == label]
    return min(right or found, key=lambda z: np.abs(z - x).sum())


def _way(case: Case, p: int, version: Version) -> Way:
    """From a point to the counterfactual whose nearest prototype is the p-th."""
    owner, points = case.model.prototype_labels_, case.model.prototypes_
    metrics = np.einsum("pki,pkj->pij", case.factors, case.factors)
    seen = np.einsum("pij,pj->pi", metrics, points)
    away = np.flatnonzero(owner != owner[p])
    squares = np.einsum("pi,pi->p", points, seen)
    slopes = version.linear * (seen[away] - seen[p])
    offsets = 0.5 * (squares[p] - squares[away]) + MARGIN
    if case.name != "LGMLVQ":
        stand = _stand(case, None, len(away), slack=False)
        return lambda x: _solved(stand, x, slopes, offsets, points[p])
    stand = _stand(case, case.factors[p], len(away), slack=version.slack)
    start, rivals = points[p], metrics[away]

    def procedure(x: np.ndarray) -> np.ndarray:
        z = start
        for penalty in PENALTIES:
            bent = rivals @ z  # ρ of equation 41
            rest = 0.5 * (bent @ z)  # −r̃ of equation 42
            found = stand.solve(x, slopes - bent, offsets + rest, penalty)
            if found is None:
                break
            z = found
        return z

    return procedure


def _solved(stand: Stand, x: Any, slopes: Any, offsets: Any, instead: Any) -> np.ndarray:
    found = stand.solve(x, slopes, offsets, 0.0)
    return instead if found is None else found


def _stand(case: Case, factor: np.ndarray | None, rivals: int, *, slack: bool) -> Stand:
    """The program for one prototype, convex."""
    width = case.X.shape[1]
    z, x = cvxpy.Variable(width), cvxpy.Parameter(width)
    slopes, offsets = cvxpy.Parameter((rivals, width)), cvxpy.Parameter(rivals)
    excess = slopes @ z + offsets
    conditions = []
    if factor is not None:
        nonlinear = cvxpy.Variable()
        excess = excess + nonlinear
        conditions.append(0.5 * cvxpy.sum_squares(factor @ z) <= nonlinear)
    encoded_cost, penalty = cvxpy.norm1(z - x), None
    if slack:
        room, penalty = cvxpy.Variable(rivals, nonneg=True), cvxpy.Parameter(nonneg=True)
        excess = excess - room
        encoded_cost = encoded_cost + penalty * cvxpy.sum(room)
    conditions.append(excess <= 0.0)
    if case.data.fixed:
        conditions.append(z[case.free :] == x[case.free :])
    return Stand(
        cvxpy.Problem(cvxpy.Minimize(encoded_cost), conditions), z, x, slopes, offsets, penalty
    )
