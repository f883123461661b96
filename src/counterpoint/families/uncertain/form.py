"""Read binary models whose weights are known up to the law of their noise.

The known weights are w̃ = w + μ; the score that counts is φᵀw = φᵀw̃ − φᵀμ. At a point that was fixed
beforehand its sign is the label's with probability P(φᵀμ < s), where s is φᵀw̃ with the sign of the
label; that is at least p where s is at least the p-quantile of φᵀμ.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput, UnsupportedModel
from counterpoint.families.uncertain.fourier import (
    THINNING,
    FourierConstraint,
    FourierFeatures,
    fourier_margins,
)
from counterpoint.families.uncertain.linear_margins import Chance, linear_margins, share_answered
from counterpoint.families.uncertain.target import Robust, StartHint, UncertainForm
from counterpoint.models.dispatch import (
    Inputs,
    by_name,
    dense,
    fitted,
    inputs_of,
    read,
)
from counterpoint.models.form import AffineMap, Form, Magnitude, wanted_classes
from counterpoint.models.linear import LinearScores
from counterpoint.numerics import EPS, FloatArray
from counterpoint.privacy.noise import NoiseLaw
from counterpoint.problem.targets import Label, Target
from counterpoint.programs.region import Region
from counterpoint.rows.features import Features
from counterpoint.search.query import Query
from counterpoint.search.search import SafetyMargins


@final
@dataclass(frozen=True, eq=False)
class UncertainScores(UncertainForm):
    """A linear score whose noise acts on affine features of the input."""

    takes_prototypes: ClassVar[bool] = False

    scores: LinearScores
    """The binary scores by the known weights, which predict."""
    phi: AffineMap
    law: NoiseLaw
    epsilon: float | None = None

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
        return np.asarray(self.scores.noise(X, eps) + eps / EPS * self.quantile_error(X))

    def through(self, before: AffineMap) -> UncertainScores:
        phi = AffineMap(*before.followed_by(self.phi.matrix, self.phi.offset))
        return replace(self, scores=self.scores.through(before), phi=phi)

    def score_for(self, X: FloatArray, label: Hashable) -> FloatArray:
        return self.scores.margin(X, Label(label))

    def known_margin(self, X: FloatArray, target: Target) -> FloatArray:
        return self.scores.margin(X, target)

    def regions(self, target: Target) -> Sequence[Region]:
        """Closed convex pieces whose union is where the target holds."""
        if not isinstance(target, Robust):
            return self.scores.regions(target)
        predicted, law = self.scores.regions(Label(target.label)), self.demanded(target)
        if law is None:
            return predicted
        score, phi = self.affine_score(target.label), self.phi
        chance = Chance(law, target.probability, phi.matrix, phi.offset, *score)
        return (predicted[0] & Region((chance,)),)

    def affine_score(self, label: Hashable) -> tuple[FloatArray, float]:
        """(d,) and a number: the score of a label as a function slope · x + constant."""
        sign, matrix, offset = self.sign(label), self.scores.matrix, self.scores.offset
        slope = sign * (matrix[1] - matrix[0])
        return slope, sign * float(offset[1] - offset[0] - self.scores.threshold)

    def start_hint(self, target: Robust, features: Features) -> None:
        if target.search != "best" or target.prototype is not None:
            raise InvalidInput(
                "Expected search='best' and no prototype for a linear model, whose answers are "
                "optimal; they are for a model with random features. Leave them out."
            )

    def safety_margins(self, target: Robust, query: Query, x: FloatArray) -> SafetyMargins:
        return linear_margins(*self._margin_arguments(target, query, x))

    def share_answered(self, target: Robust, query: Query, x: FloatArray) -> float | None:
        return share_answered(*self._margin_arguments(target, query, x))

    def _margin_arguments(self, target: Robust, query: Query, x: FloatArray) -> Any:
        """Return the arguments of `linear_margins` for rows (n, d)."""
        key, actionable = (target.draws, target.random_state), query.actionable

        def drawn() -> tuple[FloatArray, FloatArray]:
            draws = self.law.draw(*key)
            return draws @ self.phi.matrix, draws @ self.phi.offset

        noise, score = self.draws.made(key, drawn), self.affine_score(target.label)
        return noise, target.probability, actionable, actionable.cases(x), score


@final
@dataclass(frozen=True, eq=False)
class FourierScores(UncertainForm):
    """The second class where weights · φ(x) >= 0, with φ of random frequencies; else the first."""

    takes_prototypes: ClassVar[bool] = True

    phi: FourierFeatures
    weights: FloatArray
    """(F,) as they are known."""
    classes: NDArray[Any]
    """(2,) labels."""
    law: NoiseLaw
    """The law of the noise: spherical, or independent and alike in all weights."""
    epsilon: float | None = None

    @property
    def width(self) -> int:
        return self.phi.width

    def score(self, X: FloatArray) -> FloatArray:
        """(n,) weights · φ."""
        return np.asarray(self.phi(X) @ self.weights)

    def predict(self, X: FloatArray) -> NDArray[Any]:
        return np.asarray(self.classes[(self.score(X) >= 0.0).astype(np.intp)])

    def noise(self, X: FloatArray, eps: float = EPS) -> FloatArray:
        error = self.phi.rounding(X, self.weights) + self.quantile_error(X)
        return np.asarray(eps / EPS * error)

    def through(self, before: AffineMap) -> FourierScores:
        return replace(self, phi=self.phi.through(before.matrix, before.offset))

    def score_for(self, X: FloatArray, label: Hashable) -> FloatArray:
        return self.sign(label) * self.score(X)

    def known_margin(self, X: FloatArray, target: Target) -> FloatArray:
        sign, margin = self._sign_and_margin(target)
        return np.asarray(sign * self.score(X) - margin)

    def regions(self, target: Target) -> Sequence[Region]:
        """Return one region, which is closed and not convex."""
        law, p = None, 0.5
        if isinstance(target, Robust):
            sign, margin = self.sign(target.label), 0.0
            law, p = self.demanded(target), target.probability
        else:
            sign, margin = self._sign_and_margin(target)
        # A score of exactly 0 is the second class's.
        tie = float(sign < 0.0 and margin == 0.0 and law is None)
        return (Region((FourierConstraint(self.phi, sign * self.weights, margin, law, p, tie),)),)

    def _sign_and_margin(self, target: Target) -> tuple[float, float]:
        """Return 1 if the second class is wanted, else −1, and the margin in score units."""
        if target.requirement.probable:
            raise InvalidInput(
                f"{type(target).__name__} needs class probabilities: a support vector machine has "
                "none. Use Label with a margin in score units, or Robust."
            )
        wanted, margin = wanted_classes(target, self.classes, "Label, OtherLabel or Robust")
        return (1.0 if wanted[1] else -1.0), margin

    def start_hint(self, target: Robust, features: Features) -> StartHint:
        """Return where to look for points, as the target's ``search`` says.

        "segment" looks on the way to the prototype, which must have the label; "optimal" anywhere.
        "best" looks anywhere if the prototype is of no use; else on the way to it, and elsewhere
        too, at once if answers are to be sure however they were chosen, else if the way has none.
        """
        prototype = target.prototype_point(features)
        if prototype is not None and self.predict(prototype[None])[0] != target.label:
            if target.search == "segment":
                raise InvalidInput(
                    f"Expected a prototype that the model takes for {target.label!r}; it takes "
                    "this one for the other class. Pass another, or search='best', which looks "
                    "elsewhere as well."
                )
            prototype = None
        is_best = target.search == "best"
        anywhere = target.search == "optimal" or (is_best and (target.selects or prototype is None))
        if target.search == "optimal":
            prototype = None
        return StartHint(prototype, anywhere, otherwise=is_best and not anywhere)

    def safety_margins(self, target: Robust, query: Query, x: FloatArray) -> SafetyMargins:
        count, seed = max(target.draws // THINNING, 1), target.random_state
        noise = self.draws.made((count, seed), lambda: self.law.draw(count, seed))
        return fourier_margins(self.phi, noise, target, query, x)

    def share_answered(self, target: Robust, query: Query, x: FloatArray) -> float | None:
        return None


@by_name("counterpoint", "UncertainClassifier")
def _(model: Any) -> Form:
    """Read a binary linear classifier with noise on its weights and intercept."""
    form, name = read(fitted(model).estimator), type(model.estimator).__name__
    if isinstance(form, UncertainScores | FourierScores):
        raise UnsupportedModel(
            f"{name} says itself how uncertain its weights are. Pass it as it is, without "
            "UncertainClassifier."
        )
    if not isinstance(form, LinearScores) or not form.is_binary:
        count = 0 if form.has_values else len(np.atleast_1d(model.classes_))
        got, advice = f"{name}, which is none", "Explain it without the noise."
        if count > 2:
            got, advice = f"{name} with {count} classes", "Fit one class against the others."
        raise UnsupportedModel(
            f"UncertainClassifier is read over binary linear classifiers; got {got}. {advice}"
        )
    d = form.width
    # y → (y, 1): the noise is on the d weights, and on the intercept as the weight of the 1
    lift = AffineMap(np.vstack([np.eye(d), np.zeros((1, d))]), np.append(np.zeros(d), 1.0))
    return UncertainScores(form, lift, model.noise_)


@by_name("counterpoint", "PrivateSVC", question=inputs_of)
def _(model: Any) -> Inputs | None:
    inputs = Inputs.of(model)
    if inputs is None or model.bounds is None:
        return inputs
    low, high = (dense(bound).tolist() for bound in model.bounds_)
    return replace(inputs, ranges=tuple(zip(low, high, strict=True)))


@by_name("counterpoint", "PrivateSVC")
def _(model: Any) -> Form:
    """Read linear scores, with noise if there are two classes, or scores of random features."""
    low, high = (dense(bound) for bound in fitted(model).bounds_)
    half, weights = 0.5 * (high - low), dense(model.coef_)
    # The noise is in proportion to 1/ε, but for normal noise, and without privacy there is no ε.
    is_proportional = model.private_ and model.mechanism_ != "gaussian"
    epsilon = float(model.epsilon_spent_) if is_proportional else None
    # The model scales inputs to −1 … 1, and adds a constant one in the place of an intercept.
    scaled, shift, constant = np.diag(1.0 / half), -(low + half) / half, model.intercept_scaling_
    if len(model.frequencies_):
        if len(model.classes_) > 2:
            raise UnsupportedModel(
                "A PrivateSVC with random features is explained for two classes; got "
                f"{len(model.classes_)}. Fit it to one class against the others."
            )
        frequencies = dense(model.frequencies_)
        features = FourierFeatures(frequencies, np.zeros(len(frequencies)), float(constant))
        form = FourierScores(features, weights, model.classes_, model.noise_, epsilon)
        return form.through(AffineMap(scaled, shift))
    if constant:
        scaled, shift = np.vstack([scaled, np.zeros_like(low)]), np.append(shift, constant)
    phi = AffineMap(scaled, shift)
    rows = np.atleast_2d(weights)  # one for each class, or one for the second of two classes
    is_binary = len(rows) == 1
    class_rows = np.stack([np.zeros_like(weights), weights]) if is_binary else rows
    scores = LinearScores.of(
        rows @ scaled,
        rows @ shift,
        model.classes_,
        no_probabilities="PrivateSVC has none",
        last_of_ties=is_binary,
        magnitude=Magnitude.of(class_rows, np.zeros(len(class_rows))).through(phi),
    )
    return UncertainScores(scores, phi, model.noise_, epsilon) if is_binary else scores
