"""MCP over WebSocket, the server's side: an ASGI application. See docs/how-to/write-a-transport.md."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

import anyio

from ferrule import MCPServer, Server
from ferrule.kernel.dispatch import StreamMessage
from ferrule.kernel.protection import hooks_of
from ferrule.kernel.runner import serve_dual_era_loop
from ferrule.transports.asgi import HttpContext, HttpRefusal
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

SUBPROTOCOL = "mcp"


class WebSocketStream:
    """Both halves of the stream pair of one connection: one JSON-RPC message per WebSocket message.

    Attributes:
        transport: facts of the request that opened the connection.
        drain_s: 0, because nothing can be answered once a connection has ended.
    """

    encodes = True
    drain_s = 0.0

    def __init__(self, receive: Receive, send: Send, transport: HttpContext) -> None:
        self.transport = transport
        self._receive = receive
        self._send = send
        self._sending = anyio.Lock()  # handlers answer side by side, and ASGI promises nothing for sends at once

    async def receive(self) -> StreamMessage | DecodeError:
        """Return the next message, or why it cannot be read.

        Raises:
            anyio.EndOfStream: the connection has ended.
        """
        event = await self._receive()
        if event["type"] == "websocket.disconnect":
            raise anyio.EndOfStream
        text = event.get("text")
        try:
            return StreamMessage(decode(event["bytes"] if text is None else text), self.transport)
        except DecodeError as error:
            return error  # the dispatcher answers it, and the next message works

    async def send(self, item: StreamMessage, /) -> None:
        """Send one message.

        Raises:
            EncodeError: it has no JSON form; nothing was sent.
            anyio.BrokenResourceError: the connection has ended.
        """
        text = encode(item.message).decode()
        async with self._sending:
            try:
                await self._send({"type": "websocket.send", "text": text})
            except (OSError, RuntimeError):  # ASGI says the first, some servers raise the second
                raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """Close the connection; does nothing if it has ended."""
        try:
            await self._send({"type": "websocket.close", "code": 1000})
        except (OSError, RuntimeError):
            return


class WebSocketEndpoint:
    """An ASGI application that serves one MCP server.

    The ASGI server bounds the size of a message and the number of connections (uvicorn: ``ws_max_size``,
    ``limit_concurrency``).

    Args:
        server: what to serve. Its ``auth=`` decides who may connect, as over HTTP.
        path: of the endpoint.
        allowed_origins: origins of web pages that may connect. Others are refused: a browser lets any page open a
            WebSocket to any host, and sends cookies with it.
        max_age_s: seconds after which a connection is closed, since a token may expire or be withdrawn meanwhile.
    """

    def __init__(
        self,
        server: MCPServer[Any] | Server[Any],
        *,
        path: str = "/mcp",
        allowed_origins: Collection[str] = (),
        max_age_s: float = 3600.0,
    ) -> None:
        self._server: Server[Any] = server.lowlevel if isinstance(server, MCPServer) else server
        self._path = path
        self._allowed_origins = frozenset(allowed_origins)
        self._max_age_s = max_age_s
        self._authenticate, self._document_for = hooks_of(self._server.protection, None, None, path)
        self._lifespan_state: Any = None

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await self._serve_lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send)
        else:
            await self._serve_http(scope, send)

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._server.lifespan() as self._lifespan_state:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve_socket(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        context = _context_of(scope)
        try:
            self._check(context)
            principal = None if self._authenticate is None else await self._authenticate(context)
        except HttpRefusal as refusal:
            await _refuse(scope, send, refusal)
            return
        offered = SUBPROTOCOL in scope.get("subprotocols", ())
        await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL if offered else None})
        stream = WebSocketStream(receive, send, replace(context, principal=principal))
        with anyio.move_on_after(self._max_age_s):
            await serve_dual_era_loop(self._server, stream, stream, lifespan_state=self._lifespan_state)
        await stream.aclose()

    def _check(self, context: HttpContext) -> None:
        origin = context.headers.get("origin")
        if origin is not None and origin not in self._allowed_origins:
            raise HttpRefusal(403, "This origin may not connect")
        if context.path != self._path:
            raise HttpRefusal(404, "Not found")

    async def _serve_http(self, scope: Mapping[str, Any], send: Send) -> None:
        """Answer the metadata that lead a client to a token; ask everything else to upgrade."""
        found = None if self._document_for is None else self._document_for(_context_of(scope))
        status, body, headers = (426, b"", [("upgrade", "websocket")]) if found is None else found
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body})


def _context_of(scope: Mapping[str, Any]) -> HttpContext:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    client = scope.get("client")
    address = None if client is None else (client[0], client[1])
    return HttpContext("websocket", True, headers=headers, client=address, scope=scope)


async def _refuse(scope: Mapping[str, Any], send: Send, refusal: HttpRefusal) -> None:
    """Answer the handshake with an HTTP status; where the ASGI server cannot, it answers 403 itself."""
    if "websocket.http.response" in scope.get("extensions", {}):
        headers = [*refusal.headers, (b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": "websocket.http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": refusal.message.encode()})
    else:
        await send({"type": "websocket.close"})
