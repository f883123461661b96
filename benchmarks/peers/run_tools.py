"""DiCE, NICE and CFNOW on mixed data frames: whichever of them is installed here.

The folder holds train.csv (with ``label``), rows.csv and model.json: a logistic regression or a
forest over standardised numbers and one-hot categories, so that no pickle has to travel between
versions.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Explain = Callable[[int], Any]


class Model:
    """The regression or the forest, as scikit-learn's would answer."""

    def __init__(self, folder: Path) -> None:
        self.train = pd.read_csv(folder / "train.csv")
        self.labels = self.train.pop("label")
        self.rows = pd.read_csv(folder / "rows.csv")
        self.told = json.loads((folder / "model.json").read_text())
        self.columns = self.told["columns"]
        self.classes_ = np.array([0, 1])

    @property
    def categorical(self) -> list[str]:
        """Names."""
        return [name for name, column in self.columns.items() if "categories" in column]

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        """(n, 2)."""
        blocks = []
        for name, column in self.columns.items():
            if "categories" in column:
                words = frame[name].astype(str).to_numpy()
                blocks += [words == str(category) for category in column["categories"]]
            else:
                values = frame[name].to_numpy(dtype=float)
                blocks.append((values - column["mean"]) / column["scale"])
        inputs = np.stack(blocks, axis=1).astype(float)
        if "trees" in self.told:
            share = np.mean([leaf(tree, inputs) for tree in self.told["trees"]], axis=0)
        else:
            score = inputs @ np.array(self.told["coef"]) + self.told["intercept"]
            share = 1.0 / (1.0 + np.exp(-score))
        return np.stack([1.0 - share, share], axis=1)

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        """(n,) 0 or 1."""
        return self.predict_proba(frame).argmax(axis=1)


def leaf(tree: dict[str, list[float]], inputs: np.ndarray) -> np.ndarray:
    """(n,) the share of class 1 in the leaf of each row."""
    lower, right, column = (np.array(tree[name]) for name in ("left", "right", "column"))
    threshold, single = np.array(tree["threshold"]), inputs.astype(np.float32)
    node, rows = np.zeros(len(inputs), dtype=int), np.arange(len(inputs))
    while (inner := lower[node] >= 0).any():
        low = single[rows, column[node]] <= threshold[node]
        node = np.where(inner, np.where(low, lower[node], right[node]), node)
    return np.array(tree["share"])[node]


def dice(method: str) -> Callable[[Model], Explain]:
    """One method of DiCE, with its own defaults."""

    def prepare(model: Model) -> Explain:
        import dice_ml

        data = dice_ml.Data(
            dataframe=model.train.assign(label=model.labels),
            continuous_features=[n for n in model.train if n not in model.categorical],
            outcome_name="label",
        )
        wrapped = dice_ml.Model(model=model, backend="sklearn")
        explainer = dice_ml.Dice(data, wrapped, method=method)

        def explain(i: int) -> Any:
            np.random.seed(i)  # noqa: NPY002 (DiCE draws from it)
            options = {"random_seed": i} if method == "random" else {}
            row = model.rows.iloc[[i]]
            made = explainer.generate_counterfactuals(
                row, total_CFs=1, desired_class="opposite", verbose=False, **options
            )
            answer = made.cf_examples_list[0].final_cfs_df
            return None if answer is None or not len(answer) else answer[list(row)].iloc[0]

        return explain

    return prepare


def nice(reward: str) -> Callable[[Model], Explain]:
    """One reward of NICE; categories are numbered."""

    def prepare(model: Model) -> Explain:
        from nice import NICE

        categories = {name: sorted(model.train[name].unique()) for name in model.categorical}
        names = list(model.train)

        def coded(frame: pd.DataFrame) -> np.ndarray:
            numbered = {
                n: frame[n].map({c: k for k, c in enumerate(cs)}) for n, cs in categories.items()
            }
            return frame.assign(**numbered).to_numpy(dtype=float)

        def decoded(points: Any) -> pd.DataFrame:
            frame = pd.DataFrame(np.asarray(points, dtype=float), columns=names)
            named = {n: frame[n].map(dict(enumerate(cs))) for n, cs in categories.items()}
            return frame.assign(**named)

        explainer = NICE(
            lambda points: model.predict_proba(decoded(points)),
            coded(model.train),
            cat_feat=[names.index(n) for n in model.categorical],
            y_train=model.labels.to_numpy(),
            optimization=reward,
        )
        return lambda i: decoded(explainer.explain(coded(model.rows.iloc[[i]]))).iloc[0]

    return prepare


def cfnow(strategy: str) -> Callable[[Model], Explain]:
    """One strategy of CFNOW, over one-hot columns, in ten seconds a row at most."""

    def prepare(model: Model) -> Explain:
        from cfnow import find_tabular

        values = {name: sorted(model.train[name].unique().tolist()) for name in model.train}
        blocks = {n: cs for n, cs in values.items() if n in model.categorical or cs == [0, 1]}
        numbers = [n for n in model.train if n not in blocks]
        safe = {n: f"c{k}" for k, n in enumerate(blocks)}  # the prefix of a block ends at its _
        wide = {f"{safe[n]}_{k}": (n, c) for n, cs in blocks.items() for k, c in enumerate(cs)}
        plain = {n: f"n{k}" for k, n in enumerate(numbers)}
        kinds = {**dict.fromkeys(plain.values(), "num"), **dict.fromkeys(wide, "cat")}

        def coded(row: Any) -> pd.Series:
            values = {new: float(row[old]) for old, new in plain.items()}
            values |= {column: float(row[n] == c) for column, (n, c) in wide.items()}
            return pd.Series(values)

        def decoded(points: Any) -> pd.DataFrame:
            frame = pd.DataFrame(
                np.atleast_2d(np.asarray(points, dtype=float)), columns=list(kinds)
            )
            out = {old: frame[new] for old, new in plain.items()}
            for n, cs in blocks.items():
                columns = [c for c, (name, _) in wide.items() if name == n]
                out[n] = np.array(cs, dtype=object)[frame[columns].to_numpy().argmax(axis=1)]
            return pd.DataFrame(out)[list(model.train)]

        def explain(i: int) -> Any:
            np.random.seed(i)  # noqa: NPY002 (CFNOW draws from it)
            made = find_tabular(
                factual=coded(model.rows.iloc[i]),
                model_predict_proba=lambda points: model.predict_proba(decoded(points)),
                feat_types=kinds,
                has_ohe=bool(wide),
                cf_strategy=strategy,
                limit_seconds=10,
            )
            return decoded(made.cfs[0]).iloc[0] if len(made.cfs) else None

        return explain

    return prepare


TOOLS = {
    "DiCE random": dice("random"),
    "DiCE genetic": dice("genetic"),
    "NICE sparsity": nice("sparsity"),
    "NICE proximity": nice("proximity"),
    "CFNOW greedy": cfnow("greedy"),
    "CFNOW random": cfnow("random"),
}


def main() -> None:
    """Time each tool on each row; a fault inside a tool counts as nothing found, and is counted."""
    warnings.filterwarnings("ignore")
    folder = Path(sys.argv[1])
    results = {}
    for name in sys.argv[2].split("|"):
        model = Model(folder)
        explain = TOOLS[name](model)
        rows, seconds, faults = [], [], 0
        for i in range(len(model.rows)):
            start = time.process_time()
            try:
                answer = explain(i)
            except Exception:  # noqa: BLE001 (a peer may raise anything)
                answer, faults = None, faults + 1
            seconds.append(time.process_time() - start)
            rows.append(None if answer is None else {k: str(v) for k, v in dict(answer).items()})
        results[name] = {"rows": rows, "cpu": seconds, "faults": faults}
    (folder / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
