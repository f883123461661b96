"""Texts about features and decisions, and templates of each language."""

from __future__ import annotations

import tomllib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

import counterpoint as cp
from counterpoint.errors import InvalidInput, is_number, shown, some
from counterpoint.problem.policy import read_toml

__all__ = ["Reason", "Speech", "Texts", "Wording"]


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
        if not all(isinstance(wording, Wording) for wording in self.features.values()):
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
        path, names = Path(path), sorted(entry.name for entry in fields(Wording))
        table = read_toml(path)
        features, decisions = table.pop("features", {}), table.pop("decisions", {})
        if table or not isinstance(features, dict):
            raise InvalidInput(
                f"{path.name}: expected tables [features.NAME] and [decisions]; got "
                f"{shown(table or features)}."
            )
        out = {}
        for name, entry in features.items():
            place = f"{path.name}, features, {name}"
            if not isinstance(entry, dict) or {*entry} - {*names}:
                raise InvalidInput(f"{place}: expected {some(names, 12, str)}; got {shown(entry)}.")
            try:
                out[name] = Wording(**entry)
            except InvalidInput as error:
                raise InvalidInput(f"{place}: {error}") from error
        return cls(out, decisions)

    def of(self, name: Hashable) -> Wording:
        """Return the wording of a feature."""
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


# Words


@cache
def _languages() -> dict[str, dict[str, str]]:
    text = Path(__file__).with_name("languages.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@final
class Speech(NamedTuple):
    """Templates of a language with texts about features and decisions."""

    words: Mapping[str, str]
    texts: Texts

    @classmethod
    def of(cls, texts: Texts | str | PathLike[str] | None, language: str) -> Speech:
        """Of texts, or a file of them, in a language."""
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
        """Write the letter: the decision, the reasons, and the ways to another decision."""
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
        """Name a label, or format a predicted number."""
        plain = label.item() if isinstance(label, np.generic) else label
        if isinstance(plain, float) and not self.texts.decisions:
            return self.number(plain, UNSAID, plain=False)
        return self.texts.decisions.get(str(plain), self.words["quoted"].format(plain))

    def target(self, target: cp.Target) -> str:
        """Put a target in words."""
        if isinstance(target, cp.Interval):
            low, high = np.isfinite([target.low, target.high]).tolist()
            kind = "interval_both" if low and high else "interval_low" if low else "interval_high"
            ends = (self.number(v, UNSAID) for v in (target.low, target.high))
            return self.words[kind].format(**dict(zip(("low", "high"), ends, strict=True)))
        requirement = target.requirement
        names = [self.decision(label) for label in requirement.labels]
        kind = "other" if requirement.others else "labels" if len(names) > 1 else "label"
        kind = "probability" if requirement.at_least is not None else kind
        percent = Wording(unit="%", scale=100.0)
        at_least = self.number(requirement.at_least or 0.0, percent)
        return self.words[kind].format(label=self.words["or"].join(names), at_least=at_least)

    def advice(
        self, answers: cp.Counterfactuals, i: int, name: Hashable, *, exact: bool, beyond: Any
    ) -> str:
        """Write a sentence about one change of row i, to an ``exact`` number or a rounded one.

        If the decision is the same ``beyond`` the number, the sentence says: at least, or at most.
        """
        j, feature = answers.features.index(name), answers.features[name]
        missing = bool(answers.missing[i, j])
        old, new = self.cells(answers, i, j)
        if isinstance(feature, cp.Categorical):
            kind = "state" if missing else "change"
        else:
            direction = "rise" if answers.after[i, j] > answers.before[i, j] else "fall"
            kind = f"{direction}_beyond" if beyond else direction
            if missing:
                kind = f"state_{direction}" if beyond else "state"
        text = self.words[kind].format(name=self.name(name), old=old, new=new)
        text = self.words["exact"].format(sentence=text) if exact else text
        return f"{text[0].upper()}{text[1:]}."

    def reason(self, answers: cp.Counterfactuals, i: int, j: int, share: float) -> Reason:
        """Return a principal reason: the feature's text, or that it is too high or too low."""
        name = answers.features.names[j]
        wording = self.texts.of(name)
        kind = "low" if answers.after[i, j] > answers.before[i, j] else "high"
        kind = "is" if isinstance(answers.features[name], cp.Categorical) else kind
        kind = "missing" if answers.missing[i, j] else kind
        sentence = self.words[kind].format(name=self.name(name), old=self.cells(answers, i, j)[0])
        return Reason(
            name, wording.code, wording.reason or f"{sentence[0].upper()}{sentence[1:]}", share
        )

    def name(self, name: Hashable) -> str:
        """Return the name of a feature in letters."""
        return self.texts.of(name).name or str(name)

    def cells(self, answers: cp.Counterfactuals, i: int, j: int) -> tuple[str, str]:
        """Format the factual value and that of the answer so that they differ."""
        feature, codes = answers.features.items[j], (answers.before[i, j], answers.after[i, j])
        wording = self.texts.of(feature.name)
        if isinstance(feature, cp.Categorical):
            values = [str(feature.categories[int(code)]) for code in codes]
            words = [wording.values.get(v, self.words["quoted"].format(v)) for v in values]
            return words[0], words[1]
        new, old = self.number(codes[1], wording), self.number(codes[0], wording, plain=False)
        return (self.number(codes[0], wording) if old == new else old), new

    def number(self, value: float, wording: Wording, *, plain: bool = True) -> str:
        """Format a number with its unit, with all its digits or those of a factual value."""
        exact = Decimal(repr(float(value))) * Decimal(repr(float(wording.scale)))
        if not plain:
            exact = round(exact, 4 if wording.decimals is None else wording.decimals)
        needed = len(f"{exact.normalize():f}".partition(".")[2])
        text = f"{exact:,.{max(needed, wording.decimals or 0)}f}"
        marks = self.words["marks"]
        swapped = text.replace(",", "_").replace(".", marks[1]).replace("_", marks[0])
        return f"{swapped} {wording.unit}".rstrip()
