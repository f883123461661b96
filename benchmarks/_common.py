"""What the benchmarks share: timing, data, models, and how results are written.

Importing it limits linear algebra to one thread, so that "one core" is one core.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd
import scipy.linalg  # noqa: F401 (brings a BLAS of its own, to be limited too)
from threadpoolctl import threadpool_limits

threadpool_limits(limits=1)

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
PACKAGES = ("counterpoint", "numpy", "pandas", "scikit-learn", "highspy", "daqp", "clarabel")


@dataclass(frozen=True)
class Goal:
    """A number that was promised, and the one that was measured."""

    what: str
    goal: str
    measured: str
    satisfied: bool


@dataclass(frozen=True)
class More:
    """A second table."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Report:
    """One subject's results: a table, goals, and what must be said along with them.

    Parameters
    ----------
    subject
        The script's name without ``bench_``.
    title, question
        A heading, and what is measured in a sentence or two.
    columns, rows
        A table; each row has one cell for each column.
    goals
        What was promised.
    notes
        Sentences; how their lines break does not matter.
    tables
        More tables.
    packages
        Distributions whose versions matter, beside our own dependencies.
    """

    subject: str
    title: str
    question: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    goals: Sequence[Goal] = ()
    notes: Sequence[str] = ()
    tables: Sequence[More] = ()
    packages: Sequence[str] = ()
    versions: dict[str, str] = field(default_factory=dict)


def is_quick() -> bool:
    """Whether --quick was given: fewer problems and repetitions, and nothing is written."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run that writes no results")
    return bool(parser.parse_args().quick)


def finish(report: Report, *, quick: bool) -> None:
    """Print the report; unless the run was quick, write its JSON and make the page anew."""
    from table import section, write

    print("\n".join(section(asdict(report))))
    if quick:
        return
    report.versions.update(_versions((*PACKAGES, *report.packages)))
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(asdict(report), indent=1, default=_plain)
    (RESULTS / f"{report.subject}.json").write_text(text + "\n")
    write()


def _versions(names: Sequence[str]) -> dict[str, str]:
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _plain(value: Any) -> Any:
    return value.item()


def interleaved(tasks: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median CPU seconds of each task, run in turns so that a busy moment meets all of them."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            start = process_time()
            task()
            times[name].append(process_time() - start)
    return {name: float(np.median(seconds)) for name, seconds in times.items()}


def keep_memory() -> None:
    """Memory that is freed stays with the process, where the allocator can be told so.

    A virtual machine hands it back to its host some time later: to touch new memory costs some
    calls next to nothing, and others as much as all of their work.
    """
    tell = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if tell is not None:
        tell(-4, 0)  # M_MMAP_MAX: none by mmap
        tell(-1, 2**31 - 1)  # M_TRIM_THRESHOLD


def each(tasks: Sequence[Callable[[], Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of each of many calls: of CPU time, and on the clock."""
    seconds = np.empty((2, len(tasks)))
    for i, task in enumerate(tasks):
        clock, cpu = perf_counter(), process_time()
        task()
        seconds[:, i] = process_time() - cpu, perf_counter() - clock
    return seconds[0], seconds[1]


def number(value: float, digits: int = 3) -> str:
    """A number as a table shows it: few digits, thousands apart."""
    if not np.isfinite(value):
        return str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.{digits}g}"


def milliseconds(seconds: float) -> str:
    """Seconds as milliseconds."""
    return f"{number(1e3 * seconds)} ms"


def microseconds(seconds: float) -> str:
    """Seconds as microseconds."""
    return f"{number(1e6 * seconds)} µs"


def data_file(name: str) -> Path | None:
    """A file of the data folder, or None with a sentence."""
    folder = os.environ.get("COUNTERPOINT_DATA")
    root = Path(folder) if folder else HERE.parent.parent / "shared" / "data"
    path = root / name
    if path.exists():
        return path
    print(f"{name} is left out: it is not here. Set COUNTERPOINT_DATA to the folder that holds it.")
    return None


def german() -> tuple[pd.DataFrame, pd.Series] | None:
    """German credit: 28 columns of mixed types, GoodCustomer 1 or -1; None without the data."""
    path = data_file("german/german.csv")
    if path is None:
        return None
    frame = pd.read_csv(path)
    return frame, frame.pop("GoodCustomer")


def german_model(frame: pd.DataFrame, labels: pd.Series) -> Any:
    """One-hot and standardised columns, logistic regression."""
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = ColumnTransformer(
        [("category", OneHotEncoder(), ["Gender", "PurposeOfLoan"])], remainder=StandardScaler()
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(frame, labels)


def german_policy() -> list[Any]:
    """What an applicant can change, and how the indicator columns hang together."""
    import counterpoint as cp

    fixed = ("Gender", "ForeignWorker", "Single", "Age", "NumberOfLiableIndividuals")
    relations = (
        "OwnsHouse + RentsHouse <= 1",
        "CheckingAccountBalance_geq_200 <= CheckingAccountBalance_geq_0",
        "SavingsAccountBalance_geq_500 <= SavingsAccountBalance_geq_100",
        "YearsAtCurrentJob_lt_1 + YearsAtCurrentJob_geq_4 <= 1",
    )
    return [
        cp.Immutable(*fixed),
        cp.WithinObserved(),
        cp.Monotone("LoanAmount", "decreasing"),
        *(cp.Linear.parse(relation) for relation in relations),
    ]


def heloc() -> tuple[pd.DataFrame, pd.Series] | None:
    """HELOC: 23 columns of whole numbers, RiskPerformance 0 or 1; None without the data."""
    path = data_file("heloc/heloc.csv")
    if path is None:
        return None
    frame = pd.read_csv(path)
    return frame, frame.pop("RiskPerformance").astype(int)


def heloc_model(frame: pd.DataFrame, labels: pd.Series) -> Any:
    """Standardised columns, logistic regression."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(frame, labels)


def heloc_integers(frame: pd.DataFrame) -> list[Any]:
    """Every column changes by whole numbers."""
    import counterpoint as cp

    return [cp.Integer(name) for name in frame.columns]


def heloc_policy() -> list[Any]:
    """A credit history cannot be undone, months pass slowly, counts hang together."""
    import counterpoint as cp

    history = (
        "ExternalRiskEstimate",
        "NumTrades60Ever2DerogPubRec",
        "NumTrades90Ever2DerogPubRec",
        "MaxDelq2PublicRecLast12M",
        "MaxDelqEver",
    )
    return [
        cp.Immutable(*history),
        cp.WithinObserved(),
        cp.Bounds("MSinceOldestTradeOpen", fall=0, rise=24),
        cp.Bounds("AverageMInFile", fall=12, rise=24),
        cp.Bounds("MSinceMostRecentDelq", fall=0, rise=24),
        cp.Bounds("NetFractionRevolvingBurden", fall=40, rise=0),
        cp.Monotone("PercentTradesNeverDelq", "increasing"),
        cp.Linear.parse("NumInqLast6Mexcl7days <= NumInqLast6M"),
        cp.Linear.parse("NumTradesOpeninLast12M <= NumTotalTrades"),
    ]


def standard(load: Callable[..., Any]) -> tuple[pd.DataFrame, pd.Series, Any]:
    """A data set of scikit-learn, its columns standardised, and its logistic regression.

    The model takes the standardised columns, so that all tools see the same space.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    raw, labels = load(return_X_y=True, as_frame=True)
    frame = pd.DataFrame(StandardScaler().fit_transform(raw), columns=raw.columns)
    return frame, labels, LogisticRegression(max_iter=1000, tol=1e-8).fit(frame, labels)
