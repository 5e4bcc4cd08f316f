"""Metadata documents of a protected resource (RFC 9728) and of an authorization server (RFC 8414, OpenID Connect
Discovery).

Unknown members are ignored, and so is an informative member of a wrong type (such as ``scopes_supported``). A URL or a
security member of a wrong type is an error that names it: without it a client would use another server, or less
protection.
"""

from __future__ import annotations

import logging
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import fields

from ferrule.auth.errors import DiscoveryFailed
from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError

__all__ = ["AuthorizationServer", "ProtectedResource", "read_authorization_server", "read_protected_resource"]

logger = logging.getLogger("ferrule.auth")

StructT = TypeVar("StructT", bound=Struct)


class ProtectedResource(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Metadata of a protected resource (RFC 9728, 2).

    Attributes:
        resource: the identifier of the resource.
        authorization_servers: the issuers whose tokens it accepts.
        scopes_supported: the scopes that a client should request.
        dpop_bound_access_tokens_required: whether it accepts DPoP-bound tokens only.
    """

    resource: str
    authorization_servers: list[str] = []
    scopes_supported: list[str] | None = None
    bearer_methods_supported: list[str] | None = None
    resource_name: str | None = None
    resource_documentation: str | None = None
    dpop_signing_alg_values_supported: list[str] | None = None
    dpop_bound_access_tokens_required: bool | None = None


class AuthorizationServer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Metadata of an authorization server (RFC 8414, 2, and what later documents added)."""

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    introspection_endpoint: str | None = None
    jwks_uri: str | None = None
    scopes_supported: list[str] | None = None
    response_types_supported: list[str] | None = None
    response_modes_supported: list[str] | None = None
    grant_types_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    token_endpoint_auth_signing_alg_values_supported: list[str] | None = None
    revocation_endpoint_auth_methods_supported: list[str] | None = None
    introspection_endpoint_auth_methods_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    client_id_metadata_document_supported: bool | None = None
    authorization_response_iss_parameter_supported: bool | None = None
    authorization_grant_profiles_supported: list[str] | None = None
    dpop_signing_alg_values_supported: list[str] | None = None


_HINTS: Final = frozenset(
    {
        "bearer_methods_supported",
        "dpop_signing_alg_values_supported",
        "grant_types_supported",
        "introspection_endpoint",
        "introspection_endpoint_auth_methods_supported",
        "resource_documentation",
        "resource_name",
        "response_modes_supported",
        "response_types_supported",
        "revocation_endpoint_auth_methods_supported",
        "scopes_supported",
        "token_endpoint_auth_signing_alg_values_supported",
    }
)
_PLACES: Final = ("authorization_servers", "authorization_endpoint", "token_endpoint", "registration_endpoint")


def read_protected_resource(document: dict[str, Any]) -> ProtectedResource | None:
    """Return a document as metadata of a protected resource; ``None`` if it is another kind of document.

    Raises:
        DiscoveryFailed: a needed member has a wrong type, or ``resource`` is missing.
    """
    return _read(document, "resource", ProtectedResource)


def read_authorization_server(document: dict[str, Any]) -> AuthorizationServer | None:
    """Return a document as metadata of an authorization server; ``None`` if it is another kind of document.

    Raises:
        DiscoveryFailed: a needed member has a wrong type, or ``issuer`` is missing.
    """
    return _read(document, "issuer", AuthorizationServer)


def _read(document: dict[str, Any], name: str, type_: type[StructT]) -> StructT | None:
    if name not in document:
        for member in _PLACES:
            if member in document:  # endpoints without an issuer: an error, after which no other document is tried
                raise DiscoveryFailed(f"The metadata name {member!r} and lack {name!r}")
        return None
    try:
        return convert(document, type_)
    except ConvertError:
        pass
    kept: dict[str, Any] = {}
    for field in fields(type_):
        member = field.encode_name
        if member not in document:
            continue
        try:
            kept[member] = convert(document[member], field.type)
        except ConvertError as error:
            if member not in _HINTS:
                of = f" of {document[name][:200]!r}" if isinstance(document[name], str) else ""
                raise DiscoveryFailed(f"The metadata{of} have a wrong {member!r}: {error}") from None
            logger.warning(
                "The metadata of %.200r have a wrong %r, which is ignored: %s", document[name], member, error
            )
    return convert(kept, type_)
