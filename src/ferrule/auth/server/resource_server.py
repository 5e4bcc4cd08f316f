"""`ResourceServer`: protection of an MCP server in one object, ``MCPServer(auth=ResourceServer(…))``.

For each request: the token out of the ``Authorization`` header and out of nowhere else, its verification (kept by the
token's hash, so that the next request with it costs microseconds), the proof of possession where it is bound to a key,
the scopes that every request needs. What each operation needs beyond that is the application's (`scopes=`).

The audience is checked by default: a token for another server is worth nothing here (2026-07-28, "Token handling"). So
the server must know its own name, ``resource``: the URL that clients use, proxy and prefix included. Without it the
server works on loopback only, where nobody else's ``Host`` header can reach it.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, cast
from urllib.parse import unquote_to_bytes, urlsplit

import anyio

from ferrule.auth.documents import ProtectedResource
from ferrule.auth.dpop_proof import InvalidProof
from ferrule.auth.errors import AuthError
from ferrule.auth.http import AuthRequest, AuthResponse
from ferrule.auth.server.dpop import DpopPolicy, NonceNeeded
from ferrule.auth.server.jwt_tokens import JwtTokens, unverified_claims
from ferrule.auth.server.principal import Principal
from ferrule.auth.server.refusals import AuthRefusal, InsufficientScope, challenge_headers
from ferrule.auth.server.verifiers import (
    InvalidToken,
    NeedsFetch,
    RemembersFor,
    TakesAnyToken,
    TokenVerifier,
    VerifierUnavailable,
)
from ferrule.auth.urls import HostClass, class_of_host, origin_of
from ferrule.wire.codec import encode

__all__ = ["HttpFacts", "ResourceServer"]

log = logging.getLogger("ferrule.auth")

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
MAX_REMEMBERED: Final = 10_000
_NO_TOKEN: Final = "This server needs an access token"


class HttpFacts(Protocol):
    """What is looked at of a request."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Lower-case names."""
        ...

    @property
    def scope(self) -> Mapping[str, Any]:
        """The ASGI scope."""
        ...


class _Flight:
    """A token that is being judged; others with the same one wait for the verdict."""

    __slots__ = ("done", "error")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.error: VerifierUnavailable | None = None


class ResourceServer:
    """Protects an MCP server.

    Args:
        verifiers: what judges tokens: an issuer's URL (JWTs, keys discovered), a `TokenVerifier`, or several.
        resource: the URL of the MCP endpoint as clients use it; tokens must be meant for it. ``None``: on loopback the
            URL of each request, elsewhere every request is refused.
        required_scopes: that every request needs.
        scopes_supported: published as the scopes worth asking for; ``None``: the required ones.
        implies: scope to the scopes that it includes.
        authorization_servers: published; ``None``: the verifiers' issuers.
        dpop: how proofs are judged; ``None``: bound tokens are taken with their proof, unbound ones without.
        name, documentation: published for people.
        metadata_url: where clients find the metadata, when it is neither of the places that this server knows.
        remember_s: seconds that a verified token is not verified again; it is never trusted beyond its own end.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        verifiers: str | TokenVerifier | Sequence[str | TokenVerifier],
        *,
        resource: str | None = None,
        required_scopes: Sequence[str] = (),
        scopes_supported: Sequence[str] | None = None,
        implies: Mapping[str, Sequence[str]] | None = None,
        authorization_servers: Sequence[str] | None = None,
        dpop: DpopPolicy | None = None,
        name: str | None = None,
        documentation: str | None = None,
        metadata_url: str | None = None,
        remember_s: float = 300.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        one = isinstance(verifiers, str) or not isinstance(verifiers, Iterable)
        given = cast("Sequence[str | TokenVerifier]", [verifiers] if one else verifiers)
        self.verifiers: list[TokenVerifier] = [
            JwtTokens(verifier) if isinstance(verifier, str) else verifier for verifier in given
        ]
        if not self.verifiers:
            raise ValueError("A ResourceServer needs something that judges tokens")
        if resource is not None:
            _check_resource(resource)
        self.resource = resource
        self.required_scopes = tuple(required_scopes)
        self.dpop = dpop or DpopPolicy(clock=clock)
        self._scopes_supported = scopes_supported
        self._implies = {scope: tuple(implied) for scope, implied in (implies or {}).items()}
        self._servers = authorization_servers
        self._name = name
        self._documentation = documentation
        self._metadata_url = metadata_url
        self._remember_s = remember_s
        self._clock = clock
        self._known: dict[bytes, tuple[float, Principal]] = {}
        self._flights: dict[bytes, _Flight] = {}
        self._bearer_only = not self.dpop.is_required

    def __repr__(self) -> str:
        return f"ResourceServer(resource={self.resource!r})"

    def use(self, fetch: Callable[[AuthRequest], Awaitable[AuthResponse]]) -> None:
        """Give the verifiers what they fetch keys and ask with, where they have nothing yet."""
        for verifier in self.verifiers:
            if isinstance(verifier, NeedsFetch) and verifier.fetch is None:
                verifier.fetch = fetch

    # -- one request ------------------------------------------------------------------------------------------------

    async def authenticate(self, facts: HttpFacts) -> Principal:
        """Who sent this request.

        Raises:
            AuthRefusal: nobody who may; with status and headers of the answer.
        """
        header = facts.headers.get("authorization")
        if header is None:
            raise self._without_token(facts)
        scheme, _, token = header.partition(" ")
        if scheme != "Bearer" or facts.scope.get("query_string"):
            self._check_form(facts, scheme)
        # A verdict holds for the audience that it was reached for: where the resource's URL is not fixed, it is part
        # of the key. All that depends on the request and not on the token is judged each time.
        audience = self.resource or self._audience(facts)
        key = hashlib.sha256(f"{token}\n{audience}".encode("latin-1", "replace")).digest()
        known = self._known.get(key)
        principal = known[1] if known is not None and self._clock() < known[0] else None
        if principal is None:
            principal = await self._verified(facts, token.lstrip(" "), audience, key)
        if scheme != "Bearer" or principal.confirmation is not None or not self._bearer_only:
            await self._check_possession(facts, scheme, token.lstrip(" "), principal)
        if not principal.scopes.issuperset(self.required_scopes):
            raise self._lacks_scope(facts)
        return principal

    def _check_form(self, facts: HttpFacts, scheme: str) -> None:
        """Whether the request holds one token, in the one place for it."""
        if scheme.lower() not in ("bearer", "dpop"):
            raise self._without_token(facts)
        if _names_token(facts.scope.get("query_string", b"")):
            text = "The request holds more than one token"
            raise self._refuse(facts, 400, text, error="invalid_request")

    def _without_token(self, facts: HttpFacts) -> AuthRefusal:
        if _names_token(facts.scope.get("query_string", b"")):
            text = "A token belongs in the Authorization header, never in the URL"
            return self._refuse(facts, 401, text, error="invalid_request")
        return self._refuse(facts, 401, _NO_TOKEN)

    async def _verified(self, facts: HttpFacts, token: str, audience: str, key: bytes) -> Principal:
        if not token or not token.isascii() or any(char <= " " or char in ',"\\' for char in token):
            raise self._refuse(facts, 400, "The Authorization header is malformed", error="invalid_request")
        while (flight := self._flights.get(key)) is not None:  # the same new token, many times at once
            await flight.done.wait()
            if flight.error is not None:
                raise self._unavailable()
            known = self._known.get(key)
            if known is not None and self._clock() < known[0]:
                return known[1]
        flight = self._flights[key] = _Flight()
        # What a client was told to send on loopback may end with a slash or not.
        names = {audience} if self.resource is not None else {audience, audience.rstrip("/")}
        try:
            principal, trusted_s = await self._judge(token, names)
        except InvalidToken as error:
            raise self._refuse(facts, 401, str(error), error="invalid_token") from None
        except VerifierUnavailable as error:
            flight.error = error
            log.error("A token could not be judged: %s", error)
            raise self._unavailable() from None
        finally:
            del self._flights[key]
            flight.done.set()
        self._remember(key, principal, trusted_s)
        return principal

    @staticmethod
    def _unavailable() -> AuthRefusal:
        return AuthRefusal(503, "Tokens cannot be verified at the moment", [("retry-after", "5")])

    async def _judge(self, token: str, audience: Collection[str]) -> tuple[Principal, float]:
        reason: AuthError = InvalidToken("The token is not known here")
        for verifier in self._judges_of(token):
            try:
                principal = await verifier.verify(token, audience)
            except VerifierUnavailable as error:  # another may know the token; if none does, this one might
                reason = error
                continue
            except InvalidToken as error:
                if not isinstance(reason, VerifierUnavailable):
                    reason = error
                continue
            if principal.expires_at is not None and self._clock() >= principal.expires_at:
                reason = InvalidToken("The token has expired")
                continue
            if not principal.token:
                principal = replace(principal, token=token)
            remember_s = verifier.remember_s if isinstance(verifier, RemembersFor) else self._remember_s
            return self._with_implied(principal), remember_s
        raise reason

    def _judges_of(self, token: str) -> Sequence[TokenVerifier]:
        """Who is asked about a token: the verifiers of the issuer that it names; else whoever may know it, and those
        last that would ask elsewhere about any token."""
        knowing = [verifier for verifier in self.verifiers if verifier.may_know(token)]
        if len(knowing) < 2:
            return knowing
        issuer = unverified_claims(token).get("iss")
        named = [verifier for verifier in knowing if issuer in verifier.issuers]
        return named or sorted(
            knowing, key=lambda verifier: isinstance(verifier, TakesAnyToken) and verifier.takes_any_token
        )

    def _with_implied(self, principal: Principal) -> Principal:
        if not self._implies:
            return principal
        found, queue = set(principal.scopes), list(principal.scopes)
        while queue:
            for scope in self._implies.get(queue.pop(), ()):
                if scope not in found:
                    found.add(scope)
                    queue.append(scope)
        return replace(principal, scopes=frozenset(found))

    def _remember(self, key: bytes, principal: Principal, trusted_s: float) -> None:
        now = self._clock()
        until = now + min(trusted_s, self._remember_s)
        if principal.expires_at is not None:
            until = min(until, principal.expires_at)
        if until <= now:
            return
        while len(self._known) >= MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = (until, principal)

    def forget(self) -> None:
        """Verify every token again, for instance because one was revoked."""
        self._known.clear()

    async def _check_possession(self, facts: HttpFacts, scheme: str, token: str, principal: Principal) -> None:
        lowered = scheme.lower()
        bound_to = principal.confirmation
        if bound_to is None:
            if self.dpop.is_required:
                raise self._refuse(facts, 401, "The token must be bound to a key (DPoP)", error="invalid_token")
            if lowered == "dpop":
                raise self._refuse(facts, 401, "The token is not bound to a key", error="invalid_token")
            return
        if lowered != "dpop":
            text = "The token is bound to a key and needs the DPoP scheme"
            raise self._refuse(facts, 401, text, error="invalid_token")
        proof = facts.headers.get("dpop")
        if not proof or "," in proof:
            text = "The request needs one DPoP proof"
            raise self._refuse(facts, 401, text, error="invalid_dpop_proof")
        url = self.resource_for(facts) or ""
        try:
            await self.dpop.check(proof, facts.scope["method"], url, token, bound_to)
        except NonceNeeded as error:
            refusal = self._refuse(facts, 401, _sentence(error), error="use_dpop_nonce")
            refusal.headers += [("dpop-nonce", self.dpop.nonce()), ("cache-control", "no-store")]
            raise refusal from None
        except InvalidProof as error:
            raise self._refuse(facts, 401, _sentence(error), error="invalid_dpop_proof") from None

    # -- refusing ---------------------------------------------------------------------------------------------------

    def _refuse(self, facts: HttpFacts, status: int, text: str, *, error: str | None = None) -> AuthRefusal:
        return AuthRefusal(status, text, self._headers(facts, self.required_scopes, error, text if error else None))

    def _headers(
        self, facts: HttpFacts, scopes: Sequence[str], error: str | None, description: str | None
    ) -> list[tuple[str, str]]:
        schemes = ["DPoP"] if self.dpop.is_required else ["Bearer"]
        if error in ("invalid_dpop_proof", "use_dpop_nonce"):
            schemes = ["DPoP"]
        return challenge_headers(
            metadata_url=self.metadata_url_for(facts),
            scopes=scopes or self._scopes_supported,
            error=error,
            description=description,
            schemes=schemes,
            dpop_algorithms=self.dpop.algorithms,
        )

    def _lacks_scope(self, facts: HttpFacts) -> AuthRefusal:
        text = f"Every request here needs the scope {' '.join(self.required_scopes)}"
        headers = self._headers(facts, self.required_scopes, "insufficient_scope", text)
        return AuthRefusal(403, text, headers)

    def insufficient_scope(self, facts: HttpFacts | None, scopes: Sequence[str]) -> InsufficientScope:
        """The error for an operation whose scopes the token lacks; its challenge names all that the operation needs."""
        needed = tuple(dict.fromkeys((*self.required_scopes, *scopes)))
        error = InsufficientScope(needed)
        if facts is not None:
            error.http_headers = self._headers(facts, needed, "insufficient_scope", error.message)
        return error

    # -- what this server is called ---------------------------------------------------------------------------------

    def resource_for(self, facts: HttpFacts) -> str | None:
        """The URL of this resource; ``None`` when it is not known.

        What a request says about its host is believed on loopback only, and there only for the port that it came in on.
        """
        if self.resource is not None:
            return self.resource
        scope = facts.scope
        host = facts.headers.get("host", "")
        parts = urlsplit(f"//{host}")
        server = scope.get("server") or ("", 0)
        try:
            port = parts.port or {"https": 443}.get(scope.get("scheme", "http"), 80)
        except ValueError:
            return None
        if class_of_host(parts.hostname or "") is not HostClass.LOOPBACK or port != server[1]:
            return None
        return f"{scope.get('scheme', 'http')}://{host}{_whole_path(scope)}"

    def _audience(self, facts: HttpFacts) -> str:
        found = self.resource_for(facts)
        if found is None:
            log.error("ResourceServer(resource=…) is not set, so no token can be meant for this server")
            raise AuthRefusal(503, "This server does not know its own URL, so it cannot accept tokens")
        return found

    def metadata_url_for(self, facts: HttpFacts) -> str | None:
        """Where this server's metadata are, as its clients see it."""
        if self._metadata_url is not None:
            return self._metadata_url
        resource = self.resource_for(facts)
        if resource is None:
            return None
        path = urlsplit(resource).path.rstrip("/")
        scope = facts.scope
        own = _own_path(scope).rstrip("/")
        # Below a prefix (a mount, a proxy) only what is below it leads here, so that is where the document is said to
        # be; with no prefix this is the path form of RFC 9728, 3.1.
        prefix = path.removesuffix(own) if own and path.endswith(own) else ""
        return f"{origin_of(resource)}{prefix}{WELL_KNOWN}{path.removeprefix(prefix)}"

    def document_for(self, facts: HttpFacts, endpoint_path: str) -> tuple[int, bytes, list[tuple[str, str]]] | None:
        """The metadata document, if a request asks for it; ``None`` if it asks for something else.

        Served at the well-known path alone, with the endpoint's path after it, and with the resource's whole path.

        Args:
            endpoint_path: of the MCP endpoint below the mounting prefix.
        """
        path = _own_path(facts.scope)
        if not path.startswith(WELL_KNOWN):
            return None
        rest = path[len(WELL_KNOWN) :].rstrip("/")
        root = facts.scope.get("root_path", "").rstrip("/")
        endpoint = endpoint_path.rstrip("/")
        if f"{WELL_KNOWN}{rest}" not in (*self.document_paths(endpoint), f"{WELL_KNOWN}{root}{endpoint}"):
            return None
        headers = [("cache-control", "max-age=300"), ("access-control-allow-origin", "*")]
        method = facts.scope.get("method")
        if method == "OPTIONS":
            return 204, b"", [*headers, ("access-control-allow-headers", "mcp-protocol-version")]
        if method not in ("GET", "HEAD"):
            return 405, b"", [("allow", "GET, HEAD, OPTIONS")]
        resource = self.resource or _derived(self, facts, endpoint)
        if resource is None:
            return 503, encode({"error": "the server does not know its own URL"}), [("cache-control", "no-store")]
        return 200, encode(self.document(resource)), headers

    def document_paths(self, endpoint_path: str) -> list[str]:
        """Where the metadata document is, below the mounting prefix: for host applications that route by exact paths.

        Args:
            endpoint_path: of the MCP endpoint below the mounting prefix.
        """
        whole = "" if self.resource is None else urlsplit(self.resource).path.rstrip("/")
        return list(dict.fromkeys([f"{WELL_KNOWN}{rest}" for rest in (endpoint_path.rstrip("/"), whole, "")]))

    def document(self, resource: str | None = None) -> ProtectedResource:
        """The metadata of this resource (RFC 9728).

        Raises:
            ValueError: neither here nor at the server its URL is known.
        """
        resource = resource or self.resource
        if resource is None:
            raise ValueError("The URL of the resource is not known")
        servers = list(self._servers) if self._servers is not None else self._issuers()
        supported = self.required_scopes if self._scopes_supported is None else self._scopes_supported
        scopes = [scope for scope in supported if scope != "offline_access"]
        return ProtectedResource(
            resource=resource,
            authorization_servers=servers,
            scopes_supported=scopes or None,
            bearer_methods_supported=["header"],
            resource_name=self._name,
            resource_documentation=self._documentation,
            dpop_signing_alg_values_supported=list(self.dpop.algorithms),
            dpop_bound_access_tokens_required=True if self.dpop.is_required else None,
        )

    def _issuers(self) -> list[str]:
        return list(dict.fromkeys(issuer for verifier in self.verifiers for issuer in verifier.issuers))


def _derived(server: ResourceServer, facts: HttpFacts, endpoint: str) -> str | None:
    """The resource's URL from a request for its metadata."""
    found = server.resource_for(facts)
    if found is None:
        return None
    return f"{origin_of(found)}{facts.scope.get('root_path', '').rstrip('/')}{endpoint}"


def _own_path(scope: Mapping[str, Any]) -> str:
    """The path below the mounting prefix; hosts differ in what ``path`` holds."""
    path, root = str(scope.get("path", "")), str(scope.get("root_path", "")).rstrip("/")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _whole_path(scope: Mapping[str, Any]) -> str:
    path, root = str(scope.get("path", "")), str(scope.get("root_path", "")).rstrip("/")
    whole = path if not root or path.startswith(f"{root}/") else f"{root}{path}"
    return whole.rstrip("/") if whole != "/" else ""


def _check_resource(resource: str) -> None:
    parts = urlsplit(resource)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment or parts.query:
        raise ValueError("resource is the http(s) URL of the MCP endpoint, without query and fragment")


def _names_token(query: bytes) -> bool:
    """Whether a query holds a parameter ``access_token``, however it is spelled (RFC 6750, 2.3)."""
    if not query:
        return False
    return any(unquote_to_bytes(pair.partition(b"=")[0]) == b"access_token" for pair in query.split(b"&"))


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]
