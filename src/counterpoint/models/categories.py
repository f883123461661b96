"""What categories a feature has, where a fitted encoder and the features do not agree.

The encoder was fitted and stays as it is, so the features are changed and everything is read again
with them. Each round settles at least one encoder: what a strict encoder refuses is barred for
good, and the rest only grows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, final

import numpy as np

from counterpoint.errors import InvalidInput
from counterpoint.models.columns import NUMBERS, Columns
from counterpoint.rows.features import Categorical, Features, is_missing

__all__ = ["CategoriesWanted", "settle_categories"]


@final
class CategoriesWanted(Exception):
    """An encoder takes other categories than the features say: read again with these."""

    def __init__(self, features: Features, barred: Mapping[int, frozenset[Hashable]]) -> None:
        super().__init__("read again with other features")
        self.features = features
        self.barred = barred


def settle_categories(encoder: Any, columns: Columns, *, strict: bool) -> None:
    """Ask for other categories where the features and a fitted encoder do not agree.

    Parameters
    ----------
    encoder
        A fitted encoder with ``categories_``.
    columns
        Its input.
    strict
        Whether the encoder stops at a category that it does not know.
    """
    wanted: dict[int, tuple[tuple[Hashable, ...], frozenset[Hashable]]] = {}
    for j, listed in enumerate(encoder.categories_):
        known = tuple(value for value in listed.tolist() if not is_missing(value))
        at = columns.raw_feature(j)
        if at is None:
            _refuse_numbers(encoder, columns, j)
            continue
        new = _new_categories(encoder, columns, at, known, strict=strict)
        if new is not None:
            wanted[at] = new
    if wanted:
        raise _recategorized(columns, wanted)


def _refuse_numbers(encoder: Any, columns: Columns, j: int) -> None:
    if columns.sources[j] == NUMBERS:
        raise columns.refusal(
            encoder,
            f"it takes categories, but {columns.label(j)} is computed from numbers. "
            "Encode the raw column, or make the categories in the data before fitting.",
        )


def _new_categories(
    encoder: Any, columns: Columns, at: int, known: tuple[Hashable, ...], *, strict: bool
) -> tuple[tuple[Hashable, ...], frozenset[Hashable]] | None:
    """The categories a feature should have instead, and what must not be added; None to keep."""
    feature = columns.features.items[at]
    barred = columns.barred.get(at, frozenset()) | columns.invented(at)
    if not isinstance(feature, Categorical):
        if columns.fixed:
            raise InvalidInput(
                f"Expected categories in column {feature.name!r}, which {columns.place(encoder)} "
                f"encodes; the features say {type(feature).__name__}. Describe it as "
                f"Categorical({feature.name!r}, {known!r})."
            )
        return tuple(value for value in known if value not in barred), frozenset()
    unknown = frozenset(feature.categories).difference(known) if strict else frozenset()
    if columns.fixed:
        if unknown:
            raise InvalidInput(
                f"Expected categories of column {feature.name!r} that {columns.place(encoder)} "
                f"knows, {known!r}; got {sorted(map(repr, unknown))}. Leave them out."
            )
        return None
    kept = tuple(value for value in feature.categories if value not in unknown)
    own = set(feature.categories)
    added = tuple(value for value in known if value not in own and value not in barred)
    if not unknown and not added:
        return None
    if not kept and not added:
        raise InvalidInput(
            f"Column {feature.name!r} holds no category that {columns.place(encoder)} knows; "
            f"expected some of {known!r}. Pass the data that the model was fitted on."
        )
    return kept + added, unknown


def _recategorized(
    columns: Columns, wanted: Mapping[int, tuple[tuple[Hashable, ...], frozenset[Hashable]]]
) -> CategoriesWanted:
    """The request to read again with these categories (and values barred) of some features."""
    features, barred = columns.features, dict(columns.barred)
    for at, (categories, banned) in wanted.items():
        features = features.replaced(_with_categories(features.items[at], categories))
        barred[at] = barred.get(at, frozenset()) | banned
    return CategoriesWanted(features, barred)


def _with_categories(feature: Any, categories: tuple[Hashable, ...]) -> Categorical:
    if isinstance(feature, Categorical):
        seen = feature.observed
        if seen is not None:
            seen = tuple(value for value in seen if value in categories)
        stand_in = feature.stand_in if feature.stand_in in categories else None
        return replace(feature, categories=categories, observed=seen, stand_in=stand_in)
    new = Categorical(feature.name, categories)
    numbers = new.numbers
    if numbers is None:
        return new
    order = np.argsort(numbers, kind="stable")
    categories = tuple(categories[i] for i in order)
    seen = None
    if feature.observed is not None:
        low, high = feature.observed
        seen = tuple(v for v, x in zip(categories, numbers[order], strict=True) if low <= x <= high)
    return Categorical(feature.name, categories, ordered=True, observed=seen)
