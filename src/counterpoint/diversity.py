"""`diversify`: several answers to each row that differ in what they change."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count as count_up
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.alternatives import Alternatives, Choice, gathered
from counterpoint.certificate import Claim
from counterpoint.errors import InvalidInput, shown
from counterpoint.explainer import DEFAULT_GAP, Explainer, repeated
from counterpoint.progress import track
from counterpoint.results import Counterfactuals
from counterpoint.rows.table import Table
from counterpoint.status import Status
from counterpoint.targets import Target

if TYPE_CHECKING:
    from counterpoint.engine.confirm import Task

__all__ = ["Difference", "alternatives_to", "diversify"]

IntArray = NDArray[np.intp]


class Difference(StrEnum):
    """In what the answers to one row differ."""

    FEATURES = "features"
    """None of them changes all the features that another one changes."""
    DISJOINT = "disjoint"
    """No feature is changed by two of them."""
    PIECE = "piece"
    """Each lies in another piece of the target: the cell of a prototype, the region of a class."""


def diversify(  # noqa: PLR0913 (as `explain`)
    explainer: Explainer,
    X: object,
    target: Any,
    count: int = 3,
    *,
    by: str = Difference.FEATURES,
    gap: float = DEFAULT_GAP,
    time_limit: float | None = None,
    optimality: Literal["local", "global"] = "local",
    progress: bool | None = None,
) -> Alternatives:
    """Several answers to each row that differ in what they change, the cheapest first.

    ``by="features"`` gives the cheapest answer; then the cheapest of those that leave some feature
    alone that it changes; and so on: no answer changes all the features that an earlier one
    changes. Each is proven as the first is: its bound is one on every answer that was left to
    choose (a tree of hitting sets, searched best first). ``by="disjoint"`` gives the cheapest
    answer that leaves alone all features that earlier ones change. ``by="piece"`` gives the
    cheapest answer in each piece of the target, such as the cell of a prototype; its bound is one
    for that piece.

    Parameters
    ----------
    explainer
        What is asked of each row.
    X
        A data frame, an array of shape (n, p), or one row.
    target
        What is wanted, as for `Explainer.explain`.
    count
        How many answers to give at most.
    by
        In what they differ.
    gap, time_limit, optimality, progress
        As for `Explainer.explain`; the seconds are those of each search.

    Returns
    -------
    Alternatives

    Raises
    ------
    InvalidInput
        If columns are missing, the target does not fit the model, or ``count`` or ``by`` make no
        sense.
    ReaderMismatch
        If the model predicts otherwise than what was read of it.

    Notes
    -----
    A squared cost spreads a change over all features, so answers that differ in their features
    hardly differ; with `Manhattan`, or `MaxChanges`, they do.

    Examples
    --------
    >>> import counterpoint as cp
    >>> from counterpoint.lvq import GMLVQ
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> explainer = cp.Explainer(GMLVQ(random_state=0).fit(X, y), data=X)
    >>> several = cp.diversify(explainer, X.head(1), 1, by="disjoint")
    >>> [sorted(answer.changes) for answer in several[0]]
    [['petal length (cm)'], ['petal width (cm)', 'sepal width (cm)']]
    """
    if not isinstance(explainer, Explainer):
        raise InvalidInput(
            f"Expected an Explainer; got {shown(explainer)} ({type(explainer).__name__}). "
            "Pass cp.Explainer(model, data=...)."
        )
    return explainer.explain(
        X,
        target,
        n=count,
        by=by,
        gap=gap,
        time_limit=time_limit,
        optimality=optimality,
        progress=progress,
    )


def alternatives_to(
    task: Task, tables: tuple[Table, Table], n: int, by: str, *, progress: bool | None
) -> Alternatives:
    """Several answers to each row; see `diversify`.

    Parameters
    ----------
    task
        What is asked.
    tables
        The rows as they came, and the model's columns of them.
    n, by, progress
        As for `diversify`.
    """
    from counterpoint.engine.answering import answers_to

    _check(n, by)
    with track(len(tables[1]), show=progress) as advance:
        asking = _Asking(task, tables, answers_to)
        answers = answers_to(task, tables, advance)
        first = [Choice.of(answers, i) for i in range(len(answers))]
        match Difference(by):
            case Difference.FEATURES:
                answered = _answered(asking, [_Tree(choice, n) for choice in first])
            case Difference.DISJOINT:
                answered = _answered(asking, [_Chain(choice, n) for choice in first])
            case Difference.PIECE:
                answered = _one_a_piece(asking, first, n)
    return _collected(tables, answered, task.effort.gap)


def _check(count: object, by: str) -> None:
    if not (isinstance(count, int | np.integer) and count >= 1):
        raise InvalidInput(f"Expected a count of at least 1 answer; got {shown(count)}.")
    if str(by) not in tuple(Difference):
        words = ", ".join(repr(str(word)) for word in Difference)
        raise InvalidInput(f"Expected by to be one of {words}; got {shown(by)}.")


@final
@dataclass(frozen=True, eq=False)
class _Asking:
    """What all searches have in common."""

    task: Task
    tables: tuple[Table, Table]
    answers_to: Callable[..., Counterfactuals]

    def holding(self, rows: IntArray, held: Iterable[frozenset[int]]) -> Counterfactuals:
        """The answers to rows, each with some features held."""
        mask = np.zeros((len(rows), len(self.task.question.features)), dtype=bool)
        for k, some in enumerate(held):
            mask[k, list(some)] = True
        return self.answers_to(self.task, repeated(self.tables, rows), lambda _: None, held=mask)

    def within(self, rows: IntArray, target: Target) -> Iterator[Counterfactuals]:
        """The answers to rows in one piece of the target after the other."""
        for piece in range(len(self.task.question.pieces(target))):
            one = replace(self.task, target=target, piece=piece)
            yield self.answers_to(one, repeated(self.tables, rows), lambda _: None)

    def targets(self, rows: IntArray) -> Iterator[tuple[Target, IntArray]]:
        """The targets of rows, and which of the rows have each."""
        predicted = self.task.model.predict(self.tables[1].take(rows))
        for target, part in self.task.target.each(predicted, np.ones(len(rows), dtype=bool)):
            yield target, rows[part]


@final
@dataclass(eq=False)
class _Answered:
    """What one row gets.

    Parameters
    ----------
    first
        The cheapest of all, if there is one.
    chosen
        The answers.
    exhausted
        Whether it is certain that there are no more.
    """

    first: Choice
    chosen: list[Choice]
    exhausted: bool

    def add(self, found: Choice) -> None:
        """Another one, if it is one and new."""
        if found.found:
            if not any((found.after == other.after).all() for other in self.chosen):
                self.chosen.append(found)
        elif np.isfinite(found.bound):
            self.exhausted = False

    def keep(self, count: int) -> None:
        """The cheapest ones, in order."""
        self.chosen.sort(key=lambda choice: choice.objective)
        self.exhausted &= len(self.chosen) <= count and self.first.status is not Status.INVALID
        del self.chosen[count:]


class _Line(ABC):
    """The answers to one row, one after the other.

    Parameters
    ----------
    first
        The cheapest of all.
    count
        How many to give at most.
    """

    def __init__(self, first: Choice, count: int) -> None:
        self.first, self.count = first, count
        self.chosen: list[Choice] = []
        self.exhausted = False
        self.learn(frozenset(), first)

    @abstractmethod
    def learn(self, held: frozenset[int], found: Choice) -> None:
        """Take up what a search with some features held found."""

    @abstractmethod
    def wanted(self) -> list[frozenset[int]]:
        """Choose what can be chosen; the features to hold in the searches to come, if any."""


def _least(known: Sequence[tuple[float, Claim]]) -> tuple[float, Claim]:
    """The least of some bounds; it is proved if all of them are, for each could be the least."""
    proved = all(claim is Claim.PROVED for _, claim in known)
    return min(bound for bound, _ in known), Claim.PROVED if proved else Claim.REPORTED


@final
class _Tree(_Line):
    """By features: whatever is left to choose holds all that some open node holds."""

    def __init__(self, first: Choice, count: int) -> None:
        self.open: list[tuple[float, int, frozenset[int], Choice]] = []
        self.order = count_up()
        self.seen = {frozenset[int]()}
        self.lost = (np.inf, Claim.PROVED)
        super().__init__(first, count)

    def learn(self, held: frozenset[int], found: Choice) -> None:
        if found.found:
            heapq.heappush(self.open, (found.objective, next(self.order), held, found))
        else:  # nothing found, which is no proof unless the bound is infinite
            self.lost = _least([self.lost, (found.bound, found.claim)])

    def wanted(self) -> list[frozenset[int]]:
        while self.open and len(self.chosen) < self.count:
            best = self.open[0][3]
            earlier = (one.changed for one in self.chosen if one.changed <= best.changed)
            covered = next(earlier, None)
            if covered is None:
                nodes = ((node.bound, node.claim) for *_, node in self.open)
                self.chosen.append(best.bounded(*_least([self.lost, *nodes])))
            else:
                new = self._opened(covered)
                if new:
                    return new
        self.exhausted = not self.open and self.lost[0] == np.inf
        return []

    def _opened(self, covered: frozenset[int]) -> list[frozenset[int]]:
        """The best node in parts, each of which leaves one of these features alone."""
        held = heapq.heappop(self.open)[2]
        parts = (held | {feature} for feature in sorted(covered))
        new = [part for part in parts if part not in self.seen]
        self.seen.update(new)
        return new


@final
class _Chain(_Line):
    """Disjoint: each answer holds whatever the earlier ones change."""

    def learn(self, held: frozenset[int], found: Choice) -> None:
        self.last = found
        if found.found:
            self.chosen.append(found)

    def wanted(self) -> list[frozenset[int]]:
        unchanged = self.last.found and not self.last.changed
        self.exhausted = unchanged or self.last.bound == np.inf
        if not self.last.changed or len(self.chosen) == self.count:
            return []
        return [frozenset[int]().union(*(one.changed for one in self.chosen))]


def _answered(asking: _Asking, lines: list[_Line]) -> list[_Answered]:
    """Search for all rows at once, until none of them wants more."""
    while True:
        wanted = [(i, held) for i, line in enumerate(lines) for held in line.wanted()]
        if not wanted:
            return [_Answered(line.first, line.chosen, line.exhausted) for line in lines]
        found = asking.holding(np.array([i for i, _ in wanted]), [held for _, held in wanted])
        for k, (i, held) in enumerate(wanted):
            lines[i].learn(held, Choice.of(found, k))


def _one_a_piece(asking: _Asking, first: list[Choice], count: int) -> list[_Answered]:
    """The cheapest answer in each piece, for rows that need a change."""
    answered = [_Answered(choice, [], exhausted=True) for choice in first]
    for one in answered:
        if one.first.status is Status.ALREADY:
            one.chosen.append(one.first)
    unsettled = (Status.ALREADY, Status.INVALID)
    rows = [i for i, choice in enumerate(first) if choice.status not in unsettled]
    for target, some in asking.targets(np.array(rows, dtype=np.intp)):
        for answers in asking.within(some, target):
            for k, i in enumerate(some.tolist()):
                answered[i].add(Choice.of(answers, k))
    for one in answered:
        one.keep(count)
    return answered


def _collected(tables: tuple[Table, Table], answered: list[_Answered], gap: float) -> Alternatives:
    """All answers below one another; a row without any is there once."""
    choices = [one.chosen or [one.first] for one in answered]
    count = [len(some) for some in choices]
    row = np.repeat(np.arange(len(choices)), count)
    rank = np.concatenate([np.arange(n) for n in count]) if count else row
    table = repeated(tables, row)[0]
    exhausted = np.array([one.exhausted for one in answered], dtype=bool)
    flat = [choice for some in choices for choice in some]
    return Alternatives(gathered(table, flat, gap), row, rank, exhausted)
