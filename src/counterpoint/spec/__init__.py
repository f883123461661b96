"""A problem as a file: target, cost, constraints and features, in TOML or JSON.

Every table says its ``kind``, the name of the class in snake case; its other keys are the
parameters of that class. A string among the constraints is a relation for `Linear.parse`; a target
that is no table is the label of `Label`, a list of them several.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, final

from counterpoint.constraints import Constraint, Linear
from counterpoint.costs import Cost
from counterpoint.errors import InvalidInput, InvalidSpec
from counterpoint.explainer import Explainer, all_constraints, all_features
from counterpoint.rows.features import Feature
from counterpoint.spec.kinds import KINDS
from counterpoint.spec.places import Place, a_flag, a_text, any_of, labels_or_one, refuse_unknown
from counterpoint.spec.writing import toml, written, written_constraint, written_target
from counterpoint.targets import Label, Target

__all__ = ["Problem"]

KEYS = (*KINDS, "extrapolate")
"""What a problem file may hold."""


@final
@dataclass(frozen=True)
class Problem:
    """What is asked of a model, without the model: a policy that can be kept in a file.

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
        return _problem(_parsed(path), Place(path.name))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Problem:
        """The problem that nested dicts, lists, text and numbers describe.

        Raises
        ------
        InvalidSpec
            If they describe none.
        """
        return _problem(data, Place("problem"))

    def to_dict(self) -> dict[str, Any]:
        """Nested dicts, lists, text and numbers from which `from_dict` makes the same problem.

        Raises
        ------
        InvalidSpec
            If a name is not text, or a cost, constraint or target is not one of counterpoint's.
        """
        out: dict[str, Any] = {}
        if self.target is not None:
            out["target"] = written_target(self.target)
        if self.cost is not None:
            out["cost"] = written(self.cost)
        if self.constraints:
            out["constraints"] = [written_constraint(c) for c in self.constraints]
        for feature in self.features:
            table = written(feature)
            name = a_text(table.pop("name"), Place("problem") / "features")
            out.setdefault("features", {})[name] = table
        if self.extrapolate:
            out["extrapolate"] = True
        return out

    def save(self, path: str | PathLike[str]) -> None:
        """Write a file that `load` reads: JSON if its name ends in ``.json``, else TOML."""
        path, data = Path(path), self.to_dict()
        text = json.dumps(data, indent=2) + "\n" if path.suffix == ".json" else toml(data)
        path.write_text(text, encoding="utf-8")

    def explainer(self, model: Any, *, data: object | None = None) -> Explainer:
        """An `Explainer` for a fitted model with this problem's cost, constraints and features.

        Parameters
        ----------
        model, data
            As for `Explainer`.
        """
        features = self.features or None
        constraints = self.constraints
        return Explainer(
            model,
            data=data,
            features=features,
            cost=self.cost,
            constraints=constraints,
            extrapolate=self.extrapolate,
        )


def _parsed(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return json.loads(text, object_pairs_hook=lambda pairs: _distinct(pairs, path.name))
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        language = "JSON" if path.suffix == ".json" else "TOML"
        raise InvalidSpec(f"{path.name} is not valid {language}: {error}.") from error
    except UnicodeDecodeError as error:
        raise InvalidSpec(f"{path.name} is not UTF-8 text; save it as such.") from error


def _distinct(pairs: list[tuple[str, Any]], file: str) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        twice = next(key for key, _ in pairs if [k for k, _ in pairs].count(key) > 1)
        raise InvalidSpec(f"{file}: the key {twice!r} stands twice in one table; keep one.")
    return out


def _problem(data: Any, place: Place) -> Problem:
    if not isinstance(data, Mapping):
        raise place.wrong(f"a table with the keys {any_of(KEYS)}", data)
    refuse_unknown(data, KEYS, place)
    features = data.get("features", {})
    if not isinstance(features, Mapping):
        raise (place / "features").wrong("a table for each feature, as in [features.age]", features)
    constraints = data.get("constraints", [])
    if not isinstance(constraints, list | tuple):
        raise (place / "constraints").wrong("a list", constraints, "Put it in [brackets].")
    return Problem(
        _target(data["target"], place / "target") if "target" in data else None,
        KINDS["cost"].build(data["cost"], place / "cost") if "cost" in data else None,
        tuple(_constraint(c, place / f"constraint {i}") for i, c in enumerate(constraints, 1)),
        tuple(_feature(name, table, place) for name, table in features.items()),
        a_flag(data.get("extrapolate", False), place / "extrapolate"),
    )


def _feature(name: Any, table: Any, place: Place) -> Feature:
    name = a_text(name, place / "features")
    feature: Feature = KINDS["features"].build(table, place / f"feature {name!r}", name=name)
    return feature


def _target(value: Any, place: Place) -> Target:
    if isinstance(value, Mapping):
        target: Target = KINDS["target"].build(value, place)
        return target
    return _from(Label, labels_or_one(value, place), place)


def _constraint(value: Any, place: Place) -> Constraint:
    if isinstance(value, str):
        return _from(Linear.parse, value, place)
    if not isinstance(value, Mapping):
        raise place.wrong('a relation such as "a <= b", or a table with a kind', value)
    constraint: Constraint = KINDS["constraints"].build(value, place)
    return constraint


def _from(make: Callable[[Any], Any], value: Any, place: Place) -> Any:
    try:
        return make(value)
    except InvalidInput as error:
        raise place.says(str(error)) from error
