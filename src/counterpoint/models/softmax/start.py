"""First guesses: the rivals one by one, each pair of classes by the closed form for two.

The dual of the trade-off has one variable v ≥ 0 a rival, and v_label = 1 − Σ v. Given the others,
the best v_j is the root of the two-class equation. A few such steps, each on the rival that is
furthest from its optimum, spare Newton's method half of its steps: all those in which one rival
after the other comes into sight.
"""

from __future__ import annotations

import numpy as np

from counterpoint.models.softmax.logistic import logistic_root
from counterpoint.models.softmax.reduced import pair_gram
from counterpoint.numerics import TINY, FloatArray, IntArray

__all__ = ["guess"]


ROUNDS = 4
UNSEEN = float(np.log(1e-8))
"""The log-share, relative to the label's, below which a rival without a share stays without."""


def guess(scores: FloatArray, gram: FloatArray, label: IntArray, weight: FloatArray) -> FloatArray:
    """(K, n) u near the optimum of each row.

    Parameters
    ----------
    scores
        (K, n) z̄.
    gram
        (K, K) G.
    label, weight
        (n,) k and λ.
    """
    columns = np.arange(len(label))
    shares = np.zeros_like(scores)
    shares[label, columns] = 1.0
    ahead = scores - scores[label, columns]  # of the label, at the current shares
    for _ in range(min(ROUNDS, len(scores))):
        with np.errstate(divide="ignore"):
            held = np.log(shares) - np.log(np.maximum(shares[label, columns], TINY))
        lead = ahead - np.maximum(held, UNSEEN)
        lead[label, columns] = -np.inf
        rival = lead.argmax(axis=0)
        steepness = pair_gram(gram, rival, label) / weight
        before, total = shares[rival, columns], shares[rival, columns] + shares[label, columns]
        level = ahead[rival, columns] + steepness * before
        share, rest = logistic_root(total * steepness, -level)
        shares[rival, columns], shares[label, columns] = total * share, total * rest
        moved = (total * share - before) / weight
        toward = gram[:, rival] - gram[:, label]
        ahead -= moved * (toward - toward[label, columns])
    u = shares / weight
    u[label, columns] = 0.0
    u[label, columns] = -u.sum(axis=0)
    return u
