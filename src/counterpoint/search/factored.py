"""Answers in factored form: x̄ and a few coefficients each, for rows with very many columns.

Under a quadratic cost an answer moves within the span of the model's score rows, under a Manhattan
one between two classes along one column: the question is asked there, see
`counterpoint.search.span`. The model itself judges the full rows, a block at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.answer import Counterfactual
from counterpoint.errors import InvalidInput, floats, position_of
from counterpoint.models.linear import LinearScores
from counterpoint.models.reading import Reading
from counterpoint.numerics import FloatArray
from counterpoint.problem.constraints import Immutable
from counterpoint.problem.targets import Target
from counterpoint.results import Counterfactuals
from counterpoint.rows.features import Features
from counterpoint.rows.progress import track
from counterpoint.search.answering import answers_to
from counterpoint.search.span import ProjectedRows, blocks_of, moved_rows
from counterpoint.search.union import Question, Task
from counterpoint.solvers import Effort

__all__ = ["FactoredCounterfactuals", "explain_factored"]

MEMORY = 1 << 26
"""Bytes of full rows that are made at a time: 64 MiB. More makes nothing faster."""


@final
@dataclass(frozen=True, eq=False)
class FactoredCounterfactuals:
    """The answers to a batch as x̄ and a few coefficients each.

    Row i is ``factual[i] + coefficients[i] @ directions``; it is made when it is asked for.

    Parameters
    ----------
    factual
        (n, d) the rows as they came, sparse or not.
    directions
        (r, d) changes, r at most the number of classes.
    answers
        The same answers in the coordinates of the directions: their statuses and certificates hold
        for the full rows.
    features
        The columns.
    """

    factual: Any
    directions: FloatArray
    answers: Counterfactuals
    features: Features

    def __len__(self) -> int:
        return len(self.answers)

    @cached_property
    def coefficients(self) -> FloatArray:
        """(n, r) how far each row goes in each direction; 0 where there is no answer."""
        answers = self.answers
        moved = (answers.after - answers.before)[:, : len(self.directions)]
        return np.where(answers.found[:, None], moved, 0.0)

    @property
    def status(self) -> NDArray[Any]:
        """(n,) `Status` of each row."""
        return self.answers.status

    @property
    def found(self) -> NDArray[np.bool_]:
        """(n,): whether a row has an answer."""
        return self.answers.found

    @property
    def cost(self) -> FloatArray:
        """(n,) cost of each answer; NaN without one."""
        return self.answers.cost

    @property
    def bound(self) -> FloatArray:
        """(n,) lower bounds on the objective."""
        return self.answers.bound

    @property
    def gap(self) -> FloatArray:
        """(n,) (objective − bound) / objective."""
        return self.answers.gap

    @property
    def probability(self) -> FloatArray:
        """(n,) the model's own probability of the label, for a target that is about one."""
        return self.answers.certificates.probability

    def __getitem__(self, i: int) -> Counterfactual:
        """One row's answer, with all columns that change; a dense row is made for it."""
        i = position_of(i, len(self))
        answer = self.answers[i]
        if not answer.found:
            return replace(answer, factual={}, changes={})
        row = slice(i, i + 1)
        came = self.factual[row]
        before = (came.toarray() if sparse.issparse(came) else np.array(came))[0]
        after = self.rows(row)[0]
        names = self.features.names
        moved = np.flatnonzero(before != after).tolist()
        changes = {names[j]: (before[j].item(), after[j].item()) for j in moved}
        factual = dict(zip(names, before.tolist(), strict=True))
        return replace(answer, factual=factual, changes=changes)

    def rows(self, rows: slice) -> NDArray[Any]:
        """(m, d) some answers as dense rows; NaN where there is none."""
        full = moved_rows(self.factual[rows], self.coefficients[rows], self.directions)
        full[~self.found[rows]] = np.nan
        return full

    def blocks(self, memory: int | None = None) -> Iterator[tuple[slice, NDArray[Any]]]:
        """All answers as dense rows, so many at a time as fit into some bytes (64 MiB)."""
        for part in blocks_of(len(self), self.factual.shape[1], (memory or MEMORY) // 8, 1):
            yield part, self.rows(part)

    def write(self, sink: Any, memory: int | None = None) -> None:
        """Write all answers, block by block, into what takes ``sink[i:j] = rows``.

        That is an array, a ``numpy.memmap``, a data set of HDF5 or Zarr.
        """
        for part in blocks_of(len(self), self.factual.shape[1], (memory or MEMORY) // 8, 1):
            sink[part] = self.rows(part)

    def changes(self, i: int, most: int = 10) -> dict[Hashable, tuple[float, float]]:
        """Name → (from, to) of the columns that one answer changes most, the largest first."""
        found = self[i].changes
        names = sorted(found, key=lambda name: -abs(found[name][1] - found[name][0]))
        return {name: found[name] for name in names[:most]}

    def report(self) -> Any:
        """One row each: status, claim, valid, cost, bound, gap, margin and more."""
        return self.answers.report().drop(columns="changed")

    def summary(self) -> str:
        """How many rows have which status, and what the answers cost."""
        return "\n".join(self.answers.summary().splitlines()[:2])

    def __repr__(self) -> str:
        return f"<FactoredCounterfactuals: {self.summary().splitlines()[0]}>"


def explain_factored(
    model: Reading,
    question: Question,
    X: object,
    target: Target,
    effort: Effort,
    *,
    progress: bool | None,
) -> FactoredCounterfactuals:
    """The batch in the coordinates of its span; what does not let it be is an `InvalidInput`."""
    if not isinstance(model.form, LinearScores):
        raise InvalidInput(
            "Expected a classifier with one linear score a class; got "
            f"{type(model.form).__name__}. Use explain."
        )
    span = question.span
    if span is None:
        raise _not_factored(question)
    full = _checked_rows(X, model.form.width)
    rows = ProjectedRows.of(span, model.model, full, exactly=target.demanding)
    bad = np.flatnonzero(~np.isfinite(rows.start).all(axis=1)).tolist()
    rows.start[bad, 0] = np.nan
    reading, table = rows.reading(model), rows.table
    task = Task(reading, span.question, target, effort, reading.eps, span=rows)
    with track(len(table), show=progress) as advance:
        answers = answers_to(task, (table, table), advance)
    sentence = "the row holds a value that is missing or infinite; expected finite numbers."
    answers.problems.update(dict.fromkeys(bad, sentence))
    return FactoredCounterfactuals(full, span.directions, answers, question.features)


def _not_factored(question: Question) -> InvalidInput:
    """Why answers are not within a span."""
    if question.encoded_cost.absolute.any():
        return InvalidInput(
            "Expected a quadratic cost over numbers, under which answers move within the span of "
            "the model's score rows; got an absolute one, which will do for two classes only. Pass "
            "cost=cp.SquaredEuclidean(), or use explain."
        )
    said = [str(c) for c in question.constraints if not isinstance(c, Immutable)]
    kinds = {kind.__name__ for kind in question.actionable.region.condition_types} - {"Box"}
    return InvalidInput(
        "Expected no constraints but Immutable, and numbers that may take any value; got "
        f"{'; '.join(said or sorted(kinds))}. Use explain, with the rows as a dense array."
    )


def _checked_rows(X: object, width: int) -> Any:
    """Rows that can be taken by position: CSR, or an array of floats."""
    if sparse.issparse(X):
        full = sparse.csr_array(X)
        if not full.has_canonical_format:
            full = full.copy()
            full.sum_duplicates()
    elif isinstance(X, np.ma.MaskedArray):
        full = np.ma.filled(X.astype(np.float64), np.nan)
    else:
        full = X if isinstance(X, np.ndarray) else floats("rows", X)
    if full.ndim == 1:
        full = full[None, :]
    if full.ndim != 2 or full.shape[1] != width:
        raise InvalidInput(f"Expected rows of {width} columns; got shape {full.shape}.")
    if full.dtype.kind not in "fiub":
        raise InvalidInput(f"Expected numbers; got dtype {full.dtype}. Use explain.")
    return full if full.dtype.kind == "f" else full.astype(np.float64)
