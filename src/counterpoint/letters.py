"""Letters: principal reasons and rounded advice in sentences, re-checked by the model."""

from __future__ import annotations

import tomllib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

import counterpoint as cp
from counterpoint.errors import InvalidInput, is_number, shown, some

__all__ = ["Letter", "Reason", "Texts", "Wording", "letter", "write_letters"]


def _check_names(what: str, names: object) -> None:
    if not isinstance(names, Mapping) or not all(isinstance(n, str) for n in names.values()):
        raise InvalidInput(f"Expected {what} as a table from text to text; got {shown(names)}.")


@final
@dataclass(frozen=True, kw_only=True)
class Wording:
    """How letters speak of a feature.

    Parameters
    ----------
    name
        What it is called; "" for the name of the column.
    code, reason
        Code and text of the principal reason; "" for a text that says whether it is too high or too
        low.
    unit
        What follows a number, such as ``"%"`` or ``"EUR"``.
    step
        Advice is rounded to multiples of this, in feature units; None for two digits of the change,
        and for an `Integer` feature its own steps.
    scale
        A number is shown so many times as large: 100 for a share in per cent.
    decimals
        How many are shown at least; factual values are rounded to so many.
    values
        What to call the values of a category: the value as text → its name.
    """

    name: str = ""
    code: str = ""
    reason: str = ""
    unit: str = ""
    step: float | None = None
    scale: float = 1.0
    decimals: int | None = None
    values: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what in ("name", "code", "reason", "unit"):
            if not isinstance(getattr(self, what), str):
                raise InvalidInput(f"Expected text as {what}; got {shown(getattr(self, what))}.")
        for what in ("step", "scale"):
            value = getattr(self, what)
            if value is not None and not (is_number(value) and 0 < value < np.inf):
                raise InvalidInput(f"Expected a positive {what}; got {shown(value)}.")
        if self.decimals not in (None, *range(13)):
            raise InvalidInput(
                f"Expected a number of decimals from 0 to 12; got {shown(self.decimals)}."
            )
        _check_names("values", self.values)


UNSAID = Wording()


@final
@dataclass(frozen=True)
class Texts:
    """What letters say of features and of decisions.

    Parameters
    ----------
    features
        Name → `Wording`, one for every feature that an answer may change; empty for the names of
        columns.
    decisions
        What to call the model's labels: the label as text → its name.
    """

    features: Mapping[Hashable, Wording] = field(default_factory=dict)
    decisions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(isinstance(one, Wording) for one in self.features.values()):
            raise InvalidInput(f"Expected a Wording for each feature; got {shown(self.features)}.")
        _check_names("decisions", self.decisions)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Texts:
        """Read a TOML file: a table ``[features.NAME]`` for each, with the fields of a `Wording`.

        Raises
        ------
        InvalidInput
            If it says something else; the message names the file and the place.
        OSError
            If there is no such file.
        """
        path, known = Path(path), sorted(one.name for one in fields(Wording))
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InvalidInput(f"{path.name} is not TOML: {error}.") from error
        features, decisions = table.pop("features", {}), table.pop("decisions", {})
        if table or not isinstance(features, dict):
            raise InvalidInput(
                f"{path.name}: expected tables [features.NAME] and [decisions]; got "
                f"{shown(table or features)}."
            )
        out = {}
        for name, one in features.items():
            place = f"{path.name}, features, {name}"
            if not isinstance(one, dict) or {*one} - {*known}:
                raise InvalidInput(f"{place}: expected {some(known, 12, str)}; got {shown(one)}.")
            try:
                out[name] = Wording(**one)
            except InvalidInput as error:
                raise InvalidInput(f"{place}: {error}") from error
        return cls(out, decisions)

    def of(self, name: Hashable) -> Wording:
        """What is said of a feature."""
        return self.features.get(name, UNSAID)


@final
class Reason(NamedTuple):
    """A principal reason for a decision.

    Parameters
    ----------
    feature, code, text
        What it is about, and what `Texts` say of it.
    share
        The part of the score that is missing without this change, of all changes of the answer.
    """

    feature: Hashable
    code: str
    text: str
    share: float


@final
@dataclass(frozen=True)
class Letter:
    """What is told about one row; its ``str`` is the letter.

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
    """The letter about one row.

    Parameters
    ----------
    explainer
        What gave the answer.
    answer
        One answer, or several to the same row (``alternatives[i]``).
    texts, language, protected
        As for `write_letters`.
    """
    several = [answer] if isinstance(answer, cp.Counterfactual) else [*answer]
    if not several or any(one.batch is not several[0].batch for one in several):
        raise InvalidInput(
            "Expected an answer, or several to one row; got none. Letters about rows without an "
            "answer are written by write_letters."
        )
    batch, first = several[0].batch, several[0].position
    rows = slice(first, several[-1].position + 1)
    part = batch.part(rows, batch.table.take(rows))
    together = [[one.position - first for one in several]]
    return _letters(explainer, part, together, _Speech.of(texts, language), protected)[0]


def write_letters(
    explainer: cp.Explainer,
    answers: cp.Counterfactuals | cp.Alternatives,
    texts: Texts | str | PathLike[str] | None = None,
    *,
    language: str = "en",
    protected: Iterable[Hashable] = (),
) -> list[Letter]:
    """The letters about all rows.

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
    speech = _Speech.of(texts, language)
    if isinstance(answers, cp.Counterfactuals):
        return _letters(explainer, answers, [[i] for i in range(len(answers))], speech, protected)
    ends = np.cumsum(np.bincount(answers.row, minlength=len(answers)))
    groups = [g.tolist() for g in np.split(np.arange(len(answers.row)), ends[:-1])]
    return _letters(explainer, answers.answers, groups, speech, protected)


def _letters(
    explainer: cp.Explainer,
    answers: cp.Counterfactuals,
    groups: list[list[int]],
    speech: _Speech,
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
        kept = tuple(exact.get(k, ()) for k in ways)
        told = [
            {n: speech.advice(rounded, k, n, exact=n in e, beyond=beyond[k]) for n in c}
            for k, c, e in zip(ways, changes, kept, strict=True)
        ]
        values = tuple({name: new for name, (_, new) in c.items()} for c in changes)
        text = speech.letter(answers, i, status, now[i], why, told)
        out.append(Letter(status, why, values, tuple(told), kept, text))
    return out


def _check(
    explainer: cp.Explainer,
    answers: cp.Counterfactuals,
    texts: Texts,
    protected: Iterable[Hashable],
) -> None:
    """Raise if texts, protected features or targets do not fit."""
    features, protected = answers.features, [*protected]
    immutable = (c for c in answers.question.constraints if isinstance(c, cp.Immutable))
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
    if not all(target.demanding for target, _ in _by_target(answers)):
        raise InvalidInput(
            "A Tradeoff demands no decision that a letter could be about; explain with a Label or "
            "a Probability."
        )


def _by_target(answers: cp.Counterfactuals) -> list[tuple[cp.Target, NDArray[np.intp]]]:
    """Each target, and the positions of its rows."""
    targets = answers.targets.tolist()
    distinct = {id(target): target for target in targets}
    which = np.array([id(target) for target in targets])
    return [(target, np.flatnonzero(which == key)) for key, target in distinct.items()]


# Advice


def _rounded(
    explainer: cp.Explainer, answers: cp.Counterfactuals, texts: Texts
) -> tuple[cp.Counterfactuals, dict[int, tuple[Hashable, ...]]]:
    """The answers with rounded numbers, and by row the features whose numbers could not be."""
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
        kept = rows[_holds(explainer, answers, trial, rows)]
        best[kept] = trial[kept]
        open_[kept] &= ~cells[kept]

    for further in (0, 1):
        attempt(open_, further)
    for j in np.flatnonzero(open_.any(axis=0)):  # what does not go together goes one by one
        for further in (0, 1):
            attempt(open_ & (np.arange(after.shape[1]) == j), further)
    names, left = answers.features.names, np.flatnonzero(open_.any(axis=1)).tolist()
    return replace(answers, after=best), {
        i: tuple(names[j] for j in np.flatnonzero(open_[i])) for i in left
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
    features, question = answers.features, answers.question
    out = np.zeros(len(answers), dtype=bool)
    moved = replace(answers, after=codes).decoded(slice(None)).select(features.names)
    for target, mine in _by_target(answers):
        at = np.intersect1d(mine, rows)
        if len(at):
            x, y = (features.expand(c[at]) for c in (answers.before, codes))
            said = target.said(explainer.reading, moved.take(at))
            verdict = target.verdict(explainer.reading.form, y, said, answers.eps)
            within = question.actionable.violation(y, x) <= answers.certificates.resolution
            out[at] = verdict.leads & within
    return out[rows]


def _beyond(explainer: cp.Explainer, rounded: cp.Counterfactuals) -> NDArray[np.bool_]:
    """(n,): whether it is proved that the decision is the same for all numbers beyond the advice.

    Any other decision is asked for from there, of all rows that move in the same directions at
    once: first with all features free that move in one direction only, whatever the row.
    """
    features = rounded.features
    signs = np.sign(rounded.after - rounded.before) * rounded.changed * features.is_numeric
    rows = rounded.decoded(slice(None)).select(features.names)
    up, down = (signs > 0).any(axis=0), (signs < 0).any(axis=0)
    out = np.zeros(len(rounded), dtype=bool)
    for target, mine in _by_target(rounded):
        other = _opposite(target, explainer)
        for moves in (np.where(up & down, signs, 1.0 * up - down), signs):
            left = mine[signs[mine].any(axis=1) & ~out[mine] & (other is not None)]
            ways, which = np.unique(moves[left], axis=0, return_inverse=True)
            for w, way in enumerate(ways):
                asked = _explainer(explainer, features, [*_moving(features, way)])
                at = left[np.ravel(which) == w]
                found = asked.explain(rows.take(at).native, other, progress=False)
                proved = found.certificates.claim == cp.Claim.PROVED
                out[at] = proved & (found.status == cp.Status.INFEASIBLE)
    return out


def _moving(features: cp.Features, way: NDArray[Any]) -> Iterator[cp.Constraint]:
    """That features only rise (1) or fall (-1), within what was observed, and others stay (0)."""
    for feature, sign in zip(features, way.tolist(), strict=True):
        if not sign:
            yield cp.Immutable(feature.name)
            continue
        yield cp.Monotone(feature.name, "increasing" if sign > 0 else "decreasing")
        if feature.observed is not None:
            yield cp.WithinObserved(feature.name)


def _opposite(target: cp.Target, explainer: cp.Explainer) -> cp.Target | None:
    """A target that holds where this one does not; None if there is no such."""
    match target:
        case cp.Label():
            return cp.OtherLabel(target.labels)
        case cp.OtherLabel():
            return cp.Label(target.labels)
        case cp.Probability() if len(explainer.reading.classes) == 2:
            (other,) = {*explainer.reading.classes.tolist()} - {target.label}
            return cp.Probability(other, 1.0 - target.at_least)
        case cp.Interval() if np.isinf(target.high):
            return cp.Interval(high=target.low)
        case cp.Interval() if np.isinf(target.low):
            return cp.Interval(low=target.high)
    return None


def _explainer(
    explainer: cp.Explainer, features: cp.Features, constraints: Sequence[cp.Constraint]
) -> cp.Explainer:
    """The same question under other constraints."""
    return cp.Explainer(
        explainer.model, features=[*features], cost=explainer.cost, constraints=constraints
    )


# Reasons


def _reasons(
    explainer: cp.Explainer, answers: cp.Counterfactuals, rows: Sequence[int], speech: _Speech
) -> dict[int, tuple[Reason, ...]]:
    """The principal reasons of rows that have an answer, or would have one under fewer rules."""
    out = {i: _ordered(answers, i, speech) for i in rows if answers.found[i]}
    left = {*rows} - {*out} - {*answers.problems}
    for target, mine in _by_target(answers):
        at = np.array([i for i in mine.tolist() if i in left], dtype=np.intp)
        if not len(at):
            continue
        kept = answers.question.constraints
        fewer = [c for c in kept if isinstance(c, cp.Immutable | cp.WithinObserved)]
        relaxed = _explainer(explainer, answers.features, fewer)
        rows = answers.table.select(answers.features.names).take(at).native
        others = relaxed.explain(rows, target, progress=False)
        found = np.flatnonzero(others.found).tolist()
        out |= {int(at[k]): _ordered(others, k, speech) for k in found}
    return out


def _ordered(answers: cp.Counterfactuals, i: int, speech: _Speech) -> tuple[Reason, ...]:
    """At most four features that an answer changes, by what is lost when each is undone."""
    form, features, target = answers.question.form, answers.features, answers.targets[i]
    if target.promise is not cp.Guarantee.NONE:  # under noise: by the weights as they are known
        target = cp.Label(target.requirement.labels)
    moved = np.flatnonzero(answers.changed[i])
    codes = np.repeat(answers.after[i : i + 1], len(moved) + 1, axis=0)
    codes[np.arange(len(moved)), moved] = answers.before[i, moved]
    margins = np.asarray(form.margin(features.expand(codes), target))
    lost = np.maximum(margins[-1] - margins[:-1], 0.0)
    counts = moved[lost > 0] if (lost > 0).any() else moved
    share = np.zeros(len(features))
    share[moved] = lost / (lost.sum() or 1.0)
    order = sorted(counts.tolist(), key=lambda j: float(-share[j]))[:4]
    return tuple(speech.reason(answers, i, j, float(share[j])) for j in order)


# Words


@cache
def _languages() -> dict[str, dict[str, str]]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@final
class _Speech(NamedTuple):
    """Templates of a language, and what is said of features and decisions."""

    words: Mapping[str, str]
    texts: Texts

    @classmethod
    def of(cls, texts: Texts | str | PathLike[str] | None, language: str) -> _Speech:
        if language not in _languages():
            raise InvalidInput(
                f"Expected a language among {some(_languages())}; got {shown(language)}."
            )
        if isinstance(texts, str | PathLike):
            texts = Texts.load(texts)
        if not isinstance(texts, Texts | None):
            raise InvalidInput(f"Expected Texts, or a file of them; got {shown(texts)}.")
        return cls(_languages()[language], texts or Texts())

    def letter(
        self,
        answers: cp.Counterfactuals,
        i: int,
        status: cp.Status,
        now: Any,
        reasons: Sequence[Reason],
        ways: Sequence[Mapping[Hashable, str]],
    ) -> str:
        """The letter: what was decided, why, and what would decide otherwise."""
        words = self.words
        if status is cp.Status.INVALID:
            return words["invalid"].format(message=answers.message(i))
        target = self.target(answers.targets[i])
        if status is cp.Status.ALREADY:
            return words["already"].format(target=target)
        lines = [words["now"].format(now=self.decision(now)), ""]
        head = "reasons" if ways else "reasons_without"
        lines += [words[head if reasons else "no_reasons"].format(target=target)]
        lines += [f"  {k}. {f'{r.code} {r.text}'.strip()}" for k, r in enumerate(reasons, 1)]
        lines += [""]
        if not ways:
            proved = "infeasible" if status is cp.Status.INFEASIBLE else "unsettled"
            return "\n".join([*lines, words[proved].format(target=target)])
        head = "ways" if len(ways) > 1 else "several" if len(ways[0]) > 1 else "one"
        lines += [words[head].format(target=target, n=len(ways))]
        for k, way in enumerate(ways, 1):
            lines += [words["way"].format(k=k)] if len(ways) > 1 else []
            lines += [f"  - {sentence}" for sentence in way.values()]
        return "\n".join([*lines, "", words["checked"].format(target=target)])

    def decision(self, label: Any) -> str:
        """What a label, or a predicted number, is called."""
        plain = label.item() if isinstance(label, np.generic) else label
        if isinstance(plain, float) and not self.texts.decisions:
            return self.number(plain, UNSAID, plain=False)
        return self.texts.decisions.get(str(plain), self.words["quoted"].format(plain))

    def target(self, target: cp.Target) -> str:
        """What is wanted, in words."""
        if isinstance(target, cp.Interval):
            low, high = np.isfinite([target.low, target.high]).tolist()
            kind = "interval_both" if low and high else "interval_low" if low else "interval_high"
            ends = (self.number(v, UNSAID) for v in (target.low, target.high))
            return self.words[kind].format(**dict(zip(("low", "high"), ends, strict=True)))
        asked = target.requirement
        names = [self.decision(label) for label in asked.labels]
        kind = "other" if asked.others else "labels" if len(names) > 1 else "label"
        kind = "probability" if asked.at_least is not None else kind
        percent = Wording(unit="%", scale=100.0)
        at_least = self.number(asked.at_least or 0.0, percent)
        return self.words[kind].format(label=self.words["or"].join(names), at_least=at_least)

    def advice(
        self, answers: cp.Counterfactuals, i: int, name: Hashable, *, exact: bool, beyond: Any
    ) -> str:
        """A sentence about one change."""
        j, feature = answers.features.index(name), answers.features[name]
        missing = bool(answers.missing[i, j])
        old, new = self.cells(answers, i, j)
        if isinstance(feature, cp.Categorical):
            kind = "state" if missing else "change"
        else:
            way = "rise" if answers.after[i, j] > answers.before[i, j] else "fall"
            kind = f"{way}_beyond" if beyond else way
            if missing:
                kind = f"state_{way}" if beyond else "state"
        text = self.words[kind].format(name=self.name(name), old=old, new=new)
        text = self.words["exact"].format(sentence=text) if exact else text
        return f"{text[0].upper()}{text[1:]}."

    def reason(self, answers: cp.Counterfactuals, i: int, j: int, share: float) -> Reason:
        """A principal reason: the text of the feature, or whether it is too high or too low."""
        name = answers.features.names[j]
        wording = self.texts.of(name)
        kind = "low" if answers.after[i, j] > answers.before[i, j] else "high"
        kind = "is" if isinstance(answers.features[name], cp.Categorical) else kind
        kind = "missing" if answers.missing[i, j] else kind
        said = self.words[kind].format(name=self.name(name), old=self.cells(answers, i, j)[0])
        return Reason(name, wording.code, wording.reason or f"{said[0].upper()}{said[1:]}", share)

    def name(self, name: Hashable) -> str:
        """What a feature is called."""
        return self.texts.of(name).name or str(name)

    def cells(self, answers: cp.Counterfactuals, i: int, j: int) -> tuple[str, str]:
        """The factual value and that of the answer; they look different."""
        feature, codes = answers.features.items[j], (answers.before[i, j], answers.after[i, j])
        wording = self.texts.of(feature.name)
        if isinstance(feature, cp.Categorical):
            values = [str(feature.categories[int(code)]) for code in codes]
            words = [wording.values.get(v, self.words["quoted"].format(v)) for v in values]
            return words[0], words[1]
        new, old = self.number(codes[1], wording), self.number(codes[0], wording, plain=False)
        return (self.number(codes[0], wording) if old == new else old), new

    def number(self, value: float, wording: Wording, *, plain: bool = True) -> str:
        """A number with its unit: all its digits, or as many as a factual value needs."""
        exact = Decimal(repr(float(value))) * Decimal(repr(float(wording.scale)))
        if not plain:
            exact = round(exact, 4 if wording.decimals is None else wording.decimals)
        needed = len(f"{exact.normalize():f}".partition(".")[2])
        text = f"{exact:,.{max(needed, wording.decimals or 0)}f}"
        marks = self.words["marks"]
        swapped = text.replace(",", "_").replace(".", marks[1]).replace("_", marks[0])
        return f"{swapped} {wording.unit}".rstrip()
