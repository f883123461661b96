"""Binary scores of random Fourier features, with weights known up to the law of their noise."""

from __future__ import annotations

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
from counterpoint.models.form import EPS, AffineMap
from counterpoint.models.scores import mask, split
from counterpoint.noise import NoiseLaw
from counterpoint.robust.bounds.fourier import Heights
from counterpoint.robust.form import ROUNDED, UncertainForm, law_demanded
from counterpoint.robust.target import Robust
from counterpoint.robust.waves import WaveLimit, Waves
from counterpoint.rows.features import Features
from counterpoint.targets import Target

if TYPE_CHECKING:
    from counterpoint.engine.question import Question

__all__ = ["FourierScores"]

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class FourierScores(UncertainForm):
    """The second class where weights · φ(x) >= 0, with φ of random frequencies; else the first.

    Parameters
    ----------
    waves
        φ, F of them.
    weights
        (F,) as they are known.
    classes
        (2,) labels.
    law
        That of the noise of the weights; of spherical noise, or independent and alike.
    released
        The ε of a release whose noise is in proportion to 1/ε; None for other noise.
    """

    waves: Waves
    weights: FloatArray
    classes: NDArray[Any]
    law: NoiseLaw
    released: float | None = None

    @classmethod
    def of(
        cls,
        frequencies: FloatArray,
        intercept: float,
        weights: FloatArray,
        classes: NDArray[Any],
        law: NoiseLaw,
        released: float | None = None,
    ) -> FourierScores:
        """The form for (K, d) frequencies without phases, and a constant feature, or 0."""
        waves = Waves(frequencies, np.zeros(len(frequencies)), intercept)
        return cls(waves, weights, classes, law, released)

    @property
    def width(self) -> int:
        return self.waves.width

    def score(self, X: FloatArray) -> FloatArray:
        """(n,) weights · φ."""
        return np.asarray(self.waves(X) @ self.weights)

    def predict(self, X: FloatArray) -> NDArray[Any]:
        return np.asarray(self.classes[(self.score(X) >= 0.0).astype(np.intp)])

    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        own = self.waves.rounding(X, self.weights)
        whole = own + ROUNDED * self.law.deviation(self.waves(X))
        return np.asarray(eps / EPS * whole)

    def through(self, before: AffineMap) -> FourierScores:
        return replace(self, waves=self.waves.through(before.matrix, before.offset))

    @property
    def epsilon(self) -> float | None:
        return self.released

    def with_noise(self, share: float) -> FourierScores:
        return replace(self, law=self.law.scaled(share))

    def lead(self, X: FloatArray, label: Hashable) -> FloatArray:
        return self.sign(label) * self.score(X)

    def certainty(self, X: FloatArray, label: Hashable) -> FloatArray:
        return 1.0 - self.law.tail(self.lead(X, label), self.waves(X))

    def aim(self, target: Robust, features: Features) -> Aim:
        prototype = target.prototype_point(features)
        if prototype is not None and not self.takes(prototype, target.label):
            if target.search == "segment":
                raise InvalidInput(
                    f"Expected a prototype that the model takes for {target.label!r}; it takes "
                    "this one for the other class. Pass another, or search='best', which looks "
                    "elsewhere as well."
                )
            prototype = None
        wide = target.search == "best" and (target.selects or prototype is None)
        anywhere = target.search == "optimal" or wide
        on_segment = prototype is not None and target.search != "optimal"
        otherwise = target.search == "best" and not anywhere
        return Aim(prototype, on_segment, anywhere, otherwise)

    def takes(self, point: FloatArray, label: Hashable) -> bool:
        """Whether the known weights take a point (d,) for a label."""
        return bool(self.predict(point[None])[0] == label)

    def leads(self, target: Robust, question: Question, x: FloatArray) -> Leads:
        """What noise can do where answers are looked for.

        Where that is must not depend on the known weights: so a segment counts even if they take
        its end for another class, and no answer is looked for on it.
        """
        key = target.draws, target.random_state
        heights = self._heights.get(key, partial(Heights.drawn, self.waves, self.law, *key))
        cases, ends = question.plain.cases(x), None
        anywhere = target.search == "optimal"
        prototype = None if anywhere else target.prototype_point(question.features)
        if prototype is not None:
            ends = np.clip(prototype, cases.low, cases.high)
        balls, price = target.search != "segment", question.plain.price
        return heights.sweeps(target.probability, price, cases, ends, in_balls=balls)

    @cached_property
    def _heights(self) -> Memo[tuple[int, int], Heights]:
        return Memo()

    def sign(self, label: Hashable) -> float:
        """1 for the second class, −1 for the first."""
        return 1.0 if bool(mask((label,), self.classes)[1]) else -1.0

    def margin(self, X: FloatArray, target: Target) -> FloatArray:
        if not isinstance(target, Robust):
            second, asked = self._wanted(target)
            return np.asarray(np.where(second, 1.0, -1.0) * self.score(X) - asked)
        lead = self.lead(X, target.label)
        if target.selects or target.probability == 0.5:
            return lead
        law = law_demanded(self.law, target)
        return np.asarray(lead - law.quantile(target.probability, self.waves(X)))

    def regions(self, target: Target) -> tuple[Region, ...]:
        """One piece, which is closed and not convex.

        What an answer to a `Robust` that ``selects`` has to lead by depends on the row.
        """
        if not isinstance(target, Robust):
            second, asked = self._wanted(target)
            return (self._leads(second=second, asked=asked),)
        second = self.sign(target.label) > 0.0
        if target.selects or target.probability == 0.5:
            return (self._leads(second=second),)
        law = law_demanded(self.law, target)
        return (self._leads(second=second, law=law, probability=target.probability),)

    def _wanted(self, target: Target) -> tuple[bool, float]:
        """Whether it is the second class, and the margin."""
        if target.requirement.probable:
            raise InvalidInput(
                f"{type(target).__name__} needs class probabilities: a support vector machine has "
                "none. Use Label with a margin in score units, or Robust."
            )
        wanted, asked = split(target, self.classes, "Label, OtherLabel or Robust")
        return bool(wanted[1]), asked

    def _leads(
        self,
        *,
        second: bool,
        asked: float = 0.0,
        law: NoiseLaw | None = None,
        probability: float = 0.5,
    ) -> Region:
        weights = self.weights if second else -self.weights
        lost = float(not second and asked == 0.0 and law is None)
        return Region((WaveLimit(self.waves, weights, asked, law, probability, lost),))
