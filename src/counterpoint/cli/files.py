"""Read and write the files of commands: rows, and answers."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import counterpoint as cp

if TYPE_CHECKING:
    import pandas as pd

STDOUT = Path("-")


def read_rows(path: Path) -> pd.DataFrame:
    """Read the rows of a file, numbered from 0.

    Raises
    ------
    InvalidInput
        If the file is of another kind or damaged.
    MissingExtra
        If reading it needs a package that is not installed.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        sheet = suffix in (".xlsx", ".xls", ".ods")
        advice = " In the spreadsheet, save it as 'CSV UTF-8'." if sheet else ""
        raise cp.InvalidInput(
            f"Expected rows in a .csv, .parquet or .jsonl file; got {path.name}.{advice}"
        )
    require_file(path)
    try:
        return FORMATS[suffix](path).reset_index(drop=True)
    except cp.CounterpointError:
        raise
    except UnicodeDecodeError:
        raise cp.InvalidInput(
            f"{path.name} is not in UTF-8. Save it as that; a spreadsheet calls it 'CSV UTF-8'."
        ) from None
    except (ValueError, OSError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise cp.InvalidInput(f"{path.name} cannot be read: {reason}.") from error


def require_file(path: Path) -> None:
    """Raise if there is no such file, with the name that is most like it."""
    if path.is_dir():
        raise cp.InvalidInput(f"Expected a file; {str(path)!r} is a folder.")
    if path.exists():
        return
    folder = path.parent
    if not folder.is_dir():
        raise cp.InvalidInput(f"There is no file {str(path)!r}, nor a folder {str(folder)!r}.")
    alike = {entry.stem: entry for entry in folder.iterdir() if entry.suffix == path.suffix}
    near = get_close_matches(path.stem, alike, n=1, cutoff=0.7)
    hint = f"; did you mean {str(alike[near[0]])!r}?" if near else "."
    raise cp.InvalidInput(f"There is no file {str(path)!r}{hint}")


SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""Separators that other programs write in the place of commas, and their names."""
DECIMAL_COMMA = r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+"


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV file; refuse what pandas would misread, such as other separators than commas."""
    import pandas as pd

    with path.open(encoding="utf-8-sig") as file:
        header = file.readline()
    for separator, word in SEPARATORS.items():
        if separator in header and "," not in header:
            raise cp.InvalidInput(
                f"{path.name} has {word} between its cells. Save it with commas, and with points "
                "in decimal numbers."
            )
    try:
        frame = pd.read_csv(path)
    except pd.errors.ParserError as error:
        counts = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if counts is None:
            raise
        names, line, cells = counts.groups()
        raise cp.InvalidInput(
            f"{path.name}, line {line}: expected {names} cells, as many as the first line has "
            f"names; got {cells}. Put texts with commas in quotation marks."
        ) from None
    if not isinstance(frame.index, pd.RangeIndex):  # made of the cells that have no name
        raise cp.InvalidInput(
            f"{path.name}: rows have more cells than the first line has names. Name every column, "
            "and put texts with commas in quotation marks."
        )
    _note_decimal_commas(path.name, frame)
    return frame


def _note_decimal_commas(name: str, frame: pd.DataFrame) -> None:
    """Warn of columns whose numbers have a decimal comma, which are text."""
    texts = frame.select_dtypes(exclude=["number", "bool"])
    for column in texts:
        cells = texts[column].dropna().astype(str)
        if len(cells) and cells.str.fullmatch(DECIMAL_COMMA).all():
            warnings.warn(
                f"{name}: column {column!r} has numbers with a decimal comma, such as "
                f"{cells.iloc[0]}, which are read as text. Write points.",
                stacklevel=2,
            )


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    _need_parquet(path)
    return pd.read_parquet(path)


def _need_parquet(path: Path) -> None:
    try:
        import_module("pyarrow")
    except ImportError:
        raise cp.MissingExtra(
            f"{path.name} is a Parquet file, which needs pyarrow, and that is not installed. "
            "Install it with 'pip install pyarrow', or use CSV."
        ) from None


def _read_lines(path: Path) -> pd.DataFrame:
    """Read rows of JSON lines: pandas would not say which line is wrong, nor keep all types."""
    import pandas as pd

    rows = []
    # not splitlines, which ends a line at other characters too, that JSON texts may hold
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        place = f"{path.name}, line {number}"
        try:
            row = json.loads(line) if line.strip() else {}
        except json.JSONDecodeError as error:
            raise cp.InvalidInput(f"{place} is not JSON: {error}.") from error
        except RecursionError:
            raise cp.InvalidInput(
                f"{place}: lists stand in one another too deeply; expected an object of column "
                "names and values."
            ) from None
        if not isinstance(row, dict):
            raise cp.InvalidInput(
                f"{place}: expected an object of column names and values; got {line.strip()[:40]}."
            )
        if line.strip():
            rows.append(row)
    if not rows:
        raise cp.InvalidInput(f"{path.name} has no rows.")
    return pd.DataFrame(rows)


FORMATS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".jsonl": _read_lines,
}
"""Endings of files of rows, and the functions that read them."""


def check_out(out: Path | None, *inputs: Path | None) -> None:
    """Raise, before any work, if a file cannot be written, or would replace an input."""
    if out is None or out == STDOUT:
        return
    if out.suffix not in FORMATS:
        raise cp.InvalidInput(
            "Expected --out to end in .csv, .parquet or .jsonl, or to be - for JSON lines on "
            f"standard output; got {out.name}."
        )
    if not out.parent.is_dir():
        raise cp.InvalidInput(f"There is no folder {str(out.parent)!r} for --out; make it first.")
    if any(path is not None and path.resolve() == out.resolve() for path in inputs):
        raise cp.InvalidInput(f"--out {out} would overwrite an input; choose another name.")
    if out.suffix == ".parquet":
        _need_parquet(out)


def write(
    out: Path,
    table: Callable[[], pd.DataFrame],
    lines: Callable[[], Iterable[str]] | None = None,
) -> str:
    """Write a table, or JSON lines, by the ending of the file; return where it was written.

    JSON lines are those of the table by default. A file is written completely or not at all.
    """

    def write_lines(file: TextIO) -> None:
        if lines is not None:
            file.writelines(lines())
        else:
            file.write(table().to_json(orient="records", lines=True, force_ascii=False))

    if out == STDOUT:
        write_lines(sys.stdout)
        return "standard output"
    temporary = out.with_name(f".{out.name}.part")
    try:
        try:
            if out.suffix == ".csv":
                _without_formulas(table()).to_csv(temporary, index=False)
            elif out.suffix == ".parquet":
                table().to_parquet(temporary, index=False)
            else:
                with temporary.open("w", encoding="utf-8") as file:
                    write_lines(file)
            temporary.replace(out)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:  # the user knows of no other file than the one asked for
        reason = error.strerror or str(error)
        raise cp.InvalidInput(
            f"{out} cannot be written: {reason}. Choose another place."
        ) from error
    return str(out)


FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
"""Beginnings of cells that spreadsheets take for formulas, as OWASP lists them."""
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def _without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with an apostrophe before each text that a spreadsheet would run as a formula.

    Names of columns are such texts, too. Numbers stay as they are, and so do texts of numbers.
    """
    return _mapped(table, lambda text: f"'{text}" if _is_formula(text) else text)


def with_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of answers as it was before `write` put apostrophes before formulas."""
    return _mapped(
        table, lambda text: text[1:] if text[:1] == "'" and _is_formula(text[1:]) else text
    )


def _is_formula(cell: Any) -> bool:
    return bool(FORMULA.match(cell)) and not NUMBER.fullmatch(cell)


def _mapped(table: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    """Return a table with all its texts changed, names of columns too."""

    def changed(cell: Any) -> Any:
        return change(cell) if isinstance(cell, str) else cell

    out = table.rename(columns=changed)
    for j, dtype in enumerate(table.dtypes):
        if dtype.kind not in "biuf":
            out.isetitem(j, [*map(changed, table.iloc[:, j].tolist())])
    return out
