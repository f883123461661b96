"""What all reproductions share: the page, and how figures look and are written.

Importing it puts the folder of the benchmarks on the path, where peers and data are, and limits
linear algebra to one thread.
"""

import sys
from pathlib import Path

import matplotlib as mpl

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
mpl.use("Agg")

import _common  # noqa: F401 (one thread)
