"""Random problems: Hypothesis draws the structure, a seeded generator the numbers.

Structure is what shrinks usefully (kinds, counts, which conditions); numbers from a seed keep a
draw cheap and a failure reproducible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier

import counterpoint as cp
from counterpoint.families.additive.curves import Curve
from counterpoint.families.additive.form import Additive
from counterpoint.families.prototypes.form import LocalPrototypes, Prototypes
from counterpoint.families.prototypes.quadratic_difference import QuadraticDifference
from counterpoint.families.uncertain.form import FourierScores, UncertainScores
from counterpoint.families.uncertain.fourier import FourierFeatures
from counterpoint.models import read
from counterpoint.models.form import AffineMap
from counterpoint.models.linear import LinearRegressor, LinearScores, Link, Votes
from counterpoint.privacy.noise import NoiseLaw, ProjectedGamma, ProjectedGaussian, ProjectedLaplace
from counterpoint.programs.conditions import AtMost, Box, Cone, LinearBounds, Transitions
from counterpoint.programs.losses import LogSumExp
from counterpoint.programs.program import Program, kinds_region
from counterpoint.programs.region import Region

LETTERS = ("ash", "birch", "cedar", "elm", "fir")
ALL_KINDS = "cik"  # continuous, integer, categorical

seeds = st.integers(0, 2**32 - 1)


# Features and factual points


@st.composite
def features(draw: Any, kinds: str = ALL_KINDS, least: int = 2, most: int = 6) -> cp.Features:
    """Columns f0, f1 … of the kinds whose letters are given."""
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=least, max_size=most))
    return cp.Features([draw(feature(f"f{j}", kind)) for j, kind in enumerate(chosen)])


def feature(name: str, kind: str) -> st.SearchStrategy[Any]:
    if kind == "c":
        return st.just(cp.Continuous(name, observed=(-5.0, 5.0)))
    if kind == "i":
        steps = st.sampled_from([1.0, 2.0, 0.25])
        return steps.map(lambda step: cp.Integer(name, step, observed=(-6.0 * step, 6.0 * step)))
    count = st.integers(2, 4)
    return st.one_of(
        count.map(lambda c: cp.Categorical(name, LETTERS[:c], True, LETTERS[:c])),
        count.map(lambda c: cp.Categorical(name, tuple(range(c)), False, tuple(range(c)))),
    )


def codes(features: cp.Features, rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, p) random factual codes; whole columns on their steps."""
    out = np.empty((n, len(features)))
    for j, f in enumerate(features):
        if isinstance(f, cp.Categorical):
            out[:, j] = rng.integers(len(f.categories), size=n)
        elif isinstance(f, cp.Integer):
            out[:, j] = rng.integers(-6, 7, size=n) * f.step
        else:
            out[:, j] = rng.uniform(-5, 5, size=n)
    return out


def frame(features: cp.Features, values: np.ndarray) -> pd.DataFrame:
    """Codes as the rows that a user has."""
    columns = {}
    for j, f in enumerate(features):
        if isinstance(f, cp.Categorical):
            raw = [f.categories[int(code)] for code in values[:, j]]
        elif isinstance(f, cp.Integer) and f.step % 1 == 0:
            raw = values[:, j].astype(np.int64)
        else:
            raw = values[:, j]
        columns[f.name] = raw
    return pd.DataFrame(columns)


# Forms


def linear_scores(rng: np.random.Generator, width: int, classes: int, link: Link) -> LinearScores:
    labels = np.array([f"class {k}" for k in range(classes)])
    options = {"link": link}
    if classes == 2:
        return LinearScores.binary(rng.normal(size=width), rng.normal(), labels, **options)
    matrix, offset = rng.normal(size=(classes, width)), rng.normal(size=classes)
    return LinearScores(matrix, offset, labels, **options)


def votes(rng: np.random.Generator, width: int, classes: int) -> Votes:
    pairs = classes * (classes - 1) // 2
    matrix, offset = rng.normal(size=(pairs, width)), rng.normal(size=pairs)
    return Votes(matrix, offset, np.arange(classes))


def regressor(rng: np.random.Generator, width: int, *, exponential: bool) -> LinearRegressor:
    coef = rng.normal(size=(1, width)) / np.sqrt(width)
    return LinearRegressor(coef, rng.normal(size=1), exponential=exponential)


def prototypes(
    rng: np.random.Generator, width: int, classes: int, metric: tuple[int, ...] | None = None
) -> Prototypes:
    """One to three prototypes a class, not in the order of the classes; a random metric."""
    labels = rng.permutation(np.repeat(np.arange(classes), 1 + np.arange(classes) % 3))
    points = 5.0 * rng.normal(size=(len(labels), width))
    matrix = None if metric is None else np.abs(rng.normal(size=metric))
    return Prototypes.from_arrays(points, np.char.add("class ", labels.astype(str)), matrix)


def local(
    rng: np.random.Generator, width: int, classes: int, metrics: int | None = None
) -> LocalPrototypes:
    """One to three prototypes a class, with metrics of rank 1, 3 and 5, or a few shared ones."""
    owner = np.repeat(np.arange(classes), 1 + np.arange(classes) % 3)
    nth = np.arange(len(owner)) - np.searchsorted(owner, owner)
    order = rng.permutation(len(owner))
    ranks = 1 + 2 * nth[order]  # a class far away wins where its metric does not look
    matrices = [rng.normal(size=(rank, width)) for rank in ranks]
    if metrics is not None:
        matrices = [matrices[i % metrics] for i in range(len(owner))]
    labels = np.char.add("class ", owner[order].astype(str))
    points = 5.0 * rng.normal(size=(len(owner), width))
    return LocalPrototypes.from_arrays(points, labels, matrices, rng.normal(size=len(owner)))


def gaussians(rng: np.random.Generator, width: int, classes: int) -> LocalPrototypes:
    """One Gaussian a class; scores are logarithms of densities."""
    roots = rng.normal(size=(classes, width, width)) + 2.0 * np.eye(width)
    means = 5.0 * rng.normal(size=(classes, width))
    offsets = -np.linalg.slogdet(roots)[1] + rng.exponential(size=classes)
    labels = np.array([f"class {k}" for k in range(classes)])
    halves = roots * np.sqrt(0.5)
    return LocalPrototypes.from_arrays(means, labels, halves, offsets, link=Link.SOFTMAX)


def curves(rng: np.random.Generator) -> list[Curve]:
    """Bins, a parabola, a cubic of three pieces, and a line."""
    starts = np.array([-np.inf, -1.5, 0.25, 2.0])
    return [
        Curve.steps(starts, rng.normal(size=(4, 2))),
        Curve.polynomial(rng.normal(size=3), 0.5),
        Curve(starts[:3], 0.3 * rng.normal(size=(3, 1, 4)), np.array([0.0, -1.5, 0.25])),
        Curve(starts[:1], rng.normal(size=(1, 1, 2)), np.zeros(1)),
    ]


def additive(rng: np.random.Generator, width: int, inner: Callable[[int], Any]) -> Additive:
    """A linear form over the columns and curves of each kind, two of them of one column."""
    seen = tuple((min(i, width - 1), curve) for i, curve in enumerate(curves(rng)))
    return Additive(inner(width + sum(curve.outputs for _, curve in seen)), seen)


def laws(rng: np.random.Generator, size: int) -> dict[str, NoiseLaw]:
    """One of each kind, which moves scores by about a tenth of what weights of size 1 make."""
    factor = 0.1 * rng.normal(size=(size, 2)) / np.sqrt(size)
    return {
        "laplace": ProjectedLaplace(0.1 / np.sqrt(size), size),
        "gamma": ProjectedGamma(0.1 / size, size),
        "gaussian": ProjectedGaussian(np.hstack([factor, 0.03 * np.eye(size)])),
    }


def uncertain(rng: np.random.Generator, width: int, kind: str) -> UncertainScores:
    """A binary model and a law of noise, on features of another scale, and on a constant one."""
    scores = linear_scores(rng, width, 2, Link.SOFTMAX)
    matrix = np.vstack([np.diag(rng.uniform(0.5, 2.0, size=width)), np.zeros(width)])
    offset = np.append(rng.normal(size=width), 1.0)
    return UncertainScores(scores, AffineMap(matrix, offset), laws(rng, width + 1)[kind])


def waves(rng: np.random.Generator, width: int, kind: str) -> FourierScores:
    """Random Fourier features with weights of about the size that decides, and a constant one."""
    frequencies, weights = rng.normal(size=(12, width)), np.append(rng.normal(size=24), 0.2)
    law = {**laws(rng, 25), "gaussian": ProjectedGaussian.isotropic(0.05, 25)}[kind]
    features = FourierFeatures(frequencies, np.zeros(12), 0.5)
    return FourierScores(features, weights, np.array(["no", "yes"]), law)


def seen_through(form: Any, rng: np.random.Generator, width: int) -> Any:
    """The form for inputs that pass a random affine map first."""
    before = AffineMap(rng.normal(size=(form.width, width)), rng.normal(size=form.width))
    return form.through(before)


def boosted(rng: np.random.Generator, d: int, classes: int) -> Any:
    """Trees of every class, on points as far apart as those that forms are compared on."""
    X = 20.0 * rng.normal(size=(300, d))
    y = (X @ rng.normal(size=(d, classes)) + 20.0 * rng.normal(size=(300, classes))).argmax(axis=1)
    model = GradientBoostingClassifier(n_estimators=5, max_depth=3, learning_rate=1.0)
    return read(model.fit(X, y))


FORMS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "binary": lambda rng, d: linear_scores(rng, d, 2, Link.SOFTMAX),
    "binary clipped": lambda rng, d: linear_scores(rng, d, 2, Link.CLIPPED),
    "three classes": lambda rng, d: linear_scores(rng, d, 3, Link.SOFTMAX),
    "six classes": lambda rng, d: linear_scores(rng, d, 6, Link.NONE),
    "votes of three": lambda rng, d: votes(rng, d, 3),
    "votes of four": lambda rng, d: votes(rng, d, 4),
    "nearest of two classes": lambda rng, d: prototypes(rng, d, 2),
    "nearest of four by relevances": lambda rng, d: prototypes(rng, d, 4, (d,)),
    "nearest of three by a matrix": lambda rng, d: prototypes(rng, d, 3, (d + 1, d)),
    "nearest of four through a map": lambda rng, d: seen_through(
        prototypes(rng, d + 2, 4, (2, d + 2)), rng, d
    ),
    "local of two classes": lambda rng, d: local(rng, d, 2),
    "local of four in two metrics": lambda rng, d: local(rng, d, 4, 2),
    "local of three in one metric": lambda rng, d: local(rng, d, 3, 1),
    "local of three through a map": lambda rng, d: seen_through(local(rng, d + 2, 3), rng, d),
    "two gaussians": lambda rng, d: gaussians(rng, d, 2),
    "four gaussians": lambda rng, d: gaussians(rng, d, 4),
    "uncertain by Laplace noise": lambda rng, d: uncertain(rng, d, "laplace"),
    "uncertain by gamma noise": lambda rng, d: uncertain(rng, d, "gamma"),
    "uncertain by normal noise": lambda rng, d: uncertain(rng, d, "gaussian"),
    "waves and Laplace noise": lambda rng, d: waves(rng, d, "laplace"),
    "waves and gamma noise": lambda rng, d: waves(rng, d, "gamma"),
    "waves and normal noise through a map": lambda rng, d: seen_through(
        waves(rng, d + 1, "gaussian"), rng, d
    ),
    "regressor": lambda rng, d: regressor(rng, d, exponential=False),
    "log regressor": lambda rng, d: regressor(rng, d, exponential=True),
    "boosted trees of two classes": lambda rng, d: boosted(rng, d, 2),
    "boosted trees of three classes": lambda rng, d: boosted(rng, d, 3),
    "additive binary": lambda rng, d: additive(
        rng, d, lambda width: linear_scores(rng, width, 2, Link.SOFTMAX)
    ),
    "additive classes": lambda rng, d: additive(
        rng, d, lambda width: linear_scores(rng, width, 3, Link.NONE)
    ),
    "additive regressor": lambda rng, d: additive(
        rng, d, lambda width: regressor(rng, width, exponential=False)
    ),
}


# Costs


def spd(rng: np.random.Generator, d: int) -> np.ndarray:
    """A positive definite matrix with condition number at most about 100."""
    root = rng.normal(size=(d, d))
    return root @ root.T / d + 0.05 * np.eye(d)


def manhattan(rng: np.random.Generator, features: cp.Features) -> cp.Manhattan:
    weights = 10.0 ** rng.uniform(-1, 1, size=len(features))
    return cp.Manhattan(dict(zip(features.names, weights.tolist(), strict=True)))


def squared(rng: np.random.Generator, features: cp.Features) -> cp.SquaredEuclidean:
    weights = 10.0 ** rng.uniform(-1, 1, size=len(features))
    return cp.SquaredEuclidean(dict(zip(features.names, weights.tolist(), strict=True)))


def mahalanobis(rng: np.random.Generator, features: cp.Features) -> cp.Mahalanobis:
    matrix = spd(rng, len(features))
    for j in np.flatnonzero(~features.is_numeric):
        diagonal = matrix[j, j]
        matrix[j], matrix[:, j] = 0.0, 0.0
        matrix[j, j] = diagonal
    return cp.Mahalanobis(matrix)


COSTS = {"manhattan": manhattan, "squared euclidean": squared, "mahalanobis": mahalanobis}
costs = st.sampled_from(sorted(COSTS))


# Constraints


def _bounds(rng: np.random.Generator, features: cp.Features, name: str, x: Any) -> cp.Constraint:
    f = features[name]
    if isinstance(f, cp.Categorical):
        return cp.Bounds(name, low=float(rng.integers(0, len(f.categories))))
    low, high = f.observed
    if rng.random() < 0.5:
        return cp.Bounds(name, low=low, high=high)
    fall, rise = rng.uniform(0, 1, size=2) * (high - low)
    return cp.Bounds(name, fall=fall, rise=rise)


def _linear(rng: np.random.Generator, features: cp.Features, names: list[str]) -> cp.Linear:
    chosen = rng.choice(names, size=min(2, len(names)), replace=False).tolist()
    coefficients = dict(zip(chosen, rng.normal(size=len(chosen)).tolist(), strict=True))
    return cp.Linear(coefficients, high=float(rng.normal(1.0, 3.0)))


def _ellipsoid(rng: np.random.Generator, names: list[str]) -> cp.Ellipsoid:
    chosen = rng.choice(names, size=min(2, len(names)), replace=False).tolist()
    center = dict(zip(chosen, rng.uniform(-2, 2, size=len(chosen)).tolist(), strict=True))
    return cp.Ellipsoid(center, spd(rng, len(chosen)), float(rng.uniform(3, 8)))


@st.composite
def constraints(draw: Any, features: cp.Features, *, cones: bool = True) -> list[cp.Constraint]:
    """A few constraints of any kind that fit the features."""
    rng = np.random.default_rng(draw(seeds))
    numbers = [f.name for f in features if not isinstance(f, cp.Categorical)]
    countable = [f.name for f in features if getattr(f, "numbers", 0) is not None]
    ranked = countable + [f.name for f in features if getattr(f, "ordered", False)]
    kinds = ["immutable", "changes", "observed"]
    kinds += ["bounds", "linear"] if countable else []
    kinds += ["monotone"] if ranked else []
    kinds += ["ellipsoid"] if numbers and cones else []
    made: list[cp.Constraint] = []
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=3)):
        if kind == "immutable":
            made.append(cp.Immutable(str(rng.choice(list(features.names)))))
        elif kind == "changes":
            made.append(cp.MaxChanges(int(rng.integers(1, len(features) + 1))))
        elif kind == "observed":
            made.append(cp.WithinObserved(str(rng.choice(list(features.names)))))
        elif kind == "bounds":
            made.append(_bounds(rng, features, str(rng.choice(countable)), None))
        elif kind == "linear":
            made.append(_linear(rng, features, countable))
        elif kind == "monotone":
            direction = "increasing" if rng.random() < 0.5 else "decreasing"
            made.append(cp.Monotone(str(rng.choice(ranked)), direction))
        else:
            made.append(_ellipsoid(rng, numbers))
    return made


# Programs with points that are known to be feasible


@dataclass(frozen=True)
class Planted:
    """A program made around points, so that they are feasible by construction."""

    features: cp.Features
    program: Program
    x: np.ndarray
    """(1, d)."""
    points: np.ndarray
    """(m, d) points of the region."""

    @property
    def costs(self) -> np.ndarray:
        return self.program.encoded_cost(self.points, np.repeat(self.x, len(self.points), axis=0))


CONDITIONS = ("box", "changes", "transitions", "affine", "cone", "log-sum-exp", "at most")


@st.composite
def planted(
    draw: Any, kinds: str = ALL_KINDS, conditions: Sequence[str] = CONDITIONS, most: int = 5
) -> Planted:
    """A random program of any cost and conditions, and some of its points."""
    described = draw(features(kinds, least=1, most=most))
    rng = np.random.default_rng(draw(seeds))
    wanted = draw(st.sets(st.sampled_from(sorted(conditions))))
    cost = COSTS[draw(costs)](rng, described)
    here = codes(described, rng, 1)
    away = codes(described, rng, 8)
    for row in away:
        kept = rng.random(len(described)) < 0.4
        row[kept] = here[0, kept]
    count = int(rng.integers(1, len(described) + 1))
    if "at most" in wanted:
        _limit(away, here[0], count, rng)
    x, points = described.expand(here), described.expand(away)
    region = kinds_region(described)
    makers = {
        "box": lambda: _box(rng, described, x, points),
        "transitions": lambda: _transitions(rng, described, here, away),
        "affine": lambda: _affine(rng, points),
        "cone": lambda: _cone(rng, points),
        "log-sum-exp": lambda: _log_sum_exp(rng, points),
        "at most": lambda: [AtMost(count, described.blocks)],
        "changes": lambda: _changes(rng, described, x, points),
        "nearer": lambda: _nearer(rng, points),
    }
    for name in (*CONDITIONS, "nearer"):
        if name in wanted:
            region = region & Region(tuple(makers[name]()))
    return Planted(described, Program(cost.encoded_cost(described), region), x, points)


def _limit(away: np.ndarray, here: np.ndarray, count: int, rng: np.random.Generator) -> None:
    for row in away:
        changed = np.flatnonzero(row != here)
        back = rng.permutation(changed)[count:]
        row[back] = here[back]


def _box(rng: np.random.Generator, features: cp.Features, x: Any, points: Any) -> list[Box]:
    """Bounds around the points, on some sides of some columns; x itself may lie outside."""
    box = Box.unbounded(features.width)
    for j in features.numeric_columns:
        if rng.random() < 0.6:
            box.low[j] = points[:, j].min() - rng.exponential()
        if rng.random() < 0.6:
            box.high[j] = points[:, j].max() + rng.exponential()
    return [box]


def _changes(rng: np.random.Generator, features: cp.Features, x: Any, points: Any) -> list[Box]:
    box = Box.unbounded(features.width)
    for j in features.numeric_columns:
        delta = points[:, j] - x[0, j]
        if rng.random() < 0.6:
            box.least[j] = min(delta.min(), 0.0)
        if rng.random() < 0.6:
            box.most[j] = max(delta.max(), 0.0)
    return [box]


def _transitions(
    rng: np.random.Generator, features: cp.Features, here: Any, away: Any
) -> list[Transitions]:
    made = []
    for j, (f, block) in enumerate(zip(features, features.blocks, strict=True)):
        if isinstance(f, cp.Categorical):
            allowed = rng.random((len(f.categories), len(f.categories))) < 0.5
            allowed[int(here[0, j]), away[:, j].astype(int)] = True
            made.append(Transitions(block, allowed))
    return made


def _slack(rng: np.random.Generator, n: int) -> np.ndarray:
    """Half of the time none, so that a planted point lies on the boundary, where cuts are tight."""
    return np.where(rng.random(n) < 0.5, 0.0, rng.exponential(size=n))


def _affine(rng: np.random.Generator, points: np.ndarray) -> list[LinearBounds]:
    m = int(rng.integers(1, 4))
    rows = rng.normal(size=(m, points.shape[1]))
    values = points @ rows.T
    low, high = values.min(axis=0), values.max(axis=0)
    low = np.where(rng.random(m) < 0.3, low - _slack(rng, m), -np.inf)
    high = high + _slack(rng, m)
    return [LinearBounds(rows, low, high)]


def _cone(rng: np.random.Generator, points: np.ndarray) -> list[Cone]:
    matrix, offset = rng.normal(size=(2, points.shape[1])), rng.normal(size=2)
    slope = rng.normal(size=points.shape[1]) * (rng.random() < 0.5)
    radius = (np.linalg.norm(points @ matrix.T + offset, axis=1) - points @ slope).max()
    return [Cone(matrix, offset, float(radius + _slack(rng, 1)[0]), slope)]


def _nearer(rng: np.random.Generator, points: np.ndarray) -> list[QuadraticDifference]:
    """Up to three rivals of one prototype, with metrics of ranks of their own."""
    d = points.shape[1]
    scale = 10.0 ** rng.uniform(-1, 0.5)
    matrix, offset = scale * rng.normal(size=(rng.integers(1, d + 1), d)), rng.normal()
    offset = offset * rng.normal(size=len(matrix))
    made = []
    for _ in range(rng.integers(1, 4)):
        rival = scale * rng.normal(size=(rng.integers(1, d + 1), d))
        away = 3.0 * scale * rng.normal(size=len(rival))
        limit = QuadraticDifference(matrix, offset, rival, away, 0.0).excess(points).max()
        made.append(
            QuadraticDifference(matrix, offset, rival, away, float(limit + _slack(rng, 1)[0]))
        )
    return made


def _log_sum_exp(rng: np.random.Generator, points: np.ndarray) -> list[LogSumExp]:
    matrix, offset = rng.normal(size=(3, points.shape[1])), rng.normal(size=3)
    z = points @ matrix.T + offset
    limit = np.log(np.exp(z).sum(axis=1)).max()
    return [LogSumExp(matrix, offset, float(limit + _slack(rng, 1)[0]))]


def multipliers(rng: np.random.Generator, size: int, n: int) -> np.ndarray:
    """(n, size) numbers of either sign and of many sizes, some of them 0."""
    values = rng.normal(size=(n, size)) * 10.0 ** rng.uniform(-3, 3, size=(n, 1))
    return np.where(rng.random((n, size)) < 0.3, 0.0, values)


# Softmax scores


@dataclass(frozen=True)
class Softmax:
    """Rows of one softmax model: A, and z̄ = A x̄ + b, labels and weights for each row.

    Numbers in A are multiples of 2^−11 and not large, so that A Aᵀ is exact.
    """

    matrix: np.ndarray
    """(K, D) A."""
    scores: np.ndarray
    """(n, K) z̄."""
    label: np.ndarray
    """(n,)."""
    weight: np.ndarray
    """(n,) λ."""

    @property
    def gram(self) -> np.ndarray:
        return self.matrix @ self.matrix.T

    @property
    def is_wide(self) -> bool:
        """Whether there are as many columns as classes."""
        return self.matrix.shape[1] >= self.matrix.shape[0]

    def take(self, rows: Any) -> Softmax:
        return Softmax(self.matrix, self.scores[rows], self.label[rows], self.weight[rows])


def softmax(
    rng: np.random.Generator, *, most: int = 60, rows: int = 4, largest: float = 1e4
) -> Softmax:
    """Classes in 1 to 80 columns; some with equal rows, or with a class that is never predicted."""
    k = int(np.exp(rng.uniform(np.log(2), np.log(most + 1))))
    d = int(rng.choice([1, 2, 3, max(k // 2, 1), k, k + 7, 80]))
    scale = 2.0**10
    matrix = np.round(rng.normal(size=(k, d)) * 10.0 ** rng.uniform(-1, 1) * scale) / scale
    offset = rng.normal(size=k)
    if rng.random() < 0.3:
        i, j = rng.integers(k, size=2)
        matrix[i] = matrix[j]
        if rng.random() < 0.2:
            matrix[:] = matrix[0]
    if k > 3 and rng.random() < 0.3:
        i, j, never = rng.choice(k, size=3, replace=False)
        matrix[never] = (matrix[i] + matrix[j]) / 2
        offset[never] = min(offset[i], offset[j]) - 3.0
    if rng.random() < 0.5:
        scores = rng.normal(size=(rows, k)) * 10.0 ** rng.uniform(0, np.log10(largest)) + offset
    else:
        scores = rng.normal(size=(rows, d)) @ matrix.T + offset
    scores[0] = np.round(scores[0])  # ties
    label, weight = rng.integers(k, size=rows), 10.0 ** rng.uniform(-6, 6, size=rows)
    return Softmax(matrix, scores, label, weight)
