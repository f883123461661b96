"""`LastLayer`: the last layer of a torch classifier, as a model that can be explained."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED

from counterpoint.errors import InvalidInput, MissingExtra, is_comparable, listed, shown
from counterpoint.models.columns import column_of
from counterpoint.models.dispatch import on, read
from counterpoint.models.form import Form
from counterpoint.models.linear import LinearScores, Link
from counterpoint.models.torch_modules import chain_of
from counterpoint.numerics import FloatArray
from counterpoint.rows.encoding import match_columns
from counterpoint.rows.features import Continuous, Features
from counterpoint.rows.table import Table

__all__ = ["LastLayer"]

ALIGNED = 16
"""Each row begins at a multiple of so many numbers: where it lies in memory is the same for all."""


@final
class LastLayer(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The last layer of a torch classifier over features that are given.

    Its predictions are those of torch: the module's own arithmetic in the module's own dtype, on a
    copy that is made here. Training the module further does not change it.

    Parameters
    ----------
    module
        A ``torch.nn.Linear``, or a ``Sequential`` of affine modules (``Linear``, ``BatchNorm1d``,
        ``Dropout``, ``Flatten``, ``Identity``) that may end in ``Softmax``, ``LogSoftmax`` or
        ``Sigmoid``. Its outputs are one score for each class; one output alone is the log-odds of
        the second of two classes.
    classes
        The labels, in the order of the outputs; None for 0, 1, 2 …
    names
        The names of the inputs, for frames; None if columns go by position.

    Attributes
    ----------
    classes_
        (k,) the labels.
    n_features_in_
        The number of inputs.
    feature_names_in_
        Their names, if they were given.

    Raises
    ------
    MissingExtra
        If torch is not installed.
    UnsupportedModel, ModelNotFitted
        If the module cannot be read exactly.
    InvalidInput
        If it is no module, or labels or names do not fit it.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> import counterpoint as cp
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(
    ...     torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3), torch.nn.Softmax(dim=1)
    ... )
    >>> embeddings = np.random.default_rng(0).normal(size=(100, 4))
    >>> model = cp.LastLayer(network[2:], classes=["cat", "dog", "fox"])
    >>> answers = cp.explain(model, embeddings, "fox", data=embeddings)
    >>> bool((model.predict(answers.to_frame()) == "fox").all())
    True
    """

    __metadata_request__score = {"sample_weight": UNUSED}  # noqa: RUF012 (nothing to route)

    def __init__(
        self,
        module: Any,
        classes: Sequence[Hashable] | None = None,
        names: Sequence[Hashable] | None = None,
    ) -> None:
        self.module = module
        self.classes = classes
        self.names = names
        self.fit()

    def fit(self, X: object = None, y: object = None) -> LastLayer:
        """Copy the module anew, as it is now: to train it is torch's business.

        Parameters
        ----------
        X, y
            Not looked at; pipelines pass them.
        """
        _require_module(self.module)
        self._chain = chain_of(self.module)
        outputs, self.n_features_in_ = self._chain.map.matrix.shape
        self.classes_ = _labels(self.classes, outputs)
        if self.names is not None:
            self._inputs = _inputs(self.names, self.n_features_in_)
            self.feature_names_in_ = column_of(self._inputs.names)
        return self

    def predict(self, X: object) -> NDArray[Any]:
        """(n,) the label of the largest score, of the first if several are equal."""
        scores = self.decision_function(X)
        best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: object) -> FloatArray:
        """(n, k) softmax of the scores; the sigmoid if there is one output."""
        return self._row_by_row(self._probabilities, X)

    def decision_function(self, X: object) -> FloatArray:
        """(n, k) scores; for two classes (n,), positive where the second is predicted."""
        z = self._row_by_row(self._scores, X)
        if len(self.classes_) > 2:
            return z
        return z[:, 0] if z.shape[1] == 1 else z[:, 1] - z[:, 0]

    def _row_by_row(self, compute: Callable[[Any], Any], X: object) -> FloatArray:
        """What torch computes of each row alone: in a batch it may round otherwise."""
        import torch

        values = torch.from_numpy(self._rows(X))
        n, width = values.shape
        room = torch.empty(n, width + -width % ALIGNED, dtype=values.dtype)
        rows = room[:, :width].copy_(values).split(1)
        with torch.inference_mode():
            return np.asarray(torch.cat([compute(row) for row in rows]).double().numpy())

    def _scores(self, row: Any) -> Any:
        for step in self._chain.steps:
            row = step(row)
        return row

    def _probabilities(self, row: Any) -> Any:
        z = self._scores(row)
        return z.softmax(dim=1) if z.shape[1] > 1 else (z * z.new_tensor([-1.0, 1.0])).sigmoid()

    def _rows(self, X: object) -> NDArray[Any]:
        """(n, d) a copy of the rows in the module's own dtype."""
        if self.names is not None:
            X = match_columns(Table.read(X), self._inputs).native
        with np.errstate(over="ignore"):  # what does not fit into float32 is refused below
            rows = np.array(np.asarray(X), dtype=self._chain.dtype, order="C")
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise InvalidInput(
                f"Expected rows of {self.n_features_in_} features; got shape {rows.shape}."
            )
        if not np.isfinite(rows).all():
            raise InvalidInput(
                f"Expected finite numbers that fit into {self._chain.dtype}; got others. "
                "Fill in what is missing."
            )
        return rows

    def __sklearn_is_fitted__(self) -> bool:
        return True


@on(read, LastLayer)
def _(model: Any) -> Form:
    scores, classes = model._chain.map, model.classes_  # noqa: SLF001 (its reader)
    if len(scores.offset) == 1:
        coef, intercept = scores.matrix[0], float(scores.offset[0])
        return LinearScores.binary(
            coef, intercept, classes, link=Link.SOFTMAX, magnitude=scores.sizes
        )
    return LinearScores(
        scores.matrix, scores.offset, classes, link=Link.SOFTMAX, magnitude=scores.sizes
    )


def _require_module(module: Any) -> None:
    try:
        from torch.nn import Module
    except ImportError:
        raise MissingExtra(
            "LastLayer needs torch, which is not installed. "
            "Install it with pip install 'counterpoint[torch]'."
        ) from None
    if not isinstance(module, Module):
        raise InvalidInput(
            "Expected a torch.nn.Module, such as the last layer of a classifier; got "
            f"{shown(module)}."
        )


def _labels(classes: Sequence[Hashable] | None, outputs: int) -> NDArray[Any]:
    count = max(outputs, 2)
    labels = list(range(count) if classes is None else listed("classes", classes))
    if not all(map(is_comparable, labels)):
        raise InvalidInput(f"Expected class labels; got {shown(labels)}.")
    if len(labels) != count or len(set(labels)) < count:
        said = "one for each output" if outputs > 1 else "as the one output decides between two"
        raise InvalidInput(f"Expected {count} different classes, {said}; got {shown(labels)}.")
    return column_of(labels)


def _inputs(names: Sequence[Hashable], count: int) -> Features:
    described = Features(Continuous(name) for name in listed("names", names))
    if len(described) != count:
        raise InvalidInput(
            f"Expected {count} names, one for each input of the module; got {len(described)}."
        )
    return described
