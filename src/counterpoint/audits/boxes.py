"""Whether a whole box of rows is without an action: proved, or refuted by a row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

import counterpoint as cp
from counterpoint.audits.auditing import fixed_rows
from counterpoint.audits.rules import parts_of
from counterpoint.errors import InvalidInput, shown
from counterpoint.rows import lattice

Reach = tuple[Any, Sequence[cp.Constraint], Any, Callable[[Any], Any]]


@final
@dataclass(frozen=True, eq=False)
class Confined:
    """Whether all rows of a box are without an action.

    Parameters
    ----------
    proved
        True if it is proved, False if it is refuted; None if neither.
    row
        What refutes it: name → value of a row in the box that has an action, or the target already.
    answers
        That to this row; or those to two questions about the whole box, that there is none: whether
        some row has the target already, and whether some row has an action. Their proofs can be
        kept as records. One is left out if the constraints leave no point at all.
    """

    proved: bool | None
    row: dict[Hashable, Any] | None
    answers: tuple[cp.Counterfactual, ...]


def confined(
    explainer: cp.Explainer,
    box: Mapping[Hashable, Any],
    target: Any,
    *,
    time_limit: float | None = None,
) -> Confined:
    """Whether no row of a box has an action that gives the target: proved, or refuted by a row.

    What all rows of the box together can reach is a box again, since these constraints are about
    one feature each: `Immutable`, `Bounds`, `Monotone` and `WithinObserved`. `Linear` and
    `Ellipsoid` are about the answer alone. So one question settles the whole box, for every model.

    Parameters
    ----------
    explainer
        The constraints on actions.
    box
        Name → (lowest, highest) value, or the categories; where nothing is said, what the data
        show. `Integer` features have multiples of their step, and no cell is missing.
    target
        What is wanted, as for `Explainer.explain`.
    time_limit
        Seconds.

    Raises
    ------
    InvalidInput
        If the constraints hold `MaxChanges` or one of your own, which tie features of a row
        together, the target depends on the row (`OtherLabel` of None), or the box is empty.

    References
    ----------
    Kothari et al., Prediction without preclusion, arXiv 2308.12820; confined regions: arXiv
    2502.16380.
    """
    constraints = (*explainer.constraints, *explainer.implied)
    alone = (cp.Immutable, cp.Bounds, cp.Monotone, cp.WithinObserved)
    tying = [c for c in constraints if not isinstance(c, (*alone, cp.Linear, cp.Ellipsoid))]
    if tying:
        raise InvalidInput(
            f"A box can be settled under constraints on one feature each, and relations of the "
            f"answer; got {shown(tying[0])}. Leave it out: then fewer boxes are confined."
        )
    if isinstance(target, cp.OtherLabel) and not target.labels:
        raise InvalidInput(
            "Expected a target that is the same for all rows; say than= which label."
        )
    for name in box:
        explainer.features.index(name)
    proofs: list[cp.Counterfactual] = []
    # Rows that have the target already; rows that get there.
    for rules in ([cp.Immutable(*explainer.features.names)], constraints):
        reaches = [_reach(f, box.get(f.name), [*_about(f, rules)]) for f in explainer.features]
        ways = [way for way in reaches if way is not None]
        if len(ways) < len(reaches):
            continue  # no row may be anywhere
        relations = [c for c in rules if isinstance(c, cp.Linear | cp.Ellipsoid)]
        widened = cp.Explainer(
            explainer.model,
            features=[feature for feature, *_ in ways],
            cost=explainer.cost,
            constraints=[*relations, *(c for _, bounds, *_ in ways for c in bounds)],
        )
        start = {feature.name: value for feature, _, value, _ in ways}
        (answer,) = widened.explain([start], target, time_limit=time_limit, progress=False)
        if answer.found:
            row = {feature.name: origin(answer.row[feature.name]) for feature, *_, origin in ways}
            (direct,) = explainer.explain([row], target, time_limit=time_limit, progress=False)
            return Confined(False if direct.found else None, row, (direct,))
        proofs.append(answer)
    proved = all(fixed_rows(answer.batch)[answer.position] for answer in proofs)
    return Confined(proved or None, None, tuple(proofs))


def _about(feature: Any, constraints: Sequence[cp.Constraint]) -> Iterator[cp.Constraint]:
    """The constraints on one feature, as constraints on it alone."""
    for c in constraints:
        if isinstance(c, cp.Immutable | cp.WithinObserved) and feature.name in c.features:
            yield next(piece for piece in parts_of(c) if piece.features == (feature.name,))
        elif isinstance(c, cp.WithinObserved) and not c.features:
            yield cp.WithinObserved(feature.name)
        elif isinstance(c, cp.Bounds | cp.Monotone) and c.feature == feature.name:
            yield c


def _reach(feature: Any, inside: Any, rules: Sequence[cp.Constraint]) -> Reach | None:
    """Return what a feature can reach from its part of the box; None if that is nothing.

    The feature, with what can be reached as what was observed if it is categorical; the constraints
    that say so; a start; and a function that says where in the box to start, to get to a value.
    """
    inside = feature.observed if inside is None else inside
    if inside is None:
        raise InvalidInput(
            f"Expected a range of {feature.name!r} in the box, since there are no data that show "
            "one."
        )
    return (_categories if isinstance(feature, cp.Categorical) else _numbers)(
        feature, inside, rules
    )


def _categories(
    feature: cp.Categorical, stated: Any, rules: Sequence[cp.Constraint]
) -> Reach | None:
    """Return which categories can be reached from those in the box; None if there is none."""
    inside = [stated] if stated in feature.categories else list(stated)
    if not inside or not {*inside} <= {*feature.categories}:
        raise InvalidInput(
            f"Expected categories of {feature.name!r} in the box; got {shown(stated)}."
        )
    alone, count = cp.Features([feature]), len(feature.categories)
    # All moves from one category to another, as columns of codes.
    old, new = (codes.reshape(-1, 1).astype(float) for codes in np.indices((count, count)))
    allowed = (old == new)[:, 0] | ~feature.is_stand_in[new[:, 0].astype(int)]
    for condition in (condition for rule in rules for condition in rule.region(alone)):
        allowed &= condition.violation(alone.expand(new), alone.expand(old)) <= 0
    origins: dict[Hashable, Hashable] = {}  # from a category that is reached to one in the box
    for k in np.flatnonzero(allowed).tolist():
        start, end = (feature.categories[position] for position in divmod(k, count))
        if start in inside and (start == end or end not in origins):
            origins[end] = start
    if not origins:
        return None
    start = feature.stand_in if feature.stand_in in origins else next(iter(origins))
    reached = replace(feature, observed=tuple(origins))
    return reached, [cp.WithinObserved(feature.name)], start, origins.__getitem__


def _numbers(feature: Any, stated: Any, rules: Sequence[cp.Constraint]) -> Reach | None:
    """Return the range that can be reached from one in the box; None if it is empty."""
    try:
        low, high = map(float, stated)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if isinstance(feature, cp.Integer):
        low, high = (
            float(lattice.number(0.0, f(v / feature.step), feature.step))
            for f, v in ((np.ceil, low), (np.floor, high))
        )
    if not low <= high:
        raise InvalidInput(
            f"Expected a lowest and a highest value of {feature.name!r} in the box; got "
            f"{shown(stated)}."
        )
    # Both ends of what a rule allows rise with the value before: the union over the box is a range.
    ends = [_ends(rule, feature, low, high) for rule in rules] or [(-np.inf, np.inf)]
    least, most = max(end[0] for end in ends), min(end[1] for end in ends)
    if least > most:
        return None
    bounds = [cp.Bounds(feature.name, least, most)] if np.isfinite((least, most)).any() else []
    start = next((v for v in (low, high) if np.isfinite(v)), 0.0)
    return feature, bounds, start, lambda value: float(np.clip(value, low, high))


def _ends(rule: Any, feature: Any, low: float, high: float) -> tuple[float, float]:
    """What a constraint lets be reached from between two values."""
    match rule:
        case cp.Immutable():
            return low, high
        case cp.Bounds():
            return max(rule.low, low - rule.fall), min(rule.high, high + rule.rise)
        case cp.Monotone():
            return (low, np.inf) if rule.direction == "increasing" else (-np.inf, high)
    stated = [bounds for bounds in rule.stated if bounds.feature == feature.name]
    no_low, no_high = (np.isfinite([getattr(b, e) for b in stated]).any() for e in ("low", "high"))
    first, last = feature.observed
    return -np.inf if no_low else min(first, low), np.inf if no_high else max(last, high)
