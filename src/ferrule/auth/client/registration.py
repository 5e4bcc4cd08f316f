"""The client's identity at an authorization server: pre-registered, a metadata document, or dynamic registration.

The order (2026-07-28, "Client registration"): an identity that the program gave; the URL of the client's metadata
document where the server supports those; dynamic registration where the server has an endpoint; else an error that
names what to configure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from ferrule.auth.client.discovery import Discovered
from ferrule.auth.client.tokens import METHODS, ClientIdentity
from ferrule.auth.errors import RegistrationFailed
from ferrule.auth.http import AuthRequest, AuthResponse, Flow, json_body
from ferrule.auth.urls import HostClass, UrlPolicy, class_of_host

__all__ = ["ClientMetadata", "check_document_url", "client_metadata_document", "register"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetadata:
    """The client's metadata in a registration request (RFC 7591, 2).

    Attributes:
        name: shown to the user on the consent page.
        uri, logo_uri, contacts, software_id, software_version: for display.
        application_type: ``"native"`` for a program on the user's machine, ``"web"`` for one on a server; ``None``
            derives it from the redirect URI (a loopback host or private scheme is native).
        extra: further members of the registration request.
    """

    name: str = "Ferrule"
    uri: str | None = None
    logo_uri: str | None = None
    contacts: tuple[str, ...] = ()
    software_id: str | None = None
    software_version: str | None = None
    application_type: Literal["native", "web"] | None = None
    extra: Mapping[str, Any] | None = None

    def to_request(self, redirect_uris: list[str], *, method: str) -> dict[str, Any]:
        """Return the members of a registration request (RFC 7591, 2).

        ``scope`` is left out: some servers (oidc-provider) refuse every scope that a client did not register, and the
        scopes of a later step-up are not known yet. ``extra`` can add it.

        Args:
            redirect_uris: the redirect URIs to register; at least one.
            method: the value of ``token_endpoint_auth_method``.
        """
        members: dict[str, Any] = {
            "client_name": self.name,
            "client_uri": self.uri,
            "logo_uri": self.logo_uri,
            "contacts": list(self.contacts) or None,
            "software_id": self.software_id,
            "software_version": self.software_version,
            "application_type": self.application_type or kind_of_application(redirect_uris[0]),
            "redirect_uris": redirect_uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            **(self.extra or {}),
        }
        return {name: value for name, value in members.items() if value is not None}


def kind_of_application(redirect_uri: str) -> Literal["native", "web"]:
    """Return the ``application_type`` for a redirect URI.

    OpenID Connect servers refuse a loopback redirect URI for the type ``web``, which is their default.
    """
    parts = urlsplit(redirect_uri)
    if parts.scheme not in ("http", "https") or class_of_host(parts.hostname or "") is HostClass.LOOPBACK:
        return "native"
    return "web"


def client_metadata_document(
    url: str, redirect_uris: list[str], metadata: ClientMetadata | None = None
) -> dict[str, Any]:
    """Return the metadata document to publish at ``url``, which then is the client id (SEP-991).

    Args:
        url: the URL of the document: https, with a path.
        redirect_uris: all redirect URIs that the client may use; those of loopback hosts without port.
        metadata: the name and further members; ``None`` takes the defaults.

    Raises:
        ValueError: the URL cannot be a client id.
    """
    check_document_url(url)
    members = (metadata or ClientMetadata()).to_request(redirect_uris, method="none")
    return {"client_id": url, **members}


def check_document_url(url: str) -> None:
    """Check that a URL can be a client id (SEP-991).

    Raises:
        ValueError: it is not https, has no path, or has a fragment or credentials.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.netloc or parts.path in ("", "/") or parts.fragment or "@" in parts.netloc:
        raise ValueError("The URL of a client metadata document is https, has a path, and no fragment or credentials")


def register(
    found: Discovered,
    policy: UrlPolicy,
    host_class: HostClass,
    metadata: ClientMetadata,
    redirect_uri: str,
    *,
    now: float,
) -> Flow[ClientIdentity]:
    """Register the client dynamically (RFC 7591), and return its identity.

    If the server refuses the metadata or the redirect URI, the other ``application_type`` is tried once.

    Raises:
        RegistrationFailed: there is no registration endpoint, or it refused.
        UnsafeUrl: the endpoint may not be used.
    """
    endpoint = found.server.registration_endpoint
    if endpoint is None:
        raise RegistrationFailed(
            f"{found.issuer} has no dynamic registration; give client_id= (and client_secret=) from its operator, "
            "or client_metadata_url="
        )
    policy.check(endpoint, host_class)
    method = _auth_method(found.server.token_endpoint_auth_methods_supported)
    members = metadata.to_request([redirect_uri], method=method)
    for attempt in range(2):
        response: AuthResponse = yield AuthRequest(
            "POST",
            endpoint,
            {"content-type": "application/json", "accept": "application/json"},
            json_body(members),
            host_class=host_class,
            timeout_s=max(policy.timeout_s, 30.0),
        )
        answer = response.json() or {}
        if response.status in (200, 201) and isinstance(answer.get("client_id"), str):
            return _identity(answer, members, redirect_uri, now)
        error = answer.get("error")
        code = error[:64] if isinstance(error, str) else None
        if attempt or code not in ("invalid_client_metadata", "invalid_redirect_uri"):
            why = f"({code})" if code else f"with HTTP {response.status}"
            raise RegistrationFailed(f"{endpoint.partition('?')[0]} refused to register this client {why}", error=code)
        members["application_type"] = "web" if members.get("application_type") == "native" else "native"
    raise AssertionError


def _auth_method(supported: list[str] | None) -> str:
    """Return the authentication method to register: none if possible, since a native program cannot keep a secret."""
    if supported is None or "none" in supported:
        return "none"
    for method in ("client_secret_basic", "client_secret_post"):
        if method in supported:
            return method
    return "none"


def _identity(answer: dict[str, Any], sent: dict[str, Any], redirect_uri: str, now: float) -> ClientIdentity:
    secret = answer.get("client_secret")
    secret = secret if isinstance(secret, str) and secret else None
    method = answer.get("token_endpoint_auth_method", sent["token_endpoint_auth_method"])
    if method not in METHODS or method == "private_key_jwt":
        method = "none"
    if secret is None:
        method = "none"
    elif method == "none" and "token_endpoint_auth_method" not in answer:
        method = "client_secret_basic"  # the default for a client with a secret (RFC 7591, 2)
    expires = answer.get("client_secret_expires_at")
    registered = answer.get("redirect_uris")
    if isinstance(registered, list) and registered and redirect_uri not in registered:
        raise RegistrationFailed("The authorization server registered other redirect URIs than it was asked to")
    return ClientIdentity(
        answer["client_id"],
        secret,
        method,
        redirect_uri=redirect_uri,
        secret_expires_at=_moment(expires),
        source="registered",
    )


def _moment(value: Any) -> float:
    """Return ``client_secret_expires_at`` in seconds since the epoch; 0 (never) for values that are not a time."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return found if 0 < found < 1e11 else 0.0


def is_usable(identity: ClientIdentity, now: float) -> bool:
    """Return whether a stored registration's secret is valid for another 60 s at least."""
    return not identity.secret_expires_at or now < identity.secret_expires_at - 60
