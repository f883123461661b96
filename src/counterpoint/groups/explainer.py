"""What the estimators share: reading rows, what is seen of them, answering, judging."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from counterpoint.errors import InvalidInput, ModelNotFitted
from counterpoint.groups.limits import Limits, prices
from counterpoint.groups.path import Candidate, Count
from counterpoint.groups.points import Points, away, outside
from counterpoint.groups.problem import Fusion, Objective, levels_of, moving
from counterpoint.groups.quality import Quality
from counterpoint.groups.reading import read_model
from counterpoint.groups.refinement import SmoothedRates
from counterpoint.groups.representations import Matrix, Representation, dense, stages
from counterpoint.groups.tables import Groups, Intake, read_rows, spread_of, stratified_folds
from counterpoint.groups.translations import Translations
from counterpoint.numerics import FloatArray
from counterpoint.rows.progress import track

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["GroupExplainer", "Scene"]


@final
@dataclass(frozen=True, eq=False)
class Scene:
    """What a fit learns of groups of rows before anything is minimised."""

    points: Points  # some rows of each group, by which the choice between explanations is made
    intake: Intake  # what was taken of the columns
    means: FloatArray  # (l, d) of the groups, in feature units
    base: FloatArray  # (l, h) the same after the affine part of the representation
    targets: FloatArray  # (l, m) the means of the representations of their rows
    price: FloatArray  # (d,) what a change of one unit costs
    radius: float  # ε, how near in the representation is near
    low: FloatArray  # (d,) the smallest values and
    high: FloatArray  # (d,) the largest
    scale: FloatArray  # (d,) the units of offsets: standard deviations, 1 where they are 0
    extent: float  # of the rows in the representation
    known: frozenset[bytes]  # the rows in the representation, as bytes

    @classmethod
    def of(
        cls,
        representation: Representation,
        matrix: Matrix,
        intake: Intake,
        groups: Groups,
        *,
        costs: Any,
        radius: float | None,
    ) -> Scene:
        """Learn from rows and groups; an error if they do not fit together."""
        if representation.n_features != matrix.shape[1]:
            raise InvalidInput(
                f"Expected rows of {representation.n_features} features, which the representation "
                f"takes; got {matrix.shape[1]}. Pass the columns that it was fitted on, in order."
            )
        groups.require(matrix.shape[0])
        if radius is not None and not (np.isreal(radius) and radius > 0.0):
            raise InvalidInput(
                f"Expected a positive radius; got {radius!r}. Pass None for the paper's rule."
            )
        every = Points.of(matrix, groups, stages(representation))
        matrix, groups, spread = every.matrix, every.groups, spread_of(every.matrix)
        extent = float(np.ptp(every.values, axis=0).max()) or 1.0
        # Choices look at 10 000 moved rows over all pairs, but at 20 of each group at least.
        shown = groups.thinned(max(20, 10_000 // len(groups) ** 2))
        return cls(
            every.take(shown),
            intake,
            groups.means(matrix),
            groups.means(every.hidden),
            groups.means(every.values),
            prices(costs, spread, intake.names),
            every.radius if radius is None else float(radius),
            dense(matrix.min(axis=0)),
            dense(matrix.max(axis=0)),
            np.where(spread > 0.0, spread, 1.0),
            extent,
            frozenset(every.keys(extent)),
        )

    @property
    def labels(self) -> tuple[Any, ...]:
        """l labels of groups."""
        return self.points.groups.labels

    @property
    def names(self) -> tuple[Hashable, ...]:
        """d names of features."""
        return self.intake.names

    def __repr__(self) -> str:
        return f"<Scene: {len(self.labels)} groups, {len(self.names)} features>"

    def task(self, limits: Limits) -> Objective:
        """What is minimised, over offsets in units of ``scale``."""
        count, parts = len(self.labels), self.points.parts
        fusion = Fusion(
            count,
            2.0 / (count * (count - 1)) * self.price * self.scale,
            limits.reach(self.means, self.names) / self.scale,
            limits.monotone(self.names),
        )
        matrix = sparse.diags_array(self.scale, format="csr") @ parts.first.matrix
        return Objective(self.base, self.targets, parts, matrix, fusion)

    def centred(self, task: Objective) -> FloatArray:
        """(l, d) the means in units of ``scale``, in the middle of what offsets may be."""
        middle = (self.means.max(axis=0) + self.means.min(axis=0)) / 2.0
        return task.fusion.nearest((self.means - middle) / self.scale)

    def translations(self, D: FloatArray, strength: float) -> Translations:
        """Offsets in units of ``scale`` as translations in feature units."""
        columns = moving(D)
        levels, costs = D[:, columns] * self.scale[columns], self.price[columns]
        return Translations(self.labels, self.names, columns, levels, costs, float(strength))

    def aim(self, task: Objective, D: FloatArray) -> SmoothedRates:
        """What is minimised when offsets in units of ``scale`` are polished."""
        columns = moving(D)
        scale = self.scale[columns]
        return SmoothedRates(
            self.points,
            [cells / scale for cells in self.points.cells(columns)],
            self.low[columns] / scale,
            self.high[columns] / scale,
            dense(task.matrix[columns]),
            self.price[columns] * scale,
            levels_of(D[:, columns]),
            self.radius,
        )

    def candidate(self, D: FloatArray, loss: float, strength: float) -> Candidate:
        """What offsets in units of ``scale`` are as an explanation."""
        translations = self.translations(D, strength)
        return Candidate(translations, D, loss, *self.rates(translations))

    def rates(self, translations: Translations) -> tuple[float, float]:
        """Correctness and coverage, the means over pairs, on the rows of the fit."""
        off = ~np.eye(len(self.labels), dtype=bool)
        correctness, coverage = self.points.rates(translations, self.radius, diagonal=False)
        return float(correctness[off].mean()), float(coverage[off].mean())

    def judge(self, translations: Translations, points: Points) -> Quality:
        """How good translations are for rows, which are held against those of the fit."""
        return Quality(
            translations.groups,
            self.radius,
            *points.rates(translations, self.radius),
            translations.counts.astype(np.float64),
            translations.sizes,
            outside(translations, points, self.low, self.high),
            away(translations, points, self.scale),
            float(np.mean([key in self.known for key in points.keys(self.extent)])),
        )


class GroupExplainer(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator of one explanation for all pairs of groups; subclasses say how it is found."""

    representation: Any
    k: int | None
    costs: ArrayLike | Mapping[Any, float] | None
    radius: float | None

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
        representation, intake = read_model(self.representation)
        self._learn(representation, *read_rows(X, groups, intake), progress=progress)
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
        representation, intake = read_model(self.representation)
        rows, took, members = read_rows(X, groups, intake)
        members.require(rows.shape[0])
        parts: list[list[Quality]] = []
        splits = list(stratified_folds(members, folds, check_random_state(random_state)))
        with track(folds, show=progress, unit="folds") as done:
            for learn, test in splits:
                model = type(self)(**self.get_params(deep=False))
                own = rows[learn], took, members.take(learn)
                model._learn(representation, *own, progress=False)  # noqa: SLF001 (its own class)
                answers = [model.translations_ if k == self.k else model.sparse(k) for k in ks]
                there = rows[test], members.take(test)
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
        own = dense(rows[members.rows(answer.position(start))])
        moved = parts.values(own + answer.translation(start, end))
        return draw_map(parts.values(rows), members, moved, (start, end), ax)

    def _read(self, X: Any, groups: Any) -> tuple[Matrix, Groups]:
        """Rows of the same features and groups as those of the fit."""
        rows, _, members = read_rows(X, groups, self.scene_.intake)
        return rows, members.ordered(self.groups_)

    def _learn(self, representation: Representation, *read: Any, progress: bool | None) -> None:
        """Fit on rows that have been read."""
        scene = Scene.of(representation, *read, costs=self.costs, radius=self.radius)
        self.scene_, self.radius_ = scene, scene.radius
        self.groups_, self.n_features_in_ = scene.labels, len(scene.names)
        self.translations_ = self._explain(scene, progress=progress)

    def _judge(self, translations: Translations, rows: Matrix, groups: Groups) -> Quality:
        if (groups.sizes == 0).any():
            empty = groups.labels[int(np.flatnonzero(groups.sizes == 0)[0])]
            raise InvalidInput(
                f"Expected rows of every group of the fit; group {empty!r} has none. Pass some."
            )
        points = Points.of(rows, groups, self.scene_.points.parts)
        return self.scene_.judge(translations, points)

    def _answer(self) -> Translations:
        self._fitted()
        return self.translations_

    def _fitted(self) -> Scene:
        """What the fit saw; an error before there was one."""
        if "scene_" not in vars(self):
            raise ModelNotFitted(f"{type(self).__name__} has not been fitted. Call fit first.")
        return self.scene_

    def __sklearn_clone__(self) -> Self:
        """A copy that is not fitted; the representation stays as it is, fitted."""
        return type(self)(**self.get_params(deep=False))
