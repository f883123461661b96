"""`Explainer` and `explain`: the call. `search/answering.py` is the way of its rows."""

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
        self._has_kinds = data is not None or features is not None
        described_features = None if features is None else all_features(features)
        table = None if data is None else data_of(model, data)
        self.reading = read_over(model, table, described_features)
        if table is not None:
            self.constraints = _counted(self.constraints, self.reading, table)
        self._witnesses = None if table is None else Witnesses(self.reading, table)
        self._whole_floats = (
            ()
            if table is None
            else self._floats_in_steps(table, {item.name for item in described_features or ()})
        )
        implied = (
            []
            if data is None
            else self._observed_bounds(described_features or (), extrapolate=bool(extrapolate))
        )
        constant = [Immutable(*self.constant)] if self.constant else []
        self.implied: tuple[Constraint, ...] = (*constant, *implied)
        self.spreads: dict[Hashable, tuple[float, str]] = {}
        """Name → spread and what it is, if no cost was passed; else empty."""
        if cost is None:
            shown_spreads = (
                ranges(self.features) if table is None else spreads(table, self.features)
            )
            self.spreads = shown_spreads
        self.cost = cost or Manhattan({name: 1.0 / s for name, (s, _) in self.spreads.items()})
        self._queries: Memo[tuple[frozenset[Hashable], bool], Query] = Memo()
        _ = self._prepared()  # cost and constraints are checked here

    def __getstate__(self) -> dict[str, Any]:
        # programs and engines are prepared anew
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
        """(m, d) rows of ``data=`` without a missing cell, encoded, 10 000 at most, spread evenly.

        None without data.
        """
        return None if self._witnesses is None else self._witnesses.points

    def adding(
        self, constraints: Constraint | Iterable[Constraint] = (), *, cost: Cost | None = None
    ) -> Explainer:
        """An explainer with more constraints, or another cost; nothing is read again.

        Parameters
        ----------
        constraints
            What holds besides. Nothing becomes possible that was not: a `Bounds` that reaches
            beyond the data does not lift their range, as it does where an `Explainer` is made.
        cost
            What a change costs instead; None for the same.

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
        """The cheapest change of each row that gives the target.

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

        effort = Effort.asked(gap, time_limit, optimality)
        if progress is not None:
            check_flag("progress", progress)
        query, tables = self._query(X, as_target(target), effort)
        if n is None and by != "features":
            raise InvalidInput(
                f"Expected n= with by={shown(by)}: it says in what several answers differ. Pass, "
                "say, n=3."
            )
        if n is not None:
            return alternatives_to(query, tables, n, by, progress=progress)
        if len(tables[1].native) == 1 and not progress:  # nothing of it is done until all is
            return answers_to(query, tables)
        with track(len(tables[1]), show=progress) as advance:
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
        """The answers of each row to one target after the other: `counterpoint.trace`.

        Parameters
        ----------
        X, gap, time_limit, progress
            As for `explain`; the seconds are those of each answer.
        targets
            What is wanted, in any order; what is no `Target` is taken as the label of `Label`.

        Returns
        -------
        Path
        """
        checked, effort = checked_targets(targets), Effort.asked(gap, time_limit)
        query, tables = self._query(X, checked[0], effort)
        return traced(query, tables, checked, self.cost, progress=progress)

    def summary(self) -> str:
        """What was read of the model, the features' kinds, the cost and the constraints."""
        return "\n".join("\n  ".join([name, *lines]) for name, lines in self._parts().items())

    def _parts(self) -> dict[str, list[str]]:
        """What `summary` says, line by line."""
        features = [str(feature) for feature in self.features]
        fills = self.reading.fills.items()
        taken = [str(name) for name, value in fills if value == MISSING]
        filled = [
            f"{name} as {f'{value:g}' if isinstance(value, float) else value}"
            for name, value in fills
            if value != MISSING
        ]
        if self._whole_floats:
            names = some(self._whole_floats, 12, str)
            features.append(
                f"whole in the data, hence in whole steps: {names} (describe a column with "
                "Continuous to lift it)"
            )
        steps = [feature.name for feature in self.features if isinstance(feature, Integer)]
        if steps and not self.reading.form.proves_steps:
            features.append(
                f"whole steps of {some(steps, 12, str)}: answers of this model may not be proved "
                "to be the cheapest"
            )
        if filled:
            prefix = "missing cells count, as the model fills them in: "
            features.append(prefix + ", ".join(filled))
        if taken:
            features.append(f"missing cells stay missing, as the model takes them: {some(taken)}")
        return {
            "model": list(self.reading.steps),
            "features": features,
            "cost": described(self.cost, self.spreads),
            "constraints": [*map(str, self.constraints), *self._described_defaults()] or ["none"],
        }

    def __repr__(self) -> str:
        stated, name = len(self.constraints), type(self.model).__name__
        return (
            f"<Explainer: {name} of {several(len(self.features), 'feature')}, "
            f"{type(self.cost).__name__} cost, {several(stated, 'constraint')}>"
        )

    def _repr_html_(self) -> str:
        sections = self._parts().items()
        return html.panel(
            repr(self)[1:-1], *(html.folded(name, html.bullets(lines)) for name, lines in sections)
        )

    def _described_defaults(self) -> Iterator[str]:
        """What the data imply."""
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
            yield f"{text} ({constraint.default})"

    def _floats_in_steps(self, table: Table, described: set[Hashable]) -> tuple[Hashable, ...]:
        """Columns of floats that the data show with whole numbers only."""
        whole = {*table.whole, *described}
        steps = (f.name for f in self.features if isinstance(f, Integer))
        return tuple(name for name in steps if name not in whole)

    @cached_property
    def constant(self) -> tuple[Hashable, ...]:
        """Features that the data show with one value only; they are taken to be immutable."""
        seen = ((f.name, f.observed) for f in self.features)
        return tuple(name for name, values in seen if values and len({*values}) == 1)

    def _observed_bounds(
        self, described_features: tuple[Feature, ...], *, extrapolate: bool
    ) -> list[WithinObserved]:
        """Return the default constraints: answers stay within what the data show.

        Numbers stay within their observed range, unless answers may extrapolate or a constraint
        says more; categories that the model knows and the data never show are excluded, unless the
        column is described without saying what was observed.
        """
        within_observed = [c for c in self.constraints if isinstance(c, WithinObserved)]
        named_already = {
            name for c in within_observed for name in c.features or self.features.names
        }
        observed = [
            f for f in self.features if f.name not in named_already and f.observed is not None
        ]
        numbers = [f.name for f in observed if not isinstance(f, Categorical)]
        stated = [c for c in self.constraints if isinstance(c, Bounds)]
        free = {
            f.name for f in described_features if isinstance(f, Categorical) and f.observed is None
        }
        categorical = [f for f in observed if isinstance(f, Categorical) and f.name not in free]
        unseen = [
            f.name for f in categorical if {*f.categories} - {*(f.observed or ()), f.stand_in}
        ]
        lift = "pass extrapolate=True to lift it"
        add = "describe the column with Categorical to add categories"
        within = [WithinObserved.by_default(numbers, lift, stated)] if numbers else []
        among = [WithinObserved.by_default(unseen, add)] if unseen else []
        return among if extrapolate else within + among

    def _query(
        self, X: object, target: Target, effort: Effort
    ) -> tuple[Query, tuple[Table, Table]]:
        """Return what is asked of rows; and the rows, as they came and as the model's columns.

        Steps of a pipeline compute in the precision of the model or of the rows: the coarsest
        counts.
        """
        table = Table.read(X)
        inputs = match_columns(table, self.reading.features, named=self.reading.named)
        if table.is_array or inputs.labels is not None:  # its columns go by the model's names
            table = inputs
        # without data or features, whole dtypes are steps of 1
        whole = frozenset[Hashable]() if self._has_kinds else inputs.whole
        eps = max(self.reading.eps, inputs.eps)
        query = self._prepared(whole, eps).asking(target=target, effort=effort, eps=eps)
        return query, (table, inputs)

    def _prepared(self, whole: frozenset[Hashable] = frozenset(), eps: float = EPS) -> Query:
        """What does not depend on the target, made once for whole columns and a precision."""
        from counterpoint.search.query import Query

        form = self.reading.form.in_precision(eps)
        same = form is self.reading.form
        key = whole, same
        prepared = self._queries.get(key)
        if prepared is not None:
            return prepared

        def make() -> Query:
            stepped = (isinstance(f, Continuous) and f.name in whole for f in self.features)
            pairs = zip(self.features, stepped, strict=True)
            items = Features(Integer(f.name) if steps else f for f, steps in pairs)
            features = items if whole else self.features
            rules = (*self.constraints, *self.implied)
            reading = self.reading if same else replace(self.reading, form=form)
            query = Query.ask(reading, features, rules, self.cost)
            return query.asking(witnesses=self._witnesses)

        return self._queries.made(key, make)


def _counted(
    constraints: tuple[Constraint, ...], reading: ReadModel, table: Table
) -> tuple[Constraint, ...]:
    """Return constraints with the combinations that the data show, of those that ask for them."""
    if not any(isinstance(c, ObservedCombinations) and c.seen is None for c in constraints):
        return constraints
    inputs = match_columns(table, reading.features, named=reading.named)
    rows = encode(inputs, reading.features, reading.fills, reading.unfilled)
    codes = np.where(rows.missing == PRESENT, rows.codes, -1.0)
    codes[[*rows.problems]] = -1.0
    return tuple(
        c.counted(reading.features, codes)
        if isinstance(c, ObservedCombinations) and c.seen is None
        else c
        for c in constraints
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
    """Several answers to each row that differ in what they change, the cheapest first.

    ``by="features"`` gives the cheapest answer; then the cheapest of those that leave some feature
    alone that it changes; and so on: no answer changes all the features that an earlier one
    changes. Each is proven as the first is: its bound is one on every answer that was left to
    choose (a tree of hitting sets, searched best first). ``by="disjoint"`` gives the cheapest
    answer that leaves alone all features that earlier ones change. ``by="piece"`` gives the
    cheapest answer in each piece of the target, such as the cell of a prototype; its bound is one
    for that piece.

    Parameters
    ----------
    explainer
        What is asked of each row.
    count
        How many answers to give at most.
    by
        In what they differ.
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
    """The answers of each row to one target after the other.

    The trade-offs of one label are answered in one batch, which takes far less time than as many
    calls of `Explainer.explain`; other targets are answered one by one. The answers are the same.

    As the weight of a `Tradeoff` falls, neither the cost of the answer nor the probability of the
    label falls, up to their gaps, whatever the cost and the constraints are.

    Parameters
    ----------
    explainer
        What is asked of each row.
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
