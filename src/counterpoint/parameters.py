"""What targets are made of, side by side: labels, and the numbers that they vary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, final

import numpy as np

from counterpoint.targets import Label, Target

__all__ = ["Parameters"]

LABELS = ("label", "than")
NUMBERS = ("weight", "at_least", "probability", "margin", "low", "high")
"""The fields of targets, in the order in which frames show them."""
COLUMN = {"probability": "asked"}
"""What frames call fields by whose names they call something else."""
SHOWN = 3
"""Targets that are named, if they differ in more than one number."""


@final
@dataclass(frozen=True)
class Parameters:
    """The fields of some targets.

    Parameters
    ----------
    targets
        One or more.
    """

    targets: tuple[Target, ...]

    @cached_property
    def made(self) -> tuple[dict[str, Any], ...]:
        """The fields of each target."""
        return tuple(map(_fields, self.targets))

    @property
    def varied(self) -> str | None:
        """The one number in which the targets differ; None if they differ otherwise."""
        first, names = self.made[0], set[str]()
        for other in self.made:
            if other.keys() != first.keys():
                return None
            names |= {name for name in first if other[name] != first[name]}
        names = names or {name for name in NUMBERS if np.isfinite(first.get(name, np.inf))}
        return names.pop() if len(names) == 1 and names <= set(NUMBERS) else None

    def columns(self) -> dict[str, list[Any]]:
        """Field → its value in each target: None or NaN where there is none."""
        out: dict[str, list[Any]] = {}
        for name in LABELS:
            if any(name in target for target in self.made):
                out[name] = _alike([target.get(name) for target in self.made])
        for name in NUMBERS:
            numbers = [float(target.get(name, np.nan)) for target in self.made]
            if np.isfinite(numbers).any():
                out[COLUMN.get(name, name)] = numbers
        return out

    def __str__(self) -> str:
        """The number that varies, from where to where; else the first targets."""
        varied = self.varied
        if varied is None or len(self.targets) == 1:
            more = len(self.targets) - SHOWN
            shown = "; ".join(map(_words, self.targets[:SHOWN]))
            return f"{shown}; and {more} more" if more > 0 else shown
        ends = f"{self.made[0][varied]:g} to {self.made[-1][varied]:g}"
        return f"{_words(self.targets[0], varied)} with {varied} from {ends}"


def _fields(target: Target) -> dict[str, Any]:
    """The fields of a target: labels as plain values, several of them as a tuple."""
    made = {f.name: getattr(target, f.name) for f in fields(target)}  # type: ignore[arg-type]
    for name in LABELS:
        if made.get(name) is not None:
            labels = tuple(map(_plain, Label(made[name]).labels))
            made[name] = labels[0] if len(labels) == 1 else labels
    return made


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _alike(labels: Sequence[Any]) -> list[Any]:
    """Labels of one type as they are; of several types, and sets of them, as text."""
    kinds = {type(label) for label in labels if label is not None}
    if len(kinds) <= 1 and tuple not in kinds:
        return list(labels)
    return [None if label is None else ", ".join(map(str, Label(label).labels)) for label in labels]


def _words(target: Target, without: str = "") -> str:
    """A target as one would write it, but for fields that are as they always are."""
    usual = {f.name: f.default for f in fields(target)}  # type: ignore[arg-type]
    made = {n: v for n, v in _fields(target).items() if n != without and v != usual[n]}
    shown = (f"{n}={v:g}" if n in NUMBERS else f"{n}={v!r}" for n, v in made.items())
    return f"{type(target).__name__}({', '.join(shown)})"
