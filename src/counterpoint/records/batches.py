"""Records made of answers, in columns."""

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
from counterpoint.records.conclusions import concluded, messages_of, nothing
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
    """The records of answers (`Counterfactuals`) in columns, one batch for each target."""
    import pandas as pd

    if not answers.is_cheapest:
        raise InvalidInput(
            "Records are of the cheapest answer of each row; these are several answers, or answers "
            "along a path. Call explain without n=, and make records of what it returns."
        )
    features, reading, remarks = answers.query.features, answers.query.model, answers.remarks()
    tables = [t.select(features.names) for t in (answers.table, answers.decoded(slice(None)))]
    frames = [pd.DataFrame({str(n): t.column(n) for n in features.names}) for t in tables]
    singles = [str(features.names[j]) for j in sorted(tables[0].singles)]
    read = fingerprint(reading.form, features, reading.fills)
    model = {"fingerprint": read, "features": [*map(str, features.names)]}
    groups: dict[str, list[int]] = {}
    for i, target in enumerate(answers.targets.tolist()):
        groups.setdefault(repr(target), []).append(i)
    for indices in groups.values():
        at, query = np.array(indices), answers.query.asking(target=answers.targets[indices[0]])
        table = query_of(query, singles)
        shared = {"schema": SCHEMA, "made": made_now(), "model": model, "asked": table}
        shared["asked_hash"] = digest(canonical(table))
        recorded = RecordedQuery(query, tuple(singles))
        # a target that depends on the row is not one of rows that cannot be used
        usable = (answers.statuses[at] != Status.INVALID.code).any()
        programs = query.union.proof_programs if usable else ()
        sizes = [proof_size(program) for program in programs]
        proofs = _proofs(answers, at, sizes)
        values = _columns(answers, at, recorded, proofs)
        values["message"] = messages_of(values, query)
        for k, i in enumerate(indices):
            if i in answers.problems:
                values["message"][k] = answers.problems[i]
            elif i in remarks:
                values["message"][k] += f" {remarks[i]}"
        rows, after = (frame.iloc[at].reset_index(drop=True) for frame in frames)
        yield RecordBatch(shared, rows, after, values, proofs, at, sizes)


def _columns(
    answers: Any, at: IntArray, recorded: RecordedQuery, proofs: list[Any]
) -> dict[str, Any]:
    """Return the words and numbers of records, for the answers ``at`` to one target."""
    c, query = answers.certificates, recorded.query
    out = nothing(len(at), recorded.resolution) | {"valid": c.valid[at]}
    index = np.flatnonzero(answers.statuses[at] != Status.INVALID.code)
    if len(index):
        rows = at[index]
        x, y = (query.features.expand(codes[rows]) for codes in (answers.before, answers.after))
        names = ("valid", "margin", "probability", "guarantees", "rounding")
        verdict = Validation(*(getattr(c, name)[rows] for name in names))
        if (
            query.target.requirement.promise is Guarantee.NONE
        ):  # a search in a span knew less of them
            form, target = query.model.form, query.target
            margin = form.margin(y, target)
            rounding = form.margin_error(y, target.requirement, query.eps)
            verdict = replace(verdict, margin=margin, rounding=rounding)
        status, claim = Status.of(answers.statuses[rows]), Claim.of(c.claims[rows])
        claim[(status == Status.OPTIMAL) | (status == Status.INFEASIBLE)] = Claim.REPORTED
        stated: dict[str, Any] = {"status": status, "claim": claim, "bound": c.bound[rows]}
        stated["valid"] = c.valid[rows]
        stated["proof"] = [proofs[i] for i in index.tolist()]
        for name, values in concluded(recorded, x, y, verdict, stated).items():
            out[name][index] = values
    del out["proved"]
    return out


def _proofs(answers: Any, at: IntArray, sizes: list[int]) -> list[Any]:
    """Return the proof of each row ``at``; None where there is none, or nothing to prove.

    ``sizes`` are how many multipliers each program of the question has.
    """
    out: list[Any] = [None] * len(at)
    search = np.full(len(answers.statuses), -1)  # the search that a row's proof is from
    for k, (rows, _) in enumerate(answers.proofs):
        search[rows] = k  # the last one counts
    search[answers.statuses == Status.ALREADY.code] = -1
    for k in np.unique(search[at][search[at] >= 0]).tolist():
        rows, pieces = answers.proofs[k]
        if not sizes or sizes != [piece.multipliers.shape[1] for piece in pieces]:
            continue
        index = np.flatnonzero(search[at] == k)
        proofs = proofs_of(pieces, np.searchsorted(rows, at[index]))
        for i, proof in zip(index, proofs, strict=True):
            out[i] = proof
    return out
