"""What runs by default of a test of several parameters: the mark ``covering``."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from coverings import covering, is_left_to_the_slow_run


@pytest.mark.parametrize("strength", [1, 2])
@pytest.mark.parametrize("sizes", [(3, 4), (5, 2, 3), (2, 2, 2, 2), (4, 3, 3, 2)])
def test_all_values_meet_in_few_combinations(sizes: tuple[int, ...], strength: int):
    kept = covering(sizes, strength)
    for at in combinations(range(len(sizes)), strength):
        satisfied = {tuple(one[k] for k in at) for one in kept}
        assert satisfied == set(product(*(range(sizes[k]) for k in at)))
    largest = sorted(sizes)[-strength:]
    assert len(kept) <= (1.0 if strength == 1 else 1.5) * largest[0] * largest[-1] ** (strength - 1)
    assert (0,) * len(sizes) in kept


@pytest.mark.covering(1)
@pytest.mark.parametrize("word", np.array(["one", "two"]))
@pytest.mark.parametrize(("c", "d"), [(1, 1), (1, 2), pytest.param(2, 1, id="last")])
@pytest.mark.parametrize("a", range(1000, 1004))
def test_each_value_comes_once(a: int, c: int, d: int, word: str, request: pytest.FixtureRequest):
    """Of 24 combinations, four are not slow."""
    quick = [(1000, 1, 1, "one"), (1001, 1, 2, "two"), (1002, 2, 1, "one"), (1003, 1, 1, "two")]
    slow = request.node.get_closest_marker("slow") is not None
    assert slow == is_left_to_the_slow_run(request.node) == ((a, c, d, word) not in quick)
