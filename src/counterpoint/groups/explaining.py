"""The base of estimators of explanations between groups: rows in, judgements out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from counterpoint.errors import InvalidInput, ModelNotFitted
from counterpoint.groups.fit_data import FitData
from counterpoint.groups.group_labels import Groups, stratified_folds
from counterpoint.groups.path import Count
from counterpoint.groups.quality import Points, Quality
from counterpoint.groups.reading import ColumnEncoding, read_model, read_rows
from counterpoint.groups.representations import Matrix, Representation, dense
from counterpoint.groups.translations import Translations
from counterpoint.numerics import FloatArray
from counterpoint.rows.progress import track

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Assign = Callable[[FloatArray], Any]
"""Takes rows (n, m) of the representation to labels."""


class GroupExplainer(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator of one explanation for all pairs of groups; subclasses say how it is found."""

    representation: Any
    k: int | None
    costs: ArrayLike | Mapping[Any, float] | None
    radius: float | Literal["each"] | None
    layer: str | None

    scene_: FitData
    translations_: Translations

    @abstractmethod
    def _explain(self, data: FitData, *, progress: bool | None) -> Translations:
        """Find the explanation, and set the attributes of the subclass."""

    @abstractmethod
    def sparse(self, k: int | None = None, count: Count | None = None) -> Translations:
        """Return the best explanation of at most k features; None for the sparsest good one.

        k counts the features that ``"each"`` pair changes, pairs on average (``"mean"``), all pairs
        together (``"shared"``), or each group and a ``"reference"`` group, whichever is best, so
        that other pairs change up to 2 k. None counts as the estimator does.
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
        """
        representation, encoding = read_model(self.representation)
        return self._learn(
            representation, *read_rows(X, groups, encoding, self.layer), progress=progress
        )

    def translation(self, start: Any, end: Any) -> FloatArray:
        """Return the change (d,) from one group to another, by their labels, in feature units."""
        self._fitted()
        return self.translations_.translation(start, end)

    def to_frame(self, names: Mapping[Any, Any] | None = None) -> pd.DataFrame:
        """Return a line for each feature that a pair changes: see `Translations.to_frame`."""
        self._fitted()
        return self.translations_.to_frame(names)

    def sentences(self, most: int = 6) -> str:
        """Say what to change: a line for each pair, which names at most so many features."""
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
        """Judge explanations on rows that they were not fitted on.

        The rows are dealt into folds, each group by itself. An estimator like this one is fitted on
        all but one of them and judged on that one; the numbers are the means over folds. The
        representation stays as it is, and so do the groups, whatever rows they were found by.

        All rows that there are, their groups and ``progress`` come as in `fit`. A group needs two
        rows in each of the ``folds``; ``random_state`` says how rows are dealt; ``assign`` is that
        of `judge`.
        """
        options: dict[str, Any] = {
            "random_state": random_state,
            "progress": progress,
            "assign": assign,
        }
        return self.evaluate_each(X, groups, [self.k], folds=folds, **options)[0]

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
        """Do as `evaluate` for several numbers of features, as `sparse` takes them, at once."""
        representation, encoding = read_model(self.representation)
        rows, columns, members = read_rows(X, groups, encoding, self.layer)
        members.require(rows.shape[0])
        by_fold: list[list[Quality]] = []  # of each fold, the quality for each k
        splits = list(stratified_folds(members, folds, check_random_state(random_state)))
        with track(folds, show=progress, unit="folds") as done:
            for train, test in splits:
                model = self.__sklearn_clone__()
                train_data = rows[train], columns, members.take(train)
                model._learn(representation, *train_data, progress=False)  # noqa: SLF001 (its own class)
                explanations = [model.translations_ if k == self.k else model.sparse(k) for k in ks]
                test_data = rows[test], members.take(test), assign
                by_fold.append([model._judge(item, *test_data) for item in explanations])  # noqa: SLF001
                done(1)
        return tuple(Quality.mean_of(qualities) for qualities in zip(*by_fold, strict=True))

    def judge(
        self,
        X: Any,
        groups: Any,
        translations: Translations | None = None,
        *,
        assign: Assign | None = None,
    ) -> Quality:
        """Judge the fitted explanation on these rows, and say if they were in the fit.

        Rows and groups come as in `fit`. ``translations`` are another explanation of the same
        groups and features; None for that of the fit. ``assign`` says which group a moved row is
        taken for: a function of rows (n, m) of the representation to labels, such as the
        ``predict`` of the clustering that made the groups; None for that of the nearest mean.
        """
        data = self._fitted()
        if translations is None:
            translations = self.translations_
        translations.require_about(self.translations_)
        rows, _, members = read_rows(X, groups, data.encoding, self.layer)
        return self._judge(translations, rows, members.ordered(data.labels), assign)

    def transform(self, X: Any, groups: Any = None, *, to: Any) -> FloatArray:
        """Return rows (n, d) as they would be in another group, in feature units.

        Rows and groups come as in `fit`; rows of no group stay as they are. Without groups, each
        row is taken for one of the group whose mean in the representation is nearest.
        """
        data, translations = self._fitted(), self.translations_
        end = translations.position(to)
        # Rows are read with groups; without any, they are put into one until they are read.
        labels = np.zeros(np.shape(X)[0], dtype=np.intp) if groups is None else groups
        matrix, _, members = read_rows(X, labels, data.encoding, self.layer)
        if groups is None:
            distances = cdist(data.points.space.values(matrix), data.targets)
            members = Groups(data.labels, distances.argmin(axis=1))
        members, rows = members.ordered(data.labels), dense(matrix).copy()
        for i in range(len(data.labels)):
            rows[np.ix_(members.rows(i), translations.columns)] += translations.between(i, end)
        return rows

    def plot_map(self, X: Any, groups: Any, start: Any, end: Any, *, ax: Any = None) -> Figure:
        """Draw the rows in the representation, and where those of one group are moved to.

        Rows and groups come as in `fit`; ``ax`` are two Matplotlib axes, or None for a new figure.
        """
        from counterpoint.pictures.plots import draw_map

        data, change = self._fitted(), self.translation(start, end)
        rows, _, members = read_rows(X, groups, data.encoding, self.layer)
        members, space = members.ordered(data.labels), data.points.space
        start_rows = rows[members.rows(self.translations_.position(start))]
        moved = space.values(dense(start_rows) + change)
        return draw_map(space.values(rows), members, moved, (start, end), ax)

    def _learn(
        self,
        representation: Representation,
        rows: Matrix,
        encoding: ColumnEncoding,
        groups: Groups,
        *,
        progress: bool | None,
    ) -> Self:
        """Fit to what `read_rows` returned."""
        costs, radius = self.costs, self.radius
        data = FitData.of(representation, rows, encoding, groups, costs=costs, radius=radius)
        self.scene_, self.groups_, self.radius_ = data, data.labels, data.radius
        names = encoding.features.names
        self.n_features_in_ = len(names)
        if encoding.named:
            self.feature_names_in_ = np.array(names, dtype=object)
        self.translations_ = self._explain(data, progress=progress)
        return self

    def _judge(
        self, translations: Translations, rows: Matrix, groups: Groups, assign: Assign | None
    ) -> Quality:
        if (groups.sizes == 0).any():
            empty = groups.labels[int(np.flatnonzero(groups.sizes == 0)[0])]
            raise InvalidInput(
                f"Expected rows of every group of the fit; group {empty!r} has none. Pass some."
            )
        points = Points.of(rows, groups, self.scene_.points.space)
        return self.scene_.judge(translations, points, assign)

    def _fitted(self) -> FitData:
        """Return what the fit saw; an error before there was one."""
        if "scene_" not in vars(self):
            raise ModelNotFitted(f"{type(self).__name__} has not been fitted. Call fit first.")
        return self.scene_

    def __sklearn_clone__(self) -> Self:
        """Return a copy that is not fitted; the representation stays as it is, fitted."""
        return type(self)(**self.get_params(deep=False))
