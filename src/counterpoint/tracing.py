"""`trace`: the answers along one varied parameter, such as the weight of a `Tradeoff`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from counterpoint.errors import InvalidInput, is_listed, shown
from counterpoint.explainer import DEFAULT_GAP, Explainer, as_target, effort_of, repeated
from counterpoint.path import Path
from counterpoint.progress import track
from counterpoint.results import Counterfactuals
from counterpoint.rows.table import Table
from counterpoint.targets import Target

if TYPE_CHECKING:
    from counterpoint.solvers import Effort

__all__ = ["trace"]

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
    wanted = _checked(targets)
    effort = effort_of(gap, time_limit)
    tables = explainer._tables(X)  # noqa: SLF001 (its other way to be asked)
    n = len(tables[1])
    with track(n * len(wanted), show=progress) as advance:
        parts = _answers(_Asking(explainer, tables, effort, advance), wanted)
        answers = tuple(answer for _, answer in sorted(parts, key=lambda part: part[0]))
    return Path(wanted, answers, explainer.cost)


@final
@dataclass(frozen=True, eq=False)
class _Asking:
    """What all targets have in common."""

    explainer: Explainer
    tables: tuple[Table, Table]
    effort: Effort
    advance: Callable[[int], None]

    def one(self, target: Target) -> Counterfactuals:
        """The answers to one target."""
        return self._answers(self.tables, target)

    def weights(self, target: Target, weights: Sequence[float | None]) -> Iterator[Counterfactuals]:
        """The answers to a trade-off with each of these weights."""
        n = len(self.tables[1])
        several = max(1, CELLS // max(1, n * len(self.explainer.features)))
        for start in range(0, len(weights), several):
            some = np.asarray(weights[start : start + several], dtype=np.float64)
            tables = repeated(self.tables, np.tile(np.arange(n), len(some)))
            whole = self._answers(tables, target, weight=np.repeat(some, n))
            for k in range(len(some)):
                yield whole.part(slice(k * n, (k + 1) * n), self.tables[0])

    def _answers(
        self, tables: tuple[Table, Table], target: Target, **asked: Any
    ) -> Counterfactuals:
        answer = self.explainer._answers  # noqa: SLF001 (as in `trace`)
        return answer(tables, target, self.effort, self.advance, **asked)


def _answers(asking: _Asking, targets: Sequence[Target]) -> Iterator[tuple[int, Counterfactuals]]:
    """The answers to each target, with its position."""
    weighed: dict[Hashable, list[int]] = {}
    for position, target in enumerate(targets):
        if not target.demanding:
            weighed.setdefault(target.requirement, []).append(position)
        else:
            yield position, asking.one(target)
    for positions in weighed.values():
        weights = [targets[k].requirement.weight for k in positions]
        answers = asking.weights(targets[positions[0]], weights)
        yield from zip(positions, answers, strict=True)


def _checked(targets: Any) -> tuple[Target, ...]:
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
