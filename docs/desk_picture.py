"""Draw the picture of the what-if page in its guide: ``python docs/desk_picture.py``.

It needs what the tests need (``make test``), and a Chromium.
"""

from __future__ import annotations

import shutil
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import sleep

import pandas as pd
import skops.io
import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright
from typer.testing import CliRunner

import counterpoint as cp
from counterpoint.app import make_app
from counterpoint.cli import app as commands

FILE = Path(__file__).with_name("_static") / "desk.png"
DESKTOP = {"viewport": {"width": 1180, "height": 940}}


def main() -> None:
    """Serve the model of the demonstration, and take a picture of its page."""
    with TemporaryDirectory() as folder:
        CliRunner().invoke(commands, ["demo", "--save", folder], catch_exceptions=False)
        at = Path(folder)
        trusted = skops.io.get_untrusted_types(file=at / "model.skops")
        model = skops.io.load(at / "model.skops", trusted=trusted)
        app = make_app(model, pd.read_csv(at / "train.csv"), cp.Problem.load(at / "policy.toml"))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        sleep(0.01)
    address = f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}"
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_context(**DESKTOP).new_page()
        page.goto(address)
        page.wait_for_selector("#plans svg")
        picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
        picture.quantize(64).save(FILE, optimize=True)  # colours are flat: a third of the bytes
        browser.close()
    server.should_exit = True
    thread.join()


if __name__ == "__main__":
    main()
