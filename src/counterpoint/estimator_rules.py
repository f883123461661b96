"""What the parameters of an estimator may be, as data, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from counterpoint.errors import InvalidInput, shown

__all__ = ["Rule", "check", "flag", "number", "one_of", "or_none", "whole"]

Rule = tuple[Callable[[Any], bool], str]
"""Whether a value is admitted, and the values that are, in words."""


def number(low: float, *, above: bool = False, below: float = np.inf) -> Rule:
    """A finite number of at least ``low``, or above it; and below another."""

    def admits(value: Any) -> bool:
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            return False
        try:
            size = float(value)
        except OverflowError:
            return False
        return bool(np.isfinite(size)) and (size > low if above else size >= low) and size < below

    words = f"{'above' if above else 'of at least'} {low:g}"
    if below == np.inf:
        return admits, f"a finite number {words}"
    return admits, f"a number {words} and below {below:g}"


def whole(low: int) -> Rule:
    """A whole number of at least ``low``."""

    def admits(value: Any) -> bool:
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        return is_whole and int(value) >= low

    return admits, f"a whole number of at least {low}"


def one_of(*options: str) -> Rule:
    """One of some words."""

    def admits(value: Any) -> bool:
        return isinstance(value, str) and value in options

    return admits, " or ".join(map(repr, options))


def flag() -> Rule:
    """True or False."""
    return lambda value: isinstance(value, bool | np.bool_), "True or False"


def or_none(rule: Rule) -> Rule:
    """None, or what a rule admits."""
    admits, words = rule
    return lambda value: value is None or admits(value), f"None or {words}"


def check(owner: str, values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Check those parameters of an estimator that have a rule.

    Raises
    ------
    InvalidInput
        If one of them breaks its rule.
    """
    for name in (name for name in rules if name in values):
        admits, words = rules[name]
        if not admits(values[name]):
            raise InvalidInput(
                f"{owner} expects {name} to be {words}, and got {shown(values[name])}: pass "
                "another value."
            )
