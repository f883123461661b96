"""Targets, rules and groups in words, with the names and units of a texts file."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from os import PathLike
from textwrap import fill
from typing import Any, final

import numpy as np

import counterpoint as cp
from counterpoint.errors import InvalidInput, is_number, some
from counterpoint.letters.speech import Speech
from counterpoint.letters.texts import Texts

COSTS: dict[type[cp.Cost], str] = {
    cp.Manhattan: "The sum of the changes, each times the weight of its feature",
    cp.SquaredEuclidean: "The sum of the squared changes, each times the weight of its feature",
    cp.Mahalanobis: "The squared Mahalanobis distance of the change",
    cp.PercentileShift: "The sum of the changes of rank in the data, each times a weight",
}


NAMES = {"feature", "features", "first", "second"}
"""Fields of constraints whose numbers are names of columns."""
PLAIN = (cp.Immutable, cp.Monotone, cp.WithinObserved, cp.MaxChanges)
"""Rules whose words hold no number in units of a feature."""


@final
@dataclass(frozen=True)
class AuditWords:
    """How an audit speaks of features, decisions and groups; without texts, as the columns do.

    Parameters
    ----------
    speech
        Texts about features and decisions.
    by
        The column of the groups; None if it has no name.
    """

    speech: Speech
    by: Hashable | None = None

    @classmethod
    def of(
        cls, texts: Texts | str | PathLike[str] | None, names: tuple[Hashable, ...], by: Any
    ) -> AuditWords:
        """Return the words of texts, or of a file of them, about rows with columns of these names.

        Raises
        ------
        InvalidInput
            If a text is about another column.
        """
        speech = Speech.of(texts, "en")
        unknown = [name for name in speech.texts.features if name not in names]
        if unknown:
            raise InvalidInput(
                f"Expected texts about columns of the rows; got one about {some(unknown)}. There "
                f"are {some(names, 12)}."
            )
        return cls(speech, by if isinstance(by, Hashable) and by in names else None)

    def target(self, target: cp.Target) -> str:
        """Put a target in words."""
        if isinstance(target, cp.OtherLabel) and not target.labels:
            return "a decision other than the present one"
        if isinstance(target, cp.Tradeoff):
            return f"the best trade-off for {self.speech.decision(target.label)}"
        text = self.speech.target(target)
        if not isinstance(target, cp.Interval):
            return text
        is_range = np.isfinite((target.low, target.high)).all()
        return f"a prediction {text}" if is_range else f"a prediction of {text}"

    def group(self, label: str) -> str:
        """Return the name of a group."""
        return self.speech.texts.of(self.by).values.get(label, label)

    @property
    def groups(self) -> str:
        """What groups differ in: the name of their column."""
        return "group" if self.by is None else self.speech.name(self.by)

    def cost(self, explainer: cp.Explainer) -> str:
        """Say what a change costs."""
        if explainer.spreads:
            kinds = {kind for _, kind in explainer.spreads.values()}
            unit = "range" if "range" in kinds else "spread in the data"
            return (
                f"The sum of the changes, each divided by the feature's {unit}; another category "
                "costs 1."
            )
        kind = COSTS.get(type(explainer.cost), "as the policy says")
        weights = getattr(explainer.cost, "weights", None)
        if isinstance(weights, Mapping):
            names = (
                f"{self.speech.name(name)} {weight:.4g}"
                for name, weight in weights.items()
                if is_number(weight)
            )
            kind += f"; weights: {', '.join(names)}"
        return f"{kind}."

    def rule(self, rule: cp.Constraint) -> str:
        """Say a constraint in words, with the names and units of its features."""
        if isinstance(rule, cp.Bounds) and rule.feature in self.speech.texts.features:
            return self._agreeing(self._bounds(rule), rule)
        text = self._agreeing(str(self._renamed(rule)), rule)
        texts = self.speech.texts.features
        scaled = any(texts[name].scale != 1.0 for name in _names_in(_values(rule), texts))
        return f"{text} (numbers as in the data)" if scaled and type(rule) not in PLAIN else text

    def _bounds(self, rule: cp.Bounds) -> str:
        """Say bounds with the unit of their feature, once, and numbers as the texts show them."""
        clauses = [self._range(rule)] if np.isfinite((rule.low, rule.high)).any() else []
        for verb, change in (("falls", rule.fall), ("rises", rule.rise)):
            if change == 0:
                clauses.append(f"never {verb}")
            elif np.isfinite(change):
                clauses.append(f"{verb} by at most {self._number(change, rule.feature)}")
        return f"{self.speech.name(rule.feature)} {' and '.join(clauses) or 'has no bound'}"

    def _range(self, rule: cp.Bounds) -> str:
        low, high = rule.low, rule.high
        if low == high:
            return f"is {self._number(low, rule.feature)}"
        if np.isinf(low):
            return f"is at most {self._number(high, rule.feature)}"
        if np.isinf(high):
            return f"is at least {self._number(low, rule.feature)}"
        bare = self._number(low, rule.feature, unit=False)
        return f"is between {bare} and {self._number(high, rule.feature)}"

    def _number(self, value: float, feature: Hashable, *, unit: bool = True) -> str:
        wording = replace(self.speech.texts.of(feature), unit="")
        number = self.speech.number(value, wording)
        return self.speech.with_unit(number, feature) if unit else number

    def _agreeing(self, text: str, rule: Any) -> str:
        """Return the sentence about one feature with its verbs in the plural, if its name is."""
        names = {*_names_in(_values(rule), self.speech.texts.features)}
        if len(names) != 1 or not self.speech.texts.of(*names).plural:
            return text
        start = len(self.speech.name(*names))
        verbs = {"is": "are", "rises": "rise", "falls": "fall", "has": "have", "stays": "stay"}
        return text[:start] + re.sub(
            rf"\b({'|'.join(verbs)})\b", lambda verb: verbs[verb[0]], text[start:]
        )

    def _renamed(self, rule: Any) -> Any:
        """Return a copy of a constraint that calls features and categories as the texts do."""
        if not is_dataclass(rule) or not self.speech.texts.features:
            return rule
        twin = copy(rule)
        for field in fields(rule):
            if field.init:
                value = getattr(rule, field.name)
                if field.name in NAMES or not is_number(value):  # a column's name may be a number
                    object.__setattr__(twin, field.name, self._in_words(value))
        return twin

    def _in_words(self, value: Any) -> Any:
        """Rename a feature, or those that a tuple or a table speaks of."""
        if isinstance(value, tuple):
            return tuple(map(self._in_words, value))
        if isinstance(value, Mapping):
            words = {
                self._in_words(k): self._categories(self.speech.texts.of(k).values, v)
                for k, v in value.items()
            }
            return words if len(words) == len(value) else value  # two features of one name
        is_name = isinstance(value, Hashable) and value in self.speech.texts.features
        return self.speech.name(value) if is_name and not isinstance(value, bool) else value

    @staticmethod
    def _categories(names: Mapping[str, str], value: Any) -> Any:
        """Return the names of a category, or of several; anything else as it is."""
        if isinstance(value, tuple | list):
            return [names.get(str(entry), entry) for entry in value]
        return value if isinstance(value, Mapping) else names.get(str(value), value)


def _values(rule: Any) -> tuple[Any, ...]:
    """Return the values of a constraint's fields; numbers only where they are names."""
    if not is_dataclass(rule):
        return ()
    values = ((field.name, getattr(rule, field.name)) for field in fields(rule))
    return tuple(value for name, value in values if name in NAMES or not is_number(value))


def _names_in(value: Any, names: Mapping[Hashable, Any]) -> Iterator[Hashable]:
    """Yield those names that a rule's fields hold."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _names_in(key, names)
            yield from _names_in(entry, names)
    elif isinstance(value, tuple):
        for entry in value:
            yield from _names_in(entry, names)
    elif isinstance(value, Hashable) and value in names:
        yield value


def percent(share: float) -> str:
    """Return a share with one digit after the point."""
    return "–" if np.isnan(share) else f"{100 * share:.1f} %".replace("-", "−")


def filled(text: str) -> str:
    """Break a paragraph into lines, never between a number and its per cent sign."""
    return fill(text.replace(" %", "\N{NO-BREAK SPACE}%"), 100).replace("\N{NO-BREAK SPACE}", " ")


def probability(p: float) -> str:
    """Return ``p = 0.012``, or that it is below 0.001."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.0995 else f"p = {p:.2f}"
