"""Requests of a program to a server in the same process: through middleware and handlers, without a transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import CallOptions, OnProgress, TransportContext
from ferrule.kernel.runner import ServerRunner, aclose_shielded
from ferrule.kernel.server import Server
from ferrule.protocol.errors import NoBackChannel
from ferrule.wire.revisions import MODERN_PROTOCOL_VERSIONS

__all__ = ["LocalCaller", "LocalContext"]


class LocalContext(TransportContext):
    """The request came from this program; ``kind`` is ``"local"``."""


_TRANSPORT = LocalContext("local", can_send_request=False)


class _LocalDispatch:
    """The dispatch context of a local request: progress goes to a callback, other notifications are dropped."""

    __slots__ = ("_on_progress", "request_id")

    transport = _TRANSPORT
    can_send_request = False
    cancel_requested = False

    def __init__(self, request_id: int, on_progress: OnProgress | None) -> None:
        self.request_id = request_id
        self._on_progress = on_progress

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannel(f"{method} cannot be sent: the call came from this program")

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        return None

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self._on_progress is not None:
            outcome = self._on_progress(progress, total, message)
            if outcome is not None:
                await outcome


class LocalCaller:
    """Calls one server within its own program, as a modern client without capabilities.

    Args:
        server: the server.
    """

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._ids = count(1)
        self._state: Any = None
        self._running = 0

    @asynccontextmanager
    async def started(self) -> AsyncGenerator[Any]:
        """Enter the server's lifespan, unless it is entered already, and yield its state."""
        if self._running:
            self._running += 1
            try:
                yield self._state
            finally:
                self._running -= 1
            return
        async with self._server.lifespan() as state:
            self._state, self._running = state, 1
            try:
                yield state
            finally:
                self._state, self._running = None, 0

    async def request(self, method: str, params: Mapping[str, Any], on_progress: OnProgress | None = None) -> Any:
        """Return the finished result of one request; outside `started`, the lifespan is entered for this request.

        Raises:
            Exception: any exception of middleware or handler.
        """
        async with self.started() as state:
            dispatch = _LocalDispatch(next(self._ids), on_progress)
            version = (self._server.modern_versions or MODERN_PROTOCOL_VERSIONS)[-1]
            connection = Connection.from_envelope(version, None, {}, outbound=dispatch)
            try:
                return await ServerRunner(self._server, connection, state).handle_request(dispatch, method, params)
            finally:
                await aclose_shielded(connection)
