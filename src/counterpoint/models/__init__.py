"""Readers: fitted models → forms, with the pipelines of scikit-learn seen through exactly.

`see_through` composes every preprocessing step into one affine map from the encoded raw columns to
the final estimator's inputs. Register your own with ``@read.register(MyModel)`` for final
estimators and ``@trace.register(MyTransformer)`` for steps.
"""

from __future__ import annotations

from counterpoint.models import (  # noqa: F401 (each registers its readers)
    compose,
    estimators,
    transformers,
)
from counterpoint.models.columns import Columns
from counterpoint.models.dispatch import read, require_reader, trace
from counterpoint.models.reading import Reading, see_through
from counterpoint.models.running import by_running
from counterpoint.models.torch_classifier import LastLayer

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
