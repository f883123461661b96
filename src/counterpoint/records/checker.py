"""The checker of records: whether what a record says is so, without solving anything.

But for rows of which a record says that arithmetic fails on them: for these it has to fail again.

Nothing in a record is believed but the row, and what was asked of it. The rest is computed again:

1. *the record itself*: its schema, its digest, the hash of the query (`files`, `RecordedQuery`);
2. *the model*: what is read of it now has the fingerprint that the record holds (`RecordedQuery`);
3. *validity*: the model's own ``predict``, asked about the row and about the answer (`check`);
4. *constraints and cost*: the formulas of the program, at the answer (`concluded`);
5. *optimality*: for the recorded multipliers, which may be any numbers, weak duality gives a number
   that no answer costs less than (`counterpoint.programs.duality`); for a recorded tree, the least
   of those of its leaves, once it is checked that they cover all that is possible
   (`counterpoint.programs.proof`). Bound, gap, status and claim follow from that (`concluded`).

A record is made by the same `concluded`: it says what its own proof shows. Whoever forges one would
need multipliers that prove what is not so, and there are none. A digest is no signature: it shows
damage, and that somebody edited the file and left it at that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Status
from counterpoint.errors import CounterpointError
from counterpoint.models.comparison import compare
from counterpoint.models.form import Form
from counterpoint.numerics import CLOSED, EPS, BoolArray, FloatArray
from counterpoint.problem.policy import Problem
from counterpoint.problem.targets import Validation
from counterpoint.records.conclusions import concluded, messages_of, nothing
from counterpoint.records.record import (
    NUMBERS,
    RecordBatch,
    RecordedQuery,
    canonical,
    digest,
    fingerprint,
)
from counterpoint.rows.encoding import match_columns
from counterpoint.rows.table import Table
from counterpoint.search.answering import answers_to
from counterpoint.search.query import Query
from counterpoint.solvers import Effort

if TYPE_CHECKING:
    import pandas as pd


BROKEN = (
    CounterpointError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading a record raises that somebody changed."""


def problem_of(query: Mapping[str, Any]) -> Problem:
    """Return the problem that a record states: ``problem_of(record["asked"]).explainer(model)``.

    Raises
    ------
    InvalidSpec
        If it cannot be read.
    """
    keys = ("target", "cost", "constraints")
    table: dict[str, Any] = {key: query[key] for key in keys if key in query}
    table["features"] = {
        feature["name"]: {key: value for key, value in feature.items() if key != "name"}
        for feature in query["features"]
    }
    return Problem.from_dict(table)


def recorded_query(shared: Mapping[str, Any], model: Any) -> RecordedQuery:
    """Return the query that records share, read for a model; raise one of `BROKEN` if that fails.

    If it does not fit its hash, or the model, its ``problems`` say so.
    """
    query, problems = shared["asked"], []
    keys = {"target", "cost", "constraints", "features", "gap", "time_limit", "optimality"}
    if set(query) != keys | {"float32"}:
        raise ValueError("what was asked lacks a key, or has one too many")
    if digest(canonical(query)) != shared["asked_hash"]:
        problems.append("What was asked does not fit its hash: it was changed.")
    problem = problem_of(query)
    if problem.target is None or problem.cost is None:
        raise ValueError("expected a target and a cost")
    # The model is read as for any explanation; constraints and cost are those of the record.
    explainer = problem.explainer(model)
    reading, rules = explainer.reading, (*explainer.constraints, *explainer.implied)
    single = float(np.finfo(np.float32).eps) if query["float32"] else EPS
    form = reading.form.in_precision(max(reading.eps, single))
    reading = replace(reading, form=form)
    recorded = Query.ask(reading, explainer.features, rules, problem.cost)
    if (
        fingerprint(reading.form, recorded.features, reading.fills)
        != shared["model"]["fingerprint"]
    ):
        problems.append(
            "It is a record of another model: what is read of this one has another fingerprint."
        )
    if shared["model"]["features"] != [str(name) for name in recorded.features.names]:
        problems.append("The model's features are others than the record says.")
    effort = Effort.asked(query["gap"], query["time_limit"], query["optimality"])
    recorded = recorded.asking(target=problem.target, effort=effort, eps=reading.eps)
    return RecordedQuery(recorded, tuple(query["float32"]), tuple(problems))


def check(
    batch: RecordBatch, recorded: RecordedQuery
) -> tuple[list[tuple[str, BoolArray]], NDArray[np.object_]]:
    """What is wrong, and with which of n records; (n,) what settles them, as a `Claim`."""
    query = recorded.query
    reading, target = query.model, query.target
    # Rows and answers are read as any rows are, and some cannot be used.
    frames = [_in_their_dtypes(frame, recorded) for frame in (batch.rows, batch.answers)]
    table, after = (match_columns(Table.read(frame), query.features) for frame in frames)
    query = query.asking(eps=max(query.eps, table.eps))
    recorded = replace(recorded, query=query)
    before, returned = query.read(table), query.read(after)
    problems = before.problems | _uncomputable(
        query, table, batch.values["status"], before.problems
    )
    every = np.arange(len(batch.at))
    usable = ~np.isin(every, [*problems])
    unread = np.isin(every, [*returned.problems]) & usable
    answered = batch.values["valid"].astype(bool)
    proof = np.array([item is not None for item in batch.proofs])
    wrong = [
        ("The answer is not a row that the model accepts.", unread),
        ("A row that cannot be used has no answer and no proof.", ~usable & (answered | proof)),
    ]
    expected, index = nothing(len(every), recorded.resolution), np.flatnonzero(usable & ~unread)
    error = np.zeros(len(every))  # of the model's own margins and probabilities
    if len(index):
        x, y = (query.features.expand(item.codes[index]) for item in (before, returned))
        table, after = table.take(index), after.take(index)
        # The model itself is asked; and what was read of it has to predict the same.
        compare(reading, table)
        now, then = reading.predict(table), reading.predict(after)
        reading.check(x, now)
        reading.check(y, then)
        if target.requirement.probable:
            now, then = target.outputs(reading, table), target.outputs(reading, after)
        stated = {name: values[index] for name, values in batch.values.items()}
        verdict, error[index] = _verdict(query, reading.form, y, then, stated["rounding"])
        stated["proof"] = [batch.proofs[i] for i in index.tolist()]
        safety_margins = query.safety_margins(x)
        if safety_margins is None:
            satisfied = target.satisfied(reading.form, x, now)
            stated["status"][satisfied != (stated["status"] == Status.ALREADY)] = Status.INVALID
            stated["status"][satisfied] = Status.ALREADY
        else:  # the lead that is asked for depends on how far the answer is
            verdict = safety_margins.applied(verdict, y, query.actionable.encoded_cost(y, x))
        conclusion = concluded(recorded, x, y, verdict, stated)
        for name, values in conclusion.items():
            expected[name][index] = values
        already, valid = conclusion["status"] == Status.ALREADY, stated["valid"].astype(bool)
        broken, moved = conclusion["violation"] > recorded.resolution, (x != y).any(axis=1)
        for sentence, rows in (
            ("The model does not give the answer the target.", valid & ~verdict.valid),
            ("Nothing has to change, but the answer is not the row.", already & (moved | ~valid)),
            ("It holds a proof of what needs none.", already & proof[index]),
            ("The answer breaks a constraint.", valid & ~already & broken),
        ):
            wrong.append((sentence, np.isin(every, index[rows])))
    wrong += _different(batch.values, expected, error)
    texts = messages_of(batch.values | expected, query)
    texts[[*problems]] = [*problems.values()]
    same = [item == text for item, text in zip(batch.values["message"], texts, strict=True)]
    if target.requirement.chance is not None:  # what is said besides is found by searches
        both = zip(batch.values["message"], texts, strict=True)
        same = [str(a).startswith(f"{b} ") or a == b for a, b in both]
    wrong.append(("Its message is not what follows from it.", ~np.array(same)))
    return wrong, expected["claim"]


def _uncomputable(
    query: Query, table: Table, status: NDArray[np.object_], problems: Mapping[int, str]
) -> dict[int, str]:
    """Return why rows whose records call them invalid cannot be used, as a new search says.

    Rows that are among the ``problems`` already are left out. The others are searched again, for a
    moment each: a record without an answer proves nothing, and this shows what is wrong.
    """
    rows = np.array([i for i in np.flatnonzero(status == Status.INVALID) if i not in problems], int)
    if not len(rows):
        return {}
    doubtful = table.take(rows)
    moment = replace(query.effort, seconds=0.5)  # what cannot be computed shows at once
    answers = answers_to(query.asking(effort=moment), (doubtful, doubtful))
    return {int(rows[i]): sentence for i, sentence in answers.problems.items()}


def _verdict(
    query: Query, form: Form, y: FloatArray, then: NDArray[Any], rounding: FloatArray
) -> tuple[Validation, FloatArray]:
    """What the model says of answers, and the error (n,) of its margins and probabilities.

    The record says in which order its scores were added up.
    """
    verdict = query.target.verdict(form, y, then, query.eps)
    error = form.margin_error(y, query.target.requirement, query.eps)
    error = error + 4.0 * query.eps  # of the probability itself: a quotient, at most 1
    if form.reordered is None:
        return verdict, error
    other = form.reordered.margin_error(y, query.target.requirement, query.eps)
    same = np.abs(rounding - other) <= other / 16.0
    return replace(verdict, rounding=np.where(same, other, verdict.rounding)), error


def _in_their_dtypes(frame: pd.DataFrame, recorded: RecordedQuery) -> pd.DataFrame:
    """The rows of a record in the dtypes that they came in: single precision where it says so.

    In these the model computes, and rounds; a ValueError if a number is not of single precision.
    """
    out = frame.reset_index(drop=True)
    for name in recorded.singles:
        column = out[name].astype(np.float64)
        single = column.astype(np.float32)
        if not ((single == column) | column.isna()).all():
            raise ValueError(f"column {name!r} holds numbers that are not of single precision")
        out[name] = single
    return out


def _different(
    values: Mapping[str, Any], expected: Mapping[str, Any], error: FloatArray
) -> list[tuple[str, BoolArray]]:
    """Compare each word and number of records with what was computed: a sentence, and rows (n,).

    Numbers may differ as they do between processors: relatively by 1e-9; margins, and so
    probabilities, which change by less, by the (n,) rounding ``error`` of the model, also where
    the target demands nothing and an answer need not lead by it; and the bound on that error, which
    is rounded up to six bits, by a sixteenth.
    """
    wrong = []
    cost_cutoff = np.where(np.isnan(expected["cost"]), expected["bound"], expected["objective"])
    for name in (*NUMBERS, "status", "claim", "guarantee"):
        stated, computed = values[name], expected[name]
        same = stated == computed
        if name in NUMBERS:
            size = np.abs(np.nan_to_num(cost_cutoff if "bound" in name else computed, posinf=0.0))
            tolerance = size / 16.0 if name == "rounding" else CLOSED * size
            if name in ("gap", "violation", "probability"):  # relative numbers, near 0
                tolerance = tolerance + CLOSED
            if name in ("margin", "probability"):
                tolerance = tolerance + np.fmax(error, np.nan_to_num(expected["rounding"]))
            with np.errstate(invalid="ignore"):
                same |= (np.abs(stated - computed) <= tolerance) | (
                    np.isnan(stated) & np.isnan(computed)
                )
        sentence = f"Its {name.replace('_', ' ')} is not what is computed."
        wrong.append((sentence, ~np.asarray(same, dtype=bool)))
    return wrong
