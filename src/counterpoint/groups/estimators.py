"""`GroupTranslations`, and the difference of means as its baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.errors import InvalidInput
from counterpoint.groups.explainer import GroupExplainer
from counterpoint.groups.fitting import FEW, Fit, at_zero, refit
from counterpoint.groups.following import best, densify, follow, patterns, reweighted
from counterpoint.groups.limits import Limits
from counterpoint.groups.path import Candidate, Count, TranslationPath, check_count, check_k
from counterpoint.groups.polish import polished
from counterpoint.groups.scene import Scene
from counterpoint.groups.translations import Translations

__all__ = ["DifferenceOfMeans", "GroupTranslations"]

RATIO = 1e-3
"""The smallest strength, in units of the largest."""
TOL = 1e-6
GAP = 1e-9
"""Where fits end: see `fit`."""
ROUGH = 1e-4
"""Where fits with other weights end, which are only starts."""
SOME = 20
"""Fits whose weights are set anew, at most; a quarter of them where there are many features."""
WIDEST = 3
"""Sets of shared features that are tried with all offsets free."""


@final
class GroupTranslations(GroupExplainer):
    """Sparse changes from each group of points to each other, all consistent with each other.

    Groups are seen in a low-dimensional representation r. The change from group i to group j is
    δ = D_j − D_i, so that changes are opposite on the way back and add up over other groups. The
    offsets D have the least mean over i ≠ j of ½‖r(x̄_i + δ) − r̄_j‖² + λ Σ_f c_f |δ_f|: equation
    (9) of Plumb et al., with their constraint of consistency, but all pairs at once and solved
    exactly. Zeros are exact. A path of λ is followed; at each the ties of the offsets are kept, and
    what differs is refitted without penalty. Of a linear representation each fit is a global
    optimum with a duality gap; of others a stationary point, the better of two.

    Parameters
    ----------
    representation
        A fitted transformer of scikit-learn or a pipeline of these, a torch module, or a
        `Representation`: see `represent`.
    k
        How many features may change; None for the sparsest explanation that is about as good as
        the best.
    count
        What k counts: the features of ``"each"`` pair, of pairs on average (``"mean"``), or those
        that all pairs together change (``"shared"``).
    limits
        What a change may be; None for at most 1.5 times the range of the group means.
    costs
        c: d positive numbers, or a mapping from names; None for 1 over the standard deviation.
    radius
        ε in correctness and coverage; None for the paper's rule: 95 % of each group are near
        another row of it.
    strengths
        How many λ, or the λ themselves, falling.
    polish
        Whether the offsets of the explanation are moved so that more of the rows themselves, and
        not only the means, arrive near the groups they are moved to: see `counterpoint.groups`.

    Attributes
    ----------
    path_
        `TranslationPath`, from sparse to dense.
    translations_
        `Translations`, the explanation that is asked for.
    groups_
        The labels of the groups.
    radius_
        ε.
    scene_
        What was seen of the rows.
    n_features_in_
        d.

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

    def __init__(  # noqa: PLR0913 (an estimator has parameters)
        self,
        representation: Any,
        *,
        k: int | None = None,
        count: Count = "each",
        limits: Limits | None = None,
        costs: ArrayLike | Mapping[Any, float] | None = None,
        radius: float | None = None,
        strengths: int | Sequence[float] = 40,
        polish: bool = False,
    ) -> None:
        self.representation = representation
        self.k = k
        self.count = count
        self.limits = limits
        self.costs = costs
        self.radius = radius
        self.strengths = strengths
        self.polish = polish

    def sparse(self, k: int | None = None, count: Count | None = None) -> Translations:
        self._fitted()
        count = self.count if count is None else count
        chosen: Candidate = self.path_.choose(k, count)
        if count == "shared":
            tried = [chosen, *self._shared(len(chosen.translations.columns))]
            chosen = max(tried, key=lambda one: one.correctness + one.coverage)
        return self._polished(chosen).translations if self.polish else chosen.translations

    def truncated(self, k: int) -> Translations:
        """The best explanation if k features of each pair are kept, as the paper does.

        To compare with it: what is kept of three pairs does not add up.

        Parameters
        ----------
        k
            How many features of each pair are kept.

        Raises
        ------
        InvalidInput
            If k is no number of features.
        """
        self._fitted()
        check_k(k, self.n_features_in_)
        path, scene = self.path_, self.scene_
        whole = (*path.penalized, *(one.translations for one in path.candidates))
        cut = [one.truncated(k) for one in whole]
        return max(cut, key=lambda one: sum(scene.rates(one)))

    def _explain(self, scene: Scene) -> Translations:
        check_count(self.count)
        if self.k is not None:
            check_k(self.k, len(scene.names))
        self.task_ = scene.task(Limits() if self.limits is None else self.limits)
        given = self._strengths(self.task_.critical)
        fits = follow(self.task_, given, scene.centred(self.task_), tol=TOL, gap=GAP)
        if np.ndim(self.strengths) == 0 and len(scene.names) <= FEW:
            fits = densify(self.task_, fits, len(given) // 2, tol=TOL, gap=GAP)
        nothing = at_zero(self.task_, max(self.task_.critical, given[0]))
        self.path_ = self._path([(nothing,), *fits])
        return self.sparse(self.k)

    def _path(self, fits: Sequence[tuple[Fit, ...]]) -> TranslationPath:
        """The path of some fits, each refitted and judged once for all that have its ties."""
        scene, task, kept = self.scene_, self.task_, [best(tried) for tried in fits]
        places: dict[bytes, int] = {}
        candidates: list[Candidate] = []
        some = kept[:: len(kept) // (SOME if len(scene.names) <= FEW else SOME // 4) + 1]
        sparser = reweighted(task, some, tol=ROUGH, gap=np.inf)
        for one in (*(one for tried in fits for one in tried), *sparser):
            pattern = patterns(one.D)
            if pattern not in places:
                places[pattern] = len(candidates)
                ended = refit(task, one.D, one.strength)
                candidates.append(scene.candidate(ended.D, ended.loss, one.strength))
        refitted = np.array([places[patterns(one.D)] for one in kept], dtype=np.intp)
        penalized = tuple(scene.translations(one.D, one.strength) for one in kept)
        return TranslationPath(tuple(kept), penalized, refitted, tuple(candidates))

    def _strengths(self, largest: float) -> list[float]:
        """λ, falling."""
        given: Any = self.strengths
        if np.ndim(given) == 0:
            if not isinstance(given, int | np.integer) or given < 2:
                raise InvalidInput(
                    f"Expected at least 2 strengths, or the strengths themselves; got {given!r}."
                )
            return list(largest * np.geomspace(1.0, RATIO, int(given) + 1)[1:])
        values = np.asarray(given, dtype=np.float64)
        if not (len(values) and (values > 0.0).all() and (np.diff(values) < 0.0).all()):
            raise InvalidInput(f"Expected positive strengths that fall; got {given!r}. Sort them.")
        return [float(value) for value in values]

    def _polished(self, chosen: Candidate) -> Candidate:
        """A candidate whose rows arrive better; itself, if it changes nothing."""
        columns = np.flatnonzero(np.ptp(chosen.offsets, axis=0) > 0.0)
        if not len(columns):
            return chosen
        scene, task = self.scene_, self.task_
        D = np.zeros_like(chosen.offsets)
        aim, fusion = scene.aim(task, chosen.offsets), task.fusion.of(columns)
        D[:, columns] = polished(aim, chosen.offsets[:, columns], fusion)
        better: Candidate = scene.candidate(D, task.value(D), chosen.translations.strength)
        return better

    def _shared(self, width: int) -> list[Candidate]:
        """The features that the widest candidates of at most so many share, with offsets free."""
        found: dict[bytes, Candidate] = {}
        for one in self.path_.candidates:
            if 0 < len(one.translations.columns) <= width:
                found[one.translations.columns.tobytes()] = one
        able = sorted(found.values(), key=lambda one: (-len(one.translations.columns), one.loss))
        starts = [(one, one.translations.strength) for one in able[:WIDEST]]
        return [
            self.scene_.candidate(freed.D, freed.loss, freed.strength)
            for one, strength in starts
            for freed in [refit(self.task_, one.offsets, strength, free=True)]
        ]


@final
class DifferenceOfMeans(GroupExplainer):
    """The difference of the means of two groups as the change between them: a baseline.

    It changes every feature. Of k features, those of the largest cost are kept for each pair, so
    that the changes of three groups need not add up.

    Parameters
    ----------
    representation
        What groups are seen in; see `GroupTranslations`. It is used to judge alone.
    k
        How many features of each pair are kept; None for all.
    costs, radius
        As for `GroupTranslations`.

    Attributes
    ----------
    translations_, groups_, radius_, scene_, n_features_in_
        As of `GroupTranslations`.
    """

    def __init__(
        self,
        representation: Any,
        *,
        k: int | None = None,
        costs: ArrayLike | Mapping[Any, float] | None = None,
        radius: float | None = None,
    ) -> None:
        self.representation = representation
        self.k = k
        self.costs = costs
        self.radius = radius

    def sparse(self, k: int | None = None, count: Count | None = None) -> Translations:
        self._fitted()
        means = self._means(self.scene_)
        if k is None:
            return means
        check_k(k, len(means.names))
        if count not in (None, "each"):
            raise InvalidInput(
                f"Expected count='each' for the difference of means; got {count!r}. It keeps k "
                "features of each pair."
            )
        return means.truncated(k)

    def _explain(self, scene: Scene) -> Translations:
        return self.sparse(self.k)

    def _means(self, scene: Scene) -> Translations:
        return Translations.of(scene.means, scene.labels, scene.names, costs=scene.price)
