"""One bounded HTTP exchange for the library's own needs: metadata, keys, tokens.

It is bounded in time and size, follows no redirect, and connects only after each address of the host's name has been
checked. (A name server may return another address for the connection itself; use an egress proxy where that must be
excluded.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import anyio

from ferrule.protocol.errors import ConnectionClosed
from ferrule.transports.http.backend import HttpClient, HttpClientRequest

__all__ = ["fetch_bounded"]


async def fetch_bounded(
    http: HttpClient,
    request: HttpClientRequest,
    *,
    timeout_s: float,
    max_bytes: int,
    judge: Callable[[str], None] | None,
) -> tuple[int, Mapping[str, str], bytes]:
    """Send a request and return status, headers and whole body of the response.

    Args:
        http: sends the request.
        request: the request.
        timeout_s: maximum time in seconds for all of it.
        max_bytes: maximum size of the body.
        judge: called with each address of the host's name; raises for one that is not allowed. ``None`` allows all. A
            name that cannot be resolved here is left to the connection (a proxy may know it).

    Raises:
        HttpConnectFailed, ConnectionClosed: there is no response, or it is too late or too large.
    """
    where = request.url.partition("?")[0]
    try:
        with anyio.fail_after(timeout_s):
            if judge is not None:
                for address in await _addresses(request.url):
                    judge(address)
            response = await http.open(request)
            try:
                body = b""
                while piece := await response.receive():
                    body += piece
                    if len(body) > max_bytes:
                        raise ConnectionClosed(f"{where} answered more than {max_bytes} bytes")
                return response.status, response.headers, body
            finally:
                await response.aclose()
    except TimeoutError:
        raise ConnectionClosed(f"{where} did not answer within {timeout_s:g} s") from None


async def _addresses(url: str) -> list[str]:
    parts = urlsplit(url)
    try:
        found = await anyio.getaddrinfo(parts.hostname, parts.port or {"http": 80}.get(parts.scheme, 443), type=1)
    except OSError:
        return []
    return [str(address[0]) for *_, address in found]
