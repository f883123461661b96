"""Records: answers with all that is needed to check them again, as JSON.

A record holds what was asked, of which row, of which model (as a fingerprint of what was read of
it), what was answered, and the multipliers or trees that its bound rests on. Its numbers are those
that its own proof gives: `counterpoint.recheck` computes them anew, without a solver.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from scipy import sparse

from counterpoint.certificate import Kept
from counterpoint.constraints import Bounds, Constraint, WithinObserved
from counterpoint.engine.proof import Proof
from counterpoint.errors import InvalidInput, MissingExtra
from counterpoint.numerics import FloatArray, IntArray
from counterpoint.policy import Problem
from counterpoint.rows.cells import is_missing
from counterpoint.rows.features import Categorical, Features
from counterpoint.targets import Target

if TYPE_CHECKING:
    import pandas as pd

    from counterpoint.models.form import Form
    from counterpoint.results import Counterfactuals

__all__ = [
    "FIELDS",
    "NUMBERS",
    "SCHEMA",
    "WORDS",
    "Batch",
    "as_cell",
    "as_proof",
    "asked_of",
    "batch_of",
    "canonical",
    "check_parquet",
    "digest",
    "fingerprint",
    "kept_of",
    "parsed",
    "problem_of",
    "read_lines",
    "read_parquet",
    "told",
    "with_own_told",
]

SCHEMA = "counterpoint-record/1"
NUMBERS = (
    "cost",
    "objective",
    "bound",
    "proved_bound",
    "gap",
    "margin",
    "rounding",
    "violation",
    "resolution",
    "probability",
)
"""Fields of a record that are numbers; null where there is none, "inf" where nothing is finite."""
WORDS = ("status", "claim", "guarantee", "message")
SHARED = ("schema", "made", "model", "asked", "asked_hash")
"""Fields that records of one call share, but for targets that differ by row."""
FIELDS = (*SHARED, "row", "answer", *WORDS, "valid", *NUMBERS, "proof", "digest")


@final
class Batch(NamedTuple):
    """Records that share what was asked: n rows in columns."""

    shared: dict[str, Any]
    rows: pd.DataFrame  # the factual rows, as they came
    answers: pd.DataFrame  # rows without an answer are as the factual ones
    told: dict[str, Any]  # (n,) words and numbers, and ``answered``
    proofs: list[Any]  # for each row, for each piece of the target: multipliers and trees
    at: IntArray  # (n,) their positions among all records


def canonical(value: Any) -> str:
    """JSON without spaces, keys in order."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(text: str) -> str:
    """The SHA-256 of a text."""
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def fingerprint(form: Form, features: Features, fills: Mapping[Hashable, Any]) -> str:
    """What was read of a model with its preprocessing, as one hash.

    Numbers count in single precision: another processor may differ in the last digits of doubles.
    """
    found = sha256()
    for part in _parts(
        [form, [(f.name, type(f)) for f in features], sorted(fills.items(), key=str)]
    ):
        found.update(part)
    return f"sha256:{found.hexdigest()}"


def _parts(value: Any) -> Iterator[bytes]:
    """What a form is made of, piece by piece, each with its kind."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        real = value.dtype.kind == "f"
        with np.errstate(over="ignore"):
            numbers = value.astype("<f4") + np.float32(0.0) if real else value.astype("<i8")
        yield str(value.shape).encode() + numbers.tobytes()
        return
    inside = _inside(value)
    yield f"{type(value).__name__}:{value if inside is None else len(inside)}".encode()
    for each in inside or ():
        yield from _parts(each)


def _inside(value: Any) -> list[Any] | None:
    """What something holds; None if it is one thing, and its text says all of it."""
    if isinstance(value, float | np.ndarray | np.generic):
        return [np.array(value, dtype=np.float64)] if isinstance(value, float) else value.tolist()
    if sparse.issparse(value):
        whole = sparse.csr_array(value)
        whole.sum_duplicates()
        return [*whole.shape, whole.indptr, whole.indices, whole.data]
    if isinstance(value, Mapping):
        return [*value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [*value] if isinstance(value, list | tuple) else sorted(value, key=repr)
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value) if field.init]  # no caches
    named = isinstance(value, type | FunctionType | np.ufunc)
    return [value.__name__] if named else None


# What was asked


def asked_of(answers: Counterfactuals, target: Target, singles: list[str]) -> dict[str, Any]:
    """What was asked of rows with one target, as `Problem.from_dict` reads it, and how far."""
    question, effort = answers.question, answers.effort
    if effort is None:
        raise InvalidInput(
            "Records are of the cheapest answer of each row; these are several answers, or answers "
            "along a path. Call explain without n=, and make records of what it returns."
        )
    features, constraints = _stated(question.features, question.constraints)
    table = Problem(target, question.cost, constraints, tuple(features)).to_dict()
    named = table.pop("features")
    table["features"] = [{"name": name, **kind} for name, kind in named.items()]
    table["constraints"] = table.get("constraints", [])
    return table | {
        "gap": effort.gap,
        "time_limit": effort.seconds,
        "optimality": str(effort.optimality),
        "float32": singles,
    }


def _stated(
    features: Features, constraints: Sequence[Constraint]
) -> tuple[Features, tuple[Constraint, ...]]:
    """The same region, said without bounds that hold instead of an end of what data show.

    Such an end is moved to the bound, which excludes all that the end would.
    """
    out: list[Constraint] = []
    for constraint in constraints:
        if isinstance(constraint, WithinObserved):
            for name in constraint.features or features.names:
                feature = features[name]
                if feature.observed is None or isinstance(feature, Categorical):
                    continue
                low, high = feature.observed
                said: list[Bounds] = [b for b in constraint.stated if b.feature == name]
                lows = [b.low for b in said if np.isfinite(b.low)]
                highs = [b.high for b in said if np.isfinite(b.high)]
                ends = (
                    min(max(lows), high) if lows else low,
                    max(min(highs), low) if highs else high,
                )
                if ends != (low, high) and ends[0] <= ends[1]:
                    features = features.replaced(replace(feature, observed=ends))
            constraint = WithinObserved(*constraint.features)  # noqa: PLW2901
        out.append(constraint)
    return features, tuple(out)


def problem_of(asked: Mapping[str, Any]) -> Problem:
    """The problem that a record says was asked: ``problem_of(record["asked"]).explainer(model)``.

    Raises
    ------
    InvalidSpec
        If it cannot be read.
    """
    known = ("target", "cost", "constraints")
    table: dict[str, Any] = {key: asked[key] for key in known if key in asked}
    table["features"] = {
        each["name"]: {key: value for key, value in each.items() if key != "name"}
        for each in asked["features"]
    }
    return Problem.from_dict(table)


# Proofs as text


def as_proof(pieces: Sequence[Kept], i: int) -> list[dict[str, Any]]:
    """What proves the bound of one row: for each piece multipliers, trees, a wing's own proof."""
    out = []
    for kept in pieces:
        one = kept.take(np.array([i]))
        piece: dict[str, Any] = {"multipliers": [told(v) for v in one.multipliers[0].tolist()]}
        trees = [_tree(proof) for _, proof in one.trees if len(proof.row)]
        if trees:
            piece["trees"] = trees
        if one.own is not None:
            piece["own"] = one.own[0]
        out.append(piece)
    return out


def with_own_told(kept: Kept) -> Kept:
    """The same, with a wing's own proofs as JSON has them."""
    if kept.own is None:
        return kept
    tables = [
        {k: [*v] if isinstance(v, list) else told(v) for k, v in vars(one).items()}
        for one in kept.own
    ]
    return kept._replace(own=tables)


def _tree(proof: Proof) -> dict[str, Any]:
    """The arrays of a tree in base64, little-endian, with their shapes."""
    out: dict[str, Any] = {}
    for name, array in proof._asdict().items():
        kind = "<f8" if array.dtype.kind == "f" else "<i4"
        text = b64encode(np.ascontiguousarray(array, dtype=kind).tobytes()).decode()
        out[name] = {"shape": list(array.shape), "values": text}
    return out


def _as_tree(table: Any, size: int, d: int) -> Proof:
    """A tree of one row from its arrays; ValueError if it is none."""
    arrays: dict[str, Any] = {}
    for name in Proof._fields:
        real = name in ("low", "high", "multipliers", "ceiling")
        text = b64decode(table[name]["values"], validate=True)
        flat = np.frombuffer(text, "<f8" if real else "<i4")
        kind: Any = np.float64 if real else bool if name == "forced" else np.intp
        arrays[name] = flat.reshape(table[name]["shape"]).astype(kind)
    proof = Proof(**arrays)
    n = len(proof.row)
    shapes = (n,), (n, d), (n, d), (n, d), (n, size), (n, 2), (1,), (1,)
    fits = all(array.shape == shape for array, shape in zip(proof, shapes, strict=True))
    if not fits or proof.row.any() or np.isnan(proof.low).any() or np.isnan(proof.high).any():
        raise ValueError("the arrays of a tree do not fit each other")
    return proof


def kept_of(proofs: Sequence[Any], sizes: Sequence[int], d: int) -> list[Kept]:
    """What proves the bounds of rows, piece by piece; ValueError if it is not of these pieces.

    Pieces have (s,) so many multipliers, over d columns. A proof is a list of pieces, or an array
    of their multipliers, if there is nothing else.
    """
    ends = np.cumsum(sizes)
    if all(isinstance(proof, np.ndarray) for proof in proofs):
        if any(len(proof) != sum(sizes) for proof in proofs) or not len(ends):
            raise ValueError(f"expected {sum(sizes)} multipliers")
        whole = np.concatenate(proofs).reshape(len(proofs), -1)
        if not np.isfinite(whole).all():
            raise ValueError("expected finite multipliers")
        return [Kept(part) for part in np.split(whole, ends[:-1], axis=1)]
    proofs = [_in_pieces(proof, ends) for proof in proofs]
    if any(len(proof) != len(sizes) for proof in proofs):
        raise ValueError("the proof is of another number of pieces than the target has")
    out: list[Kept] = []
    for s, size in enumerate(sizes):
        parts = [proof[s] for proof in proofs]
        if any(set(part) - {"multipliers", "trees", "own"} for part in parts):
            raise ValueError("a piece of the proof holds a key that is none of its own")
        listed = [part["multipliers"] for part in parts]
        multipliers = np.array(listed, dtype=np.float64).reshape(len(parts), -1)
        if multipliers.shape[1] != size or not np.isfinite(multipliers).all():
            raise ValueError(f"expected {size} finite multipliers")
        trees = [
            (np.array([i]), _as_tree(tree, size, d))
            for i, part in enumerate(parts)
            for tree in part.get("trees", ())
        ]
        own = [part.get("own") for part in parts]
        out.append(Kept(multipliers, trees, None if own.count(None) == len(own) else own))
    return out


def _in_pieces(proof: Any, ends: IntArray) -> Any:
    """A list of pieces, even if there are only multipliers."""
    if not isinstance(proof, np.ndarray):
        return proof
    return [{"multipliers": part.tolist()} for part in np.split(proof, ends[:-1])]


def told(value: Any) -> Any:
    """A number as JSON has it."""
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def numbers(values: Sequence[Any]) -> FloatArray:
    """(n,) numbers from `told`; ValueError if one is none."""
    words = {None: np.nan, "inf": np.inf, "-inf": -np.inf}
    plain = [words[v] if v is None or isinstance(v, str) else v for v in values]
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in plain):
        raise ValueError("expected a number")
    return np.array(plain, dtype=np.float64)


def as_cell(value: Any) -> Any:
    """A cell as JSON has it; None, which is not NaN, by its name."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None:
        return {"missing": "none"}
    if is_missing(value):
        return None
    return told(value) if isinstance(value, float) else value


def of_cell(value: Any) -> Any:
    """The cell that JSON says."""
    if value == {"missing": "none"}:
        return None
    if isinstance(value, dict | list):
        raise TypeError("a cell holds a number, text, true, false or null")
    return np.nan if value is None else value


# Reading


def check_parquet(path: Path) -> None:
    """Raise if a file is of another kind, or pyarrow is missing."""
    if path.suffix != ".parquet":
        raise InvalidInput(f"Expected a file of records (.jsonl, .parquet); got {path.name}.")
    if find_spec("pyarrow") is None:
        raise MissingExtra(
            f"{path.name} is a Parquet file, which needs pyarrow, and that is not installed. "
            "Install it with 'pip install pyarrow', or use JSON lines."
        )


def read_lines(path: Path) -> list[Any]:
    """The records of a file of JSON lines; of a line that cannot be read, an error."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [parsed(line) for line in lines if line.strip()]


def parsed(text: str) -> Any:
    """What a text of JSON says; the error, if it is none."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return InvalidInput(f"is not JSON ({error}); it may have been cut off or edited.")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def batch_of(records: Sequence[dict[str, Any]], at: Sequence[int]) -> Batch:
    """Records that share what was asked, in columns; ValueError if they are none."""
    import pandas as pd

    first = records[0]
    names = [each["name"] for each in first["asked"]["features"]]
    if any(set(each["row"]) != set(names) for each in records):
        raise ValueError("the row holds other columns than the features")
    if any(each["valid"] is not (each["answer"] is not None) for each in records):
        raise ValueError("there is an answer if and only if it is valid")
    sides = []
    for side in ("row", "answer"):
        rows = [each[side] if each[side] is not None else each["row"] for each in records]
        if any(set(row) != set(names) for row in rows):
            raise ValueError("the answer holds other columns than the features")
        frame = pd.DataFrame({name: [of_cell(row[name]) for row in rows] for name in names})
        sides.append(frame.astype(dict.fromkeys(first["asked"]["float32"], np.float32)))
    told: dict[str, Any] = {k: numbers([each[k] for each in records]) for k in NUMBERS}
    told |= {k: np.array([each[k] for each in records], dtype=object) for k in WORDS}
    told["valid"] = np.array([each["valid"] for each in records])
    proofs = [each["proof"] for each in records]
    return Batch({k: first[k] for k in SHARED}, sides[0], sides[1], told, proofs, np.array(at))


def read_parquet(path: Path) -> list[Batch]:
    """The records of a Parquet file; InvalidInput if it is none."""
    check_parquet(path)
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
        lacks = {"shared", "proof", "multipliers", "valid", *WORDS, *NUMBERS} - {*frame.columns}
        out = [] if lacks else [*_in_columns(frame)]
    except (ValueError, TypeError, KeyError, OSError) as error:
        said = " ".join(str(error).split()).removesuffix(".")
        raise InvalidInput(f"{path.name} is no file of records: {said}.") from error
    if lacks:
        raise InvalidInput(f"{path.name} is no file of records: it lacks {min(lacks)!r}.")
    return out


def _in_columns(frame: pd.DataFrame) -> Iterator[Batch]:
    """The records of a frame, by what they share."""
    for text, part in frame.groupby("shared", observed=True, sort=False):
        shared = json.loads(str(text))
        names = [each["name"] for each in shared["asked"]["features"]]
        rows, answers = (
            part[[f"{side}.{name}" for name in names]].set_axis(names, axis=1)
            for side in ("row", "answer")
        )
        told = {k: part[k].to_numpy(dtype=np.float64) for k in NUMBERS}
        told |= {k: part[k].to_numpy(dtype=object) for k in (*WORDS, "valid")}
        proofs = part["multipliers"].tolist()
        for i in np.flatnonzero(part["proof"].notna()).tolist():
            proofs[i] = json.loads(part["proof"].iloc[i])
        yield Batch(shared, rows, answers, told, proofs, part.index.to_numpy())
