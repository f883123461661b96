"""Tools that are compared with: each in an environment and a process of its own.

Environments are under $COUNTERPOINT_BENCH_ENVS or ~/.cache/counterpoint-bench; files go to and fro.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.report import HERE


@dataclass(frozen=True)
class Peer:
    """A tool, the script that runs it, and how it is installed: arguments of pip, in turn."""

    name: str
    script: str
    installs: tuple[tuple[str, ...], ...]


def environment(peer: Peer) -> Path | None:
    """Return the peer's Python, installed if need be; None with a sentence if it cannot be."""
    folder = Path(os.environ.get("COUNTERPOINT_BENCH_ENVS") or Path.home() / ".cache")
    folder = folder / "counterpoint-bench" / peer.name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if (folder / "ready").exists():
        return python
    print(f"Installing {peer.name} into an environment of its own")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    steps = [[sys.executable, "-m", "venv", "--clear", str(folder)]]
    for step in [*steps, *([*pip, *packages] for packages in peer.installs)]:
        if not _succeeds(step, f"{peer.name} is left out: it does not install here"):
            return None
    (folder / "ready").touch()
    return python


def run(peer: Peer, folder: Path, *arguments: str) -> Any:
    """Return the results that a peer's script writes for a folder; None if it does not run."""
    python = environment(peer)
    if python is None:
        return None
    command = [str(python), str(HERE / "peers" / peer.script), str(folder), *arguments]
    if not _succeeds(command, f"{peer.name} is left out: it does not run here"):
        return None
    return json.loads((folder / "results.json").read_text())


def _succeeds(command: list[str], sentence: str) -> bool:
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    clean |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    if done.returncode:
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"{sentence} ({message}).")
    return not done.returncode
