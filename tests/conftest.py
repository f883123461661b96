"""What all tests share: one BLAS thread, Hypothesis profiles, real data, which ones are slow."""

from __future__ import annotations

import os
from pathlib import Path

# Before NumPy is imported: results shall not depend on how many cores there are.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")
os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are drawn, and shown to nobody

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from coverings import is_left_to_the_slow_run
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).parents[1]

settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile(
    "ci",
    parent=settings.get_profile("dev"),
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no fault of the test
)
settings.register_profile("machines", parent=settings.get_profile("ci"), max_examples=5)
settings.register_profile("slow", parent=settings.get_profile("dev"), max_examples=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def data_dir() -> Path:
    """The folder of real data sets: COUNTERPOINT_DATA, else ``shared/data`` beside the project."""
    given = os.environ.get("COUNTERPOINT_DATA")
    return Path(given) if given else ROOT.parent / "shared" / "data"


@cache
def _read(path: Path) -> pd.DataFrame | None:
    import pandas as pd

    return pd.read_csv(path) if path.exists() else None


def _frame(name: str) -> pd.DataFrame:
    frame = _read(data_dir() / name)
    if frame is None:
        missing = f"No {name} in {data_dir()}; set COUNTERPOINT_DATA to the folder that has it."
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return frame.copy()


@pytest.fixture
def german() -> pd.DataFrame:
    """German credit: 1000 rows, mixed types, target ``GoodCustomer`` (1 or -1)."""
    from counterpoint.datasets import load_german_credit

    frame = load_german_credit().frame
    frame["GoodCustomer"] = frame["GoodCustomer"].replace(0, -1)
    return frame


@pytest.fixture
def german_source() -> Path:
    """German credit as it was published."""
    return _folder("german") / "german.csv"


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


ORACLES = {"brackets", "cvxpy", "mpmath", "oracles", "pyscipopt"}
"""Modules and packages that numbers are compared with."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--few N``."""
    parser.addoption("--few", type=int, help="run each test with at most so many of its parameters")


READ = {"german_source", "heloc", "ames", "eldr", "scrna"}
"""Fixtures that read the folder of real data sets."""
FIRST = 2
"""Of how many of its parameters `make test` runs a test; `make test-further` runs the others."""
OF_THE_SOURCE = {"test_layers", "test_imports", "test_docs", "test_everything_is_checked"}
"""Tests that read the source, a file a parameter, and take no time."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow, needs real data or is compared with an oracle; keep a few parameters."""
    mark_further(items)
    for item in items:
        if is_left_to_the_slow_run(item):
            item.add_marker(pytest.mark.slow)
        if READ & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.data)
        if uses_an_oracle(item.module):
            item.add_marker(pytest.mark.delicate)
    few = config.getoption("few")
    if few:
        kept = {id(same[k]) for same in by_function(items) for k in spread(len(same), few)}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
        items[:] = [item for item in items if id(item) in kept]


def by_function(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """The parameters of each test."""
    same: dict[str, list[pytest.Item]] = {}
    for item in items:
        same.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return list(same.values())


def mark_further(items: list[pytest.Item]) -> None:
    """Mark the parameters of each test but a few, spread over all, as ``further``."""
    quick = [
        item
        for item in items
        if not (item.get_closest_marker("slow") or is_left_to_the_slow_run(item))
    ]
    for same in by_function(quick):
        if same[0].module.__name__.rpartition(".")[2] not in OF_THE_SOURCE:
            first = spread(len(same), FIRST)
            for k, item in enumerate(same):
                if k not in first:
                    item.add_marker(pytest.mark.further)


@cache
def uses_an_oracle(module: ModuleType) -> bool:
    """Whether a test module imports one, or something from one."""
    names = (
        value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        for value in vars(module).values()
    )
    return bool(ORACLES & {name.partition(".")[0] for name in names if isinstance(name, str)})


def spread(count: int, few: int) -> set[int]:
    """Positions of the first, the last and those between."""
    if count <= few:
        return set(range(count))
    return {round(k * (count - 1) / max(few - 1, 1)) for k in range(few)}
