"""`counterpoint demo`: a model's decisions on real data explained, from reading to proofs."""

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
            help=f"A folder of data sets with {GERMAN} in it (German credit); otherwise the folder "
            f"that {VARIABLE} names.",
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
        out.print(story.policy, markup=False, soft_wrap=True)
        start = perf_counter()
        answers = explainer.explain(unwanted, problem.target, progress=False)
        seconds = perf_counter() - start
        _heading(out, f"The smallest changes, for some of the {len(unwanted)} {story.unwanted}")
        _examples(out, story, answers, unwanted.index.to_list())
        _heading(out, f"All {len(unwanted)} {story.unwanted}")
        show_total(out, answers.summary(), len(answers), seconds)
        _explain_words(out, answers)
        if save is not None:
            _save(out, story, unwanted.index.to_list(), save)


def _story(out: Console, data_dir: Path | None) -> Story:
    named = os.environ.get(VARIABLE)
    folder = data_dir or (Path(named) if named else None)
    if folder is not None and (folder / GERMAN).is_file():
        return german_credit(folder / GERMAN)
    if data_dir is not None:
        raise cp.InvalidInput(f"There is no {GERMAN} in --data-dir {data_dir}.")
    out.print(
        f"There are no German credit data here ({VARIABLE} names no folder with\n{GERMAN}), so "
        "this is about data that come with scikit-learn.\n",
        soft_wrap=True,
    )
    return breast_cancer()


def _heading(out: Console, text: str) -> None:
    from rich.rule import Rule
    from rich.text import Text

    out.print(Rule(Text(text, style="bold cyan"), align="left", style="dim"))
    out.print()


def _introduce(out: Console, story: Story, explainer: cp.Explainer, unwanted: int) -> None:
    from rich.text import Text

    _heading(out, "The model")
    rows, columns = story.rows.shape
    right = (story.model.predict(story.rows) == story.labels).mean()
    kinds = [type(feature) for feature in explainer.features]
    counts = [(kinds.count(kind), kind.__name__.lower()) for kind in sorted(set(kinds), key=repr)]
    labels = ", ".join(story.model.classes_)
    facts = [
        ("data", story.data),
        ("", f"{rows} rows; {columns} columns: {', '.join(f'{n} {kind}' for n, kind in counts)}"),
        ("model", story.pipeline),
        ("decides", f"{labels}; {right:.0%} right on these rows; {unwanted} {story.unwanted}"),
        ("read as", explainer.reading.steps[0]),
        *(("", step) for step in explainer.reading.steps[1:]),
    ]
    for name, fact in facts:
        out.print(Text.assemble((f"{name:<9}", "bold"), fact), soft_wrap=True)
    out.print()


def _examples(out: Console, story: Story, answers: cp.Counterfactuals, numbers: list[int]) -> None:
    """The first row with one change, with two, with three, and the first without an answer."""
    changes = answers.changed.sum(axis=1).tolist()
    for many in (1, 2, 3):
        if many in changes:
            i = changes.index(many)
            title = f"{story.who} {numbers[i]} would be {_wanted(story)} with {_several(many)}"
            show_answer(out, title, answers[i], reason=False)
    hopeless = [i for i, status in enumerate(answers.status) if status == cp.Status.INFEASIBLE]
    if hopeless:
        i = hopeless[0]
        title = f"{story.who} {numbers[i]} has no way to be {_wanted(story)}"
        show_answer(out, title, answers[i], reason=True)


def _wanted(story: Story) -> str:
    return str(tomllib.loads(story.policy)["target"])


def _several(many: int) -> str:
    return f"{many} change{'s' if many > 1 else ''}"


def _explain_words(out: Console, answers: cp.Counterfactuals) -> None:
    words = {
        "cost": "in points of the policy, or in typical spreads if it sets no cost",
        "gap": "by what share of its cost a change could be cheaper at most",
        str(cp.Claim.PROVED): "the lower bound was recomputed, whatever the solver said",
        str(cp.Claim.REPORTED): "the lower bound is the word of a branch-and-bound solver",
        str(cp.Claim.LOCAL): "the lower bound was recomputed, and leaves a gap: a local optimum",
    }
    used = {"cost", "gap", *answers.report()["claim"]}
    out.print(f"\nAsked about each of the {answers.found.sum()} changed rows, the model agrees.\n")
    for word, meaning in words.items():
        if word in used:
            out.print(f"{word:<10}{meaning}", soft_wrap=True)


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
