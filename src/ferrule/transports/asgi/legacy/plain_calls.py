"""The fast path of plain calls in the sessions of the handshake era; see `ferrule.transports.asgi.plain_calls`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from ferrule.kernel.fast_path.plain_tools import PlainCall, PlainTools, is_plain_legacy
from ferrule.kernel.finish import finish_result
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.handshake import is_handshake_version
from ferrule.protocol.inbound import MCP_PROTOCOL_VERSION_HEADER
from ferrule.transports.asgi.legacy.session import MAX_IN_FLIGHT, LegacySession
from ferrule.transports.asgi.plain_calls import PlainHttpCalls, PlainHttpSender
from ferrule.transports.asgi.request import IncomingRequest
from ferrule.transports.asgi.runtime import AsyncioRuntime, Runtime
from ferrule.wire.codec import decode
from ferrule.wire.headers import MCP_SESSION_ID_HEADER
from ferrule.wire.plain_calls import ABSENT, PLAIN_METHOD, decode_plain_call

if TYPE_CHECKING:
    from ferrule.transports.asgi.legacy.endpoint import LegacyEndpoint

__all__ = ["LegacyPlainCalls"]


class LegacyPlainCalls(PlainHttpCalls):
    """The fast path of sessions that this process alone holds, whose answers are JSON unless something is sent before.

    Args:
        tools: the tools of the server.
        server: that the endpoint serves.
        legacy: the general path.
    """

    def __init__(self, tools: PlainTools, server: Server[Any], legacy: LegacyEndpoint) -> None:
        super().__init__(tools, server)
        self._legacy = legacy

    def take(self, request: IncomingRequest, body: bytes, runtime: Runtime) -> Awaitable[None] | None:
        """Return what serves a plain call when awaited; ``None`` for everything that is none."""
        headers = request.headers
        session_id = headers.get(MCP_SESSION_ID_HEADER)
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if session_id is None or type(runtime) is not AsyncioRuntime:
            return None
        if version is not None and not is_handshake_version(version):
            return None
        legacy = self._legacy
        session = legacy.sessions.get(session_id)
        if session is None or session.principal != request.principal or not session.connection.initialize_accepted:
            return None
        try:
            envelope = decode_plain_call(body)
            meta = envelope.params.meta
            if meta is not ABSENT and not is_plain_legacy({"_meta": decode(bytes(meta))}):
                return None
            if envelope.id in session.in_flight or len(session.in_flight) >= MAX_IN_FLIGHT:
                return None
            sender = PlainHttpSender(session.connection.revision, request, runtime, session)
            call = self.call(envelope, body, sender, lambda result: self._finish(session, result))
        except Exception:  # not ours
            return None
        if call is None:
            return None
        if legacy.sessions.acquire(session_id) is None:  # it has expired; the general path says so
            self._tools.fast_calls -= 1
            return None
        return self._serve_in(session, call)

    async def _serve_in(self, session: LegacySession, call: PlainCall) -> None:
        try:
            await self.serve(call)
        finally:
            self._legacy.release(session)

    def _finish(self, session: LegacySession, result: Any) -> Any:
        return finish_result(self._server, session.connection, PLAIN_METHOD, result)

    async def hand_over(self, call: PlainCall, work: Awaitable[Any]) -> None:
        """See `PlainHttpCalls`."""
        exchange: Any = call.dispatch
        await self._legacy.serve_exchange(call.origin.facts, exchange, work)

    def make_request(self, call: PlainCall) -> ServerRequestContext[Any]:
        """See `ferrule.kernel.fast_path.plain_tools.CallCarrier`."""
        sender: PlainHttpSender = call.origin
        session: LegacySession = sender.facts
        message: dict[str, Any] = decode(call.frame)
        exchange = self._legacy.open_exchange(session, sender.request, message, sender.runtime)
        call.dispatch = exchange
        if call.is_over:
            exchange.finished = True
            session.in_flight.pop(call.id, None)
        return session.runner.typed_context(exchange, PLAIN_METHOD, message["params"])
