"""Noise by OpenDP: exact samplers on the system's entropy, and maps from sensitivity to privacy.

OpenDP adds discrete noise to floats as exact rationals, and its maps account for every rounding.
The low bits of a float drawn in the usual way tell which value it was added to (Mironov, 2012).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import MissingExtra, SolverFailure

__all__ = ["approximate", "gaussian", "laplace", "released", "smallest_scale"]

FloatArray = NDArray[np.float64]


def laplace(size: int, scale: float) -> Any:
    """Adds independent Laplace noise to ``size`` floats; private in the L1 distance."""
    dp = _opendp()
    with _translated():
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
        return dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale)


def gaussian(size: int, scale: float) -> Any:
    """Adds independent normal noise to ``size`` floats; concentrated privacy in the L2 distance."""
    dp = _opendp()
    with _translated():
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
        return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)


def approximate(measurement: Any, delta: float) -> Any:
    """A concentrated measurement, seen as (ε, δ)-private."""
    dp = _opendp()
    with _translated():
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(measurement), delta)


def smallest_scale(make: Any, sensitivity: float, budget: Any) -> float:
    """The smallest scale whose measurement, by its own map, keeps within the budget."""
    dp = _opendp()
    with _translated():
        return float(dp.binary_search_param(make, d_in=sensitivity, d_out=budget))


def released(measurement: Any, weights: FloatArray) -> FloatArray:
    """The weights with noise."""
    with _translated():
        return np.array(measurement(weights.tolist()))


def _opendp() -> Any:
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise MissingExtra(
            "Expected OpenDP, which draws the noise of a private model, and it is not installed: "
            "install counterpoint[privacy]."
        ) from error
    dp.enable_features("contrib")
    return dp


@contextmanager
def _translated() -> Iterator[None]:
    from opendp.mod import OpenDPException

    try:
        yield
    except OpenDPException as error:
        said = " ".join(str(error).split())
        raise SolverFailure(f"OpenDP refused to make this noise, and says: {said}") from error
