"""Counts the cost of all releases of the same rows together, and refuses what costs too much."""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from math import fsum, inf, log, log1p, sqrt
from threading import Lock
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from counterpoint.errors import BudgetError, InvalidInput, check_number, several, shown
from counterpoint.privacy.mechanisms import ROUND_UP, Budget


@final
class BudgetAccountant:
    """Counts what fits on the same rows cost, and refuses those that would cost more than allowed.

    As in diffprivlib, it is passed to a model, or stands for all models that got none: as the
    default of the process, or inside of a ``with`` block. A block holds for its own thread or
    asyncio task, and for tasks that are started inside; a thread that is started inside does not
    see it, so pass the accountant to models that are fitted there. A search by cross-validation is
    many fits, and each is counted. Copies are the accountant itself, so that scikit-learn's `clone`
    counts on. It counts in its process alone: one that was pickled, and so went to another, allows
    nothing any more.

    Parameters
    ----------
    epsilon
        ε > 0 that all releases may cost together.
    delta
        δ that they may, from 0 to below 1.
    composition
        ``"basic"``: the sum of all ε, and of all δ. ``"zcdp"``: the sum of all ρ of
        zero-concentrated privacy, ε² / 2 for pure releases and (Δ/σ)² / 2 for normal noise, at a
        ``delta`` above 0; far less for many small releases.

    References
    ----------
    Bun & Steinke (2016), Concentrated differential privacy. Canonne, Kamath & Steinke (2020), The
    discrete Gaussian for differential privacy, proposition 12. Feldman & Zrnic (2021), Individual
    privacy accounting via a Rényi filter: parameters may be chosen by looking at earlier releases.

    Examples
    --------
    >>> from counterpoint.privacy import BudgetAccountant
    >>> accountant = BudgetAccountant(epsilon=1.0)
    >>> accountant.spend(0.75)
    >>> accountant.total(), accountant.remaining()
    ((0.75, 0.0), (0.25, 0.0))
    """

    _defaults: ClassVar[list[BudgetAccountant]] = []
    # A tuple, and not one accountant with tokens: blocks of generators may end in any order.
    _blocks: ClassVar[ContextVar[tuple[BudgetAccountant, ...]]] = ContextVar("blocks", default=())

    def __init__(
        self,
        epsilon: float = inf,
        delta: float = 0.0,
        composition: Literal["basic", "zcdp"] = "basic",
    ) -> None:
        check_number("epsilon", epsilon)
        check_number("delta", delta)
        if not (epsilon > 0.0 and 0.0 <= delta < 1.0):
            raise InvalidInput(
                "Expected epsilon above 0, and delta from 0 to below 1; got "
                f"epsilon={epsilon!r}, delta={delta!r}."
            )
        if composition not in ("basic", "zcdp"):
            raise InvalidInput(f"Expected composition 'basic' or 'zcdp'; got {shown(composition)}.")
        if composition == "zcdp" and delta == 0.0:
            raise InvalidInput(
                "Expected delta above 0 with composition='zcdp', which is about (epsilon, delta); "
                "got delta=0. Pass much less than 1 over the number of rows."
            )
        self.epsilon, self.delta, self.composition = float(epsilon), float(delta), composition
        self._spent: list[tuple[float, float, float]] = []  # ε, δ and ρ of each release
        self._lock, self._is_copy = Lock(), False

    def __len__(self) -> int:
        """Return the number of releases."""
        return len(self._spent)

    def __bool__(self) -> bool:
        return True

    def total(self) -> Budget:
        """Return (ε, δ) that all releases so far cost together."""
        return self._composed(self._spent)

    def remaining(self, k: int = 1) -> Budget:
        """Return (ε, δ) that each of k further releases may cost; for ``"zcdp"``, k pure ones."""
        if k < 1 or k != int(k):
            raise InvalidInput(f"Expected a whole number of at least 1 for k; got {shown(k)}.")
        epsilon, delta = self.total()
        if self.composition == "basic":
            remaining = self.epsilon - epsilon, self.delta - delta
            return max(remaining[0], 0.0) / k, max(remaining[1], 0.0) / k
        low, high = 0.0, self.epsilon
        if not np.isfinite(high):
            return inf, 0.0
        for _ in range(60):  # halving until floats are next to each other, or nearly
            middle = 0.5 * (low + high)
            releases = [(middle, 0.0, 0.5 * middle * middle)] * k
            fits = self._composed([*self._spent, *releases])[0] <= self.epsilon
            low, high = (middle, high) if fits else (low, middle)
        return low, 0.0

    def check(self, epsilon: float, delta: float = 0.0, rho: float | None = None) -> None:
        """Raise `BudgetError` if all releases and this one cost too much; nothing is counted.

        ``rho`` is its ρ of zero-concentrated privacy; None for ε² / 2, that of a pure one.
        """
        self._allow(self._release(epsilon, delta, rho))

    def spend(self, epsilon: float, delta: float = 0.0, rho: float | None = None) -> None:
        """Count a release, or refuse it as `check` does; it has the same parameters."""
        release = self._release(epsilon, delta, rho)
        with self._lock:
            self._allow(release)
            self._spent.append(release)

    def set_default(self) -> Self:
        """Count the fits of all models that got no accountant, in all threads of this process.

        Inside of a ``with`` block that one's accountant counts them.
        """
        self._defaults.append(self)
        return self

    @classmethod
    def pop_default(cls) -> BudgetAccountant | None:
        """Take back the last `set_default` and return its accountant; None if there is none."""
        return cls._defaults.pop() if cls._defaults else None

    @classmethod
    def default(cls) -> BudgetAccountant | None:
        """Return the accountant of models that got none, if there is one."""
        accountants = cls._blocks.get() or cls._defaults
        return accountants[-1] if accountants else None

    def __enter__(self) -> Self:
        self._blocks.set((*self._blocks.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        blocks = self._blocks.get()
        innermost = max((i for i, block in enumerate(blocks) if block is self), default=len(blocks))
        self._blocks.set(blocks[:innermost] + blocks[innermost + 1 :])

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lock": None, "_is_copy": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def __repr__(self) -> str:
        most = f"epsilon={self.epsilon:g}, delta={self.delta:g}"
        spent = "({:g}, {:g})".format(*self.total())
        return f"BudgetAccountant({most}, composition={self.composition!r}) [spent: {spent}]"

    @staticmethod
    def _release(epsilon: float, delta: float, rho: float | None) -> tuple[float, float, float]:
        """Return ε, δ and ρ of a release, checked; ρ is infinite if it is not known."""
        check_number("epsilon", epsilon)
        check_number("delta", delta)
        if rho is None:
            rho = 0.5 * epsilon * epsilon if delta == 0.0 else inf
        check_number("rho", rho)
        if not (epsilon > 0.0 and 0.0 <= delta <= 1.0 and rho > 0.0):
            raise InvalidInput(
                "Expected epsilon and rho above 0, and delta from 0 to 1; got "
                f"epsilon={epsilon!r}, delta={delta!r}, rho={rho!r}."
            )
        return float(epsilon), float(delta), float(rho)

    def _composed(self, releases: list[tuple[float, float, float]]) -> Budget:
        """Return (ε, δ) that releases cost together."""
        if not releases:
            return 0.0, 0.0
        epsilon, delta, rho = (fsum(values) for values in zip(*releases, strict=True))
        if self.composition == "basic":
            return epsilon, min(delta, 1.0)
        return concentrated_epsilon(rho, self.delta), self.delta

    def _allow(self, release: tuple[float, float, float]) -> None:
        """Raise if all releases and this one cost more than the budget, by more than rounding."""
        if self._is_copy:
            raise BudgetError(
                "Expected the accountant that was passed, and this is a copy from another "
                "process, which does not know what is spent elsewhere: fit with n_jobs=1, or "
                "pass accountant=None for what is counted otherwise."
            )
        epsilon, delta = self._composed([*self._spent, release])
        if epsilon > ROUND_UP * self.epsilon or delta > ROUND_UP * self.delta:
            spent = "({:g}, {:g})".format(*self.total())
            raise BudgetError(
                f"The budget is (epsilon, delta) = ({self.epsilon:g}, {self.delta:g}), and "
                f"{several(len(self), 'release')} cost {spent}; this one would make it "
                f"({epsilon:g}, {delta:g}). Release less, or with a smaller epsilon."
            )


def concentrated_epsilon(rho: float, delta: float) -> float:
    """Return the least αρ + (log 1/δ + α log(1 − 1/α) − log(α − 1)) / (α − 1): ε at δ of ρ-zCDP."""
    if not np.isfinite(rho):
        return inf

    def epsilon_at(log_excess: float) -> float:  # by log(α − 1), as α is often very near to 1
        excess = float(np.exp(log_excess))
        alpha = 1.0 + excess
        last_terms = -alpha * log1p(1.0 / excess) - log_excess  # α log(1 − 1/α) − log(α − 1)
        return alpha * rho + (log(1.0 / delta) + last_terms) / excess

    start = log(sqrt(max(log(1.0 / delta), 1e-3) / rho))  # where αρ + log(1/δ)/(α − 1) is least
    least = minimize_scalar(epsilon_at, bounds=(start - 9.0, start + 9.0), method="bounded")
    return ROUND_UP * max(min(float(least.fun), epsilon_at(start)), 0.0)


def learned_before(estimator: object) -> list[str]:
    """Return the types of steps before an estimator that learn, in pipelines being fitted."""
    # An estimator does not know the pipeline that fits it: it is looked for among the callers.
    names, frame = [], inspect.currentframe()
    while frame is not None:
        caller = frame.f_locals.get("self") if frame.f_code.co_name == "fit" else None
        if isinstance(caller, Pipeline) and caller.steps[-1][1] is estimator:
            steps = [step for _, step in caller.steps[:-1] if step not in (None, "passthrough")]
            names += [
                type(step).__name__
                for step in steps
                if get_tags(step).requires_fit and not isinstance(step, FrozenEstimator)
            ]
            estimator = caller  # which may be the last step of another pipeline
        frame = frame.f_back
    return names
