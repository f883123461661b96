"""Relations between features as people write them: ``2 * a + b <= 3``."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator

import numpy as np

from counterpoint.errors import InvalidInput

__all__ = ["parse_relation"]


def parse_relation(text: str) -> tuple[dict[Hashable, float], float, float]:
    """Coefficients, and the bounds on their sum."""
    quoted: list[str] = []

    def numbered(name: re.Match[str]) -> str:
        quoted.append(name[1])
        return f"`{len(quoted) - 1}`"

    sides = re.split("(<=|>=|==)", re.sub("`([^`]*)`", numbered, text))
    if len(sides) != 3:
        raise InvalidInput(
            f"Expected a relation with one of <=, >= and ==, such as 'a + 2 * b <= 3'; "
            f"got {text!r}."
        )
    coefficients: dict[Hashable, float] = {}
    bound = 0.0
    for side, sign in ((sides[0], 1.0), (sides[2], -1.0)):
        for number, name in _terms(side, text):
            if name is None:
                bound -= sign * number
            else:
                key = quoted[int(name[1:-1])] if re.fullmatch("`[0-9]+`", name) else name
                coefficients[key] = coefficients.get(key, 0.0) + sign * number
    low = -np.inf if sides[1] == "<=" else bound
    high = np.inf if sides[1] == ">=" else bound
    return coefficients, low, high


def _terms(side: str, text: str) -> Iterator[tuple[float, str | None]]:
    """Number and name of each term of one side; a constant has no name."""
    sign = 1.0
    for part in re.split(r"(?:^|(?<=\s))([+-])(?=\s)|^(-)", f"{side.strip()} "):
        piece = (part or "").strip()
        if piece in ("+", "-"):
            sign = -sign if piece == "-" else sign
        elif piece:
            number, name = _term(piece, text)
            yield sign * number, name
            sign = 1.0


def _term(piece: str, text: str) -> tuple[float, str | None]:
    try:
        return float(piece), None
    except ValueError:
        number = r"(?:(?P<number>[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*\*\s*)?"
        match = re.match(rf"^{number}(?P<name>.+)$", piece)
    if match is None or "*" in match["name"]:
        raise InvalidInput(f"Cannot read the term {piece!r} of {text!r}; write it as '2 * name'.")
    return float(match["number"] or 1.0), match["name"].strip()
