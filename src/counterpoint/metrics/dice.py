"""Reads the answers that DiCE writes, and the options that it takes."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import counterpoint as cp
from counterpoint.errors import InvalidInput, InvalidSpec, shown
from counterpoint.metrics.pairs import frame_of
from counterpoint.numerics import IntArray

if TYPE_CHECKING:
    import pandas as pd


def read_dice(source: str | PathLike[str]) -> tuple[pd.DataFrame, IntArray]:
    """Return the counterfactuals of a JSON file of DiCE, and which rows they answer.

    Parameters
    ----------
    source
        A path, or the text that ``to_json()`` of dice-ml 0.8 or later returned.

    Returns
    -------
    frame : pandas.DataFrame
        (m, p) without the outcome.
    row : ndarray of shape (m,)
        The positions of the rows that they answer, as the metrics take them.

    Raises
    ------
    InvalidSpec
        If it is no such JSON.
    """
    import pandas as pd

    is_text = isinstance(source, str) and source.lstrip()[:1] in ("{", "[")
    name = "The text" if is_text else Path(source).name
    try:
        text = str(source) if is_text else Path(source).read_text(encoding="utf-8")
        document = json.loads(text)
        version = document["metadata"]["version"]
        names = list(document["feature_names_including_target"])
        outcome = document["data_interface"]["outcome_name"]
        by_row = [answers or [] for answers in document["cfs_list"]]
        rows = [dict(zip(names, answer, strict=True)) for answers in by_row for answer in answers]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidSpec(
            f"{name} is no JSON of DiCE that can be read ({type(error).__name__}: {error}). Write "
            "it with to_json() of what generate_counterfactuals returned (dice-ml 0.8 or later)."
        ) from error
    if version != "2.0":
        raise InvalidSpec(f"{name} has version {shown(version)} of DiCE's JSON; expected '2.0'.")
    frame = pd.DataFrame(rows, columns=names).drop(columns=[outcome])
    return frame, np.repeat(np.arange(len(by_row)), list(map(len, by_row)))


def problem_from_dice(
    data: object,
    features_to_vary: str | Sequence[Hashable] = "all",
    permitted_range: Mapping[Hashable, Sequence[Any]] | None = None,
    target: Any = None,
) -> cp.Problem:
    """Return the `Problem` that DiCE's options describe: what it may vary, within which range.

    Parameters
    ----------
    data
        Rows like those the model was fitted on.
    features_to_vary
        ``"all"``, or names; the others are `Immutable`.
    permitted_range
        Name → [low, high], a `Bounds`; of categories, those that an answer may choose. Other
        numbers stay within the range of the data, in DiCE as in an `Explainer`.
    target
        For the problem.

    Returns
    -------
    Problem
        ``problem.explainer(model, data=data)`` asks the same, and ``problem.save("policy.toml")``
        keeps it.

    Examples
    --------
    >>> import pandas as pd
    >>> from counterpoint import metrics
    >>> X = pd.DataFrame({"income": [30.0, 50.0], "home": ["own", "rent"], "age": [40, 50]})
    >>> problem = metrics.problem_from_dice(X, ["income", "home"], {"income": [20, 60]})
    >>> [*map(str, problem.constraints)]
    ['age is immutable', 'income is between 20 and 60']
    """
    data_features, ranges = cp.Features.from_data(frame_of(data, None)), permitted_range or {}
    vary = data_features.names if features_to_vary == "all" else tuple(features_to_vary)
    for name in (*vary, *ranges):
        data_features.index(name)  # raises if there is no such feature
    fixed = [name for name in data_features.names if name not in vary]
    constraints: list[cp.Constraint] = [cp.Immutable(*fixed)] if fixed else []
    features: list[Any] = []  # those of which only some categories may be chosen
    for name, allowed in ranges.items():
        feature = data_features[name]
        if isinstance(feature, cp.Categorical):
            by_text = {str(category): category for category in feature.categories}
            chosen = tuple(by_text.get(str(value), value) for value in allowed)
            features.append(replace(feature, observed=chosen))
        elif len(allowed) == 2:
            constraints.append(cp.Bounds(name, *allowed))
        else:
            raise InvalidInput(
                f"Expected [low, high] in permitted_range for {name!r}; got {shown(allowed)}."
            )
    return cp.Problem(target, None, tuple(constraints), tuple(features))
