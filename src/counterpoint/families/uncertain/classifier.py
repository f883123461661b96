"""Say how uncertain the weights of a linear classifier are, with `UncertainClassifier`."""

from __future__ import annotations

from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from counterpoint.errors import InvalidInput, shown
from counterpoint.privacy.noise import NoiseLaw, ProjectedGaussian


@final
class UncertainClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted binary linear classifier whose weights are known up to noise.

    It predicts what the classifier predicts. The noise says how far its weights may be off: the
    sampling error of coefficients, what another training would change, or what was added for
    privacy. With it, the target `Robust` has a meaning. It can stand at the end of a pipeline.

    Parameters
    ----------
    estimator
        The fitted classifier, with two classes. `fit` leaves it as it is: weights and their noise
        belong together.
    covariance
        (d + 1, d + 1) of normal noise on the d weights and the intercept, the last, in units of the
        classifier's own inputs and of its decision function. The rows and columns of what is
        certain are 0.
    law
        The law of the noise on the same d + 1 numbers, if it is not normal.

    Attributes
    ----------
    noise_
        The law.
    classes_, n_features_in_, feature_names_in_
        Those of the classifier, as ``decision_function`` and ``predict_proba``.

    Raises
    ------
    InvalidInput
        When it is used: if there is not one of ``covariance`` and ``law``, or its size is wrong.

    Examples
    --------
    The inverse of the information matrix estimates the covariance of the coefficients of a
    logistic regression.

    >>> import counterpoint as cp
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X[:, :4]
    >>> scaler = StandardScaler().fit(X)
    >>> Z = scaler.transform(X)
    >>> logistic = LogisticRegression().fit(Z, y)
    >>> share = logistic.predict_proba(Z)[:, 1]
    >>> design = np.column_stack([Z, np.ones(len(Z))])
    >>> information = (design.T * (share * (1 - share))) @ design + np.diag([1, 1, 1, 1, 0])
    >>> sure = cp.UncertainClassifier(logistic, covariance=np.linalg.inv(information))
    >>> model = make_pipeline(scaler, sure)
    >>> answer = cp.explain(model, X[:1], cp.Robust(1, 0.9), data=X)[0]
    >>> answer.certificate.guarantee
    <Guarantee.SELECTION: 'selection'>
    """

    def __init__(
        self,
        estimator: Any,
        *,
        covariance: ArrayLike | None = None,
        law: NoiseLaw | None = None,
    ) -> None:
        self.estimator = estimator
        self.covariance = covariance
        self.law = law

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing: the classifier is fitted, and its weights have this noise."""
        check_is_fitted(self.estimator)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) what the classifier predicts, of rows as it takes them."""
        return np.asarray(self.estimator.predict(X))

    def __getattr__(self, name: str) -> Any:
        """Scores, probabilities, labels and names of inputs are those of the classifier."""
        if name.startswith("__") or "estimator" not in vars(self):
            raise AttributeError(name)
        return getattr(self.estimator, name)

    @property
    def noise_(self) -> NoiseLaw:
        """The law of the noise on the weights and the intercept."""
        if (self.covariance is None) == (self.law is None):
            got = "neither" if self.law is None else "both"
            raise InvalidInput(f"Expected a covariance or a law; got {got}. Pass one of them.")
        law = self.law if self.covariance is None else ProjectedGaussian.of(self.covariance)
        if not isinstance(law, NoiseLaw):
            raise InvalidInput(
                f"Expected a law of counterpoint.privacy.noise; got {shown(law)}. For normal "
                "noise, pass covariance=..."
            )
        size = self.n_features_in_ + 1
        if law.n_features != size:
            raise InvalidInput(
                f"Expected noise on {size} numbers, {size - 1} weights and then the intercept; got "
                f"{law.n_features}. For an intercept that is certain, append a row and a column of "
                "zeros."
            )
        return law

    def __sklearn_is_fitted__(self) -> bool:
        try:
            check_is_fitted(self.estimator)
        except (TypeError, ValueError):
            return False
        return True

    def __sklearn_clone__(self) -> Self:
        return self
