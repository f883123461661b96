"""`GLVQ`: prototypes under the Euclidean distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.lvq.costs import relative
from counterpoint.lvq.metrics import Identity, Metric
from counterpoint.lvq.parameters import RELATIVE, TRAINING, Rule
from counterpoint.lvq.quantizer import VectorQuantizer
from counterpoint.lvq.starts import Start
from counterpoint.lvq.training import Plan, Problem, Trained

__all__ = ["GLVQ"]


@final
class GLVQ(VectorQuantizer):
    """Generalized learning vector quantization.

    The label of the nearest prototype, by the squared Euclidean distance d(x, p). Training lowers
    the mean over rows of f((d⁺ − d⁻) / (d⁺ + d⁻)): d⁺ is the distance to the nearest prototype of
    the row's own class, d⁻ that to the nearest of another.

    Parameters
    ----------
    prototypes_per_class
        How many prototypes a class has: one number, a mapping from labels to numbers, or a sequence
        in the order of the sorted labels. A class needs as many distinct rows.
    transfer
        f: ``"sigmoid"``, 1 / (1 + exp(−steepness u)), so that rows near the boundary count most; or
        ``"identity"``, u.
    steepness
        That of the sigmoid: the larger, the nearer the loss is to the rate of errors.
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
    loss_
        The loss that was reached.
    n_iter_
        The number of iterations.
    n_features_in_, feature_names_in_
        d, and the names of the columns of a data frame.

    References
    ----------
    Sato & Yamada (1996), Generalized learning vector quantization.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from counterpoint.lvq import GLVQ
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GLVQ(prototypes_per_class=2, random_state=0).fit(X, y)
    >>> model.prototypes_.shape
    (6, 4)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    rules: ClassVar[Mapping[str, Rule]] = {**TRAINING, **RELATIVE}

    def __init__(
        self,
        prototypes_per_class: int | Mapping[Any, int] | Sequence[int] = 1,
        *,
        transfer: Literal["identity", "sigmoid"] = "sigmoid",
        steepness: float = 8.0,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.prototypes_per_class = prototypes_per_class
        self.transfer = transfer
        self.steepness = steepness
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _metric(self, owner: NDArray[np.intp]) -> Metric:
        return Identity()

    def _plan(self, start: Start) -> Plan:
        return Plan(Identity(), relative(self.transfer, self.steepness))

    def _omega(self) -> NDArray[np.float64]:
        return np.empty(0)

    def _keep(self, trained: Trained, problem: Problem) -> None:
        pass
