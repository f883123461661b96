"""Classifiers and instances of the paper's sizes and nature, and its collection of 50 problems.

The synthetic ones are drawn like the paper's data (strokes on a grid, words of documents, features
behind a rectifier), and a softmax classifier is then trained on them, so that its weights are those
of a trained one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from harness.data import mnist
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

SIDE = 28
DIGITS = 10
FIELDS = 4  # that neighbouring classes share
LENGTH = 8.0  # of rectified features, so that the paper's λ suit them


@dataclass(frozen=True)
class Data:
    """Instances to train on, dense or a CSR matrix, their classes, and C of the training."""

    X: Any
    labels: np.ndarray
    strength: float = 1.0

    def fit(self) -> tuple[np.ndarray, np.ndarray]:
        """A and b of the classifier."""
        return train(self.X, self.labels, self.strength)


@dataclass(frozen=True)
class Setting:
    """A data set of the paper: its size, and λ for the farthest and for the closest class."""

    name: str
    K: int
    D: int
    farthest: float = 0.01
    near: float = 0.1


SETTINGS = (
    Setting("MNIST", 10, 784),
    Setting("RCV1", 51, 47_236),
    Setting("VGGFeat64", 16, 8_192),
    Setting("VGGFeat256", 16, 131_072, 0.006, 0.08),
    Setting("MNIST-100", 100, 1_568),
)


def draw(K: int, D: int, seed: int = 0) -> Data:
    """Synthetic instances of K classes and D features.

    (10, 784) are strokes, (100, 1568) pairs of them, (51, 47236) documents, as a CSR matrix; all
    else are rectified features.
    """
    rng = np.random.default_rng(seed)
    frequent, strength = np.full(K, 1.0 / K), 1.0
    if (K, D) == (DIGITS, SIDE**2):
        kind, count = _strokes, 2000
    elif (K, D) == (DIGITS**2, 2 * SIDE**2):
        kind, count = _pairs, 3000
    elif (K, D) == (51, 47_236):
        kind, count, strength = _documents, 2000, 100.0
        frequent = 1.0 / (np.arange(K) + 5.0)
    else:
        kind, count, strength = _rectified, max(256, 16 * K), 30.0
    labels = rng.choice(K, size=count, p=frequent / frequent.sum())
    return Data(kind(labels, D, rng), labels, strength)


def mnist_data(seed: int = 0) -> Data | None:
    """Half of MNIST's test images; None without them."""
    images = mnist()
    return None if images is None else _half(*images, seed)


def digits_data(seed: int = 0) -> Data:
    """Half of scikit-learn's digits, 8 × 8."""
    X, labels = load_digits(return_X_y=True)
    return _half(X / 16.0, labels, seed)


def collection(
    A: np.ndarray,
    b: np.ndarray,
    X: Any,
    rng: np.random.Generator,
    *,
    farthest: float = 0.01,
    near: float = 0.1,
) -> Iterator[tuple[np.ndarray, int, float]]:
    """The 50 problems (x̄, k, λ) of appendix A.

    40 with the class of lowest probability and λ = `farthest`, 10 with that of the second highest
    and λ = `near`.
    """
    for i, row in enumerate(rng.integers(X.shape[0], size=50)):
        x = X[[row]].toarray()[0] if sparse.issparse(X) else X[row]
        order = np.argsort(A @ x + b)
        yield (x, int(order[0]), farthest) if i < 40 else (x, int(order[-2]), near)


def train(X: Any, labels: np.ndarray, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """A and b of scikit-learn's logistic regression with C = `strength`.

    With more features than instances, it is trained in coordinates of the span of the instances,
    where it is the same: the penalty does not change under rotations.
    """
    number, size = X.shape
    rotated, inverse = X, None
    if size > number:
        gram = X @ X.T
        values, vectors = np.linalg.eigh(gram.toarray() if sparse.issparse(gram) else gram)
        mask = values > 1e-10 * values[-1]
        lengths = np.sqrt(values[mask])
        rotated, inverse = vectors[:, mask] * lengths, vectors[:, mask] / lengths
    model = LogisticRegression(C=strength)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rotated, labels)
    A = model.coef_ if inverse is None else (X.T @ (inverse @ model.coef_.T)).T
    return np.ascontiguousarray(A), model.intercept_


def _half(X: np.ndarray, labels: np.ndarray, seed: int) -> Data:
    rows = np.random.default_rng(seed).permutation(len(X))[: len(X) // 2]
    return Data(X[rows], labels[rows])


def _strokes(labels: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Grey curves on a square grid; each of ten classes has its own control points."""
    side = isqrt(size)
    control = rng.uniform(5.0, side - 6.0, size=(DIGITS, 5, 2))
    control[:, 1:] += 0.3 * (control[:, :1] - control[:, 1:])
    at = np.linspace(0.0, 1.0, 24)
    place = at * (control.shape[1] - 1)
    weights = np.maximum(0.0, 1.0 - np.abs(place[:, None] - np.arange(control.shape[1])))
    points = control[labels] + rng.normal(scale=1.3, size=(len(labels), *control.shape[1:]))
    curve = np.einsum("ti,nid->ntd", weights, points)
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    nearest = np.full((len(labels), size), np.inf)
    for t in range(len(at)):
        away = ((curve[:, t, None] - grid) ** 2).sum(axis=2)
        np.minimum(nearest, away, out=nearest)
    ink = np.clip(
        1.6 * np.exp(-nearest / (2.0 * rng.uniform(0.7, 1.5, size=(len(labels), 1)))), 0.0, 1.0
    )
    return np.where(ink > 0.02, ink, 0.0)


def _pairs(labels: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Two strokes side by side."""
    halves = _strokes(np.concatenate(np.divmod(labels, DIGITS)), size // 2, rng)
    return np.hstack(np.split(halves, 2))


def _documents(labels: np.ndarray, size: int, rng: np.random.Generator) -> sparse.csr_array:
    """Term frequencies times inverse document frequencies, about 70 words each, of unit length."""
    number = len(labels)
    common = 1.0 / (np.arange(size) + 10.0) ** 1.05
    common /= common.sum()
    fields = [rng.choice(size, 150, replace=False, p=common) for _ in range(FIELDS)]
    topics = [
        np.concatenate([rng.choice(size, 150, replace=False, p=common), fields[k % FIELDS]])
        for k in range(labels.max() + 1)
    ]
    favour = 1.0 / (np.arange(300) % 150 + 5.0)
    favour /= favour.sum()
    counts = []
    for label in labels:
        tokens = int(rng.lognormal(4.2, 0.5)) + 10
        topical = rng.binomial(tokens, 0.5)
        words = np.concatenate(
            [
                rng.choice(topics[label], topical, p=favour),
                rng.choice(size, tokens - topical, p=common),
            ]
        )
        counts.append(np.unique(words, return_counts=True))
    pointers = np.cumsum([0, *(len(words) for words, _ in counts)])
    words = np.concatenate([words for words, _ in counts])
    often = np.concatenate([often for _, often in counts])
    in_documents = np.bincount(words, minlength=size)
    values = (1.0 + np.log(often)) * np.log((1.0 + number) / (1.0 + in_documents[words]))
    lengths = np.sqrt(np.add.reduceat(values**2, pointers[:-1]))
    values /= np.repeat(lengths, np.diff(pointers))
    return sparse.csr_array((values, words, pointers), shape=(number, size))


def _rectified(labels: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """max(0, what its class favours + what the image has + noise)."""
    classes = int(labels.max()) + 1
    favoured = np.where(rng.random((classes, size)) < 0.05, 1.5, 0.0) - 0.8
    shared = np.where(rng.random((FIELDS, size)) < 0.05, 1.5, 0.0)
    favoured += shared[np.arange(classes) % FIELDS]
    X = rng.normal(size=(len(labels), size))
    X += rng.normal(scale=0.2, size=(len(labels), 20)) @ rng.normal(size=(20, size))
    X += favoured[labels]
    np.maximum(X, 0.0, out=X)
    X *= LENGTH / np.sqrt(np.vecdot(X, X).mean())
    return X
