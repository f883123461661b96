"""Write letters: the model's decision, the principal reasons, and ways to another decision."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, final

import numpy as np

import counterpoint as cp
from counterpoint.errors import EXPLAINER, InvalidInput, all_of, some
from counterpoint.letters.advice import asking_under, holds_beyond, rounded_answers
from counterpoint.letters.layout import (
    SUPPLIED,
    Part,
    checked_parts,
    html_of,
    template_of,
    text_of,
)
from counterpoint.letters.speech import Reason, Speech
from counterpoint.letters.texts import Texts, check_words
from counterpoint.protected import influence, protected_features, targets_with_rows

Supplied = Mapping[str, str | Sequence[str]]
"""Parts of letters that a caller supplies: one text for all letters, or one for each."""


@final
@dataclass(frozen=True)
class Letter:
    """The letter about one row, and its parts; its ``str`` is the text.

    Parameters
    ----------
    status
        The status of the answers to the row.
    reasons
        At most four, the principal one first.
    values
        For each answer: name → the rounded value that is advised.
    sentences
        For each answer: name → a sentence about it.
    exact
        For each answer: the features whose values could not be rounded to their step, or at all.
    parts
        Name → paragraphs, in the order of the letter.
    text
        The whole letter; with a template, what that makes of the parts.
    language
        The code of the language, such as "en".
    """

    status: cp.Status
    reasons: tuple[Reason, ...]
    values: tuple[dict[Hashable, Any], ...]
    sentences: tuple[dict[Hashable, str], ...]
    exact: tuple[tuple[Hashable, ...], ...]
    parts: dict[str, tuple[Part, ...]]
    text: str
    language: str

    def __str__(self) -> str:
        return self.text

    @property
    def html(self) -> str:
        """The parts as a page of HTML that stands alone, whatever the template."""
        return html_of(self.parts, self.language)


def letter(  # noqa: PLR0913 (as `write_letters`)
    explainer: cp.Explainer,
    answer: cp.Counterfactual | Sequence[cp.Counterfactual],
    texts: Texts | str | PathLike[str] | None = None,
    *,
    language: str | PathLike[str] = "en",
    protected: Iterable[Hashable] = (),
    parts: Mapping[str, str] | None = None,
    template: str | PathLike[str] | None = None,
) -> Letter:
    """Write the letter about one row.

    Parameters
    ----------
    explainer
        What gave the answer.
    answer
        One answer, or several to the same row (``alternatives[i]``).
    texts, language, protected, parts, template
        As for `write_letters`.
    """
    all_of(cp.Explainer, (explainer,), *EXPLAINER)
    several = [*all_of(cp.Counterfactual, answer, "an answer, or several to one row")]
    if not several:
        raise InvalidInput(
            "Expected an answer, or several to one row; got none. Letters about rows without an "
            "answer are written by write_letters."
        )
    batch, positions = several[0].batch, [single.position for single in several]
    if any(single.batch is not batch for single in several) or not _is_one_row(batch, positions):
        raise InvalidInput(
            "Expected an answer, or several to one row, such as alternatives[i]; got answers to "
            "different rows. Write a letter for each, or call write_letters."
        )
    first = min(positions)
    rows = slice(first, max(positions) + 1)
    group = [position - first for position in positions]
    row_answers = batch.part(rows, batch.table.take(rows))
    speech = Speech.of(texts, language)
    return _letters(
        explainer, row_answers, [group], speech, protected, parts=parts, template=template
    )[0]


def _is_one_row(answers: cp.Counterfactuals, positions: Sequence[int]) -> bool:
    """Return whether the answers at these positions are about one row: its cells, label, target.

    Several answers to a row have a copy of it each.
    """
    table, target = answers.table, answers.targets[positions[0]]
    index = np.array(positions)
    labels = table.labels_of(index).tolist() if table.is_pandas else [None] * len(index)
    # as text, since missing cells are not equal to themselves
    rows = {
        repr((label, table.row(i, table.names))) for label, i in zip(labels, positions, strict=True)
    }
    return len(rows) == 1 and all(answers.targets[i] == target for i in positions)


def write_letters(  # noqa: PLR0913 (options have names)
    explainer: cp.Explainer,
    answers: cp.Counterfactuals | cp.Alternatives,
    texts: Texts | str | PathLike[str] | None = None,
    *,
    language: str | PathLike[str] = "en",
    protected: Iterable[Hashable] = (),
    parts: Supplied | None = None,
    template: str | PathLike[str] | None = None,
) -> list[Letter]:
    """Write the letters about all rows.

    Numbers are rounded by `Counterfactuals.rounded`, to the step of their feature or to three
    digits, on the side on which the model still agrees. Where no such numbers are an answer, the
    step of one feature is given up, and then those of all; the letter says which numbers cannot be
    rounded further.
    "At most" and "at least" are said where it is proved that the decision stays the same for all
    values beyond, within what the data show.

    The principal reasons are what the answer changes, by how much of the score is lost when one of
    its changes is undone. For a row without an answer they come from the answer that there would be
    if only `Immutable` and `WithinObserved` held.

    Where the score of a row that misses the target depends on protected columns, the letter says
    so, by `counterpoint.protected.influence`.

    Parameters
    ----------
    explainer
        What gave the answers.
    answers
        What it gave: one answer to each row, or several.
    texts
        What to say of features and decisions: `Texts`, or a file of them; None for the names of
        columns and labels, if these are words.
    language
        "en" or "de", or a ``.toml`` file that words all that theirs do.
    protected
        Features that must not decide, besides those of ``Immutable(..., protected=True)``. The
        explainer has to keep them `Immutable`, and to have data.
    parts
        Parts of the letter by name: ``creditor``, ``recipient``, ``date``, ``reference``,
        ``salutation``, ``rights`` and ``signature``; one text for all letters, or one for each.
        They come before those of the texts. What is not supplied is left out, but for ``rights``,
        which then says only that rights are not limited.
    template
        A layout of your own, in Jinja2: a path, or the text. It has all parts, and ``decision``,
        ``reasons`` (each with ``code``, ``text``, ``feature``, ``share``), ``protected``,
        ``outcome``, ``ways`` (a list of sentences each), ``checked``, ``status``, ``target``. It
        runs in a sandbox, and a name that is not known is an error.

    Raises
    ------
    InvalidInput
        If a feature that may change, one of its values or a decision has no words, a text is about
        an unknown feature, a protected feature may change, the target demands nothing
        (`Tradeoff`), or a template cannot be filled in.
    MissingExtra
        If a template is passed and Jinja2 is not installed.
    """
    all_of(cp.Explainer, (explainer,), *EXPLAINER)
    all_of(cp.Counterfactuals | cp.Alternatives, (answers,), "the answers of an Explainer")
    if isinstance(answers, cp.Counterfactuals):
        single_answers, groups = answers, [[i] for i in range(len(answers))]
    else:  # the answers to a row follow one another
        ends = np.cumsum(np.bincount(answers.row, minlength=len(answers)))
        groups = [group.tolist() for group in np.split(np.arange(len(answers.row)), ends[:-1])]
        single_answers = answers.answers
    speech = Speech.of(texts, language)
    return _letters(
        explainer, single_answers, groups, speech, protected, parts=parts, template=template
    )


def _letters(  # noqa: PLR0913 (as `write_letters`)
    explainer: cp.Explainer,
    answers: cp.Counterfactuals,
    groups: list[list[int]],
    speech: Speech,
    protected: Iterable[Hashable],
    *,
    parts: Supplied | None,
    template: str | PathLike[str] | None,
) -> list[Letter]:
    """Write a letter for each group of answers to one row; a group holds their positions."""
    fill_in = None if template is None else template_of(template)
    names = (*dict.fromkeys([*protected_features(explainer), *protected]),)
    _check(explainer, answers, speech.texts, names)
    expected = SUPPLIED if fill_in is None else None
    constant = checked_parts(speech.texts.parts, len(groups), expected)
    supplied = checked_parts(parts, len(groups), expected)
    rounded, unrounded = rounded_answers(explainer, answers, speech.texts)
    beyond = holds_beyond(explainer, rounded)
    rows = [group[0] for group in groups]  # the position of the first answer stands for its row
    predictions = _predictions(explainer, answers)
    reasons = _reasons(explainer, answers, rows, speech)
    statuses, letters = answers.status, []
    refused = [i for i in rows if statuses[i] not in (cp.Status.ALREADY, cp.Status.INVALID)]
    effect = influence(explainer, answers, names, rows=refused) if names and refused else None
    for k, (i, group) in enumerate(zip(rows, groups, strict=True)):
        status, row_reasons = statuses[i], reasons.get(i, ())
        ways = [way for way in group if answers.found[way] and status is not cp.Status.ALREADY]
        changes = [rounded[way].changes for way in ways]
        exact = tuple(unrounded.get(way, ()) for way in ways)
        advice = tuple(
            {
                name: speech.advice(rounded, way, name, exact=name in kept, beyond=beyond[way])
                for name in changed
            }
            for way, changed, kept in zip(ways, changes, exact, strict=True)
        )
        values = tuple({name: new for name, (_, new) in changed.items()} for changed in changes)
        body = _body(speech, answers, i, predictions[i], row_reasons, advice)
        if effect is not None and i in refused:
            body["protected"] = (Part(speech.protected(effect, i, answers.targets[i])),)
        # parts that were passed replace those of the texts, and these those of the language
        frame = {"rights": speech.words["rights"]} | constant[k] | supplied[k]
        letter_parts = _ordered_parts(speech, status, body, frame)
        text = text_of(letter_parts)
        if fill_in is not None and status is not cp.Status.INVALID:
            target = speech.said_of("result", answers.targets[i])
            text = fill_in(_template_values(body, frame, row_reasons, advice, str(status), target))
        code = speech.language
        letters.append(Letter(status, row_reasons, values, advice, exact, letter_parts, text, code))
    return letters


def _predictions(explainer: cp.Explainer, answers: cp.Counterfactuals) -> Any:
    """Return what the model predicts for each row, shape (n,); None for one that it cannot take."""
    predictions = np.empty(len(answers), dtype=object)
    usable = np.array([i for i in range(len(answers)) if i not in answers.problems], dtype=np.intp)
    if len(usable):
        table = answers.table.select(answers.features.names).take(usable)
        predictions[usable] = explainer.reading.predict(table)
    return predictions


def _check(
    explainer: cp.Explainer,
    answers: cp.Counterfactuals,
    texts: Texts,
    protected: Sequence[Hashable],
) -> None:
    """Raise if the answers, texts, protected features or targets do not fit the explainer."""
    features = answers.features
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
    check_words(explainer, texts, [n for n in features.names if n not in fixed], protected)


# Parts


def _body(
    speech: Speech,
    answers: cp.Counterfactuals,
    i: int,
    prediction: Any,
    reasons: Sequence[Reason],
    ways: Sequence[Mapping[Hashable, str]],
) -> dict[str, tuple[Part, ...]]:
    """Write the paragraphs of a letter on row i: decision, reasons, and ways to another decision.

    ``prediction`` is the model's for the row. Each of the ``ways`` has a sentence of advice for
    each feature that it changes; there is none if the search gave no answer. Texts are those of
    the language, by their keys in its file.
    """
    words, status, target = speech.words, answers.status[i], answers.targets[i]
    if status is cp.Status.INVALID:
        return {"decision": (Part(words["invalid"].format(message=answers.message(i))),)}
    if status is cp.Status.ALREADY:
        return {"decision": (Part(speech.said_of("already", target)),)}
    decision_key = "now_value" if answers.query.model.form.has_values else "now"
    reasons_key = ("reasons" if ways else "reasons_without") if reasons else "no_reasons"
    clause, n = speech.said_of("clause", target), len(ways)
    reason_lines = tuple(f"{reason.code} {reason.text}".strip() for reason in reasons)
    body: dict[str, tuple[Part, ...]] = {
        "decision": (Part(words[decision_key].format(now=speech.decision(prediction))),),
        "reasons": (Part(words[reasons_key].format(clause=clause), reason_lines, numbered=True),),
    }
    if not ways:
        outcome_key = "infeasible" if status is cp.Status.INFEASIBLE else "unsettled"
        return body | {"ways": (Part(words[outcome_key].format(clause=clause)),)}
    # several ways; or one way, of several changes or of one
    outcome_key = "ways" if n > 1 else "several" if len(ways[0]) > 1 else "one"
    outcome = words[outcome_key].format(result=speech.said_of("result", target), n=n)
    advice = [tuple(way.values()) for way in ways]
    if n == 1:
        body["ways"] = (Part(outcome, advice[0]),)
    else:
        titles = (words["way"].format(k=k) for k in range(1, n + 1))
        body["ways"] = (Part(outcome), *map(Part, titles, advice))
    return body | {"checked": (Part(words["checked"]),)}


def _ordered_parts(
    speech: Speech,
    status: cp.Status,
    body: dict[str, tuple[Part, ...]],
    frame: Mapping[str, str],
) -> dict[str, tuple[Part, ...]]:
    """Return the parts of a letter that are not empty, in the order of the language's layout.

    ``frame`` holds the texts around its body.
    """
    if status is cp.Status.INVALID:  # an error in the row, and no letter to a person
        return body
    parts = {name: (Part(text),) for name, text in frame.items()} | body
    return {
        name: parts[name]
        for name in speech.words["layout"]
        if name in parts and any(parts[name][0])
    }


def _template_values(
    body: Mapping[str, tuple[Part, ...]],
    frame: Mapping[str, str],
    reasons: Sequence[Reason],
    ways: Sequence[Mapping[Hashable, str]],
    status: str,
    target: str,
) -> dict[str, Any]:
    """Return the values that a template may name."""
    keys = {
        "decision": "decision",
        "protected": "protected",
        "outcome": "ways",
        "checked": "checked",
    }
    texts = {name: body[key][0].text if key in body else "" for name, key in keys.items()}
    return {
        **frame,
        **texts,
        "reasons": [reason._asdict() for reason in reasons],
        "ways": [[*way.values()] for way in ways],
        "status": status,
        "target": target,
    }


# Reasons


def _reasons(
    explainer: cp.Explainer, answers: cp.Counterfactuals, rows: Sequence[int], speech: Speech
) -> dict[int, tuple[Reason, ...]]:
    """Return the reasons of rows, row → the features that its answer changes.

    A row without an answer gets those of an answer that only keeps immutable features, and others
    within the data, if the query says so; it has none if there is no such answer either.
    """
    reasons = {i: _principal_reasons(answers, i, speech) for i in rows if answers.found[i]}
    unanswered = {*rows} - {*reasons} - {*answers.problems}
    constraints = answers.query.constraints
    fewer = [c for c in constraints if isinstance(c, cp.Immutable | cp.WithinObserved)]
    for target, target_rows in targets_with_rows(answers):
        index = np.array([i for i in target_rows.tolist() if i in unanswered], dtype=np.intp)
        if not len(index):
            continue
        relaxed = asking_under(explainer, answers.features, fewer)
        X = answers.table.select(answers.features.names).take(index).native
        relaxed_answers = relaxed.explain(X, target, progress=False)
        for k in np.flatnonzero(relaxed_answers.found).tolist():
            reasons[int(index[k])] = _principal_reasons(relaxed_answers, k, speech)
    return reasons


def _principal_reasons(answers: cp.Counterfactuals, i: int, speech: Speech) -> tuple[Reason, ...]:
    """Return at most four changed features, by the score that is lost when each is undone."""
    form, features, target = answers.query.model.form, answers.features, answers.targets[i]
    if target.requirement.promise is not cp.Guarantee.NONE:
        # under noise: by the weights as they are known
        target = cp.Label(target.requirement.labels)
    changed = np.flatnonzero(answers.changed[i])
    # the answer with each change undone, and at the end as it is
    codes = np.repeat(answers.after[i : i + 1], len(changed) + 1, axis=0)
    codes[np.arange(len(changed)), changed] = answers.before[i, changed]
    margins = np.asarray(form.margin(features.expand(codes), target))
    loss = np.maximum(margins[-1] - margins[:-1], 0.0)
    share = np.zeros(len(features))
    share[changed] = loss / (loss.sum() or 1.0)
    # changes without a loss are reasons only where no change has one
    reasons = changed[loss > 0] if (loss > 0).any() else changed
    order = sorted(reasons.tolist(), key=lambda j: float(-share[j]))[:4]
    return tuple(speech.reason(answers, i, j, float(share[j])) for j in order)
