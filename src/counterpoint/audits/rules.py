"""Measure which rules are to blame: rows are answered again without one rule at a time."""

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
    """The effect on a sample of rows of leaving out some rules.

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
    """A sample of fixed rows and of others, to be answered again without a rule.

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
        """For each fixed row, the constraints of its conflict as text, features one by one."""
        found = [self.answers[i].conflict for i in self.fixed]
        constraints = [conflict.constraints if conflict else () for conflict in found]
        return [{str(part) for c in row for part in parts_of(c)} for row in constraints]

    def table(self, words: AuditWords) -> pd.DataFrame:
        """Return a line for each rule of the policy that matters to a row of the sample."""
        import pandas as pd

        rules, lines = self.explainer.constraints, dict[str, RuleEffect]()
        for rule in rules if self.fixed or self.unfixed else ():
            parts, remaining = parts_of(rule), [r for r in rules if r is not rule]
            whole = self.effect(remaining, parts)
            if not any(whole):
                continue  # then no part of it does anything either
            for part in parts:
                looser = [*remaining, *(p for p in parts if p is not part)]
                effect = self.effect(looser, [part]) if len(parts) > 1 else whole
                if any(effect):
                    lines[words.rule(part)] = effect
        table = pd.DataFrame.from_dict(lines, orient="index", columns=[*RuleEffect._fields])
        return table.rename_axis("rule").sort_values([*RuleEffect._fields], ascending=False)

    def without_limits_of_data(self) -> RuleEffect | None:
        """Return the effect of letting values leave what the data showed; None if they may."""
        limits = [c for c in self.explainer.implied if isinstance(c, cp.WithinObserved)]
        if not limits or not (self.fixed or self.unfixed):
            return None
        implied = [c for c in self.explainer.implied if c not in limits]
        parts = [part for limit in limits for part in parts_of(limit)]
        return self.effect(self.explainer.constraints, parts, implied)

    def effect(
        self,
        rules: Sequence[cp.Constraint],
        dropped: Sequence[cp.Constraint],
        implied: Sequence[cp.Constraint] | None = None,
    ) -> RuleEffect:
        """Answer the rows again under ``rules``, of which the ``dropped`` ones are left out.

        The constraints that data imply hold too, or ``implied`` in their place.
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
        seconds = answers.query.effort.seconds
        # a target that depends on the row is several targets, each of some rows
        for target in {id(t): t for t in targets}.values():
            index = [k for k, other in enumerate(targets) if other is target]
            X = cells.take(np.array(rows)[index]).native
            cost[index] = looser.explain(X, target, time_limit=seconds, progress=False).cost
        frees = np.isfinite(cost[: len(self.fixed)])  # the cost is NaN where there is no answer
        saves = _saved(answers.cost[self.unfixed], cost[len(self.fixed) :])
        texts = {*map(str, dropped)}
        named = [bool(texts & conflict) for conflict in self.conflicts]
        return RuleEffect(
            *(float(np.mean(shares)) if len(shares) else 0.0 for shares in (frees, saves, named))
        )


def _saved(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of each cost that is saved; a saving within a search's gap is none."""
    saved = np.divide(before - after, before, out=np.zeros(len(before)), where=before > 0)
    return np.where(saved > 1e-6, saved, 0.0)


def parts_of(constraint: cp.Constraint) -> list[Any]:
    """Return a constraint on several features as one for each; any other one alone."""
    if not isinstance(constraint, cp.Immutable | cp.WithinObserved) or not constraint.features:
        return [constraint]
    return [constraint.only(name) for name in constraint.features]
