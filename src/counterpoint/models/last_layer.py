"""Make the last layer of a torch classifier a model that can be explained: `LastLayer`.

A module is known by the class of ``torch.nn`` whose ``forward`` it runs. Any other ``forward`` may
do anything, so it is refused. Nothing here imports torch before a module is passed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import deepcopy
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED

from counterpoint.errors import (
    InvalidInput,
    ModelNotFitted,
    UnsupportedModel,
    is_comparable,
    listed,
    missing_extra,
    shown,
)
from counterpoint.models.columns import column_of
from counterpoint.models.dispatch import read
from counterpoint.models.form import AffineMap, Form, Link, Magnitude
from counterpoint.models.linear import LinearScores
from counterpoint.numerics import FloatArray
from counterpoint.rows.encoding import match_columns
from counterpoint.rows.features import Continuous, Features
from counterpoint.rows.table import Table

TORCH = "torch.nn.modules."
HOOKS = ("_forward_hooks", "_forward_pre_hooks")


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
        try:
            from torch.nn import Module
        except ImportError:
            raise missing_extra("LastLayer needs torch", "torch") from None
        if not isinstance(self.module, Module):
            raise InvalidInput(
                "Expected a torch.nn.Module, such as the last layer of a classifier; got "
                f"{shown(self.module)}."
            )
        self._steps, self._map, self._dtype = _chain(self.module)
        outputs, count = self._map.matrix.shape
        self.n_features_in_, self.classes_ = count, _labels(self.classes, outputs)
        if self.names is not None:
            self._inputs = Features(Continuous(name) for name in listed("names", self.names))
            if len(self._inputs) != count:
                raise InvalidInput(
                    f"Expected {count} names, one for each input of the module; "
                    f"got {len(self._inputs)}."
                )
            self.feature_names_in_ = column_of(self._inputs.names)
        return self

    def predict(self, X: object) -> NDArray[Any]:
        """Return the label (n,) of the largest score, the first if several are equal."""
        scores = self.decision_function(X)
        best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: object) -> FloatArray:
        """Return the softmax (n, k) of the scores; the sigmoid if there is one output."""
        return self._row_by_row(self._probabilities, X)

    def decision_function(self, X: object) -> FloatArray:
        """Return scores (n, k); for two classes (n,), positive where the second is predicted."""
        z = self._row_by_row(self._scores, X)
        if len(self.classes_) > 2:
            return z
        return z[:, 0] if z.shape[1] == 1 else z[:, 1] - z[:, 0]

    def _row_by_row(self, compute: Callable[[Any], Any], X: object) -> FloatArray:
        """Compute each row alone in torch: in a batch it may round otherwise."""
        import torch

        values = torch.from_numpy(self._rows(X))
        n, width = values.shape
        # Rows begin at multiples of 64 bytes: one that lies otherwise in memory may be rounded
        # otherwise.
        padded = torch.empty(n, width + -width % 16, dtype=values.dtype)
        rows = padded[:, :width].copy_(values).split(1)
        with torch.inference_mode():
            return np.asarray(torch.cat([compute(row) for row in rows]).double().numpy())

    def _scores(self, row: Any) -> Any:
        for step in self._steps:
            row = step(row)
        return row

    def _probabilities(self, row: Any) -> Any:
        z = self._scores(row)
        return z.softmax(dim=1) if z.shape[1] > 1 else (z * z.new_tensor([-1.0, 1.0])).sigmoid()

    def _rows(self, X: object) -> NDArray[Any]:
        """Return a copy (n, d) of the rows in the module's own dtype."""
        if self.names is not None:
            X = match_columns(Table.read(X), self._inputs).native
        with np.errstate(over="ignore"):  # what does not fit into float32 is refused below
            rows = np.array(np.asarray(X), dtype=self._dtype, order="C")
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise InvalidInput(
                f"Expected rows of {self.n_features_in_} features; got shape {rows.shape}."
            )
        if not np.isfinite(rows).all():
            raise InvalidInput(
                f"Expected finite numbers that fit into {self._dtype}; got others. "
                "Fill in what is missing."
            )
        return rows

    def __sklearn_is_fitted__(self) -> bool:
        return True


@read.register(LastLayer)
def _(model: Any) -> Form:
    scores = model._map  # noqa: SLF001 (its reader)
    options: Any = {"link": Link.SOFTMAX, "magnitude": scores.sizes}
    return LinearScores.of(scores.matrix, scores.offset, model.classes_, **options)


def _labels(classes: Sequence[Hashable] | None, outputs: int) -> NDArray[Any]:
    count = max(outputs, 2)
    labels = list(range(count) if classes is None else listed("classes", classes))
    if not all(map(is_comparable, labels)):
        raise InvalidInput(f"Expected class labels; got {shown(labels)}.")
    if len(labels) != count or len(set(labels)) < count:
        why = "one for each output" if outputs > 1 else "as the one output decides between two"
        raise InvalidInput(f"Expected {count} different classes, {why}; got {shown(labels)}.")
    return column_of(labels)


# --- modules ---


def _chain(module: Any) -> tuple[list[Any], AffineMap, str]:
    """Return copies of the affine modules before the link, their affine map, and their dtype."""
    steps = list(_steps(module))
    kinds = [_kind(step) for step in steps]
    affine = [i for i, kind in enumerate(kinds) if kind not in INERT]
    link = affine.pop() if affine and kinds[affine[-1]] in LINKS else None
    if not affine or any(kinds[i] not in AFFINE for i in affine) or "Linear" not in kinds:
        raise _refusal(module)
    copies = [
        step.cpu().eval().requires_grad_(requires_grad=False)
        for step in deepcopy([steps[i] for i in affine])
    ]
    dtype = _dtype_of(module, copies)
    total, *following = [AFFINE[_kind(step)](step) for step in copies]
    for after in following:
        if after.matrix.shape[1] != len(total.offset):
            raise InvalidInput(
                f"Expected modules that fit together; got one with {len(total.offset)} outputs "
                f"before one that takes {after.matrix.shape[1]}."
            )
        total = after.through(total)
    if not (np.isfinite(total.matrix).all() and np.isfinite(total.offset).all()):
        raise UnsupportedModel(
            f"{_name(module)} has weights that are not finite. Its training may have diverged; "
            "train it again."
        )
    outputs = len(total.offset)
    for i, kind in enumerate(kinds):
        # Rows are flat already, so a Flatten from dimension 1 on does nothing; from 0 on it makes
        # one row of all. That does no harm where each is a single score by now.
        single_score = outputs == 1 and i > affine[-1]
        if kind == "Flatten" and not single_score and steps[i].start_dim not in (1, -1):
            raise UnsupportedModel(
                f"{_name(steps[i])} with start_dim={steps[i].start_dim} joins rows. "
                "Use start_dim=1."
            )
    if link is not None:
        _require_link(steps[link], outputs)
    return copies, total, dtype


def _steps(module: Any) -> Iterator[Any]:
    """Yield the modules that are run, in their order."""
    if any(base.__name__ == "LazyModuleMixin" for base in type(module).__mro__):
        raise ModelNotFitted(
            f"{_name(module)} has no weights before it has seen rows. Train the module first."
        )
    if any(vars(module).get(name) for name in HOOKS):
        raise UnsupportedModel(
            f"{_name(module)} has a hook, which may change what it computes. Remove the hook, or "
            "make what it does permanent, as torch.nn.utils.prune.remove does."
        )
    if _kind(module) != "Sequential":
        yield module
        return
    for step in module:
        yield from _steps(step)


def _kind(module: Any) -> str:
    """Return the class of torch.nn whose ``forward`` a module runs; empty if it is another."""
    bases: tuple[Any, ...] = type(module).__mro__
    names = {"Sequential", *AFFINE, *INERT, *LINKS}
    for base in bases:
        if base.__name__ in names and base.__module__.startswith(TORCH):
            same = bases[0].forward is base.forward and "forward" not in vars(module)
            return base.__name__ if same else ""
    return ""


def _dtype_of(module: Any, steps: Sequence[Any]) -> str:
    values = [value for step in steps for value in step.state_dict().values()]
    dtypes = {str(value.dtype).removeprefix("torch.") for value in values if value.ndim}
    if len(dtypes) == 1 and dtypes <= {"float32", "float64"}:
        return dtypes.pop()
    raise UnsupportedModel(
        f"{_name(module)} computes in {' and '.join(sorted(dtypes))}; expected float32 or float64. "
        "Convert a copy of it with .float() and explain that one."
    )


def _numbers(values: Any) -> FloatArray:
    """Return a parameter in float64, which holds it exactly."""
    return np.array(values.detach().double().numpy())


def _linear(step: Any) -> AffineMap:
    matrix = _numbers(step.weight)
    return AffineMap(matrix, np.zeros(len(matrix)) if step.bias is None else _numbers(step.bias))


def _batch_norm(step: Any) -> AffineMap:
    """Read scale · (x − mean) + bias, with scale = weight / √(variance + eps)."""
    if step.running_mean is None:
        raise UnsupportedModel(
            f"{_name(step)} keeps no running statistics, so what it makes of a row depends on the "
            "rows beside it. Train it with track_running_stats=True."
        )
    scale = 1.0 / np.sqrt(_numbers(step.running_var) + step.eps)
    if step.weight is not None:
        scale = scale * _numbers(step.weight)
    bias = 0.0 if step.bias is None else _numbers(step.bias)
    scaled_mean = _numbers(step.running_mean) * scale
    sizes = Magnitude(np.diag(np.abs(scale)), np.abs(bias) + np.abs(scaled_mean), 4)
    return AffineMap(np.diag(scale), bias - scaled_mean, magnitude=sizes)


AFFINE: dict[str, Callable[[Any], AffineMap]] = {"BatchNorm1d": _batch_norm, "Linear": _linear}

INERT = frozenset({"AlphaDropout", "Dropout", "Flatten", "Identity"})
LINKS = ("LogSoftmax", "Sigmoid", "Softmax")


def _require_link(step: Any, outputs: int) -> None:
    """Raise unless a link is a sigmoid of one score, or a softmax of the scores of each row."""
    is_sigmoid = _kind(step) == "Sigmoid"
    if is_sigmoid and outputs > 1:
        raise UnsupportedModel(
            f"{_name(step)} over {outputs} outputs decides on each of them by itself; expected one "
            "output, or Softmax. Explain the outputs one by one, each as a Linear of its own."
        )
    if not is_sigmoid and outputs == 1:
        raise UnsupportedModel(
            f"{_name(step)} over one output gives the same for all inputs. Use Sigmoid, or one "
            "output for each class."
        )
    if not is_sigmoid and step.dim not in (1, -1, None):
        raise UnsupportedModel(
            f"{_name(step)} with dim={step.dim} compares rows with each other. Use dim=1."
        )


# --- refusals ---


def _refusal(module: Any) -> UnsupportedModel:
    """Make the error of a module that is not read: its first step that is not, and what to do."""
    steps = [(_path(name), step) for name, step in module.named_modules()]
    linear = [i for i, (_, step) in enumerate(steps) if _kind(step) == "Linear"]
    unread = [i for i, (_, step) in enumerate(steps) if not _kind(step) or _kind(step) in LINKS]
    if not unread or (not linear and _kind(steps[unread[0]][1])):  # nothing but inert, or a link
        return UnsupportedModel(f"{_name(module)} has no nn.Linear. Pass one, or what ends in one.")
    path, step = steps[unread[0]]
    problem = f"{_name(module)} cannot be read exactly: {path} is {_name(step)}"
    if linear and unread[0] > linear[-1]:
        return UnsupportedModel(
            f"{problem}; expected at most one of {', '.join(LINKS)} after the last nn.Linear. "
            "Pass a module that ends so."
        )
    is_torch = type(step).__module__.startswith(TORCH) and "forward" not in vars(step)
    supported = f"expected {', '.join(sorted({*AFFINE, *INERT}))} alone"
    why = supported if is_torch else "what its forward does cannot be known"
    example = f", as in cp.LastLayer({steps[linear[-1]][0]})," if linear else ""
    return UnsupportedModel(
        f"{problem}; {why}. Pass the last layer over the features that come before it{example} and "
        "explain its inputs."
    )


def _path(name: str) -> str:
    """Turn ``head.0.fc`` into ``module.head[0].fc``."""
    names = name.split(".") if name else []
    return "module" + "".join(f"[{item}]" if item.isdigit() else f".{item}" for item in names)


def _name(module: Any) -> str:
    return type(module).__name__
