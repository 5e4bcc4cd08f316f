"""Serves both eras over one pair of streams: chooses the era of each message, and the connection that serves it.

`ferrule.kernel.runner.serve_dual_era_loop` makes a `DualEraRouter` for each pair. The rules of the eras are
`ferrule.protocol.era`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import DispatchContext, Dispatcher
from ferrule.kernel.fast_path.fast_tools import is_plain_legacy, plain_route
from ferrule.kernel.finish import finish_result
from ferrule.kernel.server import HandlerResult, ServerRequestContext
from ferrule.kernel.serving.request_steps import BEFORE_HANDSHAKE
from ferrule.kernel.serving.server_runner import ServerRunner, with_forwarding
from ferrule.protocol.era import Era, EraLock, MessageEra, Verdict, message_era
from ferrule.protocol.errors import MCPError
from ferrule.protocol.inbound import InboundLadderRejection, InboundModernRoute, classify_inbound_request
from ferrule.wire.codec import decode
from ferrule.wire.revisions import REVISIONS, Revision

__all__ = ["DualEraRouter"]


class _StreamCallSender(Struct, frozen=True):
    """The sender of plain calls: the checked envelope of a modern request, or the client of a legacy connection."""

    revision: Revision
    route: InboundModernRoute | None


class DualEraRouter:
    """One standing connection under an `EraLock`; each modern request gets a connection of its own.

    Args:
        runner: serves the standing connection.
        dispatcher: the channel to the client.
        close: called at the end of each modern request; closes its connection.
    """

    def __init__(
        self, runner: ServerRunner[Any], dispatcher: Dispatcher, close: Callable[[Connection], Awaitable[None]]
    ) -> None:
        self._close = close
        self.runner = runner
        self.server = runner.server
        self.connection = runner.connection
        self.legacy_notify = with_forwarding(dispatcher, runner)
        self.lock = EraLock(self.server.modern_versions)
        self.modern_version = ""  # until the first modern request names one
        # Modern connections end with their request, but their subscriptions end with the channel.
        self.closing = self.connection.shared_closing()

    # -- plain calls (`ferrule.kernel.fast_path.stream_calls.FastConnection`) ------------------------------------------

    @property
    def plain_state(self) -> object | None:
        """The modern versions that are served, or the revision of an open legacy connection."""
        state = self.lock.state
        if state is Era.MODERN:
            return self.server.modern_versions
        connection = self.connection
        return connection.revision if state is Era.LEGACY and connection.initialize_accepted else None

    def sender_of(self, meta: bytes | None) -> _StreamCallSender | None:
        """Return the sender of a plain call, by the rules of `on_request`; ``None`` if the call is not plain."""
        params: dict[str, Any] = {} if meta is None else {"_meta": decode(meta)}
        if self.lock.state is not Era.MODERN:
            return _StreamCallSender(self.connection.revision, None) if is_plain_legacy(params) else None
        route = plain_route(self.server, params)
        if route is None:
            return None
        return _StreamCallSender(REVISIONS[route.protocol_version], route)

    def _plain_connection(self, sender: _StreamCallSender, dctx: DispatchContext | None) -> Connection:
        return self.connection if sender.route is None else self.modern_connection(sender.route, dctx)

    def finish_plain(self, sender: _StreamCallSender, result: Any) -> Any:
        """Return the result of a plain call in the form of the sender's revision."""
        return finish_result(self.server, self._plain_connection(sender, None), "tools/call", result)

    def plain_request(
        self, sender: _StreamCallSender, dctx: DispatchContext, params: dict[str, Any]
    ) -> ServerRequestContext[Any]:
        """Return the request context of a plain call, as the handler of the general path gets it."""
        runner = ServerRunner(self.server, self._plain_connection(sender, dctx), self.runner.lifespan_state)
        return runner.typed_context(dctx, "tools/call", params)

    def session_id_of(self, sender: _StreamCallSender) -> str | None:
        """Return the id of the sender's legacy session; ``None`` elsewhere."""
        return self.connection.session_id if sender.route is None else None

    def client_of(self, sender: _StreamCallSender) -> Connection:
        """Return the connection of the sender of a plain call; in the modern era without a channel to it."""
        return self._plain_connection(sender, None)

    async def serve_plain(self, work: Awaitable[Any], request: ServerRequestContext[Any]) -> Any:
        """Return the finished result of ``work`` for a plain call; then close the connection of a modern one."""
        connection = request.session.connection
        try:
            return await work
        finally:
            if connection is not self.connection and connection.opened_exit_stack is not None:
                await self._close(connection)

    # -- both -----------------------------------------------------------------------------------------------------

    def on_request(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> Awaitable[HandlerResult]:
        """Choose the era now, in the order of arrival; return an awaitable that serves the request.

        Raises:
            MCPError: the request does not belong to the locked era, or its envelope is refused.
        """
        lock = self.lock
        # In the modern state the table serves everything but `initialize` as modern: skip the look-up.
        if lock.state is not Era.MODERN or method == "initialize":
            kind = message_era(method, params)
            verdict = lock.judge(kind)
            if verdict is not Verdict.SERVE_MODERN:
                refusal = lock.refusal(verdict, params)
                if refusal is not None:
                    raise refusal
                if kind is MessageEra.INITIALIZE:
                    return self._initialize(dctx, params)
                if not self.connection.initialize_accepted and method not in BEFORE_HANDSHAKE:
                    return self.runner.handle_early(dctx, method, params)
                return self.runner.handle_request(dctx, method, params)
        route = classify_inbound_request(
            {"method": method, "params": params}, supported_modern_versions=self.server.modern_versions
        )
        if isinstance(route, InboundLadderRejection):
            raise _error_of(route)
        if lock.state is not Era.MODERN:
            lock.succeeded(MessageEra.ENVELOPE)
        return self._serve_modern(self.modern_connection(route, dctx), dctx, method, params)

    def modern_connection(self, route: InboundModernRoute, dctx: DispatchContext | None) -> Connection:
        """Return the connection of one modern request."""
        self.modern_version = route.protocol_version
        connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities, outbound=dctx
        )
        connection.closing_state = self.closing
        # The options belong to the driver and hold in both eras.
        connection.init_options = self.connection.init_options
        return connection

    async def _initialize(self, dctx: DispatchContext, params: Mapping[str, Any] | None) -> HandlerResult:
        result = await self.runner.handle_request(dctx, "initialize", params)
        # Only after the result: a refused handshake leaves the connection open for a modern request ("Versioning").
        self.lock.succeeded(MessageEra.INITIALIZE)
        return result

    async def _serve_modern(
        self, connection: Connection, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> HandlerResult:
        try:
            runner = ServerRunner(self.server, connection, self.runner.lifespan_state)
            return await runner.handle_request(dctx, method, params)
        finally:
            # Checked here as well as in `close`: a call of a coroutine for each request would cost more.
            if connection.opened_exit_stack is not None:
                await self._close(connection)

    def on_notify(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Awaitable[None]:
        """Handle a notification in the locked era; a modern one has the version of the last modern request."""
        if self.lock.state is Era.MODERN:
            return self._notify_modern(self.modern_version, dctx, method, params)
        return self.legacy_notify(dctx, method, params)

    async def _notify_modern(
        self, version: str, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> None:
        # Modern notifications of clients have no envelope (their only one is `notifications/cancelled`).
        connection = Connection.from_envelope(version, None, {}, outbound=dctx)
        try:
            await ServerRunner(self.server, connection, self.runner.lifespan_state).on_notify(dctx, method, params)
        finally:
            await self._close(connection)


def _error_of(rejection: InboundLadderRejection) -> MCPError:
    if rejection.data is None:
        return MCPError(rejection.message, code=rejection.code)
    return MCPError(rejection.message, code=rejection.code, data=rejection.data)
