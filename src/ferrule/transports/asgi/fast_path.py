"""The fast path of plain calls in the ASGI callable: it serves a body with JSON, in the task of the ASGI server.

The endpoint makes every check of HTTP (path, Host and Origin, media types, authorization, size) before it calls this
module. As on stdio (`ferrule.kernel.fast_path.stream_calls`), plain calls are a strict subset of the requests that the
general path serves. For every other request ``try_serve`` returns ``None``, without any effect, and the endpoint serves
it on the general path. A function of the general path checks a request's headers and ``_meta``; its result is cached
under their exact values.

A call whose function raises or sends a message continues on the general path, after its first step. One whose function
waits gets the exchange of the general path, which cancels it and watches its client; its plain value is still written
here, and its request is made only if code reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, cast

from msgspec import Struct

from ferrule.kernel.concurrency.first_step import StartedCoroutine
from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import TransportContext
from ferrule.kernel.fast_path.fast_tools import FastCall, FastTools, plain_route
from ferrule.kernel.fast_path.task_calls import TaskFastCalls
from ferrule.kernel.finish import finish_result
from ferrule.kernel.runner import ServerRunner
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundModernRoute,
    MirroredHeaders,
)
from ferrule.transports.asgi.lifecycle import LifespanRunner
from ferrule.transports.asgi.modern.endpoint import ModernEndpoint
from ferrule.transports.asgi.modern.exchange import ModernExchange
from ferrule.transports.asgi.replies import send_body, send_pieces
from ferrule.transports.asgi.request import IncomingRequest
from ferrule.transports.asgi.runtime import AsyncioRuntime, Runtime
from ferrule.wire.codec import decode, plain_encode
from ferrule.wire.jsonrpc import RequestId, WholeResponse
from ferrule.wire.plain_calls import (
    ABSENT,
    ANSWER_HEAD,
    NO_ARGUMENTS,
    PLAIN_METHOD,
    decode_plain_call,
    without_progress_token,
)
from ferrule.wire.revisions import REVISIONS, Revision

__all__ = ["HttpCallSender", "HttpFastPathBase", "ModernFastPath", "send_answer"]

_MAX_ROUTES: Final = 256
_MAX_KEY_BYTES: Final = 4096
_LARGE_BYTES: Final = 64 * 1024
"""Longer text (in bytes) is sent in pieces: for a copy of a megabyte the allocator maps memory anew each time, which
takes longer than the rest of the call."""


class HttpFastPathBase(TaskFastCalls):
    """The parts that both eras share: reading a plain call, its first step, its response.

    Args:
        tools: the tools of the server.
        server: the server of the endpoint.
    """

    async def serve(self, call: FastCall) -> None:
        """Serve a call and send its response."""
        tool, sender = call.tool, call.sender
        coroutine: Any = None
        try:
            try:
                coroutine = tool.start(call)
                pending = coroutine.send(None)
            except StopIteration as stop:
                value = stop.value
                write = tool.writers[sender.revision.version]
                if (
                    call.request is None
                    and (pieces := write(value)) is not None
                    and (call.passage is None or call.passage.leave(call))
                ):
                    call.is_over = True
                    request = sender.request
                    answer = (ANSWER_HEAD, plain_encode(call.id), *pieces)
                    if len(pieces[1]) > _LARGE_BYTES:
                        small = b"".join(answer[:3])
                        await send_pieces(request.send, 200, (small, *answer[3:]), request.reply_headers)
                    else:
                        await send_body(request.send, 200, b"".join(answer), request.reply_headers)
                    return
                begun, coroutine = StartedCoroutine.returned(value), None
            except BaseException as error:
                begun, coroutine = StartedCoroutine.raised(error), None
            else:
                begun = StartedCoroutine(coroutine, pending)
            call.task = asyncio.current_task(call.loop)
            try:
                if coroutine is None:
                    await self.hand_over(call, self.rest(call, begun))
                else:
                    await self.wait(call, begun)
            finally:
                call.is_over = True
        finally:
            tool.leave(call)

    def wait(self, call: FastCall, begun: StartedCoroutine) -> Awaitable[None]:
        """Return an awaitable that finishes a call whose function waits, and sends its response.

        Its exchange is opened now.
        """
        if call.dispatch is None:
            self.open_call(call)
        return self.hand_over(call, self._awaited(call, begun))

    async def _awaited(self, call: FastCall, begun: StartedCoroutine) -> Any:
        try:
            value = await begun
        except BaseException as error:
            begun = StartedCoroutine.raised(error)
        else:
            write = call.tool.writers[call.sender.revision.version]
            if (
                call.request is None
                and (pieces := write(value)) is not None
                and (call.passage is None or call.passage.leave(call))
            ):
                call.is_over = True
                return WholeResponse(b"".join((ANSWER_HEAD, plain_encode(call.id), *pieces)))
            begun = StartedCoroutine.returned(value)
        return await self.rest(call, begun)

    def open_call(self, call: FastCall) -> Any:
        """Open the exchange of a call, set `FastCall.dispatch` to it, and return it."""
        raise NotImplementedError

    def transport_of(self, call: FastCall) -> TransportContext:
        """See `ferrule.kernel.fast_path.fast_tools.CallCarrier`."""
        return call.sender.request.context(self.session_id_of(call))  # type: ignore[no-any-return]

    async def hand_over(self, call: FastCall, work: Awaitable[Any]) -> None:
        """Let the general path await the result of a call and send the response.

        Args:
            call: the call.
            work: returns the finished result.
        """
        raise NotImplementedError


def send_answer(request: IncomingRequest, id: RequestId, pieces: tuple[bytes, ...]) -> Awaitable[None]:
    """Return an awaitable that sends the response to a plain call.

    Args:
        request: the POST.
        id: the id of the call.
        pieces: see `WriteResult`.
    """
    answer = (ANSWER_HEAD, plain_encode(id), *pieces)
    if len(pieces[1]) > _LARGE_BYTES:
        small = b"".join(answer[:3])
        return send_pieces(request.send, 200, (small, *answer[3:]), request.reply_headers)
    return send_body(request.send, 200, b"".join(answer), request.reply_headers)


class HttpCallSender(Struct):
    """The sender of a plain call, and its HTTP request.

    Attributes:
        revision: the revision of the client.
        request: the POST.
        runtime: the tasks and timers of the event loop.
        facts: modern era: the `InboundModernRoute` of the request; legacy era: the `LegacySession`.
    """

    revision: Revision
    request: IncomingRequest
    runtime: Runtime
    facts: Any


class ModernFastPath(HttpFastPathBase):
    """The fast path of the modern era.

    Args:
        tools: the tools of the server.
        server: the server of the endpoint.
        modern: the modern endpoint, which is the general path.
        life: the lifespan of the server; it has the lifespan's state.
    """

    def __init__(self, tools: FastTools, server: Server[Any], modern: ModernEndpoint, life: LifespanRunner) -> None:
        super().__init__(tools, server)
        self._modern = modern
        self._mirrored = server.attachments.made(MirroredHeaders)
        self._life = life
        # By `_meta`, the three mirrored headers and the tool's name; bounded, because they come from outside.
        self._routes: dict[tuple[Any, ...], InboundModernRoute] = {}

    def try_serve(self, request: IncomingRequest, body: bytes, runtime: Runtime) -> Awaitable[None] | None:
        """Return an awaitable that serves a plain call; ``None`` if the general path must serve the request.

        Args:
            request: the POST.
            body: its body.
            runtime: the tasks and timers of the event loop.
        """
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
            if route is None or name in self._mirrored.params:
                return None
            sender = HttpCallSender(REVISIONS[route.protocol_version], request, runtime, route)
            arguments = NO_ARGUMENTS if params.arguments is ABSENT else params.arguments
            call = self.plain_call(envelope.id, name, arguments, body, sender, runtime.loop, request.principal)
        except Exception:  # not a plain call, or arguments that the general path must judge
            return None
        return None if call is None else self.serve(call)

    def _learn(self, key: tuple[Any, ...], request: IncomingRequest) -> InboundModernRoute | None:
        meta, _, _, name = key
        if len(meta) > _MAX_KEY_BYTES or len(name) > _MAX_KEY_BYTES:
            return None
        meta = without_progress_token(meta)
        key = (meta, *key[1:])
        if key in self._routes:
            return self._routes[key]
        route = plain_route(self._server, {"name": name, "_meta": decode(meta)}, request.headers)
        if route is not None:
            if len(self._routes) >= _MAX_ROUTES:
                self._routes.clear()
            self._routes[key] = route
        return route

    def finish(self, sender: HttpCallSender, result: Any) -> Any:
        """See `TaskFastCalls.finish`."""
        connection = Connection.from_envelope(sender.revision.version, None, {})
        return finish_result(self._server, connection, PLAIN_METHOD, result)

    async def hand_over(self, call: FastCall, work: Awaitable[Any]) -> None:
        """See `HttpFastPathBase`."""
        exchange: Any = call.dispatch
        connection = exchange.connection
        await self._modern.serve_exchange(exchange, connection, call.sender.request, work, PLAIN_METHOD)

    def open_call(self, call: FastCall) -> ModernExchange:
        """See `HttpFastPathBase`."""
        sender: HttpCallSender = call.sender
        exchange, _ = self._modern.open_exchange(sender.request, call.id, {}, sender.facts, sender.runtime)
        call.dispatch = exchange
        return exchange

    def make_request(self, call: FastCall) -> ServerRequestContext[Any]:
        """See `ferrule.kernel.fast_path.fast_tools.CallCarrier`."""
        exchange: ModernExchange | None = call.dispatch  # type: ignore[assignment]
        if exchange is None or exchange.connection is None:  # the second: the call is over
            exchange = self.open_call(call)
        connection = cast("Connection", exchange.connection)
        exchange.progress_params = params = self.params_of(call)
        if call.is_over:
            exchange.finish()
        return ServerRunner(self._server, connection, self._life.state).typed_context(exchange, PLAIN_METHOD, params)

    def client_of(self, call: FastCall) -> Connection:
        """See `ferrule.kernel.fast_path.fast_tools.CallCarrier`."""
        route: InboundModernRoute = call.sender.facts
        return Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)
