"""`counterpoint explain`: the cheapest changes for the rows of a file."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

import counterpoint as cp
from counterpoint.cli.answers import Listing, write_answers
from counterpoint.cli.files import STDOUT, check_out
from counterpoint.cli.models import labels_of, load_model
from counterpoint.cli.options import Data, Extrapolate, Model, Spec, Trust, TrustPickle
from counterpoint.cli.rows import read_rows
from counterpoint.cli.show import console, plain, show_answer, show_total
from counterpoint.cli.speech import Exit, note, sentences
from counterpoint.cli.targets import Wish

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["explain"]

TARGET = "Target: one of these, or in the policy file"
OUTPUT = "Answers"


def explain(
    model: Model,
    rows: Annotated[
        Path,
        typer.Argument(
            metavar="ROWS",
            help="The rows to explain (.csv, .parquet, .jsonl), with the model's columns by name.",
            show_default=False,
        ),
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL",
            help="The decision that is wanted. Repeat it for 'one of these'.",
            show_default=False,
            rich_help_panel=TARGET,
        ),
    ] = None,
    other: Annotated[
        bool,
        typer.Option("--other", help="Any other decision than now.", rich_help_panel=TARGET),
    ] = False,
    probability: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="With --target: the model's probability of the label is at least P.",
            show_default=False,
            rich_help_panel=TARGET,
        ),
    ] = None,
    tradeoff: Annotated[
        float | None,
        typer.Option(
            metavar="W",
            help="With --target: the best of W/2 · cost − log of the model's probability of the "
            "label; a small W buys more probability for more change.",
            show_default=False,
            rich_help_panel=TARGET,
        ),
    ] = None,
    robust: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="With --target, for a model with uncertain weights: the true weights are for the "
            "label with probability P.",
            show_default=False,
            rich_help_panel=TARGET,
        ),
    ] = None,
    guarantee: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="With --robust: 'selection' for an answer that is so sure although it was chosen "
            "by looking at the weights, 'fixed' for one that would be, had it been fixed "
            "beforehand, or 'best', the default, for the first where it can be had, else the "
            "second.",
            show_default=False,
            rich_help_panel=TARGET,
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            metavar="M",
            help="With --target or --other: by how much the score exceeds all others, in score "
            "units.",
            show_default=False,
            rich_help_panel=TARGET,
        ),
    ] = None,
    low: Annotated[
        float | None,
        typer.Option(
            help="For a regressor: the prediction is at least this.",
            show_default=False,
            rich_help_panel=TARGET,
        ),
    ] = None,
    high: Annotated[
        float | None,
        typer.Option(
            help="For a regressor: the prediction is at most this.",
            show_default=False,
            rich_help_panel=TARGET,
        ),
    ] = None,
    data: Data = None,
    extrapolate: Extrapolate = False,
    spec: Spec = None,
    gap: Annotated[
        float,
        typer.Option(
            help="Stop a search once (objective − bound) / objective is at most this; the "
            "objective is the cost, but for --tradeoff."
        ),
    ] = 1e-6,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="For each row; a row that runs out of time keeps its best answer so far.",
            show_default=False,
        ),
    ] = None,
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
    optimality: Annotated[
        str,
        typer.Option(
            metavar="local|global",
            help="Where the target is not convex: the best answer that several descents find, or "
            "with SCIP the best of all.",
        ),
    ] = "local",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the answers to a .csv, .parquet or .jsonl file; - for JSON lines on "
            "standard output. Without it, a report for people.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    show: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Without --out: how many rows to show.",
            rich_help_panel=OUTPUT,
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

    Every answer comes with its certificate: cost, lower bound, gap, and what the bound rests on.
    """
    with sentences():
        wish = Wish(
            target or (), other, probability, margin, low, high, tradeoff, robust, guarantee
        )
        if out is not None:
            check_out(out, model, rows, data, spec)
        problem = cp.Problem() if spec is None else cp.Problem.load(spec)
        problem = replace(problem, extrapolate=extrapolate or problem.extrapolate)
        loaded = load_model(model, trust_pickle=trust_pickle, trust=trust or ())
        explainer = _explainer(problem, loaded, data)  # says so if the model is none, or not fitted
        wanted = wish.target(labels_of(loaded), problem.target)
        X = read_rows(rows)
        best = cast("Literal['local', 'global']", optimality)
        start = perf_counter()
        if alternatives is None:
            answers = explainer.explain(X, wanted, gap=gap, time_limit=time_limit, optimality=best)
            listing = Listing(X, answers, answers.summary())
        else:
            several = cp.diversify(
                explainer,
                X,
                wanted,
                alternatives,
                by=differ,
                gap=gap,
                time_limit=time_limit,
                optimality=best,
            )
            listing = Listing.several(X, several)
        seconds = perf_counter() - start
        if out is None:
            _report(listing, seconds, show, reasons=reasons)
        else:
            write_answers(out, sys.stdout, listing, reasons=reasons)
            to = "standard output" if out == STDOUT else out
            lines = f"{len(listing.X)} {'rows' if alternatives is None else 'answers'}"
            note(f"Wrote {lines} to {to} ({plain(seconds)} s).\n{listing.summary}")
    if not listing.answers.found.all():
        raise typer.Exit(Exit.UNANSWERED)


def _explainer(problem: cp.Problem, model: Any, data: Path | None) -> cp.Explainer:
    train: pd.DataFrame | None = None if data is None else read_rows(data)
    return problem.explainer(model, data=train)


def _report(listing: Listing, seconds: float, most: int, *, reasons: bool) -> None:
    out = console()
    for title, answer in listing.shown(most):
        show_answer(out, title, answer, reason=reasons)
    if listing.rows > most > 0:
        out.print(f"and {listing.rows - most} more rows (--show, --out)\n", style="dim")
    show_total(out, listing.summary, listing.rows, seconds)
