"""A torch module, or any differentiable function of tensors, as a representation."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import InvalidInput, MissingExtra
from counterpoint.groups.representations import Affine, Composed, Representation

__all__ = ["TorchFunction", "of_module"]

FloatArray = NDArray[np.float64]


@final
class TorchFunction(Representation):
    """A differentiable function of torch tensors.

    What an encoder needs beside the rows goes into the function, so that encoders of other
    packages, such as scvi-tools, need no adapter: of one that takes logarithms and returns the
    mean first, ``lambda x: encoder(torch.log1p(x.clamp(min=0)), batch)[0]``; moved rows may hold
    negative numbers.

    Parameters
    ----------
    function
        Takes a tensor (n, d) of doubles to one of shape (n, m). Put modules into double precision
        and evaluation first: ``module.double().eval()``.
    features
        d.

    Raises
    ------
    MissingExtra
        If torch is not installed.
    """

    def __init__(self, function: Callable[[Any], Any], features: int) -> None:
        try:
            import torch
        except ImportError:
            raise MissingExtra(
                "TorchFunction needs torch, which is not installed. "
                "Install it with pip install 'counterpoint[torch]'."
            ) from None
        self.function, self.features, self._torch = function, int(features), torch

    @property
    def n_features(self) -> int:
        return self.features

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        torch = self._torch
        with torch.enable_grad():
            rows = torch.from_numpy(np.array(X, dtype=np.float64)).requires_grad_()
            values = self.function(rows)
        if not isinstance(values, torch.Tensor) or values.ndim != 2 or len(values) != len(X):
            got = tuple(getattr(values, "shape", ())) or type(values).__name__
            raise InvalidInput(
                f"Expected a tensor of shape ({len(X)}, m) from the module; got {got}. Wrap it in "
                "a TorchFunction that returns the tensor of the representation."
            )

        def pull(C: FloatArray) -> FloatArray:
            given = torch.from_numpy(np.array(C)).to(values.dtype)
            (slope,) = torch.autograd.grad(values, rows, given, retain_graph=True)
            return np.asarray(slope.double().numpy())

        return np.asarray(values.detach().double().numpy()), pull


def of_module(module: Any) -> Representation:
    """A module in double precision; one that begins with nn.Linear takes rows as they are.

    Raises
    ------
    InvalidInput
        If it is not known how many features it takes.
    """
    from torch import nn

    copy = deepcopy(module).double().eval().requires_grad_(requires_grad=False)
    copy = copy.cpu()
    steps = list(copy) if type(copy) is nn.Sequential else [copy]
    if steps and type(steps[0]) is nn.Linear:
        linear = steps[0]
        weight = linear.weight.numpy().T
        bias = np.zeros(weight.shape[1]) if linear.bias is None else linear.bias.numpy()
        first = Affine(np.array(weight), np.array(bias))
        if len(steps) == 1:
            return first
        return Composed(first, TorchFunction(nn.Sequential(*steps[1:]), weight.shape[1]))
    raise InvalidInput(
        f"Expected to know how many features {type(module).__name__} takes, and it does not "
        "begin with nn.Linear. Pass TorchFunction(module.double().eval(), features)."
    )
