"""Lay out letters: their parts as text and as HTML, or in a template of the creditor's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, final

from counterpoint.errors import InvalidInput, MissingExtra, shown, some

SUPPLIED = ("creditor", "recipient", "date", "reference", "salutation", "rights", "signature")
"""Parts that a caller may supply; none of them is invented."""

STYLE = """
body {font: 16px/1.5 Georgia, "Times New Roman", serif; max-width: 38em; margin: 2.5em auto;
 padding: 0 1.2em; color: #1a1a1a; background: #fff}
section {margin: 0 0 1.2em} p {margin: 0 0 .3em; white-space: pre-line}
ol, ul {margin: .2em 0 .6em; padding-left: 1.6em} li {margin: .15em 0}
.date, .creditor {text-align: right} .reference {font-weight: bold} .rights {font-size: 90%}
@media print {body {margin: 0; max-width: none}}
@media screen and (prefers-color-scheme: dark) {body {color: #e8e8e8; background: #16181b}}
"""


@final
class Part(NamedTuple):
    """A paragraph of a letter, and the list below it."""

    text: str
    items: tuple[str, ...] = ()
    numbered: bool = False

    def __str__(self) -> str:
        marks = (f"{k}." if self.numbered else "-" for k in range(1, len(self.items) + 1))
        lines = (f"  {mark} {item}" for mark, item in zip(marks, self.items, strict=True))
        return "\n".join([self.text, *lines])


Parts = Mapping[str, Sequence[Part]]


def text_of(parts: Parts) -> str:
    """Return the letter as plain text, an empty line between its parts."""
    return "\n\n".join("\n".join(map(str, part)) for part in parts.values())


def html_of(parts: Parts, language: str) -> str:
    """Return the letter as a page of HTML that stands alone."""
    sections = (
        f'<section class="{escape(name)}">{"".join(map(_paragraph, part))}</section>'
        for name, part in parts.items()
    )
    title = next((p.text for name in ("reference", "decision") for p in parts.get(name, ())), "")
    return (
        f'<!doctype html>\n<html lang="{escape(language)}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body>{chr(10).join(sections)}</body></html>\n"
    )


def _paragraph(part: Part) -> str:
    tag = "ol" if part.numbered else "ul"
    items = "".join(f"<li>{escape(item)}</li>" for item in part.items)
    text = f"<p>{escape(part.text)}</p>" if part.text else ""
    return text + (f"<{tag}>{items}</{tag}>" if items else "")


def checked_parts(
    parts: Mapping[str, str | Sequence[str]] | None, count: int, expected: Sequence[str] | None
) -> list[dict[str, str]]:
    """Return the parts of each of ``count`` letters: one text for all, or one for each.

    ``expected`` are the names that the layout has a place for; None for any, of a template.
    """
    if not isinstance(parts, Mapping | None):
        raise InvalidInput(f"Expected parts as a table from names to texts; got {shown(parts)}.")
    columns: dict[str, list[str]] = {}
    for name, value in (parts or {}).items():
        if expected is not None and name not in expected:
            raise InvalidInput(
                f"A letter has no part {name!r}; expected {some(expected, 12, str)}. Other parts "
                "need a template with a place for them."
            )
        texts = [value] * count if isinstance(value, str) else [*value]
        if len(texts) != count or not all(isinstance(text, str) for text in texts):
            raise InvalidInput(
                f"Expected one text as part {name!r}, or one for each of {count} letters; got "
                f"{shown(value)}."
            )
        columns[name] = texts
    return [{name: texts[k] for name, texts in columns.items()} for k in range(count)]


# The creditor's own template


Template = Callable[[Mapping[str, Any]], str]
"""A function from the values of a letter to its text."""


def template_of(source: str | PathLike[str]) -> Template:
    """Return the function that fills in a Jinja2 template.

    ``source`` is a path, or the text itself, if it has braces or several lines. The template is run
    in a sandbox; where it is HTML, values are escaped.

    Raises
    ------
    InvalidInput
        If it cannot be read.
    MissingExtra
        If Jinja2 is not installed.
    OSError
        If there is no such file.
    """
    try:
        from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, UndefinedError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise MissingExtra(
            "A template of your own needs Jinja2, which is not installed. Install it with "
            "'pip install jinja2', or leave out the template."
        ) from None
    if not isinstance(source, str | PathLike):
        raise InvalidInput(f"Expected a template as a path or as text; got {shown(source)}.")
    is_text = isinstance(source, str) and any(mark in source for mark in ("{{", "{%", "\n"))
    name = "the template" if is_text else Path(source).name
    text = str(source) if is_text else Path(source).read_text(encoding="utf-8")
    # a file says by its name what it is; a text only by its tags
    is_html = any(f".{kind}" in name for kind in ("html", "htm", "xml")) or "</" in text
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined,
        autoescape=is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    try:
        template = environment.from_string(text)
    except TemplateSyntaxError as error:
        raise InvalidInput(f"{name}, line {error.lineno}: {error.message}") from None

    def rendered(values: Mapping[str, Any]) -> str:
        try:
            return template.render(values)
        except UndefinedError as error:
            raise InvalidInput(
                f"{name}: {error.message}. It may use {some(sorted(values), 30, str)}; pass others "
                "as parts, or write {% if … is defined %}."
            ) from None
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise InvalidInput(f"{name} cannot be filled in: {error}") from None

    return rendered
