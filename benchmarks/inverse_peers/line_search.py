"""Line searches: backtracking as the paper has it, strong Wolfe conditions, a constant step.

Where E cannot fall any more in double precision the slopes decide; a step of 0 says that there is
none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import copysign, sqrt
from typing import final

from inverse_peers.problem import Line

FACTOR = 0.8
SHORTEST = 1e-18
GROWTH = 2.0
MOST = 60


class Search(ABC):
    """How a step is found."""

    @abstractmethod
    def __call__(self, line: Line, energy: float, slope: float, first: float) -> tuple[float, int]:
        """Move the line to a step; E there, and the number of trials.

        Parameters
        ----------
        line
            What is searched.
        energy, slope
            E and dE/dα at α = 0.
        first
            A step that a method thinks is good; not every search asks.
        """


@final
class Backtracking(Search):
    """From α = 1, 0.8 times the step until E falls."""

    def __call__(self, line: Line, energy: float, slope: float, first: float) -> tuple[float, int]:
        value = line.at(1.0)
        if value < energy:
            return value, 1
        step, trials, noise = 1.0, 1, line.noise(energy)
        while not (value < energy or (value <= energy + noise and abs(line.slope()) < abs(slope))):
            step *= FACTOR
            if step < SHORTEST:
                return line.at(0.0), trials
            value = line.at(step)
            trials += 1
        return value, trials


BACKTRACKING = Backtracking()


@final
@dataclass(frozen=True)
class Constant(Search):
    """Always the same step."""

    step: float

    def __call__(self, line: Line, energy: float, slope: float, first: float) -> tuple[float, int]:
        return line.at(self.step), 1


@dataclass(frozen=True)
class _Trial:
    step: float
    value: float
    slope: float


@final
@dataclass(frozen=True)
class StrongWolfe(Search):
    """Algorithms 3.5 and 3.6 of Nocedal and Wright, with cubic interpolation.

    Parameters
    ----------
    decrease, flatness
        c₁ and c₂.
    """

    decrease: float = 1e-4
    flatness: float = 0.9

    def __call__(self, line: Line, energy: float, slope: float, first: float) -> tuple[float, int]:
        start = before = _Trial(0.0, energy, slope)
        noise = line.noise(energy)
        step = first
        for trials in range(1, MOST):
            now = _trial(line, step)
            if self._is_high(now, start, noise) or now.value > before.value + noise:
                return self._zoom(line, start, (before, now), trials)
            if abs(now.slope) <= -self.flatness * slope:
                return now.value, trials
            if now.slope >= 0.0:
                return self._zoom(line, start, (now, before), trials)
            before = now
            step *= GROWTH
        return before.value, MOST - 1

    def _is_high(self, trial: _Trial, start: _Trial, noise: float) -> bool:
        return trial.value > start.value + self.decrease * trial.step * start.slope + noise

    def _zoom(
        self, line: Line, start: _Trial, ends: tuple[_Trial, _Trial], trials: int
    ) -> tuple[float, int]:
        low, high = ends
        noise = line.noise(start.value)
        while trials < MOST:
            now = _trial(line, _between(low, high))
            trials += 1
            if self._is_high(now, start, noise) or now.value > low.value + noise:
                high = now
                continue
            if abs(now.slope) <= -self.flatness * start.slope:
                return now.value, trials
            if now.slope * (high.step - low.step) >= 0.0:
                high = low
            low = now
        return line.at(low.step), trials


def _trial(line: Line, step: float) -> _Trial:
    value = line.at(step)
    return _Trial(step, value, line.slope())


def _between(low: _Trial, high: _Trial) -> float:
    """The minimum of the cubic through both ends; the middle, if that is close to an end."""
    width = high.step - low.step
    middle = low.step + 0.5 * width
    mixed = low.slope + high.slope - 3.0 * (high.value - low.value) / width
    inside = mixed * mixed - low.slope * high.slope
    if inside < 0.0:
        return middle
    root = copysign(sqrt(inside), width)
    below = high.slope - low.slope + 2.0 * root
    if below == 0.0:
        return middle
    share = 1.0 - (high.slope + root - mixed) / below
    return low.step + share * width if 0.1 <= share <= 0.9 else middle
