"""The estimators: sparse changes between groups, and the difference of means as a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain, product
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.errors import InvalidInput
from counterpoint.groups.explaining import GroupExplainer
from counterpoint.groups.fit_data import FitData, Limits, polished
from counterpoint.groups.fitting import FEW_FEATURES, Fit, at_zero, follow, pruned, refit, starred
from counterpoint.groups.path import (
    Candidate,
    Count,
    TranslationPath,
    check_count,
    check_k,
    count_of,
)
from counterpoint.groups.problem import tie_pattern
from counterpoint.groups.translations import Translations
from counterpoint.numerics import CLOSED, FloatArray
from counterpoint.rows.progress import track


@final
@dataclass(eq=False, repr=False)
class GroupTranslations(GroupExplainer):
    """Sparse changes from each group of points to each other, all consistent with each other.

    Groups are seen in a low-dimensional representation r. The change from group i to group j is
    δ = D_j − D_i, so that changes are opposite on the way back and add up over other groups. The
    offsets D have the least mean over i ≠ j of ``½‖r(x̄_i + δ) − r̄_j‖² + λ Σ_f c_f |δ_f|``: equation
    (9) of Plumb et al., with their constraint of consistency, but all pairs at once and solved
    exactly. Zeros are exact. A path of λ is followed; at each, offsets are refitted without the
    penalty, with the ties that they have; some are pruned, too, to change fewer features. For a
    linear representation each fit is a global optimum with a duality gap; for others it is a
    stationary point, the better of two.

    Parameters
    ----------
    representation
        A fitted transformer of scikit-learn or a pipeline of these, a torch module, or a
        `Representation`: see `represent`.
    k
        How many features may change; None for the sparsest explanation that is about as good as
        the best.
    count
        The features that k counts: of ``"each"`` pair, of pairs on average (``"mean"``), those that
        all pairs together change (``"shared"``), or those of each group and a reference group
        (``"reference"``), whichever is best; other pairs then change up to 2 k.
    limits
        The limits of changes; None for at most 1.5 times the range of the group means.
    costs
        c: d positive numbers, or a mapping or series of pandas from names; None for 1 over the
        standard deviation.
    radius
        ε in correctness and coverage; None for the paper's rule, that of the widest group: 95 % of
        each group are near another row of it; ``"each"`` for that of each group moved to, where
        their spreads differ.
    strengths
        How many λ, or the λ themselves, falling.
    polish
        Whether the offsets of an explanation are then moved, with its ties and within the limits,
        so that more of the rows themselves, and not only the means, arrive near the groups they
        are moved to: correctness and coverage, smoothed, at a price on changes.
    layer
        The name of the rows among ``layers`` or ``obsm`` of an AnnData; None for ``X``.

    Attributes
    ----------
    path_
        `TranslationPath`, from sparse to dense.
    translations_
        `Translations`, the explanation that is asked for.
    groups_
        The labels of the groups.
    radius_
        ε, or (l,) one for each group.
    scene_, task_
        The data of the fit, `FitData`, and the problem that is solved, `Objective`.
    n_features_in_, feature_names_in_
        The number of columns that rows have, and their names, if columns go by name.

    References
    ----------
    Plumb, Terhorst, Sankararaman & Talwalkar (2020), Explaining groups of points in low-dimensional
    representations.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from counterpoint.groups import GroupTranslations
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> space = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    >>> model = GroupTranslations(space, k=2).fit(X, y)
    >>> bool((model.translation(0, 2) == -model.translation(2, 0)).all())
    True
    >>> int((model.translation(0, 2) != 0.0).sum())
    2
    """

    representation: Any
    _: KW_ONLY
    k: int | None = None
    count: Count = "each"
    limits: Limits | None = None
    costs: ArrayLike | Mapping[Any, float] | None = None
    radius: float | Literal["each"] | None = None
    strengths: int | Sequence[float] = 20
    polish: bool = False
    layer: str | None = None

    def sparse(self, k: int | None = None, count: Count | None = None) -> Translations:
        self._fitted()
        count = self.count if count is None else count
        # those of at most k features, the best first
        candidates = self.path_.able(k, count)
        best = candidates[0].translations
        if k is None:
            k = int(count_of(best, count))
        # A path may miss the two shapes that a count favours: all pairs change the same features,
        # or all changes are from one reference group. So these are fitted, and compete.
        if count == "shared":
            candidates += self._shared(len(best.columns))
        elif count == "reference":
            candidates += self._starred(k)
        elif count == "each" and len(self.scene_.names) <= FEW_FEATURES:
            # Two groups differ in up to twice as many features as each from the reference.
            candidates += self._shared(k) + self._starred(k // 2)
        candidates.sort(key=lambda candidate: candidate.rank)
        return self._best_polished(candidates) if self.polish else candidates[0].translations

    def _best_polished(self, candidates: Sequence[Candidate]) -> Translations:
        """Return the best explanation after polishing; ``candidates`` come the best first."""
        data = self.scene_

        def polish(candidate: Candidate, **effort: Any) -> Translations:
            D = polished(data, self.task_, candidate.offsets, **effort)
            return data.translations(D, candidate.translations.strength)

        def score(explanation: Translations) -> float:
            # Several multiples of the radius: what is polished for one would be overrated by it.
            return sum(data.rates(explanation, (0.8, 0.9, 1.0, 1.1, 1.25)))

        # Polishing to the end is slow: six candidates are polished for a little, one to the end.
        trials = [polish(candidate, smooths=(0.5,), steps=8) for candidate in candidates[:6]]
        promising = candidates[int(np.argmax([score(trial) for trial in trials]))]
        # Polishing may not help, so that the best candidate competes as it is.
        return max([candidates[0].translations, *trials, polish(promising)], key=score)

    def truncated(self, k: int) -> Translations:
        """Return the best explanation whose pairs keep their k costliest changes, as in the paper.

        It is for comparison: the changes of three pairs of groups no longer add up.
        """
        self._fitted()
        check_k(k, len(self.scene_.names))
        refitted = (candidate.translations for candidate in self.path_.candidates)
        cut = [explanation.truncated(k) for explanation in (*self.path_.penalized, *refitted)]
        return max(cut, key=lambda explanation: sum(self.scene_.rates(explanation)))

    def _explain(self, data: FitData, *, progress: bool | None) -> Translations:
        check_count(self.count)
        if self.k is not None:
            check_k(self.k, len(data.names))
        limits = Limits() if self.limits is None else self.limits
        if not isinstance(limits, Limits):
            raise InvalidInput(f"Expected limits as Limits(…) or None; got {limits!r}.")
        self.task_ = task = data.task(limits)
        strengths = self._strengths(task.critical)
        starts = 1 if task.is_convex else 2  # of the chains of `follow`
        with track(starts * len(strengths), show=progress, unit="fits") as done:
            tol = 1e-4 if task.by_tangents else 1e-6
            fits = follow(task, strengths, data.centred(task), tol=tol, gap=CLOSED, done=done)
        unchanged = at_zero(task, max(task.critical, strengths[0]))
        self.path_ = self._path([(unchanged,), *fits], progress=progress)
        return self.sparse(self.k)

    def _path(self, fits: Sequence[tuple[Fit, ...]], *, progress: bool | None) -> TranslationPath:
        """Make the path of fits, one or two for each strength, and all candidates.

        Each pattern of ties is refitted once, without the penalty; some of the refits are pruned,
        and the patterns that this leads to are refitted, too.
        """
        candidates: dict[bytes, Candidate] = {}  # by their pattern of ties

        def consider(D: FloatArray, strength: float) -> None:
            pattern = tie_pattern(D)
            if pattern not in candidates:
                candidates[pattern] = self._refitted(D, strength)

        for fit in chain.from_iterable(fits):
            consider(fit.D, fit.strength)
        is_small = len(self.scene_.names) <= FEW_FEATURES  # of many, pruning takes most of the time
        chosen = prunable(list(candidates.values()), 12 if is_small else 3)
        with track(len(chosen), show=progress, unit="explanations pruned") as done:
            for candidate in chosen:
                for near in (True, False) if is_small else (True,):
                    for D in pruned(self.task_, candidate.offsets, near=near):
                        consider(D, candidate.translations.strength)
                done(1)
        best = [min(starts, key=lambda fit: fit.objective) for starts in fits]
        penalized = tuple(self.scene_.translations(fit.D, fit.strength) for fit in best)
        position = {pattern: i for i, pattern in enumerate(candidates)}
        refitted = np.array([position[tie_pattern(fit.D)] for fit in best], dtype=np.intp)
        return TranslationPath(tuple(best), penalized, refitted, tuple(candidates.values()))

    def _refitted(self, D: FloatArray, strength: float, *, free: bool = False) -> Candidate:
        refitted = refit(self.task_, D, strength, free=free)
        return self.scene_.candidate(refitted.D, refitted.loss, strength)

    def _strengths(self, largest: float) -> list[float]:
        """Return λ, falling: those passed, or so many down to a thousandth of the largest."""
        strengths: Any = self.strengths
        if np.ndim(strengths) == 0:
            if not isinstance(strengths, int | np.integer) or strengths < 2:
                raise InvalidInput(
                    f"Expected at least 2 strengths, or their values; got {strengths!r}. Pass 20."
                )
            return list(largest * np.geomspace(1.0, 1e-3, int(strengths) + 1)[1:])
        values = np.asarray(strengths, dtype=np.float64)
        if not (len(values) and (values > 0.0).all() and (np.diff(values) < 0.0).all()):
            raise InvalidInput(
                f"Expected positive strengths that fall; got {strengths!r}. Sort them."
            )
        return [float(value) for value in values]

    def _starred(self, k: int) -> list[Candidate]:
        """Return candidates in which each group changes at most k features from a reference group.

        All fits, candidates and the means are cut to that, for each group as the reference; the
        twelve of the least loss are refitted.
        """
        offsets = [fit.D for fit in self.path_.fits]
        offsets += [candidate.offsets for candidate in self.path_.candidates]
        offsets.append(self.scene_.centred(self.task_))
        stars: dict[bytes, FloatArray] = {}  # by their pattern of ties
        for D, reference in product(offsets, range(len(self.scene_.labels))):
            star = starred(self.task_, D, reference, k)
            stars.setdefault(tie_pattern(star), star)
        best = sorted(stars.values(), key=self.task_.value)[:12]
        return [self._refitted(D, float("nan")) for D in best]

    def _shared(self, width: int) -> list[Candidate]:
        """Return the three widest candidates of at most so many features, freed of their ties."""
        by_columns: dict[bytes, Candidate] = {}
        for candidate in self.path_.candidates:
            if 0 < len(candidate.translations.columns) <= width:
                by_columns[candidate.translations.columns.tobytes()] = candidate
        widest = sorted(by_columns.values(), key=lambda c: (-len(c.translations.columns), c.loss))
        return [self._refitted(c.offsets, c.translations.strength, free=True) for c in widest[:3]]


def prunable(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """Choose at most so many explanations to prune, from few features a pair to many."""
    # Pruning takes about a merge for each feature. To choose one of them, l − 1 of each feature are
    # tried, and all l² means are moved for each: 80 000 means a merge, at most.
    count = len(candidates[0].translations.groups)
    widest = min(800, 80_000 // (count * count * (count - 1)))
    eligible = [item for item in candidates if 1 < len(item.translations.columns) <= widest]
    eligible.sort(key=lambda item: (count_of(item.translations, "each"), item.loss))
    spread = np.linspace(0, len(eligible) - 1, min(most, len(eligible))).round().astype(int)
    return [eligible[i] for i in spread]


@final
@dataclass(eq=False, repr=False)
class DifferenceOfMeans(GroupExplainer):
    """The difference of the means of two groups as the change between them: a baseline.

    It changes every feature. With k, each pair changes the k features of the largest cost, so that
    the changes of three groups need not add up.

    Parameters
    ----------
    representation
        The space in which groups are seen; see `GroupTranslations`. Only judging needs it.
    k
        How many features of each pair may change; None for all.
    costs, radius, layer
        As for `GroupTranslations`.

    Attributes
    ----------
    translations_, groups_, radius_, scene_, n_features_in_
        As of `GroupTranslations`.
    """

    representation: Any
    _: KW_ONLY
    k: int | None = None
    costs: ArrayLike | Mapping[Any, float] | None = None
    radius: float | Literal["each"] | None = None
    layer: str | None = None

    def sparse(self, k: int | None = None, count: Count | None = None) -> Translations:
        data = self._fitted()
        means = Translations.of(data.means, data.labels, data.names, costs=data.unit_costs)
        if k is None:
            return means
        check_k(k, len(means.names))
        if count not in (None, "each"):
            raise InvalidInput(
                f"Expected count='each' for the difference of means; got {count!r}. It keeps k "
                "features of each pair."
            )
        return means.truncated(k)

    def _explain(self, data: FitData, *, progress: bool | None) -> Translations:
        return self.sparse(self.k)
