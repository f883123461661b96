"""Test whether groups differ: in their shares of fixed rows, and in the costs of actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from counterpoint.audits.wording import AuditWords, percent, probability
from counterpoint.errors import several

if TYPE_CHECKING:
    import pandas as pd

OTHERS = "all others"


@final
class PValue(NamedTuple):
    """The p-value of a test, and the smallest one possible with the same numbers of rows."""

    p: float
    smallest: float


def compare_groups(
    group: NDArray[np.object_],
    names: Sequence[str],
    fixed: NDArray[np.bool_],
    answered: NDArray[np.bool_],
    cost: NDArray[np.float64],
    confidence: float,
) -> pd.DataFrame:
    """Return a line for two groups, or one for each of several groups against all others.

    Parameters
    ----------
    group
        (n,) the group of each row.
    names
        The groups.
    fixed, answered
        (n,) which rows are proved to have no action, and which have one; other rows count for
        nothing.
    cost
        (n,) of the answers, in cost units.
    confidence
        A test that could not reach ``p <= 1 - confidence`` on any outcome has no p-value, but a
        remark.
    """
    import pandas as pd

    # several groups against the others, two against each other; a single one has nothing to compare
    pairs = [(name, OTHERS) for name in names] if len(names) > 2 else [(*names,)][: len(names) - 1]
    lines: list[dict[str, Any]] = []
    for name, other in pairs:
        is_member = group == name
        sides = (is_member, ~is_member)
        counts = [[int((mask & side).sum()) for mask in (fixed, answered)] for side in sides]
        costs = [cost[answered & side] for side in sides]
        shares = [side[0] / sum(side) if sum(side) else np.nan for side in counts]
        no_fixed_test = _no_fixed_test(counts, confidence)
        no_cost_test = _no_cost_test(costs, confidence)
        line = {
            "group": name,
            "against": other,
            "fixed_share": shares[0],
            "fixed_share_against": shares[1],
            "fixed_p": np.nan if no_fixed_test else fisher_test(counts).p,
            "dearer": dearer(*costs),
            "cost_p": np.nan if no_cost_test else rank_test(*costs).p,
            "remark": "\n".join(filter(None, (no_fixed_test, no_cost_test))),
        }
        lines.append(line)
    columns = ["group", "against", "fixed_share", "fixed_share_against", "fixed_p", "dearer"]
    table = pd.DataFrame(lines, columns=[*columns, "cost_p", "remark"]).set_index("group")
    for kind, position in (("fixed", 4), ("cost", 7)):
        table.insert(position, f"{kind}_p_holm", holm(table[f"{kind}_p"]))
    return table


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Return p-values corrected for as many tests as there are (Holm); NaN is no test."""
    values = np.asarray(p, dtype=float)
    out = np.full(len(values), np.nan)
    tests = np.flatnonzero(~np.isnan(values))
    order = tests[np.argsort(values[tests], kind="stable")]
    factors = np.arange(len(order), 0, -1)  # as many as there are p-values at least as large
    out[order] = np.minimum(np.maximum.accumulate(factors * values[order]), 1.0)
    return out


def in_words(
    table: pd.DataFrame, words: AuditWords, confidence: float
) -> list[tuple[str, list[str]]]:
    """Return a heading and sentences for each line of a table of differences."""
    tests, blocks = table[["fixed_p", "cost_p"]].notna().sum(), list[tuple[str, list[str]]]()
    for name, line in table.iterrows():
        group = words.group(str(name))
        against = OTHERS if line["against"] == OTHERS else words.group(line["against"])
        sentences = list[str]()
        if not np.isnan(line["fixed_p"]):
            shares = percent(line["fixed_share"]), percent(line["fixed_share_against"])
            chance = _chance(line["fixed_p"], line["fixed_p_holm"], tests["fixed_p"], confidence)
            sentences.append(f"fixed: {shares[0]} against {shares[1]}; {chance}")
        if not np.isnan(line["cost_p"]):
            pairs = f"in {percent(line['dearer'])} of pairs of actions, that of {group} costs more"
            chance = _chance(line["cost_p"], line["cost_p_holm"], tests["cost_p"], confidence)
            sentences.append(f"cost: {pairs}; {chance}")
        blocks.append((f"{group} against {against}", [*sentences, *line["remark"].splitlines()]))
    return blocks


def headline(table: pd.DataFrame, words: AuditWords, confidence: float) -> str:
    """Return the shares of fixed rows of two groups in a sentence; empty without a test.

    ``table`` has one line.
    """
    ((name, line),) = table.iterrows()
    if np.isnan(line["fixed_p"]):
        return ""
    share = f"{percent(line['fixed_share'])} of {words.group(str(name))}"
    against = f"{percent(line['fixed_share_against'])} of {words.group(str(line['against']))}"
    chance = _chance(line["fixed_p"], line["fixed_p_holm"], 1, confidence)
    return f"Fixed are {share} and {against}; this difference is {chance}."


def notes(table: pd.DataFrame) -> list[str]:
    """Return what p-values mean, and how they are corrected."""
    meaning = (
        "p is the probability of a difference at least as extreme if groups were dealt to these "
        "rows at random: for fixed rows by Fisher's exact test, for the costs of those with an "
        "action, which are compared in pairs of one of each, by the rank test of Mann and Whitney."
    )
    holm = "With several groups, the second p is corrected for as many tests (Holm)."
    return [meaning, *([holm] if len(table) > 1 else [])]


def _chance(p: float, p_holm: float, count: int, confidence: float) -> str:
    """Say what a p-value means; ``p_holm`` is the one corrected for ``count`` tests."""
    corrected = f"; of {count} tests, {probability(p_holm)}" if count > 1 else ""
    is_rare = p_holm <= 1.0 - confidence
    verdict = "hard to explain by chance" if is_rare else "possibly chance"
    return f"{verdict} ({probability(p)}{corrected})"


# Shares of fixed rows


def share_with_interval(count: int, total: int, confidence: float) -> tuple[float, float, float]:
    """Return the share of a count in a total and the ends of its interval (Clopper, Pearson).

    Of no rows at all, the share is NaN and anything from 0 to 1.
    """
    if not total:
        return np.nan, 0.0, 1.0
    low, high = stats.binomtest(count, total).proportion_ci(confidence)
    return count / total, float(low), float(high)


def fisher_test(counts: Sequence[Sequence[int]]) -> PValue:
    """Test whether two groups differ in their shares of fixed rows: Fisher's exact test.

    ``counts`` are two rows, one for each group: how many rows are fixed, how many have an action.
    """
    (fixed, answered), (fixed_against, answered_against) = counts
    size, size_against = fixed + answered, fixed_against + answered_against
    total = fixed + fixed_against
    # With these sizes and this total, the p-value is smallest if one group has as few fixed rows as
    # possible, or as many.
    tables = (
        [[count, size - count], [total - count, size_against - total + count]]
        for count in (max(0, total - size_against), min(size, total))
    )
    smallest = min(float(stats.fisher_exact(table).pvalue) for table in tables)
    return PValue(float(stats.fisher_exact(counts).pvalue), smallest)


def _no_fixed_test(counts: Sequence[Sequence[int]], confidence: float) -> str:
    """Return why `fisher_test` of these counts has no p-value; empty if it has one."""
    sizes = [sum(side) for side in counts]
    if not all(sizes):
        return "fixed: no test, since a group has no row that needs an action."
    fixed = counts[0][0] + counts[1][0]
    if fixed in (0, sum(sizes)):
        return f"fixed: no test, since {'all' if fixed else 'none'} of these rows are fixed."
    return _too_few("fixed", sizes, fisher_test(counts).smallest, confidence)


def _too_few(kind: str, sizes: Sequence[int], smallest: float, confidence: float) -> str:
    """Return that even the ``smallest`` possible p-value shows nothing; empty if it would."""
    if smallest <= 1.0 - confidence:
        return ""
    return (
        f"{kind}: no test, since there are too few rows ({sizes[0]} and {sizes[1]}): even the "
        f"largest difference possible would have p = {smallest:.2g}."
    )


# Costs of actions


def dearer(costs: NDArray[np.float64], against: NDArray[np.float64]) -> float:
    """Return the share of pairs in which the row of the first group costs more; ties count half."""
    n, m = len(costs), len(against)
    if not n or not m:
        return np.nan
    # The ranks of n rows that are the cheapest add up to n (n + 1) / 2; each pair in which one of
    # them costs more adds 1.
    ranks = _ranks(costs, against)
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))


def rank_test(costs: NDArray[np.float64], against: NDArray[np.float64]) -> PValue:
    """Test whether actions of one group tend to cost more: the rank test of Mann and Whitney.

    Ranks, since costs are skewed, and a few that are very large should not decide; the test assumes
    no distribution. Exact for up to 100 rows, with ties too.
    """
    n, m = len(costs), len(against)
    if n > m:
        return rank_test(against, costs)
    ranks = _ranks(costs, against)
    if n + m <= 100:  # for which all rank sums are counted in milliseconds
        return _exact_rank_test(ranks, n)
    # With more rows the normal approximation with its correction for ties is as good, unless one
    # group is small: it is off 8 times with one row among 200.
    if n < 20:
        return _permutation_test(ranks, n)
    return PValue(float(stats.mannwhitneyu(ranks[:n], ranks[n:]).pvalue), 0.0)


def _exact_rank_test(ranks: NDArray[np.float64], n: int) -> PValue:
    """Compare the rank sum of the first n rows with those of all subsets of n rows."""
    doubled = np.rint(2 * ranks).astype(int)  # whole, with ties too
    subsets = np.zeros((n + 1, doubled.sum() + 1))  # their number, by size and doubled rank sum
    subsets[0, 0] = 1.0
    for rank in doubled.tolist():  # each subset without this row makes one with it
        subsets[1:, rank:] += subsets[:-1, :-rank].copy()
    mean = n * (len(ranks) + 1)  # of doubled rank sums
    distance = np.abs(np.arange(subsets.shape[1]) - mean)
    observed, largest = abs(int(doubled[:n].sum()) - mean), distance[subsets[n] > 0].max()
    total = special.comb(len(ranks), n)
    tails = [subsets[n, distance >= end].sum() / total for end in (observed, largest)]
    return PValue(*(min(float(tail), 1.0) for tail in tails))


def _permutation_test(ranks: NDArray[np.float64], n: int) -> PValue:
    """Compare the rank sum of the first n rows with those of n rows dealt at random."""
    rng, mean = np.random.default_rng(0), n * ranks.mean()
    deals = 9_999  # a tenth of a second; the p-value is then at least 1e-4
    sums = np.array(
        [rng.choice(ranks, n, replace=False, shuffle=False).sum() for _ in range(deals)]
    )
    distance, ordered = np.abs(sums - mean), np.sort(ranks)
    observed = abs(ranks[:n].sum() - mean)
    largest = max(mean - ordered[:n].sum(), ordered[-n:].sum() - mean)
    # sums of the same ranks in another order may be off by rounding
    tails = (np.count_nonzero(distance >= end - 1e-9) for end in (observed, largest))
    return PValue(*((1 + count) / (1 + deals) for count in tails))


def _no_cost_test(costs: Sequence[NDArray[np.float64]], confidence: float) -> str:
    """Return why `rank_test` of these costs has no p-value; empty if it has one."""
    sizes = [len(side) for side in costs]
    if not all(sizes):
        return "cost: no test, since a group has no row with an action."
    if len(np.unique(_ranks(*costs))) == 1:
        return f"cost: no test, since {several(sum(sizes), 'action')} cost the same."
    return _too_few("cost", sizes, rank_test(*costs).smallest, confidence)


def _ranks(costs: NDArray[np.float64], against: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ranks of all costs; those that agree in six digits are ties.

    A search stops at a relative gap of 1e-6, so further digits are accidents of the search.
    """
    values = np.concatenate([costs, against])
    positive = np.where(values > 0.0, values, 1.0)
    scale = 10.0 ** (5.0 - np.floor(np.log10(positive)))  # six digits are then before the point
    return np.asarray(stats.rankdata(np.rint(values * scale) / scale), dtype=float)
