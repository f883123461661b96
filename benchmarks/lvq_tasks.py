"""Rows of LGMLVQ models to explain, and other ways to look for their counterfactuals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import clarabel
import numpy as np
import pyscipopt
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterpoint.lvq import LGMLVQ

PROTOTYPES = 3
STEPS = 60
STALLED = 1e-7
SECONDS = 5.0
DATA = {
    "breast cancer, PCA 5": (load_breast_cancer, 5),
    "digits, PCA 10": (load_digits, 10),
}


@dataclass(frozen=True, eq=False)
class Task:
    """One row, the class that it shall get, and the model."""

    model: LGMLVQ
    x: np.ndarray
    target: int

    @cached_property
    def pieces(self) -> list[Subproblem]:
        """One for each prototype of the target."""
        labels = self.model.prototype_labels_
        rivals = np.flatnonzero(labels != self.target)
        return [Subproblem(self.model, i, rivals) for i in np.flatnonzero(labels == self.target)]


def tasks(name: str, count: int) -> list[Task]:
    """Held-out rows of four folds, each with another class drawn (seeded) as its target."""
    load, components = DATA[name]
    X, y = load(return_X_y=True)
    rng = np.random.default_rng(42)
    found = []
    for train, test in KFold(4, shuffle=True, random_state=42).split(X):
        before = make_pipeline(PCA(components), StandardScaler()).fit(X[train])
        model = LGMLVQ(PROTOTYPES, random_state=0).fit(before.transform(X[train]), y[train])
        rows, made = before.transform(X[test]), 0
        for x, label, predicted in zip(rows, y[test], model.predict(rows), strict=True):
            target = int(rng.choice([c for c in np.unique(y) if c != label]))
            if predicted != target and made < count // 4:
                found.append(Task(model, x, target))
                made += 1
    return found


class Subproblem:
    """Nearer to one prototype than to each rival, as quadratic functions of y."""

    def __init__(self, model: LGMLVQ, i: int, rivals: np.ndarray) -> None:
        omegas, places = model.omegas_, model.prototypes_
        self.place = places[i]
        self.near, self.near_offset = omegas[i], -omegas[i] @ places[i]
        self.far = omegas[rivals]
        self.far_offset = -np.einsum("jkl,jl->jk", self.far, places[rivals])

    def excess(self, y: np.ndarray) -> np.ndarray:
        """How much farther the prototype is than each rival."""
        far = ((self.far @ y + self.far_offset) ** 2).sum(axis=1)
        return np.asarray(((self.near @ y + self.near_offset) ** 2).sum() - far)


def step(piece: Subproblem, x: np.ndarray, at: np.ndarray, *, square: bool) -> np.ndarray | None:
    """The convex stand-in of equations 38–42 about a point, by Clarabel called directly.

    Variables: the change, bounds on its absolute values, and the squared distance s.
    """
    d = len(x)
    seen = piece.far @ at + piece.far_offset
    slope = 2.0 * np.einsum("jk,jkl->jl", seen, piece.far)
    square_far = (seen**2).sum(axis=1)
    constant = square_far - slope @ at
    bounds = 0 if square else d
    n, eye, scale = d + bounds + 1, np.eye(d), np.sqrt(square_far.min())
    blocks, right = [], []
    for sign in () if square else (1.0, -1.0):
        blocks.append(np.hstack([sign * eye, -eye, np.zeros((d, 1))]))
        right.append(np.zeros(d))
    ones = np.ones((len(slope), 1))
    blocks.append(np.hstack([-slope, np.zeros((len(slope), bounds)), ones]))
    right.append(constant + slope @ x)
    last = np.eye(1, n, n - 1)
    middle = np.hstack([-2.0 * piece.near, np.zeros((len(piece.near), n - d))])
    blocks += [-last / scale, middle, -last / scale]
    right += [[scale], 2.0 * (piece.near @ x + piece.near_offset), [-scale]]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    hessian, linear = np.zeros((n, n)), np.zeros(n)
    if square:
        hessian[range(d), range(d)] = 2.0
    else:
        linear[d : 2 * d] = 1.0
    cones = [
        clarabel.NonnegativeConeT(2 * bounds + len(slope)),
        clarabel.SecondOrderConeT(len(piece.near) + 2),
    ]
    matrix = sparse.csc_matrix(np.vstack(blocks))
    result = clarabel.DefaultSolver(
        sparse.csc_matrix(hessian), linear, matrix, np.concatenate(right), cones, settings
    ).solve()
    solved = (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
    return x + np.asarray(result.x)[:d] if result.status in solved else None


def encoded_cost(x: np.ndarray, y: np.ndarray, *, square: bool) -> float:
    """Squared Euclidean or Manhattan."""
    return float(((y - x) ** 2).sum() if square else np.abs(y - x).sum())


def descend(piece: Subproblem, x: np.ndarray, start: np.ndarray, *, square: bool) -> float:
    """The convex-concave procedure from a point: the price where it stalls."""
    y, best = start, np.inf
    for _ in range(STEPS):
        after = step(piece, x, y, square=square)
        if after is None:
            break
        y, before, best = after, best, encoded_cost(x, after, square=square)
        if best > before * (1.0 - STALLED):
            break
    return best


def from_prototypes(task: Task, *, square: bool) -> float:
    """The method of the paper: one procedure from each prototype of the target."""
    return min(descend(p, task.x, p.place, square=square) for p in task.pieces)


def from_anywhere(task: Task, starts: int, *, square: bool) -> float:
    """The best of procedures from random points of the target, pulled to its boundary."""
    rng, best = np.random.default_rng(0), np.inf
    labels = task.model.prototype_labels_
    own = np.flatnonzero(labels == task.target)
    for _ in range(100 * starts):
        center = task.x if rng.random() < 0.5 else task.pieces[rng.integers(len(own))].place
        y = center + rng.choice([0.5, 1.0, 2.0, 3.0]) * rng.normal(size=len(task.x))
        seen = np.einsum("pkl,pl->pk", task.model.omegas_, y - task.model.prototypes_)
        nearest = int((seen**2).sum(axis=1).argmin())
        if labels[nearest] != task.target:
            continue
        piece, outside, inside = task.pieces[int(np.flatnonzero(own == nearest)[0])], 0.0, 1.0
        for _ in range(30):
            middle = (outside + inside) / 2.0
            satisfied = piece.excess(task.x + middle * (y - task.x)).max() <= 0.0
            outside, inside = (outside, middle) if satisfied else (middle, inside)
        start = task.x + inside * (y - task.x)
        best = min(best, descend(piece, task.x, start, square=square))
        starts -= 1
        if not starts:
            break
    return best


def by_scip(task: Task, *, square: bool) -> float:
    """The best that SCIP finds in its time, piece by piece, below what is known."""
    best = np.inf
    for piece in task.pieces:
        model = pyscipopt.Model()
        model.hideOutput()
        d, reach = len(task.x), 30.0
        y = [model.addVar(lb=float(v - reach), ub=float(v + reach)) for v in task.x]
        near = _square(piece.near, piece.near_offset, y)
        for far, offset in zip(piece.far, piece.far_offset, strict=True):
            model.addCons(near <= _square(far, offset, y))
        paid = model.addVar(lb=0.0, ub=best if np.isfinite(best) else None)
        if square:
            total = pyscipopt.quicksum((y[k] - task.x[k]) * (y[k] - task.x[k]) for k in range(d))
        else:
            sizes = [model.addVar(lb=0.0) for _ in range(d)]
            for k in range(d):
                model.addCons(y[k] - task.x[k] <= sizes[k])
                model.addCons(task.x[k] - y[k] <= sizes[k])
            total = pyscipopt.quicksum(sizes)
        model.addCons(total <= paid)
        model.setObjective(paid)
        model.setParam("limits/time", SECONDS)
        model.setParam("limits/gap", 1e-5)
        model.setParam("numerics/feastol", 1e-9)
        model.optimize()
        if model.getNSols():
            best = min(best, float(model.getObjVal()))
    return best


def _square(matrix: np.ndarray, offset: np.ndarray, y: list[pyscipopt.Variable]) -> object:
    rows = [
        pyscipopt.quicksum(float(a) * v for a, v in zip(row, y, strict=True)) + float(b)
        for row, b in zip(matrix, offset, strict=True)
    ]
    return pyscipopt.quicksum(row * row for row in rows)
