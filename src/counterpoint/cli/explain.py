"""`counterpoint explain` and `counterpoint inspect`: the cheapest changes, and what was read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, Literal, cast

import numpy as np
import typer

import counterpoint as cp
from counterpoint.cli.answers import CHEAPEST, Listing, console, plain, show_answer, show_total
from counterpoint.cli.files import option, out_option, read_rows, write
from counterpoint.cli.question import Gap, Optimal, Rows, Source, TimeLimit, Wish, labels_of
from counterpoint.cli.words import as_options

__all__ = ["explain", "inspect"]

OUTPUT = "Answers"


def inspect(source: Source) -> None:
    """Say what was read of a model: its steps, the features, the cost, the constraints."""
    loaded, train, problem = source.loaded()
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
    typer.echo(f"decides\n  {decides}\n{as_options(explainer.summary())}")


def explain(
    wish: Wish,
    source: Source,
    rows: Rows,
    gap: Gap = 1e-6,
    time_limit: TimeLimit = None,
    alternatives: Annotated[
        int | None,
        option(
            "Up to N answers to each row, the cheapest first, that differ as --differ says.",
            "N",
            min=1,
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
        out_option("the answers", "a report to read", OUTPUT),
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
        option(
            "With --records: a secret text; records hold hashes in the place of rows.",
            panel=OUTPUT,
            envvar="COUNTERPOINT_SALT",
        ),
    ] = None,
    show: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Without --out: how many rows to show.", rich_help_panel=OUTPUT
        ),
    ] = 5,
    exact: Annotated[
        bool,
        option(
            "Without --out: show all digits. Else numbers that change are shown in three or a few "
            "more, with which the model was asked again; files always hold all digits.",
            None,
            "--exact",
            panel=OUTPUT,
        ),
    ] = False,
    reasons: Annotated[
        bool,
        option(
            "For each row that no change can help, search for the constraints that conflict. "
            "It can take long.",
            None,
            "--reasons",
            panel=OUTPUT,
        ),
    ] = False,
) -> None:
    """Find the cheapest change of each row that makes the model decide as wanted.

    Every answer says what it costs, and whether it is proved to be the cheapest.
    """
    source.check_out(out, rows)
    source.check_out(records, rows, out)
    if records is not None and (
        alternatives is not None or records.suffix not in (".jsonl", ".parquet")
    ):
        raise cp.InvalidInput(
            "Expected --records as a .jsonl or .parquet file, without --alternatives, for records "
            "are of the cheapest answer of each row."
        )
    explainer, wanted = source.explainer(wish)
    X = read_rows(rows)
    start = perf_counter()
    answers = explainer.explain(
        X,
        wanted,
        n=cast("int", alternatives),
        by=differ if alternatives is not None else "features",
        gap=gap,
        time_limit=time_limit,
        optimality=cast("Literal['local', 'global']", optimality),
    )
    seconds = perf_counter() - start
    listing = Listing.of(X, answers)
    if records is not None:
        listing.answers.to_records(records, salt=salt)
    if out is None:
        _report(listing, len(X), seconds, show, reasons=reasons, exact=exact)
    else:
        to = write(
            out, partial(listing.table, reasons=reasons), partial(listing.lines, reasons=reasons)
        )
        what = f"{len(listing.X)} {'rows' if alternatives is None else 'answers'}"
        typer.echo(f"Wrote {what} to {to} ({plain(seconds)} s).\n{listing.summary}", err=True)
    if not listing.answers.found.all():
        raise typer.Exit(3)


def _report(
    listing: Listing, rows: int, seconds: float, most: int, *, reasons: bool, exact: bool
) -> None:
    out, rounded, status = console(), False, listing.answers.status
    visible = np.flatnonzero(listing.places["row"] < most).tolist()
    ranks = listing.places.get("rank", np.zeros(len(status), int))
    for k in visible:
        best = CHEAPEST if ranks[k] == 0 else "the cheapest that differs so"
        rounded |= show_answer(
            out, listing.title(k), listing.answers[k], reason=reasons, exact=exact, best=best
        )
    if rows > most > 0:
        out.print(f"and {rows - most} more rows (--show, --out)\n", style="dim")
    show_total(out, listing.summary, rows, seconds)
    if rounded:
        out.print("Numbers above are in few digits; --exact shows all of them.", style="dim")
    if not reasons and cp.Status.INFEASIBLE in status[visible]:
        out.print("--reasons says why there is no answer.", style="dim")
