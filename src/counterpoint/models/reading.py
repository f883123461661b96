"""See through fitted models to the raw columns that they take, and ask for their predictions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FunctionType, ModuleType
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from counterpoint.errors import (
    CounterpointError,
    InvalidInput,
    ReaderMismatch,
    UnsupportedModel,
    shown,
)
from counterpoint.families.registry import families
from counterpoint.models.categories import (
    CategoriesWanted,
    fills_of,
    with_stand_ins,
    without_stand_ins,
)
from counterpoint.models.columns import Columns
from counterpoint.models.dispatch import Inputs, finish, inputs_of, read, through_step
from counterpoint.models.form import Form
from counterpoint.numerics import EPS, MISSING, BoolArray, FloatArray
from counterpoint.problem.targets import APART, Label
from counterpoint.rows.encoding import PRESENT, RowBatch, decode, match_columns
from counterpoint.rows.features import Continuous, Features, unknown_name
from counterpoint.rows.table import Table

Result = TypeVar("Result")


@final
@dataclass(frozen=True, eq=False)
class ReadModel:
    """A fitted model with its form over the encoded raw features, as it was read."""

    model: Any  # its ``predict`` decides what is valid
    form: Form  # over the encoded columns of the features
    features: Features  # the raw columns that the model takes, in its order
    named: bool  # whether it was fitted on column names, so that ``predict`` takes frames
    steps: tuple[str, ...]  # a line for each step, as it was read
    # name → the value that a missing cell counts as: the pipeline puts it there, whatever the use
    fills: Mapping[Hashable, Any] = field(default_factory=dict)
    # name → why a missing cell counts as no value, as the end of a sentence; for other columns
    # whose missing cells the pipeline treats in some way
    unfilled: Mapping[Hashable, str] = field(default_factory=dict)
    eps: float = EPS  # from 1 to the next number in the narrowest dtype in which the model has any

    def overflows(self, x: FloatArray, eps: float) -> BoolArray:
        """Return where (n,) terms of the scores are too large for the model, which may refuse them.

        Only in less than float64, whose largest number no margin leads near to.
        """
        if eps <= EPS:
            return np.zeros(len(x), dtype=bool)
        return ~(self.form.noise(x, eps) <= eps * np.finfo(np.float32).max)

    def predict(self, *tables: Table) -> NDArray[Any]:
        """Ask the model for predictions, in one call for two tables if a frame can hold both."""
        rows = tables[0].to_model_input(*tables[1:], named=self.named)
        if rows is None:
            return np.concatenate([self.predict(table) for table in tables])
        return np.asarray(self._ask("predict", rows)).reshape(-1)

    @property
    def classes(self) -> NDArray[Any]:
        """The labels (k,): the model's own, or else the form's."""
        return np.asarray(getattr(self.model, "classes_", getattr(self.form, "classes", ())))

    def probability(self, label: Hashable, table: Table) -> FloatArray:
        """Ask the model for its probability (n,) of a label."""
        shares = self._ask("predict_proba", table.to_model_input(named=self.named))
        column = self.classes.tolist().index(label)
        return np.asarray(shares[:, column], dtype=np.float64)

    def _ask(self, method: str, rows: Any) -> Any:
        """Call a method of the model, if it has it, and say so in a sentence if it refuses rows."""
        call, name = getattr(self.model, method, None), type(self.model).__name__
        if call is None:
            raise InvalidInput(
                f"{name} has no {method}, which this question needs. Ask for a label, or give the "
                "model this method."
            )
        try:
            return call(rows)
        except (TypeError, ValueError) as error:
            if isinstance(error, CounterpointError):
                raise
            reason = str(error).partition("\n")[0].rstrip(".:")
            raise InvalidInput(
                f"{name}.{method} does not take these rows: {reason}. Pass "
                "their columns in the dtypes that it was fitted on."
            ) from error

    def not_filled(
        self, inputs: Table, encoded: RowBatch, features: Features, related: BoolArray
    ) -> dict[int, str]:
        """Return the rows with missing cells that cannot be used, with the reason for each.

        The model takes some for other values than they count as: an imputer fills in NaN and passes
        None on, say. All rows that miss the same cells in the same way are alike, so the model is
        asked about one row of each pattern, before and after filling. Cells that the model itself
        takes as missing count as what they are, but not in a constraint that relates their feature
        to others, as ``related`` (p,) says.
        """
        native = [self.fills.get(name) == MISSING for name in features.names]
        problems: dict[int, str] = {}
        for i, j in zip(*np.nonzero((encoded.missing != PRESENT) & native & related), strict=True):
            problems[int(i)] = (
                f"column {features.names[j]!r} is missing, and a constraint relates it to "
                "other columns. Fill it in, or leave the constraint out."
            )
        missing = np.where(native, PRESENT, encoded.missing)
        usable = (missing != PRESENT).any(axis=1)
        usable[[*encoded.problems, *problems]] = False
        rows = np.flatnonzero(usable)
        if not len(rows):
            return problems
        patterns, first, pattern_of = np.unique(
            missing[rows], axis=0, return_index=True, return_inverse=True
        )
        samples, after = inputs.take(rows[first]), encoded.codes[rows[first]]
        before = np.where(patterns == PRESENT, after, np.nan)
        filled = decode(samples, features, slice(None), before, after)
        alike = self._responds_alike(samples, filled, features.expand(after))
        for k in np.flatnonzero(~alike).tolist():
            row = samples.take(slice(k, k + 1))
            names = [features.names[j] for j in np.flatnonzero(patterns[k])]
            cells = ", ".join(f"column {name!r} holds {row.column(name)[0]!r}" for name in names)
            sentence = f"{cells}, which the pipeline does not fill in. Fill it in."
            problems |= dict.fromkeys(rows[pattern_of.ravel() == k].tolist(), sentence)
        return problems

    def _responds_alike(self, rows: Table, filled: Table, x: FloatArray) -> BoolArray:
        """Return where (n,) the model responds to rows as to filled ones, which are ``x`` encoded.

        If it refuses one, that one is found by halving: an error does not say which it is.
        """
        try:
            before, after = self._responses(rows), self._responses(filled)
        except (TypeError, ValueError):  # the model does not take some cell
            if len(rows) == 1:
                return np.zeros(1, dtype=bool)
            halves = np.array_split(np.arange(len(rows)), 2)
            answers = [self._responds_alike(rows.take(h), filled.take(h), x[h]) for h in halves]
            return np.concatenate(answers)
        allowed = self.form.noise(x, APART)[:, None] * (1.0 + np.abs(after))
        return np.asarray((np.abs(before - after) <= allowed).all(axis=1))

    def _responses(self, table: Table) -> FloatArray:
        """Return scores (n, k) if the model has any, else probabilities, else predictions."""
        names = ("decision_function", "predict_proba", "predict")
        method = next(getattr(self.model, name) for name in names if hasattr(self.model, name))
        values = np.asarray(method(table.to_model_input(named=self.named)))
        if values.dtype.kind not in "biuf":  # labels in words, as their positions
            values = (values[:, None] == self.classes).argmax(axis=1)
        return values.astype(np.float64).reshape(len(table), -1)

    def check(
        self,
        x: FloatArray,
        predicted: NDArray[Any],
        read: NDArray[Any] | None = None,
        eps: float = APART,
        place: Callable[[int], str] = lambda _: "a row",
    ) -> None:
        """Raise `ReaderMismatch` where the form does not predict as the model does; see `differs`.

        ``read`` are the form's predictions, None to make them; ``place`` names a row in the
        message.
        """
        read = self.form.predict(x) if read is None else read
        wrong = self.differs(x, predicted, read, eps)
        if wrong.any():
            i = int(wrong.argmax())
            raise ReaderMismatch(
                f"{type(self.model).__name__} predicts {predicted[i]!r} for {place(i)}, for which "
                f"what was read of it predicts {read[i]!r} ({int(wrong.sum())} of {len(x)} rows). "
                "The model cannot be explained exactly; please report it."
            )

    def differs(
        self, x: FloatArray, predicted: NDArray[Any], read: NDArray[Any], eps: float = APART
    ) -> BoolArray:
        """Return a mask (n,) of the rows where model and form disagree by more than rounding.

        ``predicted`` (n,) are the model's predictions for x (n, d), and ``read`` (n,) the form's.
        ``eps`` is the distance from 1 to the next number in the lowest precision in which the model
        may compute.
        """
        differs = read != predicted
        rows = np.flatnonzero(differs)
        if not len(rows):
            return np.asarray(differs)
        noise = self.form.noise(x[rows], eps)
        # Both comparisons are negated, so that NaN counts as a difference.
        if self.form.has_values:
            distance = np.abs(read[rows] - predicted[rows])
            differs[rows] = ~(distance <= noise * (1.0 + np.abs(read[rows])))
        else:
            labels = predicted[rows].tolist()
            self._require_labels(labels)  # the form has a margin for its own classes only
            pairs = zip(rows.tolist(), labels, strict=True)
            # The form's margin for the model's label is about 0 where it is nearly a tie.
            margin = np.array([self.form.margin(x[[i]], Label(label))[0] for i, label in pairs])
            differs[rows] = ~(margin >= -noise)
        return np.asarray(differs)

    def _require_labels(self, predicted: list[Any]) -> None:
        """Raise if the model predicts what is none of its classes, such as a probability."""
        classes = self.classes.tolist()
        for label in predicted:
            if label not in classes:
                raise ReaderMismatch(
                    f"{type(self.model).__name__}.predict gives {label!r}, which is none of the "
                    f"classes {shown(classes)}. Let predict give labels, and predict_proba "
                    "probabilities."
                )


def see_through(model: Any, features: Features | None, *, fixed: bool) -> ReadModel:
    """Read a fitted model with all its preprocessing.

    The features are from data or from the user, None to derive them from the model. If they are
    ``fixed``, numbers that the model encodes as categories are an error.
    """
    families()  # imports them all, so that their readers are registered
    if isinstance(model, type):
        raise InvalidInput(f"Expected a fitted model; got the class {model.__name__}. Fit one.")
    with _refused_if_damaged(model):
        inputs = inputs_of(model)
        if inputs is None:  # a model of the user's own
            inputs = Inputs(read(model).width if features is None else len(features))
        form, columns, features = _settle_categories(
            lambda columns: finish(model, columns),
            _features_of(inputs, features),
            fixed=fixed and features is not None,
        )
        form = columns.lifted(form)
        fills, unfilled = fills_of(columns)
        named, eps = inputs.names is not None, _eps_of(model)
        return ReadModel(model, form, features, named, columns.steps, fills, unfilled, eps)


@contextmanager
def _refused_if_damaged(model: Any) -> Iterator[None]:
    """Refuse a model whose fitted attributes are no arrays, or do not go together.

    Readers trust what scikit-learn fitted; a file may hold anything.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, CounterpointError):
            raise
        reason = str(error).partition("\n")[0].rstrip(".:")
        raise UnsupportedModel(
            f"{type(model).__name__} cannot be read: its fitted attributes do not go together "
            f"({type(error).__name__}: {reason}). Fit it anew, or load another file."
        ) from error


def data_of(model: Any, data: object) -> Table:
    """Return the columns of ``data=`` that the model takes; those of an array by position."""
    table = Table.read(data)
    with _refused_if_damaged(model):
        inputs = inputs_of(model)
        if inputs is None or inputs.names is None:
            return table
        every = inputs.needed is None or table.is_array
        names = inputs.names if every else [inputs.names[j] for j in inputs.needed or ()]
    try:
        return match_columns(table, Features(map(Continuous, names)))
    except InvalidInput as error:
        raise InvalidInput(f"In data=: {error}") from None


def see_columns(transformer: Any, inputs: Inputs) -> Columns:
    """Read a fitted transformer, with all its steps, as columns over the raw ones that it takes.

    ``inputs`` are what `inputs_of` says of it. Names that it never looks at are left out.
    """

    def read_columns(columns: Columns) -> tuple[None, Columns]:
        return None, through_step("", transformer, replace(columns, straight=True)).seen()

    _, columns, features = _settle_categories(read_columns, _features_of(inputs, None), fixed=False)
    return replace(columns, features=features)


def _settle_categories(
    read_columns: Callable[[Columns], tuple[Result, Columns]], features: Features, *, fixed: bool
) -> tuple[Result, Columns, Features]:
    """Read raw columns until all encoders agree with the features; return these with the result.

    A round in which they do not agree is followed by one with other categories, and so is one in
    which the pipeline fills in a value that is no category yet: this joins them as a stand-in (see
    `counterpoint.models.categories`). If an encoder refuses stand-ins, they are taken back.
    """
    barred: Mapping[int, frozenset[Hashable]] = {}
    while True:
        raw = Columns.raw(features, fixed=fixed, barred=barred)
        try:
            result, columns = read_columns(raw)
        except CategoriesWanted as wanted:
            features, barred = wanted.features, wanted.barred
            continue
        except (InvalidInput, UnsupportedModel):  # perhaps because of a stand-in
            reduced = without_stand_ins(raw)
            if reduced is None:
                raise
            features, barred = reduced
            continue
        extended = with_stand_ins(columns)
        if extended is None:
            return result, columns, features
        features = extended


def _features_of(inputs: Inputs, features: Features | None) -> Features:
    """Return the features that the model takes, in its order, without those it never looks at.

    ``features`` are those to choose from; None to make numbers of the model's own names and ranges.
    """
    names, count = inputs.names, inputs.count
    needed = range(count) if names is None or inputs.needed is None else inputs.needed
    if features is None:
        names = names or tuple(f"x{j}" for j in range(count))
        ranges = inputs.ranges or (None,) * count
        return Features(Continuous(names[j], ranges[j]) for j in needed)
    if names is None:
        if len(features) != count:
            raise InvalidInput(
                f"Expected {count} features, as many as the model was fitted on; "
                f"got {len(features)}. The model knows no names, so columns go by position."
            )
        return features
    present = set(features.names)
    for name in (names[j] for j in needed if names[j] not in present):
        hint = unknown_name(name, features.names)
        raise InvalidInput(f"Expected the column {name!r}, which the model uses. {hint}")
    return Features(features[name] for name in names if name in present)


def _eps_of(model: Any) -> float:
    """Return the distance from 1 to the next number in the narrowest dtype that a model holds.

    A model that was fitted on float32 has coefficients in float32, and computes in it. They may be
    anywhere among its attributes, in the steps of a pipeline, say.
    """
    eps_of_dtype = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}
    simple = (str, bytes, int, float, type, type(None), FunctionType, ModuleType)  # hold no arrays
    eps, remaining, seen = EPS, [model], set[int]()
    while remaining:
        value = remaining.pop()
        if id(value) in seen or isinstance(value, simple):
            continue
        seen.add(id(value))
        dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
        eps = max(eps, eps_of_dtype.get(dtype, EPS))
        if isinstance(value, dict):
            remaining.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            remaining.extend(value)
        else:
            remaining.extend(getattr(value, "__dict__", {}).values())
    return eps
