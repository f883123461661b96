"""`PrivateSVC`: a support vector machine whose weights can be published."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from math import inf, log, sqrt
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from counterpoint.errors import InvalidInput, among, check_parameters
from counterpoint.noise import NoiseLaw
from counterpoint.numerics import FloatArray
from counterpoint.privacy.hinge import minimize_hinge
from counterpoint.privacy.mechanisms import MECHANISMS, UPWARDS, sensitivity_of

__all__ = ["PrivateSVC", "largest", "lift"]

ABOVE_0 = Interval(Real, 0.0, None, closed="neither")
AT_LEAST_1 = Interval(Integral, 1, None, closed="left")


@final
@dataclass(eq=False, repr=False)
class PrivateSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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
        in exact arithmetic alone (see `counterpoint.privacy.mechanisms.gamma_noise`); or
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

    epsilon: float
    _: KW_ONLY
    C: float = 1.0
    feature_map: Literal["linear", "fourier"] = "linear"
    bounds: tuple[ArrayLike, ArrayLike] | None = None
    classes: ArrayLike | None = None
    mechanism: Literal["laplace", "gamma", "gaussian"] = "laplace"
    delta: float | None = None
    sensitivity: Literal["tight", "rubinstein"] = "tight"
    n_components: int = 100
    gamma: float | None = None
    intercept_scaling: float | None = None
    tol: float = 1e-10
    max_iter: int = 200
    trust_data: bool = False
    insecure_noise_seed: int | None = None
    random_state: int | np.random.RandomState | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": [ABOVE_0],
        "C": [ABOVE_0],
        "feature_map": [StrOptions(among("linear", "fourier"))],
        "mechanism": [StrOptions(among(*MECHANISMS))],
        "delta": [Interval(Real, 0.0, 1.0, closed="neither"), None],
        "sensitivity": [StrOptions(among("tight", "rubinstein"))],
        "n_components": [AT_LEAST_1],
        "gamma": [ABOVE_0, None],
        "intercept_scaling": [Interval(Real, 0.0, None, closed="left"), None],
        "tol": [ABOVE_0],
        "max_iter": [AT_LEAST_1],
        "trust_data": ["boolean"],
        "insecure_noise_seed": [Interval(Integral, 0, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the weights and release them with noise; nothing else of the rows is kept.

        Parameters
        ----------
        X
            (n, d) array or data frame of finite numbers.
        y
            (n,) labels among the classes.

        Returns
        -------
        Self
            Itself, fitted.

        Raises
        ------
        InvalidInput
            If a parameter is none that can be, or is missing; or a label is not among the classes.
        SolverFailure
            If the weights are not proved to be near enough to the best ones.
        MissingExtra
            If OpenDP is not installed.
        """
        check_parameters(self)
        self._check_together()
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        classes, signs = self._signs(y)
        trusted = self.bounds is None
        bounds, (frequencies, intercept) = self._bounds(), self._draw()
        inside = X if trusted else np.clip(X, *bounds)
        scaled = _scaled(inside, bounds)
        rows = lift(scaled if trusted else np.clip(scaled, -1.0, 1.0), frequencies, intercept)
        norm, entry = largest(frequencies, intercept)
        if trusted and not len(frequencies):  # nothing is known about them: from the rows
            norm, entry = float(np.linalg.norm(rows, axis=1).max()), float(np.abs(rows).max())
        self.coef_, self.scale_, self.sensitivity_ = self._release(signs[:, None] * rows, norm)
        self.classes_, self.mechanism_ = classes, self.mechanism
        self.norm_bound_, self.entry_bound_, self.bounds_ = norm, entry, bounds
        self.frequencies_, self.intercept_scaling_ = frequencies, intercept
        self.private_ = not self._flaws()
        self.epsilon_spent_ = float(self.epsilon) if self.private_ else inf
        self.delta_spent_ = float(self.delta or 0.0) if self.private_ else 1.0
        return self

    def features(self, X: Any) -> FloatArray:
        """(n, F) φ(x), of which scores are linear.

        Parameters
        ----------
        X
            (n, d) as in `fit`; rows outside the bounds are not clipped.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        return lift(_scaled(X, self.bounds_), self.frequencies_, self.intercept_scaling_)

    def decision_function(self, X: Any) -> FloatArray:
        """(n,) φ(x)ᵀw̃, in score units.

        Parameters
        ----------
        X
            (n, d) as in `fit`.
        """
        return self.features(X) @ self.coef_

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) the second class where the score is at least 0, else the first (4).

        Parameters
        ----------
        X
            (n, d) as in `fit`.
        """
        second = self.decision_function(X) >= 0.0
        return np.asarray(self.classes_[second.astype(np.intp)])

    @property
    def noise_(self) -> NoiseLaw:
        """The law of w̃ − w, which is public."""
        check_is_fitted(self)
        return MECHANISMS[self.mechanism_].law(self.scale_, len(self.coef_))

    def error_bound(self, delta: float, rule: Literal["exact", "paper"] = "exact") -> float:
        """What no score within the bounds is off by, with a chance of 1 − δ.

        The smallest e for which the model is (e, δ)-useful (11): ``|φ(x)ᵀw̃ − φ(x)ᵀw*| ≤ e``
        for all x at once.

        Parameters
        ----------
        delta
            δ, above 0 and below 1.
        rule
            ``"exact"``: by the law of the norm of the noise. ``"paper"``: 2Φλ(F − ln δ), which is
            for Laplace noise, and larger.

        Returns
        -------
        float
            In score units.

        Raises
        ------
        InvalidInput
            If δ is no such number, or the paper's rule is asked for with other noise.
        """
        check_is_fitted(self)
        if not 0.0 < delta < 1.0:
            raise InvalidInput(
                f"Expected delta to be above 0 and below 1, and got {delta!r}: pass 0.05, say."
            )
        size, solved = len(self.coef_), self.norm_bound_ * sqrt(2.0 * self.tol)
        if rule == "exact":
            mechanism = MECHANISMS[self.mechanism_]
            sizes = (self.norm_bound_, self.entry_bound_)
            return mechanism.reach(self.scale_, size, delta, *sizes) + solved
        if self.mechanism_ != "laplace":
            raise InvalidInput(
                f"Expected Laplace noise for rule='paper', and the model has {self.mechanism_} "
                "noise: pass rule='exact'."
            )
        return 2.0 * self.entry_bound_ * self.scale_ * (size - log(delta))

    def is_useful(
        self, error: float, delta: float, rule: Literal["exact", "paper"] = "exact"
    ) -> bool:
        """Whether it is (error, δ)-useful (11); by the paper's rule, λ ≤ error / (2Φ(F − ln δ)).

        Parameters
        ----------
        error
            In score units.
        delta
            As in `error_bound`.
        rule
            As in `error_bound`.
        """
        return self.error_bound(delta, rule) <= error

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text: str = super().__repr__(N_CHAR_MAX)
        flaws = self._flaws()
        if not flaws and not getattr(self, "private_", True):
            flaws = ["fitted otherwise than its parameters say"]
        return f"{text} [not private: {', '.join(flaws)}]" if flaws else text

    def _flaws(self) -> list[str]:
        """Why the model is not private."""
        found = ["trust_data=True"] if self.trust_data else []
        seeded = self.insecure_noise_seed is not None
        return [*found, f"insecure_noise_seed={self.insecure_noise_seed}"] if seeded else found

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.non_deterministic = self.insecure_noise_seed is None
        return tags

    def _check_together(self) -> None:
        """Refuse parameters that contradict each other, and what is public if it is not said."""
        if self.feature_map == "fourier" and self.n_components % 2:
            raise InvalidInput(
                "PrivateSVC expects n_components to be even, for pairs of cosine and sine, and got "
                f"{self.n_components!r}: pass one more, or one less."
            )
        if (self.mechanism == "gaussian") != (self.delta is not None):
            raise InvalidInput(
                "PrivateSVC expects delta with mechanism='gaussian', and without it otherwise, and "
                f"got delta={self.delta!r} with mechanism={self.mechanism!r}: pass both, or "
                "neither."
            )
        if self.mechanism == "gaussian" and self.epsilon > 1e4:  # beyond, OpenDP's map overflows
            raise InvalidInput(
                "PrivateSVC expects epsilon to be at most 10000 with mechanism='gaussian', for "
                f"which OpenDP finds the noise, and got {self.epsilon!r}: pass less, or another "
                "mechanism. So large an epsilon protects nobody."
            )
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

    def _bounds(self) -> FloatArray:
        """(2, d) low and high; −1 and 1, which leave rows as they are, if there are none."""
        bounds, width = (-1.0, 1.0) if self.bounds is None else self.bounds, self.n_features_in_
        try:
            low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), (width,)) for b in bounds)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"Expected bounds to be a pair (low, high), each a number or {width} of them, one "
                f"for each column, and got {bounds!r}: pass such a pair."
            ) from error
        with np.errstate(over="ignore"):
            wide = np.isfinite(high - low) & (low < high)
        if not wide.all():
            column = int(np.flatnonzero(~wide)[0])
            raise InvalidInput(
                "Expected finite bounds, the lower below the upper, and those of column "
                f"{column} are {low[column]:g} and {high[column]:g}: leave out what cannot vary."
            )
        return np.stack([low, high])

    def _draw(self) -> tuple[FloatArray, float]:
        """W, of variance 2γ, and B, from public numbers alone: see `lift`."""
        d, fourier = self.n_features_in_, self.feature_map == "fourier"
        given = self.intercept_scaling
        intercept = float(given) if given is not None else 0.0 if fourier else 1.0
        if not fourier:
            return np.empty((0, d)), intercept
        gamma, random = self.gamma, check_random_state(self.random_state)
        drawn = random.standard_normal((int(self.n_components) // 2, d))
        return np.sqrt(2.0 * (1.0 / d if gamma is None else float(gamma))) * drawn, intercept

    def _release(self, rows: FloatArray, norm: float) -> tuple[FloatArray, float, float]:
        """The weights with noise, its scale, and the sensitivity, for rows y_i φ_i."""
        box, tol = float(self.C) / len(rows), float(self.tol)
        budget = float(self.epsilon), float(self.delta or 0.0)
        mechanism, size = MECHANISMS[self.mechanism], rows.shape[1]
        l2 = sensitivity_of(self.sensitivity, box=box, norm=norm, tol=tol)
        sensitivity = mechanism.sensitivity(l2, size)
        scale = mechanism.scale(sensitivity, budget)
        weights = minimize_hinge(rows, box, tol, int(self.max_iter))
        if self.insecure_noise_seed is None:
            return mechanism.release(weights, scale, sensitivity, budget), scale, sensitivity
        noise = mechanism.law(scale, size).draw(1, int(self.insecure_noise_seed))[0]
        return weights + noise, scale, sensitivity


def lift(Z: FloatArray, frequencies: FloatArray, intercept: float) -> FloatArray:
    """(n, F) φ(z) = (z, B); or (√(2/F) (cos Wz, sin Wz), B): random features of exp(−γ ‖z − z'‖²).

    A pair of cosine and sine has norm 1 exactly; a cosine with a random phase would reach √2. φ
    reads no data: what is linear in it is private, and κ is known beforehand.

    Parameters
    ----------
    Z
        (n, d) rows.
    frequencies
        (F/2, d) W; (0, d) for z itself.
    intercept
        B ≥ 0, the constant feature; there is none if it is 0.

    References
    ----------
    Rahimi & Recht (2007), Random features for large-scale kernel machines.
    """
    rows = Z
    if len(frequencies):
        phase = Z @ frequencies.T
        rows = np.concatenate([np.cos(phase), np.sin(phase)], axis=1) / np.sqrt(len(frequencies))
    if intercept == 0.0:
        return rows
    return np.concatenate([rows, np.full((len(rows), 1), intercept)], axis=1)


def largest(frequencies: FloatArray, intercept: float) -> tuple[float, float]:
    """κ and Φ: at least ‖φ‖₂ and every |φ_j| of rows whose entries are between −1 and 1."""
    pairs, d = frequencies.shape
    norm, entry = (1.0, 1.0 / sqrt(pairs)) if pairs else (sqrt(d), 1.0)
    return UPWARDS * float(np.hypot(norm, intercept)), max(entry, intercept)


def _scaled(X: FloatArray, bounds: FloatArray) -> FloatArray:
    """(n, d) the rows in units of the bounds, which become −1 and 1; also rows outside of them."""
    low, high = bounds
    half = 0.5 * (high - low)
    return (X - (low + half)) / half
