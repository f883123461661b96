"""Models from files: skops, which is safe to load; pickles only if they are trusted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import counterpoint as cp

__all__ = ["labels_of", "load_model"]

PICKLES = (".pkl", ".pickle", ".joblib")
BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BadZipFile,
    EOFError,
    ImportError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
)
"""What reading a damaged or foreign file raises, in skops and in pickle."""
LVQ = ("GLVQ", "GMLVQ", "GRLVQ", "LGMLVQ", "LMRSLVQ", "MRSLVQ", "RSLVQ")
OWN = (
    *(f"counterpoint.lvq.estimators.{name}" for name in LVQ),
    "counterpoint.privacy.svc.PrivateSVC",
)
"""The estimators of this package, which run nothing that a file brings along."""
SAFE = (
    "numpy.dtype",
    "sklearn.metrics._scorer._PassthroughScorer",
    *(f"sklearn.model_selection._split.{name}" for name in ("KFold", "StratifiedKFold")),
)
"""What else imputers and searches hold: descriptions of numbers, of scores and of folds."""


def load_model(path: Path, *, trust_pickle: bool = False, trust: Sequence[str] = ()) -> Any:
    """The fitted model of a file.

    Raises
    ------
    InvalidInput
        If the file is of another kind, damaged, or holds what is not trusted.
    UnsupportedModel
        If it holds what is not trusted in a model that could not be explained anyway.
    """
    if path.suffix == ".skops":
        return _load_skops(path, trust)
    if path.suffix not in PICKLES:
        raise cp.InvalidInput(
            f"Expected a model in a .skops file; got {path.name}. Save yours with "
            "skops.io.dump(model, 'model.skops')."
        )
    if not trust_pickle:
        raise cp.InvalidInput(
            f"{path.name} is a pickle, and loading a pickle can run any program that its author "
            "put in. Save the model with skops.io.dump(model, 'model.skops') instead; if you know "
            "where the file comes from, add --trust-pickle."
        )
    return _load_pickle(path)


def _load_skops(path: Path, trust: Sequence[str]) -> Any:
    from skops import io

    path.open("rb").close()
    try:
        found = io.get_untrusted_types(file=path)
        unknown = [t for t in found if t not in (*trust, *OWN, *SAFE)]
        if not unknown:
            return io.load(path, trusted=found)
    except BROKEN as error:
        raise cp.InvalidInput(f"{path.name} is no skops file that can be read: {error}.") from error
    _refuse_unreadable(path)
    options = " ".join(f"--trust {name}" for name in unknown)
    raise cp.InvalidInput(
        f"{path.name} holds types that could run code of their own: {', '.join(unknown)}. If you "
        f"know what they do, add {options}."
    )


def _refuse_unreadable(path: Path) -> None:
    """Raise if the model is of a class of scikit-learn that nobody reads: trust would not help."""
    from importlib import import_module

    from counterpoint.models import require_reader

    for module, name in _last_step(json.loads(ZipFile(path).read("schema.json"))):
        if module.partition(".")[0] == "sklearn":
            require_reader(getattr(import_module(module), name))


def _last_step(node: Any) -> Iterator[tuple[str, str]]:
    """Module and class of what a file holds; of a pipeline, of its last step."""
    module, name = node["__module__"], node["__class__"]
    if name != "Pipeline":
        yield module, name
        return
    steps = node["content"]["content"]["steps"]["content"]
    yield from _last_step(steps[-1]["content"][-1])


def _load_pickle(path: Path) -> Any:
    import pickle

    import joblib

    path.open("rb").close()
    try:
        return joblib.load(path)
    except (*BROKEN, pickle.UnpicklingError) as error:
        raise cp.InvalidInput(f"{path.name} is no pickle that can be read: {error}.") from error


def labels_of(model: Any) -> list[Any] | None:
    """The class labels of a classifier; None for a regressor."""
    labels = getattr(model, "classes_", None)
    return None if labels is None else list(labels.tolist())
