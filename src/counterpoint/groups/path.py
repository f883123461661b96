"""`TranslationPath`: explanations from sparse to dense, and the choice among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, final, get_args

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput
from counterpoint.groups.fitting import Fit
from counterpoint.groups.translations import Translations

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Candidate", "Count", "TranslationPath", "check_count", "check_k", "count_of"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Count = Literal["each", "mean", "shared"]

SLACK = 0.02
"""How much worse than the best an explanation may be that is preferred because it is sparse."""


@final
@dataclass(frozen=True, eq=False)
class Candidate:
    """An explanation that may be chosen.

    Parameters
    ----------
    translations
        Those with the ties of some fit, refitted without penalty.
    offsets
        (l, d) the same in units of the standard deviations.
    loss
        Their loss.
    correctness, coverage
        The means over pairs, on the rows of the fit.
    """

    translations: Translations
    offsets: FloatArray
    loss: float
    correctness: float
    coverage: float


@final
@dataclass(frozen=True, eq=False)
class TranslationPath:
    """Explanations at falling strengths of the penalty, from sparse to dense.

    Parameters
    ----------
    fits
        The penalised fits, in units of the standard deviations, with what proves them.
    penalized
        The same as translations.
    refitted
        (n,) which candidate has the ties of each.
    candidates
        What may be chosen: explanations with the ties of these fits, of those from other starts,
        and of pruned ones, refitted without penalty. Their correctness and coverage on the rows
        of the fit are what choices are made by; they flatter what they choose.
    """

    fits: tuple[Fit, ...]
    penalized: tuple[Translations, ...]
    refitted: IntArray
    candidates: tuple[Candidate, ...]

    def __len__(self) -> int:
        return len(self.fits)

    def __iter__(self) -> Iterator[Translations]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Translations:
        return self.candidates[self.refitted[i]].translations

    @cached_property
    def strengths(self) -> FloatArray:
        """(n,) λ, falling."""
        return np.array([one.strength for one in self.fits])

    @cached_property
    def objective(self) -> FloatArray:
        """(n,) loss plus penalty of the penalised fits."""
        return np.array([one.objective for one in self.fits])

    @cached_property
    def residual(self) -> FloatArray:
        """(n,) how far the penalised fits are from being stationary, relative; see `Fit`."""
        return np.array([one.residual for one in self.fits])

    @cached_property
    def gap(self) -> FloatArray:
        """(n,) of a linear representation, the relative duality gap; NaN of others."""
        return np.array([one.gap for one in self.fits])

    @cached_property
    def loss(self) -> FloatArray:
        """(n,) of the refitted translations."""
        return np.array([self.candidates[at].loss for at in self.refitted])

    def counts(self, count: Count = "each") -> FloatArray:
        """(n,) how many features are changed.

        Parameters
        ----------
        count
            ``"each"``: by the pair that changes most; ``"mean"``: on average over pairs;
            ``"shared"``: by any pair.
        """
        check_count(count)
        return np.array([count_of(one, count) for one in self])

    def at(self, k: int | None, count: Count = "each") -> Translations:
        """The best explanation of at most k features.

        The best is that of the highest correctness and coverage on the rows of the fit; of equals,
        that of the lowest loss.

        Parameters
        ----------
        k
            How many features may change; None for the sparsest that is about as good as the best.
        count
            By which count: see `counts`.

        Raises
        ------
        InvalidInput
            If k is no number of features.
        """
        return self.choose(k, count).translations

    def choose(self, k: int | None, count: Count = "each") -> Candidate:
        """The candidate that `at` answers with."""
        check_count(count)
        of = [(one, count_of(one.translations, count)) for one in self.candidates]
        if k is None:
            best = max(one.correctness + one.coverage for one in self.candidates)
            able = [
                (n, -one.correctness - one.coverage, one.loss, one)
                for one, n in of
                if one.correctness + one.coverage >= best - 2.0 * SLACK
            ]
            return min(able, key=lambda it: it[:3])[-1]
        check_k(k, len(self.candidates[0].translations.names))
        within = [(-one.correctness - one.coverage, one.loss, one) for one, n in of if n <= k]
        return min(within, key=lambda it: it[:2])[-1]

    def to_frame(self) -> pd.DataFrame:
        """One line for each strength: counts, loss, residual, gap, correctness, coverage."""
        import pandas as pd

        chosen = [self.candidates[at] for at in self.refitted]
        columns: dict[str, Any] = {"strength": self.strengths}
        columns |= {count: self.counts(count) for count in get_args(Count)}
        columns |= {"objective": self.objective, "loss": self.loss}
        columns |= {"residual": self.residual, "gap": self.gap}
        columns |= {"correctness": [one.correctness for one in chosen]}
        columns |= {"coverage": [one.coverage for one in chosen]}
        return pd.DataFrame(columns)

    def plot(self, count: Count = "each", ax: Any = None) -> Figure:
        """Correctness and coverage on the rows of the fit against the number of features.

        Parameters
        ----------
        count
            By which count: see `counts`.
        ax
            Matplotlib axes; None for a new figure.

        Raises
        ------
        MissingExtra
            If matplotlib is not installed.
        """
        from counterpoint.groups.pictures import draw_path

        return draw_path(self, count, ax)

    def __repr__(self) -> str:
        dense = int(self.counts().max(initial=0.0))
        return f"<TranslationPath: {len(self)} strengths, up to {dense} features a pair>"


def count_of(translations: Translations, count: Count) -> float:
    """How many features an explanation changes, by a count."""
    if count == "shared":
        return float(len(translations.columns))
    pairs = translations.counts[~np.eye(len(translations.groups), dtype=bool)]
    return float(pairs.max() if count == "each" else pairs.mean())


def check_count(count: str) -> None:
    """Hold a count against those that there are.

    Raises
    ------
    InvalidInput
        If it is none of them.
    """
    if count not in get_args(Count):
        raise InvalidInput(
            f"Expected count to be one of {', '.join(map(repr, get_args(Count)))}; got {count!r}."
        )


def check_k(k: Any, width: int) -> None:
    """Hold a number of features against how many there are.

    Raises
    ------
    InvalidInput
        If it is none.
    """
    whole = isinstance(k, int | np.integer) and not isinstance(k, bool)
    if not whole or not 1 <= k <= width:
        raise InvalidInput(
            f"Expected k to be a whole number of features, 1 to {width}; got {k!r}. Pass None to "
            "have it chosen."
        )
