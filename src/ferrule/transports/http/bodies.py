"""Reading the bodies of HTTP responses: to the end, up to a bound, or until the connection can be used again."""

from __future__ import annotations

from typing import Final

import anyio

from ferrule.protocol.errors import ConnectionClosed
from ferrule.transports.http.adapters import AiohttpResponse
from ferrule.transports.http.backend import HttpResponse
from ferrule.wire.faults import FerruleError

__all__ = ["Emptied", "finish", "read_all", "read_some"]

_GOODBYE_S: Final = 3.0
_FINISH_S: Final = 0.5


async def read_all(response: HttpResponse, max_bytes: int) -> bytes:
    """Return the whole body.

    Raises:
        ConnectionClosed: the body is longer than ``max_bytes``.
    """
    first = await response.receive()
    if not first:
        return b""
    if type(response) is AiohttpResponse and response.has_ended:
        return first
    second = await response.receive()
    if not second:
        return first
    pieces, size = [first, second], len(first) + len(second)
    while size <= max_bytes:
        piece = await response.receive()
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
    raise ConnectionClosed(f"An answer is longer than max_message_bytes ({max_bytes})")


async def finish(response: HttpResponse) -> None:
    """Read the rest of a body and close the response; a body that ends soon leaves a connection that can be reused."""
    try:
        with anyio.move_on_after(_FINISH_S):
            while await response.receive():
                pass
    except FerruleError:
        pass
    finally:
        await response.aclose()


async def read_some(response: HttpResponse, max_bytes: int) -> bytes:
    """Return the body up to a bound; errors while reading it end the body."""
    found = b""
    try:
        with anyio.move_on_after(_GOODBYE_S):
            while len(found) < max_bytes and (piece := await response.receive()):
                found += piece
    except ConnectionClosed:
        pass
    return found[:max_bytes]


class Emptied:
    """A response whose body has been read up to a bound."""

    def __init__(self, response: HttpResponse, said: bytes) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._said = said

    async def receive(self) -> bytes:
        """Return the bytes that were read, once; then ``b""``."""
        said, self._said = self._said, b""
        return said

    async def aclose(self) -> None:
        """Release the response."""
        await self._response.aclose()
