"""`counterpoint explain` and `counterpoint inspect`: the cheapest changes, and what was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal, cast

import numpy as np
import typer

import counterpoint as cp
from counterpoint.cli.answers import Listing, console, plain, show_answer, show_total
from counterpoint.cli.files import (
    Trust,
    TrustPickle,
    check_out,
    labels_of,
    load_model,
    option,
    read_rows,
    write,
)
from counterpoint.errors import some

__all__ = [
    "Data",
    "Extrapolate",
    "Gap",
    "Guaranteed",
    "High",
    "Low",
    "Margin",
    "Model",
    "Optimal",
    "Other",
    "Rows",
    "Spec",
    "Sure",
    "TimeLimit",
    "Traded",
    "Uncertain",
    "Wanted",
    "about_of",
    "asked",
    "explain",
    "inspect",
    "target_of",
]

Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="The fitted model: a .skops file.", show_default=False),
]
Data = Annotated[
    Path | None,
    option(
        "Rows like those the model was fitted on (.csv, .parquet, .jsonl): kinds of features, "
        "observed ranges and the default cost come from them.",
        "TRAIN",
    ),
]
Extrapolate = Annotated[
    bool,
    typer.Option(
        "--extrapolate", help="With --data: numbers may leave the range that the data show."
    ),
]
Spec = Annotated[
    Path | None,
    option("A policy file (.toml, .json): target, cost, constraints, features.", "POLICY"),
]


def inspect(
    model: Model,
    data: Data = None,
    extrapolate: Extrapolate = False,
    spec: Spec = None,
    trust_pickle: TrustPickle = False,
    trust: Trust = None,
) -> None:
    """Say what was read of a model: its steps, the features, the cost, the constraints."""
    problem = _problem(spec, extrapolate=extrapolate)
    loaded = load_model(model, trust_pickle=trust_pickle, trust=trust or ())
    train = None if data is None else read_rows(data)
    if train is None and problem.cost is None:
        problem = replace(problem, cost=cp.Manhattan())
        features = problem.explainer(loaded).features
        if all(isinstance(f, cp.Categorical) or f.observed is not None for f in features):
            problem = replace(problem, cost=None)  # policy or model say enough to take it from
        else:
            note = "Note: without --data every number counts as continuous, and every unit costs 1."
            typer.echo(note, err=True)
    explainer = problem.explainer(loaded, data=train)
    labels = labels_of(loaded)
    decides = "a number" if labels is None else ", ".join(map(str, labels))
    typer.echo(f"decides\n  {decides}\n{explainer.summary()}")


TARGET = "Target: one of these, or in the policy file"
OUTPUT = "Answers"

Rows = Annotated[
    Path,
    typer.Argument(
        metavar="ROWS",
        help="The rows to explain (.csv, .parquet, .jsonl), with the model's columns by name.",
        show_default=False,
    ),
]
Wanted = Annotated[
    list[str] | None,
    option("The decision that is wanted. Repeat it for 'one of these'.", "LABEL", panel=TARGET),
]
Other = Annotated[
    bool,
    typer.Option(
        "--other", help="Any class other than the current prediction.", rich_help_panel=TARGET
    ),
]
Sure = Annotated[
    float | None,
    option("With --target: the model's probability of the label is at least P.", "P", panel=TARGET),
]
Traded = Annotated[
    float | None,
    option(
        "With --target: the best of W/2 · cost − log of the model's probability of the label; "
        "a small W buys more probability for more change.",
        "W",
        panel=TARGET,
    ),
]
Uncertain = Annotated[
    float | None,
    option(
        "With --target, for a model with uncertain weights: the true weights are for the label "
        "with probability P.",
        "P",
        panel=TARGET,
    ),
]
Guaranteed = Annotated[
    str | None,
    option(
        "With --robust: 'selection' for an answer that is so sure although it was chosen by "
        "looking at the weights, 'fixed' for one that would be, had it been fixed beforehand, "
        "or 'best', the default, for the first where it is attainable, else the second.",
        "HOW",
        panel=TARGET,
    ),
]
Margin = Annotated[
    float | None,
    option(
        "With --target or --other: by how much the score exceeds all others, in score units.",
        "M",
        panel=TARGET,
    ),
]
Low = Annotated[
    float | None, option("For a regressor: the prediction is at least this.", panel=TARGET)
]
High = Annotated[
    float | None, option("For a regressor: the prediction is at most this.", panel=TARGET)
]
Gap = Annotated[
    float,
    typer.Option(
        help="Stop a search once (objective − bound) / objective is at most this; the "
        "objective is the cost, but for --tradeoff."
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
        help="Where the target is not convex: the best answer that several descents find, or "
        "with SCIP the best of all.",
    ),
]


def explain(
    model: Model,
    rows: Rows,
    target: Wanted = None,
    other: Other = False,
    probability: Sure = None,
    tradeoff: Traded = None,
    robust: Uncertain = None,
    guarantee: Guaranteed = None,
    margin: Margin = None,
    low: Low = None,
    high: High = None,
    data: Data = None,
    extrapolate: Extrapolate = False,
    spec: Spec = None,
    gap: Gap = 1e-6,
    time_limit: TimeLimit = None,
    alternatives: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Up to N answers to each row, the cheapest first, that differ as --differ says.",
            show_default=False,
        ),
    ] = None,
    differ: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="With --alternatives: in their changed 'features', 'disjoint' for none in common, "
            "or one for each 'piece' of the target, such as the cell of a prototype.",
        ),
    ] = "features",
    optimality: Optimal = "local",
    out: Annotated[
        Path | None,
        option(
            "Write the answers to a .csv, .parquet or .jsonl file; - for JSON lines on standard "
            "output. Without it, a report to read.",
            "FILE",
            panel=OUTPUT,
        ),
    ] = None,
    records: Annotated[
        Path | None,
        option(
            "Write a record of each answer besides, which `counterpoint recheck` checks: a .jsonl "
            "or .parquet file.",
            "FILE",
            panel=OUTPUT,
        ),
    ] = None,
    salt: Annotated[
        str | None,
        typer.Option(
            help="With --records: a secret text; records hold hashes in the place of rows.",
            envvar="COUNTERPOINT_SALT",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    show: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Without --out: how many rows to show.", rich_help_panel=OUTPUT
        ),
    ] = 5,
    reasons: Annotated[
        bool,
        typer.Option(
            "--reasons",
            help="For each row that no change can help, search for the constraints that conflict. "
            "It can take long.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    trust_pickle: TrustPickle = False,
    trust: Trust = None,
) -> None:
    """Find the cheapest change of each row that makes the model decide as wanted.

    Every answer comes with its certificate: cost, lower bound and its source, gap.
    """
    if out is not None:
        check_out(out, model, rows, data, spec)
    if records is not None:
        check_out(records, model, rows, data, spec, out)
        if alternatives is not None or records.suffix not in (".jsonl", ".parquet"):
            raise cp.InvalidInput(
                "Expected --records as a .jsonl or .parquet file, without --alternatives, for "
                "records are of the cheapest answer of each row."
            )
    explainer, otherwise = asked(model, data, spec, extrapolate, trust_pickle, trust)
    wanted = target_of(
        labels_of(explainer.model),
        target or (),
        about_of(probability, tradeoff, robust, guarantee),
        other=other,
        margin=margin,
        ends=(low, high),
        otherwise=otherwise,
    )
    X = read_rows(rows)
    start = perf_counter()
    found = explainer.explain(
        X,
        wanted,
        n=cast("int", alternatives),
        by=differ if alternatives is not None else "features",
        gap=gap,
        time_limit=time_limit,
        optimality=cast("Literal['local', 'global']", optimality),
    )
    seconds = perf_counter() - start
    listing = Listing.of(X, found)
    if records is not None:
        listing.answers.to_records(records, salt=salt)
    if out is None:
        _report(listing, len(X), seconds, show, reasons=reasons)
    else:
        to = write(
            out, partial(listing.table, reasons=reasons), partial(listing.lines, reasons=reasons)
        )
        what = f"{len(listing.X)} {'rows' if alternatives is None else 'answers'}"
        typer.echo(f"Wrote {what} to {to} ({plain(seconds)} s).\n{listing.summary}", err=True)
    if not listing.answers.found.all():
        raise typer.Exit(3)


def asked(
    model: Path,
    data: Path | None,
    spec: Path | None,
    extrapolate: bool,
    trust_pickle: bool,
    trust: Sequence[str] | None,
) -> tuple[cp.Explainer, cp.Target | None]:
    """The explainer that options name, and the target of the policy file."""
    problem = _problem(spec, extrapolate=extrapolate)
    loaded = load_model(model, trust_pickle=trust_pickle, trust=trust or ())
    train = None if data is None else read_rows(data)
    explainer = problem.explainer(loaded, data=train)  # says so if it is none, or not fitted
    return explainer, problem.target


def _problem(spec: Path | None, *, extrapolate: bool) -> cp.Problem:
    problem = cp.Problem() if spec is None else cp.Problem.load(spec)
    return replace(problem, extrapolate=extrapolate or problem.extrapolate)


def _report(listing: Listing, rows: int, seconds: float, most: int, *, reasons: bool) -> None:
    out = console()
    for k in np.flatnonzero(listing.places["row"] < most).tolist():
        show_answer(out, listing.title(k), listing.answers[k], reason=reasons)
    if rows > most > 0:
        out.print(f"and {rows - most} more rows (--show, --out)\n", style="dim")
    show_total(out, listing.summary, rows, seconds)


def about_of(
    probability: float | None, tradeoff: float | None, robust: float | None, guarantee: str | None
) -> dict[str, Callable[[Any], cp.Target]]:
    """Option → what it makes of one label."""
    about: dict[str, Callable[[Any], cp.Target]] = {}
    if probability is not None:
        about["--probability"] = partial(cp.Probability, at_least=probability)
    if tradeoff is not None:
        about["--tradeoff"] = partial(cp.Tradeoff, weight=tradeoff)
    if robust is not None:
        how: Any = guarantee or "best"
        about["--robust"] = partial(cp.Robust, probability=robust, guarantee=how)
    elif guarantee is not None:
        raise cp.InvalidInput("--guarantee goes with --robust.")
    return about


def target_of(
    known: list[Any] | None,
    texts: Sequence[str],
    about: dict[str, Callable[[Any], cp.Target]],
    *,
    other: bool,
    margin: float | None,
    ends: tuple[float | None, float | None],
    otherwise: cp.Target | None,
) -> cp.Target:
    """The target that options name; ``otherwise`` is that of the policy file.

    ``known`` are the labels of the model (None for a regressor), and ``texts`` those that are
    wanted.
    """
    is_range = ends != (None, None)
    _refuse_contradictions(texts, list(about), other=other, is_range=is_range, margin=margin)
    if is_range:
        return _interval(known, *ends)
    if other:
        return cp.OtherLabel(margin=margin or 0.0)
    labels = tuple(_label(text, known) for text in texts)
    for make in about.values():
        return make(labels[0])
    if labels:
        return cp.Label(labels if len(labels) > 1 else labels[0], margin or 0.0)
    return otherwise or _nothing(known)


def _refuse_contradictions(
    texts: Sequence[str], about: list[str], *, other: bool, is_range: bool, margin: float | None
) -> None:
    given = {"--target": bool(texts), "--other": other, "--low or --high": is_range}
    ways = [name for name, is_given in given.items() if is_given]
    if len(ways) > 1:
        raise cp.InvalidInput(f"Expected one target; got {' and '.join(ways)}. Keep one.")
    if len(about) > 1:
        raise cp.InvalidInput(f"Expected one of {' and '.join(about)}; got both. Keep one.")
    if about and len(texts) != 1:
        raise cp.InvalidInput(
            f"{about[0]} is about one label; got {len(texts)}. Say which with --target."
        )
    if margin is not None and (about or not (other or texts)):
        raise cp.InvalidInput(
            "--margin goes with --target or --other, without --probability, --tradeoff or --robust."
        )


def _interval(known: list[Any] | None, low: float | None, high: float | None) -> cp.Target:
    if known is not None:
        raise cp.InvalidInput(
            "--low and --high are for models that predict numbers; this one decides between "
            f"{some(known, 12, str)}. Say --target or --other."
        )
    return cp.Interval(-np.inf if low is None else low, np.inf if high is None else high)


def _nothing(known: list[Any] | None) -> cp.Target:
    if known is None:
        raise cp.InvalidInput(
            "Expected a range for the prediction; got none. Say --low, --high or both, or write a "
            "target in the policy file."
        )
    raise cp.InvalidInput(
        f"Expected a target; got none. Say --target with one of {some(known, 12, str)}, or --other "
        "for any class other than the current prediction, or write a target in the policy file."
    )


def _label(text: str, known: list[Any] | None) -> Any:
    """The label of the model whose text this is."""
    if known is None:
        raise cp.InvalidInput(
            f"This model predicts numbers and has no label {text!r}. Say --low, --high or both."
        )
    for label in known:
        if text == str(label) or _same_number(text, label):
            return label
    raise cp.InvalidInput(f"The model has no label {text!r}; it has {some(known, 12, str)}.")


def _same_number(text: str, label: Any) -> bool:
    try:
        return not isinstance(label, bool | str) and float(text) == float(label)
    except (TypeError, ValueError):
        return False
