"""The service under load on this machine, and how fast the page reacts in a browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import numpy as np
from harness.report import Claim, Section, is_quick, publish

TEXT = """
`counterpoint serve` with the demonstration's model of German credit and its policy. *Load*: clients
on the loopback ask as fast as they are answered, each time about another applicant within other
limits, so that nothing is kept from before. *Page*: from a slider's event to the changed page, in a
headless Chromium. Times but those of the processor are on the clock; clients and browser run on the
same cores.
"""
PORT = 8799
REACTIONS = """
async ([selector, values]) => {
  const times = [];
  for (const [k, value] of values.entries()) {
    const all = document.querySelectorAll(selector);
    const input = all[k % all.length];
    const done = new Promise((r) => document.addEventListener("answered", r, { once: true }));
    const start = performance.now();
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    if (selector === "#search") input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    await done;
    times.push(performance.now() - start);
    await new Promise((r) => setTimeout(r, 50));
  }
  return times;
}
"""


def measured(pid: int) -> tuple[float, float]:
    """Resident memory of a process, in MiB, and its CPU time, in seconds."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    resident = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    ticks = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
    return resident / 1024, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def ask(connection: HTTPConnection, path: str, body: Any = None) -> tuple[int, bytes, float]:
    start = perf_counter()
    method, text = ("GET", None) if body is None else ("POST", json.dumps(body))
    connection.request(method, path, text, {"Content-Type": "application/json"})
    response = connection.getresponse()
    body = response.read()
    return response.status, body, perf_counter() - start


def client(seed: int, rows: Sequence[Any], end: float) -> tuple[list[float], int]:
    """Seconds of each answer, and how many were none."""
    random, connection = np.random.default_rng(seed), HTTPConnection("localhost", PORT)
    times, failed = [], 0
    while perf_counter() < end:
        limit = {"kind": "bounds", "feature": "LoanDuration", "high": random.uniform(40, 72)}
        row = rows[random.integers(len(rows))]
        status, _, seconds = ask(connection, "/explain", {"rows": [row], "constraints": [limit]})
        times.append(seconds)
        failed += status != 200
    connection.close()
    return times, failed


def load(clients: int, seconds: float, rows: Sequence[Any], pid: int) -> list[Any]:
    """One line of the table."""
    (before, used), start = measured(pid), perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        futures = [pool.submit(client, k, rows, start + seconds) for k in range(clients)]
        results = [future.result() for future in futures]
    passed, (after, spent) = perf_counter() - start, measured(pid)
    times = np.concatenate([answered for answered, _ in results])
    p50, p99 = 1e3 * np.quantile(times, (0.5, 0.99))
    failed, n = sum(failures for _, failures in results), len(times)
    cpu = 1e3 * (spent - used) / n
    return [
        *(clients, f"{passed:.0f} s", n, failed, f"{n / passed:.1f}", f"{p50:.0f} ms"),
        *(f"{p99:.0f} ms", f"{cpu:.0f} ms", f"{before:.0f}", f"{after:.0f}"),
    ]


def reactions(count: int) -> list[list[Any]]:
    """Of the page: what was done, and how long it took; none without a browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return []
    from playwright.sync_api import sync_playwright

    done = {
        "another limit": (".range .high", [str(5 + k % 15) for k in range(count)]),
        "another effort": (".effort", [str(k % 5 - 2) for k in range(count)]),
        "another person": ("#search", [str(3 * k + 1) for k in range(count)]),
    }
    rows: list[list[Any]] = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://localhost:{PORT}/")
        page.wait_for_selector("#plans svg")
        for name, (selector, values) in done.items():
            p50, p95 = np.quantile(page.evaluate(REACTIONS, [selector, values]), (0.5, 0.95))
            rows.append([name, count, f"{p50:.0f} ms", f"{p95:.0f} ms"])
        browser.close()
    return rows


def main() -> None:
    quick = is_quick()
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "counterpoint"]
        subprocess.run([*command, "demo", "--save", folder], check=True, stdout=subprocess.DEVNULL)
        options = ["serve", "model.skops", "--data", "train.csv", "--spec", "policy.toml"]
        with subprocess.Popen(
            [*command, *options, "--port", str(PORT)], cwd=folder, stderr=subprocess.DEVNULL
        ) as server:
            try:
                rows = started()
                load(8, 2.0 if quick else 5.0, rows, server.pid)  # what is made once is made
                lines = [load(n, 3.0 if quick else 60.0, rows, server.pid) for n in (1, 8)]
                page = reactions(10 if quick else 100)
            finally:
                server.terminate()
    growth, failed = float(lines[-1][-1]) - float(lines[-1][-2]), sum(line[3] for line in lines)
    what, mib = "memory, from the first to the last of 8 clients", f"{growth:.0f} MiB"
    claims = [
        Claim("requests without an answer", "at most 0", str(failed), failed == 0),
        Claim(what, "below 16 MiB", mib, growth < 16),
    ]
    columns = (
        *("clients", "for", "requests", "failed", "a second", "median", "99 %"),
        *("CPU a request", "MiB before", "MiB after"),
    )
    sections = [Section("", TEXT, columns, lines, claims=claims)]
    if page:
        columns = ("what was done", "times", "median", "95 %")
        claims = [
            Claim(f"page: {name}, 95 %", "at most 100 ms", late, float(late.split()[0]) <= 100)
            for name, _, _, late in page
        ]
        sections.append(Section("The page", "On the clock.", columns, page, claims=claims))
    packages = ("fastapi", "uvicorn")
    publish("app", "The service and the page", sections, quick=quick, packages=packages)


def started() -> list[Any]:
    """Rows of the service, once it answers."""
    connection = HTTPConnection("localhost", PORT)
    for _ in range(240):
        try:
            ask(connection, "/health")
            break
        except OSError:
            connection.close()
            sleep(0.25)
    rows = [ask(connection, f"/desk/rows/{i}") for i in range(100)]
    connection.close()
    return [json.loads(text) for status, text, _ in rows if status == 200]


if __name__ == "__main__":
    main()
