"""The kinds of targets, costs, constraints and features in a file: one entry for each class."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from counterpoint.constraints import (
    Bounds,
    Ellipsoid,
    Immutable,
    Linear,
    MaxChanges,
    Monotone,
    WithinObserved,
)
from counterpoint.costs import Mahalanobis, Manhattan, SquaredEuclidean
from counterpoint.errors import InvalidInput
from counterpoint.rows.features import Categorical, Continuous, Integer
from counterpoint.spec.places import (
    Parameter,
    Place,
    a_count,
    a_flag,
    a_label,
    a_matrix,
    a_number,
    a_pair,
    a_text,
    any_of,
    labels_or_one,
    numbers_by_name,
    refuse_unknown,
    some_labels,
    some_names,
    some_weights,
)
from counterpoint.targets import Interval, Label, OtherLabel, Probability, Tradeoff
from counterpoint.wings import parts

__all__ = ["KINDS", "Kinds", "kind_of"]


@final
@dataclass(frozen=True)
class Kinds:
    """The classes that may stand in one place, and what each of their parameters may be.

    Parameters
    ----------
    what
        What they are, for messages.
    entries
        Class → name of a parameter → how it is read.
    """

    what: str
    entries: dict[type, dict[str, Parameter]]

    @property
    def names(self) -> dict[str, type]:
        """Kind → class."""
        return {kind_of(cls): cls for cls in self.entries}

    def build(self, table: Any, place: Place, **known: Any) -> Any:
        """The value that a table describes; ``known`` are parameters that stand outside of it."""
        names = self.names
        if not isinstance(table, Mapping):
            raise place.wrong(f'a table such as {{ kind = "{next(iter(names))}" }}', table)
        if "kind" not in table:
            raise place.says(f"expected a kind of {self.what}: {any_of(names)}; got none.")
        kind = a_text(table["kind"], place / "kind")
        if kind not in names:
            raise place.wrong(f"a kind of {self.what}: {any_of(names)}", kind)
        cls, here = names[kind], place / kind
        parameters = self.entries[cls]
        refuse_unknown({key for key in table if key != "kind"}, parameters, here)
        values = {key: parameters[key](v, here / key) for key, v in table.items() if key != "kind"}
        return _made(cls, values | known, here)


def kind_of(cls: type) -> str:
    """The name of a class in snake case."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


def _made(cls: type, values: dict[str, Any], place: Place) -> Any:
    several: tuple[Any, ...] = ()
    for name, parameter in inspect.signature(cls).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            several = values.pop(name, ())
        elif parameter.default is parameter.empty and name not in values:
            raise place.says(f"the key {name!r} is missing. Add it.")
    try:
        return cls(*several, **values)
    except InvalidInput as error:
        raise place.says(str(error)) from error


KINDS = {
    "target": Kinds(
        "target",
        {
            Label: {"label": labels_or_one, "margin": a_number},
            OtherLabel: {"than": labels_or_one, "margin": a_number},
            Probability: {"label": a_label, "at_least": a_number},
            Tradeoff: {"label": a_label, "weight": a_number},
            **{cls: keys for part in parts("policy") for cls, keys in part.TARGETS.items()},
            Interval: {"low": a_number, "high": a_number},
        },
    ),
    "cost": Kinds(
        "cost",
        {
            Manhattan: {"weights": some_weights},
            SquaredEuclidean: {"weights": some_weights},
            Mahalanobis: {"matrix": a_matrix},
        },
    ),
    "constraints": Kinds(
        "constraint",
        {
            Immutable: {"features": some_names},
            Bounds: {
                "feature": a_text,
                "low": a_number,
                "high": a_number,
                "fall": a_number,
                "rise": a_number,
            },
            Monotone: {"feature": a_text, "direction": a_text},
            Linear: {"coefficients": numbers_by_name, "low": a_number, "high": a_number},
            Ellipsoid: {"center": numbers_by_name, "matrix": a_matrix, "radius": a_number},
            MaxChanges: {"count": a_count},
            WithinObserved: {"features": some_names},
        },
    ),
    "features": Kinds(
        "feature",
        {
            Continuous: {"observed": a_pair},
            Integer: {"step": a_number, "observed": a_pair},
            Categorical: {
                "categories": some_labels,
                "ordered": a_flag,
                "observed": some_labels,
                "stand_in": a_label,
            },
        },
    ),
}
"""Key of a problem file → the kinds that it takes."""
