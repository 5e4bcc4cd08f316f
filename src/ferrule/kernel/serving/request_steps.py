"""The steps of a message inside the middleware: look-up, typed params, checks, handler, finished result.

`ferrule.kernel.serving.server_runner.ServerRunner` makes the request context and sends it through the middleware to one
of these.
This module compares no version: differences come from the tables of the connection's revision.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from ferrule.kernel.connection import Connection
from ferrule.kernel.finish import check_result, finish_result
from ferrule.kernel.server import Handler, HandlerEntry, ServerRequestContext
from ferrule.kernel.session import LOG_LEVELS
from ferrule.protocol.capabilities import declares_extension
from ferrule.protocol.errors import (
    InvalidParams,
    InvalidRequest,
    MCPError,
    MethodNotFound,
    MissingRequiredClientCapability,
)
from ferrule.protocol.inbound import LOG_LEVEL_KEY
from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError
from ferrule.wire.jsonrpc import JsonRpcError, shown_text
from ferrule.wire.revisions import Revision, is_core_method

__all__ = [
    "BEFORE_HANDSHAKE",
    "drop_early",
    "handled",
    "refuse_early",
    "returned_error",
    "serve_notification",
    "serve_request",
    "typed_params",
]

logger = logging.getLogger(__name__)

BEFORE_HANDSHAKE: Final = frozenset({"initialize", "ping"})
"""What a client of the handshake era may send before the handshake: pings only (2025-11-25, "Lifecycle")."""


async def refuse_early(ctx: ServerRequestContext[Any]) -> Any:
    """Refuse a request that arrived before ``initialize``, with the most specific error."""
    method = ctx.method
    entry = ctx.server.get_request_handler(method)
    # Unknown methods and malformed params have errors of their own, which help more than "too early".
    typed_params(ctx.session.connection.revision, entry, ctx)
    if entry is None:
        raise MethodNotFound(method)
    raise InvalidParams(f"{method} came before initialize")


async def serve_request(ctx: ServerRequestContext[Any]) -> Any:
    """Check a request, convert its params, call the handler, and return the finished result."""
    session = ctx.session
    connection = session.connection
    revision = connection.revision
    server = ctx.server
    method = ctx.method
    # Looked up again after the middleware, which may have changed the method.
    entry = server.get_request_handler(method)
    typed = typed_params(revision, entry, ctx)
    if entry is None:
        raise MethodNotFound(method)
    if not connection.initialize_accepted and method not in BEFORE_HANDSHAKE:
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
    """Call a handler and return its result in the form of the connection's revision.

    Args:
        entry: the registered handler of the method.
        handler: the handler of the entry, or one that continues a function which the fast path has started.
        ctx: the request, with typed params.

    Raises:
        Exception: any exception of the handler; a `BodyExit` for a ``BaseException`` that is not a cancellation.
        BaseException: the cancellation of the request.
    """
    session = ctx.session
    try:
        result = await handler(ctx)
    except Exception:
        raise
    except BaseException as error:
        raise session.failure_of(error)  # noqa: B904 - it has its cause
    if isinstance(result, (JsonRpcError, Exception)):
        raise returned_error(result)
    # The check converts the whole result once more; results of built-in and decorated handlers are right by their
    # types.
    if not entry.trusted:
        result = check_result(session.connection.revision, ctx.method, result, entry.extension is not None)
    return finish_result(ctx.server, session.connection, ctx.method, result)


def returned_error(error: JsonRpcError | Exception) -> Exception:
    """Return the exception for an error that a handler returned; raised in the chain, so that middleware sees it."""
    return MCPError(error.message, code=error.code, data=error.data) if isinstance(error, JsonRpcError) else error


def _check_log_level(level: Any) -> None:
    """Refuse a request with an unknown log level in its ``_meta`` (2026-07-28, "Logging")."""
    if level not in LOG_LEVELS:
        raise InvalidParams(f"{LOG_LEVEL_KEY} is one of {', '.join(LOG_LEVELS)}")


def typed_params(revision: Revision, entry: HandlerEntry | None, ctx: ServerRequestContext[Any]) -> Any:
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


async def drop_early(ctx: ServerRequestContext[Any]) -> None:
    """Drop a notification that came before ``notifications/initialized``."""
    logger.warning("Dropped %s: it came before notifications/initialized", shown_text(ctx.method))


async def serve_notification(ctx: ServerRequestContext[Any]) -> None:
    """Convert the params of a notification and call its handler; log and drop an unknown or malformed one."""
    entry = ctx.server.get_notification_handler(ctx.method)
    params_type = ctx.revision.notifications.get(ctx.method)
    if entry is not None and entry.params_type is not None:
        params_type = entry.params_type
    # A notification has no response, so that an unknown one can only be dropped (JSON-RPC 2.0, section 4.1).
    if params_type is None and (entry is None or is_core_method(ctx.method)):
        logger.debug("Dropped %s: unknown in %s", shown_text(ctx.method), ctx.protocol_version)
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
