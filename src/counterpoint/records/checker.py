"""The checker of records: whether what a record says is so, without solving anything.

Nothing in a record is believed but the row and what was asked of it. Everything else is computed
anew, from the model that is passed and by weak duality, and compared:

1. *the record itself*: its schema, its digest, the hash of what was asked;
2. *the model*: what is read of it now has the fingerprint of what was read of it then;
3. *validity*: the model's own ``predict``, asked about the row and about the answer;
4. *constraints and cost*: the formulas of the program, at the answer;
5. *optimality*: for the recorded multipliers, which may be any numbers, weak duality gives a number
   that no answer costs less than (`counterpoint.engine.duality`); for a recorded tree, the least of
   those of its leaves, once it is checked that they cover all that is possible
   (`counterpoint.engine.proof`). The bound that the record states must be that number, its gap what
   follows from it, and its status and claim what follows from the gap.

So whoever forges a record would need multipliers that prove what is not so, and there are none. A
digest is no signature: it shows damage, and that somebody edited the file and left it at that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import (
    CLOSED,
    VIOLATION,
    Bounding,
    Claim,
    Evidence,
    Kept,
    Status,
    lower_bounds,
    relative_gap,
)
from counterpoint.engine.answering import SINGLE, SPARE, Task, encoded_rows
from counterpoint.engine.pieces import Piece, Question
from counterpoint.engine.wings import wings
from counterpoint.errors import CounterpointError, InvalidInput, shown
from counterpoint.explainer import Explainer, effort_of
from counterpoint.numerics import EPS, BoolArray, FloatArray, IntArray
from counterpoint.records.record import (
    FIELDS,
    SCHEMA,
    Batch,
    batch_of,
    canonical,
    digest,
    fingerprint,
    kept_of,
    parsed,
    problem_of,
    read_lines,
    read_parquet,
)
from counterpoint.rows.encoding import match_columns
from counterpoint.rows.table import Table
from counterpoint.targets import Guarantee, Target, Verdict

if TYPE_CHECKING:
    from counterpoint.engine.program import Program

__all__ = ["Recheck", "proved_bounds", "recheck"]

BROKEN = (CounterpointError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a record raises that somebody changed."""
SIXTEENTH = 1.0 / 16.0
"""By how much bounds on rounding may differ between processors: they are rounded up to six bits."""


@final
@dataclass(frozen=True)
class Recheck:
    """What became of checking records.

    Parameters
    ----------
    count
        How many records were checked.
    found
        Position of a record → what is wrong with it, in sentences; only records with problems.
    proved
        (count,) whether the record's own proof shows that its answer is optimal up to the gap
        that was asked for, that there is none, or that none is needed. Where it does not, as for a
        claim that is ``reported``, optimality is not verified, and all else is.
    """

    count: int
    found: dict[int, tuple[str, ...]]
    proved: NDArray[np.bool_]

    @property
    def ok(self) -> bool:
        """Whether no record has a problem."""
        return not self.found

    @property
    def problems(self) -> tuple[str, ...]:
        """All sentences; of several records, with their positions, counted from 0."""
        alone = self.count == 1
        return tuple(
            sentence if alone else f"Record {i}: {sentence}"
            for i, sentences in sorted(self.found.items())
            for sentence in sentences
        )


def recheck(records: Any, model: Any) -> Recheck:
    """Check records of answers against a model, without solving anything.

    Parameters
    ----------
    records
        A record (`Counterfactual.to_record`), its JSON text, a list of them, or the path of a file
        that `Counterfactuals.to_records` wrote.
    model
        The fitted model that the answers are said to be of.

    Returns
    -------
    Recheck
        Its ``ok`` says whether all is well, its ``problems`` what is not.

    Raises
    ------
    InvalidInput
        If there is nothing that could be a record, or a file cannot be read.
    UnsupportedModel, ModelNotFitted
        If the model cannot be read.

    Examples
    --------
    >>> import counterpoint as cp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> record = cp.Explainer(model, data=X).explain(X.head(1), target=1)[0].to_record()
    >>> cp.recheck(record, model).ok
    True
    >>> cp.recheck(record | {"cost": 0.1}, model).ok
    False
    """
    found: dict[int, list[str]] = {}
    batches, count = _batches(records, found)
    proved = np.zeros(count, dtype=bool)
    asked: dict[str, Asked] = {}
    for batch in batches:
        _check(batch, model, asked, found, proved)
    problems = {i: tuple(dict.fromkeys(sentences)) for i, sentences in found.items()}
    return Recheck(count, problems, proved & ~np.isin(np.arange(count), [*problems]))


# 1. The record itself


def _batches(records: Any, found: dict[int, list[str]]) -> tuple[list[Batch], int]:
    """Records in columns, grouped by what was asked; what is wrong with others is found."""
    text = isinstance(records, str) and records.lstrip()[:1] == "{"
    if isinstance(records, str | PathLike) and not text:
        path = Path(records)
        if path.suffix != ".jsonl":
            batches = read_parquet(path)
            return batches, sum(len(batch.at) for batch in batches)
        records = read_lines(path)
    records = [records] if text or isinstance(records, Mapping) else records
    if not isinstance(records, Sequence) or not records:
        raise InvalidInput(
            "Expected a record, its JSON text, a list of records, or the path of a .jsonl or "
            f".parquet file of them; got {shown(records)}."
        )
    groups: dict[str, list[int]] = {}
    whole: dict[int, Any] = {}
    for i, record in enumerate(records):
        whole[i] = parsed(record) if isinstance(record, str) else record
        sentence, same = _sealed(whole[i])
        if sentence:
            found.setdefault(i, []).append(sentence)
        if same:
            groups.setdefault(same, []).append(i)
    parts = (_readable([whole[i] for i in at], at, found) for at in groups.values())
    return [batch for part in parts for batch in part], len(records)


def _sealed(record: Any) -> tuple[str, str]:
    """What is wrong with a record as a whole, and what it shares with others, if it is one."""
    sentence = _unreadable(record)
    if sentence:
        return sentence, ""
    try:
        body = canonical({key: value for key, value in record.items() if key != "digest"})
        same = canonical([record[key] for key in ("schema", "model", "asked", "asked_hash")])
    except BROKEN:
        return "It holds what JSON cannot: a NaN, an infinity or an object of Python.", ""
    if digest(body) != record["digest"]:
        return "It was changed after it was written: its digest does not fit it.", same
    return "", same


def _unreadable(record: Any) -> str:
    """Why this is no record that could be checked; empty if it may be one."""
    if isinstance(record, InvalidInput):
        return f"It {record}"
    if not isinstance(record, Mapping):
        return f"It is no record, but {shown(record, 40)}; expected an object."
    if record.get("schema") != SCHEMA:
        return (
            f"Its schema is {shown(record.get('schema'), 40)}; this version of counterpoint reads "
            f"{SCHEMA!r}. Check it with the version that wrote it."
        )
    missing = [key for key in FIELDS if key not in record]
    if missing:
        return f"The field {missing[0]!r} is missing; it may have been edited."
    more = [key for key in record if key not in FIELDS]
    return f"It has a field {shown(more[0], 40)} that records do not have." if more else ""


def _readable(
    records: list[dict[str, Any]], at: Sequence[int], found: dict[int, list[str]]
) -> Iterator[Batch]:
    """Records in columns; if that fails, each by itself."""
    try:
        batch = batch_of(records, at)
    except BROKEN as error:
        if len(records) > 1:
            for i, record in zip(at, records, strict=True):
                yield from _readable([record], [i], found)
            return
        found.setdefault(at[0], []).append(f"It cannot be read: {_said(error)}.")
    else:
        yield batch


def _said(error: BaseException) -> str:
    """What an error says, as the end of a sentence."""
    what = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
    return " ".join(what.split()).removesuffix(".")


# 2. The model, and what was asked of it


@final
@dataclass(frozen=True, eq=False)
class Asked:
    """What was asked, made anew from what the record says and the model that is passed."""

    explainer: Explainer
    question: Question
    target: Target
    gap: float
    limited: bool  # whether there was a limit of time
    problems: tuple[str, ...]  # what is wrong with all records that say so

    @classmethod
    def of(cls, shared: Mapping[str, Any], model: Any) -> Asked:
        """Read it; what cannot be read is one of `BROKEN`."""
        asked, problems = shared["asked"], []
        known = {"target", "cost", "constraints", "features", "gap", "time_limit", "optimality"}
        if set(asked) != known | {"float32"}:
            raise ValueError("what was asked lacks a key, or has one too many")
        if digest(canonical(asked)) != shared["asked_hash"]:
            problems.append("What was asked does not fit its hash: it was changed.")
        problem = problem_of(asked)
        explainer = problem.explainer(model)
        if problem.target is None or problem.cost is None:
            raise ValueError("expected a target and a cost")
        effort = effort_of(asked["gap"], asked["time_limit"], asked["optimality"])
        rules = (*explainer.constraints, *explainer.implied)
        question = Question.ask(explainer.reading.form, explainer.features, rules, problem.cost)
        read = fingerprint(question.form, question.features, explainer.reading.fills)
        if read != shared["model"]["fingerprint"]:
            problems.append(
                "It is a record of another model: what is read of this one has another fingerprint."
            )
        if shared["model"]["features"] != [str(name) for name in question.features.names]:
            problems.append("The model's features are others than the record says.")
        limited = effort.seconds is not None
        return cls(explainer, question, problem.target, effort.gap, limited, tuple(problems))


# 3. to 5. Rows


def _check(
    batch: Batch,
    model: Any,
    known: dict[str, Asked],
    found: dict[int, list[str]],
    proved: BoolArray,
) -> None:
    """Write what is wrong with the records of a batch; if it cannot be computed, one by one."""
    try:
        key = canonical([batch.shared[k] for k in ("asked", "asked_hash", "model")])
        asked = known[key] if key in known else known.setdefault(key, Asked.of(batch.shared, model))
        wrong, shows = _wrong(batch, asked)
    except BROKEN as error:
        if len(batch.at) > 1:
            for i in range(len(batch.at)):
                _check(_one(batch, i), model, known, found, proved)
            return
        found.setdefault(int(batch.at[0]), []).append(f"It cannot be checked: {_said(error)}.")
        return
    for at in batch.at.tolist() if asked.problems else ():
        found.setdefault(at, []).extend(asked.problems)
    for sentence, rows in wrong:
        for at in batch.at[rows].tolist():
            found.setdefault(at, []).append(sentence)
    proved[batch.at] = shows


def _one(batch: Batch, i: int) -> Batch:
    """One record of a batch."""
    part = slice(i, i + 1)
    told = {name: values[part] for name, values in batch.told.items()}
    rows, answers = batch.rows.iloc[part], batch.answers.iloc[part]
    return Batch(batch.shared, rows, answers, told, batch.proofs[part], batch.at[part])


Sentences = list[tuple[str, BoolArray]]
"""What is wrong, and with which of n records."""


@final
class Seen(NamedTuple):
    """n records with rows that can be used: what they say, and what the model says of them now."""

    told: dict[str, Any]  # (n,) words and numbers of the records
    status: NDArray[np.str_]  # (n,)
    answered: BoolArray  # (n,) whether they say that there is an answer
    already: BoolArray  # (n,) whether they say that nothing has to change
    x: FloatArray  # (n, d) the rows, encoded
    y: FloatArray  # (n, d) the answers; the rows where there is none
    met: BoolArray | None  # (n,) whether rows meet the target; None if that depends on leads
    verdict: Verdict  # what the model says of the answers
    proofs: list[Any]  # what is to prove the bound of each; None for nothing
    eps: float  # from 1 to the next number where the model computes, or rows are kept
    resolution: float  # the largest violation that is rounding


def _wrong(batch: Batch, asked: Asked) -> tuple[Sentences, BoolArray]:
    """What is wrong with n records; (n,) whether their proofs settle them."""
    wrong, here, seen = _seen(batch, asked)
    settled = np.zeros(len(batch.at), dtype=bool)
    if seen is None:
        return wrong, settled
    cost, violation = _cost(seen, asked)
    bound, objective, settled[here] = _bound(seen, asked)
    found = [
        *_validity(seen, violation),
        *_numbers(seen, cost, violation, bound, objective),
        *_conclusions(seen, asked, violation, settled[here]),
    ]
    for sentence, rows in found:
        every = np.zeros(len(batch.at), dtype=bool)
        every[here] = rows
        wrong.append((sentence, every))
    return wrong, settled


def _seen(batch: Batch, asked: Asked) -> tuple[Sentences, IntArray, Seen | None]:
    """The rows and the answers, read as any rows are; and the model, asked about both."""
    question, target, reading = asked.question, asked.target, asked.explainer.reading
    n, status = len(batch.at), batch.told["status"].astype(str)
    table, after = (
        match_columns(Table.read(frame.reset_index(drop=True)), question.features)
        for frame in (batch.rows, batch.answers)
    )
    eps = max(reading.eps, table.eps)
    task = Task(reading, question, target, effort_of(asked.gap, None), eps)
    # Rows that cannot be used, and no others, have to be said to be invalid.
    before, returned = encoded_rows(task, table), encoded_rows(task, after)
    usable = ~np.isin(np.arange(n), [*before.problems])
    lost = np.isin(np.arange(n), [*returned.problems]) & usable
    invalid = status == str(Status.INVALID)
    wrong: Sentences = [
        ("The row can be used, but its status says that it cannot.", usable & invalid),
        ("The row cannot be used, but its status says that it can.", ~usable & ~invalid),
        ("The answer is no row that the model takes.", lost),
        ("A row that cannot be used has no answer.", ~usable & batch.told["valid"].astype(bool)),
        *_nothing(batch, ~usable),
    ]
    here = np.flatnonzero(usable & ~lost)
    if not len(here):
        return wrong, here, None
    x, y = (question.features.expand(each.codes[here]) for each in (before, returned))
    table, after = table.take(here), after.take(here)
    # The model itself; and what was read of it has to predict the same.
    now, then = reading.predict(table), reading.predict(after)
    reading.check(x, now)
    reading.check(y, then)
    met, verdict = None, target.verdict(reading, after, y, then, eps)
    leads = target.leads(question, x)
    if leads is None:
        met = np.asarray(target.met(reading, table, x, now))
    else:  # the lead that is asked for depends on how far the answer is
        margin = verdict.margin - leads.required(y, question.actionable.cost(y, x))
        verdict = replace(verdict, margin=margin, valid=verdict.valid & (margin >= 0.0))
    told = {name: values[here] for name, values in batch.told.items()}
    return (
        wrong,
        here,
        Seen(
            told,
            status[here],
            told["valid"].astype(bool),
            status[here] == str(Status.ALREADY),
            x,
            y,
            met,
            verdict,
            [batch.proofs[i] for i in here.tolist()],
            eps,
            SINGLE if table.singles else VIOLATION,
        ),
    )


def _nothing(batch: Batch, rows: BoolArray) -> Sentences:
    """Records of some rows hold no numbers, no claim and no proof."""
    told = batch.told
    empty = np.array([proof is None for proof in batch.proofs])
    for name in ("cost", "objective", "gap", "margin", "rounding", "violation", "probability"):
        empty &= np.isnan(told[name])
    empty &= (told["bound"] == 0.0) & (told["proved_bound"] == 0.0)
    empty &= (told["claim"].astype(str) == str(Claim.NONE)) & np.isin(
        told["resolution"], (VIOLATION, SINGLE)
    )
    empty &= told["guarantee"].astype(str) == str(Guarantee.NONE)
    return [("A row that cannot be used has numbers, a claim or a proof.", rows & ~empty)]


def _cost(seen: Seen, asked: Asked) -> tuple[FloatArray, FloatArray]:
    """(n,) what the change costs and by how much it breaks constraints, by the formulas."""
    program = asked.question.actionable
    return program.cost(seen.y, seen.x), program.violation(seen.y, seen.x)


def _bound(seen: Seen, asked: Asked) -> tuple[FloatArray, FloatArray, BoolArray]:
    """(n,) what the proofs prove, what was minimised, and whether the one settles the other.

    For a row that stays nothing has to be proved: no cost is below 0.
    """
    question, target = asked.question, asked.target
    bound, settled = np.zeros(len(seen.x)), np.array(seen.already)
    objective = _objective(question, target, seen.x, seen.y)
    rows = np.array([i for i, proof in enumerate(seen.proofs) if proof is not None], dtype=np.intp)
    if len(rows):
        sizes = [piece.program.size for piece in question.pieces(target).listed]
        kept = kept_of([seen.proofs[i] for i in rows.tolist()], sizes, seen.x.shape[1])
        about = seen.x[rows], seen.y[rows], seen.answered[rows]
        effort = asked.gap, seen.eps, seen.verdict.rounding[rows]
        part = proved_bounds(question, target, about, kept, effort)
        if part is not None:
            bound[rows], _, settled[rows] = part
    return bound, objective, settled


def _validity(seen: Seen, violation: FloatArray) -> Sentences:
    """Whether answers are answers."""
    moved = (seen.x != seen.y).any(axis=1)
    proof = np.array([proof is not None for proof in seen.proofs])
    met = seen.already if seen.met is None else seen.met
    return [
        ("The model does not give the answer the target.", seen.answered & ~seen.verdict.valid),
        ("The row meets the target as it is, but its status does not say so.", met & ~seen.already),
        ("The row does not meet the target as it is, but its status says so.", ~met & seen.already),
        (
            "It says that nothing has to change, but the answer is not the row.",
            seen.already & moved,
        ),
        (
            "The answer breaks a constraint.",
            seen.answered & ~seen.already & (violation > seen.resolution),
        ),
        ("It holds a proof of what needs none.", seen.already & proof),
    ]


def _numbers(
    seen: Seen, cost: FloatArray, violation: FloatArray, bound: FloatArray, objective: FloatArray
) -> Sentences:
    """Each number of a record against what was computed, up to what processors may differ by."""
    told, answered, verdict = seen.told, seen.answered, seen.verdict
    least = np.where(answered, np.minimum(bound, objective), bound)
    slack = CLOSED * np.where(answered, np.abs(objective), np.nan_to_num(bound, posinf=0.0))
    gap = relative_gap(told["objective"], told["bound"])
    of_answers: dict[
        str, tuple[FloatArray, FloatArray | float]
    ] = {  # what each is, and by how much it may differ
        "cost": (cost, CLOSED * np.abs(cost)),
        "objective": (objective, CLOSED * np.abs(objective)),
        "margin": (verdict.margin, verdict.rounding + CLOSED * np.abs(verdict.margin)),
        "rounding": (verdict.rounding, SIXTEENTH * verdict.rounding),
        "violation": (violation, CLOSED),
        "probability": (verdict.probability, CLOSED),
        "gap": (gap, CLOSED),
    }
    of_all: dict[str, tuple[FloatArray, FloatArray | float]] = {
        "resolution": (np.full(len(cost), seen.resolution), 0.0),
        "proved_bound": (least, slack),
    }
    proof = np.array([proof is not None for proof in seen.proofs]) | seen.already
    reported = told["claim"].astype(str) == str(Claim.REPORTED)
    wrong: Sentences = [
        (
            "Its bound is not what its proof gives.",
            proof & ~reported & ~_close(told["bound"], least, slack),
        ),
        ("Its bound is below what its proof gives.", ~(told["bound"] >= least - slack)),
        ("Its bound is above its objective.", answered & ~(told["bound"] <= objective + slack)),
    ]
    for name, (value, off) in {**of_answers, **of_all}.items():
        value = np.where(answered | (name in of_all), value, np.nan)  # noqa: PLW2901
        sentence = f"Its {name.replace('_', ' ')} is not what is computed."
        wrong.append((sentence, ~_close(told[name], value, off)))
    return wrong


def _conclusions(seen: Seen, asked: Asked, violation: FloatArray, settled: BoolArray) -> Sentences:
    """Whether status, claim and guarantee follow."""
    told, status, already, answered = seen.told, seen.status, seen.already, seen.answered
    claim, pieces = told["claim"].astype(str), asked.question.pieces(asked.target)
    reported = claim == str(Claim.REPORTED)
    holds = answered & ~already & seen.verdict.valid & (violation <= seen.resolution)
    # What is reported cannot be checked; where rounding counts, neither can its gap.
    small = (told["gap"] <= asked.gap) | (seen.eps > EPS) | pieces.jumps
    limited = np.full(len(status), asked.limited)
    says = {
        Status.ALREADY: already & answered,
        Status.OPTIMAL: holds & (settled | (reported & small)),
        Status.SUBOPTIMAL: holds & ~settled,
        Status.LIMIT: limited & ~already,
        Status.INFEASIBLE: ~answered & (settled | reported) & np.isposinf(told["bound"]),
        Status.UNPROVED: ~answered & ~settled & np.isfinite(told["bound"]),
    }
    follows = np.any([(status == str(word)) & rows for word, rows in says.items()], axis=0)
    sure = np.isin(status, [str(Status.OPTIMAL), str(Status.INFEASIBLE)]) | already
    local = any(piece.program.nonconvex for piece in pieces.listed) & (
        status == str(Status.SUBOPTIMAL)
    )
    unsure = (claim == str(Claim.NONE)) | (local & (claim == str(Claim.LOCAL)))
    claimed = np.where(sure, np.where(settled, claim == str(Claim.PROVED), reported), unsure)
    promised = Guarantee.of(seen.verdict.guarantees).astype(str)
    promised = np.where(answered, promised, str(asked.target.promise))
    return [
        ("Its status does not follow from what is computed.", ~follows),
        ("Its claim does not follow from what is computed.", ~claimed.astype(bool)),
        ("Its guarantee is not that of its target.", told["guarantee"].astype(str) != promised),
    ]


def _close(told: FloatArray, value: FloatArray, off: FloatArray | float) -> BoolArray:
    """(n,): whether numbers are the same up to what they may be off; NaN is NaN."""
    with np.errstate(invalid="ignore"):
        near = (told == value) | (np.abs(told - value) <= off)
    return np.asarray(near | (np.isnan(told) & np.isnan(value)))


def _objective(question: Question, target: Target, x: FloatArray, y: FloatArray) -> FloatArray:
    """(n,) what was minimised: the cost; for a `Tradeoff` with what is charged."""
    program = question.pieces(target).asked
    return program.objective(y, _cases(program, target, x))


def _cases(program: Program, target: Target, x: FloatArray) -> Any:
    """Rows as a program sees them, with the weight of a `Tradeoff`."""
    cases, weight = program.cases(x), target.requirement.weight
    return cases if weight is None else cases.weighing(np.full(len(x), 0.5 * weight))


def proved_bounds(
    question: Question,
    target: Target,
    rows: tuple[FloatArray, FloatArray, BoolArray],
    kept: Sequence[Kept],
    effort: tuple[float, float, FloatArray],
) -> tuple[FloatArray, FloatArray, BoolArray] | None:
    """What multipliers and trees prove: bounds, objectives, and whether that settles rows.

    ``rows`` are (n, d) factual and returned rows, the former where there is no answer, and whether
    there is one; ``effort`` the gap, the distance from 1 to the next number, and (n,) roundings of
    scores. None if the pieces of the target are not listed, or are others than the proofs are of.
    """
    (x, y, answered), (gap, eps, rounding) = rows, effort
    pieces = question.pieces(target)
    sizes = [piece.program.size for piece in pieces.listed]
    if pieces.lazy is not None or sizes != [k.multipliers.shape[1] for k in kept]:
        return None
    objective = _objective(question, target, x, y)
    bound, settled = np.zeros(len(x)), np.zeros(len(x), dtype=bool)
    # Where whole columns are on their lattice, ties are decided there: as when it was answered.
    on = question.on_lattice(x) if question.is_discrete else np.zeros(len(x), dtype=bool)
    for part, union in (
        (~on, pieces),
        (on, question.decided(target, pieces) if on.any() else pieces),
    ):
        mine = np.flatnonzero(part)
        if not len(mine):
            continue
        evidence = [
            _evidence(piece, target, x[mine], y[mine], k.take(mine))
            for piece, k in zip(union.listed, kept, strict=True)
        ]
        worth = objective[mine]
        reached = np.where(answered[mine], worth, np.inf)
        low = lower_bounds(evidence, reached, gap)[0]
        done = np.where(answered[mine], relative_gap(worth, low) <= gap, np.isposinf(low))
        left = answered[mine] & ~done
        if left.any() and target.demanding and (eps > EPS or pieces.jumps):
            # Optimal among the points that lead by the rounding error, see `Status.OPTIMAL`: the
            # cost is that of the cheapest point that may have been rounded to the answer.
            near = np.maximum(np.abs(y[mine] - x[mine]) - (eps > EPS) * eps * np.abs(y[mine]), 0.0)
            cheap = question.price(near) if question.price.quadratic.ndim == 1 else worth
            here = target.requirement.rounding(question.form, x[mine], eps)
            asked = SPARE * np.fmax(here, rounding[mine])
            both = np.stack([asked, np.zeros_like(asked)], axis=1)
            leading = lower_bounds(evidence, np.where(left, cheap, np.inf), gap, both)[0]
            done |= left & (cheap * (1.0 - gap) <= leading)
        bound[mine], settled[mine] = low, done
    return bound, objective, settled


def _evidence(piece: Piece, target: Target, x: FloatArray, y: FloatArray, kept: Kept) -> Bounding:
    """What bounds a piece of the target: multipliers and trees, or what its wing reads."""
    program = piece.program
    cases = _cases(program, target, x)
    if kept.own is not None:
        for wing in wings():
            for kind in program.kinds & wing.PROOFS.keys():
                own: Bounding = wing.PROOFS[kind](program, cases, kept.own)
                return own
        raise ValueError("there is a proof of a kind that is not known")
    at = y if program.has_tangents else None
    return Evidence(program, cases, kept.multipliers, at, np.zeros(len(x)), [*kept.trees])
