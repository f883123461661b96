"""Modules of torch as what they compute: one affine map from inputs to scores.

A module is known by the class of ``torch.nn`` whose ``forward`` it runs. What any other ``forward``
does cannot be known, so it is refused. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from counterpoint.errors import InvalidInput, ModelNotFitted, UnsupportedModel
from counterpoint.models.form import AffineMap, Magnitude
from counterpoint.numerics import FloatArray

__all__ = ["Chain", "chain_of"]

TORCH = "torch.nn.modules."
DTYPES = ("float32", "float64")
HOOKS = ("_forward_hooks", "_forward_pre_hooks")


@final
@dataclass(frozen=True, eq=False)
class Chain:
    """Affine modules that run one after the other.

    Parameters
    ----------
    steps
        Copies of them, on the CPU and done with training.
    map
        What they compute together, in float64.
    dtype
        The dtype in which they compute it.
    """

    steps: tuple[Any, ...]
    map: AffineMap
    dtype: str


def chain_of(module: Any) -> Chain:
    """The affine modules that make a module's scores: all but the link at its end.

    Raises
    ------
    UnsupportedModel
        If it does anything that is not affine, or that cannot be known.
    ModelNotFitted
        If it has no weights yet.
    """
    steps = list(_steps(module))
    kinds = [_kind(step) for step in steps]
    busy = [i for i, kind in enumerate(kinds) if kind not in INERT]
    link = busy.pop() if busy and kinds[busy[-1]] in LINKS else None
    if not busy or any(kinds[i] not in AFFINE for i in busy) or "Linear" not in kinds:
        raise _refusal(module)
    kept = [_at_rest(step) for step in deepcopy([steps[i] for i in busy])]
    dtype = _dtype_of(module, kept)
    total = _composed([AFFINE[_kind(step)](step) for step in kept])
    if not (np.isfinite(total.matrix).all() and np.isfinite(total.offset).all()):
        raise UnsupportedModel(
            f"{_name(module)} has weights that are not finite. Its training may have diverged; "
            "train it again."
        )
    outputs = len(total.offset)
    for i, kind in enumerate(kinds):
        if kind == "Flatten" and not (outputs == 1 and i > busy[-1]):
            _require_rows_apart(steps[i])
    if link is not None:
        LINKS[kinds[link]](steps[link], outputs)
    return Chain(tuple(kept), total, dtype)


def _steps(module: Any) -> Iterator[Any]:
    """The modules that are run one after the other."""
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
    """The class of torch.nn whose forward a module runs; empty if it is none that is known."""
    bases: tuple[Any, ...] = type(module).__mro__
    known = {"Sequential", *AFFINE, *INERT, *LINKS}
    for base in bases:
        if base.__name__ in known and base.__module__.startswith(TORCH):
            same = bases[0].forward is base.forward and "forward" not in vars(module)
            return base.__name__ if same else ""
    return ""


def _at_rest(step: Any) -> Any:
    return step.cpu().eval().requires_grad_(requires_grad=False)


def _composed(maps: Sequence[AffineMap]) -> AffineMap:
    total = maps[0]
    for after in maps[1:]:
        if after.matrix.shape[1] != len(total.offset):
            raise InvalidInput(
                f"Expected modules that fit together; got one with {len(total.offset)} outputs "
                f"before one that takes {after.matrix.shape[1]}."
            )
        sizes = after.sizes.through(total)
        total = AffineMap(*total.followed_by(after.matrix, after.offset), sizes)
    return total


def _dtype_of(module: Any, steps: Sequence[Any]) -> str:
    """The one dtype in which the steps compute."""
    values = [value for step in steps for value in step.state_dict().values()]
    found = {str(value.dtype).removeprefix("torch.") for value in values if value.ndim}
    if len(found) == 1 and found <= set(DTYPES):
        return found.pop()
    raise UnsupportedModel(
        f"{_name(module)} computes in {' and '.join(sorted(found))}; expected float32 or float64. "
        "Turn a copy of it with .float() and judge that one."
    )


def _numbers(values: Any) -> FloatArray:
    """A parameter in float64, which holds it exactly."""
    return np.array(values.detach().double().numpy())


# --- affine ---


def _linear(step: Any) -> AffineMap:
    matrix = _numbers(step.weight)
    return AffineMap(matrix, np.zeros(len(matrix)) if step.bias is None else _numbers(step.bias))


def _batch_norm(step: Any) -> AffineMap:
    if step.running_mean is None:
        raise UnsupportedModel(
            f"{_name(step)} keeps no running statistics, so what it makes of a row depends on the "
            "rows beside it. Train it with track_running_stats=True."
        )
    scale = 1.0 / np.sqrt(_numbers(step.running_var) + step.eps)
    if step.weight is not None:
        scale = scale * _numbers(step.weight)
    shift = 0.0 if step.bias is None else _numbers(step.bias)
    mean = _numbers(step.running_mean) * scale
    sizes = Magnitude(np.diag(np.abs(scale)), np.abs(shift) + np.abs(mean), 4)
    return AffineMap(np.diag(scale), shift - mean, sizes)


AFFINE: dict[str, Callable[[Any], AffineMap]] = {"BatchNorm1d": _batch_norm, "Linear": _linear}


# --- what passes rows on as they are ---

INERT = frozenset({"AlphaDropout", "Dropout", "Flatten", "Identity"})


def _require_rows_apart(flatten: Any) -> None:
    """Rows are flat already. Only where each has become one number may they become one array."""
    if flatten.start_dim not in (1, -1):
        raise UnsupportedModel(
            f"{_name(flatten)} with start_dim={flatten.start_dim} joins rows. Use start_dim=1."
        )


# --- links, from scores to probabilities ---


def _softmax(step: Any, outputs: int) -> None:
    if outputs == 1:
        raise UnsupportedModel(
            f"{_name(step)} over one output gives the same for all inputs. Use Sigmoid, or one "
            "output for each class."
        )
    if step.dim not in (1, -1, None):
        raise UnsupportedModel(
            f"{_name(step)} with dim={step.dim} compares rows with each other. Use dim=1."
        )


def _sigmoid(step: Any, outputs: int) -> None:
    if outputs > 1:
        raise UnsupportedModel(
            f"{_name(step)} over {outputs} outputs decides on each of them by itself; expected one "
            "output, or Softmax. Explain the outputs one by one, each as a Linear of its own."
        )


LINKS: dict[str, Callable[[Any, int], None]] = {
    "LogSoftmax": _softmax,
    "Sigmoid": _sigmoid,
    "Softmax": _softmax,
}


# --- refusals ---


def _refusal(module: Any) -> UnsupportedModel:
    """The error of a module that holds a step which is not read: which, and what to do."""
    steps = [(_path(name), step) for name, step in module.named_modules()]
    linear = [i for i, (_, step) in enumerate(steps) if _kind(step) == "Linear"]
    strange = [i for i, (_, step) in enumerate(steps) if not _kind(step) or _kind(step) in LINKS]
    if not strange or (not linear and _kind(steps[strange[0]][1])):
        return UnsupportedModel(f"{_name(module)} has no nn.Linear. Pass one, or what ends in one.")
    place, step = steps[strange[0]]
    what = f"{_name(module)} cannot be read exactly: {place} is {_name(step)}"
    if linear and strange[0] > linear[-1]:
        return UnsupportedModel(
            f"{what}; expected at most one of {', '.join(LINKS)} after the last nn.Linear. "
            "Pass a module that ends so."
        )
    known = type(step).__module__.startswith(TORCH) and "forward" not in vars(step)
    read = f"expected {', '.join(sorted({*AFFINE, *INERT}))} alone"
    why = read if known else "what its forward does cannot be known"
    example = f", as in cp.LastLayer({steps[linear[-1]][0]})," if linear else ""
    return UnsupportedModel(
        f"{what}; {why}. Pass the last layer over the features that come before it{example} and "
        "explain its inputs."
    )


def _path(name: str) -> str:
    """``head.0.fc`` → ``module.head[0].fc``."""
    parts = name.split(".") if name else []
    return "module" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts)


def _name(module: Any) -> str:
    return type(module).__name__
