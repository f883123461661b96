"""Close connections to the service on which no request is finished in time."""

from __future__ import annotations

import asyncio
from typing import final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

PATIENCE = 10.0  # seconds until the headers of the next request are complete
MOST_IDLE = 64  # connections; a page opens six


@final
class Connection(H11Protocol):
    """A connection that is closed if nothing is being answered on it for too long.

    uvicorn limits neither the time until a first request comes nor that for its headers, and any
    byte stops its limit between two requests. Where too many are idle, the one that has been so for
    longest is closed: whoever opens connections and sends nothing takes no place from a client that
    sends its request at once.
    """

    deadline: asyncio.TimerHandle | None = None  # None while a request is answered

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for headers."""
        super().connection_made(transport)
        self._wait()
        idle = {
            connection.deadline.when(): connection
            for connection in self.connections
            if isinstance(connection, Connection) and connection.deadline
        }
        if len(idle) > MOST_IDLE:
            idle[min(idle)].close()

    def data_received(self, data: bytes) -> None:
        """Go on waiting, if the headers are not complete."""
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        self._stop()

    def close(self) -> None:
        """End the connection at once."""
        self._stop()
        self.transport.abort()

    def _wait(self) -> None:
        """Set a deadline if there is none, or remove it while a request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._stop()
        elif self.deadline is None and not self.transport.is_closing():
            self.deadline = self.loop.call_later(PATIENCE, self.close)

    def _stop(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
