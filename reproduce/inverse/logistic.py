"""Section 5.2: two classes in closed form, against Newton's method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from inverse_peers import Problem, gram, newton, newton_logistic

from counterpoint.softmax import logistic_root
from inverse.methods import measured
from inverse.report import Claim, Section, number, spread
from inverse.sets import Set, Sizes, dense_row

ROWS = 2_000
CELLS = 16_000_000
"""How many numbers a batch may have."""
CACHED = 1 << 15
"""How many numbers are written at a time, so that the second pass finds them in the cache."""
TEXT = """
The classes in two groups (even and odd digits; classes 0–25 and the others; 7 and 9 of 16). Rows of
the training set, λ = 0.01, the class that the row does not have. "Softmax Newton" is the paper's
method with K = 2, "logistic Newton" the same with every product known in advance that can be; both
row by row. The closed form of theorem 4.2 reads x̄ and writes x*; between is a scalar equation.
"""
NOTE = """
The paper does not say what it compares; its factor lies between those of a row alone and of a
batch. For one row alone the closed form is a few dozen NumPy calls, whatever D is, which is more
than Newton's method itself takes on a few numbers; in a batch they are shared, and what is left is
reading and writing.
"""


@dataclass(frozen=True)
class Binary:
    """A binary logistic regression and rows of it: the class with p = 1/(1 + exp(wᵀx + w₀)).

    Parameters
    ----------
    one
        The data set.
    w, w0
        One for each row: the sign says which class is wanted.
    X
        The rows.
    weight
        λ.
    """

    one: Set
    sign: np.ndarray
    X: np.ndarray
    weight: float = 0.01

    @property
    def w(self) -> np.ndarray:
        """The weights, for rows whose sign is 1."""
        return self.one.A[0]

    @property
    def w0(self) -> float:
        """The intercept, likewise."""
        return float(self.one.b[0])

    def closed_form(self, rows: slice) -> np.ndarray:
        """Theorem 4.2."""
        X, sign = self.X[rows], self.sign[rows]
        alpha = np.full(len(X), self.w @ self.w / self.weight)
        _, rest = logistic_root(alpha, sign * (X @ self.w + self.w0) - alpha)
        pull = sign * rest / self.weight
        out = np.empty_like(X)
        step = max(1, CACHED // len(self.w))
        for start in range(0, len(X), step):
            some = slice(start, start + step)
            np.multiply(pull[some, None], self.w, out=out[some])
            np.subtract(X[some], out[some], out=out[some])
        return out

    def logistic(self, i: int) -> np.ndarray:
        """Newton's method in D dimensions, with the Hessian of one direction."""
        sign = self.sign[i]
        return newton_logistic(sign * self.w, sign * self.w0, self.X[i], self.weight)[0]

    def softmax(self, i: int, products: np.ndarray) -> np.ndarray:
        """Newton's method in D dimensions, with the paper's Hessian for K classes."""
        sign = self.sign[i]
        A, b = np.array([0.0 * self.w, sign * self.w]), np.array([0.0, sign * self.w0])
        return newton(Problem(A, b, self.X[i], 0, self.weight), products)[0]

    def norm(self, x: np.ndarray, i: int) -> float:
        """‖∇E‖ at an answer."""
        sign = self.sign[i]
        rest = 0.5 + 0.5 * np.tanh(0.5 * sign * (x @ self.w + self.w0))
        return float(np.linalg.norm(self.weight * (x - self.X[i]) + sign * rest * self.w))


@dataclass(frozen=True)
class Times:
    """Microseconds a row, for each row that was solved alone; and the largest ‖∇E‖."""

    softmax: list[float]
    logistic: list[float]
    alone: list[float]
    batch: float
    worst: float

    def ratios(self, ours: float) -> tuple[float, float]:
        """How many times as long both of Newton's methods take."""
        return float(np.median(self.softmax)) / ours, float(np.median(self.logistic)) / ours


def section(every: Sequence[Set]) -> Section:
    """All binary data sets."""
    rows, single, batched = [], [], []
    for one in every:
        times = _times(_binary(one), one.sizes)
        alone, batch = times.ratios(float(np.median(times.alone))), times.ratios(times.batch)
        single += alone
        batched += batch
        rows.append(
            (
                f"{one.name} (2, {one.A.shape[1]})",
                spread(times.softmax),
                spread(times.logistic),
                spread(times.alone),
                number(times.batch),
                ", ".join(f"{number(ratio)}×" for ratio in alone),
                ", ".join(f"{number(ratio)}×" for ratio in batch),
                f"{times.worst:.0e}",
            )
        )
    return Section(
        "Section 5.2: two classes in closed form",
        TEXT,
        (
            "data (K, D)",
            "softmax Newton, µs",
            "logistic Newton, µs",
            "closed form alone, µs",
            "in a batch, µs a row",
            "Newton / alone",
            "Newton / batch",
            "largest ‖∇E‖",
        ),
        rows,
        [NOTE],
        {},
        [
            Claim(
                "closed form against Newton, two classes (section 5.2)",
                "about 100×",
                f"{number(min(single), 2)}–{number(max(single), 2)}× alone, "
                f"{number(min(batched), 2)}–{number(max(batched), 2)}× in a batch",
                min(batched) <= 100 <= max(batched),
            )
        ],
    )


def _times(binary: Binary, sizes: Sizes) -> Times:
    products = gram(np.array([0.0 * binary.w, binary.w]))
    found: dict[str, list[float]] = {"softmax": [], "logistic": [], "alone": []}
    worst = 0.0
    for i in range(sizes.problems):
        tasks = {
            "softmax": lambda i=i: binary.softmax(i, products),
            "logistic": lambda i=i: binary.logistic(i),
            "alone": lambda i=i: binary.closed_form(slice(i, i + 1))[0],
        }
        for name, task in tasks.items():
            x, seconds = measured(task, sizes.repeats)
            found[name].append(1e6 * seconds)
            worst = max(worst, binary.norm(x, i))
    _, seconds = measured(lambda: binary.closed_form(slice(None)), sizes.repeats)
    return Times(**found, batch=1e6 * seconds / len(binary.X), worst=worst)


def _binary(one: Set) -> Binary:
    data = one.data
    size = data.X.shape[1]
    rng = np.random.default_rng(2)
    count = max(one.sizes.problems, min(ROWS, CELLS // size))
    kept = rng.integers(data.X.shape[0], size=count)
    X = np.array([dense_row(data.X, i) for i in kept])
    ahead = X @ one.A[0] + one.b[0] > 0.0  # where p₁ of w, w0 is below one half: it is wanted
    return Binary(one, np.where(ahead, 1.0, -1.0), X)
