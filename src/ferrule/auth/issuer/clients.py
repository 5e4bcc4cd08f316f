"""Registration, metadata documents and authentication of clients."""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode
from typing import Any
from urllib.parse import unquote, urlsplit

from ferrule.auth.client.registration import check_document_url
from ferrule.auth.http import Flow, get_json
from ferrule.auth.issuer.provider import RegisteredClient
from ferrule.auth.issuer.settings import Denied, IssuerRequest, IssuerSettings, Reply, json_reply
from ferrule.auth.urls import HostClass, UrlPolicy, class_of_host
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_list, is_object

__all__ = ["authenticate_client", "match_redirect", "read_document", "register"]

METHODS = ("none", "client_secret_basic", "client_secret_post")


def match_redirect(client: RegisteredClient, redirect_uri: str | None) -> str | None:
    """Return the redirect URI to use; ``None`` if it is not registered for the client.

    URIs are compared as text. Only the port of a loopback address may differ, because native programs listen on any
    free port (RFC 8252, 7.3).
    """
    if redirect_uri is None:
        return client.redirect_uris[0] if len(client.redirect_uris) == 1 else None
    if redirect_uri in client.redirect_uris:
        return redirect_uri
    if not is_redirect(redirect_uri):  # a URI that could not be registered, for instance one with a fragment
        return None
    portless = _without_loopback_port(redirect_uri)
    if portless is not None and portless in {_without_loopback_port(known) for known in client.redirect_uris}:
        return redirect_uri
    return None


def _without_loopback_port(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme != "http" or class_of_host(host) is not HostClass.LOOPBACK or "@" in parts.netloc:
        return None
    return f"http://{host}{parts.path}?{parts.query}"


def is_redirect(url: Any) -> bool:
    """Return whether a URL may be registered as redirect URI: https, loopback http, or a private scheme with a dot."""
    if not isinstance(url, str) or "#" in url or not all("!" <= char <= "~" for char in url):
        return False  # RFC 3986 allows ASCII only, and the URL becomes a header
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(parts.hostname) and "@" not in parts.netloc
    return _without_loopback_port(url) is not None or "." in parts.scheme


async def register(settings: IssuerSettings, request: IssuerRequest) -> Reply:
    """Register a client and return the response of the registration endpoint (RFC 7591).

    Raises:
        Denied: the body is not a JSON object, or a member is not valid.
    """
    try:
        members = decode(request.body)
    except DecodeError:
        members = None
    if not is_object(members):
        raise Denied("invalid_client_metadata", "The body is not a JSON object")
    redirects = members.get("redirect_uris")
    if not is_list(redirects) or not redirects or not all(is_redirect(uri) for uri in redirects):
        raise Denied("invalid_redirect_uri", "redirect_uris are https, loopback http, or of a private scheme")
    method = members.get("token_endpoint_auth_method", "client_secret_basic")
    if method not in METHODS:
        raise Denied("invalid_client_metadata", "token_endpoint_auth_method is not supported")
    grants = members.get("grant_types", ["authorization_code"])
    if not is_list(grants) or not set(map(str, grants)) <= {"authorization_code", "refresh_token"}:
        raise Denied("invalid_client_metadata", "grant_types are authorization_code and refresh_token")
    client = RegisteredClient(
        f"client-{secrets.token_urlsafe(12)}",
        None if method == "none" else secrets.token_urlsafe(32),
        tuple(redirects),
        str(members.get("client_name", ""))[:200],
        tuple(map(str, grants)),
        method,
        members,
    )
    await settings.provider.save_client(client)
    answer = {
        **{name: value for name, value in members.items() if name not in ("client_secret", "client_secret_expires_at")},
        "client_id": client.client_id,
        "client_id_issued_at": int(settings.clock()),
        "token_endpoint_auth_method": method,
    }
    if client.secret is not None:
        answer |= {"client_secret": client.secret, "client_secret_expires_at": 0}
    return json_reply(answer, 201)


def read_document(url: str, policy: UrlPolicy) -> Flow[RegisteredClient]:
    """Fetch the client whose id is the URL of its metadata document (SEP-991).

    Raises:
        Denied: the document cannot be fetched, or does not describe this client.
    """
    try:
        check_document_url(url)
    except ValueError as error:
        raise Denied("invalid_client", str(error), status=401) from None
    document = yield from get_json(url, policy, HostClass.PRIVATE if policy.allow_private else HostClass.PUBLIC)
    if document is None or document.get("client_id") != url:
        raise Denied("invalid_client", "The client's metadata document does not name its own URL", status=401)
    redirects = document.get("redirect_uris")
    if not is_list(redirects) or not redirects or not all(is_redirect(uri) for uri in redirects):
        raise Denied("invalid_client", "The client's metadata document has no usable redirect_uris", status=401)
    if document.get("token_endpoint_auth_method", "none") != "none":
        raise Denied("invalid_client", "Clients with a document are public clients here", status=401)
    return RegisteredClient(url, None, tuple(redirects), str(document.get("client_name", ""))[:200], metadata=document)


def authenticate_client(client: RegisteredClient | None, request: IssuerRequest) -> RegisteredClient:
    """Return the client of a request after a check of its credentials (RFC 6749, 2.3).

    Raises:
        Denied: the client is unknown or its credentials are wrong.
    """
    given, secret = credentials_of(request)
    if client is None or client.client_id != given:
        raise _not_this_client(request)
    if client.secret is None:
        if secret:
            raise _not_this_client(request)
        return client
    if not hmac.compare_digest(client.secret.encode(), (secret or "").encode()):
        raise _not_this_client(request)
    return client


def credentials_of(request: IssuerRequest) -> tuple[str | None, str | None]:
    """Return client id and secret of a request, from HTTP basic or from the form.

    Raises:
        Denied: both are used, or the header is malformed.
    """
    header = request.headers.get("authorization", "")
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return request.form.get("client_id"), request.form.get("client_secret")
    if "client_secret" in request.form:
        raise Denied("invalid_request", "The client uses two authentication methods")
    try:
        name, _, secret = b64decode(value, validate=True).decode().partition(":")
    except ValueError:
        raise _not_this_client(request) from None
    return unquote(name), unquote(secret)


def _not_this_client(request: IssuerRequest) -> Denied:
    headers = [("www-authenticate", 'Basic realm="token"')] if "authorization" in request.headers else []
    return Denied("invalid_client", "The client is unknown or its credentials are wrong", status=401, headers=headers)
