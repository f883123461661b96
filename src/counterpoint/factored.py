"""Answers in factored form: x̄ and a few coefficients each, for rows with very many columns.

Under a quadratic cost an answer moves within the span of the model's score rows. With coordinates s
of that span in which the cost is ‖s‖², the question about rows of D columns is the same question
about rows of r < K of them, and is asked and certified as such; the model itself judges the full
rows, a block at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.constraints import Constraint, Immutable
from counterpoint.costs import SquaredEuclidean
from counterpoint.engine.answering import answers_to
from counterpoint.engine.confirm import Task
from counterpoint.engine.question import Question
from counterpoint.errors import InvalidInput, floats
from counterpoint.models import Reading
from counterpoint.models.form import Form, Magnitude
from counterpoint.models.linear import LinearScores
from counterpoint.models.reading import FittedModel
from counterpoint.progress import track
from counterpoint.results import Counterfactual, Counterfactuals
from counterpoint.rows.features import Continuous, Features
from counterpoint.rows.table import Table
from counterpoint.solvers import Effort
from counterpoint.span import FAINT, InSpan, Span, blocks, dense, moved
from counterpoint.targets import Target

__all__ = ["FactoredCounterfactuals", "explain_factored"]

FloatArray = NDArray[np.float64]


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
        i = range(len(self))[i]
        answer = self.answers[i]
        if not answer.found:
            return replace(answer, factual={}, changes={})
        row = slice(i, i + 1)
        before, after = dense(self.factual[row])[0], self.rows(row)[0]
        names = self.features.names
        moved = np.flatnonzero(before != after).tolist()
        changes = {names[j]: (before[j].item(), after[j].item()) for j in moved}
        factual = dict(zip(names, before.tolist(), strict=True))
        return replace(answer, factual=factual, changes=changes)

    def rows(self, rows: slice) -> NDArray[Any]:
        """(m, d) some answers as dense rows; NaN where there is none."""
        full = moved(self.factual[rows], self.coefficients[rows], self.directions)
        full[~self.found[rows]] = np.nan
        return full

    def blocks(self, memory: int | None = None) -> Iterator[tuple[slice, NDArray[Any]]]:
        """All answers as dense rows, so many at a time as fit into some bytes (64 MiB)."""
        for part in blocks(len(self), self.factual.shape[1], memory):
            yield part, self.rows(part)

    def write(self, sink: Any, memory: int | None = None) -> None:
        """Write all answers, block by block, into what takes ``sink[i:j] = rows``.

        That is an array, a ``numpy.memmap``, a data set of HDF5 or Zarr.
        """
        for part in blocks(len(self), self.factual.shape[1], memory):
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
    model: FittedModel,
    question: Question,
    X: object,
    target: Target,
    effort: Effort,
    *,
    progress: bool | None,
) -> FactoredCounterfactuals:
    """The batch in the coordinates of its span.

    Raises
    ------
    InvalidInput
        If the model has no linear scores, the cost is not quadratic, something but immutable
        columns is demanded of the change, or X does not fit.
    """
    form = _checked_form(model.form)
    free = _free_columns(question)
    full = _checked_rows(X, form.width)
    span = Span.of(form, question.price, free)
    scores, bad = span.scores_of(full)
    start, held = span.coordinates(scores)
    kept = _needed(held, scores)
    # The model adds up the terms of full rows: how large they are is in a column of its own. An
    # answer's are as large, but for its change, whose terms hardly cancel and add up to scores.
    sizes, index = _sizes(form, full), np.arange(len(start), dtype=np.float64)
    numbered = np.column_stack([start, held[:, kept], sizes, index])
    numbered[list(bad), 0] = np.nan
    none = np.zeros((len(form.offset), 2))
    matrix = np.hstack([span.scores, span.held[:, kept], none])
    terms = np.hstack([np.abs(matrix[:, :-2]), np.tile([1.0, 0.0], (len(none), 1))])
    magnitude = Magnitude(terms, np.abs(span.offset), form.sizes.terms)
    reduced = replace(form, matrix=matrix, offset=span.offset, magnitude=magnitude)
    table = Table.read(numbered)
    features = Features(Continuous(name) for name in table.names)
    r = start.shape[1]
    fixed = (Immutable(*table.names[r:-2]),) if kept.any() else ()
    inside = InSpan(model.model, full, start, span)
    asked = Question.ask(reduced, features, fixed, SquaredEuclidean())
    eps = max(model.reading.eps, float(np.finfo(full.dtype).eps))
    reading = Reading(reduced, features, named=False, steps=(), eps=eps)
    task = Task(FittedModel(inside, reading), asked, target, effort)
    with track(len(table), show=progress) as advance:
        answers = answers_to(task, (table, table), advance)
    answers.problems.update(bad)
    return FactoredCounterfactuals(full, span.directions, answers, question.features)


def _sizes(form: LinearScores, full: Any) -> FloatArray:
    """(n,) the sizes of the terms that the model adds up for full rows."""
    sizes = np.empty(full.shape[0])
    for part in blocks(*full.shape):
        sizes[part] = form.sizes(full[part]).max(axis=1)
    return np.nan_to_num(sizes, posinf=0.0)


def _needed(held: FloatArray, scores: FloatArray) -> NDArray[np.bool_]:
    """(h,) which parts of the scores that no change reaches differ from 0 by more than rounding."""
    size = np.abs(scores).max(axis=1, keepdims=True)
    return np.asarray((np.abs(held) > FAINT * size).any(axis=0))


def _checked_form(form: Form) -> LinearScores:
    if isinstance(form, LinearScores):
        return form
    raise InvalidInput(
        "Expected a classifier with one linear score a class; got "
        f"{type(form).__name__}. Use explain."
    )


def _free_columns(question: Question) -> NDArray[np.bool_]:
    """(d,) which columns may change; nothing else may be demanded of the change."""
    if question.price.absolute.any():
        raise InvalidInput(
            "Expected a quadratic cost over numbers, under which answers move within the span of "
            "the model's score rows; got an absolute one. Pass cost=cp.SquaredEuclidean(), or use "
            "explain."
        )
    box = question.plain.box
    held = (box.least == 0.0) & (box.most == 0.0)
    kinds = {type(condition).__name__ for condition in question.plain.region} - {"Box"}
    bounded = np.isfinite([box.low, box.high]).any() or (box.below | box.above)[~held].any()
    if kinds or bounded:
        told = "; ".join(map(str, _demanding(question.constraints))) or ", ".join(sorted(kinds))
        raise InvalidInput(
            f"Expected no constraints but Immutable, and numbers that may take any value; got "
            f"{told}. Use explain, with the rows as a dense array."
        )
    return ~held


def _demanding(constraints: tuple[Constraint, ...]) -> list[Constraint]:
    return [c for c in constraints if type(c).__name__ != "Immutable"]


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
