"""Carries a conversation to the HTTP endpoint as an ASGI callable: one POST per message, no socket, no server.

It sends the headers that a client of the revision sends: content type and ``Accept``, the version, in the modern era
the mirrored method and name, in the legacy era the session id. It opens the GET stream of a legacy session right after
``notifications/initialized``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from ferrule.testing.carriers import Carrier, Mailbox
from ferrule.wire.codec import decode, encode
from ferrule.wire.headers import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    MCP_SESSION_ID_HEADER,
    encode_header_value,
)
from ferrule.wire.json_types import is_mapping
from ferrule.wire.revisions import Revision
from ferrule.wire.sse import EventReader, ServerSentEvent

if TYPE_CHECKING:
    from ferrule.kernel.server import Server

__all__ = ["open_asgi"]

_MAX_BYTES = 64 << 20
_NAME_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@asynccontextmanager
async def open_asgi(server: Server[Any], revision: Revision) -> AsyncGenerator[Carrier]:
    """Serve ``server`` over HTTP; see `ferrule.testing.carriers.open_carrier`."""
    from ferrule.transports.asgi.endpoint import HttpEndpoint
    from ferrule.transports.asgi.options import HttpOptions

    endpoint = HttpEndpoint(server, HttpOptions(loopback=True, keep_alive_s=None))
    try:
        async with anyio.create_task_group() as tasks:
            carrier = _AsgiCarrier(endpoint, revision, tasks)
            yield carrier
            carrier.hang_up()
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await endpoint.aclose()


class _AsgiCarrier:
    def __init__(self, app: Any, revision: Revision, tasks: TaskGroup) -> None:
        self._app = app
        self._revision = revision
        self._tasks = tasks
        self._mailbox = Mailbox()
        self._gone = anyio.Event()
        self._open = 0
        self._session_id: str | None = None
        self._last: _Exchange | None = None

    async def send(self, message: Any, headers: Mapping[str, str | None]) -> None:
        lines = {**self._headers(message), **headers}
        exchange = self._last = _Exchange(self)
        body = encode(message)
        if is_mapping(message) and "id" in message and "method" in message and message["method"] != "initialize":
            await self._tasks.start(exchange.run, "POST", lines, body)
        else:
            await exchange.run("POST", lines, body)
        self._session_id = exchange.headers.get(MCP_SESSION_ID_HEADER, self._session_id)
        if is_mapping(message) and message.get("method") == "notifications/initialized" and self._session_id:
            stream = _Exchange(self)
            get_lines = {**self._headers(None), "accept": "text/event-stream"}
            await self._tasks.start(stream.run, "GET", get_lines, b"")
            await stream.started.wait()

    async def send_raw(self, data: bytes, headers: Mapping[str, str | None]) -> None:
        self._last = _Exchange(self)
        await self._last.run("POST", {**self._headers(None), **headers}, data)

    async def receive(self) -> Any:
        return await self._mailbox.get()

    async def status(self) -> int | None:
        if self._last is None:
            return None
        await self._last.started.wait()
        return self._last.status

    async def close(self) -> None:
        self.hang_up()
        if not self._open:
            self._mailbox.close()

    def hang_up(self) -> None:
        """Close every connection of the client."""
        self._gone.set()

    def opened(self) -> None:
        """Count an exchange that begins."""
        self._open += 1

    def ended(self) -> None:
        """Count an exchange that has ended; after the last one of a client that hung up, no message can follow."""
        self._open -= 1
        if self._gone.is_set() and not self._open:
            self._mailbox.close()

    def put(self, data: bytes) -> None:
        """Queue a message of the server, in the bytes of its arrival."""
        self._mailbox.put(decode(data))

    async def call(self, scope: Any, receive: Any, send: Any) -> None:
        """Run the application."""
        await self._app(scope, receive, send)

    async def wait_gone(self) -> None:
        """Wait until the client hangs up."""
        await self._gone.wait()

    def _headers(self, message: Any) -> dict[str, str | None]:
        lines: dict[str, str | None] = {
            "host": "127.0.0.1",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        revision = self._revision
        if self._session_id is not None:
            lines[MCP_SESSION_ID_HEADER] = self._session_id
        if not revision.has_sessions or (revision.requires_version_header and self._session_id is not None):
            lines[MCP_PROTOCOL_VERSION_HEADER] = revision.version
        if revision.mirrors_headers and is_mapping(message):
            lines |= _mirrored(message)
        return lines


def _mirrored(message: Mapping[str, Any]) -> dict[str, str | None]:
    method, params = message.get("method"), message.get("params")
    if not isinstance(method, str):
        return {}
    lines: dict[str, str | None] = {MCP_METHOD_HEADER: encode_header_value(method)}
    name = params.get(_NAME_PARAMS.get(method, "")) if is_mapping(params) else None
    if isinstance(name, str):
        lines[MCP_NAME_HEADER] = encode_header_value(name)
    return lines


class _Exchange:
    """One HTTP request and its response."""

    def __init__(self, carrier: _AsgiCarrier) -> None:
        self._carrier = carrier
        self._reader: EventReader | None = None
        self._body = b""
        self._request: list[dict[str, Any]] = []
        self.started = anyio.Event()
        self.status: int | None = None
        self.headers: dict[str, str] = {}

    async def run(
        self,
        method: str,
        headers: Mapping[str, str | None],
        body: bytes,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Send the request and pass on every message of its response as it comes."""
        self._request = [{"type": "http.request", "body": body, "more_body": False}]
        raw = [
            (name.lower().encode("ascii"), value.encode("latin-1"))
            for name, value in headers.items()
            if value is not None
        ]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "root_path": "",
            "query_string": b"",
            "headers": raw,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self._carrier.opened()
        try:
            task_status.started()
            await self._carrier.call(scope, self._receive, self._send)
        finally:
            self.started.set()
            self._carrier.ended()

    async def _receive(self) -> dict[str, Any]:
        if self._request:
            return self._request.pop()
        await self._carrier.wait_gone()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]
            }
            if self.headers.get("content-type", "").startswith("text/event-stream"):
                self._reader = EventReader(_MAX_BYTES)
            self.started.set()
            return
        body = message.get("body", b"")
        if self._reader is not None:
            for event in self._reader.feed(body):
                if isinstance(event, ServerSentEvent) and event.data:
                    self._carrier.put(event.data)
            return
        self._body += body
        if not message.get("more_body", False) and self._body:
            self._carrier.put(self._body)
