"""Read the options of commands from signatures and docstrings, and put them into sentences."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, is_dataclass
from functools import wraps
from typing import Annotated, Any, final, get_args, get_origin

import typer

Count = Annotated[int, typer.Option(min=1)]
NotNegative = Annotated[int, typer.Option(min=0)]
Salt = Annotated[str | None, typer.Option(envvar="COUNTERPOINT_SALT")]


@final
@dataclass(frozen=True)
class SearchEffort:
    """The options that limit a search: how good an answer has to be, and how long it may take.

    Parameters
    ----------
    gap
        By what share of its cost an answer may be dearer than the cheapest: 0.01 is 1 %. Larger is
        faster.
    time_limit : SECONDS
        For each row; a row that runs out of time keeps its best answer so far.
    """

    gap: float = 1e-6
    time_limit: float | None = None


def sections_of(command: Any) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring, and its sections by their headings."""
    pieces = re.split(r"^(.+)\n-{3,}\n", inspect.getdoc(command) or "", flags=re.MULTILINE)
    return pieces[0].strip(), dict(zip(pieces[1::2], pieces[2::2], strict=True))


def with_options(command: Any) -> Callable[..., Any]:
    """Wrap a command, or a class of shared options, so that Typer finds all options and their help.

    Each is told in the docstring as ``name : METAVAR``, with its help below, in a section that is a
    panel of the help page. In the place of a parameter that is a dataclass stand its fields:
    ``f(rows: Rows, out: Path)``, with a dataclass ``Rows`` of ``path`` and ``skip``, becomes
    ``f(*, path, skip, out)``.
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    texts = dict(_texts(command))
    shared = {  # by parameter, the function that makes its dataclass from the options of its fields
        name: with_options(parameter.annotation)
        for name, parameter in parameters.items()
        if is_dataclass(parameter.annotation)
    }
    fields = {name: inspect.signature(make).parameters for name, make in shared.items()}

    @wraps(command, updated=())
    def wrapper(**values: Any) -> Any:
        for name, make in shared.items():
            values[name] = make(**{field: values.pop(field) for field in fields[name]})
        return command(**values)

    options: list[inspect.Parameter] = []
    for name, parameter in parameters.items():
        if name in fields:
            options += fields[name].values()
        else:
            options.append(_described(parameter, *texts[name]))
    options.sort(key=lambda option: option.default is not option.empty)  # arguments come first
    wrapper.__annotations__ = {option.name: option.annotation for option in options}
    wrapper.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return wrapper


def _texts(command: Any) -> Iterator[tuple[str, tuple[str | None, str | None, str]]]:
    """Yield the name of each option in a docstring, with its panel, metavar and help."""
    for heading, section in sections_of(command)[1].items():
        panel = None if heading == "Parameters" else heading
        for entry in re.split(r"^(?=\S)", section, flags=re.MULTILINE)[1:]:
            head, _, text = entry.partition("\n")
            name, _, metavar = head.partition(" : ")
            yield name, (panel, metavar or None, " ".join(text.split()))


def _described(
    parameter: inspect.Parameter, panel: str | None, metavar: str | None, text: str
) -> inspect.Parameter:
    """Return a parameter as Typer takes it, with its help.

    A parameter without a default is an argument, unless its annotation says that it is an option.
    """
    kind, settings = parameter.annotation, None
    if get_origin(kind) is Annotated:
        kind, settings = get_args(kind)
    elif parameter.default is parameter.empty:
        settings = typer.Argument()
    settings = copy(settings or typer.Option())
    settings.help, settings.metavar, settings.rich_help_panel = text, metavar, panel
    settings.show_default = parameter.default not in (parameter.empty, None, False)
    if kind is bool:  # without a second name that says no
        settings.param_decls = (f"--{parameter.name.replace('_', '-')}",)
    annotation: Any = Annotated[kind, settings]
    return parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=annotation)


PYTHON = {
    r"Pass data= \(--data\), or a cost such as cp\.Manhattan\(\) \(\[cost\] in a policy file\), "
    "which weighs all features alike": "Say --data with rows like those the model was fitted on, "
    "or write [cost] in a policy file",
    r"pass extrapolate=True to lift it": "--extrapolate lifts it",
    r"\b([a-z_]+)=(?=[\s,:;)]|\.(?!\.))": r"--\1",
}
"""Patterns in sentences of the library that speak of Python, and their words here."""


def as_options(sentence: str) -> str:
    """Return a sentence with options in the place of parameters."""
    for pattern, words in PYTHON.items():
        sentence = re.sub(pattern, words, sentence)
    return sentence
