"""`trace`: the answers along one varied parameter, such as the weight of a `Tradeoff`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput, is_listed, shown
from counterpoint.explainer import DEFAULT_GAP, Explainer, as_target, repeated
from counterpoint.path import Path
from counterpoint.progress import track
from counterpoint.results import Counterfactuals
from counterpoint.rows.table import Table
from counterpoint.targets import Target

if TYPE_CHECKING:
    from counterpoint.costs import Cost
    from counterpoint.engine.confirm import Task

__all__ = ["checked_targets", "trace", "traced"]

FloatArray = NDArray[np.float64]

CELLS = 1 << 22
"""Cells of a batch that answers several weights at once: what it holds of them stays small."""


def trace(
    explainer: Explainer,
    X: object,
    targets: Iterable[Any],
    *,
    gap: float = DEFAULT_GAP,
    time_limit: float | None = None,
    progress: bool | None = None,
) -> Path:
    """The answers of each row to one target after the other.

    The trade-offs of one label are answered in one batch, which takes far less time than as many
    calls of `Explainer.explain`; other targets are answered one by one. The answers are the same.

    As the weight of a `Tradeoff` falls, neither the cost of the answer nor the probability of the
    label falls, up to their gaps, whatever the cost and the constraints are.

    Parameters
    ----------
    explainer
        What is asked of each row.
    X
        A data frame, an array of shape (n, p), or one row.
    targets
        What is wanted, in any order; what is no `Target` is taken as the label of `Label`.
    gap, time_limit, progress
        As for `Explainer.explain`; the seconds are those of each answer.

    Returns
    -------
    Path

    Raises
    ------
    InvalidInput
        If columns are missing, or a target does not fit the model.
    ReaderMismatch
        If the model predicts otherwise than what was read of it.

    References
    ----------
    Carreira-Perpiñán & Hada, Inverse classification with logistic and softmax classifiers,
    section 3.4.

    Examples
    --------
    >>> import counterpoint as cp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> explainer = cp.Explainer(model, data=X, cost=cp.SquaredEuclidean())
    >>> path = cp.trace(explainer, X.head(1), [cp.Tradeoff(1, w) for w in (10.0, 1.0, 0.1)])
    >>> path.probability.round(2).tolist()
    [[0.04, 0.5, 0.92]]
    """
    if not isinstance(explainer, Explainer):
        raise InvalidInput(
            f"Expected an Explainer; got {shown(explainer)} ({type(explainer).__name__}). "
            "Pass cp.Explainer(model, data=...)."
        )
    return explainer.trace(X, targets, gap=gap, time_limit=time_limit, progress=progress)


def traced(
    task: Task,
    tables: tuple[Table, Table],
    targets: tuple[Target, ...],
    cost: Cost,
    *,
    progress: bool | None,
) -> Path:
    """The answers to one target after the other; see `trace`.

    Parameters
    ----------
    task
        What is asked, with any target.
    tables
        The rows as they came, and the model's columns of them.
    targets
        What is wanted.
    cost
        Of a change.
    progress
        As for `trace`.
    """
    from counterpoint.engine.answering import answers_to

    found: list[Counterfactuals | None] = [None] * len(targets)
    weighed: dict[Hashable, list[int]] = {}
    with track(len(tables[1]) * len(targets), show=progress) as advance:
        for k, target in enumerate(targets):
            if target.requirement.weight is None:
                found[k] = answers_to(replace(task, target=target), tables, advance)
            else:
                weighed.setdefault(target.requirement, []).append(k)
        for ks in weighed.values():
            one = replace(task, target=targets[ks[0]])
            weights = np.array([targets[k].requirement.weight for k in ks])
            for k, answers in zip(ks, _weighed(one, tables, weights, advance), strict=True):
                found[k] = answers
    return Path(targets, tuple(answers for answers in found if answers is not None), cost)


def _weighed(
    task: Task, tables: tuple[Table, Table], weights: FloatArray, advance: Callable[[int], None]
) -> Iterator[Counterfactuals]:
    """The answers to a trade-off with each of these weights, several of them in one batch."""
    from counterpoint.engine.answering import answers_to

    n = len(tables[1])
    several = max(1, CELLS // max(1, n * len(task.question.features)))
    for start in range(0, len(weights), several):
        some = weights[start : start + several]
        again = repeated(tables, np.tile(np.arange(n), len(some)))
        whole = answers_to(task, again, advance, weight=np.repeat(some, n))
        for k in range(len(some)):
            yield whole.part(slice(k * n, (k + 1) * n), tables[0])


def checked_targets(targets: Any) -> tuple[Target, ...]:
    """Targets, or a sentence that says what is wrong with them."""
    if isinstance(targets, Mapping | Target) or not is_listed(targets):
        raise InvalidInput(
            f"Expected a list of targets; got {shown(targets)} ({type(targets).__name__}). "
            "Pass one target as [target]."
        )
    given = tuple(targets)
    if not given:
        raise InvalidInput(
            "Expected at least one target, such as cp.Tradeoff(label, weight=0.1); got none."
        )
    for item in given:
        if isinstance(item, type) or not _is_hashable(item):
            raise InvalidInput(
                "Expected targets such as cp.Tradeoff(label, weight=0.1), or labels; got "
                f"{shown(item)} ({type(item).__name__})."
            )
    return tuple(map(as_target, given))


def _is_hashable(item: Any) -> bool:
    target = as_target(item)
    try:
        hash(target.requirement)
    except TypeError:
        return False
    return True
