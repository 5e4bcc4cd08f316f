"""What `Client(auth=…)` takes, made into credentials for its requests, and the HTTP of authorization flows.

Flows are `ferrule.auth`'s and pure; here is their only I/O, over the client's own HTTP (its proxy, its trust, its
connections).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from ferrule.client.config import HttpTarget, Target
from ferrule.transports.fetching import fetch_bounded
from ferrule.transports.http_client import HttpClient, HttpRequest

if TYPE_CHECKING:
    from ferrule.auth.client.oauth import Fetch, OAuth, Spawn
    from ferrule.auth.http import AuthRequest, AuthResponse
    from ferrule.transports.streamable_client import HttpAuth

__all__ = ["BearerAuth", "bind_auth", "fetch_over"]

OAUTH: Final = "oauth"


class BearerAuth:
    """A fixed token, for the one server of its client."""

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
    spawn: Spawn,
) -> HttpAuth | None:
    """Credentials for the requests of one client.

    Args:
        auth: ``"oauth"``, a bearer token, an `OAuth`, an `HttpAuth`, or ``None``.
        target: whose server.
        http: gives the client's HTTP.
        changed: awaited when the credentials may have become another user's.
        spawn: runs a coroutine in a task of the client's own.
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
        given = given.bind(target.url, fetch_over(http), changed, spawn)
    return cast("HttpAuth", given)


def fetch_over(http: Callable[[], HttpClient]) -> Fetch:
    """A flow's requests over a client's HTTP."""

    async def fetch(request: AuthRequest) -> AuthResponse:
        from ferrule.auth.http import AuthResponse

        status, headers, body = await fetch_bounded(
            http(),
            HttpRequest(request.method, request.url, dict(request.headers), request.body),
            timeout_s=request.timeout_s,
            max_bytes=request.max_bytes,
            judge=request.judge_address,
        )
        return AuthResponse(status, headers, body)

    return fetch
