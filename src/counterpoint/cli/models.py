"""`counterpoint models` lists the models that can be read, and the steps before them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from counterpoint.cli.answers import console

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
"""Remarks on classes, in the words of docs/models.md."""
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
    """Return name, package and a line about each class that can be read, by section."""
    from counterpoint.models import LastLayer
    from counterpoint.models.dispatch import inputs_of, named_readers, read_step

    classifiers, regressors, _, steps = SECTIONS
    entries: dict[str, list[tuple[str, str, str]]] = {section: [] for section in SECTIONS}
    for section, name, estimator in _of_scikit_learn():
        entries[section].append((name, "scikit-learn", _line(name, estimator)))
    # Models of other packages, which need not be installed, have readers by their names.
    by_name = {
        (package, name, question is read_step)
        for question, package, name in named_readers()
        if question is not inputs_of
    }
    for package, name, is_step in by_name:
        is_regressor = name.endswith("Regressor") or name == "Scorecard"
        section = steps if is_step else regressors if is_regressor else classifiers
        entries[section].append((name, package, _line(name, None)))
    entries[classifiers].append(("LastLayer", "counterpoint", _line("LastLayer", LastLayer)))
    return entries


def _of_scikit_learn() -> Iterator[tuple[str, str, type]]:
    """Yield section, name and class of all estimators of scikit-learn that can be read."""
    from sklearn.base import ClassifierMixin
    from sklearn.utils import all_estimators

    from counterpoint.models.dispatch import finish, has_reader, read, read_step
    from counterpoint.models.estimators import NOT_READ

    classifiers, regressors, around, steps = SECTIONS
    for name, estimator in all_estimators():
        is_read = estimator not in NOT_READ
        is_model = has_reader(finish, estimator) or (is_read and has_reader(read, estimator))
        is_step = is_read and has_reader(read_step, estimator)
        if name in AROUND and (is_model or is_step):
            yield around, name, estimator
            continue
        if is_model:
            is_classifier = issubclass(estimator, ClassifierMixin)
            yield classifiers if is_classifier else regressors, name, estimator
        if is_step:
            yield steps, name, estimator


def _line(name: str, estimator: Any) -> str:
    """Return a line about a class: the extra that it needs, and a remark or its own first line."""
    remark = REMARKS.get(name, ENCODED if name in ONLY_CATEGORIES else "").replace("`", "")
    if not remark and estimator is not None:
        remark = next(iter((estimator.__doc__ or "").strip().splitlines()), "")
    if name in EXTRAS:
        remark = f"needs the extra {EXTRAS[name]}{'; ' if remark else ''}{remark}"
    return remark
