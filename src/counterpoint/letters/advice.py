"""Round advised numbers so that the model still confirms them, and prove what holds beyond them."""

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
        for given_up in (*([name] for name in stepped), stepped):
            fewer_steps = {name: step for name, step in steps.items() if name not in given_up}
            attempt = alone.rounded(steps=fewer_steps).after
            if (attempt != alone.after).any():  # else the model confirms no rounded numbers
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
    """Return a mask (n, p) of the changed numbers that are not rounded in ``after``.

    They are no multiple of the step of their feature or, without a step, have more than 7 digits.
    """
    out = answers.changed & answers.features.is_numeric
    for j, name in enumerate(answers.features.names):
        for i in np.flatnonzero(out[:, j]).tolist():
            value = after[i, j]
            if name in steps:
                units = value / steps[name]
                is_rounded = abs(units - np.rint(units)) <= 1e-9 * max(1.0, abs(units))
            else:
                is_rounded = float(f"{value:.7g}") == value
            out[i, j] = not is_rounded
    return out


def holds_beyond(explainer: cp.Explainer, rounded: cp.Counterfactuals) -> NDArray[np.bool_]:
    """Return for each row (n,) whether it is proved that numbers beyond the advice do as well.

    It is, if no other decision can be reached from the advised row by moving on in the directions
    of its changes. Rows with the same directions are searched together.
    """
    features = rounded.features
    signs = np.sign(rounded.after - rounded.before) * rounded.changed * features.is_numeric
    advised_rows = rounded.decoded(slice(None)).select(features.names)
    # A row is tried first with all features free that move in one direction only, whatever the row:
    # that proves more than is needed, and most rows then have the same directions.
    rises, falls = (signs > 0).any(axis=0), (signs < 0).any(axis=0)
    common_signs = np.where(rises & falls, signs, 1.0 * rises - falls)
    proved = np.zeros(len(rounded), dtype=bool)
    for target, target_rows in targets_with_rows(rounded):
        other = opposite(target, explainer)
        if other is None:
            continue
        moving = target_rows[signs[target_rows].any(axis=1)]
        for row_signs in (common_signs, signs):
            unproved = moving[~proved[moving]]
            directions, index = np.unique(row_signs[unproved], axis=0, return_inverse=True)
            for k, direction in enumerate(directions):
                refuter = asking_under(explainer, features, [*_moving(features, direction)])
                rows = unproved[np.ravel(index) == k]
                answers = refuter.explain(advised_rows.take(rows).native, other, progress=False)
                is_proof = answers.certificates.claim == cp.Claim.PROVED
                proved[rows] = is_proof & (answers.status == cp.Status.INFEASIBLE)
    return proved


def _moving(features: cp.Features, direction: NDArray[Any]) -> Iterator[cp.Constraint]:
    """Yield constraints: features only rise (1), only fall (-1), within their data, or stay (0)."""
    for feature, sign in zip(features, direction.tolist(), strict=True):
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
