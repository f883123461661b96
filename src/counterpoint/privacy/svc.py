"""Learns a support vector machine whose weights can be published, `PrivateSVC`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from math import inf, sqrt
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from counterpoint.errors import InvalidInput, PrivacyLeakWarning, among, check_parameters, some
from counterpoint.numerics import EPS, FloatArray
from counterpoint.privacy.accountant import BudgetAccountant, learned_before
from counterpoint.privacy.features import largest, lift, read_bounds, scaled
from counterpoint.privacy.hinge import minimize_hinge
from counterpoint.privacy.mechanisms import MECHANISMS, tight_sensitivity
from counterpoint.privacy.noise import NoiseLaw


@final
@dataclass(eq=False, repr=False)
class PrivateSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A support vector machine with differentially private weights.

    The weights minimise ½ ‖w‖² + C/n Σ max(0, 1 − y_i φ(x_i)ᵀw), and are released with noise that
    hides any one row: with any row exchanged for any other, no outcome is more than exp(ε) times as
    likely (plus δ, if the noise is normal). The number of rows is public. Everything that is done
    with the released model afterwards costs nothing more; every further `fit` on the same rows
    costs ε again, which a `BudgetAccountant` counts.

    The intercept is the weight of a constant feature, regularised and noised like the others. More
    than two classes are learned one against the rest: K vectors of weights, of which each gets a
    K-th of ε, or of ρ = (Δ/σ)²/2 if the noise is normal; one fit costs ε all the same.

    Parameters
    ----------
    epsilon
        ε > 0, what one fit costs.
    C
        The weight of the loss. The noise grows with it.
    feature_map
        ``"linear"``; or ``"fourier"``, random features of the kernel exp(−gamma ‖z − z'‖²).
    bounds
        (low, high), each a number or (d,), in feature units; or name → (low, high), for data
        frames: what is known about the columns without looking at the rows. Rows are scaled from
        there to [−1, 1], and clipped in `fit`.
    classes
        The labels that there are, at least two, whether or not each is among the rows.
    mechanism
        The law of the noise: ``"laplace"``; ``"gamma"``, less noise for many features, but proved
        in exact arithmetic alone (see `counterpoint.privacy.mechanisms.gamma_noise`); or
        ``"gaussian"``, (ε, δ)-private.
    delta
        δ of ``"gaussian"``: much less than 1/n, since so much may give a row away as it is.
    n_components
        F, the even number of random features.
    gamma
        That of the kernel, for rows scaled to [−1, 1]; None for 1/d.
    intercept_scaling
        The constant feature; 0 for none. None for 1 if the features are linear, else for 0.
    tol
        How far the objective may be from its minimum, proved; the noise covers it. None for
        ½ (κC/n / 10 000)², which adds a ten-thousandth to the noise.
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
    accountant
        The accountant that counts releases of these rows, and raises when the budget is spent; None
        for the default `BudgetAccountant`, if one is set.

    Attributes
    ----------
    coef_
        (F,) the released weights; (K, F) of K > 2 classes.
    classes_
        (K,) the sorted labels; of two, a score of at least 0 decides for the second, of more, the
        largest score decides.
    scale_
        λ, that of the noise, in weight units.
    sensitivity_
        How far the F weights can move with one row: in ‖·‖₁ for Laplace noise, else in ‖·‖₂.
    tol_
        How far the objective was proved to be from its minimum at most.
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
        Whether the weights are private: False with ``trust_data`` or ``insecure_noise_seed``.
    epsilon_spent_, delta_spent_
        ε and δ that the fit has cost: infinity and 1 if it is not private.
    rho_spent_
        The same in ρ of zero-concentrated privacy.
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
    bounds: tuple[ArrayLike, ArrayLike] | Mapping[Any, tuple[float, float]] | None = None
    classes: ArrayLike | None = None
    mechanism: Literal["laplace", "gamma", "gaussian"] = "laplace"
    delta: float | None = None
    n_components: int = 100
    gamma: float | None = None
    intercept_scaling: float | None = None
    tol: float | None = None
    max_iter: int = 200
    trust_data: bool = False
    insecure_noise_seed: int | None = None
    random_state: int | np.random.RandomState | None = None
    accountant: BudgetAccountant | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: [Interval(Real, 0.0, None, closed="neither")] for name in ("epsilon", "C")},
        "feature_map": [StrOptions(among("linear", "fourier"))],
        "mechanism": [StrOptions(among(*MECHANISMS))],
        "delta": [Interval(Real, 0.0, 1.0, closed="neither"), None],
        **{name: [Interval(Real, 0.0, None, closed="neither"), None] for name in ("gamma", "tol")},
        "intercept_scaling": [Interval(Real, 0.0, None, closed="left"), None],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "trust_data": ["boolean"],
        "insecure_noise_seed": [Interval(Integral, 0, None, closed="left"), None],
        "random_state": ["random_state"],
        "accountant": [BudgetAccountant, None],
    }

    def fit(self, X: Any, y: Any, **refused: Any) -> Self:
        """Learn the weights and release them with noise; nothing else of the rows is stored.

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
            If a parameter is none that can be, or is missing; or a label is not among the classes;
            or there are weights of rows, which the proof is not for.
        BudgetError
            If the accountant does not allow what the fit costs.
        SolverFailure
            If the weights are not proved to be near enough to the best ones.
        MissingExtra
            If OpenDP is not installed.

        Warns
        -----
        PrivacyLeakWarning
            If what stands before it in a pipeline is fitted to the rows, which no noise covers; or
            δ is at least 1/n.
        """
        check_parameters(self)
        self._check_together(refused)
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        classes, signs = self._signs(y)
        self._warn(len(X))

        # The cost, which the accountant must allow
        mechanism, private, count = MECHANISMS[self.mechanism], not self._flaws(), len(signs)
        budget = float(self.epsilon), float(self.delta or 0.0)
        cost = (*budget, mechanism.rho(budget, count)) if private else (inf, 1.0, inf)
        accountant = self.accountant or BudgetAccountant.default()
        if accountant is not None:
            accountant.check(*cost)

        # The features, and at least the largest norm and entry that they can have
        bounds, (frequencies, intercept) = self._bounds(), self._draw()
        if self.bounds is None:
            units = scaled(X, bounds)
        else:  # clipped again, since scaling rounds
            units = np.clip(scaled(np.clip(X, *bounds), bounds), -1.0, 1.0)
        rows = lift(units, frequencies, intercept)
        norm, entry = largest(frequencies, intercept)
        if self.bounds is None and not len(frequencies):  # without bounds, they are as the rows are
            norm, entry = float(np.linalg.norm(rows, axis=1).max()), float(np.abs(rows).max())

        # The weights; by default, the tolerance adds a ten-thousandth to how far a row moves them
        box, size = float(self.C) / len(rows), rows.shape[1]
        tol = 0.5 * (1e-4 * max(norm, EPS) * box) ** 2 if self.tol is None else float(self.tol)
        weights = [minimize_hinge(s[:, None] * rows, box, tol, int(self.max_iter)) for s in signs]

        # The noise: K releases together are as one of K times the sensitivity if they are pure, of
        # √K times if what they cost adds up in squares
        sensitivity = mechanism.sensitivity(tight_sensitivity(box=box, norm=norm, tol=tol), size)
        joint_sensitivity = sensitivity * (sqrt(count) if budget[1] else count)
        scale = mechanism.scale(joint_sensitivity, budget)
        if accountant is not None:
            accountant.spend(*cost)
        if self.insecure_noise_seed is None:
            noised = [mechanism.release(w, scale, joint_sensitivity, budget) for w in weights]
            released = np.stack(noised)
        else:
            law = mechanism.law(scale, size)
            released = weights + law.draw(count, int(self.insecure_noise_seed))

        self.coef_ = released[0] if count == 1 else released
        self.scale_, self.sensitivity_, self.tol_ = scale, sensitivity, tol
        self.classes_, self.mechanism_ = classes, self.mechanism
        self.norm_bound_, self.entry_bound_, self.bounds_ = norm, entry, bounds
        self.frequencies_, self.intercept_scaling_ = frequencies, intercept
        self.private_ = private
        self.epsilon_spent_, self.delta_spent_, self.rho_spent_ = cost
        return self

    def features(self, X: Any) -> FloatArray:
        """Return φ(x), shape (n, F), of which scores are linear functions; x is not clipped."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        return lift(scaled(X, self.bounds_), self.frequencies_, self.intercept_scaling_)

    def decision_function(self, X: Any) -> FloatArray:
        """Return φ(x)ᵀw̃ in score units, shape (n,), or (n, K) of K > 2 classes."""
        return self.features(X) @ self.coef_.T

    def predict(self, X: Any) -> NDArray[Any]:
        """Return labels (n,): of two, the second from a score of 0 on; of more, the largest's."""
        scores = self.decision_function(X)
        best = scores.argmax(axis=1) if scores.ndim == 2 else (scores >= 0.0).astype(np.intp)
        return np.asarray(self.classes_[best])

    @property
    def noise_(self) -> NoiseLaw:
        """The law of w̃ − w, which is public; of more than two classes, that of each."""
        check_is_fitted(self)
        return MECHANISMS[self.mechanism_].law(self.scale_, self.coef_.shape[-1])

    def error_bound(self, delta: float) -> float:
        """Bound the error of the scores of all rows within the bounds, with a chance of 1 − δ.

        The smallest e, in score units, for which the model is (e, δ)-useful (11):
        ``|φ(x)ᵀw̃ − φ(x)ᵀw*| ≤ e`` for all x and all classes at once; δ is above 0 and below 1.
        """
        check_is_fitted(self)
        if not 0.0 < delta < 1.0:
            raise InvalidInput(
                f"Expected delta to be above 0 and below 1; got {delta!r}: pass 0.05, say."
            )
        if self.coef_.ndim == 2:  # so that all classes hold at once, each gets its part of δ
            delta = delta / len(self.coef_)
        mechanism, size = MECHANISMS[self.mechanism_], self.coef_.shape[-1]
        norm, entry = self.norm_bound_, self.entry_bound_
        noise_error = mechanism.reach(self.scale_, size, delta, norm, entry)
        # The objective is strongly convex: weights are at most √(2 tol) from the best ones.
        return noise_error + norm * sqrt(2.0 * self.tol_)

    def is_useful(self, error: float, delta: float) -> bool:
        """Return whether the model is (error, δ)-useful (11), see `error_bound`."""
        return self.error_bound(delta) <= error

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text: str = super().__repr__(N_CHAR_MAX)
        flaws = self._flaws()
        if not flaws and not getattr(self, "private_", True):
            flaws = ["fitted otherwise than its parameters say"]
        return f"{text} [not private: {', '.join(flaws)}]" if flaws else text

    def _flaws(self) -> list[str]:
        """Return the parameters that are set so that a fit is not private."""
        flaws = ["trust_data=True"] if self.trust_data else []
        seeded = self.insecure_noise_seed is not None
        return [*flaws, f"insecure_noise_seed={self.insecure_noise_seed}"] if seeded else flaws

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.insecure_noise_seed is None
        return tags

    def _check_together(self, refused: dict[str, Any]) -> None:
        """Raise if parameters contradict each other, or public ones are missing."""
        if refused.pop("sample_weight", None) is not None:
            raise InvalidInput(
                "PrivateSVC takes no sample_weight: how far one row can move the weights is "
                "proved for rows that count alike. Leave it out."
            )
        if any(value is not None for value in refused.values()):
            raise InvalidInput(f"PrivateSVC is fitted to X and y alone; got {some(refused)}.")
        if self.feature_map == "fourier" and self.n_components % 2:
            raise InvalidInput(
                "PrivateSVC expects n_components to be even, for pairs of cosine and sine; got "
                f"{self.n_components!r}: pass one more, or one less."
            )
        if (self.mechanism == "gaussian") != (self.delta is not None):
            raise InvalidInput(
                "PrivateSVC expects delta with mechanism='gaussian', and without it otherwise; "
                f"got delta={self.delta!r} with mechanism={self.mechanism!r}: pass both, or "
                "neither."
            )
        for name, words in (
            ("bounds", "(low, high) for each column"),
            ("classes", "the labels that there are"),
        ):
            if getattr(self, name) is None and not self.trust_data:
                raise InvalidInput(
                    f"PrivateSVC expects {name}, {words}, from what is public; got None: to "
                    f"read them from the rows would give the rows away. Pass {name}=…, or "
                    "trust_data=True for a model that is not private."
                )

    def _warn(self, n: int) -> None:
        """Warn of pipeline steps that learn from rows without noise, and of too large a δ."""
        # a fit with flaws says already that it is not private
        learned = [] if self._flaws() else learned_before(self)
        if learned:
            warnings.warn(
                f"{some(learned, show=str)} before PrivateSVC in a pipeline is fitted to the rows, "
                "which the noise does not cover: the pipeline is not private. Leave the scaling to "
                "bounds=, or fit such a step to public rows and pass it as a FrozenEstimator.",
                PrivacyLeakWarning,
                stacklevel=3,
            )
        if self.delta is not None and self.delta * n >= 1.0:
            warnings.warn(
                f"delta={self.delta:g} is at least 1/n, n={n}: so much allows to publish a row as "
                "it is. Pass much less, such as 1/n².",
                PrivacyLeakWarning,
                stacklevel=3,
            )

    def _signs(self, y: NDArray[Any]) -> tuple[NDArray[Any], FloatArray]:
        """Return the classes (K,) and the signs of labels, (1, n) for two classes, else (K, n)."""
        if self.classes is None:
            check_classification_targets(y)
        classes = np.unique(y if self.classes is None else np.asarray(self.classes))
        if len(classes) < 2:
            raise InvalidInput(
                f"PrivateSVC expects at least two classes; got {len(classes)} class."
            )
        if not np.isin(y, classes).all():
            raise InvalidInput(
                f"Expected every label to be among classes={classes.tolist()}; got another: "
                "pass the classes that there are, or leave such rows out beforehand."
            )
        positive = classes[1:] if len(classes) == 2 else classes
        return classes, np.where(y == positive[:, None], 1.0, -1.0)

    def _bounds(self) -> FloatArray:
        """Return (2, d) low and high; without bounds −1 and 1, which leave rows as they are."""
        names = getattr(self, "feature_names_in_", None)
        bounds = (-1.0, 1.0) if self.bounds is None else self.bounds
        return read_bounds(bounds, self.n_features_in_, None if names is None else list(names))

    def _draw(self) -> tuple[FloatArray, float]:
        """Return W, drawn with variance 2γ, and B, from public numbers alone: see `lift`."""
        d, fourier = self.n_features_in_, self.feature_map == "fourier"
        scaling = self.intercept_scaling
        intercept = float(scaling) if scaling is not None else 0.0 if fourier else 1.0
        if not fourier:
            return np.empty((0, d)), intercept
        gamma, random = self.gamma, check_random_state(self.random_state)
        drawn = random.standard_normal((int(self.n_components) // 2, d))
        return np.sqrt(2.0 * (1.0 / d if gamma is None else float(gamma))) * drawn, intercept
