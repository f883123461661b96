"""Settle categories, and what missing cells count as, where models differ from data.

An encoder was fitted and stays as it is, so the features are changed and everything is read again
with them. Each round settles at least one encoder: what a strict encoder refuses is barred for
good, and the rest only grows.

A missing cell counts as the one value that a pipeline puts there, for every use of it. A category
that is filled in need not be one of the column's own. Then it joins the feature's categories as a
stand-in, which rows may have and no answer chooses, so that every later step says what it makes of
it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, final

import numpy as np

from counterpoint.errors import InvalidInput
from counterpoint.models.columns import NUMBERS, Columns, place
from counterpoint.rows.cells import is_missing
from counterpoint.rows.features import Categorical, Features

Barred = Mapping[int, frozenset[Hashable]]
"""Feature position → values that must not be added to its categories."""


@final
class CategoriesWanted(Exception):
    """Raised where an encoder takes other categories than the features say."""

    def __init__(self, features: Features, barred: Barred) -> None:
        super().__init__("read again with other features")
        self.features, self.barred = features, barred


def settle_categories(encoder: Any, columns: Columns, *, strict: bool) -> None:
    """Raise `CategoriesWanted` where the features and an encoder's ``categories_`` do not agree.

    It holds the features with the categories that they should have. ``strict`` says that the
    encoder stops at a category that it does not know; such a category of a feature is removed, and
    barred so that no later round brings it back.
    """
    features, barred = columns.features, dict(columns.barred)
    for j, categories_of_column in enumerate(encoder.categories_):
        encoded = tuple(v for v in categories_of_column.tolist() if not is_missing(v))
        position = columns.raw_feature(j)
        if position is None:  # a step before has computed the column
            if columns.sources[j] == NUMBERS:
                raise columns.refusal(
                    encoder,
                    f"it takes categories, but {columns.label(j)} is computed from numbers. "
                    "Encode the raw column, or make the categories in the data before fitting.",
                )
            continue  # the step made its categories, so no feature has to have them
        change = _new_categories(encoder, columns, position, encoded, strict=strict)
        if change is not None:
            categories, newly_barred = change
            feature = columns.features.items[position]
            features = features.replaced(_with_categories(feature, categories))
            barred[position] = barred.get(position, frozenset()) | newly_barred
    if features is not columns.features:
        raise CategoriesWanted(features, barred)


def _new_categories(
    encoder: Any, columns: Columns, position: int, encoded: tuple[Hashable, ...], *, strict: bool
) -> tuple[tuple[Hashable, ...], frozenset[Hashable]] | None:
    """Return the categories a feature should have and those barred from it; None to keep it.

    It should have all that are ``encoded``, and of its own those at which the encoder does not
    stop. Features that the user described stay as they are: where they do not do, that is an error.
    """
    feature, step = columns.features.items[position], place(encoder, columns.where)
    barred = columns.barred.get(position, frozenset()) | columns.invented(position)
    if not isinstance(feature, Categorical):
        if columns.fixed:
            raise InvalidInput(
                f"Expected categories in column {feature.name!r}, which {step} "
                f"encodes; the features say {type(feature).__name__}. Describe it as "
                f"Categorical({feature.name!r}, {encoded!r})."
            )
        return tuple(value for value in encoded if value not in barred), frozenset()
    unknown = frozenset(feature.categories).difference(encoded) if strict else frozenset()
    if columns.fixed:
        if unknown:
            raise InvalidInput(
                f"Expected categories of column {feature.name!r} that {step} "
                f"knows, {encoded!r}; got {sorted(map(repr, unknown))}. Leave them out."
            )
        return None
    remaining = tuple(value for value in feature.categories if value not in unknown)
    present = set(feature.categories)
    added = tuple(value for value in encoded if value not in present and value not in barred)
    if not unknown and not added:
        return None
    if not remaining and not added:
        raise InvalidInput(
            f"Column {feature.name!r} holds no category that {step} knows; "
            f"expected some of {encoded!r}. Pass the data that the model was fitted on."
        )
    return remaining + added, unknown


def _with_categories(feature: Any, categories: tuple[Hashable, ...]) -> Categorical:
    """Give a feature other categories; one of numbers becomes categorical, in their order."""
    if isinstance(feature, Categorical):
        observed = feature.observed
        if observed is not None:
            observed = tuple(value for value in observed if value in categories)
        stand_in = feature.stand_in if feature.stand_in in categories else None
        return replace(feature, categories=categories, observed=observed, stand_in=stand_in)
    unordered = Categorical(feature.name, categories)
    numbers = unordered.numbers
    if numbers is None:
        return unordered
    order = np.argsort(numbers, kind="stable")
    categories = tuple(categories[i] for i in order)
    observed = None
    if feature.observed is not None:
        low, high = feature.observed
        ascending = zip(categories, numbers[order], strict=True)
        observed = tuple(value for value, number in ascending if low <= number <= high)
    return Categorical(feature.name, categories, ordered=True, observed=observed)


# --- what a missing cell counts as ---


def with_stand_ins(columns: Columns) -> Features | None:
    """Add fills that are none of a feature's categories as stand-ins; None if there are none."""
    if columns.fixed:
        return None
    features = columns.features
    for position in columns.fills:
        feature, (value, why_not) = features.items[position], _only_fill(columns, position)
        if not isinstance(feature, Categorical) or why_not is not None:
            continue
        if value in feature.categories or value in columns.barred.get(position, frozenset()):
            continue
        wider = replace(feature, categories=(*feature.categories, value), stand_in=value)
        features = features.replaced(wider)
    return None if features is columns.features else features


def without_stand_ins(columns: Columns) -> tuple[Features, Barred] | None:
    """Remove stand-ins from the features and bar them from now on; None if there are none."""
    features, barred = columns.features, dict(columns.barred)
    for position, feature in enumerate(columns.features):
        if isinstance(feature, Categorical) and feature.stand_in is not None:
            categories = tuple(value for value in feature.categories if value != feature.stand_in)
            features = features.replaced(replace(feature, categories=categories, stand_in=None))
            barred[position] = barred.get(position, frozenset()) | {feature.stand_in}
    return None if features is columns.features else (features, barred)


def fills_of(columns: Columns) -> tuple[dict[Hashable, Any], dict[Hashable, str]]:
    """Return what a missing cell of a feature counts as, as name → fill and name → why not.

    The first has the features that the pipeline fills in with one value everywhere; the second the
    others, with the end of a sentence on the column. A feature that no step fills in is in neither.
    """
    fills: dict[Hashable, Any] = {}
    unfilled: dict[Hashable, str] = {}
    for position in sorted(columns.fills):
        feature, (value, why_not) = columns.features.items[position], _only_fill(columns, position)
        categories = feature.categories if isinstance(feature, Categorical) else None
        # The one value must also be one that rows may hold.
        if why_not is None and categories is None and not _is_number(value):
            why_not = f"the pipeline fills in {value!r}, which is not a number"
        elif why_not is None and categories is not None and value not in categories:
            why_not = f"the pipeline fills in {value!r}, which is none of the categories it takes"
        if why_not is None:
            fills[feature.name] = float(value) if categories is None else value
        elif why_not:  # empty where no step fills it in: there is nothing to explain
            unfilled[feature.name] = why_not
    return fills, unfilled


def _only_fill(columns: Columns, position: int) -> tuple[Any, str | None]:
    """Return the one value that every use of a feature fills in; or None, and why there is none."""
    fills = columns.fills[position]
    reasons = {fill.why_not for fill in fills if fill.why_not is not None}
    if reasons:  # of several the first in the alphabet, so that it is always the same one
        partly = "the pipeline does not fill it in everywhere" if len(fills) > 1 else ""
        return None, min(filter(None, reasons), default=partly)
    values = sorted({fill.value for fill in fills}, key=repr)
    if not all(_are_same(values[0], value) for value in values):
        return None, f"the pipeline fills in {' here and '.join(map(repr, values))} there"
    return values[0], None


def _are_same(first: Any, second: Any) -> bool:
    if _is_number(first) and _is_number(second):
        # one mean, taken in two branches, may be rounded differently
        return bool(abs(first - second) <= 1e-12 * abs(first))
    return bool(first == second)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and bool(np.isfinite(value))
