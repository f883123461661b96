"""Answer more rows than fit in memory: one pure function, and ways to run it.

`explain_batch` answers one Arrow record batch. `run` does so for all files of a data set, in this
process, in several, or on a Dask cluster; `on_spark` for a data frame of Spark.
"""

from __future__ import annotations

from counterpoint.scale.blocks import explain_batch, on_spark
from counterpoint.scale.running import BatchReport, run

__all__ = ["BatchReport", "explain_batch", "on_spark", "run"]
