"""The metadata documents that a client reads: of a protected resource (RFC 9728) and of its authorization server
(RFC 8414, OpenID Connect Discovery). Unknown members are ignored; members of a wrong type make the document useless.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError

__all__ = ["AuthorizationServer", "ProtectedResource", "read_authorization_server", "read_protected_resource"]


class ProtectedResource(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Metadata of a protected resource (RFC 9728, 2).

    Attributes:
        resource: its identifier.
        authorization_servers: issuers whose tokens it takes.
        scopes_supported: the minimal set of scopes worth asking for.
        dpop_bound_access_tokens_required: takes DPoP-bound tokens only.
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


def read_protected_resource(document: dict[str, Any]) -> ProtectedResource | None:
    """The document's meaning; ``None`` if it is no such document."""
    try:
        return convert(document, ProtectedResource)
    except ConvertError:
        return None


def read_authorization_server(document: dict[str, Any]) -> AuthorizationServer | None:
    """The document's meaning; ``None`` if it is no such document."""
    try:
        return convert(document, AuthorizationServer)
    except ConvertError:
        return None
