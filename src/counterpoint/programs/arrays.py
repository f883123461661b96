"""Named tuples of arrays with one entry each for the same n things, selected and joined as one.

Such tuples may be nested.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def pick(nodes: Any, index: Any) -> Any:
    """Return some entries of all arrays of a named tuple; copies of them, by their numbers."""
    return nodes._make([pick(v, index) if isinstance(v, tuple) else v[index] for v in nodes])


def put(nodes: Any, index: Any, values: Any) -> None:
    """Write entries of all arrays of a named tuple, in place."""
    for array, value in zip(nodes, values, strict=True):
        if isinstance(array, tuple):
            put(array, index, value)
        else:
            array[index] = value


def stacked(batches: Any) -> Any:
    """Return named tuples of one type as one, their entries one after the other."""
    if len(batches) == 1:
        return batches[0]
    return batches[0]._make(
        stacked(arrays) if isinstance(arrays[0], tuple) else np.concatenate(arrays)
        for arrays in zip(*batches, strict=True)
    )
