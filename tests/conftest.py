"""What all tests share: one BLAS thread, the Hypothesis profiles, and the real data sets."""

from __future__ import annotations

import os

# Before NumPy is imported: results shall not depend on how many cores there are.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")
os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are drawn, and shown to nobody

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).parents[1]

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile(
    "ci",
    parent=settings.get_profile("dev"),
    max_examples=25,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no fault of the test
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def data_dir() -> Path:
    """The folder of real data sets: COUNTERPOINT_DATA, else ``shared/data`` beside the project."""
    given = os.environ.get("COUNTERPOINT_DATA")
    return Path(given) if given else ROOT.parent / "shared" / "data"


@cache
def _read(name: str) -> pd.DataFrame | None:
    import pandas as pd

    path = data_dir() / name
    return pd.read_csv(path) if path.exists() else None


def _frame(name: str) -> pd.DataFrame:
    frame = _read(name)
    if frame is None:
        missing = f"No {name} in {data_dir()}; set COUNTERPOINT_DATA to the folder that has it."
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return frame.copy()


@pytest.fixture
def german() -> pd.DataFrame:
    """German credit: 1000 rows, mixed types, target ``GoodCustomer`` (1 or -1)."""
    return _frame("german/german.csv")


@pytest.fixture
def heloc() -> pd.DataFrame:
    """FICO HELOC: 9871 rows of whole numbers, target in the last column."""
    return _frame("heloc/heloc.csv")


@pytest.fixture
def ames() -> pd.DataFrame:
    """Ames housing: 2930 rows, 82 columns; ``SalePrice`` is the value."""
    return _frame("ames/ames_raw.csv")


def _folder(name: str) -> Path:
    path = data_dir() / name
    if not path.exists():
        missing = f"No {name} in {data_dir()}; set COUNTERPOINT_DATA to the folder that has it."
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return path


@pytest.fixture
def eldr() -> Path:
    """What Plumb et al. (2020) published: data, encoders, explanations and how good they are."""
    return _folder("eldr")


@pytest.fixture
def scrna() -> Path:
    """700 blood cells × 765 genes of 10x Genomics, with cell types."""
    return _folder("scrna")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs real data, so that ``-m 'not data'`` leaves it out."""
    for item in items:
        if {"german", "heloc", "ames", "eldr", "scrna"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.data)
