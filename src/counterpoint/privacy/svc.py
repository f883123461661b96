"""`PrivateSVC`: a support vector machine whose weights can be published."""

from __future__ import annotations

from math import inf
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from counterpoint.errors import InvalidInput
from counterpoint.privacy.classifier import PrivateClassifier
from counterpoint.privacy.hinge import minimize_hinge
from counterpoint.privacy.maps import FeatureMap, FourierMap, LinearMap, UnitBox
from counterpoint.privacy.mechanisms import MECHANISMS, Budget
from counterpoint.privacy.parameters import box_of, check
from counterpoint.privacy.sensitivity import sensitivity_of

__all__ = ["PrivateSVC"]

FloatArray = NDArray[np.float64]


@final
class PrivateSVC(PrivateClassifier):
    """A support vector machine with differentially private weights.

    The weights minimise ½ ‖w‖² + C/n Σ max(0, 1 − y_i φ(x_i)ᵀw), and are released with noise that
    hides any one row: with any row exchanged for any other, no outcome is more than exp(ε) times as
    likely (plus δ, if the noise is normal). The number of rows is public. Everything that is done
    with the released model afterwards costs nothing more; every further `fit` on the same rows
    costs ε again.

    The intercept is the weight of a constant feature, regularised and noised like the others.

    Parameters
    ----------
    epsilon
        ε > 0, what one fit costs.
    C
        The weight of the loss. The noise grows with it.
    feature_map
        ``"linear"``; or ``"fourier"``, random features of the kernel exp(−gamma ‖z − z'‖²).
    bounds
        (low, high), each a number or (d,), in feature units: what is known about the columns
        without looking at the rows. Rows are scaled from there to [−1, 1], and clipped in `fit`.
    classes
        The two labels that there are, whether or not each is among the rows.
    mechanism
        The law of the noise: ``"laplace"``; ``"gamma"``, less noise for many features, but proved
        in exact arithmetic alone (see `counterpoint.privacy.mechanisms.Gamma`); or
        ``"gaussian"``, (ε, δ)-private.
    delta
        δ of ``"gaussian"``: much less than 1/n.
    sensitivity
        ``"tight"``, 2Cκ/n; or ``"rubinstein"``, the paper's (10), which is twice that.
    n_components
        F, the even number of random features.
    gamma
        Of the kernel, for rows scaled to [−1, 1]; None for 1/d.
    intercept_scaling
        The constant feature; 0 for none. None for 1 if the features are linear, else for 0.
    tol
        How far the objective may be from its minimum, proved; the noise covers it.
    max_iter
        The largest number of iterations of the solver. `fit` fails if they do not suffice.
    trust_data
        True to do without ``bounds`` and ``classes``, and take from the rows what they would say.
        Such a model is **not private**, and says so.
    insecure_noise_seed
        An integer to draw the noise from a seeded generator, for experiments. Such a model is
        **not private**, and says so. None for noise that nobody can repeat.
    random_state
        For the random features, which are public.

    Attributes
    ----------
    coef_
        (F,) the released weights.
    classes_
        (2,) the sorted labels; a score of at least 0 decides for the second.
    scale_
        λ, that of the noise, in weight units.
    sensitivity_
        How far the weights can move with one row: in ‖·‖₁ for Laplace noise, else in ‖·‖₂.
    norm_bound_, entry_bound_
        κ and Φ: at least ‖φ(x)‖₂ and every abs(φ_j(x)), for x within the bounds.
    bounds_
        (2, d) low and high, in feature units.
    frequencies_
        (F/2, d) of the random features; none if the features are linear.
    intercept_scaling_
        The constant feature, or 0.
    mechanism_
        The law of the noise.
    private_
        Whether all this holds: False with ``trust_data`` or ``insecure_noise_seed``.
    epsilon_spent_, delta_spent_
        What the fit has cost: infinity and 1 if it is not private.
    n_features_in_, feature_names_in_
        d, and the names of the columns of a data frame.

    References
    ----------
    Rubinstein, Bartlett, Huang & Taft (2012), Learning in a large function space.
    Chaudhuri, Monteleoni & Sarwate (2011), Differentially private empirical risk minimization.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from counterpoint.privacy import PrivateSVC
    >>> X, y = make_blobs(1000, 2, centers=2, random_state=0)
    >>> model = PrivateSVC(epsilon=1.0, C=10.0, bounds=(-10, 10), classes=[0, 1]).fit(X, y)
    >>> model.coef_.shape, model.private_
    ((3,), True)
    """

    def __init__(  # noqa: PLR0913 (an estimator has parameters)
        self,
        epsilon: float,
        *,
        C: float = 1.0,
        feature_map: Literal["linear", "fourier"] = "linear",
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        classes: ArrayLike | None = None,
        mechanism: Literal["laplace", "gamma", "gaussian"] = "laplace",
        delta: float | None = None,
        sensitivity: Literal["tight", "rubinstein"] = "tight",
        n_components: int = 100,
        gamma: float | None = None,
        intercept_scaling: float | None = None,
        tol: float = 1e-10,
        max_iter: int = 200,
        trust_data: bool = False,
        insecure_noise_seed: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.C = C
        self.feature_map = feature_map
        self.bounds = bounds
        self.classes = classes
        self.mechanism = mechanism
        self.delta = delta
        self.sensitivity = sensitivity
        self.n_components = n_components
        self.gamma = gamma
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.trust_data = trust_data
        self.insecure_noise_seed = insecure_noise_seed
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        check(type(self).__name__, self.get_params(deep=False))
        self._demand_public()
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        classes, signs = self._signs(y)
        box, features = self._box(), self._draw()
        rows = features.lift(box.scaled(X) if self.bounds is None else box.clipped(X))
        norm, entry = self._sizes(features, rows)
        self.coef_, self.scale_, self.sensitivity_ = self._release(signs[:, None] * rows, norm)
        self.classes_, self.mechanism_ = classes, self.mechanism
        self.norm_bound_, self.entry_bound_ = norm, entry
        self.bounds_ = np.stack([box.low, box.high])
        self.frequencies_, self.intercept_scaling_ = features.frequencies, features.intercept
        self.private_ = not self._flaws()
        self.epsilon_spent_ = float(self.epsilon) if self.private_ else inf
        self.delta_spent_ = float(self.delta or 0.0) if self.private_ else 1.0
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.non_deterministic = self.insecure_noise_seed is None
        return tags

    def _demand_public(self) -> None:
        """Refuse to read from the rows what has to be known without them."""
        for name, words in (
            ("bounds", "(low, high) for each column"),
            ("classes", "the two labels that there are"),
        ):
            if getattr(self, name) is None and not self.trust_data:
                raise InvalidInput(
                    f"PrivateSVC expects {name}, {words}, from what is public, and got None: to "
                    f"read them from the rows would give the rows away. Pass {name}=…, or "
                    "trust_data=True for a model that is not private."
                )

    def _signs(self, y: NDArray[Any]) -> tuple[NDArray[Any], FloatArray]:
        """The classes (2,), and −1 or 1 for each label (n,)."""
        if self.classes is None:
            check_classification_targets(y)
        classes = np.unique(y if self.classes is None else np.asarray(self.classes))
        if len(classes) != 2:
            kind = "one class" if len(classes) < 2 else "multiclass"
            raise InvalidInput(
                "Only binary classification is supported. The type of the target is "
                f"{kind}: PrivateSVC expects two classes, and got {len(classes)}."
            )
        if not np.isin(y, classes).all():
            raise InvalidInput(
                f"Expected every label to be among classes={classes.tolist()}, and got another: "
                "pass the classes that there are, or leave such rows out beforehand."
            )
        return classes, np.where(y == classes[1], 1.0, -1.0)

    def _box(self) -> UnitBox:
        """The bounds, or what leaves rows as they are."""
        return box_of((-1.0, 1.0) if self.bounds is None else self.bounds, self.n_features_in_)

    def _draw(self) -> FeatureMap:
        """The feature map, from public numbers alone."""
        d, fourier = self.n_features_in_, self.feature_map == "fourier"
        given = self.intercept_scaling
        intercept = float(given) if given is not None else 0.0 if fourier else 1.0
        if not fourier:
            return LinearMap(d, intercept)
        gamma = 1.0 / d if self.gamma is None else float(self.gamma)
        random = check_random_state(self.random_state)
        return FourierMap.draw(int(self.n_components), d, gamma, intercept, random)

    def _sizes(self, features: FeatureMap, rows: FloatArray) -> tuple[float, float]:
        """κ and Φ; from the rows where nothing is known about them."""
        if self.bounds is None and not features.bounded:
            return float(np.linalg.norm(rows, axis=1).max()), float(np.abs(rows).max())
        return features.norm, features.entry

    def _release(self, rows: FloatArray, norm: float) -> tuple[FloatArray, float, float]:
        """The weights with noise, its scale, and the sensitivity, for rows y_i φ_i."""
        box, tol = float(self.C) / len(rows), float(self.tol)
        budget = Budget(float(self.epsilon), float(self.delta or 0.0))
        mechanism, size = MECHANISMS[self.mechanism], rows.shape[1]
        l2 = sensitivity_of(self.sensitivity, box=box, norm=norm, tol=tol)
        sensitivity = mechanism.sensitivity(l2, size)
        scale = mechanism.scale(sensitivity, size, budget)
        weights = minimize_hinge(rows, box, tol, int(self.max_iter))
        if self.insecure_noise_seed is None:
            return mechanism.release(weights, scale, sensitivity, budget), scale, sensitivity
        noise = mechanism.law(scale, size).draw(1, int(self.insecure_noise_seed))[0]
        return weights + noise, scale, sensitivity
