"""Read the options that commands share: the model, its data and a policy; the target; the rows."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast, final

import numpy as np

import counterpoint as cp
from counterpoint.cli.files import read_rows
from counterpoint.cli.model_files import Trust
from counterpoint.errors import some

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True)
class Source:
    """The options that name a model, its data and a policy.

    Parameters
    ----------
    model : MODEL
        The fitted model: a .skops file.
    data : TRAIN
        Rows like those the model was fitted on (.csv, .parquet, .jsonl). They say which columns are
        whole numbers, what ranges are usual, and what a change costs.
    extrapolate
        With --data: numbers may leave the range that the data show.
    spec : POLICY
        A policy file (.toml, .json): target, cost, constraints, features.
    """

    model: Path
    trusted: Trust
    data: Path | None = None
    extrapolate: bool = False
    spec: Path | None = None

    def loaded(self) -> tuple[Any, Any, cp.Problem]:
        """Return the model; the data, or None; the policy."""
        problem = cp.Problem() if self.spec is None else cp.Problem.load(self.spec)
        problem = replace(problem, extrapolate=self.extrapolate or problem.extrapolate)
        model = self.trusted.load(self.model)
        return model, None if self.data is None else read_rows(self.data), problem

    def explainer(self, wish: Wish) -> tuple[cp.Explainer, cp.Target]:
        """Return the explainer, and the target of the options or of the policy."""
        model, train, problem = self.loaded()
        explainer = problem.explainer(model, data=train)  # says so if it is none, or not fitted
        return explainer, wish.target_for(model, problem.target)


@final
@dataclass(frozen=True)
class Wish:
    """The options that say which target is wanted.

    Target: one of these, or in the policy file
    -------------------------------------------
    target : LABEL
        The decision that is wanted, such as granted. Repeat it to allow several.
    other
        Any class other than the current prediction.
    probability : P
        With --target: the model's probability of the label is at least P.
    tradeoff : W
        With --target: the best of W/2 · cost − log of the model's probability of the label; a small
        W buys more probability for more change.
    robust : P
        With --target, for a model with uncertain weights: the true weights are for the label with
        probability P.
    guarantee : HOW
        With --robust: 'selection' for an answer that is so sure although it was chosen by looking
        at the weights, 'fixed' for one that would be, had it been fixed beforehand, or 'best', the
        default, for the first where it is attainable, else the second.
    margin : M
        With --target or --other: by how much the score exceeds all others, in score units.
    low
        For a regressor: the prediction is at least this.
    high
        For a regressor: the prediction is at most this.
    """

    target: list[str] | None = None
    other: bool = False
    probability: float | None = None
    tradeoff: float | None = None
    robust: float | None = None
    guarantee: str | None = None
    margin: float | None = None
    low: float | None = None
    high: float | None = None

    def target_for(self, model: Any, otherwise: cp.Target | None) -> cp.Target:
        """Return the target that the options state; ``otherwise`` is that of the policy file."""
        model_labels = labels_of(model)
        self._refuse_contradictions()
        labels = tuple(_label(text, model_labels) for text in self.target or ())
        target: cp.Target
        if self._is_range:
            target = self._interval(model_labels)
        elif self.other:
            target = cp.OtherLabel(margin=self.margin or 0.0)
        elif self.probability is not None:
            target = cp.Probability(labels[0], self.probability)
        elif self.tradeoff is not None:
            target = cp.Tradeoff(labels[0], self.tradeoff)
        elif self.robust is not None:
            guarantee = cast("Any", self.guarantee or "best")
            target = cp.Robust(labels[0], probability=self.robust, guarantee=guarantee)
        elif labels:
            target = cp.Label(labels if len(labels) > 1 else labels[0], self.margin or 0.0)
        else:
            target = otherwise or _refuse_no_target(model_labels)
        return target

    def _interval(self, labels: list[Any] | None) -> cp.Interval:
        if labels is not None:
            raise cp.InvalidInput(
                "--low and --high are for models that predict numbers; this one decides "
                f"between {_some(labels)}. Say --target or --other."
            )
        low = -np.inf if self.low is None else self.low
        return cp.Interval(low, np.inf if self.high is None else self.high)

    @property
    def _is_range(self) -> bool:
        return (self.low, self.high) != (None, None)

    def _refuse_contradictions(self) -> None:
        """Refuse options that state two targets, or do not go together."""
        options = {"target": self.target, "other": self.other, "low or --high": self._is_range}
        targets = [f"--{name}" for name, value in options.items() if value]
        # options that make another target of the label of --target
        names = ("probability", "tradeoff", "robust")
        of_label = [f"--{name}" for name in names if getattr(self, name) is not None]
        count = len(self.target or ())
        if self.guarantee is not None and self.robust is None:
            raise cp.InvalidInput("--guarantee goes with --robust.")
        if len(targets) > 1:
            raise cp.InvalidInput(f"Expected one target; got {' and '.join(targets)}. Keep one.")
        if len(of_label) > 1:
            raise cp.InvalidInput(f"Expected one of {' and '.join(of_label)}; got both. Keep one.")
        if of_label and count != 1:
            raise cp.InvalidInput(
                f"{of_label[0]} is about one label; got {count}. Say which with --target."
            )
        if self.margin is not None and (of_label or not (self.other or count)):
            raise cp.InvalidInput(
                "--margin goes with --target or --other, without --probability, --tradeoff or "
                "--robust."
            )


@final
@dataclass(frozen=True)
class Question:
    """The options that say what is asked: a target of a model, for the rows of a file.

    Parameters
    ----------
    rows : ROWS
        The rows to explain (.csv, .parquet, .jsonl), with the model's columns by name.
    """

    wish: Wish
    source: Source
    rows: Path

    @property
    def inputs(self) -> tuple[Path | None, ...]:
        """Return the files that are read."""
        return self.rows, self.source.model, self.source.data, self.source.spec

    def read(self) -> tuple[cp.Explainer, cp.Target, pd.DataFrame]:
        """Return the explainer, the target and the rows."""
        explainer, target = self.source.explainer(self.wish)
        return explainer, target, read_rows(self.rows)


def labels_of(model: Any) -> list[Any] | None:
    """Return the class labels of a classifier; None for a regressor."""
    labels = getattr(model, "classes_", None)
    return None if labels is None else list(labels.tolist())


def _refuse_no_target(labels: list[Any] | None) -> NoReturn:
    """Raise, because there is no target, and say how to state one for these labels."""
    if labels is None:
        raise cp.InvalidInput(
            "Expected a range for the prediction; got none. Say --low, --high or both, or write a "
            "target in the policy file."
        )
    raise cp.InvalidInput(
        f"Expected a target; got none. Say --target with one of {_some(labels)}, or "
        "--other for any class other than the current prediction, or write a target in the policy "
        "file."
    )


def _label(text: str, labels: list[Any] | None) -> Any:
    """Return the model's label that a text on the command line is; raise if there is none."""
    if labels is None:
        raise cp.InvalidInput(
            f"This model predicts numbers and has no label {text!r}. Say --low, --high or both."
        )
    for label in labels:
        if text == str(label) or _same_number(text, label):
            return label
    by_letters = {str(label).casefold(): label for label in labels}
    near = get_close_matches(text.casefold(), by_letters, n=1)
    if near:
        likely = _quoted(by_letters[near[0]])
        raise cp.InvalidInput(f"The model has no label {text!r}; did you mean {likely}?")
    raise cp.InvalidInput(f"The model has no label {text!r}; it has {_some(labels)}.")


def _some(labels: list[Any]) -> str:
    return some(labels, 12, _quoted)


def _quoted(label: Any) -> str:
    """Return a label as it is written on the command line."""
    return shlex.quote(str(label))


def _same_number(text: str, label: Any) -> bool:
    try:
        return not isinstance(label, bool | str) and float(text) == float(label)
    except (TypeError, ValueError):
        return False
