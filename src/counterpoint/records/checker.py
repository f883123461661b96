"""Check whether what records say is so, without solving anything.

Only rows of which a record says that arithmetic fails on them are searched again: it has to fail
again.

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
from counterpoint.records.conclusions import concluded, messages_of, values_without_answer
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
"""The exceptions that reading or checking a record may raise if somebody changed it."""


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
    asked, problems = shared["asked"], []
    keys = {"target", "cost", "constraints", "features", "gap", "time_limit", "optimality"}
    if set(asked) != keys | {"float32"}:
        raise ValueError("what was asked lacks a key, or has one too many")
    if digest(canonical(asked)) != shared["asked_hash"]:
        problems.append("What was asked does not fit its hash: it was changed.")
    problem = problem_of(asked)
    if problem.target is None or problem.cost is None:
        raise ValueError("expected a target and a cost")
    # The model is read as for any explanation; constraints and cost are those of the record.
    explainer = problem.explainer(model)
    reading, constraints = explainer.reading, (*explainer.constraints, *explainer.implied)
    # Fingerprints are of the form in the precision of the rows that the records are about.
    row_eps = float(np.finfo(np.float32).eps) if asked["float32"] else EPS
    reading = replace(reading, form=reading.form.in_precision(max(reading.eps, row_eps)))
    query = Query.ask(reading, explainer.features, constraints, problem.cost)
    model_fingerprint = fingerprint(reading.form, query.features, reading.fills)
    if model_fingerprint != shared["model"]["fingerprint"]:
        problems.append(
            "It is a record of another model: what is read of this one has another fingerprint."
        )
    if shared["model"]["features"] != [str(name) for name in query.features.names]:
        problems.append("The model's features are others than the record says.")
    effort = Effort.checked(asked["gap"], asked["time_limit"], asked["optimality"])
    query = query.asking(target=problem.target, effort=effort, eps=reading.eps)
    return RecordedQuery(query, tuple(asked["float32"]), tuple(problems))


def check(
    batch: RecordBatch, recorded: RecordedQuery
) -> tuple[list[tuple[str, BoolArray]], NDArray[np.object_]]:
    """Compare n records with what is computed anew.

    Returns what is wrong, as sentences with the records (n,) that each is about; and what settles
    the records (n,), as a `Claim`.
    """
    query = recorded.query
    # Rows and answers are read as any rows are, and some cannot be used.
    frames = [_in_recorded_dtypes(frame, recorded) for frame in (batch.rows, batch.answers)]
    before, after = (match_columns(Table.read(frame), query.features) for frame in frames)
    query = query.asking(eps=max(query.eps, before.eps))
    recorded = replace(recorded, query=query)
    encoded_before, encoded_after = query.read(before), query.read(after)
    problems = encoded_before.problems | _uncomputable(
        query, before, batch.values["status"], encoded_before.problems
    )
    every = np.arange(len(batch.positions))
    usable = ~np.isin(every, [*problems])
    unreadable = np.isin(every, [*encoded_after.problems]) & usable
    has_answer = batch.values["valid"].astype(bool)
    has_proof = np.array([proof is not None for proof in batch.proofs])
    wrong = [
        ("The answer is not a row that the model accepts.", unreadable),
        (
            "A row that cannot be used has no answer and no proof.",
            ~usable & (has_answer | has_proof),
        ),
    ]
    expected = values_without_answer(len(every), recorded.resolution)
    error = np.zeros(len(every))  # of the model's own margins and probabilities
    index = np.flatnonzero(usable & ~unreadable)
    if len(index):
        x, y = (query.features.expand(e.codes[index]) for e in (encoded_before, encoded_after))
        stated = {name: values[index] for name, values in batch.values.items()}
        stated["proof"] = [batch.proofs[i] for i in index.tolist()]
        tables = before.take(index), after.take(index)
        conclusion, error[index], faults = _recomputed(recorded, x, y, tables, stated)
        for name, values in conclusion.items():
            expected[name][index] = values
        wrong += [(sentence, np.isin(every, index[rows])) for sentence, rows in faults]
    wrong += _different(batch.values, expected, error)
    messages = messages_of(batch.values | expected, query)
    messages[[*problems]] = [*problems.values()]
    pairs = [*zip(batch.values["message"], messages, strict=True)]
    same = [stated_message == message for stated_message, message in pairs]
    if query.target.requirement.varying_margin is not None:
        # under noise a search adds remarks, which cannot be computed without one
        starts = [str(text).startswith(f"{message} ") for text, message in pairs]
        same = [a or b for a, b in zip(same, starts, strict=True)]
    wrong.append(("Its message is not what follows from it.", ~np.array(same)))
    return wrong, expected["claim"]


def _recomputed(
    recorded: RecordedQuery,
    x: FloatArray,
    y: FloatArray,
    tables: tuple[Table, Table],
    stated: dict[str, Any],
) -> tuple[dict[str, Any], FloatArray, list[tuple[str, BoolArray]]]:
    """Compute anew what records of n usable rows have to say.

    ``x`` and ``y`` are the encoded rows and answers, ``tables`` the same as they came, and
    ``stated`` the values of the records, with their proofs. Returns the values that the records
    ought to have; the error (n,) of the model's margins and probabilities; and what is wrong, as
    sentences with the records (n,) that each is about.
    """
    query, (before, after) = recorded.query, tables
    reading, target = query.model, query.target
    # The model itself is asked; and what was read of it has to predict the same.
    compare(reading, before)
    predicted, predicted_after = reading.predict(before), reading.predict(after)
    reading.check(x, predicted)
    reading.check(y, predicted_after)
    if target.requirement.probable:
        predicted, predicted_after = target.outputs(reading, before), target.outputs(reading, after)
    validation, error = _validation(query, reading.form, y, predicted_after, stated["rounding"])
    safety_margins = query.safety_margins(x)
    if safety_margins is None:  # whether a row has the target already is not believed but computed
        satisfied, status = target.satisfied(reading.form, x, predicted), stated["status"].copy()
        status[~satisfied & (status == Status.ALREADY)] = Status.INVALID
        status[satisfied] = Status.ALREADY
        stated = stated | {"status": status}
    else:  # the margin that is required depends on how far the answer is
        cost = query.actionable.encoded_cost(y, x)
        validation = safety_margins.applied(validation, y, cost)
    conclusion = concluded(recorded, x, y, validation, stated)
    already, has_answer = conclusion["status"] == Status.ALREADY, stated["valid"].astype(bool)
    has_proof = np.array([proof is not None for proof in stated["proof"]])
    violated = conclusion["violation"] > recorded.resolution
    moved = (x != y).any(axis=1)
    faults = [
        ("The model does not give the answer the target.", has_answer & ~validation.valid),
        ("Nothing has to change, but the answer is not the row.", already & (moved | ~has_answer)),
        ("It holds a proof of what needs none.", already & has_proof),
        ("The answer breaks a constraint.", has_answer & ~already & violated),
    ]
    return conclusion, error, faults


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
    unusable = table.take(rows)  # both as they came, and of the model's columns alone
    moment = replace(query.effort, seconds=0.5)  # what cannot be computed shows at once
    answers = answers_to(query.asking(effort=moment), (unusable, unusable))
    return {int(rows[i]): sentence for i, sentence in answers.problems.items()}


def _validation(
    query: Query, form: Form, y: FloatArray, predicted: NDArray[Any], rounding: FloatArray
) -> tuple[Validation, FloatArray]:
    """Return what the model says of answers, and the error (n,) of its margins and probabilities.

    ``predicted`` is what the model itself predicts for the answers, and ``rounding`` (n,) the bound
    on the rounding of scores that the records state.
    """
    requirement = query.target.requirement
    validation = query.target.verdict(form, y, predicted, query.eps)
    error = form.margin_error(y, requirement, query.eps)
    error = error + 4.0 * query.eps  # of the probability itself: a quotient, at most 1
    if form.reordered is None:
        return validation, error
    # On another number of threads the model adds up its scores in another order, with another bound
    # on their rounding. Which it was, the stated bound tells; it may be off by a sixteenth.
    reordered = form.reordered.margin_error(y, requirement, query.eps)
    is_reordered = np.abs(rounding - reordered) <= reordered / 16.0
    rounding = np.where(is_reordered, reordered, validation.rounding)
    return replace(validation, rounding=rounding), error


def _in_recorded_dtypes(frame: pd.DataFrame, recorded: RecordedQuery) -> pd.DataFrame:
    """Return rows in the dtypes that they came in: columns in single precision where recorded.

    In these the model computes, and rounds; a ValueError if a number is not of single precision.
    """
    rows = frame.reset_index(drop=True)
    for name in recorded.float32:
        column = rows[name].astype(np.float64)
        single = column.astype(np.float32)
        if not ((single == column) | column.isna()).all():
            raise ValueError(f"column {name!r} holds numbers that are not of single precision")
        rows[name] = single
    return rows


def _different(
    values: Mapping[str, Any], expected: Mapping[str, Any], error: FloatArray
) -> list[tuple[str, BoolArray]]:
    """Compare each word and number of n records with what was computed: sentences, and rows (n,).

    Numbers may differ as they do between processors: relatively by 1e-9. Margins, and so
    probabilities, which change by less, may differ by the rounding ``error`` (n,) of the model,
    also where the target demands nothing and an answer need not lead by it. The bound on that
    error, which is rounded up to six bits, may differ by a sixteenth.
    """
    wrong = []
    # A bound is as exact as the objective it is compared with, if there is an answer.
    objective = np.where(np.isnan(expected["cost"]), expected["bound"], expected["objective"])
    for name in (*NUMBERS, "status", "claim", "guarantee"):
        stated, computed = values[name], expected[name]
        same = stated == computed
        if name in NUMBERS:
            scale = objective if name in ("bound", "proved_bound") else computed
            size = np.abs(np.nan_to_num(scale, posinf=0.0))
            tolerance = size / 16.0 if name == "rounding" else CLOSED * size
            if name in ("gap", "violation", "probability"):  # relative numbers, near 0
                tolerance = tolerance + CLOSED
            if name in ("margin", "probability"):
                tolerance = tolerance + np.fmax(error, np.nan_to_num(expected["rounding"]))
            with np.errstate(invalid="ignore"):
                same |= np.abs(stated - computed) <= tolerance
            same |= np.isnan(stated) & np.isnan(computed)
        sentence = f"Its {name.replace('_', ' ')} is not what is computed."
        wrong.append((sentence, ~np.asarray(same, dtype=bool)))
    return wrong
