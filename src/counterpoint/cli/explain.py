"""`counterpoint explain` and `batch` find the cheapest changes, `inspect` says what was read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import typer

import counterpoint as cp
from counterpoint.cli.answers import CHEAPEST, Listing, console, plain, show_answer, show_total
from counterpoint.cli.files import check_out, write
from counterpoint.cli.options import Count, NotNegative, Salt, SearchEffort, as_options
from counterpoint.cli.question import Question, Source, Wish, labels_of


def inspect(source: Source) -> None:
    """Say what was read of a model: its steps, the features, the cost, the constraints.

    Examples
    --------
    counterpoint inspect model.skops --data train.csv
    """
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
    question: Question,
    effort: SearchEffort,
    alternatives: int | None = None,
    differ: str = "features",
    optimality: str = "local",
    out: Path | None = None,
    records: Path | None = None,
    salt: Salt = None,
    show: NotNegative = 5,
    exact: bool = False,
    reasons: bool = False,
) -> None:
    """Find the cheapest change of each row that makes the model decide as wanted.

    Every answer says what it costs, and whether it is proved to be the cheapest.

    Parameters
    ----------
    alternatives : N
        Up to N answers to each row, the cheapest first, that differ as --differ says.
    differ : HOW
        With --alternatives: in their changed 'features', 'disjoint' for none in common, or one for
        each 'piece' of the target, such as the cell of a prototype.
    optimality : local|global
        For the few models where finding the best answer can take long, such as prototypes with
        metrics of their own: 'local' finds a good one, 'global' the best, with SCIP.

    Answers
    -------
    out : FILE
        Write the answers to a .csv, .parquet or .jsonl file; - for JSON lines on standard output.
        Without it, a report to read.
    records : FILE
        Write a record of each answer besides, which `counterpoint recheck` checks: a .jsonl or
        .parquet file.
    salt
        With --records: a secret text; records hold hashes in the place of rows.
    show : N
        Without --out: how many rows to show.
    exact
        Without --out: show all digits. Else numbers that change are shown in three or a few more,
        with which the model was asked again; files always hold all digits.
    reasons
        For each row that no change can help, search for the constraints that conflict. It can take
        long.

    Examples
    --------
    counterpoint explain model.skops rows.csv --data train.csv --target granted
    """
    check_out(out, *question.inputs)
    check_out(records, *question.inputs, out)
    if records is not None and (
        alternatives is not None or records.suffix not in (".jsonl", ".parquet")
    ):
        raise cp.InvalidInput(
            "Expected --records as a .jsonl or .parquet file, without --alternatives, for records "
            "are of the cheapest answer of each row."
        )
    explainer, target, X = question.read()
    options: dict[str, Any] = {**vars(effort), "optimality": optimality}
    if alternatives is not None:
        options |= {"n": alternatives, "by": differ}
    start = perf_counter()
    answers = explainer.explain(X, target, **options)
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
    """Print the answers to the first rows, at ``most`` so many, and the total of all ``rows``."""
    out, is_rounded, status = console(), False, listing.answers.status
    visible = np.flatnonzero(listing.row_and_rank["row"] < most).tolist()
    ranks = listing.row_and_rank.get("rank", np.zeros(len(status), int))
    for k in visible:
        best = CHEAPEST if ranks[k] == 0 else "the cheapest that differs so"
        is_rounded |= show_answer(
            out, listing.title(k), listing.answers[k], reason=reasons, exact=exact, best=best
        )
    if rows > most > 0:
        out.print(f"and {rows - most} more rows (--show, --out)\n", style="dim")
    show_total(out, listing.summary, rows, seconds)
    if is_rounded:
        out.print("Numbers above are in few digits; --exact shows all of them.", style="dim")
    if not reasons and cp.Status.INFEASIBLE in status[visible]:
        out.print("--reasons says why there is no answer.", style="dim")


def batch(
    wish: Wish,
    source: Source,
    rows: str,
    out: str,
    effort: SearchEffort,
    optimality: str = "local",
    workers: Count = 1,
    scheduler: str | None = None,
    records: bool = False,
) -> None:
    """Explain all rows of a data set, of any size, into another data set.

    The same call takes up what was interrupted.

    Parameters
    ----------
    rows : ROWS
        A .parquet or .csv file, a folder of these, or a URL such as s3://bucket/rows.
    out : OUT
        A folder or a URL for the answers, a data set in Parquet files. What is there already is not
        done again.
    optimality : local|global
        For the few models where finding the best answer can take long, such as prototypes with
        metrics of their own: 'local' finds a good one, 'global' the best, with SCIP.
    records
        Write records beside, for `counterpoint recheck`.

    Who works on it
    ---------------
    workers : N
        Processes, each on one core.
    scheduler : ADDRESS
        A Dask scheduler, such as tcp://host:8786; 'local' for a cluster of --workers on this
        machine.

    Examples
    --------
    counterpoint batch model.skops rows.parquet answers --data train.csv --target granted
    --workers 4
    """
    from counterpoint.scale import run

    explainer, target = source.explainer(wish)
    options: dict[str, Any] = {**vars(effort), "optimality": optimality}
    report = run(
        explainer,
        rows,
        out,
        target,
        **options,
        workers=workers,
        scheduler=scheduler,
        records=records,
    )
    typer.echo(str(report))
    typer.echo(f"Wrote {out} ({plain(report.seconds)} s).", err=True)
    if not report.ok:
        raise typer.Exit(3)
