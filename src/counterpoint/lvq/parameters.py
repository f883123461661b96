"""What the parameters of the estimators may be, and what their docstrings say of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from textwrap import indent
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput, is_listed
from counterpoint.estimator_rules import Rule, number, one_of, or_none, whole

__all__ = ["RULES", "check_rank", "counts_of", "documented"]

Class = TypeVar("Class", bound=type)

RULES: Mapping[str, Rule] = {
    "max_iter": whole(1),
    "tol": number(0.0),
    "transfer": one_of("identity", "sigmoid"),
    "steepness": number(0.0, above=True),
    "spread": or_none(number(0.0, above=True)),
    "anchor": number(0.0),
    "regularization": number(0.0),
    "rank": or_none(whole(1)),
    "metric_per": one_of("prototype", "class"),
}
"""What each parameter may be; `prototypes_per_class` is checked against the classes."""

PARAMETERS: Mapping[str, str] = {
    "prototypes_per_class": """\
How many prototypes a class has: one number, a mapping from labels to numbers, or a sequence
in the order of the sorted labels. A class needs as many distinct rows.""",
    "metric_per": """\
What has a matrix of its own: each ``"prototype"`` or each ``"class"``.""",
    "transfer": """\
f: ``"sigmoid"``, 1 / (1 + exp(−steepness u)), so that rows near the boundary count most; or
``"identity"``, u.""",
    "steepness": """\
That of the sigmoid: the larger, the nearer the loss is to the rate of errors.""",
    "spread": """\
σ², in units of the squared distances; None for the mean distance of the rows to the nearest
prototype of their class at the start.""",
    "anchor": """\
The weight of how far prototypes move from the centres they start at, ½ mean (p − start)² in
units of the mean variance of the features. Without it, those of separable classes would
leave the data for infinity.""",
    "rank": """\
k, the number of rows of Ω; None for d.""",
    "regularization": """\
The weight, in the loss, of −mean log(d λ) for relevances and of −log det(k ΩΩ′) / k for
matrices (the mean, if there are several), which is 0 if all directions count the same and
infinite if one of them is lost.""",
    "max_iter": """\
The largest number of iterations; a ``ConvergenceWarning`` if it is reached.""",
    "tol": """\
Training stops when an iteration lowers the loss by less than this.""",
    "random_state": """\
For the start; the same integer gives the same model to the last bit.""",
}
ATTRIBUTES: Mapping[str, str] = {
    "classes_": "(C,) the sorted labels.",
    "prototypes_": "(P, d) in feature units, class after class.",
    "prototype_labels_": "(P,) their labels.",
    "relevances_": "(d,) λ, non-negative and of sum 1.",
    "omega_": "(k, d) Ω, with trace(Ω′Ω) = 1.",
    "omegas_": """\
(P, k, d), or (C, k, d) in the order of ``classes_``: Ω, each with trace(Ω′Ω) = 1.""",
    "spread_": "σ², in units of the squared distances.",
    "loss_": "The loss that was reached.",
    "n_iter_": "The number of iterations.",
    "n_features_in_, feature_names_in_": """\
d, and the names of the columns of a data frame.""",
}


def documented(*learned: str) -> Callable[[Class], Class]:
    """Complete the docstring of an estimator with its parameters and fitted attributes.

    Parameters
    ----------
    learned
        The fitted attributes beside the classes, the prototypes and the names of the features.
    """
    common = ("classes_", "prototypes_", "prototype_labels_")
    fitted = (*common, *learned, "n_features_in_, feature_names_in_")

    def complete(cls: Class) -> Class:
        given = list(inspect.signature(cls).parameters)
        said = _section("Parameters", {name: PARAMETERS[name] for name in given})
        said += _section("Attributes", {name: ATTRIBUTES[name] for name in fitted})
        first, rest = inspect.cleandoc(cls.__doc__ or "").split("References\n", 1)
        cls.__doc__ = f"{first}{said}References\n{rest}"
        return cls

    return complete


def _section(title: str, entries: Mapping[str, str]) -> str:
    """A section of a numpydoc docstring."""
    listed = "\n".join(f"{name}\n{indent(text, '    ')}" for name, text in entries.items())
    return f"{title}\n{'-' * len(title)}\n{listed}\n\n"


def check_rank(rank: int | None, width: int) -> None:
    """Hold the rank of a matrix against the number of features.

    Raises
    ------
    InvalidInput
        If there are fewer features.
    """
    if rank is not None and rank > width:
        raise InvalidInput(
            f"Expected rank to be at most the number of features, {width}, and got {rank}: lower "
            "it, or pass None for a square matrix."
        )


def counts_of(asked: Any, classes: NDArray[Any]) -> NDArray[np.intp]:
    """(C,) the number of prototypes of each class, in the order of the classes.

    Parameters
    ----------
    asked
        One number for all, or one for each class: a mapping from labels, or a sequence in the order
        of the classes.
    classes
        (C,) the sorted labels.

    Raises
    ------
    InvalidInput
        If it is none of these, or a class has no number.
    """
    (admits, words), wanted = whole(1), "prototypes_per_class"
    labels = classes.tolist()
    if isinstance(asked, Mapping):
        missing = [label for label in labels if label not in asked]
        if missing:
            raise InvalidInput(
                f"Expected {wanted} to say how many prototypes each class gets, and it says "
                f"nothing of class {missing[0]!r}: add it to the mapping."
            )
        numbers = [asked[label] for label in labels]
    elif not is_listed(asked):
        numbers = [asked] * len(labels)
    else:
        numbers = list(asked)
        if len(numbers) != len(labels):
            raise InvalidInput(
                f"Expected {wanted} to have one number for each of {len(labels)} classes, and it "
                f"has {len(numbers)}: pass them in the order of the sorted labels, or a mapping."
            )
    for count in numbers:
        if not admits(count):
            raise InvalidInput(
                f"Expected {wanted} to be {words}, or one for each class, and got "
                f"{count!r}: pass another value."
            )
    return np.array(numbers, dtype=np.intp)
