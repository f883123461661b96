"""`counterpoint serve` runs a service and a page that answer for one model."""

from __future__ import annotations

import json
import logging
import os
import secrets
from pathlib import Path
from typing import Annotated, Any, final

import typer

import counterpoint as cp
from counterpoint.app import make_app
from counterpoint.cli.files import read_rows
from counterpoint.cli.options import Count
from counterpoint.cli.question import Source

LOOPBACK = ("localhost", "127.0.0.1", "::1")
TOKEN = "COUNTERPOINT_TOKEN"  # noqa: S105 (the name of a variable)


def serve(
    source: Source,
    people: Path | None = None,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8765,
    rows: Count = 256,
    seconds: Annotated[float, typer.Option(min=0.1)] = 10.0,
    size: Annotated[int, typer.Option(min=1024)] = 2**20,
) -> None:
    """Serve a page to try what-ifs of a model on, and the same answers over HTTP.

    The page is at the address that is shown; POST /explain and /recheck, GET /model, /health and
    /openapi.json are for programs. Stop it with Ctrl+C.

    Parameters
    ----------
    people : ROWS
        The rows that the page offers; without it, those of --data.
    host : HOST
        Where to listen. For any host but this one, requests need a token: that of
        COUNTERPOINT_TOKEN, or one that is drawn and shown.
    port : PORT
        The port there.

    Limits of one request
    ---------------------
    rows : N
        Rows.
    seconds
        Seconds of search.
    size : BYTES
        Bytes.

    Examples
    --------
    counterpoint serve model.skops --data train.csv --spec policy.toml
    """
    model, train, problem = source.loaded()
    if train is None:
        raise cp.InvalidInput("Expected --data, whose rows the page offers; got none.")
    limits: dict[str, Any] = {"rows": rows, "seconds": seconds, "size": size}
    token = None
    if host not in LOOPBACK:
        token = os.environ.get(TOKEN) or secrets.token_urlsafe(32)
    offered = None if people is None else read_rows(people)
    app = make_app(model, train, problem, people=offered, token=token, **limits)
    import uvicorn

    from counterpoint.app.connections import MOST_IDLE, Connection

    name = f"[{host}]" if ":" in host else host
    query = f"/?token={token}" if token and not os.environ.get(TOKEN) else "/"
    typer.echo(f"The page: http://{name}:{port}{query}", err=True)
    uvicorn.run(
        app,
        host=host,
        port=port,
        log_config=LOGS,
        access_log=False,
        server_header=False,
        ws="none",
        http=Connection,
        limit_concurrency=64 + MOST_IDLE,
        timeout_graceful_shutdown=5,
    )


@final
class Lines(logging.Formatter):
    """A format of logs: one JSON object a line.

    Of an error it has the type and the place alone, for its text may quote rows.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the time, level, source and message of a record; of an error, its place."""
        line = {"at": self.formatTime(record), "level": record.levelname, "by": record.name}
        if record.exc_info and record.exc_info[0]:
            kind, _, trace = record.exc_info
            while trace and trace.tb_next:
                trace = trace.tb_next
            where = trace and f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
            return json.dumps({**line, "error": kind.__name__, "where": where})
        return json.dumps(line | {"said": record.getMessage()} | getattr(record, "request", {}))


LOGS: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"lines": {"()": Lines}},
    "handlers": {"lines": {"class": "logging.StreamHandler", "formatter": "lines"}},
    "root": {"level": "INFO", "handlers": ["lines"]},
    "loggers": {"uvicorn.error": {"level": "WARNING"}},
}
