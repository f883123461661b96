"""Constrain several numbers, or their changes, together: linear relations and ellipsoids."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.errors import (
    InvalidInput,
    check_interval,
    check_name,
    check_number,
    check_numbers,
    floats,
    listed,
    shown,
)
from counterpoint.numerics import FloatArray
from counterpoint.problem.constraints.features import Constraint, between, named, numbers
from counterpoint.programs.conditions import ChangeBounds, Cone, LinearBounds
from counterpoint.programs.region import Region
from counterpoint.rows.features import Categorical, Features, unknown_name
from counterpoint.rows.table import Table


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
        check_numbers("coefficients", self.coefficients)
        values = list(self.coefficients.values())
        if not values or not np.isfinite(values).all() or not any(values):
            raise InvalidInput(
                "Expected finite coefficients, not all 0, for Linear; "
                f"got {dict(self.coefficients)!r}."
            )
        check_interval(self.low, self.high, " for Linear")

    def __str__(self) -> str:
        terms = [_signed(name, value) for name, value in self.coefficients.items() if value]
        total = " ".join(terms).removeprefix("+ ")
        return f"{total} {between(self.low, self.high)}"

    @classmethod
    def parse(cls, text: str) -> Linear:
        """Read a relation such as ``"2ndFlr <= 1stFlr"`` or ``"2 * a + b >= 3"``.

        Names may hold spaces and digits; ``+`` and ``-`` between terms stand between spaces; a
        name in backticks is taken as it is.
        """
        if not isinstance(text, str):
            raise InvalidInput(f"Expected a relation such as 'a + 2 * b <= 3'; got {shown(text)}.")
        return cls(*_parsed(text))

    def region(self, features: Features) -> Region:
        row = np.zeros(features.width)
        for name, coefficient in self.coefficients.items():
            feature = features[name]
            values = numbers(feature, "Linear") if isinstance(feature, Categorical) else 1.0
            row[features.columns(name)] += coefficient * values
        return Region((LinearBounds(row[None, :], np.array([self.low]), np.array([self.high])),))


@final
@dataclass(frozen=True)
class SameChange(Constraint):
    """Two numbers change by the same amount: y_first − x_first = y_second − x_second.

    For linear, additive and tree models, and nearest prototypes of one metric.

    Parameters
    ----------
    first, second
        Names of numeric features.

    Examples
    --------
    >>> import counterpoint as cp
    >>> print(cp.SameChange("age", "years as a customer"))
    age and years as a customer change by the same amount
    """

    first: Hashable
    second: Hashable

    def __post_init__(self) -> None:
        _check_pair("SameChange", self.first, self.second)

    def __str__(self) -> str:
        return f"{self.first} and {self.second} change by the same amount"

    def region(self, features: Features) -> Region:
        return _balance("SameChange", features, {self.first: 1.0, self.second: -1.0})


@final
@dataclass(frozen=True)
class OppositeChange(Constraint):
    """Two numbers change by opposite amounts: y_first − x_first = −(y_second − x_second).

    For linear, additive and tree models, and nearest prototypes of one metric.

    Parameters
    ----------
    first, second
        Names of numeric features.

    Examples
    --------
    >>> import counterpoint as cp
    >>> print(cp.OppositeChange("hours of work", "hours of sleep"))
    hours of work and hours of sleep change by opposite amounts
    """

    first: Hashable
    second: Hashable

    def __post_init__(self) -> None:
        _check_pair("OppositeChange", self.first, self.second)

    def __str__(self) -> str:
        return f"{self.first} and {self.second} change by opposite amounts"

    def region(self, features: Features) -> Region:
        return _balance("OppositeChange", features, {self.first: 1.0, self.second: 1.0})


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
        check_numbers("the center", self.center)
        check_number("the radius", self.radius)
        q = len(self.center)
        matrix = floats("the ellipsoid matrix", self.matrix, tuple(self.center))
        if matrix.shape != (q, q) or q == 0:
            raise InvalidInput(
                f"Expected an ellipsoid matrix of shape {(q, q)}, one row for each feature of the "
                f"center; got shape {matrix.shape}."
            )
        if not (np.isfinite(self.radius) and self.radius > 0):
            raise InvalidInput(f"Expected a positive radius; got {shown(self.radius)}.")
        if not np.isfinite(list(self.center.values())).all():
            raise InvalidInput(f"Expected a finite center; got {dict(self.center)!r}.")
        self._root()  # raises if the matrix is not positive definite

    def __str__(self) -> str:
        near = ", ".join(f"{name} = {value:g}" for name, value in self.center.items())
        return f"{named(tuple(self.center))} stay within an ellipsoid around {near}"

    @classmethod
    def from_data(
        cls, data: object, features: Sequence[Hashable], *, coverage: float = 0.95
    ) -> Ellipsoid:
        """Fit the ellipsoid of a normal distribution to some numeric columns of the data.

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

        from counterpoint.rows.encoding import present

        check_number("coverage", coverage)
        if not 0 < coverage < 1:
            raise InvalidInput(f"Expected a coverage between 0 and 1; got {shown(coverage)}.")
        table = Table.read(data)
        for name in listed("the features of an ellipsoid", features):
            check_name("Ellipsoid", name)
            if name not in table.names:
                raise InvalidInput(unknown_name(name, table.names))
        table = table.select(features)
        kinds = Features.from_data(table)
        for name in kinds.names:
            _column_of(kinds, name, "Ellipsoid")
        codes = present(table, kinds)
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
        """Return R (q, q) with Rᵀ R = matrix: y is inside if |R (y − center)| <= radius.

        The matrix is scaled to ones on its diagonal first, so that features in very different units
        do not make Cholesky's method fail.
        """
        matrix = np.asarray(self.matrix, dtype=np.float64)
        scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
        symmetric = np.allclose(matrix, matrix.T, rtol=1e-9, atol=0)
        if symmetric and (scale > 0).all():
            with suppress(np.linalg.LinAlgError):
                return np.asarray(np.linalg.cholesky(matrix / np.outer(scale, scale)).T * scale)
        raise InvalidInput(
            "Expected a symmetric positive definite ellipsoid matrix; got one that is not."
        )

    def region(self, features: Features) -> Region:
        root = self._root()
        matrix = np.zeros((len(root), features.width))
        for j, name in enumerate(self.center):
            matrix[:, _column_of(features, name, "Ellipsoid")] = root[:, j]
        center = np.array(list(self.center.values()), dtype=np.float64)
        return Region((Cone(matrix, -root @ center, float(self.radius)),))


def _check_pair(constraint: str, first: Hashable, second: Hashable) -> None:
    """Refuse a pair of names that is not one of two different features."""
    check_name(constraint, first)
    check_name(constraint, second)
    if first == second:
        raise InvalidInput(
            f"Expected two different features for {constraint}; got {shown(first)} twice."
        )


def _balance(constraint: str, features: Features, weights: Mapping[Hashable, float]) -> Region:
    """Return the points y with Σ weight · (y − x) = 0 over some numbers."""
    row = np.zeros(features.width)
    for name, weight in weights.items():
        row[_column_of(features, name, constraint)] = weight
    return Region((ChangeBounds.equation(row),))


def _column_of(features: Features, name: Hashable, constraint: str) -> int:
    """Return the encoded column of a number; refuse a category, on behalf of a constraint."""
    if isinstance(features[name], Categorical):
        raise InvalidInput(f"{constraint} takes numeric features; {name!r} is categorical.")
    return int(features.columns(name).start)


def _signed(name: Hashable, value: float) -> str:
    size = "" if abs(value) == 1 else f"{abs(value):g} × "
    return f"{'-' if value < 0 else '+'} {size}{name}"


def _parsed(text: str) -> tuple[dict[Hashable, float], float, float]:
    """Return the coefficients of a relation in text, and the bounds low and high on their sum."""
    # A name in backticks may hold signs and spaces: its number stands for it while the text is cut.
    quoted, position = re.findall("`([^`]*)`", text), count()
    plain = re.sub("`[^`]*`", lambda _: f"`{next(position)}`", text)
    sides = re.split("(<=|>=|==)", plain)
    if len(sides) != 3:
        raise InvalidInput(
            f"Expected a relation with one of <=, >= and ==, such as 'a + 2 * b <= 3'; "
            f"got {text!r}."
        )
    coefficients: dict[Hashable, float] = {}
    bound = 0.0
    for side, sign in ((sides[0], 1.0), (sides[2], -1.0)):
        for number, name in _terms(side, text):
            if name is None:
                bound -= sign * number
            else:
                key = quoted[int(name[1:-1])] if re.fullmatch("`[0-9]+`", name) else name
                coefficients[key] = coefficients.get(key, 0.0) + sign * number
    low = -np.inf if sides[1] == "<=" else bound
    high = np.inf if sides[1] == ">=" else bound
    return coefficients, low, high


def _terms(side: str, text: str) -> Iterator[tuple[float, str | None]]:
    """Yield coefficient and name of each term of one side; the name of a constant is None."""
    sign, word = 1.0, ""
    # Signs stand between spaces, or a minus at the very beginning: names may hold others.
    words = re.split(r"(?:^|(?<=\s))([+-])(?=\s)|^(-)", f"{side.strip()} ")
    for word in filter(None, ((piece or "").strip() for piece in words)):
        if word in ("+", "-"):
            sign = -sign if word == "-" else sign
        else:
            number, name = _term(word, text)
            yield sign * number, name
            sign = 1.0
    if word in ("+", "-"):
        raise InvalidInput(f"Expected a term after {word!r}; got {text!r}.")


def _term(term: str, text: str) -> tuple[float, str | None]:
    """Return coefficient and name of ``2 * name``, ``name`` or a constant, without its sign."""
    try:
        return float(term), None
    except ValueError:
        decimal = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
        match = re.match(rf"^(?:(?P<number>{decimal})\s*\*\s*)?(?P<name>.+)$", term)
    if match is None or "*" in match["name"] or re.sub("`[0-9]+`", "", match["name"]).count("`"):
        raise InvalidInput(f"Cannot read the term {term!r} of {text!r}; write it as '2 * name'.")
    return float(match["number"] or 1.0), match["name"].strip()
