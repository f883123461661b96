"""The columns that a representation takes, whatever rows come in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

from counterpoint.errors import InvalidInput
from counterpoint.rows.features import Categorical, Continuous, Features, unknown_name

__all__ = ["Intake", "arranged"]


@final
@dataclass(frozen=True, eq=False)
class Intake:
    """The columns that a representation takes, in its order.

    Parameters
    ----------
    features
        What they are. A number is one encoded column, a category as many as it has values.
    named
        Whether they go by name where rows have names, and not by position.
    fills, unfilled
        Name → what a missing cell of the column counts as, and why it counts as nothing.
    """

    features: Features
    named: bool
    fills: Mapping[Hashable, Any] = field(default_factory=dict)
    unfilled: Mapping[Hashable, str] = field(default_factory=dict)

    @classmethod
    def numbers(cls, names: Sequence[Hashable], *, named: bool) -> Intake:
        """Columns of numbers."""
        return cls(Features(Continuous(name) for name in names), named)

    @cached_property
    def names(self) -> tuple[Hashable, ...]:
        """(d,) names of the encoded columns; of categories as ``home=own``."""
        names: list[Hashable] = []
        for one in self.features:
            if isinstance(one, Categorical):
                names += [f"{one.name}={category}" for category in one.categories]
            else:
                names.append(one.name)
        return tuple(names)

    def renamed(self, names: Sequence[Hashable]) -> Intake:
        """The same columns under other names, by which they go from now on."""
        both = dict(zip(self.features.names, names, strict=True))
        return Intake(
            Features(replace(one, name=both[one.name]) for one in self.features),
            named=True,
            fills={both[name]: fill for name, fill in self.fills.items()},
            unfilled={both[name]: why for name, why in self.unfilled.items()},
        )


def arranged(intake: Intake | None, names: tuple[Hashable, ...] | None, width: int) -> Intake:
    """What is taken of some columns.

    Parameters
    ----------
    intake
        What is known; None if nothing is, so that all columns are taken, as numbers.
    names
        Those of the columns that came; None if they go by position.
    width
        How many came.

    Raises
    ------
    InvalidInput
        If columns are missing, or there are too many or too few that go by position.
    """
    _require_distinct(names or ())
    if intake is None:
        listed = names or tuple(f"x{j}" for j in range(width))
        return Intake.numbers(listed, named=names is not None)
    wanted = intake.features.names
    if names is not None and intake.named:
        known = set(names)
        missing = [name for name in wanted if name not in known]
        if missing:
            raise InvalidInput(
                f"Expected the columns that the representation was fitted on; {len(missing)} of "
                f"{len(wanted)} are missing. {unknown_name(missing[0], names)}"
            )
        return intake
    if width != len(wanted):
        raise InvalidInput(
            f"Expected rows of {len(wanted)} features, which the representation takes; got "
            f"{width}. Pass the columns that it was fitted on, in order."
        )
    return intake if names is None else intake.renamed(names)


def _require_distinct(names: tuple[Hashable, ...]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidInput(
            f"Expected distinct names of columns; {twice!r} is there twice. Rename one; of an "
            "AnnData, call var_names_make_unique."
        )
