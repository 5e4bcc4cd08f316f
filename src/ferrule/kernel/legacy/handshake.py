"""The handshake: ``initialize`` as a request through the middleware, and the revision that it settles.

The response and the state of the connection come from one negotiation, so that middleware may change or refuse it
("Lifecycle" of 2024-11-05 to 2025-11-25).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from ferrule.kernel.connection import Connection
from ferrule.kernel.finish import bad_result, check_result
from ferrule.kernel.server import HandlerResult, ServerRequestContext
from ferrule.kernel.serving.request_steps import returned_error, serve_request, typed_params
from ferrule.protocol.era import is_handshake_version
from ferrule.protocol.errors import InternalError, InvalidParams, InvalidRequest, MethodNotFound
from ferrule.protocol.legacy.handshake import Negotiation, read_initialize_params
from ferrule.wire.codec import encode, to_builtins
from ferrule.wire.faults import EncodeError
from ferrule.wire.jsonrpc import JsonRpcError
from ferrule.wire.revisions import REVISIONS, project_result

__all__ = ["serve_initialize"]

logger = logging.getLogger(__name__)

MAX_INITIALIZE_BYTES: Final = 64 * 1024
"""Maximum size of a client's ``initialize`` params as JSON, in bytes: they are kept as long as the session."""


def _check_size_of_initialize(params: Any) -> None:
    try:
        size = len(encode(params))
    # Not by the bytes of the message: those of the transport may hold a batch, and a pair in one process has none.
    except EncodeError:  # in process, where nothing was JSON: the conversion says what is wrong
        return
    if size > MAX_INITIALIZE_BYTES:
        raise InvalidParams(f"The params of initialize may have {MAX_INITIALIZE_BYTES} bytes")


async def serve_initialize(connection: Connection, ctx: ServerRequestContext[Any]) -> HandlerResult:
    """Run the handshake through the middleware, then apply the version of the response.

    Args:
        connection: it gets the revision.
        ctx: the request, with raw params.

    Raises:
        Exception: any exception of middleware or handler; the connection then stays as it was.
    """
    if connection.initialize_accepted or connection.handling_initialize:
        return cast("HandlerResult", await ctx.server.chain(_refuse_second_initialize)(ctx))
    _check_size_of_initialize(ctx.params)
    # From here on no request goes to the client: it does not answer before it has the response
    # (`check_can_request`).
    connection.handling_initialize = True
    connection.pending_negotiation = None
    try:
        result = await ctx.server.chain(_negotiate)(ctx)
        answered = cast("dict[str, Any]", to_builtins({} if result is None else result))
        # The response counts, not the handler's result: middleware may have changed the version.
        connection.commit(_negotiation_of(ctx, answered))
    except Exception:
        raise
    except BaseException as error:
        raise ctx.session.failure_of(error)  # noqa: B904 - it has its cause
    finally:
        # Also after a failure: the client may send `initialize` again.
        connection.handling_initialize = False
        connection.pending_negotiation = None
    return answered


def _negotiation_of(ctx: ServerRequestContext[Any], answered: Mapping[str, Any]) -> Negotiation:
    """Return the negotiation that a response to ``initialize`` means.

    Raises:
        InternalError: the response has no handshake revision (the author's mistake); logged.
    """
    version = answered.get("protocolVersion")
    if not is_handshake_version(version):
        logger.error("The answer to initialize names %r, which is not a handshake revision", version)
        raise InternalError
    pending = ctx.session.connection.pending_negotiation
    client = read_initialize_params(ctx.params) if pending is None else pending.client
    return Negotiation(client, cast("str", version))


async def _negotiate(ctx: ServerRequestContext[Any]) -> Any:
    """Serve ``initialize``; its result has the form of the revision that it names, since none is negotiated yet."""
    if ctx.method != "initialize":  # a middleware has changed the method
        return await serve_request(ctx)
    connection = ctx.session.connection
    entry = ctx.server.get_request_handler(ctx.method)
    typed = typed_params(connection.revision, entry, ctx)
    if entry is None:
        raise MethodNotFound(ctx.method)
    result = await entry.handler(replace(ctx, params=typed))
    if isinstance(result, (JsonRpcError, Exception)):
        raise returned_error(result)
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
        return await serve_request(ctx)
    raise InvalidRequest("This connection is already initialized")
