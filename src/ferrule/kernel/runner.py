"""The steps of one request on one connection: context, middleware, checks, typed params, handler, finished result.

`ServerRunner` is independent of transports: a transport calls `handle_request` and encodes the result. The drivers
(`serve_one`, `serve_connection`, `serve_loop`, `serve_dual_era_loop`) differ only in the source of the messages and of
the connection. This module compares no version: the era follows from the connection, other differences from the
tables of its revision.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, cast

import anyio
from msgspec import Struct

from ferrule.kernel.concurrency.spawner import STATUS_IGNORED
from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import (
    DispatchContext,
    Dispatcher,
    OnNotify,
    OnRequest,
    ReadStream,
    WriteStream,
)
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.kernel.fast_path.plain_tools import is_plain_legacy, plain_route, plain_tools_of
from ferrule.kernel.finish import bad_result, check_result, finish_result
from ferrule.kernel.server import (
    CallNext,
    Handler,
    HandlerEntry,
    HandlerResult,
    InitializationOptions,
    LifespanT,
    Server,
    ServerMiddleware,
    ServerRequestContext,
)
from ferrule.kernel.session import LOG_LEVELS, ServerSession
from ferrule.protocol.capabilities import declares_extension
from ferrule.protocol.era import Era, EraLock, MessageEra, Verdict, message_era
from ferrule.protocol.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    MCPError,
    MethodNotFound,
    MissingRequiredClientCapability,
    UnsupportedProtocolVersion,
)
from ferrule.protocol.handshake import Negotiation, is_handshake_version, read_initialize_params
from ferrule.protocol.inbound import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LOG_LEVEL_KEY,
    PROTOCOL_VERSION_KEY,
    InboundLadderRejection,
    InboundModernRoute,
    classify_inbound_request,
)
from ferrule.wire.codec import convert, decode, encode, to_builtins
from ferrule.wire.faults import ConvertError, EncodeError
from ferrule.wire.jsonrpc import JsonRpcError
from ferrule.wire.revisions import (
    MODERN_PROTOCOL_VERSIONS,
    REVISIONS,
    Revision,
    is_core_method,
    project_result,
    read_params,
)

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

__all__ = [
    "CallNext",
    "HandlerResult",
    "ServerMiddleware",
    "ServerRunner",
    "aclose_shielded",
    "handled",
    "modern_on_request",
    "serve_connection",
    "serve_dual_era_loop",
    "serve_loop",
    "serve_one",
]

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 5.0
"""Seconds that the clean-up of a connection (its exit stack) may take before it is abandoned."""

_NO_META: Mapping[str, Any] = {}
_DICT = frozenset({dict})
# Before the handshake a client may send pings only (2025-11-25, "Lifecycle").
_BEFORE_HANDSHAKE = frozenset({"initialize", "ping"})


class ServerRunner(Generic[LifespanT]):
    """Serves the requests and notifications of one connection.

    Args:
        server: its handlers, middleware and options.
        connection: the connection to the peer.
        lifespan_state: the value that the server's lifespan yielded.
        init_options: announced identity and capabilities; ``None`` for those that the server derives.
    """

    __slots__ = ("connection", "lifespan_state", "server")

    def __init__(
        self,
        server: Server[LifespanT],
        connection: Connection,
        lifespan_state: LifespanT,
        *,
        init_options: InitializationOptions | None = None,
    ) -> None:
        self.server = server
        self.connection = connection
        self.lifespan_state = lifespan_state
        # Only if given: a dual-era loop shares the options of its standing connection.
        if init_options is not None:
            connection.init_options = init_options

    async def on_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        """Serve one request and return the finished result as a dict under wire names.

        Raises:
            Exception: any exception of middleware or handler; `error_from_exception` makes the error response of it.
        """
        result = await self.handle_request(dctx, method, params)
        return cast("dict[str, Any]", to_builtins(result))

    async def handle_early(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> HandlerResult:
        """Refuse a request that arrived before the handshake, after it has passed the middleware."""
        # Through the middleware too, so that its logs and metrics count refused requests.
        result = await self.server.chain(_refuse_early)(self._context(dctx, method, params))
        return {} if result is None else result

    async def handle_request(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> HandlerResult:
        """Serve one request and return the finished result, for transports that encode it; see `on_request`."""
        ctx = self._context(dctx, method, params)
        # In a revision without sessions `initialize` is an unknown method, which the chain refuses as any other.
        if method == "initialize" and self.connection.revision.has_sessions:
            return await self._initialize(ctx)
        try:
            result = await self.server.chain(_serve)(ctx)
        except Exception:
            raise
        except BaseException as error:  # raised by a middleware
            raise ctx.session.failure_of(error)  # noqa: B904 - it has its cause
        return {} if result is None else result

    def on_notify(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> Coroutine[Any, Any, None]:
        """Return a coroutine that handles one notification.

        Whether it came before the handshake is decided at the call, in the order of arrival. The coroutine never
        raises: errors are logged. Return values of middleware are discarded.
        """
        connection = self.connection
        # Set at arrival and not in the coroutine: a handler that waits for it must not depend on the order of the
        # tasks.
        if method == "notifications/initialized" and connection.initialize_accepted:
            connection.initialized.set()
        # A cancellation is due at any time: it may withdraw a request that was sent before the handshake ended.
        is_due = connection.is_ready or method == "notifications/cancelled"
        innermost = _handle_notification if is_due else _drop_early
        return self._notify(innermost, self._context(dctx, method, params))

    async def _notify(self, innermost: CallNext, ctx: ServerRequestContext[LifespanT]) -> None:
        try:
            await self.server.chain(innermost)(ctx)
        except BaseException as error:
            logger.error("The handling of %s failed", ctx.method, exc_info=ctx.session.failure_of(error))

    def _context(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> ServerRequestContext[LifespanT]:
        if params is None:
            params = {}
        elif self.connection.revision.renamed_fields:
            params = cast("Mapping[str, Any]", read_params(self.connection.revision, method, params))
        meta: Any = params.get("_meta")
        if type(meta) not in _DICT and not issubclass(type(meta), Mapping):  # exact type first: no call into ABCMeta
            meta = _NO_META
        connection = self.connection
        return ServerRequestContext(
            ServerSession(connection, dctx, meta),
            self.lifespan_state,
            method,
            params,
            dctx.request_id,
            meta,
            connection.protocol_version,
            dctx.transport,
            self.server,
        )

    def typed_context(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any]
    ) -> ServerRequestContext[LifespanT]:
        """Return a request as its handler gets it, with typed params.

        Raises:
            MethodNotFound, InvalidParams: as `handle_request`.
        """
        ctx = self._context(dctx, method, params)
        ctx.params = _typed_params(self.connection.revision, self.server.get_request_handler(method), ctx)
        return ctx

    async def _initialize(self, ctx: ServerRequestContext[LifespanT]) -> HandlerResult:
        """Run the handshake through the middleware, then apply the version of the response."""
        connection = self.connection
        if connection.initialize_accepted or connection.handling_initialize:
            return cast("HandlerResult", await self.server.chain(_refuse_second_initialize)(ctx))
        _check_size_of_initialize(ctx.params)
        # From here on no request goes to the client: it does not answer before it has the response
        # (`check_can_request`).
        connection.handling_initialize = True
        connection.pending_negotiation = None
        try:
            result = await self.server.chain(_serve_initialize)(ctx)
            answered = cast("dict[str, Any]", to_builtins({} if result is None else result))
            # The response counts, not the handler's result: middleware may have changed the version.
            connection.commit(self._negotiation_of(ctx, answered))
        except Exception:
            raise
        except BaseException as error:
            raise ctx.session.failure_of(error)  # noqa: B904 - it has its cause
        finally:
            # Also after a failure: the client may send `initialize` again.
            connection.handling_initialize = False
            connection.pending_negotiation = None
        return answered

    def _negotiation_of(self, ctx: ServerRequestContext[LifespanT], answered: Mapping[str, Any]) -> Negotiation:
        """Return the negotiation that a response to ``initialize`` means.

        Raises:
            InternalError: the response has no handshake revision (the author's mistake); logged.
        """
        version = answered.get("protocolVersion")
        if not is_handshake_version(version):
            logger.error("The answer to initialize names %r, which is not a handshake revision", version)
            raise InternalError
        pending = self.connection.pending_negotiation
        client = read_initialize_params(ctx.params) if pending is None else pending.client
        return Negotiation(client, cast("str", version))


# -- the innermost steps of the chain -----------------------------------------------------------------------------


MAX_INITIALIZE_BYTES: Final = 64 * 1024
"""What a client may say of itself, as JSON: it is kept for as long as its session."""


def _check_size_of_initialize(params: Any) -> None:
    try:
        size = len(encode(params))
    # Not by the bytes of the message: those of the transport may hold a batch, and a pair in one process has none.
    except EncodeError:  # in process, where nothing was JSON: the conversion says what is wrong
        return
    if size > MAX_INITIALIZE_BYTES:
        raise InvalidParams(f"The params of initialize may have {MAX_INITIALIZE_BYTES} bytes")


async def _refuse_early(ctx: ServerRequestContext[Any]) -> Any:
    """Refuse a request that arrived before ``initialize``, with the most specific error."""
    method = ctx.method
    entry = ctx.server.get_request_handler(method)
    # Unknown methods and malformed params have errors of their own, which help more than "too early".
    _typed_params(ctx.session.connection.revision, entry, ctx)
    if entry is None:
        raise MethodNotFound(method)
    raise InvalidParams(f"{method} came before initialize")


async def _serve(ctx: ServerRequestContext[Any]) -> Any:
    """Check a request, convert its params, call the handler, and return the finished result."""
    session = ctx.session
    connection = session.connection
    revision = connection.revision
    server = ctx.server
    method = ctx.method
    # Looked up again after the middleware, which may have changed the method.
    entry = server.get_request_handler(method)
    typed = _typed_params(revision, entry, ctx)
    if entry is None:
        raise MethodNotFound(method)
    if not connection.initialize_accepted and method not in _BEFORE_HANDSHAKE:
        raise InvalidParams(f"{method} came before initialize")
    # A middleware has changed the method: this handshake would get a response but not change the connection.
    if method == "initialize":
        raise InvalidRequest("initialize cannot stand for another request")
    # 2025-11-25 has `tasks/get` in its core and declares it by a core capability; later it belongs to an extension.
    if entry.extension is not None and method not in revision.requests:
        _require_extension(connection, entry.extension, method)
    # Legacy clients set the level once by `logging/setLevel`; the key in `_meta` has no meaning there.
    if LOG_LEVEL_KEY in ctx.meta and not connection.revision.has_sessions:
        _check_log_level(ctx.meta[LOG_LEVEL_KEY])
    return await handled(
        entry,
        entry.handler,
        ServerRequestContext(
            session,
            ctx.lifespan_context,
            method,
            typed,
            ctx.request_id,
            ctx.meta,
            ctx.protocol_version,
            ctx.transport,
            server,
        ),
    )


async def handled(entry: HandlerEntry, handler: Handler, ctx: ServerRequestContext[Any]) -> Any:
    """What a handler gives for a context with typed params, as a finished result.

    Args:
        entry: what serves the method.
        handler: that of the entry, or one that goes on with what was begun elsewhere.

    Raises:
        Whatever the handler raises; an ``Exception`` unless a cancellation was requested.
    """
    session = ctx.session
    try:
        result = await handler(ctx)
    except Exception:
        raise
    except BaseException as error:
        raise session.failure_of(error)  # noqa: B904 - it has its cause
    if isinstance(result, (JsonRpcError, Exception)):
        raise _returned_error(result)
    # The check converts the whole result once more; results of built-in and decorated handlers are right by their
    # types.
    if not entry.trusted:
        result = check_result(session.connection.revision, ctx.method, result, entry.extension is not None)
    return finish_result(ctx.server, session.connection, ctx.method, result)


def _returned_error(error: JsonRpcError | Exception) -> Exception:
    """Return the exception for an error that a handler returned; raised in the chain, so that middleware sees it."""
    return MCPError(error.message, code=error.code, data=error.data) if isinstance(error, JsonRpcError) else error


def _check_log_level(level: Any) -> None:
    """Refuse a request with an unknown log level in its ``_meta`` (2026-07-28, "Logging")."""
    if level not in LOG_LEVELS:
        raise InvalidParams(f"{LOG_LEVEL_KEY} is one of {', '.join(LOG_LEVELS)}")


async def _serve_initialize(ctx: ServerRequestContext[Any]) -> Any:
    """Serve ``initialize``; its result has the form of the revision that it names, since none is negotiated yet."""
    if ctx.method != "initialize":  # a middleware has changed the method
        return await _serve(ctx)
    connection = ctx.session.connection
    entry = ctx.server.get_request_handler(ctx.method)
    typed = _typed_params(connection.revision, entry, ctx)
    if entry is None:
        raise MethodNotFound(ctx.method)
    result = await entry.handler(replace(ctx, params=typed))
    if isinstance(result, (JsonRpcError, Exception)):
        raise _returned_error(result)
    # Checked even from a trusted handler: its version decides the form of all later messages.
    result = check_result(connection.revision, ctx.method, result, False)
    version = to_builtins(result).get("protocolVersion")
    if not is_handshake_version(version):
        raise bad_result(ctx.method, f"{version!r} is not a handshake revision", result)
    connection.pending_negotiation = Negotiation(typed, version)
    # By the negotiated revision and not the connection's: the client reads the response with the version inside it.
    return project_result(REVISIONS[version], ctx.method, result)


async def _refuse_second_initialize(ctx: ServerRequestContext[Any]) -> Any:
    if ctx.method != "initialize":  # a middleware has changed the method
        return await _serve(ctx)
    raise InvalidRequest("This connection is already initialized")


def _typed_params(revision: Revision, entry: HandlerEntry | None, ctx: ServerRequestContext[Any]) -> Any:
    """Return the params as the method's type. Malformed params are refused even if there is no handler.

    Raises:
        MethodNotFound: neither the revision nor the server defines the method.
        InvalidParams: the params have another shape.
    """
    known = revision.requests.get(ctx.method)
    # A core method of another revision stays unknown even if the server has a handler for it (`ping` in 2026-07-28).
    if known is None and (entry is None or (is_core_method(ctx.method) and not _is_extended(entry, revision))):
        raise MethodNotFound(ctx.method)
    params_type = entry.params_type if entry is not None and entry.params_type is not None else None
    if params_type is None:
        if known is None:
            return ctx.params
        params_type = known[0]
    try:
        return convert(ctx.params, params_type)
    except ConvertError as error:
        raise InvalidParams(f"Invalid params for {ctx.method}: {error}") from error


def _is_extended(entry: HandlerEntry, revision: Revision) -> bool:
    """Return whether an extension defines a method that other revisions have in their core; modern era only."""
    return entry.extension is not None and revision.has_extensions


def _require_extension(connection: Connection, extension: str, method: str) -> None:
    if declares_extension(connection.client_capabilities_raw, extension):
        return
    if not connection.revision.has_extensions:  # the error is modern; a legacy client has no such method
        raise MethodNotFound(method)
    raise MissingRequiredClientCapability({"extensions": {extension: {}}})


async def _drop_early(ctx: ServerRequestContext[Any]) -> None:
    """Drop a notification that came before ``notifications/initialized``."""
    logger.warning("Dropped %s: it came before notifications/initialized", ctx.method)


async def _handle_notification(ctx: ServerRequestContext[Any]) -> None:
    """Convert the params of a notification and call its handler; log and drop an unknown or malformed one."""
    entry = ctx.server.get_notification_handler(ctx.method)
    params_type = ctx.revision.notifications.get(ctx.method)
    if entry is not None and entry.params_type is not None:
        params_type = entry.params_type
    # A notification has no response, so that an unknown one can only be dropped (JSON-RPC 2.0, section 4.1).
    if params_type is None and (entry is None or is_core_method(ctx.method)):
        logger.debug("Dropped %s: unknown in %s", ctx.method, ctx.protocol_version)
        return
    params = ctx.params
    if params_type is not None:
        try:
            params = convert(params, params_type)
        except ConvertError as error:
            logger.warning("Dropped a malformed %s: %s", ctx.method, error)
            return
    if entry is not None:
        await entry.handler(
            ServerRequestContext(
                ctx.session,
                ctx.lifespan_context,
                ctx.method,
                params,
                None,
                ctx.meta,
                ctx.protocol_version,
                ctx.transport,
                ctx.server,
            )
        )


# -- drivers ------------------------------------------------------------------------------------------------------


async def aclose_shielded(connection: Connection) -> None:
    """Unwind the connection's exit stack, shielded from cancellation and bounded to `CLOSE_TIMEOUT_S` seconds.

    An exception of a callback is logged; a callback that does not end is abandoned with a warning.
    """
    stack = connection.opened_exit_stack
    if stack is None:
        return
    # Taken first: a callback may close the connection again, and must not unwind the stack a second time.
    connection.opened_exit_stack = None
    # Shielded, since a connection often closes because its task was cancelled; bounded, since a shutdown waits for it.
    with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True) as scope:
        try:
            await stack.aclose()
        except Exception:
            logger.exception("Clean-up of a connection failed")
    if scope.cancelled_caught:
        logger.warning("Clean-up of a connection did not end within %g s and was abandoned", CLOSE_TIMEOUT_S)


async def serve_one(
    server: Server[LifespanT],
    dctx: DispatchContext,
    method: str,
    params: Mapping[str, Any] | None,
    *,
    connection: Connection,
    lifespan_state: LifespanT,
) -> dict[str, Any]:
    """Serve one request on a modern connection, close the connection, and return the result under wire names.

    Raises:
        Exception: any exception of middleware or handler; see `ServerRunner.on_request`.
    """
    try:
        return await ServerRunner(server, connection, lifespan_state).on_request(dctx, method, params)
    finally:
        await aclose_shielded(connection)


def modern_on_request(server: Server[LifespanT], lifespan_state: LifespanT) -> OnRequest:
    """Return a callback that serves each call on a new modern connection, for a `DirectDispatcher` in one process.

    The caller is this program, so that the envelope need not be complete: without a version, the newest modern revision
    of the server applies.
    """

    async def on_request(dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        # Not `classify_inbound_request`: that requires the whole envelope, which a caller in the same program may leave
        # out.
        meta = (params or {}).get("_meta")
        envelope = cast("Mapping[str, Any]", meta) if isinstance(meta, Mapping) else _NO_META
        version = envelope.get(PROTOCOL_VERSION_KEY)
        if version is None:
            version = (server.modern_versions or MODERN_PROTOCOL_VERSIONS)[-1]
        elif version not in server.modern_versions:
            raise UnsupportedProtocolVersion(version, server.modern_versions)
        connection = Connection.from_envelope(
            version,
            envelope.get(CLIENT_INFO_KEY),
            envelope.get(CLIENT_CAPABILITIES_KEY) or {},
            outbound=dctx,
        )
        return await serve_one(server, dctx, method, params, connection=connection, lifespan_state=lifespan_state)

    return on_request


async def serve_connection(
    server: Server[LifespanT],
    dispatcher: Dispatcher,
    *,
    connection: Connection,
    lifespan_state: LifespanT,
    init_options: InitializationOptions | None = None,
    task_status: TaskStatus[None] = STATUS_IGNORED,
) -> None:
    """Serve the messages of a dispatcher until its channel closes, then close the connection."""
    runner = ServerRunner(server, connection, lifespan_state, init_options=init_options)

    def on_request(dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Awaitable[HandlerResult]:
        # Judged when the message is read and not in its task, or a later `initialize` could make an early request
        # valid.
        if not connection.initialize_accepted and method not in _BEFORE_HANDSHAKE:
            return runner.handle_early(dctx, method, params)
        return runner.handle_request(dctx, method, params)

    await _drive(dispatcher, runner, on_request, _with_forwarding(dispatcher, runner), task_status)


async def _drive(
    dispatcher: Dispatcher,
    runner: ServerRunner[Any],
    on_request: OnRequest,
    on_notify: OnNotify,
    task_status: TaskStatus[None] = STATUS_IGNORED,
) -> None:
    """Run a dispatcher for a standing connection, and close the connection at its end."""
    connection, server = runner.connection, runner.server
    if isinstance(dispatcher, JSONRPCDispatcher):
        dispatcher.on_closing = connection.closing
        dispatcher.spawns_notification = lambda method: (
            # User code must not block the reading loop: it may send a request and wait for the response.
            bool(server.middleware) or server.get_notification_handler(method) is not None
        )
        dispatcher.accepts_batches = lambda: connection.revision.has_batches
    try:
        await dispatcher.run(on_request, on_notify, task_status=task_status)
    finally:
        # Again after `on_closing`: a dispatcher of another class has no such hook. Each callback runs once at most.
        connection.closing()
        if connection.listener is not None:
            connection.listener.end()
        await aclose_shielded(connection)


def _with_forwarding(dispatcher: Dispatcher, runner: ServerRunner[Any]) -> OnNotify:
    """Return an `on_notify` that also starts to forward changes when a legacy client is initialized."""

    def on_notify(dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Coroutine[Any, Any, None]:
        # First, since it sets `initialized`, on which the forwarding depends.
        taking = runner.on_notify(dctx, method, params)
        if (
            method == "notifications/initialized"
            and runner.connection.is_ready
            and runner.connection.revision.has_sessions
        ):
            # The only import of the legacy folder in this layer; modern connections do not reach it.
            from ferrule.kernel.legacy.change_forwarder import start_forwarding

            start_forwarding(dispatcher, runner.connection, runner.server)
        return taking

    return on_notify


async def serve_loop(
    server: Server[LifespanT],
    read_stream: ReadStream,
    write_stream: WriteStream,
    *,
    lifespan_state: LifespanT,
    session_id: str | None = None,
    init_options: InitializationOptions | None = None,
    raise_exceptions: bool = False,
) -> None:
    """Serve the handshake era over a stream pair until it ends.

    ``initialize`` is handled before the next message is read, so that a pipelined request sees the initialized state.

    Args:
        server: its handlers, middleware and options.
        read_stream, write_stream: the stream pair.
        lifespan_state: the value that the server's lifespan yielded.
        session_id: the id of a legacy HTTP session.
        init_options: announced identity and capabilities; ``None`` for those that the server derives.
        raise_exceptions: an exception of a handler ends the loop instead of becoming an error response (for tests).
    """
    dispatcher = JSONRPCDispatcher(read_stream, write_stream, raise_exceptions=raise_exceptions)
    connection = Connection.for_loop(dispatcher, session_id=session_id)
    await serve_connection(
        server, dispatcher, connection=connection, lifespan_state=lifespan_state, init_options=init_options
    )


async def serve_dual_era_loop(
    server: Server[LifespanT],
    read_stream: ReadStream,
    write_stream: WriteStream,
    *,
    lifespan_state: LifespanT,
    session_id: str | None = None,
    init_options: InitializationOptions | None = None,
    raise_exceptions: bool = False,
) -> None:
    """Serve both eras over one stream pair; the first request that succeeds locks the era (`EraLock`).

    Args:
        server, read_stream, write_stream, lifespan_state, session_id, init_options, raise_exceptions: as for
            `serve_loop`.
    """
    dispatcher = JSONRPCDispatcher(read_stream, write_stream, raise_exceptions=raise_exceptions)
    connection = Connection.for_loop(dispatcher, session_id=session_id)
    runner = ServerRunner(server, connection, lifespan_state, init_options=init_options)
    loop = _DualEra(runner, dispatcher)
    _serve_plain_calls(dispatcher, loop)
    await _drive(dispatcher, runner, loop.on_request, loop.on_notify)


def _serve_plain_calls(dispatcher: JSONRPCDispatcher, loop: _DualEra) -> None:
    """Serve plain calls by the fast path, if the server has one."""
    tools = plain_tools_of(loop.server)
    if tools is not None:
        from ferrule.kernel.fast_path.plain_calls import PlainCalls

        dispatcher.plain_calls = PlainCalls(tools, loop, dispatcher)


class _PlainOrigin(Struct, frozen=True):
    """The sender of plain calls: a route of the modern era, or the client of a legacy connection."""

    revision: Revision
    route: InboundModernRoute | None


class _DualEra:
    """One standing connection under an `EraLock`; each modern request gets a connection of its own."""

    def __init__(self, runner: ServerRunner[Any], dispatcher: Dispatcher) -> None:
        self.runner = runner
        self.server = runner.server
        self.connection = runner.connection
        self.legacy_notify = _with_forwarding(dispatcher, runner)
        self.lock = EraLock(self.server.modern_versions)
        self.modern_version = ""  # until the first modern request names one
        # Modern connections end with their request, but their subscriptions end with the channel.
        self.closing = self.connection.shared_closing()

    # -- plain calls (`ferrule.kernel.fast_path.plain_calls.Origins`) ------------------------------------------------

    @property
    def plain_state(self) -> object | None:
        """The modern versions that are served, or the revision of an open legacy connection."""
        state = self.lock.state
        if state is Era.MODERN:
            return self.server.modern_versions
        connection = self.connection
        return connection.revision if state is Era.LEGACY and connection.initialize_accepted else None

    def origin(self, meta: bytes | None) -> _PlainOrigin | None:
        """Judge ``_meta``, as `on_request` does."""
        params: dict[str, Any] = {} if meta is None else {"_meta": decode(meta)}
        if self.lock.state is not Era.MODERN:
            return _PlainOrigin(self.connection.revision, None) if is_plain_legacy(params) else None
        route = plain_route(self.server, params)
        if route is None:
            return None
        return _PlainOrigin(REVISIONS[route.protocol_version], route)

    def _plain_connection(self, origin: _PlainOrigin, dctx: DispatchContext | None) -> Connection:
        return self.connection if origin.route is None else self.modern_connection(origin.route, dctx)

    def finish_plain(self, origin: _PlainOrigin, result: Any) -> Any:
        """Return the finished result of a plain call."""
        return finish_result(self.server, self._plain_connection(origin, None), "tools/call", result)

    def plain_request(
        self, origin: _PlainOrigin, dctx: DispatchContext, params: dict[str, Any]
    ) -> ServerRequestContext[Any]:
        """Return the request of a plain call as its handler gets it."""
        runner = ServerRunner(self.server, self._plain_connection(origin, dctx), self.runner.lifespan_state)
        return runner.typed_context(dctx, "tools/call", params)

    async def serve_plain(self, entry: HandlerEntry, handler: Handler, request: ServerRequestContext[Any]) -> Any:
        """Return the finished result of a plain call that a handler goes on with."""
        connection = request.session.connection
        try:
            return await handled(entry, handler, request)
        finally:
            if connection is not self.connection and connection.opened_exit_stack is not None:
                await aclose_shielded(connection)

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
                if not self.connection.initialize_accepted and method not in _BEFORE_HANDSHAKE:
                    return self.runner.handle_early(dctx, method, params)
                return self.runner.handle_request(dctx, method, params)
        route = classify_inbound_request(
            {"method": method, "params": params}, supported_modern_versions=self.server.modern_versions
        )
        if isinstance(route, InboundLadderRejection):
            raise _rejection_error(route)
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
            # Asked here as well, to save the call of a coroutine for each request.
            if connection.opened_exit_stack is not None:
                await aclose_shielded(connection)

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
            await aclose_shielded(connection)


def _rejection_error(rejection: InboundLadderRejection) -> MCPError:
    if rejection.data is None:
        return MCPError(rejection.message, code=rejection.code)
    return MCPError(rejection.message, code=rejection.code, data=rejection.data)
