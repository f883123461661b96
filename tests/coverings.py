"""Which combinations of its parameters a test with the mark ``covering`` runs by default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, product
from typing import Any

import pytest


def is_left_to_the_slow_run(item: pytest.Item) -> bool:
    """Whether the mark `covering` of a test leaves this combination of its parameters out."""
    mark = item.get_closest_marker("covering")
    if mark is None:
        return False
    factors = [one.args for one in item.iter_markers("parametrize")]
    at = tuple(position(names, values, item.callspec.params) for names, values in factors)
    return at not in covering(tuple(len(values) for _, values in factors), *mark.args)


def position(names: str | Sequence[str], values: Sequence[Any], chosen: Mapping[str, Any]) -> int:
    """Which of the values of some parameters was chosen."""
    names = [names] if isinstance(names, str) else names
    wanted = [chosen[name] for name in names]
    for k, value in enumerate(values):
        given = value.values if isinstance(value, type(pytest.param())) else value
        if len(names) == 1 and given is value:
            given = [value]
        if all(map(is_same, given, wanted)):
            return k
    raise LookupError(wanted)


def is_same(a: Any, b: Any) -> bool:
    """Ranges and arrays make their values anew whenever they are asked."""
    return a is b or (isinstance(a, int | str) and type(a) is type(b) and a == b)


@cache
def covering(sizes: tuple[int, ...], strength: int) -> frozenset[tuple[int, ...]]:
    """Few combinations, in which each value meets each of ``strength − 1`` other parameters.

    A covering array, made greedily: as positions of values, of parameters with so many of them.
    """

    def meetings(combination: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
        return set(combinations(enumerate(combination), strength))

    every = {one: meetings(one) for one in product(*map(range, sizes))}
    missing = set().union(*every.values())
    kept: set[tuple[int, ...]] = set()
    used: Counter[tuple[int, int]] = Counter()
    while missing:  # the one that adds most, then of the values that came least often
        best = max(
            every,
            key=lambda one: (len(every[one] & missing), -sum(used[at] for at in enumerate(one))),
        )
        kept.add(best)
        used.update(enumerate(best))
        missing -= every[best]
    return frozenset(kept)
