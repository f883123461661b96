"""What a change costs: Manhattan, squared Euclidean and Mahalanobis, in units of the raw columns.

A cost is said in feature names; `Cost.price` turns it into the one formula that programs know,

    price(δ) = Σ_j absolute_j |δ_j| + δᵀ quadratic δ        over the encoded columns,

in which a category that changes, two entries of a one-hot block that move by 1, costs its weight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.errors import InvalidInput, check_numbers, floats, shown
from counterpoint.numerics import EPS, FloatArray
from counterpoint.rows.encoding import present
from counterpoint.rows.features import Categorical, Features
from counterpoint.rows.table import Table

__all__ = ["Cost", "Mahalanobis", "Manhattan", "Price", "SquaredEuclidean", "mad_weights"]

Weights = Mapping[Hashable, float] | ArrayLike | None


@final
@dataclass(frozen=True, eq=False)
class Price:
    """Σ_j absolute_j |δ_j| + δᵀ quadratic δ over the encoded columns."""

    absolute: FloatArray  # (d,) non-negative; 0 where there is a quadratic price
    quadratic: FloatArray  # (d,) for a diagonal matrix >= 0, or (d, d) positive semidefinite

    def __post_init__(self) -> None:
        if (self.absolute * self.diagonal).any():
            raise InvalidInput(
                "Expected each column to have an absolute or a quadratic price; got both."
            )

    @cached_property
    def kind(self) -> type[Cost]:
        """The simplest cost with this structure; solvers list the kinds that they take."""
        if self.quadratic.ndim == 2:
            return Mahalanobis
        return SquaredEuclidean if self.quadratic.any() else Manhattan

    def __call__(self, delta: FloatArray) -> FloatArray:
        """(n, d) changes → (n,) costs."""
        cost = np.abs(delta) @ self.absolute if self.absolute.any() else np.zeros(len(delta))
        if self.quadratic.ndim == 2:
            return np.asarray(cost + np.einsum("ij,ij->i", delta @ self.quadratic, delta))
        if self.quadratic.any():
            return np.asarray(cost + np.einsum("ij,ij,j->i", delta, delta, self.quadratic))
        return np.asarray(cost)

    @cached_property
    def diagonal(self) -> FloatArray:
        """(d,) the quadratic price of each column alone."""
        return self.quadratic if self.quadratic.ndim == 1 else np.diag(self.quadratic)

    @cached_property
    def floor(self) -> FloatArray:
        """(d,) a diagonal D with D <= quadratic (as matrices), as large as one scaling allows.

        What is left, quadratic − D, is convex, so its tangents bound it from below while D keeps
        every column's minimum finite.
        """
        if self.quadratic.ndim == 1:
            return self.quadratic
        scale = np.sqrt(self.diagonal)
        used = scale > 0
        if not used.any():
            return np.zeros(len(scale))
        unit = self.quadratic[np.ix_(used, used)] / np.outer(scale[used], scale[used])
        # An eigenvalue is off by a small multiple of d · eps times the norm; and a share of it is
        # left to the rest, so that this is convex whatever else rounds.
        noise = 4.0 * len(unit) * EPS * float(np.linalg.norm(unit))
        smallest = max(float(np.linalg.eigvalsh(unit)[0]) - noise, 0.0)
        return np.where(used, 0.99 * smallest * scale**2, 0.0)

    @cached_property
    def above_floor(self) -> FloatArray:
        """(d, d): quadratic − diag(floor)."""
        return self.quadratic - np.diag(self.floor)


class Cost(ABC):
    """A convex price of a change, 0 for no change."""

    @abstractmethod
    def price(self, features: Features) -> Price:
        """The cost as a formula over the encoded columns.

        Raises
        ------
        InvalidInput
            If weights are missing, unknown, not finite or not positive.
        """


@final
@dataclass(frozen=True)
class Manhattan(Cost):
    """``Σ_j w_j |y_j − x_j|``; a category that changes costs w_j.

    Parameters
    ----------
    weights
        A mapping from names (the others weigh 1), a sequence in the order of the features, or None
        for all ones; in cost units for each feature unit.

    Examples
    --------
    >>> import counterpoint as cp
    >>> cp.Manhattan(weights={"age": 2.0})
    Manhattan(weights={'age': 2.0})
    """

    weights: Weights = None

    def price(self, features: Features) -> Price:
        weights = weight_vector(self.weights, features)
        return Price(_absolute(weights, features, numeric=True), np.zeros(features.width))


@final
@dataclass(frozen=True)
class SquaredEuclidean(Cost):
    """Σ_j w_j (y_j − x_j)²; a category that changes costs w_j.

    Parameters
    ----------
    weights
        A mapping from names (the others weigh 1), a sequence in the order of the features, or None
        for all ones; in cost units for each squared feature unit.
    """

    weights: Weights = None

    def price(self, features: Features) -> Price:
        weights = weight_vector(self.weights, features)
        quadratic = np.zeros(features.width)
        quadratic[features.numeric_columns] = weights[features.is_numeric]
        return Price(_absolute(weights, features, numeric=False), quadratic)


@final
@dataclass(frozen=True)
class Mahalanobis(Cost):
    """(y − x)ᵀ P (y − x) over the features; a category that changes counts as a difference of 1.

    Parameters
    ----------
    matrix
        (p, p) symmetric positive definite, rows and columns in the order of the features. The sign
        of a change of category has no meaning, so its row may hold a diagonal entry only.
    """

    matrix: ArrayLike

    def price(self, features: Features) -> Price:
        matrix = _checked_matrix(self.matrix, features)
        quadratic = np.zeros((features.width, features.width))
        numeric = features.numeric_columns
        chosen = features.is_numeric
        quadratic[np.ix_(numeric, numeric)] = matrix[np.ix_(chosen, chosen)]
        return Price(_absolute(np.diag(matrix), features, numeric=False), quadratic)


def mad_weights(data: object, features: Features | None = None) -> dict[Hashable, float]:
    """1 / median absolute deviation of each column, for `Manhattan`.

    A column whose MAD is 0 gets 1 / standard deviation; a constant column, 1; a category, 1, the
    price of one MAD.

    Parameters
    ----------
    data
        A data frame or array.
    features
        The kinds of its columns; None to infer them.

    Returns
    -------
    dict
        Name → weight, in cost units for each feature unit.

    References
    ----------
    Wachter, Mittelstadt & Russell (2018), Counterfactual explanations without opening the black
    box, Harvard Journal of Law & Technology 31.
    """
    return {name: 1.0 / spread for name, (spread, _) in spreads(data, features).items()}


def spreads(data: object, features: Features | None = None) -> dict[Hashable, tuple[float, str]]:
    """Name → spread of the column, and what it is: "MAD", "standard deviation", "none"."""
    table = Table.read(data)
    if features is not None and not isinstance(features, Features):
        raise InvalidInput(f"Expected Features or None; got {shown(features)}.")
    out: dict[Hashable, tuple[float, str]] = {}
    for feature in features or Features.from_data(table):
        out[feature.name] = 1.0, "none"
        if not isinstance(feature, Categorical):
            values = present(table.select([feature.name]), Features([feature]))[:, 0]
            out[feature.name] = _spread(values)
    return out


def _spread(values: FloatArray) -> tuple[float, str]:
    mad = float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0
    if mad > 0:
        return mad, "MAD"
    deviation = float(values.std()) if len(values) else 0.0
    return (deviation, "standard deviation") if deviation > 0 else (1.0, "none")


def ranges(features: Features) -> dict[Hashable, tuple[float, str]]:
    """Name → (largest − smallest value, "range") from what the features themselves say.

    That not every number says its range is an `InvalidInput`.
    """
    out: dict[Hashable, tuple[float, str]] = {}
    for feature in features:
        out[feature.name] = 1.0, "none"
        if isinstance(feature, Categorical):
            continue
        if feature.observed is None:
            raise InvalidInput(
                "Expected to know what a change costs; got neither a cost nor data, and the range "
                f"of {feature.name!r} is not known. Pass data= (--data), or a cost such as "
                "cp.Manhattan() ([cost] in a policy file), which weighs all features alike."
            )
        low, high = feature.observed
        if high > low:
            out[feature.name] = high - low, "range"
    return out


def weight_vector(weights: Weights, features: Features) -> FloatArray:
    """(p,) positive weights in the order of the features."""
    out = np.ones(len(features))
    if isinstance(weights, Mapping):
        check_numbers("the weight", weights)
        for name, weight in weights.items():
            out[features.index(name)] = weight
    elif weights is not None:
        given = floats("the weights", weights)
        if given.shape != out.shape:
            raise InvalidInput(
                f"Expected {len(features)} weights, one for each feature; got shape {given.shape}."
            )
        out = given
    for name, weight in zip(features.names, out.tolist(), strict=True):
        if not (np.isfinite(weight) and weight > 0):
            raise InvalidInput(
                f"Expected a positive finite weight for {name!r}; got {weight!r}. To forbid a "
                "change use Immutable; to make it cheap use a small weight."
            )
    return out


def _absolute(weights: FloatArray, features: Features, *, numeric: bool) -> FloatArray:
    """Category weights are shared by the two entries of a one-hot block that move."""
    sizes = [block.stop - block.start for block in features.blocks]
    shares = np.where(features.is_numeric, weights if numeric else 0.0, weights / 2.0)
    return np.repeat(shares, sizes)


def _checked_matrix(matrix: ArrayLike, features: Features) -> FloatArray:
    p = len(features)
    out = floats("the Mahalanobis matrix", matrix)
    if out.shape != (p, p):
        raise InvalidInput(f"Expected a Mahalanobis matrix of shape {(p, p)}; got {out.shape}.")
    if not np.isfinite(out).all() or not np.allclose(out, out.T, rtol=1e-9, atol=0):
        raise InvalidInput("Expected a finite symmetric Mahalanobis matrix; got one that is not.")
    crossed = (out - np.diag(np.diag(out)))[~features.is_numeric]
    if crossed.any():
        names = [f.name for f in features if isinstance(f, Categorical)]
        raise InvalidInput(
            f"Expected zeros off the diagonal for the categorical features {names!r}: a change of "
            "category has no sign."
        )
    out = (out + out.T) / 2.0
    scale = np.sqrt(np.maximum(np.diag(out), 0.0))
    # Scaled to ones on the diagonal, a matrix that is singular has an eigenvalue of rounding size.
    if not (scale > 0).all() or np.linalg.eigvalsh(out / np.outer(scale, scale))[0] < 1e-10:
        raise InvalidInput(
            "Expected a positive definite Mahalanobis matrix; got a singular or indefinite one. "
            "Add a small multiple of the identity, as in P + 1e-6 * np.eye(len(P))."
        )
    return out


def described(cost: Cost, spreads: dict[Hashable, tuple[float, str]]) -> list[str]:
    """The cost, and if it was taken from the data, what its units are."""
    if not spreads:
        return [repr(cost)]
    kinds = {kind for _, kind in spreads.values()}
    unit = "range" if "range" in kinds else "spread in the data"
    return [
        f"Manhattan, each change divided by the feature's {unit}; a category costs 1",
        *(
            f"{name}: median absolute deviation 0, so its standard deviation, {spread:.6g}"
            for name, (spread, kind) in spreads.items()
            if kind == "standard deviation"
        ),
    ]
