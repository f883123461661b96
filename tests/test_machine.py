"""What `make machines` asks for is in force: the arithmetic of another processor."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import threadpoolctl

pytestmark = pytest.mark.delicate

ALIASES = {"Zen": "Haswell", "Prescott": "Katmai"}
"""Names that OpenBLAS takes and says otherwise: Zen has the kernels of Haswell in these wheels."""


def test_both_openblas_compute_as_the_processor_that_is_asked_for():
    """NumPy and SciPy bring one each."""
    scipy.linalg.blas.ddot(np.ones(2), np.ones(2))
    pools = [p for p in threadpoolctl.threadpool_info() if p["internal_api"] == "openblas"]
    asked = os.environ.get("OPENBLAS_CORETYPE")
    if asked:
        assert {"numpy.libs", "scipy.libs"} <= {Path(p["filepath"]).parent.name for p in pools}
        assert {p["architecture"] for p in pools} == {ALIASES.get(asked, asked)}


def test_numpy_does_without_the_features_that_are_disabled():
    disabled = os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split()
    extensions = np.show_config(mode="dicts")["SIMD Extensions"]
    known = {feature for kind in extensions.values() for feature in kind}
    assert set(disabled) <= known
    assert not set(disabled) & set(extensions.get("found", ()))
