"""What the estimators share: reading, answering, judging; and the difference of means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from counterpoint.errors import InvalidInput, ModelNotFitted
from counterpoint.groups.path import Count, check_k
from counterpoint.groups.quality import Points, Quality
from counterpoint.groups.reading import look
from counterpoint.groups.representations import FloatArray, Representation
from counterpoint.groups.scene import Scene
from counterpoint.groups.tables import Groups, Rows, dealt, read
from counterpoint.groups.translations import Translations
from counterpoint.progress import track

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["DifferenceOfMeans", "GroupExplainer"]


class GroupExplainer(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator of one explanation for all pairs of groups.

    How offsets are found is for those who implement it to say.
    """

    representation: Any
    k: int | None
    costs: ArrayLike | Mapping[Any, float] | None
    radius: float | None

    @abstractmethod
    def _explain(self, scene: Scene, *, progress: bool | None) -> Translations:
        """Find the explanation that is asked for, and keep what else there is to know."""

    @abstractmethod
    def sparse(self, k: int | None = None, count: Count | None = None) -> Translations:
        """The best explanation of at most k features.

        Parameters
        ----------
        k
            How many features may change; None for the sparsest that is about as good as the best.
        count
            ``"each"``: changed by each pair; ``"mean"``: on average over pairs; ``"shared"``: by
            all pairs together. None for that of the estimator.

        Raises
        ------
        InvalidInput
            If k is no number of features, or count is none of these.
        ModelNotFitted
            Before `fit`.
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

        Returns
        -------
        Self
            Itself, fitted.

        Raises
        ------
        InvalidInput
            If rows or parameters cannot be used, or there are fewer than two groups of two rows.
        UnsupportedModel
            If the representation has no derivatives that are known.
        """
        representation, intake = look(self.representation)
        self._learn(representation, *read(X, groups, intake), progress=progress)
        return self

    def translation(self, start: Any, end: Any) -> FloatArray:
        """(d,) the change from one group to another, in feature units.

        Parameters
        ----------
        start, end
            Labels of groups.
        """
        return self._answer().translation(start, end)

    def to_frame(self, names: Mapping[Any, Any] | None = None) -> pd.DataFrame:
        """One line for each feature that a pair changes: ``from``, ``to``, ``feature``, ``change``.

        Parameters
        ----------
        names
            Other names for features, such as symbols of genes for their identifiers.
        """
        return self._answer().to_frame(names)

    def sentences(self, most: int = 6) -> str:
        """What to change, in words: a line for each pair, in one of the two directions.

        Parameters
        ----------
        most
            How many features a line names.
        """
        return self._answer().sentences(most)

    def evaluate(
        self,
        X: Any,
        groups: Any,
        *,
        folds: int = 2,
        random_state: Any = 0,
        progress: bool | None = None,
    ) -> Quality:
        """How good explanations are for rows that they were not fitted on.

        The rows are dealt into folds, each group by itself. An estimator like this one is fitted on
        all but one of them and judged on that one; the numbers are the means over folds. The
        representation stays as it is, and so do the groups, whatever rows they were found by.

        Parameters
        ----------
        X, groups
            As in `fit`; all rows that there are.
        folds
            How many parts there are.
        random_state
            How rows are dealt.
        progress
            As in `fit`; of folds.

        Raises
        ------
        InvalidInput
            If a group has too few rows: it needs two in each fold.
        """
        return self.evaluate_each(
            X, groups, [self.k], folds=folds, random_state=random_state, progress=progress
        )[0]

    def evaluate_each(
        self,
        X: Any,
        groups: Any,
        ks: Sequence[int | None],
        *,
        folds: int = 2,
        random_state: Any = 0,
        progress: bool | None = None,
    ) -> tuple[Quality, ...]:
        """`evaluate` for several numbers of features, with one fit for each fold.

        Parameters
        ----------
        X, groups, folds, random_state, progress
            As in `evaluate`.
        ks
            Numbers of features, as `sparse` takes them.
        """
        representation, intake = look(self.representation)
        rows, members = read(X, groups, intake)
        members.require(len(rows))
        parts: list[list[Quality]] = []
        parts_of = list(dealt(members, folds, check_random_state(random_state)))
        with track(folds, show=progress, unit="folds") as done:
            for learn, test in parts_of:
                model = type(self)(**self.get_params(deep=False))
                own = rows.take(learn), members.take(learn)
                model._learn(representation, *own, progress=False)  # noqa: SLF001 (its own class)
                answers = [model.translations_ if k == self.k else model.sparse(k) for k in ks]
                there = rows.take(test), members.take(test)
                parts.append([model._judge(answer, *there) for answer in answers])  # noqa: SLF001
                done(1)
        return tuple(Quality.mean_of(one) for one in zip(*parts, strict=True))

    def judge(self, X: Any, groups: Any, translations: Translations | None = None) -> Quality:
        """How good the fitted explanation is for these rows; it says if they were in the fit.

        Parameters
        ----------
        X, groups
            As in `fit`; groups may be fewer, but not others.
        translations
            Another explanation of the same groups; None for that of the fit.

        Raises
        ------
        InvalidInput
            If a group was not in the fit, or has no rows, or the other explanation is about other
            groups or features.
        ModelNotFitted
            Before `fit`.
        """
        answer = self._answer()
        if translations is not None:
            translations.require_about(answer)
            answer = translations
        return self._judge(answer, *self._read(X, groups))

    def plot_map(self, X: Any, groups: Any, start: Any, end: Any, *, ax: Any = None) -> Figure:
        """The rows in the representation, and where those of one group are moved to.

        Parameters
        ----------
        X, groups
            As in `fit`.
        start, end
            Labels of the groups.
        ax
            Matplotlib axes; None for a new figure.

        Raises
        ------
        InvalidInput
            If the representation has only one dimension.
        MissingExtra
            If matplotlib is not installed.
        """
        from counterpoint.groups.pictures import draw_map

        answer = self._answer()
        rows, members = self._read(X, groups)
        parts = self.scene_.points.parts
        own = rows.cells(members.rows(answer.position(start)), np.arange(len(rows.names)))
        moved = parts.values(own + answer.translation(start, end))
        return draw_map(parts.values(rows.matrix), members, moved, (start, end), ax)

    def _read(self, X: Any, groups: Any) -> tuple[Rows, Groups]:
        """Rows of the same features and groups as those of the fit."""
        rows, members = read(X, groups, self.scene_.points.rows.intake)
        return rows, members.ordered(self.groups_)

    def _learn(
        self, representation: Representation, rows: Rows, groups: Groups, *, progress: bool | None
    ) -> None:
        """Fit on rows that have been read."""
        scene = Scene.of(representation, rows, groups, costs=self.costs, radius=self.radius)
        self.scene_, self.radius_ = scene, scene.radius
        self.groups_, self.n_features_in_ = scene.labels, len(scene.names)
        self.translations_ = self._explain(scene, progress=progress)

    def _judge(self, translations: Translations, rows: Rows, groups: Groups) -> Quality:
        if (groups.sizes == 0).any():
            empty = groups.labels[int(np.flatnonzero(groups.sizes == 0)[0])]
            raise InvalidInput(
                f"Expected rows of every group of the fit; group {empty!r} has none. Pass some."
            )
        points = Points.of(rows, groups, self.scene_.points.parts)
        return self.scene_.judge(translations, points)

    def _answer(self) -> Translations:
        self._fitted()
        answer: Translations = self.translations_
        return answer

    def _fitted(self) -> None:
        if "scene_" not in vars(self):
            raise ModelNotFitted(f"{type(self).__name__} has not been fitted. Call fit first.")

    def __sklearn_clone__(self) -> Self:
        """A copy that is not fitted; the representation stays as it is, fitted."""
        return type(self)(**self.get_params(deep=False))


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

    def _explain(self, scene: Scene, *, progress: bool | None) -> Translations:
        return self.sparse(self.k)

    def _means(self, scene: Scene) -> Translations:
        return Translations.of(scene.means, scene.labels, scene.names, costs=scene.price)
