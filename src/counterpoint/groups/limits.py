"""What a change may be, and what it costs, feature by feature."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.errors import InvalidInput
from counterpoint.numerics import FloatArray, IntArray
from counterpoint.rows.features import unknown_name

__all__ = ["Limits", "prices"]

Bound = float | tuple[float, float]


@final
@dataclass(frozen=True)
class Limits:
    """Bounds on the change of each feature between any two groups.

    Parameters
    ----------
    times
        The largest change in units of the range of the group means; infinite for none. The
        difference of means is within it from 1 on.
    bounds
        Name or position → the largest change up or down in feature units, in place of that: a
        number, or the two ends (low, high). Every change has its opposite, so that both are held
        within the nearer of the two. Here and below, the name of a column of categories stands for
        all of them, and ``home=own`` for one.
    immutable
        Names or positions of features that stay.
    rising, falling
        Names or positions of features that may only rise, or only fall, from each group to those
        after it, in the order of the groups.
    """

    times: float = 1.5
    bounds: Mapping[Hashable, Bound] = field(default_factory=dict)
    immutable: Sequence[Hashable] = ()
    rising: Sequence[Hashable] = ()
    falling: Sequence[Hashable] = ()

    def reach(self, means: FloatArray, names: tuple[Hashable, ...]) -> FloatArray:
        """(d,) the largest change of each feature, in feature units, from the means of groups."""
        if not _number(self.times) >= 0.0:
            raise InvalidInput(f"Expected times of at least 0; got {self.times!r}. Pass 1.5, say.")
        span = np.ptp(means, axis=0)
        reach = np.where(span > 0.0, self.times, 0.0) * np.where(span > 0.0, span, 1.0)
        for name, bound in self.bounds.items():
            given: Any = bound
            is_pair = isinstance(given, tuple | list) and len(given) == 2
            low, high = map(_number, given) if is_pair else (-_number(given), _number(given))
            if not low <= 0.0 <= high:
                raise InvalidInput(
                    f"Expected the bounds of {name!r} to hold 0, the change from a group to "
                    f"itself; got {bound!r}. Pass the largest change, or (low, high) with low <= 0 "
                    "<= high."
                )
            reach[_places(name, names)] = min(-low, high)
        reach[_listed(self.immutable, "immutable", names)] = 0.0
        return reach

    def monotone(self, names: tuple[Hashable, ...]) -> IntArray:
        """(d,) 1 for features that only rise, −1 for those that only fall, 0 for others."""
        monotone = np.zeros(len(names), dtype=np.intp)
        monotone[_listed(self.rising, "rising", names)] = 1
        falling = _listed(self.falling, "falling", names)
        if (monotone[falling] != 0).any():
            both = names[falling[np.flatnonzero(monotone[falling])[0]]]
            raise InvalidInput(
                f"Expected features to rise or to fall; {both!r} is to do both. Make it immutable "
                "if it is to stay."
            )
        monotone[falling] = -1
        return monotone


def prices(
    costs: ArrayLike | Mapping[Hashable, float] | None,
    spread: FloatArray,
    names: tuple[Hashable, ...],
) -> FloatArray:
    """(d,) what a change of one unit costs; by default 1 for each standard deviation."""
    price = 1.0 / np.where(spread > 0.0, spread, 1.0)
    if isinstance(costs, Mapping):
        for name, cost in costs.items():
            price[_places(name, names)] = _number(cost)
    elif costs is not None:
        given = np.asarray(costs)
        if given.shape != (len(names),) or given.dtype.kind not in "biuf":
            raise InvalidInput(
                f"Expected a cost for each of {len(names)} features; got {given.dtype} of shape "
                f"{given.shape}. Pass a flat sequence of numbers, or a mapping from names."
            )
        price = given.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(price) & (price > 0.0)))
    if len(wrong):
        raise InvalidInput(
            f"Expected positive costs; got {price[wrong[0]]} for {names[wrong[0]]!r}. Make a "
            "feature that must not change immutable."
        )
    return price


def _places(name: Any, names: tuple[Hashable, ...]) -> list[int]:
    """The positions of a feature, by its name or its position; of categories there are several."""
    if name in names:
        return [names.index(name)]
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        if 0 <= name < len(names):
            return [int(name)]
        raise InvalidInput(
            f"Expected a position below {len(names)}; got {name!r}. Positions begin at 0."
        )
    found = [i for i, one in enumerate(names) if str(one).startswith(f"{name}=")]
    if not found:
        raise InvalidInput(unknown_name(name, names))
    return found


def _listed(given: Sequence[Hashable], what: str, names: tuple[Hashable, ...]) -> IntArray:
    """The positions of several features."""
    if isinstance(given, str):
        raise InvalidInput(f"Expected a list of names in {what}; got {given!r}. Pass [{given!r}].")
    found = [place for name in given for place in _places(name, names)]
    return np.array(found, dtype=np.intp)


def _number(value: Any) -> float:
    """NaN for what is no number."""
    return float(value) if isinstance(value, int | float | np.number) else float("nan")
