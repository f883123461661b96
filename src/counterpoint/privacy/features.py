"""Reads bounds of rows, and computes their features and how large these can be: all public."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np

from counterpoint.errors import InvalidInput, some
from counterpoint.numerics import FloatArray
from counterpoint.privacy.mechanisms import ROUND_UP


def read_bounds(bounds: Any, width: int, names: list[Any] | None) -> FloatArray:
    """Return low and high (2, d), read from a pair of numbers or of (d,), or name → (low, high)."""
    if isinstance(bounds, Mapping):
        bounds = _by_name(bounds, names)
    try:
        low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), (width,)) for b in bounds)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"Expected bounds to be a pair (low, high), each a number or {width} of them, one "
            f"for each column, or a mapping from names to such pairs of numbers; got "
            f"{bounds!r}: pass such a pair."
        ) from error
    limits = np.stack([low, high])
    with np.errstate(over="ignore"):
        is_interval = np.isfinite(high - low) & (low < high)
    _refuse_two_readings(bounds, limits)
    if not is_interval.all():
        column = int(np.flatnonzero(~is_interval)[0])
        raise InvalidInput(
            "Expected finite bounds, the lower below the upper, and those of column "
            f"{column} are {low[column]:g} and {high[column]:g}: leave out what cannot vary."
        )
    return limits


def _by_name(bounds: Mapping[Any, Any], names: list[Any] | None) -> Any:
    """Return bounds by name as an array (2, d) of low and high, in the order of the columns."""
    if names is None:
        raise InvalidInput(
            "Expected a data frame with bounds by the name of the column; got rows without "
            "names: pass a data frame, or (low, high)."
        )
    columns = set(names)
    missing = [name for name in names if name not in bounds]
    unknown = [name for name in bounds if name not in columns]
    if missing or unknown:
        lacks = f"none for {some(missing)}" if missing else f"some for {some(unknown)}"
        raise InvalidInput(
            f"Expected bounds for each column and for nothing else; got {lacks}: "
            "pass one pair (low, high) for each."
        )
    pairs = [bounds[name] for name in names]
    if not all(np.shape(pair) == (2,) for pair in pairs):
        raise InvalidInput(
            f"Expected a pair (low, high) of numbers for each column; got {bounds!r}."
        )
    return np.array(pairs).T


def _refuse_two_readings(bounds: Any, limits: FloatArray) -> None:
    """Refuse bounds of two columns that may be (low, high), or one such pair for each column.

    ``limits`` (2, d) are low and high by the first reading; by the second they are its transpose. A
    tuple of two lists is (low, high).
    """
    low, high = limits
    may_be_pairs = isinstance(bounds, list) or any(isinstance(b, tuple) for b in bounds)
    if len(low) != 2 or not may_be_pairs or any(np.ndim(b) == 0 for b in bounds):
        return
    are_pairs = (low[0] < low[1]) and (high[0] < high[1])
    if are_pairs and not np.array_equal(limits, limits.T):
        raise InvalidInput(
            "Expected bounds that can be read in one way, and "
            f"{bounds!r} may be (low, high) or one pair for each of the two columns: pass a "
            "mapping from names to pairs, or a tuple of two lists, (low, high)."
        )


def lift(Z: FloatArray, frequencies: FloatArray, intercept: float) -> FloatArray:
    """Return features φ(z) = (z, B), shape (n, F), or with ``frequencies`` Fourier features.

    These are (√(2/F) (cos Wz, sin Wz), B), with W (F/2, d) (Rahimi & Recht, 2007). B is the
    intercept, which is left out if it is 0.
    """
    # A pair of cosine and sine has norm 1 exactly; a cosine with a random phase would reach √2.
    rows = Z
    if len(frequencies):
        phase = Z @ frequencies.T
        rows = np.concatenate([np.cos(phase), np.sin(phase)], axis=1) / np.sqrt(len(frequencies))
    if intercept == 0.0:
        return rows
    return np.concatenate([rows, np.full((len(rows), 1), intercept)], axis=1)


def largest(frequencies: FloatArray, intercept: float) -> tuple[float, float]:
    """Return κ and Φ: at least ‖φ‖₂ and every |φ_j| of rows with entries between −1 and 1."""
    n_pairs, d = frequencies.shape
    norm, entry = (1.0, 1.0 / sqrt(n_pairs)) if n_pairs else (sqrt(d), 1.0)
    return ROUND_UP * float(np.hypot(norm, intercept)), max(entry, intercept)


def scaled(X: FloatArray, bounds: FloatArray) -> FloatArray:
    """Return rows (n, d) in units in which the bounds are −1 and 1; they may lie outside."""
    low, high = bounds
    half = 0.5 * (high - low)
    return (X - (low + half)) / half
