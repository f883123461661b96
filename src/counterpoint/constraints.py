"""What a person can or may change, in feature names and feature units."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.encoding import encode
from counterpoint.errors import InvalidInput
from counterpoint.features import Categorical, Features
from counterpoint.frames import Table
from counterpoint.regions import Affine, AtMost, Box, Condition, Cone, Region, Transitions
from counterpoint.relations import parse_relation

__all__ = [
    "Bounds",
    "Constraint",
    "Ellipsoid",
    "Immutable",
    "Linear",
    "MaxChanges",
    "Monotone",
    "WithinObserved",
]

FloatArray = NDArray[np.float64]


class Constraint(ABC):
    """A demand on the counterfactual that comes from the person's side, not from the model.

    Its ``str`` says it in words, for people who do not read code.
    """

    @abstractmethod
    def region(self, features: Features) -> Region:
        """The points that meet it, in the encoded space.

        Raises
        ------
        InvalidInput
            If it names an unknown feature or does not fit the feature's kind.
        """


@final
@dataclass(frozen=True, init=False)
class Immutable(Constraint):
    """These features keep their values.

    Parameters
    ----------
    *features
        Names.

    Examples
    --------
    >>> import counterpoint as cp
    >>> cp.Immutable("age", "gender")
    Immutable(features=('age', 'gender'))
    """

    features: tuple[Hashable, ...]

    def __init__(self, *features: Hashable) -> None:
        if not features:
            raise InvalidInput("Expected the name of at least one feature for Immutable; got none.")
        object.__setattr__(self, "features", features)

    def __str__(self) -> str:
        return f"{_named(self.features)} {'is' if len(self.features) == 1 else 'are'} immutable"

    def region(self, features: Features) -> Region:
        box = Box.unbounded(features.width)
        conditions: list[Condition] = [box]
        for name in self.features:
            block = features.columns(name)
            feature = features[name]
            if isinstance(feature, Categorical):
                conditions.append(Transitions(block, np.eye(len(feature.categories), dtype=bool)))
            else:
                box.least[block] = 0.0
                box.most[block] = 0.0
        return Region(tuple(conditions))


@final
@dataclass(frozen=True)
class Bounds(Constraint):
    """A feature stays between two values, and may rise and fall by so much only.

    Parameters
    ----------
    feature
        A name; a categorical feature must have numbers for categories.
    low, high
        Smallest and largest value, in feature units.
    fall, rise
        The largest decrease and the largest increase from the factual value, in feature units.
    """

    feature: Hashable
    low: float = -np.inf
    high: float = np.inf
    fall: float = np.inf
    rise: float = np.inf

    def __post_init__(self) -> None:
        values = (self.low, self.high, self.fall, self.rise)
        if np.isnan(values).any() or self.low > self.high or min(self.fall, self.rise) < 0:
            raise InvalidInput(
                f"Expected low <= high, fall >= 0 and rise >= 0 for {self.feature!r}; got "
                f"low={self.low!r}, high={self.high!r}, fall={self.fall!r}, rise={self.rise!r}."
            )

    def __str__(self) -> str:
        said = [_between(self.low, self.high)] if np.isfinite((self.low, self.high)).any() else []
        said += [f"falls by at most {self.fall:g}"] if np.isfinite(self.fall) else []
        said += [f"rises by at most {self.rise:g}"] if np.isfinite(self.rise) else []
        return f"{self.feature} {' and '.join(said) or 'has no bound'}"

    def region(self, features: Features) -> Region:
        feature = features[self.feature]
        if isinstance(feature, Categorical):
            values = _numbers(feature, "Bounds")
            change = values[None, :] - values[:, None]
            allowed = (values >= self.low) & (values <= self.high)
            allowed = allowed[None, :] & (change >= -self.fall) & (change <= self.rise)
            return Region((Transitions(features.columns(self.feature), allowed),))
        box = Box.unbounded(features.width)
        at = features.columns(self.feature).start
        box.low[at], box.high[at] = self.low, self.high
        box.least[at], box.most[at] = -self.fall, self.rise
        return Region((box,))


@final
@dataclass(frozen=True)
class Monotone(Constraint):
    """A feature only rises, or only falls.

    Parameters
    ----------
    feature
        A name; a categorical feature must be ordered or have numbers for categories.
    direction
        "increasing" or "decreasing".
    """

    feature: Hashable
    direction: str

    def __post_init__(self) -> None:
        if self.direction not in ("increasing", "decreasing"):
            raise InvalidInput(
                f"Expected the direction 'increasing' or 'decreasing' for {self.feature!r}; "
                f"got {self.direction!r}."
            )

    def __str__(self) -> str:
        return f"{self.feature} only {'rises' if self.direction == 'increasing' else 'falls'}"

    def region(self, features: Features) -> Region:
        rising = self.direction == "increasing"
        feature = features[self.feature]
        block = features.columns(self.feature)
        if isinstance(feature, Categorical):
            rank = _ranks(feature)
            step = rank[None, :] - rank[:, None]
            stays = np.eye(len(rank), dtype=bool)
            return Region((Transitions(block, stays | (step >= 0 if rising else step <= 0)),))
        box = Box.unbounded(features.width)
        (box.least if rising else box.most)[block] = 0.0
        return Region((box,))


@final
@dataclass(frozen=True)
class Linear(Constraint):
    """low <= Σ coefficient · feature <= high.

    Parameters
    ----------
    coefficients
        Name → coefficient; a categorical feature must have numbers for categories.
    low, high
        Bounds on the sum; one of them may be left out; equal bounds make an equation.

    Examples
    --------
    >>> import counterpoint as cp
    >>> cp.Linear.parse("2ndFlr <= 1stFlr")
    Linear(coefficients={'2ndFlr': 1.0, '1stFlr': -1.0}, low=-inf, high=0.0)
    """

    coefficients: Mapping[Hashable, float]
    low: float = -np.inf
    high: float = np.inf

    def __post_init__(self) -> None:
        values = list(self.coefficients.values())
        if not values or not np.isfinite(values).all() or not any(values):
            raise InvalidInput(
                "Expected finite coefficients, not all 0, for Linear; "
                f"got {dict(self.coefficients)!r}."
            )
        if np.isnan(self.low) or np.isnan(self.high) or self.low > self.high:
            raise InvalidInput(
                f"Expected low <= high for Linear; got low={self.low!r}, high={self.high!r}."
            )
        if np.isinf(self.low) and np.isinf(self.high):
            raise InvalidInput("Expected low, high or both for Linear; got neither.")

    def __str__(self) -> str:
        terms = [_signed(name, value) for name, value in self.coefficients.items() if value]
        total = " ".join(terms).removeprefix("+ ")
        return f"{total} {_between(self.low, self.high)}"

    @classmethod
    def parse(cls, text: str) -> Linear:
        """Read a relation such as ``"2ndFlr <= 1stFlr"`` or ``"2 * a + b >= 3"``.

        Names may hold spaces and digits; ``+`` and ``-`` between terms stand between spaces; a
        name in backticks is taken as it is.

        Raises
        ------
        InvalidInput
            If it is no such relation.
        """
        return cls(*parse_relation(text))

    def region(self, features: Features) -> Region:
        row = np.zeros(features.width)
        for name, coefficient in self.coefficients.items():
            feature = features[name]
            values = _numbers(feature, "Linear") if isinstance(feature, Categorical) else 1.0
            row[features.columns(name)] += coefficient * values
        return Region((Affine(row[None, :], np.array([self.low]), np.array([self.high])),))


@final
@dataclass(frozen=True)
class Ellipsoid(Constraint):
    """(y − center)ᵀ matrix (y − center) <= radius² over some numeric features.

    Parameters
    ----------
    center
        Name → value, in feature units; its order is the order of the matrix.
    matrix
        (q, q) symmetric positive definite.
    radius
        A positive number.
    """

    center: Mapping[Hashable, float]
    matrix: ArrayLike
    radius: float = 1.0

    def __post_init__(self) -> None:
        q = len(self.center)
        matrix = np.asarray(self.matrix, dtype=np.float64)
        if matrix.shape != (q, q) or q == 0:
            raise InvalidInput(
                f"Expected an ellipsoid matrix of shape {(q, q)}, one row for each feature of the "
                f"center; got shape {matrix.shape}."
            )
        if not (np.isfinite(self.radius) and self.radius > 0):
            raise InvalidInput(f"Expected a positive radius; got {self.radius!r}.")
        if not np.isfinite(list(self.center.values())).all():
            raise InvalidInput(f"Expected a finite center; got {dict(self.center)!r}.")
        self._root()

    def __str__(self) -> str:
        near = ", ".join(f"{name} = {value:g}" for name, value in self.center.items())
        return f"{_named(tuple(self.center))} stay within an ellipsoid around {near}"

    @classmethod
    def from_data(
        cls, data: object, features: Sequence[Hashable], *, coverage: float = 0.95
    ) -> Ellipsoid:
        """The ellipsoid of a normal distribution fitted to some numeric columns of the data.

        Parameters
        ----------
        data
            A data frame or array.
        features
            Names of numeric columns.
        coverage
            The probability inside, between 0 and 1.

        References
        ----------
        Artelt & Hammer (2020), Convex density constraints for computing plausible counterfactual
        explanations, ICANN.
        """
        from scipy.special import chdtri

        if not 0 < coverage < 1:
            raise InvalidInput(f"Expected a coverage between 0 and 1; got {coverage!r}.")
        table = Table.read(data).select(features)
        encoded = encode(table, Features.from_data(table))
        codes = np.delete(encoded.codes, list(encoded.problems), axis=0)
        covariance = np.atleast_2d(np.cov(codes, rowvar=False))
        center = dict(zip(features, codes.mean(axis=0).tolist(), strict=True))
        try:
            matrix = np.linalg.inv(covariance)
        except np.linalg.LinAlgError:
            raise InvalidInput(
                f"The columns {list(features)!r} are linearly dependent; leave one out."
            ) from None
        radius = float(np.sqrt(chdtri(len(features), 1.0 - coverage)))
        return cls(center, (matrix + matrix.T) / 2.0, radius)

    def _root(self) -> FloatArray:
        matrix = np.asarray(self.matrix, dtype=np.float64)
        scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
        symmetric = np.allclose(matrix, matrix.T, rtol=1e-9, atol=0)
        if symmetric and (scale > 0).all():
            try:
                return np.asarray(np.linalg.cholesky(matrix / np.outer(scale, scale)).T * scale)
            except np.linalg.LinAlgError:
                pass
        raise InvalidInput(
            "Expected a symmetric positive definite ellipsoid matrix; got one that is not."
        )

    def region(self, features: Features) -> Region:
        root = self._root()
        matrix = np.zeros((len(root), features.width))
        for j, name in enumerate(self.center):
            if isinstance(features[name], Categorical):
                raise InvalidInput(f"Ellipsoid takes numeric features; {name!r} is categorical.")
            matrix[:, features.columns(name).start] = root[:, j]
        center = np.array(list(self.center.values()), dtype=np.float64)
        return Region((Cone(matrix, -root @ center, float(self.radius)),))


@final
@dataclass(frozen=True)
class MaxChanges(Constraint):
    """At most so many features differ from the factual row.

    Parameters
    ----------
    count
        A whole number of at least 1.
    """

    count: int

    def __post_init__(self) -> None:
        if int(self.count) != self.count or self.count < 1:
            raise InvalidInput(f"Expected a count of at least 1; got {self.count!r}.")

    def __str__(self) -> str:
        return f"at most {self.count} feature{'s' if self.count > 1 else ''} may change"

    def region(self, features: Features) -> Region:
        return Region((AtMost(int(self.count), features.blocks),))


@final
@dataclass(frozen=True, init=False)
class WithinObserved(Constraint):
    """Features stay within what the data showed: between its extremes, or among its categories.

    Parameters
    ----------
    *features
        Names; none for all features.
    """

    features: tuple[Hashable, ...]

    def __init__(self, *features: Hashable) -> None:
        object.__setattr__(self, "features", features)

    def __str__(self) -> str:
        names = _named(self.features) if self.features else "every feature"
        verb = "stays" if len(self.features) < 2 else "stay"
        return f"{names} {verb} within what the data showed"

    def region(self, features: Features) -> Region:
        box = Box.unbounded(features.width)
        conditions: list[Condition] = [box]
        for name in self.features or features.names:
            feature = features[name]
            if feature.observed is None:
                raise InvalidInput(
                    f"WithinObserved needs data for {name!r}; pass data= to the Explainer, or say "
                    "the range with Bounds."
                )
            block = features.columns(name)
            if isinstance(feature, Categorical):
                seen = np.isin(np.arange(len(feature.categories)), _positions(feature))
                allowed = np.tile(seen | feature.is_stand_in, (len(seen), 1))
                conditions.append(Transitions(block, allowed))
            else:
                box.low[block], box.high[block] = feature.observed
        return Region(tuple(conditions))


def _named(names: Sequence[Hashable]) -> str:
    *most, last = map(str, names)
    return f"{', '.join(most)} and {last}" if most else last


def _between(low: float, high: float) -> str:
    if low == high:
        return f"is {low:g}"
    if np.isinf(low):
        return f"is at most {high:g}"
    return f"is at least {low:g}" if np.isinf(high) else f"is between {low:g} and {high:g}"


def _signed(name: Hashable, value: float) -> str:
    size = "" if abs(value) == 1 else f"{abs(value):g} × "
    return f"{'-' if value < 0 else '+'} {size}{name}"


def _positions(feature: Categorical) -> list[int]:
    return [feature.categories.index(category) for category in feature.observed or ()]


def _numbers(feature: Categorical, what: str) -> FloatArray:
    numbers = feature.numbers
    if numbers is None:
        raise InvalidInput(
            f"{what} needs numbers; the categories of {feature.name!r} are "
            f"{list(feature.categories[:5])!r}. Use Immutable, or Monotone with ordered categories."
        )
    return numbers


def _ranks(feature: Categorical) -> FloatArray:
    if feature.numbers is not None:
        return feature.numbers
    if feature.ordered:
        rank = np.arange(len(feature.categories), dtype=np.float64)
        return np.where(feature.is_stand_in, np.nan, rank)  # what is missing has no place in it
    raise InvalidInput(
        f"Monotone needs an order; the categories of {feature.name!r} have none. Describe it with "
        "Categorical(…, ordered=True), or give the column an ordered categorical dtype."
    )
