"""Fitted models and transformers seen through to the raw columns that they take."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, final

from counterpoint.caches import fields_only
from counterpoint.errors import InvalidInput, UnsupportedModel
from counterpoint.models.attributes import EPS, eps_of
from counterpoint.models.categories import CategoriesWanted
from counterpoint.models.columns import Columns
from counterpoint.models.dispatch import Inputs, finish, inputs_of, read, require_fitted, trace
from counterpoint.models.fills import fills_of, with_stand_ins, without_stand_ins
from counterpoint.models.form import Form
from counterpoint.rows.features import Continuous, Features, unknown_name
from counterpoint.wings import wings

__all__ = ["Reading", "see_columns", "see_through"]

Found = TypeVar("Found")


@final
@dataclass(frozen=True)
class Reading:
    """A fitted model as a form over the encoded raw features.

    Parameters
    ----------
    form
        The model, over the encoded columns of ``features``.
    features
        The raw columns that the model takes, in its order.
    named
        Whether the model was fitted on column names, so that ``predict`` takes frames.
    steps
        One line for each step: what was read as what.
    fills
        Name → what the pipeline puts where the column is missing, if the model sees nothing else
        of a missing cell: such a cell counts as this value.
    unfilled
        Name → why a missing cell counts as no value, as the end of a sentence, for other columns
        about whose missing cells the pipeline does something.
    eps
        The distance from 1 to the next number in the narrowest dtype in which the model holds any.
    """

    form: Form
    features: Features
    named: bool
    steps: tuple[str, ...]
    fills: Mapping[Hashable, Any] = field(default_factory=dict)
    unfilled: Mapping[Hashable, str] = field(default_factory=dict)

    __getstate__ = fields_only
    eps: float = EPS


def see_through(model: Any, features: Features | None, *, fixed: bool) -> Reading:
    """Read a fitted model with all its preprocessing.

    Parameters
    ----------
    model
        A fitted scikit-learn estimator, pipeline or search.
    features
        The raw columns, from data or from the user; None to derive them from the model.
    fixed
        Whether ``features`` must not be adapted to the model: numbers that the model encodes as
        categories are then an error.

    Raises
    ------
    UnsupportedModel
        If a part of the model cannot be read exactly; the message names the step.
    ModelNotFitted
        If the model, or a step of it, has not been fitted.
    InvalidInput
        If the features do not fit the model.
    """
    wings()
    if isinstance(model, type):
        raise InvalidInput(f"Expected a fitted model; got the class {model.__name__}. Fit one.")
    inputs = inputs_of(model)
    if inputs is None:  # a model of the user's own
        inputs = Inputs(read(model).width if features is None else len(features))
    form, last, chosen = _agreed(
        lambda columns: finish(model, columns),
        _choose(inputs, features),
        fixed=fixed and features is not None,
    )
    fills, unfilled = fills_of(last)
    named = inputs.names is not None
    return Reading(form, chosen, named, last.steps, fills, unfilled, eps_of(model))


def see_columns(transformer: Any, inputs: Inputs) -> Columns:
    """What a fitted transformer, with all its steps, makes of the raw columns that it takes.

    Parameters
    ----------
    transformer
        A fitted scikit-learn transformer, pipeline or column transformer.
    inputs
        What `inputs_of` says of it. Names that it never looks at are left out.

    Raises
    ------
    UnsupportedModel
        If a step cannot be read exactly; the message names the step.
    ModelNotFitted
        If a step has not been fitted.
    """

    def ask(columns: Columns) -> tuple[None, Columns]:
        require_fitted(transformer, columns)
        return None, trace(transformer, columns).seen()

    _, last, chosen = _agreed(ask, _choose(inputs, None), fixed=False)
    return replace(last, features=chosen)


def _agreed(
    ask: Callable[[Columns], tuple[Found, Columns]], features: Features, *, fixed: bool
) -> tuple[Found, Columns, Features]:
    """Ask about raw columns, with other categories until all encoders agree with the features."""
    barred: Mapping[int, frozenset[Hashable]] = {}
    while True:
        columns = Columns.raw(features, fixed=fixed, barred=barred)
        try:
            found, last = ask(columns)
        except CategoriesWanted as wanted:
            features, barred = wanted.features, wanted.barred
            continue
        except (InvalidInput, UnsupportedModel):
            plain = without_stand_ins(columns)
            if plain is None:
                raise
            features, barred = plain
            continue
        wider = with_stand_ins(last)
        if wider is None:
            return found, last, features
        features = wider


def _choose(inputs: Inputs, features: Features | None) -> Features:
    """The features that the model takes, in its order."""
    if features is None:
        names = inputs.names or tuple(f"x{j}" for j in range(inputs.count))
        ranges = inputs.ranges or (None,) * inputs.count
        needed = None if inputs.names is None else inputs.needed
        taken = range(inputs.count) if needed is None else needed
        return Features(Continuous(names[j], ranges[j]) for j in taken)
    if inputs.names is None:
        if len(features) != inputs.count:
            raise InvalidInput(
                f"Expected {inputs.count} features, as many as the model was fitted on; "
                f"got {len(features)}. The model knows no names, so columns go by position."
            )
        return features
    return _named(inputs, inputs.names, features)


def _named(inputs: Inputs, names: tuple[Hashable, ...], features: Features) -> Features:
    """The features with these names; one that the model never looks at may be missing."""
    needed = set(range(inputs.count) if inputs.needed is None else inputs.needed)
    known = set(features.names)
    kept = []
    for j, name in enumerate(names):
        if name in known:
            kept.append(features[name])
        elif j in needed:
            hint = unknown_name(name, features.names)
            raise InvalidInput(f"Expected the column {name!r}, which the model uses. {hint}")
    return Features(kept)
