"""Holds explanations from sparse to dense, `TranslationPath`, and chooses one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final, get_args

import numpy as np

from counterpoint.errors import InvalidInput, position_of
from counterpoint.groups.fitting import Fit
from counterpoint.groups.translations import Translations
from counterpoint.numerics import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Count = Literal["each", "mean", "shared", "reference"]


@final
@dataclass(frozen=True, eq=False)
class Candidate:
    """An explanation that may be chosen, with its mean rates over pairs, on rows of the fit."""

    translations: Translations
    offsets: FloatArray  # (l, d) the same in units of the standard deviations
    loss: float  # that of equation (9), without the penalty
    correctness: float
    coverage: float

    @property
    def score(self) -> float:
        """The sum of its two rates, by which explanations are chosen."""
        return self.correctness + self.coverage

    @property
    def rank(self) -> tuple[float, float]:
        """A key that puts the best first; of equals, that of the lowest loss."""
        return -self.score, self.loss


@final
@dataclass(frozen=True, eq=False)
class TranslationPath:
    """Explanations at falling strengths of the penalty, from sparse to dense.

    Its length is their number n; its items are `Translations`, refitted without penalty.

    Parameters
    ----------
    fits
        The penalised fits, in units of the standard deviations, with what proves them:
        ``residual``, 0 if stationary, and ``gap`` of a linear representation, both relative.
    penalized
        The same as translations.
    refitted
        (n,) the position in ``candidates`` of the explanation with the ties of each.
    candidates
        The explanations that may be chosen, refitted without penalty: with the ties of these fits,
        of those from other starts, and of pruned ones. They are chosen by their correctness and
        coverage on the rows of the fit, which flatter what they choose.
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
        i = position_of(i, len(self), of="fit")
        return self.candidates[self.refitted[i]].translations

    def counts(self, count: Count = "each") -> FloatArray:
        """Return how many features (n,) are changed.

        ``"each"``: by the pair that changes most; ``"mean"``: on average over pairs; ``"shared"``:
        by any pair; ``"reference"``: by the pair that changes most of those with the group for
        which that is least.
        """
        check_count(count)
        return np.array([count_of(item, count) for item in self])

    def at(self, k: int | None, count: Count = "each") -> Translations:
        """Return the best explanation of at most k features, by a way to count them (`counts`).

        The best is that of the highest correctness and coverage on the rows of the fit; of equals,
        that of the lowest loss. With k None it is the sparsest that is about as good as the best.
        """
        return self.able(k, count)[0].translations

    def able(self, k: int | None, count: Count = "each") -> list[Candidate]:
        """Return the candidates of at most k features, the best first."""
        check_count(count)
        widths = [count_of(candidate.translations, count) for candidate in self.candidates]
        with_width = list(zip(self.candidates, widths, strict=True))
        if k is None:  # that of the sparsest that is at most 0.02 worse in each of the two rates
            good = max(candidate.score for candidate in self.candidates) - 2.0 * 0.02
            most = min(width for candidate, width in with_width if candidate.score >= good)
        else:
            most = check_k(k, len(self.candidates[0].translations.names))
        able = [candidate for candidate, width in with_width if width <= most]
        return sorted(able, key=lambda candidate: candidate.rank)

    def to_frame(self) -> pd.DataFrame:
        """Return a line for each strength: counts, loss, residual, gap, correctness, coverage."""
        import pandas as pd

        refitted = [self.candidates[position] for position in self.refitted]

        def values(items: Sequence[Any], *names: str) -> dict[str, list[float]]:
            return {name: [getattr(item, name) for item in items] for name in names}

        columns: dict[str, Any] = {
            **values(self.fits, "strength"),
            **{count: self.counts(count) for count in get_args(Count)},
            **values(self.fits, "objective"),
            **values(refitted, "loss"),
            **values(self.fits, "residual", "gap"),
            **values(refitted, "correctness", "coverage"),
        }
        return pd.DataFrame(columns)

    def plot(self, count: Count = "each", ax: Any = None) -> Figure:
        """Draw correctness and coverage on the rows of the fit against the number of features.

        ``count`` is a way to count them (`counts`), ``ax`` are Matplotlib axes or None.
        """
        from counterpoint.pictures.plots import draw_translation_path

        return draw_translation_path(self, count, ax)

    def __repr__(self) -> str:
        most = int(self.counts().max(initial=0.0))
        return f"<TranslationPath: {len(self)} strengths, up to {most} features a pair>"


def count_of(translations: Translations, count: Count) -> float:
    """Return how many features an explanation changes, by a way to count."""
    if count == "shared":
        return float(len(translations.columns))
    counts = translations.counts
    if count == "reference":
        return float(counts.max(axis=1).min())
    pairs = counts[~np.eye(len(counts), dtype=bool)]
    return float(pairs.max() if count == "each" else pairs.mean())


def check_count(count: str) -> None:
    """Raise unless this is a way to count features."""
    if count not in get_args(Count):
        raise InvalidInput(
            f"Expected count to be one of {', '.join(map(repr, get_args(Count)))}; got {count!r}."
        )


def check_k(k: Any, width: int) -> int:
    """Return k if it is a whole number of features, 1 to ``width``."""
    whole = isinstance(k, int | np.integer) and not isinstance(k, bool)
    if not whole or not 1 <= k <= width:
        raise InvalidInput(
            f"Expected k to be a whole number of features, 1 to {width}; got {k!r}. Pass None to "
            "have it chosen."
        )
    return int(k)
