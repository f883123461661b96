"""`Explainer` and `explain`: the only orchestration."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.certificate import Certificates, certify, lower_bounds
from counterpoint.constraints import Constraint, Immutable
from counterpoint.costs import Cost, Manhattan, Price, mad_weights, spreads
from counterpoint.encoding import decode, encode, match_columns
from counterpoint.errors import InvalidInput, ReaderMismatch
from counterpoint.features import Categorical, Continuous, Feature, Features, Integer
from counterpoint.frames import Table
from counterpoint.programs import Program, kinds_region
from counterpoint.regions import Region
from counterpoint.results import STATUSES, Conflict, Counterfactuals, Status
from counterpoint.targets import Confidence, Interval, Label, OtherLabel, Target

if TYPE_CHECKING:
    from counterpoint.readers import Reading
    from counterpoint.search import Findings, Piece

__all__ = ["Explainer", "explain"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

CELLS = 1 << 18
"""Cells of a chunk: small enough for the cache, large enough that Python does not count."""
ROUNDS = 12
"""How often a row whose answer the model does not confirm is solved again with more margin."""
FIRST_MARGIN = 0.25
"""The first margin, in units of the bound on a score's rounding error, which is rarely attained."""
DISAGREEMENT = 2.0**30
"""How many float64 rounding errors apart two scores may be that count as equal (float32 models)."""
DEFAULT_GAP = 1e-6


@final
class Explainer:
    """Smallest changes that make a fitted model decide otherwise.

    Parameters
    ----------
    model
        A fitted linear scikit-learn classifier or regressor, also at the end of a pipeline.
    data
        Rows like those the model was fitted on: features, their kinds and the default cost come
        from them. Columns that the model does not use are passed over; constant columns are
        taken to be immutable.
    features
        Descriptions of columns that differ from what data and model say, or all of them.
    cost
        What a change costs; None for `Manhattan` with `mad_weights` of the data.
    constraints
        What a person can or may change.

    Raises
    ------
    UnsupportedModel, ModelNotFitted
        If the model cannot be read exactly.
    InvalidInput
        If cost or constraints do not fit the features, or there is neither cost nor data.

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
        features: Iterable[Feature] | None = None,
        cost: Cost | None = None,
        constraints: Iterable[Constraint] = (),
    ) -> None:
        self.model = model
        self.constraints = tuple(constraints)
        _check_types(cost, self.constraints)
        self._has_kinds = data is not None or features is not None
        self.reading = _read(model, data, features)
        if cost is None and data is None:
            raise InvalidInput(
                "Expected a cost, or data from which to take one; got neither. Pass data=, or "
                "cost=cp.Manhattan() to weigh all features alike."
            )
        self._spreads = spreads(data, self.features) if cost is None else {}
        self.cost = cost if cost is not None else Manhattan(mad_weights(data, self.features))
        self._questions: dict[Any, _Question] = {}
        self._question(self.features, ())

    @property
    def features(self) -> Features:
        """The raw columns that the model takes, with their kinds."""
        return self.reading.features

    def explain(
        self,
        X: object,
        target: Any,
        *,
        gap: float = DEFAULT_GAP,
        time_limit: float | None = None,
        progress: bool | None = None,
    ) -> Counterfactuals:
        """The cheapest change of each row that gives the target.

        Parameters
        ----------
        X
            A data frame, an array of shape (n, p), or one row.
        target
            A `Target`; anything else is taken as the label of `Label`.
        gap
            The relative gap, (cost − bound) / cost, at which a search may stop.
        time_limit
            Seconds for each row; a row that runs out of time keeps its best answer so far.
        progress
            Whether to show a progress bar; None to show one on a terminal if it takes long.

        Returns
        -------
        Counterfactuals
            One for each row; a row that fails has a status and a sentence.

        Raises
        ------
        InvalidInput
            If columns are missing, or the target does not fit the model.
        ReaderMismatch
            If the model predicts otherwise than what was read of it.
        """
        if not gap >= 0:
            raise InvalidInput(f"Expected a gap of at least 0; got {gap!r}.")
        if time_limit is not None and not time_limit > 0:
            raise InvalidInput(f"Expected a time limit above 0 seconds; got {time_limit!r}.")
        target = target if isinstance(target, Target) else Label(target)
        batch = _Batch(self, Table.read(X), target, gap, time_limit)
        return batch.run(progress=progress)

    def summary(self) -> str:
        """What was read of the model, the features' kinds, the cost and the constraints."""
        from counterpoint.summary import describe

        return describe(self)

    @cached_property
    def constant(self) -> tuple[Hashable, ...]:
        """Features that the data show with one value only; they are taken to be immutable."""
        return tuple(f.name for f in self.features if _is_constant(f))

    @property
    def spreads(self) -> dict[Hashable, tuple[float, str]]:
        """Name → spread and what it is, if the cost came from the data; else empty."""
        return self._spreads

    def all_constraints(self) -> tuple[Constraint, ...]:
        """The constraints that were given, and those that the data imply."""
        implied = (Immutable(*self.constant),) if self.constant else ()
        return (*self.constraints, *implied)

    def _question(self, features: Features, key: tuple[Any, ...]) -> _Question:
        """What does not depend on the target, made once for each set of kinds."""
        if key not in self._questions:
            self._questions[key] = _Question.ask(self, features, self.all_constraints())
        return self._questions[key]

    def question_for(self, table: Table) -> _Question:
        """The question for a table; without data or features, whole-number dtypes are steps of 1."""
        if self._has_kinds:
            return self._question(self.features, ())
        whole = tuple(
            f.name
            for f in self.features
            if isinstance(f, Continuous) and _is_whole(table.dtype(f.name))
        )
        features = self.features
        for name in whole:
            features = features.replaced(Integer(name))
        return self._question(features, whole)


def explain(
    model: Any,
    X: object,
    target: Any,
    *,
    data: object | None = None,
    cost: Cost | None = None,
    constraints: Iterable[Constraint] = (),
    **options: Any,
) -> Counterfactuals:
    """`Explainer` and `Explainer.explain` in one call.

    Parameters
    ----------
    model, data, cost, constraints
        As for `Explainer`.
    X, target
        As for `Explainer.explain`.
    **options
        ``features`` of `Explainer`; ``gap``, ``time_limit`` and ``progress`` of
        `Explainer.explain`.

    Returns
    -------
    Counterfactuals
    """
    features = options.pop("features", None)
    explainer = Explainer(model, data=data, features=features, cost=cost, constraints=constraints)
    return explainer.explain(X, target, **options)


@final
@dataclass(frozen=True, eq=False)
class _Question:
    """A model, a cost and constraints over features: everything but the target and the people."""

    reading: Reading
    features: Features
    price: Price
    actionable: Region

    @classmethod
    def ask(
        cls, explainer: Explainer, features: Features, constraints: Iterable[Constraint]
    ) -> _Question:
        region = kinds_region(features)
        for constraint in constraints:
            region = region & constraint.region(features)
        return cls(explainer.reading, features, explainer.cost.price(features), region)

    @cached_property
    def plain(self) -> Program:
        """The cost over the actionable region, without a target."""
        return Program(self.price, self.actionable)

    @cached_property
    def _pieces(self) -> dict[Target, tuple[Piece, ...]]:
        return {}

    def pieces(self, target: Target) -> tuple[Piece, ...]:
        """The programs of a target, prepared; cached for each target."""
        from counterpoint.search import Piece

        key = _hashable(target)
        if key not in self._pieces:
            regions = self.reading.form.regions(target)
            programs = [Program(self.price, region & self.actionable) for region in regions]
            self._pieces[key] = tuple(Piece(program) for program in programs)
        return self._pieces[key]


@final
class _Batch:
    """One call of `Explainer.explain`."""

    def __init__(
        self,
        explainer: Explainer,
        table: Table,
        target: Target,
        gap: float,
        time_limit: float | None,
    ) -> None:
        from counterpoint.solvers import Effort

        self.explainer = explainer
        self.model = explainer.model
        self.form = explainer.reading.form
        self.effort = Effort(gap, time_limit)
        self.inputs = match_columns(table, explainer.features)
        self.table = self.inputs if table.is_array else table
        self.question = explainer.question_for(self.inputs)
        self.features = self.question.features
        self.target = target
        if not (isinstance(target, OtherLabel) and not target.labels):
            self.form.regions(target)
        encoded = encode(self.inputs, self.features)
        self.before, self.problems = encoded.codes, encoded.problems
        n = len(table)
        self.after = np.array(self.before)
        self.codes = np.full(n, STATUSES.index(Status.INVALID), dtype=np.int8)
        self.certificates = Certificates.blank(n)
        self.closed = np.zeros(n, dtype=bool)
        self.targets: dict[int, Target] = {}

    def run(self, *, progress: bool | None) -> Counterfactuals:
        """Chunk by chunk."""
        from counterpoint.progress import track

        n = len(self.before)
        size = max(64, CELLS // max(self.features.width, 1))
        usable = np.ones(n, dtype=bool)
        usable[list(self.problems)] = False
        with track(n, show=progress) as advance:
            for chunk in self.inputs.chunks(size):
                rows = np.arange(chunk.start, chunk.stop)
                whole = bool(usable[chunk].all())
                self._chunk(chunk if whole else rows[usable[chunk]], advance)
                advance(int((~usable[chunk]).sum()))
        return Counterfactuals(
            self.table,
            self.features,
            self.before,
            self.after,
            self.codes,
            self.certificates,
            self.closed,
            self.problems,
            self._conflict,
        )

    def _chunk(self, rows: slice | IntArray, advance: Callable[[int], None]) -> None:
        table = self.inputs.take(rows)
        if not len(table):
            return
        x = self.features.expand(self.before[rows])
        predicted = self._predict(table)
        self._self_check(x, predicted)
        index = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        for target, part in self._by_target(predicted):
            whole = len(part) == len(x)
            group = rows if whole else index[part]
            met = self._met(target, table if whole else table.take(part), x[part], predicted[part])
            self._put_already(index[part[met]], x[part[met]], target)
            ask = np.flatnonzero(~met)
            if len(ask) == len(part):
                self._ask(group, x if whole else x[part], target, advance)
            else:
                advance(int(met.sum()))
                if len(ask):
                    self._ask(index[part[ask]], x[part[ask]], target, advance)

    def _by_target(self, predicted: NDArray[Any]) -> Iterator[tuple[Target, IntArray]]:
        """The target of each row; "anything else" depends on what the row gets now."""
        target = self.target
        if not (isinstance(target, OtherLabel) and not target.labels):
            yield target, np.arange(len(predicted))
            return
        for label in np.unique(predicted):
            value = label.item() if isinstance(label, np.generic) else label
            yield replace(target, than=value), np.flatnonzero(predicted == label)

    def _predict(self, table: Table) -> NDArray[Any]:
        named = self.explainer.reading.named
        return np.asarray(self.model.predict(table.to_model_input(named=named))).reshape(-1)

    def _self_check(self, x: FloatArray, predicted: NDArray[Any]) -> None:
        """What was read must predict what the model predicts, up to rounding at a tie."""
        read = self.form.predict(x)
        differs = np.flatnonzero(read != predicted)
        if not len(differs):
            return
        noise = DISAGREEMENT * self.form.noise(x[differs])
        if predicted.dtype.kind == "f" and read.dtype.kind == "f" and self._is_regressor:
            off = np.abs(read[differs] - predicted[differs]) > noise * (1 + np.abs(read[differs]))
        else:
            margins = [
                self.form.margin(x[[i]], Label(label))[0]
                for i, label in zip(differs, predicted[differs].tolist(), strict=True)
            ]
            off = np.array(margins) < -noise
        if off.any():
            raise ReaderMismatch(
                f"{type(self.model).__name__} predicts {predicted[differs[off]][0]!r} for a row for "
                f"which what was read of it predicts {read[differs[off]][0]!r} "
                f"({int(off.sum())} of {len(x)} rows). Please report this model."
            )

    @cached_property
    def _is_regressor(self) -> bool:
        from counterpoint.forms import LinearRegressor

        return isinstance(self.form, LinearRegressor)

    def _met(
        self, target: Target, table: Table, x: FloatArray, predicted: NDArray[Any]
    ) -> BoolArray:
        """(n,): whether the model's own methods say that the target is met."""
        if isinstance(target, Interval):
            return np.asarray((predicted >= target.low) & (predicted <= target.high))
        if isinstance(target, Confidence):
            named = self.explainer.reading.named
            shares = self.model.predict_proba(table.to_model_input(named=named))
            column = np.asarray(self.model.classes_).tolist().index(target.label)
            return np.asarray(shares[:, column] >= target.at_least)
        assert isinstance(target, Label | OtherLabel)
        inside = _is_among(predicted, target.labels)
        if isinstance(target, OtherLabel):
            inside = ~inside
        if target.margin > 0:
            inside &= self.form.margin(x, target) >= -self.form.noise(x)
        return inside

    def _put_already(self, rows: IntArray, x: FloatArray, target: Target) -> None:
        if not len(rows):
            return
        n, plain = len(rows), self.question.plain
        cases = plain.cases(x)
        zero, proved = np.zeros(n), np.full(n, 2, dtype=np.int8)
        valid, margin = np.ones(n, dtype=bool), self.form.margin(x, target)
        self.certificates.put(rows, certify(plain, x, cases, zero, proved, valid, margin))
        self.codes[rows] = STATUSES.index(Status.ALREADY)
        self.closed[rows] = True

    def _ask(
        self, rows: slice | IntArray, x: FloatArray, target: Target, advance: Callable[[int], None]
    ) -> None:
        """Search, settle and certify some rows; slow programs a few rows at a time."""
        pieces = self.question.pieces(target)
        slow = not all(piece.closed_form for piece in pieces)
        step = 16 if slow else len(x)
        index = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            here = rows if step >= len(x) else index[part]
            _Asking(self, here, x[part], target, pieces).run()
            advance(len(x[part]))

    def _conflict(self, i: int) -> Conflict | None:
        from counterpoint.conflicts import conflict_of

        if STATUSES[self.codes[i]] is not Status.INFEASIBLE:
            return None
        x = self.features.expand(self.before[[i]])
        predicted = self._predict(self.inputs.take(np.array([i], dtype=np.intp)))
        target = next(iter(self._by_target(predicted)))[0]
        constraints = self.explainer.all_constraints()
        regions = self.form.regions(target)
        return conflict_of(regions, self.question.price, self.features, constraints, x)


@final
class _Asking:
    """Some rows of one target: search, settle, certify."""

    def __init__(
        self,
        batch: _Batch,
        rows: slice | IntArray,
        x: FloatArray,
        target: Target,
        pieces: tuple[Piece, ...],
    ) -> None:
        self.batch, self.rows, self.x, self.target, self.pieces = batch, rows, x, target, pieces
        self.form = batch.form
        self.cases = [piece.program.cases(x) for piece in pieces]
        self.before = batch.before[rows]

    def run(self) -> None:
        """Once for all rows; then again, with more margin, for those the model does not confirm."""
        margin = FIRST_MARGIN * self.form.noise(self.x)
        everyone = np.arange(len(self.x))
        findings = self._search(everyone, margin)
        self.after, self.valid, self.margin = self._settle(everyone, findings.points)
        self.limited, self.closed = findings.limited, findings.closed
        for _ in range(ROUNDS):
            again = np.flatnonzero(~self.valid & (findings.piece >= 0) & ~self.limited)
            if not len(again):
                break
            short = np.maximum(-self.margin[again], 0.0)
            margin[again] = 8.0 * margin[again] + 2.0 * short
            better = self._search(again, margin[again])
            settled, valid, reached = self._settle(again, better.points)
            self.after[again] = np.where(valid[:, None], settled, self.after[again])
            self.margin[again] = np.where(
                np.isnan(better.points[:, 0]), self.margin[again], reached
            )
            self.valid[again] = valid
        self._certify(findings)

    def _search(self, rows: IntArray, margin: FloatArray) -> Findings:
        from counterpoint.search import search

        whole = len(rows) == len(self.x)
        cases = [
            c.with_margin(margin) if whole else c.take(rows).with_margin(margin) for c in self.cases
        ]
        return search(self.pieces, cases, self.batch.effort)

    def _settle(
        self, rows: IntArray, points: FloatArray
    ) -> tuple[FloatArray, BoolArray, FloatArray]:
        """The rows as they will be returned: their codes, whether the model confirms, the margin."""
        batch, features = self.batch, self.batch.features
        found = np.flatnonzero(~np.isnan(points[:, 0]))
        before = self.before if len(rows) == len(self.x) else self.before[rows]
        after = np.array(before)
        valid, margin = np.zeros(len(rows), dtype=bool), np.full(len(rows), np.nan)
        if not len(found):
            return after, valid, margin
        everyone = len(found) == len(rows)
        codes = features.compress(points if everyone else points[found])
        where = self.rows if len(rows) == len(self.x) else _index(self.rows)[rows]
        if not everyone:
            where = _index(where)[found]
        start = before if everyone else before[found]
        returned = decode(batch.inputs, features, where, start, codes)
        codes = self._as_returned(returned, start, codes)
        y = features.expand(codes)
        predicted = batch._predict(returned)
        after[found] = codes
        valid[found] = batch._met(self.target, returned, y, predicted)
        margin[found] = self.form.margin(y, self.target)
        return after, valid, margin

    def _as_returned(self, returned: Table, start: FloatArray, codes: FloatArray) -> FloatArray:
        """Codes after the cast to the dtypes that came in."""
        if self.batch.inputs.float_matrix is not None:
            return codes
        codes = np.array(codes)
        for j, feature in enumerate(self.batch.features):
            if not isinstance(feature, Categorical):
                codes[:, j] = returned.column(feature.name).astype(np.float64)
        return codes

    def _certify(self, findings: Findings) -> None:
        batch, rows = self.batch, self.rows
        plain = batch.question.plain
        y = batch.features.expand(self.after)
        cost = np.where(self.valid, plain.cost(y, self.x), np.inf)
        bound, claim = lower_bounds(
            [piece.program for piece in self.pieces],
            self.cases,
            [proof.multipliers for proof in findings.proofs],
            [proof.at for proof in findings.proofs],
            [proof.reported for proof in findings.proofs],
            cost,
        )
        certificates = certify(plain, y, self.cases[0], bound, claim, self.valid, self.margin)
        answered = certificates.holds
        refused = ~answered
        for name in ("cost", "margin", "violation"):
            getattr(certificates, name)[refused] = np.nan
        certificates.valid[refused] = False
        certificates.bound[refused] = bound[refused]
        self.after[refused] = self.before[refused]
        codes = np.select(
            [
                answered & (certificates.gap <= batch.effort.gap),
                self.limited,
                answered,
                np.isposinf(bound) & (findings.piece < 0),
            ],
            [
                STATUSES.index(status)
                for status in (Status.OPTIMAL, Status.LIMIT, Status.SUBOPTIMAL, Status.INFEASIBLE)
            ],
            STATUSES.index(Status.UNPROVED),
        )
        batch.certificates.put(rows, certificates)
        batch.after[rows] = self.after
        batch.codes[rows] = codes
        batch.closed[rows] = self.closed


def _index(rows: slice | IntArray) -> IntArray:
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows


def _hashable(target: Target) -> Target:
    """The target with its labels as a tuple, so that it can be a key."""
    if isinstance(target, Label) and isinstance(target.label, list | set | frozenset):
        return replace(target, label=target.labels)
    if isinstance(target, OtherLabel) and isinstance(target.than, list | set | frozenset):
        return replace(target, than=target.labels)
    return target


def _is_among(values: NDArray[Any], labels: tuple[Hashable, ...]) -> BoolArray:
    found = np.zeros(len(values), dtype=bool)
    for label in labels:
        found |= values == label
    return found


def _is_whole(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind in "iu"
    return bool(dtype.is_integer())


def _is_constant(feature: Feature) -> bool:
    if feature.observed is None:
        return False
    if isinstance(feature, Categorical):
        return len(feature.observed) == 1
    return feature.observed[0] == feature.observed[1]


def _check_types(cost: Cost | None, constraints: tuple[Constraint, ...]) -> None:
    if cost is not None and not isinstance(cost, Cost):
        raise InvalidInput(
            f"Expected a cost such as cp.Manhattan(); got {cost!r} ({type(cost).__name__})."
        )
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise InvalidInput(
                f"Expected constraints such as cp.Immutable('age'); got {constraint!r} "
                f"({type(constraint).__name__}). A relation is cp.Linear.parse('a <= b')."
            )


def _read(model: Any, data: object | None, given: Iterable[Feature] | None) -> Reading:
    """Read the model over the features that data, user and model say."""
    from counterpoint.readers import see_through
    from counterpoint.readers.dispatch import inputs_of

    items = None if given is None else tuple(given)
    if data is None:
        return see_through(
            model, None if items is None else Features(items), fixed=items is not None
        )
    table = Table.read(data)
    inputs = inputs_of(model)
    if inputs is not None and inputs.names is not None and not table.is_array:
        missing = [name for name in inputs.names if name not in table.names]
        if missing:
            raise InvalidInput(
                f"Expected data with the columns that the model was fitted on; missing: {missing}."
            )
        table = table.select(inputs.names)
    elif inputs is not None and inputs.names is not None:
        table = match_columns(table, Features(Continuous(name) for name in inputs.names))
    features = Features.from_data(table)
    for item in items or ():
        observed = features[item.name].observed
        kind_kept = isinstance(item, Categorical) == isinstance(features[item.name], Categorical)
        if item.observed is None and kind_kept:
            item = replace(item, observed=observed)  # type: ignore[arg-type]  # noqa: PLW2901
        features = features.replaced(item)
    return see_through(model, features, fixed=False)
