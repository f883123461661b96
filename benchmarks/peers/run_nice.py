"""NICE on the rows of a task, on standardised data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from exchange import Explain, Task, run
from nice import NICE


def tool(reward: str) -> Callable[[Task], Explain]:
    """One reward of NICE."""

    def prepare(task: Task) -> Explain:
        train = task.standardised(task.train).to_numpy()
        rows = task.standardised(task.rows).to_numpy()

        def probabilities(points: Any) -> Any:
            share = 1.0 / (1.0 + np.exp(-(points.astype(float) @ task.coef + task.intercept)))
            return np.stack([1.0 - share, share], axis=1)

        explainer = NICE(
            probabilities, train, cat_feat=[], y_train=task.labels.to_numpy(), optimization=reward
        )

        def explain(i: int) -> Any:
            return explainer.explain(rows[[i]])[0] * task.scale + task.mean

        return explain

    return prepare


if __name__ == "__main__":
    run({f"NICE {reward}": tool(reward) for reward in ("none", "sparsity", "proximity")})
