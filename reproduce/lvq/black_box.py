"""The paper's peers: Downhill-Simplex and CMA-ES on equation 1.

ℓ is the distance to the nearest prototype of the target (section 4.4), θ the Manhattan distance:

    minimise over x′   min over p of the target of d(x′, p)  +  C ‖x′ − x‖₁

for each C of a list, from the largest, until the model predicts the target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cma
import numpy as np
from scipy.optimize import minimize

from lvq.sets import SEED, Case

STRENGTHS = tuple(k / 10 for k in range(10, 0, -1))
"""C. The paper does not say which; its metrics make d(x, p) small, so C > 1 finds nothing."""
WIDTH = 0.5
"""Of the first cloud of CMA-ES, in the model's space, where features have unit variance."""
CLOSE = 1e-4
"""Where both searches stop, in the model's space and in the objective: the default of SciPy's."""

Objective = Callable[[np.ndarray], float]
Search = Callable[[Objective, np.ndarray], np.ndarray]


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


def black_box(search: Search) -> Callable[[Case], Callable[[int], np.ndarray | None]]:
    """What finds counterfactuals of a case by this search."""

    def prepared(case: Case) -> Callable[[int], np.ndarray | None]:
        return lambda i: _first(search, case, i)

    return prepared


def _first(search: Search, case: Case, i: int) -> np.ndarray | None:
    """The minimiser for the first C with which the target is predicted; None if for none."""
    x, free = case.X[i], case.free
    point = x.copy()
    for strength in STRENGTHS:
        point[:free] = search(_objective(case, i, strength), x[:free])
        if case.model.predict(point[None])[0] == case.targets[i]:
            return point
    return None


def _objective(case: Case, i: int, strength: float) -> Objective:
    """Equation 1 over the features that may change."""
    wanted = case.model.prototype_labels_ == case.targets[i]
    factors = case.factors[wanted]
    count, rank, _ = factors.shape
    moving = np.ascontiguousarray(factors[:, :, : case.free]).reshape(count * rank, case.free)
    apart = case.X[i] - case.model.prototypes_[wanted]
    still = np.einsum("pkd,pd->pk", factors[:, :, case.free :], apart[:, case.free :]).ravel()
    still -= np.einsum(
        "pkd,pd->pk", factors[:, :, : case.free], case.model.prototypes_[wanted, : case.free]
    ).ravel()
    here: Any = case.X[i, : case.free]

    def value(z: np.ndarray) -> float:
        seen = moving @ z
        seen += still
        squares = (seen * seen).reshape(count, rank).sum(axis=1)
        return float(squares.min() + strength * np.abs(z - here).sum())

    return value
