"""One request on one connection: context, middleware, gate, typed params, handler, finished result.

`ServerRunner` knows no transport; whatever carries messages calls `handle_request` and encodes what comes back. The
drivers below it (`serve_one`, `serve_connection`, `serve_loop`, `serve_dual_era_loop`) differ only in where the
messages and the connection come from. Nothing here compares a version: eras are told apart by the connection's kind,
revisions by their tables.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, cast

import anyio

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
from ferrule.kernel.finish import bad_result, check_result, finish_result
from ferrule.kernel.server import (
    CallNext,
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
    classify_inbound_request,
)
from ferrule.wire.codec import convert, encode, to_builtins
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
    "modern_on_request",
    "serve_connection",
    "serve_dual_era_loop",
    "serve_loop",
    "serve_one",
]

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 5.0
"""Seconds that a connection's exit stack may take before it is abandoned."""

_NO_META: Mapping[str, Any] = {}
_DICT = frozenset({dict})
_BEFORE_HANDSHAKE = frozenset({"initialize", "ping"})


class ServerRunner(Generic[LifespanT]):
    """The kernel of one connection.

    Args:
        server: the registry.
        connection: the peer.
        lifespan_state: what the server's lifespan yielded.
        init_options: announce these instead of what the server derives.
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
        if init_options is not None:
            connection.init_options = init_options

    async def on_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        """Serve one request; the finished result as a dict under wire names.

        Raises:
            Whatever the chain raises; `error_from_exception` says what the peer is told.
        """
        result = await self.handle_request(dctx, method, params)
        return cast("dict[str, Any]", to_builtins(result))

    async def handle_early(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> HandlerResult:
        """As `handle_request` for what arrived before the handshake, however late its turn comes."""
        result = await self.server.chain(_refuse_early)(self._context(dctx, method, params))
        return {} if result is None else result

    async def handle_request(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> HandlerResult:
        """As `on_request` without building the dict: what transports that encode use."""
        ctx = self._context(dctx, method, params)
        if method == "initialize" and self.connection.revision.has_sessions:
            return await self._initialize(ctx)
        try:
            result = await self.server.chain(_serve)(ctx)
        except Exception:
            raise
        except BaseException as error:  # of a middleware
            raise ctx.session.failure_of(error)  # noqa: B904 - it has its cause
        return {} if result is None else result

    def on_notify(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> Coroutine[Any, Any, None]:
        """Take one notification: ``await runner.on_notify(…)``.

        Whether it came too early is judged at the call, in the order of arrival. Awaiting it never raises: what fails
        is logged, and what middleware returns is discarded.
        """
        connection = self.connection
        if method == "notifications/initialized" and connection.initialize_accepted:
            connection.initialized.set()
        is_due = connection.is_ready or method == "notifications/cancelled"
        return self._notify(_take if is_due else _drop_early, self._context(dctx, method, params))

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

    async def _initialize(self, ctx: ServerRequestContext[LifespanT]) -> HandlerResult:
        """Run the handshake through the chain, then commit what was really answered."""
        connection = self.connection
        if connection.initialize_accepted or connection.handling_initialize:
            return cast("HandlerResult", await self.server.chain(_refuse_second_initialize)(ctx))
        _check_size_of_initialize(ctx.params)
        connection.handling_initialize = True
        connection.pending_negotiation = None
        try:
            result = await self.server.chain(_serve_initialize)(ctx)
            answered = cast("dict[str, Any]", to_builtins({} if result is None else result))
            connection.commit(self._settled(ctx, answered))
        except Exception:
            raise
        except BaseException as error:
            raise ctx.session.failure_of(error)  # noqa: B904 - it has its cause
        finally:
            connection.handling_initialize = False
            connection.pending_negotiation = None
        return answered

    def _settled(self, ctx: ServerRequestContext[LifespanT], answered: Mapping[str, Any]) -> Negotiation:
        """Return the negotiation that the answer stands for, whoever made the answer."""
        version = answered.get("protocolVersion")
        if not is_handshake_version(version):
            logger.error("The answer to initialize names %r, which is no handshake revision", version)
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
    except EncodeError:  # in process, where nothing was JSON: the conversion says what is wrong
        return
    if size > MAX_INITIALIZE_BYTES:
        raise InvalidParams(f"The params of initialize may have {MAX_INITIALIZE_BYTES} bytes")


async def _refuse_early(ctx: ServerRequestContext[Any]) -> Any:
    """Refuse a request that arrived before `initialize`, unless it may."""
    method = ctx.method
    entry = ctx.server.get_request_handler(method)
    _typed_params(ctx.session.connection.revision, entry, ctx)
    if entry is None:
        raise MethodNotFound(method)
    raise InvalidParams(f"{method} came before initialize")


async def _serve(ctx: ServerRequestContext[Any]) -> Any:
    """Gate, typed params, handler, finished result."""
    session = ctx.session
    connection = session.connection
    revision = connection.revision
    server = ctx.server
    method = ctx.method
    entry = server.get_request_handler(method)
    typed = _typed_params(revision, entry, ctx)
    if entry is None:
        raise MethodNotFound(method)
    if not connection.initialize_accepted and method not in _BEFORE_HANDSHAKE:
        raise InvalidParams(f"{method} came before initialize")
    if method == "initialize":  # a middleware made it of something else: it would be answered but never hold
        raise InvalidRequest("initialize cannot stand for another request")
    if entry.extension is not None and method not in revision.requests:
        _require_extension(connection, entry.extension, method)
    if LOG_LEVEL_KEY in ctx.meta and not connection.revision.has_sessions:
        _check_log_level(ctx.meta[LOG_LEVEL_KEY])
    try:
        result = await entry.handler(
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
            )
        )
    except Exception:
        raise
    except BaseException as error:
        raise session.failure_of(error)  # noqa: B904 - it has its cause
    if isinstance(result, (JsonRpcError, Exception)):
        raise _returned_error(result)
    if not entry.trusted:
        result = check_result(revision, method, result, entry.extension is not None)
    return finish_result(server, connection, method, result)


def _returned_error(error: JsonRpcError | Exception) -> Exception:
    """Return a returned error value raises inside the chain, so that middleware sees it."""
    return MCPError(error.message, code=error.code, data=error.data) if isinstance(error, JsonRpcError) else error


def _check_log_level(level: Any) -> None:
    """An unknown level is refused with the request that names it (2026-07-28, "Logging")."""
    if level not in LOG_LEVELS:
        raise InvalidParams(f"{LOG_LEVEL_KEY} is one of {', '.join(LOG_LEVELS)}")


async def _serve_initialize(ctx: ServerRequestContext[Any]) -> Any:
    """As `_serve`, where no revision holds yet: the result is written for the one that it names itself."""
    if ctx.method != "initialize":
        return await _serve(ctx)
    connection = ctx.session.connection
    entry = ctx.server.get_request_handler(ctx.method)
    typed = _typed_params(connection.revision, entry, ctx)
    if entry is None:
        raise MethodNotFound(ctx.method)
    result = await entry.handler(replace(ctx, params=typed))
    if isinstance(result, (JsonRpcError, Exception)):
        raise _returned_error(result)
    result = check_result(connection.revision, ctx.method, result, False)
    version = to_builtins(result).get("protocolVersion")
    if not is_handshake_version(version):
        raise bad_result(ctx.method, f"{version!r} is no handshake revision", result)
    connection.pending_negotiation = Negotiation(typed, version)
    return project_result(REVISIONS[version], ctx.method, result)


async def _refuse_second_initialize(ctx: ServerRequestContext[Any]) -> Any:
    if ctx.method != "initialize":
        return await _serve(ctx)
    raise InvalidRequest("This connection is already initialized")


def _typed_params(revision: Revision, entry: HandlerEntry | None, ctx: ServerRequestContext[Any]) -> Any:
    """Return the params as the method's type; malformed ones are refused even where nothing serves the method.

    Raises:
        MethodNotFound: neither the revision nor the server knows the method.
        InvalidParams: they have another shape.
    """
    known = revision.requests.get(ctx.method)
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
    """Whether an extension brings a method back that other revisions have in their core: modern revisions only."""
    return entry.extension is not None and revision.has_extensions


def _require_extension(connection: Connection, extension: str, method: str) -> None:
    if declares_extension(connection.client_capabilities_raw, extension):
        return
    if not connection.revision.has_extensions:  # there is no such error, and for this client no such method
        raise MethodNotFound(method)
    raise MissingRequiredClientCapability({"extensions": {extension: {}}})


async def _drop_early(ctx: ServerRequestContext[Any]) -> None:
    """A notification before the client said that it is initialized."""
    logger.warning("Dropped %s: it came before notifications/initialized", ctx.method)


async def _take(ctx: ServerRequestContext[Any]) -> None:
    """Typed params and handler of a notification; an unknown or malformed one is dropped with a log line."""
    entry = ctx.server.get_notification_handler(ctx.method)
    params_type = ctx.revision.notifications.get(ctx.method)
    if entry is not None and entry.params_type is not None:
        params_type = entry.params_type
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
    """Unwind the connection's exit stack, shielded from cancellation and bounded to 5 s.

    A callback that raises is logged and swallowed; one that hangs is abandoned with a warning. Costs nothing when
    nothing was registered.
    """
    stack = connection.opened_exit_stack
    if stack is None:
        return
    connection.opened_exit_stack = None
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
    """Serve one request on a connection that is born ready, and tear it down.

    Raises:
        Whatever the chain raises.
    """
    try:
        return await ServerRunner(server, connection, lifespan_state).on_request(dctx, method, params)
    finally:
        await aclose_shielded(connection)


def modern_on_request(server: Server[LifespanT], lifespan_state: LifespanT) -> OnRequest:
    """Return a callback that serves each call on a fresh modern connection: for a `DirectDispatcher` in one process.

    There is no ladder here: the caller is this program. A missing version means the newest that the server speaks.
    """

    async def on_request(dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
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
    """Drive a dispatcher until its channel closes, then tear the connection down."""
    runner = ServerRunner(server, connection, lifespan_state, init_options=init_options)

    def on_request(dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Awaitable[HandlerResult]:
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
    """Run a dispatcher for a standing connection and tear that down; what only stream pairs have is wired here."""
    connection, server = runner.connection, runner.server
    if isinstance(dispatcher, JSONRPCDispatcher):
        dispatcher.on_closing = connection.closing
        dispatcher.spawns_notification = lambda method: (
            # Foreign code must not hold up the reading: it may wait for an answer.
            bool(server.middleware) or server.get_notification_handler(method) is not None
        )
        dispatcher.accepts_batches = lambda: connection.revision.has_batches
    try:
        await dispatcher.run(on_request, on_notify, task_status=task_status)
    finally:
        connection.closing()
        if connection.listener is not None:
            connection.listener.end()
        await aclose_shielded(connection)


def _with_forwarding(dispatcher: Dispatcher, runner: ServerRunner[Any]) -> OnNotify:
    """Return the runner's `on_notify`, which also starts to forward changes once a legacy client is initialized."""

    def on_notify(dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Coroutine[Any, Any, None]:
        taking = runner.on_notify(dctx, method, params)
        if (
            method == "notifications/initialized"
            and runner.connection.is_ready
            and runner.connection.revision.has_sessions
        ):
            # The one import of the legacy folder in this layer; no modern connection comes here.
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

    ``initialize`` is handled inline, so a request pipelined behind it sees the initialized state.

    Args:
        raise_exceptions: let what a handler raises end the loop instead of becoming an error (for tests).
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
    """Serve both eras over one stream pair; what succeeds first locks the connection's era (`EraLock`)."""
    dispatcher = JSONRPCDispatcher(read_stream, write_stream, raise_exceptions=raise_exceptions)
    connection = Connection.for_loop(dispatcher, session_id=session_id)
    runner = ServerRunner(server, connection, lifespan_state, init_options=init_options)
    loop = _DualEra(runner, dispatcher)
    await _drive(dispatcher, runner, loop.on_request, loop.on_notify)


class _DualEra:
    """One standing connection under an `EraLock`; modern requests get connections of their own."""

    def __init__(self, runner: ServerRunner[Any], dispatcher: Dispatcher) -> None:
        self.runner = runner
        self.server = runner.server
        self.connection = runner.connection
        self.legacy_notify = _with_forwarding(dispatcher, runner)
        self.lock = EraLock(self.server.modern_versions)
        self.modern_version = ""  # until the first modern request names one
        self.closing = self.connection.shared_closing()

    # -- both -----------------------------------------------------------------------------------------------------

    def on_request(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> Awaitable[HandlerResult]:
        """Judge now, in the order of arrival; serve when awaited."""
        lock = self.lock
        if lock.state is not Era.MODERN or method == "initialize":  # else the table always says: serve it as modern
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
        self.modern_version = route.protocol_version
        connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities, outbound=dctx
        )
        connection.closing_state = self.closing
        connection.init_options = self.connection.init_options
        return self._serve_modern(connection, dctx, method, params)

    async def _initialize(self, dctx: DispatchContext, params: Mapping[str, Any] | None) -> HandlerResult:
        result = await self.runner.handle_request(dctx, "initialize", params)
        self.lock.succeeded(MessageEra.INITIALIZE)
        return result

    async def _serve_modern(
        self, connection: Connection, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> HandlerResult:
        try:
            runner = ServerRunner(self.server, connection, self.runner.lifespan_state)
            return await runner.handle_request(dctx, method, params)
        finally:
            if connection.opened_exit_stack is not None:
                await aclose_shielded(connection)

    def on_notify(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Awaitable[None]:
        """A notification belongs to the era that the connection locked; in the modern one it inherits the version."""
        if self.lock.state is Era.MODERN:
            return self._notify_modern(self.modern_version, dctx, method, params)
        return self.legacy_notify(dctx, method, params)

    async def _notify_modern(
        self, version: str, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> None:
        connection = Connection.from_envelope(version, None, {}, outbound=dctx)
        try:
            await ServerRunner(self.server, connection, self.runner.lifespan_state).on_notify(dctx, method, params)
        finally:
            await aclose_shielded(connection)


def _rejection_error(rejection: InboundLadderRejection) -> MCPError:
    if rejection.data is None:
        return MCPError(rejection.message, code=rejection.code)
    return MCPError(rejection.message, code=rejection.code, data=rejection.data)
