"""`RSLVQ`: the likelihood ratio under the Euclidean distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.lvq.likelihood import LikelihoodQuantizer
from counterpoint.lvq.metrics import Identity, Metric
from counterpoint.lvq.parameters import LIKELIHOOD, TRAINING, Rule
from counterpoint.lvq.starts import Start
from counterpoint.lvq.training import Plan, Problem, Trained

__all__ = ["RSLVQ"]


@final
class RSLVQ(LikelihoodQuantizer):
    """Robust soft learning vector quantization.

    The label of the nearest prototype, by the squared Euclidean distance d(x, p). Training
    maximises the mean over rows of log(p(x, y) / p(x)), where p is a mixture of equally
    weighted Gaussians exp(−d / (2 σ²)) around the prototypes.

    The nearest prototype decides, not the mixture: see `predict_proba`.

    Parameters
    ----------
    prototypes_per_class
        How many prototypes a class has: one number, a mapping from labels to numbers, or a sequence
        in the order of the sorted labels. A class needs as many distinct rows.
    spread
        σ², in units of the squared distances; None for the mean distance of the rows to the nearest
        prototype of their class at the start.
    anchor
        The weight of how far prototypes move from the centres they start at, ½ mean (p − start)² in
        units of the mean variance of the features. Without it, those of separable classes would
        leave the data for infinity.
    max_iter
        The largest number of iterations; a ``ConvergenceWarning`` if it is reached.
    tol
        Training stops when an iteration lowers the loss by less than this.
    random_state
        For the start; the same integer gives the same model to the last bit.

    Attributes
    ----------
    classes_
        (C,) the sorted labels.
    prototypes_
        (P, d) in feature units, class after class.
    prototype_labels_
        (P,) their labels.
    spread_
        σ², in units of the squared distances.
    loss_
        The loss that was reached.
    n_iter_
        The number of iterations.
    n_features_in_, feature_names_in_
        d, and the names of the columns of a data frame.

    References
    ----------
    Seo & Obermayer (2003), Soft learning vector quantization.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from counterpoint.lvq import RSLVQ
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RSLVQ(prototypes_per_class=2, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (150, 3)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    rules: ClassVar[Mapping[str, Rule]] = {**TRAINING, **LIKELIHOOD}

    def __init__(
        self,
        prototypes_per_class: int | Mapping[Any, int] | Sequence[int] = 1,
        *,
        spread: float | None = None,
        anchor: float = 0.02,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.prototypes_per_class = prototypes_per_class
        self.spread = spread
        self.anchor = anchor
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _metric(self, owner: NDArray[np.intp]) -> Metric:
        return Identity()

    def _plan(self, start: Start) -> Plan:
        metric = self._metric(start.owner)
        return Plan(metric, self._ratio(start, metric), anchor=self.anchor)

    def _omega(self) -> NDArray[np.float64]:
        return np.empty(0)

    def _keep(self, trained: Trained, problem: Problem) -> None:
        pass
