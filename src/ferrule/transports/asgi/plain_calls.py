"""The fast path of plain calls in the ASGI callable: a body in, a JSON answer out, in the server's own task.

The endpoint has made every check of HTTP (path, Host and Origin, media types, authorization, size) before it asks here.
As on stdio (`ferrule.kernel.plain_calls`), plain calls are a strict subset of what the general path serves. For
everything else `PlainHttpCalls.take` returns ``None``, and the endpoint goes on as if it had not asked. What a
request's headers and ``_meta`` stand for is judged by the function of the general path; its verdict is remembered for
the exact values.

A call whose function waits, raises, or sends something goes on in the general path, with its first step done.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from msgspec import Struct

from ferrule.kernel.concurrency.first_step import Begun
from ferrule.kernel.connection import Connection
from ferrule.kernel.finish import finish_result, has_hints
from ferrule.kernel.plain_tools import PlainCall, PlainTools, WriteResult, plain_route
from ferrule.kernel.runner import ServerRunner, handled
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundModernRoute,
)
from ferrule.transports.asgi.lifecycle import LifespanRunner
from ferrule.transports.asgi.modern.endpoint import ModernEndpoint
from ferrule.transports.asgi.replies import send_body
from ferrule.transports.asgi.request import IncomingRequest
from ferrule.transports.asgi.runtime import AsyncioRuntime, Runtime
from ferrule.wire.codec import decode, plain_encode
from ferrule.wire.plain_calls import (
    ABSENT,
    ANSWER_HEAD,
    NO_ARGUMENTS,
    PLAIN_METHOD,
    decode_plain_call,
    may_be_too_deep,
)
from ferrule.wire.revisions import REVISIONS

__all__ = ["PlainHttpCalls"]

_MAX_ROUTES: Final = 256
_MAX_KEY_BYTES: Final = 4096


class _Sender(Struct):
    """Who sent a plain call, and how."""

    route: InboundModernRoute
    request: IncomingRequest
    runtime: Runtime


class PlainHttpCalls:
    """The fast path of one endpoint.

    Args:
        tools: of the server.
        server: that the endpoint serves.
        modern: the general path of the modern era.
        life: of the endpoint; holds the lifespan's state.
    """

    def __init__(self, tools: PlainTools, server: Server[Any], modern: ModernEndpoint, life: LifespanRunner) -> None:
        self._tools = tools
        self._server = server
        self._modern = modern
        self._life = life
        self._handlers = server.request_handlers
        # By `_meta`, the three mirrored headers and the tool's name; bounded, because they come from outside.
        self._routes: dict[tuple[Any, ...], InboundModernRoute] = {}

    def take(self, request: IncomingRequest, body: bytes, runtime: Runtime) -> Awaitable[None] | None:
        """Return what serves a plain call when awaited; ``None`` for everything that is none."""
        headers, server, tools = request.headers, self._server, self._tools
        if headers.get(MCP_METHOD_HEADER) != PLAIN_METHOD or server.middleware or type(runtime) is not AsyncioRuntime:
            return None
        entry = self._handlers.get(PLAIN_METHOD)
        if entry is None or entry.handler != tools.handler or self._modern.is_ending or has_hints(server, PLAIN_METHOD):
            return None
        try:
            envelope = decode_plain_call(body)
            params = envelope.params
            name = params.name
            version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
            key = (bytes(params.meta), version, headers.get(MCP_NAME_HEADER), name)
            route = self._routes.get(key) or self._learn(key, request)
            tool = tools.find_plain(name, request.principal)
            if route is None or tool is None or name in server.param_headers or may_be_too_deep(body):
                return None
            arguments = tool.decode(NO_ARGUMENTS if params.arguments is ABSENT else params.arguments)
            writer = tool.writers.get(route.protocol_version)
            if writer is None:
                writer = tool.make_writer(REVISIONS[route.protocol_version], lambda result: self._finish(route, result))
                tool.writers[route.protocol_version] = writer
        except Exception:  # not ours
            return None
        tools.fast_calls += 1
        sender = _Sender(route, request, runtime)
        return self._serve(PlainCall(envelope.id, tool, arguments, body, sender, self), writer, request)

    def _learn(self, key: tuple[Any, ...], request: IncomingRequest) -> InboundModernRoute | None:
        meta, _, _, name = key
        if len(meta) > _MAX_KEY_BYTES or len(name) > _MAX_KEY_BYTES:
            return None
        route = plain_route(self._server, {"name": name, "_meta": decode(meta)}, request.headers)
        if route is not None:
            if len(self._routes) >= _MAX_ROUTES:
                self._routes.clear()
            self._routes[key] = route
        return route

    def _finish(self, route: InboundModernRoute, result: Any) -> Any:
        connection = Connection.from_envelope(route.protocol_version, None, {})
        return finish_result(self._server, connection, PLAIN_METHOD, result)

    # -- one call -----------------------------------------------------------------------------------------------------

    async def _serve(self, call: PlainCall, write: WriteResult, request: IncomingRequest) -> None:
        tool = call.tool
        coroutine: Any = None
        try:
            try:
                coroutine = tool.start(call)
                pending = coroutine.send(None)
            except StopIteration as stop:
                value = stop.value
                if call.request is None and (pieces := write(value)) is not None:
                    call.is_over = True
                    id = call.id
                    shown_id = b"%d" % id if type(id) is int else plain_encode(id)
                    payload = b"".join((ANSWER_HEAD, shown_id, *pieces))
                    await send_body(request.send, 200, payload, request.reply_headers)
                    return
                begun = Begun.returned(value)
            except BaseException as error:
                begun = Begun.raised(error)
            else:
                begun = Begun(coroutine, pending)
            await self._hand_over(call, begun)
        finally:
            tool.leave(call)

    async def _hand_over(self, call: PlainCall, begun: Begun) -> None:
        """Let the general path go on with a call that has been begun."""
        request = call.tool.request_of(call)
        exchange: Any = call.dispatch
        entry = self._handlers[PLAIN_METHOD]
        work = handled(entry, call.tool.go_on(call, begun), request)
        try:
            await self._modern.serve_exchange(
                exchange, request.session.connection, call.origin.request, work, PLAIN_METHOD
            )
        finally:
            call.is_over = True

    def make_request(self, call: PlainCall) -> ServerRequestContext[Any]:
        """See `ferrule.kernel.plain_tools.CallCarrier`."""
        sender: _Sender = call.origin
        params: dict[str, Any] = decode(call.frame)["params"]
        exchange, connection = self._modern.open_exchange(sender.request, call.id, params, sender.route, sender.runtime)
        call.dispatch = exchange
        if call.is_over:
            exchange.finish()
        return ServerRunner(self._server, connection, self._life.state).typed_context(exchange, PLAIN_METHOD, params)
