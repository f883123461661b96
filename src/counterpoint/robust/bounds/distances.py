"""How far the nearest point is at which a sum of waves is large enough: a lower bound, everywhere.

Above a sum of waves u lies a convex parabola that touches it at x (see
`counterpoint.robust.waves`):

    u(x + δ)  <=  u(x) + ∇u(x) · δ + ½ δᵀQ δ          for all δ.

Where the right side is below what is asked, so is u. Under a quadratic price δᵀP δ, for any ν >= 0
with 2 P − ν Q positive definite, weak duality gives

    price  >=  ν (asked − u(x)) − ½ ν² ∇u(x)ᵀ (2 P − ν Q)⁻¹ ∇u(x).

Under Σ w_j |δ_j| the parabola is largest over a ball at one of its corners, so the nearest point
moves one column alone. Bounds, whole steps and categories are not looked at. Where u is below what
is asked at all its crests, there is no point at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Bounding
from counterpoint.costs import Price
from counterpoint.engine.cases import Cases
from counterpoint.robust.bounds.fourier import WaveLeads
from counterpoint.robust.waves import WaveLimit

__all__ = ["DistanceBounds"]

FloatArray = NDArray[np.float64]

SURE = 1.0 - 1e-9
"""What a bound keeps, so that rounding does not lift it over the truth."""
STEPS = 60


@final
@dataclass(frozen=True, eq=False)
class DistanceBounds(Bounding):
    """What is proved of a piece with one `WaveLimit`.

    Parameters
    ----------
    price
        What a change costs.
    limit
        The condition.
    cases
        The rows; one with no room at all has no point.
    leads
        By how much more the score has to lead, which depends on the distance; None for nothing.
    """

    price: Price
    limit: WaveLimit
    cases: Cases
    leads: WaveLeads | None = None

    @property
    def is_local(self) -> bool:
        return True

    def bounds(
        self, reached: FloatArray, margin: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        return self._bounds, self._bounds

    @cached_property
    def _bounds(self) -> FloatArray:
        """(n,)."""
        return np.array([self._bound(i) for i in range(len(self.cases))])

    def _bound(self, i: int) -> float:
        if self.cases.empty[i]:
            return float("inf")
        parabola = Parabola.of(self.price, self.limit, self.cases, i)
        if self.leads is None:
            return parabola.least(0.0)
        leads = self.leads.take(np.array([i]))
        nearest = parabola.least(float(leads.segments[0]))
        radii, asked = leads.radii[0], leads.balls[0]
        v = 0
        while v < len(radii) and np.isfinite(asked[v]):
            cost = parabola.least(float(asked[v]))
            distance = float(leads.distance(np.array([cost]))[0])
            if distance <= radii[v]:
                inner = float(radii[v - 1]) if v else 0.0
                return min(nearest, max(cost, leads.cost(inner)))
            v = max(v + 1, int((radii < distance).sum()))
        return nearest


@final
@dataclass(frozen=True, eq=False)
class Parabola:
    """The parabola above a score about one row, in coordinates in which it is a sum of squares.

    Parameters
    ----------
    here, most, asked
        The score at the row, what it is at most anywhere, and what it has to be without a lead.
    slopes, bends
        (f,) its slopes and curvatures; under an absolute price those along the columns.
    absolute
        (f,) that price; None for a quadratic one, and zeros if nothing is known.
    """

    here: float
    most: float
    asked: float
    slopes: FloatArray
    bends: FloatArray
    absolute: FloatArray | None

    @classmethod
    def of(cls, price: Price, limit: WaveLimit, cases: Cases, i: int) -> Parabola:
        """That of one row."""
        score, x, low, high = limit.score, cases.x[i], cases.low[i], cases.high[i]
        size = float(score.sizes.sum()) + abs(score.constant)
        free = (low < high) | (low > x) | (high < x)
        off = 1e-12 * size + float(limit.waves.rounding(x[None], limit.weights)[0])
        about = float(score.value(x[None])[0]), score.most, limit.least_asked - off
        slope, form = score.slope(x[None])[0][free], score.above(x)[np.ix_(free, free)]
        absolute, quadratic = price.absolute[free], price.quadratic
        full = np.diag(quadratic[free]) if quadratic.ndim == 1 else quadratic[np.ix_(free, free)]
        if absolute.any() or not np.diag(full).all():
            known = absolute if not full.any() else np.zeros_like(absolute)
            return cls(*about, slope, np.diag(form), known)
        root = np.linalg.inv(np.linalg.cholesky(full))
        bends, towards = np.linalg.eigh(root @ form @ root.T)
        return cls(*about, towards.T @ (root @ slope), bends, None)

    def least(self, lead: float) -> float:
        """What any point costs at which the score leads by so much; infinite if there is none."""
        missing = self.asked + lead - self.here
        if self.asked + lead > self.most:
            return float("inf")
        if missing <= 0.0:
            return 0.0
        if not len(self.slopes):
            return float("inf")
        return SURE * (
            self._by_duality(missing) if self.absolute is None else self._at_corner(missing)
        )

    def _at_corner(self, missing: float) -> float:
        """The least cost t · price_j with |slope_j| t + ½ bend_j t² >= missing, over columns j."""
        assert self.absolute is not None  # noqa: S101 (asked by the caller)
        steep = np.abs(self.slopes)
        root = np.sqrt(steep * steep + 2.0 * np.maximum(self.bends, 0.0) * missing)
        with np.errstate(divide="ignore"):
            far = 2.0 * missing / (steep + root)
        return float(np.where(self.absolute > 0.0, far * self.absolute, 0.0).min())

    def _by_duality(self, missing: float) -> float:
        """The best of the bounds by weak duality, which are concave in ν."""
        squares, bends = self.slopes**2, self.bends
        low, high = 0.0, 2.0 / max(float(bends[-1]), 1e-300)
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            left = 2.0 - middle * bends
            rise = missing - 0.5 * (squares * middle * (4.0 - middle * bends) / left**2).sum()
            low, high = (middle, high) if rise > 0.0 else (low, middle)
        value = low * missing - 0.5 * low * low * (squares / (2.0 - low * bends)).sum()
        return max(float(value), 0.0)
