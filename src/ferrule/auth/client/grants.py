"""The OAuth grants: authorization code, client credentials, enterprise identity provider (ID-JAG), workload JWT.

A grant is a flow from the result of discovery to a token response. It does not store tokens, and it does not fall back
to another grant when it fails.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable
from urllib.parse import parse_qsl, urlencode, urlsplit

from ferrule.auth.client.discovery import Discovered
from ferrule.auth.client.registration import ClientMetadata, check_document_url, is_usable, register
from ferrule.auth.client.tokens import ClientIdentity, TokenEndpoint, choose_method, request_token
from ferrule.auth.errors import AuthError, AuthorizationDenied, DiscoveryFailed, RegistrationFailed, UntrustedCallback
from ferrule.auth.http import AskUser, AskValue, Flow, OpenRedirect
from ferrule.auth.pkce import challenge_of, new_state, new_verifier
from ferrule.auth.urls import HostClass, UrlPolicy, is_same_issuer

__all__ = [
    "Assertion",
    "AuthorizationCodeGrant",
    "ClientCredentialsGrant",
    "EnterpriseGrant",
    "Grant",
    "GrantContext",
    "Granted",
    "IssuerBound",
    "WorkloadGrant",
    "read_callback",
]

Assertion: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A JWT, or a function that fetches one; called anew for each token request."""

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
ID_JAG_PROFILE: Final = "urn:ietf:params:oauth:grant-profile:id-jag"


@dataclass(slots=True)
class GrantContext:
    """The input of a grant.

    Attributes:
        found: the result of discovery: the resource and the authorization server.
        endpoint: the token endpoint.
        scopes: scopes to request; ``None`` leaves the parameter out.
        policy, host_class: limits on URLs.
        metadata: the metadata of this client, for registration.
        stored: reads the identity that was registered with an issuer earlier.
        remember: stores the identity that was registered with an issuer.
        bound_issuer: the authorization server that has received the program's credentials; ``None`` before that.
    """

    found: Discovered
    endpoint: TokenEndpoint
    scopes: tuple[str, ...] | None
    policy: UrlPolicy
    host_class: HostClass
    metadata: ClientMetadata
    stored: Callable[[str], Awaitable[ClientIdentity | None]]
    remember: Callable[[str, ClientIdentity], Awaitable[None]]
    bound_issuer: str | None = None

    @property
    def scope(self) -> str | None:
        """The scopes as one parameter."""
        return None if self.scopes is None else " ".join(self.scopes)


@dataclass(frozen=True, slots=True)
class Granted:
    """A token response and the client identity that received it.

    Attributes:
        answer: the members of the token response.
        identity: the client identity at that authorization server.
        requested: the scopes that were requested.
    """

    answer: Mapping[str, Any] = field(repr=False)
    identity: ClientIdentity
    requested: tuple[str, ...] | None


class Grant(Protocol):
    """A way to get a token response."""

    @property
    def is_interactive(self) -> bool:
        """Whether a user has to consent."""
        ...

    @property
    def identity(self) -> ClientIdentity | None:
        """The identity that the program gave; ``None`` if it gave none."""
        ...

    def obtain(self, context: GrantContext) -> Flow[Granted]:
        """Get a token response.

        Raises:
            AuthError: this grant failed; no other is tried.
        """
        ...


@runtime_checkable
class IssuerBound(Protocol):
    """A grant whose credentials may belong to one authorization server."""

    @property
    def issuer(self) -> str | None:
        """Identifier of that server; ``None`` binds the credentials to the first one that is used."""
        ...


def _check_issuer(given: str | None, context: GrantContext) -> None:
    """Refuse to send credentials of one authorization server to another (2026-07-28, "Client registration").

    Raises:
        RegistrationFailed: the server names another issuer now.
    """
    expected, named = given or context.bound_issuer, context.found.issuer
    if expected is not None and not is_same_issuer(expected, named):
        raise RegistrationFailed(f"The client's credentials belong to {expected!r}, but the server now names {named!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationCodeGrant:
    """Authorization code with PKCE: a user consents in a browser.

    Attributes:
        identity: credentials from the authorization server's operator; ``None`` registers the client.
        issuer: the authorization server that ``identity`` belongs to; ``None`` binds it to the first one that is used.
        client_metadata_url: URL of the client's metadata document, used as client id where the server supports that.
        redirect_uri: the redirect URI; ``None``: the interaction chooses it.
        offline_access: request the scope ``offline_access`` (refresh tokens) where the server lists it.
    """

    identity: ClientIdentity | None = None
    issuer: str | None = None
    client_metadata_url: str | None = None
    redirect_uri: str | None = None
    offline_access: bool = True
    is_interactive: bool = True

    def __post_init__(self) -> None:
        if self.client_metadata_url is not None:
            check_document_url(self.client_metadata_url)

    def obtain(self, context: GrantContext) -> Flow[Granted]:
        """See `Grant`."""
        server = context.found.server
        if server.authorization_endpoint is None or server.token_endpoint is None:
            raise DiscoveryFailed(f"{server.issuer} has no authorization endpoint")
        if "S256" not in (server.code_challenge_methods_supported or ()):
            raise DiscoveryFailed(f"{server.issuer} does not say that it supports PKCE with S256, so it is not used")
        scopes = self._scopes(context)
        identity, redirect_uri = yield from self._identify(context)
        identity = self._with_method(identity, context)
        verifier, state = new_verifier(), new_state()
        query = {
            "response_type": "code",
            "client_id": identity.client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
            "resource": context.found.resource,
        }
        if scopes:
            query["scope"] = " ".join(scopes)
        if scopes is not None and "offline_access" in scopes:
            query["prompt"] = "consent"  # OpenID Connect, 11: without it offline_access may be ignored
        joint = "&" if "?" in server.authorization_endpoint else "?"
        callback_url: str = yield AskUser(f"{server.authorization_endpoint}{joint}{urlencode(query)}")
        needs_issuer = bool(server.authorization_response_iss_parameter_supported)
        issuer = server.issuer if context.found.has_metadata else None
        code = read_callback(callback_url, state=state, issuer=issuer, needs_issuer=needs_issuer)
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
            "resource": context.found.resource,
        }
        answer = yield from request_token(context.endpoint, identity, fields)
        return Granted(answer, identity, scopes)

    def _scopes(self, context: GrantContext) -> tuple[str, ...] | None:
        """Return the scopes, with ``offline_access`` where it is listed.

        It is not requested alone: a request with any scope loses the server's default scopes.
        """
        scopes, supported = context.scopes, context.found.server.scopes_supported or ()
        if self.offline_access and scopes and "offline_access" in supported and "offline_access" not in scopes:
            return (*scopes, "offline_access")
        return scopes

    def _identify(self, context: GrantContext) -> Flow[tuple[ClientIdentity, str]]:
        found, issuer = context.found, context.found.issuer
        if self.identity is not None:
            _check_issuer(self.issuer, context)
            redirect_uri: str = yield OpenRedirect(self.redirect_uri or self.identity.redirect_uri)
            return self.identity, redirect_uri
        if self.client_metadata_url is not None and found.server.client_id_metadata_document_supported:
            redirect_uri = yield OpenRedirect(self.redirect_uri)
            return ClientIdentity(self.client_metadata_url, source="document"), redirect_uri
        stored: ClientIdentity | None = yield AskValue(lambda: context.stored(issuer))
        if stored is not None and not is_usable(stored, context.endpoint.now):
            stored = None
        preferred = self.redirect_uri or (None if stored is None else stored.redirect_uri)
        redirect_uri = yield OpenRedirect(preferred)
        if stored is not None and stored.redirect_uri == redirect_uri:
            return stored, redirect_uri
        made = yield from register(
            found,
            context.policy,
            context.host_class,
            context.metadata,
            redirect_uri,
            now=context.endpoint.now,
        )
        yield AskValue(lambda: context.remember(issuer, made))
        return made, redirect_uri

    def _with_method(self, identity: ClientIdentity, context: GrantContext) -> ClientIdentity:
        if identity.source == "registered":
            return identity
        return choose_method(identity, context.found.server.token_endpoint_auth_methods_supported)


def read_callback(url: str, *, state: str, issuer: str | None, needs_issuer: bool) -> str:
    """Return the authorization code of an authorization response (RFC 6749, 4.1.2; RFC 9207).

    Args:
        url: the redirect URL with the response, or only its query.
        state: the ``state`` of the request.
        issuer: identifier from the metadata that were read before the request; ``None`` without metadata.
        needs_issuer: the metadata declare that responses have ``iss``.

    Raises:
        UntrustedCallback: ``state`` or ``iss`` is missing or wrong, or a parameter is repeated or missing. No value of
            the response has been used.
        AuthorizationDenied: the response is an error.
    """
    query = urlsplit(url).query if "?" in url else url.strip()
    values: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in values and name in ("code", "state", "iss", "error"):
            raise UntrustedCallback(f"The authorization response names {name} more than once")
        values[name] = value
    if not hmac.compare_digest(values.get("state", "").encode(), state.encode()):
        raise UntrustedCallback("The authorization response has another state than the request")
    said = values.get("iss")
    if said is None and needs_issuer:
        raise UntrustedCallback("The authorization response does not name its issuer, which its server promises")
    if said is not None and issuer is not None and said != issuer:  # RFC 9207, 2.4: simple string comparison
        raise UntrustedCallback(f"The authorization response comes from another issuer than {issuer!r}")
    if "error" in values:
        code = values["error"][:64]
        detail = " ".join(values.get("error_description", "").split())[:200]
        raise AuthorizationDenied(f"Authorization was denied ({code}){f': {detail}' if detail else ''}", error=code)
    if not values.get("code"):
        raise UntrustedCallback("The authorization response holds no code")
    return values["code"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentialsGrant:
    """Client credentials: a program acts for itself (SEP-1046). It never registers.

    Attributes:
        identity: credentials with a secret or a private key.
        issuer: the authorization server that they belong to; ``None`` accepts the one that the MCP server names.
    """

    identity: ClientIdentity
    issuer: str | None = None
    is_interactive: bool = False

    def obtain(self, context: GrantContext) -> Flow[Granted]:
        """See `Grant`."""
        _check_issuer(self.issuer, context)
        identity = choose_method(self.identity, context.found.server.token_endpoint_auth_methods_supported)
        fields = {
            "grant_type": "client_credentials",
            "scope": context.scope,
            "resource": context.found.resource,
        }
        answer = yield from request_token(context.endpoint, identity, fields)
        return Granted(answer, identity, context.scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadGrant:
    """A JWT of the platform is the credential (RFC 7523; SEP-1933). A refusal is final.

    Attributes:
        assertion: the JWT.
        identity: for authorization servers that require a client id as well.
        issuer: the only authorization server that may receive the assertion; ``None`` accepts the one that the MCP
            server names.
    """

    assertion: Assertion = field(repr=False)
    identity: ClientIdentity | None = None
    issuer: str | None = None
    is_interactive: bool = False

    def obtain(self, context: GrantContext) -> Flow[Granted]:
        """See `Grant`."""
        _check_issuer(self.issuer, context)
        identity = self.identity or ClientIdentity("")
        if identity.client_id:
            identity = choose_method(identity, context.found.server.token_endpoint_auth_methods_supported)
        assertion = yield from _value_of(self.assertion)
        fields = {
            "grant_type": JWT_BEARER,
            "assertion": assertion,
            "scope": context.scope,
            "resource": context.found.resource,
        }
        answer = yield from request_token(context.endpoint, identity, fields)
        return Granted(answer, identity, context.scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterpriseGrant:
    """Enterprise-managed authorization (SEP-990): an ID token is exchanged for an ID-JAG, and that for an access token.

    Attributes:
        idp_token_endpoint: token endpoint of the identity provider. The program sets it, so its host is not checked.
        idp_identity: client identity at the identity provider.
        subject_token: the ID token of the user's single sign-on.
        subject_token_type: ``id_token`` or ``refresh_token``, or a whole URN.
        identity: client identity at the MCP server's authorization server.
        idp_issuer: identifier of the identity provider; audience of client assertions.
        issuer: the MCP server's authorization server; ``None`` accepts the one that the MCP server names.
    """

    idp_token_endpoint: str
    idp_identity: ClientIdentity
    subject_token: Assertion = field(repr=False)
    identity: ClientIdentity
    subject_token_type: str = "id_token"
    idp_issuer: str | None = None
    issuer: str | None = None
    is_interactive: bool = False

    def obtain(self, context: GrantContext) -> Flow[Granted]:
        """See `Grant`."""
        _check_issuer(self.issuer, context)
        server = context.found.server
        profiles = server.authorization_grant_profiles_supported
        if profiles is not None and ID_JAG_PROFILE not in profiles:
            raise AuthError(f"{server.issuer} does not take identity assertions (ID-JAG)")
        jag = yield from self._exchange(context)
        identity = choose_method(self.identity, server.token_endpoint_auth_methods_supported)
        fields = {
            "grant_type": JWT_BEARER,
            "assertion": jag,
            "scope": context.scope,
            "resource": context.found.resource,
        }
        answer = yield from request_token(context.endpoint, identity, fields)
        return Granted(answer, identity, context.scopes)

    def _exchange(self, context: GrantContext) -> Flow[str]:
        kind = self.subject_token_type
        subject_token = yield from _value_of(self.subject_token)
        own = TokenEndpoint(
            self.idp_token_endpoint, self.idp_issuer, context.policy, HostClass.LOOPBACK, context.endpoint.now
        )
        fields = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": context.found.issuer,
            "resource": context.found.resource,
            "scope": context.scope,
            "subject_token": subject_token,
            "subject_token_type": kind if ":" in kind else f"urn:ietf:params:oauth:token-type:{kind}",
        }
        answer = yield from request_token(own, choose_method(self.idp_identity, None), fields)
        if answer.get("issued_token_type", ID_JAG) != ID_JAG:
            raise AuthError("The identity provider gave another kind of token than an ID-JAG")
        return str(answer["access_token"])


def _value_of(value: Assertion) -> Flow[str]:
    if callable(value):
        found: Any = yield AskValue(value)
        if not isinstance(found, str) or not found:
            raise AuthError("The function that fetches an assertion gave no text")
        return found
    return value
