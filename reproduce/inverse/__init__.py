"""What `reproduce/inverse_classification.py` is made of: data sets, methods, experiments, figures.

Numbers of figures, tables, theorems and appendices are those of Carreira-Perpiñán and Hada,
*Inverse classification with logistic and softmax classifiers: efficient optimization*. The peers
live beside the benchmarks; importing those limits linear algebra to one thread.
"""

import sys
from pathlib import Path

import matplotlib as mpl

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
mpl.use("Agg")

import _common  # noqa: F401 (one thread)
