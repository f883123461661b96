"""A representation that is held to finite numbers, at rows and wherever they are moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput
from counterpoint.groups.representations import Representation

__all__ = ["Guarded"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Guarded(Representation):
    """The same representation; where it or its gradient is not finite, an error says so.

    Parameters
    ----------
    inner
        The representation.
    """

    inner: Representation

    @property
    def n_features(self) -> int:
        return self.inner.n_features

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        values, pull = self.inner.vjp(X)
        _require_finite(values)

        def back(C: FloatArray) -> FloatArray:
            slopes = pull(C)
            _require_finite(slopes)
            return slopes

        return values, back


def _require_finite(values: FloatArray) -> None:
    if not np.isfinite(values).all():
        raise InvalidInput(
            "Expected finite values from the representation, and finite derivatives, also where "
            "rows are moved to within the limits; got others. Scale the rows as those it was "
            "fitted on, or make it finite everywhere, as torch.log1p(x.clamp(min=0)) is."
        )
