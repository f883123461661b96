"""Readers: fitted models → forms, with the pipelines of scikit-learn seen through exactly.

`see_through` composes every preprocessing step into one affine map from the encoded raw columns to
the final estimator's inputs. Register your own with ``@read.register(MyModel)`` for final
estimators and ``@trace.register(MyTransformer)`` for steps.
"""

from __future__ import annotations

from counterpoint.readers import (  # noqa: F401 (each registers its readers)
    classifiers,
    compose,
    encoders,
    gaussians,
    imputers,
    meta,
    naive_bayes,
    prototypes,
    regressors,
    scalers,
    support_vectors,
    uncertain,
)
from counterpoint.readers.columns import Columns
from counterpoint.readers.dispatch import read, require_reader, trace
from counterpoint.readers.probe import by_running
from counterpoint.readers.seeing import Reading, see_through
from counterpoint.readers.torch_classifier import LastLayer

__all__ = [
    "Columns",
    "LastLayer",
    "Reading",
    "by_running",
    "read",
    "require_reader",
    "see_through",
    "trace",
]
