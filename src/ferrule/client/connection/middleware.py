"""Middleware of a client: code around every request that it sends.

The shape is that of a server's: ``async (request, call_next) -> result``. It sees each message that goes out: the
handshake, one request for each round of questions, and the second attempt after a lost session. It does not see
notifications, nor results that come from the cache. Plain calls of tools take the general path while there is any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from ferrule.client.settings import ClientMiddleware, OutgoingRequest, SendRequest

__all__ = ["send_through"]


async def send_through(middleware: Sequence[ClientMiddleware], request: OutgoingRequest) -> Any:
    """Send a request through middleware, the first of which is the outermost, and return its raw result."""
    call: SendRequest = _send
    for each in reversed(middleware):
        call = _wrapped(each, call)
    return await call(request)


def _wrapped(middleware: ClientMiddleware, call_next: SendRequest) -> SendRequest:
    def call(request: OutgoingRequest) -> Awaitable[Any]:
        return middleware(request, call_next)

    return call


async def _send(request: OutgoingRequest) -> Any:
    return await request.channel.send_raw_request(request.method, request.params, request.options)
