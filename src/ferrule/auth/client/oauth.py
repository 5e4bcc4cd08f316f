"""`OAuth`: what ``Client(auth=…)`` takes, and the session that one client makes of it.

`OAuth` is configuration and may be shared; `OAuthSession` belongs to one client and one server, keeps its tokens, and
drives the flows with the client's own HTTP. Tokens go to the origin they were got for and nowhere else.

Concurrency: the first task that finds a token expired or refused does the work, everyone else of this client waits for
it and no longer; if its task is cancelled the next takes over. No lock is held while a request is under way, so a GET
stream that stays open for hours stands in nobody's way. A token request that has begun is finished and stored even if
its task is cancelled: a rotated refresh token must not get lost. Between processes the storage's lock decides, and
whoever comes second finds the new tokens there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypedDict, TypeVar, Unpack

import anyio

from ferrule._options import check_options
from ferrule.auth.challenges import Challenge, parse_challenges
from ferrule.auth.client.discovery import discover_resource
from ferrule.auth.client.flow import FlowSettings, obtain_tokens, refresh_tokens, revoke_tokens, union_of_scopes
from ferrule.auth.client.grants import AuthorizationCodeGrant, Grant, IssuerBound
from ferrule.auth.client.interaction import Interaction, default_interaction
from ferrule.auth.client.registration import ClientMetadata
from ferrule.auth.client.storage import MemoryStorage, TokenStorage, storage_key
from ferrule.auth.client.tokens import ClientIdentity, TokenSet
from ferrule.auth.errors import AuthError, InteractionFailed, ScopeRefused, TokenRequestFailed
from ferrule.auth.http import AskUser, AskValue, AuthRequest, Fetch, Flow, OpenRedirect, Step
from ferrule.auth.urls import UrlPolicy, canonical_resource, is_same_issuer, origin_of
from ferrule.protocol.errors import LocalError

__all__ = ["AuthorizedRequest", "CodeGrantOptions", "Fetch", "OAuth", "OAuthSession"]

logger = logging.getLogger("ferrule.auth")

T = TypeVar("T")

LEEWAY_S: Final = 30.0
"""Seconds before its end that a token is renewed; a tenth of its life if that is less."""
MAX_STEP_UPS: Final = 2
"""Times that the same set of scopes is asked for because of a 403, within `STEP_UP_WINDOW_S`."""
STEP_UP_WINDOW_S: Final = 300.0
REFRESH_TIMEOUT_S: Final = 40.0

Spawn = Callable[[Coroutine[Any, Any, None], str], bool]
"""Runs a coroutine, under a name, in a task of its own; ``False`` if nothing can be started any more."""


class AuthorizedRequest(Protocol):
    """What is looked at of the client's request."""

    @property
    def method(self) -> str:
        """HTTP method."""
        ...

    @property
    def url(self) -> str:
        """Absolute."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """As sent, lower-case names."""
        ...


class CodeGrantOptions(TypedDict, total=False):
    """Options of `OAuth` for the usual grant, with a person at a browser; another ``grant=`` takes its own."""

    client_id: str | None
    client_secret: str | None
    private_key: Any
    algorithm: str | None
    issuer: str | None
    client_metadata_url: str | None
    redirect_uri: str | None


_OTHER_OPTIONS: Final = (
    "scopes",
    "interaction",
    "storage",
    "grant",
    "metadata",
    "dpop",
    "choose_issuer",
    "policy",
    "clock",
)


def _code_grant(
    *,
    client_id: str | None = None,
    client_secret: str | None = None,
    private_key: Any = None,
    algorithm: str | None = None,
    issuer: str | None = None,
    client_metadata_url: str | None = None,
    redirect_uri: str | None = None,
) -> AuthorizationCodeGrant:
    if client_id is None and (client_secret is not None or private_key is not None):
        raise ValueError("client_secret and private_key belong to a client_id")
    identity = None
    if client_id is not None:
        identity = ClientIdentity(client_id, client_secret, private_key=private_key, algorithm=algorithm)
    return AuthorizationCodeGrant(
        identity=identity, issuer=issuer, client_metadata_url=client_metadata_url, redirect_uri=redirect_uri
    )


class OAuth:
    """OAuth for a client: ``Client(url, auth=OAuth())``; the word ``"oauth"`` means the same.

    Args:
        client_id, client_secret: agreed with the authorization server; without them the client registers.
        private_key: PEM or JWK, for ``private_key_jwt`` instead of a secret; ``algorithm`` names its signature.
        issuer: the authorization server that ``client_id`` belongs to; ``None`` binds it to the first one met.
        client_metadata_url: URL of a published client metadata document.
        redirect_uri: where the user comes back; ``None`` lets the interaction choose.
        scopes: always asked for, beside what servers demand; a sequence or a text with spaces.
        interaction: how the user is asked; ``None``: a browser, or in a remote shell a URL to paste.
        storage: where tokens are kept; ``None``: in memory.
        grant: another way to tokens; then the first five arguments are not used.
        metadata: how the client introduces itself when it registers.
        dpop: bind tokens to a key (RFC 9449): always, never, or where the resource demands it.
        choose_issuer: picks one of several authorization servers.
        policy: limits on discovered URLs.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        *,
        scopes: Sequence[str] | str | None = None,
        interaction: Interaction | None = None,
        storage: TokenStorage | None = None,
        grant: Grant | None = None,
        metadata: ClientMetadata | None = None,
        dpop: bool | Literal["auto"] = "auto",
        choose_issuer: Callable[[Sequence[str]], str] | None = None,
        policy: UrlPolicy | None = None,
        clock: Callable[[], float] = time.time,
        **options: Unpack[CodeGrantOptions],
    ) -> None:
        check_options("OAuth", options, CodeGrantOptions, *_OTHER_OPTIONS)
        code_grant = _code_grant(**options)  # also where it is not used, so that what contradicts itself is refused
        self.grant: Grant = grant or code_grant
        if isinstance(scopes, str):
            scopes = scopes.split()
        self.scopes = None if scopes is None else tuple(scopes)
        self.interaction = interaction
        self.storage: TokenStorage = storage or MemoryStorage()
        self.metadata = metadata or ClientMetadata()
        self.dpop: bool | Literal["auto"] = dpop
        self.choose_issuer = choose_issuer
        self.policy = policy or UrlPolicy()
        self.clock = clock

    def __repr__(self) -> str:
        return f"OAuth({type(self.grant).__name__})"

    def bind(
        self,
        server_url: str,
        fetch: Fetch,
        changed: Callable[[], Awaitable[None]] | None = None,
        spawn: Spawn | None = None,
    ) -> OAuthSession:
        """The session of one client with one server.

        Args:
            server_url: of the MCP server.
            fetch: sends requests.
            changed: awaited when the authorization context may have become another user's.
            spawn: runs a coroutine in a task that nobody's cancellation reaches.
        """
        return OAuthSession(self, server_url, fetch, changed, spawn)


class _Flight:
    """Work that one task does for all."""

    __slots__ = ("done", "error", "is_complete")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.error: Exception | None = None
        self.is_complete = False


class OAuthSession:
    """See the module. Fits the client's ``HttpAuth``."""

    is_slow = True
    """Its work may take a person's time, which no call's time-out should count."""

    def __init__(
        self,
        oauth: OAuth,
        server_url: str,
        fetch: Fetch,
        changed: Callable[[], Awaitable[None]] | None = None,
        spawn: Spawn | None = None,
    ) -> None:
        self._spawn = spawn
        self._oauth = oauth
        self._server_url = server_url
        self._origin = origin_of(server_url).lower()
        self._key = storage_key("token", canonical_resource(server_url))
        self._fetch = fetch
        self._changed = changed
        self._storage = oauth.storage
        self._tokens: TokenSet | None = None
        self._leeway_s = 0.0
        self._is_loaded = False
        self._sign_outs = 0
        self._is_accepted = False
        self._requested: tuple[str, ...] | None = None
        self._flight: _Flight | None = None
        self._nonce: str | None = None
        self._dpop_key: Any = None
        self._issuer: str | None = None
        self._bound_issuer: str | None = None
        given = oauth.grant.identity
        who = "" if given is None else given.client_id
        self._binding_key = storage_key("issuer", f"{who} {canonical_resource(server_url)}")
        self._step_ups: list[tuple[float, frozenset[str]]] = []
        self._settings = FlowSettings(
            grant=oauth.grant,
            metadata=oauth.metadata,
            policy=oauth.policy,
            stored=self._stored_identity,
            remember=self._remember_identity,
            scopes=oauth.scopes,
            dpop=oauth.dpop,
            choose_issuer=self._choose_issuer,
        )

    def __repr__(self) -> str:
        return f"OAuthSession({self._origin})"

    @property
    def tokens(self) -> TokenSet | None:
        """The tokens in use; ``None`` before the first refusal."""
        return self._tokens

    @property
    def cache_key(self) -> str | None:
        """Private results are kept per session: whose they are is known to the server only."""
        return None

    # -- the client's side ------------------------------------------------------------------------------------------

    async def headers(self, request: AuthorizedRequest) -> Mapping[str, str]:
        """``authorization`` (and ``dpop``) for a request, renewed where the token is about to end."""
        tokens = self._tokens
        if tokens is None:
            if self._is_loaded:
                return {}
            await self._load()
            tokens = self._tokens
            if tokens is None:
                return {}
        if tokens.expires_at is not None and self._oauth.clock() >= tokens.expires_at - self._leeway_s:
            tokens = await self._renewed(tokens)
            if tokens is None:
                return {}
        if not request.url.lower().startswith(self._origin) or origin_of(request.url).lower() != self._origin:
            return {}
        if tokens.token_type == "dpop":
            return self._dpop_headers(tokens, request)
        return {"authorization": f"Bearer {tokens.access_token}"}

    def _dpop_headers(self, tokens: TokenSet, request: AuthorizedRequest) -> Mapping[str, str]:
        from ferrule.auth.dpop_proof import make_proof
        from ferrule.auth.jose import import_private_key

        if self._dpop_key is None:
            self._dpop_key = import_private_key(tokens.dpop_key)
        proof = make_proof(
            self._dpop_key,
            request.method,
            request.url,
            now=self._oauth.clock(),
            token=tokens.access_token,
            nonce=self._nonce,
        )
        return {"authorization": f"DPoP {tokens.access_token}", "dpop": proof}

    def observed(self, request: AuthorizedRequest, status: int, headers: Mapping[str, str]) -> None:
        """An answer came; called for each, so it does next to nothing."""
        if "dpop-nonce" in headers:
            self._nonce = headers["dpop-nonce"]
        if status < 400:
            self._is_accepted = True

    async def challenged(self, request: AuthorizedRequest, status: int, headers: Mapping[str, str]) -> bool:
        """The server refused (401, 403); whether to send the request again.

        Raises:
            AuthError: no token that it takes can be had.
        """
        challenges = parse_challenges(headers.get("www-authenticate"))
        used = request.headers.get("authorization", "").partition(" ")[2] or None
        if status == 401 and any(challenge.error == "use_dpop_nonce" for challenge in challenges):
            return "dpop-nonce" in headers and used is not None
        if status == 403:
            refused = [challenge for challenge in challenges if challenge.error == "insufficient_scope"]
            if not refused:  # another reason than scope: a bad Origin, a rule of the server
                return False
            await self._single(used, lambda: self._step_up(refused[0]), demanded=refused[0].scopes or ())
            return True
        known = [challenge for challenge in challenges if challenge.scheme in ("bearer", "dpop")]
        challenge = known[0] if known else None
        if used is not None and self._tokens is None and self._is_loaded:
            used = None
        await self._single(used, lambda: self._sign_in(used, challenge))
        return True

    async def sign_out(self) -> None:
        """Forget the tokens, here and in storage, and tell the authorization server where it has a way to be told.

        A refresh that is under way is waited for, since what it brings is revoked as well; a sign-in fails.
        """
        if not self._is_loaded:
            await self._load()
        self._sign_outs += 1
        tokens, self._tokens = self._tokens, None
        self._requested = None
        async with self._storage.lock(self._key):
            stored = TokenSet.from_json(await self._storage.get(self._key))
            await self._storage.delete(self._key)
            self._tokens = None
        kept = [found for found in (tokens, stored) if found is not None]
        if len(kept) == 2 and kept[0].access_token == kept[1].access_token:
            del kept[0]
        for found in kept:
            await self._revoke(found)

    async def _revoke(self, tokens: TokenSet) -> None:
        try:
            flow = revoke_tokens(tokens, self._settings, self._server_url, now=self._oauth.clock())
            if not await self._drive(flow):
                logger.info(
                    "%s has no way to be told that tokens are no longer used, or did not take it", tokens.issuer
                )
        except (LocalError, OSError) as error:
            logger.warning("Tokens could not be revoked: %s", error)

    # -- one task works, the others wait ----------------------------------------------------------------------------

    async def _single(
        self, used: str | None, work: Callable[[], Awaitable[None]], *, demanded: Sequence[str] | None = None
    ) -> None:
        """Do ``work`` unless somebody else has replaced the token ``used`` meanwhile, or is about to."""
        while True:
            tokens = self._tokens
            if tokens is not None and tokens.access_token != used:
                granted = set((tokens.scope or "").split()) | set(tokens.requested or ())
                if demanded is None or set(demanded) <= granted:
                    return
                used = tokens.access_token
            flight = self._flight
            if flight is None:
                break
            await flight.done.wait()
            if flight.error is not None:
                raise flight.error
            if flight.is_complete and demanded is None:
                return
        flight = self._flight = _Flight()
        try:
            await work()
            flight.is_complete = True
        except Exception as error:
            flight.error = error
            raise
        finally:
            self._flight = None
            flight.done.set()

    async def _renewed(self, tokens: TokenSet) -> TokenSet | None:
        """Tokens that have not ended; ``None`` if there is no way but to be refused and start anew."""

        async def work() -> None:
            await self._renew(tokens)

        await self._single(tokens.access_token, work)
        return self._tokens

    async def _renew(self, tokens: TokenSet) -> None:
        try:
            if await self._refresh(tokens):
                return
        except AuthError as error:
            if isinstance(error, TokenRequestFailed) and 400 <= error.status < 500 and error.status != 429:
                logger.info("The authorization server no longer refreshes (%s); starting anew", error.error)
                await self._forget(tokens, error)
                return
            if tokens.is_expired(self._oauth.clock()):
                raise
            self._leeway_s = 0.0
            logger.warning("Refreshing failed, the token in use still holds: %s", error)
            return
        except (LocalError, OSError) as error:
            if tokens.is_expired(self._oauth.clock()):
                raise
            self._leeway_s = 0.0
            logger.warning("Refreshing failed, the token in use still holds: %s", error)
            return
        self._leeway_s = 0.0
        if tokens.is_expired(self._oauth.clock()):
            self._tokens = None  # no refresh token: the server's challenge begins a new flow

    async def _forget(self, tokens: TokenSet, error: TokenRequestFailed) -> None:
        self._tokens = None
        await self._storage.delete(self._key)
        registered = tokens.identity.source == "registered" and tokens.issuer is not None
        if registered and error.error in ("invalid_client", "unauthorized_client"):
            await self._storage.delete(storage_key("client", tokens.issuer or ""))

    async def _refresh(self, tokens: TokenSet) -> bool:
        """Exchange the refresh token, or take what another process has put into storage; whether there is a new one.

        What was begun is finished: the caller may be cancelled, the rotated token may not be lost. A cancel scope does
        not hold off asyncio's own ``task.cancel()``, so it is a task of its own.
        """
        outcome: list[bool | Exception] = []
        done = anyio.Event()

        async def finish() -> None:
            try:
                with anyio.fail_after(REFRESH_TIMEOUT_S, shield=True):
                    outcome.append(await self._refresh_now(tokens))
            except TimeoutError:
                outcome.append(AuthError(f"The token endpoint did not answer within {REFRESH_TIMEOUT_S:g} s"))
            except Exception as error:
                outcome.append(error)
            finally:
                done.set()

        work = finish()
        if self._spawn is None or not self._spawn(work, "ferrule-refresh"):
            await work
        await done.wait()
        if not outcome:
            raise AuthError("The client was closed while its token was being refreshed")
        found = outcome[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def _refresh_now(self, tokens: TokenSet) -> bool:
        sign_outs = self._sign_outs
        async with self._storage.lock(self._key):
            if sign_outs != self._sign_outs:
                return False
            stored = TokenSet.from_json(await self._storage.get(self._key))
            now = self._oauth.clock()
            if stored is not None and stored.access_token != tokens.access_token:
                if not stored.is_expired(now, 5.0):
                    self._take(stored)
                    return True
                tokens = stored
            if tokens.refresh_token is None:
                return False
            flow = refresh_tokens(tokens, self._settings, self._server_url, now=now)
            fresh = await self._drive(flow)
            await self._storage.set(self._key, fresh.to_json())
            if sign_outs != self._sign_outs:  # who signs out waits for the lock, and revokes what is stored then
                return False
            self._take(fresh)
            return True

    # -- the flows --------------------------------------------------------------------------------------------------

    async def _sign_in(self, used: str | None, challenge: Challenge | None) -> None:
        """After a 401."""
        tokens = self._tokens
        if tokens is not None and used is not None:
            if await self._may_refresh(tokens, challenge):
                try:
                    if await self._refresh(tokens):
                        self._is_accepted = False
                        return
                except TokenRequestFailed as error:
                    if error.status >= 500 or error.status == 429:
                        raise
                    await self._forget(tokens, error)
            elif not self._is_accepted:
                why = None if challenge is None else challenge.parameters.get("error_description")
                said = f": {' '.join(why.split())[:200]}" if why else ""
                self._tokens = None
                await self._storage.delete(self._key)
                raise AuthError(f"{self._origin} refuses the token that its authorization server has just given{said}")
        await self._obtain(challenge, self._requested)

    async def _may_refresh(self, tokens: TokenSet, challenge: Challenge | None) -> bool:
        """Whether the token's issuer is still the server's: a refused token may mean that it has moved."""
        if tokens.refresh_token is None or not self._is_accepted:
            return False
        hint = None if challenge is None else challenge.resource_metadata
        protected = await self._drive(discover_resource(self._server_url, self._oauth.policy, hint))
        if protected is None or not protected.authorization_servers:
            return True
        return any(is_same_issuer(tokens.issuer or "", issuer) for issuer in protected.authorization_servers)

    async def _step_up(self, challenge: Challenge) -> None:
        """After a 403 for lack of scope: ask for the union, but not for the same union again and again."""
        demanded = challenge.scopes or ()
        wanted = frozenset(union_of_scopes(self._requested, self._oauth.scopes, demanded) or ())
        now = self._oauth.clock()
        self._step_ups = [(at, scopes) for at, scopes in self._step_ups if now - at < STEP_UP_WINDOW_S]
        if sum(scopes == wanted for _, scopes in self._step_ups) >= MAX_STEP_UPS:
            raise ScopeRefused(
                f"{self._origin} still refuses after scopes {' '.join(sorted(wanted)) or '(none named)'} were asked "
                f"for {MAX_STEP_UPS} times",
                tuple(demanded),
            )
        self._step_ups.append((now, wanted))
        await self._obtain(challenge, self._requested)

    async def _obtain(self, challenge: Challenge | None, previous: tuple[str, ...] | None) -> None:
        flow = obtain_tokens(
            self._settings,
            self._server_url,
            challenge,
            now=self._oauth.clock(),
            previous=previous,
            bound_issuer=self._bound_issuer,
        )
        sign_outs = self._sign_outs
        tokens = await self._drive(flow)
        with anyio.CancelScope(shield=True):
            self._issuer = tokens.issuer
            if tokens.identity.source == "given" and tokens.issuer is not None:
                self._bound_issuer = tokens.issuer
                await self._storage.set(self._binding_key, tokens.issuer)
            await self._storage.set(self._key, tokens.to_json())
            if sign_outs != self._sign_outs:
                await self._storage.delete(self._key)
            else:
                self._take(tokens)
            self._is_accepted = False
            if self._changed is not None:
                await self._changed()
            if sign_outs != self._sign_outs:
                await self._revoke(tokens)
                raise AuthError(f"Signed out of {self._origin} while signing in")

    async def _drive(self, flow: Flow[T]) -> T:
        """Run a flow with the client's HTTP and the user's attention."""
        reply: Any = None
        error: Exception | None = None
        interaction: Interaction | None = None
        try:
            while True:
                try:
                    step: Step = flow.throw(error) if error is not None else flow.send(reply)
                except StopIteration as stop:
                    return stop.value  # type: ignore[no-any-return]
                reply, error = None, None
                try:
                    if isinstance(step, AuthRequest):
                        reply = await self._fetch(step)
                    elif isinstance(step, AskValue):
                        reply = step.function()
                        if isinstance(reply, Awaitable):
                            reply = await reply  # pyright: ignore[reportUnknownVariableType]
                    elif isinstance(step, OpenRedirect):
                        interaction = self._oauth.interaction or default_interaction()
                        reply = await interaction.start(step.preferred)
                    else:
                        assert isinstance(step, AskUser)
                        if interaction is None:
                            raise InteractionFailed("A flow asks the user before it has a redirect URI")
                        reply = await interaction.authorize(step.url)
                except Exception as raised:
                    error = raised
        finally:
            flow.close()
            if interaction is not None:
                with anyio.CancelScope(shield=True):
                    await interaction.aclose()

    # -- storage ----------------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        tokens = TokenSet.from_json(await self._storage.get(self._key))
        bound = await self._storage.get(self._binding_key)
        if self._is_loaded:
            return
        self._bound_issuer = bound
        self._is_loaded = True
        if tokens is not None and tokens.identity.source == "given":
            given = self._oauth.grant.identity
            if given is None or given.client_id != tokens.identity.client_id:
                tokens = None  # the program has another identity now
        if tokens is not None:
            self._is_accepted = True  # it was, by another run
            self._issuer = tokens.issuer
            self._take(tokens)

    def _take(self, tokens: TokenSet) -> None:
        self._is_loaded = True
        self._tokens = tokens
        self._requested = tokens.requested
        self._dpop_key = None
        life_s = None if tokens.expires_at is None else tokens.expires_at - self._oauth.clock()
        self._leeway_s = 0.0 if life_s is None else min(LEEWAY_S, max(life_s, 0.0) / 10)

    def _choose_issuer(self, issuers: Sequence[str]) -> str:
        """The program's choice; else the issuer that already knows us, if it is still listed; else the first."""
        if self._oauth.choose_issuer is not None:
            return self._oauth.choose_issuer(issuers)
        grant = self._oauth.grant
        given = grant.issuer if isinstance(grant, IssuerBound) else None
        for known in (given, self._issuer):
            for issuer in issuers:
                if known is not None and is_same_issuer(known, issuer):
                    return issuer
        return issuers[0]

    async def _stored_identity(self, issuer: str) -> ClientIdentity | None:
        return ClientIdentity.from_json(await self._storage.get(storage_key("client", issuer)))

    async def _remember_identity(self, issuer: str, identity: ClientIdentity) -> None:
        await self._storage.set(storage_key("client", issuer), identity.to_json())
