"""Advice: numbers rounded so that the model still confirms them, and what holds beyond them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import counterpoint as cp
from counterpoint.letters.texts import Texts
from counterpoint.protected import opposite, targets_with_rows


def rounded_answers(
    explainer: cp.Explainer, answers: cp.Counterfactuals, texts: Texts
) -> tuple[cp.Counterfactuals, dict[int, tuple[Hashable, ...]]]:
    """Round the numbers of answers; return also the features that are not rounded, by row.

    All numbers of a row go to the steps of their features, and others to three digits. Where that
    is no answer, the step of one feature is given up, and then those of all.
    """
    model = replace(answers.query.model, model=explainer.model)  # which unpickled answers lack
    answers = replace(answers, query=answers.query.asking(model=model))
    numeric = [f.name for f in answers.features if not isinstance(f, cp.Categorical)]
    steps = {name: step for name in numeric if (step := texts.of(name).step) is not None}
    rounded = answers.rounded(steps=steps)
    after = np.array(rounded.after)
    for i in np.flatnonzero(_unrounded(rounded, after, steps).any(axis=1)).tolist():
        row = slice(i, i + 1)
        alone = answers.part(row, answers.table.take(row))
        stepped = [name for name in alone[0].changes if name in steps]
        for dropped in ([name] for name in stepped), [stepped]:
            attempts = (
                alone.rounded(steps={n: s for n, s in steps.items() if n not in names}).after
                for names in dropped
            )
            attempt = next((y for y in attempts if (y != alone.after).any()), None)
            if attempt is not None:
                after[i] = attempt[0]
                break
    unrounded = _unrounded(rounded, after, steps)
    names = answers.features.names
    return replace(rounded, after=after), {
        i: tuple(names[j] for j in np.flatnonzero(unrounded[i]))
        for i in np.flatnonzero(unrounded.any(axis=1)).tolist()
    }


def _unrounded(
    answers: cp.Counterfactuals, after: NDArray[Any], steps: Mapping[Hashable, float]
) -> NDArray[np.bool_]:
    """(n, p): numbers that change to what is no multiple of a step, or has more than 7 digits."""
    out = answers.changed & answers.features.is_numeric
    for j, name in enumerate(answers.features.names):
        for i in np.flatnonzero(out[:, j]).tolist():
            value = after[i, j]
            units = value / steps.get(name, value or 1.0)
            is_multiple = abs(units - np.rint(units)) <= 1e-9 * max(1.0, abs(units))
            out[i, j] = not (is_multiple if name in steps else float(f"{value:.7g}") == value)
    return out


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
