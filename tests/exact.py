"""The optima of small programs in rational arithmetic, or to 60 digits: no rounding at all.

Numbers are taken as the float64 that they are. Each problem has an independent method: the best
ratio, the projection, filling in the order of ratios, a search among breakpoints, all vertices or
active sets, all points of a lattice; and Newton's method with mpmath where there are logarithms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product

import mpmath
import numpy as np

__all__ = [
    "Exact",
    "filled",
    "fractions",
    "lattice",
    "log_loss",
    "log_sum_exp",
    "quadratic_program",
    "vertices",
]

Exact = Fraction | None
"""An optimum; None where there is no point."""
Vector = list[Fraction]
DIGITS = 60


def fractions(values: np.ndarray) -> Vector:
    """(d,) as they are."""
    return [Fraction(float(v)) for v in values]


def dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((p * q for p, q in zip(a, b, strict=True)), Fraction(0))


def filled(
    row: np.ndarray,
    high: float,
    x: np.ndarray,
    weight: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    power: int,
) -> Exact:
    """min Σ weight |δ|^power, row · (x + δ) <= high, x + δ within the box, which holds x.

    With power 1 columns are filled in the order of their ratios. With power 2 columns stop at their
    breakpoints, and between two of them the multiplier is the root of a linear equation.
    """
    a, w, at = fractions(row), fractions(weight), fractions(x)
    missing = dot(a, at) - Fraction(high)
    if missing <= 0:
        return Fraction(0)
    ends = [box[0][j] if a[j] > 0 else box[1][j] for j in range(len(a))]
    room = [
        None if np.isinf(e) else abs(Fraction(float(e)) - v) for e, v in zip(ends, at, strict=True)
    ]
    used = [j for j in range(len(a)) if a[j]]
    if power == 1:
        cost = Fraction(0)
        for j in sorted(used, key=lambda j: w[j] / abs(a[j])):
            gain, most = missing / abs(a[j]), room[j]
            move = gain if most is None else min(gain, most)
            cost, missing = cost + w[j] * move, missing - abs(a[j]) * move
            if missing == 0:
                return cost
        return None
    held: list[int] = []
    while len(held) < len(used):
        free = [j for j in used if j not in held]
        left = missing - sum((abs(a[j]) * (room[j] or 0) for j in held), Fraction(0))
        rate = left / sum((a[j] ** 2 / w[j] for j in free), Fraction(0))
        over = [j for j in free if (most := room[j]) is not None and rate * abs(a[j]) / w[j] > most]
        if not over:
            moves = {j: rate * abs(a[j]) / w[j] for j in free} | {j: room[j] or 0 for j in held}
            return sum((w[j] * move**2 for j, move in moves.items()), Fraction(0))
        held += over
    gained = sum((abs(a[j]) * (room[j] or 0) for j in held), Fraction(0))
    if gained < missing:
        return None
    return sum((w[j] * (room[j] or 0) ** 2 for j in held), Fraction(0))


def solved(matrix: list[Vector], right: Vector) -> Vector | None:
    """The solution of a square system; None if it is singular."""
    n = len(matrix)
    rows = [[*row, r] for row, r in zip(matrix, right, strict=True)]
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(n):
            if i != k and rows[i][k]:
                share = rows[i][k] / rows[k][k]
                rows[i] = [p - share * q for p, q in zip(rows[i], rows[k], strict=True)]
    return [rows[k][n] / rows[k][k] for k in range(n)]


def demands(matrix: list[Vector], high: Vector, x: Vector) -> list[tuple[Vector, Fraction]]:
    """The rows as g · δ <= h."""
    return [(row, limit - dot(row, x)) for row, limit in zip(matrix, high, strict=True)]


def quadratic_program(
    encoded_cost: list[Vector], matrix: list[Vector], high: Vector, x: Vector
) -> Exact:
    """min δᵀ price δ, matrix (x + δ) <= high: the active set that is optimal."""
    d, asked = len(encoded_cost), demands(matrix, high, x)
    for count in range(min(d, len(asked)) + 1):
        for active in combinations(asked, count):
            rows = [g for g, _ in active]
            system = [
                [2 * encoded_cost[i][j] for j in range(d)] + [g[i] for g in rows] for i in range(d)
            ]
            system += [[*g, *[Fraction(0)] * count] for g in rows]
            found = solved(system, [Fraction(0)] * d + [h for _, h in active])
            if found is None or any(v < 0 for v in found[d:]):
                continue
            delta = found[:d]
            if all(dot(g, delta) <= h for g, h in asked):
                return dot([dot(row, delta) for row in encoded_cost], delta)
    return None


def vertices(
    weight: Vector,
    matrix: list[Vector],
    high: Vector,
    x: Vector,
    box: tuple[np.ndarray, np.ndarray],
) -> Exact:
    """min Σ weight |δ|, matrix (x + δ) <= high, x + δ within the box: the best of all vertices."""
    d, asked = len(weight), demands(matrix, high, x)
    planes = list(asked)
    for j in range(d):
        unit = [Fraction(int(i == j)) for i in range(d)]
        planes.append((unit, Fraction(0)))
        for sign, end in ((-1, box[0][j]), (1, box[1][j])):
            if np.isfinite(end):
                room = Fraction(float(end)) - x[j]
                planes.append((unit, room))
                asked.append(([sign * u for u in unit], sign * room))
    best: Exact = None
    for chosen in combinations(planes, d):
        delta = solved([g for g, _ in chosen], [h for _, h in chosen])
        if delta is None or any(dot(g, delta) > h for g, h in asked):
            continue
        cost = dot(weight, [abs(v) for v in delta])
        best = cost if best is None else min(best, cost)
    return best


def lattice(
    weight: Vector,
    power: int,
    matrix: list[Vector],
    high: Vector,
    x: Vector,
    choices: Sequence[Sequence[Fraction]],
    most: int,
) -> Exact:
    """min Σ weight |δ|^power, matrix (x + δ) <= high over all choices of δ with few changes."""
    asked, best = demands(matrix, high, x), None
    for delta in product(*choices):
        if sum(v != 0 for v in delta) > most:
            continue
        if all(dot(g, delta) <= h for g, h in asked):
            cost = dot(weight, [abs(v) ** power for v in delta])
            best = cost if best is None else min(best, cost)
    return best


def exact_value(value: mpmath.mpf) -> Fraction:
    sign, mantissa, exponent, _ = value._mpf_
    return (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def precise(values: np.ndarray) -> list[mpmath.mpf]:
    return [mpmath.mpf(float(v)) for v in values]


def _scores(
    matrix: np.ndarray, offset: np.ndarray, x: np.ndarray, delta: Sequence[mpmath.mpf]
) -> Iterator[mpmath.mpf]:
    for row, constant in zip(matrix, offset, strict=True):
        terms = zip(precise(row), precise(x), delta, strict=True)
        yield mpmath.fsum(a * (b + c) for a, b, c in terms) + mpmath.mpf(float(constant))


def log_sum_exp(
    weight: np.ndarray,
    matrix: np.ndarray,
    offset: np.ndarray,
    limit: float,
    x: np.ndarray,
    guess: tuple[np.ndarray, float],
) -> tuple[mpmath.mpf, mpmath.mpf]:
    """min Σ weight δ² with log Σ exp(matrix (x + δ) + offset) = limit, and its multiplier.

    Parameters
    ----------
    guess
        About the optimal δ and multiplier; it only begins Newton's method.
    """
    with mpmath.workdps(DIGITS):
        w, rows = precise(weight), [precise(row) for row in matrix]

        def stationary(*at: mpmath.mpf) -> list[mpmath.mpf]:
            delta, nu = at[:-1], at[-1]
            parts = [mpmath.exp(z) for z in _scores(matrix, offset, x, delta)]
            total = mpmath.fsum(parts)
            slopes = [
                2 * w[j] * delta[j]
                + nu * mpmath.fsum(p * row[j] for p, row in zip(parts, rows, strict=True)) / total
                for j in range(len(w))
            ]
            return [*slopes, mpmath.log(total) - mpmath.mpf(limit)]

        start = [*guess[0].tolist(), guess[1]]
        found = list(mpmath.findroot(stationary, start, tol=mpmath.mpf(10) ** (-2 * DIGITS + 20)))
        cost = mpmath.fsum(p * v**2 for p, v in zip(w, found[:-1], strict=True))
        return cost, found[-1]


def log_loss(
    weight: np.ndarray,
    matrix: np.ndarray,
    offset: np.ndarray,
    x: np.ndarray,
    guess: np.ndarray,
    cost_cutoff: float,
) -> mpmath.mpf:
    """min worth Σ weight δ² + log(1 + Σ exp(matrix (x + δ) + offset))."""
    with mpmath.workdps(DIGITS):
        w = [mpmath.mpf(float(cost_cutoff)) * v for v in precise(weight)]
        rows = [precise(row) for row in matrix]

        def slopes(*delta: mpmath.mpf) -> list[mpmath.mpf]:
            parts = [mpmath.exp(z) for z in _scores(matrix, offset, x, delta)]
            total = 1 + mpmath.fsum(parts)
            return [
                2 * w[j] * delta[j]
                + mpmath.fsum(p * row[j] for p, row in zip(parts, rows, strict=True)) / total
                for j in range(len(w))
            ]

        tol = mpmath.mpf(10) ** (-2 * DIGITS + 20)
        delta = list(mpmath.findroot(slopes, guess.tolist(), tol=tol))
        parts = [mpmath.exp(z) for z in _scores(matrix, offset, x, delta)]
        encoded_cost = mpmath.fsum(p * v**2 for p, v in zip(w, delta, strict=True))
        return encoded_cost + mpmath.log(1 + mpmath.fsum(parts))
