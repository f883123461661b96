"""`DifferenceOfMeans`: what everybody does, to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from numpy.typing import ArrayLike

from counterpoint.errors import InvalidInput
from counterpoint.groups.explainer import GroupExplainer
from counterpoint.groups.path import Count, check_k
from counterpoint.groups.scene import Scene
from counterpoint.groups.translations import Translations

__all__ = ["DifferenceOfMeans"]


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
