"""OCEAN's constraint programs for a forest, in its own environment; see bench_trees.py."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from time import process_time

import ocean
import pandas as pd


def main() -> None:
    folder, seconds = Path(sys.argv[1]), int(sys.argv[2])
    model = pickle.loads((folder / "model.pickle").read_bytes())  # noqa: S301 (made by the benchmark)
    table = pd.read_csv(folder / "train.csv")
    rows = pd.read_csv(folder / "rows.csv").to_numpy()
    _, mapper = ocean.feature.parse_features(table, scale=False)
    explainer = ocean.ConstraintProgrammingExplainer(model, mapper=mapper)
    answers = []
    for x in rows:
        start = process_time()
        answer = explainer.explain(x, y=1, norm=1, max_time=seconds, num_workers=1)
        row = None if answer is None else answer.x.tolist()
        clock, proved = process_time() - start, explainer.get_solving_status() == "OPTIMAL"
        answers.append({"row": row, "cpu": clock, "proved": proved})
    (folder / "results.json").write_text(json.dumps(answers))


main()
