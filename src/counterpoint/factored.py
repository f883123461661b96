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

from counterpoint.batch import Batch, People
from counterpoint.constraints import Constraint, Immutable
from counterpoint.costs import Price, SquaredEuclidean
from counterpoint.errors import InvalidInput
from counterpoint.features import Continuous, Features
from counterpoint.forms import Form, LinearScores
from counterpoint.frames import Table
from counterpoint.judge import Judge
from counterpoint.question import Question
from counterpoint.readers import Reading
from counterpoint.results import Counterfactual, Counterfactuals
from counterpoint.solvers import Effort
from counterpoint.targets import Target

__all__ = ["FactoredCounterfactuals", "Span", "explain_factored"]

FloatArray = NDArray[np.float64]

MEMORY = 1 << 28
"""Bytes of full rows that are held at a time: 256 MiB."""
FAINT = 64.0 * np.finfo(np.float64).eps
"""A direction that is this small beside the largest is none."""


@final
@dataclass(frozen=True, eq=False)
class Span:
    """The directions in which answers move.

    Only differences of scores count, so all is relative to their mean.

    Parameters
    ----------
    matrix, offset
        (k, d) the score rows less their mean, and (k,) the offsets less theirs.
    directions
        (r, d) changes; in their coordinates the cost is the sum of squares.
    scores
        (k, r) what each adds to the scores.
    held
        (k, h) an orthonormal basis of the scores that no change reaches.
    """

    matrix: FloatArray
    offset: FloatArray
    directions: FloatArray
    scores: FloatArray
    held: FloatArray

    @classmethod
    def of(cls, form: LinearScores, price: Price, free: NDArray[np.bool_]) -> Span:
        """The span of a form's score rows, under a price, within the free columns.

        With P = L Lᵀ and the singular values A L⁻ᵀ = V S W the directions are W L⁻¹, and what they
        add to the scores is V S.
        """
        matrix = form.matrix - form.matrix.mean(axis=0)
        if price.quadratic.ndim == 1:
            unit = 1.0 / np.sqrt(price.quadratic[free])
            scaled = matrix[:, free] * unit
        else:
            factor = np.linalg.cholesky(price.quadratic[np.ix_(free, free)])
            scaled = np.linalg.solve(factor, matrix[:, free].T).T
        axes, length, ways = np.linalg.svd(scaled, full_matrices=False)
        reached = length > FAINT * length.max(initial=0.0)
        ways = ways[reached]
        directions = np.zeros((len(ways), form.width))
        back = ways * unit if price.quadratic.ndim == 1 else np.linalg.solve(factor.T, ways.T).T
        directions[:, free] = back
        axes = axes[:, reached]
        whole = np.linalg.svd(axes, full_matrices=True)[0]
        offset = form.offset - form.offset.mean()
        return cls(matrix, offset, directions, axes * length[reached], whole[:, axes.shape[1] :])

    def coordinates(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, k) scores → (n, r) and (n, h) coordinates, free and held, at which they are these."""
        lengths = np.einsum("ij,ij->j", self.scores, self.scores)
        away = scores - self.offset
        return away @ (self.scores / lengths), away @ self.held


@final
@dataclass(frozen=True, eq=False)
class _InSpan:
    """A model of full rows, asked with coordinates: the last one is the row that they belong to.

    Parameters
    ----------
    model
        The model.
    X
        (n, d) the factual rows.
    start
        (n, r) their coordinates.
    span
        The directions.
    """

    model: Any
    X: Any
    start: FloatArray
    span: Span

    @property
    def classes_(self) -> NDArray[Any]:
        """(k,) labels."""
        return np.asarray(self.model.classes_)

    def predict(self, T: FloatArray) -> NDArray[Any]:
        """(n,) the model's predictions."""
        return np.concatenate([np.asarray(self.model.predict(X)) for X in self._full(T)])

    def predict_proba(self, T: FloatArray) -> FloatArray:
        """(n, k) the model's probabilities."""
        return np.concatenate([np.asarray(self.model.predict_proba(X)) for X in self._full(T)])

    def _full(self, T: FloatArray) -> Iterator[Any]:
        """Full rows in blocks; factual ones as they came."""
        rows = np.rint(T[:, -1]).astype(np.intp)
        r = self.start.shape[1]
        change = T[:, :r] - self.start[rows]
        if not change.any():
            yield self.X[rows]
            return
        for part in _blocks(len(T), self.X.shape[1]):
            yield _moved(self.X[rows[part]], change[part], self.span.directions)


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
        before, after = _dense(self.factual[row])[0], self.rows(row)[0]
        names = self.features.names
        moved = np.flatnonzero(before != after).tolist()
        changes = {names[j]: (before[j].item(), after[j].item()) for j in moved}
        factual = dict(zip(names, before.tolist(), strict=True))
        return replace(answer, factual=factual, changes=changes)

    def rows(self, rows: slice) -> NDArray[Any]:
        """(m, d) some answers as dense rows; NaN where there is none."""
        full = _moved(self.factual[rows], self.coefficients[rows], self.directions)
        full[~self.found[rows]] = np.nan
        return full

    def blocks(self, memory: int | None = None) -> Iterator[tuple[slice, NDArray[Any]]]:
        """All answers as dense rows, so many at a time as fit into some bytes (256 MiB)."""
        for part in _blocks(len(self), self.factual.shape[1], memory):
            yield part, self.rows(part)

    def write(self, sink: Any, memory: int | None = None) -> None:
        """Write all answers, block by block, into what takes ``sink[i:j] = rows``.

        That is an array, a ``numpy.memmap``, a data set of HDF5 or Zarr.
        """
        for part, rows in self.blocks(memory):
            sink[part] = rows

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
    judge: Judge,
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
    form = _checked_form(judge.form)
    free = _free_columns(question)
    full = _checked_rows(X, form.width)
    span = Span.of(form, question.price, free)
    scores, bad = _scores(full, span)
    start, held = span.coordinates(scores)
    kept = _needed(held, scores)
    numbered = np.hstack([start, held[:, kept], np.arange(len(start), dtype=np.float64)[:, None]])
    numbered[list(bad), 0] = np.nan
    matrix = np.hstack([span.scores, span.held[:, kept], np.zeros((len(form.offset), 1))])
    reduced = replace(form, matrix=matrix, offset=span.offset)
    table = Table.read(numbered)
    features = Features(Continuous(name) for name in table.names)
    r = start.shape[1]
    fixed = (Immutable(*table.names[r:-1]),) if kept.any() else ()
    inside = _InSpan(judge.model, full, start, span)
    asked = Question.ask(reduced, features, fixed, SquaredEuclidean())
    reading = Reading(reduced, features, named=False, steps=())
    batch = Batch(Judge(inside, reading), asked, target, effort, People(table, table))
    answers = batch.run(progress=progress)
    answers.problems.update(bad)
    return FactoredCounterfactuals(full, span.directions, answers, question.features)


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
    bounded = np.isfinite([box.low, box.high]).any() or np.isfinite(box.least[~held]).any()
    if kinds or bounded or np.isfinite(box.most[~held]).any():
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
        full.sum_duplicates()
    else:
        full = np.asarray(X)
    if full.ndim == 1:
        full = full[None, :]
    if full.ndim != 2 or full.shape[1] != width:
        raise InvalidInput(f"Expected rows of {width} columns; got shape {full.shape}.")
    if full.dtype.kind not in "fiub":
        raise InvalidInput(f"Expected numbers; got dtype {full.dtype}. Use explain.")
    return full if full.dtype.kind == "f" else full.astype(np.float64)


def _scores(full: Any, span: Span) -> tuple[FloatArray, dict[int, str]]:
    """(n, k) scores in float64, and which rows hold something that is not finite."""
    scores = np.empty((full.shape[0], len(span.offset)))
    for part in _blocks(full.shape[0], full.shape[1]):
        rows = full[part].astype(np.float64)
        scores[part] = rows @ span.matrix.T
    scores += span.offset
    bad = np.flatnonzero(~np.isfinite(scores).all(axis=1)).tolist()
    sentence = "the row holds a value that is missing or infinite; expected finite numbers."
    return np.nan_to_num(scores, posinf=0.0, neginf=0.0), dict.fromkeys(bad, sentence)


def _blocks(n: int, width: int, memory: int | None = None) -> Iterator[slice]:
    """Slices of rows whose float64 values fit into some bytes."""
    size = max(1, (memory or MEMORY) // (8 * max(width, 1)))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _dense(rows: Any) -> NDArray[Any]:
    return rows.toarray() if sparse.issparse(rows) else np.array(rows)


def _moved(rows: Any, coefficients: FloatArray, directions: FloatArray) -> NDArray[Any]:
    """(m, d) rows + coefficients · directions, dense, in the precision of the rows."""
    full = coefficients @ directions
    if sparse.issparse(rows):
        full[np.repeat(np.arange(len(full)), np.diff(rows.indptr)), rows.indices] += rows.data
    else:
        full += rows
    return full.astype(rows.dtype, copy=False)
