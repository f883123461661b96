"""Define records: answers with all that is needed to check them again, as JSON.

A record holds what was asked, of which row, of which model (as a fingerprint of what was read of
it), what was answered, and the multipliers or trees that its bound rests on. Its numbers are those
that its own proof gives: `counterpoint.recheck` computes them anew, without a solver.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from platform import python_version
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from scipy import sparse

from counterpoint.numerics import SINGLE, VIOLATION, FloatArray, IntArray
from counterpoint.problem.constraints import Constraint, WithinObserved
from counterpoint.problem.tables import distinct, policy_of
from counterpoint.programs.proof_text import number_to_json
from counterpoint.rows.cells import is_missing
from counterpoint.rows.features import Categorical, Features
from counterpoint.search.query import Query

if TYPE_CHECKING:
    import pandas as pd

    from counterpoint.models.form import Form
    from counterpoint.programs.program import Program
    from counterpoint.programs.region import Batch

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
HASHED = "row"
"""The column of hashes in the place of rows."""
EDITED = "It was changed after it was written: its digest does not fit it."
FIELDS = (*SHARED, "row", "answer", *WORDS, "valid", *NUMBERS, "proof", "digest")


@final
class RecordBatch(NamedTuple):
    """n records that share what was asked, in columns."""

    shared: dict[str, Any]
    rows: pd.DataFrame  # the factual rows, as they came, or their hashes
    answers: pd.DataFrame  # as rows where there is none; beside hashes, None for what stays
    values: dict[str, Any]  # (n,) words and numbers, and ``valid``
    proofs: list[Any]  # for each row, see `proofs_of`
    positions: IntArray  # (n,) among all records
    sizes: Sequence[int] = ()  # how many multipliers each program of the target has, if it is known

    def halves(self) -> Iterator[RecordBatch]:
        """Yield the first half of the records, and the second."""
        middle = len(self.positions) // 2
        for half in (slice(middle), slice(middle, None)):
            yield self._replace(
                rows=self.rows.iloc[half],
                answers=self.answers.iloc[half],
                values={name: values[half] for name, values in self.values.items()},
                proofs=self.proofs[half],
                positions=self.positions[half],
            )


def canonical(value: Any) -> str:
    """Return JSON without spaces, with keys in order: equal values give the same text."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def made_now() -> dict[str, str]:
    """Return the present time, and the versions with which a record is made."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": python_version(),
        **{name: version(name) for name in ("counterpoint", "numpy", "scikit-learn")},
    }


def is_made(made: Any) -> bool:
    """Return whether a value is what `made_now` returns, at any time and with any versions."""
    if not isinstance(made, Mapping) or {*made} != {*made_now()}:
        return False
    if not all(isinstance(text, str) for text in made.values()):
        return False
    try:
        return datetime.fromisoformat(made["time"]).tzinfo is not None
    except ValueError:
        return False


def parsed(text: str) -> Any:
    """Parse JSON; raise a ValueError if it is none, or a key stands twice in an object."""

    def refuse(name: str) -> float:
        raise ValueError(f"{name} is not a JSON number")

    return json.loads(text, parse_constant=refuse, object_pairs_hook=distinct)


def digest(text: str) -> str:
    """Return the SHA-256 digest of a text."""
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def hashed(row: Mapping[str, Any], salt: str) -> str:
    """Return the HMAC-SHA-256 of a row's cells as JSON has them, with a salt as the key."""
    # as floats: a column of whole numbers may be read again from a file as one of floats
    cells = [[k, float(v) if isinstance(v, int | float) else v] for k, v in row.items()]
    code = hmac.new(salt.encode(), canonical(cells).encode(), sha256)
    return f"hmac-sha256:{code.hexdigest()}"


def sentence_of(error: BaseException) -> str:
    """Return the text of an error as the end of a sentence, without its full stop."""
    text = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
    return " ".join(text.split()).removesuffix(".")


def fingerprint(form: Form, features: Features, fills: Mapping[Hashable, Any]) -> str:
    """Return the SHA-256 digest of a model's form, its features and what fills missing cells.

    Numbers count in single precision: another processor may differ in the last digits of doubles.
    """
    code = sha256()
    identity = [form, [(f.name, type(f)) for f in features], sorted(fills.items(), key=str)]
    for chunk in _serialized(identity):
        code.update(chunk)
    return f"sha256:{code.hexdigest()}"


def _serialized(value: Any) -> Iterator[bytes]:
    """Yield bytes that identify a value: numbers as such, else the type, the length and the items.

    Equal forms give equal bytes, in every process and on every platform.
    """
    value = np.array(value) if isinstance(value, float) else value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        if value.dtype.kind == "f":
            with np.errstate(over="ignore"):
                # adding 0.0 turns −0.0, which is equal to 0.0, into the same bytes
                numbers = value.astype("<f4") + np.float32(0.0)
        else:
            numbers = value.astype("<i8")
        yield str(value.shape).encode() + numbers.tobytes()
        return
    items = _items(value)
    if items is None:  # functions and classes by their names
        yield str(getattr(value, "__name__", value)).encode()
    yield f"{type(value).__name__}:{len(items or ())}".encode()
    for item in items or ():
        yield from _serialized(item)


def _items(value: Any) -> Sequence[Any] | None:
    """Return the items of a value; None if it has none: a text, a number, a function or a class.

    They are in an order that does not depend on the process, as that of a set does.
    """
    if sparse.issparse(value):
        matrix = sparse.csr_array(value)
        matrix.sum_duplicates()
        return *matrix.shape, matrix.indptr, matrix.indices, matrix.data
    if isinstance(value, np.ndarray | np.generic):
        return [value.tolist()]
    if isinstance(value, Mapping):
        return [*value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return sorted(value, key=repr) if isinstance(value, set | frozenset) else value
    if is_dataclass(value) and not isinstance(value, type):
        compared = (field for field in fields(value) if field.init and field.compare)  # no caches
        return [getattr(value, field.name) for field in compared]
    return None


# What was asked


def query_of(query: Query, float32: list[str]) -> dict[str, Any]:
    """Return what was asked, as `Problem.from_dict` reads it, with the limits of the search.

    ``float32`` are the columns of the rows that are in single precision.
    """
    features, constraints = _stated_bounds_as_observed(query.features, query.constraints)
    table = policy_of(query.target, query.cost, constraints, tuple(features))
    # a list, because the order of the features is that of the model's columns
    features_by_name = table.pop("features")
    table["features"] = [{"name": name, **entry} for name, entry in features_by_name.items()]
    table["constraints"] = table.get("constraints", [])
    effort = query.effort
    return table | {
        "gap": effort.gap,
        "time_limit": effort.seconds,
        "optimality": str(effort.optimality),
        "float32": float32,
    }


def _stated_bounds_as_observed(
    features: Features, constraints: Sequence[Constraint]
) -> tuple[Features, tuple[Constraint, ...]]:
    """Return features and constraints of the same region, without bounds kept in `WithinObserved`.

    A policy file has no place for those. Such a bound holds instead of an end of the observed
    range; so that end is moved to the bound, which excludes all that the end would.
    """
    recorded: list[Constraint] = []
    for constraint in constraints:
        if not isinstance(constraint, WithinObserved):
            recorded.append(constraint)
            continue
        recorded.append(WithinObserved(*constraint.features))
        for name in constraint.features or features.names:
            feature = features[name]
            if isinstance(feature, Categorical) or feature.observed is None:
                continue
            bounds = [bound for bound in constraint.stated if bound.feature == name]
            low, high = feature.observed
            lows = [bound.low for bound in bounds if np.isfinite(bound.low)]
            highs = [bound.high for bound in bounds if np.isfinite(bound.high)]
            # neither end passes the other end of the data, for a range may not be empty
            observed = min(max(lows, default=low), high), max(min(highs, default=high), low)
            if observed != (low, high) and observed[0] <= observed[1]:
                features = features.replaced(replace(feature, observed=observed))
    return features, tuple(recorded)


@final
@dataclass(frozen=True, eq=False)
class RecordedQuery:
    """The query that records are made of, or that was read from records."""

    query: Query
    float32: tuple[str, ...]  # the columns of the rows that are in single precision
    problems: tuple[str, ...] = ()  # sentences about all records that hold this query

    @property
    def resolution(self) -> float:
        """The largest violation of a constraint that counts as rounding."""
        return SINGLE if self.float32 else VIOLATION

    def objective(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return the objective (n,): the cost; for a `Tradeoff` also the probability's term."""
        program = self.query.union.objective_program
        return program.objective(y, self.cases(program, x))

    def cases(self, program: Program, x: FloatArray) -> Batch:
        """Return the encoded rows ``x`` as a program sees them, with the weight of a trade-off."""
        cases, weight = program.cases(x), self.query.target.requirement.weight
        return cases if weight is None else cases.weighing(np.full(len(x), 0.5 * weight))


# Cells


def cell_to_json(value: Any) -> Any:
    """Return a cell as JSON has it: NaN is null; None, which is not NaN, has a name."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None:
        return {"missing": "none"}
    if is_missing(value):
        return None
    return number_to_json(value) if isinstance(value, float) else value


def cell_from_json(value: Any) -> Any:
    """Return the cell that `cell_to_json` turned into this value."""
    if value == {"missing": "none"}:
        return None
    if isinstance(value, dict | list):
        raise TypeError("a cell holds a number, text, true, false or null")
    return np.nan if value is None else value
