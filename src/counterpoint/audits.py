"""Audits: what a model leaves whole groups of rows to do, and boxes of rows that have no action."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

import counterpoint as cp
from counterpoint.errors import InvalidInput, MissingExtra, check_number, several, shown, some

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Audit", "Confined", "audit", "confined"]


@final
@dataclass(frozen=True, eq=False)
class Audit:
    """What a model leaves rows to do.

    Parameters
    ----------
    answers
        To all rows; `Counterfactuals.to_records` writes the proofs.
    group
        (n,) the group of each row.
    groups
        A line for all rows, and one for each group: how many rows have the target ``already``, are
        ``answered``, ``fixed`` (it is proved that no action gives the target), ``undecided`` or
        ``unusable``; the share of fixed rows among those that would need an action, with its
        interval; the median cost of those that are answered, in cost units, with its interval.
    constraints
        A line for each constraint that matters to some row of a sample: the share of fixed rows
        that have an answer without it (``frees``) and whose conflict names it (``named``), and the
        mean share of the cost that other rows save without it (``saves``).
    sampled
        How many fixed rows and how many others were sampled for that.
    """

    answers: cp.Counterfactuals
    group: NDArray[np.object_]
    groups: pd.DataFrame
    constraints: pd.DataFrame
    sampled: tuple[int, int]

    @property
    def fixed(self) -> NDArray[np.bool_]:
        """(n,): for which rows it is proved that no action gives the target."""
        return _fixed(self.answers)

    def __str__(self) -> str:
        told = [self.groups.to_string(float_format="{:.4g}".format)]
        if len(self.constraints):
            fixed, others = self.sampled
            head = f"of {several(fixed, 'fixed row')} and {several(others, 'other row')}:"
            told += ["", head, self.constraints.to_string(float_format="{:.1%}".format)]
        return "\n".join(told)

    def __repr__(self) -> str:
        return f"<Audit: {len(self.group)} rows, {np.count_nonzero(self.fixed)} fixed>"

    def plot(self) -> Figure:
        """How many rows of each group an action within a cost helps, and what keeps the others.

        Raises
        ------
        MissingExtra
            If matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtra(
                "Audit.plot needs matplotlib; install it with pip install 'counterpoint[plots]'."
            ) from None
        wide = len(self.constraints) > 0
        figure = Figure(figsize=(11.0 if wide else 6.0, 4.2), layout="constrained")
        left, *right = np.ravel(figure.subplots(1, 1 + wide))
        needs = _needs(self.answers)
        found = self.answers.found & needs
        names: list[Any] = list(self.groups.index[1:]) or ["all"]
        most = float(self.answers.cost[found].max(initial=0.0))
        for k, name in enumerate(names):
            mine = needs & (self.group == name) if name != "all" else needs
            cost = np.sort(self.answers.cost[mine & found])
            share = np.arange(len(cost) + 1) / max(1, int(mine.sum()))
            x, y = np.concatenate([[0.0], cost, [1.05 * most]]), np.append(share, share[-1])
            style = ("-", "--", ":", "-.")[k // 8 % 4]
            left.step(x, y, style, where="post", color=f"C{k % 8}", label=f"{name}")
        left.set(xlabel="cost", ylabel="rows with an action of at most this cost")
        left.set(xlim=(0.0, 1.05 * most or 1.0), ylim=(0.0, 1.02))
        left.yaxis.set_major_formatter("{x:.0%}")
        if len(names) > 1:
            left.legend(frameon=False, loc="lower right")
        for axes in right:
            top = self.constraints.head(10)[::-1]
            at = np.arange(len(top))
            bars = (
                ("frees", "#444444", "fixed rows with an action"),
                ("saves", "#b0b0b0", "cost saved"),
            )
            for shift, (kind, colour, label) in zip((0.2, -0.2), bars, strict=True):
                axes.barh(at + shift, top[kind], 0.38, color=colour, label=label)
            names = ["\n".join(wrap(text, 40, max_lines=2)) for text in top.index]
            axes.set_yticks(at, names, parse_math=False)
            axes.xaxis.set_major_formatter("{x:.0%}")
            axes.set(xlabel=f"without the constraint, of a sample of {sum(self.sampled)}")
            axes.set_xlim(0.0, 1.0)
            axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        for axes in (left, *right):
            axes.spines[["top", "right"]].set_visible(False)
        return figure


def audit(  # noqa: PLR0913
    explainer: cp.Explainer,
    X: object,
    target: Any,
    by: Hashable | ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sample: int = 20,
    random_state: int = 0,
    gap: float = 1e-6,
    time_limit: float | None = None,
    progress: bool | None = None,
) -> Audit:
    """Whom no action helps, what actions cost by group, and which constraints are to blame.

    Parameters
    ----------
    explainer
        What is asked of each row.
    X
        The rows.
    target
        What is wanted, as for `Explainer.explain`.
    by
        A column of ``X`` that holds groups (the model need not use it), or (n,) groups.
    confidence
        Of the intervals, which are exact for any distribution of costs: Clopper and Pearson's for
        shares, order statistics for medians.
    sample
        How many fixed rows, and how many others, are asked about constraints; drawn with
        ``random_state``.
    gap, time_limit, progress
        As for `Explainer.explain`.

    Returns
    -------
    Audit

    Raises
    ------
    InvalidInput
        If there is no such column, or it has more than 50 groups.

    Warns
    -----
    UserWarning
        If a group has fewer than 20 rows that need an action.
    """
    import pandas as pd

    check_number("confidence", confidence)
    if not 0 < confidence < 1:
        raise InvalidInput(f"Expected a confidence between 0 and 1; got {shown(confidence)}.")
    answers = explainer.explain(X, target, gap=gap, time_limit=time_limit, progress=progress)
    group = _groups(answers, by)
    names = [] if by is None else sorted({*group.tolist()})
    lines = {"all": _line(answers, slice(None), confidence)}
    for name in names:
        lines[name] = _line(answers, group == name, confidence)
        count = lines[name]["answered"] + lines[name]["fixed"] + lines[name]["undecided"]
        if count < 20:
            warnings.warn(
                f"Group {name!r} has {several(count, 'row')} that would need an action: its "
                "intervals are wide, and differences from other groups may be chance.",
                stacklevel=2,
            )
    rng = np.random.default_rng(random_state)
    fixed = _fixed(answers)
    pools = (np.flatnonzero(mask) for mask in (fixed, answers.found & _needs(answers)))
    drawn = [np.sort(rng.permutation(pool)[:sample]).tolist() for pool in pools]
    groups = pd.DataFrame.from_dict(lines, orient="index").rename_axis("group")
    return Audit(
        answers,
        group,
        groups,
        _constraints(explainer, answers, *drawn),
        (len(drawn[0]), len(drawn[1])),
    )


def _groups(answers: cp.Counterfactuals, by: Any) -> NDArray[np.object_]:
    """(n,) the group of each row, as text."""
    table, n = answers.table, len(answers)
    if by is None:
        return np.full(n, "all", dtype=object)
    if isinstance(by, Hashable):
        if by not in table.names:
            raise InvalidInput(
                f"Expected a column of the rows as by=; got {shown(by)}. There are "
                f"{some(table.names, 12)}."
            )
        by = table.column(by)
    values = np.asarray(by, dtype=object)
    if values.shape != (n,):
        raise InvalidInput(f"Expected one group for each of {n} rows; got shape {values.shape}.")
    out = np.array(["missing" if v is None or v != v else str(v) for v in values], dtype=object)  # noqa: PLR0124
    count = len({*out.tolist()})
    if count > 50:
        raise InvalidInput(
            f"Expected at most 50 groups; got {count}. Make groups of numbers first, say with "
            "pandas.cut."
        )
    return out


def _fixed(answers: cp.Counterfactuals) -> NDArray[np.bool_]:
    proved = answers.certificates.claim == cp.Claim.PROVED
    return np.asarray(proved & (answers.status == cp.Status.INFEASIBLE))


def _needs(answers: cp.Counterfactuals) -> NDArray[np.bool_]:
    """(n,): which rows can be used and do not have the target already."""
    return ~np.isin(answers.status, [cp.Status.ALREADY, cp.Status.INVALID])


def _line(answers: cp.Counterfactuals, rows: Any, confidence: float) -> dict[str, Any]:
    """What is told of a group."""
    status, needs = answers.status[rows], _needs(answers)[rows]
    fixed, found = _fixed(answers)[rows], answers.found[rows] & needs
    count, cost = int(needs.sum()), answers.cost[rows][found]
    out: dict[str, Any] = {
        "rows": len(status),
        "already": int((status == cp.Status.ALREADY).sum()),
        "answered": int(found.sum()),
        "fixed": int(fixed.sum()),
        "undecided": int((needs & ~found & ~fixed).sum()),
        "unusable": int((status == cp.Status.INVALID).sum()),
    }
    share, ends = np.nan, (0.0, 1.0)
    if count:
        share = out["fixed"] / count
        ends = stats.binomtest(out["fixed"], count).proportion_ci(confidence)
    out |= {"fixed_share": share, "fixed_low": ends[0], "fixed_high": ends[1]}
    # The k smallest of n values hold the median with a probability that is binomial, whatever their
    # distribution; of few values no interval is finite.
    n = len(cost)
    k = int(stats.binom.ppf((1.0 - confidence) / 2.0, n, 0.5)) if n else 0
    low, high = (np.partition(cost, (k - 1, n - k))[[k - 1, n - k]]) if k else (0.0, np.inf)
    middle = float(np.median(cost)) if n else np.nan
    return out | {"cost_median": middle, "cost_low": float(low), "cost_high": float(high)}


# Constraints


def _constraints(
    explainer: cp.Explainer, answers: cp.Counterfactuals, fixed: list[int], others: list[int]
) -> pd.DataFrame:
    """What each constraint does to fixed rows and to others."""
    import pandas as pd

    asked, rows = answers.question.constraints, [*fixed, *others]
    cells = [answers[i].factual for i in rows]
    targets = answers.targets[rows]
    seconds = None if answers.effort is None else answers.effort.seconds
    conflicts = (answers[i].conflict for i in fixed)
    named = Counter(
        text
        for conflict in conflicts
        for text in {str(p) for c in (conflict.constraints if conflict else ()) for p in _parts(c)}
    )

    def without(kept: Sequence[cp.Constraint]) -> tuple[float, float]:
        """The share of fixed rows with an answer under some constraints, and of cost saved."""
        looser = cp.Explainer(
            explainer.model, features=[*answers.features], cost=explainer.cost, constraints=kept
        )
        cost = np.full(len(rows), np.nan)
        for target in {id(t): t for t in targets}.values():
            at = [k for k, other in enumerate(targets) if other is target]
            mine = [cells[k] for k in at]
            cost[at] = looser.explain(mine, target, time_limit=seconds, progress=False).cost
        before, after = answers.cost[others], cost[len(fixed) :]
        saved = np.divide(before - after, before, out=np.zeros(len(others)), where=before > 0)
        saved[~(saved > 1e-6)] = 0.0  # below the gap that was asked for it is nothing
        freed = np.isfinite(cost[: len(fixed)])
        return float(freed.sum() / max(1, len(fixed))), float(saved.sum() / max(1, len(others)))

    lines: dict[str, dict[str, float]] = {}
    for c in asked if rows else ():
        parts, rest = _parts(c), [other for other in asked if other is not c]
        whole = without(rest)
        if not any(whole) and not any(str(part) in named for part in parts):
            continue  # then no part of it does anything either
        for part in parts:
            kept = [*rest, *(p for p in parts if p is not part)]
            frees, saves = without(kept) if len(parts) > 1 else whole
            share = named[str(part)] / max(1, len(fixed))
            if share or frees or saves:
                lines[str(part)] = {"frees": frees, "saves": saves, "named": share}
    table = pd.DataFrame.from_dict(lines, orient="index", columns=["frees", "saves", "named"])
    return table.rename_axis("constraint").sort_values(["frees", "saves", "named"], ascending=False)


def _parts(constraint: cp.Constraint) -> list[Any]:
    """A constraint on several features as one for each."""
    if isinstance(constraint, cp.Immutable):
        return [cp.Immutable(name) for name in constraint.features]
    if isinstance(constraint, cp.WithinObserved) and constraint.features:
        return [constraint.only(name) for name in constraint.features]
    return [constraint]


# Boxes of rows


@final
@dataclass(frozen=True, eq=False)
class Confined:
    """Whether all rows of a box are without an action.

    Parameters
    ----------
    proved
        True if it is proved, False if it is refuted; None if neither.
    row
        What refutes it: name → value of a row in the box that has an action, or the target already.
    answers
        That to this row; or those to two questions about the whole box, that there is none: whether
        some row has the target already, and whether some row has an action. Their proofs can be
        kept as records. One is left out if the constraints leave no point at all.
    """

    proved: bool | None
    row: dict[Hashable, Any] | None
    answers: tuple[cp.Counterfactual, ...]


def confined(
    explainer: cp.Explainer,
    box: Mapping[Hashable, Any],
    target: Any,
    *,
    time_limit: float | None = None,
) -> Confined:
    """Whether no row of a box has an action that gives the target: proved, or refuted by a row.

    What all rows of the box together can reach is a box again, since these constraints are about
    one feature each: `Immutable`, `Bounds`, `Monotone` and `WithinObserved`. `Linear` and
    `Ellipsoid` are about the answer alone. So one question settles the whole box, for every model.

    Parameters
    ----------
    explainer
        The constraints on actions.
    box
        Name → (lowest, highest) value, or the categories; where nothing is said, what the data
        show. `Integer` features have multiples of their step, and no cell is missing.
    target
        What is wanted, as for `Explainer.explain`.
    time_limit
        Seconds.

    Raises
    ------
    InvalidInput
        If the constraints hold `MaxChanges` or one of your own, which tie features of a row
        together, the target depends on the row (`OtherLabel` of None), or the box is empty.

    References
    ----------
    Kothari et al., Prediction without preclusion, arXiv 2308.12820; confined regions: arXiv
    2502.16380.
    """
    asked = (*explainer.constraints, *explainer.implied)
    alone = (cp.Immutable, cp.Bounds, cp.Monotone, cp.WithinObserved)
    tying = [c for c in asked if not isinstance(c, (*alone, cp.Linear, cp.Ellipsoid))]
    if tying:
        raise InvalidInput(
            f"A box can be settled under constraints on one feature each, and relations of the "
            f"answer; got {shown(tying[0])}. Leave it out: then fewer boxes are confined."
        )
    if isinstance(target, cp.OtherLabel) and not target.labels:
        raise InvalidInput(
            "Expected a target that is the same for all rows; say than= which label."
        )
    for name in box:
        explainer.features.index(name)
    proofs: list[cp.Counterfactual] = []
    stays = [cp.Immutable(*explainer.features.names)]
    for rules in (stays, asked):  # rows that have the target already; rows that get there
        ways = [_Way.of(f, box.get(f.name), [*_about(f, rules)]) for f in explainer.features]
        if not all(way.possible for way in ways):
            continue  # no row may be anywhere
        relations = [c for c in rules if isinstance(c, cp.Linear | cp.Ellipsoid)]
        widened = cp.Explainer(
            explainer.model,
            features=[way.feature for way in ways],
            cost=explainer.cost,
            constraints=[*relations, *(c for way in ways for c in way.constraints)],
        )
        start = {way.feature.name: way.start for way in ways}
        (answer,) = widened.explain([start], target, time_limit=time_limit, progress=False)
        if answer.found:
            row = {way.feature.name: way.origin(answer.row[way.feature.name]) for way in ways}
            (own,) = explainer.explain([row], target, time_limit=time_limit, progress=False)
            return Confined(False if own.found else None, row, (own,))
        proofs.append(answer)
    proved = all(_fixed(answer.batch)[answer.position] for answer in proofs)
    return Confined(proved or None, None, tuple(proofs))


def _about(feature: Any, constraints: Sequence[cp.Constraint]) -> Iterator[cp.Constraint]:
    """The constraints on one feature, as constraints on it alone."""
    for c in constraints:
        if isinstance(c, cp.Immutable | cp.WithinObserved):
            if feature.name in c.features:
                yield next(p for p in _parts(c) if p.features == (feature.name,))
            elif not c.features:
                yield cp.WithinObserved(feature.name)
        elif isinstance(c, cp.Bounds | cp.Monotone) and c.feature == feature.name:
            yield c


@final
@dataclass(frozen=True)
class _Way:
    """Where the rows of a box can take one feature, and from where."""

    feature: Any  # with what can be reached as what was observed, if it is categorical
    constraints: tuple[cp.Constraint, ...]
    start: Any
    possible: bool
    inside: tuple[float, float] = (0.0, 0.0)  # of a number
    origins: Mapping[Hashable, Hashable] = field(default_factory=dict)  # of a category

    @classmethod
    def of(cls, feature: Any, given: Any, constraints: Sequence[cp.Constraint]) -> _Way:
        given = feature.observed if given is None else given
        if given is None:
            raise InvalidInput(
                f"Expected a range of {feature.name!r} in the box, since there are no data that "
                "show one."
            )
        if isinstance(feature, cp.Categorical):
            return cls._of_categories(feature, given, constraints)
        return cls._of_numbers(feature, given, constraints)

    @classmethod
    def _of_categories(cls, feature: cp.Categorical, given: Any, constraints: Any) -> _Way:
        inside = [given] if given in feature.categories else list(given)
        unknown = [value for value in inside if value not in feature.categories]
        if unknown or not inside:
            raise InvalidInput(
                f"Expected categories of {feature.name!r} in the box; got {shown(given)}."
            )
        one, count = cp.Features([feature]), len(feature.categories)
        old, new = (codes.reshape(-1, 1).astype(float) for codes in np.indices((count, count)))
        allowed = (old == new)[:, 0] | ~feature.is_stand_in[new[:, 0].astype(int)]
        for condition in (part for c in constraints for part in c.region(one)):
            allowed &= condition.violation(one.expand(new), one.expand(old)) <= 0
        origins: dict[Hashable, Hashable] = {}
        for k in np.flatnonzero(allowed).tolist():
            u, v = (feature.categories[part] for part in divmod(k, count))
            if u in inside and (u == v or v not in origins):
                origins[v] = u
        start = feature.stand_in if feature.stand_in in origins else next(iter(origins), None)
        reached = replace(feature, observed=tuple(origins))
        within = (cp.WithinObserved(feature.name),)
        return cls(reached, within, start, bool(origins), origins=origins)

    @classmethod
    def _of_numbers(cls, feature: Any, given: Any, constraints: Any) -> _Way:
        try:
            low, high = map(float, given)
        except (TypeError, ValueError):
            low, high = np.nan, np.nan
        if isinstance(feature, cp.Integer):
            low, high = (
                float(np.ceil(low / feature.step) * feature.step),
                float(np.floor(high / feature.step) * feature.step),
            )
        if not low <= high:
            raise InvalidInput(
                f"Expected a lowest and a highest value of {feature.name!r} in the box; got "
                f"{shown(given)}."
            )
        least, most = -np.inf, np.inf
        for c in constraints:
            ends = cls._ends(c, feature, low, high)
            least, most = max(least, ends[0]), min(most, ends[1])
        start = next((v for v in (low, high) if np.isfinite(v)), 0.0)
        bounded = np.isfinite([least, most]).any() and least <= most
        bounds = (cp.Bounds(feature.name, low=least, high=most),) if bounded else ()
        return cls(feature, bounds, start, least <= most, (low, high))

    @staticmethod
    def _ends(c: Any, feature: Any, low: float, high: float) -> tuple[float, float]:
        """What can be reached from between two values; each end rises with where one starts."""
        match c:
            case cp.Immutable():
                return low, high
            case cp.Bounds():
                return max(c.low, low - c.fall), min(c.high, high + c.rise)
            case cp.Monotone():
                return (low, np.inf) if c.direction == "increasing" else (-np.inf, high)
        mine = [b for b in c.stated if b.feature == feature.name]
        free_low, free_high = (
            any(np.isfinite(getattr(b, end)) for b in mine) for end in ("low", "high")
        )
        least = -np.inf if free_low else min(feature.observed[0], low)
        return least, np.inf if free_high else max(feature.observed[1], high)

    def origin(self, value: Any) -> Any:
        """Where in the box to start, to get there."""
        if self.origins:
            return self.origins[value]
        return float(np.clip(value, *self.inside))
