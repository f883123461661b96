"""Explanations kept with an AnnData, in a form that its files can hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoint.errors import InvalidInput
from counterpoint.groups.translations import Translations

__all__ = ["from_anndata", "to_anndata"]

KEY = "group_translations"


def to_anndata(translations: Translations, adata: Any, key: str = KEY) -> None:
    """Keep an explanation in ``adata.uns``.

    Parameters
    ----------
    translations
        The explanation.
    adata
        An AnnData; it is changed in place.
    key
        Under which name.
    """
    adata.uns[key] = {
        "groups": np.array([str(group) for group in translations.groups]),
        "names": np.array([str(name) for name in translations.names]),
        "columns": translations.columns,
        "levels": translations.levels,
        "costs": translations.costs,
        "strength": float(translations.strength),
        "truncate": -1 if translations.truncate is None else int(translations.truncate),
    }


def from_anndata(adata: Any, key: str = KEY) -> Translations:
    """The explanation that `to_anndata` kept; groups and names are text.

    Parameters
    ----------
    adata
        An AnnData.
    key
        Under which name.

    Raises
    ------
    InvalidInput
        If there is none under this name.
    """
    if key not in adata.uns:
        raise InvalidInput(
            f"Expected an explanation in uns[{key!r}]; there is none. Keep one with to_anndata."
        )
    kept = adata.uns[key]
    truncate = int(kept["truncate"])
    return Translations(
        tuple(map(str, kept["groups"])),
        tuple(map(str, kept["names"])),
        np.asarray(kept["columns"], dtype=np.intp),
        np.asarray(kept["levels"], dtype=np.float64),
        np.asarray(kept["costs"], dtype=np.float64),
        float(kept["strength"]),
        None if truncate < 0 else truncate,
    )
