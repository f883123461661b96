"""The matrix: what is claimed of every family, against points that are known without a search."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from known_points import Columns, Known, allowed, as_columns, cost, slack_of
from matrix import BASE, FACTORS, LIMIT, REFUSED, Cell, Question, cells, plain

import counterpoint as cp

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*stopped after max_iter"),  # of LVQ
    pytest.mark.filterwarnings("ignore:Bins whose width are too small"),
]
GAP = 1e-6


def wrong(cell: Cell, count: int = 6) -> Iterator[str]:
    """What the answers to some rows of a cell say that is not so, in sentences."""
    question = Question(cell, count)
    answers = question.explained(question.explainer)
    yield from wrong_points(question, answers)
    yield from wrong_bounds(question, answers)
    yield from wrong_records(question, answers)
    yield from wrong_elsewhere(question, answers)


def wrong_points(question: Question, answers: cp.Counterfactuals) -> Iterator[str]:
    """Every answer is valid as it is returned, alone too, possible, and costs what it says."""
    status = answers.status
    meets = question.meets(question.rows, question.rows)
    for i in np.flatnonzero(((status == "already") != meets) & (status != "invalid")):
        yield f"row {i}: {status[i]}, and of whether it has the target the model says {meets[i]}"
    found = np.flatnonzero(answers.found)
    if not len(found):
        return
    points = returned(question, answers)
    rows = question.rows.iloc[found].reset_index(drop=True)
    together = question.accepts(points, rows)
    alone = [question.accepts(points[k : k + 1], rows[k : k + 1])[0] for k in range(len(found))]
    # On an edge rounding decides, which may differ between one row and several, and which takes a
    # few units of float32 from a margin.
    edge = np.array([answers[i].certificate.on_edge for i in found])
    loosely = question.accepts(points, rows, short=1e-6)
    x, y = as_columns(question, rows), as_columns(question, points)
    inside = allowed(question, y, x, exactly=False) | (status[found] == "already")
    encoded_cost = cost(question, y, x, {name: 0.0 * y[name] for name in y})
    # A value that is filled in for a missing cell is rounded with its column.
    relative = 1e-9 if question.cell.dtype == "float64" else 1e-7
    off = cost(question, y, x, slack_of(question, y)) - encoded_cost + 1e-12
    off += relative * encoded_cost
    laws = {
        "the model does not give the target": np.where(
            edge, together | alone | loosely, together & alone
        ),
        "it breaks a constraint": inside,
        "it does not cost that": np.abs(encoded_cost - answers.cost[found]) <= off,
        "it is beside its lattice": on_lattice(question, x, y),
    }
    for law, holds in laws.items():
        for i in found[~holds]:
            yield f"row {i}: {status[i]}, and {law}: {answers[i]!r}"


def returned(question: Question, answers: cp.Counterfactuals) -> pd.DataFrame:
    """The answers that there are, in the dtypes of the rows."""
    frame = answers.to_frame().iloc[np.flatnonzero(answers.found)]
    return frame.astype(question.X.dtypes).reset_index(drop=True)


def on_lattice(question: Question, x: Columns, y: Columns) -> np.ndarray:
    """(n,): whether whole columns move by whole steps, as far as their dtype can say it."""
    out = np.ones(len(y["a"]), dtype=bool)
    for name in filter(question.is_lattice, question.names):
        steps = (y[name] - x[name]) / question.step_of(name)
        room = 4.0 * slack_of(question, y)[name] / question.step_of(name) + 1e-6
        out &= np.abs(steps - np.rint(steps)) <= room
    return out


def wrong_bounds(question: Question, answers: cp.Counterfactuals) -> Iterator[str]:
    """No claim is contradicted by a point that is known, and an optimum is within its gap."""
    known = Known(question)
    if answers.found.any():
        known.add(returned(question, answers), np.flatnonzero(answers.found))
    known.nearer(back=True)
    known.nearer(back=False)
    for i, answer in enumerate(answers):
        said = f"row {i}: {answer.status}, {answer.certificate.claim}"
        if answer.status is cp.Status.OPTIMAL and not answer.certificate.gap <= GAP:
            yield f"{said}, with a gap of {answer.certificate.gap:.3g}"
        if answer.status is cp.Status.LIMIT:
            yield f"{said}, after {LIMIT:g} s"
        if answer.status is cp.Status.INVALID and not question.may_be_invalid(i):
            yield f"{said}: {answer.message}"
        if answer.status not in (cp.Status.ALREADY, cp.Status.INVALID):
            yield from contradicted(said, answer, known, known.best(i))


def contradicted(
    said: str, answer: cp.Counterfactual, known: Known, best: int | None
) -> Iterator[str]:
    """What the cheapest point that is known says of an answer, or of a row without."""
    if best is None:
        return
    least, bound = float(known.cost[best]), answer.certificate.bound
    point = known.points.iloc[best].to_dict()
    if bound > least + known.slack[best] + 1e-9 * abs(least) + 1e-12:
        yield f"{said}, bound {bound!r} ({answer!r}), and {least!r} is paid for {point}"
    elif answer.status is cp.Status.UNPROVED:
        yield f"{said}, and {least!r} is paid for {point}"


def wrong_records(question: Question, answers: cp.Counterfactuals) -> Iterator[str]:
    """What is recorded is found again."""
    usable = [answer for answer in answers if answer.status is not cp.Status.INVALID]
    if not usable:
        return
    checked = cp.recheck(
        [answer.to_record() for answer in usable], question.model, accept_reported=True
    )
    if not checked.ok:
        yield f"records: {checked.problems}"


def wrong_elsewhere(question: Question, answers: cp.Counterfactuals) -> Iterator[str]:
    """A row alone has the same answer, also from an explainer that was pickled.

    On an edge the last bit of the model's score decides, which may differ from batch to batch.
    """
    i = question.cell.seed % len(answers)
    again = pickle.loads(pickle.dumps(question.explainer))  # noqa: S301 (it is ours)
    alone, batch = question.explained(again, slice(i, i + 1))[0], answers[i]
    if alone.certificate.on_edge or batch.certificate.on_edge:
        certificates = alone.certificate, batch.certificate
        bound = max(certificate.bound for certificate in certificates)
        least = np.fmin(*(certificate.objective for certificate in certificates))
        if bound > least + 1e-6 * abs(least) + 1e-9:
            yield f"row {i}: {batch!r} in the batch excludes {alone!r}, or the other way round"
        return
    same = (alone.status, alone.certificate.claim) == (batch.status, batch.certificate.claim)
    if not same or not np.isclose(alone.cost, batch.cost, rtol=1e-6, atol=1e-9, equal_nan=True):
        yield f"row {i}: {batch!r} in the batch, {alone!r} alone and pickled"


QUICK, SLOW = range(1), range(1, 21)


@pytest.mark.further
@pytest.mark.parametrize(
    "seed", [*QUICK, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SLOW)]
)
@pytest.mark.parametrize("family", FACTORS["family"])
def test_nothing_that_is_claimed_is_wrong(family: str, seed: int):
    count = 3 if seed in QUICK else 6
    found = [
        f"{cell!r}: {sentence}"
        for cell in cells(seed)
        if cell.family == family
        for sentence in wrong(cell, count)
    ]
    assert not found, "\n".join(found)


# What is proved

PAGE = Path(__file__).parents[1] / "docs" / "matrix.md"
SHOWN = ("kind", "cost", "constraint", "target")
WORDS = ("proved", "reported", "local", "unproved")
"""From the best to the worst."""


def said_of(family: str, value: str) -> str:
    """What is claimed of the worst of a few rows."""
    cell = plain(family, value)
    if cell is None:
        return "–"
    question = Question(cell, 3)
    answers = question.explained(question.explainer)
    claims = {str(answer.certificate.claim) for answer in answers if answer.status != "invalid"}
    return WORDS[max(WORDS.index("unproved" if c == "none" else c) for c in claims)]


def line(family: str, factor: str) -> str:
    """The line of a family in the table of a factor, as it is now."""
    return " | ".join([f"| {family}", *(said_of(family, v) for v in FACTORS[factor])]) + " |"


@pytest.mark.further
@pytest.mark.parametrize("family", FACTORS["family"])
def test_what_is_proved_is_what_the_page_says(family: str):
    """A constraint, cost or kind of column that is no longer proved is seen, and so is one that is.

    The lines below are what the page should say.
    """
    now = [line(family, factor) for factor in SHOWN]
    said = [text for text in PAGE.read_text().splitlines() if text.startswith(f"| {family} |")]
    assert said == now, "\n".join(now)


@pytest.mark.parametrize("rule", sorted(map(sorted, REFUSED)), ids=" · ".join)
def test_what_is_refused_is_refused_in_a_sentence(rule: list[str]):
    """Each rule of what the matrix leaves out; what is no longer refused belongs into it."""
    where = {value: factor for factor, values in FACTORS.items() for value in values}
    chosen = {"family": "linear", **BASE} | {where[value]: value for value in rule}
    if {"pairs", "observed"} & {*rule}:
        chosen["kind"] = "categories"
    question = Question(Cell(0, **chosen), 4)
    with pytest.raises((cp.InvalidInput, cp.NoSolver)) as error:
        question.explained(question.explainer)
    assert str(error.value).endswith(".")


@pytest.mark.parametrize("cost", ["by MAD", "mahalanobis"])
def test_records_of_a_tradeoff_in_single_precision_check_again(cost: str):
    """Nothing is demanded, and the model's own probabilities are rounded all the same."""
    cell = Cell(
        20, "linear", "missing", cost, "free", "trade-off", dtype="float32", reach="extrapolate"
    )
    assert not [*wrong(cell)]


@pytest.mark.parametrize(
    "cell",
    [
        Cell(3, "bins", "missing", "by MAD", "immutable", "interval", "mixed", "within"),
        Cell(4, "bins", "continuous", "weights", "linear relation", "margin", "float32", "within"),
        Cell(2, "bins", "missing", "by MAD", "forbidden", "margin", "mixed", "extrapolate"),
    ],
    ids=lambda cell: cell.target + " " + cell.constraint,
)
def test_a_bound_holds_for_points_that_just_meet_the_target(cell: Cell):
    """An answer leads by what rounding may take; a cheaper point that does not is one all the same.

    What a search reports of points that lead was taken for what is true of all.
    """
    assert not [*wrong(cell)]


def test_a_point_that_meets_the_target_by_rounding_alone_refutes_no_proof():
    """A row of the data misses an end of the interval by less than float32 can tell.

    The row was returned as unproved, although it had an answer.
    """
    cell = Cell(
        9, "splines", "step 1", "by MAD", "same change", "interval", "float32", "extrapolate"
    )
    assert not [*wrong(cell)]


def test_what_is_moved_for_float32_is_not_moved_into_a_forbidden_combination():
    """A number at the border of a cell was moved off it; then nothing was found at all."""
    cell = Cell(
        6, "XGBoost", "categories", "percentiles", "forbidden", "label", "float32", "within"
    )
    assert not [*wrong(cell)]
