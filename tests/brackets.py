"""An oracle for small programs of any kind: the optimum between two numbers, by halving boxes.

Whole columns, categories and changes are enumerated; what is left is cut into boxes. A box that a
condition's own Lipschitz bound keeps outside is dropped, and so is one that costs more than a
point that is known. Nothing here comes from the solvers, or from the programs' bounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from counterpoint.families.prototypes.quadratic_difference import QuadraticDifference
from counterpoint.programs.conditions import (
    AtMost,
    Box,
    Cone,
    LinearBounds,
    OneOf,
    Transitions,
    Whole,
)
from counterpoint.programs.program import Program

__all__ = ["REACH", "bracket"]

REACH = 12.0
"""How far from x it looks."""
BOXES = 400_000


def bracket(program: Program, x: np.ndarray, close: float = 1e-4) -> tuple[float, float]:
    """The optimum is between these, or beyond ``REACH``; both are infinite if there is no point."""
    best, lowest = np.inf, []
    for low, high in choices(program, x):
        best, bound = halved(program, x, *reachable(x, low, high), best, close)
        lowest.append(bound)
    return min([best, *lowest]), best


def reachable(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    held = low == high
    return (
        np.where(held, low, np.maximum(low, x - REACH)),
        np.where(held, high, np.minimum(high, x + REACH)),
    )


def choices(program: Program, x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Boxes in which nothing is integral."""
    low, high = bounds(program, x)
    for choice in itertools.product(*fixings(program, x)):
        at = {c: value for part in choice for c, value in part.items()}
        columns, values = list(at), np.array(list(at.values()))
        inside = (low[columns] <= values + 1e-12) & (values <= high[columns] + 1e-12)
        if inside.all() and all(part[c] == at[c] for part in choice for c in part):
            here = np.array(low), np.array(high)
            here[0][columns] = here[1][columns] = values
            yield here


def bounds(program: Program, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.full(len(x), -np.inf), np.full(len(x), np.inf)
    for condition in program.region:
        if isinstance(condition, Box):
            low = np.maximum(low, np.maximum(condition.low, x + condition.least))
            high = np.minimum(high, np.minimum(condition.high, x + condition.most))
        elif isinstance(condition, Transitions):
            allowed = condition.allowed[x[condition.columns].argmax()]
            high[condition.columns] = np.minimum(high[condition.columns], allowed)
    return low, high


def fixings(program: Program, x: np.ndarray) -> Iterator[list[dict[int, float]]]:
    """For each integral condition, what it may fix."""
    for condition in program.region:
        if isinstance(condition, Whole):
            for c, step in zip(condition.columns.tolist(), condition.steps.tolist(), strict=True):
                count = int(REACH / step)
                yield [{c: x[c] + k * step} for k in range(-count, count + 1)]
        elif isinstance(condition, OneOf):
            block = range(condition.columns.start, condition.columns.stop)
            yield [dict(zip(block, row, strict=True)) for row in np.eye(len(block))]
        elif isinstance(condition, AtMost):
            blocks = condition.blocks
            still = itertools.combinations(blocks, len(blocks) - condition.count)
            yield [{c: x[c] for b in s for c in range(b.start, b.stop)} for s in still]


def halved(
    program: Program,
    x: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    best: float,
    close: float,
) -> tuple[float, float]:
    """The least cost known so far, and a bound on what is within the box."""
    if (low > high).any():
        return best, np.inf
    centers, half = ((low + high) / 2.0)[None], (high - low) / 2.0
    while True:
        inside, outside = np.ones((2, len(centers)), dtype=bool)
        for value, give in (rated(condition, centers, half) for condition in program.region):
            inside &= (value <= 0.0).all(axis=1)
            outside &= (value <= give).all(axis=1)
        if inside.any():
            best = min(best, program.encoded_cost(centers[inside], x + 0.0 * centers[inside]).min())
        bound = cheapest(program, centers - x, half)
        kept = outside & (bound < best)
        centers, bound = centers[kept], bound[kept]
        if not len(centers):
            return best, np.inf
        done = np.isfinite(best) and best - bound.min() <= close * best
        if done or len(centers) > BOXES or half.max() < 1e-9:
            return best, bound.min()
        j = half.argmax()
        half = np.where(np.arange(len(half)) == j, half / 2.0, half)
        step = np.where(np.arange(len(half)) == j, half, 0.0)
        centers = np.vstack([centers - step, centers + step])


def rated(condition: object, y: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, m) by how much centers miss a condition, and by how much less other points may."""
    if isinstance(condition, LinearBounds):
        value, give = y @ condition.matrix.T, np.abs(condition.matrix) @ half
        return np.hstack([value - condition.high, condition.low - value]), np.append(give, give)
    if isinstance(condition, Cone):
        length = np.linalg.norm(y @ condition.matrix.T + condition.offset, axis=1)
        give = np.linalg.norm(np.abs(condition.matrix) @ half) + np.abs(condition.slope) @ half
        return (length - y @ condition.slope - condition.radius)[:, None], np.full((1, 1), give)
    if isinstance(condition, QuadraticDifference):
        near = y @ condition.matrix.T + condition.offset
        far = y @ condition.rival.T + condition.rival_offset
        slope = 2.0 * (near @ condition.matrix - far @ condition.rival)
        form = condition.matrix.T @ condition.matrix - condition.rival.T @ condition.rival
        value = (near**2).sum(axis=1) - (far**2).sum(axis=1) - condition.limit
        return value[:, None], (np.abs(slope) @ half + half @ np.abs(form) @ half)[:, None]
    return np.zeros((len(y), 1)), np.zeros((len(y), 1))


def cheapest(program: Program, delta: np.ndarray, half: np.ndarray) -> np.ndarray:
    """(n,) what changes within boxes cost at least."""
    encoded_cost = program.encoded_cost
    near = np.maximum(np.abs(delta) - half, 0.0)
    least = near @ encoded_cost.absolute
    if encoded_cost.quadratic.ndim == 1:
        return least + near**2 @ encoded_cost.quadratic
    slope = 2.0 * delta @ encoded_cost.quadratic
    square = np.einsum("ij,ij->i", delta @ encoded_cost.quadratic, delta)
    return least + np.maximum(square - np.abs(slope) @ half, 0.0)
