"""Make records of answers, in columns: `to_batches`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from counterpoint.certificate import Claim, Status
from counterpoint.errors import InvalidInput
from counterpoint.numerics import IntArray
from counterpoint.problem.targets import Guarantee, Validation
from counterpoint.programs.evidence import proof_size
from counterpoint.programs.proof_text import proofs_of
from counterpoint.records.conclusions import concluded, messages_of, values_without_answer
from counterpoint.records.record import (
    SCHEMA,
    RecordBatch,
    RecordedQuery,
    canonical,
    digest,
    fingerprint,
    made_now,
    query_of,
)


def to_batches(answers: Any) -> Iterator[RecordBatch]:
    """Yield the records of answers (`Counterfactuals`) in columns, one batch for each target."""
    import pandas as pd

    if not answers.is_cheapest:
        raise InvalidInput(
            "Records are of the cheapest answer of each row; these are several answers, or answers "
            "along a path. Call explain without n=, and make records of what it returns."
        )
    features, reading, remarks = answers.query.features, answers.query.model, answers.remarks()
    tables = [t.select(features.names) for t in (answers.table, answers.decoded(slice(None)))]
    frames = [pd.DataFrame({str(n): t.column(n) for n in features.names}) for t in tables]
    float32 = [str(features.names[j]) for j in sorted(tables[0].singles)]
    model = {
        "fingerprint": fingerprint(reading.form, features, reading.fills),
        "features": [*map(str, features.names)],
    }
    groups: dict[str, list[int]] = {}  # rows with equal targets
    for i, target in enumerate(answers.targets.tolist()):
        groups.setdefault(repr(target), []).append(i)
    for group in groups.values():
        rows, query = np.array(group), answers.query.asking(target=answers.targets[group[0]])
        asked = query_of(query, float32)
        shared = {"schema": SCHEMA, "made": made_now(), "model": model, "asked": asked}
        shared["asked_hash"] = digest(canonical(asked))
        recorded = RecordedQuery(query, tuple(float32))
        # Rows that cannot be used keep the target that was passed. If it depends on the row, there
        # is no union of it.
        has_usable = (answers.statuses[rows] != Status.INVALID.code).any()
        programs = query.union.proof_programs if has_usable else ()
        sizes = [proof_size(program) for program in programs]
        proofs = _proofs(answers, rows, sizes)
        values = _values(answers, rows, recorded, proofs)
        values["message"] = messages_of(values, query)
        for k, i in enumerate(group):
            if i in answers.problems:
                values["message"][k] = answers.problems[i]
            elif i in remarks:
                values["message"][k] += f" {remarks[i]}"
        before, after = (frame.iloc[rows].reset_index(drop=True) for frame in frames)
        yield RecordBatch(shared, before, after, values, proofs, rows, sizes)


def _values(
    answers: Any, rows: IntArray, recorded: RecordedQuery, proofs: list[Any]
) -> dict[str, Any]:
    """Return the words and numbers of the records of some rows, in columns, but for messages.

    All rows have one target, that of ``recorded``; ``proofs`` are a proof or None for each.
    """
    certificates, query = answers.certificates, recorded.query
    values = values_without_answer(len(rows), recorded.resolution)
    values["valid"] = certificates.valid[rows]
    index = np.flatnonzero(answers.statuses[rows] != Status.INVALID.code)
    if not len(index):
        return values
    usable = rows[index]
    x, y = (query.features.expand(codes[usable]) for codes in (answers.before, answers.after))
    names = ("valid", "margin", "probability", "guarantees", "rounding")
    validation = Validation(*(getattr(certificates, name)[usable] for name in names))
    if query.target.requirement.promise is Guarantee.NONE:
        # The search may have added up the terms of scores in another order than the checker will.
        # Both have to find the same: the message depends on whether margin or rounding is larger.
        # (A margin with a guarantee is less by what noise demands, and stays as the search has it.)
        form, target = query.model.form, query.target
        margin = form.margin(y, target)
        rounding = form.margin_error(y, target.requirement, query.eps)
        validation = replace(validation, margin=margin, rounding=rounding)
    status = Status.of(answers.statuses[usable])
    claim = Claim.of(certificates.claims[usable])
    # A record says "proved" only of what its own proof shows; else a solver has reported it.
    claim[(status == Status.OPTIMAL) | (status == Status.INFEASIBLE)] = Claim.REPORTED
    stated = {
        "status": status,
        "claim": claim,
        "bound": certificates.bound[usable],
        "valid": certificates.valid[usable],
        "proof": [proofs[i] for i in index.tolist()],
    }
    for name, column in concluded(recorded, x, y, validation, stated).items():
        values[name][index] = column
    return values


def _proofs(answers: Any, rows: IntArray, sizes: list[int]) -> list[Any]:
    """Return the proof of each of some rows; None where there is none, or nothing to prove.

    ``sizes`` are the numbers of multipliers of the programs of the rows' target. Each search left
    positions of rows and, for each program that it solved, the proofs of these rows.
    """
    latest = np.full(len(answers.statuses), -1)  # the last search of each row, which answered it
    for k, (searched, _) in enumerate(answers.proofs):
        latest[searched] = k
    latest[answers.statuses == Status.ALREADY.code] = -1
    search, out = latest[rows], [None] * len(rows)
    for k in np.unique(search[search >= 0]).tolist():
        searched, pieces = answers.proofs[k]
        if not sizes or sizes != [piece.multipliers.shape[1] for piece in pieces]:
            continue  # the search solved other programs than a checker would
        index = np.flatnonzero(search == k)
        proofs = proofs_of(pieces, np.searchsorted(searched, rows[index]))
        for i, proof in zip(index, proofs, strict=True):
            out[i] = proof
    return out
