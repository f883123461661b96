"""What an explainer works with, in a few lines that a person reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from counterpoint.constraints import WithinObserved, named
from counterpoint.rows.features import Categorical, Feature, Integer

if TYPE_CHECKING:
    from counterpoint.explainer import Explainer

__all__ = ["describe"]


def describe(explainer: Explainer) -> str:
    """The model as it was read, the features, the cost and the constraints."""
    lines = ["model"]
    lines += [f"  {step}" for step in explainer.reading.steps]
    lines.append("features")
    lines += [f"  {_feature(feature)}" for feature in explainer.features]
    if explainer.reading.fills:
        filled = ", ".join(f"{name} as {_short(v)}" for name, v in explainer.reading.fills.items())
        lines.append(f"  missing cells count, as the model fills them in: {filled}")
    lines.append("cost")
    lines += [f"  {line}" for line in _cost(explainer)]
    lines.append("constraints")
    lines += [f"  {line}" for line in _constraints(explainer)] or ["  none"]
    return "\n".join(lines)


def _constraints(explainer: Explainer) -> Iterator[str]:
    """What was asked for, and what the data imply."""
    yield from map(str, explainer.constraints)
    if explainer.constant:
        names = ", ".join(map(str, explainer.constant))
        yield f"constant in the data, hence immutable: {names}"
    for constraint in explainer.implied:
        if not isinstance(constraint, WithinObserved):
            continue
        if isinstance(explainer.features[constraint.features[0]], Categorical):
            kept = f"{named(constraint.features)}: only categories that occur in the data"
        else:
            kept = "numbers stay within the ranges above"
            if any(bounds.feature in constraint.features for bounds in constraint.stated):
                kept += ", but where a bound says otherwise"
        yield f"{kept} ({constraint.default})"


def _feature(feature: Feature) -> str:
    if isinstance(feature, Categorical):
        shown = ", ".join(map(str, feature.categories[:6]))
        more = f" and {len(feature.categories) - 6} more" if len(feature.categories) > 6 else ""
        order = "ordered, " if feature.ordered else ""
        return f"{feature.name}: categorical, {order}{shown}{more}"
    seen = (
        "" if feature.observed is None else f", {feature.observed[0]:g} to {feature.observed[1]:g}"
    )
    if isinstance(feature, Integer):
        return f"{feature.name}: integer, steps of {feature.step:g}{seen}"
    return f"{feature.name}: continuous{seen}"


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cost(explainer: Explainer) -> Iterator[str]:
    if not explainer.spreads:
        yield repr(explainer.cost)
        return
    spreads = explainer.spreads.items()
    unit = "range" if any(what == "range" for _, (_, what) in spreads) else "spread in the data"
    yield f"Manhattan, each change divided by the feature's {unit}; a category costs 1"
    for name, (spread, what) in spreads:
        if what == "standard deviation":
            yield f"{name}: median absolute deviation 0, so its standard deviation, {spread:.6g}"
