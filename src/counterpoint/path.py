"""A `Path` holds the answers to one target after the other, such as falling weights."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Status
from counterpoint.errors import (
    InvalidInput,
    is_comparable,
    is_listed,
    position_of,
    several,
    shown,
)
from counterpoint.numerics import BoolArray, FloatArray
from counterpoint.problem.costs import Cost, Manhattan
from counterpoint.problem.targets import Label, Target, as_target
from counterpoint.results import Counterfactuals
from counterpoint.rows.encoding import decode
from counterpoint.rows.features import Features
from counterpoint.rows.progress import track
from counterpoint.rows.table import Table, repeated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterpoint.search.query import Query

LABELS = ("label", "than")
NUMBERS = ("weight", "at_least", "probability", "margin", "low", "high")
"""The fields of targets, in the order in which frames show them."""


@final
@dataclass(frozen=True, eq=False)
class Path:
    """The answers of each row to one target after the other; made by `trace`.

    Everything is held in columns of shape (n, T): one row for each that was passed, one column for
    each target.

    Parameters
    ----------
    targets
        The T targets, in the order in which they were given.
    answers
        The answers to each of them.
    measure
        The cost of a change.
    """

    targets: tuple[Target, ...]
    answers: tuple[Counterfactuals, ...]
    measure: Cost

    def __len__(self) -> int:
        return len(self.answers[0])

    def __iter__(self) -> Iterator[Path]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Path:
        i = position_of(i, len(self))
        row = slice(i, i + 1)
        table = self.answers[0].table.take(row)
        return replace(self, answers=tuple(a.part(row, table) for a in self.answers))

    def rounded(
        self,
        significant: int | None = 3,
        *,
        decimals: Mapping[Hashable, int] | None = None,
        steps: Mapping[Hashable, float] | None = None,
    ) -> Path:
        """The same answers in few digits, see `Counterfactuals.rounded`."""
        answers = (a.rounded(significant, decimals=decimals, steps=steps) for a in self.answers)
        return replace(self, answers=tuple(answers))

    @property
    def features(self) -> Features:
        """The kinds of the model's p columns."""
        return self.answers[0].features

    @property
    def varied(self) -> str | None:
        """The number that the targets vary, such as ``weight``; None if they differ otherwise.

        Targets that are all the same have one too, if there is only one that is finite.
        """
        all_fields = [_fields(target) for target in self.targets]
        first = all_fields[0]
        if any(other.keys() != first.keys() for other in all_fields):
            return None
        names = {name for name in first if any(other[name] != first[name] for other in all_fields)}
        names = names or {name for name in NUMBERS if np.isfinite(first.get(name, np.inf))}
        return names.pop() if len(names) == 1 and names <= set(NUMBERS) else None

    @cached_property
    def probability(self) -> FloatArray:
        """(n, T) the model's own probability of the label; NaN where a target is not about one."""
        return self._each("probability")

    @cached_property
    def cost(self) -> FloatArray:
        """(n, T) in cost units; NaN without an answer."""
        return self._each("cost")

    @cached_property
    def objective(self) -> FloatArray:
        """(n, T) what was minimised: the cost; for a `Tradeoff`, weight / 2 · cost − log p."""
        return self._each("objective")

    @cached_property
    def bound(self) -> FloatArray:
        """(n, T) lower bounds on the objective; infinite where there is no answer at all."""
        return self._each("bound")

    @cached_property
    def gap(self) -> FloatArray:
        """(n, T) (objective − bound) / objective."""
        return self._each("gap")

    @cached_property
    def found(self) -> BoolArray:
        """(n, T): where there is an answer."""
        return self._each("valid")

    @cached_property
    def status(self) -> NDArray[Any]:
        """(n, T) `Status` of each answer."""
        return np.stack([answers.status for answers in self.answers], axis=1)

    def _each(self, name: str) -> NDArray[Any]:
        return np.stack([getattr(a.certificates, name) for a in self.answers], axis=1)

    @property
    def changed(self) -> BoolArray:
        """(n, T, p): which features of each answer differ from the factual row."""
        return np.stack([answers.changed for answers in self.answers], axis=1)

    @property
    def after(self) -> FloatArray:
        """(n, T, p) codes of the answers; the factual codes where there is none."""
        return np.stack([answers.after for answers in self.answers], axis=1)

    @property
    def changes(self) -> FloatArray:
        """(n, T, p) answer less factual row, in feature units; NaN without an answer.

        A category that changes is a change of 1. A missing cell counts as what is filled in for it.
        """
        change = self.after - self.answers[0].before[:, None, :]
        words = ~self.features.is_numeric
        change[:, :, words] = change[:, :, words] != 0.0
        change[~self.found] = np.nan
        return change

    @property
    def moved(self) -> FloatArray:
        """(n, T, p) `changes` in units that compare: the cost of each by itself, with its sign.

        Where the cost is the square of a length, it is the length.
        """
        encoded_cost = self.measure.encoded_cost(self.features)
        starts, expand = [block.start for block in self.features.blocks], self.features.expand
        costs = [encoded_cost.each(expand(a.after), expand(a.before)) for a in self.answers]
        paid = np.stack([np.add.reduceat(values, starts, axis=1) for values in costs], axis=1)
        paid = np.sqrt(paid) if self.is_squared else paid
        return np.where(np.isnan(self.changes), np.nan, np.copysign(paid, self.changes))

    @property
    def is_squared(self) -> bool:
        """Whether the cost is the square of a length: `SquaredEuclidean`, `Mahalanobis`."""
        return self.measure.encoded_cost(self.features).kind is not Manhattan

    def to_frame(self) -> Any:
        """Return a line for each row and target: the target, the status and the answer.

        The columns are ``row``, the position of the row; what the targets are made of (``label``,
        ``weight`` …); ``status``, ``probability``, ``cost`` and ``gap``; and the features of the
        answer, missing where there is none. A column of ours that goes by the name of a feature
        gets an underscore at its end.

        The frame is of the library of the rows, with their index; of pandas for an array.
        """
        n, count = self.found.shape
        first, features = self.answers[0], self.features
        lines = np.repeat(np.arange(n), count)
        columns: dict[str, Any] = {"row": lines}  # n · T lines, those of a row together
        columns |= {name: values * n for name, values in _target_columns(self.targets).items()}
        columns["status"] = [str(status) for status in self.status.ravel()]
        columns |= {name: getattr(self, name).ravel() for name in ("probability", "cost", "gap")}
        after = self.after.reshape(-1, len(features))
        answers = decode(first.table, features, lines, first.before[lines], after)
        answers = answers.select(features.names).emptied(features.names, ~self.found.ravel())
        return first.table.beside(columns, lines, answers)

    def plot(self, row: int = 0, features: int = 8, ax: Any = None) -> Figure:
        """Draw one row's path: the probability against the cost, and what changes along it.

        Left, the probability of the label against the cost; where the cost is the square of a
        length, against that length; the weights of trade-offs are marked. Where targets are not
        about a probability, the number that they vary is in its place. Right, the changes of the
        features that move most, each in units of the cost, with the change at the end of the path
        in its own units.

        Parameters
        ----------
        row
            The position of the row.
        features
            How many features to show at most.
        ax
            Two matplotlib axes to draw on, with room for names to the right, or one for the left
            part alone; None for a new figure.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        MissingExtra
            If matplotlib is not installed.
        InvalidInput
            If the targets differ in more than one number.
        NoAnswer
            If the row has no answer to any target.
        """
        from counterpoint.pictures.plots import draw

        return draw(self[row], features, ax)

    def summary(self) -> str:
        """Count the answers by status, and say from where to where the path goes."""
        n, count = self.found.shape
        size = f"{several(n, 'row')}, {several(count, 'target')}"
        counts = [f"{(self.status == s).sum()} {s}" for s in Status if (self.status == s).any()]
        lines = [f"{size}: {', '.join(counts) or 'none'}", f"targets: {self._described()}"]
        if not self.found.any():
            return "\n".join(lines)
        ends = np.flatnonzero(self.found.any(axis=0))[[0, -1]]  # the first and last with an answer
        for name in ("probability", "cost"):
            values = getattr(self, name)[:, ends]
            if not np.isnan(values).all(axis=0).any():
                first, last = (f"{value:.4g}" for value in np.nanmedian(values, axis=0))
                span = first if count == 1 else f"{first} to {last}"
                lines.append(f"{'median ' if n > 1 else ''}{name}: {span}")
        lines.append(f"largest gap: {self.gap[self.found].max():.1e}")
        largest = np.abs(self.moved[self.found]).max(axis=0)  # (p,)
        most = [j for j in np.argsort(-largest, kind="stable")[:8] if largest[j]]
        names = [str(self.features.names[j]) for j in most]
        lines.append(f"moves most: {', '.join(names) or 'nothing'}")
        return "\n".join(lines)

    def _described(self) -> str:
        """Say which number varies, from where to where; else name the first targets."""
        targets, varied = self.targets, self.varied
        if varied is None or len(targets) == 1:
            remainder = f"; and {len(targets) - 3} more" if len(targets) > 3 else ""
            return "; ".join(map(_target_text, targets[:3])) + remainder
        first, last = getattr(targets[0], varied), getattr(targets[-1], varied)
        return f"{_target_text(targets[0], varied)} with {varied} from {first:g} to {last:g}"

    def __repr__(self) -> str:
        return f"<Path: {self.summary().splitlines()[0]}>"


# The parameters of targets


def _fields(target: Target) -> dict[str, Any]:
    """The fields of a target: labels as plain values, several of them as a tuple."""
    values = {f.name: getattr(target, f.name) for f in fields(target)}  # type: ignore[arg-type]
    for name in LABELS:
        if values.get(name) is not None:
            labels = Label(values[name]).labels
            plain = tuple(v.item() if isinstance(v, np.generic) else v for v in labels)
            values[name] = plain[0] if len(plain) == 1 else plain
    return values


def _target_columns(targets: tuple[Target, ...]) -> dict[str, list[Any]]:
    """Field of a target → its value in each (None or NaN where there is none), for a frame."""
    all_fields, columns = tuple(map(_fields, targets)), dict[str, list[Any]]()
    for name in LABELS:
        if any(name in target for target in all_fields):
            columns[name] = _labels_of_one_type([target.get(name) for target in all_fields])
    for name in NUMBERS:
        numbers = [float(target.get(name, np.nan)) for target in all_fields]
        if np.isfinite(numbers).any():  # the model's own probability is in a column of this name
            columns["asked" if name == "probability" else name] = numbers
    return columns


def _labels_of_one_type(labels: list[Any]) -> list[Any]:
    """Return labels of one type as they are; those of several types, and sets, as text."""
    kinds = {type(label) for label in labels if label is not None}
    if len(kinds) <= 1 and tuple not in kinds:
        return labels
    return [None if label is None else ", ".join(map(str, Label(label).labels)) for label in labels]


def _target_text(target: Target, without: str = "") -> str:
    """Write a target as Python does, without defaults, and ``without`` one more field."""
    defaults = {f.name: f.default for f in fields(target)}  # type: ignore[arg-type]
    values = {n: v for n, v in _fields(target).items() if n != without and v != defaults[n]}
    texts = (f"{n}={v:g}" if n in NUMBERS else f"{n}={v!r}" for n, v in values.items())
    return f"{type(target).__name__}({', '.join(texts)})"


# Tracing


def traced(
    query: Query,
    tables: tuple[Table, Table],
    targets: tuple[Target, ...],
    cost: Cost,
    *,
    progress: bool | None,
) -> Path:
    """Answer one target after the other; trade-offs that differ in weight alone, in one batch."""
    from counterpoint.search.answering import answers_to

    n = len(tables[1])
    answers: dict[int, Counterfactuals] = {}
    groups: dict[Hashable, list[int]] = {}  # positions of targets that are answered together
    for k, target in enumerate(targets):
        # Requirements that differ in weight compare equal; those without one stay by themselves.
        has_weight = target.requirement.weight is not None
        groups.setdefault((target.requirement, None if has_weight else k), []).append(k)
    with track(n * len(targets), show=progress) as advance:
        for positions in groups.values():
            group_query = query.asking(target=targets[positions[0]])
            if len(positions) == 1:
                answers[positions[0]] = answers_to(group_query, tables, advance)
                continue
            # all rows once for each target, target by target
            weights = np.repeat([targets[k].requirement.weight for k in positions], n)
            copies = repeated(tables, np.tile(np.arange(n), len(positions)))
            batch = answers_to(group_query, copies, advance, weight=weights)
            for i, k in enumerate(positions):
                part = batch.part(slice(i * n, (i + 1) * n), tables[0])
                answers[k] = replace(part, targets=np.full(n, targets[k], dtype=object))
    return Path(targets, tuple(answers[k] for k in range(len(targets))), cost)


def checked_targets(targets: Any) -> tuple[Target, ...]:
    """Return targets as a tuple; anything but a list of them is an `InvalidInput`."""
    if isinstance(targets, Mapping | Target) or not is_listed(targets):
        raise InvalidInput(
            f"Expected a list of targets; got {shown(targets)} ({type(targets).__name__}). "
            "Pass one target as [target]."
        )
    listed_targets = tuple(targets)
    if not listed_targets:
        raise InvalidInput(
            "Expected at least one target, such as cp.Tradeoff(label, weight=0.1); got none."
        )
    for item in listed_targets:
        if isinstance(item, type) or not is_comparable(as_target(item).requirement):
            raise InvalidInput(
                "Expected targets such as cp.Tradeoff(label, weight=0.1), or labels; got "
                f"{shown(item)} ({type(item).__name__})."
            )
    return tuple(map(as_target, listed_targets))
