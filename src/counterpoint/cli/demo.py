"""`counterpoint demo`: a model's decisions on real data explained, from reading it to the proofs."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

import counterpoint as cp
from counterpoint.cli.show import console, show_answer, show_total
from counterpoint.cli.speech import sentences
from counterpoint.cli.stories import GERMAN, Story, breast_cancer, german_credit

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["demo"]

VARIABLE = "COUNTERPOINT_DATA"


def demo(
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            envvar=VARIABLE,
            help=f"A folder of data sets with {GERMAN} in it (German credit).",
            show_default=False,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Save model, rows and policy there, to go on with `counterpoint explain`.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Explain the decisions of a model that is fitted to real data before your eyes."""
    with sentences():
        out = console()
        story = _story(out, data_dir)
        problem = cp.Problem.from_dict(tomllib.loads(story.policy))
        explainer = problem.explainer(story.model, data=story.rows)
        decided = story.model.predict(story.rows)
        unwanted = story.rows[decided == story.unwanted]
        _introduce(out, story, explainer, len(unwanted))
        _heading(out, "The policy: what can be asked of anyone, and what it costs")
        out.print(story.policy, markup=False)
        start = perf_counter()
        answers = explainer.explain(unwanted, problem.target, progress=False)
        seconds = perf_counter() - start
        _heading(out, f"The smallest changes, for some of the {len(unwanted)} {story.unwanted}")
        _examples(out, story, answers, unwanted.index.to_list())
        _heading(out, f"All {len(unwanted)} {story.unwanted}")
        show_total(out, answers, seconds)
        _explain_words(out, answers)
        if save is not None:
            _save(out, story, unwanted.index.to_list(), save)


def _story(out: Console, data_dir: Path | None) -> Story:
    file = None if data_dir is None else data_dir / GERMAN
    if file is not None and file.is_file():
        return german_credit(file)
    if data_dir is not None and not os.environ.get(VARIABLE):
        raise cp.InvalidInput(f"There is no {GERMAN} in --data-dir {data_dir}.")
    out.print(
        f"No German credit data here ({VARIABLE} names no folder with {GERMAN}), so this is about "
        "data that come with scikit-learn.\n"
    )
    return breast_cancer()


def _heading(out: Console, text: str) -> None:
    from rich.rule import Rule
    from rich.text import Text

    out.print(Rule(Text(text, style="bold cyan"), align="left", style="dim"))
    out.print()


def _introduce(out: Console, story: Story, explainer: cp.Explainer, unwanted: int) -> None:
    from rich.table import Table
    from rich.text import Text

    _heading(out, "The model")
    rows, columns = story.rows.shape
    right = (story.model.predict(story.rows) == story.labels).mean()
    kinds = [type(feature) for feature in explainer.features]
    counts = [(kinds.count(kind), kind.__name__.lower()) for kind in sorted(set(kinds), key=repr)]
    facts = {
        "data": story.data,
        "": f"{rows} rows, {columns} columns: {', '.join(f'{n} {kind}' for n, kind in counts)}",
        "model": story.pipeline,
        "decides": f"{', '.join(story.model.classes_)}; {right:.0%} right; {unwanted} {story.unwanted}",
        "read as": "\n".join(explainer.reading.steps),
    }
    grid = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        grid.add_row(Text(name, style="bold"), Text(fact))
    out.print(grid)
    out.print()


def _examples(out: Console, story: Story, answers: cp.Counterfactuals, numbers: list[int]) -> None:
    """The first row with one change, with two, with three, and the first without an answer."""
    changes = answers.changed.sum(axis=1).tolist()
    for many in (1, 2, 3):
        if many in changes:
            i = changes.index(many)
            title = f"{story.who} {numbers[i]} would be {_wanted(story)} with {_several(many)}"
            show_answer(out, title, answers[i])
    hopeless = [i for i, status in enumerate(answers.status) if status == cp.Status.INFEASIBLE]
    if hopeless:
        i = hopeless[0]
        show_answer(out, f"{story.who} {numbers[i]} has no way to be {_wanted(story)}", answers[i])


def _wanted(story: Story) -> str:
    return str(tomllib.loads(story.policy)["target"])


def _several(many: int) -> str:
    return f"{many} change{'s' if many > 1 else ''}"


def _explain_words(out: Console, answers: cp.Counterfactuals) -> None:
    valid = int(answers.found.sum())
    out.print(
        f"\nThe model itself was asked about each of the {valid} changed rows, and agrees.\n"
        "cost  in points of the policy\n"
        "gap   how much cheaper a change could be at most, as a share of the cost\n"
        "proved    the lower bound was recomputed, whatever the solver said\n"
        "reported  the lower bound is the word of a branch-and-bound solver"
    )


def _save(out: Console, story: Story, unwanted: list[int], folder: Path) -> None:
    import skops.io

    folder.mkdir(parents=True, exist_ok=True)
    skops.io.dump(story.model, folder / "model.skops")
    story.rows.to_csv(folder / "train.csv", index=False)
    story.rows.loc[unwanted].to_csv(folder / "rows.csv", index=False)
    (folder / "policy.toml").write_text(story.policy, encoding="utf-8")
    out.print(
        f"\nSaved model.skops, train.csv, rows.csv and policy.toml. Go on with\n"
        f"  cd {folder}\n"
        f"  counterpoint explain model.skops rows.csv --data train.csv --spec policy.toml",
        soft_wrap=True,
    )
