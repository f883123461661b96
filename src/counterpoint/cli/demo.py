"""`counterpoint demo`: a model's decisions on real data explained, from reading to proofs."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from time import perf_counter
from typing import TYPE_CHECKING, Any, final

import counterpoint as cp
from counterpoint.cli.answers import console, show_answer, show_total

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

__all__ = ["demo"]


def demo(save: Path | None = None) -> None:
    """Explain the decisions of two models that are fitted to real data before your eyes.

    Parameters
    ----------
    save : FOLDER
        Save the loan model, rows and policy there, to go on with `counterpoint explain`.

    Examples
    --------
    counterpoint demo --save credit
    """
    out = console()
    loans = _loans()
    answers = _tell(out, loans)
    _tell(out, _tumours())
    _explain_words(out, answers)
    if save is not None:
        _save(out, loans, save)
    else:
        serve = "counterpoint serve model.skops --data train.csv --spec policy.toml"
        out.print(
            "The loans are counterpoint.datasets.load_german_credit(); its DESCR says what each\n"
            "column means, and which names and codes are known to be wrong.\n"
            "\nOn a page of its own you can try your what-ifs of this model; in a checkout:\n"
            "  pip install '.[app]'\n"
            f"  counterpoint demo --save desk && cd desk && {serve}",
            soft_wrap=True,
        )


def _tell(out: Console, story: Story) -> cp.Counterfactuals:
    """Print a model, what may change, some answers, and all of them in numbers."""
    problem = cp.Problem.from_dict(tomllib.loads(story.policy))
    explainer = problem.explainer(story.model, data=story.rows)
    unwanted = story.unwanted_rows()
    _heading(out, story.title)
    _introduce(out, story, explainer, len(unwanted))
    _heading(out, "What may change, and what it costs")
    _show_policy(out, story, problem)
    start = perf_counter()
    answers = explainer.explain(unwanted, problem.target, progress=False)
    seconds = perf_counter() - start
    every = f"{len(unwanted)} {story.unwanted}"
    _heading(out, f"The cheapest changes, for some of the {every}")
    _examples(out, story, answers, unwanted)
    _heading(out, f"All {every}")
    show_total(out, answers.summary(), len(answers), seconds)
    out.print(f"Asked about each of the {answers.found.sum()} changed rows, the model agrees.\n")
    return answers


def _heading(out: Console, text: str) -> None:
    from rich.rule import Rule
    from rich.text import Text

    out.print(Rule(Text(text, style="bold cyan"), align="left", style="dim"))
    out.print()


def _introduce(out: Console, story: Story, explainer: cp.Explainer, unwanted: int) -> None:
    rows, columns = story.rows.shape
    right = (story.model.predict(story.rows) == story.labels).mean()
    kinds = [type(feature).__name__.lower() for feature in explainer.features]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    labels = " or ".join(story.model.classes_)
    _facts(
        out,
        {
            "data": [story.data, f"{rows} rows; {columns} columns: {counts}"],
            "model": [story.pipeline],
            "decides": [f"{labels}; {right:.0%} right on these rows; {unwanted} {story.unwanted}"],
            "read as": explainer.reading.steps,
        },
    )


def _show_policy(out: Console, story: Story, problem: cp.Problem) -> None:
    weights = tomllib.loads(story.policy).get("cost", {}).get("weights", {})
    priced = [f"{name} {weight:g}" for name, weight in weights.items()]
    fixed = [c for c in problem.constraints if isinstance(c, cp.Immutable)]
    _facts(
        out,
        {
            "limits": [str(c) for c in problem.constraints if c not in fixed],
            "fixed": [", ".join(map(str, c.features)) for c in fixed],
            "costs": [story.point, *([", ".join(priced)] if priced else [])],
        },
    )


def _facts(out: Console, facts: dict[str, Sequence[str]]) -> None:
    """Print a name at the left, and its lines beside it."""
    from rich.text import Text

    for name, sentences in facts.items():
        width = max(out.width - 9, 40)
        lines = [line for sentence in sentences for line in wrap(sentence, width)]
        for heading, line in zip([name, *[""] * len(lines)], lines, strict=False):
            out.print(Text.assemble((f"{heading:<9}", "bold"), line), soft_wrap=True)
    out.print()


def _examples(
    out: Console, story: Story, answers: cp.Counterfactuals, unwanted: pd.DataFrame
) -> None:
    """Print the first row for each number of changes, and one without an answer."""
    changes, status = answers.changed.sum(axis=1).tolist(), answers.status.tolist()
    for count in story.changes:
        i = changes.index(count)
        how = f"would be {story.wanted} with {count} change{'s' if count > 1 else ''}"
        show_answer(out, f"{story.name(unwanted, i)} {how}", answers[i], reason=False)
    none = [i for i, state in enumerate(status) if state == cp.Status.INFEASIBLE]
    if none:
        # Better one for whom a single limit could be relaxed.
        i = next((i for i in none if (why := answers[i].conflict) and why.relaxations), none[0])
        title = f"{story.name(unwanted, i)} has no way to be {story.wanted}"
        show_answer(out, title, answers[i], reason=True)


def _explain_words(out: Console, answers: cp.Counterfactuals) -> None:
    words = {
        "gap": "by what share of its cost a change could be cheaper at most",
        str(cp.Claim.PROVED): "the lower bound was recomputed, whatever the solver said",
        str(cp.Claim.REPORTED): "the lower bound is the word of a branch-and-bound solver",
        str(cp.Claim.LOCAL): "the lower bound was recomputed, and leaves a gap: a local optimum",
    }
    used = {"gap", *answers.report()["claim"]}
    _heading(out, "The words")
    _facts(out, {word: [meaning] for word, meaning in words.items() if word in used})


def _save(out: Console, story: Story, folder: Path) -> None:
    import skops.io

    folder.mkdir(parents=True, exist_ok=True)
    skops.io.dump(story.model, folder / "model.skops")
    story.rows.to_csv(folder / "train.csv", index=False)
    story.unwanted_rows().to_csv(folder / "rows.csv", index=False)
    (folder / "policy.toml").write_text(story.policy, encoding="utf-8")
    out.print(
        f"Saved model.skops, train.csv, rows.csv and policy.toml. Go on with\n"
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

    title: str
    data: str  # what they are, in a line
    pipeline: str  # what the model is
    portrait: str  # what a row is, with its columns in braces
    unwanted: str  # the decision that is to change
    wanted: str
    changes: tuple[int, ...]  # the numbers of changes of which examples are shown
    point: str  # what a change costs
    rows: pd.DataFrame
    labels: Any
    model: Any
    policy: str

    def unwanted_rows(self) -> pd.DataFrame:
        """Return the rows with the decision that is to change."""
        return self.rows[self.model.predict(self.rows) == self.unwanted]

    def name(self, rows: pd.DataFrame, position: int) -> str:
        """Return what a row is called."""
        row = rows.iloc[position]
        return self.portrait.format_map({"row": rows.index[position], **row})


def _policy(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _loans() -> Story:
    """German credit: mixed columns, a column transformer and logistic regression."""
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    from counterpoint.datasets import load_german_credit

    rows, good = load_german_credit(return_X_y=True)
    labels = good.map({1: "granted", 0: "declined"}).to_numpy()
    text = ["Gender", "PurposeOfLoan"]
    prepare = ColumnTransformer([("text", OneHotEncoder(), text)], remainder=StandardScaler())
    model = make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(rows, labels)
    return Story(
        title="Loans: a model of whole numbers and categories",
        data="German credit: real loans, and who paid them back (UCI, CC BY 4.0)",
        pipeline="one-hot encoding and scaling, then logistic regression",
        portrait="Applicant {row} ({LoanAmount} marks over {LoanDuration} months)",
        unwanted="declined",
        wanted="granted",
        changes=(1, 2, 3),
        point="in points; a point is a month of the term, or 100 marks of the amount",
        rows=rows,
        labels=labels,
        model=model,
        policy=_policy("credit.toml"),
    )


def _tumours() -> Story:
    """Breast cancer, which comes with scikit-learn: measurements."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows, codes = load_breast_cancer(return_X_y=True, as_frame=True)
    labels = np.array(["malignant", "benign"])[codes]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels)
    return Story(
        title="Tumours: a model of measurements",
        data="Breast cancer, which comes with scikit-learn: measured cell nuclei",
        pipeline="scaling, then logistic regression",
        portrait="Tumour {row}",
        unwanted="malignant",
        wanted="benign",
        changes=(2,),
        point="in typical spreads of each measurement",
        rows=rows,
        labels=labels,
        model=model,
        policy=_policy("cancer.toml"),
    )
