"""The drivers: they take messages from a channel, give each to a `ServerRunner`, and close the connection at the end.

`serve_one`, `serve_connection`, `serve_loop` and `serve_dual_era_loop` differ only in the source of the messages and of
the connection. What happens to a message is in `ferrule.kernel.serving`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, cast

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
from ferrule.kernel.fast_path.fast_tools import fast_tools_of
from ferrule.kernel.server import (
    CallNext,
    HandlerResult,
    InitializationOptions,
    LifespanT,
    Server,
    ServerMiddleware,
)
from ferrule.kernel.serving.era_router import DualEraRouter
from ferrule.kernel.serving.request_steps import (
    BEFORE_HANDSHAKE,
    handled,
)
from ferrule.kernel.serving.server_runner import ServerRunner, with_forwarding
from ferrule.protocol.errors import UnsupportedProtocolVersion
from ferrule.protocol.inbound import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, PROTOCOL_VERSION_KEY
from ferrule.wire.revisions import MODERN_PROTOCOL_VERSIONS

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
        if not connection.initialize_accepted and method not in BEFORE_HANDSHAKE:
            return runner.handle_early(dctx, method, params)
        return runner.handle_request(dctx, method, params)

    await _drive(dispatcher, runner, on_request, with_forwarding(dispatcher, runner), task_status)


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
    router = DualEraRouter(runner, dispatcher, aclose_shielded)
    tools = fast_tools_of(server)
    if tools is not None:
        from ferrule.kernel.fast_path.stream_calls import StreamFastCalls

        dispatcher.plain_calls = StreamFastCalls(tools, router, dispatcher)
    await _drive(dispatcher, runner, router.on_request, router.on_notify)
