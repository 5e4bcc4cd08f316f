"""One request on one connection: context, middleware, gate, typed params, handler, finished result.

`ServerRunner` knows no transport; whatever carries messages calls `handle_request` and encodes what comes back. The
drivers below it (`serve_one`, `serve_connection`, `serve_loop`, `serve_dual_era_loop`) differ only in where the
messages and the connection come from. Nothing here compares a version: eras are told apart by the connection's kind,
revisions by their tables.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Generic, TypeVar, cast

import anyio
from anyio.abc import TaskStatus

from ferrule.kernel.connection import Connection
from ferrule.kernel.context import (
    CallNext,
    HandlerResult,
    ServerMiddleware,
    ServerRequestContext,
)
from ferrule.kernel.dispatch import DispatchContext, Dispatcher, OnRequest, ReadStream, WriteStream
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.kernel.finish import check_result, finish_result
from ferrule.kernel.server import HandlerEntry, InitializationOptions, Server
from ferrule.kernel.session import ServerSession
from ferrule.protocol.capabilities import declares_extension
from ferrule.protocol.era import Era, EraLock, MessageEra, Verdict, message_era
from ferrule.protocol.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    MCPError,
    MethodNotFound,
    MissingRequiredClientCapability,
)
from ferrule.protocol.handshake import Negotiation, is_handshake_version, read_initialize_params
from ferrule.protocol.inbound import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    PROTOCOL_VERSION_KEY,
    InboundLadderRejection,
    classify_inbound_request,
)
from ferrule.wire.codec import convert, to_builtins
from ferrule.wire.faults import ConvertError
from ferrule.wire.jsonrpc import JsonRpcError
from ferrule.wire.revisions import (
    LATEST_MODERN_VERSION,
    Revision,
    is_core_method,
)

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

LifespanT = TypeVar("LifespanT")

CLOSE_TIMEOUT_S = 5.0
"""Seconds that a connection's exit stack may take before it is abandoned."""

_NO_META: Mapping[str, Any] = {}
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

    async def handle_request(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> HandlerResult:
        """As `on_request` without building the dict: what transports that encode use."""
        ctx = self._context(dctx, method, params)
        if method == "initialize":
            return await self._initialize(ctx)
        result = await self.server.chain(_serve)(ctx)
        return {} if result is None else result

    async def on_notify(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> None:
        """Take one notification. Never raises: what fails is logged, and what middleware returns is discarded."""
        connection = self.connection
        if method == "notifications/initialized" and not connection.is_modern:
            if not connection.initialize_accepted:
                logger.warning("Dropped notifications/initialized: it came before initialize")
                return
            connection.initialized.set()
        elif not connection.is_ready and method != "notifications/cancelled":
            logger.warning("Dropped %s: it came before notifications/initialized", method)
            return
        try:
            await self.server.chain(_take)(self._context(dctx, method, params))
        except Exception:
            logger.exception("The handling of %s failed", method)

    def _context(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> ServerRequestContext[LifespanT]:
        if params is None:
            params = {}
        sent: Any = params.get("_meta")
        meta = cast("Mapping[str, Any]", sent) if isinstance(sent, Mapping) else _NO_META
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
        if connection.is_modern:
            raise MethodNotFound(ctx.method)
        if connection.initialize_accepted or connection.handling_initialize:
            raise InvalidRequest("This connection is already initialized")
        connection.handling_initialize = True
        connection.pending_negotiation = None
        try:
            result = await self.server.chain(_serve)(ctx)
            answered = cast("dict[str, Any]", to_builtins({} if result is None else result))
            connection.commit(self._settled(ctx, answered))
        finally:
            connection.handling_initialize = False
            connection.pending_negotiation = None
        return answered

    def _settled(self, ctx: ServerRequestContext[LifespanT], answered: Mapping[str, Any]) -> Negotiation:
        """The negotiation that the answer stands for, whoever made the answer."""
        version = answered.get("protocolVersion")
        if not is_handshake_version(version):
            logger.error("The answer to initialize names %r, which is no handshake revision", version)
            raise InternalError
        pending = self.connection.pending_negotiation
        client = read_initialize_params(ctx.params) if pending is None else pending.client
        return Negotiation(client, cast("str", version))


# -- the innermost steps of the chain -----------------------------------------------------------------------------


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
    if entry.extension is not None:
        _require_extension(connection, entry.extension)
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
    if isinstance(result, JsonRpcError):
        raise MCPError(result.message, code=result.code, data=result.data)
    if isinstance(result, Exception):
        raise result
    if not entry.trusted:
        result = check_result(revision, method, result, entry.extension is not None)
    return finish_result(server, connection, method, result)


def _typed_params(revision: Revision, entry: HandlerEntry | None, ctx: ServerRequestContext[Any]) -> Any:
    """The params as the method's type; malformed ones are refused even where nothing serves the method.

    Raises:
        MethodNotFound: neither the revision nor the server knows the method.
        InvalidParams: they have another shape.
    """
    known = revision.requests.get(ctx.method)
    if known is None and (entry is None or (entry.extension is None and is_core_method(ctx.method))):
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


def _require_extension(connection: Connection, extension: str) -> None:
    if not declares_extension(connection.client_capabilities_raw, extension):
        raise MissingRequiredClientCapability({"extensions": {extension: {}}})


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
    stack = connection.take_exit_stack()
    if stack is None:
        return
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
    """A callback that serves each call on a fresh modern connection: for a `DirectDispatcher` in one process.

    There is no ladder here: the caller is this program. A missing version means the latest.
    """

    async def on_request(dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        meta = (params or {}).get("_meta")
        envelope = cast("Mapping[str, Any]", meta) if isinstance(meta, Mapping) else _NO_META
        connection = Connection.from_envelope(
            envelope.get(PROTOCOL_VERSION_KEY) or LATEST_MODERN_VERSION,
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
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Drive a dispatcher until its channel closes, then tear the connection down."""
    runner = ServerRunner(server, connection, lifespan_state, init_options=init_options)
    try:
        await dispatcher.run(runner.handle_request, runner.on_notify, task_status=task_status)
    finally:
        connection.closing()
        await aclose_shielded(connection)


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
    loop = _Loop(server, dispatcher, connection, lifespan_state, init_options)
    await loop.run(loop.legacy_request, loop.legacy_notify)


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
    loop = _Loop(server, dispatcher, connection, lifespan_state, init_options)
    await loop.run(loop.dual_request, loop.dual_notify)


class _Loop:
    """What both loop drivers share: one standing connection, its pump, and the lock where there is one."""

    def __init__(
        self,
        server: Server[Any],
        dispatcher: JSONRPCDispatcher,
        connection: Connection,
        lifespan_state: Any,
        init_options: InitializationOptions | None,
    ) -> None:
        self.server = server
        self.dispatcher = dispatcher
        self.connection = connection
        self.lifespan_state = lifespan_state
        self.runner: ServerRunner[Any] = ServerRunner(server, connection, lifespan_state, init_options=init_options)
        self.lock = EraLock(server.modern_versions)
        self.modern_version = LATEST_MODERN_VERSION

    async def run(self, on_request: OnRequest, on_notify: Any) -> None:
        """Until the channel closes; then tear down."""
        self.dispatcher.on_closing = self.connection.closing
        self.dispatcher.spawns_notification = self._may_wait
        self.dispatcher.accepts_batches = self._takes_batches
        try:
            await self.dispatcher.run(on_request, on_notify)
        finally:
            self.connection.closing()
            if self.connection.listener is not None:
                self.connection.listener.end()
            await aclose_shielded(self.connection)

    def _may_wait(self, method: str) -> bool:
        """Whether taking a notification may run foreign code, which must not hold up the reading."""
        return bool(self.server.middleware) or self.server.get_notification_handler(method) is not None

    def _takes_batches(self) -> bool:
        return self.connection.initialize_accepted and self.connection.revision.has_batches

    # -- legacy ---------------------------------------------------------------------------------------------------

    def legacy_request(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> Awaitable[HandlerResult]:
        """One request of the handshake era."""
        return self.runner.handle_request(dctx, method, params)

    async def legacy_notify(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> None:
        """One notification of the handshake era."""
        await self.runner.on_notify(dctx, method, params)
        if method == "notifications/initialized" and self.connection.is_ready:
            self.dispatcher.start_pump(self.connection, self.server)

    # -- both -----------------------------------------------------------------------------------------------------

    def dual_request(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> Awaitable[HandlerResult]:
        """Judge now, in the order of arrival; serve when awaited."""
        kind = message_era(method, params)
        verdict = self.lock.judge(kind)
        refusal = self.lock.refusal(verdict, params)
        if refusal is not None:
            raise refusal
        if verdict is Verdict.SERVE_LEGACY:
            return (
                self._initialize(dctx, params)
                if kind is MessageEra.INITIALIZE
                else self.legacy_request(dctx, method, params)
            )
        route = classify_inbound_request(
            {"method": method, "params": params}, supported_modern_versions=self.server.modern_versions
        )
        if isinstance(route, InboundLadderRejection):
            raise _rejection_error(route)
        self.lock.succeeded(kind)
        self.modern_version = route.protocol_version
        connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities, outbound=dctx
        )
        connection.share_closing(self.connection)
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
            return await ServerRunner(self.server, connection, self.lifespan_state).handle_request(dctx, method, params)
        finally:
            await aclose_shielded(connection)

    async def dual_notify(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> None:
        """A notification belongs to the era that the connection locked; in the modern one it inherits the version."""
        if self.lock.state is not Era.MODERN:
            await self.legacy_notify(dctx, method, params)
            return
        connection = Connection.from_envelope(self.modern_version, None, {}, outbound=dctx)
        await ServerRunner(self.server, connection, self.lifespan_state).on_notify(dctx, method, params)
        await aclose_shielded(connection)


def _rejection_error(rejection: InboundLadderRejection) -> MCPError:
    if rejection.data is None:
        return MCPError(rejection.message, code=rejection.code)
    return MCPError(rejection.message, code=rejection.code, data=rejection.data)
