"""Take default costs of changes from data: spreads and ranges of columns, ranks of values."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from counterpoint.errors import InvalidInput, check_number, shown
from counterpoint.numerics import FloatArray
from counterpoint.rows.encoding import numbers
from counterpoint.rows.features import Categorical, Feature, Features
from counterpoint.rows.table import Table

if TYPE_CHECKING:
    from counterpoint.problem.costs import Cost


def mad_weights(data: object, features: Features | None = None) -> dict[Hashable, float]:
    """Return 1 / median absolute deviation (MAD) of each column, for `Manhattan`.

    A column whose MAD is 0 gets 1 / standard deviation, and a constant column 1. A category gets 1,
    so that it costs as much as one MAD of a number.

    Parameters
    ----------
    data
        A data frame or array.
    features
        The kinds of its columns; None to infer them.

    Returns
    -------
    dict
        Name → weight, in cost units for each feature unit.

    References
    ----------
    Wachter, Mittelstadt & Russell (2018), Counterfactual explanations without opening the black
    box, Harvard Journal of Law & Technology 31.
    """
    return {name: 1.0 / spread for name, (spread, _) in spreads(data, features).items()}


def percentile_ranks(
    data: object, features: Features | None = None, knots: int = 101
) -> dict[Hashable, tuple[tuple[float, float], ...]]:
    """Return the ranks of values of each numeric column in the data, for `PercentileShift`.

    The rank of a value is the share of the data below it plus half of the share equal to it.

    Parameters
    ----------
    data
        A data frame or array.
    features
        The kinds of its columns; None to infer them.
    knots
        The largest number of values to return with their exact ranks, at least 2: the first, the
        last, and others whose ranks are about evenly spaced.

    Returns
    -------
    dict
        Name → pairs (value in feature units, rank), increasing.
    """
    check_number("knots", knots)
    if knots < 2:
        raise InvalidInput(f"Expected knots to be at least 2; got {shown(knots)}.")
    out: dict[Hashable, tuple[tuple[float, float], ...]] = {}
    for feature, values in _numeric_columns(data, features):
        if not len(values):
            raise InvalidInput(f"Column {feature.name!r} has no value to rank; describe its ranks.")
        distinct, counts = np.unique(values, return_counts=True)
        rank = (np.cumsum(counts) - 0.5 * counts) / len(values)
        if len(distinct) > knots:
            chosen = np.searchsorted(rank, np.linspace(rank[0], rank[-1], int(knots)))
            chosen = np.unique(np.minimum(chosen, len(distinct) - 1))
            distinct, rank = distinct[chosen], rank[chosen]
        out[feature.name] = tuple(zip(distinct.tolist(), rank.tolist(), strict=True))
    return out


def spreads(data: object, features: Features | None = None) -> dict[Hashable, tuple[float, str]]:
    """Return name → (spread of the column, kind), for `Manhattan` weights of 1 / spread.

    The kind is "MAD", "standard deviation", or "none" with a spread of 1.
    """
    features = _kinds(data, features)
    out: dict[Hashable, tuple[float, str]] = dict.fromkeys(features.names, (1.0, "none"))
    return out | {f.name: _spread(values) for f, values in _numeric_columns(data, features)}


def _kinds(data: object, features: Features | None) -> Features:
    if features is not None and not isinstance(features, Features):
        raise InvalidInput(f"Expected Features or None; got {shown(features)}.")
    return features or Features.from_data(data)


def _numeric_columns(
    data: object, features: Features | None
) -> Iterator[tuple[Feature, FloatArray]]:
    """Yield the numeric features with the finite values of their columns."""
    table, features = Table.read(data), _kinds(data, features)
    for feature in features:
        if not isinstance(feature, Categorical):
            yield feature, numbers(table, feature.name)


def _spread(values: FloatArray) -> tuple[float, str]:
    mad = float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0
    if mad > 0:
        return mad, "MAD"
    deviation = float(values.std()) if len(values) else 0.0
    return (deviation, "standard deviation") if deviation > 0 else (1.0, "none")


def ranges(features: Features) -> dict[Hashable, tuple[float, str]]:
    """Return name → (largest − smallest observed value, "range"), as `spreads` does without data.

    A number whose observed range is unknown is an `InvalidInput`.
    """
    out: dict[Hashable, tuple[float, str]] = {}
    for feature in features:
        out[feature.name] = 1.0, "none"
        if isinstance(feature, Categorical):
            continue
        if feature.observed is None:
            raise InvalidInput(
                "Expected to know what a change costs; got neither a cost nor data, and the range "
                f"of {feature.name!r} is not known. Pass data= (--data), or a cost such as "
                "cp.Manhattan() ([cost] in a policy file), which weighs all features alike."
            )
        low, high = feature.observed
        if high > low:
            out[feature.name] = high - low, "range"
    return out


def described(cost: Cost, spreads: dict[Hashable, tuple[float, str]]) -> list[str]:
    """Return lines that describe a cost, with its units if it was taken from ``spreads``."""
    if not spreads:
        return [repr(cost)]
    kinds = {kind for _, kind in spreads.values()}
    unit = "range" if "range" in kinds else "spread in the data"
    return [
        f"Manhattan, each change divided by the feature's {unit}; a category costs 1",
        *(
            f"{name}: median absolute deviation 0, so its standard deviation, {spread:.6g}"
            for name, (spread, kind) in spreads.items()
            if kind == "standard deviation"
        ),
    ]
