"""Credentials of one caller for one server behind: values of ``Client(auth=…)`` that a `UserServer` uses.

`SignedInUser` signs in with a link, `ExchangedToken` exchanges the caller's token (RFC 8693), and `PassedOnToken` sends
the caller's own. Each is made for one caller, and its credentials go to the origin of its server only.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio

from ferrule.auth.client.oauth import AuthorizedRequest, Fetch, OAuth, OAuthSession, Spawn
from ferrule.auth.client.storage import TokenStorage, storage_key
from ferrule.auth.client.tokens import ClientIdentity, TokenEndpoint, TokenSet, lifetime_s_of, request_token
from ferrule.auth.errors import AuthError
from ferrule.auth.http import AuthRequest, AuthResponse, Flow
from ferrule.auth.urls import UrlPolicy, canonical_resource, origin_of
from ferrule.client.connection.authorization import fetch_over
from ferrule.client.gateway.credentials.caller import caller_now, token_of
from ferrule.client.gateway.credentials.sign_in import SignIn, SignInRequired, SignIns
from ferrule.transports.background import Background

if TYPE_CHECKING:
    from ferrule.transports.http.client import HttpAuth

__all__ = ["ExchangedToken", "PassedOnToken", "SignedInUser", "TokenExchange"]

_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"
_LEEWAY_S: Final = 30.0
_UNKNOWN_LIFETIME_S: Final = 60.0
MAX_EXCHANGED: Final = 64
"""Exchanged tokens that are kept for one caller, whose own token changes; the oldest is dropped."""


class SignedInUser:
    """OAuth of one caller, with a link in place of a browser.

    Args:
        server: the name of the server behind.
        account: the caller's account, for a person to recognize.
        storage: the caller's part of the storage.
        sign_ins: the sign-ins of the gateway.
        background: runs the flows.
        signed_in: called after each sign-in.
        options: the options of `OAuth`: ``client_id``, ``client_secret``, ``scopes`` …

    Attributes:
        running: the last sign-in; ``None`` before the first.
    """

    def __init__(
        self,
        server: str,
        account: str,
        storage: TokenStorage,
        sign_ins: SignIns,
        background: Callable[[], Background],
        signed_in: Callable[[], None],
        options: Mapping[str, Any],
    ) -> None:
        self._server = server
        self._account = account
        self._storage = storage
        self._sign_ins = sign_ins
        self._background = background
        self._signed_in = signed_in
        self._options = options
        self.running: SignIn | None = None
        self._flow: Callable[[SignIn], Awaitable[Any]] | None = None

    def __repr__(self) -> str:
        return f"SignedInUser({self._server!r})"

    def bind(
        self,
        server_url: str,
        fetch: Fetch,
        changed: Callable[[], Awaitable[None]] | None = None,
        spawn: Spawn | None = None,
    ) -> HttpAuth:
        """See `OAuth.bind`."""

        def make(interaction: Any) -> OAuthSession:
            oauth = OAuth(interaction=interaction, storage=self._storage, **self._options)
            if isinstance(interaction, SignIn):  # the client may be closed before the person has signed in
                return oauth.bind(server_url, _fetch_alone)
            return oauth.bind(server_url, fetch, changed, spawn)

        key = storage_key("token", canonical_resource(server_url))
        return _UserSession(make, self._stored(key), self.require)

    def _stored(self, key: str) -> Callable[[], Awaitable[TokenSet | None]]:
        async def read() -> TokenSet | None:
            return TokenSet.from_json(await self._storage.get(key))

        return read

    def require(self, flow: Callable[[SignIn], Awaitable[Any]]) -> SignInRequired:
        """Return the error of a request that needs a sign-in, which `begin` then does.

        Args:
            flow: obtains the tokens, with the given interaction.
        """
        self._flow = flow
        return SignInRequired(self._server)

    async def begin(self) -> SignIn | None:
        """Start to sign in, unless that is going on, and return it with its link; ``None`` if no user is needed.

        Raises:
            AuthError: it failed.
        """
        running = self.running
        if running is None or running.is_done.is_set():
            if self._flow is None:
                return None
            running = self.running = SignIn(self._sign_ins, self._server, self._account)
            self._background().start(self._run(running, self._flow), "ferrule-gateway-sign-in")
        await running.is_asked.wait()
        if not running.is_done.is_set():
            return running
        if running.error is not None:
            raise AuthError(f"The sign-in to {self._server!r} failed") from running.error
        return None

    async def _run(self, running: SignIn, flow: Callable[[SignIn], Awaitable[Any]]) -> None:
        async def work() -> None:
            await flow(running)

        await running.run(work)
        if running.error is None:
            self._signed_in()


class _Refusing:
    """An `Interaction` that ends a flow before the person is asked and before the client registers."""

    async def start(self, preferred: str | None) -> str:
        """See `Interaction`."""
        raise _PersonNeeded("A person has to sign in")

    async def authorize(self, url: str) -> str:
        """See `Interaction`."""
        raise _PersonNeeded("A person has to sign in")

    async def aclose(self) -> None:
        """See `Interaction`."""


class _PersonNeeded(AuthError):
    """A flow needs a person."""


class _UserSession:
    """The tokens of one caller in one client; implements `HttpAuth`."""

    is_slow = True

    def __init__(
        self,
        make: Callable[[Any], OAuthSession],
        stored: Callable[[], Awaitable[TokenSet | None]],
        require: Callable[[Callable[[SignIn], Awaitable[Any]]], SignInRequired],
    ) -> None:
        self._make = make
        self._stored = stored
        self._require = require
        self._session = make(_Refusing())

    @property
    def cache_key(self) -> str | None:
        """See `HttpAuth`."""
        return None

    async def headers(self, request: AuthorizedRequest) -> Mapping[str, str]:
        """See `HttpAuth`."""
        return await self._session.headers(request)

    def observed(self, request: AuthorizedRequest, status: int, headers: Mapping[str, str]) -> None:
        """See `HttpAuth`."""
        self._session.observed(request, status, headers)

    async def challenged(self, request: AuthorizedRequest, status: int, headers: Mapping[str, str]) -> bool:
        """See `HttpAuth`.

        Raises:
            SignInRequired: the person has to sign in.
            AuthError: no token can be obtained.
        """
        used = request.headers.get("authorization", "").partition(" ")[2] or None
        stored = await self._stored()
        if stored is not None and stored.access_token != used:  # signed in meanwhile, maybe in another process
            self._session = self._make(_Refusing())
            return True
        try:
            return await self._session.challenged(request, status, headers)
        except _PersonNeeded:
            pass

        async def flow(interaction: SignIn) -> None:
            session = self._make(interaction)
            # Without the refused token, the session asks for one instead of refreshing it.
            await session.challenged(_Anonymous(request.method, request.url), status, headers)

        raise self._require(flow)


class _Anonymous:
    """A request without credentials, as far as a flow reads it."""

    def __init__(self, method: str, url: str) -> None:
        self.method, self.url = method, url
        self.headers: Mapping[str, str] = {}


class TokenExchange:
    """How tokens of callers are exchanged (RFC 8693).

    Args:
        token_endpoint: URL of the token endpoint.
        client_id, client_secret: the gateway's credentials there.
        audience: the ``audience`` of the request; ``None`` sends the server's URL as ``resource``.
        scopes: the requested scopes; none requests none.
        clock: returns seconds since the epoch.
    """

    def __init__(
        self,
        token_endpoint: str,
        *,
        client_id: str = "",
        client_secret: str | None = None,
        audience: str | None = None,
        scopes: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.token_endpoint = token_endpoint
        method: Any = "none" if client_secret is None else "client_secret_basic"
        self._identity = ClientIdentity(client_id, client_secret, method)
        self._audience = audience
        self._scopes = tuple(scopes)
        self.clock = clock

    def __repr__(self) -> str:
        return f"TokenExchange({self.token_endpoint.partition('?')[0]!r})"

    def flow(self, token: str, server_url: str) -> Flow[dict[str, Any]]:
        """Exchange a token, and return the members of the response.

        Raises:
            TokenRequestFailed: it was refused.
        """
        policy = UrlPolicy()
        endpoint = TokenEndpoint(
            self.token_endpoint, None, policy, policy.class_for(self.token_endpoint), now=self.clock()
        )
        fields = {
            "grant_type": _EXCHANGE,
            "subject_token": token,
            "subject_token_type": _ACCESS_TOKEN,
            "requested_token_type": _ACCESS_TOKEN,
            "audience": self._audience,
            "resource": canonical_resource(server_url) if self._audience is None else None,
            "scope": " ".join(self._scopes) or None,
        }
        return request_token(endpoint, self._identity, fields)


class ExchangedToken:
    """The exchanged token of one caller: a new one for each token with which the caller comes."""

    def __init__(self, exchange: TokenExchange) -> None:
        self._exchange = exchange

    def bind(
        self,
        server_url: str,
        fetch: Fetch,
        changed: Callable[[], Awaitable[None]] | None = None,
        spawn: Spawn | None = None,
    ) -> HttpAuth:
        """See `OAuth.bind`."""
        return _ExchangedSession(self._exchange, server_url, fetch)


class _ExchangedSession:
    """Implements `HttpAuth`."""

    is_slow = False

    def __init__(self, exchange: TokenExchange, server_url: str, fetch: Fetch) -> None:
        self._exchange = exchange
        self._server_url = server_url
        self._origin = origin_of(server_url)
        self._fetch = fetch
        self._known: dict[bytes, tuple[float, str]] = {}
        self._lock = anyio.Lock()

    @property
    def cache_key(self) -> str | None:
        """See `HttpAuth`."""
        return None

    async def headers(self, request: AuthorizedRequest) -> Mapping[str, str]:
        """See `HttpAuth`.

        Raises:
            AuthError: the request has no token, or it cannot be exchanged.
        """
        if origin_of(request.url) != self._origin:
            return {}
        token = token_of(caller_now.get())
        if token is None:
            raise AuthError("The caller has no token that could be exchanged")
        key = hashlib.sha256(token.encode()).digest()
        async with self._lock:
            known = self._known.get(key)
            if known is None or self._exchange.clock() >= known[0]:
                known = self._known[key] = await self._exchanged(token)
                while len(self._known) > MAX_EXCHANGED:
                    del self._known[next(iter(self._known))]
        return {"authorization": f"Bearer {known[1]}"}

    async def _exchanged(self, token: str) -> tuple[float, str]:
        found = await _run(self._exchange.flow(token, self._server_url), self._fetch)
        seconds = lifetime_s_of(found.get("expires_in")) or _UNKNOWN_LIFETIME_S
        return self._exchange.clock() + max(1.0, seconds - _LEEWAY_S), str(found["access_token"])

    def observed(self, request: AuthorizedRequest, status: int, headers: Mapping[str, str]) -> None:
        """See `HttpAuth`."""

    async def challenged(self, request: AuthorizedRequest, status: int, headers: Mapping[str, str]) -> bool:
        """See `HttpAuth`; a token that is refused is exchanged once more."""
        used = request.headers.get("authorization", "").partition(" ")[2]
        stale = [key for key, (_, token) in self._known.items() if token == used]
        for key in stale:
            del self._known[key]
        return status == 401 and bool(stale)


class PassedOnToken:
    """The caller's own token, passed on; implements `HttpAuth` for one server."""

    is_slow = False

    def bind(
        self,
        server_url: str,
        fetch: Fetch,
        changed: Callable[[], Awaitable[None]] | None = None,
        spawn: Spawn | None = None,
    ) -> HttpAuth:
        """See `OAuth.bind`."""
        return _PassedOn(origin_of(server_url))


class _PassedOn:
    is_slow = False

    def __init__(self, origin: str) -> None:
        self._origin = origin

    @property
    def cache_key(self) -> str | None:
        """See `HttpAuth`."""
        return None

    async def headers(self, request: AuthorizedRequest) -> Mapping[str, str]:
        """See `HttpAuth`."""
        token = token_of(caller_now.get())
        return {} if token is None or origin_of(request.url) != self._origin else {"authorization": f"Bearer {token}"}

    def observed(self, request: AuthorizedRequest, status: int, headers: Mapping[str, str]) -> None:
        """See `HttpAuth`."""

    async def challenged(self, request: AuthorizedRequest, status: int, headers: Mapping[str, str]) -> bool:
        """Return ``False``: only the caller can get another token. See `HttpAuth`."""
        return False


async def _run(flow: Flow[dict[str, Any]], fetch: Fetch) -> dict[str, Any]:
    """Run a flow that only sends requests."""
    step: Any = flow.send(None)
    while True:
        assert isinstance(step, AuthRequest)
        response = await fetch(step)
        try:
            step = flow.send(response)
        except StopIteration as stop:
            return dict(stop.value)


async def _fetch_alone(request: AuthRequest) -> AuthResponse:
    """Send one request of a flow over a connection of its own."""
    from ferrule.transports.http.aiohttp_backend import AiohttpClient

    http = AiohttpClient()
    try:
        return await fetch_over(lambda: http)(request)
    finally:
        await http.aclose()
