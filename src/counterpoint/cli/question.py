"""Options that commands share: the model, the policy, the target."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass, replace
from difflib import get_close_matches
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, cast, final

import numpy as np
import typer

import counterpoint as cp
from counterpoint.cli.files import check_out, option, read_rows
from counterpoint.cli.model_files import Trust
from counterpoint.errors import some

__all__ = [
    "Gap",
    "Model",
    "Optimal",
    "Rows",
    "Source",
    "Spec",
    "TimeLimit",
    "Wish",
    "flattened",
    "labels_of",
]

Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="The fitted model: a .skops file.", show_default=False),
]
Rows = Annotated[
    Path,
    typer.Argument(
        metavar="ROWS",
        help="The rows to explain (.csv, .parquet, .jsonl), with the model's columns by name.",
        show_default=False,
    ),
]
Spec = Annotated[
    Path | None,
    option("A policy file (.toml, .json): target, cost, constraints, features.", "POLICY"),
]
Gap = Annotated[
    float,
    typer.Option(
        help="By what share of its cost an answer may be dearer than the cheapest: 0.01 is 1 %. "
        "Larger is faster."
    ),
]
TimeLimit = Annotated[
    float | None,
    option("For each row; a row that runs out of time keeps its best answer so far.", "SECONDS"),
]
Optimal = Annotated[
    str,
    typer.Option(
        metavar="local|global",
        help="For the few models where finding the best answer can take long, such as prototypes "
        "with metrics of their own: 'local' finds a good one, 'global' the best, with SCIP.",
    ),
]


def flattened(command: Any) -> Callable[..., Any]:
    """Wrap a command, or a class, so that it takes the fields of dataclasses instead of these.

    Typer reads options from a signature: ``f(rows: Rows, out: Path)``, with a dataclass ``Rows`` of
    ``path`` and ``skip``, becomes ``f(*, path, skip, out)``.
    """
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    makers = {p.name: flattened(p.annotation) for p in parameters if is_dataclass(p.annotation)}
    fields = {name: inspect.signature(make).parameters for name, make in makers.items()}

    @wraps(command, updated=())
    def wrapper(**values: Any) -> Any:
        for name, make in makers.items():
            values[name] = make(**{field: values.pop(field) for field in fields[name]})
        return command(**values)

    flat = [field for p in parameters for field in fields.get(p.name, {p.name: p}).values()]
    flat.sort(key=lambda p: p.default is not p.empty)  # arguments before options
    options = [p.replace(kind=p.KEYWORD_ONLY) for p in flat]
    wrapper.__annotations__ = {p.name: p.annotation for p in options}
    wrapper.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return wrapper


@final
@dataclass(frozen=True)
class Source:
    """The options that name a model, its data and a policy."""

    model: Model
    trusted: Trust
    data: Annotated[
        Path | None,
        option(
            "Rows like those the model was fitted on (.csv, .parquet, .jsonl). They say which "
            "columns are whole numbers, what ranges are usual, and what a change costs.",
            "TRAIN",
        ),
    ] = None
    extrapolate: Annotated[
        bool,
        option(
            "With --data: numbers may leave the range that the data show.", None, "--extrapolate"
        ),
    ] = False
    spec: Spec = None

    def loaded(self) -> tuple[Any, Any, cp.Problem]:
        """Return the model; the data, or None; the policy."""
        problem = cp.Problem() if self.spec is None else cp.Problem.load(self.spec)
        problem = replace(problem, extrapolate=self.extrapolate or problem.extrapolate)
        model = self.trusted.load(self.model)
        return model, None if self.data is None else read_rows(self.data), problem

    def explainer(self, wish: Wish) -> tuple[cp.Explainer, cp.Target]:
        """Return the explainer, and the target of the options or of the policy."""
        model, train, problem = self.loaded()
        explainer = problem.explainer(model, data=train)  # says so if it is none, or not fitted
        return explainer, wish.target_for(model, problem.target)

    def check_out(self, out: Path | None, *inputs: Path | None) -> None:
        """Raise, before any work, if a file cannot be written or would replace an input."""
        if out is not None:
            check_out(out, self.model, self.data, self.spec, *inputs)


TARGET = "Target: one of these, or in the policy file"


@final
@dataclass(frozen=True)
class Wish:
    """The options that say which target is wanted."""

    target: Annotated[
        list[str] | None,
        option(
            "The decision that is wanted, such as granted. Repeat it to allow several.",
            "LABEL",
            panel=TARGET,
        ),
    ] = None
    other: Annotated[
        bool,
        option("Any class other than the current prediction.", None, "--other", panel=TARGET),
    ] = False
    probability: Annotated[
        float | None,
        option(
            "With --target: the model's probability of the label is at least P.", "P", panel=TARGET
        ),
    ] = None
    tradeoff: Annotated[
        float | None,
        option(
            "With --target: the best of W/2 · cost − log of the model's probability of the label; "
            "a small W buys more probability for more change.",
            "W",
            panel=TARGET,
        ),
    ] = None
    robust: Annotated[
        float | None,
        option(
            "With --target, for a model with uncertain weights: the true weights are for the label "
            "with probability P.",
            "P",
            panel=TARGET,
        ),
    ] = None
    guarantee: Annotated[
        str | None,
        option(
            "With --robust: 'selection' for an answer that is so sure although it was chosen by "
            "looking at the weights, 'fixed' for one that would be, had it been fixed beforehand, "
            "or 'best', the default, for the first where it is attainable, else the second.",
            "HOW",
            panel=TARGET,
        ),
    ] = None
    margin: Annotated[
        float | None,
        option(
            "With --target or --other: by how much the score exceeds all others, in score units.",
            "M",
            panel=TARGET,
        ),
    ] = None
    low: Annotated[
        float | None, option("For a regressor: the prediction is at least this.", panel=TARGET)
    ] = None
    high: Annotated[
        float | None, option("For a regressor: the prediction is at most this.", panel=TARGET)
    ] = None

    def target_for(self, model: Any, otherwise: cp.Target | None) -> cp.Target:
        """Return the target that the options state; ``otherwise`` is that of the policy file."""
        model_labels = labels_of(model)
        makers = dict(self._makers())
        self._refuse_contradictions(list(makers))
        if (self.low, self.high) != (None, None):
            if model_labels is not None:
                raise cp.InvalidInput(
                    "--low and --high are for models that predict numbers; this one decides "
                    f"between {_some(model_labels)}. Say --target or --other."
                )
            low = -np.inf if self.low is None else self.low
            return cp.Interval(low, np.inf if self.high is None else self.high)
        if self.other:
            return cp.OtherLabel(margin=self.margin or 0.0)
        labels = tuple(_label(text, model_labels) for text in self.target or ())
        for make in makers.values():  # there is at most one
            return make(labels[0])
        if labels:
            return cp.Label(labels if len(labels) > 1 else labels[0], self.margin or 0.0)
        return otherwise or _nothing(model_labels)

    def _makers(self) -> Iterator[tuple[str, Callable[[Any], cp.Target]]]:
        """Yield the options about one label, each with a function that makes the target of it."""
        if self.probability is not None:
            yield "--probability", partial(cp.Probability, at_least=self.probability)
        if self.tradeoff is not None:
            yield "--tradeoff", partial(cp.Tradeoff, weight=self.tradeoff)
        if self.robust is not None:
            how = cast("Any", self.guarantee or "best")
            yield "--robust", partial(cp.Robust, probability=self.robust, guarantee=how)
        elif self.guarantee is not None:
            raise cp.InvalidInput("--guarantee goes with --robust.")

    def _refuse_contradictions(self, about: list[str]) -> None:
        """Refuse options that state two targets; those in ``about`` need exactly one label."""
        texts = self.target or ()
        is_range = (self.low, self.high) != (None, None)
        options = {"--target": bool(texts), "--other": self.other, "--low or --high": is_range}
        ways = [name for name, is_given in options.items() if is_given]
        if len(ways) > 1:
            raise cp.InvalidInput(f"Expected one target; got {' and '.join(ways)}. Keep one.")
        if len(about) > 1:
            raise cp.InvalidInput(f"Expected one of {' and '.join(about)}; got both. Keep one.")
        if about and len(texts) != 1:
            raise cp.InvalidInput(
                f"{about[0]} is about one label; got {len(texts)}. Say which with --target."
            )
        if self.margin is not None and (about or not (self.other or texts)):
            raise cp.InvalidInput(
                "--margin goes with --target or --other, without --probability, --tradeoff or "
                "--robust."
            )


def labels_of(model: Any) -> list[Any] | None:
    """The class labels of a classifier; None for a regressor."""
    labels = getattr(model, "classes_", None)
    return None if labels is None else list(labels.tolist())


def _nothing(labels: list[Any] | None) -> cp.Target:
    if labels is None:
        raise cp.InvalidInput(
            "Expected a range for the prediction; got none. Say --low, --high or both, or write a "
            "target in the policy file."
        )
    raise cp.InvalidInput(
        f"Expected a target; got none. Say --target with one of {_some(labels)}, or "
        "--other for any class other than the current prediction, or write a target in the policy "
        "file."
    )


def _label(text: str, labels: list[Any] | None) -> Any:
    if labels is None:
        raise cp.InvalidInput(
            f"This model predicts numbers and has no label {text!r}. Say --low, --high or both."
        )
    for label in labels:
        if text == str(label) or _same_number(text, label):
            return label
    by_letters = {str(label).casefold(): label for label in labels}
    near = get_close_matches(text.casefold(), by_letters, n=1)
    if near:
        likely = _quoted(by_letters[near[0]])
        raise cp.InvalidInput(f"The model has no label {text!r}; did you mean {likely}?")
    raise cp.InvalidInput(f"The model has no label {text!r}; it has {_some(labels)}.")


def _some(labels: list[Any]) -> str:
    return some(labels, 12, _quoted)


def _quoted(label: Any) -> str:
    """Return a label as it is written on the command line."""
    return shlex.quote(str(label))


def _same_number(text: str, label: Any) -> bool:
    try:
        return not isinstance(label, bool | str) and float(text) == float(label)
    except (TypeError, ValueError):
        return False
