"""Read texts about features and decisions, and name those that have no words yet."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np

import counterpoint as cp
from counterpoint.errors import EXPLAINER, InvalidInput, all_of, is_number, shown, some
from counterpoint.problem.policy import read_toml
from counterpoint.protected import protected_features


def _check_texts(field_name: str, texts: object) -> None:
    if not isinstance(texts, Mapping) or not all(isinstance(n, str) for n in texts.values()):
        raise InvalidInput(
            f"Expected {field_name} as a table from text to text; got {shown(texts)}."
        )


@final
@dataclass(frozen=True, kw_only=True)
class Wording:
    """Texts in which letters speak of one feature.

    Parameters
    ----------
    name
        What it is called, as in "Raise *weekly working hours* from 40 to 41"; "" for the name of
        the column.
    subject
        The same as the subject of a sentence, such as "Ihre wöchentliche Arbeitszeit"; "" for
        "Your", in English, and the name.
    plural
        Whether the name is plural: "Your weekly working hours *are* too low".
    code, reason
        Code and text of the principal reason; "" for a text that says whether it is too high or too
        low.
    unit
        What follows a number, such as ``"%"`` or ``"EUR"``; a sentence says it once, and not at all
        if the name does already.
    step
        Advice is rounded to multiples of this, in feature units; None for three digits.
    scale
        A number is shown so many times as large: 100 for a share in per cent.
    decimals
        How many are shown at least; factual values are rounded to so many.
    values
        What to call the values of a category: the value as text → its name.
    """

    name: str = ""
    subject: str = ""
    plural: bool = False
    code: str = ""
    reason: str = ""
    unit: str = ""
    step: float | None = None
    scale: float = 1.0
    decimals: int | None = None
    values: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("name", "subject", "code", "reason", "unit"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise InvalidInput(f"Expected text as {name}; got {shown(value)}.")
        if not isinstance(self.plural, bool):
            raise InvalidInput(f"Expected true or false as plural; got {shown(self.plural)}.")
        for name in ("step", "scale"):
            value = getattr(self, name)
            is_absent = name == "step" and value is None
            if not (is_absent or (is_number(value) and 0 < value < np.inf)):
                raise InvalidInput(f"Expected a positive {name}; got {shown(value)}.")
        decimals = self.decimals
        is_whole = isinstance(decimals, int | np.integer) and not isinstance(decimals, bool)
        if decimals is not None and not (is_whole and 0 <= decimals <= 12):
            raise InvalidInput(
                f"Expected a whole number of decimals from 0 to 12; got {shown(decimals)}."
            )
        _check_texts("values", self.values)


UNSAID = Wording()


@final
@dataclass(frozen=True)
class Texts:
    """Texts in which letters speak of features and of decisions.

    Parameters
    ----------
    features
        Name → `Wording`, one for every feature that an answer may change; empty for the names of
        columns.
    decisions
        What to call the model's labels: the label as text → its name.
    parts
        Parts of each letter that the creditor words: ``creditor``, ``salutation``, ``rights``,
        ``signature`` and others, see `write_letters`.
    """

    features: Mapping[Hashable, Wording] = field(default_factory=dict)
    decisions: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(isinstance(wording, Wording) for wording in self.features.values()):
            raise InvalidInput(f"Expected a Wording for each feature; got {shown(self.features)}.")
        _check_texts("decisions", self.decisions)
        _check_texts("parts", self.parts)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Texts:
        """Read a TOML file: tables ``[features.NAME]``, with the fields of a `Wording`.

        Besides, tables ``[decisions]`` and ``[parts]``, from text to text.

        Raises
        ------
        InvalidInput
            If it says something else; the message names the file and the place.
        OSError
            If there is no such file.
        """
        path, names = Path(path), sorted(entry.name for entry in fields(Wording))
        table = read_toml(path)
        features, decisions, parts = (table.pop(k, {}) for k in ("features", "decisions", "parts"))
        if table or not isinstance(features, dict):
            raise InvalidInput(
                f"{path.name}: expected tables [features.NAME], [decisions] and [parts]; got "
                f"{shown(table or features)}."
            )
        wordings: dict[Hashable, Wording] = {}
        for name, entry in features.items():
            place = f"{path.name}, features, {name}"
            if not isinstance(entry, dict) or {*entry} - {*names}:
                raise InvalidInput(f"{place}: expected {some(names, 12, str)}; got {shown(entry)}.")
            try:
                wordings[name] = Wording(**entry)
            except InvalidInput as error:
                raise InvalidInput(f"{place}: {error}") from error
        try:
            return cls(wordings, decisions, parts)
        except InvalidInput as error:
            raise InvalidInput(f"{path.name}: {error}") from error

    def of(self, name: Hashable) -> Wording:
        """Return the wording of a feature."""
        return self.features.get(name, UNSAID)


# What has no words yet

WORDS = re.compile(r"[^\W\d_]+(?:[ ,/]+[^\W\d_]+)*(?: \([^()]*\))?")
"""Words, and perhaps a unit in brackets: "hours per week", and neither hours-per-week nor x0."""
CAMEL_CASE = re.compile(r"[a-z][A-Z]")


def _is_readable(name: object) -> bool:
    """Return whether the name of a column, or a label, consists of words fit for a letter."""
    is_text = isinstance(name, str) and WORDS.fullmatch(name) is not None
    return is_text and CAMEL_CASE.search(str(name)) is None


def _nameless(feature: cp.Categorical, names: Mapping[str, str]) -> list[str]:
    """Return the categories that are codes, such as 0, False or A171, and not in ``names``.

    Numbers that count something, such as 1, 2 and 4 rooms, are understood as they are.
    """
    is_flag = {*feature.categories} <= {0, 1}

    def is_code(value: Any) -> bool:
        if not isinstance(value, str):
            return is_flag or isinstance(value, bool | np.bool_)
        return "_" in value or re.search(r"[^\W\d_]{2}", value) is None  # no two letters

    pairs = zip(feature.categories, feature.is_stand_in.tolist(), strict=True)
    return [
        str(value)
        for value, is_stand_in in pairs  # a stand-in for missing cells is never named
        if is_code(value) and str(value) not in names and not is_stand_in
    ]


def check_words(
    explainer: cp.Explainer,
    texts: Texts,
    changing: Collection[Hashable],
    protected: Collection[Hashable],
) -> None:
    """Raise if a feature that letters name, a value that may change, or a decision has no words.

    ``changing`` are the features that may change; letters name these and the protected ones.
    """
    features, gaps = explainer.features, list[str]()
    for name in features.names:
        if name in (*changing, *protected) and not (texts.of(name).name or _is_readable(name)):
            gaps.append(f"a name for the column {name!r}")
    for feature in features:
        if feature.name in changing and isinstance(feature, cp.Categorical):
            nameless = _nameless(feature, texts.of(feature.name).values)
            if nameless:
                gaps.append(f"names for the values {some(nameless)} of {feature.name!r}")
    labels = [] if explainer.reading.form.has_values else explainer.reading.classes.tolist()
    nameless = [v for v in labels if not (_is_readable(v) or texts.decisions.get(str(v)))]
    if nameless:
        gaps.append(f"names for the decisions {some(nameless)}")
    if gaps:
        raise InvalidInput(
            f"Letters need words for people; missing: {some(gaps, 12, str)}. Write them in a file "
            "of texts; `counterpoint letter … --draft FILE`, or counterpoint.letters.draft, makes "
            "one to fill in."
        )


def draft(explainer: cp.Explainer) -> str:
    """Return a file of texts to fill in, in TOML: an empty name for all that letters may name.

    Columns that cannot change are not among them, unless they are protected.

    Parameters
    ----------
    explainer
        What will give the answers.

    Examples
    --------
    >>> import counterpoint as cp
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterpoint.letters import draft
    >>> X = pd.DataFrame({"hours-per-week": [20.0, 30.0, 40.0, 50.0]})
    >>> model = LogisticRegression().fit(X, ["no", "no", "yes", "yes"])
    >>> print(draft(cp.Explainer(model, data=X)).partition("[features")[2])
    .hours-per-week]
    name = ""  # as in: Raise … from 9 to at least 10
    # plural = true
    # unit = ""
    # step = 1
    # code = ""
    <BLANKLINE>
    """
    all_of(cp.Explainer, (explainer,), *EXPLAINER)
    return "\n".join(_draft_lines(explainer)) + "\n"


def _quoted(text: str) -> str:
    """Return a text as a quoted key of TOML."""
    # JSON's escapes are those of TOML, which has no surrogate pairs, and DEL only escaped
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _draft_lines(explainer: cp.Explainer) -> Iterator[str]:
    """Yield the lines of `draft`."""
    yield "# What letters say. Names are words for people; what stays empty is asked for."
    yield from ("", "[parts]")
    yield from (f'# {name} = ""' for name in ("creditor", "salutation", "rights", "signature"))
    if not explainer.reading.form.has_values:
        yield from ("", "[decisions]")
        yield from (f'{_quoted(str(v))} = ""' for v in explainer.reading.classes.tolist())
    rules = (*explainer.constraints, *explainer.implied)
    fixed = [c for c in rules if isinstance(c, cp.Immutable) and not c.protected]
    protected = {*protected_features(explainer)}
    unnamed = {name for constraint in fixed for name in constraint.features} - protected
    for feature in explainer.features:
        if feature.name in unnamed:
            continue
        name = str(feature.name)
        key = name if re.fullmatch(r"[\w-]+", name, re.ASCII) else _quoted(name)
        is_categorical = isinstance(feature, cp.Categorical)
        example = "Raise … from 9 to at least 10"
        if is_categorical:
            example = "Change … from this to that"
        yield from ("", f"[features.{key}]", f'name = ""  # as in: {example}', "# plural = true")
        if feature.name in protected:
            continue  # their values are not named
        if isinstance(feature, cp.Categorical):
            yield from ('# code = ""', f"[features.{key}.values]")
            yield from (f'{_quoted(str(v))} = ""' for v in feature.categories)
        else:
            yield from ('# unit = ""', "# step = 1", '# code = ""')
