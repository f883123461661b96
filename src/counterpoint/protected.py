"""`influence` measures how far a score, and a decision, rest on columns that must not decide."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

import counterpoint as cp
from counterpoint.errors import EXPLAINER, InvalidInput, all_of, some
from counterpoint.numerics import BLOCK, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from counterpoint.models.form import Form


@final
@dataclass(frozen=True, eq=False)
class Influence:
    """The effect of protected columns on the score and the decision of n rows; see `influence`.

    Parameters
    ----------
    features
        The s protected columns.
    margin
        (n,) by how much each row has its target, in score units: negative where it misses it; NaN
        for rows that cannot be used.
    contribution
        (n,) the mean change of that margin by these columns, against the rows of ``data=``:
        negative where they count against the target, 0 where the model does not use them.
    contributions
        (n, s) the same of each column alone. For a score that is a sum over columns, they add up to
        ``contribution``.
    depends
        (n, s): whether the margin changes with this column alone, for some value that data show.
    decides
        (n,): whether the model decides otherwise for other values of these columns alone.
    undecided
        (n,): whether that is not known: no such values were found, and it is not proved that there
        are none; or the row cannot be used, or was not asked about.
    answers
        Row → the nearest such values, with the certificate, where it decides otherwise.
    """

    features: tuple[Hashable, ...]
    margin: FloatArray
    contribution: FloatArray
    contributions: FloatArray
    depends: BoolArray
    decides: BoolArray
    undecided: BoolArray
    answers: dict[int, cp.Counterfactual]

    @property
    def share(self) -> FloatArray:
        """(n,) the part of the missing score that these columns account for.

        ``contribution / margin`` of rows that miss the target: 0.6 if 60 % of what is missing would
        be there at the mean over the data, more than 1 if all of it and more, negative if they
        count in favour of the target. NaN for rows that have it.
        """
        missing = self.margin < 0.0
        out = np.full(len(self.margin), np.nan)
        return np.divide(self.contribution, self.margin, out=out, where=missing)

    def __repr__(self) -> str:
        return (
            f"<Influence of {some(self.features, 6, str)}: alone they decide "
            f"{np.count_nonzero(self.decides)} of {len(self.margin)} rows>"
        )


def influence(
    explainer: cp.Explainer,
    answers: cp.Counterfactuals,
    features: Iterable[Hashable] | None = None,
    *,
    rows: Iterable[int] | None = None,
) -> Influence:
    """Say how much of the score protected columns carry, and whether they alone decide.

    Two questions, both answered exactly for every model that can be read:

    - How far would a row be from its target if these columns said nothing of it? The margin, which
      the row has or lacks, is compared with its mean over all rows r of ``data=`` (`Explainer`
      keeps up to 10 000) when the protected columns are those of r and all others those of the row.
      For a score that is a sum over columns, as that of linear and additive models, the difference
      is the contribution of these columns minus its mean over the data, whatever the other columns
      are; for trees and prototypes it holds for the row as it is.
    - Does the decision change if these columns alone do, within what the data show, and no other
      rule holds? That is searched for, and proved where there are no such values. Of rows that have
      the target, whether they can lose it.

    Parameters
    ----------
    explainer
        What gave the answers; with ``data=``.
    answers
        To the rows that are asked about; their targets count, and the rows as they came in.
    features
        The columns; None for those of `Immutable` constraints with ``protected=True``.
    rows
        Positions of the rows that are asked about, such as a sample; None for all. Of the others
        nothing is known.

    Returns
    -------
    Influence

    Raises
    ------
    InvalidInput
        If no column is protected, the explainer has no data, or a target demands nothing
        (`Tradeoff`).

    Notes
    -----
    Neither says that a column is a reason in the sense of a law, nor whether others stand in for
    it: a postcode may say what sex does, and is measured only where it is named. For a `Robust`
    target the margin is that of its label, by the weights as they are known.

    Examples
    --------
    >>> import counterpoint as cp
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterpoint.protected import influence
    >>> X = pd.DataFrame({"income": [20.0, 30.0, 40.0, 50.0], "sex": ["f", "f", "m", "m"]})
    >>> X["sex"] = (X["sex"] == "m").astype(int)
    >>> model = LogisticRegression().fit(X, ["no", "no", "yes", "yes"])
    >>> model.coef_, model.intercept_ = np.array([[0.1, 1.0]]), np.array([-4.0])
    >>> explainer = cp.Explainer(model, data=X, constraints=cp.Immutable("sex", protected=True))
    >>> answers = explainer.explain(pd.DataFrame({"income": [32.0], "sex": [0]}), "yes")
    >>> result = influence(explainer, answers)  # 0.1 * 32 lacks 0.8, and half the data have 1.0
    >>> result.margin.round(3), result.contribution.round(3), result.share.round(3)
    (array([-0.8]), array([-0.5]), array([0.625]))
    >>> result.decides, result.answers[0].changes
    (array([ True]), {'sex': (0, 1)})
    """
    all_of(cp.Explainer, (explainer,), *EXPLAINER)
    all_of(cp.Counterfactuals, (answers,), "the answers of an Explainer")
    names = protected_features(explainer) if features is None else (*dict.fromkeys(features),)
    points = _checked_reference(explainer, answers, names)
    n, form = len(answers), answers.query.model.form
    margin, contribution = np.full((2, n), np.nan)
    contributions = np.full((n, len(names)), np.nan)
    depends = np.zeros((n, len(names)), dtype=bool)
    decides, undecided = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
    nearest: dict[int, cp.Counterfactual] = {}
    blocks = [np.arange(answers.features.width)[answers.features.columns(j)] for j in names]
    usable = np.setdiff1d(np.arange(n) if rows is None else [*rows], [*answers.problems])
    for target, rows_of_target in targets_with_rows(answers):
        index = np.intersect1d(rows_of_target, usable)
        if not len(index):
            continue
        x, requirement = answers.features.expand(answers.before[index]), target.requirement
        # under noise: by the weights as they are known
        plain = cp.Label(requirement.labels) if requirement.varying_margin is not None else target
        noise = form.noise(x, answers.query.eps)
        margin[index] = form.margin(x, plain)
        together = np.concatenate(blocks)
        contribution[index], _ = _contribution(form, plain, x, points, together, noise)
        for k, block in enumerate(blocks):
            contributions[index, k], depends[index, k] = _contribution(
                form, plain, x, points, block, noise
            )
        by_columns = _explained_by_columns(explainer, answers, index, plain, names)
        nearest |= {i: answer for i, answer in by_columns.items() if answer.found}
        decides[index] = [i in nearest for i in index.tolist()]
        undecided[index] = [not _is_settled(by_columns.get(i)) for i in index.tolist()]
    return Influence(
        names, margin, contribution, contributions, depends, decides, undecided, nearest
    )


def protected_features(explainer: cp.Explainer) -> tuple[Hashable, ...]:
    """Return the columns of all `Immutable` constraints with ``protected=True``."""
    protected = (c for c in explainer.constraints if isinstance(c, cp.Immutable) and c.protected)
    return (*dict.fromkeys(name for constraint in protected for name in constraint.features),)


def _checked_reference(
    explainer: cp.Explainer, answers: cp.Counterfactuals, names: tuple[Hashable, ...]
) -> FloatArray:
    """Return the encoded rows of the data; raise if there are none, or the call makes no sense."""
    if not names:
        raise InvalidInput(
            "Expected columns that must not decide; there are none. Say which, as in "
            "cp.Immutable('sex', protected=True)."
        )
    if answers.features.names != explainer.features.names:
        raise InvalidInput("Expected the explainer that gave these answers; got another one.")
    for name in names:
        answers.features.index(name)  # an unknown name is an error that lists near ones
    if explainer.reference is None or not len(explainer.reference):
        raise InvalidInput(
            f"Expected an explainer with data: what {some(names, 6, str)} does to a score is "
            "measured against its rows. Pass data= to the Explainer."
        )
    if not all(target.demanding for target, _ in targets_with_rows(answers)):
        raise InvalidInput("A Tradeoff demands no decision; explain with a Label or a Probability.")
    return explainer.reference


def targets_with_rows(answers: cp.Counterfactuals) -> list[tuple[cp.Target, IntArray]]:
    """Return each target of a batch with the positions of its rows."""
    targets = answers.targets.tolist()
    distinct = {id(target): target for target in targets}
    which = np.array([id(target) for target in targets])
    return [(target, np.flatnonzero(which == key)) for key, target in distinct.items()]


def _contribution(
    form: Form,
    target: cp.Target,
    x: FloatArray,
    points: FloatArray,
    columns: IntArray,
    noise: FloatArray,
) -> tuple[FloatArray, BoolArray]:
    """Compare the margin of each row with its mean over points, from which it takes some columns.

    Return the difference (n,), and whether any of these margins differs from the row's. What is
    below the rounding error ``noise`` (n,) of a score is 0.
    """
    values, counts = np.unique(points[:, columns], axis=0, return_counts=True)
    margin, total = form.margin(x, target), np.zeros(len(x))
    depends = np.zeros(len(x), dtype=bool)
    size = max(1, BLOCK // len(x))  # so many rows' scores at once stay in the cache
    for start in range(0, len(values), size):
        block = values[start : start + size]
        replaced = np.repeat(x[None], len(block), axis=0)  # (block, n, d)
        replaced[:, :, columns] = block[:, None, :]
        margins = form.margin(replaced.reshape(-1, x.shape[1]), target).reshape(len(block), -1)
        difference = margin - margins
        total += counts[start : start + size] @ difference
        depends |= (np.abs(difference) > noise).any(axis=0)
    mean = total / len(points)
    return np.where(np.abs(mean) <= noise, 0.0, mean), depends


def _explained_by_columns(
    explainer: cp.Explainer,
    answers: cp.Counterfactuals,
    rows: IntArray,
    target: cp.Target,
    names: tuple[Hashable, ...],
) -> dict[int, cp.Counterfactual]:
    """Row → the answer with which it gains or loses the target by these columns alone.

    Rows that lack the target are explained for it, those that have it for its opposite; a row that
    has a target without an opposite is left out.
    """
    free = {*names}
    fixed = [name for name in answers.features.names if name not in free]
    observed = [name for name in names if answers.features[name].observed is not None]
    rules = [
        *([cp.Immutable(*fixed)] if fixed else []),
        *([cp.WithinObserved(*observed)] if observed else []),
    ]
    searcher = cp.Explainer(
        explainer.model, features=[*answers.features], cost=cp.Manhattan(), constraints=rules
    )
    inputs = answers.table.select(answers.features.names)
    out: dict[int, cp.Counterfactual] = {}
    for goal in (target, opposite(target, explainer)):
        remaining = np.array([i for i in rows.tolist() if i not in out], dtype=np.intp)
        if goal is None or not len(remaining):
            continue
        batch = searcher.explain(inputs.take(remaining).native, goal, progress=False)
        unmet = np.flatnonzero(batch.status != cp.Status.ALREADY)  # the others may lose it
        out |= {int(remaining[k]): batch[k] for k in unmet.tolist()}
    return out


def _is_settled(answer: cp.Counterfactual | None) -> bool:
    """Whether other values of the protected columns were found, or proved not to exist."""
    if answer is None:
        return False
    proved = answer.certificate.claim is cp.Claim.PROVED
    return answer.found or (answer.status is cp.Status.INFEASIBLE and proved)


def opposite(target: cp.Target, explainer: cp.Explainer) -> cp.Target | None:
    """Return a target that holds where this one does not; None if there is no such."""
    match target:
        case cp.Label():
            return cp.OtherLabel(target.labels)
        case cp.OtherLabel():
            return cp.Label(target.labels)
        case cp.Probability() if len(explainer.reading.classes) == 2:
            (other,) = {*explainer.reading.classes.tolist()} - {target.label}
            return cp.Probability(other, 1.0 - target.at_least)
        case cp.Interval() if np.isinf(target.high):
            return cp.Interval(high=target.low)
        case cp.Interval() if np.isinf(target.low):
            return cp.Interval(low=target.high)
    return None
