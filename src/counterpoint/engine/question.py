"""The question that an explainer asks of every row: everything but the target and the people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import Memo, fields_only
from counterpoint.constraints import Constraint
from counterpoint.costs import Cost, Price
from counterpoint.engine.pieces import Aim, Pieces
from counterpoint.engine.program import Program, kinds_region
from counterpoint.errors import InvalidInput
from counterpoint.models.form import Form
from counterpoint.robust.bounds.fourier import Heights
from counterpoint.robust.bounds.linear import Leads, Pulls
from counterpoint.robust.form import UncertainScores
from counterpoint.robust.fourier_form import FourierScores
from counterpoint.rows.encoding import encode, match_columns
from counterpoint.rows.features import Features
from counterpoint.rows.table import Table
from counterpoint.targets import Label, OtherLabel, Robust, Target, Tradeoff

__all__ = ["Question"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


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

    __getstate__ = fields_only

    @cached_property
    def _pieces(self) -> Memo[Target, Pieces]:
        return Memo()

    def pieces(self, target: Target) -> Pieces:
        """The programs whose union is the target; cached for each target."""
        make = lambda: Pieces.of(  # noqa: E731
            self.plain, self.form.regions(target), self.aim(target)
        )
        return self._pieces.get(_key(target), make)

    def on_lattice(self, x: FloatArray) -> BoolArray:
        """(n,): whether all whole columns of (n, d) people hold multiples of their steps."""
        steps = self.plain.steps
        whole = np.flatnonzero(steps)
        at = x[:, whole]
        return np.asarray((at == np.rint(at / steps[whole]) * steps[whole]).all(axis=1))

    def decided(self, target: Target) -> Pieces:
        """`pieces` for people `on_lattice`, each tie in whole columns decided."""
        pieces = self.pieces(target)
        if not (self._is_discrete and pieces.has_ties):
            return pieces
        units = np.where(self.plain.numeric, self.plain.steps, 1.0)
        return self._decided.get(_key(target), partial(pieces.decided, units))

    @cached_property
    def _is_discrete(self) -> bool:
        """Whether some column is whole or a category."""
        return bool(self.plain.steps.any() or self.plain.groups)

    @cached_property
    def _decided(self) -> Memo[Target, Pieces]:
        return Memo()

    def aim(self, target: Target) -> Aim:
        """Where a target says to look.

        Raises
        ------
        InvalidInput
            If it says so of a model without random features, or only of the way to a prototype
            that the model takes for another class.
        """
        if not isinstance(target, Robust):
            return Aim()
        if not isinstance(self.form, FourierScores):
            if target.search != "best" or target.prototype is not None:
                raise InvalidInput(
                    "Expected search='best' and no prototype for a linear model, whose answers are "
                    "optimal; they are for a model with random features. Leave them out."
                )
            return Aim()
        prototype = self.prototype(target)
        if target.prototype is not None and not self.leads_to(target):
            if target.search == "segment":
                raise InvalidInput(
                    f"Expected a prototype that the model takes for {target.label!r}; it takes "
                    "this one for the other class. Pass another, or search='best', which looks "
                    "elsewhere as well."
                )
            prototype = None
        wide = target.search == "best" and (target.selects or prototype is None)
        anywhere = target.search == "optimal" or wide
        on_segment = prototype is not None and target.search != "optimal"
        otherwise = target.search == "best" and not anywhere
        return Aim(prototype, on_segment, anywhere, otherwise)

    def leads_to(self, target: Robust) -> bool:
        """Whether the known weights take the prototype of a target for its label."""
        prototype = self.prototype(target)
        return prototype is not None and self.form.predict(prototype[None])[0] == target.label

    def prototype(self, target: Robust) -> FloatArray | None:
        """(d,) that of a target."""
        if target.prototype is None:
            return None
        row = target.prototype
        named = all(isinstance(pair, tuple) for pair in row)
        table = match_columns(Table.read(dict(row) if named else list(row)), self.features)
        encoded = encode(table, self.features)
        if encoded.problems:
            raise InvalidInput(f"In prototype=: {encoded.problems[0]}")
        return np.asarray(self.features.expand(encoded.codes)[0])

    def _sweeps(self, form: FourierScores, target: Robust, x: FloatArray) -> Leads:
        """What noise can do where answers are looked for.

        Where that is must not depend on the known weights: so a segment counts even if they take
        its end for another class, and no answer is looked for on it.
        """
        key = target.draws, target.random_state
        heights = self._heights.get(key, partial(Heights.drawn, form.waves, form.law, *key))
        cases, ends = self.plain.cases(x), None
        prototype = None if target.search == "optimal" else self.prototype(target)
        if prototype is not None:
            ends = np.clip(prototype, cases.low, cases.high)
        in_balls = target.search != "segment"
        return heights.sweeps(target.probability, self.plain.price, cases, ends, in_balls=in_balls)

    @cached_property
    def _heights(self) -> Memo[tuple[int, int], Heights]:
        return Memo()

    def band(self, target: Target, x: FloatArray) -> Leads | None:
        """How much a lead depends on the distance from (n, d) people; None if it does not."""
        if not (isinstance(target, Robust) and target.selects):
            return None
        form = self.form
        if isinstance(form, FourierScores):
            return self._sweeps(form, target, x)
        assert isinstance(form, UncertainScores)  # noqa: S101 (no other has regions of it)
        key = target.draws, target.random_state
        lift = form.lift
        pulls = self._pulls.get(key, partial(Pulls.drawn, form.law, lift.matrix, lift.offset, *key))
        lead, cases = form.leading(target.label), self.plain.cases(x)
        return pulls.band(target.probability, self.plain, cases, lead)

    @cached_property
    def _pulls(self) -> Memo[tuple[int, int], Pulls]:
        return Memo()

    def asked(self, target: Target) -> Program:
        """The cost over the actionable region, with what the target charges but not its demands."""
        charged = (p.program for p in self.pieces(target).listed if p.program.charges)
        return next(charged, self.plain)


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
