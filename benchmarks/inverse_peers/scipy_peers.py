"""SciPy's minimisers on the same problem, with the same record."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from inverse_peers.problem import LIMITS, Limits, Problem, Record, Watch, length

METHODS = ("L-BFGS-B", "CG", "BFGS")


class _Evaluations:
    """E and ∇E as SciPy asks for them, and those since the last iterate, to be found again."""

    def __init__(self, problem: Problem, watch: Watch) -> None:
        self._problem = problem
        self._watch = watch
        self._recent: list[tuple[np.ndarray, float, np.ndarray]] = []

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        energy, gradient = self._problem.both(x)
        self._recent.append((x.copy(), energy, gradient))
        return energy, gradient

    def start(self) -> bool:
        """Note the source instance."""
        energy, gradient = self._problem.both(self._problem.xbar)
        return self._watch.goes_on(energy, length(gradient))

    def iterate(self, intermediate_result: Any) -> None:
        """Note an iterate; stop where the watch says so."""
        x = intermediate_result.x
        found = [(e, g) for at, e, g in reversed(self._recent) if np.array_equal(at, x)]
        energy, gradient = found[0] if found else self._problem.both(x)
        self._watch.record.trials.append(len(self._recent))
        self._recent.clear()
        if not self._watch.goes_on(energy, length(gradient)):
            raise StopIteration


def scipy_minimize(
    problem: Problem, method: str, *, limits: Limits = LIMITS
) -> tuple[np.ndarray, Record]:
    """`scipy.optimize.minimize` with the gradient, until ‖∇E‖ is small or it gives up.

    Its own tolerances are set so that they do not stop it before. `trials` are its evaluations.
    """
    watch = Watch(limits)
    evaluations = _Evaluations(problem, watch)
    options: dict[str, Any] = {"maxiter": limits.max_iter}
    if method == "L-BFGS-B":
        options |= {"ftol": 0.0, "gtol": 0.0, "maxfun": 50 * limits.max_iter}
    else:
        options |= {"gtol": 0.0, "norm": 2}
    if not evaluations.start():
        return problem.xbar.copy(), watch.record
    found = minimize(
        evaluations,
        problem.xbar,
        jac=True,
        method=method,
        callback=evaluations.iterate,
        options=options,
    )
    return found.x, watch.record
