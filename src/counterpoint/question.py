"""The question that an explainer asks of every row: everything but the target and the people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

from counterpoint.constraints import Constraint
from counterpoint.costs import Cost, Price
from counterpoint.features import Features
from counterpoint.forms import Form
from counterpoint.programs import Program, kinds_region
from counterpoint.search import Piece
from counterpoint.targets import Label, OtherLabel, Target, Tradeoff

__all__ = ["Question"]

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

    def asked(self, target: Target) -> Program:
        """The cost over the actionable region, with what the target charges but not its demands."""
        program = self.pieces(target)[0].program
        return program if program.charges else self.plain


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
