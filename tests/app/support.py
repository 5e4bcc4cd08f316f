"""Sends one request of any revision to a server, without a transport."""

from __future__ import annotations

from typing import Any

from ferrule.app.server import MCPServer
from ferrule.app.serving.in_process import _LocalDispatch
from ferrule.kernel.connection import Connection, NotifyOnly
from ferrule.kernel.runner import ServerRunner
from ferrule.transports.asgi.context import HttpContext
from ferrule.wire.codec import to_builtins
from ferrule.wire.revisions import LATEST_MODERN_VERSION, REVISIONS

LATEST = LATEST_MODERN_VERSION
V2024, V0326, V0618, V1125 = "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"
EVERY_REVISION = tuple(REVISIONS)


class RecordingDispatch(_LocalDispatch):
    """Keeps the notifications that a request sends."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        super().__init__(1, None)
        self.sent: list[tuple[str, Any]] = []

    async def notify(self, method: str, params: Any = None) -> None:
        self.sent.append((method, params))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.sent.append(("progress", (progress, total, message)))


def connection_of(version: str, **facts: Any) -> Connection:
    """A connection that is ready to serve, of any revision."""
    connection = Connection(NotifyOnly(None), REVISIONS[version])
    connection.initialize_accepted = True
    for name, value in facts.items():
        setattr(connection, name, value)
    return connection


async def ask(
    app: MCPServer[Any],
    method: str,
    params: dict[str, Any] | None = None,
    *,
    version: str = LATEST,
    state: Any = None,
    dispatch: Any = None,
    connection: Connection | None = None,
) -> dict[str, Any]:
    """The result of one request as its client would read it."""
    runner = ServerRunner(app.lowlevel, connection or connection_of(version), state)
    result = await runner.handle_request(dispatch or RecordingDispatch(), method, params or {})
    return to_builtins(result)


async def call(app: MCPServer[Any], name: str, arguments: Any = None, *, version: str = LATEST, **more: Any) -> Any:
    """The result of ``tools/call``."""
    return await ask(app, "tools/call", {"name": name, "arguments": arguments or {}}, version=version, **more)


def text_of(result: dict[str, Any]) -> str:
    """The text of a result's only block."""
    (block,) = result["content"]
    return block["text"]


class From(RecordingDispatch):
    """A request over HTTP."""

    __slots__ = ("transport",)

    def __init__(self, principal: Any) -> None:
        super().__init__()
        self.transport = HttpContext(principal=principal)
