"""Prove that a whole box of rows is without an action, or refute it by a row: `confined`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

import counterpoint as cp
from counterpoint.audits.auditing import fixed_rows
from counterpoint.audits.rules import parts_of
from counterpoint.errors import InvalidInput, is_comparable, is_listed, shown
from counterpoint.rows import lattice

Reach = tuple[Any, Sequence[cp.Constraint], Any, Callable[[Any], Any]]
"""The values that one feature can get to, from any row of a box. The feature, with these as its
observed values if it is categorical; constraints on it that leave these; one of them, to start a
search; and a function from one of them to a value in the box from which it can be reached."""


@final
@dataclass(frozen=True, eq=False)
class Confined:
    """The answer to whether all rows of a box are without an action.

    Parameters
    ----------
    proved
        True if it is proved, False if it is refuted; None if neither.
    row
        A row that refutes it: name → value of one in the box that has an action, or the target
        already.
    answers
        The answer to this row; or those to two questions about the whole box, that there is none:
        whether some row has the target already, and whether some row has an action. Their proofs
        can be kept as records. One is left out if the constraints leave no point at all.
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
    """Prove that no row of a box has an action that gives the target, or refute it by a row.

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
    if not isinstance(box, Mapping):
        raise InvalidInput(
            f"Expected a box as a mapping from names to ranges or categories; got {shown(box)}."
        )
    for name in box:
        explainer.features.index(name)
    proofs: list[cp.Counterfactual] = []
    # Where nothing may change, the question is whether some row has the target already; under the
    # constraints, whether some row gets there.
    for rules in ([cp.Immutable(*explainer.features.names)], constraints):
        reaches = [_reach(f, box.get(f.name), [*_about(f, rules)]) for f in explainer.features]
        possible = [reach for reach in reaches if reach is not None]
        if len(possible) < len(reaches):
            continue  # a feature has no value at all, so there is nothing to ask
        relations = [c for c in rules if isinstance(c, cp.Linear | cp.Ellipsoid)]
        widened = cp.Explainer(
            explainer.model,
            features=[feature for feature, _, _, _ in possible],
            cost=explainer.cost,
            constraints=[*relations, *(c for _, limits, _, _ in possible for c in limits)],
        )
        start = {feature.name: value for feature, _, value, _ in possible}
        (answer,) = widened.explain([start], target, time_limit=time_limit, progress=False)
        if answer.found:
            row = {
                feature.name: origin(answer.row[feature.name]) for feature, _, _, origin in possible
            }
            (direct,) = explainer.explain([row], target, time_limit=time_limit, progress=False)
            return Confined(False if direct.found else None, row, (direct,))
        proofs.append(answer)
    proved = all(fixed_rows(answer.batch)[answer.position] for answer in proofs)
    return Confined(proved or None, None, tuple(proofs))


def _about(feature: Any, constraints: Sequence[cp.Constraint]) -> Iterator[cp.Constraint]:
    """Yield the constraints on one feature, as constraints on it alone."""
    for c in constraints:
        if isinstance(c, cp.Immutable | cp.WithinObserved) and feature.name in c.features:
            yield next(part for part in parts_of(c) if part.features == (feature.name,))
        elif isinstance(c, cp.WithinObserved) and not c.features:
            yield cp.WithinObserved(feature.name)
        elif isinstance(c, cp.Bounds | cp.Monotone) and c.feature == feature.name:
            yield c


def _reach(feature: Any, side: Any, rules: Sequence[cp.Constraint]) -> Reach | None:
    """Return the reach of a feature from its side of the box; None if it has no value.

    ``side`` is a range or categories, or None for what the data show.
    """
    side = feature.observed if side is None else side
    if side is None:
        raise InvalidInput(
            f"Expected a range of {feature.name!r} in the box, since there are no data that show "
            "one."
        )
    reach = _reach_of_categories if isinstance(feature, cp.Categorical) else _reach_of_numbers
    return reach(feature, side, rules)


def _reach_of_categories(
    feature: cp.Categorical, stated: Any, rules: Sequence[cp.Constraint]
) -> Reach | None:
    """Return the `Reach` from one or several categories; None if none can be reached."""
    is_one = not is_listed(stated) or (is_comparable(stated) and stated in feature.categories)
    inside = [stated] if is_one else list(stated)
    if not inside or not all(is_comparable(c) and c in feature.categories for c in inside):
        raise InvalidInput(
            f"Expected categories of {feature.name!r} in the box; got {shown(stated)}."
        )
    alone, count = cp.Features([feature]), len(feature.categories)
    # All moves from one category to another, as columns of codes; the k-th move leads from category
    # k // count to category k % count.
    old, new = (codes.reshape(-1, 1).astype(float) for codes in np.indices((count, count)))
    # A row may keep the category that stands for missing cells, but no answer chooses it.
    allowed = (old == new)[:, 0] | ~feature.is_stand_in[new[:, 0].astype(int)]
    for condition in (condition for rule in rules for condition in rule.region(alone)):
        allowed &= condition.violation(alone.expand(new), alone.expand(old)) <= 0
    origins: dict[Hashable, Hashable] = {}  # from a category that is reached to one in the box
    for k in np.flatnonzero(allowed).tolist():
        origin, end = (feature.categories[position] for position in divmod(k, count))
        if origin in inside and (origin == end or end not in origins):
            origins[end] = origin
    if not origins:
        return None
    # for the same reason a search gets to the stand-in only if it begins there
    start = feature.stand_in if feature.stand_in in origins else next(iter(origins))
    reached = replace(feature, observed=tuple(origins))
    return reached, [cp.WithinObserved(feature.name)], start, origins.__getitem__


def _reach_of_numbers(feature: Any, stated: Any, rules: Sequence[cp.Constraint]) -> Reach | None:
    """Return the `Reach` of a number from a range of it; None if no value can be reached."""
    try:
        low, high = map(float, stated if is_listed(stated) else ())  # a text is no pair of digits
    except (TypeError, ValueError, OverflowError):
        low, high = np.nan, np.nan
    if isinstance(feature, cp.Integer):  # whole steps within the range
        steps = np.ceil(low / feature.step), np.floor(high / feature.step)
        low, high = (float(lattice.number(0.0, count, feature.step)) for count in steps)
    if not low <= high:
        raise InvalidInput(
            f"Expected a lowest and a highest value of {feature.name!r} in the box; got "
            f"{shown(stated)}."
        )
    # Both ends of the range that a rule allows rise with the value before: the union of these
    # ranges over the box is a range. Its lower end is that of the box's lowest value, its upper end
    # that of the highest.
    ranges = [_allowed_range(rule, feature, low, high) for rule in rules] or [(-np.inf, np.inf)]
    least, most = max(lower for lower, _ in ranges), min(upper for _, upper in ranges)
    if least > most:
        return None
    bounds = [cp.Bounds(feature.name, least, most)] if np.isfinite((least, most)).any() else []
    start = next((end for end in (low, high) if np.isfinite(end)), 0.0)
    # a value that can be reached is reached from the value of the box that is nearest to it
    return feature, bounds, start, lambda value: float(np.clip(value, low, high))


def _allowed_range(rule: Any, feature: Any, low: float, high: float) -> tuple[float, float]:
    """Return the union of the ranges that a constraint allows to values from low to high."""
    match rule:
        case cp.Immutable():
            return low, high
        case cp.Bounds():
            return max(rule.low, low - rule.fall), min(rule.high, high + rule.rise)
        case cp.Monotone():
            return (low, np.inf) if rule.direction == "increasing" else (-np.inf, high)
    # `WithinObserved`: a bound that is stated holds in the place of an end of the observed range,
    # and is itself among the rules; a row beyond that range may stay where it is.
    stated = [bounds for bounds in rule.stated if bounds.feature == feature.name]
    lowest, highest = feature.observed
    return (
        -np.inf if np.isfinite([b.low for b in stated]).any() else min(lowest, low),
        np.inf if np.isfinite([b.high for b in stated]).any() else max(highest, high),
    )
