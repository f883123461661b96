"""`counterpoint models`: the models that can be read, and the steps that may come before them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from counterpoint.cli.answers import console

__all__ = ["ONLY_CATEGORIES", "REMARKS", "SECTIONS", "models", "readable"]

SECTIONS = ("Classifiers", "Regressors", "Around a model", "Steps before a model")
AROUND = frozenset(
    {
        *(
            "CalibratedClassifierCV",
            "ColumnTransformer",
            "FeatureUnion",
            "FixedThresholdClassifier",
        ),
        *("FrozenEstimator", "GridSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV"),
        *("Pipeline", "RFE", "RFECV", "RandomizedSearchCV", "TransformedTargetRegressor"),
        "TunedThresholdClassifierCV",
    }
)
"""Models that hold other models, and are read as these."""
ENCODED = "of encoded categories; not of numbers"
REMARKS = {
    **dict.fromkeys(("SVC", "NuSVC", "SVR", "NuSVR"), 'kernel="linear"'),
    **dict.fromkeys(("GridSearchCV", "FrozenEstimator"), "read as their best model"),
    "KNeighborsClassifier": "one neighbour",
    **dict.fromkeys(
        ("FixedThresholdClassifier", "TunedThresholdClassifierCV"),
        "over linear classifiers of two classes, not over trees",
    ),
    "BernoulliNB": "over binary columns",
    "CalibratedClassifierCV": "over linear classifiers, not over trees",
    "CategoricalNB": "after an `OrdinalEncoder`",
    "LastLayer": "the last layer of a torch classifier, over what comes before it",
    "OneVsRestClassifier": "over linear models",
    "QuantileTransformer": "to a uniform distribution",
    "FunctionTransformer": "of `np.square`, `np.abs`, `np.negative`",
    "TransformedTargetRegressor": "over linear regressors, not over trees",
}
"""What else to know of a class, in the words of docs/models.md."""
ONLY_CATEGORIES = frozenset(
    {
        *("AdditiveChi2Sampler", "Normalizer", "Nystroem", "PolynomialCountSketch"),
        *("PowerTransformer", "RBFSampler", "SkewedChi2Sampler"),
    }
)
EXTRAS = {"LastLayer": "torch", "PrivateSVC": "privacy"}


def models() -> None:
    """List the models that can be read, and the steps that may come before them.

    A model that is not listed is refused in a sentence. See also the page on supported models.

    Examples
    --------
    counterpoint models
    """
    from rich.table import Table

    out = console()
    for section in SECTIONS:
        out.print(section, style="bold")
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column(min_width=32, overflow="fold")
        table.add_column(min_width=12, style="dim", overflow="fold")
        table.add_column(max_width=out.width - 48, no_wrap=True, overflow="ellipsis")
        for name, package, line in sorted(readable()[section]):
            table.add_row(f"  {name}", package.replace("_", "-"), line)
        out.print(table)
        out.print()


def readable() -> dict[str, list[tuple[str, str, str]]]:
    """Return by section the name of each class, its package, and a line about it."""
    from counterpoint.models import LastLayer

    entries: dict[str, list[tuple[str, str, str]]] = {section: [] for section in SECTIONS}
    for name, kind in _of_scikit_learn():
        for section in _sections(name, kind):
            entries[section].append((name, "scikit-learn", _line(name, kind)))
    for package, name, is_step in _by_name():
        regresses = name.endswith("Regressor") or name == "Scorecard"
        section = SECTIONS[3] if is_step else SECTIONS[1 if regresses else 0]
        entries[section].append((name, package, _line(name, None)))
    entries[SECTIONS[0]].append(("LastLayer", "counterpoint", _line("LastLayer", LastLayer)))
    return entries


def _of_scikit_learn() -> Iterator[tuple[str, type]]:
    from sklearn.utils import all_estimators

    from counterpoint.models.dispatch import finish, has_reader, read, read_step
    from counterpoint.models.estimators import NOT_READ

    for name, kind in all_estimators():
        answered = any(has_reader(question, kind) for question in (read, finish, read_step))
        if answered and (kind not in NOT_READ or has_reader(finish, kind)):
            yield name, kind


def _by_name() -> set[tuple[str, str, bool]]:
    from counterpoint.models.dispatch import inputs_of, named_readers, read_step

    return {
        (package, name, question is read_step)
        for question, package, name in named_readers()
        if question is not inputs_of
    }


def _sections(name: str, kind: type) -> Iterator[str]:
    from sklearn.base import ClassifierMixin

    from counterpoint.models.dispatch import finish, has_reader, read, read_step

    if name in AROUND:
        yield SECTIONS[2]
        return
    if has_reader(read, kind) or has_reader(finish, kind):
        yield SECTIONS[0 if issubclass(kind, ClassifierMixin) else 1]
    if has_reader(read_step, kind):
        yield SECTIONS[3]


def _line(name: str, kind: Any) -> str:
    """Return a remark, the extra that is needed, or else what the class says of itself."""
    remark = REMARKS.get(name, ENCODED if name in ONLY_CATEGORIES else "").replace("`", "")
    if not remark and kind is not None:
        remark = next(iter((kind.__doc__ or "").strip().splitlines()), "")
    if name in EXTRAS:
        remark = f"needs the extra {EXTRAS[name]}{'; ' if remark else ''}{remark}"
    return remark
