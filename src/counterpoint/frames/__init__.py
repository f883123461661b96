"""Data frames at the boundary: pandas, polars, Arrow and NumPy in, the same kind out.

A `Table` hides which library a frame comes from. Answers are built by changing cells of the frame
that came in, so that index, column order and dtypes stay, and a cell that did not change is the
very value that was passed.
"""

from __future__ import annotations

from counterpoint.frames.cells import Cells
from counterpoint.frames.table import Table

__all__ = ["Cells", "Table"]
