"""sklearn-lvq on folds of data that are already split and scaled: accuracy, seconds of a fit."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn_lvq import GlvqModel, GmlvqModel, GrlvqModel, LgmlvqModel

MODELS = {"GLVQ": GlvqModel, "GRLVQ": GrlvqModel, "GMLVQ": GmlvqModel, "LGMLVQ": LgmlvqModel}


def main() -> None:
    """Fit each model on each fold; write what came of it."""
    folder, prototypes = Path(sys.argv[1]), int(sys.argv[2])
    warnings.simplefilter("ignore")  # of its own, at every fit
    results = []
    for file in sorted(folder.glob("*.npz")):
        data = np.load(file)
        for name, cls in MODELS.items():
            model = cls(prototypes_per_class=prototypes, random_state=0)
            start = time.process_time()
            model.fit(data["X"], data["y"])
            seconds = time.process_time() - start
            right = float((model.predict(data["X_test"]) == data["y_test"]).mean())
            results.append({"fold": file.stem, "model": name, "right": right, "cpu": seconds})
    (folder / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
