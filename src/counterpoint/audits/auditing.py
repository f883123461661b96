"""Audit a model on groups of rows: whom no action helps, and which rules are to blame."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

import counterpoint as cp
from counterpoint.audits import differences
from counterpoint.audits.drawing import draw_audit
from counterpoint.audits.influences import ProtectedColumns
from counterpoint.audits.page import audit_page
from counterpoint.audits.rules import RuleEffect, RuleSample
from counterpoint.audits.wording import AuditWords, estimate, filled, percent
from counterpoint.errors import (
    EXPLAINER,
    InvalidInput,
    all_of,
    check_number,
    several,
    shown,
    some,
)
from counterpoint.letters.texts import Texts
from counterpoint.problem.targets import as_target
from counterpoint.protected import protected_features
from counterpoint.records.record import made_now
from counterpoint.rows.cells import is_missing

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True, eq=False)
class Audit:
    """The result of an audit: what a model leaves rows to do; its ``str`` has words and tables.

    Parameters
    ----------
    answers
        To all rows; `Counterfactuals.to_records` writes the proofs.
    group
        (n,) the group of each row.
    groups
        A line for all rows, and one for each group: how many rows have the target ``already``, are
        ``answered``, ``fixed`` (it is proved that no change within the rules gives the target),
        ``undecided`` or ``unusable``; the share of fixed rows among those that would need an
        action, with its interval; the median cost of those that are answered, in cost units, with
        its interval; a ``remark`` where rows are too few for an interval.
    differences
        Whether groups differ: a line for two groups, or one for each of several groups against all
        others. The shares of fixed rows among fixed and answered ones; ``fixed_p`` of Fisher's
        exact test of these; ``dearer``, the share of pairs of a row of the group and another row in
        which the first costs more; ``cost_p`` of the rank test of Mann and Whitney; both with
        Holm's correction (``_holm``); a ``remark`` where there is no p-value.
    constraints
        A line for each rule of the policy that matters to some row of a sample: the share of fixed
        rows that have an answer without it (``frees``) and whose conflict names it (``named``), and
        the mean share of the cost that other rows save without it (``saves``).
    observed
        The same for what ``data=`` showed, which is no rule: if values might leave it; None if they
        may.
    sampled
        How many fixed rows and how many others were sampled for that.
    protected
        What protected columns do to decisions and scores; None if there are none.
    explainer, target, confidence
        What was asked, and the probability of the intervals.
    words
        How features, decisions and groups are called.
    made
        When the audit was made, and with which versions.
    """

    answers: cp.Counterfactuals
    group: NDArray[np.object_]
    groups: pd.DataFrame
    differences: pd.DataFrame
    constraints: pd.DataFrame
    observed: RuleEffect | None
    sampled: tuple[int, int]
    protected: ProtectedColumns | None
    explainer: cp.Explainer
    target: cp.Target
    confidence: float
    words: AuditWords
    made: dict[str, str]

    @property
    def fixed(self) -> NDArray[np.bool_]:
        """Mask of the rows (n,) for which it is proved that no action gives the target."""
        return fixed_rows(self.answers)

    @property
    def needs(self) -> NDArray[np.bool_]:
        """Mask of the rows (n,) that can be used and do not have the target already."""
        return needing_rows(self.answers)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Mask of the rows (n,) that need an action and have one."""
        return self.answers.found & self.needs

    def meaning(self) -> dict[str, str]:
        """Return a sentence on each kind of row: a column of counts → what these rows are."""
        target = self.words.target(self.target)
        return {
            "already": f"The model gives {target} already.",
            "answered": f"A change within the rules leads to {target}.",
            "fixed": f"It is proved that no change within the rules leads to {target}.",
            "undecided": "Neither was settled: no such change was found, nor proved impossible.",
            "unusable": "The row cannot be used, say because a cell is missing.",
        }

    def limits_of_data(self) -> str:
        """Say what rows lose by the limits of the data; empty if that is nothing."""
        if self.observed is None or not any(self.observed):
            return ""
        frees, saves, _ = self.observed
        return (
            "Values stay within what the data showed, which is no rule of the policy. Could they "
            f"leave it, {percent(frees)} of these fixed rows would have an action, and the others "
            f"would save {percent(saves)} of their cost."
        )

    def __str__(self) -> str:
        blocks = [self._groups_text()]
        compared = differences.in_words(self.differences, self.words, self.confidence)
        blocks += ["\n  ".join([heading, *sentences]) for heading, sentences in compared]
        if compared:
            blocks.append("\n".join(map(filled, differences.notes(self.differences))))
        if self.protected is not None:
            lines = [filled(self.protected.heading(self.words))]
            lines += [f"  {name}: {text}" for name, text in self.protected.meaning().items()]
            if self.protected.influence is not None:
                lines.append(self.protected.table(self.words).to_string())
            blocks.append("\n".join(lines))
        if len(self.constraints):
            fixed, unfixed = self.sampled
            heading = (
                f"Without one rule, of {several(fixed, 'fixed row')} and "
                f"{several(unfixed, 'other row')}:"
            )
            columns = {"frees": "frees fixed", "saves": "saves others", "named": "in conflicts"}
            rules = self.constraints.rename(columns=columns).rename_axis(None)
            blocks.append(f"{heading}\n{rules.to_string(float_format=percent)}")
        if limits := self.limits_of_data():
            blocks.append(filled(limits))
        return "\n\n".join(blocks)

    def _groups_text(self) -> str:
        """Return the table of groups as text, below what its columns mean, above its remarks."""
        counts = self.groups.loc[:, "rows":"unusable"]
        table = counts.loc[:, (counts != 0).any()].copy()
        meaning = [f"  {kind}: {text}" for kind, text in self.meaning().items() if kind in table]
        for kind, name in (("fixed", "fixed share"), ("cost", "median cost")):
            texts = [estimate(line, kind) for _, line in self.groups.iterrows()]
            column = f"{name}, {100 * self.confidence:.4g} % interval"
            table[column] = [f"{value} ({ends})" if ends else value for value, ends in texts]
        # the first line is that of all rows, which is no group
        table.index = [self.words.group(name) if k else name for k, name in enumerate(table.index)]
        remarks = [f"  {remark}" for remark in self.remarks()]
        return "\n".join([*meaning, "", table.to_string(), *remarks])

    def summary(self) -> str:
        """Say in a few sentences how many rows need an action, have one, and have none."""
        counts = self.groups.iloc[0]
        target, needs = self.words.target(self.target), int(self.needs.sum())
        rows, already = (f"{counts[kind]:,}" for kind in ("rows", "already"))
        text = f"Of {rows} rows, the model gives {target} to {already} already. "
        if counts["unusable"]:
            text += f"{counts['unusable']:,} cannot be used. "
        if not needs:
            return f"{text}Nobody needs an action."
        answered, fixed = (
            f"{counts[kind]:,} ({percent(counts[kind] / needs)})" for kind in ("answered", "fixed")
        )
        text += (
            f"Of the {needs:,} that need an action, {answered} have a change within the rules that "
            f"leads to {target}"
        )
        text += f"; for {fixed} it is proved that there is none." if counts["fixed"] else "."
        if counts["undecided"]:
            text += f" {counts['undecided']:,} could not be settled."
        if len(self.differences) == 1:
            text += f" {differences.headline(self.differences, self.words, self.confidence)}"
        return text

    def __repr__(self) -> str:
        return f"<Audit: {len(self.group)} rows, {np.count_nonzero(self.fixed)} fixed>"

    def remarks(self) -> list[str]:
        """Return why intervals are missing: a sentence for each group that lacks one."""
        remarks = zip(self.groups.index, self.groups["remark"], strict=True)
        return [f"{self.words.group(name)}: {text}" for name, text in remarks if text]

    def to_html(self, path: str | PathLike[str] | None = None) -> str:
        """Return the audit as a page that stands alone, for a browser or a printer.

        Parameters
        ----------
        path
            Where to write it too; None for nowhere.

        Raises
        ------
        MissingExtra
            If matplotlib is not installed.
        """
        page = audit_page(self)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def plot(self) -> Figure:
        """Draw how many rows an action within a cost helps, by group, and what keeps the others.

        Raises
        ------
        MissingExtra
            If matplotlib is not installed.
        """
        return draw_audit(self)


def audit(  # noqa: PLR0913
    explainer: cp.Explainer,
    X: object,
    target: Any,
    by: Hashable | ArrayLike | None = None,
    *,
    texts: Texts | str | PathLike[str] | None = None,
    protected: Iterable[Hashable] | None = None,
    confidence: float = 0.95,
    sample: int = 20,
    protected_sample: int = 500,
    random_state: int = 0,
    gap: float = 1e-6,
    time_limit: float | None = None,
    progress: bool | None = None,
) -> Audit:
    """Whom no action helps, what actions cost by group, and which rules are to blame.

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
    texts
        What to call features, decisions and groups: `letters.Texts`, or a file of them; None for
        the names of columns and labels.
    protected
        Columns that must not decide; None for those of `Immutable` constraints with
        ``protected=True``. The audit says how many decisions change with them alone, and how much
        of the score they carry.
    confidence
        Of the intervals, which are exact for any distribution of costs: Clopper and Pearson's for
        shares, order statistics for medians.
    sample
        How many fixed rows, and how many others, are asked about rules; drawn with
        ``random_state``.
    protected_sample
        How many rows, at most, are asked about protected columns; drawn likewise.
    gap, time_limit, progress
        As for `Explainer.explain`.

    Returns
    -------
    Audit

    Raises
    ------
    InvalidInput
        If there is no such column, it has more than 50 groups, or a text is about no column; if
        columns are protected and the explainer has no data, or the target demands nothing.

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
    words = AuditWords.of(texts, (*answers.table.names,), by)
    group, names = _groups(answers, by)
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
    fixed, answered = fixed_rows(answers), answers.found & needing_rows(answers)
    rng = np.random.default_rng(random_state)
    samples = [
        np.sort(rng.permutation(np.flatnonzero(mask))[:sample]).tolist()
        for mask in (fixed, answered)
    ]
    rules = RuleSample(explainer, answers, *samples)
    columns = protected_features(explainer) if protected is None else (*dict.fromkeys(protected),)
    examined = None
    if columns:
        rows = np.sort(rng.permutation(len(answers))[:protected_sample])
        sampled_answers = answers
        if len(rows) < len(answers):
            X_sample = answers.table.take(rows).native
            sampled_answers = explainer.explain(
                X_sample, target, time_limit=time_limit, progress=False
            )
        masks = {"all": np.ones(len(rows), dtype=bool)}
        masks |= {name: group[rows] == name for name in names}
        examined = ProtectedColumns.of(explainer, sampled_answers, columns, masks, confidence)
    compared = differences.compare_groups(
        group, names, fixed, answered, np.asarray(answers.cost), confidence
    )
    return Audit(
        answers=answers,
        group=group,
        groups=groups,
        differences=compared,
        constraints=rules.table(words),
        observed=rules.without_limits_of_data(),
        sampled=(len(samples[0]), len(samples[1])),
        protected=examined,
        explainer=explainer,
        target=as_target(target),
        confidence=confidence,
        words=words,
        made=made_now(),
    )


def _groups(answers: cp.Counterfactuals, by: Any) -> tuple[NDArray[np.object_], list[str]]:
    """Return the name of each row's group, shape (n,), and all names in the order of the values.

    ``by`` is a column's name or its values; without it there are no groups.
    """
    table, n = answers.table, len(answers)
    if by is None:
        return np.full(n, "all", dtype=object), []
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
    # a decimal that is NaN is unequal to itself, too
    missing = np.array([is_missing(v) or v != v for v in values], dtype=bool)  # noqa: PLR0124
    names = np.where(missing, "missing", [str(v) for v in values]).astype(object)
    value_of = dict(zip(names[~missing], values[~missing], strict=True))
    try:
        order = sorted(value_of, key=lambda name: value_of[name])  # 9 before 10
    except TypeError:  # values of several kinds
        order = sorted(value_of)
    if missing.any() and "missing" not in value_of:
        order.append("missing")
    if len(order) > 50:
        raise InvalidInput(
            f"Expected at most 50 groups; got {len(order)}. Make groups of numbers first, say with "
            "pandas.cut."
        )
    return names, order


def fixed_rows(answers: cp.Counterfactuals) -> NDArray[np.bool_]:
    """Return the mask (n,) of rows for which it is proved that no action gives the target."""
    proved = answers.certificates.claim == cp.Claim.PROVED
    return np.asarray(proved & (answers.status == cp.Status.INFEASIBLE))


def needing_rows(answers: cp.Counterfactuals) -> NDArray[np.bool_]:
    """Return the mask (n,) of rows that can be used and do not have the target already."""
    return ~np.isin(answers.status, [cp.Status.ALREADY, cp.Status.INVALID])


def _line(
    answers: cp.Counterfactuals, rows: NDArray[np.bool_], confidence: float
) -> dict[str, Any]:
    """Return the line of a group: counts, the fixed share, the median cost, and intervals.

    ``rows`` is the group's mask (n,).
    """
    status, needs = answers.status, needing_rows(answers) & rows
    fixed, answered = fixed_rows(answers) & rows, answers.found & needs
    masks = {
        "rows": rows,
        "already": rows & (status == cp.Status.ALREADY),
        "answered": answered,
        "fixed": fixed,
        "undecided": needs & ~answered & ~fixed,
        "unusable": rows & (status == cp.Status.INVALID),
    }
    line: dict[str, Any] = {name: int(mask.sum()) for name, mask in masks.items()}
    share, low, high = differences.share_with_interval(line["fixed"], int(needs.sum()), confidence)
    line |= {"fixed_share": share, "fixed_low": low, "fixed_high": high}
    # The median lies between the k-th smallest and the k-th largest of n costs, with a probability
    # that is binomial whatever their distribution. For few costs there is no such k, and so no
    # finite interval.
    cost = answers.cost[answered]
    n = len(cost)
    k = int(stats.binom.ppf((1.0 - confidence) / 2.0, n, 0.5)) if n else 0
    low, high = np.partition(cost, (k - 1, n - k))[[k - 1, n - k]] if k else (0.0, np.inf)
    median = float(np.median(cost)) if n else np.nan
    line |= {"cost_median": median, "cost_low": float(low), "cost_high": float(high)}
    return line | {"remark": _remark(int(needs.sum()), n, confidence, has_interval=k > 0)}


def _remark(needs: int, answered: int, confidence: float, *, has_interval: bool) -> str:
    """Return why the median cost has no interval; empty if it has one.

    ``needs`` rows need an action, and ``answered`` of these have one.
    """
    if not needs:
        return "no row needs an action."
    if has_interval:
        return ""
    needed = int(np.floor(1.0 - np.log2(1.0 - confidence))) + 1  # 2 · 0.5ⁿ is below 1 − confidence
    rows = several(answered, "row")
    return (
        f"{rows} with an action {'is' if answered == 1 else 'are'} too few for an interval of the "
        f"median cost at {100 * confidence:.4g} %; it takes {needed}."
    )
