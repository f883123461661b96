"""Relations between features as people write them: ``2 * a + b <= 3``."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping

import numpy as np

from counterpoint.errors import InvalidInput

__all__ = ["parse_relation"]


def parse_relation(text: str) -> tuple[dict[Hashable, float], float, float]:
    """Coefficients, and the bounds on their sum.

    Raises
    ------
    InvalidInput
        If the text is no relation.
    """
    quoted = dict(enumerate(re.findall(r"`([^`]*)`", text)))
    plain = text
    for at, name in quoted.items():
        plain = plain.replace(f"`{name}`", f"`{at}`", 1)
    sides = re.split(r"(<=|>=|==)", plain)
    if len(sides) != 3:
        raise InvalidInput(
            f"Expected a relation with one of <=, >= and ==, such as 'a + 2 * b <= 3'; "
            f"got {text!r}."
        )
    left, left_constant = _terms(sides[0], text, quoted)
    right, right_constant = _terms(sides[2], text, quoted)
    coefficients = dict(left)
    for name, value in right.items():
        coefficients[name] = coefficients.get(name, 0.0) - value
    bound = right_constant - left_constant
    low = -np.inf if sides[1] == "<=" else bound
    high = np.inf if sides[1] == ">=" else bound
    return coefficients, low, high


_TERM = re.compile(r"^(?:(?P<number>[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*\*\s*)?(?P<name>.+)$")


def _terms(side: str, text: str, quoted: Mapping[int, str]) -> tuple[dict[Hashable, float], float]:
    """Coefficients and the constant of one side of a relation."""
    coefficients: dict[Hashable, float] = {}
    constant = 0.0
    sign = 1.0
    for part in re.split(r"(?:^|(?<=\s))([+-])(?=\s)|^(-)", f"{side.strip()} "):
        piece = (part or "").strip()
        if piece in ("+", "-"):
            sign = -sign if piece == "-" else sign
            continue
        if not piece:
            continue
        number, name = _term(piece, text)
        if name is None:
            constant += sign * number
        else:
            name = quoted[int(name[1:-1])] if re.fullmatch("`[0-9]+`", name) else name
            coefficients[name] = coefficients.get(name, 0.0) + sign * number
        sign = 1.0
    return coefficients, constant


def _term(piece: str, text: str) -> tuple[float, str | None]:
    try:
        return float(piece), None
    except ValueError:
        match = _TERM.match(piece)
    if match is None or "*" in match["name"]:
        raise InvalidInput(f"Cannot read the term {piece!r} of {text!r}; write it as '2 * name'.")
    return float(match["number"] or 1.0), match["name"].strip()
