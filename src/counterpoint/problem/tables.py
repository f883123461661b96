"""Read and write the tables of a policy file; `counterpoint.problem.policy` reads whole files.

A *reader* turns a value of the file into an argument, or raises the error that names its place.
`kinds` lists the readers of all parameters of all classes that a file may hold.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from counterpoint.errors import InvalidInput, InvalidSpec, by_name
from counterpoint.families.registry import families
from counterpoint.problem.constraints import CONSTRAINTS, Constraint, Linear
from counterpoint.problem.costs import (
    Cost,
    Mahalanobis,
    Manhattan,
    PercentileShift,
    SquaredEuclidean,
)
from counterpoint.problem.targets import Interval, Label, OtherLabel, Probability, Target, Tradeoff
from counterpoint.rows.features import Categorical, Continuous, Feature, Integer

# Readers


def wrong(place: str, expected: str, got: object, advice: str = "") -> InvalidSpec:
    """Return the error for a value at a place of the file that is not the expected one."""
    text = repr(got) if len(repr(got)) <= 60 else f"{repr(got)[:57]}..."
    return InvalidSpec(f"{place}: expected {expected}; got {text}.{advice and f' {advice}'}")


def made_at(place: str, make: Callable[..., Any], *args: Any, **values: Any) -> Any:
    """Call a class or function; turn an `InvalidInput` into the error that names the place."""
    try:
        return make(*args, **values)
    except InvalidInput as error:
        raise InvalidSpec(f"{place}: {error}") from error


Reader = Callable[[Any, str], Any]
"""Value and place → argument."""


def a_number(value: Any, place: str) -> float:
    """Read a number; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        advice = "Write numbers without quotes." if isinstance(value, str) else ""
        raise wrong(place, "a number", value, advice)
    try:
        return float(value)
    except OverflowError:
        raise wrong(place, "a number that fits 64 bits", value) from None


def _one(expected: str, *types: type, advice: str = "") -> Reader:
    """Return a reader of one value of some types; true and false are no numbers."""

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise wrong(place, expected, value, advice)
        return value

    return read


a_count = _one("a whole number", int)
a_flag = _one("true or false", bool)
a_text = _one("text", str, advice="Put it in quotes.")
a_label = _one("text, a number, true or false", str, int, float, bool)


def _list_of(item: Reader, expected: str) -> Reader:
    """Return a reader of lists, whose entries ``item`` reads; the argument is a tuple."""

    def read(value: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise wrong(place, expected, value, "Put it in [brackets].")
        return tuple(item(v, f"{place}, entry {i}") for i, v in enumerate(value, 1))

    return read


_names = _list_of(a_text, "a list of feature names")
_labels = _list_of(a_label, "a list of values")
_numbers = _list_of(a_number, "a list of numbers")


def _pair_of(expected: str) -> Reader:
    """Return a reader of two numbers."""

    def read(value: Any, place: str) -> Any:
        if len(pair := _numbers(value, place)) != 2:
            raise wrong(place, expected, value)
        return pair

    return read


_range = _pair_of("a smallest and a largest number")


def _matrix(value: Any, place: str) -> Any:
    rows = _list_of(_numbers, "a list of rows of numbers")(value, place)
    if len({len(row) for row in rows}) != 1:
        raise wrong(place, "rows of one length", value)
    return rows


def _table_of(item: Reader, expected: str) -> Reader:
    """Return a reader of tables with any keys, whose values ``item`` reads."""

    def read(value: Any, place: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise wrong(place, expected, value)
        return {a_text(name, place): item(v, f"{place}, {name}") for name, v in value.items()}

    return read


_ranks = _table_of(
    _list_of(_pair_of("a value and its rank"), "a list of [value, rank]"),
    "[value, rank] pairs by feature name",
)
_by_name = _table_of(a_number, "numbers by feature name, such as { age = 2.0 }")


def a_row(value: Any, place: str) -> Any:
    """Read a row: values in the order of the features, or by name in a table or in pairs."""
    if isinstance(value, Mapping):
        return _table_of(a_label, "a row")(value, place)
    if isinstance(value, list | tuple) and value and all(isinstance(v, list) for v in value):
        return tuple(_labels(pair, place) for pair in value)
    return _labels(value, place)


def one_or_more(value: Any, place: str) -> Any:
    """Read a label, or a list of them."""
    return (_labels if isinstance(value, list | tuple) else a_label)(value, place)


def _condition(value: Any, place: str) -> Any:
    """Read a category, a list of them, or the ends of a number."""
    if isinstance(value, Mapping):
        return _table_of(a_number, "a low or a high end")(value, place)
    return one_or_more(value, place)


_conditions = _table_of(
    _condition, 'values by feature name, such as { home = "rent", age = { high = 18 } }'
)


def _seen(value: Any, place: str) -> Any:
    """Read pairs of feature names and the combinations of their categories that occur."""
    expected = "a list of [names, combinations]"
    pairs = _list_of(_list_of(lambda entry, _: entry, "a list"), expected)(value, place)
    if any(len(pair) != 2 for pair in pairs):
        raise wrong(place, expected, value)
    rows = _list_of(_labels, "a list of combinations")
    return tuple((_names(names, place), rows(values, place)) for names, values in pairs)


def _weight(value: Any, place: str) -> Any:
    """Read the weight of a feature, or of a category the triples [from, to, cost]."""
    if not isinstance(value, list | tuple):
        return a_number(value, place)
    triples = _list_of(_labels, "a list of [from, to, cost]")(value, place)
    if any(len(triple) != 3 for triple in triples):
        raise wrong(place, "a list of [from, to, cost]", value)
    return {(start, end): a_number(cost, place) for start, end, cost in triples}


def _weights(value: Any, place: str) -> Any:
    """Read weights in the order of the features, or by name."""
    weights_by_name = _table_of(_weight, "numbers by feature name, such as { age = 2.0 }")
    return (_numbers if isinstance(value, list | tuple) else weights_by_name)(value, place)


READERS: dict[str, Reader] = {
    "Hashable": a_text,
    "str": a_text,
    "bool": a_flag,
    "int": a_count,
    "float": a_number,
    "Mapping[Hashable, float]": _by_name,
    "Mapping[Hashable, Any]": _conditions,
    "Sequence[Any] | None": _seen,
    "ArrayLike": _matrix,
}
"""Annotation of a parameter of a constraint, or of a family's target → its reader."""
READERS_BY_NAME: dict[str, Reader] = {"label": a_label, "prototype": a_row}
"""Name of a parameter of a family's target, where the annotation does not say enough → reader."""


def _readers(cls: type) -> dict[str, Reader]:
    """Return name → reader of the parameters of a class."""

    def reader(parameter: inspect.Parameter) -> Reader:
        if parameter.kind is parameter.VAR_POSITIONAL:
            are_names = parameter.annotation == "Hashable"
            return _names if are_names else _list_of(READERS[parameter.annotation], "a list")
        if parameter.name in READERS_BY_NAME:
            return READERS_BY_NAME[parameter.name]
        return READERS["str" if "Literal[" in parameter.annotation else parameter.annotation]

    return {name: reader(p) for name, p in inspect.signature(cls).parameters.items()}


@cache
def kinds() -> dict[str, dict[type, dict[str, Reader]]]:
    """Return key of a policy file → class that may stand there → readers of its parameters."""
    return {
        "target": {
            Label: {"label": one_or_more, "margin": a_number},
            OtherLabel: {"than": one_or_more, "margin": a_number},
            Probability: {"label": a_label, "at_least": a_number},
            Tradeoff: {"label": a_label, "weight": a_number},
            **{cls: _readers(cls) for family in families() for cls in family.TARGETS},
            Interval: {"low": a_number, "high": a_number},
        },
        "cost": {
            Manhattan: {"weights": _weights},
            SquaredEuclidean: {"weights": _weights},
            Mahalanobis: {"matrix": _matrix},
            PercentileShift: {"ranks": _ranks, "weights": _weights},
        },
        "constraint": {cls: _readers(cls) for cls in CONSTRAINTS},
        "feature": {
            Continuous: {"observed": _range},
            Integer: {"step": a_number, "observed": _range},
            Categorical: {
                "categories": _labels,
                "ordered": a_flag,
                "observed": _labels,
                "stand_in": a_label,
            },
        },
    }


def distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the table of a JSON object, as ``object_pairs_hook``; refuse a key that stands twice.

    Readers of JSON differ in which of its values they take.
    """
    table = dict(pairs)
    if len(table) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise InvalidSpec(f"the key {twice!r} stands twice in a table; keep one.")
    return table


def kind_of(cls: type) -> str:
    """Return the name of a class in snake case, the ``kind`` of its tables."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


# Writing


def policy_of(
    target: Target | None,
    cost: Cost | None,
    constraints: Sequence[Constraint],
    features: Iterable[Feature],
    *,
    extrapolate: bool = False,
) -> dict[str, Any]:
    """Return the nested dicts, lists, text and numbers of a policy file."""
    out: dict[str, Any] = {}
    if isinstance(target, Label) and target.margin == 0.0:
        out["target"] = _plain(target.label)
    elif target is not None:
        out["target"] = _table(target)
    if cost is not None:
        out["cost"] = _table(cost)
    if constraints:
        out["constraints"] = [_relation(c) or _table(c) for c in constraints]
    for feature in features:
        table = _table(feature)
        name = a_text(table.pop("name"), "problem, features")
        out.setdefault("features", {})[name] = table
    if extrapolate:
        out["extrapolate"] = True
    return out


def _table(value: Any) -> dict[str, Any]:
    """Return the table of a value: its kind, and the parameters that differ from their defaults."""
    cls = type(value)
    if not any(cls in entries for entries in kinds().values()):
        raise InvalidSpec(
            f"A {cls.__name__} cannot be written to a file; it is none of counterpoint's classes. "
            "Leave it out, and pass it to Explainer."
        )
    table: dict[str, Any] = {"kind": kind_of(cls)}
    for name, parameter in inspect.signature(cls).parameters.items():
        argument = getattr(value, name)
        default = () if parameter.kind is parameter.VAR_POSITIONAL else parameter.default
        if type(argument) is not type(default) or argument != default:
            table[name] = _plain(argument)
    return table


def _relation(constraint: Constraint) -> str | None:
    """Return a linear relation as text; None if `Linear.parse` would not read the same from it."""
    if not isinstance(constraint, Linear):
        return None
    low, high = constraint.low, constraint.high
    if low != high and np.isfinite([low, high]).all():  # text has one bound
        return None
    sign, bound = ("==", high) if low == high else ("<=", high) if high < np.inf else (">=", low)
    terms = [
        f"{'+' if c >= 0 else '-'} {name if abs(c) == 1 else f'{_short(abs(c))} * {name}'}"
        for name, c in constraint.coefficients.items()
    ]
    text = f"{' '.join(terms).removeprefix('+ ')} {sign} {_short(bound)}"
    try:
        return text if Linear.parse(text) == constraint else None
    except InvalidInput:
        return None


def _short(number: float) -> str:
    """Return a number in six digits if it has no more, else in all of them."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(float(number))


def _plain(value: Any) -> Any:
    """Return a value as TOML and JSON have it: dicts with text for keys, lists, text, numbers."""
    value = by_name(value)
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        if value and all(isinstance(key, tuple) for key in value):  # costs by pair
            return [[*map(_plain, key), _plain(cost)] for key, cost in value.items()]
        return {a_text(_plain(k), "problem, feature names"): _plain(v) for k, v in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=lambda v: (type(v).__name__, v))
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return a_label(value, "problem")
