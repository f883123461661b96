"""What the parameters of a private model may be, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput
from counterpoint.privacy.maps import UnitBox

__all__ = ["box_of", "check"]


def _number(value: Any, low: float, *, above: bool) -> bool:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return False
    number = float(value)
    return bool(np.isfinite(number)) and (number > low if above else number >= low)


def _whole(value: Any, low: int) -> bool:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and int(value) >= low


def _positive(value: Any) -> bool:
    return _number(value, 0.0, above=True)


def _one_of(*words: str) -> tuple[Callable[[Any], bool], str]:
    return lambda value: isinstance(value, str) and value in words, " or ".join(map(repr, words))


def _or_none(admits: Callable[[Any], bool], words: str) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value is None or admits(value), f"None or {words}"


CALIBRATED = 1e4
"""Up to this ε the map of OpenDP from normal noise to (ε, δ) does not overflow."""
ABOVE = (_positive, "a finite number above 0")
RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "epsilon": ABOVE,
    "C": ABOVE,
    "feature_map": _one_of("linear", "fourier"),
    "mechanism": _one_of("laplace", "gamma", "gaussian"),
    "sensitivity": _one_of("tight", "rubinstein"),
    "delta": _or_none(lambda v: _positive(v) and v < 1.0, "a number above 0 and below 1"),
    "n_components": (lambda v: _whole(v, 1), "a whole number of at least 1"),
    "gamma": _or_none(*ABOVE),
    "intercept_scaling": _or_none(
        lambda v: _number(v, 0.0, above=False), "a finite number of at least 0"
    ),
    "tol": ABOVE,
    "max_iter": (lambda v: _whole(v, 1), "a whole number of at least 1"),
    "trust_data": (lambda v: isinstance(v, bool | np.bool_), "True or False"),
    "insecure_noise_seed": _or_none(lambda v: _whole(v, 0), "a whole number of at least 0"),
}


def check(owner: str, values: Mapping[str, Any]) -> None:
    """Hold the parameters of an estimator against their rules.

    Raises
    ------
    InvalidInput
        If one of them breaks its rule, or two of them contradict each other.
    """
    for name, (admits, words) in RULES.items():
        if not admits(values[name]):
            raise InvalidInput(
                f"{owner} expects {name} to be {words}, and got {values[name]!r}: pass another "
                "value."
            )
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
