"""NICE on the rows of a task, on standardised data."""

import numpy as np
from exchange import run
from nice import NICE


def tool(reward):
    """One reward of NICE."""

    def prepare(task):
        train = task.standardised(task.train).to_numpy()
        rows = task.standardised(task.rows).to_numpy()

        def probabilities(points):
            share = 1.0 / (1.0 + np.exp(-(points.astype(float) @ task.coef + task.intercept)))
            return np.stack([1.0 - share, share], axis=1)

        explainer = NICE(
            probabilities, train, cat_feat=[], y_train=task.labels.to_numpy(), optimization=reward
        )

        def explain(i):
            return explainer.explain(rows[[i]])[0] * task.scale + task.mean

        return explain

    return prepare


if __name__ == "__main__":
    run({f"NICE {reward}": tool(reward) for reward in ("none", "sparsity", "proximity")})
