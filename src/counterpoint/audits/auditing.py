"""Audits of whole groups of rows: whom no action helps, and which constraints are to blame."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

import counterpoint as cp
from counterpoint.errors import (
    EXPLAINER,
    InvalidInput,
    all_of,
    check_number,
    missing_extra,
    several,
    shown,
    some,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Audit", "audit", "fixed_rows", "parts_of"]


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
        return fixed_rows(self.answers)

    def __str__(self) -> str:
        table = self.groups
        counts = table.loc[:, "rows":"unusable"]
        out = counts.loc[:, (counts != 0).any()].copy()
        for name, digits in (("fixed_share", ".1%"), ("cost_median", ".4g")):
            kind = name.partition("_")[0]
            ends = zip(table[name], table[f"{kind}_low"], table[f"{kind}_high"], strict=True)
            out[name.replace("_", " ")] = [
                f"{value:{digits}} ({low:{digits}} to {high:{digits}})" for value, low, high in ends
            ]
        lines = [out.to_string()]
        if len(self.constraints):
            fixed, unfixed = self.sampled
            head = f"of {several(fixed, 'fixed row')} and {several(unfixed, 'other row')}:"
            lines += ["", head, self.constraints.to_string(float_format="{:.1%}".format)]
        return "\n".join(lines)

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
            raise missing_extra("Audit.plot needs matplotlib", "plots") from None
        bars = self.constraints.head(10)[::-1]
        wide = len(bars) > 0
        figure = Figure(figsize=(11.0 if wide else 6.0, 4.2), layout="constrained")
        curves, *right = np.ravel(figure.subplots(1, 1 + wide))
        needs, cost = _needs(self.answers), np.asarray(self.answers.cost)
        end = 1.05 * cost[needs & self.answers.found].max(initial=0.0)
        names = [*self.groups.index[1:]] or ["all"]
        for k, name in enumerate(names):
            mine = needs & (self.group == name)
            steps = np.sort(cost[mine & self.answers.found])
            share = np.arange(len(steps) + 1) / max(1, int(mine.sum()))
            style = ("-", "--", ":", "-.")[k // 8 % 4]
            x, y = [0.0, *steps, end], [*share, share[-1]]
            curves.step(x, y, style, where="post", color=f"C{k % 8}", label=f"{name}")
        curves.set(xlabel="cost", ylabel="rows with an action of at most this cost")
        curves.set(xlim=(0.0, end or 1.0), ylim=(0.0, 1.02))
        if len(names) > 1:
            curves.legend(frameon=False, loc="lower right")
        for axes in right:
            at = np.arange(len(bars))
            axes.barh(at + 0.2, bars["frees"], 0.38, color="#444444", label="fixed rows freed")
            axes.barh(at - 0.2, bars["saves"], 0.38, color="#b0b0b0", label="cost saved by others")
            wrapped = ["\n".join(wrap(text, 40, max_lines=2)) for text in bars.index]
            axes.set_yticks(at, wrapped, parse_math=False)
            axes.set(xlabel=f"without the constraint, of a sample of {sum(self.sampled)} rows")
            axes.set_xlim(0.0, 1.0)
            axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        for axes, axis in [(curves, curves.yaxis), *((axes, axes.xaxis) for axes in right)]:
            axis.set_major_formatter("{x:.0%}")
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

    all_of(cp.Explainer, (explainer,), *EXPLAINER)
    check_number("confidence", confidence)
    if not 0 < confidence < 1:
        raise InvalidInput(f"Expected a confidence between 0 and 1; got {shown(confidence)}.")
    answers = explainer.explain(X, target, gap=gap, time_limit=time_limit, progress=progress)
    group = _groups(answers, by)
    names = [] if by is None else sorted({*group.tolist()})
    lines = [_line(answers, np.ones(len(answers), dtype=bool), confidence)]
    for name in names:
        lines.append(_line(answers, group == name, confidence))
        count = sum(lines[-1][kind] for kind in ("answered", "fixed", "undecided"))
        if count < 20:
            warnings.warn(
                f"Group {name!r} has {several(count, 'row')} that would need an action: its "
                "intervals are wide, and differences from other groups may be chance.",
                stacklevel=2,
            )
    groups = pd.DataFrame(lines, index=pd.Index(["all", *names], name="group"))
    rng = np.random.default_rng(random_state)
    fixed = fixed_rows(answers)
    pools = (np.flatnonzero(mask) for mask in (fixed, answers.found & _needs(answers)))
    drawn = [np.sort(rng.permutation(pool)[:sample]).tolist() for pool in pools]
    constraints = _constraints(explainer, answers, *drawn)
    return Audit(answers, group, groups, constraints, (len(drawn[0]), len(drawn[1])))


def _groups(answers: cp.Counterfactuals, by: Any) -> NDArray[np.object_]:
    """Return the name of each row's group, shape (n,): ``by`` is a column's name or its values."""
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
    # NaN alone is unequal to itself
    names = ["missing" if v is None or v != v else str(v) for v in values]  # noqa: PLR0124
    count = len({*names})
    if count > 50:
        raise InvalidInput(
            f"Expected at most 50 groups; got {count}. Make groups of numbers first, say with "
            "pandas.cut."
        )
    return np.array(names, dtype=object)


def fixed_rows(answers: cp.Counterfactuals) -> NDArray[np.bool_]:
    """(n,): of which rows it is proved that no action gives the target."""
    proved = answers.certificates.claim == cp.Claim.PROVED
    return np.asarray(proved & (answers.status == cp.Status.INFEASIBLE))


def _needs(answers: cp.Counterfactuals) -> NDArray[np.bool_]:
    """(n,): which rows can be used and do not have the target already."""
    return ~np.isin(answers.status, [cp.Status.ALREADY, cp.Status.INVALID])


def _line(
    answers: cp.Counterfactuals, rows: NDArray[np.bool_], confidence: float
) -> dict[str, Any]:
    """Return a group's line of the table: counts, share that is fixed, median cost, intervals."""
    status, needs = answers.status, _needs(answers) & rows
    fixed, answered = fixed_rows(answers) & rows, answers.found & needs
    cost, count = answers.cost[answered], int(needs.sum())
    masks = {
        "rows": rows,
        "already": rows & (status == cp.Status.ALREADY),
        "answered": answered,
        "fixed": fixed,
        "undecided": needs & ~answered & ~fixed,
        "unusable": rows & (status == cp.Status.INVALID),
    }
    out: dict[str, Any] = {name: int(mask.sum()) for name, mask in masks.items()}
    ends = stats.binomtest(out["fixed"], count).proportion_ci(confidence) if count else (0.0, 1.0)
    share = out["fixed"] / count if count else np.nan
    out |= {"fixed_share": share, "fixed_low": ends[0], "fixed_high": ends[1]}
    # Between the k-th smallest and the k-th largest of n values lies the median, with a probability
    # that is binomial whatever their distribution; of few values no interval is finite.
    n = len(cost)
    k = int(stats.binom.ppf((1.0 - confidence) / 2.0, n, 0.5)) if n else 0
    low, high = np.partition(cost, (k - 1, n - k))[[k - 1, n - k]] if k else (0.0, np.inf)
    median = float(np.median(cost)) if n else np.nan
    return out | {"cost_median": median, "cost_low": float(low), "cost_high": float(high)}


# Constraints


def _constraints(
    explainer: cp.Explainer, answers: cp.Counterfactuals, fixed: list[int], unfixed: list[int]
) -> pd.DataFrame:
    """Return a line for each constraint: what it does to fixed rows, and costs the others."""
    import pandas as pd

    constraints, rows = answers.query.constraints, [*fixed, *unfixed]
    cells = answers.table.select(answers.features.names)
    targets = answers.targets[rows]
    seconds = answers.query.effort.seconds
    conflicts = (answers[i].conflict for i in fixed)
    named = Counter(
        text
        for conflict in conflicts
        for text in {
            str(p) for c in (conflict.constraints if conflict else ()) for p in parts_of(c)
        }
    )

    def without(rules: Sequence[cp.Constraint]) -> tuple[float, float]:
        """Answer the rows again under fewer constraints: the share freed, and of cost saved."""
        looser = cp.Explainer(
            explainer.model, features=[*answers.features], cost=explainer.cost, constraints=rules
        )
        cost = np.full(len(rows), np.nan)
        for target in {id(t): t for t in targets}.values():
            index = [k for k, other in enumerate(targets) if other is target]
            X = cells.take(np.array(rows)[index]).native
            cost[index] = looser.explain(X, target, time_limit=seconds, progress=False).cost
        before, after = answers.cost[unfixed], cost[len(fixed) :]
        saved = np.divide(before - after, before, out=np.zeros(len(unfixed)), where=before > 0)
        saved[~(saved > 1e-6)] = 0.0  # below the gap of a search it may be none
        freed = np.isfinite(cost[: len(fixed)])
        return float(freed.sum() / max(1, len(fixed))), float(saved.sum() / max(1, len(unfixed)))

    lines: dict[str, dict[str, float]] = {}
    for c in constraints if rows else ():
        pieces, remaining = parts_of(c), [other for other in constraints if other is not c]
        whole = without(remaining)
        if not any(whole) and not any(str(piece) in named for piece in pieces):
            continue  # then no part of it does anything either
        for piece in pieces:
            rules = [*remaining, *(p for p in pieces if p is not piece)]
            frees, saves = without(rules) if len(pieces) > 1 else whole
            share = named[str(piece)] / max(1, len(fixed))
            if share or frees or saves:
                lines[str(piece)] = {"frees": frees, "saves": saves, "named": share}
    table = pd.DataFrame.from_dict(lines, orient="index", columns=["frees", "saves", "named"])
    return table.rename_axis("constraint").sort_values(["frees", "saves", "named"], ascending=False)


def parts_of(constraint: cp.Constraint) -> list[Any]:
    """A constraint on several features as one for each."""
    if isinstance(constraint, cp.Immutable):
        return [constraint.only(name) for name in constraint.features]
    if isinstance(constraint, cp.WithinObserved) and constraint.features:
        return [constraint.only(name) for name in constraint.features]
    return [constraint]
