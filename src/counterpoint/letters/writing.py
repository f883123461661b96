"""Letters: rounded advice that the model confirms, and the principal reasons."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

import counterpoint as cp
from counterpoint.errors import EXPLAINER, InvalidInput, all_of, some
from counterpoint.letters.texts import Reason, Speech, Texts
from counterpoint.protected import opposite, targets_with_rows

__all__ = ["Letter", "letter", "write_letters"]


@final
@dataclass(frozen=True)
class Letter:
    """The letter about one row, and its parts; its ``str`` is the text.

    Parameters
    ----------
    status
        What became of the row.
    reasons
        At most four, the principal one first.
    values
        For each answer: name → the rounded value that is advised.
    sentences
        For each answer: name → a sentence about it.
    exact
        For each answer: the features whose values could not be rounded.
    text
        All of it.
    """

    status: cp.Status
    reasons: tuple[Reason, ...]
    values: tuple[dict[Hashable, Any], ...]
    sentences: tuple[dict[Hashable, str], ...]
    exact: tuple[tuple[Hashable, ...], ...]
    text: str

    def __str__(self) -> str:
        return self.text


def letter(
    explainer: cp.Explainer,
    answer: cp.Counterfactual | Sequence[cp.Counterfactual],
    texts: Texts | str | PathLike[str] | None = None,
    *,
    language: str = "en",
    protected: Iterable[Hashable] = (),
) -> Letter:
    """Write the letter about one row.

    Parameters
    ----------
    explainer
        What gave the answer.
    answer
        One answer, or several to the same row (``alternatives[i]``).
    texts, language, protected
        As for `write_letters`.
    """
    all_of(cp.Explainer, (explainer,), *EXPLAINER)
    several = [*all_of(cp.Counterfactual, answer, "an answer, or several to one row")]
    if not several or any(single.batch is not several[0].batch for single in several):
        raise InvalidInput(
            "Expected an answer, or several to one row; got none. Letters about rows without an "
            "answer are written by write_letters."
        )
    batch, first = several[0].batch, several[0].position
    rows = slice(first, several[-1].position + 1)
    row_answers = batch.part(rows, batch.table.take(rows))
    together = [[single.position - first for single in several]]
    return _letters(explainer, row_answers, together, Speech.of(texts, language), protected)[0]


def write_letters(
    explainer: cp.Explainer,
    answers: cp.Counterfactuals | cp.Alternatives,
    texts: Texts | str | PathLike[str] | None = None,
    *,
    language: str = "en",
    protected: Iterable[Hashable] = (),
) -> list[Letter]:
    """Write the letters about all rows.

    Numbers are rounded away from the factual value to the step of their feature. The rounded values
    are given to the model again and compared with the constraints; where they do not hold, the next
    step is tried, and then one number after the other; what cannot be rounded is given exactly.
    "At most" and "at least" are said where it is proved that the decision stays the same for all
    values beyond, within what the data show.

    The principal reasons are what the answer changes, by how much of the score is lost when one of
    its changes is undone. For a row without an answer they come from the answer that there would be
    if only `Immutable` and `WithinObserved` held.

    Parameters
    ----------
    explainer
        What gave the answers.
    answers
        What it gave: one answer to each row, or several.
    texts
        What to say of features and decisions: `Texts`, or a file of them; None for the names of
        columns and labels.
    language
        "en" or "de".
    protected
        Features that no letter may name; the explainer has to keep them `Immutable`.

    Raises
    ------
    InvalidInput
        If a feature that may change has no text, a text is about an unknown feature, a protected
        feature may change, or the target demands nothing (`Tradeoff`).
    """
    all_of(cp.Explainer, (explainer,), *EXPLAINER)
    all_of(cp.Counterfactuals | cp.Alternatives, (answers,), "the answers of an Explainer")
    speech = Speech.of(texts, language)
    if isinstance(answers, cp.Counterfactuals):
        return _letters(explainer, answers, [[i] for i in range(len(answers))], speech, protected)
    ends = np.cumsum(np.bincount(answers.row, minlength=len(answers)))
    groups = [g.tolist() for g in np.split(np.arange(len(answers.row)), ends[:-1])]
    return _letters(explainer, answers.answers, groups, speech, protected)


def _letters(
    explainer: cp.Explainer,
    answers: cp.Counterfactuals,
    groups: list[list[int]],
    speech: Speech,
    protected: Iterable[Hashable],
) -> list[Letter]:
    """A letter for each group of answers to one row."""
    _check(explainer, answers, speech.texts, protected)
    rounded, exact = _rounded(explainer, answers, speech.texts)
    beyond = _beyond(explainer, rounded)
    now = np.empty(len(answers), dtype=object)
    usable = np.array([i for i in range(len(answers)) if i not in answers.problems], dtype=np.intp)
    if len(usable):
        table = answers.table.select(answers.features.names).take(usable)
        now[usable] = explainer.reading.predict(table)
    reasons = _reasons(explainer, answers, [group[0] for group in groups], speech)
    statuses, out = answers.status, []
    for group in groups:
        i, status = group[0], statuses[group[0]]
        why = reasons.get(i, ())
        ways = [k for k in group if answers.found[k] and status is not cp.Status.ALREADY]
        changes = [rounded[k].changes for k in ways]
        unrounded = tuple(exact.get(k, ()) for k in ways)
        advice = [
            {n: speech.advice(rounded, k, n, exact=n in e, beyond=beyond[k]) for n in c}
            for k, c, e in zip(ways, changes, unrounded, strict=True)
        ]
        values = tuple({name: new for name, (_, new) in c.items()} for c in changes)
        text = speech.letter(answers, i, status, now[i], why, advice)
        out.append(Letter(status, why, values, tuple(advice), unrounded, text))
    return out


def _check(
    explainer: cp.Explainer,
    answers: cp.Counterfactuals,
    texts: Texts,
    protected: Iterable[Hashable],
) -> None:
    """Raise if texts, protected features or targets do not fit."""
    features, protected = answers.features, [*protected]
    immutable = (c for c in answers.query.constraints if isinstance(c, cp.Immutable))
    fixed = {name for constraint in immutable for name in constraint.features}
    if features.names != explainer.features.names:
        raise InvalidInput("Expected the explainer that gave these answers; got another one.")
    for name in (*protected, *(texts.features or ())):
        features.index(name)  # an unknown name is an error that lists near ones
    free = [name for name in protected if name not in fixed]
    if free:
        raise InvalidInput(
            f"Expected protected features that no answer can change; got {some(free)}. Pass "
            f"constraints=[cp.Immutable({', '.join(map(repr, free))}), …] to the Explainer."
        )
    silent = [n for n in features.names if n not in (*(texts.features or features.names), *fixed)]
    if silent:
        raise InvalidInput(
            "Expected a text for every feature that may change; there is none for "
            f"{some(silent)}. Add it, or make the feature Immutable."
        )
    if not all(target.demanding for target, _ in targets_with_rows(answers)):
        raise InvalidInput(
            "A Tradeoff demands no decision that a letter could be about; explain with a Label or "
            "a Probability."
        )


# Advice


def _rounded(
    explainer: cp.Explainer, answers: cp.Counterfactuals, texts: Texts
) -> tuple[cp.Counterfactuals, dict[int, tuple[Hashable, ...]]]:
    """Round the numbers of answers; return also the features of rows that stay exact."""
    before, after = answers.before, answers.after
    exponent = np.zeros(after.shape)  # of ten: the second digit of each change
    np.log10(np.abs(after - before), out=exponent, where=answers.changed)
    steps = 10.0 ** (np.floor(exponent) - 1.0)
    for column, feature in zip(steps.T, answers.features, strict=True):
        step = texts.of(feature.name).step
        if isinstance(feature, cp.Categorical) or (
            step is None and isinstance(feature, cp.Integer)
        ):
            column[:] = 0.0
        elif step is not None:
            column[:] = step
    open_, best, up = answers.changed & (steps > 0), after.copy(), after > before

    def attempt(cells: NDArray[np.bool_], further: int) -> None:
        """Take the next multiples for some cells, in the rows in which that is valid."""
        rows = np.flatnonzero(cells.any(axis=1))
        trial = np.where(cells, _outward(after, steps, up, further), best)
        valid = rows[_holds(explainer, answers, trial, rows)]
        best[valid] = trial[valid]
        open_[valid] &= ~cells[valid]

    for further in (0, 1):
        attempt(open_, further)
    for j in np.flatnonzero(open_.any(axis=0)):  # what does not go together goes one by one
        for further in (0, 1):
            attempt(open_ & (np.arange(after.shape[1]) == j), further)
    names, open_rows = answers.features.names, np.flatnonzero(open_.any(axis=1)).tolist()
    return replace(answers, after=best), {
        i: tuple(names[j] for j in np.flatnonzero(open_[i])) for i in open_rows
    }


def _outward(
    values: NDArray[Any], steps: NDArray[Any], up: NDArray[np.bool_], further: int
) -> NDArray[Any]:
    """(n, p) the next multiples of steps away from factual values, or one step further."""
    safe = np.where(steps > 0, steps, 1.0)
    slack = 1e-6  # of a step: an optimum lies by rounding errors beyond the multiple it is at
    sign = np.where(up, 1.0, -1.0)
    units = sign * (np.ceil(sign * values / safe - slack) + further)
    scale = 10.0 ** np.maximum(0.0, 3.0 - np.floor(np.log10(safe)))  # 0.3, and not 3 * 0.1
    return np.rint(units * safe * scale) / scale


def _holds(
    explainer: cp.Explainer,
    answers: cp.Counterfactuals,
    codes: NDArray[Any],
    rows: NDArray[np.intp],
) -> NDArray[np.bool_]:
    """(m,): whether (n, p) codes are answers for some rows, by constraints and by the model."""
    features, query = answers.features, answers.query
    out = np.zeros(len(answers), dtype=bool)
    moved = replace(answers, after=codes).decoded(slice(None)).select(features.names)
    for target, mine in targets_with_rows(answers):
        at = np.intersect1d(mine, rows)
        if len(at):
            x, y = (features.expand(c[at]) for c in (answers.before, codes))
            predicted = target.said(explainer.reading, moved.take(at))
            verdict = target.verdict(query.model.form, y, predicted, query.eps)
            within = query.actionable.violation(y, x) <= answers.certificates.resolution
            out[at] = verdict.leads & within
    return out[rows]


def _beyond(explainer: cp.Explainer, rounded: cp.Counterfactuals) -> NDArray[np.bool_]:
    """(n,): whether it is proved that the decision is the same for all numbers beyond the advice.

    Any other decision is searched for from there, for all rows that move in the same directions at
    once: first with all features free that move in one direction only, whatever the row.
    """
    features = rounded.features
    signs = np.sign(rounded.after - rounded.before) * rounded.changed * features.is_numeric
    rows = rounded.decoded(slice(None)).select(features.names)
    up, down = (signs > 0).any(axis=0), (signs < 0).any(axis=0)
    out = np.zeros(len(rounded), dtype=bool)
    for target, mine in targets_with_rows(rounded):
        other = opposite(target, explainer)
        for moves in (np.where(up & down, signs, 1.0 * up - down), signs):
            unproved = mine[signs[mine].any(axis=1) & ~out[mine] & (other is not None)]
            ways, which = np.unique(moves[unproved], axis=0, return_inverse=True)
            for w, way in enumerate(ways):
                asker = _explainer(explainer, features, [*_moving(features, way)])
                at = unproved[np.ravel(which) == w]
                answers = asker.explain(rows.take(at).native, other, progress=False)
                proved = answers.certificates.claim == cp.Claim.PROVED
                out[at] = proved & (answers.status == cp.Status.INFEASIBLE)
    return out


def _moving(features: cp.Features, way: NDArray[Any]) -> Iterator[cp.Constraint]:
    """Yield constraints: features only rise (1), only fall (-1), within their data, or stay (0)."""
    for feature, sign in zip(features, way.tolist(), strict=True):
        if not sign:
            yield cp.Immutable(feature.name)
            continue
        yield cp.Monotone(feature.name, "increasing" if sign > 0 else "decreasing")
        if feature.observed is not None:
            yield cp.WithinObserved(feature.name)


def _explainer(
    explainer: cp.Explainer, features: cp.Features, constraints: Sequence[cp.Constraint]
) -> cp.Explainer:
    return cp.Explainer(
        explainer.model, features=[*features], cost=explainer.cost, constraints=constraints
    )


# Reasons


def _reasons(
    explainer: cp.Explainer, answers: cp.Counterfactuals, rows: Sequence[int], speech: Speech
) -> dict[int, tuple[Reason, ...]]:
    """Return the reasons of rows with an answer, or with one under fewer constraints."""
    out = {i: _ordered(answers, i, speech) for i in rows if answers.found[i]}
    unanswered = {*rows} - {*out} - {*answers.problems}
    for target, mine in targets_with_rows(answers):
        at = np.array([i for i in mine.tolist() if i in unanswered], dtype=np.intp)
        if not len(at):
            continue
        constraints = answers.query.constraints
        fewer = [c for c in constraints if isinstance(c, cp.Immutable | cp.WithinObserved)]
        relaxed = _explainer(explainer, answers.features, fewer)
        rows = answers.table.select(answers.features.names).take(at).native
        relaxed_answers = relaxed.explain(rows, target, progress=False)
        answered = np.flatnonzero(relaxed_answers.found).tolist()
        out |= {int(at[k]): _ordered(relaxed_answers, k, speech) for k in answered}
    return out


def _ordered(answers: cp.Counterfactuals, i: int, speech: Speech) -> tuple[Reason, ...]:
    """Return at most four changed features, by the score that is lost when each is undone."""
    form, features, target = answers.query.model.form, answers.features, answers.targets[i]
    if (
        target.requirement.promise is not cp.Guarantee.NONE
    ):  # under noise: by the weights as they are known
        target = cp.Label(target.requirement.labels)
    moved = np.flatnonzero(answers.changed[i])
    codes = np.repeat(answers.after[i : i + 1], len(moved) + 1, axis=0)
    codes[np.arange(len(moved)), moved] = answers.before[i, moved]
    margins = np.asarray(form.margin(features.expand(codes), target))
    loss = np.maximum(margins[-1] - margins[:-1], 0.0)
    counts = moved[loss > 0] if (loss > 0).any() else moved
    share = np.zeros(len(features))
    share[moved] = loss / (loss.sum() or 1.0)
    order = sorted(counts.tolist(), key=lambda j: float(-share[j]))[:4]
    return tuple(speech.reason(answers, i, j, float(share[j])) for j in order)
