"""`counterpoint groups` says what tells groups of rows apart."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import counterpoint as cp
from counterpoint.cli.files import check_out, read_rows, write
from counterpoint.cli.model_files import Trust
from counterpoint.cli.options import Count
from counterpoint.errors import some

if TYPE_CHECKING:
    import pandas as pd


def groups(
    rows: Path,
    trusted: Trust,
    groups: Annotated[str, typer.Option()],
    features: Annotated[int | None, typer.Option(min=1)] = None,
    count: str = "each",
    space: Path | None = None,
    dimensions: Count = 5,
    without: list[str] | None = None,
    immutable: list[str] | None = None,
    times: float = 1.5,
    out: Path | None = None,
) -> None:
    """Say what tells groups of rows apart: few changes that take each to where the others are.

    They are consistent: the way back is the opposite change, and ways over other groups add up.
    How good they are is measured on rows that were set aside.

    Parameters
    ----------
    rows : ROWS
        The rows (.csv, .parquet, .jsonl), with the group of each in one of the columns.
    groups : COLUMN
        The column that says which group a row is of; where it is empty, of none.
    features : K
        How many features each pair of groups may change. Without it, as few as are about as good as
        any number.
    count : WHAT
        With --features: the features of 'each' pair, of pairs on average ('mean'), those that all
        pairs change together ('shared'), or those of each group and one that all are told apart
        from ('reference').
    space : MODEL
        What the groups are seen in: a fitted transformer of scikit-learn, in a .skops file. Without
        it, principal components of all columns, standardised.
    dimensions : N
        Without --space: how many components.
    without : COLUMN
        Leave out this column, such as a name or a number of the row. Repeatable.
    immutable : COLUMN
        This column stays as it is. Repeatable.
    times
        The largest change, in units of the range of the groups' means.
    out : FILE
        Write the changes, a line for each feature of each pair, to a .csv, .parquet or .jsonl file;
        - for JSON lines on standard output. Without it, sentences.

    Examples
    --------
    counterpoint groups rows.csv --groups species
    """
    from counterpoint.groups import GroupTranslations, Limits

    check_out(out, rows, space)
    frame = _without(read_rows(rows), groups, without or [])
    model = GroupTranslations(
        trusted.load(space) if space else _components(frame.drop(columns=groups), dimensions),
        k=features,
        count=cast("Any", count),
        limits=Limits(times=times, immutable=immutable or ()),
    )
    model.fit(frame, groups)
    quality = _quality(model, frame, groups)
    if out is None:
        typer.echo(f"{model.sentences()}\n\n{quality}")
        return
    changes = model.to_frame()
    to = write(
        out,
        lambda: changes.astype({"from": str, "to": str}) if out.suffix == ".parquet" else changes,
    )
    typer.echo(f"Wrote the changes to {to}.\n{quality}", err=True)


def _without(frame: pd.DataFrame, groups: str, without: list[str]) -> pd.DataFrame:
    """Leave out columns, all of which have to be there; that of the groups stays."""
    for name in (groups, *without):
        if name not in frame:
            columns = [str(column) for column in frame]
            near = get_close_matches(name, columns, n=3)
            hint = f"There are {some(columns, 12, str)}."
            if near:
                hint = f"Did you mean {' or '.join(map(repr, near))}?"
            raise cp.InvalidInput(f"Expected a column of the rows; got {name!r}. {hint}")
    if groups in without:
        raise cp.InvalidInput(f"{groups!r} is the column of the groups; do not leave it out.")
    return frame.drop(columns=without)


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
    if least >= 4:  # `evaluate` makes two folds, with two rows of each group in each
        return str(model.evaluate(frame, column).summary())
    typer.echo("Note: a group has fewer than four rows, so that none could be set aside.", err=True)
    return str(model.judge(frame, column).summary())
