"""`counterpoint batch`: the rows of files of any size, explained by several processes."""

from __future__ import annotations

from typing import Annotated, Literal, cast

import typer

from counterpoint.cli.answers import plain
from counterpoint.cli.files import option
from counterpoint.cli.question import Gap, Optimal, Source, TimeLimit, Wish

__all__ = ["batch"]

WORK = "Who works on it"


def batch(
    wish: Wish,
    source: Source,
    rows: Annotated[
        str,
        typer.Argument(
            metavar="ROWS",
            help="A .parquet or .csv file, a folder of these, or a URL such as s3://bucket/rows.",
            show_default=False,
        ),
    ],
    out: Annotated[
        str,
        typer.Argument(
            metavar="OUT",
            help="A folder or a URL for the answers, a data set in Parquet files. What is there "
            "already is not done again.",
            show_default=False,
        ),
    ],
    gap: Gap = 1e-6,
    time_limit: TimeLimit = None,
    optimality: Optimal = "local",
    workers: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Processes, each on one core.", rich_help_panel=WORK),
    ] = 1,
    scheduler: Annotated[
        str | None,
        option(
            "A Dask scheduler, such as tcp://host:8786; 'local' for a cluster of --workers on this "
            "machine.",
            "ADDRESS",
            panel=WORK,
        ),
    ] = None,
    records: Annotated[
        bool,
        typer.Option("--records", help="Write records beside, for `counterpoint recheck`."),
    ] = False,
) -> None:
    """Explain all rows of a data set, of any size, into another data set.

    The same call takes up what was interrupted.
    """
    from counterpoint.scale import run

    explainer, wanted = source.explainer(wish)
    report = run(
        explainer,
        rows,
        out,
        wanted,
        gap=gap,
        time_limit=time_limit,
        optimality=cast("Literal['local', 'global']", optimality),
        workers=workers,
        scheduler=scheduler,
        records=records,
    )
    typer.echo(str(report))
    typer.echo(f"Wrote {out} ({plain(report.seconds)} s).", err=True)
    if not report.ok:
        raise typer.Exit(3)
