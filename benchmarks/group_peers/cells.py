"""As many features as there are genes, before the encoder that the authors published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from counterpoint.groups import Affine, Groups, Network
from counterpoint.groups.representations import Composed

FloatArray = NDArray[np.float64]

ROWS = 60
"""Rows of a group."""


def cells(folder: Path, features: int, seed: int = 0) -> tuple[FloatArray, Any, Composed]:
    """Rows, their groups, and a representation: loadings of 100 components, then the encoder.

    The genes of the set are not public; so the centre of each group is a point that the encoder
    takes to the centre of the group in the published embedding, and the loadings are random.
    """
    kept = np.load(folder / "results" / "Bipolar" / "encoder_embedding_float32.npz")
    corners = json.loads((folder / "results" / "Bipolar" / "vertices.json").read_text())
    layers = range(4)
    network = Network([kept[f"W{i}"] for i in layers], [kept[f"b{i}"] for i in layers], "elu")
    groups = Groups.from_polygons(kept["embedding"], corners)
    random = np.random.default_rng(seed)
    centres = np.array(
        [_before(network, target, random) for target in groups.means(kept["embedding"])]
    )
    loadings = random.normal(size=(features, 100)) * random.gamma(0.3, 1.0, size=(features, 1))
    loadings = np.linalg.qr(loadings)[0]
    codes = np.repeat(centres, ROWS, axis=0)
    codes += 0.02 * random.normal(size=codes.shape)
    rows = codes @ loadings.T + 0.003 * random.normal(size=(len(codes), features))
    labels = np.repeat(np.arange(len(centres)), ROWS)
    return rows, labels, Composed(Affine(loadings, np.zeros(100)), network)


def _before(network: Network, target: FloatArray, random: np.random.Generator) -> FloatArray:
    """A small input that the network takes to a target."""

    def away(code: FloatArray) -> tuple[float, FloatArray]:
        values, pull = network.vjp(code[None])
        residual = values - target
        slope = pull(2.0 * residual)[0] + 2e-4 * code
        return float((residual**2).sum()) + 1e-4 * float(code @ code), slope

    starts = 0.05 * random.normal(size=(5, network.n_features))
    found = [minimize(away, start, jac=True, method="L-BFGS-B") for start in starts]
    return np.asarray(min(found, key=lambda one: one.fun).x)
