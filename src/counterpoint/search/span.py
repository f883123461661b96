"""Questions asked in as many dimensions as their answers move in.

Under a quadratic price without bounds an answer moves within the span of the model's score rows;
under an absolute one, if there are two classes, along the one column that buys most score.
With coordinates t of that span in which the price is ‖t‖², a question about rows of d columns is
one about rows of r < K of them, and is asked, searched and certified as such. The d columns enter
twice: in the scores before, in the answers after, which the model itself judges.

What this loses, in exact numbers: C are the centred score rows, P is the price, F <= P a diagonal
below it (P itself if it is diagonal), D the directions, S what they add to the scores, all of them
floats. For a change δ of price c = δᵀPδ let t = D P δ. Then

- ‖t‖² <= ‖D P Dᵀ‖ c <= (1 + ``cost_inflation``) c                                          (Bessel)
- each entry of Cδ − S t = (C − S D P) δ is at most ``stray`` √c: its rows in the metric F⁻¹
- the scores of x itself are off by what rounding leaves of a sum: γ ‖Cᵢ‖ ‖x‖, in F⁻¹ and F.

Under Σ w |δ| = c, with D = 1/w in the column where |C| / w is largest, let S t be what δ adds to
the second score. Then |t| <= (1 + ``cost_inflation``) c, what it adds to the other is off by
``stray`` c, and the norms are the largest |Cᵢ| / w, and Σ w |x|.

So whatever is possible for the row is possible in coordinates, at 1 + ``cost_inflation`` times the
price,
if differences of scores are granted twice what they may be off: a lower bound that allows for that
holds for the row. The price of the answer as it is written is off by the rounding of its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.models.form import Magnitude
from counterpoint.models.linear import LinearScores
from counterpoint.models.reading import Reading
from counterpoint.numerics import EPS, UNIT, BoolArray, FloatArray, IntArray, gamma
from counterpoint.problem.constraints import Immutable
from counterpoint.problem.costs import EncodedCost, Manhattan, SquaredEuclidean
from counterpoint.programs.conditions import Box
from counterpoint.rows.features import Continuous, Features
from counterpoint.rows.table import Table
from counterpoint.search.union import Question

__all__ = ["ProjectedRows", "Subspace", "blocks_of"]

FAINT = 64.0 * EPS
"""A direction that is this small beside the largest is none."""
CELLS = 1 << 18
"""Cells of full rows at a time: 2 MiB, so that they are still in the cache when they are looked at
again."""
ROWS = 64
"""So many rows at a time at least, or reading the model's coefficients would take longest."""


def blocks_of(n: int, width: int, cells: int = CELLS, least: int = ROWS) -> Iterator[slice]:
    """Slices of n rows with about so many cells."""
    size = max(least, cells // max(width, 1))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def free_columns(question: Question) -> BoolArray | None:
    """(d,) which columns may change; None if more is demanded of the change."""
    box = question.actionable.box
    held = (box.least == 0.0) & (box.most == 0.0)
    bounded = np.isfinite([box.low, box.high]).any() or (box.below | box.above)[~held].any()
    beyond = not question.actionable.region.condition_types <= {Box}
    return None if bounded or beyond else ~held


@final
@dataclass(frozen=True, eq=False)
class Subspace:
    """The directions in which answers move; only differences of scores count, so all is centred."""

    form: LinearScores
    encoded_cost: EncodedCost
    matrix: FloatArray  # (k, d) the score rows less their mean
    offset: FloatArray  # (k,) the offsets less theirs
    directions: FloatArray  # (r, d) changes; in their coordinates the cost is the sum of squares
    scores: FloatArray  # (k, r) what each adds to the scores
    held: FloatArray  # (k, h) an orthonormal basis of the scores that no change reaches
    cost_inflation: float
    stray: float

    @classmethod
    def of(cls, question: Question) -> Subspace | None:
        """The span of a form's score rows, under a price, within the columns that may change.

        With P = L Lᵀ and the singular values C L⁻ᵀ = V S W the directions are W L⁻¹, and what they
        add to the scores is V S. None if answers do not move within one.
        """
        form, encoded_cost, free = question.form, question.encoded_cost, free_columns(question)
        if free is None or encoded_cost.tables or not isinstance(form, LinearScores):
            return None
        matrix, offset = form.matrix - form.matrix.mean(axis=0), form.offset - form.offset.mean()
        if encoded_cost.absolute.any():
            if len(matrix) > 2 or not encoded_cost.absolute.all():
                return None
            return cls._of_one_column(form, encoded_cost, matrix, offset, free)
        some = slice(None) if free.all() else np.flatnonzero(free)
        among, own = encoded_cost.quadratic[some], matrix[:, some]
        if among.ndim == 1:
            unit = 1.0 / np.sqrt(among)
            scaled = own * unit
        else:
            among = among[:, some]
            factor = np.linalg.cholesky(among)
            scaled = np.linalg.solve(factor, own.T).T
        axes, length, ways = np.linalg.svd(scaled, full_matrices=False)
        reached = length > FAINT * length.max(initial=0.0)
        axes, ways = axes[:, reached], ways[reached]
        back = ways * unit if among.ndim == 1 else np.linalg.solve(factor.T, ways.T).T
        directions = back if free.all() else np.zeros((len(ways), form.width))
        directions[:, some] = back
        alike = np.column_stack([axes, np.full(len(axes), len(axes) ** -0.5)])
        held, scores = np.linalg.svd(alike)[0][:, alike.shape[1] :], axes * length[reached]
        off = cls._off(own, scores, back, among, encoded_cost.floor[some])
        return cls(form, encoded_cost, matrix, offset, directions, scores, held, *off)

    @classmethod
    def _of_one_column(
        cls,
        form: LinearScores,
        encoded_cost: EncodedCost,
        matrix: FloatArray,
        offset: FloatArray,
        free: BoolArray,
    ) -> Subspace | None:
        """The span of two classes under an absolute price: the column that buys most score."""
        bought = np.where(free, np.abs(matrix[1]) / encoded_cost.absolute, 0.0)
        best = int(bought.argmax())
        if bought[best] == 0.0:
            return None
        directions = np.zeros((1, form.width))
        directions[0, best] = 1.0 / encoded_cost.absolute[best]
        scores, cost_inflation = matrix[:, [best]] * directions[0, best], gamma(8)
        apart = np.abs(matrix.sum(axis=0)) / encoded_cost.absolute  # 0, but for a rounding
        stray = (apart.max() + abs(scores.sum()) * (1.0 + cost_inflation)) * (1.0 + cost_inflation)
        none = np.empty((2, 0))
        return cls(
            form,
            encoded_cost,
            matrix,
            offset,
            directions,
            scores,
            none,
            cost_inflation,
            float(stray),
        )

    @staticmethod
    def _off(
        matrix: FloatArray,
        scores: FloatArray,
        directions: FloatArray,
        encoded_cost: FloatArray,
        metric: FloatArray,
    ) -> tuple[float, float]:
        """`cost_inflation` and `stray`, both with what rounding may add to them."""
        (r, d), sizes = directions.shape, np.abs(directions)
        if encoded_cost.ndim == 1:  # off by a rounding of its own, which γ allows for
            pulled, slip = directions * encoded_cost, np.zeros((r, 1))
        else:  # no entry of P is larger than these products
            unit = np.sqrt(np.diag(encoded_cost))
            pulled = directions @ encoded_cost
            slip = gamma(d + 2) * (sizes @ unit)[:, None] * unit
        large = np.abs(pulled)
        far = np.abs(pulled @ directions.T - np.eye(r))
        far += gamma(d + 4) * (large @ sizes.T + 1.0)
        if encoded_cost.ndim == 2:
            far += slip @ sizes.T
        rest = scores @ pulled
        np.abs(np.subtract(matrix, rest, out=rest), out=rest)
        terms = np.abs(scores) @ large
        terms += np.abs(matrix)
        terms *= gamma(r + 6)
        rest += terms
        rest += np.abs(scores) @ slip
        rest *= rest
        grown = 1.0 + gamma(2 * d + 8)
        stray = np.sqrt((rest @ (1.0 / metric)).max(initial=0.0))
        return float(np.linalg.norm(far) * grown), float(stray * grown)

    @cached_property
    def question(self) -> Question:
        """What is asked, in coordinates: free ones, held ones, the size of the row, its number.

        The model adds up the terms of full rows: how large they are is in a column of its own.
        Those of a change are no larger than ``widest`` times its length. That is at most the sum of
        the coordinates of the answer and of the row, whose part is in that column as well.
        """
        r, h, k = self.scores.shape[1], self.held.shape[1], len(self.offset)
        none = np.zeros((k, 2))
        matrix = np.hstack([self.scores, self.held, none])
        widest = self.lengths[1] * (1.0 + self.cost_inflation)
        terms = np.array([[*[widest] * r, *[0.0] * h, 1.0, 0.0]])  # of any score at most
        magnitude = Magnitude(terms, np.abs(self.offset).max(keepdims=True), self.form.sizes.terms)
        form = replace(self.form, matrix=matrix, offset=self.offset, magnitude=magnitude)
        names = [f"x{j}" for j in range(r + h + 2)]
        fixed = (Immutable(*names[r:-2]),) if h else ()
        features = Features(Continuous(name) for name in names)
        return Question.ask(
            form, features, fixed, Manhattan() if self.absolute else SquaredEuclidean()
        )

    @cached_property
    def absolute(self) -> bool:
        """Whether the price is absolute."""
        return bool(self.encoded_cost.absolute.any())

    def far(self, cost: FloatArray) -> FloatArray:
        """(n,) how long changes are that cost so much."""
        return cost if self.absolute else np.sqrt(cost)

    @cached_property
    def lengths(self) -> tuple[float, float, float]:
        """At least the largest length of a row of C and of the model's terms, in F⁻¹, and of S."""
        sizes, grown = self.form.sizes.matrix, 1.0 + gamma(self.form.width + 8)

        def longest(rows: Any) -> float:
            if self.absolute:
                return float((abs(rows) * (1.0 / self.encoded_cost.absolute)).max() * grown)
            squares = rows.multiply(rows) if sparse.issparse(rows) else rows * rows
            return float(np.sqrt((squares @ (1.0 / self.encoded_cost.floor)).max()) * grown)

        tallest = float(np.sqrt((self.scores**2).sum(axis=1).max()) * grown)
        return longest(self.matrix), longest(sizes), tallest

    def _length(self, rows: Any) -> FloatArray:
        """(n,) the lengths of rows, in F."""
        if self.absolute:
            return np.asarray(abs(rows) @ self.encoded_cost.absolute)
        metric = self.encoded_cost.floor
        if sparse.issparse(rows):
            return np.sqrt(rows.multiply(rows) @ metric)
        if (metric == metric[0]).all():
            if rows.flags.c_contiguous and len(metric) > ROWS:  # one product of BLAS a row
                squares = np.matmul(rows[:, None, :], rows[:, :, None])[:, 0, 0]
            else:
                squares = np.einsum("ij,ij->i", rows, rows)
            return np.sqrt(metric[0] * squares)
        return np.sqrt((rows * rows) @ metric)

    @cached_property
    def _upright(self) -> FloatArray:
        """(d, k) C, as products with rows need it."""
        return np.ascontiguousarray(self.matrix.T)

    def _products(self, rows: Any) -> FloatArray:
        """(k, n) the products of C with rows."""
        if len(self.matrix) == 2 and (self.matrix[0] == -self.matrix[1]).all():
            second = rows @ self.matrix[1]
            return np.stack([-second, second])
        if sparse.issparse(rows):
            return np.asarray((rows @ self._upright).T)
        # which of the two is quicker
        return np.asarray((self._upright.T if len(rows) > ROWS else self.matrix) @ rows.T)

    def coordinates(self, X: Any, *, exactly: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(n, r + h + 2) rows as `question` takes them; (n,) their lengths, in F; (n,) `doubt`.

        ``exactly``: whether the sizes of the model's terms are needed, or a bound on them will do.
        """
        n, d = X.shape
        (k, r), h = self.scores.shape, self.held.shape[1]
        ways = np.hstack([self.scores, self.held])
        back = (ways / np.einsum("ij,ij->j", ways, ways)).T
        out, length, doubt = np.empty((n, r + h + 2)), np.empty(n), np.empty(n)
        steepest, widest, tallest = self.lengths
        for part in blocks_of(n, d):
            rows = X[part].astype(np.float64, copy=False)
            with np.errstate(over="ignore", invalid="ignore"):
                scores = self._products(rows)
                found = back @ scores
                scores -= ways @ found  # what is left of them, but for a part that all share
                long = self._length(rows) * (1.0 + gamma(d + 4))
                sizes = self.form.sizes
                own = sizes.largest(rows) if exactly else widest * long + sizes.offset.max()
                far = np.sqrt(np.einsum("ij,ij->j", found[:r], found[:r])) * (1.0 + gamma(r + 4))
                terms = np.minimum(steepest * long, 2.0 * own)  # of Cx; of no row twice those of A
                size = tallest * far + np.abs(found[r:]).sum(axis=0) + np.abs(self.offset).max()
                size *= gamma(k + r + h + 8)
                size += gamma(d + 4) * terms
                doubt[part] = scores.max(axis=0) - scores.min(axis=0) + 2.0 * size
                out[part, :-2], length[part] = found.T, long
                out[part, -2] = own + widest * (1.0 + self.cost_inflation) * far
        out[:, -1] = np.arange(n)
        return out, length, doubt


@final
@dataclass(eq=False)
class ProjectedRows:
    """A model of full rows, asked with coordinates: the last one is the row that they belong to."""

    span: Subspace
    model: Any
    X: Any  # (n, d) the factual rows
    start: FloatArray  # (n, r + h + 2) their coordinates
    length: FloatArray  # (n,) their lengths, in F
    doubt: FloatArray  # (n,) by how much differences of their scores may be off
    # if they are kept, (n, d) the answers about which the model was asked last, (n, r) their
    # changes, and (n,) whether it was asked about them, or about rows among them
    kept: tuple[FloatArray, FloatArray, BoolArray] | None = None
    cells: int = CELLS  # of the rows about which the model is asked at a time
    # positions, full rows → what the model takes; None if it takes them as they are
    as_input: Callable[[IntArray | slice, Any], Any] | None = None
    apart: bool = False  # whether the model was asked about answers without the rows among them

    @classmethod
    def of(  # noqa: PLR0913 (what is known of the rows, and what is not)
        cls,
        span: Subspace,
        model: Any,
        X: Any,
        *,
        exactly: bool,
        keep: bool = False,
        cells: int = CELLS,
        as_input: Callable[[IntArray | slice, Any], Any] | None = None,
    ) -> ProjectedRows:
        """Of these rows; answers are kept as full rows, or forgotten."""
        found, kept = span.coordinates(X, exactly=exactly), None
        if keep:
            n = len(X)
            kept = np.empty_like(X), np.zeros((n, len(span.directions))), np.zeros(n, dtype=bool)
        return cls(span, model, X, *found, kept, cells, as_input)

    @property
    def block(self) -> int:
        """How many rows the model is asked about at a time."""
        return max(ROWS, self.cells // self.X.shape[1])

    @property
    def answers(self) -> FloatArray:
        """(n, d) the answers that are kept."""
        assert self.kept is not None  # noqa: S101 (by who asks)
        return self.kept[0]

    @property
    def table(self) -> Table:
        """The coordinates."""
        return Table(self.start, self.span.question.features.names)

    def reading(self, model: Reading) -> Reading:
        """What was read of it."""
        asked = self.span.question
        eps = max(model.eps, float(np.finfo(self.X.dtype).eps))
        return Reading(self, asked.form, asked.features, named=False, steps=(), eps=eps)

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
        change = T[:, : len(self.span.directions)] - self.start[rows, : len(self.span.directions)]
        if self.kept is not None and self._are_dense(rows, change):
            return self._asked_among_others(method, rows, change)
        said = [  # no block gets a name, by which it would stay while the next one is made
            np.asarray(method(self._full(rows[part], change[part])))
            for part in blocks_of(len(T), self.X.shape[1], self.cells)
        ]
        return np.concatenate(said)

    def _are_dense(self, rows: IntArray, change: FloatArray) -> bool:
        """Whether rows are many of those from the first to the last, all of them moved.

        Not once others were asked about apart: their last digits depend on how many they are.
        """
        dense = 4 * len(rows) > rows[-1] - rows[0] and bool((np.diff(rows) > 0).all())
        return dense and not self.apart and bool(change.any(axis=1).all())

    def _asked_among_others(
        self, method: Callable[[Any], Any], rows: IntArray, change: FloatArray
    ) -> NDArray[Any]:
        """What the model says of answers, in blocks of all rows, which are always the same blocks.

        To take rows apart, and to put them back, would take longer than to move all of a block.
        """
        assert self.kept is not None  # noqa: S101 (by who asks)
        (answers, changes, asked), said = self.kept, []
        changes[rows] = change
        for here in blocks_of(len(self.X), self.X.shape[1], self.cells):
            first, last = np.searchsorted(rows, (here.start, here.stop))
            if first < last:
                self.move(here, changes[here], answers[here])
                asked[here] = True
                whole = np.asarray(method(self._input(here, answers[here])))
                said.append(whole[rows[first:last] - here.start])
        return np.concatenate(said)

    def move(self, rows: slice, change: FloatArray, out: FloatArray) -> None:
        """Write full rows moved by changes of coordinates."""
        full, directions = self.X[rows], self.span.directions
        if self.span.absolute:
            column = np.flatnonzero(directions[0])
            np.copyto(out, full)
            out[:, column] += change * directions[:, column]
            return
        by_rows = out.flags.c_contiguous
        for part in blocks_of(len(full), full.shape[1]):  # that are still in the cache
            if len(directions) > 1:
                np.matmul(change[part], directions, out=out[part])
            elif by_rows:  # one direction needs no product of matrices, which is slow to write
                np.einsum("i,j->ij", change[part, 0], directions[0], out=out[part])
            else:
                np.multiply(change[part], directions, out=out[part])
            out[part] += full[part]

    def _full(self, rows: IntArray, change: FloatArray) -> Any:
        """Some rows as the model takes them; factual ones as they came."""
        together = rows[-1] - rows[0] + 1 == len(rows) and bool((np.diff(rows) == 1).all())
        here = slice(rows[0], rows[-1] + 1) if together else rows
        full, moved = self.X[here], np.asarray(change.any(axis=1))
        if moved.any():
            full = moved_rows(full, change, self.span.directions)
            if self.kept is not None:
                self.apart, changed = True, rows[moved]
                for kept, new in zip(self.kept, (full, change, moved), strict=True):
                    kept[changed] = new[moved]
        return self._input(here, full)

    def _input(self, rows: IntArray | slice, full: Any) -> Any:
        """What the model takes."""
        return full if self.as_input is None else self.as_input(rows, full)

    def stay(self, rows: BoolArray, done: BoolArray) -> None:
        """Keep (n,) rows as they are, and all that are not ``done``."""
        assert self.kept is not None  # noqa: S101 (by who asks)
        answers, changes, asked = self.kept
        same = ~done | (rows & (~asked | changes.any(axis=1)))
        if same.any():
            np.copyto(answers, self.X, where=same[:, None])

    def slack(self, rows: IntArray | slice, far: FloatArray) -> FloatArray:
        """(m,) how much coordinates may lose of the scores of points, up to (m,) so far away."""
        return np.asarray(self.doubt[rows] + 2.0 * self.span.stray * far)

    def were_asked(self, after: FloatArray) -> BoolArray:
        """(n,): whether these are the coordinates about which the model was asked last."""
        r = len(self.span.directions)
        last = np.nan if self.kept is None else self.kept[1]
        return np.asarray((after[:, :r] - self.start[:, :r] == last).all(axis=1))

    def keeps(self, far: FloatArray, share: float, rows: slice = slice(None)) -> BoolArray:
        """(m,): whether the costs of changes of (m,) such lengths are known up to a share of them.

        Besides what the span loses, an entry is off by u of itself, and by γ of the sum over the
        directions.
        """
        r, d = self.span.directions.shape
        encoded_cost, wide = self.span.encoded_cost, 1.0
        if encoded_cost.quadratic.ndim == 2:
            wide = float(np.sqrt(d * (encoded_cost.diagonal / encoded_cost.floor).max()))
        left = 0.5 * share - self.span.cost_inflation - gamma(r + 2) * r * wide - wide * 2.0 * UNIT
        return np.asarray(self.length[rows] <= far * (left / (wide * 2.0 * UNIT)))


def moved_rows(rows: Any, change: FloatArray, directions: FloatArray) -> NDArray[Any]:
    """(m, d) rows + change · directions, dense, in the precision of the rows."""
    full = change @ directions
    if sparse.issparse(rows):
        full[np.repeat(np.arange(len(full)), np.diff(rows.indptr)), rows.indices] += rows.data
    else:
        full += rows
    return full.astype(rows.dtype, copy=False)
