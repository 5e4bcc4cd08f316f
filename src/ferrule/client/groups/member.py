"""One server of a group: its sessions, the state of its connection, its limits, and what it has listed."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio

from ferrule.client.client import Client
from ferrule.client.concurrent import gather
from ferrule.client.config_settings import ServerSettings
from ferrule.client.errors import UnknownServer
from ferrule.client.supervision.limits import CallLimits
from ferrule.client.supervision.status import ConnectionState, ConnectionStatus
from ferrule.client.supervision.supervisor import ConnectionSupervisor
from ferrule.protocol.errors import ConnectionClosed, FerruleError, LocalError, MCPError
from ferrule.transports.http.backend import HttpConnectFailed
from ferrule.transports.http.errors import SessionLost
from ferrule.wire.types import Tool

if TYPE_CHECKING:
    from ferrule.client.calls.results import ToolCallResult

__all__ = ["CONNECTION_ERRORS", "MAX_SESSIONS", "GroupMember", "MakeClient", "is_safe_to_repeat", "no_attempt"]

logger = logging.getLogger("ferrule.client")

MAX_SESSIONS: Final = 64
"""The most sessions with one server."""
CONNECTION_ERRORS: Final = (ConnectionClosed, HttpConnectFailed, SessionLost)
"""Errors of a call after which the connection must be opened again."""

MakeClient = Callable[[], Client]


class GroupMember:
    """One server of a group.

    Args:
        name: its key in the configuration.
        target: the server, as `ferrule.client.config.read_target` has read it.
        settings: what the configuration says about its use.
        make: returns a new client of it; ``None`` if the entry is malformed.
        sessions: the most sessions with it at the same time.

    Attributes:
        name, target, settings: as given.
        client: the client of its first session; ``None`` if the entry is malformed.
        keeper: keeps that session.
        limits: the calls in progress, and how many there may be.
        tools: the server's own name of a tool → the tool as it was listed last.
        known: kind of list → what the server listed last.
        late: the kinds of lists that the server is being asked for, longer than lists wait.
    """

    def __init__(
        self, name: str, target: Any, settings: ServerSettings, make: MakeClient | None, *, sessions: int = 1
    ) -> None:
        self.name = name
        self.target = target
        self.settings = settings
        self.client = None if make is None else make()
        self.limits = CallLimits(max_concurrent=settings.max_concurrent)
        self.tools: dict[str, Tool] = {}
        self.known: dict[str, list[Any]] = {}
        self.late: set[str] = set()
        self.keeper = ConnectionSupervisor(name, no_attempt)
        self._make = make
        self._sessions = sessions
        self._opening = 0
        self._calls: set[anyio.CancelScope] = set()
        self._busy: dict[Client, int] = {} if self.client is None else {self.client: 0}

    def __repr__(self) -> str:
        return f"GroupMember({self.name!r}, {'up' if self.is_up else f'error={self.error!r}'})"

    @property
    def status(self) -> ConnectionStatus:
        """The state of its connection, with times and the last error."""
        return self.keeper.status

    @property
    def state(self) -> ConnectionState:
        """The state of its connection, as one word."""
        return self.keeper.state

    @property
    def error(self) -> Exception | None:
        """The reason why it is not connected; ``None`` while it is connected, and during the first attempt."""
        return self.keeper.error

    @property
    def is_up(self) -> bool:
        """Whether the server is connected."""
        return self.client is not None and self.keeper.is_up

    @property
    def sessions(self) -> int:
        """The sessions with it that are open."""
        return sum(client.is_connected for client in self._busy)

    # -- its life -----------------------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Open the first session, or open it again after it has ended.

        HTTP does not show the end of a server: a session that is still there counts if the server answers a ping."""
        client = self.client
        assert client is not None
        is_there = client.session_now() is not None
        try:
            await client.connect()
            await client.session_again()
            if is_there:
                await client.ping(timeout_s=client.timeouts.connect_timeout_s)
        except FerruleError as error:
            self._name(error)
            raise

    def _name(self, error: FerruleError) -> None:
        """Let an error about a process, which knows its command only, name the server as the configuration does."""
        if error.server is not None and error.server != self.name:
            error.server = self.name
            error.args = (f"{self.name}: {error}", *error.args[1:])

    async def ended(self) -> Exception | None:
        """Return when the first session has ended, and no call has opened it again."""
        assert self.client is not None
        while (session := self.client.session_now()) is not None:
            await session.channel.wait_closed()
            await anyio.lowlevel.checkpoint()
        return None

    async def aclose(self) -> None:
        """Close every session. Idempotent."""
        self.keeper.close()
        await gather([client.aclose() for client in self._busy])
        self._busy = {} if self.client is None else {self.client: 0}

    async def drain(self, seconds: float) -> None:
        """Close it when its calls have ended, at the latest after so many seconds."""
        try:
            with anyio.move_on_after(seconds):
                await self.limits.idle()
        finally:
            with anyio.CancelScope(shield=True):
                await self.aclose()

    # -- calls --------------------------------------------------------------------------------------------------------

    async def reached(self) -> Client:
        """Return the connected client of the first session; a server that is not connected is tried once more.

        Raises:
            ServerUnavailable: the circuit of the server is open.
            Exception: the reason why the attempt to connect failed.
        """
        if not self.keeper.is_up:
            await self.keeper.reach()
        assert self.client is not None
        return self.client

    @asynccontextmanager
    async def session(self, method: str) -> AsyncGenerator[Client]:
        """Use a session for one request: one that is free, a new one, or the one with the fewest requests.

        Args:
            method: the method of the request.

        Raises:
            Exception: as `reached`; and what the request raises, after it was recorded where the connection is lost.
        """
        async with self.limits.call(method):
            client = await self.reached()
            if self._sessions > 1:
                client = await self._free()
            self._busy[client] = self._busy.get(client, 0) + 1
            scope = anyio.CancelScope()
            self._calls.add(scope)
            try:
                with scope:
                    yield client
                if scope.cancelled_caught:
                    raise self.keeper.unavailable()
            except CONNECTION_ERRORS as error:
                self._name(error)
                if client is self.client:
                    self.keeper.lose(error)
                raise
            except MCPError:  # an answer, too
                self.keeper.succeed()
                raise
            else:
                self.keeper.succeed()
            finally:
                self._calls.discard(scope)
                if client in self._busy:
                    self._busy[client] -= 1

    def end_calls(self) -> None:
        """End the calls in progress with `ServerUnavailable`: the server has failed several times since they began."""
        for scope in list(self._calls):
            scope.cancel()

    async def _free(self) -> Client:
        client = min(self._busy, key=lambda each: self._busy[each])
        if not self._busy[client] or len(self._busy) + self._opening >= self._sessions or self._make is None:
            return client
        made = self._make()
        self._opening += 1
        try:
            await made.connect()
        except Exception as error:
            logger.info("A further session with the server %r failed: %s", self.name, error)
            return client
        finally:
            self._opening -= 1
        if self.state == "closed":  # while it connected
            await made.aclose()
            return client
        self._busy[made] = 0
        return made

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None, options: Mapping[str, Any], *, repeats: bool
    ) -> ToolCallResult:
        """Call a tool by the server's own name of it.

        Args:
            name, arguments: as for `Client.call_tool`.
            options: further options of `Client.call_tool`.
            repeats: call it once more after the connection was lost, if the tool says that this is safe.
        """
        was_sent = False
        try:
            async with self.session("tools/call") as client:
                was_sent = True
                return await client.call_tool(name, arguments, **options)
        except CONNECTION_ERRORS as error:
            if not was_sent or not repeats or self.state == "closed" or not self._may_repeat(name, options):
                raise
            logger.info("The call of %r of the server %r is repeated: %s", name, self.name, error)
        async with self.session("tools/call") as client:
            return await client.call_tool(name, arguments, **options)

    def _may_repeat(self, name: str, options: Mapping[str, Any]) -> bool:
        tool = self.tools.get(name)
        return tool is not None and is_safe_to_repeat(tool) and options.get("request_state") is None

    # -- its tools ----------------------------------------------------------------------------------------------------

    def shown(self, tools: list[Tool]) -> list[Tool]:
        """Return listed tools as the configuration shows them, and remember what they say."""
        from msgspec.structs import replace

        self.tools = {tool.name: tool for tool in tools}
        if not self.settings.changes_tools:
            return tools
        made: list[Tool] = []
        for tool in tools:
            texts = self.settings.shown_tool({"name": tool.name})
            if texts is not None:
                made.append(replace(tool, **texts))
        return made

    def own_name(self, shown: str) -> str:
        """Return the server's own name of a tool.

        Raises:
            UnknownServer: the configuration leaves this tool out.
        """
        if not self.settings.changes_tools:
            return shown
        own = self.settings.own_name(shown)
        if own is None:
            raise UnknownServer(f"The configuration of the server {self.name!r} has no tool {shown!r}")
        return own


def is_safe_to_repeat(tool: Tool) -> bool:
    """Return whether a tool says that a second call with the same arguments does nothing more than one.

    The specification calls that ``readOnlyHint`` and ``idempotentHint``. Both are hints of the server.
    """
    hints = tool.annotations
    return hints is not None and (hints.read_only_hint is True or hints.idempotent_hint is True)


async def no_attempt() -> None:
    """Refuse to connect to a server whose entry is malformed.

    Raises:
        LocalError: always.
    """
    raise LocalError("Its entry in the configuration is wrong")
