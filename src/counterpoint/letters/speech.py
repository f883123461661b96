"""Write sentences in a language: on decisions, reasons, advice and protected columns."""

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
        The feature that it is about, and what `Texts` say of it.
    share
        The part of the score that is missing without this change, of all changes of the answer.
    """

    feature: Hashable
    code: str
    text: str
    share: float


FOLDER = Path(__file__).with_name("languages")
PERCENT = Wording(unit="%", scale=100.0)


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
    """Return the words of a language of the package, or of a file like those."""
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
    """The words of a language with texts about features and decisions."""

    words: Mapping[str, Any]
    texts: Texts
    language: str  # its code, such as "en"

    @classmethod
    def of(cls, texts: Texts | str | PathLike[str] | None, language: str | PathLike[str]) -> Speech:
        """Return the speech of texts, or of a file of them, in a language."""
        words = _words_of(language)
        if isinstance(texts, str | PathLike):
            texts = Texts.load(texts)
        if not isinstance(texts, Texts | None):
            raise InvalidInput(f"Expected Texts, or a file of them; got {shown(texts)}.")
        return cls(words, texts or Texts(), Path(language).stem)

    # Decisions

    def decision(self, label: Any) -> str:
        """Name a label, or format a predicted number."""
        plain = label.item() if isinstance(label, np.generic) else label
        if isinstance(plain, float) and not self.texts.decisions:
            return self.number(plain, UNSAID, exact=False)
        name = self.texts.decisions.get(str(plain))
        return self.words["quoted"].format(plain) if name is None else self.named(name)

    def named(self, name: str) -> str:
        """Mark the name of a decision, or of a category, as the language does."""
        return str(self.words["named"].format(name))

    def target(self, target: cp.Target) -> str:
        """Put a target in words."""
        return self.said_of("target", target)

    def said_of(self, kind: str, target: cp.Target) -> str:
        """Return the sentence or clause ``kind`` about a target, by its key in the language."""
        words, required = self.words, target.requirement
        if isinstance(target, cp.Interval):
            has_low, has_high = np.isfinite([target.low, target.high]).tolist()
            key = ("interval_both" if has_high else "interval_low") if has_low else "interval_high"
            low, high = (self.number(end, UNSAID) for end in (target.low, target.high))
            text = words[key].format(low=low, high=high)
            return str(words[f"{kind}_value"].format(target=text))
        text = words["or"].join(self.decision(label) for label in required.labels)
        text = words["other"].format(label=text) if required.others else text
        if required.at_least is None:
            return str(words[f"{kind}_label"].format(target=text))
        at_least = self.number(required.at_least, PERCENT)
        return str(words[f"{kind}_probability"].format(target=text, at_least=at_least))

    # Advice

    def advice(
        self, answers: cp.Counterfactuals, i: int, name: Hashable, *, exact: bool, beyond: Any
    ) -> str:
        """Write a sentence about the change of one feature of row i.

        If the decision is the same ``beyond`` the number, the sentence says: at least, or at most.
        If the number is ``exact``, since no rounded one is an answer, the sentence says that, too.
        """
        j, feature = answers.features.index(name), answers.features[name]
        is_missing = bool(answers.missing[i, j])
        old, new = self.cells(answers, i, j)
        if isinstance(feature, cp.Categorical):
            key = "state" if is_missing else "change"
        else:
            direction = "rise" if answers.after[i, j] > answers.before[i, j] else "fall"
            if is_missing:
                key = f"state_{direction}" if beyond else "state"
            else:
                key = f"{direction}_beyond" if beyond else direction
            new = self.with_unit(new, name)
        text = self.words[key].format(name=self.name(name), old=old, new=new)
        text = self.words["exact"].format(sentence=text) if exact else text
        return f"{_capital(text)}."

    # Reasons

    def reason(self, answers: cp.Counterfactuals, i: int, j: int, share: float) -> Reason:
        """Return feature j of row i as a principal reason: in its own text, or as too high or low.

        ``share`` is the part of the missing score that the reason accounts for.
        """
        name = answers.features.names[j]
        wording, words = self.texts.of(name), self.words
        old = self.cells(answers, i, j)[0]
        if isinstance(answers.features[name], cp.Categorical):
            key = "value"
        else:
            key = "low" if answers.after[i, j] > answers.before[i, j] else "high"
            old = self.with_unit(old, name)
        key = "missing" if answers.missing[i, j] else key
        subject = wording.subject or words["subject"].format(name=self.name(name))
        verb = words["plural" if wording.plural else "singular"]
        values = {"name": self.name(name), "subject": subject, "old": old, "is": verb}
        # a language may be unable to make a subject of any name: German has cases
        text = words[key if subject else f"bare_{key}"].format(**values)
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
        # The sentences: that these columns are protected, their part of the score, the decision.
        sentences, share = [words["protected"]], ""
        if contribution > 0.0:
            sentences.append(words["protected_favour"])
        elif contribution < 0.0:
            share = self.share(min(float(influence.share[i]), 1.0))
            is_more = influence.share[i] > 1.0  # than all that is missing
            sentences.append(words["protected_more" if is_more else "protected_share"])
        key = "decides" if decides else "open" if undecided else "holds"
        sentences.append(words[f"protected_{key}"])
        # columns of which none counts alone may do so together
        names = [self.name(name) for name in features or influence.features]
        values = {
            "names": self.listed(names),
            "share": share,
            "score": words["prediction" if isinstance(target, cp.Interval) else "score"],
            "others": self.listed(names) if len(names) <= 2 else words["these"],
            "result": self.said_of("result", target),
        }
        return " ".join(sentence.format(**values) for sentence in sentences)

    def share(self, share: float) -> str:
        """Format a share of the missing score, at most 1, in whole per cent; only 1 is 100 %."""
        if share < 0.01:
            return str(self.words["less_than"].format(share=self.number(0.01, PERCENT)))
        return self.number(min(round(share, 2), 0.99) if share < 1.0 else 1.0, PERCENT)

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
        feature, wording = answers.features.items[j], self.texts.of(answers.features.names[j])
        before, after = answers.before[i, j], answers.after[i, j]
        if isinstance(feature, cp.Categorical):
            old, new = (
                self.category(str(feature.categories[int(c)]), wording) for c in (before, after)
            )
            return old, new
        bare = Wording(scale=wording.scale, decimals=wording.decimals)
        old, new = self.number(before, bare, exact=False), self.number(after, bare)
        return (self.number(before, bare) if old == new else old), new

    def category(self, value: str, wording: Wording) -> str:
        """Return the name of a category, or the category itself in quotation marks."""
        name = wording.values.get(value)
        return self.named(name) if name else str(self.words["quoted"].format(value))

    def number(self, value: float, wording: Wording, *, exact: bool = True) -> str:
        """Format a number with its unit: with all its digits, or with those of a factual value."""
        scaled = Decimal(repr(float(value))) * Decimal(repr(float(wording.scale)))
        if not exact:
            scaled = round(scaled, 4 if wording.decimals is None else int(wording.decimals))
        decimals = len(f"{scaled.normalize():f}".partition(".")[2])
        text = f"{scaled:,.{max(decimals, wording.decimals or 0)}f}"
        thousands, point = self.words["marks"][:2]
        swapped = text.replace(",", "_").replace(".", point).replace("_", thousands)
        return f"{swapped} {wording.unit}".rstrip()


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
