"""How far weights are from the minimum of (2) at most, whatever solver found them.

For rows a_i = y_i φ_i, weights w and multipliers 0 ≤ α_i ≤ C/n, the value of (2) at w less that of
its dual (5) at α is a sum of terms that cannot be negative:

    ½ ‖w − Σ α_i a_i‖²  +  Σ (C/n − α_i) max(0, 1 − a_iᵀw)  +  Σ α_i max(0, a_iᵀw − 1)

By weak duality w is at most that much above the minimum. The sum is computed in extended precision,
where the platform has it, and what rounding can have hidden is added.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["certified_gap"]

FloatArray = NDArray[np.float64]

BLOCK = 1 << 16
"""Numbers in extended precision that are held at once."""


def certified_gap(rows: FloatArray, alpha: FloatArray, weights: FloatArray, box: float) -> float:
    """An upper bound of the distance to the minimum, in units of the objective; rounded upwards.

    Parameters
    ----------
    rows
        (n, F) y_i φ_i.
    alpha
        (n,) multipliers between 0 and ``box``.
    weights
        (F,) w.
    box
        C/n.
    """
    n, size = rows.shape
    wide = np.longdouble
    w, total, loss, hidden = weights.astype(wide), np.zeros(size, wide), wide(0.0), 0.0
    spread = np.zeros(size)
    step = max(1, BLOCK // size)
    for i in range(0, n, step):
        part, a = rows[i : i + step].astype(wide), alpha[i : i + step].astype(wide)
        total += a @ part
        short = 1.0 - part @ w
        loss += (np.where(short > 0.0, wide(box) - a, -a) * short).sum()
        some = np.abs(rows[i : i + step])
        hidden += float((some @ np.abs(weights)).sum())
        spread += alpha[i : i + step] @ some
    unit = max(float(np.finfo(wide).eps), 2.0**-63)  # pairs of doubles claim more than they hold
    apart = float(np.linalg.norm((w - total).astype(np.float64)))
    apart += 2.0 * n * unit * float(np.linalg.norm(spread))
    rounded = 2.0 * (size + 3) * unit * box * (hidden + n) + 2.0 * n * unit * float(loss)
    return (0.5 * apart * apart + float(loss) + rounded) * (1.0 + 1e-9)
