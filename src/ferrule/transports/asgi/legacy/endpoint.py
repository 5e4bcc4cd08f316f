"""The handshake revisions over HTTP (2025-03-26 to 2025-11-25): sessions, POST, GET, DELETE.

A POST is served in its own task, on the connection of its session; nothing is queued. JSON-RPC errors are answered
with status 200, because a legacy client takes 404 as the end of its session and would start a new one; refusals of the
transport itself have a 4xx status.

The revision belongs to the session and was negotiated by the handshake. The version header of a later POST only has to
name *a* revision with sessions; it cannot change the revision.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import anyio

from ferrule.kernel.concurrency.cancellation import run_interruptible
from ferrule.kernel.connection import Connection
from ferrule.kernel.fast_path.fast_tools import fast_tools_of
from ferrule.kernel.runner import aclose_shielded
from ferrule.kernel.server import Server
from ferrule.protocol.correlation import cancelled_request_id
from ferrule.protocol.era import is_handshake_version
from ferrule.protocol.errors import MCPError, error_from_exception
from ferrule.stores.events import EventStore
from ferrule.transports.asgi.legacy.exchange import LegacyExchange, Outlet
from ferrule.transports.asgi.legacy.fast_path import LegacyFastPath, StatelessFastPath
from ferrule.transports.asgi.legacy.session import GET_STREAM, MAX_IN_FLIGHT, LegacySession
from ferrule.transports.asgi.legacy.sessions import (
    SESSION_ID_CHARS,
    RecentIds,
    SessionTable,
    TooManySessions,
    new_session_id,
)
from ferrule.transports.asgi.legacy.shared import SharedSessions, StreamWatch
from ferrule.transports.asgi.legacy.stream import replay
from ferrule.transports.asgi.lifecycle import LifespanRunner
from ferrule.transports.asgi.options import HttpOptions
from ferrule.transports.asgi.replies import EventStreamReply, KeepAlive
from ferrule.transports.asgi.request import DisconnectWatch, IncomingRequest
from ferrule.transports.asgi.runtime import Cancellable, Runtime, current_runtime
from ferrule.wire.codec import Encoded, decode, encode
from ferrule.wire.headers import LAST_EVENT_ID_HEADER, MCP_PROTOCOL_VERSION_HEADER, MCP_SESSION_ID_HEADER
from ferrule.wire.jsonrpc import (
    BATCH_TOO_LARGE,
    MAX_BATCH,
    InvalidMessage,
    JsonRpcError,
    JsonRpcErrorCode,
    RequestId,
    encode_error,
    encode_response,
    message_kind,
    readable_id,
)
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS, REVISIONS
from ferrule.wire.sse import encode_event

__all__ = ["LegacyEndpoint"]

log = logging.getLogger("ferrule.http")

_INVALID = int(JsonRpcErrorCode.INVALID_REQUEST)
_ASSUMED_VERSION = next(version for version, revision in REVISIONS.items() if revision.http == "sessions")
"""The revision of a request without a version header and without a session (2025-06-18, "Protocol Version Header")."""
# Sessions that expire one after the other are removed together.
_MIN_SWEEP_S = 0.05
# 64 kB of ids; older ones are only needed for a clearer log.
_MAX_ENDED = 4096
_LOST = JsonRpcError(int(JsonRpcErrorCode.INTERNAL_ERROR), "The process that served this request has ended")


class LegacyEndpoint:
    """Serves the legacy requests of one endpoint.

    Attributes:
        sessions: the table of sessions of this process.
        plain_calls: the fast path of plain calls; ``None`` without one.
    """

    def __init__(
        self, server: Server[Any], options: HttpOptions, keep_alive: KeepAlive, life: LifespanRunner | None = None
    ) -> None:
        self._server = server
        self._options = options
        self._keep_alive = keep_alive
        self._sweeping_on: Runtime | None = None
        self._sweeper: Cancellable | None = None
        self.sessions: SessionTable[LegacySession] = SessionTable(
            max_sessions=options.max_sessions,
            idle_s=options.session_idle_s,
            clock=options.clock,
            on_removed=self._removed,
        )
        self._life = life
        self._has_explained = False
        self.plain_calls = self._fast_path()
        # Ids of the last sessions that ended here, whose clients may still send requests.
        self._ended = RecentIds(_MAX_ENDED)
        self._shared: SharedSessions | None = None
        if options.shared is not None and not options.stateless:
            self._shared = SharedSessions(options.shared, server, options, self.sessions.get, self.sessions.remove)

    def _fast_path(self) -> LegacyFastPath | StatelessFastPath | None:
        tools, options = fast_tools_of(self._server), self._options
        if tools is None or options.response_mode == "sse":
            return None
        if options.stateless:
            return None if self._life is None else StatelessFastPath(tools, self._server, self, self._life)
        return LegacyFastPath(tools, self._server, self) if options.shared is None else None

    def _removed(self, session: LegacySession) -> None:
        session.end()
        if self._shared is not None:
            self._shared.forget(session.session_id)
        elif not self._has_explained:
            self._ended.add(session.session_id)

    # --- POST -------------------------------------------------------------------------------------------------------

    async def serve_post(self, request: IncomingRequest, body: Any, runtime: Runtime, lifespan_state: Any) -> None:
        """Serve one decoded body: a request, a notification, a response, or (2025-03-26) an array of them."""
        if self._options.stateless:
            session = self._throwaway_session(request, body, lifespan_state)
            if session is None:
                await self._refuse_version(request, body)
                return
            try:
                await self._serve_on(session, request, body, runtime)
            finally:
                await aclose_shielded(session.connection)
            return
        # With a session id it is a second handshake, which the session refuses.
        if _is_initialize(body) and MCP_SESSION_ID_HEADER not in request.headers:
            await self._open_session(request, body, runtime, lifespan_state)
            return
        session = await self._acquire(request, body)
        if session is None:
            return
        try:
            await self._serve_on(session, request, body, runtime)
        finally:
            self.release(session)

    async def _serve_on(self, session: LegacySession, request: IncomingRequest, body: Any, runtime: Runtime) -> None:
        if type(body) is list and session.connection.revision.has_batches:
            await self._serve_batch(session, request, body, runtime)  # pyright: ignore[reportUnknownArgumentType]
            return
        try:
            kind = message_kind(body)
        except InvalidMessage as error:
            await request.refuse(400, error.code, str(error), id=error.id)
            return
        message: dict[str, Any] = body  # pyright: ignore[reportUnknownVariableType, reportAssignmentType]
        if kind == "request":
            await self._serve_request(session, request, message, runtime)
        else:
            is_taken = await self._take(session, request, message, kind, runtime)
            await self._save(session)
            if is_taken:
                await request.reply_empty(202)
            else:
                text = "The answer did not reach the process that asked; send it again"
                await request.refuse(503, int(JsonRpcErrorCode.INTERNAL_ERROR), text, id=readable_id(message))

    async def _save(self, session: LegacySession) -> None:
        """Store what a request changed, for the other workers, before its client gets the response."""
        if self._shared is None:
            return
        try:
            await self._shared.save(session)
        except OSError as error:
            log.error("a session could not be written, other workers have an older state of it: %s", error)

    async def _open_session(
        self, request: IncomingRequest, body: dict[str, Any], runtime: Runtime, lifespan_state: Any
    ) -> None:
        try:
            is_request = message_kind(body) == "request"
        except InvalidMessage as error:
            await request.refuse(400, error.code, str(error), id=error.id)
            return
        if not is_request:
            await request.refuse(400, _INVALID, "initialize is a request")
            return
        session_id = new_session_id()
        session = LegacySession(session_id, self._server, self._options, lifespan_state, request.principal)
        if self._shared is not None:
            self._shared.mark(session)
        outlet = self._outlet(request, session)
        outlet.headers = [(b"mcp-session-id", session_id.encode("ascii"))]
        payload = await self._run(session, self._reserve(session, outlet, request, body, runtime), body)
        if not session.connection.initialize_accepted:  # vetoed or malformed: there is no session
            session.end()
            if outlet.channel is None:
                outlet.headers = None
            await outlet.answer(payload)
            return
        try:
            # Only after a successful handshake: a refused one must not take a place in the table.
            self.sessions.add(session)
        except TooManySessions:
            session.end()
            await request.refuse(503, int(JsonRpcErrorCode.INTERNAL_ERROR), "Too many sessions", id=body["id"])
            return
        try:
            if await self._share(session, outlet, request, body["id"]):
                await outlet.answer(payload)
        finally:
            self.release(session)

    async def _share(self, session: LegacySession, outlet: Outlet, request: IncomingRequest, id: RequestId) -> bool:
        """Store a new session for the other workers; if that fails, refuse the request and return ``False``."""
        if self._shared is None:
            return True
        try:
            await self._shared.add(session)
        except OSError as error:
            if outlet.channel is not None:  # too late for a refusal: something was sent already
                log.error("a session could not be written, other workers do not know it: %s", error)
                return True
            self.sessions.remove(session.session_id)
            await self._refuse_without_store(request, id, error)
            return False
        return True

    async def _serve_request(
        self, session: LegacySession, request: IncomingRequest, body: dict[str, Any], runtime: Runtime
    ) -> None:
        # 409: an id must not be used twice within a session ("Base protocol"), and the responses would be confused.
        if body["id"] in session.in_flight:
            await request.refuse(409, _INVALID, "A request with this id is still being served", id=body["id"])
            return
        if len(session.in_flight) >= MAX_IN_FLIGHT:
            await _refuse_busy(request, body["id"])
            return
        exchange = self.open_exchange(session, request, body, runtime)
        payload = await self._run(session, exchange, body, opens_stream=self._options.response_mode == "sse")
        await self._save(session)
        await exchange.outlet.answer(payload)

    def open_exchange(
        self, session: LegacySession, request: IncomingRequest, body: Mapping[str, Any], runtime: Runtime
    ) -> LegacyExchange:
        """Return the exchange of a request with an outlet of its own, and reserve its id."""
        return self._reserve(session, self._outlet(request, session), request, body, runtime)

    async def serve_exchange(self, session: LegacySession, exchange: LegacyExchange, work: Awaitable[Any]) -> None:
        """Await ``work``, the finished result of an exchange, and send the response; on asyncio."""
        payload = await self._handle(session, exchange, lambda: work, False)
        await self._save(session)
        await exchange.outlet.answer(payload)

    def _reserve(
        self,
        session: LegacySession,
        outlet: Outlet,
        request: IncomingRequest,
        body: Mapping[str, Any],
        runtime: Runtime,
    ) -> LegacyExchange:
        """Return the exchange of a request and reserve its id.

        Nothing is awaited, so no other request can take the id.
        """
        id: RequestId = body["id"]
        can_ask = outlet.may_stream and not session.is_stateless
        context = request.context(session.session_id or None, can_send_request=can_ask)
        grace_s = self._options.disconnect_grace_s
        exchange = LegacyExchange(outlet, context, id, body["method"], body.get("params"), runtime, grace_s)
        session.in_flight[id] = exchange
        return exchange

    async def _run(
        self, session: LegacySession, exchange: LegacyExchange, body: Mapping[str, Any], *, opens_stream: bool = False
    ) -> bytes | None:
        """Serve one request and release its id; return the encoded response, or ``None`` if it was cancelled."""

        def begin() -> Awaitable[Any]:
            return session.runner.handle_request(exchange, body["method"], body.get("params"))

        if exchange.runs_on_asyncio:
            return await self._handle(session, exchange, begin, opens_stream)
        with anyio.CancelScope() as scope:
            exchange.scope = scope
            return await self._handle(session, exchange, begin, opens_stream)
        return None

    async def _handle(
        self,
        session: LegacySession,
        exchange: LegacyExchange,
        begin: Callable[[], Awaitable[Any]],
        opens_stream: bool,
    ) -> bytes | None:
        payload: bytes | None
        id = cast("RequestId", exchange.request_id)
        try:
            if opens_stream:
                await exchange.open_stream()
            payload = encode_response(id, await run_interruptible(begin(), exchange))
        except Exception as exc:
            if not isinstance(exc, MCPError):
                log.error("%s failed", exchange.method, exc_info=exc)
            payload = encode_error(id, error_from_exception(exc))
            exchange.refuse(exc)
        except BaseException as exc:
            if not _is_our_cancel(exchange, exc):
                raise
            payload = None
        finally:
            exchange.finished = True
            exchange.interruption = None
            if session.in_flight.get(id) is exchange:
                del session.in_flight[id]
        # Also if the handler absorbed the cancellation: nothing may be sent for a cancelled request ("Cancellation").
        if exchange.cancel_requested:
            if exchange.task is not None and exchange.task.cancelling():
                exchange.task.uncancel()
            return None
        return payload

    async def _take(
        self, session: LegacySession, request: IncomingRequest, body: Mapping[str, Any], kind: str, runtime: Runtime
    ) -> bool:
        """Handle a response or a notification; return ``False`` if a response was lost on its way to another worker."""
        if kind == "response":
            if session.questions.answer(body):
                return True
            if self._shared is not None:
                return await self._shared.publish("answer", session.session_id, dict(body))
            log.debug("dropped an answer to nothing: id %r", body.get("id"))
            return True
        method, params = body["method"], body.get("params")
        if method == "notifications/cancelled":
            id = cancelled_request_id(params)
            exchange = None if id is None else session.in_flight.get(id)
            if exchange is not None and exchange.method != "initialize":
                exchange.cancel()
            elif id is not None and self._shared is not None:
                await self._shared.publish("cancel", session.session_id, id)
        elif method == "notifications/progress" and await session.questions.progress(params):
            return True
        elif method == "notifications/progress" and self._shared is not None:
            await self._shared.publish("progress", session.session_id, params)
        outlet = self._outlet(request, session)
        # The response to a notification is 202 without a body.
        outlet.may_stream = False
        exchange = LegacyExchange(outlet, request.context(session.session_id or None), None, method, params, runtime, 0)
        await run_interruptible(session.runner.on_notify(exchange, method, params), exchange)
        if method == "notifications/initialized" and session.connection.is_ready:
            session.listen()
        return True

    # --- batches (2025-03-26) ---------------------------------------------------------------------------------------

    async def _serve_batch(
        self, session: LegacySession, request: IncomingRequest, bodies: list[Any], runtime: Runtime
    ) -> None:
        kinds: list[str] = []
        ids: set[Any] = set(session.in_flight)
        if not bodies or len(bodies) > MAX_BATCH:
            await request.refuse(400, _INVALID, "A batch is not empty" if not bodies else BATCH_TOO_LARGE)
            return
        for body in bodies:
            try:
                kinds.append(message_kind(body))
            except InvalidMessage as error:
                await request.refuse(400, error.code, str(error), id=error.id)
                return
            if body.get("method") == "initialize":
                await request.refuse(400, _INVALID, "initialize may not be in a batch", id=body.get("id"))
                return
            if kinds[-1] == "request":
                if body["id"] in ids:
                    message = "A request with this id is still being served"
                    await request.refuse(409, _INVALID, message, id=body["id"])
                    return
                ids.add(body["id"])
        if len(ids) > MAX_IN_FLIGHT:
            await _refuse_busy(request, None)
            return
        for body, kind in zip(bodies, kinds, strict=True):
            if kind != "request":
                await self._take(session, request, body, kind, runtime)
        requests = [body for body, kind in zip(bodies, kinds, strict=True) if kind == "request"]
        if not requests:
            await request.reply_empty(202)
            return
        outlet = self._outlet(request, session)
        exchanges = [self._reserve(session, outlet, request, body, runtime) for body in requests]
        answers: list[Encoded] = []

        async def serve(exchange: LegacyExchange, body: dict[str, Any]) -> None:
            payload = await self._run(session, exchange, body, opens_stream=self._options.response_mode == "sse")
            if payload is not None:
                answers.append(Encoded(payload))

        async with anyio.create_task_group() as group:
            for exchange, body in zip(exchanges, requests, strict=True):
                group.start_soon(serve, exchange, body)
        if outlet.channel is None:
            outlet.refusal = None  # the requests of a batch may need different statuses
            await outlet.answer(encode(answers) if answers else None)
            return
        for answer in answers:
            await outlet.channel.emit(bytes(answer))
        await outlet.answer(None)

    # --- GET --------------------------------------------------------------------------------------------------------

    async def serve_get(self, request: IncomingRequest, runtime: Runtime) -> None:
        """Open or resume an event stream of a session."""
        if self._options.stateless:
            await _method_not_allowed(request)
            return
        session = await self._acquire(request, None)
        if session is None:
            return
        try:
            await self._serve_stream(session, request, runtime)
        finally:
            self.release(session)

    async def _serve_stream(self, session: LegacySession, request: IncomingRequest, runtime: Runtime) -> None:
        reply = EventStreamReply(request.send, self._keep_alive, request.reply_headers)
        store = self._options.event_store
        last_event_id = request.headers.get(LAST_EVENT_ID_HEADER)
        if last_event_id and store is not None:
            try:
                found = await store.replay(session.session_id, last_event_id)
            except OSError as error:
                await self._refuse_without_store(request, None, error)
                return
            stream_id = last_event_id.rpartition("-")[0] if found is None else found.stream_id
            channel = session.channels.get(stream_id)
            # The store removes idle streams first. A client that has the newest event of one has lost nothing.
            if found is None and (channel is None or channel.last_event_id != last_event_id):
                await request.refuse(400, _INVALID, "Nothing can be replayed after this Last-Event-ID")
                return
            if channel is None and self._shared is not None:
                if not stream_id.startswith(GET_STREAM):
                    await self._follow(self._shared, session, request, reply, runtime)
                    return
                await replay(store, session.session_id, last_event_id, reply)
                channel = await session.open_get_stream(reply)
                # The process that had the stream may have ended with changes that it had not sent.
                session.add_gap()
            elif channel is None:  # the stream has ended: send its remaining events and close
                await replay(store, session.session_id, last_event_id, reply)
                await reply.close()
                return
            else:
                await channel.resume(reply, last_event_id)
                session.send_changes()
        else:
            channel = await session.open_get_stream(reply)
        # From the start and without grace: an idle stream is open for hours.
        watch = DisconnectWatch(runtime, request.receive, 0, lambda: channel.lost(reply))
        watch.start()
        try:
            await reply.wait_over()
        finally:
            watch.stop()
            channel.lost(reply)
            session.lost_get_stream(channel)

    async def _follow(
        self,
        shared: SharedSessions,
        session: LegacySession,
        request: IncomingRequest,
        reply: EventStreamReply,
        runtime: Runtime,
    ) -> None:
        """Send the rest of a stream that another worker writes, until the stream or that worker ends."""
        store = cast("EventStore", self._options.event_store)
        last = request.headers[LAST_EVENT_ID_HEADER]
        stream_id = last.rpartition("-")[0]
        watch = DisconnectWatch(runtime, request.receive, 0, reply.lose)
        watch.start()
        feeder, answered = StreamWatch(self._options.clock), set[RequestId]()
        try:
            # Sends the response head, so that the client knows that the stream is open.
            await reply.write(b"")
            while not reply.is_over:
                # Checked before reading, so that all events before the end are read.
                lost = await shared.end_of_stream(session.session_id, stream_id, feeder)
                found = await store.replay(session.session_id, last)
                for event in () if found is None else found.events:
                    await reply.write(encode_event(event.data, id=event.id))
                    answered.update(_answered(event.data))
                    last = event.id
                if lost is not None:
                    for id in lost:
                        if id not in answered:
                            await reply.write(encode_event(encode_error(id, _LOST)))
                    break
                await shared.wait_for_more()
        except OSError as error:
            log.warning("a stream of another worker can no longer be followed: %s", error)
        finally:
            watch.stop()
        await reply.close()

    # --- DELETE -----------------------------------------------------------------------------------------------------

    async def serve_delete(self, request: IncomingRequest) -> None:
        """Serve DELETE: end a session."""
        if self._options.stateless:
            await _method_not_allowed(request)
            return
        session = await self._acquire(request, None)
        if session is None:
            return
        self.sessions.remove(session.session_id)
        self.sessions.release(session)
        try:
            if self._shared is not None:
                await self._shared.end(session.session_id)
                if self._options.event_store is not None:
                    await self._options.event_store.forget(session.session_id)
        except OSError as error:
            await self._refuse_without_store(request, None, error)
            return
        await request.reply_empty(204)

    # --- sessions ---------------------------------------------------------------------------------------------------

    async def _acquire(self, request: IncomingRequest, body: Any) -> LegacySession | None:
        """Return the session of a request, marked as in use; ``None`` if the request has been refused."""
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if version is not None and not is_handshake_version(version):
            await self._refuse_version(request, body)
            return None
        session_id = request.headers.get(MCP_SESSION_ID_HEADER)
        id = readable_id(body)
        if session_id is None:
            message = "This request needs an Mcp-Session-Id header (sent with the answer to initialize)"
            await request.refuse(400, _INVALID, message, id=id)
            return None
        if self._shared is not None and not await self._look_up(self._shared, request, session_id, id):
            return None
        session = self.sessions.acquire(session_id)
        is_known = session is not None
        # The same response as for an unknown id: it must not be a sign that the session exists.
        if session is not None and session.principal != request.principal:
            self.sessions.release(session)
            session = None
        elif session is not None and session.principal is not request.principal:
            session.use_principal(request.principal)
        if session is None:
            if not is_known:  # a session of another principal is not a mistake of the configuration
                self._explain_unknown(session_id)
            await request.refuse(404, _INVALID, "Session not found", id=id)
        return session

    def _explain_unknown(self, session_id: str) -> None:
        """Log once the possible causes of an unknown session id that has the form of this server's ids."""
        if self._has_explained or self._shared is not None or session_id in self._ended:
            return
        # Only ids of this form can come from this server; anything else is a wrong client.
        if len(session_id) == SESSION_ID_CHARS and not session_id.strip("0123456789abcdef"):
            self._has_explained = True
            log.warning(
                "a request names a session that this process does not know: either the server was started again, or "
                "several processes serve without sharing sessions; then give the server a store (store=)"
            )

    async def _look_up(self, shared: SharedSessions, request: IncomingRequest, session_id: str, id: Any) -> bool:
        """Read the shared state of a session; return ``False`` if the request has been refused."""
        state = None if self._life is None else self._life.state
        try:
            session = await shared.look_up(session_id, state, request.principal)
        except OSError as error:
            await self._refuse_without_store(request, id, error)
            return False
        if session is None or self.sessions.get(session_id) is not None:
            return True
        try:
            self.sessions.add(session)
        except TooManySessions:
            session.end()
            shared.forget(session_id)
            await request.refuse(503, int(JsonRpcErrorCode.INTERNAL_ERROR), "Too many sessions", id=id)
            return False
        self.sessions.release(session)
        return True

    async def _refuse_without_store(self, request: IncomingRequest, id: Any, error: OSError) -> None:
        log.error("the session store cannot be reached: %s", error)
        message = "The server's session store cannot be reached; try again"
        await request.refuse(503, int(JsonRpcErrorCode.INTERNAL_ERROR), message, id=id)

    async def _refuse_version(self, request: IncomingRequest, body: Any) -> None:
        message = f"Unsupported protocol version; this server speaks {', '.join(HANDSHAKE_PROTOCOL_VERSIONS)}"
        await request.refuse(400, _INVALID, message, id=readable_id(body))

    def release(self, session: LegacySession) -> None:
        """End one use of a session."""
        self.sessions.release(session)
        # The timer of a loop that was closed (serverless, tests) never fires.
        if self._sweeper is None or self._sweeping_on is None or not self._sweeping_on.is_live():
            self._arm_sweeper()

    def _arm_sweeper(self) -> None:
        wait_s = self.sessions.next_expiry_in_s()
        if wait_s is not None:
            self._sweeping_on = current_runtime()
            self._sweeper = self._sweeping_on.call_later(max(wait_s, _MIN_SWEEP_S), self.sweep)

    def sweep(self) -> None:
        """Remove the sessions whose idle time is over; a timer calls it while there are idle sessions."""
        self._sweeper = None
        self.sessions.sweep()
        self._arm_sweeper()

    def _throwaway_session(self, request: IncomingRequest, body: Any, lifespan_state: Any) -> LegacySession | None:
        """Return a session for one stateless request; ``None`` if its version header names no handshake revision."""
        if _is_initialize(body):
            return LegacySession("", self._server, self._options, lifespan_state, request.principal)
        version = self.stateless_version(request)
        return None if version is None else self.temporary_session(request, version, lifespan_state)

    def stateless_version(self, request: IncomingRequest) -> str | None:
        """Return the version of a stateless request; ``None`` if its version header names no handshake revision."""
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, _ASSUMED_VERSION)
        return version if is_handshake_version(version) else None

    def temporary_session(self, request: IncomingRequest, version: str, lifespan_state: Any) -> LegacySession:
        """Return a session for one stateless request that is not ``initialize``."""
        # Initialized already: a stateless server keeps nothing of a handshake, so that nothing is known of the client.
        connection = Connection.from_envelope(version, None, None)
        # No `notifications/initialized` can reach this session.
        connection.initialized.set()
        return LegacySession("", self._server, self._options, lifespan_state, request.principal, connection)

    def _outlet(self, request: IncomingRequest, session: LegacySession) -> Outlet:
        return Outlet(request, session, self._keep_alive, may_stream=self._options.response_mode != "json")

    # --- shutdown ---------------------------------------------------------------------------------------------------

    async def end_streams(self) -> None:
        """End the GET streams during a shutdown; requests in flight may finish."""
        async with anyio.create_task_group() as group:
            for session in self.sessions:
                if session.has_get_streams:
                    group.start_soon(session.close_get_streams)

    async def end_sessions(self) -> None:
        """End every session."""
        if self._shared is not None:
            self._shared.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for session in self.sessions:
            self.sessions.remove(session.session_id)


def _answered(data: bytes) -> list[RequestId]:
    """Return the requests that a stored message answers."""
    message: Any = decode(data) if data else None
    if type(message) is dict and "id" in message and "method" not in message:
        return [cast("dict[str, Any]", message)["id"]]
    return []


def _is_initialize(body: Any) -> bool:
    return isinstance(body, dict) and cast("dict[str, Any]", body).get("method") == "initialize"


def _is_our_cancel(exchange: LegacyExchange, exc: BaseException) -> bool:
    from asyncio import CancelledError

    task = exchange.task
    return exchange.cancel_requested and task is not None and isinstance(exc, CancelledError) and task.cancelling() <= 1


async def _refuse_busy(request: IncomingRequest, id: RequestId | None) -> None:
    await request.refuse(429, int(JsonRpcErrorCode.INTERNAL_ERROR), "Too many requests are in flight", id=id)


async def _method_not_allowed(request: IncomingRequest) -> None:
    await request.reply_empty(405, [(b"allow", b"POST, OPTIONS")])
