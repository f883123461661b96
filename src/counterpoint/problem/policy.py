"""A policy as a file: target, cost, constraints and features, in TOML or JSON.

Every table says its ``kind``, the name of the class in snake case; its other keys are the
parameters of that class. A string among the constraints is a relation for `Linear.parse`; a target
that is no table is the label of `Label`, a list of them several.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import tomli_w

from counterpoint.errors import InvalidInput, InvalidSpec, by_name
from counterpoint.families.registry import family_modules
from counterpoint.problem.constraints import (
    Bounds,
    Clearance,
    Constraint,
    Ellipsoid,
    Immutable,
    Linear,
    MaxChanges,
    Monotone,
    WithinObserved,
    all_constraints,
)
from counterpoint.problem.costs import (
    Cost,
    Mahalanobis,
    Manhattan,
    PercentileShift,
    SquaredEuclidean,
)
from counterpoint.problem.targets import Interval, Label, OtherLabel, Probability, Target, Tradeoff
from counterpoint.rows.features import Categorical, Continuous, Feature, Integer, all_features

if TYPE_CHECKING:
    from counterpoint.explainer import Explainer

__all__ = ["Problem", "distinct", "kinds", "read_toml"]


@final
@dataclass(frozen=True)
class Problem:
    """A question to a model, without the model: a policy that can be kept in a file.

    Parameters
    ----------
    target
        A `Target`; anything else but None is taken as the label of `Label`.
    cost
        What a change costs; None to take it from the data.
    constraints
        What a person can or may change.
    features
        Descriptions of columns that differ from what data and model say.
    extrapolate
        Whether numbers may leave the range that the data show.

    Examples
    --------
    >>> import counterpoint as cp
    >>> policy = {"target": "approved", "constraints": ["debt <= income"]}
    >>> cp.Problem.from_dict(policy).constraints
    (Linear(coefficients={'debt': 1.0, 'income': -1.0}, low=-inf, high=0.0),)
    """

    target: Target | None = None
    cost: Cost | None = None
    constraints: tuple[Constraint, ...] = ()
    features: tuple[Feature, ...] = ()
    extrapolate: bool = False

    def __post_init__(self) -> None:
        if not (self.target is None or isinstance(self.target, Target)):
            object.__setattr__(self, "target", Label(self.target))
        object.__setattr__(self, "constraints", all_constraints(self.constraints))
        object.__setattr__(self, "features", all_features(self.features))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Problem:
        """Read a file: JSON if its name ends in ``.json``, else TOML.

        Raises
        ------
        InvalidSpec
            If it says something that cannot be read; the message names the file and the place.
        OSError
            If there is no such file.
        """
        path = Path(path)
        with _not_too_deep(path.name):
            return _problem(_parsed(path), path.name)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Problem:
        """Read the problem that nested dicts, lists, text and numbers describe."""
        with _not_too_deep("problem"):
            return _problem(data, "problem")

    def to_dict(self) -> dict[str, Any]:
        """Return nested dicts, lists, text and numbers that `from_dict` reads."""
        out: dict[str, Any] = {}
        target = self.target
        if isinstance(target, Label) and target.margin == 0.0:
            out["target"] = _plain(target.label)
        elif target is not None:
            out["target"] = _table(target)
        if self.cost is not None:
            out["cost"] = _table(self.cost)
        if self.constraints:
            out["constraints"] = [_relation(c) or _table(c) for c in self.constraints]
        for feature in self.features:
            table = _table(feature)
            name = a_text(table.pop("name"), "problem, features")
            out.setdefault("features", {})[name] = table
        if self.extrapolate:
            out["extrapolate"] = True
        return out

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file that `load` reads: JSON if its name ends in ``.json``, else TOML."""
        path, data = Path(path), self.to_dict()
        text = json.dumps(data, indent=2) + "\n" if path.suffix == ".json" else tomli_w.dumps(data)
        path.write_text(text, encoding="utf-8")

    def explainer(self, model: Any, *, data: object | None = None) -> Explainer:
        """Make an `Explainer` with this problem's cost, constraints and features.

        Parameters
        ----------
        model, data
            As for `Explainer`.
        """
        from counterpoint.explainer import Explainer

        return Explainer(
            model,
            data=data,
            features=self.features or None,
            cost=self.cost,
            constraints=self.constraints,
            extrapolate=self.extrapolate,
        )


# What may stand in one place: readers of a value, and of where it stands, which errors say


def wrong(place: str, expected: str, got: object, advice: str = "") -> InvalidSpec:
    """Make the error that says what was expected at a place, what came, what to do."""
    text = repr(got) if len(repr(got)) <= 60 else f"{repr(got)[:57]}..."
    return InvalidSpec(f"{place}: expected {expected}; got {text}.{advice and f' {advice}'}")


def _made(place: str, make: Callable[..., Any], *args: Any, **values: Any) -> Any:
    """Call a class or function; what it refuses is an error at this place."""
    try:
        return make(*args, **values)
    except InvalidInput as error:
        raise InvalidSpec(f"{place}: {error}") from error


Parameter = Callable[[Any, str], Any]


def a_number(value: Any, place: str) -> float:
    """Read a number; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        advice = "Write numbers without quotes." if isinstance(value, str) else ""
        raise wrong(place, "a number", value, advice)
    try:
        return float(value)
    except OverflowError:
        raise wrong(place, "a number that fits 64 bits", value) from None


def _one(expected: str, *types: type, advice: str = "") -> Parameter:
    """Read a value of one of these types; true and false are no numbers."""

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise wrong(place, expected, value, advice)
        return value

    return read


a_count = _one("a whole number", int)
a_flag = _one("true or false", bool)
a_text = _one("text", str, advice="Put it in quotes.")
a_label = _one("text, a number, true or false", str, int, float, bool)


def _list_of(item: Parameter, expected: str) -> Parameter:
    """Read a list whose entries are all of one kind."""

    def read(value: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise wrong(place, expected, value, "Put it in [brackets].")
        return tuple(item(v, f"{place}, entry {i}") for i, v in enumerate(value, 1))

    return read


_names = _list_of(a_text, "a list of feature names")
_labels = _list_of(a_label, "a list of values")
_numbers = _list_of(a_number, "a list of numbers")


def _pair_of(expected: str) -> Parameter:
    """Read two numbers."""

    def read(value: Any, place: str) -> Any:
        if len(pair := _numbers(value, place)) != 2:
            raise wrong(place, expected, value)
        return pair

    return read


_pair = _pair_of("a smallest and a largest number")


def _matrix(value: Any, place: str) -> Any:
    rows = _list_of(_numbers, "a list of rows of numbers")(value, place)
    if len({len(row) for row in rows}) != 1:
        raise wrong(place, "rows of one length", value)
    return rows


def _table_of(item: Parameter, expected: str) -> Parameter:
    """Read a table from feature names to values of one kind."""

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
    """Read values in the order of the features, or by name: a table, or pairs."""
    if isinstance(value, Mapping):
        return _table_of(a_label, "a row")(value, place)
    if isinstance(value, list | tuple) and value and all(isinstance(v, list) for v in value):
        return tuple(_labels(pair, place) for pair in value)
    return _labels(value, place)


def _one_or_more(value: Any, place: str) -> Any:
    return (_labels if isinstance(value, list | tuple) else a_label)(value, place)


def _weight(value: Any, place: str) -> Any:
    """Read a number; or of a category, [from, to, cost] for pairs."""
    if not isinstance(value, list | tuple):
        return a_number(value, place)
    triples = _list_of(_labels, "a list of [from, to, cost]")(value, place)
    if any(len(triple) != 3 for triple in triples):
        raise wrong(place, "a list of [from, to, cost]", value)
    return {(start, end): a_number(cost, place) for start, end, cost in triples}


def _weights(value: Any, place: str) -> Any:
    by_name = _table_of(_weight, "numbers by feature name, such as { age = 2.0 }")
    return (_numbers if isinstance(value, list | tuple) else by_name)(value, place)


@cache
def kinds() -> dict[str, dict[type, dict[str, Parameter]]]:
    """Return key of a policy file → class that may stand there → readers of its parameters."""
    ends: dict[str, Parameter] = {"low": a_number, "high": a_number}
    return {
        "target": {
            Label: {"label": _one_or_more, "margin": a_number},
            OtherLabel: {"than": _one_or_more, "margin": a_number},
            Probability: {"label": a_label, "at_least": a_number},
            Tradeoff: {"label": a_label, "weight": a_number},
            **{
                cls: keys
                for module in family_modules("policy")
                for cls, keys in module.TARGETS.items()
            },
            Interval: ends,
        },
        "cost": {
            Manhattan: {"weights": _weights},
            SquaredEuclidean: {"weights": _weights},
            Mahalanobis: {"matrix": _matrix},
            PercentileShift: {"ranks": _ranks, "weights": _weights},
        },
        "constraint": {
            Immutable: {"features": _names},
            Bounds: {"feature": a_text, **ends, "fall": a_number, "rise": a_number},
            Monotone: {"feature": a_text, "direction": a_text},
            Clearance: {"feature": a_text, "margin": a_number},
            Linear: {"coefficients": _by_name, **ends},
            Ellipsoid: {"center": _by_name, "matrix": _matrix, "radius": a_number},
            MaxChanges: {"count": a_count},
            WithinObserved: {"features": _names},
        },
        "feature": {
            Continuous: {"observed": _pair},
            Integer: {"step": a_number, "observed": _pair},
            Categorical: {
                "categories": _labels,
                "ordered": a_flag,
                "observed": _labels,
                "stand_in": a_label,
            },
        },
    }


# Reading


def distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Make the table of a JSON object whose keys differ, as ``object_pairs_hook``.

    Of a key that stands twice JSON's readers take one value or the other.
    """
    table = dict(pairs)
    if len(table) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise InvalidSpec(f"the key {twice!r} stands twice in a table; keep one.")
    return table


def _parsed(path: Path) -> Any:
    """Read a file as nested dicts and lists."""
    if path.suffix != ".json":
        return read_toml(path)
    text = _text_of(path)
    try:
        return json.loads(text, object_pairs_hook=distinct)
    except InvalidSpec as error:
        raise InvalidSpec(f"{path.name}: {error}") from None
    except ValueError as error:
        raise InvalidSpec(f"{path.name} is not valid JSON: {error}.") from error


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidSpec(f"{path.name} is not UTF-8 text; save it as such.") from error


MOST_PARTS = 64
"""Parts of a dotted key, of which ours have up to four: by their square, `tomllib` takes time and
memory."""
PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
LONG_KEY = re.compile(rf"""(?<![\w"'.-])(?:{PART}\.[ \t]*+){{{MOST_PARTS}}}""")


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a TOML file."""
    text = _text_of(path)
    if LONG_KEY.search(text):
        raise InvalidSpec(f"{path.name} has a key of more than {MOST_PARTS} parts; shorten it.")
    with _not_too_deep(path.name):
        try:
            return tomllib.loads(text)
        except ValueError as error:
            raise InvalidSpec(f"{path.name} is not valid TOML: {error}.") from error


@contextmanager
def _not_too_deep(place: str) -> Iterator[None]:
    """Refuse lists and tables that Python cannot follow, neither in reading nor in a sentence."""
    try:
        yield
    except RecursionError:
        raise InvalidSpec(
            f"{place}: lists or tables stand in one another too deeply; write it flatter."
        ) from None


def _problem(data: Any, place: str) -> Problem:
    keys = ("target", "cost", "constraints", "features", "extrapolate")
    if not isinstance(data, Mapping):
        raise wrong(place, f"a table with the keys {_any_of(keys)}", data)
    _refuse_unknown(data, keys, place)
    features = data.get("features", {})
    if not isinstance(features, Mapping):
        raise wrong(
            f"{place}, features", "a table for each feature, as in [features.age]", features
        )
    constraints = data.get("constraints", [])
    if not isinstance(constraints, list | tuple):
        raise wrong(f"{place}, constraints", "a list", constraints, "Put it in [brackets].")
    return Problem(
        _target(data["target"], f"{place}, target") if "target" in data else None,
        _built("cost", data["cost"], f"{place}, cost") if "cost" in data else None,
        tuple(_constraint(c, f"{place}, constraint {i}") for i, c in enumerate(constraints, 1)),
        tuple(
            _built("feature", table, f"{place}, feature {n!r}", a_text(n, f"{place}, features"))
            for n, table in features.items()
        ),
        a_flag(data.get("extrapolate", False), f"{place}, extrapolate"),
    )


def _target(value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        return _built("target", value, place)
    return _made(place, Label, _one_or_more(value, place))


def _constraint(value: Any, place: str) -> Any:
    if isinstance(value, str):
        return _made(place, Linear.parse, value)
    if isinstance(value, Mapping):
        return _built("constraint", value, place)
    raise wrong(place, 'a relation such as "a <= b", or a table with a kind', value)


def _built(what: str, table: Any, place: str, name: str | None = None) -> Any:
    """Build the value that a table describes; the name of a feature stands outside of it."""
    entries = kinds()[what]
    names = {_kind(cls): cls for cls in entries}
    if not isinstance(table, Mapping):
        raise wrong(place, f'a table such as {{ kind = "{next(iter(names))}" }}', table)
    if "kind" not in table:
        raise InvalidSpec(f"{place}: expected a kind of {what}: {_any_of(names)}; got none.")
    kind = a_text(table["kind"], f"{place}, kind")
    if kind not in names:
        raise wrong(place, f"a kind of {what}: {_any_of(names)}", kind)
    cls, position = names[kind], f"{place}, {kind}"
    entered, read = {key: v for key, v in table.items() if key != "kind"}, entries[cls]
    _refuse_unknown(entered, read, position)
    values = {key: read[key](v, f"{position}, {key}") for key, v in entered.items()}
    values |= {} if name is None else {"name": name}
    several: tuple[Any, ...] = ()
    for key, parameter in inspect.signature(cls).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            several = values.pop(key, ())
        elif parameter.default is parameter.empty and key not in values:
            raise InvalidSpec(f"{position}: the key {key!r} is missing. Add it.")
    return _made(position, cls, *several, **values)


def _kind(cls: type) -> str:
    """The name of a class in snake case."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


def _refuse_unknown(keys: Iterable[Any], expected: Collection[str], place: str) -> None:
    """Raise for the first key that is not known, with the nearest that is."""
    for key in sorted(map(str, set(keys) - set(expected))):
        near = get_close_matches(key, expected, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(map(repr, expected))}."
        raise InvalidSpec(f"{place}: there is no key {key!r} here; {hint}")


def _any_of(names: Iterable[str]) -> str:
    """Return ``'a', 'b' or 'c'``."""
    *most, last = map(repr, names)
    return f"{', '.join(most)} or {last}"


# Writing


def _table(value: Any) -> dict[str, Any]:
    """Return a table with the kind and the parameters that differ from their defaults."""
    cls = type(value)
    if not any(cls in entries for entries in kinds().values()):
        raise InvalidSpec(
            f"A {cls.__name__} cannot be written to a file; it is none of counterpoint's classes. "
            "Leave it out, and pass it to Explainer."
        )
    table: dict[str, Any] = {"kind": _kind(cls)}
    for name, parameter in inspect.signature(cls).parameters.items():
        argument = getattr(value, name)
        default = () if parameter.kind is parameter.VAR_POSITIONAL else parameter.default
        if type(argument) is not type(default) or argument != default:
            table[name] = _plain(argument)
    return table


def _relation(constraint: Constraint) -> str | None:
    """Write a linear relation as text, if the text says the same."""
    if not isinstance(constraint, Linear):
        return None
    low, high = constraint.low, constraint.high
    if low != high and np.isfinite([low, high]).all():
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
    return f"{number:g}" if float(f"{number:g}") == number else repr(float(number))


def _plain(value: Any) -> Any:
    """Return dicts with text for keys, lists, text and numbers."""
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
