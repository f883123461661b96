"""What the estimators share that maximise a likelihood ratio."""

from __future__ import annotations

from abc import ABC
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from counterpoint.lvq.costs import LikelihoodRatio
from counterpoint.lvq.metrics import Metric
from counterpoint.lvq.quantizer import VectorQuantizer
from counterpoint.lvq.starts import Start

__all__ = ["LikelihoodQuantizer"]

FloatArray = NDArray[np.float64]


class LikelihoodQuantizer(VectorQuantizer, ABC):
    """A vector quantizer whose prototypes are the centres of a mixture of Gaussians."""

    spread: float | None
    spread_: float

    def predict_proba(self, X: Any) -> FloatArray:
        """(n, C) the posterior probability of each class under the mixture.

        The sum of exp(−d / (2 spread_)) over the prototypes of the class, divided by the sum over
        all. `predict` goes by the nearest prototype alone: where a class has several, the two may
        differ.

        Parameters
        ----------
        X
            (n, d) as in `fit`.
        """
        share = softmax(self._distances(X) / (-2.0 * self.spread_), axis=1)
        _, starts = np.unique(self.prototype_labels_, return_index=True)
        return np.asarray(np.add.reduceat(share, starts, axis=1))

    def _ratio(self, start: Start, metric: Metric) -> LikelihoodRatio:
        """The cost, with the spread as asked for, else as near as rows are at the start."""
        unit = start.rows.scale**2
        spread = _nearness(start, metric) if self.spread is None else float(self.spread) / unit
        self.spread_ = spread * unit
        return LikelihoodRatio(spread)


def _nearness(start: Start, metric: Metric) -> float:
    """The mean distance of rows to the nearest prototype of their class; if that is 0, to any."""
    omega, _ = metric.unit(metric.start(start))
    distances, _ = metric.distances(start.rows.x, start.prototypes, omega)
    nearest = np.where(start.own, distances, np.inf).min(axis=1)
    return float(start.rows.weight @ nearest) or float(distances.mean()) or 1.0
