"""The question that an explainer asks of every row: everything but the target and the people."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.constraints import Constraint
from counterpoint.costs import Cost, Price
from counterpoint.features import Features
from counterpoint.forms import Form
from counterpoint.programs import Program, kinds_region
from counterpoint.regions import Affine, Region
from counterpoint.search import Piece
from counterpoint.targets import Label, OtherLabel, Target, Tradeoff

__all__ = ["Question"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

REMEMBERED = 64
"""How many targets are kept prepared."""


@final
@dataclass(frozen=True, eq=False)
class Question:
    """A model, a cost and constraints over features.

    Parameters
    ----------
    form
        What was read of the model.
    features
        The raw columns with their kinds.
    constraints
        What was asked for, and what the data imply.
    price
        The cost over the encoded columns.
    """

    form: Form
    features: Features
    constraints: tuple[Constraint, ...]
    price: Price

    @classmethod
    def ask(
        cls, form: Form, features: Features, constraints: Iterable[Constraint], cost: Cost
    ) -> Question:
        """The question in feature names; names and kinds are checked here."""
        question = cls(form, features, tuple(constraints), cost.price(features))
        _ = question.plain
        return question

    @cached_property
    def plain(self) -> Program:
        """The cost over the actionable region, without a target."""
        region = kinds_region(self.features)
        for constraint in self.constraints:
            region = region & constraint.region(self.features)
        return Program(self.price, region)

    @cached_property
    def _pieces(self) -> dict[Target, tuple[Piece, ...]]:
        return {}

    def pieces(self, target: Target) -> tuple[Piece, ...]:
        """The programs whose union is the target, prepared; cached for each target."""
        return _remembered(self._pieces, _key(target), lambda: self._prepared(target))

    def _prepared(self, target: Target) -> tuple[Piece, ...]:
        regions = self.form.regions(target)
        return tuple(Piece(Program(self.price, r & self.plain.region)) for r in regions)

    def on_lattice(self, x: FloatArray) -> BoolArray:
        """(n,): whether all whole columns of (n, d) people hold multiples of their steps."""
        steps = self.plain.steps
        whole = np.flatnonzero(steps)
        at = x[:, whole]
        return np.asarray((at == np.rint(at / steps[whole]) * steps[whole]).all(axis=1))

    def deciding(self, region: Region) -> Region:
        """The same points for people `on_lattice`, each tie in whole columns decided."""
        units = np.where(self.plain.numeric, self.plain.steps, 1.0)
        return Region(tuple(c.decided(units) if isinstance(c, Affine) else c for c in region))

    def decided(self, target: Target) -> tuple[Piece, ...]:
        """`pieces` for people `on_lattice`, each tie in whole columns decided."""
        pieces = self.pieces(target)
        ties = (c.lost.any() for p in pieces for c in p.program.region if isinstance(c, Affine))
        if not (self._is_discrete and any(ties)):
            return pieces
        regions = (self.deciding(piece.program.region) for piece in pieces)
        return _remembered(
            self._decided,
            _key(target),
            lambda: tuple(Piece(Program(self.price, region)) for region in regions),
        )

    @cached_property
    def _is_discrete(self) -> bool:
        """Whether some column is whole or a category."""
        return bool(self.plain.steps.any() or self.plain.groups)

    @cached_property
    def _decided(self) -> dict[Target, tuple[Piece, ...]]:
        return {}

    def asked(self, target: Target) -> Program:
        """The cost over the actionable region, with what the target charges but not its demands."""
        program = self.pieces(target)[0].program
        return program if program.charges else self.plain


def _remembered(
    kept: dict[Target, tuple[Piece, ...]], key: Target, make: Callable[[], tuple[Piece, ...]]
) -> tuple[Piece, ...]:
    """What was made for a key; the oldest goes where there are too many."""
    if key not in kept:
        if len(kept) >= REMEMBERED:
            kept.pop(next(iter(kept)))
        kept[key] = make()
    return kept[key]


def _key(target: Target) -> Target:
    """What the programs of a target depend on: labels as a tuple, no weight of the price."""
    match target:
        case Label():
            return replace(target, label=target.labels)
        case OtherLabel():
            return replace(target, than=target.labels)
        case Tradeoff():
            return replace(target, weight=1.0)
        case _:
            return target
