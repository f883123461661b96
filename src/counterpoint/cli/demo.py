"""`counterpoint demo` explains the decisions of two models on real data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, final

import counterpoint as cp
from counterpoint.cli.answers import console, show_answer, show_total

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

EXPLAIN = "counterpoint explain model.skops rows.csv --data train.csv --spec policy.toml"
SERVE = "counterpoint serve model.skops --data train.csv --spec policy.toml"
WORDS = {
    "gap": "by what share of its cost a change could be cheaper at most",
    str(cp.Claim.PROVED): "the lower bound was recomputed, whatever the solver said",
    str(cp.Claim.REPORTED): "the lower bound is the word of a branch-and-bound solver",
    str(cp.Claim.LOCAL): "the lower bound was recomputed, and leaves a gap: a local optimum",
}


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
    out, loans = console(), _loans()
    answers = _tell(out, loans)
    _tell(out, _tumours())
    _heading(out, "The words")
    used = {"gap", *answers.report()["claim"]}
    _facts(out, {word: [meaning] for word, meaning in WORDS.items() if word in used})
    if save is not None:
        loans.save(save)
        ending = (
            "Saved model.skops, train.csv, rows.csv and policy.toml. Go on with\n"
            f"  cd {save}\n  {EXPLAIN}\n  {SERVE}"
        )
    else:
        ending = (
            "The loans are counterpoint.datasets.load_german_credit(); its DESCR says what each\n"
            "column means, and which names and codes are known to be wrong.\n"
            "\nOn a page of its own you can try your what-ifs of this model; in a checkout:\n"
            f"  pip install '.[app]'\n  counterpoint demo --save desk && cd desk && {SERVE}"
        )
    out.print(ending, soft_wrap=True)


@final
@dataclass(frozen=True)
class Story:
    """Real data, a model fitted to them, a policy, and the words to present them."""

    title: str
    data: str  # a line about the data
    pipeline: str  # a line about the model
    row_description: str  # with columns in braces
    unwanted: str  # the decision that is to change
    wanted: str
    changes: tuple[int, ...]  # an example is shown for each of these numbers of changes
    cost_unit: str
    rows: pd.DataFrame
    labels: Any
    model: Any
    policy: str

    def unwanted_rows(self) -> pd.DataFrame:
        """Return the rows with the decision that is to change."""
        return self.rows[self.model.predict(self.rows) == self.unwanted]

    def save(self, folder: Path) -> None:
        """Save all that another command needs."""
        import skops.io

        folder.mkdir(parents=True, exist_ok=True)
        skops.io.dump(self.model, folder / "model.skops")
        self.rows.to_csv(folder / "train.csv", index=False)
        self.unwanted_rows().to_csv(folder / "rows.csv", index=False)
        (folder / "policy.toml").write_text(self.policy, encoding="utf-8")


def _tell(out: Console, story: Story) -> cp.Counterfactuals:
    """Print a model, its policy, some answers, and all of them in numbers; return the answers."""
    policy = tomllib.loads(story.policy)
    problem = cp.Problem.from_dict(policy)
    explainer = problem.explainer(story.model, data=story.rows)
    unwanted = story.unwanted_rows()
    all_unwanted = f"{len(unwanted)} {story.unwanted}"
    _heading(out, story.title)
    (count, width), kinds = story.rows.shape, [type(f).__name__ for f in explainer.features]
    counts = ", ".join(f"{kinds.count(kind)} {kind.lower()}" for kind in sorted({*kinds}))
    right = (story.model.predict(story.rows) == story.labels).mean()
    labels = " or ".join(story.model.classes_)
    introduction = {
        "data": [story.data, f"{count} rows; {width} columns: {counts}"],
        "model": [story.pipeline],
        "decides": [f"{labels}; {right:.0%} right on these rows; {all_unwanted}"],
        "read as": explainer.reading.steps,
    }
    _facts(out, introduction)
    _heading(out, "What may change, and what it costs")
    fixed = [c for c in problem.constraints if isinstance(c, cp.Immutable)]
    weights = policy.get("cost", {}).get("weights", {})
    prices = ", ".join(f"{name} {weight:g}" for name, weight in weights.items())
    limits = {
        "limits": [str(c) for c in problem.constraints if c not in fixed],
        "fixed": [", ".join(map(str, c.features)) for c in fixed],
        "costs": [story.cost_unit, *filter(None, [prices])],
    }
    _facts(out, limits)
    start = perf_counter()
    answers = explainer.explain(unwanted, problem.target, progress=False)
    seconds = perf_counter() - start
    _heading(out, f"The cheapest changes, for some of the {all_unwanted}")
    _examples(out, story, answers, unwanted)
    _heading(out, f"All {all_unwanted}")
    show_total(out, answers.summary(), len(answers), seconds)
    out.print(f"Asked about each of the {answers.found.sum()} changed rows, the model agrees.\n")
    return answers


def _heading(out: Console, text: str) -> None:
    from rich.rule import Rule
    from rich.text import Text

    out.print(Rule(Text(text, style="bold cyan"), align="left", style="dim"))
    out.print()


def _facts(out: Console, facts: Mapping[str, Sequence[str]]) -> None:
    """Print a name at the left, and its lines beside it."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(min_width=7, style="bold")
    for name, sentences in facts.items():
        table.add_row(name, "\n".join(sentences))
    out.print(table)
    out.print()


def _examples(
    out: Console, story: Story, answers: cp.Counterfactuals, unwanted: pd.DataFrame
) -> None:
    """Print the first row for each number of changes, and one without an answer."""

    def show(i: int, outcome: str, *, reason: bool) -> None:
        row = {"row": unwanted.index[i], **unwanted.iloc[i]}
        show_answer(out, story.row_description.format_map(row) + outcome, answers[i], reason=reason)

    changes = answers.changed.sum(axis=1).tolist()
    for count in story.changes:
        outcome = f" would be {story.wanted} with {count} change{'s' if count > 1 else ''}"
        show(changes.index(count), outcome, reason=False)
    fixed = [i for i, status in enumerate(answers.status) if status == cp.Status.INFEASIBLE]
    if fixed:
        # rather one for whom a single limit could be relaxed, which is then said
        i = next((i for i in fixed if (why := answers[i].conflict) and why.relaxations), fixed[0])
        show(i, f" has no way to be {story.wanted}", reason=True)


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
    return Story(
        title="Loans: a model of whole numbers and categories",
        data="German credit: real loans, and who paid them back (UCI, CC BY 4.0)",
        pipeline="one-hot encoding and scaling, then logistic regression",
        row_description="Applicant {row} ({LoanAmount} marks over {LoanDuration} months)",
        unwanted="declined",
        wanted="granted",
        changes=(1, 2, 3),
        cost_unit="in points; a point is a month of the term, or 100 marks of the amount",
        rows=rows,
        labels=labels,
        model=make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(rows, labels),
        policy=Path(__file__).with_name("credit.toml").read_text(encoding="utf-8"),
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
    return Story(
        title="Tumours: a model of measurements",
        data="Breast cancer, which comes with scikit-learn: measured cell nuclei",
        pipeline="scaling, then logistic regression",
        row_description="Tumour {row}",
        unwanted="malignant",
        wanted="benign",
        changes=(2,),
        cost_unit="in typical spreads of each measurement",
        rows=rows,
        labels=labels,
        model=make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels),
        policy=Path(__file__).with_name("cancer.toml").read_text(encoding="utf-8"),
    )
