"""The fast path of plain calls in the ASGI callable: a body in, a JSON answer out, in the server's own task.

The endpoint has made every check of HTTP (path, Host and Origin, media types, authorization, size) before it asks here.
As on stdio (`ferrule.kernel.fast_path.plain_calls`), plain calls are a strict subset of what the general path serves.
For everything else ``take`` returns ``None``, and the endpoint goes on as if it had not asked. What a
request's headers and ``_meta`` stand for is judged by the function of the general path; its verdict is remembered for
the exact values.

A call whose function waits, raises, or sends something goes on in the general path, with its first step done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from ferrule.kernel.concurrency.first_step import Begun
from ferrule.kernel.connection import Connection
from ferrule.kernel.fast_path.plain_tools import PlainCall, PlainTools, plain_route
from ferrule.kernel.finish import finish_result
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
from ferrule.wire.nesting import MAX_DEPTH
from ferrule.wire.plain_calls import (
    ABSENT,
    ANSWER_HEAD,
    NO_ARGUMENTS,
    PLAIN_METHOD,
    PlainEnvelope,
    decode_plain_call,
    may_be_too_deep,
)
from ferrule.wire.revisions import REVISIONS, Revision

__all__ = ["ModernPlainCalls", "PlainHttpCalls", "PlainHttpSender"]

_MAX_ROUTES: Final = 256
_MAX_KEY_BYTES: Final = 4096
_LARGE_CHARS: Final = 64 * 1024
"""Longer text is encoded together with its envelope: joining its pieces would copy it once more."""


class PlainHttpCalls:
    """What both eras share: reading a plain call, its first step, its answer.

    Args:
        tools: the tools of the server.
        server: that the endpoint serves.
    """

    def __init__(self, tools: PlainTools, server: Server[Any]) -> None:
        self._tools = tools
        self._server = server
        self._handlers = server.request_handlers

    def call(
        self, envelope: PlainEnvelope, body: bytes, sender: PlainHttpSender, finish: Callable[[Any], Any]
    ) -> PlainCall | None:
        """Return the call that an envelope stands for; ``None`` if it is not plain.

        Args:
            envelope: the decoded body.
            body: its bytes.
            sender: who sent it.
            finish: a result → the finished result.

        Raises:
            Exception: the arguments are not plain.
        """
        server, tools = self._server, self._tools
        entry = self._handlers.get(PLAIN_METHOD)
        if server.middleware or entry is None or entry.handler != tools.handler or PLAIN_METHOD in server.cache_hints:
            return None
        params = envelope.params
        tool = tools.find_plain(params.name, sender.request.principal)
        if tool is None or (len(body) > MAX_DEPTH and may_be_too_deep(body)):
            return None
        arguments = tool.decode(NO_ARGUMENTS if params.arguments is ABSENT else params.arguments)
        version = sender.revision.version
        if version not in tool.writers:
            tool.writers[version] = tool.make_writer(sender.revision, finish)
        tools.fast_calls += 1
        return PlainCall(envelope.id, tool, arguments, body, sender, self)

    async def serve(self, call: PlainCall) -> None:
        """Serve a call and send its answer."""
        tool, sender = call.tool, call.origin
        coroutine: Any = None
        try:
            try:
                coroutine = tool.start(call)
                pending = coroutine.send(None)
            except StopIteration as stop:
                value = stop.value
                is_large = type(value) is str and len(value) > _LARGE_CHARS
                write = tool.writers[sender.revision.version]
                if call.request is None and not is_large and (pieces := write(value)) is not None:
                    call.is_over = True
                    id = call.id
                    shown_id = b"%d" % id if type(id) is int else plain_encode(id)
                    payload = b"".join((ANSWER_HEAD, shown_id, *pieces))
                    request = sender.request
                    await send_body(request.send, 200, payload, request.reply_headers)
                    return
                begun = Begun.returned(value)
            except BaseException as error:
                begun = Begun.raised(error)
            else:
                begun = Begun(coroutine, pending)
            request = tool.request_of(call)
            try:
                await self.hand_over(call, handled(self._handlers[PLAIN_METHOD], tool.go_on(call, begun), request))
            finally:
                call.is_over = True
        finally:
            tool.leave(call)

    async def hand_over(self, call: PlainCall, work: Awaitable[Any]) -> None:
        """Let the general path await ``work``, the finished result of a call, and answer."""
        raise NotImplementedError

    def make_request(self, call: PlainCall) -> ServerRequestContext[Any]:
        """See `ferrule.kernel.fast_path.plain_tools.CallCarrier`."""
        raise NotImplementedError


class PlainHttpSender(Struct):
    """Who sent a plain call, and how.

    Attributes:
        revision: the revision of the client.
        request, runtime: as the endpoint has them.
        facts: what the era knows besides: a route or a session.
    """

    revision: Revision
    request: IncomingRequest
    runtime: Runtime
    facts: Any


class ModernPlainCalls(PlainHttpCalls):
    """The fast path of the modern era.

    Args:
        tools: the tools of the server.
        server: that the endpoint serves.
        modern: the general path.
        life: the lifecycle of the endpoint; holds the lifespan's state.
    """

    def __init__(self, tools: PlainTools, server: Server[Any], modern: ModernEndpoint, life: LifespanRunner) -> None:
        super().__init__(tools, server)
        self._modern = modern
        self._life = life
        # By `_meta`, the three mirrored headers and the tool's name; bounded, because they come from outside.
        self._routes: dict[tuple[Any, ...], InboundModernRoute] = {}

    def take(self, request: IncomingRequest, body: bytes, runtime: Runtime) -> Awaitable[None] | None:
        """Return what serves a plain call when awaited; ``None`` for everything that is none."""
        headers = request.headers
        if headers.get(MCP_METHOD_HEADER) != PLAIN_METHOD or type(runtime) is not AsyncioRuntime:
            return None
        if self._modern.is_ending:
            return None
        try:
            envelope = decode_plain_call(body)
            params = envelope.params
            name = params.name
            version, stated_name = headers.get(MCP_PROTOCOL_VERSION_HEADER), headers.get(MCP_NAME_HEADER)
            key = (bytes(params.meta), version, stated_name, name)
            route = self._routes.get(key) or self._learn(key, request)
            if route is None or name in self._server.param_headers:
                return None
            sender = PlainHttpSender(REVISIONS[route.protocol_version], request, runtime, route)
            call = self.call(envelope, body, sender, lambda result: self._finish(route, result))
        except Exception:  # not ours
            return None
        return None if call is None else self.serve(call)

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

    async def hand_over(self, call: PlainCall, work: Awaitable[Any]) -> None:
        """See `PlainHttpCalls`."""
        exchange: Any = call.dispatch
        connection = exchange.connection
        await self._modern.serve_exchange(exchange, connection, call.origin.request, work, PLAIN_METHOD)

    def make_request(self, call: PlainCall) -> ServerRequestContext[Any]:
        """See `ferrule.kernel.fast_path.plain_tools.CallCarrier`."""
        sender: PlainHttpSender = call.origin
        params: dict[str, Any] = decode(call.frame)["params"]
        exchange, connection = self._modern.open_exchange(sender.request, call.id, params, sender.facts, sender.runtime)
        call.dispatch = exchange
        if call.is_over:
            exchange.finish()
        return ServerRunner(self._server, connection, self._life.state).typed_context(exchange, PLAIN_METHOD, params)
