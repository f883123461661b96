"""Put values and messages in words, for people who do not read Python."""

from __future__ import annotations

import math
import re
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import numpy as np

from counterpoint.rows.cells import is_missing

PYTHON = re.compile(r"\w=\S|\bcp\.|\b(Categorical|Explainer|Integer|Continuous|dtype)\b")
"""Parts of sentences that only those can follow who write Python."""
POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 6) -> str:
    """Return a number with so many significant digits, and no exponent as programs write it.

    Whole numbers keep all of theirs.
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "missing"
    if value == 0.0 or (value == int(value) and abs(value) < 1e15):
        return str(int(value))
    text = f"{value:.{digits}g}"
    if 1e-4 <= abs(value) < 1e15:
        return np.format_float_positional(float(text), trim="-")
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").removesuffix(".")
    return f"{mantissa} × 10{str(int(exponent)).translate(POWERS)}"


def few(value: float) -> str:
    """Return a cost with three significant digits; what only rounding leaves of one is 0."""
    return "0" if abs(value) < 1e-9 else number(float(f"{value:.3g}"), 3)


def least(value: float) -> str:
    """Return a lower bound on a cost with three significant digits, never rounded up."""
    if value < 1e-9:
        return "0"
    unit = Decimal(1).scaleb(Decimal(value).adjusted() - 2)
    return number(float(Decimal(value).quantize(unit, ROUND_FLOOR)), 3)


def percent(probability: float) -> str:
    """Return a probability in percent, never rounded up: 0.4999 is no half."""
    return f"{number(math.floor(1e3 * probability + 1e-9) / 10, 3)} %"


def plain(value: Any) -> str:
    """Return a cell, a category or a label as people write it."""
    if is_missing(value) or value != value:  # noqa: PLR0124 (a decimal that is NaN)
        return "missing"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return number(float(value)) if isinstance(value, float) else str(value)


def clipped(text: str) -> str:
    """Return a text, cut at 500 characters: a longer one quotes what a client has sent."""
    return text if len(text) <= 500 else f"{text[:498]} …"


def readable(text: str) -> str:
    """Return a message of the library without its advice in Python."""
    text = re.sub(r"^problem(, [^:]*)?: ", "", text)  # where in a policy file it would be
    first, *advice = re.split(r"(?<=\.) ", clipped(text))
    sentences = [first, *(sentence for sentence in advice if not PYTHON.search(sentence))]
    quoted = re.sub(r"(?<!\w)'([^']*)'(?!\w)", r"“\1”", " ".join(sentences))
    return re.sub(r" \([^()]*\b\w+=[^()]*\)", "", quoted)
