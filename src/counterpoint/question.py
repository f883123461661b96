"""The question that an explainer asks of every row: everything but the target and the people."""

from __future__ import annotations

from collections.abc import Iterable
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
        key = _key(target)
        if key not in self._pieces:
            if len(self._pieces) >= REMEMBERED:
                self._pieces.pop(next(iter(self._pieces)))
            regions = self.form.regions(target)
            programs = [Program(self.price, region & self.plain.region) for region in regions]
            self._pieces[key] = tuple(Piece(program) for program in programs)
        return self._pieces[key]

    def pieces_for(self, target: Target, x: FloatArray) -> tuple[Piece, ...]:
        """`pieces` for (n, d) people: ties are decided if all stand on multiples of whole steps."""
        pieces, units = self.pieces(target), self._units
        whole = units > 0
        on_lattice = (x[:, whole] == np.rint(x[:, whole] / units[whole]) * units[whole]).all()
        ties = (c.lost.any() for p in pieces for c in p.program.region if isinstance(c, Affine))
        if not (whole.any() and on_lattice and any(ties)):
            return pieces
        key = _key(target)
        if key not in self._decided:
            if len(self._decided) >= REMEMBERED:
                self._decided.pop(next(iter(self._decided)))
            self._decided[key] = tuple(
                Piece(Program(self.price, _decided(piece.program.region, units)))
                for piece in pieces
            )
        return self._decided[key]

    @cached_property
    def _decided(self) -> dict[Target, tuple[Piece, ...]]:
        return {}

    @cached_property
    def _units(self) -> FloatArray:
        """(d,) the steps of whole columns, 1 for those of categories, 0 for the others."""
        return np.where(self.plain.numeric, self.plain.steps, 1.0)

    def asked(self, target: Target) -> Program:
        """The cost over the actionable region, with what the target charges but not its demands."""
        program = self.pieces(target)[0].program
        return program if program.charges else self.plain


def _decided(region: Region, units: FloatArray) -> Region:
    """The same points of a lattice, see `Affine.decided`."""
    return Region(tuple(c.decided(units) if isinstance(c, Affine) else c for c in region))


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
