"""`OAuth`, the value of ``Client(auth=…)``, and `OAuthSession`, its use by one client.

`OAuth` is configuration and may be shared. `OAuthSession` belongs to one client and one server, keeps its tokens, and
runs the flows with the client's own HTTP. Tokens are sent to the origin they were issued for and to no other.

Concurrency: the first task that finds a token expired or refused does the work, and the other tasks of this client wait
for it; if its task is cancelled, the next one takes over. No lock is held during a request to the MCP server, so a GET
stream that stays open for hours blocks no other request. A refresh that was sent is always completed and its tokens are
stored, even if its task is cancelled: a rotated refresh token must not be lost. A sign-in ends with its task. Between
processes the storage's lock is used; the process that gets it second finds the new tokens in the storage.
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
"""A token is refreshed this many seconds before it expires, or a tenth of its lifetime if that is less."""
MAX_STEP_UPS: Final = 2
"""How often one set of scopes is requested after a 403 within `STEP_UP_WINDOW_S` seconds; stops a loop of step-ups."""
STEP_UP_WINDOW_S: Final = 300.0
REFRESH_TIMEOUT_S: Final = 40.0

Spawn = Callable[[Coroutine[Any, Any, None], str], bool]
"""Starts a coroutine in a task with a name; returns ``False`` if no task can be started any more."""


class AuthorizedRequest(Protocol):
    """The members of a client's request that `OAuthSession` reads."""

    @property
    def method(self) -> str:
        """HTTP method."""
        ...

    @property
    def url(self) -> str:
        """The absolute URL."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by lower-case name."""
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
        client_id, client_secret: credentials from the authorization server's operator; without them the client
            registers.
        private_key: PEM or JWK, for ``private_key_jwt`` instead of a secret; ``algorithm`` names its signature.
        issuer: the authorization server that ``client_id`` belongs to; ``None`` binds it to the first one that is used.
        client_metadata_url: URL of a published client metadata document.
        redirect_uri: the redirect URI; ``None``: the interaction chooses it.
        scopes: requested in addition to those that servers require; a sequence, or a string with spaces.
        interaction: how the user consents; ``None``: a browser, or in a remote shell a URL to paste.
        storage: keeps the tokens; ``None``: in memory.
        grant: another grant; the arguments from ``client_id`` to ``redirect_uri`` are then not used.
        metadata: the client's metadata for registration.
        dpop: bind tokens to a key (RFC 9449): always, never, or (``"auto"``) where the resource requires it.
        choose_issuer: selects one of several authorization servers; ``None`` takes the first.
        policy: limits on discovered URLs.
        clock: returns seconds since the epoch.

    Raises:
        ValueError: ``client_secret`` or ``private_key`` is given without ``client_id``.
        TypeError: an option is unknown.
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
        code_grant = _code_grant(**options)  # made even with `grant`, because it checks the arguments
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
        """Return a new session for one client and one server.

        Args:
            server_url: URL of the MCP server.
            fetch: sends a request of a flow and returns the response.
            changed: awaited after a sign-in, because another user may have signed in.
            spawn: starts a coroutine in a task that is not cancelled with the caller's task; ``None`` runs it in the
                caller's task.
        """
        return OAuthSession(self, server_url, fetch, changed, spawn)


class _SharedWork:
    """Work of one task whose outcome other tasks wait for."""

    __slots__ = ("done", "error", "is_complete")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.error: Exception | None = None
        self.is_complete = False


class OAuthSession:
    """The tokens of one client for one server; implements the client's ``HttpAuth``."""

    is_slow = True
    """A sign-in waits for a user, so its time does not count towards the timeout of a call."""

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
        self._shared_work: _SharedWork | None = None
        self._nonce: str | None = None
        self._dpop_key: Any = None
        self._issuer: str | None = None
        self._bound_issuer: str | None = None
        given = oauth.grant.identity
        client_id = "" if given is None else given.client_id
        self._binding_key = storage_key("issuer", f"{client_id} {canonical_resource(server_url)}")
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
        """``None``: only the server knows the user of a token, so private results are cached per session."""
        return None

    # -- the client's side ------------------------------------------------------------------------------------------

    async def headers(self, request: AuthorizedRequest) -> Mapping[str, str]:
        """Return ``authorization`` (and ``dpop``) for a request; empty without a token or for another origin.

        A token that is about to expire is refreshed first.

        Raises:
            AuthError: the token has expired and could not be refreshed.
        """
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
        """Store the DPoP nonce of a response, and that the token was accepted; called for every response."""
        if "dpop-nonce" in headers:
            self._nonce = headers["dpop-nonce"]
        if status < 400:
            self._is_accepted = True

    async def challenged(self, request: AuthorizedRequest, status: int, headers: Mapping[str, str]) -> bool:
        """Obtain another token after a 401 or 403; return whether to send the request again.

        Raises:
            AuthError: no token that the server accepts could be obtained.
        """
        challenges = parse_challenges(headers.get("www-authenticate"))
        used = request.headers.get("authorization", "").partition(" ")[2] or None
        if status == 401 and any(challenge.error == "use_dpop_nonce" for challenge in challenges):
            return "dpop-nonce" in headers and used is not None
        if status == 403:
            refused = [challenge for challenge in challenges if challenge.error == "insufficient_scope"]
            if not refused:  # not for lack of scope: a wrong Origin, a rule of the server
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
        """Delete the tokens in memory and in the storage, and revoke them where the authorization server supports it.

        A refresh that is running is awaited, and its tokens are revoked as well; a sign-in that is running fails.
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
                logger.info("%s has no revocation endpoint, or refused to revoke the tokens", tokens.issuer)
        except (LocalError, OSError) as error:
            logger.warning("Tokens could not be revoked: %s", error)

    # -- one task at a time -----------------------------------------------------------------------------------------

    async def _single(
        self, used: str | None, work: Callable[[], Awaitable[None]], *, demanded: Sequence[str] | None = None
    ) -> None:
        """Do ``work`` unless another task has replaced the token ``used``, or is replacing it; then wait for that task.

        Args:
            used: the token that was refused or expires; ``None`` without one.
            work: obtains other tokens.
            demanded: scopes that another token must have to make ``work`` unnecessary; ``None`` for none.
        """
        while True:
            tokens = self._tokens
            if tokens is not None and tokens.access_token != used:
                granted = set((tokens.scope or "").split()) | set(tokens.requested or ())
                if demanded is None or set(demanded) <= granted:
                    return
                # Another task's new token lacks the scopes of this one: it must be replaced too.
                used = tokens.access_token
            shared = self._shared_work
            if shared is None:
                break
            await shared.done.wait()
            if shared.error is not None:
                raise shared.error
            if shared.is_complete and demanded is None:
                return
        shared = self._shared_work = _SharedWork()
        try:
            await work()
            shared.is_complete = True
        except Exception as error:
            shared.error = error
            raise
        finally:
            self._shared_work = None
            shared.done.set()

    async def _renewed(self, tokens: TokenSet) -> TokenSet | None:
        """Return tokens that have not expired; ``None`` if only a new sign-in can get some."""

        async def work() -> None:
            await self._renew(tokens)

        await self._single(tokens.access_token, work)
        return self._tokens

    async def _renew(self, tokens: TokenSet) -> None:
        try:
            if await self._refresh(tokens):
                return
        except AuthError as error:
            # A final refusal (RFC 6749, 5.2). 429 and 5xx may end, so that the tokens are kept.
            if isinstance(error, TokenRequestFailed) and 400 <= error.status < 500 and error.status != 429:
                logger.info("The authorization server refused to refresh (%s); a new sign-in is needed", error.error)
                await self._discard(tokens, error)
                return
            if tokens.is_expired(self._oauth.clock()):
                raise
            # Until the token really expires: otherwise each request would try to refresh it again.
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
            self._tokens = None  # without a refresh token the server's challenge starts a new flow

    async def _discard(self, tokens: TokenSet, error: TokenRequestFailed) -> None:
        self._tokens = None
        await self._storage.delete(self._key)
        # The server has deleted the registration; an identity that the program gave cannot be replaced.
        registered = tokens.identity.source == "registered" and tokens.issuer is not None
        if registered and error.error in ("invalid_client", "unauthorized_client"):
            await self._storage.delete(storage_key("client", tokens.issuer or ""))

    async def _refresh(self, tokens: TokenSet) -> bool:
        """Use the refresh token, or tokens that another process has stored; return whether there are new tokens.

        The request runs in its own task: if the caller is cancelled, the rotated refresh token must still be stored. A
        shielded cancel scope would not protect it from asyncio's ``task.cancel()``.
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
            # Under the lock: another process may have rotated the refresh token, which works once only.
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
            # Stored before it is used: after a crash in between, the old refresh token would no longer be valid.
            await self._storage.set(self._key, fresh.to_json())
            if sign_outs != self._sign_outs:  # `sign_out` waits for the lock and then revokes what is stored
                return False
            self._take(fresh)
            return True

    # -- the flows --------------------------------------------------------------------------------------------------

    async def _sign_in(self, used: str | None, challenge: Challenge | None) -> None:
        """Obtain a token after a 401: by a refresh if the server may accept it, else by a new flow."""
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
                    await self._discard(tokens, error)
            elif not self._is_accepted:
                why = None if challenge is None else challenge.parameters.get("error_description")
                said = f": {' '.join(why.split())[:200]}" if why else ""
                self._tokens = None
                await self._storage.delete(self._key)
                raise AuthError(f"{self._origin} refuses the token that its authorization server has just given{said}")
        await self._obtain(challenge, self._requested)

    async def _may_refresh(self, tokens: TokenSet, challenge: Challenge | None) -> bool:
        """Return whether the server still names the token's issuer; a 401 may mean that it has another one now."""
        if tokens.refresh_token is None or not self._is_accepted:
            return False
        hint = None if challenge is None else challenge.resource_metadata
        protected = await self._drive(discover_resource(self._server_url, self._oauth.policy, hint))
        if protected is None or not protected.authorization_servers:
            return True
        return any(is_same_issuer(tokens.issuer or "", issuer) for issuer in protected.authorization_servers)

    async def _step_up(self, challenge: Challenge) -> None:
        """After a 403 for lack of scope: request all scopes together, at most `MAX_STEP_UPS` times for one set."""
        demanded = challenge.scopes or ()
        scopes_needed = frozenset(union_of_scopes(self._requested, self._oauth.scopes, demanded) or ())
        now = self._oauth.clock()
        self._step_ups = [(at, scopes) for at, scopes in self._step_ups if now - at < STEP_UP_WINDOW_S]
        if sum(scopes == scopes_needed for _, scopes in self._step_ups) >= MAX_STEP_UPS:
            raise ScopeRefused(
                f"{self._origin} still refuses after scopes {' '.join(sorted(scopes_needed)) or '(none named)'} were "
                f"requested {MAX_STEP_UPS} times",
                tuple(demanded),
            )
        self._step_ups.append((now, scopes_needed))
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
        # A cancellation here would lose tokens that the server has issued already.
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
        """Run a flow with the client's HTTP and the interaction with the user."""
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
                tokens = None  # the program's client id was changed
        if tokens is not None:
            self._is_accepted = True  # stored tokens were accepted in an earlier run of the program
            self._issuer = tokens.issuer
            self._take(tokens)

    def _take(self, tokens: TokenSet) -> None:
        self._is_loaded = True
        self._tokens = tokens
        self._requested = tokens.requested
        self._dpop_key = None
        lifetime_s = None if tokens.expires_at is None else tokens.expires_at - self._oauth.clock()
        self._leeway_s = 0.0 if lifetime_s is None else min(LEEWAY_S, max(lifetime_s, 0.0) / 10)

    def _choose_issuer(self, issuers: Sequence[str]) -> str:
        """Return the program's choice, else a listed issuer that is bound or in use already, else the first."""
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
