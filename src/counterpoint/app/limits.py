"""Put the policy in words: its rules, its cost, and limits of numbers that a person may narrow."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd

import counterpoint as cp
from counterpoint.app.words import few, number
from counterpoint.problem.constraints import named


@final
@dataclass(frozen=True)
class SliderLimits:
    """The limits of the policy on the values of one feature.

    Parameters
    ----------
    name
        The feature.
    low, high
        The smallest and the largest value, in feature units.
    fall, rise
        The largest moves from the person's value, in feature units.
    lowest, highest
        The ends of what the data show: a person beyond them may stay there.
    step
        Of the slider, in feature units.
    """

    name: str
    low: float
    high: float
    fall: float
    rise: float
    lowest: float
    highest: float
    step: float

    @classmethod
    def of(
        cls, feature: cp.Continuous | cp.Integer | cp.Categorical, policy: cp.Explainer
    ) -> SliderLimits:
        """Return the limits that constraints put on a feature alone."""
        name, inf = feature.name, math.inf
        observed = None if isinstance(feature, cp.Categorical) else feature.observed
        low, high, fall, rise, lowest, highest = -inf, inf, inf, inf, -inf, inf
        for rule in (*policy.constraints, *policy.implied):
            if isinstance(rule, cp.Bounds) and rule.feature == name:
                low, high = max(low, rule.low), min(high, rule.high)
                fall, rise = min(fall, rule.fall), min(rise, rule.rise)
            elif isinstance(rule, cp.Monotone) and rule.feature == name:
                increasing = rule.direction == "increasing"
                fall, rise = (0.0, rise) if increasing else (fall, 0.0)
            elif isinstance(rule, cp.WithinObserved) and name in (rule.features or (name,)):
                # a bound that is stated holds in the place of an end of the data
                stated = [bounds for bounds in rule.stated if bounds.feature == name]
                if observed and not any(math.isfinite(bounds.low) for bounds in stated):
                    lowest = observed[0]
                if observed and not any(math.isfinite(bounds.high) for bounds in stated):
                    highest = observed[1]
        whole_step = float(feature.step) if isinstance(feature, cp.Integer) else 0.0
        step = _slider_step(whole_step, observed)
        return cls(str(name), low, high, fall, rise, lowest, highest, step)

    @property
    def ends(self) -> tuple[float, float]:
        """Return the smallest and the largest value that an answer may have for any person."""
        return max(self.low, self.lowest), min(self.high, self.highest)

    @property
    def is_slider(self) -> bool:
        """Return whether both ends are known, and differ."""
        low, high = self.ends
        return -math.inf < low < high < math.inf

    def __str__(self) -> str:
        """Say it in words, such as ``may be 1 to 60, may only rise``."""
        low, high = (number(end) if math.isfinite(end) else "" for end in self.ends)
        clauses = [f"may be {low} to {high}"] if low and high else []
        if not clauses and (low or high):
            clauses = [f"may be at least {low}" if low else f"may be at most {high}"]
        fall, rise = (
            f"by at most {number(m)}" if math.isfinite(m) else "" for m in (self.fall, self.rise)
        )
        if self.fall == 0.0 or self.rise == 0.0:
            verb, most = ("rise", rise) if self.fall == 0.0 else ("fall", fall)
            clauses += [f"may only {verb}", *filter(None, [most])]
        elif fall and fall == rise:
            clauses.append(f"may rise or fall {fall}")
        elif fall or rise:
            moves = [f"{verb} {end}" for verb, end in (("rise", rise), ("fall", fall)) if end]
            clauses.append(f"may {' and '.join(moves)}")
        return ", ".join(clauses)

    def reach(self, value: float) -> tuple[float, float]:
        """Return the smallest and the largest value that a person with this value may get to."""
        lowest, highest = min(self.lowest, value), max(self.highest, value)
        return (
            max(self.low, lowest, value - self.fall),
            min(self.high, highest, value + self.rise),
        )

    def refusal(self, low: float, high: float, value: float) -> str | None:
        """Return why ``low`` to ``high`` contradicts the policy for a person; None if it agrees."""
        smallest, largest = min(self.ends[0], value), max(self.ends[1], value)
        for end in (low, high):
            if math.isfinite(end) and not smallest <= end <= largest:
                return f"{self.name} {self}; {number(end)} is beyond that."
        least, most = self.reach(value)
        if low <= most and high >= least:
            return None
        demand = f"at least {number(low)}" if low > most else f"at most {number(high)}"
        return f"{self.name} {self}; it is {number(value)} now, so it cannot be {demand}."


def _slider_step(whole_step: float, observed: tuple[float, float] | None) -> float:
    """Return the step of a slider over the range of the data; ``whole_step`` is 0 if any will do.

    It is 1, 2 or 5 times a power of ten, in whole steps if there are any: the least such that
    a slider has at most about 100 steps, which a finger can tell apart.
    """
    low, high = observed or (0.0, 0.0)
    least, unit = (high - low) / 100, whole_step or 1.0
    if not least > whole_step:
        return unit
    decade = 10.0 ** math.floor(math.log10(least / unit))
    index = np.searchsorted([1.0, 2.0, 5.0], least / unit / decade)
    return float(decade * np.array([1.0, 2.0, 5.0, 10.0])[index] * unit)


def rule_in_words(rule: cp.Constraint) -> str:
    """Return what a constraint says, without how to lift it in Python."""
    if isinstance(rule, cp.WithinObserved):
        return str(cp.WithinObserved(*rule.features))
    return str(rule)


def weights_of(cost: cp.Cost, names: Sequence[Hashable]) -> dict[Hashable, float]:
    """Name → weight of a cost that has one for each of all features; empty for others."""
    if not isinstance(cost, cp.Manhattan | cp.SquaredEuclidean):
        return {}
    weights: Any = {} if cost.weights is None else cost.weights
    if isinstance(weights, Mapping | pd.Series):
        weights = [weights.get(name, 1.0) for name in names]
    if any(isinstance(weight, Mapping) for weight in weights):
        return {}
    return dict(zip(names, map(float, weights), strict=True))


def cost_in_words(cost: cp.Cost, weights: Mapping[Hashable, float], features: Iterable[Any]) -> str:
    """Say what the cost adds up, with the first of some features as examples."""
    if isinstance(cost, cp.PercentileShift):
        return "The cost adds up what share of the data each change moves past."
    if isinstance(cost, cp.Mahalanobis):
        return "The cost is a distance in which features that go together count once."
    if not weights:
        return "The cost adds up what the policy says of each change."
    is_squared, examples = isinstance(cost, cp.SquaredEuclidean), []
    for feature in features:
        weight = weights[feature.name]
        if isinstance(feature, cp.Categorical):
            examples.append(f"{few(weight)} for another {feature.name}")
        else:
            amount = few(1.0 / (math.sqrt(weight) if is_squared else weight))
            unit = "unit" if amount == "1" else amount
            examples.append(f"1 for every {unit} of {feature.name}")
    if not examples:
        return "No change costs anything."
    total = "the squares of its changes" if is_squared else "its changes"
    first = ", ".join([*examples[:3], "and so on"]) if len(examples) > 3 else named(examples)
    return f"The cost of a plan adds up {total}: {first}."
