"""Load an explained model as MLflow does, as one of the kind ``pyfunc``.

It is a folder with ``model.skops``, ``train.csv`` and ``policy.toml``, is kept with
``mlflow.pyfunc.save_model(path, loader_module="counterpoint.app.pyfunc", data_path=folder)``, and
needs nothing of MLflow itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

import counterpoint as cp
from counterpoint.cli.files import read_rows
from counterpoint.cli.model_files import Trust


@final
class Explained:
    """A model as MLflow calls it: ``predict`` returns the changed rows, with the report beside."""

    def __init__(self, folder: Path) -> None:
        problem = cp.Problem.load(folder / "policy.toml")
        if problem.target is None:
            raise cp.InvalidInput("Expected a target in policy.toml; write one.")
        self.target = problem.target
        model = Trust().load(folder / "model.skops")
        self.explainer = problem.explainer(model, data=read_rows(folder / "train.csv"))

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the counterfactual rows of a data frame, and the report's columns as ``cf_...``.

        Parameters
        ----------
        model_input
            A pandas data frame with the columns of the model.
        params
            ``time_limit``: seconds for each row.
        """
        limit = (params or {}).get("time_limit")
        answers = self.explainer.explain(model_input, self.target, time_limit=limit, progress=False)
        return answers.to_frame().join(answers.report().add_prefix("cf_"))


def _load_pyfunc(path: str) -> Explained:
    return Explained(Path(path))
