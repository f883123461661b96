"""`counterpoint demo`: a model's decisions on real data explained, from reading to proofs."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, final

import counterpoint as cp
from counterpoint.cli.answers import console, show_answer, show_total
from counterpoint.cli.files import option

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

__all__ = ["demo"]

VARIABLE = "COUNTERPOINT_DATA"
GERMAN = Path("german", "german.csv")
"""Where German credit lies in a folder of data sets."""


def demo(
    data_dir: Annotated[
        Path | None,
        option(
            f"A folder of data sets with {GERMAN} in it (German credit); otherwise the folder that "
            f"{VARIABLE} names.",
            "FOLDER",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        option(
            "Save model, rows and policy there, to go on with `counterpoint explain`.", "FOLDER"
        ),
    ] = None,
) -> None:
    """Explain the decisions of a model that is fitted to real data before your eyes."""
    out = console()
    story = _story(out, data_dir)
    problem = cp.Problem.from_dict(tomllib.loads(story.policy))
    explainer = problem.explainer(story.model, data=story.rows)
    unwanted = story.rows[story.model.predict(story.rows) == story.unwanted]
    every = f"{len(unwanted)} {story.unwanted}"
    _introduce(out, story, explainer, every)
    _heading(out, "The policy: what can be asked of anyone, and what it costs")
    out.print(story.policy, soft_wrap=True)
    start = perf_counter()
    answers = explainer.explain(unwanted, problem.target, progress=False)
    seconds = perf_counter() - start
    _heading(out, f"The smallest changes, for some of the {every}")
    _examples(out, story, answers, unwanted.index.to_list())
    _heading(out, f"All {every}")
    show_total(out, answers.summary(), len(answers), seconds)
    _explain_words(out, answers)
    if save is not None:
        _save(out, story, unwanted, save)
    else:
        serve = "counterpoint serve model.skops --data train.csv --spec policy.toml"
        out.print(
            "\nOn a page of its own you can try your what-ifs of this model; in a checkout:\n"
            "  pip install '.[app]'\n"
            f"  counterpoint demo --save desk && cd desk && {serve}",
            soft_wrap=True,
        )


def _story(out: Console, data_dir: Path | None) -> Story:
    """German credit, or if there is none, the breast cancer data of scikit-learn."""
    named = os.environ.get(VARIABLE)
    folder = data_dir or (Path(named) if named else None)
    if folder is not None and (folder / GERMAN).is_file():
        return _german_credit(folder / GERMAN)
    if data_dir is not None:
        raise cp.InvalidInput(f"There is no {GERMAN} in --data-dir {data_dir}.")
    out.print(
        f"There are no German credit data here ({VARIABLE} names no folder with\n{GERMAN}), so "
        "this is about data that come with scikit-learn.\n",
        soft_wrap=True,
    )
    return _breast_cancer()


def _heading(out: Console, text: str) -> None:
    from rich.rule import Rule
    from rich.text import Text

    out.print(Rule(Text(text, style="bold cyan"), align="left", style="dim"))
    out.print()


def _introduce(out: Console, story: Story, explainer: cp.Explainer, every: str) -> None:
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
        ("decides", f"{labels}; {right:.0%} right on these rows; {every}"),
        ("read as", explainer.reading.steps[0]),
        *(("", step) for step in explainer.reading.steps[1:]),
    ]
    for name, fact in facts:
        out.print(Text.assemble((f"{name:<9}", "bold"), fact), soft_wrap=True)
    out.print()


def _examples(out: Console, story: Story, answers: cp.Counterfactuals, numbers: list[int]) -> None:
    """The first row with one change, with two, with three, and the first without an answer."""
    wanted = tomllib.loads(story.policy)["target"]
    changes, status = answers.changed.sum(axis=1).tolist(), answers.status.tolist()
    for many in (1, 2, 3):
        if many in changes:
            i = changes.index(many)
            with_changes = f"{many} change{'s' if many > 1 else ''}"
            title = f"{story.who} {numbers[i]} would be {wanted} with {with_changes}"
            show_answer(out, title, answers[i], reason=False)
    if cp.Status.INFEASIBLE in status:
        i = status.index(cp.Status.INFEASIBLE)
        title = f"{story.who} {numbers[i]} has no way to be {wanted}"
        show_answer(out, title, answers[i], reason=True)


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


def _save(out: Console, story: Story, unwanted: pd.DataFrame, folder: Path) -> None:
    import skops.io

    folder.mkdir(parents=True, exist_ok=True)
    skops.io.dump(story.model, folder / "model.skops")
    story.rows.to_csv(folder / "train.csv", index=False)
    unwanted.to_csv(folder / "rows.csv", index=False)
    (folder / "policy.toml").write_text(story.policy, encoding="utf-8")
    out.print(
        f"\nSaved model.skops, train.csv, rows.csv and policy.toml. Go on with\n"
        f"  cd {folder}\n"
        f"  counterpoint explain model.skops rows.csv --data train.csv --spec policy.toml\n"
        f"  counterpoint serve model.skops --data train.csv --spec policy.toml",
        soft_wrap=True,
    )


# What the demonstration is about


@final
@dataclass(frozen=True)
class Story:
    """Real data, a model fitted to them, and a policy."""

    data: str  # what they are, in a line
    pipeline: str  # what the model is
    who: str  # what a row is
    unwanted: str  # the decision that is to change
    rows: pd.DataFrame
    labels: Any
    model: Any
    policy: str


def _policy(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _german_credit(file: Path) -> Story:
    """German credit: mixed columns, a column transformer and logistic regression."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    rows = pd.read_csv(file)
    labels = rows.pop("GoodCustomer").map({1: "granted", -1: "declined"}).to_numpy()
    text = ["Gender", "PurposeOfLoan"]
    prepare = ColumnTransformer([("text", OneHotEncoder(), text)], remainder=StandardScaler())
    model = make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(rows, labels)
    return Story(
        data="German credit: real loan applications",
        pipeline="one-hot encoding and scaling, then logistic regression",
        who="Applicant",
        unwanted="declined",
        rows=rows,
        labels=labels,
        model=model,
        policy=_policy("credit.toml"),
    )


def _breast_cancer() -> Story:
    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows, codes = load_breast_cancer(return_X_y=True, as_frame=True)
    labels = np.array(["malignant", "benign"])[codes]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels)
    return Story(
        data="Breast cancer, which comes with scikit-learn: measured cell nuclei",
        pipeline="scaling, then logistic regression",
        who="Tumour",
        unwanted="malignant",
        rows=rows,
        labels=labels,
        model=model,
        policy=_policy("cancer.toml"),
    )
