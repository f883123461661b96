"""`counterpoint inspect`: what was read of a model, as what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import typer

import counterpoint as cp
from counterpoint.cli.models import labels_of, load_model
from counterpoint.cli.options import Data, Extrapolate, Model, Spec, Trust, TrustPickle
from counterpoint.cli.rows import read_rows
from counterpoint.cli.speech import note, sentences

__all__ = ["inspect"]


def inspect(
    model: Model,
    data: Data = None,
    extrapolate: Extrapolate = False,
    spec: Spec = None,
    trust_pickle: TrustPickle = False,
    trust: Trust = None,
) -> None:
    """Say what was read of a model: its steps, the features, the cost, the constraints."""
    with sentences():
        problem = cp.Problem() if spec is None else cp.Problem.load(spec)
        problem = replace(problem, extrapolate=extrapolate or problem.extrapolate)
        loaded = load_model(model, trust_pickle=trust_pickle, trust=trust or ())
        train = None if data is None else read_rows(data)
        if train is None and problem.cost is None and not _knows_ranges(problem, loaded):
            note("Note: without --data every number counts as continuous, and every unit costs 1.")
            problem = replace(problem, cost=cp.Manhattan())
        explainer = problem.explainer(loaded, data=train)
        labels = labels_of(loaded)
        decides = "a number" if labels is None else ", ".join(map(str, labels))
        typer.echo(f"decides\n  {decides}\n{explainer.summary()}")


def _knows_ranges(problem: cp.Problem, model: Any) -> bool:
    """Whether a cost can be taken from what the policy or the model says of the features."""
    features = replace(problem, cost=cp.Manhattan()).explainer(model).features
    return all(isinstance(f, cp.Categorical) or f.observed is not None for f in features)
