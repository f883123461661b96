"""Turn linear decision functions into regions: scores, votes and regressors.

Source: Carreira-Perpiñán & Hada, Inverse classification with logistic and softmax classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from counterpoint.caches import Memo, fields_only
from counterpoint.errors import InvalidInput
from counterpoint.models.form import (
    AffineMap,
    Form,
    Link,
    Magnitude,
    mask,
    require_finite,
    rounding,
    wanted_classes,
)
from counterpoint.numerics import (
    AFTER,
    EPS,
    LARGEST,
    LIBRARY,
    BoolArray,
    FloatArray,
    IntArray,
    first_float,
)
from counterpoint.problem.targets import Target
from counterpoint.programs.conditions import HalfSpaces, LinearBounds
from counterpoint.programs.losses import LogLoss, LogSumExp
from counterpoint.programs.region import Region


@final
@dataclass(frozen=True, eq=False)
class Calibration:
    """A function of a binary score, nowhere falling: the probability of the second class."""

    predict: Callable[[FloatArray], FloatArray]  # (n,) scores, or probabilities, → (n,)
    of_probability: bool = False  # whether it takes the logistic function of the score

    __getstate__ = fields_only

    def __call__(self, score: FloatArray) -> FloatArray:
        """(n,) → (n,) the probability of the second class."""
        with np.errstate(over="ignore"):
            return np.asarray(self.predict(expit(score) if self.of_probability else score))

    @cached_property
    def _least_scores(self) -> Memo[tuple[float, int], float]:
        """(probability, label) → the least score, which takes some sixty calls of ``predict``."""
        return Memo()

    def score_at(self, at_least: float, classes: NDArray[Any], label: int) -> float:
        """Return the least score of a label with so much probability; an error if none has it.

        ``label`` is 0 or 1, its position in the classes; the score of the first class is minus that
        of the second.
        """
        sign = 1.0 if label else -1.0

        def probability(score: FloatArray) -> FloatArray:
            second = self(sign * score)
            return second if label else 1.0 - second

        def search() -> float:
            return float(first_float(lambda s: probability(s) >= at_least, -LARGEST, LARGEST)[0])

        least = self._least_scores.made((at_least, label), search)
        if np.isinf(least):
            most = float(probability(np.array([LARGEST]))[0])
            raise InvalidInput(
                f"Expected a probability of at most {most:.6g}, the largest that the calibration "
                f"gives to {classes.tolist()[label]!r}; got {at_least!r}. Ask for less."
            )
        return least


@dataclass(frozen=True, eq=False)
class AffineForm(Form):
    """A form that decides by an `AffineMap` A x + b."""

    matrix: FloatArray
    offset: FloatArray
    magnitude: Magnitude | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        require_finite(self.matrix, self.offset)

    @cached_property
    def map(self) -> AffineMap:
        """x ↦ A x + b."""
        return AffineMap(self.matrix, self.offset, magnitude=self.magnitude)

    @property
    def sizes(self) -> Magnitude:
        """The sizes of the terms of A x + b."""
        return self.map.sizes

    @property
    def width(self) -> int:
        return self.matrix.shape[1]

    def through(self, before: AffineMap) -> Self:
        seen = self.map.through(before)
        return replace(self, matrix=seen.matrix, offset=seen.offset, magnitude=seen.sizes)


def _half_spaces(rows: FloatArray, high: FloatArray, open_: BoolArray) -> LinearBounds:
    """Return the rows rows · x <= high; a row that is ``open_`` leaves its end to another class."""
    low = np.full(len(rows), -np.inf)
    return LinearBounds(rows, low, high, np.ones(len(rows)), open_.astype(np.float64))


@final
@dataclass(frozen=True, eq=False)
class LinearScores(AffineForm):
    """Scores A x + b whose largest entry is the prediction.

    A binary model is the pair of scores (0, z) with z its ``decision_function``.
    """

    classes: NDArray[Any]  # (k,) labels
    link: Link = Link.NONE
    no_probabilities: str = "the model has no probabilities"  # why, for messages
    # a shift of the last score's decision against its probability, in score units: a binary model
    # predicts its second class where z > threshold (>= with ``last_of_ties``)
    threshold: float = 0.0
    last_of_ties: bool = False  # whether the last of several largest scores wins, and not the first
    calibration: Calibration | None = None  # of the score, for ``Link.CALIBRATED``

    __getstate__ = fields_only

    @classmethod
    def binary(
        cls, coef: FloatArray, intercept: float, classes: NDArray[Any], **options: Any
    ) -> LinearScores:
        """Make the form of a decision function coef · x + intercept of ``classes[1]``."""
        coef = np.asarray(coef, dtype=np.float64).ravel()
        matrix = np.stack([np.zeros_like(coef), coef])
        return cls(matrix, np.array([0.0, float(intercept)]), np.asarray(classes), **options)

    @classmethod
    def of(
        cls, matrix: FloatArray, offset: FloatArray, classes: NDArray[Any], **options: Any
    ) -> LinearScores:
        """Make the form of a score for each class, or of one score, positive for ``classes[1]``."""
        if len(matrix) == 1:
            return cls.binary(matrix[0], offset[0], classes, **options)
        return cls(matrix, offset, classes, **options)

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes."""
        return len(self.classes) == 2

    @cached_property
    def _decision_offset(self) -> FloatArray:
        shift = np.zeros(len(self.offset))
        shift[-1] = self.threshold
        return self.offset - shift

    def scores(self, X: FloatArray) -> FloatArray:
        """Return scores (n, k) of which the largest is the prediction."""
        return np.asarray((self.matrix @ X.T).T + self._decision_offset)  # max over a row is quick

    def predict(self, X: FloatArray) -> NDArray[Any]:
        scores = self.scores(X)
        if self.is_binary:  # which is quicker than to look for the largest of two
            ahead = np.greater_equal if self.last_of_ties else np.greater
            return np.asarray(self.classes[ahead(scores[:, 1], scores[:, 0]).astype(np.intp)])
        if self.last_of_ties:
            return np.asarray(self.classes[::-1][scores[:, ::-1].argmax(axis=1)])
        return np.asarray(self.classes[scores.argmax(axis=1)])

    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        return rounding(X, self.sizes, eps) + 2.0 * eps * abs(self.threshold)

    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        if target.requirement.probable:
            return self._log_odds(X, target)
        wanted, least = self._wanted(target)
        scores = self.scores(X)
        inside = scores[:, wanted].max(axis=1)
        outside = scores[:, ~wanted].max(axis=1)
        return np.asarray(inside - outside - least)

    def regions(self, target: Target) -> Sequence[Region]:
        if target.requirement.probable:
            return (self._probable_region(target),)
        wanted, margin = self._wanted(target)
        inside, outside = np.flatnonzero(wanted), np.flatnonzero(~wanted)
        if len(outside) == 1:  # a half-space for each wanted class, and not a region of them
            return HalfSpaces(self._leads(inside, outside, margin))
        return tuple(Region((self._leads(k, outside, margin),)) for k in inside.tolist())

    def _leads(self, winner: IntArray | int, loser: IntArray, margin: float) -> LinearBounds:
        """Return the rows score[winner] >= score[loser] + margin, one for each pair of classes."""
        offset = self._decision_offset
        loser_wins_ties = (loser > winner) if self.last_of_ties else (loser < winner)
        return _half_spaces(
            self.matrix[loser] - self.matrix[winner],
            offset[winner] - offset[loser] - margin,
            loser_wins_ties & (margin == 0.0),
        )

    def _wanted(self, target: Target) -> tuple[BoolArray, float]:
        return wanted_classes(target, self.classes, "Label, OtherLabel, Probability or Tradeoff")

    def _label(self, target: Target) -> int:
        """Return the position of the target's label; an error if its probability is not known."""
        kind = type(target).__name__
        if self.link is Link.NONE:
            raise InvalidInput(
                f"{kind} needs class probabilities: {self.no_probabilities}. "
                "Use Label with a margin in score units."
            )
        if self.link is not Link.SOFTMAX and not target.demanding:
            clipped = self.link is Link.CLIPPED
            which = "modified Huber loss are clipped" if clipped else "calibration are rounded"
            raise InvalidInput(
                "Tradeoff needs probabilities that are a softmax of the scores; those of the "
                f"{which} to 0 and 1, where their logarithm has no use. Use Probability, or Label "
                "with a margin in score units."
            )
        return int(np.flatnonzero(mask(target.requirement.labels, self.classes))[0])

    def score_at(self, at_least: float | None, label: int = -1) -> float:
        """Return the score at which a label has so much probability; for a softmax its log-odds.

        ``label`` is its position. The score of the first of two classes is minus that of the
        second.
        """
        if at_least is None:  # a trade-off, which demands nothing
            return 0.0
        if self.calibration is not None:
            return self.calibration.score_at(at_least, self.classes, label % len(self.classes))
        if self.link is Link.CLIPPED:
            return 2.0 * at_least - 1.0
        return float(np.log(at_least) - np.log1p(-at_least))

    def _rivals(self, k: int) -> tuple[FloatArray, FloatArray]:
        """Return the rows and offsets of the other classes' scores minus the score of class k."""
        rows = np.delete(self.matrix, k, axis=0) - self.matrix[k]
        return rows, np.delete(self.offset, k) - self.offset[k]

    def _log_odds(self, X: FloatArray, target: Target) -> FloatArray:
        """Return the log-odds (n,) of the label, less those required."""
        k = self._label(target)
        rows, offset = self._rivals(k)
        rivals = (rows @ X.T).T + offset
        top = rivals.max(axis=1)  # subtracted, so that no exponential overflows
        total = np.exp(rivals - top[:, None]).sum(axis=1)
        return np.asarray(-(top + np.log(total)) - self.score_at(target.requirement.at_least, k))

    def _probable_region(self, target: Target) -> Region:
        """Return where a label has its probability: log Σ exp(rivals) is at most −score."""
        k = self._label(target)
        rows, offset = self._rivals(k)
        at_least = target.requirement.at_least
        if at_least is None:
            return Region((LogLoss(rows, offset),))
        score = self.score_at(at_least, k)
        if self.is_binary:  # of one rival, its score alone
            return Region((LinearBounds(rows, np.array([-np.inf]), -score - offset, np.ones(1)),))
        return Region((LogSumExp(rows, offset, -score),))


@final
@dataclass(frozen=True, eq=False)
class LinearRegressor(AffineForm):
    """A linear predictor A x + b of one row, or its exponential."""

    exponential: bool = False
    has_values: ClassVar[bool] = True  # type: ignore[misc]

    def _linear(self, X: FloatArray) -> FloatArray:
        return np.asarray(X @ self.matrix[0] + self.offset[0])

    def predict(self, X: FloatArray) -> NDArray[Any]:
        z = self._linear(X)
        return np.exp(z) if self.exponential else z

    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        size = (self.sizes.terms + AFTER) * self.sizes(X)[:, 0]
        if self.exponential:  # and the logarithm of the target's ends, whose rounding is as large
            size += LIBRARY * (1.0 + np.abs(self._linear(X)))
        return np.asarray(eps * size)

    def _limits(self, target: Target) -> tuple[float, float]:
        """Return the bounds that an `Interval` of predictions sets to A x + b."""
        limits = target.requirement.limits
        if limits is None:
            raise target.misfit("a regressor", "Interval")
        low, high = limits
        if not self.exponential:
            return low, high
        if high <= 0:
            raise InvalidInput(
                f"The model predicts positive values only; got {target!r}. Ask for a high above 0."
            )
        return float(np.log(low)) if low > 0 else -np.inf, float(np.log(high))

    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        low, high = self._limits(target)
        z = self._linear(X)
        return np.minimum(z - low, high - z)

    def regions(self, target: Target) -> tuple[Region, ...]:
        low, high = self._limits(target)
        return (
            Region((LinearBounds(self.matrix, low - self.offset, high - self.offset, np.ones(1)),)),
        )


@final
@dataclass(frozen=True, eq=False)
class Votes(AffineForm):
    """One linear decision for each pair of classes; most votes win, ties go to the first class.

    This is how libsvm, and with it ``sklearn.svm.SVC``, decides among several classes.

    The q = k(k−1)/2 decisions A x + b are of the pairs (0, 1), (0, 2) … in lexicographic order; a
    positive one is a vote for the first of the pair.
    """

    classes: NDArray[Any]

    def _winners(self, signs: NDArray[Any]) -> NDArray[np.intp]:
        """Return the positions of the winners of (n, q) outcomes of the pairs."""
        count = len(self.classes)
        first, second = (np.eye(count)[at] for at in np.triu_indices(count, 1))
        return np.asarray(((signs > 0) @ first + (signs <= 0) @ second).argmax(axis=1))

    def predict(self, X: FloatArray) -> NDArray[Any]:
        decisions = self.map(X)
        return np.asarray(self.classes[self._winners(np.sign(decisions))])

    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        return rounding(X, self.sizes, eps)

    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        wanted, least = self._wanted(target)
        decisions = self.map(X)
        best = np.full(len(X), -np.inf)
        for sign in self._cells(wanted):
            leads = np.where(sign != 0, decisions * sign, np.inf)
            best = np.maximum(best, leads.min(axis=1))
        return best - least

    def regions(self, target: Target) -> tuple[Region, ...]:
        wanted, least = self._wanted(target)
        regions = []
        for sign in self._cells(wanted):
            used = sign != 0
            rows = -sign[used, None] * self.matrix[used]
            high = sign[used] * self.offset[used] - least
            open_ = (sign[used] > 0) & (least == 0.0)  # a decision of 0 is a vote for the second
            regions.append(Region((_half_spaces(rows, high, open_),)))
        return tuple(regions)

    def _cells(self, wanted: BoolArray) -> list[NDArray[np.int8]]:
        """List the largest cells in which a wanted class wins.

        A cell is a sign (q,) for each pair: 1 or −1 for its winner, 0 where either may win. We
        begin with all outcomes; two cells that differ in the sign of one pair merge to one where
        that pair is free (Quine–McCluskey), round after round, until none does.
        """
        outcomes = np.array(list(product((1, -1), repeat=len(self.offset))), dtype=np.int8)
        cells = {tuple(row) for row in outcomes[wanted[self._winners(outcomes)]].tolist()}
        largest: set[tuple[int, ...]] = set()
        while cells:
            wider, merged = set(), set()
            for cell in cells:
                for pair, sign in enumerate(cell):
                    other = (*cell[:pair], -sign, *cell[pair + 1 :])
                    if sign == 1 and other in cells:
                        wider.add((*cell[:pair], 0, *cell[pair + 1 :]))
                        merged |= {cell, other}
            largest |= cells - merged
            cells = wider
        return [np.array(cell, dtype=np.int8) for cell in sorted(largest)]

    def _wanted(self, target: Target) -> tuple[BoolArray, float]:
        if target.requirement.probable:
            raise InvalidInput(
                f"{type(target).__name__} needs class probabilities: the model decides by votes "
                "between pairs of classes. Use Label with a margin in score units."
            )
        return wanted_classes(target, self.classes, "Label or OtherLabel")


def scores_of_rows(
    matrix: FloatArray,
    offset: FloatArray,
    classes: NDArray[Any],
    link: Link,
    sizes: Magnitude | None = None,
    **options: Any,
) -> LinearScores:
    """Make the form of one score for each class; of two classes, of the difference of theirs.

    ``sizes`` are those of the terms that the model itself computes, if they are not the scores'.
    """
    if len(classes) == 2:  # the difference alone would not tell how large the scores are
        sizes = sizes or Magnitude.of(matrix, offset)
        matrix, offset = np.diff(matrix, axis=0), np.diff(offset)
    return LinearScores.of(matrix, offset, classes, link=link, magnitude=sizes, **options)
