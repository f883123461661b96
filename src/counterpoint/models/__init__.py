"""Read fitted models as forms, and see through the pipelines of scikit-learn exactly.

`see_through` composes every preprocessing step into one affine map from the encoded raw columns to
the final estimator's inputs. Register your own readers with ``@read.register(MyModel)`` for final
estimators and ``@read_step.register(MyTransformer)`` for steps.
"""

from __future__ import annotations

from counterpoint.models import compose, estimators  # noqa: F401 (each registers its readers)
from counterpoint.models.columns import Columns
from counterpoint.models.dispatch import packages, read, read_step, require_reader
from counterpoint.models.last_layer import LastLayer
from counterpoint.models.reading import ReadModel, see_through
from counterpoint.models.transformers import by_running

__all__ = [
    "Columns",
    "LastLayer",
    "ReadModel",
    "by_running",
    "packages",
    "read",
    "read_step",
    "require_reader",
    "see_through",
]
