"""Inverse classification as its paper solves it: the peers that counterpoint is compared with.

Carreira-Perpiñán and Hada, *Inverse classification with logistic and softmax classifiers: efficient
optimization*; nothing of counterpoint is used.
"""

from inverse_peers.batched import BatchRecord, Problems, batched_newton
from inverse_peers.data import (
    SETTINGS,
    Data,
    Model,
    Setting,
    collection,
    digits_data,
    draw,
    mnist,
    mnist_data,
    mnist_pairs,
    mnist_pairs_data,
    synthetic,
    train,
)
from inverse_peers.descent import bfgs, conjugate_gradient, gradient_descent, lbfgs
from inverse_peers.line_search import Backtracking, Constant, StrongWolfe
from inverse_peers.logistic import newton_logistic
from inverse_peers.newton import lean_newton, newton, newton_path
from inverse_peers.problem import Limits, Problem, Record, gram, lipschitz
from inverse_peers.scipy_peers import METHODS, scipy_minimize

__all__ = [
    "METHODS",
    "SETTINGS",
    "Backtracking",
    "BatchRecord",
    "Constant",
    "Data",
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
    "digits_data",
    "draw",
    "gradient_descent",
    "gram",
    "lbfgs",
    "lean_newton",
    "lipschitz",
    "mnist",
    "mnist_data",
    "mnist_pairs",
    "mnist_pairs_data",
    "newton",
    "newton_logistic",
    "newton_path",
    "scipy_minimize",
    "synthetic",
    "train",
]
