"""What all forms share that decide by scores: the classes that a target wants, and rounding."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput, shown
from counterpoint.models.form import EPS, Magnitude
from counterpoint.targets import Target

__all__ = ["EPS", "mask", "rounding", "split"]

FloatArray = NDArray[np.float64]

COARSE = 64.0
"""Steps of a bound between powers of two: it grows by less than 1/32."""


def rounding(X: FloatArray, magnitude: Magnitude, eps: float) -> FloatArray:
    """(n,) twice a bound on the rounding error of a difference of two scores.

    A sum of t products has an error of at most t · eps / 2 times the size of its terms; that X was
    itself rounded counts as well, see `Form.noise`.
    """
    bound = (magnitude.terms + 4) * eps * magnitude(X).max(axis=1) * 2.0
    # Few bits, rounded up: or the last ones, and with them an answer, would depend on how many
    # rows are multiplied at once.
    mantissa, exponent = np.frexp(bound)
    return np.ldexp(np.ceil(mantissa * COARSE) / COARSE, exponent)


def split(
    target: Target, classes: NDArray[Any], fitting: str, known: str = "the classes"
) -> tuple[NDArray[np.bool_], float]:
    """(k,) which classes are wanted, and the margin that is asked for.

    Parameters
    ----------
    target
        What is wanted.
    classes
        (k,) labels.
    fitting
        The targets that fit the form, for the message.
    known
        What to call the classes in it.
    """
    asked = target.requirement
    if not asked.labels or asked.probable or asked.chance is not None:
        raise target.misfit("a classifier", fitting)
    wanted = mask(asked.labels, classes, known) ^ asked.others
    if wanted.all() or not wanted.any():
        raise InvalidInput(
            f"Expected a target that leaves some class out and some in; {target!r} does not among "
            f"{known} {classes.tolist()!r}."
        )
    return wanted, asked.margin


def mask(
    labels: Sequence[Hashable], classes: NDArray[Any], known: str = "the classes"
) -> NDArray[np.bool_]:
    """(k,) which classes are among the labels; an unknown label is an `InvalidInput`."""
    listed = classes.tolist()
    found = np.zeros(len(listed), dtype=bool)
    for label in labels:
        value = label.item() if isinstance(label, np.generic) else label
        if value not in listed:
            raise InvalidInput(f"Expected a target among {known} {listed!r}; got {shown(value)}.")
        found[listed.index(value)] = True
    return found
