"""The data sets, their classifiers, and the 50 problems on each (appendix A)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from inverse_peers import (
    SETTINGS,
    Data,
    Problem,
    Setting,
    collection,
    digits_data,
    draw,
    gram,
    mnist_data,
    mnist_pairs_data,
    newton,
)

HELD = 200
"""Instances that are drawn to test the synthetic classifiers on."""


@dataclass(frozen=True)
class Sizes:
    """How much is done: everything, or enough to see that it works."""

    problems: int = 50
    weights: int = 100
    repeats: int = 3
    iterations: int = 1000


FULL = Sizes()
QUICK = Sizes(problems=8, weights=8, repeats=1, iterations=300)


@dataclass(frozen=True, eq=False)
class Set:
    """A data set with its classifier.

    Parameters
    ----------
    name
        Here, and `paper` the one that it stands for in the paper, "" if there is none.
    data, A, b
        Instances, and the classifier that was trained on them.
    far, near
        λ for the farthest and for the closest class.
    sizes
        How many problems.
    """

    name: str
    paper: str
    data: Data
    A: np.ndarray
    b: np.ndarray
    far: float
    near: float
    sizes: Sizes

    @property
    def title(self) -> str:
        """The name and the size."""
        return f"{self.name} ({len(self.A)}, {self.A.shape[1]})"

    @property
    def heading(self) -> str:
        """The same on two lines, for a panel."""
        return f"{self.name}\nK = {len(self.A)}, D = {self.A.shape[1]}"

    @cached_property
    def gram(self) -> np.ndarray:
        """A Aᵀ, rows of A centred."""
        return gram(self.A)

    @cached_property
    def problems(self) -> list[Problem]:
        """Those of appendix A: four in five are far."""
        rng = np.random.default_rng(1)
        found = collection(self.A, self.b, self.data.X, rng, far=self.far, near=self.near)
        every = [Problem(self.A, self.b, *triple) for triple in found]
        return every[:: len(every) // self.sizes.problems][: self.sizes.problems]

    @cached_property
    def hardest(self) -> Problem:
        """The problem for which Newton's method needs the most iterations, the first of them."""
        return max(self.problems, key=lambda p: newton(p, self.gram)[1].iterations)

    def errors(self) -> tuple[float, float]:
        """The shares of instances that are misclassified: to train on, and others."""
        data = self.data
        pairs = ((data.X, data.labels), (data.held, data.held_labels))
        train, held = (float(np.mean(self.predict(X) != labels)) for X, labels in pairs)
        return train, held

    def predict(self, X: Any) -> np.ndarray:
        """The classes of instances."""
        scores = X @ self.A.T + self.b
        return scores.argmax(axis=1) if len(self.A) > 1 else (scores[:, 0] > 0.0).astype(int)


def softmax_sets(sizes: Sizes) -> list[Set]:
    """Digits, MNIST where it is, and synthetic ones of the paper's other sizes."""
    if sizes is QUICK:
        small = Setting("VGGFeat64", 16, 1_024)
        drawn = draw(small.K, small.D, held=HELD)
        return [_of("digits", "", digits_data(), sizes), _of_setting(small, drawn, sizes)]
    found = [_of("digits", "", digits_data(), sizes)]
    images = mnist_data()
    if images is not None:
        found.append(_of("MNIST", "MNIST", images, sizes))
    for setting in SETTINGS[:4]:
        if setting.name != "MNIST" or images is None:
            data = draw(setting.K, setting.D, held=HELD)
            found.append(_of_setting(setting, data, sizes))
    return found


def pairs_of_digits(sizes: Sizes) -> Iterator[Set]:
    """MNIST and MNIST-100 of appendix D; strokes where MNIST is absent, smaller ones in haste."""
    if sizes is QUICK:
        yield _of("digits", "MNIST", digits_data(), sizes)
        return
    one, two = mnist_data(), mnist_pairs_data()
    if one is None or two is None:
        small, large = SETTINGS[0], SETTINGS[4]
        yield _of_setting(small, draw(small.K, small.D, held=HELD), sizes)
        yield _of_setting(large, draw(large.K, large.D, held=HELD), sizes)
        return
    yield _of("MNIST", "MNIST", one, sizes)
    yield _of("MNIST-100", "MNIST-100", two, sizes)


def binary_sets(every: list[Set]) -> Iterator[Set]:
    """Two classes, as appendix A regroups them; A is one row, the difference of two."""
    groups = {"": range(0, 10, 2), "MNIST": range(0, 10, 2), "RCV1": range(26)}
    groups |= {"VGGFeat64": range(7), "VGGFeat256": range(7)}
    for one in every:
        data = one.data.in_two(list(groups[one.paper]))
        yield Set(one.name, one.paper, data, *data.fit(), one.far, one.near, one.sizes)


def _of(name: str, paper: str, data: Data, sizes: Sizes) -> Set:
    return Set(name, paper, data, *data.fit(), 0.01, 0.1, sizes)


def _of_setting(setting: Setting, data: Data, sizes: Sizes) -> Set:
    name = f"{setting.name}-like"
    A, b = data.fit()
    return Set(name, setting.name, data, A, b, setting.far, setting.near, sizes)
