"""Which rules are to blame: rows answered again without one rule at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

import counterpoint as cp
from counterpoint.audits.wording import AuditWords

if TYPE_CHECKING:
    import pandas as pd


@final
class RuleEffect(NamedTuple):
    """What happens to a sample of rows without some rules.

    Parameters
    ----------
    frees
        The share of fixed rows that then have an action.
    saves
        The mean share of the cost that other rows then save.
    named
        The share of fixed rows whose conflict names the rules.
    """

    frees: float
    saves: float
    named: float


@final
@dataclass(frozen=True)
class RuleSample:
    """Fixed rows and others that are asked what becomes of them without a rule.

    Parameters
    ----------
    explainer, answers
        What gave the answers to all rows.
    fixed, unfixed
        Positions of the rows that were sampled.
    """

    explainer: cp.Explainer
    answers: cp.Counterfactuals
    fixed: list[int]
    unfixed: list[int]

    @cached_property
    def conflicts(self) -> list[set[str]]:
        """The constraints of the conflict of each fixed row as text, features one by one."""
        conflicts = (self.answers[i].conflict for i in self.fixed)
        return [
            {
                str(piece)
                for c in (conflict.constraints if conflict else ())
                for piece in parts_of(c)
            }
            for conflict in conflicts
        ]

    def table(self, words: AuditWords) -> pd.DataFrame:
        """Return a line for each rule of the policy that matters to a row of the sample."""
        import pandas as pd

        rules, lines = self.explainer.constraints, dict[str, RuleEffect]()
        for rule in rules if self.fixed or self.unfixed else ():
            pieces, remaining = parts_of(rule), [r for r in rules if r is not rule]
            whole = self.effect(remaining, pieces)
            if not any(whole):
                continue  # then no piece of it does anything either
            for piece in pieces:
                looser = [*remaining, *(p for p in pieces if p is not piece)]
                effect = self.effect(looser, [piece]) if len(pieces) > 1 else whole
                if any(effect):
                    lines[words.rule(piece)] = effect
        table = pd.DataFrame.from_dict(lines, orient="index", columns=[*RuleEffect._fields])
        return table.rename_axis("rule").sort_values([*RuleEffect._fields], ascending=False)

    def without_limits_of_data(self) -> RuleEffect | None:
        """Return what happens if values may leave what the data showed; None if they may."""
        limits = [c for c in self.explainer.implied if isinstance(c, cp.WithinObserved)]
        if not limits or not (self.fixed or self.unfixed):
            return None
        implied = [c for c in self.explainer.implied if c not in limits]
        pieces = [piece for limit in limits for piece in parts_of(limit)]
        return self.effect(self.explainer.constraints, pieces, implied)

    def effect(
        self,
        rules: Sequence[cp.Constraint],
        dropped: Sequence[cp.Constraint],
        implied: Sequence[cp.Constraint] | None = None,
    ) -> RuleEffect:
        """Answer the rows again under these rules, which leave out the dropped ones.

        What the data imply holds too, unless ``implied`` says otherwise.
        """
        rows, answers = [*self.fixed, *self.unfixed], self.answers
        looser = cp.Explainer(
            self.explainer.model,
            features=[*answers.features],
            cost=self.explainer.cost,
            constraints=[*rules, *(self.explainer.implied if implied is None else implied)],
        )
        cost, targets = np.full(len(rows), np.nan), answers.targets[rows].tolist()
        cells = answers.table.select(answers.features.names)
        for target in {id(t): t for t in targets}.values():
            index = [k for k, other in enumerate(targets) if other is target]
            X = cells.take(np.array(rows)[index]).native
            seconds = answers.query.effort.seconds
            cost[index] = looser.explain(X, target, time_limit=seconds, progress=False).cost
        freed = np.isfinite(cost[: len(self.fixed)])
        saved = _saved(answers.cost[self.unfixed], cost[len(self.fixed) :])
        texts = {*map(str, dropped)}
        named = [bool(texts & conflict) for conflict in self.conflicts]
        return RuleEffect(
            *(float(np.mean(shares)) if len(shares) else 0.0 for shares in (freed, saved, named))
        )


def _saved(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of each cost that is saved; below the gap of a search it may be none."""
    saved = np.divide(before - after, before, out=np.zeros(len(before)), where=before > 0)
    return np.where(saved > 1e-6, saved, 0.0)


def parts_of(constraint: cp.Constraint) -> list[Any]:
    """A constraint on several features as one for each."""
    if isinstance(constraint, cp.Immutable):
        return [constraint.only(name) for name in constraint.features]
    if isinstance(constraint, cp.WithinObserved) and constraint.features:
        return [constraint.only(name) for name in constraint.features]
    return [constraint]
