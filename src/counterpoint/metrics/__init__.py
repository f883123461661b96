"""Metrics of counterfactuals, whichever tool they come from, named as in the field.

Each gives one number for each answer, NaN where there is none; `compare` makes one table of several
tools. Answers are rows in the order of the factual rows, in which a row that is missing as a whole
says that none was found; or several to each, with ``row``, the positions of the rows that they
answer. A number that differs by less than a millionth of itself, or of the column's standard
deviation, counts as unchanged: that is rounding.
"""

from counterpoint.metrics.dice import problem_from_dice, read_dice
from counterpoint.metrics.measures import (
    compare,
    constraint_violation,
    diversity,
    lof,
    optimality_gap,
    proximity,
    redundancy,
    sparsity,
    validity,
    ynn,
)

__all__ = [
    "compare",
    "constraint_violation",
    "diversity",
    "lof",
    "optimality_gap",
    "problem_from_dice",
    "proximity",
    "read_dice",
    "redundancy",
    "sparsity",
    "validity",
    "ynn",
]
