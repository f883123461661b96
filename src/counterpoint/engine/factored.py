"""Answers in factored form: x̄ and a few coefficients each, for rows with very many columns.

Under a quadratic cost an answer moves within the span of the model's score rows. With coordinates s
of that span in which the cost is ‖s‖², the question about rows of D columns is the same question
about rows of r < K of them, and is asked and certified as such; the model itself judges the full
rows, a block at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.constraints import Immutable
from counterpoint.costs import Price, SquaredEuclidean
from counterpoint.engine.answering import Task, answers_to
from counterpoint.engine.pieces import Question
from counterpoint.errors import InvalidInput, floats
from counterpoint.models.form import Magnitude
from counterpoint.models.linear import LinearScores
from counterpoint.models.reading import Reading
from counterpoint.numerics import EPS, BoolArray, FloatArray
from counterpoint.results import Counterfactual, Counterfactuals
from counterpoint.rows.features import Continuous, Features
from counterpoint.rows.progress import track
from counterpoint.rows.table import Table
from counterpoint.solvers import Effort
from counterpoint.targets import Target

__all__ = ["FactoredCounterfactuals", "explain_factored"]

MEMORY = 1 << 26
"""Bytes of full rows that are made at a time: 64 MiB. More makes nothing faster."""
FAINT = 64.0 * EPS
"""A direction that is this small beside the largest is none."""


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
        full = _moved(self.factual[rows], self.coefficients[rows], self.directions)
        full[~self.found[rows]] = np.nan
        return full

    def blocks(self, memory: int | None = None) -> Iterator[tuple[slice, NDArray[Any]]]:
        """All answers as dense rows, so many at a time as fit into some bytes (64 MiB)."""
        for part in _blocks(len(self), self.factual.shape[1], memory):
            yield part, self.rows(part)

    def write(self, sink: Any, memory: int | None = None) -> None:
        """Write all answers, block by block, into what takes ``sink[i:j] = rows``.

        That is an array, a ``numpy.memmap``, a data set of HDF5 or Zarr.
        """
        for part in _blocks(len(self), self.factual.shape[1], memory):
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
    form = model.form
    if not isinstance(form, LinearScores):
        raise InvalidInput(
            "Expected a classifier with one linear score a class; got "
            f"{type(form).__name__}. Use explain."
        )
    span = Span.of(form, question.price, _free_columns(question))
    full = _checked_rows(X, form.width)
    scores, sizes = np.empty((full.shape[0], len(form.offset))), np.empty(full.shape[0])
    for part in _blocks(*full.shape):
        scores[part] = full[part].astype(np.float64, copy=False) @ span.matrix.T
        sizes[part] = form.sizes(full[part]).max(axis=1)
    scores += span.offset
    bad = np.flatnonzero(~np.isfinite(scores).all(axis=1)).tolist()
    scores = np.nan_to_num(scores, posinf=0.0, neginf=0.0)
    start, held = span.coordinates(scores)
    # Parts of the scores that no change reaches, unless they are 0 up to rounding in all rows.
    kept = (np.abs(held) > FAINT * np.abs(scores).max(axis=1, keepdims=True)).any(axis=0)
    # The model adds up the terms of full rows: how large they are is in a column of its own. An
    # answer's are as large, but for its change, whose terms hardly cancel and add up to scores.
    sizes, index = np.nan_to_num(sizes, posinf=0.0), np.arange(len(start), dtype=np.float64)
    numbered = np.column_stack([start, held[:, kept], sizes, index])
    numbered[bad, 0] = np.nan
    none = np.zeros((len(form.offset), 2))
    matrix = np.hstack([span.scores, span.held[:, kept], none])
    terms = np.hstack([np.abs(matrix[:, :-2]), np.tile([1.0, 0.0], (len(none), 1))])
    magnitude = Magnitude(terms, np.abs(span.offset), form.sizes.terms)
    reduced = replace(form, matrix=matrix, offset=span.offset, magnitude=magnitude)
    table = Table.read(numbered)
    features = Features(Continuous(name) for name in table.names)
    fixed = (Immutable(*table.names[start.shape[1] : -2]),) if kept.any() else ()
    asked = Question.ask(reduced, features, fixed, SquaredEuclidean())
    eps = max(model.eps, float(np.finfo(full.dtype).eps))
    inside = InSpan(model.model, full, start, span.directions)
    reading = Reading(inside, reduced, features, named=False, steps=(), eps=eps)
    task = Task(reading, asked, target, effort, max(eps, table.eps))
    with track(len(table), show=progress) as advance:
        answers = answers_to(task, (table, table), advance)
    sentence = "the row holds a value that is missing or infinite; expected finite numbers."
    answers.problems.update(dict.fromkeys(bad, sentence))
    return FactoredCounterfactuals(full, span.directions, answers, question.features)


@final
@dataclass(frozen=True, eq=False)
class Span:
    """The directions in which answers move; only differences of scores count, so all is centred."""

    matrix: FloatArray  # (k, d) the score rows less their mean
    offset: FloatArray  # (k,) the offsets less theirs
    directions: FloatArray  # (r, d) changes; in their coordinates the cost is the sum of squares
    scores: FloatArray  # (k, r) what each adds to the scores
    held: FloatArray  # (k, h) an orthonormal basis of the scores that no change reaches

    @classmethod
    def of(cls, form: LinearScores, price: Price, free: BoolArray) -> Span:
        """The span of a form's score rows, under a price, within the free columns.

        With P = L Lᵀ and the singular values A L⁻ᵀ = V S W the directions are W L⁻¹, and what they
        add to the scores is V S.
        """
        matrix, offset = form.matrix - form.matrix.mean(axis=0), form.offset - form.offset.mean()
        if price.quadratic.ndim == 1:
            unit = 1.0 / np.sqrt(price.quadratic[free])
            scaled = matrix[:, free] * unit
        else:
            factor = np.linalg.cholesky(price.quadratic[np.ix_(free, free)])
            scaled = np.linalg.solve(factor, matrix[:, free].T).T
        axes, length, ways = np.linalg.svd(scaled, full_matrices=False)
        reached = length > FAINT * length.max(initial=0.0)
        axes, ways = axes[:, reached], ways[reached]
        directions = np.zeros((len(ways), form.width))
        back = ways * unit if price.quadratic.ndim == 1 else np.linalg.solve(factor.T, ways.T).T
        directions[:, free] = back
        whole = np.linalg.svd(axes, full_matrices=True)[0]
        return cls(matrix, offset, directions, axes * length[reached], whole[:, axes.shape[1] :])

    def coordinates(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, k) scores → (n, r) and (n, h) coordinates, free and held, at which they are these."""
        lengths = np.einsum("ij,ij->j", self.scores, self.scores)
        away = scores - self.offset
        return away @ (self.scores / lengths), away @ self.held


@final
@dataclass(frozen=True, eq=False)
class InSpan:
    """A model of full rows, asked with coordinates: the last one is the row that they belong to.

    ``X`` are the (n, d) factual rows, ``start`` their (n, r) coordinates.
    """

    model: Any
    X: Any
    start: FloatArray
    directions: FloatArray

    @property
    def classes_(self) -> NDArray[Any]:
        """(k,) labels."""
        return np.asarray(self.model.classes_)

    def predict(self, T: FloatArray) -> NDArray[Any]:
        """(n,) the model's predictions."""
        return self._asked(self.model.predict, T)

    def predict_proba(self, T: FloatArray) -> FloatArray:
        """(n, k) the model's probabilities."""
        return self._asked(self.model.predict_proba, T)

    def _asked(self, method: Callable[[Any], Any], T: FloatArray) -> NDArray[Any]:
        """What the model says of full rows, block by block."""
        rows = np.rint(T[:, -1]).astype(np.intp)
        change = T[:, : self.start.shape[1]] - self.start[rows]
        said = [  # no block gets a name, by which it would stay while the next one is made
            np.asarray(method(self._full(rows[part], change[part])))
            for part in _blocks(len(T), self.X.shape[1])
        ]
        return np.concatenate(said)

    def _full(self, rows: NDArray[np.intp], change: FloatArray) -> Any:
        """Some full rows; factual ones as they came."""
        return _moved(self.X[rows], change, self.directions) if change.any() else self.X[rows]


def _blocks(n: int, width: int, memory: int | None = None) -> Iterator[slice]:
    """Slices of rows whose float64 values fit into some bytes."""
    size = max(1, (memory or MEMORY) // (8 * max(width, 1)))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _moved(rows: Any, coefficients: FloatArray, directions: FloatArray) -> NDArray[Any]:
    """(m, d) rows + coefficients · directions, dense, in the precision of the rows."""
    full = coefficients @ directions
    if sparse.issparse(rows):
        full[np.repeat(np.arange(len(full)), np.diff(rows.indptr)), rows.indices] += rows.data
    else:
        full += rows
    return full.astype(rows.dtype, copy=False)


def _free_columns(question: Question) -> BoolArray:
    """(d,) which columns may change; nothing else may be demanded of the change."""
    if question.price.absolute.any():
        raise InvalidInput(
            "Expected a quadratic cost over numbers, under which answers move within the span of "
            "the model's score rows; got an absolute one. Pass cost=cp.SquaredEuclidean(), or use "
            "explain."
        )
    box = question.actionable.box
    held = (box.least == 0.0) & (box.most == 0.0)
    kinds = {type(condition).__name__ for condition in question.actionable.region} - {"Box"}
    bounded = np.isfinite([box.low, box.high]).any() or (box.below | box.above)[~held].any()
    if kinds or bounded:
        said = [str(c) for c in question.constraints if not isinstance(c, Immutable)]
        told = "; ".join(said or sorted(kinds))
        raise InvalidInput(
            f"Expected no constraints but Immutable, and numbers that may take any value; got "
            f"{told}. Use explain, with the rows as a dense array."
        )
    return ~held


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
