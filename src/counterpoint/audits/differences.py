"""Exact tests of whether groups differ: in how many rows are fixed, and in what actions cost."""

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
EXACT = 100  # rows
"""Costs: the exact distribution of rank sums is computed for up to so many rows in all, which takes
milliseconds. For more the normal approximation with its correction for ties is as good, if no group
is small."""
SMALL = 20  # rows
"""A group with fewer rows is compared among many by dealing groups at random: there the normal
approximation is off, 8 times with one row among 200."""
DEALS = 9_999
"""Deals of a small group: a p-value is then at least 1e-4, which takes a tenth of a second."""


@final
class PValue(NamedTuple):
    """The p-value of a test, and the smallest that it could have had on as many rows."""

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

    pairs = [(name, OTHERS) for name in names] if len(names) > 2 else [(*names,)][: len(names) - 1]
    lines: list[dict[str, Any]] = []
    for name, other in pairs:
        first = group == name
        sides = (first, ~first)
        counts = [[int((mask & side).sum()) for mask in (fixed, answered)] for side in sides]
        costs = [cost[answered & side] for side in sides]
        line: dict[str, Any] = {"group": name, "against": other}
        shares = [row[0] / sum(row) if sum(row) else np.nan for row in counts]
        line |= {"fixed_share": shares[0], "fixed_share_against": shares[1]}
        remarks = [_no_fixed_test(counts, confidence), _no_cost_test(costs, confidence)]
        line["fixed_p"] = np.nan if remarks[0] else fisher_test(counts).p
        line["dearer"] = dearer(*costs)
        line["cost_p"] = np.nan if remarks[1] else rank_test(*costs).p
        line["remark"] = "\n".join(filter(None, remarks))
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
    factors = np.arange(len(order), 0, -1)
    out[order] = np.minimum(np.maximum.accumulate(factors * values[order]), 1.0)
    return out


def in_words(
    table: pd.DataFrame, words: AuditWords, confidence: float
) -> list[tuple[str, list[str]]]:
    """Return what each line of a table of differences says: a heading, and sentences."""
    tests, out = table[["fixed_p", "cost_p"]].notna().sum(), list[tuple[str, list[str]]]()
    for name, line in table.iterrows():
        group = words.group(str(name))
        against = OTHERS if line["against"] == OTHERS else words.group(line["against"])
        lines = list[str]()
        if not np.isnan(line["fixed_p"]):
            shares = percent(line["fixed_share"]), percent(line["fixed_share_against"])
            chance = _chance(line["fixed_p"], line["fixed_p_holm"], tests["fixed_p"], confidence)
            lines.append(f"fixed: {shares[0]} against {shares[1]}; {chance}")
        if not np.isnan(line["cost_p"]):
            pairs = f"in {percent(line['dearer'])} of pairs of actions, that of {group} costs more"
            chance = _chance(line["cost_p"], line["cost_p_holm"], tests["cost_p"], confidence)
            lines.append(f"cost: {pairs}; {chance}")
        out.append((f"{group} against {against}", [*lines, *line["remark"].splitlines()]))
    return out


def headline(table: pd.DataFrame, words: AuditWords, confidence: float) -> str:
    """Return the shares of fixed rows of two groups in a sentence; empty without a test."""
    ((name, line),) = table.iterrows()
    if np.isnan(line["fixed_p"]):
        return ""
    shares = (
        f"{percent(line[column])} of {words.group(str(group))}"
        for column, group in (("fixed_share", name), ("fixed_share_against", line["against"]))
    )
    chance = _chance(line["fixed_p"], line["fixed_p_holm"], 1, confidence)
    return f"Fixed are {' and '.join(shares)}; this difference is {chance}."


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
    """Say what a p-value means; ``count`` tests were made."""
    corrected = f"; of {count} tests, {probability(p_holm)}" if count > 1 else ""
    is_rare = p_holm <= 1.0 - confidence
    verdict = "hard to explain by chance" if is_rare else "possibly chance"
    return f"{verdict} ({probability(p)}{corrected})"


# Who is fixed


def fisher_test(counts: Sequence[Sequence[int]]) -> PValue:
    """Test whether two groups differ in their shares of fixed rows: Fisher's exact test.

    ``counts`` are two rows, one for each group: how many rows are fixed, how many have an action.
    """
    (fixed, answered), (fixed_against, answered_against) = counts
    size, total = fixed + answered, fixed + fixed_against
    ends = (max(0, total - fixed_against - answered_against), min(size, total))
    tables = (
        [[end, size - end], [total - end, fixed_against + answered_against - total + end]]
        for end in ends
    )
    smallest = min(float(stats.fisher_exact(table).pvalue) for table in tables)
    return PValue(float(stats.fisher_exact(counts).pvalue), smallest)


def _no_fixed_test(counts: Sequence[Sequence[int]], confidence: float) -> str:
    """Return why there is no p-value; empty if there is one."""
    sizes = [sum(row) for row in counts]
    if not all(sizes):
        return "fixed: no test, since a group has no row that needs an action."
    fixed = counts[0][0] + counts[1][0]
    if fixed in (0, sum(sizes)):
        return f"fixed: no test, since {'all' if fixed else 'none'} of these rows are fixed."
    smallest = fisher_test(counts).smallest
    return _too_few("fixed", sizes, smallest, confidence)


def _too_few(what: str, sizes: Sequence[int], smallest: float, confidence: float) -> str:
    if smallest <= 1.0 - confidence:
        return ""
    return (
        f"{what}: no test, since there are too few rows ({sizes[0]} and {sizes[1]}): even the "
        f"largest difference possible would have p = {smallest:.2g}."
    )


# What actions cost


def dearer(costs: NDArray[np.float64], against: NDArray[np.float64]) -> float:
    """Return in what share of pairs a row of the first group costs more; ties count half."""
    n, m = len(costs), len(against)
    if not n or not m:
        return np.nan
    ranks = _ranks(costs, against)
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))


def rank_test(costs: NDArray[np.float64], against: NDArray[np.float64]) -> PValue:
    """Test whether actions of one group tend to cost more: the rank test of Mann and Whitney.

    Ranks, since costs are skewed, and a few that are very large should not decide; the test assumes
    no distribution. Exact for up to `EXACT` rows, with ties too.
    """
    n, m = len(costs), len(against)
    if n > m:
        return rank_test(against, costs)
    if n + m > EXACT and n < SMALL:
        return _dealt_test(_ranks(costs, against), n)
    if n + m > EXACT:
        ranks = _ranks(costs, against)
        return PValue(float(stats.mannwhitneyu(ranks[:n], ranks[n:]).pvalue), 0.0)
    doubled = np.rint(2 * _ranks(costs, against)).astype(int)  # whole, with ties too
    ways = np.zeros((n + 1, doubled.sum() + 1))  # subsets by their size and the sum of their ranks
    ways[0, 0] = 1.0
    for rank in doubled.tolist():
        ways[1:, rank:] += ways[:-1, :-rank].copy()
    distance = np.abs(np.arange(ways.shape[1]) - n * (n + m + 1))  # from the mean of the sum
    possible = ways[n] > 0
    observed = abs(int(doubled[:n].sum()) - n * (n + m + 1))
    total = special.comb(n + m, n)
    tails = [ways[n, distance >= end].sum() / total for end in (observed, distance[possible].max())]
    return PValue(*(min(float(tail), 1.0) for tail in tails))


def _dealt_test(ranks: NDArray[np.float64], n: int) -> PValue:
    """Compare the rank sum of the first n rows with those of n rows dealt at random."""
    rng, mean = np.random.default_rng(0), n * ranks.mean()
    sums = np.array(
        [rng.choice(ranks, n, replace=False, shuffle=False).sum() for _ in range(DEALS)]
    )
    distance, ordered = np.abs(sums - mean), np.sort(ranks)
    largest = max(mean - ordered[:n].sum(), ordered[-n:].sum() - mean)
    tails = (
        np.count_nonzero(distance >= end - 1e-9) for end in (abs(ranks[:n].sum() - mean), largest)
    )
    return PValue(*((1 + count) / (1 + DEALS) for count in tails))


def _no_cost_test(costs: Sequence[NDArray[np.float64]], confidence: float) -> str:
    """Return why there is no p-value; empty if there is one."""
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
    safe = np.where(values > 0.0, values, 1.0)
    scale = 10.0 ** (5.0 - np.floor(np.log10(safe)))
    return np.asarray(stats.rankdata(np.rint(values * scale) / scale), dtype=float)
