"""Section 5.2: two classes in closed form, against Newton's method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from common.report import Claim, Section, number, spread
from logistic_tasks import TwoClasses
from scipy import sparse

from inverse.methods import measured
from inverse.sets import Set, Sizes

ROWS = 2_000
CELLS = 16_000_000
"""How many numbers a batch may have."""
WEIGHT = 0.01
TEXT = """
The classes in two groups (even and odd digits; classes 0–25 and the others; 7 and 9 of 16). Rows of
the training set, λ = 0.01, the class that the row does not have. "Softmax Newton" is the paper's
method with K = 2, "logistic Newton" the same with every product known in advance that can be; both
row by row. The closed form of theorem 4.2 reads x̄ and writes x*; between is a scalar equation.
"""
NOTE = """
The paper does not say which of these it compares. A row alone pays for a few dozen NumPy calls,
whatever D is. In a batch these are shared, and reading x̄ and writing x* is what is left: where D is
large, that is a considerable part of Newton's method too, and bounds what any method can gain.
"""


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
        times = _times(_two_classes(one), one.sizes)
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


def _times(two: TwoClasses, sizes: Sizes) -> Times:
    products = two.products
    found: dict[str, list[float]] = {"softmax": [], "logistic": [], "alone": []}
    worst = 0.0
    for i in range(sizes.problems):
        tasks = {
            "softmax": lambda i=i: two.by_softmax_newton(i, products),
            "logistic": lambda i=i: two.by_newton(i),
            "alone": lambda i=i: two.closed_form(slice(i, i + 1))[0],
        }
        for name, task in tasks.items():
            x, seconds = measured(task, sizes.repeats)
            found[name].append(1e6 * seconds)
            worst = max(worst, two.norm(x, i))
    _, seconds = measured(two.closed_form, sizes.repeats)
    return Times(**found, batch=1e6 * seconds / len(two.X), worst=worst)


def _two_classes(one: Set) -> TwoClasses:
    data = one.data
    size = data.X.shape[1]
    count = max(one.sizes.problems, min(ROWS, CELLS // size))
    kept = np.random.default_rng(2).integers(data.X.shape[0], size=count)
    X = data.X[kept]
    X = X.toarray() if sparse.issparse(X) else X
    return TwoClasses.of(one.A[0], float(one.b[0]), X, WEIGHT)
