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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Claim, Status, lower_bounds, relative_gap, said_of
from counterpoint.errors import CounterpointError
from counterpoint.families.registry import families
from counterpoint.models.comparison import compare
from counterpoint.models.form import Form
from counterpoint.numerics import CLOSED, BoolArray, FloatArray, IntArray
from counterpoint.problem.targets import Guarantee, Validation
from counterpoint.programs.evidence import Evidence
from counterpoint.programs.proof_text import kept_of
from counterpoint.records.record import NUMBERS, RecordBatch, RecordedQuery
from counterpoint.rows.encoding import match_columns
from counterpoint.rows.table import Table
from counterpoint.search.answering import answers_to
from counterpoint.search.query import Task
from counterpoint.search.search import Union
from counterpoint.solvers import Effort

if TYPE_CHECKING:
    import pandas as pd

    from counterpoint.programs.evidence import Bounding, Kept
    from counterpoint.programs.program import Program

__all__ = ["BROKEN", "check", "concluded", "messages_of", "nothing"]

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
MOMENT = 0.5
"""For how long a row is searched again that is said to be impossible to compute with, in seconds:
that shows at once."""


def concluded(
    query: RecordedQuery,
    x: FloatArray,
    y: FloatArray,
    verdict: Validation,
    stated: Mapping[str, Any],
) -> dict[str, Any]:
    """What records of (n, d) rows and answers have to say, in columns of shape (n,).

    The verdict is the model's own on the answers. Of what a record ``said`` only this counts: its
    proof, whether it is valid or already, and what nothing but a search can know: that a solver
    reported a bound that settles the row, and which; of a row that nothing settles, that its
    optimum is local, or that time ran out.
    """
    program, pieces = query.question.actionable, query.question.union(query.target)
    answered, already = stated["valid"].astype(bool), stated["status"] == Status.ALREADY
    # By the formulas, at the row that was returned: what the change costs, by how much it breaks
    # constraints, what was minimised.
    cost_cutoff = query.cost_cutoff(x, y)
    numbers = {
        "cost": program.cost(y, x),
        "violation": program.violation(y, x),
        "objective": cost_cutoff,
    }
    numbers |= {name: getattr(verdict, name) for name in ("margin", "rounding", "probability")}
    # By its proof: no point costs less than ``least``. Of a row that stays nothing has to be
    # proved, for no cost is below 0.
    has_proof = np.array([proof is not None for proof in stated["proof"]], dtype=bool) & ~already
    least, settled = np.zeros(len(x)), np.array(already)
    if has_proof.any():
        rows = ProvedRows(x, answered, cost_cutoff).take(np.flatnonzero(has_proof))
        proofs = list(compress(stated["proof"], has_proof))
        least[has_proof], settled[has_proof] = _proved(query, rows, proofs)
    # A reported bound counts where it settles the row and its own proof does not.
    reported = (stated["claim"] == Claim.REPORTED) & ~settled
    bound = np.where(reported, np.fmax(stated["bound"], least), least)
    bound, least = (np.where(answered, np.fmin(b, cost_cutoff), b) for b in (bound, least))
    # An answer is optimal if its gap is closed; without one, an infinite bound refutes the row.
    small = settled | (relative_gap(cost_cutoff, bound) <= query.gap)
    sure = (settled | reported) & np.where(answered, small, np.isposinf(bound))
    bound = np.where(sure, bound, least)  # of what is not settled only what is proved is said
    gap = relative_gap(cost_cutoff, bound)
    limited = (stated["status"] == Status.LIMIT) & query.limited & ~sure
    status, claim, promised = np.full((3, len(x)), Claim.NONE, dtype=object)
    status[:], status[answered] = Status.UNPROVED, Status.SUBOPTIMAL
    status[sure & ~answered], status[sure & answered] = Status.INFEASIBLE, Status.OPTIMAL
    status[limited], status[already] = Status.LIMIT, Status.ALREADY
    claim[sure & settled], claim[sure & reported] = Claim.PROVED, Claim.REPORTED
    if any(piece.program.nonconvex for piece in pieces.listed):
        claim[(status == Status.SUBOPTIMAL) & (stated["claim"] == Claim.LOCAL)] = Claim.LOCAL
    promised[:] = query.target.requirement.promise
    promised[answered] = Guarantee.of(verdict.guarantees)[answered]
    numbers = {k: np.where(answered, v, np.nan) for k, v in {**numbers, "gap": gap}.items()}
    numbers |= {"bound": bound, "proved_bound": least}
    numbers["resolution"] = np.full(len(x), query.resolution)
    words = {"status": status, "claim": claim, "guarantee": promised}
    return {**numbers, **words, "proved": settled}


@final
class ProvedRows(NamedTuple):
    """n rows whose bounds are to be proved."""

    x: FloatArray  # (n, d) encoded
    answered: BoolArray  # (n,) whether there is an answer
    cost_cutoff: FloatArray  # (n,) what was minimised

    def take(self, rows: IntArray) -> ProvedRows:
        """Some of them."""
        taken: Any = (column[rows] for column in self)
        return ProvedRows(*taken)


def _proved(
    query: RecordedQuery, rows: ProvedRows, proofs: list[Any]
) -> tuple[FloatArray, BoolArray]:
    """(n,) what multipliers and trees prove, and whether that settles the row."""
    question, pieces = query.question, query.question.union(query.target)
    piece_proofs = kept_of(proofs, pieces.proof_programs)
    bound, settled = np.zeros(len(proofs)), np.zeros(len(proofs), dtype=bool)
    # Where whole columns are on their lattice, ties are decided there: as when it was answered.
    on = question.on_lattice(rows.x) if question.is_discrete else np.zeros(len(proofs), dtype=bool)
    ties_resolved = question.ties_resolved(query.target, pieces) if on.any() else pieces
    for mask, union in ((~on, pieces), (on, ties_resolved)):
        mine = np.flatnonzero(mask)
        if len(mine):
            chosen = rows.take(mine)
            both = zip(union.proof_programs, piece_proofs, strict=True)
            evidence = [_evidence(query, union, p, chosen, proof.take(mine)) for p, proof in both]
            bound[mine], settled[mine] = _settled(query, chosen, evidence)
    return bound, settled


def _evidence(
    query: RecordedQuery, union: Union, program: Program, rows: ProvedRows, proof: Kept
) -> Bounding:
    """What bounds one piece of the target: multipliers and trees, or what its family reads."""
    cases = query.cases(program, rows.x)
    if proof.family_proofs is None:
        return Evidence.of_kept(program, cases, proof)
    for family in families():
        for condition in (union.lazy, *program.region):
            if type(condition) in family.PROOFS:
                bounds: Bounding = family.PROOFS[type(condition)](
                    condition, program, cases, proof.family_proofs
                )
                return bounds
    raise ValueError("there is a proof of a kind that is not known")


def _settled(
    query: RecordedQuery, rows: ProvedRows, evidence: Sequence[Bounding]
) -> tuple[FloatArray, BoolArray]:
    """(n,) the bound of a union of pieces, which is the least of theirs; whether it settles."""
    bound = lower_bounds(evidence, np.where(rows.answered, rows.cost_cutoff, np.inf), query.gap)[0]
    small = relative_gap(rows.cost_cutoff, bound) <= query.gap
    return bound, np.where(rows.answered, small, np.isposinf(bound))


def messages_of(values: Mapping[str, Any]) -> NDArray[np.object_]:
    """(n,) what records say in words of rows that can be used, by their other words and numbers."""
    valid = values["valid"].astype(bool)
    edge = valid & (values["margin"] < values["rounding"])
    words = (values[name].tolist() for name in ("status", "claim", "guarantee"))
    sorts = [*zip(*words, valid.tolist(), edge.tolist(), strict=True)]
    texts = {
        sort: said_of(
            Status(sort[0]), Claim(sort[1]), Guarantee(sort[2]), has_answer=sort[3], on_edge=sort[4]
        )
        for sort in {*sorts}
    }
    return np.array([texts[sort] for sort in sorts], dtype=object)


def nothing(n: int, resolution: float) -> dict[str, Any]:
    """What records of n rows that cannot be used have to say."""
    out: dict[str, Any] = {name: np.full(n, np.nan) for name in NUMBERS}
    out |= {"bound": np.zeros(n), "proved_bound": np.zeros(n), "proved": np.zeros(n, dtype=bool)}
    words = {"status": Status.INVALID, "claim": Claim.NONE, "guarantee": Guarantee.NONE}
    out |= {name: np.full(n, word, dtype=object) for name, word in words.items()}
    return out | {"resolution": np.full(n, resolution)}


def check(
    batch: RecordBatch, query: RecordedQuery
) -> tuple[list[tuple[str, BoolArray]], NDArray[np.object_]]:
    """What is wrong, and with which of n records; (n,) what settles them, as a `Claim`."""
    reading, question, target = query.reading, query.question, query.target
    assert reading is not None  # noqa: S101 (made by `RecordedQuery.of`)
    # Rows and answers are read as any rows are, and some cannot be used.
    frames = [_in_their_dtypes(frame, query) for frame in (batch.rows, batch.answers)]
    table, after = (match_columns(Table.read(frame), question.features) for frame in frames)
    query = replace(query, eps=max(query.eps, table.eps))
    task = Task(reading, question, target, Effort.asked(query.gap, None), query.eps)
    before, returned = task.read(table), task.read(after)
    problems = before.problems | _uncomputable(task, table, batch.values["status"], before.problems)
    every = np.arange(len(batch.at))
    usable = ~np.isin(every, [*problems])
    unread = np.isin(every, [*returned.problems]) & usable
    answered = batch.values["valid"].astype(bool)
    proof = np.array([item is not None for item in batch.proofs])
    wrong = [
        ("The answer is not a row that the model accepts.", unread),
        ("A row that cannot be used has no answer and no proof.", ~usable & (answered | proof)),
    ]
    expected, index = nothing(len(every), query.resolution), np.flatnonzero(usable & ~unread)
    if len(index):
        x, y = (question.features.expand(item.codes[index]) for item in (before, returned))
        table, after = table.take(index), after.take(index)
        # The model itself is asked; and what was read of it has to predict the same.
        compare(reading, table)
        now, then = reading.predict(table), reading.predict(after)
        reading.check(x, now)
        reading.check(y, then)
        if target.requirement.probable:
            now, then = target.said(reading, table), target.said(reading, after)
        stated = {name: values[index] for name, values in batch.values.items()}
        verdict = _verdict(query, reading.form, y, then, stated["rounding"])
        stated["proof"] = [batch.proofs[i] for i in index.tolist()]
        safety_margins = question.safety_margins(target, x)
        if safety_margins is None:
            satisfied = target.satisfied(reading.form, x, now)
            stated["status"][satisfied != (stated["status"] == Status.ALREADY)] = Status.INVALID
            stated["status"][satisfied] = Status.ALREADY
        else:  # the lead that is asked for depends on how far the answer is
            margin = verdict.margin - safety_margins.required(y, question.actionable.cost(y, x))
            verdict = replace(verdict, margin=margin, valid=verdict.valid & (margin >= 0.0))
        conclusion = concluded(query, x, y, verdict, stated)
        for name, values in conclusion.items():
            expected[name][index] = values
        already, valid = conclusion["status"] == Status.ALREADY, stated["valid"].astype(bool)
        broken, moved = conclusion["violation"] > query.resolution, (x != y).any(axis=1)
        for sentence, rows in (
            ("The model does not give the answer the target.", valid & ~verdict.valid),
            ("Nothing has to change, but the answer is not the row.", already & (moved | ~valid)),
            ("It holds a proof of what needs none.", already & proof[index]),
            ("The answer breaks a constraint.", valid & ~already & broken),
        ):
            wrong.append((sentence, np.isin(every, index[rows])))
    wrong += _different(batch.values, expected)
    texts = messages_of(batch.values | expected)
    texts[[*problems]] = [*problems.values()]
    same = [item == text for item, text in zip(batch.values["message"], texts, strict=True)]
    if target.requirement.chance is not None:  # what is said besides is found by searches
        both = zip(batch.values["message"], texts, strict=True)
        same = [str(a).startswith(f"{b} ") or a == b for a, b in both]
    wrong.append(("Its message is not what follows from it.", ~np.array(same)))
    return wrong, expected["claim"]


def _uncomputable(
    task: Task, table: Table, status: NDArray[np.object_], problems: Mapping[int, str]
) -> dict[int, str]:
    """Why nothing can be computed of rows whose records say so, for reasons not ``known`` yet.

    Such a record proves nothing, but says what can be seen: these rows are searched again, each for
    a moment.
    """
    rows = np.array([i for i in np.flatnonzero(status == Status.INVALID) if i not in problems], int)
    if not len(rows):
        return {}
    doubtful = table.take(rows)
    answers = answers_to(
        replace(task, effort=replace(task.effort, seconds=MOMENT)), (doubtful, doubtful)
    )
    return {int(rows[i]): sentence for i, sentence in answers.problems.items()}


def _verdict(
    query: RecordedQuery, form: Form, y: FloatArray, then: NDArray[Any], rounding: FloatArray
) -> Validation:
    """What the model says of answers; the record says in which order its scores were added up."""
    verdict = query.target.verdict(form, y, then, query.eps)
    if form.reordered is None:
        return verdict
    other = query.target.requirement.rounding(form.reordered, y, query.eps)
    same = np.abs(rounding - other) <= other / 16.0
    return replace(verdict, rounding=np.where(same, other, verdict.rounding))


def _in_their_dtypes(frame: pd.DataFrame, query: RecordedQuery) -> pd.DataFrame:
    """The rows of a record in the dtypes that they came in: single precision where it says so.

    In these the model computes, and rounds; a ValueError if a number is not of single precision.
    """
    out = frame.reset_index(drop=True)
    for name in query.singles:
        column = out[name].astype(np.float64)
        single = column.astype(np.float32)
        if not ((single == column) | column.isna()).all():
            raise ValueError(f"column {name!r} holds numbers that are not of single precision")
        out[name] = single
    return out


def _different(
    values: Mapping[str, Any], expected: Mapping[str, Any]
) -> list[tuple[str, BoolArray]]:
    """Each word and number of records against what was computed.

    Numbers may differ by what processors differ by: a relative 1e-9, margins by the rounding error
    of the model's score, and so do probabilities, which change by less than a score does. Bounds on
    that error are rounded up to six bits.
    """
    wrong, cost_cutoff = (
        [],
        np.where(np.isnan(expected["cost"]), expected["bound"], expected["objective"]),
    )
    for name in (*NUMBERS, "status", "claim", "guarantee"):
        stated, computed = values[name], expected[name]
        same = stated == computed
        if name in NUMBERS:
            size = np.abs(np.nan_to_num(cost_cutoff if "bound" in name else computed, posinf=0.0))
            tolerance = size / 16.0 if name == "rounding" else CLOSED * size
            tolerance = tolerance + CLOSED * (name in ("gap", "violation", "probability"))
            tolerance = tolerance + np.nan_to_num(expected["rounding"]) * (
                name in ("margin", "probability")
            )
            with np.errstate(invalid="ignore"):
                same |= (np.abs(stated - computed) <= tolerance) | (
                    np.isnan(stated) & np.isnan(computed)
                )
        sentence = f"Its {name.replace('_', ' ')} is not what is computed."
        wrong.append((sentence, ~np.asarray(same, dtype=bool)))
    return wrong
