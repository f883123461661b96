"""Displays draw answers, as scikit-learn's do: made from an answer, drawn by ``plot``.

``plot(ax=None)`` returns the display, with the axes in ``ax_`` and the figure in ``figure_``; it
raises `MissingExtra` without matplotlib.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

import counterpoint as cp
from counterpoint.errors import InvalidInput, all_of, some
from counterpoint.numerics import FloatArray, IntArray
from counterpoint.pictures.html import number
from counterpoint.pictures.plots import COLOURS, INK, LABEL_SIZE, PALE, axes_of, figure_of, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@final
@dataclass(eq=False)
class WaterfallDisplay:
    """One answer as a waterfall: what each change adds to the score, up to the target.

    Changes are made one after the other, the largest first. Where the score is a sum over
    features, as of linear models, the order changes nothing; else what a change adds depends on
    those before it.

    Parameters
    ----------
    names
        Each change in words.
    scores
        (k + 1,) by how much the target is met, in score units, before the first change and after
        each; negative where it is not.
    """

    names: Sequence[str]
    scores: FloatArray
    ax_: Axes = field(init=False, repr=False)
    figure_: Figure = field(init=False, repr=False)

    @classmethod
    def from_answer(cls, answer: cp.Counterfactual) -> Self:
        """Return the display of an answer of `Explainer.explain`: one change after the other.

        The change that moves the score most by itself comes first.

        Raises
        ------
        NoAnswer
            If the row has no answer.
        """
        batch, i = _batch_of(answer), answer.position
        form, target = batch.query.model.form, batch.targets[i]
        before, after = batch.before[i], batch.after[i]
        changed = np.flatnonzero(before != after)
        # The first point is the row as it is; each of the others has one change by itself.
        points = np.repeat(before[None, :], len(changed) + 1, axis=0)
        points[np.arange(1, len(changed) + 1), changed] = after[changed]
        scores = form.margin(batch.features.expand(points), target)
        changed = changed[np.argsort(-np.abs(scores[1:] - scores[0]), kind="stable")]
        # Now, in the order of their effect, each change is added to those before it.
        for step, j in enumerate(changed.tolist(), 1):
            points[step] = points[step - 1]
            points[step, j] = after[j]
        names = [batch.features.names[j] for j in changed.tolist()]
        labels = [f"{short(n)}  {_change_text(*answer.changes[n])}" for n in names]
        return cls(labels, np.asarray(form.margin(batch.features.expand(points), target)))

    def plot(self, ax: Any = None) -> Self:
        """Draw on matplotlib axes, or in a new figure."""
        count = len(self.names)
        (axes,) = axes_of(ax, (1,), (7.0, 1.6 + 0.36 * count), "Displays need")
        steps = np.diff(self.scores)
        colours = [COLOURS[0] if step >= 0 else COLOURS[1] for step in steps]
        axes.barh(range(1, count + 1), steps, left=self.scores[:-1], color=colours, height=0.62)
        # a line at each score, from its bar down to the next one
        for k, score in enumerate(self.scores):
            axes.plot([score] * 2, [k - 0.31, k + (1.31 if k < count else 0.31)], color=INK, lw=1)
        texts = [f"{self.scores[0]:.3g}", *(f"{step:+.3g}" for step in steps)]
        for k, text in enumerate(texts):
            right_end = self.scores[max(k - 1, 0) : k + 1].max()  # of the bar
            axes.annotate(
                text.replace("-", "−"),
                (right_end, k),
                (4, 0),
                textcoords="offset points",
                va="center",
                size=LABEL_SIZE,
                color=INK,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
            )
        axes.axvline(0.0, color=PALE, linestyle="--", linewidth=1.0, zorder=0)
        axes.set_yticks(range(count + 1), ["as it is", *self.names], parse_math=False)
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.margins(x=0.14)
        axes.set_xlabel("score, from the target (dashed)")
        axes.spines[["top", "right", "left"]].set_visible(False)
        self.ax_, self.figure_ = axes, figure_of(axes)
        return self


@final
@dataclass(eq=False)
class ChangesDisplay:
    """A batch as a heat map of its changes, and how its costs are distributed.

    Parameters
    ----------
    names
        The features that change in some answer, those of the largest total cost first.
    shares
        (n, k) what each change costs, in cost units; negative where a number falls. With
        `Mahalanobis`, of each change alone.
    costs
        (n,) of the answers, which are in order of their costs.
    """

    names: Sequence[str]
    shares: FloatArray
    costs: FloatArray
    ax_: Axes = field(init=False, repr=False)
    figure_: Figure = field(init=False, repr=False)

    @classmethod
    def from_answers(cls, answers: cp.Counterfactuals, features: int = 15) -> Self:
        """Return the display of a batch's answers, with at most ``features`` features."""
        all_of(cp.Counterfactuals, (answers,), "Counterfactuals, as explain returns them")
        rows = np.flatnonzero(answers.found)
        rows = rows[np.argsort(answers.cost[rows], kind="stable")]
        if not len(rows):
            raise cp.NoAnswer("There is nothing to plot: no row has an answer.")
        shares = _signed_costs(answers, rows)
        total = np.abs(shares).sum(axis=0)
        order = np.argsort(-total, kind="stable")[: max(int(features), 1)]
        order = order[total[order] > 0.0]
        if not len(order):
            raise cp.NoAnswer("There is nothing to plot: nothing changes.")
        names = [short(answers.features.names[j]) for j in order.tolist()]
        return cls(names, shares[:, order], answers.cost[rows])

    def plot(self, ax: Any = None) -> Self:
        """Draw on two matplotlib axes, on one (the heat map alone), or in a new figure."""
        size = (10.5, 1.6 + 0.28 * max(len(self.names), 5))
        heat_map, *right = axes_of(ax, (2, 1), size, "Displays need")
        changed = np.abs(self.shares[self.shares != 0.0])
        # a few dear changes leave the others their colours
        most = float(np.quantile(changed, 0.95, method="higher"))
        drawn = heat_map.imshow(
            self.shares.T, aspect="auto", cmap="PuOr", vmin=-most, vmax=most, interpolation="none"
        )
        heat_map.set_yticks(range(len(self.names)), self.names, parse_math=False)
        heat_map.set_xticks([])
        heat_map.set_xlabel(f"{len(self.costs)} answers, the cheapest first")
        heat_map.tick_params(axis="y", length=0)
        bar = figure_of(heat_map).colorbar(drawn, ax=heat_map)
        bar.set_label("cost, − where a number falls", size=LABEL_SIZE)
        for axes in right:
            shares = np.arange(1, len(self.costs) + 1) / len(self.costs)
            axes.step(self.costs, shares, where="post", color=COLOURS[0])
            axes.set_ylim(0.0, 1.02)
            axes.set_xlabel("cost, at most")
            axes.set_ylabel("share of answers")
            axes.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = heat_map, figure_of(heat_map)
        return self


@final
@dataclass(eq=False)
class AlternativesDisplay:
    """Several answers side by side: a column each, with what changes from what to what.

    Parameters
    ----------
    names
        The features that some answer changes.
    words
        (k, m) of each feature and answer, the change in words; empty for none.
    shares
        (k, m) what each change costs, as in `ChangesDisplay`.
    costs
        (m,) of the answers.
    """

    names: Sequence[str]
    words: Sequence[Sequence[str]]
    shares: FloatArray
    costs: FloatArray
    ax_: Axes = field(init=False, repr=False)
    figure_: Figure = field(init=False, repr=False)

    @classmethod
    def from_alternatives(cls, alternatives: cp.Alternatives, row: int = 0) -> Self:
        """Return the display of the answers to one row."""
        all_of(cp.Alternatives, (alternatives,), "Alternatives, as explain(…, n=3) returns them")
        answers = alternatives[row]
        if not answers:
            raise cp.NoAnswer(f"There is nothing to plot: row {row} has no answer.")
        batch = alternatives.answers
        shares = _signed_costs(batch, np.array([answer.position for answer in answers])).T
        changed = np.flatnonzero(shares.any(axis=1)).tolist()
        if not changed:
            raise cp.NoAnswer("There is nothing to plot: nothing changes.")
        names = [batch.features.names[j] for j in changed]
        words = [
            [_change_text(*a.changes[n]) if n in a.changes else "" for a in answers] for n in names
        ]
        costs = np.array([answer.cost for answer in answers])
        return cls([short(n) for n in names], words, shares[changed], costs)

    def plot(self, ax: Any = None) -> Self:
        """Draw on matplotlib axes, or in a new figure."""
        k, m = self.shares.shape
        (axes,) = axes_of(ax, (1,), (2.6 + 1.7 * m, 1.2 + 0.4 * k), "Displays need")
        most = float(np.abs(self.shares).max())
        # pale colours, for words are written on them
        axes.imshow(self.shares, aspect="auto", cmap="PuOr", vmin=-3.0 * most, vmax=3.0 * most)
        for i, j in np.ndindex(k, m):
            axes.text(
                *(j, i, self.words[i][j]),
                ha="center",
                va="center",
                size=LABEL_SIZE,
                color=INK,
                parse_math=False,
            )
        axes.set_xticks(
            range(m), [f"answer {j + 1}\ncost {c:.3g}" for j, c in enumerate(self.costs)]
        )
        axes.set_yticks(range(k), self.names, parse_math=False)
        axes.set_xticks(np.arange(m - 1) + 0.5, minor=True)
        axes.grid(which="minor", axis="x", color="white", linewidth=3)
        axes.xaxis.tick_top()
        axes.tick_params(which="both", length=0)
        axes.spines[:].set_visible(False)
        self.ax_, self.figure_ = axes, figure_of(axes)
        return self


@final
@dataclass(eq=False)
class RegionsDisplay:
    """The model's decisions in the plane of two features, with a row and its answer.

    All other features are as in the answer. The title lists those that it changes: because of
    them, the row may lie where the model predicts something else than for the row itself. The
    legend has both predictions.

    Parameters
    ----------
    names
        The two features.
    x, y
        (p,) and (q,) values of each; whole ones of `Integer` features.
    decisions
        (q, p) what the model predicts, a line for each value of ``y``; floats of a regressor, else
        objects.
    row, answer
        The two points.
    predictions
        What the model predicts for the row, and for the answer.
    changes
        The changes of the other features, in words.
    """

    names: tuple[Hashable, Hashable]
    x: FloatArray
    y: FloatArray
    decisions: Any
    row: tuple[float, float]
    answer: tuple[float, float]
    predictions: tuple[Any, Any]
    changes: Sequence[str] = ()
    ax_: Axes = field(init=False, repr=False)
    figure_: Figure = field(init=False, repr=False)

    @classmethod
    def from_answer(
        cls,
        answer: cp.Counterfactual,
        features: Sequence[Hashable] | None = None,
        resolution: int = 200,
    ) -> Self:
        """Return the display of an answer in the plane of two numbers.

        Without ``features`` they are the two whose changes cost most. The answer need not change
        them.

        Raises
        ------
        InvalidInput
            If they are not two distinct numbers.
        NoAnswer
            If it is no answer.
        """
        batch, i = _batch_of(answer), answer.position
        described = batch.features
        if features is None:
            able = np.flatnonzero(described.is_numeric & ~_is_constant(described))
            cost = np.abs(_signed_costs(batch, np.array([i]))[0])
            chosen = able[np.argsort(-cost[able], kind="stable")][:2].tolist()
        else:
            chosen = [described.index(name) for name in features]
        if len(set(chosen)) != 2 or not described.is_numeric[chosen].all():
            raise InvalidInput(
                "Expected two features that are numbers; got "
                f"{some([described.names[j] for j in chosen]) or 'a model with fewer'}."
            )
        a, b = chosen
        before, after = batch.before[i], batch.after[i]
        x, y = (_grid(described.items[j], before[j], after[j], resolution) for j in (a, b))
        # the row and its answer, and then the plane, which is as the answer in all else
        points = np.repeat(after[None, :], len(x) * len(y) + 2, axis=0)
        points[0] = before
        points[2:, a], points[2:, b] = (grid.ravel() for grid in np.meshgrid(x, y))
        form = batch.query.model.form
        predicted = np.asarray(form.predict(described.expand(points)))
        if not form.has_values:  # labels, also those that are floats
            predicted = predicted.astype(object)
        names = described.names[a], described.names[b]
        others = [(n, pair) for n, pair in answer.changes.items() if n not in names]
        return cls(
            names,
            *(x, y, predicted[2:].reshape(len(y), len(x))),
            (float(before[a]), float(before[b])),
            (float(after[a]), float(after[b])),
            (predicted[0], predicted[1]),
            [f"{short(n)} {_change_text(*pair)}" for n, pair in others],
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw on matplotlib axes, or in a new figure."""
        (axes,) = axes_of(ax, (1,), (6.4, 5.2), "Displays need")
        patches = self._draw_decisions(axes)
        old, new = (short(number(prediction)) for prediction in self.predictions)
        if self.row == self.answer:
            axes.plot(
                *(*self.answer, "*"),
                color=INK,
                markersize=13,
                label=f"the row ({old}) and its answer ({new})",
            )
        else:
            arrow = {"arrowstyle": "->", "color": INK, "shrinkA": 5, "shrinkB": 6}
            axes.annotate("", self.answer, self.row, arrowprops=arrow)
            axes.plot(*self.row, "o", color=INK, label=f"the row ({old})")
            axes.plot(*self.answer, "*", color=INK, markersize=13, label=f"the answer ({new})")
        marks = axes.get_legend_handles_labels()[0]
        # Below the axes, where it hides neither of the points.
        axes.legend(
            handles=[*patches, *marks],
            loc="upper center",
            bbox_to_anchor=(0.5, -0.13),
            ncols=2,
            frameon=False,
            fontsize=LABEL_SIZE,
        )
        axes.set_title(self._title(), loc="left", size=LABEL_SIZE, color=INK, parse_math=False)
        for axis, name, values in zip(
            (axes.xaxis, axes.yaxis), self.names, (self.x, self.y), strict=True
        ):
            axis.set_label_text(short(name), parse_math=False)
            if (values == np.round(values)).all():
                axis.get_major_locator().set_params(integer=True)
        self.ax_, self.figure_ = axes, figure_of(axes)
        return self

    def _draw_decisions(self, axes: Axes) -> list[Any]:
        """Draw what the model predicts in the plane; return what the legend has for it."""
        if self.decisions.dtype.kind == "f":  # a regressor
            drawn = axes.contourf(self.x, self.y, self.decisions, levels=12, cmap="cividis")
            figure_of(axes).colorbar(drawn, ax=axes).set_label("prediction")
            return []
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        labels, code = np.unique(self.decisions, return_inverse=True)
        tones = [COLOURS[k % len(COLOURS)] for k in range(len(labels))]
        axes.pcolormesh(
            *(self.x, self.y, code.reshape(self.decisions.shape)),
            cmap=ListedColormap(tones),
            vmin=-0.5,
            vmax=len(labels) - 0.5,
            alpha=0.28,
            rasterized=True,
        )
        return [
            Patch(color=tone, alpha=0.28, label=f"predicts {short(number(label))}")
            for tone, label in zip(tones, labels.tolist(), strict=True)
        ]

    def _title(self) -> str:
        """Return the changes of other features in words; empty if there are none."""
        if not self.changes:
            return ""
        lead = (
            "Neither of these two changes; what does" if self.row == self.answer else "Also changed"
        )
        # 76 letters are as wide as a picture of the default size
        lines = fill(f"{lead}: {some(self.changes, 4, str)}", 76)
        return f"{lines}\nColours: what the model decides after these changes"


def _batch_of(answer: cp.Counterfactual) -> cp.Counterfactuals:
    """Return the batch of an answer; raise if it is none."""
    all_of(cp.Counterfactual, (answer,), "one answer, such as answers[0]")
    answer.raise_for_status()
    return answer.batch


def _change_text(old: Any, new: Any) -> str:
    return f"{short(number(old))} → {short(number(new))}"


def _signed_costs(answers: cp.Counterfactuals, rows: IntArray) -> FloatArray:
    """(n, p) the cost of each feature's change alone; negative where a number falls."""
    before, after = answers.before[rows], answers.after[rows]
    expand, starts = answers.features.expand, [b.start for b in answers.features.blocks]
    encoded = answers.query.encoded_cost.each(expand(after), expand(before))
    cost = np.add.reduceat(encoded, starts, axis=1)
    falls = (after < before) & answers.features.is_numeric
    return np.where(falls, -cost, cost)


def _is_constant(features: cp.Features) -> Any:
    """(p,): which features show one value only."""
    ends = (feature.observed for feature in features)
    return np.array([seen is not None and len({*seen}) == 1 for seen in ends])


def _grid(feature: Any, before: float, after: float, resolution: int) -> FloatArray:
    """Values of a feature over its observed range and the change of an answer, with room around."""
    low, high = sorted((before, after))
    room = 0.15 * (high - low)
    seen = feature.observed or (low - 1.0, high + 1.0)
    values = np.linspace(min(low - room, seen[0]), max(high + room, seen[1]), resolution)
    return np.unique(np.round(values)) if isinstance(feature, cp.Integer) else values
