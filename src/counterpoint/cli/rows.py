"""Rows from CSV, Parquet and JSON-lines files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import counterpoint as cp

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FORMATS", "need_parquet", "read_rows"]

FORMATS = (".csv", ".parquet", ".jsonl")


def read_rows(path: Path) -> pd.DataFrame:
    """The rows of a file, numbered from 0.

    Raises
    ------
    InvalidInput
        If the file is of another kind or damaged.
    MissingExtra
        If reading it needs a package that is not installed.
    """
    import pandas as pd

    readers: dict[str, Callable[[Path], pd.DataFrame]] = {
        ".csv": pd.read_csv,
        ".parquet": _read_parquet,
        ".jsonl": _read_lines,
    }
    if path.suffix not in readers:
        raise cp.InvalidInput(f"Expected rows in a {_any(FORMATS)} file; got {path.name}.")
    path.open("rb").close()
    try:
        frame = readers[path.suffix](path)
    except (ValueError, OSError) as error:
        if isinstance(error, cp.CounterpointError):
            raise
        said = " ".join(str(error).split()).removesuffix(".")
        raise cp.InvalidInput(f"{path.name} cannot be read: {said}.") from error
    return frame.reset_index(drop=True)


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    need_parquet(path)
    return pd.read_parquet(path)


def need_parquet(path: Path) -> None:
    """Raise unless Parquet files can be read and written."""
    try:
        import_module("pyarrow")
    except ImportError:
        raise cp.MissingExtra(
            f"{path.name} is a Parquet file, which needs pyarrow, and that is not installed. "
            "Install it with 'pip install pyarrow', or use CSV."
        ) from None


def _read_lines(path: Path) -> pd.DataFrame:
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise cp.InvalidInput(f"{path.name}, line {number}, is not JSON: {error}.") from error
        if not isinstance(row, dict):
            raise cp.InvalidInput(
                f"{path.name}, line {number}: expected an object of column names and values; "
                f"got {line.strip()[:40]}."
            )
        rows.append(row)
    if not rows:
        raise cp.InvalidInput(f"{path.name} has no rows.")
    return pd.DataFrame(rows)


def _any(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
