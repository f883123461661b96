"""Define the seven estimators, a metric and a cost each; what they share is in `quantizer`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Literal, TypeVar, final

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from counterpoint.lvq.quantizer import Likelihood, Relative, VectorQuantizer
from counterpoint.numerics import FloatArray

Class = TypeVar("Class", bound=type[VectorQuantizer])

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
EXAMPLE = """\
Examples
--------
>>> from sklearn.datasets import load_iris
>>> from counterpoint.lvq import {0}
>>> X, y = load_iris(return_X_y=True)
>>> model = {0}(prototypes_per_class=2, random_state=0).fit(X, y)
>>> model.prototypes_.shape
(6, 4)
>>> bool(model.score(X, y) > 0.95)
True
"""


def documented(cls: Class) -> Class:
    """Complete the docstring of an estimator, before its references and after them.

    The text of its base class on training, its parameters and its attributes come before; an
    example comes after.
    """
    kind = Likelihood if issubclass(cls, Likelihood) else Relative
    learned = ["classes_", "prototypes_", "prototype_labels_"]
    learned += [cls._metric_attribute] if cls._metric_attribute else []
    learned += ["spread_"] if kind is Likelihood else []
    learned += ["loss_", "n_iter_", "n_features_in_, feature_names_in_"]
    parameters = inspect.signature(cls).parameters
    text = (inspect.getdoc(kind) or "").partition("\n\n")[2] + "\n\n"
    text += _section("Parameters", {name: PARAMETERS[name] for name in parameters})
    text += _section("Attributes", {name: ATTRIBUTES[name] for name in learned})
    first, references = inspect.cleandoc(cls.__doc__ or "").split("References\n", 1)
    cls.__doc__ = f"{first}{text}References\n{references}\n\n{EXAMPLE.format(cls.__name__)}"
    return cls


def _section(title: str, entries: Mapping[str, str]) -> str:
    listed = "\n".join(f"{name}\n{indent(text, '    ')}" for name, text in entries.items())
    return f"{title}\n{'-' * len(title)}\n{listed}\n\n"


def seen_by_the_metric(self: Any, X: Any) -> FloatArray:
    """(n, k) the rows as the metric sees them, Ω x: distances there are Euclidean.

    Parameters
    ----------
    X
        (n, d) as in `fit`.
    """
    return np.asarray(self._rows(X) @ self.omega_.T)


@final
@documented
class GLVQ(Relative):
    """Generalized learning vector quantization.

    The label of the nearest prototype, by the squared Euclidean distance d(x, p).

    References
    ----------
    Sato & Yamada (1996), Generalized learning vector quantization.

    """


@final
@documented
@dataclass(eq=False, repr=False, kw_only=True)
class GRLVQ(Relative):
    """Generalized relevance learning vector quantization.

    The label of the nearest prototype, by the squared distance d(x, p) = Σ_j λ_j (x_j − p_j)²
    with learned relevances λ.

    References
    ----------
    Hammer & Villmann (2002), Generalized relevance learning vector quantization.

    """

    _metric_attribute = "relevances_"
    regularization: float = 0.05


@final
@documented
@dataclass(eq=False, repr=False, kw_only=True)
class GMLVQ(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Relative):  # type: ignore[misc]
    """Generalized matrix learning vector quantization.

    The label of the nearest prototype, by the squared distance d(x, p) = (x − p)′ Ω′Ω (x − p)
    with a learned matrix Ω.

    References
    ----------
    Schneider, Biehl & Hammer (2009), Adaptive relevance matrices in learning vector quantization;
    Schneider et al. (2010), Regularization in matrix relevance learning; Bunte et al. (2012),
    Limited rank matrix learning.

    """

    _metric_attribute = "omega_"
    rank: int | None = None
    regularization: float = 0.05

    _n_features_out = property(lambda self: len(self.omega_))
    transform = seen_by_the_metric


@final
@documented
@dataclass(eq=False, repr=False, kw_only=True)
class LGMLVQ(Relative):
    """Localized generalized matrix learning vector quantization.

    The label of the nearest prototype, by the squared distance d(x, p) = (x − p)′ Ω′Ω (x − p)
    with a learned matrix Ω for each prototype, or for each class.

    References
    ----------
    Schneider, Biehl & Hammer (2009), Adaptive relevance matrices in learning vector quantization;
    Schneider et al. (2010), Regularization in matrix relevance learning.

    """

    _metric_attribute = "omegas_"
    metric_per: Literal["prototype", "class"] = "prototype"
    rank: int | None = None
    regularization: float = 0.05


@final
@documented
class RSLVQ(Likelihood):
    """Robust soft learning vector quantization.

    The label of the nearest prototype, by the squared Euclidean distance d(x, p).

    References
    ----------
    Seo & Obermayer (2003), Soft learning vector quantization.

    """


@final
@documented
@dataclass(eq=False, repr=False, kw_only=True)
class MRSLVQ(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Likelihood):  # type: ignore[misc]
    """Matrix robust soft learning vector quantization.

    The label of the nearest prototype, by the squared distance d(x, p) = (x − p)′ Ω′Ω (x − p)
    with a learned matrix Ω.

    References
    ----------
    Schneider, Biehl & Hammer (2009), Distance learning in discriminative vector quantization.

    """

    _metric_attribute = "omega_"
    rank: int | None = None
    regularization: float = 0.3

    _n_features_out = property(lambda self: len(self.omega_))
    transform = seen_by_the_metric


@final
@documented
@dataclass(eq=False, repr=False, kw_only=True)
class LMRSLVQ(Likelihood):
    """Localized matrix robust soft learning vector quantization.

    The label of the nearest prototype, by the squared distance d(x, p) = (x − p)′ Ω′Ω (x − p)
    with a learned matrix Ω for each prototype, or for each class.

    References
    ----------
    Schneider, Biehl & Hammer (2009), Distance learning in discriminative vector quantization.

    """

    _metric_attribute = "omegas_"
    metric_per: Literal["prototype", "class"] = "prototype"
    rank: int | None = None
    regularization: float = 0.3
