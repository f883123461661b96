"""Pictures of explanations: what is drawn is what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterpoint.groups import DifferenceOfMeans, GroupTranslations, Translations, plot_curves

X, Y = load_wine(return_X_y=True, as_frame=True)


@pytest.fixture(autouse=True)
def close_all() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model() -> GroupTranslations:
    space = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    return GroupTranslations(space, k=4, strengths=8).fit(X, Y)


def texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_bars_are_changes_in_units_of_cost(model: GroupTranslations):
    one = model.translations_
    (ax,) = one.plot(0, 2).axes
    changes = one.changes(0, 2)
    costs = [model.scene_.unit_costs[list(X.columns).index(n)] * c for n, c in changes.items()]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], costs)
    assert texts(ax) == [f"{cost:+.2g}" for cost in costs]  # what the axis shows
    beside = [label.get_text() for label in ax.get_yticklabels()]
    for words, (name, change) in zip(beside, changes.items(), strict=True):
        told = float(words.rsplit(" ", 1)[1].replace("−", "-"))
        assert words.startswith(name) or "…" in words
        assert told == pytest.approx(change, rel=5e-3)
    assert ax.get_title(loc="left") == "from 0 to 2"


def test_many_bars_are_cut_and_none_is_said():
    rng = np.random.default_rng(0)
    one = Translations.of(rng.normal(size=(2, 30)), ["a", "b"])
    (ax,) = one.plot("a", "b", most=5).axes
    assert len(ax.patches) == 5
    assert "the 5 largest of 30 changes" in ax.get_title(loc="left")
    (ax,) = one.plot("a", "a").axes
    assert texts(ax) == ["nothing changes"]


def test_names_with_signs_of_mathematics_are_words():
    names = ["$a_1$ and $", "_b^", "a name that is very much longer than there is room for"]
    one = Translations.of([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]], ["x$y", "z$"], names)
    one.plot("x$y", "z$").savefig("/dev/null", format="png")


def test_maps_of_pairs_show_all_rates(model: GroupTranslations):
    quality = model.judge(X, Y)
    left, right = quality.plot().axes
    for ax, rates in ((left, quality.correctness), (right, quality.coverage)):
        np.testing.assert_array_equal(ax.images[0].get_array(), rates)
        assert texts(ax) == [f"{rate:.2f}" for rate in rates.ravel()]
        assert f"{quality.mean(rates):.2f}" in ax.get_title(loc="left")
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("to", "from")


def test_many_groups_get_a_bar_of_colours_in_place_of_numbers():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(12), 5)
    rows = rng.normal(size=(60, 3)) + y[:, None]
    model = DifferenceOfMeans(PCA(2).fit(rows)).fit(rows, y)
    figure = model.judge(rows, y).plot()
    assert len(figure.axes) == 4
    assert not texts(figure.axes[0])


def test_a_map_shows_rows_before_and_after(model: GroupTranslations):
    before, after = model.plot_map(X, Y, 0, 2).axes
    values = model.representation.transform(X)
    for ax, start in (
        (before, values[Y == 0]),
        (after, model.representation.transform(X[Y == 0] + model.translation(0, 2))),
    ):
        every, there, points = (np.asarray(drawn.get_offsets()) for drawn in ax.collections)
        np.testing.assert_allclose(every, values, atol=1e-9)
        np.testing.assert_allclose(there, values[Y == 2], atol=1e-9)
        np.testing.assert_allclose(points, start, atol=1e-9)
    assert before.get_xlim() == after.get_xlim()


@pytest.mark.parametrize("count", ["each", "mean", "shared", "reference"])
def test_a_path_is_drawn_against_what_is_counted(model: GroupTranslations, count: Any):
    (ax,) = model.path_.plot(count).axes
    correctness, coverage = (line.get_ydata() for line in ax.lines)
    for k, first, second in zip(ax.lines[0].get_xdata(), correctness, coverage, strict=True):
        chosen = model.path_.able(int(k), count)[0]
        assert (chosen.correctness, chosen.coverage) == (first, second)


def test_curves_compare_methods(model: GroupTranslations):
    ks = (1, 4)
    found = {
        "ours": model.evaluate_each(X, Y, ks),
        "means": DifferenceOfMeans(model.representation).evaluate_each(X, Y, ks),
    }
    left, right = plot_curves(ks, found).axes
    for ax, name in ((left, "correctness"), (right, "coverage")):
        for line, qualities in zip(ax.lines, found.values(), strict=True):
            rates = [one.mean(getattr(one, name)) for one in qualities]
            np.testing.assert_allclose(line.get_ydata(), rates)
    assert [text.get_text() for text in left.get_legend().get_texts()] == list(found)


def test_given_axes_are_drawn_on(model: GroupTranslations, tmp_path: Path):
    figure, (left, right) = plt.subplots(1, 2)
    assert model.judge(X, Y).plot(ax=[left, right]) is figure
    assert model.path_.plot(ax=left) is figure
    figure.savefig(tmp_path / "both.png")
