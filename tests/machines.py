"""Run the delicate tests with the arithmetic of other processors: `make machines`.

OpenBLAS takes the kernels of the processor that ``OPENBLAS_CORETYPE`` names, NumPy leaves out the
features in ``NPY_DISABLE_CPU_FEATURES``; `test_machine` checks that they did.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

CORES = ("Nehalem", "Sandybridge", "Haswell", "SkylakeX")
"""The kernels in the wheels of NumPy and SciPy: SSE4.2, AVX, AVX2 with FMA (Zen too), AVX-512."""
FEW = 1
"""Of how many parameters each test runs; the suite itself runs more of them, on one machine."""
SHORT = {"HYPOTHESIS_PROFILE": "machines"}
TRIED = "import numpy, scipy.linalg; a = numpy.eye(99); a @ a; scipy.linalg.solve(a, a)"
"""Ends by SIGILL where the processor does not have the instructions."""


def machines() -> Iterator[dict[str, str]]:
    """The environment of each machine that this one can stand for."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", ())
    for core in CORES:
        environment = {"OPENBLAS_CORETYPE": core}
        if core == "Nehalem":  # it has nothing beyond NumPy's baseline either
            environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(found)
        tried = subprocess.run(
            [sys.executable, "-c", TRIED], env=os.environ | environment, check=False
        )
        if tried.returncode == 0:
            yield environment
        else:
            print(f"== {core}: left out, this processor does not have its instructions", flush=True)


def main() -> int:
    failed = []
    for environment in machines():
        name = " ".join(f"{key}={value}" for key, value in environment.items())
        print(f"== {name}", flush=True)
        tests = ["-m", "delicate and not slow", "--few", str(FEW), *sys.argv[1:]]
        run = [sys.executable, "-m", "pytest", "-q", *tests]
        if subprocess.run(run, env=os.environ | SHORT | environment, check=False).returncode:
            failed.append(name)
    print(*(f"FAILED with {name}" for name in failed), sep="\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
