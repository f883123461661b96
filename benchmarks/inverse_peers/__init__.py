"""Inverse classification as its paper solves it: the peers that counterpoint is compared with.

Carreira-Perpiñán and Hada, *Inverse classification with logistic and softmax classifiers: efficient
optimization*; nothing of counterpoint is used.
"""

from inverse_peers.batched import BatchRecord, Problems, batched_newton
from inverse_peers.data import (
    SETTINGS,
    Model,
    Setting,
    collection,
    mnist,
    mnist_pairs,
    synthetic,
    train,
)
from inverse_peers.descent import bfgs, conjugate_gradient, gradient_descent, lbfgs
from inverse_peers.line_search import Backtracking, Constant, StrongWolfe
from inverse_peers.logistic import newton_logistic
from inverse_peers.newton import newton
from inverse_peers.problem import Limits, Problem, Record, gram, lipschitz
from inverse_peers.scipy_peers import METHODS, scipy_minimize

__all__ = [
    "METHODS",
    "SETTINGS",
    "Backtracking",
    "BatchRecord",
    "Constant",
    "Limits",
    "Model",
    "Problem",
    "Problems",
    "Record",
    "Setting",
    "StrongWolfe",
    "batched_newton",
    "bfgs",
    "collection",
    "conjugate_gradient",
    "gradient_descent",
    "gram",
    "lbfgs",
    "lipschitz",
    "mnist",
    "mnist_pairs",
    "newton",
    "newton_logistic",
    "scipy_minimize",
    "synthetic",
    "train",
]
