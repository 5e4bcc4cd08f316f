"""One connection of the page to the inspected server, in one era.

The page has a main connection, and one for each era when it shows them side by side. Each has its own client, and
every message is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import anyio

from ferrule.client.client import Client
from ferrule.client.connection.channels import ClientChannel, StdioChannel, StreamChannel
from ferrule.client.connection.connector import Connector
from ferrule.client.targets import StdioTarget
from ferrule.inspector.trace import ConnectionTrace, TracedInput, TracedOutput, TracingHttpClient
from ferrule.protocol.capabilities import SKILLS_EXTENSION, extension_settings
from ferrule.protocol.errors import ConnectionClosed
from ferrule.transports.background import Background
from ferrule.transports.stdio.client import ServerProcess, connect_stdio
from ferrule.wire.codec import to_builtins
from ferrule.wire.types import Implementation

if TYPE_CHECKING:
    from ferrule.inspector.target import InspectedTarget

__all__ = ["InspectorConnection", "TracedClient"]


class _TracedStdioChannel(StdioChannel):
    """A server process whose streams are recorded."""

    def __init__(self, process: ServerProcess, trace: ConnectionTrace, **options: Any) -> None:
        self.process = process
        output = TracedOutput(process.read_stream, trace)
        process.read_stream.decode = output.decode
        streams = output, TracedInput(process.write_stream, trace)
        StreamChannel.__init__(self, *streams, **options)


class _TracedConnector(Connector):
    """Opens channels whose messages are recorded."""

    trace: ConnectionTrace

    @classmethod
    def instead_of(cls, connector: Connector, trace: ConnectionTrace) -> _TracedConnector:
        """Return a connector with the same options that records what it opens."""
        # Every field of the dataclass, so that a new option is not lost here.
        made = cls(**{field.name: getattr(connector, field.name) for field in fields(connector)})
        made.trace = trace
        return made

    async def make_channel(self, background: Background) -> ClientChannel:
        if isinstance(self.target, StdioTarget):
            process = await connect_stdio(self.target.server)
            return _TracedStdioChannel(process, self.trace, **self.stream_options(background))
        return await Connector.make_channel(self, background)


class TracedClient(Client):
    """A client whose messages are recorded.

    Args:
        target: a process or a URL.
        trace: records each message.
        options: the options of `Client`.
    """

    def __init__(self, target: Any, *, trace: ConnectionTrace, **options: Any) -> None:
        super().__init__(target, **options)
        self._sessions.connector = _TracedConnector.instead_of(self._sessions.connector, trace)


class InspectorConnection:
    """A client, and its state for the page.

    Attributes:
        name: ``"main"``, ``"legacy"`` or ``"modern"``.
        mode: the ``mode`` of the client: ``"auto"``, ``"legacy"`` or a revision.
        client: the client, connected or connecting.
        state: ``"connecting"``, ``"open"``, ``"failed"`` or ``"closed"``.
        error: the reason if it failed; empty otherwise.
    """

    def __init__(
        self, name: str, target: InspectedTarget, mode: str, trace: ConnectionTrace, options: dict[str, Any]
    ) -> None:
        self.name = name
        self.mode = mode
        self.state = "connecting"
        self.error = ""
        self._http: TracingHttpClient | None = None
        self._opening = anyio.CancelScope()
        on_stderr = options.pop("on_stderr")
        if target.is_http:
            from ferrule.transports.http.aiohttp_backend import AiohttpClient
            from ferrule.transports.http.backend import HttpClientOptions

            self._http = TracingHttpClient(AiohttpClient(HttpClientOptions()), trace, target.url)
            options["http"] = self._http
        self.client = TracedClient(
            target.with_stderr(on_stderr), trace=trace, mode=mode, cache=False, client_info=_client_info(), **options
        )

    async def connect(self) -> None:
        """Connect to the server.

        Raises:
            LocalError, RemoteError: the connection failed; ``error`` then has the reason.
        """
        try:
            with self._opening:
                await self.client.connect()
        except BaseException as error:
            self.state, self.error = "failed", str(error) or type(error).__name__
            raise
        # Without this check a connection that was closed meanwhile would count as open.
        if self._opening.cancel_called:
            raise ConnectionClosed("The connection was closed while it was made")
        self.state = "open"

    async def aclose(self) -> None:
        """Close the client, its process and its HTTP connections; cancel an attempt to connect that still runs."""
        self.state = "closed"
        self._opening.cancel()  # a sign-in may wait for minutes and holds the lock of this connection
        try:
            await self.client.aclose()
        finally:
            if self._http is not None:
                await self._http.aclose()

    def note_loss(self) -> bool:
        """Return whether an open connection was found lost now; its state is ``"failed"`` then."""
        if self.state != "open" or self.client.is_connected:
            return False
        self.state, self.error = "failed", "The server has ended. The next call starts it again"
        return True

    def describe(self) -> dict[str, Any]:
        """Return the connection's state as the JSON object that the page shows."""
        facts: dict[str, Any] = {"name": self.name, "mode": self.mode, "state": self.state, "error": self.error}
        if self.state == "open" and self.client.is_connected:
            client = self.client
            capabilities: Mapping[str, Any] = client.session.raw.get("capabilities") or {}
            info: Any = None if client.server_info is None else to_builtins(client.server_info)
            facts |= {
                "version": client.protocol_version,
                "is_modern": client.is_modern,
                "server": info,
                "capabilities": capabilities,
                "instructions": client.instructions or "",
                "has_tasks": self._has_tasks(capabilities),
                "has_skills": extension_settings(capabilities, SKILLS_EXTENSION) is not None,
            }
        return facts

    def _has_tasks(self, capabilities: Mapping[str, Any]) -> bool:
        from ferrule.client.calls.tasks import TASKS_EXTENSION

        return "tasks" in capabilities or TASKS_EXTENSION in (capabilities.get("extensions") or {})


def _client_info() -> Implementation:
    from ferrule import __version__

    return Implementation(name="ferrule-inspector", version=__version__, title="Ferrule inspector")
