"""Check every request before it is answered, its host, token and size, and log it."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from time import perf_counter
from typing import Any, final
from urllib.parse import parse_qs

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterpoint.app.words import clipped

LOG = logging.getLogger("counterpoint.app")
COOKIE = "counterpoint_token"
OPEN = "/health"  # for probes, which have no token
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def refusal(
    status: int, sentence: str, path: str = "", headers: dict[str, str] | None = None
) -> Response:
    """Return the response that refuses a request in a sentence.

    The sentence is cut where it is long, and what UTF-8 cannot hold is replaced. Under ``/v2`` it
    stands where the open inference protocol has it, too.
    """
    text = clipped(sentence).encode("utf-8", "replace").decode()
    is_v2 = f"{path}/".startswith("/v2/")
    return JSONResponse({"detail": text, **({"error": text} if is_v2 else {})}, status, headers)


@final
class Guard:
    """An application that only requests reach which pass the checks.

    Logs hold one JSON object for each request, with nothing that the client sent but the method
    and the length.
    """

    def __init__(
        self, app: ASGIApp, token: str | None, hosts: Collection[str], *, size: int, seconds: float
    ) -> None:
        self.app, self.token, self.hosts = app, token, frozenset(hosts)
        self.size, self.seconds = size, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":
            return
        start = perf_counter()
        logged: dict[str, Any] = {"status": 500, "bytes": 0}

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                logged["status"] = message["status"]
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            responder: ASGIApp | None = self._early_response(scope)
            # A health check sends no body, and does not wait for one to be read.
            body: bytes | Response = b""
            if responder is None and scope["path"] != OPEN:
                body = await self._body(scope, receive)
            if isinstance(body, Response):
                responder = body
            elif responder is None:
                logged["bytes"] = len(body)
                responder, receive = self.app, _replayed(body, receive)
            await responder(scope, receive, send_with_headers)
        finally:
            # the route as the application names it, and not the path that was sent
            logged["route"] = getattr(scope.get("route"), "path", None)
            logged["ms"] = round(1e3 * (perf_counter() - start), 1)
            LOG.info("answered", extra={"request": {"method": scope["method"], **logged}})

    def _early_response(self, scope: Scope) -> Response | None:
        """Return a refusal, or the redirect that stores the token; None if the app may answer."""
        headers, path = Headers(scope=scope), scope["path"]
        if self.token is None:
            if re.sub(r":\d*$", "", headers.get("host", "")) in self.hosts:
                return None
            return refusal(421, "This service answers this machine alone, as localhost.", path)
        if path == OPEN and scope["method"] in ("GET", "HEAD"):
            return None
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if token and path == "/" and self._fits(token):
            redirect = RedirectResponse("/", 303)
            redirect.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return redirect
        kind, _, credentials = headers.get("authorization", "").partition(" ")
        if self._fits(credentials if kind.lower() == "bearer" else _cookie(headers)):
            return None
        return refusal(
            401,
            "This needs the token that the service was started with: open the page with "
            "/?token=..., or send the header 'Authorization: Bearer ...'.",
            path,
            {"WWW-Authenticate": "Bearer"},
        )

    def _fits(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), (self.token or "").encode())

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Response:
        """Return the whole body, if it is small enough and arrives in time; else a refusal."""
        # Of a larger body, up to 16 times the size is read and thrown away, for clients that listen
        # for an answer only after they have sent everything.
        path, most = scope["path"], 16 * self.size
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 20:
            return refusal(400, "The header Content-Length is not a number.", path)
        body, is_whole = bytearray(), False
        received = int(length) if int(length) > most else 0  # such a body is not read at all
        with anyio.move_on_after(self.seconds) as time_limit:
            while not is_whole and received <= most:
                message = await receive()
                chunk = message.get("body", b"")
                received += len(chunk)
                if received <= self.size:
                    body += chunk
                is_whole = not message.get("more_body")
        if time_limit.cancelled_caught:
            sentence = f"The request did not arrive within {self.seconds:g} seconds."
            return refusal(408, sentence, path)
        if received > self.size:
            sentence = f"The request is larger than {self.size} bytes; send fewer rows."
            return refusal(413, sentence, path)
        return bytes(body)


def _cookie(headers: Headers) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a function that receives a body that was read already, and then what follows."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return unread.pop() if unread else await receive()

    return receive_again
