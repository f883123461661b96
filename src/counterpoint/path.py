"""`trace`: the answers along one varied parameter, such as the weight of a `Tradeoff`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import COLUMNS, Certificates
from counterpoint.costs import Cost, Manhattan, Price
from counterpoint.encoding import decode
from counterpoint.errors import InvalidInput
from counterpoint.explainer import DEFAULT_GAP, Explainer, as_target, effort_of
from counterpoint.features import Features
from counterpoint.frames import Table
from counterpoint.progress import track
from counterpoint.results import Conflict, Counterfactuals, Status
from counterpoint.targets import Label, OtherLabel, Target, Tradeoff

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterpoint.batch import People
    from counterpoint.solvers import Effort

__all__ = ["Path", "trace"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

CELLS = 1 << 22
"""Cells of a batch that answers several weights at once: what it holds of them stays small."""
NAMES = ("label", "than")
NUMBERS = ("weight", "at_least", "margin", "low", "high")
"""What targets are made of, in the order in which frames show it."""
SHOWN = 3
"""Targets that a summary names, if they differ in more than one number."""


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
        table = replace(came.take(slice(i, i + 1)), labels=came.labels)
        return replace(self, answers=tuple(_part(a, i, table) for a in self.answers))

    @property
    def features(self) -> Features:
        """The kinds of the model's p columns."""
        return self.answers[0].features

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

    @cached_property
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
        for name, values in _parameters(self.targets).items():
            columns[name] = values * n if isinstance(values, list) else np.tile(values, n)
        columns["status"] = [str(status) for status in self.status.ravel()]
        for name in ("probability", "cost", "gap"):
            columns[name] = getattr(self, name).ravel()
        return columns

    def plot(self, row: int = 0, features: int = 8, ax: Any = None) -> Figure:
        """One row's path: the probability against the cost, and what changes along it.

        Left, the probability of the label against the cost; where the cost is the square of a
        length, against that length; the weights of trade-offs are marked. Where targets are not
        about a probability, the number that they vary is in its place. Right, the changes of the
        features that move most, each in units of the cost; its largest change is written at its end
        in its own units.

        Parameters
        ----------
        row
            The position of the row.
        features
            How many features to show at most.
        ax
            Two matplotlib axes to draw on, or one for the left part alone; None for a new figure.

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
        lines.append(f"targets: {self._wanted()}")
        found = self.found.any(axis=0)
        if found.any():
            ends = np.flatnonzero(found)[[0, -1]]
            lines += self._reached(ends)
            lines.append(f"largest gap: {np.nanmax(self.gap[self.found]):.1e}")
            size = np.nanmax(np.abs(self.moved[self.found]), axis=0)
            order = [j for j in np.argsort(-size, kind="stable")[:8] if size[j]]
            names = [str(self.features.names[j]) for j in order]
            lines.append(f"moves most: {', '.join(names) or 'nothing'}")
        return "\n".join(lines)

    def _size(self) -> str:
        n, count = self.found.shape
        return f"{n} {_plural('row', n)}, {count} {_plural('target', count)}"

    @property
    def varied(self) -> str | None:
        """The number that the targets vary, such as ``weight``; None unless it is just one."""
        first, names = _fields(self.targets[0]), set[str]()
        for target in self.targets:
            other = _fields(target)
            if other.keys() != first.keys():
                return None
            names |= {name for name in first if other[name] != first[name]}
        names = names or set([n for n in NUMBERS if np.isfinite(first.get(n, np.inf))][:1])
        return next(iter(names)) if len(names) == 1 and names <= set(NUMBERS) else None

    def _wanted(self) -> str:
        """The number that varies, from where to where; else the first targets."""
        if self.varied is None or len(self.targets) == 1:
            more = len(self.targets) - SHOWN
            shown = "; ".join(map(_words, self.targets[:SHOWN]))
            return f"{shown}; and {more} more" if more > 0 else shown
        first, last = self.targets[0], self.targets[-1]
        ends = f"{_fields(first)[self.varied]:g} to {_fields(last)[self.varied]:g}"
        return f"{_words(first, self.varied)} with {self.varied} from {ends}"

    def _reached(self, ends: NDArray[np.intp]) -> Iterator[str]:
        """What the first and the last answers reach."""
        middle = "median " if len(self) > 1 else ""
        for name in ("probability", "cost"):
            values = getattr(self, name)[:, ends]
            if not np.isnan(values).all(axis=0).any():
                first, last = np.nanmedian(values, axis=0)
                yield f"{middle}{name}: from {first:.4g} to {last:.4g}"

    def __repr__(self) -> str:
        return f"<Path: {self.summary().splitlines()[0]}>"


def trace(  # noqa: PLR0913 (three that are asked, three options of `Explainer.explain`)
    explainer: Explainer,
    X: object,
    targets: Iterable[Any],
    *,
    gap: float = DEFAULT_GAP,
    time_limit: float | None = None,
    progress: bool | None = None,
) -> Path:
    """The answers of each row to one target after the other.

    The trade-offs of one label are answered in one batch, which takes far less time than as many
    calls of `Explainer.explain`; other targets are answered one by one. The answers are the same.

    As the weight of a `Tradeoff` falls, neither the cost of the answer nor the probability of the
    label falls, whatever the cost and the constraints are.

    Parameters
    ----------
    explainer
        What is asked of each row.
    X
        A data frame, an array of shape (n, p), or one row.
    targets
        What is wanted, in any order; what is no `Target` is taken as the label of `Label`.
    gap, time_limit, progress
        As for `Explainer.explain`; the seconds are those of each answer.

    Returns
    -------
    Path

    Raises
    ------
    InvalidInput
        If columns are missing, or a target does not fit the model.
    ReaderMismatch
        If the model predicts otherwise than what was read of it.

    References
    ----------
    Carreira-Perpiñán & Hada, Inverse classification with logistic and softmax classifiers,
    section 3.4.

    Examples
    --------
    >>> import counterpoint as cp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> explainer = cp.Explainer(model, data=X, cost=cp.SquaredEuclidean())
    >>> path = cp.trace(explainer, X.head(1), [cp.Tradeoff(1, w) for w in (10.0, 1.0, 0.1)])
    >>> path.probability.round(2).tolist()
    [[0.04, 0.25, 0.87]]
    """
    if not isinstance(explainer, Explainer):
        raise InvalidInput(
            f"Expected an Explainer; got {explainer!r} ({type(explainer).__name__}). "
            "Pass cp.Explainer(model, data=...)."
        )
    wanted = _checked(targets)
    effort = effort_of(gap, time_limit)
    people = explainer._people(X)  # noqa: SLF001 (its other way to be asked)
    n = len(people.inputs)
    with track(n * len(wanted), show=progress) as advance:
        parts = _answers(_Asking(explainer, people, effort, advance), wanted)
        answers = tuple(answer for _, answer in sorted(parts, key=lambda part: part[0]))
    return Path(wanted, answers, explainer.cost)


@final
@dataclass(frozen=True, eq=False)
class _Asking:
    """What all targets have in common."""

    explainer: Explainer
    people: People
    effort: Effort
    advance: Callable[[int], None]

    def one(self, target: Target) -> Counterfactuals:
        """The answers to one target."""
        return self._answers(self.people, target)

    def weights(self, target: Tradeoff, weights: Sequence[float]) -> Iterator[Counterfactuals]:
        """The answers to a trade-off with each of these weights."""
        table, size = self.people.table, len(self.people.inputs)
        several = max(1, CELLS // max(1, size * len(self.explainer.features)))
        for start in range(0, len(weights), several):
            some = np.asarray(weights[start : start + several], dtype=np.float64)
            whole = self._answers(self.people.weighed(some), target)
            yield from (_part(whole, k * size, table) for k in range(len(some)))

    def _answers(self, people: People, target: Target) -> Counterfactuals:
        batch = self.explainer._batch(people, target, self.effort)  # noqa: SLF001 (as in `trace`)
        return batch.answers(self.advance)


def _answers(asking: _Asking, targets: Sequence[Target]) -> Iterator[tuple[int, Counterfactuals]]:
    """The answers to each target, with its position."""
    weighed: dict[Hashable, list[int]] = {}
    for position, target in enumerate(targets):
        if isinstance(target, Tradeoff):
            weighed.setdefault(target.label, []).append(position)
        else:
            yield position, asking.one(target)
    for positions in weighed.values():
        some = [t for t in (targets[k] for k in positions) if isinstance(t, Tradeoff)]
        answers = asking.weights(some[0], [target.weight for target in some])
        yield from zip(positions, answers, strict=True)


def _part(whole: Counterfactuals, first: int, table: Table) -> Counterfactuals:
    """The answers from a position on, as many as the rows of a table."""
    end = first + len(table)
    rows, c = slice(first, end), whole.certificates
    return Counterfactuals(
        table,
        whole.features,
        whole.before[rows],
        whole.after[rows],
        whole.missing[rows],
        whole.codes[rows],
        Certificates(*(getattr(c, name)[rows] for name in COLUMNS), c.resolution),
        whole.closed_form[rows],
        {i - first: said for i, said in whole.problems.items() if first <= i < end},
        partial(_conflict, whole.explain_conflict, first),
    )


def _conflict(explain: Callable[[int], Conflict | None], first: int, i: int) -> Conflict | None:
    return explain(first + i)


def _checked(targets: Any) -> tuple[Target, ...]:
    """Targets, or a sentence that says what is wrong with them."""
    if isinstance(targets, str | Mapping | Target) or not isinstance(targets, Iterable):
        raise InvalidInput(
            f"Expected a list of targets; got {targets!r} ({type(targets).__name__}). "
            "Pass one target as [target]."
        )
    given = tuple(targets)
    if not given:
        raise InvalidInput(
            "Expected at least one target, such as cp.Tradeoff(label, weight=0.1); got none."
        )
    for item in given:
        if isinstance(item, type) or not _is_hashable(item):
            raise InvalidInput(
                f"Expected targets such as cp.Tradeoff(label, weight=0.1), or labels; got {item!r} "
                f"({type(item).__name__})."
            )
    return tuple(map(as_target, given))


def _is_hashable(item: Any) -> bool:
    target = as_target(item)
    try:
        hash(target.labels if isinstance(target, Label | OtherLabel) else target)
    except TypeError:
        return False
    return True


def _parameters(targets: Sequence[Target]) -> dict[str, Any]:
    """What the targets are made of, in columns: labels in lists, numbers in arrays."""
    made = [_fields(target) for target in targets]
    columns: dict[str, Any] = {}
    for name in NAMES:
        if any(name in target for target in made):
            columns[name] = _said([target.get(name) for target in made])
    for name in NUMBERS:
        numbers = np.array([target.get(name, np.nan) for target in made], dtype=np.float64)
        if np.isfinite(numbers).any():
            columns[name] = numbers
    return columns


def _fields(target: Target) -> dict[str, Any]:
    """What a target is made of: labels as plain values, several of them as a tuple."""
    made = {f.name: getattr(target, f.name) for f in fields(target)}  # type: ignore[arg-type]
    for name in NAMES:
        if made.get(name) is not None:
            labels = tuple(
                v.item() if isinstance(v, np.generic) else v for v in Label(made[name]).labels
            )
            made[name] = labels[0] if len(labels) == 1 else labels
    return made


def _said(labels: list[Any]) -> list[Any]:
    """Labels of one type as they are; of several types, and sets of them, as text."""
    kinds = {type(label) for label in labels if label is not None}
    if len(kinds) <= 1 and tuple not in kinds:
        return labels
    return [None if label is None else ", ".join(map(str, Label(label).labels)) for label in labels]


def _words(target: Target, without: str = "") -> str:
    """A target as one would write it."""
    made = {name: value for name, value in _fields(target).items() if name != without}
    shown = (f"{k}={v:g}" if k in NUMBERS else f"{k}={v!r}" for k, v in made.items())
    return f"{type(target).__name__}({', '.join(shown)})"


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
        return pd.concat([left, right if found.all() else right.where(found[:, None])], axis=1)
    ours, right = nw.from_native(left, eager_only=True), answers.frame
    if not found.all():
        backend = nw.get_native_namespace(right)
        mask = nw.new_series("found", found.tolist(), dtype=nw.Boolean, backend=backend)
        right = right.select(nw.when(mask).then(nw.col(n)).alias(n) for n in answers.names)
    return nw.concat([ours, right], how="horizontal").to_native()


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
