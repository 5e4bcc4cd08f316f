"""Makes credentials from the argument of `Client(auth=…)`, and sends the requests of authorization flows.

The flows are in `ferrule.auth`, without I/O. Their requests are sent here, by the client's own HTTP client, with its
proxy, TLS settings and connections.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

from ferrule.client.targets import HttpTarget, Target
from ferrule.protocol.errors import MCPError
from ferrule.transports.http.backend import HttpClient, HttpClientRequest
from ferrule.transports.http.fetching import fetch_bounded
from ferrule.wire.codec import decode
from ferrule.wire.faults import FerruleError

if TYPE_CHECKING:
    from ferrule.auth.client.oauth import Fetch, OAuth, Spawn
    from ferrule.auth.http import AuthRequest, AuthResponse
    from ferrule.transports.http.client import HttpAuth

__all__ = ["NO_AUTH", "BearerAuth", "bind_auth", "explain_refusal", "fetch_over"]

_METADATA_TIMEOUT_S: Final = 3.0
_MAX_METADATA_BYTES: Final = 64 * 1024
_MAX_ISSUER_CHARS: Final = 200

OAUTH: Final = "oauth"

NO_AUTH: Final = 'this client has no auth=: give it a token (auth="…") or let it sign in (auth="oauth")'
"""The hint that `explain_refusal` adds to an error; programs with other names for the options replace it."""


@runtime_checkable
class BindsToServer(Protocol):
    """An argument of `Client(auth=…)` that makes credentials for one server, such as `ferrule.auth.OAuth`."""

    def bind(
        self,
        server_url: str,
        fetch: Fetch,
        changed: Callable[[], Awaitable[None]] | None = None,
        spawn: Spawn | None = None,
    ) -> HttpAuth:
        """Return the credentials for one client of one server; see `ferrule.auth.client.oauth.OAuth.bind`."""
        ...


class BearerAuth:
    """A fixed bearer token, sent to the client's server only."""

    def __init__(self, token: str) -> None:
        token = token.strip()  # read from a file, it ends with a line end
        if not token or any(not "!" <= char <= "~" for char in token):
            raise ValueError("auth= takes a token without spaces, line ends and characters outside ASCII")
        self._headers = {"authorization": f"Bearer {token}"}

    def __repr__(self) -> str:
        return "BearerAuth(…)"

    async def headers(self, request: Any) -> Mapping[str, str]:
        """See `HttpAuth`."""
        return self._headers

    async def challenged(self, request: Any, status: int, headers: Mapping[str, str]) -> bool:
        """Return ``False``: a fixed token cannot be renewed. See `HttpAuth`."""
        return False

    @property
    def cache_key(self) -> str:
        """Return a hash of the token: clients with the same token get the same private results."""
        return self._headers["authorization"]


def bind_auth(
    auth: HttpAuth | OAuth | str | None,
    target: Target,
    http: Callable[[], HttpClient],
    changed: Callable[[], Awaitable[None]],
    spawn: Spawn,
    user_agent: str | None = None,
) -> HttpAuth | None:
    """Return the credentials for the requests of one client.

    Args:
        auth: ``"oauth"``, a bearer token, an `OAuth`, an `HttpAuth`, or ``None`` for that of the target.
        target: the client's server.
        http: returns the client's HTTP client.
        changed: awaited when the credentials may have become another user's.
        spawn: runs a coroutine in a task of the client's own.
        user_agent: ``User-Agent`` of the flow's requests; ``None`` for that of the HTTP client.
    """
    if auth is None and isinstance(target, HttpTarget):
        auth = target.auth
    if auth is None or not isinstance(target, HttpTarget):
        return None
    if auth == OAUTH:
        from ferrule.auth.client.oauth import OAuth

        auth = OAuth()
    if isinstance(auth, str):
        return BearerAuth(auth)
    if isinstance(auth, BindsToServer):
        return auth.bind(target.url, fetch_over(http, user_agent), changed, spawn)
    return auth


def fetch_over(http: Callable[[], HttpClient], user_agent: str | None = None) -> Fetch:
    """Return a function that sends a flow's requests by an HTTP client, with the given ``User-Agent``."""
    own = {} if user_agent is None else {"user-agent": user_agent}

    async def fetch(request: AuthRequest) -> AuthResponse:
        from ferrule.auth.http import AuthResponse

        status, headers, body = await fetch_bounded(
            http(),
            HttpClientRequest(request.method, request.url, {**own, **request.headers}, request.body),
            timeout_s=request.timeout_s,
            max_bytes=request.max_bytes,
            judge=request.judge_address,
        )
        return AuthResponse(status, headers, body)

    return fetch


async def explain_refusal(error: BaseException, url: str, http: Callable[[], HttpClient]) -> None:
    """Add to a 401 error of a client without credentials how to configure them, and at which servers to sign in.

    The metadata that names the authorization server is requested once, with a short time limit, and from the MCP
    server's own origin only. If it cannot be read, the hint does not name the servers. Other errors stay unchanged.
    """
    from ferrule.transports.http.errors import HttpRemoteError, HttpStatusError

    if isinstance(error, HttpRemoteError):
        status, challenge = error.http_status, error.challenge
    elif isinstance(error, HttpStatusError):
        status, challenge = error.status, error.headers.get("www-authenticate")
    else:
        return
    if status != 401:
        return
    hint = NO_AUTH
    issuers = await _issuers_of(challenge, url, http())
    if issuers:
        hint += f" at {' or '.join(issuers)}"
    if isinstance(error, MCPError):
        error.message = f"{error.message}; {hint}"
    error.args = (f"{error.args[0]}; {hint}",)


async def _issuers_of(challenge: str | None, url: str, http: HttpClient) -> list[str]:
    """Return the authorization servers in the metadata that a challenge names (RFC 9728); empty if it is unreadable."""
    from ferrule.auth.challenges import parse_challenges
    from ferrule.auth.documents import read_protected_resource
    from ferrule.auth.urls import origin_of

    where = next((c.resource_metadata for c in parse_challenges(challenge) if c.resource_metadata), None)
    try:
        if where is None or origin_of(where) != origin_of(url):
            return []
        request = HttpClientRequest("GET", where, {"accept": "application/json"}, b"")
        status, _, body = await fetch_bounded(
            http, request, timeout_s=_METADATA_TIMEOUT_S, max_bytes=_MAX_METADATA_BYTES, judge=None
        )
        document = decode(body) if status == 200 else None
        found = read_protected_resource(cast("dict[str, Any]", document)) if isinstance(document, dict) else None
    except (FerruleError, OSError, ValueError):
        return []
    named = [] if found is None else found.authorization_servers[:3]
    return [issuer for issuer in named if issuer.isprintable() and len(issuer) <= _MAX_ISSUER_CHARS]
