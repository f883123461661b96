"""Models whose true weights are known, so that it can be counted how often answers hold."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from counterpoint.privacy import PrivateSVC
from private.papers_rules import with_papers_noise
from private.sets import Data, data_set

__all__ = ["Kind", "Known", "known"]

FloatArray = NDArray[np.float64]
Kind = Literal["fourier", "linear"]


@dataclass(frozen=True, eq=False)
class Known:
    """A model, and the weights before noise.

    Parameters
    ----------
    data
        What it was trained on.
    model
        Fitted at ε = 1; its noise is of no use.
    weights
        (F,) w*.
    """

    data: Data
    model: PrivateSVC
    weights: FloatArray

    def released(self, epsilon: float, seed: int) -> PrivateSVC:
        """The model with noise for ε, drawn from a seeded generator."""
        model = copy(self.model).set_params(epsilon=epsilon, insecure_noise_seed=seed)
        model.scale_ = self.model.scale_ / epsilon
        model.coef_ = self.weights + model.noise_.draw(1, seed)[0]
        return model

    def safety_margin(self, rows: FloatArray, label: int) -> FloatArray:
        """(n,) by how much the true weights are for a label, which is −(12b)."""
        score = self.model.features(rows) @ self.weights
        return score if label == 1 else -score


@cache
def known(name: str, kind: Kind, drawn: int) -> Known:
    """A model with the paper's C, F and sensitivity.

    Parameters
    ----------
    name
        Of the data set.
    kind
        Its features.
    drawn
        Seed of random features.
    """
    data = data_set(name)
    assert data is not None  # noqa: S101 (only data sets that are here are asked for)
    model = PrivateSVC(
        1.0,
        C=float(np.sqrt(len(data.X))),
        feature_map=kind,
        trust_data=True,
        insecure_noise_seed=0,
        random_state=drawn,
    ).fit(data.X, data.y)
    weights = model.coef_ - model.noise_.draw(1, 0)[0]
    return Known(data, with_papers_noise(model, len(data.X)), weights)
