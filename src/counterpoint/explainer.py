"""Define `Explainer`, and the calls that use one; `search/answering.py` answers their rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, final, overload

import numpy as np

from counterpoint.alternatives import Alternatives, alternatives_to
from counterpoint.caches import Memo
from counterpoint.errors import EXPLAINER, InvalidInput, all_of, check_flag, several, shown, some
from counterpoint.numerics import EPS, MISSING, FloatArray
from counterpoint.path import Path, checked_targets, traced
from counterpoint.pictures import html
from counterpoint.problem.constraints import (
    Bounds,
    Constraint,
    Immutable,
    ObservedCombinations,
    WithinObserved,
    all_constraints,
    named,
)
from counterpoint.problem.costs import Cost, Manhattan
from counterpoint.problem.targets import Target, as_target
from counterpoint.problem.weights import described, ranges, spreads
from counterpoint.rows.encoding import PRESENT, encode, match_columns
from counterpoint.rows.features import (
    Categorical,
    Continuous,
    Feature,
    Features,
    Integer,
    all_features,
)
from counterpoint.rows.progress import track
from counterpoint.rows.table import Table
from counterpoint.solvers.base import DEFAULT_GAP, Effort

if TYPE_CHECKING:
    from counterpoint.models.reading import ReadModel
    from counterpoint.results import Counterfactuals
    from counterpoint.search.query import Query


@final
class Explainer:
    """Smallest changes that change a fitted model's decision.

    Parameters
    ----------
    model
        A fitted classifier or regressor that counterpoint reads: linear, additive, of nearest
        prototypes, of trees; also at the end of a pipeline.
    data
        Rows like those the model was fitted on: features, their kinds and the default cost come
        from them. Columns that the model does not use are passed over; constant columns are
        taken to be immutable. Answers stay within what the data show: a number within its
        observed range, a category among those that occur, as for `WithinObserved`. ``extrapolate``
        lifts the first; where a `Bounds` says ``low`` or ``high``, it holds instead of that end of
        the range; a `Categorical` among ``features`` says by itself which categories an answer may
        choose.
    features
        Descriptions of columns that differ from what data and model say, or all of them.
    cost
        What a change costs; None for `Manhattan` with `mad_weights` of the data, or without data
        in units of the range of each feature, if all ranges are known (by ``features``, or from a
        model that was told, such as a `PrivateSVC`).
    constraints
        What a person can or may change; one constraint, or several.
    extrapolate
        Whether numbers may leave the range that ``data`` show.

    Raises
    ------
    UnsupportedModel, ModelNotFitted
        If the model cannot be read exactly.
    ReaderMismatch
        If the model predicts otherwise, on rows of the data, than what was read of it.
    InvalidInput
        If cost or constraints do not fit the features, or there is neither cost nor data, and not
        every range is known.

    Examples
    --------
    >>> import counterpoint as cp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> explainer = cp.Explainer(model, data=X)
    >>> answers = explainer.explain(X.head(3), target=1)
    >>> answers.status.tolist()
    [<Status.OPTIMAL: 'optimal'>, <Status.OPTIMAL: 'optimal'>, <Status.OPTIMAL: 'optimal'>]
    """

    def __init__(
        self,
        model: Any,
        *,
        data: object | None = None,
        features: Feature | Iterable[Feature] | None = None,
        cost: Cost | None = None,
        constraints: Constraint | Iterable[Constraint] = (),
        extrapolate: bool = False,
    ) -> None:
        from counterpoint.models.comparison import read_over
        from counterpoint.models.reading import data_of
        from counterpoint.search.witnesses import Witnesses

        self.model = model
        self.constraints = all_constraints(constraints)
        if cost is not None:
            _checked_cost(cost)
        check_flag("extrapolate", extrapolate)
        # Without either, the kinds of columns are those of the rows to explain.
        self._has_kinds = data is not None or features is not None
        described = None if features is None else all_features(features)
        table = None if data is None else data_of(model, data)
        self.reading = read_over(model, table, described)
        # The default constraints: those that the data imply.
        implied = [Immutable(*self.constant)] if self.constant else []
        if table is None:
            self._witnesses = None
            self._whole_floats: tuple[Hashable, ...] = ()
            self.implied: tuple[Constraint, ...] = (*implied,)
        else:
            self.constraints = _counted(self.constraints, self.reading, table)
            self._witnesses = Witnesses(self.reading, table)
            self._whole_floats = self._floats_in_steps(table, described or ())
            observed = self._within_observed(described or (), extrapolate=bool(extrapolate))
            self.implied = (*implied, *observed)
        self.spreads: dict[Hashable, tuple[float, str]] = {}
        """Name → (spread, its kind), if no cost was passed; else empty."""
        if cost is None:
            self.spreads = ranges(self.features) if table is None else spreads(table, self.features)
        self.cost = cost or Manhattan({name: 1.0 / s for name, (s, _) in self.spreads.items()})
        self._queries: Memo[tuple[frozenset[Hashable], bool], Query] = Memo()
        _ = self._prepared()  # cost and constraints are checked here

    def __getstate__(self) -> dict[str, Any]:
        # Programs and solvers are prepared anew.
        return {name: value for name, value in vars(self).items() if name != "_queries"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._queries = Memo()

    @property
    def features(self) -> Features:
        """The raw columns that the model takes, with their kinds."""
        return self.reading.features

    @property
    def reference(self) -> FloatArray | None:
        """Encoded rows of ``data=`` without a missing cell, (m, d); None without data.

        At most 10 000 of them, evenly spread.
        """
        return None if self._witnesses is None else self._witnesses.points

    def adding(
        self, constraints: Constraint | Iterable[Constraint] = (), *, cost: Cost | None = None
    ) -> Explainer:
        """Return an explainer with more constraints, or another cost; nothing is read again.

        Parameters
        ----------
        constraints
            Further constraints. Nothing becomes possible that was not: a `Bounds` that reaches
            beyond the data does not lift their range, as it does where an `Explainer` is made.
        cost
            The cost of a change instead; None for the same.

        Raises
        ------
        InvalidInput
            If they do not fit the features.
        """
        other = copy(self)
        other.constraints = (*self.constraints, *all_constraints(constraints))
        if cost is not None:
            other.cost, other.spreads = _checked_cost(cost), {}
        _ = other._prepared()  # noqa: SLF001 (they are checked here)
        return other

    @overload
    def explain(
        self,
        X: object,
        target: Any,
        *,
        n: None = None,
        by: str = ...,
        gap: float = ...,
        time_limit: float | None = ...,
        optimality: Literal["local", "global"] = ...,
        progress: bool | None = ...,
    ) -> Counterfactuals: ...
    @overload
    def explain(
        self,
        X: object,
        target: Any,
        *,
        n: int,
        by: str = ...,
        gap: float = ...,
        time_limit: float | None = ...,
        optimality: Literal["local", "global"] = ...,
        progress: bool | None = ...,
    ) -> Alternatives: ...
    def explain(  # noqa: PLR0913 (as scikit-learn's estimators: options have names)
        self,
        X: object,
        target: Any,
        *,
        n: int | None = None,
        by: str = "features",
        gap: float = DEFAULT_GAP,
        time_limit: float | None = None,
        optimality: Literal["local", "global"] = "local",
        progress: bool | None = None,
    ) -> Counterfactuals | Alternatives:
        """Return the cheapest change of each row that gives the target.

        Parameters
        ----------
        X
            A data frame, an array of shape (n, p), one row, or a list of rows, each of them values
            or name → value. A missing cell counts as the value that the pipeline fills in for its
            column, if it is one (see `summary`): cost and constraints are measured from there, and
            unless the answer changes it, the cell stays missing.
        target
            A `Target`; anything else is taken as the label of `Label`.
        n
            How many answers to give to each row at most; None for one.
        by
            In what several answers differ, as for `diversify`.
        gap
            The relative gap, (objective − bound) / objective, at which a search may stop; the
            objective is the cost, but for a `Tradeoff`.
        time_limit
            Seconds for each search of a row, shared among the pieces of the target; a row that runs
            out of time keeps its best answer so far. A row whose answer the model does not confirm
            is searched again.
        optimality
            Where the target is not convex (prototypes with metrics of their own, Gaussians):
            ``"local"`` for the best that descents from several starts find; ``"global"`` to have
            SCIP exclude that there is a better one, unless that is proved already, which can take
            long. For all other models both are the same.
        progress
            Whether to show a progress bar; None to show one on a terminal if it takes long.

        Returns
        -------
        Counterfactuals
            One for each row; a row that fails has a status and a sentence. With ``n``,
            `Alternatives`.

        Raises
        ------
        InvalidInput
            If columns are missing, or the target does not fit the model.
        ReaderMismatch
            If the model predicts otherwise than what was read of it.
        MissingExtra
            If ``"global"`` needs SCIP and it is not installed.
        """
        from counterpoint.search.answering import answers_to

        effort = Effort.checked(gap, time_limit, optimality)
        if progress is not None:
            check_flag("progress", progress)
        query, tables = self._query(X, as_target(target), effort)
        n_rows = len(tables[1])
        if n is None and by != "features":
            raise InvalidInput(
                f"Expected n= with by={shown(by)}: it says in what several answers differ. Pass, "
                "say, n=3."
            )
        if n is not None:
            return alternatives_to(query, tables, n, by, progress=progress)
        if n_rows == 1 and not progress:  # a bar would jump from nothing to all
            return answers_to(query, tables)
        with track(n_rows, show=progress) as advance:
            return answers_to(query, tables, advance)

    def trace(
        self,
        X: object,
        targets: Iterable[Any],
        *,
        gap: float = DEFAULT_GAP,
        time_limit: float | None = None,
        progress: bool | None = None,
    ) -> Path:
        """Return the answers of each row to one target after the other: `counterpoint.trace`.

        Parameters
        ----------
        X, gap, time_limit, progress
            As for `explain`; the seconds are those of each answer.
        targets
            Targets in any order; anything but a `Target` is taken as the label of `Label`.

        Returns
        -------
        Path
        """
        checked, effort = checked_targets(targets), Effort.checked(gap, time_limit)
        query, tables = self._query(X, checked[0], effort)
        return traced(query, tables, checked, self.cost, progress=progress)

    def summary(self) -> str:
        """Describe the model as it was read, the features, the cost and the constraints."""
        return "\n".join("\n  ".join([name, *lines]) for name, lines in self._sections().items())

    def _sections(self) -> dict[str, list[str]]:
        """Return heading → lines of the `summary`."""
        constraints = [*map(str, self.constraints), *self._described_defaults()]
        return {
            "model": list(self.reading.steps),
            "features": [*map(str, self.features), *self._described_cells()],
            "cost": described(self.cost, self.spreads),
            "constraints": constraints or ["none"],
        }

    def _described_cells(self) -> Iterator[str]:
        """Yield the lines of the `summary` on whole steps and on missing cells."""
        if self._whole_floats:
            names = some(self._whole_floats, 12, str)
            yield (
                f"whole in the data, hence in whole steps: {names} (describe a column with "
                "Continuous to lift it)"
            )
        steps = [feature.name for feature in self.features if isinstance(feature, Integer)]
        if steps and not self.reading.form.proves_steps:
            yield (
                f"whole steps of {some(steps, 12, str)}: answers of this model may not be proved "
                "to be the cheapest"
            )
        fills = self.reading.fills.items()
        filled = [
            f"{name} as {f'{value:g}' if isinstance(value, float) else value}"
            for name, value in fills
            if value != MISSING
        ]
        if filled:
            yield f"missing cells count, as the model fills them in: {', '.join(filled)}"
        stay_missing = [str(name) for name, value in fills if value == MISSING]
        if stay_missing:
            yield f"missing cells stay missing, as the model takes them: {some(stay_missing)}"

    def __repr__(self) -> str:
        return (
            f"<Explainer: {type(self.model).__name__} of {several(len(self.features), 'feature')}, "
            f"{type(self.cost).__name__} cost, {several(len(self.constraints), 'constraint')}>"
        )

    def _repr_html_(self) -> str:
        sections = self._sections().items()
        return html.panel(
            repr(self)[1:-1], *(html.folded(name, html.bullets(lines)) for name, lines in sections)
        )

    def _described_defaults(self) -> Iterator[str]:
        """Yield the lines of the `summary` on the constraints that the data imply."""
        if self.constant:
            names = ", ".join(map(str, self.constant))
            yield f"constant in the data, hence immutable: {names}"
        for constraint in self.implied:
            if not isinstance(constraint, WithinObserved):
                continue
            if isinstance(self.features[constraint.features[0]], Categorical):
                text = f"{named(constraint.features)}: only categories that occur in the data"
            else:
                text = "numbers stay within the ranges above"
                if any(bounds.feature in constraint.features for bounds in constraint.stated):
                    text += ", but where a bound says otherwise"
            yield f"{text} ({constraint.default})"  # how to lift it

    def _floats_in_steps(
        self, table: Table, described: tuple[Feature, ...]
    ) -> tuple[Hashable, ...]:
        """Return the columns of floats that are in whole steps because all data are whole."""
        expected = {*table.whole, *(feature.name for feature in described)}
        steps = (f.name for f in self.features if isinstance(f, Integer))
        return tuple(name for name in steps if name not in expected)

    @cached_property
    def constant(self) -> tuple[Hashable, ...]:
        """Features with a single observed value; they are taken to be immutable."""
        observed = ((f.name, f.observed) for f in self.features)
        return tuple(name for name, values in observed if values and len({*values}) == 1)

    def _within_observed(
        self, described: tuple[Feature, ...], *, extrapolate: bool
    ) -> Iterator[WithinObserved]:
        """Yield the default constraints: answers stay within the values of the data.

        Numbers stay within their observed range, unless answers may extrapolate; the ends of stated
        `Bounds` replace those of the range. Categories that the model knows and the data never show
        are excluded, unless the user describes the column without saying what was observed.
        Features that a stated `WithinObserved` names are left to it.
        """
        stated = [c for c in self.constraints if isinstance(c, WithinObserved)]
        covered = {name for c in stated for name in c.features or self.features.names}
        covered |= {f.name for f in described if isinstance(f, Categorical) and f.observed is None}
        numbers, unseen = list[Hashable](), list[Hashable]()
        for feature in self.features:
            if feature.name in covered or feature.observed is None:
                continue
            if not isinstance(feature, Categorical):
                numbers.append(feature.name)
            elif {*feature.categories} - {*feature.observed, feature.stand_in}:
                unseen.append(feature.name)
        if numbers and not extrapolate:
            bounds = [c for c in self.constraints if isinstance(c, Bounds)]
            yield WithinObserved.by_default(numbers, "pass extrapolate=True to lift it", bounds)
        if unseen:
            how_to_lift = "describe the column with Categorical to add categories"
            yield WithinObserved.by_default(unseen, how_to_lift)

    def _query(
        self, X: object, target: Target, effort: Effort
    ) -> tuple[Query, tuple[Table, Table]]:
        """Return the query of a call; and its rows, as they came and as the model's columns."""
        table = Table.read(X)
        inputs = match_columns(table, self.reading.features, named=self.reading.named)
        if table.is_array or inputs.labels is not None:  # matched by position: they are all columns
            table = inputs
        # Without data or features, columns of whole numbers change in steps of 1.
        whole = frozenset[Hashable]() if self._has_kinds else inputs.whole
        # Steps of a pipeline compute in the precision of the model or of the rows.
        eps = max(self.reading.eps, inputs.eps)
        query = self._prepared(whole, eps).asking(target=target, effort=effort, eps=eps)
        return query, (table, inputs)

    def _prepared(self, whole: frozenset[Hashable] = frozenset(), eps: float = EPS) -> Query:
        """Return the query without its target, cached by the ``whole`` columns and the precision.

        Continuous columns that are whole become integer ones. ``eps`` is the distance from 1 to the
        next number; the form has two precisions at most, its own and a coarser one.
        """
        from counterpoint.search.query import Query

        form = self.reading.form.in_precision(eps)
        is_own_precision = form is self.reading.form

        def make() -> Query:
            reading, features = self.reading, self.features
            if whole:
                features = Features(
                    Integer(f.name) if isinstance(f, Continuous) and f.name in whole else f
                    for f in features
                )
            if not is_own_precision:
                reading = replace(reading, form=form)
            rules = (*self.constraints, *self.implied)
            query = Query.ask(reading, features, rules, self.cost)
            return query.asking(witnesses=self._witnesses)

        return self._queries.made((whole, is_own_precision), make)


def _counted(
    constraints: tuple[Constraint, ...], reading: ReadModel, table: Table
) -> tuple[Constraint, ...]:
    """Return constraints, each `ObservedCombinations` with those of the data if it has none."""
    uncounted = [isinstance(c, ObservedCombinations) and c.seen is None for c in constraints]
    if not any(uncounted):
        return constraints
    inputs = match_columns(table, reading.features, named=reading.named)
    rows = encode(inputs, reading.features, reading.fills, reading.unfilled)
    codes = np.where(rows.missing == PRESENT, rows.codes, -1.0)
    codes[[*rows.problems]] = -1.0
    return tuple(
        c.counted(reading.features, codes) if isinstance(c, ObservedCombinations) and needs else c
        for c, needs in zip(constraints, uncounted, strict=True)
    )


def _checked_cost(cost: object) -> Cost:
    if isinstance(cost, Cost):
        return cost
    got = f"{shown(cost)} ({type(cost).__name__})"
    raise InvalidInput(f"Expected a cost such as cp.Manhattan(); got {got}.")


def explain(  # noqa: PLR0913 (two calls in one)
    model: Any,
    X: object,
    target: Any,
    *,
    data: object | None = None,
    features: Feature | Iterable[Feature] | None = None,
    cost: Cost | None = None,
    constraints: Constraint | Iterable[Constraint] = (),
    extrapolate: bool = False,
    gap: float = DEFAULT_GAP,
    time_limit: float | None = None,
    optimality: Literal["local", "global"] = "local",
    progress: bool | None = None,
) -> Counterfactuals:
    """`Explainer` and `Explainer.explain` in one call.

    Parameters
    ----------
    model, data, features, cost, constraints, extrapolate
        As for `Explainer`.
    X, target, gap, time_limit, optimality, progress
        As for `Explainer.explain`.

    Returns
    -------
    Counterfactuals
    """
    explainer = Explainer(
        model,
        data=data,
        features=features,
        cost=cost,
        constraints=constraints,
        extrapolate=extrapolate,
    )
    return explainer.explain(
        X, target, gap=gap, time_limit=time_limit, optimality=optimality, progress=progress
    )


def diversify(  # noqa: PLR0913 (as `explain`)
    explainer: Explainer,
    X: object,
    target: Any,
    count: int = 3,
    *,
    by: str = "features",
    gap: float = DEFAULT_GAP,
    time_limit: float | None = None,
    optimality: Literal["local", "global"] = "local",
    progress: bool | None = None,
) -> Alternatives:
    """Return several answers to each row that differ in what they change, the cheapest first.

    ``by="features"`` gives the cheapest answer; then the cheapest of those that leave some feature
    alone that it changes; and so on: no answer changes all the features that an earlier one
    changes. Each is proved as the first is: its bound is one on every answer that was left to
    choose (a tree of hitting sets, searched best first). ``by="disjoint"`` gives the cheapest
    answer that leaves alone all features that earlier ones change. ``by="piece"`` gives the
    cheapest answer in each piece of the target, such as the cell of a prototype; its bound is one
    for that piece.

    Parameters
    ----------
    explainer
        The model, cost and constraints.
    count
        How many answers to give at most.
    by
        In what they differ: "features", "disjoint" or "piece".
    X, target, gap, time_limit, optimality, progress
        As for `Explainer.explain`; the seconds are those of each search.

    Returns
    -------
    Alternatives

    Raises
    ------
    InvalidInput, ReaderMismatch
        As for `Explainer.explain`, or if ``count`` or ``by`` make no sense.

    Notes
    -----
    A squared cost spreads a change over all features, so answers that differ in their features
    hardly differ; with `Manhattan`, or `MaxChanges`, they do.

    Examples
    --------
    >>> import counterpoint as cp
    >>> from counterpoint.lvq import GMLVQ
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> explainer = cp.Explainer(GMLVQ(random_state=0).fit(X, y), data=X)
    >>> several = cp.diversify(explainer, X.head(1), 1, by="disjoint")
    >>> [sorted(answer.changes) for answer in several[0]]
    [['petal length (cm)'], ['petal width (cm)', 'sepal width (cm)']]
    """
    all_of(Explainer, (explainer,), *EXPLAINER)
    return explainer.explain(
        X,
        target,
        n=count,
        by=by,
        gap=gap,
        time_limit=time_limit,
        optimality=optimality,
        progress=progress,
    )


def trace(
    explainer: Explainer,
    X: object,
    targets: Iterable[Any],
    *,
    gap: float = DEFAULT_GAP,
    time_limit: float | None = None,
    progress: bool | None = None,
) -> Path:
    """Return the answers of each row to one target after the other.

    The trade-offs of one label are answered in one batch, which takes far less time than as many
    calls of `Explainer.explain`; other targets are answered one by one. The answers are the same.

    As the weight of a `Tradeoff` falls, neither the cost of the answer nor the probability of the
    label falls, up to their gaps, whatever the cost and the constraints are.

    Parameters
    ----------
    explainer
        The model, cost and constraints.
    X, targets, gap, time_limit, progress
        As for `Explainer.trace`.

    Returns
    -------
    Path

    Raises
    ------
    InvalidInput, ReaderMismatch
        As for `Explainer.explain`.

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
    [[0.04, 0.5, 0.92]]
    """
    all_of(Explainer, (explainer,), *EXPLAINER)
    return explainer.trace(X, targets, gap=gap, time_limit=time_limit, progress=progress)
