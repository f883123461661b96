"""DiCE on the rows of a task, raw (a pipeline on the data as it is) and on standardised data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import dice_ml
import numpy as np
from exchange import Explain, Task, run
from raiutils.exceptions import UserConfigValidationException
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def regression(task: Task) -> LogisticRegression:
    """The task's model, as scikit-learn would have fitted it."""
    model = LogisticRegression()
    model.coef_, model.intercept_ = task.coef[None, :], np.array([task.intercept])
    model.classes_, model.n_features_in_ = np.array([0, 1]), len(task.coef)
    model.n_iter_ = np.array([1])
    return model


def pipeline(task: Task) -> Any:
    """The same behind its scaler."""
    scaler = StandardScaler()
    scaler.mean_, scaler.scale_, scaler.var_ = task.mean, task.scale, task.scale**2
    scaler.n_features_in_, scaler.n_samples_seen_ = len(task.mean), len(task.train)
    return make_pipeline(scaler, regression(task))


def tool(method: str, *, raw: bool) -> Callable[[Task], Explain]:
    """One method of DiCE."""

    def prepare(task: Task) -> Explain:
        train = task.train if raw else task.standardised(task.train)
        rows = task.rows if raw else task.standardised(task.rows)
        names = list(train.columns)
        data = dice_ml.Data(
            dataframe=train.assign(label=task.labels),
            continuous_features=names,
            outcome_name="label",
        )
        model = dice_ml.Model(model=pipeline(task) if raw else regression(task), backend="sklearn")
        explainer = dice_ml.Dice(data, model, method=method)

        def explain(i: int) -> Any:
            np.random.seed(i)  # noqa: NPY002 (DiCE draws from it)
            options = {"random_seed": i} if method == "random" else {}
            free = "all" if task.free is None else [names[j] for j in task.free[i]]
            try:
                answer = explainer.generate_counterfactuals(
                    rows.iloc[[i]],
                    total_CFs=1,
                    desired_class="opposite",
                    features_to_vary=free,
                    verbose=False,
                    **options,
                )
            except (UserConfigValidationException, ValueError):
                return None  # nothing found, or a fault of its own ("empty range for randrange()")
            found = answer.cf_examples_list[0].final_cfs_df
            if found is None or not len(found):
                return None
            point = found[names].iloc[[0]].astype(float).reset_index(drop=True)
            return (point if raw else task.raw(point)).to_numpy()[0]

        return explain

    return prepare


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    methods = ("random", "genetic", "kdtree")
    tools = {f"DiCE {method}, raw": tool(method, raw=True) for method in methods}
    tools |= {f"DiCE {method}": tool(method, raw=False) for method in ("random", "genetic")}
    run(tools)
