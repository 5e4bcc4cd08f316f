"""`ResourceServer`: protects an MCP server, ``MCPServer(auth=ResourceServer(…))``.

For each request it reads the token from the ``Authorization`` header only, verifies it (the result is cached under the
token's hash, so that the next request costs microseconds), checks the proof of possession of a bound token, and checks
the scopes that every request needs. Scopes of a single operation belong to the application (`scopes=`).

The audience is checked by default: a token for another server is refused (2026-07-28, "Token handling"). The server
must therefore know its own URL as clients use it, with proxy and prefix: ``resource``. Without it the server works on
loopback only, where a ``Host`` header cannot come from another machine.
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
MAX_REMEMBERED: Final = 10_000  # verified tokens; the oldest is removed, which only costs a verification
_NO_TOKEN: Final = "This server needs an access token"


class HttpFacts(Protocol):
    """The members of a request that `ResourceServer` reads."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by lower-case name."""
        ...

    @property
    def scope(self) -> Mapping[str, Any]:
        """The ASGI scope."""
        ...


class _Verification:
    """The verification of a token; other requests with the same token wait for its outcome."""

    __slots__ = ("done", "error")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.error: VerifierUnavailable | None = None


class ResourceServer:
    """Protects an MCP server.

    Args:
        verifiers: an issuer's URL (JWTs, keys discovered), a `TokenVerifier`, or several of them.
        resource: the URL of the MCP endpoint as clients use it; the audience of tokens. ``None``: on loopback the URL
            of each request; elsewhere every request is refused.
        required_scopes: scopes that every request needs.
        scopes_supported: the published scopes that a client should request; ``None`` for ``required_scopes``.
        implies: scope → the scopes that it includes.
        authorization_servers: the published authorization servers; ``None`` for the issuers of the verifiers.
        dpop: the rules for proofs; ``None``: bound tokens need a proof, unbound ones are accepted without one.
        name, documentation: the published name, and the URL of the documentation, for display.
        metadata_url: URL of the metadata for clients; ``None`` derives it from ``resource``.
        remember_s: seconds for which a verified token is cached; at most until it expires.
        clock: returns seconds since the epoch.

    Raises:
        ValueError: there is no verifier, or ``resource`` is not an http(s) URL without query and fragment.
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
        self._verifications: dict[bytes, _Verification] = {}
        self._bearer_only = not self.dpop.is_required

    def __repr__(self) -> str:
        return f"ResourceServer(resource={self.resource!r})"

    def use(self, fetch: Callable[[AuthRequest], Awaitable[AuthResponse]]) -> None:
        """Set the function with which verifiers send requests, on those that have none yet."""
        for verifier in self.verifiers:
            if isinstance(verifier, NeedsFetch) and verifier.fetch is None:
                verifier.fetch = fetch

    # -- one request ------------------------------------------------------------------------------------------------

    async def authenticate(self, facts: HttpFacts) -> Principal:
        """Return the sender of a request.

        Raises:
            AuthRefusal: 400, 401, 403 or 503: the token is missing, malformed, not valid, lacks scopes, or cannot be
                verified; with the headers of the response.
        """
        header = facts.headers.get("authorization")
        if header is None:
            raise self._without_token(facts)
        scheme, _, token = header.partition(" ")
        if scheme != "Bearer" or facts.scope.get("query_string"):
            self._check_form(facts, scheme)
        # A cached result is valid for one audience, and without a fixed resource URL the audience depends on the
        # request: it is part of the key. Everything else that depends on the request is checked each time.
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
        """Refuse a request with another scheme or with a second token in the query (RFC 6750, 2)."""
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
        while (
            verification := self._verifications.get(key)
        ) is not None:  # a new token in several concurrent requests: verify it once
            await verification.done.wait()
            if verification.error is not None:
                raise self._unavailable()
            known = self._known.get(key)
            if known is not None and self._clock() < known[0]:
                return known[1]
        verification = self._verifications[key] = _Verification()
        # On loopback the audience comes from the request's URL; a client may write it with or without final slash.
        names = {audience} if self.resource is not None else {audience, audience.rstrip("/")}
        try:
            principal, trusted_s = await self._judge(token, names)
        except InvalidToken as error:
            raise self._refuse(facts, 401, str(error), error="invalid_token") from None
        except VerifierUnavailable as error:
            verification.error = error
            log.error("A token could not be judged: %s", error)
            raise self._unavailable() from None
        finally:
            del self._verifications[key]
            verification.done.set()
        self._remember(key, principal, trusted_s)
        return principal

    @staticmethod
    def _unavailable() -> AuthRefusal:
        return AuthRefusal(503, "Tokens cannot be verified at the moment", [("retry-after", "5")])

    async def _judge(self, token: str, audience: Collection[str]) -> tuple[Principal, float]:
        reason: AuthError = InvalidToken("The token is not known here")
        for verifier in self._verifiers_of(token):
            try:
                principal = await verifier.verify(token, audience)
            except (
                VerifierUnavailable
            ) as error:  # another verifier may accept it; if none does, "unavailable" is the result
                reason = error
                continue
            # A client discards a token after 401, so that one that might be valid gets 503.
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

    def _verifiers_of(self, token: str) -> Sequence[TokenVerifier]:
        """Return the verifiers for a token: those of the issuer that it names, else all that may know it.

        `TakesAnyToken` verifiers come last, because they send the token to a service.
        """
        candidates = [verifier for verifier in self.verifiers if verifier.may_know(token)]
        if len(candidates) < 2:
            return candidates
        issuer = unverified_claims(token).get("iss")
        named = [verifier for verifier in candidates if issuer in verifier.issuers]
        return named or sorted(
            candidates, key=lambda verifier: isinstance(verifier, TakesAnyToken) and verifier.takes_any_token
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
        # The oldest first: a dict iterates in the order of insertion.
        while len(self._known) >= MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = (until, principal)

    def forget(self) -> None:
        """Clear the cache, so that every token is verified again; for instance after a revocation."""
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
        # A comma: repeated headers were joined (RFC 9449, 4.3, requires exactly one).
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

    # -- refusals ---------------------------------------------------------------------------------------------------

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
        """Return the error for an operation whose scopes the token lacks.

        Args:
            facts: the request; ``None`` outside HTTP.
            scopes: the scopes that the operation needs; the challenge names them and `required_scopes`.
        """
        needed = tuple(dict.fromkeys((*self.required_scopes, *scopes)))
        error = InsufficientScope(needed)
        if facts is not None:
            error.http_headers = self._headers(facts, needed, "insufficient_scope", error.message)
        return error

    def refused_token(self, facts: HttpFacts) -> list[tuple[str, str]]:
        """Return the headers of 401 for a token that was accepted here, and refused by a service behind this one."""
        return self._headers(facts, self.required_scopes, "invalid_token", "The token was refused")

    # -- URL and metadata of this resource --------------------------------------------------------------------------

    def resource_for(self, facts: HttpFacts) -> str | None:
        """Return the URL of this resource; ``None`` if it is unknown.

        Without a configured URL the request's ``Host`` is used, but only a loopback name with the port of the listener:
        any other host is the client's choice.
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
        """Return the URL of this server's metadata for clients; ``None`` if the resource's URL is unknown."""
        if self._metadata_url is not None:
            return self._metadata_url
        resource = self.resource_for(facts)
        if resource is None:
            return None
        path = urlsplit(resource).path.rstrip("/")
        scope = facts.scope
        own = _own_path(scope).rstrip("/")
        # Behind a prefix (a mount, a proxy) only paths below the prefix reach this server, so the document's URL begins
        # with it; without a prefix this is the path form of RFC 9728, 3.1.
        prefix = path.removesuffix(own) if own and path.endswith(own) else ""
        return f"{origin_of(resource)}{prefix}{WELL_KNOWN}{path.removeprefix(prefix)}"

    def document_for(self, facts: HttpFacts, endpoint_path: str) -> tuple[int, bytes, list[tuple[str, str]]] | None:
        """Return status, body and headers for a request for the metadata document; ``None`` for another request.

        It is served at the well-known path alone, with the endpoint's path behind it, and with the resource's whole
        path.

        Args:
            facts: the request.
            endpoint_path: path of the MCP endpoint below the mounting prefix.
        """
        path = _own_path(facts.scope)
        if not path.startswith(WELL_KNOWN):
            return None
        rest = path[len(WELL_KNOWN) :].rstrip("/")
        root = facts.scope.get("root_path", "").rstrip("/")
        endpoint = endpoint_path.rstrip("/")
        if f"{WELL_KNOWN}{rest}" not in (*self.document_paths(endpoint), f"{WELL_KNOWN}{root}{endpoint}"):
            return None
        resource = self.resource or _derived(self, facts, endpoint)
        document = None if resource is None else self.document(resource)
        return metadata_answer(str(facts.scope.get("method")), document)

    def document_paths(self, endpoint_path: str) -> list[str]:
        """Return the paths of the metadata document below the mounting prefix.

        For applications that route by exact paths.

        Args:
            endpoint_path: path of the MCP endpoint below the mounting prefix.
        """
        whole = "" if self.resource is None else urlsplit(self.resource).path.rstrip("/")
        return list(dict.fromkeys([f"{WELL_KNOWN}{rest}" for rest in (endpoint_path.rstrip("/"), whole, "")]))

    def document(self, resource: str | None = None) -> ProtectedResource:
        """Return the metadata of this resource (RFC 9728).

        Raises:
            ValueError: neither ``resource`` nor the server's own URL is set.
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


def metadata_answer(method: str, document: ProtectedResource | None) -> tuple[int, bytes, list[tuple[str, str]]]:
    """Return status, body and headers of the answer to a request for metadata.

    Args:
        method: the method of the request.
        document: the metadata; ``None`` if the URL of the resource is not known.
    """
    headers = [("cache-control", "max-age=300"), ("access-control-allow-origin", "*")]
    if method == "OPTIONS":
        return 204, b"", [*headers, ("access-control-allow-headers", "mcp-protocol-version")]
    if method not in ("GET", "HEAD"):
        return 405, b"", [("allow", "GET, HEAD, OPTIONS")]
    if document is None:
        return 503, encode({"error": "the server does not know its own URL"}), [("cache-control", "no-store")]
    return 200, encode(document), headers


def _derived(server: ResourceServer, facts: HttpFacts, endpoint: str) -> str | None:
    """Return the resource's URL from a request for its metadata."""
    found = server.resource_for(facts)
    if found is None:
        return None
    return f"{origin_of(found)}{facts.scope.get('root_path', '').rstrip('/')}{endpoint}"


def _own_path(scope: Mapping[str, Any]) -> str:
    """Return the path below the mounting prefix; ASGI hosts differ in whether ``path`` includes ``root_path``."""
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
    """Return whether a query has a parameter ``access_token``, percent-encoded or not (RFC 6750, 2.3)."""
    if not query:
        return False
    return any(unquote_to_bytes(pair.partition(b"=")[0]) == b"access_token" for pair in query.split(b"&"))


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]
