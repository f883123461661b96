"""The paper's peers, its own method, and ours; and what each of them answers.

Peers: Downhill-Simplex and CMA-ES on equation 1, with the distance to the nearest prototype of the
target and the Manhattan distance,

    minimise over x′   min over p of the target of d(x′, p)  +  C ‖x′ − x‖₁

for each C of a list, from the largest, until the model predicts the target.

The paper's method: for each prototype p of the target, the nearest point to x that is nearer to p
than to the prototypes of other classes (equation 9), and of these the nearest (algorithm 1). With
one metric that is a linear program (12); with several, the convex-concave procedure of Park and
Boyd from the prototype (38)–(42). CVXPY and Clarabel, each program compiled once for a model. The
short version, and the paper's code, put a ½ on the linear term that does not belong there; slack
stood in the code's objective, but in no constraint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cma
import cvxpy
import numpy as np
from harness.timing import timed
from scipy.optimize import minimize

import counterpoint as cp
from lvq.sets import SEED, Case, Data, Sizes, cases

SIMPLEX, CMA, PRINTED = "Downhill-Simplex", "CMA-ES", "as printed, 2019"
CORRECTED, OURS = "paper, corrected", "ours"
STRENGTHS = tuple(k / 10 for k in range(10, 0, -1))
"""C. The paper does not say which; its metrics make d(x, p) small, so C > 1 finds nothing."""
WIDTH = 0.5
"""Of the first cloud of CMA-ES, in the model's space, where features have unit variance."""
CLOSE = 1e-4
"""Where both searches stop, in the model's space and in the objective: the default of SciPy's."""
MARGIN = 1e-5
"""ε of the programs. The paper does not say which."""
PENALTIES = tuple(1.2 * 1.5**k for k in range(11))
"""τ of the convex-concave procedure: from 1.2, times 1.5, up to 100; one solve for each."""
STILL = 1e-6
"""By how much a feature that is to stay as it is may move, where a solver takes it for equal."""
BETTER = 1e-6
"""The relative difference below which two distances are the same."""

Objective = Callable[[np.ndarray], float]
Finder = Callable[[int], np.ndarray | None]
Procedure = Callable[[np.ndarray], np.ndarray]


# Black boxes


def downhill_simplex(objective: Objective, start: np.ndarray) -> np.ndarray:
    """SciPy's Nelder–Mead."""
    options = {"xatol": CLOSE, "fatol": CLOSE}
    return minimize(objective, start, method="Nelder-Mead", options=options).x


def cma_es(objective: Objective, start: np.ndarray) -> np.ndarray:
    """pycma, seeded."""
    options = {"seed": SEED, "verbose": -9, "tolx": CLOSE, "tolfun": CLOSE}
    search = cma.CMAEvolutionStrategy(start, WIDTH, options)
    search.optimize(objective)
    return search.result.xbest


def black_box(search: Callable[[Objective, np.ndarray], np.ndarray]) -> Callable[[Case], Finder]:
    """What finds counterfactuals of a case by this search: for the first C that works."""

    def prepared(case: Case) -> Finder:
        def find(i: int) -> np.ndarray | None:
            point = case.X[i].copy()
            for strength in STRENGTHS:
                start = case.X[i, : case.free]
                point[: case.free] = search(_objective(case, i, strength), start)
                if case.model.predict(point[None])[0] == case.targets[i]:
                    return point
            return None

        return find

    return prepared


def _objective(case: Case, i: int, strength: float) -> Objective:
    """Equation 1 over the features that may change."""
    wanted, free = case.model.prototype_labels_ == case.targets[i], case.free
    factors, prototypes = case.factors[wanted], case.model.prototypes_[wanted]
    count, rank, _ = factors.shape
    moving = np.ascontiguousarray(factors[:, :, :free]).reshape(count * rank, free)
    fixed = np.einsum("pkd,pd->pk", factors[:, :, free:], case.X[i, free:] - prototypes[:, free:])
    offset = (fixed - np.einsum("pkd,pd->pk", factors[:, :, :free], prototypes[:, :free])).ravel()
    start = case.X[i, :free]

    def value(z: np.ndarray) -> float:
        seen = moving @ z
        seen += offset
        squares = (seen * seen).reshape(count, rank).sum(axis=1)
        return float(squares.min() + strength * np.abs(z - start).sum())

    return value


# The paper's method


def by_programs(linear: float, *, slack: bool) -> Callable[[Case], Finder]:
    """What finds counterfactuals of a case by the paper's method (algorithm 1).

    `linear` is the factor of the linear term q in equation 14, `slack` whether slack makes room in
    the constraints.
    """

    def prepared(case: Case) -> Finder:
        count = len(case.model.prototypes_)
        ways = [_procedure(case, p, linear, slack=slack) for p in range(count)]

        def find(i: int) -> np.ndarray:
            x, label = case.X[i], case.targets[i]
            points = [ways[p](x) for p in np.flatnonzero(case.model.prototype_labels_ == label)]
            right = [z for z in points if case.model.predict(z[None])[0] == label]
            return min(right or points, key=lambda z: np.abs(z - x).sum())

        return find

    return prepared


def _procedure(case: Case, p: int, linear: float, *, slack: bool) -> Procedure:
    """From a point to the counterfactual whose nearest prototype is the p-th."""
    owner, points = case.model.prototype_labels_, case.model.prototypes_
    metrics = np.einsum("pki,pkj->pij", case.factors, case.factors)
    seen = np.einsum("pij,pj->pi", metrics, points)
    squares = np.einsum("pi,pi->p", points, seen)
    rivals = np.flatnonzero(owner != owner[p])
    slopes = linear * (seen[rivals] - seen[p])
    offsets = 0.5 * (squares[p] - squares[rivals]) + MARGIN
    if case.name != "LGMLVQ":
        solve = _program(case, None, len(rivals), slack=False)

        def once(x: np.ndarray) -> np.ndarray:
            point = solve(x, slopes, offsets, 0.0)
            return points[p] if point is None else point

        return once
    solve = _program(case, case.factors[p], len(rivals), slack=slack)

    def procedure(x: np.ndarray) -> np.ndarray:
        z = points[p]
        for penalty in PENALTIES:
            bent = metrics[rivals] @ z  # ρ of equation 41; ½ρᵀz is −r̃ of equation 42
            point = solve(x, slopes - bent, offsets + 0.5 * (bent @ z), penalty)
            if point is None:
                break
            z = point
        return z

    return procedure


def _program(
    case: Case, factor: np.ndarray | None, rivals: int, *, slack: bool
) -> Callable[..., np.ndarray | None]:
    """½‖Ω̃ z‖² + C z + h <= slack, as near to x as can be: a function of x, C, h and τ."""
    width = case.X.shape[1]
    z, x = cvxpy.Variable(width), cvxpy.Parameter(width)
    slopes, offsets = cvxpy.Parameter((rivals, width)), cvxpy.Parameter(rivals)
    penalty, room = cvxpy.Parameter(nonneg=True), cvxpy.Variable(rivals, nonneg=True)
    excess, price, conditions = slopes @ z + offsets, cvxpy.norm1(z - x), []
    if factor is not None:
        curved = cvxpy.Variable()
        excess = excess + curved
        conditions.append(0.5 * cvxpy.sum_squares(factor @ z) <= curved)
    if slack:
        excess, price = excess - room, price + penalty * cvxpy.sum(room)
    conditions.append(excess <= 0.0)
    if case.data.fixed:
        conditions.append(z[case.free :] == x[case.free :])
    problem = cvxpy.Problem(cvxpy.Minimize(price), conditions)

    def solve(*values: np.ndarray | float) -> np.ndarray | None:
        for parameter, value in zip((x, slopes, offsets, penalty), values, strict=True):
            parameter.value = value
        try:
            problem.solve(solver=cvxpy.CLARABEL)
        except cvxpy.SolverError:
            return None
        return z.value if problem.status == cvxpy.OPTIMAL else None

    return solve


PEERS: dict[str, Callable[[Case], Finder]] = {
    SIMPLEX: black_box(downhill_simplex),
    CMA: black_box(cma_es),
    PRINTED: by_programs(0.5, slack=False),
    CORRECTED: by_programs(1.0, slack=True),
}
METHODS = (*PEERS, OURS)


# What methods answer


@dataclass(frozen=True, eq=False)
class Answers:
    """What one method answered for the points of one data set and model.

    Parameters
    ----------
    distance
        (n,) Manhattan, in the model's space; NaN where there is no answer.
    valid
        (n,): whether the model predicts the target there, and what is fixed stayed.
    bare
        (n,): whether the answer is just a prototype.
    seconds
        (n,) of CPU time.
    """

    distance: np.ndarray
    valid: np.ndarray
    bare: np.ndarray
    seconds: np.ndarray

    @property
    def mean(self) -> float:
        """The mean distance of valid answers."""
        return float(self.distance[self.valid].mean()) if self.valid.any() else float("nan")

    @property
    def median_seconds(self) -> float:
        """Median time of a point."""
        return float(np.median(self.seconds))


@dataclass(frozen=True, eq=False)
class Cell:
    """A data set and a model: its folds, the answers of each method, and ours with certificates."""

    cases: list[Case]
    answers: dict[str, Answers]
    ours: list[cp.Counterfactuals]

    @property
    def key(self) -> tuple[str, str]:
        """Data set and model, as in the paper's tables."""
        return self.cases[0].data.name, self.cases[0].name

    @property
    def proved(self) -> np.ndarray:
        """(n,): whether ours is proved."""
        return np.array([a[0].certificate.claim == cp.Claim.PROVED for a in self.ours])

    @property
    def gaps(self) -> np.ndarray:
        """(n,) the gaps of ours."""
        return np.concatenate([answer.gap for answer in self.ours])

    @property
    def accuracy(self) -> float:
        """The share of held-out rows that are predicted right."""
        return float(np.mean([case.accuracy for case in self.cases]))


def compare(data: Data, name: str, sizes: Sizes) -> Cell:
    """A cell of table 1: all methods on all points."""
    folds, answers = list(cases(data, name, sizes.points)), {}
    for method, prepare in PEERS.items():
        answers[method] = _joined([_by(case, prepare(case)) for case in folds])
    results = [_by_us(case) for case in folds]
    answers[OURS] = _joined([judged for judged, _ in results])
    return Cell(folds, answers, [answer for _, every in results for answer in every])


def explainer(case: Case) -> cp.Explainer:
    """Ours: the model as it is, distance unweighted, the last features fixed."""
    names = [f"x{j}" for j in range(case.free, case.X.shape[1])]
    constraints = [cp.Immutable(*names)] if names else []
    return cp.Explainer(case.model, cost=cp.Manhattan(), constraints=constraints)


def _by(case: Case, find: Finder) -> Answers:
    pairs = [timed(lambda i=i: find(i)) for i in range(len(case.X))]
    blank = np.full(case.X.shape[1], np.nan)
    points = np.array([blank if point is None else point for point, _ in pairs])
    return _judged(case, points, np.array([seconds for _, seconds in pairs]))


def _by_us(case: Case) -> tuple[Answers, list[cp.Counterfactuals]]:
    """Each point alone, after one call that is not counted for each target."""
    ours, targets = explainer(case), case.targets.tolist()
    for label in set(targets):
        ours.explain(case.X[case.targets == label], label)
    pairs = [
        timed(lambda i=i: ours.explain(case.X[i : i + 1], targets[i])) for i in range(len(targets))
    ]
    points = np.array([answer.to_frame()[0] for answer, _ in pairs])
    seconds = np.array([time for _, time in pairs])
    return _judged(case, points, seconds), [answer for answer, _ in pairs]


def _judged(case: Case, points: np.ndarray, seconds: np.ndarray) -> Answers:
    """The model's own word on the points."""
    present = np.isfinite(points).all(axis=1)
    moved = np.abs(points - case.X)
    valid = present & (moved[:, case.free :] <= STILL).all(axis=1)
    predicted = case.model.predict(np.where(present[:, None], points, case.X))
    valid &= predicted == case.targets
    apart = np.abs(points[:, None] - case.model.prototypes_).max(axis=2)
    return Answers(moved.sum(axis=1), valid, (apart <= STILL).any(axis=1), seconds)


def _joined(folds: list[Answers]) -> Answers:
    names = ("distance", "valid", "bare", "seconds")
    return Answers(*(np.concatenate([getattr(fold, name) for fold in folds]) for name in names))
