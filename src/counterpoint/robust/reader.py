"""Linear classifiers whose weights are known up to noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterpoint.errors import UnsupportedModel
from counterpoint.models.attributes import dense
from counterpoint.models.dispatch import Inputs, by_name, fitted, fitted_inputs, inputs_of, read
from counterpoint.models.form import AffineMap, Form, Magnitude
from counterpoint.models.linear import LinearScores
from counterpoint.robust.form import FourierScores, UncertainScores
from counterpoint.robust.waves import Waves

__all__: list[str] = []


@by_name("counterpoint", "UncertainClassifier")
def _(model: Any) -> Form:
    form = read(fitted(model).estimator)
    if not isinstance(form, LinearScores) or not form.is_binary:
        raise UnsupportedModel(
            "UncertainClassifier is read over binary linear classifiers; got "
            f"{type(model.estimator).__name__} with {len(np.atleast_1d(model.classes_))} classes. "
            "Explain it without the noise, or one class against the others."
        )
    d = form.width
    lift = AffineMap(np.vstack([np.eye(d), np.zeros((1, d))]), np.append(np.zeros(d), 1.0))
    return UncertainScores(form, lift, model.noise_)


@by_name("counterpoint", "PrivateSVC", question=inputs_of)
def _(model: Any) -> Inputs | None:
    inputs = fitted_inputs(model)
    if inputs is None or model.bounds is None:
        return inputs
    low, high = (dense(bound).tolist() for bound in model.bounds_)
    return replace(inputs, ranges=tuple(zip(low, high, strict=True)))


@by_name("counterpoint", "PrivateSVC")
def _(model: Any) -> Form:
    low, high = (dense(bound) for bound in fitted(model).bounds_)
    half = 0.5 * (high - low)
    # Normal noise falls more slowly than 1/ε; without privacy there is no ε.
    in_proportion = model.private_ and model.mechanism_ != "gaussian"
    released = float(model.epsilon_spent_) if in_proportion else None
    if len(model.frequencies_):
        frequencies, intercept = dense(model.frequencies_), float(model.intercept_scaling_)
        waves = Waves(frequencies, np.zeros(len(frequencies)), intercept)
        form = FourierScores(waves, dense(model.coef_), model.classes_, model.noise_, released)
        return form.through(AffineMap(np.diag(1.0 / half), -(low + half) / half))
    scaled, shift, constant = np.diag(1.0 / half), -(low + half) / half, model.intercept_scaling_
    if constant:
        scaled, shift = np.vstack([scaled, np.zeros_like(low)]), np.append(shift, constant)
    weights = dense(model.coef_)
    step = Magnitude.of(np.stack([np.zeros_like(weights), weights]), np.zeros(2))
    scores = LinearScores.binary(
        weights @ scaled,
        float(weights @ shift),
        model.classes_,
        no_probabilities="PrivateSVC has none",
        last_of_ties=True,
        magnitude=step.through(AffineMap(scaled, shift)),
    )
    return UncertainScores(scores, AffineMap(scaled, shift), model.noise_, released)
