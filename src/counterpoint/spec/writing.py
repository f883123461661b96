"""From costs, constraints, targets and features to tables, and from tables to TOML."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from counterpoint.constraints import Constraint, Linear
from counterpoint.errors import InvalidInput, InvalidSpec
from counterpoint.spec.kinds import KINDS, kind_of
from counterpoint.spec.places import Place, a_label, a_text
from counterpoint.targets import Label, Target

__all__ = ["toml", "written", "written_constraint", "written_target"]

NAMES = Place("problem", ("feature names",))


def written(value: Any) -> dict[str, Any]:
    """A table with the kind and the parameters that differ from their defaults."""
    cls = type(value)
    if not any(cls in kinds.entries for kinds in KINDS.values()):
        raise InvalidSpec(
            f"A {cls.__name__} cannot be written to a file; it has no entry in "
            "counterpoint.spec.KINDS."
        )
    table: dict[str, Any] = {"kind": kind_of(cls)}
    for name, parameter in inspect.signature(cls).parameters.items():
        given = getattr(value, name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            default: Any = ()
        else:
            default = parameter.default
        if type(given) is not type(default) or given != default:
            table[name] = _plain(given)
    return table


def written_target(target: Target) -> Any:
    """A plain label, or a list of them, where that says it; else a table."""
    if isinstance(target, Label) and target.margin == 0.0:
        return _plain(target.label)
    return written(target)


def written_constraint(constraint: Constraint) -> Any:
    """A linear relation as text, if the text says the same; else a table."""
    if isinstance(constraint, Linear):
        text = _relation(constraint)
        if text is not None:
            return text
    return written(constraint)


def _relation(linear: Linear) -> str | None:
    sides = {"<=": linear.high, ">=": linear.low}
    if linear.low == linear.high:
        sides = {"==": linear.high}
    bounds = [(sign, bound) for sign, bound in sides.items() if np.isfinite(bound)]
    if len(bounds) != 1:
        return None
    terms = [
        ("+" if c >= 0 else "-", str(name) if abs(c) == 1 else f"{_short(abs(c))} * {name}")
        for name, c in linear.coefficients.items()
    ]
    left = " ".join(f"{sign} {term}" for sign, term in terms).removeprefix("+ ")
    text = f"{left} {bounds[0][0]} {_short(bounds[0][1])}"
    try:
        return text if Linear.parse(text) == linear else None
    except InvalidInput:
        return None


def _short(number: float) -> str:
    return f"{number:g}" if float(f"{number:g}") == number else repr(float(number))


def _plain(value: Any) -> Any:
    """Dicts with text for keys, lists, text and numbers."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {a_text(_plain(k), NAMES): _plain(v) for k, v in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=lambda v: (type(v).__name__, v))
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return a_label(value, Place("problem"))


def toml(data: Mapping[str, Any]) -> str:
    """Top-level values first, then a table for each key, one below it for each feature."""
    lines: list[str] = []
    for key, value in data.items():
        if key == "constraints":
            lines += ["constraints = [", *(f"    {_inline(c)}," for c in value), "]"]
        elif not isinstance(value, Mapping):
            lines.append(f"{key} = {_inline(value)}")
    tables = {key: value for key, value in data.items() if isinstance(value, Mapping)}
    features = tables.pop("features", {})
    tables |= {f"features.{_key(name)}": table for name, table in features.items()}
    for head, table in tables.items():
        lines += [*([""] if lines else []), f"[{head}]"]
        lines += [f"{_key(key)} = {_inline(value)}" for key, value in table.items()]
    return "".join(f"{line}\n" for line in lines)


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(k)} = {_inline(v)}" for k, v in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _inline(name)
