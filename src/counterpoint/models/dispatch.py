"""Ask the readers of models the questions that they answer, and find the readers.

- `read`: what is this final estimator, in its own input space?
- `read_step`: what does this step make of its columns?
- `finish`: what is this model on these columns? (`read` after the columns' map, unless the model
  holds other models: pipelines, searches, thresholds.)
- `inputs_of`: what columns was it fitted on?
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import singledispatch
from threading import RLock
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

from counterpoint.errors import InvalidInput, ModelNotFitted, UnsupportedModel
from counterpoint.families.registry import families
from counterpoint.models.columns import Columns, place
from counterpoint.models.form import Form
from counterpoint.numerics import FloatArray

Answer = TypeVar("Answer", bound=Callable[..., Any])

QUIET = RLock()
"""Held while warnings are off, which they are for all threads: if a second one began before the
first had ended, they would stay off."""

NAMED: dict[tuple[Any, str, str], Callable[[Any], Any]] = {}
"""A question, a package and a class in it → the reader that answers; see `by_name`."""


@contextmanager
def quiet() -> Iterator[None]:
    """Turn warnings off while a model is asked, for example with an array if it knows names."""
    with QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --- the questions ---


@singledispatch
def read(model: Any) -> Form:
    """Read a fitted final estimator as a form over its own inputs.

    Add yours with ``@read.register(MyModel)``.

    Raises
    ------
    UnsupportedModel
        If there is no reader for its class, or its parameters make it one that cannot be read.
    ModelNotFitted
        If it has not been fitted.
    """
    families()  # registers their readers
    kind = type(model)
    reader = _reader(read, kind)
    if reader is not None:
        form: Form = reader(model)
        return form
    if _reader(finish, kind) is None:
        raise _refusal(kind)
    # It holds other models, such as a pipeline does: read it over its own inputs, as numbers.
    inputs = inputs_of(fitted(model))
    if inputs is None:
        raise UnsupportedModel(
            f"{kind.__name__} kept no note of the columns that it was fitted on. "
            "Pass the data or the features; inside another model it cannot be read."
        )
    form, columns = finish(model, Columns.inputs(inputs.count))
    return columns.lifted(form)


@singledispatch
def read_step(transformer: Any, columns: Columns) -> Columns:
    """Read what a fitted preprocessing step makes of its columns.

    Add yours with ``@read_step.register(MyTransformer)``; build the result with ``columns.affine``,
    ``columns.scaled``, ``columns.take`` or `counterpoint.models.by_running`.

    Raises
    ------
    UnsupportedModel
        If there is no reader for its class, or what it does is not affine.
    """
    reader = _named(read_step, type(transformer))  # registered classes do not come here
    if reader is not None:
        after: Columns = reader(transformer, columns)
        return after
    raise columns.refusal(
        transformer,
        "there is no reader for this kind of step. Use steps that are affine (scalers, PCA, "
        "selection, imputers) or encode categories, transform the data before fitting, or add a "
        "reader with @counterpoint.models.read_step.register.",
    )


@singledispatch
def finish(model: Any, columns: Columns) -> tuple[Form, Columns]:
    """Read a model on top of columns: its form over the encoded features, and the columns it got.

    Models that hold other models register here; every other model is `read`.
    """
    reader = _named(finish, type(model)) or finish_alone
    answer: tuple[Form, Columns] = reader(model, columns)
    return answer


def finish_alone(model: Any, columns: Columns) -> tuple[Form, Columns]:
    """Read a model that holds no other models on top of columns; see `finish`."""
    kind = type(model)
    fitted(model, columns.where)
    # GaussianNB, say: it is read over categories here, and over numbers by a family, which may
    # have been taken off.
    if _reader(finish, kind) is not None and _reader(read, kind) is None:
        raise _refusal(kind)
    try:
        form = read(model)
    except UnsupportedModel as error:
        if not columns.where:
            raise
        raise UnsupportedModel(f"Step {columns.where!r}: {error}") from error
    if form.width != len(columns):
        raise InvalidInput(
            f"Expected {form.width} inputs for {place(model, columns.where)}; "
            f"got {len(columns)} columns."
        )
    line = f"{type(model).__name__} as {type(form).__name__} over {form.width} inputs"
    noted = columns.seen(missing=form.takes_missing).noted(line)
    return (form if columns.is_identity else form.through(columns.map())), noted


@final
@dataclass(frozen=True)
class Inputs:
    """The columns that a model was fitted on."""

    count: int
    names: tuple[Hashable, ...] | None = None  # if it was fitted on a frame
    needed: tuple[int, ...] | None = None  # the positions of those that the model looks at
    ranges: tuple[tuple[float, float], ...] | None = None  # of each, if the model was told

    @classmethod
    def of(cls, model: Any) -> Inputs | None:
        """Return them by the attributes that estimators of scikit-learn have."""
        count = getattr(model, "n_features_in_", None)
        names = getattr(model, "feature_names_in_", None)
        if count is None:
            return None
        # LightGBM has NumPy's own strings, which messages would show as np.str_('age')
        plain = None if names is None else tuple(np.asarray(names).tolist())
        return cls(int(count), plain)


@singledispatch
def inputs_of(model: Any) -> Inputs | None:
    """Return the columns that a model or step was fitted on; None if it kept no note of them."""
    families()
    reader = _reader(inputs_of, type(model))
    return Inputs.of(model) if reader is None else reader(model)


# --- finding the reader ---


def by_name(package: str, *names: str, question: Any = read) -> Callable[[Answer], Answer]:
    """Register a function as the reader of classes of a package, by their names.

    So the package need not be imported. ``question`` is the one that it answers. Subclasses are
    read by it too; a class that is registered with the question itself comes first.
    """

    def register(function: Answer) -> Answer:
        NAMED.update({(question, package, name): function for name in names})
        return function

    return register


def packages() -> frozenset[str]:
    """Return the packages whose models are read by name, such as xgboost."""
    return frozenset(package for _, package, _ in named_readers())


def named_readers() -> frozenset[tuple[Any, str, str]]:
    """Return the classes that are read by name: the question, the package, and the class in it."""
    families()
    return frozenset(NAMED)


def has_reader(question: Any, kind: type) -> bool:
    """Return whether a question can be answered for a class: `read`, `read_step` or `finish`."""
    families()
    return _reader(question, kind) is not None


def require_reader(kind: type) -> None:
    """Raise `UnsupportedModel` if there is no reader for a class of models."""
    if not (has_reader(read, kind) or has_reader(finish, kind)):
        raise _refusal(kind)


def _reader(question: Any, kind: type) -> Callable[..., Any] | None:
    """Return the reader that answers a question for a class, or None."""
    registered: Callable[..., Any] = question.dispatch(kind)
    if registered is not question.dispatch(object):
        return registered
    return _named(question, kind)


def _named(question: Any, kind: type) -> Callable[..., Any] | None:
    """Return the reader registered by the name of a class or of a base of it, or None."""
    keys = [(question, _package(base), base.__name__) for base in kind.__mro__]
    return next((NAMED[key] for key in keys if key in NAMED), None)


READ = (
    "Counterpoint reads linear models, discriminant analysis, naive Bayes, scorecards and other "
    "additive models, nearest prototypes (the one nearest neighbour, too), trees, forests and "
    "boosted trees."
)
"""The advice on a model of which no package below is known."""
OTHER_TREES = (
    "Fit HistGradientBoostingClassifier, XGBClassifier or LGBMClassifier to the same rows instead."
)
INSTEAD = {
    "catboost": OTHER_TREES,
    "lightgbm.Booster": "Fit LGBMClassifier or LGBMRegressor with the same parameters instead.",
    "statsmodels": "Copy its parameters into the estimator of scikit-learn that computes the same.",
    "xgboost.Booster": "Save it with save_model, and load that into XGBClassifier or XGBRegressor.",
} | dict.fromkeys(
    ("keras", "tensorflow"), "Explain its last layer, copied into a linear model of scikit-learn."
)
"""A package, or a class of it → the advice on a model of it that has no reader."""


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _refusal(kind: type) -> UnsupportedModel:
    if "torch" in map(_package, kind.__mro__):
        return UnsupportedModel(
            f"{kind.__name__} cannot be read as it is. Pass the last layer over the features that "
            "come before it, as in counterpoint.LastLayer(module), and explain its inputs."
        )
    if issubclass(kind, Iterable | int | float | type(None)) and not hasattr(kind, "predict"):
        return UnsupportedModel(
            f"Expected a fitted model; got a {kind.__name__}, which is none. The model comes "
            "first, then its rows, then the target: explain(model, rows, target)."
        )
    names = [(_package(base), base.__name__) for base in kind.__mro__]
    advice = (INSTEAD[k] for name in names for k in (".".join(name), name[0]) if k in INSTEAD)
    return UnsupportedModel(
        f"{kind.__name__} cannot be read exactly. {next(advice, READ)} What to do with other "
        "models is in docs/faq.md; a model of your own needs a reader with "
        "@counterpoint.models.read.register(YourModel)."
    )


# --- steps ---


def through_step(name: str, step: Any, columns: Columns) -> Columns:
    """Read a named step of a pipeline, with its path in messages and a line in the reading."""
    inside = columns.at(name)
    if step is None or isinstance(step, str):  # "passthrough": such a step does nothing
        after = inside
    else:
        after = read_step(fitted(step, inside.where), inside)
        inside.require_straight(step, after)
        if len(after.steps) == len(columns.steps):  # the steps in a container have noted lines
            after = after.noted(f"{type(step).__name__}, {len(columns)} → {len(after)} columns")
    return replace(after, where=columns.where)


def fitted(model: Any, where: str = "") -> Any:
    """Return the model; raise `ModelNotFitted` with its path if it has not been fitted."""
    if not isinstance(model, BaseEstimator) or isinstance(model, Pipeline | FeatureUnion):
        return model  # the steps of a pipeline are checked one by one
    try:
        check_is_fitted(model)
    except NotFittedError:
        if getattr(model, "_is_fitted", False):  # the attribute by which optbinning says so
            return model
        raise ModelNotFitted(
            f"Expected a fitted model; {place(model, where)} has not been fitted. "
            "Call fit before explaining."
        ) from None
    except TypeError:  # an estimator without fit: nothing to check
        pass
    return model


# --- fitted attributes ---


def dense(values: Any) -> FloatArray:
    """Convert an array or sparse matrix to a float64 array."""
    return np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float64)


def classes_of(model: Any) -> NDArray[Any]:
    """Return the labels (k,) of a fitted classifier with one output and at least two classes."""
    classes, name = fitted(model).classes_, type(model).__name__
    if isinstance(classes, list) or np.ndim(classes) != 1:
        raise UnsupportedModel(
            f"{name} has several outputs; expected one. "
            "Fit one model for each output and explain them one by one."
        )
    if len(classes) < 2:
        raise UnsupportedModel(
            f"{name} knows only the class {classes.tolist()[0]!r}, so nothing "
            "changes its decision. Fit it on data with two classes or more."
        )
    if any(label != label for label in classes.tolist()):  # noqa: PLR0124 (so is NaN)
        raise UnsupportedModel(
            f"{name} has NaN among its classes, which no prediction is equal to. "
            "Fit it on labels without NaN."
        )
    return np.asarray(classes)
