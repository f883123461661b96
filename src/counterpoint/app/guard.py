"""What every request has to pass: host, token, size; and what is logged of it."""

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

__all__ = ["Guard", "refusal"]

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


def refusal(status: int, sentence: str, path: str = "") -> Response:
    """A sentence for a client; what is no text in UTF-8 is replaced.

    Under ``/v2`` it stands where the open inference protocol has it, too.
    """
    text = sentence.encode("utf-8", "replace").decode()
    is_v2 = path == "/v2" or path.startswith("/v2/")
    return JSONResponse({"detail": text, **({"error": text} if is_v2 else {})}, status)


@final
class Guard:
    """An application behind a door: nothing of a request that does not pass reaches it.

    Logs hold one JSON object for each request, with nothing that the client sent but the method
    and the length.
    """

    def __init__(
        self, app: ASGIApp, token: str | None, hosts: Collection[str], *, size: int, seconds: float
    ) -> None:
        self.app = app
        self.token = token
        self.hosts = frozenset(hosts)
        self.size = size
        self.seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        start = perf_counter()
        told: dict[str, Any] = {"status": 500, "bytes": 0}

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                told["status"] = message["status"]
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answer: ASGIApp | None = self._stopped(scope)
        if answer is None and scope["path"] == OPEN:
            answer, receive = self.app, _again(b"", receive)  # whoever asks it sends nothing more
        elif answer is None:
            body = await self._body(scope, receive)
            if isinstance(body, bytes):
                told["bytes"] = len(body)
                answer, receive = self.app, _again(body, receive)
            else:
                answer = body
        try:
            await answer(scope, receive, sent)
        finally:
            self._log(scope, told, start)

    @staticmethod
    def _log(scope: Scope, told: dict[str, Any], start: float) -> None:
        told["route"] = getattr(scope.get("route"), "path", None)  # what matched; no text of theirs
        told["ms"] = round(1e3 * (perf_counter() - start), 1)
        LOG.info("answered", extra={"request": {"method": scope["method"], **told}})

    def _stopped(self, scope: Scope) -> Response | None:
        """The answer to a request that may not pass; None to one that may."""
        headers = Headers(scope=scope)
        if self.token is None:
            host = re.sub(r":\d*$", "", headers.get("host", ""))
            if host in self.hosts:
                return None
            sentence = "This service answers this machine alone, as localhost."
            return refusal(421, sentence, scope["path"])
        if scope["path"] == OPEN and scope["method"] in ("GET", "HEAD"):
            return None
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if asked and scope["path"] == "/" and self._fits(asked):
            response = RedirectResponse("/", 303)
            response.set_cookie(COOKIE, asked, httponly=True, samesite="strict")
            return response
        kind, _, given = headers.get("authorization", "").partition(" ")
        if self._fits(given if kind.lower() == "bearer" else _cookie(headers)):
            return None
        answer = refusal(
            401,
            "This needs the token that the service was started with: open the page with "
            "/?token=..., or send the header 'Authorization: Bearer ...'.",
            scope["path"],
        )
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    def _fits(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), (self.token or "").encode())

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Response:
        """The whole body, if it is small enough and comes in time."""
        path = scope["path"]
        said = f"The request is larger than {self.size} bytes; send fewer rows."
        large = refusal(413, said, path)
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 20:
            return refusal(400, "The header Content-Length is not a number.", path)
        if int(length) > 16 * self.size:
            return large
        body, came = bytearray(), 0
        with anyio.move_on_after(self.seconds):
            while came <= 16 * self.size:
                message = await receive()
                part = message.get("body", b"")
                came += len(part)
                if came <= self.size:  # what is more is read, for clients that listen after they
                    body += part  # have sent everything, and thrown away
                if not message.get("more_body"):
                    return bytes(body) if came <= self.size else large
            return large
        said = f"The request did not arrive within {self.seconds:g} seconds."
        return refusal(408, said, path)


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, then whatever comes after it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received
