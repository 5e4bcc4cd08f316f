"""The other end of a loop driver, by hand: anyio memory object streams and nothing of Ferrule's client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ferrule.kernel.dispatch import StreamMessage, TransportContext
from ferrule.kernel.runner import serve_dual_era_loop, serve_loop
from ferrule.kernel.server import Server
from ferrule.types import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from ferrule.wire.codec import decode, encode

__all__ = [
    "CAPABILITIES",
    "ENVELOPE",
    "INFO",
    "FakeDispatch",
    "Peer",
    "handshake",
    "initialize",
    "modern",
    "note",
    "request",
    "result",
    "serving",
    "settled",
]

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
INFO = "io.modelcontextprotocol/clientInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

ENVELOPE: dict[str, Any] = {VERSION: LATEST_MODERN_VERSION, CAPABILITIES: {}, INFO: {"name": "c", "version": "1"}}

PATIENCE_S = 30
"""How long a test waits for what must come; no test decides by it."""

settled = anyio.wait_all_tasks_blocked
"""Return when no task can run: what has not been sent by now will not be."""


def request(id: Any, method: str, params: Any = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def note(method: str, params: Any = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def result(id: Any, value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def modern(
    id: Any,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    meta: dict[str, Any] | None = None,
    **capabilities: Any,
) -> dict[str, Any]:
    envelope = {**ENVELOPE, CAPABILITIES: capabilities, **(meta or {})}
    return request(id, method, {**(params or {}), "_meta": envelope})


def initialize(id: Any = 0, version: str = LATEST_HANDSHAKE_VERSION, **capabilities: Any) -> dict[str, Any]:
    client = {"name": "c", "version": "1"}
    return request(id, "initialize", {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client})


@dataclass
class Peer:
    """A client's end of the wire."""

    to_server: MemoryObjectSendStream[Any]
    from_server: MemoryObjectReceiveStream[Any]
    transport: TransportContext | None = None
    error: BaseException | None = None
    ended: anyio.Event = field(default_factory=anyio.Event)

    def send(self, *messages: Any) -> None:
        """Everything in one go, before the server can run."""
        for message in messages:
            item = message if isinstance(message, Exception) else StreamMessage(message, self.transport)
            self.to_server.send_nowait(item)

    async def receive(self) -> dict[str, Any]:
        """The next message, as JSON would carry it."""
        with anyio.fail_after(PATIENCE_S):
            item = await self.from_server.receive()
        assert isinstance(item, StreamMessage)
        return decode(encode(item.message))

    async def waiting(self) -> list[dict[str, Any]]:
        """All that has been sent once nothing moves any more."""
        await settled()
        found: list[dict[str, Any]] = []
        while True:
            try:
                found.append(decode(encode(self.from_server.receive_nowait().message)))
            except (anyio.WouldBlock, anyio.EndOfStream):
                return found

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a request and take the next message, which must be its answer."""
        self.send(message)
        answer = await self.receive()
        assert answer.get("id") == message["id"], answer
        return answer

    async def result(self, message: dict[str, Any]) -> dict[str, Any]:
        answer = await self.ask(message)
        assert "result" in answer, answer
        return answer["result"]

    async def error_of(self, message: dict[str, Any]) -> dict[str, Any]:
        answer = await self.ask(message)
        assert "error" in answer, answer
        return answer["error"]

    def hang_up(self) -> None:
        """No more input."""
        self.to_server.close()

    async def finish(self) -> None:
        """Hang up and wait for the driver to end."""
        self.hang_up()
        with anyio.fail_after(PATIENCE_S):
            await self.ended.wait()


async def handshake(peer: Peer, version: str = LATEST_HANDSHAKE_VERSION, **capabilities: Any) -> dict[str, Any]:
    """Open the legacy era, to the end."""
    answer = await peer.result(initialize(0, version, **capabilities))
    peer.send(note("notifications/initialized"))
    return answer


@asynccontextmanager
async def serving(
    server: Server[Any],
    driver: Callable[..., Any] = serve_loop,
    *,
    lifespan_state: Any = None,
    buffer: float = 1000,
    drain_s: float | None = None,
    **options: Any,
) -> AsyncIterator[Peer]:
    """A running driver and its peer; leaving hangs up and waits. What the driver raised is in ``peer.error``."""
    to_server, server_reads = anyio.create_memory_object_stream[Any](1000)
    server_writes, from_server = anyio.create_memory_object_stream[Any](buffer)
    peer = Peer(to_server, from_server)
    if drain_s is not None:
        setattr(server_reads, "drain_s", drain_s)  # noqa: B010 - what a read stream may say of itself

    async def drive() -> None:
        try:
            await driver(server, server_reads, server_writes, lifespan_state=lifespan_state, **options)
        except Exception as error:
            peer.error = error
        finally:
            peer.ended.set()

    with to_server, server_reads, server_writes, from_server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drive)
            yield peer
            await peer.finish()


DRIVERS = [serve_loop, serve_dual_era_loop]


@dataclass
class FakeDispatch:
    """A dispatch context that records; answers every question with ``answer``."""

    request_id: Any = 1
    transport: TransportContext = field(default_factory=lambda: TransportContext("test"))
    can_send_request: bool = True
    cancel_requested: bool = False
    answer: Any = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    told: list[tuple[str, Any]] = field(default_factory=list)
    progressed: list[tuple[float, float | None, str | None]] = field(default_factory=list)

    async def send_raw_request(self, method: str, params: Any = None, opts: Any = None) -> dict[str, Any]:
        self.asked.append((method, params))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def notify(self, method: str, params: Any = None) -> None:
        self.told.append((method, params))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.progressed.append((progress, total, message))
