"""What the parameters of a private model may be, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput
from counterpoint.estimator_rules import Rule, flag, number, one_of, or_none, whole
from counterpoint.estimator_rules import check as check_each
from counterpoint.privacy.maps import UnitBox

__all__ = ["box_of", "check"]


CALIBRATED = 1e4
"""Up to this ε the map of OpenDP from normal noise to (ε, δ) does not overflow."""
RULES: Mapping[str, Rule] = {
    "epsilon": number(0.0, above=True),
    "C": number(0.0, above=True),
    "feature_map": one_of("linear", "fourier"),
    "mechanism": one_of("laplace", "gamma", "gaussian"),
    "sensitivity": one_of("tight", "rubinstein"),
    "delta": or_none(number(0.0, above=True, below=1.0)),
    "n_components": whole(1),
    "gamma": or_none(number(0.0, above=True)),
    "intercept_scaling": or_none(number(0.0)),
    "tol": number(0.0, above=True),
    "max_iter": whole(1),
    "trust_data": flag(),
    "insecure_noise_seed": or_none(whole(0)),
}


def check(owner: str, values: Mapping[str, Any]) -> None:
    """Hold the parameters of an estimator against their rules.

    Raises
    ------
    InvalidInput
        If one of them breaks its rule, or two of them contradict each other.
    """
    check_each(owner, values, RULES)
    if values["feature_map"] == "fourier" and values["n_components"] % 2:
        raise InvalidInput(
            f"{owner} expects n_components to be even, for pairs of cosine and sine, and got "
            f"{values['n_components']!r}: pass one more, or one less."
        )
    if (values["mechanism"] == "gaussian") != (values["delta"] is not None):
        raise InvalidInput(
            f"{owner} expects delta with mechanism='gaussian', and without it otherwise, and got "
            f"delta={values['delta']!r} with mechanism={values['mechanism']!r}: pass both, or "
            "neither."
        )
    if values["mechanism"] == "gaussian" and values["epsilon"] > CALIBRATED:
        raise InvalidInput(
            f"{owner} expects epsilon to be at most {CALIBRATED:g} with mechanism='gaussian', for "
            f"which OpenDP finds the noise, and got {values['epsilon']!r}: pass less, or another "
            "mechanism. So large an epsilon protects nobody."
        )


def box_of(bounds: Any, width: int) -> UnitBox:
    """The box of a pair (low, high), each a number or one for each of ``width`` columns.

    Raises
    ------
    InvalidInput
        If it is no such pair, or a lower bound is not below the upper one.
    """
    try:
        low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), (width,)) for b in bounds)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"Expected bounds to be a pair (low, high), each a number or {width} of them, one for "
            f"each column, and got {bounds!r}: pass such a pair."
        ) from error
    with np.errstate(over="ignore"):
        wide = np.isfinite(high - low) & (low < high)
    if not wide.all():
        column = int(np.flatnonzero(~wide)[0])
        raise InvalidInput(
            "Expected finite bounds, the lower below the upper, and those of column "
            f"{column} are {low[column]:g} and {high[column]:g}: leave out what cannot vary."
        )
    return UnitBox(_own(low), _own(high))


def _own(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array(values)
