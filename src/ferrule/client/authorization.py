"""What `Client(auth=…)` takes, made into credentials for its requests, and the HTTP of authorization flows.

Flows are `ferrule.auth`'s and pure; here is their only I/O, over the client's own HTTP (its proxy, its trust, its
connections). Each request is bounded in time and size, follows no redirect, and goes to an address only after every
address that the host's name has was judged. (Between that look-up and the connection's own a name server may change
its mind; whoever must exclude this puts an egress proxy in front.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import anyio

from ferrule.client.config import HttpTarget, Target
from ferrule.protocol.errors import ConnectionClosed
from ferrule.transports.http_client import HttpClient, HttpRequest

if TYPE_CHECKING:
    from ferrule.auth.client.oauth import Fetch, OAuth
    from ferrule.auth.http import AuthRequest, AuthResponse
    from ferrule.transports.streamable_client import HttpAuth

__all__ = ["BearerAuth", "bind_auth", "fetch_over"]

OAUTH: Final = "oauth"


class BearerAuth:
    """A fixed token. It is sent to the server's own origin only."""

    def __init__(self, token: str) -> None:
        self._headers = {"authorization": f"Bearer {token}"}

    def __repr__(self) -> str:
        return "BearerAuth(…)"

    async def headers(self, request: Any) -> Mapping[str, str]:
        """See `HttpAuth`."""
        return self._headers

    async def challenged(self, request: Any, status: int, headers: Mapping[str, str]) -> bool:
        """See `HttpAuth`: there is nothing else to try."""
        return False

    @property
    def cache_key(self) -> str:
        """Two clients with one token see the same private results."""
        return self._headers["authorization"]


def bind_auth(
    auth: HttpAuth | OAuth | str | None,
    target: Target,
    http: Callable[[], HttpClient],
    changed: Callable[[], Awaitable[None]],
) -> HttpAuth | None:
    """Credentials for the requests of one client.

    Args:
        auth: ``"oauth"``, a bearer token, an `OAuth`, an `HttpAuth`, or ``None``.
        target: whose server.
        http: gives the client's HTTP.
        changed: awaited when the credentials may have become another user's.
    """
    if auth is None or not isinstance(target, HttpTarget):
        return None
    if auth == OAUTH:
        from ferrule.auth.client.oauth import OAuth

        auth = OAuth()
    if isinstance(auth, str):
        return BearerAuth(auth)
    given: Any = auth
    if hasattr(given, "bind"):
        given = given.bind(target.url, fetch_over(http), changed)
    return cast("HttpAuth", given)


def fetch_over(http: Callable[[], HttpClient]) -> Fetch:
    """A flow's requests over a client's HTTP."""

    async def fetch(request: AuthRequest) -> AuthResponse:
        from ferrule.auth.http import AuthResponse

        where = request.url.partition("?")[0]
        try:
            with anyio.fail_after(request.timeout_s):
                await _judge_addresses(request)
                response = await http().open(
                    HttpRequest(request.method, request.url, dict(request.headers), request.body)
                )
                try:
                    body = b""
                    while piece := await response.receive():
                        body += piece
                        if len(body) > request.max_bytes:
                            raise ConnectionClosed(f"{where} answered more than {request.max_bytes} bytes")
                    return AuthResponse(response.status, response.headers, body)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise ConnectionClosed(f"{where} did not answer within {request.timeout_s:g} s") from None

    return fetch


async def _judge_addresses(request: AuthRequest) -> None:
    """Look at every address of the host; a name that cannot be resolved is left to the connection (a proxy may)."""
    from ferrule.auth.errors import UnsafeUrl
    from ferrule.auth.urls import HostClass, class_of_address, class_of_host

    parts = urlsplit(request.url)
    host = parts.hostname or ""
    if request.host_class is HostClass.LOOPBACK and class_of_host(host) is HostClass.LOOPBACK:
        return
    try:
        found = await anyio.getaddrinfo(host, parts.port or {"http": 80}.get(parts.scheme, 443), type=1)
    except OSError:
        return
    for *_, address in found:
        kind = class_of_address(str(address[0]))
        if kind > request.host_class:
            raise UnsafeUrl(request.url, f"its name leads to a {kind.name.lower()} address")
