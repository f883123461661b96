"""`Alternatives` are several answers to each row that differ in what they change.

Each row has a search of its own, which asks for answers that leave some features alone; the
searches of all rows run in step, so that each round is one batch.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from itertools import count as count_up
from typing import TYPE_CHECKING, Any, final

import numpy as np

from counterpoint.certificate import COLUMNS, Certificates, Claim, Status
from counterpoint.errors import InvalidInput, position_of, several, shown
from counterpoint.numerics import BoolArray, FloatArray, IntArray
from counterpoint.results import Counterfactual, Counterfactuals
from counterpoint.rows.progress import track
from counterpoint.rows.table import Table, repeated

if TYPE_CHECKING:
    from counterpoint.search.query import Query


@final
@dataclass(frozen=True, eq=False)
class Alternatives:
    """Several answers to each row, the cheapest first; made by `diversify`.

    ``len`` is the number of rows n, and ``alternatives[i]`` are the answers to row i.

    Parameters
    ----------
    answers
        All answers below one another, m in all, those to one row together. A row without any has
        one entry, which says why.
    row
        (m,) the position of the row that each of them answers.
    rank
        (m,) 0 for the cheapest answer of a row, 1 for the next, and so on.
    exhausted
        (n,): whether it is certain that there are no more than these.
    """

    answers: Counterfactuals
    row: IntArray
    rank: IntArray
    exhausted: BoolArray

    def __len__(self) -> int:
        return len(self.exhausted)

    def __iter__(self) -> Iterator[tuple[Counterfactual, ...]]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> tuple[Counterfactual, ...]:
        i = position_of(i, len(self))
        mine = np.flatnonzero((self.row == i) & self.answers.found)
        return tuple(self.answers[k] for k in mine.tolist())

    @property
    def count(self) -> IntArray:
        """(n,) how many answers each row has."""
        return np.bincount(self.row[self.answers.found], minlength=len(self))

    def rounded(
        self,
        significant: int | None = 3,
        *,
        decimals: Mapping[Hashable, int] | None = None,
        steps: Mapping[Hashable, float] | None = None,
    ) -> Alternatives:
        """The same answers in few digits, see `Counterfactuals.rounded`.

        They change the same features, and keep their ranks: rounding may make a cheap answer dearer
        than the next.
        """
        answers = self.answers.rounded(significant, decimals=decimals, steps=steps)
        return replace(self, answers=answers)

    def to_frame(self) -> Any:
        """The counterfactual rows below one another, as `Counterfactuals.to_frame` gives them.

        The index of a row is repeated for each of its answers.
        """
        return self.answers.to_frame()

    def report(self) -> Any:
        """One row for each answer: its row and rank, and what `Counterfactuals.report` says."""
        return self.answers.report(row=self.row, rank=self.rank)

    def summary(self) -> str:
        """How many answers the rows have, what they cost, and which features change."""
        count = self.count
        sizes, times = np.unique(count, return_counts=True)
        pairs = zip(sizes.tolist(), times.tolist(), strict=True)
        counts = [f"{several(t, 'row')} with {several(s, 'answer')}" for s, t in pairs]
        lines = [f"{several(len(self), 'row')}: {', '.join(counts) or 'none'}"]
        for rank in range(int(count.max(initial=0))):
            cost = self.answers.cost[(self.rank == rank) & self.answers.found]
            lines.append(f"answer {rank + 1}: median cost {np.median(cost):.4g}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Alternatives: {self.summary().splitlines()[0]}>"

    def _repr_html_(self) -> str:
        places = {"row": self.row, "rank": self.rank}
        return self.answers.displayed("Alternatives", self.summary(), places)


def alternatives_to(
    query: Query, tables: tuple[Table, Table], n: object, by: str, *, progress: bool | None
) -> Alternatives:
    """Return several answers to each row; see `diversify`."""
    from counterpoint.search.answering import answers_to

    if not (isinstance(n, int | np.integer) and n >= 1):
        raise InvalidInput(f"Expected a count of at least 1 answer; got {shown(n)}.")
    ways, way = (*SEARCHES, "piece"), str(by)
    if way not in ways:
        words = ", ".join(map(repr, ways))
        raise InvalidInput(f"Expected by to be one of {words}; got {shown(by)}.")
    most = int(n)
    batches: list[Counterfactuals] = []

    def ask(rows: IntArray, about: Query = query, held: BoolArray | None = None) -> list[Choice]:
        batches.append(answers_to(about, repeated(tables, rows), held=held))
        return _last_choices(batches)

    with track(len(tables[1]), show=progress) as advance:
        batches.append(answers_to(query, tables, advance))
        first = _last_choices(batches)
        if way == "piece":
            chosen, exhausted = _one_per_piece(query, tables[1], ask, first, most)
        else:
            searches = [SEARCHES[way](choice, most) for choice in first]
            chosen, exhausted = _run_in_step(ask, len(query.features), searches)
    # a row without an answer keeps its first choice, which says why
    choices = [row_choices or [choice] for row_choices, choice in zip(chosen, first, strict=True)]
    count = [len(row_choices) for row_choices in choices]
    row = np.repeat(np.arange(len(choices)), count)
    rank = np.concatenate([np.arange(k) for k in count]) if count else row
    flat = [choice for row_choices in choices for choice in row_choices]
    answers = _joined(repeated(tables, row)[0], batches, flat, query.effort.gap)
    return Alternatives(answers, row, rank, np.array(exhausted, dtype=bool))


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """One answer that a row may have, and a bound on all that the row may still choose."""

    position: int  # of the answer in all batches
    found: bool  # whether it is one
    objective: float
    bound: float  # on the least objective of what is left to choose
    claim: Claim  # what the bound rests on
    status: Status
    after: FloatArray  # (p,) codes of the answer
    changed: frozenset[int]  # the positions of the features that differ from the factual row


def _last_choices(batches: Sequence[Counterfactuals]) -> list[Choice]:
    """The answers of the last batch, with their own bounds."""
    *before, last = batches
    c, start = last.certificates, sum(map(len, before))
    changed = [frozenset(np.flatnonzero(row).tolist()) for row in last.changed]
    numbers = (values.tolist() for values in (last.found, c.objective, c.bound))
    columns = zip(*numbers, c.claim, last.status, last.after, changed, strict=True)
    return [Choice(k, *values) for k, values in enumerate(columns, start)]


Ask = Callable[..., list[Choice]]
Search = Generator[list[frozenset[int]], list[Choice], tuple[list[Choice], bool]]
"""The search of one row.

It yields sets of features that must stay, is sent the choice that each leaves, and returns the
answers, and whether there are certainly no more.
"""


def _by_features(first: Choice, count: int) -> Search:
    """Search for answers of which none changes all features that an earlier one changes.

    A tree of hitting sets, best first: each node holds some features as they are, and has the best
    answer that leaves them alone. All that is left to choose is in some open node, so the least
    bound of these is one on it.
    """
    chosen: list[Choice] = []
    nodes: list[tuple[float, int, frozenset[int], Choice]] = []  # by objective, then by order
    order, visited = count_up(), {frozenset[int]()}
    closed = (np.inf, Claim.PROVED)  # the least bound of nodes without an answer, and its claim
    branches, replies = [frozenset[int]()], [first]
    while True:
        for held, choice in zip(branches, replies, strict=True):
            if choice.found:
                heapq.heappush(nodes, (choice.objective, next(order), held, choice))
            else:  # there may be an answer all the same, unless the bound is infinite
                closed = _least([closed, (choice.bound, choice.claim)])
        branches = []
        while nodes and len(chosen) < count and not branches:
            best = nodes[0][3]
            covered = next(
                (earlier.changed for earlier in chosen if earlier.changed <= best.changed), None
            )
            if covered is None:
                bound, claim = _least([closed, *((node.bound, node.claim) for *_, node in nodes)])
                is_settled = best.status is Status.OPTIMAL  # else its own search settled nothing
                chosen.append(replace(best, bound=bound, claim=claim if is_settled else best.claim))
            else:  # split the best node: each part leaves one of these features alone
                held = heapq.heappop(nodes)[2]
                branches = [p for p in (held | {j} for j in sorted(covered)) if p not in visited]
                visited.update(branches)
        if not branches:
            return chosen, not nodes and closed[0] == np.inf
        replies = yield branches


def _disjoint(first: Choice, count: int) -> Search:
    """Search for answers each of which leaves alone all that earlier ones change."""
    chosen, last = list[Choice](), first
    while last.found:
        chosen.append(last)
        if not last.changed or len(chosen) == count:
            break
        (last,) = yield [frozenset[int]().union(*(earlier.changed for earlier in chosen))]
    # an answer that changes nothing leaves nothing to differ in
    return chosen, (last.found and not last.changed) or last.bound == np.inf


SEARCHES = {"features": _by_features, "disjoint": _disjoint}


def _least(bounds_and_claims: Iterable[tuple[float, Claim]]) -> tuple[float, Claim]:
    """Return the least of some bounds: proved if all of them are, for each could be the least."""
    bounds, claims = zip(*bounds_and_claims, strict=True)
    proved = all(claim is Claim.PROVED for claim in claims)
    return min(bounds), Claim.PROVED if proved else Claim.REPORTED


def _run_in_step(
    ask: Ask, width: int, searches: list[Search]
) -> tuple[list[list[Choice]], list[bool]]:
    """Run the searches of all rows in step: one batch in each round answers what all of them ask.

    Return the answers of each row, and whether it certainly has no others; p is the ``width``.
    """
    ended: dict[int, tuple[list[Choice], bool]] = {}
    replies: dict[int, list[Choice] | None] = dict.fromkeys(range(len(searches)))
    while replies:
        requests: list[tuple[int, frozenset[int]]] = []  # rows, and the features they hold
        for i, reply in replies.items():
            search = searches[i]
            try:
                branches = next(search) if reply is None else search.send(reply)
            except StopIteration as end:
                ended[i] = end.value
            else:
                requests += [(i, held) for held in branches]
        replies = {}
        if requests:
            mask = np.zeros((len(requests), width), dtype=bool)
            for k, (_, held) in enumerate(requests):
                mask[k, list(held)] = True
            rows = np.array([i for i, _ in requests])
            for i, choice in zip(rows.tolist(), ask(rows, held=mask), strict=True):
                replies[i] = [*(replies.get(i) or ()), choice]
    results = [ended[i] for i in range(len(searches))]
    return [chosen for chosen, _ in results], [exhausted for _, exhausted in results]


def _one_per_piece(
    query: Query, inputs: Table, ask: Ask, first: list[Choice], count: int
) -> tuple[list[list[Choice]], list[bool]]:
    """Find the cheapest answer in each piece of the target, for rows that need a change.

    Return the answers of each row, and whether it certainly has no others.
    """
    chosen = [[choice] if choice.status is Status.ALREADY else [] for choice in first]
    exhausted = [choice.status is not Status.INVALID for choice in first]
    settled = (Status.ALREADY, Status.INVALID)
    rows = np.array(
        [i for i, choice in enumerate(first) if choice.status not in settled], dtype=np.intp
    )
    if not len(rows):
        return chosen, exhausted
    predicted = query.model.predict(inputs.take(rows))
    goals = query.target.goals(predicted, np.ones(len(rows), dtype=bool))
    for target, index in chain.from_iterable(goals):
        for piece in range(len(query.asking(target=target).union)):
            replies = ask(rows[index], query.asking(target=target, piece=piece))
            for i, choice in zip(rows[index].tolist(), replies, strict=True):
                if not choice.found:
                    exhausted[i] &= choice.bound == np.inf
                elif not any((choice.after == earlier.after).all() for earlier in chosen[i]):
                    chosen[i].append(choice)
    for i, row_choices in enumerate(chosen):
        row_choices.sort(key=lambda choice: choice.objective)
        exhausted[i] &= len(row_choices) <= count
        del row_choices[count:]
    return chosen, exhausted


def _joined(
    table: Table, batches: Sequence[Counterfactuals], choices: Sequence[Choice], gap: float
) -> Counterfactuals:
    """Join answers of several batches, with the bounds of their choices.

    An optimal one is suboptimal then if other choices leave a gap that is too large.
    """
    positions = np.array([choice.position for choice in choices], dtype=np.intp)
    certificates_each = [batch.certificates for batch in batches]

    def column(name: str, owners: Sequence[Any] = batches) -> Any:
        return np.concatenate([getattr(owner, name) for owner in owners])[positions]

    columns = {name: column(name, certificates_each) for name in COLUMNS}
    columns["bound"] = np.array([choice.bound for choice in choices], dtype=np.float64)
    columns["claims"] = np.array([choice.claim.code for choice in choices], dtype=np.int8)
    resolution = max(certificates.resolution for certificates in certificates_each)
    certificates, status = Certificates(**columns, resolution=resolution), column("statuses")
    reopened = (status == Status.OPTIMAL.code) & (certificates.gap > gap)
    reopened &= certificates.bound < column("bound", certificates_each)
    status[reopened], certificates.claims[reopened] = Status.SUBOPTIMAL.code, Claim.NONE.code
    problems = batches[0].problems  # its rows are those that were passed
    names = ("before", "after", "missing", "closed_form", "targets")
    return replace(
        batches[0],
        table=table,
        is_cheapest=False,
        proofs=[],
        statuses=status,
        certificates=certificates,
        problems={i: problems[k] for i, k in enumerate(positions.tolist()) if k in problems},
        **{name: column(name) for name in names},
    )
