"""Binary scores whose weights are known up to the law of their noise.

What is known are w̃ = w + μ; the score that counts is φᵀw = φᵀw̃ − φᵀμ. At a point that was fixed
beforehand its sign is the label's with probability P(φᵀμ < lead), the lead being φᵀw̃ with the sign
of the label; that is at least p where the lead is at least the p-quantile of φᵀμ.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.caches import Memo
from counterpoint.engine.evidence import Leads
from counterpoint.engine.pieces import Aim
from counterpoint.engine.region import Region
from counterpoint.errors import InvalidInput
from counterpoint.models.form import EPS, AffineMap, Form
from counterpoint.models.linear import LinearScores
from counterpoint.models.scores import mask
from counterpoint.noise import NoiseLaw, ProjectedGaussian, ProjectedLaplace, k_paper
from counterpoint.robust.bounds.linear import Pulls
from counterpoint.robust.conditions import Chance
from counterpoint.robust.target import Robust
from counterpoint.rows.features import Features
from counterpoint.targets import Label, Target

if TYPE_CHECKING:
    from counterpoint.engine.question import Question

__all__ = ["UncertainForm", "UncertainScores", "law_demanded"]

FloatArray = NDArray[np.float64]
ROUNDED = 16 * EPS
"""The relative error of a quantile, and a little more."""


class UncertainForm(Form):
    """A binary model whose weights are known up to the law of their noise."""

    @property
    @abstractmethod
    def epsilon(self) -> float | None:
        """What the noise falls with in proportion, if it was added for privacy; None else."""

    @abstractmethod
    def with_noise(self, share: float) -> UncertainForm:
        """The same with so many times the noise."""

    @abstractmethod
    def lead(self, X: FloatArray, label: Hashable) -> FloatArray:
        """(n,) by how much the known weights are for a label, in score units."""

    @abstractmethod
    def certainty(self, X: FloatArray, label: Hashable) -> FloatArray:
        """(n,) the probability that the true weights are for it, at points fixed beforehand."""

    @abstractmethod
    def aim(self, target: Robust, features: Features) -> Aim:
        """Where a target says to look.

        Raises
        ------
        InvalidInput
            If it says so of a model without random features, or only of the way to a prototype
            that the model takes for another class.
        """

    @abstractmethod
    def leads(self, target: Robust, question: Question, x: FloatArray) -> Leads:
        """By how much an answer has to lead at a distance from (n, d) rows, however chosen."""


@final
@dataclass(frozen=True, eq=False)
class UncertainScores(UncertainForm):
    """A linear score whose noise acts on affine features of the input.

    Parameters
    ----------
    scores
        The model as it is known, binary; what is predicted.
    lift
        The features φ(x), F of them.
    law
        That of the noise of their weights (F,).
    released
        The ε of a release whose noise is in proportion to 1/ε; None for other noise.
    """

    scores: LinearScores
    lift: AffineMap
    law: NoiseLaw
    released: float | None = None

    @property
    def width(self) -> int:
        return self.scores.width

    @property
    def classes(self) -> NDArray[Any]:
        """(2,) labels."""
        return self.scores.classes

    def predict(self, X: FloatArray) -> NDArray[Any]:
        return self.scores.predict(X)

    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        quantile = ROUNDED * self.law.deviation(self.lift(X))
        return np.asarray(self.scores.noise(X, eps) + eps / EPS * quantile)

    def through(self, before: AffineMap) -> UncertainScores:
        lift = AffineMap(*before.followed_by(self.lift.matrix, self.lift.offset))
        return replace(self, scores=self.scores.through(before), lift=lift)

    @property
    def epsilon(self) -> float | None:
        return self.released

    def with_noise(self, share: float) -> UncertainScores:
        return replace(self, law=self.law.scaled(share))

    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        if not isinstance(target, Robust):
            return self.scores.margin(X, target)
        lead = self.lead(X, target.label)
        if target.selects or target.probability == 0.5:
            return lead
        quantile = self.demanded(target).quantile(target.probability, self.lift(X))
        return np.asarray(lead - quantile)

    def regions(self, target: Target) -> tuple[Region, ...]:
        """Closed convex pieces whose union is where the target holds.

        What an answer to a `Robust` that ``selects`` has to lead by depends on the row: see
        `counterpoint.robust.bounds.linear`.
        """
        if not isinstance(target, Robust):
            return self.scores.regions(target)
        predicted = self.scores.regions(Label(target.label))
        if target.selects or target.probability == 0.5:
            return predicted
        law, (slope, constant) = self.demanded(target), self.leading(target.label)
        lift = self.lift
        chance = Chance(law, target.probability, lift.matrix, lift.offset, slope, constant)
        return (predicted[0] & Region((chance,)),)

    def lead(self, X: FloatArray, label: Hashable) -> FloatArray:
        return self.scores.margin(X, Label(label))

    def certainty(self, X: FloatArray, label: Hashable) -> FloatArray:
        return 1.0 - self.law.tail(self.lead(X, label), self.lift(X))

    def aim(self, target: Robust, features: Features) -> Aim:
        if target.search != "best" or target.prototype is not None:
            raise InvalidInput(
                "Expected search='best' and no prototype for a linear model, whose answers are "
                "optimal; they are for a model with random features. Leave them out."
            )
        return Aim()

    def leads(self, target: Robust, question: Question, x: FloatArray) -> Leads:
        key, lift = (target.draws, target.random_state), self.lift
        pulls = self._pulls.get(key, partial(Pulls.drawn, self.law, lift.matrix, lift.offset, *key))
        lead, cases = self.leading(target.label), question.plain.cases(x)
        return pulls.band(target.probability, question.plain, cases, lead)

    @cached_property
    def _pulls(self) -> Memo[tuple[int, int], Pulls]:
        return Memo()

    def leading(self, label: Hashable) -> tuple[FloatArray, float]:
        """(d,) and a number: the lead of a label as a function slope · x + constant."""
        second = bool(mask((label,), self.classes)[1])
        sign = 1.0 if second else -1.0
        matrix, offset = self.scores.matrix, self.scores.offset
        slope = sign * (matrix[1] - matrix[0])
        return slope, sign * float(offset[1] - offset[0] - self.scores.threshold)

    def demanded(self, target: Robust) -> NoiseLaw:
        """The law whose quantile is demanded.

        That of the paper, λ √2 ln(1 / (2 (1 − p))) ‖φ‖, is that of a normal law of the right scale.
        """
        return law_demanded(self.law, target)


def law_demanded(law: NoiseLaw, target: Robust) -> NoiseLaw:
    """The law whose quantile a target demands, for weights of a law."""
    if target.rule == "exact":
        return law
    if not isinstance(law, ProjectedLaplace):
        raise InvalidInput(
            f"Expected Laplace noise for rule='paper'; got {law.kind} noise. Use rule='exact'."
        )
    p = target.probability
    unit = ProjectedGaussian.isotropic(1.0, 1).quantile(p, np.ones(1))
    return ProjectedGaussian.isotropic(law.scale * k_paper(p) / float(unit), law.n_features)
