"""Serve answers for one model, to programs and on a page: `make_app`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import counterpoint as cp
from counterpoint.errors import missing_extra

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp

__all__ = ["make_app"]


def make_app(  # noqa: PLR0913 (as an estimator: options have names)
    model: Any,
    data: Any,
    problem: cp.Problem | None = None,
    *,
    people: Any = None,
    token: str | None = None,
    hosts: Collection[str] = ("localhost", "127.0.0.1", "[::1]"),
    rows: int = 256,
    seconds: float = 10.0,
    size: int = 2**20,
) -> ASGIApp:
    """Return an ASGI application that explains the decisions of one model: a service and a page.

    Parameters
    ----------
    model
        A fitted model that `Explainer` takes.
    data
        A data frame of rows like those that the model was fitted on.
    problem
        The policy: its target is the default one, and its cost and its constraints hold whatever
        is asked for.
    people
        A data frame of the rows that the page offers to choose from; None for ``data``.
    token
        What every request has to bring, but for ``GET /health``; None for none, and then only
        requests to ``hosts`` are answered.
    hosts
        The names that requests go by, without ports.
    rows, seconds, size
        The most that one request may ask for: rows, seconds of search, and bytes.

    Returns
    -------
    starlette.types.ASGIApp

    Raises
    ------
    MissingExtra
        If FastAPI or Jinja is not installed.
    UnsupportedModel, ModelNotFitted
        If the model cannot be read.
    InvalidInput
        If the policy does not fit the model, or no header can carry the token.
    """
    if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
        raise cp.InvalidInput("Expected a token of letters and digits of ASCII; choose another.")
    try:
        from counterpoint.app.dashboard import Dashboard
        from counterpoint.app.guard import Guard
        from counterpoint.app.service import service
    except ImportError as error:
        raise missing_extra(f"The service needs {error.name}", "app") from None
    dashboard = Dashboard(model, data, problem or cp.Problem(), people, rows=rows, seconds=seconds)
    return Guard(service(dashboard), token, hosts, size=size, seconds=seconds)
