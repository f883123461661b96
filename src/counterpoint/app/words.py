"""Values, constraints and costs in words, for people who do not read Python."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
import pandas as pd

import counterpoint as cp

__all__ = [
    "LONGEST",
    "clipped",
    "cost_in_words",
    "few",
    "least",
    "listing",
    "number",
    "percent",
    "plain",
    "ranking",
    "readable",
    "rule_in_words",
    "standing",
    "weights_of",
]

LONGEST = 500
"""Characters of a sentence that is sent: longer ones quote what came."""
PYTHON = re.compile(r"\w=\S|\bcp\.|\b(Categorical|Explainer|Integer|Continuous|dtype)\b")
"""What only those can follow who write Python."""
POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 6) -> str:
    """Return a number with so many significant digits, and no exponent as programs write it.

    Whole numbers keep all of theirs.
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "missing"
    if value == 0.0 or (value == int(value) and abs(value) < 1e15):
        return str(int(value))
    text = f"{value:.{digits}g}"
    if 1e-4 <= abs(value) < 1e15:
        return np.format_float_positional(float(text), trim="-")
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").removesuffix(".")
    return f"{mantissa} × 10{str(int(exponent)).translate(POWERS)}"


def few(value: float) -> str:
    """Return a cost with three significant digits; what only rounding leaves of one is 0."""
    return "0" if abs(value) < 1e-9 else number(float(f"{value:.3g}"), 3)


def least(value: float) -> str:
    """Return a lower bound on a cost with three significant digits, never rounded up."""
    if value < 1e-9:
        return "0"
    unit = Decimal(1).scaleb(Decimal(value).adjusted() - 2)
    return number(float(Decimal(value).quantize(unit, ROUND_FLOOR)), 3)


def standing(
    answer: cp.Counterfactual, exact: cp.Counterfactual, best: str = "the cheapest possible change"
) -> tuple[str, str]:
    """Return how near to the best an answer in few digits is: the claim, and a sentence.

    What was known of the answer in all its digits, as the claim says, holds of its lower bound.
    """
    if answer.changes == exact.changes:
        return exact.certificate.claim, readable(exact.message)
    certificate, claim = answer.certificate, exact.certificate.claim
    settled = exact.status is cp.Status.OPTIMAL and answer.status is cp.Status.SUBOPTIMAL
    if not settled or certificate.bound <= 0.0:
        return certificate.claim, readable(answer.message)
    excess = math.ceil(1e3 * (certificate.objective / certificate.bound - 1.0)) / 10
    source = "proved" if claim is cp.Claim.PROVED else "as a solver reports"
    sentence = f"In few digits, at most {number(excess, 3)} % above {best} ({source})."
    return claim, sentence


def ranking(plan: cp.Counterfactual, cheapest: cp.Counterfactual) -> str:
    """Return how a plan ranks: what it costs beyond the cheapest, and which features it changes."""
    extra, names = plan.cost - cheapest.cost, list(plan.changes)
    is_more = extra > 0.0 and few(extra) != "0"  # few digits may cost the cheapest more
    cost = f"{few(extra)} more than the cheapest" if is_more else "as much as the cheapest"
    features = listing(names) if len(names) <= 3 else f"{len(names)} features"
    return f"Costs {cost}, changes only {features}."


def percent(probability: float) -> str:
    """Return a probability in percent, never rounded up: 0.4999 is no half."""
    return f"{number(math.floor(1e3 * probability + 1e-9) / 10, 3)} %"


def plain(value: Any) -> str:
    """Return a cell, a category or a label as people write it."""
    if value is None or value != value:  # noqa: PLR0124 (NaN)
        return "missing"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return number(float(value)) if isinstance(value, float) else str(value)


def listing(names: Iterable[Any], last: str = "and") -> str:
    """Return ``a, b and c``."""
    *first, end = map(str, names)
    return f"{', '.join(first)} {last} {end}" if first else end


def clipped(text: str, most: int = LONGEST) -> str:
    """Return a text, cut after so many characters, so that nobody is sent back what they sent."""
    return text if len(text) <= most else f"{text[: most - 2]} …"


def readable(text: str) -> str:
    """Return a message of the library for people: what it advises in Python is left out."""
    text = re.sub(r"^problem(, [^:]*)?: ", "", text)  # where in a policy file it would be
    first, *advice = re.split(r"(?<=\.) ", clipped(text))
    sentences = [first, *(sentence for sentence in advice if not PYTHON.search(sentence))]
    quoted = re.sub(r"(?<!\w)'([^']*)'(?!\w)", r"“\1”", " ".join(sentences))
    return re.sub(r" \([^()]*\b\w+=[^()]*\)", "", quoted)


def rule_in_words(rule: cp.Constraint) -> str:
    """Return what a constraint says, without how to lift it in Python."""
    if isinstance(rule, cp.WithinObserved):
        return str(cp.WithinObserved(*rule.features))
    return str(rule)


def weights_of(cost: cp.Cost, names: Sequence[Hashable]) -> dict[Hashable, float]:
    """Name → weight of a cost that has one for each of all features; empty for others."""
    if not isinstance(cost, cp.Manhattan | cp.SquaredEuclidean):
        return {}
    weights: Any = {} if cost.weights is None else cost.weights
    if isinstance(weights, Mapping | pd.Series):
        weights = [weights.get(name, 1.0) for name in names]
    if any(isinstance(weight, Mapping) for weight in weights):
        return {}
    return dict(zip(names, map(float, weights), strict=True))


def cost_in_words(cost: cp.Cost, weights: Mapping[Hashable, float], features: Iterable[Any]) -> str:
    """Return what a cost of 1 is, with the first of some features as examples."""
    if isinstance(cost, cp.PercentileShift):
        return "The cost adds up what share of the data each change moves past."
    if isinstance(cost, cp.Mahalanobis):
        return "The cost is a distance in which features that go together count once."
    if not weights:
        return "The cost adds up what the policy says of each change."
    is_squared, examples = isinstance(cost, cp.SquaredEuclidean), []
    for feature in features:
        weight = weights[feature.name]
        if isinstance(feature, cp.Categorical):
            examples.append(f"{few(weight)} for another {feature.name}")
        else:
            amount = few(1.0 / (math.sqrt(weight) if is_squared else weight))
            unit = "unit" if amount == "1" else amount
            examples.append(f"1 for every {unit} of {feature.name}")
    if not examples:
        return "No change costs anything."
    total = "the squares of its changes" if is_squared else "its changes"
    first = ", ".join([*examples[:3], "and so on"]) if len(examples) > 3 else listing(examples)
    return f"The cost of a plan adds up {total}: {first}."
