"""Where something stands in a problem file, and what may stand there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, final

from counterpoint.errors import InvalidSpec

__all__ = [
    "Parameter",
    "Place",
    "a_count",
    "a_flag",
    "a_label",
    "a_matrix",
    "a_number",
    "a_pair",
    "a_text",
    "any_of",
    "labels_or_one",
    "list_of",
    "listed",
    "numbers_by_name",
    "refuse_unknown",
    "some_labels",
    "some_names",
    "some_numbers",
    "some_rows",
    "some_weights",
]


@final
@dataclass(frozen=True)
class Place:
    """Where in which file; it makes the errors."""

    file: str
    path: tuple[str, ...] = ()

    def __truediv__(self, step: str) -> Place:
        return Place(self.file, (*self.path, step))

    def wrong(self, expected: str, got: object, advice: str = "") -> InvalidSpec:
        """What was expected, what came, what to do."""
        shown = repr(got)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return self.says(f"expected {expected}; got {shown}.{f' {advice}' if advice else ''}")

    def says(self, sentence: str) -> InvalidSpec:
        """The error of a sentence about this place."""
        return InvalidSpec(f"{', '.join((self.file, *self.path))}: {sentence}")


Parameter = Callable[[Any, Place], Any]


def a_number(value: Any, place: Place) -> float:
    """A number; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        advice = "Write numbers without quotes." if isinstance(value, str) else ""
        raise place.wrong("a number", value, advice)
    try:
        return float(value)
    except OverflowError:
        raise place.wrong("a number that fits 64 bits", value) from None


def a_count(value: Any, place: Place) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise place.wrong("a whole number", value)
    return value


def a_flag(value: Any, place: Place) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise place.wrong("true or false", value)
    return value


def a_text(value: Any, place: Place) -> str:
    """Text."""
    if not isinstance(value, str):
        raise place.wrong("text", value, "Put it in quotes.")
    return value


def a_label(value: Any, place: Place) -> str | int | float | bool:
    """A class label or a category."""
    if not isinstance(value, str | int | float | bool):
        raise place.wrong("text, a number, true or false", value)
    return value


def list_of(item: Parameter, expected: str) -> Parameter:
    """A list whose entries are all of one kind."""

    def read(value: Any, place: Place) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise place.wrong(expected, value, "Put it in [brackets].")
        return tuple(item(v, place / f"entry {i}") for i, v in enumerate(value, 1))

    return read


some_names = list_of(a_text, "a list of feature names")
some_labels = list_of(a_label, "a list of values")
some_numbers = list_of(a_number, "a list of numbers")
some_rows = list_of(some_numbers, "a list of rows of numbers")


def labels_or_one(value: Any, place: Place) -> Any:
    """A label, or several."""
    return (some_labels if isinstance(value, list | tuple) else a_label)(value, place)


def a_pair(value: Any, place: Place) -> tuple[float, float]:
    """A smallest and a largest number."""
    pair = some_numbers(value, place)
    if len(pair) != 2:
        raise place.wrong("a smallest and a largest number", value)
    return pair[0], pair[1]


def a_row(value: Any, place: Place) -> Any:
    """Values in the order of the features, or by name: a table, or pairs."""
    if isinstance(value, Mapping):
        return {a_text(name, place): a_label(v, place / str(name)) for name, v in value.items()}
    if isinstance(value, list | tuple) and value and all(isinstance(v, list) for v in value):
        return tuple(some_labels(pair, place) for pair in value)
    return some_labels(value, place)


def a_matrix(value: Any, place: Place) -> tuple[tuple[float, ...], ...]:
    """Rows of numbers, all of one length."""
    rows: tuple[tuple[float, ...], ...] = some_rows(value, place)
    if len({len(row) for row in rows}) != 1:
        raise place.wrong("rows of one length", value)
    return rows


def numbers_by_name(value: Any, place: Place) -> dict[str, float]:
    """Feature name → number."""
    if not isinstance(value, Mapping):
        raise place.wrong("numbers by feature name, such as { age = 2.0 }", value)
    return {a_text(name, place): a_number(v, place / str(name)) for name, v in value.items()}


def some_weights(value: Any, place: Place) -> dict[str, float] | tuple[float, ...]:
    """Numbers by feature name, or in the order of the features."""
    many: Any = (some_numbers if isinstance(value, list | tuple) else numbers_by_name)(value, place)
    return many


def refuse_unknown(keys: Iterable[Any], known: Collection[str], place: Place) -> None:
    """Raise for the first key that is not known, with the nearest that is."""
    for key in sorted(map(str, set(keys) - set(known))):
        near = get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {listed(known)}."
        raise place.says(f"there is no key {key!r} here; {hint}")


def listed(names: Iterable[str]) -> str:
    """``'a', 'b'``."""
    return ", ".join(map(repr, names))


def any_of(names: Iterable[str]) -> str:
    """``'a', 'b' or 'c'``."""
    *most, last = map(repr, names)
    return f"{', '.join(most)} or {last}"
