"""A file system that kills the workers who read from it; a module, so that they can import it."""

from __future__ import annotations

import os
import signal
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem


class Deadly(LocalFileSystem):
    """Kills the worker that opens a file named poison, and once the one that opens part1."""

    protocol = "deadly"

    def _open(self, path: str, *args: Any, **options: Any) -> Any:
        once = Path(path).parent.parent / "killed"
        is_first = path.endswith("part1.parquet") and not once.exists()
        if parent_process() is not None and ("poison" in path or is_first):
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._open(path, *args, **options)
