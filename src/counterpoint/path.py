"""`Path`: the answers to one target after the other, in columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.costs import Cost, Manhattan, Price
from counterpoint.parameters import Parameters
from counterpoint.results import Counterfactuals
from counterpoint.rows.encoding import decode
from counterpoint.rows.features import Features
from counterpoint.rows.table import Table
from counterpoint.status import Status
from counterpoint.targets import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Path"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

NAMED = 8
"""Features that a summary names."""


@final
@dataclass(frozen=True, eq=False)
class Path:
    """The answers of each row to one target after the other; made by `trace`.

    Everything is held in columns of shape (n, T): one row for each that was passed, one column for
    each target.

    Parameters
    ----------
    targets
        What was wanted, T targets in the order in which they were given.
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
        i = range(len(self))[i]
        came = self.answers[0].table
        row = slice(i, i + 1)
        table = replace(came.take(row), labels=came.labels)
        return replace(self, answers=tuple(a.part(row, table) for a in self.answers))

    @property
    def features(self) -> Features:
        """The kinds of the model's p columns."""
        return self.answers[0].features

    @property
    def varied(self) -> str | None:
        """The number that the targets vary, such as ``weight``; None if they differ otherwise."""
        return self._parameters.varied

    @cached_property
    def _parameters(self) -> Parameters:
        return Parameters(self.targets)

    @cached_property
    def probability(self) -> FloatArray:
        """(n, T) the model's own probability of the label; NaN where a target is not about one."""
        return self._column("probability")

    @cached_property
    def cost(self) -> FloatArray:
        """(n, T) in cost units; NaN without an answer."""
        return self._column("cost")

    @cached_property
    def objective(self) -> FloatArray:
        """(n, T) what was minimised: the cost; for a `Tradeoff`, weight / 2 · cost − log p."""
        return self._column("objective")

    @cached_property
    def bound(self) -> FloatArray:
        """(n, T) lower bounds on the objective; infinite where there is no answer at all."""
        return self._column("bound")

    @cached_property
    def gap(self) -> FloatArray:
        """(n, T) (objective − bound) / objective."""
        return self._column("gap")

    @cached_property
    def found(self) -> BoolArray:
        """(n, T): where there is an answer."""
        return self._column("valid")

    @cached_property
    def status(self) -> NDArray[Any]:
        """(n, T) `Status` of each answer."""
        return np.stack([answers.status for answers in self.answers], axis=1)

    @property
    def changed(self) -> BoolArray:
        """(n, T, p): which features of each answer differ from the factual row."""
        return np.stack([answers.changed for answers in self.answers], axis=1)

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
        """(n, T, p) `changes` in units in which features compare: what each alone would cost.

        With its sign; where the cost is the square of a length, the length.
        """
        return self.changes * self._units

    @property
    def is_squared(self) -> bool:
        """Whether the cost is the square of a length: `SquaredEuclidean`, `Mahalanobis`."""
        return self._price.kind is not Manhattan

    @cached_property
    def _price(self) -> Price:
        return self.measure.price(self.features)

    @property
    def _units(self) -> FloatArray:
        """(p,) the cost, or the length, of a change of 1: two entries of a category move."""
        price, starts = self._price, [block.start for block in self.features.blocks]
        diagonal = price.quadratic if price.quadratic.ndim == 1 else np.diag(price.quadratic)
        cost = np.where(self.features.is_numeric, 1.0, 2.0) * price.absolute[starts]
        cost += diagonal[starts]
        return np.sqrt(cost) if self.is_squared else cost

    @property
    def after(self) -> FloatArray:
        """(n, T, p) codes of the answers; the factual codes where there is none."""
        return np.stack([answers.after for answers in self.answers], axis=1)

    def _column(self, name: str) -> NDArray[Any]:
        return np.stack([getattr(a.certificates, name) for a in self.answers], axis=1)

    def to_frame(self) -> Any:
        """One line for each row and target: what was wanted, what came of it, and the answer.

        The columns are ``row``, the position of the row; what the targets are made of (``label``,
        ``weight`` …); ``status``, ``probability``, ``cost`` and ``gap``; and the features of the
        answer, missing where there is none. A column of ours that goes by the name of a feature
        gets an underscore at its end.

        A frame of the library of what was passed, with its index; of pandas for an array.
        """
        n, count = self.found.shape
        lines, ours = np.repeat(np.arange(n), count), self._columns()
        answers = self._answered(lines)
        names = [_free(name, answers.names) for name in ours]
        left = self.answers[0].table.sibling(dict(zip(names, ours.values(), strict=True)), lines)
        return _side_by_side(left, answers, self.found.ravel())

    def _answered(self, lines: NDArray[np.intp]) -> Table:
        """The features of all answers, row by row; the factual ones where there is no answer."""
        first, features = self.answers[0], self.features
        after = self.after.reshape(-1, len(features))
        answers = decode(first.table, features, lines, first.before[lines], after)
        return replace(answers.select(features.names), labels=first.table.labels)

    def _columns(self) -> dict[str, Any]:
        n, count = self.found.shape
        columns: dict[str, Any] = {"row": np.repeat(np.arange(n), count)}
        columns |= {name: values * n for name, values in self._parameters.columns().items()}
        columns["status"] = [str(status) for status in self.status.ravel()]
        for name in ("probability", "cost", "gap"):
            columns[name] = getattr(self, name).ravel()
        return columns

    def plot(self, row: int = 0, features: int = 8, ax: Any = None) -> Figure:
        """One row's path: the probability against the cost, and what changes along it.

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
        from counterpoint.plots import draw

        return draw(self[row], features, ax)

    def summary(self) -> str:
        """How many answers have which status, and from where to where the path goes."""
        shown = [f"{(self.status == s).sum()} {s}" for s in Status if (self.status == s).any()]
        lines = [f"{self._size()}: {', '.join(shown) or 'none'}"]
        lines.append(f"targets: {self._parameters}")
        found = self.found.any(axis=0)
        if found.any():
            ends = np.flatnonzero(found)[[0, -1]]
            lines += self._reached(ends)
            lines.append(f"largest gap: {self.gap[self.found].max():.1e}")
            size = np.abs(self.moved[self.found]).max(axis=0)
            order = [j for j in np.argsort(-size, kind="stable")[:NAMED] if size[j]]
            names = [str(self.features.names[j]) for j in order]
            lines.append(f"moves most: {', '.join(names) or 'nothing'}")
        return "\n".join(lines)

    def _size(self) -> str:
        n, count = self.found.shape
        return f"{n} {_plural('row', n)}, {count} {_plural('target', count)}"

    def _reached(self, ends: NDArray[np.intp]) -> Iterator[str]:
        """What the first and the last answers reach."""
        middle = "median " if len(self) > 1 else ""
        for name in ("probability", "cost"):
            values = getattr(self, name)[:, ends]
            if not np.isnan(values).all(axis=0).any():
                first, last = (f"{value:.4g}" for value in np.nanmedian(values, axis=0))
                yield f"{middle}{name}: {first if len(self.targets) == 1 else f'{first} to {last}'}"

    def __repr__(self) -> str:
        return f"<Path: {self.summary().splitlines()[0]}>"


def _free(name: str, taken: Sequence[Hashable]) -> str:
    while name in taken:
        name += "_"
    return name


def _side_by_side(left: Any, answers: Table, found: BoolArray) -> Any:
    """A frame beside the answers, whose cells are missing where there is none."""
    import narwhals.stable.v2 as nw

    if answers.is_array or answers.is_pandas:
        import pandas as pd

        columns = list(answers.names) if answers.labels is None else answers.labels
        right = pd.DataFrame(answers.native).set_axis(columns, axis=1).set_axis(left.index)
        if not found.all():
            right = right.where(np.broadcast_to(found[:, None], right.shape))
        return pd.concat([left, right], axis=1)
    ours, right = nw.from_native(left, eager_only=True), answers.frame
    if not found.all():
        backend = nw.get_native_namespace(right)
        mask = nw.new_series("found", found.tolist(), dtype=nw.Boolean, backend=backend)
        names = map(str, answers.names)
        right = right.select(nw.when(mask).then(nw.col(n)).alias(n) for n in names)
    return nw.concat([ours, right], how="horizontal").to_native()


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
