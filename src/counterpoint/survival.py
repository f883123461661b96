"""`survival` finds the margin by which answers stay valid when the model is fitted anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

import counterpoint as cp
from counterpoint.errors import EXPLAINER, InvalidInput, NoAnswer, all_of, check_number, shown
from counterpoint.metrics.pairs import is_other, meets, pairs, predicted_by
from counterpoint.numerics import FloatArray
from counterpoint.problem.targets import as_target

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, eq=False)
class Survival:
    """A margin by which answers stay valid on refits, and what it costs; `survival` returns it.

    Parameters
    ----------
    margin
        By how much answers lead, in score units: for ``cp.Label(label, margin=…)``.
    share
        The share of answers that are valid on the refits that the choice did not see.
    shares
        (r,) the same of each of these refits.
    share_without
        The share of answers without a margin.
    cost, cost_without
        The mean cost of answers with the margin and without it, of rows that have both.
    unanswered
        How many rows have an answer without the margin, and none with it.
    answers
        The answers with the margin.
    curve
        One line for each margin that was tried: ``margin``; the mean ``share`` on the refits that
        the choice saw, and what it is ``at_least`` with 95 % confidence; the mean ``cost``; how
        many rows were ``found``.
    """

    margin: float
    share: float
    shares: FloatArray
    share_without: float
    cost: float
    cost_without: float
    unanswered: int
    answers: cp.Counterfactuals
    curve: pd.DataFrame

    def __str__(self) -> str:
        loss = f" {self.unanswered} rows lose their answer." if self.unanswered else ""
        return (
            f"With a margin of {self.margin:.3g}, {self.share:.1%} of answers stay valid on "
            f"{len(self.shares)} refits that the choice did not see, instead of "
            f"{self.share_without:.1%}; they cost {self.cost:.3g} on average, instead of "
            f"{self.cost_without:.3g}.{loss}"
        )

    def __repr__(self) -> str:
        return (
            f"<Survival: margin {self.margin:.4g}, {self.share:.1%} on {len(self.shares)} refits>"
        )


def survival(
    explainer: cp.Explainer,
    X: object,
    target: Any,
    refits: Iterable[Any] | Callable[[int], Any],
    *,
    share: float = 0.95,
    count: int = 40,
) -> Survival:
    """Find the least margin at which answers stay valid on refits of the model, and what it costs.

    The margin is chosen on every other refit: the least, to 2 %, at which the mean share of valid
    answers on refits like these is at least ``share`` with 95 % confidence (by Student's t). The
    others, which the choice did not see, say how many answers stay valid.

    Parameters
    ----------
    explainer
        What is asked of each row.
    X
        Rows, as for `Explainer.explain`.
    target
        A label, a `Label` or an `OtherLabel`, without a margin.
    refits
        At least 4 models, fitted on other samples, say; or a function that fits one, given a seed.
        They are only asked to predict, so that models that counterpoint cannot read will do.
    share
        Which share of answers shall stay valid.
    count
        How many models a function is to fit, with the seeds 0, 1, 2 …

    Returns
    -------
    Survival

    Raises
    ------
    InvalidInput
        If the target has no margin to choose, refits are too few, or do not take the rows.
    NoAnswer
        If no margin will do within the constraints.

    Notes
    -----
    The share is one over rows and refits like these: it says nothing of models fitted on data that
    have changed. Margins in score units fit models whose scores vary alike everywhere; where the
    law of the weights is known, `Robust` asks for more where they vary more.

    References
    ----------
    Upadhyay, Joshi & Lakkaraju (2021), Towards robust and reliable algorithmic recourse, NeurIPS.
    """
    all_of(cp.Explainer, (explainer,), *EXPLAINER)
    base_target = as_target(target)
    if not isinstance(base_target, cp.Label | cp.OtherLabel) or base_target.margin:
        raise InvalidInput(
            f"Expected a label, a Label or an OtherLabel without a margin; got {shown(target)}."
        )
    check_number("share", share)
    if not 0.0 < share < 1.0:
        raise InvalidInput(f"Expected a share between 0 and 1, both excluded; got {shown(share)}.")
    models = [refits(seed) for seed in range(count)] if callable(refits) else list(refits)
    if len(models) < 4:
        raise InvalidInput(
            f"Expected at least 4 refits, half of them to choose by; got {len(models)}."
        )
    import pandas as pd
    from scipy.stats import t as student_t

    selection_models, test_models = models[::2], models[1::2]
    curve: list[dict[str, float]] = []
    answers_at: dict[float, cp.Counterfactuals] = {}

    def is_enough(margin: float) -> bool:
        """Explain with a margin, and note how many answers stay valid; return whether enough do."""
        answers = answers_at[margin] = explainer.explain(X, replace(base_target, margin=margin))
        shares = _shares(selection_models, explainer, X, answers, base_target)
        mean, error = shares.mean(), shares.std(ddof=1) / np.sqrt(len(shares))
        lower_limit = mean - student_t.ppf(0.95, len(shares) - 1) * error
        cost = answers.cost[answers.found].mean() if answers.found.any() else np.nan
        numbers = {"margin": margin, "share": mean, "at_least": lower_limit, "cost": cost}
        curve.append({**numbers, "found": int(answers.found.sum())})
        if not answers.found.any():
            raise NoAnswer(
                f"No answer leads by {margin:.3g} within the constraints, and with less, fewer "
                f"than {share:.0%} stay valid on the refits. Ask for a smaller share, or relax "
                "the constraints."
            )
        return bool(lower_limit >= share)

    margin = _least(is_enough)
    answers, answers_without = answers_at[margin], answers_at[0.0]
    have_both = answers_without.found & answers.found
    shares = _shares(test_models, explainer, X, answers, base_target)
    shares_without = _shares(test_models, explainer, X, answers_without, base_target)
    return Survival(
        margin,
        float(shares.mean()),
        shares,
        float(shares_without.mean()),
        float(answers.cost[have_both].mean()),
        float(answers_without.cost[have_both].mean()),
        int((answers_without.found & ~answers.found).sum()),
        answers,
        pd.DataFrame(curve).sort_values("margin", ignore_index=True),
    )


def _shares(
    models: list[Any], explainer: cp.Explainer, X: object, answers: Any, target: cp.Target
) -> FloatArray:
    """(r,) for each model, the share of the answers that it gives the target; NaN of none."""
    pairing = pairs(explainer, X, answers)
    after = pairing.after[pairing.answered]
    if not len(after):
        return np.full(len(models), np.nan)
    # another label is one that differs from the prediction of the explained model, not of a refit
    before = pairing.as_input(pairing.before[pairing.answered], explainer)
    predicted = predicted_by(explainer, before) if is_other(target) else None
    valid = [meets(m, target, pairing.as_input(after, m), predicted) for m in models]
    return np.mean(valid, axis=1)


def _least(is_enough: Callable[[float], bool]) -> float:
    """Find the least margin that is enough, to 2 %: 0, or between doublings and halvings of 1.

    ``low`` is not enough, and ``high`` is, as soon as both were tried.
    """
    if is_enough(0.0):
        return 0.0
    low, high = (0.5, 1.0) if is_enough(1.0) else (1.0, 2.0)
    while high <= 1.0 and is_enough(low):
        low, high = low / 2.0, low
    while low >= 1.0 and not is_enough(high):
        low, high = high, 2.0 * high
    while high > 1.02 * low:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
