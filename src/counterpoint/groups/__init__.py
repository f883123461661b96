"""Explanations of the differences between groups of points, all consistent with each other.

Groups are seen in a low-dimensional representation. `GroupTranslations` finds a sparse change from
each group to each other such that changed rows of the one look like rows of the other; the way back
is the opposite change, and ways over other groups add up. `DifferenceOfMeans` is its baseline.
"""

from __future__ import annotations

from counterpoint.groups.estimators import DifferenceOfMeans, GroupTranslations
from counterpoint.groups.fit_data import Limits
from counterpoint.groups.group_labels import Groups
from counterpoint.groups.path import TranslationPath
from counterpoint.groups.quality import Quality, similarity
from counterpoint.groups.reading import represent
from counterpoint.groups.representations import (
    Affine,
    Composed,
    FiniteDifferences,
    Network,
    Representation,
    TorchFunction,
)
from counterpoint.groups.translations import Translations, from_anndata, to_anndata
from counterpoint.pictures.plots import plot_curves

__all__ = [
    "Affine",
    "Composed",
    "DifferenceOfMeans",
    "FiniteDifferences",
    "GroupTranslations",
    "Groups",
    "Limits",
    "Network",
    "Quality",
    "Representation",
    "TorchFunction",
    "TranslationPath",
    "Translations",
    "from_anndata",
    "plot_curves",
    "represent",
    "similarity",
    "to_anndata",
]
