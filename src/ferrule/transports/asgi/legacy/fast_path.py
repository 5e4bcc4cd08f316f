"""The fast path of plain calls of the handshake era, with and without sessions.

See `ferrule.transports.asgi.fast_path`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from ferrule.kernel.concurrency.first_step import StartedCoroutine
from ferrule.kernel.connection import Connection
from ferrule.kernel.fast_path.fast_tools import FastCall, FastTools, is_plain_legacy
from ferrule.kernel.finish import finish_result
from ferrule.kernel.runner import aclose_shielded
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.era import is_handshake_version
from ferrule.protocol.inbound import MCP_PROTOCOL_VERSION_HEADER
from ferrule.transports.asgi.fast_path import HttpCallSender, HttpFastPathBase, send_answer
from ferrule.transports.asgi.legacy.exchange import LegacyExchange
from ferrule.transports.asgi.legacy.session import MAX_IN_FLIGHT, LegacySession
from ferrule.transports.asgi.lifecycle import LifespanRunner
from ferrule.transports.asgi.request import IncomingRequest
from ferrule.transports.asgi.runtime import AsyncioRuntime, Runtime
from ferrule.wire.codec import decode
from ferrule.wire.headers import MCP_SESSION_ID_HEADER
from ferrule.wire.plain_calls import (
    ABSENT,
    NO_ARGUMENTS,
    PLAIN_METHOD,
    PlainEnvelope,
    decode_plain_call,
    without_progress_token,
)

if TYPE_CHECKING:
    from ferrule.transports.asgi.legacy.endpoint import LegacyEndpoint

__all__ = ["LegacyFastPath", "StatelessFastPath"]


class _Waiting:
    """A plain call in flight that has no exchange; see `ferrule.transports.asgi.legacy.session.InFlight`.

    Attributes:
        task: the task that serves it.
        cancel_requested: whether the client has withdrawn it, or its session has ended.
    """

    __slots__ = ("cancel_requested", "method", "outlet", "task")

    def __init__(self, task: Any) -> None:
        self.task = task
        self.cancel_requested = False
        self.method = PLAIN_METHOD
        self.outlet = None

    def cancel(self) -> None:
        """Cancel its function."""
        if not self.cancel_requested:
            self.cancel_requested = True
            self.task.cancel()


class _LegacyFastPathBase(HttpFastPathBase):
    """What the fast paths with and without sessions share.

    Args:
        tools: the tools of the server.
        server: the server of the endpoint.
        legacy: the legacy endpoint, which is the general path.
    """

    def __init__(self, tools: FastTools, server: Server[Any], legacy: LegacyEndpoint) -> None:
        super().__init__(tools, server)
        self._legacy = legacy

    def session_of(self, call: FastCall) -> LegacySession:
        """Return the session of a call."""
        raise NotImplementedError

    def _plain_call(self, envelope: PlainEnvelope, body: bytes, sender: HttpCallSender) -> FastCall | None:
        """Return a call to be served; ``None`` if it is not plain.

        Raises:
            Exception: it is not plain.
        """
        params = envelope.params
        meta = params.meta
        if meta is not ABSENT and not is_plain_legacy({"_meta": decode(without_progress_token(bytes(meta)))}):
            return None
        arguments = NO_ARGUMENTS if params.arguments is ABSENT else params.arguments
        loop, principal = sender.runtime.loop, sender.request.principal
        return self.plain_call(envelope.id, params.name, arguments, body, sender, loop, principal)

    def connection_of(self, sender: HttpCallSender) -> Connection:
        """Return the connection of a sender."""
        raise NotImplementedError

    def finish(self, sender: HttpCallSender, result: Any) -> Any:
        """See `TaskFastCalls.finish`."""
        return finish_result(self._server, self.connection_of(sender), PLAIN_METHOD, result)

    async def hand_over(self, call: FastCall, work: Awaitable[Any]) -> None:
        """See `HttpFastPathBase`."""
        exchange: Any = call.dispatch
        await self._legacy.serve_exchange(self.session_of(call), exchange, work)

    def make_request(self, call: FastCall) -> ServerRequestContext[Any]:
        """See `ferrule.kernel.fast_path.fast_tools.CallCarrier`."""
        session = self.session_of(call)
        exchange: LegacyExchange = call.dispatch or self.open_call(call)  # type: ignore[assignment]
        exchange.progress_params = params = self.params_of(call)
        if call.is_over:
            exchange.finished = True
            session.in_flight.pop(call.id, None)
        return session.runner.typed_context(exchange, PLAIN_METHOD, params)

    def open_call(self, call: FastCall) -> LegacyExchange:
        """See `HttpFastPathBase`."""
        sender: HttpCallSender = call.sender
        message = {"id": call.id, "method": PLAIN_METHOD}
        exchange = self._legacy.open_exchange(self.session_of(call), sender.request, message, sender.runtime)
        call.dispatch = exchange
        return exchange

    def client_of(self, call: FastCall) -> Connection:
        """See `ferrule.kernel.fast_path.fast_tools.CallCarrier`."""
        return self.connection_of(call.sender)


class LegacyFastPath(_LegacyFastPathBase):
    """The fast path for sessions of this process alone, whose response is JSON if no message was sent before it.

    Args:
        tools, server, legacy: see `_LegacyFastPathBase`.
    """

    def try_serve(self, request: IncomingRequest, body: bytes, runtime: Runtime) -> Awaitable[None] | None:
        """Return an awaitable that serves a plain call; ``None`` if the general path must serve the request.

        Args:
            request: the POST.
            body: its body.
            runtime: the tasks and timers of the event loop.
        """
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
            if envelope.id in session.in_flight or len(session.in_flight) >= MAX_IN_FLIGHT:
                return None
            sender = HttpCallSender(session.connection.revision, request, runtime, session)
            call = self._plain_call(envelope, body, sender)
        except Exception:  # not a plain call, or arguments that the general path must judge
            return None
        if call is None:
            return None
        if legacy.sessions.acquire(session_id) is None:  # it has expired; the general path sends the error
            self._tools.fast_calls -= 1
            return None
        if session.principal is not request.principal:  # equal, but its token may have other scopes than before
            session.use_principal(request.principal)
        return self._serve_in(session, call)

    def wait(self, call: FastCall, begun: StartedCoroutine) -> Awaitable[None]:
        """See `HttpFastPathBase`: a call that waits plainly gets its exchange only if code needs it."""
        if call.tool.waits_plainly and call.dispatch is None:
            return self._wait_plainly(call, begun)
        return super().wait(call, begun)

    async def _wait_plainly(self, call: FastCall, begun: StartedCoroutine) -> None:
        in_flight = call.sender.facts.in_flight
        waiting = in_flight[call.id] = _Waiting(call.task)
        try:
            value = await begun
        except BaseException as error:
            begun = StartedCoroutine.raised(error)
            if not isinstance(error, Exception) and not self._is_withdrawn(call, waiting):
                in_flight.pop(call.id, None)
                raise
        else:
            if call.dispatch is None and not waiting.cancel_requested:
                pieces = call.tool.writers[call.sender.revision.version](value)
                if pieces is not None:
                    call.is_over = True
                    del in_flight[call.id]
                    await send_answer(call.sender.request, call.id, pieces)
                    return
            begun = StartedCoroutine.returned(value)
        if self._is_withdrawn(call, waiting):
            await self._answer_withdrawn(call, waiting)
        else:
            await self.hand_over(call, self.rest(call, begun))

    def _is_withdrawn(self, call: FastCall, waiting: _Waiting) -> bool:
        exchange = call.dispatch
        return waiting.cancel_requested or (exchange is not None and exchange.cancel_requested)

    async def _answer_withdrawn(self, call: FastCall, waiting: _Waiting) -> None:
        """End the response to a call that the client has withdrawn, without an answer ("Cancellation")."""
        exchange: LegacyExchange = call.dispatch or self.open_call(call)  # type: ignore[assignment]
        call.is_over = exchange.finished = exchange.cancel_requested = True
        call.sender.facts.in_flight.pop(call.id, None)
        # The task belongs to the ASGI server, which may use it for the next request of the connection.
        if waiting.task.cancelling():
            waiting.task.uncancel()
        await exchange.outlet.answer(None)

    def open_call(self, call: FastCall) -> LegacyExchange:
        """See `HttpFastPathBase`."""
        exchange = super().open_call(call)
        if call.task is not None and not call.is_over:
            exchange.suspended_in(call.task)
        return exchange

    async def _serve_in(self, session: LegacySession, call: FastCall) -> None:
        try:
            await self.serve(call)
        finally:
            self._legacy.release(session)

    def client_of(self, call: FastCall) -> Connection:
        """See `ferrule.kernel.fast_path.fast_tools.CallCarrier`."""
        return call.sender.facts.connection  # type: ignore[no-any-return]

    def connection_of(self, sender: HttpCallSender) -> Connection:
        """See `_LegacyFastPathBase`."""
        return sender.facts.connection  # type: ignore[no-any-return]

    def session_of(self, call: FastCall) -> LegacySession:
        """See `_LegacyFastPathBase`."""
        return call.sender.facts  # type: ignore[no-any-return]

    def session_id_of(self, call: FastCall) -> str | None:
        """See `ferrule.kernel.fast_path.fast_tools.CallCarrier`."""
        return call.sender.facts.connection.session_id  # type: ignore[no-any-return]


class StatelessFastPath(_LegacyFastPathBase):
    """The fast path of an endpoint without sessions. A call gets its temporary session when code reads its request.

    Args:
        tools, server, legacy: see `_LegacyFastPathBase`.
        life: the lifecycle of the endpoint; holds the lifespan's state.
    """

    def __init__(self, tools: FastTools, server: Server[Any], legacy: LegacyEndpoint, life: LifespanRunner) -> None:
        super().__init__(tools, server, legacy)
        self._life = life
        self._connections: dict[str, Connection] = {}

    def try_serve(self, request: IncomingRequest, body: bytes, runtime: Runtime) -> Awaitable[None] | None:
        """Return an awaitable that serves a plain call; ``None`` if the general path must serve the request.

        Args:
            request: the POST.
            body: its body.
            runtime: the tasks and timers of the event loop.
        """
        if type(runtime) is not AsyncioRuntime:
            return None
        version = self._legacy.stateless_version(request)
        if version is None:
            return None
        try:
            envelope = decode_plain_call(body)
            connection = self._connections.get(version)
            if connection is None:
                connection = self._connections[version] = Connection.from_envelope(version, None, {})
            sender = HttpCallSender(connection.revision, request, runtime, None)
            call = self._plain_call(envelope, body, sender)
        except Exception:  # not a plain call, or arguments that the general path must judge
            return None
        return None if call is None else self._serve_alone(call)

    async def _serve_alone(self, call: FastCall) -> None:
        try:
            await self.serve(call)
        finally:
            session: LegacySession | None = call.sender.facts
            if session is not None:
                await aclose_shielded(session.connection)

    def connection_of(self, sender: HttpCallSender) -> Connection:
        """See `_LegacyFastPathBase`; all senders of a version share one, as long as no code reads their requests."""
        return self._connections[sender.revision.version]

    def session_of(self, call: FastCall) -> LegacySession:
        """See `_LegacyFastPathBase`; the session is made now if the call has none."""
        sender: HttpCallSender = call.sender
        if sender.facts is None:
            version = sender.revision.version
            sender.facts = self._legacy.temporary_session(sender.request, version, self._life.state)
        return sender.facts  # type: ignore[no-any-return]
