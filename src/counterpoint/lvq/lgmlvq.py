"""`LGMLVQ`: a matrix for each prototype or each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.lvq.costs import relative
from counterpoint.lvq.metrics import Matrices
from counterpoint.lvq.parameters import LOCAL, RELATIVE, TRAINING, Rule, check_rank
from counterpoint.lvq.quantizer import VectorQuantizer
from counterpoint.lvq.starts import Start
from counterpoint.lvq.training import Plan, Problem, Trained

__all__ = ["LGMLVQ"]


@final
class LGMLVQ(VectorQuantizer):
    """Localized generalized matrix learning vector quantization.

    The label of the nearest prototype, by the squared distance d(x, p) = (x − p)′ Ω′Ω (x − p)
    with a learned matrix Ω for each prototype, or for each class. Training lowers the mean over
    rows of f((d⁺ − d⁻) / (d⁺ + d⁻)): d⁺ is the distance to the nearest prototype of the row's
    own class, d⁻ that to the nearest of another.

    Parameters
    ----------
    prototypes_per_class
        How many prototypes a class has: one number, a mapping from labels to numbers, or a sequence
        in the order of the sorted labels. A class needs as many distinct rows.
    metric_per
        What has a matrix of its own: each ``"prototype"`` or each ``"class"``.
    transfer
        f: ``"sigmoid"``, 1 / (1 + exp(−steepness u)), so that rows near the boundary count most; or
        ``"identity"``, u.
    steepness
        That of the sigmoid: the larger, the nearer the loss is to the rate of errors.
    rank
        k, the number of rows of Ω; None for d.
    regularization
        The weight of −log det(k ΩΩ′) / k, averaged over the matrices, in the loss: 0 if all
        directions count the same, infinite if one of them is lost.
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
    omegas_
        (P, k, d), or (C, k, d) in the order of ``classes_``: Ω, each with trace(Ω′Ω) = 1.
    loss_
        The loss that was reached.
    n_iter_
        The number of iterations.
    n_features_in_, feature_names_in_
        d, and the names of the columns of a data frame.

    References
    ----------
    Schneider, Biehl & Hammer (2009), Adaptive relevance matrices in learning vector quantization;
    Schneider et al. (2010), Regularization in matrix relevance learning.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from counterpoint.lvq import LGMLVQ
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LGMLVQ(prototypes_per_class=2, random_state=0).fit(X, y)
    >>> model.omegas_.shape
    (6, 4, 4)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    rules: ClassVar[Mapping[str, Rule]] = {**TRAINING, **RELATIVE, **LOCAL}

    def __init__(  # noqa: PLR0913 (an estimator has parameters)
        self,
        prototypes_per_class: int | Mapping[Any, int] | Sequence[int] = 1,
        *,
        metric_per: Literal["prototype", "class"] = "prototype",
        transfer: Literal["identity", "sigmoid"] = "sigmoid",
        steepness: float = 8.0,
        rank: int | None = None,
        regularization: float = 0.05,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.prototypes_per_class = prototypes_per_class
        self.metric_per = metric_per
        self.transfer = transfer
        self.steepness = steepness
        self.rank = rank
        self.regularization = regularization
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _metric(self, owner: NDArray[np.intp]) -> Matrices:
        return Matrices.per(self.metric_per, owner, self.rank)

    def _plan(self, start: Start) -> Plan:
        check_rank(self.rank, start.prototypes.shape[1])
        cost = relative(self.transfer, self.steepness)
        return Plan(self._metric(start.owner), cost, self.regularization)

    def _omega(self) -> NDArray[np.float64]:
        return self.omegas_

    def _keep(self, trained: Trained, problem: Problem) -> None:
        metric = self._metric(problem.start.owner)
        self.omegas_ = metric.arranged(trained.omega, problem.start.order)
