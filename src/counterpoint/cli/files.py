"""Files that commands write: checked before any work, and there completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import counterpoint as cp
from counterpoint.cli.rows import FORMATS, need_parquet

__all__ = ["STDOUT", "check_out", "completely"]

STDOUT = Path("-")


def check_out(out: Path, *inputs: Path | None) -> None:
    """Raise, before any work, if nothing could be written there."""
    if out == STDOUT:
        return
    if out.suffix not in FORMATS:
        raise cp.InvalidInput(
            f"Expected --out to end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, or to be - for "
            f"JSON lines on standard output; got {out.name}."
        )
    if not out.parent.is_dir():
        raise cp.InvalidInput(f"There is no folder {str(out.parent)!r} for --out; make it first.")
    if any(given is not None and given.resolve() == out.resolve() for given in inputs):
        raise cp.InvalidInput(f"--out {out} would overwrite an input; choose another name.")
    if out.suffix == ".parquet":
        need_parquet(out)


@contextmanager
def completely(out: Path) -> Iterator[Path]:
    """A place to write to, which becomes the file if all goes well, and is gone if not."""
    part = out.with_name(f".{out.name}.part")
    try:
        try:
            yield part
            part.replace(out)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:  # the user knows of no other file than the one asked for
        said = error.strerror or str(error)
        raise cp.InvalidInput(f"{out} cannot be written: {said}. Choose another place.") from error
