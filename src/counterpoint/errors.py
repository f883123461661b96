"""Define every error of counterpoint, below `CounterpointError`, and checks of arguments.

Each message is one sentence or two: the expected value, the value that came, and what to do. Checks
name the argument by ``what``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, KeysView, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray


class CounterpointError(Exception):
    """Base of every error that counterpoint raises itself."""


class InvalidInput(CounterpointError, ValueError):
    """An argument cannot be used; the message says what to pass instead."""


@final
class OutOfRange(InvalidInput, IndexError):
    """There is nothing at this position."""


@final
class InvalidSpec(InvalidInput):
    """A problem file (TOML or JSON) says something that cannot be read."""


class ModelError(CounterpointError):
    """Base of all errors about a model."""


@final
class UnsupportedModel(ModelError, TypeError):
    """There is no reader for the model, or one of its steps cannot be read exactly."""


@final
class ModelNotFitted(ModelError, ValueError):
    """The model, or a step of it, has not been fitted."""


@final
class ReaderMismatch(ModelError):
    """The form that was read from a model predicts something else than ``model.predict``."""


@final
class NoSolver(CounterpointError):
    """No solver takes every part of the program; the message names what is missing."""


@final
class SolverFailure(CounterpointError):
    """A solver backend broke; the backend's own error is the cause of this one."""


@final
class NoAnswer(CounterpointError):
    """A row has no counterfactual; raised by ``Counterfactual.raise_for_status``."""


@final
class MissingExtra(CounterpointError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


@final
class BudgetError(CounterpointError):
    """The releases of private rows would cost more than their accountant allows."""


@final
class PrivacyLeakWarning(UserWarning):
    """A private model is used in a way that tells something which its noise does not cover."""


def missing_extra(need: str, extra: str, otherwise: str = "") -> MissingExtra:
    """Return the error for a package that an optional part needs, with the command that brings it.

    It names a checkout, because the package index has no counterpoint.

    Parameters
    ----------
    need
        The part and the package that it needs: ``"Pictures need matplotlib"``.
    extra
        One of the extras of ``pyproject.toml``.
    otherwise
        A sentence that says what can be done without the package.
    """
    return MissingExtra(
        f"{need}, which is not installed. "
        f"In a checkout of counterpoint, run: pip install '.[{extra}]'. {otherwise}".rstrip()
    )


EXPLAINER = ("an Explainer", " Pass cp.Explainer(model, data=...).")
"""The last arguments of `all_of` where an `Explainer` is expected."""


def shown(value: object, most: int = 120) -> str:
    """Return the repr of a value for a message: on one line, cut after ``most`` letters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[:most]}…"


def some(values: Iterable[Any], most: int = 8, show: Callable[[Any], str] = repr) -> str:
    """Return ``'a', 'b' and 3 more`` for a message."""
    values = list(values)
    remaining = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(map(show, values[:most])) + remaining


def several(count: int, noun: str) -> str:
    """Return ``1 row`` or ``2 rows``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def is_number(value: object) -> bool:
    """Return whether a value is a float, or an int that float64 can hold, and no boolean."""
    if isinstance(value, float | np.integer | np.floating):
        return True
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return abs(value) <= sys.float_info.max


def is_listed(values: object) -> bool:
    """Return whether a value holds several: it is iterable, and no text or 0-d array."""
    scalar = isinstance(values, str | bytes) or (isinstance(values, np.ndarray) and not values.ndim)
    return isinstance(values, Iterable) and not scalar


def is_comparable(value: object) -> bool:
    """Return whether a value can be a category: it has a hash, and `==` gives True or False."""
    try:
        hash(value)
        bool(value == 0)
    except (TypeError, ValueError):
        return False
    return True


def position_of(i: object, count: int, *, of: str = "row", advice: str = "") -> int:
    """Return the position ``i`` of one row (``of``) among ``count``; a negative one from the end.

    ``advice`` is added to the error if ``i`` is no whole number: how to get several rows.
    """
    if isinstance(i, bool) or not isinstance(i, int | np.integer):
        raise InvalidInput(f"Expected the position of one {of}; got {shown(i)}.{advice}")
    if not -count <= i < count:
        highest = f" Pass 0 to {count - 1}." if count else ""
        raise OutOfRange(f"Expected a position among {several(count, of)}; got {i}.{highest}")
    return int(i) % count


def check_one_label(label: object) -> None:
    """Refuse several class labels, and values that cannot be one."""
    if isinstance(label, tuple | list | set | frozenset | dict | np.ndarray):
        raise InvalidInput(f"Expected one class label; got {shown(label)}.")
    if not is_comparable(label):
        raise InvalidInput(f"Expected a class label; got a {type(label).__name__}.")


def check_flag(what: str, value: object) -> None:
    """Refuse a value other than True and False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"Expected True or False for {what}; got {shown(value)}.")


def check_number(what: str, value: object) -> None:
    """Refuse a value that is no number."""
    if not is_number(value):
        raise InvalidInput(f"Expected a number for {what}; got {shown(value)}.")


def check_count(what: str, value: object) -> None:
    """Refuse a value that is no whole number of at least 1; a float without a fraction is one."""
    if not (is_number(value) and value >= 1 and value % 1 == 0):  # type: ignore[operator]
        raise InvalidInput(f"Expected a {what} of at least 1; got {shown(value)}.")


def check_interval(low: Any, high: Any, of: str = "") -> None:
    """Refuse ends between which there is no number, or that are both infinite.

    ``of`` follows "low <= high" in the message: " for Linear".
    """
    check_number("low", low)
    check_number("high", high)
    if not low <= high:
        raise InvalidInput(f"Expected low <= high{of}; got low={low!r}, high={high!r}.")
    check_reachable(low, high, of)
    if np.isinf(low) and np.isinf(high):
        raise InvalidInput(f"Expected low, high or both{of}; got neither.")


def check_reachable(low: float, high: float, of: str) -> None:
    """Refuse a lower bound of infinity and an upper one of −infinity, which no number meets."""
    if low == np.inf or high == -np.inf:
        raise InvalidInput(
            f"Expected low below infinity and high above -infinity{of}; got low={low!r}, "
            f"high={high!r}. Leave out a bound that is none."
        )


def check_numbers(what: str, values: object) -> None:
    """Refuse anything but a mapping from names to numbers."""
    if not isinstance(values, Mapping):
        raise InvalidInput(
            f"Expected a mapping from names to numbers for {what}; got {type(values).__name__}."
        )
    for name, value in values.items():
        check_number(f"{what} of {name!r}", value)


def among(*options: str) -> KeysView[str]:
    """Return options for scikit-learn's `StrOptions`, whose messages name them in this order.

    It asks for a set, but the order of a set of texts differs from run to run.
    """
    return dict.fromkeys(options).keys()


def check_parameters(estimator: Any) -> None:
    """Refuse parameters of an estimator that its ``_parameter_constraints`` do not allow."""
    from sklearn.utils._param_validation import InvalidParameterError

    constraints = estimator._parameter_constraints  # noqa: SLF001 (as scikit-learn names it)
    for name, value in estimator.get_params(deep=False).items():
        is_checked = "boolean" not in constraints.get(name, ["boolean"])
        if isinstance(value, int) and not is_number(value) and is_checked:
            raise InvalidInput(
                f"The {name!r} parameter of {type(estimator).__name__} must be a number that "
                f"float64 can hold, and not a boolean. Got {shown(value)} instead."
            )
    try:
        estimator._validate_params()  # noqa: SLF001 (as scikit-learn names it)
    except InvalidParameterError as error:
        raise InvalidInput(str(error)) from error


def check_name(what: str, name: object) -> None:
    """Refuse a value that cannot be the name of a column, because it has no hash."""
    try:
        hash(name)
    except TypeError:
        raise InvalidInput(
            f"Expected the name of one feature for {what}; got {shown(name)} "
            f"({type(name).__name__})."
        ) from None


def floats(what: str, values: Any, names: Sequence[Hashable] = ()) -> NDArray[np.float64]:
    """Return numbers as float64; refuse anything else.

    If ``names`` are passed, a pandas frame or series must be labelled with them, in this order, or
    have no labels but 0, 1, ….
    """
    axes = getattr(values, "axes", ()) if names else ()
    for labels in (axis.tolist() for axis in axes):
        if labels not in ([*names], [*range(len(names))]):
            raise InvalidInput(
                f"Expected {what} to have rows and columns in the order {shown([*names])}; got "
                f"{shown(labels)}. Reorder them."
            )
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"Expected numbers for {what}; got {shown(values)}.") from None


def by_name(values: Any) -> Any:
    """Return a pandas series as label → value, and a frame as an array; others as they are.

    A series whose labels only count, 0, 1, …, becomes an array too.
    """
    if not hasattr(values, "axes"):
        return values
    labels = values.axes[0].tolist()
    if values.ndim > 1 or labels == [*range(len(labels))]:
        return values.to_numpy()
    return dict(zip(labels, values.tolist(), strict=True))


def listed(what: str, values: Any) -> tuple[Any, ...]:
    """Return several values as a tuple; refuse a single value, or a text."""
    if not is_listed(values):
        raise InvalidInput(f"Expected a list for {what}; got {shown(values)}.")
    return tuple(values)


def all_of(kind: Any, values: Any, expected: str, hint: str = "") -> tuple[Any, ...]:
    """Return one value or several as a tuple; refuse one that is not of the type ``kind``.

    The message says that it ``expected`` such a thing, and ends with the ``hint``.
    """
    items = tuple(values) if is_listed(values) else (values,)
    for item in items:
        if not isinstance(item, kind):
            raise InvalidInput(
                f"Expected {expected}; got {shown(item)} ({type(item).__name__}).{hint}"
            )
    return items
