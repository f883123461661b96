"""Laws as plain values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoint.errors import InvalidInput
from counterpoint.noise.gamma import ProjectedGamma
from counterpoint.noise.gaussian import ProjectedGaussian
from counterpoint.noise.laplace import ProjectedLaplace
from counterpoint.noise.law import NoiseLaw

__all__ = ["law_from_record"]

LAWS: tuple[type[NoiseLaw], ...] = (ProjectedLaplace, ProjectedGamma, ProjectedGaussian)


def law_from_record(kind: str, parameters: Mapping[str, Any]) -> NoiseLaw:
    """The law of this `NoiseLaw.kind` with these `NoiseLaw.parameters`.

    Raises
    ------
    InvalidInput
        If there is no such law, or its parameters are others.
    """
    laws = {law.kind: law for law in LAWS}
    if kind not in laws:
        raise InvalidInput(f"Expected a noise law among {sorted(laws)}, and got {kind!r}.")
    try:
        return laws[kind](**parameters)
    except TypeError as error:
        raise InvalidInput(
            f"Expected the parameters of {kind} noise, and got {sorted(parameters)}: pass those of "
            "NoiseLaw.parameters()."
        ) from error
