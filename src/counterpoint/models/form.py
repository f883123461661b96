"""Describe fitted models as mathematics, forms, and bound how far their own arithmetic may be off.

Source of the bounds: Higham, Accuracy and stability of numerical algorithms, section 3.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterpoint.caches import fields_only
from counterpoint.errors import InvalidInput, shown
from counterpoint.numerics import AFTER, EPS, FloatArray, IntArray, first_float
from counterpoint.problem.targets import Requirement, Target
from counterpoint.programs.conditions import MinimumChange, OneOf
from counterpoint.programs.region import Region

Operations = tuple[tuple[str, float], ...]
"""Names of NumPy's functions of two numbers, each with the second, one after the other."""


@final
@dataclass(frozen=True, eq=False)
class Magnitude:
    """|x| ↦ M |x| + c: the sizes of the terms that a model adds up, one step after the other.

    Rounding errors are relative to these, and not to the sum: (x − mean) / scale may be small where
    both x and the mean are large. A map that sees through all steps at once knows only the sum.
    """

    # (m, d), dense or sparse, and (m,): no entry is negative
    matrix: Any
    offset: FloatArray
    # how many roundings one after the other an output passes at most
    terms: int
    # sizes whose sum of squares is added to each: those of differences x − p, if a model computes
    # distances; None for none
    lengths: Magnitude | None = None

    @classmethod
    def of(cls, matrix: Any, offset: FloatArray) -> Magnitude:
        """Return the sizes of one step z ↦ matrix z + offset."""
        return cls(abs(matrix), np.abs(offset), matrix.shape[1])

    @classmethod
    def of_distances(cls, points: FloatArray, root: Any | None = None) -> Magnitude:
        """Return the sizes of the squared distances ‖root (x − p)‖² from (P, d) points."""
        d = points.shape[1]
        matrix = sparse.eye_array(d, format="csr") if root is None else abs(root)
        farthest = matrix @ np.abs(points).max(axis=0)  # of all points, by coordinates
        lengths = cls(matrix, farthest, d)
        return cls(sparse.csr_array((1, d)), np.zeros(1), d + 2, lengths)

    @classmethod
    def joined(cls, magnitudes: Sequence[Magnitude]) -> Magnitude:
        """Return the sizes of outputs side by side."""
        matrix = sparse.csr_array(
            sparse.vstack([sparse.csr_array(magnitude.matrix) for magnitude in magnitudes])
        )
        offset = np.concatenate([magnitude.offset for magnitude in magnitudes])
        return cls(matrix, offset, max(magnitude.terms for magnitude in magnitudes))

    def take(self, outputs: NDArray[np.intp]) -> Magnitude:
        """Return the sizes of some outputs."""
        return Magnitude(self.matrix[outputs], self.offset[outputs], self.terms, self.lengths)

    def __call__(self, x: FloatArray) -> FloatArray:
        """(n, d) → (n, m)."""
        size = np.asarray((self.matrix @ np.abs(x).T).T + self.offset)
        if self.lengths is None:
            return size
        return np.asarray(size + (self.lengths(x) ** 2).sum(axis=1, keepdims=True))

    def through(self, before: AffineMap) -> Magnitude:
        """Return the sizes for inputs that pass ``before`` first."""
        inner, lengths = before.sizes, self.lengths and self.lengths.through(before)
        # A square has twice the relative error of a number.
        terms = self.terms + (1 if lengths is None else 2) * inner.terms
        offset = self.matrix @ inner.offset + self.offset
        return Magnitude(self.matrix @ inner.matrix, offset, terms, lengths)


@final
@dataclass(frozen=True, eq=False)
class AffineMap:
    """x ↦ M x + c: preprocessing seen through, or scores, with the sizes of its terms."""

    # (m, d), dense or sparse, and (m,)
    matrix: Any
    offset: FloatArray
    # the sizes of its terms; None if it is one step
    magnitude: Magnitude | None = field(default=None, kw_only=True)
    # output → (input, operations): outputs that the model computes from one input by operations in
    # float64, none of which falls anywhere; the matrix says the same but for roundings
    computed: Mapping[int, tuple[int, Operations]] = field(
        default_factory=dict, kw_only=True, compare=False
    )

    __getstate__ = fields_only

    @cached_property
    def sizes(self) -> Magnitude:
        """`magnitude`, whether given or not."""
        return self.magnitude or Magnitude.of(self.matrix, self.offset)

    def __call__(self, x: FloatArray) -> FloatArray:
        """(n, d) → (n, m)."""
        out = np.asarray(x @ self.matrix.T + self.offset)
        for i, (column, _) in self.computed.items():
            out[:, i] = self.output(i, x[:, column])
        return out

    def output(self, i: int, x: FloatArray) -> FloatArray:
        """Compute one of the ``computed`` outputs (n,), bit by bit, from its input (n,)."""
        with np.errstate(over="ignore"):
            for operation, number in self.computed[i][1]:
                x = getattr(np, operation)(x, number)
        return x

    def last_up_to(self, i: int, values: FloatArray) -> FloatArray:
        """Return the last inputs (n,) for which such an output is at most a value."""
        infinite = np.full(len(values), np.inf)
        first_above = first_float(lambda x: self.output(i, x) > values, -infinite, infinite)
        return np.where(np.isfinite(values), np.nextafter(first_above, -np.inf), values)

    def followed_by(self, matrix: Any, offset: FloatArray) -> tuple[Any, FloatArray]:
        """Return the matrix and offset of z ↦ matrix z + offset after this map."""
        return matrix @ self.matrix, matrix @ self.offset + offset

    def through(self, before: AffineMap) -> AffineMap:
        """Return the map of inputs that pass ``before`` first."""
        matrix, offset = before.followed_by(self.matrix, self.offset)
        return AffineMap(matrix, offset, magnitude=self.sizes.through(before))


class Link(Enum):
    """How scores become probabilities."""

    SOFTMAX = "softmax of the scores (for two classes, the logistic function)"
    CLIPPED = "(score + 1) / 2, clipped to [0, 1], for two classes (modified Huber loss)"
    CALIBRATED = "a function of the score that nowhere falls, for two classes (a calibration)"
    NONE = "no probabilities"


class Form(ABC):
    """A fitted model that says which regions of the input space make up its decisions."""

    link: Link = Link.NONE
    """How class scores become probabilities."""
    has_values: bool = False
    """Whether it predicts numbers, and no classes."""
    proves_steps: bool = True
    """Whether answers in whole steps are proved to be the cheapest."""
    takes_missing: bool = False
    """Whether it takes missing numbers as they are; their code is then `MISSING`."""
    otherwise: Form | None = None
    """The same model in another form, for programs that are not solved, or sooner, in that one."""
    thresholds: Callable[[tuple[slice, ...]], tuple[IntArray, FloatArray, FloatArray]] | None = None
    """Thresholds that it compares columns with (see `MinimumChange`), where these groups are
    categories; None if there are none."""
    breakpoints: tuple[IntArray, FloatArray] | None = None
    """(m,) columns, and (m,) the numbers there at which scores jump or bend; None if nothing does.
    A reader is most easily off at one of them: which side has the end, in which precision."""

    reordered: Form | None = None
    """The same model where it adds up in another order, as it may on another number of threads;
    None if it always adds up in the same."""
    narrow: Callable[[], Form] | None = None
    """The same model for rows in less than float64, where it computes what it makes of float64 bit
    by bit; None if it does not."""
    decision_error: Callable[[FloatArray, Requirement, float], FloatArray] | None = None
    """(n,) a bound on `margin_error` where it is known how the model rounds, infinite elsewhere;
    None if that is not known."""

    __getstate__ = fields_only

    @property
    @abstractmethod
    def width(self) -> int:
        """The number d of inputs."""

    @abstractmethod
    def predict(self, X: FloatArray) -> NDArray[Any]:
        """Return the predictions (n,) of the model's own ``predict`` at points (n, d)."""

    @abstractmethod
    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        """Return by how much (n,) the target is met, in score units; negative where it is not.

        For `Probability` on the scale of log-odds, for `Interval` of the prediction. It includes
        the margin that the target itself asks for. For `Tradeoff`, which demands nothing, it is the
        log-odds of the label.
        """

    @abstractmethod
    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        """Bound (n,) twice the rounding error of the numbers that decide at X, in score units.

        ``eps`` is that of the precision in which the model computes, or in which the points are
        kept: the distance from 1 to the next number.
        """

    def margin_error(self, X: FloatArray, required: Requirement, eps: float) -> FloatArray:
        """Bound (n,) how far off the model's own margins may be where a requirement is set."""
        if required.probable and required.at_least is None:  # a trade-off, which demands nothing
            return np.zeros(len(X))
        error = 0.5 * self.noise(X, eps)  # `noise` is twice a bound on the rounding error
        if required.at_least is not None:
            # The model's p is the quotient of an exponential, off by up to two units, and of a sum
            # of them: it is off by 16 eps p in all. Log-odds grow by 1 / (p (1 − p)) with it.
            error = error + 16.0 * eps / (1.0 - required.at_least)
        if self.decision_error is not None:
            error = np.minimum(error, self.decision_error(X, required, eps))
        return error

    @abstractmethod
    def regions(self, target: Target) -> Sequence[Region]:
        """Return closed convex regions whose union is where the target holds.

        For `Tradeoff`, which holds everywhere, one region without bounds, with the label's loss.

        Raises
        ------
        InvalidInput
            If the target does not fit the form: an unknown label, an `Interval` of a classifier,
            a `Probability` or `Tradeoff` of a model without probabilities.
        """

    @abstractmethod
    def through(self, before: AffineMap) -> Form:
        """Return the same model for inputs that pass ``before`` first."""

    def in_precision(self, eps: float) -> Form:
        """Return the same model for rows that are kept so that 1 + eps is next."""
        return self if eps <= EPS or self.narrow is None else self.narrow()

    def placed(self, region: Region) -> Region:
        """Return a region of possible answers with the model's thresholds put into it.

        Only a `MinimumChange` depends on them; a region without one is returned as it is.
        """
        if MinimumChange not in region.condition_types:
            return region
        if self.thresholds is None:
            raise InvalidInput(
                "Clearance is kept from the thresholds of trees, and this model has none. Ask for "
                "a margin in score units instead, as in Label(1, margin=0.1)."
            )
        thresholds = self.thresholds(tuple(c.columns for c in region if isinstance(c, OneOf)))
        conditions = (
            replace(c, thresholds=thresholds) if isinstance(c, MinimumChange) else c for c in region
        )
        return Region(tuple(conditions))


def require_finite(*coefficients: FloatArray | float) -> None:
    """Raise `InvalidInput` if there is NaN or infinity among the coefficients of a model."""
    if not all(np.isfinite(numbers).all() for numbers in coefficients):
        raise InvalidInput(
            "Expected finite coefficients, also after the preprocessing; the model has NaN or "
            "infinity among them. Fit it again, on finite data."
        )


def rounding(X: FloatArray, magnitude: Magnitude, eps: float) -> FloatArray:
    """Bound (n,) twice the rounding error of a difference of two scores.

    A sum of t products has an error of at most t · eps / 2 times the size of its terms; that X was
    itself rounded counts as well, see `Form.noise`.
    """
    largest = np.asarray(magnitude(X).max(axis=1))
    bound = (magnitude.terms + AFTER) * eps * largest * 2.0
    # Round up to six of 53 bits: or the last ones, and with them an answer, would depend on how
    # many rows are multiplied at once. Floats of one sign are in the order of their bits, so this
    # can be done in place on these.
    bits, dropped = bound.view(np.int64), (1 << 47) - 1
    bits += dropped
    bits &= ~dropped
    return bound


def wanted_classes(
    target: Target, classes: NDArray[Any], fitting: str, called: str = "the classes"
) -> tuple[NDArray[np.bool_], float]:
    """Return which classes (k,) a target on labels alone wants, and its margin.

    For messages, ``fitting`` names the targets that fit the form, and ``called`` the classes.
    """
    required = target.requirement
    if not required.labels or required.probable or required.varying_margin is not None:
        count = f" of {len(classes)} classes" if len(classes) > 2 else ""
        raise target.misfit(f"a classifier{count}", fitting)
    wanted = mask(required.labels, classes, called) ^ required.others  # the labels, or all others
    if wanted.all() or not wanted.any():
        raise InvalidInput(
            f"Expected a target that leaves some class out and some in; {target!r} does not among "
            f"{called} {classes.tolist()!r}."
        )
    return wanted, required.margin


def mask(
    labels: Sequence[Hashable], classes: NDArray[Any], called: str = "the classes"
) -> NDArray[np.bool_]:
    """Return which classes (k,) are among the labels; an unknown label is an `InvalidInput`."""
    known = classes.tolist()
    chosen = np.zeros(len(known), dtype=bool)
    for label in labels:
        value = label.item() if isinstance(label, np.generic) else label
        if value not in known:
            raise InvalidInput(f"Expected a target among {called} {known!r}; got {shown(value)}.")
        chosen[known.index(value)] = True
    return chosen
