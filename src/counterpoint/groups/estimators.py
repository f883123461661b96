"""The estimators: sparse changes between groups, and the difference of means as a baseline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from counterpoint.errors import InvalidInput, ModelNotFitted
from counterpoint.groups.fitting import FEW, Fit, at_zero, follow, pruned, refit, starred
from counterpoint.groups.members import Groups, stratified_folds
from counterpoint.groups.problem import tie_pattern
from counterpoint.groups.quality import Points, Quality
from counterpoint.groups.reading import read_model, read_rows
from counterpoint.groups.representations import Matrix, Representation, dense
from counterpoint.groups.scene import Limits, Scene, polished
from counterpoint.groups.translations import (
    Candidate,
    Count,
    TranslationPath,
    Translations,
    check_count,
    check_k,
    count_of,
)
from counterpoint.numerics import FloatArray
from counterpoint.rows.progress import track

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["DifferenceOfMeans", "GroupExplainer", "GroupTranslations", "prunable"]

SHORT: dict[str, Any] = {"smooths": (0.5,), "steps": 8}
"""The six best are polished for a little; the best of them then is polished to the end."""


Assign = Callable[[FloatArray], Any]
"""Takes rows (n, m) of the representation to labels."""


class GroupExplainer(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator of one explanation for all pairs of groups; subclasses say how it is found."""

    representation: Any
    k: int | None
    costs: ArrayLike | Mapping[Any, float] | None
    radius: float | Literal["each"] | None
    layer: str | None

    scene_: Scene
    translations_: Translations

    @abstractmethod
    def _explain(self, scene: Scene, *, progress: bool | None) -> Translations:
        """Find the explanation that is asked for, and set the attributes of the subclass."""

    @abstractmethod
    def sparse(self, k: int | None = None, count: Count | None = None) -> Translations:
        """The best explanation of at most k features.

        Parameters
        ----------
        k
            How many features may change; None for the sparsest that is about as good as the best.
        count
            ``"each"``: changed by each pair; ``"mean"``: on average over pairs; ``"shared"``: by
            all pairs together; ``"reference"``: by each group and one that all others are told
            apart from, whichever is best, so that other pairs change up to 2 k. None for that of
            the estimator.
        """

    def fit(self, X: Any, groups: Any, *, progress: bool | None = None) -> Self:
        """Explain the differences between groups.

        Parameters
        ----------
        X
            (n, d) an array, a sparse matrix, a data frame, or an AnnData. A representation that was
            fitted on names takes columns by name, in any order, and leaves others alone.
        groups
            (n,) labels, of which None means no group; a mapping from labels to boolean masks;
            `Groups`; or the name of a column of the frame, or of ``obs`` of an AnnData.
        progress
            Whether to show a progress bar; None to show one on a terminal if it takes long.

        Raises
        ------
        InvalidInput
            If rows or parameters cannot be used, or there are fewer than two groups of two rows.
        UnsupportedModel
            If the representation has no derivatives that are known.
        """
        representation, intake = read_model(self.representation)
        return self._learn(
            representation, *read_rows(X, groups, intake, self.layer), progress=progress
        )

    def translation(self, start: Any, end: Any) -> FloatArray:
        """(d,) the change from one group to another, by their labels, in feature units."""
        self._fitted()
        return self.translations_.translation(start, end)

    def to_frame(self, names: Mapping[Any, Any] | None = None) -> pd.DataFrame:
        """One line for each feature that a pair changes: see `Translations.to_frame`."""
        self._fitted()
        return self.translations_.to_frame(names)

    def sentences(self, most: int = 6) -> str:
        """What to change, in words: a line for each pair, which names at most so many features."""
        self._fitted()
        return self.translations_.sentences(most)

    def evaluate(
        self,
        X: Any,
        groups: Any,
        *,
        folds: int = 2,
        random_state: Any = 0,
        progress: bool | None = None,
        assign: Assign | None = None,
    ) -> Quality:
        """How good explanations are for rows that they were not fitted on.

        The rows are dealt into folds, each group by itself. An estimator like this one is fitted on
        all but one of them and judged on that one; the numbers are the means over folds. The
        representation stays as it is, and so do the groups, whatever rows they were found by.

        All rows that there are, their groups and ``progress`` come as in `fit`. A group needs two
        rows in each of the ``folds``; ``random_state`` says how rows are dealt; ``assign`` is that
        of `judge`.
        """
        told: dict[str, Any] = {"folds": folds, "random_state": random_state, "progress": progress}
        return self.evaluate_each(X, groups, [self.k], assign=assign, **told)[0]

    def evaluate_each(  # noqa: PLR0913 (what `evaluate` takes)
        self,
        X: Any,
        groups: Any,
        ks: Sequence[int | None],
        *,
        folds: int = 2,
        random_state: Any = 0,
        progress: bool | None = None,
        assign: Assign | None = None,
    ) -> tuple[Quality, ...]:
        """`evaluate` for several numbers of features, as `sparse` takes them: one fit a fold."""
        representation, intake = read_model(self.representation)
        rows, took, members = read_rows(X, groups, intake, self.layer)
        members.require(rows.shape[0])
        parts: list[list[Quality]] = []
        splits = list(stratified_folds(members, folds, check_random_state(random_state)))
        with track(folds, show=progress, unit="folds") as done:
            for learn, test in splits:
                model = self.__sklearn_clone__()
                own = rows[learn], took, members.take(learn)
                model._learn(representation, *own, progress=False)  # noqa: SLF001 (its own class)
                answers = [model.translations_ if k == self.k else model.sparse(k) for k in ks]
                there = rows[test], members.take(test), assign
                parts.append([model._judge(answer, *there) for answer in answers])  # noqa: SLF001
                done(1)
        return tuple(Quality.mean_of(one) for one in zip(*parts, strict=True))

    def judge(
        self,
        X: Any,
        groups: Any,
        translations: Translations | None = None,
        *,
        assign: Assign | None = None,
    ) -> Quality:
        """How good the fitted explanation is for these rows; it says if they were in the fit.

        Rows and groups come as in `fit`. ``translations`` are another explanation of the same
        groups and features; None for that of the fit. ``assign`` says which group a moved row is
        taken for: a function of rows (n, m) of the representation to labels, such as the
        ``predict`` of the clustering that made the groups; None for that of the nearest mean.
        """
        scene = self._fitted()
        if translations is not None:
            translations.require_about(self.translations_)
        rows, _, members = read_rows(X, groups, scene.intake, self.layer)
        answer = self.translations_ if translations is None else translations
        return self._judge(answer, rows, members.ordered(scene.labels), assign)

    def transform(self, X: Any, groups: Any = None, *, to: Any) -> FloatArray:
        """(n, d) rows as they would be in another group, in feature units.

        Parameters
        ----------
        X
            Rows as in `fit`.
        groups
            Which group each is of, as in `fit`; rows of none stay as they are. None takes each row
            for one of the group whose mean in the representation is nearest.
        to
            The label of the group that all are moved to.

        Raises
        ------
        InvalidInput
            If there is no such group.
        """
        scene = self._fitted()
        end, answer = self.translations_.position(to), self.translations_
        told = np.zeros(np.shape(X)[0], dtype=np.intp) if groups is None else groups
        matrix, _, members = read_rows(X, told, scene.intake, self.layer)
        if groups is None:
            apart = cdist(scene.points.parts.values(matrix), scene.targets)
            members = Groups(scene.labels, apart.argmin(axis=1))
        members, rows = members.ordered(scene.labels), dense(matrix).copy()
        for i in range(len(scene.labels)):
            own = members.rows(i)
            rows[np.ix_(own, answer.columns)] += answer.between(i, end)
        return rows

    def plot_map(self, X: Any, groups: Any, start: Any, end: Any, *, ax: Any = None) -> Figure:
        """The rows in the representation, and where those of one group are moved to.

        Rows and groups come as in `fit`; ``ax`` are two Matplotlib axes, or None for a new figure.
        """
        from counterpoint.pictures.plots import draw_map

        scene = self._fitted()
        change, at = self.translation(start, end), self.translations_.position(start)
        rows, _, members = read_rows(X, groups, scene.intake, self.layer)
        members, parts = members.ordered(scene.labels), scene.points.parts
        moved = parts.values(dense(rows[members.rows(at)]) + change)
        return draw_map(parts.values(rows), members, moved, (start, end), ax)

    def _learn(self, representation: Representation, *read: Any, progress: bool | None) -> Self:
        """Fit on rows that have been read."""
        scene = Scene.of(representation, *read, costs=self.costs, radius=self.radius)
        self.scene_, self.radius_ = scene, scene.radius
        self.groups_, taken = scene.labels, scene.intake.features.names
        self.n_features_in_ = len(taken)
        if scene.intake.named:
            self.feature_names_in_ = np.array(taken, dtype=object)
        self.translations_ = self._explain(scene, progress=progress)
        return self

    def _judge(
        self, translations: Translations, rows: Matrix, groups: Groups, assign: Assign | None
    ) -> Quality:
        if (groups.sizes == 0).any():
            empty = groups.labels[int(np.flatnonzero(groups.sizes == 0)[0])]
            raise InvalidInput(
                f"Expected rows of every group of the fit; group {empty!r} has none. Pass some."
            )
        points = Points.of(rows, groups, self.scene_.points.parts)
        return self.scene_.judge(translations, points, assign)

    def _fitted(self) -> Scene:
        """What the fit saw; an error before there was one."""
        if "scene_" not in vars(self):
            raise ModelNotFitted(f"{type(self).__name__} has not been fitted. Call fit first.")
        return self.scene_

    def __sklearn_clone__(self) -> Self:
        """A copy that is not fitted; the representation stays as it is, fitted."""
        return type(self)(**self.get_params(deep=False))


@final
@dataclass(eq=False, repr=False)
class GroupTranslations(GroupExplainer):
    """Sparse changes from each group of points to each other, all consistent with each other.

    Groups are seen in a low-dimensional representation r. The change from group i to group j is
    δ = D_j − D_i, so that changes are opposite on the way back and add up over other groups. The
    offsets D have the least mean over i ≠ j of ``½‖r(x̄_i + δ) − r̄_j‖² + λ Σ_f c_f |δ_f|``: equation
    (9) of Plumb et al., with their constraint of consistency, but all pairs at once and solved
    exactly. Zeros are exact. A path of λ is followed; at each the ties of the offsets are kept, and
    what differs is refitted without penalty; some are pruned, too, to change fewer features. Of a
    linear representation each fit is a global optimum with a duality gap; of others a stationary
    point, the better of two.

    Parameters
    ----------
    representation
        A fitted transformer of scikit-learn or a pipeline of these, a torch module, or a
        `Representation`: see `represent`.
    k
        How many features may change; None for the sparsest explanation that is about as good as
        the best.
    count
        What k counts: the features of ``"each"`` pair, of pairs on average (``"mean"``), those
        that all pairs together change (``"shared"``), or those of each group and a reference group
        (``"reference"``), whichever is best; other pairs then change up to 2 k.
    limits
        What a change may be; None for at most 1.5 times the range of the group means.
    costs
        c: d positive numbers, or a mapping from names; None for 1 over the standard deviation.
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
        Of an AnnData, which of its ``layers`` or ``obsm`` has the rows; None for ``X``.

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
        What was seen of the rows, and what is minimised.
    n_features_in_, feature_names_in_
        How many columns are taken, and their names, if they go by name.

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
        able = self.path_.able(k, count)
        most = int(count_of(able[0].translations, count)) if k is None else k
        if count == "shared":
            able += self._shared(len(able[0].translations.columns))
        if count == "reference":
            able += self._starred(most)
        able.sort(key=lambda one: (-one.worth, one.loss))
        if not self.polish:
            return able[0].translations
        scene, task = self.scene_, self.task_

        def moved(one: Candidate, **short: Any) -> Candidate:
            D = polished(scene, task, one.offsets, **short)
            return scene.candidate(D, task.value(D), one.translations.strength)

        tried = [moved(one, **SHORT) for one in able[:6]]
        best = able[int(np.argmax([one.worth for one in tried]))]
        ended = [able[0], *tried, moved(best)]  # polishing may not help
        return max(ended, key=lambda one: one.worth).translations

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
        check_k(k, len(self.scene_.names))
        path, scene = self.path_, self.scene_
        whole = [(one.D, answer) for one, answer in zip(path.fits, path.penalized, strict=True)]
        whole += [(one.offsets, one.translations) for one in path.candidates]
        cut = [answer.truncated(k) for _, answer in whole]
        scores = [sum(scene.rates(one)) for one in cut]
        if self.polish:

            def moved(at: int, **short: Any) -> float:
                D = polished(scene, self.task_, whole[at][0], k, **short)
                cut.append(scene.translations(D, whole[at][1].strength).truncated(k))
                scores.append(sum(scene.rates(cut[-1])))
                return scores[-1]

            able = np.argsort(scores, kind="stable")[::-1][:6].tolist()
            moved(max(able, key=lambda at: moved(at, **SHORT)))
        return cut[int(np.argmax(scores))]

    def _explain(self, scene: Scene, *, progress: bool | None) -> Translations:
        check_count(self.count)
        if self.k is not None:
            check_k(self.k, len(scene.names))
        limits = Limits() if self.limits is None else self.limits
        if not isinstance(limits, Limits):
            raise InvalidInput(f"Expected limits as Limits(…) or None; got {limits!r}.")
        self.task_ = scene.task(limits)
        given = self._strengths(self.task_.critical)
        means, starts = scene.centred(self.task_), 1 if self.task_.is_convex else 2
        with track(starts * len(given), show=progress, unit="fits") as done:
            fits = follow(self.task_, given, means, tol=1e-6, gap=1e-9, done=done)
        nothing = at_zero(self.task_, max(self.task_.critical, given[0]))
        self.path_ = self._path([(nothing,), *fits], progress=progress)
        return self.sparse(self.k)

    def _path(self, fits: Sequence[tuple[Fit, ...]], *, progress: bool | None) -> TranslationPath:
        """The path of some fits, each refitted and judged once for all that have its ties."""
        scene, task = self.scene_, self.task_
        kept = [min(tried, key=lambda one: one.objective) for tried in fits]
        places: dict[bytes, int] = {}
        candidates: list[Candidate] = []

        def consider(D: FloatArray, strength: float) -> None:
            pattern = tie_pattern(D)
            if pattern not in places:
                places[pattern] = len(candidates)
                ended = refit(task, D, strength)
                candidates.append(scene.candidate(ended.D, ended.loss, strength))

        for one in (one for tried in fits for one in tried):
            consider(one.D, one.strength)
        few = len(scene.names) <= FEW  # of many features, pruning takes most of the time
        chosen = prunable(candidates, 12 if few else 3)
        with track(len(chosen), show=progress, unit="explanations pruned") as done:
            for start in chosen:
                for near in (True, False)[: 2 if few else 1]:
                    for D in pruned(task, start.offsets, near=near):
                        consider(D, start.translations.strength)
                done(1)
        refitted = np.array([places[tie_pattern(one.D)] for one in kept], dtype=np.intp)
        penalized = tuple(scene.translations(one.D, one.strength) for one in kept)
        return TranslationPath(tuple(kept), penalized, refitted, tuple(candidates))

    def _strengths(self, largest: float) -> list[float]:
        """λ, falling; of a number of them, to a thousandth of the largest."""
        given: Any = self.strengths
        if np.ndim(given) == 0:
            if not isinstance(given, int | np.integer) or given < 2:
                raise InvalidInput(
                    f"Expected at least 2 strengths, or the strengths themselves; got {given!r}."
                )
            return list(largest * np.geomspace(1.0, 1e-3, int(given) + 1)[1:])
        values = np.asarray(given, dtype=np.float64)
        if not (len(values) and (values > 0.0).all() and (np.diff(values) < 0.0).all()):
            raise InvalidInput(f"Expected positive strengths that fall; got {given!r}. Sort them.")
        return [float(value) for value in values]

    def _starred(self, k: int) -> list[Candidate]:
        """Candidates of which each group keeps k changes from a reference group, best of all."""
        task, path = self.task_, self.path_
        starts = [one.D for one in path.fits] + [one.offsets for one in path.candidates]
        starts.append(self.scene_.centred(task))
        stars: dict[bytes, FloatArray] = {}
        for D in starts:
            for reference in range(len(D)):
                star = starred(task, D, reference, k)
                stars.setdefault(tie_pattern(star), star)
        found = sorted(stars.values(), key=task.value)[:12]
        ended = [refit(task, D, 0.0) for D in found]
        all_ = [self.scene_.candidate(one.D, one.loss, float("nan")) for one in ended]
        return [one for one in all_ if count_of(one.translations, "reference") <= k]

    def _shared(self, width: int) -> list[Candidate]:
        """The features that the three widest candidates of at most so many share, freed of ties."""
        found: dict[bytes, Candidate] = {}
        for one in self.path_.candidates:
            if 0 < len(one.translations.columns) <= width:
                found[one.translations.columns.tobytes()] = one
        able = sorted(found.values(), key=lambda one: (-len(one.translations.columns), one.loss))
        freed = [
            refit(self.task_, one.offsets, one.translations.strength, free=True) for one in able[:3]
        ]
        return [self.scene_.candidate(one.D, one.loss, one.strength) for one in freed]


def prunable(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """Some explanations to be pruned, from those of few features a pair to those of many."""
    # As many merges as features, each chosen by moving all means: about 80 000 means a merge.
    count = len(candidates[0].translations.groups)
    wide = min(800, 80_000 // (count * count * (count - 1)))
    able = [one for one in candidates if 1 < len(one.translations.columns) <= wide]
    able.sort(key=lambda one: (count_of(one.translations, "each"), one.loss))
    places = np.linspace(0, len(able) - 1, min(most, len(able))).round().astype(int)
    return [able[i] for i in places]


@final
@dataclass(eq=False, repr=False)
class DifferenceOfMeans(GroupExplainer):
    """The difference of the means of two groups as the change between them: a baseline.

    It changes every feature. Of k features, those of the largest cost are kept for each pair, so
    that the changes of three groups need not add up.

    Parameters
    ----------
    representation
        What groups are seen in; see `GroupTranslations`. Only judging needs it.
    k
        How many features of each pair are kept; None for all.
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
        scene = self._fitted()
        means = Translations.of(scene.means, scene.labels, scene.names, costs=scene.price)
        if k is None:
            return means
        check_k(k, len(means.names))
        if count not in (None, "each"):
            raise InvalidInput(
                f"Expected count='each' for the difference of means; got {count!r}. It keeps k "
                "features of each pair."
            )
        return means.truncated(k)

    def _explain(self, scene: Scene, *, progress: bool | None) -> Translations:
        return self.sparse(self.k)
