"""What a missing cell counts as: the one value that a pipeline puts there, for every use of it.

A category that the pipeline fills in need not be one of the column's own. Then it joins the
feature's categories as a stand-in, which rows may have and no answer chooses, and the model is read
again, so that every later step says what it makes of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from counterpoint.models.columns import Columns
from counterpoint.rows.features import Categorical, Features

__all__ = ["fills_of", "with_stand_ins", "without_stand_ins"]

SAME = 1e-12  # relative; one mean, taken in two branches, may differ in its last bits
PARTLY = "the pipeline does not fill it in everywhere"


def with_stand_ins(columns: Columns) -> Features | None:
    """The features with fills that are none of their categories as stand-ins; None to keep them."""
    if columns.fixed:
        return None
    features = columns.features
    for at in columns.fills:
        feature, (value, why_not) = features.items[at], _settled(columns, at)
        if not isinstance(feature, Categorical) or why_not is not None:
            continue
        if value in feature.categories or value in columns.barred.get(at, frozenset()):
            continue
        wider = replace(feature, categories=(*feature.categories, value), stand_in=value)
        features = features.replaced(wider)
    return None if features is columns.features else features


def without_stand_ins(
    columns: Columns,
) -> tuple[Features, Mapping[int, frozenset[Hashable]]] | None:
    """The features without stand-ins, which are barred from now on; None if there are none."""
    features, barred = columns.features, dict(columns.barred)
    for at, feature in enumerate(columns.features):
        if isinstance(feature, Categorical) and feature.stand_in is not None:
            own = tuple(value for value in feature.categories if value != feature.stand_in)
            features = features.replaced(replace(feature, categories=own, stand_in=None))
            barred[at] = barred.get(at, frozenset()) | {feature.stand_in}
    return None if features is columns.features else (features, barred)


def fills_of(columns: Columns) -> tuple[dict[Hashable, Any], dict[Hashable, str]]:
    """Name → fill, and name → why there is none, of what a model made of all its columns."""
    fills: dict[Hashable, Any] = {}
    unfilled: dict[Hashable, str] = {}
    for at in sorted(columns.fills):
        feature, (value, why_not) = columns.features.items[at], _settled(columns, at)
        known = feature.categories if isinstance(feature, Categorical) else None
        if why_not is None and known is None and not _is_number(value):
            why_not = f"the pipeline fills in {value!r}, which is no number"
        elif why_not is None and known is not None and value not in known:
            why_not = f"the pipeline fills in {value!r}, which is none of the categories it takes"
        if why_not is None:
            fills[feature.name] = float(value) if known is None else value
        elif why_not:
            unfilled[feature.name] = why_not
    return fills, unfilled


def _settled(columns: Columns, at: int) -> tuple[Any, str | None]:
    """The one value that every use of a feature fills in; or None, and why there is none."""
    found = columns.fills[at]
    reasons = {fill.why_not for fill in found if fill.why_not is not None}
    if reasons:
        said = sorted(reason for reason in reasons if reason)
        return None, said[0] if said else PARTLY if len(found) > 1 else ""
    values = sorted({fill.value for fill in found}, key=repr)
    if not all(_are_same(values[0], value) for value in values):
        return None, f"the pipeline fills in {' here and '.join(map(repr, values))} there"
    return values[0], None


def _are_same(one: Any, other: Any) -> bool:
    if _is_number(one) and _is_number(other):
        return bool(abs(one - other) <= SAME * abs(one))
    return bool(one == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and bool(np.isfinite(value))
