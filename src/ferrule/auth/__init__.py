"""Authorization: tokens for a client, protection for a server, and a small authorization server for tests.

The names of this package are loaded on first use; cryptography is imported when a key or a signature is needed, from
the extra ``ferrule[auth]``. Flows are generators of HTTP requests: nothing in this package opens a connection.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.auth.client.interaction import BrowserInteraction as BrowserInteraction
    from ferrule.auth.client.interaction import CallbackInteraction as CallbackInteraction
    from ferrule.auth.client.interaction import PasteInteraction as PasteInteraction
    from ferrule.auth.client.oauth import OAuth as OAuth
    from ferrule.auth.client.programs import ClientCredentials as ClientCredentials
    from ferrule.auth.client.programs import EnterpriseManaged as EnterpriseManaged
    from ferrule.auth.client.programs import WorkloadIdentity as WorkloadIdentity
    from ferrule.auth.client.registration import ClientMetadata as ClientMetadata
    from ferrule.auth.client.registration import client_metadata_document as client_metadata_document
    from ferrule.auth.client.storage import EncryptedFileStorage as EncryptedFileStorage
    from ferrule.auth.client.storage import KeyringStorage as KeyringStorage
    from ferrule.auth.client.storage import MemoryStorage as MemoryStorage
    from ferrule.auth.client.storage import TokenStorage as TokenStorage
    from ferrule.auth.errors import AuthError as AuthError
    from ferrule.auth.issuer.app import DemoIssuer as DemoIssuer
    from ferrule.auth.issuer.provider import MemoryProvider as MemoryProvider
    from ferrule.auth.issuer.provider import RegisteredClient as RegisteredClient
    from ferrule.auth.server.dpop import DpopPolicy as DpopPolicy
    from ferrule.auth.server.introspection import IntrospectedTokens as IntrospectedTokens
    from ferrule.auth.server.jwt_tokens import JwtTokens as JwtTokens
    from ferrule.auth.server.principal import Principal as Principal
    from ferrule.auth.server.refusals import InsufficientScope as InsufficientScope
    from ferrule.auth.server.resource_server import ResourceServer as ResourceServer
    from ferrule.auth.server.verifiers import InvalidToken as InvalidToken
    from ferrule.auth.server.verifiers import StaticTokens as StaticTokens
    from ferrule.auth.server.verifiers import TokenVerifier as TokenVerifier
    from ferrule.auth.urls import UrlPolicy as UrlPolicy

# Public name -> the module that defines it.
_MODULES: dict[str, str] = {
    "AuthError": "ferrule.auth.errors",
    "BrowserInteraction": "ferrule.auth.client.interaction",
    "CallbackInteraction": "ferrule.auth.client.interaction",
    "ClientCredentials": "ferrule.auth.client.programs",
    "ClientMetadata": "ferrule.auth.client.registration",
    "DemoIssuer": "ferrule.auth.issuer.app",
    "DpopPolicy": "ferrule.auth.server.dpop",
    "EncryptedFileStorage": "ferrule.auth.client.storage",
    "EnterpriseManaged": "ferrule.auth.client.programs",
    "InsufficientScope": "ferrule.auth.server.refusals",
    "IntrospectedTokens": "ferrule.auth.server.introspection",
    "InvalidToken": "ferrule.auth.server.verifiers",
    "JwtTokens": "ferrule.auth.server.jwt_tokens",
    "KeyringStorage": "ferrule.auth.client.storage",
    "MemoryProvider": "ferrule.auth.issuer.provider",
    "MemoryStorage": "ferrule.auth.client.storage",
    "OAuth": "ferrule.auth.client.oauth",
    "PasteInteraction": "ferrule.auth.client.interaction",
    "Principal": "ferrule.auth.server.principal",
    "RegisteredClient": "ferrule.auth.issuer.provider",
    "ResourceServer": "ferrule.auth.server.resource_server",
    "StaticTokens": "ferrule.auth.server.verifiers",
    "TokenStorage": "ferrule.auth.client.storage",
    "TokenVerifier": "ferrule.auth.server.verifiers",
    "UrlPolicy": "ferrule.auth.urls",
    "WorkloadIdentity": "ferrule.auth.client.programs",
    "client_metadata_document": "ferrule.auth.client.registration",
}

__all__ = [
    "AuthError",
    "BrowserInteraction",
    "CallbackInteraction",
    "ClientCredentials",
    "ClientMetadata",
    "DemoIssuer",
    "DpopPolicy",
    "EncryptedFileStorage",
    "EnterpriseManaged",
    "InsufficientScope",
    "IntrospectedTokens",
    "InvalidToken",
    "JwtTokens",
    "KeyringStorage",
    "MemoryProvider",
    "MemoryStorage",
    "OAuth",
    "PasteInteraction",
    "Principal",
    "RegisteredClient",
    "ResourceServer",
    "StaticTokens",
    "TokenStorage",
    "TokenVerifier",
    "UrlPolicy",
    "WorkloadIdentity",
    "client_metadata_document",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module, once."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'ferrule.auth' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return all public names, loaded or not."""
    return sorted({*globals(), *__all__})
