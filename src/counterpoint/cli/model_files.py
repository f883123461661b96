"""Load fitted models from files: skops, which is safe; pickles only if they are trusted."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, final
from zipfile import BadZipFile, ZipFile

import counterpoint as cp
from counterpoint.cli.answers import plain
from counterpoint.cli.files import FORMATS, require_file

DAMAGED = (
    *(ArithmeticError, AssertionError, AttributeError, BadZipFile, EOFError),
    *(ImportError, LookupError, MemoryError, RuntimeError, TypeError, ValueError, zlib.error),
)
"""The exceptions that reading a damaged or foreign file raises, in skops and in pickle."""
LVQ = ("GLVQ", "GMLVQ", "GRLVQ", "LGMLVQ", "LMRSLVQ", "MRSLVQ", "RSLVQ")
SAFE = {
    "collections": ("OrderedDict",),
    "counterpoint.lvq.estimators": LVQ,
    "counterpoint.privacy.accountant": ("BudgetAccountant",),
    "counterpoint.privacy.svc": ("PrivateSVC",),
    "functools": ("partial",),  # of what is safe itself
    "numpy": ("dtype",),
    "scipy._lib.array_api_compat.numpy._aliases": ("asarray",),
    "scipy.interpolate._bsplines": ("BSpline",),
    "scipy.sparse._csc": ("csc_array", "csc_matrix"),
    "scipy.sparse._csr": ("csr_array", "csr_matrix"),
    "sklearn._loss.loss": ("HalfTweedieLoss", "HalfTweedieLossIdentity"),
    "sklearn.calibration": ("_CalibratedClassifier", "_SigmoidCalibration", "_TemperatureScaling"),
    "sklearn.ensemble._hist_gradient_boosting.predictor": ("TreePredictor",),
    "sklearn.impute._iterative": ("IterativeImputer", "_ImputerTriplet"),
    "sklearn.metrics._dist_metrics": ("EuclideanDistance", "EuclideanDistance64"),
    "sklearn.metrics._scorer": ("_CurveScorer", "_PassthroughScorer", "_Scorer"),
    "sklearn.model_selection._search_successive_halving": (
        *("HalvingGridSearchCV", "HalvingRandomSearchCV"),
    ),
    "sklearn.neighbors._ball_tree": ("BallTree", "BallTree64"),
    "sklearn.neighbors._kd_tree": ("KDTree", "KDTree64"),
    "sklearn.tree._tree": ("Tree",),
    "sklearn.utils._bunch": ("Bunch",),
    "sklearn.utils._metadata_requests": ("MetadataRequest", "MethodMetadataRequest"),
    "sklearn.utils.validation": ("check_array",),
}
"""Types in files of models that skops does not take by itself, by module. They run nothing that a
file brings along: the estimators of this package, and parts of scikit-learn's. Compiled trees are
here because `check_indices` looks at what their nodes point to before they are used."""
SAFE_MODULES = (
    "sklearn.feature_selection._mutual_info",
    "sklearn.feature_selection._univariate_selection",
    "sklearn.metrics._classification",
    "sklearn.metrics._ranking",
    "sklearn.metrics._regression",
    "sklearn.model_selection._split",
)
"""Modules that define scores and folds, and nothing else: all that is defined there is safe."""


@final
@dataclass(frozen=True)
class Trust:
    """The options that say what the file of a model may do.

    Model file
    ----------
    trust_pickle
        Load a .pkl, .pickle or .joblib file, though loading it can run any program that its author
        put in.
    trust : NAME
        Load types that are not known to be safe from a .skops file: those of a package, such as
        xgboost or lightgbm, or one by its full name. Repeatable.
    trust_size
        Load a .skops file though it is packed so tightly that it takes far more memory than its
        size says.
    """

    trust_pickle: bool = False
    trust: list[str] | None = None
    trust_size: bool = False

    def load(self, path: Path) -> Any:
        """Load the fitted model of a file.

        Raises
        ------
        InvalidInput
            If the file is of another kind, damaged, or holds what is not trusted.
        UnsupportedModel
            If it holds what is not trusted in a model that could not be explained anyway.
        """
        import pickle

        import joblib

        require_file(path)
        is_skops = path.suffix == ".skops"
        if not (is_skops or path.suffix in (".pkl", ".pickle", ".joblib")):
            advice = "Save yours with skops.io.dump(model, 'model.skops')."
            if path.suffix in FORMATS:
                advice = "The model comes first, then its rows."
            raise cp.InvalidInput(f"Expected a model in a .skops file; got {path.name}. {advice}")
        if not (is_skops or self.trust_pickle):
            raise cp.InvalidInput(
                f"{path.name} is a pickle, and loading a pickle can run any program that its "
                "author put in. Save the model with skops.io.dump(model, 'model.skops') instead; "
                "if you know where the file comes from, add --trust-pickle."
            )
        try:
            return self._load_skops(path) if is_skops else joblib.load(path)
        except (*DAMAGED, pickle.UnpicklingError) as error:
            if isinstance(error, cp.CounterpointError):
                raise
            kind = "skops file" if is_skops else "pickle"
            raise cp.InvalidInput(f"{path.name} is not a readable {kind}: {error}.") from error

    def _load_skops(self, path: Path) -> Any:
        """Load a skops file whose types and size are trusted, and check its indices."""
        from skops import io

        from counterpoint.cli.indices import check_indices

        trusted = self.trust or []
        for name in trusted:
            if name in ("builtins", *sys.stdlib_module_names):
                raise cp.InvalidInput(
                    f"--trust {name} would let a file call anything that Python can do. Name the "
                    "one type that you trust."
                )
        if not self.trust_size:
            _refuse_bomb(path)
        types = io.get_untrusted_types(file=path)
        prefixes = tuple(f"{entry}." for entry in trusted)
        unknown = [
            name for name in types if not (_is_safe(name) or f"{name}.".startswith(prefixes))
        ]
        if unknown:
            _refuse_unreadable(path)
            raise _untrusted(path.name, unknown)
        model = io.load(path, trusted=types)
        check_indices(model)
        return model


def _is_safe(name: str) -> bool:
    """Return whether a type, by its full name, is among `SAFE` or defined in `SAFE_MODULES`."""
    module, _, attribute = name.rpartition(".")
    if module in SAFE_MODULES:  # what such a module only imports is not safe
        value = getattr(import_module(module), attribute, None)
        return getattr(value, "__module__", None) == module
    return attribute in SAFE.get(module, ())


def _untrusted(file: str, unknown: Sequence[str]) -> cp.InvalidInput:
    """Return the error that names unknown types, and packages for those of a known one."""
    from counterpoint.models import packages

    supported = packages()
    entries = dict.fromkeys(
        package if (package := name.partition(".")[0]) in supported else name for name in unknown
    )
    options = " ".join(f"--trust {entry}" for entry in entries)
    return cp.InvalidInput(
        f"{file} holds types that could run code of their own: {', '.join(unknown)}. If you know "
        f"where it comes from, add {options}."
    )


def _refuse_bomb(path: Path) -> None:
    """Raise if a small file would take much memory, before anything is unpacked."""
    # In bytes: 64 MB for any model, or 20 times the file, for fitted numbers are compressed two to
    # ten times. A character of a schema takes 16, since two of them make an object of 32.
    most = max(2**26, 20 * path.stat().st_size)
    with ZipFile(path) as file:
        sizes = {member.filename: member.file_size for member in file.infolist()}
        size = 16 * sizes["schema.json"]
        nodes = [json.loads(file.read("schema.json"))] if size <= most else []
    while nodes:  # an array counts as often as it is read
        node = nodes.pop()
        if isinstance(node, dict):
            size += sizes.get(str(node.get("file")), 0)
            nodes += node.values()
        elif isinstance(node, list):
            nodes += node
    if size > most:
        raise cp.InvalidInput(
            f"{path.name} has {plain(path.stat().st_size / 1e6)} MB, and takes about "
            f"{plain(size / 1e6)} MB when it is unpacked. If you know where it comes from, add "
            "--trust-size."
        )


def _refuse_unreadable(path: Path) -> None:
    """Raise if the model is of a class of scikit-learn without a reader: trust would not help."""
    from counterpoint.models import require_reader

    node = json.loads(ZipFile(path).read("schema.json"))
    while node["__class__"] == "Pipeline":  # its last step decides
        node = node["content"]["content"]["steps"]["content"][-1]["content"][-1]
    if node["__module__"].startswith("sklearn."):
        kind = getattr(import_module(node["__module__"]), node["__class__"])
        if hasattr(kind, "predict"):
            require_reader(kind)
