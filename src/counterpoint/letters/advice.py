"""Advice: numbers rounded so that the model still confirms them, and what holds beyond them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import counterpoint as cp
from counterpoint.letters.texts import Texts
from counterpoint.protected import opposite, targets_with_rows

__all__ = ["asking_under", "holds_beyond", "rounded_answers"]


def rounded_answers(
    explainer: cp.Explainer, answers: cp.Counterfactuals, texts: Texts
) -> tuple[cp.Counterfactuals, dict[int, tuple[Hashable, ...]]]:
    """Round the numbers of answers; return also the features of rows that stay exact."""
    before, after = answers.before, answers.after
    exponent = np.zeros(after.shape)  # of ten: the second digit of each change
    np.log10(np.abs(after - before), out=exponent, where=answers.changed)
    steps = 10.0 ** (np.floor(exponent) - 1.0)
    for column, feature in zip(steps.T, answers.features, strict=True):
        step = texts.of(feature.name).step
        if isinstance(feature, cp.Categorical) or (
            step is None and isinstance(feature, cp.Integer)
        ):
            column[:] = 0.0
        elif step is not None:
            column[:] = step
    open_, best, up = answers.changed & (steps > 0), after.copy(), after > before

    def attempt(cells: NDArray[np.bool_], further: int) -> None:
        """Take the next multiples for some cells, in the rows in which that is valid."""
        rows = np.flatnonzero(cells.any(axis=1))
        trial = np.where(cells, _outward(after, steps, up, further), best)
        valid = rows[_holds(explainer, answers, trial, rows)]
        best[valid] = trial[valid]
        open_[valid] &= ~cells[valid]

    for further in (0, 1):
        attempt(open_, further)
    for j in np.flatnonzero(open_.any(axis=0)):  # what does not go together goes one by one
        for further in (0, 1):
            attempt(open_ & (np.arange(after.shape[1]) == j), further)
    names, open_rows = answers.features.names, np.flatnonzero(open_.any(axis=1)).tolist()
    return replace(answers, after=best), {
        i: tuple(names[j] for j in np.flatnonzero(open_[i])) for i in open_rows
    }


def _outward(
    values: NDArray[Any], steps: NDArray[Any], up: NDArray[np.bool_], further: int
) -> NDArray[Any]:
    """(n, p) the next multiples of steps away from factual values, or one step further."""
    safe = np.where(steps > 0, steps, 1.0)
    slack = 1e-6  # of a step: an optimum lies by rounding errors beyond the multiple it is at
    sign = np.where(up, 1.0, -1.0)
    units = sign * (np.ceil(sign * values / safe - slack) + further)
    scale = 10.0 ** np.maximum(0.0, 3.0 - np.floor(np.log10(safe)))  # 0.3, and not 3 * 0.1
    return np.rint(units * safe * scale) / scale


def _holds(
    explainer: cp.Explainer,
    answers: cp.Counterfactuals,
    codes: NDArray[Any],
    rows: NDArray[np.intp],
) -> NDArray[np.bool_]:
    """(m,): whether (n, p) codes are answers for some rows, by constraints and by the model."""
    features, query = answers.features, answers.query
    out = np.zeros(len(answers), dtype=bool)
    moved = replace(answers, after=codes).decoded(slice(None)).select(features.names)
    for target, mine in targets_with_rows(answers):
        at = np.intersect1d(mine, rows)
        if len(at):
            x, y = (features.expand(c[at]) for c in (answers.before, codes))
            predicted = target.said(explainer.reading, moved.take(at))
            verdict = target.verdict(query.model.form, y, predicted, query.eps)
            within = query.actionable.violation(y, x) <= answers.certificates.resolution
            out[at] = verdict.leads & within
    return out[rows]


def holds_beyond(explainer: cp.Explainer, rounded: cp.Counterfactuals) -> NDArray[np.bool_]:
    """(n,): whether it is proved that the decision is the same for all numbers beyond the advice.

    Any other decision is searched for from there, for all rows that move in the same directions at
    once: first with all features free that move in one direction only, whatever the row.
    """
    features = rounded.features
    signs = np.sign(rounded.after - rounded.before) * rounded.changed * features.is_numeric
    rows = rounded.decoded(slice(None)).select(features.names)
    up, down = (signs > 0).any(axis=0), (signs < 0).any(axis=0)
    out = np.zeros(len(rounded), dtype=bool)
    for target, mine in targets_with_rows(rounded):
        other = opposite(target, explainer)
        for moves in (np.where(up & down, signs, 1.0 * up - down), signs):
            unproved = mine[signs[mine].any(axis=1) & ~out[mine] & (other is not None)]
            ways, which = np.unique(moves[unproved], axis=0, return_inverse=True)
            for w, way in enumerate(ways):
                asker = asking_under(explainer, features, [*_moving(features, way)])
                at = unproved[np.ravel(which) == w]
                answers = asker.explain(rows.take(at).native, other, progress=False)
                proved = answers.certificates.claim == cp.Claim.PROVED
                out[at] = proved & (answers.status == cp.Status.INFEASIBLE)
    return out


def _moving(features: cp.Features, way: NDArray[Any]) -> Iterator[cp.Constraint]:
    """Yield constraints: features only rise (1), only fall (-1), within their data, or stay (0)."""
    for feature, sign in zip(features, way.tolist(), strict=True):
        if not sign:
            yield cp.Immutable(feature.name)
            continue
        yield cp.Monotone(feature.name, "increasing" if sign > 0 else "decreasing")
        if feature.observed is not None:
            yield cp.WithinObserved(feature.name)


def asking_under(
    explainer: cp.Explainer, features: cp.Features, constraints: Sequence[cp.Constraint]
) -> cp.Explainer:
    """Return the explainer with other constraints instead of its own and of what data imply."""
    return cp.Explainer(
        explainer.model, features=[*features], cost=explainer.cost, constraints=constraints
    )
