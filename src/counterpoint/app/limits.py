"""Limits of numbers, as the policy has them: in words, and whether those of a person contradict."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np

import counterpoint as cp
from counterpoint.app.words import number

__all__ = ["SliderLimits"]

STEPS = 100
"""About so many steps has a slider at most: they are told apart by a finger."""


@final
@dataclass(frozen=True)
class SliderLimits:
    """What the policy lets one feature become.

    Parameters
    ----------
    name
        The feature.
    low, high
        The smallest and the largest value, in feature units.
    fall, rise
        The largest moves from the person's value, in feature units.
    lowest, highest
        The ends of what the data show: who is beyond them may stay there.
    step
        Of the slider, in feature units.
    """

    name: str
    low: float = -math.inf
    high: float = math.inf
    fall: float = math.inf
    rise: float = math.inf
    lowest: float = -math.inf
    highest: float = math.inf
    step: float = 1.0

    @classmethod
    def of(
        cls, feature: cp.Continuous | cp.Integer | cp.Categorical, policy: cp.Explainer
    ) -> SliderLimits:
        """Return the limits that constraints put on a feature alone."""
        name = feature.name
        rules = (*policy.constraints, *policy.implied)
        bounds = [rule for rule in rules if isinstance(rule, cp.Bounds) and rule.feature == name]
        directions = {
            rule.direction
            for rule in rules
            if isinstance(rule, cp.Monotone) and rule.feature == name
        }
        lowest, highest = _observed(feature, rules)
        return cls(
            name=str(name),
            low=max([rule.low for rule in bounds], default=-math.inf),
            high=min([rule.high for rule in bounds], default=math.inf),
            fall=min(
                [rule.fall for rule in bounds] + [0.0] * ("increasing" in directions),
                default=math.inf,
            ),
            rise=min(
                [rule.rise for rule in bounds] + [0.0] * ("decreasing" in directions),
                default=math.inf,
            ),
            lowest=lowest,
            highest=highest,
            step=_step(feature),
        )

    @property
    def ends(self) -> tuple[float, float]:
        """Return the smallest and the largest value that somebody may be given."""
        return max(self.low, self.lowest), min(self.high, self.highest)

    @property
    def is_slider(self) -> bool:
        """Return whether both ends are known, and differ."""
        low, high = self.ends
        return math.isfinite(low) and math.isfinite(high) and low < high

    def __str__(self) -> str:
        """Say it in words, such as ``may be 1 to 60, may only rise``."""
        low, high = self.ends
        clauses = []
        if math.isfinite(low) and math.isfinite(high):
            clauses.append(f"may be {number(low)} to {number(high)}")
        elif math.isfinite(low) or math.isfinite(high):
            end = f"at least {number(low)}" if math.isfinite(low) else f"at most {number(high)}"
            clauses.append(f"may be {end}")
        clauses += self._moves()
        return ", ".join(clauses)

    def _moves(self) -> list[str]:
        fall, rise = (
            f"by at most {number(m)}" if math.isfinite(m) else "" for m in (self.fall, self.rise)
        )
        if self.fall == 0.0:
            return ["may only rise", *filter(None, [rise])]
        if self.rise == 0.0:
            return ["may only fall", *filter(None, [fall])]
        if fall and fall == rise:
            return [f"may rise or fall {fall}"]
        clauses = [f"{verb} {end}" for verb, end in (("rise", rise), ("fall", fall)) if end]
        return [f"may {' and '.join(clauses)}"] if clauses else []

    def reach(self, value: float) -> tuple[float, float]:
        """Return the smallest and the largest value that a person with this value may get to."""
        lowest, highest = min(self.lowest, value), max(self.highest, value)
        return (
            max(self.low, lowest, value - self.fall),
            min(self.high, highest, value + self.rise),
        )

    def refusal(self, low: float, high: float, value: float) -> str | None:
        """Return why ``low`` to ``high`` contradicts the policy for a person; None if it agrees."""
        least, most = self.reach(value)
        first, last = min(self.ends[0], value), max(self.ends[1], value)
        contrary = next(
            (end for end in (low, high) if math.isfinite(end) and not first <= end <= last), None
        )
        if contrary is None and low <= most and high >= least:
            return None
        if contrary is not None:
            end = f"{number(contrary)} is beyond that."
        elif low > most:
            end = f"it is {number(value)} now, so it cannot be at least {number(low)}."
        else:
            end = f"it is {number(value)} now, so it cannot be at most {number(high)}."
        return f"{self.name} {self}; {end}"


def _observed(
    feature: cp.Continuous | cp.Integer | cp.Categorical, rules: Iterable[cp.Constraint]
) -> tuple[float, float]:
    """Return the range of the data, where a number has to stay within it."""
    lowest, highest = -math.inf, math.inf
    if isinstance(feature, cp.Categorical) or feature.observed is None:
        return lowest, highest
    for rule in rules:
        if isinstance(rule, cp.WithinObserved) and feature.name in (
            rule.features or (feature.name,)
        ):
            stated = [bounds for bounds in rule.stated if bounds.feature == feature.name]
            if not any(math.isfinite(bounds.low) for bounds in stated):
                lowest = feature.observed[0]
            if not any(math.isfinite(bounds.high) for bounds in stated):
                highest = feature.observed[1]
    return lowest, highest


def _step(feature: cp.Continuous | cp.Integer | cp.Categorical) -> float:
    """Return the step of a slider: 1, 2 or 5 times a power of ten, or the whole steps if few."""
    unit = float(feature.step) if isinstance(feature, cp.Integer) else 0.0
    if isinstance(feature, cp.Categorical) or feature.observed is None:
        return unit or 1.0
    size = (feature.observed[1] - feature.observed[0]) / STEPS
    if not size > unit:
        return unit or 1.0
    size /= unit or 1.0
    decade = 10.0 ** math.floor(math.log10(size))
    multiple = np.array([1.0, 2.0, 5.0, 10.0])[np.searchsorted([1.0, 2.0, 5.0], size / decade)]
    return float(decade * multiple * (unit or 1.0))
