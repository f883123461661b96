"""Files that commands read and write: models, rows, and answers."""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, final
from zipfile import BadZipFile, ZipFile

import typer

import counterpoint as cp
from counterpoint.cli.answers import plain

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "STDOUT",
    "Trust",
    "check_out",
    "option",
    "out_option",
    "read_rows",
    "with_formulas",
    "write",
]

FORMATS = (".csv", ".parquet", ".jsonl")
STDOUT = Path("-")


def option(
    says: str, metavar: str | None = None, *names: str, panel: str | None = None, **settings: Any
) -> Any:
    """An option of a command, which shows no default."""
    return typer.Option(
        *names, help=says, metavar=metavar, rich_help_panel=panel, show_default=False, **settings
    )


def out_option(what: str, otherwise: str, panel: str | None = None) -> Any:
    """The option --out of a command that writes a table, or shows something else without it."""
    return option(
        f"Write {what} to a .csv, .parquet or .jsonl file; - for JSON lines on standard output. "
        f"Without it, {otherwise}.",
        "FILE",
        panel=panel,
    )


# Rows


def read_rows(path: Path) -> pd.DataFrame:
    """Read the rows of a file, numbered from 0.

    Raises
    ------
    InvalidInput
        If the file is of another kind or damaged.
    MissingExtra
        If reading it needs a package that is not installed.
    """
    import pandas as pd

    if path.suffix not in FORMATS:
        raise cp.InvalidInput(f"Expected rows in a .csv, .parquet or .jsonl file; got {path.name}.")
    path.open("rb").close()
    if path.suffix == ".parquet":
        _need_parquet(path)
    readers: dict[str, Callable[[Path], pd.DataFrame]]
    readers = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".jsonl": _read_lines}
    try:
        frame = readers[path.suffix](path)
    except (ValueError, OSError) as error:
        if isinstance(error, cp.CounterpointError):
            raise
        reason = " ".join(str(error).split()).removesuffix(".")
        raise cp.InvalidInput(f"{path.name} cannot be read: {reason}.") from error
    return frame.reset_index(drop=True)


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

    rows: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise cp.InvalidInput(f"{path.name}, line {number}, is not JSON: {error}.") from error
        except RecursionError:
            raise cp.InvalidInput(
                f"{path.name}, line {number}: lists stand in one another too deeply; expected an "
                "object of column names and values."
            ) from None
        if not isinstance(row, dict):
            raise cp.InvalidInput(
                f"{path.name}, line {number}: expected an object of column names and values; "
                f"got {line.strip()[:40]}."
            )
        rows.append(row)
    if not rows:
        raise cp.InvalidInput(f"{path.name} has no rows.")
    return pd.DataFrame(rows)


# What is written


def check_out(out: Path, *inputs: Path | None) -> None:
    """Raise if the file could not be written; called before any work."""
    if out == STDOUT:
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
    if lines is None:

        def lines() -> list[str]:
            return [table().to_json(orient="records", lines=True, force_ascii=False)]

    if out == STDOUT:
        sys.stdout.writelines(lines())
        return "standard output"
    temporary = out.with_name(f".{out.name}.part")
    try:
        try:
            if out.suffix == ".jsonl":
                with temporary.open("w", encoding="utf-8") as file:
                    file.writelines(lines())
            elif out.suffix == ".csv":
                _without_formulas(table()).to_csv(temporary, index=False)
            else:
                table().to_parquet(temporary, index=False)
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
"""What spreadsheets take for the beginning of a formula, as OWASP lists it."""
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def _without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose texts, names of columns too, are no formulas: with an apostrophe before them.

    Numbers stay as they are, and so do texts that are numbers.
    """
    return _mapped(table, lambda text: f"'{text}" if _is_formula(text) else text)


def with_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """A table of answers as it was before `write` put apostrophes before formulas."""
    return _mapped(
        table, lambda text: text[1:] if text[:1] == "'" and _is_formula(text[1:]) else text
    )


def _is_formula(text: str) -> bool:
    return bool(FORMULA.match(text)) and not NUMBER.fullmatch(text)


def _mapped(table: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:

    def changed(cell: Any) -> Any:
        return change(cell) if isinstance(cell, str) else cell

    out = table.rename(columns=changed)
    for j, kind in enumerate(table.dtypes):
        if kind.kind not in "biuf":
            out.isetitem(j, [*map(changed, table.iloc[:, j].tolist())])
    return out


# Models: skops, which is safe to load; pickles only if they are trusted

BROKEN = (
    *(ArithmeticError, AssertionError, AttributeError, BadZipFile, EOFError),
    *(ImportError, LookupError, MemoryError, RuntimeError, TypeError, ValueError, zlib.error),
)
"""What reading a damaged or foreign file raises, in skops and in pickle."""
LVQ = ("GLVQ", "GMLVQ", "GRLVQ", "LGMLVQ", "LMRSLVQ", "MRSLVQ", "RSLVQ")
SAFE = (
    *(f"counterpoint.lvq.estimators.{name}" for name in LVQ),
    "counterpoint.privacy.accountant.BudgetAccountant",
    "counterpoint.privacy.svc.PrivateSVC",
    "numpy.dtype",
    "sklearn.metrics._scorer._PassthroughScorer",
    *(f"sklearn.model_selection._split.{name}" for name in ("KFold", "StratifiedKFold")),
)
"""The estimators of this package, which run nothing that a file brings along; and what imputers and
searches hold: descriptions of numbers, of scores and of folds."""


@final
@dataclass(frozen=True)
class Trust:
    """The options that say what the file of a model may do."""

    trust_pickle: Annotated[
        bool,
        option(
            "Load a .pkl, .pickle or .joblib file, though loading it can run any program that its "
            "author put in.",
            None,
            "--trust-pickle",
            panel="Model file",
        ),
    ] = False
    trust: Annotated[
        list[str] | None,
        option(
            "Load this type from a .skops file, though it is not known to be safe. Repeatable.",
            "TYPE",
            panel="Model file",
        ),
    ] = None
    trust_size: Annotated[
        bool,
        option(
            "Load a .skops file though it is packed so tightly that it takes far more memory than "
            "its size says.",
            None,
            "--trust-size",
            panel="Model file",
        ),
    ] = False

    def load(self, path: Path) -> Any:
        """Load the fitted model of a file.

        Raises
        ------
        InvalidInput
            If the file is of another kind, damaged, or holds what is not trusted.
        UnsupportedModel
            If it holds what is not trusted in a model that could not be explained anyway.
        """
        path.open("rb").close()
        if path.suffix == ".skops":
            return _load_skops(path, self.trust or (), trust_size=self.trust_size)
        if path.suffix not in (".pkl", ".pickle", ".joblib"):
            raise cp.InvalidInput(
                f"Expected a model in a .skops file; got {path.name}. Save yours with "
                "skops.io.dump(model, 'model.skops')."
            )
        if not self.trust_pickle:
            raise cp.InvalidInput(
                f"{path.name} is a pickle, and loading a pickle can run any program that its "
                "author put in. Save the model with skops.io.dump(model, 'model.skops') instead; "
                "if you know where the file comes from, add --trust-pickle."
            )
        import pickle

        import joblib

        try:
            return joblib.load(path)
        except (*BROKEN, pickle.UnpicklingError) as error:
            raise cp.InvalidInput(f"{path.name} is not a readable pickle: {error}.") from error


def _load_skops(path: Path, trust: Sequence[str], *, trust_size: bool) -> Any:
    from skops import io

    try:
        if not trust_size:
            _refuse_bomb(path)
        untrusted = io.get_untrusted_types(file=path)
        unknown = [t for t in untrusted if t not in (*trust, *SAFE)]
        if not unknown:
            return io.load(path, trusted=untrusted)
        _refuse_unreadable(path)
    except BROKEN as error:
        if isinstance(error, cp.CounterpointError):
            raise
        raise cp.InvalidInput(f"{path.name} is not a readable skops file: {error}.") from error
    options = " ".join(f"--trust {name}" for name in unknown)
    raise cp.InvalidInput(
        f"{path.name} holds types that could run code of their own: {', '.join(unknown)}. If you "
        f"know what they do, add {options}."
    )


def _refuse_bomb(path: Path) -> None:
    """Raise if a small file would take much memory, before anything is unpacked."""
    # In bytes: 64 MB for any model, or 20 times the file, for fitted numbers are compressed two to
    # ten times. A character of a schema takes 16, since two of them make an object of 32.
    most = max(2**26, 20 * path.stat().st_size)
    with ZipFile(path) as file:
        sizes = {member.filename: member.file_size for member in file.infolist()}
        size = 16 * sizes["schema.json"]
        nodes = [json.loads(file.read("schema.json"))] if size <= most else []
    while nodes:  # an array counts as often as it is read
        node = nodes.pop()
        if isinstance(node, dict):
            size += sizes.get(str(node.get("file")), 0)
        if isinstance(node, dict | list):
            nodes += node.values() if isinstance(node, dict) else node
    if size > most:
        raise cp.InvalidInput(
            f"{path.name} has {plain(path.stat().st_size / 1e6)} MB, and takes about "
            f"{plain(size / 1e6)} MB when it is unpacked. If you know where it comes from, add "
            "--trust-size."
        )


def _refuse_unreadable(path: Path) -> None:
    """Raise if the model is of a class of scikit-learn that nobody reads: trust would not help."""
    from counterpoint.models import require_reader

    for module, name in _last_step(json.loads(ZipFile(path).read("schema.json"))):
        if module.partition(".")[0] == "sklearn":
            require_reader(getattr(import_module(module), name))


def _last_step(node: Any) -> Iterator[tuple[str, str]]:
    """Module and class of what a file holds; of a pipeline, of its last step."""
    module, name = node["__module__"], node["__class__"]
    if name == "Pipeline":
        yield from _last_step(node["content"]["content"]["steps"]["content"][-1]["content"][-1])
    else:
        yield module, name
