"""Survival: the margin that brute force finds, on refits whose decisions are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t
from sklearn.datasets import load_wine
from sklearn.linear_model import LinearRegression, LogisticRegression

import counterpoint as cp
from counterpoint.survival import Survival, survival


class Above:
    """Predicts 1 above a threshold, and is nothing that counterpoint could read."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def predict(self, X: Any) -> np.ndarray:
        assert X.shape[1] == 1
        return (np.asarray(X)[:, 0] >= self.threshold).astype(int)


def line() -> tuple[cp.Explainer, pd.DataFrame, float, float]:
    """A model of one column, rows, its slope and its threshold."""
    x = np.linspace(-3.0, 3.0, 40)
    X = pd.DataFrame({"x": x})
    model = LogisticRegression().fit(X, (x > 0.3).astype(int))
    slope = float(model.coef_[0, 0])
    explainer = cp.Explainer(model, data=X, cost=cp.Manhattan(), extrapolate=True)
    return explainer, X[model.predict(X) == 0], slope, -float(model.intercept_[0]) / slope


def refits(threshold: float, count: int = 40) -> list[Above]:
    shifts = np.random.default_rng(0).normal(0.0, 0.5, count)
    return [Above(threshold + shift) for shift in shifts]


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("target", [1, cp.Label([1]), cp.OtherLabel(), cp.OtherLabel(0)])
def test_the_margin_is_the_least_that_brute_force_finds(share: float, target: Any):
    explainer, rows, slope, threshold = line()
    models = refits(threshold)
    found = survival(explainer, rows, target, models, share=share)
    needed = np.array([slope * (m.threshold - threshold) for m in models])  # each in score units

    def is_enough(margin: float) -> bool:
        valid = (needed[::2] <= margin).astype(float)
        error = valid.std(ddof=1) / np.sqrt(len(valid))
        return bool(valid.mean() - t.ppf(0.95, len(valid) - 1) * error >= share)

    least = next(m for m in np.sort(np.append(needed[::2], 0.0)) if m >= 0 and is_enough(m))
    assert least <= found.margin * (1.0 + 1e-9)
    assert found.margin <= max(1.021 * least, 1e-12)
    np.testing.assert_array_equal(found.shares, needed[1::2] <= found.margin * (1 + 1e-9))
    assert found.share == found.shares.mean()
    assert found.share_without == (needed[1::2] <= 0.0).mean()
    assert found.cost - found.cost_without == pytest.approx(found.margin / slope, rel=1e-6)
    score = explainer.model.decision_function(found.answers.to_frame())
    assert (score >= found.margin * (1 - 1e-9)).all()
    assert found.unanswered == 0


def test_nothing_is_asked_for_where_nothing_varies():
    explainer, rows, _, threshold = line()
    found = survival(explainer, rows, 1, [Above(threshold - 1.0)] * 4)
    assert (found.margin, found.share, found.share_without) == (0.0, 1.0, 1.0)
    assert found.cost == found.cost_without


def test_a_function_fits_with_seeds_and_several_classes_are_taken():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0))[:, [0, 6, 12]] / X[:, [0, 6, 12]].std(axis=0)

    def fit(seed: int | None) -> LogisticRegression:
        rng = np.random.default_rng(seed)
        rows = np.arange(len(X)) if seed is None else rng.integers(0, len(X), len(X))
        return LogisticRegression().fit(X[rows], y[rows])

    model = fit(None)
    explainer = cp.Explainer(model, data=X)
    rows = X[model.predict(X) == 0][:20]
    found = survival(explainer, rows, 1, fit, share=0.9, count=20)
    assert found.share > found.share_without
    assert found.cost > found.cost_without
    again = survival(explainer, rows, 1, [fit(seed) for seed in range(20)], share=0.9)
    assert again.margin == found.margin
    np.testing.assert_array_equal(again.shares, found.shares)


def test_it_is_told_in_sentences_and_on_one_line():
    explainer, rows, _, threshold = line()
    found = survival(explainer, rows, 1, refits(threshold), share=0.8)
    assert isinstance(found, Survival)
    assert "refits that the choice did not see" in str(found)
    assert repr(found).startswith("<Survival: margin ")
    assert list(found.curve) == ["margin", "share", "at_least", "cost", "found"]
    assert found.curve["margin"].is_monotonic_increasing


def test_rows_without_room_are_counted_and_a_margin_out_of_reach_is_said():
    explainer, rows, _, threshold = line()
    held = cp.Explainer(explainer.model, data=rows, constraints=cp.Bounds("x", rise=4.0))
    with pytest.raises(cp.NoAnswer, match="No answer leads by"):
        survival(held, rows, 1, [Above(threshold + 50.0)] * 4)
    wide = cp.Explainer(explainer.model, data=rows, constraints=cp.Bounds("x", high=10.0, rise=3.0))
    found = survival(wide, rows, 1, refits(threshold), share=0.8)
    fewer = wide.explain(rows, cp.Label(1, margin=found.margin)).found
    assert found.unanswered == wide.explain(rows, 1).found.sum() - fewer.sum() > 0
    assert "lose their answer" in str(found)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"target": cp.Probability(1, 0.9)}, "a label, a Label or an OtherLabel"),
        ({"target": cp.Label(1, margin=1.0)}, "without a margin"),
        ({"share": 1.0}, "a share between 0 and 1"),
        ({"share": "much"}, "a number for share"),
        ({"refits": [Above(0.0)] * 3}, "at least 4 refits.*got 3"),
        ({"refits": ["no model"] * 4}, "a fitted model with predict; got 'no model'"),
        ({"explainer": LinearRegression()}, "an Explainer"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], says: str):
    explainer, rows, _, threshold = line()
    asked: dict[str, Any] = {
        "explainer": explainer,
        "X": rows,
        "target": 1,
        "refits": refits(threshold),
    }
    with pytest.raises(cp.InvalidInput, match=says):
        survival(**asked | change)


def test_refits_that_take_other_columns_are_refused():
    explainer, rows, _, _ = line()
    other = LogisticRegression().fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(cp.InvalidInput, match="LogisticRegression does not take these rows"):
        survival(explainer, rows, 1, [other] * 4)
