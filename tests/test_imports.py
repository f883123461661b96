"""What is imported when: nothing heavy before it is used; in one fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PACKAGE = (
    *("pandas", "sklearn", "highspy", "daqp", "clarabel", "scipy.optimize"),
    *("opendp", "typer", "counterpoint.lvq"),
)
COMMANDS = ("pandas", "sklearn", "skops", "rich.table", "highspy", "counterpoint.lvq")
EXTRAS = (
    "torch",
    "matplotlib",
    "anndata",
    "pyscipopt",
    "fastapi",
    "uvicorn",
    "sklearn_lvq",
    "sklvq",
)


def test_nothing_is_imported_before_it_is_used():
    command = [sys.executable, __file__]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == (
        "Path.plot needs matplotlib, which is not installed. "
        "In a checkout of counterpoint, run: pip install '.[plots]'.\n"
    )


@contextmanager
def without(*names: str) -> Iterator[None]:
    """What is done within imports none of these."""
    yield
    found = [name for name in names if name in sys.modules]
    assert not found, found


def main() -> None:
    with without(*PACKAGE, *EXTRAS):
        import counterpoint as cp
    with without(*COMMANDS, *EXTRAS):
        import counterpoint.cli
    with without(*EXTRAS, "counterpoint.lvq"):
        import counterpoint.groups
        import counterpoint.models

    with without(*EXTRAS):
        from sklearn.datasets import make_moons
        from sklearn.linear_model import LogisticRegression

        X, y = make_moons(60, random_state=0)
        line = LogisticRegression().fit(X, y)
        assert cp.explain(line, X[:1], 1, data=X, extrapolate=True).found.all()
        assert cp.LastLayer.__name__ == "LastLayer"

        from counterpoint.lvq import LGMLVQ

        model = LGMLVQ(random_state=0).fit(X, y)
        row = X[model.predict(X) == 0][:1]
        assert cp.explain(model, row, 1, data=X, extrapolate=True).found.all()
    best = cp.explain(model, row, 1, data=X, extrapolate=True, optimality="global")
    assert best.found.all()
    assert "pyscipopt" in sys.modules

    sys.modules["matplotlib"] = None
    from counterpoint.pictures import plots

    try:
        plots.axes_of(None, (2, 1), (10.0, 4.2), "Path.plot needs")
    except cp.MissingExtra as error:
        sys.stdout.write(f"{error}\n")
    assert not any(name.startswith("matplotlib.") for name in sys.modules)


if __name__ == "__main__":
    main()
