"""Records of answers written to files and read from them: JSON lines, and Parquet in columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import COLUMNS, VIOLATION, Claim, Status, relative_gap
from counterpoint.engine.answering import SINGLE
from counterpoint.numerics import BoolArray, FloatArray, IntArray, WordArray
from counterpoint.records.checker import proved_bounds
from counterpoint.records.record import (
    NUMBERS,
    SCHEMA,
    WORDS,
    Batch,
    as_cell,
    as_proof,
    asked_of,
    canonical,
    check_parquet,
    digest,
    fingerprint,
    told,
    with_own_told,
)
from counterpoint.targets import Guarantee, Target

if TYPE_CHECKING:
    import pandas as pd

    from counterpoint.results import Counterfactuals

__all__ = ["to_batches", "to_json", "write_records"]

PLAIN = {"multipliers"}
"""What a proof's piece holds that has neither trees nor a wing's own proof: columns hold it."""


def to_batches(answers: Counterfactuals) -> Iterator[Batch]:
    """The records of answers in columns, one batch for each target."""
    import pandas as pd

    from counterpoint import __version__

    features = answers.features
    tables = [t.select(features.names) for t in (answers.table, answers.decoded(slice(None)))]
    frames = [pd.DataFrame({str(n): t.column(n) for n in features.names}) for t in tables]
    singles = [str(features.names[j]) for j in sorted(tables[0].singles)]
    codes, messages = answers.messages()
    said = np.array(messages, dtype=object)[codes]
    made = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": python_version(),
        "counterpoint": __version__,
        **{name: version(name) for name in ("numpy", "scikit-learn")},
    }
    read = fingerprint(answers.question.form, features, answers.fills)
    model = {"fingerprint": read, "features": [*map(str, features.names)]}
    groups: dict[str, list[int]] = {}
    for i, target in enumerate(answers.targets.tolist()):
        groups.setdefault(repr(target), []).append(i)
    for listed in groups.values():
        at, target = np.array(listed), answers.targets[listed[0]]
        asked = asked_of(answers, target, singles)
        shared = {"schema": SCHEMA, "made": made, "model": model, "asked": asked}
        shared["asked_hash"] = digest(canonical(asked))
        columns, proofs = _columns(answers, at, target)
        columns["message"] = said[at]
        columns["resolution"] = np.full(len(at), SINGLE if singles else VIOLATION)
        rows, after = (frame.iloc[at].reset_index(drop=True) for frame in frames)
        yield Batch(shared, rows, after, columns, proofs, at)


def _columns(
    answers: Counterfactuals, at: IntArray, target: Target
) -> tuple[dict[str, Any], list[Any]]:
    """Words and numbers of some answers to one target, and their proofs.

    Answers may have been found in coordinates of a span: their numbers are computed anew.
    """
    question, c = answers.question, answers.certificates
    x, y = (question.features.expand(codes[at]) for codes in (answers.before, answers.after))
    answered, status = c.valid[at], answers.statuses[at]
    out: dict[str, Any] = {name: getattr(c, name)[at] for name in NUMBERS if name in COLUMNS}
    out["cost"] = question.price(y - x)
    out["violation"] = question.actionable.violation(y, x)
    if target.promise is Guarantee.NONE:
        out["margin"] = question.form.margin(y, target)
        out["rounding"] = target.requirement.rounding(question.form, y, answers.eps)
    found = _proved(answers, at, target, x, y, out["rounding"])
    out["objective"], out["proved_bound"] = found.objective, found.bound
    for name in ("cost", "violation", "margin", "rounding", "objective"):
        out[name] = np.where(answered, out[name], np.nan)
    claim = _claims(status, c.claims[at], found.settled)
    bound = np.where((claim == Claim.REPORTED) | ~found.checked, c.bound[at], found.bound)
    bound = np.where(answered, np.fmin(bound, out["objective"]), bound)
    out["bound"] = np.where(status == Status.INVALID.code, 0.0, bound)
    out["gap"] = relative_gap(out["objective"], out["bound"])
    out |= {"status": Status.of(status), "claim": claim, "valid": answered}
    out["guarantee"] = Guarantee.of(c.guarantees[at])
    return out, found.proofs


@final
class Proved(NamedTuple):
    """What the proofs of n answers prove."""

    bound: FloatArray  # (n,)
    objective: FloatArray  # (n,)
    settled: BoolArray  # (n,) whether that settles the row
    checked: BoolArray  # (n,) whether there is a proof, or nothing has to be proved
    proofs: list[Any]


def _proved(
    answers: Counterfactuals,
    at: IntArray,
    target: Target,
    x: FloatArray,
    y: FloatArray,
    rounding: FloatArray,
) -> Proved:
    """What is kept of some rows, and what it proves."""
    already = answers.statuses[at] == Status.ALREADY.code
    cost, effort = answers.question.price(y - x), answers.effort
    assert effort is not None  # noqa: S101 (asked before)
    out = Proved(np.zeros(len(at)), cost, np.array(already), np.array(already), [None] * len(at))
    known = np.full(len(answers), -1)
    for k, (rows, _) in enumerate(answers.kept):
        known[rows] = k  # what was searched last counts
    known = np.where(already, -1, known[at])
    for k in np.unique(known[known >= 0]).tolist():
        rows, pieces = answers.kept[k]
        mine = np.flatnonzero(known == k)
        kept = [with_own_told(piece.take(np.searchsorted(rows, at[mine]))) for piece in pieces]
        about = x[mine], y[mine], answers.certificates.valid[at[mine]]
        limits = effort.gap, answers.eps, rounding[mine]
        part = proved_bounds(answers.question, target, about, kept, limits)
        if part is None:
            continue
        out.bound[mine], out.objective[mine], out.settled[mine] = part
        out.checked[mine] = True
        for i, place in enumerate(mine.tolist()):
            out.proofs[place] = as_proof(kept, i)
    return out


def _claims(status: WordArray, claims: WordArray, settled: BoolArray) -> NDArray[np.object_]:
    """(n,) what a record claims: proved only if its own proof settles it."""
    out = Claim.of(claims)
    optimal = np.isin(status, [Status.OPTIMAL.code, Status.INFEASIBLE.code])
    out[optimal] = np.where(settled[optimal], Claim.PROVED, Claim.REPORTED)
    return out


def to_json(batches: Iterable[Batch]) -> list[dict[str, Any]]:
    """The records as JSON has them, in the order of the answers."""
    out: dict[int, dict[str, Any]] = {}
    for batch in batches:
        sides = [_cells(frame) for frame in (batch.rows, batch.answers)]
        columns = {k: np.asarray(v).tolist() for k, v in batch.told.items()}
        for i, at in enumerate(batch.at.tolist()):
            record = {**batch.shared, "row": sides[0][i], "proof": batch.proofs[i]}
            record |= {name: told(values[i]) for name, values in columns.items()}
            record |= {name: str(record[name]) for name in WORDS}
            record["answer"] = sides[1][i] if record["valid"] else None
            record["digest"] = digest(canonical(record))
            out[at] = record
    return [out[at] for at in sorted(out)]


def _cells(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame as JSON has them."""
    columns = [[as_cell(value) for value in frame[name].tolist()] for name in frame.columns]
    names = frame.columns.tolist()
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def write_records(answers: Counterfactuals, path: str | PathLike[str]) -> None:
    """Write the records of answers: JSON lines, or Parquet by the ending of the name."""
    path, batches = Path(path), to_batches(answers)
    if path.suffix == ".jsonl":
        lines = (f"{canonical(record)}\n" for record in to_json(batches))
        path.write_text("".join(lines), encoding="utf-8")
        return
    check_parquet(path)
    import pandas as pd

    parts = []
    for batch in batches:
        columns: dict[str, Any] = {"shared": [canonical(batch.shared)] * len(batch.at)}
        for side, frame in (("row", batch.rows), ("answer", batch.answers)):
            columns |= {f"{side}.{name}": frame[name].array for name in frame.columns}
        columns |= {k: v.astype(str) if k in WORDS else v for k, v in batch.told.items()}
        plain = [p is not None and all(piece.keys() == PLAIN for piece in p) for p in batch.proofs]
        pairs = [*zip(batch.proofs, plain, strict=True)]
        columns["multipliers"] = [
            [v for piece in p for v in piece["multipliers"]] if one else None for p, one in pairs
        ]
        columns["proof"] = [None if p is None or one else canonical(p) for p, one in pairs]
        parts.append(pd.DataFrame(columns, index=batch.at))
    whole = pd.concat(parts).sort_index()
    whole["shared"] = whole["shared"].astype("category")
    whole.to_parquet(path, index=False)
