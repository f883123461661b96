"""Put targets, rules and groups in words, with the names and units of a texts file."""

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

NAME_FIELDS = {"feature", "features", "first", "second"}
"""Fields of constraints whose numbers are names of columns."""
WITHOUT_UNITS = (cp.Immutable, cp.Monotone, cp.WithinObserved, cp.MaxChanges)
"""Rules whose words hold no number in units of a feature."""


@final
@dataclass(frozen=True)
class AuditWords:
    """The words of an audit for features, decisions and groups: those of texts, or of the columns.

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
        """The name of the column of groups, or "group" if there is none."""
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
        texts = self.speech.texts.features
        if isinstance(rule, cp.Bounds) and rule.feature in texts:
            return self._agreeing(self._bounds(rule), rule)
        # Numbers of all other rules stay as they are, also if texts show these features scaled.
        text = self._agreeing(str(self._renamed(rule)), rule)
        is_scaled = any(texts[name].scale != 1.0 for name in _names_in(_values(rule), texts))
        return (
            f"{text} (numbers as in the data)"
            if is_scaled and type(rule) not in WITHOUT_UNITS
            else text
        )

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
        start = len(self.speech.name(*names))  # a name may hold such a word, too
        plurals = {"is": "are", "rises": "rise", "falls": "fall", "has": "have", "stays": "stay"}
        pattern = rf"\b({'|'.join(plurals)})\b"
        return text[:start] + re.sub(pattern, lambda verb: plurals[verb[0]], text[start:])

    def _renamed(self, rule: Any) -> Any:
        """Return a copy of a constraint that calls features and categories as the texts do."""
        if not is_dataclass(rule) or not self.speech.texts.features:
            return rule
        renamed = copy(rule)  # without the checks of its class, which knows no such names
        for field in fields(rule):
            value = getattr(rule, field.name)
            # a number is no name, but in fields of names: a column's name may be a number
            if field.init and (field.name in NAME_FIELDS or not is_number(value)):
                object.__setattr__(renamed, field.name, self._in_words(value))
        return renamed

    def _in_words(self, value: Any) -> Any:
        """Return a field's value with features and categories renamed, in tuples and tables too."""
        if isinstance(value, tuple):
            return tuple(map(self._in_words, value))
        if isinstance(value, Mapping):
            renamed = {
                self._in_words(name): self._categories(self.speech.texts.of(name).values, entry)
                for name, entry in value.items()
            }
            return renamed if len(renamed) == len(value) else value  # two features of one name
        is_name = isinstance(value, Hashable) and value in self.speech.texts.features
        return self.speech.name(value) if is_name and not isinstance(value, bool) else value

    @staticmethod
    def _categories(names: Mapping[str, str], value: Any) -> Any:
        """Return the names of a category, or of several; anything else as it is."""
        if isinstance(value, tuple | list):
            return [names.get(str(entry), entry) for entry in value]
        return value if isinstance(value, Mapping) else names.get(str(value), value)


def _values(rule: Any) -> tuple[Any, ...]:
    """Return the values of a constraint's fields, but for numbers that are no names."""
    if not is_dataclass(rule):
        return ()
    values = ((field.name, getattr(rule, field.name)) for field in fields(rule))
    return tuple(value for name, value in values if name in NAME_FIELDS or not is_number(value))


def _names_in(value: Any, names: Mapping[Hashable, Any]) -> Iterator[Hashable]:
    """Yield the features among ``names`` that a value of a constraint's field holds."""
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


def estimate(line: Any, kind: str) -> tuple[str, str]:
    """Return a share or the median cost of a table's line, and its interval, as texts.

    ``kind`` is the first word of their columns. Without a value, the interval is empty.
    """
    value = line["cost_median" if kind == "cost" else f"{kind}_share"]
    low, high = line[f"{kind}_low"], line[f"{kind}_high"]
    if np.isnan(value):
        return "–", ""
    if kind != "cost":
        return percent(value), f"{100 * low:.1f} to {100 * high:.1f} %"
    return f"{value:.4g}", f"{low:.4g} to {high:.4g}" if np.isfinite(high) else "too few rows"


def filled(text: str) -> str:
    """Break a paragraph into lines, never between a number and its per cent sign."""
    return fill(text.replace(" %", "\N{NO-BREAK SPACE}%"), 100).replace("\N{NO-BREAK SPACE}", " ")


def probability(p: float) -> str:
    """Return ``p = 0.012``, or that it is below 0.001."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.0995 else f"p = {p:.2f}"
