"""Sentences in a language: a decision, a reason, an advice, what protected columns do."""

from __future__ import annotations

import tomllib
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

import counterpoint as cp
from counterpoint.errors import InvalidInput, shown, some
from counterpoint.letters.texts import UNSAID, Texts, Wording
from counterpoint.problem.policy import read_toml
from counterpoint.protected import Influence


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


FOLDER = Path(__file__).with_name("languages")


@cache
def _languages() -> dict[str, dict[str, Any]]:
    """Return the words of each language that comes with the package."""
    files = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.toml")}
    return {name: _flat(tomllib.loads(text)) for name, text in files.items()}


def _flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words of all tables of a file; its tables only put them in order."""
    words: dict[str, Any] = {}
    for key, entry in tables.items():
        words |= entry if isinstance(entry, Mapping) else {key: entry}
    return words


def _words_of(language: Any) -> dict[str, Any]:
    """Return the words of a language, or of a file that words a letter otherwise."""
    languages = _languages()
    if isinstance(language, str) and language in languages:
        return languages[language]
    if not isinstance(language, str | PathLike) or Path(language).suffix != ".toml":
        raise InvalidInput(
            f"Expected a language among {some(sorted(languages))}, or a .toml file like theirs; "
            f"got {shown(language)}."
        )
    path = Path(language)
    words = _flat(read_toml(path))
    absent = [key for key in languages["en"] if key not in words]
    if absent:
        raise InvalidInput(
            f"{path.name}: expected all the words of a language; missing: {some(absent)}. Start "
            f"from a copy of {FOLDER.name}/en.toml, in the package."
        )
    return words


@final
class Speech(NamedTuple):
    """Words of a language with texts about features and decisions."""

    words: Mapping[str, Any]
    texts: Texts

    @classmethod
    def of(cls, texts: Texts | str | PathLike[str] | None, language: str | PathLike[str]) -> Speech:
        """Of texts, or a file of them, in a language."""
        words = _words_of(language)
        if isinstance(texts, str | PathLike):
            texts = Texts.load(texts)
        if not isinstance(texts, Texts | None):
            raise InvalidInput(f"Expected Texts, or a file of them; got {shown(texts)}.")
        return cls(words, texts or Texts())

    # Decisions

    def decision(self, label: Any) -> str:
        """Name a label, or format a predicted number."""
        plain = label.item() if isinstance(label, np.generic) else label
        if isinstance(plain, float) and not self.texts.decisions:
            return self.number(plain, UNSAID, plain=False)
        name = self.texts.decisions.get(str(plain))
        return self.words["quoted"].format(plain) if name is None else self.named(name)

    def named(self, name: str) -> str:
        """Mark the name of a decision, or of a category, as the language does."""
        return str(self.words["named"].format(name))

    def target(self, target: cp.Target) -> str:
        """Put a target in words."""
        return self.said_of("target", target)

    def said_of(self, kind: str, target: cp.Target) -> str:
        """Return the sentence or clause ``kind`` about a target."""
        words, required = self.words, target.requirement
        if isinstance(target, cp.Interval):
            low, high = np.isfinite([target.low, target.high]).tolist()
            which = "interval_both" if low and high else "interval_low" if low else "interval_high"
            ends = (self.number(v, UNSAID) for v in (target.low, target.high))
            text = words[which].format(**dict(zip(("low", "high"), ends, strict=True)))
            return str(words[f"{kind}_value"].format(target=text))
        text = words["or"].join(self.decision(label) for label in required.labels)
        text = words["other"].format(label=text) if required.others else text
        probability = required.at_least
        if probability is None:
            return str(words[f"{kind}_label"].format(target=text))
        at_least = self.number(probability, Wording(unit="%", scale=100.0))
        return str(words[f"{kind}_probability"].format(target=text, at_least=at_least))

    # Advice

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
            new = self.with_unit(new, name)
        text = self.words[kind].format(name=self.name(name), old=old, new=new)
        text = self.words["exact"].format(sentence=text) if exact else text
        return f"{_capital(text)}."

    # Reasons

    def reason(self, answers: cp.Counterfactuals, i: int, j: int, share: float) -> Reason:
        """Return a principal reason: the feature's text, or that it is too high or too low."""
        name = answers.features.names[j]
        wording, words = self.texts.of(name), self.words
        kind = "low" if answers.after[i, j] > answers.before[i, j] else "high"
        old = self.cells(answers, i, j)[0]
        if isinstance(answers.features[name], cp.Categorical):
            kind = "value"
        else:
            old = self.with_unit(old, name)
        kind = "missing" if answers.missing[i, j] else kind
        subject = wording.subject or words["subject"].format(name=self.name(name))
        text = words[kind if subject else f"bare_{kind}"].format(
            name=self.name(name),
            subject=subject,
            old=old,
            **{"is": words["plural" if wording.plural else "singular"]},
        )
        return Reason(name, wording.code, wording.reason or _capital(text), share)

    # What must not decide

    def protected(self, influence: Influence, i: int, target: cp.Target) -> str:
        """Say what protected columns do to the score and the decision of row i; "" if nothing."""
        contribution, words = float(influence.contribution[i]), self.words
        decides, undecided = bool(influence.decides[i]), bool(influence.undecided[i])
        changes = influence.answers[i].changes if decides else {}
        pairs = zip(influence.features, influence.depends[i].tolist(), strict=True)
        features = [name for name, depends in pairs if depends or name in changes]
        if not (contribution or decides or (undecided and features)):
            return ""
        score = words["prediction" if isinstance(target, cp.Interval) else "score"]
        # columns of which none counts alone may do so together
        listed = [self.name(name) for name in features or influence.features]
        names = self.listed(listed)
        sentences = [words["protected"]]
        share = self.share(min(float(influence.share[i]), 1.0)) if contribution < 0.0 else ""
        if contribution > 0.0:
            sentences.append(words["protected_favour"])
        elif contribution < 0.0:
            is_all = influence.share[i] > 1.0
            sentences.append(words["protected_more" if is_all else "protected_share"])
        kind = "decides" if decides else "open" if undecided else "holds"
        sentences.append(words[f"protected_{kind}"])
        values = {"names": names, "share": share, "score": score}
        values["others"] = names if len(listed) <= 2 else words["these"]
        values["result"] = self.said_of("result", target)
        return " ".join(sentence.format(**values) for sentence in sentences)

    def share(self, share: float) -> str:
        """Format a share of the missing score, at most 1, in whole per cent; only 1 is 100 %."""
        percent = Wording(unit="%", scale=100.0)
        if share < 0.01:
            return str(self.words["less_than"].format(share=self.number(0.01, percent)))
        return self.number(min(round(share, 2), 0.99) if share < 1.0 else 1.0, percent)

    # Words

    def listed(self, names: Sequence[str]) -> str:
        """Return ``a, b and c`` in the language."""
        *first, last = names
        return f"{', '.join(first)}{self.words['and']}{last}" if first else last

    def name(self, name: Hashable) -> str:
        """Return the name of a feature in letters."""
        return self.texts.of(name).name or str(name)

    def with_unit(self, number: str, name: Hashable) -> str:
        """Return a number with its unit, unless the feature's name says it already."""
        unit = self.texts.of(name).unit
        is_said = unit.casefold() in self.name(name).casefold().split()
        return number if is_said else f"{number} {unit}".rstrip()

    def cells(self, answers: cp.Counterfactuals, i: int, j: int) -> tuple[str, str]:
        """Format the factual value and that of the answer so that they differ, without units."""
        feature, codes = answers.features.items[j], (answers.before[i, j], answers.after[i, j])
        wording = self.texts.of(feature.name)
        if isinstance(feature, cp.Categorical):
            values = [str(feature.categories[int(code)]) for code in codes]
            names = [wording.values.get(v) for v in values]
            quoted = [self.words["quoted"].format(v) for v in values]
            words = [self.named(n) if n else q for n, q in zip(names, quoted, strict=True)]
            return words[0], words[1]
        bare = Wording(scale=wording.scale, decimals=wording.decimals)
        new, old = self.number(codes[1], bare), self.number(codes[0], bare, plain=False)
        return (self.number(codes[0], bare) if old == new else old), new

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


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
