"""Read and write policy files: target, cost, constraints and features, in TOML or JSON.

Every table says its ``kind``, the name of the class in snake case; its other keys are the
parameters of that class. A string among the constraints is a relation for `Linear.parse`; a target
that is no table is the label of `Label`, and a list its labels.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import tomli_w

from counterpoint.errors import InvalidSpec
from counterpoint.problem.constraints import Constraint, Linear, all_constraints
from counterpoint.problem.costs import Cost
from counterpoint.problem.tables import (
    a_flag,
    a_text,
    distinct,
    kind_of,
    kinds,
    made_at,
    one_or_more,
    policy_of,
    wrong,
)
from counterpoint.problem.targets import Label, Target
from counterpoint.rows.features import Feature, all_features

if TYPE_CHECKING:
    from counterpoint.explainer import Explainer


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
        return policy_of(
            self.target, self.cost, self.constraints, self.features, extrapolate=self.extrapolate
        )

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


# Reading


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
"""The largest number of parts of a dotted key; policies have keys of four. `tomllib` takes time and
memory in proportion to its square."""
KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
LONG_KEY = re.compile(rf"""(?<![\w"'.-])(?:{KEY_PART}\.[ \t]*+){{{MOST_PARTS}}}""")


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
    """Turn a `RecursionError` over nested lists and tables into an error that names the place."""
    try:
        yield
    except RecursionError:
        raise InvalidSpec(
            f"{place}: lists or tables stand in one another too deeply; write it flatter."
        ) from None


def _problem(data: Any, place: str) -> Problem:
    """Build the problem that the tables of a file describe; ``place`` names the file in errors."""
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
        target=_target(data["target"], f"{place}, target") if "target" in data else None,
        cost=_built("cost", data["cost"], f"{place}, cost") if "cost" in data else None,
        constraints=tuple(
            _constraint(c, f"{place}, constraint {i}") for i, c in enumerate(constraints, 1)
        ),
        features=tuple(
            _built("feature", table, f"{place}, feature {n!r}", a_text(n, f"{place}, features"))
            for n, table in features.items()
        ),
        extrapolate=a_flag(data.get("extrapolate", False), f"{place}, extrapolate"),
    )


def _target(value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        return _built("target", value, place)
    return made_at(place, Label, one_or_more(value, place))


def _constraint(value: Any, place: str) -> Any:
    if isinstance(value, str):
        return made_at(place, Linear.parse, value)
    if isinstance(value, Mapping):
        return _built("constraint", value, place)
    raise wrong(place, 'a relation such as "a <= b", or a table with a kind', value)


def _built(what: str, table: Any, place: str, name: str | None = None) -> Any:
    """Build the target, cost, constraint or feature (``what``) that a table describes.

    The name of a feature comes from outside of its table, ``[features.age]``.
    """
    readers_of = kinds()[what]
    classes = {kind_of(cls): cls for cls in readers_of}
    if not isinstance(table, Mapping):
        raise wrong(place, f'a table such as {{ kind = "{next(iter(classes))}" }}', table)
    if "kind" not in table:
        raise InvalidSpec(f"{place}: expected a kind of {what}: {_any_of(classes)}; got none.")
    kind = a_text(table["kind"], f"{place}, kind")
    if kind not in classes:
        raise wrong(place, f"a kind of {what}: {_any_of(classes)}", kind)
    cls, place = classes[kind], f"{place}, {kind}"
    readers = readers_of[cls]
    entries = {key: value for key, value in table.items() if key != "kind"}
    _refuse_unknown(entries, readers, place)
    arguments = {key: readers[key](value, f"{place}, {key}") for key, value in entries.items()}
    if name is not None:
        arguments["name"] = name
    positional: tuple[Any, ...] = ()
    for key, parameter in inspect.signature(cls).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional = arguments.pop(key, ())
        elif parameter.default is parameter.empty and key not in arguments:
            raise InvalidSpec(f"{place}: the key {key!r} is missing. Add it.")
    return made_at(place, cls, *positional, **arguments)


def _refuse_unknown(keys: Iterable[Any], expected: Collection[str], place: str) -> None:
    """Raise for the first key that is not expected, with the expected one most like it."""
    for key in sorted(map(str, set(keys) - set(expected))):
        near = get_close_matches(key, expected, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(map(repr, expected))}."
        raise InvalidSpec(f"{place}: there is no key {key!r} here; {hint}")


def _any_of(names: Iterable[str]) -> str:
    """Return ``'a', 'b' or 'c'``."""
    *most, last = map(repr, names)
    return f"{', '.join(most)} or {last}"
