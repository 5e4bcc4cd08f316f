"""MCP over WebSocket, the client's side, over the `websockets` library. See docs/how-to/write-a-transport.md."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from ferrule.kernel.dispatch import StreamMessage, TransportContext
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError


class WebSocketConnection:
    """An open connection as a stream pair, for ``Client(connection)``; the client closes it."""

    encodes = True
    transport = TransportContext("websocket")

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.read_stream = self.write_stream = self

    async def receive(self) -> StreamMessage | DecodeError:
        """Return the next message, or why it cannot be read; raises `anyio.EndOfStream` at the end."""
        try:
            return StreamMessage(decode(await self._socket.recv(decode=False)))
        except ConnectionClosed:
            raise anyio.EndOfStream from None
        except DecodeError as error:
            return error

    async def send(self, item: StreamMessage, /) -> None:
        """Send one message; raises `anyio.BrokenResourceError` once the connection has ended."""
        try:
            await self._socket.send(encode(item.message), text=True)
        except ConnectionClosed:
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """Close the connection. Idempotent."""
        await self._socket.close()


@asynccontextmanager
async def connect(
    url: str, *, headers: Mapping[str, str] | None = None, max_message_bytes: int = 4 << 20
) -> AsyncGenerator[WebSocketConnection]:
    """Open a connection: ``async with connect(url) as connection, Client(connection) as client``. asyncio only.

    Args:
        url: ``ws://…`` or ``wss://…``.
        headers: of the request that opens it, such as ``{"authorization": "Bearer …"}``.
        max_message_bytes: a larger message from the server ends the connection.

    Raises:
        websockets.exceptions.InvalidStatus: the server refused, with the status in ``response``.
        OSError: no server listens at the address.
    """
    async with open_socket(
        url,
        additional_headers=headers,
        subprotocols=[Subprotocol("mcp")],
        max_size=max_message_bytes,
        compression=None,  # a small compressed message may become one of max_message_bytes
    ) as socket:
        yield WebSocketConnection(socket)
