"""`counterpoint groups`: what tells groups of rows apart."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import counterpoint as cp
from counterpoint.cli.files import check_out, option, out_option, read_rows, write
from counterpoint.cli.model_files import Trust
from counterpoint.errors import some

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["groups"]


def groups(
    rows: Annotated[
        Path,
        typer.Argument(
            metavar="ROWS",
            help="The rows (.csv, .parquet, .jsonl), with the group of each in one of the columns.",
            show_default=False,
        ),
    ],
    trusted: Trust,
    column: Annotated[
        str,
        option(
            "The column that says which group a row is of; where it is empty, of none.",
            "COLUMN",
            "--groups",
        ),
    ],
    features: Annotated[
        int | None,
        option(
            "How many features each pair of groups may change. Without it, as few as are about as "
            "good as any number.",
            "K",
            min=1,
        ),
    ] = None,
    count: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="With --features: the features of 'each' pair, of pairs on average ('mean'), "
            "those that all pairs change together ('shared'), or those of each group and one that "
            "all are told apart from ('reference').",
        ),
    ] = "each",
    space: Annotated[
        Path | None,
        option(
            "What the groups are seen in: a fitted transformer of scikit-learn, in a .skops file. "
            "Without it, principal components of all columns, standardised.",
            "MODEL",
        ),
    ] = None,
    dimensions: Annotated[
        int, typer.Option(metavar="N", min=1, help="Without --space: how many components.")
    ] = 5,
    without: Annotated[
        list[str] | None,
        option(
            "Leave out this column, such as a name or a number of the row. Repeatable.", "COLUMN"
        ),
    ] = None,
    immutable: Annotated[
        list[str] | None, option("This column stays as it is. Repeatable.", "COLUMN")
    ] = None,
    times: Annotated[
        float,
        typer.Option(help="The largest change, in units of the range of the groups' means."),
    ] = 1.5,
    out: Annotated[
        Path | None,
        out_option("the changes, a line for each feature of each pair,", "sentences"),
    ] = None,
) -> None:
    """Say what tells groups of rows apart: few changes that take each to where the others are.

    They are consistent: the way back is the opposite change, and ways over other groups add up.
    How good they are is measured on rows that were set aside.
    """
    from counterpoint.groups import GroupTranslations, Limits

    if out is not None:
        check_out(out, rows, space)
    frame = _kept(read_rows(rows), column, without or ())
    if space is None:
        seen_in = _components(frame.drop(columns=column), dimensions)
    else:
        seen_in = trusted.load(space)
    model = GroupTranslations(
        seen_in,
        k=features,
        count=cast("Any", count),
        limits=Limits(times=times, immutable=immutable or ()),
    )
    model.fit(frame, column)
    if out is None:
        typer.echo(f"{model.sentences()}\n\n{_quality(model, frame, column)}")
        return
    changes = model.to_frame()
    to = write(
        out,
        lambda: changes.astype({"from": str, "to": str}) if out.suffix == ".parquet" else changes,
    )
    typer.echo(f"Wrote the changes to {to}.\n{_quality(model, frame, column)}", err=True)


def _kept(frame: pd.DataFrame, column: str, without: Any) -> pd.DataFrame:
    for name in (column, *without):
        if name not in frame:
            columns = [str(column) for column in frame]
            near = get_close_matches(name, columns, n=3)
            hint = f"There are {some(columns, 12, str)}."
            if near:
                hint = f"Did you mean {' or '.join(map(repr, near))}?"
            raise cp.InvalidInput(f"Expected a column of the rows; got {name!r}. {hint}")
    if column in without:
        raise cp.InvalidInput(f"{column!r} is the column of the groups; do not leave it out.")
    return frame.drop(columns=list(without))


def _components(frame: pd.DataFrame, dimensions: int) -> Any:
    """Fit principal components to standardised numbers, and to words as zeros and ones."""
    from sklearn.compose import make_column_transformer
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = list(frame.select_dtypes(["number", "bool"]))
    words = [name for name in frame if name not in numbers]
    for name in words:
        values, most = frame[name].nunique(), 50  # with more, it may be a name of each row
        if values > most:
            raise cp.InvalidInput(
                f"Expected at most {most} values in a column of words; {name!r} has {values}. "
                f"Leave it out with --without {name}, or join some of them."
            )
    often = SimpleImputer(strategy="most_frequent")
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (make_pipeline(often, OneHotEncoder(sparse_output=False)), words),
    )
    cells = prepare.fit_transform(frame)
    return make_pipeline(prepare, PCA(min(dimensions, *cells.shape), random_state=0).fit(cells))


def _quality(model: Any, frame: pd.DataFrame, column: str) -> str:
    """Judge the explanation, on rows set aside if each group has four; note small groups."""
    sizes = frame[column].value_counts()
    least, reliable = sizes.min(), 20  # of 10 rows, a rate of 10 % and one of 30 % look alike
    if least < reliable:
        typer.echo(
            f"Note: group {sizes.idxmin()} has {least} rows. With fewer than {reliable}, that "
            "nothing changes means no more than that nothing can be told, and shares such as "
            "correctness can be good by chance.",
            err=True,
        )
    if least < 4:
        typer.echo(
            "Note: a group has fewer than four rows, so that none could be set aside.", err=True
        )
    return str((model.judge if least < 4 else model.evaluate)(frame, column).summary())
